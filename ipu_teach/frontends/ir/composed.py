"""What is made of several operations, once for all faces."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import sqrt
from typing import Annotated, Any

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
    "scan", "seed", "sized", "softplus", "split", "squared_error", "transpose",
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
    """Dimensions counted from the first, each once. Raises `ModelError`."""
    try:
        return axes(x, dims)
    except Unfit as error:
        raise misuse(f"{call}() cannot be: {error.why}.", error.advice) from None


def linear(ir: Ir, x: Value, w: Value, b: Value | None = None) -> Value:
    """x [..., in] times the transpose of w [out, in], plus b."""
    y = ir.op("matmul", x, turned(ir, w))
    return y if b is None else ir.op("add", y, b)


def reduced(ir: Ir, kind: Extreme, x: Value, dims: Ints | None = None, keep: bool = False) -> Value:
    """As "sum" or "reduce_max", over `dims`, or all; `keep`: they remain, of length 1."""
    gone = _axes("reduced", x, range(len(x.shape)) if dims is None else dims)
    y = ir.op(kind, x, dims=tuple(gone))
    kept = tuple(1 if i in gone else n for i, n in enumerate(x.shape))
    return ir.op("reshape", y, shape=kept) if keep else y


def mean(ir: Ir, x: Value, dims: Ints | None = None, keep: bool = False) -> Value:
    """The mean over `dims`, or of all."""
    _axes("mean", x, () if dims is None else dims)
    y = reduced(ir, "sum", x, dims, keep)
    return ir.op("mul", y, max(y.size, 1) / max(x.size, 1))


def along(ir: Ir, kind: Rowwise, x: Value, dim: int) -> Value:
    """As "softmax" or "log_softmax", along any dimension."""
    (axis,) = _axes("along", x, [dim])
    if axis == len(x.shape) - 1:
        return ir.op(kind, x)
    return transpose(ir, ir.op(kind, transpose(ir, x, dim, -1)), dim, -1)


def split(ir: Ir, x: Value, sizes: Sequence[Natural], dim: int = 0) -> list[Value]:
    """Parts of these sizes, one after the other."""
    (axis,) = _axes("split", x, [dim])
    if sum(sizes) > x.shape[axis]:
        raise misuse(
            f"split() was given the sizes {list(sizes)}, and dimension {axis} is {x.shape[axis]}.",
            f"give sizes whose sum is {x.shape[axis]} or less.",
        )
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [
        ir.op("slice", x, dim=dim, begin=at, end=at + n)
        for at, n in zip(starts, sizes, strict=True)
    ]


def softplus(ir: Ir, x: Value, beta: float = 1.0, threshold: float = 20.0) -> Value:
    """log(1 + exp(beta x)) / beta, or x itself where beta x is above `threshold`."""
    wide = x if beta == 1 else ir.op("mul", x, beta)
    y = ir.op("softplus", wide)
    y = y if beta == 1 else ir.op("mul", y, 1 / beta)
    return ir.op("select", ir.op("gt", wide, threshold), x, y)


# --- layers ---------------------------------------------------------------------------------------


def _per_channel(ir: Ir, row: Value, rank: int) -> Value:
    return ir.op("reshape", row, shape=(row.size, *(1,) * (rank - 2)))


def sized(n: int, **sizes: Ints | int | None) -> dict[str, tuple[int, ...]]:
    """Sizes of n dimensions, or the same for all; `upper`, if it is not said, is `lower`."""
    if "upper" in sizes and sizes["upper"] is None:
        sizes["upper"] = sizes["lower"]
    several = {k: (v,) if isinstance(v, int) else tuple(v or ()) for k, v in sizes.items()}
    return {k: v * n if len(v) == 1 else v for k, v in several.items()}


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
    """x [batch, channels, *field] by w [out, channels / groups, *kernel], plus b [out]; padding
    before and behind the field, the same if one is said."""
    how = sized(len(x.shape) - 2, stride=stride, lower=lower, upper=upper, dilation=dilation)
    y = ir.op("conv", x, w, groups=groups, **how)
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
    """As "max_pool" or "avg_pool", of x [batch, channels, *field]; `count_padding`: it counts in
    the average."""
    stride, n = kernel if stride is None else stride, len(x.shape) - 2
    each = sized(n, kernel=kernel, stride=stride, lower=lower, upper=upper)
    if kind == "avg_pool" and count_padding and any((*each["lower"], *each["upper"])):
        x = ir.op("pad", x, lower=(0, 0, *each["lower"]), upper=(0, 0, *each["upper"]))
        each["lower"] = each["upper"] = (0,) * n
    return ir.op(kind, x, **each)


def norm(
    ir: Ir,
    kind: Annotated[str, Among(("layer", "group", "instance", "batch"))],
    x: Value,
    gamma: Value | None = None,
    beta: Value | None = None,
    eps: Epsilon = 1e-5,
    groups: Count = 1,
) -> Value:
    """ "layer" over the last dimension; "group" and "instance" of x [batch, channels, …]. Without
    gamma and beta they are 1 and 0."""
    return _normed(ir, kind, x, gamma, beta, eps, groups)[0]


def _normed(
    ir: Ir, kind: str, x: Value, gamma: Value | None, beta: Value | None, eps: float, groups: int
) -> tuple[Value, ...]:
    rows = kind == "layer"
    count = x.shape[-1] if rows else x.shape[1]
    seen = ir.op("reshape", x, shape=(-1, count)) if rows and len(x.shape) != 2 else x
    scale = ir.constant(1.0, x.dtype, (count,)) if gamma is None else gamma
    shift = ir.constant(0.0, x.dtype, (count,)) if beta is None else beta
    more = {"groups": groups} if kind == "group" else {}
    y, *others = ir.emit("norm", seen, scale, shift, kind=kind, eps=eps, **more)
    return (y if seen is x else ir.op("reshape", y, shape=x.shape), *others)


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
) -> Value:
    """Of x [batch, channels, …]. Training blends the batch's mean and unbiased variance into the
    running ones, of which `momentum` is the part of the new; else those are taken, and have no
    gradient."""
    if training or running_mean is None or running_var is None:
        y, _, average, inverse = _normed(ir, "batch", x, gamma, beta, eps, 1)
        if running_mean is not None and running_var is not None:
            n = x.size // x.shape[1]
            variance = ir.op("to_variance", ir.cast(inverse, FLOAT), eps=eps)
            unbiased = ir.op("mul", variance, n / max(n - 1, 1))
            for running, new in ((running_mean, average), (running_var, unbiased)):
                ir.emit("blend", running, ir.cast(new, running.dtype), momentum=momentum)
        return y
    rank = len(x.shape)
    inverse = ir.cast(ir.op("to_inv_std_dev", running_var, eps=eps), x.dtype)
    mean = ir.cast(ir.op("stop", running_mean), x.dtype)
    scale = inverse if gamma is None else ir.op("mul", inverse, gamma)
    y = ir.op("sub", x, _per_channel(ir, mean, rank))
    y = ir.op("mul", y, _per_channel(ir, scale, rank))
    return y if beta is None else ir.op("add", y, _per_channel(ir, beta, rank))


def seed(ir: Ir, number: Annotated[int, Between(0, 2**63 - 1)] = 42) -> Value:
    """The seed of this micro-batch: two UNSIGNED_INT of the variable "seed", which goes on by one
    each time. The first call makes it."""
    if "seed" not in ir.variables:
        whole = ir.variable([number & 0xFFFFFFFF, number >> 32], "seed", UNSIGNED_INT)
        ir.op("copy", whole)
        ir.emit("next_seed", whole)
    now = ir.variables["seed"]
    return next(op.outs[0] for op in ir.ops if op.kind == "copy" and op.inputs[0] is now)


def dropout(ir: Ir, x: Value, p: Fraction = 0.5, modifier: Natural | None = None) -> Value:
    """x with elements left out with probability `p`, and the others divided by 1 - p."""
    if not p:
        return x
    drawn = ("dropout_mask", "uniform", "normal")
    number = sum(op.kind in drawn for op in ir.ops) + 1 if modifier is None else modifier
    how = {"shape": x.shape, "keep": 1 - p, "modifier": number, "dtype": x.dtype}
    return ir.op("mul", x, ir.op("dropout_mask", seed(ir), **how))


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
    """softmax(q kᵀ scale + mask) v, of [..., length, width].

    A `mask` of floats is added. One of BOOL is true where a query sees a key; a query that sees
    none has 0. `causal`: a query sees the keys up to its own place. Raises `ModelError` for both.
    """
    if causal and mask is not None:
        raise misuse(
            "attention() was given a mask, and causal=True.",
            "give one of the two: a mask that is also causal, or none.",
        )
    scores = ir.op("matmul", q, turned(ir, k))
    scores = ir.op("mul", scores, 1 / sqrt(q.shape[-1]) if scale is None else scale)
    lowest = float(np.finfo(q.dtype.numpy).min)
    if causal:
        lower = np.tri(scores.shape[-2], scores.shape[-1])
        mask = ir.constant(np.where(lower > 0, 0.0, lowest), q.dtype)
    if mask is None or mask.floating:
        scores = scores if mask is None else ir.op("add", scores, mask)
        return ir.op("matmul", dropout(ir, ir.op("softmax", scores), p), v)
    hidden = ir.op("select", mask, scores, ir.constant(lowest, q.dtype))
    # a second mask: in a row of which everything is hidden, softmax shares 1 among all
    weights = ir.op("select", mask, ir.op("softmax", hidden), ir.constant(0.0, q.dtype))
    return ir.op("matmul", dropout(ir, weights, p), v)


def embedding(ir: Ir, table: Value, index: Value) -> Value:
    """The rows of a table that `index` names."""
    return ir.op("gather", table, ir.classes(index, table.shape[0]))


def _lstm_cell(g: Ir, gates: Value, own: Value, h: Value, c: Value) -> list[Value]:
    """Gates: input, forget, cell, output."""
    i, f, new, o = split(g, g.op("add", gates, own), [h.shape[-1]] * 4, -1)
    i, f, o = (g.op("sigmoid", gate) for gate in (i, f, o))
    c = g.op("add", g.op("mul", f, c), g.op("mul", i, g.op("tanh", new)))
    return [g.op("mul", o, g.op("tanh", c)), c]


def _gru_cell(g: Ir, gates: Value, own: Value, h: Value) -> list[Value]:
    """Gates: reset, update, new."""
    (r, z, new), (r2, z2, new2) = (split(g, v, [h.shape[-1]] * 3, -1) for v in (gates, own))
    reset, keep = (g.op("sigmoid", g.op("add", a, b)) for a, b in ((r, r2), (z, z2)))
    new = g.op("tanh", g.op("add", new, g.op("mul", reset, new2)))
    return [g.op("add", new, g.op("mul", keep, g.op("sub", h, new)))]


CELLS: dict[str, Callable[..., list[Value]]] = {
    "lstm": _lstm_cell,
    "gru": _gru_cell,
    **{k: lambda g, a, b, h, k=k: [g.op(k, g.op("add", a, b))] for k in ("tanh", "relu")},
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
    """The outputs and the last state of an "lstm", a "gru", or a plain cell of "tanh" or "relu",
    step by step of x [steps, batch, in]. `state`: h, and of an lstm c. w [gates hidden, in] and r
    [gates hidden, hidden] have their gates in torch's order; b is the bias beside w, and d beside
    r."""
    if len(state) != (count := 2 if kind == "lstm" else 1):
        raise misuse(
            f"recurrent() was given {len(state)} states of {kind!r}, which has {count}.",
            "give h and c, [batch, hidden] each." if count == 2 else "give h, [batch, hidden].",
        )
    if kind != "gru" and b is not None and d is not None:
        b, d = ir.op("add", b, d), None

    def step(g: Ir, now: list[Value], before: list[Value]) -> Any:
        after = CELLS[kind](g, now[0], linear(g, before[0], r, d), *before)
        return after, after[:1]

    after, (outs,) = scan(ir, step, [linear(ir, x, w, b)], state)
    return outs, after


# --- losses ---------------------------------------------------------------------------------------


def _reduced_loss(ir: Ir, each: Value, reduction: str, counted: Value | None = None) -> Value:
    if reduction == "none":
        return each
    total = reduced(ir, "sum", each)
    if reduction == "sum":
        return total
    return ir.op("mul", total, 1 / each.size) if counted is None else ir.op("div", total, counted)


def _by_class(
    ir: Ir,
    loss: Callable[[Value, Value], Value],
    x: Value,
    labels: Value,
    reduction: str,
    ignored: int | None,
) -> Value:
    """A loss of [rows, classes] and a label for each, reduced over those that count."""
    counted, shape = None, labels.shape
    dim = 1 if len(x.shape) > 1 else 0
    labels = ir.classes(labels, x.shape[dim], ignored)
    if len(x.shape) > 2:  # [batch, classes, ...]
        x = ir.op("permute", x, dims=(0, *range(2, len(x.shape)), 1))
    rows = ir.op("reshape", x, shape=(-1, x.shape[-1])) if len(x.shape) != 2 else x
    flat = ir.op("reshape", labels, shape=(rows.shape[0],)) if len(shape) != 1 else labels
    if ignored is not None:
        masked = ir.constant(MASKED_LABEL_CODE, UNSIGNED_INT, flat.shape)
        asked = ir.op("neq", flat, masked)
        counted = reduced(ir, "sum", ir.op("cast", asked, dtype=FLOAT))
    each = loss(rows, flat)
    each = ir.op("reshape", each, shape=shape) if reduction == "none" else each
    return _reduced_loss(ir, each, reduction, counted)


def cross_entropy(
    ir: Ir, x: Value, labels: Value, reduction: Reduction = "mean", ignored: int | None = None
) -> Value:
    """Of what goes into the softmax, [batch, classes, …], and class numbers [batch, …]. Rows whose
    label is `ignored`, -100 say, do not count. FLOAT."""
    loss = partial(ir.op, "cross_entropy")
    return _by_class(ir, loss, x, labels, reduction, ignored)


def nll(
    ir: Ir, x: Value, labels: Value, reduction: Reduction = "mean", ignored: int | None = None
) -> Value:
    """As `cross_entropy`, of logarithms of probabilities."""
    loss = lambda x, y: ir.op("neg", ir.cast(ir.op("pick", x, y), FLOAT))  # noqa: E731
    return _by_class(ir, loss, x, labels, reduction, ignored)


def squared_error(ir: Ir, x: Value, y: Value, reduction: Reduction = "mean") -> Value:
    """The squares of what x and y differ by."""
    return _reduced_loss(ir, ir.op("square", ir.op("sub", x, y)), reduction)


def binary_cross_entropy(ir: Ir, x: Value, y: Value, reduction: Reduction = "mean") -> Value:
    """Of what goes into the sigmoid: max(x, 0) - x y + log(1 + exp(-|x|)). FLOAT."""
    return _reduced_loss(ir, ir.op("binary_cross_entropy", x, y), reduction)


check_calls(globals(), misuse)
