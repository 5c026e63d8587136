"""The initial values of weights, and the random numbers of the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import prod, sqrt
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.arguments import Among, Natural, check_calls
from ipu_teach.frontends.ir.values import MAX_ELEMENTS, misuse
from ipu_teach.types import Array

Shape = tuple[int, ...]
TRUNCATED_STDDEV = 0.87962566103423978  # The standard deviation of N(0, 1), truncated at ±2.
_generators = [np.random.default_rng()]


def rng() -> np.random.Generator:
    """Return the random generator for initial weights and for the order of samples."""
    return _generators[0]


def set_random_seed(seed: Natural) -> None:
    """Set the seed of the random numbers for initial weights and for the order of samples."""
    _generators[0] = np.random.default_rng(seed)


def _truncated(stddev: float, shape: Shape) -> Array:
    """Return normal random numbers, resampled until they are within two standard deviations."""
    numbers = rng().standard_normal(shape)
    while (beyond := np.abs(numbers) > 2).any():
        numbers = np.where(beyond, rng().standard_normal(shape), numbers)
    return stddev * numbers


def _scaled(gain: float, with_outputs: bool, is_normal: bool, shape: Shape) -> Array:
    """Return random numbers whose variance is gain / (3 n).

    n is the number of inputs of a unit. If `with_outputs`, n also includes the number of outputs.
    If `is_normal`, the numbers are truncated normal; otherwise they are uniform.
    """
    fan_in = prod(shape[:-1]) if len(shape) > 1 else prod(shape)
    fan_out = prod((*shape[:-2], shape[-1])) if len(shape) > 1 else fan_in
    limit = sqrt(gain / max(fan_in + fan_out if with_outputs else fan_in, 1))
    if is_normal:
        return _truncated(limit / sqrt(3) / TRUNCATED_STDDEV, shape)
    return rng().uniform(-limit, limit, shape)


def _orthogonal(shape: Shape) -> Array:
    """Return an array of shape `shape` that is a matrix with orthonormal rows or columns.

    The matrix is [product of the other sizes, last size]. If it has at least as many rows as
    columns, its columns are orthonormal, and otherwise its rows.
    """
    rows, columns = prod(shape[:-1]), shape[-1]
    tall = rng().standard_normal((max(rows, columns), min(rows, columns)))
    q, r = np.linalg.qr(tall)
    basis: Array = q * np.where(np.diag(r) < 0, -1, 1)
    return (basis if rows >= columns else basis.T).reshape(shape)


INITIALIZERS: dict[str, Callable[[Shape], Array]] = {
    "glorot_uniform": partial(_scaled, 6, True, False),
    "glorot_normal": partial(_scaled, 6, True, True),
    "he_uniform": partial(_scaled, 6, False, False),
    "he_normal": partial(_scaled, 6, False, True),
    "lecun_uniform": partial(_scaled, 3, False, False),
    "lecun_normal": partial(_scaled, 3, False, True),
    "random_uniform": lambda shape: rng().uniform(-0.05, 0.05, shape),
    "uniform": lambda shape: rng().uniform(-0.05, 0.05, shape),
    "random_normal": lambda shape: 0.05 * rng().standard_normal(shape),
    "normal": lambda shape: 0.05 * rng().standard_normal(shape),
    "truncated_normal": partial(_truncated, 0.05),
    "orthogonal": _orthogonal,
    "zeros": np.zeros,
    "ones": np.ones,
}
Initializer = Annotated[str, Among(INITIALIZERS)] | Callable[[Shape], ArrayLike]

# True while the values of new weights will come from a file, so that none are sampled.
_skips = [False]


@contextmanager
def unset_weights() -> Iterator[None]:
    """Make layers create their weights as zeros that need no memory, in a `with` block."""
    before, _skips[0] = _skips[0], True
    try:
        yield
    finally:
        _skips[0] = before


def sampled(initializer: Initializer, shape: Shape) -> Array:
    """Return the initial values of a weight.

    The initialiser is a name, or a function that takes the shape.

    :raises ModelError: if the weight has more elements than the memory of any machine.
    """
    if prod(shape) > MAX_ELEMENTS:
        raise misuse(
            f"A weight of shape {list(shape)} has {prod(shape):,} elements.",
            f"use sizes whose product is at most {MAX_ELEMENTS:,}.",
        )
    if _skips[0]:
        return np.broadcast_to(np.float32(0), shape)
    function = initializer if callable(initializer) else INITIALIZERS[initializer]
    values = np.asarray(function(shape), np.float32)
    if values.shape != shape:
        raise misuse(
            f"An initializer returned {list(values.shape)} for a weight of {list(shape)}.",
            "return an array of the shape that the initializer is given.",
        )
    return values


check_calls(globals(), misuse)
