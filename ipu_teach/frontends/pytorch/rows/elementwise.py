"""Lowering functions of elementwise operations: arithmetic, comparisons and selections."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi

import numpy as np

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import (
    Argument,
    Operand,
    Results,
    as_bool,
    as_dtype,
    expand,
    is_float,
    number_in,
    numeric,
    row,
)
from ipu_teach.types import BOOL, FLOAT, INT

Unary = Callable[[Ir, Value], Value]

# --- functions of one number ----------------------------------------------------------------------


def unary(*names: str) -> Callable[[Unary], Unary]:
    """Return a decorator that registers the lowering function of operations with one input.

    `names` are torch's names of the operations. The function gets the graph and the input,
    converted to the dtype of the result, but not the `Results`.
    """

    def add(function: Unary) -> Unary:
        def convert_and_call(graph: Ir, results: Results, x: Value) -> Value:
            return function(graph, as_dtype(graph, x, results.dtype))

        row(*names)(convert_and_call)
        return function

    return add


def composed(*names: str) -> Callable[[Unary], Unary]:
    """Return a decorator like `unary`, for a function that consists of several operations.

    The function gets and returns FLOAT, so that HALF results are rounded only once.
    """

    def add(function: Unary) -> Unary:
        def convert_and_call(graph: Ir, results: Results, x: Value) -> Value:
            x_as_float = as_dtype(graph, as_dtype(graph, x, results.dtype), FLOAT)
            return as_dtype(graph, function(graph, x_as_float), results.dtype)

        row(*names)(convert_and_call)
        return function

    return add


def _plain(kind: str, keeps_integers: bool = False) -> Unary:
    """Return a function that adds the operation `kind` to a graph.

    With `keeps_integers`, the function returns integers unchanged.
    """

    def apply(graph: Ir, x: Value) -> Value:
        return x if keeps_integers and not x.floating else graph.op(kind, x)

    return apply


for _name in [
    "neg",
    "exp",
    "expm1",
    "log",
    "log1p",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "erf",
    "sigmoid",
    "tanh",
    "silu",
]:
    unary(_name)(_plain(_name))
for _name in ["floor", "ceil", "trunc"]:
    unary(_name)(_plain(_name, keeps_integers=True))
unary("reciprocal")(_plain("inv"))


def _nan_to(graph: Ir, x: Value, y: Value) -> Value:
    """Return `y`, but with NaN where `x` is NaN."""
    return graph.op("select", graph.op("is_nan", x), x, y)


@row("abs")
def _abs(graph: Ir, results: Results, x: Value) -> Value:
    return x if x.dtype is BOOL else graph.op("abs", x)


@row("sign", "sgn")
def _sign(graph: Ir, results: Results, x: Value) -> Value:
    """Return -1, 0 or 1 for the sign of each element. As in torch, the sign of NaN is 0."""
    if x.dtype is BOOL:
        return x
    y = graph.op("signum", x)
    if not x.floating:
        return y
    return graph.op("select", graph.op("is_nan", x), graph.constant(0.0, x.dtype), y)


@row("relu")
def _relu(graph: Ir, results: Results, x: Value) -> Value:
    return graph.op("relu", x) if x.floating else graph.op("max", x, 0)


@row("round")
def _round(graph: Ir, results: Results, x: Value, decimals: int = 0) -> Value:
    """Return `x` rounded to `decimals` decimal places, with ties to even.

    Unless `decimals` is 0, the result is computed in FLOAT, as in torch.

    :raises Unfit: for integers if `decimals` is negative.
    """
    if not x.floating:
        if decimals < 0:
            raise Unfit(
                "the device cannot round integers to tens, hundreds or more",
                f"convert the integers to floats: x.float().round(decimals={decimals}).",
            )
        return x
    if not decimals:
        return graph.op("nearby_int", x)
    forward_kind, backward_kind = ("mul", "div") if decimals > 0 else ("div", "mul")
    power = 10.0 ** abs(decimals)
    scaled = graph.op("nearby_int", graph.op(forward_kind, graph.cast(x, FLOAT), power))
    return graph.cast(graph.op(backward_kind, scaled, power), x.dtype)


@row("isnan")
def _isnan(graph: Ir, results: Results, x: Value) -> Value:
    return graph.op("is_nan", x) if x.floating else graph.constant(False, BOOL, x.shape)


@row("isinf")
def _isinf(graph: Ir, results: Results, x: Value) -> Value:
    if not x.floating:
        return graph.constant(False, BOOL, x.shape)
    return graph.op("eq", graph.op("abs", x), float("inf"))


@row("signbit")
def _signbit(graph: Ir, results: Results, x: Value) -> Value:
    """Return whether the sign bit of each element is set, also for -0 and NaN."""
    if x.dtype is BOOL:
        return graph.constant(False, BOOL, x.shape)
    if x.floating:
        x = graph.op("reinterpret", graph.cast(x, FLOAT), dtype=INT)
    return graph.op("lt", x, 0)


@row("copysign")
def _copysign(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    magnitude = graph.op("abs", as_dtype(graph, a, results.dtype))
    is_negative = _signbit(graph, results, as_dtype(graph, b, results.dtype))
    return graph.op("select", is_negative, graph.op("neg", magnitude), magnitude)


def _exact_at_powers(graph: Ir, x: Value, y: Value, base: float) -> Value:
    """Return `y`, the logarithm of `x`, but the exact integer where `x` is a power of `base`."""
    integer = graph.op("nearby_int", y)
    is_exact = graph.op("eq", graph.op("pow", graph.constant(base, x.dtype), integer), x)
    return graph.op("select", is_exact, integer, y)


def _log_by(base: int) -> Unary:
    """Return the function that computes the logarithm to the base `base`."""

    def logarithm(graph: Ir, x: Value) -> Value:
        y = graph.op("mul", graph.op("log", x), 1 / log(base))
        return _exact_at_powers(graph, x, y, float(base))

    return logarithm


composed("log2")(_log_by(2))
composed("log10")(_log_by(10))


@composed("exp2")
def _exp2(graph: Ir, x: Value) -> Value:
    return graph.op("pow", graph.constant(2.0, x.dtype), x)


@composed("tan")
def _tan(graph: Ir, x: Value) -> Value:
    return graph.op("div", graph.op("sin", x), graph.op("cos", x))


@composed("atan")
def _atan(graph: Ir, x: Value) -> Value:
    return graph.op("atan2", x, graph.constant(1.0, x.dtype))


def _other_side(graph: Ir, x: Value) -> Value:
    """Return sqrt(1 - x²) as sqrt((1 - x) (1 + x)), which loses no digits for x near 1."""
    one = graph.constant(1.0, x.dtype)
    return graph.op("sqrt", graph.op("mul", graph.op("sub", one, x), graph.op("add", one, x)))


@composed("asin")
def _asin(graph: Ir, x: Value) -> Value:
    return graph.op("atan2", x, _other_side(graph, x))


@composed("acos")
def _acos(graph: Ir, x: Value) -> Value:
    return graph.op("atan2", _other_side(graph, x), x)


def _halves_of_exp(graph: Ir, magnitude: Value) -> tuple[Value, Value]:
    """Return `(exp(x) / 2, exp(-x) / 2)` for x = `magnitude`, which is not negative.

    exp(x) / 2 overflows only if cosh(x) does.
    """
    root_of_exp = graph.op("exp", graph.op("mul", magnitude, 0.5))
    half_of_exp = graph.op("mul", graph.op("mul", root_of_exp, 0.5), root_of_exp)
    return half_of_exp, graph.op("mul", graph.op("exp", graph.op("neg", magnitude)), 0.5)


@composed("cosh")
def _cosh(graph: Ir, x: Value) -> Value:
    return graph.op("add", *_halves_of_exp(graph, graph.op("abs", x)))


def _odd(graph: Ir, x: Value, near: Value, far: Value, limit: float) -> Value:
    """Return the values of an odd function: f(-x) = -f(x).

    `near` and `far` are the function's values for |x|. The result is computed from `near` where |x|
    < `limit`, and otherwise from `far`. Where x is 0, the result is x, so -0 stays -0.
    """
    magnitude = graph.op("abs", x)
    y = graph.op("select", graph.op("lt", magnitude, limit), near, far)
    y = graph.op("select", graph.op("lt", x, 0.0), graph.op("neg", y), y)
    return graph.op("select", graph.op("eq", x, 0.0), x, y)


@composed("sinh")
def _sinh(graph: Ir, x: Value) -> Value:
    """Return sinh(x).

    For |x| < 1, sinh(|x|) is computed as (t + t / (t + 1)) / 2 with t = exp(|x|) - 1, because the
    difference exp(|x|) - exp(-|x|) would lose digits.
    """
    magnitude = graph.op("abs", x)
    t = graph.op("expm1", magnitude)
    near = graph.op("mul", graph.op("add", t, graph.op("div", t, graph.op("add", t, 1.0))), 0.5)
    return _odd(graph, x, near, graph.op("sub", *_halves_of_exp(graph, magnitude)), limit=1.0)


@composed("asinh")
def _asinh(graph: Ir, x: Value) -> Value:
    """Return asinh(x), computed for x >= 0 as log1p(x + x² / (1 + sqrt(x² + 1))).

    For x >= 100 it is computed as log(2 x), because a large x² could overflow.
    """
    magnitude = graph.op("abs", x)
    square = graph.op("square", magnitude)
    root = graph.op("add", graph.op("sqrt", graph.op("add", square, 1.0)), 1.0)
    near = graph.op("log1p", graph.op("add", magnitude, graph.op("div", square, root)))
    far = graph.op("add", graph.op("log", magnitude), log(2))
    return _odd(graph, x, near, far, limit=100.0)


@composed("acosh")
def _acosh(graph: Ir, x: Value) -> Value:
    """Return acosh(x), computed as log1p(t + sqrt(t (t + 2))) with t = x - 1.

    For x >= 100 it is computed as log(2 x), because t (t + 2) could overflow.
    """
    t = graph.op("sub", x, 1.0)
    root = graph.op("sqrt", graph.op("mul", t, graph.op("add", t, 2.0)))
    near = graph.op("log1p", graph.op("add", t, root))
    far = graph.op("add", graph.op("log", x), log(2))
    return graph.op("select", graph.op("lt", graph.op("abs", x), 100.0), near, far)


@composed("atanh")
def _atanh(graph: Ir, x: Value) -> Value:
    ratio = graph.op(
        "div", graph.op("mul", x, 2.0), graph.op("sub", graph.constant(1.0, x.dtype), x)
    )
    y = graph.op("mul", graph.op("log1p", ratio), 0.5)
    return graph.op("select", graph.op("eq", x, 0.0), x, y)


# The coefficients of a Chebyshev fit to log(erfc(x) / t) + x², a polynomial in t = 1 / (1 + x / 2).
_TAIL = (
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806,
    0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
)  # fmt: skip


@composed("erfc")
def _erfc(graph: Ir, x: Value) -> Value:
    """Return erfc(x): 1 - erf(x) for x <= 0.5, otherwise a formula with a small relative error."""
    t = graph.op("inv", graph.op("add", graph.op("mul", x, 0.5), 1.0))
    polynomial = graph.constant(_TAIL[-1], x.dtype)
    for coefficient in _TAIL[-2::-1]:
        polynomial = graph.op("add", graph.op("mul", polynomial, t), coefficient)
    for_large = graph.op(
        "mul", t, graph.op("exp", graph.op("sub", polynomial, graph.op("square", x)))
    )
    for_small = graph.op("sub", graph.constant(1.0, x.dtype), graph.op("erf", x))
    return graph.op("select", graph.op("gt", x, 0.5), for_large, for_small)


@row("gelu", kept=True)
def _gelu(graph: Ir, results: Results, x: Value, approximate: str = "none") -> Value:
    return graph.op("gelu_tanh" if approximate == "tanh" else "gelu", x)


@row("gelu_backward", kept=True)
def _gelu_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, approximate: str = "none"
) -> Value:
    kind = "GELU" if approximate == "tanh" else "GELU_ERF"
    return graph.op("non_linearity_grad", x, gradient, kind=kind)


@row("silu_backward", kept=True)
def _silu_backward(graph: Ir, results: Results, gradient: Value, x: Value) -> Value:
    return graph.op("non_linearity_grad", x, gradient, kind="SWISH")


@row("elu")
def _elu(
    graph: Ir,
    results: Results,
    x: Value,
    alpha: float = 1.0,
    scale: float = 1.0,
    inner: float = 1.0,
) -> Value:
    negative_branch = graph.op("mul", graph.op("expm1", graph.op("mul", x, inner)), alpha * scale)
    return graph.op("select", graph.op("gt", x, 0.0), graph.op("mul", x, scale), negative_branch)


@row("hardtanh_backward", kept=True)
def _hardtanh_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, low: float, high: float
) -> Value:
    """Return `gradient` where low < x < high, and 0 elsewhere, also where x is NaN."""
    is_inside = graph.op("logical_and", graph.op("gt", x, low), graph.op("lt", x, high))
    return graph.op("select", is_inside, gradient, graph.constant(0.0, gradient.dtype))


@row("smooth_l1_loss_backward", kept=True)
def _smooth_l1_backward(
    graph: Ir, results: Results, gradient: Value, x: Value, y: Value, reduction: int, beta: float
) -> Value:
    """Return the gradient of the smooth L1 loss of `x` and `y` with respect to `x`.

    With d = x - y, the derivative is d / beta where |d| < beta, and otherwise the sign of d. It is
    NaN where d is NaN and `beta` is not 0.
    """
    difference = graph.op("sub", x, y)
    mean_factor = 1 / max(difference.size, 1) if reduction == 1 else 1.0
    slope = _sign(graph, results, difference)
    if beta:
        is_far = graph.op("gteq", graph.op("abs", difference), beta)
        slope = graph.op("select", is_far, slope, graph.op("mul", difference, 1 / beta))
    return graph.op("mul", graph.op("mul", slope, mean_factor), gradient)


@row("leaky_relu")
def _leaky_relu(graph: Ir, results: Results, x: Value, slope: float = 0.01) -> Value:
    return graph.op("select", graph.op("gt", x, 0.0), x, graph.op("mul", x, slope))


@row("linspace", kept=True)
def _linspace(
    graph: Ir, results: Results, start: Operand, end: Operand, steps: int, **_: Argument
) -> Value:
    """Return `steps` evenly spaced numbers. As in torch, each is computed from the nearer end."""
    first, last = (as_dtype(graph, as_dtype(graph, v, results.dtype), FLOAT) for v in (start, end))
    step = graph.op("mul", graph.op("sub", last, first), 1 / max(steps - 1, 1))
    indices = np.arange(steps)
    distance_from_first = graph.op("mul", step, graph.constant(indices, FLOAT))
    distance_from_last = graph.op("mul", step, graph.constant(steps - 1 - indices, FLOAT))
    is_first_half = graph.constant(indices < steps // 2 + (steps == 1), BOOL)
    from_first = graph.op("add", first, distance_from_first)
    from_last = graph.op("sub", last, distance_from_last)
    return as_dtype(graph, graph.op("select", is_first_half, from_first, from_last), results.dtype)


@row("angle")
def _angle(graph: Ir, results: Results, x: Value) -> Value:
    """Return pi for negative numbers, NaN for NaN, and 0 for all other numbers."""
    x = as_dtype(graph, x, results.dtype)
    angle = graph.op("select", graph.op("lt", x, 0.0), pi, graph.constant(0.0, x.dtype))
    return _nan_to(graph, x, expand(graph, angle, x.shape))


# --- arithmetic -----------------------------------------------------------------------------------


def in_dtype(graph: Ir, results: Results, *operands: Operand) -> list[Value]:
    """Return the operands, converted to the dtype of the result as torch converts them."""
    dtype = getattr(results.tensors[0], "dtype", None)
    return [as_dtype(graph, number_in(dtype, v), results.dtype) for v in operands]


def _times(graph: Ir, x: Value, factor: float) -> Value:
    return x if factor == 1 else graph.op("mul", x, factor)


@row("add")
def _add(graph: Ir, results: Results, a: Operand, b: Operand, alpha: float = 1) -> Value:
    a, b = in_dtype(graph, results, a, b)
    if results.dtype is BOOL:
        return graph.op("logical_or", a, b) if alpha else expand(graph, a, results.shape)
    return graph.op("add", a, _times(graph, b, alpha))


@row("sub")
def _sub(graph: Ir, results: Results, a: Operand, b: Operand, alpha: float = 1) -> Value:
    a, b = in_dtype(graph, results, a, b)
    return graph.op("sub", a, _times(graph, b, alpha))


@row("mul")
def _mul(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    kind = "logical_and" if results.dtype is BOOL else "mul"
    return graph.op(kind, *in_dtype(graph, results, a, b))


@row("atan2")
def _atan2(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    return graph.op("atan2", *in_dtype(graph, results, a, b))


def extreme(graph: Ir, kind: str, a: Value, b: Value) -> Value:
    """Return the elementwise maximum ("max") or minimum ("min"); NaN if either is NaN."""
    if a.dtype is BOOL:
        return graph.op("logical_or" if kind == "max" else "logical_and", a, b)
    return graph.op(kind, a, b)


@row("maximum")
def _maximum(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    return extreme(graph, "max", *in_dtype(graph, results, a, b))


@row("minimum")
def _minimum(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    return extreme(graph, "min", *in_dtype(graph, results, a, b))


def _ignoring_nan(kind: str) -> Callable[..., Value]:
    """Return the lowering function of fmax or fmin, which ignore NaN; `kind` is "max" or "min".

    The result is NaN only where both operands are NaN.
    """

    def extreme_of_numbers(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
        a, b = (expand(graph, v, results.shape) for v in in_dtype(graph, results, a, b))
        y = extreme(graph, kind, a, b)
        if not a.floating:
            return y
        y = graph.op("select", graph.op("is_nan", a), b, y)
        return graph.op("select", graph.op("is_nan", b), a, y)

    return extreme_of_numbers


row("fmax")(_ignoring_nan("max"))
row("fmin")(_ignoring_nan("min"))


@row("clamp", "clamp_min")
def _clamp(
    graph: Ir, results: Results, x: Value, min: Operand | None = None, max: Operand | None = None
) -> Value:
    dtype = getattr(results.tensors[0], "dtype", None)
    x = as_dtype(graph, x, results.dtype)
    for kind, bound in (("max", min), ("min", max)):
        if bound is not None:
            limit = as_dtype(graph, number_in(dtype, bound), results.dtype)
            x = extreme(graph, kind, x, limit)
    return x


@row("clamp_max")
def _clamp_max(graph: Ir, results: Results, x: Value, max: Operand) -> Value:
    return _clamp(graph, results, x, max=max)


@row("hypot")
def _hypot(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    """Return sqrt(a² + b²) = m * sqrt(1 + r²), where m = max(|a|, |b|) and r = min(|a|, |b|) / m.

    It overflows only if the result does, and is infinite if either operand is infinite.
    """
    a, b = (graph.op("abs", operand) for operand in in_dtype(graph, results, a, b))
    larger = graph.op("max", a, b)
    smaller = graph.op("min", a, b)
    ratio = graph.op("div", smaller, larger)
    y = graph.op("mul", larger, graph.op("sqrt", graph.op("add", graph.op("square", ratio), 1.0)))
    y = graph.op("select", graph.op("eq", larger, 0.0), larger, y)
    for operand in (a, b):
        y = graph.op("select", graph.op("eq", operand, float("inf")), operand, y)
    return y


@row("hardtanh")
def _hardtanh(graph: Ir, results: Results, x: Value, low: float = -1, high: float = 1) -> Value:
    return _clamp(graph, results, x, min=low, max=high)


@row("pow")
def _pow(graph: Ir, results: Results, base: Operand, b: Operand) -> Value:
    """Return base ** b.

    As in torch, the constant exponents 1, 2, 3, 0.5 and -0.5 use products and square roots.
    """
    a: Value = as_dtype(graph, base, results.dtype)
    if not isinstance(b, Value) and is_float(results.dtype):
        if b == 1:
            return a
        if b in (2, 3):
            square = graph.op("square", a)
            return square if b == 2 else graph.op("mul", square, a)
        if b in (0.5, -0.5):
            return graph.op("sqrt" if b > 0 else "rsqrt", a)
    return graph.op("pow", a, as_dtype(graph, b, results.dtype))


# --- comparisons and choices ----------------------------------------------------------------------


def _comparison(kind: str) -> Callable[..., Value]:
    """Return the lowering function of a comparison, which converts both operands to a common dtype.

    The common dtype is the one to which torch promotes the operands.
    """

    def compare(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
        common, dtype = results.promoted()
        a, b = (number_in(common, v) for v in (a, b))
        return graph.op(kind, as_dtype(graph, a, dtype), as_dtype(graph, b, dtype))

    return compare


for _name, _kind in {
    "eq": "eq", "ne": "neq", "lt": "lt", "le": "lteq", "gt": "gt", "ge": "gteq",
}.items():  # fmt: skip
    row(_name)(_comparison(_kind))


def _logical(kind: str) -> Callable[..., Value]:
    """Return the lowering function of a logical operation, whose operands are converted to BOOL."""

    def combine(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
        return graph.op(kind, as_bool(graph, a), as_bool(graph, b))

    return combine


for _name, _kind in {"and": "logical_and", "or": "logical_or", "xor": "neq"}.items():
    row(f"logical_{_name}")(_logical(_kind))


@row("logical_not")
def _logical_not(graph: Ir, results: Results, x: Value) -> Value:
    return graph.op("logical_not", as_bool(graph, x))


@row("where")
def _where(graph: Ir, results: Results, mask: Value, a: Operand, b: Operand) -> Value:
    a, b = in_dtype(graph, results, a, b)
    return expand(graph, graph.op("select", as_bool(graph, mask), a, b), results.shape)


@row("heaviside")
def _heaviside(graph: Ir, results: Results, x: Value, at_zero: Value) -> Value:
    x, at_zero = (numeric(graph, v) for v in (x, at_zero))
    step = graph.cast(graph.op("gt", x, graph.constant(0, x.dtype)), x.dtype)
    step = _nan_to(graph, x, step) if x.floating else step
    y = graph.op("select", graph.op("eq", x, graph.constant(0, x.dtype)), at_zero, step)
    return as_dtype(graph, y, results.dtype)
