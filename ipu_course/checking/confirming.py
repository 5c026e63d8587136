"""Find the known mistake behind a wrong program, and confirm it on further trials.

In one trial, two mistakes may give the same result. A reason is therefore shown only for a mistake
that does in every trial what the answer does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from ipu_course.checking.calling import Answer, Broken
from ipu_course.checking.mistakes import first, suspects
from ipu_course.checking.quoting import said_by
from ipu_course.checking.trial import Ran, Trial
from ipu_course.checking.verdicts import NotYet


def fails_alike_in(trials: Sequence[Trial], answer: Answer) -> Callable[[Answer], bool]:
    """Return a function that tells whether another answer does the same in every trial.

    Trials in which the answer builds no program are left out.
    """
    runs = []
    for trial in trials:
        with suppress(Broken, NotYet):
            runs.append((trial, trial.outcome(answer)))

    def fails_alike(like: Answer) -> bool:
        return bool(runs) and all(trial.agree(run, trial.outcome(like)) for trial, run in runs)

    return fails_alike


def explained(exercise: str, trial: Trial, others: Sequence[Trial], answer: Answer) -> Ran:
    """Return a run of the answer in `trial`, in which errors are explained by known mistakes.

    :raises NotYet: if a known mistake does the same in this trial and in the others.

    :raises Broken: if the answer fails in another way.
    """
    run = trial.build(answer)
    try:
        run.run()
    except Broken as broken:
        why, advice = first(suspects(exercise), fails_alike_in([trial, *others], answer))
        if not why:
            raise
        message = said_by(broken.error)
        raise NotYet(trial.tried, message, why=why, next_step=advice) from None
    return run
