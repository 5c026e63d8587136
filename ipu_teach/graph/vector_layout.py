"""Poplar's vector layouts: the form in which a vertex's state stores the pointer to a Vector.

    x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]

Like a dtype, a layout is a class that is never instantiated, so that the line above passes a type
checker. It only changes the bytes of a vertex's edge pointers. ONE_PTR is an exception: it stores
no length, so taking the length of such a field, or looping over it, is an error.
"""

from __future__ import annotations


class RegionLayout:
    """The base class of all vector layouts."""


class VectorLayout:
    """Poplar's layouts, as attributes with Poplar's names."""

    class SPAN(RegionLayout):
        """The default layout of a Vector, which stores a pointer and a length in one word each."""

    class SHORT_SPAN(RegionLayout):
        """The layout that packs a pointer and a length into one word."""

    class ONE_PTR(RegionLayout):
        """The layout that stores a pointer of one word and no length."""

    class SCALED_PTR32(RegionLayout):
        """The layout that stores the index of a 32-bit element in half a word."""

    class SCALED_PTR64(RegionLayout):
        """The layout that stores the index of a 64-bit element in half a word."""

    class SCALED_PTR128(RegionLayout):
        """The layout that stores the index of a 128-bit element in half a word."""

    class COMPACT_PTR(RegionLayout):
        """The layout for which Poplar's compiler chooses the smallest form of a pointer."""

    class DELTAN(RegionLayout):
        """The layout of a VectorList that stores each vector's length and its offset in bytes.

        The offset is the distance from a base that all vectors share.
        """

    class DELTANELEMENTS(RegionLayout):
        """The layout of a VectorList that stores each vector's length and its offset in elements.

        The offset is the distance from a base that all vectors share.
        """
