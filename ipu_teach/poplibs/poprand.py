"""Random numbers and dropout, on the generators of the tiles.

A function draws for each element of a *reference* tensor, where that element lies. Every tile has six streams, one a worker,
which follow from the `seed`, the `seed_modifier`, the tile and the worker alone; its elements, in the order of the reference,
are shared out among the workers in blocks. So equal seeds and layouts give equal numbers, in every run and on a machine of
any size, and a mask can be drawn again for the backward pass. Give each call of a program a modifier of its own.

`seed`: a tensor of two UNSIGNED_INT, which the program may change between runs. The generator is `types.generator`'s; how
PopLibs makes streams of a seed is not published (see docs/numbers.md), so the numbers are not those of a chip.
Modelled cycles: PopLibs' estimates (poprandCycleEstimators.cpp), with those of setting the seed.
"""

from __future__ import annotations

from functools import cache
from math import ceil, erfc, log10, sqrt
from typing import Any

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import WORKERS, Input, Output, SupervisorVertex, Vector, Vertex, template
from ipu_teach.poplibs.checks import check_float
from ipu_teach.poplibs.poputil import check_call, check_mapped, check_number, check_same, check_tensor, clone, take, tile_pieces
from ipu_teach.program import Execute
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, INT, UNSIGNED_INT, Array, DType, as_dtype, generator

FAILURES = -4.0  # the power of ten of the chance that a truncated normal is still outside after all its draws


class _Draw(SupervisorVertex):
    """What all vertices that draw have: seed and place, which say which stream; the result."""

    seed: Input[Vector[UNSIGNED_INT]]
    modifier: UNSIGNED_INT
    tile: UNSIGNED_INT

    def streams(self) -> Array:
        """A generator for each worker: uint64 (workers, 2)."""
        return generator.keyed(int(self.seed[0]), int(self.seed[1]), int(self.modifier), int(self.tile), np.arange(WORKERS))


class Uniform(_Draw):
    """out = evenly distributed between low and high."""

    out: Output[Vector[HALF]]
    low: FLOAT
    high: FLOAT

    def compute(self) -> None:
        streams, count = self.streams(), len(self.out)
        self.out = _in_order(generator.uniform(streams, _each(count), float(self.low), float(self.high)), count)

    def cycles(self, target: Target) -> int:
        return int(vertices.set_seed(target) + vertices.uniform(len(self.out), self.fields["out"].dtype, target))


class UniformWhole(_Draw):
    """out = whole numbers from low to high, both included, each as likely."""

    out: Output[Vector[INT]]
    low: INT
    high: INT

    def compute(self) -> None:
        words = generator.draw(self.streams(), _each(len(self.out))) >> np.uint64(32)
        choices = np.uint64(int(self.high) - int(self.low) + 1)
        self.out = _in_order((words * choices >> np.uint64(32)).astype(np.int64) + int(self.low), len(self.out))

    def cycles(self, target: Target) -> int:
        return int(vertices.set_seed(target) + vertices.uniform(len(self.out), INT, target))


class Normal(_Draw):
    """out = normally distributed around mean."""

    out: Output[Vector[HALF]]
    mean: FLOAT
    deviation: FLOAT

    def compute(self) -> None:
        numbers = generator.normal(self.streams(), _each(len(self.out)), float(self.mean), float(self.deviation))
        self.out = _in_order(numbers, len(self.out))

    def cycles(self, target: Target) -> int:
        return int(vertices.set_seed(target) + vertices.normal(len(self.out), self.fields["out"].dtype, target))


class TruncatedNormal(_Draw):
    """out = normally distributed around mean, within alpha deviations of it."""

    out: Output[Vector[HALF]]
    mean: FLOAT
    deviation: FLOAT
    alpha: FLOAT

    def compute(self) -> None:
        streams, alpha = self.streams(), float(self.alpha)
        each = _each(len(self.out))
        unit = generator.normal(streams, each)
        for _ in range(_draws(alpha) - 1):
            unit = np.where(np.absolute(unit) <= alpha, unit, generator.normal(streams, each))
        # What is outside after all draws becomes the sum of two even numbers, a triangle within the bounds.
        even = generator.uniform(streams, 2 * each, -alpha / 2, alpha / 2)
        unit = np.where(np.absolute(unit) <= alpha, unit, even[:, :each] + even[:, each:])
        self.out = _in_order(unit * np.float32(self.deviation) + np.float32(self.mean), len(self.out))

    def cycles(self, target: Target) -> int:
        # Values are not known here; PopLibs' estimate is for its own default of two deviations.
        drawn = vertices.truncated_normal(len(self.out), _draws(2.0), self.fields["out"].dtype, target)
        return int(vertices.set_seed(target) + drawn)


class Bernoulli(_Draw):
    """out = 1 with the probability, else 0."""

    out: Output[Vector[HALF]]
    probability: FLOAT

    def compute(self) -> None:
        self.out = _in_order(generator.bernoulli(self.streams(), _each(len(self.out)), float(self.probability)), len(self.out))

    def cycles(self, target: Target) -> int:
        return int(vertices.set_seed(target) + vertices.bernoulli(len(self.out), self.fields["out"].dtype, target))


class Dropout(_Draw):
    """out = x times scale where it is kept, else 0."""

    x: Input[Vector[HALF]]
    out: Output[Vector[HALF]]
    keep: FLOAT
    scale: FLOAT

    def compute(self) -> None:
        count = len(self.out)
        kept = _in_order(generator.bernoulli(self.streams(), _each(count), float(self.keep)), count)
        self.out = np.where(kept, self.x.astype(np.float32) * self.scale, np.float32(0))

    def cycles(self, target: Target) -> int:
        return int(vertices.set_seed(target) + vertices.dropout(len(self.out), self.fields["out"].dtype, target))


def _each(count: int) -> int:
    """Numbers that each worker draws."""
    return -(-count // WORKERS)


def _in_order(drawn: Array, count: int) -> Array:
    """The workers' numbers, one worker after the other."""
    return drawn.reshape(-1)[:count]


def _draws(alpha: float) -> int:
    """How often a truncated normal is drawn, so that 1 in 10,000 at most is still outside `alpha` deviations."""
    outside = erfc(alpha / sqrt(2))
    return max(1, ceil(FAILURES / log10(outside))) if outside < 1 else 1


@cache
def _codelet(base: Any, out: type[DType]) -> type[Vertex]:
    return template(base, f"poprand::{base.__name__}<{out.__name__.lower()}>", {HALF: out, INT: out})


def uniform(
    graph: Graph,
    seed: Tensor,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    min_val: float,
    max_val: float,
    prog: Program,
    debug_context: str = "uniform",
) -> Tensor:
    """Numbers evenly distributed from `min_val` to below `max_val` (FLOAT, HALF), or to `max_val` itself (INT, UNSIGNED_INT).

    A tensor with the shape and mapping of `reference`. HALF is rounded from single precision and may be `max_val`.
    Raises `PoplibsError`.
    """
    _check("uniform", graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type("uniform", out_type, (FLOAT, HALF, INT, UNSIGNED_INT))
    low, high = check_number("uniform", "min_val", min_val, dtype), check_number("uniform", "max_val", max_val, dtype)
    if not low <= high or not np.isfinite(float(high) - float(low)):
        raise PoplibsError(
            f"uniform() was given min_val {shown(min_val)} and max_val {shown(max_val)}.",
            next_step="give the smaller bound first, both finite.",
        )
    whole = dtype in (INT, UNSIGNED_INT)
    state = {"low": low, "high": high} if whole else {"low": float(low), "high": float(high)}
    return _drawn(graph, UniformWhole if whole else Uniform, dtype, seed, seed_modifier, reference, prog, debug_context, state)


def normal(
    graph: Graph,
    seed: Tensor,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    mean: float,
    std_dev: float,
    prog: Program,
    debug_context: str = "normal",
) -> Tensor:
    """Normally distributed numbers, FLOAT or HALF: a tensor with the shape and mapping of `reference`.

    They are as coarse as the hardware's, multiples of 1/32 deviation up to 5.8 of them. Raises `PoplibsError`.
    """
    _check("normal", graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type("normal", out_type, (FLOAT, HALF))
    state = {"mean": _finite("normal", "mean", mean), "deviation": _finite("normal", "std_dev", std_dev, 0)}
    return _drawn(graph, Normal, dtype, seed, seed_modifier, reference, prog, debug_context, state)


def truncated_normal(
    graph: Graph,
    seed: Tensor,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    mean: float,
    std_dev: float,
    alpha: float,
    prog: Program,
    debug_context: str = "truncated_normal",
) -> Tensor:
    """Normally distributed numbers within `alpha` deviations of the mean, FLOAT or HALF; else as `normal`.

    Numbers outside are drawn again, as often as leaves 1 in 10,000; what is left is drawn from a triangle. The modelled cycles
    are those of an alpha of 2. `alpha` is from 0.1 to 5.8. Raises `PoplibsError`.
    """
    _check("truncated_normal", graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type("truncated_normal", out_type, (FLOAT, HALF))
    state = {
        "mean": _finite("truncated_normal", "mean", mean),
        "deviation": _finite("truncated_normal", "std_dev", std_dev, 0),
        "alpha": _finite("truncated_normal", "alpha", alpha, 0.1, 5.8),
    }
    return _drawn(graph, TruncatedNormal, dtype, seed, seed_modifier, reference, prog, debug_context, state)


def bernoulli(
    graph: Graph,
    seed: Tensor,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    prob: float,
    prog: Program,
    debug_context: str = "bernoulli",
) -> Tensor:
    """1 with probability `prob` (to one part in 65,536), else 0, of FLOAT, HALF or INT: shape and mapping of `reference`."""
    _check("bernoulli", graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type("bernoulli", out_type, (FLOAT, HALF, INT))
    state = {"probability": _finite("bernoulli", "prob", prob, 0, 1)}
    return _drawn(graph, Bernoulli, dtype, seed, seed_modifier, reference, prog, debug_context, state)


def dropout(
    graph: Graph,
    seed: Tensor,
    seed_modifier: int,
    x: Tensor,
    reference: Tensor,
    keep_probability: float,
    scale: float,
    prog: Program,
    debug_context: str = "dropout",
) -> Tensor:
    """x * scale where an element is kept, with `keep_probability`, and 0 elsewhere: x's shape and dtype, FLOAT or HALF.

    The mask depends on the seed, the modifier and the layout of `reference`, which has x's shape: the same three give the
    same mask for a gradient. The result has the mapping of `reference`. For a mean that stays, `scale` is
    1 / keep_probability. Raises `PoplibsError`.
    """
    _check("dropout", graph, seed, seed_modifier, reference, prog, debug_context)
    check_float("dropout", graph, "x", x)
    check_mapped("dropout", graph, "x", x)
    check_same("dropout", "shapes", x.shape, reference.shape, f"x {x!r} and reference {reference!r}", "give x as reference.")
    state = {
        "keep": _finite("dropout", "keep_probability", keep_probability, 0, 1),
        "scale": _finite("dropout", "scale", scale),
    }
    return _drawn(graph, Dropout, x.dtype, seed, seed_modifier, reference, prog, debug_context, state, {"x": x})


def _drawn(
    graph: Graph,
    base: Any,
    dtype: type[DType],
    seed: Tensor,
    modifier: int,
    reference: Tensor,
    prog: Program,
    name: str,
    state: dict[str, Any],
    operands: dict[str, Tensor] | None = None,
) -> Tensor:
    """One vertex on every tile that holds some of `reference`."""
    out = clone(graph, reference, f"{name}/out", dtype)
    flat = {field: tensor.flatten() for field, tensor in ({"out": out} | (operands or {})).items()}
    compute_set, codelet = graph.add_compute_set(name), _codelet(base, dtype)
    for tile, pieces in tile_pieces(graph, reference):
        edges = {field: take(tensor, pieces) for field, tensor in flat.items()}
        vertex = graph.add_vertex(compute_set, codelet, edges, seed=seed, modifier=int(modifier), tile=tile, **state)
        graph.set_tile_mapping(vertex, tile)
    prog.add(Execute(compute_set))
    return out


def _check(function: str, graph: Graph, seed: object, modifier: object, reference: object, prog: object, name: object) -> None:
    check_call(function, graph, prog, name)
    check_tensor(function, graph, "seed", seed)
    assert isinstance(seed, Tensor)
    if seed.dtype is not UNSIGNED_INT or seed.shape != (2,):
        raise PoplibsError(
            f"{function}() wants two UNSIGNED_INT as seed; it was given {seed.num_elements} of {seed.dtype.__name__}.",
            where=repr(seed),
            next_step="make it with graph.add_variable(UNSIGNED_INT, (2,)) and graph.set_initial_value.",
        )
    check_mapped(function, graph, "seed", seed)
    check_number(function, "seed_modifier", modifier, UNSIGNED_INT)
    check_tensor(function, graph, "reference", reference)
    assert isinstance(reference, Tensor)
    check_mapped(function, graph, "reference", reference)


def _out_type(function: str, given: object, allowed: tuple[type[DType], ...]) -> type[DType]:
    dtype = as_dtype(given, f"{function}()")
    if dtype not in allowed:
        raise PoplibsError(
            f"{function}() was given out_type={dtype.__name__}.",
            next_step=f"use {', '.join(t.__name__ for t in allowed)}.",
        )
    return dtype


def _finite(function: str, argument: str, value: object, least: float = -np.inf, most: float = np.inf) -> float:
    """`value` as a number between two bounds. Raises `PoplibsError`."""
    number = float(check_number(function, argument, value, FLOAT))
    if not np.isfinite(number) or not least <= number <= most:
        bounds = f" from {least:g} to {most:g}" if np.isfinite(most) else f" of {least:g} or more" if np.isfinite(least) else ""
        raise PoplibsError(f"{function}() was given {shown(value)} as {argument}.", next_step=f"give a finite number{bounds}.")
    return number
