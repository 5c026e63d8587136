"""Indexing of tensors by integers, slices and arrays."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ipu_teach.errors import PoplarIndexError, PoplarTypeError, counted, shown
from ipu_teach.graph.layouts import Cuts, Form, is_whole
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.graph.tensor import Tensor

IndexPart: TypeAlias = int | slice | EllipsisType | list[int] | Array
Key: TypeAlias = IndexPart | tuple[IndexPart, ...]


def cut(tensor: Tensor, key: Key) -> tuple[int, Form]:
    """Return the offset and the form (dtype and layout) of `tensor[key]`.

    Raises `PoplarIndexError`.
    """
    form = tensor.form
    layout = tensor.layout
    indices = key if isinstance(key, tuple) else (key,)
    if layout.strides is None:
        cached_key = _plain(indices)
        if cached_key in form.picks:
            delta, picked = form.picks[cached_key]
            return tensor.offset + delta, picked
        start, picked = _cut_positions(tensor, key)
        if cached_key and picked.layout.size:
            form.picks[cached_key] = start - tensor.offset, picked
        return start, picked
    if len(indices) > len(layout.shape):
        return _cut_rarely(tensor, key)
    offset = tensor.offset
    # `lengths` has an entry for each index: None for an integer, the length of a slice of step 1,
    # and (length, step) of any other slice.
    lengths: list[int | tuple[int, int] | None] = []
    for axis, (index, length, stride) in enumerate(
        zip(indices, layout.shape, layout.strides, strict=False)
    ):
        if type(index) is int:
            if not -length <= index < length:
                raise out_of_range(tensor, index, axis)
            offset += (index if index >= 0 else index + length) * stride
            lengths.append(None)
        elif type(index) is slice:
            start = 0 if index.start is None else index.start
            stop = length if index.stop is None else index.stop
            step = 1
            if (
                index.step is not None
                or type(start) is not int
                or type(stop) is not int
                or not 0 <= start < stop <= length
            ):
                start, stop, step = slice_bounds(tensor, index, axis)
            num_selected = len(range(start, stop, step))
            offset += start * stride if num_selected else 0
            lengths.append(num_selected if step == 1 else (num_selected, step))
        else:
            return _cut_rarely(tensor, key)
    new_form = form.cuts.get(tuple(lengths))
    return offset, new_form if new_form is not None else _form_of(tensor, indices, lengths)


def _plain(parts: tuple[IndexPart, ...]) -> Cuts:
    """Return a key of integers and slices as a hashable tuple.

    Return an empty tuple if the key has any other parts.
    """
    cuts: list[Any] = [(p.start, p.stop, p.step) if type(p) is slice else (p,) for p in parts]
    kinds = {type(number) for several in cuts for number in several}
    return tuple(cuts) if kinds <= {int, type(None)} and None not in parts else ()


def _form_of(
    tensor: Tensor, indices: tuple[IndexPart, ...], lengths: list[int | tuple[int, int] | None]
) -> Form:
    """Return the form (dtype and layout) of the view that integers and slices select.

    The form is cached, so that `cut` finds it for later keys. `lengths` has an entry for each of
    `indices`: None for an integer, the length of a slice of step 1, and (length, step) of any other
    slice.
    """
    form = tensor.form
    shape = tensor.layout.shape
    strides = tensor.layout.strides or ()
    remaining = [
        (*selection, stride) if isinstance(selection, tuple) else (selection, 1, stride)
        for selection, stride in zip(lengths, strides, strict=False)
        if selection is not None
    ]
    num_indexed = len(lengths)
    layout = form.graph.strided(
        (*(length for length, _, _ in remaining), *shape[num_indexed:]),
        (*(step * stride for _, step, stride in remaining), *strides[num_indexed:]),
    )
    new_form = form.cuts[tuple(lengths)] = form.graph.form(form.dtype, layout)
    if lengths == [None]:
        form.row = new_form
    elif num_indexed == 1 and type(lengths[0]) is int:
        form.rows[lengths[0]] = new_form
    elif num_indexed == 2 and lengths[0] is None:
        # Index in two steps, which caches the forms of both views. The fast path of
        # `Tensor.__getitem__` then finds these forms in the cache.
        tensor[indices[0]][indices[1]]
    return new_form


def _cut_rarely(tensor: Tensor, key: Key) -> tuple[int, Form]:
    """Return the offset and the form (dtype and layout) of `tensor[key]` for a rare kind of key.

    Such keys contain numpy integers, `...` or arrays. They are converted to plain integers, slices
    and lists of positions.
    """
    indices = key if isinstance(key, tuple) else (key,)
    check_key(tensor, indices, key)
    if any(isinstance(index, (list, np.ndarray)) for index in indices):
        return _cut_positions(tensor, key)
    num_axes = sum(index is not Ellipsis for index in indices)
    ellipsis_position = next(
        (position for position, index in enumerate(indices) if index is Ellipsis), len(indices)
    )
    complete_indices = (
        indices[:ellipsis_position]
        + (slice(None),) * (tensor.rank - num_axes)
        + indices[ellipsis_position + 1 :]
    )
    return cut(
        tensor,
        tuple(
            int(index) if isinstance(index, (int, np.integer)) else index
            for index in complete_indices
        ),
    )


def _cut_positions(tensor: Tensor, key: Key) -> tuple[int, Form]:
    """Return the offset and the form of `tensor[key]` from the positions of single elements.

    This function is used if the tensor's layout is a list of positions, or if the key contains
    arrays. The form is the view's dtype and layout. The key selects elements as in numpy.
    """
    raw_indices = key if isinstance(key, tuple) else (key,)
    layout = tensor.layout
    axis = 0
    check_key(tensor, raw_indices, key)
    indices: tuple[Any, ...] = tuple(
        np.asarray(raw_index, None if np.size(raw_index) else int)
        if isinstance(raw_index, (list, np.ndarray))
        else raw_index
        for raw_index in raw_indices
    )
    for index in indices:
        if isinstance(index, slice):
            slice_bounds(tensor, index, axis)
        elif index is not Ellipsis and (not isinstance(index, np.ndarray) or index.dtype != bool):
            length = tensor.shape[axis]
            numbers_of_axis = np.asarray(index)
            out_of_bounds = numbers_of_axis[
                (numbers_of_axis < -length) | (numbers_of_axis >= length)
            ]
            if out_of_bounds.size:
                raise out_of_range(tensor, int(out_of_bounds.flat[0]), axis)
        axis += _axes(index) if index is not Ellipsis else tensor.rank - sum(map(_axes, indices))
    try:
        # Select from the strides, because a list of all positions may be very long.
        if tensor.rank == len(indices) == 1 and layout.strides and indices[0].dtype != bool:
            positions = indices[0] % layout.size * layout.strides[0]
        else:
            positions = layout.picked(indices)
    except IndexError:
        raise PoplarIndexError(f"""The index {shown(key)} does not fit a tensor of shape
            {tensor.shape}.
            where: {tensor!r}
            next:  give arrays of indices whose shapes broadcast, or a bool array that has the
            length of the indexed dimension.""") from None
    picked = tensor.graph.listed(tensor.dtype, tensor.offset + positions)
    return picked.offset, picked.form


def _axes(part: IndexPart) -> int:
    """Return how many dimensions a part of a key covers, or -1 if it is not an index."""
    if not isinstance(part, (list, np.ndarray)):
        if part is Ellipsis:
            return 0
        return 1 if is_whole(part) or isinstance(part, slice) else -1
    try:
        array = np.asarray(part)
    except (ValueError, OverflowError, PoplarTypeError):
        return -1
    if array.dtype.kind == "b":
        return array.ndim
    if array.dtype.kind in "iu" or not array.size:
        return 1
    return -1


def check_key(tensor: Tensor, indices: tuple[IndexPart, ...], key: Key) -> None:
    """Raise `PoplarIndexError` if a part of the key is no index, or if there are too many parts."""
    axes = [_axes(index) for index in indices]
    if -1 in axes:
        raise PoplarIndexError(f"""A tensor cannot be indexed with {shown(key)}.
            where: {tensor!r}
            next:  use integers, slices, `...` or arrays of integers or bools, all known when the
            graph is built.""")
    if sum(axes) > tensor.rank or sum(index is Ellipsis for index in indices) > 1:
        raise PoplarIndexError(
            f"The index {shown(key)} does not fit a tensor of shape {tensor.shape}.",
            where=repr(tensor),
            next_step=(
                f"give at most {counted(tensor.rank, 'integer or slice', 'integers or slices')}, "
                "and at most one `...`."
            )
            if tensor.rank
            else "use the tensor without an index: it is a single element.",
        )


def slice_bounds(tensor: Tensor, part: slice, axis: int) -> tuple[int, int, int]:
    """Return (start, stop, step) of a slice of dimension `axis`, as numpy interprets it.

    A bound beyond the end of the dimension means the end. Raises `PoplarIndexError`.
    """
    if (
        not all(bound is None or is_whole(bound) for bound in (part.start, part.stop, part.step))
        or part.step == 0
    ):
        raise PoplarIndexError(f"""The slice {_slice_text(part)} is not valid.
            where: {tensor!r}
            next:  use whole numbers from 0 to {tensor.shape[axis]}, and a step that is not 0.""")
    return part.indices(tensor.shape[axis])


def out_of_range(tensor: Tensor, index: int, axis: int) -> PoplarIndexError:
    """Return the error for an index beyond the end of dimension `axis`."""
    length = tensor.shape[axis]
    advice = up_to(length) if length else "the dimension is empty."
    if length and len(tensor.shape) > 1:  # The caller may have meant another dimension.
        advice = f"{advice[:-1]} in this place; write : here if you mean another dimension."
    return PoplarIndexError(f"""Index {shown(index)} is outside dimension {axis}, which has
        {counted(length, "element")}.
        where: {tensor!r}
        next:  {advice}""")


def _slice_text(part: slice) -> str:
    """Return a slice as it is written in brackets, such as "1:5"."""
    parts = [part.start, part.stop] + ([] if part.step is None else [part.step])
    return ":".join("" if p is None else shown(p) for p in parts)


def up_to(length: int) -> str:
    """Return the advice to use a number (an index or a dimension) from 0 to `length` - 1."""
    return "there is only number 0." if length == 1 else f"use 0 to {length - 1}."
