"""Freeze a graph into immutable arrays: vertex tables, byte intervals and the tile map.

Later passes (checks, exchange, schedule, kernels) are array arithmetic on these arrays. Addresses
are bytes in the graph's one flat memory, so the length of an interval is the number of bytes that a
copy of it transfers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ipu_teach.compile.layout_runs import pointers_of, touched_runs
from ipu_teach.compile.programs import ExecuteStep, Step
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.codelet_registry import Estimator
from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.source import Line, line_of
from ipu_teach.graph.tile_map import UNMAPPED, TileMap, expand, over, paint
from ipu_teach.graph.variable_table import ALIGNMENT, Variable
from ipu_teach.graph.vertex import Field, Vertex
from ipu_teach.graph.vertex_table import VertexTable
from ipu_teach.types import Array, DType, poison

if TYPE_CHECKING:
    from ipu_teach.target import Target


@dataclass(frozen=True, eq=False)
class Intervals:
    """Half-open byte intervals [start, stop), each with the row of its vertex."""

    row: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class FrozenTable:
    """The vertices of one codelet in one compute set, as columns.

    * `offsets`, `layouts`: by field name, one value per vertex. State fields are included: each
      vertex has hidden memory for them.
    * `tiles`, `order`, `estimates`: one value per vertex; an estimate of -1 means none.
    * `added`, `placed`: (first row, row after the last, source line) of the calls that added the
      vertices, and of the calls that mapped them to tiles.
    """

    compute_set: int
    codelet: type[Vertex]
    fields: dict[str, Field]
    offsets: dict[str, Array]
    layouts: dict[str, Array]
    tiles: Array
    order: Array
    estimates: Array
    added: tuple[tuple[int, int, Line], ...] = ()
    placed: tuple[tuple[int, int, Line], ...] = ()
    replicas: int = 1

    def __len__(self) -> int:
        return len(self.order)

    def line(self, row: int) -> Line:
        """Return the source line that added the vertex in `row`."""
        return line_of(row, self.added)

    def placed_by(self, row: int) -> Line:
        """Return the source line that mapped the vertex in `row` to its tile.

        It is `NOWHERE` if the call that added the vertex also mapped it.
        """
        return line_of(row, self.placed)


@dataclass(frozen=True, eq=False)
class FrozenComputeSet:
    """A compute set, with a table of vertices for each codelet."""

    id: int
    name: str
    tables: tuple[FrozenTable, ...]
    # every table contains the vertices of the first replica, then those of the second, and so on
    replicas: int = 1


def _state(table: VertexTable, name: str, field: Field) -> tuple[Array, Array, Array]:
    """Return (missing, lengths, values) of the state field `name`.

    `missing` is a bool for each vertex, and `lengths` is the length of the field in each vertex.
    `values` contains the values of all vertices, one after the other. A Vector with a size but no
    value is filled with the poison value of unwritten memory.
    """
    values = table.state_values[name]
    if not field.depth:
        missing = np.array([v is None for v in values])
        return (
            missing,
            np.ones(len(values), np.int64),
            np.array([0 if v is None else v for v in values], field.dtype.numpy),
        )
    rows: list[Array | None] = list(values)
    for row, value in enumerate(rows):
        if value is None and (name, row) in table.sizes:
            rows[row] = np.full(table.sizes[name, row], poison(field.dtype), field.dtype.numpy)
    present = [v for v in rows if v is not None]
    lengths = np.array([0 if v is None else len(v) for v in rows], np.int64)
    return (
        np.array([v is None for v in rows]),
        lengths,
        np.concatenate(present or [np.zeros(0, field.dtype.numpy)]),
    )


def _elements(layout: Layout | ListLayout) -> int:
    """Return the number of elements in a layout."""
    return sum(part.size for _, part in layout.parts)


def numbers_in(ids: Array) -> list[int]:
    """Return the distinct values of `ids` (small non-negative integers) in ascending order."""
    if len(ids) == 0 or ids.min() == ids.max():  # fast path: usually all are equal
        return ids[:1].tolist()  # type: ignore[no-any-return]
    distinct: list[int] = np.flatnonzero(np.bincount(ids)).tolist()
    return distinct


class FrozenGraph:
    """An immutable snapshot of a graph at compile time."""

    def __init__(self, graph: Graph) -> None:
        self.target: Target = graph.target
        self.replicas = graph.replicas
        self.estimators: dict[type[Vertex], Estimator] = dict(graph.codelets.estimators)
        self.variables: list[Variable] = list(graph.variables)
        self.initial_values: list[tuple[Tensor, Array]] = list(graph.initial_values)
        self.state_values: list[tuple[type[DType], int, Array]] = []
        self.memory_bytes = graph.memory_bytes
        state_pieces: list[Array] = []
        self.compute_sets = tuple(
            FrozenComputeSet(
                cs.id,
                cs.name,
                tuple(self._freeze_table(t, state_pieces) for t in cs.tables.values() if len(t)),
                cs.replicas,
            )
            for cs in graph.compute_sets
        )
        # taken after _freeze_table, which adds the layouts of state fields
        self.layouts: tuple[Layout | ListLayout, ...] = tuple(graph.layouts)
        self.tile_map = self._tile_map(graph, state_pieces)
        self._starts = [v.start for v in self.variables]
        # caches by table and field, because every analysis asks for them
        self._stretches: dict[tuple[FrozenTable, str], Array] = {}
        self._touched: dict[tuple[FrozenTable, str], Intervals] = {}

    def _tile_map(self, graph: Graph, state_pieces: list[Array]) -> TileMap:
        """Return the tile of every byte of the graph's variables, and of the state after them."""
        tile_map = graph._mapping.table().pieces()
        if state_pieces:
            state = np.concatenate(state_pieces)
            tile_map = over(tile_map, paint(state, np.iinfo(np.int64).max))
        inside = max(int(np.searchsorted(tile_map.start, self.memory_bytes)), 1)
        return TileMap(tile_map.start[:inside], tile_map.tile[:inside])

    def _freeze_table(self, table: VertexTable, state_pieces: list[Array]) -> FrozenTable:
        """Return the frozen table, and append the (start, stop, tile) rows of its state."""
        count = len(table)
        offsets = {n: np.array(column, np.int64) for n, column in table.offsets.items()}
        layouts = {n: np.array(column, np.int32) for n, column in table.layouts.items()}
        tiles = np.array(table.tiles, np.int32)
        for name, field in table.state.items():
            missing, lengths, filled = _state(table, name, field)
            start = self._allocate_state(
                f"{table.codelet.__name__}.{name} (state)", field.dtype, len(filled)
            )
            positions = start // field.dtype.size + np.cumsum(lengths) - lengths
            offsets[name] = np.where(missing, UNMAPPED, positions)
            sizes, inverse = np.unique(lengths, return_inverse=True)
            shapes = [((n,), (1,)) if field.depth else ((), ()) for n in sizes.tolist()]
            ids = [table.graph.strided(*shape).id for shape in shapes]
            layouts[name] = np.array(ids, np.int32)[inverse.reshape(-1)]
            self.state_values.append((field.dtype, start, filled))
            mapped = np.flatnonzero((tiles >= 0) & (lengths > 0))
            begin = positions[mapped] * field.dtype.size
            state_pieces.append(
                np.stack((begin, begin + lengths[mapped] * field.dtype.size, tiles[mapped]), axis=1)
            )
        estimates = np.broadcast_to(np.int64(-1), (count,))  # a broadcast takes no memory
        if table.estimates is not None:
            estimates = estimates.copy()
            estimates[: len(table.estimates)] = table.estimates
        return FrozenTable(
            compute_set=table.compute_set.id,
            codelet=table.codelet,
            fields=dict(table.codelet.fields),
            offsets=offsets,
            layouts=layouts,
            tiles=tiles,
            order=np.array(table.order, np.int64),
            estimates=estimates,
            added=table.added.spans(),
            placed=table.placed.spans(),
            replicas=table.compute_set.replicas,
        )

    def _allocate_state(self, name: str, dtype: type[DType], count: int) -> int:
        """Add a variable for `count` elements of state, and return its address."""
        start = self.memory_bytes
        stop = start + count * dtype.size
        self.memory_bytes = -(-stop // ALIGNMENT) * ALIGNMENT
        self.variables.append(
            Variable(
                len(self.variables),
                name,
                dtype,
                shape=(count,),
                start=start,
                stop=stop,
                constant=False,
                state=True,
            )
        )
        return start

    @cached_property
    def _used_layouts(self) -> set[int]:
        """The numbers of the layouts that a field of some vertex has."""
        return {
            number
            for _, table in self.tables()
            for column in table.layouts.values()
            for number in numbers_in(column)
        }

    @cached_property
    def _runs(self) -> tuple[Array, Array, Array]:
        """The contiguous runs of elements in every used layout, in CSR form.

        The tuple is (pointers, starts relative to the first element, lengths).
        """
        used = sorted(self._used_layouts)
        runs = touched_runs([self.layouts[i] for i in used])
        counts = np.zeros(len(self.layouts), np.int64)
        counts[used] = runs.count
        return pointers_of(counts), runs.start, runs.length

    @cached_property
    def _shortest(self) -> Array:
        """int64[layouts]: the length of the shortest run, or 0 if the layout has none."""
        pointers, _, lengths = self._runs
        shortest = np.zeros(len(self.layouts), np.int64)
        with_runs = np.flatnonzero(np.diff(pointers))
        if len(with_runs):
            shortest[with_runs] = np.minimum.reduceat(lengths, pointers[with_runs])
        return shortest

    def executed(self, step: Step) -> tuple[FrozenTable, ...]:
        """Return the vertex tables that a step executes, or () if it executes none."""
        return self.compute_sets[step.compute_set].tables if isinstance(step, ExecuteStep) else ()

    def intervals(self, table: FrozenTable, field: str) -> Intervals:
        """Return the bytes that each vertex of `table` accesses through `field`."""
        rows = np.arange(len(table))
        return self._intervals(table, field, rows, rows)

    def touched(self, table: FrozenTable, field: str) -> Intervals:
        """Return the same bytes as `intervals`, merged within each stretch of vertices.

        `row` is then the first vertex of the stretch.
        """
        if (table, field) not in self._touched:
            first = self.stretches(table, field)
            last = np.append(first[1:], len(table)) - 1
            self._touched[table, field] = self._intervals(table, field, first, last)
        return self._touched[table, field]

    def edge_bytes(self, compute_set: FrozenComputeSet, without: str) -> tuple[Array, Array, Array]:
        """Return (tile, start, stop) of the bytes that the edges of a compute set access.

        Fields of the kind `without` are left out.
        """
        empty: Array = np.zeros(0, np.int64)
        pieces = [(empty, empty, empty)]
        for table in compute_set.tables:
            for name in (
                name for name, field in table.fields.items() if field.kind not in ("state", without)
            ):
                touched = self.touched(table, name)
                pieces.append((table.tiles[touched.row], touched.start, touched.stop))
        tile, start, stop = map(np.concatenate, zip(*pieces, strict=True))
        return tile, start, stop

    def stretches(self, table: FrozenTable, field: str) -> Array:
        """Return the first row of each stretch of vertices, as int64.

        A stretch is a series of consecutive vertices on one tile whose regions have the same
        layout, and in which each region starts inside or at the end of the previous one. Together
        they access one larger contiguous region. So a million regular edges become a few intervals
        per tile.
        """
        if (table, field) not in self._stretches:
            layout = table.layouts[field]
            step = np.diff(table.offsets[field])
            same_layout = layout[1:] == layout[:-1]
            continues = (
                (step >= 0)
                & (step <= self._shortest[layout[:1] if same_layout.all() else layout[1:]])
                & same_layout
            )
            continues &= table.tiles[1:] == table.tiles[:-1]
            self._stretches[table, field] = np.flatnonzero(np.append(True, ~continues))
        return self._stretches[table, field]

    def stretch_lengths(self, table: FrozenTable, field: str) -> Array:
        """Return the number of vertices in each stretch: int64[stretches]."""
        return np.diff(np.append(self.stretches(table, field), len(table)))

    def region_bytes(self, table: FrozenTable, field: str) -> Array:
        """Return the bytes in the region of a vertex, for each stretch: int64[stretches].

        All vertices of a stretch have regions of the same size.
        """
        numbers = table.layouts[field][self.stretches(table, field)]
        return self.each_layout(numbers, _elements) * table.fields[field].dtype.size

    def connected_bytes(self, table: FrozenTable, field: str) -> int:
        """Return the bytes in the regions of all vertices; shared bytes count several times."""
        return int((self.region_bytes(table, field) * self.stretch_lengths(table, field)).sum())

    def positions(self, numbers: Array) -> Array:
        """Return the position of each element relative to the first: int64[layouts, elements].

        `numbers` are layouts of the same size.
        """
        first = self._lists[0][numbers]
        all_positions = self._lists[1]
        is_list = first >= 0
        size = self.layouts[numbers[0]].size
        positions = np.empty((len(numbers), size), np.int64)
        positions[is_list] = all_positions[first[is_list][:, None] + np.arange(size)]
        for i in np.flatnonzero(~is_list).tolist():
            positions[i] = self.layouts[numbers[i]].positions.reshape(-1)
        return positions

    @cached_property
    def _lists(self) -> tuple[Array, Array]:
        """(first index of each layout, positions of all layouts that are lists).

        The positions of the lists are concatenated. The first index is -1 for a layout that is
        strided or unused.
        """
        lists = {
            number: layout.positions.reshape(-1)
            for number in sorted(self._used_layouts)
            for layout in [self.layouts[number]]
            if isinstance(layout, Layout) and layout.listed is not None
        }
        begin = np.full(len(self.layouts), -1, np.int64)
        lengths = np.array([len(positions) for positions in lists.values()], np.int64)
        begin[list(lists)] = np.cumsum(lengths) - lengths
        return begin, np.concatenate([np.zeros(0, np.int64), *lists.values()])

    def each_layout(self, numbers: Array, of: Callable[[Layout | ListLayout], int]) -> Array:
        """Return `of(layout)` for the layout with each number, as int64.

        It is called once per layout.
        """
        values = np.zeros(len(self.layouts), np.int64)
        used = numbers_in(numbers)
        values[used] = [of(self.layouts[number]) for number in used]
        return values[numbers] if len(used) != 1 else np.full(len(numbers), values[used[0]])

    def _intervals(self, table: FrozenTable, field: str, first: Array, last: Array) -> Intervals:
        """Return the bytes of all regions in the rows `first[i]` to `last[i]`, run by run."""
        pointers, deltas, lengths = self._runs
        layout = table.layouts[field][first]
        size = table.fields[field].dtype.size
        low, high = (table.offsets[field][rows] for rows in (first, last))
        count = np.diff(pointers)
        used = numbers_in(layout)
        # fast path: most regions are one contiguous run, usually all of the same layout
        if np.all(count[used] == 1):
            run = pointers[used if len(used) == 1 else layout]
        else:
            rows, run = expand(pointers[layout], count[layout])
            first = first[rows]
            low = low[rows]
            high = high[rows]
        begin = deltas[run]
        return Intervals(first, (low + begin) * size, (high + (begin + lengths[run])) * size)

    def tables(self) -> Iterator[tuple[FrozenComputeSet, FrozenTable]]:
        """Yield every table, with its compute set."""
        return (
            (compute_set, table)
            for compute_set in self.compute_sets
            for table in compute_set.tables
        )

    def variable_at(self, byte: int) -> Variable:
        """Return the variable that contains a byte address."""
        return self.variables[bisect_right(self._starts, byte) - 1]

    def element(self, byte: int) -> str:
        """Return a description of a byte address: the element's index and the variable's name."""
        variable = self.variable_at(byte)
        number = (byte - variable.start) // variable.dtype.size
        index = ", ".join(str(i) for i in np.unravel_index(number, variable.shape or (1,)))
        return f"element [{index}] of {variable.name!r}"
