"""Find out whether compute() uses more than its fields.

Examples are random numbers, clocks, and lists and variables that all vertices can change. A trace
runs compute() once for all vertices, so a random number would be the same for each vertex and in
every run, and a list would grow only once. If compute() uses such an object, the trace stops, its
side effects are undone, and the vertices run one by one.

Changes of objects that only C code can see, such as the items of a queue, are not noticed.
"""

from __future__ import annotations

import dis
import inspect
import pickle
import random
import secrets
import sys
import sysconfig
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from types import CodeType, FunctionType, MemberDescriptorType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np

from ipu_teach._support.own_code import is_own_module
from ipu_teach.compile.trace import TraceStopped, Value

# The largest array, in bytes, that is copied. A larger one is assumed to be a table that compute()
# only reads.
LARGEST_COPY = 1 << 20
_DRAWING = (random, secrets, np.random)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_STORES = {dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF")}
RandomState = tuple[tuple[Any, ...], bytes]
_CONTAINERS = (list, dict, set, bytearray, deque, np.ndarray)
# The maximum number of objects that are examined, so that a large data structure costs little time.
# All further objects are assumed to be data that compute() only reads.
MOST_OBJECTS = 1000

_LIBRARY_FOLDERS = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))

SLEEPS = "time.sleep() is called, for every vertex"


class _Stopping:
    """A replacement for a module or a generator that returns a different value at every use.

    Any use of the replacement stops the trace. `fault` and `next_step` are texts of the error for a
    codelet that uses the original where that is not allowed.
    """

    def __init__(self, reason: str, fault: str = "", next_step: str = "") -> None:
        self.reason = reason
        self.fault = fault
        self.next_step = next_step

    def __getattr__(self, name: str) -> NoReturn:
        raise TraceStopped(SLEEPS if name == "sleep" else self.reason)

    def __call__(self, *args: Value, **kwargs: Value) -> NoReturn:
        raise TraceStopped(self.reason)


RANDOM = _Stopping(
    "a random number is drawn, another one for every vertex and run",
    "draws random numbers from the host, and each load would give other values",
    "draw them on the device, with poprand.normal or poprand.uniform, into a tensor that is an "
    "Input of the vertex",
)
CLOCK = _Stopping(
    "the time is asked for, which is another one for every vertex and run",
    "reads the clock of the host, and each run would give other values",
    "measure with program.cycle_count(graph, sequence, tile), which counts modelled cycles",
)


def stopping(value: object) -> _Stopping | None:
    """Return the replacement for `value` in a trace, or None if `value` needs no replacement.

    A value needs a replacement if each use of it returns a different result.
    """
    if isinstance(value, _Stopping):
        return value
    if isinstance(value, _GENERATORS) or any(value is module for module in _DRAWING):
        return RANDOM
    if value is time:
        return CLOCK
    if callable(value) and not isinstance(value, type):
        owner = getattr(value, "__self__", None)
        if isinstance(owner, _GENERATORS):
            return RANDOM
        if owner is time or getattr(value, "__module__", None) in ("random", "secrets"):
            return CLOCK if owner is time else RANDOM
    return None


def draws_from(compute: FunctionType, owner: type) -> _Stopping | None:
    """Return `RANDOM` or `CLOCK` if `compute` uses a random number generator or a clock.

    Return None if it uses neither. The learner's functions that `compute` calls by name are
    examined, too. No code runs, so a branch that is never taken counts too.
    """
    waiting = [compute]
    known = {compute}
    while waiting:
        function = waiting.pop()
        names = set(names_of(function.__code__))
        only_sleeps = "sleep" in names and names & set(vars(time)) <= {"sleep", "time"}
        for value in _loaded(function, owner):
            source = RANDOM if value is np.random else stopping(value)
            if source is RANDOM or source is CLOCK and not only_sleeps:
                return source
            is_own = isinstance(value, FunctionType) and not is_own_module(value.__module__)
            if is_own and value not in known:
                waiting.append(value)
                known.add(value)
    return None


def _loaded(function: FunctionType, owner: type) -> Iterator[Any]:
    """Yield the values that a function loads from outside.

    They are globals, variables of outer functions, class attributes of its vertex that are not
    fields, and `np.random`. `owner` is the class of the vertex.
    """
    outer_variables = enclosed(function)
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        previous_value = None
        for instruction in dis.get_instructions(code):
            value = None
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                value = function.__globals__.get(instruction.argval)
            elif instruction.opname == "LOAD_DEREF":
                value = outer_variables.get(instruction.argval)
            elif instruction.opname.startswith("LOAD_FAST") and instruction.argval == "self":
                value = owner
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and previous_value is owner:
                value = inspect.getattr_static(owner, instruction.argval, None)
            elif instruction.opname in ("LOAD_ATTR", "LOAD_METHOD") and previous_value is np:
                value = np.random if instruction.argval == "random" else None
            if value is not None and value is not owner:
                yield value
            previous_value = value


class Purity:
    """A check that `compute` has no side effects.

    Before the trace, it copies the containers and the attributes that `compute` could change. It
    finds them among the objects that `compute`, and the functions it calls, look up by name, and
    among the objects inside these. The copies show what was changed, and are used to restore it.
    """

    def __init__(self, compute: FunctionType, owner: type) -> None:
        self.rebinds = ""  # The name of an outer variable that compute() would assign, or "".
        self.advances = ""  # The name of an iterator that compute() would advance, or "".
        self.printing: set[FunctionType] = set()  # The functions that call print().
        # A tuple (name, object, copy) for each object that can change.
        self._copies: list[tuple[str, Any, Any]] = []
        self._known_ids: set[int] = set()
        waiting = [compute]
        known = {compute}
        while waiting:  # The loop visits compute() and the functions that it calls by name.
            function = waiting.pop()
            self.rebinds = self.rebinds or next(
                _rebound(function.__code__, function.__code__.co_freevars), ""
            )
            self.advances = self.advances or next(_iterators(function, owner), "")
            if "print" in names_of(function.__code__) and "print" not in function.__globals__:
                self.printing.add(function)
            for name, value in _reached(function, owner):
                self._copy(name, value)
                for callee in _functions(value, function):
                    if callee not in known:
                        waiting.append(callee)
                        known.add(callee)
        self._copy(owner.__name__, owner)

    def _copy(self, name: str, value: object) -> None:
        """Copy `value` and the objects inside it. `name` is the name of `value` in the code."""
        waiting = [value]
        while waiting and len(self._known_ids) < MOST_OBJECTS:
            value = waiting.pop()
            is_large = isinstance(value, np.ndarray) and value.nbytes > LARGEST_COPY
            if is_large or id(value) in self._known_ids:
                continue
            if isinstance(value, _CONTAINERS):
                self._copies.append((name, value, value.copy()))
            elif _has_attributes(value):
                self._copies.append((name, value, _attributes(value)))
            elif not isinstance(value, (tuple, frozenset)):
                continue
            self._known_ids.add(id(value))
            waiting += islice(_parts(value), MOST_OBJECTS)

    def settle(self) -> str:
        """Restore everything that was copied and that compute() has changed.

        Return the reason why the trace must stop, or "" if nothing has changed.
        """
        changed = ""
        for name, value, before in self._copies:
            if not _same(value, before):
                changed = changed or f"{name} is changed, and all vertices share it"
                _restore(value, before)
        return changed


def random_state() -> RandomState:
    """Return the state of Python's and numpy's global generators, which all threads share."""
    # The state is pickled, because the arrays in numpy's state cannot be compared with ==.
    return random.getstate(), pickle.dumps(np.random.get_state(legacy=False))


def set_random_state(state: RandomState) -> None:
    """Restore the state of both global generators."""
    random.setstate(state[0])
    np.random.set_state(pickle.loads(state[1]))


def names_of(code: CodeType) -> Iterator[str]:
    """Yield all outer names that a function and the functions inside it look up."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)


def enclosed(function: FunctionType) -> dict[str, object]:
    """Return the values of the outer functions' variables that a function uses, by name.

    Variables without a value are left out.
    """
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


def _reached(function: FunctionType, owner: type) -> Iterator[tuple[str, object]]:
    """Yield (name, value) of the objects that a function uses from outside.

    They are the outer names and the class attributes that it looks up, and the default values of
    its parameters.
    """
    names = set(names_of(function.__code__))
    yield from ((name, value) for name, value in function.__globals__.items() if name in names)
    yield from enclosed(function).items()
    yield from (
        (name, value)
        for base in owner.__mro__
        for name, value in vars(base).items()
        if name in names
    )
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.default is not inspect.Parameter.empty:
            yield name, parameter.default


def _iterators(function: FunctionType, owner: type) -> Iterator[str]:
    """Yield the names of the iterators from outside that a function uses.

    An iterator cannot be copied or restored, and all that a function can do with it is advance it.
    """
    reached = [pair for pair in _reached(function, owner) if isinstance(pair[1], Iterator)]
    if reached:  # The name may be an attribute of another object, so the code is examined, too.
        loaded = {id(value) for value in _loaded(function, owner)}
        parameters = inspect.signature(function).parameters
        yield from (name for name, value in reached if id(value) in loaded or name in parameters)


def _functions(value: object, caller: FunctionType) -> Iterator[FunctionType]:
    """Yield the functions that `caller` may call through `value`.

    They are `value` itself, or the methods of its class that `caller` names.
    """
    if isinstance(value, FunctionType):
        yield value
    elif _has_attributes(value):
        names = set(names_of(caller.__code__)) | {"__init__", "__call__"}
        for base in value.__mro__ if isinstance(value, type) else type(value).__mro__:
            yield from (
                method
                for name, method in vars(base).items()
                if name in names and isinstance(method, FunctionType)
            )


def _has_attributes(value: object) -> bool:
    """Return whether `value` is a class, an object or a function of the user's code."""
    if isinstance(value, FunctionType):
        return _is_users(value.__module__)
    cls = value if isinstance(value, type) else type(value)
    return cls is SimpleNamespace or _is_users(cls.__module__)


def _is_users(module_name: str | None) -> bool:
    """Return whether a module belongs neither to the kit, nor to Python, nor to a library."""
    if not module_name or is_own_module(module_name):
        return False
    if module_name.partition(".")[0] in sys.stdlib_module_names:
        return False
    path = getattr(sys.modules.get(module_name), "__file__", None) or ""
    return not path.startswith(_LIBRARY_FOLDERS)


def _attributes(value: object) -> dict[str, object]:
    """Return the attributes of a class, an object or a function, without special ones."""
    attributes = dict(getattr(value, "__dict__", {}))
    if not isinstance(value, type):
        for base in type(value).__mro__:
            for name, slot in vars(base).items():
                if isinstance(slot, MemberDescriptorType) and hasattr(value, name):
                    attributes[name] = getattr(value, name)
    return {name: part for name, part in attributes.items() if not name.startswith("__")}


def _parts(value: Any) -> Iterable[object]:
    """Return the objects inside an object."""
    if isinstance(value, np.ndarray):
        return value.flat if value.dtype.hasobject else ()
    if isinstance(value, bytearray):
        return ()
    if isinstance(value, dict):
        return value.values()
    return (
        value
        if isinstance(value, Iterable) and not _has_attributes(value)
        else (_attributes(value).values())
    )


def _rebound(code: CodeType, outer_names: tuple[str, ...]) -> Iterator[str]:
    """Yield the outer names that a function assigns, with `global` or `nonlocal`."""
    # Test the bytes first, which is quick: few functions assign outer variables.
    for instruction in dis.get_instructions(code) if _STORES & set(code.co_code[::2]) else ():
        if instruction.opcode in _STORES and (
            instruction.opname != "STORE_DEREF" or instruction.argval in outer_names
        ):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _rebound(constant, outer_names)


def _same(now: Any, before: Any) -> bool:
    if isinstance(now, np.ndarray):
        return np.array_equal(now, before, equal_nan=now.dtype.kind in "fc")
    if not isinstance(now, _CONTAINERS):
        now = _attributes(now)
    if isinstance(now, dict):
        return list(now) == list(before) and all(now[key] is before[key] for key in now)
    if isinstance(now, (list, deque)):
        return len(now) == len(before) and all(a is b for a, b in zip(now, before, strict=True))
    return bool(now == before)


def _restore(value: Any, before: Any) -> None:
    if isinstance(value, np.ndarray):
        value[...] = before
    elif isinstance(value, (list, bytearray)):
        value[:] = before
    elif isinstance(value, deque):
        value.clear()
        value.extend(before)
    elif isinstance(value, (dict, set)):
        value.clear()
        value.update(before)
    else:
        attributes = _attributes(value)
        for name in attributes.keys() - before.keys():
            delattr(value, name)
        for name, part in before.items():
            if name not in attributes or attributes[name] is not part:
                setattr(value, name, part)
