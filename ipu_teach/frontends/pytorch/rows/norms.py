"""Normalisation. The forward leaves what the backward reads in `saved`, by its mean."""

from __future__ import annotations

from math import prod
from typing import Any

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, reshaped, row
from ipu_teach.types import FLOAT

Saved = dict[Any, Any]


def _check(x: Value, eps: float) -> None:
    if eps < 0:
        raise Unfit(f"eps is {eps}", "give an eps of 0 or more, such as 1e-5.")
    if not x.size:
        raise Unfit("a norm of no elements", "leave the norm out of what is empty.")


def _normed(
    graph: Ir, kind: str, x: Value, gamma: Value | None, beta: Value | None, eps: float,
    **options: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """Return the result, the normalised x, the means and 1 / the standard deviations."""
    _check(x, eps)
    channels = x.shape[1]
    scale = graph.constant(1.0, x.dtype, (channels,)) if gamma is None else gamma
    shift = graph.constant(0.0, x.dtype, (channels,)) if beta is None else beta
    scale, shift = (graph.cast(v, x.dtype) for v in (scale, shift))
    return graph.emit("norm", x, scale, shift, kind=kind, eps=eps, **options)


def _statistics(graph: Ir, results: Results, mean: Value, inverse: Value) -> list[Value]:
    """Return the means and 1 / the standard deviations with torch's shapes and dtypes."""
    return [
        graph.cast(reshaped(graph, v, results.shapes[i]), results.dtypes[i] or v.dtype)
        for i, v in ((1, mean), (2, inverse))
    ]


def _zeros(
    graph: Ir, mask: Ints, *likes: tuple[Value | None, tuple[int, ...]]
) -> list[Value | None]:
    """Return the gradients that `mask` asks for where no element takes part in them."""
    zeros = [graph.constant(0.0, FLOAT if v is None else v.dtype, shape) for v, shape in likes]
    return [v if is_wanted else None for v, is_wanted in zip(zeros, mask, strict=True)]


def _gradients(
    graph: Ir, kind: str, white: Value, gradient: Value, inverse: Value, gamma: Value | None,
    mask: Ints,
) -> list[Value | None]:  # fmt: skip
    """Return the gradients of x, gamma and beta, those that `mask` asks for."""
    by_x = by_gamma = by_beta = None
    if mask[0]:
        ones = graph.constant(1.0, gradient.dtype, (gradient.shape[1],))
        scale = ones if gamma is None else graph.cast(gamma, gradient.dtype)
        by_x = graph.op("norm_grad", white, gradient, inverse, scale, kind=kind)
    if any(mask[1:]):
        dtype = gradient.dtype if gamma is None else gamma.dtype
        found = graph.emit("norm_param_grad", white, gradient, kind=kind)
        by_gamma, by_beta = (graph.cast(v, dtype) for v in found)
    return [by_x, by_gamma if mask[1] else None, by_beta if mask[2] else None]


# --- batch norm -----------------------------------------------------------------------------------


def _blended(graph: Ir, old: Value, new: Value, momentum: float) -> Value:
    kept = graph.op("mul", old, 1 - momentum)
    return graph.op("add", kept, graph.op("mul", graph.cast(new, old.dtype), momentum))


@row("_native_batch_norm_legit_functional", saves=True, kept=True)
def _batch_norm(
    graph: Ir, results: Results, x: Value, gamma: Any, beta: Any, mean: Value, var: Value,
    training: bool, momentum: float, eps: float, saved: Saved,
) -> list[Value | None]:  # fmt: skip
    """With the batch's statistics, of which the running ones take a part in; or with those."""
    if not training:
        nothing = graph.constant(0.0, mean.dtype, (0,))
        y = _with_statistics(graph, x, gamma, beta, mean, var, eps)
        return [y, nothing, nothing, mean, var]
    y, white, average, inverse = _normed(graph, "batch", x, gamma, beta, eps)
    mean_out, inverse_out = _statistics(graph, results, average, inverse)
    saved[mean_out] = white, inverse
    count = x.size // x.shape[1]
    variance = graph.op("to_variance", graph.cast(inverse, FLOAT), eps=eps)
    unbiased = graph.op("mul", variance, count / max(count - 1, 1))
    old = (
        graph.cast(v, d or v.dtype) for v, d in zip((mean, var), results.dtypes[3:], strict=True)
    )
    blended = (_blended(graph, *v, momentum) for v in zip(old, (average, unbiased), strict=True))
    return [y, mean_out, inverse_out, *blended]


def _with_statistics(
    graph: Ir, x: Value, gamma: Any, beta: Any, mean: Value, var: Value, eps: float
) -> Value:
    _check(x, eps)
    gamma, beta = (v if v is None else graph.cast(v, x.dtype) for v in (gamma, beta))
    return ir.batch_norm(graph, x, gamma, beta, mean, var, False, 0.0, eps)


@row("_native_batch_norm_legit_no_stats", "_native_batch_norm_legit", saves=True)
def _batch_norm_alone(
    graph: Ir, results: Results, x: Value, gamma: Any, beta: Any, training: bool, momentum: float,
    eps: float, saved: Saved,
) -> list[Value]:  # fmt: skip
    """Without running statistics."""
    y, white, *found = _normed(graph, "batch", x, gamma, beta, eps)
    average, inverse_out = _statistics(graph, results, *found)
    saved[average] = white, found[1]
    return [y, average, inverse_out]


@row("_native_batch_norm_legit_no_training")
def _batch_norm_evaluated(
    graph: Ir, results: Results, x: Value, gamma: Any, beta: Any, mean: Value, var: Value,
    momentum: float, eps: float,
) -> list[Value]:  # fmt: skip
    nothing = graph.constant(0.0, mean.dtype, (0,))
    return [_with_statistics(graph, x, gamma, beta, mean, var, eps), nothing, nothing]


@row("native_batch_norm_backward", saves=True, kept=True)
def _batch_norm_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, gamma: Value | None, mean: Any,
    var: Any, average: Any, inverse: Any, training: bool, eps: float, mask: Ints, saved: Saved,
) -> list[Value | None]:  # fmt: skip
    if training:
        white, inverse = saved[average]
        return _gradients(graph, "batch", white, gradient, inverse, gamma, mask)
    by_x = by_gamma = by_beta = None
    column = (x.shape[1], *(1,) * (len(x.shape) - 2))
    dims = (0, *range(2, len(x.shape)))
    factor = graph.cast(graph.op("to_inv_std_dev", var, eps=eps), x.dtype)
    if mask[0]:
        scale = factor if gamma is None else graph.op("mul", factor, graph.cast(gamma, x.dtype))
        by_x = graph.op("mul", gradient, reshaped(graph, scale, column))
    if mask[1]:
        centred = graph.op("sub", x, reshaped(graph, graph.cast(mean, x.dtype), column))
        white = graph.op("mul", centred, reshaped(graph, factor, column))
        by_gamma = graph.op("sum", graph.op("mul", gradient, white), dims=dims)
    if mask[2]:
        by_beta = graph.op("sum", gradient, dims=dims)
    dtype = x.dtype if gamma is None else gamma.dtype
    return [by_x, *(v if v is None else graph.cast(v, dtype) for v in (by_gamma, by_beta))]


# --- layer and group norm -------------------------------------------------------------------------


@row("native_layer_norm", saves=True, kept=True)
def _layer_norm(
    graph: Ir, results: Results, x: Value, shape: Ints, gamma: Any, beta: Any, eps: float,
    saved: Saved,
) -> list[Value]:  # fmt: skip
    size = prod(shape)
    rows = reshaped(graph, x, (x.size // max(size, 1), size))
    gamma, beta = (v if v is None else reshaped(graph, v, (size,)) for v in (gamma, beta))
    y, white, mean, inverse = _normed(graph, "layer", rows, gamma, beta, eps)
    mean, inverse_out = _statistics(graph, results, mean, inverse)
    saved[mean] = white, inverse
    return [reshaped(graph, y, x.shape), mean, inverse_out]


@row("native_layer_norm_backward", saves=True, kept=True)
def _layer_norm_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, shape: Ints, mean: Value, inverse: Any,
    gamma: Any, beta: Any, mask: Ints, saved: Saved,
) -> list[Value | None]:  # fmt: skip
    if not x.size:
        return _zeros(graph, mask, (x, x.shape), (gamma, tuple(shape)), (beta, tuple(shape)))
    white, inverse = saved[mean]
    size = prod(shape)
    rows = reshaped(graph, gradient, white.shape)
    flat = gamma if gamma is None else reshaped(graph, gamma, (size,))
    found = _gradients(graph, "layer", white, rows, inverse, flat, mask)
    shapes = x.shape, tuple(shape), tuple(shape)
    return [v if v is None else reshaped(graph, v, s) for v, s in zip(found, shapes, strict=True)]


@row("native_group_norm", saves=True, kept=True)
def _group_norm(
    graph: Ir, results: Results, x: Value, gamma: Any, beta: Any, batch: int, channels: int,
    field: int, groups: int, eps: float, saved: Saved,
) -> list[Value]:  # fmt: skip
    y, white, mean, inverse = _normed(graph, "group", x, gamma, beta, eps, groups=groups)
    mean, inverse_out = _statistics(graph, results, mean, inverse)
    saved[mean] = white, inverse
    return [y, mean, inverse_out]


@row("native_group_norm_backward", saves=True, kept=True)
def _group_norm_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, mean: Value, inverse: Any, gamma: Any,
    batch: int, channels: int, field: int, groups: int, mask: Ints, saved: Saved,
) -> list[Value | None]:  # fmt: skip
    if not x.size:
        return _zeros(graph, mask, (x, x.shape), (gamma, (channels,)), (gamma, (channels,)))
    white, inverse = saved[mean]
    return _gradients(graph, "group", white, gradient, inverse, gamma, mask)
