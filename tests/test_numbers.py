"""The chip's numbers: rounding to half and to 8 bits, and the workers' random numbers.

Rounding is compared with a search through the list of all numbers of a format, in exact fractions;
the generator with a plain loop over Python's whole numbers, and with the published figures.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from ipu_teach import FLOAT, HALF, INT, QUARTER
from ipu_teach.errors import InvalidOptionError, PoplarTypeError, TensorMetadataError
from ipu_teach.types import (
    Overflow,
    QuarterFormat,
    QuarterMetadata,
    from_quarter,
    generator,
    to_half,
    to_quarter,
)
from ipu_teach.types.half import HALF_GRID
from ipu_teach.types.numbers import best_scale, histogram
from ipu_teach.types.quarter import numbers
from ipu_teach.types.rounding import Array, Grid

F143, F152 = QuarterFormat.F143, QuarterFormat.F152
FORMATS = pytest.mark.parametrize("form", [F143, F152], ids=lambda f: f.name)
THEIRS: dict[QuarterFormat, Any] = {
    F143: ml_dtypes.float8_e4m3fnuz,
    F152: ml_dtypes.float8_e5m2fnuz,
}
HALVES = np.arange(65536, dtype=np.uint16).view(np.float16)
LAST = 2**32 - 1  # the largest random word


def random_words(count: int, seed: int = 1) -> Array:
    return generator.draw(generator.seeded(seed), count).astype(np.uint32)


# --- the grids by search --------------------------------------------------------------------------


@cache
def magnitudes(name: str) -> tuple[Fraction, ...]:
    """All numbers of a format from zero up, and what would be the next one if there were more
    exponents."""
    found = HALVES[:0x7C00] if name == "half" else numbers(QuarterFormat[name])[:128]
    exact = [Fraction(float(v)) for v in found]
    return (*exact, 2 * exact[-1] - exact[-2])


def neighbours(name: str, magnitude: Fraction) -> tuple[int, Fraction]:
    """(number of the largest of them that is not above, the fraction of the way to the next)."""
    grid = magnitudes(name)
    below = min(bisect_right(grid, magnitude), len(grid) - 1) - 1
    return below, (magnitude - grid[below]) / (grid[below + 1] - grid[below])


def by_search(name: str, value: float, word: int | None, scale: int = 0) -> float:
    """`value` rounded, by search; infinite if too large."""
    grid = magnitudes(name)
    magnitude = abs(Fraction(value)) / Fraction(2) ** scale
    below, way = neighbours(name, magnitude)
    last = below == len(grid) - 2
    if last and way >= Fraction(1, 2):
        return float("inf")
    if word is None:
        up = way > Fraction(1, 2) or (way == Fraction(1, 2) and below % 2 == 1)
    else:
        up = not last and way + Fraction(word, 2**32) >= 1
    return float(grid[below + up])


def floats(width: int) -> st.SearchStrategy[float]:
    """Any finite number, and those on, halfway between and a hair beside the numbers of the
    formats."""
    near = [
        float(value)
        for name in ("half", "F143", "F152")
        for a, b in zip(magnitudes(name), magnitudes(name)[1:], strict=False)
        for value in (a, (a + b) / 2)
    ]
    beside = st.builds(
        lambda v, up, sign: sign * float(np.nextafter(np.float32(v), np.float32(up)) if up else v),
        st.sampled_from(near),
        st.sampled_from([0.0, -1e30, 1e30]),
        st.sampled_from([-1, 1]),
    )
    return (
        beside
        | st.floats(-70000, 70000, width=width)
        | st.floats(width=width, allow_nan=False, allow_infinity=False)
    )


WORDS = st.none() | st.integers(0, LAST) | st.sampled_from([0, 1, 2**19, 2**31, LAST - 1, LAST])


# --- half -----------------------------------------------------------------------------------------


def test_halves_stay_what_they_are() -> None:
    words = random_words(65536)
    for values in (HALVES, HALVES.astype(np.float32), HALVES.astype(np.float64)):
        for rounded in (
            to_half(values),
            to_half(values, words=words),
            to_half(values, words=np.full(65536, LAST, np.uint32)),
        ):
            np.testing.assert_array_equal(rounded, HALVES)
            np.testing.assert_array_equal(np.signbit(rounded), np.signbit(HALVES))


@given(floats(32), WORDS)
def test_half_by_search(value: float, word: int | None) -> None:
    wanted = by_search("half", value, word)
    for dtype in (np.float32, np.float64):
        got = to_half(dtype(value), words=None if word is None else np.uint32(word))
        assert got.dtype == np.float16 and got.shape == ()
        assert abs(float(got)) == wanted and np.signbit(got) == np.signbit(value)


@given(floats(64), WORDS)
def test_half_of_doubles_by_search(value: float, word: int | None) -> None:
    got = to_half(np.float64(value), words=None if word is None else np.uint32(word))
    assert abs(float(got)) == by_search("half", value, word)


def test_the_quick_way_from_single_precision_gives_the_bits_of_the_grid() -> None:
    source = np.random.default_rng(3)
    patterns = source.integers(0, 2**32, 400_000, dtype=np.uint32).view(np.float32)
    wide = (source.standard_normal(400_000) * 10.0 ** source.integers(-8, 5, 400_000)).astype(
        np.float32
    )
    values = np.concatenate([patterns, wide])
    words = random_words(len(values))
    with np.errstate(over="ignore", invalid="ignore"):
        expected = HALF_GRID.round(values.astype(np.float64), words).astype(np.float16)
    np.testing.assert_array_equal(to_half(values, words=words), expected)


OFF = [0.1, 1 + 2**-12, 1000.3, -3.14159, 2**-14 * 0.9999, 3e-5, 6e-8, 2e-8, 1e-9]


@pytest.mark.parametrize("value", OFF)
def test_the_mean_of_many_roundings_is_the_value(value: float) -> None:
    """Four standard errors, also below 2**-14, where halves are subnormal, and below 2**-24, where
    there is only zero."""
    count = 400_000
    single = np.float32(value)
    got = to_half(np.full(count, single), words=random_words(count, seed=11)).astype(np.float64)
    below, way = neighbours("half", abs(Fraction(float(single))))
    low, high = (float(v) for v in magnitudes("half")[below : below + 2])
    assert set(np.unique(abs(got))) <= {low, high}
    error = (high - low) * float(way * (1 - way)) ** 0.5 / count**0.5
    assert abs(got.mean() - float(single)) <= 4 * error


def test_two_bits_as_on_the_slide() -> None:
    """Of 0.25 and 0.5, stochastic rounding takes 0.5 for 0.4 in 6 of 10 cases: ten additions of it
    give 4, not 2.5 or 5."""
    grid = Grid(mantissa_bits=0, least_exponent=-2, largest=4.0)
    got = grid.round(np.full(100_000, 0.4), random_words(100_000))
    assert set(got.tolist()) == {0.25, 0.5}
    assert abs(10 * got.mean() - 4.0) <= 4 * 10 * 0.25 * (0.4 * 0.6 / 100_000) ** 0.5


def test_what_is_too_large_for_half() -> None:
    given = np.array([65504, 65519.996, 65520, -65520, 1e30, np.inf, -np.inf, np.nan], np.float32)
    kept, inf, nan = [65504, 65504], np.inf, np.nan
    wanted = {
        Overflow.INFINITY: [*kept, inf, -inf, inf, inf, -inf, nan],
        Overflow.NAN: [*kept, nan, nan, nan, inf, -inf, nan],
        Overflow.SATURATE: [*kept, 65504, -65504, 65504, inf, -inf, nan],
    }
    for overflow, expected in wanted.items():
        for words in (None, np.zeros(8, np.uint32), np.full(8, LAST, np.uint32)):
            got = to_half(given, words=words, overflow=overflow)
            assert got.dtype == np.float16
            np.testing.assert_array_equal(got, expected)


def test_whole_numbers_and_lists_are_rounded_too() -> None:
    assert to_half([2049, 2051, -7]).tolist() == [2048, 2052, -7]
    assert to_half(np.arange(4).reshape(2, 2), words=np.zeros((2, 2), np.uint32)).tolist() == [
        [0, 1],
        [2, 3],
    ]


# --- quarter --------------------------------------------------------------------------------------


@FORMATS
def test_all_256_codes(form: QuarterFormat) -> None:
    theirs = np.arange(256, dtype=np.uint8).view(THEIRS[form])
    np.testing.assert_array_equal(numbers(form), theirs.astype(np.float64))
    for scale in range(-32, 32):
        got = from_quarter(np.arange(256), QuarterMetadata(form, scale))
        assert got.dtype == np.float32
        np.testing.assert_array_equal(
            got.astype(np.float64), theirs.astype(np.float64) * 2.0**scale
        )


@FORMATS
def test_all_65536_halves(form: QuarterFormat) -> None:
    with np.errstate(invalid="ignore"):
        expected = HALVES.astype(np.float32).astype(THEIRS[form]).view(np.uint8)
    np.testing.assert_array_equal(to_quarter(HALVES, QuarterMetadata(form)), expected)
    np.testing.assert_array_equal(
        to_quarter(HALVES.astype(np.float64), QuarterMetadata(form)), expected
    )


@FORMATS
@pytest.mark.parametrize("scale", [-32, -7, 3, 31])
def test_halves_at_a_scale(form: QuarterFormat, scale: int) -> None:
    with np.errstate(over="ignore", invalid="ignore"):
        expected = (
            (HALVES.astype(np.float64) * 2.0**-scale)
            .astype(np.float32)
            .astype(THEIRS[form])
            .view(np.uint8)
        )
    np.testing.assert_array_equal(to_quarter(HALVES, QuarterMetadata(form, scale)), expected)


@FORMATS
def test_codes_stay_what_they_are(form: QuarterFormat) -> None:
    codes = np.arange(256, dtype=np.uint8)
    for scale in range(-32, 32):
        metadata = QuarterMetadata(form, scale)
        np.testing.assert_array_equal(to_quarter(from_quarter(codes, metadata), metadata), codes)
        np.testing.assert_array_equal(
            to_quarter(from_quarter(codes, metadata), metadata, words=random_words(256)), codes
        )


@FORMATS
@given(value=floats(32), word=WORDS, scale=st.integers(-32, 31))
def test_quarter_by_search(form: QuarterFormat, value: float, word: int | None, scale: int) -> None:
    metadata = QuarterMetadata(form, scale)
    words = None if word is None else np.uint32(word)
    wanted = by_search(form.name, value, word, scale) * 2.0**scale
    largest = form.grid.largest * 2.0**scale
    as_nan = float(from_quarter(to_quarter(np.float32(value), metadata, words=words), metadata))
    clipped = float(
        from_quarter(
            to_quarter(np.float32(value), metadata, words=words, overflow=Overflow.SATURATE),
            metadata,
        )
    )
    if wanted == float("inf"):
        assert np.isnan(as_nan) and clipped == np.copysign(largest, value)
    else:
        assert as_nan == clipped == np.copysign(wanted, value)


# (format, value, scale of the cast, read back with scale 0), from PopLibs' tests,
# popops/QuarterTypeArithmeticTests.cpp
PUBLISHED = [
    (F143, 2.0**-12, 0, 0.0),
    (F143, 2.0**33, 0, np.nan),
    (F143, 8.0, 0, 8.0),
    (F143, 8.0, -10, np.nan),
    (F143, 8.0, 31, 0.0),
    (F143, 2.0**33, 31, 4.0),
    (F152, 2.0**-18, 0, 0.0),
    (F152, 2.0**46, 0, np.nan),
    (F152, 8.0, 0, 8.0),
    (F152, 8.0, -13, np.nan),
    (F152, 2.0**46, 31, 32768.0),
]


@pytest.mark.parametrize(("form", "value", "scale", "expected"), PUBLISHED)
def test_published_casts(form: QuarterFormat, value: float, scale: int, expected: float) -> None:
    for sign in (1, -1):
        code = to_quarter(np.float32(sign * value), QuarterMetadata(form, scale))
        np.testing.assert_array_equal(
            from_quarter(code, QuarterMetadata(form)), np.float32(sign * expected)
        )
        assert expected != 0 or code == 0  # never minus zero, whose code is NaN's


def test_published_saturation() -> None:
    for form, value, largest in ((F143, 2.0**33, 240), (F152, 2.0**46, 57344)):
        codes = to_quarter(
            [value, -value, np.inf, np.nan], QuarterMetadata(form), overflow=Overflow.SATURATE
        )
        np.testing.assert_array_equal(
            from_quarter(codes, QuarterMetadata(form)), [largest, -largest, np.nan, np.nan]
        )


def test_ranges_as_published() -> None:
    """F143 from 2**-10 to 240, F152 from 2**-17 to 57,344 (PopLibs' tests; osmarks/ipu-stack,
    docs/FP8.md)."""
    for form, least, largest in ((F143, 2.0**-10, 240), (F152, 2.0**-17, 57344)):
        assert (numbers(form)[1], numbers(form)[127]) == (least, largest)
        assert np.flatnonzero(np.isnan(numbers(form))).tolist() == [0x80]


@FORMATS
def test_the_mean_of_many_casts_is_the_value(form: QuarterFormat) -> None:
    count = 200_000
    for value in (3.3, -0.017, 2.0**-11, 100.1):
        metadata = QuarterMetadata(form)
        got = from_quarter(
            to_quarter(np.full(count, value), metadata, words=random_words(count, 5)), metadata
        ).astype(np.float64)
        below, way = neighbours(form.name, abs(Fraction(value)))
        low, high = (float(v) for v in magnitudes(form.name)[below : below + 2])
        assert set(np.unique(abs(got))) <= {low, high}
        assert (
            abs(got.mean() - value) <= 4 * (high - low) * float(way * (1 - way)) ** 0.5 / count**0.5
        )


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: QuarterMetadata(F143, 32),
            """QuarterMetadata() was given the scale 32, which is not a whole number from -32 to 31.
  next:  give a number in this range. The value of a byte is its number in the format times 2**scale.""",
        ),
        (
            lambda: QuarterMetadata(F152, True),
            """QuarterMetadata() was given the scale True, which is not a whole number from -32 to 31.
  next:  give a number in this range. The value of a byte is its number in the format times 2**scale.""",
        ),
        (
            lambda: QuarterMetadata("F143"),
            """QuarterMetadata() was given the format 'F143', which is not a QuarterFormat.
  next:  give QuarterFormat.F143 or QuarterFormat.F152.""",
        ),
        (
            lambda: to_quarter(1, QuarterMetadata(), overflow=Overflow.INFINITY),
            """\
to_quarter() was asked to produce infinities, but 8-bit floats have none.
  next:  use Overflow.NAN or Overflow.SATURATE.""",
        ),
    ],
)
def test_metadata_that_cannot_be(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TensorMetadataError) as caught:
        call()
    assert str(caught.value) == text


def test_metadata_as_text() -> None:
    assert repr(QuarterMetadata(F152, -3)) == "QuarterMetadata(F152, scale -3)"


# --- values beside the numbers of a dtype ---------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "dtype", "scale", "size"),
    [
        ("half", HALF, 0, 1e-6),
        ("half", HALF, 0, 5e4),
        ("F143", QUARTER[F143, 0], 0, 0.01),
        ("F143", QUARTER[F143, 3], 3, 700),
        ("F152", QUARTER[F152, -9], -9, 1e-7),
    ],
)
def test_what_becomes_of_values_by_search(name: str, dtype: Any, scale: int, size: float) -> None:
    draw = np.random.default_rng(12)
    values = (draw.standard_normal(600) * size).reshape(20, 30)
    values[3, 4:9] = 0
    exact = [by_search(name, value, None, scale) for value in values.ravel().tolist()]
    normal = float(magnitudes(name)[2 ** (10 if name == "half" else 3 if name == "F143" else 2)])
    found = histogram(values, dtype)
    pairs = list(zip(values.ravel().tolist(), exact, strict=True))
    assert round(found.underflow * 600) == sum(v != 0 and e == 0 for v, e in pairs)
    assert round(found.overflow * 600) == sum(np.isinf(e) for _, e in pairs)
    assert round(found.subnormal * 600) == sum(0 < e < normal for _, e in pairs)
    assert found.zeros == 5 and sum(found.counts) == 595
    some = np.abs(values[values != 0])
    assert dict(zip(found.powers, found.counts, strict=True)) == {
        power: int(((some >= 2.0**power) & (some < 2.0 ** (power + 1))).sum())
        for power in found.powers
    }


def test_singles_hold_what_halves_lose() -> None:
    tiny = [1e-30, 1e30, 1e-44, 1e-46, 3e38, 4e38]
    assert histogram(tiny, FLOAT) == histogram(np.array(tiny)[::-1], FLOAT)
    found = histogram(tiny, FLOAT)
    assert (found.underflow, found.subnormal, found.overflow) == (1 / 6, 1 / 6, 1 / 6)
    assert str(histogram([1, 2.0**-25, 0, 70_000], HALF)) == (
        "as HALF 25 % become 0, none are subnormal, 25 % are too large"
    )


@FORMATS
def test_the_best_scale_is_the_smallest_that_holds_all(form: QuarterFormat) -> None:
    draw, end = np.random.default_rng(13), Fraction(form.grid.largest)
    ends = [float(end) * 2.0**k for k in (-20, 0, 5)]
    assert best_scale([2.0 ** (form.grid.least_exponent - 32)], form) == -32
    drawn = (draw.standard_normal((300, 3)) * 2.0 ** draw.integers(-17, 30, (300, 1))).tolist()
    for values in (*drawn, *([value, -value / 3] for value in ends)):
        largest = max(map(abs, map(Fraction, values)))
        right = next(s for s in range(-32, 32) if largest <= end * Fraction(2) ** s)
        assert best_scale(values, form) == right, values
        metadata = QuarterMetadata(form, right)
        assert np.isfinite(from_quarter(to_quarter(values, metadata), metadata)).all()
    assert best_scale(np.zeros((2, 3)), form) == 0
    assert [best_scale([value], form) for value in ends] == [-20, 0, 5]


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (
            lambda: histogram(np.array([[1.0, 2.0], [np.nan, np.inf]]), HALF),
            InvalidOptionError,
            """histogram() was given 2 of 4 values that are NaN or infinite, the first at [1, 0].
  next:  find out where they come from, or drop them: values[np.isfinite(values)].""",
        ),
        (
            lambda: best_scale([1.0, -np.inf], F143),
            InvalidOptionError,
            """best_scale() was given 1 of 2 values that are NaN or infinite, the first at [1].
  next:  find out where they come from, or drop them: values[np.isfinite(values)].""",
        ),
        (
            lambda: histogram([], HALF),
            InvalidOptionError,
            """histogram() was given no values.
  next:  give numbers, as a numpy array of any shape.""",
        ),
        (
            lambda: histogram([1j], HALF),
            InvalidOptionError,
            """histogram() was given values of dtype complex128.
  next:  give numbers, as a numpy array of any shape.""",
        ),
        (
            lambda: histogram([1.0], INT),
            PoplarTypeError,
            """\
histogram() was given INT, which is not a floating-point dtype.
  next:  give FLOAT, HALF, or QUARTER with a format and a scale, as QUARTER[QuarterFormat.F143, 0].""",
        ),
        (
            lambda: best_scale([1.0], "F143"),  # type: ignore[arg-type]
            TensorMetadataError,
            """best_scale() was given the format 'F143', which is not a QuarterFormat.
  next:  give QuarterFormat.F143 or QuarterFormat.F152.""",
        ),
        (
            lambda: best_scale([1e-15], F152),
            TensorMetadataError,
            """best_scale() was given values up to 1e-15, which need the scale -65 in F152, \
but a scale must be from -32 to 31.
  next:  multiply the values by a power of two first, and divide by it afterwards.""",
        ),
        (
            lambda: best_scale([1e12], F143),
            TensorMetadataError,
            """best_scale() was given values up to 1e+12, which need the scale 32 in F143, \
but a scale must be from -32 to 31.
  next:  multiply the values by a power of two first, and divide by it afterwards.""",
        ),
    ],
)
def test_values_that_have_no_place(call: Callable[[], object], kind: Any, text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert " ".join(str(caught.value).split()) == " ".join(text.split())


# --- the generator --------------------------------------------------------------------------------

WORD = 2**64 - 1


def rotated(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & WORD


def plain(s0: int, s1: int, count: int) -> tuple[list[int], tuple[int, int]]:
    """The generator on Python's whole numbers: words, and the state afterwards."""
    words = []
    for _ in range(count):
        words.append(s0 ^ s1 ^ (rotated(s0 & s1, 1) | rotated(s0 & s1, 2)))
        mixed = s0 ^ s1
        s0, s1 = rotated(s0, 55) ^ mixed ^ (mixed << 14 & WORD), rotated(mixed, 36)
    return words, (s0, s1)


def state(s0: int, s1: int) -> Array:
    return np.array([s0, s1], np.uint64)


def test_published_words() -> None:
    """The six words that follow from the published definition and the state (1, 2)."""
    wanted = [
        0x3,
        0x8000300000C003,
        0x13840E038000363,
        0xA080FED030C4C36E,
        0x1AC0684F18388404,
        0x310283837B21945,
    ]
    assert generator.draw(state(1, 2), 6).tolist() == wanted == plain(1, 2, 6)[0]


def test_the_seed_register() -> None:
    """$PRNG_SEED as in graphcore/ipu_assembly_support, and the first word after the seed 42."""
    v, inverse = 42, ~42 & 0xFFFFFFFF
    low, high = (v << 13 | inverse >> 19) & 0xFFFFFFFF, (inverse << 13 | v >> 19) & 0xFFFFFFFF
    assert generator.seeded(42).tolist() == [v | inverse << 32, low | high << 32]
    assert generator.draw(generator.seeded(42), 1).tolist() == [0xFFFA9FD500055F2A]
    assert generator.seeded(np.arange(6).reshape(2, 3)).shape == (2, 3, 2)


@given(st.integers(0, WORD), st.integers(0, WORD), st.lists(st.integers(0, 700), max_size=4))
def test_words_one_by_one(s0: int, s1: int, counts: Sequence[int]) -> None:
    """However a stream is cut, its words are those of the plain loop."""
    ours = state(s0, s1)
    got = [int(word) for count in counts for word in generator.draw(ours, count)]
    words, after = plain(s0, s1, sum(counts))
    assert got == words and tuple(ours.tolist()) == after


@given(st.integers(0, WORD), st.integers(0, WORD), st.integers(0, 3000))
def test_skipping_ahead(s0: int, s1: int, steps: int) -> None:
    before = state(s0, s1)
    assert tuple(generator.advance(before, steps).tolist()) == plain(s0, s1, steps)[1]
    assert before.tolist() == [s0, s1]


@given(st.integers(0, WORD), st.integers(0, WORD), st.integers(0, 2**127), st.integers(0, 2**127))
def test_skips_add_up(s0: int, s1: int, a: int, b: int) -> None:
    first = state(s0, s1)
    assert (
        generator.advance(generator.advance(first, a), b).tolist()
        == generator.advance(first, a + b).tolist()
    )


def test_a_full_period_leads_back() -> None:
    """The period is 2**128 - 1 for every state but zero."""
    for first in (state(1, 2), generator.seeded(42)):
        assert generator.advance(first, 2**128 - 1).tolist() == first.tolist()


def test_the_published_jump() -> None:
    """2**64 draws at once, as the polynomial that Vigna's xoroshiro128plus.c of 2016 gives for the
    shifts 55, 14, 36."""
    s0, s1, t0, t1 = 1, 2, 0, 0
    for constant in (0xBEAC0467EBA5FACB, 0xD86B048B86AA9922):
        for bit in range(64):
            if constant >> bit & 1:
                t0, t1 = t0 ^ s0, t1 ^ s1
            s0, s1 = plain(s0, s1, 1)[1]
    assert generator.advance(state(1, 2), 2**64).tolist() == [t0, t1]


def test_every_worker_has_a_stream_of_its_own() -> None:
    states = generator.worker_states(7, 5, 6)
    assert states.shape == (5, 6, 2) and len(np.unique(states.reshape(-1, 2), axis=0)) == 30
    np.testing.assert_array_equal(states, generator.worker_states(7, 1472, 6)[:5])
    first = generator.advance(generator.seeded(7), 12)
    np.testing.assert_array_equal(states[2, 5], generator.advance(first, 17 << 64))
    one = states[2, 5].copy()
    words = generator.draw(states, 100)
    assert words.shape == (5, 6, 100)
    assert words[2, 5].tolist() == plain(*one.tolist(), 100)[0]
    assert words[2, 5, :7].tolist() == generator.draw(one, 7).tolist()


def test_no_tiles_and_no_draws() -> None:
    assert generator.worker_states(1, 0, 6).shape == (0, 6, 2)
    assert generator.draw(state(1, 2), 0).shape == (0,)


COUNT = 2**20


def test_words_are_evenly_distributed() -> None:
    """Chi-square of all bytes, and lag-1 correlation, at four standard deviations."""
    words = generator.draw(generator.worker_states(1, 1, 6)[0, 0], COUNT)
    counts = np.bincount(words.view(np.uint8), minlength=256)
    expected = 8 * COUNT / 256
    chi = float(((counts - expected) ** 2 / expected).sum())
    assert abs(chi - 255) <= 4 * (2 * 255) ** 0.5
    u = words.astype(np.float64) / 2**64 - 0.5
    assert abs((u[1:] * u[:-1]).mean() * 12) <= 4 / COUNT**0.5


def test_workers_are_not_correlated() -> None:
    words = (
        generator.draw(generator.worker_states(3, 4, 6), 2**14).reshape(24, -1).astype(np.float64)
        / 2**64
    )
    matrix = np.corrcoef(words)[np.triu_indices(24, 1)]
    assert abs(matrix).max() <= 5 / 2**7  # the largest of 276


def test_uniform_numbers() -> None:
    got = generator.uniform(generator.seeded(9), COUNT)
    words = generator.draw(generator.seeded(9), COUNT // 2)
    low, high = (words & np.uint64(0xFFFFFFFF)) >> np.uint64(8), words >> np.uint64(40)
    np.testing.assert_array_equal(
        got, np.stack([low, high], 1).reshape(-1).astype(np.float64) / 2**24
    )
    assert got.dtype == np.float32 and got.min() >= 0 and got.max() < 1
    wide = got.astype(np.float64)
    assert abs(wide.mean() - 0.5) <= 4 * (1 / 12 / COUNT) ** 0.5
    assert abs(wide.var() - 1 / 12) <= 4 * (1 / 180 / COUNT) ** 0.5
    shifted = generator.uniform(generator.seeded(9), 7, low=-2, high=2)
    np.testing.assert_array_equal(shifted, got[:7] * 4 - 2)


def test_kept_elements() -> None:
    words = generator.draw(generator.seeded(9), 3).tolist()
    parts = [word >> 16 * k & 0xFFFF for word in words for k in range(4)]
    for probability in (0.0, 0.1, 0.5, 1.0):
        got = generator.bernoulli(generator.seeded(9), 11, probability)
        assert got.dtype == np.bool_
        assert got.tolist() == [part < round(probability * 65536) for part in parts[:11]]
    share = generator.bernoulli(generator.worker_states(2, 3, 6), 60_000, 0.3).mean()
    assert abs(share - round(0.3 * 65536) / 65536) <= 4 * (0.3 * 0.7 / (18 * 60_000)) ** 0.5


def test_normal_numbers() -> None:
    """The sum of twelve 5-bit numbers: its distribution is known exactly, and close to the normal
    one."""
    got = generator.normal(generator.seeded(9), COUNT)
    chances = np.ones(1)
    for _ in range(12):
        chances = np.convolve(chances, np.full(32, 1 / 32))
    values = (np.arange(373) - 186) / 32
    deviation = float((chances * values**2).sum()) ** 0.5
    assert deviation == pytest.approx(1023**0.5 / 32)
    found = np.bincount(np.rint(got * 32).astype(int) + 186, minlength=373)
    often = chances * COUNT >= 10
    chi = float(((found - chances * COUNT) ** 2 / (chances * COUNT))[often].sum())
    assert abs(chi - often.sum()) <= 4 * (2 * often.sum()) ** 0.5
    assert got.dtype == np.float32 and set(np.unique(got)) <= set(values)
    assert abs(got.astype(np.float64).mean()) <= 4 * deviation / COUNT**0.5
    np.testing.assert_array_equal(
        generator.normal(generator.seeded(9), 5, mean=3, deviation=2), got[:5] * 2 + 3
    )
