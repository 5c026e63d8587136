"""The types of operation attributes, such as the attribute `dims` of a sum.

The table `ATTRIBUTES` maps each attribute name to a type annotation, for all operations of this
package. A `Row`, which defines an operation, may declare a different annotation for an attribute:
`Row(…, attributes={"kind": Annotated[str, Among(names)]})`. The annotations of its `shape` function
also apply. The table does not apply to operations that a user registers.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Annotated, Any, NamedTuple, TypeAlias

from ipu_teach.arguments import (
    Among,
    Between,
    Count,
    Extended,
    Fraction,
    Function,
    Hint,
    Kind,
    Natural,
    Taken,
    hints_of,
    kind_of,
)
from ipu_teach.errors import did_you_mean, shown
from ipu_teach.types import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, DType

# The value of an attribute of an operation. Its type depends on the attribute: see ATTRIBUTES. This
# type is not a union of the possible types, because mypy would then need a cast at each use of an
# attribute.
Attribute: TypeAlias = Any
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
ATTRIBUTES: dict[str, Hint] = {
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
    """The attributes that an operation accepts.

    - `kinds` maps an attribute's name to its permitted values. An attribute that is not in `kinds`
      may have any value.
    - `names` are the permitted attribute names, or None if any name is permitted.
    """

    kinds: Mapping[str, Kind]
    names: frozenset[str] | None


@cache
def attributes_of(shape: Function, lower: Function) -> Attributes:
    """Return the attributes that an operation accepts: those of its `shape` and `lower`."""
    is_of_kit = getattr(shape, "__module__", "").startswith("ipu_teach.")
    hints = {**(ATTRIBUTES if is_of_kit else {}), **hints_of(shape)}
    names: set[str] = set()
    is_open = True
    for function, num_skipped in ((shape, 0), (lower, 1)):
        try:
            parameters = [*inspect.signature(function).parameters.values()]
        except (TypeError, ValueError):
            continue
        names.update(
            parameter.name for parameter in parameters[num_skipped:] if parameter.kind in _NAMED
        )
        is_open = is_open and any(
            parameter.kind is parameter.VAR_KEYWORD for parameter in parameters
        )
    kinds = {name: kind for name, hint in hints.items() if (kind := kind_of(hint)) is not None}
    return Attributes(kinds, None if is_open else frozenset(names))


_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def misfit(
    attributes: Attributes, row_hints: Mapping[str, Hint], values: Mapping[str, Attribute]
) -> tuple[str, str] | None:
    """Return `(problem, advice)` for the first invalid attribute of an operation, or None.

    The result is None if the operation accepts all attributes. `attributes` are the permitted
    attributes, `row_hints` is `Row.attributes`, and `values` maps the names of the operation's
    attributes to their values. The problem is the predicate of a sentence about the operation, such
    as "has no attribute 'dim'".
    """
    for name, value in values.items():
        if attributes.names is not None and name not in attributes.names and name not in row_hints:
            known_names = sorted(attributes.names)
            suggestion = did_you_mean(name, known_names)
            return f"has no attribute {name!r}", f"{suggestion}leave out {name}."
        value_kind = kind_of(row_hints[name]) if name in row_hints else attributes.kinds.get(name)
        if (
            value_kind is not None
            and type(value) not in value_kind.quick
            and not value_kind.accepts(value)
        ):
            return f"was given {shown(value)} as {name}", value_kind.advice(value)
    return None
