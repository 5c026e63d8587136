"""The modelled cost of a compiled program, step by step. Worked out when somebody asks, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ipu_teach.compile import Compiled
from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenComputeSet
from ipu_teach.compile.programs import (
    AbortStep,
    CopyStep,
    ExecuteStep,
    MeasuredStep,
    PrintStep,
    RemoteCopyStep,
    StampStep,
    Step,
    SyncStep,
    UndefStep,
)
from ipu_teach.cost.codelets import UNKNOWN, depends_on_data, vertex_cycles
from ipu_teach.cost.exchange import Traffic, copy_traffic, reads, writes
from ipu_teach.cost.memory import MemoryLedger, check, ledger
from ipu_teach.cost.schedule import busiest_worker
from ipu_teach.errors import MissingPerfEstimateError
from ipu_teach.graph.graph import DataStream
from ipu_teach.graph.source import in_words
from ipu_teach.graph.tensor import Tensor
from ipu_teach.program import SyncType
from ipu_teach.target import Target
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class StepCost:
    """One execution of one step. Arrays have an entry for each tile; cycles are modelled tile cycles.

    The step's phases follow each other: sync, exchange in, compute, exchange out, host. Each lasts as long as its slowest
    tile; what another tile waits meanwhile counts as sync, as Poplar's profile books it.
    """

    kind: str
    name: str
    sync_cycles: int
    exchange: tuple[Traffic, ...]
    exchange_cycles: Array
    exchange_duration: int
    global_exchange_cycles: int
    compute_cycles: Array
    active_cycles: Array
    host_cycles: float
    host_bytes: int
    unknown: tuple[str, ...] = ()

    @property
    def compute_duration(self) -> int:
        """Cycles of the compute phase: those of the slowest tile."""
        return int(self.compute_cycles.max(initial=0))

    @property
    def cycles(self) -> float:
        """Modelled cycles from the step's start to its end."""
        return (
            self.sync_cycles + self.exchange_duration + self.global_exchange_cycles + self.compute_duration + self.host_cycles
        )


class CostModel:
    """Costs of every step of a `Compiled`, and the memory of every tile."""

    def __init__(self, compiled: Compiled) -> None:
        self.compiled = compiled
        self.target: Target = compiled.graph.target
        self._steps: dict[int, StepCost] = {}

    @cached_property
    def memory(self) -> MemoryLedger:
        """The byte ledger."""
        return ledger(self.compiled.graph)

    def check_memory(self) -> None:
        """Raise `GraphMemoryAllocationError` if a tile is over its memory."""
        check(self.memory, self.target.bytes_per_tile)

    def check_estimates(self) -> None:
        """Raise `MissingPerfEstimateError` for a codelet that could not be traced and has no estimate."""
        for compute_set in self.compiled.graph.compute_sets:
            for group in self.compiled.groups[compute_set.id]:
                known = group.estimator is not None or hasattr(group.table.codelet, "cycles") or depends_on_data(group)
                if group.trace.stopped and not known:
                    missing = np.flatnonzero(group.table.estimates[group.rows] < 0)
                    if missing.size:
                        name = group.table.codelet.__name__
                        raise MissingPerfEstimateError(
                            f"The cycles of {name} are unknown: it could not be traced, so its operations cannot be counted.",
                            where=f"{group.trace.stopped}; {vertex_name(group.table, int(group.rows[missing[0]]))} "
                            f"of compute set {compute_set.name!r}",
                            line=in_words(group.table.line(int(group.rows[missing[0]]))),
                            next_step="graph.set_perf_estimate(vertex, cycles), or `def cycles(self, target)` in the class; "
                            "Engine(…, strict=False) runs it without a cost.",
                        )

    def step(self, number: int) -> StepCost:
        """The cost of one execution of step `number` of `Compiled.steps`."""
        if number not in self._steps:
            step = self.compiled.steps[number]
            self._steps[number] = self._cost_of(step)
        return self._steps[number]

    def with_steps(self, steps: Sequence[Step]) -> CostModel:
        """The costs of the same program with `steps` after its own: those whose cycles were measured in a run."""
        more = CostModel(replace(self.compiled, steps=(*self.compiled.steps, *steps)))
        more._steps.update(self._steps)
        more.__dict__["memory"] = self.memory
        return more

    def vertex_cycles(
        self, compute_set: FrozenComputeSet, measured: Mapping[int, Array] | None = None
    ) -> tuple[Array, Array, Array, Array]:
        """(cycles, tiles, takes the whole tile, order) of every vertex of a compute set; unknown cycles are `UNKNOWN`.

        `measured`: see `MeasuredStep.cycles`.
        """
        groups = self.compiled.groups[compute_set.id]
        if not groups:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty.astype(bool), empty
        seen = measured or {}
        cycles = np.concatenate([vertex_cycles(g, self.target, seen.get(i)) for i, g in enumerate(groups)])
        tiles = np.concatenate([g.table.tiles[g.rows] for g in groups]).astype(np.int64)
        alone = np.concatenate([np.full(len(g.rows), g.table.codelet.context != "worker") for g in groups])
        order = np.concatenate([g.table.order[g.rows] for g in groups])
        sorting = np.argsort(order, kind="stable")
        return cycles[sorting], tiles[sorting], alone[sorting], order[sorting]

    def _execute(self, step: ExecuteStep) -> StepCost:
        graph, target = self.compiled.graph, self.target
        compute_set = graph.compute_sets[step.compute_set]
        measured = step.cycles if isinstance(step, MeasuredStep) else {}
        cycles, tiles, alone, _ = self.vertex_cycles(compute_set, measured)
        known = np.maximum(cycles, 0)
        busiest = busiest_worker(known[~alone], tiles[~alone], target.num_tiles, target.num_worker_contexts)
        supervised = np.bincount(tiles[alone], known[alone], target.num_tiles).astype(np.int64)
        worked = np.bincount(tiles[~alone], known[~alone], target.num_tiles).astype(np.int64)
        unknown = {g.table.codelet.__name__ for i, g in enumerate(self.compiled.groups[compute_set.id])
                   if UNKNOWN in vertex_cycles(g, target, measured.get(i))}  # fmt: skip
        return self._cost(
            "Execute",
            compute_set.name,
            (reads(graph, compute_set), writes(graph, compute_set)),
            compute=busiest * target.num_worker_contexts + supervised,
            active=worked + supervised,
            unknown=tuple(sorted(unknown)),
        )

    def _cost_of(self, step: Step) -> StepCost:
        match step:
            case ExecuteStep():
                return self._execute(step)
            case CopyStep():
                return self._copy(step)
            case RemoteCopyStep():
                return self._remote_copy(step)
            case PrintStep():
                size = step.tensor.num_elements * step.tensor.dtype.size
                return self._cost("PrintTensor", step.title, (), host_bytes=size)
            case SyncStep():
                return self._cost("Sync", step.sync_type.value, (), sync=self._sync(step.sync_type is not SyncType.INTERNAL))
            case UndefStep():
                return self._cost("WriteUndef", step.tensor.graph.describe(step.tensor), (), sync=0)
            case AbortStep():
                return self._cost("Abort", step.message, (), sync=0)
            case StampStep():
                return self._cost("CycleStamp", step.tensor.graph.describe(step.tensor), (), sync=0)

    def _sync(self, external: bool) -> int:
        """Cycles of one sync: of one IPU, or of all."""
        return self.target.internal_sync_cycles + (self.target.global_sync_cycles if external else 0)

    def _copy(self, step: CopyStep) -> StepCost:
        target = self.target
        source, destination = step.source, step.destination
        if isinstance(source, Tensor) and isinstance(destination, Tensor):
            found, inside = copy_traffic(self.compiled.graph, source, destination)
            moved = -(-inside // target.memcpy_bytes_per_cycle)
            return self._cost("Copy", _name(step), (found,), compute=moved, active=moved)
        stream = source if isinstance(source, DataStream) else destination
        num_bytes = stream.num_elements * stream.dtype.size
        return self._cost("StreamCopy", stream.handle, (), host_bytes=num_bytes)  # type: ignore[union-attr]

    def _remote_copy(self, step: RemoteCopyStep) -> StepCost:
        """Rows to or from streaming memory, at `Target.host_bytes_per_second`.

        That rate is assumed: no rate of streaming memory is published, and like the host it lies beyond the host link.
        """
        num_bytes = step.tensor.num_elements * step.tensor.dtype.size
        return self._cost("RemoteCopy", step.buffer.handle, (), host_bytes=num_bytes)

    def _cost(
        self,
        kind: str,
        name: str,
        exchange: tuple[Traffic, ...],
        compute: Array | None = None,
        active: Array | None = None,
        host_bytes: int = 0,
        unknown: tuple[str, ...] = (),
        sync: int | None = None,
    ) -> StepCost:
        target = self.target
        none = np.zeros(target.num_tiles, np.int64)
        per_tile = [t.tile_cycles(target) for t in exchange]
        links = [t.link_cycles(target) for t in exchange]
        return StepCost(
            kind,
            name,
            self._sync(target.num_ipus > 1) if sync is None else sync,
            exchange,
            np.sum(per_tile, axis=0) if per_tile else none,
            sum(int(c.max(initial=0)) for c in per_tile),
            sum(links),
            none if compute is None else compute,
            none if active is None else active,
            host_bytes / target.host_bytes_per_cycle,
            host_bytes,
            unknown,
        )

    def codelet_cycles(self, step: ExecuteStep) -> dict[str, int]:
        """Cycles of one execution of a compute set, summed by codelet; unknown ones count nothing."""
        totals: dict[str, int] = {}
        measured = step.cycles if isinstance(step, MeasuredStep) else {}
        for number, group in enumerate(self.compiled.groups[step.compute_set]):
            name = group.table.codelet.__name__
            totals[name] = totals.get(name, 0) + int(
                np.maximum(vertex_cycles(group, self.target, measured.get(number)), 0).sum()
            )
        return totals

    def vertices_by_codelet(self) -> dict[str, int]:
        """Number of vertices of each codelet, most first."""
        counts: Counter[str] = Counter()
        for _, table in self.compiled.graph.tables():
            counts[table.codelet.__name__] += len(table)
        return dict(counts.most_common())


def _name(step: CopyStep) -> str:
    def side(tensor: Tensor | DataStream) -> str:
        return tensor.handle if isinstance(tensor, DataStream) else tensor.graph.describe(tensor)

    return f"{side(step.source)} to {side(step.destination)}"
