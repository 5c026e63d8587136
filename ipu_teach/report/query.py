"""Queries of a report, by the names of Graphcore's libpva (its profile analysis library)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, overload

import numpy as np

from ipu_teach.cost.exchange import total_of
from ipu_teach.cost.ledger import MemoryLedger
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import PoplarIndexError, WithoutSome, counted, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.variable_table import without_replica
from ipu_teach.report.block_times import BlockRun, blocks
from ipu_teach.report.log import ProgramRun
from ipu_teach.report.profile import Profile, ProgramNode, RowsMoved
from ipu_teach.report.steps import ComputeSetProfile, IpuStep, StepRun
from ipu_teach.report.table import T, Table
from ipu_teach.target import Target
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.report.report import Report


@dataclass(frozen=True)
class VariableRow:
    """A variable of the program.

    `bytes` is the total on all tiles, and `tiles` the number of tiles that it is mapped to.
    `ranges` are the half-open ranges of places of the programs in which it is live; `first` and
    `last` are the ends of their span, -1 if it is always live. `line` is the line that added it.
    """

    COLUMNS: ClassVar = (
        "name",
        "dtype",
        "shape",
        "category",
        "bytes",
        "tiles",
        "always_live",
        "first",
        "last",
        "line",
    )

    name: str
    dtype: str
    shape: tuple[int, ...]
    category: str
    bytes: int
    tiles: int
    always_live: bool
    ranges: tuple[tuple[int, int], ...]
    line: str

    @property
    def first(self) -> int:
        """The first place at which it is live."""
        return self.ranges[0][0] if self.ranges else -1

    @property
    def last(self) -> int:
        """The last place at which it is live."""
        return self.ranges[-1][1] - 1 if self.ranges else -1


class VariableTable(Table[VariableRow]):
    """The variables of a report."""

    __slots__ = ()

    def live_at(self, place: int) -> VariableTable:
        """Return the variables that are live at a place of the programs.

        Variables that are always live are included.
        """
        return VariableTable(
            v for v in self if v.always_live or any(a <= place < b for a, b in v.ranges)
        )

    def always_live(self) -> VariableTable:
        """Return the variables that are live from the first step to the last."""
        return VariableTable(v for v in self if v.always_live)

    def folded(self) -> VariableTable:
        """Return the table with one row for a variable whose live ranges are equal in all replicas.

        The row has the bytes and tiles of all replicas together.
        """
        groups = folded([v.name for v in self], [v.bytes for v in self])
        rows_folded: list[VariableRow] = []
        for name, rows in groups:
            first, *others = (self[i] for i in rows)
            same_kind = all(
                (v.ranges, v.always_live) == (first.ranges, first.always_live) for v in others
            )
            total, tiles = (sum(getattr(self[i], n) for i in rows) for n in ("bytes", "tiles"))
            merged = replace(first, name=name, bytes=total, tiles=tiles)
            rows_folded += [merged] if same_kind else [first, *others]
        return VariableTable(rows_folded)


def folded(names: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Group the names of a variable in several replicas: (name of the group, indices) pairs.

    A group is called "x, 4 replicas", followed by the smallest and the largest size if the sizes
    differ. Other names are groups of one.
    """
    groups: dict[object, list[int]] = {}
    for i, name in enumerate(names):
        base, count = without_replica(name)
        groups.setdefault((base, count) if count > 1 else i, []).append(i)
    rows_by_size: list[tuple[str, list[int]]] = []
    for rows in groups.values():
        name = names[rows[0]]
        distinct_sizes = sorted({sizes[i] for i in rows})
        if len(rows) > 1:
            spread = (
                f" of {distinct_sizes[0]:,} to {distinct_sizes[-1]:,} bytes"
                if len(distinct_sizes) > 1
                else ""
            )
            name = f"{without_replica(name)[0]}, {len(rows)} replicas{spread}"
        rows_by_size.append((name, rows))
    return rows_by_size


def variables(report: Report) -> VariableTable:
    """Return all variables with their bytes, tiles, live ranges and lines."""
    memory = report.memory
    facts = report.profile.variables
    size = total_of(memory.variable, memory.size, len(facts)).tolist()
    tiles = np.bincount(memory.variable, minlength=len(facts)).tolist()
    ranges: list[list[tuple[int, int]]] = [[] for _ in facts]
    for which, start, stop in zip(
        *(part.tolist() for part in live_runs(memory.liveness.live)), strict=True
    ):
        ranges[which].append((start, stop))
    return VariableTable(
        VariableRow(
            v.name,
            v.dtype,
            shape=v.shape,
            category=v.category,
            bytes=size[i],
            tiles=tiles[i],
            always_live=always,
            ranges=tuple(ranges[i]),
            line=v.line,
        )
        for i, (v, always) in enumerate(zip(facts, memory.liveness.always.tolist(), strict=True))
    )


def live_runs(live: Array) -> tuple[Array, Array, Array]:
    """Return (variable, first place, end place) of each run of True in bool[places, variables].

    The three are arrays, ordered by variable. A run does not include its end place.
    """
    none = np.zeros((1, live.shape[1]), bool)
    change = np.diff(np.concatenate((none, live, none)).astype(np.int8), axis=0).T
    variable, start = np.nonzero(change > 0)
    return variable, start, np.nonzero(change < 0)[1]


@dataclass(frozen=True)
class Total:
    """The bytes of a tile with and without the gaps between variables."""

    including_gaps: int
    excluding_gaps: int


class TileMemory(WithoutSome):
    """The bytes on one tile at the place where it is fullest."""

    def __init__(self, memory: MemoryLedger, tile: int) -> None:
        self._memory = memory
        self._tile = tile

    @property
    def total(self) -> Total:
        """The total bytes, with and without gaps."""
        used = int(self._memory.bytes_per_tile[self._tile])
        gaps = int(self._memory.gaps_per_tile[self._tile])
        return Total(used + gaps, used)

    @property
    def category(self) -> dict[str, int]:
        """Bytes by category, which add up to `total.excluding_gaps`."""
        return self._memory.by_category(self._tile)

    @property
    def variables(self) -> dict[str, int]:
        """Bytes by variable, largest first."""
        return self._memory.at_fullest(self._tile)

    @property
    def always_live_bytes(self) -> int:
        """Bytes that are in use from the first step to the last."""
        return int(self._memory.always_live_bytes_per_tile[self._tile])

    @property
    def not_always_live_bytes(self) -> int:
        """Bytes that are in use for only a part of the programs."""
        return int(self._memory.not_always_live_bytes_per_tile[self._tile])


@dataclass(frozen=True)
class Tile(WithoutSome):
    """One tile, and the number of the IPU that it belongs to."""

    number: int
    ipu: int
    memory: TileMemory = field(repr=False)


@dataclass(frozen=True)
class ExchangeRow:
    """The exchange of one execution of a compiled step.

    `bytes_received` is the total on all tiles, and `most_received` that of `tile`, the tile that
    receives most. `link_bytes` are bytes sent to other IPUs. `cycles` are modelled. The step ran
    `executions` times.
    """

    step: int
    kind: str
    name: str
    executions: int
    bytes_received: int
    most_received: int
    tile: int
    link_bytes: int
    cycles: int
    _report: Report = field(repr=False)

    @property
    def messages(self) -> tuple[Transfers, ...]:
        """The messages of each exchange of the step, the largest first."""
        return self._report.transfers(self.step)

    @property
    def received(self) -> Array:
        """The bytes that each tile receives: int64[tiles]."""
        return self._by_tile("received")

    @property
    def sent(self) -> Array:
        """The bytes that each tile sends: int64[tiles]."""
        return self._by_tile("sent")

    def _by_tile(self, name: str) -> Array:
        parts = [getattr(traffic, name) for traffic in self._report.step_cost(self.step).exchange]
        total: Array = np.stack(parts).sum(axis=0)
        return total


def exchanges(report: Report) -> Table[ExchangeRow]:
    """Return a row for each compiled step with an exchange."""
    rows = []
    for number, runs in enumerate(report.executions.tolist()):
        cost = report.step_cost(number)
        received = (
            np.sum([t.received for t in cost.exchange], axis=0)
            if cost.exchange
            else np.zeros(1, np.int64)
        )
        if received.any():
            tile = int(np.argmax(received))
            links = sum(int(t.links.sum()) for t in cost.exchange)
            total = int(received.sum())
            cycles = cost.exchange_duration + cost.global_exchange_cycles
            rows.append(
                ExchangeRow(
                    number,
                    cost.kind,
                    name=cost.name,
                    executions=runs,
                    bytes_received=total,
                    most_received=int(received[tile]),
                    tile=tile,
                    link_bytes=links,
                    cycles=cycles,
                    _report=report,
                )
            )
    return Table(rows)


@dataclass(frozen=True)
class RowMove:
    """The rows that step `index` of the run copied to or from a remote buffer.

    `loads` is True if they were copied to the device. `step` is the number of the compiled step,
    `what` the facts about the copy, and `rows` the row numbers.
    """

    index: int
    step: int
    what: RowsMoved
    loads: bool
    rows: tuple[int, ...]


def row_moves(report: Report) -> Iterator[RowMove]:
    """Yield the copies with remote buffers in order, as long as their row numbers were recorded."""
    rows = report.rows_moved
    steps = report.profile.steps
    done = 0
    moving = np.array([bool(step.moves) for step in steps], bool)
    order = report.step_numbers
    for index in np.flatnonzero(moving[order]).tolist() if moving.any() else ():
        step = steps[order[index]]
        for transfer in step.moves:
            if done + transfer.rows > len(rows):
                return
            own_rows = tuple(rows[done : done + transfer.rows].tolist())
            yield RowMove(
                index, int(order[index]), what=transfer, loads=bool(step.to_device), rows=own_rows
            )
            done += transfer.rows


@dataclass(frozen=True)
class BufferUse:
    """The copies of the programs with one remote buffer.

    `reads` and `writes` count the copies; the rows and bytes are totals. `different_rows` counts
    the distinct row numbers among those that were recorded.
    """

    name: str
    reads: int
    rows_read: int
    bytes_read: int
    writes: int
    rows_written: int
    bytes_written: int
    different_rows: int


def buffers(report: Report) -> Table[BufferUse]:
    """Return a row for each remote buffer that was used, in the order of the compiled steps."""
    sizes_by_name: dict[str, Array] = {}
    for step, times in zip(report.profile.steps, report.executions.tolist(), strict=True):
        for move in step.moves if times else ():
            use = sizes_by_name.setdefault(move.buffer, np.zeros((2, 3), np.int64))
            use[0 if step.to_device else 1] += times * np.array((1, move.rows, move.bytes))
    rows_by_name: dict[str, set[int]] = {name: set() for name in sizes_by_name}
    for moved in report.row_moves:
        rows_by_name[moved.what.buffer].update(moved.rows)
    rows: list[tuple[Any, ...]] = [
        (name, *use.ravel().tolist(), len(rows_by_name[name]))
        for name, use in sizes_by_name.items()
    ]
    return Table(BufferUse(*row) for row in rows)


@dataclass(frozen=True)
class IpuRow:
    """The work and the waiting of one IPU in a run, in modelled cycles.

    - `ipu` is its number; on a machine with I/O tiles, it is an index of `Target.sets`.
    - `busy_cycles` are its work. `shared_cycles` are the part of it in steps before which all IPUs
      wait for each other.
    - `waiting_cycles` are its waiting for other IPUs, longest for `waits_for` (-1 if it never
      waits).
    - `held_cycles` are the waiting of other IPUs for this one, longest before its step `held_by`.

    Only steps whose order was recorded count.
    """

    ipu: int
    busy_cycles: int
    waiting_cycles: int
    waits_for: int
    held_cycles: int
    held_by: str
    shared_cycles: int = 0

    @property
    def own_cycles(self) -> int:
        """Modelled cycles of work in steps before which the IPUs do not all wait for each other."""
        return self.busy_cycles - self.shared_cycles

    @property
    def busy(self) -> float:
        """The share of the run in which the IPU works, 0 to 1."""
        return self.busy_cycles / ((self.busy_cycles + self.waiting_cycles) or 1)


def ipus(report: Report) -> Table[IpuRow]:
    """Return a row for each IPU: its work, its waiting, and the waiting of others for it."""
    overlap = report.overlap
    rows = []
    for ipu, (waits, holding) in enumerate(
        zip(overlap.waits, overlap.waits.sum(axis=0).tolist(), strict=True)
    ):
        idle = int(waits.sum())
        longest = int(waits.argmax())
        by = report.step_cost(int(overlap.holding(ipu).argmax())).name if holding else ""
        shared = int((overlap.shared - overlap.idle)[:, ipu].sum())
        rows.append(
            IpuRow(
                ipu,
                overlap.total - idle,
                waiting_cycles=idle,
                waits_for=longest if idle else -1,
                held_cycles=holding,
                held_by=by,
                shared_cycles=shared,
            )
        )
    return Table(rows)


class Lazily(Sequence[T]):
    """A sequence that computes an item when it is indexed.

    `one` is the name of an item in errors, and `make(i)` computes item i.
    """

    def __init__(self, length: int, one: str, make: Callable[[int], T]) -> None:
        self._length = length
        self._one = one
        self._make = make

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> Table[T]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return Table(self._make(i) for i in range(*index.indices(self._length)))
        if not is_whole(index) or not -self._length <= index < self._length:
            near = f"there {'is' if self._length == 1 else 'are'} {self!r}, from 0."
            if not self._length:
                near = (
                    "run the engine first, and ask engine.report then: nothing has run in this one."
                )
            raise PoplarIndexError(f"There is no {self._one} {shown(index)}.", next_step=near)
        return self._make(int(index) % self._length)

    def __repr__(self) -> str:
        return counted(self._length, self._one)


@dataclass(frozen=True)
class GraphSize:
    """The numbers of vertices, edges, variables and compute sets of a program."""

    num_vertices: int
    num_edges: int
    num_vars: int
    num_compute_sets: int


@dataclass(frozen=True)
class LivenessStep:
    """The live memory at a place of the programs.

    `bytes` is the memory in use on all tiles together, including buffers but not
    `always_live_bytes`.
    """

    COLUMNS: ClassVar = ("number", "type", "name", "bytes", "always_live_bytes", "cycles")

    number: int
    type: str
    name: str
    bytes: int
    always_live_bytes: int
    _memory: MemoryLedger = field(repr=False)
    _profile: Profile = field(repr=False)

    @property
    def program(self) -> ProgramNode:
        """The node of the step in the programs: a leaf with `name` and `type`."""
        return self._profile.leaf(self._memory.liveness.places[self.number].step)

    @property
    def cycles(self) -> int:
        """Modelled cycles of one execution of the step at that place."""
        return self._profile.cost(self._memory.liveness.places[self.number].step).cycles

    @property
    def not_always_live_memory(self) -> LivenessStep:
        """This object, which has `bytes` and `variables`, under libpva's name."""
        return self

    @property
    def variables(self) -> dict[str, int]:
        """The bytes of each variable that is live in this step but not in all, largest first."""
        return self._memory.live_at(self.number)


@dataclass(frozen=True, eq=False, repr=False)
class Compilation(WithoutSome):
    """The compiled program, by libpva's names.

    For example, `report.compilation.tiles[3].memory.total.including_gaps`, `.programs` and
    `.compute_sets`.
    """

    _report: Report

    @property
    def target(self) -> Target:
        """The machine that the program was compiled for."""
        return self._report.target

    @property
    def graph(self) -> GraphSize:
        """The numbers of vertices, edges, variables and compute sets."""
        return GraphSize(*self._report.graph_size().values())

    @property
    def tiles(self) -> Lazily[Tile]:
        """All tiles, with their memory."""
        target = self.target
        memory = self._report.memory
        return Lazily(
            target.num_tiles,
            "tile",
            lambda i: Tile(i, i // target.tiles_per_ipu, TileMemory(memory, i)),
        )

    @property
    def ipus(self) -> tuple[Table[Tile], ...]:
        """The tiles of each IPU."""
        tiles = self.tiles
        tiles_per_ipu = self.target.tiles_per_ipu
        return tuple(
            tiles[first : first + tiles_per_ipu] for first in range(0, len(tiles), tiles_per_ipu)
        )

    @property
    def always_live_variables(self) -> VariableTable:
        """The variables that are live from the first step to the last."""
        return self._report.variables.always_live()

    @property
    def programs(self) -> tuple[ProgramNode, ...]:
        """The programs as trees of nodes, each with `name`, `type` and `children`."""
        return self._report.profile.programs

    @property
    def compute_sets(self) -> Table[ComputeSetProfile]:
        """The compute sets that the programs execute."""
        return self._report.compute_sets

    @property
    def liveness_program_steps(self) -> Table[LivenessStep]:
        """The live memory at each place of the programs, in order."""
        memory = self._report.memory
        always = int(memory.always_live_bytes_per_tile.sum())
        places = zip(memory.liveness.places, memory.bytes_by_place(), strict=True)
        return Table(
            LivenessStep(
                i,
                node.kind,
                name=name,
                bytes=size,
                always_live_bytes=always,
                _memory=memory,
                _profile=self._report.profile,
            )
            for i, (node, (name, size)) in enumerate(places)
        )


class Steps(Lazily[IpuStep | Any]):
    """The steps of a run whose order was recorded."""

    def __init__(self, report: Report) -> None:
        super().__init__(len(report.step_numbers), "step", lambda i: report.steps(i, i + 1)[0])
        self._report = report

    def __iter__(self) -> Iterator[StepRun]:
        return self._report.steps_between()

    def to_dataframe(self) -> Any:
        """Return the steps as a pandas DataFrame."""
        return Table(self).to_dataframe()

    def to_csv(self) -> str:
        """Return the steps as comma-separated text."""
        return Table(self).to_csv()


@dataclass(frozen=True, eq=False, repr=False)
class Execution(WithoutSome):
    """The part of a report about what ran: `steps`, `runs`, `total_cycles` and `blocks`."""

    _report: Report

    @property
    def steps(self) -> Steps:
        """The steps in order, with start and end; their cycles by tile are computed on request."""
        return Steps(self._report)

    @property
    def runs(self) -> tuple[ProgramRun, ...]:
        """The calls of `Engine.run`."""
        return self._report.runs

    @property
    def total_cycles(self) -> int:
        """Modelled cycles of everything that ran."""
        return self._report.total_cycles

    def blocks(
        self,
        tile: int | None = None,
        block_filter: str | None = None,
        program_filter: str | None = None,
    ) -> Table[BlockRun]:
        """Return all executions of `Block` programs on `tile`, in the order in which they begin.

        A block begins when the tile has finished its part of the programs before the block, and
        ends when it has finished its part of the block. The time that the tile waits for other
        tiles within the block counts too. An outer block comes before the blocks inside it.

        `block_filter` is a regular expression that selects blocks by their names. Programs whose
        names match `program_filter` count as blocks too. A block is left out if nothing ran in it,
        or if it ran after the steps whose order a long run records. The defaults are the engine's
        options `profiler.*`: tile 0, all blocks, no other programs.

        Raises `PoplarIndexError`, `InvalidOptionError` and `ProfilingDisabledError`.
        """
        return blocks(self._report, tile, block_filter, program_filter)
