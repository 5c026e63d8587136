"""The graph: variables with their tiles, compute sets with their vertices, and streams to the host.

Building a graph runs nothing. `Engine` checks the graph, models its cost, and runs it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any, TextIO

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
    TileChoice,
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
from ipu_teach.graph.tile_map import UNMAPPED, TileMap, TileTable
from ipu_teach.graph.variable_table import Variable, Variables, host_values
from ipu_teach.graph.vertex import Vertex
from ipu_teach.graph.vertex_table import FieldRef, FieldValue, VertexRange, VertexRef, VertexTable
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, Array, DType, as_dtype

if TYPE_CHECKING:
    from ipu_teach.graph.bulk import Column

Placement = int | Array | Sequence[Sequence[tuple[int, int]]]


@flagged
class Graph(WithoutSome):
    """The variables, compute sets, vertices and streams of a program, for one target.

    `target` is a `Target`, or a `Device` that has one. With a `replication_factor` R, there are R
    replicas of the graph, each with its own variables on an equal part of the IPUs. The calls then
    build the graph of one replica, and `graph.target` is the machine of one replica. Raises
    `GraphReplicationError` if the factor does not divide the number of IPUs.

        graph = Graph(device.target)
        x = graph.add_variable(FLOAT, (26, 64), "x")   # a tensor without values
        graph.set_tile_mapping(x, 0)                   # every element and every vertex needs a tile
        cs = graph.add_compute_set("scale")
        v = graph.add_vertex(cs, Scale, x=x[0], out=x[1])
        graph.set_tile_mapping(v, 0)

    Most calls that add an object take a name for it. Their `debug_context` is the scope of this
    name: a path such as "model/layer1", or a `DebugContext`. A call with invalid arguments raises a
    `PoplarError` and does not change the graph.
    """

    not_here = not_here.GRAPH
    # The number of replicas that the graph contains. It is larger than 1 only in a graph that the
    # compiler builds for all replicas.
    replicas = 1

    def __init__(self, target: Target | Device, replication_factor: int = 1) -> None:
        machine = target_of(target)
        if machine is None:
            raise GraphObjectCreationError(f"""Graph() was given {shown(target)}, which is not a
                target.
                next:  give it a target, as in Graph(IPUModel("ipu2").create_device().target).""")
        # A virtual graph shares the attributes that are assigned below, so other methods must not
        # assign them again.
        alone = type(replication_factor) is int and replication_factor == 1
        self.target = machine if alone else target_of_one(machine, replication_factor)
        self.replication = Replication()
        self._top = self
        self._tiles = Tiles(self.target.num_tiles)
        self._variables = Variables()
        self._mapping = MappingLog()
        self._layouts = Layouts(self)
        # The most frequent calls go directly to methods of other objects, because a method of Graph
        # in between would cost time.
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
            join(Graph(machine), self, replication_factor)

    @property
    def memory_bytes(self) -> int:
        """The bytes from the start of the graph's memory to the end of its last variable.

        They include the gaps that align variables and, in the top-level graph of replicas, the gaps
        between the memories of the replicas.
        """
        return self._variables.memory_bytes

    @property
    def num_vertices(self) -> int:
        """The total number of vertices in all compute sets."""
        return sum(cs.num_vertices for cs in self.compute_sets)

    # Methods for variables

    def add_variable(
        self,
        dtype: type[DType],
        shape: int | Sequence[int],
        name: str | None = None,
        mapping: VariableMappingMethod | None = None,
        *,
        debug_context: str | None = None,
    ) -> Tensor:
        """Add a variable and return it as a tensor.

        `shape` is a number of elements or a tuple of dimensions; `()` is a single element. The
        variable is unwritten. It is not mapped unless `mapping` is `VariableMappingMethod.LINEAR`,
        which distributes the elements over the tiles in order, as `poputil.map_tensor_linearly`
        does. Raises `TensorCreationError` and `PoplarTypeError`.
        """
        if mapping is not None and not isinstance(mapping, VariableMappingMethod):
            raise TensorCreationError(f"""add_variable() was given {shown(mapping)} as mapping,
                which is not a VariableMappingMethod.
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
        """Add a read-only variable with `values`, and return it as a tensor.

        `values` is one number for all elements, or an array of `shape`. Like any variable, a
        constant must be mapped to tiles. Raises `TensorCreationError` and `PoplarTypeError`.
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
        """Add a variable with the shape and tile mapping of `tensor`, without copying values.

        Each element is mapped to the tile of the original element, or not mapped if the original is
        not. The default of `dtype` is the dtype of `tensor`. `method` selects the order of the
        clone's elements in memory:

        * CREATE_NEW_ORDER: the row-major order of `tensor`. No two elements share memory;
        * PRESERVE_ORDER_AND_ALIASES: the order in which the elements of `tensor` are in memory. An
          element that appears twice in `tensor` appears twice in the clone;
        * PRESERVE_ORDER_UNLESS_ALIASES: as CREATE_NEW_ORDER if an element appears twice in
          `tensor`,
          and otherwise as PRESERVE_ORDER_AND_ALIASES;
        * GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES: as PRESERVE_ORDER_AND_ALIASES, but the
          elements of
          each tile are contiguous.

        Raises `TensorCreationError` and `PoplarTypeError`.
        """
        self._own(tensor)
        if not isinstance(method, TensorCloneMethod):
            raise TensorCreationError(f"""clone() was given {shown(method)} as method,
                which is not a TensorCloneMethod.
                next:  use TensorCloneMethod.{", ".join(m.name for m in TensorCloneMethod)}.""")
        wanted = tensor.dtype if dtype is None else as_dtype(dtype, "clone()")
        label = scoped(
            "clone" if name is None and debug_context is None else name, debug_context, "clone()"
        )

        def allocate(dtype: type[DType], shape: Shape) -> Tensor:
            return self._new_variable(dtype, shape, label)

        return make_clone(tensor, wanted, method, self._mapping.table(), self._mapping, allocate)

    def clone_n(
        self,
        tensor: Tensor,
        count: int,
        name: str | None = None,
        method: TensorCloneMethod = TensorCloneMethod.PRESERVE_ORDER_UNLESS_ALIASES,
        *,
        debug_context: str | None = None,
    ) -> Tensor:
        """Return `count` clones of a tensor as one tensor of shape (`count`, …). See `clone`."""
        self._own(tensor)
        if not is_whole(count) or count < 1:
            raise TensorCreationError(f"""clone_n() was asked for {shown(count)} clones,
                which is not possible.
                next:  give a whole number of 1 or more.""")
        refuse_to_list(count * max(tensor.num_elements, 1))
        clones = [
            self.clone(tensor, name, method, debug_context=debug_context) for _ in range(count)
        ]
        return concat([c.expand(0) for c in clones], 0)

    def is_constant(self, tensor: Tensor) -> bool:
        """Return whether `tensor` has elements and all of them belong to constants."""
        self._own(tensor)
        starts, stops = tensor.byte_extent()
        constant_bytes = sum(
            np.clip(stops, constant.start, constant.stop)
            - np.clip(starts, constant.start, constant.stop)
            for constant in self.constants_in(tensor)
        )
        return bool(np.sum(constant_bytes) == np.sum(stops - starts) > 0)

    def set_initial_value(self, what: Tensor | FieldRef, values: ArrayLike) -> None:
        """Set the initial value of a tensor, or of a state field of a vertex.

        The tensor or field `what` has this value after an engine is loaded. `values` is one number
        or an array. Raises `TensorCreationError`, `GraphObjectCreationError` and
        `GraphConnectionError`.
        """
        if isinstance(what, Tensor):
            self._own(what)
            self._variables.refuse_constant(what, "set_initial_value()")
            self.initial_values.append(
                (what, host_values(values, what.dtype, what.shape, self.describe(what)))
            )
            return
        if not isinstance(what, FieldRef):
            raise GraphObjectCreationError(f"""set_initial_value() was given {shown(what)},
                which is neither a tensor nor a field.
                next:  give a tensor, or the state of a vertex: vertex["name"].""")
        table, row, name = self._field(what, allow_list=True)
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

    # Methods for tile mappings

    def set_tile_mapping(self, what: Tensor | VertexRef | VertexRange, tile: Placement) -> None:
        """Map the elements of a tensor, or a vertex, to a tile.

        A later call overrides an earlier one. `what` is the tensor, the vertex, or the range of
        vertices that `add_vertices` returned. `tile` is a tile number for all of them, or one of
        these:

        * for a tensor, an array with a tile number for each index of the first axis;
        * for a tensor, a list that has, for each tile, a list of (begin, end) intervals of its
          elements;
        * for a range of vertices, an array with a tile number for each vertex.

        Raises `InvalidTileMappingError` if a tile does not exist or the mapping does not fit the
        tensor, and `GraphObjectCreationError` if `what` is not an object of this graph.
        """
        if type(what) is VertexRef:
            table = what.table
            tiles = self._tiles
            if table.graph is not self._top:
                raise foreign(what, "set_tile_mapping()")
            row = what.row
            placed_lines = table.placed
            frame = sys._getframe(1)
            # Fast path for the most frequent case, with `Tiles.number` inlined.
            if type(tile) is int and tiles.chosen is None and 0 <= tile < tiles.count:
                table.tiles[row] = tile
            else:
                table.tiles[row] = tiles.number(tile, what)
            if (
                placed_lines.stop == row
                and placed_lines.place == frame.f_lasti
                and placed_lines.code is frame.f_code
            ):
                placed_lines.stop = row + 1
            else:
                placed_lines.note(frame, row, row + 1)
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
                description = self.describe(what)
                is_array_of_rows = isinstance(tile, np.ndarray) and tile.ndim == 1
                pieces = (
                    self._tiles.of_rows(what, description, tile)
                    if is_array_of_rows
                    else self._tiles.of_intervals(what, description, tile)
                )
                # All pieces have been checked before this line, so a failed call adds nothing to
                # the log.
                self._mapping.add_pieces(what, *pieces)
        else:
            raise GraphObjectCreationError(f"""set_tile_mapping() was given {shown(what)},
                which cannot be mapped.
                next:  map a tensor or a vertex of this graph.""")

    def get_tile_mapping(
        self, tensor: Tensor, require_complete: bool = True, allow_external: bool = False
    ) -> list[list[tuple[int, int]]]:
        """Return, for each tile, the (begin, end) intervals of the elements of `tensor` on it.

        The intervals are in row-major order of `tensor`. Elements that are not mapped to a tile of
        this graph are in no interval. Raises `InvalidTileMappingError` if an element is not mapped
        and `require_complete` is True, or if an element is on a tile outside a virtual graph and
        `allow_external` is False.
        """
        mapping: list[list[tuple[int, int]]] = [[] for _ in range(self._tiles.count)]
        for tile, intervals in self.held_by_tile(tensor, require_complete, allow_external).items():
            mapping[tile] = intervals
        return mapping

    def held_by_tile(
        self, tensor: Tensor, require_complete: bool = True, allow_external: bool = False
    ) -> dict[int, list[tuple[int, int]]]:
        """Return {tile: intervals} for each tile that has elements of `tensor`, in ascending order.

        An interval (begin, end) counts elements in row-major order. Elements that are not mapped to
        a tile of this graph are left out. Raises `InvalidTileMappingError` if an element is not
        mapped and `require_complete` is True, or if an element is on a tile outside a virtual graph
        and `allow_external` is False.
        """
        return intervals_by_tile(*self.mapped_pieces(tensor, require_complete, allow_external))

    def mapped_pieces(
        self, tensor: Tensor, require_complete: bool = True, allow_external: bool = False
    ) -> tuple[Array, Array, Array]:
        """Split `tensor` into pieces on one tile each, and return arrays `(begin, count, tile)`.

        `begin` is the index of the first element of each piece, in row-major order of `tensor`, and
        `count` is its number of elements. `tile` is -1 for a piece that is not mapped, and -2 for a
        piece on a tile outside a virtual graph. Raises `InvalidTileMappingError` if an element is
        not mapped and `require_complete` is True, or if an element is on a tile outside a virtual
        graph and `allow_external` is False.
        """
        self._own(tensor)
        pieces = pieces_by_tile(tensor, self.tile_map())
        _, count, tile = pieces
        if require_complete and np.any(tile == UNMAPPED):
            missing = int(count[tile == UNMAPPED].sum())
            raise InvalidTileMappingError(
                f"{missing:,} of the {tensor.num_elements:,} elements of {self.describe(tensor)} "
                "are not mapped to any tile."
                if missing < tensor.num_elements
                else f"{self.describe(tensor)} is not mapped to any tile.",
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
        return pieces

    def map_pieces(self, tensor: Tensor, begin: Array, count: Array, tile: Array) -> None:
        """For each i, map `count[i]` elements of `tensor` to tile `tile[i]`, from index `begin[i]`.

        Indices count elements in row-major order. Raises `InvalidTileMappingError` if a tile does
        not exist.
        """
        self._own(tensor)
        numbers = self._tiles.numbers(tile, self.describe(tensor))
        self._mapping.add_pieces(tensor, begin, begin + count, numbers)

    def tile_map(self) -> TileTable:
        """Return the tile of every byte of memory after the mapping calls so far.

        Tiles have the numbers of this graph. In a virtual graph, these numbers differ from the
        numbers in the top-level graph.
        """
        return self._tiles.renumber(self._mapping.table())

    def create_virtual_graph(self, *tiles: TileChoice) -> Graph:
        """Return a graph with some of this graph's tiles, numbered from 0.

        `create_virtual_graph(n)` takes the first n tiles of each IPU, `create_virtual_graph(first,
        end)` takes a range of tiles, and `create_virtual_graph([7, 3])` takes the tiles in a list.
        Variables and vertices that are added to the virtual graph belong to this graph, and are
        mapped to these tiles. Raises `InvalidTileMappingError` and `GraphObjectCreationError`.
        """
        from ipu_teach.graph.virtual import VirtualGraph

        return VirtualGraph(self, *tiles)

    def get_top_level_graph(self) -> Graph:
        """Return the graph that has all tiles: this graph, unless it is virtual or replicated.

        For a virtual graph, it is the graph from which the virtual graph was created, possibly in
        several steps. For a replicated graph, it is the graph with the tiles of all replicas.
        """
        return self._top.replication.whole or self._top

    def owns(self, tensor: Tensor) -> bool:
        """Return whether `tensor` belongs to this graph or to a virtual graph of the same graph."""
        return isinstance(tensor, Tensor) and tensor.graph is self._top

    # Methods for replicas

    def get_replication_factor(self) -> int:
        """Return the number of replicas of this graph, 1 if it is not replicated."""
        return self.replication.count

    def create_replicated_graph(self, count: int) -> Graph:
        """Return a graph with `count` replicas, each on an equal part of this graph's IPUs.

        This graph becomes the top-level graph of the result. Raises `GraphReplicationError`.
        """
        replicated = Graph(target_of_one(self._top.target, count))
        join(self._top, replicated, count)
        return replicated

    def add_replication_index_constant(self, *, debug_context: str | None = None) -> Tensor:
        """Add and return an UNSIGNED_INT constant of shape (): the replica's number, from 0."""
        tensor = self.add_constant(UNSIGNED_INT, (), 0, "replica", debug_context=debug_context)
        if self.replication.count > 1:
            self.initial_values[-1] = tensor, np.arange(self.replication.count, dtype=np.uint32)
        return tensor

    def get_non_replicated_tensor(self, tensor: Tensor) -> Tensor:
        """Return a tensor of the top-level graph that contains `tensor` of every replica.

        `tensor` belongs to the replicated graph. For R replicas and a tensor of shape s, the result
        has the shape (R, *s), and row r belongs to replica r. If the graph is not replicated, the
        result is the tensor with a first axis of length 1.
        """
        top_level = self.get_top_level_graph()
        part = top_level.replication.part
        if part is None:
            self._own(tensor)
            return tensor.expand(0)
        part._own(tensor)
        return whole_tensor(tensor, top_level, part.replication.count, APART)

    # Methods for compute sets and vertices

    def add_compute_set(
        self, name: str | None = None, *, debug_context: str | None = None
    ) -> ComputeSet:
        """Add and return an empty compute set."""
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
        **fields: FieldValue,
    ) -> VertexRef:
        """Add a vertex of the class `codelet`, or of the codelet with that name.

        The values of its fields are keywords, or are in the dict `connections`: a tensor for an
        edge (for `Vector[Vector[T]]` also a list of vectors), and the initial value for a state
        field. `connect` connects a field later. Error messages call the vertex by its
        `debug_context`. Raises `UnknownVertexTypeError`, `UnknownFieldError`, `PoplarTypeError` and
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
                connections, which are not a dict.
                next:  name the fields: add_vertex(compute_set, codelet, a=tensor), or give a
                dict.""")
        all_fields = {**connections, **fields} if connections else fields
        row = len(table.order)
        usual = len(all_fields) <= table.most_usual
        try:
            # Fast path for a loop that adds many similar vertices. If the table knows the forms of
            # the tensors, the vertex needs no further check.
            for name, known, add_layout, add_offset in table.columns if usual else ():
                tensor: Any = all_fields[name]
                add_layout(known[tensor.form])
                add_offset(tensor.offset)
        except (AttributeError, KeyError, TypeError):
            usual = False
        except BaseException:  # An interrupt must not leave a row that is only partly written.
            table.drop(row)
            raise
        if not usual:
            table.fill(row, all_fields)
        table.order.append(compute_set.num_vertices)
        table.tiles.append(-1)
        compute_set.num_vertices += 1
        added = table.added
        frame = sys._getframe(1)
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
        **fields: FieldValue,
    ) -> VertexRange:
        """Add many vertices of one class, with the same result as adding them one by one.

        `tiles` is one tile number, or an array with a tile number for each vertex. The first axis
        of each tensor numbers the vertices; if its length is 1, all vertices share the same region.
        A state field takes one number or an array. Raises the errors of `add_vertex` and
        `InvalidTileMappingError`.
        """
        from ipu_teach.graph.bulk import add_rows

        return add_rows(self, self._tiles, table_of(self._top, compute_set, codelet), tiles, fields)

    def add_columns(
        self,
        compute_set: ComputeSet,
        codelet: type[Vertex],
        tiles: Array,
        columns: Mapping[str, Column],
        fields: Mapping[str, FieldValue],
        order: Array | None = None,
    ) -> None:
        """Add a vertex on each of `tiles`.

        `columns` contains the edges that are connected to different tensors in different vertices:
        it maps the name of each such edge to a `Column` of tensors. `fields` contains the edges and
        state that are the same for all vertices. `order` contains the position of each vertex in
        the compute set. By default, the new vertices follow the existing ones.
        """
        from ipu_teach.graph.bulk import add_columns

        if len(tiles):
            numbers = self._tiles.numbers(tiles, f"vertices of {codelet.__name__}")
            table = table_of(self._top, compute_set, codelet)
            add_columns(table, numbers, columns, fields, order)

    def connect(self, field: FieldRef, value: Tensor | Sequence[Tensor]) -> None:
        """Connect a field of a vertex, such as `vertex["x"]`, or one part of a list of regions.

        A part is `vertex["parts"][0]`. For a state field, `value` becomes its initial value. Raises
        the errors of `add_vertex`, and for a part also `NoSizeSpecifiedError` and
        `PoplarIndexError`.
        """
        table, row, name = self._field(field)
        if field.index is not None:
            connect_part(field, value)
        elif name in table.state:
            table.set_state(row, name, value)
        else:
            table.connect(row, name, value)
            table.parts.pop((name, row), None)

    def set_field_size(self, field: FieldRef, size: int) -> None:
        """Set the length of a state field's Vector, or the number of parts of a list of regions.

        A list needs a size if its parts are connected one by one. Raises
        `GraphObjectCreationError`.
        """
        self._field(field, allow_list=True)
        set_field_size(field, size)

    def get_field_size(self, field: FieldRef) -> int:
        """Return the size of a field: the length of a vector, or the number of a list's parts.

        The size of a matrix is its number of rows, and the size of a single element is 1. Raises
        `NoSizeSpecifiedError` if the field has no size yet.
        """
        self._field(field, allow_list=True)
        return get_field_size(field)

    def add_codelets(self, *sources: object) -> None:
        """Register vertex classes, so that `add_vertex` finds them by name.

        `sources` are classes, modules, or paths of Python files. Each name can be registered once.
        If a source is wrong, nothing is registered. Raises `GraphObjectLoadError`, `FileLoadError`,
        `ParseError` and `GraphObjectCreationError`.
        """
        self.codelets.add(*sources)

    def has_codelet(self, name: str) -> bool:
        """Return whether `add_vertex` can find a codelet by this name."""
        return self.codelets.has(name)

    def set_perf_estimate(
        self, vertex: VertexRef | VertexRange, cycles: ArrayLike, flops: None = None
    ) -> None:
        """Set the modelled cycles of a vertex, which override all other models.

        `cycles` are worker cycles, or tile cycles for a SupervisorVertex and a MultiVertex. For a
        range of vertices, they are one number, or an array with a number for each vertex. `flops`
        must be None, as the kit does not count floating-point operations. Raises
        `GraphObjectCreationError`, and `NotOfferedError` if `flops` is given.
        """
        if flops is not None:
            raise not_here.no_flops()
        if not isinstance(vertex, (VertexRef, VertexRange)):
            raise GraphObjectCreationError(f"""set_perf_estimate() was given {shown(vertex)},
                which is not a vertex.
                next:  give the vertex that add_vertex returned.""")
        if vertex.table.graph is not self._top:
            raise foreign(vertex, "set_perf_estimate()")
        if isinstance(vertex, VertexRef):
            vertex.table.estimate(vertex.row, vertex.row + 1, cycles, vertex)
        else:
            vertex.table.estimate(vertex.start, vertex.stop, cycles, vertex)

    def register_perf_estimator(self, codelet: type[Vertex] | str, estimator: Estimator) -> None:
        """Register `estimator(shapes, target)`, which returns the cycles of a vertex of `codelet`.

        `shapes` maps field names to shapes; the shape of a list of vectors is a tuple of shapes.
        The modelled cycles are worker cycles, or tile cycles for a SupervisorVertex and a
        MultiVertex. The estimator takes precedence over the codelet's `cycles`, and
        `set_perf_estimate` takes precedence over both.
        """
        self.codelets.register(codelet, estimator)

    def get_perf_estimate(self, vertex: VertexRef) -> int:
        """Return the modelled cycles of a vertex, without running it.

        The first of these sources counts: `set_perf_estimate`, an estimator, and the codelet's
        `cycles`. Raises `MissingPerfEstimateError` if the vertex has no such source; the report
        then shows the cycles that are counted while compute() runs.
        """
        if not isinstance(vertex, VertexRef) or vertex.table.graph is not self._top:
            raise GraphObjectCreationError(f"""get_perf_estimate() was given {shown(vertex)},
                which is not a vertex of this graph.
                next:  give a vertex that add_vertex returned.""")
        return get_perf_estimate(self.codelets.estimators, self._top.target, vertex)

    def _field(self, ref: FieldRef, allow_list: bool = False) -> tuple[VertexTable, int, str]:
        if not isinstance(ref, FieldRef) or ref.vertex.table.graph is not self._top:
            raise GraphObjectCreationError(f"""{shown(ref)} is not a field of a vertex of this
                graph.
                next:  write vertex["name"], with a vertex that add_vertex of this graph
                returned.""")
        if allow_list and ref.index is not None:
            raise GraphObjectCreationError(f"""{ref!r} is one part of a field, and only connect()
                takes a part.
                next:  name the whole field: vertex["name"].""")
        return ref.vertex.table, ref.vertex.row, ref.name

    # Methods for the host's access

    def add_host_to_device_fifo(
        self,
        handle: str,
        dtype: type[DType],
        num_elements: int,
        mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE,
        options: Mapping[str, int | str] | None = None,
        *,
        buffering_depth: int | None = None,
        debug_context: str | None = None,
    ) -> DataStream:
        """Add a stream to the device. Each Copy from it transfers `num_elements` elements.

        `mode` decides whether each replica gets its own data. `buffering_depth`, which can also be
        in `options`, is the number of transfers that a `StreamCallback` prefetches. With a
        `debug_context`, the stream's handle is the path "debug_context/handle". Raises
        `GraphObjectCreationError`, `PoplarTypeError` and `InvalidOptionError`.
        """
        handle = scoped_handle(handle, debug_context, "add_host_to_device_fifo()")
        stream = make_stream(
            handle,
            dtype,
            num_elements,
            to_device=True,
            mode=mode,
            options=options,
            buffering_depth=buffering_depth,
        )
        return self._register_stream(stream)

    def add_device_to_host_fifo(
        self,
        handle: str,
        dtype: type[DType],
        num_elements: int,
        options: Mapping[str, int | str] | None = None,
        *,
        debug_context: str | None = None,
    ) -> DataStream:
        """Add a stream to the host. Each Copy to it transfers `num_elements` elements.

        With a `debug_context`, the stream's handle is the path "debug_context/handle". Raises
        `GraphObjectCreationError`, `PoplarTypeError` and `InvalidOptionError`.
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
        """Add a buffer in streaming memory with `repeats` rows of `num_elements` elements.

        With a `debug_context`, the buffer's handle is the path "debug_context/handle". Raises
        `GraphObjectCreationError` and `PoplarTypeError`.
        """
        handle = scoped_handle(handle, debug_context, "add_remote_buffer()")
        buffer = make_remote_buffer(handle, dtype, num_elements, repeats, self.replication.count)
        return register(self.remote_buffers, buffer, self.streams, self.host_accesses)

    def create_host_write(
        self, handle: str, tensor: Tensor, rearrange_on_host: bool = False
    ) -> None:
        """Let the host write `tensor` with `Engine.write_tensor(handle, values)`.

        `rearrange_on_host` has no effect: the host always uses the order of the tensor. Raises
        `GraphObjectCreationError` if the handle already exists, or if the tensor contains elements
        of a constant.
        """
        self._access(handle, tensor, write=True)

    def create_host_read(
        self, handle: str, tensor: Tensor, rearrange_on_host: bool = False
    ) -> None:
        """Let the host read `tensor` with `Engine.read_tensor(handle)`.

        `rearrange_on_host` has no effect: the host always uses the order of the tensor. Raises
        `GraphObjectCreationError` if the handle already exists.
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
        """Return a function for `Call` that runs `program`; the tiles store its code only once."""
        function = Function(
            self._top, name if name is not None else f"function{len(self.functions)}", program
        )
        self.functions.append(function)
        return function

    # Methods that draw the graph

    def output_vertex_graph(
        self, path: str | PathLike[str] | TextIO, programs: dot.Programs = None
    ) -> None:
        """Write the vertices and their variables as GraphViz text to a path or an open file.

        With `programs`, a program or a list of programs, only the vertices that they execute are
        drawn. Raises `GraphObjectCreationError`.
        """
        outline.write(dot.vertex_graph(self, programs), path, "output_vertex_graph()")

    def output_compute_graph(
        self, path: str | PathLike[str] | TextIO, programs: dot.Programs = None
    ) -> None:
        """Write the compute sets and their variables as GraphViz text to a path or an open file.

        With `programs`, a program or a list of programs, only the compute sets that they execute
        are drawn, and in addition the copies that they execute. By default, no copies are drawn.
        Raises `GraphObjectCreationError`.
        """
        outline.write(dot.compute_graph(self, programs), path, "output_compute_graph()")

    # Methods for layouts and names

    def listed(self, dtype: type[DType], positions: Array) -> Tensor:
        """Return a tensor of the elements at `positions` (int64), in the shape of `positions`.

        Positions count elements of `dtype` from the start of the graph's memory.
        """
        offset = int(positions.flat[0]) if positions.size else 0
        return Tensor.of(self._top, dtype, offset, self._layouts.listed(positions - offset))

    def variable_map(self) -> TileMap:
        """Return a tile map that contains each byte's variable number in place of its tile.

        Raises `GraphObjectCreationError` for the top-level graph of replicas.
        """
        if self._top.replication.part is not None:
            raise GraphObjectCreationError("""The top-level graph of replicas cannot list the
                variables behind a tensor.
                next:  use a tensor of the replicated graph.""")
        return self._variables.map()

    def constants_in(self, tensor: Tensor) -> list[Variable]:
        """Return the constants that contain elements of `tensor`."""
        return self._variables.constants_in(tensor)

    def describe(self, tensor: Tensor) -> str:
        """Return a tensor's description for error messages, such as "'x'" or "a view of 'x'"."""
        return self._variables.describe(tensor)

    def _own(self, tensor: Tensor) -> None:
        if not isinstance(tensor, Tensor) or tensor.graph is not self._top:
            raise GraphObjectCreationError(f"""{shown(tensor)} is not a tensor of this graph.
                next:  use a tensor that this graph's add_variable or add_constant returned, or a
                view of one.""")

    def __repr__(self) -> str:
        return outline.graph_line(self)

    def _repr_html_(self) -> str:
        return outline.graph_tables(self)
