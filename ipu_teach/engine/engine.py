"""The engine: it compiles a graph and its programs, loads them on a device, and runs them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cached_property
from typing import Any, TextIO

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach._support.flags import flagged
from ipu_teach._support.progress import TrackedWork, working
from ipu_teach.compile.programs import CopyStep, Node
from ipu_teach.device import Device
from ipu_teach.engine.backend import choose_backend, one_blas_thread
from ipu_teach.engine.executable import Executable, checks_of, compile_graph
from ipu_teach.engine.host_memory import check_variables
from ipu_teach.engine.machine import Machine
from ipu_teach.engine.remote_memory import find_buffer, host_values
from ipu_teach.engine.site import RunMode
from ipu_teach.errors import (
    ControlProgramError,
    InvalidOptionError,
    StreamConnectionError,
    TensorIOStateError,
    WithoutSome,
    counted,
    did_you_mean,
    shown,
)
from ipu_teach.graph import DataStream, Graph, Tensor
from ipu_teach.graph.host_handles import HostAccess
from ipu_teach.graph.layouts import is_whole
from ipu_teach.host.options import Options, Value, control_bits, effective, parsed
from ipu_teach.host.streams import (
    CallbackFeed,
    Drain,
    Feed,
    SharedFeed,
    StreamCallback,
    drain,
    feed,
)
from ipu_teach.program import Program
from ipu_teach.report import ProgramRun, Recording, Report, print_profile_summary, tracepoint
from ipu_teach.report.compiled import CompiledProfile
from ipu_teach.report.host_times import ENGINE, TIMELINE
from ipu_teach.report.settings import InstrumentationSettings
from ipu_teach.types import Array

MOST_THREADS = 64
NOT_HERE = {
    "prepare": "load(device) does all of it.",
    "deploy": "load(device) does all of it.",
    "stop": "nothing: a run ends by itself.",
    "report_timing": "cycle_count and the report for modelled time, Python's time for the host's.",
    "get_time_stamp": "cycle_stamp for modelled time, Python's time for the host's.",
    "insert_simulated_error": "an Abort or an ErrorProgram in the program.",
    "get_graph_profile": "engine.report.",
    "get_execution_profile": "engine.report.",
}


@flagged
class Engine(WithoutSome):
    """A compiled program that can be loaded on a device and run.

    Write `Engine(graph, program)`, `Engine(graph, [first, second])` or `Engine(executable)`. The
    constructor checks the graph, raises an error if the graph or a program is wrong, and models the
    cost. Then call `load(device)`, connect the streams, and call `run(i)` to run program number i.
    `load` initialises the memory of the device, which keeps its contents from one run to the next.
    A device holds one program at a time: if another engine has been loaded on the device in the
    meantime, load this engine again before the next run.

    Arguments:

    * `options`: a dict of Poplar's engine options, which `host.options` lists. One further option,
      `codelet_prices`, is "compiled" or "by hand": it says how the instructions of your own
      codelets are assumed to be written (docs/model.md).
    * `strict`: with True (the default), races, reads of unwritten memory and codelets of unknown
      cost are errors. Codelets that draw random numbers on the host or read the host's clock count
      as codelets of unknown cost. `strict=False` permits all three. A dict such as `{"races":
      False}` permits only some of them. Its keys may be "races", "uninitialised" and "estimates". A
      compute set with races then runs vertex by vertex, and the last vertex to write wins.
    * `merge_copies`: whether neighbouring copies that are independent become one step. The results
      do not depend on it. The default is the option `mergeCopies`, which is True.
    * `exact`: whether all results are bit for bit those of a plain loop over the vertices. With
      `exact=False`, products of matrices may be joined into larger ones, and BLAS adds their terms
      in another order. The error of a FLOAT product of k terms is then less than k * 6e-8 times the
      sum of the terms' magnitudes. A HALF product has the same error bound before it is rounded to
      HALF.
    * `vertex_loop`: whether each vertex runs by itself in plain Python. This is slow, and serves as
      the reference for the faster ways of running vertices.
    * `shuffle`: a seed. The vertices of a compute set run in an order drawn from this seed; the
      results of a correct program do not depend on the order.
    * `threads`: the number of host threads, 1 to 64, that compute a large batch of vertices. The
      results do not depend on this number. With `exact=False`, only one thread is used.
    * `backend`: "numpy", "cupy" (needs a CUDA GPU), or None for CuPy if it is available and
      IPU_TEACH_GPU is not 0. On a GPU, sums, products of matrices and transcendental functions
      differ in the last digits from numpy's, and codelets whose control flow depends on data run on
      the host. The "cupy" backend has not been tried on a GPU yet.

    With an `Executable`, do not pass programs, `strict` or `merge_copies`, because they were fixed
    when it was compiled.
    """

    not_here = NOT_HERE

    def __init__(
        self,
        graph: Graph | Executable,
        programs: Program | Sequence[Program] | Mapping[str, Value] | None = None,
        options: Mapping[str, Value] | None = None,
        *,
        strict: bool | Mapping[str, bool] | None = None,
        merge_copies: bool | None = None,
        exact: bool = True,
        vertex_loop: bool = False,
        shuffle: int | None = None,
        threads: int = 1,
        backend: str | None = None,
    ) -> None:
        self._device: Device | None = None
        self._made = time.perf_counter_ns()
        _check_threads(threads)
        self._backend = choose_backend(backend)
        if isinstance(graph, Executable) and options is None and isinstance(programs, Mapping):
            programs, options = None, programs
        self._executable = (
            _compiled_already(graph, programs, strict=strict, merge_copies=merge_copies)
            if isinstance(graph, Executable)
            else compile_graph(
                graph,
                programs,  # type: ignore[arg-type]
                options,
                strict=True if strict is None else strict,
                merge_copies=merge_copies,
            )
        )
        self._options: Options = effective(parsed(options), self._executable.given_options)
        checks = checks_of(self._executable.checks, self._options)
        self._mode = RunMode(
            exact=bool(exact),
            vertex_loop=vertex_loop,
            shuffle=shuffle,
            threads=int(threads),
            checks_reads=checks["uninitialised"],
            checks_races=checks["races"],
            behaviour=control_bits(self._options),
            seed=int(self._options["prng.seed"] or 0),
        )
        # If the program does not fit into memory, the engine has a report but cannot run.
        if self._executable.out_of_memory is None:
            check_variables(self._executable.compiled, self._mode.checks_reads)
        self._compiled = self._executable.compiled
        self._cost = self._executable.cost.priced(self._options["codelet_prices"])
        self._target = self._executable.target
        self._feeds: dict[str, Feed] = {}
        self._drains: dict[str, Drain] = {}
        self._machine: Machine | None = None
        self._ticket: object = None
        self._running = False
        self._recording = bool(self._options["debug.instrument"])
        self._recording &= self._options["debug.computeInstrumentationLevel"] != "Off"
        self._current: ProgramRun | None = None
        self._values: Recording | None = None
        self._print_to: TextIO | None = None
        self._blas = one_blas_thread()

    # Methods that load the program

    def load(self, device: Device | None = None) -> None:
        """Load the program on `device`, and set its memory to the initial values.

        Without `device`, load the program again on the device of the last call. `StreamCallback`s
        discard their prefetched data, but connected arrays and iterators continue at their current
        position.

        :raises TensorIOStateError: if there is no device, if the graph was built for a different
            machine, or if the engine is running.
        :raises GraphMemoryAllocationError: if the program does not fit into the memory of the tiles
            or into streaming memory, or if this computer lacks the memory for the remote buffers.
        """
        with tracepoint("load", ENGINE), working("load") as work:
            self._load(self._device if device is None else device, work)

    def _load(self, device: Device | None, work: TrackedWork) -> None:
        if not isinstance(device, Device):
            raise TensorIOStateError(f"""load() was given {shown(device)}, which is not a device.
                next:  give it IPUModel(…).create_device().""")
        if replace(device.target, codelet_prices=self._target.codelet_prices) != self._target:
            names = [f.name for f in fields(self._target)]
            name = next(n for n in names if getattr(device.target, n) != getattr(self._target, n))
            raise TensorIOStateError(f"""The engine was compiled for another machine than this
                device.
                where: {name}: {getattr(self._target, name)!r} in the graph,
                {getattr(device.target, name)!r} on the device
                next:  build the graph for the device: Graph(device.target).""")
        if self._executable.out_of_memory is not None:
            raise self._executable.out_of_memory
        self._refuse_while_running("load()")
        machine = Machine(
            compiled=self._compiled,
            cost=self._cost,
            feeds=self._feeds,
            drains=self._drains,
            backend=self._backend,
            mode=self._mode,
            work=work,
        )
        with machine.interrupts:  # Delay Ctrl-C until the engine is completely loaded.
            self._take(machine, device)

    def _take(self, machine: Machine, device: Device) -> None:
        """Use `machine`, which is loaded on `device`, as the machine of this engine."""
        self._machine = machine
        machine.print_to = self._print_to
        if self._values is not None:
            self._machine.record(self._values)
        self._device = device
        self._ticket = device.program = object()
        for connected in self._feeds.values():
            if isinstance(connected, (CallbackFeed, SharedFeed)):
                connected.invalidate()

    @property
    def is_loaded(self) -> bool:
        """Whether the engine is loaded, and is the last engine that was loaded on its device."""
        return (
            self._machine is not None
            and self._device is not None
            and self._device.program is self._ticket
        )

    @property
    def backend(self) -> str:
        """The name of the array module that computes: "numpy", or "cupy" on a GPU."""
        return self._backend.name

    def _loaded(self) -> Machine:
        """Return the loaded machine.

        :raises TensorIOStateError: if the engine is not loaded.
        """
        if self._machine is None or self._device is None:
            raise TensorIOStateError("""The engine is not loaded on a device.
                next:  call engine.load(device) first.""")
        if self._device.program is not self._ticket:
            raise TensorIOStateError(f"""Another engine has since been loaded on this
                device, but a device holds only one program.
                where: {self._device!r}
                next:  call engine.load(device) again, which starts from the initial values. Or give
                each engine its own device.""")
        return self._machine

    # Methods that run programs

    def run(self, index: int = 0, name: str | None = None) -> None:
        """Run program number `index`. The report uses `name` as the name of this run.

        :raises ControlProgramError: if there is no such program.
        :raises InvalidOptionError: if `name` is not a string.
        :raises TensorIOStateError: if the engine is not loaded, or is running.
        :raises StreamConnectionError: before the run, if one of the program's streams is not
            connected.
        """
        num_programs = len(self._compiled.programs)
        if not is_whole(index) or not 0 <= index < num_programs:
            advice = (
                "call run(0), because the engine has only one program"
                if num_programs == 1
                else f"give run() a program number from 0 to {num_programs - 1}"
            )
            raise ControlProgramError(f"""There is no program {shown(index)}.
                next:  {advice}.""")
        if name is not None and not isinstance(name, str):
            raise InvalidOptionError(
                f"run() was given the name {shown(name)}, which is not text.",
                next_step='give text: run(0, "training").',
            )
        machine = self._loaded()
        self._check_streams(self._compiled.programs[index])
        self._refuse_while_running("run()")
        label = f"run {name or index}"
        with (
            tracepoint(label, ENGINE),
            working(label, look=lambda: machine.standing(int(index))),
            machine.interrupts,
            self._recorded(machine, int(index), name or ""),
            np.errstate(all="ignore"),
            self._blas(),
        ):
            try:
                machine.run(int(index))
            except KeyboardInterrupt as stop:
                steps_done, total_steps, step_name = machine.standing(int(index))
                count_text = (
                    f"{steps_done:,} of {total_steps:,}" if total_steps else f"{steps_done:,}"
                )
                stop.args = (
                    f"stopped after {count_text} supersteps, before {step_name or 'the end'}",
                )
                raise
            self._backend.finish()

    @contextmanager
    def _recorded(self, machine: Machine, index: int, name: str) -> Iterator[None]:
        """Return a context that records the steps of a run, even if it is interrupted or fails."""
        recording = self._recording
        self._running = True
        self._current = ProgramRun(index, name, machine.log.total, None) if recording else None
        try:
            yield
        finally:
            self._running = False
            steps = machine.take_steps()
            if not recording:
                machine.log.unrecorded += len(steps)
            # `_current` is None if the profile was reset during the run.
            elif self._current is not None:
                machine.log.note(replace(self._current, last=machine.log.total + len(steps)))
                machine.log.add(steps)
            self._current = None
            if self._values is not None:
                self._values.report = self.report

    def _refuse_while_running(self, call: str) -> None:
        if self._running:
            raise TensorIOStateError(f"""{call} was called while the engine runs, by a function that
                is connected to a stream.
                next:  wait until the run has ended.""")

    def load_and_run(self, device: Device, index: int = 0) -> None:
        """Call `load(device)`, then `run(index)`."""
        self.load(device)
        self.run(index)

    def _check_streams(self, program: Node) -> None:
        """Raise `StreamConnectionError` if a stream of a program is not connected."""
        for leaf in program.leaves():
            step = self._compiled.steps[leaf.step]
            for side in (step.source, step.destination) if isinstance(step, CopyStep) else ():
                if (
                    isinstance(side, DataStream)
                    and side.handle not in self._feeds
                    and side.handle not in self._drains
                ):
                    raise StreamConnectionError(f"""The stream {side.handle!r} is not connected.
                        where: Copy({leaf.name})
                        next:  engine.connect_stream({side.handle!r}, …) before run.""")

    # Methods that exchange data with the host

    def connect_stream(self, handle: str, data: Any, wrap: bool = True) -> None:
        """Connect a stream to host data, and replace any earlier connection of the stream.

        A stream to the device takes an array, an iterable of arrays, a function that returns an
        array, or a `StreamCallback`. A stream to the host takes an array to fill, a list to append
        to, a function to call with each array, or a `StreamCallback`.

        Each transfer uses the next `num_elements` elements of an array. When the array is used up,
        the next transfer begins at its start again. With `wrap=False`, every transfer uses the
        first `num_elements` elements.

        In a replicated graph, each transfer of an array contains the elements of all replicas, one
        replica after another. If the stream has the mode BROADCAST, each transfer contains the
        elements of one replica, and all replicas receive them. Raises `StreamConnectionError` for
        an unknown stream or unsuitable data.
        """
        stream = self._stream(handle)
        if stream.to_device:
            new_feed = feed(stream, data, wrap)
            before = self._feeds.get(handle)
            if isinstance(before, (CallbackFeed, SharedFeed)):
                before.invalidate()
            self._feeds[handle] = new_feed
        else:
            self._drains[handle] = drain(stream, data, wrap)

    def connect_stream_to_callback(
        self, handle: str, callback: Callable[..., ArrayLike | None] | StreamCallback
    ) -> None:
        """Connect a stream to a `StreamCallback` or a function.

        For a stream to the device, a function without parameters returns the next array, and a
        function with one parameter fills the array that it gets. For a stream to the host, the
        function gets each array.

        In a replicated graph, the callback is called once for each replica. If it has a parameter
        `replica`, it gets the number of the replica there. For a stream with the mode BROADCAST,
        there is only one call for all replicas. Raises `StreamConnectionError` for an unknown
        stream or an unsuitable callback.
        """
        if not callable(callback) and not isinstance(callback, StreamCallback):
            raise StreamConnectionError(f"""The stream {shown(handle)} was given {shown(callback)},
                which is not a function.
                next:  give a function; connect arrays, iterators and lists with connect_stream.""")
        self.connect_stream(handle, callback)

    def list_streams(self) -> tuple[DataStream, ...]:
        """Return all streams of the graph, in the order in which they were added.

        Each stream has a `handle` and a bool `to_device`, which is False for a stream to the host.
        """
        return tuple(self._compiled.streams.values())

    def _stream(self, handle: str) -> DataStream:
        """Return the stream of that name.

        :raises StreamConnectionError: if there is no such stream.
        """
        stream = self._compiled.streams.get(handle) if isinstance(handle, str) else None
        if stream is None:
            names = ", ".join(map(repr, sorted(self._compiled.streams)))
            advice = f"{did_you_mean(handle, self._compiled.streams)}The streams are {names}."
            if isinstance(handle, DataStream):
                advice = f"name it by its handle: connect_stream({handle.handle!r}, …)."
            elif not names:
                advice = (
                    "add one with graph.add_host_to_device_fifo or graph.add_device_to_host_fifo "
                    "before you create the engine."
                )
            raise StreamConnectionError(f"There is no stream {shown(handle)}.", next_step=advice)
        return stream

    def write_tensor(self, handle: str, values: ArrayLike) -> None:
        """Write the complete tensor that `graph.create_host_write` registered under `handle`.

        In a graph of R replicas, `values` for a tensor of shape s have the shape (R, *s). If they
        have only the shape s, all replicas get the same values. Raises `TensorIOStateError` for an
        unknown handle or unsuitable values.
        """
        access = self._access(handle, write=True)
        advice = "give one value for each element, in the order of the tensor"
        shape = access.tensor.shape
        if access.replicas > 1:
            advice = f"give an array of shape {shape}, or {shape[1:]} for all replicas"
        call = f"write_tensor({handle!r})"
        host_array = host_values(
            call, values, access.tensor, advice=advice, replicas=access.replicas
        )
        self._loaded().host_write(access.tensor, host_array)

    def read_tensor(self, handle: str) -> Array:
        """Return the complete tensor that `graph.create_host_read` registered under `handle`.

        The array has the shape and dtype of the tensor. In a replicated graph, a further first axis
        numbers the replicas. Raises `TensorIOStateError` for an unknown handle, and
        `UninitialisedReadError` for an element that was never written. With
        `strict={"uninitialised": False}`, there is no such error: the element is NaN, the smallest
        integer or True.
        """
        access = self._access(handle, write=False)
        return self._loaded().host_read(access.tensor, f"read_tensor({handle!r})")

    def _peek(self, handle: str) -> Array:
        """Return the same values as `read_tensor`, but without an error for unwritten elements."""
        return self._loaded().peek(self._access(handle, write=False).tensor)

    def _written(self, handle: str) -> Array:
        """Return a bool for each element of the array that `_peek` returns: was it written?"""
        return self._loaded().look(self._access(handle, write=False).tensor)[1]

    def _access(self, handle: str, write: bool) -> HostAccess:
        """Return the `HostAccess` that is registered under `handle` for writing or for reading.

        :raises TensorIOStateError: if the graph has no such handle for this direction.
        """
        access = self._compiled.host_accesses.get(handle) if isinstance(handle, str) else None
        if access is None or access.write != write:
            verb = "write" if write else "read"
            handles = sorted(h for h, a in self._compiled.host_accesses.items() if a.write == write)
            advice = did_you_mean(handle, handles)
            if handles:
                advice += f"The handles to {verb} are {', '.join(map(repr, handles))}; "
            raise TensorIOStateError(f"""The host cannot {verb} under the handle {shown(handle)}.
                where: {"" if access is None else f"{handle!r} is {access!r}"}
                next:  {advice}call graph.create_host_{verb}('name', tensor) before you create the
                engine.""")
        return access

    def copy_to_remote_buffer(
        self, values: ArrayLike, handle: str, row: int = 0, replica: int = 0
    ) -> None:
        """Write one row of a remote buffer.

        `handle` is the name of the buffer. Each replica has its own rows: the call writes row
        number `row` of replica number `replica`. `values` has `num_elements` elements, the length
        of a row. Raises `TensorIOStateError` for an unknown buffer, row or replica, or unsuitable
        values.
        """
        buffer, number = find_buffer(
            self._compiled.remote_buffers, handle, row, replica, call="copy_to_remote_buffer()"
        )
        rows = self._loaded().remote[buffer.handle]
        advice = "give the values of one row, and call it once for each row"
        rows.store(
            [number], host_values(f"copy_to_remote_buffer({handle!r})", values, buffer, advice)
        )

    def copy_from_remote_buffer(self, handle: str, row: int = 0, replica: int = 0) -> Array:
        """Return one row of a remote buffer, as a new array of the buffer's dtype.

        `handle` is the name of the buffer. Each replica has its own rows: the call reads row number
        `row` of replica number `replica`. The array has the shape (num_elements,). Raises
        `TensorIOStateError` for an unknown buffer, row or replica, and `UninitialisedReadError` for
        a row that was never written.
        """
        buffer, number = find_buffer(
            self._compiled.remote_buffers, handle, row, replica, call="copy_from_remote_buffer()"
        )
        row_values: Array = self._loaded().remote[buffer.handle].load([number], "The host")[0]
        return row_values

    def set_print_tensor_stream(self, stream: TextIO | None) -> None:
        """Set the text file to which PrintTensor writes. None stands for standard error."""
        self._print_to = stream
        if self._machine is not None:
            self._machine.print_to = stream

    # Methods for recordings, reports and profiles

    def record(self, *tensors: Tensor, most: int = 100_000) -> Recording:
        """Return a `Recording` of the values of `tensors` and of their changes, for `show.run`.

        Recording begins with the next run. The `Recording` grows during each run until the sum of
        its steps and its changed elements is `most`; after that, it only counts the steps. Another
        call of `record` replaces the recording, and `load` clears and restarts it. The tensors may
        have at most 65,536 elements in total. Recorded runs are slower. Raises `InvalidOptionError`
        for unsuitable arguments, and `TensorIOStateError` during a run.
        """
        self._refuse_while_running("record()")
        images = [self._compiled.image(t) if isinstance(t, Tensor) else t for t in tensors]
        self._values = Recording(self._compiled, images, most)
        if self._machine is not None:
            self._machine.record(self._values)
        return self._values

    @cached_property
    def _profile(self) -> CompiledProfile:
        if self._cost is self._executable.cost:
            return self._executable.profile
        return CompiledProfile(self._cost)

    @property
    def report(self) -> Report:
        """An immutable report of the compiled program and of its recorded runs since load.

        Before the first load, it contains only the compiled program. Runs before the last call of
        `reset_execution_profile` are not included.
        """
        if self._machine is None:
            return self._executable.report
        going = self._machine.steps_run if self._current is not None else ()
        # The machine's costs are used, because they include the cycles that were measured in its
        # runs for steps whose cycles depend on data.
        cost = self._machine.cost
        looped = self._machine.looped
        profile = (
            self._profile if cost is self._cost and not looped else CompiledProfile(cost, looped)
        )
        settings = InstrumentationSettings.of(self._options)
        return Report(
            profile,
            self._machine.log.snapshot(going, self._current),
            TIMELINE.snapshot(self._made),
            settings,
        )

    def get_report(self) -> Report:
        """Return `report`. In Poplar, this method has the same name."""
        return self.report

    @property
    def options(self) -> Options:
        """The values of all engine options, keyed by Poplar's option names; read-only."""
        return self._options

    @property
    def executable(self) -> Executable:
        """The executable of this engine, which can be saved or given to another engine."""
        return self._executable

    def reset_execution_profile(self) -> None:
        """Discard the profile of all runs so far. Memory and streams do not change."""
        if self._machine is not None:
            self._machine.log.forget()
        self._current = None

    def enable_execution_profiling(self) -> None:
        """Record runs in the report from the next run on, as a new engine does by default."""
        self._recording = True

    def disable_execution_profiling(self) -> None:
        """Stop recording runs in the report from the next run on.

        A report contains the number of steps that were not recorded.
        """
        self._recording = False

    def print_profile_summary(
        self,
        sections: Sequence[str] | None = None,
        *,
        show_execution_steps: bool = False,
        show_var_storage: bool = False,
    ) -> None:
        """Print the profile as Poplar does; `sections` selects parts of it.

        `ipu_teach.report.print_profile_summary` explains the sections and options.
        """
        print_profile_summary(
            self.report,
            sections,
            show_execution_steps=show_execution_steps,
            show_var_storage=show_var_storage,
        )

    def __repr__(self) -> str:
        loaded = (
            "not loaded"
            if self._machine is None
            else f"loaded, {self._machine.num_steps:,} steps run"
        )
        return f"Engine({counted(len(self._compiled.programs), 'program')}, {loaded})"


def _check_threads(threads: int) -> None:
    if not is_whole(threads) or not 1 <= threads <= MOST_THREADS:
        raise InvalidOptionError(f"""Engine was given threads={shown(threads)}, which is not a
            number of threads that it can use.
            next:  give a whole number from 1 to {MOST_THREADS}.""")


def _compiled_already(executable: Executable, programs: object, **chosen: object) -> Executable:
    """Return `executable`.

    :raises ControlProgramError: if programs are also passed.
    :raises InvalidOptionError: if another argument for compiling is also passed.
    """
    if programs is not None:
        raise ControlProgramError(f"""Engine was given an executable, but also {shown(programs)}
            as its programs.
            next:  write Engine(executable): an executable has its own programs.""")
    for name, value in chosen.items():
        if value is not None:
            raise InvalidOptionError(f"""Engine was given {name}={shown(value)} for an
                executable, which is already compiled.
                next:  set {name} when the graph is compiled: compile_graph(graph, programs,
                {name}=…).""")
    return executable
