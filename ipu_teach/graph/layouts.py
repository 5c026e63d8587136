"""Layouts: the memory order of a view's elements, each different one stored once.

A layout is strides where that is possible, else an explicit list of element positions. A graph
interns them, so that a million edges need a million numbers and not a million objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ipu_teach.errors import TensorCreationError
from ipu_teach.types import Array, DType

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph

Shape = tuple[int, ...]

MOST_LISTED = 2**28  # pieces of a view that may be taken one by one: 2 GB of positions
MOST_DIMENSIONS = 32
_SMALL = 4096  # positions of a list that is kept as it is


class Layout:
    """The positions of a tensor's elements relative to its first one. Immutable and interned; `id`
    numbers it within its graph.

    A layout without `strides` is `listed`, element by element: see `positions`.
    """

    def __init__(
        self, number: int, shape: Shape, strides: Shape | None, listed: Array | None
    ) -> None:
        self.id = number
        self.shape = shape
        self.strides = strides
        self.listed = listed
        self.size = prod(shape)

    @property
    def parts(self) -> tuple[tuple[int, Layout], ...]:
        """Itself at offset 0, as if it were a list of one."""
        return ((0, self),)

    @cached_property
    def contiguous(self) -> bool:
        """True if the elements are contiguous in the order of the view."""
        if self.strides is None:
            return self.size <= 1
        expected = 1
        for length, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if length != 1 and stride != expected:
                return self.size <= 1
            expected *= length
        return True

    @property
    def positions(self) -> Array:
        """int64 array of the view's shape: each element's position relative to the first."""
        if self.listed is not None:
            return self.listed.astype(np.int64, copy=False)
        assert self.strides is not None
        return _strided_positions(self.shape, self.strides)

    def picked(self, key: Any) -> Array:
        """Return `positions[key]` as int64, without a copy of all positions of a list."""
        if self.listed is None:
            return np.asarray(self.positions[key])
        return np.asarray(self.listed[key], np.int64)

    @cached_property
    def runs(self) -> tuple[Array, Array]:
        """(starts, lengths) of the contiguous pieces, in the order of the view."""
        if self.contiguous:
            n = 1 if self.size else 0
            return np.zeros(n, np.int64), np.full(n, self.size, np.int64)
        if self.strides is None:
            return _runs(self.positions.reshape(-1))
        return _strided_runs(self.shape, self.strides)

    @cached_property
    def extent(self) -> tuple[Array, Array]:
        """(starts, lengths) of the elements touched, each once, ascending."""
        if self.contiguous:
            return self.runs
        bounds = None
        if self.strides is not None and self.size:
            bounds = _strided_extent(self.shape, self.strides)
        if bounds is not None:
            return bounds
        # The counts make numpy sort. Its hash table, which it takes without, is 15 times slower on
        # a million positions.
        return _runs(np.unique(self.positions, return_counts=True)[0])

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest position of a view that is not empty, relative to the first
        element."""
        if self.strides is None:
            return int(self.positions.min()), int(self.positions.max())
        ends = [
            (length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)
        ]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)

    @cached_property
    def aliased(self) -> bool:
        """True if some element appears twice, as after a broadcast."""
        return int(self.extent[1].sum()) < self.size


def _strided_positions(shape: Shape, strides: Shape) -> Array:
    if 0 in shape:
        return np.zeros(shape, np.int64)
    refuse_to_list(prod(shape))
    result = np.zeros(shape, np.int64)
    for axis, (length, stride) in enumerate(zip(shape, strides, strict=True)):
        result += (np.arange(length) * stride).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return result


def _strided_runs(shape: Shape, strides: Shape) -> tuple[Array, Array]:
    """Return `Layout.runs` of strided elements: the innermost axes that are contiguous form one
    run."""
    axis = len(shape)
    run = 1
    while axis and (shape[axis - 1] == 1 or strides[axis - 1] == run):
        axis -= 1
        run *= shape[axis]
    starts = (
        _strided_positions(shape[:axis], strides[:axis]).reshape(-1)
        if run
        else np.zeros(0, np.int64)
    )
    return _merged(starts, run)


def _merged(starts: Array, run: int) -> tuple[Array, Array]:
    """(starts, lengths) of pieces of `run` elements each, in order; those that touch are made
    one."""
    if len(starts) == 0:
        return starts, starts
    first = np.append(True, np.diff(starts) != run)
    return starts[first], np.diff(np.append(np.flatnonzero(first), len(starts))) * run


def _runs(positions: Array) -> tuple[Array, Array]:
    if positions.size == 0:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    breaks = np.flatnonzero(np.diff(positions) != 1) + 1
    starts = np.concatenate(([0], breaks))
    return positions[starts], np.diff(np.concatenate((starts, [positions.size])))


def _strided_extent(shape: Shape, strides: Shape) -> tuple[Array, Array] | None:
    """Return what `Layout.extent` says of strided elements, without a list of them; None if the
    axes interleave."""
    low = sum(
        (length - 1) * stride for length, stride in zip(shape, strides, strict=True) if stride < 0
    )
    axes: list[tuple[int, int]] = []  # (stride, length), from the finest up
    span = 0
    for stride, length in sorted(
        (abs(s), n) for n, s in zip(shape, strides, strict=True) if n > 1 and s
    ):
        if stride <= span:
            return None
        if axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0], axes[-1][1] * length)
        else:
            axes.append((stride, length))
        span += stride * (length - 1)
    run = axes.pop(0)[1] if axes and axes[0][0] == 1 else 1
    refuse_to_list(prod(length for _, length in axes))
    starts = np.full(1, low, np.int64)
    for stride, length in reversed(axes):
        starts = (starts[:, None] + np.arange(length) * stride).reshape(-1)
    return _merged(starts, run)


def refuse_to_list(count: int) -> None:
    """Refuse a list of more elements, or pieces, than any machine holds."""
    if count > MOST_LISTED:
        raise TensorCreationError(f"""A view of {count:,} separate pieces is too large to work
            with.
            next:  use a smaller tensor: at most {MOST_LISTED:,} pieces.""")


def _key_of(positions: Array) -> bytes:
    """Return the positions as bytes, or for very many of them a digest of 256 bits, which takes no
    memory."""
    return positions.tobytes() if positions.size <= _SMALL else sha256(positions.data).digest()


def _compact(positions: Array) -> Array:
    """Return the positions in 32 bits, if they fit."""
    fits = positions.min() >= -(2**31) and positions.max() < 2**31
    return positions.astype(np.int32) if fits else positions


class Form:
    """A layout of elements of one dtype in one graph: a tensor without its beginning. Interned, as
    layouts are.

    A tensor cut out of another has a form that depends only on the other's form: `row` is that of
    one row, `rows[n]` that of n rows, `stride` elements apart, `cuts[…]` that of a selection by
    numbers and slices, `flat` that of all elements in one dimension. Each is cached when it is
    first needed. For a list of positions, `picks[…]` is (elements to the beginning, the form) of
    such a selection.
    """

    __slots__ = (
        *("graph", "dtype", "layout", "length", "stride"),
        *("row", "rows", "cuts", "picks", "flat"),
    )

    def __init__(self, graph: Graph, dtype: type[DType], layout: Layout) -> None:
        self.graph = graph
        self.dtype = dtype
        self.layout = layout
        self.length = layout.shape[0] if layout.shape else 0
        self.stride = layout.strides[0] if layout.strides else 0
        self.row: Form | None = None
        self.rows: dict[int, Form] = {}
        self.cuts: dict[tuple[Any, ...], Form] = {}
        self.picks: dict[tuple[Any, ...], tuple[int, Form]] = {}
        self.flat: Form | None = None


@dataclass(frozen=True)
class ListLayout:
    """Several regions on one field: for each, its offset from the first and its own layout."""

    id: int
    parts: tuple[tuple[int, Layout], ...]


class Layouts:
    """The layouts of one graph. `all[i]` is the layout whose `id` is i."""

    def __init__(self, graph: Graph) -> None:
        self.all: list[Layout | ListLayout] = []
        self._graph = graph
        self._interned: dict[Any, Any] = {}

    def form(self, dtype: type[DType], layout: Layout) -> Form:
        """Return the form of tensors of that dtype and layout."""
        key = (dtype, layout.id)
        form: Form | None = self._interned.get(key)
        if form is None:
            form = self._interned[key] = Form(self._graph, dtype, layout)
        return form

    def strided(self, shape: Shape, strides: Shape) -> Layout:
        """Return the layout of that shape and those strides (elements)."""
        key = (shape, strides)
        layout: Layout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = Layout(len(self.all), shape, strides, None)
            self.all.append(layout)
        return layout

    def listed(self, relative: Array) -> Layout:
        """Return the layout of explicit element positions, relative to the first, in the shape of
        `relative` (int64)."""
        relative = np.asarray(relative, order="C")
        flat = relative.reshape(-1)
        last = flat.size - 1  # first a look at one of them, since there are many
        if last < 0 or flat[last] == last and np.array_equal(flat, np.arange(last + 1)):
            # side by side after all
            return self.strided(relative.shape, dense(relative.shape))
        key = (relative.shape, _key_of(relative))
        layout: Layout | None = self._interned.get(key)
        if layout is None:
            stored = _compact(relative) if relative.size > _SMALL else relative
            layout = self._interned[key] = Layout(len(self.all), relative.shape, None, stored)
            self.all.append(layout)
        return layout

    def list_layout(self, parts: tuple[tuple[int, Layout], ...]) -> ListLayout:
        """Return the compound layout of several regions on one field."""
        key = tuple((delta, layout.id) for delta, layout in parts)
        layout: ListLayout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = ListLayout(len(self.all), parts)
            self.all.append(layout)
        return layout


def dense(shape: Shape) -> Shape:
    """Return the strides of contiguous elements, row by row."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is a whole number; True and False are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_array(values: object) -> Array:
    """Return `values` as an array; an array of None if that is not possible."""
    try:
        return np.asarray(values)
    except (ValueError, OverflowError, MemoryError):
        return np.asarray(None)


def as_shape(shape: object) -> Shape | None:
    """Return one number, or a sequence of numbers, as a tuple of whole numbers of 0 or more; None
    if it is no such thing."""
    parts = (shape,) if isinstance(shape, (int, np.integer)) else shape
    if not isinstance(parts, (Sequence, np.ndarray)) or isinstance(parts, (str, bytes)):
        return None
    if getattr(parts, "ndim", 1) != 1 or len(parts) > MOST_DIMENSIONS:
        return None
    return tuple(int(n) for n in parts) if all(is_whole(n) and n >= 0 for n in parts) else None
