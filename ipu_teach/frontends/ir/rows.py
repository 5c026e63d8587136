"""Definitions of operations: for each kind, the result's shape, the PopLibs calls and the gradient.

This module defines elementwise operations, views, reductions, random numbers, communication between
replicas, and operations that change a variable. Matrix products, layers and losses are in
`rows_nn`. A definition is a `Row`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import pi, prod, sqrt

import numpy as np

from ipu_teach.arguments import Count, Extended
from ipu_teach.frontends.ir.attributes import Attribute, Element
from ipu_teach.frontends.ir.lowering import Lowering
from ipu_teach.frontends.ir.values import CONSTANT, OPS, Ir, Op, Out, Row, Shape, Unfit, Value
from ipu_teach.graph import Tensor, concat
from ipu_teach.poplibs import gcl, optim, popnn, popops, poprand, poputil
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.in_float import in_float
from ipu_teach.program import Copy, PrintTensor
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

InputGrads = list[Value | None]
Ints = Sequence[int]
Kind = type[DType]
Shaper = Callable[..., Out]  # The type of `Row.shape`.
Lower = Callable[..., Tensor | Sequence[Tensor] | None]  # The type of `Row.lower`.
Grad = Callable[..., InputGrads]  # The type of `Row.grad`.
Operand = Tensor | float  # A tensor argument of `Row.lower` if `Row.numbers` is true.
CAST = "convert the tensor: graph.op('cast', x, dtype=FLOAT), or in PyTorch x.float()."


def require(is_valid: bool, why: str, advice: str) -> None:
    """Raise `Unfit` with the reason `why` and the advice `advice` unless `is_valid` is True."""
    if not is_valid:
        raise Unfit(why, advice)


def like_operand(x: Value) -> Out:
    """Return an `Out` with the shape and dtype of `x`."""
    return Out(x.shape, x.dtype)


def like_input(place: int) -> Shaper:
    """Return a `shape` function for results with the shape and dtype of input number `place`.

    The function checks nothing, because only gradients use it.
    """

    def shape(*values: Value, **attrs: Attribute) -> Out:
        return like_operand(values[place])

    return shape


def with_shape(x: Value, shape: Ints, **attrs: Attribute) -> Out:
    """Return an `Out` with the shape `shape` and the dtype of `x`."""
    return Out(tuple(shape), x.dtype)


def floats(x: Value) -> Out:
    """Return an `Out` with the shape and dtype of `x`. Raises `Unfit` if `x` has no float dtype."""
    require(x.floating, f"{x.dtype.__name__} is not a float dtype", CAST)
    return like_operand(x)


def numeric(x: Value) -> Out:
    """Return an `Out` with the shape and dtype of `x`. Raises `Unfit` if `x` is BOOL."""
    require(x.dtype is not BOOL, "BOOL is not a numeric dtype", CAST)
    return like_operand(x)


def with_rows(x: Value) -> Value:
    """Return `x`. Raises `Unfit` if `x` has no last dimension, or if that dimension is empty."""
    require(len(x.shape) > 0, "a scalar has no last dimension", "pass a tensor with dimensions.")
    require(x.shape[-1] > 0, "the last dimension is empty", "pass a tensor with elements.")
    return x


def check_dtypes(*values: Value) -> None:
    """Raise `Unfit` if the values have different dtypes."""
    names = [v.dtype.__name__ for v in values]
    require(len({*names}) == 1, f"the dtypes {' and '.join(names)} differ", CAST)


def broadcast(*values: Value, dtype: Kind | None = None) -> Out:
    """Return an `Out` with the shape to which all inputs broadcast.

    The dtype is `dtype`, or the inputs' dtype if `dtype` is None. Raises `Unfit` if the dtypes
    differ, or if the shapes do not broadcast.
    """
    check_dtypes(*values)
    try:
        return Out(np.broadcast_shapes(*(v.shape for v in values)), dtype or values[0].dtype)
    except ValueError:
        shapes = " and ".join(str(list(v.shape)) for v in values)
        raise Unfit(f"the shapes {shapes} do not broadcast", poputil.BROADCASTING) from None


def pair(a: Value, b: Value) -> Out:
    """Return an `Out` with the shape to which `a` and `b` broadcast, and with their dtype.

    Raises `Unfit` if the dtypes differ, or if the shapes do not broadcast.
    """
    return broadcast(a, b)


def integers(x: Value, *others: Value) -> Out:
    """Return an `Out` with the shape to which the inputs broadcast, and with their integer dtype.

    Raises `Unfit` if the inputs are not integers of the same dtype, or if they do not broadcast.
    """
    why = f"{x.dtype.__name__} is not an integer dtype"
    advice = "convert the tensor: graph.op('cast', x, dtype=INT), or in PyTorch x.int()."
    require(x.dtype in (INT, UNSIGNED_INT), why, advice)
    return broadcast(x, *others)


def numeric_pair(a: Value, b: Value) -> Out:
    """Return an `Out` with the shape to which two numeric inputs broadcast, and with their dtype.

    Raises `Unfit` if `a` is BOOL, if the dtypes differ, or if the shapes do not broadcast.
    """
    numeric(a)
    return pair(a, b)


def float_pair(a: Value, b: Value) -> Out:
    """Return an `Out` with the shape to which two float inputs broadcast, and with their dtype.

    Raises `Unfit` if `a` does not contain floats, if the dtypes differ, or if the shapes do not
    broadcast.
    """
    floats(a)
    return pair(a, b)


def axes(x: Value, dims: Ints) -> list[int]:
    """Return the dimensions `dims` sorted, without duplicates, and numbered from 0.

    Raises `Unfit` for a dimension that `x` does not have.
    """
    rank = len(x.shape)
    is_valid = all(-rank <= d < rank for d in dims)
    why = f"{list(dims)} contains a dimension that a tensor of {rank} dimensions does not have"
    require(is_valid, why, f"use dimensions from {-rank} to {rank - 1}." if rank else "use [].")
    return sorted({d % rank for d in dims})


def no_gradients(ir: Ir, op: Op, *gs: Value | None) -> InputGrads:
    """Return None for each input, because no gradient passes through the operation."""
    return [None] * len(op.inputs)


def same_gradient(ir: Ir, op: Op, g: Value) -> InputGrads:
    """Return [g]: the gradient of the input equals the gradient `g` of the result."""
    return [g]


def library_call(function: Callable[..., Tensor | Sequence[Tensor] | None]) -> Lower:
    """Return a `lower` function that calls a PopLibs function with the tensors and attributes."""

    def lower(
        low: Lowering, *tensors: Tensor, **attrs: Attribute
    ) -> Tensor | Sequence[Tensor] | None:
        return low.call(function, *tensors, **attrs)

    return lower


def fused_call(expression: Callable[..., expr.Expr]) -> Lower:
    """Return a `lower` function that computes an expression in FLOAT and rounds its result once.

    The inputs are the tensors of the expression. The result has the dtype of the operation's
    result.
    """

    def lower(low: Lowering, *tensors: Tensor) -> Tensor:
        result, operands = in_float(expression, *tensors, out=low.op.outs[0].dtype)
        return low.call(popops.map, result, operands)

    return lower


def view_row(shape: Shaper, lower: Lower, grad: Grad) -> Row:
    """Return the definition of a view: an operation whose result shares memory with its input."""
    return Row(shape, lower, grad, view=True)


def unbroadcast(ir: Ir, g: Value | None, shape: Shape) -> Value | None:
    """Return the gradient `g`, summed over the dimensions along which the input was broadcast.

    `shape` is the shape of the input. If `g` is None, return None.
    """
    if g is None or g.shape == shape:
        return g
    added_rank = len(g.shape) - len(shape)
    summed_dims = [*range(added_rank)]
    summed_dims += [
        added_rank + i for i, n in enumerate(shape) if n == 1 and g.shape[added_rank + i] != 1
    ]
    if summed_dims and (number := g.number) is not None:
        return ir.constant(number * prod(g.shape[d] for d in summed_dims), g.dtype, shape)
    g = ir.op("sum", g, dims=summed_dims) if summed_dims else g
    return g if g.shape == shape else ir.op("reshape", g, shape=shape)


# --- elements -------------------------------------------------------------------------------------


def unary(
    call: Callable[..., Tensor], gradient: Callable[..., Value], shape: Shaper = floats
) -> Row:
    """Return the definition of an operation with one input x and the result y.

    `gradient(graph, g, x, y)` returns the gradient of x for the gradient g of y.
    """

    def grad(ir: Ir, op: Op, g: Value) -> InputGrads:
        return [gradient(ir, g, op.inputs[0], op.outs[0])]

    return Row(shape, library_call(call), grad)


def binary(
    call: Callable[..., Tensor],
    gradients: Callable[..., tuple[Value | None, Value | None]],
    shape: Shaper = numeric_pair,
) -> Row:
    """Return the definition of an operation of two inputs a and b, which broadcast to the result y.

    `gradients(graph, g, a, b, y)` returns the gradients of a and b before they are summed over the
    broadcast dimensions.
    """

    def grad(ir: Ir, op: Op, g: Value) -> InputGrads:
        a, b = gradients(ir, g, *op.inputs, op.outs[0])
        return [unbroadcast(ir, a, op.inputs[0].shape), unbroadcast(ir, b, op.inputs[1].shape)]

    return Row(shape, library_call(call), grad, numbers=True)


def predicate(call: Callable[..., Tensor], n: int = 2, dtypes: Sequence[Kind] = ()) -> Row:
    """Return the definition of an operation with a BOOL result.

    `n` is the number of inputs, 1 or 2. `dtypes` are the permitted dtypes of an input; an empty
    tuple permits all dtypes.
    """

    def shape(*values: Value) -> Out:
        why = f"the operation was given {len(values)} tensors instead of {n}"
        require(len(values) == n, why, f"pass {n}.")
        for value in values:
            names = " or ".join(dtype.__name__ for dtype in dtypes)
            advice = ""
            if dtypes:
                advice = f"convert the tensor: graph.op('cast', x, dtype={names.split()[0]})."
            why = f"the input is {value.dtype.__name__} instead of {names}"
            require(not dtypes or value.dtype in dtypes, why, advice)
        return broadcast(*values, dtype=BOOL)

    return Row(shape, library_call(call), no_gradients, numbers=n == 2)


def non_linearity(kind: str) -> Row:
    """Return the definition of the non-linearity that popnn calls `kind`."""

    def grad(ir: Ir, op: Op, g: Value) -> InputGrads:
        by_input = popnn.NonLinearityType[kind].slope_from_input
        argument = op.inputs[0] if by_input else op.outs[0]
        return [ir.op("non_linearity_grad", argument, g, kind=kind)]

    def lower(low: Lowering, x: Tensor) -> Tensor:
        return low.call(popnn.non_linearity, kind, x)

    return Row(floats, lower, grad)


def _product(ir: Ir, value: Value, *factors: Value | float) -> Value:
    """Return the product of `value` and all `factors`."""
    product = value
    for factor in factors:
        product = ir.op("mul", product, factor)
    return product


def _extreme(loses: str) -> Callable[..., tuple[Value, Value]]:
    """Return a function that computes the gradients of both operands of "max" or "min".

    `loses` is "lt" for "max" and "gt" for "min". An operand for which the comparison `loses` with
    the other operand is true is not the result, so its gradient is 0. Equal operands get half of
    the gradient each, as in torch.maximum and torch.minimum.
    """

    def gradients(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
        tie_grad = ir.op("select", ir.op("eq", a, b), _product(ir, g, 0.5), g)
        no_grad = ir.constant(0.0, g.dtype)
        a_grad = ir.op("select", ir.op(loses, a, b), no_grad, tie_grad)
        return a_grad, ir.op("select", ir.op(loses, b, a), no_grad, tie_grad)

    return gradients


def _power(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value | None]:
    """Return the gradients of `a` and `b` for y = a ** b; None for `b` if it is constant.

    The formulas are g b a ** (b - 1) and g y log(a). At a = 0 they may be NaN or infinite. So the
    gradient of `a` is set to 0 where b = 0, and the gradient of `b` is set to 0 where a = 0 and b
    >= 0.
    """
    no_grad = ir.constant(0.0, g.dtype, g.shape)
    if b.number == 0:
        return no_grad, None
    a_grad = _product(ir, g, b, ir.op("pow", a, ir.op("sub", b, 1.0)))
    if b.number is None:
        a_grad = ir.op("select", ir.op("eq", b, 0.0), no_grad, a_grad)
    if b.kind == CONSTANT:
        return a_grad, None
    is_flat = ir.op("logical_and", ir.op("eq", a, 0.0), ir.op("gteq", b, 0.0))
    log_factor = ir.op("select", is_flat, no_grad, ir.op("mul", y, ir.op("log", a)))
    return a_grad, ir.op("mul", g, log_factor)


def _quotient(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value | None]:
    """Return the gradients of a and b for y = a / b; None for b if it is constant."""
    a_grad = ir.op("div", g, b)
    if b.kind == CONSTANT:
        return a_grad, None
    return a_grad, _product(ir, a_grad, y, -1.0)


def softplus(x: expr.Expr) -> expr.Expr:
    """Return the expression log(1 + exp(x)) in a form that does not overflow."""
    return expr.Max(x, 0.0) + expr.Log1p(expr.Exp(-expr.Abs(x)))


def _angle(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
    """Return the gradients of `a` and `b` for y = atan2(a, b). Both are 0 where a = b = 0."""
    squared_radius = ir.op("add", _product(ir, a, a), _product(ir, b, b))
    is_origin = ir.op("eq", squared_radius, 0.0)
    scaled_grad = ir.op(
        "div", g, ir.op("select", is_origin, ir.constant(1.0, g.dtype), squared_radius)
    )
    return _product(ir, scaled_grad, b), _product(ir, scaled_grad, a, -1.0)


def _select_shape(mask: Value, a: Value, b: Value) -> Out:
    """Return an `Out` with the dtype of `a` and the shape to which all inputs broadcast."""
    why = f"the mask is {mask.dtype.__name__}, and not BOOL"
    require(mask.dtype is BOOL, why, "pass the result of a comparison, such as 'gt', as the mask.")
    return broadcast(Value(mask.shape, a.dtype), a, b)


def _select(low: Lowering, mask: Tensor, a: Operand, b: Operand) -> Tensor:
    """Return the result of "select": `a` where `mask` is true, and `b` elsewhere.

    If both `a` and `b` are numbers, `a` becomes a constant tensor, because popops.select needs a
    tensor in addition to the mask.
    """
    if not isinstance(a, Tensor) and not isinstance(b, Tensor):
        a = low.constant(low.op.outs[0].dtype, low.op.outs[0].shape, a)
    return low.call(popops.select, a, b, mask)


def _select_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    mask, a, b = op.inputs
    no_grad = ir.constant(0.0, g.dtype)
    a_grad = ir.op("select", mask, g, no_grad)
    b_grad = ir.op("select", mask, no_grad, g)
    return [None, unbroadcast(ir, a_grad, a.shape), unbroadcast(ir, b_grad, b.shape)]


def _clamp(low: Lowering, x: Tensor, least: float, most: float) -> Tensor:
    return low.call(popops.clamp, x, least, most)


def _clamp_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    (x,) = op.inputs
    is_above = ir.op("gteq", x, op.attrs["least"])
    is_inside = ir.op("logical_and", is_above, ir.op("lteq", x, op.attrs["most"]))
    return [ir.op("select", is_inside, g, ir.constant(0.0, g.dtype))]


def _reinterpret_shape(x: Value, dtype: Kind) -> Out:
    sizes = [d.size for d in (x.dtype, dtype)]
    why = f"{x.dtype.__name__} has {sizes[0]} bytes, but {dtype.__name__} has {sizes[1]}"
    require(sizes[0] == sizes[1] and dtype is not BOOL, why, CAST)
    return Out(x.shape, dtype)


def _print(low: Lowering, x: Tensor, title: str) -> Tensor:
    low.prog.add(PrintTensor(title, x))
    return x


def _non_linearity_grad(low: Lowering, y: Tensor, g: Tensor, kind: str) -> Tensor:
    return low.call(popnn.non_linearity_input_gradient, kind, y, g)


def _softplus_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [_product(ir, g, ir.op("sigmoid", op.inputs[0]))]


def _abs_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return _product(ir, g, ir.op("signum", x))


def _expm1_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return _product(ir, g, ir.op("add", y, 1.0))


def _log1p_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return ir.op("div", g, ir.op("add", x, 1.0))


def _sqrt_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return ir.op("div", _product(ir, g, 0.5), y)


def _rsqrt_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    cube = (y, y, y)
    return _product(ir, g, *cube, -0.5)


def _inv_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    square = (y, y)
    return _product(ir, g, *square, -1.0)


def _sin_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return _product(ir, g, ir.op("cos", x))


def _cos_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return _product(ir, g, ir.op("neg", ir.op("sin", x)))


def _mul_grads(ir: Ir, g: Value, a: Value, b: Value, y: Value) -> tuple[Value, Value]:
    return _product(ir, g, b), _product(ir, g, a)


def _erf_grad(ir: Ir, g: Value, x: Value, y: Value) -> Value:
    return _product(ir, g, ir.op("exp", _product(ir, x, x, -1.0)), 2 / sqrt(pi))


def _cast(low: Lowering, x: Tensor, dtype: Kind) -> Tensor:
    return low.call(popops.cast, x, dtype)


def _cast_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    (x,) = op.inputs
    return [ir.op("cast", g, dtype=x.dtype) if x.floating else None]


OPS |= {
    "neg": Row(numeric, library_call(popops.neg), lambda ir, op, g: [ir.op("neg", g)]),
    "abs": unary(popops.abs, _abs_grad, numeric),
    "exp": unary(popops.exp, lambda ir, g, x, y: _product(ir, g, y)),
    "expm1": unary(popops.expm1, _expm1_grad),
    # The gradient is computed as g / x. In HALF, 1 / x would overflow for an x below 2e-5, and so
    # would g * (1 / x).
    "log": unary(popops.log, lambda ir, g, x, y: ir.op("div", g, x)),
    "log1p": unary(popops.log1p, _log1p_grad),
    "sqrt": unary(popops.sqrt, _sqrt_grad),
    "rsqrt": unary(popops.rsqrt, _rsqrt_grad),
    "inv": unary(popops.inv, _inv_grad),
    "square": unary(popops.square, lambda ir, g, x, y: _product(ir, g, 2.0, x), numeric),
    "sin": unary(popops.sin, _sin_grad),
    "cos": unary(popops.cos, _cos_grad),
    "erf": unary(popops.erf, _erf_grad),
    "softplus": Row(
        floats,
        fused_call(softplus),
        _softplus_grad,
    ),
    "signum": Row(numeric, library_call(popops.signum), no_gradients),
    **{
        n: Row(floats, library_call(getattr(popops, n)), no_gradients)
        for n in ("floor", "ceil", "round", "nearby_int", "trunc")
    },
    **{n: predicate(getattr(popops, n), 1, (FLOAT, HALF)) for n in ("is_nan", "is_finite")},
    "logical_not": predicate(popops.logical_not, 1, (BOOL,)),
    "relu": non_linearity("RELU"),
    "sigmoid": non_linearity("SIGMOID"),
    "hard_sigmoid": non_linearity("HARD_SIGMOID"),
    "tanh": non_linearity("TANH"),
    "gelu": non_linearity("GELU_ERF"),
    "gelu_tanh": non_linearity("GELU"),
    "silu": non_linearity("SWISH"),
    "non_linearity_grad": Row(like_input(1), _non_linearity_grad),
    "add": binary(popops.add, lambda ir, g, a, b, y: (g, g)),
    "sub": binary(popops.sub, lambda ir, g, a, b, y: (g, ir.op("neg", g))),
    "mul": binary(popops.mul, _mul_grads),
    "div": binary(popops.div, _quotient),
    "pow": binary(popops.pow, _power),
    "max": binary(popops.max, _extreme("lt")),
    "min": binary(popops.min, _extreme("gt")),
    "atan2": binary(popops.atan2, _angle, float_pair),
    "rem": Row(numeric_pair, library_call(popops.rem), numbers=True),
    **{
        f"bitwise_{n}": Row(
            integers, library_call(getattr(popops, f"bitwise_{n}")), no_gradients, numbers=True
        )
        for n in ("and", "or", "xor")
    },
    "shift_left": Row(integers, library_call(popops.shift_left), no_gradients, numbers=True),
    "shift_right": Row(
        integers, library_call(popops.shift_right_sign_extend), no_gradients, numbers=True
    ),
    "bitwise_not": Row(integers, library_call(popops.bitwise_not), no_gradients),
    **{n: predicate(getattr(popops, n)) for n in ("eq", "neq", "lt", "lteq", "gt", "gteq")},
    **{n: predicate(getattr(popops, n), 2, (BOOL,)) for n in ("logical_and", "logical_or")},
    "select": Row(
        _select_shape,
        _select,
        _select_grad,
        numbers=True,
    ),
    "clamp": Row(
        lambda x, least, most: numeric(x),
        _clamp,
        _clamp_grad,
    ),
    "cast": Row(
        lambda x, dtype: Out(x.shape, dtype),
        _cast,
        _cast_grad,
    ),
    "reinterpret": view_row(
        _reinterpret_shape, lambda low, x, dtype: x.reinterpret(dtype), no_gradients
    ),
    "copy": Row(like_operand, library_call(poputil.duplicate), same_gradient),
    # No gradient passes through "stop".
    "stop": view_row(like_operand, lambda low, x: x, no_gradients),
    "print": view_row(lambda x, title: like_operand(x), _print, same_gradient),
}


# --- views ----------------------------------------------------------------------------------------


def _reshape_shape(x: Value, shape: Ints) -> Out:
    """Return the shape of "reshape". If a size is -1, it is computed from the other sizes."""
    sizes = tuple(map(int, shape))
    if sizes.count(-1) == 1 and (rest := -prod(sizes)) and not x.size % rest:
        sizes = tuple(x.size // rest if n == -1 else n for n in sizes)
    is_valid = prod(sizes) == x.size and min(sizes, default=0) >= 0
    advice = f"use sizes whose product is {x.size:,}."
    require(is_valid, f"{list(x.shape)} cannot be reshaped to {list(shape)}", advice)
    return Out(sizes, x.dtype)


def _reshape(low: Lowering, x: Tensor, shape: Ints) -> Tensor:
    return x.reshape(low.op.outs[0].shape)


def _reshape_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("reshape", g, shape=op.inputs[0].shape)]


def _permute_shape(x: Value, dims: Ints) -> Out:
    rank = len(x.shape)
    why = f"{list(dims)} is not a permutation of {rank} dimensions"
    require(sorted(dims) == [*range(rank)], why, f"use each number from 0 to {rank - 1} once.")
    return Out(tuple(x.shape[d] for d in dims), x.dtype)


def _expand_shape(x: Value, shape: Ints) -> Out:
    is_valid = broadcast(x, Value(tuple(shape), x.dtype)).shape == tuple(shape)
    why = f"{list(x.shape)} does not broadcast to {list(shape)}"
    require(is_valid, why, poputil.BROADCASTING)
    return Out(tuple(shape), x.dtype)


def _expand(low: Lowering, x: Tensor, shape: Ints) -> Tensor:
    return poputil.broadcast_to_match(x, tuple(shape))


def _expand_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [unbroadcast(ir, g, op.inputs[0].shape)]


def _resized(x: Value, axis: int, length: int) -> Out:
    """Return the shape and dtype of `x`, with the length `length` in dimension `axis`."""
    return Out((*x.shape[:axis], length, *x.shape[axis + 1 :]), x.dtype)


def _slice_shape(x: Value, dim: int, begin: int, end: int, step: int = 1) -> Out:
    (axis,) = axes(x, [dim])
    length = x.shape[axis]
    why = f"the slice {begin}:{end}:{step} is outside of dimension {axis}, whose length is {length}"
    is_valid = 0 <= begin <= end <= length and step >= 1
    require(is_valid, why, f"use 0 <= begin <= end <= {length}, and a step of at least 1.")
    return _resized(x, axis, -(-(end - begin) // step))


def _sliced(low: Lowering, x: Tensor, dim: int, begin: int, end: int, step: int = 1) -> Tensor:
    contiguous = x.slice(begin, end, dim % x.rank)
    return contiguous if step == 1 else contiguous.sub_sample(step, dim % x.rank)


def _slice_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    (x,) = op.inputs
    attrs = op.attrs
    if attrs.get("step", 1) > 1:
        return [ir.op("put", g, shape=x.shape, **attrs)]
    lower = [0] * len(x.shape)
    upper = [0] * len(x.shape)
    (axis,) = axes(x, [attrs["dim"]])
    lower[axis] = attrs["begin"]
    upper[axis] = x.shape[axis] - attrs["end"]
    return [ir.op("pad", g, lower=tuple(lower), upper=tuple(upper))]


def _put(low: Lowering, x: Tensor, shape: Shape, **slice_attrs: int) -> Tensor:
    """Return a tensor of zeros in which `x` replaces a slice.

    `slice_attrs` are the attributes of the operation "slice" that would select `x`.
    """
    result = low.new(x.dtype, shape)
    low.call(popops.zero, result)
    low.prog.add(Copy(x, _sliced(low, result, **slice_attrs)))
    return result


def _reverse_shape(x: Value, dim: int) -> Out:
    axes(x, [dim])
    return like_operand(x)


def _reverse_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("reverse", g, dim=op.attrs["dim"])]


def _concat_shape(*values: Value, dim: int) -> Out:
    check_dtypes(*values)
    (axis,) = axes(values[0], [dim])
    other_shapes = {(len(v.shape), *v.shape[:axis], *v.shape[axis + 1 :]) for v in values}
    why = f"the shapes of the tensors differ in other dimensions than {axis}"
    advice = f"pass tensors whose lengths differ only in dimension {axis}."
    require(len(other_shapes) == 1, why, advice)
    return _resized(values[0], axis, sum(v.shape[axis] for v in values))


def _concat(low: Lowering, *x: Tensor, dim: int) -> Tensor:
    return concat(list(x), dim % x[0].rank)


def _concat_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    axis = op.attrs["dim"] % len(g.shape)
    bounds = np.cumsum([0, *(v.shape[axis] for v in op.inputs)]).tolist()
    return [
        ir.op("slice", g, dim=axis, begin=a, end=b)
        for a, b in zip(bounds, bounds[1:], strict=False)
    ]


def _pad_shape(x: Value, lower: Ints, upper: Ints, value: Extended = 0.0) -> Out:
    is_valid = len(lower) == len(upper) == len(x.shape) and min((*lower, *upper), default=0) >= 0
    why = f"the margins {list(lower)} and {list(upper)} do not fit {len(x.shape)} dimensions"
    advice = f"pass two lists of {len(x.shape)} integers of at least 0."
    require(is_valid, why, advice)
    return Out(tuple(a + n + b for a, n, b in zip(lower, x.shape, upper, strict=True)), x.dtype)


def _pad(low: Lowering, x: Tensor, lower: Ints, upper: Ints, value: float = 0) -> Tensor:
    return popops.pad(low.graph, x, [*lower], [*upper], value=value)


def _pad_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    for dim, (first, n) in enumerate(zip(op.attrs["lower"], op.inputs[0].shape, strict=True)):
        if n != g.shape[dim]:
            g = ir.op("slice", g, dim=dim, begin=first, end=first + n)
    return [g]


def _permute_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("permute", g, dims=tuple(np.argsort(op.attrs["dims"]).tolist()))]


def _put_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    return [ir.op("slice", g, **{k: v for k, v in op.attrs.items() if k != "shape"})]


OPS |= {
    "reshape": view_row(
        _reshape_shape,
        _reshape,
        _reshape_grad,
    ),
    "permute": view_row(
        _permute_shape, lambda low, x, dims: x.dim_shuffle(list(dims)), _permute_grad
    ),
    "expand": view_row(
        _expand_shape,
        _expand,
        _expand_grad,
    ),
    "slice": view_row(_slice_shape, _sliced, _slice_grad),
    "put": Row(with_shape, _put, _put_grad),
    "reverse": view_row(
        _reverse_shape,
        lambda low, x, dim: x.reverse(dim % x.rank),
        _reverse_grad,
    ),
    "concat": view_row(_concat_shape, _concat, _concat_grad),
    "pad": view_row(_pad_shape, _pad, _pad_grad),
}


# --- reductions -----------------------------------------------------------------------------------


def _reduced_shape(x: Value, dims: Ints) -> Out:
    numeric(x)
    reduced = axes(x, dims)
    return Out(tuple(n for i, n in enumerate(x.shape) if i not in reduced), x.dtype)


def _extreme_shape(x: Value, dims: Ints) -> Out:
    out = _reduced_shape(x, dims)
    has_extremes = x.size > 0 or 0 in out.shape
    why = "a tensor without elements has no maximum or minimum"
    require(has_extremes, why, "pass a tensor with elements.")
    return out


def _reduce(operation: str, grad: Grad, shape: Shaper = _reduced_shape) -> Row:
    """Return the definition of a reduction over the dimensions `dims`.

    `operation` is the name of popops' reduction, such as "ADD".
    """

    def lower(low: Lowering, x: Tensor, dims: Ints) -> Tensor:
        reduced_dims = [d % x.rank for d in dims]
        return low.call(popops.reduce, x, reduced_dims, operation=operation) if reduced_dims else x

    return Row(shape, lower, grad)


def _expanded(ir: Ir, op: Op, y: Value) -> Value:
    """Return `y`, expanded from the shape of the result of `op` to the shape of its input.

    `op` is a reduction. Each element of `y` is repeated along the dimensions that `op` reduces.
    """
    x = op.inputs[0]
    reduced = axes(x, op.attrs["dims"])
    shape = tuple(1 if i in reduced else n for i, n in enumerate(x.shape))
    return ir.op("expand", ir.op("reshape", y, shape=shape), shape=x.shape)


def _extreme_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    """Return a list with the gradient of the input of a maximum or minimum over dimensions.

    The gradient `g` of each result is divided equally among all elements that equal this result, as
    for torch.amax. All other elements have the gradient 0.
    """
    (x,) = op.inputs
    is_extreme = ir.op("eq", x, _expanded(ir, op, op.outs[0]))
    ones = ir.op("cast", is_extreme, dtype=x.dtype)
    extreme_count = ir.op("sum", ones, dims=op.attrs["dims"])
    return [ir.op("mul", ones, _expanded(ir, op, ir.op("div", g, extreme_count)))]


def _product_grad(ir: Ir, op: Op, g: Value) -> InputGrads:
    """Return a list with the gradient of the input of a product over dimensions.

    The gradient of an element is g times the product of all other elements. If no element is 0,
    this product is the product of all elements divided by the element. If exactly one element is 0,
    only this element has a gradient other than 0. If several elements are 0, all gradients are 0.
    """
    (x,) = op.inputs
    dims = op.attrs["dims"]
    zero = ir.constant(0.0, x.dtype)
    is_zero = ir.op("eq", x, 0.0)
    factors = ir.op("select", is_zero, ir.constant(1.0, x.dtype), x)
    product = _product(ir, g, ir.op("reduce_prod", factors, dims=dims))
    zero_count = ir.op("sum", ir.op("cast", is_zero, dtype=x.dtype), dims=dims)
    without_zeros, with_one_zero = (
        _expanded(ir, op, ir.op("select", ir.op("eq", zero_count, wanted_count), product, zero))
        for wanted_count in (0.0, 1.0)
    )
    return [ir.op("select", is_zero, with_one_zero, ir.op("div", without_zeros, factors))]


def _arg_shape(x: Value) -> Out:
    """Return the `Out` of an operation with one UNSIGNED_INT result for each row of `x`.

    The rows extend along the last dimension.
    """
    numeric(with_rows(x))
    return Out(x.shape[:-1], UNSIGNED_INT)


def _top_shape(x: Value, k: int, largest: bool = True) -> list[Out]:
    row_shape = _arg_shape(x).shape
    row_length = x.shape[-1]
    require(
        1 <= k <= row_length,
        f"k is {k}, but the last dimension has {row_length} elements",
        f"use a k from 1 to {row_length}.",
    )
    return [Out((*row_shape, k), x.dtype), Out((*row_shape, k), UNSIGNED_INT)]


def _top_k(low: Lowering, x: Tensor, k: int, largest: bool = True) -> tuple[Tensor, Tensor]:
    return low.call(popops.top_k_with_permutation, popops.TopKParams(k, largest), x)


def _top_grad(ir: Ir, op: Op, g: Value, _: Value | None) -> InputGrads:
    """Return a list with the gradient of the input of "top_k".

    Each of the k selected elements gets its gradient from `g`; all other elements get 0. The second
    result of "top_k" contains column numbers, which have no gradient.
    """
    x = op.inputs[0]
    columns = op.outs[1]
    row_starts = np.arange(0, x.size, x.shape[-1]).reshape((*x.shape[:-1], 1))
    flat_indices = ir.op("add", columns, ir.constant(row_starts, UNSIGNED_INT))
    row_numbers = ir.op("reshape", flat_indices, shape=(-1,))
    updates = ir.op("reshape", g, shape=(-1, 1))
    result = ir.op("scatter", row_numbers, updates, shape=(x.size, 1))
    return [ir.op("reshape", result, shape=x.shape)]


def _one_hot_shape(x: Value, classes: Count, dtype: Element) -> Out:
    return Out((*x.shape, classes), dtype)


def _one_hot(low: Lowering, x: Tensor, classes: int, dtype: Kind) -> Tensor:
    one_hot_rows = low.new(dtype, (x.num_elements, classes))
    low.call(popops.encode_one_hot, x.flatten(), one_hot_rows)
    return one_hot_rows.reshape((*x.shape, classes))


OPS |= {
    "sum": _reduce("ADD", lambda ir, op, g: [_expanded(ir, op, g)]),
    "reduce_max": _reduce("MAX", _extreme_grad, _extreme_shape),
    "reduce_min": _reduce("MIN", _extreme_grad, _extreme_shape),
    "reduce_prod": _reduce("MUL", _product_grad),
    "arg_max": Row(_arg_shape, library_call(popops.arg_max), no_gradients),
    "arg_min": Row(_arg_shape, library_call(popops.arg_min), no_gradients),
    "top_k": Row(_top_shape, _top_k, _top_grad),
    "one_hot": Row(_one_hot_shape, _one_hot, no_gradients),
}


# --- random numbers -------------------------------------------------------------------------------
# The seed is an input of these operations, so a recomputed operation returns the same numbers
# again. Operations with different attributes `modifier` return different numbers for the same seed.


def _random_shape(seed: Value, shape: Shape, dtype: Kind = FLOAT, **_: Attribute) -> Out:
    is_valid = seed.dtype is UNSIGNED_INT and seed.shape == (2,)
    require(is_valid, "the seed is not UNSIGNED_INT[2]", "pass ir.seed(graph) as the seed.")
    return Out(tuple(shape), dtype)


def _dropout(
    low: Lowering, seed: Tensor, shape: Shape, keep: float, modifier: int, dtype: Kind = FLOAT
) -> Tensor:
    ones = low.constant(dtype, shape, 1.0)
    return low.call(poprand.dropout, seed, modifier, ones, ones, keep, 1 / keep)


def _uniform(
    low: Lowering,
    seed: Tensor,
    shape: Shape,
    modifier: int,
    dtype: Kind = FLOAT,
    least: float = 0.0,
    most: float = 1.0,
) -> Tensor:
    """Return uniform random numbers from `least` to `most`.

    Integers can be equal to `most`. Floats are below `most`, except that rounding can give `most`.
    """
    reference = low.constant(dtype, shape, 0.0)
    return low.call(poprand.uniform, seed, modifier, reference, dtype, least, most)


def _normal(
    low: Lowering, seed: Tensor, shape: Shape, modifier: int, dtype: Kind = FLOAT
) -> Tensor:
    """Return normal random numbers with a mean of 0 and a standard deviation of 1."""
    reference = low.constant(dtype, shape, 0.0)
    return low.call(poprand.normal, seed, modifier, reference, dtype, 0.0, 1.0)


OPS |= {
    "dropout_mask": Row(_random_shape, _dropout, no_gradients),  # Elements: 0 or (1 / keep).
    "uniform": Row(_random_shape, _uniform, no_gradients),
    "normal": Row(_random_shape, _normal, no_gradients),
}


# --- replicas, and streaming memory ---------------------------------------------------------------


def _all_reduce(low: Lowering, *x: Tensor, op: str) -> list[Tensor]:
    reduced = low.call(gcl.all_reduce_cross_replica, list(x), op)
    return [y.reshape(t.shape) for y, t in zip(reduced, x, strict=True)]


def _reduce_scatter(low: Lowering, x: Tensor, op: str, count: int) -> Tensor:
    share: Tensor = low.call(gcl.reduce_scatter_cross_replica, x, op)
    return share


def _all_gather(low: Lowering, x: Tensor, count: int) -> Tensor:
    gathered: Tensor = low.call(gcl.all_gather_cross_replica, x)
    return gathered


def _own_share(low: Lowering, x: Tensor, count: int) -> Tensor:
    """Return the part of `x` that this replica stores, as a flat tensor.

    `x` is flattened and divided into `count` equal parts. Zeros are appended first if the size of
    `x` is not a multiple of `count`.
    """
    share_length = -(-x.num_elements // count)
    padding_after = [share_length * count - x.num_elements]
    shares = popops.pad(low.graph, x.flatten(), [0], padding_after).reshape((count, share_length))
    return low.call(popops.dynamic_slice, shares, low.replica(), [0], [1]).flatten()


def _share_shape(x: Value, count: int, **_: Attribute) -> Out:
    return Out((-(-x.size // count),), x.dtype)


OPS |= {
    "all_reduce": Row(lambda *x, op: [like_operand(v) for v in x], _all_reduce),
    "reduce_scatter": Row(_share_shape, _reduce_scatter),
    "own_share": Row(_share_shape, _own_share),
    "all_gather": Row(
        lambda x, count: Out((count, *x.shape), x.dtype),
        _all_gather,
    ),
    "load": view_row(like_operand, lambda low, x: x, same_gradient),
}


# --- operations that change a variable ------------------------------------------------------------


def in_place_row(lower: Lower, lays: Callable[..., Tensor | None] | None = None) -> Row:
    """Return the definition of an operation that changes its first input, a variable, in place.

    If there is a second input, it has the shape of the variable. `lays` becomes `Row.lays`: a
    function that returns a new variable with the tile mapping that the operation prefers.
    """

    def shape(variable: Value, *others: Value, **attrs: Attribute) -> list[Out]:
        shapes = [list(v.shape) for v in (variable, *others)[:2]]
        why = f"the shapes {shapes[0]} and {shapes[-1]} differ"
        require(shapes[0] == shapes[-1], why, "pass a tensor with the shape of the variable.")
        return []

    return Row(shape, lower, in_place=True, lays=lays)


def _accumulate(low: Lowering, v: Tensor, x: Tensor, *parameters: Tensor) -> None:
    """Add `x` to the variable `v`.

    `parameters` has no effect on the values. It is an input only because `_like_last` gives `v` the
    tile mapping of the last input.
    """
    low.call(popops.add_in_place, v, x)


def _next_seed(low: Lowering, seed: Tensor) -> None:
    low.call(popops.add_in_place, seed[0], 1)


def _blend(low: Lowering, v: Tensor, x: Tensor, momentum: float) -> None:
    low.call(popops.map_in_place, expr._1 * (1 - momentum) + expr._2 * momentum, [v, x])


def _step(call: Callable[..., dict[str, Tensor]], *names: str) -> Row:
    """Return the definition of an operation that computes one step of an optimiser.

    `call` is the optimiser's function in `ipu_teach.poplibs.optim`, and `names` are the names of
    its state variables. The inputs of the operation are the parameter, its gradient, the learning
    rate and the state variables.
    """

    def lower(
        low: Lowering, w: Tensor, g: Tensor, rate: Tensor, *state: Tensor, **numbers: float
    ) -> None:
        low.call(call, w, g, rate, state=dict(zip(names, state, strict=True)), **numbers)

    def lays(low: Lowering, op: Op, place: int) -> Tensor | None:
        parameter = low.tensor_of(op.inputs[0])
        if place < 3 or not op.inputs[place].shape or parameter is None:
            return None
        return poputil.clone(low.graph, parameter, low.variable_name, FLOAT)

    return in_place_row(lower, lays)


def _like_last(low: Lowering, op: Op, place: int) -> Tensor | None:
    """Return a new variable for input 0 of `op`, with the tile mapping of the last input.

    The last input is the new value of the variable, or the parameter whose gradients the variable
    sums up. Return None unless `place`, the number of the input, is 0 and the last input already
    has a tensor.
    """
    last = low.tensor_of(op.inputs[-1])
    if place or last is None:
        return None
    return poputil.clone(low.graph, last, low.variable_name)


OPS |= {
    "assign": in_place_row(lambda low, v, x: low.prog.add(Copy(x, v)), _like_last),
    "accumulate": in_place_row(_accumulate, _like_last),
    "clear": in_place_row(library_call(popops.zero)),
    "blend": in_place_row(_blend),
    "next_seed": in_place_row(_next_seed),
    "sgd": _step(optim.sgd),
    "momentum": _step(optim.sgd, "velocity"),
    "adam": _step(optim.adam, "first", "second", "step"),
    "adamw": _step(optim.adamw, "first", "second", "step"),
    "lars": _step(optim.lars, "velocity"),
}
