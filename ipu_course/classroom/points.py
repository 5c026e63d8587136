"""Give points for the answers to exercises: the rules, and the function that test cells call.

An exercise is worth one point, and a warm-up half a point. If the check refuses an answer only for
its modelled cycles or bytes, and these are at most twice the budget, the answer earns half.
"""

from __future__ import annotations

import sys

from ipu_course.checking.learner_calls import Verdict, check
from ipu_course.checking.naming import lesson_of
from ipu_course.checking.verdicts import Kind

WARM_UP = 0.5
# The largest multiple of the budget for which a cost still earns half of the points.
HALF_UP_TO = 2
# The costs that can earn half of the points. A count, such as supersteps, is a criterion and not a
# budget.
COSTS = ("cycles", "bytes")
# An exercise that cannot earn half of the points: its budget is a fraction of the learner's own
# earlier cost, so an unchanged program would earn half.
NO_HALF = ("15.5",)


def weight(exercise: str) -> float:
    """Return the points of an exercise: 1, or 0.5 for a warm-up such as "01.w1"."""
    return WARM_UP if exercise.startswith(f"{lesson_of(exercise)}.w") else 1.0


def share_of(exercise: str, verdict: Verdict) -> float:
    """Return the fraction of the points that a verdict earns: 1, 0.5 or 0."""
    if verdict.kind is Kind.PASSED:
        return 1.0
    bars = verdict.bars
    has_half = (
        verdict.kind is Kind.NOT_YET
        and bars is not None
        and exercise not in NO_HALF
        and any(cost in bars.unit for cost in COSTS)
        and bars.budget < bars.yours <= HALF_UP_TO * bars.budget
    )
    return 0.5 if has_half else 0.0


def points(name: str, *answers: object) -> float:
    """Check an answer like `check(name, *answers)`, show the verdict, and return its points.

    The result is from 0 to the points of the exercise, as nbgrader expects in the last line of a
    test cell.

    :raises UnknownExerciseError: if there is no such exercise.
    """
    verdict = check(name, *answers)
    display = getattr(sys.modules.get("IPython.display"), "display", print)
    display(verdict)
    return weight(name) * share_of(name, verdict)
