"""Restore a module to its state before the capture.

A module's forward may store tensors, count its calls, or append to lists. During the capture, the
stored tensors have no elements, so these changes have to be undone. A `Snapshot` records all
objects that the module's code can reach: the attributes of all submodules and of their classes, the
containers and objects in these attributes, and the global and enclosing variables of methods and
hooks. It reports changes and undoes them.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch

from ipu_teach._support.own_code import is_own_module
from ipu_teach.frontends.pytorch.containers import builtin_type, elements, members
from ipu_teach.frontends.pytorch.private import accumulation_hooks, gradient_hooks
from ipu_teach.types import Array

_LIMIT = 100_000  # The maximum number of visited objects, and of recorded elements of a container.
_LARGEST = 1 << 24  # The maximum number of bytes of an array that is copied.
_LIBRARIES = {"torch", "numpy", "builtins", *sys.stdlib_module_names} - {"__main__"}
# The users of a module do not see these attributes, so they do not appear in the names in errors.
_INNER = ("_modules", "_parameters", "_buffers")

Named = tuple[str, object]
Elements = list[object] | deque[object] | set[object]


class Snapshot:
    """The state of the Python objects that a module's code can reach."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._records: list[_Record] = []
        self._visited: dict[int, object] = {}  # keeps the objects alive, so that no id is reused
        tensors = [*module.parameters(), *module.buffers()]
        hooks = [h for t in tensors for h in (*gradient_hooks(t), *accumulation_hooks(t))]
        values_to_visit: list[Named] = [*(("", hook) for hook in hooks), ("", module)]
        while values_to_visit and len(self._visited) < _LIMIT:
            name, value = values_to_visit.pop()
            if id(value) not in self._visited and not isinstance(value, _PLAIN):
                self._visited[id(value)] = value
                values_to_visit += self._visit(name, value)

    def changed(self) -> list[str]:
        """Return the names of the attributes, containers and variables that have changed."""
        return list(dict.fromkeys(n for record in self._records for n in record.changed()))

    def restore(self) -> None:
        """Undo all changes that were made since the snapshot."""
        for record in self._records:
            if record.changed():
                record.restore()

    def _visit(self, name: str, value: object) -> Iterable[Named]:
        """Record the state of a value; return (name, object) for each object it refers to."""
        if isinstance(value, FunctionType):
            return self._function(value) if _is_users(value.__module__) else ()
        if isinstance(value, MethodType):
            return [(name, value.__self__), ("", value.__func__)]
        if isinstance(value, partial):
            return [(name, v) for v in (value.func, value.args, value.keywords)]
        if isinstance(value, type):
            return self._class(value) if _is_users(value.__module__) else ()
        if isinstance(value, torch.nn.Module):
            return [*self._dict(name, vars(value), is_object=True), *self._bases(value)]
        if isinstance(value, np.ndarray):
            return self._array(name, value)
        if isinstance(value, (list, deque, set, dict)):
            return self._container(name, value)
        if isinstance(value, (tuple, frozenset)):
            # A subclass may redefine len(), so use the method of the built-in type.
            is_small = builtin_type(value).__len__(value) <= _LIMIT
            return [(name, v) for v in elements(value)] if is_small else ()
        if _is_users(type(value).__module__) and hasattr(value, "__dict__"):
            return self._dict(name, vars(value), is_object=True)
        return ()

    def _container(self, name: str, value: Elements | dict[object, object]) -> Iterable[Named]:
        """Record the elements of a container, and return (name, element) for each of them."""
        if len(value) > _LIMIT:
            return ()
        if isinstance(value, dict):
            return self._dict(name, value)
        before = elements(value)
        self._records.append(_Container(name, value, before))
        return [(name, v) for v in before]

    def _dict(self, name: str, value: dict[Any, Any], is_object: bool = False) -> Iterable[Named]:
        """Record the members of a dict or object, and return (name, member) for each of them."""
        record = _Dict(name, value, members(value), is_object)
        self._records.append(record)
        return [(record.name_of(key), member) for key, member in record.before.items()]

    def _array(self, name: str, value: Array) -> Iterable[Named]:
        """Record the elements of a numpy array if it is writeable and not too large. Return ()."""
        if value.dtype != object and value.nbytes <= _LARGEST and value.flags.writeable:
            self._records.append(_Array(name, value, value.copy()))
        return ()

    def _bases(self, value: torch.nn.Module) -> list[Named]:
        """Return ("", class) for the class of a module and for each of its base classes."""
        return [("", base) for base in type(value).__mro__]

    def _class(self, value: type) -> Iterable[Named]:
        """Yield (name, function) for each function of a class."""
        for name, member in vars(value).items():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            yield f"{value.__name__}.{name}", function

    def _function(self, function: FunctionType) -> Iterable[Named]:
        """Record the default values and the enclosing and global variables of a function.

        Yield (name, value) for each of them.
        """
        for default in (function.__dict__, function.__defaults__, function.__kwdefaults__):
            if default:
                yield f"{function.__name__}'s defaults", default
        names = function.__code__.co_freevars
        for name, cell in zip(names, function.__closure__ or (), strict=True):
            record = _Cell(name, cell, _content(cell))
            self._records.append(record)
            yield name, record.before
        variables = function.__globals__
        for name in _global_names(function.__code__):
            if name in variables and not isinstance(variables[name], ModuleType):
                self._records.append(_Variable(name, variables, variables[name]))
                yield name, variables[name]


class _Record:
    """The base class of records. A record contains the state of an object before the capture."""

    name: str

    def changed(self) -> list[str]:
        """Return the names whose values have changed since the record was made; [] if none has."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restore the recorded state."""
        raise NotImplementedError


class _Container(_Record):
    """A record of the elements of a list, deque or set."""

    def __init__(self, name: str, value: Elements, before: list[object]) -> None:
        self.name = name
        self.value = value
        self.before = before

    def changed(self) -> list[str]:
        current = elements(self.value)
        is_same = len(current) == len(self.before) and all(map(_is, current, self.before))
        return [] if is_same else [self.name]

    def restore(self) -> None:
        base = builtin_type(self.value)
        base.clear(self.value)
        fill: Callable[..., None] = base.update if base is set else base.extend
        fill(self.value, self.before)


class _Dict(_Record):
    """A record of the members of a dict, or of the attributes of an object."""

    def __init__(
        self, name: str, value: dict[object, object], before: dict[object, object], is_object: bool
    ) -> None:
        self.name = name
        self.value = value
        self.before = before
        self.is_object = is_object

    def name_of(self, key: object) -> str:
        """Return the name of a member for errors, such as `layer.weight` or `cache['x']`."""
        if self.is_object:
            attribute = "" if key in _INNER else str(key)
            return f"{self.name}.{attribute}".strip(".")
        is_path = self.name.rpartition(".")[2] == "" or not isinstance(key, (str, int))
        return f"{self.name}.{key}".strip(".") if is_path else f"{self.name}[{key!r}]"

    def changed(self) -> list[str]:
        current = members(self.value)
        missing = object()
        return [
            self.name_of(key)
            for key in dict.fromkeys((*self.before, *current))
            if current.get(key, missing) is not self.before.get(key, missing)
        ]

    def restore(self) -> None:
        base = builtin_type(self.value)
        base.clear(self.value)
        for key, member in self.before.items():
            base.__setitem__(self.value, key, member)


class _Array(_Record):
    """A record of the elements of a numpy array."""

    def __init__(self, name: str, value: Array, before: Array) -> None:
        self.name = name
        self.value = value
        self.before = before

    def changed(self) -> list[str]:
        return [] if self.value.tobytes() == self.before.tobytes() else [self.name]

    def restore(self) -> None:
        np.copyto(self.value, self.before)


class _Cell(_Record):
    """A record of a variable of an enclosing function."""

    def __init__(self, name: str, cell: CellType, before: object) -> None:
        self.name = name
        self.cell = cell
        self.before = before

    def changed(self) -> list[str]:
        return [] if _content(self.cell) is self.before else [self.name]

    def restore(self) -> None:
        self.cell.cell_contents = self.before


class _Variable(_Record):
    """A record of a global variable."""

    def __init__(self, name: str, variables: dict[str, object], before: object) -> None:
        self.name = name
        self.variables = variables
        self.before = before

    def changed(self) -> list[str]:
        return [] if self.variables.get(self.name) is self.before else [self.name]

    def restore(self) -> None:
        self.variables[self.name] = self.before


_PLAIN = (str, bytes, int, float, complex, type(None), torch.Tensor, ModuleType)


def _is(a: object, b: object) -> bool:
    return a is b


def _is_users(module: str | None) -> bool:
    """Return whether a Python module may contain state of the user's program.

    Modules of this package, of torch, of numpy and of Python's standard library contain none.
    """
    return not is_own_module(module) and (module or "").partition(".")[0] not in _LIBRARIES


def _global_names(code: CodeType) -> set[str]:
    """Return the names of the globals and attributes that a code object uses."""
    inner_code = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return {
        *code.co_names,
        *(name for code_object in inner_code for name in _global_names(code_object)),
    }


def _content(cell: CellType) -> object:
    """Return the value of a variable of an enclosing function, or None if it has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None
