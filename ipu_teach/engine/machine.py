"""A loaded machine: its memory, and every step of the compiled programs bound to it."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import TextIO

import numpy as np

from ipu_teach._support.interrupts import Interrupts
from ipu_teach._support.progress import TrackedWork
from ipu_teach.compile import Compiled, programs as p
from ipu_teach.compile.groups import Group
from ipu_teach.cost import CostModel
from ipu_teach.cost.overlap import met
from ipu_teach.cost.traced import depends_on_data
from ipu_teach.engine.backend import Backend, Call, run_all
from ipu_teach.engine.definedness import Definedness
from ipu_teach.engine.fp.stochastic import draw, stochastic_rounding
from ipu_teach.engine.fp.traps import watch_of
from ipu_teach.engine.host_fallback import visit
from ipu_teach.engine.program_walk import Action, build, refuse_unequal, single
from ipu_teach.engine.remote_memory import remote_rows
from ipu_teach.engine.site import How, Site
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.engine.ways import REFEREE, WAYS, bind_across
from ipu_teach.errors import ApplicationRuntimeError
from ipu_teach.graph import DataStream, Tensor, Vertex
from ipu_teach.graph.registers import Registers
from ipu_teach.host.streams import Drain, Feed, noted
from ipu_teach.program import PrintTensorFmt
from ipu_teach.report.log import StepLog
from ipu_teach.report.recording import HOST, Recording
from ipu_teach.types import Array, from_quarter, poison


class Machine:
    """What `Engine.load` makes. `feeds` and `drains` are the engine's connected streams, looked up
    at each transfer.

    `cost`: what the steps of `compiled` cost; `backend`: where the memory lies and what computes;
    `log`: what has run.
    """

    def __init__(
        self,
        compiled: Compiled,
        cost: CostModel,
        feeds: dict[str, Feed],
        drains: dict[str, Drain],
        backend: Backend,
        how: How,
        work: TrackedWork,
    ) -> None:
        self.compiled, self._cost = compiled, cost
        moved = [sum(part.rows for part in p.remote(step)) for step in compiled.steps]
        self.log = StepLog(len(compiled.steps), moves=np.array(moved, np.int64))
        self.memory = Memory(compiled.graph, backend)
        buffers = compiled.remote_buffers
        note, checks = self.log.moved, how.reads
        self.remote = remote_rows(buffers, self.memory, checks, note) if buffers else {}
        # the number of every step of the run that is going on, in order
        self.steps_run: array[int] = array("i")
        self.print_to: TextIO | None = None
        self._feeds, self._drains = feeds, drains
        # A joined product would depend on how many threads share it.
        self.how = how if how.exact else replace(how, threads=1)
        target = compiled.graph.target
        self._changing = any(
            group.at_once for groups in compiled.groups.values() for group in groups
        )
        self._registers: Registers | None = None  # where nothing makes them other than zero
        if how.behaviour or self._changing:
            self._registers = Registers(
                target.num_tiles, target.num_worker_contexts, how.behaviour, how.seed
            )
        self.interrupts = Interrupts()
        self._pool = ThreadPoolExecutor(self.how.threads) if self.how.threads > 1 else None
        # By step and group: the cycles of each vertex in the last execution, and the rows of the
        # vertices.
        self._cycles: dict[int, dict[int, tuple[Array, Array]]] = {}
        self._defined = Definedness(compiled, self.memory.poison) if how.reads else None
        # Where scalar loops mark what they store; without checks nobody looks.
        self._marks = (
            np.zeros(compiled.graph.memory_bytes, bool)
            if self._defined is None
            else self._defined.defined
        )
        # Steps of earlier runs; the clock of each set of tiles, after so many steps of this run.
        self._clock: Array = np.zeros(target.num_sets, np.int64)
        self._past, self._told = 0, 0
        self._stamps = any(isinstance(step, p.StampStep) for step in compiled.steps)
        self._actions = [
            self._bind(number, step)
            for number, step in work.each(enumerate(compiled.steps), len(compiled.steps))
        ]
        self._programs: dict[int, Action] = {}
        self._recording: Recording | None = None

    def record(self, recording: Recording) -> None:
        """Let `recording` see memory after every step from now on."""
        self._recording = recording
        self._programs.clear()  # their steps are built for nobody who looks
        recording.begin(self.num_steps, self._look)

    def _look(self, tensor: Tensor) -> tuple[Array, Array]:
        """(the values of a tensor, which of its elements are written: without checks, those that do
        not hold the poison)."""
        values = self.peek(tensor)
        if self._defined is not None:
            return values, self._defined.defined[tensor.positions() * tensor.dtype.size]
        bits = f"u{tensor.dtype.size}"
        return values, values.view(bits) != np.array(poison(tensor.dtype), tensor.dtype.numpy).view(
            bits
        )

    def run(self, index: int) -> None:
        """Run program `index` from its start to its end."""
        if index not in self._programs:
            self._programs[index] = build(
                self.compiled.programs[index], self._leaf, self._predicate
            )
        self.log.begin()
        if self._recording is not None:
            self._recording.note(HOST)
        try:
            self._programs[index]()
        finally:
            self.interrupts.open = False
            self._settle()

    def standing(self, index: int) -> tuple[int, int, str]:
        """(steps of this run so far, how many there will be or 0, what runs), while program `index`
        runs."""
        program, done = self.compiled.programs[index], len(self.steps_run)
        return (
            done,
            max(program.length, 0),
            program.leaf_at(done).name if done < program.length else "",
        )

    def take_steps(self) -> array[int]:
        """The steps of the run that is over."""
        self._meet()
        ran = self.steps_run[:]
        del self.steps_run[:]  # in place: every step has the list's own append
        self._past, self._told = self._past + len(ran), 0
        return ran

    @property
    def num_steps(self) -> int:
        """Steps that ran since load."""
        return self._past + len(self.steps_run)

    def cycles(self) -> Array:
        """int64[sets]: modelled cycles since load, by the clock of each of `Target.sets`."""
        new, self._told = self.steps_run[self._told :], len(self.steps_run)
        for meets, lasts in map(self.cost.by_set, new):
            self._clock = met(self._clock, meets) + lasts
        return self._clock

    def _meet(self) -> None:
        """All sets of tiles wait for each other, which matters to stamps alone."""
        if self._stamps:
            self._clock[:] = self.cycles().max()

    @property
    def cost(self) -> CostModel:
        """The costs of every step in `steps_run`."""
        if len(self.log.measured) > len(self._cost.measured):
            self._cost = self._cost.of_run(self.log.measured)
        return self._cost

    def _write_down(self, number: int) -> None:
        """Note an execution of step `number` whose cycles depend on data."""
        self.steps_run.append(self.log.measure(number, self._cycles[number]))

    def host_write(self, tensor: Tensor, values: Array) -> None:
        """The host puts values into a tensor."""
        self._settle()
        self.memory.write(tensor, values)
        if self._defined is not None:
            self._defined.write(tensor)

    def host_read(self, tensor: Tensor, reader: str) -> Array:
        """Return what the host sees in a tensor. In strict mode raises `UninitialisedReadError` for
        an element that nothing has written; `reader` is the call that reads."""
        values = self.peek(tensor)
        if self._defined is not None:
            self._defined.check_host_read(tensor, reader)
        return values

    def peek(self, tensor: Tensor) -> Array:
        """Return what memory holds in a tensor, whether it was written or not."""
        self._settle()
        return self.memory.read(tensor)

    def _settle(self) -> None:
        if self._defined is not None:
            self._defined.settle()

    def _leaf(self, number: int) -> Action:
        """Run a step and write its number down; the first time, check what it reads."""
        action, recording, interrupts = self._actions[number], self._recording, self.interrupts
        note = self._write_down if self._cycles.get(number) else self.steps_run.append
        if self._defined is not None:
            action = self._defined.checking(number, action)

        def run() -> None:
            action()
            note(number)
            if interrupts.asked:
                raise KeyboardInterrupt

        if recording is None:
            return run
        seen: Call = lambda: recording.note(self.steps_run[-1]), ()
        return partial(run_all, [(action, ()), (note, (number,)), seen, (interrupts.check, ())])

    def _predicate(self, node: p.Node) -> Callable[[], int]:
        assert node.predicate is not None
        value = single(self.memory, node.predicate, node.kind)

        def read() -> int:
            self.interrupts.check()
            self._meet()
            return value()

        return (
            read if self._defined is None else self._defined.checking(self._defined.add(node), read)
        )

    # Steps

    def _bind(self, number: int, step: p.Step) -> Action:
        match step:
            case p.ExecuteStep():
                return self._bind_execute(number, step)
            case p.CopyStep():
                return self._bind_copy(step)
            case p.MergedStep():
                return partial(run_all, [(self._bind_part(part), ()) for part in step.copies])
            case p.RemoteCopyStep():
                return self._bind_part(step)
            case p.PrintStep():
                return lambda: self._print(step)
            case p.StampStep():
                return lambda: self._stamp(step)
            case p.AbortStep():
                return self._bind_abort(step)
            case p.EqualStep():
                return partial(self._compare, step.tensor)
            case p.UndefStep():
                defined = self._defined
                if defined is None:
                    return partial(self.memory.poison, step.tensor)
                return partial(defined.undefine, number)
            case p.SyncStep():
                return lambda: None

    def _bind_execute(self, number: int, step: p.ExecuteStep) -> Action:
        """Run a compute set. Where the program changes how numbers behave, it is bound anew for
        each behaviour it meets."""
        first, self._cycles[number] = self._bound(step)
        registers = self._registers
        if registers is None or not self._changing:
            return first
        bound = {registers.behaviour.tobytes(): (first, self._cycles[number])}

        def execute() -> None:
            behaviour = registers.behaviour.tobytes()
            if behaviour not in bound:
                bound[behaviour] = self._bound(step)
            action, self._cycles[number] = bound[behaviour]
            action()

        return execute

    def _bound(self, step: p.ExecuteStep) -> tuple[Action, dict[int, tuple[Array, Array]]]:
        """(what runs a compute set as numbers behave now, the cycles of its vertices that depend on
        data)."""
        name, out = self.compiled.graph.compute_sets[step.compute_set].name, step.out
        memory, xp, looped = self.memory, self.memory.backend, self.how.vertex_loop
        sites = [
            self._site(self._shuffled(group), name)
            for group in self.compiled.groups[step.compute_set]
        ]
        loops = [
            site
            for site in sites
            if not site.group.at_once and (site.group.way != "batch" or looped)
        ]
        at_once = any(site.group.at_once for site in sites)
        # A loop may be endless. One that is alone in its step goes first, and can be stopped: it
        # puts back what it did.
        alone = loops[0].group if len(loops) == 1 and xp.on_host and not at_once else None
        first: list[Call] = []
        calls: list[Call] = []
        fallback: list[Call] = calls if xp.on_host else []  # what cannot run on a GPU
        bound: list[Site] = []
        for _, found in groupby(sites, key=lambda site: site.group.table):
            alike = list(found)
            across = bind_across(alike) if not looped and out is None else None
            if across is not None:
                calls.extend(across)
                continue
            for site in alike:
                way = next(way for way in (REFEREE if looped else WAYS) if way.takes(site))
                stays = way.stays(site)
                site = replace(site, memory=memory if stays else memory.host)
                if out is not None and not site.group.at_once:
                    site = replace(
                        site,
                        returned=site.memory.backend.array(np.ones(len(site.group.rows), bool)),
                    )
                if site.group is alone:
                    first = way.bind(replace(site, interrupts=self.interrupts))
                else:
                    (calls if stays else fallback).extend(way.bind(site))
                bound.append(site)
        calls = [*first, *calls]
        if not xp.on_host:
            visitors = [site.group for site in bound if site.memory is not memory]
            calls = [*visit(memory, visitors, self.compiled.graph, fallback), *calls]
        roundings = [site.rounding for site in sites if site.rounding is not None]
        if roundings:
            calls = [(draw, (self._registers, roundings)), *calls]
        if out is not None:
            calls = [*calls, (self._answer, (out, bound))]
        measured = {
            number: (site.cycles, site.group.rows)
            for number, site in enumerate(sites)
            if site.cycles is not None
        }
        return partial(
            run_all, [*calls, *((self._bind_copy(copy), ()) for copy in step.copies)]
        ), measured

    def _answer(self, out: Tensor, sites: list[Site]) -> None:
        """Write to `out` whether all vertices returned true, of each replica those of its own."""
        said: Array = np.ones(out.num_elements, bool)
        for site in sites:
            if site.returned is not None:
                each = len(site.group.table) // site.group.table.replicas
                no = ~self.memory.backend.to_host(site.returned)
                said[site.group.rows[no] // each] = False
        self.memory.write(out, said)

    def _site(self, group: Group, compute_set: str) -> Site:
        """Where `group` is bound, as numbers behave now."""
        registers, watch, rounding = self._registers, None, None
        if registers is not None:
            watch = watch_of(group, registers)
            overflows = watch is not None and any(kind.looks_at_stores for kind in watch.kinds)
            rounding = stochastic_rounding(group, registers, overflows)
        cycles = None
        if group.trace.stopped and depends_on_data(group):
            cycles = np.zeros(len(group.rows), np.int64)
        return Site(
            group,
            self.memory,
            self.compiled.graph,
            self._cost.target,
            compute_set,
            self.how,
            registers,
            watch,
            rounding,
            self._pool,
            self._marks,
            Interrupts(),
            cycles=cycles,
        )

    @property
    def looped(self) -> dict[type[Vertex], str]:
        """Codelets that could run all at once and ran vertex by vertex, each with the reason."""
        if not self.how.vertex_loop:
            return {}
        groups = (group for found in self.compiled.groups.values() for group in found)
        return {
            group.table.codelet: "Engine(vertex_loop=True) asks for it"
            for group in groups
            if not group.at_once
        }

    def _shuffled(self, group: Group) -> Group:
        """The same group with its vertices, and the workers of a MultiVertex, in another order, if
        that was asked for.

        No result may depend on it.
        """
        if self.how.shuffle is None:
            return group
        source = np.random.default_rng(self.how.shuffle)
        rows = source.permutation(group.rows)
        return replace(
            group,
            rows=rows,
            workers=tuple(group.workers[i] for i in source.permutation(len(group.workers))),
        )

    def _bind_part(self, part: p.CopyStep | p.RemoteCopyStep) -> Action:
        if isinstance(part, p.RemoteCopyStep):
            return self.remote[part.buffer.handle].bind(part)
        return self._bind_copy(part)

    def _bind_copy(self, step: p.CopyStep) -> Action:
        memory, source, destination = self.memory, step.source, step.destination
        if isinstance(source, DataStream):
            assert isinstance(destination, Tensor)
            handle, into = source.handle, destination
            return noted(
                source, lambda: memory.write(into, self.interrupts.within(self._feeds[handle]))
            )
        if isinstance(destination, DataStream):
            handle, origin = destination.handle, source
            return noted(
                destination,
                lambda: self.interrupts.within(self._drains[handle], memory.read(origin)),
            )
        here = memory.view(source.dtype, source.offset, source.layout)
        there = memory.view(destination.dtype, destination.offset, destination.layout)
        if here is not None and there is not None and here.shape == there.shape:
            return lambda: memory.backend.copyto(there, here)
        flat = memory.flat(source.dtype)
        s_index, d_index = (
            memory.backend.array(side.positions().reshape(-1)) for side in (source, destination)
        )

        def copy() -> None:
            flat[d_index] = flat[s_index]

        return copy

    def _bind_abort(self, step: p.AbortStep) -> Action:
        memory, predicate = self.memory, step.predicate

        def stop() -> None:
            wanted = np.ones(1) if predicate is None else memory.read(predicate).reshape(-1)
            if wanted.any():
                where = (
                    ""
                    if predicate is None
                    else f"{predicate.graph.describe(predicate)} is not zero"
                )
                if len(wanted) > 1:
                    where += f" in replica {int(wanted.astype(bool).argmax())}"
                raise ApplicationRuntimeError(
                    f"The program stopped itself: {step.message or 'Abort'}.", where=where
                )

        return stop

    def _stamp(self, step: p.StampStep) -> None:
        first = step.tensor.positions().reshape(-1, 2)[:, 0]  # in each replica
        tiles = self.compiled.graph.tile_map.at(first * step.tensor.dtype.size)
        cycles = self.cycles()[self.cost.target.set_of(tiles)]
        if step.since is not None:
            low, high = self.memory.read(step.since).reshape(-1, 2).T.astype(np.int64)
            cycles = cycles - (low + (high << 32))
        words = np.stack((cycles & 0xFFFFFFFF, cycles >> 32), axis=1)
        self.memory.write(step.tensor, words.astype(np.uint32))

    def _compare(self, tensor: Tensor) -> None:
        """Stop the run if replicas do not have the same in `tensor`."""
        if self.compiled.graph.replicas > 1:
            values = self.memory.read(tensor)
            refuse_unequal(values, tensor, "AssumeEqualAcrossReplicas", values)

    def _print(self, step: p.PrintStep) -> None:
        tensor, values = step.tensor, self.memory.read(step.tensor)
        shown = from_quarter(values, tensor.get_metadata()) if tensor.has_metadata() else values
        print(
            f"{step.title}: {format_tensor(shown, step.fmt)}",
            file=self.print_to or sys.stderr,
            flush=True,
        )


def format_tensor(values: Array, fmt: PrintTensorFmt) -> str:
    """An array as PrintTensor writes it: seven decimals, nested brackets, the middle of a long one
    left out."""
    text = np.array2string(
        values,
        max_line_width=fmt.max_line_width,
        threshold=fmt.summarise_threshold,
        edgeitems=fmt.edge_items,
        separator=fmt.separator,
        formatter={"float_kind": f"{{:.{fmt.digits}f}}".format},
    )
    return text.replace("[", fmt.open_bracket).replace("]", fmt.close_bracket)
