"""Lowering functions of random numbers.

All operations of a graph draw from one seed. They are numbered from 1, and the number is the
attribute `modifier` of the operation, so that different operations draw different numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log1p, pi

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import (
    Argument,
    Ints,
    Kind,
    Operand,
    Results,
    as_dtype,
    expand,
    reshape,
    row,
)
from ipu_teach.types import BOOL, FLOAT, INT

DRAWN = ("dropout_mask", "uniform", "normal")
SMALLEST = 2.0**-26  # The operation "uniform" returns 0 or numbers larger than this.


def random_numbers(
    graph: Ir, kind: str, shape: Ints, dtype: Kind, keep: float | None = None
) -> Value:
    """Return random numbers of the operation `kind`: "uniform", "normal" or "dropout_mask".

    `keep` is the probability with which a dropout mask keeps an element.
    """
    modifier = sum(op.kind in DRAWN for op in graph.ops) + 1
    options = {} if keep is None else {"keep": keep}
    return graph.op(
        kind, ir.seed(graph), **options, shape=tuple(shape), modifier=modifier, dtype=dtype
    )


def uniform(graph: Ir, results: Results) -> Value:
    """Return uniform FLOAT random numbers in [0, 1), in the shape of the result."""
    return random_numbers(graph, "uniform", results.shape, FLOAT)


def _below_one(graph: Ir, results: Results) -> Value:
    """Return uniform random numbers in [0, 1), in the dtype of the result.

    HALF numbers are limited to the largest HALF below 1, because rounding a FLOAT near 1 to HALF
    would give 1.
    """
    numbers = uniform(graph, results)
    if results.dtype is FLOAT:
        return numbers
    return graph.op("min", graph.cast(numbers, results.dtype), 1 - 2.0**-11)


def _positive(graph: Ir, results: Results) -> Value:
    """Return uniform FLOAT random numbers above 0 and below 1."""
    return graph.op("max", uniform(graph, results), SMALLEST)


@row("rand", "rand_like")
def _rand(graph: Ir, results: Results, *_: Argument, **__: Argument) -> Value:
    return _below_one(graph, results)


@row("randn", "randn_like")
def _randn(graph: Ir, results: Results, *_: Argument, **__: Argument) -> Value:
    return random_numbers(graph, "normal", results.shape, results.dtype)


@row("normal_functional", "normal")
def _normal(
    graph: Ir, results: Results, x: Operand, mean: Operand = 0.0, std: Operand = 1.0, **_: Argument
) -> Value:
    if "functional" not in str(results.node.target):  # the operation is normal(mean, std)
        std = mean if isinstance(mean, (int, float, Value)) and mean != 0.0 else std
        mean = x
    normal_numbers = random_numbers(graph, "normal", results.shape, results.dtype)
    scaled_numbers = graph.op("mul", normal_numbers, as_dtype(graph, std, results.dtype))
    return graph.op("add", scaled_numbers, as_dtype(graph, mean, results.dtype))


def _from_uniform(
    transform: Callable[[Ir, Value, float, float], Value], a_default: float, b_default: float = 0.0
) -> Callable[..., Value]:
    """Return the lowering function of a random distribution with two parameters, a and b.

    `a_default` and `b_default` are the parameters' default values. `transform(graph, u, a, b)`
    computes samples of the distribution from uniform random numbers u.
    """

    def sample(
        graph: Ir,
        results: Results,
        x: Value,
        a: float = a_default,
        b: float = b_default,
        **_: Argument,
    ) -> Value:
        return as_dtype(graph, transform(graph, _positive(graph, results), a, b), results.dtype)

    return sample


def _scaled(graph: Ir, u: Value, low: float, high: float) -> Value:
    return graph.op("add", graph.op("mul", u, high - low), low)


def _exponential(graph: Ir, u: Value, rate: float, _: float) -> Value:
    return graph.op("mul", graph.op("log", u), -1 / rate)


def _cauchy(graph: Ir, u: Value, median: float, sigma: float) -> Value:
    angle = graph.op("mul", graph.op("sub", u, 0.5), pi)
    ratio = graph.op("div", graph.op("sin", angle), graph.op("cos", angle))
    return graph.op("add", graph.op("mul", ratio, sigma), median)


def _geometric(graph: Ir, u: Value, p: float, _: float) -> Value:
    if p == 1:
        return graph.constant(1.0, u.dtype, u.shape)
    trials = graph.op("ceil", graph.op("mul", graph.op("log", u), 1 / log1p(-p)))
    return graph.op("max", trials, 1.0)


row("uniform")(_from_uniform(_scaled, 0.0, 1.0))
row("exponential")(_from_uniform(_exponential, 1.0))
row("cauchy")(_from_uniform(_cauchy, 0.0, 1.0))
row("geometric")(_from_uniform(_geometric, 0.5))


@row("log_normal")
def _log_normal(
    graph: Ir, results: Results, x: Value, mean: float = 1.0, std: float = 2.0, **_: Argument
) -> Value:
    numbers = random_numbers(graph, "normal", results.shape, results.dtype)
    return graph.op("exp", graph.op("add", graph.op("mul", numbers, std), mean))


def _between(graph: Ir, results: Results, low: int, high: int) -> Value:
    """Return random integers i with `low` <= i < `high`.

    :raises Unfit: if the range contains more than 2**24 integers.
    """
    if high - low > 2**24:
        why = (
            f"the range has {high - low:,} integers, more than a 32-bit float can represent exactly"
        )
        raise Unfit(why, f"choose a range of at most {2**24:,} integers.")
    integers_from_0 = graph.op("floor", graph.op("mul", uniform(graph, results), float(high - low)))
    integers_from_0 = graph.op("min", integers_from_0, float(high - low - 1))
    return as_dtype(graph, graph.op("add", graph.cast(integers_from_0, INT), low), results.dtype)


@row("randint")
def _randint(graph: Ir, results: Results, *arguments: Argument, **_: Argument) -> Value:
    bounds = [n for n in arguments if isinstance(n, int)]
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
    return _between(graph, results, low, high)


@row("randint_like")
def _randint_like(
    graph: Ir, results: Results, x: Value, *arguments: Argument, **_: Argument
) -> Value:
    return _randint(graph, results, *arguments)


@row("randperm")
def _randperm(graph: Ir, results: Results, n: int, **_: Argument) -> Value:
    order = graph.emit("top_k", uniform(graph, results), k=n)[1]
    return as_dtype(graph, graph.op("reinterpret", order, dtype=INT), results.dtype)


@row("bernoulli")
def _bernoulli(
    graph: Ir, results: Results, x: Value, p: Operand | None = None, **_: Argument
) -> Value:
    probability = as_dtype(graph, x if p is None else p, FLOAT)
    return as_dtype(graph, graph.op("lt", uniform(graph, results), probability), results.dtype)


@row("native_dropout")
def _dropout(graph: Ir, results: Results, x: Value, p: float, train: bool | None) -> list[Value]:
    if train is False or p == 0:
        return [x, graph.constant(True, BOOL, x.shape)]
    if p == 1:
        return [graph.op("mul", x, 0.0), graph.constant(False, BOOL, x.shape)]
    mask = random_numbers(graph, "dropout_mask", x.shape, x.dtype, keep=1 - p)
    return [graph.op("mul", x, mask), graph.op("gt", mask, 0.0)]


@row("multinomial")
def _multinomial(
    graph: Ir,
    results: Results,
    weights: Value,
    count: int,
    replacement: bool = False,
    **_: Argument,
) -> Value:
    """Return `count` random classes, drawn with probabilities that are proportional to `weights`.

    The class with the largest log(weight) plus Gumbel noise is drawn. Without replacement, the
    classes with the `count` largest sums are drawn.
    """
    log_weights = graph.op("log", graph.cast(weights, FLOAT))
    if not replacement:
        shape = weights.shape
        noise = _gumbel(graph, shape)
        classes_drawn = graph.emit("top_k", graph.op("add", log_weights, noise), k=count)[1]
    else:
        *leading_shape, classes = weights.shape
        shape = (*leading_shape, count, classes)
        repeated_logs = expand(
            graph, reshape(graph, log_weights, (*leading_shape, 1, classes)), shape
        )
        classes_drawn = graph.op("arg_max", graph.op("add", repeated_logs, _gumbel(graph, shape)))
    classes_drawn = graph.op("reinterpret", classes_drawn, dtype=INT)
    return reshape(graph, classes_drawn, results.shape)


def _gumbel(graph: Ir, shape: Ints) -> Value:
    """Return Gumbel noise -log(-log(u)), which is finite because 0 < u < 1."""
    u = graph.op("max", random_numbers(graph, "uniform", shape, FLOAT), SMALLEST)
    u = graph.op("min", u, 1 - 2.0**-24)
    return graph.op("neg", graph.op("log", graph.op("neg", graph.op("log", u))))
