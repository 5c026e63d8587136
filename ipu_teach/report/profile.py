"""The facts about a compiled program that a report needs, as plain data.

A `Profile` has two forms: `CompiledProfile` computes each answer from the compiled program on
request, and `StoredProfile` has read it from a file. Both give reports, tables and comparisons the
same answers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated

import numpy as np

from ipu_teach.cost import StepCost
from ipu_teach.cost.ledger import MemoryLedger
from ipu_teach.cost.model import together
from ipu_teach.cost.transfers import Transfers
from ipu_teach.graph.variable_table import without_replica
from ipu_teach.saving.schema import NOTE, TEXT, checked, index, numbers, since, whole
from ipu_teach.target import COUNTED, GROUNDS, Target
from ipu_teach.types import Array

# the ways to run a codelet, the slowest last; if there are several, a report names the slowest
WAYS = ("batch", "scalar", "loop")
# a scalar loop that cannot be compiled; the text continues with the line and the function
CPYTHON_ALONE = "CPython alone: "


def is_way(text: str) -> bool:
    """Return whether `text` is a way to run a codelet."""
    return text in WAYS or text.startswith(CPYTHON_ALONE)


# libpva's names of the nodes of these kinds, as its visitors use them
LIBPVA = {"Execute": "on_tile_execute", "Copy": "do_exchange"}
NO_SYNC, INTERNAL, EXTERNAL = 0, 1, 2  # the tiles that wait for each other before a step


@dataclass(frozen=True)
class VariableFacts:
    """A variable as it was declared.

    `line` describes the learner's line that added it; "" if that is not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    category: str
    line: str = ""


def named_replicas(variables: Iterable[VariableFacts], target: Target) -> int:
    """Return the number of replicas that the names of variables show.

    Users may give a variable such a name, so the result is a divisor of the number of IPUs.
    """
    replicated = {without_replica(v.name)[1] for v in variables}
    return max(n for n in (1, *replicated) if n and target.num_ipus % n == 0)


@dataclass(frozen=True)
class CodeletFacts:
    """A vertex class.

    - `fields` has (name, declaration) of each field, and `sources` (method, source text) of the
      methods whose text is known.
    - `way` says how its vertices run, see `Report.ways`, and `unbatched` why they do not run as one
      batch; it is empty if they do.
    - `ground` is the kind of evidence for its cycles, one of `target.GROUNDS`.
    """

    name: str
    context: str
    fields: tuple[tuple[str, str], ...]
    unbatched: Annotated[str, NOTE] = ""
    way: Annotated[str, NOTE] = "batch"
    sources: Annotated[tuple[tuple[str, str], ...], NOTE] = ()
    ground: Annotated[str, checked(TEXT, GROUNDS.__contains__, "what cycles rest on"), since(3)] = (
        COUNTED
    )


@dataclass(frozen=True)
class VertexFacts:
    """The vertices of one codelet in one compute set.

    `flops` is the sum over all of them, -1 if unknown. `tiles` has the tiles with such a vertex, as
    runs (first tile, number of tiles).
    """

    codelet: Annotated[int, whole(below="codelets")]
    vertices: int
    flops: Annotated[int, whole(-1)]
    tiles: tuple[
        tuple[Annotated[int, whole(below="tiles")], Annotated[int, whole(1, "tiles")]], ...
    ]
    line: Annotated[str, NOTE] = ""

    @property
    def on(self) -> Array:
        """The tiles with such a vertex, ascending: int64[tiles]."""
        runs = [np.arange(first, first + count) for first, count in self.tiles]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)


@dataclass(frozen=True)
class ComputeSetFacts:
    """A compute set, with its vertices by codelet."""

    name: str
    parts: tuple[VertexFacts, ...]


@dataclass(frozen=True)
class RowsMoved:
    """A copy with a remote buffer.

    `rows` is the number of rows of a copy, and `bytes` that of all bytes. `variable` is the number
    of the variable on the tiles, or of the first one if there are several.
    """

    buffer: str
    rows: Annotated[int, whole(1)]
    bytes: int
    variable: Annotated[int, whole(below="variables")]


@dataclass(frozen=True)
class StepFacts:
    """A compiled step.

    - `compute_set` is the number of the compute set that it executes, or -1.
    - `sync` says which tiles wait for each other, under the sync pattern FULL.
    - `to_device` is the direction of the host's data; None for a step without the host.
    - `line` is the line of a Copy, and `moves` has its copies with remote buffers, in order.
    """

    compute_set: Annotated[int, whole(-1, below="compute_sets")] = -1
    sync: Annotated[int, whole(NO_SYNC, EXTERNAL)] = INTERNAL
    to_device: bool | None = None
    line: Annotated[str, NOTE] = ""
    moves: Annotated[tuple[RowsMoved, ...], NOTE] = ()


@dataclass(frozen=True, eq=False)
class ProgramNode:
    """A node of a program's tree: `kind` is its class, `step` a leaf's step number, or -1.

    `count` is that of a Repeat, `predicate` the name of a condition's tensor, and `cases` the
    numbers of a Switch. The children of a leaf are the copies that were merged into it.
    """

    kind: str
    name: str
    step: Annotated[int, whole(-1, below="steps")] = -1
    count: Annotated[int, whole(most=2**63)] = 1
    predicate: str = ""
    cases: Annotated[tuple[int, ...], numbers(whole(-(2**63), 2**63))] = ()
    children: Annotated[tuple[ProgramNode, ...], numbers(index("nodes"))] = field(
        default=(), repr=False
    )

    @property
    def type(self) -> str:
        """The class of the node, `kind`, by libpva's name."""
        return self.kind

    def walk(self) -> Iterator[tuple[int, ProgramNode]]:
        """Yield (depth, node) of this node and all nodes below, in program order."""
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting += [(depth + 1, child) for child in reversed(node.children)]

    def leaves(self) -> Iterator[ProgramNode]:
        """Yield the leaves below this node, in program order."""
        return (node for _, node in self.walk() if node.step >= 0)

    def accept(self, visitor: object) -> None:
        """Call `visitor.visit_KIND(node)` for this node and all nodes below, in program order.

        KIND is in snake_case: `visit_execute`, `visit_copy`, `visit_repeat_while_true`. For the
        first two, libpva's `visit_on_tile_execute` and `visit_do_exchange` work too. If the visitor
        has no method of that name, its `visit` is called. If the method returns False, the nodes
        below are skipped.
        """
        waiting = [self]
        while waiting:
            node = waiting.pop()
            names = (f"visit_{snake(node.kind)}", f"visit_{LIBPVA.get(node.kind)}", "visit")
            visit = next((getattr(visitor, name) for name in names if hasattr(visitor, name)), None)
            if visit is None or visit(node) is not False:
                waiting += reversed(node.children)


def snake(name: str) -> str:
    """Return a class name in snake_case."""
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


@dataclass(eq=False)
class Profile(ABC):
    """The facts about one compiled program, and the costs of its steps.

    - `variables` are in the order in which they were added, followed by those of vertices' state.
    - `codelets` are the vertex classes in use.
    - `compute_sets` are in the order in which they were added.
    - `steps` are the leaves of the programs, each once, and `programs` the trees.
    - `memory` is the byte ledger.
    - `edges` is the number of memory regions that vertices are connected to.
    - `replicas` is the number of replicas of one graph.
    """

    target: Target
    variables: tuple[VariableFacts, ...]
    codelets: tuple[CodeletFacts, ...]
    compute_sets: tuple[ComputeSetFacts, ...]
    steps: tuple[StepFacts, ...]
    programs: tuple[ProgramNode, ...]
    memory: MemoryLedger
    edges: int
    replicas: int

    @cached_property
    def own_steps(self) -> frozenset[int]:
        """The numbers of the steps that the programs name.

        Other steps are measured executions of these, if their cycles depend on data.
        """
        return frozenset(self._leaves)

    @cached_property
    def _leaves(self) -> dict[int, ProgramNode]:
        """The first leaf of the programs for each step, by number."""
        leaves: dict[int, ProgramNode] = {}
        for leaf in (leaf for program in self.programs for leaf in program.leaves()):
            leaves.setdefault(leaf.step, leaf)
        return leaves

    def origin(self, step: int) -> int:
        """Return the step of the programs of which `step` is a measured execution.

        Return `step` itself if the programs name it, or if no program executes its compute set.
        """
        if step in self._leaves:
            return step
        compute_set = self.steps[step].compute_set
        executing = (n for n in self._leaves if self.steps[n].compute_set == compute_set)
        return next(executing, step)

    def leaf(self, step: int) -> ProgramNode:
        """Return the first leaf of the programs for `step`, or for its `origin`."""
        leaf = self._leaves.get(self.origin(step))
        return leaf or ProgramNode(self.cost(step).kind, self.cost(step).name, step)

    def parts(self, step: int) -> tuple[VertexFacts, ...]:
        """Return the vertices that a step executes, by codelet."""
        which = self.steps[step].compute_set
        return self.compute_sets[which].parts if which >= 0 else ()

    def vertices(self, step: int) -> dict[str, int]:
        """Return the number of vertices of each codelet that a step executes."""
        counts = Counter[str]()
        for part in self.parts(step):
            counts[self.codelets[part.codelet].name] += part.vertices
        return dict(counts)

    @cached_property
    def external(self) -> Array:
        """Whether all IPUs take part in each step together: bool[steps]."""
        return np.asarray(self._together == self.target.num_ipus)

    @cached_property
    def _together(self) -> Array:
        """The number of IPUs that wait for each other in each step, 0 for none: int64[steps]."""
        steps = ((self.cost(n).kind, step.sync == EXTERNAL) for n, step in enumerate(self.steps))
        groups = [together(*step, self.target, self.replicas) for step in steps]
        return np.array(groups, np.int64)

    def by_set(self, number: int) -> tuple[Array, Array]:
        """Return `StepCost.by_set` of step `number`."""
        if number not in self._by_set:
            group = int(self._together[number])
            at_work = self.at_work(number)
            self._by_set[number] = self.cost(number).by_set(group, at_work, self.target)
        return self._by_set[number]

    @cached_property
    def _by_set(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def several(self, number: int) -> bool:
        """Return whether several IPUs wait for each other before step `number`."""
        return bool(self._together[number])

    def at_work(self, number: int) -> Array:
        """Return which of `Target.sets` take part in step `number`: bool[sets].

        A set that only makes others wait counts too.
        """
        tiles = [part.on for part in self.parts(number)]
        return self.cost(number).at_work(tiles, self.target)

    @abstractmethod
    def cost(self, number: int) -> StepCost:
        """Return the cost of one execution of step `number`."""

    @abstractmethod
    def codelet_cycles(self, number: int) -> dict[str, int]:
        """Return the cycles of one execution of step `number`, summed by codelet.

        Unknown cycles count as 0.
        """

    @abstractmethod
    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Return the data that tiles send each other in step `number`, one entry an exchange."""

    def vertices_on(self, number: int) -> tuple[Array, Array, Array] | None:
        """Return three arrays by tile about the vertices that step `number` executes.

        They are the number of vertices, the cycles of the longest, and whether one uses all workers
        of the tile. The result is None if that is not known, as for a file.
        """
        return None

    def lines_on(self, number: int, tile: int) -> tuple[str, str]:
        """Return the lines that added and that mapped most of those vertices on a tile.

        They are descriptions of lines. They are "" if unknown; the second is "" if the first line
        did both.
        """
        return "", ""

    def line_of_move(self, number: int, tile: int, *, within: bool) -> str:
        """Return the line that moves most in the first exchange of step `number`.

        The step is a compute set into which copies were merged. The line is that of one of these
        copies, or of the vertices, whose inputs arrive. `within` counts data that move inside the
        memory of `tile`, and otherwise the data that it sends and receives. Returns "" if that is
        not known, as for a file.
        """
        return ""

    @abstractmethod
    def at(self, target: Target) -> Profile:
        """Return the same program at the rates of `target`."""
