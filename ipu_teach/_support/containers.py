"""Read containers with the methods of Python's built-in types.

A derived class may have other methods, which change the container when it is read. For example, the
registry of a library may create an object for each key that is read, and reading from a queue may
remove elements.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

_KINDS = (OrderedDict, dict, list, deque, set, frozenset, tuple, bytearray)


def builtin_type(container: object) -> Any:
    """Return the built-in container type that `container` inherits from, or its own type."""
    return next((kind for kind in _KINDS if isinstance(container, kind)), type(container))


def members(container: object) -> dict[object, object]:
    """Return the keys and values of a mapping as a dict.

    The mapping is read with the methods of its built-in type.
    """
    kind = builtin_type(container)
    return {key: kind.__getitem__(container, key) for key in kind.__iter__(container)}


def elements(container: object) -> list[object]:
    """Return the elements of a list, deque, set, frozenset, tuple or bytearray as a list."""
    return [*builtin_type(container).__iter__(container)]
