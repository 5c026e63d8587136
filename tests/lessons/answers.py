"""The cells and definitions of the solved lessons, and the verdicts on answers that run among them."""

from __future__ import annotations

import io
import linecache
from collections.abc import Callable
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from quoted_calls import refuse_untrue_calls

from ipu_course import check
from ipu_course.checking.exercise import catalogue
from ipu_course.checking.gaps import read_notebook, reference, source_of, without_check
from ipu_course.checking.learner import learners_form
from ipu_course.checking.learner_calls import Kind, Verdict
from ipu_course.checking.mistakes import Mistake, given
from ipu_course.checking.naming import lesson_of
from ipu_course.classroom.replay import definitions as defined_in

SOLUTIONS = Path(__file__).resolve().parents[2] / "notebooks" / "solutions"
EXERCISES = [exercise for lesson in catalogue() for exercise in lesson.exercises]

Names = dict[str, Any]
NamesOf = Callable[[str], Names]  # from the number of a lesson


def blank_cell(exercise: str) -> str:
    """The cell of an exercise's gap, as a learner gets it."""
    (path,) = SOLUTIONS.glob(f"{lesson_of(exercise)}_*.ipynb")
    solved = read_notebook(path)
    answers = [
        without_check(source_of(cell)) if cell["cell_type"] == "code" else ""
        for cell in solved["cells"]
    ]
    number = answers.index(reference(exercise).cell)
    return without_check(source_of(learners_form(solved)["cells"][number]))


@cache
def definitions(lesson: str) -> Names:
    """What the cells of a solved lesson define, as the replay of a shared answer finds it."""
    (path,) = SOLUTIONS.glob(f"{lesson}_*.ipynb")
    with redirect_stdout(io.StringIO()):
        return defined_in(path)


def run_cell(code: str, names: Names, exercise: str) -> tuple[Any, ...]:
    """Run the code of a gap's cell as a notebook would; the answers that its check is given."""
    file = "<an answer>"
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)
    exec(compile(code, file, "exec"), names)
    return tuple(eval(answer, names) for answer in reference(exercise).answers)


def verdict_on(answer: Mistake, names_of: NamesOf) -> Verdict:
    """Return the verdict on a known answer, run among the names that its lesson defines.

    A mistake written in another way also has the names of the first cell of its file. The calls
    that the verdict quotes must be valid Python, and must give what it shows.
    """
    names = names_of(lesson_of(answer.exercise))
    if answer.kind == "like":
        names |= given(answer.path)
    answers = run_cell(answer.code, names, answer.exercise)
    verdict = check(answer.exercise, *answers)
    if callable(answers[0]) and verdict.kind is not Kind.PASSED:
        refuse_untrue_calls(verdict, answers[0], names)
    return verdict
