"""The exercises of lesson 16, ImageNet in minutes: correct results and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from inspect import signature
from itertools import count, product
from typing import Any

import numpy as np

from ipu_course.checking import warmups
from ipu_course.checking.comparing import compare
from ipu_course.checking.exercise import PredictedValue, exercise, lesson, question
from ipu_course.checking.mistakes import suspects
from ipu_course.checking.verdict_panel import Bars
from ipu_course.checking.verdicts import NotYet, Passed
from ipu_course.lesson16.plans import HEAD, RECOMPUTATION, bert, fault_of, resnet, stages_of
from ipu_teach.errors import shown
from ipu_teach.estimate.result import Estimate

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
    """Return the minutes of a training run; the steps of an epoch are counted one by one."""
    steps, done = 0, 0
    while done < images:
        done += micro_batch * micro_batches * replicas
        steps += 1
    seconds = sum([micro_batch_cycles / clock] * micro_batches) + update_cycles / clock
    return epochs * steps * seconds / 60


def _minutes(answer: Callable[..., float]) -> Passed:
    drawn = [
        (9000, 7, 3, 5, 4, 12_000, 5000, 2000),
        (50_000, 3, 8, 25, 16, 700_000, 90_000, 1_000_000),
        (1_281_167, 38, 4, 50, 16, 3_500_000, 3_000_000, 1_330_000_000),
    ]
    cases = {f"drawn, {case}": case for case in drawn}
    cases["whole steps"] = (9600, 2, 4, 6, 8, 500, 900, 1000)
    cases["fewer images than in a step"] = (10, 2, 8, 3, 2, 40, 50, 1000)
    further = product((1, 13, 48), (1, 3), (1, 2), (1, 3), (1, 4), (50, 64), (20,), (30, 1000))
    advice = "compute the steps of an epoch first, then the cycles of a step, and then minutes."
    return compare(answer, minutes_of, cases, suspects("16.1"), advice, more=further)


# --- 16.2: the largest micro-batch that fits ------------------------------------------------------


def largest_of(small: int, bytes_small: int, large: int, bytes_large: int, limit: int) -> int:
    """Return the largest micro-batch that fits, found by trying one size after another."""
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
    """Return the smallest micro-batch with recomputation that is as fast as `n` without it.

    The sizes are tried one by one. The result is 0 if no size is as fast.
    """
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
        for fixed in (16, 64, 65, 100)
        for fixed_recompute in (16, 80, 200)
        for per_image in (8, 10, 11, 14, 26, 40)
    ]
    advice = "write down the cycles of one image on both sides, and compare them for growing m."
    return compare(answer, break_even_of, cases, suspects("16.3"), advice, whole=True, more=further)


# --- 16.4: settings for less than 25 minutes ------------------------------------------------------

LIMIT = 25  # The limit for a training run, in minutes.
IMAGES, EPOCHS, IPUS, BATCH = 1_281_167, 38, 16, 3200
# For each setting that a learner may choose: the allowed values in words, and a test of a value.
CHOICES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "micro_batch": ("a whole number from 1 to 64", lambda n: type(n) is int and 1 <= n <= 64),
    "recompute": (
        'None, "standard" or "six checkpoints"',
        lambda value: value is None or type(value) is str and value in RECOMPUTATION,
    ),
    "partials": ('"half" or "float"', lambda value: value in ("half", "float")),
    "proportion": ("a number from 0.01 to 1", lambda p: type(p) in (int, float) and 0.01 <= p <= 1),
    "byte_inputs": ("True or False", lambda value: type(value) is bool),
}


def run_of(settings: Mapping[str, Any]) -> tuple[Estimate, float]:
    """Return the estimate of a step with these settings, and the minutes of the training run."""
    accumulation = -(-BATCH // (settings.get("micro_batch", 1) * IPUS))
    estimate = resnet(accumulation=accumulation, **settings)
    return estimate, EPOCHS * estimate.seconds_for(IMAGES) / 60


def _settings(answer: object) -> Passed:
    tried = "your settings"
    if not isinstance(answer, dict):
        why = "the settings should be a dictionary."
        raise NotYet(tried, shown(answer), why=why, next_step='give a dict: {"micro_batch": 8, …}.')
    for name, value in answer.items():
        if name not in CHOICES:
            why = f"{shown(name)} is not one of the settings."
            raise NotYet(tried, shown(answer), why=why, next_step=f"use {', '.join(CHOICES)}.")
        words, is_allowed = CHOICES[name]
        if not is_allowed(value):
            why = f"{name} is {shown(value)}."
            raise NotYet(tried, shown(answer), why=why, next_step=f"give {name} {words}.")
    tried = ", ".join(f"{name}={value!r}" for name, value in answer.items()) or "no settings"
    estimate, minutes = run_of(answer)
    share = estimate.fullest.share
    came = f"{minutes:.2f} modelled minutes, {share:.1%} of a tile's memory"
    wanted = f"less than {LIMIT} minutes, and at most 100 %"
    if not estimate.fits:
        why = "the network does not fit on the tiles."
        raise NotYet(tried, came, wanted, why, _smaller_with(answer))
    if minutes >= LIMIT:
        why, advice = _slower_because(answer, minutes)
        raise NotYet(tried, came, wanted, why, advice)
    return Passed(tried, Bars(LIMIT, round(minutes, 2), "modelled minutes"), round(minutes, 2))


def _smaller_with(settings: Mapping[str, Any]) -> str:
    """Return advice on settings that do not fit on the tiles: a change after which they may fit."""
    if run_of({**settings, "partials": "half"})[0].fits:
        return "use HALF partials, which need fewer bytes."
    if settings.get("recompute") is None and run_of({**settings, **SAVING})[0].fits:
        return "change a setting that saves memory, or choose a smaller micro-batch."
    return "choose a smaller micro-batch."


def _slower_because(settings: Mapping[str, Any], minutes: float) -> tuple[str, str]:
    """Return (why, next step) for a training run that is too long: the change that helps most."""
    images = settings.get("micro_batch", 1)
    changes: list[tuple[str, str, tuple[dict[str, Any], ...]]] = [
        (
            "the dtype of the partials makes the run longer.",
            "use HALF partials.",
            ({"partials": "half"},),
        ),
        (
            "the small proportion makes the run longer.",
            "choose a larger proportion.",
            tuple(
                {"proportion": DEFAULTS["proportion"], "micro_batch": max(1, images - fewer)}
                for fewer in (
                    (0, 4)
                    if {**DEFAULTS, **settings}["proportion"] < DEFAULTS["proportion"]
                    else ()
                )
            ),
        ),
        (
            "the standard recomputation makes the run longer.",
            "choose another setting of recompute.",
            (SAVING,) if settings.get("recompute") == "standard" else (),
        ),
        (
            "16-bit input makes the run longer.",
            "let the host send one byte for each value.",
            ({"byte_inputs": True},),
        ),
        (
            "the small micro-batch makes the run longer.",
            "choose a larger one that fits.",
            ({"micro_batch": images + 1}, {"micro_batch": images + 4}),
        ),
    ]
    gains: dict[float, tuple[str, str]] = {}
    for why, advice, tries in changes:
        for change in tries:
            shorter = _shorter(settings, change, minutes)
            if shorter:
                gains[shorter] = why, advice
                break
    if gains:
        return gains[min(gains)]
    room = {**SAVING, "micro_batch": 30, "proportion": DEFAULTS["proportion"]}
    if _shorter(settings, room, minutes):
        why = "a larger micro-batch would be faster, but it does not fit with these settings."
        return why, "find the setting that saves most memory."
    return "the run is too long.", "change one setting at a time, and compare the minutes."


def _shorter(settings: Mapping[str, Any], change: Mapping[str, Any], minutes: float) -> float:
    """Return the minutes after a change of the settings, or 0 if the change does not help.

    A change also does not help if the settings do not change, or do not fit on the tiles any more.
    """
    if all({**DEFAULTS, **settings}[key] == value for key, value in change.items()):
        return 0.0
    estimate, changed = run_of({**settings, **change})
    return changed if estimate.fits and changed < minutes else 0.0


DEFAULTS = {name: signature(resnet).parameters[name].default for name in CHOICES}
SAVING = {"recompute": "six checkpoints"}  # This setting saves memory for a larger micro-batch.

# --- 16.w2: an update that matters little ---------------------------------------------------------


def enough_of(micro_batch_cycles: int, update_cycles: int, percent: int) -> int:
    """Return the fewest micro-batches with which an update is at most `percent` of the cycles."""
    return next(
        n
        for n in count(1)
        if 100 * update_cycles <= percent * (n * micro_batch_cycles + update_cycles)
    )


# --- 16.5: the cycles of a micro-batch and of an update -------------------------------------------


def parts_of(
    first: int, first_cycles: float, second: int, second_cycles: float
) -> tuple[float, float]:
    """Return (cycles of a micro-batch, cycles of an update), by solving two linear equations."""
    solution = np.linalg.solve([[first, 1.0], [second, 1.0]], [first_cycles, second_cycles])
    return float(solution[0]), float(solution[1])


def _parts(answer: Callable[..., tuple[float, float]]) -> Passed:
    drawn = [(10, 5600, 3, 2100), (2, 900, 5, 1800), (10, 143_600, 4, 61_000), (1, 70, 2, 100)]
    cases = {f"drawn, {case}": case for case in drawn}
    further = [
        (first, first * cycles + update, second, second * cycles + update)
        for first, second in ((1, 2), (2, 1), (7, 3), (3, 20), (16, 4))
        for cycles, update in ((1, 1), (10, 3), (3, 50), (2.5, 0.5))
    ]
    advice = "write down both steps as micro-batches plus an update, and subtract them."
    return compare(answer, parts_of, cases, suspects("16.5"), advice, more=further)


# --- 16.6: a pipeline without a slow stage --------------------------------------------------------

GOAL = 2400  # The required throughput, in sequences per second.


def _stages(answer: Any) -> Passed:
    tried = f"starts {shown(answer)}"
    if fault := fault_of(answer):
        raise NotYet(tried, why=fault[0], next_step=fault[1])
    starts = [int(start) for start in answer]
    estimate = bert(starts)
    result = f"{estimate.throughput:,.0f} modelled sequences per second"
    if estimate.throughput < GOAL:
        wanted = f"at least {GOAL:,} sequences per second"
        raise NotYet(tried, result, wanted, *_slowest_of(starts, estimate))
    return Passed(
        f"{tried}: {result}, and the goal is {GOAL:,}", evidence=round(estimate.throughput)
    )


def _slowest_of(starts: list[int], estimate: Estimate) -> tuple[str, str]:
    """Return (why, next step) for a pipeline that is too slow: which stage is the slowest."""
    cycles = [backward for _, backward in stages_of(estimate)]
    slowest = max(range(len(cycles)), key=cycles.__getitem__)
    first, end = starts[slowest], [*starts[1:], HEAD + 1][slowest]
    layers = min(end, HEAD) - max(first, 1)
    parts = [f"{layers} layer{'s' * (layers > 1)}"] * (layers > 0)
    if slowest == 0:
        parts.insert(0, "the embedding")
    elif end > HEAD:
        parts.append("the head")
    others = (sum(cycles) - cycles[slowest]) / (len(cycles) - 1)
    idlest = min(range(len(cycles)), key=cycles.__getitem__)
    advice = f"stage {idlest} waits longest, so move layers from stage {slowest} towards it."
    return (
        f"stage {slowest} is the slowest, with {' and '.join(parts)}. Its backward pass takes "
        f"{cycles[slowest] / 1e6:.2f} million cycles, and those of the other stages "
        f"{others / 1e6:.2f} million on average, so the others wait."
    ), advice


LESSON = lesson(
    "16",
    question("16.0", (PredictedValue("the factor", low=0),)),
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
    exercise("16.4", _settings, takes=("a dictionary",)),
    exercise(
        "16.w2",
        warmups.formula(
            "16.w2",
            enough_of,
            (100, 1000, 30),
            (14, 400, 5),
            (90, 100, 10),
            (50, 3, 60),
            more=product((1, 7, 40, 1000), (1, 6, 63, 500), (1, 5, 25, 50, 90, 99)),
        ),
    ),
    exercise("16.5", _parts),
    exercise("16.6", _stages, takes=("a list",)),
)
