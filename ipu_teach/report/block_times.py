"""Lightweight profiling: the blocks of a program on the timeline of one tile.

A `Block` program marks a part of a program as a block. Other programs also count as blocks if their
names match a filter. The times of blocks are computed afterwards from the steps in a report. So,
unlike on a chip, marking blocks costs no cycles, and no profiling buffer can overflow.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ipu_teach.cost.phases import Phase
from ipu_teach.errors import PoplarIndexError, shown
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

    The execution begins at `cycles_from` and ends at `cycles_to`, in modelled cycles since the
    beginning of the first step in the report. `program` has the block's `name` and `type`. `blocks`
    are the executions of blocks directly inside this block, and `depth` is the number of blocks
    around it.
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
        """The kind of the block: "Block", even for a program that `program_filter` selected."""
        return self.program.type

    @property
    def cycles(self) -> float:
        """The cycles from the beginning to the end of the block."""
        return self.cycles_to - self.cycles_from


def blocks(
    report: Report, tile: object, block_filter: object, program_filter: object
) -> Table[BlockRun]:
    """Return the blocks that ran on a tile; `Execution.blocks` describes the arguments.

    If an argument is None, its value comes from the engine's options `profiler.*`.
    """
    settings = report.instrumentation_settings
    num_tiles = report.target.num_tiles
    tile_number = settings.block_tile if tile is None else tile
    if not is_whole(tile_number) or not 0 <= int(tile_number) < num_tiles:
        raise PoplarIndexError(f"""blocks() was given tile {shown(tile_number)},
            which does not exist.
            next:  give a tile from 0 to {num_tiles - 1:,}.""")
    is_block = settings.finds[0] if block_filter is None else finds(block_filter, "blocks()")
    is_program = (
        settings.finds[1]
        if program_filter is None
        else finds(program_filter, "blocks()", empty=False)
    )

    def is_marked(place: WalkPlace) -> bool:
        return place.node.kind == BLOCK and is_block(place.node.name) or is_program(place.node.name)

    timeline = _Timeline(report, int(tile_number))
    spans = Walk(report, keep=is_marked).spans
    # If a block seems to end exactly where an incomplete log ends, its true end is unknown, because
    # the block may go on.
    spans = [span for span in spans if span.last != timeline.cut]
    runs = list[BlockRun]()
    runs_inside = defaultdict[Span, list[BlockRun]](list)
    # The loop goes backwards, so that the blocks inside a block are built before that block.
    for span, outer_spans in reversed(list(nested(spans, lambda s: (0, s.first, s.last)))):
        program = ProgramNode(BLOCK, span.place.node.name)
        runs.append(
            BlockRun(
                program,
                *timeline.of(span),
                len(outer_spans),
                int(tile_number),
                tuple(reversed(runs_inside[span])),
            )
        )
        if outer_spans:
            runs_inside[outer_spans[-1]].append(runs[-1])
    return Table(reversed(runs))


class _Timeline:
    """The cycle at which one tile finishes its work in each step of a run.

    `cut` is the number of steps in the log if the log is incomplete, and -1 if it is complete.
    """

    def __init__(self, report: Report, tile: int) -> None:
        step_numbers = report.step_numbers
        ipu = int(report.target.set_of(np.array(tile)))
        end_cycles = np.zeros(len(report.profile.steps))
        for step_number in np.unique(step_numbers).tolist():
            end_cycles[step_number] = _done(report.phases(step_number, ipu), tile)
        self._starts = report.overlap.starts(0, len(step_numbers), slice(ipu, ipu + 1))[:, 0]
        self._ends = self._starts + end_cycles[step_numbers]
        self._begins = {run.first for run in report.runs} | {0}
        self.cut = len(step_numbers) if report.steps_not_kept else -1

    def of(self, span: Span) -> tuple[float, float]:
        """Return `(first_cycle, last_cycle)`: when the tile begins and ends its work in `span`.

        The work begins when the tile has finished the step before the span. At the beginning of a
        run, the work begins on all tiles at the same time.
        """
        first_cycle = (
            self._starts[span.first] if span.first in self._begins else self._ends[span.first - 1]
        )
        return float(first_cycle), float(self._ends[span.last - 1])


def _done(phases: tuple[Phase, ...], tile: int) -> float:
    """Return when a tile finishes its work in a step, in cycles after the beginning of the step.

    The tile finishes when it has done its work in the last phase in which it takes part.
    """
    phase_start = end_cycle = 0.0
    for phase in phases:
        if phase.busy is None or phase.busy[tile]:
            end_cycle = phase_start + (
                phase.cycles if phase.busy is None else float(phase.busy[tile])
            )
        phase_start += phase.cycles
    return end_cycle
