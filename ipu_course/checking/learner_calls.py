"""Define functions that a learner calls: check, share, verify, hint, predict and given.

Each of them except `given` returns a panel, which the notebook shows below the cell.
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

from ipu_course.checking import judging
from ipu_course.checking.calling import is_blank
from ipu_course.checking.exercise import (
    REFUSALS,
    Exercise,
    Guess,
    Later,
    Question,
    find_exercise,
    find_question,
    refuse_other_kinds,
)
from ipu_course.checking.gaps import Names, Reference, gaps_in, names_needed, reference
from ipu_course.checking.printed import first_lines
from ipu_course.checking.quoting import name_of
from ipu_course.checking.shared import Shared, alone, code_of, parsed
from ipu_course.checking.state import MOST_COUNTED, Record, learned, whole
from ipu_course.checking.verdict_panel import Panel
from ipu_course.checking.verdicts import Kind, Passed
from ipu_teach.errors import AnswerKindError, LessonError, UnknownExerciseError

# The keys of these dicts are names of exercises. The dicts last as long as the kernel.
_passed: dict[str, Any] = {}  # The learner's answers that passed.
_handed_out: dict[str, Any] = {}  # The reference answers that given() returned.
# The results of share() for the answers that passed.
_shared: dict[str, Shared | None] = {}
# The advice of the latest verdict on each exercise, if that verdict refused the answer.
last_advice: dict[str, str] = {}


DONE = ("solved", "with help", "given")  # The states that a further refusal does not change.
MOST_REASONS = 8  # The maximum number of reasons for refusals that are stored for an exercise.
# The heading of the hint that shows the code for the gap.
IN_THE_GAP = "in place of the gap"
# The maximum number of characters of a stored reason.
LONGEST_REASON = 160
SIGNS = {
    Kind.PASSED: "✓",
    Kind.NOT_YET: "✗",
    Kind.NOT_ATTEMPTED: "○",
    Kind.ERROR: "!",
    Kind.UNJUDGED: "?",
    Kind.SHOWN: "→",
}

# The background of the heading if the answer passed. It keeps the heading readable on dark and on
# light pages.
WASH = "#1a985030"
# The colours of a verdict's left edge. They are visible on light and on dark pages.
TINTS = {Kind.PASSED: "#1a9850", Kind.NOT_YET: "#d9830a", Kind.ERROR: "#d1495b"}


@dataclass(frozen=True, repr=False)
class Verdict(Panel):
    """The result of check(); `bool(verdict)` is True if the answer passed."""

    kind: Kind = Kind.NOT_ATTEMPTED
    shared: Shared | None = None

    def __bool__(self) -> bool:
        return self.kind is Kind.PASSED

    @property
    def tint(self) -> str:
        return TINTS.get(self.kind, "")

    @property
    def wash(self) -> str:
        return WASH if self else ""


def check(name: str, *answers: object) -> Verdict:
    """Check an answer to the exercise `name`, as in `check("01.1", superstep_cycles)`.

    The first of `answers` is the learner's answer. In a few exercises, check() takes as a further
    argument an object that the lesson defines.

    The result is a verdict even if the answer raises an error, and an answer that does not end is
    stopped. Only two exceptions are raised: `KeyboardInterrupt` if you interrupt, and
    `UnknownExerciseError` for an unknown name. A notebook shows the verdict if the call is the last
    line of a cell. A script prints it.
    """
    verdict = _tried(name, answers)
    # Interactive shells define sys.ps1. They show the verdict themselves, as the value of the line.
    if sys._getframe(1).f_globals.get("__name__") == "__main__" and not hasattr(sys, "ps1"):
        print(verdict)
    return verdict


def _tried(name: str, answers: tuple[object, ...]) -> Verdict:
    """Return the verdict on an answer, and count the attempt in the learner's progress.

    The reference answer from given() and a blank answer are not counted.
    """
    exercise = find_exercise(name, "check")
    given_out = name in _handed_out and bool(answers) and answers[0] is _handed_out[name]
    with first_lines():
        verdict = judged(exercise, answers)
    if given_out:
        return _not_solved(exercise, verdict)
    last_advice[name] = dict(verdict.rows).get("next", "") if verdict.kind is Kind.NOT_YET else ""
    if verdict:
        _passed[name] = answers[0]
        _shared[name] = verdict.shared
    if verdict.kind is not Kind.NOT_ATTEMPTED:
        text = alone(answers[0]) if verdict and len(answers) == 1 else None
        learned().change(name, lambda record: _count(record, verdict, text))
        return _with_a_way_out(exercise, verdict)
    return verdict


def _not_solved(exercise: Exercise, verdict: Verdict) -> Verdict:
    """Return the verdict on the reference answer from given(), which never counts as solved."""
    if not verdict:
        return verdict
    kind = Kind.SHOWN
    rows = (
        ("came", "this is the reference answer, which passes."),
        ("next", f'write your own; hint("{exercise.name}") helps.'),
    )
    return Verdict(f"{exercise.name} {exercise.title}: {kind.value}", SIGNS[kind], rows, kind=kind)


def refusals(record: Record) -> int:
    """Return the number of attempts at an exercise that were wrong or had an error."""
    kinds = record.get("kinds")
    return (
        sum(whole(kinds.get(kind.value)) for kind in (Kind.NOT_YET, Kind.ERROR))
        if isinstance(kinds, dict)
        else 0
    )


def _with_a_way_out(exercise: Exercise, verdict: Verdict) -> Verdict:
    """Return the verdict, with a row that offers the exercise's puzzle after `REFUSALS` refusals.

    A verdict that passes, or whose exercise has no puzzle, is returned unchanged.
    """
    if verdict or not exercise.decoys or refusals(learned().record(exercise.name)) < REFUSALS:
        return verdict
    text = (
        f'puzzle("{exercise.name}") has the lines of a right answer, shuffled among a few wrong '
        "ones."
    )
    return replace(verdict, rows=(*verdict.rows, ("or", text)))


def _count(record: Record, verdict: Verdict, text: str | None) -> None:
    kind = verdict.kind
    rows = dict(verdict.rows)
    reason = (
        (rows.get("came") or _reason(rows)).split(":")[0]
        if kind is Kind.ERROR
        else shorten(_reason(rows), LONGEST_REASON, placeholder=" …")
    )
    before = record.get("said")
    message = before if isinstance(before, dict) else {}
    if reason and not verdict and (reason in message or len(message) < MOST_REASONS):
        record["said"] = message | {reason: min(whole(message.get(reason)) + 1, MOST_COUNTED)}
    record["attempts"] = min(whole(record.get("attempts")) + 1, MOST_COUNTED)
    before = record.get("kinds")
    kinds = {
        k.value: n
        for k in Kind
        if (n := whole(before.get(k.value) if isinstance(before, dict) else 0))
    }
    record["kinds"] = kinds | {kind.value: min(kinds.get(kind.value, 0) + 1, MOST_COUNTED)}
    if text is not None:
        record["built"] = text
    if kind is Kind.PASSED or record.get("state") not in DONE:
        record["state"] = "solved" if kind is Kind.PASSED else "not yet"


def _reason(rows: dict[str, str]) -> str:
    """Return the first of these rows that has text: reason, actual result, next step, attempt."""
    return next((rows[key] for key in ("why", "came", "next", "tried") if rows.get(key)), "")


def judged(exercise: Exercise, answers: tuple[object, ...]) -> Verdict:
    """Return the verdict on an answer without counting the attempt."""

    def judge(*arguments: object) -> Passed:
        refuse_other_kinds(exercise, arguments)
        return exercise.judge(*arguments)

    verdict = judging.judged(judge, answers, exercise.name)
    kind = verdict.kind
    rows = verdict.rows
    if kind is Kind.NOT_ATTEMPTED:
        rows = (("next", f'fill the gap; hint("{exercise.name}") helps.'),)
    further = exercise.thought if kind is Kind.PASSED else ""
    filled = tuple((label, text) for label, text in (*rows, ("further", further)) if text)
    return Verdict(
        f"{exercise.name} {exercise.title}: {kind.value}",
        SIGNS[kind],
        rows=filled,
        bars=verdict.bars,
        picture=verdict.picture,
        kind=kind,
        shared=verdict.shared,
    )


def share(name: str) -> Panel:
    """Return a panel with one line about your passed answer, which others can verify.

    The line has the name of the exercise, the cost of your answer, and short hashes of your code
    and of the results that the check saw. Anyone who has the line and your code can verify it with
    `verify(line, answer)`.

    :raises UnknownExerciseError: if there is no such exercise.
    """
    exercise = find_exercise(name, "share")
    if name not in _passed:
        rows = (
            ("next", f'check("{name}", …) with an answer of your own that passes; then share it.'),
        )
        return Panel(f"{name} {exercise.title}: nothing to share yet", "○", rows)
    line = _shared.get(name)
    if line is None:
        rows = (
            (
                "next",
                "write your answer in a cell or a file, with def or class: then its code is read.",
            ),
        )
        return Panel(f"{name} {exercise.title}: the code of your answer cannot be read", "○", rows)
    shared = {"line": str(line), "code": code_of(_passed[name])}
    learned().change(name, lambda record: record.update(shared=shared))
    replay = (
        ("line", f" {line}"),
        ("next", f"others can check it with your answer: verify(line, {_called(_passed[name])})."),
    )
    return Panel(f"{name} {exercise.title}: to share", "→", replay)


def _called(answer: object) -> str:
    return name_of(answer) if callable(answer) else "answer"


def verify(line: str, *answers: object) -> Panel:
    """Check that a shared answer passes, and that its cost, results and code are those in `line`.

    `line` is the line of `share`, and `answers` are the arguments that check() takes after the
    name. The attempt is not counted.

    :raises LessonError: if `line` is not a line of `share`.

    :raises UnknownExerciseError: if there is no exercise with the name in the line.
    """
    claimed = parsed(line)
    exercise = find_exercise(claimed.name, "verify")
    head = f"{claimed.name} {exercise.title}"
    verdict = judged(exercise, answers)
    if not verdict:
        return Panel(
            f"{head}: not verified",
            "✗",
            (("came", f"this answer does not pass: {verdict.kind.value}"), *verdict.rows),
        )
    actual = verdict.shared
    pairs = (
        []
        if actual is None
        else [
            (
                "cost",
                f"{claimed.figure} {claimed.unit}".strip(),
                f"{actual.figure} {actual.unit}".strip(),
            ),
            ("what it does", claimed.digest, actual.digest),
            ("the code", claimed.code, actual.code),
        ]
    )
    rows = [
        (label, f"the line has {claim}, but this answer has {found}")
        for label, claim, found in pairs
        if claim != found
    ]
    if actual is not None and not rows:
        cost = f"{actual.figure} {actual.unit}, " if actual.figure else ""
        return Panel(f"{head}: verified", "✓", (("same", f"{cost}what it does, and the code"),))
    return Panel(
        f"{head}: passes, but is not the answer that was shared",
        "✗",
        tuple(rows) or (("code", "it cannot be read"),),
    )


def hint(name: str) -> Panel:
    """Return a panel with the next hint for an exercise and all earlier ones, and count the hint.

    If the last check refused the answer, the panel first repeats the next step of its verdict.

    The last hint is the part of the reference answer's code that fills the gap. There is no such
    hint if the solved notebook is not available.

    :raises UnknownExerciseError: if there is no such exercise.
    """
    exercise = find_exercise(name, "hint")
    code = _code_of_gap(name)
    count = len(exercise.hints) + bool(code)

    def show_one_more(record: Record) -> None:
        record["hints"] = min(whole(record.get("hints")) + 1, count)

    learned().change(name, show_one_more)
    shown_now = whole(learned().record(name).get("hints")) or 1
    rows = [(f"hint {i}", text) for i, text in enumerate(exercise.hints[:shown_now], start=1)]
    if advice := last_advice.get(name):
        rows.insert(0, ("first", f"your last check says: {advice}"))
    if shown_now == count:
        rows.append(
            (
                "then",
                (
                    f'this is the last hint. given("{name}") gives you the reference answer to '
                    "continue with."
                ),
            )
        )
    else:
        message = ", which is code." if code and shown_now == count - 1 else "."
        rows.append(("then", f'hint("{name}") again gives the next{message}'))
    return Panel(
        f"{name} {exercise.title}: hint {shown_now} of {count}",
        "→",
        tuple(rows),
        code=((IN_THE_GAP, code),) if code and shown_now == count else (),
    )


def _code_of_gap(name: str) -> str:
    """Return the reference answer's code that fills the gap; "" without the solved notebook."""
    try:
        (gap,) = gaps_in(reference(name).cell)
    except UnknownExerciseError:
        return ""
    return gap.answer.strip("\n")


_MISSING = object()


def predict(name: str, *values: object, actual: object = _MISSING) -> Panel:
    """Store your prediction before a run, and compare it with the result after the run.

    Before the run: `predict("01.0", 250)`. After it: `predict("01.0", actual=cycles)`. If the
    prediction has several values, pass a tuple or separate arguments.

    The first valid prediction is final. For your progress, it does not matter whether the
    prediction is right. If the value is invalid, nothing is stored, and the panel says which values
    are valid.

    Some predictions of an earlier lesson are asked again with other numbers, as `predict("01.0
    again", …)`. The panel shows the question until you answer it. Then the simulated machine runs
    and shows the actual result.

    :raises UnknownExerciseError: if there is no such prediction.

    :raises AnswerKindError: if `actual` does not have the form of a result, or is given for a
        prediction whose result the machine computes.
    """
    question = find_question(name)
    value = _MISSING if not values else values[0] if len(values) == 1 else values
    if value is not _MISSING and not is_blank(value) and actual is _MISSING:
        try:
            question.guessed(value)
        except AnswerKindError as error:
            fault = (("came", error.tried), ("next", error.next_step))
            question_row = (
                (("asked", question.drawn().asks),) if isinstance(question, Later) else ()
            )
            return Panel(
                f"{name} {question.title}: no prediction yet", "○", (*question_row, *fault)
            )
    if isinstance(question, Later):
        return _asked_again(question, value, actual)
    locked = _locked(question)
    head = f"{name} {question.title}"
    if actual is not _MISSING:
        if not locked:
            return Panel(
                f"{head}: no prediction yet",
                "○",
                (("next", "predict first; then run this cell again."),),
            )
        return _compared(question, f"{head}:", locked, question.values(actual))
    if value is _MISSING or is_blank(value):
        if locked:
            return Panel(f"{head}: locked", "■", (("you guessed", question.said(locked)),))
        return Panel(
            f"{head}: no prediction yet",
            "○",
            (("next", question.asks()),),
        )
    guesses = question.values(value)
    if locked:
        message = (
            "your first guess stays locked, and this one is not counted"
            if locked != guesses
            else "it is locked already"
        )
        return Panel(
            f"{head}: locked", "■", (("you guessed", question.said(locked)), ("kept", message))
        )
    _lock(question, guesses)
    return Panel(
        f"{head}: locked",
        "■",
        (("you guessed", question.said(guesses)), ("next", "now run it and see.")),
    )


def _locked(question: Question) -> tuple[Guess, ...]:
    """Return the stored prediction; () if there is none, or if the stored value is invalid."""
    try:
        return question.values(learned().record(question.name).get("prediction"))
    except AnswerKindError:
        return ()


def _compared(
    question: Question,
    head: str,
    locked: tuple[Guess, ...],
    actual: tuple[Guess, ...],
    *,
    extra_rows: tuple[tuple[str, str], ...] = (),
) -> Panel:
    """Return a panel with the prediction `locked` and the `actual` values, below `extra_rows`.

    `head` is the beginning of the heading.
    """
    rows = (*extra_rows, ("you guessed", question.said(locked)), ("it is", question.said(actual)))
    message = "as you guessed" if locked == actual else "compared"
    return Panel(f"{head} {message}", "=", (*rows, ("why", question.why)))


def _lock(question: Question, values: tuple[Guess, ...]) -> None:
    """Store a prediction for a question, unless the progress file already has one for it."""

    def lock(record: Record) -> None:
        record.setdefault("prediction", list(values))

    learned().change(question.name, lock)


def _asked_again(question: Later, value: object, actual: object) -> Panel:
    """Return the panel of a prediction that a later lesson asks again.

    Without a valid guess, it shows the question. Otherwise it shows the guess next to the result
    that the simulated machine computes.
    """
    drawn = question.drawn()
    locked = _locked(question)
    head = f"{question.name}: {question.title}"
    if actual is not _MISSING:
        raise AnswerKindError(
            f"Prediction {question.name} was given actual=, but the machine computes its answer.",
            next_step="leave actual out.",
        )
    if not locked and (value is _MISSING or is_blank(value)):
        return Panel(
            head,
            "○",
            (("asked", drawn.asks), ("next", question.asks())),
        )
    if not locked:
        locked = question.values(value)
        _lock(question, locked)
    actual_value = question.values(drawn.answer())
    asked = (("asked", drawn.asks),)
    return _compared(question, f"{head},", locked, actual_value, extra_rows=asked)


def passed_here(name: str) -> Any:
    """Return the learner's answer that passed in this kernel; None if no answer passed."""
    return _passed.get(name)


def given(name: str) -> Any:
    """Return an answer to continue the lesson with: yours if it passed, else the reference answer.

    Your answer must have passed since the kernel started. A printed line says which of the two
    answers is returned. If it is the reference answer, `progress()` lists the exercise as given.
    The code of the reference answer is read from the solved notebook. It can use the names that
    your notebook defines.

    :raises UnknownExerciseError: if there is no such exercise, or if the solved notebook is not
        available.

    :raises LessonError: if your notebook has not defined a name that the reference answer needs.
    """
    find_exercise(name, "given")
    if name in _passed:
        print(f"{name}: your own answer, which passed.")
        answer = _passed[name]
    else:
        answer = _handed_out[name] = run_reference(name, sys._getframe(1).f_globals)[0]
        learned().change(name, _as_given)
        print(
            f"{name}: the reference answer, so that the lesson can continue. When your answer "
            "passes, it is used instead."
        )
    return answer


def _as_given(record: Record) -> None:
    if record.get("state") not in DONE:
        record["state"] = "given"


def run_reference(name: str, names: Names) -> tuple[Any, ...]:
    """Run the reference answer of an exercise and return the objects that it passes to check().

    `names` are the names of the notebook, which the code of the answer can use.

    :raises LessonError: if the code needs names that are missing.
    """
    return run_cell(complete_reference(name, names), f"<reference {name}>", names)


def complete_reference(name: str, names: Names) -> Reference:
    """Return the reference of an exercise, after checking that all names it needs are in `names`.

    :raises LessonError: if `names` lacks a name that the reference answer needs.
    """
    reference_found = reference(name)
    missing = sorted(names_needed(reference_found.cell) - names.keys())
    if missing:
        raise LessonError(f"""The reference answer to {name} needs {", ".join(missing)}, which this
            notebook has not defined yet.
            where: {reference_found.path.name}
            next:  run the cells above this one first.""")
    return reference_found


def run_cell(reference_found: Reference, path: str, names: Names) -> tuple[Any, ...]:
    """Run a cell in a copy of `names` and return the objects that it passes to check().

    `path` is the file name in tracebacks.
    """
    # With this entry, an error message can quote the line of the cell that raised the error.
    linecache.cache[path] = (
        len(reference_found.cell),
        None,
        reference_found.cell.splitlines(keepends=True),
        path,
    )
    scope = dict(names)
    exec(compile(reference_found.cell, path, "exec"), scope)
    return tuple(eval(answer, scope) for answer in reference_found.answers)
