"""Limit the time of a check, and restore names of modules that an answer binds to other objects.

A watch thread makes the main thread raise an exception. It uses `Py_AddPendingCall`: CPython calls
a pending function in the main thread between two bytecode instructions. This needs no signals, so
it should work the same on every system. (It was tested on Linux, but not on macOS and Windows.)

* Python code gets the exception at its next loop iteration or call. So do the loops of the
  simulator, including compiled ones.
* A call into C, such as `time.sleep(99)` or waiting for a lock that is never released, continues
  until it returns or the learner interrupts the kernel. The watch thread prints a text that advises
  the learner to interrupt it.
* A call that never releases the interpreter lock, such as `sum(range(10**15))`, blocks the watch
  thread too. Only a restart of the kernel ends it.

The limit counts the processor time of this process. So a right answer passes even if many learners
share a machine and each process waits for its turn. For code that sleeps, wall-clock time counts.
Waiting for a processor does not count as sleeping.
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
from itertools import chain
from time import perf_counter, process_time, sleep
from types import FunctionType, ModuleType
from typing import TypeVar

from ipu_teach._support.own_code import is_own_module

T = TypeVar("T")

# The processor time that an answer may take, in seconds. On an idle machine, even an answer that
# ignores the first exception ends within 10 seconds.
LIMIT = 8.0
# What `times()` returned when the current check began.
BEGAN = ContextVar("begin of the current check", default=(0.0, 0.0, 0.0))
# The running call into the answer, as a string. The verdict quotes it if the call does not end.
ANSWER = "your answer"
CALL = ContextVar("call into the answer", default=ANSWER)
# If an answer catches `Stopped` and continues, `Stopped` is raised again after the first of these
# pauses, and then after the second one. The pauses are in seconds.
AGAIN = (0.7, 0.5)
# An answer counts as asleep if its processor time and its time in the queue for a processor are
# together less than this fraction of the wall-clock time.
ASLEEP = 0.1
# If an answer catches all these exceptions, `Stopped` is raised as often as possible in bursts of
# this many seconds.
BURST = 0.2
# The pause between two such bursts, in seconds, in which the main thread runs undisturbed.
PAUSE = 0.5

# The modules that checks themselves use, in addition to those of `ipu_course`. Names in all these
# modules are restored after every call into an answer, names in other modules only after the check.
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
# PyObject_Size calls __len__, so the pending call runs Python code. If __len__ raises an error,
# PyObject_Size returns -1, as Py_AddPendingCall requires.
_length_of = ctypes.cast(ctypes.pythonapi.PyObject_Size, ctypes.c_void_p)


class Stopped(KeyboardInterrupt):
    """Raised inside an answer that takes too long.

    It derives from KeyboardInterrupt, so the engine cleans up as after any interruption.
    """


class TooLong(Exception):
    """Raised by `within` if the work did not end within its limit."""


class _Watch:
    """A thread that stops the main thread's work when its time is over.

    If `over` is True, the time limit has passed. If `done` is True, the work has ended, and no
    exception is raised in the main thread.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.over = self.done = False
        self.gate = threading.Lock()  # The lock is released when the work is done.
        self.gate.acquire()

    def start(self) -> None:
        # In a browser, Python has no threads: only a restart of the kernel ends an answer.
        with suppress(RuntimeError):
            threading.Thread(target=self._watch, name="ipu_teach watch", daemon=True).start()

    def _watch(self) -> None:
        begun = process_time()
        used = 0.0
        wait = self.seconds
        while wait > 0:
            began_to_queue = queued_time()
            if self.gate.acquire(timeout=wait):
                return
            before, used = used, process_time() - begun
            queued = queued_time() - began_to_queue
            asleep = _is_asleep(used - before, queued, wait)
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
                # The loop stops when the queue is full.
                while _add_pending_call(_length_of, self) == 0:
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
        """Raise `Stopped` unless the work is done; otherwise return 0.

        The pending call computes the length of this object in the main thread, and so runs this
        method.
        """
        if not self.done:
            raise Stopped
        return 0


_watches: list[_Watch] = []  # This list keeps the objects of pending calls alive until they run.


def within(seconds: float, work: Callable[[], T]) -> T:
    """Return the result of `work()`, and stop it after `seconds` of processor time.

    Work that sleeps is stopped after `seconds` of wall-clock time. Errors of `work` are raised
    unchanged. The limit works only in the main thread, where notebooks run their cells. In other
    threads nothing stops `work`.

    :raises TooLong: if the work did not end within its limit.
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
            # CPython runs no pending call between the start of this block and the assignment.
            watch.done = True
            watch.gate.release()
            if watch.over:
                raise TooLong
    except KeyboardInterrupt:
        if watch.over:
            raise TooLong from None
        raise


def _is_asleep(worked: float, queued: float, waited: float) -> bool:
    """Return whether an answer slept for most of `waited` seconds of wall-clock time.

    The answer did not sleep during the `worked` seconds in which it had a processor, nor during the
    `queued` seconds in which it was in the queue for a processor.
    """
    return worked + queued < ASLEEP * waited


def times() -> tuple[float, float, float]:
    """Return `(wall-clock time, processor time, time in the queue for a processor)` in seconds."""
    return perf_counter(), process_time(), queued_time()


def queued_time() -> float:
    """Return the seconds for which the main thread was ready to run, but had no processor.

    On systems other than Linux, this time is unknown and the result is 0. There, an answer that
    gets almost no processor time is treated as if it slept.
    """
    try:
        with open("/proc/self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def half_is_over() -> bool:
    """Return whether the current check has used half of its time.

    Processor time counts, as for the limit itself, except that wall-clock time counts for code that
    sleeps. So the result, and with it the explanation of a wrong answer, does not depend on how
    busy the machine is.
    """
    waited, worked, queued = (now - began for now, began in zip(times(), BEGAN.get(), strict=True))
    return (waited if _is_asleep(worked, queued, waited) else worked) > LIMIT / 2


# An owner is a module or class in which names are bound. `Meanwhile` maps (owner, name) to the
# object that replaces the original one during a block.
Owner = ModuleType | type
Meanwhile = Mapping[tuple[Owner, str], object]


@dataclass
class _Names:
    """The names of a module or class.

    `were` maps them to their objects before a check, and `live` to their present objects.
    """

    owner: Owner
    live: Mapping[str, object]
    were: dict[str, object]

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


class _Group:
    """The names of several modules and classes, all compared with their recorded objects at once.

    The comparison is made after every call into an answer. One comparison of all objects is much
    faster than one comparison per module or class.
    """

    def __init__(self, names: list[_Names]) -> None:
        self.names = names
        # These are dict views, so they always show the current objects.
        self.values = [name.live.values() for name in names]
        self.objects = list(chain.from_iterable(self.values))

    def changed(self) -> bool:
        return sum(map(len, self.values)) != len(self.objects) or not all(
            map(operator.is_, chain.from_iterable(self.values), self.objects)
        )

    def note(self) -> None:
        """Record the current bindings."""
        if self.changed():
            for name in self.names:
                name.were = dict(name.live)
            self.objects = list(chain.from_iterable(self.values))

    def put_back(self, meanwhile: Meanwhile) -> None:
        """Restore the recorded bindings, but bind the names in `meanwhile` to its objects."""
        if meanwhile or self.changed():
            owners = {owner for owner, _ in meanwhile}
            for name in self.names:
                if name.owner in owners or name.changed():
                    name.put_back(meanwhile)


def _learners(value: object) -> bool:
    """Return whether `value` is a function that belongs neither to this project nor to numpy.

    This project adds functions to its own modules when they are first used. They do not count as
    functions of the learner.
    """
    return (
        isinstance(value, FunctionType)
        and not is_own_module(value.__module__)
        and not str(value.__module__).startswith("numpy")
    )


class Bindings:
    """The names of numpy, of this project and of builtins, and the objects bound to them."""

    def __init__(self) -> None:
        self.modules = 0
        self.often = _Group([])  # The names that checks themselves use.
        self.seldom = _Group([])
        self.meanwhile: Meanwhile = {}
        self.watched = 0  # The number of nested `as_it_was` blocks that are active.

    def note(self) -> None:
        """Record the current bindings of all names."""
        if self.modules == len(sys.modules):
            self.often.note()
            self.seldom.note()
            return
        self.modules = len(sys.modules)
        often = list[_Names]()
        seldom = list[_Names]()
        for key, module in list(sys.modules.items()):
            if isinstance(module, ModuleType) and (
                module is builtins or is_own_module(key) or key.split(".")[0] == "numpy"
            ):
                owners: list[Owner] = [
                    module,
                    *(
                        c
                        for c in vars(module).values()
                        if isinstance(c, type) and c.__module__ == key
                    ),
                ]
                names = often if key in OFTEN or key.startswith("ipu_course") else seldom
                names += [_Names(owner, vars(owner), dict(vars(owner))) for owner in owners]
        self.often = _Group(often)
        self.seldom = _Group(seldom)

    def put_back(self, often: bool = False) -> None:
        """Restore every name to its recorded binding.

        If `often` is True, restore only the names of modules that the checks themselves use. If no
        check is active, the recorded bindings are from an earlier check, and nothing is restored.
        """
        if self.watched:
            self.often.put_back(self.meanwhile)
            if not often:
                self.seldom.put_back(self.meanwhile)


_bindings = Bindings()


@contextmanager
def as_it_was() -> Iterator[None]:
    """Context manager: restore the names of numpy, this project and builtins after the block.

    If the learner's code calls exit() in the block, only the answer ends, and the kernel runs on.
    """
    _bindings.note()
    _bindings.watched += 1
    get_shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    of_shell = vars(shell) if (shell := get_shell()) else {}
    ask_exit = of_shell.get("ask_exit")
    try:
        # In a notebook, exit() calls ask_exit().
        of_shell["ask_exit"] = _leave
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
    """Context manager: bind each name in `names` to another object during a block of a check.

    If an answer rebinds such a name, the name is restored to the object in `names`.
    """
    _bindings.put_back()
    with as_it_was():
        _bindings.meanwhile = dict(names)
        _bindings.put_back()
        yield


def put_back() -> None:
    """Restore the names that checks use, if a call of the learner's code has changed them."""
    _bindings.put_back(often=True)
