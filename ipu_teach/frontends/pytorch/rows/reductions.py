"""Lowering functions of reductions: sums, products, extremes, variances, norms and softmax."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.pytorch.rows.registry import (
    Argument,
    Dims,
    Results,
    as_bool,
    as_dtype,
    dimensions,
    numeric,
    reshape,
    row,
)
from ipu_teach.types import FLOAT, HALF, INT

NAN = float("nan")


def reduce(graph: Ir, results: Results, kind: str, x: Value, dim: Dims, empty: float) -> Value:
    """Return `x` reduced over `dim`, in the result's shape, or `empty` if `x` has no elements.

    `kind` is the kind of the reduction in `frontends.ir`, such as "sum" or "reduce_max".
    """
    if not x.size:
        return graph.constant(empty, x.dtype, results.shape)
    y = ir.reduced(graph, kind, x, dimensions(x, dim)) if x.shape else x
    return reshape(graph, y, results.shape)


@row("sum")
def _sum(
    graph: Ir, results: Results, x: Value, dim: Dims = None, keepdim: bool = False, **_: Argument
) -> Value:
    return reduce(graph, results, "sum", as_dtype(graph, x, results.dtype), dim=dim, empty=0)


@row("prod")
def _prod(
    graph: Ir, results: Results, x: Value, dim: Dims = None, keepdim: bool = False, **_: Argument
) -> Value:
    x = as_dtype(graph, x, results.dtype)
    return graph.cast(
        reduce(graph, results, "reduce_prod", half_as_float(graph, x), dim=dim, empty=1), x.dtype
    )


def half_as_float(graph: Ir, x: Value) -> Value:
    """Return `x`, with HALF converted to FLOAT, so that a sum is rounded only once."""
    return graph.cast(x, FLOAT) if x.dtype is HALF else x


def _total(graph: Ir, results: Results, x: Value, dim: Dims, count: float) -> Value:
    """Return the sum of `x` over `dim`, divided by `count`; NaN or infinite if `count` is 0."""
    sums = reduce(graph, results, "sum", x, dim=dim, empty=0)
    return graph.op("mul", sums, 1 / count) if count else graph.op("div", sums, 0.0)


@row("mean")
def _mean(
    graph: Ir, results: Results, x: Value, dim: Dims = None, keepdim: bool = False, **_: Argument
) -> Value:
    x = as_dtype(graph, x, results.dtype)
    if not x.size:
        return graph.constant(NAN, x.dtype, results.shape)
    elements_per_sum = x.size / _size(results.shape)
    means = _total(graph, results, half_as_float(graph, x), dim=dim, count=elements_per_sum)
    return graph.cast(means, x.dtype)


def _size(shape: tuple[int, ...]) -> int:
    """Return the number of elements of a tensor with the shape `shape`."""
    size = 1
    for length in shape:
        size *= length
    return size


def _extreme(kind: str) -> Callable[..., Value]:
    """Return the lowering function of a maximum or minimum over dimensions.

    `kind` is "reduce_max" or "reduce_min".
    """

    def extreme(
        graph: Ir, results: Results, x: Value, dim: Dims = None, keepdim: bool = False
    ) -> Value:
        y = reduce(graph, results, kind, numeric(graph, x), dim=dim, empty=0)
        return as_dtype(graph, y, results.dtype)

    return extreme


row("amax")(_extreme("reduce_max"))
row("amin")(_extreme("reduce_min"))


@row("any")
def _any(graph: Ir, results: Results, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    true_count = reduce(graph, results, "sum", graph.cast(as_bool(graph, x), INT), dim=dim, empty=0)
    return as_dtype(graph, graph.op("gt", true_count, 0), results.dtype)


@row("all")
def _all(graph: Ir, results: Results, x: Value, dim: Dims = None, keepdim: bool = False) -> Value:
    is_false = graph.cast(graph.op("logical_not", as_bool(graph, x)), INT)
    false_count = reduce(graph, results, "sum", is_false, dim=dim, empty=0)
    return as_dtype(graph, graph.op("eq", false_count, 0), results.dtype)


@row("var", kept=True)
def _var(
    graph: Ir, results: Results, x: Value, dim: Dims = None, unbiased: bool | None = None,
    keepdim: bool = False, *, correction: float | None = None,
) -> Value:  # fmt: skip
    """Return the variance of `x` over `dim`.

    The variance is the sum of the squared differences from the mean, divided by max(n - correction,
    0), where n is the number of elements that are summed. If this divisor is 0, the variance is NaN
    or infinite.
    """
    if isinstance(dim, bool):  # the operation is var(x, unbiased)
        unbiased = dim
        dim = None
    if correction is None:
        correction = 0 if unbiased is False else 1
    if not x.size:
        return graph.constant(NAN, x.dtype, results.shape)
    dims = dimensions(x, dim)
    x = half_as_float(graph, x)
    mean = ir.mean(graph, x, dims, True) if x.shape else x
    centred = graph.op("sub", x, mean)
    divisor = max(x.size / _size(results.shape) - float(correction), 0.0)
    variances = _total(graph, results, graph.op("square", centred), dim=dim, count=divisor)
    return graph.cast(variances, results.dtype)


@row("var_mean")
def _var_mean(
    graph: Ir,
    results: Results,
    x: Value,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> list[Value]:
    variance = _var(
        graph, results, x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction
    )
    return [variance, _mean(graph, results, x, None if isinstance(dim, bool) else dim)]


@row("std")
def _std(
    graph: Ir,
    results: Results,
    x: Value,
    dim: Dims = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Value:
    variance = _var(
        graph, results, x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction
    )
    return graph.op("sqrt", variance)


@row("linalg_vector_norm")
def _vector_norm(
    graph: Ir, results: Results, x: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False,
    **_: Argument,
) -> Value:  # fmt: skip
    """Return the norm (Σ |x|ᵖ)^(1/p) over `dim`, where p is `ord`.

    For p = 0, the norm is the number of nonzero elements. For p = inf, the norm is the largest |x|,
    and for p = -inf, it is the smallest |x|.
    """
    magnitude = graph.op("abs", half_as_float(graph, as_dtype(graph, x, results.dtype)))
    norm = _norm_of(graph, results, magnitude, ord=float(ord), dim=dim)
    return graph.cast(norm, results.dtype)


def _norm_of(graph: Ir, results: Results, magnitude: Value, ord: float, dim: Dims) -> Value:
    """Return the norm of order `ord` over `dim`.

    `magnitude` contains the absolute values of the elements.
    """
    if ord in (float("inf"), -float("inf")):
        extreme_kind = "reduce_max" if ord > 0 else "reduce_min"
        return reduce(graph, results, extreme_kind, magnitude, dim=dim, empty=0)
    if ord == 0:
        magnitude = graph.cast(as_bool(graph, magnitude), magnitude.dtype)
    elif ord == 2:
        magnitude = graph.op("square", magnitude)
    elif ord != 1:
        magnitude = graph.op("pow", magnitude, ord)
    sums = reduce(graph, results, "sum", magnitude, dim=dim, empty=0)
    if ord in (0, 1):
        return sums
    return graph.op("sqrt", sums) if ord == 2 else graph.op("pow", sums, 1 / ord)


@row("dist")
def _dist(graph: Ir, results: Results, a: Value, b: Value, p: float = 2) -> Value:
    return _vector_norm(
        graph, results, graph.op("sub", *(half_as_float(graph, v) for v in (a, b))), p
    )


def _along(kind: str) -> Callable[..., Value]:
    """Return the lowering function of a softmax or a log-softmax along a dimension."""

    def along(graph: Ir, results: Results, x: Value, dim: int, *_: Argument) -> Value:
        x = as_dtype(graph, x, results.dtype)
        if not x.size:
            return x
        y = ir.along(graph, kind, x if x.shape else reshape(graph, x, (1,)), dim)
        return reshape(graph, y, results.shape)

    return along


row("_softmax", "softmax")(_along("softmax"))
row("_log_softmax", "log_softmax")(_along("log_softmax"))
