"""The exercises of lesson 16, ImageNet in minutes: correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import count, product

from ipu_course.checking import warmups
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import suspects
from ipu_course.checking.verdicts import Passed

# --- 16.1: the minutes of a training run ----------------------------------------------------------


def minutes_of(
    images: int,
    epochs: int,
    micro_batch: int,
    micro_batches: int,
    replicas: int,
    micro_batch_cycles: float,
    update_cycles: float,
    clock: float,
) -> float:
    """Return the minutes of a training run, by counting the updates of an epoch one by one."""
    updates, done = 0, 0
    while done < images:
        done += micro_batch * micro_batches * replicas
        updates += 1
    seconds = sum([micro_batch_cycles / clock] * micro_batches) + update_cycles / clock
    return epochs * updates * seconds / 60


def _minutes(answer: Callable[..., float]) -> Passed:
    drawn = [
        (9000, 7, 3, 5, 4, 12_000, 5000, 2000),
        (50_000, 3, 8, 25, 16, 700_000, 90_000, 1_000_000),
        (1_281_167, 38, 4, 50, 16, 3_500_000, 3_000_000, 1_330_000_000),
    ]
    cases = {f"drawn, {case}": case for case in drawn}
    cases["whole updates"] = (9600, 2, 4, 6, 8, 500, 900, 1000)
    cases["fewer images than in an update"] = (10, 2, 8, 3, 2, 40, 50, 1000)
    further = product((1, 13, 48), (1, 3), (1, 2), (1, 3), (1, 4), (50, 64), (20,), (30, 1000))
    advice = "compute the updates of an epoch first, and then the cycles of an update."
    return compare(answer, minutes_of, cases, suspects("16.1"), advice, more=further)


# --- 16.2: the largest micro-batch that fits ------------------------------------------------------


def largest_of(small: int, bytes_small: int, large: int, bytes_large: int, limit: int) -> int:
    """Return the largest micro-batch that fits, by trying one size after the other."""
    per_image = Fraction(bytes_large - bytes_small, large - small)
    return next(n for n in count() if bytes_small + (n + 1 - small) * per_image > limit)


def _largest(answer: Callable[..., int]) -> Passed:
    drawn = [
        (4, 380_000, 8, 500_000, 640_000),
        (2, 310_000, 6, 430_000, 639_000),
        (3, 9000, 8, 19_500, 40_000),
        (1, 700, 2, 810, 5000),
    ]
    cases = {f"drawn, {case}": case for case in drawn}
    cases["the limit is reached exactly"] = (4, 300, 8, 500, 600)
    cases["the smaller one is larger than the limit"] = (4, 700, 6, 800, 650)
    cases["not even one image fits"] = (2, 900, 4, 1000, 800)
    cases["an image is a fraction of a byte less"] = (2, 100, 5, 200, 399)
    further = [
        (small, fixed + small * step, small + gap, fixed + (small + gap) * step, limit)
        for small, gap, step in product((1, 2, 5), (1, 2, 4), (1, 7, 30))
        for fixed, limit in ((0, 60), (10, 60), (50, 60), (59, 60), (300, 290), (13, 1000))
    ]
    advice = "compute the bytes of one image first, and then the bytes without any image."
    return compare(answer, largest_of, cases, suspects("16.2"), advice, whole=True, more=further)


# --- 16.3: when recomputation pays ----------------------------------------------------------------


def break_even_of(
    n: int, fixed: int, per_image: int, fixed_recompute: int, per_image_recompute: int
) -> int:
    """Return the smallest micro-batch with recomputation that is as fast, by trying; 0 if none."""
    cycles = fixed + per_image * n
    if per_image_recompute * n >= cycles:
        return 0
    return next(
        m for m in count(1) if (fixed_recompute + per_image_recompute * m) * n <= cycles * m
    )


def _break_even(answer: Callable[..., int]) -> Passed:
    drawn = [
        (8, 4000, 500, 6000, 700),
        (12, 2010, 535, 3580, 596),
        (5, 900, 100, 1000, 130),
        (3, 100, 50, 120, 60),
    ]
    cases = {f"drawn, {case}": case for case in drawn}
    cases["an image takes too long with recomputation"] = (10, 100, 50, 150, 80)
    cases["equal only without the fixed part"] = (4, 100, 50, 90, 75)
    cases["exactly as fast"] = (4, 800, 100, 900, 150)
    cases["recomputation costs nothing"] = (4, 800, 100, 800, 100)
    further = [
        (n, fixed, 10, fixed_recompute, per_image)
        for n in (1, 2, 4, 16)
        for fixed in (16, 64, 100)
        for fixed_recompute in (16, 80, 200)
        for per_image in (8, 10, 11, 14, 26, 40)
    ]
    advice = "write down the cycles of one image on both sides, and compare them for growing m."
    return compare(answer, break_even_of, cases, suspects("16.3"), advice, whole=True, more=further)


LESSON = lesson(
    "16",
    question("16.0", (PredictedValue("times as many images a second", low=0),)),
    exercise(
        "16.w1",
        warmups.formula(
            "16.w1",
            lambda batch, micro_batch, replicas: next(
                a for a in count(1) if a * micro_batch * replicas >= batch
            ),
            (100, 3, 4),
            (3200, 12, 16),
            (3200, 8, 16),
            (10, 8, 4),
            more=product((1, 7, 24, 100), (1, 2, 3, 8), (1, 2, 5)),
        ),
    ),
    exercise("16.1", _minutes),
    exercise("16.2", _largest),
    exercise("16.3", _break_even),
)
