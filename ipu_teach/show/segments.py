"""Divide a run into stretches; all IPUs wait for each other at the end of each stretch.

On one IPU, every step is a stretch. On several IPUs, each IPU executes its own steps within a
stretch, and IPUs that finish early wait for the last IPU. A step that all IPUs execute together is
a stretch of one step.

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
MOST_TOLD = 16  # The maximum number of IPUs that a text lists.
# The maximum number of tiles, steps or IPUs that a text names. If there are more, the text names
# the first two.
MOST_NAMED = 4
STRETCH = "a stretch is the steps between two syncs of all IPUs"
MOST_ENDS = 8  # The maximum number of IPUs whose numbers are all beside their lanes.


def listed_names(names: Sequence[str]) -> str:
    """Return names as a text, such as "a, b and 3 others"; up to four names are all listed."""
    listed = [*names]
    if len(listed) == 1:
        return listed[0]
    if len(listed) > MOST_NAMED:
        listed = [*listed[:2], f"{len(listed) - 2:,} others"]
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


@dataclass(frozen=True)
class IPUStep:
    """The execution of a step by one IPU, or by all IPUs together (`ipu` is None).

    `start` is in cycles from the beginning of the stretch, a group of consecutive steps. If the
    other IPUs execute a step together, `idle` has the IPUs that do not take part in it.
    """

    step: int
    ipu: int | None
    start: int
    cycles: int
    idle: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Segment:
    """A stretch of a run: the consecutive steps between two syncs of all IPUs.

    `parts` are the executions of the steps by the IPUs. `ends` has the cycle at which each IPU has
    finished its parts, from the beginning of the stretch.
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
        """The phases of all parts of the stretch, with the tiles that take part in each phase."""
        target = self.report.target
        spans: list[Span] = []
        ipu_of_tile = target.set_of(np.arange(target.num_tiles))
        for part in self.parts:
            is_of_all = part.ipu is None
            tiles = (
                at_work(self.report, part.step)[ipu_of_tile]
                if is_of_all
                else ipu_of_tile == part.ipu
            )
            start_cycle = part.start
            for phase in self.report.phases(part.step, part.ipu):
                spans.append(Span(part, phase, start_cycle, tiles))
                start_cycle += phase.cycles
        return spans

    @property
    def cycles(self) -> int:
        """The length of the stretch in modelled cycles."""
        return max(self.ends)

    @cached_property
    def last(self) -> int:
        """The index of the IPU that the others wait for at the end of the stretch.

        If several IPUs finish last, it is the one with the lowest index. An IPU that only waited is
        never returned.
        """
        ipus = range(len(self.ends))
        last_ipus = [
            next(ipu for ipu in ipus if ipu not in part.idle) if part.ipu is None else part.ipu
            for part in self.parts
            if part.start + part.cycles == self.cycles
        ]
        return min(last_ipus, default=0)

    @property
    def waits(self) -> list[tuple[int, int, int, int]]:
        """A tuple for each wait: (IPU, begin cycle, end cycle, IPU that it waits for)."""
        waits: list[tuple[int, int, int, int]] = []
        clocks = [0] * len(self.ends)
        # Maps each cycle at which a step ends to the lowest index of the IPUs that finish a step at
        # that cycle.
        ipu_by_end: dict[int, int] = {}
        for part in (*self.parts, IPUStep(-1, None, self.cycles, 0)):
            if part.ipu is None:
                ipus = [ipu for ipu in range(len(clocks)) if ipu not in part.idle]
            else:
                ipus = [part.ipu]
            for ipu in ipus:
                if clocks[ipu] < part.start:
                    waits.append((ipu, clocks[ipu], part.start, ipu_by_end[part.start]))
            for ipu in ipus:
                clocks[ipu] = part.start + part.cycles
                ipu_by_end[clocks[ipu]] = min(ipu, ipu_by_end.get(clocks[ipu], ipu))
        return waits

    @property
    def steps(self) -> set[int]:
        """The numbers of the compiled steps in the stretch."""
        return {part.step for part in self.parts}

    @property
    def summary(self) -> str:
        """A description of a stretch of several steps: how many different steps it contains."""
        unit = "set of tiles" if self.names[0].endswith("I/O") else "IPU"
        return f"{counted(len(self.steps), 'step')}, each {unit} by itself"

    def ends_text(self, after: str = " ") -> str:
        """Return a text with the name of each IPU and the cycle at which it ends.

        At most 16 IPUs are included. `after` is the text between a name and its cycle.
        """
        ends = zip(self.names, self.ends[:MOST_TOLD], strict=False)
        return ", ".join(f"{name}{after}{end:,}" for name, end in ends)

    def finish_text(self) -> str:
        """Return a text that says after how many cycles each IPU finishes, the earliest first."""
        ends = sorted(set(self.ends))
        if len(ends) == 1:
            return f"all {len(self.ends)} IPUs finish together"
        groups = []
        for end in (*ends[: MOST_TOLD - 1], ends[-1])[: len(ends)]:
            names = [n for n, e in zip(self.names, self.ends, strict=True) if e == end]
            verb = "finishes" if len(names) == 1 else "finish"
            groups.append(f"{listed_names(names)} {verb} after {number(end)}")
        return ", ".join(groups)

    def lasts(self, part: IPUStep) -> bool:
        """Return whether the IPU `last`, or all IPUs together, execute `part`."""
        return part.ipu in (None, self.last)


@dataclass(frozen=True, eq=False)
class Span:
    """A phase in a stretch of a run: which tiles execute it, and when it begins.

    A stretch is a group of consecutive supersteps between two syncs of all IPUs. `tiles` is
    bool[tiles], and `start` is in cycles from the beginning of the stretch.
    """

    part: IPUStep
    phase: Phase
    start: int
    tiles: Array


def at_work(report: Report, step: int) -> Array:
    """Return bool[ipus]: whether each IPU takes part in a compiled step.

    If no IPU takes part, all entries are True.
    """
    works: Array = (report.overlap.lasts[step] > 0) & (report.overlap.idle[step] == 0)
    return works | ~works.any()


def parts(report: Report, step: int, clocks: list[int] | None = None) -> list[IPUStep]:
    """Return the executions of a compiled step: one for each IPU, or a single one for all IPUs.

    `clocks` has the cycle at which each IPU is free for the step; None means 0 for all. The
    function updates `clocks` to the cycles at which the IPUs have finished the step. An IPU that
    takes no part in the step has no execution. If such an IPU waits for the step, its clock
    advances, but not beyond the start of a step that all IPUs execute together.
    """
    ipus = report.target.num_sets
    cycles_of_ipus = report.overlap.lasts[step].tolist()
    meets = report.overlap.meets[step]
    clock_of_ipu = [0] * ipus if clocks is None else clocks
    is_of_all = ipus == 1 or bool(of_all(meets))
    clock_of_ipu[:] = met(np.array(clock_of_ipu), meets).tolist()
    is_at_work = at_work(report, step).tolist()
    if is_of_all:
        idle = tuple(ipu for ipu, has_part in enumerate(is_at_work) if not has_part)
        steps_of_ipus = [IPUStep(step, None, max(clock_of_ipu), cycles_of_ipus[0], idle=idle)]
    else:
        steps_of_ipus = [
            IPUStep(step, ipu, clock_of_ipu[ipu], cycles_of_ipus[ipu])
            for ipu in range(ipus)
            if cycles_of_ipus[ipu] and is_at_work[ipu]
        ]
    clock_of_ipu[:] = [
        clock_of_ipu[ipu] + (cycles_of_ipus[ipu] if is_at_work[ipu] or not is_of_all else 0)
        for ipu in range(ipus)
    ]
    return steps_of_ipus


def cuts(report: Report) -> Array:
    """Return int64[stretches]: the number of the first superstep of each stretch of a run."""
    has_several = report.target.num_sets > 1
    return report.overlap.cuts if has_several else np.arange(len(report.step_numbers))


def segments(report: Report, steps: int) -> tuple[list[Segment], Array]:
    """Return `(stretches, order)` of the first `steps` supersteps of a run.

    `stretches` are the distinct stretches, and `order` (int64) has the index in `stretches` of each
    stretch of the run.
    """
    step_numbers = report.step_numbers[:steps]
    ipus = report.target.num_sets
    if ipus == 1:
        distinct_steps, inverse = np.unique(step_numbers, return_inverse=True)
        stretches = []
        for step in distinct_steps.tolist():
            step_parts = parts(report, step)
            stretches.append(Segment(tuple(step_parts), (step_parts[0].cycles,), report))
        return stretches, inverse.astype(np.int64)
    stretch_bounds = np.append(report.overlap.cuts[report.overlap.cuts < steps], steps)
    number_by_key: dict[bytes, int] = {}
    stretches = []
    stretch_numbers = []
    for first_step, end_step in zip(
        stretch_bounds[:-1].tolist(), stretch_bounds[1:].tolist(), strict=True
    ):
        key = step_numbers[first_step:end_step].tobytes()
        if key not in number_by_key:
            clocks = [0] * ipus
            stretch_parts = [
                part
                for step in step_numbers[first_step:end_step].tolist()
                for part in parts(report, step, clocks)
            ]
            number_by_key[key] = len(stretches)
            stretches.append(Segment(tuple(stretch_parts), tuple(clocks), report))
        stretch_numbers.append(number_by_key[key])
    return stretches, np.array(stretch_numbers, np.int64)


def _merged(first: Bar, second: Bar, start: int) -> Bar:
    """Merge two bars of the same colour that occupy different lanes into one.

    In lanes that neither bar occupies, the merged bar begins at `start`.
    """
    begin = first.start + second.start - start
    return replace(first, start=begin, length=first.length + second.length)


def in_bands(names: Sequence[str], lanes: Sequence[int]) -> tuple[tuple[str, float], ...]:
    """Return the labels beside bands of lanes, each in the middle of its band.

    `lanes` has the number of lanes of each band. If there are more than 8 bands, only the first and
    the last are labelled.
    """
    if len(names) > MOST_ENDS:
        return (names[0], 0.0), (names[-1], 1.0)
    ends = np.cumsum(lanes)
    middles = (ends - np.array(lanes) / 2) / ends[-1]
    return tuple(zip(names, np.round(middles, 3).tolist(), strict=True))


def ipu_names(ipus: int) -> tuple[tuple[str, float], ...]:
    """Return the labels beside the lanes of IPUs that each have the same number of lanes."""
    return in_bands([f"IPU {ipu}" for ipu in range(ipus)], [1] * ipus)


class LanesOf:
    """The lanes that show the tiles of a machine.

    There is a lane for each tile if there are at most `most` tiles. If there are more tiles, the
    tiles of each IPU share lanes. There are then at most `most` lanes, but at least one for each of
    `Target.sets`. If `count` is not 0, there are exactly `count` lanes; `count` is a multiple of
    the number of IPUs.

    If `count` is given, or if there are fewer lanes than tiles, the lanes are sorted by time.
    `ends` are the texts beside the first and the last lane, or beside the lanes of each IPU.
    """

    def __init__(self, report: Report, most: int, count: int = 0) -> None:
        target = report.target
        self.tiles = target.num_tiles
        self.ipus = target.num_ipus
        self._starts = target.set_starts
        sets_per_ipu = target.num_sets // self.ipus
        if count:
            lanes_per_ipu = count // self.ipus
        else:
            lanes_per_ipu = min(target.tiles_per_ipu, max(sets_per_ipu, most // self.ipus))
        self.count = lanes_per_ipu * self.ipus
        lanes_of_set = [lanes_per_ipu]
        if target.io_tiles:
            proportional_lanes = round(lanes_per_ipu * target.io_tiles / target.tiles_per_ipu)
            io_lanes = min(max(1, proportional_lanes), lanes_per_ipu - 1)
            lanes_of_set = [io_lanes, lanes_per_ipu - io_lanes]
        self._lanes = lanes_of_set * self.ipus
        self.is_sorted = self.count < self.tiles or count > 0
        self.ends = ipu_names(self.ipus) if self.ipus > 1 else ENDS
        if self.ipus < self._starts.size:
            self.ends = in_bands(target.sets, self._lanes)
        self._ipu = np.repeat(np.arange(target.num_sets), self._lanes)

    @property
    def mean_text(self) -> str:
        """A phrase that says how many tiles share a lane; "" if each lane is one tile."""
        if self.count >= self.tiles:
            return ""
        return f"each lane is the mean of {number(self.tiles / self.count)} tiles"

    @property
    def notes(self) -> list[str]:
        """A list with the note that several tiles share a lane; [] if each lane is one tile."""
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
        """Convert values per tile to values per lane: int64[lanes].

        If the lanes are sorted, the tiles of each of `Target.sets` are sorted by their values, the
        largest first, and the value of a lane is the mean over its group of tiles.
        """
        if not self.is_sorted:
            return per_tile
        tiles_of_ipus = per_tile.reshape(self.ipus, -1)
        sets_per_ipu = self._starts.size // self.ipus
        tiles_of_sets = np.split(tiles_of_ipus, self._starts[1:sets_per_ipu], axis=1)
        lanes_of_sets = [
            quantiles(tiles, lanes)
            for tiles, lanes in zip(tiles_of_sets, self._lanes, strict=False)
        ]
        return np.concatenate(lanes_of_sets, axis=1).reshape(-1)

    def spent(self, phases: Sequence[Phase], kind: str) -> Array | None:
        """Return int64[lanes]: the busy cycles in all phases of a kind; None if there are none."""
        busy_per_tile = [p.busy for p in phases if p.kind == kind and p.busy is not None]
        return self.of(np.sum(busy_per_tile, axis=0)) if busy_per_tile else None

    def drawing(self, stretch: Segment) -> Drawing:
        """Return the bars of a stretch in all lanes.

        In the strip of the run, only the bars of the IPU `stretch.last` have a width: `Bar.end` of
        all other bars equals their start.
        """
        bar_by_key: dict[tuple[object, ...], Bar] = {}
        for span in stretch.spans:
            for bar in self._bars(span, stretch.lasts(span.part)):
                # Equal phases that several IPUs execute at the same time become one bar.
                key = bar.code, span.start, bar.end, bar.rest, span.part.ipu is None
                merged_bar = bar_by_key.get(key)
                bar_by_key[key] = (
                    bar if merged_bar is None else _merged(merged_bar, bar, span.start)
                )
        bars = list(bar_by_key.values())
        for ipu, wait_start, wait_end, _ in stretch.waits:
            bar_end = wait_end if ipu == stretch.last else wait_start
            bars.append(
                Bar(WAIT, wait_start, np.where(self._ipu == ipu, wait_end - wait_start, 0), bar_end)
            )
        return Drawing(stretch.cycles, tuple(bars), "modelled cycles")

    def _bars(self, span: Span, is_last: bool) -> list[Bar]:
        """Return the bars of a phase in all lanes.

        `is_last` is whether the phase is executed by the IPU that ends the stretch last, or by all
        IPUs together.
        """
        phase = span.phase
        start_cycle = span.start
        code = STATE[phase.kind]
        busy_cycles = phase.cycles if phase.busy is None else self.of(phase.busy)
        is_in_phase = span.tiles[self._starts[self._ipu]]
        if is_in_phase.all():
            rest_code = -1 if phase.busy is None else WAIT
            return [Bar(code, start_cycle, busy_cycles, start_cycle + phase.cycles, rest=rest_code)]
        end_cycle = start_cycle + (phase.cycles if is_last else 0)
        bars = [Bar(code, start_cycle, np.where(is_in_phase, busy_cycles, 0), end_cycle)]
        idle_cycles = np.where(is_in_phase, phase.cycles - busy_cycles, 0)
        if idle_cycles.any():
            waiting_from = start_cycle + np.where(is_in_phase, busy_cycles, 0)
            bars.append(
                Bar(WAIT, waiting_from, idle_cycles, start_cycle + int(np.max(busy_cycles)))
            )
        return bars
