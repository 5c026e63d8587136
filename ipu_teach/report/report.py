"""The class `Report`, which describes a compiled program and which of its steps ran."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from ipu_teach._support.flags import flagged
from ipu_teach.cost import StepCost
from ipu_teach.cost.grounds import shares
from ipu_teach.cost.ledger import STATE, MemoryLedger
from ipu_teach.cost.overlap import Overlap, of_all
from ipu_teach.cost.phases import HOST, LINKS, STREAMING, Phase, link_cycles_of, phases
from ipu_teach.cost.transfers import Transfers
from ipu_teach.errors import (
    InvalidMachineModelError,
    NotOfferedError,
    PoplarIndexError,
    ProfilingDisabledError,
    WithoutSome,
    counted,
    shown,
)
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.variable_table import of_replica
from ipu_teach.report import debug, files, insights, operations, query, why
from ipu_teach.report.host_trace import HostTrace
from ipu_teach.report.html import page
from ipu_teach.report.log import ProgramRun, RunLog
from ipu_teach.report.profile import Profile
from ipu_teach.report.settings import InstrumentationSettings, PoplarVersion
from ipu_teach.report.steps import ComputeSetProfile, StepRun
from ipu_teach.report.table import Table
from ipu_teach.report.walk import joints
from ipu_teach.target import Target, changed
from ipu_teach.types import Array

EVERY = 2**12  # The number of steps whose cycles are added up at once, for a single IPU.
CHUNK = 2**16  # The number of steps whose times are computed at once.
# The compiled program depends on these fields of the target, so `what_if` cannot change them.
COMPILED_FOR = (
    "num_ipus",
    "num_tiles",
    "tiles_per_ipu",
    "exchange_send_words",
    "host_packet_bytes",
    "io_tiles",
)


@flagged
@dataclass(frozen=True, eq=False, repr=False)
class Report(WithoutSome):
    """An immutable snapshot of a run. All its cycles, bytes and times are modelled.

    `engine.report` returns a report, and `Report.open` reads one from a file. Both give the same
    answers. A report counts all steps of a run, but records the order of only the first 4,194,304
    steps. Queries about the execution raise `ProfilingDisabledError` if all steps ran while
    profiling was disabled.
    """

    profile: Profile
    _ran: RunLog
    host: HostTrace = field(default_factory=HostTrace)
    _settings: InstrumentationSettings = InstrumentationSettings()
    _version: PoplarVersion = field(default_factory=PoplarVersion)

    def __post_init__(self) -> None:
        object.__setattr__(self, "host", self.host.beside(partial(query.buffers, self)))

    @property
    def instrumentation_settings(self) -> InstrumentationSettings:
        """The options of the engine that decide what the report shows."""
        return self._settings

    @property
    def poplar_version(self) -> PoplarVersion:
        """The version of the kit that compiled the program: `string`, `major`, `minor`, `point`."""
        return self._version

    @property
    def runs(self) -> tuple[ProgramRun, ...]:
        """The first 65,536 calls of `Engine.run`, in order."""
        return self._ran.runs

    @property
    def unrecorded_steps(self) -> int:
        """The number of steps that ran while profiling was disabled."""
        return self._ran.unrecorded

    save = files.save
    serialize = files.serialize
    open = classmethod(files.open)
    deserialize = classmethod(files.deserialize)
    sample = classmethod(files.sample)
    digest = files.digest

    @property
    def target(self) -> Target:
        """The machine that was modelled."""
        return self.profile.target

    @property
    def memory(self) -> MemoryLedger:
        """The modelled bytes by tile, variable and category."""
        return self.profile.memory

    @cached_property
    def executions(self) -> Array:
        """The number of executions of each compiled step: int64[compiled steps].

        :raises ProfilingDisabledError: if steps ran, but profiling was disabled during all of them.
        """
        if self.unrecorded_steps and not self.num_steps:
            raise ProfilingDisabledError(f"""The execution was not recorded:
                {counted(self.unrecorded_steps, "step")} ran while profiling was disabled.
                next:  call engine.enable_execution_profiling(), or set the option
                debug.instrument, then run again.""")
        recorded_counts = self._ran.counts
        return np.pad(recorded_counts, (0, len(self.profile.steps) - len(recorded_counts)))

    @cached_property
    def _costs(self) -> list[tuple[int, StepCost]]:
        return [
            (times, self.profile.cost(step_number))
            for step_number, times in enumerate(self.executions.tolist())
            if times
        ]

    @property
    def num_steps(self) -> int:
        """The number of recorded steps that ran since the engine was loaded."""
        return self._ran.total

    @property
    def steps_not_kept(self) -> int:
        """The number of steps at the end of a long run whose order was not recorded.

        Every sum of the report includes these steps, but `steps` and `step_numbers` leave them out.
        """
        return self.num_steps - len(self._ran.order)

    @cached_property
    def compute_sets(self) -> Table[ComputeSetProfile]:
        """A table of the compute sets that the programs contain, in the order of their creation."""
        profile_by_set: dict[int, ComputeSetProfile] = {}
        for step_number, executions in enumerate(self.executions.tolist()):
            set_number = self.profile.steps[step_number].compute_set
            earlier = profile_by_set.get(set_number)
            if set_number >= 0 and (earlier is None or executions):
                # A compute set whose cycles depend on data has several compiled steps. The table
                # shows the last one that ran.
                flops = [part.flops for part in self.profile.parts(step_number)]
                profile_by_set[set_number] = ComputeSetProfile(
                    self.profile.compute_sets[set_number].name,
                    executions + (earlier.executions if earlier else 0),
                    self.profile.vertices(step_number),
                    self.profile.cost(step_number),
                    -1 if min(flops, default=0) < 0 else sum(flops),
                )
        return Table(profile_by_set[set_number] for set_number in sorted(profile_by_set))

    def steps(self, first: int = 0, last: int | None = None) -> list[StepRun]:
        """Return the steps of the run from index `first` up to, but not including, `last`.

        If `last` is None, the list ends with the last step whose order was recorded.

        :raises PoplarIndexError: if an index is negative or not a whole number.
        """
        for step_number in (first, 0 if last is None else last):
            if not is_whole(step_number) or step_number < 0:
                raise PoplarIndexError(f"""steps({shown(first)}, {shown(last)}) was called on
                    a report of {self.num_steps:,} steps, but {shown(step_number)} is not an index.
                    next:  give whole numbers from 0, as in report.steps(0, 10).""")
        return list(self.steps_between(first, last))

    def steps_between(self, first: int = 0, last: int | None = None) -> Iterator[StepRun]:
        """Yield the steps of the run from index `first` up to, but not including, `last`.

        If `last` is None, the last step is the last one whose order was recorded.
        """
        step_numbers = self._ran.order if self.executions.any() else self._ran.order[:0]
        last = len(step_numbers) if last is None else min(last, len(step_numbers))
        for chunk_start in range(first, last, CHUNK):
            chunk_end = min(last, chunk_start + CHUNK)
            columns = (
                column.tolist()
                for column in (
                    step_numbers[chunk_start:chunk_end],
                    *self.overlap.spans(chunk_start, chunk_end),
                )
            )
            for index, (step_number, starts_of_sets, start_cycle, end_cycle) in enumerate(
                zip(*columns, strict=True), chunk_start
            ):
                cost = self.profile.cost(step_number)
                yield StepRun(
                    index,
                    cost.kind,
                    cost.name,
                    start_cycle,
                    cost.cycles,
                    cost,
                    step_number,
                    self.profile,
                    end_cycle,
                    tuple(starts_of_sets),
                )

    @property
    def step_numbers(self) -> Array:
        """The number of the compiled step of each step of the run, in order.

        The array is int32[steps whose order was recorded].
        """
        return self._ran.order

    def step_cost(self, number: int) -> StepCost:
        """Return the modelled cost of one execution of the compiled step with index `number`.

        :raises PoplarIndexError: if there is no such step.
        """
        return query.Lazily(len(self.profile.steps), "compiled step", self.profile.cost)[number]

    @property
    def replicas(self) -> int:
        """The number of replicas of the graph that ran; 1 if it was not replicated."""
        return self.profile.replicas

    def ipu_name(self, ipu: int) -> str:
        """Return the name, such as "IPU 3", of the set of tiles with index `ipu` in `Target.sets`.

        If the graph is replicated, the name includes the replica: "IPU 3, replica 1 of 2".

        :raises PoplarIndexError: if there is no such index.
        """
        sets = self.target.sets
        num_replicas = self.replicas
        return query.Lazily(
            len(sets),
            "IPU",
            lambda set_number: of_replica(
                sets[set_number], set_number * num_replicas // len(sets), num_replicas
            ),
        )[ipu]

    def phases(self, number: int, ipu: int | None = None) -> tuple[Phase, ...]:
        """Return the phases of one execution of the compiled step with index `number`, in order.

        A phase is a sync, an exchange, computing, or a transfer over a link. The cycles of all
        phases add up to the cycles of the step. With `ipu`, an index of `Target.sets`, return only
        the phases of that IPU (or of its I/O tiles). The result is empty if that IPU does not take
        part in the step.

        :raises PoplarIndexError: if there is no such step or IPU.
        """
        cost = self.step_cost(number)
        if (
            ipu is not None
            and not query.Lazily(
                self.target.num_sets, "IPU", lambda i: self.overlap.lasts[number, i]
            )[ipu]
        ):
            return ()
        sets_that_meet = (
            None if ipu is None or self.target.num_sets == 1 else self.overlap.meets[number]
        )
        phases_of_ipu = None if sets_that_meet is None or of_all(sets_that_meet) else ipu
        return phases(
            cost,
            self.target,
            bool(self.profile.steps[number].to_device),
            phases_of_ipu,
            sets_that_meet,
        )

    @property
    def rows_moved(self) -> Array:
        """The numbers of the rows that were copied to or from remote buffers, in order.

        The array is int64[recorded rows]. Only the first 1,048,576 row numbers are recorded.
        """
        return self._ran.rows

    @cached_property
    def row_moves(self) -> list[query.RowMove]:
        """The copies to and from remote buffers, in order, as far as their rows were recorded."""
        return list(query.row_moves(self))

    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Return the messages that tiles send each other in the compiled step with index `number`.

        The result has one entry for each exchange of the step, in the order of `StepCost.exchange`.

        :raises PoplarIndexError: if there is no such step.
        """
        return query.Lazily(len(self.profile.steps), "compiled step", self.profile.transfers)[
            number
        ]

    variables = cached_property(query.variables)
    exchanges = cached_property(query.exchanges)
    ipus = cached_property(query.ipus)
    compilation = cached_property(query.Compilation)
    execution = cached_property(query.Execution)
    debug_contexts = cached_property(debug.debug_contexts)
    insights = insights.insights
    by_module = operations.by_module
    operations = operations.operations
    why = why.why

    @property
    def tables(self) -> dict[str, Sequence[Any]]:
        """A dict that maps the title of each table of the report to the complete table.

        The report's page in a notebook shows the first or largest rows of each table. Tables that
        do not apply are left out, for example if nothing ran or if there is only one IPU.
        """
        tables: dict[str, Sequence[Any]] = {"Insights": self.insights()}
        tables |= {"Liveness": self.compilation.liveness_program_steps, "Variables": self.variables}
        if self.num_steps:
            tables |= {"Operations": self.operations(), "Compute sets": self.compute_sets}
            tables |= {"Exchanges": self.exchanges, "Steps": self.execution.steps}
        has_several = self.num_steps and self.target.num_sets > 1
        return tables | ({"IPUs": self.ipus} if has_several else {})

    @property
    def data(self) -> dict[str, list[dict[str, Any]]]:
        """A dict that maps the title of each of the `tables` to a list of its rows as dicts."""
        return {name: Table(table).records() for name, table in self.tables.items()}

    @property
    def sources(self) -> dict[str, str]:
        """A dict from "Class.method" to the source text of this method of a codelet.

        Methods whose text is unknown are left out. Line 1 is the first line of a method's text.
        """
        return {name: text for codelet in self.profile.codelets for name, text in codelet.sources}

    def what_if(self, **changes: Any) -> Report:
        """Return a report of the same run in which the machine has other rates.

        For example, `report.what_if(exchange_bytes_per_cycle=8)`. `changes` are new values
        of fields of `Target`, by name. The program is neither compiled nor run again, so the tile
        mapping does not change, and cycles set with `set_perf_estimate` stay the same. To change
        the number of tiles or IPUs, use `sweep`, which compiles the program for each number.

        :raises InvalidMachineModelError: if a field or value cannot be changed.
        """
        for name in changes:
            if name in COMPILED_FOR:
                raise InvalidMachineModelError(
                    f"what_if() cannot change {name}: the program was compiled for "
                    f"{getattr(self.target, name):,}.",
                    next_step=(
                        "call sweep(build, num_tiles=[…]), which compiles for each number of tiles."
                    )
                    if name.startswith(("num", "tiles"))
                    else (
                        f"compile the program for another machine: "
                        f"IPUModel({self.target.ipu_version!r}, {name}=…)."
                    ),
                )
        return replace(self, profile=self.profile.at(changed(self.target, **changes)))

    @cached_property
    def overlap(self) -> Overlap:
        """The cycle at which each of `Target.sets` begins each step, and how long each set waits.

        Only steps whose order was recorded are included.
        """
        num_sets = self.target.num_sets
        meets, lasts = np.full((2, len(self.profile.steps), num_sets), -1, np.int64)
        step_numbers = self._ran.order
        has_several = num_sets > 1
        at_work = np.ones(lasts.shape, bool)
        lasts[:] = 0
        for step_number in np.flatnonzero(self.executions).tolist():
            meets[step_number], lasts[step_number] = self.profile.by_set(step_number)
            if has_several and (meets[step_number] >= 0).any():
                at_work[step_number] = self.profile.at_work(step_number)
        # A single IPU never waits for another IPU, so its run can be divided anywhere.
        return Overlap(
            step_numbers,
            lasts,
            meets=meets,
            joints=joints(self) if has_several else range(0, len(step_numbers), EVERY),
            at_work=at_work,
        )

    @cached_property
    def total_cycles(self) -> int:
        """The modelled cycles of the entire run.

        On one IPU, the result is the sum over the steps of the run. On several IPUs, it is the time
        at which the last IPU finishes. Steps whose order was not recorded are added as if no IPU
        waited for another.
        """
        return self.overlap.total + self.overlap.least(self.executions)

    @property
    def total_seconds(self) -> float:
        """The modelled time of the entire run, in seconds."""
        return self.total_cycles / self.target.tile_clock_frequency

    @property
    def compute_cycles_per_tile(self) -> Array:
        """The cycles for which each tile computes, including those of idle threads: int64[tiles].

        A tile computes until its busiest worker thread finishes. Each worker thread issues an
        instruction every sixth cycle, even if the other threads are idle.
        """
        return self._sum(times * cost.compute_cycles for times, cost in self._costs)

    @property
    def active_cycles_per_tile(self) -> Array:
        """The compute cycles of each tile, excluding idle threads: int64[tiles].

        They are the cycles in which any worker of the tile issues an instruction.
        """
        return self._sum(times * cost.active_cycles for times, cost in self._costs)

    @property
    def exchange_cycles_per_tile(self) -> Array:
        """The cycles in which each tile sends or receives on its own IPU: int64[tiles]."""
        return self._sum(times * cost.exchange_cycles for times, cost in self._costs)

    @property
    def exchange_bytes_per_tile(self) -> tuple[Array, Array]:
        """`(received, sent)`: the bytes that each tile received from other tiles and sent to them.

        Each array is int64[tiles].
        """
        traffic_by_step = [
            (times, traffic) for times, step in self._costs for traffic in step.exchange
        ]
        return self._sum(times * traffic.received for times, traffic in traffic_by_step), self._sum(
            times * traffic.sent for times, traffic in traffic_by_step
        )

    @property
    def global_exchange_cycles(self) -> int:
        """The modelled cycles of exchanges over the links between IPUs, in all steps that ran."""
        return sum(times * cost.global_exchange_cycles for times, cost in self._costs)

    @property
    def host_exchange_cycles(self) -> int:
        """The modelled cycles of transfers between host and device, in all steps that ran."""
        return sum(times * cost.host_cycles for times, cost in self._costs if not cost.streaming)

    @property
    def streaming_cycles(self) -> int:
        """The modelled cycles of transfers between streaming memory and device, in all steps."""
        return sum(times * cost.host_cycles for times, cost in self._costs if cost.streaming)

    @property
    def host_bytes(self) -> int:
        """The bytes moved between host and device, in all steps that ran."""
        return sum(times * cost.host_bytes for times, cost in self._costs if not cost.streaming)

    @property
    def streaming_bytes(self) -> int:
        """The bytes moved between streaming memory and device, in all steps that ran."""
        return sum(times * cost.host_bytes for times, cost in self._costs if cost.streaming)

    @cached_property
    def link_cycles_per_tile(self) -> dict[str, Array]:
        """A dict from each kind of link to the cycles in which each tile waits for such a link.

        The keys are the kinds `LINKS`, `HOST` and `STREAMING` of `cost.phases`. The values are
        int64[tiles]. A tile does not wait for a transfer in which its set of tiles takes no part.
        For example, the computing tiles do not wait while I/O tiles load the next data.
        """
        cycles_by_kind = {
            kind: np.zeros(self.target.num_sets, np.int64) for kind in (LINKS, HOST, STREAMING)
        }
        for step_number, times in enumerate(self.executions.tolist()):
            cost = self.profile.cost(step_number) if times else None
            if cost is None or not (cost.host_cycles or cost.global_exchange_cycles):
                continue
            kind = STREAMING if cost.streaming else HOST
            meets = self.overlap.meets[step_number]
            takes_part = (self.overlap.lasts[step_number] > 0) & self.profile.at_work(step_number)
            for set_number in np.flatnonzero(takes_part).tolist():
                link_cycles = cost.host_cycles
                if self.target.num_sets > 1:
                    link_cycles = link_cycles_of(cost, self.target, set_number, meets)
                cycles_by_kind[kind][set_number] += times * link_cycles
                if meets[set_number] == 0 or self.target.num_sets == 1:
                    cycles_by_kind[LINKS][set_number] += times * cost.global_exchange_cycles
        set_of_tile = self.target.set_of(np.arange(self.target.num_tiles))
        return {
            kind: cycles_of_sets[set_of_tile] for kind, cycles_of_sets in cycles_by_kind.items()
        }

    @property
    def sync_cycles_per_tile(self) -> Array:
        """The cycles that each tile spends on syncs and on waiting for other tiles: int64[tiles].

        They are the total cycles of the run minus the tile's cycles for compute, exchange and
        links.
        """
        busy_cycles = self.compute_cycles_per_tile + self.exchange_cycles_per_tile
        link_cycles: Array = sum(self.link_cycles_per_tile.values(), np.zeros_like(busy_cycles))
        return self.total_cycles - busy_cycles - link_cycles

    @property
    def proportions(self) -> dict[str, float]:
        """The fraction of the run that the average tile spends on each activity, from 0 to 1.

        The fractions add up to 1, unless nothing ran: then they are all 0.
        """
        total_cycles = self.total_cycles
        link_cycles = self.link_cycles_per_tile
        cycles_by_activity = {
            "compute": self.compute_cycles_per_tile,
            "exchange": self.exchange_cycles_per_tile,
            **link_cycles,
            "sync and waiting": self.sync_cycles_per_tile,
        }
        return {
            name: float(cycles.mean()) / total_cycles if total_cycles else 0.0
            for name, cycles in cycles_by_activity.items()
        }

    @property
    def grounds(self) -> dict[str, float]:
        """A dict from kinds of evidence (`target.GROUNDS`) to their fractions of all cycles.

        Kinds without cycles are left out. The cycles are modelled, and the fractions add up to 1.
        If some vertices have no cycle estimate, there is also the key "no estimate". Its value is
        the number of these vertices divided by the number of all vertices that ran. The cycles of
        vertices without an estimate are missing from every sum.
        """
        profile = self.profile
        executions = enumerate(self.executions.tolist())
        steps_run = (
            (
                times,
                profile.cost(step_number),
                profile.several(step_number),
                profile.codelet_cycles(step_number),
                profile.vertices(step_number),
            )
            for step_number, times in executions
            if times
        )
        return shares(
            steps_run, {codelet.name: codelet.ground for codelet in profile.codelets}, self.target
        )

    @property
    def unknown_codelets(self) -> tuple[str, ...]:
        """The names of codelets that ran without a cost model.

        The cycles of these codelets are missing from every sum.
        """
        return tuple(sorted({name for _, step in self._costs for name in step.unknown}))

    def ways(self) -> dict[str, str]:
        """Return how the host executes each codelet, by codelet name.

        - "batch": all vertices at once.
        - "scalar": a loop over the elements of each vertex, compiled if that saves time.
        - "CPython alone: line 9, np.sort": a loop over the elements that cannot be compiled because
          of the call in that line.
        - "loop": vertex by vertex, in plain Python.

        If the vertices of a codelet are executed in different ways, the result shows the slowest
        way.
        """
        return {c.name: c.way for c in self.profile.codelets}

    def unbatched(self) -> dict[str, str]:
        """Map each codelet name to the line and the reason that prevent execution as a batch.

        Codelets that the host executes as a batch are left out. If a codelet is executed vertex by
        vertex, the text also says why it cannot run as a scalar loop.
        """
        return {c.name: c.unbatched for c in self.profile.codelets if c.unbatched}

    def graph_size(self) -> dict[str, int]:
        """Return a dict with the numbers of "vertices", "edges", "variables" and "compute sets".

        An edge is the connection of a vertex field to a tensor.
        """
        profile = self.profile
        return {
            "vertices": sum(
                part.vertices for compute_set in profile.compute_sets for part in compute_set.parts
            ),
            "edges": profile.edges,
            "variables": sum(variable.category != STATE for variable in profile.variables),
            "compute sets": len(profile.compute_sets),
        }

    def vertex_counts(self) -> dict[str, int]:
        """Return the number of vertices of each codelet, the most frequent codelet first."""
        counts: Counter[str] = Counter()
        for part in (
            part for compute_set in self.profile.compute_sets for part in compute_set.parts
        ):
            counts[self.profile.codelets[part.codelet].name] += part.vertices
        return dict(counts.most_common())

    def cycles_by_codelet(self) -> dict[str, int]:
        """Return the worker cycles of the run for each codelet name, largest first.

        For supervisor vertices and multi vertices, the numbers are tile cycles.
        """
        cycles_by_name: dict[str, int] = {}
        for step_number, times in enumerate(self.executions.tolist()):
            for name, cycles in self.profile.codelet_cycles(step_number).items() if times else ():
                cycles_by_name[name] = cycles_by_name.get(name, 0) + times * cycles
        return dict(sorted(cycles_by_name.items(), key=lambda item: (-item[1], item[0])))

    def _sum(self, arrays: Iterable[Array]) -> Array:
        return sum(arrays, np.zeros(self.target.num_tiles, np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the function and arguments from which pickle restores the report."""
        return Report.deserialize, (self.serialize(),)

    _repr_html_ = page

    def __repr__(self) -> str:
        cycles = f"{self.total_cycles:,.0f} modelled cycles"
        return (
            f"Report({self.num_steps:,} steps, {cycles}, {self.target.num_tiles:,} tiles of "
            f"{self.target.ipu_version})"
        )


def open_report(
    path: str | os.PathLike[str], debug_path: str | os.PathLike[str] | None = None
) -> Report:
    """Return the report in the file `path`, like `Report.open`; libpva uses this name.

    `debug_path` must be None. Poplar writes names and lines to this second file, but a report of
    this kit is a single file.

    :raises ReportLoadError: if the file cannot be read. If the file does not exist, the error is
        also a `FileNotFoundError`.
    :raises NotOfferedError: if `debug_path` is not None.
    """
    if debug_path is not None:
        raise NotOfferedError(f"""open_report() was given a second file, {shown(str(debug_path))}.
            next:  give one path: open_report(path). Names and lines are in the report itself.""")
    return Report.open(path)
