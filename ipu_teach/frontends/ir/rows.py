"""The table: what each operation makes, its PopLibs calls, and its gradient.

Elements, views, reductions, numbers that are drawn, replicas, what changes a variable. Products,
layers and losses are in `rows_nn`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, prod, sqrt
from typing import Any

import numpy as np

from ipu_teach.arguments import Extended
from ipu_teach.frontends.ir.values import CONSTANT, OPS, Ir, Op, Out, Row, Shape, Unfit, Value
from ipu_teach.graph import Tensor, concat
from ipu_teach.poplibs import gcl, optim, popnn, popops, poprand, poputil
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.in_float import in_float
from ipu_teach.program import Copy, PrintTensor
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

Slopes = list[Value | None]
Ints = Sequence[int]
Kind = type[DType]
CAST = "cast: graph.op('cast', x, dtype=FLOAT)."


def need(good: object, why: str, advice: str) -> None:
    """Raise `Unfit` unless it is good."""
    if not good:
        raise Unfit(why, advice)


def like(x: Value) -> Out:
    """The shape and dtype of the one input."""
    return Out(x.shape, x.dtype)


def keeps(which: int) -> Callable[..., Out]:
    """The shape and dtype of an input, whatever else is given: for the rows of gradients."""
    return lambda *values, **attrs: like(values[which])


def shaped(x: Value, shape: Ints, **attrs: Any) -> Out:
    """A shape that is an attribute."""
    return Out(tuple(shape), x.dtype)


def floats(x: Value) -> Out:
    """As `like`, of floats alone."""
    need(x.floating, f"{x.dtype.__name__} is no float", CAST)
    return like(x)


def numeric(x: Value) -> Out:
    """As `like`, of numbers: not of BOOL."""
    need(x.dtype is not BOOL, "BOOL is no number", CAST)
    return like(x)


def with_rows(x: Value) -> Value:
    """x, whose last dimension has elements. Raises `Unfit`."""
    need(x.shape, "one number has no last dimension", "give a tensor.")
    need(x.shape[-1], "its rows have no elements", "give a tensor with elements.")
    return x


def alike(*values: Value) -> None:
    """Raise `Unfit` for dtypes that differ."""
    names = [v.dtype.__name__ for v in values]
    need(len({*names}) == 1, f"dtypes {' and '.join(names)} differ", CAST)


def broadcast(*values: Value, dtype: Kind | None = None) -> Out:
    """The shape that all broadcast to."""
    alike(*values)
    try:
        return Out(np.broadcast_shapes(*(v.shape for v in values)), dtype or values[0].dtype)
    except ValueError:
        shapes = " and ".join(str(list(v.shape)) for v in values)
        raise Unfit(f"shapes {shapes} do not broadcast", poputil.BROADCASTING) from None


def pair(a: Value, b: Value) -> Out:
    """As `broadcast`, of two."""
    return broadcast(a, b)


def integers(x: Value, *others: Value) -> Out:
    """Return the shape and dtype of one operand, or of two that broadcast: integers."""
    why = f"{x.dtype.__name__} has no bits to combine"
    need(x.dtype in (INT, UNSIGNED_INT), why, "cast: graph.op('cast', x, dtype=INT).")
    return broadcast(x, *others)


def numeric_pair(a: Value, b: Value) -> Out:
    """As `pair`, of numbers."""
    numeric(a)
    return pair(a, b)


def float_pair(a: Value, b: Value) -> Out:
    """As `pair`, of floats."""
    floats(a)
    return pair(a, b)


def axes(x: Value, dims: Ints) -> list[int]:
    """Dimensions counted from the first, each once. Raises `Unfit`."""
    rank = len(x.shape)
    good = all(-rank <= d < rank for d in dims)
    need(good, f"there is no dimension {list(dims)} of {rank}", "count them from 0.")
    return sorted({d % rank for d in dims})


def flat(ir: Ir, op: Op, *gs: Any) -> Slopes:
    """The gradient of what is constant wherever it is smooth, or no number: none."""
    return [None] * len(op.inputs)


def passed(ir: Ir, op: Op, g: Value) -> Slopes:
    """The gradient as it is."""
    return [g]


def calls(function: Any) -> Callable[..., Any]:
    """`lower` of a library call that takes the tensors, and the attributes by name."""
    return lambda low, *tensors, **attrs: low.call(function, *tensors, **attrs)


def fused(expression: Callable[..., Any]) -> Callable[..., Any]:
    """`lower` of an expression of the tensors, worked out in FLOAT and rounded once."""

    def lower(low: Any, *tensors: Any) -> Any:
        result, operands = in_float(expression, *tensors, out=low.op.outs[0].dtype)
        return low.call(popops.map, result, operands)

    return lower


def view(shape: Any, lower: Any, grad: Any) -> Row:
    """A row whose result shares memory with its input."""
    return Row(shape, lower, grad, view=True)


def unbroadcast(ir: Ir, g: Value | None, shape: Shape) -> Value | None:
    """The sum of a gradient over the dimensions along which its value was broadcast."""
    if g is None or g.shape == shape:
        return g
    lead = len(g.shape) - len(shape)
    dims = [*range(lead)]
    dims += [lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1]
    if dims and (number := g.number) is not None:
        return ir.constant(number * prod(g.shape[d] for d in dims), g.dtype, shape)
    g = ir.op("sum", g, dims=dims) if dims else g
    return g if g.shape == shape else ir.op("reshape", g, shape=shape)


# --- elements -------------------------------------------------------------------------------------


def one(call: Any, gradient: Callable[..., Value], shape: Any = floats) -> Row:
    """A row of one operand. Its gradient is `gradient(graph, g, x, y)`, for g that of y."""

    def grad(ir: Ir, op: Op, g: Value) -> Slopes:
        return [gradient(ir, g, op.inputs[0], op.outs[0])]

    return Row(shape, calls(call), grad)


def two(
    call: Any, slopes: Callable[..., tuple[Value | None, Value | None]], shape: Any = numeric_pair
) -> Row:
    """A row of two operands that broadcast: `slopes(graph, gradient, a, b, y)`."""

    def grad(ir: Ir, op: Op, g: Value) -> Slopes:
        a, b = slopes(ir, g, *op.inputs, op.outs[0])
        return [unbroadcast(ir, a, op.inputs[0].shape), unbroadcast(ir, b, op.inputs[1].shape)]

    return Row(shape, calls(call), grad, numbers=True)


def asks(call: Any, n: int = 2, kinds: Sequence[Kind] = ()) -> Row:
    """A row whose answers are BOOL, of one or two operands, of these dtypes or of any."""

    def shape(*values: Value) -> Out:
        need(len(values) == n, f"it was given {len(values)} tensors", f"give {n}.")
        for value in values:
            names = " or ".join(kind.__name__ for kind in kinds)
            advice = f"cast: graph.op('cast', x, dtype={names.split()[0]})." if kinds else ""
            why = f"{value.dtype.__name__} is not {names}"
            need(not kinds or value.dtype in kinds, why, advice)
        return broadcast(*values, dtype=BOOL)

    return Row(shape, calls(call), flat, numbers=n == 2)


def non_linearity(kind: str) -> Row:
    """A row of popnn's non-linearities."""

    def grad(ir: Ir, op: Op, g: Value) -> Slopes:
        by_input = popnn.NonLinearityType[kind].slope_from_input
        seen = op.inputs[0] if by_input else op.outs[0]
        return [ir.op("non_linearity_grad", seen, g, kind=kind)]

    return Row(floats, lambda low, x: low.call(popnn.non_linearity, kind, x), grad)


def _m(ir: Ir, first: Value, *others: Any) -> Value:
    """A product of values and numbers."""
    for other in others:
        first = ir.op("mul", first, other)
    return first


def _extreme(loses: str) -> Callable[..., tuple[Value, Value]]:
    """The gradients of "max", for "lt", and of "min", for "gt": an operand that `loses` has 0.

    Two equal operands have half of the gradient each, as in torch's maximum and minimum.
    """

    def slopes(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
        share = ir.op("select", ir.op("eq", a, b), _m(ir, g, 0.5), g)
        nothing = ir.constant(0.0, g.dtype)
        by_a = ir.op("select", ir.op(loses, a, b), nothing, share)
        return by_a, ir.op("select", ir.op(loses, b, a), nothing, share)

    return slopes


def _power(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value | None]:
    """The gradients of a ** b. At a = 0 neither b a ** (b - 1) nor y log(a) is a number for
    every b; where the power is constant, its gradient is 0."""
    nothing = ir.constant(0.0, g.dtype, g.shape)
    if b.number == 0:
        return nothing, None
    by_a = _m(ir, g, b, ir.op("pow", a, ir.op("sub", b, 1.0)))
    if b.number is None:
        by_a = ir.op("select", ir.op("eq", b, 0.0), nothing, by_a)
    if b.kind == CONSTANT:
        return by_a, None
    is_flat = ir.op("logical_and", ir.op("eq", a, 0.0), ir.op("gteq", b, 0.0))
    log = ir.op("select", is_flat, nothing, ir.op("mul", y, ir.op("log", a)))
    return by_a, ir.op("mul", g, log)


def _quotient(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value | None]:
    share = ir.op("div", g, b)
    return share, None if b.kind == CONSTANT else _m(ir, share, y, -1.0)


def softplus(x: Any) -> Any:
    """The expression of log(1 + exp(x)), of which no part overflows."""
    return expr.Max(x, 0.0) + expr.Log1p(expr.Exp(-expr.Abs(x)))


def _angle(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
    squares = ir.op("add", _m(ir, a, a), _m(ir, b, b))
    is_origin = ir.op("eq", squares, 0.0)
    share = ir.op("div", g, ir.op("select", is_origin, ir.constant(1.0, g.dtype), squares))
    return _m(ir, share, b), _m(ir, share, a, -1.0)


def _select_shape(mask: Value, a: Value, b: Value) -> Out:
    need(mask.dtype is BOOL, f"the mask is {mask.dtype.__name__}", "give a BOOL, as gt makes it.")
    return broadcast(Value(mask.shape, a.dtype), a, b)


def _select(low: Any, mask: Any, a: Any, b: Any) -> Any:
    """One of the two may be a number."""
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = low.constant(low.op.outs[0].dtype, low.op.outs[0].shape, a)
    return low.call(popops.select, a, b, mask)


def _select_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (mask, a, b), nothing = op.inputs, ir.constant(0.0, g.dtype)
    slopes = [ir.op("select", mask, g, nothing), ir.op("select", mask, nothing, g)]
    return [None, *(unbroadcast(ir, s, v.shape) for s, v in zip(slopes, (a, b), strict=True))]


def _clamp_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (x,), how = op.inputs, op.attrs
    inside = ir.op("logical_and", ir.op("gteq", x, how["least"]), ir.op("lteq", x, how["most"]))
    return [ir.op("select", inside, g, ir.constant(0.0, g.dtype))]


def _other_bits(x: Value, dtype: Kind) -> Out:
    sizes = [d.size for d in (x.dtype, dtype)]
    why = f"{x.dtype.__name__} has {sizes[0]} bytes, and {dtype.__name__} {sizes[1]}"
    need(sizes[0] == sizes[1] and dtype is not BOOL, why, CAST)
    return Out(x.shape, dtype)


def _cast_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (x,) = op.inputs
    return [ir.op("cast", g, dtype=x.dtype) if x.floating else None]


OPS |= {
    "neg": Row(numeric, calls(popops.neg), lambda ir, op, g: [ir.op("neg", g)]),
    "abs": one(popops.abs, lambda ir, g, x, y: _m(ir, g, ir.op("signum", x)), numeric),
    "exp": one(popops.exp, lambda ir, g, x, y: _m(ir, g, y)),
    "expm1": one(popops.expm1, lambda ir, g, x, y: _m(ir, g, ir.op("add", y, 1.0))),
    # a quotient: the inverse alone of a small number overflows, in HALF below 2e-5
    "log": one(popops.log, lambda ir, g, x, y: ir.op("div", g, x)),
    "log1p": one(popops.log1p, lambda ir, g, x, y: ir.op("div", g, ir.op("add", x, 1.0))),
    "sqrt": one(popops.sqrt, lambda ir, g, x, y: ir.op("div", _m(ir, g, 0.5), y)),
    "rsqrt": one(popops.rsqrt, lambda ir, g, x, y: _m(ir, g, y, y, y, -0.5)),
    "inv": one(popops.inv, lambda ir, g, x, y: _m(ir, g, y, y, -1.0)),
    "square": one(popops.square, lambda ir, g, x, y: _m(ir, g, 2.0, x), numeric),
    "sin": one(popops.sin, lambda ir, g, x, y: _m(ir, g, ir.op("cos", x))),
    "cos": one(popops.cos, lambda ir, g, x, y: _m(ir, g, ir.op("neg", ir.op("sin", x)))),
    "erf": one(
        popops.erf,
        lambda ir, g, x, y: _m(ir, g, ir.op("exp", _m(ir, x, x, -1.0)), 2 / sqrt(pi)),
    ),
    "softplus": Row(
        floats,
        fused(softplus),
        lambda ir, op, g: [_m(ir, g, ir.op("sigmoid", op.inputs[0]))],
    ),
    "signum": Row(numeric, calls(popops.signum), flat),
    **{
        n: Row(floats, calls(getattr(popops, n)), flat)
        for n in ("floor", "ceil", "round", "nearby_int", "trunc")
    },
    **{n: asks(getattr(popops, n), 1, (FLOAT, HALF)) for n in ("is_nan", "is_finite")},
    "logical_not": asks(popops.logical_not, 1, (BOOL,)),
    "relu": non_linearity("RELU"),
    "sigmoid": non_linearity("SIGMOID"),
    "hard_sigmoid": non_linearity("HARD_SIGMOID"),
    "tanh": non_linearity("TANH"),
    "gelu": non_linearity("GELU_ERF"),
    "gelu_tanh": non_linearity("GELU"),
    "silu": non_linearity("SWISH"),
    "non_linearity_grad": Row(
        keeps(1), lambda low, y, g, kind: low.call(popnn.non_linearity_input_gradient, kind, y, g)
    ),
    "add": two(popops.add, lambda ir, g, a, b, y: (g, g)),
    "sub": two(popops.sub, lambda ir, g, a, b, y: (g, ir.op("neg", g))),
    "mul": two(popops.mul, lambda ir, g, a, b, y: (_m(ir, g, b), _m(ir, g, a))),
    "div": two(popops.div, _quotient),
    "pow": two(popops.pow, _power),
    "max": two(popops.max, _extreme("lt")),
    "min": two(popops.min, _extreme("gt")),
    "atan2": two(popops.atan2, _angle, float_pair),
    "rem": Row(numeric_pair, calls(popops.rem), numbers=True),
    **{
        f"bitwise_{n}": Row(integers, calls(getattr(popops, f"bitwise_{n}")), flat, numbers=True)
        for n in ("and", "or", "xor")
    },
    "shift_left": Row(integers, calls(popops.shift_left), flat, numbers=True),
    "shift_right": Row(integers, calls(popops.shift_right_sign_extend), flat, numbers=True),
    "bitwise_not": Row(integers, calls(popops.bitwise_not), flat),
    **{n: asks(getattr(popops, n)) for n in ("eq", "neq", "lt", "lteq", "gt", "gteq")},
    **{n: asks(getattr(popops, n), 2, (BOOL,)) for n in ("logical_and", "logical_or")},
    "select": Row(
        _select_shape,
        _select,
        _select_grad,
        numbers=True,
    ),
    "clamp": Row(
        lambda x, least, most: numeric(x),
        lambda low, x, least, most: low.call(popops.clamp, x, least, most),
        _clamp_grad,
    ),
    "cast": Row(
        lambda x, dtype: Out(x.shape, dtype),
        lambda low, x, dtype: low.call(popops.cast, x, dtype),
        _cast_grad,
    ),
    "reinterpret": view(_other_bits, lambda low, x, dtype: x.reinterpret(dtype), flat),
    "copy": Row(like, calls(poputil.duplicate), passed),
    "stop": view(like, lambda low, x: x, flat),  # no gradient goes through it
    "print": view(
        lambda x, title: like(x),
        lambda low, x, title: low.prog.add(PrintTensor(title, x)) and x,
        passed,
    ),
}


# --- views ----------------------------------------------------------------------------------------


def _reshape_shape(x: Value, shape: Ints) -> Out:
    found = tuple(map(int, shape))
    if found.count(-1) == 1 and (rest := -prod(found)) and not x.size % rest:
        found = tuple(x.size // rest if n == -1 else n for n in found)
    good = prod(found) == x.size and min(found, default=0) >= 0
    advice = f"give sizes whose product is {x.size:,}."
    need(good, f"{list(x.shape)} cannot be seen as {list(shape)}", advice)
    return Out(found, x.dtype)


def _permute_shape(x: Value, dims: Ints) -> Out:
    good = sorted(dims) == [*range(len(x.shape))]
    need(good, f"{list(dims)} is no order of {len(x.shape)} dimensions", "name each of them once.")
    return Out(tuple(x.shape[d] for d in dims), x.dtype)


def _expand_shape(x: Value, shape: Ints) -> Out:
    good = broadcast(x, Value(tuple(shape), x.dtype)).shape == tuple(shape)
    need(good, f"{list(x.shape)} does not grow to {list(shape)}", poputil.BROADCASTING)
    return Out(tuple(shape), x.dtype)


def _resized(x: Value, axis: int, size: int) -> Out:
    return Out((*x.shape[:axis], size, *x.shape[axis + 1 :]), x.dtype)


def _slice_shape(x: Value, dim: int, begin: int, end: int, step: int = 1) -> Out:
    (axis,) = axes(x, [dim])
    why = f"{begin} to {end} by {step} is no part of dimension {axis}, of {x.shape[axis]}"
    good = 0 <= begin <= end <= x.shape[axis] and step >= 1
    need(good, why, "count from 0, and end within the tensor.")
    return _resized(x, axis, -(-(end - begin) // step))


def _sliced(low: Any, x: Any, dim: int, begin: int, end: int, step: int = 1) -> Any:
    part = x.slice(begin, end, dim % x.rank)
    return part if step == 1 else part.sub_sample(step, dim % x.rank)


def _slice_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    (x,), how = op.inputs, op.attrs
    if how.get("step", 1) > 1:
        return [ir.op("put", g, shape=x.shape, **how)]
    lower, upper = [0] * len(x.shape), [0] * len(x.shape)
    (axis,) = axes(x, [how["dim"]])
    lower[axis], upper[axis] = how["begin"], x.shape[axis] - how["end"]
    return [ir.op("pad", g, lower=tuple(lower), upper=tuple(upper))]


def _put(low: Any, x: Any, shape: Shape, **how: int) -> Any:
    whole = low.new(x.dtype, shape)
    low.call(popops.zero, whole)
    low.prog.add(Copy(x, _sliced(low, whole, **how)))
    return whole


def _concat_shape(*values: Value, dim: int) -> Out:
    alike(*values)
    (axis,) = axes(values[0], [dim])
    rest = {(len(v.shape), *v.shape[:axis], *v.shape[axis + 1 :]) for v in values}
    why = f"the tensors differ in more than dimension {axis}"
    need(len(rest) == 1, why, "give tensors alike but for it.")
    return _resized(values[0], axis, sum(v.shape[axis] for v in values))


def _concat_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    axis = op.attrs["dim"] % len(g.shape)
    ends = np.cumsum([0, *(v.shape[axis] for v in op.inputs)]).tolist()
    return [
        ir.op("slice", g, dim=axis, begin=a, end=b) for a, b in zip(ends, ends[1:], strict=False)
    ]


def _pad_shape(x: Value, lower: Ints, upper: Ints, value: Extended = 0.0) -> Out:
    good = len(lower) == len(upper) == len(x.shape) and min((*lower, *upper), default=0) >= 0
    need(good, "the margins do not fit", "give two lists with 0 or more for each dimension.")
    return Out(tuple(a + n + b for a, n, b in zip(lower, x.shape, upper, strict=True)), x.dtype)


def _pad_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    for dim, (first, n) in enumerate(zip(op.attrs["lower"], op.inputs[0].shape, strict=True)):
        if n != g.shape[dim]:
            g = ir.op("slice", g, dim=dim, begin=first, end=first + n)
    return [g]


def _permute_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    return [ir.op("permute", g, dims=tuple(np.argsort(op.attrs["dims"]).tolist()))]


def _put_grad(ir: Ir, op: Op, g: Value) -> Slopes:
    return [ir.op("slice", g, **{k: v for k, v in op.attrs.items() if k != "shape"})]


OPS |= {
    "reshape": view(
        _reshape_shape,
        lambda low, x, shape: x.reshape(low.op.outs[0].shape),
        lambda ir, op, g: [ir.op("reshape", g, shape=op.inputs[0].shape)],
    ),
    "permute": view(_permute_shape, lambda low, x, dims: x.dim_shuffle(list(dims)), _permute_grad),
    "expand": view(
        _expand_shape,
        lambda low, x, shape: poputil.broadcast_to_match(x, tuple(shape)),
        lambda ir, op, g: [unbroadcast(ir, g, op.inputs[0].shape)],
    ),
    "slice": view(_slice_shape, _sliced, _slice_grad),
    "put": Row(shaped, _put, _put_grad),
    "reverse": view(
        lambda x, dim: like(x) if axes(x, [dim]) else None,
        lambda low, x, dim: x.reverse(dim % x.rank),
        lambda ir, op, g: [ir.op("reverse", g, dim=op.attrs["dim"])],
    ),
    "concat": view(
        _concat_shape, lambda low, *x, dim: concat(list(x), dim % x[0].rank), _concat_grad
    ),
    "pad": view(
        _pad_shape,
        lambda low, x, lower, upper, **v: popops.pad(low.graph, x, [*lower], [*upper], **v),
        _pad_grad,
    ),
}


# --- reductions -----------------------------------------------------------------------------------


def _reduced(x: Value, dims: Ints) -> Out:
    numeric(x)
    gone = axes(x, dims)
    return Out(tuple(n for i, n in enumerate(x.shape) if i not in gone), x.dtype)


def _extreme_shape(x: Value, dims: Ints) -> Out:
    out = _reduced(x, dims)
    has_extremes = x.size > 0 or 0 in out.shape
    need(has_extremes, "no elements have no extreme", "give a tensor with elements.")
    return out


def _reduce(operation: str, grad: Any, shape: Any = _reduced) -> Row:
    def lower(low: Any, x: Any, dims: Ints) -> Any:
        gone = [d % x.rank for d in dims]
        return low.call(popops.reduce, x, gone, operation=operation) if gone else x

    return Row(shape, lower, grad)


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
    """For each factor the product of the others: by a quotient where no factor is 0. Of a single 0
    that is the product of the rest; beside a 0, and of several, it is 0."""
    (x,), dims = op.inputs, op.attrs["dims"]
    nothing, zero = ir.constant(0.0, x.dtype), ir.op("eq", x, 0.0)
    factors = ir.op("select", zero, ir.constant(1.0, x.dtype), x)
    product = _m(ir, g, ir.op("reduce_prod", factors, dims=dims))
    zeros = ir.op("sum", ir.op("cast", zero, dtype=x.dtype), dims=dims)
    without, alone = (
        _seen_again(ir, op, ir.op("select", ir.op("eq", zeros, count), product, nothing))
        for count in (0.0, 1.0)
    )
    return [ir.op("select", zero, alone, ir.op("div", without, factors))]


def _of_rows(x: Value) -> Out:
    numeric(with_rows(x))
    return Out(x.shape[:-1], UNSIGNED_INT)


def _top_shape(x: Value, k: int, largest: bool = True) -> list[Out]:
    rows, n = _of_rows(x).shape, x.shape[-1]
    need(1 <= k <= n, f"k is {k}, and a row has {n}", f"give a k from 1 to {n}.")
    return [Out((*rows, k), x.dtype), Out((*rows, k), UNSIGNED_INT)]


def _top_k(low: Any, x: Any, k: int, largest: bool = True) -> Any:
    return low.call(popops.top_k_with_permutation, popops.TopKParams(k, largest), x)


def _top_grad(ir: Ir, op: Op, g: Value, _: Value | None) -> Slopes:
    """To each place its gradient, and 0 to what was left out."""
    x, places = op.inputs[0], op.outs[1]
    rows = np.arange(0, x.size, x.shape[-1]).reshape((*x.shape[:-1], 1))
    at = ir.op("add", places, ir.constant(rows, UNSIGNED_INT))
    flat, given = (ir.op("reshape", v, shape=s) for v, s in ((at, (-1,)), (g, (-1, 1))))
    made = ir.op("scatter", flat, given, shape=(x.size, 1))
    return [ir.op("reshape", made, shape=x.shape)]


def _one_hot(low: Any, x: Any, classes: int, dtype: Kind) -> Any:
    made = low.new(dtype, (x.num_elements, classes))
    low.call(popops.encode_one_hot, x.flatten(), made)
    return made.reshape((*x.shape, classes))


OPS |= {
    "sum": _reduce("ADD", lambda ir, op, g: [_seen_again(ir, op, g)]),
    "reduce_max": _reduce("MAX", _extreme_grad, _extreme_shape),
    "reduce_min": _reduce("MIN", _extreme_grad, _extreme_shape),
    "reduce_prod": _reduce("MUL", _product_grad),
    "arg_max": Row(_of_rows, calls(popops.arg_max), flat),
    "arg_min": Row(_of_rows, calls(popops.arg_min), flat),
    "top_k": Row(_top_shape, _top_k, _top_grad),
    "one_hot": Row(lambda x, classes, dtype: Out((*x.shape, classes), dtype), _one_hot, flat),
}


# --- drawn numbers --------------------------------------------------------------------------------
# The seed is an input, so that what is computed again draws the same; `modifier` tells rows apart.


def _drawn(seed: Value, shape: Shape, dtype: Kind = FLOAT, **_: Any) -> Out:
    good = seed.dtype is UNSIGNED_INT and seed.shape == (2,)
    need(good, "its seed is no two UNSIGNED_INT", "give ir.seed(graph).")
    return Out(tuple(shape), dtype)


def _dropout(
    low: Any, seed: Any, shape: Shape, keep: float, modifier: int, dtype: Kind = FLOAT
) -> Any:
    ones = low.constant(dtype, shape, 1.0)
    return low.call(poprand.dropout, seed, modifier, ones, ones, keep, 1 / keep)


def _draws(call: Any) -> Row:
    def lower(low: Any, seed: Any, shape: Shape, modifier: int, dtype: Kind = FLOAT) -> Any:
        return low.call(call, seed, modifier, low.constant(dtype, shape, 0.0), dtype, 0.0, 1.0)

    return Row(_drawn, lower, flat)


OPS |= {
    "dropout_mask": Row(_drawn, _dropout, flat),  # 1 / keep, or 0
    "uniform": _draws(poprand.uniform),
    "normal": _draws(poprand.normal),
}


# --- replicas, and streaming memory ---------------------------------------------------------------


def _all_reduce(low: Any, *x: Any, op: str) -> list[Any]:
    made = low.call(gcl.all_reduce_cross_replica, list(x), op)
    return [y.reshape(t.shape) for y, t in zip(made, x, strict=True)]


def _own_share(low: Any, x: Any, count: int) -> Any:
    share = -(-x.num_elements // count)
    margin = [share * count - x.num_elements]
    rows = popops.pad(low.graph, x.flatten(), [0], margin).reshape((count, share))
    return low.call(popops.dynamic_slice, rows, low.replica(), [0], [1]).flatten()


def _share(x: Value, count: int, **_: Any) -> Out:
    return Out((-(-x.size // count),), x.dtype)


OPS |= {
    "all_reduce": Row(lambda *x, op: [like(v) for v in x], _all_reduce),
    "reduce_scatter": Row(
        _share, lambda low, x, op, count: low.call(gcl.reduce_scatter_cross_replica, x, op)
    ),
    "own_share": Row(_share, _own_share),
    "all_gather": Row(
        lambda x, count: Out((count, *x.shape), x.dtype),
        lambda low, x, count: low.call(gcl.all_gather_cross_replica, x),
    ),
    "load": view(like, lambda low, x: x, passed),
}


# --- what changes a variable ----------------------------------------------------------------------


def changes(lower: Any, lays: Any = None) -> Row:
    """A row that changes its first input, a variable, by others of its shape."""

    def shape(variable: Value, *others: Value, **attrs: Any) -> list[Out]:
        shapes = [list(v.shape) for v in (variable, *others)[:2]]
        why = f"shapes {shapes[0]} and {shapes[-1]} differ"
        need(shapes[0] == shapes[-1], why, "give an element for each.")
        return []

    return Row(shape, lower, in_place=True, lays=lays)


def _blend(low: Any, v: Any, x: Any, momentum: float) -> None:
    low.call(popops.map_in_place, expr._1 * (1 - momentum) + expr._2 * momentum, [v, x])


def _step(call: Any, *names: str) -> Row:
    def lower(low: Any, w: Any, g: Any, rate: Any, *state: Any, **numbers: float) -> None:
        low.call(call, w, g, rate, state=dict(zip(names, state, strict=True)), **numbers)

    def lays(low: Any, op: Op, place: int) -> Any:
        if place < 3 or not op.inputs[place].shape:
            return None
        return poputil.clone(low.graph, low.seen(op.inputs[0]), low.called, FLOAT)

    return changes(lower, lays)


def _like_last(low: Any, op: Op, place: int) -> Any:
    """As what is assigned, or the parameter whose gradients are summed."""
    other = low.seen(op.inputs[-1])
    return None if place or other is None else poputil.clone(low.graph, other, low.called)


OPS |= {
    "assign": changes(lambda low, v, x: low.prog.add(Copy(x, v)), _like_last),
    "accumulate": changes(lambda low, v, x, *w: low.call(popops.add_in_place, v, x), _like_last),
    "clear": changes(calls(popops.zero)),
    "blend": changes(_blend),
    "next_seed": changes(lambda low, seed: low.call(popops.add_in_place, seed[0], 1)),
    "sgd": _step(optim.sgd),
    "momentum": _step(optim.sgd, "velocity"),
    "adam": _step(optim.adam, "first", "second", "step"),
    "adamw": _step(optim.adamw, "first", "second", "step"),
    "lars": _step(optim.lars, "velocity"),
}
