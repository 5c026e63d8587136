"""The lessons: checks, hints, predictions and progress, and the notebooks themselves.

Beside `tiny`, which a lesson reads aloud: the exercises with their checks, hints, puzzles and
budgets; what an answer did, in words that help; predictions and progress in one file; the learner's
notebook made from the solved one; lessons run without a browser. No check raises or hangs, whatever
the answer does.

    from ipu_teach.lessons import check, given, hint, predict, progress, solution

`exercise` says what an exercise is, `lesson01` and its like hold those of a lesson, `mistakes_01`
and its like the wrong answers that are known, `judging` what all checks share, and `trial` what
those share whose answers are programs.
"""

from ipu_teach.lessons.afterwards import solution
from ipu_teach.lessons.built import built
from ipu_teach.lessons.learner_calls import check, given, hint, predict, share, verify
from ipu_teach.lessons.overview import progress
from ipu_teach.lessons.puzzles import puzzle

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
