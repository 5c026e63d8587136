"""What every check is made of: calling an answer safely, comparing what came with what should have
come, saying why.

A check returns `Passed` or raises `NotYet`. Whatever the learner's own code raises becomes
`Broken`; a mistake of ours stays what it is. An answer works on copies, so it cannot change what it
is compared with.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from copy import deepcopy
from dataclasses import dataclass, replace
from enum import Enum
from fractions import Fraction
from functools import partial
from time import perf_counter
from types import CodeType
from typing import Any

import numpy as np

from ipu_course.checking.bound import Bound
from ipu_course.checking.mistakes import Mistake, Reason, first, given_to, suspects
from ipu_course.checking.precision import in_float64
from ipu_course.checking.shared import Shared, line_for
from ipu_course.checking.time_limit import Stopped, TooLong, as_it_was, put_back, within
from ipu_course.checking.verdict_panel import Bars, number
from ipu_teach._support.own_code import is_own_file, is_own_module
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.errors import (
    LONGEST,
    AnswerKindError,
    InvalidPerfEstimateError,
    IPUTeachError,
    MissingPerfEstimateError,
    StreamConnectionError,
    counted,
    shown,
)
from ipu_teach.graph.source import in_words
from ipu_teach.types import Array

TOLERANCE = 1e-6  # where none was derived, see double.py: of the largest number of the right answer
# seconds that an answer may take, of the processor's (`time_limit`); what does not end at once is
# over within 10 on a machine of its own
LIMIT = 8.0
ORDINARY = "drawn"  # how the names of ordinary cases begin
MODELLED = "modelled cycles"
MOST_DRAWN = 40_000  # bytes of the picture of a refusal; a larger one is left out
LONGEST_CALL = 96  # characters of a call as a verdict quotes it
BEGAN = ContextVar("when the check that is going on began", default=0.0)

ELSEWHERE = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


class Kind(Enum):
    """How a check ended."""

    PASSED = "passed"
    NOT_YET = "not yet"
    NOT_ATTEMPTED = "not attempted"
    ERROR = "error in the answer"
    UNJUDGED = "not judged"


VerdictRows = tuple[tuple[str, str], ...]
Draws = Callable[[], Any]  # a view of the failing case, or None where none says more than the words


@dataclass(frozen=True)
class Found:
    """How a check ended, in words. `shared`: of one that passed, the line that anybody can replay,
    if it can be made. `picture`: of a refusal, a view of the case that its words name."""

    kind: Kind
    rows: VerdictRows = ()
    bars: Bars | None = None
    shared: Shared | None = None
    picture: Any = None


@dataclass(frozen=True)
class Passed:
    """An answer that is right: what was tried, and what it costs.

    `bars`: the cost beside its budget; `figure`: the cost where that is another or none: in the
    unit of `bound`, which is what the machine can do at best, else in `unit`. `evidence`: what the
    check saw: numbers, arrays, reports.
    """

    description: str
    bars: Bars | None = None
    evidence: Any = ()
    figure: float | None = None
    bound: Bound | None = None
    unit: str = MODELLED

    @property
    def cost(self) -> tuple[float | None, str]:
        """What it costs, and the unit."""
        if self.figure is None and self.bars is not None:
            return self.bars.yours, self.bars.unit
        return self.figure, self.bound.unit if self.bound is not None else self.unit

    def refuse_the_impossible(self) -> None:
        """Raise `NotYet` for a cost below the bound: then it is no cost of what was asked for."""
        yours, unit = self.cost
        if self.bound is not None and yours is not None and self.bound.refuses(yours):
            actual = (
                f"{number(yours)} {unit}, where the machine cannot do with less than "
                f"{number(self.bound.least)}"
            )
            why = (
                f"no program can be better than that ({self.bound.why}). So this is not the cost "
                "of what was asked for."
            )
            raise NotYet(
                self.tried,
                actual,
                "",
                why,
                "leave what things cost to the model. Does your answer say somewhere what they do?",
            )

    def rows(self) -> VerdictRows:
        """What is said of it."""
        yours, unit = self.cost
        message = self.bound.said(yours) if self.bound is not None and yours is not None else ""
        cost = f"{number(self.figure)} {unit}" if self.figure is not None else ""
        return (("tried", self.tried), ("cost", cost), ("machine", message))


class NotYet(Exception):
    """An answer that is not right yet, in words: what was tried, what came, what should have come,
    why, what next. `draws` makes a picture of the case that the words name, once it is told."""

    def __init__(
        self,
        description: str,
        came: str = "",
        expected: str = "",
        why: str = "",
        next_step: str = "",
        bars: Bars | None = None,
        draws: Draws | None = None,
    ) -> None:
        super().__init__(why or came)
        self.rows = (
            ("tried", description),
            ("came", came),
            ("expected", expected),
            ("why", why),
            ("next", next_step),
        )
        self.bars = bars
        self.draws = draws

    @property
    def picture(self) -> Any:
        """A view of the failing case; None where there is none, or none that is small and made in
        time."""
        if self.draws is None or perf_counter() - BEGAN.get() > LIMIT / 2:
            return None
        with suppress(Exception):  # what cannot be drawn is told in words alone
            view = self.draws()
            if view is not None and len(view._repr_html_().encode()) <= MOST_DRAWN:
                return view
        return None

    def with_more(self, why: str) -> NotYet:
        """The same with more of a reason."""
        message = dict(self.rows)
        message["why"] = f"{message['why']} {why}".strip()
        words = (
            message["tried"],
            message["came"],
            message["expected"],
            message["why"],
            message["next"],
        )
        return NotYet(*words, self.bars, self.draws)


def refusing(exercise: str, alike: Callable[[Any], bool]) -> Callable[..., NotYet]:
    """What makes the refusals of an answer: why, and what next, come from the first known mistake
    that is `alike`, and where none is, from whoever refuses."""

    def refused(
        description: str,
        actual: str,
        expected: str,
        advice: str,
        why: str = "",
        bars: Bars | None = None,
        draws: Draws | None = None,
    ) -> NotYet:
        known, better = first(suspects(exercise), alike)
        return NotYet(description, actual, expected, known or why, better or advice, bars, draws)

    return refused


def raise_first(wrong: Sequence[tuple[NotYet, str]]) -> None:
    """Raise the first of some verdicts, if there are any. Each stands with what is special about
    its case, "" if nothing is."""
    for fault, special in wrong[:1]:
        raise (
            fault.with_more(f"The ordinary cases are right; what is special here: {special}.")
            if special
            else fault
        )


class NotAttempted(Exception):
    """The gap is still blank."""


class Broken(Exception):
    """The learner's code raised `error` while `tried` was tried."""

    def __init__(self, description: str, error: BaseException) -> None:
        super().__init__(description)
        self.tried = description
        self.error = error

    def rows_in(self, exercise: str) -> VerdictRows:
        """The same, where a name is missing that a cell of the exercise's lesson makes."""
        name = getattr(self.error, "name", None)
        if isinstance(self.error, NameError) and name in given_to(exercise):
            advice = f"run the cells above: one of them makes {name}."
            return (*self.rows[:-1], ("next", advice))
        return self.rows

    @property
    def rows(self) -> VerdictRows:
        """The error in a few lines, with the line of the learner's that raised it."""
        error, line = self.error, line_of(self.error)
        cause = error.__cause__
        if isinstance(error, IPUTeachError):
            own = "" if "check(" in error.line else error.line  # which is what called all of this
            advice = (
                _counted(error) if isinstance(error, MissingPerfEstimateError) else error.next_step
            )
            if not line and isinstance(error, StreamConnectionError) and cause is not None:
                line, advice = line_of(cause), "mend that line."  # of the learner's callback
            found: VerdictRows = (("where", error.where), ("line", own or line), ("next", advice))
        elif isinstance(error, RecursionError):
            why = "something contains or calls itself, and Python went round until it had enough."
            found = (
                ("line", line),
                ("why", why),
                ("next", "look for what ends the round; call your answer by itself."),
            )
        elif isinstance(error, SystemExit):
            found = (
                ("line", line),
                ("why", "exit() ends a program; an answer ends with `return`."),
                ("next", "leave it out."),
            )
        else:
            advice = "mend that line, or call your answer by itself to see more."
            actual, why, advice = _in_the_kits_words(error) or (said_by(error), "", advice)
            found = (("line", line), ("why", why), ("next", advice))
            return (("tried", self.tried), ("came", actual), *found)
        return (("tried", self.tried), ("came", said_by(error)), *found)


def _in_the_kits_words(error: BaseException) -> tuple[str, str, str] | None:
    """(What came, why, what next) where Python speaks of the kit in names that no learner knows: of
    an argument that is missing, and of numpy's function of an expression."""
    if not isinstance(error, TypeError):
        return None
    if found := re.search(r"argument 0 of type \w+ which has no callable (\w+) method", str(error)):
        name = found[1]
        why = f"np.{name} computes now, in Python. This is worked out on the device, later."
        actual = f"TypeError: np.{name} was given an expression of popops"
        return (
            actual,
            why,
            f"write expr.{name.capitalize()}( … ), which makes a part of the expression.",
        )
    found = re.match(r"([\w.]+)\(\) missing \d+ required positional arguments?: (.+)", str(error))
    if found is None:
        return None
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        names = frame.f_globals | frame.f_locals
        if is_own_file(frame.f_code.co_filename):
            continue
        for text in re.findall(r"[\w.]+(?=\()", linecache.getline(frame.f_code.co_filename, line)):
            first_name, *path = text.split(".")
            called = names.get(first_name)
            for part in path:
                called = getattr(called, part, None)
            returned_value = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
            own = is_own_module(getattr(called, "__module__", ""))
            if callable(called) and own and getattr(returned_value, "__qualname__", "") == found[1]:
                takes = [
                    p.name
                    for p in inspect.signature(called).parameters.values()
                    if p.default is p.empty
                ]
                actual = f"TypeError: {text}() was not given {found[2]}"
                return actual, "", f"call it as {text}({', '.join(takes)}), in this order."
    return None


def _counted(error: MissingPerfEstimateError) -> str:
    """What to do about cycles that cannot be counted where only counted ones are taken: no estimate
    is advised in a check."""
    instead = re.match(r"(write .+), or `def cycles", error.next_step)
    plain = (
        "write it with what can be counted: loops, comparisons and numpy's own functions, on the "
        "vertex's fields."
    )
    return f"{instead[1]}." if instead else plain


def said_by(error: BaseException) -> str:
    """An error's class and message; its class alone where it cannot say its message."""
    try:
        text = error.tried if isinstance(error, IPUTeachError) else shown_text(str(error))
    except BaseException:  # whatever its __str__ raises
        text = ""
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def shown_text(text: str) -> str:
    """A message of somebody else's on one line of at most 200 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:199] + "…"


def line_of(error: BaseException) -> str:
    """The learner's last line on the way to the error, in words."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = frame.f_code.co_filename
        if not is_own_file(path) and not path.startswith(ELSEWHERE):
            return in_words((path, line))
    return ""


def _interrupts(error: BaseException | None) -> bool:
    """Whether it is an interruption, the learner's or the clock's, and no class of an answer's."""
    return type(error) in (KeyboardInterrupt, Stopped)


class answering:
    """Around every call into the learner's code. What that rebinds of what checks use is put back
    at once."""

    def __init__(self, description: str) -> None:
        self.tried = description

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        put_back()
        # SystemExit too
        ours = isinstance(error, (NotYet, NotAttempted, Broken)) or _interrupts(error)
        if error is not None and not ours:
            raise Broken(self.tried, error) from error


def judged(judge: Callable[..., Passed], answers: Sequence[Any], name: str = "") -> Found:
    """How the check of `answers` ends. Raises nothing but the learner's own interruption, and comes
    to an end.

    Every text is made in here, for even the repr of an answer may fail, or take for ever.
    """
    began = BEGAN.set(perf_counter())
    try:
        # A compiler is not loaded in here: that may take the check's time, and stopped, break.
        with as_it_was(), np.errstate(), scalar_run.chosen(scalar_run.CHOSEN.get() or "python"):
            return within(LIMIT, lambda: _judged(judge, answers, name))
    except TooLong:
        rows = (
            ("tried", "your answer, until it ends"),
            ("came", f"nothing: after {LIMIT:g} seconds it was stopped"),
            (
                "next",
                "look for a loop that never ends, or for far more work than the exercise needs.",
            ),
        )
        return Found(Kind.NOT_YET, rows)
    finally:
        BEGAN.reset(began)


def _judged(judge: Callable[..., Passed], answers: Sequence[Any], name: str) -> Found:
    try:
        return _in_words(judge, answers, name)
    except BaseException as error:  # an answer that is no plain value, or a mistake of ours
        if _interrupts(error):
            raise
        why = (
            "the answer is something that cannot be looked at, or the check itself has a fault. It "
            "was not judged."
        )
        advice = "return plain numbers, lists or programs. If you do, please report this."
        rows = (
            ("tried", "to judge your answer"),
            ("came", said_by(error)),
            ("line", line_of(error)),
            ("why", why),
        )
        return Found(Kind.UNJUDGED, (*rows, ("next", advice)))


def _in_words(judge: Callable[..., Passed], answers: Sequence[Any], name: str) -> Found:
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
    except InvalidPerfEstimateError as error:  # cycles() of hers is asked when the report is
        return Found(Kind.ERROR, Broken("what it costs", error).rows)
    bars = passed.bars
    if bars is not None and passed.bound is not None and bars.unit == passed.bound.unit:
        bars = replace(bars, least=passed.bound.least)
    return Found(
        Kind.PASSED, passed.rows(), bars, line_for(name, *passed.cost, passed.evidence, answers[0])
    )


def is_blank(answer: object) -> bool:
    """Whether a gap was left as it came: `...`, or a function that does nothing."""
    if answer is ... or answer is None:
        return True
    if isinstance(answer, tuple):
        return any(part is ... for part in answer)
    code = getattr(answer, "__code__", None)
    if not isinstance(code, CodeType):
        return False
    idle = {
        "RESUME",
        "NOP",
        "LOAD_CONST",
        "RETURN_CONST",
        "RETURN_VALUE",
        "COPY_FREE_VARS",
        "MAKE_CELL",
    }
    done = list(dis.get_instructions(code))
    return {step.opname for step in done} <= idle and all(
        step.argval is None for step in done if "CONST" in step.opname
    )


def name_of(answer: object) -> str:
    """The name of a function, as a verdict calls it."""
    try:
        name = getattr(answer, "__name__", None)
    except Exception:
        name = None
    return name[:40] if type(name) is str else "answer"


def call_text(answer: object, arguments: Sequence[object]) -> str:
    """A call as a verdict quotes it: the answer's name and its arguments, in one line."""
    given = ", ".join(quoted(a) for a in arguments)
    text = f"{name_of(answer)}({given})"
    return text if len(text) <= LONGEST_CALL else text[: LONGEST_CALL - 2] + "…)"


def quoted(value: object) -> str:
    """A value as a verdict quotes it: numbers, alone or in a row, with 4 significant digits, and
    never a long line."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, complex)):
        try:
            return number(float(value))
        except OverflowError:  # a whole number beyond all floats
            return shown(value)
    if isinstance(value, (list, np.ndarray)) and _array(value).ndim == 1:
        text = f"[{', '.join(quoted(v) for v in value)}]"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}…]"
    return shown(value)


def call(answer: Callable[..., Any], *arguments: Any) -> Any:
    """What the answer returns for copies of the arguments. Changing them is `NotYet`, returning
    `...` is `NotAttempted`."""
    description = call_text(answer, arguments)
    names: list[str] = []
    try:
        signature = inspect.signature(answer)
    except Exception:  # some of C's functions have none, and what claims to be one may be none
        signature = None
    if signature is not None:
        try:
            names = list(signature.bind(*arguments).arguments)
        except TypeError as error:
            actual = f"the function does not take these arguments: {error}"
            raise NotYet(description, actual, next_step="keep its first line as it came.") from None
    copies = deepcopy(arguments)
    with answering(description):
        result = answer(*copies)
    if result is ...:
        raise NotAttempted
    for parameter, before, after in zip(names, arguments, copies, strict=False):
        if difference(after, before):
            raise NotYet(
                description,
                came=f"the call changed its argument {parameter}: it is {quoted(after)} now",
                expected=f"{parameter} left as it was: {quoted(before)}",
                next_step=(
                    f"work on a copy, as {parameter.rstrip('s')}_copy = list({parameter}), or make "
                    "a new list."
                ),
            )
    return result


def call_made(answer: Callable[..., Any], description: str, *arguments: Any) -> Any:
    """What the answer makes of a graph, a report or the like: nothing that is copied for it, as
    `call` copies its arguments."""
    with answering(description):
        returned_value = answer(*arguments)
    if returned_value is ...:
        raise NotAttempted
    return returned_value


def _array(value: object) -> Array:
    try:
        return np.asarray(value)
    except Exception:  # rows of different lengths, or something that refuses to be an array
        return np.asarray(None)


def difference(got: object, expected: object, tolerance: float = TOLERANCE) -> str:
    """Where `got` is not `expected`, in words; nothing if it is. Floats may differ by `tolerance`
    of the largest of them."""
    if isinstance(expected, (list, tuple, np.ndarray)):
        right, mine = _array(expected), _array(got)
        if mine.dtype.kind not in "biuf":
            pairs = right.dtype.kind in "UO" and got == expected  # of words and numbers, as steps
            return "" if pairs else returned(got, " is not a row of numbers")
        if mine.shape != right.shape:
            return (
                f"{len(mine)} numbers, not {len(right)}"
                if mine.ndim == right.ndim == 1
                else f"the shape {mine.shape}"
            )
        if right.dtype.kind in "biu":
            close = mine == right
        else:
            with np.errstate(invalid="ignore"):  # inf - inf
                close = np.abs(mine - right.astype(float)) <= tolerance * float(
                    np.abs(right).max(initial=0)
                )
        if close.all():
            return ""
        first = tuple(int(i) for i in np.argwhere(~close)[0])
        place = first[0] if len(first) == 1 else first
        return f"{precisely(mine[first], right[first])} at {place}, not {number(right[first])}"
    if isinstance(expected, (int, float, np.number)) and not isinstance(expected, bool):
        value = plain(got)
        if value is None:
            return returned(got, ", which is no number")
        try:
            whole = isinstance(expected, (int, np.integer))
            near = (
                value == expected
                if whole
                else abs(float(value) - float(expected)) <= tolerance * abs(float(expected))
            )
        except OverflowError:  # a whole number beyond all floats
            near = False
        return "" if near or value != value and expected != expected else precisely(value, expected)
    return "" if type(got) is type(expected) and got == expected else shown(got)


def returned(value: object, fault: str = "") -> str:
    """What an answer returned, and what is wrong with it, in words; None is what a function gives
    that has no `return`."""
    return "nothing: is there a `return`?" if value is None else f"{shown(value)}{fault}"


Number = int | float | Fraction
# by kind, how the number itself is had of whatever is derived from it
NUMBERS: Mapping[type, Callable[[Any], Number]] = {
    int: int.__int__,
    float: float.__float__,
    Fraction: Fraction,
}


def plain(value: object) -> Number | None:
    """A number as Python has it: of numpy's kinds, an array without dimensions, a Fraction; None
    for what is no number. Of a class derived from these the number alone: it may compare as it
    likes."""
    if isinstance(value, np.ndarray) and value.ndim == 0 or isinstance(value, np.generic):
        value = value.item()
    same = next((same for kind, same in NUMBERS.items() if issubclass(type(value), kind)), None)
    return same(value) if same is not None and type(value) is not bool else None


def precisely(mine: Any, right: Any) -> str:
    """A wrong number with as many digits as it takes to see that it is wrong."""
    # numpy would round 1e300 to its dtype
    mine = mine.item() if isinstance(mine, np.generic) else mine
    text = quoted(float(mine) if isinstance(mine, Fraction) else mine)
    return repr(float(mine)) if text == quoted(right) and abs(mine) < 1e300 else text


def compare_value(answer: Any, right: Any, exercise: str, about: str, advice: str) -> Passed:
    """Compare an answer that is a value, or a row of values, with what is right."""
    learner_run, expected = (
        tuple(value) if isinstance(value, (tuple, list, np.ndarray)) else (value,)
        for value in (answer, right)
    )

    def same(value: Any, other: Any) -> bool:
        if isinstance(other, str):
            return str.lower(str.strip(str(value))) == other
        return bool(plain(value) == other)

    def comes_to_hers(like: Any) -> bool:
        rows = like if isinstance(like, tuple) else (like,)
        return len(rows) == len(learner_run) and all(map(same, learner_run, rows))

    if len(learner_run) == len(expected) and all(map(same, learner_run, expected)):
        return Passed(about, evidence=expected)
    why, known = first(suspects(exercise), comes_to_hers)
    actual = shown(answer) if isinstance(answer, str) else ", ".join(map(quoted, learner_run))
    if len(learner_run) != len(expected):
        why, known = (
            f"{len(expected)} values are asked for.",
            "put commas between them, in that order.",
        )
    elif not why:
        place = next(k for k in range(len(learner_run)) if not same(learner_run[k], expected[k]))
        why = f"number {place + 1} of them is not." if len(learner_run) > 1 else ""
    raise NotYet(about, actual, "", why, known or advice)


Pairs = Sequence[tuple[tuple[Any, ...], Any]]  # the arguments of each call, and what came


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
    """Compare an answer with an independent computation on every case. A known mistake is called by
    its name.

    `cases`: by what is special about each; ORDINARY begins the names of the others, of which the
    first is told where it goes wrong. An answer that is right on all of those has the special case
    named. `otherwise` finds a reason where none of the `suspects` comes to the same. `draws(*case)`
    makes a picture of the case that is told.
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
    case, pairs = cases[fault], list(zip(cases.values(), results.values(), strict=True))
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

    actual, why = wrong[fault], known
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
    """ROUNDED, of an answer that misses its tolerance by that alone; nothing of others, and where
    it cannot be told, or not in time.

    `again` tries the answer anew, with float64 wherever FLOAT or HALF is declared, and returns what
    differs then, in words.
    """
    if perf_counter() - BEGAN.get() > LIMIT / 2:  # to try it anew takes no longer than that took
        return ""
    try:
        with in_float64():
            return "" if again() else ROUNDED
    except Exception:  # what does not run in float64 stays unexplained
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
    """Whether every result is the right one, rounded to some number of digits."""
    rights = [oracle(*case) for case, _ in pairs]
    values = [value for _, result in pairs if (value := plain(result)) is not None]
    mine = [float(value) for value in values if -1e300 < value < 1e300]
    if len(mine) == len(pairs) and all(isinstance(right, float) for right in rights):
        for digits in range(5):
            if all(
                abs(m - round(right, digits)) < 1e-9 for m, right in zip(mine, rights, strict=True)
            ):
                why = (
                    f"this is right, and then rounded to {counted(digits, 'digit')} after the "
                    "point."
                )
                return why, "leave the rounding to whoever prints it."
    return "", ""
