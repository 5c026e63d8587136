"""What may stand between a tensor's brackets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ipu_teach.errors import PoplarIndexError, counted, shown
from ipu_teach.graph.layouts import Form, is_whole

if TYPE_CHECKING:
    from ipu_teach.graph.tensor import Tensor


def cut(tensor: Tensor, key: Any) -> tuple[int, Form]:
    """The offset and the form of `tensor[key]`. Raises `PoplarIndexError`."""
    form, layout = tensor.form, tensor.layout
    if layout.strides is None:
        return _cut_positions(tensor, key)
    offset, axis = tensor.offset, 0
    shape: list[int] = []
    strides: list[int] = []
    for part in key if type(key) is tuple else (key,):
        if part is Ellipsis or axis >= len(layout.shape):
            return _cut_rarely(tensor, key)
        length, stride = layout.shape[axis], layout.strides[axis]
        if type(part) is int:
            if not -length <= part < length:
                raise out_of_range(tensor, part, axis)
            offset += (part if part >= 0 else part + length) * stride
        elif type(part) is slice:
            start, stop, step = slice_bounds(tensor, part, axis)
            count = max(0, -((start - stop) // step)) if step > 0 else max(0, -((stop - start) // -step))
            offset += start * stride if count else 0
            shape.append(count)
            strides.append(stride * step)
        else:
            return _cut_rarely(tensor, key)
        axis += 1
    graph = form.graph
    found = graph.form(form.dtype, graph.strided((*shape, *layout.shape[axis:]), (*strides, *layout.strides[axis:])))
    if axis == 1 and not strides:
        form.row = found
    elif axis == 1 and strides[0] == layout.strides[0]:
        form.rows[shape[0]] = found
    elif axis == 2 and type(key[0]) is int:
        tensor[key[0]][key[1]]  # the next such key finds the forms on the way
    return offset, found


def _cut_rarely(tensor: Tensor, key: Any) -> tuple[int, Form]:
    """Rare keys (`...`, numpy integers), as plain integers and slices."""
    parts = key if isinstance(key, tuple) else (key,)
    check_key(tensor, parts, key)
    count = sum(p is not Ellipsis for p in parts)
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    full = parts[:at] + (slice(None),) * (tensor.rank - count) + parts[at + 1 :]
    return cut(tensor, tuple(int(p) if isinstance(p, (int, np.integer)) else p for p in full))


def _cut_positions(tensor: Tensor, key: Any) -> tuple[int, Form]:
    parts = key if isinstance(key, tuple) else (key,)
    check_key(tensor, parts, key)
    axis = 0
    for part in parts:
        if part is Ellipsis:
            axis += tensor.rank - len(parts)
        elif isinstance(part, slice):
            slice_bounds(tensor, part, axis)
        elif not -tensor.shape[axis] <= part < tensor.shape[axis]:
            raise out_of_range(tensor, part, axis)
        axis += 1
    found = tensor.graph.listed(tensor.dtype, tensor.offset + np.asarray(tensor.layout.positions[key]))
    return found.offset, found.form


def check_key(tensor: Tensor, parts: tuple[Any, ...], key: Any) -> None:
    """Refuse what is no index, and more indices than there are dimensions."""
    if not all(is_whole(p) or isinstance(p, slice) or p is Ellipsis for p in parts):
        raise PoplarIndexError(f"""A tensor cannot be indexed with {shown(key)}.
            where: {tensor!r}
            next:  use integers, slices and `...`; which elements are meant must be known when the graph is built.""")
    count = sum(p is not Ellipsis for p in parts)
    if count > tensor.rank or len(parts) - count > 1:
        raise PoplarIndexError(
            f"The index {shown(key)} does not fit a tensor of shape {tensor.shape}.",
            where=repr(tensor),
            next_step=f"give at most {counted(tensor.rank, 'integer or slice', 'integers or slices')}, and at most one `...`."
            if tensor.rank
            else "a single element is used as it is, without an index.",
        )


def slice_bounds(tensor: Tensor, part: slice, axis: int) -> tuple[int, int, int]:
    """numpy's meaning of a slice: a bound beyond the end is the end."""
    if not all(bound is None or is_whole(bound) for bound in (part.start, part.stop, part.step)) or part.step == 0:
        raise PoplarIndexError(f"""The slice {_slice_text(part)} is none.
            where: {tensor!r}
            next:  use whole numbers from 0 to {tensor.shape[axis]}, and a step that is not 0.""")
    return part.indices(tensor.shape[axis])


def out_of_range(tensor: Tensor, index: Any, axis: int) -> PoplarIndexError:
    """The error for an index beyond the end of a dimension."""
    length = tensor.shape[axis]
    return PoplarIndexError(f"""Index {shown(index)} is outside dimension {axis}, which has {counted(length, "element")}.
        where: {tensor!r}
        next:  {up_to(length) if length else "the dimension is empty."}""")


def _slice_text(part: slice) -> str:
    """A slice as one writes it."""
    parts = [part.start, part.stop] + ([] if part.step is None else [part.step])
    return ":".join("" if p is None else shown(p) for p in parts)


def up_to(length: int) -> str:
    """Advice for an index, or the number of a dimension, of which there are `length`."""
    return "there is only number 0." if length == 1 else f"use 0 to {length - 1}."
