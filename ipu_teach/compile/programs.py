"""Programs as they were when they were compiled: a tree of nodes over numbered steps.

A leaf of the tree is a step, which does something; the other nodes decide what runs next.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipu_teach import program as p
from ipu_teach.errors import ControlProgramError, GraphObjectCreationError
from ipu_teach.graph import ComputeSet, DataStream, Graph, RemoteBuffer, Tensor
from ipu_teach.graph.source import NOWHERE, Line
from ipu_teach.types import Array


@dataclass(frozen=True, eq=False)
class ExecuteStep:
    """Run compute set `compute_set`; `out` receives whether all vertices returned true. `copies` go
    with it: see `merge`."""

    compute_set: int
    out: Tensor | None = None
    copies: tuple[CopyStep, ...] = ()


@dataclass(frozen=True, eq=False)
class CopyStep:
    """Move elements from `source` to `destination`; one of them may be a stream."""

    source: Tensor | DataStream
    destination: Tensor | DataStream
    line: Line = NOWHERE


@dataclass(frozen=True, eq=False)
class RemoteCopyStep:
    """Move rows between `tensor` and a remote buffer: into it if `store`. `offset` holds their
    numbers, else it is row 0."""

    tensor: Tensor
    buffer: RemoteBuffer
    offset: Tensor | None
    store: bool

    @property
    def rows(self) -> int:
        """How many rows it moves."""
        return self.tensor.num_elements // self.buffer.num_elements


@dataclass(frozen=True, eq=False)
class MergedStep:
    """Copies of one kind that do not disturb each other, as one superstep: see `merge`."""

    copies: tuple[CopyStep | RemoteCopyStep, ...]


@dataclass(frozen=True, eq=False)
class AbortStep:
    """Stop the run with `message`, if `predicate` is not zero or there is none."""

    message: str
    predicate: Tensor | None = None


# What a program says all by itself is its own step.
PrintStep = p.PrintTensor
UndefStep = p.WriteUndef
SyncStep = p.Sync
StampStep = p.CycleStamp
EqualStep = p.AssumeEqualAcrossReplicas
Step = (
    ExecuteStep
    | CopyStep
    | MergedStep
    | RemoteCopyStep
    | PrintStep
    | UndefStep
    | SyncStep
    | AbortStep
    | StampStep
    | EqualStep
)


def parts(step: Step) -> tuple[Step, ...]:
    """What a step was made of: the copies that are merged in it, after its compute set if it has
    one; else itself."""
    if isinstance(step, MergedStep):
        return step.copies
    if isinstance(step, ExecuteStep):
        return (step, *step.copies)
    return (step,)


def copies(step: Step) -> tuple[CopyStep, ...]:
    """The copies in a step: itself, or those merged in it; none in another step."""
    return tuple(part for part in parts(step) if isinstance(part, CopyStep))


def remote(step: Step) -> tuple[RemoteCopyStep, ...]:
    """The copies with remote buffers in a step, as `copies`."""
    return tuple(part for part in parts(step) if isinstance(part, RemoteCopyStep))


def moves(step: Step) -> list[tuple[Tensor, Tensor]]:
    """(source, destination) of each copy in a step that moves data on the device alone; nothing for
    another step."""
    sides = [(copy.source, copy.destination) for copy in copies(step)]
    return [(a, b) for a, b in sides if isinstance(a, Tensor) and isinstance(b, Tensor)]


def touched(part: Step) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """What one of the `parts` of a step reads, and what it writes, be it a tensor, a stream or
    None. Of a compute set the fields of its vertices are not among them; a WriteUndef writes."""
    match part:
        case ExecuteStep():
            return (), (part.out,)
        case CopyStep():
            return (part.source,), (part.destination,)
        case RemoteCopyStep(store=True):
            return (part.offset, part.tensor), ()
        case RemoteCopyStep():
            return (part.offset,), (part.tensor,)
        case PrintStep() | EqualStep():
            return (part.tensor,), ()
        case UndefStep():
            return (), (part.tensor,)
        case AbortStep():
            return (part.predicate,), ()
        case StampStep():
            return (part.since,), (part.tensor,)
    return (), ()


def extent_of(sides: Iterable[object]) -> tuple[Array, Array]:
    """(start, stop) of the bytes of those that are tensors; what is none lies elsewhere."""
    none: Array = np.zeros(0, np.int64)
    extents = (side.byte_extent() for side in sides if isinstance(side, Tensor))
    start, stop = zip((none, none), *extents, strict=True)
    return np.concatenate(start), np.concatenate(stop)


@dataclass(frozen=True, eq=False)
class Node:
    """One place in a program.

    `kind` is the program's class name. `step` numbers a leaf, else -1; the children of a leaf are
    the copies merged in it, and have none. `count` is a Repeat's; `predicate` decides for If,
    Switch and the while loops; `cases` are a Switch's numbers, in the order of its children, whose
    last is the default.
    """

    kind: str
    name: str
    children: tuple[Node, ...] = ()
    count: int = 1
    step: int = -1
    predicate: Tensor | None = None
    cases: tuple[int, ...] = ()
    checked: bool = False

    @cached_property
    def length(self) -> int:
        """Steps in one execution; -1 where that depends on data."""
        inside = [child.length for child in self.children] if self.step < 0 else [1]
        return -1 if self.predicate is not None or -1 in inside else self.count * sum(inside)

    def leaf_at(self, number: int) -> Node:
        """The leaf that is step `number` of one execution, where how many there are does not depend
        on data."""
        if self.step >= 0:
            return self
        number %= self.length // self.count
        for child in self.children:
            if number < child.length:
                return child.leaf_at(number)
            number -= child.length
        raise IndexError(number)

    def leaves(self) -> Iterator[Node]:
        """Every leaf below, each once, in order."""
        if self.step >= 0:
            yield self
        for child in self.children:
            yield from child.leaves()

    def predicates(self) -> Iterator[tuple[Node, Tensor]]:
        """Every node below that reads a predicate, with it."""
        if self.predicate is not None:
            yield self, self.predicate
        for child in self.children:
            yield from child.predicates()


class ProgramFreezer:
    """Turns programs into nodes; a program used in several places is one step."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self._numbers: dict[object, int] = {}

    def freeze(self, program: p.Program) -> Node:
        """The node of one program. Raises `ControlProgramError` for a program inside itself or a
        foreign class."""
        return self._node(program, ())

    def _node(self, program: p.Program, above: tuple[p.Program, ...]) -> Node:
        if any(program is other for other in above):
            raise ControlProgramError(
                f"{program!r} contains itself.", next_step="build a new Sequence for the inner one."
            )
        kind = "Copy" if isinstance(program, p.Copy) else type(program).__name__
        leaf = self._leaf(program)
        if leaf is not None:
            self._check_own(program)
            return Node(kind, _name(program), step=self._step(program, leaf))
        children = tuple(self._node(child, (*above, program)) for child in program.children())
        match program:
            case p.Sequence() | p.Block():
                return Node(kind, program.name, children)
            case p.Repeat():
                title = _title(program, f"Repeat {program.count}")
                return Node(kind, title, children, count=program.count)
            case p.Call():
                self._own(program.function.graph, program)
                return Node(kind, _title(program, program.function.name), children)
            case p.RepeatWhileTrue() | p.RepeatWhileFalse() | p.If():
                self._own(program.predicate.graph, program)
                return Node(kind, _title(program, kind), children, predicate=program.predicate)
            case p.Switch():
                self._own(program.control.graph, program)
                cases = tuple(program.cases)
                return Node(
                    kind,
                    _title(program, kind),
                    children,
                    predicate=program.control,
                    cases=cases,
                    checked=program.checked,
                )
            case p.ErrorProgram():
                stop = Node(
                    "Abort", program.message, step=self._step(program, AbortStep(program.message))
                )
                return Node(kind, program.message, (*children, stop))
        raise ControlProgramError(f"""{program!r} is a program that this engine cannot run.
            next:  use the programs of ipu_teach.program.""")

    @staticmethod
    def _leaf(program: p.Program) -> Step | None:
        match program:
            case p.Execute():
                return ExecuteStep(program.compute_set.id, program.out)
            case p.Copy():
                return _copy(program)
            case p.PrintTensor() | p.WriteUndef() | p.Sync() | p.CycleStamp():
                return program
            case p.AssumeEqualAcrossReplicas():
                return program
            case p.Abort():
                return AbortStep(program.message)
            case p.AbortOnCondition():
                return AbortStep(program.message, program.predicate)
        return None

    def _check_own(self, program: p.Program) -> None:
        """Refuse a leaf that uses another graph's tensors, streams, remote buffers or compute
        sets."""
        beside = {**self.graph.streams, **self.graph.remote_buffers}
        for value in vars(program).values():
            if isinstance(value, (Tensor, ComputeSet)):
                self._own(value.graph, program)
            elif isinstance(value, (DataStream, RemoteBuffer)):
                self._own(self.graph if beside.get(value.handle) is value else None, program)

    def _own(self, graph: Graph | None, program: p.Program) -> None:
        if graph is not self.graph:
            what = (
                "runs a compute set"
                if isinstance(program, p.Execute)
                else "uses a tensor, stream or remote buffer"
            )
            raise GraphObjectCreationError(
                f"{program!r} {what} of another graph.", next_step="use one graph throughout."
            )

    def _step(self, program: p.Program, step: Step) -> int:
        # Executing a compute set twice is one step; everything else is told apart by identity.
        key = (
            ("execute", program.compute_set.id, id(program.out))
            if isinstance(program, p.Execute)
            else id(program)
        )
        if key not in self._numbers:
            self._numbers[key] = len(self.steps)
            self.steps.append(step)
        return self._numbers[key]


def _copy(program: p.Copy) -> Step:
    source, destination = program.source, program.destination
    if isinstance(destination, RemoteBuffer):
        assert isinstance(source, Tensor)
        return RemoteCopyStep(source, destination, program.offset, True)
    if isinstance(source, RemoteBuffer):
        assert isinstance(destination, Tensor)
        return RemoteCopyStep(destination, source, program.offset, False)
    return CopyStep(source, destination, program.line)


def _title(program: p.Program, description: str) -> str:
    """Return the title of a control program: its name, if it has one, before its description."""
    return f"{program.name}: {description}" if program.name else description


def _name(program: p.Program) -> str:
    """A leaf in a few words: its name, or its compute set, its two sides, or its title."""
    if program.name:
        return program.name
    if isinstance(program, p.Execute):
        return program.compute_set.name
    text = repr(program)
    return text[text.index("(") + 1 : -1]
