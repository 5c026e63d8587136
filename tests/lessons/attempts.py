"""Known answers, right and wrong: the lessons' known mistakes, and what `lessonNN/attempts.py` adds.

A file of attempts has the form of a file of mistakes (`ipu_course.checking.mistakes`): cells that
begin with `# %% 01.3: what the answer is`, and a line that says what the check has to answer:

    # passed: words of the verdict                   a right answer, written in a way of its own
    # like: the busy share                           a known mistake, written in another way
    # not yet: words of the verdict                  another wrong answer, which has to be refused
    # error in the answer: words of the verdict      another one, which raises an error

Each answer runs among the names that its lesson defines. A mistake written in another way also has
the names of the first cell, `# %% given`.
"""

from __future__ import annotations

import re
from pathlib import Path

from ipu_course.checking.mistakes import Mistake, all_mistakes, read

WRONG = list(all_mistakes())
ATTEMPTS = [
    attempt
    for path in sorted(Path(__file__).parent.glob("lesson*/attempts.py"))
    for attempt in read(path)
]
RIGHT = [attempt for attempt in ATTEMPTS if attempt.kind == "passed"]
VARIANTS = [attempt for attempt in ATTEMPTS if attempt.kind == "like"]
REFUSED = [attempt for attempt in ATTEMPTS if attempt.kind not in ("passed", "like")]


def says_expected(attempt: Mistake, text: str) -> bool:
    """Return whether the text of a verdict has the expected words. A `{figure}` in them stands for a
    value that the check has computed."""
    return re.search(re.sub(r"\\{\w+\\}", ".+", re.escape(attempt.says)), text) is not None
