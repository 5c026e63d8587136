"""Sizes of fields: of state vectors, and of lists of vectors that are connected in parts.

A list of two vectors whose parts are connected one after another:

    graph.set_field_size(vertex["parts"], 2)
    graph.connect(vertex["parts"][0], a)
    graph.connect(vertex["parts"][1], b)
"""

from __future__ import annotations

from ipu_teach.errors import (
    GraphConnectionError,
    GraphObjectCreationError,
    NoSizeSpecifiedError,
    PoplarIndexError,
    counted,
    shown,
)
from ipu_teach.graph.layouts import ListLayout, is_whole
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex_table import UNCONNECTED, FieldRef, FieldValue, VertexTable

MOST_PARTS = 10**6


def set_field_size(ref: FieldRef, size: int) -> None:
    """Set the length of a state field's Vector, or the number of parts of a list of regions.

    This function does the work of `Graph.set_field_size`.
    """
    table = ref.vertex.table
    row = ref.vertex.row
    name = ref.name
    field = table.codelet.fields[name]
    if not is_whole(size) or not 0 <= size <= MOST_PARTS:
        raise GraphObjectCreationError(f"""set_field_size() was given the size {shown(size)},
            which is not valid.
            where: {ref!r}
            next:  give a whole number from 0 to {MOST_PARTS:,}.""")
    if field.takes_parts:
        table.parts[name, row] = [None] * int(size)
        table.offsets[name][row] = table.layouts[name][row] = UNCONNECTED
    elif name in table.state and field.depth:
        value = table.state_values[name][row]
        if value is not None and len(value) != size:
            raise GraphObjectCreationError(f"""set_field_size() was given the size {size:,} for
                {table.codelet.__name__}.{name}, whose value has {counted(len(value), "element")}.
                where: {ref!r}
                next:  leave the call out: the size is that of the value.""")
        table.sizes[name, row] = int(size)
    else:
        advice = (
            "connect a tensor, which sets the size" if field.depth else "it is a single element"
        )
        raise GraphObjectCreationError(f"""{table.codelet.__name__}.{name} is declared as
            {field.declaration()} and takes no size.
            where: {ref!r}
            next:  {advice}.""")


def get_field_size(ref: FieldRef) -> int:
    """Return the size of a field: the length of a vector, or the number of a list's parts.

    The size of a matrix is its number of rows, and the size of a single element is 1. Raises
    `NoSizeSpecifiedError` if the field has no size yet.
    """
    table = ref.vertex.table
    row = ref.vertex.row
    name = ref.name
    if name in table.state:
        return state_size(table, row, name) if table.state[name].depth else 1
    if (name, row) in table.parts:
        return len(table.parts[name, row])
    number = table.layouts[name][row]
    if number == UNCONNECTED:
        raise _unsized(ref)
    layout = table.graph.layouts[number]
    if isinstance(layout, ListLayout):
        return len(layout.parts)
    return layout.shape[0] if layout.shape and table.edges[name].depth else 1


def state_size(table: VertexTable, row: int, name: str) -> int:
    """Return the length of a state field's Vector. Raises `NoSizeSpecifiedError`."""
    value = table.state_values[name][row]
    if value is None and (name, row) not in table.sizes:
        from ipu_teach.graph.vertex_table import VertexRef

        raise _unsized(FieldRef(VertexRef(table, row), name))
    return len(value) if value is not None else table.sizes[name, row]


def _unsized(ref: FieldRef) -> NoSizeSpecifiedError:
    subject = f"{ref.vertex.table.codelet.__name__}.{ref.name}"
    return NoSizeSpecifiedError(
        f"{subject} has no size yet.",
        where=repr(ref),
        next_step="graph.set_field_size(vertex[name], size), or connect the whole field.",
    )


def connect_part(ref: FieldRef, value: FieldValue) -> None:
    """Connect a tensor to one part of a field that is a list, such as `vertex["parts"][0]`.

    The field itself is connected as soon as all its parts are connected.
    """
    table = ref.vertex.table
    row = ref.vertex.row
    name = ref.name
    index = ref.index
    field = table.codelet.fields[name]
    subject = f"{table.codelet.__name__}.{name}"
    if not field.takes_parts:
        raise GraphConnectionError(f"""{subject} is declared as {field.declaration()}, which has no
            parts to connect one by one.
            where: {ref!r}
            next:  connect the whole field, or give the whole field a value.""")
    if (name, row) not in table.parts:
        raise _unsized(FieldRef(ref.vertex, name))
    parts = table.parts[name, row]
    if not is_whole(index) or not 0 <= index < len(parts):
        raise PoplarIndexError(f"""{subject} has no part {shown(index)}.
            where: {FieldRef(ref.vertex, name)!r}
            next:  use an index below its size, which is {len(parts):,}.""")
    if not isinstance(value, Tensor):
        raise GraphConnectionError(
            f"{subject}[{index}] was given {shown(value)}, which is not a tensor.",
            next_step="connect a tensor.",
        )
    table.check(field, value, part=True)
    parts[index] = value
    if not any(part is None for part in parts):
        table.connect(row, name, [part for part in parts if part is not None])
