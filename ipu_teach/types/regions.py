"""Arrays that are the regions of a vertex, where they are not quite like numpy's: unsigned
integers, and ONE_PTR."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu_teach.errors import CodeletError


def to_unsigned(values: Any, dtype: np.dtype[Any]) -> Any:
    """`values` as a place for unsigned integers takes them: floats are cut towards 0, and their
    lowest bits kept.

    NaN is 0, and so is what 64 bits do not hold, from -2**63 to 2**64. numpy leaves that to the
    processor, whose instructions for one number and for several differ. What is no float is
    returned as it is.
    """
    given = np.asarray(values)
    if given.dtype.kind != "f":
        return values
    fits = (given > -np.float64(2.0**63)) & (given < np.float64(2.0**64))
    wide = np.where(fits, given, 0).astype(np.float64)
    return np.where(wide < 2.0**63, wide, wide - 2.0**64).astype(np.int64).astype(dtype)[()]


class Sized:
    """A region that tells its length unless it is laid out as ONE_PTR."""

    without_size: str = ""  # the field's name, on the field's own region alone

    def __len__(self) -> int:
        if self.without_size:
            raise no_size(self.without_size)
        return super().__len__()  # type: ignore[misc, no-any-return]

    def __iter__(self) -> Iterator[Any]:
        if self.without_size:
            raise no_size(self.without_size)
        return super().__iter__()  # type: ignore[misc, no-any-return]


class OnePtrArray(Sized, np.ndarray[Any, np.dtype[Any]]):
    """An array that does not tell its length. What is computed from it is an ordinary array."""

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # the result of an in-place operator
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


class UnsignedArray(OnePtrArray):
    """An array, and views of it, that takes floats as `to_unsigned` says. It tells its length
    unless it is ONE_PTR."""

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, to_unsigned(value, self.dtype))


def unsigned(region: Any) -> Any:
    """A region of unsigned integers, or a list of them, such that what is stored in it becomes what
    the machine has there."""
    if isinstance(region, list):
        return type(region)(unsigned(part) for part in region)
    return region.view(UnsignedArray) if isinstance(region, np.ndarray) else region


def without_size(region: Any, name: str) -> Any:
    """`region` such that asking for its length raises. `name`: the field, as the error is to call
    it."""
    if isinstance(region, np.ndarray) and not isinstance(region, OnePtrArray):
        region = region.view(OnePtrArray)
    region.without_size = name
    return region


def no_size(name: str) -> CodeletError:
    """The error for asking a ONE_PTR field for its length."""
    return CodeletError(f"""{name} is laid out as ONE_PTR, a pointer without a length: len() and
        loops over it do not work.
        next:  give the length in a state field and index with it, or leave the layout out
        (SPAN).""")
