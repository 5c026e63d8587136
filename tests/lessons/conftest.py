"""The exercises' tests have a work folder of their own, and the solved lessons' definitions to
build answers with."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answers import Names, definitions

from ipu_course.checking import learner_calls
from ipu_course.checking.naming import lesson_of


@pytest.fixture(autouse=True)
def fresh_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No progress yet, and nothing passed or handed out in this process."""
    monkeypatch.setenv("IPU_TEACH_WORK", str(tmp_path / "work"))
    monkeypatch.setattr(learner_calls, "_passed", {})
    monkeypatch.setattr(learner_calls, "_handed_out", {})
    monkeypatch.setattr(learner_calls, "_shared", {})
    return tmp_path / "work"


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
