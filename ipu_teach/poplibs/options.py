"""Options of library calls: a dict with PopLibs' names, or the same names in snake case.

    popops.reduce(graph, x, [0], prog, options={"accumType.interTile": "half"})
    popops.reduce(graph, x, [0], prog, options={"accum_type.inter_tile": "half"})    # the same

Values are Python objects, or strings as in PopLibs: "true", "0.5", "half". Unknown options and
values raise an error. Some options of PopLibs select one of several implementations, of which this
kit has only one. Such options are checked but have no effect; their `Option.effect` is False.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipu_teach.errors import InvalidOptionError, did_you_mean, shown
from ipu_teach.poplibs.library import calling
from ipu_teach.types import FLOAT, HALF, DType

Options = Mapping[str, object]  # the options that a user passes
Value = bool | float | str | type[DType] | None
# Maps each option to its value; `Option.kind` determines the value's type.
Settled = dict[str, Any]
_BOOLS: dict[str, Value] = {"true": True, "false": False}
_DTYPES: dict[str, Value] = {"float": FLOAT, "half": HALF}


@dataclass(frozen=True)
class Option:
    """An option of a library call.

    `kind` determines the permitted values. It is bool, or float for a number from `minimum` to
    `maximum`, or FLOAT for the dtypes FLOAT and HALF, or a tuple of the permitted strings. `effect`
    is False if the option is accepted but changes nothing in this kit.
    """

    name: str
    kind: type | tuple[str, ...]
    default: Value = None
    minimum: float = 0.0
    maximum: float = float("inf")
    effect: bool = True

    @property
    def twin(self) -> str:
        """The option's name in snake case."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name).lower()

    @property
    def takes(self) -> str:
        """The description of the permitted values in error messages, such as "True or False"."""
        if self.kind is float:
            if self.maximum == float("inf"):
                return f"a number of {self.minimum:g} or more"
            return f"a number from {self.minimum:g} to {self.maximum:g}"
        if isinstance(self.kind, tuple):
            return " or ".join(map(repr, self.kind))
        return "True or False" if self.kind is bool else "FLOAT or HALF"

    def value(self, argument: object) -> Value:
        """Return `argument` as a value of this option, converting strings such as "true".

        :raises InvalidOptionError: if the value is not permitted.
        """
        if isinstance(self.kind, tuple):
            if isinstance(argument, str) and argument in self.kind:
                return argument
        elif self.kind is float:
            number = as_number(argument)
            if number is not None and self.minimum <= number <= self.maximum:
                return number
        else:
            permitted_by_text = _BOOLS if self.kind is bool else _DTYPES
            named_value = permitted_by_text.get(argument) if isinstance(argument, str) else argument
            for permitted in permitted_by_text.values():
                if named_value is permitted:
                    return permitted
        raise InvalidOptionError(f"""{calling()}() was given the option {self.name!r} as
            {shown(argument)}.
            next:  give {self.takes}.""")


def as_number(argument: object) -> float | None:
    """Return `argument` as a float if it is a number or a string like "0.5", otherwise None."""
    if isinstance(argument, bool):
        return None
    try:
        return float(argument)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def settled(known: tuple[Option, ...], argument: object) -> Settled:
    """Return the values of all known options: a dict from the name in PopLibs to the value.

    `argument` is the mapping that the user passed, or None. Options that the mapping does not
    contain have their default values.

    :raises InvalidOptionError: if an option is unknown, or a value is not permitted.
    """
    values = {option.name: option.default for option in known}
    if argument is None:
        return values
    if not isinstance(argument, Mapping):
        advice = (
            f"give a dict, as in options={{{known[0].name!r}: …}}" if known else "leave them out"
        )
        raise InvalidOptionError(f"""{calling()}() was given the options {shown(argument)}.
            next:  {advice}.""")
    options_by_name = {name: option for option in known for name in (option.name, option.twin)}
    given_names: set[str] = set()
    for key, argument_value in argument.items():
        option = options_by_name.get(key) if isinstance(key, str) else None
        if option is None:
            option_list = ", ".join(known_option.name for known_option in known)
            suggestion = did_you_mean(
                key, [*options_by_name, *(known_option.name for known_option in known)]
            )
            raise InvalidOptionError(
                f"{calling()}() has no option {shown(key)}.",
                next_step=f"{suggestion}Its options are {option_list}.",
            )
        if option.name in given_names:
            raise InvalidOptionError(f"""{calling()}() was given the option {option.name!r} twice.
                next:  give it once: both spellings mean the same.""")
        given_names.add(option.name)
        values[option.name] = option.value(argument_value)
    return values
