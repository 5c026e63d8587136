"""Numbers that are Python's in some vertices and numpy's in others.

For example, `max(x, 0)` is Python's 0 in the vertices where x is negative, and a numpy number in
all others. Python's numbers are weak: in an operation with a numpy value, they take the type of
this value. In an operation without a numpy value, they have double precision (float) or any number
of digits (int). So `-max(x, 0)` is 0 for Python's 0, but -0.0 for numpy's 0.0.

A traced value of this kind has a list of the Python numbers that it may be. It is treated as a
numpy number if it is combined with a numpy number of the same type, or if it is stored and both
kinds of number give the same bits. Otherwise the trace stops.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ipu_teach.types.rounding import AnyDType

Weak = tuple[bool | int | float, ...]


def fits(numbers: Weak, dtype: AnyDType, into: AnyDType) -> bool:
    """Return whether `numbers` that are stored as `into` may be converted to `dtype` first.

    This is allowed if both ways of storing give the same bits. The result is False if a wider float
    is stored in a half, because numpy's numbers may be rounded stochastically there, and Python's
    numbers are not.
    """
    is_narrowed = dtype.kind == "f" and into == np.float16 and dtype != into
    try:
        return not is_narrowed and all(
            _same(_stored(number, into), _stored(dtype.type(number), into)) for number in numbers
        )
    except (OverflowError, ValueError):
        return False


def are_promoted(dtype: AnyDType, others: Sequence[object]) -> bool:
    """Return whether Python numbers become `dtype` in an operation with `others`.

    This is so if at least one of `others` is a numpy value of type `dtype`, and all numpy values in
    `others` are of type `dtype` or bool.
    """
    dtypes = {other.dtype for other in others if hasattr(other, "dtype")}
    return dtype in dtypes and dtypes <= {dtype, np.dtype(bool)}


def _stored(number: bool | float, into: AnyDType) -> Any:
    element = np.empty((), into)
    element[...] = number
    return element[()]


def _same(a: np.generic, b: np.generic) -> bool:
    return bool(a.tobytes() == b.tobytes() or (a != a and b != b))
