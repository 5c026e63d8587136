"""Adding many vertices in one call, which writes complete columns of a table, not single rows."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import GraphConnectionError, GraphObjectCreationError, shown
from ipu_teach.graph.layouts import Form, Layout, Shape
from ipu_teach.graph.mapping import Tiles
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import combined, order_of
from ipu_teach.graph.vertex import Field, unknown_field
from ipu_teach.graph.vertex_table import (
    UNCONNECTED,
    FieldValue,
    VertexRange,
    VertexTable,
    is_tensor_list,
)
from ipu_teach.types import Array, DType, to_host_array

# The maximum number of vertices that one call can add. The columns of this number of vertices take
# 4 GB.
MOST_VERTICES = 10**8

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph


def add_rows(
    graph: Graph,
    known: Tiles,
    table: VertexTable,
    tiles: ArrayLike,
    fields: Mapping[str, FieldValue],
) -> VertexRange:
    """Add many vertices to one table, and return their range.

    This function does the work of `Graph.add_vertices`. The first axis of each argument numbers the
    vertices. All arguments are checked before the table changes. `known` are the tiles of the
    graph.
    """
    for name in fields:
        if name not in table.codelet.fields:
            raise unknown_field(table.codelet, name)
    tile_numbers = known.numbers(tiles, f"add_vertices() of {table.codelet.__name__}")
    if tile_numbers.ndim > 1:
        raise GraphObjectCreationError(f"""add_vertices() of {table.codelet.__name__} was given
            tiles of shape {tile_numbers.shape}, which has more than one dimension.
            next:  give one tile for all vertices, or a list with one for each.""")
    num_vertices = _count(table, tile_numbers, fields)
    columns = {
        name: _edge(graph, table, field, fields.get(name), num_vertices)
        for name, field in table.edges.items()
    }
    state = {
        name: _state(table, field, fields.get(name, field.default), num_vertices)
        for name, field in table.state.items()
    }

    first_row = len(table)
    _extend(table, num_vertices, tile_numbers, columns, state)
    table.added.note(sys._getframe(2), first_row)
    return VertexRange(table, first_row, first_row + num_vertices)


class Column(NamedTuple):
    """The tensors that are connected to one edge of many vertices, stored as arrays.

    The region of vertex i begins at element `offset[i]` of the graph's memory. It has the form
    (dtype and layout) `forms[form[i]]`.
    """

    offset: Array
    form: Array
    forms: list[Form]

    @classmethod
    def of(cls, tensors: Iterable[Tensor]) -> Column:
        """Return the column that connects vertex i to item i of `tensors`."""
        numbers: dict[Form, int] = {}
        form = array("q")
        offset = array("q")
        for tensor in tensors:
            form.append(numbers.setdefault(tensor.form, len(numbers)))
            offset.append(tensor.offset)
        return cls(np.array(offset, np.int64), np.array(form, np.int64), list(numbers))

    def at(self, chosen: Array) -> Column:
        """Return the part of this column for the vertices at the indices `chosen`."""
        return Column(self.offset[chosen], self.form[chosen], self.forms)


def listed_column(
    graph: Graph, dtype: type[DType], num_vertices: int, groups: Iterable[tuple[Array, Array]]
) -> Column:
    """Return the column that connects vertices to elements at given positions in memory.

    The column has an entry for each of `num_vertices` vertices. Each item of `groups` is a pair
    `(numbers, positions)` for vertices whose regions have the same shape. `numbers` are the indices
    of these vertices in the column, and `positions` is an int64 array of shape (vertices, *shape).
    """
    offsets = np.zeros(num_vertices, np.int64)
    form_numbers = np.zeros(num_vertices, np.int64)
    forms = list[Form]()
    for vertex_numbers, positions in groups:
        position_rows = positions.reshape(len(vertex_numbers), -1)
        layout_ids, form_of_row = _listed(
            graph, dtype, position_rows - position_rows[:, :1], positions.shape[1:]
        )
        offsets[vertex_numbers] = position_rows[:, 0]
        form_numbers[vertex_numbers] = len(forms) + form_of_row
        for layout_id in layout_ids.tolist():
            layout = graph.layouts[layout_id]
            assert isinstance(layout, Layout)
            forms.append(graph.form(dtype, layout))
    return Column(offsets, form_numbers, forms)


def numbered(*keys: Array) -> tuple[Array, list[tuple[int, ...]]]:
    """Number the distinct rows of `keys` by first appearance.

    `keys` are columns of integers of 0 or more. Return (the number of each row, the list of
    distinct rows in the order of their numbers).
    """
    _, first_rows, key_of_row = np.unique(combined(*keys), return_index=True, return_inverse=True)
    appearance_order = np.argsort(first_rows)
    number_of_key = np.empty_like(appearance_order)
    number_of_key[appearance_order] = np.arange(len(appearance_order))
    distinct_rows = zip(*(key[first_rows[appearance_order]].tolist() for key in keys), strict=True)
    return number_of_key[key_of_row.reshape(-1)], list(distinct_rows)


def members(numbers: Array, count: int) -> list[Array]:
    """Return, for each number below `count`, its indices in `numbers` in ascending order."""
    order = order_of(numbers)
    return np.split(order, np.cumsum(np.bincount(numbers, minlength=count))[:-1])


def add_columns(
    table: VertexTable,
    numbers: Array,
    columns: Mapping[str, Column],
    fields: Mapping[str, FieldValue],
    order: Array | None,
) -> None:
    """Add vertices to one table. This function does the work of `Graph.add_columns`.

    `numbers` are the tiles of the vertices, in the machine's tile numbers. `columns` contains the
    connections of the edges that differ between the vertices, and `fields` contains the edges and
    state that all vertices share. `order` contains the position of each vertex in the compute set,
    or is None to append the vertices.
    """
    num_vertices, first_row = len(numbers), len(table)
    edges: dict[str, tuple[Array, Array]] = {}
    for name, field in table.edges.items():
        if name in columns:
            edges[name] = columns[name].offset, _layout_ids(table, field, columns[name])
        else:
            value = fields.get(name)
            offset_and_layout = (
                (UNCONNECTED, UNCONNECTED) if value is None else table.edge(name, value)
            )
            edges[name] = (
                np.full(num_vertices, offset_and_layout[0]),
                np.full(num_vertices, offset_and_layout[1]),
            )
    state = {
        name: [None if value is None else table.state_value(name, value)] * num_vertices
        for name, field in table.state.items()
        for value in [fields.get(name, field.default)]
    }
    if not {*columns, *fields} <= table.codelet.fields.keys():
        unknown = next(
            field_name
            for field_name in (*columns, *fields)
            if field_name not in table.codelet.fields
        )
        raise unknown_field(table.codelet, unknown)
    _extend(table, num_vertices, numbers, edges, state, order)
    frame = sys._getframe(2)
    table.added.note(frame, first_row)
    table.placed.note(frame, first_row, first_row + num_vertices)


def _layout_ids(table: VertexTable, field: Field, column: Column) -> Array:
    """Return the layout id of each vertex's edge: int32[vertices]."""
    known = table.known[field.name]
    for form_number, form in enumerate(column.forms):
        if form not in known:
            first_offset = int(column.offset[np.argmax(column.form == form_number)])
            table.check(field, Tensor(first_offset, form))
            known[form] = form.layout.id
    ids: Array = np.array([known[form] for form in column.forms], np.int32)[column.form]
    return ids


def _extend(
    table: VertexTable,
    num_vertices: int,
    tile_numbers: Array,
    edges: Mapping[str, tuple[Array, Array]],
    state: Mapping[str, list[Any]],
    order: Array | None = None,
) -> None:
    """Append `num_vertices` vertices, given as columns that have been checked, to `table`.

    `tile_numbers` are the tiles of the vertices. `edges` maps the name of each edge to (offsets,
    layout ids), and `state` maps the name of each state field to its values. `order` contains the
    position of each vertex in the compute set. By default, the new vertices follow those that the
    compute set already has.
    """
    first_row = len(table)
    first_vertex = table.compute_set.num_vertices
    if order is None:
        order = np.arange(first_vertex, first_vertex + num_vertices)
    try:
        for name, (offsets, layouts) in edges.items():
            table.offsets[name].frombytes(offsets.astype(np.int64).tobytes())
            table.layouts[name].frombytes(layouts.astype(np.int32).tobytes())
        for name, values in state.items():
            table.state_values[name].extend(values)
        table.tiles.frombytes(
            np.broadcast_to(tile_numbers, (num_vertices,)).astype(np.int32).tobytes()
        )
        table.order.frombytes(order.astype(np.int32).tobytes())
    except BaseException:
        table.drop(first_row)
        raise
    table.compute_set.num_vertices += num_vertices


def _count(table: VertexTable, tiles: Array, fields: Mapping[str, FieldValue]) -> int:
    """Return the number of vertices: the length of the first axis of the arguments.

    Tiles, tensors and state must have this length, or the length 1 for a value that all vertices
    use.
    """
    lengths: list[tuple[str, int]] = [] if tiles.ndim == 0 else [("tiles", len(tiles))]
    for name, value in fields.items():
        if name in table.state:
            length = _state_length(value, table.state[name].depth)
            lengths += [] if length is None else [(name, length)]
            continue
        for tensor_or_value in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(tensor_or_value, Tensor):
                if tensor_or_value.rank == 0:
                    raise GraphConnectionError(f"""{table.codelet.__name__}.{name} was given a
                        single element in add_vertices(), so it has no axis that numbers the
                        vertices.
                        where: {tensor_or_value!r}
                        next:  give it a leading axis. All vertices share an axis of length 1:
                        tensor.reshape((1, …)).""")
                lengths.append((name, tensor_or_value.shape[0]))
    unshared_lengths = {(name, num_items) for name, num_items in lengths if num_items != 1}
    if len({num_items for _, num_items in unshared_lengths}) > 1:
        raise GraphObjectCreationError(
            f"add_vertices() of {table.codelet.__name__} was given different numbers of vertices: "
            + ", ".join(
                f"{num_items:,} by {name}"
                for name, num_items in dict.fromkeys(lengths)
                if num_items != 1
            )
            + ".",
            next_step=(
                "give all arguments a first axis of equal length, or of length 1 for what all "
                "vertices share. Add other vertices with a second call."
            ),
        )
    num_vertices = next((num_items for _, num_items in unshared_lengths), 1)
    if num_vertices > MOST_VERTICES:
        raise GraphObjectCreationError(f"""add_vertices() of {table.codelet.__name__} was asked for
            {num_vertices:,} vertices.
            next:  add at most {MOST_VERTICES:,}; each vertex takes a row of the leading axis.""")
    return num_vertices


def _state_length(value: Any, depth: int) -> int | None:
    """Return the number of vertices for which `value` contains a value of a state field.

    Return None if `value` is a single value for all vertices, or is invalid; `_state` raises the
    error for an invalid value. A single value has `depth` dimensions.
    """
    try:
        return len(value) if np.ndim(value) == 1 + depth else None
    except (TypeError, ValueError):
        return None


def _edge(
    graph: Graph, table: VertexTable, field: Field, value: FieldValue, num_vertices: int
) -> tuple[Array, Array]:
    """Return (offsets, layout ids) of one field for `num_vertices` vertices.

    A layout id is the number of a layout in its graph.
    """
    if value is None:
        return np.full(num_vertices, UNCONNECTED), np.full(num_vertices, UNCONNECTED)
    if isinstance(value, Tensor):
        table.check(field, value, lead=1)
        offsets, layouts = _rows(graph, value)
        return np.broadcast_to(offsets, (num_vertices,)), np.broadcast_to(layouts, (num_vertices,))
    if not is_tensor_list(value) or not value or not field.takes_parts:
        several = ", or a list of them" if field.depth == 2 or field.form else ""
        raise GraphConnectionError(f"""{table.codelet.__name__}.{field.name} is declared as
            {field.declaration()}, but was given {shown(value)}.
            next:  connect a tensor{several}.""")
    for tensor in value:
        table.check(field, tensor, part=True, lead=1)
    if field.depth == 1:
        return _elements(graph, field, value, num_vertices)
    columns_by_tensor = [
        tuple(np.broadcast_to(column, (num_vertices,)) for column in _rows(graph, tensor_of_part))
        for tensor_of_part in value
    ]
    first_offsets = columns_by_tensor[0][0]
    signature = np.stack(
        [
            column
            for offsets, layouts in columns_by_tensor
            for column in (offsets - first_offsets, layouts)
        ],
        axis=1,
    )
    distinct, inverse = np.unique(signature, axis=0, return_inverse=True)
    list_ids = []
    for row in distinct:
        offsets_and_layouts = zip(row[0::2], row[1::2], strict=True)
        list_ids.append(
            graph.list_layout(
                tuple(
                    (int(delta), graph.layouts[layout_id])
                    for delta, layout_id in offsets_and_layouts
                )
            ).id
        )
    return first_offsets, np.asarray(list_ids)[inverse.reshape(-1)]


def _elements(
    graph: Graph, field: Field, parts: Sequence[Tensor], count: int
) -> tuple[Array, Array]:
    """Return (offsets, layout ids) of a field that connects vertex i to entry i of each part.

    `parts` are tensors. The entries of a part are its elements along the first axis. If a part has
    only one entry, all vertices share it. Both arrays have an entry for each of `count` vertices.
    """
    places = np.stack([np.broadcast_to(_rows(graph, t)[0], (count,)) for t in parts], axis=1)
    ids, layout_of_row = _listed(graph, field.dtype, places - places[:, :1], (len(parts),))
    return places[:, 0], ids[layout_of_row]


def _rows(graph: Graph, tensor: Tensor) -> tuple[Array, Array]:
    """Return (offsets, layout ids) of `tensor[i]` for each index i of the first axis.

    A layout id is the number of a layout in its graph.
    """
    num_rows = tensor.shape[0]
    layout = tensor.layout
    if layout.strides is not None:
        row_layout = graph.strided(layout.shape[1:], layout.strides[1:])
        return tensor.offset + np.arange(num_rows) * layout.strides[0], np.full(
            num_rows, row_layout.id
        )
    row_positions = tensor.positions().reshape(num_rows, -1)
    layout_ids, layout_of_row = _listed(
        graph, tensor.dtype, row_positions - row_positions[:, :1], layout.shape[1:]
    )
    return row_positions[:, 0], layout_ids[layout_of_row]


def _listed(graph: Graph, dtype: type[DType], rows: Array, shape: Shape) -> tuple[Array, Array]:
    """Return (ids, indices): the distinct layouts' ids, and for each row the index of its id.

    Each row of `rows` contains the element positions of a region, relative to its first element.
    `shape` is the shape of every region.
    """
    if np.all(rows == rows[:1]):  # The usual case: all regions have the same shape.
        distinct_rows = rows[:1]
        layout_of_row = np.zeros(rows.shape[:1], np.int64)
    else:
        distinct_rows, layout_of_row = np.unique(rows, axis=0, return_inverse=True)
    ids = [graph.listed(dtype, row.reshape(shape)).layout.id for row in distinct_rows]
    return np.array(ids), layout_of_row.reshape(-1)


def _state(table: VertexTable, field: Field, value: FieldValue, count: int) -> list[Any]:
    """Return the values of one state field for `count` vertices, with None for unwritten values."""
    if value is None:
        return [None] * count
    if isinstance(value, Tensor) or _state_length(value, field.depth) is None:
        return [table.state_value(field.name, value)] * count
    array = to_host_array(value, field.dtype, f"{table.codelet.__name__}.{field.name}")
    return list(np.broadcast_to(array, (count, *array.shape[1:])))
