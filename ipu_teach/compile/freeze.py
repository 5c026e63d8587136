"""Freeze a graph into immutable arrays: vertex tables, byte intervals and the tile map.

Later passes (checks, exchange, schedule, kernels) do arithmetic with these arrays. The graph
has one flat memory, and addresses count its bytes. So the length of an interval is the number of
bytes that a copy of the interval transfers.
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
    """Half-open byte intervals [start, stop), each with the row of its vertex in the table."""

    row: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class FrozenTable:
    """A table of the vertices of one codelet in one compute set, with one row per vertex.

    * `offsets`, `layouts`: arrays keyed by field name. They contain the offset (in elements) and
      the layout number of each vertex's region. State fields are included, because each vertex has
      hidden memory for them.
    * `tiles`: the tile of each vertex.
    * `order`: the number of each vertex in its compute set.
    * `estimates`: the cycles that were set for each vertex, or -1 for none.
    * `added`: (first row, row after the last, source line) of each call that added vertices.
    * `placed`: the same for each call that mapped vertices to tiles.
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

        The line is `NOWHERE` if the call that added the vertex also mapped it.
        """
        return line_of(row, self.placed)


@dataclass(frozen=True, eq=False)
class FrozenComputeSet:
    """A compute set, with a table of vertices for each codelet."""

    id: int
    name: str
    tables: tuple[FrozenTable, ...]
    # The number of replicas. Every table has the vertices of the first replica, then those of the
    # second, and so on.
    replicas: int = 1


def _state(table: VertexTable, name: str, field: Field) -> tuple[Array, Array, Array]:
    """Return (missing, lengths, values) of the state field `name`.

    `missing` is True for each vertex whose field has no value. `lengths` is the length of the field
    in each vertex. `values` contains the values of all vertices, one after the other. A Vector with
    a size but no value is filled with the poison value of unwritten memory.
    """
    values = table.state_values[name]
    if not field.depth:
        missing = np.array([state_value is None for state_value in values])
        return (
            missing,
            np.ones(len(values), np.int64),
            np.array(
                [0 if state_value is None else state_value for state_value in values],
                field.dtype.numpy,
            ),
        )
    rows: list[Array | None] = list(values)
    for row, value in enumerate(rows):
        if value is None and (name, row) in table.sizes:
            rows[row] = np.full(table.sizes[name, row], poison(field.dtype), field.dtype.numpy)
    present = [state_value for state_value in rows if state_value is not None]
    lengths = np.array(
        [0 if state_value is None else len(state_value) for state_value in rows], np.int64
    )
    return (
        np.array([state_value is None for state_value in rows]),
        lengths,
        np.concatenate(present or [np.zeros(0, field.dtype.numpy)]),
    )


def _elements(layout: Layout | ListLayout) -> int:
    """Return the number of elements in a layout."""
    return sum(part.size for _, part in layout.parts)


def numbers_in(ids: Array) -> list[int]:
    """Return the distinct values of `ids` (small non-negative integers) in ascending order."""
    # Fast path: usually all values are equal.
    if len(ids) == 0 or ids.min() == ids.max():
        return ids[:1].tolist()  # type: ignore[no-any-return]
    distinct: list[int] = np.flatnonzero(np.bincount(ids)).tolist()
    return distinct


class FrozenGraph:
    """An immutable snapshot of a graph, taken when it is compiled."""

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
        # `_freeze_table` adds layouts of state fields, so it must run before this line.
        self.layouts: tuple[Layout | ListLayout, ...] = tuple(graph.layouts)
        self.tile_map = self._tile_map(graph, state_pieces)
        self._starts = [v.start for v in self.variables]
        # Caches keyed by table and field, because every analysis needs the same values.
        self._stretches: dict[tuple[FrozenTable, str], Array] = {}
        self._touched: dict[tuple[FrozenTable, str], Intervals] = {}

    def _tile_map(self, graph: Graph, state_pieces: list[Array]) -> TileMap:
        """Return the tile of every byte of the graph's variables and of the vertices' state.

        The state is in memory after the variables. `state_pieces` are the (start, stop, tile) rows
        of the state.
        """
        tile_map = graph._mapping.table().pieces()
        if state_pieces:
            state = np.concatenate(state_pieces)
            tile_map = over(tile_map, paint(state, np.iinfo(np.int64).max))
        inside = max(int(np.searchsorted(tile_map.start, self.memory_bytes)), 1)
        return TileMap(tile_map.start[:inside], tile_map.tile[:inside])

    def _freeze_table(self, table: VertexTable, state_pieces: list[Array]) -> FrozenTable:
        """Return the frozen table; append (start, stop, tile) of its state to `state_pieces`."""
        num_vertices = len(table)
        offsets = {length: np.array(column, np.int64) for length, column in table.offsets.items()}
        layouts = {length: np.array(column, np.int32) for length, column in table.layouts.items()}
        tiles = np.array(table.tiles, np.int32)
        for name, field in table.state.items():
            is_missing, lengths, state_values = _state(table, name, field)
            state_start = self._allocate_state(
                f"{table.codelet.__name__}.{name} (state)", field.dtype, len(state_values)
            )
            positions = state_start // field.dtype.size + np.cumsum(lengths) - lengths
            offsets[name] = np.where(is_missing, UNMAPPED, positions)
            distinct_lengths, inverse = np.unique(lengths, return_inverse=True)
            shapes = [
                ((length,), (1,)) if field.depth else ((), ())
                for length in distinct_lengths.tolist()
            ]
            layout_ids = [table.graph.strided(*shape).id for shape in shapes]
            layouts[name] = np.array(layout_ids, np.int32)[inverse.reshape(-1)]
            self.state_values.append((field.dtype, state_start, state_values))
            mapped_rows = np.flatnonzero((tiles >= 0) & (lengths > 0))
            mapped_begin = positions[mapped_rows] * field.dtype.size
            state_pieces.append(
                np.stack(
                    (
                        mapped_begin,
                        mapped_begin + lengths[mapped_rows] * field.dtype.size,
                        tiles[mapped_rows],
                    ),
                    axis=1,
                )
            )
        # A broadcast array stores a single number for all vertices.
        estimates = np.broadcast_to(np.int64(-1), (num_vertices,))
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
        """The number of each layout that a field of at least one vertex has, as a set."""
        return {
            number
            for _, table in self.tables()
            for column in table.layouts.values()
            for number in numbers_in(column)
        }

    @cached_property
    def _runs(self) -> tuple[Array, Array, Array]:
        """The contiguous runs of elements in every layout that a field uses: three arrays.

        The arrays are (pointers, starts, lengths). The runs of layout i have the indices from
        `pointers[i]` to before `pointers[i + 1]`. Their starts are relative to the first element of
        the layout.
        """
        used_layouts = sorted(self._used_layouts)
        runs = touched_runs([self.layouts[number] for number in used_layouts])
        runs_of_layout = np.zeros(len(self.layouts), np.int64)
        runs_of_layout[used_layouts] = runs.count
        return pointers_of(runs_of_layout), runs.start, runs.length

    @cached_property
    def _shortest(self) -> Array:
        """The length of the shortest contiguous run of elements in each layout: int64[layouts].

        The length is 0 if the layout has no elements, or if no field uses it.
        """
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
        """Return the byte intervals that each vertex of `table` accesses through `field`."""
        rows = np.arange(len(table))
        return self._intervals(table, field, rows, rows)

    def touched(self, table: FrozenTable, field: str) -> Intervals:
        """Return the byte intervals that the vertices of `table` access through `field`, merged.

        The intervals of all vertices in a stretch (see `stretches`) are merged. The attribute `row`
        of the result is the first row of the stretch.
        """
        if (table, field) not in self._touched:
            first_rows = self.stretches(table, field)
            last_rows = np.append(first_rows[1:], len(table)) - 1
            self._touched[table, field] = self._intervals(table, field, first_rows, last_rows)
        return self._touched[table, field]

    def edge_bytes(self, compute_set: FrozenComputeSet, without: str) -> tuple[Array, Array, Array]:
        """Return (tile, start, stop) of the byte intervals that a compute set's vertices access.

        Each of the three is an array with one element per interval. State fields are left out, and
        so are fields of the kind `without`, such as "output".
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
        layout. Each contiguous run of elements in a region starts inside or at the end of the same
        run in the previous region. So for each run of the layout, the runs of all regions in a
        stretch merge into one larger run. In this way, a few intervals per tile can represent the
        regions of a million vertices.
        """
        if (table, field) not in self._stretches:
            layout = table.layouts[field]
            offset_steps = np.diff(table.offsets[field])
            same_layout = layout[1:] == layout[:-1]
            continues = (
                (offset_steps >= 0)
                & (offset_steps <= self._shortest[layout[:1] if same_layout.all() else layout[1:]])
                & same_layout
            )
            continues &= table.tiles[1:] == table.tiles[:-1]
            self._stretches[table, field] = np.flatnonzero(np.append(True, ~continues))
        return self._stretches[table, field]

    def stretch_lengths(self, table: FrozenTable, field: str) -> Array:
        """Return the number of vertices in each stretch (see `stretches`): int64[stretches]."""
        return np.diff(np.append(self.stretches(table, field), len(table)))

    def region_bytes(self, table: FrozenTable, field: str) -> Array:
        """Return the bytes of one vertex's region, for each stretch of vertices: int64[stretches].

        All vertices of a stretch (see `stretches`) have regions of the same size.
        """
        numbers = table.layouts[field][self.stretches(table, field)]
        return self.each_layout(numbers, _elements) * table.fields[field].dtype.size

    def connected_bytes(self, table: FrozenTable, field: str) -> int:
        """Return the total bytes of all vertices' regions; a byte in two regions counts twice."""
        return int((self.region_bytes(table, field) * self.stretch_lengths(table, field)).sum())

    def positions(self, numbers: Array) -> Array:
        """Return the positions of several layouts' elements, as int64[layouts, elements].

        A position is relative to the layout's first element. `numbers` are the numbers of the
        layouts, which must all have the same size.
        """
        list_starts = self._lists[0][numbers]
        concatenated = self._lists[1]
        is_list = list_starts >= 0
        num_elements = self.layouts[numbers[0]].size
        positions = np.empty((len(numbers), num_elements), np.int64)
        positions[is_list] = concatenated[list_starts[is_list][:, None] + np.arange(num_elements)]
        for row in np.flatnonzero(~is_list).tolist():
            positions[row] = self.layouts[numbers[row]].positions.reshape(-1)
        return positions

    @cached_property
    def _lists(self) -> tuple[Array, Array]:
        """The element positions in all layouts that store a list of positions: (starts, positions).

        A layout without strides stores such a list. `positions` contains the lists of the layouts
        that fields use, one after another. `starts` is the index in `positions` at which the list
        of each layout begins, or -1 for a layout that has strides or is not used by a field.
        """
        positions_by_layout = {
            number: layout.positions.reshape(-1)
            for number in sorted(self._used_layouts)
            for layout in [self.layouts[number]]
            if isinstance(layout, Layout) and layout.listed is not None
        }
        list_starts = np.full(len(self.layouts), -1, np.int64)
        list_lengths = np.array(
            [len(positions) for positions in positions_by_layout.values()], np.int64
        )
        list_starts[list(positions_by_layout)] = np.cumsum(list_lengths) - list_lengths
        return list_starts, np.concatenate([np.zeros(0, np.int64), *positions_by_layout.values()])

    def each_layout(self, numbers: Array, of: Callable[[Layout | ListLayout], int]) -> Array:
        """Return `of(layout)` for each layout number in `numbers`, as int64[numbers].

        `of` is called once for each distinct layout.
        """
        values = np.zeros(len(self.layouts), np.int64)
        distinct = numbers_in(numbers)
        values[distinct] = [of(self.layouts[number]) for number in distinct]
        return values[numbers] if len(distinct) != 1 else np.full(len(numbers), values[distinct[0]])

    def _intervals(self, table: FrozenTable, field: str, first: Array, last: Array) -> Intervals:
        """Return the byte intervals that the vertices first[i] to last[i] access, for all i.

        `first` and `last` contain rows of `table`. For each i, the rows from first[i] to last[i]
        form a stretch (see `stretches`), so each contiguous run of their common layout is one
        interval.
        """
        pointers, run_starts, run_lengths = self._runs
        layouts = table.layouts[field][first]
        element_bytes = table.fields[field].dtype.size
        first_offsets, last_offsets = (table.offsets[field][rows] for rows in (first, last))
        runs_of_layout = np.diff(pointers)
        distinct_layouts = numbers_in(layouts)
        # Fast path: usually every region is one contiguous run of elements, and all regions have
        # the same layout.
        if np.all(runs_of_layout[distinct_layouts] == 1):
            runs = pointers[distinct_layouts if len(distinct_layouts) == 1 else layouts]
        else:
            rows, runs = expand(pointers[layouts], runs_of_layout[layouts])
            first = first[rows]
            first_offsets = first_offsets[rows]
            last_offsets = last_offsets[rows]
        run_begins = run_starts[runs]
        return Intervals(
            first,
            (first_offsets + run_begins) * element_bytes,
            (last_offsets + (run_begins + run_lengths[runs])) * element_bytes,
        )

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
        """Return the element at a byte address as text: its index and its variable's name."""
        variable = self.variable_at(byte)
        number = (byte - variable.start) // variable.dtype.size
        index = ", ".join(str(i) for i in np.unravel_index(number, variable.shape or (1,)))
        return f"element [{index}] of {variable.name!r}"
