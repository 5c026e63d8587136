"""What lesson 08 expects of answers: its figures by hand, its budget from the lesson's own chain."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from answers import Names

from ipu_course.lesson08 import checks as lesson
from ipu_teach import IPUModel
from ipu_teach.errors import GraphMemoryAllocationError
from ipu_teach.schedules import RECOMPUTE


def test_figures_by_hand() -> None:
    evenly = {k: range(0, 16, k) for k in (1, 2, 4, 8, 16)}
    found = {k: lesson.most_alive([1] * 16, keep) for k, keep in evenly.items()}
    assert found == {1: 16, 2: 9, 4: 7, 8: 9, 16: 16}
    again = {k: lesson.computed_again(keep) for k, keep in evenly.items()}
    assert again == {1: 0, 2: 7, 4: 9, 8: 7, 16: 0}
    assert lesson.most_alive(lesson.HILLS, [0, 4, 8]) == 39
    assert lesson.most_alive(lesson.HILLS, [0, 6, 10]) == 28 == lesson._least((*lesson.HILLS,), 3)
    assert lesson.most_alive([1] * 16, [0, 4, 9, 13]) == 6 == lesson._least((1,) * 16, 4)
    # forward 0 makes 4 of 3; forward 1 makes the output; then backward 1 and 0
    steps = [("forward", 0), ("forward", 1), ("backward", 1), ("backward", 0)]
    assert lesson.alive_while(steps, [3, 4]) == [7, 7, 7, 3]


def test_who_goes_through_a_list_finds_what_the_intervals_say_and_the_slopes_by_hand() -> None:
    rng = np.random.default_rng(8)
    for _ in range(20):
        layers = int(rng.integers(1, 14))
        keep = {0, *rng.integers(0, layers, int(rng.integers(1, layers + 1))).tolist()}
        steps = lesson._listed(layers, keep)
        slopes, most, stuck = lesson.follow(steps, layers, keep)
        assert stuck == ("", "") and most == lesson.most_alive([1] * layers, keep)
        assert sum(kind == RECOMPUTE for kind, _ in steps) == lesson.computed_again(keep)
        draw = np.random.default_rng(803)
        w, x = draw.uniform(0.5, 1.5, layers), [draw.standard_normal(16)]
        for weight in w:
            x.append(np.tanh(x[-1] * weight))
        slope = np.ones(16)
        for i in reversed(range(layers)):
            slope = slope * (1 - x[i + 1] ** 2)
            assert slopes[i] == pytest.approx((slope * x[i]).sum(), rel=1e-3, abs=1e-4)
            slope = slope * w[i]


def test_the_budget_is_what_the_lesson_s_chain_takes(
    names_of: Callable[[str], Names], solution: Callable[[str], tuple[Any, ...]]
) -> None:
    names, (keep_for,) = names_of("08"), solution("08.5")
    keep = keep_for(lesson.LAYERS, lesson.ROOM)
    again = lesson.computed_again(keep)
    assert again == lesson._best_even(lesson.LAYERS, lesson.ROOM) == 14
    steps = lesson._listed(lesson.LAYERS, keep)
    small = IPUModel(tiles_per_ipu=13, memory_bytes_per_tile=lesson.MEMORY).create_device()
    _, report = names["chain"](steps, lesson.LAYERS, lesson.NUMBERS, small)
    assert report.total_cycles == lesson.chain_cycles(lesson.LAYERS, again, lesson.NUMBERS)
    assert report.total_cycles < 1.25 * lesson.chain_cycles(lesson.LAYERS, 0, lesson.NUMBERS)
    assert lesson.MEMORY == 75_000  # as the notebook has it


def test_the_machine_has_room_for_so_many_inputs_and_no_more() -> None:
    def run(layers: int) -> None:
        steps = lesson._listed(layers, range(layers))
        lesson._ran(steps, layers, lesson.NUMBERS, lesson.MEMORY)

    run(lesson.ROOM)
    with pytest.raises(GraphMemoryAllocationError):
        run(lesson.ROOM + 1)


def test_dropout_keeps_about_a_half_with_every_seed(
    solution: Callable[[str], tuple[Any, ...]],
) -> None:
    ran = lesson._dropping("drop").of(*solution("08.6"))
    shares = [float((run[f"result {k}"] != 0).mean()) for run in ran.came for k in range(6)]
    assert all(abs(share - 0.5) < 0.07 for share in shares) and len(set(shares)) > 2
