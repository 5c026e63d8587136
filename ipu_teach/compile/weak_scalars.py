"""Numbers that are Python's in some vertices and numpy's in others, as `max(x, 0)` gives them.

Python's numbers are weak scalars: they take the type of what they meet, and compute in double
precision or without end among themselves, so `-max(x, 0)` is not the same for a 0 as for a 0.0. A
traced value of that kind knows which plain numbers it may be. It is taken for numpy's number where
it meets one of that type, or is stored, with the same bits; elsewhere the trace stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Weak = tuple[bool | int | float, ...]


def fits(numbers: Weak, own: Any, into: Any) -> bool:
    """True if each number becomes the same in an element of type `into`, whether it is of type
    `own` on the way or not.

    Not where a wider float goes into a half: numpy's may round by chance there, and Python's do
    not.
    """
    narrows = own.kind == "f" and into == np.float16 and own != into
    try:
        return not narrows and all(
            _same(_stored(number, into), _stored(own.type(number), into)) for number in numbers
        )
    except (OverflowError, ValueError):
        return False


def meets(dtype: Any, others: Sequence[Any]) -> bool:
    """True if a number of numpy's is there, of the type that plain numbers are taken for: all of
    them become that."""
    dtypes = {other.dtype for other in others if hasattr(other, "dtype")}
    return dtype in dtypes and dtypes <= {dtype, np.dtype(bool)}


def _stored(number: Any, into: Any) -> Any:
    place = np.empty((), into)
    place[...] = number
    return place[()]


def _same(a: Any, b: Any) -> bool:
    return bool(a.tobytes() == b.tobytes() or (a != a and b != b))
