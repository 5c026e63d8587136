"""Numbers that are Python's in some vertices and numpy's in others, such as `max(x, 0)`.

Python's numbers are weak scalars: they take the type of the numpy value that they are combined
with. Among themselves they have double precision, or any number of digits, so `-max(x, 0)` differs
for a 0 and a 0.0. A traced value of that kind has the list of plain numbers that it may be. It is
treated as numpy's number where it is combined with one of the same type, or is stored with the same
bits; elsewhere the trace stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Weak = tuple[bool | int | float, ...]


def fits(numbers: Weak, dtype: Any, into: Any) -> bool:
    """Return whether numbers stored as `into` have the same bits directly and through `dtype`.

    The answer is False where a wider float is stored in a half: numpy's numbers may be rounded
    stochastically there, and Python's are not.
    """
    narrows = dtype.kind == "f" and into == np.float16 and dtype != into
    try:
        return not narrows and all(
            _same(_stored(number, into), _stored(dtype.type(number), into)) for number in numbers
        )
    except (OverflowError, ValueError):
        return False


def are_promoted(dtype: Any, others: Sequence[Any]) -> bool:
    """Return whether plain numbers become `dtype` in an operation with `others`.

    They do if one of the others is numpy's and of that type, and all that are numpy's are of that
    type or bool.
    """
    dtypes = {other.dtype for other in others if hasattr(other, "dtype")}
    return dtype in dtypes and dtypes <= {dtype, np.dtype(bool)}


def _stored(number: Any, into: Any) -> Any:
    element = np.empty((), into)
    element[...] = number
    return element[()]


def _same(a: Any, b: Any) -> bool:
    return bool(a.tobytes() == b.tobytes() or (a != a and b != b))
