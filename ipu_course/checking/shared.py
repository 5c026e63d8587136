"""The line that share() prints for an answer that passed, so that others can verify the answer:

    01.2 1304 modelled cycles, digest 1f0c2a77d3b9, code 8e4d0f2b61aa

A class can compare such lines without a server. The digest is a hash of what the check saw: values,
or the reports of its runs. The code hash is computed from the parsed code, so spaces and comments
do not matter. The code hash does not cover functions in other cells that the answer calls, and it
may differ between versions of Python.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from textwrap import dedent

import numpy as np

from ipu_course.checking.gaps import names_needed
from ipu_course.checking.naming import EXERCISE
from ipu_teach.errors import LessonError, shown
from ipu_teach.report import Report

Code = Callable[..., object]  # A function or a class.
DIGITS = 12  # The number of digits of a hash.
LONGEST_KEPT = 4000  # The maximum characters of a stored answer with everything that it needs.
LINE = re.compile(
    rf"({EXERCISE}) (?:([\d.]+) ([a-z0-9 ]+), |)digest ([0-9a-f]{{12}}), code ([0-9a-f]{{12}})"
)


@dataclass(frozen=True)
class Shared:
    """The parts of a line of share(): exercise, cost, unit, digest and code hash."""

    name: str
    figure: str
    unit: str
    digest: str
    code: str

    def __str__(self) -> str:
        cost = f"{self.figure} {self.unit}, " if self.figure else ""
        return f"{self.name} {cost}digest {self.digest}, code {self.code}"


def parsed(line: str) -> Shared:
    """Return the fields of a line of share().

    :raises LessonError: if `line` is not a line of share().
    """
    match = LINE.fullmatch(" ".join(line.split())) if isinstance(line, str) else None
    if match is None:
        raise LessonError(f"""{shown(line)} is not a line that share() returned.
            next:  give the whole line as text, such as verify("01.2 1304 modelled cycles, digest …,
            code …", balance).""")
    return Shared(*(part or "" for part in match.groups()))


def line_for(
    name: str, figure: float | None, unit: str, evidence: object, answer: object
) -> Shared | None:
    """Return the line of share() for an answer; None if its source cannot be read.

    `figure` is the answer's cost in `unit`, or None. `evidence` is what the check saw: values or
    reports.
    """
    code = code_of(answer)
    if code is None:
        return None
    cost = "" if figure is None else f"{figure:.10g}"
    return Shared(
        name,
        figure=cost,
        unit=unit if cost else "",
        digest=_hashed(_words(evidence)),
        code=_hashed([code]),
    )


def _hashed(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:DIGITS]


def text_of(answer: Code) -> str:
    """Return the source text of a function or class.

    `inspect.getsource` cannot find a class that was defined in a notebook, because the notebook's
    module has no file. Therefore a class is found through its method compute(), or through the
    first of its other functions. If the source is not available, Python's own exception is raised.
    """
    methods = filter(inspect.isfunction, vars(answer).values()) if isinstance(answer, type) else ()
    compute = getattr(answer, "compute", None) if methods else None
    compute = compute or next(iter(methods), None)
    if compute is None:
        return dedent(inspect.getsource(answer)).rstrip()
    code = inspect.unwrap(compute).__code__
    lines = linecache.getlines(code.co_filename)
    (definition,) = (
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.ClassDef)
        and node.name == answer.__name__
        and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
    )
    return dedent("".join(lines[definition.lineno - 1 : definition.end_lineno])).rstrip()


def code_of(answer: object) -> str | None:
    """Return the source code of an answer without comments, in Python's standard format.

    For a value that cannot be called, return its repr. Return None if the code cannot be read.
    """
    if not callable(answer):
        return repr(answer)
    try:
        return ast.unparse(ast.parse(text_of(answer)))
    except Exception:  # There is no source text, or it is not valid Python by itself.
        return None


def alone(answer: object) -> str | None:
    """Return the text of a function or class, preceded by everything it needs from its notebook.

    These are imports, other functions and classes, and values. The result is None if one of them
    cannot be written as text, or if the text is longer than `LONGEST_KEPT`.
    """
    if not callable(answer):
        return None
    parts: dict[str, str] = {}
    names = _globals(answer)

    def add(name: str, thing: object) -> None:
        if name in parts:
            return
        # This entry prevents an endless loop if functions call each other.
        parts[name] = ""
        home = sys.modules.get(str(getattr(thing, "__module__", "")))
        defined_name = getattr(thing, "__name__", name)
        if inspect.ismodule(thing):
            line = f"import {defined_name} as {name}"
        elif callable(thing) and names is not None and _globals(thing) is names:
            line = text_of(thing)
            for needed in sorted(names_needed(line) & names.keys()):
                add(needed, names[needed])
            line += f"\n{name} = {defined_name}" if last_name(ast.parse(line)) != name else ""
        elif thing is getattr(home, defined_name, None):
            line = f"from {thing.__module__} import {defined_name} as {name}"
        else:
            ast.literal_eval(repr(thing))
            line = f"{name} = {thing!r}"
        del parts[name]
        # This moves the entry behind the entries of the definitions that it needs.
        parts[name] = line

    try:
        add(last_name(ast.parse(text_of(answer))), answer)
    except Exception:  # There is no source text, or it needs a value that cannot be written.
        return None
    text = "\n".join(parts.values()) + "\n"
    return text if len(text) <= LONGEST_KEPT else None


def last_name(tree: ast.Module) -> str:
    """Return the last name that the code defines.

    :raises ValueError: if the last statement defines no name.
    """
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Assign):
        return ast.unparse(last.targets[0])
    if not isinstance(last, (ast.FunctionDef, ast.ClassDef)):
        raise ValueError("it defines nothing")
    return last.name


def _globals(thing: object) -> dict[str, object] | None:
    """Return the global names of a function or of a class's first function; None without one."""
    things = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
    return next((part.__globals__ for part in things if inspect.isfunction(part)), None)


def _words(evidence: object) -> Iterable[str]:
    """Yield the evidence of a check as strings, which are the same in every run."""
    if isinstance(evidence, Report):
        yield evidence.digest()
    elif isinstance(evidence, (list, tuple)):
        for part in evidence:
            yield from _words(part)
    elif isinstance(evidence, np.ndarray):
        yield from map(repr, evidence.ravel().tolist())
    elif isinstance(evidence, (int, float, np.number, Fraction)):
        yield repr(float(evidence))
    else:
        yield repr(evidence)
