"""Implement solution(), which shows the reference answer next to the learner's answer.

The reference answer is shown only after the learner's answer has passed its check. Below it are two
texts from the lesson's `words.md`: `because` says why the answer is right, and `further` is a
remark that goes beyond the exercise.
"""

from __future__ import annotations

from ipu_course.checking import learner_calls
from ipu_course.checking.exercise import find_exercise
from ipu_course.checking.gaps import MARK, reference
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.shared import text_of
from ipu_course.checking.state import learned
from ipu_course.checking.verdict_panel import Panel
from ipu_course.checking.words import text, words as words_of
from ipu_teach.errors import UnknownExerciseError

# In these states the learner has solved the exercise, and may see the reference answer.
BEYOND = ("solved", "with help")


def solution(name: str) -> Panel:
    """Return a panel with your passed answer, the reference answer and why it is right.

    If no answer has passed yet, the panel says instead what to do first. If the solved notebook is
    not available, the panel's heading says so.

    :raises UnknownExerciseError: if there is no such exercise.
    """
    exercise = find_exercise(name, "solution")
    head = f"{name} {exercise.title}"
    answer = learner_calls.passed_here(name)
    if answer is None and learned().record(name).get("state") not in BEYOND:
        way = (
            f'pass check("{name}", …) first. hint("{name}") helps; given("{name}") gives you the '
            "reference answer to continue with."
        )
        return Panel(f"{head}: the reference answer, later", "○", (("next", way),))
    try:
        cell = reference(name).cell
    except UnknownExerciseError:
        return Panel(f"{head}: the solved notebook of this lesson is missing.", "○")
    lines = (line for line in cell.strip().splitlines() if not MARK.search(line))
    record = learned().record(name).get("built")
    again = "it passed in an earlier session: run its cell and its check again."
    earlier = record.rstrip() if isinstance(record, str) else again
    code = (
        ("yours", earlier if answer is None else _text(answer)),
        ("the reference", "\n".join(lines)),
    )
    why, thought = words(lesson_of(name)).get(name, ("", ""))
    rows = tuple((label, text) for label, text in (("why", why), ("thought", thought)) if text)
    return Panel(f"{head}: next to the reference answer", "=", rows, code=code)


def _text(answer: object) -> str:
    """Return the source text of a function or class, and the repr of any other answer."""
    if not callable(answer):
        return repr(answer)
    try:
        return text_of(answer)
    except Exception:  # The function has no source file, or it is a C function.
        return "its code cannot be read."


def words(lesson: str) -> dict[str, tuple[str, str]]:
    """Return {exercise: (because, further)} for the exercises of a lesson that have these texts.

    `because` says why the reference answer is right, and `further` is a remark that goes beyond the
    exercise.
    """
    return {
        key.split()[1]: (text(entries, "because"), text(entries, "further"))
        for key, entries in words_of(lesson).items()
        if "because" in entries
    }
