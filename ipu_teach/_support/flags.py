"""Arguments that are True or False: the calls of a `flagged` function are checked by its `bool`
hints.

    @flagged
    def images(pictures: Array, *, diverging: bool = False) -> Picture: ...

Without the check, any text or number would act as True, and an array would end in the middle of the
call with numpy's error.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from ipu_teach.arguments import FLAG, WORDS, checked, is_flag
from ipu_teach.errors import PoplarTypeError

__all__ = ["FLAG", "WORDS", "checks", "flagged"]

F = TypeVar("F", bound=Callable[..., Any])


def flagged(cls: F) -> F:
    """Return `made`, a function, or a class with its methods, whose flags are looked at before the
    body runs: `PoplarTypeError`."""
    if isinstance(cls, type):
        for name, member in list(vars(cls).items()):
            if inspect.isfunction(member) and (name == "__init__" or name[0] != "_"):
                setattr(cls, name, _watched(member))
        return cls
    return _watched(cls)


def _watched(function: F) -> F:
    hints = function.__annotations__.values()
    return _checked(function) if not {bool, "bool"}.isdisjoint(hints) else function


def _refused(problem: str, advice: str) -> PoplarTypeError:
    return PoplarTypeError(problem, next_step=advice)


_checked = checked(_refused, is_flag)


def checks(*names: str) -> Callable[[F], F]:
    """Return a decorator whose functions check flags and the parameters `names` by their
    annotations before the body runs: `PoplarTypeError`. The body checks all other arguments."""
    return checked(_refused, lambda name, hint: is_flag(name, hint) or name in names)
