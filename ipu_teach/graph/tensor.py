"""Tensors: views of variables. Slicing, reshaping and transposing copy nothing and cost nothing.

A tensor consists of an offset and a *layout*. The layout contains the positions of the elements
relative to the offset: as strides if possible (a slice, a row, a column, a transpose), and
otherwise as a list (a concatenation, a flattened transpose).

Positions count elements of the tensor's own dtype in the graph's memory, which is one flat array.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn, TextIO, overload

import numpy as np

from ipu_teach.errors import (
    GraphObjectCreationError,
    PoplarIndexError,
    PoplarTypeError,
    TensorCreationError,
    WithoutSome,
    WithoutValue,
    counted,
    shown,
)
from ipu_teach.graph import not_here, outline
from ipu_teach.graph.indexing import cut, up_to
from ipu_teach.graph.layouts import (
    MOST_DIMENSIONS,
    Form,
    Layout,
    Shape,
    as_shape,
    dense,
    is_whole,
    refuse_to_list,
)
from ipu_teach.graph.numpy_calls import OPERATORS, call_for, call_for_numbers
from ipu_teach.graph.source import caller, in_words
from ipu_teach.graph.variable_table import VariableInterval
from ipu_teach.types import BOOL, QUARTER, Array, DType, QuarterMetadata, as_dtype, metadata_of

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph

__all__ = ["MOST_DIMENSIONS", "Layout", "Shape", "Tensor", "as_shape", "concat", "dense"]


_new = object.__new__


class UpsampleMethod(Enum):
    """The methods by which `Tensor.upsample` makes a dimension longer."""

    REPEAT = "repeat"


class Tensor(WithoutSome, WithoutValue):
    """A view of elements of one dtype. It has no values: only Copy and Execute change data.

    `shape` is a tuple of ints, and `element_type` is the dtype. Index and slice a tensor as in
    numpy, with integers, slices, `...`, and arrays of integers or bools. `a == b` is True if both
    are the same view. Using a tensor as a number or a list raises `DeviceValueError`; to loop over
    its parts, write `tensor[i] for i in range(len(tensor))`.
    """

    __slots__ = ("offset", "form")
    not_here = not_here.ARRAY | not_here.TENSOR

    def __init__(self, offset: int, form: Form) -> None:
        self.offset = offset
        self.form = form

    @classmethod
    def of(cls, graph: Graph, dtype: type[DType], offset: int, layout: Layout) -> Tensor:
        """Return a tensor with this layout, `offset` elements after the start of the memory."""
        return cls(offset, graph.form(dtype, layout))

    @property
    def graph(self) -> Graph:
        return self.form.graph

    @property
    def dtype(self) -> type[DType]:
        return self.form.dtype

    @property
    def layout(self) -> Layout:
        return self.form.layout

    @property
    def shape(self) -> Shape:
        return self.layout.shape

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self.layout.shape)

    @property
    def num_elements(self) -> int:
        return self.layout.size

    @property
    def element_type(self) -> type[DType]:
        return self.dtype

    def has_metadata(self) -> bool:
        """Return whether the dtype is an 8-bit float."""
        return issubclass(self.dtype, QUARTER)

    def get_metadata(self) -> QuarterMetadata:
        """Return the format and scale of an 8-bit float, which are part of its dtype.

        Raises `TensorMetadataError` for other dtypes.
        """
        return metadata_of(self.dtype, repr(self))

    def dim(self, axis: int) -> int:
        """Return the length of dimension `axis`. Raises `PoplarIndexError`."""
        return self.shape[self._axis(axis)]

    def __len__(self) -> int:
        if not self.shape:
            raise PoplarIndexError(f"""A tensor of a single element has no length.
                where: {self!r}
                next:  give it a dimension: tensor.reshape(1).""")
        return self.shape[0]

    _line = staticmethod(lambda: in_words(caller()))

    def _same(self, other: Tensor) -> bool:
        if (
            self.graph is not other.graph
            or self.dtype is not other.dtype
            or self.shape != other.shape
        ):
            return False
        if self.layout is other.layout or not self.num_elements:
            return self.offset == other.offset or not self.num_elements
        return bool(np.array_equal(self.positions(), other.positions()))

    def __hash__(self) -> int:
        return hash((self.num_elements and self.offset, self.shape, self.dtype))

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise PoplarTypeError(f"""A tensor was used as if it held numbers, but it only names
            elements in the machine's memory.
            where: {self!r}
            next:  to see its values: graph.create_host_read(handle, tensor), then
            engine.read_tensor(handle) after a run.""")

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, **_: object
    ) -> NoReturn:
        """Raise an error for a numpy function, or for an operator with a numpy number or array."""
        name = ufunc.__name__
        if len(inputs) == 2 and name in OPERATORS:
            left, right = inputs
            left_method, right_method = OPERATORS[name]
            if left is self:
                getattr(self, left_method)(right)
            getattr(self, right_method)(left)
        self._refuse(f"np.{name}()", call_for_numbers(name, len(inputs)))

    def __array_function__(self, function: Callable[..., object], *_: object) -> NoReturn:
        name = function.__name__
        call = call_for(name)
        advice = (
            f"use the kit's call: {call}"
            if call
            else "let the device do it, with the functions of ipu_teach.poplibs.popops."
        )
        raise PoplarTypeError(f"""np.{name}() was called with a tensor, which has no values while
            the program is written.
            where: {self!r}
            next:  {advice}""")

    def __setitem__(self, key: object, value: object) -> NoReturn:
        raise PoplarTypeError(f"""A value was assigned to elements of a tensor, but a graph only
            describes what will run.
            where: {self!r}
            next:  give values with graph.set_initial_value(tensor, values), or move them with
            program.Copy.""")

    def __getitem__(self, key: Any) -> Tensor:
        # Fast path for the usual keys of loops, [i], [a:b], [i, j] and [i, a:b], if the form of the
        # view is already cached.
        form = self.form
        offset = self.offset
        last_index = key
        if type(key) is tuple:
            row_form = form.row
            if row_form is None or len(key) != 2:
                return Tensor(*cut(self, key))
            first_index, last_index = key
            if type(first_index) is not int or not 0 <= first_index < form.length:
                return Tensor(*cut(self, key))
            offset += first_index * form.stride
            form = row_form
        new_form = None
        if type(last_index) is int:
            if 0 <= last_index < form.length:
                new_form = form.row
                first_index = last_index
        elif type(last_index) is slice and last_index.step is None:
            first_index = last_index.start
            stop = last_index.stop
            if (
                type(first_index) is int
                and type(stop) is int
                and 0 <= first_index < stop <= form.length
            ):
                new_form = form.rows.get(stop - first_index)
        if new_form is None:
            return Tensor(*cut(self, key))
        view = _new(Tensor)  # A call of Tensor(…) would take 1.5 times as long.
        view.offset = offset + first_index * form.stride
        view.form = new_form
        return view

    def _axis(self, axis: int) -> int:
        if not is_whole(axis) or not -self.rank <= axis < self.rank:
            advice = up_to(self.rank) if self.rank else "a single element has no dimensions."
            raise PoplarIndexError(f"""There is no dimension {shown(axis)} in a tensor of shape
                {self.shape}.
                where: {self!r}
                next:  {advice}""")
        return int(axis) % self.rank

    def _check_dims(self, call: str, begin: int, end: int) -> None:
        if not is_whole(begin) or not is_whole(end) or not 0 <= begin <= end <= self.rank:
            raise PoplarIndexError(f"""{call}({shown(begin)}, {shown(end)}) does not fit shape
                {self.shape}.
                where: {self!r}
                next:  use 0 <= dim_begin <= dim_end <= {self.rank}.""")

    def slice(
        self, begin: int | Sequence[int], end: int | Sequence[int] | None = None, dim: int = 0
    ) -> Tensor:
        """Return the elements from `begin` up to, but not including, `end` of one dimension.

        `slice(2)` ends at the end of the dimension. `slice((2, 5), dim=1)` takes an interval.
        `slice((0, 2), (3, 4))` takes a begin and an end for each dimension, from the first
        dimension on. Raises `PoplarIndexError` if a bound is outside the tensor.
        """
        if end is None and is_whole(begin):
            end = self.shape[self._axis(dim)]
        elif end is None:
            interval = as_shape(begin)
            if interval is None or len(interval) != 2:
                raise PoplarIndexError(
                    f"slice({shown(begin)}) does not select a part of shape {self.shape}.",
                    where=repr(self),
                    next_step="give (begin, end), with 0 <= begin <= end.",
                )
            begin, end = interval
        if not any(
            isinstance(bound, (Sequence, np.ndarray)) and not isinstance(bound, (str, bytes))
            for bound in (begin, end)
        ):
            bounds = [(self._axis(dim), begin, end)]
        else:
            begins = as_shape(begin)
            ends = as_shape(end)
            if (
                begins is None
                or ends is None
                or len(begins) != len(ends)
                or len(begins) > self.rank
            ):
                raise PoplarIndexError(
                    f"slice({shown(begin)}, {shown(end)}) does not select a part of shape "
                    f"{self.shape}.",
                    where=repr(self),
                    next_step=f"give as many begins as ends, at most {self.rank}.",
                )
            bounds = list(zip(range(self.rank), begins, ends, strict=False))
        key = [slice(None)] * self.rank
        for axis, axis_begin, axis_end in bounds:
            if (
                not is_whole(axis_begin)
                or not is_whole(axis_end)
                or not 0 <= axis_begin <= axis_end <= self.shape[axis]
            ):
                raise PoplarIndexError(f"""slice({shown(axis_begin)}, {shown(axis_end)}) does not
                    fit dimension {axis}, which has {counted(self.shape[axis], "element")}.
                    where: {self!r}
                    next:  use 0 <= begin <= end <= {self.shape[axis]}.""")
            key[axis] = slice(axis_begin, axis_end)
        return self[tuple(key)]

    def slices(self, intervals: Sequence[tuple[int, int]], dim: int = 0) -> list[Tensor]:
        """Return one `slice` of dimension `dim` for each (begin, end) of `intervals`.

        Raises `PoplarIndexError`.
        """
        listed = isinstance(intervals, Sequence) and not isinstance(intervals, (str, bytes))
        if not listed and not (isinstance(intervals, np.ndarray) and intervals.ndim):
            raise PoplarIndexError(
                f"slices({shown(intervals)}) does not select parts of shape {self.shape}.",
                where=repr(self),
                next_step="give a list of intervals, as in [(0, 2), (5, 6)].",
            )
        return [self.slice(interval, dim=dim) for interval in intervals]

    def index(self, *indices: int | Sequence[int]) -> Tensor:
        """Return the element or sub-tensor at these indices: `index(1, 2)` or `index((1, 2))`.

        The indices belong to the first dimensions. Raises `PoplarIndexError`.
        """
        index_list = indices[0] if len(indices) == 1 and not is_whole(indices[0]) else indices
        wanted = as_shape(index_list)
        if wanted is None:
            raise PoplarIndexError(
                f"index() was given {shown(index_list)}, which is not an index.",
                where=repr(self),
                next_step="give whole numbers, none negative.",
            )
        return self[wanted]

    def sub_sample(self, stride: int, dim: int = 0) -> Tensor:
        """Return every `stride`-th element of dimension `dim`, beginning with the first.

        Raises `PoplarIndexError`.
        """
        axis = self._axis(dim)
        if not is_whole(stride) or stride < 1:
            raise PoplarIndexError(f"""sub_sample() was given the stride {shown(stride)},
                which is not valid.
                where: {self!r}
                next:  use a whole number of 1 or more.""")
        return self[(slice(None),) * axis + (slice(None, None, int(stride)),)]

    def reverse(self, dim: int = 0) -> Tensor:
        """Return the view with dimension `dim` in reverse order. Raises `PoplarIndexError`."""
        return self[(slice(None),) * self._axis(dim) + (slice(None, None, -1),)]

    def reshape(self, shape: int | Sequence[int], *further: NoReturn) -> Tensor:
        """Return the same elements, in row-major order, with another shape.

        Raises `TensorCreationError` if the numbers of elements differ, and `PoplarTypeError` if the
        sizes are separate arguments instead of one sequence.
        """
        if further:
            raise PoplarTypeError(f"""reshape() got {1 + len(further)} arguments, but takes the
                shape as one.
                where: {self!r}
                next:  write the sizes in brackets: reshape({(shape, *further)}).""")
        wanted = as_shape(shape)
        if wanted is None or prod(wanted) != self.num_elements:
            advice = (
                self._without_a_blank(shape)
                or "give whole numbers, none negative, whose product is the number of elements."
            )
            raise TensorCreationError(f"""A tensor of shape {self.shape} has
                {counted(self.num_elements, "element")} and cannot take the shape
                {shown(shape if wanted is None else wanted)}.
                where: {self!r}
                next:  {advice}""")
        if self.layout.strides is not None:
            if self.num_elements == 0 or self.layout.contiguous:
                return Tensor.of(
                    self.graph, self.dtype, self.offset, self.graph.strided(wanted, dense(wanted))
                )
            # Let numpy decide whether a view with this shape exists: reshape a dummy array that has
            # the same strides. The dummy has a memory of one byte, because no element is ever read.
            dummy = np.lib.stride_tricks.as_strided(
                np.zeros(1, np.int8), self.shape, self.layout.strides
            )
            try:
                strides = np.reshape(dummy, wanted, copy=False).strides
                return Tensor.of(
                    self.graph, self.dtype, self.offset, self.graph.strided(wanted, strides)
                )
            except ValueError:
                pass
        return self.graph.listed(self.dtype, self.offset + self.layout.positions.reshape(wanted))

    def _without_a_blank(self, shape: object) -> str:
        """Return advice for a shape in which one size is -1, as numpy allows; "" for other shapes.

        The result is also "" if no size in place of the -1 fits the number of elements.
        """
        entries = shape if isinstance(shape, (tuple, list)) else (shape,)
        sizes = [int(size) for size in entries if is_whole(size)]
        if len(sizes) != len(entries) or sizes.count(-1) != 1:
            return ""
        known_elements = -prod(sizes)
        if known_elements <= 0 or self.num_elements % known_elements:
            return ""
        complete = tuple(
            self.num_elements // known_elements if size == -1 else size for size in sizes
        )
        return f"write the size that -1 stands for in numpy: reshape({complete})."

    def flatten(self, dim_begin: int = 0, dim_end: int | None = None) -> Tensor:
        """Join all dimensions, or dimensions `dim_begin` to `dim_end` - 1, into one dimension."""
        form = self.form
        if dim_end is None and type(dim_begin) is int and dim_begin == 0:
            if form.flat is None:
                form.flat = self.reshape(self.num_elements).form
            return Tensor(self.offset, form.flat)
        end = self.rank if dim_end is None else dim_end
        self._check_dims("flatten", dim_begin, end)
        return self.reshape(
            (*self.shape[:dim_begin], prod(self.shape[dim_begin:end]), *self.shape[end:])
        )

    def reshape_partial(self, dim_begin: int, dim_end: int, shape: int | Sequence[int]) -> Tensor:
        """Return a view in which some neighbouring dimensions are replaced by those in `shape`.

        The dimensions from `dim_begin` up to, but not including, `dim_end` are replaced. Raises
        `PoplarIndexError` and `TensorCreationError`.
        """
        self._check_dims("reshape_partial", dim_begin, dim_end)
        wanted = as_shape(shape)
        if wanted is None or prod(wanted) != prod(self.shape[dim_begin:dim_end]):
            raise TensorCreationError(f"""reshape_partial({dim_begin}, {dim_end}) of shape
                {self.shape} has {counted(prod(self.shape[dim_begin:dim_end]), "element")} to
                rearrange and cannot take the shape {shown(shape if wanted is None else wanted)}.
                where: {self!r}
                next:  give whole numbers, none negative, whose product is the number of
                elements.""")
        return self.reshape((*self.shape[:dim_begin], *wanted, *self.shape[dim_end:]))

    def expand(self, dims: int | Sequence[int]) -> Tensor:
        """Insert a dimension of length 1 before each of `dims`.

        `dims` are numbers of this tensor's dimensions; `rank` inserts a dimension at the end. A (2,
        3) tensor becomes (1, 2, 3) with `expand(0)`, and (2, 1, 3, 1) with `expand((1, 2))`. Raises
        `PoplarIndexError`.
        """
        positions = as_shape(dims)
        if positions is None or any(position > self.rank for position in positions):
            raise PoplarIndexError(f"""expand({shown(dims)}) does not fit shape {self.shape}.
                where: {self!r}
                next:  use whole numbers from 0 to {self.rank}.""")
        shape: list[int] = []
        for axis in range(self.rank + 1):
            shape += [1] * positions.count(axis) + list(self.shape[axis : axis + 1])
        return self.reshape(shape)

    def squeeze(self, dims: int | Sequence[int] | None = None) -> Tensor:
        """Remove dimensions of length 1: the dimensions `dims`, or by default all of length 1.

        Raises `PoplarIndexError`.
        """
        dims_of_length_1 = [dimension for dimension, length in enumerate(self.shape) if length == 1]
        removed = dims_of_length_1 if dims is None else as_shape(dims)
        if removed is None or not set(removed) <= set(dims_of_length_1):
            advice = (
                f"the dimensions of length 1 are {dims_of_length_1}"
                if dims_of_length_1
                else "no dimension has length 1"
            )
            raise PoplarIndexError(f"""squeeze({shown(dims)}) does not fit shape {self.shape}.
                where: {self!r}
                next:  {advice}.""")
        return self[
            tuple(0 if dimension in removed else slice(None) for dimension in range(self.rank))
        ]

    def broadcast(self, count: int, dim: int = 0) -> Tensor:
        """Repeat the view `count` times along dimension `dim`: elements (1, 2) become (1, 2, 1, 2).

        Nothing is copied. Each element appears several times, so no vertex or copy may write the
        view. Raises `PoplarIndexError`, and `TensorCreationError` if `count` is negative or not an
        integer.
        """
        axis = self._axis(dim)
        if not is_whole(count) or count < 0:
            raise TensorCreationError(f"""broadcast() was asked for {shown(count)} repetitions,
                which is not possible.
                where: {self!r}
                next:  use a whole number, none negative.""")
        if count == 1:
            return self
        refuse_to_list(self.num_elements * int(count))
        if self.shape[axis] != 1:
            return self.expand(axis).broadcast(count, axis).flatten(axis, axis + 2)
        shape = (*self.shape[:axis], int(count), *self.shape[axis + 1 :])
        strides = self.layout.strides
        if strides is None:
            return self.graph.listed(self.dtype, np.broadcast_to(self.positions(), shape))
        layout = self.graph.strided(shape, (*strides[:axis], 0, *strides[axis + 1 :]))
        return Tensor.of(self.graph, self.dtype, self.offset, layout)

    def upsample(
        self, scale: int, dim: int = 0, method: UpsampleMethod = UpsampleMethod.REPEAT
    ) -> Tensor:
        """Repeat each element `scale` times along dimension `dim`.

        Elements (1, 2) become (1, 1, 2, 2). Nothing is copied. Raises the errors of `broadcast`.
        """
        if not isinstance(method, UpsampleMethod):
            raise TensorCreationError(
                f"upsample() was given the method {shown(method)}, which is not an UpsampleMethod.",
                where=repr(self),
                next_step="use UpsampleMethod.REPEAT.",
            )
        axis = self._axis(dim)
        return self.expand(axis + 1).broadcast(scale, axis + 1).flatten(axis, axis + 2)

    def reinterpret(self, dtype: type[DType]) -> Tensor:
        """Return a view of the same bits as another dtype of the same size.

        Raises `PoplarTypeError` if the sizes differ, or if `dtype` is BOOL and the tensor has
        another dtype.
        """
        wanted = as_dtype(dtype, "reinterpret()")
        if wanted.size != self.dtype.size:
            raise PoplarTypeError(f"""reinterpret() cannot read
                {self.dtype.__name__} ({self.dtype.size} bytes) as {wanted.__name__}
                ({wanted.size}).
                where: {self!r}
                next:  choose a dtype of the same size, or convert the values with popops.cast.""")
        if wanted is BOOL and self.dtype is not BOOL:
            raise PoplarTypeError(f"""reinterpret() cannot read {self.dtype.__name__} as BOOL, in
                which only the bits of 0 and 1 are valid.
                where: {self!r}
                next:  convert the values with popops.cast.""")
        return Tensor.of(self.graph, wanted, self.offset, self.layout)

    def dim_shuffle(self, permutation: Sequence[int]) -> Tensor:
        """Reorder the dimensions: dimension i of the result is dimension `permutation[i]`.

        Raises `PoplarIndexError`.
        """
        order = as_shape(permutation)
        if order is None or sorted(order) != list(range(self.rank)):
            raise PoplarIndexError(f"""dim_shuffle({shown(permutation)}) is not an order of the
                {self.rank} dimensions of shape {self.shape}.
                where: {self!r}
                next:  name each of {list(range(self.rank))} once.""")
        if self.layout.strides is None:
            return self.graph.listed(
                self.dtype, self.offset + self.layout.positions.transpose(order)
            )
        shape = self.shape
        strides = self.layout.strides
        layout = self.graph.strided(
            tuple(shape[dimension] for dimension in order),
            tuple(strides[dimension] for dimension in order),
        )
        return Tensor.of(self.graph, self.dtype, self.offset, layout)

    def transpose(self, *axes: NoReturn) -> Tensor:
        """Exchange the rows and columns of a matrix.

        Raises `PoplarIndexError` if the tensor is not a matrix, and `PoplarTypeError` if it gets an
        order of dimensions; pass the order to `dim_shuffle` instead.
        """
        if axes:
            order = axes[0] if len(axes) == 1 else axes
            raise PoplarTypeError(f"""transpose() takes no arguments, but got {shown(axes)}.
                where: {self!r}
                next:  give the order of dimensions to dim_shuffle: dim_shuffle({shown(order)}).""")
        if self.rank != 2:
            raise PoplarIndexError(f"""transpose() is for matrices, but this tensor has shape
                {self.shape}.
                where: {self!r}
                next:  use dim_shuffle for other ranks.""")
        return self.dim_shuffle((1, 0))

    def dim_shuffle_partial(self, source: Sequence[int], destination: Sequence[int]) -> Tensor:
        """Move dimension `source[i]` to position `destination[i]` for each i.

        The other dimensions keep their order. Raises `PoplarIndexError`.
        """
        moved_dims = as_shape(source)
        new_positions = as_shape(destination)
        for dims in (moved_dims, new_positions):
            if (
                dims is None
                or len(set(dims)) < len(dims)
                or any(dimension >= self.rank for dimension in dims)
            ):
                break
        else:
            if (
                moved_dims is not None
                and new_positions is not None
                and len(moved_dims) == len(new_positions)
            ):
                other_dims = iter(
                    dimension for dimension in range(self.rank) if dimension not in moved_dims
                )
                dim_at_position = dict(zip(new_positions, moved_dims, strict=True))
                return self.dim_shuffle(
                    [
                        dim_at_position[position]
                        if position in dim_at_position
                        else next(other_dims)
                        for position in range(self.rank)
                    ]
                )
        raise PoplarIndexError(f"""dim_shuffle_partial({shown(source)}, {shown(destination)}) does
            not fit shape {self.shape}.
            where: {self!r}
            next:  give two lists of equal length, in which each of {list(range(self.rank))}
            occurs at most once.""")

    def dim_roll(self, dim: int, new_dim: int = 0) -> Tensor:
        """Move dimension `dim` to position `new_dim`; the other dimensions keep their order.

        Raises `PoplarIndexError`.
        """
        return self.dim_shuffle_partial([self._axis(dim)], [self._axis(new_dim)])

    @property
    def T(self) -> Tensor:
        """The transposed matrix, as `transpose()` returns it."""
        return self.transpose()

    def positions(self) -> Array:
        """Return the position of each element in the graph's memory: int64 of the view's shape.

        Positions count elements of the tensor's dtype.
        """
        return self.offset + self.layout.positions

    def byte_extent(self) -> tuple[Array, Array]:
        """Return `(starts, stops)`: ascending intervals of the view's byte addresses.

        Each byte is in one interval, even if elements appear more than once.
        """
        starts, lengths = self.layout.extent
        begin = (self.offset + starts) * self.dtype.size
        return begin, begin + lengths * self.dtype.size

    # Methods that describe a view

    def valid(self) -> bool:
        """Return True: every tensor of this kit has a variable, unlike Poplar's `Tensor()`."""
        return True

    def is_contiguous(self) -> bool:
        """Return whether the elements are adjacent and in order in one variable."""
        return len(self._regions()[0]) <= 1

    def contains_aliases(self) -> bool:
        """Return whether an element appears more than once, as after `broadcast`."""
        return self.layout.aliased

    def contains_constant(self) -> bool:
        """Return whether an element belongs to a constant."""
        return bool(self.graph.constants_in(self))

    def is_parallel_writeable(self) -> bool:
        """Return whether vertices may write all elements at the same time.

        Vertices may do so if no element appears twice and no element belongs to a constant.
        """
        return not self.contains_aliases() and not self.contains_constant()

    def intersects_with(self, other: Tensor) -> bool:
        """Return whether at least one element belongs to both this view and `other`."""
        if not isinstance(other, Tensor):
            raise GraphObjectCreationError(
                f"intersects_with() was given {shown(other)}, which is not a tensor.",
                where=repr(self),
                next_step="give a tensor.",
            )
        if other.graph is not self.graph:
            return False
        starts, stops = self.byte_extent()
        other_starts, other_stops = other.byte_extent()
        return bool(
            np.any(
                np.searchsorted(starts, other_stops, "left")
                > np.searchsorted(stops, other_starts, "right")
            )
        )

    def get_contiguous_regions(self) -> list[tuple[int, int]]:
        """Return (begin, end), in the flattened view, of each piece that is contiguous in memory.

        Each piece is in one variable.
        """
        begin, count, _, _ = self._regions()
        return list(zip(begin.tolist(), (begin + count).tolist(), strict=True))

    def get_var_regions(self) -> list[VariableInterval]:
        """Return (variable, (begin, end)) of each contiguous piece, in the order of the view.

        `begin` and `end` count elements of the flattened variable.
        """
        variables = self.graph.variables
        element_bytes = self.dtype.size
        columns = (column.tolist() for column in self._regions()[1:])
        regions = []
        for num_elements, first_byte, variable_number in zip(*columns, strict=True):
            begin = (first_byte - variables[variable_number].start) // element_bytes
            regions.append(
                VariableInterval(variables[variable_number], (begin, begin + num_elements))
            )
        return regions

    def _regions(self) -> tuple[Array, Array, Array, Array]:
        """Return four columns about the pieces of the view that are contiguous in one variable.

        For each piece, they contain the index in the flattened view at which the piece begins, its
        number of elements, the address of its first byte, and the number of its variable.
        """
        starts, lengths = self.layout.runs
        element_bytes = self.dtype.size
        view_starts = np.cumsum(lengths) - lengths
        run_begins = (self.offset + starts) * element_bytes
        run_of_piece, piece_begins, piece_ends, variable_of_piece = self.graph.variable_map().split(
            run_begins, run_begins + lengths * element_bytes
        )
        is_nonempty = piece_ends > piece_begins
        run_of_piece = run_of_piece[is_nonempty]
        piece_begins = piece_begins[is_nonempty]
        piece_ends = piece_ends[is_nonempty]
        variable_of_piece = variable_of_piece[is_nonempty]
        return (
            view_starts[run_of_piece] + (piece_begins - run_begins[run_of_piece]) // element_bytes,
            (piece_ends - piece_begins) // element_bytes,
            piece_begins,
            variable_of_piece,
        )

    def get_debug_str(self) -> str:
        """Return the names of the view's variables without duplicates, in the order of the view."""
        return ", ".join(dict.fromkeys(region.var.name for region in self.get_var_regions()))

    def get_var_str(self) -> str:
        """Return the pieces of variables that make up the view, as in `x[0:4], y[2:3]`."""
        return ", ".join(
            f"{var.name}[{begin}:{end}]" for var, (begin, end) in self.get_var_regions()
        )

    def shape_to_string(self) -> str:
        """Return the shape as Poplar writes it, as in `[2,3]`."""
        return f"[{','.join(map(str, self.shape))}]"

    def dump(self, file: TextIO | None = None) -> None:
        """Print a line with the tensor's variable, dtype, shape, bytes and tiles.

        `file` is standard output by default.
        """
        outline.write(f"{self}\n", sys.stdout if file is None else file, "dump()")

    def dump_regions(self, file: TextIO | None = None) -> None:
        """Print a line for each contiguous piece: its elements in the view and in its variable.

        `file` is standard output by default.
        """
        pieces = zip(self.get_contiguous_regions(), self.get_var_regions(), strict=True)
        lines = (
            f"[{begin}:{end}] is {variable.name}[{variable_begin}:{variable_end}]\n"
            for (begin, end), (variable, (variable_begin, variable_end)) in pieces
        )
        outline.write("".join(lines), sys.stdout if file is None else file, "dump_regions()")

    def __str__(self) -> str:
        return outline.tensor_line(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))

    def _repr_html_(self) -> str:
        return outline.tensor_table(self)

    def __repr__(self) -> str:
        return f"Tensor({self.graph.describe(self)}, {self.dtype.__name__}, shape {self.shape})"


@overload
def concat(tensors: Sequence[Tensor], /, dim: int = 0) -> Tensor: ...


@overload
def concat(a: Tensor, b: Tensor, /, dim: int = 0) -> Tensor: ...


def concat(*parts: Tensor | Sequence[Tensor] | int, dim: int = 0) -> Tensor:
    """Join views along `dim` into one view: `concat([a, b, c], dim)` or `concat(a, b, dim)`.

    Nothing is copied. The views must have the same dtype, and the same length in the other
    dimensions. Raises `PoplarTypeError`, `TensorCreationError`, `PoplarIndexError`, and
    `GraphObjectCreationError` for anything but tensors of one graph.
    """
    if len(parts) > 1 and not isinstance(parts[-1], Tensor):
        *parts, dim = parts  # type: ignore[assignment]
    tensors: Any = parts[0] if len(parts) == 1 else parts
    if (
        not isinstance(tensors, Sequence)
        or not tensors
        or not all(isinstance(tensor, Tensor) for tensor in tensors)
    ):
        raise GraphObjectCreationError(f"""concat() was given {shown(tensors)},
            which is not a list of tensors.
            next:  give a list of tensors, as in concat([a, b]).""")
    first: Tensor = tensors[0]
    axis = first._axis(dim)
    for tensor in tensors:
        if tensor.dtype is not first.dtype:
            raise PoplarTypeError(f"""concat() was given tensors of {first.dtype.__name__} and of
                {tensor.dtype.__name__}.
                where: {first!r} and {tensor!r}
                next:  convert one of them with popops.cast: all need the same dtype.""")
        if tensor.graph is not first.graph:
            raise GraphObjectCreationError(f"""concat() was given tensors of two graphs.
                where: {first!r} and {tensor!r}
                next:  use one graph throughout.""")
        if (
            tensor.rank != first.rank
            or tensor.shape[:axis] + tensor.shape[axis + 1 :]
            != first.shape[:axis] + first.shape[axis + 1 :]
        ):
            raise TensorCreationError(f"""concat() along dimension {axis} joins shapes {first.shape}
                and {tensor.shape}, which differ in another dimension.
                where: {first!r} and {tensor!r}
                next:  make the lengths in all other dimensions equal.""")
    if len(tensors) == 1:
        return first
    if axis == 0 and all(tensor.layout.contiguous for tensor in tensors):
        end_offsets = [tensor.offset + tensor.num_elements for tensor in tensors]
        if all(
            end_offset == next_tensor.offset
            for end_offset, next_tensor in zip(end_offsets, tensors[1:], strict=False)
        ):
            shape = (sum(tensor.shape[0] for tensor in tensors), *first.shape[1:])
            return Tensor.of(
                first.graph, first.dtype, first.offset, first.graph.strided(shape, dense(shape))
            )
    refuse_to_list(sum(tensor.num_elements for tensor in tensors))
    return first.graph.listed(
        first.dtype, np.concatenate([tensor.positions() for tensor in tensors], axis)
    )
