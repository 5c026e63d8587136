"""Where the regions of a group lie, and in which order of the vertices they can be used without
copying.

Vertices may run in any order, so they are put into that of their largest region's addresses. Where
the starts of all fields then form nested arithmetic progressions (rows of a matrix, tiles of a
picture), one strided view holds that field of every vertex; a step of 0 is an operand that vertices
share. What fits no progression is gathered by index.
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

LEAST_RUN = 8  # vertices that a nest must have on average to beat a gather
MOST_NESTS = 64  # looking for them costs a pass over some starts each
LEVELS = 3
# nests of two vertices each, as any two are one: the starts are taken to have no order
HOPELESS = 8
PREFIX = 256  # vertices that are looked at first


class Region:
    """One region of every vertex of a group, in the order in which they are to run: its start and
    how it lies."""

    def __init__(self, group: Group, graph: FrozenGraph, name: str, part: int = 0) -> None:
        table, self._graph = group.table, graph
        self.field = table.fields[name]
        self.starts: Array = table.offsets[name][group.rows]
        # Layouts by number: there may be as many as vertices, and to look at each would take longer
        # than all else.
        self.numbers, self.which = np.unique(table.layouts[name][group.rows], return_inverse=True)
        if is_list(group.shapes[name]):
            deltas, inner = zip(
                *(graph.layouts[number].parts[part] for number in self.numbers.tolist()),
                strict=True,
            )
            self.starts = self.starts + np.array(deltas, np.int64)[self.which]
            self.numbers = np.array([layout.id for layout in inner])
        self.size = self.layout(0).size
        self.contiguous = all(self.layout(i).contiguous for i in range(len(self.numbers)))

    def layout(self, number: int) -> Layout:
        """One of the layouts that its vertices have, see `which`."""
        return self._graph.layouts[self.numbers[number]]  # type: ignore[no-any-return]

    @property
    def bytes(self) -> int:
        """Of one vertex."""
        return self.size * self.field.dtype.size

    @property
    def strides(self) -> tuple[int, ...] | None:
        """Elements from one to the next along each axis, if that is the same for every vertex."""
        return self.layout(0).strides if len(self.numbers) == 1 else None

    @property
    def apart(self) -> bool:
        """True if no two regions overlap in part: they are equal, or have no element in common."""
        steps = np.diff(self.starts)
        if np.any(steps < 0):
            steps = np.diff(np.sort(self.starts))
        return not np.any((steps > 0) & (steps < self.size))

    @property
    def reach(self) -> tuple[int, int]:
        """From which element of memory to which the regions of all vertices lie."""
        bounds = np.array([self.layout(i).bounds for i in range(len(self.numbers))]).T
        low, high = bounds[:, self.which] + self.starts
        return int(low.min()), int(high.max()) + 1

    def put_in_order(self, order: Array) -> None:
        """Let the vertices run in another order."""
        self.starts, self.which = self.starts[order], self.which[order]

    def index(self, rows: slice) -> Array:
        """Positions of the elements of some vertices: int64 (vertices, size)."""
        which = self.which[rows]
        used, place = np.unique(which, return_inverse=True)
        found = self._graph.positions(self.numbers[used])
        return self.starts[rows][:, None] + (found if len(used) == 1 else found[place])


def regions_of(group: Group, graph: FrozenGraph, name: str) -> list[Region]:
    """The regions of one field: as many as its list has parts, or one."""
    shape = group.shapes[name]
    return [Region(group, graph, name, part) for part in range(len(shape) if is_list(shape) else 1)]


@dataclass(frozen=True, eq=False)
class Nest:
    """Vertices from number `first` on, `shape` of them along nested axes, outermost first.

    `base`: the first vertex's start in each field; `steps` (fields, axes): from one vertex to the
    next along each axis.
    """

    first: int
    shape: tuple[int, ...]
    base: Array
    steps: Array

    @property
    def count(self) -> int:
        return prod(self.shape)

    def pieces(self, most: int) -> Iterator[Nest]:
        """This nest cut into parts of at most `most` vertices, along its outer axes."""
        inner = self.count // self.shape[0]
        take = max(1, most // inner)
        for begin in range(0, self.shape[0], take):
            length = min(take, self.shape[0] - begin)
            base = self.base + begin * self.steps[:, 0]
            part = Nest(self.first + begin * inner, (length, *self.shape[1:]), base, self.steps)
            if part.count <= most or len(self.shape) == 1:
                yield part
                continue
            # One step along this axis is still too much: cut along the next one.
            for piece in Nest(part.first, self.shape[1:], base, self.steps[:, 1:]).pieces(most):
                yield Nest(piece.first, (1, *piece.shape), piece.base, self.steps)


def running_order(regions: list[Region]) -> Array | None:
    """Vertices by the address of their largest region, then of the next ones; None if they are in
    that order already."""
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
    """The vertices as nests, by the starts of some fields: (fields, vertices). None if there would
    be too many."""
    count = starts.shape[1]
    most = max(1, min(MOST_NESTS, count // LEAST_RUN))
    found: list[Nest] = []
    first = 0
    while first < count:
        if len(found) == most or (len(found) >= HOPELESS and first < 3 * len(found)):
            return None
        width = PREFIX
        shape, steps = _beginning(starts[:, first : first + width], LEVELS)
        # A nest that ends well before the prefix does is no longer in the whole.
        while first + width < count and prod(shape) * 2**LEVELS >= width:
            width *= 8
            shape, steps = _beginning(starts[:, first : first + width], LEVELS)
        found.append(Nest(first, shape, starts[:, first], steps))
        first += prod(shape)
    return found


def _beginning(starts: Array, levels: int) -> tuple[tuple[int, ...], Array]:
    """(shape, steps) of the longest beginning of `starts` that is a nest of at most `levels`
    axes."""
    count = starts.shape[1]
    if count == 1:
        return (1,), np.zeros((len(starts), 1), np.int64)
    steps = starts[:, 1:] - starts[:, :-1]
    same = np.logical_and.reduce(steps == steps[:, :1])
    end = int(same.argmin())
    length = count if same[end] else end + 1
    row = (length,), steps[:, :1]
    if length == count or levels == 1 or not same[length : 2 * length - 1].all():
        return row
    broken = ~same
    broken[length - 1 :: length] = False  # from the end of one run to the start of the next
    reached = int(np.argmax(broken)) + 1 if broken.any() else count
    runs = reached // length
    if runs < 2:
        return row
    outer, outer_steps = _beginning(starts[:, : runs * length : length], levels - 1)
    return (*outer, length), np.concatenate((outer_steps, steps[:, :1]), axis=1)
