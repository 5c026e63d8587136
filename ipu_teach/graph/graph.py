"""The graph: variables with their tiles, compute sets with their vertices, and streams to the host.

Building a graph runs nothing. It writes down what there is and where; `Engine` checks it, costs it and runs it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.device import Device
from ipu_teach.errors import (
    GraphConnectionError,
    GraphObjectCreationError,
    InvalidTileMappingError,
    TensorCreationError,
)
from ipu_teach.graph.table import UNCONNECTED, FieldRef, ListLayout, VertexRange, VertexRef, VertexTable
from ipu_teach.graph.tensor import Layout, Shape, Tensor
from ipu_teach.graph.tile_map import UNMAPPED, TileMap, paint
from ipu_teach.graph.vertex import Vertex, unknown_field
from ipu_teach.target import Target
from ipu_teach.types import Array, DType, as_dtype, to_host_array

ALIGNMENT = 64  # bytes; a variable starts on a cache line, so that every dtype is aligned in it
Placement = int | Sequence[Sequence[tuple[int, int]]]
HasHandle = TypeVar("HasHandle", bound="DataStream | HostAccess")


@dataclass(frozen=True)
class Variable:
    """A named piece of memory: `start` and `stop` are byte addresses in the graph's one flat memory."""

    id: int
    name: str
    dtype: type[DType]
    shape: Shape
    start: int
    stop: int
    constant: bool


@dataclass(frozen=True, eq=False)
class DataStream:
    """A channel between host and device of `num_elements` elements a transfer. Connect it with `Engine.connect_stream`."""

    handle: str
    dtype: type[DType]
    num_elements: int
    to_device: bool

    def __repr__(self) -> str:
        way = "host to device" if self.to_device else "device to host"
        return f"DataStream({self.handle!r}, {way}, {self.num_elements:,} {self.dtype.__name__})"


@dataclass(frozen=True, eq=False)
class HostAccess:
    """A tensor that the host reads or writes whole, outside any program, under `handle`."""

    handle: str
    tensor: Tensor
    write: bool


class ComputeSet:
    """Vertices that run at the same time, in one superstep. Execute it in a program."""

    def __init__(self, graph: Graph, number: int, name: str) -> None:
        self.graph = graph
        self.id = number
        self.name = name
        self.tables: dict[type[Vertex], VertexTable] = {}
        self.num_vertices = 0

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(t):,} {c.__name__}" for c, t in self.tables.items())
        return f"ComputeSet({self.name!r}, {counts or 'no vertices'})"


class Graph:
    """What a learner builds: variables, compute sets, vertices and streams, for one target.

    `target`: a `Target`, or a `Device` whose target is taken.
    """

    def __init__(self, target: Target | Device) -> None:
        if isinstance(target, Device):
            target = target.target
        if not isinstance(target, Target):
            raise GraphObjectCreationError(
                f"Graph() was given {target!r}.",
                next_step='give it a target, as in Graph(IPUModel("ipu2").create_device().target).',
            )
        self.target = target
        self._num_tiles = target.num_tiles
        self.variables: list[Variable] = []
        self.compute_sets: list[ComputeSet] = []
        self.streams: dict[str, DataStream] = {}
        self.host_accesses: dict[str, HostAccess] = {}
        self.initial_values: list[tuple[Tensor, Array]] = []
        self.memory_bytes = 0
        self.layouts: list[Layout | ListLayout] = []
        # The mapping log: byte start, byte stop, tile; a later entry overrides an earlier one.
        self.mapping_log = array("q")
        self._interned: dict[Any, Any] = {}
        self._starts: list[int] = []
        self._tile_map: tuple[tuple[int, int], TileMap] | None = None

    # Variables

    def add_variable(self, dtype: type[DType], shape: int | Sequence[int], name: str | None = None) -> Tensor:
        """A new variable, unwritten and on no tile yet. `shape` in elements. Raises `TensorCreationError`."""
        return self._allocate(dtype, shape, name, constant=False)

    def add_constant(
        self, dtype: type[DType], shape: int | Sequence[int], values: ArrayLike, name: str | None = None
    ) -> Tensor:
        """A read-only variable holding `values`: one number for all elements, or an array of `shape`."""
        tensor = self._allocate(dtype, shape, name, constant=True)
        self._initialise(tensor, values)
        return tensor

    def set_initial_value(self, what: Tensor | FieldRef, values: ArrayLike) -> None:
        """What a variable, or a vertex's state field, holds when the engine is loaded: one number, or an array."""
        if isinstance(what, Tensor):
            self._own(what)
            self._initialise(what, values)
            return
        table, row, name = self._field(what)
        if name not in table.state:
            raise GraphConnectionError(
                f"{table.codelet.__name__}.{name} is an edge and has no value of its own.",
                where=repr(what),
                next_step="set the initial value of the tensor that is connected to it.",
            )
        value = to_host_array(values, table.state[name].dtype, f"The initial value of {name!r}")
        if value.size != 1:
            raise GraphObjectCreationError(f"The state {name!r} is one number and was given {value.size}.", where=repr(what))
        table.state_values[name][row] = value.reshape(())[()]

    def _allocate(self, dtype: type[DType], shape: int | Sequence[int], name: str | None, constant: bool) -> Tensor:
        kind = "constant" if constant else "variable"
        label = name if name is not None else f"{kind}{len(self.variables)}"
        dtype = as_dtype(dtype, f"The {kind} {label!r}")
        given = (shape,) if isinstance(shape, (int, np.integer)) else shape
        if not isinstance(given, Iterable) or not all(
            isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 0 for n in given
        ):
            raise TensorCreationError(
                f"The {kind} {label!r} was given the shape {shape!r}.",
                next_step="a shape is a tuple of whole numbers, none negative, as in (26, 64).",
            )
        dims = tuple(int(n) for n in given)
        start = self.memory_bytes
        stop = start + prod(dims) * dtype.size
        self.memory_bytes = -(-stop // ALIGNMENT) * ALIGNMENT
        self.variables.append(Variable(len(self.variables), str(label), dtype, dims, start, stop, constant))
        self._starts.append(start)
        strides, step = [], 1
        for n in reversed(dims):
            strides.append(step)
            step *= n
        return Tensor(self, dtype, start // dtype.size, self.strided(dims, tuple(reversed(strides))))

    def _initialise(self, tensor: Tensor, values: ArrayLike) -> None:
        array = to_host_array(values, tensor.dtype, f"The initial value of {self.describe(tensor)}")
        if array.size != 1 and array.size != tensor.num_elements:
            raise TensorCreationError(
                f"{self.describe(tensor)} has {tensor.num_elements} elements and was given {array.size} values.",
                next_step="give one number for all of them, or one for each.",
            )
        shaped = np.broadcast_to(array.reshape(()), tensor.shape) if array.size == 1 else array.reshape(tensor.shape)
        self.initial_values.append((tensor, shaped.copy()))

    # Tiles

    def set_tile_mapping(self, what: Tensor | VertexRef | VertexRange, tile: Placement) -> None:
        """Put a tensor's elements, or a vertex, on a tile. A later call overrides an earlier one.

        `tile` is a tile number; for a tensor also a list with, for each tile, its (begin, end) intervals in the tensor's
        own element order. Raises `InvalidTileMappingError` for a tile that does not exist.
        """
        if isinstance(what, VertexRef):
            what.table.tiles[what.row] = self._tile(tile, what)
        elif isinstance(what, VertexRange):
            self._map_range(what, tile)
        elif isinstance(what, Tensor):
            self._own(what)
            if isinstance(tile, (int, np.integer)):
                self._log_mapping(what, self._tile(tile, what))
            else:
                self._map_intervals(what, tile)
        else:
            raise GraphObjectCreationError(
                f"set_tile_mapping() was given {what!r}.", next_step="map a tensor or a vertex of this graph."
            )

    def get_tile_mapping(self, tensor: Tensor, require_complete: bool = True) -> list[list[tuple[int, int]]]:
        """For each tile the (begin, end) intervals of `tensor`, in its own element order, that lie there.

        Raises `InvalidTileMappingError` if `require_complete` and some element lies on no tile.
        """
        self._own(tensor)
        size = tensor.dtype.size
        starts, lengths = tensor.layout.runs
        first = np.cumsum(lengths) - lengths
        begin = (tensor.offset + starts) * size
        run, low, high, tile = self.tile_map().split(begin, begin + lengths * size)
        view = first[run] + (low - begin[run]) // size
        count = (high - low) // size
        if require_complete and np.any(tile == UNMAPPED):
            missing = int(count[tile == UNMAPPED].sum())
            raise InvalidTileMappingError(
                f"{missing} of the {tensor.num_elements} elements of {self.describe(tensor)} are on no tile.",
                next_step="graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).",
            )
        mapping: list[list[tuple[int, int]]] = [[] for _ in range(self.target.num_tiles)]
        for t, a, n in zip(tile.tolist(), view.tolist(), count.tolist(), strict=True):
            if t == UNMAPPED:
                continue
            intervals = mapping[t]
            if intervals and intervals[-1][1] == a:
                intervals[-1] = (intervals[-1][0], a + n)
            else:
                intervals.append((a, a + n))
        return mapping

    def tile_map(self) -> TileMap:
        """The mapping calls so far as one table; made anew only when there are new ones."""
        state = (len(self.mapping_log), self.memory_bytes)
        if self._tile_map is None or self._tile_map[0] != state:
            self._tile_map = (state, paint(np.array(self.mapping_log, np.int64).reshape(-1, 3), self.memory_bytes))
        return self._tile_map[1]

    def _map_range(self, vertices: VertexRange, tiles: Any) -> None:
        given = np.broadcast_to(np.asarray(tiles), (len(vertices),))
        self._check_tiles(given, repr(vertices))
        vertices.table.tiles[vertices.start : vertices.stop] = array("i", given.astype(np.int32).tobytes())

    def _map_intervals(self, tensor: Tensor, mapping: Any) -> None:
        if not isinstance(mapping, Sequence) or len(mapping) > self.target.num_tiles:
            raise InvalidTileMappingError(
                f"{self.describe(tensor)} was given a mapping that is no list of at most {self.target.num_tiles} tiles.",
                next_step="give a tile number, or a list of (begin, end) intervals for each tile.",
            )
        flat = tensor.flatten()
        for tile, intervals in enumerate(mapping):
            for begin, end in intervals:
                self._log_mapping(flat.slice(begin, end), tile)

    def _log_mapping(self, tensor: Tensor, tile: int) -> None:
        size, layout = tensor.dtype.size, tensor.layout
        if layout.contiguous:
            if layout.size:
                start = tensor.offset * size
                self.mapping_log.extend((start, start + layout.size * size, tile))
            return
        starts, lengths = layout.extent
        begin = (tensor.offset + starts) * size
        rows = np.stack((begin, begin + lengths * size, np.full_like(begin, tile)), axis=1)
        self.mapping_log.frombytes(rows.astype(np.int64).tobytes())

    def _tile(self, tile: Any, what: Any) -> int:
        if type(tile) is int and 0 <= tile < self._num_tiles:
            return tile
        if not isinstance(tile, np.integer) or not 0 <= tile < self._num_tiles:
            raise InvalidTileMappingError(
                f"Tile {tile!r} does not exist: the target has tiles 0 to {self._num_tiles - 1}.",
                where=self.describe(what) if isinstance(what, Tensor) else str(what),
            )
        return int(tile)

    def _check_tiles(self, tiles: Array, what: str) -> None:
        if tiles.dtype.kind not in "iu":
            raise InvalidTileMappingError(f"Tiles are whole numbers, not {tiles.dtype}.", where=what)
        bad = np.flatnonzero((tiles < 0) | (tiles >= self.target.num_tiles))
        if bad.size:
            self._tile(int(tiles[bad[0]]), f"{what}, number {bad[0]}")

    # Vertices

    def add_compute_set(self, name: str | None = None) -> ComputeSet:
        """A new, empty compute set."""
        number = len(self.compute_sets)
        compute_set = ComputeSet(self, number, name if name is not None else f"compute_set{number}")
        self.compute_sets.append(compute_set)
        return compute_set

    def add_vertex(
        self, compute_set: ComputeSet, codelet: type[Vertex], /, connections: Mapping[str, Any] | None = None, **fields: Any
    ) -> VertexRef:
        """One vertex of class `codelet`. Edges are given by field name, as keywords or in `connections`.

        An edge takes a tensor (for `Vector[Vector[T]]` also a list of vectors), state takes its initial value. A field may
        be connected later with `connect`. Raises `UnknownFieldError`, `PoplarTypeError`, `GraphConnectionError`.
        """
        table = self._table(compute_set, codelet)
        given = {**connections, **fields} if connections else fields
        row = len(table)
        for name in table.edges:
            value = given.get(name)
            if value is None:
                table.offsets[name].append(UNCONNECTED)
                table.layouts[name].append(UNCONNECTED)
                continue
            try:
                table.connect(row, name, value)
            except Exception:
                self._drop_row(table, row)
                raise
        for name, field in table.state.items():
            value = given.get(name, field.default)
            if value is not None:
                try:
                    value = to_host_array(value, field.dtype, f"The state {name!r}").reshape(())[()]
                except Exception:
                    self._drop_row(table, row)
                    raise
            table.state_values[name].append(value)
        if len(given) > len(table.edges) or not given.keys() <= codelet.fields.keys():
            unknown = [n for n in given if n not in codelet.fields]
            if unknown:
                self._drop_row(table, row)
                raise unknown_field(codelet, unknown[0])
        table.order.append(compute_set.num_vertices)
        table.tiles.append(-1)
        compute_set.num_vertices += 1
        return VertexRef(table, row)

    @staticmethod
    def _drop_row(table: VertexTable, row: int) -> None:
        """Undo a half-added vertex, so that a caught error leaves the graph as it was."""
        for column in (*table.offsets.values(), *table.layouts.values(), *table.state_values.values()):
            del column[row:]

    def add_vertices(self, compute_set: ComputeSet, codelet: type[Vertex], tiles: ArrayLike, /, **fields: Any) -> VertexRange:
        """Many vertices of one class at once; the graph is the same as if they had been added one by one.

        `tiles`: one tile number, or an array with one for each vertex. Each tensor's leading axis is the vertex axis, of
        length 1 to share one region among all. State takes one number or an array.
        """
        from ipu_teach.graph.bulk import add_rows

        return add_rows(self, self._table(compute_set, codelet), tiles, fields)

    def connect(self, field: FieldRef, value: Tensor | Sequence[Tensor]) -> None:
        """Connect one field of a vertex that was added without it."""
        table, row, name = self._field(field)
        if name in table.state:
            self.set_initial_value(field, value)  # type: ignore[arg-type]
        else:
            table.connect(row, name, value)

    def set_perf_estimate(self, vertex: VertexRef | VertexRange, cycles: Any) -> None:
        """Modelled cycles of a vertex: worker cycles, or tile cycles for a SupervisorVertex. Overrides every other model."""
        whole = type(cycles) is int or np.asarray(cycles).dtype.kind in "iu"
        if not whole or (cycles < 0 if type(cycles) is int else np.any(np.asarray(cycles) < 0)):
            raise GraphObjectCreationError(
                f"set_perf_estimate() was given {cycles!r}.", where=repr(vertex), next_step="give whole cycles, 0 or more."
            )
        if isinstance(vertex, VertexRef):
            vertex.table.estimate(vertex.row, vertex.row + 1, cycles)
        else:
            vertex.table.estimate(vertex.start, vertex.stop, cycles)

    def _table(self, compute_set: ComputeSet, codelet: type[Vertex]) -> VertexTable:
        try:
            table = compute_set.tables.get(codelet)
            if table is not None and compute_set.graph is self:
                return table
        except (AttributeError, TypeError):
            pass
        if not isinstance(compute_set, ComputeSet) or compute_set.graph is not self:
            raise GraphObjectCreationError(
                f"add_vertex() was given {compute_set!r}, which is no compute set of this graph.",
                next_step="make one with graph.add_compute_set(name).",
            )
        if not isinstance(codelet, type) or not issubclass(codelet, Vertex):
            raise GraphObjectCreationError(
                f"add_vertex() was given {codelet!r}, which is no vertex class.",
                next_step="write a class that derives from Vertex, and pass the class.",
            )
        return compute_set.tables.setdefault(codelet, VertexTable(self, compute_set, codelet))

    def _field(self, ref: FieldRef) -> tuple[VertexTable, int, str]:
        if not isinstance(ref, FieldRef) or ref.vertex.table.graph is not self:
            raise GraphObjectCreationError(f"{ref!r} is no field of a vertex of this graph.", next_step='write vertex["name"].')
        table = ref.vertex.table
        if ref.name not in table.codelet.fields:
            raise unknown_field(table.codelet, ref.name)
        return table, ref.vertex.row, ref.name

    # Host

    def add_host_to_device_fifo(self, handle: str, dtype: type[DType], num_elements: int) -> DataStream:
        """A stream into the device; each Copy from it takes `num_elements` elements."""
        return self._stream(handle, dtype, num_elements, to_device=True)

    def add_device_to_host_fifo(self, handle: str, dtype: type[DType], num_elements: int) -> DataStream:
        """A stream out of the device; each Copy into it hands over `num_elements` elements."""
        return self._stream(handle, dtype, num_elements, to_device=False)

    def create_host_write(self, handle: str, tensor: Tensor) -> None:
        """Let the host write `tensor` under `handle`, by `Engine.write_tensor`."""
        self._access(handle, tensor, write=True)

    def create_host_read(self, handle: str, tensor: Tensor) -> None:
        """Let the host read `tensor` under `handle`, by `Engine.read_tensor`."""
        self._access(handle, tensor, write=False)

    def _access(self, handle: str, tensor: Tensor, write: bool) -> None:
        self._own(tensor)
        self._register(self.host_accesses, HostAccess(handle, tensor, write))

    def _stream(self, handle: str, dtype: type[DType], num_elements: int, to_device: bool) -> DataStream:
        dtype = as_dtype(dtype, f"The stream {handle!r}")
        if not isinstance(num_elements, (int, np.integer)) or isinstance(num_elements, bool) or num_elements < 1:
            raise GraphObjectCreationError(
                f"The stream {handle!r} was given {num_elements!r} elements.", next_step="give a whole number, 1 or more."
            )
        return self._register(self.streams, DataStream(handle, dtype, int(num_elements), to_device))

    @staticmethod
    def _register(known: dict[str, HasHandle], item: HasHandle) -> HasHandle:
        if item.handle in known:
            raise GraphObjectCreationError(
                f"There is already a handle {item.handle!r}: {known[item.handle]!r}.", next_step="choose another name."
            )
        known[item.handle] = item
        return item

    # Layouts and names

    def strided(self, shape: Shape, strides: Shape) -> Layout:
        """The interned layout of that shape and those strides (elements)."""
        key = (shape, strides)
        layout: Layout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = Layout(len(self.layouts), shape, strides, None)
            self.layouts.append(layout)
        return layout

    def listed(self, dtype: type[DType], positions: Array) -> Tensor:
        """A tensor over explicit element positions, in the shape of `positions` (int64)."""
        offset = int(positions.flat[0]) if positions.size else 0
        relative = np.ascontiguousarray(positions - offset)
        key = (relative.shape, relative.tobytes())
        layout: Layout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = Layout(len(self.layouts), relative.shape, None, relative)
            self.layouts.append(layout)
        return Tensor(self, dtype, offset, layout)

    def list_layout(self, parts: tuple[tuple[int, Layout], ...]) -> ListLayout:
        """The interned compound layout of several regions on one field."""
        key = tuple((delta, layout.id) for delta, layout in parts)
        layout: ListLayout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = ListLayout(len(self.layouts), parts)
            self.layouts.append(layout)
        return layout

    def variable_at(self, byte: int) -> Variable:
        """The variable that holds a byte address."""
        return self.variables[bisect_right(self._starts, byte) - 1]

    def describe(self, tensor: Tensor) -> str:
        """The tensor in words for an error: its variable, and what part of it."""
        if not self.variables:
            return "tensor"
        if tensor.num_elements == 0:
            return "empty tensor"
        starts, lengths = tensor.layout.extent
        size = tensor.dtype.size
        first = self.variable_at((tensor.offset + int(starts[0])) * size)
        last = self.variable_at((tensor.offset + int(starts[-1] + lengths[-1]) - 1) * size)
        if first is not last:
            return f"a view of {first.name!r} and others"
        whole = tensor.num_elements == prod(first.shape)
        return f"{first.name!r}" if whole else f"a view of {first.name!r}"

    def _own(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor) or tensor.graph is not self:
            raise GraphObjectCreationError(f"{tensor!r} is no tensor of this graph.")

    def __repr__(self) -> str:
        vertices = sum(cs.num_vertices for cs in self.compute_sets)
        return f"Graph({len(self.variables)} variables, {len(self.compute_sets)} compute sets, {vertices:,} vertices)"
