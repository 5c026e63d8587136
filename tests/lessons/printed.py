"""Read whole numbers with thousands separators in the outputs of a lesson, for its claims."""

from __future__ import annotations

import re


def whole(text: str) -> int:
    """Return the number that a text such as "12,340" stands for."""
    return int(text.replace(",", ""))


def whole_numbers(text: str) -> list[int]:
    """Return all whole numbers in a text, in their order."""
    return [whole(number) for number in re.findall(r"\d[\d,]*", text)]
