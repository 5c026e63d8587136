"""The profile of a program that was compiled in this process.

It computes each answer from the cost model on request.
"""

# mypy: disable-error-code=override
# mypy refuses cached properties that override fields of the base class, as below.

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from textwrap import dedent
from types import FunctionType

import numpy as np

from ipu_teach._support.own_code import is_library
from ipu_teach.compile import programs as p
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.cost import CostModel, StepCost
from ipu_teach.cost.exchange import Traffic, copy_traffic, reads, writes
from ipu_teach.cost.flops import vertex_flops
from ipu_teach.cost.grounds import codelet_ground
from ipu_teach.cost.host_transfers import with_host
from ipu_teach.cost.ledger import MemoryLedger
from ipu_teach.cost.model import UNSYNCED
from ipu_teach.cost.transfers import Transfers, transfers
from ipu_teach.graph.source import in_words
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import Vertex
from ipu_teach.report import profile as facts
from ipu_teach.report.profile import CPYTHON_ALONE, WAYS, Profile
from ipu_teach.target import Target
from ipu_teach.types import Array


class CompiledProfile(Profile):
    """A profile that computes its answers from the cost model `cost` of a compiled program.

    The keys of `looped` are the codelets that ran vertex by vertex because of `vertex_loop=True`.
    Its values are texts that state this reason.
    """

    def __init__(self, cost: CostModel, looped: Mapping[type[Vertex], str] | None = None) -> None:
        self.model = cost
        self._looped = dict(looped or {})
        self._compiled = cost.compiled
        self.target = cost.target
        self.replicas = cost.compiled.graph.replicas

    @cached_property
    def variables(self) -> tuple[facts.VariableFacts, ...]:
        graph = self._compiled.graph
        return tuple(
            facts.VariableFacts(
                variable.name,
                variable.dtype.__name__,
                shape=tuple(variable.shape),
                category=category,
                line=in_words(variable.line),
            )
            for variable, category in zip(graph.variables, self.memory.categories, strict=True)
        )

    @cached_property
    def _classes(self) -> list[type[Vertex]]:
        return list(dict.fromkeys(table.codelet for _, table in self._compiled.graph.tables()))

    @cached_property
    def codelets(self) -> tuple[facts.CodeletFacts, ...]:
        codelet_facts = []
        for codelet in self._classes:
            groups = [
                group
                for groups_of_set in self.model.groups.values()
                for group in groups_of_set
                if group.table.codelet is codelet
            ]
            slowest = max(
                groups,
                key=lambda group: (WAYS.index(group.way), bool(group.uncompiled)),
                default=None,
            )
            way, reason = (slowest.way, slowest.unbatched) if slowest else (WAYS[0], "")
            if slowest and slowest.uncompiled:
                way = CPYTHON_ALONE + slowest.uncompiled
            if codelet in self._looped:
                way = WAYS[-1]
                reason = "; ".join(filter(None, (reason, self._looped[codelet])))
            declarations = tuple(
                (name, field.declaration()) for name, field in codelet.fields.items()
            )
            codelet_facts.append(
                facts.CodeletFacts(
                    codelet.__name__,
                    codelet.context,
                    fields=declarations,
                    unbatched=reason,
                    way=way,
                    sources=sources(codelet),
                    ground=codelet_ground(groups),
                )
            )
        return tuple(codelet_facts)

    @cached_property
    def compute_sets(self) -> tuple[facts.ComputeSetFacts, ...]:
        return tuple(
            facts.ComputeSetFacts(
                compute_set.name, tuple(self._part(table) for table in compute_set.tables)
            )
            for compute_set in self._compiled.graph.compute_sets
        )

    def _part(self, table: FrozenTable) -> facts.VertexFacts:
        flops_and_counts = [
            (vertex_flops(group), len(group.rows))
            for group in self.model.groups[table.compute_set]
            if group.table is table
        ]
        total_flops = (
            -1
            if any(flops_of_vertex < 0 for flops_of_vertex, _ in flops_and_counts)
            else sum(flops_of_vertex * count for flops_of_vertex, count in flops_and_counts)
        )
        return facts.VertexFacts(
            self._classes.index(table.codelet),
            len(table),
            flops=total_flops,
            tiles=runs_of(np.unique(table.tiles)),
            line=in_words(table.line(0)),
        )

    @cached_property
    def steps(self) -> tuple[facts.StepFacts, ...]:
        return tuple(map(self._facts, range(self.model.num_steps)))

    def _facts(self, step_number: int) -> facts.StepFacts:
        step = self.model.compiled_step(step_number)
        set_number = step.compute_set if isinstance(step, p.ExecuteStep) else -1
        host_transfer = with_host(step)
        lines = list(dict.fromkeys(copy.line for copy in p.copies(step)))[:3]
        return facts.StepFacts(
            set_number,
            self._sync(step_number, step),
            to_device=host_transfer[1] if host_transfer else None,
            line=in_words(*lines),
            moves=tuple(map(_rows_moved, p.remote(step))),
        )

    def _sync(self, step_number: int, step: p.Step) -> int:
        if isinstance(step, UNSYNCED):
            return facts.NO_SYNC
        return facts.EXTERNAL if self.model.external_under_full(step_number) else facts.INTERNAL

    @cached_property
    def programs(self) -> tuple[facts.ProgramNode, ...]:
        return tuple(_node(program) for program in self._compiled.programs)

    @cached_property
    def memory(self) -> MemoryLedger:
        return self.model.memory

    @cached_property
    def edges(self) -> int:
        tables = (table for _, table in self._compiled.graph.tables())
        return sum(
            len(table) * sum(field.kind != "state" for field in table.fields.values())
            for table in tables
        )

    def cost(self, number: int) -> StepCost:
        return self.model.step(number)

    def codelet_cycles(self, number: int) -> dict[str, int]:
        return self.model.codelet_cycles(number)

    def transfers(self, number: int) -> tuple[Transfers, ...]:
        return transfers(self._compiled.graph, self.model.compiled_step(number))

    def vertices_on(self, number: int) -> tuple[Array, Array, Array] | None:
        if self.model.compute_set(number) is None:
            return None
        vertices_per_tile, longest_per_tile = (
            np.zeros(self.target.num_tiles, np.int64) for _ in range(2)
        )
        cycles, tiles, uses_all_workers, _ = self.model.vertex_cycles(number)
        np.add.at(vertices_per_tile, tiles, 1)
        np.maximum.at(longest_per_tile, tiles, cycles)
        return (
            vertices_per_tile,
            longest_per_tile,
            np.isin(np.arange(len(vertices_per_tile)), tiles[uses_all_workers]),
        )

    def lines_on(self, number: int, tile: int) -> tuple[str, str]:
        tables = self._compiled.graph.executed(self.model.compiled_step(number))
        vertices_on_tile = [
            (table, row) for table in tables for row in np.flatnonzero(table.tiles == tile).tolist()
        ]
        adding_lines, mapping_lines = (
            Counter(line_of(table, row) for table, row in vertices_on_tile)
            for line_of in (FrozenTable.line, FrozenTable.placed_by)
        )
        if not vertices_on_tile:
            return "", ""
        return in_words(adding_lines.most_common(1)[0][0]), in_words(
            mapping_lines.most_common(1)[0][0]
        )

    def origin(self, step: int) -> int:
        return self.model.compiled_number(step)

    def line_of_move(self, number: int, tile: int, *, within: bool) -> str:
        step = self.model.compiled_step(number)
        graph = self._compiled.graph
        compute_set = self.model.compute_set(number)
        if compute_set is None:
            return ""
        moved_by_line: Counter[str] = Counter()
        moved_for_vertices = self._share_of(reads(graph, compute_set), tile, within)
        if within:
            moved_for_vertices += self._share_of(writes(graph, compute_set), tile, within)
        moved_by_line[self.lines_on(number, tile)[0]] = moved_for_vertices
        for copy in p.copies(step):
            if isinstance(copy.source, Tensor) and isinstance(copy.destination, Tensor):
                traffic = copy_traffic(graph, [(copy.source, copy.destination)])
                moved_by_line[in_words(copy.line)] += self._share_of(traffic, tile, within)
        return moved_by_line.most_common(1)[0][0]

    def _share_of(self, traffic: Traffic, tile: int, within: bool) -> int:
        """Return the cycles of copies inside a tile, or the bytes that the tile exchanges.

        The result is the cycles if `within` is True, and the bytes otherwise.
        """
        if within:
            return int(traffic.copy_cycles(self.target)[0][tile])
        return int(traffic.received[tile] + traffic.sent[tile])

    def at(self, target: Target) -> Profile:
        return CompiledProfile(self.model.at(target), self._looped)


def _rows_moved(copy: p.RemoteCopyStep) -> facts.RowsMoved:
    tensor = copy.tensor
    buffer = copy.buffer
    variable = tensor.get_var_regions()[0].var.id
    num_bytes = tensor.num_elements * tensor.dtype.size
    return facts.RowsMoved(buffer.handle, copy.rows, num_bytes, variable)


def _node(node: p.Node) -> facts.ProgramNode:
    predicate = "" if node.predicate is None else node.predicate.graph.describe(node.predicate)
    children = tuple(_node(child) for child in node.children)
    return facts.ProgramNode(
        node.kind,
        node.name,
        step=node.step,
        count=node.count,
        predicate=predicate,
        cases=node.cases,
        children=children,
    )


def runs_of(tiles: Array) -> tuple[tuple[int, int], ...]:
    """Group ascending numbers into runs of consecutive numbers: (first number, length) pairs."""
    starts = np.flatnonzero(np.append(True, np.diff(tiles) > 1)[: len(tiles)])
    lengths = np.diff(np.append(starts, len(tiles)))
    return tuple(zip(tiles[starts].tolist(), lengths.tolist(), strict=True))


def sources(codelet: type[Vertex]) -> tuple[tuple[str, str], ...]:
    """Return ("Class.method", source text) for each method of a vertex class, own or inherited.

    Methods of `Vertex` itself, special methods, and methods without source text are left out. The
    source text of a library class is not the learner's, so for such a class the result is a single
    pair: the name of the class and the first sentence of its docstring. If the class has no
    docstring, the result is ().
    """
    defining_class = next(
        c for c in codelet.__mro__ if not c.__module__.startswith("ipu_teach.graph")
    )
    if is_library(defining_class.__module__):
        sentence = " ".join((defining_class.__doc__ or "").split()).partition(". ")[0].rstrip(".")
        return ((codelet.__name__, f"{sentence}."),) if sentence else ()
    texts: dict[str, tuple[str, str]] = {}
    for owner in (
        c
        for c in codelet.__mro__
        if issubclass(c, Vertex) and not c.__module__.startswith("ipu_teach.graph")
    ):
        for method_name, attribute in vars(owner).items():
            if (
                isinstance(attribute, FunctionType)
                and method_name not in texts
                and not method_name.startswith("__")
            ):
                try:
                    text = dedent(inspect.getsource(attribute)).rstrip()
                except (OSError, TypeError, IndentationError):
                    continue  # There is no source text, for example if `exec` ran the code.
                texts[method_name] = (f"{owner.__name__}.{method_name}", text)
    return tuple(texts.values())
