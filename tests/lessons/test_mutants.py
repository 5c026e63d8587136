"""The checks themselves are tried: small damage to a reference answer must not pass, unless it
changes nothing. A few in each lesson here, all of them by `run.py mutants`."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest
from answers import EXERCISES, Names
from mutants import HARMLESS, damaged, survivors

from ipu_course.checking.exercise import Exercise, catalogue
from ipu_course.checking.gaps import reference
from ipu_course.checking.naming import lesson_of

# An exercise of each lesson. Continuous integration tries all damage of all exercises.
SAMPLE = (
    *("00.1", "01.2", "02.1", "03.2", "04.3", "05.3", "06.4", "07.2", "07b.5", "08.2", "09.6"),
    *("10.2", "11.2", "12.2", "13.2", "14.2", "15.3", "16.3"),
)


@pytest.mark.parametrize("name", SAMPLE)
def test_damage_does_not_pass(name: str, names_of: Callable[[str], Names]) -> None:
    tried, passed = survivors(name, names_of(lesson_of(name)), most=4)
    assert set(passed) <= set(HARMLESS.get(name, {}))
    assert tried.total() >= 3


def test_the_sample_has_an_exercise_of_each_lesson() -> None:
    assert [lesson_of(name) for name in SAMPLE] == [lesson.number for lesson in catalogue()]
    assert {*SAMPLE, *HARMLESS} <= {exercise.name for exercise in EXERCISES}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_an_answer_can_be_damaged(exercise: Exercise) -> None:
    """A warm-up may be too short."""
    damage = damaged(reference(exercise.name).cell)
    assert len(list(islice(damage, 3))) == 3 or ".w" in exercise.name


def test_every_kind_of_damage_is_done() -> None:
    source = """
for i in range(n):
    a[i] = max(b[1:], 2) - c.T if i < 3 else -d
    f(x, y, z=True)
    g.add(Sequence(p, q))
if not e:
    s += u.transpose() @ v
"""
    found = {(kind, line) for kind, line, _ in damaged(source)}
    assert found >= {
        ("bound", "for i in range(n + 1):"),
        ("bound", "a[i] = max(b[1:], 2) - c.T if i <= 3 else -d"),
        ("bound", "a[i] = max(b[1 - 1:], 2) - c.T if i < 3 else -d"),
        ("constant", "a[i] = max(b[2:], 2) - c.T if i < 3 else -d"),
        ("constant", "f(x, y, z=False)"),
        ("operator", "a[i] = min(b[1:], 2) - c.T if i < 3 else -d"),
        ("operator", "a[i] = max(b[1:], 2) + c.T if i < 3 else -d"),
        ("operator", "a[i] = max(b[1:], 2) - c.T if i < 3 else d"),
        ("operator", "if e:"),
        ("order", "a[i] = c.T - max(b[1:], 2) if i < 3 else -d"),
        ("order", "f(y, x, z=True)"),
        ("order", "s += v @ u.transpose()"),
        ("left out", "f(x, y)"),
        ("left out", "s += u @ v"),
        ("left out", "a[i] = max(b[1:], 2) - c if i < 3 else -d"),
        ("left out", "if False:"),
        ("left out", "pass"),
        ("programs swapped", "g.add(Sequence(q, p))"),
        ("programs swapped", "g.add(Sequence(p, q))"),
    }
