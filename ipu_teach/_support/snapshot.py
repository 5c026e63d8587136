"""Record the state of all Python objects that functions and objects can reach, and restore it.

A `Snapshot` records the attributes of objects and classes, the elements of containers, and the
global variables, enclosing variables and default values of functions. It can list what has changed
since then, and undo the changes. State inside objects of C code, such as a queue or an iterator, is
not recorded.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from types import (
    CellType,
    CodeType,
    FunctionType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, TypeVar

import numpy as np

from ipu_teach._support.containers import builtin_type, elements, members
from ipu_teach._support.own_code import is_users_module

# The maximum number of objects that are visited, and of elements that are recorded for a container.
_LIMIT = 100_000
_PLAIN = (str, bytes, int, float, complex, type(None), ModuleType)

Array = np.ndarray[Any, Any]
Key = TypeVar("Key")
Named = tuple[str, object]
Elements = list[object] | deque[object] | set[object] | bytearray


class Snapshot:
    """The state of the user's Python objects, at most `_LIMIT`, that are reached from `roots`.

    `roots` are pairs (name, object). The names of elements and attributes begin with the name of
    the object that contains them. Class attributes, variables and default values have other names.
    A numpy array of more than `largest_array` bytes is not recorded. Neither is an array with which
    the recorded arrays would have more than `most_bytes` bytes in total.
    """

    # Error messages leave these attributes out of the names of objects.
    hidden_attributes: tuple[str, ...] = ()

    def __init__(
        self, roots: Iterable[Named], largest_array: int, most_bytes: float = math.inf
    ) -> None:
        self._largest_array = largest_array
        self._bytes_left = most_bytes
        self._records: list[_Record] = []
        # This dict keeps the objects alive, so that no id is reused.
        self._visited: dict[int, object] = {}
        # Objects are visited in the order of their distance from the roots. Otherwise, a large
        # container could reach the limit before other objects near the roots are visited.
        values_to_visit = deque(roots)
        while values_to_visit and len(self._visited) < _LIMIT:
            name, value = values_to_visit.popleft()
            if id(value) not in self._visited and not isinstance(value, _PLAIN):
                self._visited[id(value)] = value
                values_to_visit += self.visit(name, value)

    def changed(self) -> list[str]:
        """Return the names of the variables, attributes, elements and containers that changed."""
        return list(dict.fromkeys(n for record in self._records for n in record.changed()))

    def restore(self) -> None:
        """Undo all changes that were made since the snapshot."""
        for record in self._records:
            if record.changed():
                record.restore()

    def visit(self, name: str, value: object) -> Iterable[Named]:
        """Record the state of a value; return (name, object) for each object that it refers to."""
        if isinstance(value, FunctionType):
            return self._function(value) if is_users_module(value.__module__) else ()
        if isinstance(value, MethodType):
            return [(name, value.__self__), ("", value.__func__)]
        if isinstance(value, partial):
            return [(name, v) for v in (value.func, value.args, value.keywords)]
        if isinstance(value, type):
            return self._class(value) if is_users_module(value.__module__) else ()
        if isinstance(value, np.ndarray):
            return self._array(name, value)
        inside: list[Named] = []
        if isinstance(value, (list, deque, set, bytearray, dict)):
            inside += self._container(name, value)
        elif isinstance(value, (tuple, frozenset)):
            # A subclass may redefine len(), so use the method of the built-in type.
            is_small = builtin_type(value).__len__(value) <= _LIMIT
            inside += [(name, v) for v in elements(value)] if is_small else ()
        if isinstance(value, SimpleNamespace) or is_users_module(type(value).__module__):
            inside += self.visit_object(name, value)
        return inside

    def visit_object(self, name: str, value: object) -> list[Named]:
        """Record an object's attributes; return (name, object) for each attribute and the class."""
        inside: list[Named] = []
        with suppress(Exception):  # The object may have no __dict__, or raise an error.
            inside += self._dict(name, vars(value), is_object=True)
        slots = _Slots(name, value)
        if slots.before:
            self._records.append(slots)
            inside += [(slots.name_of(key), member) for key, member in slots.before.items()]
        return [*inside, ("", type(value))]

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
        hidden = self.hidden_attributes if is_object else ()
        record = _Dict(name, value, members(value), is_object, hidden)
        self._records.append(record)
        return [(record.name_of(key), member) for key, member in record.before.items()]

    def _array(self, name: str, value: Array) -> Iterable[Named]:
        """Record the elements of a numpy array if it is writeable and not too large.

        Return (name, element) for each element that is a Python object.
        """
        is_small = value.nbytes <= min(self._largest_array, self._bytes_left)
        if is_small and value.flags.writeable:
            self._bytes_left -= value.nbytes
            self._records.append(_Array(name, value, value.copy()))
        return [(name, v) for v in value.flat] if is_small and value.dtype == object else ()

    def _class(self, value: type) -> Iterable[Named]:
        """Record the attributes of a class.

        Yield (name, object) for each attribute and each base class. For a property, class method or
        static method, the object is the function inside it.
        """
        record = _Class(value)
        self._records.append(record)
        for key, member in vars(value).items():
            yield record.name_of(key), _function_in(member)
        yield from (("", base) for base in value.__bases__)

    def _function(self, function: FunctionType) -> Iterable[Named]:
        """Record what a function uses from outside: default values, enclosing and global variables.

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
    """The base class of records. A record stores the state of one object at the snapshot."""

    name: str

    def changed(self) -> list[str]:
        """Return the names whose values have changed since the record was made; [] if none has."""
        raise NotImplementedError

    def restore(self) -> None:
        """Restore the recorded state."""
        raise NotImplementedError


class _Container(_Record):
    """A record of the elements of a list, deque, set or bytearray."""

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
        self,
        name: str,
        value: dict[object, object],
        before: dict[object, object],
        is_object: bool,
        hidden: tuple[str, ...],
    ) -> None:
        self.name = name
        self.value = value
        self.before = before
        self.is_object = is_object
        self.hidden = hidden

    def name_of(self, key: object) -> str:
        """Return the name of a member in error messages, such as `layer.weight` or `cache['x']`."""
        if self.is_object:
            attribute = "" if key in self.hidden else str(key)
            return f"{self.name}.{attribute}".strip(".")
        is_path = self.name.rpartition(".")[2] == "" or not isinstance(key, (str, int))
        return f"{self.name}.{key}".strip(".") if is_path else f"{self.name}[{key!r}]"

    def changed(self) -> list[str]:
        return [self.name_of(key) for key in _different(self.before, members(self.value))]

    def restore(self) -> None:
        base = builtin_type(self.value)
        base.clear(self.value)
        for key, member in self.before.items():
            base.__setitem__(self.value, key, member)


class _Class(_Record):
    """A record of the attributes of a class, except special ones such as `__module__`."""

    def __init__(self, value: type) -> None:
        self.value = value
        self.before = self._members()

    def _members(self) -> dict[str, object]:
        return {
            name: member
            for name, member in vars(self.value).items()
            if not (name.startswith("__") and name.endswith("__"))
        }

    def name_of(self, key: str) -> str:
        """Return the name of an attribute in error messages, such as `Counter.calls`."""
        return f"{self.value.__name__}.{key}"

    def changed(self) -> list[str]:
        current = self._members()
        return [self.name_of(key) for key in _different(self.before, current)]

    def restore(self) -> None:
        # `type.__setattr__` and `type.__delattr__` run no code of the user's metaclass.
        for key in _different(self.before, self._members()):
            if key in self.before:
                type.__setattr__(self.value, key, self.before[key])
            else:
                type.__delattr__(self.value, key)


class _Slots(_Record):
    """A record of those attributes of an object that are stored in slots."""

    def __init__(self, name: str, value: object) -> None:
        self.name = name
        self.value = value
        # Two classes may have slots of the same name.
        self.slots = {
            (base, key): slot
            for base in type(value).__mro__
            if "__slots__" in vars(base)
            for key, slot in vars(base).items()
            if isinstance(slot, MemberDescriptorType)
        }
        self.before = self._members()

    def _members(self) -> dict[tuple[type, str], object]:
        current = {}
        for key, slot in self.slots.items():
            with suppress(AttributeError):  # The slot has no value.
                current[key] = slot.__get__(self.value)
        return current

    def name_of(self, key: tuple[type, str]) -> str:
        """Return the name of an attribute in error messages."""
        return f"{self.name}.{key[1]}".strip(".")

    def changed(self) -> list[str]:
        return [self.name_of(key) for key in _different(self.before, self._members())]

    def restore(self) -> None:
        for key in _different(self.before, self._members()):
            if key in self.before:
                self.slots[key].__set__(self.value, self.before[key])
            else:
                self.slots[key].__delete__(self.value)


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


def _function_in(member: object) -> object:
    """Return the function inside a property or method; return any other member unchanged."""
    if isinstance(member, (staticmethod, classmethod)):
        return member.__func__
    return member.fget if isinstance(member, property) else member


def _is(a: object, b: object) -> bool:
    return a is b


def _different(before: Mapping[Key, object], current: Mapping[Key, object]) -> list[Key]:
    """Return the keys whose values are not the same object in both mappings."""
    missing = object()
    return [
        key
        for key in dict.fromkeys((*before, *current))
        if current.get(key, missing) is not before.get(key, missing)
    ]


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
