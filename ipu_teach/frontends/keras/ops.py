"""The functions of `keras.ops`, for user-defined layers, losses and metrics."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ipu_teach.arguments import Argument
from ipu_teach.errors import did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Value
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.frontends.keras.layers.activations import activate, leaky
from ipu_teach.frontends.keras.tensors import DTYPE_NAMES, Tensor, graph_of, operation, raw
from ipu_teach.types import BOOL, FLOAT, INT, UNSIGNED_INT

Axis = int | Sequence[int] | None


def _unary(kind: str) -> Callable[[Argument], Tensor]:
    """Return a function that applies an operation to each element."""

    def function(x: Argument) -> Tensor:
        g, training = graph_of(x)
        return Tensor(g, g.op(kind, raw(g, x)), training)

    return function


def _activation(name: str) -> Callable[[Argument], Tensor]:
    """Return a function that applies an activation to each element."""

    def function(x: Argument) -> Tensor:
        g, training = graph_of(x)
        return Tensor(g, activate(g, name, raw(g, x)), training)

    return function


def _binary(kind: str) -> Callable[[Argument, Argument], Tensor]:
    """Return a function of two tensors, which are broadcast to a common shape."""

    def function(x1: Argument, x2: Argument) -> Tensor:
        g, training = graph_of(x1, x2)
        a = raw(g, x1, like=x2 if isinstance(x2, Tensor) else None)
        b = raw(g, x2, like=x1 if isinstance(x1, Tensor) else None)
        return Tensor(g, operation(g, kind, a, b), training)

    return function


def _dims(x: Value, axis: Axis) -> tuple[int, ...]:
    """Return dimensions, counted from 0."""
    rank = len(x.shape)
    chosen = (
        range(rank) if axis is None else [axis] if isinstance(axis, (int, np.integer)) else axis
    )
    if any(not -rank <= dim < rank for dim in chosen):
        raise misuse(
            f"axis={shown(axis)} was given for a tensor of {rank} dimensions.",
            f"use dimensions from {-rank} to {rank - 1}.",
        )
    return tuple(sorted({int(dim) % rank for dim in chosen}))


def _reduction(kind: str) -> Callable[..., Tensor]:
    """Return a function that reduces a tensor over some dimensions, or over all dimensions."""

    def function(x: Argument, axis: Axis = None, keepdims: bool = False) -> Tensor:
        g, training = graph_of(x)
        value = raw(g, x)
        dims = _dims(value, axis)
        if kind == "mean":
            value = value if value.floating else g.cast(value, FLOAT)
            return Tensor(g, ir.mean(g, value, dims, keep=keepdims), training)
        value = g.cast(value, INT) if value.dtype is BOOL else value
        return Tensor(g, ir.reduced(g, kind, value, dims, keep=keepdims), training)

    return function


abs = absolute = _unary("abs")
exp = _unary("exp")
expm1 = _unary("expm1")
log = _unary("log")
log1p = _unary("log1p")
sqrt = _unary("sqrt")
rsqrt = _unary("rsqrt")
reciprocal = _unary("inv")
square = _unary("square")
sin = _unary("sin")
cos = _unary("cos")
erf = _unary("erf")
sign = _unary("signum")
floor = _unary("floor")
ceil = _unary("ceil")
negative = _unary("neg")
isnan = _unary("is_nan")
isfinite = _unary("is_finite")
logical_not = _unary("logical_not")
stop_gradient = _unary("stop")
relu = _activation("relu")
relu6 = _activation("relu6")
sigmoid = _activation("sigmoid")
tanh = _activation("tanh")
silu = swish = _activation("silu")
softplus = _activation("softplus")
add = _binary("add")
subtract = _binary("sub")
multiply = _binary("mul")
divide = true_divide = _binary("div")
power = _binary("pow")
maximum = _binary("max")
minimum = _binary("min")
matmul = _binary("matmul")
equal = _binary("eq")
not_equal = _binary("neq")
greater = _binary("gt")
greater_equal = _binary("gteq")
less = _binary("lt")
less_equal = _binary("lteq")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
sum = _reduction("sum")
mean = _reduction("mean")
max = amax = _reduction("reduce_max")
min = amin = _reduction("reduce_min")
prod = _reduction("reduce_prod")


def gelu(x: Argument, approximate: bool = True) -> Tensor:
    """Return the Gaussian error linear unit of x, by default with the tanh approximation."""
    g, training = graph_of(x)
    return Tensor(g, g.op("gelu_tanh" if approximate else "gelu", raw(g, x)), training)


def leaky_relu(x: Argument, negative_slope: float = 0.2) -> Tensor:
    """Return x where it is above 0, and `negative_slope` * x elsewhere."""
    g, training = graph_of(x)
    return Tensor(g, leaky(g, raw(g, x), float(negative_slope)), training)


def softmax(x: Argument, axis: int = -1) -> Tensor:
    """Return the softmax along a dimension."""
    g, training = graph_of(x)
    return Tensor(g, ir.along(g, "softmax", raw(g, x), axis), training)


def log_softmax(x: Argument, axis: int = -1) -> Tensor:
    """Return the logarithm of the softmax along a dimension."""
    g, training = graph_of(x)
    return Tensor(g, ir.along(g, "log_softmax", raw(g, x), axis), training)


def clip(x: Argument, x_min: float, x_max: float) -> Tensor:
    """Return x, limited to the range between two numbers."""
    g, training = graph_of(x)
    return Tensor(g, g.op("clamp", raw(g, x), least=float(x_min), most=float(x_max)), training)


def where(condition: Argument, x1: Argument, x2: Argument) -> Tensor:
    """Return x1 where the condition is true, and x2 elsewhere."""
    g, training = graph_of(condition, x1, x2)
    a = raw(g, x1, like=x2 if isinstance(x2, Tensor) else None)
    b = raw(g, x2, like=x1 if isinstance(x1, Tensor) else None)
    mask = raw(g, condition)
    mask = mask if mask.dtype is BOOL else g.op("neq", mask, 0)
    b = g.cast(b, a.dtype)
    return Tensor(g, g.op("select", mask, a, b), training)


def argmax(x: Argument, axis: int = -1) -> Tensor:
    """Return the index of the first largest element along a dimension."""
    g, training = graph_of(x)
    value = raw(g, x)
    (dim,) = _dims(value, axis)
    moved = ir.transpose(g, value, dim, -1) if dim != len(value.shape) - 1 else value
    places = g.op("arg_max", moved)
    if dim != len(value.shape) - 1:
        # The last dimension is now at the position of `dim`, so move it back to the end.
        order = [i for i in range(len(places.shape)) if i != dim] + [dim]
        places = g.op("permute", places, dims=tuple(order))
    return Tensor(g, g.cast(places, INT), training)


def reshape(x: Argument, newshape: Sequence[int]) -> Tensor:
    """Return x in another shape, which includes the batch. One size may be -1."""
    g, training = graph_of(x)
    return Tensor(g, g.op("reshape", raw(g, x), shape=tuple(map(int, newshape))), training)


def transpose(x: Argument, axes: Sequence[int] | None = None) -> Tensor:
    """Return x with permuted dimensions, by default in reverse order."""
    g, training = graph_of(x)
    value = raw(g, x)
    rank = len(value.shape)
    order = range(rank)[::-1] if axes is None else [int(axis) % rank for axis in axes]
    return Tensor(g, g.op("permute", value, dims=tuple(order)), training)


def expand_dims(x: Argument, axis: int) -> Tensor:
    """Return x with a new dimension of length 1."""
    g, training = graph_of(x)
    value = raw(g, x)
    sizes = list(value.shape)
    sizes.insert(axis if axis >= 0 else len(sizes) + 1 + axis, 1)
    return Tensor(g, g.op("reshape", value, shape=tuple(sizes)), training)


def squeeze(x: Argument, axis: Axis = None) -> Tensor:
    """Return x without dimensions of length 1: without those in `axis`, or without all of them."""
    g, training = graph_of(x)
    value = raw(g, x)
    dims = [i for i, n in enumerate(value.shape) if n == 1] if axis is None else _dims(value, axis)
    if any(value.shape[dim] != 1 for dim in dims):
        raise misuse(
            f"squeeze() was given axis={shown(axis)} for the shape {list(value.shape)}.",
            "use dimensions of length 1.",
        )
    sizes = tuple(n for i, n in enumerate(value.shape) if i not in dims)
    return Tensor(g, g.op("reshape", value, shape=sizes), training)


def concatenate(xs: Sequence[Argument], axis: int = -1) -> Tensor:
    """Return the concatenation of tensors along a dimension."""
    g, training = graph_of(*xs)
    values = [raw(g, x) for x in xs]
    values = [g.cast(value, values[0].dtype) for value in values]
    return Tensor(g, g.op("concat", *values, dim=axis), training)


def stack(xs: Sequence[Argument], axis: int = 0) -> Tensor:
    """Return tensors of equal shape, stacked along a new dimension."""
    return concatenate([expand_dims(x, axis) for x in xs], axis)


def cast(x: Argument, dtype: str) -> Tensor:
    """Return x in the dtype "float32", "float16", "int32", "uint32" or "bool"."""
    g, training = graph_of(x)
    names = {name: device_dtype for device_dtype, name in DTYPE_NAMES.items()}
    if dtype not in names:
        raise misuse(
            f"cast() was given the dtype {shown(dtype)}.",
            f"{did_you_mean(dtype, names)}use one of {', '.join(names)}.",
        )
    value = raw(g, x)
    if names[dtype] is BOOL and value.dtype is not BOOL:
        return Tensor(g, g.op("neq", value, 0), training)
    return Tensor(g, g.cast(value, names[dtype]), training)


def one_hot(x: Argument, num_classes: int) -> Tensor:
    """Return the one-hot encoding of class numbers."""
    g, training = graph_of(x)
    value = raw(g, x)
    flat = g.op("reshape", g.cast(value, UNSIGNED_INT), shape=(value.size,))
    rows = g.op("one_hot", flat, classes=int(num_classes), dtype=FLOAT)
    return Tensor(g, g.op("reshape", rows, shape=(*value.shape, int(num_classes))), training)


def shape(x: Argument) -> tuple[int, ...]:
    """Return the shape of a tensor, including the batch dimension."""
    g, _ = graph_of(x)
    return raw(g, x).shape


def convert_to_tensor(x: Argument) -> Tensor:
    """Return a tensor that contains numbers or the elements of an array."""
    g, training = graph_of(x)
    return Tensor(g, raw(g, x), training)


def zeros_like(x: Argument) -> Tensor:
    """Return zeros in the shape and dtype of x."""
    return _filled(x, 0)


def ones_like(x: Argument) -> Tensor:
    """Return ones in the shape and dtype of x."""
    return _filled(x, 1)


def _filled(x: Argument, number: int) -> Tensor:
    g, training = graph_of(x)
    value = raw(g, x)
    return Tensor(g, g.constant(number, value.dtype, value.shape), training)


def flip(x: Argument, axis: Axis = None) -> Tensor:
    """Return x with the elements of some dimensions, or of all, in reverse order."""
    g, training = graph_of(x)
    value = raw(g, x)
    for dim in _dims(value, axis):
        value = g.op("reverse", value, dim=dim)
    return Tensor(g, value, training)


def __getattr__(name: str) -> Argument:
    """Refuse a function of `keras.ops` that the device does not implement."""
    if name.startswith("__"):
        raise AttributeError(name)
    known = [n for n in globals() if not n.startswith("_")]
    raise misuse(
        f"keras.ops has no function {name!r}, or the device does not implement it.",
        f"{did_you_mean(name, known)}compose it from other functions: keras.ops.exp, sum, where "
        "and so on.",
    )
