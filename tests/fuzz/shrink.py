"""Make a failing program smaller: leave out lines, as long as it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator


def smallest(lines: list[str], fails: Callable[[list[str]], bool]) -> list[str]:
    """`lines` with as many left out as may be, in larger pieces first, so that `fails` still says true of the rest.

    Ctrl-C ends it with what it has.
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
            rest = lines[:start] + lines[start + size :]
            if fails(rest):
                lines, shorter = rest, True
                yield lines
            else:
                start += size
        if not shorter or size > len(lines):
            size //= 2
