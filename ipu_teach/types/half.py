"""Half precision: how a wider number becomes one, and how halves are added and multiplied.

IEEE 754 half precision has 10 bits after the point, 2**-14 as its smallest normal number, steps of
2**-24 below that, and 65504 as its largest. What codelets do with halves here:

- `+ - * /` and the like round after every operation, so a loop that adds up rounds at every step;
- `np.sum` of a region, or along the rows of one, adds in single precision and rounds once for each
  result; along an axis that is not contiguous in memory it adds row to row and rounds at every
  step, as a loop does;
- `@`, `np.dot` and their kin multiply halves exactly, add in single precision in the order of the
  elements, and round once. That is what the chip's f16v4sisoamp does (half in, single partials;
  graphcore/ipu_assembly_support), up to the order of its adder tree.

All of these are numpy's own, so the batched kernels, the plain vertex loop and `Vertex.call` give
the same bits, on every machine: a product of two halves fits into single precision, and no BLAS
reorders the sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ipu_teach.types.rounding import Array, Grid, Overflow, overflowed

HALF_GRID = Grid(mantissa_bits=10, least_exponent=-14, largest=65504.0)

_DROPPED = 13  # float32 has 23 bits after the point, half 10
_LEAST_NORMAL, _LARGEST = np.array(
    [2.0**HALF_GRID.least_exponent, HALF_GRID.largest], np.float32
).view(np.uint32)


def to_half(
    values: ArrayLike, *, words: Array | None = None, overflow: Overflow = Overflow.INFINITY
) -> NDArray[np.float16]:
    """`values` (numbers of any dtype and shape) as float16, rounded once.

    To the nearest, ties to even; with `words` (uint32, one random word for each value)
    stochastically, see `Grid.round`. `overflow` says what values of 65520 and more become; NaN and
    infinities stay what they are.
    """
    given = np.asarray(values)
    if words is None:
        with np.errstate(over="ignore"):
            rounded = given.astype(np.float16)
    elif given.dtype == np.float32:
        rounded = _from_single(given, np.broadcast_to(words, given.shape))
    else:
        rounded = HALF_GRID.round(given, words).astype(np.float16)
    return overflowed(rounded, given, overflow, HALF_GRID.largest)


def _from_single(given: Array, words: Array) -> Array:
    """float32 to float16, stochastically: the bits of `Grid.round`, four times as fast where halves
    are normal."""
    # There 13 bits are dropped. Adding 13 random ones carries into the kept ones as often as it
    # should.
    bits = given.view(np.uint32)
    with np.errstate(over="ignore"):
        kept = np.asarray(words >> (32 - _DROPPED))
        kept += bits
        kept &= np.uint32(-(2**_DROPPED) & 0xFFFF_FFFF)
        rounded: Array = np.asarray(kept.view(np.float32).astype(np.float16))
        # What lies outside the normal halves: below them, unsigned numbers wrap. Zero stays zero
        # either way.
        magnitude = bits & np.uint32(0x7FFF_FFFF)
        beyond = magnitude - _LEAST_NORMAL >= _LARGEST - _LEAST_NORMAL
        by_hand = np.asarray(beyond & (magnitude != 0)) if beyond.any() else np.False_
        if by_hand.any():
            rounded[by_hand] = HALF_GRID.round(given[by_hand], words[by_hand]).astype(np.float16)
    return rounded
