"""The record of a run, as data: the compiled program and the steps that ran, without the engine."""

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

# the number of steps of one IPU that are summed together, and of steps whose times are computed
# together
EVERY = 2**12
CHUNK = 2**16
# fields of a machine that the compiled program depends on, so that `what_if` cannot change them
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

    `engine.report` returns it, and `Report.open` reads it from a file; both give the same answers.
    A run of more than 4,194,304 steps is counted completely, but only the order of its first steps
    is kept. If only unrecorded steps ran, questions about the execution raise
    `ProfilingDisabledError`.
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
        """The calls of `Engine.run`, at most the first 65,536."""
        return self._ran.runs

    @property
    def unrecorded_steps(self) -> int:
        """The number of steps that ran while profiling was disabled."""
        return self._ran.unrecorded

    # Files

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
        """The bytes by tile, variable and category."""
        return self.profile.memory

    @cached_property
    def executions(self) -> Array:
        """The number of executions of each compiled step: int64[compiled steps]."""
        if self.unrecorded_steps and not self.num_steps:
            raise ProfilingDisabledError(f"""The execution was not recorded:
                {counted(self.unrecorded_steps, "step")} ran while profiling was disabled.
                next:  engine.enable_execution_profiling(), or the option debug.instrument, and run
                again.""")
        counts = self._ran.counts
        return np.pad(counts, (0, len(self.profile.steps) - len(counts)))

    @cached_property
    def _costs(self) -> list[tuple[int, StepCost]]:
        return [(n, self.profile.cost(i)) for i, n in enumerate(self.executions.tolist()) if n]

    @property
    def num_steps(self) -> int:
        """The number of steps that ran since the engine was loaded."""
        return self._ran.total

    @property
    def steps_not_kept(self) -> int:
        """The number of steps that are counted but whose order is not kept.

        They are the last steps. They are in every sum, but not in `steps` and `step_numbers`.
        """
        return self.num_steps - len(self._ran.order)

    @cached_property
    def compute_sets(self) -> Table[ComputeSetProfile]:
        """All compute sets that programs execute, in the order in which they were added."""
        profiles: dict[int, ComputeSetProfile] = {}
        for number, executions in enumerate(self.executions.tolist()):
            which = self.profile.steps[number].compute_set
            before = profiles.get(which)
            if which >= 0 and (before is None or executions):
                # If cycles depend on data, a compute set has several steps. The last one that ran
                # is shown.
                flops = [part.flops for part in self.profile.parts(number)]
                profiles[which] = ComputeSetProfile(
                    self.profile.compute_sets[which].name,
                    executions + (before.executions if before else 0),
                    self.profile.vertices(number),
                    self.profile.cost(number),
                    -1 if min(flops, default=0) < 0 else sum(flops),
                )
        return Table(profiles[i] for i in sorted(profiles))

    def steps(self, first: int = 0, last: int | None = None) -> list[StepRun]:
        """Return the steps of the run from number `first` up to, but not including, `last`."""
        for bound in (first, 0 if last is None else last):
            if not is_whole(bound) or bound < 0:
                raise PoplarIndexError(f"""steps({shown(first)}, {shown(last)}) was called on
                    a report of {self.num_steps:,} steps.
                    next:  give whole numbers, 0 or more.""")
        return list(self.steps_between(first, last))

    def steps_between(self, first: int = 0, last: int | None = None) -> Iterator[StepRun]:
        """Yield the steps that `steps` returns."""
        order = self._ran.order if self.executions.any() else self._ran.order[:0]
        last = len(order) if last is None else min(last, len(order))
        for begin in range(first, last, CHUNK):
            until = min(last, begin + CHUNK)
            spans = (
                part.tolist() for part in (order[begin:until], *self.overlap.spans(begin, until))
            )
            for index, (number, starts, start, end) in enumerate(zip(*spans, strict=True), begin):
                step = self.profile.cost(number)
                yield StepRun(
                    index,
                    step.kind,
                    step.name,
                    start,
                    step.cycles,
                    step,
                    number,
                    self.profile,
                    end,
                    tuple(starts),
                )

    @property
    def step_numbers(self) -> Array:
        """The compiled step of each step of the run, read-only: int32[steps in kept order]."""
        return self._ran.order

    def step_cost(self, number: int) -> StepCost:
        """Return the modelled cost of one execution of compiled step `number`."""
        return query.Lazily(len(self.profile.steps), "compiled step", self.profile.cost)[number]

    @property
    def replicas(self) -> int:
        """The number of replicas of the graph that ran; 1 if it was not replicated."""
        return self.profile.replicas

    def ipu_name(self, ipu: int) -> str:
        """Return the name of one of `Target.sets`, for a replicated graph with its replica.

        An example is "IPU 3, replica 1 of 2".
        """
        sets = self.target.sets
        count = self.replicas
        return query.Lazily(
            len(sets), "IPU", lambda i: of_replica(sets[i], i * count // len(sets), count)
        )[ipu]

    def phases(self, number: int, ipu: int | None = None) -> tuple[Phase, ...]:
        """Return the phases of one execution of compiled step `number`, in order.

        The sum of their cycles is that of the step. With `ipu`, they are the phases of one IPU, or
        on a machine with I/O tiles of one of `Target.sets`, for as long as it takes part in the
        step. If it takes no part, there are none.
        """
        cost = self.step_cost(number)
        if (
            ipu is not None
            and not query.Lazily(
                self.target.num_sets, "IPU", lambda i: self.overlap.lasts[number, i]
            )[ipu]
        ):
            return ()
        meets = None if ipu is None or self.target.num_sets == 1 else self.overlap.meets[number]
        local_ipu = None if meets is None or of_all(meets) else ipu
        return phases(
            cost, self.target, bool(self.profile.steps[number].to_device), local_ipu, meets
        )

    @property
    def rows_moved(self) -> Array:
        """The numbers of the rows that remote buffers moved, in order: int64[recorded rows]."""
        return self._ran.rows

    @cached_property
    def row_moves(self) -> list[query.RowMove]:
        """The copies with remote buffers and their rows, in order, as far as recorded."""
        return list(query.row_moves(self))

    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Return the data that tiles send each other in compiled step `number`.

        There is one entry for each exchange, as in `StepCost.exchange`.
        """
        return query.Lazily(len(self.profile.steps), "compiled step", self.profile.transfers)[
            number
        ]

    # queries, named as in libpva

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
        """The full tables of the report's page, by the title of their section."""
        tables: dict[str, Sequence[Any]] = {"Insights": self.insights()}
        tables |= {"Liveness": self.compilation.liveness_program_steps, "Variables": self.variables}
        if self.num_steps:
            tables |= {"Operations": self.operations(), "Compute sets": self.compute_sets}
            tables |= {"Exchanges": self.exchanges, "Steps": self.execution.steps}
        several = self.num_steps and self.target.num_sets > 1
        return tables | ({"IPUs": self.ipus} if several else {})

    @property
    def data(self) -> dict[str, list[dict[str, Any]]]:
        """All of `tables` as lists of dicts."""
        return {name: Table(table).records() for name, table in self.tables.items()}

    @property
    def sources(self) -> dict[str, str]:
        """The source text of the codelets' methods by `Class.method`, if it is known.

        The lines of a text count from 1.
        """
        return {name: text for codelet in self.profile.codelets for name, text in codelet.sources}

    def what_if(self, **changes: Any) -> Report:
        """Return the report of the same run at other rates.

        For example, `report.what_if(exchange_bytes_per_cycle=8)`. `changes` are fields of `Target`,
        by name. Nothing is compiled or run again, so the tile mapping does not change, and cycles
        set with `set_perf_estimate` stay as they are. Raises `InvalidMachineModelError`, also for
        other numbers of tiles or IPUs: use `sweep`, which compiles for each of them.
        """
        for name in changes:
            if name in COMPILED_FOR:
                raise InvalidMachineModelError(
                    f"what_if() cannot change {name}: the program was compiled for "
                    f"{getattr(self.target, name):,}.",
                    next_step=(
                        "sweep(build, num_tiles=[…]) builds and compiles for each number of tiles."
                    )
                    if name.startswith(("num", "tiles"))
                    else (
                        f"compile for another machine: IPUModel({self.target.ipu_version!r}, "
                        f"{name}=…)."
                    ),
                )
        return replace(self, profile=self.profile.at(changed(self.target, **changes)))

    # Sums over the run. "Average" means over the tiles.

    @cached_property
    def overlap(self) -> Overlap:
        """The times at which each of `Target.sets` begins each step, and the waiting between sets.

        Only steps whose order was kept are included.
        """
        sets = self.target.num_sets
        meets, lasts = np.full((2, len(self.profile.steps), sets), -1, np.int64)
        order = self._ran.order
        several = sets > 1
        at_work = np.ones(lasts.shape, bool)
        lasts[:] = 0
        for number in np.flatnonzero(self.executions).tolist():
            meets[number], lasts[number] = self.profile.by_set(number)
            if several and (meets[number] >= 0).any():
                at_work[number] = self.profile.at_work(number)
        # A single IPU waits for no other, so that its steps can be divided anywhere.
        return Overlap(
            order,
            lasts,
            meets=meets,
            joints=joints(self) if several else range(0, len(order), EVERY),
            at_work=at_work,
        )

    @cached_property
    def total_cycles(self) -> int:
        """Modelled cycles of the entire run.

        On one IPU they are the sum of its steps, and on several IPUs the time on their clocks at
        the end. Steps whose order was not kept count as if no IPU waited between external syncs.
        """
        return self.overlap.total + self.overlap.least(self.executions)

    @property
    def total_seconds(self) -> float:
        """Modelled time of everything that ran."""
        return self.total_cycles / self.target.tile_clock_frequency

    @property
    def compute_cycles_per_tile(self) -> Array:
        """The compute cycles of each tile, with idle threads (6 x busiest worker): int64[tiles]."""
        return self._sum(n * step.compute_cycles for n, step in self._costs)

    @property
    def active_cycles_per_tile(self) -> Array:
        """The compute cycles of each tile, excluding idle threads: int64[tiles].

        Each instruction of a worker counts as one cycle.
        """
        return self._sum(n * step.active_cycles for n, step in self._costs)

    @property
    def exchange_cycles_per_tile(self) -> Array:
        """The cycles in which each tile sends or receives on its own IPU: int64[tiles]."""
        return self._sum(n * step.exchange_cycles for n, step in self._costs)

    @property
    def exchange_bytes_per_tile(self) -> tuple[Array, Array]:
        """(received, sent): the bytes that each tile exchanged with others, int64[tiles] each."""
        moved = [(n, traffic) for n, step in self._costs for traffic in step.exchange]
        return self._sum(n * t.received for n, t in moved), self._sum(n * t.sent for n, t in moved)

    @property
    def global_exchange_cycles(self) -> int:
        """Cycles spent on links between IPUs."""
        return sum(n * step.global_exchange_cycles for n, step in self._costs)

    @property
    def host_exchange_cycles(self) -> int:
        """Cycles spent on transfers between host and device."""
        return sum(n * step.host_cycles for n, step in self._costs if not step.streaming)

    @property
    def streaming_cycles(self) -> int:
        """Cycles spent on transfers between streaming memory and device."""
        return sum(n * step.host_cycles for n, step in self._costs if step.streaming)

    @property
    def host_bytes(self) -> int:
        """Bytes moved between host and device."""
        return sum(n * step.host_bytes for n, step in self._costs if not step.streaming)

    @property
    def streaming_bytes(self) -> int:
        """Bytes moved between streaming memory and device."""
        return sum(n * step.host_bytes for n, step in self._costs if step.streaming)

    @cached_property
    def link_cycles_per_tile(self) -> dict[str, Array]:
        """The cycles in which each tile waits for a link in a step that it takes part in.

        The keys are the kinds of links, `LINKS`, `HOST` and `STREAMING` of `cost.phases`, and the
        values int64[tiles]. A tile that takes no part in a transfer does not wait for it: if I/O
        tiles load the next data, the cycles of the tiles that compute are 0.
        """
        waits = {
            kind: np.zeros(self.target.num_sets, np.int64) for kind in (LINKS, HOST, STREAMING)
        }
        for number, times in enumerate(self.executions.tolist()):
            step = self.profile.cost(number) if times else None
            if step is None or not (step.host_cycles or step.global_exchange_cycles):
                continue
            kind = STREAMING if step.streaming else HOST
            meets = self.overlap.meets[number]
            has_part = (self.overlap.lasts[number] > 0) & self.profile.at_work(number)
            for local_ipu in np.flatnonzero(has_part).tolist():
                link = step.host_cycles
                if self.target.num_sets > 1:
                    link = link_cycles_of(step, self.target, local_ipu, meets)
                waits[kind][local_ipu] += times * link
                if meets[local_ipu] == 0 or self.target.num_sets == 1:
                    waits[LINKS][local_ipu] += times * step.global_exchange_cycles
        sets = self.target.set_of(np.arange(self.target.num_tiles))
        return {kind: by_set[sets] for kind, by_set in waits.items()}

    @property
    def sync_cycles_per_tile(self) -> Array:
        """The remaining cycles of each tile, syncs and waiting for slower tiles: int64[tiles].

        They are never negative.
        """
        busy = self.compute_cycles_per_tile + self.exchange_cycles_per_tile
        links: Array = sum(self.link_cycles_per_tile.values(), np.zeros_like(busy))
        return self.total_cycles - busy - links

    @property
    def proportions(self) -> dict[str, float]:
        """The share of the run that the average tile spends on each activity.

        The shares add up to 1. They are all 0 if nothing ran.
        """
        total = self.total_cycles
        links = self.link_cycles_per_tile
        spent = {
            "compute": self.compute_cycles_per_tile,
            "exchange": self.exchange_cycles_per_tile,
            **links,
            "sync and waiting": self.sync_cycles_per_tile,
        }
        return {
            name: float(cycles.mean()) / total if total else 0.0 for name, cycles in spent.items()
        }

    @property
    def grounds(self) -> dict[str, float]:
        """The share of the modelled cycles by kind of evidence, one of `target.GROUNDS`.

        The shares add up to 1. "no estimate" is the share of the vertices that ran without an
        estimate, whose cycles are missing.
        """
        p = self.profile
        times = enumerate(self.executions.tolist())
        steps_run = (
            (n, p.cost(i), p.several(i), p.codelet_cycles(i), p.vertices(i)) for i, n in times if n
        )
        return shares(steps_run, {c.name: c.ground for c in p.codelets}, self.target)

    @property
    def unknown_codelets(self) -> tuple[str, ...]:
        """Codelets that ran without a cost model; their cycles are missing from every sum."""
        return tuple(sorted({name for _, step in self._costs for name in step.unknown}))

    def ways(self) -> dict[str, str]:
        """Return how the host runs each codelet.

        - "batch": all vertices at once.
        - "scalar": a loop over the elements of each vertex, compiled if that saves time.
        - "CPython alone: line 9, np.sort": such a loop, which cannot be compiled for that reason.
        - "loop": vertex by vertex, in plain Python.

        A codelet that runs in several ways is listed with the slowest.
        """
        return {c.name: c.way for c in self.profile.codelets}

    def unbatched(self) -> dict[str, str]:
        """Return the line and the reason that prevented a batch, by codelet.

        For codelets that run vertex by vertex, the text also says why they cannot run as scalar
        loops.
        """
        return {c.name: c.unbatched for c in self.profile.codelets if c.unbatched}

    def graph_size(self) -> dict[str, int]:
        """Return the numbers of vertices, edges, variables and compute sets."""
        profile = self.profile
        return {
            "vertices": sum(part.vertices for c in profile.compute_sets for part in c.parts),
            "edges": profile.edges,
            "variables": sum(v.category != STATE for v in profile.variables),
            "compute sets": len(profile.compute_sets),
        }

    def vertex_counts(self) -> dict[str, int]:
        """Return the number of vertices of each codelet, largest first."""
        counts: Counter[str] = Counter()
        for part in (part for c in self.profile.compute_sets for part in c.parts):
            counts[self.profile.codelets[part.codelet].name] += part.vertices
        return dict(counts.most_common())

    def cycles_by_codelet(self) -> dict[str, int]:
        """Return the worker cycles of the run by codelet, largest first.

        For supervisor vertices they are tile cycles.
        """
        totals: dict[str, int] = {}
        for number, n in enumerate(self.executions.tolist()):
            for name, cycles in self.profile.codelet_cycles(number).items() if n else ():
                totals[name] = totals.get(name, 0) + n * cycles
        return dict(sorted(totals.items(), key=lambda item: (-item[1], item[0])))

    def _sum(self, parts: Iterable[Array]) -> Array:
        return sum(parts, np.zeros(self.target.num_tiles, np.int64))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how to rebuild the report elsewhere: from the bytes that `save` writes."""
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
    """Return `Report.open(path)`, by libpva's name.

    `debug_path` is Poplar's second file, which a report does not need: it is one file. Raises
    `ReportLoadError`, which is also a `FileNotFoundError` if the file does not exist.
    """
    if debug_path is not None:
        raise NotOfferedError(f"""open_report() was given a second file, {shown(str(debug_path))}.
            next:  give one path: names and lines are in the report itself.""")
    return Report.open(path)
