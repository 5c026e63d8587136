"""The values that a dtype would lose, and the scale that fits values into an 8-bit float.

A scale is a power of two for a complete tensor. The best scale depends on the largest magnitude in
the tensor. Source: Perez, Zhang, Briggs, Blake, Levy-Kramer, Balanca, Luschi, Barlow and
Fitzgibbon, "Training and inference of large language models using 8-bit floating point"
(arXiv:2309.17224).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp, ldexp

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import InvalidOptionError, PoplarTypeError, TensorMetadataError, shown
from ipu_teach.types.dtypes import FLOAT, HALF, QUARTER, DType
from ipu_teach.types.half import HALF_GRID
from ipu_teach.types.quarter import LARGEST_SCALE, LEAST_SCALE, QuarterFormat
from ipu_teach.types.rounding import Array, Grid

FLOAT_GRID = Grid(mantissa_bits=23, least_exponent=-126, largest=(2 - 2.0**-23) * 2.0**127)

# The possible results of rounding a value; `fates` explains them.
HELD, SUBNORMAL, LOST, LARGE = range(4)


@dataclass(frozen=True)
class Histogram:
    """A histogram of values by powers of two, and the fractions of values that `dtype` would lose.

    `counts[k]` values have a magnitude of at least 2**`powers[k]` and less than the next power of
    two; `zeros` values are 0. The fractions are from 0 to 1:

    * `underflow`: nonzero values that become 0
    * `subnormal`: values below the smallest normal number, where the steps no longer shrink
    * `overflow`: values that are too large
    """

    dtype: type[DType]
    powers: tuple[int, ...]
    counts: tuple[int, ...]
    zeros: int
    underflow: float
    subnormal: float
    overflow: float

    def __str__(self) -> str:
        shares = self.underflow, self.subnormal, self.overflow
        under, sub, over = (f"{100 * share:.3g} %" if share else "none" for share in shares)
        text = f"{under} become 0, {sub} are subnormal, {over} are too large"
        return f"as {self.dtype.__name__} {text}"


def grid_of(dtype: type[DType], subject: str) -> tuple[Grid, int]:
    """Return the grid and the scale of FLOAT, HALF or QUARTER[format, scale].

    The numbers of the dtype are those of the grid times 2**scale. Raises `PoplarTypeError`, which
    names the call, `subject`, for any other dtype.
    """
    if dtype is FLOAT or dtype is HALF:
        return (FLOAT_GRID if dtype is FLOAT else HALF_GRID), 0
    if isinstance(dtype, type) and issubclass(dtype, QUARTER) and hasattr(dtype, "metadata"):
        return dtype.metadata.format.grid, dtype.metadata.scale
    raise PoplarTypeError(f"""{subject} was given {shown(dtype)}, which is not a floating-point
        dtype.
        next:  give FLOAT, HALF, or QUARTER with a format and a scale, as
        QUARTER[QuarterFormat.F143, 0].""")


def histogram(values: ArrayLike, dtype: type[DType]) -> Histogram:
    """Return the histogram of `values` and the fractions that `dtype` would lose.

    `values` are finite numbers of any shape, and are rounded to nearest. `dtype` is FLOAT, HALF or
    QUARTER[format, scale]. Raises `PoplarTypeError` for another dtype, and `InvalidOptionError` if
    there are no values, or if one is NaN or infinite.
    """
    grid_of(dtype, "histogram()")
    sizes = sizes_of(values, "histogram()")
    nonzero = sizes[sizes > 0]
    power, count = np.unique(np.frexp(nonzero)[1] - 1, return_counts=True)
    fate = fates(nonzero, dtype)
    shares = (float((fate == code).sum() / sizes.size) for code in (LOST, SUBNORMAL, LARGE))
    zeros = sizes.size - nonzero.size
    return Histogram(dtype, tuple(power.tolist()), tuple(count.tolist()), zeros, *shares)


def fates(sizes: Array, dtype: type[DType]) -> Array:
    """Return the fate of each magnitude above 0: `HELD`, `SUBNORMAL`, `LOST` or `LARGE`.

    `HELD` magnitudes are represented by normal numbers, and `SUBNORMAL` magnitudes by subnormal
    numbers. `LOST` magnitudes become 0. `LARGE` magnitudes are too large: they become
    infinite in FLOAT and HALF, and NaN in QUARTER.
    """
    grid, scale = grid_of(dtype, "fates()")
    rounded = grid.round(np.ldexp(sizes, -scale))
    fates_found: Array = np.where(rounded < 2.0**grid.least_exponent, SUBNORMAL, HELD)
    return np.where(np.isinf(rounded), LARGE, np.where(rounded == 0, LOST, fates_found))


def best_scale(values: ArrayLike, format: QuarterFormat) -> int:
    """Return the best scale for `values` in `QUARTER[format, scale]`.

    It is the smallest scale from -32 to 31 at which no value is too large, or 0 if all values are
    0. `values` are finite numbers of any shape. Raises `TensorMetadataError` if `format` is not a
    `QuarterFormat`, or if the largest value is not a normal number at any scale. Raises
    `InvalidOptionError` if there are no values, or if one is NaN or infinite.
    """
    if not isinstance(format, QuarterFormat):
        raise TensorMetadataError(f"""best_scale() was given the format {shown(format)}, which is
            not a QuarterFormat.
            next:  give QuarterFormat.F143 or QuarterFormat.F152.""")
    largest = float(sizes_of(values, "best_scale()").max())
    scale = -fitting_power(largest, format.grid.largest)
    is_small = scale <= LARGEST_SCALE and largest > 0
    fits = not is_small or ldexp(largest, -LEAST_SCALE) >= 2.0**format.grid.least_exponent
    if not fits or scale > LARGEST_SCALE:
        raise TensorMetadataError(f"""best_scale() was given values up to {largest:.4g}, which need
            the scale {scale} in {format.name}, but a scale must be from {LEAST_SCALE} to
            {LARGEST_SCALE}.
            next:  multiply the values by a power of two first, and divide by it afterwards.""")
    return max(scale, LEAST_SCALE)


def fitting_power(largest: float, end: float) -> int:
    """Return the largest p for which `largest` * 2**p is at most `end`, or 0 if `largest` is 0."""
    power = frexp(end)[1] - frexp(largest)[1]
    return power - (ldexp(largest, power) > end) if largest > 0 else 0


def sizes_of(values: ArrayLike, subject: str) -> Array:
    """Return the magnitudes of finite numbers: float64[values].

    Raises `InvalidOptionError`, which names the call, `subject`, for anything else.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "iuf" or not array.size:
        kind = "no values" if not array.size else f"values of dtype {array.dtype}"
        raise InvalidOptionError(f"""{subject} was given {kind}.
            next:  give numbers, as a numpy array of any shape.""")
    magnitudes: Array = np.abs(array.astype(np.float64)).ravel()
    not_finite = np.flatnonzero(~np.isfinite(magnitudes))
    if len(not_finite):
        index_text = ", ".join(map(str, np.unravel_index(not_finite[0], array.shape)))
        raise InvalidOptionError(f"""{subject} was given {len(not_finite):,} of {magnitudes.size:,}
            values that are NaN or infinite, the first at [{index_text}].
            next:  find out where they come from, or drop them: values[np.isfinite(values)].""")
    return magnitudes
