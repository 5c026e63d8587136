"""Make the learner's notebook of each lesson from the solved one, by emptying its gaps.

Outputs above the first gap are kept. Those below it are removed, because they would reveal the
answers.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ipu_course.checking import notebooks
from ipu_course.checking.gaps import Notebook, blanked, gaps_in, parsed, read_notebook, source_of
from ipu_course.checking.minutes import write_minutes
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.state import learned
from ipu_teach._support.places import not_kept, program, write_whole


def learners_form(solved: Notebook, name: str = "") -> Notebook:
    """Return the learner's form of a solved notebook; a lesson without gaps keeps all outputs.

    :raises LessonSourceError: if the notebook is invalid.
    """
    # The learner's notebook is one folder above the solved one, so its links need one "../" less.
    derived: Notebook = json.loads(json.dumps(solved).replace("](../", "]("))
    code = [
        (f"{name}, cell {n}", cell)
        for n, cell in enumerate(derived["cells"], start=1)
        if cell["cell_type"] == "code"
    ]
    sources = [source_of(cell) for _, cell in code]
    open_yet = True
    for number, ((where, cell), source) in enumerate(zip(code, sources, strict=True)):
        parsed(source, where)
        if gaps_in(source, where):
            open_yet = False
            cell["source"] = blanked(source, sources[number + 1 :], where).splitlines(keepends=True)
        if not open_yet:
            cell["outputs"] = []
            cell["execution_count"] = None
    return derived


def as_text(notebook: Notebook) -> str:
    """Return a notebook as JSON text in the format that nbformat writes."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


def pairs() -> list[tuple[Path, Path]]:
    """Return `(solved path, learner's path)` for every lesson; the second file may be missing.

    :raises LessonError: outside of a checkout.
    """
    notebooks.need_checkout("The learner's form of the notebooks")
    solved = notebooks.lessons_in(notebooks.NOTEBOOKS / "solutions")
    return [(path, notebooks.NOTEBOOKS / path.name) for path in solved]


def write() -> int:
    """Update every lesson's duration and every learner's notebook; return 0.

    The duration, in minutes, is an entry of the lesson's `words.md`. A learner's notebook is
    derived from the solved one.
    """
    known = pairs()
    for path in write_minutes():
        print(f"{path.name}: minutes written")
    for solved, target in known:
        text = as_text(learners_form(read_notebook(solved), solved.name))
        same = target.exists() and target.read_text(encoding="utf-8", errors="replace") == text
        if not same:
            write_whole(target, text)
        print(f"{target.name}: {'unchanged' if same else 'written'}")
    return 0


def check() -> int:
    """Print how each learner's notebook differs from the form derived from its solved notebook.

    Return 1 if any notebook differs, else 0.
    """
    faults = [fault for solved, target in pairs() for fault in differences(solved, target)]
    known = {solved.name for solved, _ in pairs()}
    strays = [
        path.name for path in notebooks.lessons_in(notebooks.NOTEBOOKS) if path.name not in known
    ]
    faults += [f"{name}: there is no solved notebook of this name" for name in strays]
    for fault in faults:
        print(fault, file=sys.stderr)
    if faults:
        print(f"run `{program()} learner`, and edit the solved notebooks only", file=sys.stderr)
        return 1
    print(f"{len(known)} learner's notebooks match their solved ones")
    return 0


def differences(solved: Path, target: Path) -> list[str]:
    """Return how the learner's notebook `target` differs from the form derived from `solved`.

    Each element of the list is a text about one cell.
    """
    if not target.exists():
        return [f"{target.name}: missing"]
    wanted = learners_form(read_notebook(solved), solved.name)
    actual = read_notebook(target)
    if wanted == actual:
        return []
    faults = []
    if len(wanted["cells"]) != len(actual["cells"]):
        faults.append(
            f"{target.name}: {len(actual['cells'])} cells, and {len(wanted['cells'])} in the "
            "solved notebook"
        )
    for cell_number, (wanted_cell, actual_cell) in enumerate(
        zip(wanted["cells"], actual["cells"], strict=False), start=1
    ):
        if source_of(wanted_cell) != source_of(actual_cell):
            actual_lines = source_of(actual_cell).splitlines()
            first_difference = next(
                (
                    n
                    for n, text in enumerate(source_of(wanted_cell).splitlines())
                    if actual_lines[n : n + 1] != [text]
                ),
                0,
            )
            faults.append(
                f"{target.name}: cell {cell_number} differs in line {first_difference + 1}: "
                f"{''.join(actual_lines[first_difference : first_difference + 1]).strip()!r}"
            )
        elif wanted_cell != actual_cell:
            difference = (
                "its outputs"
                if wanted_cell.get("outputs") != actual_cell.get("outputs")
                else "its metadata, kind, id or number"
            )
            faults.append(f"{target.name}: cell {cell_number} differs in {difference}")
    return faults or [f"{target.name}: the notebook's metadata differ"]


def reset(word: str, progress: bool = False) -> int:
    """Put a fresh copy of a lesson into the work folder, and return 0.

    An edited copy is renamed and kept. If `progress` is True, the learner's progress in the lesson
    is deleted, including predictions.
    """
    lesson = notebooks.find_lesson(word)
    copy = notebooks.kept_work() / lesson.name
    backup = None
    if copy.exists() and copy.read_bytes() != notebooks.as_copied(lesson).encode():
        try:
            backup = notebooks.set_aside(copy, "kept")
        except OSError as error:
            raise not_kept("The old copy could not be renamed", copy, error) from error
    notebooks.learners_copy(lesson)
    print(f"{copy} is fresh" + (f"; your old copy is {backup.name}" if backup else ""))
    number = lesson_of(lesson.name)
    done = learned()
    if any(record for name, record in done.records().items() if name.startswith(f"{number}.")):
        if progress:
            done.forget(number)
            print(
                f"your progress in lesson {number} is deleted, and its predictions are open again"
            )
        else:
            print(
                "your progress in it is kept; "
                f"`{program()} reset {number} --progress` deletes it, including predictions"
            )
    return 0
