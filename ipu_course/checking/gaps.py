"""Find the gaps of a lesson: the places where the learner writes an answer.

In the solved notebook, the reference answer of each exercise is between two comment lines, which
are called marks:

    # BEGIN SOLUTION 01.1: return the modelled cycles of the superstep
    …
    # END SOLUTION

In the learner's notebook, the answer is replaced by the task: the text after the exercise name.
This module imports only the standard library and other modules of this project.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent, wrap
from typing import Any, TypedDict

from ipu_course.checking.naming import EXERCISE, lesson_of
from ipu_course.checking.notebooks import lessons, read_json
from ipu_teach.errors import LessonSourceError, UnknownExerciseError, shown

Names = dict[str, Any]  # Maps each name that the cells of a notebook define to its object.
BEGIN = re.compile(rf"^( *)# BEGIN SOLUTION ({EXERCISE}): (\S.*)$")
# The maximum number of characters in a line of a task in a learner's cell, for small screens.
WIDTH = 88
MARK = re.compile(r"#\s*(BEGIN|END)\s+SOLUTION")
END = re.compile(r"^ *# END SOLUTION$")
CONFLICT = re.compile(r"^(<{7}|>{7})( |$)", re.MULTILINE)


class Cell(TypedDict, total=False):
    """A cell of a notebook file, with the fields that this package uses."""

    cell_type: str
    source: str | list[str]
    outputs: list[dict[str, object]]
    execution_count: int | None


class Notebook(TypedDict):
    """A notebook file, with the field that this package uses."""

    cells: list[Cell]


@dataclass(frozen=True)
class Gap:
    """One gap of a cell.

    `exercise` is the name of its exercise, and `todo` is the task for the learner. `first` and
    `last` are the indices of the lines with the two marks. `answer` is the text between them.
    """

    exercise: str
    todo: str
    indent: str
    first: int
    last: int
    answer: str
    where: str = ""

    @property
    def assigned(self) -> list[str]:
        """The names that the answer defines or assigns, in order of appearance."""
        names: list[str] = []
        for statement in parsed(dedent(self.answer), self.where or self.exercise).body:
            if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
                names.append(statement.name)
            elif isinstance(statement, (ast.Assign, ast.AnnAssign, ast.For, ast.With)):
                names += [
                    n.id
                    for n in ast.walk(statement)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                ]
        return list(dict.fromkeys(names))


def source_of(cell: Cell) -> str:
    """Return a cell's source as one string; in the file it may be a list of lines."""
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def read_notebook(path: Path) -> Notebook:
    """Return the content of a notebook file, unchanged.

    :raises LessonSourceError: if the file is not a notebook, or has an invalid cell.
    """
    place = str(path)
    try:
        notebook: Notebook = read_json(path)
        cells = notebook["cells"] if isinstance(notebook, dict) else None
        if not isinstance(cells, list):
            raise ValueError("the file has no list of cells")
        for number, cell in enumerate(cells, start=1):
            place = f"{path}, cell {number}"
            _check(cell)
        place = f"{path}, outside its cells"
        _as_utf8({**notebook, "cells": []})
    except (OSError, ValueError, KeyError) as error:
        raise LessonSourceError(
            f"{path.name} is not a notebook: {' '.join(str(error).split())}.",
            where=place,
            next_step=(
                "take an older copy of the file, such as from git, or save it again in JupyterLab."
            ),
        ) from None
    return notebook


def _check(cell: Cell) -> None:
    """Raise `ValueError` if `cell` is not a valid notebook cell."""
    if not isinstance(cell, dict) or cell.get("cell_type") not in ("code", "markdown", "raw"):
        raise ValueError(f"the type of a cell is not code, markdown or raw: {shown(cell)}")
    source = cell.get("source")
    if not isinstance(source, str) and not (
        isinstance(source, list) and all(isinstance(line, str) for line in source)
    ):
        raise ValueError(f"the source of a cell is not text: {shown(source)}")
    _as_utf8(cell)
    if CONFLICT.search(source_of(cell)):
        raise ValueError("a cell has the marks of two versions that were not merged")


def _as_utf8(value: Cell | Notebook) -> None:
    """Raise `ValueError` if `value` contains an unpaired surrogate.

    JSON can express a surrogate, but UTF-8 cannot encode it.
    """
    json.dumps(value, ensure_ascii=False).encode("utf-8")


def parsed(source: str, where: str) -> ast.Module:
    """Return the syntax tree of a cell or of a part of a cell.

    `where` is the cell's name, which the error message quotes.

    :raises LessonSourceError: if `source` is not valid Python.
    """
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise LessonSourceError(f"""A cell of a solved notebook is not valid Python:
            {getattr(error, "msg", None) or type(error).__name__}.
            where: {where}{line}
            next:  correct the cell, and run it.""") from None


def gaps_in(source: str, where: str = "") -> list[Gap]:
    """Return the gaps of one cell, in order.

    `where` is the cell's name, which the error message quotes.

    :raises LessonSourceError: if a mark is malformed, or a BEGIN or END mark has no partner.
    """
    gaps: list[Gap] = []
    lines = source.splitlines()
    begin: int | None = None
    for number, line in enumerate(lines):
        if not MARK.search(line):
            continue
        fits = BEGIN.match(line) if begin is None else END.match(line)
        if fits is None:
            raise LessonSourceError(
                f"The mark {line.strip()!r} is malformed or at the wrong place.",
                where=where,
                next_step=(
                    'write "# BEGIN SOLUTION 01.1: what to do", the answer, and "# END SOLUTION".'
                ),
            )
        if begin is None:
            begin = number
        else:
            opening = BEGIN.match(lines[begin])
            assert opening is not None
            answer = "\n".join(lines[begin + 1 : number])
            gaps.append(
                Gap(
                    exercise=opening[2],
                    todo=opening[3],
                    indent=opening[1],
                    first=begin,
                    last=number,
                    answer=answer,
                    where=where,
                )
            )
            begin = None
    if begin is not None:
        raise LessonSourceError(
            f"A gap has no end: {lines[begin].strip()!r}.",
            where=where,
            next_step="add # END SOLUTION.",
        )
    return gaps


def blanked(source: str, later: Iterable[str] = (), where: str = "") -> str:
    """Return a cell's source in which a comment with the task replaces each answer.

    Below the comment is a line `...`, which does nothing. If the answer assigns names that are used
    after the gap in this cell, there is a line `name = ...` for each of these names instead. The
    same holds for names that the `later` cells use, unless the gap is indented.
    """
    lines = source.splitlines()
    for gap, blank in reversed(tasks(source, later, where)):
        lines[gap.first : gap.last + 1] = blank
    return "\n".join(lines)


def tasks(source: str, later: Iterable[str] = (), where: str = "") -> list[tuple[Gap, list[str]]]:
    """Return each gap of a cell with the lines that replace it in the learner's notebook.

    The arguments are those of `blanked`.
    """
    lines = source.splitlines()
    afterwards = _names("\n".join(later))
    pairs = []
    for gap in gaps_in(source, where):
        used = _names("\n".join(line for line in lines[gap.last + 1 :])) | (
            afterwards if not gap.indent else set()
        )
        bound = [name for name in gap.assigned if name in used]
        todo = f"{gap.indent}# {gap.exercise} Your turn: {gap.todo}"
        blank = wrap(todo, WIDTH, subsequent_indent=f"{gap.indent}# ", break_on_hyphens=False)
        blank += [f"{gap.indent}{name} = ..." for name in bound] or [f"{gap.indent}..."]
        pairs.append((gap, blank))
    return pairs


def names_needed(source: str) -> set[str]:
    """Return the names that a cell uses but that neither the cell nor `builtins` defines."""
    nodes = list(ast.walk(ast.parse(source)))
    used = {
        node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }
    bound = {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    }
    bound |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    bound |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    bound |= {
        (alias.asname or alias.name).split(".")[0]
        for node in nodes
        for alias in getattr(node, "names", ())
        if isinstance(alias, ast.alias)
    }
    return used - bound - set(dir(builtins))


def _names(source: str) -> set[str]:
    return set(re.findall(r"\b[A-Za-z_]\w*", source))


def without_check(source: str) -> str:
    """Return a cell's source without its final check(), so that no attempt is counted."""
    last = parsed(source, "").body[-1:]
    if last and re.match(r"check\(", ast.unparse(last[0])):
        return "\n".join(source.splitlines()[: last[0].lineno - 1]).rstrip()
    return source


@dataclass(frozen=True)
class Reference:
    """An exercise's reference answer: a cell of a solved notebook.

    `cell` is the source of the cell without its check(), and `answers` has the expressions that the
    cell passes to check().
    """

    path: Path
    cell: str
    answers: tuple[str, ...]


@cache
def _references(path: Path) -> dict[str, Reference]:
    cells = [source_of(c) for c in read_notebook(path)["cells"] if c["cell_type"] == "code"]
    arguments: dict[str, tuple[str, ...]] = {}
    for source in cells:
        for node in ast.walk(parsed(source, str(path))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "check"
                and node.args
            ):
                name, *answers = node.args
                if isinstance(name, ast.Constant) and isinstance(name.value, str):
                    arguments[name.value] = tuple(ast.unparse(answer) for answer in answers)
    return {
        gap.exercise: Reference(path, without_check(source), arguments[gap.exercise])
        for source in cells
        for gap in gaps_in(source, path.name)
        if gap.exercise in arguments
    }


def reference(exercise: str) -> Reference:
    """Return the reference answer of an exercise, read from the solved notebook.

    :raises UnknownExerciseError: if the solved notebook is not available.
    """
    for path in lessons(solved=True):
        if lesson_of(path.stem) == lesson_of(exercise) and path.parent.name == "solutions":
            reference_found = _references(path).get(exercise)
            if reference_found is not None:
                return reference_found
    raise UnknownExerciseError(f"""The solved notebook of {exercise} is missing, so there is no
        reference answer.
        next:  run this from a whole copy of the repository; or solve {exercise} with hint().""")
