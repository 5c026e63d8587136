"""Adding many vertices in one call: the same rows as one by one, written as entire columns."""

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

MOST_VERTICES = 10**8  # the limit of one call: their columns take 4 GB

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph


def add_rows(
    graph: Graph,
    known: Tiles,
    table: VertexTable,
    tiles: ArrayLike,
    fields: Mapping[str, FieldValue],
) -> VertexRange:
    """Add a vertex for each item of the leading axes, as `Graph.add_vertices` does, for one table.

    All arguments are checked before the first column changes. `known` are the tiles of the graph.
    """
    for name in fields:
        if name not in table.codelet.fields:
            raise unknown_field(table.codelet, name)
    numbers = known.numbers(tiles, f"add_vertices() of {table.codelet.__name__}")
    if numbers.ndim > 1:
        raise GraphObjectCreationError(f"""add_vertices() of {table.codelet.__name__} was given
            tiles of shape {numbers.shape}.
            next:  give one tile for all vertices, or a list with one for each.""")
    count = _count(table, numbers, fields)
    columns = {
        name: _edge(graph, table, f, fields.get(name), count) for name, f in table.edges.items()
    }
    state = {
        name: _state(table, f, fields.get(name, f.default), count)
        for name, f in table.state.items()
    }

    start = len(table)
    _extend(table, count, numbers, columns, state)
    table.added.note(sys._getframe(2), start)
    return VertexRange(table, start, start + count)


class Column(NamedTuple):
    """The edges of several vertices on one field.

    `offset[i]` is the first element of vertex i's edge, and `forms[form[i]]` is its form.
    """

    offset: Array
    form: Array
    forms: list[Form]

    @classmethod
    def of(cls, tensors: Iterable[Tensor]) -> Column:
        """Return the column with one tensor for each vertex."""
        numbers: dict[Form, int] = {}
        form = array("q")
        offset = array("q")
        for tensor in tensors:
            form.append(numbers.setdefault(tensor.form, len(numbers)))
            offset.append(tensor.offset)
        return cls(np.array(offset, np.int64), np.array(form, np.int64), list(numbers))

    def at(self, chosen: Array) -> Column:
        """Return the column of the vertices at the indices `chosen`."""
        return Column(self.offset[chosen], self.form[chosen], self.forms)


def listed_column(
    graph: Graph, dtype: type[DType], count: int, parts: Iterable[tuple[Array, Array]]
) -> Column:
    """Return the column of `count` vertices with explicit element positions.

    Each of `parts` is (vertices, positions) for vertices whose edges have the same shape: their
    numbers, and an int64 array of shape (vertices, *shape).
    """
    offset = np.zeros(count, np.int64)
    form = np.zeros(count, np.int64)
    forms = list[Form]()
    for vertices, positions in parts:
        rows = positions.reshape(len(vertices), -1)
        ids, form_of_row = _listed(graph, dtype, rows - rows[:, :1], positions.shape[1:])
        offset[vertices] = rows[:, 0]
        form[vertices] = len(forms) + form_of_row
        for number in ids.tolist():
            layout = graph.layouts[number]
            assert isinstance(layout, Layout)
            forms.append(graph.form(dtype, layout))
    return Column(offset, form, forms)


def numbered(*keys: Array) -> tuple[Array, list[tuple[int, ...]]]:
    """Number the distinct rows of `keys` by first appearance.

    `keys` are columns of integers of 0 or more. Returns the number of each row, and the row with
    each number.
    """
    _, first, inverse = np.unique(combined(*keys), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    distinct = zip(*(key[first[order]].tolist() for key in keys), strict=True)
    return rank[inverse.reshape(-1)], list(distinct)


def members(numbers: Array, count: int) -> list[Array]:
    """Return, for each number below `count`, the ascending indices at which `numbers` has it."""
    order = order_of(numbers)
    return np.split(order, np.cumsum(np.bincount(numbers, minlength=count))[:-1])


def add_columns(
    table: VertexTable,
    numbers: Array,
    columns: Mapping[str, Column],
    fields: Mapping[str, FieldValue],
    order: Array | None,
) -> None:
    """Add vertices as `Graph.add_columns` does, for one table.

    `numbers` are the machine's tile numbers.
    """
    count, start = len(numbers), len(table)
    edges: dict[str, tuple[Array, Array]] = {}
    for name, field in table.edges.items():
        if name in columns:
            edges[name] = columns[name].offset, _layout_ids(table, field, columns[name])
        else:
            value = fields.get(name)
            pair = (UNCONNECTED, UNCONNECTED) if value is None else table.edge(name, value)
            edges[name] = np.full(count, pair[0]), np.full(count, pair[1])
    state = {
        name: [None if value is None else table.state_value(name, value)] * count
        for name, field in table.state.items()
        for value in [fields.get(name, field.default)]
    }
    if not {*columns, *fields} <= table.codelet.fields.keys():
        unknown = next(n for n in (*columns, *fields) if n not in table.codelet.fields)
        raise unknown_field(table.codelet, unknown)
    _extend(table, count, numbers, edges, state, order)
    frame = sys._getframe(2)
    table.added.note(frame, start)
    table.placed.note(frame, start, start + count)


def _layout_ids(table: VertexTable, field: Field, column: Column) -> Array:
    """Return the layout id of each vertex's edge: int32[vertices]."""
    known = table.known[field.name]
    for number, form in enumerate(column.forms):
        if form not in known:
            first = int(column.offset[np.argmax(column.form == number)])
            table.check(field, Tensor(first, form))
            known[form] = form.layout.id
    ids: Array = np.array([known[form] for form in column.forms], np.int32)[column.form]
    return ids


def _extend(
    table: VertexTable,
    count: int,
    numbers: Array,
    edges: Mapping[str, tuple[Array, Array]],
    state: Mapping[str, list[Any]],
    order: Array | None = None,
) -> None:
    """Append checked columns for `count` vertices.

    `edges` maps each edge to (offsets, layout ids). `order` contains the numbers of the vertices in
    the compute set; by default they follow the existing ones.
    """
    start = len(table)
    first = table.compute_set.num_vertices
    if order is None:
        order = np.arange(first, first + count)
    try:
        for name, (offsets, layouts) in edges.items():
            table.offsets[name].frombytes(offsets.astype(np.int64).tobytes())
            table.layouts[name].frombytes(layouts.astype(np.int32).tobytes())
        for name, values in state.items():
            table.state_values[name].extend(values)
        table.tiles.frombytes(np.broadcast_to(numbers, (count,)).astype(np.int32).tobytes())
        table.order.frombytes(order.astype(np.int32).tobytes())
    except BaseException:
        table.drop(start)
        raise
    table.compute_set.num_vertices += count


def _count(table: VertexTable, tiles: Array, fields: Mapping[str, FieldValue]) -> int:
    """Return the length of the vertex axis, on which tiles, tensors and state must agree."""
    lengths: list[tuple[str, int]] = [] if tiles.ndim == 0 else [("tiles", len(tiles))]
    for name, value in fields.items():
        if name in table.state:
            length = _state_length(value, table.state[name].depth)
            lengths += [] if length is None else [(name, length)]
            continue
        for part in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(part, Tensor):
                if part.rank == 0:
                    raise GraphConnectionError(f"""{table.codelet.__name__}.{name} was given a
                        single element in add_vertices(): it has no vertex axis.
                        where: {part!r}
                        next:  give it a leading axis, of length 1 to share it: tensor.reshape((1,
                        …)).""")
                lengths.append((name, part.shape[0]))
    longer = {(name, n) for name, n in lengths if n != 1}
    if len({n for _, n in longer}) > 1:
        raise GraphObjectCreationError(
            f"add_vertices() of {table.codelet.__name__} was given different numbers of vertices: "
            + ", ".join(f"{n:,} by {name}" for name, n in dict.fromkeys(lengths) if n != 1)
            + ".",
            next_step=(
                "make the leading axes equal, or 1 to share; add a ragged tail with a second call."
            ),
        )
    count = next((n for _, n in longer), 1)
    if count > MOST_VERTICES:
        raise GraphObjectCreationError(f"""add_vertices() of {table.codelet.__name__} was asked for
            {count:,} vertices.
            next:  add at most {MOST_VERTICES:,}; each vertex takes a row of the leading axis.""")
    return count


def _state_length(value: Any, depth: int) -> int | None:
    """Return the length of the vertex axis of a state field's values.

    Return None if `value` has no such axis, or is invalid so that `_state` will refuse it.
    """
    try:
        return len(value) if np.ndim(value) == 1 + depth else None
    except (TypeError, ValueError):
        return None


def _edge(
    graph: Graph, table: VertexTable, field: Field, value: FieldValue, count: int
) -> tuple[Array, Array]:
    """Return (offsets, layout ids) of one field for `count` vertices."""
    if value is None:
        return np.full(count, UNCONNECTED), np.full(count, UNCONNECTED)
    if isinstance(value, Tensor):
        table.check(field, value, lead=1)
        offsets, layouts = _rows(graph, value)
        return np.broadcast_to(offsets, (count,)), np.broadcast_to(layouts, (count,))
    if not is_tensor_list(value) or not value or not field.takes_parts:
        several = ", or a list of them" if field.depth == 2 or field.form else ""
        raise GraphConnectionError(f"""{table.codelet.__name__}.{field.name} is declared as
            {field.declaration()} and was given {shown(value)}.
            next:  connect a tensor{several}.""")
    for tensor in value:
        table.check(field, tensor, part=True, lead=1)
    if field.depth == 1:
        return _elements(graph, field, value, count)
    parts = [tuple(np.broadcast_to(c, (count,)) for c in _rows(graph, t)) for t in value]
    first = parts[0][0]
    signature = np.stack(
        [c for offsets, layouts in parts for c in (offsets - first, layouts)], axis=1
    )
    distinct, inverse = np.unique(signature, axis=0, return_inverse=True)
    ids = []
    for row in distinct:
        pairs = zip(row[0::2], row[1::2], strict=True)
        ids.append(graph.list_layout(tuple((int(d), graph.layouts[lay]) for d, lay in pairs)).id)
    return first, np.asarray(ids)[inverse.reshape(-1)]


def _elements(
    graph: Graph, field: Field, parts: Sequence[Tensor], count: int
) -> tuple[Array, Array]:
    """Return (offsets, layout ids) if every vertex takes one element of each of `parts`."""
    places = np.stack([np.broadcast_to(_rows(graph, t)[0], (count,)) for t in parts], axis=1)
    ids, layout_of_row = _listed(graph, field.dtype, places - places[:, :1], (len(parts),))
    return places[:, 0], ids[layout_of_row]


def _rows(graph: Graph, tensor: Tensor) -> tuple[Array, Array]:
    """Return (offsets, layout ids) of the rows along a tensor's leading axis."""
    n = tensor.shape[0]
    layout = tensor.layout
    if layout.strides is not None:
        row = graph.strided(layout.shape[1:], layout.strides[1:])
        return tensor.offset + np.arange(n) * layout.strides[0], np.full(n, row.id)
    places = tensor.positions().reshape(n, -1)
    ids, layout_of_row = _listed(graph, tensor.dtype, places - places[:, :1], layout.shape[1:])
    return places[:, 0], ids[layout_of_row]


def _listed(graph: Graph, dtype: type[DType], rows: Array, shape: Shape) -> tuple[Array, Array]:
    """Return (ids of the distinct layouts, the index into them of each row).

    Each of `rows` contains the element positions of a region of `shape`, relative to the first.
    """
    if np.all(rows == rows[:1]):  # the usual case: regions of equal shape
        distinct = rows[:1]
        index = np.zeros(rows.shape[:1], np.int64)
    else:
        distinct, index = np.unique(rows, axis=0, return_inverse=True)
    ids = [graph.listed(dtype, row.reshape(shape)).layout.id for row in distinct]
    return np.array(ids), index.reshape(-1)


def _state(table: VertexTable, field: Field, value: FieldValue, count: int) -> list[Any]:
    """Return the values of one state field for `count` vertices; None means unwritten."""
    if value is None:
        return [None] * count
    if isinstance(value, Tensor) or _state_length(value, field.depth) is None:
        return [table.state_value(field.name, value)] * count
    array = to_host_array(value, field.dtype, f"{table.codelet.__name__}.{field.name}")
    return list(np.broadcast_to(array, (count, *array.shape[1:])))
