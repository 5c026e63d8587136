"""Lowering functions of gradients that a single operation of `frontends.ir` computes.

Without these functions, torch would decompose the gradients. For example, the gradient of a ReLU
would become a comparison and a selection.
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
    """Return the lowering function of a non-linearity's gradient.

    The function computes the gradient from the result of the non-linearity. `kind` is the name of
    the non-linearity, such as "TANH".
    """

    def backward(graph: Ir, results: Results, gradient: Value, y: Value) -> Value:
        return graph.op("non_linearity_grad", y, gradient, kind=kind)

    return backward


row("sigmoid_backward", kept=True)(_by_output("SIGMOID"))
row("tanh_backward", kept=True)(_by_output("TANH"))


def _at_the_end(graph: Ir, x: Value, dim: int) -> Value:
    """Return `x` with dimension `dim` and the last dimension exchanged."""
    rank = len(x.shape)
    return x if rank < 2 or dim % rank == rank - 1 else ir.transpose(graph, x, dim, -1)


@row("_softmax_backward_data", kept=True)
def _softmax_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, dim: int, dtype: torch.dtype
) -> Value:
    if not y.shape:
        return graph.constant(0, results.dtype, ())
    x_grad = graph.op("softmax_grad", _at_the_end(graph, y, dim), _at_the_end(graph, gradient, dim))
    return graph.cast(_at_the_end(graph, x_grad, dim), results.dtype)


@row("_log_softmax_backward_data", kept=True)
def _log_softmax_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, dim: int, dtype: torch.dtype
) -> Value:
    gradient_sums = ir.reduced(graph, "sum", gradient, [dim] if gradient.shape else [], keep=True)
    x_grad = graph.op("sub", gradient, graph.op("mul", graph.op("exp", y), gradient_sums))
    return graph.cast(x_grad, results.dtype)


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
        slice_attributes = {"dim": axis, "begin": begin, "end": stop, "step": step}
        return graph.op("put", gradient, shape=tuple(sizes), **slice_attributes)
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
    gradient_slice = graph.op("reshape", gradient, shape=(*sizes[:axis], 1, *sizes[axis + 1 :]))
    return _slice_backward(
        graph, results, gradient_slice, sizes, dim=axis, start=begin, end=begin + 1, step=1
    )


@row("native_dropout_backward", kept=True)
def _dropout_backward(
    graph: Ir, results: Results, gradient: Value, kept: Value, scale: float
) -> Value:
    """Return the gradient of a dropout's input: `gradient * kept * scale`.

    `kept` is True for the elements that the dropout kept. If `kept` is the comparison `mask > 0` of
    a dropout mask, whose elements are 0 or `scale`, return `gradient * mask` instead. The result is
    the same, but one multiplication is saved.
    """
    gradient = graph.cast(gradient, results.dtype)
    producer_of = graph.maker()
    comparison = producer_of.get(kept)
    if comparison is not None and comparison.kind == "gt" and comparison.inputs[0] in producer_of:
        mask = comparison.inputs[0]
        mask_producer = producer_of[mask]
        is_scaled = mask_producer.kind == "dropout_mask" and isclose(
            scale * mask_producer.attrs["keep"], 1
        )
        if is_scaled and mask.dtype is gradient.dtype:
            return graph.op("mul", gradient, mask)
    return graph.op("mul", graph.op("mul", gradient, graph.cast(kept, gradient.dtype)), scale)


def _is_plain_sum(
    gradient: torch.Tensor, index: torch.Tensor, rows: int, padding: int, by_frequency: bool
) -> bool:
    """Return whether an embedding row's gradient is the sum of the gradients of the row's uses.

    Otherwise, torch divides the sum by the number of uses.
    """
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
        is_padding = graph.op("reshape", graph.op("eq", index, padding), shape=(*index.shape, 1))
        gradient = graph.op("select", is_padding, graph.constant(0, gradient.dtype, ()), gradient)
    row_numbers = (
        graph.op("reinterpret", index, dtype=UNSIGNED_INT) if index.dtype is INT else index
    )
    return graph.op("scatter", row_numbers, gradient, shape=results.shape)
