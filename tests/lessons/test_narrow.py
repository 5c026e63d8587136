"""What lesson 11 expects of answers: from the kit's own numbers, from all ways that throws can go, and
from products on both sides of their budgets."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import comb, sqrt

import numpy as np
import pytest

from ipu_course.lesson11 import checks as lesson
from ipu_teach import FLOAT, HALF
from ipu_teach.types import QuarterFormat, QuarterMetadata, from_quarter, to_quarter
from ipu_teach.types.rounding import Overflow


@pytest.mark.parametrize("form", QuarterFormat, ids=lambda form: form.name)
def test_bytes_by_whole_numbers_are_those_of_the_kit(form: QuarterFormat) -> None:
    metadata, codes = QuarterMetadata(form), np.arange(256)
    by_hand = [lesson.decoded(code, *lesson.BITS[form]) for code in codes.tolist()]
    assert np.array_equal(by_hand, from_quarter(codes, metadata), equal_nan=True)
    values = lesson._to_encode(form)
    kits = to_quarter(np.array(values), metadata, overflow=Overflow.SATURATE)
    assert [lesson.encoded(value, form) for value in values] == kits.tolist()
    assert {0, 0x7F, 0xFF} <= set(kits.tolist())


def test_neighbours_of_a_value_are_the_halves_around_it() -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16).astype(float)
    halves = np.unique(halves[np.isfinite(halves)])
    for value in lesson.VALUES.tolist():
        low, high = (float(end) for end in lesson.halves_around(value))
        assert low == halves[halves <= value].max() and high == halves[halves >= value].min()


def test_the_end_of_a_walk_is_that_of_all_ways_it_can_go() -> None:
    for step, grid, times in ((0.4, 0.25, 10), (-0.4, 0.25, 7), (0.02, 0.25, 12), (0.75, 0.25, 3)):
        low = Fraction(step) // Fraction(grid) * Fraction(grid)
        p = (Fraction(step) - low) / Fraction(grid)
        chances = [comb(times, k) * p**k * (1 - p) ** (times - k) for k in range(times + 1)]
        ends = [times * low + k * Fraction(grid) for k in range(times + 1)]
        mean = sum(c * e for c, e in zip(chances, ends, strict=True))
        variance = sum(c * (e - mean) ** 2 for c, e in zip(chances, ends, strict=True))
        assert lesson.after(step, grid, times) == pytest.approx((float(mean), sqrt(variance)))
    assert lesson.after(0.4, 0.25, 10) == pytest.approx((4.0, 0.387), abs=1e-3)


def test_products_are_on_one_side_of_the_allowed_error_in_every_order() -> None:
    """An answer that adds as the device does, but in another order, makes the same choice."""
    chosen = []
    for product in lesson._operands():
        (half, quick), (single, slow) = (lesson.multiplied(product, d) for d in (HALF, FLOAT))
        assert quick < 0.8 * slow and single < 0.7 * product.error
        for seed in range(3):
            order = np.random.default_rng(seed).permutation(product.a.shape[1])
            shuffled = replace(product, a=product.a[:, order], b=product.b[order])
            error, _ = lesson.multiplied(shuffled, HALF)
            assert (error < product.error) == (half < product.error)
        chosen.append(half < product.error)
    assert chosen.count(True) == 9 and chosen.count(False) == 3
