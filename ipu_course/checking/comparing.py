"""Compare answers with the correct results, and explain wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np

from ipu_course.checking.calling import call
from ipu_course.checking.mistakes import Mistake, Reason, first, suspects
from ipu_course.checking.precision import in_float64
from ipu_course.checking.quoting import TOLERANCE, call_text, difference, name_of, plain, quoted
from ipu_course.checking.time_limit import half_is_over
from ipu_course.checking.verdicts import ORDINARY, NotYet, Passed
from ipu_teach.errors import counted, shown


def compare_value(answer: Any, right: Any, exercise: str, about: str, advice: str) -> Passed:
    """Compare an answer that is a value, or a sequence of values, with the correct one."""
    learner_run, expected = (
        tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else (value,)
        for value in (answer, right)
    )

    def same(value: Any, reference: Any) -> bool:
        if isinstance(reference, str):
            return str.lower(str.strip(str(value))) == reference
        return bool(plain(value) == reference)

    def comes_to_hers(like: Any) -> bool:
        rows = like if isinstance(like, tuple) else (like,)
        return len(rows) == len(learner_run) and all(map(same, learner_run, rows))

    if len(learner_run) == len(expected) and all(map(same, learner_run, expected)):
        return Passed(about, evidence=expected)
    why, known = first(suspects(exercise), comes_to_hers)
    actual = shown(answer) if isinstance(answer, str) else ", ".join(map(quoted, learner_run))
    if len(learner_run) != len(expected):
        why = f"{len(expected)} values are asked for."
        known = "put commas between them, in that order."
    elif not why:
        place = next(k for k in range(len(learner_run)) if not same(learner_run[k], expected[k]))
        why = f"number {place + 1} of them is not." if len(learner_run) > 1 else ""
    raise NotYet(about, actual, why=why, next_step=known or advice)


Pairs = Sequence[tuple[tuple[Any, ...], Any]]  # the arguments and the result of each call


def compare(
    answer: Callable[..., Any],
    oracle: Callable[..., Any],
    cases: Mapping[str, tuple[Any, ...]],
    suspects: Iterable[Mistake] = (),
    next_step: str = "try that call in a cell of your own, and follow it by hand.",
    tolerance: float = TOLERANCE,
    otherwise: Callable[[Pairs], Reason] = lambda pairs: ("", ""),
    draws: Callable[..., Any] | None = None,
) -> Passed:
    """Compare an answer with an independent computation on every case; known mistakes are
    recognised.

    `cases`: the arguments of each call, by what is special about the case. The names of ordinary
    cases begin with ORDINARY, and the verdict describes the first of them that is wrong. If all
    ordinary cases are right, the verdict names the special case that is wrong. `otherwise` looks
    for a reason if none of the `suspects` gives the same results. `draws(*case)` draws the case
    that the verdict describes.
    """
    results = {name: call(answer, *case) for name, case in cases.items()}
    wrong = {
        name: words
        for name, case in cases.items()
        if (words := difference(results[name], oracle(*case), tolerance))
    }
    if not wrong:
        return Passed(
            f"{name_of(answer)} on {len(cases)} sets of numbers, drawn at random",
            evidence=tuple(results.values()),
        )
    fault = next((name for name in wrong if name.startswith(ORDINARY)), next(iter(wrong)))
    case = cases[fault]
    pairs = list(zip(cases.values(), results.values(), strict=True))
    known, advice = next(filter(any, _reasons(suspects, otherwise, oracle, pairs)), ("", next_step))

    def again() -> str:
        wide = (tuple(_wider(part) for part in case) for case in cases.values())
        return next(
            (
                words
                for case in wide
                if (words := difference(call(answer, *case), oracle(*case), tolerance))
            ),
            "",
        )

    actual = wrong[fault]
    why = known
    if actual and results[fault] is None and any(result is not None for result in results.values()):
        actual, why = (
            "None",
            "one way through the function ends without a `return`; elsewhere it returns something.",
        )
    if (
        not why
        and len(wrong) > 2
        and len(numbers := {plain(result) for result in results.values()}) == 1
        and None not in numbers
    ):
        why, advice = "it gives the same whatever it is given.", "work it out from the arguments."
    if (
        not why
        and _numeric(results[fault])
        and all(_floating(oracle(*case)) for case in cases.values())
    ):
        why = rounding_or_logic(again)
        advice = KEEP_WIDE if why == ROUNDED else advice
    if not why and not any(name.startswith(ORDINARY) for name in wrong):
        why = f"the other cases are right. What is special here: {fault}."
    raise NotYet(
        call_text(answer, case),
        came=actual,
        expected=quoted(oracle(*case)),
        why=why,
        next_step=advice,
        draws=partial(draws, *case) if draws else None,
    )


def _reasons(
    suspects: Iterable[Mistake],
    otherwise: Callable[[Pairs], Reason],
    oracle: Callable[..., Any],
    pairs: Pairs,
) -> Iterator[Reason]:
    yield first(
        suspects,
        lambda like: all(not difference(actual, like(*deepcopy(case))) for case, actual in pairs),
    )
    yield otherwise(pairs)
    yield _rounded(oracle, pairs)


ROUNDED = "done once more in float64 it is right: the way is right, and what it loses is rounding."
KEEP_WIDE = (
    "where do the numbers become narrow, as in HALF or float16? Add up and divide in FLOAT, and "
    "round last."
)


def rounding_or_logic(again: Callable[[], str]) -> str:
    """Return ROUNDED if an answer misses its tolerance only because of rounding, else "".

    It is also "" if that cannot be decided, or not in time. `again` runs the answer with float64
    wherever FLOAT or HALF is declared, and returns the remaining difference in words.
    """
    if half_is_over():  # a second run takes no longer than the first
        return ""
    try:
        with in_float64():
            return "" if again() else ROUNDED
    except Exception:  # an answer that fails in float64 stays unexplained
        return ""


def _wider(value: Any) -> Any:
    return (
        value.astype(float) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value
    )


def _numeric(value: object) -> bool:
    return plain(value) is not None or isinstance(value, np.ndarray) and value.dtype.kind in "iuf"


def _floating(value: object) -> bool:
    return isinstance(value, float) or isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _rounded(oracle: Callable[..., Any], pairs: Pairs) -> Reason:
    """Return (why, next step) if every result is the right one, rounded to some number of
    digits."""
    rights = [oracle(*case) for case, _ in pairs]
    values = [value for _, result in pairs if (value := plain(result)) is not None]
    numbers = [float(value) for value in values if -1e300 < value < 1e300]
    if len(numbers) == len(pairs) and all(isinstance(right, float) for right in rights):
        for digits in range(5):
            if all(
                abs(m - round(right, digits)) < 1e-9
                for m, right in zip(numbers, rights, strict=True)
            ):
                why = (
                    f"this is right, and then rounded to {counted(digits, 'digit')} after the "
                    "point."
                )
                return why, "leave the rounding to whoever prints it."
    return "", ""
