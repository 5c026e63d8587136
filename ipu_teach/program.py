"""Control programs: what runs in which order.

A program is a tree. Building it runs nothing; an Engine compiles it and `run` walks it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ipu_teach.errors import ControlProgramError, PoplarTypeError
from ipu_teach.graph.graph import ComputeSet, DataStream
from ipu_teach.graph.tensor import Tensor


class Program:
    """The base of all control programs."""

    def children(self) -> tuple[Program, ...]:
        """The programs inside this one, in order."""
        return ()


def _program(given: object, where: str) -> Program:
    if isinstance(given, Program):
        return given
    if isinstance(given, ComputeSet):
        raise ControlProgramError(
            f"{where} was given the compute set {given.name!r}.", next_step="wrap it: Execute(compute_set)."
        )
    raise ControlProgramError(
        f"{where} was given {given!r}, which is no program.", next_step="give Execute, Copy, Repeat or Sequence."
    )


class Sequence(Program):
    """Programs one after another: `Sequence(a, b)`, `Sequence([a, b])`, or `add` them later."""

    def __init__(self, *programs: Program | Iterable[Program], name: str = "") -> None:
        self.name = name
        self.programs: list[Program] = []
        for given in programs:
            for item in [given] if isinstance(given, Program) or not isinstance(given, Iterable) else given:
                self.add(item)

    def add(self, program: Program) -> Sequence:
        """Append one program; returns self."""
        self.programs.append(_program(program, "Sequence"))
        return self

    def children(self) -> tuple[Program, ...]:
        return tuple(self.programs)

    def __repr__(self) -> str:
        return f"Sequence({self.name + ', ' if self.name else ''}{len(self.programs)} programs)"


class Execute(Program):
    """Run a compute set: one superstep of exchange, sync and compute."""

    def __init__(self, compute_set: ComputeSet) -> None:
        if not isinstance(compute_set, ComputeSet):
            raise ControlProgramError(
                f"Execute was given {compute_set!r}.", next_step="give a compute set made with graph.add_compute_set."
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
                raise ControlProgramError(f"Copy was given {side!r}.", next_step="copy between tensors and streams.")
        if isinstance(source, DataStream) and isinstance(destination, DataStream):
            raise ControlProgramError("Copy was given two streams.", next_step="copy through a tensor.")
        if isinstance(source, DataStream) and not source.to_device:
            raise ControlProgramError(f"Copy reads from {source!r}.", next_step="read from a host-to-device stream.")
        if isinstance(destination, DataStream) and destination.to_device:
            raise ControlProgramError(f"Copy writes to {destination!r}.", next_step="write to a device-to-host stream.")
        if source.dtype is not destination.dtype:
            raise PoplarTypeError(
                f"Copy from {source.dtype.__name__} to {destination.dtype.__name__}.",
                where=f"{source!r} to {destination!r}",
                next_step="a copy moves bits and converts nothing; cast with popops.cast first.",
            )
        if source.num_elements != destination.num_elements:
            raise ControlProgramError(
                f"Copy of {source.num_elements} elements to {destination.num_elements}.",
                where=f"{source!r} to {destination!r}",
                next_step="slice the longer side, or change the stream's size.",
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
        if not isinstance(count, int) or isinstance(count, bool) or count < 0:
            raise ControlProgramError(f"Repeat was given the count {count!r}.", next_step="give a whole number, 0 or more.")
        self.count = count
        self.body = _program(body, "Repeat")

    def children(self) -> tuple[Program, ...]:
        return (self.body,)

    def __repr__(self) -> str:
        return f"Repeat({self.count}, {self.body!r})"
