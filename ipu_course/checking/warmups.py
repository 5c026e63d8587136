"""Checks of warm-ups: exercises of two minutes that prepare a step of a longer exercise."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ipu_course.checking.calling import Answer, Result
from ipu_course.checking.comparing import Case, compare
from ipu_course.checking.mistakes import suspects
from ipu_course.checking.programs import TILES
from ipu_course.checking.quoting import difference, quoted
from ipu_course.checking.trial import Ran, Trial, Var, appends, by_rows, codelet_of
from ipu_course.checking.verdicts import Passed
from ipu_teach import FLOAT
from ipu_teach.types import Array

Judge = Callable[..., Passed]


def formula(
    name: str, right: Callable[..., Result], *cases: Case, more: Iterable[Case] = ()
) -> Judge:
    """Return a check that compares a function of numbers with `right` on all cases.

    The first case is an ordinary one. `more` has the further cases of `compare`.
    """
    values = {f"drawn, {case}": case for case in cases}
    further = tuple(more)

    def judge(answer: Callable[..., Result]) -> Passed:
        return compare(answer, right, values, suspects(name), more=further)

    return judge


def _nudge(name: str) -> str:
    return f'compute the first row by hand, and compare; hint("{name}") helps.'


def tensor_call(
    name: str, right: Callable[[Array], Array], asks: str, precise: float = 1e-6
) -> Judge:
    """Return a check of a function that appends to a program and returns a tensor.

    The function runs on tensors of 13 rows (one for each tile) and of 3 rows. A row has 4 numbers.
    `right` computes the expected array from an array, `asks` describes the expected tensor in
    words, and `precise` is the tolerance relative to the largest number of the right result.
    """

    def judge(answer: Answer) -> Passed:
        reports = []
        for rows in (TILES, 3):
            x = (np.random.default_rng(rows).permutation(4 * rows) / 8 - 1).reshape(rows, 4)
            x = x.astype(np.float32)
            tensors = {"x": Var(FLOAT, x.shape, by_rows, [x], kept=True)}
            form = appends(right(x).shape, asks=asks)
            trial = Trial(f"{rows} rows of 4 numbers", tensors, form=form)
            run = trial.of(answer)
            run.refuse_changed(
                "use the function without in_place in its name: it creates a new tensor."
            )
            if where := difference(run.result, right(x), precise):
                raise run.refused(name, where, quoted(right(x)[0]), _nudge(name))
            reports.append(run.report)
        return Passed("13 rows of 4 numbers, and 3", evidence=reports)

    return judge


def program(name: str, trial: Trial, out: str, ready: Callable[[Answer, Ran], None]) -> Judge:
    """Return a check that runs the answer in a trial.

    It compares the tensor `out` with the expected values. Then it calls `ready(answer, run)`, which
    raises `NotYet` if the answer has another fault.
    """

    def judge(answer: Answer) -> Passed:
        run = trial.of(answer)
        if difference := run.wrong(out):
            raise run.refused(name, difference.words, quoted(difference.right), _nudge(name))
        ready(answer, run)
        return Passed(trial.tried, evidence=run.engine.report)

    return judge


def vertex(name: str, trial: Trial, out: str) -> Judge:
    """Return a check of a codelet that writes the tensor `out` of the trial."""

    def judge(answer: Answer) -> Passed:
        codelet_of(answer, f'check("{name}")')
        return program(name, trial, out, lambda *_: None)(answer)

    return judge
