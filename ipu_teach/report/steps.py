"""Two kinds of table rows with modelled costs: compute sets, and the steps of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ipu_teach.cost import StepCost
from ipu_teach.cost.overlap import of_all
from ipu_teach.report.profile import Profile, ProgramNode
from ipu_teach.types import Array


class Costed:
    """A base class for table rows that have the modelled `cost` of one execution."""

    cost: StepCost

    @property
    def bytes_received(self) -> int:
        """The bytes that tiles receive from other tiles in one execution."""
        return sum(t.total for t in self.cost.exchange)

    @property
    def balance(self) -> float:
        """The mean compute cycles of the tiles divided by the maximum.

        A balance of 1 is perfect. The balance is 0 if no tile computes.
        """
        return self.cost.balance


@dataclass(frozen=True, eq=False)
class ComputeSetProfile(Costed):
    """One compute set: how often it ran, and the modelled cost of one execution.

    `vertices` has the number of vertices by codelet name. `flops` is the number of floating-point
    operations of one execution, or -1 if the operations of a codelet could not be counted.
    """

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
    flops: int = -1

    @property
    def num_vertices(self) -> int:
        """The number of vertices of all codelets together."""
        return sum(self.vertices.values())

    @property
    def cycles(self) -> int:
        """The modelled cycles of one execution, including sync and exchange."""
        return self.cost.cycles

    @property
    def cycles_per_tile(self) -> Array:
        """The compute cycles of one execution, including idle threads: int64[tiles]."""
        return self.cost.compute_cycles


@dataclass(frozen=True, eq=False)
class IpuStep:
    """One IPU's work in a step of the run.

    `start` is the cycle at which the IPU begins the step. `cycles` are the modelled cycles from
    `start` until the IPU ends the step, or 0 if the IPU takes no part in it. `cycles_by_tile`
    (int64[tiles of the IPU]) has the cycles in which each tile computes or exchanges.
    """

    cycles: int
    cycles_by_tile: Array
    start: int


@dataclass(frozen=True)
class StepRun(Costed):
    """One step of the run, with its `start` and `end` in modelled cycles since the run began.

    - `index` is the index of the step in the run, and `step` is the number of its compiled step.
    - `cycles` are the modelled cycles of the step.
    - `cost` has the cycles of each phase by tile, which are equal in all executions of a compiled
      step.

    On several IPUs, the step starts when the first IPU begins it, and ends when the last IPU ends
    it. `ipus` has the times of each IPU.
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
        """The leaf of the program tree that this step executes, with its `name` and `type`."""
        return self.profile.leaf(self.step)

    @property
    def vertex_types(self) -> str:
        """A string with the codelets that the step executes and the number of vertices of each."""
        return ", ".join(
            f"{name} x {count:,}" for name, count in self.profile.vertices(self.step).items()
        )

    @property
    def ipus(self) -> tuple[IpuStep, ...]:
        """The work of each IPU in the step, or of each of `Target.sets` if there are I/O tiles."""
        cycles_per_ipu = np.split(self.cycles_by_tile, self.profile.target.set_starts[1:])
        cycles_of_sets = self.profile.by_set(self.step)[1].tolist()
        return tuple(
            IpuStep(*fields)
            for fields in zip(cycles_of_sets, cycles_per_ipu, self._starts, strict=True)
        )

    @property
    def shares(self) -> tuple[tuple[int | None, int], ...]:
        """The (IPU, start cycle) of each IPU that takes part in the step.

        If there is only one IPU, or if all IPUs begin the step together, the result is the single
        pair ((None, start cycle),). With I/O tiles, the first number of a pair is an index of
        `Target.sets`.
        """
        if len(self._starts) == 1 or of_all(self.profile.by_set(self.step)[0]):
            return ((None, self.start),)
        return tuple(
            (set_number, ipu.start) for set_number, ipu in enumerate(self.ipus) if ipu.cycles
        )

    @property
    def all_cycles(self) -> int:
        """The modelled cycles of the step. This is `cycles` under libpva's name."""
        return self.cycles

    @property
    def active_tiles(self) -> int:
        """The number of tiles that compute in the step."""
        return int(np.count_nonzero(self.cost.compute_cycles))

    @property
    def cycles_by_tile(self) -> Array:
        """The cycles in which each tile computes or exchanges data on its IPU: int64[tiles]."""
        busy_cycles: Array = self.cost.compute_cycles + self.cost.exchange_cycles
        return busy_cycles
