"""The facts about a compiled program that a report needs, as plain data.

`Profile` has two subclasses: `CompiledProfile` computes each answer from the compiled program on
request, and `StoredProfile` has read it from a file. Both give the same answers.
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

# The ways in which the host can execute a codelet, fastest first; `Report.ways` describes them. If
# the vertices of a codelet are executed in different ways, a report shows the slowest of these
# ways.
WAYS = ("batch", "scalar", "loop")
# If a scalar loop cannot be compiled, a report shows this text instead of "scalar", followed by the
# line and the function that prevent compilation.
CPYTHON_ALONE = "CPython alone: "


def is_way(text: str) -> bool:
    """Return whether `text` is a value of `Report.ways`: how the host executes a codelet."""
    return text in WAYS or text.startswith(CPYTHON_ALONE)


# Maps kinds of nodes to the names that libpva's visitors use for them.
LIBPVA = {"Execute": "on_tile_execute", "Copy": "do_exchange"}
# The kinds of sync before a step. With NO_SYNC, no tile waits. With INTERNAL, the tiles of each IPU
# wait for each other. With EXTERNAL, the tiles of several IPUs wait for each other.
NO_SYNC, INTERNAL, EXTERNAL = 0, 1, 2


@dataclass(frozen=True)
class VariableFacts:
    """A variable as it was declared.

    `line` describes the learner's line that added the variable. It is "" if the line is not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    category: str
    line: str = ""


def named_replicas(variables: Iterable[VariableFacts], target: Target) -> int:
    """Return the number of replicas, read from variable names such as "x, replica 1 of 2".

    The result is the largest number in these names, or 1 if there is no such name. A number that
    does not divide the number of IPUs is ignored, because users may have chosen such a name
    themselves.
    """
    replica_counts = {without_replica(variable.name)[1] for variable in variables}
    return max(count for count in (1, *replica_counts) if count and target.num_ipus % count == 0)


@dataclass(frozen=True)
class CodeletFacts:
    """A vertex class.

    - `context` is "worker", "supervisor" or "multi" (a `MultiVertex`).
    - `fields` has a (name, declaration) pair for each field.
    - `sources` has a ("Class.method", source text) pair for each method whose text is known.
    - `way` is how the host executes the vertices: a value of `Report.ways`.
    - `unbatched` is the reason why the vertices do not run as a batch, or "" if they run as a
      batch.
    - `ground` is the kind of evidence for the cycles of the vertices, one of `target.GROUNDS`.
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

    - `codelet` is the index of the codelet in `Profile.codelets`.
    - `flops` is the number of floating-point operations of all these vertices, or -1 if unknown.
    - `tiles` are the tiles with at least one of these vertices, as groups of consecutive tiles:
      (first tile, number of tiles) pairs.
    - `line` is the line that added the first of these vertices.
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
        """The numbers of the tiles with at least one of these vertices, ascending: int64[tiles]."""
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

    `rows` is the number of rows that one execution copies, and `bytes` is their total size.
    `variable` is the number of the variable on the tiles. If the copy uses several variables,
    `variable` is the number of the first one.
    """

    buffer: str
    rows: Annotated[int, whole(1)]
    bytes: int
    variable: Annotated[int, whole(below="variables")]


@dataclass(frozen=True)
class StepFacts:
    """A compiled step.

    - `compute_set` is the number of the compute set that the step executes, or -1.
    - `sync` says which tiles wait for each other before the step if the sync pattern is FULL: no
      tiles (`NO_SYNC`), the tiles of each IPU (`INTERNAL`), or the tiles of several IPUs
      (`EXTERNAL`).
    - `to_device` is True if the step copies data to the device, False if it copies data from the
      device, and None if it does neither.
    - `line` describes the user's lines that contain the copies of the step.
    - `moves` has the step's copies to and from remote buffers, in order.
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
    - `step` is the number of the compiled step that the node executes if it is a leaf, and -1 if it
      is not.
    - `count` is the number of iterations of a Repeat.
    - `predicate` is the name of the tensor that an If, a Switch or a while loop reads to decide
      what to execute.
    - `cases` are the numbers of the cases of a Switch.
    - `children` are the programs inside this program. The children of a leaf are the copies that
      the compiler merged into the leaf's step.
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
        """The class of the program, such as "Repeat". This is `kind` under libpva's name."""
        return self.kind

    def walk(self) -> Iterator[tuple[int, ProgramNode]]:
        """Yield (depth, node) for this node and all nodes below it, in program order."""
        nodes_to_visit = [(0, self)]
        while nodes_to_visit:
            depth, node = nodes_to_visit.pop()
            yield depth, node
            nodes_to_visit += [(depth + 1, child) for child in reversed(node.children)]

    def leaves(self) -> Iterator[ProgramNode]:
        """Yield the leaves below this node, in program order."""
        return (node for _, node in self.walk() if node.step >= 0)

    def accept(self, visitor: object) -> None:
        """Call `visitor.visit_KIND(node)` for this node and all nodes below it, in program order.

        KIND is the kind in snake_case: `visit_execute`, `visit_copy`, `visit_repeat_while_true`.
        Instead of `visit_execute` and `visit_copy`, the visitor may have the methods that libpva
        calls: `visit_on_tile_execute` and `visit_do_exchange`. If the visitor has no method for a
        kind, its method `visit` is called, if it exists. If the called method returns False, the
        nodes below the current node are skipped.
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

    - `variables` has the variables in the order in which they were added, followed by the variables
      for the state of vertices.
    - `codelets` has the vertex classes in use.
    - `compute_sets` has the compute sets in the order in which they were added.
    - `steps` has the compiled steps; `programs` has the program trees, whose leaves execute these
      steps.
    - `memory` has the bytes by tile, variable and category.
    - `edges` is the number of connections of a vertex field to a tensor.
    - `replicas` is the number of replicas of the graph.
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
        """The numbers of the compiled steps that are executed by leaves of the programs.

        If the cycles of a step depend on data, `steps` also has entries for its measured
        executions. The numbers of these additional entries are not included.
        """
        return frozenset(self._leaves)

    @cached_property
    def _leaves(self) -> dict[int, ProgramNode]:
        """A dict from each compiled step's number to the first program leaf that executes it."""
        leaves: dict[int, ProgramNode] = {}
        for leaf in (leaf for program in self.programs for leaf in program.leaves()):
            leaves.setdefault(leaf.step, leaf)
        return leaves

    def origin(self, step: int) -> int:
        """Return the number of the compiled step of which `step` is a measured execution.

        If a leaf of the programs executes `step` itself, or if no leaf executes its compute set,
        return `step`.
        """
        if step in self._leaves:
            return step
        compute_set = self.steps[step].compute_set
        executing_steps = (
            number for number in self._leaves if self.steps[number].compute_set == compute_set
        )
        return next(executing_steps, step)

    def leaf(self, step: int) -> ProgramNode:
        """Return the first leaf of the programs that executes a compiled step.

        `step` is the number of the compiled step, or of a measured execution of it. If there is no
        such leaf, return a new node with the kind and the name of the step.
        """
        leaf = self._leaves.get(self.origin(step))
        return leaf or ProgramNode(self.cost(step).kind, self.cost(step).name, step)

    def parts(self, step: int) -> tuple[VertexFacts, ...]:
        """Return the vertices that a compiled step executes, with an entry for each codelet."""
        set_number = self.steps[step].compute_set
        return self.compute_sets[set_number].parts if set_number >= 0 else ()

    def vertices(self, step: int) -> dict[str, int]:
        """Return the number of vertices that a compiled step executes, by codelet name."""
        counts = Counter[str]()
        for part in self.parts(step):
            counts[self.codelets[part.codelet].name] += part.vertices
        return dict(counts)

    @cached_property
    def external(self) -> Array:
        """Whether all IPUs wait for each other before each compiled step: bool[steps]."""
        return np.asarray(self._together == self.target.num_ipus)

    @cached_property
    def _together(self) -> Array:
        """The number of IPUs that wait for each other before each compiled step: int64[steps].

        The number is 0 for a step before which no IPU waits for another IPU.
        """
        kinds_and_syncs = (
            (self.cost(number).kind, step.sync == EXTERNAL)
            for number, step in enumerate(self.steps)
        )
        num_synced_ipus = [together(*step, self.target, self.replicas) for step in kinds_and_syncs]
        return np.array(num_synced_ipus, np.int64)

    def by_set(self, number: int) -> tuple[Array, Array]:
        """Return `(groups, cycles)` of compiled step `number` for `Target.sets`: two int64[sets].

        Sets of tiles that begin the step together have the same number in `groups`. If all IPUs
        begin the step together, this number is 0. A set that does not wait for any other set has
        the number -1. `cycles` is the time that one execution of the step takes on each set.
        """
        if number not in self._by_set:
            num_synced_ipus = int(self._together[number])
            at_work = self.at_work(number)
            self._by_set[number] = self.cost(number).by_set(num_synced_ipus, at_work, self.target)
        return self._by_set[number]

    @cached_property
    def _by_set(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def several(self, number: int) -> bool:
        """Return whether several IPUs wait for each other before compiled step `number`."""
        return bool(self._together[number])

    def at_work(self, number: int) -> Array:
        """Return which of `Target.sets` take part in compiled step `number`: bool[sets]."""
        tiles = [part.on for part in self.parts(number)]
        return self.cost(number).at_work(tiles, self.target)

    @abstractmethod
    def cost(self, number: int) -> StepCost:
        """Return the modelled cost of one execution of compiled step `number`."""

    @abstractmethod
    def codelet_cycles(self, number: int) -> dict[str, int]:
        """Return the vertices' cycles in one execution of a compiled step, summed by codelet name.

        `number` is the number of the step. A vertex without an estimate counts as 0 cycles.
        """

    @abstractmethod
    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Return the messages between tiles in compiled step `number`, for each exchange."""

    def vertices_on(self, number: int) -> tuple[Array, Array, Array] | None:
        """Return `(counts, longest, uses_all_workers)` for the vertices of step `number`, by tile.

        `counts` (int64[tiles]) is the number of vertices on each tile. `longest` (int64[tiles]) has
        the cycles of the longest vertex. `uses_all_workers` (bool[tiles]) is True if a vertex uses
        all workers of the tile. The result is None if the step executes no compute set, or if the
        vertices are not known, as in a profile from a file.
        """
        return None

    def lines_on(self, number: int, tile: int) -> tuple[str, str]:
        """Return `(adding_line, mapping_line)` for the vertices of step `number` on `tile`.

        `adding_line` describes the user's line that added most of these vertices, and
        `mapping_line` the line that mapped most of them. A line that is not known is "".
        `mapping_line` is also "" if the same line both added and mapped the vertices.
        """
        return "", ""

    def line_of_move(self, number: int, tile: int, *, within: bool) -> str:
        """Return the user's line that moves the most data for `tile` in an exchange.

        The exchange is the first one of step `number`. It moves the inputs of the vertices that the
        step executes, and the data of copies that the compiler merged into the step. So the result
        is either the line that added most of the vertices, or the line of a copy. If `within` is
        False, the amount of data is the number of bytes that the tile sends and receives. If
        `within` is True, the amount is measured by the cycles that copies inside the tile's memory
        take. The result is "" if the line is not known, as in a profile from a file.
        """
        return ""

    @abstractmethod
    def at(self, target: Target) -> Profile:
        """Return the profile of the same program on `target`, a machine with other rates."""
