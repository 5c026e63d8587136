"""Call an answer on copies of its arguments, so that it cannot change the originals.

Errors raised by the learner's code become `Broken`. Verdicts (`NotYet` and `NotAttempted`) and
interruptions are raised unchanged.
"""

from __future__ import annotations

import dis
import inspect
import linecache
import re
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from types import CodeType, TracebackType
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ipu_course.checking import time_limit
from ipu_course.checking.mistakes import given_to
from ipu_course.checking.quoting import (
    call_text,
    difference,
    line_of,
    message_of,
    name_of,
    quoted,
    said_by,
)
from ipu_course.checking.time_limit import Stopped, put_back
from ipu_course.checking.verdicts import NotAttempted, NotYet, VerdictRows
from ipu_teach._support.own_code import is_own_file, is_own_module
from ipu_teach.errors import IPUTeachError, MissingPerfEstimateError, StreamConnectionError

# An answer is a function or a codelet. Code for all exercises cannot name the types of its
# arguments and of its result, because they depend on the exercise.
Answer: TypeAlias = Callable[..., Any]
Result = TypeVar("Result")


class Broken(Exception):
    """The learner's code raised `error` in the call that `tried` describes."""

    def __init__(self, tried: str, error: BaseException) -> None:
        super().__init__(tried)
        self.tried = tried
        self.error = error

    def rows_in(self, exercise: str) -> VerdictRows:
        """Return the rows that describe the error in the verdict of an exercise.

        If a cell of the lesson defines the name that is missing, the rows tell the learner to run
        that cell.
        """
        name = getattr(self.error, "name", None)
        if isinstance(self.error, NameError) and name in given_to(exercise):
            advice = f"run the cells above: one of them defines {name}."
            return (*self.rows[:-1], ("next", advice))
        return self.rows

    @property
    def rows(self) -> VerdictRows:
        """The rows `(label, text)` with the error and the learner's line that raised it."""
        error = self.error
        line = line_of(self.error)
        cause = error.__cause__
        if isinstance(error, IPUTeachError):
            # The call of check() is not the line that the learner has to correct.
            caller_line = "" if "check(" in error.line else error.line
            advice = (
                _counted(error) if isinstance(error, MissingPerfEstimateError) else error.next_step
            )
            if not line and isinstance(error, StreamConnectionError) and cause is not None:
                line = line_of(cause)  # The learner's callback raised the cause.
                advice = "correct that line."
            error_rows: VerdictRows = (
                ("where", error.where),
                ("line", caller_line or line),
                ("next", advice),
            )
        elif isinstance(error, RecursionError):
            why = (
                "a function calls itself, or a list contains itself, without end, so Python "
                "stopped."
            )
            error_rows = (
                ("line", line),
                ("why", why),
                ("next", "add the case in which the function returns without calling itself."),
            )
        elif isinstance(error, SystemExit):
            error_rows = (
                ("line", line),
                ("why", "exit() ends the whole program; an answer ends with `return`."),
                ("next", "leave out exit()."),
            )
        else:
            advice = (
                "correct that line; to see the whole traceback, call your answer in a new cell."
            )
            if "could not be broadcast" in message_of(error):
                advice = (
                    "print the shapes of the operands of that line. If one of them is a sum over "
                    "an axis, keepdims=True keeps this axis."
                )
            actual, why, advice = (
                _in_the_kits_words(error) or _of_nothing(error) or (said_by(error), "", advice)
            )
            error_rows = (("line", line), ("why", why), ("next", advice))
            return (("tried", self.tried), ("came", actual), *error_rows)
        return (("tried", self.tried), ("came", said_by(error)), *error_rows)


def _in_the_kits_words(error: BaseException) -> tuple[str, str, str] | None:
    """Return `(error, why, next step)` as text for two kinds of `TypeError`; None for other errors.

    The first kind is raised if a call of one of this package's functions lacks an argument. The
    second kind is raised if a numpy function is applied to a popops expression. Python's own
    messages for both kinds use names that a learner does not know.
    """
    if not isinstance(error, TypeError):
        return None
    message = message_of(error)
    if match := re.search(r"argument 0 of type \w+ which has no callable (\w+) method", message):
        name = match[1]
        why = (
            f"np.{name} computes at once, in Python. An expression of popops is computed later, on "
            "the device."
        )
        actual = f"TypeError: np.{name} was given an expression of popops"
        return (
            actual,
            why,
            f"write expr.{name.capitalize()}( … ) instead, which becomes a part of the expression.",
        )
    match = re.match(r"([\w.]+)\(\) missing \d+ required positional arguments?: (.+)", message)
    if match is None:
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
            function = called.__init__ if isinstance(called, type) else called  # type: ignore[misc]
            is_own = is_own_module(getattr(called, "__module__", ""))
            if callable(called) and is_own and getattr(function, "__qualname__", "") == match[1]:
                parameters = [
                    p.name
                    for p in inspect.signature(called).parameters.values()
                    if p.default is p.empty
                ]
                actual = f"TypeError: {text}() was not given {match[2]}"
                return actual, "", f"call it as {text}({', '.join(parameters)}), in this order."
    return None


# Errors of calls with an empty argument: (pattern of the error message, why the call fails, what to
# do next).
OF_NOTHING = (
    (
        r"(min|max)\(\) (arg is an empty sequence|iterable argument is empty)",
        "it got no items, so there is nothing to choose from.",
        "print the items before this call, and find the condition that removes all of them.",
    ),
    (
        "zero-size array to reduction operation",
        "a part of an array has no elements.",
        "print the begin and the end of this part, and the shape of the array.",
    ),
)


def _of_nothing(error: BaseException) -> tuple[str, str, str] | None:
    """Return `(error, why, next step)` if a call got no items, as in max([]); else None."""
    if isinstance(error, StopIteration):
        return said_by(error), "next() found no item.", "print the list from which next() chooses."
    for message, why, advice in OF_NOTHING:
        if isinstance(error, ValueError) and re.search(message, message_of(error)):
            return said_by(error), why, advice
    return None


def _counted(error: MissingPerfEstimateError) -> str:
    """Return advice for code whose cycles cannot be counted.

    The advice of the error itself may be to estimate the cycles. Exercises accept only counted
    cycles, so the text returned here never suggests an estimate.
    """
    instead = re.match(r"(write .+), or `def cycles", error.next_step)
    plain = (
        "use only code whose cycles can be counted: loops, comparisons and numpy's own functions "
        "on the vertex's fields."
    )
    return f"{instead[1]}." if instead else plain


def is_interruption(error: BaseException | None) -> bool:
    """Return whether `error` comes from the learner's interruption or from the time limit.

    An exception class that an answer derives from `KeyboardInterrupt` or `Stopped` does not count.
    """
    return type(error) in (KeyboardInterrupt, Stopped)


class answering:
    """Context manager for a call into the learner's code.

    An exception of that code is raised as `Broken`, unless it is a verdict or an interruption. If
    the code rebinds names of modules that checks use, the end of the block restores these names.
    """

    def __init__(self, tried: str) -> None:
        self.tried = tried

    def __enter__(self) -> None:
        time_limit.CALL.set(self.tried)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        put_back()
        # An answer can call exit(). The exception is then a SystemExit.
        if not is_interruption(error):  # The verdict on an endless loop quotes the call.
            time_limit.CALL.set(time_limit.ANSWER)
        ours = isinstance(error, (NotYet, NotAttempted, Broken)) or is_interruption(error)
        if error is not None and not ours:
            raise Broken(self.tried, error) from error


def is_blank(answer: object) -> bool:
    """Return whether an answer is still `...`, None, or a function that does nothing.

    A tuple is blank if one of its elements is `...`.
    """
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


def call(answer: Callable[..., Result], *arguments: object) -> Result:
    """Call `answer` with copies of the arguments, and return its result.

    :raises Broken: if the answer raises an error.

    :raises NotYet: if the answer cannot take the arguments, or changes them.

    :raises NotAttempted: if it returns `...`.
    """
    description = call_text(answer, arguments)
    names: list[str] = []
    try:
        signature = inspect.signature(answer)
    except Exception:  # Some C functions have no signature, and a fake one may be invalid.
        signature = None
    if signature is not None:
        try:
            names = list(signature.bind(*arguments).arguments)
        except TypeError as error:
            actual = f"the function does not take these arguments: {error}"
            raise NotYet(
                description,
                actual,
                next_step="restore the first line of the function, `def …`, from the exercise.",
            ) from None
    copies = deepcopy(arguments)
    with answering(description):
        result = answer(*copies)
    if result is ...:
        raise NotAttempted
    for parameter, before, after in zip(names, arguments, copies, strict=False):
        if difference(after, before):
            raise NotYet(
                description,
                came=f"the call changed its argument {parameter} to {quoted(after)}",
                expected=f"{parameter} unchanged: {quoted(before)}",
                next_step=_copying(parameter, before),
            )
    return result


def call_all(answer: Callable[..., Result], cases: Sequence[tuple[object, ...]]) -> list[Result]:
    """Call `answer` with copies of the arguments of each case, and return its results.

    Unlike `call`, this restores the names that the answer rebinds only once, after all calls,
    because restoring takes longer than most answers. If a call raises an error, returns `...` or
    changes an argument, all cases are called again with `call`.

    :raises Broken: if the answer raises an error.

    :raises NotYet: if the answer cannot take the arguments, or changes them.

    :raises NotAttempted: if it returns `...`.
    """
    copies = deepcopy(list(cases))
    results: list[Result] = []
    description = f"{name_of(answer)} on {len(cases)} sets of numbers"
    with suppress(Broken), answering(description):
        results.extend(answer(*arguments) for arguments in copies)
    is_good = len(results) == len(cases) and not any(result is ... for result in results)
    if is_good and not any(
        difference(after, before)
        for case, arguments in zip(cases, copies, strict=True)
        for before, after in zip(case, arguments, strict=True)
    ):
        return results
    return [call(answer, *case) for case in cases]


def _copying(parameter: str, value: object) -> str:
    """Return advice to copy the argument `parameter`, with the call for the type of `value`."""
    name = f"{parameter.rstrip('s')}_copy"
    in_place = "+=, -= and assignments to elements change the array itself."
    item = value[0] if isinstance(value, (list, tuple)) and len(value) else None
    if isinstance(value, np.ndarray):
        return f"work on a copy, such as {name} = {parameter}.copy(): {in_place}"
    if isinstance(item, np.ndarray):
        return f"work on copies, such as {name} = [a.copy() for a in {parameter}]: {in_place}"
    if isinstance(item, list):
        return f"work on copies, such as {name} = [list(row) for row in {parameter}]."
    if isinstance(value, (dict, set)):
        return f"work on a copy, such as {name} = {parameter}.copy()."
    return f"work on a copy, such as {name} = list({parameter}), or make a new list."


def call_made(answer: Callable[..., Result], description: str, *arguments: object) -> Result:
    """Call `answer` with the arguments themselves, not with copies, and return its result.

    Use it for arguments that cannot be copied, such as a graph. `description` is the call in words.

    :raises Broken: if the answer raises an error.

    :raises NotAttempted: if it returns `...`.
    """
    with answering(description):
        result = answer(*arguments)
    if result is ...:
        raise NotAttempted
    return result
