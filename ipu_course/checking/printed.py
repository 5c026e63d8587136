"""Show only the first lines that an answer prints during its check.

A check calls an answer many times. Without a limit, the printed lines would push the verdict, which
is shown below them, off the screen.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TextIO, cast

# A thread of an answer may still print after the check. Because print() has no reference to its
# stream, this list keeps the latest streams alive.
_handed_out: deque[_First] = deque(maxlen=256)

MOST_LINES = 20
# The maximum number of printed characters, for answers that print very long lines.
MOST_CHARACTERS = 4000


class _First:
    """A text stream that writes its first lines to another stream and counts the other lines.

    All operations except writing are passed on to the other stream.
    """

    def __init__(self, below: TextIO) -> None:
        self.below = below
        self.lines = self.characters = self.left_out = 0

    def write(self, text: str) -> int:
        for line in text.splitlines(keepends=True):
            if self.lines < MOST_LINES and self.characters < MOST_CHARACTERS:
                self.below.write(line[: MOST_CHARACTERS - self.characters])
                self.characters += len(line)
                self.lines += line.endswith("\n")
            else:
                self.left_out += line.endswith("\n")
        return len(text)

    def __getattr__(self, name: str) -> object:
        return getattr(self.below, name)


@contextmanager
def first_lines() -> Iterator[None]:
    """Context manager: print the first lines of the block, then how many more there were."""
    first = _First(sys.stdout)
    _handed_out.append(first)
    try:
        with redirect_stdout(cast(TextIO, first)):
            yield
    finally:
        if first.left_out:
            start = "" if first.characters < MOST_CHARACTERS else "\n"
            sys.stdout.write(
                f"{start}… and {first.left_out:,} more lines that your answer printed while it was "
                "checked\n"
            )
