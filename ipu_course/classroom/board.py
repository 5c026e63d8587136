"""Show the state of a class at one moment: as a text table, a page, or comma-separated text."""

from __future__ import annotations

import csv
import io
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from textwrap import shorten

from ipu_course.checking.exercise import REFUSALS, Exercise, Lesson, catalogue
from ipu_course.checking.learner_calls import DONE, refusals
from ipu_course.checking.state import Record, whole
from ipu_course.checking.verdict_panel import aligned
from ipu_course.classroom.ladder import NO_COST, Rung
from ipu_course.classroom.plans import Plan
from ipu_course.classroom.points import weight
from ipu_course.classroom.roster import Learner, Roster, exercises, labelled, one_line
from ipu_course.classroom.tables import cell_text
from ipu_teach.errors import counted
from ipu_teach.report.html import tabled

HARDEST = 5  # The maximum number of exercises in the table of the hardest ones.
# The text for a refusal without a stored reason, which older versions of the kit produced.
NO_REASON = "no reason was stored"
WIDEST = 90  # The maximum number of characters of a reason in the text table.

BoardTable = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]  # (caption, headings, rows)


@dataclass(frozen=True)
class Hurdle:
    """An exercise that learners found hard, with its most common reason for a refusal.

    `tried`, `solved` and `stuck` are numbers of learners. `attempts` is the median number of
    attempts of the learners who solved the exercise, or 0 if nobody did. `reason` is the most
    common reason for a refusal, and `times` is how often it was shown.
    """

    exercise: Exercise
    tried: int
    solved: int
    stuck: int
    attempts: float
    reason: str
    times: int


def hurdles(roster: Roster) -> list[Hurdle]:
    """Return the exercises of which at least one answer was refused, the hardest first.

    The exercises are ordered by the number of learners who are stuck, then by the number of
    learners who have not solved the exercise, and then by the number of refusals.
    """
    rows = []
    for exercise in exercises():
        attempts = [
            (learner, learner.records[exercise.name])
            for learner in roster.learners
            if exercise.name in learner.records
        ]
        reasons: Counter[str] = sum(
            (learner.reasons(exercise.name) for learner, _ in attempts), Counter()
        )
        vain = sum(refusals(record) for _, record in attempts)
        solved = [
            whole(record.get("attempts"))
            for learner, record in attempts
            if learner.state(exercise.name) in DONE[:2]
        ]
        stuck = sum(exercise.name in learner.stuck for learner, _ in attempts)
        reason, times = reasons.most_common(1)[0] if reasons else ("", 0)
        if vain:
            row = Hurdle(
                exercise,
                tried=len(attempts),
                solved=len(solved),
                stuck=stuck,
                attempts=median(solved) if solved else 0,
                reason=reason,
                times=times,
            )
            rows.append((stuck, len(attempts) - len(solved), vain, row))
    return [row for *_, row in sorted(rows, key=lambda hurdle: hurdle[:3], reverse=True)]


def tables(
    roster: Roster, ladder: Sequence[Rung] | None = None, plan: Plan | None = None
) -> list[BoardTable]:
    """Return the tables of a class as (caption, column heads, rows).

    The first table has the progress of each learner, and the second has the hardest exercises. If
    `ladder` is not None, its entries are the next table. A last table has the files that could not
    be read. If `plan` is not None, the first table counts only its exercises.
    """
    board_tables: list[BoardTable] = [_progress(roster, plan)]
    hard = [
        (
            f"{row.exercise.name} {row.exercise.title}",
            str(row.tried),
            str(row.solved),
            str(row.stuck),
            f"{row.attempts:g}" if row.solved else "–",
            f"{row.reason} ({row.times})" if row.reason else NO_REASON,
        )
        for row in hurdles(roster)[:HARDEST]
    ]
    if hard:
        heads = ("exercise", "tried", "solved", "stuck", "attempts", "most often refused because")
        board_tables.append(("What stops most people", heads, hard))
    if ladder is not None:
        rungs = [
            (rung.exercise, rung.name, rung.cost, "✓ yes" if rung.holds else f"✗ {rung.why}")
            for rung in ladder
            if rung.why != NO_COST
        ]
        caption = "The ladder: shared answers, each run again here"
        if not ladder:
            caption = "The ladder is empty: nobody has called share() yet"
        elif without := len(ladder) - len(rungs):
            caption += (
                f"; {counted(without, 'line carries', 'lines carry')} no cost, and so no place on "
                f"it: {', '.join(f'{r.exercise} of {r.name}' for r in ladder if r.why == NO_COST)}"
            )
        board_tables.append((caption, ("exercise", "learner", "cost", "counts"), rungs))
    if roster.unread:
        unread = [(one_line(path), why) for path, why in roster.unread]
        board_tables.append(("Could not be read, and was left as it is", ("file", "it is"), unread))
    return board_tables


def _progress(roster: Roster, plan: Plan | None) -> BoardTable:
    """Return the table with a row for each learner, those who are absent last."""
    counting = [
        (lesson, [item for item in lesson.exercises if plan is None or item.name in plan])
        for lesson in catalogue()
    ]
    begun = [
        (lesson, items)
        for lesson, items in counting
        if items and any(_begun(learner, lesson) for learner in roster.learners)
    ]
    rows = []
    for learner in roster.learners:
        lessons = [
            f"{learner.done(items)} of {len(items)}" if _begun(learner, lesson) else "–"
            for lesson, items in begun
        ]
        rows.append((learner.name, *lessons, learner.at or "–", _help(learner), _ago(learner.idle)))
    for identity, name, why in roster.absent:
        rows.append((labelled(identity, name), *("–" for _ in begun), "–", "", why))
    heads = ("learner", *(lesson.number for lesson, _ in begun), "is at", "stuck", "last try")
    stuck = sum(bool(learner.stuck) for learner in roster.learners)
    caption = (
        f"{counted(len(roster.learners), 'learner')}, {stuck or 'none'} stuck (refused {REFUSALS} "
        "times, and open still)"
    )
    if not roster.learners:
        caption = f"None of {counted(len(roster.absent), 'learner')} has readable progress yet"
    elif roster.absent:
        caption += f"; {len(roster.absent)} without readable progress"
    return caption, heads, rows


def text(board_tables: Iterable[BoardTable]) -> str:
    """Return the tables as text for a terminal."""
    parts = []
    for caption, heads, rows in board_tables:
        cells = [[shorten(cell, WIDEST, placeholder="…") for cell in row] for row in (heads, *rows)]
        parts.append("\n".join([caption, *(f"  {line}" for line in aligned(cells))]))
    return "\n\n".join(parts)


def html(board_tables: Iterable[BoardTable]) -> str:
    """Return the tables as HTML with all text escaped."""
    parts = []
    for caption, heads, rows in board_tables:
        frame = f'<div class="wide" tabindex="0" role="region" aria-label="{escape(caption)}">'
        parts.append(f"{frame}{tabled(heads, rows, caption)}</div>")
    return "".join(parts)


COLUMNS = (
    *("id", "learner", "exercise", "title", "state", "points", "attempts", "refusals", "hints"),
    *("date", "minutes since the last try"),
)


def to_csv(roster: Roster, plan: Plan | None = None) -> str:
    """Return CSV text with one row for each learner and each exercise that the learner tried.

    If `plan` is not None, there is a row for each exercise of the plan, tried or not, and for no
    other exercise. The points are computed from the learner's own progress file.
    """
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(COLUMNS)
    planned = [item for item in exercises() if plan is None or item.name in plan]
    for learner in roster.learners:
        for exercise in planned:
            record = learner.records.get(exercise.name, {})
            if record or plan is not None:
                rows.writerow(_csv_row(learner, exercise, record))
    for identity, name, why in roster.absent:
        head = (cell_text(identity), cell_text(name))
        for exercise in planned if plan is not None else ():
            rows.writerow((*head, exercise.name, exercise.title, why, 0, 0, 0, 0, "", ""))
        if plan is None:
            rows.writerow((*head, "", "", why, 0, 0, 0, 0, "", ""))
    return out.getvalue()


def _csv_row(learner: Learner, exercise: Exercise, record: Record) -> tuple[str | int | float, ...]:
    state = learner.state(exercise.name)
    return (
        cell_text(learner.id),
        cell_text(learner.name),
        exercise.name,
        exercise.title,
        state or "not tried",
        weight(exercise.name) if state in DONE[:2] else 0,
        whole(record.get("attempts")),
        refusals(record),
        whole(record.get("hints")),
        time.strftime("%Y-%m-%d", time.localtime(time.time() - learner.idle)),
        round(learner.idle / 60),
    )


def _begun(learner: Learner, lesson: Lesson) -> bool:
    return any(learner.records.get(item.name) for item in lesson.items)


def _help(learner: Learner) -> str:
    return ", ".join(f"{name} ({refusals(learner.records[name])} times)" for name in learner.stuck)


def _ago(seconds: float) -> str:
    minutes = int(seconds // 60)
    if minutes < 1:
        return "just now"
    if minutes < 120:
        return f"{minutes} min ago"
    return f"{minutes // 60} h ago" if minutes < 48 * 60 else f"{minutes // 1440} days ago"
