"""What takes long says what it is doing: one line on a terminal or below a notebook's cell, and gone when it is done.

    with working("compile") as work:
        work.total = 40
        for work.done in range(40):
            ...

Nothing is shown in the first second, nothing in a log, and nothing in a notebook that runs by itself: a page that a person
looks at names the cell that it runs, and a program that stores outputs does not. Whoever works only writes down how far it
is; a thread looks at that now and then, and ends when there has been nothing to see for a while. Of work within work the
outermost has the line, and the innermost says what is being done. IPU_TEACH_PROGRESS=0 turns all of it off.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

AFTER, EVERY = 1.0, 0.2  # seconds: until something is shown, and between two looks
FORMS = (  # of the line: with nothing counted, without an end in sight, and with one
    "{elapsed}{postfix}",
    "{n_fmt} {unit} [{elapsed}{postfix}]",
    "{percentage:3.0f}%|{bar:12}| {n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}{postfix}]",
)
IDLE = 25  # looks without work after which the thread ends


class Work:
    """Something under way: how many `unit`s of it are `done`, of `total` if that is known, and what is being done, in words.

    `look`, in place of these: a function that is asked for the three when the line is drawn. `hidden`: shows nothing.
    """

    def __init__(self, what: str, unit: str, look: Callable[[], tuple[int, int, str]] | None, hidden: bool) -> None:
        self.what, self.unit, self.look, self.hidden = what, unit, look, hidden
        self.done, self.total, self.words = 0, 0, ""
        self.screen: _Screen | None = None
        self._bar: Any = None
        self._begun = time.perf_counter()

    def note(self, done: int, total: int) -> None:
        """So many are done, and one more is to come after `total`."""
        self.done, self.total = done, total + 1

    def each(self, items: Iterable[T], total: int) -> Iterator[T]:
        """The items one after the other, and how many were taken is noted."""
        self.total = total
        for self.done, item in enumerate(items):
            yield item

    def draw(self, inner: Work) -> None:
        """Show how it stands, if it has gone on for long enough."""
        elapsed = time.perf_counter() - self._begun
        if self.screen is None or elapsed < AFTER:
            return
        done, total, words = self.look() if self.look is not None else (self.done, self.total, self.words)
        if self._bar is None:
            from tqdm import tqdm

            style: dict[str, Any] = {"leave": False, "dynamic_ncols": True, "delay": 1e-9}
            self._bar = tqdm(desc=self.what, unit=f"{self.unit}s", file=self.screen, **style)
            self._bar.start_t -= elapsed
        bar = self._bar
        bar.n, bar.total, bar.bar_format = done, total or None, "{desc}: " + FORMS[2 if total else done > 0]
        bar.set_postfix_str(words if inner is self else inner.what, refresh=False)
        bar.refresh()

    def close(self) -> None:
        """Take the line away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


_lock = threading.Lock()
_under_way: list[Work] = []  # the outermost first
_watcher: threading.Thread | None = None


@contextmanager
def working(
    what: str, unit: str = "step", look: Callable[[], tuple[int, int, str]] | None = None, hidden: bool = False
) -> Iterator[Work]:
    """What happens in the block may take long. In threads beside the main one nothing is shown."""
    global _watcher
    work = Work(what, unit, look, hidden)
    if threading.current_thread() is not threading.main_thread():
        yield work
        return
    try:
        if not _under_way and not hidden:
            work.screen = _screen()
        with _lock:
            _under_way.append(work)
            if work.screen is not None and _watcher is None:
                _watcher = threading.Thread(target=_look_on, name="ipu_teach progress", daemon=True)
                _watcher.start()
        yield work
    finally:
        with _lock:
            if work in _under_way:
                del _under_way[_under_way.index(work) :]
            work.close()


def _look_on() -> None:
    global _watcher
    idle = 0
    while idle < IDLE:
        time.sleep(EVERY)
        with _lock:
            idle = 0 if _under_way else idle + 1
            if idle == IDLE:
                _watcher = None
            elif _under_way:
                _under_way[0].draw(_under_way[-1])


def _screen() -> _Screen | None:
    """Where a line can be seen by somebody; None if nowhere."""
    if os.environ.get("IPU_TEACH_PROGRESS") == "0":
        return None
    if sys.stderr is not None and sys.stderr.isatty():
        return _Screen(sys.stderr)
    shell = sys.modules["IPython"].get_ipython() if "ipykernel" in sys.modules and "IPython" in sys.modules else None
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)()  # the request to run this cell
    return _Cell(sys.stderr) if parent.get("metadata", {}).get("cellId") else None


class _Screen:
    """A terminal, as the file that tqdm writes to. No line may stop a program: what cannot be written is not."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding, self.fileno, self.flush = file.encoding, file.fileno, file.flush

    def write(self, text: str) -> None:
        try:
            self._write(text)
        except Exception:  # tqdm would keep its lock, and whoever waits for that would wait for ever
            self._write = lambda _: None  # type: ignore[method-assign, assignment]

    def _write(self, text: str) -> None:
        self._file.write(text)


class _Cell(_Screen):
    """The place below a notebook's cell. Made by the thread that runs the cell."""

    def __init__(self, file: TextIO) -> None:
        super().__init__(file)
        self._context: Context = copy_context()  # which tells where the cell's outputs go
        self._handle: Any = None

    def _write(self, text: str) -> None:
        line = text.strip("\r\n").removesuffix("\x1b[A").strip()
        if line or self._handle is not None:
            self._context.run(self._show, {"text/plain": line})

    def _show(self, data: dict[str, str]) -> None:
        from IPython.display import DisplayHandle

        if self._handle is None:
            self._handle = DisplayHandle()
            self._handle.display(data, raw=True)
        else:
            self._handle.update(data, raw=True)


def _in_child() -> None:
    """A process that was forked has neither the thread nor what it looked at."""
    global _watcher
    _watcher = None
    _under_way.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child)
