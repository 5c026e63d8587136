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

from ipu_teach.cost.links import route
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import InvalidOptionError, counted
from ipu_teach.poplibs.gcl.ring import ring_order
from ipu_teach.report import Recording, Report
from ipu_teach.show.exchange import ring_of_ipus
from ipu_teach.show.palette import REST, of_tiles
from ipu_teach.show.panels import Panels
from ipu_teach.show.report_facts import checked
from ipu_teach.show.scene import Painted, Scene, Still, label, number
from ipu_teach.show.shapes import LETTER, Boxes, Shape, Stroke, Words
from ipu_teach.show.view import View
from ipu_teach.target import TORUS
from ipu_teach.types import Array

MOST_ROUNDS, MOST_PAIRS, MOST_TOLD = 32, 32, 4
SIDE, LEFT, WIDE = 264.0, 400.0, 304.0
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
        around = report.target.num_ipus if report.target.ipu_link_topology == TORUS else 0
        self.links = Counter[Pair]()
        for *_, found in rounds:
            for (a, b), size in found.items():
                for link in route(a, b, around):
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
        (a, b), most = self.links.most_common(1)[0]
        each = [max(found.values()) for *_, found in self.rounds]
        size = f"{min(each):,} to {max(each):,}" if min(each) < max(each) else f"{each[0]:,}"
        return (
            f"{counted(len(each), 'round')} {'round the ring IPU ' + name if name else 'of IPUs'}: "
            f"an IPU sends another at most {size} bytes a round. "
            f"{counted(len(self.links), 'link')} carry {sum(self.links.values()):,} bytes in all, the busiest, from IPU {a} to IPU "
            f"{b}, {most:,}; the rounds take {100 * steps / total:.1f} % of {number(total)} "
            "modelled cycles."
        )

    def scene(self) -> Scene:
        """One frame a round."""
        rounds, pairs = self.rounds[:MOST_ROUNDS], self.pairs[:MOST_PAIRS]
        panels, ipus = Panels(), len(self.order)
        panels.first(len(rounds), len(self.rounds), "rounds")
        panels.first(len(pairs), len(self.pairs), "pairs of IPUs")
        hues, each = of_tiles(ipus)
        names = [
            f"{i}" if each == 1 else f"{i * each} to {i * each + each - 1}"
            for i in range(len(hues))
        ]
        codes = tuple(
            replace(hue, name=f"began on IPU {name}", letter="", listed=True)
            for hue, name in zip(hues, names, strict=True)
        )
        turn = 2 * np.pi * np.argsort(self.order) / ipus - np.pi / 2
        middles = SIDE / 2 + (SIDE / 2 - 26) * np.stack((np.cos(turn), np.sin(turn)), axis=1)
        size = np.array((min(48.0, 400 / ipus), min(24.0, 400 / ipus)))
        panels.put(
            Painted(
                *("ring", "a round: chunks between the IPUs"),
                width=SIDE,
                height=SIDE,
                count=ipus,
                places=np.concatenate((middles - size / 2, np.tile(size, (ipus, 1))), axis=1),
                pictures=tuple(
                    self._round(k, middles, size, len(codes), each) for k in range(len(rounds))
                ),
                say="IPU {i} sends {sends} bytes and hears {hears}",
            )
        )
        high, wide = min(22.0, SIDE / len(pairs)), WIDE / len(rounds)
        cells = [
            (k, row, self.began[k][pair], found[pair])
            for k, (*_, found) in enumerate(rounds)
            for row, pair in enumerate(pairs)
            if pair in found
        ]
        places = np.array([(k * wide, r * high, 0.94 * wide, 0.9 * high) for k, r, *_ in cells])
        whose, shapes = np.array([cell[2] // each for cell in cells]), list[Shape]()
        shapes += [Boxes(int(code), places[whose == code]) for code in np.unique(whose)]
        shapes += [
            Words(-6, (r + 0.45) * high + 4, f"IPU {a} to {b}", 11, "end")
            for r, (a, b) in enumerate(pairs)
            if r % np.ceil(12 / high) == 0
        ]
        for k, r, began, size_ in cells:
            text = f"{size_:,}" if (len(f"{size_:,}") + 1) * LETTER < wide else f"{began}"
            if len(text) * LETTER < wide and high > 10:
                at = (k + 0.47) * wide, (r + 0.45) * high + 4
                shapes.append(Words(*at, text, 11, "middle", began // each))
        tall = high * len(pairs)
        frame = [
            [
                (k * wide - 1, -2.0),
                ((k + 1) * wide - 1, -2.0),
                ((k + 1) * wide - 1, tall),
                (k * wide - 1, tall),
            ]
            for k in range(len(rounds))
        ]
        panels.put(
            Painted(
                *("rounds", "all rounds: bytes in the colour of the chunk"),
                width=WIDE,
                height=tall,
                count=len(cells),
                places=places,
                pictures=tuple(
                    (*shapes, *(Stroke((a, b), 2) for a, b in zip(f, [*f[1:], f[0]], strict=True)))
                    for f in frame
                ),
                labels=tuple(
                    f"round {k + 1}, IPU {pairs[r][0]} to IPU {pairs[r][1]}: {n:,} bytes, which "
                    f"began on IPU {began}"
                    for k, r, began, n in cells
                ),
                say="{label}",
            ),
            left=LEFT,
        )
        return panels.scene(
            "ring",
            f"{counted(len(self.rounds), 'round')} between {counted(len(self.ipus), 'IPU')}",
            self.sentence(),
            foot=12,
            codes=(*codes, REST),
            stills=tuple(self._still(k) for k in range(len(rounds))),
            frames=np.arange(len(rounds)),
            group="round",
            table=(
                ("round", "superstep", "from IPU", "to IPU", "began on IPU", "bytes", "cycles"),
                tuple(
                    (
                        f"{k + 1}",
                        f"{step}",
                        f"{a}",
                        f"{b}",
                        f"{c}",
                        f"{found[a, b]:,}",
                        f"{cycles:,}",
                    )
                    for k, (step, cycles, found) in enumerate(self.rounds)
                    for (a, b), c in self.began[k].items()
                ),
            ),
        )

    def _still(self, k: int) -> Still:
        _, cycles, found = self.rounds[k]
        told = [
            f"IPU {a} to IPU {b}: {size:,} bytes that began on IPU {self.began[k][a, b]}"
            for (a, b), size in list(found.items())[:MOST_TOLD]
        ]
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
            values={"sends": sums[0], "hears": sums[1]},
        )

    def _round(
        self, k: int, middles: Array, size: Array, rest: int, each: int
    ) -> tuple[Shape, ...]:
        """The IPUs, an arrow for each message as thick as its bytes, and on it its chunk."""
        found, shapes = self.rounds[k][2], list[Shape]()
        most, chunk = max(found.values()), min(16.0, 200 / len(middles))
        shapes.append(
            Boxes(rest, np.concatenate((middles - size / 2, np.tile(size, (len(middles), 1))), 1))
        )
        for (a, b), n in found.items():
            way = middles[b] - middles[a]
            way = way / np.hypot(*way)
            aside = 7 * np.array((-way[1], way[0])) * ((b, a) in found)
            ends = middles[a] + 20 * way + aside, middles[b] - 24 * way + aside
            middle = (ends[0] + ends[1]) / 2
            points = tuple((float(x), float(y)) for x, y in (ends[0], middle, ends[1]))
            shapes.append(Stroke(points, 1 + 3 * n / most, "ink", True))
            began = self.began[k][a, b]
            shapes.append(Boxes(began // each, np.array([[*(middle - chunk / 2), chunk, chunk]])))
            if chunk > 12:
                shapes.append(
                    Words(
                        float(middle[0]),
                        float(middle[1]) + 4,
                        f"{began}",
                        11,
                        "middle",
                        began // each,
                    )
                )
        for ipu, (x, y) in enumerate(middles.tolist()):
            name = f"IPU {ipu}" if size[0] > 40 else f"{ipu}"
            shapes.append(Words(x, y + 4, name, 11, "middle", rest))
        return tuple(shapes)
