"""The ladder of a class: what learners shared and has a cost, each answer run again before it
counts.

An answer is somebody's program. It runs in a process of its own, for a bounded time, in an empty
folder; it has the rights of whoever asks for the ladder, so ask for it where you would run the
learners' notebooks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass

from ipu_teach.classroom.roster import Learner, Roster, exercises
from ipu_teach.errors import LessonError
from ipu_teach.lessons.shared import parsed

LIMIT = 60.0  # seconds that a replay may take, the start of its process included

# why a line with its code does not count; "" where it does
_replayed: dict[tuple[str, str], str] = {}


@dataclass(frozen=True)
class Rung:
    """One shared answer: its exercise, whose it is, what it costs, and why it does not count, ""
    where it does."""

    exercise: str
    name: str
    cost: str
    figure: float
    why: str

    @property
    def holds(self) -> bool:
        """Whether the replay gave what the line says."""
        return not self.why


def climbed(roster: Roster, said: Callable[[str], None] = lambda text: None) -> list[Rung]:
    """The rungs of every exercise, the cheapest answer first; those that do not hold come last.
    `said` is told what runs."""
    rungs = []
    for exercise in exercises():
        for one in roster.learners:
            if (kept := one.shared(exercise.name)) is not None:
                said(f"{exercise.name} of {one.name}")
                rungs += _rung(one, exercise.name, *kept)
    return sorted(
        rungs, key=lambda rung: (rung.exercise, not rung.holds, rung.figure, rung.name.casefold())
    )


def _rung(one: Learner, exercise: str, line: str, code: str) -> list[Rung]:
    """The rung of a line; none for one without a cost, which is on no ladder."""
    try:
        claimed = parsed(line)
        figure = float(claimed.figure or 0)
    except (LessonError, ValueError):
        return [Rung(exercise, one.name, "–", 0.0, "the line is none of share()")]
    if not claimed.figure:
        return []
    if claimed.name != exercise:
        why = f"the line is one of {claimed.name}"
    else:
        why = _replayed.get((line, code)) or (
            "" if (line, code) in _replayed else _replay(line, code)
        )
        _replayed[line, code] = why
    return [Rung(exercise, one.name, f"{claimed.figure} {claimed.unit}", figure, why)]


def _replay(line: str, code: str) -> str:
    """Run an answer again in a process of its own; why it does not count, "" where it does."""
    with tempfile.TemporaryDirectory() as empty:
        env = dict(os.environ, IPU_TEACH_WORK=empty)
        try:
            done = subprocess.run(
                [sys.executable, "-m", "ipu_teach.classroom.replay"],
                input=json.dumps([line, code]).encode("utf-8", "surrogatepass"),
                capture_output=True,
                timeout=LIMIT,
                cwd=empty,
                env=env,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {LIMIT:.0f} seconds"
    try:
        why = json.loads(done.stdout.decode("utf-8", "replace").splitlines()[-1])
    except (ValueError, IndexError):
        return "its process ended without a word"
    return why if isinstance(why, str) else "its process ended without a word"
