"""Find out whether compute() uses more than its fields.

Examples are random numbers, clocks, and lists or variables that all vertices can change. A trace
runs compute() once for all vertices. So a random number would be the same for each vertex and in
every run, and a list would grow only once. If compute() uses such an object, the trace stops, the
side effects of the trace are undone, and the vertices run one by one.
"""

from __future__ import annotations

import dis
import inspect
import pickle
import random
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from types import CodeType, FunctionType, ModuleType
from typing import Any, NoReturn

import numpy as np

from ipu_teach._support.own_code import is_own_module
from ipu_teach._support.snapshot import Snapshot
from ipu_teach.compile.trace import TraceStopped, Value

# An array of more than LARGEST_COPY bytes is not copied. Neither is an array with which the copies
# would have more than MOST_COPIED bytes in total. Arrays that are not copied are assumed to be
# tables that compute() only reads.
LARGEST_COPY = 1 << 20
MOST_COPIED = 1 << 24
_DRAWING = (random, secrets, np.random)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_STORES = {dis.opmap[name] for name in ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF")}
RandomState = tuple[tuple[Any, ...], bytes]

SLEEPS = "time.sleep() is called, for every vertex"


class _Stopping:
    """A replacement for a module or object that returns something different at every use.

    Any use of the replacement stops the trace. `fault` and `next_step` are texts for the error
    about a codelet that uses the original where that is not allowed.
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
    "a random number is drawn, which differs in every vertex and run",
    "draws random numbers from the host, and each load would give other values",
    "draw them on the device, with poprand.normal or poprand.uniform, into a tensor that is an "
    "Input of the vertex",
)
CLOCK = _Stopping(
    "the time is read, which differs in every vertex and run",
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

    Return None if it uses neither. The function time.sleep() does not count as a clock. The
    learner's functions that `compute` calls by name are also examined. No code runs, so a use in a
    branch that is never taken also counts.
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

    These values are globals, variables of outer functions, attributes of `owner` that are not
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
    """Finds out whether `compute` has side effects on objects from outside, and undoes them.

    Before the trace, it takes a snapshot of the objects that `compute` can reach, without large
    arrays. The snapshot shows which objects have changed, and is used to restore them.
    """

    def __init__(self, compute: FunctionType, owner: type) -> None:
        self.rebinds = ""  # The name of an outer variable that compute() would assign, or "".
        self.advances = ""  # The name of an iterator that compute() would advance, or "".
        self.printing: set[FunctionType] = set()  # The functions that call print().
        uses_outside = False
        waiting = [compute]
        known = {compute}
        while waiting:  # Visit compute() and the functions that it calls by name.
            function = waiting.pop()
            self.rebinds = self.rebinds or next(
                _rebound(function.__code__, function.__code__.co_freevars), ""
            )
            self.advances = self.advances or next(_iterators(function, owner), "")
            if "print" in names_of(function.__code__) and "print" not in function.__globals__:
                self.printing.add(function)
            for _, value in _reached(function, owner):
                is_fixed = isinstance(value, ModuleType) or is_own_module(type(value).__module__)
                uses_outside = uses_outside or not is_fixed
                if isinstance(value, FunctionType) and value not in known:
                    waiting.append(value)
                    known.add(value)
        self._snapshot = None
        if uses_outside:  # Most codelets use nothing but their fields and modules.
            roots = [("", compute), ("", owner)]
            self._snapshot = Snapshot(roots, LARGEST_COPY, MOST_COPIED)

    def settle(self) -> str:
        """Restore everything that compute() has changed.

        Return the reason why the trace must stop, or "" if nothing has changed.
        """
        if self._snapshot is None:
            return ""
        changed = self._snapshot.changed()
        self._snapshot.restore()
        return f"{changed[0]} is changed, and all vertices share it" if changed else ""


def random_state() -> RandomState:
    """Return the state of Python's and numpy's global generators, which all threads share."""
    # The state is pickled, because the arrays in numpy's state cannot be compared with ==.
    return random.getstate(), pickle.dumps(np.random.get_state(legacy=False))


def set_random_state(state: RandomState) -> None:
    """Restore the state of both global generators."""
    random.setstate(state[0])
    np.random.set_state(pickle.loads(state[1]))


def names_of(code: CodeType) -> Iterator[str]:
    """Yield the names of the globals and attributes that a function and its inner functions use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_of(constant)


def enclosed(function: FunctionType) -> dict[str, object]:
    """Return the values of the outer functions' variables that a function uses, keyed by name.

    Variables without a value are left out.
    """
    values = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with suppress(ValueError):
            values[name] = cell.cell_contents
    return values


def _reached(function: FunctionType, owner: type) -> Iterator[tuple[str, object]]:
    """Yield (name, value) of the objects that a function uses from outside.

    They are globals, variables of outer functions, class attributes of `owner`, and the default
    values of the function's parameters.
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
    """Return the default values of a function's parameters, keyed by name."""
    code = function.__code__
    values = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return dict(zip(names, values, strict=True)) | (function.__kwdefaults__ or {})


def _iterators(function: FunctionType, owner: type) -> Iterator[str]:
    """Yield the names of Python's own iterators, such as generators, that a function uses.

    Such iterators cannot be copied or restored, and a function can use them only by advancing them.
    """
    iterators = [
        (name, value)
        for name, value in _reached(function, owner)
        if type(value).__module__ in ("builtins", "itertools") and isinstance(value, Iterator)
    ]
    # The same name may stand for an attribute of another object, so look at what the code loads.
    if iterators:
        loaded = {id(value) for value in _loaded(function, owner)}
        defaults = _defaults(function)
        yield from (name for name, value in iterators if id(value) in loaded or name in defaults)


def _rebound(code: CodeType, outer_names: tuple[str, ...]) -> Iterator[str]:
    """Yield the outer names that a function assigns after a `global` or `nonlocal` statement."""
    # Searching the bytes first is quick, and usually finds no such instruction.
    for instruction in dis.get_instructions(code) if _STORES & set(code.co_code[::2]) else ():
        if instruction.opcode in _STORES and (
            instruction.opname != "STORE_DEREF" or instruction.argval in outer_names
        ):
            yield instruction.argval
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _rebound(constant, outer_names)
