"""Compile a graph and its programs to one immutable `Compiled`.

Compared with `tiny`, which runs a graph as it is, this package freezes the graph into arrays and
checks all of it before anything runs. Vertices of one codelet whose fields have equal shapes form a
group. The package traces the `compute()` of each group's codelet. If that is impossible, it
translates the source of `compute()` to a loop over elements. Programs become trees of numbered
steps, and independent copies are merged into one step.

Both the trace and the translated source also show how many cycles a codelet takes, and which
elements it writes.

A `Compiled` never changes, and all higher packages use the same `Compiled`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from ipu_teach.compile.checks import check_graph, check_program
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group, Grouper
from ipu_teach.compile.merge import merge_copy_steps
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
    """The immutable result of compiling a graph and its programs.

    `groups` maps the id of each compute set to its groups of vertices. A leaf of `programs`
    contains the number of a step, and `steps[i]` is the step with the number i.
    """

    graph: FrozenGraph
    programs: tuple[Node, ...]
    steps: tuple[Step, ...]
    groups: dict[int, tuple[Group, ...]]
    streams: dict[str, DataStream]
    host_accesses: dict[str, HostAccess]
    remote_buffers: dict[str, RemoteBuffer]
    # A function that returns the counterpart, in the compiled graph, of a tensor that a learner
    # created.
    image: Callable[[Tensor], Tensor] = lambda tensor: tensor


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
    """Check a graph and programs, merge copies, group vertices and trace codelets.

    Without `check_races`, a compute set with a race is compiled for the plain vertex loop, where
    the last vertex that writes an element determines its value. Without `check_fit`, a field may be
    larger than a tile's memory. Without `merge_copies`, each Copy is a separate step.
    `progress(step, total)` is called as the work advances.

    :raises CodeletError: if a codelet is wrong, or its compute() fails.
    :raises ControlProgramError: if a program is malformed.

    The errors of the module `checks` are raised too.
    """
    graph = graph.get_top_level_graph()
    image = Compiled.image
    if graph.replication.part is not None:
        expanded = Whole(graph, graph.replication.part)
        graph = expanded.graph
        image = expanded.image
        programs = image(list(programs))
    total = len(graph.compute_sets) + 2
    progress(0, total)
    freezer = ProgramFreezer(graph)
    nodes = tuple(freezer.freeze(program) for program in programs)
    frozen = FrozenGraph(graph)
    progress(1, total)
    racing = check_graph(frozen, refuse_races=check_races, refuse_large=check_fit)
    for program in programs:
        check_program(frozen, program)
    progress(2, total)
    groups: dict[int, tuple[Group, ...]] = {}
    for done, (number, of_set) in enumerate(_groups(frozen, racing), start=3):
        groups[number] = of_set
        progress(done, total)
    for group in chain.from_iterable(groups.values()) if check_races else ():
        if group.workers:
            check_workers(group)
    steps = tuple(freezer.steps)
    if merge_copies and any(isinstance(step, (CopyStep, RemoteCopyStep)) for step in steps):
        nodes, steps = merge_copy_steps(frozen, nodes, steps)
    return Compiled(
        graph=frozen,
        programs=nodes,
        steps=steps,
        groups=groups,
        streams=dict(graph.streams),
        host_accesses=dict(graph.host_accesses),
        remote_buffers=dict(graph.remote_buffers),
        image=image,
    )


def _groups(
    graph: FrozenGraph, racing: Mapping[int, str]
) -> Iterator[tuple[int, tuple[Group, ...]]]:
    """Yield (id, groups) of each compute set.

    `racing` maps the id of each compute set with a race to a description of the race.
    """
    grouper = Grouper(graph)
    for cs in graph.compute_sets:
        yield (
            cs.id,
            tuple(
                replace(group, race=racing.get(cs.id, ""))
                for table in cs.tables
                for group in grouper.groups(table)
            ),
        )
