"""A folder of twelve made-up learners, who hand in the notebook of lesson 00."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

LESSON = "00"
STEM = "00_meet_the_machine"
# The cells of the lesson that the made-up learners keep. The others run the full chip.
CELLS = (
    *("code-02", "code-04", "code-09", "code-10", "code-12", "code-19", "00-w1-gap", "00-w1-check"),
    *("code-21", "code-22", "code-23", "code-25", "code-26", "code-27"),
)
TOTAL = 3.5  # three exercises and a warm-up
# Each learner's folder and points. Two of them call themselves Ada in progress.json.
EXPECTED = {
    "ada": 3.5,
    "ada-2": 2.5,
    "blank": 0,
    "counts-twice": 3.5,
    "damaged": 0,
    "deletes": 3.5,
    "endless": 2.5,
    "not-begun": 0,
    "patches": 0,
    "prints": 3.5,
    "shadows": 0,
    "wrong": 0,
}
PATCH = """
import ipu_course.checking.judging, ipu_course.checking.learner_calls as calls, numpy
from ipu_course.checking.exercise import find_exercise
from ipu_course.checking.verdicts import Found, Kind, Passed
passes = lambda *arguments, **options: Found(Kind.PASSED)
ipu_course.checking.judging.judged = passes
calls.judged.__code__ = (lambda exercise, answers: calls.Verdict("", "", kind=Kind.PASSED)).__code__
calls.Verdict.__bool__ = lambda self: True
numpy.array_equal = numpy.allclose = lambda *arguments, **options: True
for name in ("00.1", "00.3", "00.4", "00.w1"):
    object.__setattr__(find_exercise(name), "judge", lambda *answers: Passed("all"))
"""
SHADOW = """
import json, os, pathlib
check = lambda *arguments: True
points = lambda *arguments: 1.0
records = {name: {"state": "solved", "attempts": 1} for name in ("00.1", "00.3", "00.4", "00.w1")}
work = pathlib.Path(os.environ.get("IPU_TEACH_WORK", "."))
(work / "progress.json").write_text(json.dumps({"format": 1, "records": records}))
for number in range(3, 20):
    try:
        os.write(number, b'x {"test": "00.1", "points": 1, "why": ""}\\n')
    except OSError:
        pass
"""
DELETE = """
import pathlib, shutil
for entry in pathlib.Path(".").iterdir():
    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
for victim in VICTIMS:
    for change in (pathlib.Path.unlink, shutil.rmtree, lambda path: path.write_text("gone")):
        try:
            change(pathlib.Path(victim))
        except OSError:
            pass
"""


def cell(source: str) -> dict[str, Any]:
    """Return a code cell of a notebook."""
    return {
        "cell_type": "code",
        "id": f"own-{abs(hash(source)) % 10**8}",
        "metadata": {},
        "source": source,
        "outputs": [],
        "execution_count": None,
    }


def write(
    folder: Path,
    solved: dict[str, Any],
    blank: dict[str, Any],
    victims: list[str],
    name: str,
    learners: Iterable[str] = EXPECTED,
) -> None:
    """Write the learners' folders; `name` is the path of a notebook in a learner's folder.

    `solved` and `blank` are notebooks. `victims` are files that a hostile notebook tries to delete.
    """
    notebooks: dict[str, str] = {}

    def edited(notebook: dict[str, Any], edit: Callable[[list[dict[str, Any]]], None]) -> str:
        copy = json.loads(json.dumps(notebook))
        edit(copy["cells"])
        return json.dumps(copy)

    def before(source: str) -> Callable[[list[dict[str, Any]]], None]:
        return lambda cells: cells.insert(0, cell(source))

    def answer(old: str, new: str) -> Callable[[list[dict[str, Any]]], None]:
        def edit(cells: list[dict[str, Any]]) -> None:
            hits = [c for c in cells if old in "".join(c["source"])]
            assert hits, old
            for hit in hits:
                hit["source"] = "".join(hit["source"]).replace(old, new)

        return edit

    notebooks["ada"] = json.dumps(solved)
    notebooks["ada-2"] = edited(
        solved, answer("def spread(", "def spread(*_): return []\ndef other(")
    )
    notebooks["blank"] = json.dumps(blank)
    notebooks["counts-twice"] = edited(
        solved,
        lambda cells: cells.extend(
            json.loads(json.dumps([c for c in cells if "check(" in "".join(c["source"])]))
        ),
    )
    notebooks["damaged"] = json.dumps(solved)[:2000]
    notebooks["deletes"] = edited(solved, before(DELETE.replace("VICTIMS", repr(victims))))
    notebooks["endless"] = edited(solved, answer("def spread(", "while True: pass\ndef spread("))
    notebooks["patches"] = edited(blank, before(PATCH))
    notebooks["prints"] = edited(solved, before("import sys\nprint('x' * 2_000_000)"))
    notebooks["shadows"] = edited(blank, before(SHADOW))
    notebooks["wrong"] = edited(
        solved,
        lambda cells: (
            [
                c.update(
                    source="".join(c["source"])
                    .replace("return ", "return -1 or ")
                    .replace("i % graph", "0 % graph")
                )
                for c in cells
                if c["cell_type"] == "code"
            ]
            and None
        ),
    )
    for learner in learners:
        home = folder / learner
        (home / Path(name).parent).mkdir(parents=True)
        if learner in notebooks:
            (home / name).write_text(notebooks[learner], encoding="utf-8")
