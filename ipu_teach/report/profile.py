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

# The ways to run a codelet are ordered by speed, the slowest last. For a codelet that runs in
# several ways, a report names the slowest.
WAYS = ("batch", "scalar", "loop")
# The way of a scalar loop that cannot be compiled begins with this text, and continues with the
# line and the function that prevent it.
CPYTHON_ALONE = "CPython alone: "


def is_way(text: str) -> bool:
    """Return whether `text` is a way to run a codelet."""
    return text in WAYS or text.startswith(CPYTHON_ALONE)


# The visitors of libpva have other names for nodes of these kinds.
LIBPVA = {"Execute": "on_tile_execute", "Copy": "do_exchange"}
# Before a step, no tiles wait for each other, or the tiles of each IPU, or those of several IPUs.
NO_SYNC, INTERNAL, EXTERNAL = 0, 1, 2


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
    """Return the largest number of replicas in the names of the variables, or 1.

    Numbers that do not divide the number of IPUs are ignored, as users may choose such a name.
    """
    replica_counts = {without_replica(variable.name)[1] for variable in variables}
    return max(count for count in (1, *replica_counts) if count and target.num_ipus % count == 0)


@dataclass(frozen=True)
class CodeletFacts:
    """A vertex class.

    - `fields` has the (name, declaration) of each field.
    - `sources` has the ("Class.method", source text) of each method whose text is known.
    - `way` is how its vertices run, as `Report.ways` describes it.
    - `unbatched` is the reason why its vertices do not run as a batch, or "" if they do.
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

    `codelet` is an index of `Profile.codelets`. `flops` is the sum over all these vertices, or -1
    if it is unknown. `tiles` has the tiles with such a vertex, as runs of neighbouring tiles:
    (first tile, number of tiles) pairs. `line` is the line that added the first of them.
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
        runs = [
            np.arange(first_tile, first_tile + num_tiles) for first_tile, num_tiles in self.tiles
        ]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)


@dataclass(frozen=True)
class ComputeSetFacts:
    """A compute set, with its vertices by codelet."""

    name: str
    parts: tuple[VertexFacts, ...]


@dataclass(frozen=True)
class RowsMoved:
    """A copy to or from a remote buffer.

    `rows` is the number of rows that it copies, and `bytes` the size of them together. `variable`
    is the number of the variable on the tiles; if there are several, it is the first of them.
    """

    buffer: str
    rows: Annotated[int, whole(1)]
    bytes: int
    variable: Annotated[int, whole(below="variables")]


@dataclass(frozen=True)
class StepFacts:
    """A compiled step.

    - `compute_set` is the number of the compute set that it executes, or -1.
    - `sync` is `NO_SYNC`, `INTERNAL` or `EXTERNAL`: which tiles wait for each other before the step
      under the sync pattern FULL.
    - `to_device` is True if the step copies data to the device, False if it copies data from the
      device, and None if it does neither.
    - `line` describes the lines of its copies.
    - `moves` has its copies to and from remote buffers, in order.
    """

    compute_set: Annotated[int, whole(-1, below="compute_sets")] = -1
    sync: Annotated[int, whole(NO_SYNC, EXTERNAL)] = INTERNAL
    to_device: bool | None = None
    line: Annotated[str, NOTE] = ""
    moves: Annotated[tuple[RowsMoved, ...], NOTE] = ()


@dataclass(frozen=True, eq=False)
class ProgramNode:
    """A node in the tree of a program.

    - `kind` is the class of the program, such as "Repeat".
    - `step` is the step number of a leaf, and -1 for any other node.
    - `count` is the number of iterations of a Repeat.
    - `predicate` is the name of the tensor that an If, a Switch or a while loop reads.
    - `cases` are the numbers of the cases of a Switch.
    - `children` are the programs inside it; those of a leaf are the copies merged into its step.
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
        """The class of the program, as in `kind`; libpva uses this name."""
        return self.kind

    def walk(self) -> Iterator[tuple[int, ProgramNode]]:
        """Yield (depth, node) of this node and all nodes below, in program order."""
        nodes_to_visit = [(0, self)]
        while nodes_to_visit:
            depth, node = nodes_to_visit.pop()
            yield depth, node
            nodes_to_visit += [(depth + 1, child) for child in reversed(node.children)]

    def leaves(self) -> Iterator[ProgramNode]:
        """Yield the leaves below this node, in program order."""
        return (node for _, node in self.walk() if node.step >= 0)

    def accept(self, visitor: object) -> None:
        """Call `visitor.visit_KIND(node)` for this node and all nodes below, in program order.

        KIND is in snake_case: `visit_execute`, `visit_copy`, `visit_repeat_while_true`. Instead of
        the first two, the visitor may have libpva's `visit_on_tile_execute` and
        `visit_do_exchange`. If it has no method for the kind, its method `visit` is called, if
        there is one. If the method returns False, the nodes below are skipped.
        """
        nodes_to_visit = [self]
        while nodes_to_visit:
            node = nodes_to_visit.pop()
            method_names = (f"visit_{snake(node.kind)}", f"visit_{LIBPVA.get(node.kind)}", "visit")
            visit = next(
                (getattr(visitor, name) for name in method_names if hasattr(visitor, name)), None
            )
            if visit is None or visit(node) is not False:
                nodes_to_visit += reversed(node.children)


def snake(name: str) -> str:
    """Return a class name in snake_case."""
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


@dataclass(eq=False)
class Profile(ABC):
    """The facts about one compiled program, and the costs of its steps.

    - `variables` are in the order in which they were added, followed by those for the state of
      vertices.
    - `codelets` are the vertex classes in use.
    - `compute_sets` are in the order in which they were added.
    - `steps` are the leaves of the programs, each once; `programs` are the trees.
    - `memory` has the bytes by tile, variable and category.
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
        """The numbers of the steps that are leaves of the programs.

        If the cycles of a step depend on data, `steps` has further steps for its measured
        executions. These are not included.
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
        """Return the number of the leaf of which `step` is a measured execution.

        Return `step` itself if it is a leaf of the programs, or if no leaf has its compute set.
        """
        if step in self._leaves:
            return step
        compute_set = self.steps[step].compute_set
        executing_steps = (
            number for number in self._leaves if self.steps[number].compute_set == compute_set
        )
        return next(executing_steps, step)

    def leaf(self, step: int) -> ProgramNode:
        """Return the first leaf of the programs for `step`, or for its `origin`.

        If there is none, return a node with the kind and name of the step.
        """
        leaf = self._leaves.get(self.origin(step))
        return leaf or ProgramNode(self.cost(step).kind, self.cost(step).name, step)

    def parts(self, step: int) -> tuple[VertexFacts, ...]:
        """Return the vertices that a step executes, by codelet."""
        set_number = self.steps[step].compute_set
        return self.compute_sets[set_number].parts if set_number >= 0 else ()

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
        kinds_and_syncs = (
            (self.cost(number).kind, step.sync == EXTERNAL)
            for number, step in enumerate(self.steps)
        )
        num_synced_ipus = [together(*step, self.target, self.replicas) for step in kinds_and_syncs]
        return np.array(num_synced_ipus, np.int64)

    def by_set(self, number: int) -> tuple[Array, Array]:
        """Return the two arrays of `StepCost.by_set` for step `number`: int64[sets] each."""
        if number not in self._by_set:
            num_synced_ipus = int(self._together[number])
            at_work = self.at_work(number)
            self._by_set[number] = self.cost(number).by_set(num_synced_ipus, at_work, self.target)
        return self._by_set[number]

    @cached_property
    def _by_set(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def several(self, number: int) -> bool:
        """Return whether several IPUs wait for each other before step `number`."""
        return bool(self._together[number])

    def at_work(self, number: int) -> Array:
        """Return which of `Target.sets` take part in step `number`: bool[sets]."""
        tiles = [part.on for part in self.parts(number)]
        return self.cost(number).at_work(tiles, self.target)

    @abstractmethod
    def cost(self, number: int) -> StepCost:
        """Return the cost of one execution of step `number`."""

    @abstractmethod
    def codelet_cycles(self, number: int) -> dict[str, int]:
        """Return the sum of the vertices' cycles in one execution of step `number`, by codelet.

        Vertices without an estimate count as 0 cycles.
        """

    @abstractmethod
    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Return the messages between tiles in step `number`, with an entry for each exchange."""

    def vertices_on(self, number: int) -> tuple[Array, Array, Array] | None:
        """Return three arrays about the vertices that step `number` executes on each tile.

        They are the number of vertices (int64[tiles]), the cycles of the longest vertex
        (int64[tiles]), and whether a vertex uses all workers of the tile (bool[tiles]). The result
        is None if the vertices are not known, as in a profile from a file.
        """
        return None

    def lines_on(self, number: int, tile: int) -> tuple[str, str]:
        """Return the lines that added and that mapped most of the vertices of a step on `tile`.

        Each is the description of a line, or "" if the line is unknown. The second is also "" if
        the line that added the vertices mapped them too.
        """
        return "", ""

    def line_of_move(self, number: int, tile: int, *, within: bool) -> str:
        """Return the line that moves most data for `tile` in the first exchange of step `number`.

        The step is a compute set into which copies were merged. The line is the line of a copy, or
        the line that added most vertices, whose inputs are exchanged. With `within`, the amount is
        the cycles of copies inside the memory of `tile`, and otherwise the bytes that the tile
        sends and receives. The result is "" if the line is unknown, as in a profile from a file.
        """
        return ""

    @abstractmethod
    def at(self, target: Target) -> Profile:
        """Return the same program at the rates of `target`."""
