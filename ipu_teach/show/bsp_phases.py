"""The phases of a run for the view `bsp`: its stretches, and where their frames begin.

A stretch is a group of consecutive supersteps between two points at which all IPUs wait for each
other. On one IPU, it is a single superstep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ipu_teach.cost.phases import COMPUTE, Phase
from ipu_teach.report import Report
from ipu_teach.show.measures import SMALLEST_LABEL
from ipu_teach.show.palette import STATE
from ipu_teach.show.report_facts import (
    cycles_by_kind,
    ipus_at_work,
    run_of,
    slowest,
    waited_for,
)
from ipu_teach.show.scene import (
    Table,
    label,
    number,
)
from ipu_teach.show.segments import (
    IPUStep,
    LanesOf,
    Segment,
    Span,
    parts,
    segments,
)

MOST_FRAMES = 3000  # The maximum number of frames shown of a run.
MOST_LANES = 64  # With more tiles than this, the lanes are sorted, and tiles share lanes.


class _Executed(NamedTuple):
    """The executions of a compiled step, by one IPU or by all IPUs together, with its phases.

    `times` is the number of executions.
    """

    part: IPUStep
    times: int
    phases: Sequence[Phase]


class Phases:
    """The stretches of a run, their division into frames, and the phase that each frame is about.

    Usually, a new frame begins whenever a phase of some IPU begins or ends. If a stretch has more
    than `max_edges` such moments, its frames are instead the phases of the single IPU that ends the
    stretch last.

    Attributes:
        executed: the executions of the compiled steps that ran.
        stretches: the distinct stretches; a stretch consists of the steps between two syncs of all
            IPUs.
        order: int64: for each stretch of the run, in order, its index in `stretches`.
        kinds: the kinds of phases that occur.
    """

    def __init__(self, report: Report, max_edges: int) -> None:
        self.report = report
        self.max_edges = max_edges
        numbers, runs = np.unique(report.step_numbers, return_counts=True)
        self.executed = [
            _Executed(part, times, report.phases(n, part.ipu))
            for n, times in zip(numbers.tolist(), runs.tolist(), strict=True)
            for part in parts(report, n)
        ]
        self.stretches, self.order = segments(report, min(MOST_FRAMES, len(report.step_numbers)))
        self._edges_of: dict[Segment, list[int]] = {}
        self.has_several = report.target.num_sets > 1
        self.group = "stretch" if self.has_several else "superstep"
        self.by_tile = LanesOf(report, MOST_LANES)
        self.lanes = self.by_tile.count
        self.is_sorted = self.by_tile.is_sorted
        self.lane_name = "lane" if self.is_sorted else "tile"
        occurring = {phase.kind for step in self.executed for phase in step.phases}
        self.kinds = [kind for kind in STATE if kind in occurring]

    def merge_frames(self) -> None:
        """Make each stretch have fewer frames: the phases of the IPU that ends the stretch last."""
        self.max_edges = 0
        self._edges_of.clear()

    def is_cut(self, max_frames: int) -> bool:
        """Return whether the run has more than `max_frames` frames."""
        return sum(len(self.edges(self.stretches[i])) - 1 for i in self.order.tolist()) > max_frames

    def edges(self, stretch: Segment) -> list[int]:
        """Return the cycles at which a stretch's frames begin, and the cycle at which it ends."""
        if stretch not in self._edges_of:
            spans = stretch.spans
            edges = {0, *(s.start + s.phase.cycles for s in spans)}
            if len(edges) > self.max_edges:
                last = [s for s in spans if stretch.lasts(s.part)]
                edges = {0, stretch.cycles, *(s.start + s.phase.cycles for s in last)}
            self._edges_of[stretch] = sorted(edges)
        return self._edges_of[stretch]

    def active(self, stretch: Segment, begin: int) -> list[Span]:
        """Return the phases that are in progress at cycle `begin` of a stretch."""
        return [s for s in stretch.spans if s.start <= begin < s.start + s.phase.cycles]

    def main(self, stretch: Segment, begin: int) -> Span:
        """Return the phase that describes the frame beginning at cycle `begin` of a stretch.

        The result is the phase of the IPU that ends the stretch last. If that IPU is idle, it is
        the first phase in progress.
        """
        active = self.active(stretch, begin)
        return next((span for span in active if stretch.lasts(span.part)), active[0])

    def ends_of(self, high: float) -> tuple[tuple[str, float], ...]:
        """Return the texts beside the lanes, each with its vertical position as a fraction.

        The fraction is relative to `high`, the height of all lanes together, in units of the
        drawing.
        """
        is_narrow = self.has_several and high / self.lanes < SMALLEST_LABEL * 0.7
        return self.by_tile.ends if self.is_sorted or is_narrow else ()

    def named(self, part: IPUStep) -> tuple[str, str]:
        """Return `(kind, name)` of a step, as strings.

        If a single IPU executes the step, the name begins with the name of the IPU.
        """
        prefix = "" if part.ipu is None else f"{self.report.target.sets[part.ipu]}: "
        return self.report.step_cost(part.step).kind, label(prefix + self.name(part), 48)

    def name(self, part: IPUStep) -> str:
        return label(self.report.step_cost(part.step).name, 48)

    def _longest_phase(self) -> tuple[Phase, IPUStep] | None:
        """Return the longest compute phase and its step, or None if nothing computes."""
        computing = [
            (phase, step.part)
            for step in self.executed
            for phase in step.phases
            if phase.kind == COMPUTE
        ]
        return max(computing, key=lambda pair: pair[0].cycles) if computing else None

    def sentence(self) -> str:
        """Return a sentence with the share of each kind of phase, and the longest compute phase.

        On several IPUs, the sentence instead has the share of the run for which each IPU works.
        """
        report = self.report
        total = report.total_cycles
        if self.has_several:
            return f"{run_of(report)}. {ipus_at_work(report)}"
        shares = ", ".join(
            f"{kind} {100 * cycles / total:.1f} %"
            for kind, cycles in cycles_by_kind(report).items()
        )
        worst = ""
        if longest := self._longest_phase():
            phase, part = longest
            worst = f" The longest that computes is {self.named(part)[1]}: {waited_for(phase)}."
        return f"{run_of(report)}: {shares}.{worst}"

    def table(self, kinds: list[str]) -> Table:
        """Return the table, with a row for each step and a column for each kind of phase."""
        rows = []
        set_of_tile = self.report.target.set_of(np.arange(self.report.target.num_tiles))
        for part, times, phases in self.executed:
            cycles = [sum(p.cycles for p in phases if p.kind == kind) for kind in kinds]
            busy = next((p.busy for p in phases if p.kind == COMPUTE), None)
            slowest_tile = "" if busy is None else slowest(busy)[0].partition(" ")[2]
            tiles = (set_of_tile == part.ipu) | (part.ipu is None)
            exchanges = self.report.step_cost(part.step).exchange
            received = sum(int(traffic.received[tiles].sum()) for traffic in exchanges)
            row = (f"{times:,}", *map(number, cycles), f"{received:,}", slowest_tile)
            rows.append((*self.named(part), *row))
        cycle_headings = [f"{kind} cycles" for kind in kinds]
        headings = ("kind", "name", "runs", *cycle_headings, "bytes received", "slowest tile")
        return headings, tuple(rows)
