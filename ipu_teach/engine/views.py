"""Find a group's regions in memory, and an order of its vertices in which regions need no copy.

Vertices may run in any order, so they are sorted by the address of their largest region. The starts
of all fields may then form nested arithmetic progressions, as for rows of a matrix or blocks of an
image. In this case, a single strided view contains the field of all vertices. A step of 0 means
that vertices share a region. Regions that form no such progressions are gathered by index.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np

from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group
from ipu_teach.compile.tracer import is_list
from ipu_teach.graph.tensor import Layout
from ipu_teach.types import Array

# The minimum average number of vertices in a nest (a grid of vertices at regular distances in
# memory). Smaller nests are slower than gathering by index.
LEAST_RUN = 8
# The maximum number of nests. The number is limited because finding each nest takes a pass over the
# addresses of some vertices.
MOST_NESTS = 64
LEVELS = 3
# The number of nests after which the starts are assumed to be irregular, if these nests have only
# about two vertices each. (Any two vertices form a nest.)
HOPELESS = 8
PREFIX = 256  # The number of vertices that are searched first for a nest.


class Region:
    """The regions of a field in all vertices of a group, in the order in which the vertices run.

    `starts` contains the start of each vertex's region. If the field is a list, the region is item
    `part` of the list. Starts, sizes and strides are in elements.
    """

    def __init__(self, group: Group, graph: FrozenGraph, name: str, part: int = 0) -> None:
        table = group.table
        self._graph = graph
        self.field = table.fields[name]
        self.starts: Array = table.offsets[name][group.rows]
        # Keep only layout ids, not the layouts themselves. There may be as many layouts as
        # vertices, and examining each layout would take longer than everything else.
        self.numbers, self.which = np.unique(table.layouts[name][group.rows], return_inverse=True)
        if is_list(group.shapes[name]):
            part_offsets, part_layouts = zip(
                *(graph.layouts[number].parts[part] for number in self.numbers.tolist()),
                strict=True,
            )
            self.starts = self.starts + np.array(part_offsets, np.int64)[self.which]
            self.numbers = np.array([layout.id for layout in part_layouts])
        self.size = self.layout(0).size
        self.contiguous = all(
            self.layout(position).contiguous for position in range(len(self.numbers))
        )

    def layout(self, number: int) -> Layout:
        """Return layout `number` of the distinct layouts that the vertices have.

        `which` contains the number of each vertex's layout.
        """
        return self._graph.layouts[self.numbers[number]]  # type: ignore[no-any-return]

    @property
    def bytes(self) -> int:
        """The number of bytes in one vertex's region."""
        return self.size * self.field.dtype.size

    @property
    def strides(self) -> tuple[int, ...] | None:
        """The strides of each vertex's region, in elements; None if they differ or do not exist."""
        return self.layout(0).strides if len(self.numbers) == 1 else None

    @property
    def is_separate(self) -> bool:
        """Whether any two vertices' contiguous regions are equal or have no common element."""
        steps = np.diff(self.starts)
        if np.any(steps < 0):
            steps = np.diff(np.sort(self.starts))
        return not np.any((steps > 0) & (steps < self.size))

    @property
    def reach(self) -> tuple[int, int]:
        """The interval of memory that the regions of all vertices span, as (first element, end)."""
        bounds = np.array([self.layout(i).bounds for i in range(len(self.numbers))]).T
        low, high = bounds[:, self.which] + self.starts
        return int(low.min()), int(high.max()) + 1

    def put_in_order(self, order: Array) -> None:
        """Reorder the vertices: vertex i of the new order is the present vertex `order[i]`."""
        self.starts = self.starts[order]
        self.which = self.which[order]

    def index(self, rows: slice) -> Array:
        """Return the positions of the elements in the flat memory: int64[vertices, elements].

        `rows` selects the vertices.
        """
        which = self.which[rows]
        used, inverse = np.unique(which, return_inverse=True)
        positions = self._graph.positions(self.numbers[used])
        if len(used) > 1:
            positions = positions[inverse]
        return self.starts[rows][:, None] + positions


def regions_of(group: Group, graph: FrozenGraph, name: str) -> list[Region]:
    """Return the regions of a field: one if it is an array, or one for each item of a list."""
    shape = group.shapes[name]
    return [Region(group, graph, name, part) for part in range(len(shape) if is_list(shape) else 1)]


@dataclass(frozen=True, eq=False)
class Nest:
    """A grid of consecutive vertices whose regions are at regular distances in memory.

    `first` is the index of the first vertex. `shape` contains the lengths of the grid's axes,
    outermost first. `base` is the start of the first vertex's region in each field. `steps`
    contains, for each field, the distance between neighbouring vertices along each axis:
    int64[fields, axes]. All distances are in elements.
    """

    first: int
    shape: tuple[int, ...]
    base: Array
    steps: Array

    @property
    def count(self) -> int:
        """The number of vertices in the nest."""
        return prod(self.shape)

    def pieces(self, most_vertices: int) -> Iterator[Nest]:
        """Yield the parts of the grid, each with at most `most_vertices` vertices.

        The outermost axis is divided first, and inner axes only if necessary.
        """
        vertices_per_index = self.count // self.shape[0]
        indices_per_piece = max(1, most_vertices // vertices_per_index)
        for first_index in range(0, self.shape[0], indices_per_piece):
            num_indices = min(indices_per_piece, self.shape[0] - first_index)
            piece_base = self.base + first_index * self.steps[:, 0]
            part = Nest(
                self.first + first_index * vertices_per_index,
                (num_indices, *self.shape[1:]),
                piece_base,
                self.steps,
            )
            if part.count <= most_vertices or len(self.shape) == 1:
                yield part
                continue
            # Even the vertices at a single index of this axis exceed the limit, so divide the next
            # axis as well.
            for piece in Nest(part.first, self.shape[1:], piece_base, self.steps[:, 1:]).pieces(
                most_vertices
            ):
                yield Nest(piece.first, (1, *piece.shape), piece.base, self.steps)


def running_order(regions: list[Region]) -> Array | None:
    """Return the indices that sort the vertices by address, or None if they are already sorted.

    Vertices are sorted by the address of their largest region, and among equal addresses by the
    addresses of the smaller regions. Regions that have the same start in all vertices are ignored.
    """
    moving = sorted(
        (r for r in regions if (r.starts != r.starts[0]).any()),
        key=lambda r: r.size * r.field.dtype.size,
    )
    if not moving or _ascending(moving[-1].starts):
        return None
    order = np.lexsort([r.starts for r in moving])
    return None if _ascending(order) else order


def _ascending(numbers: Array) -> bool:
    return bool((numbers[1:] > numbers[:-1]).all())


def find_nests(starts: Array) -> list[Nest] | None:
    """Return the vertices as grids with regular distances, or None if there are too many grids.

    `starts` contains the start of each vertex's region in each considered field: int64[fields,
    vertices].
    """
    num_vertices = starts.shape[1]
    most_nests = max(1, min(MOST_NESTS, num_vertices // LEAST_RUN))
    nests: list[Nest] = []
    first_vertex = 0
    while first_vertex < num_vertices:
        if len(nests) == most_nests or (len(nests) >= HOPELESS and first_vertex < 3 * len(nests)):
            return None
        prefix_length = PREFIX
        shape, steps = _beginning(starts[:, first_vertex : first_vertex + prefix_length], LEVELS)
        # If a nest ends well before the end of the prefix, a longer prefix would not give a larger
        # nest.
        while (
            first_vertex + prefix_length < num_vertices and prod(shape) * 2**LEVELS >= prefix_length
        ):
            prefix_length *= 8
            shape, steps = _beginning(
                starts[:, first_vertex : first_vertex + prefix_length], LEVELS
            )
        nests.append(Nest(first_vertex, shape, starts[:, first_vertex], steps))
        first_vertex += prod(shape)
    return nests


def _beginning(starts: Array, levels: int) -> tuple[tuple[int, ...], Array]:
    """Return (shape, steps) of the longest grid that the first vertices form.

    The grid has at most `levels` axes. `starts` is int64[fields, vertices], the start of each
    vertex's region. `steps` is int64[fields, axes], the distance between neighbouring vertices
    along each axis.
    """
    num_vertices = starts.shape[1]
    if num_vertices == 1:
        return (1,), np.zeros((len(starts), 1), np.int64)
    steps = starts[:, 1:] - starts[:, :-1]
    has_same_step = np.logical_and.reduce(steps == steps[:, :1])
    first_change = int(has_same_step.argmin())
    run_length = num_vertices if has_same_step[first_change] else first_change + 1
    single_run = (run_length,), steps[:, :1]
    if (
        run_length == num_vertices
        or levels == 1
        or not has_same_step[run_length : 2 * run_length - 1].all()
    ):
        return single_run
    is_broken = ~has_same_step
    # Exclude the step from the end of one run to the start of the next, because it may differ.
    is_broken[run_length - 1 :: run_length] = False
    num_covered = int(np.argmax(is_broken)) + 1 if is_broken.any() else num_vertices
    num_runs = num_covered // run_length
    if num_runs < 2:
        return single_run
    outer_shape, outer_steps = _beginning(
        starts[:, : num_runs * run_length : run_length], levels - 1
    )
    return (*outer_shape, run_length), np.concatenate((outer_steps, steps[:, :1]), axis=1)
