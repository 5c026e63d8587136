"""Expressions as strings, for prices that depend on an unknown number of elements.

Arithmetic with a `Symbol` returns a `Symbol` with a longer expression:

16 * ((Symbol("n") + 1) // 2)        # 16 * ((n + 1) // 2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SUM, PRODUCT, NAME = range(3)  # The precedence of an expression's outermost operation.


def _joined(sign: str, holds: int) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: Symbol(f"{_part(a, holds)} {sign} {_part(b, holds + 1)}", holds)


def _part(value: Any, holds: int) -> str:
    return f"({value})" if isinstance(value, Symbol) and value.holds < holds else str(value)


@dataclass(frozen=True)
class Symbol:
    """An unknown integer, represented by an expression in a string, which arithmetic extends."""

    text: str
    holds: int = SUM

    __add__, __sub__ = _joined("+", SUM), _joined("-", SUM)
    __mul__, __floordiv__ = _joined("*", PRODUCT), _joined("//", PRODUCT)

    def __rmul__(self, number: int) -> Symbol:
        return Symbol(str(number), NAME) * self

    def __str__(self) -> str:
        return self.text


def largest(*amounts: Any) -> Any:
    """Return the largest of several numbers.

    If one of them is a `Symbol`, the result is an expression for the largest.
    """
    if any(isinstance(amount, Symbol) for amount in amounts):
        return Symbol(f"max({', '.join(map(str, amounts))})", NAME)
    return max(amounts)
