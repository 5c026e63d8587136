"""Suggest the right order of arguments when a call uses the order of another library.

C++ libraries take operands, dtypes and parameters in other orders. If a call raises an error, this
module assigns each argument to the first free parameter whose type it fits. If that works for all
arguments, the error shows the call in that order.
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
    """Return source text that calls the function `name` with `args` in the signature's order.

    The text is empty in three cases: `args` are in this order already, an argument fits no free
    parameter, or a required parameter gets no argument.
    """
    parameters: list[Parameter] = list(signature.parameters.values())
    free = list(parameters)
    assigned = dict[str, object]()
    for value in args:
        parameter_for_value = next(
            (parameter for parameter in free if _fits(value, hints.get(parameter.name, Any))), None
        )
        if parameter_for_value is None:
            return ""
        free.remove(parameter_for_value)
        assigned[parameter_for_value.name] = value
    # All parameters that accept tensors count as equal. So there is no suggestion that does nothing
    # but swap two tensors.
    first_tensors = [value for value in args if isinstance(value, Tensor)][:1]
    kind_of_parameter = {
        parameter.name: "operand"
        if any(_fits(tensor, hints.get(parameter.name, Any)) for tensor in first_tensors)
        else parameter.name
        for parameter in parameters
    }
    written_kinds = [kind_of_parameter[parameter.name] for parameter in parameters[: len(args)]]
    if [kind_of_parameter[assigned_name] for assigned_name in assigned] == written_kinds or any(
        parameter.default is parameter.empty for parameter in free
    ):
        return ""
    required = [
        parameter.name
        for parameter in parameters
        if parameter.name in assigned and parameter.default is parameter.empty
    ]
    positional = [_in_words(name, assigned[name]) for name in required]
    keywords = [
        f"{parameter.name}={_in_words(parameter.name, assigned[parameter.name])}"
        for parameter in parameters
        if parameter.name in assigned and parameter.name not in required
    ]
    return f"{name}({', '.join(positional + keywords)})"


def _in_words(name: str, value: object) -> str:
    """Return the text of an argument in a suggested call: its value if simple, otherwise `name`.

    A value is simple if it is a dtype, a string or a number, or a list or dataclass of such values.
    `name` is the name of the parameter.
    """
    values = value if isinstance(value, (list, tuple)) else [value]
    if is_dataclass(value) and not isinstance(value, (type, Tensor)):
        values = [item for item in vars(value).values() if item is not None]
    is_plain = all(isinstance(item, (type, str, int, float)) for item in values)
    return shown(value) if is_plain else name


def _fits(value: object, hint: Hint) -> bool:
    """Return whether `value` fits the annotation `hint` of a parameter."""
    origin: Hint = get_origin(hint)
    type_arguments = get_args(hint)
    if hint is Any or isinstance(hint, TypeVar):
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, option) for option in type_arguments)
    if origin is Annotated:
        return _fits(value, type_arguments[0])
    if origin is type:
        return isinstance(value, type) and issubclass(value, type_arguments[0])
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, (list, tuple)) and all(
            _fits(item, type_arguments[0]) for item in value
        )
    plain_type = origin or hint
    return isinstance(plain_type, type) and isinstance(
        value, (int, float) if plain_type is float else plain_type
    )
