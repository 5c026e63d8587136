"""Half precision: rounding to halves, and the rules for computing with halves in codelets.

IEEE 754 half precision has 10 bits after the point. Its smallest normal number is 2**-14, below
which the steps are 2**-24, and its largest number is 65504. Codelets compute with halves as
follows:

- `+`, `-`, `*`, `/` and other elementwise operations round each result, so a loop that accumulates
  a sum rounds in every iteration;
- `np.sum` of a region, or along its rows, adds in single precision and rounds each result once.
  Along an axis that is not contiguous in memory, it adds row to row and rounds at every step, as a
  loop does;
- `@`, `np.dot` and similar functions multiply halves exactly, add in single precision in the order
  of the elements, and round once. The chip's f16v4sisoamp does the same (half inputs,
  single-precision partials; graphcore/ipu_assembly_support), except for the order of its adder
  tree.

numpy itself computes in this way: a product of two halves is exact in single precision, and no BLAS
reorders the sum. Therefore, batches, the plain vertex loop and `Vertex.call` give the same bits on
every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ipu_teach.types.rounding import Array, Grid, Overflow, overflowed

HALF_GRID = Grid(mantissa_bits=10, least_exponent=-14, largest=65504.0)

# The number of bits that rounding drops, because a float32 has 23 bits after the point and a half
# has 10.
_DROPPED = 13
_LEAST_NORMAL, _LARGEST = np.array(
    [2.0**HALF_GRID.least_exponent, HALF_GRID.largest], np.float32
).view(np.uint32)


def to_half(
    values: ArrayLike, *, words: Array | None = None, overflow: Overflow = Overflow.INFINITY
) -> NDArray[np.float16]:
    """Return `values` (numbers of any dtype and shape) as float16, rounded once.

    Without `words`, values are rounded to nearest, ties to even. With `words` (uint32, one random
    word for each value), they are rounded stochastically; see `Grid.round`. `overflow` selects the
    result for magnitudes of 65520 and more; NaN and infinities do not change.
    """
    array = np.asarray(values)
    if words is None:
        with np.errstate(over="ignore"):
            rounded = array.astype(np.float16)
    elif array.dtype == np.float32:
        rounded = _from_single(array, np.broadcast_to(words, array.shape))
    else:
        rounded = HALF_GRID.round(array, words).astype(np.float16)
    return overflowed(rounded, array, overflow, HALF_GRID.largest)


def _from_single(singles: Array, words: Array) -> Array:
    """Round float32 to float16 stochastically, with the same bits as `Grid.round`.

    For normal halves, this function is four times as fast as `Grid.round`.
    """
    # A normal half drops 13 bits of a float32. Adding 13 random bits carries into the remaining
    # bits with the right probability.
    bits = singles.view(np.uint32)
    with np.errstate(over="ignore"):
        kept_bits = np.asarray(words >> (32 - _DROPPED))
        kept_bits += bits
        kept_bits &= np.uint32(-(2**_DROPPED) & 0xFFFF_FFFF)
        rounded: Array = np.asarray(kept_bits.view(np.float32).astype(np.float16))
        # Numbers outside the range of normal halves are left to Grid.round. Zero is not, because it
        # needs no rounding. Below the range, the unsigned difference wraps around, so one
        # comparison covers both ends.
        magnitude = bits & np.uint32(0x7FFF_FFFF)
        beyond = magnitude - _LEAST_NORMAL >= _LARGEST - _LEAST_NORMAL
        by_hand = np.asarray(beyond & (magnitude != 0)) if beyond.any() else np.False_
        if by_hand.any():
            rounded[by_hand] = HALF_GRID.round(singles[by_hand], words[by_hand]).astype(np.float16)
    return rounded
