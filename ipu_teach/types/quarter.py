"""The 8-bit floats of the chip: one byte for each number, and a format and a scale for each tensor.

F143 has 4 exponent bits, 3 mantissa bits and bias 8, for numbers from 2**-10 to 240. F152 has 5
exponent bits, 2 mantissa bits and bias 16, for numbers from 2**-17 to 57,344. The value of a byte
is the number that it encodes, times 2**scale, where the scale is from -32 to 31. There is one zero
and no infinity. The byte 0x80, which would be minus zero, is NaN. Negative numbers that round to
zero become this one zero. A number that is too large becomes NaN, or the largest number if the
chip's bit NANOO is off; infinities and NaN always become NaN. Only the IPU21 has these formats in
hardware.

Sources: graphcore/poplibs, tests/popops/QuarterTypeArithmeticTests.cpp; osmarks/ipu-stack,
docs/FP8.md. The same codes are also known as float8_e4m3fnuz and float8_e5m2fnuz.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache, lru_cache
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ipu_teach.arguments import Numbers, Taken, checked, is_numeric
from ipu_teach.errors import TensorMetadataError, shown
from ipu_teach.types.rounding import Array, Grid, Overflow

NAN_CODE = 0x80
LEAST_SCALE = -32  # The smallest scale. A scale has 6 bits, including the sign.
LARGEST_SCALE = 31


class QuarterFormat(Enum):
    """Poplar's formats: sign, 4 exponent and 3 mantissa bits (F143), or sign, 5 and 2 (F152)."""

    F143 = "F143"
    F152 = "F152"

    @property
    def grid(self) -> Grid:
        """The numbers of this format at scale 0."""
        return _GRIDS[self]


_GRIDS = {
    QuarterFormat.F143: Grid(mantissa_bits=3, least_exponent=-7, largest=240.0),
    QuarterFormat.F152: Grid(mantissa_bits=2, least_exponent=-15, largest=57344.0),
}


@dataclass(frozen=True)
class QuarterMetadata:
    """The format and the scale of an 8-bit tensor.

    The value of a byte is its number in the format times 2**scale. (PopART's `log2_scale` has the
    opposite sign, as it multiplies before the cast.)

    :raises TensorMetadataError: if `format` is not a `QuarterFormat`, or if the scale is not an
        integer from -32 to 31.
    """

    format: QuarterFormat = QuarterFormat.F143
    scale: int = 0

    def __post_init__(self) -> None:
        is_integer = isinstance(self.scale, (int, np.integer)) and not isinstance(self.scale, bool)
        if not isinstance(self.format, QuarterFormat):
            raise TensorMetadataError(f"""QuarterMetadata() was given the format
                {shown(self.format)}, which is not a QuarterFormat.
                next:  give QuarterFormat.F143 or QuarterFormat.F152.""")
        if not is_integer or not LEAST_SCALE <= self.scale <= LARGEST_SCALE:
            raise TensorMetadataError(f"""QuarterMetadata() was given the scale {shown(self.scale)},
                which is not a whole number from {LEAST_SCALE} to {LARGEST_SCALE}.
                next:  give a number in this range. The value of a byte is its number in the format
                times 2**scale.""")
        object.__setattr__(self, "scale", int(self.scale))

    def __repr__(self) -> str:
        return f"QuarterMetadata({self.format.name}, scale {self.scale})"


def _refused(problem: str, advice: str) -> TensorMetadataError:
    return TensorMetadataError(problem, next_step=advice)


def _is_bytes(value: object) -> bool:
    if not is_numeric(value):
        return False
    array = np.asarray(value)
    return array.dtype == np.uint8 or (
        array.dtype.kind in "iu" and not (array.size and (array.min() < 0 or array.max() > 255))
    )


def _is_unsigned_array(value: object) -> bool:
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind == "u"


Words = Annotated[
    Array,
    Taken(_is_unsigned_array, "give an array of uint32, a random word for each value."),
]
Codes = Annotated[ArrayLike, Taken(_is_bytes, "give whole numbers from 0 to 255.")]


@checked(_refused)
def to_quarter(
    values: Numbers,
    metadata: QuarterMetadata,
    *,
    words: Words | None = None,
    overflow: Overflow = Overflow.NAN,
) -> NDArray[np.uint8]:
    """Return `values` (numbers of any shape) as uint8 codes of the same shape.

    Each value / 2**scale is rounded once: to nearest, ties to even, or stochastically with `words`
    (uint32, one random word for each value); see `Grid.round`. `overflow` is NAN or SATURATE.
    INFINITY raises `TensorMetadataError`, as the formats have no infinity. For float16 values
    without `words`, the first call with a format, scale and `overflow` builds a table of all 65,536
    halves.
    """
    if overflow is Overflow.INFINITY:
        raise TensorMetadataError("""to_quarter() was asked to produce infinities, but 8-bit
            floats have none.
            next:  use Overflow.NAN or Overflow.SATURATE.""")
    array = np.asarray(values)
    if array.dtype == np.float16 and words is None:
        table = _of_halves(metadata, overflow)
        codes: NDArray[np.uint8] = table[array.view(np.uint16)]
        return codes
    return _codes(array, metadata, words, overflow)


@checked(_refused)
def from_quarter(codes: Codes, metadata: QuarterMetadata) -> NDArray[np.float32]:
    """Return the numbers of `codes` (uint8, any shape) as float32, exact at every scale."""
    scaled = np.ldexp(numbers(metadata.format), metadata.scale).astype(np.float32)
    values: NDArray[np.float32] = scaled[np.asarray(codes, np.uint8)]
    return values


@cache
def numbers(format: QuarterFormat) -> Array:
    """Return the numbers of the codes 0 to 255 of a format, at scale 0: float64[256]."""
    grid = format.grid
    code = np.arange(128)
    exponent = code >> grid.mantissa_bits
    mantissa = code & (1 << grid.mantissa_bits) - 1
    normal = exponent > 0
    steps = mantissa + (normal << grid.mantissa_bits)
    positive = np.ldexp(
        steps.astype(np.float64),
        np.maximum(exponent, 1) - 1 + grid.least_exponent - grid.mantissa_bits,
    )
    result: Array = np.concatenate([positive, -positive])
    result[NAN_CODE] = np.nan
    result.flags.writeable = False
    return result


def _codes(
    values: Array, metadata: QuarterMetadata, words: Array | None, overflow: Overflow
) -> NDArray[np.uint8]:
    grid = metadata.format.grid
    with np.errstate(invalid="ignore", over="ignore"):
        rounded = grid.round(np.ldexp(np.asarray(values, np.float64), -metadata.scale), words)
    beyond = ~np.isfinite(rounded)
    magnitude = np.where(beyond, grid.largest, np.abs(rounded))
    smallest = 2.0**grid.least_exponent
    # In float64, as in the 8-bit formats, the mantissa follows the exponent, so a shift gives the
    # code of a normal number. The code of a subnormal number counts the steps from 0 to that
    # number.
    normal = (magnitude.view(np.int64) >> (52 - grid.mantissa_bits)) - (
        1022 + grid.least_exponent << grid.mantissa_bits
    )
    steps = np.ldexp(
        np.minimum(magnitude, smallest), grid.mantissa_bits - grid.least_exponent
    ).astype(np.int64)
    code = np.where(magnitude < smallest, steps, normal)
    code |= np.where(np.signbit(rounded) & (code > 0), 0x80, 0)
    becomes_nan = beyond & ~np.isfinite(values) if overflow is Overflow.SATURATE else beyond
    return np.where(becomes_nan, NAN_CODE, code).astype(np.uint8)


@lru_cache(maxsize=32)
def _of_halves(metadata: QuarterMetadata, overflow: Overflow) -> NDArray[np.uint8]:
    """Return the code of every half, in the order of their bits: uint8[65536]."""
    return _codes(np.arange(65536, dtype=np.uint16).view(np.float16), metadata, None, overflow)
