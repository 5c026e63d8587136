"""The form in which a vertex's state holds the pointer to a Vector: Poplar's vector layouts.

    x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]

A layout is a class that is never instantiated, as a dtype is, so that the line above passes a type
checker. It changes the bytes of a vertex's edge pointers and nothing else. ONE_PTR is an exception:
it keeps no length, so that asking such a field for its length, or looping over it, is an error.
"""

from __future__ import annotations


class RegionLayout:
    """The base of all vector layouts."""


class VectorLayout:
    """Poplar's layouts by name."""

    class SPAN(RegionLayout):
        """A pointer and a length, each a word. The default of a Vector."""

    class SHORT_SPAN(RegionLayout):
        """A pointer and a length, packed into one word."""

    class ONE_PTR(RegionLayout):
        """A pointer without a length."""

    class SCALED_PTR32(RegionLayout):
        """Half a word: the number of a 32-bit element."""

    class SCALED_PTR64(RegionLayout):
        """Half a word: the number of a 64-bit element."""

    class SCALED_PTR128(RegionLayout):
        """Half a word: the number of a 128-bit element."""

    class COMPACT_PTR(RegionLayout):
        """The smallest form that the compiler finds."""

    class DELTAN(RegionLayout):
        """For a VectorList: the distance of each vector from a common base, in bytes, beside its
        length."""

    class DELTANELEMENTS(RegionLayout):
        """For a VectorList: the distance of each vector from a common base, in elements, beside its
        length."""
