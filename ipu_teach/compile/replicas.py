"""A replicated graph made into the graph of the whole machine, and its programs into programs of
that.

Every vertex of a replica is there R times, a tensor of shape s is one of shape (R, *s), and a copy
between two of them is one copy. So a replicated program has as many steps as that of one replica,
and what comes after this module need not know. Memory is that of the replicas one after the other,
then what the top-level graph has besides.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.graph import ComputeSet, DataStream, Graph, Tensor
from ipu_teach.graph.compute_set import Function
from ipu_teach.graph.host_handles import HostAccess
from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.replicas import APART, whole_tensor
from ipu_teach.graph.source import RowLines
from ipu_teach.graph.tensor import concat
from ipu_teach.graph.tile_map import UNMAPPED
from ipu_teach.graph.variable_table import Variable, of_replica
from ipu_teach.graph.vertex_table import VertexTable
from ipu_teach.program import CrossReplicaCopy, Program
from ipu_teach.types import UNSIGNED_INT, Array


class Whole:
    """`graph`: that of the whole machine, where `top` is the top-level graph and `part` that of
    each replica. `seen` gives what stands in it for something of these two."""

    def __init__(self, top: Graph, part: Graph) -> None:
        self.top, self.part, self.count = top, part, part.get_replication_factor()
        self.graph = graph = Graph(top.target)
        graph.replicas, graph.codelets = self.count, top.codelets
        self._step = part.memory_bytes  # from one replica's memory to the next
        self._layouts: dict[tuple[int, int], Layout | ListLayout] = {}
        # by id: what was asked for, which is kept so that nothing else takes its id, and the answer
        self._made: dict[int, tuple[Any, Any]] = {}
        for r in range(self.count):
            for v in part.variables:
                self._take(replace(v, name=of_replica(v.name, r, self.count)), r * self._step)
        for v in top.variables:
            self._take(v, self.count * (self._step - APART))
        pieces = top.tile_map().pieces()
        mapped = pieces.tile != UNMAPPED
        start, stop = self._moved(pieces.start[mapped]), self._moved(pieces.stop[mapped])
        graph._mapping.extend(start, stop, pieces.tile[mapped])
        for tensor, values in (*part.initial_values, *top.initial_values):
            found = self.seen(tensor)
            graph.initial_values.append((found, np.broadcast_to(values, found.shape)))
        for compute_set in (*part.compute_sets, *top.compute_sets):
            self.seen(compute_set)
        graph.streams.update(self.seen(top.streams))
        graph.host_accesses.update(self.seen(top.host_accesses))
        graph.remote_buffers.update(top.remote_buffers)

    def seen(self, given: Any) -> Any:
        """What stands for a tensor, a program, or a part of one: each time the same. What is of
        another graph stays as it is."""
        match given:
            case list():
                return [self.seen(item) for item in given]
            case dict():
                return {key: self.seen(item) for key, item in given.items()}
            case Tensor() | ComputeSet() | Function() | DataStream() | HostAccess() | Program():
                if id(given) not in self._made:
                    self._made[id(given)] = given, given
                    self._made[id(given)] = given, self._new(given)
                return self._made[id(given)][1]
        return given

    def _new(self, given: Any) -> Any:
        match given:
            case HostAccess():
                return replace(given, tensor=self.seen(given.tensor))
            case DataStream():
                return replace(given, num_elements=given.num_elements * given.replicas)
            case Program():
                made = copy(given)
                self._made[id(given)] = given, made  # a program may contain itself
                vars(made).update(self.seen(vars(given)))
                if isinstance(made, CrossReplicaCopy) and len(made.sources) > 1:
                    made.source = concat([made.source[i : i + 1] for i in made.sources])
                return made
        if given.graph is not self.part and given.graph is not self.top:
            return given
        if isinstance(given, Function):
            return replace(given, graph=self.graph)
        return self._tensor(given) if isinstance(given, Tensor) else self._compute_set(given)

    def _take(self, variable: Variable, shift: int) -> None:
        start, stop = variable.start + shift, variable.stop + shift
        number = len(self.graph.variables)
        self.graph._variables.add(replace(variable, id=number, start=start, stop=stop))

    # Places in the top-level graph, whose images come to lie side by side

    def _moved(self, place: Any, size: int = 1, distance: bool = False) -> Any:
        """Where elements of `size` bytes come to lie; or their distances."""
        apart = APART // size
        image = (place + apart // 2 if distance else place) // apart
        return place + image * (self._step // size - apart)

    def _tensor(self, tensor: Tensor) -> Tensor:
        if tensor.graph is self.part:
            return whole_tensor(tensor, self.graph, self.count, self._step)
        layout = self._layout(tensor.layout, tensor.dtype.size)
        assert isinstance(layout, Layout)
        offset = self._moved(tensor.offset, tensor.dtype.size)
        return Tensor.of(self.graph, tensor.dtype, offset, layout)

    def _layout(self, layout: Layout | ListLayout, size: int) -> Layout | ListLayout:
        """A layout of elements of `size` bytes in the top-level graph; of one replica, with size
        0."""
        key = layout.id, size
        if key not in self._layouts:
            self._layouts[key] = self._new_layout(layout, size)
        return self._layouts[key]

    def _new_layout(self, layout: Layout | ListLayout, size: int) -> Layout | ListLayout:
        def moved(distance: Any) -> Any:
            return self._moved(distance, size, True) if size else distance

        if isinstance(layout, ListLayout):
            parts = tuple((moved(d), self._layout(part, size)) for d, part in layout.parts)
            return self.graph.list_layout(parts)  # type: ignore[arg-type]
        if layout.strides is not None:
            return self.graph.strided(layout.shape, tuple(map(moved, layout.strides)))
        return self.graph.listed(UNSIGNED_INT, moved(layout.positions)).layout

    # Vertices

    def _compute_set(self, given: ComputeSet) -> ComputeSet:
        made = self.graph.add_compute_set(given.name)
        made.replicas = given.graph.get_replication_factor()
        made.num_vertices = given.num_vertices * made.replicas
        for codelet, table in given.tables.items():
            made.tables[codelet] = self._table(table, made)
        return made

    def _table(self, table: VertexTable, compute_set: ComputeSet) -> VertexTable:
        made, rows = VertexTable(self.graph, compute_set, table.codelet), len(table)
        count, part = compute_set.replicas, table.graph is self.part
        replica = np.arange(count)[:, None]
        for name, field in table.edges.items():
            size = field.dtype.size
            offsets = np.array(table.offsets[name], np.int64)
            ids, which = np.unique(np.array(table.layouts[name], np.int32), return_inverse=True)
            numbers = [
                i if i < 0 else self._layout(table.graph.layouts[i], 0 if part else size).id
                for i in ids.tolist()
            ]
            moved = offsets + replica * (self._step // size) if part else self._moved(offsets, size)
            made.offsets[name].frombytes(_bytes(np.where(offsets < 0, offsets, moved), np.int64))
            layouts = np.array(numbers, np.int32)[which.reshape(-1)]
            made.layouts[name].frombytes(_bytes(np.tile(layouts, count), np.int32))
        for name, values in table.state_values.items():
            made.state_values[name] = values * count
        each = [k * rows for k in range(count)]
        made.sizes = {(n, row + k): size for (n, row), size in table.sizes.items() for k in each}
        order, tiles = (np.array(column, np.int64) for column in (table.order, table.tiles))
        order = order + replica * table.compute_set.num_vertices
        tiles = np.where(tiles < 0, tiles, tiles + replica * table.graph.target.num_tiles)
        made.order.frombytes(_bytes(order, np.int32))
        made.tiles.frombytes(_bytes(tiles, np.int32))
        if table.estimates is not None:
            missing = rows - len(table.estimates)
            made.estimates = (table.estimates + type(table.estimates)("q", [-1] * missing)) * count
        made.added, made.placed = (_lines(of, rows, each) for of in (table.added, table.placed))
        return made


def _bytes(values: Array, dtype: Any) -> bytes:
    return values.astype(dtype).tobytes()


def _lines(lines: RowLines, rows: int, each: list[int]) -> RowLines:
    """The lines of rows that are there again from each of these rows on."""
    made = RowLines()
    made.before = [
        (start + k, min(stop, rows) + k, line)
        for k in each
        for start, stop, line in reversed(lines.spans())
    ]
    return made
