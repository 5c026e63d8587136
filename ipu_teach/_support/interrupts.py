"""Delay Ctrl-C during a run until the memory of the machine agrees with the log of its steps.

    with interrupts:
        ...                        # a step, during which Ctrl-C only sets interrupts.asked
        interrupts.open = True     # code that may never end, and that undoes its changes
        ...
        interrupts.open = False

A second Ctrl-C stops the program at once, wherever it is. If a program has installed its own signal
handler, that handler stays installed.
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

# The Python functions of `signal` call these C functions, but are several times slower, because
# they look up members of an enum.
get_handler = _signal.getsignal
set_handler = _signal.signal


class Interrupts:
    """The state of Ctrl-C during a run.

    `asked` is True if the user has pressed Ctrl-C during the run. While `open` is True, Ctrl-C
    stops the running code at once.
    """

    def __init__(self) -> None:
        self.asked = self.open = self._installed = False

    def __enter__(self) -> None:
        self.asked = self.open = False
        is_main_thread = threading.current_thread() is threading.main_thread()
        self._installed = (
            is_main_thread and get_handler(signal.SIGINT) is signal.default_int_handler
        )
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
        """Return `function(*args)`; Ctrl-C may stop this call of the learner's code at once."""
        was_open, self.open = self.open, True
        returned = function(*args)
        self.open = was_open
        return returned

    def check(self) -> None:
        """Raise KeyboardInterrupt if the user has pressed Ctrl-C."""
        if self.asked:
            raise KeyboardInterrupt
