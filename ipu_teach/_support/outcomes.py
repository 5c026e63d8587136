"""Call one function for several arguments, in turn or on an executor, and collect results and
errors.

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
from typing import Any

from ipu_teach._support.progress import working
from ipu_teach.errors import InvalidOptionError, shown


@dataclass(frozen=True, eq=False)
class Outcome:
    """The outcome of a call: its `value`, or the `error` that it raised."""

    value: Any = None
    error: Exception | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """On its way from another process: an error leaves its traceback behind, and brings the
        words of it."""
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
    function: Callable[[Any], Any],
    arguments: Sequence[tuple[str, Any]],
    executor: Executor | None,
    title: str,
    hidden: bool,
) -> list[Outcome | None]:
    """Return what `function` makes of each of the (name, argument). The line of progress, unless
    `hidden`, says `what` and the name.

    None for what Ctrl-C left undone. Raises `InvalidOptionError` for an executor that takes no
    calls.
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
        # Codelets typed in a notebook have no file, but their source text is needed.
        typed = {
            name: entry
            for name, entry in linecache.cache.items()
            if len(entry) > 1 and entry[1] is None
        }
        try:
            futures = [
                executor.submit(_away, function, argument, typed) for _, argument in arguments
            ]
        except RuntimeError as error:  # it was shut down, or its processes are gone
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


def attempt(function: Callable[[Any], Any], argument: Any) -> Outcome:
    """Return a call whose errors are outcomes."""
    try:
        return Outcome(function(argument))
    except Exception as error:
        return Outcome(error=error)


def _away(function: Callable[[Any], Any], argument: Any, typed: dict[str, Any]) -> Outcome:
    """Return the outcome of a call, perhaps in another process.

    Its progress is hidden there, and the text of codelets typed in a notebook, `typed`, is passed
    on.
    """
    linecache.cache.update(typed)
    with working("call", hidden=True):
        return attempt(function, argument)


def _outcome(future: Future[Outcome]) -> Outcome | None:
    """Return what came of a call; None if it was stopped."""
    try:
        return future.result()
    except (CancelledError, KeyboardInterrupt):  # Ctrl-C also reaches the processes of a pool
        return None
    except Exception as error:  # the process ended, or what it returned cannot travel
        return Outcome(error=error)


def check_travels(call: str, executor: object, sent: Mapping[str, object]) -> None:
    """Raise `InvalidOptionError` if `executor` is not an executor, or if an object in `sent`, by
    name, cannot be sent to its processes."""
    if not isinstance(executor, Executor):
        raise InvalidOptionError(f"""{call} was given {shown(executor)}, which is not an executor.
            next:  give one of concurrent.futures, such as ProcessPoolExecutor(4), or
            client.get_executor() of a Dask client.""")
    processes = sys.modules.get("concurrent.futures.process")  # a browser cannot even import it
    if processes is None or not isinstance(executor, processes.ProcessPoolExecutor):
        return
    context, begun = getattr(executor, "_mp_context", None), getattr(executor, "_processes", None)
    # a forked process gets a copy of everything in memory
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
