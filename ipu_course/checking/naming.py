"""Parse and sort the names of lessons (`07b`), exercises (`07b.10`) and warm-ups (`07b.w1`).

The name of a notebook file begins with the name of its lesson: `07b_title.ipynb`. Lessons are
ordered 07, 07b, 08. Within a lesson, the warm-ups come first.
"""

from __future__ import annotations

import re
from pathlib import Path

LESSON = r"\d\d[a-z]?"
EXERCISE = rf"{LESSON}\.w?\d+"
Key = tuple[float, str, bool, float, str]


def lesson_of(name: str) -> str:
    """Return the lesson's name at the start of `name`: `07b` for `07b.w1` and `07b_title.ipynb`."""
    return re.split(r"[._]", name, maxsplit=1)[0]


def folder_of(name: str) -> Path:
    """Return the folder of the lesson to which an exercise belongs."""
    return Path(__file__).resolve().parents[1] / f"lesson{lesson_of(name)}"


def number_of(name: str) -> int:
    """Return the number of a lesson without its letter: 7 for `07b`.

    :raises ValueError: for a name without a number.
    """
    return int(lesson_of(name).rstrip("abcdefghijklmnopqrstuvwxyz"))


def sort_key(name: str) -> Key:
    """Return the sort key of a name, for the order 07.1, 07b.w1, 07b.2, 07b.10, 08.1.

    Names of any other form come last.
    """
    match = re.fullmatch(r"(\d+)([a-z]?)(?:\.(w?)(\d+))?", name)
    if match is None:
        return (float("inf"), name, False, 0, name)
    return (int(match[1]), match[2], match[3] != "w", int(match[4] or 0), name)


def lesson_meant(word: str) -> str:
    """Return the lesson's name for `7`, `07` or `7B`; "" if `word` is not a number."""
    match = re.fullmatch(r"(\d{1,8})([a-z]?)", word.lower())
    return f"{int(match[1]):02}{match[2]}" if match else ""


def exercise_meant(text: str) -> str:
    """Return the exercise's name for `7.1`, `7b.w1` or "exercise 7 1"; "" if there is none."""
    parts = re.findall(r"\d+(?:[a-z](?=\.))?|w\d+", text)
    lesson = lesson_meant(parts[0]) if len(parts) == 2 else ""
    return f"{lesson}.{parts[1]}" if lesson else ""
