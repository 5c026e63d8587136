"""The fields of a group's vertices in the form that scalar loops use: buffers, offsets, strides.

A field is used in place, in the machine's memory, if it has strides there that its loop can use.
Otherwise, it is copied to its own buffer before a run and back after the run. Stores into Outputs
are marked in `defined`, which has a byte for each byte of memory, at the same address.
"""

from __future__ import annotations

import math

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.compile.tracer import is_list
from ipu_teach.engine.fp.vertex_floats import VertexFloats
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.engine.views import regions_of
from ipu_teach.types import Array
from ipu_teach.types.regions import FieldArrays as FieldArrays

TextArgument = FieldArrays | memoryview  # The type of an argument for the Python code.


class FieldPlace:
    """One field of all vertices, as elements of the buffer `flat`.

    `offsets` is int64[vertices], the index in `flat` of each vertex's first element. `dims`
    contains (length, stride) of each axis, in elements. If the field is copied to its own buffer,
    `index` is int64[vertices, elements], the positions of its elements in memory. If the field is
    used in place, `index` is None; this requires the same strides in every vertex. With `packed`,
    the field is always copied. A list of vectors is also always copied, and `rows` contains (start,
    length) of each vector, relative to the vertex's first element.
    """

    def __init__(
        self, group: Group, graph: FrozenGraph, memory: Memory, name: str, packed: bool
    ) -> None:
        part_regions = regions_of(group, graph, name)
        is_listed = is_list(group.shapes[name])
        region = part_regions[0]
        sizes = [part.size for part in part_regions] if is_listed else []
        self.declared = region.field
        self.count = len(group.rows)
        self.rows = [
            (sum(sizes[:row_number]), num_elements) for row_number, num_elements in enumerate(sizes)
        ]
        self.shape: tuple[int, ...] = ()
        if is_listed:
            self.shape = (len(sizes),)
        elif self.declared.depth:
            self.shape = region.layout(0).shape
        self.memory = memory.flat(self.declared.dtype)
        self.index: Array | None = None
        if not packed and not is_listed and region.strides is not None:
            self.flat = self.memory
            self.offsets = region.starts
            strides_of_axes = region.strides[: len(self.shape)]
        else:
            self.index = np.concatenate([part.index(slice(None)) for part in part_regions], axis=1)
            num_elements = self.index.shape[1]
            self.flat = np.zeros(max(1, self.index.size), self.declared.dtype.numpy)
            self.offsets = np.arange(self.count) * num_elements
            strides_of_axes = tuple(
                math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))
            )
        self.dims: tuple[tuple[int, int], ...] = tuple(
            zip(self.shape, strides_of_axes, strict=True)
        )
        self.span = self._span()

    def _span(self) -> slice:
        """Return the smallest slice of the buffer that contains the field of every vertex."""
        if 0 in self.shape or not self.count:
            return slice(0, 0)
        ends = [(n - 1) * step for n, step in self.dims]
        low = sum(min(end, 0) for end in ends)
        high = sum(max(end, 0) for end in ends)
        return slice(int(self.offsets.min()) + low, int(self.offsets.max()) + high + 1)

    def put_back(self, flat: Array, before: Array, vertex: int) -> None:
        """Restore the elements of one vertex in `flat`, an array of the buffer's length.

        `before` is an earlier copy of the slice `span` of `flat`.
        """
        if before.size:
            self._of(flat, vertex, 0)[...] = self._of(before, vertex, self.span.start)

    @property
    def unit(self) -> bool:
        """Whether the last axis has stride 1, which counts as true for a field without axes."""
        return all(step == 1 for _, step in self.dims[-1:])

    def view(self, flat: Array, vertex: int) -> FieldArrays:
        """Return the region of one vertex in `flat`, an array of the buffer's length."""
        if self.rows:
            return [
                flat[(begin := int(self.offsets[vertex]) + first) : begin + size]
                for first, size in self.rows
            ]
        return self._of(flat, vertex, 0)

    def _of(self, flat: Array, vertex: int, first_element: int) -> Array:
        """Return the elements of one vertex in `flat`.

        `flat` contains the buffer's elements from number `first_element` on.
        """
        if 0 in self.shape:
            return np.zeros(self.shape, flat.dtype)
        offset = int(self.offsets[vertex]) - first_element
        strides = tuple(stride * flat.itemsize for _, stride in self.dims)
        view: Array = np.ndarray(
            self.shape, flat.dtype, flat, offset=offset * flat.itemsize, strides=strides
        )
        return view

    def load(self, vertex: int | None = None) -> None:
        """Copy the field from memory to its buffer, if it has one, for one vertex or for all."""
        if self.index is not None and vertex is not None:
            size = self.index.shape[1]
            self.flat[vertex * size : (vertex + 1) * size] = self.memory[self.index[vertex]]
        elif self.index is not None and self.index.size:
            np.take(self.memory, self.index.reshape(-1), out=self.flat, mode="clip")

    def store(self, first: int, last: int) -> None:
        """Copy the results of vertices `first` to `last - 1` from the buffer back to memory."""
        if self.index is not None and self.declared.written:
            size = self.index.shape[1]
            self.memory[self.index[first:last].reshape(-1)] = self.flat[first * size : last * size]


class Fields:
    """All fields of the vertices of a group.

    `defined` has one byte for each byte of memory. It is not 0 if the byte of memory was written.
    """

    def __init__(
        self, group: Group, code: ScalarCode, graph: FrozenGraph, memory: Memory, defined: Array
    ) -> None:
        self.code = code
        self.count = len(group.rows)
        self.places: dict[str, FieldPlace] = {}
        for name, declared in code.fields.items():
            place = FieldPlace(group, graph, memory, name, packed=code.multi and declared.written)
            # numpy's sum starts at the lowest address, even for a negative stride. So the field is
            # copied: the copy has the same layout as in a run of a single vertex, and the sum has
            # the same bits.
            if code.vectors and declared.depth and not (place.unit and declared.depth == 1):
                place = FieldPlace(group, graph, memory, name, packed=True)
            self.places[name] = place
        self.defined = {
            name: elements(defined, self.places[name].flat.itemsize) for name in code.marked
        }
        # If workers share a vertex, each element is marked by an integer with one bit per worker.
        mark_dtype: type[np.uint8 | np.uint64] = np.uint8 if len(group.workers) <= 8 else np.uint64
        self.marks = {name: self._marks(name, mark_dtype) for name in code.marked}
        self.reads = (
            {name: np.zeros(len(self.places[name].flat), mark_dtype) for name in code.marked}
            if code.multi
            else {}
        )
        written = [(place, place.flat) for place in self.places.values() if place.declared.written]
        marked = [(self.places[name], flat) for name, flat in self.marks.items()]
        # `kept` has (field, array, copy) for each array that a run changes in place. The copy
        # contains the content of the array before the run.
        self.kept = [
            (written_place, flat, np.empty_like(flat[written_place.span]))
            for written_place, flat in [*written, *marked]
            if written_place.index is None
        ]

    def _marks(self, name: str, kind: type[np.uint8 | np.uint64]) -> Array:
        """Return the array in which the stores into a field are marked.

        The array is `defined` itself if the field is used in place and each vertex has a single
        worker. `kind` is the dtype of the marks if several workers share a vertex.
        """
        place = self.places[name]
        if self.code.multi:
            return np.zeros(len(place.flat), kind)
        if place.index is None:
            return self.defined[name]
        return np.zeros(len(place.flat), self.defined[name].dtype)

    def arguments(self, vertex: int, vertex_floats: VertexFloats | None) -> list[TextArgument]:
        """Return the arguments of the Python code for one vertex, in the order of its parameters.

        They are the regions of all fields, then the marks of the elements that are stored, and
        then, if workers share the vertex, the marks of the elements that are read. With
        `vertex_floats`, the regions are the results of `vertex_floats.stored`. Marks of at most one
        dimension are memoryviews, unless the code computes whole arrays at once.
        """
        arguments: list[TextArgument] = [
            place.view(place.flat, vertex) for place in self.places.values()
        ]
        arguments = (
            arguments
            if vertex_floats is None
            else [vertex_floats.stored(view) for view in arguments]
        )
        for name, flat in [*self.marks.items(), *self.reads.items()]:
            view = self.places[name].view(flat, vertex)
            # Python stores a single element faster through a memoryview than through an array. But
            # a memoryview of a matrix has no rows to index.
            if isinstance(view, np.ndarray) and view.ndim < 2 and not self.code.vectors:
                arguments.append(view.data)
            else:
                arguments.append(view)
        return arguments

    def load(self) -> None:
        """Prepare a run: copy fields to buffers, and save the fields that are written in place."""
        for place in self.places.values():
            place.load()
        for place, flat, before in self.kept:
            before[...] = flat[place.span]
        copied = (flat for name, flat in self.marks.items() if self.places[name].index is not None)
        for flat in [*copied, *self.reads.values()]:
            flat.fill(0)

    def restore(self, vertex: int | None = None) -> None:
        """Restore the fields of one vertex, or of all, to their state at the last call of `load`.

        Their marks in memory are restored too. If a single vertex is restored, its copied fields
        are copied again, and the marks of workers that share the vertex are cleared. If all
        vertices are restored, the copies are left as they are, because the next `load` overwrites
        them.
        """
        for place, flat, saved in self.kept:
            if vertex is None:
                flat[place.span] = saved
            else:
                place.put_back(flat, saved, vertex)
        for place in self.places.values() if vertex is not None else ():
            place.load(vertex)
        if vertex is not None and self.code.multi:
            for name, flat in [*self.marks.items(), *self.reads.items()]:
                for mark_part in parts_of(self.places[name].view(flat, vertex)):
                    mark_part[...] = 0

    def store(self, first_vertex: int, end_vertex: int) -> None:
        """Copy back the fields that some vertices wrote, and mark the elements that they stored.

        The vertices are those from `first_vertex` to `end_vertex - 1`.
        """
        for place in self.places.values():
            place.store(first_vertex, end_vertex)
        for name, flat in self.marks.items():
            index = self.places[name].index
            if index is not None:
                positions = index[first_vertex:end_vertex].reshape(-1)
                elements_per_vertex = index.shape[1]
                stored = positions[
                    flat[first_vertex * elements_per_vertex : end_vertex * elements_per_vertex] != 0
                ]
                self.defined[name][stored] = mark_of(self.defined[name])

    def race(self) -> tuple[int, str, list[int], int, int] | None:
        """Return a race between workers as (vertex, field, element, writers, readers), or None.

        `element` is the index of an element in the field. `writers` and `readers` are integers
        whose bit k is set if worker k wrote or read the element.
        """
        for name, written in self.marks.items() if self.code.multi else ():
            conflict = first_conflict(written, self.reads[name])
            if conflict is not None:
                index = self.places[name].index
                assert index is not None
                vertex, element = divmod(conflict, index.shape[1])
                element_index = index_of(element, self.places[name].view(written, vertex))
                writers = int(written[conflict])
                readers = int(self.reads[name][conflict])
                return vertex, name, element_index, writers, readers
        return None


def parts_of(region: FieldArrays) -> list[Array]:
    """Return a list of the arrays of a field: one array, or the arrays of a list field."""
    return region if isinstance(region, list) else [region]


def index_of(element: int, region: FieldArrays) -> list[int]:
    """Return the index of an element of a field, given its number `element` in the entire field.

    If the field is a list, the index begins with the index in the list.
    """
    for part_number, part_array in enumerate(parts_of(region)):
        if element < part_array.size:
            return [
                *([part_number] if isinstance(region, list) else []),
                *(int(coordinate) for coordinate in np.unravel_index(element, part_array.shape)),
            ]
        element -= part_array.size
    raise IndexError(element)


def first_conflict(written: Array, read: Array) -> int | None:
    """Return the index of the first element for which two workers conflict, or None.

    Two workers conflict if one writes the element and the other reads or writes it. In `written`
    and `read`, bit k of an element is set if worker k wrote or read the element.
    """
    conflicts = np.flatnonzero(
        ((written & (written - 1)) != 0) | ((written != 0) & ((read & ~written) != 0))
    )
    return int(conflicts[0]) if conflicts.size else None


def elements(defined: Array, size: int) -> Array:
    """Return `defined`, which has one byte per byte of memory, as integers of `size` bytes."""
    flat: Array = defined.view(np.uint8)
    return flat[: len(flat) // size * size].view(f"u{size}")


def mark_of(flat: Array) -> int:
    """Return the integer of `flat`'s dtype that marks an element as written: a 1 in each byte."""
    return int(np.iinfo(flat.dtype).max) // 255
