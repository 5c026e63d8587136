"""Numbers that are Python's in some vertices and numpy's in others, as `max(x, 0)` gives them.

Python's numbers take the type of what they meet, and compute in double precision or without end among themselves, so
`-max(x, 0)` is not the same for a 0 as for a 0.0. A traced value of that kind knows which plain numbers it may be. It is
taken for numpy's number where that makes no difference to any of them; where it does, the trace stops.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

Weak = tuple[bool | int | float, ...]
MOST_NUMBERS = 16  # plain numbers that a value is followed as

PYTHON: dict[Any, Callable[..., Any]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow, np.left_shift: operator.lshift,
    np.right_shift: operator.rshift, np.bitwise_and: operator.and_, np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor, np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt,
    np.greater_equal: operator.ge, np.equal: operator.eq, np.not_equal: operator.ne, np.negative: operator.neg,
    np.positive: operator.pos, np.invert: operator.invert, np.absolute: abs,
}  # fmt: skip


def weak_of(value: Any) -> Weak:
    """The plain numbers that `value` may be; none if it is numpy's in every vertex."""
    found: Weak = getattr(value, "_weak", ())
    return found


def fits(numbers: Weak, own: Any, into: Any) -> bool:
    """True if each number becomes the same in an element of type `into`, whether it is of type `own` on the way or not."""
    try:
        return all(_same(_stored(number, into), _stored(own.type(number), into)) for number in numbers)
    except (OverflowError, ValueError):
        return False


def meets(numbers: Weak, dtype: Any, others: Sequence[Any]) -> bool:
    """True if a number of numpy's is there, of the type that these are taken for: all of them become that."""
    dtypes = {other.dtype for other in others if hasattr(other, "dtype")}
    return dtype in dtypes and dtypes <= {dtype, np.dtype(bool)}


def enumerated(function: Callable[..., Any] | None, args: Sequence[Any], result: Any) -> Weak | None:
    """What Python makes of plain numbers alone, if numpy's numbers give the same; None if they do not.

    `args`: numbers, and values of which some are plain numbers; `result`: the type that numpy gives.
    """
    if function is None or any(hasattr(arg, "dtype") and not weak_of(arg) for arg in args):
        return None
    found: list[Any] = []
    for chosen in product(*(weak_of(arg) or (arg,) for arg in args)):
        typed = [arg.dtype.type(number) if weak_of(arg) else number for arg, number in zip(args, chosen, strict=True)]
        try:
            plain, numpys = function(*chosen), function(*typed)
            same = isinstance(plain, (bool, int, float)) and numpys.dtype == result and _same(result.type(plain), numpys)
        except (ArithmeticError, ValueError, TypeError):
            return None
        if not same:
            return None
        found.append(plain)
    distinct = tuple({(type(number), repr(number)): number for number in found}.values())
    return distinct if len(distinct) <= MOST_NUMBERS else None


def _stored(number: Any, into: Any) -> Any:
    place = np.empty((), into)
    place[...] = number
    return place[()]


def _same(a: Any, b: Any) -> bool:
    return bool(a.tobytes() == b.tobytes() or (a != a and b != b))
