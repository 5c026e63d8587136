"""Show the state of a class at one moment: as a text table, a page, or comma-separated text."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from statistics import median
from textwrap import shorten

from ipu_course.checking.exercise import REFUSALS, Exercise, Lesson, catalogue
from ipu_course.checking.learner_calls import DONE, refusals
from ipu_course.checking.state import whole
from ipu_course.checking.verdict_panel import aligned
from ipu_course.classroom.ladder import NO_COST, Rung
from ipu_course.classroom.roster import Learner, Roster, exercises, one_line
from ipu_course.classroom.tables import cell_text
from ipu_teach.errors import counted
from ipu_teach.report.html import tabled

HARDEST = 5  # The maximum number of exercises in the table of the hardest ones.
WIDEST = 90  # The maximum number of characters of a reason in the text table.

BoardTable = tuple[str, tuple[str, ...], Sequence[tuple[str, ...]]]  # (caption, heads, rows)


@dataclass(frozen=True)
class Hurdle:
    """An exercise that learners found hard, with its most common reason for a refusal.

    `tried`, `solved` and `stuck` are numbers of learners. `attempts` is the median number of
    attempts of those who solved it, or 0 if nobody did. `times` says how often `reason`, the most
    common reason, was shown.
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

    They are ordered by the number of learners who are stuck, then by the number of learners who
    have not solved them, then by the number of refusals.
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


def tables(roster: Roster, ladder: Sequence[Rung] | None = None) -> list[BoardTable]:
    """Return the tables of a class as (caption, column heads, rows).

    The first table has the progress of each learner, and the second has the hardest exercises. If
    `ladder` is not None, its entries are the next table. A last table has the files that could not
    be read.
    """
    begun = [
        lesson
        for lesson in catalogue()
        if any(_begun(learner, lesson) for learner in roster.learners)
    ]
    rows = []
    for learner in roster.learners:
        lessons = [
            f"{learner.done(lesson)} of {len(lesson.exercises)}" if _begun(learner, lesson) else "–"
            for lesson in begun
        ]
        rows.append((learner.name, *lessons, learner.at or "–", _help(learner), _ago(learner.idle)))
    heads = ("learner", *(lesson.number for lesson in begun), "is at", "stuck", "last try")
    stuck = sum(bool(learner.stuck) for learner in roster.learners)
    caption = (
        f"{counted(len(roster.learners), 'learner')}, {stuck or 'none'} stuck (refused {REFUSALS} "
        "times, and open still)"
    )
    board_tables: list[BoardTable] = [(caption, heads, rows)]
    hard = [
        (
            f"{row.exercise.name} {row.exercise.title}",
            str(row.tried),
            str(row.solved),
            str(row.stuck),
            f"{row.attempts:g}" if row.solved else "–",
            f"{row.reason} ({row.times})" if row.reason else "–",
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


def to_csv(roster: Roster) -> str:
    """Return CSV text with one row for each learner and each exercise that the learner tried."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(
        (
            "learner",
            "exercise",
            "state",
            "attempts",
            "refusals",
            "hints",
            "minutes since the last try",
        )
    )
    for learner in roster.learners:
        for exercise in exercises():
            record = learner.records.get(exercise.name)
            if record:
                counts = (
                    whole(record.get("attempts")),
                    refusals(record),
                    whole(record.get("hints")),
                )
                name = cell_text(learner.name)
                state = learner.state(exercise.name)
                rows.writerow((name, exercise.name, state, *counts, round(learner.idle / 60)))
    return out.getvalue()


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
