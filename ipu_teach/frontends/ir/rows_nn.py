"""The table's products, convolutions, pools, norms, look-ups and losses."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ipu_teach.frontends.ir.rows import (
    Slopes,
    alike,
    broadcast,
    calls,
    flat,
    floats,
    like,
    two,
    unbroadcast,
)
from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Unfit, Value
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.types import FLOAT, UNSIGNED_INT, DType

Ints = Sequence[int]

# --- products -------------------------------------------------------------------------------------


def _matmul_shape(a: Value, b: Value) -> Out:
    alike(a, b)
    if min(len(a.shape), len(b.shape)) < 2 or a.shape[-1] != b.shape[-2]:
        raise Unfit(
            f"{list(a.shape)} times {list(b.shape)} does not fit",
            "give [..., m, k] and [..., k, n].",
        )
    batch = broadcast(Value(a.shape[:-2], a.dtype), Value(b.shape[:-2], a.dtype)).shape
    return Out((*batch, a.shape[-2], b.shape[-1]), a.dtype)


def _matmul(low: Any, a: Any, b: Any) -> Any:
    shape = low.op.outs[0].shape
    product: Any = poplin.mat_mul if b.rank == 2 else poplin.mat_mul_grouped
    if b.rank == 2:
        each = [a.reshape((a.num_elements // a.shape[-1], a.shape[-1])), b]
    else:
        each = [
            poputil.broadcast_to_match(t, (*shape[:-2], *t.shape[-2:])).flatten(0, len(shape) - 2)
            for t in (a, b)
        ]
    made = product(low.graph, *each, low.prog, low.name, options=low.options)
    return made.reshape(shape)


def _matmul_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    a, b = op.inputs
    da = unbroadcast(ir, ir.op("matmul", g, turned(ir, b)), a.shape)
    if len(b.shape) == 2 < len(a.shape):
        a, g = (ir.op("reshape", v, shape=(-1, v.shape[-1])) for v in (a, g))
    return [da, unbroadcast(ir, ir.op("matmul", turned(ir, a), g), b.shape)]


def _matmul_lays(low: Any, op: Op, place: int) -> Any:
    a, b = op.inputs
    grouped = "grouped_" if len(b.shape) > 2 else ""
    if grouped and a.shape[:-2] != b.shape[:-2]:
        return None
    make: Any = getattr(poplin, f"create_mat_mul_{grouped}input_{'rhs' if place else 'lhs'}")
    batch = (prod(b.shape[:-2]),) if grouped else ()
    shapes = (*batch, a.size // prod((*batch, a.shape[-1])), a.shape[-1]), (*batch, *b.shape[-2:])
    made = make(low.graph, a.dtype, *shapes, low.called, options=low.options)
    return made.reshape(op.inputs[place].shape)


def turned(ir: Ir, x: Value) -> Value:
    """The last two dimensions, changed for each other."""
    order = [*range(len(x.shape))]
    order[-2:] = order[:-3:-1]
    return ir.op("permute", x, dims=tuple(order))


OPS["matmul"] = Row(_matmul_shape, _matmul, _matmul_grad, lays=_matmul_lays)


# --- convolutions ---------------------------------------------------------------------------------


def _params(
    x: Any, w: Any, stride: Ints, lower: Ints, upper: Ints, dilation: Ints, groups: int
) -> Any:
    """Of an input [batch, channels, *field] and weights [out, channels / groups, *kernel]."""
    return poplin.ConvParams(
        x.dtype,
        x.shape[0],
        x.shape[2:],
        w.shape[2:],
        x.shape[1],
        w.shape[0],
        groups,
        stride=stride,
        padding_lower=lower,
        padding_upper=upper,
        kernel_dilation=dilation,
    )


def _conv_shape(x: Value, w: Value, **how: Any) -> Out:
    alike(x, w)
    if len(x.shape) != len(w.shape) or len(x.shape) < 3:
        raise Unfit(
            f"{list(x.shape)} and weights {list(w.shape)} have other dimensions",
            "give [batch, channels, *field] and [out, channels / groups, *kernel].",
        )
    if x.shape[1] != w.shape[1] * how["groups"]:
        raise Unfit(
            f"{x.shape[1]} channels meet weights of {w.shape[1]} in {how['groups']} groups",
            "weights are [out, channels / groups, *kernel].",
        )
    return Out(_params(x, w, **how).output_shape, x.dtype)


def _weights(low: Any, params: Any, w: Any) -> Any:
    return w.reshape(params.weights_shape)


def _conv(low: Any, x: Any, w: Any, **how: Any) -> Any:
    params = _params(x, w, **how)
    seen = _weights(low, params, w)
    return poplin.convolution(
        low.graph, x, seen, params, low.prog, debug_context=low.name, options=low.options
    )


def _conv_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    x, w = op.inputs
    return [
        ir.op("conv_input_grad", g, w, field=x.shape, **op.attrs),
        ir.op("conv_weight_grad", g, x, kernel=w.shape, **op.attrs),
    ]


def _conv_lays(low: Any, op: Op, place: int) -> Any:
    params = _params(op.inputs[0], op.inputs[1], **op.attrs)
    make = poplin.create_weights if place else poplin.create_input
    made = make(low.graph, params, low.called, options=low.options)
    return made.reshape(op.inputs[place].shape)


def _input_grad(low: Any, g: Any, w: Any, field: Ints, **how: Any) -> Any:
    params = _params(Value(tuple(field), g.dtype), w, **how)
    seen = _weights(low, params, w)
    return poplin.convolution_input_gradient(
        low.graph, g, seen, params, low.prog, low.name, options=low.options
    )


def _input_grad_shape(g: Value, w: Value, field: Ints, **how: Any) -> Out:
    wants = _params(Value(tuple(field), g.dtype), w, **how).output_shape
    if wants != g.shape:
        raise Unfit(f"{list(g.shape)} is no gradient of {list(wants)}")
    return Out(tuple(field), g.dtype)


def _input_grad_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    y, w = op.inputs
    how = {k: v for k, v in op.attrs.items() if k != "field"}
    return [ir.op("conv", g, w, **how), ir.op("conv_weight_grad", y, g, kernel=w.shape, **how)]


def _weight_grad(low: Any, g: Any, x: Any, kernel: Ints, **how: Any) -> Any:
    params = _params(x, Value(tuple(kernel), g.dtype), **how)
    found = poplin.calculate_weight_deltas(
        low.graph, g, x, params, low.prog, low.name, options=low.options
    )
    return found.reshape(tuple(kernel))


OPS |= {
    "conv": Row(_conv_shape, _conv, _conv_grad, lays=_conv_lays),
    "conv_input_grad": Row(_input_grad_shape, _input_grad, _input_grad_grad),
    "conv_weight_grad": Row(lambda g, x, kernel, **_: Out(tuple(kernel), g.dtype), _weight_grad),
}


# --- pools ----------------------------------------------------------------------------------------


WIDEST = 4096  # of a pooled field: each place of each window is counted


def _pool(kind: str, x: Any, kernel: Ints, stride: Ints, lower: Ints, upper: Ints) -> Any:
    if max(*x.shape[2:], *kernel) > WIDEST:
        raise Unfit(f"a field of {list(x.shape[2:])} is too wide", f"pool {WIDEST:,} at most.")
    make: Any = popnn.pooling.PoolParams
    how = kernel, stride, lower, upper
    return make(kind, x.shape[2:], *map(tuple, how), x.shape[1], x.shape[0], x.dtype)


def _pool_row(kind: str, grad: Any) -> Row:
    return Row(
        lambda x, **how: Out(_pool(kind, x, **how).output_shape, x.dtype),
        lambda low, x, **how: popnn.pooling.pool(
            low.graph, _pool(kind, x, **how), x, low.prog, low.name
        ),
        grad,
    )


def _max_pool_grad(low: Any, x: Any, y: Any, g: Any, **how: Any) -> Any:
    return popnn.pooling.pool_input_gradient(
        low.graph, _pool("MAX", x, **how), x, y, g, low.prog, low.name, ties="first"
    )


def _avg_pool_grad(low: Any, g: Any, field: Ints, **how: Any) -> Any:
    params = _pool("AVG", Value(tuple(field), g.dtype), **how)
    call: Any = popnn.pooling.pool_input_gradient  # of averages without x and what came out
    return call(low.graph, params, None, None, g, low.prog, low.name)


OPS |= {
    "max_pool": _pool_row(
        "MAX", lambda ir, op, g: [ir.op("max_pool_grad", op.inputs[0], op.outs[0], g, **op.attrs)]
    ),
    "max_pool_grad": Row(lambda x, y, g, **how: like(x), _max_pool_grad),
    "avg_pool": _pool_row(
        "AVG", lambda ir, op, g: [ir.op("avg_pool_grad", g, field=op.inputs[0].shape, **op.attrs)]
    ),
    "avg_pool_grad": Row(lambda g, field, **_: Out(tuple(field), g.dtype), _avg_pool_grad),
}


# --- norms ----------------------------------------------------------------------------------------
# x [batch, channels, …], gamma and beta a number for each channel; the statistics are FLOAT.

BY_KIND = {
    "batch": (popnn.bn, "batch"),
    "group": (popnn.gn, "group"),
    "instance": (popnn.in_, "instance"),
    "layer": (popnn.ln, "layer"),
}


def _norm_call(kind: str, what: str) -> Any:
    library, name = BY_KIND[kind]
    return getattr(library, f"{name}_{what}" if what == "normalise" else f"{name}_norm_{what}")


def _grouping(kind: str) -> dict[str, str]:
    """Groups of neighbouring channels, as frameworks have them."""
    return {"grouping": "correct"} if kind == "group" else {}


def _norm_shape(
    x: Value, gamma: Value, beta: Value, kind: str, eps: float, groups: int = 1
) -> list[Out]:
    floats(x)
    if kind not in BY_KIND:
        raise Unfit(f"there is no {kind!r} norm", f"there are {', '.join(BY_KIND)}.")
    if len(x.shape) < 2 or gamma.shape != x.shape[1:2] or beta.shape != gamma.shape:
        raise Unfit(
            f"{list(x.shape)} has not {list(gamma.shape)} channels", "give x [batch, channels, …]."
        )
    batch, channels = x.shape[:2]
    of_batch = {"group": groups, "instance": channels, "layer": 1}.get(kind)
    if of_batch is not None and channels % of_batch:
        raise Unfit(f"{groups} groups do not divide {channels} channels", "give another number.")
    row = Out((channels if of_batch is None else batch * of_batch,), FLOAT)
    return [Out(x.shape, x.dtype), Out(x.shape, x.dtype), row, row]


def _norm(
    low: Any, x: Any, gamma: Any, beta: Any, kind: str, eps: float, groups: int = 1
) -> list[Any]:
    cut = _grouping(kind)
    more = {"num_groups": groups, **cut} if kind == "group" else {}
    how = low.prog, low.name
    mean, inverse = _norm_call(kind, "statistics")(
        low.graph, x, eps, low.prog, debug_context=low.name, stable_algo=True, **more
    )
    y, white = _norm_call(kind, "normalise")(low.graph, x, gamma, beta, mean, inverse, *how, **cut)
    return [y, white, mean, inverse]


def _norm_grad(ir: Ir, op: Op, g: Value, *others: Value | None) -> Slopes:
    _, gamma, beta = op.inputs
    white, _, inverse = op.outs[1:]
    kind = op.attrs["kind"]
    both = ir.emit("norm_param_grad", white, g, kind=kind)
    slopes = [
        s if s.dtype is v.dtype else ir.op("cast", s, dtype=v.dtype)
        for s, v in zip(both, (gamma, beta), strict=True)
    ]
    return [ir.op("norm_grad", white, g, inverse, gamma, kind=kind), *slopes]


def _norm_gradients(low: Any, white: Any, g: Any, inverse: Any, gamma: Any, kind: str) -> Any:
    call = _norm_call(kind, "gradients")
    return call(low.graph, white, g, inverse, gamma, low.prog, low.name, **_grouping(kind))


OPS |= {
    "norm": Row(_norm_shape, _norm, _norm_grad),
    "norm_grad": Row(lambda white, g, inverse, gamma, kind: like(white), _norm_gradients),
    "norm_param_grad": Row(
        lambda white, g, kind: [Out(white.shape[1:2], FLOAT)] * 2,
        lambda low, white, g, kind: _norm_call(kind, "param_gradients")(
            low.graph, white, g, low.prog, low.name
        ),
    ),
    "to_variance": Row(  # of 1 / sqrt(variance + eps)
        lambda x, eps: like(x),
        lambda low, x, eps: popops.inv_std_dev_to_variance(low.graph, x, eps, low.prog, low.name),
        flat,
    ),
    "to_inv_std_dev": two(
        popops.variance_to_inv_std_dev,
        lambda ir, g, a, b, y: (
            ir.op("mul", g, ir.op("mul", ir.op("mul", y, ir.op("mul", y, y)), -0.5)),
            None,
        ),
    ),
}


# --- look-ups -------------------------------------------------------------------------------------


def _indices(index: Value) -> None:
    if index.dtype is not UNSIGNED_INT:
        raise Unfit(
            f"its numbers are {index.dtype.__name__}", "give UNSIGNED_INT, as ir.input makes them."
        )


def _gather_shape(x: Value, index: Value) -> Out:
    _indices(index)
    if not x.shape:
        raise Unfit("one number has no rows", "give a tensor [rows, …].")
    return Out((*index.shape, *x.shape[1:]), x.dtype)


def _flat_rows(x: Any) -> Any:
    return x.reshape((x.shape[0], prod(x.shape[1:])))


def _gather(low: Any, x: Any, index: Any) -> Any:
    places = index.reshape((index.num_elements, 1))
    rows = _flat_rows(x)
    made = popops.multi_slice(low.graph, rows, places, [0], [1], low.prog, low.name)
    return made.reshape((*index.shape, *x.shape[1:]))


def _gather_lays(low: Any, op: Op, place: int) -> Any:
    if place:
        return None
    return _sliceable(low, op.inputs[0].dtype, op.inputs[0].shape, low.called)


def _sliceable(low: Any, dtype: type[DType], shape: Ints, name: str) -> Any:
    rows = shape[0], prod(shape[1:])
    made = popops.create_sliceable_tensor(low.graph, dtype, rows, [0], name)
    return made.reshape(tuple(shape))


def _added(low: Any, into: Any, index: Any, updates: Any) -> Any:
    count, wide = index.num_elements, prod(into.shape[1:])
    given = updates.reshape((count, 1, wide)), index.reshape((count, 1))
    rows = _flat_rows(into)
    popops.multi_update_add(low.graph, rows, *given, 1.0, [0], [1], low.prog, low.name)
    return into


def _scatter(low: Any, index: Any, updates: Any, shape: Ints) -> Any:
    made = _sliceable(low, updates.dtype, shape, f"{low.name}/out")
    popops.zero(low.graph, made, low.prog, f"{low.name}/zero")
    return _added(low, made, index, updates)


def _scatter_add_shape(x: Value, index: Value, updates: Value) -> Out:
    alike(x, updates)
    _indices(index)
    if updates.shape != (*index.shape, *x.shape[1:]):
        wants = [*index.shape, *x.shape[1:]]
        raise Unfit(f"updates {list(updates.shape)} are not {wants}", "give a row for each number.")
    return Out(x.shape, x.dtype)


def _scatter_add(low: Any, x: Any, index: Any, updates: Any) -> Any:
    copied = poputil.duplicate(low.graph, x, low.prog, f"{low.name}/copy")
    return _added(low, copied, index, updates)


def _pick_shape(x: Value, index: Value) -> Out:
    _indices(index)
    if len(x.shape) != 2 or index.shape != x.shape[:1]:
        raise Unfit(
            f"{list(x.shape)} and numbers {list(index.shape)} do not fit",
            "give [rows, columns] and a number for each row.",
        )
    return Out(index.shape, x.dtype)


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
        lambda index, updates, shape: Out(tuple(shape), updates.dtype),
        _scatter,
        lambda ir, op, g: [None, ir.op("gather", g, op.inputs[0])],
    ),
    "scatter_add": Row(
        _scatter_add_shape,
        _scatter_add,
        lambda ir, op, g: [g, None, ir.op("gather", g, op.inputs[1])],
    ),
    "pick": Row(_pick_shape, calls(popops.select_scalar_from_rows), _pick_grad),
}


# --- softmax and losses ---------------------------------------------------------------------------


def _by_rows(call: Any) -> Any:
    def lower(low: Any, x: Any) -> Any:
        rows = x.reshape((x.num_elements // x.shape[-1], x.shape[-1]))
        return call(low.graph, rows, low.prog, low.name).reshape(x.shape)

    return lower


def _of_rows(x: Value) -> Out:
    if not x.shape:
        raise Unfit("one number has no last dimension", "give a tensor.")
    return floats(x)


def _row_sum(ir: Ir, x: Value) -> Value:
    dims = [len(x.shape) - 1]
    return ir.op("reshape", ir.op("sum", x, dims=dims), shape=(*x.shape[:-1], 1))


def _softmax_grad(low: Any, y: Any, g: Any) -> Any:
    a, b = (t.reshape((t.num_elements // t.shape[-1], t.shape[-1])) for t in (y, g))
    made = popnn.non_linearity_input_gradient(low.graph, "SOFTMAX", a, b, low.prog, low.name)
    return made.reshape(y.shape)


def _log_softmax_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    share = ir.op("mul", ir.op("exp", op.outs[0]), _row_sum(ir, g))
    return [ir.op("sub", g, share)]


def _cross_entropy_shape(x: Value, labels: Value) -> list[Out]:
    _pick_shape(x, labels)
    floats(x)
    return [Out(labels.shape, FLOAT), Out(x.shape, x.dtype)]


def _cross_entropy(low: Any, x: Any, labels: Any) -> list[Any]:
    loss, deltas = low.new(FLOAT, labels.shape), poputil.clone(low.graph, x, f"{low.name}/deltas")
    chances = popnn.softmax(low.graph, x, low.prog, f"{low.name}/softmax")
    popnn.calc_loss(low.graph, chances, labels, loss, deltas, low.prog, low.name)
    return [loss, deltas]


def _cross_entropy_grad(ir: Ir, op: Op, g: Value, other: Value | None) -> Slopes:
    each = g if g.dtype is op.outs[1].dtype else ir.op("cast", g, dtype=op.outs[1].dtype)
    column = ir.op("reshape", each, shape=(*g.shape, 1))
    return [ir.op("mul", op.outs[1], column), None]


OPS |= {
    "softmax": Row(
        _of_rows, _by_rows(popnn.softmax), lambda ir, op, g: [ir.op("softmax_grad", op.outs[0], g)]
    ),
    "softmax_grad": Row(lambda y, g: like(y), _softmax_grad),
    "log_softmax": Row(_of_rows, _by_rows(popnn.log_softmax), _log_softmax_grad),
    "cross_entropy": Row(_cross_entropy_shape, _cross_entropy, _cross_entropy_grad),
}
