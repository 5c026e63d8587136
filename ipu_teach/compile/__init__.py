"""Graph and program to one immutable `Compiled`: frozen arrays, checked, grouped and traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ipu_teach.compile.checks import check_graph, check_program
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.compile.groups import Group, Grouper
from ipu_teach.compile.programs import Node, ProgramFreezer, Step
from ipu_teach.compile.workers import check_workers
from ipu_teach.graph.graph import DataStream, Graph, HostAccess
from ipu_teach.program import Program

__all__ = ["Compiled", "compile_graph"]


@dataclass(frozen=True, eq=False)
class Compiled:
    """A checked program: nothing in it changes again. `groups` by compute set id, `steps` by the number in a leaf node."""

    graph: FrozenGraph
    programs: tuple[Node, ...]
    steps: tuple[Step, ...]
    groups: dict[int, tuple[Group, ...]]
    streams: dict[str, DataStream]
    host_accesses: dict[str, HostAccess]


def compile_graph(graph: Graph, programs: Sequence[Program], *, check_races: bool = True) -> Compiled:
    """Check, group and trace. Raises the errors of `checks`, `CodeletError`, and those of a malformed program.

    Without `check_races` a compute set that races is compiled for the plain vertex loop, in which the last vertex wins.
    """
    freezer = ProgramFreezer(graph)
    nodes = tuple(freezer.freeze(program) for program in programs)
    frozen = FrozenGraph(graph)
    racing = check_graph(frozen, refuse_races=check_races)
    for program in programs:
        check_program(frozen, program)
    grouper = Grouper(frozen)
    groups = {
        cs.id: tuple(replace(g, apart=racing.get(cs.id, "")) for t in cs.tables for g in grouper.groups(t))
        for cs in frozen.compute_sets
    }
    for group in (g for listed in groups.values() for g in listed) if check_races else ():
        check_workers(group)
    return Compiled(frozen, nodes, tuple(freezer.steps), groups, dict(graph.streams), dict(graph.host_accesses))
