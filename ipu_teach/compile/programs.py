"""Immutable programs: trees of nodes whose leaves are numbered steps.

A step does work, such as a copy. All other nodes decide which steps run next.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
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
    """Run compute set number `compute_set`.

    If there is a tensor `out`, the step stores a truth value in it: whether `compute()` returned a
    true value for all vertices. `copies` are the copies that run in the same superstep.
    """

    compute_set: int
    out: Tensor | None = None
    copies: tuple[CopyStep, ...] = ()


@dataclass(frozen=True, eq=False)
class CopyStep:
    """Copy elements from `source` to `destination`, one of which may be a stream."""

    source: Tensor | DataStream
    destination: Tensor | DataStream
    line: Line = NOWHERE


@dataclass(frozen=True, eq=False)
class RemoteCopyStep:
    """Copy rows between `tensor` and a remote buffer.

    If `store` is True, the step copies to the buffer, otherwise to `tensor`. The tensor `offset`
    contains the row numbers. If `offset` is None, the step copies row 0.
    """

    tensor: Tensor
    buffer: RemoteBuffer
    offset: Tensor | None
    store: bool

    @property
    def rows(self) -> int:
        """The number of rows to copy."""
        return self.tensor.num_elements // self.buffer.num_elements


@dataclass(frozen=True, eq=False)
class MergedStep:
    """Independent copies that run in one superstep."""

    copies: tuple[CopyStep | RemoteCopyStep, ...]


@dataclass(frozen=True, eq=False)
class AbortStep:
    """Stop the run with `message`, unless there is a tensor `predicate` whose value is zero."""

    message: str
    predicate: Tensor | None = None


# For programs of these classes, the program itself is the step, because it is immutable and
# complete.
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

# One of the objects that a step reads or writes. A stream is not in tile memory.
Side = Tensor | DataStream | None


def parts(step: Step) -> tuple[Step, ...]:
    """Return the steps that were merged into a step; a compute set comes first.

    If nothing was merged into the step, the result is (step,).
    """
    if isinstance(step, MergedStep):
        return step.copies
    if isinstance(step, ExecuteStep):
        return (step, *step.copies)
    return (step,)


def copies(step: Step) -> tuple[CopyStep, ...]:
    """Return the copies in a step between tensors and streams; () if there are none.

    They are the step itself, or copies that were merged into the step.
    """
    return tuple(part for part in parts(step) if isinstance(part, CopyStep))


def remote(step: Step) -> tuple[RemoteCopyStep, ...]:
    """Return the copies in a step from and to remote buffers; () if there are none.

    They are the step itself, or copies that were merged into the step.
    """
    return tuple(part for part in parts(step) if isinstance(part, RemoteCopyStep))


def moves(step: Step) -> list[tuple[Tensor, Tensor]]:
    """Return (source, destination) of each copy in a step whose two sides are both tensors."""
    sides = [(copy.source, copy.destination) for copy in copies(step)]
    return [(a, b) for a, b in sides if isinstance(a, Tensor) and isinstance(b, Tensor)]


def touched(part: Step) -> tuple[tuple[Side, ...], tuple[Side, ...]]:
    """Return (objects that a step reads, objects that it writes): tensors, streams or None.

    `part` must not be a step with merged copies. The fields of a compute set's vertices are not
    included. A WriteUndef counts as a write of its tensor.
    """
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
    """Return (starts, stops) of the byte intervals of all tensors among `sides`."""
    empty: Array = np.zeros(0, np.int64)
    extents = (side.byte_extent() for side in sides if isinstance(side, Tensor))
    start, stop = zip((empty, empty), *extents, strict=True)
    return np.concatenate(start), np.concatenate(stop)


@dataclass(frozen=True, eq=False)
class Node:
    """A node of a program's tree.

    * `kind`: the class name of the program
    * `name`: the title of the program in reports
    * `children`: the nodes of the inner programs. The children of a leaf represent the copies that
      were merged into it; they have no step and no children
    * `count`: the number of iterations of a Repeat, and 1 for all other nodes
    * `step`: the number of a leaf's step, and -1 for all other nodes
    * `predicate`: the tensor that If, Switch or a while loop reads to decide
    * `cases`: the values that a Switch distinguishes, in the order of its children, without the
      last child, which is the default
    * `checked`: whether a Switch without a default raises an error for any other value
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
        """The number of steps in one execution of the node, or -1 if that depends on data."""
        inside = [child.length for child in self.children] if self.step < 0 else [1]
        return -1 if self.predicate is not None or -1 in inside else self.count * sum(inside)

    def leaf_at(self, number: int) -> Node:
        """Return the leaf that runs as step `number` in one execution of this node, counted from 0.

        The number of steps must not depend on data.
        """
        if self.step >= 0:
            return self
        number %= self.length // self.count
        for child in self.children:
            if number < child.length:
                return child.leaf_at(number)
            number -= child.length
        raise IndexError(number)

    def leaves(self) -> Iterator[Node]:
        """Yield this node if it is a leaf, and every leaf below it, in order.

        The leaves of a Repeat are yielded once.
        """
        if self.step >= 0:
            yield self
        for child in self.children:
            yield from child.leaves()

    def predicates(self) -> Iterator[tuple[Node, Tensor]]:
        """Yield (node, predicate) for this node and every node below it that reads a predicate."""
        if self.predicate is not None:
            yield self, self.predicate
        for child in self.children:
            yield from child.predicates()


class ProgramFreezer:
    """Converts programs to trees of nodes.

    A program that occurs several times becomes a single step.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self._numbers: dict[Hashable, int] = {}

    def freeze(self, program: p.Program) -> Node:
        """Return the node of a program.

        :raises ControlProgramError: if a program contains itself, or is an instance of none of the
            kit's program classes.
        :raises GraphObjectCreationError: if it uses objects of another graph.
        """
        return self._node(program, ())

    def _node(self, program: p.Program, ancestors: tuple[p.Program, ...]) -> Node:
        if any(program is ancestor for ancestor in ancestors):
            raise ControlProgramError(
                f"{program!r} contains itself.", next_step="build a new Sequence for the inner one."
            )
        kind = "Copy" if isinstance(program, p.Copy) else type(program).__name__
        leaf = self._leaf(program)
        if leaf is not None:
            self._check_graph_of_leaf(program)
            return Node(kind, _name(program), step=self._step(program, leaf))
        children = tuple(self._node(child, (*ancestors, program)) for child in program.children())
        match program:
            case p.Sequence() | p.Block():
                return Node(kind, program.name, children)
            case p.Repeat():
                title = _title(program, f"Repeat {program.count}")
                return Node(kind, title, children, count=program.count)
            case p.Call():
                self._check_graph(program.function.graph, program)
                return Node(kind, _title(program, program.function.name), children)
            case p.RepeatWhileTrue() | p.RepeatWhileFalse() | p.If():
                self._check_graph(program.predicate.graph, program)
                return Node(kind, _title(program, kind), children, predicate=program.predicate)
            case p.Switch():
                self._check_graph(program.control.graph, program)
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
                abort_node = Node(
                    "Abort", program.message, step=self._step(program, AbortStep(program.message))
                )
                return Node(kind, program.message, (*children, abort_node))
        raise ControlProgramError(f"""{program!r} is a program that this engine cannot run.
            next:  use the programs of ipu_teach.program.""")

    @staticmethod
    def _leaf(program: p.Program) -> Step | None:
        """Return the step that a program executes; None if it only contains other programs."""
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

    def _check_graph_of_leaf(self, program: p.Program) -> None:
        """Raise an error if a program uses an object of another graph.

        The objects are tensors, streams, remote buffers and compute sets.
        """
        by_handle = {**self.graph.streams, **self.graph.remote_buffers}
        for value in vars(program).values():
            if isinstance(value, (Tensor, ComputeSet)):
                self._check_graph(value.graph, program)
            elif isinstance(value, (DataStream, RemoteBuffer)):
                is_own = by_handle.get(value.handle) is value
                self._check_graph(self.graph if is_own else None, program)

    def _check_graph(self, graph: Graph | None, program: p.Program) -> None:
        """Raise an error if `graph` is not the graph that is being compiled.

        `graph` is the graph of an object that `program` uses.
        """
        if graph is not self.graph:
            usage = "uses a tensor, stream or remote buffer"
            if isinstance(program, p.Execute):
                usage = "runs a compute set"
            raise GraphObjectCreationError(
                f"{program!r} {usage} of another graph.", next_step="use one graph throughout."
            )

    def _step(self, program: p.Program, step: Step) -> int:
        """Return the number of `step`, the step of a program; a new step is added to the list."""
        # Two Execute programs with the same compute set and the same `out` are the same step. Other
        # programs are the same step only if they are the same object.
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
    source = program.source
    destination = program.destination
    if isinstance(destination, RemoteBuffer):
        assert isinstance(source, Tensor)
        return RemoteCopyStep(source, destination, program.offset, True)
    if isinstance(source, RemoteBuffer):
        assert isinstance(destination, Tensor)
        return RemoteCopyStep(destination, source, program.offset, False)
    return CopyStep(source, destination, program.line)


def _title(program: p.Program, description: str) -> str:
    """Return the title of a control program: its name, if it has one, with `description`."""
    return f"{program.name}: {description}" if program.name else description


def _name(program: p.Program) -> str:
    """Return the title of a leaf: its name, its compute set's name, or its arguments as text."""
    if program.name:
        return program.name
    if isinstance(program, p.Execute):
        return program.compute_set.name
    text = repr(program)
    return text[text.index("(") + 1 : -1]
