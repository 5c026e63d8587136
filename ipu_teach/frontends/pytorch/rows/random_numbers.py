"""Lowering functions of random numbers.

All random operations of a graph use one seed. Their attributes `modifier` differ, so they return
different numbers. Only an operation that a checkpoint computes again has the same `modifier` as the
original operation, and returns the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log1p, pi

import torch

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

SMALLEST = 2.0**-26  # The operation "uniform" returns 0 or numbers larger than this.


def random_numbers(
    graph: Ir,
    results: Results,
    kind: str,
    dtype: Kind = FLOAT,
    *,
    shape: Ints | None = None,
    **options: float,
) -> Value:
    """Return random numbers of the operation `kind`: "uniform", "normal" or "dropout_mask".

    If `shape` is None, the numbers have the shape of the result. `options` are attributes of the
    operation, such as `keep`, the probability with which a dropout mask keeps an element.
    """
    return graph.op(
        kind,
        ir.seed(graph),
        **options,
        shape=results.shape if shape is None else tuple(shape),
        modifier=results.next_draw(graph),
        dtype=dtype,
    )


def uniform(graph: Ir, results: Results) -> Value:
    """Return uniform FLOAT random numbers in [0, 1), in the shape of the result."""
    return random_numbers(graph, results, "uniform")


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
    """Return uniform FLOAT random numbers that are above 0 and below 1."""
    return graph.op("max", uniform(graph, results), SMALLEST)


@row("rand", "rand_like")
def _rand(graph: Ir, results: Results, *_: Argument, **__: Argument) -> Value:
    return _below_one(graph, results)


@row("randn", "randn_like")
def _randn(graph: Ir, results: Results, *_: Argument, **__: Argument) -> Value:
    return random_numbers(graph, results, "normal", results.dtype)


@row("normal_functional", "normal")
def _normal(
    graph: Ir, results: Results, x: Operand, mean: Operand = 0.0, std: Operand = 1.0, **_: Argument
) -> Value:
    if "functional" not in str(results.node.target):  # the operation is normal(mean, std)
        std = mean if isinstance(mean, (int, float, Value)) and mean != 0.0 else std
        mean = x
    normal_numbers = random_numbers(graph, results, "normal", results.dtype)
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
    numbers = random_numbers(graph, results, "normal", results.dtype)
    return graph.op("exp", graph.op("add", graph.op("mul", numbers, std), mean))


def _between(graph: Ir, results: Results, low: int, high: int) -> Value:
    """Return random integers i with `low` <= i < `high`.

    :raises Unfit: if an integer needs more than 32 bits.
    """
    if low < -(2**31) or high > 2**31:
        raise Unfit(
            f"the range from {low:,} to {high - 1:,} has integers of more than 32 bits",
            "choose integers from -2**31 to 2**31 - 1.",
        )
    integers = random_numbers(graph, results, "uniform", INT, least=low, most=high - 1)
    return as_dtype(graph, integers, results.dtype)


@row("random")
def _random(graph: Ir, results: Results, x: Value, *bounds: int | None, **_: Argument) -> Value:
    """Return random integers for `x.random_(low, high)`, `x.random_(high)` or `x.random_()`.

    Integers are below `high`. Without `high`, the integers go up to the largest n for which the
    dtype represents all integers from 0 to n.
    """
    low = bounds[0] if len(bounds) == 2 else 0
    high = bounds[-1] if bounds else None
    if high is None:
        dtype = results.tensors[0].dtype
        if dtype.is_floating_point:
            high = round(2 / torch.finfo(dtype).eps) + 1
        else:
            high = 2 if dtype is torch.bool else torch.iinfo(dtype).max + 1
    return _between(graph, results, low or 0, high)


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
    mask = random_numbers(graph, results, "dropout_mask", x.dtype, keep=1 - p)
    return [graph.op("mul", x, mask), graph.op("gt", mask, 0.0)]


@row("rrelu_with_noise_functional")
def _rrelu(
    graph: Ir,
    results: Results,
    x: Value,
    noise: Value,
    low: float = 1 / 8,
    high: float = 1 / 3,
    training: bool = False,
    **_: Argument,
) -> list[Value]:
    """Return [y, factors]: the elements of `x` multiplied by their factors, and the factors.

    In training, the factor of an element is random where x <= 0, and 1 elsewhere. Outside of
    training, it is the mean of `low` and `high` where x <= 0, and 1 elsewhere, and `noise` is
    returned in place of the factors.
    """
    if not training:
        factor = graph.constant((low + high) / 2, x.dtype)
        return [graph.op("select", graph.op("gt", x, 0.0), x, graph.op("mul", x, factor)), noise]
    factors = as_dtype(graph, _scaled(graph, uniform(graph, results), low, high), x.dtype)
    one = graph.constant(1.0, x.dtype)
    factors = graph.op("select", graph.op("lteq", x, 0.0), factors, one)
    return [graph.op("mul", x, factors), factors]


@row("rrelu_with_noise_backward")
def _rrelu_backward(
    graph: Ir,
    results: Results,
    gradient: Value,
    x: Value,
    factors: Value,
    low: float,
    high: float,
    training: bool,
    is_result: bool,
) -> Value:
    """Return `gradient` multiplied by the factors that `_rrelu` has used in the forward pass."""
    if not training or high - low <= 1e-6:
        factor = graph.constant((low + high) / 2, x.dtype)
        is_positive = graph.op("gt", x, 0.0)
        return graph.op("select", is_positive, gradient, graph.op("mul", gradient, factor))
    return graph.op("mul", gradient, factors)


@row("poisson", "binomial", "_standard_gamma", "_sample_dirichlet")
def _rejected(graph: Ir, results: Results, *_: Argument, **__: Argument) -> Value:
    """Raise `Unfit`: samples of this distribution need a variable number of random numbers."""
    raise Unfit(
        "torch draws numbers until it accepts one, but the device draws a fixed number of them",
        "draw the samples on the host, and pass them to the module as an input.",
    )


@row("multinomial")
def _multinomial(
    graph: Ir,
    results: Results,
    weights: Value,
    count: int,
    replacement: bool = False,
    **_: Argument,
) -> Value:
    """Return `count` random classes, with probabilities that are proportional to `weights`.

    Gumbel noise is added to log(weights), and the class with the largest sum is chosen. Without
    replacement, the classes with the `count` largest sums are chosen.
    """
    log_weights = graph.op("log", graph.cast(weights, FLOAT))
    if not replacement:
        shape = weights.shape
        noise = _gumbel(graph, results, shape)
        classes_drawn = graph.emit("top_k", graph.op("add", log_weights, noise), k=count)[1]
    else:
        *leading_shape, classes = weights.shape
        shape = (*leading_shape, count, classes)
        repeated_logs = expand(
            graph, reshape(graph, log_weights, (*leading_shape, 1, classes)), shape
        )
        classes_drawn = graph.op(
            "arg_max", graph.op("add", repeated_logs, _gumbel(graph, results, shape))
        )
    classes_drawn = graph.op("reinterpret", classes_drawn, dtype=INT)
    return reshape(graph, classes_drawn, results.shape)


def _gumbel(graph: Ir, results: Results, shape: Ints) -> Value:
    """Return Gumbel noise -log(-log(u)), which is finite because 0 < u < 1."""
    u = graph.op("max", random_numbers(graph, results, "uniform", shape=shape), SMALLEST)
    u = graph.op("min", u, 1 - 2.0**-24)
    return graph.op("neg", graph.op("log", graph.op("neg", graph.op("log", u))))
