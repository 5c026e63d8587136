"""What people do in a lesson, and how long they take: steps of a scripted learner, from the lesson
itself.

Reading is 200 words a minute, a warm-up two minutes and a prediction one; the exercises share what is
left of the lesson's own minutes.
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

WORDS = 200.0  # read in a minute
WARM_UP, PREDICTION = 2.0, 1.0  # minutes


@dataclass(frozen=True)
class Step:
    """One cell that is run: its number, its code, minutes of people before it, and the exercise
    that it belongs to, or ""."""

    cell: int
    code: str
    minutes: float
    exercise: str = ""
    right: bool = True


def solved(lesson: str) -> Path:
    """The solved notebook of a lesson."""
    (path,) = (ROOT / "notebooks" / "solutions").glob(f"{lesson}_*.ipynb")
    return path


def exercises(lesson: str) -> tuple[str, ...]:
    """The exercises of a lesson, in order."""
    return next(
        tuple(one.name for one in found.exercises)
        for found in catalogue()
        if found.number == lesson
    )


def wrongs(exercise: str) -> list[str]:
    """Code of wrong answers to an exercise: those that are refused with a reason, in their
    order."""
    return [
        one.code for one in all_mistakes() if one.exercise == exercise and one.kind == "not yet"
    ]


def steps(lesson: str, wrong_first: int = 1) -> Iterator[Step]:
    """The steps of one who does a whole lesson, with so many wrong answers before each right one.

    Each answer runs the cell of the gap, and then the cell that checks it.
    """
    cells = read_notebook(solved(lesson))["cells"]
    sources = [source_of(cell) for cell in cells]
    answers = [
        without_check(source) if cell["cell_type"] == "code" else ""
        for cell, source in zip(cells, sources, strict=True)
    ]
    gaps = {answers.index(reference(exercise).cell): exercise for exercise in exercises(lesson)}
    checks = {exercise: _first(sources, f'check("{exercise}"') for exercise in gaps.values()}
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
            for code in tries:
                if asking == number:
                    code += source.splitlines()[-1]
                yield Step(number, code, minutes + thinking, exercise, right=False)
                if asking != number:
                    yield Step(asking, sources[asking], 0.0, exercise, right=False)
                minutes = 0.0
            minutes += thinking
        elif "predict(" in source and "actual=" not in source:
            minutes += PREDICTION
        yield Step(number, source, minutes, exercise or asked.get(number, ""))
        minutes = 0.0


def _minutes_of_an_exercise(lesson: str, cells: list[dict[str, Any]]) -> float:
    """What is left of a lesson's minutes for each of its exercises."""
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
    """The first cell that holds a text at the beginning of a line."""
    return next(number for number, source in enumerate(sources) if f"\n{text}" in f"\n{source}")
