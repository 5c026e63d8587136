"""The modelled cost of a compiled program, step by step. Each cost is computed once, on request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import FunctionType
from typing import Annotated

import numpy as np

from ipu_teach.compile import Compiled
from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenComputeSet, FrozenGraph
from ipu_teach.compile.groups import Group, with_workers
from ipu_teach.compile.merge import several
from ipu_teach.compile.programs import (
    AbortStep,
    CopyStep,
    EqualStep,
    ExecuteStep,
    MergedStep,
    PrintStep,
    RemoteCopyStep,
    StampStep,
    Step,
    SyncStep,
    UndefStep,
    moves,
)
from ipu_teach.compile.purity import CLOCK, RANDOM, draws_from
from ipu_teach.compile.trace import TOO_LONG, place as place_of
from ipu_teach.cost.exchange import Traffic, copy_traffic, reads, total_of, writes
from ipu_teach.cost.host_transfers import host_cycles, host_links, host_traffic, with_host
from ipu_teach.cost.ledger import MemoryLedger, at_most, check, check_streaming, ledger
from ipu_teach.cost.schedule import busiest_worker
from ipu_teach.cost.traced import UNKNOWN, column_of, depends_on_data, vertex_cycles
from ipu_teach.errors import CodeletError, InvalidMachineModelError, MissingPerfEstimateError
from ipu_teach.graph import DataStream
from ipu_teach.graph.source import in_words
from ipu_teach.program import SyncType
from ipu_teach.saving.schema import MOST, Codec, PerTile, key, keyed, numbers, rounded_up
from ipu_teach.target import FULL, REPLICA_AND_LADDER, Target, sync_of
from ipu_teach.types import Array

# A report file stores the bytes on the host links as a list with a number for each set of tiles, or
# as a single number if there is only one set. Older files contain only the sum of the bytes, also
# as a single number.
HOST_LINKS = Codec(
    lambda v, _: v[0] if len(v) == 1 else list(v),
    lambda part: numbers().read(part) if isinstance(part.value, list) else (part.whole(0, MOST),),
)
# The kinds of steps that use a link to the host or to streaming memory.
TRANSFERS = ("StreamCopy", "RemoteCopy")
# The types of steps before which tiles do not wait for each other.
UNSYNCED = (UndefStep, AbortStep, StampStep, EqualStep)
# The values of `StepCost.kind` for the steps in `UNSYNCED`.
UNMET = ("WriteUndef", "Abort", "CycleStamp", "AssumeEqualAcrossReplicas")


@dataclass(frozen=True, eq=False)
class StepCost:
    """The modelled cost of one execution of one step, in tile cycles. Arrays are int64[tiles].

    The phases of a step follow each other: sync, exchange of operands, compute, exchange of
    results. For a transfer from the host, the phases are sync, the transfer, and the exchange that
    rearranges its data. For a transfer to the host, the exchange comes before the transfer. Each
    phase lasts as long as its slowest tile. The time for which other tiles wait counts as sync, as
    in Poplar's profile.

    On several IPUs, each phase lasts as long as the slowest tile of all IPUs; `by_set` returns the
    cycles for which each IPU is occupied. `host_links` contains the bytes on the host link for each
    of `Target.sets`, or a single number if only their sum is known.
    """

    kind: str
    name: str
    sync_cycles: Annotated[int, key("sync")]
    exchange: tuple[Annotated[Traffic, keyed(Traffic)], ...]
    exchange_cycles: PerTile
    exchange_duration: int
    global_exchange_cycles: Annotated[int, key("global")]
    compute_cycles: Annotated[PerTile, key("compute")]
    active_cycles: Annotated[PerTile, key("active")]
    host_cycles: Annotated[int, rounded_up(), key("host")]
    host_links: Annotated[tuple[int, ...], HOST_LINKS, key("host_bytes")]
    unknown: tuple[str, ...] = ()

    @property
    def host_bytes(self) -> int:
        """The bytes moved between host and device, or between streaming memory and device."""
        return sum(self.host_links)

    @property
    def streaming(self) -> bool:
        """Whether the step transfers data with streaming memory instead of the host."""
        return self.kind == "RemoteCopy"

    @property
    def compute_duration(self) -> int:
        """The cycles of the compute phase, which lasts as long as its slowest tile."""
        return int(self.compute_cycles.max(initial=0))

    @property
    def cycles(self) -> int:
        """The modelled cycles of the step, from its start to its end."""
        return (
            self.sync_cycles
            + self.exchange_duration
            + self.global_exchange_cycles
            + self.compute_duration
            + self.host_cycles
        )

    @property
    def balance(self) -> float:
        """The balance: mean compute cycles of the tiles, divided by the maximum.

        A balance of 1 is perfect. The balance is 0 if no tile computes.
        """
        longest = self.compute_duration
        return float(self.compute_cycles.mean() / longest) if longest else 0.0

    def by_set(self, group: int, at_work: Array, target: Target) -> tuple[Array, Array]:
        """Return `(groups, cycles)` of the step for `Target.sets`: two int64[sets].

        - `groups` contains equal numbers for sets that begin the step together. The number is 0 if
          they are sets of all IPUs. It is -1 for a set that does not wait for any other set.
        - `cycles` is the number of cycles for which one execution occupies each set, 0 for a set
          that takes no part in the step.

        `group` is the number of neighbouring IPUs that execute the step together, and `at_work`
        (bool[sets]) says which sets take part.
        """
        ipus = at_work.reshape(target.num_ipus, -1)
        external = group == target.num_ipus
        if at_work.size == 1:
            return np.array([external - 1]), np.array([self.cycles])
        if group and not external:
            return self._by_group(ipus.reshape(-1, group, ipus.shape[1]), target)
        if external:  # The I/O tiles of all IPUs begin together. So do their computing tiles.
            group_of_set = np.where(np.broadcast_to(ipus.any(axis=0), ipus.shape), 0, -1).reshape(
                -1
            )
            return group_of_set, np.where(group_of_set == 0, self.cycles, 0)
        # `ipu_of_set` contains the IPU number of each set of tiles.
        ipu_of_set = np.repeat(np.arange(len(ipus)), ipus.shape[1])
        for_all_ipus = ipus.shape[1] > 1 and self.kind not in UNMET
        is_together: Array = np.asarray(ipus.all(axis=1) & for_all_ipus)[ipu_of_set]
        durations = np.array(
            [self.link_cycles(target, ipu_number) for ipu_number in range(len(ipus))]
        )[ipu_of_set]
        for cycles_per_tile in (self.compute_cycles, *(t.done(target) for t in self.exchange)):
            local_cycles = np.maximum.reduceat(cycles_per_tile, target.set_starts)
            durations += np.where(
                is_together, local_cycles.reshape(ipus.shape).max(axis=1)[ipu_of_set], local_cycles
            )
        return np.where(is_together, ipu_of_set + (len(ipus) > 1), -1), np.where(
            at_work, self.sync_cycles + durations, 0
        )

    def _by_group(self, at_work: Array, target: Target) -> tuple[Array, Array]:
        """Return `(groups, cycles)` as in `by_set`, for a step that IPUs execute in groups.

        Both arrays are int64[sets]. `groups` contains the number of each set's group, from 1, or -1
        if the set takes no part. `cycles` is the number of cycles for which the step occupies each
        set. All IPUs of a group are occupied as long as the slowest one. They take part with their
        I/O tiles, with their computing tiles, or with both. `at_work` is bool[groups, IPUs of a
        group, sets of an IPU].
        """
        shape = at_work.shape
        groups, ipus_per_group, _ = shape
        takes_part = np.broadcast_to(at_work.any(axis=1, keepdims=True), shape)
        links = [self.link_cycles(target, ipu) for ipu in range(groups * ipus_per_group)]
        durations = self.sync_cycles + np.reshape(links, (groups, ipus_per_group)).max(axis=1)
        for cycles_per_tile in (self.compute_cycles, *(t.done(target) for t in self.exchange)):
            local_cycles = np.maximum.reduceat(cycles_per_tile, target.set_starts)
            durations += local_cycles.reshape(groups, -1).max(axis=1)
        group_number, durations = (
            values.reshape(-1, 1, 1) for values in (1 + np.arange(groups), durations)
        )
        return np.where(takes_part, group_number, -1).reshape(-1), np.where(
            takes_part, durations, 0
        ).reshape(-1)

    def at_work(self, vertices: Iterable[Array], target: Target) -> Array:
        """Return which of `Target.sets` take part in the step: bool[sets].

        A set takes part if one of its tiles computes or moves data, or has a vertex of the step.
        `vertices` contains, for each table of vertices, an array with the tile of each vertex. The
        first set of an IPU, which has the I/O tiles if there are any, also takes part if the host
        link is in use. All sets take part in a step that no tile works in, such as an internal
        sync.
        """
        busy = [self.compute_cycles, *(t.received + t.sent + t.stayed for t in self.exchange)]
        has_work = np.any([np.logical_or.reduceat(p > 0, target.set_starts) for p in busy], axis=0)
        for tiles in vertices:
            has_work[target.set_of(tiles)] = True
        links = self._links(target)
        has_work |= (links > 0).reshape(-1)
        has_work.reshape(links.shape)[:, 0] |= links.any(axis=1)
        return np.asarray(has_work | ~has_work.any())

    def link_cycles(self, target: Target, ipu: int | None = None) -> int:
        """Return the cycles for which the step uses the link to the host or to streaming memory.

        The cycles are those of IPU number `ipu`, or those of the slowest IPU if `ipu` is None.
        """
        links = self._links(target).sum(axis=1)
        local_links = links if ipu is None else links[ipu : ipu + 1]
        return host_cycles(local_links.tolist(), target, self.streaming)

    def _links(self, target: Target) -> Array:
        """Return the bytes on the host link for each set of tiles: int64[IPUs, sets of an IPU].

        Some report files contain only the sum over all sets. In this case, every entry of the array
        is this sum.
        """
        count = target.num_sets
        known = len(self.host_links) == count
        links = np.array(self.host_links if known else (self.host_bytes,) * count)
        return links.reshape(target.num_ipus, -1)

    def at(self, target: Target, sync_cycles: int) -> StepCost:
        """Return the cost of the same step at the rates of `target`.

        `sync_cycles` are the cycles of the step's sync on `target`.
        """
        per_tile = [t.tile_cycles(target) for t in self.exchange]
        return replace(
            self,
            sync_cycles=sync_cycles,
            exchange_cycles=np.sum(per_tile, axis=0) if per_tile else self.exchange_cycles,
            exchange_duration=sum(t.duration(target) for t in self.exchange),
            global_exchange_cycles=sum(t.link_cycles(target) for t in self.exchange),
            host_cycles=self.link_cycles(target),
        )


def together(kind: str, under_full: bool, target: Target, replicas: int) -> int:
    """Return how many IPUs execute a step together; 0 if each IPU executes it independently.

    `under_full` says whether all IPUs execute the step together under the sync pattern FULL.
    Transfers with the host and with streaming memory depend on the sync pattern: under
    SINGLE_PIPELINE, each IPU is independent; under REPLICA_AND_LADDER, the IPUs of a replica take
    part together.
    """
    if not under_full or target.sync_pattern == FULL or kind not in TRANSFERS:
        return under_full * target.num_ipus
    group = target.num_ipus // replicas if target.sync_pattern == REPLICA_AND_LADDER else 1
    return group if group > 1 else 0


@dataclass(frozen=True, eq=False)
class Measured:
    """One execution of the compiled step `step`, with vertices whose cycles depend on data.

    `cycles` maps the number of a group (vertices of equal shapes) to an array with the worker
    cycles of each vertex. The vertices are in the order of the group's rows in the vertex table,
    and -1 stands for unknown cycles. The cycles of a MultiVertex are those of its slowest worker
    times the number of workers.
    """

    step: int
    cycles: Mapping[int, Array]


class CostModel:
    """The modelled costs of a compiled program's steps, and its use of tile memory.

    The costs are those on the machine `target`, which must have the number of tiles for which the
    program was compiled. Steps are numbered from 0: first all compiled steps, then the executions
    in `measured`, which were measured in a run because their cycles depend on data.
    """

    def __init__(
        self, compiled: Compiled, target: Target | None = None, measured: Iterable[Measured] = ()
    ) -> None:
        self.compiled = compiled
        self.measured = tuple(measured)
        self.target: Target = target or compiled.graph.target
        self._steps: dict[int, StepCost] = {}
        self._by_set: dict[int, tuple[Array, Array]] = {}
        # The bytes that compiled steps move do not depend on rates, so they are computed once.
        self._exchanges: dict[int, tuple[Traffic, ...]] = {}

    def at(self, target: Target) -> CostModel:
        """Return the costs of the same compiled program at the rates of `target`.

        `target` must have the same number of tiles. If it has a different number of workers, each
        MultiVertex is traced again.

        :raises InvalidMachineModelError: if `target` has different codelet prices, and cycles were
            counted in a run with the old ones.
        """
        if self.measured and target.codelet_prices != self.target.codelet_prices:
            raise InvalidMachineModelError(f"""what_if() cannot change codelet_prices in this
                report, because cycles depend on data and were counted during the run.
                next:  run the program again: Engine(graph, program, options={{"codelet_prices":
                {target.codelet_prices!r}}}).""")
        model = CostModel(self.compiled, target, self.measured)
        model._exchanges = self._exchanges
        return model

    def priced(self, prices: object) -> CostModel:
        """Return the costs of the same program with the prices `prices` for the user's codelets.

        `prices` is one of `target.PRICES`; None keeps the present prices.
        """
        if prices in (None, self.target.codelet_prices):
            return self
        return self.at(replace(self.target, codelet_prices=str(prices)))

    def of_run(self, measured: Iterable[Measured]) -> CostModel:
        """Return a cost model of the same program with the executions `measured` in a run.

        `measured` must begin with the executions that this model already has. The costs of these
        executions are reused.
        """
        model = CostModel(self.compiled, self.target, measured)
        model._exchanges = self._exchanges
        model.groups = self.groups
        model.memory = self.memory
        model._steps.update(self._steps)
        return model

    @cached_property
    def groups(self) -> Mapping[int, tuple[Group, ...]]:
        """Maps the number of each compute set to its groups of vertices.

        If the target and the compiled program have different numbers of workers, each MultiVertex
        is traced again.
        """
        workers = self.target.num_worker_contexts
        if workers == self.compiled.graph.target.num_worker_contexts:
            return self.compiled.groups
        return {
            number: tuple(with_workers(g, workers) for g in listed)
            for number, listed in self.compiled.groups.items()
        }

    @cached_property
    def memory(self) -> MemoryLedger:
        """The memory ledger: the bytes of the program by tile, variable and category."""
        exchanges = [self.exchange(number) for number in range(len(self.compiled.steps))]
        return ledger(self.compiled, exchanges, self.target)

    def check_memory(self) -> None:
        """Check that the program fits into the memory of each tile and into streaming memory.

        :raises GraphMemoryAllocationError: if the program does not fit.
        """
        check_streaming(self.compiled.remote_buffers.values(), self.target)
        limit = self.target.bytes_per_tile
        if self.compiled.graph.memory_bytes > limit or at_most(self.compiled, self.target) > limit:
            check(self.memory)

    def check_reproducible(self) -> None:
        """Check that no codelet draws random numbers on the host or reads the host's clock.

        Codelets of poprand are not checked, because they use the random number generators of their
        tile.

        :raises CodeletError: if a codelet does one of these.
        """
        # The source of a codelet is searched only once, even if the codelet is in many compute
        # sets.
        searched: set[type] = set()
        for compute_set in self.compiled.graph.compute_sets:
            for group in self.groups[compute_set.id]:
                # Codelets of poprand run in bulk. Their results are reproducible, because they use
                # the random number generators of their tile.
                if group.is_bulk or not group.trace.stopped:
                    continue
                codelet = group.table.codelet
                stopped = group.trace.stopped
                cause = next((s for s in (RANDOM, CLOCK) if stopped.endswith(s.reason)), None)
                place = stopped.removesuffix(f": {cause.reason}") if cause else ""
                compute = codelet.compute
                if cause is None and codelet not in searched and isinstance(compute, FunctionType):
                    searched.add(codelet)
                    cause = draws_from(compute, codelet)
                    place = place_of(codelet)
                if cause is not None:
                    row = int(group.rows[0])
                    raise CodeletError(f"""{codelet.__name__}.compute() {cause.fault}.
                        where: {place}; {vertex_name(group.table, row)} of compute set
                        {compute_set.name!r}
                        line:  {in_words(group.table.line(row))}
                        next:  {cause.next_step}. To run it as it is: Engine(…, strict=False).""")

    def check_estimates(self) -> None:
        """Check that every codelet's cycles can be counted, were given, or depend on data.

        :raises MissingPerfEstimateError: if the cycles of a codelet are unknown.
        """
        for compute_set in self.compiled.graph.compute_sets:
            for group in (group for group in self.groups[compute_set.id] if group.trace.stopped):
                has_cost = (
                    group.estimator is not None
                    or hasattr(group.table.codelet, "cycles")
                    or depends_on_data(group)
                )
                if not has_cost:
                    missing = np.flatnonzero(group.table.estimates[group.rows] < 0)
                    if missing.size:
                        name = group.table.codelet.__name__
                        row = int(group.rows[missing[0]])
                        place, _, reason = group.no_scalar.partition(": ")
                        reason, _, alternative = reason.partition(" (write ")
                        advice = (
                            f"write {alternative.removesuffix(')').removesuffix(',')}, or "
                            if alternative
                            else ""
                        )
                        if group.trace.stopped.endswith(TOO_LONG):
                            reason = f"{TOO_LONG}, too many to trace; {reason}"
                            advice = f"{advice}give each vertex less to do, or "
                        raise MissingPerfEstimateError(f"""The cycles of {name} are unknown:
                            {reason}, and its operations cannot be counted.
                            where: {place}; {vertex_name(group.table, row)} of compute set
                            {compute_set.name!r}
                            line:  {in_words(group.table.line(row))}
                            next:  {advice}`def cycles(self, target)` in the class, or
                            graph.set_perf_estimate(vertex, cycles). To run it without a cost:
                            Engine(…, strict=False).""")

    # In the methods below, `number` is the number of a compiled step or of a measured execution.

    @property
    def num_steps(self) -> int:
        """The number of compiled steps and measured executions together."""
        return len(self.compiled.steps) + len(self.measured)

    def compiled_number(self, number: int) -> int:
        """Return the number of the compiled step that step `number` executes.

        `number` is the number of a measured execution, or of a compiled step, whose number is
        returned unchanged.
        """
        after = number - len(self.compiled.steps)
        return number if after < 0 else self.measured[after].step

    def compiled_step(self, number: int) -> Step:
        """Return the compiled step that step `number` executes.

        `number` is the number of a measured execution, or of a compiled step, which is returned
        itself.
        """
        return self.compiled.steps[self.compiled_number(number)]

    def compute_set(self, number: int) -> FrozenComputeSet | None:
        """Return the compute set that step `number` executes; None if it executes none."""
        step = self.compiled_step(number)
        if isinstance(step, ExecuteStep):
            return self.compiled.graph.compute_sets[step.compute_set]
        return None

    def vertices(self, number: int) -> Iterator[tuple[Group, Array]]:
        """Yield (group, modelled cycles) for each group of vertices that step `number` executes.

        The cycles are int64[vertices], with `UNKNOWN` (-1) for vertices whose cycles are neither
        counted nor estimated.
        """
        added_step = number - len(self.compiled.steps)
        step = self.compiled_step(number)
        measured = {} if added_step < 0 else self.measured[added_step].cycles
        for group_index, group in enumerate(
            self.groups[step.compute_set] if isinstance(step, ExecuteStep) else ()
        ):
            yield group, vertex_cycles(group, self.target, measured.get(group_index))

    def step(self, number: int) -> StepCost:
        """Return the modelled cost of one execution of step `number`."""
        if number not in self._steps:
            self._steps[number] = self._cost_of(number)
        return self._steps[number]

    def vertex_cycles(self, number: int) -> tuple[Array, Array, Array, Array]:
        """Return `(cycles, tiles, takes_entire_tile, order)` for the vertices of step `number`.

        Each array has one entry for each vertex. `takes_entire_tile` is True for supervisor
        vertices and MultiVertex. `order` is the position of the vertex in its compute set. Cycles
        are `UNKNOWN` (-1) for vertices whose cycles are neither counted nor estimated.
        """
        columns = [
            (
                cycles,
                column_of(group, group.table.tiles),
                np.full(len(group.rows), group.table.codelet.context != "worker"),
                column_of(group, group.table.order),
            )
            for group, cycles in self.vertices(number)
        ]
        if not columns:
            empty = np.zeros(0, np.int64)
            return empty, empty, empty.astype(bool), empty
        if len(columns) == 1:  # The vertices of a single group are in order already.
            return columns[0]
        cycles, tiles, takes_entire_tile, order = (
            np.concatenate(column) for column in zip(*columns, strict=True)
        )
        positions = np.empty(len(order), np.int64)
        # `order` is a permutation of the vertex numbers 0, 1, … of the compute set.
        positions[order] = np.arange(len(order))
        return cycles[positions], tiles[positions], takes_entire_tile[positions], order[positions]

    def _executed(self, number: int) -> tuple[Array, Array, tuple[str, ...]]:
        """Return `(compute_cycles, active_cycles, unknown)` for the vertices of step `number`.

        Both are int64[tiles], in tile cycles: `compute_cycles` include the idle time of worker
        threads, `active_cycles` do not. `unknown` contains the names of codelets whose cycles are
        unknown.
        """
        target = self.target
        cycles, tiles, alone, _ = self.vertex_cycles(number)
        known = np.maximum(cycles, 0)
        shared = (known[~alone], tiles[~alone]) if alone.any() else (known, tiles)
        busiest = busiest_worker(*shared, target.num_tiles, target.num_worker_contexts)
        supervised = total_of(tiles[alone], known[alone], target.num_tiles)
        unknown = {
            g.table.codelet.__name__
            for g, spent in self.vertices(number)
            if g.trace.stopped and UNKNOWN in spent
        }
        compute = busiest * target.num_worker_contexts + supervised
        active = total_of(tiles, known, target.num_tiles)
        return compute, active, tuple(sorted(unknown))

    def _sync(self, group: int) -> int:
        """Return the cycles of the sync before a step that `group` IPUs execute together.

        If `group` is 0, the sync is an internal sync within each IPU.
        """
        return self.target.internal_sync_cycles + (sync_of(group, self.target) if group else 0)

    def by_set(self, number: int) -> tuple[Array, Array]:
        """Return `(groups, cycles)` of step `number` for `Target.sets`: two int64[sets].

        `groups` contains equal numbers for sets that begin the step together. The number is 0 if
        they are sets of all IPUs. It is -1 for a set that does not wait for any other set. `cycles`
        is the time for which one execution occupies each set.
        """
        if number not in self._by_set:
            cost = self.step(number)
            step = self.compiled_step(number)
            tiles = [table.tiles for table in self.compiled.graph.executed(step)]
            at_work = cost.at_work(tiles, self.target)
            self._by_set[number] = cost.by_set(self.together(number), at_work, self.target)
        return self._by_set[number]

    def together(self, number: int) -> int:
        """Return how many IPUs execute step `number` together; 0 if each IPU executes it alone."""
        full = self.external_under_full(number)
        graph = self.compiled.graph
        kind = _titled(graph, self.compiled_step(number))[0] if full else ""
        return together(kind, full, self.target, graph.replicas)

    def external_under_full(self, number: int) -> bool:
        """Return whether all IPUs execute step `number` together under the sync pattern FULL."""
        step = self.compiled_step(number)
        exchange = self.exchange(number)
        if isinstance(step, SyncStep):
            return step.sync_type is not SyncType.INTERNAL
        return self.target.num_ipus > 1 and (
            with_host(step) is not None or any(t.links.any() for t in exchange)
        )

    def exchange(self, number: int) -> tuple[Traffic, ...]:
        """Return the exchanges of step `number`. They do not depend on the rates of the target."""
        compiled_index = self.compiled_number(number)
        if compiled_index not in self._exchanges:
            self._exchanges[compiled_index] = exchange_of(
                self.compiled.graph, self.compiled.steps[compiled_index]
            )
        return self._exchanges[compiled_index]

    def _cost_of(self, number: int) -> StepCost:
        target = self.target
        step = self.compiled_step(number)
        exchange = self.exchange(number)
        transfer = with_host(step)
        host_bytes = (0,) if transfer is None else host_links(self.compiled.graph, transfer[0])
        compute, active, unknown = self._executed(number)
        # Copies within tiles are done by workers, so they add to the compute cycles.
        for tile_cycles, worker_cycles in (t.copy_cycles(target) for t in exchange):
            compute = compute + tile_cycles
            active = active + worker_cycles
        zeros = np.zeros(target.num_tiles, np.int64)
        step_cost = StepCost(
            *_titled(self.compiled.graph, step),
            0,
            exchange,
            zeros,
            0,
            0,
            compute,
            active,
            0,
            host_bytes,
            unknown,
        )
        return step_cost.at(
            target, 0 if isinstance(step, UNSYNCED) else self._sync(self.together(number))
        )

    def codelet_cycles(self, number: int) -> dict[str, int]:
        """Return the cycles of one execution of step `number`, summed by codelet name.

        Unknown cycles count as 0.
        """
        totals = Counter[str]()
        for group, cycles in self.vertices(number):
            totals[group.table.codelet.__name__] += int(np.maximum(cycles, 0).sum())
        return dict(totals)


def exchange_of(graph: FrozenGraph, step: Step) -> tuple[Traffic, ...]:
    """Return the exchanges of a step. A compute set has two: before and after its vertices run."""
    if isinstance(step, ExecuteStep):
        compute_set = graph.compute_sets[step.compute_set]
        return reads(graph, compute_set, moves(step)), writes(graph, compute_set)
    transfer = with_host(step)
    if transfer is not None:
        return (host_traffic(graph, *transfer),)
    copies = moves(step)
    return (copy_traffic(graph, copies),) if copies else ()


def _titled(graph: FrozenGraph, step: Step) -> tuple[str, str]:
    """Return `(kind, name)` of a step, such as ("Execute", "layer1/mul")."""
    match step:
        case ExecuteStep():
            return "Execute", graph.compute_sets[step.compute_set].name
        case CopyStep(source=DataStream() as stream) | CopyStep(destination=DataStream() as stream):
            return "StreamCopy", stream.handle
        case MergedStep(copies=(RemoteCopyStep() as first_copy, *further_copies)):
            return "RemoteCopy", several(1 + len(further_copies), first_copy.buffer.handle)
        case CopyStep() | MergedStep():
            copies = moves(step)
            source, destination = (side.graph.describe(side) for side in copies[0])
            return "Copy", several(len(copies), f"{source} to {destination}")
        case RemoteCopyStep():
            return "RemoteCopy", step.buffer.handle
        case PrintStep():
            return "PrintTensor", step.title
        case SyncStep():
            return "Sync", step.sync_type.value
        case AbortStep():
            return "Abort", step.message
        case UndefStep() | StampStep() | EqualStep():
            name = "WriteUndef" if isinstance(step, UndefStep) else type(step).__name__
            return name, step.tensor.graph.describe(step.tensor)
