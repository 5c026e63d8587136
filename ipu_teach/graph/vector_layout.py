"""Poplar's vector layouts: the form in which a vertex's state stores the pointer to a Vector.

    x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]

A layout is a class that is never instantiated, as a dtype is, so that the line above passes a type
checker. It only changes the bytes of a vertex's edge pointers. ONE_PTR is an exception: it stores
no length, so taking the length of such a field, or looping over it, is an error.
"""

from __future__ import annotations


class RegionLayout:
    """The base class of all vector layouts."""


class VectorLayout:
    """Poplar's layouts by name."""

    class SPAN(RegionLayout):
        """A pointer and a length, of one word each. This is the default of a Vector."""

    class SHORT_SPAN(RegionLayout):
        """A pointer and a length, packed into one word."""

    class ONE_PTR(RegionLayout):
        """A pointer without a length."""

    class SCALED_PTR32(RegionLayout):
        """Half a word: the index of a 32-bit element."""

    class SCALED_PTR64(RegionLayout):
        """Half a word: the index of a 64-bit element."""

    class SCALED_PTR128(RegionLayout):
        """Half a word: the index of a 128-bit element."""

    class COMPACT_PTR(RegionLayout):
        """The smallest form that the compiler finds."""

    class DELTAN(RegionLayout):
        """For a VectorList: each vector's length, and its distance from a common base.

        The distance counts bytes.
        """

    class DELTANELEMENTS(RegionLayout):
        """For a VectorList: each vector's length, and its distance from a common base.

        The distance counts elements.
        """
