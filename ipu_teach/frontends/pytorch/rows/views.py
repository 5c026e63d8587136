"""Lowering functions that only move elements: views, slices, concatenations, slice assignments."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.ir.dimensions import move_dimension, permute
from ipu_teach.frontends.pytorch.rows.registry import (
    Argument,
    Ints,
    Results,
    along_axis,
    as_dtype,
    concatenate,
    expand,
    reshape,
    row,
    slice_dimension,
)
from ipu_teach.types import BOOL, INT, UNSIGNED_INT, Array


@row("alias", "clone", "detach", "lift_fresh_copy", "contiguous", "positive", moves=True)
def _same(graph: Ir, results: Results, x: Value, **_: Argument) -> Value:
    return x


@row("conj", "_conj", "resolve_conj", "resolve_neg", "conj_physical", "real", moves=True)
def _real(graph: Ir, results: Results, x: Value) -> Value:
    return x


@row("copy")
def _copy(
    graph: Ir, results: Results, x: Value, source: Value, *_: Argument, **__: Argument
) -> Value:
    return expand(graph, as_dtype(graph, source, results.dtype), results.shape)


@row("permute", "permute_copy", moves=True)
def _permute(graph: Ir, results: Results, x: Value, dims: Ints) -> Value:
    return permute(graph, x, dims)


@row(
    "view", "view_copy", "unsqueeze", "unsqueeze_copy", "squeeze", "squeeze_copy", "_unsafe_view",
    "reshape", "flatten",
)  # fmt: skip
def _view(graph: Ir, results: Results, x: Value, *_: Argument) -> Value:
    if results.tensors[0].dtype != results.example(0).dtype:
        return _reinterpreted(graph, results, x)
    return reshape(graph, x, results.shape)


def _reinterpreted(graph: Ir, results: Results, x: Value) -> Value:
    """Return the bits of `x` as elements of another dtype, like `x.view(torch.int32)`.

    :raises Unfit: unless one dtype is torch.float32 and the other is torch.int32.
    """
    names = {str(t.dtype) for t in (results.tensors[0], results.example(0))}
    if names != {"torch.float32", "torch.int32"}:
        raise Unfit(
            f"the device does not view the bits of {results.example(0).dtype} as "
            f"{results.tensors[0].dtype}",
            "view torch.float32 as torch.int32, or convert the numbers with x.to(dtype).",
        )
    return graph.op("reinterpret", x, dtype=results.dtype)


@row("expand", "expand_copy", moves=True)
def _expand(graph: Ir, results: Results, x: Value, *_: Argument, **__: Argument) -> Value:
    return expand(graph, x, results.shape)


@row("slice", "slice_copy", "narrow_copy", moves=True)
def _slice(
    graph: Ir, results: Results, x: Value, dim: int = 0, start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Value:  # fmt: skip
    if "narrow" in str(results.node.target):  # In narrow_copy, `end` is the length.
        start = (start or 0) % (x.shape[dim] + 1)
        end = start + (end or 0)
    return slice_dimension(graph, x, dim, start=start, end=end, step=step)


@row("select", "select_copy", moves=True)
def _select(graph: Ir, results: Results, x: Value, dim: int, index: int) -> Value:
    begin = index % x.shape[dim]
    return reshape(graph, slice_dimension(graph, x, dim, start=begin, end=begin + 1), results.shape)


@row("split_with_sizes", "split_with_sizes_copy", moves=True)
def _split(graph: Ir, results: Results, x: Value, sizes: Ints, dim: int = 0) -> list[Value]:
    ends = list(accumulate(sizes))
    return [
        slice_dimension(graph, x, dim, start=end - n, end=end)
        for n, end in zip(sizes, ends, strict=True)
    ]


@row("flip", moves=True)
def _flip(graph: Ir, results: Results, x: Value, dims: Ints) -> Value:
    for dim in dims if x.shape else ():
        x = graph.op("reverse", x, dim=dim % len(x.shape))
    return x


@row("cat", moves=True)
def _cat(graph: Ir, results: Results, values: Sequence[Value], dim: int = 0) -> Value:
    """Return the concatenation of `values` along `dim`.

    Values without elements are left out, because torch accepts the shape [0] next to values of any
    rank.
    """
    parts = [as_dtype(graph, value, results.dtype) for value in values if value.size]
    if not parts:
        return graph.constant(0, results.dtype, results.shape)
    return concatenate(graph, parts, dim % len(results.shape))


@row("repeat", moves=True)
def _repeat(graph: Ir, results: Results, x: Value, times: Ints) -> Value:
    if 0 in times:
        return graph.constant(0, x.dtype, results.shape)
    x = reshape(graph, x, (*(1,) * (len(times) - len(x.shape)), *x.shape))
    for dim, count in enumerate(times):
        x = x if count == 1 else graph.op("concat", *[x] * count, dim=dim)
    return x


@row("constant_pad_nd", moves=True)
def _pad(graph: Ir, results: Results, x: Value, margins: Ints, value: float = 0.0) -> Value:
    """Return `x` with margins that contain the number `value`; a negative margin removes elements.

    `margins` contains the lengths of the margins before and after the last dimension, then before
    and after the second to last dimension, and so on.
    """
    margin_pairs = [(margins[i], margins[i + 1]) for i in range(0, len(margins), 2)][::-1]
    margin_pairs = [(0, 0)] * (len(x.shape) - len(margin_pairs)) + margin_pairs
    for dim, (margin_before, margin_after) in enumerate(margin_pairs):
        x = slice_dimension(
            graph, x, dim, start=max(-margin_before, 0), end=x.shape[dim] - max(-margin_after, 0)
        )
    for dim, (margin_before, margin_after) in enumerate(margin_pairs):
        shape = x.shape
        fill_values = [
            graph.constant(_number(value, x), x.dtype, (*shape[:dim], length, *shape[dim + 1 :]))
            for length in (max(margin_before, 0), max(margin_after, 0))
        ]
        if x.floating and x.size and np.isfinite(value):
            continue  # One "pad" after the loop adds all finite margins.
        x = concatenate(graph, [fill_values[0], x, fill_values[1]], dim)
    lower, upper = (tuple(max(pair[i], 0) for pair in margin_pairs) for i in (0, 1))
    if x.shape == results.shape or not x.size:
        return x if x.size else graph.constant(_number(value, x), x.dtype, results.shape)
    return graph.op("pad", x, lower=lower, upper=upper, value=float(value))


def _number(value: float, x: Value) -> float:
    """Return a number as the Python type of the dtype of `x`: float, int or bool."""
    if x.floating:
        return value
    return bool(value) if x.dtype is BOOL else int(value)


# --- by positions ---------------------------------------------------------------------------------


def flat_gather(graph: Ir, x: Value, places: Array, shape: Ints) -> Value:
    """Return an array of shape `shape` with the elements at `places` in the flattened `x`."""
    if np.array_equal(places.reshape(-1), np.arange(x.size)):
        return reshape(graph, x, shape)
    index = graph.constant(places.reshape(-1), UNSIGNED_INT)
    return reshape(graph, graph.op("gather", reshape(graph, x, (x.size, 1)), index), shape)


def flat_write(graph: Ir, x: Value, places: Array, source: Value) -> Value:
    """Return `x` with `source` written to the positions `places` of the flattened `x`."""
    if np.array_equal(places.reshape(-1), np.arange(x.size)):
        return reshape(graph, source, x.shape)
    index = graph.constant(places.reshape(-1), UNSIGNED_INT)
    rows, source = reshape(graph, x, (x.size, 1)), reshape(graph, source, (source.size, 1))
    return reshape(graph, graph.op("scatter_set", rows, index, source), x.shape)


def _strided_places(
    results: Results, x: Value, size: Ints, stride: Ints, offset: int | None
) -> Array:
    """Return the positions in the flattened `x` of the elements that `size` and `stride` select.

    `offset` is the position of the first element in torch's storage; None means the offset of `x`.

    :raises Unfit: if torch does not store the elements of `x` in order, or if a position is outside
        of `x`.
    """
    example = results.example(0)
    storage_start = example.storage_offset()
    positions = np.full((), (storage_start if offset is None else offset) - storage_start, np.int64)
    for length, step in zip(size, stride, strict=True):
        positions = positions[..., None] + np.arange(length) * step
    is_inside = not positions.size or 0 <= positions.min() <= positions.max() < x.size
    if not example.is_contiguous() or not is_inside:
        raise Unfit(
            "the strides select elements outside of x, or x is not contiguous",
            "use x.reshape, x[...] or torch.gather, or call x.contiguous() before as_strided.",
        )
    return positions


@row("as_strided", "as_strided_copy", moves=True)
def _as_strided(
    graph: Ir, results: Results, x: Value, size: Ints, stride: Ints, offset: int | None = None
) -> Value:
    positions = _strided_places(results, x, size=size, stride=stride, offset=offset)
    return flat_gather(graph, x, positions, results.shape)


@row("as_strided_scatter", moves=True)
def _as_strided_scatter(
    graph: Ir, results: Results, x: Value, source: Value, size: Ints, stride: Ints,
    offset: int | None = None,
) -> Value:  # fmt: skip
    positions = _strided_places(results, x, size=size, stride=stride, offset=offset)
    return flat_write(graph, x, positions, as_dtype(graph, source, x.dtype))


def _numbered(x: Value) -> Array:
    """Return an array in the shape of `x` with each element's position in the flattened `x`."""
    return np.arange(x.size).reshape(x.shape)


@row("diagonal", "diagonal_copy", moves=True)
def _diagonal(
    graph: Ir, results: Results, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Value:
    positions = np.diagonal(_numbered(x), offset, dim1, dim2)
    return flat_gather(graph, x, positions, results.shape)


@row("diagonal_scatter", moves=True)
def _diagonal_scatter(
    graph: Ir, results: Results, x: Value, source: Value, offset: int = 0, dim1: int = 0,
    dim2: int = 1,
) -> Value:  # fmt: skip
    positions = np.diagonal(_numbered(x), offset, dim1, dim2)
    return (
        flat_write(graph, x, positions, as_dtype(graph, source, x.dtype)) if positions.size else x
    )


@row("unfold", "unfold_copy", moves=True)
def _unfold(graph: Ir, results: Results, x: Value, dim: int, size: int, step: int) -> Value:
    if not x.shape:
        return reshape(graph, x, results.shape)
    windows = np.lib.stride_tricks.sliding_window_view(_numbered(x), size, dim)
    window_starts = [slice(None)] * len(x.shape)
    window_starts[dim] = slice(None, None, step)
    return flat_gather(graph, x, windows[tuple(window_starts)], results.shape)


@row("slice_scatter", moves=True)
def _slice_scatter(
    graph: Ir, results: Results, x: Value, source: Value, dim: int = 0, start: int | None = None,
    end: int | None = None, step: int = 1,
) -> Value:  # fmt: skip
    length = x.shape[dim]
    dim %= len(x.shape)
    begin, stop, _ = slice(start, end).indices(length)
    stop = max(begin, stop)
    written_indices = np.arange(begin, stop, step)
    if not written_indices.size:
        return x
    source = as_dtype(graph, source, x.dtype)
    source = expand(graph, source, (*x.shape[:dim], written_indices.size, *x.shape[dim + 1 :]))
    if step == 1:
        before = slice_dimension(graph, x, dim, end=begin)
        after = slice_dimension(graph, x, dim, start=stop)
        return concatenate(graph, [before, source, after], dim)
    operands = _rows_first(graph, x, dim, row_numbers=written_indices, source=source)
    changed_rows = graph.op("scatter_set", *operands)
    return move_dimension(graph, changed_rows, 0, dim)


def _rows_first(graph: Ir, x: Value, dim: int, row_numbers: Array, source: Value) -> list[Value]:
    """Return the arguments [x, index, source] of an operation that writes rows of x.

    Dimension `dim` of `x` and of `source` is moved to the front. The index contains `row_numbers`.
    """
    index = graph.constant(row_numbers, UNSIGNED_INT)
    return [move_dimension(graph, x, dim, 0), index, move_dimension(graph, source, dim, 0)]


@row("select_scatter", moves=True)
def _select_scatter(
    graph: Ir, results: Results, x: Value, source: Value, dim: int, index: int
) -> Value:
    begin = index % x.shape[dim]
    dim %= len(x.shape)
    source = reshape(graph, source, (*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    return _slice_scatter(graph, results, x, source, dim=dim, start=begin, end=begin + 1)


@row("tril", "triu", kept=False, moves=True)
def _triangle(graph: Ir, results: Results, x: Value, diagonal: int = 0) -> Value:
    """Return `x` with 0 above (tril) or below (triu) a diagonal, even where `x` is inf or NaN."""
    triangle_of = np.tril if "tril" in str(results.node.target) else np.triu
    is_kept = np.broadcast_to(triangle_of(np.ones(x.shape[-2:], bool), diagonal), x.shape)
    zero = graph.constant(False if x.dtype is BOOL else 0, x.dtype)
    return graph.op("select", graph.constant(is_kept, BOOL), x, zero)


@row(*(f"replication_pad{n}d_backward" for n in (1, 2, 3)), kept=True)
def _replication_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, margins: Ints
) -> Value:
    """Return, for each element of `x`, the sum of the gradients of its copies in the padded `x`."""
    copied_positions = _numbered(x)
    margin_pairs = [(margins[i], margins[i + 1]) for i in range(0, len(margins), 2)]
    for dim, (margin_before, margin_after) in enumerate(margin_pairs):
        axis = len(x.shape) - 1 - dim
        copied_indices = np.clip(
            np.arange(-margin_before, x.shape[axis] + margin_after), 0, x.shape[axis] - 1
        )
        copied_positions = copied_positions.take(copied_indices, axis)
    index = graph.constant(copied_positions.reshape(-1), UNSIGNED_INT)
    updates = reshape(graph, gradient, (gradient.size, 1))
    return reshape(graph, graph.op("scatter", index, updates, shape=(x.size, 1)), x.shape)


def at_places(graph: Ir, shape: Ints, dim: int) -> Value:
    """Return an INT value of shape `shape` with the index of each element along dimension `dim`."""
    places = np.broadcast_to(along_axis(np.arange(shape[dim]), len(shape), dim), shape)
    return graph.constant(np.ascontiguousarray(places), INT)
