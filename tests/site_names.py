"""The public names that the reference of the site must list."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

import ipu_teach

LIBRARIES = [
    "ipu_teach.datasets",
    "ipu_teach.errors",
    "ipu_course",
    "ipu_teach.poplibs.gcl",
    "ipu_teach.poplibs.optim",
    "ipu_teach.poplibs.poplin",
    "ipu_teach.poplibs.popnn",
    "ipu_teach.poplibs.popops",
    "ipu_teach.poplibs.poprand",
    "ipu_teach.poplibs.popsparse",
    "ipu_teach.poplibs.poputil",
    "ipu_teach.poplibs.unit_scaling",
    "ipu_teach.program",
    "ipu_teach.schedules",
    "ipu_teach.show",
]


def public_names(module: ModuleType) -> list[str]:
    """Return the names of a module's public functions and classes."""
    listed = getattr(module, "__all__", None)
    own = [name for name, member in vars(module).items() if is_defined_in(member, module)]
    names = own if listed is None else listed
    return [n for n in names if is_function_or_class(getattr(module, n)) and not n.startswith("_")]


def is_function_or_class(value: Any) -> bool:
    """Return whether the value is a function or a class."""
    return inspect.isfunction(value) or inspect.isclass(value)


def top_names() -> list[str]:
    """Return the public names of `ipu_teach` that the reference lists at the top.

    Its modules and errors have pages of their own.
    """
    return [n for n in ipu_teach.__all__ if n != "program" and not hasattr(ipu_teach.errors, n)]


def is_defined_in(value: Any, module: ModuleType) -> bool:
    """Return whether the value is a function or a class that the module defines."""
    return is_function_or_class(value) and value.__module__ == module.__name__
