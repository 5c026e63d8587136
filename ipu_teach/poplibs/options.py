"""Options of library calls, in a dict: PopLibs' names, or the same names in snake case.

    popops.reduce(graph, x, [0], prog, options={"accumType.interTile": "half"})
    popops.reduce(graph, x, [0], prog, options={"accum_type.inter_tile": "half"})    # the same

Values are Python objects, or text as in PopLibs: "true", "0.5", "half". An option that the library
does not have raises an error, and so does a value that an option cannot have. Some options choose
between implementations of which there is only one here. They are checked and change nothing:
`Option.effect` is False for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ipu_teach.errors import InvalidOptionError, did_you_mean, shown
from ipu_teach.poplibs.library import calling
from ipu_teach.types import FLOAT, HALF

Options = Mapping[str, object]
_WORDS: dict[Any, dict[str, Any]] = {
    bool: {"true": True, "false": False},
    FLOAT: {"float": FLOAT, "half": HALF},
}


@dataclass(frozen=True)
class Option:
    """An option of a library call.

    `kind` is bool, float (a number from `minimum` to `maximum`), FLOAT (meaning FLOAT or HALF), or
    a tuple of permitted words.
    """

    name: str
    kind: Any
    default: Any = None
    minimum: float = 0.0
    maximum: float = float("inf")
    effect: bool = True

    @property
    def twin(self) -> str:
        """The option's name in snake case."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name).lower()

    @property
    def takes(self) -> str:
        """The permitted values, in words."""
        if self.kind is float:
            if self.maximum == float("inf"):
                return f"a number of {self.minimum:g} or more"
            return f"a number from {self.minimum:g} to {self.maximum:g}"
        if isinstance(self.kind, tuple):
            return " or ".join(map(repr, self.kind))
        return "True or False" if self.kind is bool else "FLOAT or HALF"

    def value(self, argument: object) -> Any:
        """Return `argument` as a value of this option. Raises `InvalidOptionError`."""
        if isinstance(self.kind, tuple):
            if argument in self.kind:
                return argument
        elif self.kind is float:
            number = as_number(argument)
            if number is not None and self.minimum <= number <= self.maximum:
                return number
        else:
            known: dict[str, Any] = _WORDS[self.kind]
            value = known.get(argument, argument) if isinstance(argument, str) else argument
            if any(value is permitted for permitted in known.values()):
                return value
        raise InvalidOptionError(f"""{calling()}() was given the option {self.name!r} as
            {shown(argument)}.
            next:  give {self.takes}.""")


def as_number(argument: object) -> float | None:
    """Return a number, or the number that a text spells; None for anything else."""
    if isinstance(argument, bool):
        return None
    try:
        return float(argument)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def settled(known: tuple[Option, ...], argument: object) -> dict[str, Any]:
    """Return the value of every option by its PopLibs name: the one in `argument`, else the
    default.

    Raises `InvalidOptionError`.
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
    names = {name: option for option in known for name in (option.name, option.twin)}
    names_seen: set[str] = set()
    for key, argument_value in argument.items():
        option = names.get(key) if isinstance(key, str) else None
        if option is None:
            listed = ", ".join(o.name for o in known)
            near = did_you_mean(key, [*names, *(o.name for o in known)])
            raise InvalidOptionError(
                f"{calling()}() has no option {shown(key)}.", next_step=f"{near}It has {listed}."
            )
        if option.name in names_seen:
            raise InvalidOptionError(f"""{calling()}() was given the option {option.name!r} twice.
                next:  give it once: both spellings mean the same.""")
        names_seen.add(option.name)
        values[option.name] = option.value(argument_value)
    return values
