"""The texts of scalar loops, made into functions as they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

from ipu_teach.compile.scalar import ScalarCode
from ipu_teach.engine.scalar.text import python_text
from ipu_teach.target import Target

FOREVER = 1 << 62  # more cycles than a loop may ever count


class Program:
    """The functions of one codelet on one target."""

    def __init__(self, code: ScalarCode, target: Target) -> None:
        self.code, self.target = code, target
        space: dict[str, Any] = {}
        name = code.codelet.__name__
        exec(compile(python_text(code, target), f"<{name}, counted>", "exec"), space)
        self.python: Callable[..., int] = space["vertex"]
        self.long: type[Exception] = space["Long"]


_programs: WeakKeyDictionary[ScalarCode, Program] = WeakKeyDictionary()


def program_of(code: ScalarCode, target: Target) -> Program:
    """The functions of `code`, made once."""
    found = _programs.get(code)
    if found is None or found.target != target:
        found = _programs[code] = Program(code, target)
    return found
