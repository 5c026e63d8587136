"""A run by time, in stretches at whose ends all IPUs wait for each other: a step of one IPU, or
what several do meanwhile. Where there are I/O tiles, what is said here of IPUs is so of
`Target.sets`.

On one IPU every step is a stretch. On several each IPU goes through steps of its own within one,
and those that are done wait for the last. What all do together is a stretch of one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

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
MOST_TOLD = 16  # IPUs, in words
MOST_ENDS = 8  # IPUs with their number beside their lanes


@dataclass(frozen=True)
class IPUStep:
    """A step as an IPU does it by itself, or (None) all together, but for those that are `idle`:
    `start` counts from where the stretch begins."""

    step: int
    ipu: int | None
    start: int
    cycles: int
    idle: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of the run of `report`. `ends`: when each IPU is done with its parts; the last to
    be is `last`, and then the stretch is over."""

    parts: tuple[IPUStep, ...]
    ends: tuple[int, ...]
    report: Report

    @property
    def names(self) -> tuple[str, ...]:
        """Those of the IPUs."""
        return self.report.target.sets

    @cached_property
    def spans(self) -> list[Span]:
        """Its phases. A view asks for them again for its picture, its words and its table."""
        target, found = self.report.target, list[Span]()
        ipu = target.set_of(np.arange(target.num_tiles))
        for part in self.parts:
            own, start = ipu == part.ipu, part.start
            own = at_work(self.report, part.step)[ipu] if part.ipu is None else own
            for phase in self.report.phases(part.step, part.ipu):
                found.append(Span(part, phase, start, own))
                start += phase.cycles
        return found

    @property
    def cycles(self) -> int:
        """How long it takes."""
        return max(self.ends)

    @cached_property
    def last(self) -> int:
        """The IPU that the others wait for: of several the lowest, and none that only waited."""
        ipus = range(len(self.ends))
        works = [
            next(ipu for ipu in ipus if ipu not in part.idle) if part.ipu is None else part.ipu
            for part in self.parts
            if part.start + part.cycles == self.cycles
        ]
        return min(works, default=0)

    @property
    def waits(self) -> list[tuple[int, int, int, int]]:
        """(IPU, from, until, which other) of each time in which one waits for another."""
        found, clocks = list[tuple[int, int, int, int]](), [0] * len(self.ends)
        ended = dict[int, int]()
        for part in (*self.parts, IPUStep(-1, None, self.cycles, 0)):
            some = [ipu for ipu in range(len(clocks)) if ipu not in part.idle]
            every = some if part.ipu is None else (part.ipu,)
            for ipu in every:
                if clocks[ipu] < part.start:
                    found.append((ipu, clocks[ipu], part.start, ended[part.start]))
            for ipu in every:
                clocks[ipu] = part.start + part.cycles
                ended[clocks[ipu]] = min(ipu, ended.get(clocks[ipu], ipu))
        return found

    @property
    def steps(self) -> set[int]:
        """Those of which its parts are."""
        return {part.step for part in self.parts}

    @property
    def apart(self) -> str:
        """What it is, of several steps."""
        one = "set of tiles" if self.names[0].endswith("I/O") else "IPU"
        return f"{counted(len(self.steps), 'step')}, each {one} by itself"

    def told(self, after: str = " ") -> str:
        """When each IPU is done, of many the first."""
        ends = zip(self.names, self.ends[:MOST_TOLD], strict=False)
        return ", ".join(f"{name}{after}{end:,}" for name, end in ends)

    def lasts(self, part: IPUStep) -> bool:
        """Whether a part of it is done by the last, or by all."""
        return part.ipu in (None, self.last)


@dataclass(frozen=True, eq=False)
class Span:
    """A phase of a stretch, which the tiles `own` (bool[tiles]) begin at `start`."""

    part: IPUStep
    phase: Phase
    start: int
    own: Array


def at_work(report: Report, step: int) -> Array:
    """bool[ipus]: which have a part in compiled step `step`, all in one in which none has."""
    found: Array = (report.overlap.lasts[step] > 0) & (report.overlap.idle[step] == 0)
    return found | ~found.any()


def parts(report: Report, step: int, clocks: list[int] | None = None) -> list[IPUStep]:
    """What the IPUs do in compiled step `step`, beginning at `clocks`, which go on meanwhile,
    but for one without a part in a step of all. Whoever is held up without a part in it waits."""
    ipus, lasts = report.target.num_sets, report.overlap.lasts[step].tolist()
    meets, now = report.overlap.meets[step], [0] * ipus if clocks is None else clocks
    together = ipus == 1 or bool(of_all(meets))
    now[:] = met(np.array(now), meets).tolist()
    works = at_work(report, step).tolist()
    idle = tuple(ipu for ipu, own in enumerate(works) if not own)
    found = (
        [IPUStep(step, None, max(now), lasts[0], idle)]
        if together
        else [
            IPUStep(step, ipu, now[ipu], lasts[ipu])
            for ipu in range(ipus)
            if lasts[ipu] and works[ipu]
        ]
    )
    now[:] = [now[i] + lasts[i] * (works[i] or not together) for i in range(ipus)]
    return found


def cuts(report: Report) -> Array:
    """int64[stretches]: the step of the run with which each begins."""
    several = report.target.num_sets > 1
    return report.overlap.cuts if several else np.arange(len(report.step_numbers))


def segments(report: Report, steps: int) -> tuple[list[Segment], Array]:
    """(the stretches that differ; int64: which of them come, in order) of the first `steps` steps
    of a run."""
    order, ipus = report.step_numbers[:steps], report.target.num_sets
    if ipus == 1:
        numbers, each = np.unique(order, return_inverse=True)
        own = [parts(report, step) for step in numbers.tolist()]
        return [Segment(tuple(one), (one[0].cycles,), report) for one in own], each.astype(np.int64)
    edges = np.append(report.overlap.cuts[report.overlap.cuts < steps], steps)
    found: dict[bytes, int] = {}
    made: list[Segment] = []
    which = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        key = order[first:last].tobytes()
        if key not in found:
            clocks = [0] * ipus
            listed = [
                part for step in order[first:last].tolist() for part in parts(report, step, clocks)
            ]
            found[key] = len(made)
            made.append(Segment(tuple(listed), tuple(clocks), report))
        which.append(found[key])
    return made, np.array(which, np.int64)


def _both(one: Bar, other: Bar, start: int) -> Bar:
    """Two bars in different lanes as one; in the lanes of neither they begin at `start`."""
    begin = one.start + other.start - start
    return replace(one, start=begin, length=one.length + other.length)


def ipu_names(ipus: int) -> tuple[str, ...]:
    """The words beside the lanes of several IPUs: each, or of many the first and the last."""
    numbers = range(ipus) if ipus <= MOST_ENDS else (0, ipus - 1)
    return tuple(f"IPU {ipu}" for ipu in numbers)


class LanesOf:
    """Lanes for the tiles of a machine: one for each, or on each IPU as many as there is room for,
    which share its tiles; with `count` so many, a multiple of the IPUs, sorted all the same.
    `ends` are words beside them: of several IPUs the number of each, as far as there is room."""

    def __init__(self, report: Report, most: int, count: int = 0) -> None:
        target = report.target
        self.tiles, self.ipus, self._starts = target.num_tiles, target.num_ipus, target.set_starts
        sets = target.num_sets // self.ipus  # of each
        per_ipu = min(target.tiles_per_ipu, max(sets, most // self.ipus))
        per_ipu = count // self.ipus if count else per_ipu
        self.count = per_ipu * self.ipus
        aside = min(max(1, round(per_ipu * target.io_tiles / target.tiles_per_ipu)), per_ipu - 1)
        # of each set
        self._lanes = ([aside, per_ipu - aside] if target.io_tiles else [per_ipu]) * self.ipus
        self.is_sorted = self.count < self.tiles or count > 0
        self.ends = ipu_names(self.ipus) if self.ipus > 1 else ENDS
        if self.ipus < self._starts.size:
            self.ends = (
                target.sets if target.num_sets <= MOST_ENDS else (target.sets[0], self.ends[-1])
            )
        self._ipu = np.repeat(np.arange(target.num_sets), self._lanes)

    @property
    def notes(self) -> list[str]:
        """What lanes are that stand for more tiles than there are lanes."""
        where = "of each IPU " * (self.ipus > 1)
        where = where if self.ipus == self._starts.size else "of each set "
        return [
            f"The {self.count} lanes are the tiles {where}sorted by time, in each phase anew, "
            f"{number(self.tiles / self.count)} to a lane, which shows their mean. A lane is no "
            "tile; the shares of time are those of all tiles."
        ] * (self.count < self.tiles)

    def of(self, per_tile: Array) -> Array:
        """int64[lanes]: of each tile, or of many the quantiles of each IPU."""
        if not self.is_sorted:
            return per_tile
        rows, sets = per_tile.reshape(self.ipus, -1), self._starts.size // self.ipus
        each = zip(np.split(rows, self._starts[1:sets], axis=1), self._lanes, strict=False)
        return np.concatenate([quantiles(own, lanes) for own, lanes in each], axis=1).reshape(-1)

    def spent(self, phases: Sequence[Phase], kind: str) -> Array | None:
        """int64[lanes]: how long each is at work in the phases of a kind, None if there are
        none."""
        busy = [p.busy for p in phases if p.kind == kind and p.busy is not None]
        return self.of(np.sum(busy, axis=0)) if busy else None

    def drawing(self, stretch: Segment) -> Drawing:
        """A stretch, lane by lane. What the bars of the last IPU to be done say of its length is
        the whole of it."""
        found: dict[tuple[Any, ...], Bar] = {}
        for span in stretch.spans:
            for bar in self._bars(span, stretch.lasts(span.part)):
                # what IPUs do alike at the same time is one bar
                key = bar.code, span.start, bar.end, bar.rest, span.part.ipu is None
                alike = found.get(key)
                found[key] = bar if alike is None else _both(alike, bar, span.start)
        bars = list(found.values())
        for ipu, begin, until, _ in stretch.waits:
            end = until if ipu == stretch.last else begin
            bars.append(Bar(WAIT, begin, np.where(self._ipu == ipu, until - begin, 0), end))
        return Drawing(stretch.cycles, tuple(bars), "modelled cycles")

    def _bars(self, span: Span, whole: bool) -> list[Bar]:
        phase, start = span.phase, span.start
        code, end = STATE[phase.kind], start + phase.cycles * whole
        busy = phase.cycles if phase.busy is None else self.of(phase.busy)
        own = span.own[self._starts[self._ipu]]
        if own.all():
            return [
                Bar(code, start, busy, start + phase.cycles, -1 if phase.busy is None else WAIT)
            ]
        idle = np.where(own, phase.cycles - busy, 0)
        found = [Bar(code, start, np.where(own, busy, 0), end)]
        return found + [
            Bar(WAIT, start + np.where(own, busy, 0), idle, start + int(np.max(busy)))
        ] * bool(idle.any())
