"""The view `ring`: the rounds of a collective. On the left the IPUs in the order of a ring, and on
their way between them the chunks of a round; on the right all rounds, a row for each pair of IPUs.

A chunk is followed byte by byte, see `chunks`. It keeps the colour of the IPU on which it began,
until it is the sum of all: then it has that of the IPU on which the sum was completed, and a line
around it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache

import numpy as np

from ipu_teach.cost import CostModel
from ipu_teach.cost.links import around, ring_order, route
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Recording, Report
from ipu_teach.show.board import rim
from ipu_teach.show.chunks import Chunk, Chunks, Pair
from ipu_teach.show.exchange import ring_of_ipus
from ipu_teach.show.palette import REST, of_tiles
from ipu_teach.show.panels import Cell, Panels, boxes_in_rows, painted
from ipu_teach.show.report_facts import checked, model_of
from ipu_teach.show.scene import Scene, Still, label, number
from ipu_teach.show.shapes import Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST_ROUNDS, MOST_PAIRS, MOST_TOLD, MOST_TRACED = 32, 32, 4, 256
SIDE, LEFT, WIDE = 264.0, 400.0, 304.0
SAY = "IPU {i} sends {sends} bytes and hears {hears}"
Round = tuple[int, int, Counter[Pair]]  # its superstep, its cycles, bytes from IPU to IPU


def ring(given: Report | Recording) -> View:
    """Which chunk goes to which IPU in each round of a collective, and when is its sum complete?

    The first 32 rounds and pairs of IPUs are drawn; the view says so, and its table has all rounds.
    What a chunk is, is followed through the first 256 rounds. Raises `InvalidOptionError` for
    something that is no report and no recording, for a report from a file, for a run in which no
    IPU sends to another, and for one without a ring: a round in which each IPU that takes part
    sends to as many others as send to it.
    """
    report = checked(given.report if isinstance(given, Recording) else given, "ring")
    sent = cache(lambda step: bytes_between_ipus(report, step))
    crossing = [
        (step.index, step.cycles, found) for step in report.steps() if (found := sent(step.step))
    ]
    if not crossing:
        raise InvalidOptionError("""show.ring() was given a run in which no IPU sends to another.
            next:  gcl.all_reduce_within_replica(graph, tensors, "ADD", prog) on several IPUs does;
            show.exchange(report) has what crosses between tiles.""")
    model = model_of(report, "ring")
    rounds = _in_rings(crossing)
    if not rounds:
        raise InvalidOptionError("""show.ring() was given a run without a ring: in no superstep does
            every IPU that takes part send to as many others as send to it.
            next:  show.exchange(report) shows what crosses between IPUs.""")
    left_out = len(crossing) - len(rounds)
    return View(_Walks(report, model, rounds, left_out).scene())


def _in_rings(crossing: list[Round]) -> list[Round]:
    """The supersteps of a ring, or of an exchange of all with all, among those in which IPUs send
    to each other."""
    if _is_even(crossing):
        return crossing
    rounds = [one for one in crossing if _is_even([one])]
    if not _is_even(rounds):  # two neighbours of a pipeline that happen to send to each other
        rounds = [one for one in rounds if any(len(g) > 2 for g in _groups(one[2]))]
    return rounds if _is_even(rounds) else []


def _is_even(rounds: list[Round]) -> bool:
    """Whether in each group of IPUs all send to as many others as send to them, over all rounds."""
    pairs = {pair for *_, found in rounds for pair in found}
    out, into = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    return all(len({(out[i], into[i]) for i in g}) == 1 for g in _groups(pairs)) and all(
        out[i] == into[i] for i in out | into
    )


def _groups(pairs: Iterable[Pair]) -> list[set[int]]:
    """The IPUs that send to each other, group by group."""
    groups: list[set[int]] = []
    for pair in pairs:
        joined = set(pair).union(*(g for g in groups if g & set(pair)))
        groups = [g for g in groups if not g & joined] + [joined]
    return groups


def bytes_between_ipus(report: Report, step: int) -> Counter[Pair]:
    """Bytes from each IPU to each other in a compiled step; what several tiles of one hear crosses
    once."""
    each, found = report.target.tiles_per_ipu, Counter[Pair]()
    for some in (t for t in report.transfers(step) if isinstance(t, Transfers)):
        for source, size, to in zip(some.source, some.size, some.receivers, strict=True):
            here = int(source) // each
            for there in {int(tile) // each for tile in to} - {here}:
                found[here, there] += int(size)
    return found


class _Walks:
    """The rounds of a run, each with its superstep, its cycles and its bytes; with the chunks of
    each message, and what the IPUs compute `after` it."""

    def __init__(
        self, report: Report, model: CostModel, rounds: list[Round], left_out: int
    ) -> None:
        self.report, self.rounds, self.left_out = report, rounds, left_out
        self.order = ring_order(report.target.num_ipus)
        self.pairs = sorted({pair for *_, found in rounds for pair in found}, key=self._place)
        self.ipus = {ipu for pair in self.pairs for ipu in pair}
        self.chunks, self.after = self._follow(model)
        ends = around(report.target)
        self.links = Counter[Pair]()
        for *_, found in rounds:
            for (a, b), size in found.items():
                for link in route(a, b, ends):
                    self.links[link] += size

    def _follow(self, model: CostModel) -> tuple[list[dict[Pair, list[Chunk]]], list[str]]:
        """(by round the chunks of each message, what the IPUs compute after it)."""
        bits = [(g, sum(1 << ipu for ipu in g)) for g in _groups(self.pairs)]
        group = {ipu: mask for g, mask in bits for ipu in g}
        chunks = Chunks(model, self.report.target.tiles_per_ipu, group)
        begins = {superstep: k for k, (superstep, *_) in enumerate(self.rounds)}
        steps = [
            (step.index, step.step, step.kind, label(step.name)) for step in self.report.steps()
        ]
        found: list[dict[Pair, list[Chunk]]] = [{} for _ in self.rounds]
        after, now = [""] * len(self.rounds), -1
        place = start = 0
        restarted = False
        while place < len(steps):
            index, step, kind, name = steps[place]
            if index in begins:
                now = begins[index]
                restarted, start = restarted and place == start, place
                if now >= MOST_TRACED:
                    break
            elif now >= 0 and kind == "Execute" and not after[now]:
                after[now] = name
            sent, meets_itself = chunks.step(step, now)
            if meets_itself and not restarted:  # another collective began with this round
                chunks.forget()
                place, restarted = start, True
                continue
            if index in begins:
                found[now] = sent
            place += 1
        for (*_, bytes_), own in zip(self.rounds, found, strict=True):
            for pair in [*own]:  # nothing is said of a message that is not known in full
                if sum(chunk.size for chunk in own[pair]) != bytes_[pair]:
                    del own[pair]
        return found, after

    def _main(self, k: int, pair: Pair) -> Chunk | None:
        """The largest chunk of a message, None if it is not known."""
        return next(iter(self.chunks[k].get(pair, ())), None)

    def _origin(self, k: int, pair: Pair) -> str:
        """Where the chunks of a message began, or were completed, in words."""
        return " and ".join(
            f"the sum of all, completed on IPU {chunk.began}"
            if chunk.complete
            else f"begun on IPU {chunk.began}"
            for chunk in self.chunks[k].get(pair, ())
        )

    def _place(self, pair: Pair) -> tuple[bool, int, int]:
        """Clockwise pairs first, each lot in the order in which one goes round."""
        n, (at, to) = len(self.order), map(self.order.index, pair)
        back = (to - at) % n > n // 2
        return back, -at % n if back else at, to

    def sentence(self) -> str:
        """How many rounds, over which ring, and what the busiest link carries."""
        steps, total = sum(cycles for _, cycles, _ in self.rounds), self.report.total_cycles
        name = ring_of_ipus(np.array(self.pairs).T)
        (a, b), busiest = self.links.most_common(1)[0]
        most = max(max(found.values()) for *_, found in self.rounds)
        many = counted(len(self.rounds), "round")
        return (
            f"{many} {'round the ring IPU ' + name if name else 'of IPUs'}: an IPU sends another "
            f"at most {counted(most, 'byte')} a round. {counted(len(self.links), 'link')} carry "
            f"{sum(self.links.values()):,} bytes in all, the busiest, from IPU {a} to IPU {b}, "
            f"{busiest:,}; the rounds take {100 * steps / total:.1f} % of {number(total)} modelled "
            "cycles."
        )

    def scene(self) -> Scene:
        """One frame a round."""
        rounds, pairs = self.rounds[:MOST_ROUNDS], self.pairs[:MOST_PAIRS]
        panels, ipus = Panels(), len(self.order)
        panels.first(len(rounds), len(self.rounds), "rounds")
        panels.first(len(pairs), len(self.pairs), "pairs of IPUs")
        hues, each = of_tiles(ipus)
        codes = tuple(
            replace(hue, name=f"chunk from IPU {i * each}{to}", letter="", listed=True)
            for i, hue in enumerate(hues)
            for to in (f" to {i * each + each - 1}" * (each > 1),)
        )
        turn = 2 * np.pi * np.argsort(self.order) / ipus - np.pi / 2
        middles = SIDE / 2 + (SIDE / 2 - 26) * np.stack((np.cos(turn), np.sin(turn)), axis=1)
        wide, high = min(48.0, 400 / ipus), min(24.0, 400 / ipus)
        places = rectangles(middles[:, 0] - wide / 2, middles[:, 1] - high / 2, wide, high)
        around_ = Boxes(len(codes), places)
        pictures = [self._round(k, middles, around_, each) for k in range(len(rounds))]
        heading = "a round: chunks between the IPUs"
        panels.put(painted("ring", heading, SIDE, SIDE, pictures, places))
        wide, cells = WIDE / len(rounds), list[Cell]()
        for k, (*_, found) in enumerate(rounds):
            for row, pair in enumerate(pairs):
                if pair in found:
                    chunk, said = self._main(k, pair), f"round {k + 1}: {self._message(k, pair)}"
                    code = len(codes) if chunk is None else chunk.began // each
                    texts = (f"{found[pair]:,}", "" if chunk is None else f"{chunk.began}")
                    cells.append((row, k, code, texts, said))
        heading = "all rounds: bytes in the colour of the chunk"
        pitch, names = min(22.0, SIDE / len(pairs)), [f"IPU {a} to {b}" for a, b in pairs]
        table = boxes_in_rows("rounds", heading, WIDE, pitch, len(rounds), names, cells)
        low = table.height + 4
        lines = (Stroke(((k * wide, low), ((k + 0.94) * wide, low)), 4) for k in range(len(rounds)))
        framed = [
            shape
            for row, k, *_ in cells
            if (chunk := self._main(k, pairs[row])) is not None and chunk.complete
            for shape in rim(k * wide, row * pitch, 0.94 * wide, 0.9 * pitch, 1.5)
        ]
        pictures = [(*table.pictures[0], *framed, line) for line in lines]
        if framed:
            panels.notes.append("A chunk with a line around it is the complete sum of all IPUs.")
        if self.left_out:
            panels.notes.append(
                f"{counted(self.left_out, 'superstep')} in which IPUs send to each other without a "
                "ring are left out; show.exchange(report) has them."
            )
        panels.put(replace(table, height=low + 4, pictures=tuple(pictures)), left=LEFT)
        rows_ = (
            (*(f"{n:,}" for n in (k + 1, step, a, b)), *self._told(chunk), f"{cycles:,}")
            for k, (step, cycles, found) in enumerate(self.rounds)
            for (a, b), size in found.items()
            for chunk in self.chunks[k].get((a, b), [Chunk(-1, False, size)])
        )
        heads = (
            "round",
            "superstep",
            "from IPU",
            "to IPU",
            "began on IPU",
            "sum",
            "bytes",
            "cycles",
        )
        return panels.scene(
            "ring",
            self._title(),
            self.sentence(),
            foot=12,
            codes=(*codes, REST),
            stills=map(self._still, range(len(rounds))),
            group="round",
            table=(heads, rows_),
        )

    @staticmethod
    def _told(chunk: Chunk) -> tuple[str, str, str]:
        """A chunk as the table has it: where it began, whether it is a complete sum, its bytes."""
        began = "" if chunk.began < 0 else f"{chunk.began}"
        return began, "complete" if chunk.complete else "", f"{chunk.size:,}"

    def _title(self) -> str:
        """When the sums are complete, else how many rounds there are."""
        complete = [
            bool(own) and all(chunk.complete for some in own.values() for chunk in some)
            for own in self.chunks
        ]
        rounds = counted(len(self.rounds), "round")
        if True in complete and (first := complete.index(True)):
            begins = f"Round {first} completes the sums"
            last = next((k for k in range(first, len(complete)) if not complete[k]), len(complete))
            hand = "hands" if last == first + 1 else "hand"
            return f"{begins}; {counted(last - first, 'more round')} {hand} them on"
        return f"{rounds} between {counted(len(self.ipus), 'IPU')}"

    def _message(self, k: int, pair: Pair) -> str:
        size, origin = self.rounds[k][2][pair], self._origin(k, pair)
        words = f"IPU {pair[0]} to IPU {pair[1]}: {counted(size, 'byte')}"
        return f"{words}, {origin}" if origin else words

    def _still(self, k: int) -> Still:
        _, cycles, found = self.rounds[k]
        told = [self._message(k, pair) for pair in list(found)[:MOST_TOLD]]
        told += [f"{len(found) - MOST_TOLD} more messages"] * (len(found) > MOST_TOLD)
        told += [f"then the IPUs compute {self.after[k]}"] * bool(self.after[k])
        sums = np.zeros((2, len(self.order)), np.int64)
        for ends, size in found.items():
            sums[(0, 1), ends] += size
        return Still(
            f"{counted(len(found), 'message')}",
            "; ".join(told),
            0,
            cycles,
            True,
            pictures={"ring": k, "rounds": k},
            about={"ring": (SAY, {"sends": sums[0], "hears": sums[1]})},
        )

    def _round(self, k: int, middles: Array, ipus: Boxes, each: int) -> tuple[Shape, ...]:
        """The IPUs, an arrow for each message as thick as its bytes, and on it its chunk."""
        found, shapes = self.rounds[k][2], list[Shape]((ipus,))
        most, side = max(found.values()), min(16.0, 200 / len(middles))
        for (a, b), size in found.items():
            way = middles[b] - middles[a]
            way = way / np.hypot(*way)
            aside = 10 * np.array((-way[1], way[0])) * ((b, a) in found)
            ends = middles[a] + 20 * way + aside, middles[b] - 24 * way + aside
            first, last, (x, y) = (tuple(p.tolist()) for p in (*ends, sum(ends) / 2))
            shapes.append(Stroke((first, (x, y), last), 1 + 2 * size / most, arrow=True))
            chunk, box = self._main(k, (a, b)), rectangles(x - side / 2, y - side / 2, side, side)
            code = ipus.code if chunk is None else chunk.began // each
            shapes.append(Boxes(code, box))
            if chunk is not None and chunk.complete:
                x0, y0, wide, high = box[0].tolist()
                shapes += rim(x0, y0, wide, high, 1.5)
            if side > 12 and chunk is not None:
                shapes.append(Words(x, y + 4, f"{chunk.began}", 11, "middle", code))
        for ipu, (x, y) in enumerate(middles.tolist()):
            name = f"IPU {ipu}" if len(middles) < 10 else f"{ipu}"
            shapes.append(Words(x, y + 4, name, 11, "middle", ipus.code))
        return tuple(shapes)
