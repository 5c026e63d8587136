"""Vertices as columns of numbers: one table for each codelet of a compute set.

Each row is a vertex. Each edge has two columns: the offset of its region, and the id of its layout.
A list of tensors has one compound layout, relative to its first region. A million vertices with
three edges take 44 MB, and they are analysed with array arithmetic. Each state field has a column
of values.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import (
    GraphConnectionError,
    GraphObjectCreationError,
    InvalidTileMappingError,
    PoplarIndexError,
    PoplarTypeError,
    counted,
    shown,
)
from ipu_teach.graph.layouts import Form, Layout, ListLayout, as_array, is_whole
from ipu_teach.graph.source import RowLines
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import Field, Vertex, unknown_field
from ipu_teach.types import Array, to_host_array

if TYPE_CHECKING:
    from ipu_teach.graph.compute_set import ComputeSet
    from ipu_teach.graph.graph import Graph

# The content of a field: a tensor or a list of tensors for an edge, or numbers for state.
FieldContent: TypeAlias = Tensor | Sequence[Tensor] | ArrayLike
FieldValue: TypeAlias = FieldContent | None  # None leaves the field unconnected or unwritten.
UNCONNECTED = -1
# The maximum number of cycles of a vertex. The chip takes about ten minutes for this number. With
# this limit, sums over very many vertices fit into 64 bits.
MOST_CYCLES = 10**12


class VertexTable:
    """All vertices of one codelet in one compute set, in the order in which they were added."""

    def __init__(self, graph: Graph, compute_set: ComputeSet, codelet: type[Vertex]) -> None:
        self.graph = graph
        self.compute_set = compute_set
        self.codelet = codelet
        self.edges = {name: f for name, f in codelet.fields.items() if f.kind != "state"}
        self.state = {name: f for name, f in codelet.fields.items() if f.kind == "state"}
        self.offsets = {name: array("q") for name in self.edges}
        self.layouts = {name: array("i") for name in self.edges}
        # For each edge, the forms (dtype and layout) of tensors that were checked before, with the
        # ids of their layouts.
        self.known: dict[str, dict[Form, int]] = {name: {} for name in self.edges}
        self.columns = [
            (n, self.known[n], self.layouts[n].append, self.offsets[n].append) for n in self.edges
        ]
        # `Graph.add_vertex` has a fast path for vertices with at most this number of fields. A
        # codelet with state never takes it.
        self.most_usual = -1 if self.state else len(self.edges)
        self.state_values: dict[str, list[Any]] = {name: [] for name in self.state}
        # `sizes` contains the sizes that were set for state Vectors, which may have no value yet.
        # `parts` contains the parts of lists that are connected part by part. The keys of both are
        # (field name, row).
        self.sizes: dict[tuple[str, int], int] = {}
        self.parts: dict[tuple[str, int], list[Tensor | None]] = {}
        self.order = array("i")
        self.tiles = array("i")
        self.estimates: array[int] | None = None
        self.names: dict[int, str] = {}  # Maps the number of a row to its name; few rows have one.
        # The lines of the learner's code that added the rows, and the lines that mapped the rows to
        # tiles.
        self.added = RowLines()
        self.placed = RowLines()

    def __len__(self) -> int:
        return len(self.order)

    def fill(self, row: int, fields: Mapping[str, FieldValue]) -> None:
        """Check the values of a new row, and write them to the columns."""
        self.drop(row)
        try:
            for name in self.edges:
                value = fields.get(name)
                if value is None:
                    self.offsets[name].append(UNCONNECTED)
                    self.layouts[name].append(UNCONNECTED)
                else:
                    self.connect(row, name, value)
            for name, field in self.state.items():
                value = fields.get(name, field.default)
                self.state_values[name].append(
                    None if value is None else self.state_value(name, value)
                )
            if not fields.keys() <= self.codelet.fields.keys():
                raise unknown_field(
                    self.codelet, next(n for n in fields if n not in self.codelet.fields)
                )
        except BaseException:
            self.drop(row)
            raise

    def connect(self, row: int, name: str, value: FieldValue) -> None:
        """Connect `value` to the edge `name` of the vertex in `row`.

        If `row` equals the number of rows, the value becomes a new row of the table.
        """
        offset, layout = self.edge(name, value)
        if row == len(self.offsets[name]):
            self.offsets[name].append(offset)
            self.layouts[name].append(layout)
        else:
            self.offsets[name][row] = offset
            self.layouts[name][row] = layout

    def edge(self, name: str, value: FieldValue) -> tuple[int, int]:
        """Check `value` for the edge `name`, and return its offset and the id of its layout."""
        field = self.edges[name]
        if not isinstance(value, Tensor):
            offset, layout = self._list(field, value)
            return offset, layout.id
        self.check(field, value)
        self.known[name][value.form] = value.layout.id
        return value.offset, value.layout.id

    def state_value(self, name: str, value: FieldContent) -> Any:
        """Return `value` in the dtype of a state field: a number, or an array for a Vector.

        `name` is the name of the state field. Raises `TensorCreationError`, `GraphConnectionError`
        and `GraphObjectCreationError`.
        """
        field = self.state[name]
        subject = f"{self.codelet.__name__}.{name}"
        if isinstance(value, Tensor):
            raise GraphConnectionError(f"""{subject} is a state field, which takes
                {"numbers" if field.depth else "a number"}, but was given a tensor.
                where: {value!r}
                next:  give {"an array" if field.depth else "a number"}, or declare the field as
                Input[{field.declaration()}].""")
        array = to_host_array(value, field.dtype, subject)
        if field.depth:
            if array.ndim != 1:
                raise GraphObjectCreationError(f"""{subject} is a state field, declared as
                    {field.declaration()}, but was given shape {array.shape}.
                    next:  give a list of numbers.""")
            return array
        if array.size != 1:
            raise GraphObjectCreationError(f"""{subject} is a state field, a single
                {field.dtype.__name__}, but was given {array.size:,} values.
                next:  give one number; for several, connect a tensor to a field
                Input[Vector[…]].""")
        return array.reshape(())[()]

    def set_state(self, row: int, name: str, value: FieldContent) -> None:
        """Set the state `name` of the vertex in `row`.

        If a size was set for the field, the value must have this size.
        """
        checked = self.state_value(name, value)
        size = self.sizes.get((name, row))
        if size is not None and len(checked) != size:
            raise GraphObjectCreationError(f"""{self.codelet.__name__}.{name} was given
                {len(checked):,} values, but its size was set to {size:,}.
                where: {FieldRef(VertexRef(self, row), name)!r}
                next:  leave set_field_size out: the size is that of the value.""")
        self.state_values[name][row] = checked

    def drop(self, row: int) -> None:
        """Remove the rows from `row` on, complete or partly written.

        After an error, this restores the table, so that a learner who catches the error can
        continue.
        """
        state = self.state_values.values()
        for column in (
            *self.offsets.values(),
            *self.layouts.values(),
            *state,
            self.order,
            self.tiles,
        ):
            del column[row:]

    def _list(self, field: Field, value: FieldValue) -> tuple[int, Layout | ListLayout]:
        subject = f"{self.codelet.__name__}.{field.name}"
        alternatives = (
            ".",
            " or a list of single elements.",
            " or a list of one-dimensional tensors.",
        )
        if not field.takes_parts or not is_tensor_list(value):
            alternative = alternatives[field.depth if field.takes_parts else 0]
            raise GraphConnectionError(f"""{subject} is declared as {field.declaration()}, but was
                given {shown(value)}.
                next:  {"connect a tensor" + alternative}""")
        if not value:
            raise GraphConnectionError(
                f"{subject} was given an empty list.", next_step="connect at least one tensor."
            )
        for tensor in value:
            self.check(field, tensor, part=True)
        if field.depth == 1:
            element_positions = np.array(
                [part.offset + int(part.layout.positions.reshape(-1)[0]) for part in value]
            )
            gathered = self.graph.listed(field.dtype, element_positions)
            return gathered.offset, gathered.layout
        first_offset = value[0].offset
        return first_offset, self.graph.list_layout(
            tuple((part.offset - first_offset, part.layout) for part in value)
        )

    def check(self, field: Field, tensor: Tensor, part: bool = False, lead: int = 0) -> None:
        """Raise an error if the dtype or shape of a tensor does not fit `field`.

        With `part`, the tensor is one part of a list. The first `lead` axes of the tensor number
        the vertices, so only the other axes must fit.
        """
        subject = f"{self.codelet.__name__}.{field.name}"
        if tensor.graph is not self.graph:
            raise GraphConnectionError(
                f"{subject} was given a tensor of another graph.",
                where=repr(tensor),
                next_step="use one graph throughout.",
            )
        if tensor.dtype is not field.dtype:
            raise PoplarTypeError(
                f"{subject} holds {field.dtype.__name__}, but was given a tensor of "
                f"{tensor.dtype.__name__}.",
                where=repr(tensor),
                next_step="convert it with popops.cast: codelets do not compute with 8-bit floats."
                if tensor.has_metadata()
                else f"declare the field with {tensor.dtype.__name__}, or cast the tensor.",
            )
        depth = field.depth - 1 if part else field.depth
        rank = tensor.rank - lead
        if rank != depth and not (depth == 0 and tensor.layout.size == 1 and not lead):
            expected = (
                "a single element",
                "one dimension",
                "two dimensions, or a list of vectors",
            )[field.depth]
            if field.depth == 1 and field.form == "edges":
                expected += ", or a list of single elements"
            raise GraphConnectionError(f"""{subject} is declared as {field.declaration()}, which
                takes {expected}, but was given {"a list with " if part else ""}shape
                {tensor.shape[lead:]}{" for each vertex" if lead else ""}.
                where: {tensor!r}
                next:  index, slice or flatten the tensor, or change the declaration.""")

    def estimate(
        self, start: int, stop: int, cycles: ArrayLike, vertex: VertexRef | VertexRange
    ) -> None:
        """Set the cycles of the rows from `start` to before `stop`.

        `vertex` is the vertex, or the range of vertices, in these rows. In the column of estimates,
        rows without an estimate contain -1.
        """
        if type(cycles) is int and 0 <= cycles <= MOST_CYCLES:
            cycles_of_rows: int | Array = cycles
        else:
            cycles_of_rows = _cycles(cycles, stop - start, vertex)
        if self.estimates is None:
            self.estimates = array("q")
        num_missing = stop - len(self.estimates)
        if num_missing > 0:
            self.estimates.extend([-1] * num_missing)
        if stop - start == 1 and isinstance(cycles_of_rows, int):
            self.estimates[start] = cycles_of_rows
        else:
            self.estimates[start:stop] = array(
                "q",
                np.broadcast_to(np.asarray(cycles_of_rows, np.int64), (stop - start,)).tobytes(),
            )


def is_tensor_list(value: object) -> TypeGuard[Sequence[Tensor]]:
    """Return whether `value` is a list or tuple of tensors."""
    return isinstance(value, (list, tuple)) and all(isinstance(t, Tensor) for t in value)


def _cycles(estimate: ArrayLike, count: int, vertex: VertexRef | VertexRange) -> Array:
    """Return the estimates for `count` vertices as an int64 array.

    `estimate` is one number for all vertices, or an array with a number for each vertex. Raises
    `GraphObjectCreationError`.
    """
    array = as_array(estimate)
    if array.dtype.kind not in "iu" or np.any(array < 0) or np.any(array > MOST_CYCLES):
        raise GraphObjectCreationError(f"""set_perf_estimate() was given {shown(estimate)} cycles,
            which is not valid.
            where: {vertex!r}
            next:  give whole numbers from 0 to {MOST_CYCLES:,}.""")
    if array.shape not in ((), (1,), (count,)):
        raise GraphObjectCreationError(f"""set_perf_estimate() was given {array.size:,} values for
            {count:,} vertices.
            where: {vertex!r}
            next:  give one value for all of them, or one for each.""")
    return array.astype(np.int64)


class VertexRef:
    """One vertex of a graph.

    `graph.set_tile_mapping(vertex, tile)` maps it, and `vertex["a"]` is one of its fields.
    """

    __slots__ = ("table", "row")

    def __init__(self, table: VertexTable, row: int) -> None:
        self.table = table
        self.row = row

    def __getitem__(self, field: str) -> FieldRef:
        if not isinstance(field, str) or field not in self.table.codelet.fields:
            raise unknown_field(self.table.codelet, field)
        return FieldRef(self, field)

    def __repr__(self) -> str:
        t = self.table
        name = f" {t.names[self.row]!r}" if self.row in t.names else ""
        return (
            f"vertex {t.order[self.row]}{name} ({t.codelet.__name__}) of compute set "
            f"{t.compute_set.name!r}"
        )


class FieldRef:
    """A field of one vertex, for `graph.connect` and `graph.set_initial_value`.

    `vertex["parts"][0]` is one part of the field "parts".
    """

    __slots__ = ("vertex", "name", "index")

    def __init__(self, vertex: VertexRef, name: str, index: int | None = None) -> None:
        self.vertex = vertex
        self.name = name
        self.index = index

    def __getitem__(self, index: int) -> FieldRef:
        if self.index is not None:
            raise GraphConnectionError(
                f"The {self!r} cannot be indexed: it is a single tensor.",
                next_step="give it one tensor.",
            )
        return FieldRef(self.vertex, self.name, index)

    def __iter__(self) -> Iterator[FieldRef]:
        raise GraphConnectionError(
            f"A loop over {self!r} would never end, because a field has no length.",
            next_step="loop over range(size) and index it.",
        )

    def __repr__(self) -> str:
        part = "" if self.index is None else f"part {shown(self.index)} of "
        return f"{part}field {self.name!r} of {self.vertex!r}"


class VertexRange:
    """The vertices that one call of `add_vertices` added."""

    __slots__ = ("table", "start", "stop")

    def __init__(self, table: VertexTable, start: int, stop: int) -> None:
        self.table = table
        self.start = start
        self.stop = stop

    def __len__(self) -> int:
        return self.stop - self.start

    def __getitem__(self, index: int) -> VertexRef:
        if not is_whole(index) or not -len(self) <= index < len(self):
            advice = (
                f"use a whole number from 0 to {len(self) - 1}"
                if len(self)
                else "the range is empty"
            )
            raise PoplarIndexError(f"""There is no vertex {shown(index)} among {len(self):,}.
                where: {self!r}
                next:  {advice}.""")
        return VertexRef(self.table, range(self.start, self.stop)[index])

    def put_on(self, tiles: Array) -> None:
        """Map the vertices to tiles: `tiles` is one tile number for all, or one for each vertex.

        The numbers are not compared with the number of tiles of the machine. Raises
        `InvalidTileMappingError` if the length does not fit.
        """
        if tiles.shape not in ((), (1,), (len(self),)):
            raise InvalidTileMappingError(f"""{tiles.size:,} tiles were given for {len(self):,}
                vertices.
                where: {self!r}
                next:  give one tile for all of them, or one for each.""")
        tile_per_vertex = np.broadcast_to(tiles, (len(self),))
        self.table.tiles[self.start : self.stop] = array(
            "i", tile_per_vertex.astype(np.int32).tobytes()
        )

    def __repr__(self) -> str:
        t = self.table
        return (
            f"{counted(len(self), 'vertex', 'vertices')} ({t.codelet.__name__}) of compute set "
            f"{t.compute_set.name!r}"
        )
