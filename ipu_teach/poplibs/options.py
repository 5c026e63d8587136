"""Options of library calls: PopLibs' names, or their twins in snake case, in a dict.

    popops.reduce(graph, x, [0], prog, options={"accumType.interTile": "half"})
    popops.reduce(graph, x, [0], prog, options={"accum_type.inter_tile": "half"})    # the same

Values are of Python, or text as in PopLibs: "true", "0.5", "half". What a library does not know is
an error, and so is a value that an option cannot have. Some options choose between implementations
of which there is only one here: they are checked, and change nothing. `Option.effect` says which.
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
    """One option. `kind`: bool, float (a number of `least` to `most`), FLOAT (FLOAT or HALF), or a
    tuple of words."""

    name: str
    kind: Any
    default: Any = None
    least: float = 0.0
    most: float = float("inf")
    effect: bool = True

    @property
    def twin(self) -> str:
        """Its name in snake case."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", self.name).lower()

    @property
    def takes(self) -> str:
        """What it may be, in words."""
        if self.kind is float:
            return (
                f"a number of {self.least:g} or more"
                if self.most == float("inf")
                else (f"a number from {self.least:g} to {self.most:g}")
            )
        if isinstance(self.kind, tuple):
            return " or ".join(map(repr, self.kind))
        return "True or False" if self.kind is bool else "FLOAT or HALF"

    def value(self, given: object) -> Any:
        """`given` as a value of this option. Raises `InvalidOptionError`."""
        if isinstance(self.kind, tuple):
            if given in self.kind:
                return given
        elif self.kind is float:
            number = as_number(given)
            if number is not None and self.least <= number <= self.most:
                return number
        else:
            known: dict[str, Any] = _WORDS[self.kind]
            found = known.get(given, given) if isinstance(given, str) else given
            if any(found is value for value in known.values()):
                return found
        raise InvalidOptionError(f"""{calling()}() was given the option {self.name!r} as
            {shown(given)}.
            next:  give {self.takes}.""")


def as_number(given: object) -> float | None:
    """A number, or text that is one; None for what is neither."""
    if isinstance(given, bool):
        return None
    try:
        return float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return None


def settled(known: tuple[Option, ...], given: object) -> dict[str, Any]:
    """The value of every option, by PopLibs' name: what was given, else the default. Raises
    `InvalidOptionError`."""
    values = {option.name: option.default for option in known}
    if given is None:
        return values
    if not isinstance(given, Mapping):
        advice = (
            f"give a dict, as in options={{{known[0].name!r}: …}}" if known else "leave them out"
        )
        raise InvalidOptionError(f"""{calling()}() was given the options {shown(given)}.
            next:  {advice}.""")
    names = {name: option for option in known for name in (option.name, option.twin)}
    seen: set[str] = set()
    for key, value in given.items():
        option = names.get(key) if isinstance(key, str) else None
        if option is None:
            listed = ", ".join(o.name for o in known)
            near = did_you_mean(key, [*names, *(o.name for o in known)])
            raise InvalidOptionError(
                f"{calling()}() has no option {shown(key)}.", next_step=f"{near}It has {listed}."
            )
        if option.name in seen:
            raise InvalidOptionError(f"""{calling()}() was given the option {option.name!r} twice.
                next:  give it once: both spellings mean the same.""")
        seen.add(option.name)
        values[option.name] = option.value(value)
    return values
