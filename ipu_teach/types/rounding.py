"""Rounding to a floating-point format of few bits: to the nearest value, or stochastically.

Stochastic rounding goes up or down by chance, the likelier the nearer, so that the mean of many
roundings is the value itself. The chip does it in hardware where single precision becomes half
(Graphcore, "IPU Programmer's Guide"; its FP_CTL register has the bit ESR,
https://github.com/graphcore/ipu_assembly_support). Which random bits the chip uses, and for which
values, is not published; what is chosen here stands below.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_EXPONENT_BITS = np.uint64(0x7FF0_0000_0000_0000)  # of a float64


class Overflow(Enum):
    """What becomes of a finite value that is too large for its format.

    INFINITY is IEEE 754's answer. NAN and SATURATE are the chip's two, chosen by its bit NANOO: not
    a number, or the largest number of the same sign. Source: Poplar API, FloatingPointBehaviour,
    `nanoo`.
    """

    INFINITY = "infinity"
    NAN = "nan"
    SATURATE = "saturate"


@dataclass(frozen=True)
class Grid:
    """The numbers that a format holds: `mantissa_bits` after the point, the smallest normal one
    2**`least_exponent`.

    Below that they lie at equal distances down to zero; `largest` is the largest.
    """

    mantissa_bits: int
    least_exponent: int
    largest: float

    @property
    def limit(self) -> float:
        """The smallest number that is too large: halfway from `largest` to where the next would
        be."""
        return self.largest + float(_power(self.largest)) * 2.0 ** (-self.mantissa_bits - 1)

    def round(self, values: Array, words: Array | None = None) -> Array:
        """`values`, float64 of any shape, on the grid; float64 again. Too large ones become
        infinite; signs stay.

        Without `words` to the nearest, ties to even. With `words`, uint32 of the same shape,
        stochastically: one of the two neighbours, the upper one where the fraction of the way to it
        and word / 2**32 add up to 1 or more. That is right to one part in 2**32, below the format's
        normal numbers too. A value on the grid stays. Between `largest` and `limit` there is one
        neighbour, `largest`; what is nearest to a finite number never becomes infinite by chance.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            magnitude = np.abs(np.asarray(values, np.float64))
            power = np.maximum(_power(magnitude), 2.0**self.least_exponent)
            quantum = power * 2.0**-self.mantissa_bits
            steps = magnitude / quantum  # a division by a power of two: exact
            if words is None:
                whole = np.rint(steps)
            else:
                whole = np.floor(steps)
                whole = whole + (steps - whole >= 1 - words * 2.0**-32)
            rounded = np.where(
                magnitude < self.limit, np.minimum(whole * quantum, self.largest), np.inf
            )
            signed: Array = np.copysign(np.where(np.isnan(magnitude), np.nan, rounded), values)
        return signed


def overflowed(rounded: Array, values: Array, overflow: Overflow, largest: float) -> Array:
    """`rounded` with its infinities replaced as `overflow` says, except where `values` was infinite
    before rounding."""
    if overflow is Overflow.INFINITY:
        return rounded
    lost = np.isinf(rounded) & np.isfinite(values)
    if not lost.any():
        return rounded
    instead = np.nan if overflow is Overflow.NAN else np.copysign(largest, rounded)
    return np.where(lost, instead, rounded).astype(rounded.dtype)


def _power(magnitude: Any) -> Any:
    """The power of two at or below each magnitude; 0 below float64's normal numbers, infinite for
    what is not finite."""
    return (np.asarray(magnitude, np.float64).view(np.uint64) & _EXPONENT_BITS).view(np.float64)
