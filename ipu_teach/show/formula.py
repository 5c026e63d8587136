"""The formula for the cycles of a library's vertex, with the numbers of one vertex.

A codelet of a library measures its fields and calls an estimator of `ipu_teach.cost.vertices`. This
module observes that call once. Then it calls the estimator again with integers that record how the
result is computed from them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

from ipu_teach.cost.traced import of_library, priced_for
from ipu_teach.graph.codelet_registry import Shapes, said_cycles
from ipu_teach.graph.vertex import Vertex
from ipu_teach.target import Target

ESTIMATORS = "ipu_teach.cost.vertices."
SUM, PRODUCT, ATOM = range(3)  # The precedence of an expression's operator, the lowest first.
LONGEST = 160  # A longer formula is not shown.


class Term(int):
    """An integer that records the expression by which it was computed."""

    text: str
    holds: int
    # The estimators compute a / b, rounded up, as -(-a // b). If a term is -a, `negated` is a. If a
    # term is -a // b, `rounded` is (a, b).
    negated: Term | None
    rounded: tuple[Term, int] | None
    # If a term is n + 4 - 1, `stem` is n and `added` is 3.
    stem: Term | None
    added: int

    def __new__(cls, value: int, text: str, holds: int = ATOM) -> Term:
        term = super().__new__(cls, value)
        term.text = text
        term.holds = holds
        term.negated = term.rounded = term.stem = None
        term.added = 0
        return term

    def _plus(self, number: int) -> Term:
        """Return the sum of this term and a plain number.

        The number is combined with plain numbers that were added before: (n + 4) - 1 becomes n + 3.
        """
        stem = self.stem or self
        added = self.added + number
        if not added:
            return stem
        sign = "+" if added > 0 else "-"
        total = Term(int.__add__(stem, added), f"{_part(stem, SUM)} {sign} {abs(added)}", SUM)
        total.stem = stem
        total.added = added
        return total

    def __add__(self, other: int) -> Term:
        if isinstance(other, Term):
            if not self or not other:
                return self or other
            return Term(int.__add__(self, other), f"{_part(self, SUM)} + {_part(other, SUM)}", SUM)
        return self._plus(other)

    def __radd__(self, other: int) -> Term:
        if not self or not other:
            return self or Term(other, f"{other}")
        return Term(int.__add__(self, other), f"{other} + {_part(self, SUM)}", SUM)

    def __sub__(self, other: int) -> Term:
        if isinstance(other, Term):
            text = f"{_part(self, SUM)} - {_part(other, PRODUCT)}"
            return Term(int.__sub__(self, other), text, SUM)
        return self._plus(-other)

    def __rsub__(self, other: int) -> Term:
        return Term(int.__rsub__(self, other), f"{other} - {_part(self, PRODUCT)}", SUM)

    def __mul__(self, other: int) -> Term:
        if not isinstance(other, int):
            return NotImplemented  # If `other` is a list, Python then repeats the list.
        if not self or not other:
            return Term(0, "0")
        if other == 1:
            return self
        if self == 1 and isinstance(other, Term):
            return other
        text = f"{_part(self, PRODUCT)} * {_part(other, ATOM)}"
        return Term(int.__mul__(self, other), text, PRODUCT)

    def __rmul__(self, other: int) -> Term:
        if not isinstance(other, int):
            return NotImplemented  # If `other` is a list, Python then repeats the list.
        if not self or not other:
            return Term(0, "0")
        if other == 1 or self == 1:
            return self if other == 1 else Term(other, f"{other}")
        return Term(int.__mul__(self, other), f"{other} * {_part(self, ATOM)}", PRODUCT)

    def __floordiv__(self, other: int) -> Term:
        if other == 1:
            return self
        text = f"{_part(self, PRODUCT)} // {_part(other, ATOM)}"
        quotient = Term(int.__floordiv__(self, other), text, PRODUCT)
        if self.negated is not None:
            quotient.rounded = self.negated, other
        return quotient

    def __mod__(self, other: int) -> Term:
        text = f"{_part(self, PRODUCT)} % {_part(other, ATOM)}"
        return Term(int.__mod__(self, other), text, PRODUCT)

    def __neg__(self) -> Term:
        if self.negated is not None:
            return self.negated
        if self.rounded is not None:
            above, below = self.rounded
            text = f"ceil({above.text} / {_part(below, ATOM)})"
            return Term(int.__neg__(self), text)
        negated = Term(int.__neg__(self), f"-{_part(self, ATOM)}", PRODUCT)
        negated.negated = self
        return negated


def _part(value: int, holds: int) -> str:
    """Return an operand as a string, in brackets if it needs them.

    Brackets are needed for a negative number, and for an operand whose operator has a lower
    precedence than `holds`, such as a sum in a product. `holds` is the precedence of the
    surrounding operator: SUM, PRODUCT or ATOM.
    """
    if not isinstance(value, Term):
        return f"{value}" if value >= 0 else f"({value})"
    return f"({value.text})" if value.holds < holds else value.text


@dataclass(frozen=True)
class Formula:
    """The formula for the cycles of a vertex, with the numbers of this vertex.

    Attributes:
        sizes: the integer arguments of the estimator, by name.
        text: the expression; `ceil` rounds up and `//` rounds down.
        cycles: the value of the expression.
    """

    sizes: tuple[tuple[str, int], ...]
    text: str
    cycles: int

    @property
    def named_sizes(self) -> str:
        """The sizes as a string, such as "elements = 1,024, rows = 8".

        Sizes that are 1 are left out, except for the first size.
        """
        sizes = [(name, n) for i, (name, n) in enumerate(self.sizes) if n != 1 or not i]
        names = ("elements" if name == "n" else name.replace("_", " ") for name, _ in sizes)
        return ", ".join(f"{name} = {n:,}" for name, (_, n) in zip(names, sizes, strict=True))


def formula_of(codelet: type[Vertex], shapes: Shapes, target: Target) -> Formula | None:
    """Return the formula for a library's vertex whose fields have the given shapes, or None.

    The result is None if the codelet does not belong to a library, or if the expression is too long
    to read. It is also None if the cycles do not come from a single call of an estimator that adds
    up terms.
    """
    if not of_library(codelet) or not hasattr(codelet, "cycles"):
        return None
    target = priced_for(codelet, target)
    calls: list[tuple[Callable[..., int], dict[str, object], object]] = []
    depth = 0  # The number of estimator calls in progress, nested in each other.

    def observe(frame: FrameType, event: str, returned: object) -> None:
        nonlocal depth
        if event not in ("call", "return"):
            return
        if not str(frame.f_globals.get("__name__", "")).startswith(ESTIMATORS):
            return
        depth += 1 if event == "call" else -1
        estimator = frame.f_globals.get(frame.f_code.co_name)
        if event == "call" and depth == 1 and callable(estimator):
            count = frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
            names = frame.f_code.co_varnames[:count]
            calls.append((estimator, {name: frame.f_locals[name] for name in names}, None))
        elif event == "return" and depth == 0 and calls:
            calls[-1] = (*calls[-1][:2], returned)

    before = sys.getprofile()
    sys.setprofile(observe)
    try:
        cycles = said_cycles(codelet, None, shapes, target, who="")
    finally:
        sys.setprofile(before)
    exact = [call[:2] for call in calls if type(call[2]) is int and call[2] == cycles]
    if len(exact) != 1:
        return None
    estimator, arguments = exact[0]
    terms = {name: _with_text(value) for name, value in arguments.items()}
    total = estimator(**terms)
    if not isinstance(total, Term) or total != cycles or len(total.text) > LONGEST:
        return None
    sizes = tuple((name, int(term)) for name, term in terms.items() if isinstance(term, Term))
    return Formula(sizes, total.text, cycles)


def _with_text(value: object) -> object:
    """Return a size, or a list of sizes, as `Term`s; return any other argument unchanged."""
    if isinstance(value, list | tuple):
        return [_with_text(item) for item in value]
    return Term(value, f"{value}") if type(value) is int else value
