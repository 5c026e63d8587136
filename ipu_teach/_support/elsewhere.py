"""Build the error for a name that a module does not have.

If another module has the name, the error shows a line that imports the name from there.
"""

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
# The public names of the course. They are listed, because this package cannot import the course,
# which builds on it.
COURSE = (
    *("built", "check", "given", "hint", "predict"),
    *("progress", "puzzle", "share", "solution", "verify"),
)


def not_in(
    module: str, name: str, instead: Mapping[str, str], known: Iterable[str]
) -> AttributeError | ImportError:
    """Return the error that a module's `__getattr__` raises for a name that the module lacks.

    The error is an ImportError for `from … import`, and an AttributeError otherwise. `module` is
    the name of the module. `instead` maps names that only Poplar has to the advice for each.
    `known` has the names that the module has.
    """
    asking_frame = sys._getframe(2)
    # For `from module import name`, the import system first asks for the attribute, and then looks
    # for a submodule with this name.
    if asking_frame.f_code.co_filename.startswith("<frozen importlib"):
        return AttributeError(name)
    programs: Mapping[str, str] = vars(import_module("ipu_teach.program"))["NOT_HERE"]
    error: AttributeError | ImportError = missing(
        module.removeprefix("ipu_teach.poplibs."), name, {**programs, **instead}, known
    )
    folded_names = {_folded(known_name) for known_name in known}
    if (
        isinstance(error, UnknownNameError)
        and _folded(name) not in folded_names
        and (line := _line(module, name))
    ):
        error = UnknownNameError(error.tried, next_step=f"write {line}.")
    is_from_import = (
        asking_frame.f_code.co_code[max(asking_frame.f_lasti, 0)] == opmap["IMPORT_FROM"]
    )
    if is_from_import and isinstance(error, (NotOfferedError, UnknownNameError)):
        return NotHereImportError(error.tried, next_step=error.next_step)
    return error


def _line(module: str, name: str) -> str:
    """Return the line that imports `name` from another module; "" if no other module has it.

    Names that differ only in case and underscores count as equal.
    """
    for home in HOMES:
        home_module = import_module(home) if home != module else None
        members = vars(home_module) if home_module else {}
        public_names = getattr(home_module, "__all__", None) or [
            member_name
            for member_name, value in members.items()
            if getattr(value, "__module__", "") == home
        ]
        if public_name := {
            _folded(member_name): member_name
            for member_name in public_names
            if member_name[0] != "_"
        }.get(_folded(name)):
            return f"from {home} import {public_name}"
    course = {_folded(word): word for word in COURSE}.get(_folded(name))
    return f"from ipu_course import {course}" if course else ""


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
