"""The rows of a report: compute sets and the steps of the run, with their modelled costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ipu_teach.cost import StepCost
from ipu_teach.cost.overlap import of_all
from ipu_teach.report.profile import Profile, ProgramNode
from ipu_teach.types import Array


class Costed:
    """Properties computed from the modelled `cost` of one execution."""

    cost: StepCost

    @property
    def bytes_received(self) -> int:
        """Bytes that cross between tiles."""
        return sum(t.total for t in self.cost.exchange)

    @property
    def balance(self) -> float:
        """Mean over maximum of the tiles' compute cycles: 1 is perfect, 0 means there was nothing
        to do."""
        return self.cost.balance


@dataclass(frozen=True, eq=False)
class ComputeSetProfile(Costed):
    """One compute set: how often it ran, and what one execution costs (modelled; arrays by
    tile)."""

    COLUMNS: ClassVar = (
        "name",
        "executions",
        "num_vertices",
        "cycles",
        "balance",
        "bytes_received",
        "flops",
    )

    name: str
    executions: int
    vertices: dict[str, int]
    cost: StepCost
    # floating-point operations of one execution; -1 where a codelet could not be traced
    flops: int = -1

    @property
    def num_vertices(self) -> int:
        """Vertices of all codelets in it."""
        return sum(self.vertices.values())

    @property
    def cycles(self) -> int:
        """Modelled cycles of one execution, sync and exchange included."""
        return self.cost.cycles

    @property
    def cycles_per_tile(self) -> Array:
        """int64[tiles]: compute cycles of one execution, idle threads included."""
        return self.cost.compute_cycles


@dataclass(frozen=True, eq=False)
class IpuStep:
    """The part of one IPU in a step.

    `cycles` are the modelled cycles from its start to its end, 0 if the IPU takes no part.
    `cycles_by_tile` is int64[tiles of the IPU]: the cycles in which each tile computes or
    exchanges. `start` is the cycle in which the IPU begins the step.
    """

    cycles: int
    cycles_by_tile: Array
    start: int


@dataclass(frozen=True)
class StepRun(Costed):
    """One step of the run: when it started and how long it took, in modelled cycles since the run
    began.

    `cost` has its phases by tile; every execution of one step has the same. `step` is the number of
    the compiled step. On several IPUs it starts with the first that takes part and ends with the
    last; `ipus` has the times of each.
    """

    COLUMNS: ClassVar = (
        "index",
        "kind",
        "name",
        "start",
        "end",
        "cycles",
        "bytes_received",
        "balance",
        "active_tiles",
        "vertex_types",
    )

    index: int
    kind: str
    name: str
    start: int
    cycles: int
    cost: StepCost = field(repr=False)
    step: int
    profile: Profile = field(repr=False, compare=False)
    end: int = field(repr=False)
    _starts: tuple[int, ...] = field(repr=False)

    @property
    def program(self) -> ProgramNode:
        """The step's place in the programs: a leaf with `name` and `type`."""
        return self.profile.leaf(self.step)

    @property
    def vertex_types(self) -> str:
        """The codelets that it executes, with how many vertices each has."""
        return ", ".join(
            f"{name} x {count:,}" for name, count in self.profile.vertices(self.step).items()
        )

    @property
    def ipus(self) -> tuple[IpuStep, ...]:
        """The work of each IPU in the step; with I/O tiles, of each of `Target.sets`."""
        cycles_per_ipu = np.split(self.cycles_by_tile, self.profile.target.set_starts[1:])
        lasts = self.profile.by_set(self.step)[1].tolist()
        return tuple(
            IpuStep(*step) for step in zip(lasts, cycles_per_ipu, self._starts, strict=True)
        )

    @property
    def shares(self) -> tuple[tuple[int | None, int], ...]:
        """(IPU, start) of each that does it by itself; (None, start) where there is one, or all do
        it together. With I/O tiles the number is that of one of `Target.sets`."""
        if len(self._starts) == 1 or of_all(self.profile.by_set(self.step)[0]):
            return ((None, self.start),)
        return tuple((number, ipu.start) for number, ipu in enumerate(self.ipus) if ipu.cycles)

    @property
    def all_cycles(self) -> int:
        """`cycles`, by libpva's name."""
        return self.cycles

    @property
    def active_tiles(self) -> int:
        """Tiles that compute."""
        return int(np.count_nonzero(self.cost.compute_cycles))

    @property
    def cycles_by_tile(self) -> Array:
        """int64[tiles]: cycles in which each tile computes or exchanges on its IPU."""
        busy: Array = self.cost.compute_cycles + self.cost.exchange_cycles
        return busy
