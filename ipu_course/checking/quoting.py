"""Quote values, calls and errors in verdicts, and describe the difference between two values."""

from __future__ import annotations

import ast
import inspect
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from textwrap import dedent
from types import FunctionType
from typing import Any

import numpy as np

from ipu_course.checking.verdict_panel import number
from ipu_teach._support.own_code import is_own_file
from ipu_teach.errors import LONGEST, IPUTeachError, counted, shown
from ipu_teach.graph.source import in_words
from ipu_teach.types import Array

# The default tolerance, relative to the largest absolute number of the right answer.
TOLERANCE = 1e-6
LONGEST_CALL = 280  # The maximum number of characters of a call that a verdict quotes in full.
ELSEWHERE = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
)


def message_of(error: BaseException) -> str:
    """Return the message of an error on one line; "" if `str(error)` fails."""
    try:
        return error.tried if isinstance(error, IPUTeachError) else " ".join(str(error).split())
    except BaseException:  # The __str__ of a learner's exception may raise any error.
        return ""


def said_by(error: BaseException) -> str:
    """Return the class and message of an error; only the class if `str(error)` fails."""
    text = message_of(error)
    if not isinstance(error, IPUTeachError):
        text = shown_text(text)
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def shown_text(text: str) -> str:
    """Return `text` on one line of at most 200 characters."""
    text = " ".join(text.split())
    return text if len(text) <= 200 else text[:199] + "…"


def line_of(error: BaseException) -> str:
    """Return the last line of learner code in the traceback; "" if there is none."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        path = frame.f_code.co_filename
        if not is_own_file(path) and not path.startswith(ELSEWHERE):
            return in_words((path, line))
    return ""


def name_of(answer: object) -> str:
    """Return the name of a function in at most 40 characters; "answer" for a lambda."""
    try:
        name = getattr(answer, "__name__", None)
    except Exception:
        name = None
    return name[:40] if type(name) is str and name.isidentifier() else "answer"


def call_text(answer: object, arguments: Sequence[object]) -> str:
    """Return a call as Python code on one line: the answer's name and its arguments.

    A learner can paste the call into a cell. An argument that cannot be written as code is replaced
    with the name of its parameter. If the call still has more than `LONGEST_CALL` characters, its
    longest arguments are also replaced until it fits. A clause after the call describes the
    replaced arguments: "balance(jobs, 4), where jobs is [15, 46, 36, …], 156 items".
    """
    are_long = [_is_long(argument) for argument in arguments]
    codes = [
        "" if is_long else python_code(argument)
        for argument, is_long in zip(arguments, are_long, strict=True)
    ]
    names = _parameters(answer, len(arguments))
    clauses: dict[int, str] = {}

    def call() -> str:
        parts = (names[i] if i in clauses else code for i, code in enumerate(codes))
        return f"{name_of(answer)}({', '.join(parts)})"

    longest_first = sorted(
        range(len(codes)), key=lambda i: (are_long[i], len(codes[i])), reverse=True
    )
    for i in longest_first:
        if not codes[i] or len(call()) > LONGEST_CALL:
            clauses[i] = f"{names[i]} is {_in_words(arguments[i])}"
    where = f", where {'; '.join(clauses[i] for i in sorted(clauses))}" if clauses else ""
    return call() + where


def _is_long(value: object) -> bool:
    """Return whether the code of an array certainly has more than `LONGEST_CALL` characters.

    Each element has at least one digit, and two characters separate it from the next one. The code
    itself is not made, because for a large array that takes longer than many answers need.
    """
    if not isinstance(value, np.ndarray) or value.dtype.kind not in "biuf":
        return False
    return 3 * value.size - 2 > LONGEST_CALL


def _in_words(value: object) -> str:
    """Return a description of an argument that is not written as code in a call."""
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}"
    if isinstance(value, (list, tuple, dict)):
        return f"{quoted(value)}, {counted(len(value), 'item')}"
    return quoted(value)


def _parameters(answer: object, count: int) -> list[str]:
    """Return the names of the first `count` parameters of `answer`; "argument_1" if unknown."""
    try:
        names = list(inspect.signature(answer).parameters)  # type: ignore[arg-type]
    except Exception:  # Some C functions have no signature, and a fake one may be invalid.
        names = []
    return [*names, *(f"argument_{i + 1}" for i in range(len(names), count))][:count]


def python_code(value: object) -> str:
    """Return Python code that makes a value, or "" if there is none.

    Code for arrays uses the name `np`. For a function whose `def` only returns an expression of its
    parameters, the code is a lambda. Other functions have no code.
    """
    if value is None or isinstance(value, (bool, str)):
        return repr(value)
    if isinstance(value, np.generic):
        code = python_code(value.item())
        plain_types = (np.bool_, np.float64, np.int64, np.str_)
        return code if isinstance(value, plain_types) else f"np.{value.dtype.name}({value!s})"
    if isinstance(value, float):
        return repr(value) if np.isfinite(value) else f'float("{value}")'
    if isinstance(value, (int, Fraction)):
        return repr(value)
    if isinstance(value, np.ndarray):
        return _array_code(value)
    if type(value) in (list, tuple, set):
        return _items_code(value)  # type: ignore[arg-type]
    if type(value) is dict:
        pairs = [(python_code(key), python_code(item)) for key, item in value.items()]
        return f"{{{', '.join(map(': '.join, pairs))}}}" if all(map(all, pairs)) else ""
    if inspect.isfunction(value):
        return _lambda_code(value)
    # A class derived from list has its own repr.
    return repr(value) if isinstance(value, list) else ""


def _items_code(values: list[object] | tuple[object, ...] | set[object]) -> str:
    """Return code for a list, tuple or set; "" if an item has none."""
    codes = [python_code(value) for value in values]
    if not all(codes):
        return ""
    items = ", ".join(codes)
    if isinstance(values, list):
        return f"[{items}]"
    if isinstance(values, set):
        return f"{{{items}}}" if values else "set()"
    return f"({items},)" if len(values) == 1 else f"({items})"


def _lambda_code(function: FunctionType) -> str:
    """Return code for a function as a lambda, or "" if there is none.

    The function must do nothing but return an expression of its parameters.
    """
    try:
        (definition,) = ast.parse(dedent(inspect.getsource(function))).body
    except Exception:  # The source is not available, or it is part of another statement.
        return ""
    if not isinstance(definition, ast.FunctionDef):
        return ""
    *before, last = definition.body
    if not isinstance(last, ast.Return) or last.value is None:
        return ""
    if len(before) > (ast.get_docstring(definition) is not None):
        return ""
    parameters = list(inspect.signature(function).parameters)
    names = {node.id for node in ast.walk(last.value) if isinstance(node, ast.Name)}
    if not names <= set(parameters):
        return ""
    return f"lambda {', '.join(parameters)}: {ast.unparse(last.value)}"


def _array_code(array: Array) -> str:
    """Return code that makes an array with the same elements and dtype; "" if there is none."""

    def nested(part: Array) -> str:
        if part.ndim:
            return f"[{', '.join(map(nested, part))}]"
        text = str(part)
        return text if np.isfinite(part) else text.replace("inf", "np.inf").replace("nan", "np.nan")

    if array.dtype.kind not in "biuf":
        return ""
    name = array.dtype.name
    if not array.size:
        return f"np.zeros({array.shape}, np.{name})"
    dtype = "" if name in ("float64", "int64", "bool") else f", np.{name}"
    return f"np.array({nested(array)}{dtype})"


def quoted(value: object) -> str:
    """Return a value as a verdict quotes it: one line, usually of at most 80 characters.

    The function `number` formats numbers: whole numbers with thousands separators, other numbers
    with 4 significant digits. The numbers in a list, a 1-D array or a tuple have no separators,
    because commas separate the items. Tuples of numbers are quoted in full. The function `shown`
    formats any other value.
    """
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(
        value, (bool, np.timedelta64)
    ):
        try:
            return number(float(value))
        except OverflowError:  # The whole number is larger than every float.
            return shown(value)
    if isinstance(value, (list, np.ndarray)) and _array(value).ndim == 1:
        text = f"[{', '.join(_item(v) for v in value)}]"
        return text if len(text) <= LONGEST else f"{text[: LONGEST - 2]}…]"
    if isinstance(value, tuple) and value and all(plain(item) is not None for item in value):
        return shown(value) if len(value) == 1 else f"({', '.join(map(_item, value))})"
    return shown(value)


def _item(value: object) -> str:
    """Return an item of a list as `quoted` does, but numbers have no thousands separators."""
    return quoted(value).replace(",", "") if plain(value) is not None else quoted(value)


def _array(value: object) -> Array:
    try:
        return np.asarray(value)
    except Exception:  # The rows have different lengths, or the value is no array.
        return np.asarray(None)


def difference(got: object, expected: object, tolerance: float = TOLERANCE) -> str:
    """Return in words how `got` differs from `expected`; "" if they are equal.

    If `expected` has floats, each may differ by `tolerance` times the largest absolute number of
    `expected`.
    """
    if isinstance(expected, (list, tuple, np.ndarray)):
        right = _array(expected)
        actual = _array(got)
        if actual.dtype.kind not in "biuf":
            return _parting(got, expected, right)
        if actual.shape != right.shape:
            return (
                f"{len(actual)} numbers, not {len(right)}"
                if actual.ndim == right.ndim == 1
                else f"the shape {actual.shape}"
            )
        if right.dtype.kind in "biu":
            close = actual == right
        else:
            # The difference inf - inf is NaN.
            with np.errstate(invalid="ignore"):
                close = np.abs(actual - right.astype(float)) <= tolerance * float(
                    np.abs(right).max(initial=0)
                )
        if close.all():
            return ""
        first = tuple(int(i) for i in np.argwhere(~close)[0])
        place = first[0] if len(first) == 1 else first
        element, expected_element = actual[first], right[first]
        wrong = precisely(element, expected_element)
        return f"element {place}: {wrong}, not {precisely(expected_element, element)}"
    if isinstance(expected, (int, float, np.number)) and not isinstance(expected, bool):
        value = plain(got)
        if value is None:
            return returned(got, ", which is not a number")
        try:
            is_integer = isinstance(expected, (int, np.integer))
            near = (
                # Equal infinities need this comparison, because their difference is NaN.
                value == expected
                or not is_integer
                and abs(float(value) - float(expected)) <= tolerance * abs(float(expected))
            )
        except OverflowError:  # The whole number is larger than every float.
            near = False
        return "" if near or value != value and expected != expected else precisely(value, expected)
    return "" if type(got) is type(expected) and got == expected else shown(got)


def _parting(got: object, expected: Sequence[object] | Array, right: Array) -> str:
    """Return a description of the first difference between `got` and `expected`; "" if equal.

    `expected` is a sequence of strings or objects, such as program steps. `right` is `expected` as
    an array.
    """
    if right.dtype.kind not in "UO":
        return returned(got, ", which is not a list or array of numbers")
    if not isinstance(got, (list, tuple)):
        return "" if got == expected else returned(got, ", which is not a list")
    rows = list(zip(got, expected, strict=False))
    place = next((i for i, (row, wanted) in enumerate(rows) if row != wanted), None)
    if place is not None:
        return f"item {place}: {shown(got[place])}, not {shown(expected[place])}"
    if len(got) != len(expected):
        return f"{counted(len(got), 'item')}, not {len(expected)}"
    return "" if got == expected else returned(got, f", which is not a {type(expected).__name__}")


def returned(value: object, fault: str = "") -> str:
    """Return a description of a value that an answer returned, followed by `fault`.

    For None, the description asks whether there is a `return`.
    """
    return "nothing: is there a `return`?" if value is None else f"{shown(value)}{fault}"


def is_of_integers(value: object) -> bool:
    """Return whether a number, or each number of a list or array, is an integer and not a float."""
    numbers = _array(value)
    return numbers.dtype.kind in "iu" or not numbers.size


Number = int | float | Fraction
# Maps each number class to a function that converts an instance of a derived class to this class.
NUMBERS: Mapping[type, Callable[[Any], Number]] = {
    int: int.__int__,
    float: float.__float__,
    Fraction: Fraction,
}


def plain(value: object) -> Number | None:
    """Return a number as a plain Python number, or None if `value` is not a number.

    Numpy numbers, arrays with 0 dimensions and Fractions count as numbers, but bools do not. An
    instance of a derived class becomes an instance of its base class, because the derived class may
    define its own comparison.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0 or isinstance(value, np.generic):
        value = value.item()
    same = next((same for kind, same in NUMBERS.items() if issubclass(type(value), kind)), None)
    return same(value) if same is not None and type(value) is not bool else None


def precisely(value: Number | np.generic, right: Number | np.generic) -> str:
    """Return a wrong number as text, with enough digits to differ from the text of `right`."""
    # A numpy scalar would round the 1e300 below to its own dtype.
    value = value.item() if isinstance(value, np.generic) else value
    text = quoted(float(value) if isinstance(value, Fraction) else value)
    # 13,766 and 1.377e+04 would be two texts of equal numbers.
    has_text_of_right = text == quoted(right) or "e" in text and f"{float(right):.4g}" == text
    return repr(float(value)) if has_text_of_right and abs(value) < 1e300 else text
