"""Judge answers within a time limit: a check always ends, and returns a verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ipu_course.checking import time_limit
from ipu_course.checking.calling import Broken, is_blank, is_interruption
from ipu_course.checking.quoting import line_of, said_by
from ipu_course.checking.shared import line_for
from ipu_course.checking.time_limit import TooLong, as_it_was, within
from ipu_course.checking.verdicts import Found, Kind, NotAttempted, NotYet, Passed
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.errors import AnswerKindError, InvalidPerfEstimateError


def judged(judge: Callable[..., Passed], answers: Sequence[object], name: str = "") -> Found:
    """Run the check `judge` on `answers`, and return its result.

    `name` is the name of the exercise. A check that takes too long is stopped. `KeyboardInterrupt`
    is raised if the learner interrupts, and no other exception. All texts of the result are built
    within the time limit, because even `repr()` of an answer may fail or never end.
    """
    began = time_limit.BEGAN.set(time_limit.times())
    time_limit.CALL.set(time_limit.ANSWER)
    try:
        # Scalar code runs in Python, so no compiler is loaded within the limit. Loading one takes
        # much of the check's time, and a compiler that is stopped while it loads does not work.
        with as_it_was(), np.errstate(), scalar_run.chosen(scalar_run.CHOSEN.get() or "python"):
            return within(time_limit.LIMIT, lambda: _judged(judge, answers, name))
    except TooLong:
        rows = (
            ("tried", time_limit.CALL.get()),
            ("came", f"no result: after {time_limit.LIMIT:g} seconds it was stopped"),
            (
                "next",
                "look for a loop that never ends, or for much more work than the exercise needs.",
            ),
        )
        return Found(Kind.NOT_YET, rows)
    finally:
        time_limit.BEGAN.reset(began)


def _judged(judge: Callable[..., Passed], answers: Sequence[object], name: str) -> Found:
    try:
        return _in_words(judge, answers, name)
    # The check has a bug, or the answer returned values that the check does not expect.
    except BaseException as error:
        if is_interruption(error):
            raise
        why = (
            "the check could not read the answer, or the check itself has a bug. So the answer was "
            "not judged."
        )
        advice = (
            "return plain numbers, lists or programs. If your answer does that, please report this "
            "bug."
        )
        rows = (
            ("tried", "judging your answer"),
            ("came", said_by(error)),
            ("line", line_of(error)),
            ("why", why),
        )
        return Found(Kind.UNJUDGED, (*rows, ("next", advice)))


def _in_words(judge: Callable[..., Passed], answers: Sequence[object], name: str) -> Found:
    try:
        if any(is_blank(answer) for answer in answers):
            return Found(Kind.NOT_ATTEMPTED)
        passed = judge(*answers)
        passed.refuse_the_impossible()
    except NotAttempted:
        return Found(Kind.NOT_ATTEMPTED)
    except NotYet as found:
        return Found(Kind.NOT_YET, found.rows, found.bars, picture=found.picture)
    except AnswerKindError as error:
        return Found(
            Kind.NOT_YET,
            (("tried", "nothing yet"), ("came", error.tried), ("next", error.next_step)),
        )
    except Broken as found:
        return Found(Kind.ERROR, found.rows_in(name))
    # The learner's method cycles() raised the error.
    except InvalidPerfEstimateError as error:
        return Found(Kind.ERROR, Broken("what it costs", error).rows)
    bars = passed.bars
    bound = passed.bound
    if bars and bound and bars.unit == bound.unit and bound.is_near(bars.yours):
        bars = replace(bars, least=bound.least)
    return Found(
        Kind.PASSED, passed.rows(), bars, line_for(name, *passed.cost, passed.evidence, answers[0])
    )
