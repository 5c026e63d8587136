"""Make a failing program smaller: leave out lines for as long as it still fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

ASSIGNED = re.compile(r"(\w+) = ")


def smallest(lines: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """Return `lines` without as many lines as possible, so that `fails` is still true.

    Larger pieces go first. With a line that defines a name, the lines that use it go, too. Ctrl-C
    returns the smallest program so far.
    """
    try:
        for rest in _shorter(lines, fails):
            lines = rest
    except KeyboardInterrupt:
        pass
    return lines


def _shorter(lines: list[str], fails: Callable[[list[str]], bool]) -> Iterator[list[str]]:
    size = len(lines) // 2
    while size:
        start, shorter = 0, False
        while start < len(lines):
            names = {
                found.group(1)
                for line in lines[start : start + size]
                if (found := ASSIGNED.match(line))
            }
            rest = lines[:start] + lines[start + size :]
            without = [line for line in rest if names.isdisjoint(re.findall(r"\w+", line))]
            found = next(
                (some for some in (without, rest) if len(some) < len(lines) and fails(some)), None
            )
            if found is None:
                start += size
            else:
                lines, shorter = found, True
                yield lines
        if not shorter or size > len(lines):
            size //= 2
