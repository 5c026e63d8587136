"""Prices (modelled cycles) of products, convolutions, pools, norms, softmax, losses, look-ups."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, prod
from typing import Any

from ipu_teach.cost import vertices
from ipu_teach.estimate.elements import clear_value
from ipu_teach.estimate.pricing import Price, Pricer, Split
from ipu_teach.frontends.ir.values import Op, Value
from ipu_teach.poplibs.poplin import ConvParams, plan_convolution, plan_mat_mul
from ipu_teach.poplibs.popnn.pool_plan import planned as planned_pool
from ipu_teach.poplibs.popnn.rows import best_parts, reduction_cycles
from ipu_teach.poplibs.popops import embedding_plan, expr
from ipu_teach.types import FLOAT, HALF, DType

# --- products and convolutions --------------------------------------------------------------------


def matmul(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a matrix product, from its plan."""
    a, b = op.inputs
    out = op.outs[0]
    if not a.size or not b.size:
        return
    groups = prod(out.shape[:-2]) if len(b.shape) > 2 else 1
    rows = out.size // (groups * b.shape[-1])
    plan = plan_mat_mul(
        rows, a.shape[-1], b.shape[-1], pricer.target, groups=groups, dtype=a.dtype,
        options=pricer.options,
    )  # fmt: skip
    pricer.product(plan)
    blocks = plan.group_blocks * plan.row_blocks * plan.inner_blocks
    pricer.splits[out] = Split(blocks, plan.column_blocks, op)


PASSES = {
    "conv": "TRAINING_FWD",
    "conv_input_grad": "TRAINING_BWD",
    "conv_weight_grad": "TRAINING_WU",
}


def convolution(pricer: Pricer, op: Op) -> None:
    """Add the cycles of one pass of a convolution, from the plans of its matrix products."""
    attrs: Mapping[str, Any] = op.attrs
    first, second = op.inputs
    field, weights = {
        "conv": (first.shape, second.shape),
        "conv_input_grad": (attrs.get("field", ()), second.shape),
        "conv_weight_grad": (second.shape, attrs.get("shape", ())),
    }[op.kind]
    params = ConvParams(
        dtype=first.dtype,
        batch_size=field[0],
        input_field=tuple(field[2:]),
        kernel=tuple(weights[2:]),
        in_channels=field[1],
        out_channels=weights[0],
        num_groups=attrs["groups"],
        stride=attrs["stride"],
        padding_lower=attrs["lower"],
        padding_upper=attrs["upper"],
        kernel_dilation=attrs["dilation"],
    )
    plans = plan_convolution(params, pricer.target, PASSES[op.kind], options=pricer.options)
    for plan in plans.products:
        pricer.product(plan)
    if plans.products:
        plan = plans.products[0]
        rows = plan.group_blocks * plan.row_blocks * plan.inner_blocks
        pricer.splits[op.outs[0]] = Split(rows, plan.column_blocks, op)


# --- pools ----------------------------------------------------------------------------------------


def pool(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a pool or of its gradient, with the partition of PopLibs' plan."""
    kind = "MAX" if op.kind == "max_pool" else "AVG"
    # First find the elements of each window that receive its gradient. This costs as much as a
    # maximum.
    if op.kind == "max_pool_grad":
        _windows(pricer, op, "MAX", op.inputs[1], True)
    _windows(pricer, op, kind, op.outs[0], not op.kind.endswith("_grad"))
    pricer.splits[op.outs[0]] = Split(pricer.tiles, 1, op)


def _windows(pricer: Pricer, op: Op, kind: str, result: Value, forward: bool) -> None:
    """Add the vertices that compute `result` from the windows of a pool or from their gradients."""
    attrs: Mapping[str, Any] = op.attrs
    kernel, stride = tuple(attrs["kernel"]), tuple(attrs["stride"])
    dtype, target = result.dtype, pricer.target
    channels = min(result.shape[1], 16)
    plan = planned_pool(kind, result.shape, kernel, stride, forward, channels, dtype, target)
    sizes = [ceil(size / parts) for size, parts in zip(plan.shape[:-1], plan.parts, strict=True)]
    positions = prod(sizes[1:])
    share = ceil(positions / pricer.workers)
    rows = max(1, ceil(share / sizes[-1]))
    window = prod(kernel) if forward else ceil(prod(kernel) / prod(stride))
    group = plan.shape[-1]
    cycles = vertices.pooling(
        kind,
        rows,
        rows * window,
        share * window,
        target,
        vectors=ceil(group / target.get_vector_width(dtype)),
        groups=sizes[0],
        outputs=positions,
    )
    elements = sizes[0] * group * positions * window
    pricer.superstep(int(cycles), min(elements, result.size) * dtype.size)


# --- norms ----------------------------------------------------------------------------------------


def norm(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a norm: two reductions, three expressions, and work on the statistics."""
    x, gamma, beta = op.inputs
    y, whitened, means, deviations = op.outs
    dtype = x.dtype
    _sums(pricer, op, x, means.size, dtype)
    pricer.map(lambda x, mean: x - mean, dtype, x, means, works_in=dtype)
    _sums(pricer, op, x, means.size, FLOAT, "SQUARE_ADD")
    pricer.map(lambda variance: expr.VarianceToInvStdDev(variance, 1e-5), dtype, _row(means))
    pricer.map(lambda x, m, d: (x - m) * d, dtype, x, means, deviations, works_in=dtype)
    for parameter in (gamma, beta):
        _narrowed(pricer, parameter, dtype)
    pricer.map(lambda x, g, b: x * g + b, dtype, x, gamma, beta, works_in=dtype)
    for value in (y, whitened):
        _like(pricer, value, x)


def norm_grad(pricer: Pricer, op: Op) -> None:
    """Add the cycles of the gradient of a norm's input: three expressions, and two sums at once."""
    x, gradient, deviations, gamma = op.inputs
    wide = _like(pricer, Value(x.shape, FLOAT), x)
    numbers = Value(deviations.shape, FLOAT)
    _narrowed(pricer, gamma, FLOAT)
    pricer.map(lambda g, scale: g * scale, FLOAT, _like(pricer, gradient, x), gamma)
    pricer.map(lambda g, x: g * x, FLOAT, wide, x)
    _sums(pricer, op, wide, deviations.size, FLOAT, count=2)
    _narrowed(pricer, deviations, FLOAT)
    pricer.map(
        lambda g, x, mean, product, inverse: (g - mean - x * product) * inverse,
        x.dtype,
        *(wide, x, numbers, numbers, numbers),
    )
    _like(pricer, op.outs[0], x)


def norm_param_grad(pricer: Pricer, op: Op) -> None:
    """Add the cycles of the gradients of gamma and beta: an expression and two sums per channel."""
    x, gradient = op.inputs
    wide = _like(pricer, Value(x.shape, FLOAT), x)
    pricer.map(lambda x, g: x * g, FLOAT, x, gradient)
    pricer.reduce(wide, x.shape[1], count=2)


def _sums(
    pricer: Pricer,
    op: Op,
    value: Value,
    columns: int,
    out: type[DType],
    operation: str = "ADD",
    count: int = 1,
) -> None:
    """Add the cycles of summing each group of a norm, and of converting the sums to `out`."""
    samples = 0 if op.attrs["kind"] == "batch" else value.shape[0]
    pricer.reduce(value, columns, operation, FLOAT, count, samples)
    _narrowed(pricer, Value((columns,), FLOAT), out)


def _narrowed(pricer: Pricer, row: Value, dtype: type[DType]) -> None:
    """Add the cycles of converting `row` to `dtype`, if its dtype is another."""
    if row.dtype is not dtype:
        count = pricer.elements(row)
        pricer.superstep(float(vertices.cast_1d(count, row.dtype, dtype, pricer.target)))


def _row(value: Value) -> Value:
    return Value(value.shape, FLOAT)


def _like(pricer: Pricer, value: Value, source: Value) -> Value:
    """Give `value` the partition of `source`, and return `value`."""
    if source in pricer.splits and value not in pricer.splits:
        pricer.splits[value] = pricer.splits[source]
    return value


def convert_statistics(pricer: Pricer, op: Op) -> None:
    """Add the cycles of converting a variance to an inverse standard deviation, or back."""
    call = expr.VarianceToInvStdDev if op.kind == "to_inv_std_dev" else expr.InvStdDevToVariance
    value = op.inputs[0]
    pricer.map(lambda v: call(v, 1e-5), value.dtype, value, works_in=value.dtype)


# --- softmax and losses ---------------------------------------------------------------------------


def softmax(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a softmax, its logarithm, its gradient or a cross entropy."""
    value, target = op.inputs[0], pricer.target
    classes = value.shape[-1]
    rows = value.size // classes
    is_loss = op.kind == "cross_entropy"
    dtype = FLOAT if is_loss else value.dtype

    def whole(count: int) -> int:
        cycles = int(vertices.softmax(count, classes, dtype, target))
        if is_loss:
            cycles += int(vertices.select([1] * count)) * 2
        if dtype is not value.dtype:
            cycles += sum(map(int, vertices.cast_loop(count * classes, HALF, FLOAT, target)))
        return cycles

    def split(size: int, parts: int) -> int:
        cycles = int(vertices.softmax(1, size, dtype, target))
        if dtype is not value.dtype:
            cycles += sum(map(int, vertices.cast_loop(size, HALF, FLOAT, target)))
        return cycles + 2 * reduction_cycles(parts, FLOAT, target)

    supersteps = 1 if is_loss or op.kind == "softmax_grad" else 2
    parts = best_parts((rows, classes), target, whole, split, supersteps)
    workers = pricer.tiles * pricer.workers
    inputs = len(op.inputs) if op.kind == "softmax_grad" else 1
    if parts > 1:
        size = ceil(classes / parts)
        received = ceil(rows * parts / pricer.tiles) * size * value.dtype.size * inputs
        pricer.superstep(pricer.workers * split(size, parts), received)
        for _ in range(supersteps):
            pricer.superstep(0, 4 * parts)
    else:
        received = ceil(rows / pricer.tiles) * classes * value.dtype.size * inputs
        pricer.superstep(pricer.workers * whole(ceil(rows / workers)), received)
    pricer.splits[op.outs[-1]] = Split(min(rows * parts, pricer.tiles), 1, op)


def binary_cross_entropy(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a binary cross entropy of scores and targets, which is one expression."""
    pricer.map(
        lambda x, y: expr.Max(x, 0.0) - x * y + expr.Log1p(expr.Exp(-expr.Abs(x))),
        op.outs[0].dtype,
        *op.inputs,
    )


# --- look-ups -------------------------------------------------------------------------------------


def look_up(pricer: Pricer, op: Op) -> None:
    """Add the cycles of reading or updating rows of a table, from the plan of an embedding."""
    is_slice = op.kind == "gather"
    rows = op.inputs[0] if is_slice else op.outs[0]
    index = op.inputs[1] if is_slice or op.kind != "scatter" else op.inputs[0]
    entries = rows.shape[0] if rows.shape else 1
    width = max(1, rows.size // max(entries, 1))
    if op.kind == "scatter":
        clear_value(pricer, rows)
    if op.kind in ("scatter_add", "scatter_set", "scatter_max"):
        pricer.moved(rows)
    if not index.size or not rows.size:
        return
    options = {"usedForSlice": is_slice, "usedForUpdate": not is_slice}
    plan = embedding_plan(pricer.graph, rows.dtype, entries, width, [index.size], options=options)
    for label, cycles in plan.parts:
        cost = "exchange" if "exchange" in label else "vertices"
        setattr(pricer.line, cost, getattr(pricer.line, cost) + cycles)
    pricer.superstep(0, 0)


def pick(pricer: Pricer, op: Op) -> None:
    """Add the cycles of picking one element of each row."""
    rows = ceil(op.outs[0].size / pricer.tiles)
    value = op.inputs[0]
    pricer.superstep(
        pricer.workers * float(vertices.select([1] * rows)),
        rows * value.shape[-1] * value.dtype.size,
    )


PRICES: Mapping[str, Price] = {
    "matmul": matmul,
    **dict.fromkeys(PASSES, convolution),
    **dict.fromkeys(("max_pool", "max_pool_grad", "avg_pool", "avg_pool_grad"), pool),
    "norm": norm,
    "norm_grad": norm_grad,
    "norm_param_grad": norm_param_grad,
    **dict.fromkeys(("to_variance", "to_inv_std_dev"), convert_statistics),
    **dict.fromkeys(("softmax", "log_softmax", "softmax_grad", "cross_entropy"), softmax),
    "binary_cross_entropy": binary_cross_entropy,
    **dict.fromkeys(("gather", "scatter", "scatter_add", "scatter_set", "scatter_max"), look_up),
    "pick": pick,
}
