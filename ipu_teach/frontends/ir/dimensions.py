"""Functions that rearrange and pad the dimensions of values, shared by several front ends."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from ipu_teach.frontends.ir.values import Ir, Value


def permute(graph: Ir, x: Value, order: Sequence[int]) -> Value:
    """Return `x` with its dimensions in another order, or `x` itself if the order is the same."""
    order = tuple(d % len(order) for d in order)
    return x if order == tuple(range(len(order))) else graph.op("permute", x, dims=order)


def move_dimension(graph: Ir, x: Value, source: int, target: int) -> Value:
    """Return `x` with dimension `source` moved to position `target`."""
    rank = len(x.shape)
    order = [d for d in range(rank) if d != source % rank]
    order.insert(target % rank, source % rank)
    return permute(graph, x, order)


def same_padding(length: int, reach: int, stride: int) -> int:
    """Return the number of padding elements for `ceil(length / stride)` windows.

    `reach` is the number of elements from the first to the last element of a window.
    """
    return max((ceil(length / stride) - 1) * stride + reach - length, 0)
