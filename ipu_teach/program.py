"""Control programs: what runs in which order.

A program is a tree. Building it runs nothing; an Engine compiles it and `run` walks it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import numpy as np

from ipu_teach.errors import ControlProgramError, PoplarTypeError, counted, shown
from ipu_teach.graph.graph import ComputeSet, DataStream
from ipu_teach.graph.tensor import Tensor

MOST_REPEATS = 10**12  # of one Repeat; a step takes some microseconds


class Program:
    """The base of all control programs."""

    def children(self) -> tuple[Program, ...]:
        """The programs inside this one, in order."""
        return ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _program(given: object, where: str) -> Program:
    if isinstance(given, Program):
        return given
    if isinstance(given, ComputeSet):
        raise ControlProgramError(
            f"{where} was given the compute set {given.name!r}.", next_step="wrap it: Execute(compute_set)."
        )
    if isinstance(given, type) and issubclass(given, Program):
        raise ControlProgramError(
            f"{where} was given the class {given.__name__} and not a program.", next_step=f"make one: {given.__name__}(…)."
        )
    raise ControlProgramError(
        f"{where} was given {shown(given)}, which is no program.", next_step="give Execute, Copy, Repeat or Sequence."
    )


_NO_LISTS = (str, bytes, dict, Tensor, np.ndarray)  # can be walked through, and are no list of programs


class Sequence(Program):
    """Programs one after another: `Sequence(a, b)`, `Sequence([a, b])`, or `add` them later."""

    def __init__(self, *programs: Program | Iterable[Program], name: str = "") -> None:
        self.name = str(name)
        self.programs: list[Program] = []
        for given in programs:
            several = isinstance(given, Iterable) and not isinstance(given, (Program, *_NO_LISTS))
            for item in cast("Iterable[Program]", given if several else [given]):
                self.add(item)

    def add(self, program: Program) -> Sequence:
        """Append one program; returns self."""
        self.programs.append(_program(program, "Sequence"))
        return self

    def children(self) -> tuple[Program, ...]:
        return tuple(self.programs)

    def __repr__(self) -> str:
        return f"Sequence({self.name + ', ' if self.name else ''}{counted(len(self.programs), 'program')})"


class Execute(Program):
    """Run a compute set: one superstep of exchange, sync and compute."""

    def __init__(self, compute_set: ComputeSet) -> None:
        if not isinstance(compute_set, ComputeSet):
            raise ControlProgramError(
                f"Execute was given {shown(compute_set)}.", next_step="give a compute set made with graph.add_compute_set."
            )
        self.compute_set = compute_set

    def __repr__(self) -> str:
        return f"Execute({self.compute_set.name})"


class Copy(Program):
    """Move elements: tensor to tensor, stream to tensor, or tensor to stream, in the order of the views.

    Both sides have the same number of elements and the same dtype; their shapes may differ. Raises
    `ControlProgramError` and `PoplarTypeError`.
    """

    def __init__(self, source: Tensor | DataStream, destination: Tensor | DataStream) -> None:
        for side in (source, destination):
            if not isinstance(side, (Tensor, DataStream)):
                raise ControlProgramError(f"Copy was given {shown(side)}.", next_step="copy between tensors and streams.")
        if isinstance(source, DataStream) and isinstance(destination, DataStream):
            raise ControlProgramError(
                "Copy was given two streams.",
                where=f"{source!r} to {destination!r}",
                next_step="copy from the first into a tensor, and from the tensor into the second.",
            )
        if isinstance(source, DataStream) and not source.to_device:
            raise ControlProgramError(
                f"Copy reads from the stream {source.handle!r}, which runs from device to host.",
                where=repr(source),
                next_step="write Copy(tensor, stream), or make the stream with graph.add_host_to_device_fifo.",
            )
        if isinstance(destination, DataStream) and destination.to_device:
            raise ControlProgramError(
                f"Copy writes to the stream {destination.handle!r}, which runs from host to device.",
                where=repr(destination),
                next_step="write Copy(stream, tensor), or make the stream with graph.add_device_to_host_fifo.",
            )
        if isinstance(source, Tensor) and isinstance(destination, Tensor) and source.graph is not destination.graph:
            raise ControlProgramError(
                "Copy was given tensors of two graphs.",
                where=f"{source!r} to {destination!r}",
                next_step="use one graph throughout.",
            )
        if source.dtype is not destination.dtype:
            raise PoplarTypeError(
                f"Copy was given a source of {source.dtype.__name__} and a destination of {destination.dtype.__name__}.",
                where=f"{source!r} to {destination!r}",
                next_step="a copy moves bits and converts nothing; use one dtype for both, or cast with popops.cast first.",
            )
        if source.num_elements != destination.num_elements:
            raise ControlProgramError(
                f"Copy was given a source of {source.num_elements:,} elements and a destination of "
                f"{destination.num_elements:,}.",
                where=f"{source!r} to {destination!r}",
                next_step="make both sides equal: slice the longer one, or change the size of the stream.",
            )
        self.source = source
        self.destination = destination

    def __repr__(self) -> str:
        def name(side: Tensor | DataStream) -> str:
            return side.handle if isinstance(side, DataStream) else side.graph.describe(side)

        return f"Copy({name(self.source)} to {name(self.destination)})"


class Repeat(Program):
    """Run `body` `count` times; the count is fixed when the program is compiled and may be 0."""

    def __init__(self, count: int, body: Program) -> None:
        if not isinstance(count, (int, np.integer)) or isinstance(count, bool) or not 0 <= count <= MOST_REPEATS:
            raise ControlProgramError(
                f"Repeat was given the count {shown(count)}.",
                next_step=f"give a whole number from 0 to {MOST_REPEATS:,}, and then the program: Repeat(10, body).",
            )
        self.count = int(count)
        self.body = _program(body, "Repeat")

    def children(self) -> tuple[Program, ...]:
        return (self.body,)

    def __repr__(self) -> str:
        return f"Repeat({self.count}, {self.body!r})"
