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
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from textwrap import dedent
from typing import Any

import numpy as np

from ipu_teach.errors import LessonError, shown
from ipu_teach.lessons.naming import EXERCISE
from ipu_teach.report import Report

DIGITS = 12  # of a hash
LINE = re.compile(
    rf"({EXERCISE}) (?:([\d.]+) ([a-z0-9 ]+), |)digest ([0-9a-f]{{12}}), code ([0-9a-f]{{12}})"
)


@dataclass(frozen=True)
class Shared:
    """What a line says."""

    name: str
    figure: str
    unit: str
    digest: str
    code: str

    def __str__(self) -> str:
        cost = f"{self.figure} {self.unit}, " if self.figure else ""
        return f"{self.name} {cost}digest {self.digest}, code {self.code}"


def parsed(line: object) -> Shared:
    """The parts of a line. Raises `LessonError` for what is none."""
    found = LINE.fullmatch(" ".join(line.split())) if isinstance(line, str) else None
    if found is None:
        raise LessonError(f"""{shown(line)} is no line of share().
            next:  give the whole line as text, as verify("01.2 1304 modelled cycles, digest …, code
            …", balance).""")
    return Shared(*(part or "" for part in found.groups()))


def line_for(
    name: str, figure: float | None, unit: str, evidence: Any, answer: Any
) -> Shared | None:
    """The line for an answer; None where its code cannot be read, as that of a function of C's."""
    code = code_of(answer)
    cost = "" if figure is None else f"{figure:.10g}"
    return (
        None
        if code is None
        else Shared(name, cost, unit if cost else "", _hashed(_words(evidence)), _hashed([code]))
    )


def _hashed(words: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:DIGITS]


def text_of(answer: Any) -> str:
    """An answer as it was written. Raises what Python raises where there is no text of it.

    Python finds a class by its module's file, which a notebook has not: here by its compute(), or
    by the first of its functions.
    """
    own = filter(inspect.isfunction, vars(answer).values()) if isinstance(answer, type) else ()
    compute = getattr(answer, "compute", None) if own else None
    compute = compute or next(iter(own), None)
    if compute is None:
        return dedent(inspect.getsource(answer)).rstrip()
    code = inspect.unwrap(compute).__code__
    lines = linecache.getlines(code.co_filename)
    (whole,) = (
        node
        for node in ast.walk(ast.parse("".join(lines)))
        if isinstance(node, ast.ClassDef)
        and node.name == answer.__name__
        and node.lineno <= code.co_firstlineno <= (node.end_lineno or 0)
    )
    return dedent("".join(lines[whole.lineno - 1 : whole.end_lineno])).rstrip()


def code_of(answer: Any) -> str | None:
    """The text of an answer as Python reads it, without comments; None where it cannot be read."""
    if not callable(answer):
        return repr(answer)
    try:
        return ast.unparse(ast.parse(text_of(answer)))
    except Exception:  # no file, no text of its own, or nothing that Python reads alone
        return None


def _words(evidence: Any) -> Iterable[str]:
    """What a check saw, as words that are the same in every process."""
    if isinstance(evidence, Report):
        yield evidence.digest()
    elif isinstance(evidence, (list, tuple)):
        for part in evidence:
            yield from _words(part)
    elif isinstance(evidence, np.ndarray):
        yield from map(repr, evidence.ravel().tolist())
    else:
        yield (
            repr(float(evidence))
            if isinstance(evidence, (int, float, np.number, Fraction))
            else repr(evidence)
        )
