"""A report's knowledge of a compiled program, as plain data.

A `Profile` has two forms: `CompiledProfile` computes each answer from the compiled program on
request, and `StoredProfile` has read it from a file. The report, its tables and comparisons cannot
tell them apart.
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

# how a codelet runs, the slowest last; of several ways a report names that
WAYS = ("batch", "scalar", "loop")
# how a scalar loop runs that cannot be compiled; the line and the function follow
CPYTHON_ALONE = "CPython alone: "


def is_way(text: str) -> bool:
    """Return whether `text` says how a codelet runs."""
    return text in WAYS or text.startswith(CPYTHON_ALONE)


# the name that libpva's visitors give to a node of that kind
LIBPVA = {"Execute": "on_tile_execute", "Copy": "do_exchange"}
NO_SYNC, INTERNAL, EXTERNAL = 0, 1, 2  # the tiles that wait for each other before a step


@dataclass(frozen=True)
class VariableFacts:
    """A variable as it was declared. `line`: the learner's line that made it, in words; "" where
    that is not known."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    category: str
    line: str = ""


def named_replicas(variables: Iterable[VariableFacts], target: Target) -> int:
    """Return how many replicas there are by the names of variables, which anybody may give."""
    replicated = {without_replica(v.name)[1] for v in variables}
    return max(n for n in (1, *replicated) if n and target.num_ipus % n == 0)


@dataclass(frozen=True)
class CodeletFacts:
    """A vertex class. `fields`: name and declaration. `sources`: (method, its text) for those whose
    text is to be had. `way`: how its vertices run, see `Report.ways`; `unbatched`: why
    not as one batch, if not. `ground`: on what its cycles rest, one of `target.GROUNDS`."""

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
    """The vertices of one codelet in one compute set; `flops`: of all of them, -1 where unknown.
    `tiles`: how many tiles have one, in runs (first tile, how many tiles)."""

    codelet: Annotated[int, whole(below="codelets")]
    vertices: int
    flops: Annotated[int, whole(-1)]
    tiles: tuple[
        tuple[Annotated[int, whole(below="tiles")], Annotated[int, whole(1, "tiles")]], ...
    ]
    line: Annotated[str, NOTE] = ""

    @property
    def on(self) -> Array:
        """int64[tiles that have one]: their numbers, ascending."""
        runs = [np.arange(first, first + count) for first, count in self.tiles]
        return np.concatenate(runs) if runs else np.zeros(0, np.int64)


@dataclass(frozen=True)
class ComputeSetFacts:
    """A compute set and what is in it."""

    name: str
    parts: tuple[VertexFacts, ...]


@dataclass(frozen=True)
class RowsMoved:
    """A copy with a remote buffer: `rows` rows at a time, `bytes` in all, and the number of the
    variable to or from which they are moved, the first of several."""

    buffer: str
    rows: Annotated[int, whole(1)]
    bytes: int
    variable: Annotated[int, whole(below="variables")]


@dataclass(frozen=True)
class StepFacts:
    """A compiled step. `compute_set` is the number of the one that it executes, or -1. `sync` says
    who waits, under the sync pattern FULL. `to_device` is the direction of the host's data, None
    for a step without the host. `line` is the line of a Copy; `moves` are its remote buffers, in
    order."""

    compute_set: Annotated[int, whole(-1, below="compute_sets")] = -1
    sync: Annotated[int, whole(NO_SYNC, EXTERNAL)] = INTERNAL
    to_device: bool | None = None
    line: Annotated[str, NOTE] = ""
    moves: Annotated[tuple[RowsMoved, ...], NOTE] = ()


@dataclass(frozen=True, eq=False)
class ProgramNode:
    """A place in a program: `kind` is its class, `step` numbers a leaf, else -1. `count` is a
    Repeat's; `predicate` names what decides; `cases` are a Switch's. The children of a leaf are the
    copies that were merged in it."""

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
        """`kind`, by libpva's name."""
        return self.kind

    def walk(self) -> Iterator[tuple[int, ProgramNode]]:
        """Yield (depth, node) of this node and all below, in order."""
        waiting = [(0, self)]
        while waiting:
            depth, node = waiting.pop()
            yield depth, node
            waiting += [(depth + 1, child) for child in reversed(node.children)]

    def leaves(self) -> Iterator[ProgramNode]:
        """Yield the leaves below, in order."""
        return (node for _, node in self.walk() if node.step >= 0)

    def accept(self, visitor: object) -> None:
        """Call `visitor.visit_KIND(node)` for this node and all below, in order; `visit` where
        there is none of that name.

        KIND is in snake_case: `visit_execute`, `visit_copy`, `visit_repeat_while_true`; libpva's
        `visit_on_tile_execute` and `visit_do_exchange` do for the first two. A visitor that returns
        False is not taken further down.
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
    """The facts of one compiled program, and the costs of its steps.

    `variables` are in the order in which they were added, those of vertices' state last. `codelets`
    are the vertex classes in use. `compute_sets` are in the order in which they were added. `steps`
    are the leaves of the programs, each once. `programs` are trees. `memory` is the byte ledger.
    `edges` counts the regions of memory that vertices hold. `replicas` is the number of replicas of
    one graph.
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
        """The steps that the programs name. Others are executions of them that were measured, where
        cycles depend on data."""
        return frozenset(self._leaves)

    @cached_property
    def _leaves(self) -> dict[int, ProgramNode]:
        """By step the first leaf of the programs that is it, in their order."""
        leaves: dict[int, ProgramNode] = {}
        for leaf in (leaf for program in self.programs for leaf in program.leaves()):
            leaves.setdefault(leaf.step, leaf)
        return leaves

    def origin(self, step: int) -> int:
        """Return the step of the programs of which `step` is a measured execution; `step` itself if
        the programs name it, or if no program executes its compute set."""
        if step in self._leaves:
            return step
        compute_set = self.steps[step].compute_set
        executing = (n for n in self._leaves if self.steps[n].compute_set == compute_set)
        return next(executing, step)

    def leaf(self, step: int) -> ProgramNode:
        """Return the first leaf of the programs that is step `step`, or of which `step` is a
        measured execution."""
        leaf = self._leaves.get(self.origin(step))
        return leaf or ProgramNode(self.cost(step).kind, self.cost(step).name, step)

    def parts(self, step: int) -> tuple[VertexFacts, ...]:
        """Return the vertices that a step executes, by codelet."""
        which = self.steps[step].compute_set
        return self.compute_sets[which].parts if which >= 0 else ()

    def vertices(self, step: int) -> dict[str, int]:
        """Return how many vertices of each codelet a step executes."""
        counts = Counter[str]()
        for part in self.parts(step):
            counts[self.codelets[part.codelet].name] += part.vertices
        return dict(counts)

    @cached_property
    def external(self) -> Array:
        """bool[steps]: in which of them all IPUs take part together."""
        return np.asarray(self._together == self.target.num_ipus)

    @cached_property
    def _together(self) -> Array:
        """int64[steps]: in each how many IPUs take part together, 0 where each does by itself."""
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
        """Whether several IPUs wait for each other before step `number`."""
        return bool(self._together[number])

    def at_work(self, number: int) -> Array:
        """Return bool[sets]: which of `Target.sets` have a part in step `number`, be it one that
        holds up others, too."""
        tiles = [part.on for part in self.parts(number)]
        return self.cost(number).at_work(tiles, self.target)

    @abstractmethod
    def cost(self, number: int) -> StepCost:
        """Return one execution of step `number`."""

    @abstractmethod
    def codelet_cycles(self, number: int) -> dict[str, int]:
        """Return the cycles of one execution of step `number`, summed by codelet; unknown ones
        count nothing."""

    @abstractmethod
    def transfers(self, number: int) -> tuple[Transfers, ...]:
        """Return which tile sends what to which in step `number`: one entry for each of its
        exchanges."""

    def vertices_on(self, number: int) -> tuple[Array, Array, Array] | None:
        """By tile, of the vertices that step `number` executes: how many, the cycles of the
        longest, whether one takes the whole tile. None where that is not known, as in a file."""
        return None

    def lines_on(self, number: int, tile: int) -> tuple[str, str]:
        """Return the line that added most of those vertices on a tile, and the one that put most of
        them there, in words; "" if that is not known, or if the first did both."""
        return "", ""

    def line_of_move(self, number: int, tile: int, *, within: bool) -> str:
        """Return the line that moves most in the first exchange of step `number`, for a compute set
        that copies were merged into: one of these copies, or the vertices, whose inputs arrive.

        `within`: count what moves inside the memory of `tile`; otherwise what it sends and
        receives. Returns "" if that is not known, as in a report from a file.
        """
        return ""

    @abstractmethod
    def at(self, target: Target) -> Profile:
        """Return the same program at the rates of `target`."""
