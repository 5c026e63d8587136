"""Show the progress of long work in a line on a terminal or below a notebook cell.

    with working("compile") as work:
        work.total = 40
        for work.done in range(40):
            ...

The line is removed when the work ends. Nothing is shown in the first second, in a log file, or in a
notebook that runs without a reader. (A request to run a cell contains the identifier of the cell
only if the request comes from a page that a person looks at.) IPU_TEACH_PROGRESS=0 switches the
line off.

The working code only records its progress, and a thread reads the progress at intervals. The thread
ends when no work has been in progress for a while. If one piece of work is inside another, the line
shows the progress of the outermost and the text of the innermost.

A learner's own loop that adds vertices to a graph has no `with` block, and recording each vertex
would take as long as adding it. So `growing` only tells the thread which attribute counts the
vertices. The thread does not know when such a loop ends. The line disappears when no more vertices
are added, when the cell ends, and, on a terminal, before anything else is printed.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import Context, copy_context
from typing import Any, TextIO, TypeVar

T = TypeVar("T")

# How long no progress line is shown, and the time between two updates, both in seconds.
AFTER, EVERY = 1.0, 0.2
# The formats of a progress line: without a count, with a count only, and with count and total.
FORMS = (
    "{elapsed}{postfix}",
    "{n_fmt} {unit} [{elapsed}{postfix}]",
    "{percentage:3.0f}%|{bar:12}| {n_fmt}/{total_fmt} {unit} [{elapsed}<{remaining}{postfix}]",
)
IDLE = 25  # The thread ends after this number of updates without work.
# The number of updates without new objects after which the progress line of `Growth` disappears.
STILL = 3


class TrackedWork:
    """Work whose progress is shown in a line of text.

    `done` is the number of units that are done. `total` is the number of all units, or 0 if that is
    unknown. `words` describes the part of the work that is being done. If `look` is not None, it is
    called whenever the line is drawn, and the (done, total, text) that it returns are shown instead
    of these attributes. If `hidden` is True, nothing is shown.
    """

    def __init__(
        self, what: str, unit: str, look: Callable[[], tuple[int, int, str]] | None, hidden: bool
    ) -> None:
        self.what = what
        self.unit = unit
        self.look = look
        self.hidden = hidden
        self.done = 0
        self.total = 0
        self.words = ""
        self.has_ended = False
        self.screen: _Screen | None = None
        self._bar: Any = None
        self._begun = time.perf_counter()

    def note(self, done: int, total: int) -> None:
        """Record that `done` of `total` units are done, and that one more unit of work follows."""
        self.done = done
        self.total = total + 1

    def each(self, items: Iterable[T], total: int) -> Iterator[T]:
        """Yield the items in order; an item counts as done when the next one is requested."""
        self.total = total
        for self.done, item in enumerate(items):
            yield item

    def late(self) -> bool:
        """Return whether the work has taken so long that its progress line is to be shown."""
        return self.screen is not None and time.perf_counter() - self._begun >= AFTER

    def draw(self, innermost: TrackedWork) -> None:
        """Draw the progress line: this work's progress, with the text of the innermost work."""
        done, total, text = (
            self.look() if self.look is not None else (self.done, self.total, self.words)
        )
        if self._bar is None:
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self.what,
                unit=f"{self.unit}s",
                file=self.screen,
                leave=False,
                dynamic_ncols=True,
                delay=1e-9,
            )
            self._bar.start_t -= time.perf_counter() - self._begun
        bar = self._bar
        bar.n = done
        bar.total = total or None
        bar.bar_format = "{desc}: " + FORMS[2 if total else done > 0]
        bar.set_postfix_str(text if innermost is self else innermost.what, refresh=False)
        bar.refresh()

    def close(self) -> None:
        """Remove the progress line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


class Growth(TrackedWork):
    """The number of objects that a learner's loop has added to the object `of` so far.

    The attribute of `of` with the name `counts` contains this number.
    """

    def __init__(self, what: str, units: str, of: object, counts: str, screen: _Screen) -> None:
        super().__init__(what, "", lambda: (0, 0, f"{self.done:,} {units} so far"), False)
        self.of = of
        self.counts = counts
        self.screen = screen
        self.still = 0
        self.within_a_line = False

    def grew(self) -> bool:
        """Return whether there are more objects than at the last update.

        The progress line is removed after `STILL` updates without new objects.
        """
        previous_count, self.done = self.done, getattr(self.of, self.counts)
        self.still = 0 if self.done > previous_count else self.still + 1
        if self.still >= STILL:
            self.stop()
            self._begun = time.perf_counter()
        return self.still == 0

    def draw(self, innermost: TrackedWork) -> None:
        if self.within_a_line:  # Drawing would overwrite the user's unfinished line.
            return
        if self._bar is None and type(self.screen) is _Screen:
            for stream in _BESIDE:
                stream.put_in()
        super().draw(innermost)

    def give_way(self, text: str) -> None:
        """Remove the progress line, because `text` is about to be printed.

        The line appears again when more objects are added.
        """
        self.close()
        self.done = getattr(self.of, self.counts)
        self.within_a_line = not text.endswith("\n")

    def stop(self) -> None:
        """Remove the progress line, and stop watching the output streams."""
        self.close()
        for stream in _BESIDE:
            stream.put_back()


class _Beside:
    """A replacement of sys.stdout or sys.stderr while a progress line is on the terminal.

    The replacement removes the line before anything else is printed. A process has one replacement
    for each of the two streams and never deletes it, because print() uses the stream without
    keeping it alive.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.file: Any = None

    def put_in(self) -> None:
        stream = getattr(sys, self.name, None)
        if stream is not None and stream is not self and stream.isatty():
            self.file = stream
            setattr(sys, self.name, self)

    def put_back(self) -> None:
        if getattr(sys, self.name, None) is self:
            setattr(sys, self.name, self.file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, text: str) -> Any:
        with _lock:
            if _grows is not None:
                _grows.give_way(text)
        return self.file.write(text)


_BESIDE = _Beside("stdout"), _Beside("stderr")
_lock = threading.Lock()
_under_way: list[TrackedWork] = []  # The work in progress, outermost first.
_grows: Growth | None = None
_watcher: threading.Thread | None = None


@contextmanager
def working(
    title: str,
    unit: str = "step",
    look: Callable[[], tuple[int, int, str]] | None = None,
    hidden: bool = False,
) -> Iterator[TrackedWork]:
    """Show the progress of a `with` block, and yield the object in which the block records it.

    `title` is the text at the beginning of the line, and `unit` is a word for one unit of the work.
    `look` and `hidden` are as in `TrackedWork`. Only the main thread shows progress.
    """
    work = TrackedWork(title, unit, look, hidden)
    if threading.current_thread() is not threading.main_thread():
        yield work
        return
    try:
        with _lock:
            _forget_ended()
        if not _under_way and not hidden:
            work.screen = _screen()
        with _lock:
            _under_way.append(work)
            if work.screen is not None:
                _watch()
        yield work
    finally:
        # A second Ctrl-C, or the time limit of a check, may stop this block after any of these
        # calls.
        work.has_ended = True
        with _lock:
            _forget_ended()


def _forget_ended() -> None:
    """Remove the work that has ended, and the work within it, from `_under_way`."""
    ended = next((n for n, work in enumerate(_under_way) if work.has_ended), len(_under_way))
    for work in _under_way[ended:]:
        work.close()
    del _under_way[ended:]


def growing(title: str, units: str, of: object, counts: str) -> None:
    """Show the progress of a learner's loop that adds objects to the object `of`.

    `counts` is the name of the attribute of `of` that has the number of objects. `units` is the
    plural noun for the objects. Only the main thread shows progress.
    """
    global _grows
    is_shown = threading.current_thread() is threading.main_thread() and not (
        _under_way and _under_way[0].hidden
    )
    screen = _screen() if is_shown else None
    if screen is None or _grows is not None and _grows.of is of:
        return
    _end_growth()
    screen.at_end(_end_growth)
    with _lock:
        _grows = Growth(title, units, of=of, counts=counts, screen=screen)
        _watch()


def _watch() -> None:
    global _watcher
    if _watcher is None or not _watcher.is_alive():
        _watcher = threading.Thread(target=_look_on, name="ipu_teach progress", daemon=True)
        try:
            _watcher.start()
        except RuntimeError:  # A browser has no threads, so nothing is shown.
            _watcher = None


def _look_on() -> None:
    global _watcher, _grows
    idle_updates = 0
    while idle_updates < IDLE:
        time.sleep(EVERY)
        with _lock:
            _forget_ended()
            has_grown = _grows is not None and _grows.grew()
            idle_updates = 0 if _under_way or has_grown else idle_updates + 1
            if _under_way and _under_way[0].late():
                if _grows is not None:
                    _grows.stop()
                _under_way[0].draw(_under_way[-1])
            elif _grows is not None and has_grown and _grows.late():
                _grows.draw(_grows)
            if idle_updates == IDLE:
                _watcher = _grows = None


def _end_growth() -> None:
    global _grows
    with _lock:
        if _grows is not None:
            _grows.stop()
        _grows = None


def _screen() -> _Screen | None:
    """Return the terminal or cell output for progress lines; None if nobody would see them."""
    if os.environ.get("IPU_TEACH_PROGRESS") == "0":
        return None
    if sys.stderr is not None and sys.stderr.isatty():
        return _Screen(sys.stderr.file if isinstance(sys.stderr, _Beside) else sys.stderr)
    shell = None
    if "ipykernel" in sys.modules and "IPython" in sys.modules:
        shell = sys.modules["IPython"].get_ipython()
    # The parent message is the request to run this cell.
    parent: dict[str, Any] = getattr(shell, "get_parent", dict)()
    return _Cell(sys.stderr, shell) if parent.get("metadata", {}).get("cellId") else None


class _Screen:
    """The terminal, as an object to which tqdm writes as to a file.

    Errors of the output are ignored, because a progress line must never stop a program.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.encoding = file.encoding
        self.fileno = file.fileno
        self.flush = file.flush

    def at_end(self, call: Callable[[], None]) -> None:
        """Call `call` when the notebook's cell ends; on a terminal, never call it."""

    def write(self, text: str) -> None:
        try:
            self._write(text)
        # If an error ended this block, tqdm would keep its lock, and other threads would wait
        # forever.
        except Exception:
            self._write = lambda _: None  # type: ignore[method-assign, assignment]

    def _write(self, text: str) -> None:
        self._file.write(text)


class _Cell(_Screen):
    """The output of a notebook's cell. The thread that runs the cell must create it."""

    def __init__(self, file: TextIO, shell: Any) -> None:
        super().__init__(file)
        self._shell = shell
        self._context: Context = copy_context()  # The context that sends outputs to this cell.
        self._handle: Any = None

    def at_end(self, call: Callable[[], None]) -> None:
        def over(*_: object) -> None:
            self._shell.events.unregister("post_run_cell", over)
            call()

        self._shell.events.register("post_run_cell", over)

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
    """Forget the work in progress and the thread that shows it.

    A forked process calls this function, because it has neither this work nor this thread.
    """
    global _watcher, _grows
    _watcher = _grows = None
    _under_way.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_in_child
    )
atexit.register(_end_growth)
