"""The engine: compiles a graph and its programs, loads them on a device, and runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TextIO

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.compile import Compiled, compile_graph
from ipu_teach.compile.programs import CopyStep, Node
from ipu_teach.cost import CostModel
from ipu_teach.device import Device
from ipu_teach.engine.backend import one_blas_thread
from ipu_teach.engine.machine import Machine
from ipu_teach.engine.streams import Drain, Feed, drain, feed
from ipu_teach.errors import (
    ControlProgramError,
    InvalidOptionError,
    StreamConnectionError,
    TensorCreationError,
    TensorIOStateError,
    did_you_mean,
    shown,
)
from ipu_teach.graph.graph import DataStream, Graph, HostAccess
from ipu_teach.program import Program
from ipu_teach.report import Report, print_profile_summary
from ipu_teach.types import Array, to_host_array


class Engine:
    """A compiled program: `Engine(graph, program)` or `Engine(graph, [first, second])`.

    Compiling checks everything (see `compile.checks`), models the cost, and raises the errors of a wrong graph. Then
    `load(device)`, connect the streams, and `run(i)` the program with index i. The machine's memory is initialised at load
    and kept from run to run.

    `strict`: races, reads of what was never written, and codelets of unknown cost are errors. `strict=False` lets all three
    pass; `strict={"races": False}` one of them (`races`, `uninitialised`, `estimates`). A compute set that races then runs
    vertex by vertex, so that the last vertex wins. `shuffle`: a seed; vertices of a compute set run in an order drawn from
    it, which no result of a right program depends on. `exact`: no sum is reordered; results equal the plain vertex loop bit
    for bit on the same machine (the only mode so far). `vertex_loop`: run every vertex by itself in plain Python, slowly;
    it is what the fast paths are compared with.
    """

    def __init__(
        self,
        graph: Graph,
        programs: Program | Sequence[Program],
        *,
        strict: bool | Mapping[str, bool] = True,
        exact: bool = True,
        vertex_loop: bool = False,
        shuffle: int | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise ControlProgramError(
                f"Engine was given {shown(graph)} as its graph.", next_step="write Engine(graph, program), in this order."
            )
        listed = [programs] if isinstance(programs, Program) else programs
        if not isinstance(listed, (list, tuple)) or not listed or not all(isinstance(p, Program) for p in listed):
            raise ControlProgramError(
                f"Engine was given {shown(programs)} as its programs.",
                next_step="give one program, or a list of at least one: Engine(graph, [first, second]).",
            )
        if not exact:
            raise InvalidOptionError(
                "exact=False is not offered yet: every result equals the plain vertex loop.", next_step="leave it out."
            )
        graph = graph.get_top_level_graph()
        self._target = graph.target
        self._vertex_loop = vertex_loop
        self._shuffle = shuffle
        self._checks = _checks(strict)
        self._compiled: Compiled = _compile(graph, listed, self._checks["races"])
        self._cost = CostModel(self._compiled)
        self._cost.check_memory()
        if self._checks["estimates"]:
            self._cost.check_estimates()
        self._feeds: dict[str, Feed] = {}
        self._drains: dict[str, Drain] = {}
        self._machine: Machine | None = None
        self._print_to: TextIO | None = None
        self._blas = one_blas_thread()

    # Loading

    def load(self, device: Device) -> None:
        """Put the program on `device`: memory is made and initialised, kernels are bound to it. May be repeated."""
        if not isinstance(device, Device):
            raise TensorIOStateError(
                f"load() was given {shown(device)}, which is no device.", next_step="give it IPUModel(…).create_device()."
            )
        if device.target != self._target:
            names = [f.name for f in fields(self._target)]
            name = next(n for n in names if getattr(device.target, n) != getattr(self._target, n))
            raise TensorIOStateError(
                "The engine was compiled for another machine than this device.",
                where=f"{name}: {getattr(self._target, name)!r} in the graph, {getattr(device.target, name)!r} on the device",
                next_step="build the graph for the device: Graph(device.target).",
            )
        self._machine = Machine(
            self._compiled,
            self._cost,
            self._feeds,
            self._drains,
            vertex_loop=self._vertex_loop,
            check_reads=self._checks["uninitialised"],
            shuffle=self._shuffle,
        )
        self._machine.print_to = self._print_to

    def _loaded(self) -> Machine:
        if self._machine is None:
            raise TensorIOStateError(
                "The engine is not loaded: there is no machine yet.", next_step="engine.load(device) first."
            )
        return self._machine

    # Running

    def run(self, index: int = 0) -> None:
        """Run program `index`. Raises `StreamConnectionError` if a stream it uses is unconnected; nothing has run then."""
        whole = isinstance(index, (int, np.integer)) and not isinstance(index, bool)
        count = len(self._compiled.programs)
        if not whole or not 0 <= index < count:
            raise ControlProgramError(
                f"There is no program {shown(index)}.",
                next_step="the engine has one program: run(0), or run()."
                if count == 1
                else f"the engine has the programs 0 to {count - 1}.",
            )
        machine = self._loaded()
        self._check_streams(self._compiled.programs[index])
        with np.errstate(all="ignore"), self._blas.limit(limits=1):
            machine.run(int(index))

    def load_and_run(self, device: Device, index: int = 0) -> None:
        """`load(device)`, then `run(index)`."""
        self.load(device)
        self.run(index)

    def _check_streams(self, program: Node) -> None:
        for leaf in program.leaves():
            step = self._compiled.steps[leaf.step]
            for side in (step.source, step.destination) if isinstance(step, CopyStep) else ():
                if isinstance(side, DataStream) and side.handle not in self._feeds and side.handle not in self._drains:
                    raise StreamConnectionError(
                        f"The stream {side.handle!r} is not connected.",
                        where=f"Copy({leaf.name})",
                        next_step=f"engine.connect_stream({side.handle!r}, …) before run.",
                    )

    # The host's side

    def connect_stream(self, handle: str, data: Any) -> None:
        """Connect a stream to host data.

        Host to device: an array (each transfer takes the next `num_elements`, then starts over), an iterable of arrays, or a
        function that returns one. Device to host: an array to fill, a list to append to, or a function to call.
        """
        stream = self._compiled.streams.get(handle) if isinstance(handle, str) else None
        if stream is None:
            names = ", ".join(map(repr, sorted(self._compiled.streams)))
            raise StreamConnectionError(
                f"There is no stream {shown(handle)}.",
                next_step=f"{did_you_mean(handle, self._compiled.streams)}The streams are {names}."
                if names
                else "make one with graph.add_host_to_device_fifo or graph.add_device_to_host_fifo, then the engine.",
            )
        if stream.to_device:
            self._feeds[handle] = feed(stream, data)
        else:
            self._drains[handle] = drain(stream, data)

    def connect_stream_to_callback(self, handle: str, callback: Callable[..., Any]) -> None:
        """`connect_stream` with a function: it returns the next transfer, or takes the one that came."""
        if not callable(callback):
            raise StreamConnectionError(
                f"The stream {shown(handle)} was given {shown(callback)}, which is no function.",
                next_step="give a function; connect arrays, iterators and lists with connect_stream.",
            )
        self.connect_stream(handle, callback)

    def write_tensor(self, handle: str, values: ArrayLike) -> None:
        """Write a whole tensor under the handle of `graph.create_host_write`."""
        access = self._access(handle, write=True)
        try:
            given = to_host_array(values, access.tensor.dtype, f"write_tensor({handle!r})")
        except TensorCreationError as error:
            raise TensorIOStateError(error.tried, next_step=error.next_step) from None
        if given.size != access.tensor.num_elements:
            raise TensorIOStateError(
                f"write_tensor({handle!r}) was given {given.size:,} values for {access.tensor.num_elements:,} elements.",
                where=repr(access.tensor),
                next_step="give one value for each element, in the order of the tensor.",
            )
        self._loaded().host_write(access.tensor, given)

    def read_tensor(self, handle: str) -> Array:
        """Read a whole tensor, in its shape and dtype, under the handle of `graph.create_host_read`."""
        access = self._access(handle, write=False)
        return self._loaded().memory.read(access.tensor)

    def _access(self, handle: str, write: bool) -> HostAccess:
        access = self._compiled.host_accesses.get(handle) if isinstance(handle, str) else None
        if access is None or access.write != write:
            verb = "write" if write else "read"
            near = did_you_mean(handle, [h for h, a in self._compiled.host_accesses.items() if a.write == write])
            raise TensorIOStateError(
                f"The host cannot {verb} under the handle {shown(handle)}.",
                where="" if access is None else f"{handle!r} is {access!r}",
                next_step=f"{near}graph.create_host_{verb}('name', tensor) makes one, before the engine is made.",
            )
        return access

    def set_print_tensor_stream(self, stream: TextIO | None) -> None:
        """Where PrintTensor writes: a text file or the like; None for standard error."""
        self._print_to = stream
        if self._machine is not None:
            self._machine.print_to = stream

    # The profile

    @property
    def report(self) -> Report:
        """What was compiled and what has run since load, as one immutable value. Later runs do not change it."""
        steps = self._machine.steps_run if self._machine is not None else ()
        return Report(self._cost, np.array(steps, np.int32))

    def print_profile_summary(self, sections: Sequence[str] | None = None, *, show_execution_steps: bool = False) -> None:
        """Print the profile in Poplar's words; `sections` picks some of its parts, see `report.print_profile_summary`."""
        print_profile_summary(self.report, sections, show_execution_steps=show_execution_steps)

    def __repr__(self) -> str:
        loaded = "not loaded" if self._machine is None else f"loaded, {len(self._machine.steps_run):,} steps run"
        count = len(self._compiled.programs)
        return f"Engine({count} program{'s' if count > 1 else ''}, {loaded})"


CHECKS = ("races", "uninitialised", "estimates")


def _checks(strict: bool | Mapping[str, bool]) -> dict[str, bool]:
    """For each check whether it is on."""
    if isinstance(strict, bool):
        return dict.fromkeys(CHECKS, strict)
    if not isinstance(strict, Mapping) or not all(n in CHECKS and isinstance(v, bool) for n, v in strict.items()):
        raise InvalidOptionError(
            f"strict was given {shown(strict)}.",
            next_step=f'give True, False, or a dict such as {{"races": False}}; the checks are {", ".join(CHECKS)}.',
        )
    return {**dict.fromkeys(CHECKS, True), **strict}


def _compile(graph: Graph, programs: Sequence[Program], races: bool) -> Compiled:
    try:
        return compile_graph(graph, programs, check_races=races)
    except RecursionError:
        raise ControlProgramError(
            "The programs are nested too deeply to compile.", next_step="put programs side by side in one Sequence."
        ) from None
