"""Rounding to a floating-point format with few bits: to the nearest value, or stochastically.

Stochastic rounding rounds up or down at random. The nearer neighbour has the higher probability, so
that the mean of many results is the value itself. The chip does this in hardware when it converts
single precision to half (Graphcore, "IPU Programmer's Guide"; the bit ESR of its FP_CTL register,
https://github.com/graphcore/ipu_assembly_support). It is not published which random bits the chip
uses for which value; `Grid.round` describes our choice.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# The dtype of most arrays is known only when a program runs, and numpy's stubs accept arithmetic on
# arrays of unknown dtype only if the dtype is Any.
Array: TypeAlias = NDArray[Any]
AnyDType: TypeAlias = np.dtype[Any]

_EXPONENT_BITS = np.uint64(0x7FF0_0000_0000_0000)  # The mask of the exponent bits of a float64.


class Overflow(Enum):
    """The result of rounding a finite value that is too large for its format.

    INFINITY is the result that IEEE 754 requires. The chip's bit NANOO chooses between NAN and
    SATURATE, which is the largest number of the same sign. Source: Poplar API,
    FloatingPointBehaviour, `nanoo`.
    """

    INFINITY = "infinity"
    NAN = "nan"
    SATURATE = "saturate"


@dataclass(frozen=True)
class Grid:
    """The numbers of a format with `mantissa_bits` bits after the point.

    The smallest normal number is 2**`least_exponent`; smaller numbers are equally spaced down to 0.
    `largest` is the largest number.
    """

    mantissa_bits: int
    least_exponent: int
    largest: float

    @property
    def limit(self) -> float:
        """The smallest number that rounding to nearest makes infinite.

        It is halfway between `largest` and the number that would follow it.
        """
        return self.largest + float(_power(self.largest)) * 2.0 ** (-self.mantissa_bits - 1)

    def round(self, values: Array, words: Array | None = None) -> Array:
        """Return `values` (float64, any shape) rounded to numbers of the format, as float64.

        Values that are too large become infinite. Signs do not change, and neither do numbers of
        the format.

        Without `words`, values are rounded to nearest, ties to even. With `words` (uint32 random
        numbers of the same shape), they are rounded stochastically. Let a magnitude be at the
        fraction f of the way from the next smaller magnitude of the format to the next larger one.
        The result is the larger one if f + word / 2**32 is at least 1, and otherwise the smaller
        one. The probability of the larger one is therefore f, exact to one part in 2**32, also for
        subnormal numbers.

        Values between `largest` and `limit` always become `largest`, so a value that is nearest to
        a finite number never becomes infinite.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            magnitude = np.abs(np.asarray(values, np.float64))
            power = np.maximum(_power(magnitude), 2.0**self.least_exponent)
            quantum = power * 2.0**-self.mantissa_bits
            # The division is exact, because `quantum` is a power of two.
            steps = magnitude / quantum
            if words is None:
                whole_steps = np.rint(steps)
            else:
                whole_steps = np.floor(steps)
                whole_steps = whole_steps + (steps - whole_steps >= 1 - words * 2.0**-32)
            rounded = np.where(
                magnitude < self.limit, np.minimum(whole_steps * quantum, self.largest), np.inf
            )
            signed: Array = np.copysign(np.where(np.isnan(magnitude), np.nan, rounded), values)
        return signed


def overflowed(rounded: Array, values: Array, overflow: Overflow, largest: float) -> Array:
    """Return `rounded` after applying `overflow` to the infinities that rounding produced.

    `values` are the numbers before rounding, and `largest` is the largest finite number of the
    format.
    """
    if overflow is Overflow.INFINITY:
        return rounded
    lost = np.isinf(rounded) & np.isfinite(values)
    if not lost.any():
        return rounded
    instead = np.nan if overflow is Overflow.NAN else np.copysign(largest, rounded)
    return np.where(lost, instead, rounded).astype(rounded.dtype)


def _power(magnitude: Array | float) -> Array:
    """Return the largest power of two that is at most each magnitude.

    The result is 0 for magnitudes below the normal numbers of float64, and infinite for infinities
    and NaN.
    """
    bits: Array = np.asarray(magnitude, np.float64).view(np.uint64) & _EXPONENT_BITS
    return bits.view(np.float64)
