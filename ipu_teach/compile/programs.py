"""Programs as they were when they were compiled: a tree of nodes over numbered steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ipu_teach.errors import ControlProgramError, GraphObjectCreationError
from ipu_teach.graph.graph import DataStream, Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence


@dataclass(frozen=True)
class ExecuteStep:
    """Run compute set `compute_set`."""

    compute_set: int


@dataclass(frozen=True, eq=False)
class CopyStep:
    """Move elements from `source` to `destination`; one of them may be a stream."""

    source: Tensor | DataStream
    destination: Tensor | DataStream


Step = ExecuteStep | CopyStep


@dataclass(frozen=True, eq=False)
class Node:
    """One place in a program. `kind` is Sequence, Repeat, Execute or Copy; `step` numbers a leaf, else -1."""

    kind: str
    name: str
    children: tuple[Node, ...] = ()
    count: int = 1
    step: int = -1

    def leaves(self) -> Iterator[Node]:
        """Every leaf below, each once, in order."""
        if self.step >= 0:
            yield self
        for child in self.children:
            yield from child.leaves()


class ProgramFreezer:
    """Turns programs into nodes; a Copy or Execute used in several places is one step."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.steps: list[Step] = []
        self._numbers: dict[object, int] = {}

    def freeze(self, program: Program) -> Node:
        """The node of one program. Raises `ControlProgramError` for a program inside itself or a foreign class."""
        return self._node(program, ())

    def _node(self, program: Program, above: tuple[Program, ...]) -> Node:
        if any(program is p for p in above):
            raise ControlProgramError(f"{program!r} contains itself.", next_step="build a new Sequence for the inner one.")
        children = tuple(self._node(child, (*above, program)) for child in program.children())
        if isinstance(program, Sequence):
            return Node("Sequence", program.name, children)
        if isinstance(program, Repeat):
            return Node("Repeat", f"Repeat {program.count}", children, count=program.count)
        if isinstance(program, Execute):
            if program.compute_set.graph is not self.graph:
                raise GraphObjectCreationError(
                    f"{program!r} runs a compute set of another graph.", next_step="use one graph throughout."
                )
            step = self._step(("execute", program.compute_set.id), ExecuteStep(program.compute_set.id))
            return Node("Execute", program.compute_set.name, step=step)
        if isinstance(program, Copy):
            for side in (program.source, program.destination):
                known = side.graph is self.graph if isinstance(side, Tensor) else self.graph.streams.get(side.handle) is side
                if not known:
                    raise GraphObjectCreationError(
                        f"{program!r} uses a tensor or stream of another graph.", next_step="use one graph throughout."
                    )
            step = self._step(("copy", id(program)), CopyStep(program.source, program.destination))
            return Node("Copy", repr(program)[5:-1], step=step)
        raise ControlProgramError(
            f"{program!r} is a program that this engine cannot run.", next_step="use Execute, Copy, Repeat and Sequence."
        )

    def _step(self, key: object, step: Step) -> int:
        if key not in self._numbers:
            self._numbers[key] = len(self.steps)
            self.steps.append(step)
        return self._numbers[key]
