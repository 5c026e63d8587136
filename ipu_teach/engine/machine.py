"""A loaded machine: its memory, and a function that runs each step of the compiled programs."""

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
from ipu_teach.engine.remote_memory import RemoteRows, remote_rows
from ipu_teach.engine.site import RunMode, Site
from ipu_teach.engine.tile_arrays import Memory
from ipu_teach.engine.ways import REFEREE, WAYS, Way, bind_across
from ipu_teach.errors import ApplicationRuntimeError
from ipu_teach.graph import DataStream, Tensor, Vertex
from ipu_teach.graph.registers import Registers
from ipu_teach.host.streams import Drain, Feed, noted
from ipu_teach.program import PrintTensorFmt
from ipu_teach.report.log import StepLog
from ipu_teach.report.recording import HOST, Recording
from ipu_teach.types import Array, from_quarter, poison


class BoundSteps:
    """A loaded machine, with methods that create the function that runs a step.

    The subclass `Machine` sets the attributes before the functions are created.
    """

    compiled: Compiled
    memory: Memory
    mode: RunMode
    interrupts: Interrupts
    remote: dict[str, RemoteRows]
    print_to: TextIO | None
    cycles: Callable[[], Array]
    _cost: CostModel
    _feeds: dict[str, Feed]
    _drains: dict[str, Drain]
    _registers: Registers | None
    _changing: bool
    _pool: ThreadPoolExecutor | None
    _cycles: dict[int, dict[int, tuple[Array, Array]]]
    _defined: Definedness | None
    _marks: Array

    def _bind(self, step_number: int, step: p.Step) -> Action:
        """Return the function that runs a step."""
        match step:
            case p.ExecuteStep():
                return self._bind_execute(step_number, step)
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
                definedness = self._defined
                if definedness is None:
                    return partial(self.memory.poison, step.tensor)
                return partial(definedness.undefine, step_number)
            case p.SyncStep():
                return lambda: None

    def _bind_execute(self, step_number: int, step: p.ExecuteStep) -> Action:
        """Return the function that runs a compute set.

        If the program changes the floating-point behaviour, the calls of the compute set are
        prepared again for each behaviour that occurs.
        """
        first_action, self._cycles[step_number] = self._bound(step)
        registers = self._registers
        if registers is None or not self._changing:
            return first_action
        bound_by_behaviour = {
            registers.behaviour.tobytes(): (first_action, self._cycles[step_number])
        }

        def execute() -> None:
            behaviour = registers.behaviour.tobytes()
            if behaviour not in bound_by_behaviour:
                bound_by_behaviour[behaviour] = self._bound(step)
            action, self._cycles[step_number] = bound_by_behaviour[behaviour]
            action()

        return execute

    def _bound(self, step: p.ExecuteStep) -> tuple[Action, dict[int, tuple[Array, Array]]]:
        """Return (function that runs a compute set, cycles that depend on data).

        The function is for the present floating-point behaviour. The second value is a dict that
        maps the index of a group to (cycles of each vertex, rows of the vertices). It contains only
        groups whose cycles depend on data.
        """
        name = self.compiled.graph.compute_sets[step.compute_set].name
        answer_tensor = step.out
        memory = self.memory
        backend = memory.backend
        is_vertex_loop = self.mode.vertex_loop
        sites = [
            self._site(self._shuffled(group), name)
            for group in self.compiled.groups[step.compute_set]
        ]
        loop_sites = [
            site
            for site in sites
            if not site.group.is_bulk and (site.group.way != "batch" or is_vertex_loop)
        ]
        has_bulk = any(site.group.is_bulk for site in sites)
        # A loop in the learner's code may be endless. If the step has only one such loop, run it
        # first: if Ctrl-C then stops it, only its own changes must be undone.
        single_loop = (
            loop_sites[0].group
            if len(loop_sites) == 1 and backend.on_host and not has_bulk
            else None
        )
        loop_calls: list[Call] = []
        calls: list[Call] = []
        # The calls that cannot run on a GPU.
        fallback: list[Call] = calls if backend.on_host else []
        bound_sites: list[Site] = []
        for _, group_of_sites in groupby(sites, key=lambda site: site.group.table):
            table_sites = list(group_of_sites)
            calls_across = (
                bind_across(table_sites) if not is_vertex_loop and answer_tensor is None else None
            )
            if calls_across is not None:
                calls.extend(calls_across)
                continue
            for site in table_sites:
                way, site = self._way_of(site, has_answer=answer_tensor is not None)
                if site.group is single_loop:
                    loop_calls = way.bind(replace(site, interrupts=self.interrupts))
                else:
                    (calls if site.memory is memory else fallback).extend(way.bind(site))
                bound_sites.append(site)
        calls = [*loop_calls, *calls]
        if not backend.on_host:
            visitors = [site.group for site in bound_sites if site.memory is not memory]
            calls = [*visit(memory, visitors, self.compiled.graph, fallback), *calls]
        roundings = [site.rounding for site in sites if site.rounding is not None]
        if roundings:
            calls = [(draw, (self._registers, roundings)), *calls]
        if answer_tensor is not None:
            calls = [*calls, (self._answer, (answer_tensor, bound_sites))]
        measured = {
            group_number: (site.cycles, site.group.rows)
            for group_number, site in enumerate(sites)
            if site.cycles is not None
        }
        return partial(
            run_all, [*calls, *((self._bind_copy(copy), ()) for copy in step.copies)]
        ), measured

    def _way_of(self, site: Site, has_answer: bool) -> tuple[Way, Site]:
        """Return (way in which a site's group runs, the site with the memory that this way needs).

        With `has_answer`, the returned site also has an array for the results of `compute()`,
        except for vertices that access registers.
        """
        ways = REFEREE if self.mode.vertex_loop else WAYS
        way = next(way for way in ways if way.can_run(site))
        site = replace(site, memory=self.memory if way.can_stay(site) else self.memory.host)
        if has_answer and not site.group.is_bulk:
            returned = site.memory.backend.array(np.ones(len(site.group.rows), bool))
            site = replace(site, returned=returned)
        return way, site

    def _answer(self, out: Tensor, sites: list[Site]) -> None:
        """Write to `out`, for each replica, whether compute() returned true in all its vertices."""
        answers: Array = np.ones(out.num_elements, bool)
        for site in sites:
            if site.returned is not None:
                per_replica = len(site.group.table) // site.group.table.replicas
                is_false = ~self.memory.backend.to_host(site.returned)
                answers[site.group.rows[is_false] // per_replica] = False
        self.memory.write(out, answers)

    def _site(self, group: Group, compute_set: str) -> Site:
        """Return a `Site`: the group together with all objects that are needed to run it.

        Traps and rounding are set for the present floating-point behaviour.
        """
        registers = self._registers
        watch = None
        rounding = None
        if registers is not None:
            watch = watch_of(group, registers)
            overflows = watch is not None and any(kind.looks_at_stores for kind in watch.kinds)
            rounding = stochastic_rounding(group, registers, overflows)
        cycles = None
        if group.trace.stopped and depends_on_data(group):
            cycles = np.zeros(len(group.rows), np.int64)
        return Site(
            group=group,
            memory=self.memory,
            graph=self.compiled.graph,
            target=self._cost.target,
            compute_set=compute_set,
            mode=self.mode,
            registers=registers,
            watch=watch,
            rounding=rounding,
            pool=self._pool,
            defined=self._marks,
            interrupts=Interrupts(),
            cycles=cycles,
        )

    def _shuffled(self, group: Group) -> Group:
        """Return the group with its vertices and workers in random order.

        If the engine has no `shuffle`, the group is unchanged. A correct program's results do not
        depend on the order.
        """
        if self.mode.shuffle is None:
            return group
        source = np.random.default_rng(self.mode.shuffle)
        rows = source.permutation(group.rows)
        return replace(
            group,
            rows=rows,
            workers=tuple(
                group.workers[worker_index]
                for worker_index in source.permutation(len(group.workers))
            ),
        )

    def _bind_part(self, part: p.CopyStep | p.RemoteCopyStep) -> Action:
        """Return the function that runs a copy between tensors, or of rows of a remote buffer."""
        if isinstance(part, p.RemoteCopyStep):
            return self.remote[part.buffer.handle].bind(part)
        return self._bind_copy(part)

    def _bind_copy(self, step: p.CopyStep) -> Action:
        """Return the function that runs a copy between tensors, or to or from a stream."""
        memory = self.memory
        source = step.source
        destination = step.destination
        if isinstance(source, DataStream):
            assert isinstance(destination, Tensor)
            handle = source.handle
            destination_tensor = destination

            def receive() -> None:
                memory.write(destination_tensor, self.interrupts.within(self._feeds[handle]))

            return noted(source, receive)
        if isinstance(destination, DataStream):
            handle = destination.handle
            source_tensor = source

            def send() -> None:
                self.interrupts.within(self._drains[handle], memory.read(source_tensor))

            return noted(destination, send)
        from_view = memory.view(source.dtype, source.offset, source.layout)
        to_view = memory.view(destination.dtype, destination.offset, destination.layout)
        if from_view is not None and to_view is not None and from_view.shape == to_view.shape:
            return lambda: memory.backend.copyto(to_view, from_view)
        flat = memory.flat(source.dtype)
        source_index, destination_index = (
            memory.backend.array(tensor.positions().reshape(-1)) for tensor in (source, destination)
        )

        def copy() -> None:
            flat[destination_index] = flat[source_index]

        return copy

    def _bind_abort(self, step: p.AbortStep) -> Action:
        """Return the function that runs an Abort step.

        The function stops the run if the predicate is not zero. A step without a predicate always
        stops the run.
        """
        memory = self.memory
        predicate = step.predicate

        def stop() -> None:
            conditions = np.ones(1) if predicate is None else memory.read(predicate).reshape(-1)
            if conditions.any():
                place = (
                    ""
                    if predicate is None
                    else f"{predicate.graph.describe(predicate)} is not zero"
                )
                if len(conditions) > 1:
                    place += f" in replica {int(conditions.astype(bool).argmax())}"
                raise ApplicationRuntimeError(
                    f"The program stopped itself: {step.message or 'Abort'}.", where=place
                )

        return stop

    def _stamp(self, step: p.StampStep) -> None:
        """Write a number of cycles to the tensor of a CycleStamp, as two words for each replica.

        The number counts the cycles since load, or since the earlier stamp `step.since` if the step
        has one. The first word has the low 32 bits.
        """
        # The position of the first word of the stamp in each replica.
        first_words = step.tensor.positions().reshape(-1, 2)[:, 0]
        tiles = self.compiled.graph.tile_map.at(first_words * step.tensor.dtype.size)
        cycles = self.cycles()[self._cost.target.set_of(tiles)]
        if step.since is not None:
            low_words, high_words = self.memory.read(step.since).reshape(-1, 2).T.astype(np.int64)
            cycles = cycles - (low_words + (high_words << 32))
        word_pairs = np.stack((cycles & 0xFFFFFFFF, cycles >> 32), axis=1)
        self.memory.write(step.tensor, word_pairs.astype(np.uint32))

    def _compare(self, tensor: Tensor) -> None:
        """Stop the run if replicas have different values in `tensor`."""
        if self.compiled.graph.replicas > 1:
            values = self.memory.read(tensor)
            refuse_unequal(values, tensor, "AssumeEqualAcrossReplicas", values)

    def _print(self, step: p.PrintStep) -> None:
        """Print a tensor with its title."""
        tensor = step.tensor
        values = self.memory.read(step.tensor)
        shown = from_quarter(values, tensor.get_metadata()) if tensor.has_metadata() else values
        print(
            f"{step.title}: {format_tensor(shown, step.fmt)}",
            file=self.print_to or sys.stderr,
            flush=True,
        )


class Machine(BoundSteps):
    """A loaded machine, created by `Engine.load`.

    `feeds` and `drains` map handles to the connected streams to and from the device. They are
    looked up at each transfer, so later connections take effect. `cost` contains the costs of the
    steps of `compiled`. `backend` is the array module that allocates the memory and computes. `log`
    records the steps that have run.
    """

    def __init__(
        self,
        compiled: Compiled,
        cost: CostModel,
        feeds: dict[str, Feed],
        drains: dict[str, Drain],
        backend: Backend,
        mode: RunMode,
        work: TrackedWork,
    ) -> None:
        self.compiled = compiled
        self._cost = cost
        rows = [sum(copy.rows for copy in p.remote(step)) for step in compiled.steps]
        self.log = StepLog(len(compiled.steps), moves=np.array(rows, np.int64))
        self.memory = Memory(compiled.graph, backend)
        buffers = compiled.remote_buffers
        checks = mode.checks_reads
        note = self.log.moved
        self.remote = remote_rows(buffers, self.memory, checks, note) if buffers else {}
        # The indices of the steps of the current run, in order of execution.
        self.steps_run: array[int] = array("i")
        self.print_to: TextIO | None = None
        self._feeds = feeds
        self._drains = drains
        # With exact=False, matrix products may be joined, and their bits would depend on the number
        # of threads. So only one thread computes.
        self.mode = mode if mode.exact else replace(mode, threads=1)
        target = compiled.graph.target
        self._changing = any(
            group.is_bulk for groups in compiled.groups.values() for group in groups
        )
        self._registers = _registers_of(compiled, self.mode, self._changing)
        self.interrupts = Interrupts()
        self._pool = ThreadPoolExecutor(self.mode.threads) if self.mode.threads > 1 else None
        # For each step and group, by number: (cycles of each vertex in the last execution, rows of
        # the vertices).
        self._cycles: dict[int, dict[int, tuple[Array, Array]]] = {}
        self._defined = Definedness(compiled, self.memory.poison) if mode.checks_reads else None
        # The array in which scalar loops mark the bytes that they store. If reads are not checked,
        # the loops still need the array, but nothing reads it.
        self._marks = (
            np.zeros(compiled.graph.memory_bytes, bool)
            if self._defined is None
            else self._defined.defined
        )
        # The clock of each set of tiles after the first `_num_clocked` steps of this run.
        self._clock: Array = np.zeros(target.num_sets, np.int64)
        self._past = 0  # The number of steps of earlier runs.
        self._num_clocked = 0
        self._stamps = any(isinstance(step, p.StampStep) for step in compiled.steps)
        self._actions = [
            self._bind(step_number, step)
            for step_number, step in work.each(enumerate(compiled.steps), len(compiled.steps))
        ]
        self._programs: dict[int, Action] = {}
        self._recording: Recording | None = None

    def record(self, recording: Recording) -> None:
        """Record the contents of memory in `recording` after every step from now on."""
        self._recording = recording
        # Build the programs again, because the existing ones do not call the recording.
        self._programs.clear()
        recording.begin(self.num_steps, self.look)

    def look(self, tensor: Tensor) -> tuple[Array, Array]:
        """Return two arrays: the values of a tensor, and whether each element was written.

        If reads are not checked, an element counts as written unless it has the value of unwritten
        memory.
        """
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
        """Return (steps of this run so far, steps in total, name of the running step).

        If the number of steps depends on data, the total is 0 and the name is "". The name is also
        "" after the last step. Program `index` must be running.
        """
        program = self.compiled.programs[index]
        done = len(self.steps_run)
        return (
            done,
            max(program.length, 0),
            program.leaf_at(done).name if done < program.length else "",
        )

    def take_steps(self) -> array[int]:
        """Return the numbers of the finished run's steps, in order, and empty the list of them."""
        self._meet()
        steps = self.steps_run[:]
        # The list is emptied in place, because the function of every step uses this list's
        # `append`.
        del self.steps_run[:]
        self._past = self._past + len(steps)
        self._num_clocked = 0
        return steps

    @property
    def num_steps(self) -> int:
        """The number of steps since load."""
        return self._past + len(self.steps_run)

    def cycles(self) -> Array:
        """Return the modelled cycles since load, for each set of tiles: int64[sets].

        `Target.sets` lists the sets of tiles. Each set has its own clock.
        """
        new = self.steps_run[self._num_clocked :]
        self._num_clocked = len(self.steps_run)
        for meets, lasts in map(self.cost.by_set, new):
            self._clock = met(self._clock, meets) + lasts
        return self._clock

    def _meet(self) -> None:
        """Set the clocks of all sets of tiles to the latest of them.

        These clocks are used only for time stamps.
        """
        if self._stamps:
            self._clock[:] = self.cycles().max()

    @property
    def cost(self) -> CostModel:
        """The cost model, with the measured cycles of steps whose cycles depend on data."""
        if len(self.log.measured) > len(self._cost.measured):
            self._cost = self._cost.of_run(self.log.measured)
        return self._cost

    def _write_down(self, number: int) -> None:
        """Record an execution of step `number`, whose cycles depend on data, with its cycles."""
        self.steps_run.append(self.log.measure(number, self._cycles[number]))

    def host_write(self, tensor: Tensor, values: Array) -> None:
        """Write values of the host into a tensor."""
        self._settle()
        self.memory.write(tensor, values)
        if self._defined is not None:
            self._defined.write(tensor)

    def host_read(self, tensor: Tensor, reader: str) -> Array:
        """Return the values of a tensor to the host.

        `reader` is the name of the reading call, for errors.

        :raises UninitialisedReadError: in strict mode, if an element was never written.
        """
        values = self.peek(tensor)
        if self._defined is not None:
            self._defined.check_host_read(tensor, reader)
        return values

    def peek(self, tensor: Tensor) -> Array:
        """Return the values of a tensor, without a check that they were written."""
        self._settle()
        return self.memory.read(tensor)

    def _settle(self) -> None:
        """Carry out the delayed WriteUndefs."""
        if self._defined is not None:
            self._defined.settle()

    def _leaf(self, number: int) -> Action:
        """Return a function that checks the reads of a step, runs the step, and records it."""
        action = self._actions[number]
        recording = self._recording
        interrupts = self.interrupts
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
        look: Call = lambda: recording.note(self.steps_run[-1]), ()
        return partial(run_all, [(action, ()), (note, (number,)), look, (interrupts.check, ())])

    def _predicate(self, node: p.Node) -> Callable[[], int]:
        """Return the function that reads a node's predicate."""
        assert node.predicate is not None
        value = single(self.memory, node.predicate, node.kind)

        def read() -> int:
            self.interrupts.check()
            self._meet()
            return value()

        return (
            read if self._defined is None else self._defined.checking(self._defined.add(node), read)
        )

    @property
    def looped(self) -> dict[type[Vertex], str]:
        """The codelets that `vertex_loop=True` runs vertex by vertex: {codelet: reason}.

        Without `vertex_loop`, the dict is empty. Codelets that access registers are never in the
        dict.
        """
        if not self.mode.vertex_loop:
            return {}
        groups = (
            group for groups_of_set in self.compiled.groups.values() for group in groups_of_set
        )
        return {
            group.table.codelet: "Engine(vertex_loop=True) asks for it"
            for group in groups
            if not group.is_bulk
        }


def _registers_of(compiled: Compiled, mode: RunMode, is_changing: bool) -> Registers | None:
    """Return the registers of a machine, or None if all of them stay at 0.

    Registers can differ from 0 if the engine options set them, or if a program sets them
    (`is_changing`).
    """
    if not (mode.behaviour or is_changing):
        return None
    target = compiled.graph.target
    return Registers(target.num_tiles, target.num_worker_contexts, mode.behaviour, mode.seed)


def format_tensor(values: Array, fmt: PrintTensorFmt) -> str:
    """Return the string that PrintTensor writes for an array.

    By default, the string has seven decimals and nested brackets, and leaves out the middle of a
    long array.
    """
    text = np.array2string(
        values,
        max_line_width=fmt.max_line_width,
        threshold=fmt.summarise_threshold,
        edgeitems=fmt.edge_items,
        separator=fmt.separator,
        formatter={"float_kind": f"{{:.{fmt.digits}f}}".format},
    )
    return text.replace("[", fmt.open_bracket).replace("]", fmt.close_bracket)
