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
        reached: list[tuple[str, object]] = []
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
                reached.append((name, value))
                for callee in _functions(value, function):
                    if callee not in known:
                        waiting.append(callee)
                        known.add(callee)
        reached.append((owner.__name__, owner))
        # The objects that the code names come first: a large table must not hide another object.
        for name, value in reached:
            self._copy(name, value)
        self._copy_parts(reached)

    def _copy(self, name: str, value: object) -> int:
        """Copy `value`, unless it is known or large. Return the number of bytes of the copies."""
        num_bytes = 0
        if id(value) not in self._known_ids:
            self._known_ids.add(id(value))
            for state in _states(value):
                if not isinstance(state, np.ndarray) or state.nbytes <= LARGEST_COPY:
                    self._copies.append((name, state, _copy_of(state)))
                    num_bytes += _num_bytes(state)
        return num_bytes

    def _copy_parts(self, reached: list[tuple[str, object]]) -> None:
        """Copy the objects inside those of `reached`, up to `MOST_OBJECTS` and `LARGEST_COPY`."""
        waiting = deque((name, part) for name, value in reached for part in _parts(value))
        num_bytes = 0
        for _ in range(MOST_OBJECTS):
            if not waiting or num_bytes > LARGEST_COPY:
                return
            name, value = waiting.popleft()
            if id(value) not in self._known_ids:
                num_bytes += self._copy(name, value)
                waiting.extend((name, part) for part in _parts(value))

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
    yield from _defaults(function).items()


def _defaults(function: FunctionType) -> dict[str, object]:
    """Return the default values of a function's parameters, by name."""
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def _iterators(function: FunctionType, owner: type) -> Iterator[str]:
    """Yield the names of Python's own iterators, such as generators, that a function uses.

    They cannot be copied or restored, and all that a function can do with them is advance them.
    """
    iterators = [
        (name, value)
        for name, value in _reached(function, owner)
        if type(value).__module__ in ("builtins", "itertools") and isinstance(value, Iterator)
    ]
    if iterators:  # The name may be an attribute of another object, so the code is examined, too.
        loaded = {id(value) for value in _loaded(function, owner)}
        defaults = _defaults(function)
        yield from (name for name, value in iterators if id(value) in loaded or name in defaults)


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


def _is_users(module_name: object) -> bool:
    """Return whether a module belongs neither to the kit, nor to Python, nor to a library."""
    if not isinstance(module_name, str) or is_own_module(module_name):
        return False
    if module_name.partition(".")[0] in sys.stdlib_module_names:
        return False
    path = getattr(sys.modules.get(module_name), "__file__", None) or ""
    return not path.startswith(_LIBRARY_FOLDERS)


class _Slots:
    """The attributes of an object that are kept in slots."""

    def __init__(self, value: object, slots: dict[str, MemberDescriptorType]) -> None:
        self._value = value
        self._slots = slots

    def read(self) -> dict[str, object]:
        values = {}
        for name, slot in self._slots.items():
            with suppress(AttributeError):  # A slot without a value.
                values[name] = slot.__get__(self._value)
        return values

    def write(self, before: dict[str, object]) -> None:
        for name, slot in self._slots.items():
            if name in before:
                slot.__set__(self._value, before[name])
            else:
                with suppress(AttributeError):
                    slot.__delete__(self._value)


def _states(value: object) -> Iterator[Any]:
    """Yield what can change in `value`: a container, a class, `_Slots`, or a dict of attributes.

    The dict of attributes is changed itself, without a call of the user's `__setattr__`.
    """
    if isinstance(value, type):
        if _is_users(value.__module__):
            yield value
        return
    if issubclass(type(value), _CONTAINERS):
        yield value
    if _has_attributes(value):
        with suppress(Exception):  # The user's class may refuse to give it.
            yield object.__getattribute__(value, "__dict__")
        slots = {
            f"{base.__qualname__}.{name}": slot
            for base in type(value).__mro__
            if "__slots__" in vars(base)
            for name, slot in vars(base).items()
            if isinstance(slot, MemberDescriptorType)
        }
        if slots:
            yield _Slots(value, slots)


def _parts(value: object) -> Iterator[object]:
    """Yield the first objects inside an object."""
    states = [*_states(value), *([value] if isinstance(value, (tuple, frozenset)) else [])]
    for state in states:
        if isinstance(state, np.ndarray):
            yield from islice(state.flat if state.dtype.hasobject else (), MOST_OBJECTS)
        elif not isinstance(state, bytearray):
            yield from islice(_items(state), MOST_OBJECTS)


def _items(state: Any) -> Iterable[object]:
    if isinstance(state, (type, _Slots)):
        return _copy_of(state).values()  # type: ignore[no-any-return]
    return state.values() if isinstance(state, dict) else state


def _copy_of(state: Any) -> Any:
    if isinstance(state, type):
        return {name: value for name, value in vars(state).items() if not name.startswith("__")}
    return state.read() if isinstance(state, _Slots) else state.copy()


def _num_bytes(state: Any) -> int:
    if isinstance(state, (type, _Slots)):
        return 0
    return int(state.nbytes) if isinstance(state, np.ndarray) else 8 * len(state)


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
    if isinstance(now, (type, _Slots)):
        now = _copy_of(now)
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
    elif isinstance(value, _Slots):
        value.write(before)
    else:
        now = _copy_of(value)
        for name in now.keys() - before.keys():
            type.__delattr__(value, name)
        for name, part in before.items():
            if name not in now or now[name] is not part:
                type.__setattr__(value, name, part)
