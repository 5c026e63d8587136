"""Write the minutes of each lesson, which are in its `words.md`, into the files that learners read.

Learners read the minutes in three other files: in the first cell of the solved notebook
("*110 minutes."), and in the lesson's table rows of notebooks/index.ipynb and of README.md.
`run.py learner` updates all three.
"""

from __future__ import annotations

import re
from pathlib import Path

from ipu_course.checking import notebooks
from ipu_course.checking.exercise import catalogue
from ipu_course.checking.naming import lesson_of
from ipu_teach._support.places import write_whole


def write_minutes() -> list[Path]:
    """Write the minutes of every lesson into the other files; return the files that changed.

    A missing file or table row is skipped; the tests report it.
    """
    index = notebooks.NOTEBOOKS / notebooks.INDEX
    readme = notebooks.NOTEBOOKS.parent / "README.md"
    solved = {lesson_of(path.stem): path for path in notebooks.lessons(solved=True)}
    originals = {
        path: path.read_text("utf-8", errors="surrogateescape")
        for path in (index, readme, *solved.values())
        if path.exists()
    }
    texts = dict(originals)
    for lesson in catalogue():
        row = re.escape(f"{lesson.number} {lesson.title}")
        places = {
            solved.get(lesson.number): r'"\*(?=\d+ minutes\.)',
            index: rf"\| \[{row}\]\([^)]+\) \| ",
            readme: rf"(?m:^)\| {row} \| ",
        }
        for path, before in places.items():
            if path in texts:
                texts[path] = re.sub(rf"({before})\d+", rf"\g<1>{lesson.minutes}", texts[path])
    changed = [path for path, text in texts.items() if text != originals[path]]
    for path in changed:
        # Bytes that are not UTF-8 are written back unchanged. Later, read_notebook raises an error
        # for a file with such bytes.
        write_whole(path, texts[path].encode("utf-8", errors="surrogateescape"))
    return changed
