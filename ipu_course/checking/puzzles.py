"""Define puzzle(): a learner who is stuck puts the lines of a right answer in order.

A few wrong lines are among them. `puzzle("02.1")` shows the lines as text. If a kernel runs, it
also shows them as a list that can be rearranged with the keyboard alone. `puzzle("02.1", "c a d
b")` tries an order. No order is stored as the right one: the lines become a function, and the
exercise's check decides. Solving a puzzle counts as solving with help.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from html import escape
from io import StringIO
from textwrap import dedent
from token import NEWLINE
from tokenize import generate_tokens
from typing import TYPE_CHECKING

import numpy as np

from ipu_course.checking.exercise import REFUSALS, Exercise, find_exercise
from ipu_course.checking.gaps import Names, Reference, gaps_in, reference
from ipu_course.checking.learner_calls import (
    SIGNS,
    Verdict,
    complete_reference,
    judged,
    refusals,
    run_cell,
)
from ipu_course.checking.state import Record, learned
from ipu_course.checking.verdict_panel import FRAME, Panel
from ipu_course.checking.verdicts import Kind
from ipu_teach.errors import AnswerKindError, LessonError, counted, shown
from ipu_teach.graph.layouts import is_whole

if TYPE_CHECKING:
    from ipywidgets import Widget

# An order of lines: the letters of the lines, or their numbers, which are 1-based.
Order = str | Sequence[str | int]
LETTERS = "abcdefghijklmnopqrstuvwxyz"
HELPED = "with help"
LEAST = 3  # The minimum number of lines in an answer; a shorter answer has no puzzle.


def statements_of(answer: str) -> list[str]:
    """Return the statements of an answer; a statement may have several lines.

    A comment belongs to the statement below it.
    """
    lines = answer.splitlines()
    statements: list[str] = []
    first = 0
    for token in generate_tokens(StringIO(dedent(answer) + "\n").readline):
        if token.type == NEWLINE:
            statements.append(
                "\n".join(line for line in lines[first : token.end[0]] if line.strip())
            )
            first = token.end[0]
    return statements


class Puzzle:
    """The lines of an exercise's puzzle; a notebook shows them as a list that can be rearranged.

    `lines` has the lines of code in the order in which they are shown.
    """

    def __init__(self, exercise: Exercise, names: Names) -> None:
        self.exercise = exercise
        self.names = names
        self.reference = complete_reference(exercise.name, names)
        (gap,) = gaps_in(self.reference.cell)
        right = statements_of(gap.answer)
        wrong = []
        for decoy, instead in exercise.decoys:
            like = next(line for line in right if line.strip() == instead)
            wrong.append(like[: len(like) - len(instead)] + decoy)
        self.wrong = len(wrong)
        both = right + wrong
        draw = np.random.default_rng([ord(sign) for sign in exercise.name])
        self.lines = [both[i] for i in draw.permutation(len(both))]
        cell = self.reference.cell.splitlines()
        self.above = cell[: gap.first]
        self.below = cell[gap.last + 1 :]
        self.indent = gap.indent

    @property
    def heading(self) -> str:
        return f"{self.exercise.name} {self.exercise.title}: a puzzle"

    @property
    def about(self) -> str:
        """The text for the learner with the number of lines and how many of them are wrong."""
        return (
            f"{counted(len(self.lines), 'line')}. {self.wrong} of them come from wrong "
            "answers: leave them out."
        )

    def __repr__(self) -> str:
        call = f'puzzle("{self.exercise.name}", "b a …")'
        rows = (
            ("about", self.about),
            ("above", "\n".join(f"    {line}" for line in self.above if line.strip())),
            (
                "lines",
                "\n".join(
                    f" {letter}  {line}".replace("\n", "\n    ")
                    for letter, line in zip(LETTERS, self.lines, strict=False)
                ),
            ),
            ("next", f"give the letters in the order that you think right: {call}."),
        )
        return repr(Panel(self.heading, "→", rows))

    def _repr_html_(self) -> str:
        return (
            f'<div class="ipu-view stored" style="{FRAME}"><pre '
            f'style="overflow:auto;margin:0">{escape(repr(self))}</pre></div>'
        )

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/plain": repr(self), "text/html": self._repr_html_()}, raw=True)
        live: dict[str, object] = {}
        with suppress(ImportError):  # Without the extra `lab`, there is only the text form.
            import ipywidgets

            live = dict(ipywidgets.Box([widget(self)])._repr_mimebundle_())
        if live:
            offer = "Where a kernel runs, the lines can be moved with the arrow keys."
            display(live | {"text/plain": offer}, raw=True)

    def tried(self, order: Iterable[int]) -> Verdict:
        """Return the verdict on the lines with the indices `order`, in that order."""
        lines = [self.lines[place] for place in order] or [f"{self.indent}..."]
        cell = "\n".join([*self.above, *lines, *self.below])
        try:
            compile(cell, "<puzzle>", "exec")
        except SyntaxError as error:
            actual = f"{type(error).__name__}: {error.msg}" + (
                f", at {error.text.strip()!r}" if error.text else ""
            )
            why = (
                "in this order the lines are not valid Python: an indented line must follow a line "
                "that ends in a colon."
            )
            rows = (("came", actual), ("why", why))
            return self._verdict(Verdict("", rows=rows, kind=Kind.NOT_YET))
        filled = Reference(self.reference.path, cell, self.reference.answers)
        verdict = judged(
            self.exercise, run_cell(filled, f"<puzzle {self.exercise.name}>", self.names)
        )
        if verdict:
            learned().change(self.exercise.name, _as_helped)
        return self._verdict(verdict)

    def _verdict(self, verdict: Verdict) -> Verdict:
        """Return the verdict of a check as a verdict on a puzzle, with another heading.

        If the puzzle is solved, a next step is added. If no lines are in order yet, a next step
        replaces all rows.
        """
        message = "solved, with help" if verdict else "not yet in order"
        rows = verdict.rows
        if verdict:
            rows = (
                *rows,
                (
                    "next",
                    f'write it once more without looking: check("{self.exercise.name}", …) counts '
                    "that as solved.",
                ),
            )
        elif verdict.kind is Kind.NOT_ATTEMPTED:
            rows = (("next", "put some lines in order first."),)
        return Verdict(
            f"{self.exercise.name} {self.exercise.title}: {message}",
            SIGNS[verdict.kind],
            rows=rows,
            bars=verdict.bars,
            picture=verdict.picture,
            kind=verdict.kind,
        )


def puzzle(name: str, order: Order | None = None) -> Puzzle | Panel:
    """Return the puzzle of an exercise, or the verdict on an order of its lines.

    The result is the puzzle if `order` is None. Otherwise, `order` lists the letters of the lines,
    such as "c a d b", or their 1-based numbers, such as [3, 1, 4, 2]. A puzzle opens after three
    attempts that were wrong or had an error.

    :raises UnknownExerciseError: if there is no such exercise.

    :raises LessonError: if the lesson's earlier cells have not been run.

    :raises AnswerKindError: if `order` is not an order of lines.
    """
    exercise = find_exercise(name, "puzzle")
    head = f"{name} {exercise.title}: a puzzle"
    if not exercise.decoys:
        return Panel(
            f"{head} does not fit",
            "○",
            (("next", f'its answer is {_short_of(name)}. hint("{name}") helps.'),),
        )
    remaining = REFUSALS - refusals(learned().record(name))
    if remaining > 0:
        rows = (
            (
                "next",
                f"it opens after {counted(remaining, 'more wrong answer')}; until then "
                f'hint("{name}") helps.',
            ),
        )
        return Panel(f"{head} for later", "○", rows)
    shuffled = Puzzle(exercise, sys._getframe(1).f_globals)
    if order is None:
        return shuffled
    return shuffled.tried(_places(name, order, len(shuffled.lines)))


def _short_of(name: str) -> str:
    """Return why an exercise has no puzzle, as the end of the sentence "its answer is …".

    Either its answer is too short, or any program can be an answer.
    """
    (gap,) = gaps_in(reference(name).cell)
    lines = len(statements_of(gap.answer))
    return counted(lines, "line") if lines < LEAST else "a program of your own choice"


def _places(name: str, order: Order, count: int) -> list[int]:
    """Return an order of lines as their indices; `count` is the number of lines of the puzzle.

    :raises AnswerKindError: if `order` is not an order of lines.
    """
    parts: list[str | int] = []
    if isinstance(order, str):
        parts = re.findall(r"\d+|[^\W\d_]", order)
    elif isinstance(order, (list, tuple, np.ndarray)):
        parts = list(order)
    places = [
        LETTERS.find(p.lower()) if isinstance(p, str) and not p.isdecimal() else _number(p)
        for p in parts
    ]
    if (
        not places
        or not all(0 <= place < count for place in places)
        or len(set(places)) < len(places)
    ):
        raise AnswerKindError(
            f"puzzle({name!r}) was given {shown(order)}, which is not an order of its lines.",
            next_step=(
                f"give letters from a to {LETTERS[count - 1]}, or numbers from 1 to {count}, each "
                "once at most."
            ),
        )
    return places


def _number(part: str | int) -> int:
    return int(part) - 1 if isinstance(part, str) and len(part) < 4 or is_whole(part) else -1


def _as_helped(record: Record) -> None:
    if record.get("state") != "solved":
        record["state"] = HELPED


def widget(shuffled: Puzzle) -> Widget:
    """Return an anywidget that shows the lines of a puzzle as a list that can be rearranged."""
    import anywidget
    import traitlets

    from ipu_teach.show.view import own_script

    class ShuffledLines(anywidget.AnyWidget):
        _esm = own_script("puzzle")
        heading = traitlets.Unicode().tag(sync=True)
        about = traitlets.Unicode().tag(sync=True)
        above = traitlets.Unicode().tag(sync=True)
        lines: traitlets.List[str] = traitlets.List().tag(sync=True)
        # (number of attempts, indices of the lines in the order that the learner tried)
        tried: traitlets.List[str] = traitlets.List().tag(sync=True)
        verdict = traitlets.Unicode().tag(sync=True)

    shown_ = ShuffledLines(
        heading=shuffled.heading,
        about=shuffled.about,
        above="\n".join(shuffled.above),
        lines=shuffled.lines,
    )

    def answer(change: Mapping[str, tuple[int, list[int]]]) -> None:
        try:
            number, order = change["new"]
            places = [place + 1 for place in order]
            verdict = shuffled.tried(_places(shuffled.exercise.name, places, len(shuffled.lines)))
            message = verdict._repr_html_()
        except LessonError as error:
            number = 0
            message = f'<pre role="alert" style="white-space:pre-wrap">{escape(str(error))}</pre>'
        # The number makes each string different, because an equal string would not update the view.
        shown_.verdict = f"<!-- {number} -->{message}"

    shown_.observe(answer, "tried")
    return shown_
