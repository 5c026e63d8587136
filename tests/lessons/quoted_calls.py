"""The calls of an answer that a verdict quotes: each is valid Python, and gives what is shown.

Checks quote a call as `name(…)`. Words may follow it, as in "balance(jobs, 4), where jobs is …".
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import Any

from ipu_course.checking.learner_calls import Verdict
from ipu_course.checking.quoting import name_of, precisely, quoted

# "element 3: 12, not 13": the first element that differs
PARTED = re.compile(r"element (\d+): (.+), not .+")
NUMBER = re.compile(r"-?[\d,.]+(e[+-]?\d+)?")


def calls_in(text: str, name: str) -> Iterator[str]:
    """Yield each `name(…)` in a text, up to the bracket that closes the call.

    If none closes it, yield the rest of the text.
    """
    for match in re.finditer(rf"(?<![\w.]){re.escape(name)}\(", text):
        begin = match.start()
        ends = (place + 1 for place in range(begin, len(text)) if text[place] == ")")
        yield next((text[begin:end] for end in ends if _is_balanced(text[begin:end])), text[begin:])


def _is_balanced(code: str) -> bool:
    return all(code.count(a) == code.count(b) for a, b in ("()", "[]", "{}"))


def refuse_untrue_calls(
    verdict: Verdict, answer: Callable[..., object], names: dict[str, Any]
) -> int:
    """Assert that the calls of `answer` in a verdict are valid Python, and give what it shows.

    `names` are the names that the call may use beside the answer's. Return the number of calls that
    were evaluated: those whose arguments have code, and whose result is a number or a list.
    """
    name = name_of(answer)
    rows = {label: " ".join(text.split()) for label, text in verdict.rows}
    for label, text in rows.items():
        for code in calls_in(text, name) if label in ("tried", "came", "why") else ():
            try:
                (statement,) = ast.parse(code).body
            except SyntaxError:
                raise AssertionError(f"{label}: {code} is not Python") from None
            assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call), code
    tried = rows.get("tried", "")
    if list(calls_in(tried, name)) != [tried]:
        return 0
    came = rows.get("came", "")
    parted = PARTED.fullmatch(came)
    if not parted and not NUMBER.fullmatch(came):
        return 0
    result: Any = eval(tried, names | {name: answer})
    if parted:
        result = result[int(parted[1])]
    shown = parted[2] if parted else came
    # `precisely` of equal numbers has all digits, which a verdict shows if fewer look right
    assert shown in (quoted(result), precisely(result, result)), f"{tried} is {result}, not {came}"
    return 1
