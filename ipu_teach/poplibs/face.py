"""What a library of several modules offers: each module lists its part in its own `__all__`, and
the package takes them all."""

from __future__ import annotations

from inspect import ismodule
from types import ModuleType
from typing import Any, NoReturn

from ipu_teach.errors import missing


def offered(scope: dict[str, Any], *modules: str) -> list[str]:
    """The public names in a package's `globals()`. Its modules are none of them, but for those that
    are named."""
    return sorted(
        n for n, v in scope.items() if n in modules or not (n.startswith("_") or ismodule(v))
    )


def answer(library: ModuleType) -> None:
    """Let a library say what to use for a name of Poplar's that it has not."""

    def instead(name: str) -> NoReturn:
        raise missing(
            library.__name__.rpartition(".")[2],
            name,
            {},
            vars(library).get("__all__", dir(library)),
        )

    library.__dict__["__getattr__"] = instead
