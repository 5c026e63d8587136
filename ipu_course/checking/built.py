"""Implement built(), which returns the learner's answer to an exercise of an earlier lesson.

When an answer passes, its source text is stored with the learner's progress, together with
everything that it needs from its notebook. A stored text may be outdated, damaged or edited.
Therefore built() checks it again before returning it. If it fails, built() prints why and returns a
replacement.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any

from ipu_course.checking import judging, learner_calls
from ipu_course.checking.calling import answering
from ipu_course.checking.exercise import Exercise, find_exercise, refuse_other_kinds
from ipu_course.checking.mistakes import given_to
from ipu_course.checking.printed import first_lines
from ipu_course.checking.quoting import name_of, shown_text
from ipu_course.checking.shared import LONGEST_KEPT, last_name
from ipu_course.checking.state import learned
from ipu_course.checking.verdicts import Kind, Passed

# The kinds of statements that `shared.alone` writes. A text with any other kind was edited.
KEPT = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef, ast.Assign)


def built(name: str, otherwise: Any = None) -> Any:
    """Return your answer to the exercise `name` of any lesson, if one has passed.

    Otherwise return `otherwise`, or the reference answer if `otherwise` is None. A printed line
    says which of them is returned. Your progress does not change.

    :raises UnknownExerciseError: if there is no such exercise, or if the reference answer is needed
        and the solved notebook is not available.
    """
    exercise = find_exercise(name, "built")
    answer = learner_calls.passed_here(name)
    fault = ""
    record = learned().record(name).get("built")
    if answer is None and record is not None:
        answer, fault = _again(exercise, record)
    if answer is not None:
        print(f"{name}: your own answer, which passed.")
        return answer
    stand_in = "the reference answer" if otherwise is None else name_of(otherwise)
    if otherwise is None:
        otherwise = learner_calls.run_reference(name, dict(given_to(name)))[0]
    until = (
        f"because {fault}. When its check passes again, your answer is used"
        if fault
        else "until an answer of yours has passed"
    )
    print(f"{name}: {stand_in}, {until}.")
    return otherwise


def _again(exercise: Exercise, record: object) -> tuple[Any, str]:
    """Return `(answer, "")` if the stored text `record` passes its check again.

    Otherwise return `(None, fault)`, where `fault` says what is wrong with the text.
    """
    answers: list[object] = []

    def judge(text: str) -> Passed:
        with answering("your stored answer"):
            answers.append(_run(exercise.name, text))
        refuse_other_kinds(exercise, tuple(answers))
        return exercise.judge(*answers)

    if not isinstance(record, str) or len(record) > LONGEST_KEPT:
        return None, "your stored answer is damaged"
    with first_lines():
        verdict = judging.judged(judge, (record,), exercise.name)
    if verdict.kind is Kind.PASSED:
        return answers[0], ""
    actual = dict(verdict.rows).get("came", "")
    return None, f"your stored answer does not pass now ({shown_text(actual)})"


def _run(name: str, text: str) -> Any:
    """Run a stored text and return the last object that it defines.

    The text may raise any exception.
    """
    tree = ast.parse(text)
    if not all(isinstance(node, KEPT) for node in tree.body):
        raise ValueError("the text does not have the form that check() stores")
    path = f"<built {name}>"
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    names = {"__name__": "__main__"}
    exec(compile(tree, path, "exec"), names)
    return names[last_name(tree)]
