"""What a library of several modules offers: each module lists its part in its own `__all__`, and the package takes them all."""

from __future__ import annotations

from inspect import ismodule
from typing import Any


def offered(scope: dict[str, Any], *modules: str) -> list[str]:
    """The public names in a package's `globals()`. Its modules are none of them, but for those that are named."""
    return sorted(n for n, v in scope.items() if n in modules or not (n.startswith("_") or ismodule(v)))
