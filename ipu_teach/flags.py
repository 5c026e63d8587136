"""Arguments that are True or False: a hint `bool` says which they are, and each call of what is
`flagged` is checked for it.

    @flagged
    def images(pictures: Array, *, diverging: bool = False) -> Picture: ...

Else any text or number would do as True, and an array would end in the middle of the call, with
numpy's words.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np

from ipu_teach.errors import PoplarTypeError, shown

F = TypeVar("F", bound=Callable[..., Any])
FLAG = bool, np.bool_  # no 1 and no "yes"
WORDS = "give True or False."


def flagged(made: F) -> F:
    """`made`, a function, or a class with its methods, whose flags are looked at before the body
    runs: `PoplarTypeError`."""
    if isinstance(made, type):
        for name, member in list(vars(made).items()):
            if inspect.isfunction(member) and (name == "__init__" or name[0] != "_"):
                setattr(made, name, _watched(member, made.__name__ if name == "__init__" else name))
        return made
    return cast(F, _watched(made, made.__name__))


def _watched(function: Any, name: str) -> Any:
    parameters = inspect.signature(function).parameters.values()
    far = len(parameters)  # no argument comes there: what is given by name only
    flags = {
        p.name: far if p.kind is p.KEYWORD_ONLY else place
        for place, p in enumerate(parameters)
        if p.annotation in (bool, "bool")
    }

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        for flag, place in flags.items():
            given = args[place] if place < len(args) else kwargs.get(flag, False)
            if not isinstance(given, FLAG):
                raise PoplarTypeError(f"""{name}() was given {shown(given)} as {flag}.
                    next:  {WORDS}""")
        return function(*args, **kwargs)

    return call if flags else function
