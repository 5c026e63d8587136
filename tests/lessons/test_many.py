"""What lesson 10 expects of answers: its budgets from the lesson's own programs, and what is right
from published rules and from the library."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import Names

from ipu_course.checking.quoting import quoted
from ipu_course.lesson10 import checks as lesson
from ipu_teach.schedules import pipeline_schedule, stash

NamesOf = Callable[[str], Names]
Solution = Callable[[str], tuple[Any, ...]]


def test_the_budget_of_a_pipeline_is_its_ticks(names_of: NamesOf, solution: Solution) -> None:
    """The lesson's own program for 16 micro-batches takes 8 more ticks than that for 8."""
    names, (pipeline,) = names_of("10"), solution("10.3")
    few, many = (names["run_stages"](pipeline, n).total_cycles for n in (8, 16))
    assert (many - few) / 8 == pytest.approx(lesson.tick_cycles(4), rel=0.02)


def test_the_budget_of_a_ring_is_its_rounds(names_of: NamesOf, solution: Solution) -> None:
    report = names_of("10")["run_reduce"](solution("10.5")[0], 52_000)
    assert report.total_cycles == lesson.ring_cycles(52_000, 4) == pytest.approx(27_069, rel=0.01)
    # each IPU sends 2 (R - 1) / R of the bytes to the next, over a rail of half the ladder's rate
    assert lesson.busiest_link(report) == 2 * 3 * 52_000 * 4 / 4
    assert report.global_exchange_cycles == pytest.approx(2 * 3 / 4 * 52_000 * 4 / 30.6, rel=0.02)


def test_what_stages_hold_is_published_and_counted_in_ticks_of_any_kind() -> None:
    for stages in range(2, 9):
        for factor, schedule in ((2, "grouped"), (1, "interleaved"), (0, "sequential")):
            ticks = [[tuple(w) for w in t] for t in pipeline_schedule(stages, 2 * stages, schedule)]
            rule = [factor * (stages - 1 - s) + 1 for s in range(stages)]
            assert lesson.held(ticks, stages) == rule == stash(ticks, stages)
        rounds = lesson.in_rounds(stages, 2 * stages)
        assert lesson.held(rounds, stages) == [2 * (stages - 1 - s) + 1 for s in range(stages)]


def test_the_least_slowest_stage_is_that_of_all_cuts(solution: Solution) -> None:
    (cut,), draw = solution("10.2"), np.random.default_rng(10)
    assert lesson.least_slowest(tuple(lesson.LAYERS), 4) == 10
    assert lesson.slowest(lesson.LAYERS, [0, 3, 6, 9]) == 12
    for _ in range(30):
        costs = draw.integers(1, 20, draw.integers(4, 9)).tolist()
        ipus = int(draw.integers(1, 4))
        assert lesson.slowest(costs, cut(costs, ipus)) == lesson.least_slowest(tuple(costs), ipus)


def test_rows_of_different_lengths_are_quoted() -> None:
    assert quoted([[1, 2], [3]]) == "[[1, 2], [3]]"


def test_complex_numbers_are_quoted_with_both_parts() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert quoted(1 + 2j) == "(1+2j)"
        assert quoted(np.complex64(1 + 2j)) == "np.complex64(1+2j)"
        assert quoted(np.array([1 + 2j])) == "[np.complex128(1+2j)]"


def test_a_duration_is_quoted_as_it_is_shown() -> None:
    assert quoted(np.timedelta64(3, "s")) == "np.timedelta64(3,'s')"
