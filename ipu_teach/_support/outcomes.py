"""Call one function for several arguments, one after another or on an executor.

The results are in the order of the arguments. A call that fails does not affect the others. Ctrl-C
cancels the unfinished calls and keeps the results of the finished ones.
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

# An argument or a result may be any object, because this module only passes it on.
Argument: TypeAlias = Any
Result: TypeAlias = Any
Function: TypeAlias = Callable[[Argument], Result]
# The source texts of files, keyed by file name, in the form of linecache.cache.
Sources: TypeAlias = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a call: its `value`, or the `error` that it raised."""

    value: Result = None
    error: Exception | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what pickle needs to restore the outcome: a function and its arguments.

        Pickle does not store the traceback of an error. So the text of the traceback becomes part
        of the message of the error's cause.
        """
        if self.error is None:
            return Outcome, (self.value,)
        description = "".join(
            traceback.format_exception(type(self.error), self.error, self.error.__traceback__)
        )
        try:
            pickle.loads(pickle.dumps(self.error))
            return _arrived, (self.error, description)
        except Exception:  # The error cannot be restored from its arguments.
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
    """Return the outcome of `function(argument)` for each pair (name, argument) in `arguments`.

    The outcome of a call that Ctrl-C stopped or prevented is None. If `executor` is None, the calls
    run one after another. A progress line shows `title` and, if there is no executor, also the name
    of the present argument. If `hidden` is True, no line is shown.

    :raises InvalidOptionError: if the executor does not accept calls.
    """
    outcome_list: list[Outcome | None] = [None] * len(arguments)
    with working(title, "machine", hidden=hidden) as work:
        work.total = len(arguments)
        if executor is None:
            for work.done, (work.words, argument) in enumerate(arguments):
                try:
                    outcome_list[work.done] = attempt(function, argument)
                except KeyboardInterrupt:
                    break
            return outcome_list
        # Codelets from a notebook have no file, but other processes need their source text.
        notebook_sources = {
            name: entry
            for name, entry in linecache.cache.items()
            if len(entry) > 1 and entry[1] is None
        }
        try:
            futures = [
                executor.submit(_away, function, argument, notebook_sources)
                for _, argument in arguments
            ]
        except RuntimeError as error:  # The executor was shut down, or its processes have ended.
            raise InvalidOptionError(f"""The executor does not accept calls: {error}.
                next:  create a new executor, and call sweep() before you shut it
                down.""") from error
        try:
            for work.done, future in enumerate(as_completed(futures), start=1):
                outcome_list[futures.index(future)] = _outcome(future)
        except KeyboardInterrupt:
            outcome_list = [_outcome(future) if future.done() else None for future in futures]
        finally:
            for future in futures:
                future.cancel()
    return outcome_list


def attempt(function: Function, argument: Argument) -> Outcome:
    """Call `function(argument)`, and return its value or its error as an outcome."""
    try:
        return Outcome(function(argument))
    except Exception as error:
        return Outcome(error=error)


def _away(function: Function, argument: Argument, notebook_sources: Sources) -> Outcome:
    """Return the outcome of a call, without showing progress; it may run in another process.

    `notebook_sources` has the source text of codelets from a notebook, which the other process does
    not have.
    """
    linecache.cache.update(notebook_sources)
    with working("call", hidden=True):
        return attempt(function, argument)


def _outcome(future: Future[Outcome]) -> Outcome | None:
    """Return the outcome of a call on an executor, or None if Ctrl-C stopped the call."""
    try:
        return future.result()
    except (CancelledError, KeyboardInterrupt):  # Ctrl-C also interrupts the processes of a pool.
        return None
    except Exception as error:  # The process ended, or the returned object cannot be pickled.
        return Outcome(error=error)


def check_travels(call: str, executor: Executor, objects: Mapping[str, Argument]) -> None:
    """Raise `InvalidOptionError` if `executor` cannot send the objects to its processes.

    The error is also raised if `executor` is not an executor. The message names `call` (the
    function that the user called) or the object that cannot be sent, by its key in `objects`.
    """
    if not isinstance(executor, Executor):
        raise InvalidOptionError(f"""{call} was given {shown(executor)}, which is not an executor.
            next:  give one of concurrent.futures, such as ProcessPoolExecutor(4), or
            client.get_executor() of a Dask client.""")
    # In a browser there are no processes. The module may then be missing, or be None in
    # sys.modules.
    processes = sys.modules.get("concurrent.futures.process")
    if processes is None or not isinstance(executor, processes.ProcessPoolExecutor):
        return
    context = getattr(executor, "_mp_context", None)
    running_processes = getattr(executor, "_processes", None)
    # Processes that are forked later inherit all objects, including functions that were defined in
    # a notebook or at a prompt.
    will_fork = (
        context is not None and context.get_start_method() == "fork" and not running_processes
    )
    for name, value in objects.items():
        try:
            pickle.dumps(value)
        except Exception as error:
            reason = re.sub(r" at 0x\w+", "", " ".join(str(error).split()))
        else:
            if (
                will_fork
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
