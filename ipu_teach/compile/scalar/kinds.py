"""The types of numbers in a translation: three Python types, twelve numpy types, and None."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from ipu_teach.arguments import Function
from ipu_teach.types.rounding import AnyDType

Constant: TypeAlias = bool | int | float | np.generic | None
SAMPLES: dict[str, Any] = {
    "wb": True,
    "wi": 1,
    "wf": 1.0,
    "b1": np.bool_(True),
    "i1": np.int8(1),
    "u1": np.uint8(1),
    "i2": np.int16(1),
    "u2": np.uint16(1),
    "i4": np.int32(1),
    "u4": np.uint32(1),
    "i8": np.int64(1),
    "u8": np.uint64(1),
    "f2": np.float16(1),
    "f4": np.float32(1),
    "f8": np.float64(1),
    "no": None,
}
# Maps each type to its code, an integer. If a variable has several possible types, another variable
# (its tag) contains the code of the present type.
CODES = {t: k for k, t in enumerate(SAMPLES)}
INTS = frozenset(("wi", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"))
FLOATS = frozenset(("wf", "f2", "f4", "f8"))
BOOLS = frozenset(("b1", "wb"))
WEAK = frozenset(("wb", "wi", "wf"))
# Maps each type to its slot, a letter that stands for the type of variables in the numba code. All
# integers are int64 except uint64, and halves are float32.
SLOT = {
    **dict.fromkeys(INTS, "i"),
    "u8": "u",
    "f2": "f",
    "f4": "f",
    "f8": "d",
    "wf": "d",
    "b1": "b",
    "wb": "b",
    "no": "b",
}
# `ZERO` maps each slot to the source code of its zero, and `HELD` to that of its dtype.
ZERO = {"i": "np.int64(0)", "u": "np.uint64(0)", "f": "np.float32(0)", "d": "0.0", "b": "False"}
HELD = {"i": "np.int64", "u": "np.uint64", "f": "np.float32", "d": "np.float64", "b": "np.bool_"}


def kind_of(value: object) -> str:
    """Return the letters of a value's type, which are a key of `SAMPLES`.

    For any other numpy scalar, the result is its dtype, such as "c8". For other values it is "?".
    """
    if value is None:
        return "no"
    # Test for numpy's numbers first, because an np.float64 is also a float, but not a weak one.
    if isinstance(value, np.generic):
        return str(value.dtype.str[1:])
    return "w" + type(value).__name__[0] if type(value) in (bool, int, float) else "?"


@lru_cache(None, typed=True)
def gives(function: Function, *operands: str | Constant) -> str:
    """Return the type of `function`'s result for operands of these types.

    The type is found by computing an example. An operand may also be a number instead of a type.
    """
    with np.errstate(all="ignore"):
        return kind_of(function(*(SAMPLES[x] if isinstance(x, str) else x for x in operands)))


def is_number(value: object) -> bool:
    """Return whether a value is None or a number of a type that is translated."""
    return kind_of(value) in SAMPLES


def reach(types: Iterable[str]) -> int | None:
    """Return an upper bound on the magnitude of integers of these types.

    Return None if one of the types has more than 32 bits, and 1 if none is a numpy integer type.
    """
    sizes = [8 * int(type_code[1]) for type_code in types if type_code[0] in "iu"]
    return None if max(sizes, default=0) > 32 else 2 ** max(sizes, default=0)


def dtype_of(type_code: str) -> AnyDType:
    """Return the numpy dtype of a type; a Python type has the dtype that represents its numbers."""
    return np.dtype({"wb": "?", "wi": "i8", "wf": "f8"}.get(type_code, type_code))


def numpys(dtype: DTypeLike) -> str:
    """Return a dtype as source code, such as "np.float32"."""
    return f"np.{np.dtype(dtype).name.replace('bool', 'bool_')}"


def held_dtype(type_code: str) -> str:
    """Return the dtype in which the numba code stores elements of a local array, as source code."""
    return HELD["f"] if type_code == "f2" else numpys(dtype_of(type_code))
