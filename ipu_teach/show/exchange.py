"""The view `exchange`: which tile sends which amount of data to which tile, exchange by exchange.

On the left is a matrix whose columns are senders and whose rows are receivers. The bars above the
matrix are the sums by sender, and the bars beside it are the sums by receiver. On the right is one
tile with its communication partners. A text names the pattern of the exchange, by the rules of the
function `pattern`. Bytes are counted where they arrive: a message to several tiles is sent once,
but its bytes count at each of these tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report import Recording, Report
from ipu_teach.show import palette
from ipu_teach.show.content import Carried, report_of, with_content
from ipu_teach.show.palette import Code
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import At, checked, linked, resting, step_name, titled
from ipu_teach.show.scene import Bar, Drawing, Matrix, Partners, Scene, Still, Table, number
from ipu_teach.show.view import View, fitting
from ipu_teach.types import Array

# The maximum number of rows and columns. With more tiles, several tiles share a row.
MOST_BINS = 64
MOST_EXCHANGES = 40
USUAL = 0.95  # The fraction of pairs that must fit the pattern "neighbours" or "shift".
# The codes of the view `exchange`. The codes 1 to 5 stand for ranges of bytes.
NOTHING, MARGIN, LINK = 0, 6, 7
LINKS = replace(palette.LINKS, name="over a link between IPUs", pattern="")
SIDE = 272.0


def exchange(run: Report | Recording, *, at: At = None, largest: int | None = None) -> View:
    """Which tile sends how much to which, and in what pattern?

    The view shows each exchange of a run as a matrix of senders and receivers, and names its
    pattern. For a recording, a text also lists the recorded elements in the messages of the first
    execution. Bytes are counted where they arrive. A text also shows the number of bytes that are
    sent, which is smaller if a message is sent to several tiles.

    The patterns are:

    * one pair, one to many, many to one, one to one: the numbers of senders and receivers;
    * fan-out: each receiver has one sender; fan-in: each sender has one receiver;
    * neighbours: all tiles send equally far, in both directions; shift: in one direction;
    * ring: all tiles, or all IPUs, send equally far around a circle;
    * all to all: each tile of the exchange sends to each other tile of it;
    * many to many: none of these.

    On a machine of more than 64 tiles, several tiles share a column and a row. At most 40 exchanges
    are shown: those in which the most bytes arrive in one execution. Fewer are shown if the scene
    would be larger than 150 kB. A note below the picture says what is left out.

    `at` is where the picture rests: the number of a superstep of the run, or the name of a step. By
    default, it rests at the exchange in which the most bytes arrive during the run or, with several
    IPUs, the most bytes from other IPUs.

    `largest` is the number of bytes that is drawn in the darkest colour. By default, it is the
    largest number of bytes in a square of the matrix; a smaller value of `largest` is raised to
    this number. So pictures with the same value of `largest` can be compared, unless the value had
    to be raised in one of them.

    :raises InvalidOptionError: if `run` is neither a report nor a recording, if nothing has run, if
        no tile sends to another, if no frame shows `at`, or if `largest` is not a positive whole
        number.
    """
    if largest is not None and not (is_whole(largest) and largest > 0):
        raise InvalidOptionError(
            f"show.exchange() was given largest={shown(largest)}, which is not a positive whole "
            "number.",
            next_step="give the number of bytes for the darkest colour, such as largest=1024.",
        )
    source_report, texts = report_of(run, once=True)
    report = checked(source_report, "exchange")
    exchanges = _exchanges(report)
    if not exchanges:
        raise InvalidOptionError("""show.exchange() was given a run in which no tile sends data to
            another tile.
            next:  run a program whose vertices read elements of other tiles; show.tiles(tensor)
            shows the tile of each element.""")
    scene_of = partial(_scene, report, exchanges, texts, at, largest)
    return fitting(scene_of, MOST_EXCHANGES, min_frames=2)


@dataclass(frozen=True, eq=False)
class Exchange:
    """One exchange of a compiled step.

    Attributes:
        name: the kind and the name of the step.
        step: the number of the compiled step.
        runs: how often the step ran.
        cycles: the modelled cycles of one execution.
        slowest_tiles: the tiles whose exchange takes `cycles` cycles.
        transfers: the messages as they are sent: each message once, even if it has several
            receivers.
        sender, receiver: the tiles of each message; a message to several tiles has several entries.
        size_bytes: the bytes of each entry, which arrive at its receiver.
        number: the index of the exchange among the exchanges of its step.
    """

    name: str
    step: int
    runs: int
    cycles: float
    slowest_tiles: Array
    transfers: Transfers
    sender: Array
    receiver: Array
    size_bytes: Array
    number: int

    @property
    def total(self) -> int:
        """The number of bytes that arrive in one execution."""
        return int(self.size_bytes.sum())

    @property
    def arriving(self) -> int:
        """The number of bytes that arrive in all executions."""
        return self.runs * self.total

    def between(self, tiles_per_ipu: int) -> int:
        """Return the number of bytes that arrive from another IPU in one execution.

        The result is 0 if `tiles_per_ipu` is 0, which means that there is a single IPU.
        """
        if not tiles_per_ipu:
            return 0
        crosses = self.sender // tiles_per_ipu != self.receiver // tiles_per_ipu
        return int(self.size_bytes[crosses].sum())

    def rank(self, tiles_per_ipu: int) -> tuple[int, int]:
        """Return the sort key: (bytes that arrive from other IPUs, all bytes that arrive).

        Both numbers are sums over all executions. The first number is 0 on a single IPU.
        """
        return self.runs * self.between(tiles_per_ipu), self.arriving


def _exchanges(report: Report) -> list[Exchange]:
    """Return the exchanges between tiles in all compiled steps that ran, sorted by step."""
    exchanges = []
    numbers, runs = np.unique(report.step_numbers, return_counts=True)
    for step, times in zip(numbers.tolist(), runs.tolist(), strict=True):
        name = step_name(report, step)
        sent = report.transfers(step)
        for phase in report.phases(step):
            sends = sent[phase.exchange] if phase.exchange >= 0 else ()
            if len(sends) and isinstance(sends, Transfers) and phase.busy is not None:
                counts = [len(receivers) for receivers in sends.receivers]
                columns = (np.repeat(column, counts) for column in (sends.source, sends.size))
                sender, size_bytes = columns
                receiver = np.concatenate(sends.receivers)
                slowest_tiles = np.flatnonzero(phase.busy == phase.busy.max())
                executed = (name, step, times, phase.cycles, slowest_tiles)
                rows = (sender, receiver, size_bytes)
                exchanges.append(Exchange(*executed, sends, *rows, phase.exchange))
    return exchanges


def pattern(source: Array, to: Array, tiles_per_ipu: int = 0) -> tuple[str, str]:
    """Return `(name, meaning)` of the pattern in which tiles `source[i]` send to tiles `to[i]`.

    `tiles_per_ipu` is 0 if there is only one IPU. The first rule that fits gives the name:

    * one pair: one sender and one receiver;
    * one to many: one sender; many to one: one receiver;
    * all to all: each tile of the exchange sends to each other tile of it;
    * ring over IPUs: each IPU sends only to the next IPU of the ring, or each IPU sends to both the
      next and the previous IPU;
    * ring: the gaps between the tiles of the exchange are equal, and each tile sends equally far
      around the circle, in one direction or in both;
    * neighbours: each sender sends to all tiles of the exchange at the same few distances, in both
      directions; shift: each sender sends to one tile, at the same distance. One pair in twenty may
      deviate, and `meaning` says how many pairs do;
    * one to one: no tile sends to two tiles or receives from two tiles;
    * fan-out: each receiver has one sender; fan-in: each sender has one receiver;
    * many to many: none of these. The meaning says to how many tiles a sender sends.
    """
    pairs = np.unique(np.stack((source, to)), axis=1)
    senders, receivers_of_sender = np.unique(pairs[0], return_counts=True)
    receivers = np.unique(pairs[1])
    sending = counted(len(senders), "tile")
    receiving = counted(len(receivers), "tile")
    if len(senders) == len(receivers) == 1:
        return "one pair", f"tile {senders[0]} sends to tile {receivers[0]}"
    if len(senders) == 1:
        return "one to many", f"tile {senders[0]} sends to {receiving}"
    if len(receivers) == 1:
        return "many to one", f"{sending} send to tile {receivers[0]}"
    everybody = np.union1d(senders, receivers)
    n = len(everybody)
    if pairs.shape[1] == n * (n - 1) and n > 2:
        return "all to all", f"each of {counted(n, 'tile')} sends to all others"
    if tiles_per_ipu and (ring := ring_of_ipus(pairs // tiles_per_ipu)):
        whom = "both its neighbours" if "both" in ring else "the next one"
        return f"ring over IPUs {ring}", f"each IPU sends to {whom}"
    gaps = np.diff(everybody)
    distances, others = _usual(pairs[1] - pairs[0])
    # Distances are counted around a circle that consists of the tiles that take part.
    steps, others_round = _usual(np.diff(np.searchsorted(everybody, pairs), axis=0)[0] % n)
    if n > 2 and not others_round and pairs.shape[1] == n * len(steps) and not np.ptp(gaps):
        far = [int(gaps[0]) * (d if 2 * d <= n else d - n) for d in steps]
        if sum(far) in (far[0], 0):
            return "ring", f"{sending} send to {_far(far, tiles_per_ipu)}, all round"
    if distances and set(distances) == {-d for d in distances}:
        targets = np.add.outer(distances, senders)
        others += int(np.isin(targets, everybody).sum()) - (pairs.shape[1] - others)
        if others <= (1 - USUAL) * pairs.shape[1]:
            where = _far(distances, tiles_per_ipu)
            return "neighbours", f"{sending} send to {where}{_except(others)}"
    if len(distances) == 1:
        return "shift", f"{sending} send to {_far(distances, tiles_per_ipu)}{_except(others)}"
    if pairs.shape[1] == len(senders) == len(receivers):
        return "one to one", f"each of {sending} sends to one, and none receives from two"
    if pairs.shape[1] == len(receivers):
        return "fan-out", f"{sending} send to {receiving}, each of which receives from one"
    if pairs.shape[1] == len(senders):
        return "fan-in", f"each of {sending} sends to one of {receiving}"
    fewest, most = int(receivers_of_sender.min()), int(receivers_of_sender.max())
    between = " or " if most == fewest + 1 else " to "
    number_of_tiles = f"{fewest:,}" + f"{between}{most:,}" * (fewest < most)
    return "many to many", f"{sending} send to {receiving}, each to {number_of_tiles} of them"


def ring_of_ipus(pairs: Array) -> str:
    """Return the IPUs of a ring, in order, as a string, or "" if there is no ring.

    In a ring, each IPU sends only to the next IPU, or each IPU sends to both the next and the
    previous IPU. `pairs` is int[2, pairs]: the sending and the receiving IPU of each pair.
    """
    after: dict[int, set[int]] = {}
    for source, target in pairs.T.tolist():
        after.setdefault(source, set()).add(target)
    both = all(len(to) == 2 and all(i in after.get(j, ()) for j in to) for i, to in after.items())
    if len(after) < (4 if both else 3) or not (both or all(len(to) == 1 for to in after.values())):
        return ""
    ring = [min(after)]
    while onward := after[ring[-1]] - set(ring):
        ring.append(max(onward))  # PopLibs calls this direction clockwise.
        if ring[-1] not in after:
            return ""
    is_ring = len(ring) == len(after) and ring[0] in after[ring[-1]]
    return ", ".join(map(str, ring)) + ", both ways" * both if is_ring else ""


def _usual(distances: Array) -> tuple[list[int], int]:
    """Return `(usual, others)`: up to four distances that cover at least 95 % of the pairs.

    `others` is the number of pairs that have another distance. If no four distances cover 95 % of
    the pairs, `usual` is [].
    """
    values, counts = np.unique(distances, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:4]
    enough = np.flatnonzero(np.cumsum(counts[order]) >= USUAL * len(distances))
    usual = order[: enough[0] + 1] if len(enough) else order[:0]
    return sorted(values[usual].tolist()), len(distances) - int(counts[usual].sum())


def _far(distances: list[int], tiles_per_ipu: int) -> str:
    """Describe the tiles at these distances, such as "the tile 3 further on".

    On several IPUs, the description names IPUs instead of tiles if all distances are multiples of
    `tiles_per_ipu`.
    """
    same = bool(tiles_per_ipu) and not any(d % tiles_per_ipu for d in distances)
    far = [f"{d // tiles_per_ipu if same else d}" for d in sorted({abs(d) for d in distances})]
    if same:
        if len(distances) > 1:
            which = "next to theirs" if far == ["1"] else f"{' and '.join(far)} away"
            return f"the tiles at the same places on the IPUs {which}"
        if far == ["1"]:
            which = "next" if distances[0] > 0 else "previous"
            return f"the tile at the same place on the {which} IPU"
        way = "further on" if distances[0] > 0 else "further back"
        return f"the tile at the same place {far[0]} IPUs {way}"
    if len(distances) > 1:
        return "the tiles " + ("next to them" if far == ["1"] else f"{' and '.join(far)} away")
    return f"the tile {far[0]} {'further on' if distances[0] > 0 else 'further back'}"


def _except(others: int) -> str:
    """Return words about the pairs that deviate from a pattern: ", except for 1 pair", or ""."""
    return f", except for {counted(others, 'pair')}" if others else ""


def _still(
    exchange: Exchange,
    binned: tuple[Array, Array],
    bounds: Array,
    drawn: tuple[int, int, float],
    per_ipu: int,
) -> Still:
    """Return the still of an exchange.

    `binned` is the pair (bytes, messages) with an entry for each square of the matrix. `bounds`
    are the numbers of bytes that separate the colours. `drawn` is the entry of `Still.lanes` with
    the bars beside the matrix.
    """
    sizes, messages = binned
    code = np.where(sizes > 0, 1 + np.searchsorted(bounds, sizes), NOTHING)
    return Still(
        exchange.name + (f", {exchange.runs:,} times" if exchange.runs > 1 else ""),
        _note(exchange, per_ipu),
        MARGIN,
        exchange.cycles,
        first=True,
        cells={"matrix": (code, 1, NOTHING)},
        lanes={"matrix": drawn},
        say="{bytes} bytes in {messages} messages",
        values={"bytes": sizes, "messages": messages},
    )


def _matrix(num_ipus: int, tiles: int, *, per_ipu: int, per_bin: int, bins: int) -> Matrix:
    """Return the matrix of `bins` x `bins` cells. A row or a column stands for `per_bin` tiles."""
    return Matrix(
        "matrix",
        "bytes from a tile to a tile"
        if per_bin == 1
        else f"bytes between groups of {per_bin} tiles",
        count=bins**2,
        bins=bins,
        tiles=tiles,
        each=per_bin,
        ticks=_ticks(num_ipus, per_bin, bins),
        ipu=per_ipu // per_bin,
        link=LINK if per_ipu else 0,
    )


def _with_elements(scene: Scene, report: Report, texts: Carried, picked: list[Exchange]) -> Scene:
    """Return a copy of the scene that also lists the recorded elements in the messages.

    `picked` are the exchanges of the scene, and `texts` has the lists of elements.
    """
    first = dict[tuple[int, int], tuple[int, int]]()
    for n, which in texts:
        first.setdefault((int(report.step_numbers[n]), which), (n, which))
    keys = ((which, (exchange.step, exchange.number)) for which, exchange in enumerate(picked))
    return with_content(scene, texts, {which: first[key] for which, key in keys if key in first})


def _scene(
    report: Report,
    every: list[Exchange],
    texts: Carried,
    at: At,
    largest: int | None,
    maximum: int,
) -> Scene:
    """Return the scene of the `maximum` exchanges in which the most bytes arrive."""
    tiles = report.target.num_tiles
    per_ipu = report.target.tiles_per_ipu if report.target.num_ipus > 1 else 0
    per_bin = -(-tiles // MOST_BINS)
    while per_ipu % per_bin:  # All tiles of a row belong to the same IPU.
        per_bin += 1
    bins = -(-tiles // per_bin)
    usual = set(sorted(range(len(every)), key=lambda i: -every[i].total)[:maximum])
    picked = [exchange for i, exchange in enumerate(every) if i in usual]
    matrices = [_binned(exchange, per_bin, bins) for exchange in picked]
    most = max(int(sizes.max()) for sizes, _ in matrices)
    bounds = np.unique([max(1, -(-max(most, largest or 0) // part)) for part in (16, 8, 4, 2, 1)])
    panels = Panels()
    panels.notes = _notes(len(picked), len(every), per_bin)
    stills = []
    for exchange, binned in zip(picked, matrices, strict=True):
        number_of_drawing = len(panels.drawings)
        panels.drawings.append(_margins(binned[0], bins))
        drawn = (number_of_drawing, 0, panels.drawings[-1].span)
        stills.append(_still(exchange, binned, bounds, drawn, per_ipu))
    matrix = _matrix(report.target.num_ipus, tiles, per_ipu=per_ipu, per_bin=per_bin, bins=bins)
    panels.put(matrix, left=64, right=64 + SIDE, down=44, high=SIDE)
    panels.put(Partners("partners", of="matrix"), left=424, high=SIDE + 44)
    parts = {exchange.step: i for i, exchange in reversed(list(enumerate(picked)))}
    poster = max(range(len(picked)), key=lambda i: picked[i].rank(per_ipu))
    if at is not None:
        poster = resting("exchange", stills, report, at, parts=parts)
    scene = panels.scene(
        "exchange",
        titled(report, _title(picked[poster], per_ipu)),
        _sentence(every, picked[poster], stills[poster].note, tiles),
        foot=44,
        codes=(*_codes(bounds), LINKS),
        stills=stills,
        table=_table(every, per_ipu),
        poster=poster,
        group="exchange",
    )
    scene = _with_elements(scene, report, texts, picked)
    return linked(scene, report, parts=parts)


def _notes(shown_count: int, count: int, per_bin: int) -> list[str]:
    """Return the notes: how bytes are counted, and what the picture leaves out or merges."""
    notes = [
        "Bytes are counted where they arrive: a message to several tiles is sent once, and counts "
        "at each of them. Cycles are modelled."
    ]
    if shown_count < count:
        notes.append(
            f"The picture shows the {shown_count} of {count} exchanges in which most bytes arrive."
        )
    if per_bin > 1:
        notes.append(f"A row and a column stand for up to {per_bin} tiles: the sum of their bytes.")
    return notes


def _margins(sizes: Array, bins: int) -> Drawing:
    """Return the bars beside the matrix: the bytes that each column sends and each row receives."""
    table = sizes.reshape(bins, bins)
    delivered = table.sum(axis=0)
    received = table.sum(axis=1)
    bars = (Bar(MARGIN, 0, delivered, 0), Bar(MARGIN, 0, received, 0))
    return Drawing(int(max(delivered.max(), received.max())), bars, "bytes")


def _ticks(ipus: int, per_bin: int, bins: int) -> tuple[str, ...]:
    """Return the labels along the matrix: IPU numbers or, on a single IPU, tile numbers."""
    if ipus > 1:
        return tuple(f"{i}" for i in range(0, ipus, -(-ipus // 6)))
    if bins >= 8:
        return tuple(f"{per_bin * (bins * i // 4):,}" for i in range(4))
    return tuple(f"{i}" for i in range(bins))


def _binned(exchange: Exchange, per_bin: int, bins: int) -> tuple[Array, Array]:
    """Return `(bytes, messages)` of each square of the matrix, both int64[bins * bins].

    A square stands for the messages from the tiles of its column to the tiles of its row.
    """
    cell = exchange.receiver // per_bin * bins + exchange.sender // per_bin
    sizes = np.bincount(cell, exchange.size_bytes, bins**2).astype(np.int64)
    return sizes, np.bincount(cell, minlength=bins**2).astype(np.int64)


def _codes(bounds: Array) -> tuple[Code, ...]:
    """Return the codes for no bytes, for ranges of bytes, and for the bars beside the matrix.

    There are up to five ranges, which end at `bounds`.
    """
    shades = palette.FILL[5 - len(bounds) : 5]
    steps = [
        shade.lettered(f"{i + 1}", f"up to {bound:,} bytes")
        for i, (bound, shade) in enumerate(zip(bounds.tolist(), shades, strict=True))
    ]
    unused = [palette.REST] * (5 - len(steps))
    margin = palette.BYTES.lettered("B", "bytes by sender, above, and by receiver, beside")
    return (palette.PAPER, *steps, *unused, margin)


def _note(exchange: Exchange, per_ipu: int) -> str:
    """Describe an exchange: its pattern, its bytes, and its busiest and slowest tiles."""
    name, meaning = pattern(exchange.sender, exchange.receiver, per_ipu)
    transfers = exchange.transfers
    pairs = len(np.unique(np.stack((exchange.sender, exchange.receiver)), axis=1).T)
    several = pairs != len(transfers) and name != "one to many"
    over = exchange.between(per_ipu)
    how_many = "all" if over == exchange.total else f"{over:,} of them"
    sent = int(transfers.size.sum())
    of_bytes = (
        f" of {counted(sent, 'byte')} to several tiles"
        if len(transfers) == 1
        else f" ({counted(sent, 'byte')} together, some to several tiles)"
    )
    of_bytes *= sent < exchange.total
    last = exchange.slowest_tiles
    who = f"tile {last[0]} is" if len(last) == 1 else f"{len(last):,} tiles are"
    delivered = np.bincount(exchange.sender, exchange.size_bytes).astype(np.int64)
    received = np.bincount(exchange.receiver, exchange.size_bytes).astype(np.int64)
    return (
        f"{name}, {meaning}: {exchange.total:,} bytes arrive from "
        f"{counted(len(transfers), 'message')}{of_bytes}"
        f"{f', between {pairs:,} pairs of tiles' * several}"
        f"{f', {how_many} over links between IPUs' * bool(over)}; "
        f"most are sent {_most(delivered, 'by')}, and received {_most(received, 'by')}; "
        f"{who} the slowest"
    )


def _most(sizes: Array, preposition: str) -> str:
    """Return a string that names the tile with the most bytes in `sizes`, after `preposition`."""
    first, *others = np.flatnonzero(sizes == sizes.max()).tolist()
    if others:
        return f"{preposition} {len(others) + 1:,} tiles, {sizes[first]:,} each"
    return f"{preposition} tile {first}, {sizes[first]:,}"


def _title(resting_at: Exchange, per_ipu: int) -> str:
    """Return the title: the pattern of the exchange at which the picture rests."""
    name, texts = pattern(resting_at.sender, resting_at.receiver, per_ipu)
    return f"{resting_at.total:,} bytes, {name}: {texts}"


def _sentence(every: list[Exchange], resting_at: Exchange, note: str, tiles: int) -> str:
    """Return a sentence about the exchange at which the picture rests, and the run's bytes.

    `note` is the text about that exchange.
    """
    others = "the only one" if len(every) == 1 else f"one of {len(every):,} different ones"
    total = sum(exchange.arriving for exchange in every)
    return (
        f"{note[0].upper()}{note[1:]}. This is the exchange of {resting_at.name}, "
        f"{number(resting_at.cycles)} modelled cycles, {others} on {counted(tiles, 'tile')}. "
        f"In the run {total:,} bytes arrive."
    )


def _table(every: list[Exchange], per_ipu: int) -> Table:
    """Return the table, with a row for each message."""
    rows = []
    for exchange in every:
        name = pattern(exchange.sender, exchange.receiver, per_ipu)[0]
        for source, size, to in zip(
            exchange.transfers.source,
            exchange.transfers.size,
            exchange.transfers.receivers,
            strict=True,
        ):
            several = f"{counted(len(to), 'tile')}, {to[0]} to {to[-1]}"
            receivers = several if len(to) > 1 else f"{to[0]}"
            rows.append(
                (exchange.name, f"{exchange.runs:,}", name, f"{source}", receivers, f"{size:,}")
            )
    return ("exchange", "runs", "pattern", "sender", "receivers", "bytes"), tuple(rows)
