"""The steps of a scripted learner in a lesson, and how long people take for them.

Reading is 200 words a minute, a warm-up two minutes and a prediction one. The exercises share the
remaining minutes of the lesson.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipu_course.checking.exercise import catalogue
from ipu_course.checking.gaps import read_notebook, reference, source_of, without_check
from ipu_course.checking.mistakes import all_mistakes

ROOT = Path(__file__).resolve().parents[2]

WORDS = 200.0  # words read in a minute
WARM_UP, PREDICTION = 2.0, 1.0  # minutes


@dataclass(frozen=True)
class Step:
    """A cell that is run: its number, its code, the minutes before it, and its exercise or ""."""

    cell: int
    code: str
    minutes: float
    exercise: str = ""
    right: bool = True


def solved(lesson: str) -> Path:
    """Return the solved notebook of a lesson."""
    (path,) = (ROOT / "notebooks" / "solutions").glob(f"{lesson}_*.ipynb")
    return path


def exercises(lesson: str) -> tuple[str, ...]:
    """Return the exercises of a lesson, in order."""
    return next(
        tuple(one.name for one in found.exercises)
        for found in catalogue()
        if found.number == lesson
    )


def wrongs(exercise: str) -> list[str]:
    """Return the code of wrong answers to an exercise that are refused with a reason, in order."""
    return [
        one.code for one in all_mistakes() if one.exercise == exercise and one.kind == "not yet"
    ]


def steps(lesson: str, wrong_first: int = 1) -> Iterator[Step]:
    """Yield the steps through a lesson, with `wrong_first` wrong answers before each right one.

    Each answer runs the cell of the gap, and then the cell that checks it.
    """
    cells = read_notebook(solved(lesson))["cells"]
    sources = [source_of(cell) for cell in cells]
    answers = [
        without_check(source) if cell["cell_type"] == "code" else ""
        for cell, source in zip(cells, sources, strict=True)
    ]
    gaps = {answers.index(reference(exercise).cell): exercise for exercise in exercises(lesson)}
    code = [s if c["cell_type"] == "code" else "" for c, s in zip(cells, sources, strict=True)]
    checks = {exercise: _first(code, f'check("{exercise}"') for exercise in gaps.values()}
    asked = {number: exercise for exercise, number in checks.items()}
    minutes, large = 0.0, _minutes_of_an_exercise(lesson, cells)
    for number, source in enumerate(sources):
        if cells[number]["cell_type"] == "markdown":
            minutes += len(source.split()) / WORDS
            continue
        exercise = gaps.get(number, "")
        if exercise:
            tries = wrongs(exercise)[:wrong_first]
            thinking = (WARM_UP if ".w" in exercise else large) / (1 + len(tries))
            asking = checks[exercise]
            for attempt in tries:
                if asking == number:
                    attempt += source.splitlines()[-1]
                yield Step(number, attempt, minutes + thinking, exercise, right=False)
                if asking != number:
                    yield Step(asking, sources[asking], 0.0, exercise, right=False)
                minutes = 0.0
            minutes += thinking
        elif "predict(" in source and "actual=" not in source:
            minutes += PREDICTION
        yield Step(number, source, minutes, exercise or asked.get(number, ""))
        minutes = 0.0


def _minutes_of_an_exercise(lesson: str, cells: list[dict[str, Any]]) -> float:
    """Return the minutes for each exercise: an equal share of what remains."""
    (known,) = (one for one in catalogue() if one.number == lesson)
    words = sum(len(source_of(c).split()) for c in cells if c["cell_type"] == "markdown")
    warm = sum(".w" in exercise.name for exercise in known.exercises)
    large = len(known.exercises) - warm
    asked = sum(
        "predict(" in (s := source_of(c)) and "actual=" not in s
        for c in cells
        if c["cell_type"] == "code"
    )
    return (known.minutes - words / WORDS - WARM_UP * warm - PREDICTION * asked) / large


def _first(sources: list[str], text: str) -> int:
    """Return the number of the first cell with the text at the beginning of a line."""
    return next(number for number, source in enumerate(sources) if f"\n{text}" in f"\n{source}")
