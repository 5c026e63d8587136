"""The table's products, convolutions, pools, norms, look-ups and losses."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ipu_teach.arguments import checked
from ipu_teach.frontends.ir import rows as r
from ipu_teach.frontends.ir.rows import Ints, Slopes, alike, calls, keeps, like, need, unbroadcast
from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Value, misuse
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.poplibs.popnn.softmax_loss import softmax_cross_entropy
from ipu_teach.poplibs.popops import expr
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT, DType

# --- products -------------------------------------------------------------------------------------


def _matmul_shape(a: Value, b: Value) -> Out:
    alike(a, b)
    r.floats(a)
    good = min(len(a.shape), len(b.shape)) > 1 and a.shape[-1] == b.shape[-2]
    why = f"{list(a.shape)} times {list(b.shape)} does not fit"
    need(good, why, "give [..., m, k] and [..., k, n].")
    need(a.shape[-1], f"{list(a.shape)} has rows without elements", "give one or more.")
    batch = r.pair(Value(a.shape[:-2], a.dtype), Value(b.shape[:-2], a.dtype)).shape
    return Out((*batch, a.shape[-2], b.shape[-1]), a.dtype)


def _matmul(low: Any, a: Any, b: Any) -> Any:
    shape = low.op.outs[0].shape
    if not a.num_elements or not b.num_elements:
        return low.constant(low.op.outs[0].dtype, shape, 0.0)
    product: Any = poplin.mat_mul if b.rank == 2 else poplin.mat_mul_grouped
    if b.rank == 2:
        a = a.reshape((a.num_elements // a.shape[-1], a.shape[-1]))
    else:
        whole = ((t, (*shape[:-2], *t.shape[-2:])) for t in (a, b))
        a, b = (poputil.broadcast_to_match(t, s).flatten(0, len(shape) - 2) for t, s in whole)
    return low.call(product, a, b, options=low.options).reshape(shape)


def _matmul_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    a, b = op.inputs
    da = unbroadcast(ir, ir.op("matmul", g, turned(ir, b)), a.shape)
    if len(b.shape) == 2 < len(a.shape):
        a, g = (ir.op("reshape", v, shape=(-1, v.shape[-1])) for v in (a, g))
    return [da, unbroadcast(ir, ir.op("matmul", turned(ir, a), g), b.shape)]


def _matmul_lays(low: Any, op: Op, place: int) -> Any:
    a, b = op.inputs
    grouped = "grouped_" if len(b.shape) > 2 else ""
    if not a.size or not b.size or (grouped and a.shape[:-2] != b.shape[:-2]):
        return None
    make: Any = getattr(poplin, f"create_mat_mul_{grouped}input_{'rhs' if place else 'lhs'}")
    batch = (prod(b.shape[:-2]),) if grouped else ()
    shapes = (*batch, a.size // prod((*batch, a.shape[-1])), a.shape[-1]), (*batch, *b.shape[-2:])
    made = make(low.graph, a.dtype, *shapes, low.called, options=low.options)
    return made.reshape(op.inputs[place].shape)


@checked(misuse)
def transpose(ir: Ir, x: Value, a: int, b: int) -> Value:
    """Two dimensions changed for each other."""
    order = [*range(len(x.shape))]
    for dim in (a, b):
        if not -len(order) <= dim < len(order):
            raise misuse(f"{x!r} has no dimension {dim} to transpose.", "count them from 0.")
    order[a], order[b] = order[b], order[a]
    return ir.op("permute", x, dims=tuple(order))


@checked(misuse)
def turned(ir: Ir, x: Value) -> Value:
    """The last two dimensions, changed for each other."""
    return transpose(ir, x, -1, -2)


OPS["matmul"] = Row(_matmul_shape, _matmul, _matmul_grad, lays=_matmul_lays)


# --- convolutions ---------------------------------------------------------------------------------


def _params(
    x: Any, w: Any, stride: Ints, lower: Ints, upper: Ints, dilation: Ints, groups: int
) -> Any:
    """Of an input [batch, channels, *field] and weights [out, channels / groups, *kernel]."""
    sizes = x.shape[0], x.shape[2:], w.shape[2:], x.shape[1], w.shape[0], groups
    how: Any = {"stride": stride, "padding_lower": lower, "padding_upper": upper}
    return poplin.ConvParams(x.dtype, *sizes, **how, kernel_dilation=dilation)


def _conv_shape(x: Value, w: Value, **how: Any) -> Out:
    alike(x, w)
    r.floats(x)
    advice = "give [batch, channels, *field] and [out, channels / groups, *kernel]."
    given = f"{list(x.shape)} and weights {list(w.shape)} in {how['groups']} groups"
    need(len(x.shape) == len(w.shape) > 2, f"{given} have other dimensions", advice)
    need(x.shape[1] == w.shape[1] * how["groups"], f"{given} have other channels", advice)
    return Out(_params(x, w, **how).output_shape, x.dtype)


def _conv(low: Any, x: Any, w: Any, **how: Any) -> Any:
    params = _params(x, w, **how)
    weights = w.reshape(params.weights_shape)
    return low.call(poplin.convolution, x, weights, params, options=low.options)


def _conv_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    x, w = op.inputs
    by_input = ir.op("conv_input_grad", g, w, field=x.shape, **op.attrs)
    return [by_input, ir.op("conv_weight_grad", g, x, shape=w.shape, **op.attrs)]


def _conv_lays(low: Any, op: Op, place: int) -> Any:
    params = _params(op.inputs[0], op.inputs[1], **op.attrs)
    make = poplin.create_weights if place else poplin.create_input
    made = make(low.graph, params, low.called, options=low.options)
    return made.reshape(op.inputs[place].shape)


def _input_grad_shape(g: Value, w: Value, field: Ints, **how: Any) -> Out:
    wants = list(_params(Value(tuple(field), g.dtype), w, **how).output_shape)
    need(wants == list(g.shape), f"{list(g.shape)} is no gradient of {wants}", "give one.")
    return Out(tuple(field), g.dtype)


def _input_grad(low: Any, g: Any, w: Any, field: Ints, **how: Any) -> Any:
    params = _params(Value(tuple(field), g.dtype), w, **how)
    weights = w.reshape(params.weights_shape)
    return low.call(poplin.convolution_input_gradient, g, weights, params, options=low.options)


def _input_grad_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (y, w), how = op.inputs, {k: v for k, v in op.attrs.items() if k != "field"}
    return [ir.op("conv", g, w, **how), ir.op("conv_weight_grad", y, g, shape=w.shape, **how)]


def _weight_grad(low: Any, g: Any, x: Any, shape: Ints, **how: Any) -> Any:
    params = _params(x, Value(tuple(shape), g.dtype), **how)
    made = low.call(poplin.calculate_weight_deltas, g, x, params, options=low.options)
    return made.reshape(tuple(shape))


OPS |= {
    "conv": Row(_conv_shape, _conv, _conv_grad, lays=_conv_lays),
    "conv_input_grad": Row(_input_grad_shape, _input_grad, _input_grad_grad),
    "conv_weight_grad": Row(lambda g, x, **how: r.shaped(g, **how), _weight_grad),
}


# --- pools ----------------------------------------------------------------------------------------

WIDEST = 4096  # of a pooled field: each place of each window is counted


def _pool(kind: str, x: Any, kernel: Ints, stride: Ints, lower: Ints, upper: Ints) -> Any:
    field = x.shape[2:]
    need(max(*field, *kernel) <= WIDEST, f"{list(field)} is too wide", f"pool {WIDEST:,} at most.")
    make: Any = popnn.pooling.PoolParams
    how = kernel, stride, lower, upper
    return make(kind, field, *map(tuple, how), x.shape[1], x.shape[0], x.dtype)


def _pool_row(kind: str, grad: Any) -> Row:
    return Row(
        lambda x, **how: Out(_pool(kind, x, **how).output_shape, x.dtype),
        lambda low, x, **how: low.call(popnn.pooling.pool, _pool(kind, x, **how), x),
        grad,
    )


def _max_pool_grad(low: Any, x: Any, y: Any, g: Any, **how: Any) -> Any:
    params = _pool("MAX", x, **how)
    return low.call(popnn.pooling.pool_input_gradient, params, x, y, g, ties="first")


def _avg_pool_grad(low: Any, g: Any, shape: Ints, **how: Any) -> Any:
    params = _pool("AVG", Value(tuple(shape), g.dtype), **how)
    return low.call(popnn.pooling.pool_input_gradient, params, None, None, g)


OPS |= {
    "max_pool": _pool_row(
        "MAX", lambda ir, op, g: [ir.op("max_pool_grad", op.inputs[0], op.outs[0], g, **op.attrs)]
    ),
    "max_pool_grad": Row(keeps(0), _max_pool_grad),
    "avg_pool": _pool_row(
        "AVG", lambda ir, op, g: [ir.op("avg_pool_grad", g, shape=op.inputs[0].shape, **op.attrs)]
    ),
    "avg_pool_grad": Row(r.shaped, _avg_pool_grad),
}


# --- norms ----------------------------------------------------------------------------------------
# x [batch, channels, …], gamma and beta a number for each channel; the statistics have x's dtype,
# the gradients of gamma and beta are FLOAT.

NORMS: dict[str, Any] = {
    "batch": popnn.bn,
    "group": popnn.gn,
    "instance": popnn.in_,
    "layer": popnn.ln,
}


def _norm_call(low: Any, kind: str, what: str, *given: Any, **more: Any) -> Any:
    name = f"{kind}_{what}" if what == "normalise" else f"{kind}_norm_{what}"
    if kind == "group" and what != "param_gradients":
        more["grouping"] = "correct"  # neighbouring channels, as frameworks have them
    return low.call(getattr(NORMS[kind], name), *given, **more)


def _norm_shape(
    x: Value, gamma: Value, beta: Value, kind: str, eps: float, groups: int = 1
) -> list[Out]:
    r.floats(x)
    need(kind in NORMS, f"there is no {kind!r} norm", f"there are {', '.join(NORMS)}.")
    good = len(x.shape) > 1 and x.shape[1:2] == gamma.shape == beta.shape
    why = f"{list(x.shape)} has not {list(gamma.shape)} channels"
    need(good, why, "give x [batch, channels, …].")
    batch, channels = x.shape[:2]
    each = {"group": groups, "instance": channels, "layer": 1}.get(kind, 0)
    why = f"{groups} groups do not divide {channels} channels"
    need(not each or channels % each == 0, why, "give another number.")
    row = Out((batch * each if each else channels,), x.dtype)
    return [like(x), like(x), row, row]


def _norm(
    low: Any, x: Any, gamma: Any, beta: Any, kind: str, eps: float, groups: int = 1
) -> list[Any]:
    more = {"num_groups": groups} if kind == "group" else {}
    mean, inverse = _norm_call(low, kind, "statistics", x, eps, stable_algo=True, **more)
    return [*_norm_call(low, kind, "normalise", x, gamma, beta, mean, inverse), mean, inverse]


def _norm_grad(ir: Ir, op: Op, g: Value, *others: Value | None) -> Slopes:
    (_, gamma, beta), (_, white, _, inverse), kind = op.inputs, op.outs, op.attrs["kind"]
    slopes = ir.emit("norm_param_grad", white, g, kind=kind)
    given = zip(slopes, (gamma, beta), strict=True)
    rows = (ir.cast(slope, value.dtype) for slope, value in given)
    return [ir.op("norm_grad", white, g, inverse, gamma, kind=kind), *rows]


OPS |= {
    "norm": Row(_norm_shape, _norm, _norm_grad),
    "norm_grad": Row(
        keeps(0), lambda low, *given, kind: _norm_call(low, kind, "gradients", *given)
    ),
    "norm_param_grad": Row(
        lambda white, g, kind: [Out(white.shape[1:2], FLOAT)] * 2,
        lambda low, white, g, kind: _norm_call(low, kind, "param_gradients", white, g),
    ),
    "to_variance": Row(  # of 1 / sqrt(variance + eps); statistics have no gradient of their own
        lambda x, eps: like(x),
        lambda low, x, eps: low.call(popops.inv_std_dev_to_variance, x, eps),
        r.flat,
    ),
    "to_inv_std_dev": Row(
        lambda x, eps: like(x),
        lambda low, x, eps: low.call(popops.variance_to_inv_std_dev, x, eps),
        r.flat,
    ),
}


# --- look-ups -------------------------------------------------------------------------------------


def _indices(index: Value) -> None:
    why = f"its numbers are {index.dtype.__name__}"
    need(index.dtype in (UNSIGNED_INT, INT), why, "give UNSIGNED_INT.")


def _gather_shape(x: Value, index: Value) -> Out:
    _indices(index)
    need(x.shape, "one number has no rows", "give a tensor [rows, …].")
    need(x.shape[0] or not index.size, "it has no rows", "give a tensor with rows.")
    return Out((*index.shape, *x.shape[1:]), x.dtype)


def _gather(low: Any, x: Any, index: Any) -> Any:
    rows, places = x.reshape((len(x), prod(x.shape[1:]))), index.reshape((index.num_elements, 1))
    made = low.call(popops.multi_slice, rows, places, [0], [1])
    return made.reshape((*index.shape, *x.shape[1:]))


def _sliceable(low: Any, dtype: type[DType], shape: Ints, name: str) -> Any:
    rows = shape[0], prod(shape[1:])
    made = popops.create_sliceable_tensor(low.graph, dtype, rows, [0], name)
    return made.reshape(tuple(shape))


def _gather_lays(low: Any, op: Op, place: int) -> Any:
    return None if place else _sliceable(low, op.inputs[0].dtype, op.inputs[0].shape, low.called)


def _added(low: Any, into: Any, index: Any, updates: Any) -> Any:
    count, wide = index.num_elements, prod(into.shape[1:])
    given = updates.reshape((count, 1, wide)), index.reshape((count, 1)), 1.0
    low.call(popops.multi_update_add, into.reshape((len(into), wide)), *given, [0], [1])
    return into


def _scatter(low: Any, index: Any, updates: Any, shape: Ints) -> Any:
    made = _sliceable(low, updates.dtype, shape, f"{low.name}/out")
    low.call(popops.zero, made)
    return _added(low, made, index, updates)


def _scatter_add_shape(x: Value, index: Value, updates: Value) -> Out:
    alike(x, updates)
    _indices(index)
    wants = [*index.shape, *x.shape[1:]]
    why = f"updates {list(updates.shape)} are not {wants}"
    need(list(updates.shape) == wants, why, "give a row for each number.")
    return like(x)


def _scatter_add(low: Any, x: Any, index: Any, updates: Any) -> Any:
    return _added(low, low.call(poputil.duplicate, x), index, updates)


def _scatter_with(call: Any) -> Any:
    """Return the lowering of updates that replace rows, or change them by `call`."""

    def lower(low: Any, x: Any, index: Any, updates: Any) -> Any:
        into = low.call(poputil.duplicate, x)
        count, wide = index.num_elements, prod(into.shape[1:])
        operands = updates.reshape((count, 1, wide)), index.reshape((count, 1))
        low.call(call, into.reshape((len(into), wide)), *operands, [0], [1])
        return into

    return lower


def _scatter_set_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    """Rows that were replaced have no gradient, and of several updates the last one has it."""
    _, index, updates = op.inputs
    count, shape = index.size, (index.size, *(1,) * (len(op.inputs[0].shape) - 1))
    rows = op.inputs[0].shape[0]
    order = ir.constant(np.arange(1, count + 1).reshape(index.shape), FLOAT)
    nobody = ir.constant(0.0, FLOAT, (rows, 1))
    column = ir.op("reshape", order, shape=(*index.shape, 1))
    last = ir.op("scatter_max", nobody, index, column)
    is_last = ir.op("eq", ir.op("gather", last, index), column)
    is_last = ir.op("reshape", is_last, shape=(*index.shape, *shape[1:]))
    untouched = ir.op("reshape", ir.op("eq", last, 0.0), shape=(rows, *shape[1:]))
    nothing = ir.constant(0.0, g.dtype)
    taken = ir.op("gather", g, index)
    return [ir.op("select", untouched, g, nothing), None, ir.op("select", is_last, taken, nothing)]


def _scatter_max_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    """All that equal the largest share the gradient, as in torch's scatter_reduce."""
    x, index, updates = op.inputs
    result = op.outs[0]
    of_x = ir.op("cast", ir.op("eq", x, result), dtype=g.dtype)
    of_updates = ir.op("cast", ir.op("eq", updates, ir.op("gather", result, index)), dtype=g.dtype)
    count = ir.op("max", ir.op("scatter_add", of_x, index, of_updates), 1.0)
    share = ir.op("div", g, count)
    by_updates = ir.op("mul", of_updates, ir.op("gather", share, index))
    return [ir.op("mul", of_x, share), None, by_updates]


def _pick_shape(x: Value, index: Value) -> Out:
    _indices(index)
    good = len(x.shape) == 2 and index.shape == x.shape[:1]
    why = f"{list(x.shape)} and numbers {list(index.shape)} do not fit"
    need(good, why, "give [rows, columns] and a number for each row.")
    return Out(index.shape, r.floats(r.with_rows(x)).dtype)


def _pick_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    x, index = op.inputs
    hot = ir.op("one_hot", index, classes=x.shape[1], dtype=x.dtype)
    return [ir.op("mul", hot, ir.op("reshape", g, shape=(-1, 1))), None]


OPS |= {
    "gather": Row(
        _gather_shape,
        _gather,
        lambda ir, op, g: [ir.op("scatter", op.inputs[1], g, shape=op.inputs[0].shape), None],
        lays=_gather_lays,
    ),
    "scatter": Row(
        lambda index, updates, shape: r.shaped(updates, shape),
        _scatter,
        lambda ir, op, g: [None, ir.op("gather", g, op.inputs[0])],
    ),
    "scatter_add": Row(
        _scatter_add_shape,
        _scatter_add,
        lambda ir, op, g: [g, None, ir.op("gather", g, op.inputs[1])],
    ),
    "scatter_set": Row(_scatter_add_shape, _scatter_with(popops.multi_update), _scatter_set_grad),
    "scatter_max": Row(
        _scatter_add_shape, _scatter_with(popops.multi_update_max), _scatter_max_grad
    ),
    "pick": Row(_pick_shape, calls(popops.select_scalar_from_rows), _pick_grad),
}


# --- softmax and losses ---------------------------------------------------------------------------


def _as_rows(x: Any) -> Any:
    return x.reshape((x.num_elements // x.shape[-1], x.shape[-1]))


def _by_rows(call: Any, grad: Any) -> Row:
    def shape(x: Value) -> Out:
        return r.floats(r.with_rows(x))

    return Row(shape, lambda low, x: low.call(call, _as_rows(x)).reshape(x.shape), grad)


def _softmax_grad(low: Any, y: Any, g: Any) -> Any:
    given = "SOFTMAX", _as_rows(y), _as_rows(g)
    return low.call(popnn.non_linearity_input_gradient, *given).reshape(y.shape)


def _log_softmax_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    total = ir.op("sum", g, dims=[len(g.shape) - 1])
    column = ir.op("reshape", total, shape=(*g.shape[:-1], 1))
    return [ir.op("sub", g, ir.op("mul", ir.op("exp", op.outs[0]), column))]


def _cross_entropy_shape(x: Value, labels: Value) -> list[Out]:
    _pick_shape(x, labels)
    return [Out(labels.shape, FLOAT), Out(r.floats(x).shape, FLOAT)]


def _cross_entropy_grad(ir: Ir, op: Op, g: Value, other: Value | None) -> Slopes:
    each = ir.op("reshape", g, shape=(*g.shape, 1))
    return [ir.cast(ir.op("mul", op.outs[1], each), op.inputs[0].dtype), None]


def _binary_cross_entropy_shape(x: Value, y: Value) -> Out:
    return Out(r.floats(Value(r.pair(x, y).shape, x.dtype)).shape, FLOAT)


def _binary_cross_entropy(x: Any, y: Any) -> Any:
    """The terms before the logarithm differ by |x| or by nothing where y is 1 or 0."""
    return expr.Max(x, 0.0) - x * y + expr.Log1p(expr.Exp(-expr.Abs(x)))


def _binary_cross_entropy_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    x, y = (ir.cast(v, FLOAT) for v in op.inputs)
    by_x = ir.op("mul", g, ir.op("sub", ir.op("sigmoid", x), y))
    by_y = ir.op("neg", ir.op("mul", g, x))
    sums = [unbroadcast(ir, v, op.inputs[n].shape) for n, v in enumerate((by_x, by_y))]
    return [v and ir.cast(v, op.inputs[n].dtype) for n, v in enumerate(sums)]


OPS |= {
    "softmax": _by_rows(popnn.softmax, lambda ir, op, g: [ir.op("softmax_grad", op.outs[0], g)]),
    "softmax_grad": Row(keeps(0), _softmax_grad),
    "log_softmax": _by_rows(popnn.log_softmax, _log_softmax_grad),
    "cross_entropy": Row(_cross_entropy_shape, calls(softmax_cross_entropy), _cross_entropy_grad),
    "binary_cross_entropy": Row(
        _binary_cross_entropy_shape, r.fused(_binary_cross_entropy), _binary_cross_entropy_grad
    ),
}
