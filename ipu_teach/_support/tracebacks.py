"""Shorten the tracebacks in a notebook by leaving out the frames of the kit's own code.

A mistake is in a line of a cell, but it is often noticed deep inside the kit. The frames between
these two places do not help the learner. The IPython commands `%xmode Verbose` and `%debug` still
show all frames. A script prints complete tracebacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ipu_teach._support.own_code import is_own_module


def shortened(error: BaseException, shell: Any) -> list[str]:
    """Return the lines that IPython's `shell` shows for `error` and the errors that caused it."""
    formatter = shell.InteractiveTB
    links = [(link, link.__traceback__) for link in _chain(error)]
    try:
        for link, traceback in links if formatter.mode != "Verbose" else ():
            link.__traceback__ = _without_the_kits(traceback)
        lines: list[str] = formatter.structured_traceback(type(error), error, error.__traceback__)
    finally:
        for link, traceback in links:
            link.__traceback__ = traceback
        # The IPython command `%debug` starts from this traceback.
        formatter.tb = error.__traceback__
    return lines


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of its cause, and so on."""
    visited: list[BaseException] = []
    while error is not None and not any(error is link for link in visited):
        yield error
        visited.append(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _without_the_kits(traceback: TracebackType | None) -> TracebackType | None:
    kept_steps = []
    while traceback is not None:
        if not is_own_module(traceback.tb_frame.f_globals.get("__name__", "")):
            kept_steps.append(traceback)
        traceback = traceback.tb_next
    for step in reversed(kept_steps):
        traceback = TracebackType(traceback, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return traceback
