"""Gradients that torch's autograd asks for, each by the row of the IR that the kit has for it.

torch would spell them out in several operations: that of a ReLU as a comparison and a selection.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isclose
from typing import Any

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.pytorch.rows.registry import Results, row
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
    return lambda graph, results, gradient, y: graph.op(
        "non_linearity_grad", y, gradient, kind=kind
    )


row("sigmoid_backward", kept=True)(_by_output("SIGMOID"))
row("tanh_backward", kept=True)(_by_output("TANH"))


def _at_the_end(graph: Ir, x: Value, dim: int) -> Value:
    """Exchange a dimension and the last one."""
    rank = len(x.shape)
    return x if rank < 2 or dim % rank == rank - 1 else ir.transpose(graph, x, dim, -1)


@row("_softmax_backward_data", kept=True)
def _softmax_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, dim: int, dtype: Any
) -> Value:
    if not y.shape:
        return graph.constant(0, results.dtype, ())
    by_x = graph.op("softmax_grad", _at_the_end(graph, y, dim), _at_the_end(graph, gradient, dim))
    return graph.cast(_at_the_end(graph, by_x, dim), results.dtype)


@row("_log_softmax_backward_data", kept=True)
def _log_softmax_backward(
    graph: Ir, results: Results, gradient: Value, y: Value, dim: int, dtype: Any
) -> Value:
    total = ir.reduced(graph, "sum", gradient, [dim] if gradient.shape else [], keep=True)
    by_x = graph.op("sub", gradient, graph.op("mul", graph.op("exp", y), total))
    return graph.cast(by_x, results.dtype)


@row("slice_backward", kept=True)
def _slice_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    sizes: Any,
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
    lower, upper = [0] * len(sizes), [0] * len(sizes)
    lower[axis], upper[axis] = begin, sizes[axis] - stop
    return (
        graph.op("pad", gradient, lower=tuple(lower), upper=tuple(upper))
        if any(lower + upper)
        else gradient
    )


@row("select_backward", kept=True)
def _select_backward(
    graph: Ir, results: Results, gradient: Value, sizes: Any, dim: int, index: int
) -> Value:
    axis, at = dim % len(sizes), index % sizes[dim]
    part = graph.op("reshape", gradient, shape=(*sizes[:axis], 1, *sizes[axis + 1 :]))
    result: Value = _slice_backward(graph, results, part, sizes, axis, at, at + 1, 1)
    return result


@row("native_dropout_backward", kept=True)
def _dropout_backward(
    graph: Ir, results: Results, gradient: Value, kept: Value, scale: float
) -> Value:
    """The forward's mask has the scale in it: multiply by that, where it is there."""
    gradient = graph.cast(gradient, results.dtype)
    maker = graph.maker()
    ask = maker.get(kept)
    if ask is not None and ask.kind == "gt" and ask.inputs[0] in maker:
        mask = ask.inputs[0]
        drawn = maker[mask]
        is_scaled = drawn.kind == "dropout_mask" and isclose(scale * drawn.attrs["keep"], 1)
        if is_scaled and mask.dtype is gradient.dtype:
            return graph.op("mul", gradient, mask)
    return graph.op("mul", graph.op("mul", gradient, graph.cast(kept, gradient.dtype)), scale)


def _is_plain_sum(gradient: Any, index: Any, rows: int, padding: int, by_frequency: bool) -> bool:
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
