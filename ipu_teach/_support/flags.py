"""Check arguments that must be True or False: `flagged` reads the `bool` annotations.

    @flagged
    def images(pictures: Array, *, diverging: bool = False) -> Picture: ...

Without the check, any string or number would count as True or False, and an array would raise one
of numpy's errors in the middle of the call.
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
    """Return a function or a class whose calls check arguments that are annotated with `bool`.

    A class is changed in place: its constructor and public methods check such arguments. A wrong
    argument raises `PoplarTypeError` before the body runs.
    """
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
    """Return a decorator that makes a function check its `bool` arguments and those in `names`.

    The check reads the annotations of these parameters, and raises `PoplarTypeError` before the
    body of the function runs. All other arguments are not checked.
    """
    return checked(_refused, lambda name, hint: is_flag(name, hint) or name in names)
