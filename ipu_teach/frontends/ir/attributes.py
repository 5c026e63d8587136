"""The types of the attributes of operations: one table by name, shared by all rows of the kit.

A row that uses an attribute's name with another meaning declares its own annotation, `Row(…,
attributes={"kind": Annotated[str, Among(names)]})`. The annotations of a row's `shape` also count;
the table does not apply to rows from outside the kit.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Annotated, NamedTuple

from ipu_teach.arguments import (
    Among,
    Between,
    Count,
    Extended,
    Fraction,
    Kind,
    Natural,
    Taken,
    hints_of,
    kind_of,
)
from ipu_teach.errors import did_you_mean, shown
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

ELEMENTS = (FLOAT, HALF, INT, UNSIGNED_INT, BOOL)
Element = Annotated[
    type[DType],
    Taken(
        lambda v: any(v is dtype for dtype in ELEMENTS),
        "give FLOAT, HALF, INT, UNSIGNED_INT or BOOL.",
    ),
]
Sizes = Sequence[Count]
Margins = Sequence[Natural]
Keep = Annotated[float, Between(0, 1, is_above=True)]
Word = Annotated[int, Between(0, 2**32 - 1)]
ATTRIBUTES: dict[str, object] = {
    "begin": Natural,
    "beta1": Fraction,
    "beta2": Fraction,
    "classes": Count,
    "count": Count,
    "dilation": Sizes,
    "dim": int,
    "dims": Sequence[int],
    "dtype": Element,
    "end": Natural,
    "eps": Annotated[float, Between(0)],
    "field": Margins,
    "groups": Count,
    "k": Count,
    "keep": Keep,
    "kernel": Sizes,
    "kind": str,
    "largest": bool,
    "least": Extended,
    "lower": Margins,
    "modifier": Word,
    "momentum": float,
    "most": Extended,
    "op": Annotated[str, Among(("ADD", "MEAN", "MUL", "MIN", "MAX"))],
    "reverse": bool,
    "shape": Sequence[int],
    "step": Count,
    "steps": Count,
    "stride": Sizes,
    "title": str,
    "trust": Annotated[float, Between(0)],
    "upper": Margins,
    "value": Extended,
    "weight_decay": Annotated[float, Between(0)],
}


class Attributes(NamedTuple):
    """The kinds of a row's attributes, and the `names` that it accepts, or None for any."""

    kinds: Mapping[str, Kind]
    names: frozenset[str] | None


@cache
def attributes_of(shape: Callable[..., object], lower: Callable[..., object]) -> Attributes:
    """Return the attributes of a row, from the signatures of its `shape` and its `lower`."""
    is_of_kit = getattr(shape, "__module__", "").startswith("ipu_teach.")
    hints = {**(ATTRIBUTES if is_of_kit else {}), **hints_of(shape)}
    names: set[str] = set()
    is_open = True
    for function, skipped in ((shape, 0), (lower, 1)):
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):
            continue
        names.update(p.name for p in parameters[skipped:] if p.kind in _NAMED)
        is_open = is_open and any(p.kind is p.VAR_KEYWORD for p in parameters)
    kinds = {name: kind for name, hint in hints.items() if (kind := kind_of(hint)) is not None}
    return Attributes(kinds, None if is_open else frozenset(names))


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def misfit(
    attributes: Attributes, row_hints: Mapping[str, object], values: Mapping[str, object]
) -> tuple[str, str] | None:
    """Return (what is wrong with attributes, as the end of a sentence, and what to do).

    `row_hints` are the annotations in the row's `attributes`. Return None if all values fit.
    """
    for name, value in values.items():
        if attributes.names is not None and name not in attributes.names and name not in row_hints:
            known = sorted(attributes.names)
            return f"has no attribute {name!r}", f"{did_you_mean(name, known)}leave it out."
        kind = kind_of(row_hints[name]) if name in row_hints else attributes.kinds.get(name)
        if kind is not None and type(value) not in kind.quick and not kind.accepts(value):
            return f"was given {shown(value)} as {name}", kind.advice(value)
    return None
