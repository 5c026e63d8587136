"""Vertex regions for which plain numpy arrays do not suffice: unsigned integers and ONE_PTR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np

from ipu_teach.errors import CodeletError
from ipu_teach.types.rounding import AnyDType, Array

# The array of a field's region or, for a list of vectors, the arrays of all regions.
FieldArrays: TypeAlias = Array | list[Array]


def to_unsigned(values: Any, dtype: AnyDType) -> Any:
    """Return `values` as unsigned integers of `dtype`, if they are floats.

    Floats are truncated toward 0, and the lowest bits of the integer are the result. NaN and
    numbers outside -2**63 to 2**64 become 0. (numpy leaves such floats to the processor, whose
    scalar and vector instructions give different results.) Values that are not floats are returned
    unchanged.
    """
    array = np.asarray(values)
    if array.dtype.kind != "f":
        return values
    fits = (array > -np.float64(2.0**63)) & (array < np.float64(2.0**64))
    wide = np.where(fits, array, 0).astype(np.float64)
    return np.where(wide < 2.0**63, wide, wide - 2.0**64).astype(np.int64).astype(dtype)[()]


class Sized:
    """A base class for regions: `len` and loops raise an error if the field's layout is ONE_PTR."""

    # The name of the field if its layout is ONE_PTR, and "" for views and computed arrays.
    without_size: str = ""

    def __len__(self) -> int:
        if self.without_size:
            raise no_size(self.without_size)
        return super().__len__()  # type: ignore[misc, no-any-return]

    def __iter__(self) -> Iterator[Any]:
        if self.without_size:
            raise no_size(self.without_size)
        return super().__iter__()  # type: ignore[misc, no-any-return]


class OnePtrArray(Sized, np.ndarray[Any, AnyDType]):
    """An array whose `len` raises an error. Arrays that are computed from it have a length."""

    def __array_wrap__(
        self, array: Array, context: object = None, return_scalar: bool = False
    ) -> Any:
        if array is self:  # True for the result of an in-place operator.
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


class UnsignedArray(OnePtrArray):
    """An array that converts assigned floats with `to_unsigned`, as do its views.

    It has a length unless its layout is ONE_PTR.
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, to_unsigned(value, self.dtype))


def unsigned(region: Any) -> Any:
    """Return `region`, or each region of a list, as an `UnsignedArray` on the same memory.

    Floats that are assigned to it are converted with `to_unsigned`. Any other object is returned
    unchanged.
    """
    if isinstance(region, list):
        return type(region)(unsigned(part) for part in region)
    return region.view(UnsignedArray) if isinstance(region, np.ndarray) else region


def without_size(region: Any, name: str) -> Any:
    """Make `len(region)` and loops over `region` raise an error that names the field `name`.

    `region` is an array or a `VectorList`. Return it, or a view of it on the same memory.
    """
    if isinstance(region, np.ndarray) and not isinstance(region, OnePtrArray):
        region = region.view(OnePtrArray)
    region.without_size = name
    return region


def no_size(name: str) -> CodeletError:
    """Return the error for len() of a ONE_PTR field."""
    return CodeletError(f"""{name} is laid out as ONE_PTR, a pointer without a length, so len() and
        loops do not work on it.
        next:  give the length in a state field and loop over range(length), or leave out the
        layout, whose default is SPAN.""")
