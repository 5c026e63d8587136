"""Answers that must fail, read from `wrong_NN.txt`, and such as must pass, from `right_NN.txt`: blocks of

=== 01.1: what is wrong
--- not yet: words of the verdict
code of the gap's cell, run among its lesson's definitions
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Wrong:
    exercise: str
    about: str
    kind: str
    says: str
    code: str


def read(path: Path) -> list[Wrong]:
    """The blocks of one file."""
    blocks = re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = [
        re.fullmatch(r"(\d\d\.\d): (.+)\n--- ([a-z ]+): (.+)\n((?:.*\n)+)", block)
        for block in blocks
    ]
    assert all(found), f"{path.name}: block {found.index(None) + 1} has another form"
    return [Wrong(*match.groups()) for match in found if match]


WRONG = [
    wrong for path in sorted(Path(__file__).parent.glob("wrong_*.txt")) for wrong in read(path)
]
RIGHT = [
    right for path in sorted(Path(__file__).parent.glob("right_*.txt")) for right in read(path)
]
