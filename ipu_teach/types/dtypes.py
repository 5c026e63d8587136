"""The element types of the machine: FLOAT, HALF, INT and others.

A dtype is a class that is never instantiated. `FLOAT.numpy` is the numpy dtype of its values, and
`FLOAT.size` is their size in bytes. Each dtype is also a descriptor: a vertex can declare plain
state as `bias: FLOAT`, and type checkers know that `self.bias` is a number.

A tile has no double precision. Sizes: the Poplar API's type sizes, https://docs.graphcore.ai,
"Types".
"""

from __future__ import annotations

import re
from contextvars import ContextVar
from functools import cache
from typing import Any, ClassVar, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import (
    IPUTeachError,
    PoplarTypeError,
    TensorCreationError,
    TensorMetadataError,
    shown,
)
from ipu_teach.types.quarter import (
    LARGEST_SCALE,
    LEAST_SCALE,
    NAN_CODE,
    QuarterFormat,
    QuarterMetadata,
    to_quarter,
)
from ipu_teach.types.rounding import AnyDType, Array

DOUBLE = np.dtype(np.float64)
# True while the check of an exercise runs the learner's answer in float64, in order to distinguish
# rounding errors from wrong logic.
IN_DOUBLE = ContextVar("float64 holds FLOAT and HALF", default=False)


class _DTypeMeta(type):
    """The metaclass of dtypes: they print as their names and cannot be instantiated."""

    def __repr__(cls) -> str:
        return cls.__name__

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise PoplarTypeError(f"""{cls.__name__} is a dtype and is never instantiated.
            next:  pass the class itself, as in graph.add_variable({cls.__name__}, (4,)); for a host
            value use numpy.""")


class DType(metaclass=_DTypeMeta):
    """The base class of all dtypes.

    `numpy` is the numpy dtype of the values, and `size` is the size of one value in bytes.
    """

    numpy: ClassVar[AnyDType] = np.dtype(np.uint8)
    size: ClassVar[int] = 1

    # These methods are for type checkers only. In a vertex class, the descriptors of
    # graph/vertex.py replace the annotated fields.
    def __get__(self, vertex: object, owner: type) -> Any: ...
    def __set__(self, vertex: object, value: Any) -> None: ...


class _Held:
    """A descriptor that returns a dtype's numpy dtype, or float64 while `IN_DOUBLE` is True."""

    def __init__(self, dtype: type[np.generic]) -> None:
        self.own: AnyDType = np.dtype(dtype)

    def __get__(self, dtype: object, owner: type) -> AnyDType:
        return DOUBLE if IN_DOUBLE.get() else self.own


class FLOAT(DType):
    """IEEE 754 single precision, 4 bytes."""

    numpy = _Held(np.float32)
    size = 4


class HALF(DType):
    """IEEE 754 half precision, 2 bytes. The result of each operation is rounded to half."""

    numpy = _Held(np.float16)
    size = 2


class BOOL(DType):
    """True or False, 1 byte."""

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
    """Signed 32-bit integer, 4 bytes. Overflow wraps around."""

    numpy = np.dtype(np.int32)
    size = 4


class UNSIGNED_INT(DType):
    """Unsigned 32-bit integer, 4 bytes. Overflow wraps around."""

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


class _QuarterMeta(_DTypeMeta):
    """The metaclass of QUARTER, which makes `QUARTER[QuarterFormat.F143, -2]` a dtype."""

    def __getitem__(
        cls, metadata: QuarterMetadata | QuarterFormat | tuple[QuarterFormat, int]
    ) -> type[QUARTER]:
        if isinstance(metadata, QuarterMetadata):
            return _quarter(metadata)
        return _quarter(
            QuarterMetadata(*metadata)
            if isinstance(metadata, tuple) and len(metadata) <= 2
            else QuarterMetadata(metadata)
        )


class QUARTER(DType, metaclass=_QuarterMeta):
    """An 8-bit float, 1 byte, with a format and a scale: `QUARTER[QuarterFormat.F143, -2]`.

    `QUARTER[tensor.get_metadata()]` works too. In Poplar, format and scale are metadata of each
    tensor and may change while a program runs. Here they are part of the dtype: tensors with
    different formats or scales have different dtypes, so a copy cannot misinterpret one as the
    other.

    Graphs can store, copy and stream such tensors; to compute, convert them to HALF or FLOAT with
    `popops.cast`. The host reads such tensors as uint8 codes, and `from_quarter(codes,
    tensor.get_metadata())` returns the numbers. When the host writes, uint8 arrays contain codes,
    and all other arrays contain numbers, which are rounded to nearest.
    """

    numpy = np.dtype(np.uint8)
    size = 1
    metadata: ClassVar[QuarterMetadata]


@cache
def _quarter(metadata: QuarterMetadata) -> type[QUARTER]:
    quarter: Any = _QuarterMeta(
        f"QUARTER[{metadata.format.name}, {metadata.scale}]", (QUARTER,), {"metadata": metadata}
    )
    result: type[QUARTER] = quarter
    return result


ALL: tuple[type[DType], ...] = (
    FLOAT,
    HALF,
    BOOL,
    CHAR,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    SHORT,
    UNSIGNED_SHORT,
    INT,
    UNSIGNED_INT,
    LONGLONG,
    UNSIGNED_LONGLONG,
)


def as_dtype(value: object, subject: str) -> type[DType]:
    """Return `value` if it is a dtype of the kit.

    Otherwise raise `PoplarTypeError`, which names `subject` (the call or the object) and suggests a
    dtype.
    """
    if value is QUARTER:
        raise PoplarTypeError(f"""{subject} was given QUARTER without a format and a scale.
            next:  write QUARTER[QuarterFormat.F143, 0]: 4 exponent bits, 3 mantissa bits, and
            numbers times 2**0.""")
    if isinstance(value, type) and issubclass(value, DType) and value is not DType:
        return value
    raise PoplarTypeError(
        f"{subject} was given the element type {shown(value)}.", next_step=_meant(value)
    )


def dtype_named(name: str) -> type[DType] | None:
    """Return the dtype that prints as `name`, such as "FLOAT" or "QUARTER[F143, -2]".

    Return None if there is no such dtype.
    """
    match = re.fullmatch(r"QUARTER\[(F143|F152), (0|-?[1-9][0-9]?)\]", name)
    if match is None:
        return next((t for t in ALL if t.__name__ == name), None)
    scale = int(match[2])
    return (
        QUARTER[QuarterFormat[match[1]], scale] if LEAST_SCALE <= scale <= LARGEST_SCALE else None
    )


def _meant(value: object) -> str:
    """Return advice for a user who wrote `value` where a dtype is expected, such as "use INT."."""
    names = {t.__name__: t for t in ALL}
    if isinstance(value, str) and value.upper() in names:
        return f"write {value.upper()} without quotes; it is imported from ipu_teach."
    if value is int:
        return "use INT."
    try:
        meant = np.dtype(value) if isinstance(value, (str, type, np.dtype)) else None
    except Exception:  # np.dtype parses strings in many ways, and raises many kinds of errors.
        meant = None
    same = [t.__name__ for t in ALL if t.numpy == meant]
    if meant is not None and same:
        return f"use {same[0]}."
    if meant is not None and meant.kind == "f":
        return "there is no double precision on a tile; use FLOAT."
    return f"use one of {', '.join(names)}."


def metadata_of(dtype: type[DType], where: str) -> QuarterMetadata:
    """Return the format and scale of an 8-bit dtype.

    Raises `TensorMetadataError` for all other dtypes; `where` is the location in its message.
    """
    if issubclass(dtype, QUARTER):
        return dtype.metadata
    raise TensorMetadataError(f"""{dtype} has no metadata.
        where: {where}
        next:  use an 8-bit float, which has a format and a scale:
        QUARTER[QuarterFormat.F143, 0].""")


def poison(dtype: type[DType]) -> float:
    """Return the value that fills unwritten memory of `dtype`.

    The value is NaN for floats, the code of NaN for a QUARTER, the smallest integer for an integer
    type, and True for BOOL.
    """
    if dtype.numpy.kind == "f":
        return np.nan
    if issubclass(dtype, QUARTER):
        return NAN_CODE
    return True if dtype is BOOL else np.iinfo(dtype.numpy).min


def to_host_array(
    values: ArrayLike,
    dtype: type[DType],
    subject: str,
    error: type[IPUTeachError] = TensorCreationError,
) -> Array:
    """Return `values` as a new numpy array of `dtype`.

    Floats are rounded to nearest if the dtype is a narrower float type. For a QUARTER, uint8 values
    are codes. The function raises `error`, whose message names `subject`:

    - for values that are not numbers, or rows of different lengths;
    - for integers out of range, and for numbers other than 0 and 1 if the dtype is BOOL;
    - for floats that are not integers if the dtype is an integer type;
    - for finite numbers that would become infinite, and for infinities and too large numbers if the
      dtype is a QUARTER.
    """
    try:
        array = np.asarray(values)
    except (ValueError, OverflowError, MemoryError):
        raise error(f"""{subject}: {shown(values)} does not form an array.
            next:  give one number, or rows of equal length.""") from None
    numpy_dtype = dtype.numpy
    if array.dtype == numpy_dtype or array.size == 0:
        return array.astype(numpy_dtype)
    # An array of dtype object may contain integers of more than 64 bits.
    has_huge_integers = array.dtype.kind == "O" and all(
        type(element) is int for element in array.flat
    )
    if array.dtype.kind not in "buif" and not has_huge_integers:
        fault = f"holds {_kind(array)}, not numbers" if array.ndim else "is not a number"
        raise error(
            f"{subject}: {shown(values)} {fault}.", next_step=f"give numbers that {dtype} holds."
        )
    result, is_unfit = _converted(array, dtype, has_huge_integers)
    if is_unfit.any():
        element_number = int(np.flatnonzero(is_unfit)[0])
        element = array.flat[element_number]
        element = element if has_huge_integers else element.item()
        index_text = ", ".join(
            str(coordinate) for coordinate in np.unravel_index(element_number, array.shape)
        )
        raise error(f"""{subject}: {dtype} holds {_range(dtype)};
            {f"element [{index_text}]" if array.ndim else "the value"} is
            {shown(element)}.
            next:  choose another dtype, or round and clip the values first.""")
    return result


def _converted(array: Array, dtype: type[DType], huge: bool) -> tuple[Array, Array]:
    """Return `(result, is_unfit)`: `array` converted to the dtype, and where it does not fit.

    `is_unfit` is a bool array of the same shape. `huge` is True if the array has dtype object and
    contains Python integers of any size.
    """
    want = dtype.numpy
    with np.errstate(all="ignore"):
        if huge and (want.kind == "f" or issubclass(dtype, QUARTER)):
            array = np.array([float(max(-(2**999), min(2**999, v))) for v in array.flat]).reshape(
                array.shape
            )
        if issubclass(dtype, QUARTER):
            codes = to_quarter(array, dtype.metadata)
            return codes, (codes == NAN_CODE) & ~np.isnan(array)
        if want.kind == "f":
            result = array.astype(want)
            return result, np.isinf(result) & np.isfinite(array)
        if want.kind == "b":
            return array.astype(want), (array != 0) & (array != 1)
        bounds = np.iinfo(want)
        outside = (array < bounds.min) | (array > bounds.max)
        if array.dtype.kind == "f":  # float64 represents bounds.max + 1 exactly, but not 2**63 - 1.
            outside = (
                (array < bounds.min)
                | (array >= float(bounds.max + 1))
                | ~np.isfinite(array)
                | (array != np.trunc(array))
            )
        return np.where(outside, 0, array).astype(want), outside


def _kind(array: Array) -> str:
    """Return what an array without numbers contains, such as "text", for an error message."""
    if array.dtype.kind in "US":
        return "text"
    if array.dtype.kind == "O":
        odd = next(v for v in array.flat if type(v) is not int)
        return f"objects such as {type(odd).__name__}"
    return f"values of type {array.dtype}"


def _range(dtype: type[DType]) -> str:
    """Return which numbers a dtype can represent, such as "numbers up to 65,504"."""
    kind = dtype.numpy.kind
    if issubclass(dtype, QUARTER):
        largest = dtype.metadata.format.grid.largest * 2.0**dtype.metadata.scale
        return f"numbers up to {largest:,.6g}"
    if kind == "b":
        return "True and False, or 1 and 0"
    if kind == "f":
        return f"numbers up to {float(np.finfo(dtype.numpy).max):,.6g}"
    bounds = np.iinfo(dtype.numpy)
    return f"whole numbers from {bounds.min:,} to {bounds.max:,}"
