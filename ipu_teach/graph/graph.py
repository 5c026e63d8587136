"""The graph: variables with their tiles, compute sets with their vertices, and streams to the host.

Building a graph runs nothing. It writes down what there is and where; `Engine` checks it, costs it and runs it.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.device import Device
from ipu_teach.errors import GraphConnectionError, GraphObjectCreationError, InvalidTileMappingError, shown
from ipu_teach.graph.host import DataStream, HostAccess, check_handle, new_stream, register
from ipu_teach.graph.layouts import Layouts, dense
from ipu_teach.graph.mapping import MappingLog, Tiles, intervals_by_tile, pieces_by_tile
from ipu_teach.graph.table import UNCONNECTED, FieldRef, VertexRange, VertexRef, VertexTable
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import UNMAPPED, TileMap
from ipu_teach.graph.variables import Variable, Variables, host_values
from ipu_teach.graph.vertex import Vertex, no_compute, unknown_field
from ipu_teach.target import Target
from ipu_teach.types import Array, DType

__all__ = ["ComputeSet", "DataStream", "Function", "Graph", "HostAccess", "Placement", "Variable"]

Placement = int | Sequence[Sequence[tuple[int, int]]]


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
        self._tiles = Tiles(target.num_tiles)
        self._variables = Variables()
        self._mapping = MappingLog()
        self._layouts = Layouts()
        # Bound here and not methods: the hottest calls of a graph under construction.
        self.strided = self._layouts.strided
        self.list_layout = self._layouts.list_layout
        self.layouts = self._layouts.all
        self.variables = self._variables.all
        self.initial_values = self._variables.initial_values
        self.mapping_log = self._mapping.rows
        self.compute_sets: list[ComputeSet] = []
        self.streams: dict[str, DataStream] = {}
        self.host_accesses: dict[str, HostAccess] = {}
        self.functions: list[Function] = []

    @property
    def memory_bytes(self) -> int:
        """Bytes of the graph's one flat memory so far: all variables, and the gaps that align them."""
        return self._variables.memory_bytes

    # Variables

    def add_variable(self, dtype: type[DType], shape: int | Sequence[int], name: str | None = None) -> Tensor:
        """A new variable, unwritten and on no tile yet. `shape` in elements. Raises `TensorCreationError`."""
        return self._allocate(self._variables.check(self.target, dtype, shape, name, constant=False))

    def add_constant(
        self, dtype: type[DType], shape: int | Sequence[int], values: ArrayLike, name: str | None = None
    ) -> Tensor:
        """A read-only variable holding `values`: one number for all elements, or an array of `shape`."""
        variable = self._variables.check(self.target, dtype, shape, name, constant=True)
        array = host_values(values, variable.dtype, variable.shape, f"The constant {variable.name!r}")
        tensor = self._allocate(variable)
        self.initial_values.append((tensor, array))
        return tensor

    def set_initial_value(self, what: Tensor | FieldRef, values: ArrayLike) -> None:
        """What a variable, or a vertex's state field, holds when the engine is loaded: one number, or an array."""
        if isinstance(what, Tensor):
            self._own(what)
            self._variables.refuse_constant(what, "set_initial_value()")
            self.initial_values.append((what, host_values(values, what.dtype, what.shape, self.describe(what))))
            return
        table, row, name = self._field(what)
        if name not in table.state:
            raise GraphConnectionError(
                f"{table.codelet.__name__}.{name} is an edge and has no value of its own.",
                where=repr(what),
                next_step="set the initial value of the tensor that is connected to it.",
            )
        table.state_values[name][row] = table.state_value(name, values)

    def _allocate(self, variable: Variable) -> Tensor:
        self._variables.add(variable)
        layout = self.strided(variable.shape, dense(variable.shape))
        return Tensor(self, variable.dtype, variable.start // variable.dtype.size, layout)

    # Tiles

    def set_tile_mapping(self, what: Tensor | VertexRef | VertexRange, tile: Placement) -> None:
        """Put a tensor's elements, or a vertex, on a tile. A later call overrides an earlier one.

        `tile` is a tile number; for a tensor also a list with, for each tile, its (begin, end) intervals in the tensor's
        own element order. Raises `InvalidTileMappingError` for a tile that does not exist.
        """
        if isinstance(what, VertexRef):
            if what.table.graph is not self:
                raise self._foreign(what, "set_tile_mapping()")
            what.table.tiles[what.row] = self._tiles.number(tile, what)
        elif isinstance(what, VertexRange):
            self._map_range(what, tile)
        elif isinstance(what, Tensor):
            self._own(what)
            if isinstance(tile, (int, float, np.number)):
                self._mapping.add(what, self._tiles.number(tile, what))
            else:
                pieces = self._tiles.pieces(what, self.describe(what), tile)
                flat = what.flatten()
                for begin, end, number in pieces:
                    self._mapping.add(flat[begin:end], number)
        else:
            raise GraphObjectCreationError(
                f"set_tile_mapping() was given {shown(what)}.", next_step="map a tensor or a vertex of this graph."
            )

    def get_tile_mapping(self, tensor: Tensor, require_complete: bool = True) -> list[list[tuple[int, int]]]:
        """For each tile the (begin, end) intervals of `tensor`, in its own element order, that lie there.

        Raises `InvalidTileMappingError` if `require_complete` and some element lies on no tile.
        """
        self._own(tensor)
        pieces = pieces_by_tile(tensor, self.tile_map())
        _, count, tile = pieces
        if require_complete and np.any(tile == UNMAPPED):
            missing = int(count[tile == UNMAPPED].sum())
            raise InvalidTileMappingError(
                f"{missing} of the {tensor.num_elements} elements of {self.describe(tensor)} are on no tile.",
                next_step="graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).",
            )
        return intervals_by_tile(pieces, self.target.num_tiles)

    def tile_map(self) -> TileMap:
        """The mapping calls so far as one table; made anew only when there are new ones."""
        return self._mapping.tile_map(self.memory_bytes)

    def _map_range(self, vertices: VertexRange, tiles: Any) -> None:
        if vertices.table.graph is not self:
            raise self._foreign(vertices, "set_tile_mapping()")
        numbers = self._tiles.numbers(tiles, repr(vertices))
        if numbers.shape not in ((), (1,), (len(vertices),)):
            raise InvalidTileMappingError(
                f"{numbers.size:,} tiles were given for {len(vertices):,} vertices.",
                where=repr(vertices),
                next_step="give one tile for all of them, or one for each.",
            )
        given = np.broadcast_to(numbers, (len(vertices),))
        vertices.table.tiles[vertices.start : vertices.stop] = array("i", given.astype(np.int32).tobytes())

    @staticmethod
    def _foreign(what: object, call: str) -> GraphObjectCreationError:
        return GraphObjectCreationError(
            f"{call} was given something of another graph.", where=shown(what), next_step="use one graph throughout."
        )

    # Vertices

    def add_compute_set(self, name: str | None = None) -> ComputeSet:
        """A new, empty compute set."""
        number = len(self.compute_sets)
        compute_set = ComputeSet(self, number, name if name is not None else f"compute_set{number}")
        self.compute_sets.append(compute_set)
        return compute_set

    def add_vertex(
        self, compute_set: ComputeSet, codelet: type[Vertex], connections: Mapping[str, Any] | None = None, /, **fields: Any
    ) -> VertexRef:
        """One vertex of class `codelet`. Edges are given by field name, as keywords or in a dict, `connections`.

        An edge takes a tensor (for `Vector[Vector[T]]` also a list of vectors), state takes its initial value. A field may
        be connected later with `connect`. Raises `UnknownFieldError`, `PoplarTypeError`, `GraphConnectionError`.
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
            if len(given) > len(table.edges) or not given.keys() <= codelet.fields.keys():
                unknown = [n for n in given if n not in codelet.fields]
                if unknown:
                    raise unknown_field(codelet, unknown[0])
        except BaseException:
            table.drop(row)
            raise
        table.order.append(compute_set.num_vertices)
        table.tiles.append(-1)
        compute_set.num_vertices += 1
        return VertexRef(table, row)

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
            table.state_values[name][row] = table.state_value(name, value)
        else:
            table.connect(row, name, value)

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

    def _table(self, compute_set: ComputeSet, codelet: type[Vertex]) -> VertexTable:
        try:
            table = compute_set.tables.get(codelet)
            if table is not None and compute_set.graph is self:
                return table
        except (AttributeError, TypeError):
            pass
        if not isinstance(compute_set, ComputeSet) or compute_set.graph is not self:
            raise GraphObjectCreationError(
                f"add_vertex() was given {shown(compute_set)}, which is no compute set of this graph.",
                next_step="make one with graph.add_compute_set(name).",
            )
        if not isinstance(codelet, type) or not issubclass(codelet, Vertex):
            raise GraphObjectCreationError(
                f"add_vertex() was given {shown(codelet)}, which is no vertex class.",
                next_step="write a class that derives from Vertex, and pass the class.",
            )
        if codelet.compute is Vertex.compute:
            raise no_compute(codelet)
        return compute_set.tables.setdefault(codelet, VertexTable(self, compute_set, codelet))

    def _field(self, ref: FieldRef) -> tuple[VertexTable, int, str]:
        if not isinstance(ref, FieldRef) or ref.vertex.table.graph is not self:
            raise GraphObjectCreationError(
                f"{shown(ref)} is no field of a vertex of this graph.",
                next_step='write vertex["name"], with a vertex that add_vertex of this graph returned.',
            )
        return ref.vertex.table, ref.vertex.row, ref.name

    # Host

    def add_host_to_device_fifo(self, handle: str, dtype: type[DType], num_elements: int) -> DataStream:
        """A stream into the device; each Copy from it takes `num_elements` elements."""
        return register(self.streams, new_stream(handle, dtype, num_elements, to_device=True))

    def add_device_to_host_fifo(self, handle: str, dtype: type[DType], num_elements: int) -> DataStream:
        """A stream out of the device; each Copy into it hands over `num_elements` elements."""
        return register(self.streams, new_stream(handle, dtype, num_elements, to_device=False))

    def create_host_write(self, handle: str, tensor: Tensor) -> None:
        """Let the host write `tensor` under `handle`, by `Engine.write_tensor`."""
        self._access(handle, tensor, write=True)

    def create_host_read(self, handle: str, tensor: Tensor) -> None:
        """Let the host read `tensor` under `handle`, by `Engine.read_tensor`."""
        self._access(handle, tensor, write=False)

    def _access(self, handle: str, tensor: Tensor, write: bool) -> None:
        call = f"create_host_{'write' if write else 'read'}()"
        check_handle(handle, call)
        self._own(tensor)
        if write:
            self._variables.refuse_constant(tensor, call)
        register(self.host_accesses, HostAccess(handle, tensor, write))

    def add_function(self, program: Any, name: str | None = None) -> Function:
        """Make `program` a function, for `Call`. Its code exists once, however often it is called."""
        function = Function(self, name if name is not None else f"function{len(self.functions)}", program)
        self.functions.append(function)
        return function

    # Layouts and names

    def listed(self, dtype: type[DType], positions: Array) -> Tensor:
        """A tensor over explicit element positions, in the shape of `positions` (int64)."""
        offset = int(positions.flat[0]) if positions.size else 0
        return Tensor(self, dtype, offset, self._layouts.listed(positions - offset))

    def variable_at(self, byte: int) -> Variable:
        """The variable that holds a byte address."""
        return self._variables.at(byte)

    def describe(self, tensor: Tensor) -> str:
        """The tensor in words for an error: its variable, and what part of it."""
        return self._variables.describe(tensor)

    def _own(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor) or tensor.graph is not self:
            raise GraphObjectCreationError(
                f"{shown(tensor)} is no tensor of this graph.",
                next_step="use a tensor that this graph's add_variable or add_constant returned, or a view of one.",
            )

    def __repr__(self) -> str:
        vertices = sum(cs.num_vertices for cs in self.compute_sets)
        return f"Graph({len(self.variables)} variables, {len(self.compute_sets)} compute sets, {vertices:,} vertices)"
