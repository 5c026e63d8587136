"""Losses of class numbers: the negative log likelihood, and functions for cross entropy."""

from __future__ import annotations

import torch

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.pytorch.rows.registry import Argument, Results, row
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT

IGNORED = -100  # torch's default for the class number that is ignored


def class_rows(graph: Ir, x: Value) -> Value:
    """Return [batch, classes, …] or [classes] as [rows, classes]."""
    if len(x.shape) > 2:
        x = graph.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))
    return x if len(x.shape) == 2 else graph.op("reshape", x, shape=(-1, x.shape[-1]))


def class_numbers(graph: Ir, labels: Value, classes: int, ignored: int) -> tuple[Value, bool]:
    """Return class numbers as UNSIGNED_INT [rows], and whether some may be ignored.

    The host checks the class numbers that it feeds. If the ignored number is `IGNORED`, torch's
    default, these may only contain it if the host has fed it before.
    """
    rows = graph.op("reshape", labels, shape=(labels.size,)) if len(labels.shape) != 1 else labels
    numbers = graph.op("reinterpret", rows, dtype=UNSIGNED_INT) if rows.dtype is INT else rows
    fed = graph.fed_input(numbers)
    if fed is not None:
        fed.below = classes if fed.below is None else min(classes, fed.below)
        if ignored == IGNORED and not getattr(fed, "marked", False):
            return numbers, False
        fed.ignored = ignored
    masked = graph.constant(MASKED_LABEL_CODE, UNSIGNED_INT)
    return graph.op("select", graph.op("eq", rows, ignored), masked, numbers), True


def count_of(graph: Ir, numbers: Value, is_masked: bool) -> Value:
    """Return the number of class numbers that are not ignored, as FLOAT."""
    if not is_masked:
        return graph.constant(float(numbers.size), FLOAT, ())
    masked = graph.constant(MASKED_LABEL_CODE, UNSIGNED_INT, numbers.shape)
    return ir.reduced(graph, "sum", graph.op("cast", graph.op("neq", numbers, masked), dtype=FLOAT))


def mean_of(graph: Ir, total: Value, count: Value) -> Value:
    """Return total / count. If `count` is 0, this is NaN, and the gradient of the total is 0."""
    if count.number is not None:
        return graph.op("mul", total, 1 / count.number)
    mean = graph.op("div", total, graph.op("max", count, 1.0))
    empty = graph.op("eq", count, 0.0)
    return graph.op("select", empty, graph.constant(float("nan"), total.dtype, total.shape), mean)


def _has_no_weights(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *others: Argument
) -> bool:
    """Return whether a negative log likelihood has no class weights."""
    return weight is None


def _had_no_weights(
    gradient: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    *others: Argument,
) -> bool:
    """Return whether the loss had no class weights, from the arguments of its backward."""
    return weight is None


@row("nll_loss_forward", "nll_loss2d_forward", kept=_has_no_weights)
def _nll(
    graph: Ir, results: Results, x: Value, labels: Value, weight: None, reduction: int, ignored: int
) -> list[Value]:
    """Return the negative log likelihood of class numbers, and the total weight.

    `reduction` is 0 for none, 1 for the mean, and 2 for the sum.
    """
    rows = class_rows(graph, x)
    numbers, is_masked = class_numbers(graph, labels, rows.shape[1], ignored)
    count = count_of(graph, numbers, is_masked)
    losses = graph.op("neg", graph.cast(graph.op("pick", rows, numbers), FLOAT))
    dtype = results.dtypes[1] or results.dtype
    weights = graph.cast(count, dtype)
    if reduction == 0:
        if losses.shape != results.shape:
            losses = graph.op("reshape", losses, shape=results.shape)
        return [graph.cast(losses, results.dtype), graph.constant(0, dtype, ())]
    loss = ir.reduced(graph, "sum", losses)
    if reduction == 1:
        loss = mean_of(graph, loss, count)
    return [graph.cast(loss, results.dtype), weights]


@row("nll_loss_backward", "nll_loss2d_backward", kept=_had_no_weights)
def _nll_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, labels: Value, weight: None,
    reduction: int, ignored: int, weights: Value,
) -> Value:  # fmt: skip
    rows = class_rows(graph, x)
    numbers, is_masked = class_numbers(graph, labels, rows.shape[1], ignored)
    gradient = graph.cast(gradient, FLOAT)
    if reduction == 1:
        count = count_of(graph, numbers, is_masked)
        if count.number is None:
            gradient = graph.op("div", gradient, graph.op("max", count, 1.0))
        else:
            gradient = graph.op("mul", gradient, 1 / count.number)
    column = (-1, 1) if reduction == 0 else (1, 1)
    by_likelihood = graph.op("neg", graph.op("reshape", gradient, shape=column))
    hot = graph.op("one_hot", numbers, classes=rows.shape[1], dtype=FLOAT)
    by_rows = graph.op("mul", hot, by_likelihood)
    if len(x.shape) > 2:
        moved = (x.shape[0], *x.shape[2:], x.shape[1])
        back = (0, len(moved) - 1, *range(1, len(moved) - 1))
        by_rows = graph.op("permute", graph.op("reshape", by_rows, shape=moved), dims=back)
    elif by_rows.shape != x.shape:
        by_rows = graph.op("reshape", by_rows, shape=x.shape)
    return graph.cast(by_rows, results.dtype)
