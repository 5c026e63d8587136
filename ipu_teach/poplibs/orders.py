"""Suggest the right order of arguments when a call follows the order of another library.

Libraries in C++ have their own order of operands, dtypes and parameters. If a refused call's
arguments would all fit when each went to the first free parameter of its type, the error shows the
call with the arguments in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from ipu_teach.arguments import Hint
from ipu_teach.errors import shown
from ipu_teach.graph.tensor import Tensor


def in_order(
    name: str, signature: Signature, hints: Mapping[str, Hint], args: Sequence[object]
) -> str:
    """Return the text of a call of `name` with `args` in the order of the signature.

    The text is empty if they are in that order already, or if some argument fits no free parameter.
    """
    places: list[Parameter] = list(signature.parameters.values())
    free = list(places)
    assigned = dict[str, object]()
    for value in args:
        place = next((p for p in free if _fits(value, hints.get(p.name, Any))), None)
        if place is None:
            return ""
        free.remove(place)
        assigned[place.name] = value
    # Operands count as one kind: to exchange two would be another calculation.
    tensors = [value for value in args if isinstance(value, Tensor)][:1]
    kinds = {
        p.name: "operand" if any(_fits(t, hints.get(p.name, Any)) for t in tensors) else p.name
        for p in places
    }
    written = [kinds[p.name] for p in places[: len(args)]]
    if [kinds[n] for n in assigned] == written or any(p.default is p.empty for p in free):
        return ""
    required = [p.name for p in places if p.name in assigned and p.default is p.empty]
    positional = [_in_words(name, assigned[name]) for name in required]
    keywords = [
        f"{p.name}={_in_words(p.name, assigned[p.name])}"
        for p in places
        if p.name in assigned and p.name not in required
    ]
    return f"{name}({', '.join(positional + keywords)})"


def _in_words(name: str, value: object) -> str:
    """Return dtypes, texts and numbers as they are written in code, and other values as `name`.

    `name` is the parameter's name.
    """
    parts = value if isinstance(value, (list, tuple)) else [value]
    if is_dataclass(value) and not isinstance(value, (type, Tensor)):
        parts = [part for part in vars(value).values() if part is not None]
    plain = all(isinstance(part, (type, str, int, float)) for part in parts)
    return shown(value) if plain else name


def _fits(value: object, hint: Hint) -> bool:
    """Return whether a value fits a parameter's annotation."""
    origin: Hint = get_origin(hint)
    inner = get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in inner)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin is type:
        return isinstance(value, type) and issubclass(value, inner[0])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, (list, tuple)) and all(_fits(part, inner[0]) for part in value)
    kind = origin or hint
    return isinstance(kind, type) and isinstance(value, (int, float) if kind is float else kind)
