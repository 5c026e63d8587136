"""What lets a check end, and leaves the kit as it was: a watch over the time an answer takes, and
one over what it rebinds.

The watch is a thread that has the main thread raise an exception, by a call that CPython makes
between two of its own (`Py_AddPendingCall`): no signals, so that it is the same on every system.
(It was tried on Linux; on macOS and Windows it was not.) Python's code meets the exception at its
next turn or call, and so do the engine's loops, compiled ones too. A call into C goes on until it
returns, or until somebody interrupts the kernel, which the watch then suggests: `time.sleep(99)`, a
lock that nobody lets go. One that holds the interpreter all the while, as `sum(range(10**15))`
does, keeps the watch waiting too, and only a restart of the kernel ends it.

The time is the process's own, so that no right answer is refused where a class shares a machine and
each waits for its turn. What sleeps has the clock's.
"""

from __future__ import annotations

import builtins
import ctypes
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter, process_time, sleep
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from ipu_teach._support.own_code import is_own_module

T = TypeVar("T")

# seconds that an answer may take, of the processor's; what does not end at once is over within 10
# on a machine of its own
LIMIT = 8.0
BEGAN = ContextVar("when the check that is going on began", default=0.0)
# seconds until the exception is raised again, if an answer went on after the first, and after the
# second
AGAIN = (0.7, 0.5)
ASLEEP = 0.1  # the share of the processor below which an answer waits for something else
BURST = 0.2  # seconds of raising it at every turn and call, for an answer that catches everything
PAUSE = 0.5  # seconds between such bursts

# Modules of which every call into an answer is followed by a look at what is bound in them: what
# checks are made of.
OFTEN = {
    "numpy",
    "builtins",
    "ipu_teach.engine.engine",
    "ipu_teach.graph.graph",
    "ipu_teach.graph.tensor",
    "ipu_teach.program",
}

_add_pending_call = ctypes.pythonapi.Py_AddPendingCall
_add_pending_call.argtypes = (ctypes.c_void_p, ctypes.py_object)
_add_pending_call.restype = ctypes.c_int
# int(object) in C: -1 if __len__ raises
_length_of = ctypes.cast(ctypes.pythonapi.PyObject_Size, ctypes.c_void_p)


class Stopped(KeyboardInterrupt):
    """Raised in an answer that takes too long. The engine puts things back after it, as after any
    interruption."""


class TooLong(Exception):
    """What was watched took longer than it may."""


class _Watch:
    """A thread that looks at the clock. `over`: the time is; `done`: the work is, and from then on
    nothing is raised."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.over = self.done = False
        self.gate = threading.Lock()  # released when the work is done
        self.gate.acquire()

    def start(self) -> None:
        # in a browser there is no thread, and nothing ends an answer but the kernel's restart
        with suppress(RuntimeError):
            threading.Thread(target=self._watch, name="ipu_teach watch", daemon=True).start()

    def _watch(self) -> None:
        begun = process_time()
        used = 0.0
        wait = self.seconds
        while wait > 0:
            if self.gate.acquire(timeout=wait):
                return
            before, used = used, process_time() - begun
            asleep = used - before < wait * ASLEEP
            wait = 0.0 if asleep else min(self.seconds - used, self.seconds / 8)
        self.over = True
        for pause in AGAIN:
            _add_pending_call(_length_of, self)
            if self.gate.acquire(timeout=pause):
                return
        fault = False
        while not self.gate.acquire(timeout=PAUSE if fault else 0):
            end = perf_counter() + BURST
            while not self.done and perf_counter() < end:
                while _add_pending_call(_length_of, self) == 0:  # until the queue is full
                    pass
                sleep(1e-3)
            if not fault and not self.done:
                fault = True
                print(
                    "The check waits for one call that Python cannot stop by itself. Interrupt the "
                    "kernel (the square in the toolbar), and if that does not help, restart it.",
                    file=sys.stderr,
                    flush=True,
                )

    def __len__(self) -> int:
        """What the pending call calls, in the main thread."""
        if not self.done:
            raise Stopped
        return 0


_watches: list[_Watch] = []  # what a pending call names must not go before it


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return what `work` returns, or raises. Raises `TooLong` if that takes more than `seconds` of
    the processor, or as many of the clock if it only waits; then it was stopped.

    Only in a main thread, as a notebook's cells are: elsewhere nothing stops `work`.
    """
    if threading.current_thread() is not threading.main_thread():
        return work()
    watch = _Watch(seconds)
    _watches[:-4] = []
    _watches.append(watch)
    try:
        try:
            watch.start()
            return work()
        finally:
            watch.done = True  # Python makes no pending call before this is done
            watch.gate.release()
            if watch.over:
                raise TooLong
    except KeyboardInterrupt:
        if watch.over:
            raise TooLong from None
        raise


def half_is_over() -> bool:
    """Return whether the check that is going on has taken half of its time."""
    return perf_counter() - BEGAN.get() > LIMIT / 2


# what is bound for a while instead: by module or class, and name
Meanwhile = Mapping[tuple[Any, str], Any]


@dataclass
class _Names:
    """The names of a module or class: as they were, and as they are."""

    owner: Any
    live: Mapping[str, Any]
    were: dict[str, Any]
    often: bool

    def changed(self) -> bool:
        return len(self.live) != len(self.were) or not all(
            map(operator.is_, self.live.values(), self.were.values())
        )

    def put_back(self, meanwhile: Meanwhile) -> None:
        for name in [
            name for name, value in self.live.items() if name not in self.were and _learners(value)
        ]:
            delattr(self.owner, name)
        for name, value in self.were.items():
            value = meanwhile.get((self.owner, name), value)
            if self.live.get(name, self) is not value:
                setattr(self.owner, name, value)


def _learners(value: object) -> bool:
    """Return the true for a function that is not the kit's: what the kit itself adds to its
    modules, when first used, stays."""
    return (
        isinstance(value, FunctionType)
        and not is_own_module(value.__module__)
        and not str(value.__module__).startswith("numpy")
    )


class Bindings:
    """What the names of numpy, of this kit and of Python's builtins are bound to."""

    def __init__(self) -> None:
        self.modules = 0
        self.names = list[_Names]()
        self.meanwhile = dict[tuple[Any, str], Any]()
        self.watched = 0  # by how many `as_it_was`, one within the other

    def note(self) -> None:
        """Take down how things are now."""
        if self.modules == len(sys.modules):
            for name in self.names:
                if name.changed():
                    name.were = dict(name.live)
            return
        self.modules = len(sys.modules)
        self.names = []
        for key, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and (
                module is builtins or is_own_module(key) or key.split(".")[0] == "numpy"
            ):
                often = key in OFTEN or key.startswith("ipu_course")
                owners = [
                    module,
                    *(
                        c
                        for c in vars(module).values()
                        if isinstance(c, type) and c.__module__ == key
                    ),
                ]
                self.names += [
                    _Names(owner, vars(owner), dict(vars(owner)), often) for owner in owners
                ]

    def put_back(self, often: bool = False) -> None:
        """Bind every name as it was noted; with `often`, only those that the checks themselves
        use. Where nobody watches, what was noted is of an earlier check, and nothing is bound."""
        for name in self.names if self.watched else ():
            if (name.often or not often) and (self.meanwhile or name.changed()):
                name.put_back(self.meanwhile)


_bindings = Bindings()


@contextmanager
def as_it_was() -> Iterator[None]:
    """Put back what is rebound meanwhile in numpy, in the kit and in builtins; exit() ends an
    answer, not the kernel."""
    _bindings.note()
    _bindings.watched += 1
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    of_shell = vars(shell) if (shell := get_shell()) else {}
    ask_exit = of_shell.get("ask_exit")
    try:
        of_shell["ask_exit"] = _leave  # which a notebook's own exit() calls, and goes on
        yield
    finally:
        if ask_exit is None:
            of_shell.pop("ask_exit", None)
        else:
            of_shell["ask_exit"] = ask_exit
        _bindings.meanwhile = {}
        _bindings.put_back()
        _bindings.watched -= 1


def _leave() -> None:
    raise SystemExit


@contextmanager
def rebound(names: Meanwhile) -> Iterator[None]:
    """Yield the within a check: bind names otherwise for a while. What an answer rebinds is put
    back to that."""
    _bindings.put_back()
    with as_it_was():
        _bindings.meanwhile = dict(names)
        _bindings.put_back()
        yield


def put_back() -> None:
    """Put back what a call of the learner's has rebound, as far as the checks use it."""
    _bindings.put_back(often=True)
