"""A run by time, in stretches; at the end of each, all IPUs wait for each other.

On one IPU every step is a stretch. On several IPUs, each goes through its own steps within a
stretch, and those that end early wait for the last. A step that all IPUs execute together is a
stretch of one step.

On a machine with I/O tiles, "IPU" in this module means one of `Target.sets`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ipu_teach.cost.overlap import met, of_all
from ipu_teach.cost.phases import Phase
from ipu_teach.errors import counted
from ipu_teach.report import Report
from ipu_teach.show import palette
from ipu_teach.show.palette import STATE, STATES
from ipu_teach.show.panels import ENDS
from ipu_teach.show.scene import Bar, Drawing, number, quantiles
from ipu_teach.types import Array

WAIT = STATES.index(palette.WAIT)
MOST_TOLD = 16  # IPUs in a text
MOST_NAMED = 4  # tiles, steps or IPUs that a text names; of more, the first two
MOST_ENDS = 8  # IPUs that have their number beside their lanes


def named_ipus(names: Sequence[str]) -> str:
    """Return the names of IPUs as a text; of more than four, the first two and the number of the
    others."""
    listed = [*names]
    if len(listed) == 1:
        return listed[0]
    if len(listed) > MOST_NAMED:
        listed = [*listed[:2], f"{len(listed) - 2:,} others"]
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


@dataclass(frozen=True)
class IPUStep:
    """A step that one IPU executes by itself, or (`ipu` is None) that all execute together.

    `start` is in cycles from the beginning of the stretch. `idle` are the IPUs without a part in a
    step of all.
    """

    step: int
    ipu: int | None
    start: int
    cycles: int
    idle: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of the run of `report`.

    `ends` are the cycles at which each IPU has finished its parts. The stretch ends when `last`,
    the last of them, has finished.
    """

    parts: tuple[IPUStep, ...]
    ends: tuple[int, ...]
    report: Report

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the IPUs."""
        return self.report.target.sets

    @cached_property
    def spans(self) -> list[Span]:
        """The phases of the stretch; cached for the picture, the sentence and the table."""
        target = self.report.target
        spans: list[Span] = []
        ipu = target.set_of(np.arange(target.num_tiles))
        for part in self.parts:
            of_all = part.ipu is None
            tiles = at_work(self.report, part.step)[ipu] if of_all else ipu == part.ipu
            start = part.start
            for phase in self.report.phases(part.step, part.ipu):
                spans.append(Span(part, phase, start, tiles))
                start += phase.cycles
        return spans

    @property
    def cycles(self) -> int:
        """The length of the stretch."""
        return max(self.ends)

    @cached_property
    def last(self) -> int:
        """The IPU that the others wait for.

        If several finish last, it is the one with the lowest number. It is never an IPU that only
        waited.
        """
        ipus = range(len(self.ends))
        works = [
            next(ipu for ipu in ipus if ipu not in part.idle) if part.ipu is None else part.ipu
            for part in self.parts
            if part.start + part.cycles == self.cycles
        ]
        return min(works, default=0)

    @property
    def waits(self) -> list[tuple[int, int, int, int]]:
        """(IPU, begin, end, the IPU that it waits for) of every wait."""
        waits: list[tuple[int, int, int, int]] = []
        clocks = [0] * len(self.ends)
        ended: dict[int, int] = {}  # by cycle: the lowest IPU that finished a part
        for part in (*self.parts, IPUStep(-1, None, self.cycles, 0)):
            if part.ipu is None:
                ipus = [ipu for ipu in range(len(clocks)) if ipu not in part.idle]
            else:
                ipus = [part.ipu]
            for ipu in ipus:
                if clocks[ipu] < part.start:
                    waits.append((ipu, clocks[ipu], part.start, ended[part.start]))
            for ipu in ipus:
                clocks[ipu] = part.start + part.cycles
                ended[clocks[ipu]] = min(ipu, ended.get(clocks[ipu], ipu))
        return waits

    @property
    def steps(self) -> set[int]:
        """The compiled steps in the stretch."""
        return {part.step for part in self.parts}

    @property
    def summary(self) -> str:
        """A description of a stretch of several steps."""
        unit = "set of tiles" if self.names[0].endswith("I/O") else "IPU"
        return f"{counted(len(self.steps), 'step')}, each {unit} by itself"

    def ends_text(self, after: str = " ") -> str:
        """Return the name and the end of each IPU, for the first 16; `after` follows the name."""
        ends = zip(self.names, self.ends[:MOST_TOLD], strict=False)
        return ", ".join(f"{name}{after}{end:,}" for name, end in ends)

    def finish_text(self) -> str:
        """Return after how many cycles each IPU has finished, the earliest first."""
        ends = sorted(set(self.ends))
        if len(ends) == 1:
            return f"all {len(self.ends)} IPUs finish together"
        groups = [
            f"{named_ipus([n for n, e in zip(self.names, self.ends, strict=True) if e == end])} "
            f"after {number(end)}"
            for end in (*ends[: MOST_TOLD - 1], ends[-1])[: len(ends)]
        ]
        return f"finished are {', '.join(groups)}"

    def lasts(self, part: IPUStep) -> bool:
        """Return whether the last IPU, or all IPUs together, execute the part."""
        return part.ipu in (None, self.last)


@dataclass(frozen=True, eq=False)
class Span:
    """A phase of a stretch, which `tiles` (bool[tiles]) begin at cycle `start` of the stretch."""

    part: IPUStep
    phase: Phase
    start: int
    tiles: Array


def at_work(report: Report, step: int) -> Array:
    """Return bool[ipus]: whether each IPU has a part in a compiled step; all are True if none
    has."""
    works: Array = (report.overlap.lasts[step] > 0) & (report.overlap.idle[step] == 0)
    return works | ~works.any()


def parts(report: Report, step: int, clocks: list[int] | None = None) -> list[IPUStep]:
    """Return the parts of a compiled step, beginning at the cycles `clocks` of the IPUs.

    `clocks` are advanced to the ends of the parts. The clock of an IPU without a part in a step of
    all stays. An IPU that is stalled without a part only waits, and gets no entry.
    """
    ipus = report.target.num_sets
    lasts = report.overlap.lasts[step].tolist()
    meets = report.overlap.meets[step]
    now = [0] * ipus if clocks is None else clocks
    is_of_all = ipus == 1 or bool(of_all(meets))
    now[:] = met(np.array(now), meets).tolist()
    works = at_work(report, step).tolist()
    if is_of_all:
        idle = tuple(ipu for ipu, has_part in enumerate(works) if not has_part)
        entries = [IPUStep(step, None, max(now), lasts[0], idle=idle)]
    else:
        entries = [
            IPUStep(step, ipu, now[ipu], lasts[ipu])
            for ipu in range(ipus)
            if lasts[ipu] and works[ipu]
        ]
    now[:] = [now[ipu] + (lasts[ipu] if works[ipu] or not is_of_all else 0) for ipu in range(ipus)]
    return entries


def cuts(report: Report) -> Array:
    """Return int64[stretches]: the superstep of the run with which each stretch begins."""
    has_several = report.target.num_sets > 1
    return report.overlap.cuts if has_several else np.arange(len(report.step_numbers))


def segments(report: Report, steps: int) -> tuple[list[Segment], Array]:
    """Return (the distinct stretches, int64: the number of the stretch at each place of the run)
    of the first `steps` steps."""
    order = report.step_numbers[:steps]
    ipus = report.target.num_sets
    if ipus == 1:
        numbers, inverse = np.unique(order, return_inverse=True)
        stretches = []
        for step in numbers.tolist():
            step_parts = parts(report, step)
            stretches.append(Segment(tuple(step_parts), (step_parts[0].cycles,), report))
        return stretches, inverse.astype(np.int64)
    edges = np.append(report.overlap.cuts[report.overlap.cuts < steps], steps)
    number_of: dict[bytes, int] = {}
    stretches = []
    numbers_in_order = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        key = order[first:last].tobytes()
        if key not in number_of:
            clocks = [0] * ipus
            stretch_parts = [
                part for step in order[first:last].tolist() for part in parts(report, step, clocks)
            ]
            number_of[key] = len(stretches)
            stretches.append(Segment(tuple(stretch_parts), tuple(clocks), report))
        numbers_in_order.append(number_of[key])
    return stretches, np.array(numbers_in_order, np.int64)


def _merged(first: Bar, second: Bar, start: int) -> Bar:
    """Return two bars in different lanes as one; in all other lanes it begins at `start`."""
    begin = first.start + second.start - start
    return replace(first, start=begin, length=first.length + second.length)


def ipu_names(ipus: int) -> tuple[str, ...]:
    """Return the texts beside the lanes of several IPUs: all, or the first and last of many."""
    numbers = range(ipus) if ipus <= MOST_ENDS else (0, ipus - 1)
    return tuple(f"IPU {ipu}" for ipu in numbers)


class LanesOf:
    """Lanes for the tiles of a machine.

    There is one lane for each tile, or at most `most` lanes, which the tiles of each IPU share.
    With `count`, a multiple of the number of IPUs, there are exactly that many, and they are sorted
    in any case. `ends` are texts beside the lanes; on several IPUs the number of each, if there is
    room.
    """

    def __init__(self, report: Report, most: int, count: int = 0) -> None:
        target = report.target
        self.tiles = target.num_tiles
        self.ipus = target.num_ipus
        self._starts = target.set_starts
        sets_per_ipu = target.num_sets // self.ipus
        if count:
            per_ipu = count // self.ipus
        else:
            per_ipu = min(target.tiles_per_ipu, max(sets_per_ipu, most // self.ipus))
        self.count = per_ipu * self.ipus
        lanes_of_set = [per_ipu]
        if target.io_tiles:
            share = round(per_ipu * target.io_tiles / target.tiles_per_ipu)
            io_lanes = min(max(1, share), per_ipu - 1)
            lanes_of_set = [io_lanes, per_ipu - io_lanes]
        self._lanes = lanes_of_set * self.ipus
        self.is_sorted = self.count < self.tiles or count > 0
        self.ends = ipu_names(self.ipus) if self.ipus > 1 else ENDS
        if self.ipus < self._starts.size:
            self.ends = (
                target.sets if target.num_sets <= MOST_ENDS else (target.sets[0], self.ends[-1])
            )
        self._ipu = np.repeat(np.arange(target.num_sets), self._lanes)

    @property
    def notes(self) -> list[str]:
        """The note on lanes that stand for several tiles; [] if each stands for one."""
        if self.count >= self.tiles:
            return []
        where = "of each IPU " if self.ipus > 1 else ""
        if self.ipus != self._starts.size:
            where = "of each set "
        return [
            f"The {self.count} lanes are the tiles {where}sorted by time, in each phase anew, "
            f"{number(self.tiles / self.count)} to a lane, which shows their mean. A lane is no "
            "tile; the shares of time are those of all tiles."
        ]

    def of(self, per_tile: Array) -> Array:
        """Return int64[lanes]: the value of each tile, or the quantiles of each IPU."""
        if not self.is_sorted:
            return per_tile
        rows = per_tile.reshape(self.ipus, -1)
        sets_per_ipu = self._starts.size // self.ipus
        of_sets = np.split(rows, self._starts[1:sets_per_ipu], axis=1)
        columns = [
            quantiles(tiles, lanes) for tiles, lanes in zip(of_sets, self._lanes, strict=False)
        ]
        return np.concatenate(columns, axis=1).reshape(-1)

    def spent(self, phases: Sequence[Phase], kind: str) -> Array | None:
        """Return int64[lanes]: the busy cycles in the phases of a kind; None if there are none."""
        busy = [p.busy for p in phases if p.kind == kind and p.busy is not None]
        return self.of(np.sum(busy, axis=0)) if busy else None

    def drawing(self, stretch: Segment) -> Drawing:
        """Return a stretch, lane by lane.

        The ends of the bars of the last IPU are those of all lanes of the stretch.
        """
        merged: dict[tuple[object, ...], Bar] = {}
        for span in stretch.spans:
            for bar in self._bars(span, stretch.lasts(span.part)):
                # equal phases of several IPUs at the same time become one bar
                key = bar.code, span.start, bar.end, bar.rest, span.part.ipu is None
                known = merged.get(key)
                merged[key] = bar if known is None else _merged(known, bar, span.start)
        bars = list(merged.values())
        for ipu, begin, until, _ in stretch.waits:
            end = until if ipu == stretch.last else begin
            bars.append(Bar(WAIT, begin, np.where(self._ipu == ipu, until - begin, 0), end))
        return Drawing(stretch.cycles, tuple(bars), "modelled cycles")

    def _bars(self, span: Span, is_last: bool) -> list[Bar]:
        """Return the bars of a phase; `is_last`: whether the last IPU, or all IPUs, execute it."""
        phase = span.phase
        start = span.start
        code = STATE[phase.kind]
        busy = phase.cycles if phase.busy is None else self.of(phase.busy)
        in_phase = span.tiles[self._starts[self._ipu]]
        if in_phase.all():
            rest = -1 if phase.busy is None else WAIT
            return [Bar(code, start, busy, start + phase.cycles, rest=rest)]
        end = start + (phase.cycles if is_last else 0)
        bars = [Bar(code, start, np.where(in_phase, busy, 0), end)]
        idle = np.where(in_phase, phase.cycles - busy, 0)
        if idle.any():
            waiting_from = start + np.where(in_phase, busy, 0)
            bars.append(Bar(WAIT, waiting_from, idle, start + int(np.max(busy))))
        return bars
