"""Calls of one function for several arguments, in turn or on an executor, with results and errors.

The results are in the order of the arguments. A call that fails does not affect the others. Ctrl-C
keeps the finished results and cancels the rest.
"""

from __future__ import annotations

import linecache
import pickle
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future, as_completed
from dataclasses import dataclass
from typing import Any, TypeAlias

from ipu_teach._support.progress import working
from ipu_teach.errors import InvalidOptionError, shown

# The argument and the result of a call, which this module only passes on.
Argument: TypeAlias = Any
Result: TypeAlias = Any
Function: TypeAlias = Callable[[Argument], Result]
# Source texts by file name, in the form of linecache.cache.
Sources: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a call: its `value`, or the `error` that it raised."""

    value: Result = None
    error: Exception | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the outcome in another process.

        An error loses its traceback there, so the traceback's text becomes its cause.
        """
        if self.error is None:
            return Outcome, (self.value,)
        description = "".join(
            traceback.format_exception(type(self.error), self.error, self.error.__traceback__)
        )
        try:
            pickle.loads(pickle.dumps(self.error))
            return _arrived, (self.error, description)
        except Exception:  # an error that cannot be rebuilt from its arguments
            return _arrived, (
                RuntimeError(f"{type(self.error).__name__}: {self.error}"),
                description,
            )


def _arrived(error: Exception, message: str) -> Outcome:
    error.__cause__ = RuntimeError(f"it was raised in another process:\n{message}")
    return Outcome(error=error)


def outcomes(
    function: Function,
    arguments: Sequence[tuple[str, Argument]],
    executor: Executor | None,
    title: str,
    hidden: bool,
) -> list[Outcome | None]:
    """Return the outcome of `function(argument)` for each (name, argument).

    An outcome is None if Ctrl-C came before the call ended. The progress line shows `title` and the
    name, unless it is `hidden`. Raises `InvalidOptionError` if the executor accepts no calls.
    """
    results: list[Outcome | None] = [None] * len(arguments)
    with working(title, "machine", hidden=hidden) as work:
        work.total = len(arguments)
        if executor is None:
            for work.done, (work.words, argument) in enumerate(arguments):
                try:
                    results[work.done] = attempt(function, argument)
                except KeyboardInterrupt:
                    break
            return results
        # Codelets typed in a notebook have no file, but other processes need their source text.
        typed = {
            name: entry
            for name, entry in linecache.cache.items()
            if len(entry) > 1 and entry[1] is None
        }
        try:
            futures = [
                executor.submit(_away, function, argument, typed) for _, argument in arguments
            ]
        except RuntimeError as error:  # the executor was shut down, or its processes have ended
            raise InvalidOptionError(f"""The executor takes no more calls: {error}.
                next:  make a new one, and sweep before it is shut down.""") from error
        try:
            for work.done, future in enumerate(as_completed(futures), start=1):
                results[futures.index(future)] = _outcome(future)
        except KeyboardInterrupt:
            results = [_outcome(future) if future.done() else None for future in futures]
        finally:
            for future in futures:
                future.cancel()
    return results


def attempt(function: Function, argument: Argument) -> Outcome:
    """Call `function(argument)`, and return its value or its error as an outcome."""
    try:
        return Outcome(function(argument))
    except Exception as error:
        return Outcome(error=error)


def _away(function: Function, argument: Argument, typed: Sources) -> Outcome:
    """Return the outcome of a call that may run in another process.

    Its progress is hidden there. `typed` is the source text of codelets typed in a notebook, for
    that process.
    """
    linecache.cache.update(typed)
    with working("call", hidden=True):
        return attempt(function, argument)


def _outcome(future: Future[Outcome]) -> Outcome | None:
    """Return the outcome of a call on an executor; None if the call was stopped."""
    try:
        return future.result()
    except (CancelledError, KeyboardInterrupt):  # Ctrl-C also reaches the processes of a pool
        return None
    except Exception as error:  # the process ended, or the returned object cannot be pickled
        return Outcome(error=error)


def check_travels(call: str, executor: Executor, sent: Mapping[str, Argument]) -> None:
    """Raise `InvalidOptionError` if `executor` cannot send the objects to its processes.

    The same error is raised for an object that is not an executor. `call` is the name of the
    calling function, and `sent` has the objects by name.
    """
    if not isinstance(executor, Executor):
        raise InvalidOptionError(f"""{call} was given {shown(executor)}, which is not an executor.
            next:  give one of concurrent.futures, such as ProcessPoolExecutor(4), or
            client.get_executor() of a Dask client.""")
    processes = sys.modules.get("concurrent.futures.process")  # a browser cannot import this module
    if processes is None or not isinstance(executor, processes.ProcessPoolExecutor):
        return
    context = getattr(executor, "_mp_context", None)
    begun = getattr(executor, "_processes", None)
    # a forked process has a copy of everything in memory
    forks = context is not None and context.get_start_method() == "fork" and not begun
    for name, value in sent.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            reason = re.sub(r" at 0x\w+", "", " ".join(str(error).split()))
        else:
            if (
                forks
                or getattr(value, "__module__", "") != "__main__"
                or hasattr(sys.modules["__main__"], "__file__")
            ):
                continue
            reason = (
                "it is defined in a notebook or at a prompt, which processes that are spawned or "
                "began earlier do not have"
            )
        raise InvalidOptionError(f"""{name} cannot be sent to another process: {reason}.
            where: {call}, {shown(value)}
            next:  put it into a file such as build.py and import it: from build import build. Or
            use an executor that takes any function: a ThreadPoolExecutor, or
            client.get_executor() of a Dask client.""")
