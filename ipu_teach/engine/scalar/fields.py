"""Where the fields of a group's vertices lie, as scalar loops see them: flat buffers, and for each
vertex offsets and strides.

A field stays in the machine's memory where it lies in strides there; else it is copied into a
buffer of its own before a run and back after it. Stores into Outputs are marked in `defined`, which
holds a byte for each byte of memory, at the same places.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.compile.tracer import is_list
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.engine.views import regions_of
from ipu_teach.types import Array


class FieldPlace:
    """One field of every vertex: `offsets` int64[vertices] in `flat`, and (length, stride) of each
    axis, in elements.

    `index`: int64[vertices, elements], where a field that is copied lies in memory; None for one
    that stays there, as it does if it lies in the same strides for every vertex. A list of vectors
    is always copied: `rows` has the beginning and the length of each vector, from where the
    vertex's elements begin.
    """

    def __init__(
        self, group: Group, graph: FrozenGraph, memory: Memory, name: str, packed: bool
    ) -> None:
        parts, listed = regions_of(group, graph, name), is_list(group.shapes[name])
        region, sizes = parts[0], [part.size for part in parts] if listed else []
        self.declared, self.count = region.field, len(group.rows)
        self.rows = [(sum(sizes[:k]), size) for k, size in enumerate(sizes)]
        self.shape: tuple[int, ...] = (
            (len(sizes),) if listed else region.layout(0).shape if self.declared.depth else ()
        )
        self.memory = memory.flat(self.declared.dtype)
        self.index: Array | None = None
        if not packed and not listed and region.strides is not None:
            self.flat = self.memory
            self.offsets = region.starts
            steps = region.strides[: len(self.shape)]
        else:
            self.index = np.concatenate([part.index(slice(None)) for part in parts], axis=1)
            size = self.index.shape[1]
            self.flat = np.zeros(max(1, self.index.size), self.declared.dtype.numpy)
            self.offsets = np.arange(self.count) * size
            steps = tuple(math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape)))
        self.dims: tuple[tuple[int, int], ...] = tuple(zip(self.shape, steps, strict=True))
        self.span = self._span()

    def _span(self) -> slice:
        """Where in the buffer it lies, with all vertices."""
        if 0 in self.shape or not self.count:
            return slice(0, 0)
        ends = [(n - 1) * step for n, step in self.dims]
        low, high = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
        return slice(int(self.offsets.min()) + low, int(self.offsets.max()) + high + 1)

    def put_back(self, flat: Array, before: Array, vertex: int) -> None:
        """Of one vertex in `flat`, which has an element for each of the buffer, what stood in its
        `span` before."""
        if before.size:
            self._of(flat, vertex, 0)[...] = self._of(before, vertex, self.span.start)

    @property
    def unit(self) -> bool:
        """True if the last axis has stride 1."""
        return all(step == 1 for _, step in self.dims[-1:])

    def view(self, flat: Array, vertex: int) -> Any:
        """The region of one vertex in `flat`, which has an element for each of this field's
        buffer."""
        if self.rows:
            return [
                flat[(begin := int(self.offsets[vertex]) + first) : begin + size]
                for first, size in self.rows
            ]
        return self._of(flat, vertex, 0)

    def _of(self, flat: Array, vertex: int, begin: int) -> Array:
        if 0 in self.shape:
            return np.zeros(self.shape, flat.dtype)
        offset = int(self.offsets[vertex]) - begin
        strides = tuple(step * flat.itemsize for _, step in self.dims)
        view: Array = np.ndarray(self.shape, flat.dtype, flat, offset * flat.itemsize, strides)
        return view

    def load(self, vertex: int | None = None) -> None:
        """Copy from memory what does not lie in strides there: of one vertex, or of all."""
        if self.index is not None and vertex is not None:
            size = self.index.shape[1]
            self.flat[vertex * size : (vertex + 1) * size] = self.memory[self.index[vertex]]
        elif self.index is not None and self.index.size:
            np.take(self.memory, self.index.reshape(-1), out=self.flat, mode="clip")

    def store(self, first: int, last: int) -> None:
        """Copy what some vertices wrote back to memory."""
        if self.index is not None and self.declared.written:
            size = self.index.shape[1]
            self.memory[self.index[first:last].reshape(-1)] = self.flat[first * size : last * size]


class Fields:
    """All fields of the vertices of a group. `defined`: a byte for each byte of memory, not 0 where
    something was written."""

    def __init__(
        self, group: Group, code: ScalarCode, graph: FrozenGraph, memory: Memory, defined: Array
    ) -> None:
        self.code, self.count = code, len(group.rows)
        self.places: dict[str, FieldPlace] = {}
        for name, declared in code.fields.items():
            place = FieldPlace(group, graph, memory, name, packed=code.multi and declared.written)
            # A sum goes through memory from its lower end, whatever the stride's sign: let it lie
            # as it does for one vertex.
            if code.vectors and declared.depth and not (place.unit and declared.depth == 1):
                place = FieldPlace(group, graph, memory, name, packed=True)
            self.places[name] = place
        self.defined = {
            name: elements(defined, self.places[name].flat.itemsize) for name in code.marked
        }
        kind: Any = np.uint8 if len(group.workers) <= 8 else np.uint64  # a bit for each worker
        self.marks = {name: self._marks(name, kind) for name in code.marked}
        self.reads = (
            {name: np.zeros(len(self.places[name].flat), kind) for name in code.marked}
            if code.multi
            else {}
        )
        written = [(place, place.flat) for place in self.places.values() if place.declared.written]
        marked = [(self.places[name], flat) for name, flat in self.marks.items()]
        # What is written where it stays, and what stood there before a run.
        self.kept = [
            (p, flat, np.empty_like(flat[p.span]))
            for p, flat in [*written, *marked]
            if p.index is None
        ]

    def _marks(self, name: str, kind: Any) -> Array:
        """Where stores of a field are marked: in `defined` itself, if the field stays where it
        is."""
        place = self.places[name]
        if self.code.multi:
            return np.zeros(len(place.flat), kind)
        if place.index is None:
            return self.defined[name]
        return np.zeros(len(place.flat), self.defined[name].dtype)

    def arguments(self, vertex: int, numbers: VertexFloats | None) -> list[Any]:
        """Of one vertex: its fields, their marks, and the marks of reads, as CPython's text takes
        them."""
        found: list[Any] = [place.view(place.flat, vertex) for place in self.places.values()]
        found = found if numbers is None else [numbers.stored(view) for view in found]
        for name, flat in [*self.marks.items(), *self.reads.items()]:
            view = self.places[name].view(flat, vertex)
            # Python stores an element at a time sooner through a memoryview; those of matrices have
            # no rows.
            single = isinstance(view, np.ndarray) and view.ndim < 2 and not self.code.vectors
            found.append(view.data if single else view)
        return found

    def load(self) -> None:
        """Before a run: copy what needs it, and remember what is written in place."""
        for place in self.places.values():
            place.load()
        for place, flat, before in self.kept:
            before[...] = flat[place.span]
        beside = (flat for name, flat in self.marks.items() if self.places[name].index is not None)
        for flat in [*beside, *self.reads.values()]:
            flat.fill(0)

    def restore(self, vertex: int | None = None) -> None:
        """Put back what one vertex had at `load`, or all of them, and their marks."""
        for place, flat, before in self.kept:
            if vertex is None:
                flat[place.span] = before
            else:
                place.put_back(flat, before, vertex)
        for place in self.places.values() if vertex is not None else ():
            place.load(vertex)
        if vertex is not None and self.code.multi:
            for name, flat in [*self.marks.items(), *self.reads.items()]:
                for part in parts_of(self.places[name].view(flat, vertex)):
                    part[...] = 0

    def store(self, first: int, last: int) -> None:
        """Bring back what the vertices from `first` to `last` wrote, and say that it is defined."""
        for place in self.places.values():
            place.store(first, last)
        for name, flat in self.marks.items():
            index = self.places[name].index
            if index is not None:
                where, size = index[first:last].reshape(-1), index.shape[1]
                stored = where[flat[first * size : last * size] != 0]
                self.defined[name][stored] = mark_of(self.defined[name])

    def race(self) -> tuple[int, str, list[int], int, int] | None:
        """(vertex, field, element, writers, readers) where workers of a MultiVertex meet; None if
        nowhere."""
        for name, written in self.marks.items() if self.code.multi else ():
            met = meeting(written, self.reads[name])
            if met is not None:
                index = self.places[name].index
                assert index is not None
                vertex, element = divmod(met, index.shape[1])
                place = index_of(element, self.places[name].view(written, vertex))
                return vertex, name, place, int(written[met]), int(self.reads[name][met])
        return None


def parts_of(region: Any) -> list[Array]:
    """The arrays of a field: one, or those of a list."""
    return region if isinstance(region, list) else [region]


def index_of(element: int, region: Any) -> list[int]:
    """The index of an element, by its number among all of a field."""
    for k, part in enumerate(parts_of(region)):
        if element < part.size:
            return [
                *([k] if isinstance(region, list) else []),
                *(int(i) for i in np.unravel_index(element, part.shape)),
            ]
        element -= part.size
    raise IndexError(element)


def meeting(written: Array, read: Array) -> int | None:
    """The first element that one worker writes and another one writes or reads, by the bits of
    those that did."""
    met = np.flatnonzero(
        ((written & (written - 1)) != 0) | ((written != 0) & ((read & ~written) != 0))
    )
    return int(met[0]) if met.size else None


def elements(defined: Array, size: int) -> Array:
    """`defined`, a byte for each byte of memory, by elements of so many bytes."""
    flat: Array = defined.view(np.uint8)
    return flat[: len(flat) // size * size].view(f"u{size}")


def mark_of(flat: Array) -> int:
    """What stands in an element of `defined` that is defined."""
    return int(np.iinfo(flat.dtype).max) // 255
