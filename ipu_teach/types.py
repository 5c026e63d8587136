"""The element types of the machine: FLOAT, HALF, INT, and the rest.

A dtype is a class that is never instantiated. `FLOAT.numpy` is the numpy dtype that holds its values, `FLOAT.size` its
size in bytes. Each is also a descriptor, so that a vertex may declare plain state as `bias: FLOAT` and type checkers
know that `self.bias` is a number.

There is no double precision on a tile. Sizes: the Poplar API's type sizes, https://docs.graphcore.ai, "Types".
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ipu_teach.errors import PoplarTypeError, TensorCreationError

Array = NDArray[Any]


class _DTypeMeta(type):
    """Makes a dtype print as its name and refuse to be called."""

    def __repr__(cls) -> str:
        return cls.__name__

    def __call__(cls, *args: object, **kwargs: object) -> Any:
        raise PoplarTypeError(
            f"{cls.__name__} is a dtype and is never instantiated.",
            next_step=f"pass the class itself, as in graph.add_variable({cls.__name__}, (4,)); for a host value use numpy.",
        )


class DType(metaclass=_DTypeMeta):
    """The base of all dtypes. `numpy`: the numpy dtype of its values; `size`: bytes an element."""

    numpy: ClassVar[np.dtype[Any]] = np.dtype(np.uint8)
    size: ClassVar[int] = 1

    # For type checkers only: a vertex class replaces its annotated names with the descriptors of graph/vertex.py.
    def __get__(self, vertex: object, owner: type) -> Any: ...
    def __set__(self, vertex: object, value: Any) -> None: ...


class FLOAT(DType):
    """IEEE 754 single precision, 4 bytes."""

    numpy = np.dtype(np.float32)
    size = 4


class HALF(DType):
    """IEEE 754 half precision, 2 bytes. Rounded to half after every operation."""

    numpy = np.dtype(np.float16)
    size = 2


class BOOL(DType):
    """True or false, 1 byte."""

    numpy = np.dtype(np.bool_)
    size = 1


class CHAR(DType):
    """Signed 8-bit integer, 1 byte (Poplar's `char`)."""

    numpy = np.dtype(np.int8)
    size = 1


class SIGNED_CHAR(DType):
    """Signed 8-bit integer, 1 byte."""

    numpy = np.dtype(np.int8)
    size = 1


class UNSIGNED_CHAR(DType):
    """Unsigned 8-bit integer, 1 byte."""

    numpy = np.dtype(np.uint8)
    size = 1


class SHORT(DType):
    """Signed 16-bit integer, 2 bytes."""

    numpy = np.dtype(np.int16)
    size = 2


class UNSIGNED_SHORT(DType):
    """Unsigned 16-bit integer, 2 bytes."""

    numpy = np.dtype(np.uint16)
    size = 2


class INT(DType):
    """Signed 32-bit integer, 4 bytes; wraps on overflow."""

    numpy = np.dtype(np.int32)
    size = 4


class UNSIGNED_INT(DType):
    """Unsigned 32-bit integer, 4 bytes; wraps on overflow."""

    numpy = np.dtype(np.uint32)
    size = 4


class LONGLONG(DType):
    """Signed 64-bit integer, 8 bytes."""

    numpy = np.dtype(np.int64)
    size = 8


class UNSIGNED_LONGLONG(DType):
    """Unsigned 64-bit integer, 8 bytes."""

    numpy = np.dtype(np.uint64)
    size = 8


ALL: tuple[type[DType], ...] = (
    FLOAT, HALF, BOOL, CHAR, SIGNED_CHAR, UNSIGNED_CHAR, SHORT, UNSIGNED_SHORT, INT, UNSIGNED_INT, LONGLONG,
    UNSIGNED_LONGLONG,
)  # fmt: skip


def as_dtype(given: object, what: str) -> type[DType]:
    """`given` if it is one of the kit's dtypes; else `PoplarTypeError` that suggests the one meant. `what` names the place."""
    if isinstance(given, type) and issubclass(given, DType) and given is not DType:
        return given
    advice = "use one of " + ", ".join(t.__name__ for t in ALL) + "."
    try:
        meant = np.dtype(given)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        meant = None
    if meant is not None and given is not None:
        same = [t.__name__ for t in ALL if t.numpy == meant]
        if same:
            advice = f"use {same[0]}."
        elif meant.kind == "f":
            advice = "there is no double precision on a tile; use FLOAT."
    raise PoplarTypeError(f"{what} was given the element type {given!r}.", next_step=advice)


def poison(dtype: type[DType]) -> Any:
    """What memory holds before anything was written to it: NaN, the smallest integer, or true."""
    if dtype.numpy.kind == "f":
        return np.nan
    return True if dtype is BOOL else np.iinfo(dtype.numpy).min


def to_host_array(values: ArrayLike, dtype: type[DType], what: str) -> Array:
    """`values` as a numpy array of `dtype`, refusing what the dtype cannot hold.

    Floats are rounded to nearest when a narrower float type is asked for. Integers must fit; a float is never
    silently cut to an integer. Raises `TensorCreationError`, which names `what`.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise TensorCreationError(f"{what}: the values do not form an array: {error}.") from None
    want = dtype.numpy
    if array.dtype == want or array.size == 0:
        return array.astype(want)
    if array.dtype.kind not in "buif":
        raise TensorCreationError(
            f"{what}: the values are of type {array.dtype}, not numbers.", next_step=f"give numbers that {dtype} holds."
        )
    if want.kind in "iu" and array.dtype.kind != "b":
        whole = array.dtype.kind in "iu" or bool(np.all(array == np.trunc(array)))
        bounds = np.iinfo(want)
        if not whole or int(array.min()) < bounds.min or int(array.max()) > bounds.max:
            raise TensorCreationError(
                f"{what}: {dtype} holds whole numbers from {bounds.min} to {bounds.max}; "
                f"the values run from {array.min()} to {array.max()}{'' if whole else ' and are not all whole'}.",
                next_step="choose a wider dtype, or round and clip the values first.",
            )
    with np.errstate(over="ignore"):
        return array.astype(want)
