"""Lowering functions of the negative log likelihood, and helpers for cross entropy."""

from __future__ import annotations

import torch

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.pytorch.rows.registry import Argument, Results, row
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT

IGNORED = -100  # Torch's default of `ignore_index`: rows with this label do not count in a loss.


def class_rows(graph: Ir, x: Value) -> Value:
    """Return [batch, classes, …] or [classes] as [rows, classes]."""
    if len(x.shape) > 2:
        x = graph.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))
    return x if len(x.shape) == 2 else graph.op("reshape", x, shape=(-1, x.shape[-1]))


def class_numbers(graph: Ir, labels: Value, classes: int, ignored: int) -> tuple[Value, bool]:
    """Return `(numbers, is_masked)` for the labels of a loss.

    `numbers` contains the labels as UNSIGNED_INT[rows]. `is_masked` is True if some of the labels
    may be ignored; an ignored label is `MASKED_LABEL_CODE`.

    The host checks the labels that it copies to the device: they must be below `classes`. If
    `ignored` is `IGNORED`, torch's default, the program does not support ignored labels at first.
    When the host finds one in a batch, the program is compiled again with `is_masked`.
    """
    flat_labels = (
        graph.op("reshape", labels, shape=(labels.size,)) if len(labels.shape) != 1 else labels
    )
    unsigned_labels = (
        graph.op("reinterpret", flat_labels, dtype=UNSIGNED_INT)
        if flat_labels.dtype is INT
        else flat_labels
    )
    fed_input, part = graph.fed_input(unsigned_labels)
    if fed_input is not None:
        part.below = classes if part.below is None else min(classes, part.below)
        if ignored == IGNORED and not getattr(fed_input, "marked", False):
            return unsigned_labels, False
        part.ignored = ignored
    masked = graph.constant(MASKED_LABEL_CODE, UNSIGNED_INT)
    return graph.op("select", graph.op("eq", flat_labels, ignored), masked, unsigned_labels), True


def count_of(graph: Ir, numbers: Value, is_masked: bool) -> Value:
    """Return the number of labels in `numbers` that are not ignored, as a FLOAT scalar.

    If `is_masked` is False, no label is ignored.
    """
    if not is_masked:
        return graph.constant(float(numbers.size), FLOAT, ())
    masked = graph.constant(MASKED_LABEL_CODE, UNSIGNED_INT, numbers.shape)
    return ir.reduced(graph, "sum", graph.op("cast", graph.op("neq", numbers, masked), dtype=FLOAT))


def mean_of(graph: Ir, total: Value, count: Value) -> Value:
    """Return total / count. If `count` is 0, the mean is NaN and the gradient of `total` is 0."""
    if count.number is not None:
        return graph.op("mul", total, 1 / count.number)
    mean = graph.op("div", total, graph.op("max", count, 1.0))
    empty = graph.op("eq", count, 0.0)
    return graph.op("select", empty, graph.constant(float("nan"), total.dtype, total.shape), mean)


def _has_no_weights(
    x: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, *others: Argument
) -> bool:
    """Return whether a call of the negative log likelihood has no class weights."""
    return weight is None


def _had_no_weights(
    gradient: torch.Tensor,
    x: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    *others: Argument,
) -> bool:
    """Return whether the arguments of the backward operation show a loss without class weights."""
    return weight is None


@row("nll_loss_forward", "nll_loss2d_forward", kept=_has_no_weights)
def _nll(
    graph: Ir, results: Results, x: Value, labels: Value, weight: None, reduction: int, ignored: int
) -> list[Value]:
    """Return [loss, total weight] of the negative log likelihood of class numbers.

    `reduction` is torch's number: 0 for "none", 1 for "mean" and 2 for "sum".
    """
    rows = class_rows(graph, x)
    label_numbers, is_masked = class_numbers(graph, labels, rows.shape[1], ignored)
    num_labels = count_of(graph, label_numbers, is_masked)
    losses = graph.op("neg", graph.cast(graph.op("pick", rows, label_numbers), FLOAT))
    dtype = results.dtypes[1] or results.dtype
    total_weight = graph.cast(num_labels, dtype)
    if reduction == 0:
        if losses.shape != results.shape:
            losses = graph.op("reshape", losses, shape=results.shape)
        return [graph.cast(losses, results.dtype), graph.constant(0, dtype, ())]
    loss = ir.reduced(graph, "sum", losses)
    if reduction == 1:
        loss = mean_of(graph, loss, num_labels)
    return [graph.cast(loss, results.dtype), total_weight]


@row("nll_loss_backward", "nll_loss2d_backward", kept=_had_no_weights)
def _nll_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, labels: Value, weight: None,
    reduction: int, ignored: int, weights: Value,
) -> Value:  # fmt: skip
    rows = class_rows(graph, x)
    label_numbers, is_masked = class_numbers(graph, labels, rows.shape[1], ignored)
    gradient = graph.cast(gradient, FLOAT)
    if reduction == 1:
        num_labels = count_of(graph, label_numbers, is_masked)
        if num_labels.number is None:
            gradient = graph.op("div", gradient, graph.op("max", num_labels, 1.0))
        else:
            gradient = graph.op("mul", gradient, 1 / num_labels.number)
    gradient_shape = (-1, 1) if reduction == 0 else (1, 1)
    label_gradients = graph.op("neg", graph.op("reshape", gradient, shape=gradient_shape))
    one_hot = graph.op("one_hot", label_numbers, classes=rows.shape[1], dtype=FLOAT)
    row_gradients = graph.op("mul", one_hot, label_gradients)
    if len(x.shape) > 2:
        channels_last_shape = (x.shape[0], *x.shape[2:], x.shape[1])
        dim_order = (0, len(channels_last_shape) - 1, *range(1, len(channels_last_shape) - 1))
        row_gradients = graph.op(
            "permute", graph.op("reshape", row_gradients, shape=channels_last_shape), dims=dim_order
        )
    elif row_gradients.shape != x.shape:
        row_gradients = graph.op("reshape", row_gradients, shape=x.shape)
    return graph.cast(row_gradients, results.dtype)
