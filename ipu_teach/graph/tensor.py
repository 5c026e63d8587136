"""Tensors: views into variables. Slicing, reshaping and transposing move nothing and cost nothing.

A tensor is an offset and a *layout*. The layout says how its elements lie relative to the offset: by strides where that is
possible (a slice, a row, a column, a transpose), else as an explicit list of element positions (a concatenation, a
flattened transpose).

Positions count elements of the tensor's own dtype in the one flat memory of the graph.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from ipu_teach.errors import GraphObjectCreationError, PoplarIndexError, PoplarTypeError, TensorCreationError, shown
from ipu_teach.graph.layouts import MOST_DIMENSIONS, Layout, Shape, as_shape, dense, is_whole, refuse_to_list
from ipu_teach.types import Array, DType

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph

__all__ = ["MOST_DIMENSIONS", "Layout", "Shape", "Tensor", "as_shape", "concat", "dense"]


class Tensor:
    """A view of elements of one dtype. It holds no values: only Copy and Execute move data.

    `shape`: a tuple of ints; `element_type`: its dtype. Index and slice it as in numpy (integers, slices, `...`).
    """

    __slots__ = ("graph", "dtype", "offset", "layout")

    def __init__(self, graph: Graph, dtype: type[DType], offset: int, layout: Layout) -> None:
        self.graph = graph
        self.dtype = dtype
        self.offset = offset
        self.layout = layout

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.layout.shape)

    @property
    def num_elements(self) -> int:
        return self.layout.size

    @property
    def element_type(self) -> type[DType]:
        return self.dtype

    def dim(self, axis: int) -> int:
        """Length of one dimension. Raises `PoplarIndexError`."""
        return self.shape[self._axis(axis)]

    def __len__(self) -> int:
        if not self.shape:
            raise PoplarIndexError("A tensor of a single element has no length.", where=repr(self))
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise PoplarTypeError(
            "A tensor was used as if it held numbers: it only names elements in the machine's memory.",
            where=repr(self),
            next_step="to see its values: graph.create_host_read(handle, tensor), then engine.read_tensor(handle) after a run.",
        )

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise PoplarTypeError(
            "A value was assigned to elements of a tensor: a graph only describes what will run.",
            where=repr(self),
            next_step="give values with graph.set_initial_value(tensor, values), or move them with program.Copy.",
        )

    def __getitem__(self, key: Any) -> Tensor:
        layout = self.layout
        if layout.strides is None:
            return self._index_positions(key)
        offset, axis = self.offset, 0
        shape: list[int] = []
        strides: list[int] = []
        for part in key if type(key) is tuple else (key,):
            if part is Ellipsis or axis >= len(layout.shape):
                return self._index_dummy(key)
            length, stride = layout.shape[axis], layout.strides[axis]
            if type(part) is int:
                if not -length <= part < length:
                    raise self._out_of_range(part, axis)
                offset += (part if part >= 0 else part + length) * stride
            elif type(part) is slice:
                start, stop, step = _slice_bounds(self, part, axis)
                count = max(0, -((start - stop) // step)) if step > 0 else max(0, -((stop - start) // -step))
                offset += start * stride if count else 0
                shape.append(count)
                strides.append(stride * step)
            else:
                return self._index_dummy(key)
            axis += 1
        return Tensor(
            self.graph, self.dtype, offset,
            self.graph.strided((*shape, *layout.shape[axis:]), (*strides, *layout.strides[axis:])),
        )  # fmt: skip

    def _index_dummy(self, key: Any) -> Tensor:
        """Rare keys (`...`, numpy integers), as plain integers and slices."""
        parts = key if isinstance(key, tuple) else (key,)
        self._check_key(parts, key)
        count = sum(p is not Ellipsis for p in parts)
        at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
        full = parts[:at] + (slice(None),) * (self.rank - count) + parts[at + 1 :]
        return self[tuple(int(p) if isinstance(p, (int, np.integer)) else p for p in full)]

    def _index_positions(self, key: Any) -> Tensor:
        parts = key if isinstance(key, tuple) else (key,)
        self._check_key(parts, key)
        axis = 0
        for part in parts:
            if part is Ellipsis:
                axis += self.rank - len(parts)
            elif isinstance(part, slice):
                _slice_bounds(self, part, axis)
            elif not -self.shape[axis] <= part < self.shape[axis]:
                raise self._out_of_range(part, axis)
            axis += 1
        return self.graph.listed(self.dtype, self.offset + np.asarray(self.layout.positions[key]))

    def _check_key(self, parts: tuple[Any, ...], key: Any) -> None:
        """Refuse what is no index, and more indices than there are dimensions."""
        if not all(is_whole(p) or isinstance(p, slice) or p is Ellipsis for p in parts):
            raise PoplarIndexError(
                f"A tensor cannot be indexed with {shown(key)}.",
                where=repr(self),
                next_step="use integers, slices and `...`; which elements are meant must be known when the graph is built.",
            )
        count = sum(p is not Ellipsis for p in parts)
        if count > self.rank or len(parts) - count > 1:
            raise PoplarIndexError(
                f"The index {shown(key)} does not fit a tensor of shape {self.shape}.",
                where=repr(self),
                next_step=f"give at most {self.rank} integers or slices, and at most one `...`.",
            )

    def _axis(self, axis: int) -> int:
        if not is_whole(axis) or not -self.rank <= axis < self.rank:
            raise PoplarIndexError(
                f"There is no dimension {shown(axis)} in a tensor of shape {self.shape}.",
                where=repr(self),
                next_step=f"use 0 to {self.rank - 1}." if self.rank else "a single element has no dimensions.",
            )
        return int(axis) % self.rank

    def _out_of_range(self, index: int, axis: int) -> PoplarIndexError:
        return PoplarIndexError(
            f"Index {shown(index)} is outside dimension {axis}, which has {_count(self.shape[axis])}.",
            where=repr(self),
            next_step=f"use 0 to {self.shape[axis] - 1}." if self.shape[axis] else "the dimension is empty.",
        )

    def slice(self, begin: int, end: int, dim: int = 0) -> Tensor:
        """Elements `begin` up to, not including, `end` of one dimension. Raises `PoplarIndexError` if outside."""
        axis = self._axis(dim)
        if not is_whole(begin) or not is_whole(end) or not 0 <= begin <= end <= self.shape[axis]:
            raise PoplarIndexError(
                f"slice({shown(begin)}, {shown(end)}) does not fit dimension {axis}, which has {_count(self.shape[axis])}.",
                where=repr(self),
                next_step=f"use 0 <= begin <= end <= {self.shape[axis]}.",
            )
        return self[(slice(None),) * axis + (slice(begin, end),)]

    def reshape(self, shape: int | Sequence[int]) -> Tensor:
        """The same elements, row by row, under another shape. Raises `TensorCreationError` if the counts differ."""
        wanted = as_shape(shape)
        if wanted is None or prod(wanted) != self.num_elements:
            raise TensorCreationError(
                f"A tensor of shape {self.shape} has {_count(self.num_elements)} and cannot take the shape "
                f"{shown(shape if wanted is None else wanted)}.",
                where=repr(self),
                next_step="give whole numbers, none negative, whose product is the number of elements.",
            )
        if self.layout.strides is not None:
            if self.num_elements == 0 or self.layout.contiguous:
                return Tensor(self.graph, self.dtype, self.offset, self.graph.strided(wanted, dense(wanted)))
            # A dummy of the same strides over one byte: numpy says whether a view exists; nothing is ever read.
            dummy = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), self.shape, self.layout.strides)
            try:
                strides = np.reshape(dummy, wanted, copy=False).strides
                return Tensor(self.graph, self.dtype, self.offset, self.graph.strided(wanted, strides))
            except ValueError:
                pass
        return self.graph.listed(self.dtype, self.offset + self.layout.positions.reshape(wanted))

    def flatten(self, dim_begin: int = 0, dim_end: int | None = None) -> Tensor:
        """All dimensions, or those from `dim_begin` up to `dim_end`, made into one."""
        end = self.rank if dim_end is None else dim_end
        if not is_whole(dim_begin) or not is_whole(end) or not 0 <= dim_begin <= end <= self.rank:
            raise PoplarIndexError(
                f"flatten({shown(dim_begin)}, {shown(end)}) does not fit shape {self.shape}.",
                where=repr(self),
                next_step=f"use 0 <= dim_begin <= dim_end <= {self.rank}.",
            )
        return self.reshape((*self.shape[:dim_begin], prod(self.shape[dim_begin:end]), *self.shape[end:]))

    def dim_shuffle(self, permutation: Sequence[int]) -> Tensor:
        """Dimensions in another order: dimension i of the result is dimension `permutation[i]` of this tensor."""
        order = as_shape(permutation)
        if order is None or sorted(order) != list(range(self.rank)):
            raise PoplarIndexError(
                f"dim_shuffle({shown(permutation)}) is no order of the {self.rank} dimensions of shape {self.shape}.",
                where=repr(self),
                next_step=f"name each of {list(range(self.rank))} once.",
            )
        if self.layout.strides is None:
            return self.graph.listed(self.dtype, self.offset + self.layout.positions.transpose(order))
        shape, strides = self.shape, self.layout.strides
        layout = self.graph.strided(tuple(shape[i] for i in order), tuple(strides[i] for i in order))
        return Tensor(self.graph, self.dtype, self.offset, layout)

    def transpose(self) -> Tensor:
        """A matrix with rows and columns exchanged. Raises `PoplarIndexError` if it is no matrix."""
        if self.rank != 2:
            raise PoplarIndexError(
                f"transpose() is for matrices; this tensor has shape {self.shape}.",
                where=repr(self),
                next_step="use dim_shuffle for other ranks.",
            )
        return self.dim_shuffle((1, 0))

    @property
    def T(self) -> Tensor:
        """`transpose()`."""
        return self.transpose()

    def positions(self) -> Array:
        """int64 array of the view's shape: each element's position in the flat memory of its dtype."""
        return self.offset + self.layout.positions

    def byte_extent(self) -> tuple[Array, Array]:
        """(starts, stops) of the bytes touched in the graph's flat memory, each once, ascending."""
        starts, lengths = self.layout.extent
        begin = (self.offset + starts) * self.dtype.size
        return begin, begin + lengths * self.dtype.size

    def __repr__(self) -> str:
        return f"Tensor({self.graph.describe(self)}, {self.dtype.__name__}, shape {self.shape})"


def _count(elements: int) -> str:
    return f"{elements:,} element{'' if elements == 1 else 's'}"


def _slice_bounds(tensor: Tensor, part: slice, axis: int) -> tuple[int, int, int]:
    """numpy's meaning of a slice, but a bound beyond the end is an error: it is a slip far more often than a wish."""
    length = tensor.shape[axis]
    start, stop, step = part.start, part.stop, part.step
    plain = type(start) is int and type(stop) is int and step is None
    if plain and 0 <= start <= length and 0 <= stop <= length:
        return start, stop, 1
    for bound in (start, stop):
        if bound is not None and not (is_whole(bound) and -length <= bound <= length):
            raise PoplarIndexError(
                f"The slice {_slice_text(part)} does not fit dimension {axis}, which has {_count(length)}.",
                where=repr(tensor),
                next_step=f"use whole numbers from 0 to {length}.",
            )
    if step is not None and (not is_whole(step) or step == 0):
        raise PoplarIndexError(
            f"The slice {_slice_text(part)} has the step {shown(step)}.",
            where=repr(tensor),
            next_step="use a whole number that is not 0.",
        )
    return part.indices(length)


def _slice_text(part: slice) -> str:
    """A slice as one writes it."""
    parts = [part.start, part.stop] + ([] if part.step is None else [part.step])
    return ":".join("" if p is None else shown(p) for p in parts)


def concat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Views joined along dimension `dim` into one view; nothing is copied. They must agree in dtype and other dimensions."""
    if not isinstance(tensors, Sequence) or not tensors or not all(isinstance(t, Tensor) for t in tensors):
        raise GraphObjectCreationError(
            f"concat() was given {shown(tensors)}.", next_step="give a list of tensors, as in concat([a, b])."
        )
    first = tensors[0]
    axis = first._axis(dim)
    for t in tensors:
        if t.dtype is not first.dtype:
            raise PoplarTypeError(
                f"concat() joins {first.dtype.__name__} and {t.dtype.__name__}.",
                where=f"{first!r} and {t!r}",
                next_step="cast one of them first.",
            )
        if t.graph is not first.graph:
            raise GraphObjectCreationError(
                "concat() was given tensors of two graphs.",
                where=f"{first!r} and {t!r}",
                next_step="use one graph throughout.",
            )
        if t.rank != first.rank or t.shape[:axis] + t.shape[axis + 1 :] != first.shape[:axis] + first.shape[axis + 1 :]:
            raise TensorCreationError(
                f"concat() along dimension {axis} joins shapes {first.shape} and {t.shape}, which differ elsewhere.",
                where=f"{first!r} and {t!r}",
                next_step=f"make all lengths but that of dimension {axis} equal.",
            )
    if len(tensors) == 1:
        return first
    if axis == 0 and all(t.layout.contiguous for t in tensors):
        ends = [t.offset + t.num_elements for t in tensors]
        if all(a == b.offset for a, b in zip(ends, tensors[1:], strict=False)):
            shape = (sum(t.shape[0] for t in tensors), *first.shape[1:])
            return Tensor(first.graph, first.dtype, first.offset, first.graph.strided(shape, dense(shape)))
    refuse_to_list(sum(t.num_elements for t in tensors))
    return first.graph.listed(first.dtype, np.concatenate([t.positions() for t in tensors], axis))
