"""Write a lesson as an assignment of nbgrader, and read the tests of an assignment.

In an assignment, each answer is in a solution cell, and each check is in a test cell of its own.
The metadata of the cells follow version 3 of nbgrader's schema. An instructor's own notebook
becomes an assignment in the same way: answers are between the marks of `gaps`, and a cell whose
first line is `# TEST NAME: 1 point` is a test.
"""

from __future__ import annotations

import ast
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipu_course.checking.exercise import Exercise, catalogue
from ipu_course.checking.gaps import (
    Cell,
    Notebook,
    gaps_in,
    parsed,
    read_notebook,
    reference,
    source_of,
    tasks,
)
from ipu_course.checking.naming import EXERCISE, lesson_of
from ipu_course.checking.notebooks import find_lesson
from ipu_course.classroom.points import weight
from ipu_teach._support.places import write_whole
from ipu_teach.errors import LessonError

IMPORT = "from ipu_course.classroom.points import points"
TEST = re.compile(r"# TEST ([\w.-]+): (\d+(?:\.\d+)?) points?\s*$")
# Matches the beginning of a test, even a malformed one, but not the comment "# Test your answer".
LIKE_TEST = re.compile(r"\s*#\s*(?:TEST\b|(?i:test\b.*(?:\d\d\w?\.\w|\d\s*(?:points?|pts?)\b)))")
REGION = re.compile(r"^ *### BEGIN SOLUTION\n.*?^ *### END SOLUTION\n?", re.MULTILINE | re.DOTALL)
KIT_TEST = re.compile(rf'^points\("({EXERCISE})", (.+)\)$', re.MULTILINE)
LINK = re.compile(r"\[([^\]]*)\]\((?![a-z]+:|#|attachment:)[^)]*\)")
CONFIG = '''"""Settings of nbgrader for the assignments of `ipu-teach assignment`."""

from ipu_course.classroom.nbgrader_step import GradeApart, instead_of_execute

c = get_config()  # noqa: F821  nbgrader defines it
# The notebooks run in processes with limits, not in a kernel that could change its own points.
c.Autograde.autograde_preprocessors = instead_of_execute(GradeApart)
c.ClearSolutions.code_stub = {"python": "# YOUR CODE HERE"}
'''


@dataclass(frozen=True)
class Test:
    """A test of an assignment: its name, its title, its points, and the code of its cell.

    `arguments` has the expressions that an exercise of the kit passes to check(). It is () for a
    test that an instructor wrote.
    """

    name: str
    title: str
    points: float
    source: str
    arguments: tuple[str, ...] = ()


def exercises_of(lesson: str) -> tuple[Exercise, ...]:
    """Return the exercises of a lesson; () if it has none."""
    return next((known.exercises for known in catalogue() if known.number == lesson), ())


def tests_of_lesson(lesson: str) -> list[Test]:
    """Return the tests of a lesson, in the order of its notebook.

    :raises LessonError: if the lesson has no exercises.

    :raises UnknownExerciseError: if the solved notebook is not available.
    """
    exercises = exercises_of(lesson)
    if not exercises:
        known = ", ".join(item.number for item in catalogue())
        raise LessonError(
            f"Lesson {lesson} has no exercises to grade.",
            next_step=f"choose one of the lessons {known}.",
        )
    return [_kit_test(item, reference(item.name).answers) for item in exercises]


def _kit_test(item: Exercise, arguments: tuple[str, ...]) -> Test:
    number = weight(item.name)
    call = f'points("{item.name}", {", ".join(arguments)})'
    source = f"# {item.name}: {_in_words(number)}\n{IMPORT}\n\n{call}"
    return Test(item.name, item.title, number, source, arguments)


def _in_words(number: float) -> str:
    return "half a point" if number == 0.5 else f"{number:g} point{'s' if number != 1 else ''}"


def tests_of_notebook(notebook: Notebook) -> list[Test]:
    """Return the tests in the cells of an assignment that have nbgrader's metadata."""
    tests = []
    titles = {item.name: item.title for lesson in catalogue() for item in lesson.exercises}
    for cell in notebook["cells"]:
        meta = grading_of(cell)
        if cell["cell_type"] != "code" or not meta.get("grade") or meta.get("solution"):
            continue
        source = source_of(cell)
        call = KIT_TEST.search(source)
        heading = TEST.match(source.split("\n")[0])
        name = call[1] if call else heading[1] if heading else str(meta["grade_id"])
        arguments = tuple(ast.unparse(arg) for arg in _arguments(call[0])) if call else ()
        title = titles.get(name, "")
        tests.append(Test(name, title, float(meta.get("points", 0)), source, arguments))
    return tests


def _arguments(call: str) -> list[ast.expr]:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    return node.args[1:]


def grading_of(cell: Cell) -> dict[str, Any]:
    """Return nbgrader's metadata of a cell; {} if there are none."""
    metadata = cell.get("metadata")
    grading = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    return grading if isinstance(grading, dict) else {}


def assigned(notebook: Notebook, place: str) -> Notebook:
    """Return a solved notebook as an assignment for nbgrader.

    `place` is the notebook's name, which error messages quote.

    :raises LessonSourceError: if a mark is malformed, or a test is not valid Python.

    :raises LessonError: if the notebook has no tests, or a test is malformed.
    """
    cells = [dict(cell) for cell in notebook["cells"]]
    later = [source_of(cell) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    result: list[dict[str, Any]] = []
    for cell in cells:
        source = source_of(cell)  # type: ignore[arg-type]
        cell["metadata"] = {}
        if cell["cell_type"] != "code":
            cell["source"] = LINK.sub(r"\1", source)
            result.append(cell)
            continue
        later.pop(0)
        cell.update(outputs=[], execution_count=None)
        result += _code_cells(cell, source, later, place)
    assignment: Notebook = {**notebook, "cells": result}  # type: ignore[typeddict-item]
    tests = [test.name for test in tests_of_notebook(assignment)]
    if not tests:
        raise LessonError(
            f"{place} has no tests.",
            next_step="begin a cell with # TEST NAME: 1 point, and write an assert below it.",
        )
    name, count = Counter(tests).most_common(1)[0]
    if count > 1:
        raise LessonError(
            f"{place} has {count} tests with the name {name}.",
            next_step="give each test a name of its own, or write one test.",
        )
    return assignment


def _code_cells(
    cell: dict[str, Any], source: str, later: list[str], place: str
) -> Iterator[dict[str, Any]]:
    """Yield the cells that a code cell becomes: an answer, a test, both, or itself."""
    identity = str(cell.get("id", "cell"))
    before, name, arguments = _final_check(source, place)
    if gaps_in(source, place):
        text = _answer(before if name else source, later, place)
        yield {
            **cell,
            "source": text,
            "metadata": {"nbgrader": _metadata(f"answer-{identity}", solution=True)},
        }
    elif name and before.strip():
        yield {**cell, "source": before}
    heading = _heading(source, place)
    if name:
        item = next(item for item in exercises_of(lesson_of(name)) if item.name == name)
        test = _kit_test(item, arguments)
        yield _test_cell(cell, name, test.points, test.source)
    elif heading:
        yield _test_cell(cell, heading[1], float(heading[2]), source)
    elif not gaps_in(source, place):
        yield {**cell, "source": source}


def _heading(source: str, place: str) -> re.Match[str] | None:
    """Return the match of the first line of a test; None if the cell is not a test."""
    heading = TEST.match(source.split("\n")[0])
    if not heading:
        if LIKE_TEST.match(source):
            first = source.strip().split("\n")[0]
            raise LessonError(
                f"The first line of a test is malformed: {first!r}.",
                where=place,
                next_step="write a first line such as # TEST 50.1: 1 point, with nothing above it.",
            )
        return None
    if gaps_in(source, place):
        raise LessonError(
            f"The test {heading[1]} has its answer in the same cell.",
            where=place,
            next_step="write the answer and the test in two cells.",
        )
    parsed(source, f"{place}, the test {heading[1]}")
    return heading


def grade_id(test: str) -> str:
    """Return the name by which nbgrader knows a test: "test-01-2" for "01.2"."""
    return f"test-{re.sub(r'[^a-zA-Z0-9_-]', '-', test)}"


def _test_cell(cell: dict[str, Any], test: str, number: float, source: str) -> dict[str, Any]:
    identity = grade_id(test)
    metadata = _metadata(identity, grade=True, locked=True, points=number)
    return {**cell, "id": identity, "source": source, "metadata": {"nbgrader": metadata}}


def _final_check(source: str, place: str) -> tuple[str, str, tuple[str, ...]]:
    """Return `(code before, exercise, arguments)` for a cell that ends in check("01.1", ...).

    The exercise is "" if the cell does not end in such a call.
    """
    if "check(" not in source:
        return source, "", ()
    body = parsed(source, place).body
    last = body[-1].value if body and isinstance(body[-1], ast.Expr) else None
    if (
        isinstance(last, ast.Call)
        and isinstance(last.func, ast.Name)
        and last.func.id == "check"
        and last.args
        and isinstance(last.args[0], ast.Constant)
    ):
        name = str(last.args[0].value)
        before = "\n".join(source.splitlines()[: last.lineno - 1]).rstrip()
        if any(item.name == name for item in exercises_of(lesson_of(name))):
            return before, name, tuple(ast.unparse(answer) for answer in last.args[1:])
    return source, "", ()


def _answer(source: str, later: list[str], place: str) -> str:
    """Return an answer cell: the task as learners get it, and below it the solution's region."""
    lines = source.splitlines()
    for gap, blank in reversed(tasks(source, later, place)):
        answer = [f"{gap.indent}### BEGIN SOLUTION", gap.answer, f"{gap.indent}### END SOLUTION"]
        lines[gap.first : gap.last + 1] = [*blank, *answer]
    return "\n".join(lines)


def without_answers(notebook: Notebook) -> Notebook:
    """Return an assignment without the regions of its solution cells."""
    cells = [
        {**cell, "source": REGION.sub("", source_of(cell)).rstrip("\n")}
        if grading_of(cell).get("solution")
        else cell
        for cell in notebook["cells"]
    ]
    return {**notebook, "cells": cells}  # type: ignore[typeddict-item]


def _metadata(
    identity: str,
    grade: bool = False,
    solution: bool = False,
    locked: bool = False,
    points: float = 0,
) -> dict[str, Any]:
    """Return the metadata of a cell by version 3 of nbgrader's schema."""
    metadata: dict[str, Any] = {
        "schema_version": 3,
        "grade_id": identity,
        "grade": grade,
        "solution": solution,
        "locked": locked,
        "task": False,
    }
    if grade:
        metadata |= {"points": points, "cell_type": "code"}
    return metadata


def write(word: str, course: Path, release: bool = False) -> list[Path]:
    """Write the assignment of a lesson, or of a notebook file, into a course of nbgrader.

    Return the files that were written. nbgrader's settings are written only if the course has none.
    If `release` is True, the learners' version is also written, into the folder in which nbgrader
    writes its own.

    :raises LessonError: if there is no such lesson, or the notebook has no tests.

    :raises LessonSourceError: if the notebook or one of its marks is damaged.
    """
    named = Path(word)
    if named.suffix == ".ipynb" and not named.exists():
        raise LessonError(
            f"There is no file {word!r}.",
            next_step="give the path of your notebook, or the number of a lesson.",
        )
    path = named if named.suffix == ".ipynb" and named.is_file() else find_lesson(word, solved=True)
    assignment = path.stem if path is named else f"lesson{lesson_of(path.stem)}"
    notebook = assigned(read_notebook(path), path.name)
    notebooks = {"source": notebook, **({"release": without_answers(notebook)} if release else {})}
    files = []
    for folder, content in notebooks.items():
        file = course / folder / assignment / path.name
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        files.append(file)
    config = course / "nbgrader_config.py"
    if not config.exists():
        write_whole(config, CONFIG)
        files.append(config)
    return files
