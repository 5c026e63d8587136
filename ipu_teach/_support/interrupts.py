"""Ctrl-C during a run: it is delayed until the machine's memory agrees with the log of its steps.

    with interrupts:
        ...                        # a step; Ctrl-C is noted in interrupts.asked
        interrupts.open = True     # code that may never end, and that undoes its changes
        ...
        interrupts.open = False

A second Ctrl-C stops at once, wherever the program is. If a program has installed its own handler
of signals, that handler stays.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

# the functions below those of `signal`, which look up an enum's members and are several times
# slower
get_handler = _signal.getsignal
set_handler = _signal.signal


class Interrupts:
    """The state of Ctrl-C during a run.

    `asked` means that the user has pressed Ctrl-C, and `open` that the running code may be stopped
    at once.
    """

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

    def within(self, function: Callable[..., T], *args: npt.NDArray[np.generic]) -> T:
        """Call a function of the learner's code, which Ctrl-C may stop at once."""
        before, self.open = self.open, True
        value = function(*args)
        self.open = before
        return value

    def check(self) -> None:
        """Raise KeyboardInterrupt if the user has pressed Ctrl-C."""
        if self.asked:
            raise KeyboardInterrupt
