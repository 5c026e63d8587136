"""A check never tries what the learner has to predict: its verdict would give the answer away."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from answers import definitions

from ipu_course import check
from ipu_course.checking.exercise import catalogue
from ipu_course.checking.naming import lesson_of

Call = tuple[Any, ...]

# For each exercise: its function in the solved lesson, and whether a call has the arguments of a
# prediction of the lesson.
PREDICTED: dict[str, tuple[str, Callable[..., bool]]] = {
    # Groups of 4 x 4 weights in panels of 16 x 16.
    "05.5": ("filled", lambda *case: case == (4, 4, 16, 16)),
    # Nine places, and groups of 1, 4 or 16 channels. Only the shape of a group matters.
    "07b.5": (
        "busy",
        lambda places, ins, outs, groups: (
            places == 9 and ins // groups == outs // groups and ins // groups in (1, 4, 16)
        ),
    ),
    # Four stages, and 4 or 16 micro-batches.
    "10.1": ("table", lambda stages, batches: stages == 4 and batches in (4, 16)),
    # Ten steps of 0.4 on a grid of 0.25.
    "11.2": ("after", lambda step, grid, times: (step, grid) == (0.4, 0.25)),
    # 1,024 x 1,024 by 1,024 x 1,024.
    "12.3": ("break_even", lambda size, n, block: (size, n) == (1024, 1024)),
    # A plate of 192 x 192 on 64 tiles.
    "14.2": ("cut", lambda *case: case == (192, 192, 64)),
    # 24 x 24 pixels on 16 tiles.
    "15.4": ("place", lambda height, width, tiles, most: (height, width, tiles) == (24, 24, 16)),
}


@pytest.mark.parametrize("exercise", PREDICTED)
def test_no_check_tries_what_is_predicted(exercise: str) -> None:
    name, is_predicted = PREDICTED[exercise]
    answer = definitions(lesson_of(exercise))[name]
    calls: list[Call] = []

    @wraps(answer)
    def noted(*arguments: Any) -> Any:
        calls.append(arguments)
        return answer(*arguments)

    assert check(exercise, noted)
    assert calls and not [call for call in calls if is_predicted(*call)]


def test_no_hint_has_the_numbers_of_the_first_guess() -> None:
    hints = [
        hint
        for lesson in catalogue()
        for exercise in lesson.exercises
        if exercise.name in ("11.w1", "11.1", "11.2")
        for hint in exercise.hints
    ]
    assert hints and not any("0.25" in hint and "0.4" in hint for hint in hints)
