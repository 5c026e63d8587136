"""Random numbers and dropout, on the generators of the tiles.

A function draws a number for each element of a *reference* tensor, on the element's tile. Every
tile has six streams, one a worker, which follow from the `seed`, the `seed_modifier`, the tile and
the worker alone; its elements, in the order of the reference, are distributed over the workers in
blocks. So equal seeds and layouts give equal numbers, in every run and on a machine of any size,
and a mask can be drawn again for the backward pass. Give each call of a program a modifier of its
own.

`seed` is a tensor of two UNSIGNED_INT, which the program may change between runs. If it is None,
the workers' own generators continue, from `set_seed`, `set_hw_seeds` or the option prng.seed. The
generator is that of `types.generator`. How PopLibs derives streams from a seed is not published
(see docs/numbers.md), so the numbers are not those of a chip. Modelled cycles: PopLibs' estimates
(poprandCycleEstimators.cpp), with those of setting the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, erfc, log10, sqrt
from typing import Any, ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices.parts import Size
from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Input, Output, Tensor, Vector
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.registers import RegisterVertex
from ipu_teach.poplibs import laying, popops
from ipu_teach.poplibs.library import (
    OWN,
    as_given,
    calling,
    check_alike,
    check_dtype,
    check_mapped,
    check_number,
    check_tensor,
    library,
    refused,
)
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.poputil import like
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, INT, UNSIGNED_INT, Array, DType, as_dtype, generator

# the power of ten of the chance that a truncated normal is still outside after all its draws
FAILURES = -4.0


class _Stream(RegisterVertex):
    """The common fields of vertices with a seed: the seed and the place, which determine the
    stream. An empty seed stands for none."""

    seed: Input[Vector[UNSIGNED_INT]]
    modifier: UNSIGNED_INT
    tile: UNSIGNED_INT

    def streams(self) -> Array:
        """Return a generator for each worker, uint64 (..., workers, 2): one that follows from the
        seed, or the worker's own."""
        generators = self.registers.generators
        if not self.seed.shape[-1]:
            return generators
        keys = (self.seed[..., 0], self.seed[..., 1], self.modifier, self.tile)
        return generator.keyed(*(key[..., None] for key in keys), np.arange(generators.shape[-2]))

    def set_up(self, target: Target) -> int:
        """Tile cycles that setting the seed takes."""
        return int(vertices.set_seed(target) if self.seed.shape[-1] else 0)


class SetSeed(_Stream):
    """The generators of the tile's workers become those that follow from the seed."""

    def compute(self) -> None:
        self.registers.generators[...] = self.streams()

    def cycles(self, target: Target) -> int:
        return self.set_up(target)


class _Draw(_Stream):
    """The common field of all vertices that draw, besides their streams: the result."""

    out: Output[Vector[HALF]]
    drawing: ClassVar[Callable[..., Size]]  # tile cycles of `n` numbers, without the seed's

    @property
    def each(self) -> int:
        """Numbers that each worker draws."""
        workers: int = self.registers.generators.shape[-2]
        return -(-int(self.out.shape[-1]) // workers)

    def in_order(self, drawn: Array) -> Array:
        """Return the workers' numbers, one worker after the other."""
        numbers: Array = drawn.reshape(*drawn.shape[:-2], -1)[..., : self.out.shape[-1]].reshape(
            self.out.shape
        )
        return numbers

    def cycles(self, target: Target) -> int:
        drawing = self.drawing(self.out.shape[-1], self.fields["out"].dtype, target)
        return int(self.set_up(target) + drawing)


class Uniform(_Draw):
    """out = evenly distributed between low and high."""

    low: FLOAT
    high: FLOAT

    def compute(self) -> None:
        low = self.low[..., None, None]
        high = self.high[..., None, None]
        self.out = self.in_order(generator.uniform(self.streams(), self.each, low, high))

    drawing = staticmethod(vertices.uniform)


class LogUniform(_Draw):
    """out = e to the power of a number evenly distributed between the logarithms of low and
    high."""

    low: FLOAT
    high: FLOAT

    def compute(self) -> None:
        low = self.low[..., None, None]
        high = self.high[..., None, None]
        powers = np.exp(generator.uniform(self.streams(), self.each, np.log(low), np.log(high)))
        self.out = self.in_order(np.clip(powers, low, high))

    def drawing(self, n: int, dtype: type[DType], target: Target) -> Size:
        """Return PopLibs composes it: the seed, Uniform, and an exponential in single precision."""
        power = vertices.unary_op_1d("EXPONENT", n, FLOAT, target, in_place=True)
        return vertices.uniform(n, FLOAT, target) + power


class UniformWhole(_Draw):
    """out = whole numbers from low to high, both included, each as likely."""

    out: Output[Vector[INT]]
    low: INT
    high: INT

    def compute(self) -> None:
        low, high = (bound[..., None, None].astype(np.int64) for bound in (self.low, self.high))
        words = generator.draw(self.streams(), self.each) >> np.uint64(32)
        choices = (high - low + 1).astype(np.uint64)
        self.out = self.in_order((words * choices >> np.uint64(32)).astype(np.int64) + low)

    def drawing(self, n: int, dtype: type[DType], target: Target) -> Size:
        return vertices.uniform(n, INT, target)


class Normal(_Draw):
    """out = normally distributed around mean."""

    mean: FLOAT
    deviation: FLOAT

    def compute(self) -> None:
        mean = self.mean[..., None, None]
        deviation = self.deviation[..., None, None]
        self.out = self.in_order(generator.normal(self.streams(), self.each, mean, deviation))

    drawing = staticmethod(vertices.normal)


class TruncatedNormal(_Draw):
    """out = normally distributed around mean, within alpha deviations of it. `alpha` is a constant
    of the class."""

    mean: FLOAT
    deviation: FLOAT
    alpha: ClassVar[float] = 2.0

    def compute(self) -> None:
        streams = self.streams()
        alpha = self.alpha
        each = self.each
        unit = generator.normal(streams, each)
        for _ in range(_draws(alpha) - 1):
            unit = np.where(np.absolute(unit) <= alpha, unit, generator.normal(streams, each))
        # What is outside after all draws becomes the sum of two even numbers, a triangle within the
        # bounds.
        even = generator.uniform(streams, 2 * each, -alpha / 2, alpha / 2)
        unit = np.where(np.absolute(unit) <= alpha, unit, even[..., :each] + even[..., each:])
        self.out = self.in_order(
            unit * self.deviation[..., None, None] + self.mean[..., None, None]
        )

    def drawing(self, n: int, dtype: type[DType], target: Target) -> Size:
        return vertices.truncated_normal(n, _draws(self.alpha), dtype, target)


class Bernoulli(_Draw):
    """out = 1 with the probability, else 0."""

    probability: FLOAT

    def compute(self) -> None:
        self.out = self.in_order(
            generator.bernoulli(self.streams(), self.each, self.probability[..., None, None])
        )

    drawing = staticmethod(vertices.bernoulli)


class Dropout(_Draw):
    """out = x times scale where it is kept, else 0."""

    x: Input[Vector[HALF]]
    keep: FLOAT
    scale: FLOAT

    def compute(self) -> None:
        is_kept = self.in_order(
            generator.bernoulli(self.streams(), self.each, self.keep[..., None, None])
        )
        self.out = np.where(
            is_kept, self.x.astype(np.float32) * self.scale[..., None], np.float32(0)
        )

    drawing = staticmethod(vertices.dropout)


def _draws(alpha: float) -> int:
    """Return how often a truncated normal is drawn, so that 1 in 10,000 at most is still outside
    `alpha` deviations."""
    outside = erfc(alpha / sqrt(2))
    return max(1, ceil(FAILURES / log10(outside))) if outside < 1 else 1


def _check_seed(graph: Graph, argument: str, seed: Tensor | None, modifier: object) -> None:
    if seed is None:
        return
    check_tensor(graph, argument, seed)
    if seed.dtype is not UNSIGNED_INT or seed.shape != (2,):
        raise refused(f"""needs two UNSIGNED_INT as {argument}; it was given {seed.num_elements} of
            {seed.dtype.__name__}.
            where: {seed!r}
            next:  make it with graph.add_variable(UNSIGNED_INT, (2,)) and
            graph.set_initial_value.""")
    check_mapped(graph, argument, seed)
    check_number("seed_modifier", modifier, UNSIGNED_INT)
    if not is_whole(modifier):
        raise as_given(modifier, "seed_modifier", "give a whole number.")


class _Call:
    """The arguments of all calls that draw: a seed, which is checked, and a reference."""

    def __init__(
        self,
        graph: Graph,
        seed: Tensor | None,
        modifier: int,
        reference: Tensor,
        prog: Program,
        name: str,
    ) -> None:
        _check_seed(graph, "seed", seed, modifier)
        self.graph = graph
        self.seed = seed
        self.modifier = modifier
        self.reference = reference
        self.prog = prog
        self.name = name

    def draw(
        self,
        base: Any,
        dtype: type[DType],
        constants: dict[str, float] | None = None,
        x: Tensor | None = None,
        /,
        **state: float,
    ) -> Tensor:
        """Return one vertex on every tile that holds some of the reference; `x`: a tensor of its
        shape."""
        graph = self.graph
        name = self.name
        seed = self.seed
        if seed is None:
            seed = graph.add_variable(UNSIGNED_INT, (0,), f"{name}/seed")
        out = like(graph, self.reference, f"{name}/out", dtype)
        sides = {"out": out} if x is None else {"out": out, "x": x}
        work = laying.pieces_of(
            graph, self.reference, sides, seed=seed, modifier=int(self.modifier), **state
        )
        codelet = laying.typed(base, [dtype], {HALF: dtype, INT: dtype}, **(constants or {}))
        numbered = ((tile, edges | {"tile": tile}) for tile, edges in work)
        laying.step(graph, self.prog, name, codelet, numbered)
        return out


@library
def set_seed(
    graph: Graph, master_seed: Tensor, seed_modifier: int, prog: Program, debug_context: str = OWN
) -> None:
    """Seed the generators of all workers of all tiles. Draws without a seed, and stochastic
    rounding, continue from there.

    The worker and the tile determine the stream together with `master_seed` and `seed_modifier`, so
    no two streams are equal, and none depends on the number of tiles. Modelled cycles: PopLibs'
    estimate for SetSeed. Raises `PoplibsError`.
    """
    _check_seed(graph, "master_seed", master_seed, seed_modifier)
    state = {"seed": master_seed, "modifier": int(seed_modifier)}
    work = ((tile, state | {"tile": tile}) for tile in range(graph.target.num_tiles))
    laying.step(graph, prog, debug_context, SetSeed, work)


@library
def uniform(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    min_val: float,
    max_val: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Numbers evenly distributed from `min_val` to below `max_val` (FLOAT, HALF), or to `max_val`
    itself (INT, UNSIGNED_INT).

    A tensor with the shape and mapping of `reference`. HALF is rounded from single precision and
    may be `max_val`. Raises `PoplibsError`.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF, INT, UNSIGNED_INT))
    low, high = check_number("min_val", min_val, dtype), check_number("max_val", max_val, dtype)
    _check_bounds(low, high, min_val, max_val)
    if dtype in (INT, UNSIGNED_INT):
        return call.draw(UniformWhole, dtype, low=low, high=high)
    return call.draw(Uniform, dtype, low=float(low), high=float(high))


@library
def log_uniform(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    min_val: float,
    max_val: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Numbers from `min_val` to `max_val`, both above 0, whose logarithms are evenly distributed:
    FLOAT or HALF.

    A tensor with the shape and mapping of `reference`. Drawn in single precision, rounded at the
    end. Raises `PoplibsError`.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF))
    smallest = float(np.finfo(np.float32).tiny)
    low, high = _finite("min_val", min_val, smallest), _finite("max_val", max_val, smallest)
    _check_bounds(low, high, min_val, max_val)
    return call.draw(LogUniform, dtype, low=low, high=high)


@library
def normal(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    mean: float,
    std_dev: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return normally distributed numbers, FLOAT or HALF: a tensor with the shape and mapping of
    `reference`.

    They are as coarse as the hardware's: multiples of 1/32 of the standard deviation, up to 5.8
    standard deviations. Raises `PoplibsError`.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF))
    state = {"mean": _finite("mean", mean), "deviation": _finite("std_dev", std_dev, 0)}
    return call.draw(Normal, dtype, **state)


@library
def truncated_normal(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    mean: float,
    std_dev: float,
    alpha: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return normally distributed numbers within `alpha` standard deviations of the mean, FLOAT or
    HALF; otherwise like `normal`.

    Numbers outside are drawn again, often enough to leave 1 in 10,000; the rest is drawn from a
    triangle. `alpha` is from 0.1 to 5.8. Raises `PoplibsError`.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF))
    state = {"mean": _finite("mean", mean), "deviation": _finite("std_dev", std_dev, 0)}
    constants = {"alpha": _finite("alpha", alpha, 0.1, 5.8)}
    return call.draw(TruncatedNormal, dtype, constants, **state)


@library
def bernoulli(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    reference: Tensor,
    out_type: type[DType],
    prob: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return 1 with probability `prob` (to one part in 65,536), else 0, of FLOAT, HALF or INT:
    shape and mapping of `reference`."""
    call = _Call(graph, seed, seed_modifier, reference, prog, debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF, INT))
    return call.draw(Bernoulli, dtype, probability=_finite("prob", prob, 0, 1))


@library
def dropout(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    x: Tensor,
    reference: Tensor,
    keep_probability: float,
    scale: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """x * scale where an element is kept, with `keep_probability`, and 0 elsewhere: x's shape and
    dtype, FLOAT or HALF.

    The mask depends on the seed, the modifier and the layout of `reference`, which has x's shape:
    the same three give the same mask for a gradient. The result has the mapping of `reference`. For
    a mean that stays, `scale` is 1 / keep_probability. Raises `PoplibsError`.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog, debug_context)
    check_dtype("x", x, FLOAT, HALF)
    check_alike("give x as reference.", "", x=x, reference=reference)
    keep, factor = _finite("keep_probability", keep_probability, 0, 1), _finite("scale", scale)
    return call.draw(Dropout, x.dtype, None, x, keep=keep, scale=factor)


@library
def shaped_dropout(
    graph: Graph,
    seed: Tensor | None,
    seed_modifier: int,
    x: Tensor,
    reference: Tensor,
    keep_probability: float,
    scale: float,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return `dropout` with a mask of the shape of `reference`, which is broadcast to x's: whole
    rows are kept or dropped.

    x and the result are FLOAT or HALF. The mask depends on the seed, the modifier and the layout of
    `reference`; the result has the mapping of x. Two compute sets, Bernoulli and a product, as in
    PopLibs. Raises `PoplibsError`.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog, f"{debug_context}/mask")
    check_dtype("x", x, FLOAT, HALF)
    lengths = zip(reference.shape[::-1], x.shape[::-1], strict=False)
    if reference.rank > x.rank or any(n not in (1, m) for n, m in lengths):
        raise refused(f"""cannot broadcast a mask of shape {reference.shape} over x of shape
            {x.shape}.
            where: x {x!r} and reference {reference!r}
            next:  give a reference whose lengths, from the last on, are x's or 1.""")
    keep = _finite("keep_probability", keep_probability, 0, 1)
    factor = _finite("scale", scale)
    mask = call.draw(Bernoulli, x.dtype, probability=keep)
    scaled = expr._1 * expr._2 * factor
    return popops.map(graph, scaled, [x, mask], prog, debug_context)


def _check_bounds(low: Any, high: Any, min_val: object, max_val: object) -> None:
    if not low <= high or not np.isfinite(float(high) - float(low)):
        raise refused(f"""was given min_val {shown(min_val)} and max_val {shown(max_val)}.
            next:  give the smaller bound first, both finite.""")


def _out_type(given: object, allowed: tuple[type[DType], ...]) -> type[DType]:
    dtype = as_dtype(given, f"{calling()}()")
    if dtype not in allowed:
        raise refused(
            f"was given out_type={dtype.__name__}.",
            next_step=f"use {', '.join(t.__name__ for t in allowed)}.",
        )
    return dtype


def _finite(
    argument: str, value: object, minimum: float = -np.inf, maximum: float = np.inf
) -> float:
    """Return `value` as a number between two bounds. Raises `PoplibsError`."""
    number = float(check_number(argument, value, FLOAT))
    if not np.isfinite(number) or not minimum <= number <= maximum:
        bounds = (
            f" from {minimum:g} to {maximum:g}"
            if np.isfinite(maximum)
            else f" of {minimum:g} or more"
            if np.isfinite(minimum)
            else ""
        )
        raise refused(
            f"was given {shown(value)} as {argument}.", next_step=f"give a finite number{bounds}."
        )
    return number
