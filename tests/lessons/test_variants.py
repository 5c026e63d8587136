"""Mistakes written otherwise than in the lessons' files get the same reason.

An answer of a lesson's file always matches itself. So `variants_NN.py`, which has the same form,
has the same mistakes with other loops, names and builds; `# like:` says which each is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path

import pytest
from answers import Names
from test_exercises import verdict_on
from wrong import WRONG

from ipu_teach.lessons import mistakes
from ipu_teach.lessons.exercise import catalogue
from ipu_teach.lessons.mistakes import Mistake
from ipu_teach.lessons.naming import lesson_of

VARIANTS = [
    variant
    for path in sorted(Path(__file__).parent.glob("variants_*.py"))
    for variant in mistakes.read(path)
]
ENOUGH = 12  # of a lesson


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda v: f"{v.exercise} {v.about}")
def test_a_mistake_written_otherwise_gets_the_same_reason(
    variant: Mistake, names_of: Callable[[str], Names]
) -> None:
    (known,) = (
        wrong
        for wrong in WRONG
        if (wrong.exercise, wrong.about) == (variant.exercise, variant.says)
    )
    assert ast.dump(ast.parse(variant.code)) != ast.dump(ast.parse(known.code))
    its = dict(verdict_on(known, names_of).rows)
    hers = dict(
        verdict_on(variant, lambda lesson: names_of(lesson) | mistakes.given(variant.path)).rows
    )
    assert its["why"] and (hers.get("why"), hers.get("next")) == (its["why"], its["next"])


@pytest.mark.parametrize("lesson", [lesson.number for lesson in catalogue()])
def test_every_lesson_has_enough_of_them(lesson: str) -> None:
    found = sum(lesson_of(variant.exercise) == lesson for variant in VARIANTS)
    assert found >= ENOUGH, f"{ENOUGH} or more in tests/lessons/variants_{lesson}.py"
