"""8-bit floats and the random number generator, against published vectors."""

from __future__ import annotations

import numpy as np

from ipu_teach.types import (
    Array,
    Overflow,
    QuarterFormat,
    QuarterMetadata,
    from_quarter,
    generator,
    to_quarter,
)
from validation.row import FORMAT, Row, Source

POPLIBS = Source(FORMAT, "graphcore/poplibs, tests/popops/QuarterTypeArithmeticTests.cpp")
PROPOSED = Source(FORMAT, "arXiv:2206.02915, 8-bit Numerical Formats for Deep Neural Networks")
STACK = Source(FORMAT, "osmarks/ipu-stack, docs/FP8.md")
VIGNA = Source(
    FORMAT,
    "Vigna, xoroshiro128plus.c (2016), whose shifts 55, 14, 36 the chip has (James Hanlon, 2022)",
)
F143 = QuarterFormat.F143
F152 = QuarterFormat.F152
NAN = Overflow.NAN
SATURATE = Overflow.SATURATE
NOT_A_NUMBER = 0x80  # The code of NaN, the only code that is not a number.

# Each item is (format, value, scale, overflow, value read back at scale 0). The last value is None
# if the result is NaN.
VECTORS = [
    (F143, 2.0**-12, 0, NAN, 0),
    (F143, 2.0**33, 0, NAN, None),
    (F143, 8, 0, NAN, 8),
    (F143, -8, 0, NAN, -8),
    (F143, 8, -10, NAN, None),
    (F143, 8, 31, NAN, 0),
    (F143, 2.0**33, 31, NAN, 4),
    (F143, 2.0**33, 0, SATURATE, 240),
    (F143, -(2.0**33), 0, SATURATE, -240),
    (F152, 2.0**-18, 0, NAN, 0),
    (F152, 2.0**46, 0, NAN, None),
    (F152, 2.0**46, 0, SATURATE, 57_344),
    (F152, -(2.0**46), 0, SATURATE, -57_344),
    (F152, 8, 0, NAN, 8),
    (F152, 8, -13, NAN, None),
    (F152, 2.0**46, 31, NAN, 32_768),
]


def quarters() -> list[Row]:
    """Return the table rows for conversions from FLOAT to 8 bits and back."""
    rows = []
    for format, value, scale, overflow, wanted in VECTORS:
        code = to_quarter(np.float32(value), QuarterMetadata(format, scale), overflow=overflow)
        modelled = (
            float(code) if wanted is None else float(from_quarter(code, QuarterMetadata(format)))
        )
        power = f"{'-' if value < 0 else ''}2**{np.log2(abs(value)):.0f}"
        name = f"{format.name}: {power} at scale {scale}" + (
            ", saturating" if overflow is SATURATE else ""
        )
        name += " (code of no number)" if wanted is None else " (read at scale 0)"
        published = float(NOT_A_NUMBER if wanted is None else wanted)
        rows.append(POPLIBS.row(name, published, modelled=modelled, tolerance=0, why="exact"))
    for format, bits, bias in ((F143, 3, 8), (F152, 2, 16)):
        read = from_quarter(np.arange(256), QuarterMetadata(format)).astype(float)
        right = [_by_definition(code, bits, bias) for code in range(256)]
        agree = float(np.count_nonzero(read == right) + np.isnan(read[NOT_A_NUMBER]))
        name = f"{format.name}: codes that stand for what their bits say (of 256)"
        rows.append(PROPOSED.row(name, 256, modelled=agree, tolerance=0, why="exact"))
    for format, least in ((F143, 2.0**-10), (F152, 2.0**-17)):
        modelled = float(from_quarter(np.uint8(1), QuarterMetadata(format)))
        rows.append(
            STACK.row(
                f"{format.name}: the smallest positive number",
                least,
                modelled=modelled,
                tolerance=0,
                why="exact",
            )
        )
    negative = float(to_quarter(np.float32(-(2.0**-12)), QuarterMetadata(F143)))
    rows.append(
        STACK.row(
            "F143: code of a negative number that rounds to zero",
            0,
            modelled=negative,
            tolerance=0,
            why="exact",
        )
    )
    return rows


def _by_definition(code: int, bits: int, bias: int) -> float:
    """Return the number that a byte encodes, computed with integers.

    The result is NaN for the code that is not a number.
    """
    exponent = code % 128 >> bits
    mantissa = code % (1 << bits)
    steps = mantissa + (1 << bits if exponent else 0)
    power = max(exponent, 1) - bias - bits
    size = steps * 2.0**power
    if code == NOT_A_NUMBER:
        return float("nan")
    return -size if code > NOT_A_NUMBER else size


def generators() -> list[Row]:
    """Return rows that compare states of the random number generator xoroshiro128aox.

    A figure is the number of bits, of 128, that agree with the expected state.
    """
    start = np.array([1, 2], np.uint64)
    jumped = np.zeros(2, np.uint64)
    state = start.copy()
    for constant in (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922):
        for bit in range(64):
            if constant >> bit & 1:
                jumped ^= state
            generator.draw(state, 1)
    return [
        VIGNA.row(
            "xoroshiro128aox: state after 2**64 draws, by the published jump (bits of 128 that "
            "agree)",
            128,
            modelled=_agreeing(generator.advance(start, 2**64), jumped),
            tolerance=0,
            why="the kit raises a matrix to this power instead",
        ),
        VIGNA.row(
            "xoroshiro128aox: state after its period of 2**128 - 1 draws (bits of 128 that agree)",
            128,
            modelled=_agreeing(generator.advance(start, 2**128 - 1), start),
            tolerance=0,
            why="exact",
        ),
    ]


def _agreeing(a: Array, b: Array) -> int:
    return 128 - sum(int(word).bit_count() for word in a ^ b)
