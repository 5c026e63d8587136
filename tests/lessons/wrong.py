"""Answers that must fail, from the lessons' files of mistakes, and such as must pass, from
`lessonNN/right.txt`: blocks of

=== 01.1: another way
--- passed: words of the verdict
code of the gap's cell, run among its lesson's definitions
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ipu_course.checking.mistakes import Mistake, all_mistakes
from ipu_course.checking.naming import EXERCISE


@dataclass(frozen=True)
class Right:
    exercise: str
    about: str
    kind: str
    says: str
    code: str


def read(path: Path) -> list[Right]:
    """The blocks of one file."""
    blocks = re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = [
        re.fullmatch(rf"({EXERCISE}): (.+)\n--- ([a-z ]+): (.+)\n((?:.*\n)+)", block)
        for block in blocks
    ]
    assert all(found), f"{path.parent.name}: block {found.index(None) + 1} has another form"
    return [Right(*match.groups()) for match in found if match]


WRONG = list(all_mistakes())
RIGHT = [
    right
    for path in sorted(Path(__file__).parent.glob("lesson*/right.txt"))
    for right in read(path)
]


def said(wrong: Mistake, text: str) -> bool:
    """Whether a verdict says it. A `{figure}` stands for what the check has worked out."""
    return re.search(re.sub(r"\\{\w+\\}", ".+", re.escape(wrong.says)), text) is not None
