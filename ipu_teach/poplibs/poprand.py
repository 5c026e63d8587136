"""Random numbers and dropout, from the random number generators of the tiles.

Each function except `set_seed` generates a random number for every element of a *reference* tensor,
on the element's tile. Every tile has a stream of random numbers for each of its six workers. A
stream depends only on the `seed`, the `seed_modifier`, the tile and the worker. The elements of a
tile, in the order of the reference, are divided into one block per worker. The same seed, modifier
and tile mapping therefore give the same numbers, in every run and on a machine of any size. The
backward pass can thus generate the dropout mask of the forward pass again. Give each call in a
program a different modifier.

`seed` is a tensor of two UNSIGNED_INT, which a program may change between runs. If `seed` is None,
the workers continue their own streams, which begin with `set_seed`, `set_hw_seeds` or the option
prng.seed. The module `types.generator` implements the generator.

How PopLibs derives streams from a seed is not published (see docs/numbers.md), so the numbers are
not those of a chip. The cycles are PopLibs' estimates (poprandCycleEstimators.cpp), plus the cycles
to set the seed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, erfc, log10, sqrt
from typing import ClassVar

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

# The base-10 logarithm of the maximum probability that all attempts to generate a truncated normal
# number are out of bounds.
FAILURES = -4.0


class _Stream(RegisterVertex):
    """The base class of vertices in which each worker uses its own stream of random numbers.

    `seed`, `modifier` and `tile` determine the streams. If `seed` has no elements, the workers
    continue their own streams.
    """

    seed: Input[Vector[UNSIGNED_INT]]
    modifier: UNSIGNED_INT
    tile: UNSIGNED_INT

    def streams(self) -> Array:
        """Return the state of a generator for each worker: uint64[..., workers, 2].

        The state is derived from the seed. Without a seed, it is the state of the worker's own
        generator.
        """
        generators = self.registers.generators
        if not self.seed.shape[-1]:
            return generators
        keys = (self.seed[..., 0], self.seed[..., 1], self.modifier, self.tile)
        return generator.keyed(*(key[..., None] for key in keys), np.arange(generators.shape[-2]))

    def set_up(self, target: Target) -> int:
        """Return the cycles in which a tile seeds its workers, or 0 if there is no seed."""
        return int(vertices.set_seed(target) if self.seed.shape[-1] else 0)


class SetSeed(_Stream):
    """Set the generators of the tile's workers to the states that the seed determines."""

    def compute(self) -> None:
        self.registers.generators[...] = self.streams()

    def cycles(self, target: Target) -> int:
        return self.set_up(target)


class _Draw(_Stream):
    """The base class of vertices that write random numbers to `out`."""

    out: Output[Vector[HALF]]
    # A function that returns the cycles in which a tile generates n numbers, without seeding.
    drawing: ClassVar[Callable[..., Size]]

    @property
    def each(self) -> int:
        """The number of random numbers per worker: elements of `out` / workers, rounded up."""
        workers: int = self.registers.generators.shape[-2]
        return -(-int(self.out.shape[-1]) // workers)

    def in_order(self, drawn: Array) -> Array:
        """Return the workers' random numbers in the shape of `out`, one worker after the other.

        `drawn` is [..., workers, numbers]. Numbers for which `out` has no element are left out.
        """
        ordered: Array = drawn.reshape(*drawn.shape[:-2], -1)[..., : self.out.shape[-1]].reshape(
            self.out.shape
        )
        return ordered

    def cycles(self, target: Target) -> int:
        drawing = self.drawing(self.out.shape[-1], self.fields["out"].dtype, target)
        return int(self.set_up(target) + drawing)


class Uniform(_Draw):
    """Set `out` to uniformly distributed numbers from `low` to `high`."""

    low: FLOAT
    high: FLOAT

    def compute(self) -> None:
        low = self.low[..., None, None]
        high = self.high[..., None, None]
        self.out = self.in_order(generator.uniform(self.streams(), self.each, low, high))

    drawing = staticmethod(vertices.uniform)


class LogUniform(_Draw):
    """Set `out` to numbers from `low` to `high` whose logarithms are uniformly distributed."""

    low: FLOAT
    high: FLOAT

    def compute(self) -> None:
        low = self.low[..., None, None]
        high = self.high[..., None, None]
        powers = np.exp(generator.uniform(self.streams(), self.each, np.log(low), np.log(high)))
        self.out = self.in_order(np.clip(powers, low, high))

    def drawing(self, n: int, dtype: type[DType], target: Target) -> Size:
        """Return the cycles in which a tile generates `n` numbers.

        They are the cycles of PopLibs' vertex Uniform, plus those of an exponential in FLOAT for
        each number.
        """
        power = vertices.unary_op_1d("EXPONENT", n, FLOAT, target, in_place=True)
        return vertices.uniform(n, FLOAT, target) + power


class UniformWhole(_Draw):
    """Set `out` to uniformly distributed integers from `low` to `high`, both included."""

    out: Output[Vector[INT]]
    low: INT
    high: INT

    def compute(self) -> None:
        low, high = (bound[..., None, None].astype(np.int64) for bound in (self.low, self.high))
        random_words = generator.draw(self.streams(), self.each) >> np.uint64(32)
        num_choices = (high - low + 1).astype(np.uint64)
        self.out = self.in_order(
            (random_words * num_choices >> np.uint64(32)).astype(np.int64) + low
        )

    def drawing(self, n: int, dtype: type[DType], target: Target) -> Size:
        return vertices.uniform(n, INT, target)


class Normal(_Draw):
    """Set `out` to normally distributed numbers.

    `mean` is their mean, and `deviation` their standard deviation.
    """

    mean: FLOAT
    deviation: FLOAT

    def compute(self) -> None:
        mean = self.mean[..., None, None]
        deviation = self.deviation[..., None, None]
        self.out = self.in_order(generator.normal(self.streams(), self.each, mean, deviation))

    drawing = staticmethod(vertices.normal)


class TruncatedNormal(_Draw):
    """Set `out` to normally distributed numbers within `alpha` standard deviations of the mean."""

    mean: FLOAT
    deviation: FLOAT
    alpha: ClassVar[float] = 2.0

    def compute(self) -> None:
        streams = self.streams()
        alpha = self.alpha
        numbers_per_worker = self.each
        standardised = generator.normal(streams, numbers_per_worker)
        for _ in range(_draws(alpha) - 1):
            standardised = np.where(
                np.absolute(standardised) <= alpha,
                standardised,
                generator.normal(streams, numbers_per_worker),
            )
        # If a number is still out of bounds after all attempts, it is replaced by the sum of two
        # uniformly distributed numbers, which has a triangular distribution within the bounds.
        uniform_numbers = generator.uniform(streams, 2 * numbers_per_worker, -alpha / 2, alpha / 2)
        standardised = np.where(
            np.absolute(standardised) <= alpha,
            standardised,
            uniform_numbers[..., :numbers_per_worker] + uniform_numbers[..., numbers_per_worker:],
        )
        self.out = self.in_order(
            standardised * self.deviation[..., None, None] + self.mean[..., None, None]
        )

    def drawing(self, n: int, dtype: type[DType], target: Target) -> Size:
        return vertices.truncated_normal(n, _draws(self.alpha), dtype, target)


class Bernoulli(_Draw):
    """Set each element of `out` to 1 with probability `probability`, and otherwise to 0."""

    probability: FLOAT

    def compute(self) -> None:
        self.out = self.in_order(
            generator.bernoulli(self.streams(), self.each, self.probability[..., None, None])
        )

    drawing = staticmethod(vertices.bernoulli)


class Dropout(_Draw):
    """Set each element of `out` to x * scale with probability `keep`, and otherwise to 0."""

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
    """Return the number of attempts to generate each truncated normal number.

    An attempt fails if the number is more than `alpha` standard deviations from the mean. The
    probability that all attempts fail is at most 1 in 10,000.
    """
    outside = erfc(alpha / sqrt(2))
    return max(1, ceil(FAILURES / log10(outside))) if outside < 1 else 1


def _check_seed(graph: Graph, argument: str, seed: Tensor | None, modifier: int) -> None:
    if seed is None:
        return
    check_tensor(graph, argument, seed)
    if seed.dtype is not UNSIGNED_INT or seed.shape != (2,):
        raise refused(f"""needs a tensor of two UNSIGNED_INT as {argument}, but was given
            {seed.num_elements} of {seed.dtype.__name__}.
            where: {seed!r}
            next:  create the seed with graph.add_variable(UNSIGNED_INT, (2,)) and
            graph.set_initial_value.""")
    check_mapped(graph, argument, seed)
    check_number("seed_modifier", modifier, UNSIGNED_INT)
    if not is_whole(modifier):
        raise as_given(modifier, "seed_modifier", "give a whole number.")


class _Call:
    """The arguments that are common to all functions for random numbers.

    :raises PoplibsError: if the seed or its modifier is invalid.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """

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
        base: type[_Draw],
        dtype: type[DType],
        constants: dict[str, float] | None = None,
        x: Tensor | None = None,
        /,
        **state: float,
    ) -> Tensor:
        """Add a vertex on each tile of the reference; return the tensor of random numbers.

        `base` is the class of the vertices. The result has the dtype `dtype`, and the shape and
        tile mapping of the reference. `constants` contains class attributes of the codelet. `x` is
        an optional operand with the shape of the reference. `state` contains the values of the
        other fields.
        """
        graph = self.graph
        name = self.name
        seed = self.seed
        if seed is None:
            seed = graph.add_variable(UNSIGNED_INT, (0,), f"{name}/seed")
        out = like(graph, self.reference, f"{name}/out", dtype)
        operands = {"out": out} if x is None else {"out": out, "x": x}
        edges_by_tile = laying.pieces_of(
            graph, self.reference, operands, seed=seed, modifier=int(self.modifier), **state
        )
        codelet = laying.typed(base, [dtype], {HALF: dtype, INT: dtype}, **(constants or {}))
        edges_with_tile = ((tile, edges | {"tile": tile}) for tile, edges in edges_by_tile)
        laying.step(graph, self.prog, name, codelet, work=edges_with_tile)
        return out


@library
def set_seed(
    graph: Graph, master_seed: Tensor, seed_modifier: int, prog: Program, debug_context: str = OWN
) -> None:
    """Seed the random number generators of all workers of all tiles.

    Stochastic rounding and random numbers without a seed use these generators. The stream of random
    numbers of a worker depends on `master_seed`, `seed_modifier`, the tile and the worker, but not
    on the number of tiles. It is extremely improbable that two workers have the same stream. Cycles
    are PopLibs' estimate for SetSeed.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    _check_seed(graph, "master_seed", master_seed, seed_modifier)
    state = {"seed": master_seed, "modifier": int(seed_modifier)}
    edges_by_tile = ((tile, state | {"tile": tile}) for tile in range(graph.target.num_tiles))
    laying.step(graph, prog, debug_context, SetSeed, work=edges_by_tile)


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
    """Return uniformly distributed numbers of the dtype `out_type`.

    `out_type` is FLOAT, HALF, INT or UNSIGNED_INT. FLOAT and HALF numbers are from `min_val` to
    below `max_val`, but rounding can turn a number into `max_val`. Integers are from `min_val` to
    `max_val`, both included. The result has the shape and tile mapping of `reference`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF, INT, UNSIGNED_INT))
    low = check_number("min_val", min_val, dtype)
    high = check_number("max_val", max_val, dtype)
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
    """Return numbers from `min_val` to `max_val` whose logarithms are uniformly distributed.

    Both bounds are above 0. `out_type` is FLOAT or HALF; the numbers are generated in FLOAT and
    rounded at the end. The result has the shape and tile mapping of `reference`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=debug_context)
    dtype = _out_type(out_type, (FLOAT, HALF))
    smallest = float(np.finfo(np.float32).tiny)
    low = _finite("min_val", min_val, smallest)
    high = _finite("max_val", max_val, smallest)
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
    """Return normally distributed numbers; `out_type` is FLOAT or HALF.

    `mean` is the mean and `std_dev` the standard deviation. As on the hardware, the distance of a
    number from the mean is a multiple of 1/32 of the standard deviation, and at most 5.8125
    standard deviations. The result has the shape and tile mapping of `reference`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=debug_context)
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
    """Return normally distributed numbers within `alpha` standard deviations of the mean.

    The other parameters are those of `normal`. `alpha` is from 0.1 to 5.8. Numbers outside the
    bounds are generated again, as often as needed until at most 1 in 10,000 is expected to remain
    outside. These are replaced by numbers with a triangular distribution within the bounds.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=debug_context)
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
    """Return a tensor whose elements are 1 with probability `prob`, and otherwise 0.

    `out_type` is FLOAT, HALF or INT. The probability is rounded to a multiple of 1 / 65,536. The
    result has the shape and tile mapping of `reference`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=debug_context)
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
    """Return x with each element multiplied by `scale`, or replaced by 0.

    An element is kept with probability `keep_probability`, rounded to a multiple of 1 / 65,536.
    With a `scale` of 1 / keep_probability, the mean of the elements is preserved. x and the result
    are FLOAT or HALF. `reference` has the shape of x, and the result has the tile mapping of
    `reference`. The mask depends only on the seed, the modifier, the probability and the tile
    mapping of `reference`, so the backward pass can generate the same mask again.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=debug_context)
    check_dtype("x", x, FLOAT, HALF)
    check_alike("give x as reference.", "", x=x, reference=reference)
    valid_keep = _finite("keep_probability", keep_probability, 0, 1)
    factor = _finite("scale", scale)
    return call.draw(Dropout, x.dtype, None, x, keep=valid_keep, scale=factor)


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
    """Return x times a random mask of the shape of `reference`, which is broadcast to x.

    For example, a mask [rows, 1] multiplies whole rows of x by `scale`, or replaces them by 0. With
    probability `keep_probability`, rounded to a multiple of 1 / 65,536, an element of the mask
    keeps the elements of x that it multiplies. x and the result are FLOAT or HALF, and the result
    has the tile mapping of x. The mask depends only on the seed, the modifier, the probability and
    the tile mapping of `reference`. As in PopLibs, there are two compute sets, for the mask and for
    the product.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    call = _Call(graph, seed, seed_modifier, reference, prog=prog, name=f"{debug_context}/mask")
    check_dtype("x", x, FLOAT, HALF)
    length_pairs = zip(reference.shape[::-1], x.shape[::-1], strict=False)
    if reference.rank > x.rank or any(
        reference_length not in (1, x_length) for reference_length, x_length in length_pairs
    ):
        raise refused(f"""cannot broadcast a mask of shape {reference.shape} over x of shape
            {x.shape}.
            where: x {x!r} and reference {reference!r}
            next:  give a reference whose last dimensions have the lengths of x, or 1.""")
    valid_keep = _finite("keep_probability", keep_probability, 0, 1)
    factor = _finite("scale", scale)
    mask = call.draw(Bernoulli, x.dtype, probability=valid_keep)
    product = expr._1 * expr._2 * factor
    return popops.map(graph, product, [x, mask], prog, debug_context=debug_context)


def _check_bounds(low: float, high: float, min_val: float, max_val: float) -> None:
    if not low <= high or not np.isfinite(float(high) - float(low)):
        raise refused(f"""was given min_val {shown(min_val)} and max_val {shown(max_val)}.
            next:  give finite bounds, the smaller one as min_val.""")


def _out_type(out_type: type[DType], allowed: tuple[type[DType], ...]) -> type[DType]:
    dtype = as_dtype(out_type, f"{calling()}()")
    if dtype not in allowed:
        raise refused(
            f"was given out_type={dtype.__name__}.",
            next_step=f"use {', '.join(allowed_dtype.__name__ for allowed_dtype in allowed)}.",
        )
    return dtype


def _finite(
    argument: str, value: float, minimum: float = -np.inf, maximum: float = np.inf
) -> float:
    """Return `value` as a float; `argument` is its name in the error.

    :raises PoplibsError: if the value is not finite, or not from `minimum` to `maximum`.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    number = float(check_number(argument, value, FLOAT))
    if not np.isfinite(number) or not minimum <= number <= maximum:
        bounds = ""
        if np.isfinite(maximum):
            bounds = f" from {minimum:g} to {maximum:g}"
        elif np.isfinite(minimum):
            bounds = f" of {minimum:g} or more"
        raise refused(
            f"was given {shown(value)} as {argument}.", next_step=f"give a finite number{bounds}."
        )
    return number
