"""Lightweight profiling: the blocks of a program on the timeline of one tile.

A `Block` in a program marks a region. Everything runs in steps, and the steps of a run are in its report, so the blocks follow
from them: nothing is recorded besides, and marking costs no cycles.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ipu_teach.cost.phases import HOST
from ipu_teach.errors import PoplarIndexError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report.profile import ProgramNode
from ipu_teach.report.table import Table, expression
from ipu_teach.report.walk import Span, Walk

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

PARTS = ("StreamCopyBegin", "StreamCopyMid", "StreamCopyEnd")


@dataclass(frozen=True, eq=False)
class BlockRun:
    """One execution of a block on one tile, from `cycles_from` to `cycles_to`: modelled cycles since the report begins.

    `program` has the block's `name` and `type`; `blocks` are those directly inside, and `depth` counts those around.
    """

    COLUMNS: ClassVar = ("name", "type", "depth", "cycles_from", "cycles_to", "cycles")

    program: ProgramNode
    cycles_from: float
    cycles_to: float
    depth: int
    blocks: tuple[BlockRun, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of its program."""
        return self.program.name

    @property
    def type(self) -> str:
        """`"Block"`, or which part of a stream copy it is: "StreamCopyBegin", "StreamCopyMid" or "StreamCopyEnd"."""
        return self.program.type

    @property
    def cycles(self) -> float:
        """How long it took."""
        return self.cycles_to - self.cycles_from

    @property
    def is_common(self) -> bool:
        """Whether a `Block` of the program made it."""
        return self.type == "Block"

    @property
    def is_stream_copy(self) -> bool:
        """Whether it is a part of a stream copy."""
        return not self.is_common


def blocks(
    report: Report, tile: int, block_filter: str = "", program_filter: str = "", stream_copies: bool = False
) -> Table[BlockRun]:
    """The blocks that ran, see `Execution.blocks`."""
    count = report.target.num_tiles
    if not is_whole(tile) or not 0 <= tile < count:
        raise PoplarIndexError(
            f"blocks() was asked for tile {shown(tile)}.", next_step=f"there are {counted(count, 'tile')}, from 0."
        )
    wanted, programs = expression(block_filter, "blocks()"), expression(program_filter, "blocks()")
    kinds = {"Block", *(["Copy"] if stream_copies else [])}
    timeline = _Timeline(report, int(tile))
    stack: list[_Open] = []
    found: list[_Open] = []
    for span in Walk(report, kinds=kinds).spans:
        while stack and stack[-1].last <= span.first:
            stack.pop()
        made = timeline.block(span, wanted) if span.place.node.kind == "Block" else timeline.stream_copy(span, programs)
        for one in made:
            one.depth = len(stack)
            if stack:
                stack[-1].inner.append(one)
            found.append(one)
        if span.place.node.kind == "Block":
            stack += made
    return _rows(found)


@dataclass(eq=False)
class _Open:
    """A block whose inner ones are still to come; `last` is the step after its last one."""

    program: ProgramNode
    start: float
    end: float
    last: int
    depth: int = 0
    inner: list[_Open] = field(default_factory=list)


def _rows(found: list[_Open]) -> Table[BlockRun]:
    rows: dict[int, BlockRun] = {}
    for one in reversed(found):  # those inside come after those around them
        inner = tuple(rows[id(i)] for i in one.inner)
        rows[id(one)] = BlockRun(one.program, one.start, one.end, one.depth, inner)
    return Table(rows[id(one)] for one in found)


class _Timeline:
    """When one tile is done with its share of each step of a run."""

    def __init__(self, report: Report, tile: int) -> None:
        self._report, self._tile = report, tile
        order = report.step_numbers
        cycles, done = np.zeros(len(report.profile.steps)), np.zeros(len(report.profile.steps))
        for number in np.unique(order).tolist():
            cycles[number], done[number] = report.step_cost(number).cycles, self._done(number)
        self._starts = np.concatenate(([0.0], np.cumsum(cycles[order])))
        self._ends = self._starts[:-1] + done[order]
        self._begins = {run.first for run in report.runs} | {0}
        self._cut = len(order) if report.steps_not_kept else -1

    def _done(self, number: int) -> float:
        """When the tile has done its share, in cycles after the step begins: the end of the last phase in which it works."""
        start = done = 0.0
        for phase in self._report.phases(number):
            if phase.busy is None or phase.busy[self._tile]:
                done = start + (phase.cycles if phase.busy is None else float(phase.busy[self._tile]))
            start += phase.cycles
        return done

    def _arrives(self, step: int) -> float:
        """When the tile comes to a step: when it is done with the one before. A run begins on all tiles at once."""
        return float(self._starts[step] if step in self._begins else self._ends[step - 1])

    def block(self, span: Span, wanted: re.Pattern[str]) -> list[_Open]:
        """The block, if it is wanted and came to its end among the steps whose order was kept."""
        node = span.place.node
        if span.last == self._cut or not wanted.search(node.name):
            return []
        return [_Open(node, self._arrives(span.first), float(self._ends[span.last - 1]), span.last)]

    def stream_copy(self, span: Span, wanted: re.Pattern[str]) -> list[_Open]:
        """What a stream copy does before the host's transfer, the transfer, and what it does after it."""
        node, number = span.place.node, int(self._report.step_numbers[span.first])
        if self._report.step_cost(number).kind != "StreamCopy" or not wanted.search(node.name):
            return []
        phases = self._report.phases(number)
        at = next((i for i, phase in enumerate(phases) if phase.kind == HOST), len(phases))
        middle = float(self._starts[span.first]) + sum(phase.cycles for phase in phases[:at])
        after = middle + sum(phase.cycles for phase in phases[at : at + 1])
        edges = (self._arrives(span.first), middle, after, max(after, float(self._ends[span.first])))
        return [
            _Open(ProgramNode(kind, node.name), start, end, span.last)
            for kind, start, end in zip(PARTS, edges, edges[1:], strict=False)
        ]
