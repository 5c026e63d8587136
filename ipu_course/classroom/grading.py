"""Grade notebooks: run each in a process with limits, and give points for its answers."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ipu_course.checking.gaps import Notebook, read_notebook, source_of
from ipu_course.checking.naming import EXERCISE, LESSON, lesson_of
from ipu_course.classroom.assignment import Test, grade_id, grading_of
from ipu_course.classroom.grade_worker import WAIT
from ipu_course.classroom.ladder import KEPT, end_process
from ipu_course.classroom.roster import one_line
from ipu_teach.errors import LessonSourceError

SECONDS = 300  # The processor time that a notebook may use, in seconds.
CELLS = 5  # A cell may use 1 / CELLS of the time of its notebook.
MEMORY = 4  # The memory that a notebook may use, in GB.
START = 120.0  # How long the process that runs notebooks may take to start, in seconds.
LARGEST = 1 << 24  # The maximum size of a notebook file that is read, in bytes.
LARGEST_EVENTS = 1 << 20  # The maximum number of bytes that are read of a notebook's events.
MOST_REMARKS = 5
DATA = ("IPU_TEACH_DATA",)


@dataclass
class Graded:
    """The result of one notebook: the learner, the points of each test, and remarks.

    `reasons` has a text for each test that did not earn all points.
    """

    learner: str
    file: Path | None
    points: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    date: str = ""

    @property
    def total(self) -> float:
        """The sum of the points."""
        return sum(self.points.values())


class Grader:
    """Runs notebooks one after another, with a limit of `seconds` each and of `memory` in GB."""

    def __init__(self, seconds: int = SECONDS, memory: float = MEMORY) -> None:
        self.seconds = seconds
        self.memory = memory
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Grader:
        return self

    def __exit__(self, *error: object) -> None:
        self._stop()

    def grade(
        self, notebook: Notebook, tests: Sequence[Test], own_arguments: bool, learner: str = ""
    ) -> Graded:
        """Run a notebook and the tests, and return the result.

        If `own_arguments` is True, the answers are the arguments of the notebook's own calls of
        check(). Otherwise, the tests name the answers.
        """
        result = Graded(learner, None, dict.fromkeys((test.name for test in tests), 0.0))
        with tempfile.TemporaryDirectory(
            prefix="ipu_teach-grade-", ignore_cleanup_errors=True
        ) as place:
            folder, events = Path(place, "work"), Path(place, "events")
            folder.mkdir()
            folder = folder.resolve()
            token = secrets.token_hex(16)
            request = {
                "token": token,
                "events": str(events),
                "folder": str(folder),
                "environment": _environment(str(folder)),
                "seconds": self.seconds,
                "cell_seconds": self.seconds / CELLS,
                "memory": int(self.memory * (1 << 30)),
                "cells": list(_cells(notebook)),
                "tests": [_as_request(test, notebook) for test in tests],
                "own_arguments": own_arguments,
            }
            (folder / "notebook.ipynb").write_text(json.dumps(notebook), encoding="utf-8")
            self._run(request, place)
            _read_events(events, token, result, self.seconds)
        return result

    def _run(self, request: dict[str, Any], place: str) -> None:
        """Run a request, and wait until its process has ended."""
        for _ in range(2):  # Without fork, the process ends after each request.
            process = self._process or self._start(place)
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                break
            except OSError:
                self._stop()
        try:
            answer = self._answers.get(timeout=WAIT * self.seconds + START)
        except queue.Empty:
            answer = ""
        if answer != "ended":
            self._stop()

    def _start(self, place: str) -> subprocess.Popen[str]:
        environment = {
            **{name: os.environ[name] for name in (*KEPT, *DATA) if name in os.environ},
            **_environment(place),
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "PYTHONDONTWRITEBYTECODE": "1",
            "IPU_TEACH_NUMBA": "0",
            "IPU_TEACH_GPU": "0",
            "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }
        self._process = process = subprocess.Popen(
            [sys.executable, "-m", "ipu_course.classroom.grade_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            env=environment,
            start_new_session=True,
        )
        answers: queue.Queue[str] = queue.Queue()
        self._answers = answers

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                answers.put(line.strip())
            answers.put("")

        threading.Thread(target=read, daemon=True).start()
        return process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with contextlib.suppress(OSError):  # The process may have ended already.
            process.stdin.close()
        end_process(process)


def _environment(folder: str) -> dict[str, str]:
    names = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "IPU_TEACH_WORK", "IPYTHONDIR")
    return dict.fromkeys((*names, "MPLCONFIGDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), folder)


def _cells(notebook: Notebook) -> Iterator[dict[str, str]]:
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            identity = str(grading_of(cell).get("grade_id", ""))
            yield {"source": source_of(cell), "grade_id": identity}


def _as_request(test: Test, notebook: Notebook) -> dict[str, object]:
    """Return a test as the worker reads it; "id" is the id of its cell, or "" if there is none."""
    identities = {str(grading_of(cell).get("grade_id")) for cell in notebook["cells"]}
    names = [name for name in (grade_id(test.name), test.name) if name in identities]
    return {
        "name": test.name,
        "points": test.points,
        "source": test.source,
        "arguments": test.arguments,
        "id": "".join(names[:1]),
    }


def _read_events(file: Path, token: str, result: Graded, seconds: int) -> None:
    """Store the points and remarks that a process sent, and a remark if it did not finish."""
    text = ""
    with contextlib.suppress(OSError), file.open(encoding="utf-8", errors="replace") as stream:
        text = stream.read(LARGEST_EVENTS)
    cell, is_done = 0, False
    for line in text.splitlines():
        mark, _, content = line.partition(" ")
        if mark != token:
            continue
        event = json.loads(content)
        cell = event.get("cell", cell)
        is_done = is_done or "done" in event
        if "remark" in event:
            result.remarks.append(one_line(event["remark"]))
        if event.get("test") in result.points:
            name = event["test"]
            result.points[name] = max(result.points[name], event["points"])
            result.reasons[name] = one_line(event["why"])
    if not is_done and not any("could not be run" in remark for remark in result.remarks):
        where = f"cell {cell}" if cell else "the start"
        result.remarks.append(
            f"its process ended at {where}: it used its {seconds} s or its memory, or left Python"
        )
    result.remarks = list(dict.fromkeys(result.remarks))[:MOST_REMARKS]


def graded(
    grader: Grader, learner: str, file: Path | None, tests: Sequence[Test], own_arguments: bool
) -> Graded:
    """Grade one notebook file; a file that is missing or damaged gets no points, and a remark."""
    nothing = Graded(learner, file, dict.fromkeys((test.name for test in tests), 0.0))
    if file is None:
        nothing.remarks.append("there is no notebook")
        return nothing
    try:
        if file.stat().st_size > LARGEST:
            raise OSError(0, "it is far too large")
        notebook = read_notebook(file)
    except LessonSourceError as error:
        nothing.remarks.append(one_line(str(error).splitlines()[0]))
        return nothing
    except OSError as error:
        nothing.remarks.append(f"it cannot be read: {error.strerror}")
        return nothing
    result = grader.grade(notebook, tests, own_arguments, learner)
    result.file = file
    return result


def lesson_in(notebook: Notebook, stem: str) -> str:
    """Return the lesson of a notebook, found by the file name or the exercises that it checks.

    Return "" if the notebook belongs to no lesson.
    """
    if re.match(rf"{LESSON}_", stem):
        return lesson_of(stem)
    called = re.compile(rf"""(?:check|points)\(\s*["']({EXERCISE})["']""")
    calls = [
        lesson_of(name) for cell in notebook["cells"] for name in called.findall(source_of(cell))
    ]
    return max(set(calls), key=calls.count) if calls else ""
