"""Leave a module as it was before it was captured.

The forward of a module may keep tensors, count its calls, and append to lists. While it is
captured, these tensors have no elements. `Snapshot` records the attributes of all submodules, the
containers and objects in them, and what their hooks refer to, and puts everything back.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

_LIMIT = 100_000  # objects that are visited, and elements of one container
_LARGEST = 1 << 24  # bytes of an array that is copied
_LIBRARIES = ("torch", "numpy", "builtins", "ipu_teach", *sys.stdlib_module_names)


class Snapshot:
    """The state of a module's Python objects. `restore` puts them back."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._entries: list[tuple[str, Callable[[], bool], Callable[[], None]]] = []
        self._seen: set[int] = set()
        self._alive: list[Any] = []  # so that no other object gets a number of `_seen`
        waiting: list[tuple[str, Any]] = [("", module)]
        while waiting and len(self._seen) < _LIMIT:
            name, value = waiting.pop()
            if isinstance(value, (str, bytes, int, float, torch.Tensor, type, ModuleType)):
                continue
            if id(value) in self._seen:
                continue
            self._seen.add(id(value))
            self._alive.append(value)
            waiting += self._visited(name, value)

    def _visited(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        """Record a value, and return those in it, by what they are called."""
        if isinstance(value, dict):
            return self._dict(name, value)
        if isinstance(value, (list, deque)):
            before = list(value)
            self._add(name, lambda: _same(value, before), lambda: _refill(value, before))
            return _elements(name, before)
        if isinstance(value, set):
            members = set(value)
            self._add(name, lambda: value == members, lambda: _reset(value, members))
            return _elements(name, members)
        if isinstance(value, (tuple, frozenset)):
            return _elements(name, value)
        if isinstance(value, np.ndarray):
            return self._array(name, value)
        if isinstance(value, FunctionType):
            return self._function(name, value)
        if isinstance(value, MethodType):
            return [(name, value.__self__), (name, value.__func__)]
        if isinstance(value, partial):
            return [(name, value.func), (name, value.args), (name, value.keywords)]
        if isinstance(value, torch.nn.Module) or _is_users(value):
            return self._dict(name, vars(value), is_object=True)
        return ()

    def _dict(
        self, name: str, value: dict[Any, Any], is_object: bool = False
    ) -> Iterable[tuple[str, Any]]:
        before = dict(value)
        names = _names(name, before, is_object)
        if is_object:  # an attribute at a time, which is what an error names
            self._add(name, lambda: _same_keys(value, before), lambda: _reset(value, before))
            for key, known in before.items():
                self._add(
                    names[key],
                    lambda key=key, known=known: value.get(key) is known,  # type: ignore[misc]
                    lambda: None,
                )
        else:
            self._add(name, lambda: _same_items(value, before), lambda: _reset(value, before))
        if len(before) > _LIMIT:
            return ()
        return [(names[key], known) for key, known in before.items()]

    def _array(self, name: str, value: Any) -> Iterable[tuple[str, Any]]:
        if value.dtype == object or value.nbytes > _LARGEST or not value.flags.writeable:
            return ()
        before = value.copy()
        self._add(
            name,
            lambda: value.tobytes() == before.tobytes(),
            lambda: np.copyto(value, before),
        )
        return ()

    def _function(self, name: str, value: FunctionType) -> Iterable[tuple[str, Any]]:
        inner = [(name, v) for v in (value.__dict__, value.__defaults__, value.__kwdefaults__) if v]
        for cell in value.__closure__ or ():
            try:
                before = cell.cell_contents
            except ValueError:  # not yet assigned
                continue
            self._add(
                name,
                lambda cell=cell, before=before: _content(cell) is before,  # type: ignore[misc]
                lambda cell=cell, before=before: setattr(cell, "cell_contents", before),  # type: ignore[misc]
            )
            inner.append((name, before))
        return inner

    def _add(self, name: str, is_same: Callable[[], bool], restore: Callable[[], None]) -> None:
        self._entries.append((name, is_same, restore))

    def changed(self) -> list[str]:
        """Return the names of attributes and containers that are not as they were."""
        return list(dict.fromkeys(name for name, is_same, _ in self._entries if not is_same()))

    def restore(self) -> None:
        """Put everything back."""
        for _, _, restore in self._entries:
            restore()


def _is_users(value: Any) -> bool:
    """Whether a value has attributes, and its class is not of a library that has its own state."""
    package = str(getattr(type(value), "__module__", "")).partition(".")[0]
    return package not in _LIBRARIES and hasattr(value, "__dict__") and not callable_class(value)


def callable_class(value: Any) -> bool:
    """Whether a value is a class."""
    return isinstance(value, type)


def _names(name: str, members: dict[Any, Any], is_object: bool) -> dict[Any, str]:
    """Return what the members of an object or a dict are called."""
    if not is_object:
        return {key: f"{name}[{key!r}]" if isinstance(key, (str, int)) else name for key in members}
    inner = {"_modules": name, "_parameters": name, "_buffers": name}
    dot = f"{name}." if name else ""
    return {key: inner.get(key, f"{dot}{key}") for key in members}


def _elements(name: str, values: Iterable[Any]) -> list[tuple[str, Any]]:
    elements = list(values)
    return [(name, v) for v in elements] if len(elements) <= _LIMIT else []


def _same(values: Iterable[Any], before: list[Any]) -> bool:
    now = list(values)
    return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))


def _same_keys(value: dict[Any, Any], before: dict[Any, Any]) -> bool:
    return value.keys() == before.keys()


def _same_items(value: dict[Any, Any], before: dict[Any, Any]) -> bool:
    return value.keys() == before.keys() and all(value[k] is v for k, v in before.items())


def _refill(value: Any, before: list[Any]) -> None:
    if not _same(value, before):
        value.clear()
        value.extend(before)


def _reset(value: Any, before: Any) -> None:
    if isinstance(value, dict) and _same_items(value, before):
        return
    value.clear()
    value.update(before)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None
