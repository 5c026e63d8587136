"""The engine's options that affect a report, and the version of the kit that recorded it."""

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
# in every version of the files
Named = Annotated[tuple[frozenset[str], frozenset[str]] | None, pair(NAMES, NAMES)]


def kit_version() -> str:
    """Return the version of this kit."""
    import ipu_teach  # imported here, because ipu_teach imports reports

    return ipu_teach.__version__


@dataclass(frozen=True)
class PoplarVersion:
    """The version of this kit that compiled a program: `string`, and its three numbers."""

    string: str = field(default_factory=kit_version)

    def _number(self, place: int) -> int:
        part = [*self.string.split("+")[0].split("."), "0", "0"][place]
        return int(part) if part.isdecimal() and len(part) < 10 else 0

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
    """The options of an engine that affect what its reports show, by libpva's names if it has them.

    - `compute` is `debug.computeInstrumentationLevel`, or "Off" without `debug.instrument`.
    - `external_exchange` is `debug.instrumentExternalExchange`.
    - `block_filter`, `block_tile` and `program_filter` are the options `profiler.blocks.*` and
      `profiler.programs.filter`.
    - `named` has the names that match the two filters, for a report from a file. It avoids
      evaluating a pattern from a file.
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
        """The tests of whether a name matches the filter of blocks, and that of programs."""
        if self.named:
            return self.named[0].__contains__, self.named[1].__contains__
        programs = finds(self.program_filter, "profiler.programs.filter", empty=False)
        return finds(self.block_filter, "profiler.blocks.filter"), programs

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> InstrumentationSettings:
        """Return the settings in an engine's options, which have Poplar's names."""
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
        """Return the settings as they are saved in a file; `names` are those of the programs."""
        known = set(names)
        blocks, programs = (frozenset(filter(is_found, known)) for is_found in self.finds)
        return replace(self, named=(blocks, programs))
