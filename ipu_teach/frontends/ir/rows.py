"""The table: what each operation makes, its PopLibs calls, and its gradient.

Elements, views, reductions, numbers that are drawn, what changes a variable. Products, layers and
losses are in `rows_nn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, prod, sqrt
from typing import Any

import numpy as np

from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Shape, Unfit, Value
from ipu_teach.graph import concat
from ipu_teach.poplibs import gcl, optim, popnn, popops, poprand, poputil
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Copy, PrintTensor
from ipu_teach.types import BOOL, FLOAT, UNSIGNED_INT, DType

Slopes = list[Value | None]


def like(x: Value, *others: Value, **attrs: Any) -> Out:
    """The shape and dtype of the first input."""
    return Out(x.shape, x.dtype)


def flat(ir: Ir, op: Op, *gs: Any) -> Slopes:
    """The gradient of what is constant wherever it is smooth, or no number: none."""
    return [None] * len(op.inputs)


def calls(function: Any, **more: Any) -> Callable[..., Any]:
    """`lower` of a library call that takes the tensors, and the attributes by name."""

    def lower(low: Any, *tensors: Any, **attrs: Any) -> Any:
        return function(low.graph, *tensors, low.prog, low.name, **more, **attrs)

    return lower


def alike(*values: Value) -> None:
    """Raise `Unfit` for dtypes that differ."""
    if len({v.dtype for v in values}) > 1:
        raise Unfit(
            f"dtypes {' and '.join(v.dtype.__name__ for v in values)} differ",
            "cast one of them: graph.op('cast', x, dtype=FLOAT).",
        )


def floats(x: Value, *others: Value, **attrs: Any) -> Out:
    """As `like`, of floats alone."""
    if not x.floating:
        raise Unfit(f"{x.dtype.__name__} is no float", "cast it: graph.op('cast', x, dtype=FLOAT).")
    return Out(x.shape, x.dtype)


def broadcast(*values: Value, dtype: type[DType] | None = None, **attrs: Any) -> Out:
    """The shape that all broadcast to."""
    alike(*values)
    try:
        shape = np.broadcast_shapes(*(v.shape for v in values))
    except ValueError:
        shapes = " and ".join(str(list(v.shape)) for v in values)
        raise Unfit(f"shapes {shapes} do not broadcast", poputil.BROADCASTING) from None
    return Out(shape, dtype or values[0].dtype)


def axes(x: Value, dims: Sequence[int]) -> list[int]:
    """Dimensions counted from the first, each once. Raises `Unfit`."""
    if any(not -len(x.shape) <= d < len(x.shape) for d in dims):
        raise Unfit(f"there is no dimension {list(dims)} of {len(x.shape)}", "count them from 0.")
    return sorted({d % len(x.shape) for d in dims})


def unbroadcast(ir: Ir, g: Value, shape: Shape) -> Value:
    """The sum of a gradient over the dimensions along which its value was broadcast."""
    if g.shape == shape:
        return g
    lead = len(g.shape) - len(shape)
    dims = [*range(lead)]
    dims += [lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1]
    if dims and (number := g.number) is not None:
        return ir.constant(number * prod(g.shape[d] for d in dims), g.dtype, shape)
    g = ir.op("sum", g, dims=dims) if dims else g
    return g if g.shape == shape else ir.op("reshape", g, shape=shape)


# --- elements -------------------------------------------------------------------------------------


def one(call: Any, slope: Callable[..., Value] | None, shape: Any = floats) -> Row:
    """A row of one operand: `slope(graph, x, y)` is multiplied by the gradient."""

    def grad(ir: Ir, op: Op, g: Value) -> Slopes:
        assert slope is not None, "flat is taken instead"
        return [ir.op("mul", g, slope(ir, op.inputs[0], op.outs[0]))]

    return Row(shape, calls(call), flat if slope is None else grad)


def _two(ir: Ir, op: Op, *gs: Value | None) -> Slopes:
    return [
        None if g is None else unbroadcast(ir, g, v.shape)
        for g, v in zip(gs, op.inputs, strict=True)
    ]


def two(call: Any, slopes: Callable[..., tuple[Value | None, Value | None]]) -> Row:
    """A row of two operands that broadcast: `slopes(graph, gradient, a, b, y)`."""

    def grad(ir: Ir, op: Op, g: Value) -> Slopes:
        return _two(ir, op, *slopes(ir, g, *op.inputs, op.outs[0]))

    return Row(broadcast, calls(call), grad, numbers=True)


def asks(call: Any, n: int = 2) -> Row:
    """A row whose answers are BOOL."""
    return Row(lambda *v, **a: broadcast(*v, dtype=BOOL), calls(call), flat, numbers=n == 2)


def non_linearity(kind: str) -> Row:
    """A row of popnn's non-linearities."""

    def grad(ir: Ir, op: Op, g: Value) -> Slopes:
        by_input = popnn.NonLinearityType[kind].slope_from_input
        seen = op.inputs[0] if by_input else op.outs[0]
        return [ir.op("non_linearity_grad", seen, g, kind=kind)]

    def lower(low: Any, x: Any) -> Any:
        return popnn.non_linearity(low.graph, kind, x, low.prog, low.name)

    return Row(floats, lower, grad)


def _m(ir: Ir, *given: Any) -> Value:
    """A product of values and numbers."""
    value = given[0]
    for other in given[1:]:
        value = ir.op("mul", value, other)
    return value  # type: ignore[no-any-return]


def _larger(ask: str) -> Callable[..., tuple[Value, Value]]:
    """The gradient goes to the operand that was taken; where both are equal, to the first."""

    def slopes(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
        first = ir.op(ask, a, b)
        nothing = ir.constant(0.0, g.dtype)
        return ir.op("select", first, g, nothing), ir.op("select", first, nothing, g)

    return slopes


def _power(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value | None]:
    less = ir.op("pow", a, ir.op("sub", b, 1.0))
    log = None if b.kind == "constant" else _m(ir, g, y, ir.op("log", a))
    return _m(ir, g, b, less), log


OPS |= {
    "neg": Row(like, calls(popops.neg), lambda ir, op, g: [ir.op("neg", g)]),
    "abs": one(popops.abs, lambda ir, x, y: ir.op("signum", x), like),
    "exp": one(popops.exp, lambda ir, x, y: y),
    "expm1": one(popops.expm1, lambda ir, x, y: ir.op("add", y, 1.0)),
    "log": one(popops.log, lambda ir, x, y: ir.op("inv", x)),
    "log1p": one(popops.log1p, lambda ir, x, y: ir.op("inv", ir.op("add", x, 1.0))),
    "sqrt": one(popops.sqrt, lambda ir, x, y: _m(ir, ir.op("inv", y), 0.5)),
    "rsqrt": one(popops.rsqrt, lambda ir, x, y: _m(ir, y, y, y, -0.5)),
    "inv": one(popops.inv, lambda ir, x, y: _m(ir, y, y, -1.0)),
    "square": one(popops.square, lambda ir, x, y: _m(ir, x, 2.0), like),
    "sin": one(popops.sin, lambda ir, x, y: ir.op("cos", x)),
    "cos": one(popops.cos, lambda ir, x, y: ir.op("neg", ir.op("sin", x))),
    "erf": one(popops.erf, lambda ir, x, y: _m(ir, ir.op("exp", _m(ir, x, x, -1.0)), 2 / sqrt(pi))),
    "signum": one(popops.signum, None, like),
    "floor": one(popops.floor, None),
    "ceil": one(popops.ceil, None),
    "round": one(popops.round, None),
    "trunc": one(popops.trunc, None),
    "is_nan": asks(popops.is_nan, 1),
    "is_finite": asks(popops.is_finite, 1),
    "logical_not": asks(popops.logical_not, 1),
    "relu": non_linearity("RELU"),
    "sigmoid": non_linearity("SIGMOID"),
    "hard_sigmoid": non_linearity("HARD_SIGMOID"),
    "tanh": non_linearity("TANH"),
    "gelu": non_linearity("GELU_ERF"),
    "gelu_tanh": non_linearity("GELU"),
    "silu": non_linearity("SWISH"),
    "non_linearity_grad": Row(
        like,
        lambda low, seen, g, kind: popnn.non_linearity_input_gradient(
            low.graph, kind, seen, g, low.prog, low.name
        ),
    ),
    "add": two(popops.add, lambda ir, g, a, b, y: (g, g)),
    "sub": two(popops.sub, lambda ir, g, a, b, y: (g, ir.op("neg", g))),
    "mul": two(popops.mul, lambda ir, g, a, b, y: (_m(ir, g, b), _m(ir, g, a))),
    "div": two(
        popops.div,
        lambda ir, g, a, b, y: (
            ir.op("div", g, b),
            None if b.kind == "constant" else ir.op("neg", ir.op("div", _m(ir, g, y), b)),
        ),
    ),
    "pow": two(popops.pow, _power),
    "max": two(popops.max, _larger("gteq")),
    "min": two(popops.min, _larger("lteq")),
    "rem": Row(broadcast, calls(popops.rem), numbers=True),
    "atan2": two(
        popops.atan2,
        lambda ir, g, a, b, y: (
            ir.op("div", _m(ir, g, b), ir.op("add", _m(ir, a, a), _m(ir, b, b))),
            ir.op("div", _m(ir, g, a, -1.0), ir.op("add", _m(ir, a, a), _m(ir, b, b))),
        ),
    ),
    **{
        name: asks(getattr(popops, name))
        for name in ("eq", "neq", "lt", "lteq", "gt", "gteq", "logical_and", "logical_or")
    },
}


def _select_shape(mask: Value, a: Value, b: Value) -> Out:
    if mask.dtype is not BOOL:
        raise Unfit(f"the mask is {mask.dtype.__name__}", "give a BOOL, as gt or eq make it.")
    alike(a, b)
    shape = np.broadcast_shapes(mask.shape, a.shape, b.shape)
    return Out(shape, a.dtype)


def _select_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    mask, a, b = op.inputs
    nothing = ir.constant(0.0, g.dtype)
    slopes = [
        None if v.kind == "constant" else unbroadcast(ir, ir.op("select", mask, *pair), v.shape)
        for v, pair in ((a, (g, nothing)), (b, (nothing, g)))
    ]
    return [None, *slopes]


def _clamp_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (x,) = op.inputs
    above, below = ir.op("gteq", x, op.attrs["least"]), ir.op("lteq", x, op.attrs["most"])
    inside = ir.op("logical_and", above, below)
    return [ir.op("select", inside, g, ir.constant(0.0, g.dtype))]


OPS |= {
    "select": Row(
        _select_shape,
        lambda low, mask, a, b: popops.select(low.graph, a, b, mask, low.prog, low.name),
        _select_grad,
        numbers=True,
    ),
    "clamp": Row(
        like,
        lambda low, x, least, most: popops.clamp(low.graph, x, least, most, low.prog, low.name),
        _clamp_grad,
    ),
    "cast": Row(
        lambda x, dtype: Out(x.shape, dtype),
        lambda low, x, dtype: popops.cast(low.graph, x, dtype, low.prog, low.name),
        lambda ir, op, g: [
            ir.op("cast", g, dtype=op.inputs[0].dtype) if op.inputs[0].floating else None
        ],
    ),
    "copy": Row(like, calls(poputil.duplicate), lambda ir, op, g: [g]),
    "stop": Row(like, lambda low, x: x, flat, view=True),  # no gradient goes through it
    "print": Row(
        like,
        lambda low, x, title: low.prog.add(PrintTensor(title, x)) and x,
        lambda ir, op, g: [g],
        view=True,
    ),
}


# --- views ----------------------------------------------------------------------------------------


def _reshape_shape(x: Value, shape: Sequence[int]) -> Out:
    found = tuple(map(int, shape))
    if found.count(-1) == 1 and (rest := -prod(found)) and not x.size % rest:
        found = tuple(x.size // rest if n == -1 else n for n in found)
    if prod(found) != x.size or min(found, default=0) < 0:
        raise Unfit(
            f"{list(x.shape)} cannot be seen as {list(shape)}",
            f"give sizes whose product is {x.size:,}.",
        )
    return Out(found, x.dtype)


def _permute_shape(x: Value, dims: Sequence[int]) -> Out:
    if sorted(dims) != [*range(len(x.shape))]:
        raise Unfit(
            f"{list(dims)} is no order of {len(x.shape)} dimensions", "name each of them once."
        )
    return Out(tuple(x.shape[d] for d in dims), x.dtype)


def _expand_shape(x: Value, shape: Sequence[int]) -> Out:
    if broadcast(x, Value(tuple(shape), x.dtype)).shape != tuple(shape):
        raise Unfit(f"{list(x.shape)} does not grow to {list(shape)}", poputil.BROADCASTING)
    return Out(tuple(shape), x.dtype)


def _slice_shape(x: Value, dim: int, begin: int, end: int, step: int = 1) -> Out:
    (axis,) = axes(x, [dim])
    if not 0 <= begin <= end <= x.shape[axis] or step < 1:
        raise Unfit(
            f"{begin} to {end} by {step} is no part of dimension {axis}, of {x.shape[axis]}",
            "count from 0, and end within the tensor.",
        )
    shape = list(x.shape)
    shape[axis] = -(-(end - begin) // step)
    return Out(tuple(shape), x.dtype)


def _sliced(x: Any, dim: int, begin: int, end: int, step: int = 1) -> Any:
    part = x.slice(begin, end, dim % x.rank)
    return part if step == 1 else part.sub_sample(step, dim % x.rank)


def _slice_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (x,), how = op.inputs, op.attrs
    if how.get("step", 1) > 1:
        return [ir.op("put", g, shape=x.shape, **how)]
    margins = [[0] * len(x.shape), [0] * len(x.shape)]
    (axis,) = axes(x, [how["dim"]])
    margins[0][axis], margins[1][axis] = how["begin"], x.shape[axis] - how["end"]
    return [ir.op("pad", g, lower=tuple(margins[0]), upper=tuple(margins[1]))]


def _put(low: Any, x: Any, shape: Shape, **how: int) -> Any:
    whole = low.new(x.dtype, shape)
    popops.zero(low.graph, whole, low.prog, f"{low.name}/zero")
    low.prog.add(Copy(x, _sliced(whole, **how)))
    return whole


def _concat_shape(*values: Value, dim: int) -> Out:
    alike(*values)
    (axis,) = axes(values[0], [dim])
    rest = {(*v.shape[:axis], *v.shape[axis + 1 :]) for v in values}
    if len(rest) != 1 or len({len(v.shape) for v in values}) != 1:
        raise Unfit(
            f"the tensors differ in more than dimension {axis}", "give tensors alike but for it."
        )
    shape = list(values[0].shape)
    shape[axis] = sum(v.shape[axis] for v in values)
    return Out(tuple(shape), values[0].dtype)


def _concat_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    axis, at = op.attrs["dim"] % len(g.shape), 0
    slopes: Slopes = []
    for v in op.inputs:
        slopes.append(ir.op("slice", g, dim=axis, begin=at, end=at + v.shape[axis]))
        at += v.shape[axis]
    return slopes


def _pad_shape(x: Value, lower: Sequence[int], upper: Sequence[int], value: float = 0.0) -> Out:
    if not len(lower) == len(upper) == len(x.shape) or min((*lower, *upper), default=0) < 0:
        raise Unfit("the margins do not fit", "give two lists with 0 or more for each dimension.")
    return Out(tuple(a + n + b for a, n, b in zip(lower, x.shape, upper, strict=True)), x.dtype)


def _pad_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    for dim, (first, n) in enumerate(zip(op.attrs["lower"], op.inputs[0].shape, strict=True)):
        if n != g.shape[dim]:
            g = ir.op("slice", g, dim=dim, begin=first, end=first + n)
    return [g]


OPS |= {
    "reshape": Row(
        _reshape_shape,
        lambda low, x, shape: x.reshape(low.op.outs[0].shape),
        lambda ir, op, g: [ir.op("reshape", g, shape=op.inputs[0].shape)],
        view=True,
    ),
    "permute": Row(
        _permute_shape,
        lambda low, x, dims: x.dim_shuffle(list(dims)),
        lambda ir, op, g: [ir.op("permute", g, dims=tuple(map(int, np.argsort(op.attrs["dims"]))))],
        view=True,
    ),
    "expand": Row(
        _expand_shape,
        lambda low, x, shape: poputil.broadcast_to_match(x, tuple(shape)),
        lambda ir, op, g: [unbroadcast(ir, g, op.inputs[0].shape)],
        view=True,
    ),
    "slice": Row(_slice_shape, lambda low, x, **a: _sliced(x, **a), _slice_grad, view=True),
    "put": Row(
        lambda g, shape, **_: Out(tuple(shape), g.dtype),
        _put,
        lambda ir, op, g: [
            ir.op("slice", g, **{k: v for k, v in op.attrs.items() if k != "shape"})
        ],
    ),
    "reverse": Row(
        lambda x, dim: Out(x.shape, x.dtype) if axes(x, [dim]) else None,
        lambda low, x, dim: x.reverse(dim % x.rank),
        lambda ir, op, g: [ir.op("reverse", g, dim=op.attrs["dim"])],
        view=True,
    ),
    "concat": Row(
        _concat_shape,
        lambda low, *x, dim: concat(list(x), dim % x[0].rank),
        _concat_grad,
        view=True,
    ),
    "pad": Row(
        _pad_shape,
        lambda low, x, lower, upper, value=0.0: popops.pad(
            low.graph, x, list(lower), list(upper), value=value
        ),
        _pad_grad,
        view=True,
    ),
}


# --- reductions -----------------------------------------------------------------------------------


def _reduced(x: Value, dims: Sequence[int]) -> Out:
    gone = axes(x, dims)
    return Out(tuple(n for i, n in enumerate(x.shape) if i not in gone), x.dtype)


def _reduce(operation: str) -> Callable[..., Any]:
    def lower(low: Any, x: Any, dims: Sequence[int]) -> Any:
        gone = [d % x.rank for d in dims]
        return popops.reduce(low.graph, x, gone, low.prog, operation, low.name) if gone else x

    return lower


def _seen_again(ir: Ir, op: Op, y: Value) -> Value:
    """A result in the shape of what was reduced."""
    x = op.inputs[0]
    gone = axes(x, op.attrs["dims"])
    kept = tuple(1 if i in gone else n for i, n in enumerate(x.shape))
    return ir.op("expand", ir.op("reshape", y, shape=kept), shape=x.shape)


def _extreme_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    """Those that are the largest share the gradient, as in torch's amax."""
    (x,) = op.inputs
    where = ir.op("eq", x, _seen_again(ir, op, op.outs[0]))
    ones = ir.op("cast", where, dtype=x.dtype)
    count = ir.op("sum", ones, dims=op.attrs["dims"])
    return [ir.op("mul", ones, _seen_again(ir, op, ir.op("div", g, count)))]


def _product_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    whole = _seen_again(ir, op, ir.op("mul", g, op.outs[0]))
    return [ir.op("div", whole, op.inputs[0])]


def _rows(x: Value, dims: Any = None) -> Out:
    if not x.shape:
        raise Unfit("one number has no last dimension", "give a tensor.")
    return Out(x.shape[:-1], UNSIGNED_INT)


def _one_hot(low: Any, x: Any, classes: int, dtype: type[DType]) -> Any:
    made = low.new(dtype, (x.num_elements, classes))
    popops.encode_one_hot(low.graph, x.flatten(), made, low.prog, debug_context=low.name)
    return made.reshape((*x.shape, classes))


OPS |= {
    "sum": Row(_reduced, _reduce("ADD"), lambda ir, op, g: [_seen_again(ir, op, g)]),
    "reduce_max": Row(_reduced, _reduce("MAX"), _extreme_grad),
    "reduce_min": Row(_reduced, _reduce("MIN"), _extreme_grad),
    "reduce_prod": Row(_reduced, _reduce("MUL"), _product_grad),
    "arg_max": Row(_rows, calls(popops.arg_max), flat),
    "arg_min": Row(_rows, calls(popops.arg_min), flat),
    "one_hot": Row(lambda x, classes, dtype: Out((*x.shape, classes), dtype), _one_hot, flat),
}


# --- drawn numbers --------------------------------------------------------------------------------
# The seed is an input, so that what is computed again draws the same; `modifier` tells rows apart.


def _drawn(seed: Value, shape: Shape, dtype: type[DType] = FLOAT, **_: Any) -> Out:
    if seed.dtype is not UNSIGNED_INT or seed.shape != (2,):
        raise Unfit("its seed is no two UNSIGNED_INT", "give ir.seed(graph).")
    return Out(tuple(shape), dtype)


def _dropout(
    low: Any, seed: Any, shape: Shape, keep: float, modifier: int, dtype: type[DType] = FLOAT
) -> Any:
    ones = low.constant(dtype, shape, 1.0)
    how = low.graph, seed, modifier, ones, ones, keep, 1 / keep
    return poprand.dropout(*how, low.prog, low.name)


def _draws(call: Any, *bounds: float) -> Callable[..., Any]:
    def lower(low: Any, seed: Any, shape: Shape, modifier: int, dtype: type[DType] = FLOAT) -> Any:
        where = low.constant(dtype, shape, 0.0)
        return call(low.graph, seed, modifier, where, dtype, *bounds, low.prog, low.name)

    return lower


OPS |= {
    "dropout_mask": Row(_drawn, _dropout, flat),  # 1 / keep, or 0
    "uniform": Row(_drawn, _draws(poprand.uniform, 0.0, 1.0), flat),
    "normal": Row(_drawn, _draws(poprand.normal, 0.0, 1.0), flat),
}


# --- replicas -------------------------------------------------------------------------------------


def _all_reduce(low: Any, *x: Any, op: str) -> list[Any]:
    made = gcl.all_reduce_cross_replica(low.graph, list(x), op, low.prog, debug_context=low.name)
    return [y.reshape(t.shape) for y, t in zip(made, x, strict=True)]


def _own_share(low: Any, x: Any, count: int) -> Any:
    share = -(-x.num_elements // count)
    margin = [share * count - x.num_elements]
    rows = popops.pad(low.graph, x.flatten(), [0], margin).reshape((count, share))
    made = popops.dynamic_slice(low.graph, rows, low.replica(), [0], [1], low.prog, low.name)
    return made.flatten()


def _share(x: Value, count: int, **_: Any) -> Out:
    return Out((-(-x.size // count),), x.dtype)


OPS |= {
    "all_reduce": Row(lambda *x, op: [Out(v.shape, v.dtype) for v in x], _all_reduce),
    "reduce_scatter": Row(
        _share,
        lambda low, x, op, count: gcl.reduce_scatter_cross_replica(
            low.graph, x, op, low.prog, debug_context=low.name
        ),
    ),
    "own_share": Row(_share, _own_share),
    "all_gather": Row(
        lambda x, count: Out((count, *x.shape), x.dtype),
        lambda low, x, count: gcl.all_gather_cross_replica(
            low.graph, x, low.prog, debug_context=low.name
        ),
    ),
    "load": Row(like, lambda low, x: x, lambda ir, op, g: [g], view=True),  # from streaming memory
}


# --- what changes a variable ----------------------------------------------------------------------


def _same(variable: Value, *others: Value, **attrs: Any) -> list[Out]:
    if others and others[0].shape != variable.shape:
        raise Unfit(
            f"shapes {list(variable.shape)} and {list(others[0].shape)} differ",
            "give an element for each.",
        )
    return []


def _blend(low: Any, v: Any, x: Any, momentum: float) -> None:
    popops.map_in_place(
        low.graph, expr._1 + (expr._2 - expr._1) * momentum, [v, x], low.prog, low.name
    )


def _next_seed(low: Any, seed: Any) -> None:
    popops.add_in_place(low.graph, seed[0], 1, low.prog, low.name)


def _step(call: Any, *names: str) -> Row:
    def lower(low: Any, w: Any, g: Any, rate: Any, *state: Any, **numbers: float) -> None:
        kept = dict(zip(names, state, strict=True))
        how = low.prog, low.name
        call(low.graph, w, g, rate, *how, state=kept, **numbers)

    def lays(low: Any, op: Op, place: int) -> Any:
        if place < 3 or not op.inputs[place].shape:
            return None
        return poputil.clone(low.graph, low.seen(op.inputs[0]), low.called, FLOAT)

    return Row(_same, lower, in_place=True, lays=lays)


def _like_last(low: Any, op: Op, place: int) -> Any:
    """As what is assigned, or the parameter whose gradients are summed."""
    other = low.seen(op.inputs[-1])
    return None if place or other is None else poputil.clone(low.graph, other, low.called)


def _accumulate(low: Any, v: Any, x: Any, *like: Any) -> None:
    popops.add_in_place(low.graph, v, x, low.prog, low.name)


OPS |= {
    "assign": Row(
        _same, lambda low, v, x: low.prog.add(Copy(x, v)), in_place=True, lays=_like_last
    ),
    "accumulate": Row(_same, _accumulate, in_place=True, lays=_like_last),
    "clear": Row(
        _same, lambda low, v: popops.zero(low.graph, v, low.prog, low.name), in_place=True
    ),
    "blend": Row(_same, _blend, in_place=True),
    "next_seed": Row(_same, _next_seed, in_place=True),
    "sgd": _step(optim.sgd),
    "momentum": _step(optim.sgd, "velocity"),
    "adam": _step(optim.adam, "first", "second", "step"),
    "adamw": _step(optim.adamw, "first", "second", "step"),
    "lars": _step(optim.lars, "velocity"),
}
