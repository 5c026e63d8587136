"""Layouts: the memory order of a view's elements. Equal layouts are stored once.

A layout consists of strides if possible, and otherwise of a list of element positions. A graph
stores equal layouts only once (it interns them), so that a million edges need a million numbers and
not a million objects.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
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
# A hashable key for an index such as x[1, 2:5]. It contains (index,) or (start, stop, step) for
# each axis.
Cuts = tuple[tuple[int | None, ...], ...]

# The maximum number of elements or pieces that are listed one by one. 2**28 positions take 2 GB.
MOST_LISTED = 2**28
MOST_DIMENSIONS = 32
# Longer lists of positions are compared by hash, and are stored in 32 bits if the positions fit.
_SMALL = 4096


class Layout:
    """The positions of a tensor's elements relative to its first element.

    Layouts are immutable and interned, so equal layouts are the same object. `id` is the number of
    the layout in its graph. A layout without `strides` has a list of element positions, `listed`;
    `positions` returns the positions as int64.
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
        """This layout as the only part, at offset 0: ((0, this layout),).

        A `ListLayout` has an attribute of the same form, with several parts.
        """
        return ((0, self),)

    @cached_property
    def contiguous(self) -> bool:
        """Whether the elements are contiguous in memory, in the order of the view."""
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
        """The position of each element relative to the first: int64 of the view's shape."""
        if self.listed is not None:
            return self.listed.astype(np.int64, copy=False)
        assert self.strides is not None
        return _strided_positions(self.shape, self.strides)

    def picked(self, key: Any) -> Array:
        """Return the positions of the elements that `key` selects: int64.

        The result equals `positions[key]`. If the positions are stored in 32 bits, only the
        selected ones are converted.
        """
        if self.listed is None:
            return np.asarray(self.positions[key])
        return np.asarray(self.listed[key], np.int64)

    @cached_property
    def runs(self) -> tuple[Array, Array]:
        """The view's contiguous pieces of memory, in the order of the view, as (starts, lengths).

        Both count elements. Starts are relative to the first element of the view.
        """
        if self.contiguous:
            n = 1 if self.size else 0
            return np.zeros(n, np.int64), np.full(n, self.size, np.int64)
        if self.strides is None:
            return _runs(self.positions.reshape(-1))
        return _strided_runs(self.shape, self.strides)

    @cached_property
    def extent(self) -> tuple[Array, Array]:
        """The memory that the view covers: (starts, lengths) of disjoint intervals, ascending.

        Both count elements. Starts are relative to the first element of the view.
        """
        if self.contiguous:
            return self.runs
        bounds = None
        if self.strides is not None and self.size:
            bounds = _strided_extent(self.shape, self.strides)
        if bounds is not None:
            return bounds
        # With return_counts, numpy sorts. Otherwise it would use a hash table, and take 15 times as
        # long on a million positions.
        return _runs(np.unique(self.positions, return_counts=True)[0])

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The lowest and the highest position, relative to the first element.

        The view must not be empty.
        """
        if self.strides is None:
            return int(self.positions.min()), int(self.positions.max())
        ends = [
            (length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)
        ]
        return sum(e for e in ends if e < 0), sum(e for e in ends if e > 0)

    @cached_property
    def aliased(self) -> bool:
        """Whether an element appears more than once, as after a broadcast."""
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
    """Return the contiguous runs of elements with `shape` and `strides`, as (starts, lengths).

    The runs are in the order of the view. Innermost axes whose elements are contiguous in memory
    are joined into one run.
    """
    num_outer = len(shape)
    run_length = 1
    while num_outer and (shape[num_outer - 1] == 1 or strides[num_outer - 1] == run_length):
        num_outer -= 1
        run_length *= shape[num_outer]
    starts = (
        _strided_positions(shape[:num_outer], strides[:num_outer]).reshape(-1)
        if run_length
        else np.zeros(0, np.int64)
    )
    return _merged(starts, run_length)


def _merged(starts: Array, run: int) -> tuple[Array, Array]:
    """Merge pieces that are adjacent in memory; return (starts, lengths) of the merged pieces.

    `starts` are the starts of the pieces, in order. Each piece has `run` elements.
    """
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
    """Return the memory that elements of this shape and strides cover, as (starts, lengths).

    The intervals are ascending and disjoint, and are computed without listing every element. Return
    None if the axes interleave, that is, if the elements along one axis are between elements along
    another axis.
    """
    lowest = sum(
        (length - 1) * stride for length, stride in zip(shape, strides, strict=True) if stride < 0
    )
    # Each axis is (stride, length), from the smallest stride to the largest.
    axes: list[tuple[int, int]] = []
    covered_span = 0
    for stride, length in sorted(
        (abs(step), size) for size, step in zip(shape, strides, strict=True) if size > 1 and step
    ):
        if stride <= covered_span:
            return None
        if axes and stride == axes[-1][0] * axes[-1][1]:
            axes[-1] = (axes[-1][0], axes[-1][1] * length)
        else:
            axes.append((stride, length))
        covered_span += stride * (length - 1)
    run_length = axes.pop(0)[1] if axes and axes[0][0] == 1 else 1
    refuse_to_list(prod(length for _, length in axes))
    starts = np.full(1, lowest, np.int64)
    for stride, length in reversed(axes):
        starts = (starts[:, None] + np.arange(length) * stride).reshape(-1)
    return _merged(starts, run_length)


def refuse_to_list(count: int) -> None:
    """Raise `TensorCreationError` if `count` elements or pieces are too many to list."""
    if count > MOST_LISTED:
        raise TensorCreationError(f"""A view of {count:,} separate pieces is too large to work
            with.
            next:  use a smaller tensor: at most {MOST_LISTED:,} pieces.""")


def _key_of(positions: Array) -> bytes:
    """Return the positions as bytes, or a digest of 256 bits if there are very many."""
    return positions.tobytes() if positions.size <= _SMALL else sha256(positions.data).digest()


def _compact(positions: Array) -> Array:
    """Return the positions in 32 bits if they fit, and unchanged if not."""
    fits = positions.min() >= -(2**31) and positions.max() < 2**31
    return positions.astype(np.int32) if fits else positions


class Form:
    """A layout together with a dtype and a graph: a tensor without its offset.

    Tensors that were made in the same way share one form. The form of a view of a tensor depends
    only on the form of the tensor and on the selection, so each form caches the forms of its views:

    * `row`: the form of one row
    * `rows[n]`: the form of n rows, which are `stride` elements apart
    * `cuts[...]`: the form of a selection by integers and slices
    * `flat`: the form of all elements in one dimension
    * `picks[...]`: the (offset, form) of a selection by integers and slices, if the layout is a
      list of positions
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
        self.cuts: dict[tuple[int | tuple[int, int] | None, ...], Form] = {}
        self.picks: dict[tuple[object, ...], tuple[int, Form]] = {}
        self.flat: Form | None = None


@dataclass(frozen=True)
class ListLayout:
    """The layout of several regions that are connected to one field.

    Each of `parts` is (offset from the first region, layout).
    """

    id: int
    parts: tuple[tuple[int, Layout], ...]


class Layouts:
    """The interned layouts of one graph. `all[i]` is the layout whose `id` is i."""

    def __init__(self, graph: Graph) -> None:
        self.all: list[Layout | ListLayout] = []
        self._graph = graph
        self._interned: dict[Hashable, Any] = {}

    def form(self, dtype: type[DType], layout: Layout) -> Form:
        """Return the `Form` object that all tensors with this dtype and layout share."""
        key = (dtype, layout.id)
        form: Form | None = self._interned.get(key)
        if form is None:
            form = self._interned[key] = Form(self._graph, dtype, layout)
        return form

    def strided(self, shape: Shape, strides: Shape) -> Layout:
        """Return the layout with this shape and these strides. Strides count elements."""
        key = (shape, strides)
        layout: Layout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = Layout(len(self.all), shape, strides, None)
            self.all.append(layout)
        return layout

    def listed(self, relative: Array) -> Layout:
        """Return the layout of a list of element positions.

        `relative` contains int64 positions relative to the first element, in the shape of the view.
        """
        relative = np.asarray(relative, order="C")
        flat = relative.reshape(-1)
        # Compare the last position first, because there can be many positions.
        last = flat.size - 1
        if last < 0 or flat[last] == last and np.array_equal(flat, np.arange(last + 1)):
            # If the positions are contiguous, the layout has strides.
            return self.strided(relative.shape, dense(relative.shape))
        key = (relative.shape, _key_of(relative))
        layout: Layout | None = self._interned.get(key)
        if layout is None:
            stored = _compact(relative) if relative.size > _SMALL else relative
            layout = self._interned[key] = Layout(len(self.all), relative.shape, None, stored)
            self.all.append(layout)
        return layout

    def list_layout(self, parts: tuple[tuple[int, Layout], ...]) -> ListLayout:
        """Return the compound layout of several regions that are connected to one field."""
        key = tuple((delta, layout.id) for delta, layout in parts)
        layout: ListLayout | None = self._interned.get(key)
        if layout is None:
            layout = self._interned[key] = ListLayout(len(self.all), parts)
            self.all.append(layout)
        return layout


def dense(shape: Shape) -> Shape:
    """Return the strides of contiguous elements in row-major order."""
    strides = []
    step = 1
    for length in reversed(shape):
        strides.append(step)
        step *= length
    return tuple(reversed(strides))


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; True and False are not."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_array(values: object) -> Array:
    """Return `values` as an array. If that is impossible, return an array that contains None."""
    try:
        return np.asarray(values)
    except (ValueError, OverflowError, MemoryError):
        return np.asarray(None)


def as_shape(shape: object) -> Shape | None:
    """Return an integer, or a sequence of integers, as a tuple of integers of 0 or more.

    Return None if `shape` is anything else, or has more than `MOST_DIMENSIONS` integers.
    """
    parts = (shape,) if isinstance(shape, (int, np.integer)) else shape
    if not isinstance(parts, (Sequence, np.ndarray)) or isinstance(parts, (str, bytes)):
        return None
    if getattr(parts, "ndim", 1) != 1 or len(parts) > MOST_DIMENSIONS:
        return None
    return (
        tuple(int(size) for size in parts)
        if all(is_whole(size) and size >= 0 for size in parts)
        else None
    )
