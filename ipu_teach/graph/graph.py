"""The graph: variables with their tiles, compute sets with their vertices, and streams to the host.

Building a graph runs nothing. It writes down what there is and where; `Engine` checks it, costs it
and runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, TextIO

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach._support.flags import flagged
from ipu_teach.device import Device, target_of
from ipu_teach.errors import (
    GraphConnectionError,
    GraphObjectCreationError,
    InvalidTileMappingError,
    TensorCreationError,
    WithoutSome,
    shown,
)
from ipu_teach.graph import dot, not_here, outline
from ipu_teach.graph.clone import TensorCloneMethod, make_clone
from ipu_teach.graph.codelet_registry import Codelets, Estimator, get_perf_estimate
from ipu_teach.graph.compute_set import ComputeSet, Function, foreign, table_of
from ipu_teach.graph.debug import scoped
from ipu_teach.graph.host_handles import HostAccess, check_handle, register, scoped_handle
from ipu_teach.graph.layouts import Layouts, Shape, dense, is_whole, refuse_to_list
from ipu_teach.graph.mapping import (
    EXTERNAL,
    MappingLog,
    Tiles,
    VariableMappingMethod,
    intervals_by_tile,
    least_elements,
    linear_mapping,
    pieces_by_tile,
)
from ipu_teach.graph.remote_buffer import RemoteBuffer, make_remote_buffer
from ipu_teach.graph.replicas import APART, Replication, join, target_of_one, whole_tensor
from ipu_teach.graph.sizes import connect_part, get_field_size, set_field_size
from ipu_teach.graph.stream import DataStream, ReplicatedStreamMode, make_stream
from ipu_teach.graph.tensor import Tensor, concat
from ipu_teach.graph.tile_map import UNMAPPED, TileMap
from ipu_teach.graph.variable_table import Variable, Variables, host_values
from ipu_teach.graph.vertex import Vertex
from ipu_teach.graph.vertex_table import FieldRef, VertexRange, VertexRef, VertexTable
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, Array, DType, as_dtype

Placement = int | Array | Sequence[Sequence[tuple[int, int]]]


@flagged
class Graph(WithoutSome):
    """What a learner builds: variables, compute sets, vertices and streams, for one target.

    `target`: a `Target`, or a `Device` whose target is taken. `replication_factor`: how many times
    the graph is there, each time on an equal part of the IPUs and with variables of its own; what
    is built is the graph of one replica, and `graph.target` the machine of one. Raises
    `GraphReplicationError` unless it divides the IPUs.

        graph = Graph(device.target)
        x = graph.add_variable(FLOAT, (26, 64), "x")   # a tensor; it holds no values yet
        graph.set_tile_mapping(x, 0)                   # every element and every vertex needs a tile
        cs = graph.add_compute_set("scale")
        v = graph.add_vertex(cs, Scale, x=x[0], out=x[1])
        graph.set_tile_mapping(v, 0)

    Calls that make something take a name, and as `debug_context` the scope of that name: a path as
    text, or a `DebugContext`. Whatever a call is given and cannot use raises a `PoplarError` and
    leaves the graph as it was.
    """

    not_here = not_here.GRAPH
    replicas = 1  # that a tensor has in its leading axis, in the graph of a whole machine

    def __init__(self, target: Target | Device, replication_factor: int = 1) -> None:
        found = target_of(target)
        if found is None:
            raise GraphObjectCreationError(f"""Graph() was given {shown(target)}, which is no
                target.
                next:  give it a target, as in Graph(IPUModel("ipu2").create_device().target).""")
        # Virtual graphs share all that is set here, so nothing of it is rebound later.
        alone = type(replication_factor) is int and replication_factor == 1
        self.target = found if alone else target_of_one(found, replication_factor)
        self.replication = Replication()
        self._top = self
        self._tiles = Tiles(self.target.num_tiles)
        self._variables = Variables()
        self._mapping = MappingLog()
        self._layouts = Layouts(self)
        # Bound here and not methods: the hottest calls of a graph under construction.
        self.strided = self._layouts.strided
        self.form = self._layouts.form
        self.list_layout = self._layouts.list_layout
        self.layouts = self._layouts.all
        self.variables = self._variables.all
        self.initial_values = self._variables.initial_values
        self.mapping_log = self._mapping.rows
        self.compute_sets: list[ComputeSet] = []
        self.streams: dict[str, DataStream] = {}
        self.host_accesses: dict[str, HostAccess] = {}
        self.remote_buffers: dict[str, RemoteBuffer] = {}
        self.functions: list[Function] = []
        self.codelets = Codelets()
        if not alone and replication_factor > 1:
            join(Graph(found), self, replication_factor)

    @property
    def memory_bytes(self) -> int:
        """Bytes of the graph's one flat memory so far: all variables, and the gaps that align
        them."""
        return self._variables.memory_bytes

    @property
    def num_vertices(self) -> int:
        """Vertices of all compute sets together."""
        return sum(cs.num_vertices for cs in self.compute_sets)

    # Variables

    def add_variable(
        self,
        dtype: type[DType],
        shape: int | Sequence[int],
        name: str | None = None,
        mapping: VariableMappingMethod | None = None,
        *,
        debug_context: str | None = None,
    ) -> Tensor:
        """A new variable, unwritten. `shape`: whole numbers, in elements; `()` for a single one.

        It is on no tile yet, unless `mapping` is `VariableMappingMethod.LINEAR`: then its elements
        are spread over the tiles in order, as `poputil.map_tensor_linearly` does. Raises
        `TensorCreationError` and `PoplarTypeError`.
        """
        if mapping is not None and not isinstance(mapping, VariableMappingMethod):
            raise TensorCreationError(f"""add_variable() was given {shown(mapping)} as mapping.
                next:  use VariableMappingMethod.LINEAR or NONE; for a tile, call
                graph.set_tile_mapping(tensor, tile).""")
        name = scoped(name, debug_context, "add_variable()")
        tensor = self._new_variable(dtype, shape, name)
        if mapping is VariableMappingMethod.LINEAR:
            grain = self.target.get_vector_width(tensor.dtype)
            self.set_tile_mapping(
                tensor,
                linear_mapping(
                    tensor.num_elements, self._tiles.count, grain, least_elements(tensor.dtype)
                ),
            )
        return tensor

    def add_constant(
        self,
        dtype: type[DType],
        shape: int | Sequence[int],
        values: ArrayLike,
        name: str | None = None,
        *,
        debug_context: str | None = None,
    ) -> Tensor:
        """A read-only variable holding `values`: one number for all elements, or an array of
        `shape`.

        It needs a tile like any variable. Raises `TensorCreationError` and `PoplarTypeError`.
        """
        name = scoped(name, debug_context, "add_constant()")
        variable = self._variables.check(self.target, dtype, shape, name, constant=True)
        array = host_values(
            values, variable.dtype, variable.shape, f"The constant {variable.name!r}"
        )
        tensor = self._allocate(variable)
        self.initial_values.append((tensor, array))
        return tensor

    def clone(
        self,
        tensor: Tensor,
        name: str | None = None,
        method: TensorCloneMethod = TensorCloneMethod.PRESERVE_ORDER_UNLESS_ALIASES,
        *,
        dtype: type[DType] | None = None,
        debug_context: str | None = None,
    ) -> Tensor:
        """A tensor of the same shape in a new variable, each element on the tile of its original;
        no values are copied.

        `method` decides how the elements lie in memory. CREATE_NEW_ORDER: in the order of the view,
        each its own. PRESERVE_ORDER_AND_ALIASES: as the original's do; what appears twice there
        appears twice in the clone. PRESERVE_ORDER_UNLESS_ALIASES: the second, but the first if
        something appears twice. GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES: the second, with each
        tile's elements side by side. `dtype`: that of the original by default. Elements on no tile
        are on none in the clone.
        """
        self._own(tensor)
        if not isinstance(method, TensorCloneMethod):
            raise TensorCreationError(f"""clone() was given {shown(method)} as method.
                next:  use TensorCloneMethod.{", ".join(m.name for m in TensorCloneMethod)}.""")
        wanted = tensor.dtype if dtype is None else as_dtype(dtype, "clone()")
        label = scoped(
            "clone" if name is None and debug_context is None else name, debug_context, "clone()"
        )

        def allocate(dtype: type[DType], shape: Shape) -> Tensor:
            return self._new_variable(dtype, shape, label)

        return make_clone(tensor, wanted, method, self._mapping.tile_map(), self._mapping, allocate)

    def clone_n(
        self,
        tensor: Tensor,
        count: int,
        name: str | None = None,
        method: TensorCloneMethod = TensorCloneMethod.PRESERVE_ORDER_UNLESS_ALIASES,
        *,
        debug_context: str | None = None,
    ) -> Tensor:
        """`count` clones of a tensor of shape (…) as one tensor of shape (`count`, …); see
        `clone`."""
        self._own(tensor)
        if not is_whole(count) or count < 1:
            raise TensorCreationError(f"""clone_n() was asked for {shown(count)} clones.
                next:  give a whole number of 1 or more.""")
        refuse_to_list(count * max(tensor.num_elements, 1))
        clones = [
            self.clone(tensor, name, method, debug_context=debug_context) for _ in range(count)
        ]
        return concat([c.expand(0) for c in clones], 0)

    def is_constant(self, tensor: Tensor) -> bool:
        """True if all elements of `tensor`, and there are some, belong to constants."""
        self._own(tensor)
        start, stop = tensor.byte_extent()
        inside = sum(
            np.clip(stop, v.start, v.stop) - np.clip(start, v.start, v.stop)
            for v in self.constants_in(tensor)
        )
        return bool(np.sum(inside) == np.sum(stop - start) > 0)

    def set_initial_value(self, what: Tensor | FieldRef, values: ArrayLike) -> None:
        """What a variable, or a vertex's state field, holds when the engine is loaded: one number,
        or an array."""
        if isinstance(what, Tensor):
            self._own(what)
            self._variables.refuse_constant(what, "set_initial_value()")
            self.initial_values.append(
                (what, host_values(values, what.dtype, what.shape, self.describe(what)))
            )
            return
        if not isinstance(what, FieldRef):
            raise GraphObjectCreationError(f"""set_initial_value() was given {shown(what)}.
                next:  give a tensor, or the state of a vertex: vertex["name"].""")
        table, row, name = self._field(what, whole=True)
        if name not in table.state:
            raise GraphConnectionError(f"""{table.codelet.__name__}.{name} is an edge and has no
                value of its own.
                where: {what!r}
                next:  set the initial value of the tensor that is connected to it.""")
        table.set_state(row, name, values)

    def _new_variable(
        self,
        dtype: type[DType],
        shape: int | Sequence[int],
        name: str | None,
        constant: bool = False,
    ) -> Tensor:
        return self._allocate(self._variables.check(self.target, dtype, shape, name, constant))

    def _allocate(self, variable: Variable) -> Tensor:
        self._variables.add(variable)
        layout = self.strided(variable.shape, dense(variable.shape))
        return Tensor.of(self._top, variable.dtype, variable.start // variable.dtype.size, layout)

    # Tiles

    def set_tile_mapping(self, what: Tensor | VertexRef | VertexRange, tile: Placement) -> None:
        """Put a tensor's elements, or a vertex, on a tile. A later call overrides an earlier one.

        `tile` is a tile number. For a tensor it may also be an array with one for each row, of its
        leading axis, as `add_vertices` takes; or a list with, for each tile, its (begin, end)
        intervals in the tensor's own element order. Raises `InvalidTileMappingError` for a tile
        that does not exist, and for a mapping that does not fit.
        """
        if type(what) is VertexRef:
            table, tiles = what.table, self._tiles
            if table.graph is not self._top:
                raise foreign(what, "set_tile_mapping()")
            row, placed, frame = what.row, table.placed, sys._getframe(1)
            # as they mostly are
            if type(tile) is int and tiles.chosen is None and 0 <= tile < tiles.count:
                table.tiles[row] = tile
            else:
                table.tiles[row] = tiles.number(tile, what)
            if placed.stop == row and placed.place == frame.f_lasti and placed.code is frame.f_code:
                placed.stop = row + 1
            else:
                placed.note(frame, row, row + 1)
        elif isinstance(what, VertexRange):
            if what.table.graph is not self._top:
                raise foreign(what, "set_tile_mapping()")
            what.put_on(self._tiles.numbers(tile, repr(what)))
            what.table.placed.note(sys._getframe(1), what.start, what.stop)
        elif isinstance(what, Tensor):
            self._own(what)
            if isinstance(tile, (int, float, np.number)):
                self._mapping.add(what, self._tiles.number(tile, what))
            else:
                words, rows = self.describe(what), isinstance(tile, np.ndarray) and tile.ndim == 1
                pieces = (
                    self._tiles.of_rows(what, words, tile)
                    if rows
                    else self._tiles.of_intervals(what, words, tile)
                )
                # all of them are right before the first is noted down
                self._mapping.add_pieces(what, *pieces)
        else:
            raise GraphObjectCreationError(f"""set_tile_mapping() was given {shown(what)}.
                next:  map a tensor or a vertex of this graph.""")

    def get_tile_mapping(
        self, tensor: Tensor, require_complete: bool = True, allow_external: bool = False
    ) -> list[list[tuple[int, int]]]:
        """For each tile the (begin, end) intervals of `tensor`, in its own element order, that lie
        there.

        Raises what `held_by_tile` does.
        """
        mapping: list[list[tuple[int, int]]] = [[] for _ in range(self._tiles.count)]
        for tile, intervals in self.held_by_tile(tensor, require_complete, allow_external).items():
            mapping[tile] = intervals
        return mapping

    def held_by_tile(
        self, tensor: Tensor, require_complete: bool = True, allow_external: bool = False
    ) -> dict[int, list[tuple[int, int]]]:
        """What `get_tile_mapping` gives, by tile and in their order, of those that hold some of
        `tensor`.

        Raises `InvalidTileMappingError` if `require_complete` and some element lies on no tile,
        and, in a virtual graph, if some lies on a tile outside it and not `allow_external`.
        """
        self._own(tensor)
        pieces = pieces_by_tile(tensor, self.tile_map())
        _, count, tile = pieces
        if require_complete and np.any(tile == UNMAPPED):
            missing = int(count[tile == UNMAPPED].sum())
            raise InvalidTileMappingError(
                f"{missing:,} of the {tensor.num_elements:,} elements of {self.describe(tensor)} "
                "are on no tile."
                if missing < tensor.num_elements
                else f"{self.describe(tensor)} is on no tile.",
                next_step=(
                    "graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, "
                    "tensor)."
                ),
            )
        if not allow_external and np.any(tile == EXTERNAL):
            raise InvalidTileMappingError(f"""{int(count[tile == EXTERNAL].sum()):,} of the
                {tensor.num_elements:,} elements of {self.describe(tensor)} are on tiles outside the
                virtual graph.
                next:  ask the top-level graph: graph.get_top_level_graph(), or pass
                allow_external=True.""")
        return intervals_by_tile(*pieces)

    def tile_map(self) -> TileMap:
        """The mapping calls so far as one table, in this graph's tile numbers."""
        return self._tiles.seen(self._mapping.tile_map())

    def create_virtual_graph(self, *tiles: Any) -> Graph:
        """Some tiles of this graph as a graph of their own, in which they are numbered from 0.

        `create_virtual_graph(n)` takes the first n tiles of each IPU, `create_virtual_graph(first,
        end)` a range, and `create_virtual_graph([7, 3])` a list. What is made and mapped through it
        belongs to this graph and lies on these tiles. Raises `InvalidTileMappingError` and
        `GraphObjectCreationError`.
        """
        from ipu_teach.graph.virtual import VirtualGraph

        return VirtualGraph(self, *tiles)

    def get_top_level_graph(self) -> Graph:
        """The graph itself, or for a virtual graph the one that it is a part of in the end.

        Of a replicated graph it is the one that has the tiles of all replicas.
        """
        return self._top.replication.whole or self._top

    def owns(self, tensor: Tensor) -> bool:
        """True if `tensor` was made through this graph, or another view of it by its tiles."""
        return isinstance(tensor, Tensor) and tensor.graph is self._top

    # Replicas

    def get_replication_factor(self) -> int:
        """How many replicas of this graph there are; 1 if it is not replicated."""
        return self.replication.count

    def create_replicated_graph(self, count: int) -> Graph:
        """A graph that is there `count` times, each time on an equal part of this graph's IPUs.

        This graph is its top-level graph from now on. Raises `GraphReplicationError`.
        """
        made = Graph(target_of_one(self._top.target, count))
        join(self._top, made, count)
        return made

    def add_replication_index_constant(self, *, debug_context: str | None = None) -> Tensor:
        """An UNSIGNED_INT of one element that holds the number of the replica it is in, from 0."""
        tensor = self.add_constant(UNSIGNED_INT, (), 0, "replica", debug_context=debug_context)
        if self.replication.count > 1:
            self.initial_values[-1] = tensor, np.arange(self.replication.count, dtype=np.uint32)
        return tensor

    def get_non_replicated_tensor(self, tensor: Tensor) -> Tensor:
        """A tensor of shape s of the replicated graph as one of shape (R, *s) of the top-level
        graph: row r is what replica r has.

        Where nothing is replicated it is the tensor itself, with a leading axis of 1.
        """
        whole = self.get_top_level_graph()
        part = whole.replication.part
        if part is None:
            self._own(tensor)
            return tensor.expand(0)
        part._own(tensor)
        return whole_tensor(tensor, whole, part.replication.count, APART)

    # Vertices

    def add_compute_set(
        self, name: str | None = None, *, debug_context: str | None = None
    ) -> ComputeSet:
        """A new, empty compute set."""
        name = scoped(name, debug_context, "add_compute_set()")
        number = len(self.compute_sets)
        compute_set = ComputeSet(
            self._top, number, name if name is not None else f"compute_set{number}"
        )
        self.compute_sets.append(compute_set)
        return compute_set

    def add_vertex(
        self,
        compute_set: ComputeSet,
        codelet: type[Vertex] | str,
        connections: Mapping[str, Any] | None = None,
        /,
        *,
        debug_context: str | None = None,
        **fields: Any,
    ) -> VertexRef:
        """One vertex of class `codelet`, or of the codelet of that name.

        Edges are given by field name, as keywords or in a dict, `connections`. An edge takes a
        tensor (for `Vector[Vector[T]]` also a list of vectors), state takes its initial value. A
        field may be connected later with `connect`; `debug_context` names the vertex in messages.
        Raises `UnknownVertexTypeError`, `UnknownFieldError`, `PoplarTypeError`,
        `GraphConnectionError`.
        """
        name_of_vertex = (
            None if debug_context is None else scoped(None, debug_context, "add_vertex()")
        )
        try:
            table = compute_set.tables[codelet]  # type: ignore[index]
        except (AttributeError, KeyError, TypeError):
            table = None
        if table is None or table.graph is not self._top:
            table = table_of(self._top, compute_set, codelet)
        if connections is not None and not isinstance(connections, Mapping):
            raise GraphObjectCreationError(f"""add_vertex() was given {shown(connections)} as its
                connections.
                next:  name the fields: add_vertex(compute_set, codelet, a=tensor), or give a
                dict.""")
        given = {**connections, **fields} if connections else fields
        row, usual = len(table.order), len(given) <= table.most_usual
        try:
            # A loop adds many vertices alike: what was checked for one of them holds for the next.
            for name, known, add_layout, add_offset in table.columns if usual else ():
                tensor = given[name]
                add_layout(known[tensor.form])
                add_offset(tensor.offset)
        except (AttributeError, KeyError, TypeError):
            usual = False
        except BaseException:  # an interrupt must not leave half a vertex
            table.drop(row)
            raise
        if not usual:
            table.fill(row, given)
        table.order.append(compute_set.num_vertices)
        table.tiles.append(-1)
        compute_set.num_vertices += 1
        added, frame = table.added, sys._getframe(1)
        if frame.f_lasti != added.place or frame.f_code is not added.code:
            added.note(frame, row)
        if name_of_vertex is not None:
            table.names[row] = name_of_vertex
        return VertexRef(table, row)

    def add_vertices(
        self,
        compute_set: ComputeSet,
        codelet: type[Vertex] | str,
        tiles: ArrayLike,
        /,
        **fields: Any,
    ) -> VertexRange:
        """Many vertices of one class at once; the graph is the same as if they had been added one
        by one.

        `tiles`: one tile number, or an array with one for each vertex. Each tensor's leading axis
        is the vertex axis, of length 1 to share one region among all. State takes one number or an
        array.
        """
        from ipu_teach.graph.bulk import add_rows

        return add_rows(self, self._tiles, table_of(self._top, compute_set, codelet), tiles, fields)

    def connect(self, field: FieldRef, value: Tensor | Sequence[Tensor]) -> None:
        """Connect one field of a vertex that was added without it, or one part of a list:
        `vertex["parts"][0]`."""
        table, row, name = self._field(field)
        if field.index is not None:
            connect_part(field, value)
        elif name in table.state:
            table.set_state(row, name, value)
        else:
            table.connect(row, name, value)
            table.parts.pop((name, row), None)

    def set_field_size(self, field: FieldRef, size: int) -> None:
        """The elements of a Vector of state, or the parts of a list that will be connected one by
        one."""
        self._field(field, whole=True)
        set_field_size(field, size)

    def get_field_size(self, field: FieldRef) -> int:
        """Elements of a field, or parts of a list. Raises `NoSizeSpecifiedError` if it has no size
        yet."""
        self._field(field, whole=True)
        return get_field_size(field)

    def add_codelets(self, *sources: object) -> None:
        """Make vertex classes known by name: classes, modules, or paths of Python files. A name may
        be added once.

        Raises `GraphObjectLoadError`, `FileLoadError` or `ParseError`.
        """
        self.codelets.add(*sources)

    def has_codelet(self, name: str) -> bool:
        """True if `add_vertex` would find a codelet under `name`."""
        return self.codelets.has(name)

    def set_perf_estimate(
        self, vertex: VertexRef | VertexRange, cycles: Any, flops: None = None
    ) -> None:
        """Modelled cycles of a vertex: worker cycles, or tile cycles for a SupervisorVertex.
        Overrides every other model."""
        if flops is not None:
            raise not_here.no_flops()
        if not isinstance(vertex, (VertexRef, VertexRange)):
            raise GraphObjectCreationError(f"""set_perf_estimate() was given {shown(vertex)}.
                next:  give the vertex that add_vertex returned.""")
        if vertex.table.graph is not self._top:
            raise foreign(vertex, "set_perf_estimate()")
        if isinstance(vertex, VertexRef):
            vertex.table.estimate(vertex.row, vertex.row + 1, cycles, vertex)
        else:
            vertex.table.estimate(vertex.start, vertex.stop, cycles, vertex)

    def register_perf_estimator(self, codelet: type[Vertex] | str, estimator: Estimator) -> None:
        """Let `estimator(shapes, target)` give the modelled cycles of each vertex of `codelet`,
        before its own `cycles`.

        `shapes`: the shape of each field by name, for a list of vectors a tuple of shapes. Worker
        cycles; tile cycles for a SupervisorVertex and a MultiVertex. `set_perf_estimate` goes
        before it.
        """
        self.codelets.register(codelet, estimator)

    def get_perf_estimate(self, vertex: VertexRef) -> int:
        """Modelled cycles by `set_perf_estimate`, else an estimator, else the codelet's `cycles`.

        Raises `MissingPerfEstimateError` if there is none of them: what is counted from compute()
        stands in the report.
        """
        if not isinstance(vertex, VertexRef) or vertex.table.graph is not self._top:
            raise GraphObjectCreationError(f"""get_perf_estimate() was given {shown(vertex)}.
                next:  give a vertex that add_vertex returned.""")
        return get_perf_estimate(self.codelets.estimators, self._top.target, vertex)

    def _field(self, ref: FieldRef, whole: bool = False) -> tuple[VertexTable, int, str]:
        if not isinstance(ref, FieldRef) or ref.vertex.table.graph is not self._top:
            raise GraphObjectCreationError(f"""{shown(ref)} is no field of a vertex of this graph.
                next:  write vertex["name"], with a vertex that add_vertex of this graph
                returned.""")
        if whole and ref.index is not None:
            raise GraphObjectCreationError(f"""Only connect() takes one part of a field, and this is
                {ref!r}.
                next:  name the whole field: vertex["name"].""")
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
        debug_context: str | None = None,
    ) -> DataStream:
        """A stream into the device; each Copy from it takes `num_elements` elements.

        `buffering_depth` (also an entry of `options`): how many transfers a `StreamCallback` is
        asked for ahead of their use. Within a `debug_context` its handle is the whole path. Raises
        `GraphObjectCreationError` and `InvalidOptionError`.
        """
        handle = scoped_handle(handle, debug_context, "add_host_to_device_fifo()")
        stream = make_stream(handle, dtype, num_elements, True, mode, options, buffering_depth)
        return self._register_stream(stream)

    def add_device_to_host_fifo(
        self,
        handle: str,
        dtype: type[DType],
        num_elements: int,
        options: Mapping[str, Any] | None = None,
        *,
        debug_context: str | None = None,
    ) -> DataStream:
        """A stream out of the device; each Copy into it hands over `num_elements` elements.

        Within a `debug_context` its handle is the whole path. Raises `GraphObjectCreationError` and
        `InvalidOptionError`.
        """
        handle = scoped_handle(handle, debug_context, "add_device_to_host_fifo()")
        stream = make_stream(handle, dtype, num_elements, False, options=options)
        return self._register_stream(stream)

    def _register_stream(self, stream: DataStream) -> DataStream:
        stream = replace(stream, replicas=self.replication.count)
        return register(self.streams, stream, self.remote_buffers)

    def add_remote_buffer(
        self,
        handle: str,
        dtype: type[DType],
        num_elements: int,
        repeats: int = 1,
        *,
        debug_context: str | None = None,
    ) -> RemoteBuffer:
        """`repeats` rows of `num_elements` elements in streaming memory. Raises
        `GraphObjectCreationError`."""
        handle = scoped_handle(handle, debug_context, "add_remote_buffer()")
        made = make_remote_buffer(handle, dtype, num_elements, repeats, self.replication.count)
        return register(self.remote_buffers, made, self.streams, self.host_accesses)

    def create_host_write(
        self, handle: str, tensor: Tensor, rearrange_on_host: bool = False
    ) -> None:
        """Let the host write `tensor` under `handle`, by `Engine.write_tensor`.

        `rearrange_on_host` changes nothing here: the host always sees the tensor in its own order.
        """
        self._access(handle, tensor, write=True)

    def create_host_read(
        self, handle: str, tensor: Tensor, rearrange_on_host: bool = False
    ) -> None:
        """Let the host read `tensor` under `handle`, by `Engine.read_tensor`.

        `rearrange_on_host` changes nothing here: the host always sees the tensor in its own order.
        """
        self._access(handle, tensor, write=False)

    def _access(self, handle: str, tensor: Tensor, write: bool) -> None:
        call = f"create_host_{'write' if write else 'read'}()"
        check_handle(handle, call)
        self._own(tensor)
        if write:
            self._variables.refuse_constant(tensor, call)
        register(
            self.host_accesses,
            HostAccess(handle, tensor, write, tensor.graph.replication.count),
            self.remote_buffers,
        )

    def add_function(self, program: Any, name: str | None = None) -> Function:
        """Make `program` a function, for `Call`. Its code exists once, however often it is
        called."""
        function = Function(
            self._top, name if name is not None else f"function{len(self.functions)}", program
        )
        self.functions.append(function)
        return function

    # Drawings

    def output_vertex_graph(self, path: str | PathLike[str] | TextIO, programs: Any = None) -> None:
        """Write vertices and the variables they are connected to as GraphViz text, to a path or an
        open file.

        `programs`: a program or a list of them, to draw only what they execute. Raises
        `GraphObjectCreationError`.
        """
        outline.write(dot.vertex_graph(self, programs), path, "output_vertex_graph()")

    def output_compute_graph(
        self, path: str | PathLike[str] | TextIO, programs: Any = None
    ) -> None:
        """Write compute sets and the variables they read and write as GraphViz text, to a path or
        an open file.

        `programs`: a program or a list of them, to draw only what they execute, and their copies
        too. Raises `GraphObjectCreationError`.
        """
        outline.write(dot.compute_graph(self, programs), path, "output_compute_graph()")

    # Layouts and names

    def listed(self, dtype: type[DType], positions: Array) -> Tensor:
        """A tensor over explicit element positions, in the shape of `positions` (int64)."""
        offset = int(positions.flat[0]) if positions.size else 0
        return Tensor.of(self._top, dtype, offset, self._layouts.listed(positions - offset))

    def variable_map(self) -> TileMap:
        """Which variable holds which byte, in the form of a tile map with variables' numbers for
        tiles."""
        if self._top.replication.part is not None:
            raise GraphObjectCreationError("""The variables behind a tensor were asked for in the
                top-level graph of replicas.
                next:  ask a tensor of the replicated graph.""")
        return self._variables.map()

    def constants_in(self, tensor: Tensor) -> list[Variable]:
        """The constants of which `tensor` holds some element."""
        return self._variables.constants_in(tensor)

    def describe(self, tensor: Tensor) -> str:
        """The tensor in words for an error: its variable, and what part of it."""
        return self._variables.describe(tensor)

    def _own(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor) or tensor.graph is not self._top:
            raise GraphObjectCreationError(f"""{shown(tensor)} is no tensor of this graph.
                next:  use a tensor that this graph's add_variable or add_constant returned, or a
                view of one.""")

    def __repr__(self) -> str:
        return outline.graph_line(self)

    def _repr_html_(self) -> str:
        return outline.graph_tables(self)
