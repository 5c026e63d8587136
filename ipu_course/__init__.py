"""The course: lessons with checks, hints, predictions and progress, on top of `ipu_teach`.

    from ipu_course import check, given, hint, predict, progress, solution

Compared with `tiny`, which is one file for one lesson, the course adds exercises with checks,
hints, puzzles and budgets; verdicts that explain what an answer did; predictions; progress in one
file; learners' notebooks, derived from the solved ones; and runs of lessons without a browser. No
check raises an error or hangs, whatever the answer does.

Each lesson has a folder such as `lesson05`: `words.md` has its texts, `checks.py` judges its
answers, and `mistakes.py` has known wrong answers. `checking` has the code that all lessons share.
`classroom` shows the progress of a class.
"""

from pathlib import Path

from ipu_teach._support.own_code import add_package
from ipu_teach.report import insights

add_package(__name__, Path(__file__).resolve().parent)

from ipu_course.checking.afterwards import solution  # noqa: E402  after it is registered
from ipu_course.checking.built import built  # noqa: E402
from ipu_course.checking.learner_calls import check, given, hint, predict, share, verify  # noqa: E402
from ipu_course.checking.overview import progress  # noqa: E402
from ipu_course.checking.puzzles import puzzle  # noqa: E402
from ipu_course.checking.words import section, text  # noqa: E402

__all__ = [
    "built",
    "check",
    "given",
    "hint",
    "predict",
    "progress",
    "puzzle",
    "share",
    "solution",
    "verify",
]

for _topic, _number in ((insights.SUPERSTEPS, "01"), (insights.MAPPING, "02")):
    insights.LESSONS[_topic] = f"lesson {_number}, {text(section(_number, 'lesson'), 'title')}"
