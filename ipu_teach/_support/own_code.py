"""Distinguish the kit's own code from the user's, so that errors and tracebacks show user lines.

The runtime registers its own package. A package that builds on it, such as the course, registers
itself when it is imported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

RUNTIME = "ipu_teach"
_STATELESS = {"torch", "numpy", "builtins", *sys.stdlib_module_names} - {"__main__"}

_prefixes: tuple[str, ...] = ()  # The names of the kit's packages, each followed by a dot.
_folders: tuple[str, ...] = ()
# The prefixes of modules whose vertex classes are described in reports by a sentence, and not by
# their source text.
_libraries: tuple[str, ...] = (f"{RUNTIME}.poplibs.",)


def add_package(name: str, folder: Path) -> None:
    """Register the top-level package `name`, with its files in `folder`, as the kit's own code."""
    global _prefixes, _folders
    _prefixes = (*_prefixes, f"{name}.")
    _folders = (*_folders, f"{folder}{os.sep}")


def add_library(module: str) -> None:
    """Register a module whose vertex classes are shown without their source text."""
    global _libraries
    _libraries = (*_libraries, f"{module}.")


def is_own_module(name: object) -> bool:
    """Return whether the module `name` belongs to the kit; `name` may be None."""
    return f"{name}.".startswith(_prefixes)


def is_users_module(name: object) -> bool:
    """Return whether the module `name` may contain state that belongs to the user's program.

    The modules of the kit, of torch, of numpy and of Python's standard library contain none. `name`
    is the `__module__` of a class or a function. It may be any object, not only a string.
    """
    text = name if isinstance(name, str) else ""
    return not is_own_module(text) and text.partition(".")[0] not in _STATELESS


def is_own_file(path: str) -> bool:
    """Return whether the file `path` belongs to the kit."""
    return path.startswith(_folders)


def is_library(module: str) -> bool:
    """Return whether the vertex classes of a module are shown without their source text."""
    return f"{module}.".startswith(_libraries)


add_package(RUNTIME, Path(__file__).resolve().parents[1])
