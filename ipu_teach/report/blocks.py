"""Lightweight profiling: the blocks of a program on the timeline of one tile.

A `Block` in a program marks a region; a filter of names makes one of any other program. Everything runs in steps, and the
steps of a run are in its report, so the blocks follow from them: nothing is recorded besides, and marking costs no cycles.

On a chip the profiler writes into a buffer on the tile. `buffer_bytes` shows what it would have kept there: when the buffer is
full, what follows is lost, and one overflow block stands for it, until a flush takes the buffer's contents to the host.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ipu_teach.cost.phases import HOST
from ipu_teach.errors import InvalidOptionError, PoplarIndexError, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.report.profile import ProgramNode
from ipu_teach.report.table import Table, expression
from ipu_teach.report.walk import Place, Span, Walk

if TYPE_CHECKING:
    from ipu_teach.report.report import Report

BLOCK, OVERFLOW, FLUSH, CONTROL = "Block", "Overflow", "BlockFlush", "control"
PARTS = ("StreamCopyBegin", "StreamCopyMid", "StreamCopyEnd")
# A block leaves two records, when it begins and when it ends. That a record is a word for the block and two for the cycle
# counter is assumed; it is what makes 42 blocks of 1,000 bytes (graphcore/examples, lightweight_profiling, example 3a).
RECORD_BYTES = 12
CONTROL_COPIES = 2  # at the start of each run, which tell the machine what to run (same source)
LOOPS = ("Repeat", "RepeatWhileTrue", "RepeatWhileFalse")


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
        """ "Block", "Overflow", or the part of a stream copy: "StreamCopyBegin", "StreamCopyMid" or "StreamCopyEnd"."""
        return self.program.type

    @property
    def cycles(self) -> float:
        """How long it took."""
        return self.cycles_to - self.cycles_from

    @property
    def is_common(self) -> bool:
        """Whether a `Block` of the program made it, or the filter of programs."""
        return self.type == BLOCK

    @property
    def is_overflow(self) -> bool:
        """Whether it is the time for which the buffer was full, so that blocks were lost."""
        return self.type == OVERFLOW

    @property
    def is_block_flush(self) -> bool:
        """Whether it is a part of a stream copy that empties the buffer."""
        return self.type in PARTS and self.name == FLUSH

    @property
    def is_stream_copy(self) -> bool:
        """Whether it is a part of a stream copy of the program."""
        return self.type in PARTS and self.name != FLUSH


@dataclass(frozen=True)
class Wanted:
    """Which blocks are asked for, see `Execution.blocks`."""

    tile: int
    is_block: Callable[[str], bool]  # whether a Block of that name is wanted
    is_program: Callable[[str], bool]  # whether a program of that name counts as one
    stream_copies: bool
    buffer_bytes: int | None
    implicit_flush: bool

    @classmethod
    def of(
        cls,
        report: Report,
        tile: object,
        block_filter: object,
        program_filter: object,
        stream_copies: object,
        buffer_bytes: object,
        implicit_flush: object,
    ) -> Wanted:
        """What was given, and where that is None what the engine's options say."""
        settings, count = report.instrumentation_settings, report.target.num_tiles
        which = settings.block_tile if tile is None else tile
        if not is_whole(which) or not 0 <= int(which) < count:
            raise PoplarIndexError(f"""blocks() was asked for tile {shown(which)}.
                next:  there are {counted(count, "tile")}, from 0.""")
        size = settings.block_buffer_bytes if buffer_bytes is None else buffer_bytes
        if size is not None and (not is_whole(size) or int(size) < 0):
            raise InvalidOptionError(f"""blocks() was given buffer_bytes={shown(size)}.
                next:  give a number of bytes; a chip has 1,000.""")
        return cls(
            int(which),
            settings.is_block if block_filter is None else _finds(block_filter),
            settings.is_program if program_filter is None else _finds(program_filter, empty=False),
            bool(settings.external_exchange if stream_copies is None else stream_copies),
            None if size is None else int(size),
            bool(settings.block_implicit_flush if implicit_flush is None else implicit_flush),
        )

    def keeps(self, place: Place, around: Place | None) -> bool:
        """Whether an execution of this place of a program matters."""
        node = place.node
        if node.kind == BLOCK or self.stream_copies and node.kind == "Copy" or self.is_program(node.name):
            return True
        return self.buffer_bytes is not None and around is not None and around.node.kind in LOOPS


def _finds(pattern: object, empty: bool = True) -> Callable[[str], bool]:
    """A function that says whether a pattern is found in a name; the empty one is everywhere, or if not `empty` nowhere."""
    wanted = expression(pattern, "blocks()")
    return lambda name: (empty or pattern != "") and (empty or bool(name)) and wanted.search(name) is not None


def blocks(report: Report, wanted: Wanted) -> Table[BlockRun]:
    """The blocks that ran, see `Execution.blocks`."""
    timeline = _Timeline(report, wanted.tile)
    walk = Walk(report, keep=wanted.keeps)
    bodies = {body for root in walk.roots for place in root.walk() if place.node.kind in LOOPS for body in place.children}
    stack: list[_Open] = []
    found: list[_Open] = []
    ends: list[int] = []  # the steps before which an iteration of a loop ends
    for span in walk.spans:
        while stack and stack[-1].last <= span.first:
            stack.pop()
        if span.place in bodies:
            ends.append(span.last)
        made = _made(timeline, span, wanted)
        for one in made:
            one.depth = len(stack)
            if stack:
                stack[-1].inner.append(one)
            found.append(one)
        if made and made[0].program.kind == BLOCK:
            stack += made
    if wanted.buffer_bytes is not None:
        found = _Buffer(wanted, timeline, found, ends).kept()
    return _rows(found, wanted.tile)


@dataclass(eq=False)
class _Open:
    """A block whose inner ones are still to come; `first` and `last` are its first step and the one after its last."""

    program: ProgramNode
    start: float
    end: float
    first: int
    last: int
    depth: int = 0
    inner: list[_Open] = field(default_factory=list)


def _rows(found: list[_Open], tile: int) -> Table[BlockRun]:
    rows: dict[int, BlockRun] = {}
    for one in reversed(found):  # those inside come after those around them
        inner = tuple(rows[id(i)] for i in one.inner if id(i) in rows)
        rows[id(one)] = BlockRun(one.program, one.start, one.end, one.depth, tile, inner)
    return Table(rows[id(one)] for one in found)


def _made(timeline: _Timeline, span: Span, wanted: Wanted) -> list[_Open]:
    """What one execution of a place of a program is on the tile: a block, the three parts of a stream copy, or nothing."""
    node = span.place.node
    if wanted.stream_copies and timeline.is_stream_copy(span):
        return timeline.stream_copy(span)
    if node.kind == BLOCK and wanted.is_block(node.name) or wanted.is_program(node.name):
        return timeline.block(span)
    return []


class _Buffer:
    """The buffer of a chip's profiler: what of all blocks it would have kept."""

    def __init__(self, wanted: Wanted, timeline: _Timeline, found: list[_Open], ends: list[int]) -> None:
        assert wanted.buffer_bytes is not None
        self._room = wanted.buffer_bytes // RECORD_BYTES
        self._wanted, self._timeline, self._found = wanted, timeline, found
        self._flushes = sorted(set(ends)) if wanted.implicit_flush else []
        self._left = self._room
        self._lost: list[_Open] = []

    def kept(self) -> list[_Open]:
        """The blocks with both or only their first record in the buffer, flushes, and the times of overflow."""
        flushes = iter([*self._flushes, -1])
        flush = next(flushes)
        starts = list(self._timeline.begins)[::-1]
        kept: list[_Open] = []
        pending: list[_Open] = []  # open ones whose last record is still to come
        dirty = False
        for one in [*self._found, None]:
            now = self._timeline.length if one is None else one.first
            while starts and starts[-1] <= now:
                kept += self._triplets(CONTROL, starts.pop(), CONTROL_COPIES)
            while 0 <= flush <= now:
                pending = self._close(pending, flush)
                if dirty and not pending:
                    kept += self._overflow()
                    kept += self._triplets(FLUSH, flush, 1)
                    self._left, dirty = self._room, False
                flush = next(flushes)
            if one is None:
                break
            pending = self._close(pending, one.first)
            if self._left <= 0:
                self._lost.append(one)
                continue
            self._left -= 1
            kept.append(one)
            pending.append(one)
            dirty = True
        return kept + self._overflow()

    def _close(self, pending: list[_Open], step: int) -> list[_Open]:
        """Write the last records of those that are over before a step."""
        over = [one for one in pending if one.last <= step]
        self._left -= len(over)
        return [one for one in pending if one.last > step]

    def _overflow(self) -> list[_Open]:
        lost, self._lost = self._lost, []
        if not lost:
            return []
        return [_Open(ProgramNode(OVERFLOW, ""), lost[0].start, max(o.end for o in lost), lost[0].first, lost[-1].last)]

    def _triplets(self, name: str, step: int, count: int) -> list[_Open]:
        """Stream copies that the profiler makes. They take no time here: the host's latency is not modelled, its rate is."""
        at = self._timeline.start(step)
        if not self._wanted.stream_copies:
            return []
        return [_Open(ProgramNode(part, name), at, at, step, step) for _ in range(count) for part in PARTS]


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
        self.length = len(order)
        self.begins = sorted({run.first for run in report.runs if run.first < len(order)} | {0})
        self._cut = len(order) if report.steps_not_kept else -1

    def start(self, step: int) -> float:
        """When a step begins."""
        return float(self._starts[step])

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
        return float(self._starts[step] if step in self.begins else self._ends[step - 1])

    def block(self, span: Span) -> list[_Open]:
        """The block, if it came to its end among the steps whose order was kept."""
        if span.last == self._cut:
            return []
        program = ProgramNode(BLOCK, span.place.node.name)
        return [_Open(program, self._arrives(span.first), float(self._ends[span.last - 1]), span.first, span.last)]

    def is_stream_copy(self, span: Span) -> bool:
        """Whether it is a transfer between host and device."""
        number = int(self._report.step_numbers[span.first])
        return span.place.node.kind == "Copy" and self._report.step_cost(number).kind == "StreamCopy"

    def stream_copy(self, span: Span) -> list[_Open]:
        """What a stream copy does before the host's transfer, the transfer, and what it does after it."""
        phases = self._report.phases(int(self._report.step_numbers[span.first]))
        at = next((i for i, phase in enumerate(phases) if phase.kind == HOST), len(phases))
        middle = float(self._starts[span.first]) + sum(phase.cycles for phase in phases[:at])
        after = middle + sum(phase.cycles for phase in phases[at : at + 1])
        edges = (self._arrives(span.first), middle, after, max(after, float(self._ends[span.first])))
        return [
            _Open(ProgramNode(kind, span.place.node.name), start, end, span.first, span.last)
            for kind, start, end in zip(PARTS, edges, edges[1:], strict=False)
        ]
