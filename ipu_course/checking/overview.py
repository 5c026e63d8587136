"""Implement progress(), which shows the learner's progress as a table."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from ipu_course.checking.exercise import Question, asked_again_in, catalogue
from ipu_course.checking.naming import lesson_meant
from ipu_course.checking.state import Record, learned, whole
from ipu_course.checking.verdict_panel import FRAME, LABEL, VALUE, aligned
from ipu_teach.errors import LessonError, UnknownExerciseError, counted, shown

HEADS = ("exercise", "about", "done", "attempts", "hints")
OPEN = "–"
LONGEST_NAME = 60  # The maximum number of characters of a name.
PREDICTED = "✓ predicted"
SIGNS = {
    "solved": "✓ solved",
    "with help": "✓ with help",
    "given": "→ given",
    "not yet": "✗ not yet",
}


@dataclass(frozen=True, repr=False)
class Overview:
    """A table of exercises and predictions: (name, title, state, attempts, hints)."""

    caption: str
    rows: tuple[tuple[str, ...], ...]

    def __repr__(self) -> str:
        return "\n".join([self.caption, *aligned((HEADS, *self.rows))])

    def _repr_html_(self) -> str:
        heads = "".join(f'<th scope="col" style="{LABEL}">{head}</th>' for head in HEADS)
        body = ""
        for name, *rest in self.rows:
            cells = "".join(f'<td style="{VALUE}">{escape(part)}</td>' for part in rest)
            body += f'<tr><th scope="row" style="{LABEL}">{escape(name)}</th>{cells}</tr>'
        caption = (
            "<caption "
            f'style="text-align:left;font-weight:600;caption-side:top">{escape(self.caption)}</caption>'
        )
        table = f"{caption}<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
        table = f'<table style="border-collapse:collapse;color:inherit">{table}</table>'
        return f'<div class="ipu-view" style="{FRAME}">{table}</div>'


def progress(lesson: str | int | None = None, *, name: str | None = None) -> Overview:
    """Return a table of the learner's progress in all lessons, or in one: `progress("01")`.

    `name` is the name by which your class knows you. It is stored with the progress.

    :raises UnknownExerciseError: if there is no such lesson, or it has no exercises.

    :raises LessonError: if `name` cannot be used as a name.
    """
    if name is not None:
        if (
            not isinstance(name, str)
            or not name.strip()
            or not name.isprintable()
            or len(name) > LONGEST_NAME
        ):
            raise LessonError(f"""progress() was given the name {shown(name)}.
                next:  give one line of text, at most {LONGEST_NAME} characters, such as
                progress(name="Ada").""")
        learned().call(name.strip())
    chosen = [
        known
        for known in catalogue()
        if lesson is None or lesson_meant(str(lesson)) == known.number
    ]
    if not chosen:
        numbers = ", ".join(known.number for known in catalogue())
        raise UnknownExerciseError(f"""There are no exercises for the lesson {shown(lesson)}.
            next:  the lessons with exercises are {numbers}.""")
    records = learned().records()
    rows = []
    states = []
    again = [item for known in chosen for item in asked_again_in(known)]
    for item in [item for known in chosen for item in known.items] + again:
        record = records.get(item.name, {})
        state = (
            _prediction(record) if isinstance(item, Question) else str(record.get("state", OPEN))
        )
        states += [] if isinstance(item, Question) else [state]
        counts = (
            ("", "")
            if isinstance(item, Question)
            else (_count(record, "attempts"), _count(record, "hints"))
        )
        rows.append((item.name, item.title, SIGNS.get(state, state), *counts))
    solved, helped, handed = (states.count(state) for state in ("solved", "with help", "given"))
    remade = sum(row[2] == PREDICTED for row in rows[len(rows) - len(again) :])
    predicted = sum(row[2] == PREDICTED for row in rows) - remade
    questions = len(rows) - len(states) - len(again)
    caption = f"{solved} of {counted(len(states), 'exercise')} solved"
    caption += (f", {helped} with help" if helped else "") + (f", {handed} given" if handed else "")
    caption += f"; {predicted} of {counted(questions, 'prediction')} made" if questions else ""
    caption += f"; {remade} of {len(again)} asked again" if again else ""
    return Overview(caption, tuple(rows))


def _prediction(record: Record) -> str:
    return PREDICTED if "prediction" in record else OPEN


def _count(record: Record, key: str) -> str:
    return str(whole(record.get(key)) or "")
