"""The ladder of a class: shared answers ordered by cost, each run again to confirm its line.

A shared answer is a program that somebody else wrote. It runs in its own process, for a limited
time, in an empty folder. The process has the rights of the user who asks for the ladder. So use the
ladder only on a machine on which you would also run the learners' notebooks.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from ipu_course.checking.naming import Key, sort_key
from ipu_course.checking.shared import parsed
from ipu_course.classroom.roster import Learner, Roster, exercises
from ipu_teach.errors import LessonError

LIMIT = 60.0  # How long a replay may take, including the start of its process, in seconds.
NO_COST = "the line carries no cost"
# The environment variables that a shared answer gets: those that Python needs, no user's tokens.
KEPT = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ")

# Maps (line, code) to the reason why the answer was not confirmed, or "" if it was confirmed.
_replayed: dict[tuple[str, str], str] = {}


@dataclass(frozen=True)
class Rung:
    """One shared answer on the ladder: its exercise, its author and its cost.

    If the answer was not confirmed, `why` is the reason, such as an error when it ran again. If it
    was confirmed, `why` is "".
    """

    exercise: str
    name: str
    cost: str
    figure: float
    why: str

    @property
    def holds(self) -> bool:
        """Whether running the answer again confirmed its line."""
        return not self.why


def climbed(
    roster: Roster, report_progress: Callable[[str], None] = lambda text: None
) -> list[Rung]:
    """Rerun the answers that learners have shared, and return them exercise by exercise.

    The answers of an exercise are sorted by cost, and those that were not confirmed come last.
    `report_progress` gets the names of the exercise and the learner before each run.
    """
    rungs = []
    for exercise in exercises():
        for learner in roster.learners:
            if (shared := learner.shared(exercise.name)) is not None:
                report_progress(f"{exercise.name} of {learner.name}")
                rungs += _rung(learner, exercise.name, *shared)
    return sorted(rungs, key=_height)


def _height(rung: Rung) -> tuple[Key, bool, float, str]:
    """Return the key by which shared answers are sorted.

    The key is (exercise, whether the answer was not confirmed, cost, author).
    """
    return sort_key(rung.exercise), not rung.holds, rung.figure, rung.name.casefold()


def _rung(learner: Learner, exercise: str, line: str, code: str) -> list[Rung]:
    """Return a list with one element: the ladder's entry for a line of share() and its `code`.

    If the line is invalid or has no cost, the entry states this as its reason.
    """
    rung = partial(Rung, exercise, learner.name)
    try:
        claimed = parsed(line)
        figure = float(claimed.figure or 0)
    except (LessonError, ValueError):
        return [rung("–", 0.0, "the line is none of share()")]
    if not claimed.figure:
        return [rung("–", 0.0, NO_COST)]
    if claimed.name != exercise:
        why = f"the line is one of {claimed.name}"
    else:
        why = _replayed.get((line, code)) or (
            "" if (line, code) in _replayed else _replay(line, code)
        )
        _replayed[line, code] = why
    return [rung(f"{claimed.figure} {claimed.unit}", figure, why)]


def _replay(line: str, code: str) -> str:
    """Run a shared answer in its own process; return the reason why it was not confirmed, or "".

    Processes that the answer started are killed, and its files are deleted with its folder.
    """
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as empty,
        tempfile.TemporaryFile() as error_output,
    ):
        environment = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP"), empty)
        inherited = {name: os.environ[name] for name in KEPT if name in os.environ}
        paths = os.pathsep.join(filter(None, sys.path))
        process = subprocess.Popen(
            [sys.executable, "-m", "ipu_course.classroom.replay"],
            stdin=subprocess.PIPE,
            stdout=error_output,
            stderr=subprocess.DEVNULL,
            cwd=empty,
            env={**inherited, **environment, "IPU_TEACH_WORK": empty, "PYTHONPATH": paths},
            start_new_session=True,
        )
        try:
            process.communicate(json.dumps([line, code]).encode("utf-8", "surrogatepass"), LIMIT)
        except subprocess.TimeoutExpired:
            return f"no end within {LIMIT:.0f} seconds"
        finally:
            end_process(process)
        error_output.seek(0)
        lines = error_output.read().decode("utf-8", "replace").splitlines()
    try:
        why = json.loads(lines[-1])
    except (ValueError, IndexError):
        return "its process ended without a word"
    return why if isinstance(why, str) else "its process ended without a word"


def end_process(process: subprocess.Popen[Any]) -> None:
    """Kill a process and its children."""
    if os.name == "nt":
        command = ["taskkill", "/F", "/T", "/PID", str(process.pid)]
        subprocess.run(command, capture_output=True, check=False)
    else:
        with contextlib.suppress(OSError):  # The processes may have ended already.
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
