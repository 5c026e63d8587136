"""Rows for gradients in torch's autograd for which the kit has an operation.

torch would compose each of several operations: the gradient of a ReLU, for example, as a comparison
and a selection.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose

import torch

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.pytorch.rows.registry import Ints, Results, row
from ipu_teach.types import INT, UNSIGNED_INT


@row("threshold_backward", kept=True)
def _threshold_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, threshold: float
) -> Value:
    if threshold == 0 and y.floating:
        return graph.op("non_linearity_grad", y, gradient, kind="RELU")
    return graph.op(
        "select",
        graph.op("lteq", y, threshold),
        graph.constant(0, gradient.dtype, gradient.shape),
        gradient,
    )


def _by_output(kind: str) -> Callable[..., Value]:
    """Return the row function for the gradient of a non-linearity, computed from its output."""

    def backward(graph: Ir, results: Results, gradient: Value, y: Value) -> Value:
        return graph.op("non_linearity_grad", y, gradient, kind=kind)

    return backward


row("sigmoid_backward", kept=True)(_by_output("SIGMOID"))
row("tanh_backward", kept=True)(_by_output("TANH"))


def _at_the_end(graph: Ir, x: Value, dim: int) -> Value:
    """Return x with dimension `dim` and the last dimension exchanged."""
    rank = len(x.shape)
    return x if rank < 2 or dim % rank == rank - 1 else ir.transpose(graph, x, dim, -1)


@row("_softmax_backward_data", kept=True)
def _softmax_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, dim: int, dtype: torch.dtype
) -> Value:
    if not y.shape:
        return graph.constant(0, results.dtype, ())
    by_x = graph.op("softmax_grad", _at_the_end(graph, y, dim), _at_the_end(graph, gradient, dim))
    return graph.cast(_at_the_end(graph, by_x, dim), results.dtype)


@row("_log_softmax_backward_data", kept=True)
def _log_softmax_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, dim: int, dtype: torch.dtype
) -> Value:
    total = ir.reduced(graph, "sum", gradient, [dim] if gradient.shape else [], keep=True)
    by_x = graph.op("sub", gradient, graph.op("mul", graph.op("exp", y), total))
    return graph.cast(by_x, results.dtype)


@row("slice_backward", kept=True)
def _slice_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    sizes: Ints,
    dim: int,
    start: int,
    end: int,
    step: int,
) -> Value:
    axis = dim % len(sizes)
    begin, stop, _ = slice(start, end).indices(sizes[axis])
    stop = max(begin, stop)
    if step != 1:
        place = {"dim": axis, "begin": begin, "end": stop, "step": step}
        return graph.op("put", gradient, shape=tuple(sizes), **place)
    lower = [0] * len(sizes)
    upper = [0] * len(sizes)
    lower[axis] = begin
    upper[axis] = sizes[axis] - stop
    if not any(lower + upper):
        return gradient
    return graph.op("pad", gradient, lower=tuple(lower), upper=tuple(upper))


@row("select_backward", kept=True)
def _select_backward(
    graph: Ir, results: Results, gradient: Value, sizes: Ints, dim: int, index: int
) -> Value:
    axis = dim % len(sizes)
    begin = index % sizes[dim]
    part = graph.op("reshape", gradient, shape=(*sizes[:axis], 1, *sizes[axis + 1 :]))
    return _slice_backward(
        graph, results, part, sizes, dim=axis, start=begin, end=begin + 1, step=1
    )


@row("native_dropout_backward", kept=True)
def _dropout_backward(
    graph: Ir, results: Results, gradient: Value, kept: Value, scale: float
) -> Value:
    """Return gradient * mask * scale.

    If `kept`, whether each element was kept, was computed from a mask that includes the scale, this
    mask is used.
    """
    gradient = graph.cast(gradient, results.dtype)
    maker = graph.maker()
    comparison = maker.get(kept)
    if comparison is not None and comparison.kind == "gt" and comparison.inputs[0] in maker:
        mask = comparison.inputs[0]
        source = maker[mask]
        is_scaled = source.kind == "dropout_mask" and isclose(scale * source.attrs["keep"], 1)
        if is_scaled and mask.dtype is gradient.dtype:
            return graph.op("mul", gradient, mask)
    return graph.op("mul", graph.op("mul", gradient, graph.cast(kept, gradient.dtype)), scale)


def _is_plain_sum(
    gradient: torch.Tensor, index: torch.Tensor, rows: int, padding: int, by_frequency: bool
) -> bool:
    """Return whether the gradient of an embedding is a sum, not scaled by frequency."""
    return not by_frequency


@row("embedding_dense_backward", kept=_is_plain_sum)
def _embedding_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    index: Value,
    rows: int,
    padding: int,
    by_frequency: bool,
) -> Value:
    if padding >= 0:
        mask = graph.op("reshape", graph.op("eq", index, padding), shape=(*index.shape, 1))
        gradient = graph.op("select", mask, graph.constant(0, gradient.dtype, ()), gradient)
    places = graph.op("reinterpret", index, dtype=UNSIGNED_INT) if index.dtype is INT else index
    return graph.op("scatter", places, gradient, shape=results.shape)
