"""Indexing of tensors: the integers, slices and arrays that may be between the brackets."""

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
    """Return the offset and the form of `tensor[key]`. Raises `PoplarIndexError`."""
    form = tensor.form
    layout = tensor.layout
    parts = key if isinstance(key, tuple) else (key,)
    if layout.strides is None:
        known = _plain(parts)
        if known in form.picks:
            later, picked = form.picks[known]
            return tensor.offset + later, picked
        start, picked = _cut_positions(tensor, key)
        if known and picked.layout.size:
            form.picks[known] = start - tensor.offset, picked
        return start, picked
    if len(parts) > len(layout.shape):
        return _cut_rarely(tensor, key)
    offset = tensor.offset
    # for each part: None for an integer, the length of a slice, or (length, step)
    lengths: list[int | tuple[int, int] | None] = []
    for axis, (part, length, stride) in enumerate(
        zip(parts, layout.shape, layout.strides, strict=False)
    ):
        if type(part) is int:
            if not -length <= part < length:
                raise out_of_range(tensor, part, axis)
            offset += (part if part >= 0 else part + length) * stride
            lengths.append(None)
        elif type(part) is slice:
            start = 0 if part.start is None else part.start
            stop = length if part.stop is None else part.stop
            step = 1
            if (
                part.step is not None
                or type(start) is not int
                or type(stop) is not int
                or not 0 <= start < stop <= length
            ):
                start, stop, step = slice_bounds(tensor, part, axis)
            count = len(range(start, stop, step))
            offset += start * stride if count else 0
            lengths.append(count if step == 1 else (count, step))
        else:
            return _cut_rarely(tensor, key)
    new_form = form.cuts.get(tuple(lengths))
    return offset, new_form if new_form is not None else _form_of(tensor, parts, lengths)


def _plain(parts: tuple[IndexPart, ...]) -> Cuts:
    """Return a key of integers and slices as a hashable tuple.

    Return an empty tuple if the key has any other parts.
    """
    cuts: list[Any] = [(p.start, p.stop, p.step) if type(p) is slice else (p,) for p in parts]
    kinds = {type(number) for several in cuts for number in several}
    return tuple(cuts) if kinds <= {int, type(None)} and None not in parts else ()


def _form_of(
    tensor: Tensor, parts: tuple[IndexPart, ...], lengths: list[int | tuple[int, int] | None]
) -> Form:
    """Return the form of the view that integers and slices select, and cache it for later keys.

    `lengths` describes each of `parts`, as in `cut`.
    """
    form = tensor.form
    shape = tensor.layout.shape
    strides = tensor.layout.strides or ()
    remaining = [
        (*k, d) if isinstance(k, tuple) else (k, 1, d)
        for k, d in zip(lengths, strides, strict=False)
        if k is not None
    ]
    axis = len(lengths)
    layout = form.graph.strided(
        (*(n for n, _, _ in remaining), *shape[axis:]),
        (*(step * d for _, step, d in remaining), *strides[axis:]),
    )
    new_form = form.cuts[tuple(lengths)] = form.graph.form(form.dtype, layout)
    if lengths == [None]:
        form.row = new_form
    elif axis == 1 and type(lengths[0]) is int:
        form.rows[lengths[0]] = new_form
    elif axis == 2 and lengths[0] is None:
        # caches the forms of the first part and of the second, which `Tensor.__getitem__` looks up
        tensor[parts[0]][parts[1]]
    return new_form


def _cut_rarely(tensor: Tensor, key: Key) -> tuple[int, Form]:
    """Return the offset and the form for a key with numpy integers, `...` or arrays.

    All of them become plain integers, slices and lists of positions.
    """
    parts = key if isinstance(key, tuple) else (key,)
    check_key(tensor, parts, key)
    if any(isinstance(p, (list, np.ndarray)) for p in parts):
        return _cut_positions(tensor, key)
    count = sum(p is not Ellipsis for p in parts)
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    full = parts[:at] + (slice(None),) * (tensor.rank - count) + parts[at + 1 :]
    return cut(tensor, tuple(int(p) if isinstance(p, (int, np.integer)) else p for p in full))


def _cut_positions(tensor: Tensor, key: Key) -> tuple[int, Form]:
    """Return the offset and the form of the elements that a key selects from a list of positions.

    The key selects as in numpy.
    """
    keys = key if isinstance(key, tuple) else (key,)
    layout = tensor.layout
    axis = 0
    check_key(tensor, keys, key)
    parts: tuple[Any, ...] = tuple(
        np.asarray(p, None if np.size(p) else int) if isinstance(p, (list, np.ndarray)) else p
        for p in keys
    )
    for part in parts:
        if isinstance(part, slice):
            slice_bounds(tensor, part, axis)
        elif part is not Ellipsis and (not isinstance(part, np.ndarray) or part.dtype != bool):
            length = tensor.shape[axis]
            number = np.asarray(part)
            outside = number[(number < -length) | (number >= length)]
            if outside.size:
                raise out_of_range(tensor, int(outside.flat[0]), axis)
        axis += _axes(part) if part is not Ellipsis else tensor.rank - sum(map(_axes, parts))
    try:
        # avoids a list of all positions, of which there may be very many
        if tensor.rank == len(parts) == 1 and layout.strides and parts[0].dtype != bool:
            places = parts[0] % layout.size * layout.strides[0]
        else:
            places = layout.picked(parts)
    except IndexError:
        raise PoplarIndexError(f"""The index {shown(key)} does not fit a tensor of shape
            {tensor.shape}.
            where: {tensor!r}
            next:  give arrays of numbers whose shapes broadcast, or an array of bools as long
            as the dimension.""") from None
    picked = tensor.graph.listed(tensor.dtype, tensor.offset + places)
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


def check_key(tensor: Tensor, parts: tuple[IndexPart, ...], key: Key) -> None:
    """Raise `PoplarIndexError` for a part that is not an index, and for too many parts."""
    axes = [_axes(part) for part in parts]
    if -1 in axes:
        raise PoplarIndexError(f"""A tensor cannot be indexed with {shown(key)}.
            where: {tensor!r}
            next:  use integers, slices, `...` or arrays of integers or bools, all known when the
            graph is built.""")
    if sum(axes) > tensor.rank or sum(part is Ellipsis for part in parts) > 1:
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
    return PoplarIndexError(f"""Index {shown(index)} is outside dimension {axis}, which has
        {counted(length, "element")}.
        where: {tensor!r}
        next:  {up_to(length) if length else "the dimension is empty."}""")


def _slice_text(part: slice) -> str:
    """Return a slice as it is written in brackets, such as "1:5"."""
    parts = [part.start, part.stop] + ([] if part.step is None else [part.step])
    return ":".join("" if p is None else shown(p) for p in parts)


def up_to(length: int) -> str:
    """Return the advice for an index, of an element or a dimension, that must be below `length`."""
    return "there is only number 0." if length == 1 else f"use 0 to {length - 1}."
