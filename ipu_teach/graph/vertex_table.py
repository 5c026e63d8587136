"""Vertices as columns of numbers: one table for each codelet of a compute set.

A vertex is a row. For each field there are two columns, the offset of its region and the id of its
layout; a list of tensors is one compound layout relative to its first region. A million three-field
vertices are 44 MB of numbers, and every analysis downstream is array arithmetic.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

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

UNCONNECTED = -1
# of one vertex: ten minutes of the chip; sums of very many of them stay within 64 bits
MOST_CYCLES = 10**12


class VertexTable:
    """All vertices of one codelet in one compute set, in the order they were added."""

    def __init__(self, graph: Graph, compute_set: ComputeSet, codelet: type[Vertex]) -> None:
        self.graph = graph
        self.compute_set = compute_set
        self.codelet = codelet
        self.edges = {name: f for name, f in codelet.fields.items() if f.kind != "state"}
        self.state = {name: f for name, f in codelet.fields.items() if f.kind == "state"}
        self.offsets = {name: array("q") for name in self.edges}
        self.layouts = {name: array("i") for name in self.edges}
        # By field: the forms of tensors that it has taken, which need no second look, with their
        # layouts' ids.
        self.known: dict[str, dict[Form, int]] = {name: {} for name in self.edges}
        self.columns = [
            (n, self.known[n], self.layouts[n].append, self.offsets[n].append) for n in self.edges
        ]
        # values of a vertex that has nothing to look at twice
        self.most_usual = -1 if self.state else len(self.edges)
        self.state_values: dict[str, list[Any]] = {name: [] for name in self.state}
        # By field name and row: the size of a Vector of state without a value, and lists that are
        # connected part by part.
        self.sizes: dict[tuple[str, int], int] = {}
        self.parts: dict[tuple[str, int], list[Tensor | None]] = {}
        self.order = array("i")
        self.tiles = array("i")
        self.estimates: array[int] | None = None
        self.names: dict[int, str] = {}  # of the few rows that were given one
        # by which lines rows were added, and put on their tiles
        self.added, self.placed = RowLines(), RowLines()

    def __len__(self) -> int:
        return len(self.order)

    def fill(self, row: int, fields: Mapping[str, Any]) -> None:
        """Write the values of a new row, whatever they are, and check them."""
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

    def connect(self, row: int, name: str, value: Any) -> None:
        """Put `value` on field `name` of the vertex in `row` (the tables' next row, or an existing
        one)."""
        offset, layout = self.edge(name, value)
        if row == len(self.offsets[name]):
            self.offsets[name].append(offset)
            self.layouts[name].append(layout)
        else:
            self.offsets[name][row] = offset
            self.layouts[name][row] = layout

    def edge(self, name: str, value: Any) -> tuple[int, int]:
        """Check `value` for the edge `name`; return its offset and the number of its layout."""
        field = self.edges[name]
        if not isinstance(value, Tensor):
            offset, layout = self._list(field, value)
            return offset, layout.id
        self.check(field, value)
        self.known[name][value.form] = value.layout.id
        return value.offset, value.layout.id

    def state_value(self, name: str, value: Any) -> Any:
        """Return the number, or for a Vector the array, that `value` is for the state `name`.

        Raises `TensorCreationError`, `GraphConnectionError` and `GraphObjectCreationError`.
        """
        field = self.state[name]
        subject = f"{self.codelet.__name__}.{name}"
        if isinstance(value, Tensor):
            raise GraphConnectionError(f"""{subject} is state,
                {"numbers" if field.depth else "a number"} of the vertex's own, and was given a
                tensor.
                where: {value!r}
                next:  give {"an array" if field.depth else "a number"}, or declare the field as
                Input[{field.declaration()}].""")
        array = to_host_array(value, field.dtype, subject)
        if field.depth:
            if array.ndim != 1:
                raise GraphObjectCreationError(f"""{subject} is state, declared as
                    {field.declaration()}, and was given shape {array.shape}.
                    next:  give a list of numbers.""")
            return array
        if array.size != 1:
            raise GraphObjectCreationError(f"""{subject} is state, a single {field.dtype.__name__},
                and was given {array.size:,} values.
                next:  give one number; for several, connect a tensor to a field
                Input[Vector[…]].""")
        return array.reshape(())[()]

    def set_state(self, row: int, name: str, value: Any) -> None:
        """Give the state `name` of an existing vertex its value. A size that was set for it must
        fit."""
        checked = self.state_value(name, value)
        size = self.sizes.get((name, row))
        if size is not None and len(checked) != size:
            raise GraphObjectCreationError(f"""{self.codelet.__name__}.{name} was given
                {len(checked):,} values; its size was set to {size:,}.
                where: {FieldRef(VertexRef(self, row), name)!r}
                next:  leave set_field_size out: the size is that of the value.""")
        self.state_values[name][row] = checked

    def drop(self, row: int) -> None:
        """Forget the rows from `row` on, whole or half-written, so that a caught error leaves the
        graph as it was."""
        state = self.state_values.values()
        for column in (
            *self.offsets.values(),
            *self.layouts.values(),
            *state,
            self.order,
            self.tiles,
        ):
            del column[row:]

    def _list(self, field: Field, value: Any) -> tuple[int, Layout | ListLayout]:
        subject = f"{self.codelet.__name__}.{field.name}"
        allowed = ".", " or a list of single elements.", " or a list of one-dimensional tensors."
        if (
            not field.takes_parts
            or not isinstance(value, (list, tuple))
            or not all(isinstance(t, Tensor) for t in value)
        ):
            raise GraphConnectionError(f"""{subject} is declared as {field.declaration()} and was
                given {shown(value)}.
                next:  {"connect a tensor" + allowed[field.depth if field.takes_parts else 0]}""")
        if not value:
            raise GraphConnectionError(
                f"{subject} was given an empty list.", next_step="connect at least one tensor."
            )
        for tensor in value:
            self.check(field, tensor, part=True)
        if field.depth == 1:
            places = np.array([t.offset + int(t.layout.positions.reshape(-1)[0]) for t in value])
            gathered = self.graph.listed(field.dtype, places)
            return gathered.offset, gathered.layout
        first = value[0].offset
        return first, self.graph.list_layout(tuple((t.offset - first, t.layout) for t in value))

    def check(self, field: Field, tensor: Tensor, part: bool = False, lead: int = 0) -> None:
        """Refuse a tensor whose dtype or shape does not fit `field`. `lead` leading axes belong to
        the vertices."""
        subject = f"{self.codelet.__name__}.{field.name}"
        if tensor.graph is not self.graph:
            raise GraphConnectionError(
                f"{subject} was given a tensor of another graph.",
                where=repr(tensor),
                next_step="use one graph throughout.",
            )
        if tensor.dtype is not field.dtype:
            raise PoplarTypeError(
                f"{subject} holds {field.dtype.__name__} and was given a tensor of "
                f"{tensor.dtype.__name__}.",
                where=repr(tensor),
                next_step="convert it with popops.cast: codelets do not compute with 8-bit floats."
                if tensor.has_metadata()
                else f"declare the field with {tensor.dtype.__name__}, or cast the tensor.",
            )
        depth = field.depth - 1 if part else field.depth
        rank = tensor.rank - lead
        if rank != depth and not (depth == 0 and tensor.layout.size == 1 and not lead):
            words = ("a single element", "one dimension", "two dimensions, or a list of vectors")[
                field.depth
            ]
            if field.depth == 1 and field.form == "edges":
                words += ", or a list of single elements"
            raise GraphConnectionError(f"""{subject} is declared as {field.declaration()}, which
                takes {words}, and was given {"a list with " if part else ""}shape
                {tensor.shape[lead:]}{" for each vertex" if lead else ""}.
                where: {tensor!r}
                next:  index, slice or flatten the tensor, or change the declaration.""")

    def estimate(self, start: int, stop: int, cycles: Any, vertex: VertexRef | VertexRange) -> None:
        """Set the cycles of rows `start` to `stop`, which are `vertex`; rows without an estimate
        hold -1."""
        if type(cycles) is not int or not 0 <= cycles <= MOST_CYCLES:
            cycles = _cycles(cycles, stop - start, vertex)
        if self.estimates is None:
            self.estimates = array("q")
        missing = stop - len(self.estimates)
        if missing > 0:
            self.estimates.extend([-1] * missing)
        if stop - start == 1 and type(cycles) is int:
            self.estimates[start] = cycles
        else:
            self.estimates[start:stop] = array(
                "q", np.broadcast_to(np.asarray(cycles, np.int64), (stop - start,)).tobytes()
            )


def _cycles(estimate: Any, count: int, vertex: VertexRef | VertexRange) -> Any:
    """Estimates for `count` vertices, int64: one for all of them, or one for each."""
    array = as_array(estimate)
    if array.dtype.kind not in "iu" or np.any(array < 0) or np.any(array > MOST_CYCLES):
        raise GraphObjectCreationError(f"""set_perf_estimate() was given {shown(estimate)} cycles.
            where: {vertex!r}
            next:  give whole numbers from 0 to {MOST_CYCLES:,}.""")
    if array.shape not in ((), (1,), (count,)):
        raise GraphObjectCreationError(f"""set_perf_estimate() was given {array.size:,} values for
            {count:,} vertices.
            where: {vertex!r}
            next:  give one value for all of them, or one for each.""")
    return array.astype(np.int64)


class VertexRef:
    """One vertex of a graph. Map it with `graph.set_tile_mapping(vertex, tile)`; `vertex["a"]`
    names a field of it."""

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
    """A field of one vertex, for `graph.connect` and `graph.set_initial_value`;
    `vertex["parts"][0]` is one part of it."""

    __slots__ = ("vertex", "name", "index")

    def __init__(self, vertex: VertexRef, name: str, index: Any = None) -> None:
        self.vertex = vertex
        self.name = name
        self.index = index

    def __getitem__(self, index: int) -> FieldRef:
        if self.index is not None:
            raise GraphConnectionError(
                f"The {self!r} has no parts of its own.", next_step="give it one tensor."
            )
        return FieldRef(self.vertex, self.name, index)

    def __iter__(self) -> Iterator[FieldRef]:
        raise GraphConnectionError(
            f"A loop over {self!r} would never end.",
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
        """Map the vertices: one tile number for all of them, or one for each. The numbers are
        checked already."""
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
