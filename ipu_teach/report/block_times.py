"""Lightweight profiling: the blocks of a program on the timeline of one tile.

A `Block` marks a part of a program; a filter of names turns any other program into a block. The
report has the steps of a run, and the blocks follow from them. So nothing more is recorded, marking
costs no cycles, and there is no buffer that can fill up, unlike with the profiler of a chip.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ipu_teach.cost.phases import Phase
from ipu_teach.errors import PoplarIndexError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report.host_trace import nested
from ipu_teach.report.profile import ProgramNode
from ipu_teach.report.table import Table, finds
from ipu_teach.report.walk import Span, Walk, WalkPlace

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

BLOCK = "Block"


@dataclass(frozen=True, eq=False)
class BlockRun:
    """One execution of a block on one tile.

    `cycles_from` and `cycles_to` are modelled cycles since the report begins. `program` has the
    block's `name` and `type`, `blocks` are the blocks directly inside it, and `depth` is the number
    of blocks around it.
    """

    COLUMNS: ClassVar = ("name", "type", "depth", "cycles_from", "cycles_to", "cycles", "tile")

    program: ProgramNode
    cycles_from: float
    cycles_to: float
    depth: int
    tile: int
    blocks: tuple[BlockRun, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of the block's program."""
        return self.program.name

    @property
    def type(self) -> str:
        """The class of the block: "Block", also if the filter of programs selected it."""
        return self.program.type

    @property
    def cycles(self) -> float:
        """The cycles from the beginning to the end of the block."""
        return self.cycles_to - self.cycles_from


def blocks(
    report: Report, tile: object, block_filter: object, program_filter: object
) -> Table[BlockRun]:
    """Return the blocks that ran, as described in `Execution.blocks`.

    An argument that is None has its value from the engine's options.
    """
    settings = report.instrumentation_settings
    count = report.target.num_tiles
    which = settings.block_tile if tile is None else tile
    if not is_whole(which) or not 0 <= int(which) < count:
        raise PoplarIndexError(f"""blocks() was asked for tile {shown(which)}.
            next:  there are {counted(count, "tile")}, from 0.""")
    is_block = settings.finds[0] if block_filter is None else finds(block_filter, "blocks()")
    is_program = (
        settings.finds[1]
        if program_filter is None
        else finds(program_filter, "blocks()", empty=False)
    )

    def wanted(place: WalkPlace) -> bool:
        return place.node.kind == BLOCK and is_block(place.node.name) or is_program(place.node.name)

    timeline = _Timeline(report, int(which))
    spans = Walk(report, keep=wanted).spans
    # if the log of steps is incomplete, the blocks that end where it stops have no known end
    spans = [span for span in spans if span.last != timeline.cut]
    rows = list[BlockRun]()
    inner = defaultdict[Span, list[BlockRun]](list)
    # in reverse order, so that inner blocks come before the blocks around them
    for span, around in reversed(list(nested(spans, lambda s: (0, s.first, s.last)))):
        program = ProgramNode(BLOCK, span.place.node.name)
        rows.append(
            BlockRun(
                program, *timeline.of(span), len(around), int(which), tuple(reversed(inner[span]))
            )
        )
        if around:
            inner[around[-1]].append(rows[-1])
    return Table(reversed(rows))


class _Timeline:
    """The cycle at which one tile finishes its part of each step of a run.

    `cut` is the number of steps if the log does not have all of them, or else -1.
    """

    def __init__(self, report: Report, tile: int) -> None:
        order = report.step_numbers
        ipu = int(report.target.set_of(np.array(tile)))
        done = np.zeros(len(report.profile.steps))
        for number in np.unique(order).tolist():
            done[number] = _done(report.phases(number, ipu), tile)
        self._starts = report.overlap.starts(0, len(order), slice(ipu, ipu + 1))[:, 0]
        self._ends = self._starts + done[order]
        self._begins = {run.first for run in report.runs} | {0}
        self.cut = len(order) if report.steps_not_kept else -1

    def of(self, span: Span) -> tuple[float, float]:
        """Return the cycles at which the tile begins and ends its part of a span of steps.

        It begins when the tile has finished the step before the span. A run begins on all tiles at
        the same time.
        """
        begins = (
            self._starts[span.first] if span.first in self._begins else self._ends[span.first - 1]
        )
        return float(begins), float(self._ends[span.last - 1])


def _done(phases: tuple[Phase, ...], tile: int) -> float:
    """Return when a tile finishes its part of a step, in cycles after the beginning of the step.

    That is the end of the last phase in which the tile works.
    """
    start = done = 0.0
    for phase in phases:
        if phase.busy is None or phase.busy[tile]:
            done = start + (phase.cycles if phase.busy is None else float(phase.busy[tile]))
        start += phase.cycles
    return done
