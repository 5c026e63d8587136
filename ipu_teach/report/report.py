"""What happened, as data. A report has no engine inside: it holds what was compiled and which steps ran."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ipu_teach.cost import CostModel, StepCost
from ipu_teach.cost.host import with_host
from ipu_teach.cost.memory import MemoryLedger
from ipu_teach.cost.phases import Phase, phases
from ipu_teach.cost.transfers import Transfers, transfers
from ipu_teach.errors import InvalidMachineModelError, PoplarIndexError, ProfilingDisabledError, shown
from ipu_teach.graph.layouts import is_whole
from ipu_teach.target import Target, changed
from ipu_teach.types import Array

# Fields of a machine that decide what is compiled, and not only how long it takes.
COMPILED_FOR = ("num_ipus", "num_tiles", "tiles_per_ipu", "exchange_send_words", "host_packet_bytes")


@dataclass(frozen=True, eq=False)
class ComputeSetProfile:
    """One compute set: how often it ran, and what one execution costs (modelled; arrays by tile)."""

    name: str
    executions: int
    vertices: dict[str, int]
    cost: StepCost

    @property
    def cycles_per_tile(self) -> Array:
        """int64[tiles]: compute cycles of one execution, idle threads included."""
        return self.cost.compute_cycles

    @property
    def balance(self) -> float:
        """Mean over maximum of the tiles' compute cycles: 1 is perfect, 0 means there was nothing to do."""
        most = self.cost.compute_duration
        return float(self.cost.compute_cycles.mean() / most) if most else 0.0


@dataclass(frozen=True)
class StepRun:
    """One step of the run: when it started and how long it took, in modelled cycles since the run began.

    `cost` has its phases by tile; every execution of one step has the same.
    """

    index: int
    kind: str
    name: str
    start: float
    cycles: float
    cost: StepCost = field(repr=False)


@dataclass(frozen=True)
class ProgramRun:
    """One call of `Engine.run`: the number of the program, its name, and its steps from `first` up to `last`."""

    program: int
    name: str
    first: int
    last: int | None


class Report:
    """An immutable snapshot of a run. Every figure of cycles, bytes or time in it is modelled.

    `runs`: the calls of `Engine.run` in it. `unrecorded_steps`: how many steps ran while profiling was disabled. If there is
    nothing but those, asking for the execution is a `ProfilingDisabledError`.
    """

    def __init__(self, cost: CostModel, steps: Array, runs: tuple[ProgramRun, ...] = (), unrecorded_steps: int = 0) -> None:
        self._cost = cost
        self._steps = steps
        self._steps.flags.writeable = False
        self.runs = runs
        self.unrecorded_steps = unrecorded_steps

    @property
    def target(self) -> Target:
        """The machine that was modelled."""
        return self._cost.target

    @property
    def memory(self) -> MemoryLedger:
        """Bytes by tile, variable and category."""
        return self._cost.memory

    @cached_property
    def _executions(self) -> Array:
        """How often each compiled step ran."""
        if self.unrecorded_steps and not len(self._steps):
            raise ProfilingDisabledError(
                f"The execution was not recorded: {self.unrecorded_steps:,} "
                f"step{'s' if self.unrecorded_steps > 1 else ''} ran while profiling was disabled.",
                next_step="engine.enable_execution_profiling(), or the option debug.instrument, and run again.",
            )
        return np.bincount(self._steps, minlength=self._cost.num_steps).astype(np.int64)

    @cached_property
    def _ran(self) -> list[tuple[int, StepCost]]:
        return [(int(n), self._cost.step(i)) for i, n in enumerate(self._executions) if n]

    @property
    def num_steps(self) -> int:
        """Steps run since the engine was loaded."""
        return len(self._steps)

    @cached_property
    def compute_sets(self) -> tuple[ComputeSetProfile, ...]:
        """Every compute set that some program executes, in the order of their making."""
        found: dict[int, ComputeSetProfile] = {}
        for number, executions in enumerate(self._executions.tolist()):
            compute_set = self._cost.compute_set(number)
            if compute_set is not None:
                ran, before = executions, found.get(compute_set.id)
                vertices = {t.codelet.__name__: len(t) for t in compute_set.tables}
                # Where cycles depend on data there is a step for each way it ran; the last one stands for all.
                if before is None or ran:
                    ran += before.executions if before is not None else 0
                    found[compute_set.id] = ComputeSetProfile(compute_set.name, ran, vertices, self._cost.step(number))
        return tuple(found[i] for i in sorted(found))

    def steps(self, first: int = 0, last: int | None = None) -> list[StepRun]:
        """The steps of the run from number `first` up to `last`, in order."""
        for bound in (first, 0 if last is None else last):
            if not is_whole(bound) or bound < 0:
                raise PoplarIndexError(
                    f"steps({shown(first)}, {shown(last)}) was asked of a report of {self.num_steps:,} steps.",
                    next_step="give whole numbers, 0 or more.",
                )
        costs = np.array([self._cost.step(i).cycles if n else 0.0 for i, n in enumerate(self._executions)] or [0.0])
        start = float(costs[self._steps[:first]].sum())
        result = []
        for index in range(first, len(self._steps) if last is None else min(last, len(self._steps))):
            step = self._cost.step(int(self._steps[index]))
            result.append(StepRun(index, step.kind, step.name, start, step.cycles, step))
            start += step.cycles
        return result

    @property
    def step_numbers(self) -> Array:
        """int64[num_steps]: which compiled step ran, in the order of the run. Read-only."""
        return self._steps

    def step_cost(self, number: int) -> StepCost:
        """The modelled cost of one execution of compiled step `number`."""
        return self._cost.step(number)

    def phases(self, number: int) -> tuple[Phase, ...]:
        """The phases of one execution of compiled step `number`, in order; together they last its `cycles`."""
        transfer = with_host(self._cost.compiled.steps[number])
        return phases(self.step_cost(number), self.target, host_first=transfer is not None and transfer[1])

    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Who sends what to whom in compiled step `number`: one entry for each of its exchanges, as in `StepCost.exchange`."""
        compiled = self._cost.compiled
        return transfers(compiled.graph, compiled.steps[number])

    def what_if(self, **changes: Any) -> Report:
        """The same compiled program and the same run, at other rates: `report.what_if(exchange_bytes_per_cycle=8)`.

        `changes`: fields of `Target`, by name. Nothing is compiled or run again, so what decides where things lie cannot
        change. Cycles that were given by number, with `set_perf_estimate`, stay what they are. Raises
        `InvalidMachineModelError`, for a number of tiles or IPUs too: `sweep` compiles for each.
        """
        for name in changes:
            if name in COMPILED_FOR:
                raise InvalidMachineModelError(
                    f"what_if() cannot change {name}: the program was compiled for {getattr(self.target, name):,}.",
                    next_step="sweep(build, num_tiles=[…]) builds and compiles for each number of tiles."
                    if name.startswith(("num", "tiles"))
                    else f"compile for another machine: IPUModel({self.target.ipu_version!r}, {name}=…).",
                )
        return Report(self._cost.at(changed(self.target, **changes)), self._steps, self.runs, self.unrecorded_steps)

    # Sums over the run. "Average" is over the tiles.

    @property
    def total_cycles(self) -> float:
        """Modelled cycles of everything that ran."""
        return sum(n * step.cycles for n, step in self._ran)

    @property
    def total_seconds(self) -> float:
        """Modelled time of everything that ran."""
        return self.total_cycles / self.target.tile_clock_frequency

    @property
    def compute_cycles_per_tile(self) -> Array:
        """int64[tiles]: compute cycles, idle threads included (6 x busiest worker)."""
        return self._sum([n * step.compute_cycles for n, step in self._ran])

    @property
    def active_cycles_per_tile(self) -> Array:
        """int64[tiles]: compute cycles, idle threads excluded (one for each instruction of a worker)."""
        return self._sum([n * step.active_cycles for n, step in self._ran])

    @property
    def exchange_cycles_per_tile(self) -> Array:
        """int64[tiles]: cycles in which the tile sends or receives on its own IPU."""
        return self._sum([n * step.exchange_cycles for n, step in self._ran])

    @property
    def exchange_bytes_per_tile(self) -> tuple[Array, Array]:
        """(received, sent), int64[tiles] each: bytes that crossed between tiles."""
        parts = [(n * t.received, n * t.sent) for n, step in self._ran for t in step.exchange]
        return self._sum([r for r, _ in parts]), self._sum([s for _, s in parts])

    @property
    def global_exchange_cycles(self) -> int:
        """Cycles spent on links between IPUs."""
        return sum(n * step.global_exchange_cycles for n, step in self._ran)

    @property
    def host_exchange_cycles(self) -> float:
        """Cycles spent on transfers between host and device."""
        return sum(n * step.host_cycles for n, step in self._ran)

    @property
    def host_bytes(self) -> int:
        """Bytes moved between host and device."""
        return sum(n * step.host_bytes for n, step in self._ran)

    @property
    def sync_cycles_per_tile(self) -> Array:
        """float64[tiles]: the rest of the total: syncs, and waiting for slower tiles."""
        busy = self.compute_cycles_per_tile + self.exchange_cycles_per_tile
        return self.total_cycles - busy - self.global_exchange_cycles - self.host_exchange_cycles

    @property
    def unknown_codelets(self) -> tuple[str, ...]:
        """Codelets that ran without a cost model; their cycles are missing from every sum."""
        return tuple(sorted({name for _, step in self._ran for name in step.unknown}))

    def ways(self) -> dict[str, str]:
        """How the host runs each codelet, all its vertices at once if it can.

        "batch"; "fork": a batch for each way through its branches; "lanes": a masked lane for each vertex; "loop": vertex by
        vertex, in plain Python. Of a codelet that is run in several ways, the slowest.
        """
        return self._cost.ways()

    def unbatched(self) -> dict[str, str]:
        """Codelets that did not run as one batch: for each the line and the reason that prevented it."""
        return self._cost.unbatched()

    def graph_size(self) -> dict[str, int]:
        """Numbers of vertices, edges, variables and compute sets."""
        return self._cost.graph_size()

    def vertex_counts(self) -> dict[str, int]:
        """Number of vertices of each codelet, most first."""
        return self._cost.vertices_by_codelet()

    def cycles_by_codelet(self) -> dict[str, int]:
        """Worker cycles (tile cycles for supervisor vertices) of the run, by codelet, most first."""
        totals: dict[str, int] = {}
        for number, n in enumerate(self._executions.tolist()):
            for name, cycles in self._cost.codelet_cycles(number).items() if n else ():
                totals[name] = totals.get(name, 0) + n * cycles
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def _sum(self, parts: list[Array]) -> Array:
        return np.sum(parts, axis=0) if parts else np.zeros(self.target.num_tiles, np.int64)

    def __repr__(self) -> str:
        cycles = f"{self.total_cycles:,.0f} modelled cycles"
        return f"Report({self.num_steps:,} steps, {cycles}, {self.target.num_tiles:,} tiles of {self.target.ipu_version})"
