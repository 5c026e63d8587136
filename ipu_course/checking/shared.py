"""One line for an answer that passed, which anybody can replay: a class ladder without a server.

    01.2 1304 modelled cycles, digest 1f0c2a77d3b9, code 8e4d0f2b61aa

The digest covers what the check saw: values, or the reports of its runs. The code is hashed as
Python reads it, so that spaces and comments do not matter; helpers that it calls from other cells
are not in it, and another release of Python may read it in another way.
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

Code = Callable[..., object]  # a function or a class
DIGITS = 12  # The number of digits of a hash.
LONGEST_KEPT = 4000  # The maximum number of characters of an answer, with everything that it needs.
LINE = re.compile(
    rf"({EXERCISE}) (?:([\d.]+) ([a-z0-9 ]+), |)digest ([0-9a-f]{{12}}), code ([0-9a-f]{{12}})"
)


@dataclass(frozen=True)
class Shared:
    """The parts of a line of share()."""

    name: str
    figure: str
    unit: str
    digest: str
    code: str

    def __str__(self) -> str:
        cost = f"{self.figure} {self.unit}, " if self.figure else ""
        return f"{self.name} {cost}digest {self.digest}, code {self.code}"


def parsed(line: str) -> Shared:
    """Return the parts of a line.

    :raises LessonError: if it is not a line of share().
    """
    match = LINE.fullmatch(" ".join(line.split())) if isinstance(line, str) else None
    if match is None:
        raise LessonError(f"""{shown(line)} is not a line of share().
            next:  give the whole line as text, as verify("01.2 1304 modelled cycles, digest …, code
            …", balance).""")
    return Shared(*(part or "" for part in match.groups()))


def line_for(
    name: str, figure: float | None, unit: str, evidence: object, answer: object
) -> Shared | None:
    """Return the line for an answer; None if its source cannot be read, as for a C function.

    `figure` is the answer's cost in `unit`, or None; `evidence` is that of `Passed`.
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
    """Return the source text of an answer, or raise Python's own error if it has none.

    Python finds the source of a class through the file of its module, which a notebook does not
    have. Here a class is found through its compute(), or through the first of its functions.
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
    """Return the code of an answer as Python parses it, without comments.

    It is the repr of a value that cannot be called, and None if the code cannot be read.
    """
    if not callable(answer):
        return repr(answer)
    try:
        return ast.unparse(ast.parse(text_of(answer)))
    except Exception:  # no file, no source text, or not valid Python by itself
        return None


def alone(answer: object) -> str | None:
    """Return the text of a function or class, preceded by everything it needs from its notebook.

    It needs imports, helpers and plain values. The result is None if that cannot be written as
    text, or is too long.
    """
    if not callable(answer):
        return None
    parts: dict[str, str] = {}
    names = _globals(answer)

    def add(name: str, thing: object) -> None:
        if name in parts:
            return
        parts[name] = ""  # mark as visited, so that indirect recursion ends
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
        parts[name] = line  # moved behind the definitions that it needs

    try:
        add(last_name(ast.parse(text_of(answer))), answer)
    except Exception:  # no source text, or a name in it whose value is not plain
        return None
    text = "\n".join(parts.values()) + "\n"
    return text if len(text) <= LONGEST_KEPT else None


def last_name(tree: ast.Module) -> str:
    """Return the last name that a text defines.

    :raises ValueError: if it defines none.
    """
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Assign):
        return ast.unparse(last.targets[0])
    if not isinstance(last, (ast.FunctionDef, ast.ClassDef)):
        raise ValueError("it defines nothing")
    return last.name


def _globals(thing: object) -> dict[str, object] | None:
    """Return the globals of a function, or of the functions of a class."""
    things = [thing, *vars(thing).values()] if isinstance(thing, type) else [thing]
    return next((part.__globals__ for part in things if inspect.isfunction(part)), None)


def _words(evidence: object) -> Iterable[str]:
    """Return the evidence of a check as words that are the same in every process."""
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
