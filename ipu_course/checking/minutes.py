"""Write the minutes of each lesson where learners read them, from the lesson's `words.md`.

Three places repeat them: the first cell of the solved notebook ("*110 minutes."), the lesson's row
in notebooks/index.ipynb and its row in README.md. `run.py learner` writes all three.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ipu_course.checking import notebooks
from ipu_course.checking.exercise import Lesson, catalogue
from ipu_course.checking.naming import lesson_of
from ipu_teach._support.places import write_whole


def _places(lesson: Lesson) -> Iterator[tuple[Path, str]]:
    """Yield each file that repeats the lesson's minutes, and a pattern of the text before them."""
    row = re.escape(f"{lesson.number} {lesson.title}")
    for solved in notebooks.lessons(solved=True):
        if lesson_of(solved.stem) == lesson.number:
            yield solved, r'"\*(?=\d+ minutes\.)'
    yield notebooks.NOTEBOOKS / notebooks.INDEX, rf"\| \[{row}\]\([^)]+\) \| "
    yield notebooks.NOTEBOOKS.parent / "README.md", rf"(?m:^)\| {row} \| "


def write_minutes() -> list[Path]:
    """Write the minutes of every lesson into the rows and cells that repeat them.

    Return the files that changed. A missing file or row is left out; the tests ask for it.
    """
    originals: dict[Path, str] = {}
    texts: dict[Path, str] = {}
    for lesson in catalogue():
        for path, before in _places(lesson):
            if path not in texts:
                exists = path.exists()
                texts[path] = path.read_text("utf-8", errors="replace") if exists else ""
                originals[path] = texts[path]
            texts[path] = re.sub(rf"({before})\d+", rf"\g<1>{lesson.minutes}", texts[path])
    changed = [path for path, text in texts.items() if text != originals[path]]
    for path in changed:
        write_whole(path, texts[path])
    return changed
