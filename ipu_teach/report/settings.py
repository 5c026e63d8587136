"""What of a run is recorded, as the engine's options say, and which version of the kit recorded it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any

from ipu_teach.report.table import expression
from ipu_teach.schema import TEXT, Codec, checked, many, pair, whole

LEVELS = ("Vertex", "Tile", "Ipu", "Device", "Off")
MOST = 2**62
LEVEL = checked(TEXT, LEVELS.__contains__, "one of " + ", ".join(LEVELS))
NAMES = Codec(lambda v, _: sorted(v), lambda p: frozenset(many(TEXT).read(p)))
Named = Annotated[tuple[frozenset[str], frozenset[str]] | None, pair(NAMES, NAMES)]  # every file has them


def kit_version() -> str:
    """The version of this kit."""
    import ipu_teach  # which imports reports itself

    return ipu_teach.__version__


@dataclass(frozen=True)
class PoplarVersion:
    """The version of this kit that compiled a program: `string`, and its three numbers."""

    string: str = field(default_factory=kit_version)

    @property
    def _numbers(self) -> tuple[int, ...]:
        parts = (self.string.split("+")[0].split(".") + ["0"] * 3)[:3]
        return tuple(int(part) if part.isdecimal() and len(part) < 10 else 0 for part in parts)

    @property
    def major(self) -> int:
        """The first number."""
        return self._numbers[0]

    @property
    def minor(self) -> int:
        """The second number."""
        return self._numbers[1]

    @property
    def point(self) -> int:
        """The third number."""
        return self._numbers[2]

    def __str__(self) -> str:
        return self.string


@dataclass(frozen=True)
class InstrumentationSettings:
    """The options of an engine that decide what its reports show, by libpva's names where it has them.

    `compute` is `debug.computeInstrumentationLevel`, "Off" without `debug.instrument`; `external_exchange` is
    `debug.instrumentExternalExchange`; `block_filter`, `block_tile` and `program_filter` are the options `profiler.blocks.*`
    and `profiler.programs.filter`.
    `named`: of a report from a file which names the two filters found, since no pattern of a file is run.
    """

    compute: Annotated[str, LEVEL] = "Vertex"
    control_flow: bool = True
    external_exchange: bool = False
    block_filter: str = ".*"
    program_filter: str = ""
    block_tile: Annotated[int, whole(most=MOST)] = 0
    named: Named = field(default=None, repr=False, compare=False)

    @cached_property
    def _patterns(self) -> tuple[Any, Any]:
        return expression(self.block_filter, "profiler.blocks.filter"), expression(
            self.program_filter, "profiler.programs.filter"
        )

    def is_block(self, name: str) -> bool:
        """Whether the filter of blocks finds something in the name of one."""
        return name in self.named[0] if self.named else self._patterns[0].search(name) is not None

    def is_program(self, name: str) -> bool:
        """Whether the filter of programs finds something in a name; without a filter it does not."""
        if self.named:
            return name in self.named[1]
        return bool(self.program_filter and name) and self._patterns[1].search(name) is not None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> InstrumentationSettings:
        """Those in an engine's options, which have Poplar's names."""
        recording = bool(options["debug.instrument"])
        return cls(
            str(options["debug.computeInstrumentationLevel"]) if recording else "Off",
            bool(options["debug.instrumentControlFlow"]),
            bool(options["debug.instrumentExternalExchange"]),
            str(options["profiler.blocks.filter"]),
            str(options["profiler.programs.filter"]),
            int(options["profiler.blocks.tile"]),
        )

    def written(self, names: Iterable[str]) -> InstrumentationSettings:
        """As they stand in a file; `names`: of the programs."""
        known = set(names)
        return replace(self, named=(frozenset(filter(self.is_block, known)), frozenset(filter(self.is_program, known))))
