"""How the pointer to a Vector is kept in a vertex's state: Poplar's vector layouts.

    x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]

A layout is a class that is never instantiated, as a dtype is, so that the line above passes a type checker. It changes the
bytes of a vertex's edge pointers and nothing else, but for ONE_PTR, which keeps no length: asking such a field for its
length, or looping over it, is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu_teach.errors import CodeletError


class Layout:
    """The base of all vector layouts."""


class VectorLayout:
    """Poplar's layouts by name."""

    class SPAN(Layout):
        """A pointer and a length, each a word. What a Vector has if nothing is said."""

    class SHORT_SPAN(Layout):
        """A pointer and a length, packed into one word."""

    class ONE_PTR(Layout):
        """A pointer without a length."""

    class SCALED_PTR32(Layout):
        """Half a word: the number of a 32-bit element."""

    class SCALED_PTR64(Layout):
        """Half a word: the number of a 64-bit element."""

    class SCALED_PTR128(Layout):
        """Half a word: the number of a 128-bit element."""

    class COMPACT_PTR(Layout):
        """Whatever the compiler finds to be the smallest."""

    class DELTAN(Layout):
        """For a VectorList: the distance of each vector from a common base, in bytes, beside its length."""

    class DELTANELEMENTS(Layout):
        """For a VectorList: the distance of each vector from a common base, in elements, beside its length."""


class OnePtrArray(np.ndarray[Any, np.dtype[Any]]):
    """An array that does not tell its length. What is computed from it is an ordinary array."""

    without_size: str = ""  # the field's name, on the field's own region alone

    def __len__(self) -> int:
        if self.without_size:
            raise no_size(self.without_size)
        return super().__len__()

    def __iter__(self) -> Iterator[Any]:
        if self.without_size:
            raise no_size(self.without_size)
        return super().__iter__()

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # the result of an in-place operator
            return self
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar else plain


def without_size(region: Any, name: str) -> Any:
    """`region` such that asking for its length raises. `name`: the field, as the error is to call it."""
    if isinstance(region, np.ndarray) and not isinstance(region, OnePtrArray):
        region = region.view(OnePtrArray)
    region.without_size = name
    return region


def no_size(name: str) -> CodeletError:
    """The error for asking a ONE_PTR field for its length."""
    return CodeletError(f"""{name} is laid out as ONE_PTR, a pointer without a length: len() and loops over it do not work.
        next:  give the length in a state field and index with it, or leave the layout out (SPAN).""")
