"""Lightweight profiling: the blocks of a program on the timeline of one tile.

A `Block` in a program marks a region; a filter of names makes one of any other program. Everything runs in steps, and the
steps of a run are in its report, so the blocks follow from them: nothing is recorded besides, marking costs no cycles, and no
buffer fills, as that of a chip's profiler does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ipu_teach.cost.phases import Phase
from ipu_teach.errors import PoplarIndexError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report.profile import ProgramNode
from ipu_teach.report.table import Table, expression
from ipu_teach.report.walk import Place, Span, Walk

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

BLOCK = "Block"


@dataclass(frozen=True, eq=False)
class BlockRun:
    """One execution of a block on one tile, from `cycles_from` to `cycles_to`: modelled cycles since the report begins.

    `program` has the block's `name` and `type`; `blocks` are those directly inside, and `depth` counts those around.
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
        """The name of its program."""
        return self.program.name

    @property
    def type(self) -> str:
        """ "Block", whether a `Block` of the program made it or the filter of programs."""
        return self.program.type

    @property
    def cycles(self) -> float:
        """How long it took."""
        return self.cycles_to - self.cycles_from


@dataclass(frozen=True)
class Wanted:
    """Which blocks are asked for, see `Execution.blocks`."""

    tile: int
    is_block: Callable[[str], bool]  # whether a Block of that name is wanted
    is_program: Callable[[str], bool]  # whether a program of that name counts as one

    @classmethod
    def of(cls, report: Report, tile: object, block_filter: object, program_filter: object) -> Wanted:
        """What was given, and where that is None what the engine's options say."""
        settings, count = report.instrumentation_settings, report.target.num_tiles
        which = settings.block_tile if tile is None else tile
        if not is_whole(which) or not 0 <= int(which) < count:
            raise PoplarIndexError(f"""blocks() was asked for tile {shown(which)}.
                next:  there are {counted(count, "tile")}, from 0.""")
        return cls(
            int(which),
            settings.is_block if block_filter is None else _finds(block_filter),
            settings.is_program if program_filter is None else _finds(program_filter, empty=False),
        )

    def keeps(self, place: Place) -> bool:
        """Whether an execution of this place of a program is a block."""
        node = place.node
        return node.kind == BLOCK and self.is_block(node.name) or self.is_program(node.name)


def _finds(pattern: object, empty: bool = True) -> Callable[[str], bool]:
    """A function that says whether a pattern is found in a name; the empty one is everywhere, or if not `empty` nowhere."""
    wanted = expression(pattern, "blocks()")
    return lambda name: (empty or pattern != "") and (empty or bool(name)) and wanted.search(name) is not None


def blocks(report: Report, wanted: Wanted) -> Table[BlockRun]:
    """The blocks that ran, see `Execution.blocks`."""
    timeline = _Timeline(report, wanted.tile)
    stack: list[_Open] = []
    found: list[_Open] = []
    for span in Walk(report, keep=wanted.keeps).spans:
        while stack and stack[-1].span.last <= span.first:
            stack.pop()
        if span.last == timeline.cut:  # it did not come to its end among the steps whose order was kept
            continue
        one = _Open(span, len(stack))
        if stack:
            stack[-1].inner.append(one)
        found.append(one)
        stack.append(one)
    rows: dict[_Open, BlockRun] = {}
    for one in reversed(found):  # those inside come after those around them
        program, inner = ProgramNode(BLOCK, one.span.place.node.name), tuple(rows[i] for i in one.inner)
        rows[one] = BlockRun(program, *timeline.of(one.span), one.depth, wanted.tile, inner)
    return Table(rows[one] for one in found)


@dataclass(eq=False)
class _Open:
    """A block whose inner ones are still to come."""

    span: Span
    depth: int
    inner: list[_Open] = field(default_factory=list)


class _Timeline:
    """When one tile is done with its share of each step of a run. `cut`: the step at which the order ends too early, or -1."""

    def __init__(self, report: Report, tile: int) -> None:
        order, ipu = report.step_numbers, tile // report.target.tiles_per_ipu
        done = np.zeros(len(report.profile.steps))
        for number in np.unique(order).tolist():
            done[number] = _done(report.phases(number, ipu), tile)
        self._starts = report.overlap.starts(0, len(order), slice(ipu, ipu + 1))[:, 0]
        self._ends = self._starts + done[order]
        self._begins = {run.first for run in report.runs} | {0}
        self.cut = len(order) if report.steps_not_kept else -1

    def of(self, span: Span) -> tuple[float, float]:
        """From when the tile comes to a span, done with the step before, until it is done with it. A run begins on all tiles
        at once."""
        begins = self._starts[span.first] if span.first in self._begins else self._ends[span.first - 1]
        return float(begins), float(self._ends[span.last - 1])


def _done(phases: tuple[Phase, ...], tile: int) -> float:
    """When a tile has done its share, in cycles after the step begins: the end of the last phase in which it works."""
    start = done = 0.0
    for phase in phases:
        if phase.busy is None or phase.busy[tile]:
            done = start + (phase.cycles if phase.busy is None else float(phase.busy[tile]))
        start += phase.cycles
    return done
