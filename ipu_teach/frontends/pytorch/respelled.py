"""Replacements for torch functions whose gradients torch cannot decompose.

`RESPELLED` maps each function to a replacement with the same arguments, values and gradients. The
replacement consists of torch functions whose gradients torch can decompose.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import torch
from torch import Tensor
from torch.nn import _reduction, functional

from ipu_teach.errors import ModelError
from ipu_teach.frontends.pytorch.private import Target


def _weight_norm(v: Tensor, g: Tensor, dim: int = 0) -> Tensor:
    return v * (g / torch.norm_except_dim(v, 2, dim))


def _cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """Return the distances between all rows of `a` and `b`."""
    return _norms(a.unsqueeze(-2) - b.unsqueeze(-3), p)


def _pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Return the distances between all pairs of rows of `input`."""
    first, second = torch.triu_indices(input.shape[0], input.shape[0], 1)
    return _norms(input[first] - input[second], p)


def _norms(difference: Tensor, p: float) -> Tensor:
    """Return the p-norms of `difference` along the last dimension; the gradient at 0 is 0."""
    if p == 0:
        return (difference != 0).to(difference.dtype).sum(-1) + 0 * difference.sum(-1).nan_to_num()
    difference = difference.abs()
    if p == 1:
        return difference.sum(-1)
    if p == inf:
        return _largest(difference)
    powers = (difference.square() if p == 2 else _power(difference, p)).sum(-1)
    is_zero = powers == 0
    nonzero_powers = torch.where(is_zero, torch.ones_like(powers), powers)
    nonzero_powers = nonzero_powers.sqrt() if p == 2 else nonzero_powers ** (1 / p)
    return torch.where(is_zero, torch.zeros_like(powers), nonzero_powers)


def _power(x: Tensor, p: float) -> Tensor:
    """Return `x ** p`, with a gradient of 0 where x is 0."""
    is_zero = x == 0
    return torch.where(is_zero, torch.zeros_like(x), torch.where(is_zero, 1.0, x) ** p)


def _largest(difference: Tensor) -> Tensor:
    """Return the maximum of `difference` along the last dimension.

    If several elements are equal to the maximum, each of them gets the full gradient.
    """
    if difference.shape[-1] == 0:
        return difference.sum(-1)
    largest = difference.detach().amax(-1)
    is_largest = (difference == largest.unsqueeze(-1)) & difference.isfinite()
    return largest + torch.where(is_largest, difference - difference.detach(), 0.0).sum(-1)


# --- bags of embeddings ---------------------------------------------------------------------------


def _embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sum, mean or maximum of the rows of `weight` in each bag; 0 for an empty bag."""
    if max_norm is not None or scale_grad_by_freq:
        option = "scale_grad_by_freq" if max_norm is None else "max_norm"
        raise ModelError(
            f"embedding_bag() was given {option}, which the device does not implement.",
            next_step=f"leave {option} out.",
        )
    rows = functional.embedding(input, weight, padding_idx)
    is_counted = torch.ones_like(input, dtype=torch.bool)
    if padding_idx is not None:
        is_counted = input != padding_idx % weight.shape[0]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if input.dim() == 1:  # Here, `offsets` divides `input` into bags.
        rows = rows.unsqueeze(0)
        is_counted = _inside(input, offsets, include_last_offset) & is_counted
    row_counts = is_counted.sum(-1, keepdim=True)
    mask_column = is_counted.unsqueeze(-1)
    if mode == "max":
        largest = torch.where(mask_column, rows, -inf).max(-2).values
        return torch.where(row_counts > 0, largest, 0.0)
    sums = torch.where(mask_column, rows, 0.0).sum(-2)
    return sums if mode == "sum" else sums / row_counts.clamp_min(1).to(sums.dtype)


def _inside(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> Tensor:
    """Return a BOOL tensor [bags, elements] that is true where an element belongs to a bag.

    `input` contains the elements in one dimension, and `offsets` the position where each bag
    starts.
    """
    assert offsets is not None, "torch checks that a list has offsets"
    if include_last_offset:
        starts = offsets[:-1]
        ends = offsets[1:]
    else:
        starts = offsets
        ends = torch.cat([offsets[1:], offsets.new_full((1,), input.shape[0])])
    positions = torch.arange(input.shape[0])
    return (positions >= starts.unsqueeze(-1)) & (positions < ends.unsqueeze(-1))


# --- sampling of images ---------------------------------------------------------------------------


def _grid_sampled(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """Return samples of `input` [batch, channels, height, width] at the positions `grid`.

    `grid` is [batch, *out, 2], and the result is [batch, channels, *out].
    """
    if input.dim() != 4:
        raise ModelError(
            f"grid_sample() was given an input with {input.dim() - 2} spatial dimensions, but the "
            "device samples only images, which have 2.",
            next_step="call grid_sample() for each slice of the volume: input[:, :, i].",
        )
    from torch._decomp import decomposition_table

    modes = ("bilinear", "nearest", "bicubic")
    paddings = ("zeros", "border", "reflection")
    spelled: Callable[..., Tensor] = decomposition_table[torch.ops.aten.grid_sampler_2d.default]
    codes = modes.index(mode), paddings.index(padding_mode), bool(align_corners)
    return spelled(input, grid, *codes)


# --- dropout --------------------------------------------------------------------------------------


def _dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Return `input` after dropout, or `input` itself if no element is dropped, as in eager torch.

    A traced torch graph would return a copy instead. The difference matters, because an in-place
    operation on the result also changes the input.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0 or input.numel() == 0:
        return input
    return (torch.ops.aten.dropout_ if inplace else torch.ops.aten.dropout)(input, p, training)


# --- losses ---------------------------------------------------------------------------------------


def _multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Return the multi-margin loss of the scores `input`, [N, C] or [C], for the labels `target`.

    Each class except the label has the distance `margin` - (score of the label) + (score of the
    class). As in torch, only positive distances contribute to the loss. A distance of NaN is not
    positive, and contributes nothing.
    """
    if size_average is not None or reduce is not None:
        reduction = _reduction.legacy_get_string(size_average, reduce, emit_warning=False)
    # Make torch check the arguments. The result of this call is not used.
    options = p, margin, weight
    torch.ops.aten.multi_margin_loss(input.detach(), target, *options)
    rows = input if input.dim() == 2 else input.reshape(1, -1)
    labels = target.reshape(-1, 1)
    distances = margin - rows.gather(1, labels) + rows
    is_label = torch.arange(rows.shape[1]) == labels
    distances = torch.where((distances > 0) & ~is_label, distances, 0.0)
    distances = distances if p == 1 else distances.square()
    if weight is not None:
        distances = distances * weight[labels]
    losses = distances.sum(1) / rows.shape[1]
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.mean() if reduction == "mean" else losses.sum()


RESPELLED: dict[Target, Callable[..., Tensor]] = {
    torch._weight_norm: _weight_norm,
    torch.cdist: _cdist,
    torch.pdist: _pdist,
    torch.dropout: _dropout,
    functional.dropout: _dropout,
    functional.embedding_bag: _embedding_bag,
    functional.grid_sample: _grid_sampled,
    functional.pdist: _pdist,
    functional.multi_margin_loss: _multi_margin_loss,
}
