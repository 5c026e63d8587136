"""Names that a module has not: where else they are, as the line to write."""

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
# The names of the course, which builds on this package and is not imported by it.
COURSE = (
    *("built", "check", "given", "hint", "predict"),
    *("progress", "puzzle", "share", "solution", "verify"),
)


def not_in(
    module: str, name: str, instead: Mapping[str, str], known: Iterable[str]
) -> AttributeError | ImportError:
    """Return the error for a name that `module` has not, raised by its `__getattr__`: an
    ImportError for `from … import`, an AttributeError for all who ask otherwise."""
    asking = sys._getframe(2)
    if asking.f_code.co_filename.startswith("<frozen importlib"):  # looks for a submodule next
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
    """Return the line that imports a name from where it is; "" where none of ours has it."""
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
