"""The checks themselves are tried: small damage to a reference answer must not pass, unless it
changes nothing. A few of each here, all of them by `run.py mutants`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from answers import EXERCISES, Names
from mutants import HARMLESS, damaged, survivors

from ipu_course.checking.exercise import Exercise
from ipu_course.checking.naming import lesson_of


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_damage_does_not_pass(exercise: Exercise, names_of: Callable[[str], Names]) -> None:
    tried, passed = survivors(exercise.name, names_of(lesson_of(exercise.name)), most=4)
    assert set(passed) <= set(HARMLESS.get(exercise.name, {}))
    assert tried.total() >= 3 or ".w" in exercise.name  # which may be too short to damage


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
