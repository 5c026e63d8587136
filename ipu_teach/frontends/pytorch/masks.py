"""Replacements for torch functions that write through a mask, such as `x[x < 0] = 0`.

In torch, these functions select the elements where the mask is true, and the number of these
elements depends on the mask. The replacements write all elements: the new ones where the mask is
true, and the old ones elsewhere. Therefore all shapes are known when the program is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch.labels import innermost_line
from ipu_teach.frontends.pytorch.private import Argument, Target
from ipu_teach.graph.source import in_words

Index = Sequence[Argument]


def _is_mask(index: Argument) -> bool:
    """Return whether an index of a subscript is a mask with dimensions."""
    return isinstance(index, Tensor) and index.dtype is torch.bool and index.dim() > 0


def _has_one_mask(index: Index) -> bool:
    """Return whether a subscript consists of exactly one mask and any number of other items.

    The other items are integers, slices, None and Ellipsis.
    """
    others = [item for item in index if not _is_mask(item)]
    return len(others) == len(index) - 1 and all(
        item is None or item is ... or type(item) in (int, slice) for item in others
    )


def _mask_and_view(x: Tensor, index: Index) -> tuple[Tensor, Tensor, int] | None:
    """Return `(mask, view, rest)` for the subscript `x[index]`.

    `view` is `x[index]` with a full slice in place of each dimension of the mask. `rest` is the
    number of dimensions of `view` after the dimensions of the mask. Return None if the subscript
    does not have exactly one mask, or if torch would refuse the shape of the mask.
    """
    if not _has_one_mask(index):
        return None
    position = next(place for place, item in enumerate(index) if _is_mask(item))
    mask = index[position]
    before = list(index[:position])
    behind = list(index[position + 1 :])
    dims_read = mask.dim() + sum(item is not None and item is not ... for item in before + behind)
    for part in (before, behind):
        if ... in part:
            place = part.index(...)
            part[place : place + 1] = [slice(None)] * (x.dim() - dims_read)
    places = (*before, *[slice(None)] * mask.dim(), *behind)
    view = x[places]
    first = sum(not isinstance(item, int) for item in before)
    last = first + mask.dim()
    return (mask, view, view.dim() - last) if view.shape[first:last] == mask.shape else None


def _write(mask: Tensor, view: Tensor, rest: int, values: Tensor, accumulate: bool) -> None:
    """Write `values` to the elements of `view` where `mask` is true, or add them if `accumulate`.

    `view` has the dimensions of the mask, followed by `rest` other dimensions. As in torch,
    `values` is broadcast to [true elements of the mask, *the other dimensions].

    :raises ModelError: if `values` has several rows, one for each true element of the mask.
    """
    values = values.to(view.dtype)
    if values.dim() > rest:
        position = values.dim() - rest - 1
        row_count = values.shape[position]
        if row_count != 1:
            raise ModelError(
                f"A subscript with a mask is assigned {row_count} rows of values, one for each "
                "true element of the mask. But the device's program is compiled before the mask's "
                "elements are known.",
                line=in_words(innermost_line()),
                next_step="pass values in the shape of x, and select them with the mask: "
                "x = torch.where(mask, values, x).",
            )
        row_shape = values.shape[position + 1 :]
        values = values.reshape(*values.shape[:position], *[1] * mask.dim(), *row_shape)
    mask = mask.reshape(*mask.shape, *[1] * rest)
    view.copy_(torch.where(mask, view + values if accumulate else values, view))


def _set_item(x: Tensor, index: Argument, value: Argument) -> Argument:
    """Run `x[index] = value` if the subscript has exactly one mask; else return NotImplemented."""
    items = index if isinstance(index, tuple) else (index,)
    target = _mask_and_view(x, items)
    if target is None:
        return NotImplemented
    if not isinstance(value, Tensor):
        value = torch.tensor(value, dtype=x.dtype)
    _write(*target, values=value, accumulate=False)
    return None


def _put_(x: Tensor, indices: Index, values: Tensor, accumulate: bool = False) -> Tensor:
    """Run `x.index_put_(indices, values)` if there is one mask; else return NotImplemented."""
    items = [slice(None) if index is None else index for index in indices]
    target = _mask_and_view(x, items)
    if target is None:
        return NotImplemented
    _write(*target, values=values, accumulate=accumulate)
    return x


def _put(x: Tensor, indices: Index, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return `x.index_put(indices, values)` if there is one mask; else return NotImplemented."""
    if not any(map(_is_mask, indices)):
        return NotImplemented
    return _put_(x.clone(), indices, values, accumulate)


def _masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `x`; where `mask` is true, its elements are replaced by those of `source`, in order.

    :raises ModelError: if `source` has fewer elements than the mask.
    """
    x, mask = torch.broadcast_tensors(x, mask)
    if source.numel() < mask.numel():
        raise ModelError(
            f"masked_scatter() was given a source with {source.numel()} elements and a mask with "
            f"{mask.numel()}. But the device's program is compiled before it is known how many "
            "elements of the mask are true.",
            line=in_words(innermost_line()),
            next_step="add unused elements to the end of source: "
            f"F.pad(source.flatten(), (0, {mask.numel() - source.numel()})).",
        )
    numbers = (mask.flatten().cumsum(0) - 1).clamp_min(0)
    return torch.where(mask, source.flatten()[numbers].reshape(mask.shape), x)


def _masked_scatter_(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Run `x.masked_scatter_(mask, source)`."""
    return x.copy_(_masked_scatter(x, mask, source))


MASKED: dict[Target, Callable[..., Argument]] = {
    Tensor.__setitem__: _set_item,
    Tensor.index_put: _put,
    Tensor.index_put_: _put_,
    Tensor.masked_scatter: _masked_scatter,
    Tensor.masked_scatter_: _masked_scatter_,
    torch.index_put: _put,
    torch.index_put_: _put_,
    torch.masked_scatter: _masked_scatter,
}
