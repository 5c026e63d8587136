"""The view `exchange`: which tile sends what to which, one exchange at a time.

On the left is a matrix, senders across and receivers down, with the bytes that each tile sends
above it and those that each receives beside it. On the right is one tile with its partners. Words
name the pattern. Bytes are counted where they arrive: data for several tiles is sent once, and
counts at each of them.
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

MOST_BINS = 64  # rows and columns of the matrix; more tiles share them
MOST_EXCHANGES = 40
FILLED = 0.6  # share of all pairs from which on the pattern is all to all
USUAL = 0.95  # share of the messages that must fit a pattern
FEW = 0.25  # at most this share of the other side's tiles makes several broadcasts or gathers
NOTHING, MARGIN, LINK = 0, 6, 7  # codes; between the first two five steps of bytes
LINKS = replace(palette.LINKS, name="over a link between IPUs", pattern="")
SIDE = 272.0


def exchange(run: Report | Recording, *, at: At = None, largest: int | None = None) -> View:
    """Which tile sends how much to which, and in what pattern?

    The view shows every exchange of a run as a matrix of senders and receivers, with the pattern in
    words. For a recording, the words also list the recorded elements in the messages, the first
    time that an exchange runs.

    More than 64 tiles share 64 columns and rows. Of more than 40 exchanges, and of fewer if the
    scene would be larger than 150 kB, those with the most bytes are shown; the view says so. `at`
    is where the picture rests, the number of a superstep of the run or the name of a step; by
    default at the exchange by which most bytes arrive in the run, and with several IPUs most bytes
    from other IPUs. `largest` is the number of bytes
    of the darkest colour, by default the most from a tile to a tile; with the same number, two
    pictures can be compared.

    Raises `InvalidOptionError` if `run` is not a report, if no tile sends to another, if the
    picture does not show the step, or if `largest` is not a positive whole number.
    """
    if largest is not None and not (is_whole(largest) and largest > 0):
        raise InvalidOptionError(
            f"show.exchange() was given largest={shown(largest)}.",
            next_step="give the bytes of the darkest colour, a whole number from 1 on.",
        )
    source_report, texts = report_of(run, once=True)
    report = checked(source_report, "exchange")
    exchanges = _exchanges(report)
    if not exchanges:
        raise InvalidOptionError("""show.exchange() was given a run in which nothing crosses between
            tiles.
            next:  run a program whose vertices read elements of other tiles; show.tiles(tensor)
            shows the tile of each element.""")
    scene_of = partial(_scene, report, exchanges, texts, at, largest)
    return fitting(scene_of, MOST_EXCHANGES, min_frames=2)


@dataclass(frozen=True, eq=False)
class Exchange:
    """One exchange of a compiled step that ran `runs` times: pairs of tiles, with bytes and the
    cycles it takes."""

    name: str
    step: int
    runs: int
    cycles: float
    slowest: Array
    transfers: Transfers
    source: Array
    to: Array
    size: Array
    number: int  # among those of its step

    @property
    def total(self) -> int:
        """The bytes that arrive in one execution."""
        return int(self.size.sum())

    @property
    def arriving(self) -> int:
        """The bytes that arrive in the run."""
        return self.runs * self.total

    def between(self, tiles_per_ipu: int) -> int:
        """Return the bytes that go to another IPU in one execution; 0 if `tiles_per_ipu` is 0."""
        if not tiles_per_ipu:
            return 0
        return int(self.size[self.source // tiles_per_ipu != self.to // tiles_per_ipu].sum())

    def rank(self, tiles_per_ipu: int) -> tuple[int, int]:
        """Return the key by which exchanges are compared: the bytes that go to another IPU in the
        run (0 with one IPU), and all bytes in the run."""
        return self.runs * self.between(tiles_per_ipu), self.arriving


def _exchanges(report: Report) -> list[Exchange]:
    exchanges = []
    numbers, runs = np.unique(report.step_numbers, return_counts=True)
    for step, times in zip(numbers.tolist(), runs.tolist(), strict=True):
        name = step_name(report, step)
        sent = report.transfers(step)
        for phase in report.phases(step):
            sends = sent[phase.exchange] if phase.exchange >= 0 else ()
            if len(sends) and isinstance(sends, Transfers) and phase.busy is not None:
                heard = [len(to) for to in sends.receivers]
                source, size = (np.repeat(column, heard) for column in (sends.source, sends.size))
                slowest = np.flatnonzero(phase.busy == phase.busy.max())
                executed = (name, step, times, phase.cycles, slowest)
                to = np.concatenate(sends.receivers)
                exchanges.append(Exchange(*executed, sends, source, to, size, phase.exchange))
    return exchanges


def pattern(source: Array, to: Array, tiles_per_ipu: int = 0) -> tuple[str, str]:
    """Return (name, meaning) of the pattern in which tiles `source[i]` send to tiles `to[i]`. One
    message in twenty may deviate from it. `tiles_per_ipu` is given for several IPUs."""
    pairs = np.unique(np.stack((source, to)), axis=1)
    senders = np.unique(pairs[0])
    receivers = np.unique(pairs[1])
    many = counted(len(senders), "tile")
    heard = counted(len(receivers), "tile")
    if len(senders) == len(receivers) == 1:
        return "one message", f"tile {senders[0]} sends to tile {receivers[0]}"
    if len(senders) == 1:
        return "broadcast", f"tile {senders[0]} sends to {heard}"
    if len(receivers) == 1:
        return "gather", f"{many} send to tile {receivers[0]}"
    if tiles_per_ipu and (ring := ring_of_ipus(pairs // tiles_per_ipu)):
        whom = "both their neighbours" if "both" in ring else "the next one"
        return f"a ring over IPUs {ring}", f"where {many} send to {whom}"
    everybody = np.union1d(senders, receivers)
    gaps = np.diff(everybody)
    n = len(everybody)
    away, odd = _usual(pairs[1] - pairs[0])
    # the tiles that take part, as a circle
    turn, strange = _usual(np.diff(np.searchsorted(everybody, pairs), axis=0)[0] % n)
    if n > 2 and not strange and pairs.shape[1] == n * len(turn) and not np.ptp(gaps):
        on = [int(gaps[0]) * (d if 2 * d <= n else d - n) for d in turn]
        if sum(on) in (on[0], 0):
            return "ring", f"{many} send to {_far(on, tiles_per_ipu)}, all round"
    if away and set(away) == {-d for d in away}:
        return "neighbours", f"{many} send to {_far(away, tiles_per_ipu)}{_but(odd)}"
    if len(away) == 1:
        return "shift", f"{many} send to {_far(away, tiles_per_ipu)}{_but(odd)}"
    if pairs.shape[1] > FILLED * len(everybody) * (len(everybody) - 1):
        return "all to all", f"{counted(len(everybody), 'tile')} send to nearly all others"
    if len(senders) <= FEW * len(receivers):
        return "several broadcasts", f"{many} send to {heard}"
    if len(receivers) <= FEW * len(senders):
        return "several gathers", f"{many} send to {heard}"
    if pairs.shape[1] == len(senders) == len(receivers):
        return "one to one", f"each of {many} sends to one, and none hears two"
    if pairs.shape[1] == len(receivers):
        return "spread", f"{many} send to {heard}, each of which hears from one"
    if pairs.shape[1] == len(senders):
        return "collected", f"each of {many} sends to one of {heard}"
    return "scattered", f"{many} send to {heard}, {pairs.shape[1] / len(senders):.1f} each"


def ring_of_ipus(pairs: Array) -> str:
    """Return the IPUs of a ring, in the order in which it goes round; empty if each does not send
    to the next one alone, or to the next and the last."""
    after: dict[int, set[int]] = {}
    for source, target in pairs.T.tolist():
        after.setdefault(source, set()).add(target)
    both = all(len(to) == 2 and all(i in after.get(j, ()) for j in to) for i, to in after.items())
    if len(after) < (4 if both else 3) or not (both or all(len(to) == 1 for to in after.values())):
        return ""
    ring = [min(after)]
    while onward := after[ring[-1]] - set(ring):
        ring.append(max(onward))  # the direction that PopLibs calls clockwise
        if ring[-1] not in after:
            return ""
    is_ring = len(ring) == len(after) and ring[0] in after[ring[-1]]
    return ", ".join(map(str, ring)) + ", both ways" * both if is_ring else ""


def _usual(away: Array) -> tuple[list[int], int]:
    """Return (up to four distances that all but one in twenty have, none if there are no such; how
    many have another)."""
    exchanges, often = np.unique(away, return_counts=True)
    order = np.argsort(-often, kind="stable")[:4]
    enough = np.flatnonzero(np.cumsum(often[order]) >= USUAL * len(away))
    usual = order[: enough[0] + 1] if len(enough) else order[:0]
    return sorted(exchanges[usual].tolist()), len(away) - int(often[usual].sum())


def _far(away: list[int], per_bin: int) -> str:
    """Return the tiles so far away, forward and back; `each`: the tiles of an IPU, of several."""
    same = bool(per_bin) and not any(d % per_bin for d in away)
    far = [f"{d // per_bin if same else d}" for d in sorted({abs(d) for d in away})]
    tile = "same tile of the IPU" if same else "tile"
    which = f"the {tile}s " if len(away) > 1 else f"the {tile} "
    if far == ["1"] and len(away) > 1:
        return which + "next to them"
    way = "away" if len(away) > 1 else "further on" if away[0] > 0 else "further back"
    return which + f"{' and '.join(far)} {way}"


def _but(odd: int) -> str:
    return f", but for {counted(odd, 'message')}" if odd else ""


def _scene(
    report: Report,
    every: list[Exchange],
    texts: Carried,
    at: At,
    largest: int | None,
    maximum: int,
) -> Scene:
    """Return the scene of at most `maximum` exchanges."""
    tiles = report.target.num_tiles
    per_ipu = report.target.tiles_per_ipu if report.target.num_ipus > 1 else 0
    per_bin = -(-tiles // MOST_BINS)
    while per_ipu % per_bin:  # a row has tiles of one IPU
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
    for exchange, (sizes, messages) in zip(picked, matrices, strict=True):
        number_of_drawing = len(panels.drawings)
        panels.drawings.append(_margins(exchange, sizes, per_bin, bins))
        code = np.where(sizes > 0, 1 + np.searchsorted(bounds, sizes), NOTHING)
        stills.append(
            Still(
                exchange.name + (f", {exchange.runs:,} times" if exchange.runs > 1 else ""),
                _note(exchange, per_ipu),
                MARGIN,
                exchange.cycles,
                first=True,
                cells={"matrix": (code, 1, NOTHING)},
                lanes={"matrix": (number_of_drawing, 0, panels.drawings[-1].span)},
                say="{bytes} bytes in {messages} messages",
                values={"bytes": sizes, "messages": messages},
            )
        )
    matrix = Matrix(
        "matrix",
        "bytes from a tile to a tile",
        count=bins**2,
        bins=bins,
        tiles=tiles,
        each=per_bin,
        ticks=_ticks(report.target.num_ipus, per_bin, bins),
        ipu=per_ipu // per_bin,
        link=LINK if per_ipu else 0,
    )
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
    first = dict[tuple[int, int], tuple[int, int]]()
    for n, which in texts:
        first.setdefault((int(report.step_numbers[n]), which), (n, which))
    keys = ((which, (exchange.step, exchange.number)) for which, exchange in enumerate(picked))
    scene = with_content(scene, texts, {which: first[key] for which, key in keys if key in first})
    return linked(scene, report, parts=parts)


def _notes(shown_count: int, count: int, per_bin: int) -> list[str]:
    """Return notes about how bytes are counted, and what the picture leaves out or merges."""
    notes = [
        "Bytes are counted where they arrive; what several tiles hear is sent once. Cycles are "
        "modelled."
    ]
    if shown_count < count:
        notes.append(
            f"The picture shows the {shown_count} of {count} exchanges in which most bytes arrive."
        )
    if per_bin > 1:
        notes.append(f"A row and a column stand for up to {per_bin} tiles: the sum of their bytes.")
    return notes


def _margins(exchange: Exchange, sizes: Array, per_bin: int, bins: int) -> Drawing:
    """Return the bars of the bytes that each bin sends, and of those that it receives."""
    sender = exchange.transfers.source // per_bin
    sent = np.bincount(sender, exchange.transfers.size, bins).astype(np.int64)
    received = sizes.reshape(bins, bins).sum(axis=1)
    bars = (Bar(MARGIN, 0, sent, 0), Bar(MARGIN, 0, received, 0))
    return Drawing(int(max(sent.max(), received.max())), bars, "bytes")


def _ticks(ipus: int, per_bin: int, bins: int) -> tuple[str, ...]:
    """Return the numbers along the matrix: of IPUs if there are several, else of tiles."""
    if ipus > 1:
        return tuple(f"{i}" for i in range(0, ipus, -(-ipus // 6)))
    if bins >= 8:
        return tuple(f"{per_bin * (bins * i // 4):,}" for i in range(4))
    return tuple(f"{i}" for i in range(bins))


def _binned(exchange: Exchange, per_bin: int, bins: int) -> tuple[Array, Array]:
    """Return (int64[bins * bins] bytes, messages): from the column's tiles to the row's."""
    cell = exchange.to // per_bin * bins + exchange.source // per_bin
    sizes = np.bincount(cell, exchange.size, bins**2).astype(np.int64)
    return sizes, np.bincount(cell, minlength=bins**2).astype(np.int64)


def _codes(bounds: Array) -> tuple[Code, ...]:
    shades = palette.FILL[5 - len(bounds) : 5]
    steps = [
        shade.lettered(f"{i + 1}", f"up to {bound:,} bytes")
        for i, (bound, shade) in enumerate(zip(bounds.tolist(), shades, strict=True))
    ]
    unused = [palette.REST] * (5 - len(steps))
    margin = palette.BYTES.lettered("B", "sent, above, and received, beside")
    return (palette.PAPER, *steps, *unused, margin)


def _note(exchange: Exchange, per_ipu: int) -> str:
    name, pattern_name = pattern(exchange.source, exchange.to, per_ipu)
    pairs = len(np.unique(np.stack((exchange.source, exchange.to)), axis=1).T)
    several = pairs != len(exchange.transfers) and name != "broadcast"
    over = exchange.between(per_ipu)
    how_many = "all" if over == exchange.total else f"{over:,} of them"
    last = exchange.slowest
    who = f"tile {last[0]} is" if len(last) == 1 else f"{len(last):,} tiles are"
    sent = np.bincount(exchange.transfers.source, exchange.transfers.size).astype(np.int64)
    received = np.bincount(exchange.to, exchange.size).astype(np.int64)
    return (
        f"{name}, {pattern_name}: {exchange.total:,} bytes arrive from "
        f"{counted(len(exchange.transfers), 'message')}"
        f"{f' between {pairs:,} pairs of tiles' * several}"
        f"{f', {how_many} over links between IPUs' * bool(over)}; {_most(sent, 'send')}, and "
        f"{_most(received, 'receive')}; {who} the slowest"
    )


def _most(sizes: Array, verb: str) -> str:
    """Return which tile sends or receives the most, and how much."""
    first, *others = np.flatnonzero(sizes == sizes.max()).tolist()
    if others:
        return f"{len(others) + 1:,} tiles {verb} most, {sizes[first]:,} each"
    return f"tile {first} {verb}s most, {sizes[first]:,}"


def _title(resting_at: Exchange, per_ipu: int) -> str:
    """Return the pattern of the exchange at which the picture rests."""
    name, texts = pattern(resting_at.source, resting_at.to, per_ipu)
    return f"{name[0].upper()}{name[1:]}: {texts}"


def _sentence(every: list[Exchange], resting_at: Exchange, note: str, tiles: int) -> str:
    """Return the exchange at which the picture rests, with its note, and the bytes of the run."""
    others = "the only one" if len(every) == 1 else f"one of {len(every):,} different ones"
    total = sum(exchange.arriving for exchange in every)
    return (
        f"{note[0].upper()}{note[1:]}. This is the exchange of {resting_at.name}, "
        f"{number(resting_at.cycles)} modelled cycles, {others} on {counted(tiles, 'tile')}. "
        f"In the run {total:,} bytes arrive."
    )


def _table(every: list[Exchange], per_ipu: int) -> Table:
    rows = []
    for exchange in every:
        name = pattern(exchange.source, exchange.to, per_ipu)[0]
        for source, size, to in zip(
            exchange.transfers.source,
            exchange.transfers.size,
            exchange.transfers.receivers,
            strict=True,
        ):
            several = f"{counted(len(to), 'tile')}, {to[0]} to {to[-1]}"
            heard = several if len(to) > 1 else f"{to[0]}"
            rows.append(
                (exchange.name, f"{exchange.runs:,}", name, f"{source}", heard, f"{size:,}")
            )
    return ("exchange", "runs", "pattern", "sender", "receivers", "bytes"), tuple(rows)
