"""The graph: variables with their tiles, compute sets with their vertices, and streams to the host.

Building a graph runs nothing. It writes down what there is and where; `Engine` checks it, costs it and runs it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Mapping, Sequence
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
    counted,
    shown,
)
from ipu_teach.graph.codelets import Codelets, Estimator, get_perf_estimate
from ipu_teach.graph.mapping import intervals_by_tile, intervals_given, tile_number, tile_numbers
from ipu_teach.graph.sizes import connect_part, get_field_size, set_field_size
from ipu_teach.graph.stream import DataStream as DataStream
from ipu_teach.graph.stream import ReplicatedStreamMode, make_stream
from ipu_teach.graph.table import UNCONNECTED, FieldRef, ListLayout, VertexRange, VertexRef, VertexTable
from ipu_teach.graph.templates import refuse_template
from ipu_teach.graph.tensor import MOST_DIMENSIONS, Layout, Shape, Tensor, as_shape, dense
from ipu_teach.graph.tile_map import TileMap, paint
from ipu_teach.graph.vertex import Vertex, no_compute, unknown_field
from ipu_teach.target import Target
from ipu_teach.types import Array, DType, as_dtype, to_host_array

ALIGNMENT = 64  # bytes; a variable starts on a cache line, so that every dtype is aligned in it
MOST_BYTES = 2**48  # of one graph: more than any machine has, and small enough that no address overflows
Placement = int | Sequence[Sequence[tuple[int, int]]]
HasHandle = TypeVar("HasHandle", bound="DataStream | HostAccess")


@dataclass(frozen=True)
class Variable:
    """A named piece of memory: `start` and `stop` are byte addresses in the graph's one flat memory.

    `state` marks the hidden memory of a codelet's state fields, which lies where its vertices do.
    """

    id: int
    name: str
    dtype: type[DType]
    shape: Shape
    start: int
    stop: int
    constant: bool
    state: bool = False


@dataclass(frozen=True, eq=False)
class HostAccess:
    """A tensor that the host reads or writes whole, outside any program, under `handle`."""

    handle: str
    tensor: Tensor
    write: bool

    def __repr__(self) -> str:
        return f"the handle by which the host {'writes' if self.write else 'reads'} {self.tensor!r}"


@dataclass(frozen=True, eq=False)
class Function:
    """A program that may be called from several places. Made by `Graph.add_function`, run by `Call`."""

    graph: Graph
    name: str
    program: Any

    def __repr__(self) -> str:
        return f"Function({self.name!r})"


class ComputeSet:
    """Vertices that run at the same time, in one superstep. Execute it in a program."""

    def __init__(self, graph: Graph, number: int, name: str) -> None:
        self.graph = graph
        self.id = number
        self.name = name
        self.tables: dict[type[Vertex], VertexTable] = {}
        self.num_vertices = 0

    def __repr__(self) -> str:
        counts = ", ".join(f"{len(t):,} {c.__name__}" for c, t in self.tables.items() if len(t))
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
                f"Graph() was given {shown(target)}, which is no target.",
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
        self._constants: list[Variable] = []
        self._num_functions = 0
        self._tile_map: tuple[tuple[int, int], TileMap] | None = None
        self.codelets = Codelets()

    # Variables

    def add_variable(self, dtype: type[DType], shape: int | Sequence[int], name: str | None = None) -> Tensor:
        """A new variable, unwritten and on no tile yet. `shape` in elements. Raises `TensorCreationError`."""
        return self._allocate(self._checked(dtype, shape, name, constant=False))

    def add_constant(
        self, dtype: type[DType], shape: int | Sequence[int], values: ArrayLike, name: str | None = None
    ) -> Tensor:
        """A read-only variable holding `values`: one number for all elements, or an array of `shape`."""
        variable = self._checked(dtype, shape, name, constant=True)
        array = _values(values, variable.dtype, variable.shape, f"The constant {variable.name!r}")
        tensor = self._allocate(variable)
        self.initial_values.append((tensor, array))
        return tensor

    def set_initial_value(self, what: Tensor | FieldRef, values: ArrayLike) -> None:
        """What a variable, or a vertex's state field, holds when the engine is loaded: one number, or an array."""
        if isinstance(what, Tensor):
            self._own(what)
            self._refuse_constant(what, "set_initial_value()")
            self.initial_values.append((what, _values(values, what.dtype, what.shape, self.describe(what))))
            return
        if not isinstance(what, FieldRef):
            raise GraphObjectCreationError(
                f"set_initial_value() was given {shown(what)}.",
                next_step='give a tensor, or the state of a vertex: vertex["name"].',
            )
        table, row, name = self._field(what, whole=True)
        if name not in table.state:
            raise GraphConnectionError(
                f"{table.codelet.__name__}.{name} is an edge and has no value of its own.",
                where=repr(what),
                next_step="set the initial value of the tensor that is connected to it.",
            )
        table.set_state(row, name, values)

    def _checked(self, dtype: type[DType], shape: int | Sequence[int], name: str | None, constant: bool) -> Variable:
        """The description of a new variable, at the next free address; the graph is not changed yet."""
        kind = "constant" if constant else "variable"
        _check_name(name, f"add_{kind}()")
        label = name if name is not None else f"{kind}{len(self.variables)}"
        dtype = as_dtype(dtype, f"The {kind} {label!r}")
        dims = as_shape(shape)
        if dims is None:
            raise TensorCreationError(
                f"The {kind} {label!r} was given the shape {shown(shape)}.",
                next_step=f"a shape is a tuple of at most {MOST_DIMENSIONS} whole numbers, none negative, as in (26, 64).",
            )
        start = self.memory_bytes
        stop = start + prod(dims) * dtype.size
        if start + prod(max(n, 1) for n in dims) * dtype.size > MOST_BYTES:
            raise TensorCreationError(
                f"The {kind} {label!r} of shape {shown(dims)} is too large.",
                where=f"all tiles of the target together hold {self._num_tiles * self.target.bytes_per_tile:,} bytes; "
                f"a graph may describe {MOST_BYTES:,}",
                next_step="check the shape: its numbers are lengths, in elements.",
            )
        return Variable(len(self.variables), label, dtype, dims, start, stop, constant)

    def _allocate(self, variable: Variable) -> Tensor:
        self.memory_bytes = -(-variable.stop // ALIGNMENT) * ALIGNMENT
        self.variables.append(variable)
        self._starts.append(variable.start)
        if variable.constant:
            self._constants.append(variable)
        layout = self.strided(variable.shape, dense(variable.shape))
        return Tensor(self, variable.dtype, variable.start // variable.dtype.size, layout)

    def _refuse_constant(self, tensor: Tensor, call: str) -> None:
        """Nobody may write to a constant once it is made."""
        if tensor.num_elements and self._constants:
            starts, lengths = tensor.layout.extent
            size = tensor.dtype.size
            low, high = (tensor.offset + starts) * size, (tensor.offset + starts + lengths) * size
            for v in self._constants:
                if np.any((low < v.stop) & (high > v.start)):
                    raise GraphObjectCreationError(
                        f"{call} would write to the constant {v.name!r}.",
                        where=repr(tensor),
                        next_step="make it with graph.add_variable, or give its values in graph.add_constant.",
                    )

    # Tiles

    def set_tile_mapping(self, what: Tensor | VertexRef | VertexRange, tile: Placement) -> None:
        """Put a tensor's elements, or a vertex, on a tile. A later call overrides an earlier one.

        `tile` is a tile number; for a tensor also a list with, for each tile, its (begin, end) intervals in the tensor's
        own element order. Raises `InvalidTileMappingError` for a tile that does not exist.
        """
        if isinstance(what, VertexRef):
            if what.table.graph is not self:
                raise self._foreign(what, "set_tile_mapping()")
            what.table.tiles[what.row] = tile_number(tile, self._num_tiles, what)
        elif isinstance(what, VertexRange):
            self._map_range(what, tile)
        elif isinstance(what, Tensor):
            self._own(what)
            if isinstance(tile, (int, float, np.number)):
                self._log_mapping(what, tile_number(tile, self._num_tiles, what))
                return
            pieces = intervals_given(tile, what, self._num_tiles)  # all of them are right before the first is noted down
            flat = what.flatten()
            for number, begin, end in pieces:
                self._log_mapping(flat[begin:end], number)
        else:
            raise GraphObjectCreationError(
                f"set_tile_mapping() was given {shown(what)}.", next_step="map a tensor or a vertex of this graph."
            )

    def get_tile_mapping(self, tensor: Tensor, require_complete: bool = True) -> list[list[tuple[int, int]]]:
        """For each tile the (begin, end) intervals of `tensor`, in its own element order, that lie there.

        Raises `InvalidTileMappingError` if `require_complete` and some element lies on no tile.
        """
        self._own(tensor)
        found, missing = intervals_by_tile(self.tile_map(), tensor, self._num_tiles)
        if require_complete and missing:
            raise InvalidTileMappingError(
                f"{missing:,} of the {tensor.num_elements:,} elements of {self.describe(tensor)} are on no tile."
                if missing < tensor.num_elements
                else f"{self.describe(tensor)} is on no tile.",
                next_step="graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).",
            )
        return found

    def tile_map(self) -> TileMap:
        """The mapping calls so far as one table; made anew only when there are new ones."""
        state = (len(self.mapping_log), self.memory_bytes)
        if self._tile_map is None or self._tile_map[0] != state:
            self._tile_map = (state, paint(np.array(self.mapping_log, np.int64).reshape(-1, 3), self.memory_bytes))
        return self._tile_map[1]

    def _map_range(self, vertices: VertexRange, tiles: Any) -> None:
        if vertices.table.graph is not self:
            raise self._foreign(vertices, "set_tile_mapping()")
        numbers = tile_numbers(tiles, self._num_tiles, repr(vertices))
        if numbers.shape not in ((), (1,), (len(vertices),)):
            raise InvalidTileMappingError(
                f"{numbers.size:,} tiles were given for {len(vertices):,} vertices.",
                where=repr(vertices),
                next_step="give one tile for all of them, or one for each.",
            )
        given = np.broadcast_to(numbers, (len(vertices),))
        vertices.table.tiles[vertices.start : vertices.stop] = array("i", given.astype(np.int32).tobytes())

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

    @staticmethod
    def _foreign(what: object, call: str) -> GraphObjectCreationError:
        return GraphObjectCreationError(
            f"{call} was given something of another graph.", where=shown(what), next_step="use one graph throughout."
        )

    # Vertices

    def add_compute_set(self, name: str | None = None) -> ComputeSet:
        """A new, empty compute set."""
        _check_name(name, "add_compute_set()")
        number = len(self.compute_sets)
        compute_set = ComputeSet(self, number, name if name is not None else f"compute_set{number}")
        self.compute_sets.append(compute_set)
        return compute_set

    def add_vertex(
        self,
        compute_set: ComputeSet,
        codelet: type[Vertex] | str,
        connections: Mapping[str, Any] | None = None,
        /,
        **fields: Any,
    ) -> VertexRef:
        """One vertex of class `codelet`, or of the codelet of that name.

        Edges are given by field name, as keywords or in a dict, `connections`.
        An edge takes a tensor (for `Vector[Vector[T]]` also a list of vectors), state takes its initial value. A field may
        be connected later with `connect`. Raises `UnknownVertexTypeError`, `UnknownFieldError`, `PoplarTypeError`,
        `GraphConnectionError`.
        """
        table = self._table(compute_set, codelet)
        if connections is not None and not isinstance(connections, Mapping):
            raise GraphObjectCreationError(
                f"add_vertex() was given {shown(connections)} as its connections.",
                next_step="name the fields: add_vertex(compute_set, codelet, a=tensor), or give a dict.",
            )
        given = {**connections, **fields} if connections else fields
        row = len(table)
        try:
            for name in table.edges:
                value = given.get(name)
                if value is None:
                    table.offsets[name].append(UNCONNECTED)
                    table.layouts[name].append(UNCONNECTED)
                else:
                    table.connect(row, name, value)
            for name, field in table.state.items():
                value = given.get(name, field.default)
                table.state_values[name].append(None if value is None else table.state_value(name, value))
            if len(given) > len(table.edges) or not given.keys() <= table.codelet.fields.keys():
                unknown = [n for n in given if n not in table.codelet.fields]
                if unknown:
                    raise unknown_field(table.codelet, unknown[0])
        except BaseException:
            table.drop(row)
            raise
        table.order.append(compute_set.num_vertices)
        table.tiles.append(-1)
        compute_set.num_vertices += 1
        return VertexRef(table, row)

    def add_vertices(
        self, compute_set: ComputeSet, codelet: type[Vertex] | str, tiles: ArrayLike, /, **fields: Any
    ) -> VertexRange:
        """Many vertices of one class at once; the graph is the same as if they had been added one by one.

        `tiles`: one tile number, or an array with one for each vertex. Each tensor's leading axis is the vertex axis, of
        length 1 to share one region among all. State takes one number or an array.
        """
        from ipu_teach.graph.bulk import add_rows

        return add_rows(self, self._table(compute_set, codelet), tiles, fields)

    def connect(self, field: FieldRef, value: Tensor | Sequence[Tensor]) -> None:
        """Connect one field of a vertex that was added without it, or one part of a list: `vertex["parts"][0]`."""
        table, row, name = self._field(field)
        if field.index is not None:
            connect_part(field, value)
        elif name in table.state:
            table.set_state(row, name, value)
        else:
            table.connect(row, name, value)
            table.parts.pop((name, row), None)

    def set_field_size(self, field: FieldRef, size: int) -> None:
        """The elements of a Vector of state, or the parts of a list that will be connected one by one."""
        self._field(field, whole=True)
        set_field_size(field, size)

    def get_field_size(self, field: FieldRef) -> int:
        """Elements of a field, or parts of a list. Raises `NoSizeSpecifiedError` if it has no size yet."""
        self._field(field, whole=True)
        return get_field_size(field)

    def add_codelets(self, *sources: object) -> None:
        """Make vertex classes known by name: classes, modules, or paths of Python files. A name may be added once.

        Raises `GraphObjectLoadError`, `FileLoadError` or `ParseError`.
        """
        self.codelets.add(*sources)

    def has_codelet(self, name: str) -> bool:
        """True if `add_vertex` would find a codelet under `name`."""
        return self.codelets.has(name)

    def register_perf_estimator(self, codelet: type[Vertex] | str, estimator: Estimator) -> None:
        """Let `estimator(shapes, target)` give the modelled cycles of each vertex of `codelet`, before its own `cycles`.

        `shapes`: the shape of each field by name, for a list of vectors a tuple of shapes. Worker cycles; tile cycles for a
        SupervisorVertex and a MultiVertex. `set_perf_estimate` goes before it.
        """
        self.codelets.register(codelet, estimator)

    def get_perf_estimate(self, vertex: VertexRef) -> int:
        """Modelled cycles by `set_perf_estimate`, else an estimator, else the codelet's `cycles`.

        Raises `MissingPerfEstimateError` if there is none of them: what is counted from compute() stands in the report.
        """
        if not isinstance(vertex, VertexRef) or vertex.table.graph is not self:
            raise GraphObjectCreationError(
                f"get_perf_estimate() was given {shown(vertex)}.", next_step="give a vertex that add_vertex returned."
            )
        return get_perf_estimate(self.codelets.estimators, self.target, vertex)

    def set_perf_estimate(self, vertex: VertexRef | VertexRange, cycles: Any) -> None:
        """Modelled cycles of a vertex: worker cycles, or tile cycles for a SupervisorVertex. Overrides every other model."""
        if not isinstance(vertex, (VertexRef, VertexRange)):
            raise GraphObjectCreationError(
                f"set_perf_estimate() was given {shown(vertex)}.", next_step="give the vertex that add_vertex returned."
            )
        if vertex.table.graph is not self:
            raise self._foreign(vertex, "set_perf_estimate()")
        if isinstance(vertex, VertexRef):
            vertex.table.estimate(vertex.row, vertex.row + 1, cycles, vertex)
        else:
            vertex.table.estimate(vertex.start, vertex.stop, cycles, vertex)

    def _table(self, compute_set: ComputeSet, codelet: type[Vertex] | str) -> VertexTable:
        if isinstance(codelet, str):
            codelet = self.codelets.find(codelet)
        try:
            table = compute_set.tables.get(codelet)
            if table is not None and compute_set.graph is self:
                return table
        except (AttributeError, TypeError):
            pass
        if not isinstance(compute_set, ComputeSet) or compute_set.graph is not self:
            raise GraphObjectCreationError(
                f"{shown(compute_set)} is no compute set of this graph.",
                next_step="make one with graph.add_compute_set(name), and write add_vertex(compute_set, codelet, …).",
            )
        if not isinstance(codelet, type) or not issubclass(codelet, Vertex):
            raise GraphObjectCreationError(
                f"{shown(codelet)} is no vertex class.",
                next_step="write a class that derives from Vertex, and pass the class.",
            )
        if codelet.compute is Vertex.compute:
            raise no_compute(codelet)
        refuse_template(codelet)
        return compute_set.tables.setdefault(codelet, VertexTable(self, compute_set, codelet))

    def _field(self, ref: FieldRef, whole: bool = False) -> tuple[VertexTable, int, str]:
        if not isinstance(ref, FieldRef) or ref.vertex.table.graph is not self:
            raise GraphObjectCreationError(
                f"{shown(ref)} is no field of a vertex of this graph.",
                next_step='write vertex["name"], with a vertex that add_vertex of this graph returned.',
            )
        if whole and ref.index is not None:
            raise GraphObjectCreationError(
                f"Only connect() takes one part of a field, and this is {ref!r}.",
                next_step='name the whole field: vertex["name"].',
            )
        return ref.vertex.table, ref.vertex.row, ref.name

    # Host

    def add_host_to_device_fifo(
        self,
        handle: str,
        dtype: type[DType],
        num_elements: int,
        mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE,
        options: Mapping[str, Any] | None = None,
        *,
        buffering_depth: int | None = None,
    ) -> DataStream:
        """A stream into the device; each Copy from it takes `num_elements` elements.

        `buffering_depth` (also an entry of `options`): how many transfers a `StreamCallback` is asked for ahead of their use.
        """
        _check_handle(handle, "add_host_to_device_fifo()")
        stream = make_stream(handle, dtype, num_elements, True, mode, options, buffering_depth)
        return self._register(self.streams, stream)

    def add_device_to_host_fifo(
        self, handle: str, dtype: type[DType], num_elements: int, options: Mapping[str, Any] | None = None
    ) -> DataStream:
        """A stream out of the device; each Copy into it hands over `num_elements` elements."""
        _check_handle(handle, "add_device_to_host_fifo()")
        return self._register(self.streams, make_stream(handle, dtype, num_elements, False, options=options))

    def create_host_write(self, handle: str, tensor: Tensor) -> None:
        """Let the host write `tensor` under `handle`, by `Engine.write_tensor`."""
        self._access(handle, tensor, write=True)

    def create_host_read(self, handle: str, tensor: Tensor) -> None:
        """Let the host read `tensor` under `handle`, by `Engine.read_tensor`."""
        self._access(handle, tensor, write=False)

    def _access(self, handle: str, tensor: Tensor, write: bool) -> None:
        call = f"create_host_{'write' if write else 'read'}()"
        _check_handle(handle, call)
        self._own(tensor)
        if write:
            self._refuse_constant(tensor, call)
        self._register(self.host_accesses, HostAccess(handle, tensor, write))

    @staticmethod
    def _register(known: dict[str, HasHandle], item: HasHandle) -> HasHandle:
        if item.handle in known:
            raise GraphObjectCreationError(
                f"There is already a handle {item.handle!r}.", where=repr(known[item.handle]), next_step="choose another name."
            )
        known[item.handle] = item
        return item

    def add_function(self, program: Any, name: str | None = None) -> Function:
        """Make `program` a function, for `Call`. Its code exists once, however often it is called."""
        self._num_functions += 1
        return Function(self, name if name is not None else f"function{self._num_functions - 1}", program)

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
        relative = np.asarray(positions - offset, order="C")
        if np.array_equal(relative.reshape(-1), np.arange(relative.size)):  # side by side after all
            return Tensor(self, dtype, offset, self.strided(relative.shape, dense(relative.shape)))
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
        low, high = tensor.layout.bounds
        size = tensor.dtype.size
        first = self.variable_at((tensor.offset + low) * size)
        last = self.variable_at((tensor.offset + high) * size)
        if first is not last:
            return f"a view of {first.name!r} and others"
        whole = tensor.num_elements == prod(first.shape)
        return f"{first.name!r}" if whole else f"a view of {first.name!r}"

    def _own(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor) or tensor.graph is not self:
            raise GraphObjectCreationError(
                f"{shown(tensor)} is no tensor of this graph.",
                next_step="use a tensor that this graph's add_variable or add_constant returned, or a view of one.",
            )

    def __repr__(self) -> str:
        vertices = sum(cs.num_vertices for cs in self.compute_sets)
        sizes = (
            counted(len(self.variables), "variable"),
            counted(len(self.compute_sets), "compute set"),
            counted(vertices, "vertex", "vertices"),
        )
        return f"Graph({', '.join(sizes)})"


def _check_name(name: object, call: str) -> None:
    if name is not None and not isinstance(name, str):
        raise GraphObjectCreationError(
            f"{call} was given the name {shown(name)}.", next_step="a name is text, as in 'weights'."
        )


def _check_handle(handle: object, call: str) -> None:
    if not isinstance(handle, str):
        raise GraphObjectCreationError(
            f"{call} was given the handle {shown(handle)}.", next_step="a handle is a name, as in 'weights'."
        )


def _values(given: ArrayLike, dtype: type[DType], shape: Shape, what: str) -> Array:
    """Host values for a tensor of `shape`: one number, which is spread over it without a copy, or one for each element."""
    array = to_host_array(given, dtype, what)
    if array.size == prod(shape):
        return array.reshape(shape)
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), shape)
    raise TensorCreationError(
        f"{what} has {prod(shape):,} elements and was given {array.size:,} values.",
        next_step="give one number for all of them, or one for each.",
    )
