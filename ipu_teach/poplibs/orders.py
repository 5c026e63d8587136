"""Arguments that stand in the order of another language: the line to write instead.

Libraries in C++ take what a function works on, dtypes and parameters in an order of their own.
Where a call is refused, and its arguments would all fit if each went to the first parameter of its
kind, the error shows the call in that order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from inspect import Parameter, Signature
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from ipu_teach.errors import shown
from ipu_teach.graph.tensor import Tensor


def in_order(name: str, signature: Signature, hints: Mapping[str, Any], args: Sequence[Any]) -> str:
    """The call with `args` where they belong; empty if they stand there already, or not all of them
    belong anywhere."""
    places: list[Parameter] = list(signature.parameters.values())
    free, found = list(places), dict[str, Any]()
    for value in args:
        place = next((p for p in free if _fits(value, hints.get(p.name, Any))), None)
        if place is None:
            return ""
        free.remove(place)
        found[place.name] = value
    # Operands that change places among themselves are another sum, and no other order.
    tensors = [value for value in args if isinstance(value, Tensor)][:1]
    kinds = {
        p.name: "operand" if any(_fits(t, hints.get(p.name, Any)) for t in tensors) else p.name
        for p in places
    }
    here = [kinds[p.name] for p in places[: len(args)]]
    if [kinds[n] for n in found] == here or any(p.default is p.empty for p in free):
        return ""
    plain = [p.name for p in places if p.name in found and p.default is p.empty]
    words = [_in_words(name, found[name]) for name in plain]
    said = [
        f"{p.name}={_in_words(p.name, found[p.name])}"
        for p in places
        if p.name in found and p.name not in plain
    ]
    return f"{name}({', '.join(words + said)})"


def _in_words(name: str, value: Any) -> str:
    """Dtypes, words and numbers as they are written; what is longer by its parameter's name."""
    parts = value if isinstance(value, (list, tuple)) else [value]
    if is_dataclass(value) and not isinstance(value, (type, Tensor)):
        parts = [part for part in vars(value).values() if part is not None]
    plain = all(isinstance(part, (type, str, int, float)) for part in parts)
    return shown(value) if plain else name


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the kind that a parameter is annotated with."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Annotated:
        return _fits(value, inner[0])
    if origin is type:
        return isinstance(value, type) and issubclass(value, inner[0])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, (list, tuple)) and all(_fits(part, inner[0]) for part in value)
    kind = origin or hint
    return isinstance(kind, type) and isinstance(value, (int, float) if kind is float else kind)
