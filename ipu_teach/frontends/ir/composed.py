"""Layers, losses and other functions that add several operations to a graph, for all front ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Annotated

import numpy as np

from ipu_teach.arguments import Among, Between, Count, Fraction, Natural, check_calls
from ipu_teach.frontends.ir.rows import axes
from ipu_teach.frontends.ir.rows_nn import transpose, turned
from ipu_teach.frontends.ir.scans import scan
from ipu_teach.frontends.ir.values import Ir, Unfit, Value, misuse
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE
from ipu_teach.types import FLOAT, UNSIGNED_INT

__all__ = [
    "along", "attention", "batch_norm", "binary_cross_entropy", "conv", "cross_entropy",
    "dropout", "embedding", "linear", "mean", "nll", "norm", "pool", "recurrent", "reduced",
    "running_results", "scan", "seed", "sized", "softplus", "split", "squared_error", "transpose",
]  # fmt: skip

Ints = Sequence[int]
Sizes = Count | Sequence[Count]
Margins = Natural | Sequence[Natural]
Epsilon = Annotated[float, Between(0)]
REDUCTIONS = ("mean", "sum", "none")
Reduction = Annotated[str, Among(REDUCTIONS)]
Extreme = Annotated[str, Among(("sum", "reduce_max", "reduce_min", "reduce_prod"))]
Rowwise = Annotated[str, Among(("softmax", "log_softmax"))]


def _axes(call: str, x: Value, dims: Ints) -> list[int]:
    """Return `dims` sorted, without duplicates, and with negative dimensions counted from 0.

    `call` is the name of the caller, for error messages.

    :raises ModelError: for a dimension that `x` does not have.
    """
    try:
        return axes(x, dims)
    except Unfit as error:
        raise misuse(f"{call}() is not possible: {error.why}.", error.advice) from None


def linear(ir: Ir, x: Value, w: Value, b: Value | None = None) -> Value:
    """Return x wᵀ + b [..., out] for x [..., in], w [out, in] and b [out]."""
    y = ir.op("matmul", x, turned(ir, w))
    return y if b is None else ir.op("add", y, b)


def reduced(ir: Ir, kind: Extreme, x: Value, dims: Ints | None = None, keep: bool = False) -> Value:
    """Return the reduction `kind` of `x` over `dims`: its sum, maximum, minimum or product.

    `kind` is "sum", "reduce_max", "reduce_min" or "reduce_prod". If `dims` is None, all dimensions
    are reduced. If `keep`, the reduced dimensions remain with length 1.

    :raises ModelError: for a dimension that `x` does not have.
    """
    reduced_dims = _axes("reduced", x, range(len(x.shape)) if dims is None else dims)
    y = ir.op(kind, x, dims=tuple(reduced_dims))
    kept_shape = tuple(1 if i in reduced_dims else size for i, size in enumerate(x.shape))
    return ir.op("reshape", y, shape=kept_shape) if keep else y


def mean(ir: Ir, x: Value, dims: Ints | None = None, keep: bool = False) -> Value:
    """Return the mean of `x` over `dims`, or over all dimensions if `dims` is None.

    If `keep`, the reduced dimensions remain with length 1.

    :raises ModelError: for a dimension that `x` does not have.
    """
    _axes("mean", x, () if dims is None else dims)
    y = reduced(ir, "sum", x, dims, keep=keep)
    return ir.op("mul", y, max(y.size, 1) / max(x.size, 1))


def along(ir: Ir, kind: Rowwise, x: Value, dim: int) -> Value:
    """Return the "softmax" or "log_softmax" of `x` along the dimension `dim`.

    :raises ModelError: if `x` does not have this dimension.
    """
    (axis,) = _axes("along", x, [dim])
    if axis == len(x.shape) - 1:
        return ir.op(kind, x)
    return transpose(ir, ir.op(kind, transpose(ir, x, dim, -1)), dim, -1)


def split(ir: Ir, x: Value, sizes: Sequence[Natural], dim: int = 0) -> list[Value]:
    """Return consecutive parts of `x` along `dim`, with the lengths `sizes`.

    :raises ModelError: if the sum of the sizes is larger than the dimension.
    """
    (axis,) = _axes("split", x, [dim])
    if sum(sizes) > x.shape[axis]:
        raise misuse(
            f"split() was given the sizes {list(sizes)}, whose sum is {sum(sizes)}, but dimension "
            f"{axis} has the length {x.shape[axis]}.",
            f"use sizes whose sum is at most {x.shape[axis]}.",
        )
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        ir.op("slice", x, dim=dim, begin=begin, end=begin + size)
        for begin, size in zip(begins, sizes, strict=True)
    ]


def running_results(ir: Ir, rows: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Return the prefix combinations (such as cumulative sums) of each row of `rows` [rows, n].

    Element i of a row of the result is the combination of elements 0 to i. `combine(earlier,
    later)` combines two values elementwise, for example by adding them. It is called about log2(n)
    times, each time for all rows at once.
    """
    length = rows.shape[1]
    shift = 1
    while shift < length:
        first = ir.op("slice", rows, dim=1, begin=0, end=shift)
        earlier = ir.op("slice", rows, dim=1, begin=0, end=length - shift)
        later = ir.op("slice", rows, dim=1, begin=shift, end=length)
        rows = ir.op("concat", first, combine(earlier, later), dim=1)
        shift *= 2
    return rows


def softplus(ir: Ir, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """Return log(1 + exp(beta x)) / beta, or `x` itself where beta x is above `threshold`."""
    scaled = x if beta == 1 else ir.op("mul", x, beta)
    y = ir.op("softplus", scaled)
    y = y if beta == 1 else ir.op("mul", y, 1 / beta)
    return ir.op("select", ir.op("gt", scaled, threshold), x, y)


# --- layers ---------------------------------------------------------------------------------------


def _per_channel(ir: Ir, row: Value, rank: int) -> Value:
    """Return a vector [channels] as [channels, 1, …], with `rank` - 1 dimensions.

    The result broadcasts to [batch, channels, …].
    """
    return ir.op("reshape", row, shape=(row.size, *(1,) * (rank - 2)))


def sized(n: int, **sizes: Ints | int | None) -> dict[str, tuple[int, ...]]:
    """Return a dict with a tuple of `n` sizes for each keyword: one size for each dimension.

    A single size is repeated for all dimensions. If the keyword `upper` is None, it gets the sizes
    of `lower`.
    """
    if "upper" in sizes and sizes["upper"] is None:
        sizes["upper"] = sizes["lower"]
    tuples = {
        name: (size_list,) if isinstance(size_list, int) else tuple(size_list or ())
        for name, size_list in sizes.items()
    }
    return {
        name: size_list * n if len(size_list) == 1 else size_list
        for name, size_list in tuples.items()
    }


def conv(
    ir: Ir,
    x: Value,
    w: Value,
    b: Value | None = None,
    stride: Sizes = 1,
    lower: Margins = 0,
    upper: Margins | None = None,
    dilation: Sizes = 1,
    groups: Count = 1,
) -> Value:
    """Return the convolution of x [batch, channels, *field] with the weights w, plus b [out].

    The field consists of the spatial dimensions. The weights are [out, channels / groups, *kernel].
    `lower` and `upper` are the padding before and after the field in each dimension. If `upper` is
    None, it is equal to `lower`.
    """
    sizes = sized(len(x.shape) - 2, stride=stride, lower=lower, upper=upper, dilation=dilation)
    y = ir.op("conv", x, w, groups=groups, **sizes)
    return y if b is None else ir.op("add", y, _per_channel(ir, b, len(y.shape)))


def pool(
    ir: Ir,
    kind: Annotated[str, Among(("max_pool", "avg_pool"))],
    x: Value,
    kernel: Sizes,
    stride: Sizes | None = None,
    lower: Margins = 0,
    upper: Margins | None = None,
    count_padding: bool = False,
) -> Value:
    """Return the "max_pool" or "avg_pool" of x [batch, channels, *field].

    The field consists of the spatial dimensions. If `stride` is None, it is equal to `kernel`.
    `lower` and `upper` are the padding before and after the field; if `upper` is None, it is equal
    to `lower`. If `count_padding`, an average counts the padding as zeros.
    """
    stride = kernel if stride is None else stride
    field_rank = len(x.shape) - 2
    sizes = sized(field_rank, kernel=kernel, stride=stride, lower=lower, upper=upper)
    if kind == "avg_pool" and count_padding and any((*sizes["lower"], *sizes["upper"])):
        x = ir.op("pad", x, lower=(0, 0, *sizes["lower"]), upper=(0, 0, *sizes["upper"]))
        sizes["lower"] = sizes["upper"] = (0,) * field_rank
    return ir.op(kind, x, **sizes)


def norm(
    ir: Ir,
    kind: Annotated[str, Among(("layer", "group", "instance", "batch"))],
    x: Value,
    gamma: Value | None = None,
    beta: Value | None = None,
    eps: Epsilon = 1e-5,
    groups: Count = 1,
) -> Value:
    """Return the "layer", "group", "instance" or "batch" norm of `x`.

    "layer" normalises over the last dimension. The other kinds take x [batch, channels, …], and
    normalise each channel or each group of channels. `gamma` and `beta` contain a scale and a shift
    for each channel. If `gamma` is None, the scale is 1, and if `beta` is None, the shift is 0.
    """
    return _norm_results(ir, kind, x, gamma=gamma, beta=beta, eps=eps, groups=groups)[0]


def _norm_results(
    ir: Ir,
    kind: str,
    x: Value,
    *,
    gamma: Value | None,
    beta: Value | None,
    eps: float,
    groups: int = 1,
) -> tuple[Value, ...]:
    """Return `(y, normalised, means, inverse_deviations)` of the norm of x.

    `y` is the result, `normalised` is x before scale and shift, and `inverse_deviations` are 1 /
    sqrt(variance + eps). The arguments have the same meaning as those of the function `norm`.
    """
    is_layer = kind == "layer"
    num_channels = x.shape[-1] if is_layer else x.shape[1]
    rows = ir.op("reshape", x, shape=(-1, num_channels)) if is_layer and len(x.shape) != 2 else x
    scale = ir.constant(1.0, x.dtype, (num_channels,)) if gamma is None else gamma
    shift = ir.constant(0.0, x.dtype, (num_channels,)) if beta is None else beta
    group_attrs = {"groups": groups} if kind == "group" else {}
    y, *others = ir.emit("norm", rows, scale, shift, kind=kind, eps=eps, **group_attrs)
    return (y if rows is x else ir.op("reshape", y, shape=x.shape), *others)


def batch_norm(
    ir: Ir,
    x: Value,
    gamma: Value | None = None,
    beta: Value | None = None,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    training: bool = True,
    momentum: float = 0.1,
    eps: Epsilon = 1e-5,
    unbiased: bool = True,
) -> Value:
    """Return the batch norm of x [batch, channels, …].

    In training, the norm uses the mean and the variance of the batch, which also update the
    variables `running_mean` and `running_var`. `momentum` is the weight of the batch's statistics
    in this update. If `unbiased`, the variance for the update is the sum of squared deviations
    divided by one less than the number of elements per channel. In inference, the norm uses the
    running statistics, which get no gradient. If `running_mean` or `running_var` is None, the norm
    always uses the batch's statistics, and updates nothing.
    """
    if training or running_mean is None or running_var is None:
        y, _, average, inverse = _norm_results(ir, "batch", x, gamma=gamma, beta=beta, eps=eps)
        if running_mean is not None and running_var is not None:
            elements_per_channel = x.size // x.shape[1]
            variance = ir.op("to_variance", ir.cast(inverse, FLOAT), eps=eps)
            if unbiased:
                correction = elements_per_channel / max(elements_per_channel - 1, 1)
                variance = ir.op("mul", variance, correction)
            for running, batch_statistic in ((running_mean, average), (running_var, variance)):
                ir.emit(
                    "blend", running, ir.cast(batch_statistic, running.dtype), momentum=momentum
                )
        return y
    rank = len(x.shape)
    inverse = ir.cast(ir.op("to_inv_std_dev", running_var, eps=eps), x.dtype)
    mean = ir.cast(ir.op("stop", running_mean), x.dtype)
    scale = inverse if gamma is None else ir.op("mul", inverse, gamma)
    y = ir.op("sub", x, _per_channel(ir, mean, rank))
    y = ir.op("mul", y, _per_channel(ir, scale, rank))
    return y if beta is None else ir.op("add", y, _per_channel(ir, beta, rank))


def seed(ir: Ir, number: Annotated[int, Between(0, 2**63 - 1)] = 42) -> Value:
    """Return the seed of the random numbers of this micro-batch: UNSIGNED_INT[2].

    The seed is a copy of the variable "seed". The variable increases by one with each micro-batch.
    The first call for a graph adds this variable, with the initial value `number`.
    """
    if "seed" not in ir.variables:
        variable = ir.variable([number & 0xFFFFFFFF, number >> 32], "seed", UNSIGNED_INT)
        ir.op("copy", variable)
        ir.emit("next_seed", variable)
    current = ir.variables["seed"]
    return next(op.outs[0] for op in ir.ops if op.kind == "copy" and op.inputs[0] is current)


def dropout(ir: Ir, x: Value, p: Fraction = 0.5, modifier: Natural | None = None) -> Value:
    """Return `x` with each element set to 0 with probability `p`, and divided by 1 - p otherwise.

    Operations with the same seed but different modifiers draw different random numbers. If
    `modifier` is None, the modifier is the number of random operations before this one, plus 1.
    """
    if not p:
        return x
    random_kinds = ("dropout_mask", "uniform", "normal")
    valid_modifier = (
        sum(op.kind in random_kinds for op in ir.ops) + 1 if modifier is None else modifier
    )
    mask = ir.op(
        "dropout_mask", seed(ir), shape=x.shape, keep=1 - p, modifier=valid_modifier, dtype=x.dtype
    )
    return ir.op("mul", x, mask)


def attention(
    ir: Ir,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    causal: bool = False,
    scale: float | None = None,
    p: Fraction = 0.0,
) -> Value:
    """Return softmax(q kᵀ scale + mask) v, for q, k and v of shape [..., length, width].

    If `scale` is None, it is 1 / sqrt(width). `p` is the dropout probability of the weights.

    A `mask` of floats is added to the scores. A `mask` of BOOL is true where a query may attend to
    a key. The result of a query that may attend to no key is 0. If `causal`, a query attends to the
    keys up to its own position.

    :raises ModelError: if both a mask and `causal` are given.
    """
    if causal and mask is not None:
        raise misuse(
            "attention() was given both a mask and causal=True.",
            "leave out causal and pass a mask that is causal, or leave out the mask.",
        )
    scores = ir.op("matmul", q, turned(ir, k))
    scores = ir.op("mul", scores, 1 / sqrt(q.shape[-1]) if scale is None else scale)
    lowest_score = float(np.finfo(q.dtype.numpy).min)
    if causal:
        causal_mask = np.tri(scores.shape[-2], scores.shape[-1])
        mask = ir.constant(np.where(causal_mask > 0, 0.0, lowest_score), q.dtype)
    if mask is None or mask.floating:
        scores = scores if mask is None else ir.op("add", scores, mask)
        return ir.op("matmul", dropout(ir, ir.op("softmax", scores), p), v)
    masked_scores = ir.op("select", mask, scores, ir.constant(lowest_score, q.dtype))
    # Apply the mask again: for a query without any key, softmax returns equal weights instead of 0.
    weights = ir.op("select", mask, ir.op("softmax", masked_scores), ir.constant(0.0, q.dtype))
    return ir.op("matmul", dropout(ir, weights, p), v)


def embedding(ir: Ir, table: Value, index: Value) -> Value:
    """Return the rows of `table` [entries, …] that `index` selects, as [*index.shape, …].

    If `index` comes from the host, each run checks that the row numbers are from 0 to entries - 1.
    """
    return ir.op("gather", table, ir.classes(index, table.shape[0]))


def _lstm_cell(g: Ir, gates: Value, recurrent_gates: Value, h: Value, c: Value) -> list[Value]:
    """Return the next [h, c] of an LSTM.

    `gates` is computed from the input of the step, and `recurrent_gates` from h. Both are [batch, 4
    * hidden], in the order input, forget, cell, output.
    """
    input_gate, forget_gate, cell_gate, output_gate = split(
        g, g.op("add", gates, recurrent_gates), [h.shape[-1]] * 4, -1
    )
    input_gate, forget_gate, output_gate = (
        g.op("sigmoid", gate) for gate in (input_gate, forget_gate, output_gate)
    )
    c = g.op("add", g.op("mul", forget_gate, c), g.op("mul", input_gate, g.op("tanh", cell_gate)))
    return [g.op("mul", output_gate, g.op("tanh", c)), c]


def _gru_cell(g: Ir, gates: Value, recurrent_gates: Value, h: Value) -> list[Value]:
    """Return the next [h] of a GRU.

    `gates` is computed from the input of the step, and `recurrent_gates` from h. Both are [batch, 3
    * hidden], in the order reset, update, new.
    """
    (r, z, new), (r2, z2, new2) = (
        split(g, v, [h.shape[-1]] * 3, -1) for v in (gates, recurrent_gates)
    )
    reset, keep = (g.op("sigmoid", g.op("add", a, b)) for a, b in ((r, r2), (z, z2)))
    new = g.op("tanh", g.op("add", new, g.op("mul", reset, new2)))
    return [g.op("add", new, g.op("mul", keep, g.op("sub", h, new)))]


def _plain_cell(activation: str, g: Ir, a: Value, b: Value, h: Value) -> list[Value]:
    """Return the next [h] of a recurrent cell without gates: activation(a + b).

    `a` is computed from the input of the step, and `b` from h.
    """
    return [g.op(activation, g.op("add", a, b))]


CELLS: dict[str, Callable[..., list[Value]]] = {
    "lstm": _lstm_cell,
    "gru": _gru_cell,
    "tanh": partial(_plain_cell, "tanh"),
    "relu": partial(_plain_cell, "relu"),
}


def recurrent(
    ir: Ir,
    kind: Annotated[str, Among(("lstm", "gru", "tanh", "relu"))],
    x: Value,
    state: Sequence[Value],
    w: Value,
    r: Value,
    b: Value | None = None,
    d: Value | None = None,
) -> tuple[Value, list[Value]]:
    """Return the outputs [steps, batch, hidden] and the last state of a recurrent layer.

    `kind` is "lstm", "gru", or "tanh" or "relu" for a plain cell with this activation. The shapes
    are x [steps, batch, in], w [gates * hidden, in] and r [gates * hidden, hidden], with the gates
    in torch's order. `state` is [h], or [h, c] for an LSTM, each [batch, hidden]. The bias `b` is
    added to the product of w and x, and the bias `d` to the product of r and h.

    :raises ModelError: if the number of tensors in `state` is wrong for `kind`.
    """
    if len(state) != (count := 2 if kind == "lstm" else 1):
        raise misuse(
            f"recurrent() was given {len(state)} states, but the kind {kind!r} has {count}.",
            "pass the state [h, c], each of shape [batch, hidden]."
            if count == 2
            else "pass the state [h], of shape [batch, hidden].",
        )
    if kind != "gru" and b is not None and d is not None:
        b = ir.op("add", b, d)
        d = None
    values = (x, w, r, *state)
    if kind == "lstm" and all(v.size and v.dtype is x.dtype for v in values):
        bias = ir.constant(0.0, x.dtype, r.shape[:1]) if b is None else b
        outs, cell, _ = ir.emit("lstm", x, w, r, bias, *state)
        last = ir.op("slice", outs, dim=0, begin=x.shape[0] - 1, end=x.shape[0])
        return outs, [ir.op("reshape", last, shape=state[0].shape), cell]

    def step(g: Ir, x: list[Value], before: list[Value]) -> tuple[list[Value], list[Value]]:
        """Return `(state, [h])` after one step.

        `state` is [h], or [h, c] for an LSTM. `before` is the state before the step. `x` is a list
        with one value, the product of w and the step's input, plus b.
        """
        after = CELLS[kind](g, x[0], linear(g, before[0], r, d), *before)
        return after, after[:1]

    after, (outs,) = scan(ir, step, [linear(ir, x, w, b)], state)
    return outs, after


# --- losses ---------------------------------------------------------------------------------------


def _reduced_loss(
    ir: Ir, losses: Value, reduction: str, relevant_count: Value | None = None
) -> Value:
    """Return the "mean" or "sum" of `losses`, or `losses` itself if `reduction` is "none".

    The mean is the sum divided by `relevant_count`, or divided by the number of losses if
    `relevant_count` is None.
    """
    if reduction == "none":
        return losses
    total = reduced(ir, "sum", losses)
    if reduction == "sum":
        return total
    if relevant_count is None:
        return ir.op("mul", total, 1 / losses.size)
    return ir.op("div", total, relevant_count)


def _by_class(
    ir: Ir,
    loss: Callable[[Value, Value], Value],
    x: Value,
    labels: Value,
    reduction: str,
    ignored: int | None,
) -> Value:
    """Return the reduced loss of scores x [batch, classes, …] for labels [batch, …].

    `loss(rows, labels)` returns losses [n] for rows [n, classes] and labels [n]. Rows whose label
    is `ignored` do not count in the mean.
    """
    relevant_count = None
    shape = labels.shape
    dim = 1 if len(x.shape) > 1 else 0
    labels = ir.classes(labels, x.shape[dim], ignored)
    # Move the classes to the last dimension.
    if len(x.shape) > 2:
        x = ir.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))
    score_rows = ir.op("reshape", x, shape=(-1, x.shape[-1])) if len(x.shape) != 2 else x
    flat_labels = (
        ir.op("reshape", labels, shape=(score_rows.shape[0],)) if len(shape) != 1 else labels
    )
    if ignored is not None:
        masked = ir.constant(MASKED_LABEL_CODE, UNSIGNED_INT, flat_labels.shape)
        is_relevant = ir.op("neq", flat_labels, masked)
        relevant_count = reduced(ir, "sum", ir.op("cast", is_relevant, dtype=FLOAT))
    losses = loss(score_rows, flat_labels)
    losses = ir.op("reshape", losses, shape=shape) if reduction == "none" else losses
    return _reduced_loss(ir, losses, reduction, relevant_count)


def cross_entropy(
    ir: Ir, x: Value, labels: Value, reduction: Reduction = "mean", ignored: int | None = None
) -> Value:
    """Return the cross entropy, in FLOAT, of scores x [batch, classes, …] and labels [batch, …].

    The scores are the inputs of a softmax. Rows with the label `ignored`, such as -100, are left
    out of the sum and of the mean.
    """
    loss = partial(ir.op, "cross_entropy")
    return _by_class(ir, loss, x, labels, reduction=reduction, ignored=ignored)


def nll(
    ir: Ir, x: Value, labels: Value, reduction: Reduction = "mean", ignored: int | None = None
) -> Value:
    """Return the negative log likelihood, in FLOAT, of `labels` for log probabilities `x`.

    x is [batch, classes, …], and the labels are [batch, …]. Rows with the label `ignored` are left
    out of the sum and of the mean.
    """

    def loss(x: Value, labels: Value) -> Value:
        return ir.op("neg", ir.cast(ir.op("pick", x, labels), FLOAT))

    return _by_class(ir, loss, x, labels, reduction=reduction, ignored=ignored)


def squared_error(ir: Ir, x: Value, y: Value, reduction: Reduction = "mean") -> Value:
    """Return the mean or the sum of the squared differences of x and y.

    If `reduction` is "none", return the squared differences.
    """
    return _reduced_loss(ir, ir.op("square", ir.op("sub", x, y)), reduction)


def binary_cross_entropy(ir: Ir, x: Value, y: Value, reduction: Reduction = "mean") -> Value:
    """Return the mean or the sum of the binary cross entropy, in FLOAT, of scores x and targets y.

    The scores are the inputs of a sigmoid. The loss of an element is max(x, 0) - x y + log(1 +
    exp(-|x|)). If `reduction` is "none", return the losses of all elements.
    """
    return _reduced_loss(ir, ir.op("binary_cross_entropy", x, y), reduction)


check_calls(globals(), misuse)
