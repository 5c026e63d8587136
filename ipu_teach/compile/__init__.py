"""Graph and program to one immutable `Compiled`: frozen arrays, checked, grouped and traced.

Beside `tiny`, which runs a graph as it stands: the graph is frozen into arrays once, and checked
whole before anything runs; vertices whose fields have equal shapes are one group; a codelet's
`compute()` is traced, or its text read as a loop over elements, with its costs and what it defines;
programs are numbered steps, of which copies that do not disturb each other are one. A `Compiled`
never changes, and everything above reads the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ipu_teach.compile.checks import check_graph, check_program
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group, Grouper
from ipu_teach.compile.merge import merged
from ipu_teach.compile.programs import CopyStep, Node, ProgramFreezer, RemoteCopyStep, Step
from ipu_teach.compile.replicas import Whole
from ipu_teach.compile.workers import check_workers
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.host_handles import HostAccess
from ipu_teach.graph.remote_buffer import RemoteBuffer
from ipu_teach.graph.stream import DataStream
from ipu_teach.graph.tensor import Tensor
from ipu_teach.program import Program

__all__ = ["Compiled", "StepProgress", "compile_programs"]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A checked program: nothing in it changes again. `groups` by compute set id, `steps` by the
    number in a leaf node."""

    graph: FrozenGraph
    programs: tuple[Node, ...]
    steps: tuple[Step, ...]
    groups: dict[int, tuple[Group, ...]]
    streams: dict[str, DataStream]
    host_accesses: dict[str, HostAccess]
    remote_buffers: dict[str, RemoteBuffer]
    # what stands in it for a tensor that a learner made
    seen: Callable[[Tensor], Tensor] = lambda tensor: tensor


StepProgress = Callable[[int, int], object]


def compile_programs(
    graph: Graph,
    programs: Sequence[Program],
    *,
    check_races: bool = True,
    check_fit: bool = True,
    merge_copies: bool = True,
    progress: StepProgress = lambda step, total: None,
) -> Compiled:
    """Check, merge copies, group and trace. Raises the errors of `checks`, `CodeletError`, and
    those of a malformed program.

    Without `check_races` a compute set that races is compiled for the plain vertex loop, in which
    the last vertex wins. Without `check_fit` a field may be larger than a tile's memory. Without
    `merge_copies` each Copy is a step of its own. `progress(step, total)` is called as the work
    goes on.
    """
    total = len(graph.compute_sets) + 2
    progress(0, total)
    graph, seen = graph.get_top_level_graph(), Compiled.seen
    if graph.replication.part is not None:
        whole = Whole(graph, graph.replication.part)
        graph, seen, programs = whole.graph, whole.seen, whole.seen(list(programs))
    freezer = ProgramFreezer(graph)
    nodes = tuple(freezer.freeze(program) for program in programs)
    frozen = FrozenGraph(graph)
    progress(1, total)
    racing = check_graph(frozen, refuse_races=check_races, refuse_large=check_fit)
    for program in programs:
        check_program(frozen, program)
    progress(2, total)
    grouper = Grouper(frozen)
    groups: dict[int, tuple[Group, ...]] = {}
    for done, cs in enumerate(frozen.compute_sets, start=3):
        groups[cs.id] = tuple(
            replace(g, apart=racing.get(cs.id, "")) for t in cs.tables for g in grouper.groups(t)
        )
        progress(done, total)
    for group in (
        (g for listed in groups.values() for g in listed if g.workers) if check_races else ()
    ):
        check_workers(group)
    outside = dict(graph.streams), dict(graph.host_accesses), dict(graph.remote_buffers)
    steps = tuple(freezer.steps)
    if merge_copies and any(isinstance(step, (CopyStep, RemoteCopyStep)) for step in steps):
        nodes, steps = merged(frozen, nodes, steps)
    return Compiled(frozen, nodes, steps, groups, *outside, seen)
