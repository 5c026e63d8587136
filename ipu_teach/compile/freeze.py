"""From a graph that is still growing to arrays that never change: vertex tables, byte intervals,
and the tile map.

Everything downstream (checks, exchange, schedule, kernels) is array arithmetic on what stands here.
Addresses are bytes in the graph's one flat memory, so that an interval's length is what it costs to
send.
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
    """Half-open byte intervals [start, stop), each with the row of the vertex it belongs to."""

    row: Array
    start: Array
    stop: Array

    def __len__(self) -> int:
        return len(self.row)


@dataclass(frozen=True, eq=False)
class FrozenTable:
    """The vertices of one codelet in one compute set, as columns.

    `offsets` and `layouts` by field name (state included: each vertex has hidden memory of its own
    for it); `tiles`, `order` and `estimates` (-1 for none) by vertex. `added`, `placed`: the lines
    of the program that added them, and that put them on their tiles.
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
        """The line of the program that added the vertex in `row`."""
        return line_of(row, self.added)

    def placed_by(self, row: int) -> Line:
        """The line of the program that put the vertex in `row` on its tile; nowhere, if the one
        that added it did."""
        return line_of(row, self.placed)


@dataclass(frozen=True, eq=False)
class FrozenComputeSet:
    id: int
    name: str
    tables: tuple[FrozenTable, ...]
    replicas: int = 1  # whose vertices follow each other in every table


def _state(table: VertexTable, name: str, field: Field) -> tuple[Array, Array, Array]:
    """(which vertices have no state `name`, elements of each vertex's, the values of all of them
    one after the other).

    A Vector with a size and no value holds what unwritten memory holds.
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
    return sum(part.size for _, part in layout.parts)


def numbers_in(ids: Array) -> list[int]:
    """Each different number of `ids`, small whole ones, once, ascending."""
    if len(ids) == 0 or ids.min() == ids.max():  # mostly there is one
        return ids[:1].tolist()  # type: ignore[no-any-return]
    found: list[int] = np.flatnonzero(np.bincount(ids)).tolist()
    return found


class FrozenGraph:
    """A graph as it was when it was compiled."""

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
        # after those of the state are among them
        self.layouts: tuple[Layout | ListLayout, ...] = tuple(graph.layouts)
        self.tile_map = self._tile_map(graph, state_pieces)
        self._starts = [v.start for v in self.variables]
        # By table and field, as every analysis asks for them again.
        self._stretches: dict[tuple[FrozenTable, str], Array] = {}
        self._touched: dict[tuple[FrozenTable, str], Intervals] = {}

    def _tile_map(self, graph: Graph, state_pieces: list[Array]) -> TileMap:
        """The tile of every byte of the graph's variables and of the state behind them."""
        tile_map = graph._mapping.table().pieces()
        if state_pieces:
            state = np.concatenate(state_pieces)
            tile_map = over(tile_map, paint(state, np.iinfo(np.int64).max))
        inside = max(int(np.searchsorted(tile_map.start, self.memory_bytes)), 1)
        return TileMap(tile_map.start[:inside], tile_map.tile[:inside])

    def _freeze_table(self, table: VertexTable, state_pieces: list[Array]) -> FrozenTable:
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
            sizes, which = np.unique(lengths, return_inverse=True)
            shapes = [((n,), (1,)) if field.depth else ((), ()) for n in sizes.tolist()]
            ids = [table.graph.strided(*shape).id for shape in shapes]
            layouts[name] = np.array(ids, np.int32)[which.reshape(-1)]
            self.state_values.append((field.dtype, start, filled))
            mapped = np.flatnonzero((tiles >= 0) & (lengths > 0))
            begin = positions[mapped] * field.dtype.size
            state_pieces.append(
                np.stack((begin, begin + lengths[mapped] * field.dtype.size, tiles[mapped]), axis=1)
            )
        estimates = np.broadcast_to(np.int64(-1), (count,))  # which takes no memory
        if table.estimates is not None:
            estimates = estimates.copy()
            estimates[: len(table.estimates)] = table.estimates
        return FrozenTable(
            table.compute_set.id,
            table.codelet,
            dict(table.codelet.fields),
            offsets,
            layouts,
            tiles,
            np.array(table.order, np.int64),
            estimates,
            table.added.spans(),
            table.placed.spans(),
            table.compute_set.replicas,
        )

    def _allocate_state(self, name: str, dtype: type[DType], count: int) -> int:
        start = self.memory_bytes
        stop = start + count * dtype.size
        self.memory_bytes = -(-stop // ALIGNMENT) * ALIGNMENT
        self.variables.append(
            Variable(
                len(self.variables), name, dtype, (count,), start, stop, constant=False, state=True
            )
        )
        return start

    @cached_property
    def _used_layouts(self) -> set[int]:
        """The numbers of the layouts that some vertex has on an edge."""
        return {
            number
            for _, table in self.tables()
            for column in table.layouts.values()
            for number in numbers_in(column)
        }

    @cached_property
    def _runs(self) -> tuple[Array, Array, Array]:
        """For every layout in use, the runs of elements it touches, as one CSR: (pointers, deltas,
        lengths)."""
        used = sorted(self._used_layouts)
        runs = touched_runs([self.layouts[i] for i in used])
        counts = np.zeros(len(self.layouts), np.int64)
        counts[used] = runs.count
        return pointers_of(counts), runs.start, runs.length

    @cached_property
    def _shortest(self) -> Array:
        """For every layout the length of its shortest run, 0 if it has none."""
        pointers, _, lengths = self._runs
        shortest = np.zeros(len(self.layouts), np.int64)
        some = np.flatnonzero(np.diff(pointers))
        if len(some):
            shortest[some] = np.minimum.reduceat(lengths, pointers[some])
        return shortest

    def executed(self, step: Step) -> tuple[FrozenTable, ...]:
        """The vertices that a step executes, by codelet; of other steps there are none."""
        return self.compute_sets[step.compute_set].tables if isinstance(step, ExecuteStep) else ()

    def intervals(self, table: FrozenTable, field: str) -> Intervals:
        """The bytes that each vertex of `table` touches through `field`."""
        rows = np.arange(len(table))
        return self._intervals(table, field, rows, rows)

    def touched(self, table: FrozenTable, field: str) -> Intervals:
        """The same bytes, those of each stretch of vertices together; `row` is the first vertex of
        the stretch."""
        found = self._touched.get((table, field))
        if found is None:
            first = self.stretches(table, field)
            last = np.append(first[1:], len(table)) - 1
            found = self._touched[table, field] = self._intervals(table, field, first, last)
        return found

    def edge_bytes(self, compute_set: FrozenComputeSet, without: str) -> tuple[Array, Array, Array]:
        """(tile, start, stop) of the bytes behind the edges of a compute set, except the fields of
        the kind `without`."""
        none: Array = np.zeros(0, np.int64)
        found = [(none, none, none)]
        for table in compute_set.tables:
            for name in (
                name for name, field in table.fields.items() if field.kind not in ("state", without)
            ):
                touched = self.touched(table, name)
                found.append((table.tiles[touched.row], touched.start, touched.stop))
        tile, start, stop = map(np.concatenate, zip(*found, strict=True))
        return tile, start, stop

    def stretches(self, table: FrozenTable, field: str) -> Array:
        """int64: the rows at which a stretch begins.

        The vertices of a stretch follow each other, lie on one tile and have regions of one layout,
        each of which begins within the one before or where that ends: what they touch together is
        one larger region. So a million regular edges are a few intervals for each tile.
        """
        found = self._stretches.get((table, field))
        if found is None:
            layout, step = table.layouts[field], np.diff(table.offsets[field])
            alike = layout[1:] == layout[:-1]
            goes_on = (
                (step >= 0)
                & (step <= self._shortest[layout[:1] if alike.all() else layout[1:]])
                & alike
            )
            goes_on &= table.tiles[1:] == table.tiles[:-1]
            found = self._stretches[table, field] = np.flatnonzero(np.append(True, ~goes_on))
        return found

    def stretch_lengths(self, table: FrozenTable, field: str) -> Array:
        """int64[stretches]: how many vertices each has."""
        return np.diff(np.append(self.stretches(table, field), len(table)))

    def region_bytes(self, table: FrozenTable, field: str) -> Array:
        """int64[stretches]: bytes of one vertex's region, which are the same for all vertices of a
        stretch."""
        numbers = table.layouts[field][self.stretches(table, field)]
        return self.each_layout(numbers, _elements) * table.fields[field].dtype.size

    def connected_bytes(self, table: FrozenTable, field: str) -> int:
        """Bytes of the regions of all vertices; those that several have in common count for
        each."""
        return int((self.region_bytes(table, field) * self.stretch_lengths(table, field)).sum())

    def positions(self, numbers: Array) -> Array:
        """int64 (layouts, elements): where the elements of layouts of one size lie, relative to the
        first."""
        begin, places = self._lists[0][numbers], self._lists[1]
        listed, size = begin >= 0, self.layouts[numbers[0]].size
        found = np.empty((len(numbers), size), np.int64)
        found[listed] = places[begin[listed][:, None] + np.arange(size)]
        for i in np.flatnonzero(~listed).tolist():
            found[i] = self.layouts[numbers[i]].positions.reshape(-1)
        return found

    @cached_property
    def _lists(self) -> tuple[Array, Array]:
        """(where the positions of each layout begin, -1 for those with strides or in no vertex;
        the positions of all others, in a row)."""
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
        """int64: what `of` says of the layout with each of the numbers. It is asked once for each
        different one."""
        found, used = np.zeros(len(self.layouts), np.int64), numbers_in(numbers)
        found[used] = [of(self.layouts[number]) for number in used]
        return found[numbers] if len(used) != 1 else np.full(len(numbers), found[used[0]])

    def _intervals(self, table: FrozenTable, field: str, first: Array, last: Array) -> Intervals:
        """The bytes from the regions of the rows `first` to those of the rows `last`, run by
        run."""
        pointers, deltas, lengths = self._runs
        layout, size = table.layouts[field][first], table.fields[field].dtype.size
        low, high = (table.offsets[field][rows] for rows in (first, last))
        count, used = np.diff(pointers), numbers_in(layout)
        if np.all(count[used] == 1):  # most regions are one run, and mostly there is one layout
            run = pointers[used if len(used) == 1 else layout]
        else:
            which, run = expand(pointers[layout], count[layout])
            first, low, high = first[which], low[which], high[which]
        begin = deltas[run]
        return Intervals(first, (low + begin) * size, (high + (begin + lengths[run])) * size)

    def tables(self) -> Iterator[tuple[FrozenComputeSet, FrozenTable]]:
        return (
            (compute_set, table)
            for compute_set in self.compute_sets
            for table in compute_set.tables
        )

    def variable_at(self, byte: int) -> Variable:
        """The variable that holds a byte address."""
        return self.variables[bisect_right(self._starts, byte) - 1]

    def element(self, byte: int) -> str:
        """A byte address in words: element number and variable."""
        variable = self.variable_at(byte)
        number = (byte - variable.start) // variable.dtype.size
        index = ", ".join(str(i) for i in np.unravel_index(number, variable.shape or (1,)))
        return f"element [{index}] of {variable.name!r}"
