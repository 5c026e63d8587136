"""Compare answers with the correct results, and explain wrong ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TypeVar

import numpy as np

from ipu_course.checking.calling import Broken, Result, call, call_all, is_interruption
from ipu_course.checking.mistakes import Mistake, Reason, first, same, suspects
from ipu_course.checking.precision import in_float64
from ipu_course.checking.quoting import (
    TOLERANCE,
    call_text,
    difference,
    is_of_integers,
    name_of,
    plain,
    quoted,
    said_by,
)
from ipu_course.checking.time_limit import half_is_over
from ipu_course.checking.verdict_panel import Picture
from ipu_course.checking.verdicts import ORDINARY, NotYet, Passed
from ipu_teach.errors import counted, shown
from ipu_teach.types import Array

Value = str | int | float  # A value that a learner writes down, such as a cycle count.
Values = Value | tuple[Value, ...] | list[Value] | Array
Case = TypeVar("Case", bound=tuple[object, ...])  # The arguments of one call of an answer.
Pairs = Sequence[tuple[Case, Result]]  # For each call: (its arguments, its result).


def compare_value(answer: Values, right: Values, exercise: str, about: str, advice: str) -> Passed:
    """Compare a value, or a sequence of values, with the correct one.

    `about` describes the question. `advice` is the next step for the learner if the wrong value
    does not match a known mistake.

    :raises NotYet: if a value is wrong.
    """
    learner_values = _as_row(answer)
    expected = _as_row(right)

    def equals(value: Value, reference: Values) -> bool:
        if isinstance(reference, str):
            return str.lower(str.strip(str(value))) == reference
        return bool(plain(value) == reference)

    def gives_the_same(like: Values) -> bool:
        row = like if isinstance(like, tuple) else (like,)
        return len(row) == len(learner_values) and all(map(equals, learner_values, row))

    if len(learner_values) == len(expected) and all(map(equals, learner_values, expected)):
        return Passed(about, evidence=expected)
    why, known = first(suspects(exercise), gives_the_same)
    actual = shown(answer) if isinstance(answer, str) else ", ".join(map(quoted, learner_values))
    if len(learner_values) != len(expected):
        why = f"the exercise asks for {len(expected)} values."
        known = (
            f"write {len(expected)} values with commas between them, in the order of the exercise."
        )
    elif not why:
        place = list(map(equals, learner_values, expected)).index(False)
        if len(learner_values) > 1:
            why = f"value {place + 1} of {len(expected)} is wrong: {quoted(learner_values[place])}."
    raise NotYet(about, actual, why=why, next_step=known or advice)


def gives_alike(
    answer: Callable[..., object], *cases: tuple[object, ...]
) -> Callable[[Callable[..., object]], bool]:
    """Return a function that tells whether another function gives the same results as `answer`.

    The other function, one with a known mistake, is called with the arguments in each of `cases`.
    Give at least two cases, because in a single case a mistake may give the same result by
    accident. Two calls that raise errors of the same type count as equal.
    """

    def outcome(function: Callable[..., object], case: tuple[object, ...]) -> object:
        parts = (
            part.copy() if isinstance(part, (list, set, dict, np.ndarray)) else part
            for part in case
        )
        try:
            return function(*parts)
        except BaseException as error:  # An answer may also raise SystemExit.
            if is_interruption(error):
                raise
            return type(error)

    results = [outcome(answer, case) for case in cases]

    def alike(like: Callable[..., object]) -> bool:
        return all(
            same(outcome(like, case), result) for case, result in zip(cases, results, strict=True)
        )

    return alike


def _as_row(values: Values) -> tuple[Value, ...]:
    """Return the values of an answer as a tuple; a single value becomes a tuple of one."""
    return tuple(values) if isinstance(values, (tuple, list, np.ndarray)) else (values,)


def compare(
    answer: Callable[..., Result],
    oracle: Callable[..., Result],
    cases: Mapping[str, Case],
    suspects: Iterable[Mistake] = (),
    next_step: str = "run this call in a new cell, and print the values at each step.",
    tolerance: float = TOLERANCE,
    otherwise: Callable[[Pairs[Case, Result]], Reason] = lambda pairs: ("", ""),
    draws: Callable[..., Picture | None] | None = None,
    whole: bool = False,
    more: Iterable[Case] = (),
) -> Passed:
    """Compare an answer with an independent computation on every case, and explain a difference.

    `oracle` is the independent computation. `cases` has the arguments of each call; its keys
    describe the cases. Keys of ordinary cases begin with `ORDINARY`. The verdict describes the
    smallest ordinary case with a wrong result, or the smallest special case if all ordinary cases
    are right.

    `suspects` are known mistakes that may explain the results. If none of them gives the same
    results, `otherwise` is called to find a reason. `draws(*case)` returns a picture of the case
    for the verdict. If `whole` is True, the results are positions or codes, and floats are refused,
    even 2.0.

    `more` has the arguments of further calls, such as all small values of a range. They are called
    only if all `cases` are right. So a common mistake, which already fails in `cases`, always has
    the same verdict.

    :raises NotYet: if a result is wrong.

    :raises Broken: if a call raises an error that no known mistake raises too.
    """
    suspects = tuple(suspects)
    results = _results_of(answer, cases, suspects)
    wrong = {
        name: words
        for name, case in cases.items()
        if (words := difference(results[name], oracle(*case), tolerance))
    }
    if not wrong:
        for name, case in cases.items():
            if whole:
                refuse_floats(call_text(answer, case), results[name], shown(oracle(*case)))
        further = {f"{ORDINARY}, {number}": case for number, case in enumerate(more)}
        if further and not _is_right(answer, oracle, [*further.values()], tolerance, whole):
            compare(
                answer, oracle, further, suspects, next_step, tolerance, otherwise, draws, whole
            )
        return Passed(
            f"{name_of(answer)} on {len(cases) + len(further)} fixed sets of numbers",
            evidence=tuple(results.values()),
        )
    ordinary = [name for name in wrong if name.startswith(ORDINARY)]
    fault = min(ordinary or wrong, key=lambda name: _size(cases[name]))
    case = cases[fault]
    actual, why, advice = _explained(
        answer, oracle, cases, results, wrong, fault, suspects, next_step, tolerance, otherwise
    )
    raise NotYet(
        call_text(answer, case),
        came=actual,
        expected=quoted(oracle(*case)),
        why=why,
        next_step=advice,
        draws=partial(draws, *case) if draws else None,
    )


def _explained(
    answer: Callable[..., Result],
    oracle: Callable[..., Result],
    cases: Mapping[str, Case],
    results: Mapping[str, Result],
    wrong: Mapping[str, str],
    fault: str,
    suspects: Iterable[Mistake],
    next_step: str,
    tolerance: float,
    otherwise: Callable[[Pairs[Case, Result]], Reason],
) -> tuple[str, str, str]:
    """Return (actual result, why, next step) for the case `fault`, whose result is wrong.

    `wrong` maps each case with a wrong result to a text that describes the difference. `answer`,
    `oracle`, `cases`, `suspects`, `tolerance` and `otherwise` are as in `compare`.
    """
    pairs = list(zip(cases.values(), results.values(), strict=True))
    known, advice = next(filter(any, _reasons(suspects, otherwise, oracle, pairs)), ("", next_step))
    actual = wrong[fault]
    why = known
    if actual and results[fault] is None and any(result is not None for result in results.values()):
        actual = "None"
        why = known or (
            "for these arguments, the function ends without a `return`; for others it returns a "
            "value."
        )
    if not why and len(wrong) > 2 and _is_one_number(results.values()):
        why = "the function returned the same number for all arguments that were tried."
        advice = "see that each argument changes the result as it should."
    if (
        not why
        and _is_numeric(results[fault])
        and all(_is_floating(oracle(*case)) for case in cases.values())
    ):
        again = partial(_still_wrong, answer, oracle, cases.values(), tolerance)
        why = rounding_or_logic(again)
        advice = KEEP_WIDE if why == ROUNDED else advice
    if not why and not any(name.startswith(ORDINARY) for name in wrong):
        why = f"the ordinary cases are right. Special in this case: {fault}."
    return actual, why, advice


def _is_right(
    answer: Callable[..., Result],
    oracle: Callable[..., Result],
    cases: Sequence[Case],
    tolerance: float,
    whole: bool,
) -> bool:
    """Return whether an answer gives the right result in all cases, without a verdict."""
    rights = [oracle(*case) for case in cases]
    try:
        results = call_all(answer, cases)
    except (Broken, NotYet):
        return False
    return not any(
        difference(result, right, tolerance) or whole and not is_of_integers(result)
        for result, right in zip(results, rights, strict=True)
    )


def _results_of(
    answer: Callable[..., Result], cases: Mapping[str, Case], suspects: Iterable[Mistake]
) -> dict[str, Result]:
    """Return the result of an answer for each case.

    :raises NotYet: if a call raises an error, and a known mistake fails in the same way.

    :raises Broken: if a call raises any other error.
    """
    try:
        return {name: call(answer, *case) for name, case in cases.items()}
    except Broken as broken:
        why, advice = first(suspects, gives_alike(answer, *cases.values()))
        if not why:
            raise
        raise NotYet(broken.tried, said_by(broken.error), why=why, next_step=advice) from None


def refuse_floats(description: str, result: object, expected: str = "integers") -> None:
    """Raise `NotYet` if `result` contains floats where an exercise needs integers, e.g. indices."""
    if not is_of_integers(result):
        is_array = isinstance(result, np.ndarray) and result.ndim
        raise NotYet(
            description,
            shown(result),
            expected=expected,
            why="the result has floats, but a count, a position or a code is an integer.",
            next_step=(
                f"convert the floats to integers: {'.astype(int)' if is_array else 'int(…)'}."
            ),
        )


def _size(case: Iterable[object]) -> tuple[int, float]:
    """Return `(count, total)`: the number of values in a case and the sum of their absolute values.

    A string counts as one value for each character. Only numbers add to the sum.
    """
    count = 0
    total = 0.0
    for part in case:
        part = part.ravel().tolist() if isinstance(part, np.ndarray) else part
        part = part.values() if isinstance(part, Mapping) else part
        if isinstance(part, Collection):
            inner = (len(part), 0.0) if isinstance(part, str) else _size(part)
            count, total = count + inner[0], total + inner[1]
        else:
            size = plain(part)
            count += 1
            total += abs(float(size)) if size is not None else 0
    return count, total


def _is_one_number(results: Iterable[Result]) -> bool:
    """Return whether all results are numbers and equal."""
    numbers = {plain(result) for result in results}
    return len(numbers) == 1 and None not in numbers


def _still_wrong(
    answer: Callable[..., Result],
    oracle: Callable[..., Result],
    cases: Iterable[Case],
    tolerance: float,
) -> str:
    """Compare an answer with the oracle again, after converting the float arrays to float64.

    Return the first difference in words, or "" if there is none.
    """
    for case in cases:
        wide = tuple(_wider(part) for part in case)
        if words := difference(call(answer, *wide), oracle(*wide), tolerance):
            return words
    return ""


def _reasons(
    suspects: Iterable[Mistake],
    otherwise: Callable[[Pairs[Case, Result]], Reason],
    oracle: Callable[..., Result],
    pairs: Pairs[Case, Result],
) -> Iterator[Reason]:
    """Yield possible reasons for wrong results, one from each of three sources.

    The sources are the known mistakes, the exercise's function `otherwise`, and rounding. A source
    that finds no reason yields `("", "")`.
    """

    def gives_the_same(like: Callable[..., Result]) -> bool:
        return all(not difference(actual, like(*deepcopy(case))) for case, actual in pairs)

    yield first(suspects, gives_the_same)
    yield otherwise(pairs)
    yield _rounded(oracle, pairs)


ROUNDED = (
    "the method is right: in float64 it gives the right result. In the narrower dtype, rounding "
    "loses too many digits."
)
KEEP_WIDE = "add up and divide in FLOAT, and round to HALF or float16 only at the end."


def rounding_or_logic(again: Callable[[], str]) -> str:
    """Return `ROUNDED` if an answer is outside its tolerance only because of rounding, else "".

    `again` repeats the comparison with float64 wherever `FLOAT` or `HALF` is declared, and returns
    the remaining difference in words. The result is also "" if this repetition raises an error, or
    if half of the check's time is already used.
    """
    # A second run may take as long as the first. It is made only if at least half of the time is
    # left.
    if half_is_over():
        return ""
    try:
        with in_float64():
            return "" if again() else ROUNDED
    except Exception:  # An answer that raises an error in float64 gets no explanation.
        return ""


def _wider(argument: Result) -> Result | Array:
    """Return an array of floats as float64, and any other argument unchanged."""
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "f":
        return argument.astype(float)
    return argument


def _is_numeric(value: object) -> bool:
    return plain(value) is not None or isinstance(value, np.ndarray) and value.dtype.kind in "iuf"


def _is_floating(value: object) -> bool:
    return isinstance(value, float) or isinstance(value, np.ndarray) and value.dtype.kind == "f"


def _rounded(oracle: Callable[..., Result], pairs: Pairs[Case, Result]) -> Reason:
    """Return `(why, next step)` if every result is the rounded correct result.

    All results must be rounded to the same number of digits after the decimal point, from 0 to 4.
    Otherwise return `("", "")`.
    """
    rights = [right for case, _ in pairs if isinstance(right := oracle(*case), float)]
    values = [value for _, result in pairs if (value := plain(result)) is not None]
    numbers = [float(value) for value in values if -1e300 < value < 1e300]
    if len(numbers) == len(rights) == len(pairs):
        for digits in range(5):
            if all(
                abs(m - round(right, digits)) < 1e-9
                for m, right in zip(numbers, rights, strict=True)
            ):
                why = (
                    f"this is the right number, but rounded to {counted(digits, 'digit')} after "
                    "the point."
                )
                return why, "return the number without rounding it."
    return "", ""
