"""What every check is made of: calling an answer safely, comparing what came with what should have come, saying why.

A check returns `Passed` or raises `NotYet`. Whatever the learner's own code raises becomes `Broken`; a mistake of ours
stays what it is. An answer works on copies, so it cannot change what it is compared with.
"""

from __future__ import annotations

import _thread
import dis
import inspect
import sysconfig
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ipu_teach.errors import LONGEST, IPUTeachError, shown
from ipu_teach.graph.source import in_words
from ipu_teach.lessons.panel import Bars, number

TOLERANCE = 1e-6  # of the largest number of the right answer
LIMIT = 60.0  # seconds that a check may take
LONGEST_CALL = 96  # characters of a call as a verdict quotes it

PACKAGE = Path(__file__).resolve().parents[1]
ELSEWHERE = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


@dataclass(frozen=True)
class Passed:
    """An answer that is right: what was tried, and the cost beside its budget if there is one."""

    tried: str
    bars: Bars | None = None


class NotYet(Exception):
    """An answer that is not right yet, in words: what was tried, what came, what should have come, why, what next."""

    def __init__(
        self, tried: str, came: str = "", expected: str = "", why: str = "", next_step: str = "", bars: Bars | None = None
    ) -> None:
        super().__init__(why or came)
        self.rows = (("tried", tried), ("came", came), ("expected", expected), ("why", why), ("next", next_step))
        self.bars = bars


class NotAttempted(Exception):
    """The gap is still blank."""


class Broken(Exception):
    """The learner's code raised `error` while `tried` was tried."""

    def __init__(self, tried: str, error: Exception) -> None:
        super().__init__(str(error))
        self.tried = tried
        self.error = error

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The error in a few lines, with the line of the learner's that raised it."""
        error, line = self.error, line_of(self.error)
        found: tuple[tuple[str, str], ...]
        if isinstance(error, IPUTeachError):
            came = f"{type(error).__name__}: {error.tried}"
            own = "" if "check(" in error.line else error.line  # which is what called all of this
            found = (("where", error.where), ("line", own or line), ("next", error.next_step))
        else:
            came = f"{type(error).__name__}: {shown_text(str(error))}".removesuffix(": ")
            found = (("line", line), ("next", "mend that line, or call your answer by itself to see more."))
        return (("tried", self.tried), ("came", came), *found)


def shown_text(text: str) -> str:
    """A message of somebody else's on one line of at most 200 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:199] + "…"


def line_of(error: Exception) -> str:
    """The learner's last line on the way to the error, in words."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = frame.f_code.co_filename
        if not path.startswith((str(PACKAGE), *ELSEWHERE)):
            return in_words((path, line))
    return ""


@contextmanager
def answering(tried: str) -> Iterator[None]:
    """Around every call into the learner's code."""
    try:
        yield
    except (NotYet, NotAttempted, Broken):
        raise
    except Exception as error:
        raise Broken(tried, error) from error


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """What takes longer is interrupted, as by Ctrl-C, and is `NotYet`. Only a main thread can be: elsewhere nothing is done.

    The engine's compiled loops listen to that too, and put back what they had written.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    state, lock = {"over": False, "done": False}, threading.Lock()

    def interrupt() -> None:
        with lock:
            if not state["done"]:
                state["over"] = True
                _thread.interrupt_main()

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        try:
            yield
        finally:
            timer.cancel()
            with lock:  # an interruption comes before this, or never
                state["done"] = True
    except KeyboardInterrupt:
        if not state["over"]:
            raise
        came = f"nothing: after {seconds:g} seconds it was stopped"
        next_step = "look for a loop that never ends, or for far more work than the exercise needs."
        raise NotYet("your answer, until it ends", came, next_step=next_step) from None


def is_blank(answer: object) -> bool:
    """Whether a gap was left as it came: `...`, or a function that does nothing."""
    if answer is ... or answer is None:
        return True
    if isinstance(answer, tuple):
        return any(part is ... for part in answer)
    code = getattr(answer, "__code__", None)
    if code is None:
        return False
    idle = {"RESUME", "NOP", "LOAD_CONST", "RETURN_CONST", "RETURN_VALUE", "COPY_FREE_VARS", "MAKE_CELL"}
    done = list(dis.get_instructions(code))
    return {step.opname for step in done} <= idle and all(step.argval is None for step in done if "CONST" in step.opname)


def call_text(answer: object, arguments: Sequence[object]) -> str:
    """A call as a verdict quotes it: the answer's name and its arguments, in one line."""
    given = ", ".join(quoted(a) for a in arguments)
    text = f"{getattr(answer, '__name__', 'answer')}({given})"
    return text if len(text) <= LONGEST_CALL else text[: LONGEST_CALL - 2] + "…)"


def quoted(value: object) -> str:
    """A value as a verdict quotes it: numbers, alone or in a row, with 4 significant digits, and never a long line."""
    if isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, complex)):
        try:
            return number(float(value))
        except OverflowError:  # a whole number beyond all floats
            return shown(value)
    if isinstance(value, (list, np.ndarray)) and np.asarray(value).ndim == 1:
        text = f"[{', '.join(quoted(v) for v in value)}]"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}…]"
    return shown(value)


def call(answer: Callable[..., Any], *arguments: Any) -> Any:
    """What the answer returns for copies of the arguments. Changing them is `NotYet`, returning `...` is `NotAttempted`."""
    tried = call_text(answer, arguments)
    try:
        inspect.signature(answer).bind(*arguments)
    except (TypeError, ValueError) as error:
        raise NotYet(
            tried, came=f"the function does not take these arguments: {error}", next_step="keep its first line as it came."
        ) from None
    copies = deepcopy(arguments)
    with answering(tried):
        result = answer(*copies)
    if result is ...:
        raise NotAttempted
    for parameter, before, after in zip(inspect.signature(answer).parameters, arguments, copies, strict=False):
        if difference(after, before):
            raise NotYet(
                tried,
                came=f"the call changed its argument {parameter}: it is {quoted(after)} now",
                expected=f"{parameter} left as it was: {quoted(before)}",
                next_step=f"work on a copy, as {parameter.rstrip('s')}_copy = list({parameter}), or make a new list.",
            )
    return result


def difference(got: object, expected: object) -> str:
    """Where `got` is not `expected`, in words; nothing if it is. Floats may differ by rounding."""
    if isinstance(expected, (list, tuple, np.ndarray)):
        right = np.asarray(expected)
        try:
            mine = np.asarray(got)
        except Exception:  # a ragged list, or something that refuses to be an array
            mine = np.asarray(None)
        if mine.dtype.kind not in "biuf":
            return f"{shown(got)} is not a row of numbers"
        if mine.shape != right.shape:
            return f"{len(mine)} numbers, not {len(right)}" if mine.ndim == right.ndim == 1 else f"the shape {mine.shape}"
        with np.errstate(invalid="ignore"):  # inf - inf
            close = np.abs(mine - right.astype(float)) <= TOLERANCE * float(np.abs(right).max(initial=0))
        if close.all():
            return ""
        first = tuple(int(i) for i in np.argwhere(~close)[0])
        place = first[0] if len(first) == 1 else first
        return f"{number(mine[first])} at {place}, not {number(right[first])}"
    if isinstance(expected, (int, float, np.number)):
        if not isinstance(got, (int, float, np.number)) or isinstance(got, complex):
            return "nothing: is there a `return`?" if got is None else f"{shown(got)}, which is no number"
        try:
            close_by = abs(float(got) - float(expected)) <= TOLERANCE * abs(float(expected))
        except OverflowError:  # a whole number beyond all floats
            close_by = False
        return "" if close_by else quoted(got)
    return "" if got == expected else shown(got)


@dataclass(frozen=True)
class Suspect:
    """A mistake that others have made before: an answer with it, and what to say to whoever makes it."""

    like: Callable[..., Any]
    why: str
    next_step: str


def compare(
    answer: Callable[..., Any],
    oracle: Callable[..., Any],
    cases: Sequence[tuple[Any, ...]],
    suspects: Sequence[Suspect] = (),
    next_step: str = "try that call in a cell of your own, and follow it by hand.",
) -> Passed:
    """Compare an answer with an independent computation on every case. A known mistake is called by its name."""
    results = [call(answer, *case) for case in cases]
    for case, got in zip(cases, results, strict=True):
        right = oracle(*case)
        where = difference(got, right)
        if not where:
            continue
        known = next((s for s in suspects if _alike(s.like, cases, results)), None)
        raise NotYet(
            call_text(answer, case),
            came=where,
            expected=quoted(right),
            why=known.why if known else "",
            next_step=known.next_step if known else next_step,
        )
    return Passed(f"{getattr(answer, '__name__', 'answer')} on {len(cases)} sets of numbers, drawn at random")


def _alike(suspect: Callable[..., Any], cases: Sequence[tuple[Any, ...]], results: Sequence[Any]) -> bool:
    return all(not difference(got, suspect(*case)) for case, got in zip(cases, results, strict=True))
