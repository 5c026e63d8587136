"""Ctrl-C while a program runs: it is put off to where the machine's memory and the log of its steps
agree.

    with interrupts:
        ...                        # a step; Ctrl-C is noted in interrupts.asked
        interrupts.open = True     # code that may never end, and that puts back what it did
        ...
        interrupts.open = False

A second Ctrl-C stops at once, wherever it is. Another handler of signals than Python's own is left
alone.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

# Those below Python's own, which look up an enum's members and take several times as long.
get_handler = _signal.getsignal
set_handler = _signal.signal


class Interrupts:
    """Whether somebody has `asked` for an end, and whether the code that runs is `open` to it at
    once."""

    def __init__(self) -> None:
        self.asked = self.open = self._installed = False

    def __enter__(self) -> None:
        self.asked = self.open = False
        alone = threading.current_thread() is threading.main_thread()
        self._installed = alone and get_handler(signal.SIGINT) is signal.default_int_handler
        if self._installed:
            set_handler(signal.SIGINT, self._take)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._installed:
            self._installed = False
            set_handler(signal.SIGINT, signal.default_int_handler)
            if self.asked and kind is None:
                raise KeyboardInterrupt

    def _take(self, number: int, frame: FrameType | None) -> None:
        if self.open or self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def within(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the learner's, which may be stopped."""
        before, self.open = self.open, True
        value = function(*args)
        self.open = before
        return value

    def check(self) -> None:
        """Stop here if somebody has asked."""
        if self.asked:
            raise KeyboardInterrupt
