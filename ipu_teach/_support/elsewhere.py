"""Errors for names that a module does not have, with the import of the module that has them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from dis import opmap
from importlib import import_module

from ipu_teach.errors import NotHereImportError, NotOfferedError, UnknownNameError, missing

LAYERS = ("bn", "gn", "in_", "ln", "pooling")
LIBRARIES = (
    "popops",
    "poplin",
    "popnn",
    "poprand",
    "popsparse",
    "poputil",
    "unit_scaling",
    "optim",
)
HOMES = (
    "ipu_teach",
    "ipu_teach.program",
    "ipu_teach.poplibs",
    *(f"ipu_teach.poplibs.{name}" for name in LIBRARIES),
    *(f"ipu_teach.poplibs.popnn.{name}" for name in LAYERS),
    "ipu_teach.poplibs.popsparse.static",
    "ipu_teach.poplibs.popsparse.dynamic",
    "ipu_teach.errors",
)
# the names of the course, which builds on this package, so that they cannot be imported here
COURSE = (
    *("built", "check", "given", "hint", "predict"),
    *("progress", "puzzle", "share", "solution", "verify"),
)


def not_in(
    module: str, name: str, instead: Mapping[str, str], known: Iterable[str]
) -> AttributeError | ImportError:
    """Return the error for a name that `module` does not have, for its `__getattr__` to raise.

    It is an ImportError for `from … import`, and an AttributeError otherwise. `instead` maps names
    to advice, and `known` lists the names of the module.
    """
    asking = sys._getframe(2)
    # Python looks for a submodule next
    if asking.f_code.co_filename.startswith("<frozen importlib"):
        return AttributeError(name)
    programs: Mapping[str, str] = vars(import_module("ipu_teach.program"))["NOT_HERE"]
    error: AttributeError | ImportError = missing(
        module.removeprefix("ipu_teach.poplibs."), name, {**programs, **instead}, known
    )
    spelled = {_folded(k) for k in known}
    if (
        isinstance(error, UnknownNameError)
        and _folded(name) not in spelled
        and (line := _line(module, name))
    ):
        error = UnknownNameError(error.tried, next_step=f"write {line}.")
    importing = asking.f_code.co_code[max(asking.f_lasti, 0)] == opmap["IMPORT_FROM"]
    if importing and isinstance(error, (NotOfferedError, UnknownNameError)):
        return NotHereImportError(error.tried, next_step=error.next_step)
    return error


def _line(module: str, name: str) -> str:
    """Return the line that imports `name` from the module that has it; "" if none has."""
    for home in HOMES:
        home_module = import_module(home) if home != module else None
        names = vars(home_module) if home_module else {}
        public = getattr(home_module, "__all__", None) or [
            n for n, value in names.items() if getattr(value, "__module__", "") == home
        ]
        if public_name := {_folded(n): n for n in public if n[0] != "_"}.get(_folded(name)):
            return f"from {home} import {public_name}"
    course = {_folded(word): word for word in COURSE}.get(_folded(name))
    return f"from ipu_course import {course}" if course else ""


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
