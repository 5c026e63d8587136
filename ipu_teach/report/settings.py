"""The engine options that affect a report, and the version of the kit that recorded the report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from ipu_teach.report.table import Finds, finds
from ipu_teach.saving.schema import TEXT, Codec, checked, many, pair, whole

LEVELS = ("Vertex", "Tile", "Ipu", "Device", "Off")
MOST = 2**62
LEVEL = checked(TEXT, LEVELS.__contains__, "one of " + ", ".join(LEVELS))
NAMES = Codec(lambda v, _: sorted(v), lambda p: frozenset(many(TEXT).read(p)))
# The set of program names that match `block_filter`, and the set of those that match
# `program_filter`.
Named = Annotated[tuple[frozenset[str], frozenset[str]] | None, pair(NAMES, NAMES)]


def kit_version() -> str:
    """Return the version of this kit."""
    # Importing this at the top would be circular: `ipu_teach` imports this module.
    import ipu_teach

    return ipu_teach.__version__


@dataclass(frozen=True)
class PoplarVersion:
    """The version of this kit that compiled a program: a string and three numbers."""

    string: str = field(default_factory=kit_version)

    def _number(self, index: int) -> int:
        number_text = [*self.string.split("+")[0].split("."), "0", "0"][index]
        return int(number_text) if number_text.isdecimal() and len(number_text) < 10 else 0

    @property
    def major(self) -> int:
        """The first number of the version."""
        return self._number(0)

    @property
    def minor(self) -> int:
        """The second number of the version."""
        return self._number(1)

    @property
    def point(self) -> int:
        """The third number of the version."""
        return self._number(2)

    def __str__(self) -> str:
        return self.string


@dataclass(frozen=True)
class InstrumentationSettings:
    """The options of an engine that affect its reports, under libpva's names where libpva has them.

    - `compute` is the option `debug.computeInstrumentationLevel`. It is "Off" if `debug.instrument`
      is False.
    - `control_flow` is the option `debug.instrumentControlFlow`.
    - `external_exchange` is the option `debug.instrumentExternalExchange`.
    - `block_filter`, `block_tile` and `program_filter` are the options `profiler.blocks.filter`,
      `profiler.blocks.tile` and `profiler.programs.filter`.
    - `named` is None, except in a report from a file. In such a report, it has two sets: the
      program names that match `block_filter`, and the program names that match `program_filter`.
      With these sets, no regular expression from a file has to be evaluated.
    """

    compute: Annotated[str, LEVEL] = "Vertex"
    control_flow: bool = True
    external_exchange: bool = False
    block_filter: str = ".*"
    program_filter: str = ""
    block_tile: Annotated[int, whole(most=MOST)] = 0
    named: Named = field(default=None, repr=False, compare=False)

    @cached_property
    def finds(self) -> tuple[Finds, Finds]:
        """Two functions that test if a program name matches `block_filter` or `program_filter`."""
        if self.named:
            return self.named[0].__contains__, self.named[1].__contains__
        programs = finds(self.program_filter, "profiler.programs.filter", empty=False)
        return finds(self.block_filter, "profiler.blocks.filter"), programs

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> InstrumentationSettings:
        """Return the settings in the options of an engine, a mapping with Poplar's option names."""
        level = (
            str(options["debug.computeInstrumentationLevel"])
            if options["debug.instrument"]
            else "Off"
        )
        names = (
            "debug.instrumentControlFlow",
            "debug.instrumentExternalExchange",
            "profiler.blocks.filter",
        )
        return cls(
            level,
            *(
                options[name]
                for name in (*names, "profiler.programs.filter", "profiler.blocks.tile")
            ),
        )

    def written(self, names: Iterable[str]) -> InstrumentationSettings:
        """Return the settings to save in a file: `named` has the names that match the filters.

        `names` are the names of all programs.
        """
        known = set(names)
        blocks, programs = (frozenset(filter(is_found, known)) for is_found in self.finds)
        return replace(self, named=(blocks, programs))
