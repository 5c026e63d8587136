"""Queries of a report, under the names of Graphcore's libpva (its profile analysis library).

A leaf is a program node that executes a compiled step. A place is the index of a leaf in program
order.
"""

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

    - `bytes` is the size of the variable on all tiles together, and `tiles` is the number of tiles
      that it is mapped to.
    - `ranges` has a pair (first place, end place) for each period in which the variable is live. A
      place is the index of a leaf of the programs; the end place is not included.
    - `first` and `last` are the first and the last place at which the variable is live. Both are -1
      if the variable is always live.
    - `line` is the user's line that added the variable.
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
        """The first place at which the variable is live; -1 if it is always live.

        A place is the index of a leaf of the programs.
        """
        return self.ranges[0][0] if self.ranges else -1

    @property
    def last(self) -> int:
        """The last place at which the variable is live; -1 if it is always live.

        A place is the index of a leaf of the programs.
        """
        return self.ranges[-1][1] - 1 if self.ranges else -1


class VariableTable(Table[VariableRow]):
    """A table of the variables of a report."""

    __slots__ = ()

    def live_at(self, place: int) -> VariableTable:
        """Return the variables that are live at leaf number `place` of the programs.

        A leaf is a program node that executes a step. Leaves are numbered from 0 in program order.
        Variables that are always live are included.
        """
        return VariableTable(
            v for v in self if v.always_live or any(a <= place < b for a, b in v.ranges)
        )

    def always_live(self) -> VariableTable:
        """Return the variables that are always live."""
        return VariableTable(v for v in self if v.always_live)

    def folded(self) -> VariableTable:
        """Return a table in which all replicas of a variable share a row.

        In this row, the bytes and tiles of the replicas are added up. Replicas whose live ranges
        differ keep separate rows.
        """
        groups = folded([row.name for row in self], [row.bytes for row in self])
        rows_folded: list[VariableRow] = []
        for name, indices in groups:
            first_row, *other_rows = (self[i] for i in indices)
            have_equal_ranges = all(
                (row.ranges, row.always_live) == (first_row.ranges, first_row.always_live)
                for row in other_rows
            )
            total_bytes, num_tiles = (
                sum(getattr(self[i], attribute) for i in indices)
                for attribute in ("bytes", "tiles")
            )
            merged_row = replace(first_row, name=name, bytes=total_bytes, tiles=num_tiles)
            rows_folded += [merged_row] if have_equal_ranges else [first_row, *other_rows]
        return VariableTable(rows_folded)


def folded(names: Sequence[str], sizes: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Group the replicas of each variable, and return a list of (group name, indices) pairs.

    `names` and `sizes` (in bytes) have one entry for each variable, and the indices in the result
    are indices of these entries. A group of replicas is called "x, 4 replicas", followed by the
    smallest and largest size if the sizes differ. Any other variable forms a group of its own.
    """
    groups: dict[object, list[int]] = {}
    for index, name in enumerate(names):
        base, count = without_replica(name)
        groups.setdefault((base, count) if count > 1 else index, []).append(index)
    folded_groups: list[tuple[str, list[int]]] = []
    for indices in groups.values():
        name = names[indices[0]]
        distinct_sizes = sorted({sizes[index] for index in indices})
        if len(indices) > 1:
            spread = (
                f" of {distinct_sizes[0]:,} to {distinct_sizes[-1]:,} bytes"
                if len(distinct_sizes) > 1
                else ""
            )
            name = f"{without_replica(name)[0]}, {len(indices)} replicas{spread}"
        folded_groups.append((name, indices))
    return folded_groups


def variables(report: Report) -> VariableTable:
    """Return a table with a row for each variable, in the order of their creation."""
    memory = report.memory
    variable_facts = report.profile.variables
    bytes_per_variable = total_of(memory.variable, memory.size, len(variable_facts)).tolist()
    tiles_per_variable = np.bincount(memory.variable, minlength=len(variable_facts)).tolist()
    live_ranges: list[list[tuple[int, int]]] = [[] for _ in variable_facts]
    for index, first_place, end_place in zip(
        *(array.tolist() for array in live_runs(memory.liveness.live)), strict=True
    ):
        live_ranges[index].append((first_place, end_place))
    return VariableTable(
        VariableRow(
            facts.name,
            facts.dtype,
            shape=facts.shape,
            category=facts.category,
            bytes=bytes_per_variable[index],
            tiles=tiles_per_variable[index],
            always_live=is_always_live,
            ranges=tuple(live_ranges[index]),
            line=facts.line,
        )
        for index, (facts, is_always_live) in enumerate(
            zip(variable_facts, memory.liveness.always.tolist(), strict=True)
        )
    )


def live_runs(live: Array) -> tuple[Array, Array, Array]:
    """Return `(variables, first_places, end_places)`: three arrays with one entry per live range.

    `live` is bool[places, variables]. A live range is a contiguous run of True in the column of one
    variable. It ends before its end place. The ranges are ordered by variable.
    """
    no_place = np.zeros((1, live.shape[1]), bool)
    changes = np.diff(np.concatenate((no_place, live, no_place)).astype(np.int8), axis=0).T
    variables, starts = np.nonzero(changes > 0)
    return variables, starts, np.nonzero(changes < 0)[1]


@dataclass(frozen=True)
class Total:
    """The bytes on a tile, including or excluding the gaps between variables."""

    including_gaps: int
    excluding_gaps: int


class TileMemory(WithoutSome):
    """The bytes on one tile at its peak: in the step during which it contains the most bytes."""

    def __init__(self, memory: MemoryLedger, tile: int) -> None:
        self._memory = memory
        self._tile = tile

    @property
    def total(self) -> Total:
        """The total bytes at the tile's peak, with and without the gaps between variables."""
        used = int(self._memory.bytes_per_tile[self._tile])
        gaps = int(self._memory.gaps_per_tile[self._tile])
        return Total(used + gaps, used)

    @property
    def category(self) -> dict[str, int]:
        """The bytes by category at the tile's peak. They add up to `total.excluding_gaps`."""
        return self._memory.by_category(self._tile)

    @property
    def variables(self) -> dict[str, int]:
        """The bytes of each variable at the tile's peak, by name, largest first."""
        return self._memory.at_fullest(self._tile)

    @property
    def always_live_bytes(self) -> int:
        """The bytes on the tile that are always live, such as code and constants."""
        return int(self._memory.always_live_bytes_per_tile[self._tile])

    @property
    def not_always_live_bytes(self) -> int:
        """The bytes at the tile's peak that are not always live."""
        return int(self._memory.not_always_live_bytes_per_tile[self._tile])


@dataclass(frozen=True)
class Tile(WithoutSome):
    """One tile, and the index of the IPU that it belongs to."""

    number: int
    ipu: int
    memory: TileMemory = field(repr=False)


@dataclass(frozen=True)
class ExchangeRow:
    """The exchange of one execution of a compiled step.

    - `step` is the number of the compiled step, which ran `executions` times.
    - `bytes_received` is the number of bytes that all tiles receive together.
    - `tile` is the tile that receives the most bytes, and `most_received` is the number of bytes
      that it receives.
    - `link_bytes` is the number of bytes sent to other IPUs.
    - `cycles` are the modelled cycles of the exchange.
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
        """The messages of each exchange of the step: a table with the largest message first."""
        return self._report.transfers(self.step)

    @property
    def received(self) -> Array:
        """The bytes that each tile receives: int64[tiles]."""
        return self._by_tile("received")

    @property
    def sent(self) -> Array:
        """The bytes that each tile sends: int64[tiles]."""
        return self._by_tile("sent")

    def _by_tile(self, attribute: str) -> Array:
        bytes_by_exchange = [
            getattr(traffic, attribute) for traffic in self._report.step_cost(self.step).exchange
        ]
        bytes_per_tile: Array = np.stack(bytes_by_exchange).sum(axis=0)
        return bytes_per_tile


def exchanges(report: Report) -> Table[ExchangeRow]:
    """Return a row for each compiled step in which tiles receive data, whether or not it ran."""
    rows = []
    for step_number, executions in enumerate(report.executions.tolist()):
        cost = report.step_cost(step_number)
        bytes_per_tile = (
            np.sum([traffic.received for traffic in cost.exchange], axis=0)
            if cost.exchange
            else np.zeros(1, np.int64)
        )
        if bytes_per_tile.any():
            tile = int(np.argmax(bytes_per_tile))
            link_bytes = sum(int(traffic.links.sum()) for traffic in cost.exchange)
            bytes_received = int(bytes_per_tile.sum())
            cycles = cost.exchange_duration + cost.global_exchange_cycles
            rows.append(
                ExchangeRow(
                    step_number,
                    cost.kind,
                    name=cost.name,
                    executions=executions,
                    bytes_received=bytes_received,
                    most_received=int(bytes_per_tile[tile]),
                    tile=tile,
                    link_bytes=link_bytes,
                    cycles=cycles,
                    _report=report,
                )
            )
    return Table(rows)


@dataclass(frozen=True)
class RowMove:
    """The rows that one step of the run copied to or from a remote buffer.

    - `index` is the index of the step in the run, and `step` is the number of its compiled step.
    - `what` describes the copy.
    - `loads` is True if the rows were copied to the device.
    - `rows` are the numbers of the rows in the buffer.
    """

    index: int
    step: int
    what: RowsMoved
    loads: bool
    rows: tuple[int, ...]


def row_moves(report: Report) -> Iterator[RowMove]:
    """Yield the copies to and from remote buffers whose rows were recorded, in order."""
    row_numbers = report.rows_moved
    steps = report.profile.steps
    num_yielded = 0
    has_moves = np.array([bool(step.moves) for step in steps], bool)
    step_numbers = report.step_numbers
    for index in np.flatnonzero(has_moves[step_numbers]).tolist() if has_moves.any() else ():
        step = steps[step_numbers[index]]
        for transfer in step.moves:
            if num_yielded + transfer.rows > len(row_numbers):
                return
            rows_of_transfer = tuple(
                row_numbers[num_yielded : num_yielded + transfer.rows].tolist()
            )
            yield RowMove(
                index,
                int(step_numbers[index]),
                what=transfer,
                loads=bool(step.to_device),
                rows=rows_of_transfer,
            )
            num_yielded += transfer.rows


@dataclass(frozen=True)
class BufferUse:
    """The copies to and from one remote buffer in a run.

    `reads` is the number of copies to the device, and `writes` the number of copies from the
    device. `rows_read`, `bytes_read`, `rows_written` and `bytes_written` are sums over these
    copies. `different_rows` is the number of distinct rows among the recorded rows.
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
    counts_by_name: dict[str, Array] = {}
    for step, executions in zip(report.profile.steps, report.executions.tolist(), strict=True):
        for move in step.moves if executions else ():
            counts = counts_by_name.setdefault(move.buffer, np.zeros((2, 3), np.int64))
            counts[0 if step.to_device else 1] += executions * np.array((1, move.rows, move.bytes))
    row_numbers_by_name: dict[str, set[int]] = {name: set() for name in counts_by_name}
    for row_move in report.row_moves:
        row_numbers_by_name[row_move.what.buffer].update(row_move.rows)
    rows: list[tuple[Any, ...]] = [
        (name, *counts.ravel().tolist(), len(row_numbers_by_name[name]))
        for name, counts in counts_by_name.items()
    ]
    return Table(BufferUse(*row) for row in rows)


@dataclass(frozen=True)
class IpuRow:
    """The work and the waiting of one IPU in a run, in modelled cycles.

    - `ipu` is the number of the IPU. On a machine with I/O tiles, it is an index of `Target.sets`.
    - `busy_cycles` are the cycles in which the IPU works. `shared_cycles` is the part of these
      cycles that belongs to steps before which several IPUs wait for each other.
    - `waiting_cycles` are the cycles in which the IPU waits for other IPUs. It waits longest for
      the IPU `waits_for`, which is -1 if it never waits.
    - `held_cycles` are the cycles for which other IPUs wait for this IPU, summed over the waiting
      IPUs. The step of this IPU for which they wait longest has the name `held_by`.

    Only steps whose order was recorded are included.
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
        """The modelled cycles of work in steps that the IPU begins without waiting for others."""
        return self.busy_cycles - self.shared_cycles

    @property
    def busy(self) -> float:
        """The share of the run in which the IPU works, from 0 to 1."""
        return self.busy_cycles / ((self.busy_cycles + self.waiting_cycles) or 1)


def ipus(report: Report) -> Table[IpuRow]:
    """Return a row for each IPU: its work, its waiting, and how long other IPUs wait for it."""
    overlap = report.overlap
    rows = []
    for ipu, (cycles_by_peer, held_cycles) in enumerate(
        zip(overlap.waits, overlap.waits.sum(axis=0).tolist(), strict=True)
    ):
        waiting_cycles = int(cycles_by_peer.sum())
        longest_awaited = int(cycles_by_peer.argmax())
        held_by = report.step_cost(int(overlap.holding(ipu).argmax())).name if held_cycles else ""
        shared_cycles = int((overlap.shared - overlap.idle)[:, ipu].sum())
        rows.append(
            IpuRow(
                ipu,
                overlap.total - waiting_cycles,
                waiting_cycles=waiting_cycles,
                waits_for=longest_awaited if waiting_cycles else -1,
                held_cycles=held_cycles,
                held_by=held_by,
                shared_cycles=shared_cycles,
            )
        )
    return Table(rows)


class Lazily(Sequence[T]):
    """A sequence of `length` items that computes an item each time it is indexed.

    `make(i)` computes item i. `one` is the noun for an item, such as "tile", and is used in error
    messages.
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
            advice = f"give a number from 0 to {self._length - 1:,}."
            if not self._length:
                advice = (
                    "run the engine first, then use engine.report: nothing has run in this report."
                )
            raise PoplarIndexError(f"There is no {self._one} {shown(index)}.", next_step=advice)
        return self._make(int(index) % self._length)

    def __repr__(self) -> str:
        return counted(self._length, self._one)


@dataclass(frozen=True)
class GraphSize:
    """The numbers of vertices, edges, variables and compute sets of a graph.

    An edge is the connection of a vertex field to a tensor.
    """

    num_vertices: int
    num_edges: int
    num_vars: int
    num_compute_sets: int


@dataclass(frozen=True)
class LivenessStep:
    """The memory that is live while one leaf of the programs runs, summed over all tiles.

    `number` is the index of the leaf in program order. `bytes` includes exchange buffers, but
    excludes `always_live_bytes`, which are the bytes in use during all leaves.
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
        """The leaf of the program tree that this row describes, with its `name` and `type`."""
        return self._profile.leaf(self._memory.liveness.places[self.number].step)

    @property
    def cycles(self) -> int:
        """The modelled cycles of one execution of the leaf."""
        return self._profile.cost(self._memory.liveness.places[self.number].step).cycles

    @property
    def not_always_live_memory(self) -> LivenessStep:
        """This object itself. In libpva, an attribute of this name has `bytes` and `variables`."""
        return self

    @property
    def variables(self) -> dict[str, int]:
        """The bytes of each variable that is live here but not always, by name, largest first."""
        return self._memory.live_at(self.number)


@dataclass(frozen=True, eq=False, repr=False)
class Compilation(WithoutSome):
    """The compiled program, under libpva's names.

    For example, `report.compilation.tiles[3].memory.total.including_gaps` is the peak of tile 3 in
    bytes.
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
        """The tiles in order, with their memory at its peak, each computed when it is indexed."""
        target = self.target
        memory = self._report.memory
        return Lazily(
            target.num_tiles,
            "tile",
            lambda tile: Tile(tile, tile // target.tiles_per_ipu, TileMemory(memory, tile)),
        )

    @property
    def ipus(self) -> tuple[Table[Tile], ...]:
        """The tiles of each IPU: one table for each IPU."""
        tiles = self.tiles
        tiles_per_ipu = self.target.tiles_per_ipu
        return tuple(
            tiles[first_tile : first_tile + tiles_per_ipu]
            for first_tile in range(0, len(tiles), tiles_per_ipu)
        )

    @property
    def always_live_variables(self) -> VariableTable:
        """The variables that are always live, so their memory is never used for anything else."""
        return self._report.variables.always_live()

    @property
    def programs(self) -> tuple[ProgramNode, ...]:
        """The programs as trees. Each node has `name`, `type` and `children`."""
        return self._report.profile.programs

    @property
    def compute_sets(self) -> Table[ComputeSetProfile]:
        """The compute sets that the programs execute, in the order of their creation."""
        return self._report.compute_sets

    @property
    def liveness_program_steps(self) -> Table[LivenessStep]:
        """A table with the live memory at each leaf of the programs, in program order."""
        memory = self._report.memory
        always_live_bytes = int(memory.always_live_bytes_per_tile.sum())
        named_places = zip(memory.liveness.places, memory.bytes_by_place(), strict=True)
        return Table(
            LivenessStep(
                place_number,
                step_node.kind,
                name=name,
                bytes=bytes_held,
                always_live_bytes=always_live_bytes,
                _memory=memory,
                _profile=self._report.profile,
            )
            for place_number, (step_node, (name, bytes_held)) in enumerate(named_places)
        )


class Steps(Lazily[IpuStep | Any]):
    """The steps of a run whose order was recorded. A step is computed when it is indexed."""

    def __init__(self, report: Report) -> None:
        super().__init__(len(report.step_numbers), "step", lambda i: report.steps(i, i + 1)[0])
        self._report = report

    def __iter__(self) -> Iterator[StepRun]:
        return self._report.steps_between()

    def to_dataframe(self) -> Any:
        """Return the steps as a pandas DataFrame."""
        return Table(self).to_dataframe()

    def to_csv(self) -> str:
        """Return the steps as comma-separated text, with a line of headings."""
        return Table(self).to_csv()


@dataclass(frozen=True, eq=False, repr=False)
class Execution(WithoutSome):
    """The part of a report about the execution: `steps`, `runs`, `total_cycles` and `blocks`."""

    _report: Report

    @property
    def steps(self) -> Steps:
        """The steps in order, with start and end cycles. A step is computed when it is indexed.

        A report records the order of the first 4,194,304 (2**22) steps. Later steps are counted,
        but they are not in this sequence.
        """
        return Steps(self._report)

    @property
    def runs(self) -> tuple[ProgramRun, ...]:
        """The calls of `Engine.run`, in order."""
        return self._report.runs

    @property
    def total_cycles(self) -> int:
        """The modelled cycles of everything that ran."""
        return self._report.total_cycles

    def blocks(
        self,
        tile: int | None = None,
        block_filter: str | None = None,
        program_filter: str | None = None,
    ) -> Table[BlockRun]:
        """Return all executions of `Block` programs on `tile`, in the order in which they begin.

        A block begins on the tile when the tile has finished all earlier work of the run, and ends
        when the tile has finished its work in the block. The time that the tile waits for other
        tiles inside the block is included. An outer block comes before the blocks inside it.

        `block_filter` is a regular expression that selects blocks by name. Other programs whose
        names match the regular expression `program_filter` are treated as blocks too. An execution
        is left out if no step ran in it, or if its end is not among the steps whose order was
        recorded.

        If an argument is None, its value comes from the engine's options `profiler.*`. Their
        defaults are tile 0, all blocks and no other programs.

        :raises PoplarIndexError: if there is no such tile.
        :raises InvalidOptionError: if a filter is not a regular expression.
        :raises ProfilingDisabledError: if profiling was disabled during the run.
        """
        return blocks(self._report, tile, block_filter, program_filter)
