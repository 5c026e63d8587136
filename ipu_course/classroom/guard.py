"""Limit the rights of a process that runs other people's code, and undo changes to the kit's code.

`Original` records the functions, classes and constants of the kit and of numpy, and restores them.
`fence` refuses file changes outside a folder, new processes and network connections. `limit` bounds
memory and processor time.

These measures work inside Python. Code that searches the memory of its process, or that is not
Python code, can evade them. Only a container or a separate account of the system stops such code.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import fields
from types import FunctionType, ModuleType
from typing import Any

from ipu_course.checking.exercise import catalogue
from ipu_teach._support.own_code import is_own_module

# Modules of the standard library that checks use.
STANDARD = (
    *("builtins", "math", "cmath", "operator", "functools", "itertools", "copy", "json", "ast"),
    *("inspect", "linecache", "time", "threading", "types", "dataclasses", "contextlib", "random"),
    *("collections", "collections.abc", "fractions", "statistics", "re", "textwrap", "string"),
    *("ctypes", "os", "posixpath", "ntpath", "genericpath", "stat", "io", "pathlib"),
)
TABLES = (dict, list, set)
# Functions whose names may be rebound at any time, because interactive shells rebind them.
OF_SHELLS = ("builtins.display", "builtins.get_ipython", "builtins.exit", "builtins.quit")
# Python has no audit events for these functions of `os`, so they are removed.
UNAUDITED = ("mkfifo", "mknod", "chroot", "pidfd_open")


def _is_constant(name: str, value: object) -> bool:
    plain = (int, float, str, bytes, tuple, frozenset)
    return name.isupper() and isinstance(value, plain)


class Original:
    """The code of the kit, of numpy and of parts of the standard library at one moment."""

    def __init__(self) -> None:
        self._modules: dict[str, ModuleType] = {}
        self._names: list[tuple[str, Any, str, object]] = []  # (place, owner, name, object)
        self._code: dict[int, tuple[str, FunctionType, tuple[object, ...]]] = {}
        self._tables: list[tuple[str, Any, Any]] = []  # (place, table, copy)
        self._fields: list[tuple[str, object, str, object]] = []
        for name, module in list(sys.modules.items()):
            is_kit = is_own_module(name)
            if type(module) is ModuleType and (
                is_kit or name in STANDARD or name.split(".")[0] == "numpy"
            ):
                self._modules[name] = module
                self._record(name, module, is_kit)
        for lesson in catalogue():
            for item in lesson.items:
                self._fields += [
                    (f"exercise {item.name}", item, field.name, getattr(item, field.name))
                    for field in fields(item)
                ]

    def _record(self, place: str, owner: ModuleType | type, is_kit: bool) -> None:
        for name, value in list(vars(owner).items()):
            of_class = isinstance(value, (staticmethod, classmethod, property))
            is_code = callable(value) or of_class or isinstance(value, ModuleType)
            if is_code or is_kit and _is_constant(name, value):
                self._names.append((f"{place}.{name}", owner, name, value))
            # The tables of the runtime are registries and caches, which grow while it runs.
            elif place.startswith("ipu_course") and name.isupper() and isinstance(value, TABLES):
                self._tables.append((f"{place}.{name}", value, value.copy()))
            function = value
            if isinstance(value, property):
                function = value.fget
            elif isinstance(value, (staticmethod, classmethod)):
                function = value.__func__
            if isinstance(function, FunctionType) and is_own_module(function.__module__):
                place_of_code = f"{function.__module__}.{function.__qualname__}"
                self._code[id(function)] = (place_of_code, function, _code_of(function))
            is_local = isinstance(value, type) and value.__module__ == place
            if is_local and isinstance(owner, ModuleType):
                self._record_class(f"{place}.{name}", value)

    def _record_class(self, place: str, owner: type) -> None:
        if owner.__flags__ & (1 << 8):  # Python refuses changes of such classes.
            return
        self._record(place, owner, is_kit=False)

    def restore(self) -> list[str]:
        """Undo all changes, and return the places that had changed."""
        changed: list[str] = []
        free = {*OF_SHELLS, *(f"os.{name}" for name in UNAUDITED)}
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                sys.modules[name] = module
                changed.append(name)
        for place, owner, name, value in self._names:
            if vars(owner).get(name, self) is not value and place not in free:
                with suppress(AttributeError, TypeError):
                    setattr(owner, name, value)
                    changed.append(place)
        for place, function, code in self._code.values():
            now = _code_of(function)
            if any(a is not b for a, b in zip(now, code, strict=True)):
                function.__code__, function.__defaults__, function.__kwdefaults__ = code  # type: ignore[assignment]
                changed.append(place)
        for place, table, copy in self._tables:
            if not _same(table, copy):
                _fill(table, copy)
                changed.append(place)
        for place, item, name, value in self._fields:
            if getattr(item, name) is not value:
                object.__setattr__(item, name, value)
                changed.append(place)
        return changed


def _code_of(function: FunctionType) -> tuple[object, ...]:
    return function.__code__, function.__defaults__, function.__kwdefaults__


def _same(table: Any, copy: Any) -> bool:
    if len(table) != len(copy):
        return False
    if isinstance(table, set):
        return bool(table == copy)
    if isinstance(table, dict):
        return all(table.get(key, table) is value for key, value in copy.items())
    return all(a is b for a, b in zip(table, copy, strict=True))


def _fill(table: Any, copy: Any) -> None:
    table.clear()
    if isinstance(table, list):
        table.extend(copy)
    else:
        table.update(copy)


# Maps each audit event of Python (PEP 578) that changes files to the indices of the arguments that
# are paths.
CHANGES: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.mkdir", "os.truncate", "os.chmod"), (0,)),
    **dict.fromkeys(("os.chown", "os.utime", "os.setxattr", "os.removexattr", "os.chflags"), (0,)),
    **dict.fromkeys(("shutil.rmtree", "shutil.chown", "sqlite3.connect"), (0,)),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink"), (0, 1)),
    **dict.fromkeys(("shutil.move",), (0, 1)),
}
# Maps an audit event to the index of the argument with the descriptor of the folder to which a path
# is relative. If an event has two paths, it has two such indices.
RELATIVE: dict[str, tuple[int, ...]] = {
    "os.remove": (1,),
    "os.rmdir": (1,),
    "os.mkdir": (2,),
    "os.chmod": (2,),
}
RELATIVE |= {"os.chown": (3,), "os.utime": (3,), "os.rename": (2, 3), "os.link": (2, 3)}
RELATIVE |= {"os.symlink": (2, 2)}
REFUSED = (
    *("subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn"),
    *("os.spawn", "os.startfile", "os.startfile/2", "os.kill", "os.killpg"),
    *("signal.pthread_kill", "socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg"),
    *("socket.getaddrinfo", "pty.spawn", "ctypes.dlopen", "ctypes.dlsym", "gc.get_objects"),
    *("gc.get_referrers", "gc.get_referents", "winreg.CreateKey", "winreg.DeleteKey"),
    *("winreg.SetValue", "sys.remote_exec"),
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def fence(folder: str) -> None:
    """Refuse, from now on, all calls by which this process could affect anything outside `folder`.

    These are changes of files outside the folder, new processes, signals, network connections and
    calls of C libraries. Each of them raises `PermissionError`. All files can be read.
    """
    root = os.path.realpath(folder)
    realpath, isdir, join = os.path.realpath, os.path.isdir, os.path.join
    fspath, sep, null = os.fsdecode, os.sep, os.devnull
    changes, relative, refused, writes = dict(CHANGES), dict(RELATIVE), frozenset(REFUSED), WRITES

    def place_of(path: object, folder: object = None) -> str:
        """Return the real path of a descriptor, or of a path relative to descriptor `folder`."""
        if isinstance(path, int):
            return realpath(f"/proc/self/fd/{path}")
        base = realpath(f"/proc/self/fd/{folder}") if folder not in (-1, None) else ""
        return realpath(join(base, fspath(path)))  # type: ignore[arg-type]

    def refuse_outside(event: str, path: object, folder: object = None) -> None:
        place = place_of(path, folder)
        if place != root and place != null and not place.startswith(root + sep):
            refuse(event, path)

    def refuse(event: str, detail: object = "") -> None:
        raise PermissionError(f"A graded notebook may not do this: {event} {detail}".strip())

    def handle(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            # A descriptor of a folder outside could be used to change the files in it.
            if not isinstance(path, int) and (flags & writes or isdir(path)):
                refuse_outside(event, path)
        elif event in refused:
            refuse(event)
        elif event in changes:
            for number, index in enumerate(changes[event]):
                bases = relative.get(event, ())
                folder = arguments[bases[number]] if number < len(bases) else None
                refuse_outside(event, arguments[index], folder)

    for module in (os, sys.modules.get("posix")):
        for name in UNAUDITED:
            if hasattr(module, name):
                delattr(module, name)
    sys.addaudithook(handle)


def limit(memory: int, seconds: int) -> None:
    """Bound this process: `memory` in bytes, and `seconds` of processor time.

    Files that it writes are bounded to 64 MB each. Windows has no such limits.
    """
    try:
        import resource
    except ImportError:
        return
    for name, value in (
        ("RLIMIT_AS", memory),
        ("RLIMIT_CPU", seconds),
        ("RLIMIT_FSIZE", 1 << 26),
        ("RLIMIT_CORE", 0),
    ):
        # macOS refuses some of these limits.
        with suppress(ValueError, OSError, AttributeError):
            resource.setrlimit(getattr(resource, name), (value, value))
