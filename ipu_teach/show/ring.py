"""The view `ring`: the rounds of a collective. On the left the IPUs in the order of a ring, and on
their way between them the chunks of a round; on the right all rounds, a row for each pair of IPUs.

A chunk keeps the colour of the IPU on which it began. What an IPU sends on is what it heard in the
round before from the other side, else from where it sends to; else a chunk begins. Where sums
follow the first rounds, as many move the whole chunks; then all have all, and new ones begin.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np

from ipu_teach.cost.links import around, ring_order, route
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.report import Recording, Report
from ipu_teach.show.exchange import ring_of_ipus
from ipu_teach.show.palette import REST, of_tiles
from ipu_teach.show.panels import Cell, Panels, boxes_in_rows, painted
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Scene, Still, label, number
from ipu_teach.show.shapes import Boxes, Shape, Stroke, Words, rectangles
from ipu_teach.show.view import View
from ipu_teach.types import Array

MOST_ROUNDS, MOST_PAIRS, MOST_TOLD = 32, 32, 4
SIDE, LEFT, WIDE = 264.0, 400.0, 304.0
SAY = "IPU {i} sends {sends} bytes and hears {hears}"
Pair = tuple[int, int]  # from an IPU to an IPU


def ring(given: Report | Recording) -> View:
    """The rounds of a run in which IPUs send to each other: which chunk walks where, and how many
    bytes cross which link.

    The first 32 rounds and pairs of IPUs are drawn; the view says so, and its table has all rounds.
    Raises `InvalidOptionError` for something that is no report and no recording, and for a run in
    which no IPU sends to another.
    """
    report = checked(given.report if isinstance(given, Recording) else given, "ring")
    sent = cache(lambda step: _sent(report, step))
    rounds, after = list[tuple[int, int, Counter[Pair]]](), list[str]()
    for step in report.steps():
        if found := sent(step.step):
            rounds.append((step.index, step.cycles, found))
            after.append("")
        elif after and not after[-1] and np.any(step.cost.compute_cycles):
            after[-1] = label(step.name)
    if not rounds:
        raise InvalidOptionError("""show.ring() was given a run in which no IPU sends to another.
            next:  gcl.all_reduce_within_replica(graph, tensors, "ADD", prog) on several IPUs does;
            show.exchange(report) has what crosses between tiles.""")
    return View(_Walks(report, rounds, after).scene())


def _sent(report: Report, step: int) -> Counter[Pair]:
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
    """The rounds of a run, each with its superstep, its cycles and its bytes, and what the IPUs
    compute `after` it; with the IPU on which the chunk of each message began."""

    def __init__(
        self, report: Report, rounds: list[tuple[int, int, Counter[Pair]]], after: list[str]
    ) -> None:
        self.report, self.rounds, self.after = report, rounds, after
        self.order = ring_order(report.target.num_ipus)
        self.pairs = sorted({pair for *_, found in rounds for pair in found}, key=self._place)
        self.ipus = {ipu for pair in self.pairs for ipu in pair}
        self.began, last = list[dict[Pair, int]](), dict[Pair, int]()
        summed = moved = 0  # rounds of this collective
        for (*_, found), sums in zip(rounds, after, strict=True):
            if moved and moved == (summed or len(self.ipus) - 1):  # all have all
                last, summed, moved = {}, 0, 0
            now = dict[Pair, int]()
            for here, there in found:
                heard = [c for (a, b), c in last.items() if b == here and a != there]
                heard = heard or [last[p] for p in ((there, here),) if p in last]
                now[here, there] = heard[0] if len(heard) == 1 else here
            self.began.append(now)
            last, adds = now, bool(sums) and not moved and summed < len(self.ipus) - 1
            summed, moved = summed + adds, moved + (not adds)
        ends = around(report.target)
        self.links = Counter[Pair]()
        for *_, found in rounds:
            for (a, b), size in found.items():
                for link in route(a, b, ends):
                    self.links[link] += size

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
            replace(hue, name=f"began on IPU {i * each}{to}", letter="", listed=True)
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
                    began, said = self.began[k][pair], f"round {k + 1}: {self._message(k, pair)}"
                    cells.append((row, k, began // each, (f"{found[pair]:,}", f"{began}"), said))
        heading = "all rounds: bytes in the colour of the chunk"
        pitch, names = min(22.0, SIDE / len(pairs)), [f"IPU {a} to {b}" for a, b in pairs]
        table = boxes_in_rows("rounds", heading, WIDE, pitch, len(rounds), names, cells)
        low = table.height + 4
        lines = (Stroke(((k * wide, low), ((k + 0.94) * wide, low)), 4) for k in range(len(rounds)))
        pictures = [(*table.pictures[0], line) for line in lines]
        panels.put(replace(table, height=low + 4, pictures=tuple(pictures)), left=LEFT)
        rows_ = (
            [f"{n:,}" for n in (k + 1, step, a, b, c, found[a, b], cycles)]
            for k, (step, cycles, found) in enumerate(self.rounds)
            for (a, b), c in self.began[k].items()
        )
        heads = ("round", "superstep", "from IPU", "to IPU", "began on IPU", "bytes", "cycles")
        return panels.scene(
            "ring",
            f"{counted(len(self.rounds), 'round')} between {counted(len(self.ipus), 'IPU')}",
            self.sentence(),
            foot=12,
            codes=(*codes, REST),
            stills=map(self._still, range(len(rounds))),
            group="round",
            table=(heads, rows_),
        )

    def _message(self, k: int, pair: Pair) -> str:
        size, began = self.rounds[k][2][pair], self.began[k][pair]
        return f"IPU {pair[0]} to IPU {pair[1]}: {counted(size, 'byte')} that began on IPU {began}"

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
            began, box = self.began[k][a, b], rectangles(x - side / 2, y - side / 2, side, side)
            shapes.append(Boxes(began // each, box))
            if side > 12:
                shapes.append(Words(x, y + 4, f"{began}", 11, "middle", began // each))
        for ipu, (x, y) in enumerate(middles.tolist()):
            name = f"IPU {ipu}" if len(middles) < 10 else f"{ipu}"
            shapes.append(Words(x, y + 4, name, 11, "middle", ipus.code))
        return tuple(shapes)
