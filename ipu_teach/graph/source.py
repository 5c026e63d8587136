"""The line of the learner's code that created an object.

The line is stored as a file and a line number. Its source text is looked up only when an error or a
report shows it.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from types import CodeType, FrameType

from ipu_teach._support.own_code import is_own_module

Line = tuple[str, int]
NOWHERE: Line = ("", 0)
# A range of rows with this end also covers all rows that are added later.
LAST = sys.maxsize


def caller() -> Line:
    """Return (file, line) of the nearest call from outside the kit."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own_module(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return (frame.f_code.co_filename, frame.f_lineno) if frame is not None else NOWHERE


class RowLines:
    """The learner's line that last changed each row of a table.

    A loop changes many rows from one line, so a span of rows is stored as its first and last row
    only. `code` and `place` are the code object and the instruction of the last change, and `stop`
    is the row after the last row of that change. Comparing `code` and `place` is much faster than
    finding the line.
    """

    def __init__(self) -> None:
        self.before: list[tuple[int, int, Line]] = []
        self.start = 0
        self.stop = 0
        self.line = NOWHERE
        self.code: CodeType | None = None
        self.place = 0

    def note(self, frame: FrameType, start: int, stop: int = LAST) -> None:
        """Record that the rows from `start` to before `stop` were changed by a call in `frame`."""
        self.before.append((self.start, self.stop, self.line))
        self.start = start
        self.stop = stop
        self.line = caller()
        self.code = frame.f_code
        self.place = frame.f_lasti

    def spans(self) -> tuple[tuple[int, int, Line], ...]:
        """Return (first row, row after the last, line) of each span, the latest first."""
        return ((self.start, self.stop, self.line), *reversed(self.before))


def line_of(row: int, spans: Iterable[tuple[int, int, Line]]) -> Line:
    """Return the line of code that last changed a row of a table.

    `spans` is the result of `RowLines.spans`: (first row, row after the last, line) of each span of
    rows, the latest span first.
    """
    return next((line for start, stop, line in spans if start <= row < stop), NOWHERE)


def file_name(path: str) -> str:
    """Return the short name of a file: its last part, or "notebook cell"."""
    if "ipykernel" in path or path.startswith("<"):
        return "notebook cell"
    return path.replace("\\", "/").rsplit("/", 1)[-1]


def in_words(*lines: Line) -> str:
    """Return text such as `lesson.py, line 12: v = graph.add_vertex(…)` for each distinct line.

    Unknown lines are left out.
    """
    texts = []
    for path, line_number in dict.fromkeys(lines):
        if path:
            text = linecache.getline(path, line_number).strip()
            texts.append(
                f"{file_name(path)}, line {line_number}" + (f": {text[:100]}" if text else "")
            )
    return "; and ".join(texts)
