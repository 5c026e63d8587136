"""The exercises' tests have a work folder of their own, and the solved lessons' definitions to
build answers with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from answers import Names, definitions

from ipu_course.checking import learner_calls
from ipu_course.checking.naming import lesson_of


@pytest.fixture(scope="session")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Paths for work folders, which do not exist yet.

    `tmp_path` would make a folder for each of thousands of tests, and look at all earlier ones.
    """
    folder = tmp_path_factory.mktemp("desks")
    return (folder / f"work-{number}" for number in count())


@pytest.fixture(autouse=True)
def fresh_desk(desks: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No progress yet, and nothing passed or handed out in this process."""
    desk = next(desks)
    monkeypatch.setenv("IPU_TEACH_WORK", str(desk))
    monkeypatch.setattr(learner_calls, "_passed", {})
    monkeypatch.setattr(learner_calls, "_handed_out", {})
    monkeypatch.setattr(learner_calls, "_shared", {})
    monkeypatch.setattr(learner_calls, "last_advice", {})
    return desk


@pytest.fixture
def names_of() -> Callable[[str], Names]:
    """The definitions of a solved lesson, as a dict of one's own."""
    return lambda lesson: dict(definitions(lesson))


@pytest.fixture
def solution() -> Callable[[str], tuple[Any, ...]]:
    """The reference answers of an exercise, run among its lesson's definitions."""

    def answers(exercise: str) -> tuple[Any, ...]:
        return learner_calls.run_reference(exercise, dict(definitions(lesson_of(exercise))))

    return answers
