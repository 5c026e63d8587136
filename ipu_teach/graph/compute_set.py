"""Compute sets, whose vertices run at the same time, and functions, which are programs to call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ipu_teach._support.progress import growing
from ipu_teach.errors import GraphObjectCreationError, shown
from ipu_teach.graph import outline
from ipu_teach.graph.templates import open_template
from ipu_teach.graph.vertex import Vertex, is_template, no_compute
from ipu_teach.graph.vertex_table import VertexTable

if TYPE_CHECKING:
    from ipu_teach.graph.graph import Graph


class ComputeSet:
    """A set of vertices that run at the same time, in one superstep. `Execute` runs it."""

    def __init__(self, graph: Graph, number: int, name: str) -> None:
        self.graph = graph
        self.id = number
        self.name = name
        self.tables: dict[type[Vertex], VertexTable] = {}
        self.num_vertices = 0
        # The number of copies of the compute set in a graph of replicas. The vertices of a copy are
        # consecutive in every table.
        self.replicas = 1

    def __repr__(self) -> str:
        return outline.compute_set_line(self)

    def _repr_html_(self) -> str:
        return outline.compute_set_table(self)


@dataclass(frozen=True, eq=False)
class Function:
    """A program that can be called from several places, created by `Graph.add_function`.

    `Call` runs it.
    """

    graph: Graph
    name: str
    program: Any

    def __repr__(self) -> str:
        return f"Function({self.name!r})"


def table_of(graph: Graph, compute_set: ComputeSet, codelet: type[Vertex] | str) -> VertexTable:
    """Return the table of `codelet`, a class or a name, in a compute set of `graph`.

    The table is created on the first call. Raises `GraphObjectCreationError`,
    `UnknownVertexTypeError` and `VertexDefinitionError`.
    """
    if isinstance(codelet, str):
        codelet = graph.codelets.find(codelet)
    if not isinstance(compute_set, ComputeSet) or compute_set.graph is not graph:
        raise GraphObjectCreationError(f"""{shown(compute_set)} is not a compute set of this graph.
            next:  make one with graph.add_compute_set(name), and write add_vertex(compute_set,
            codelet, …).""")
    if not isinstance(codelet, type) or not issubclass(codelet, Vertex):
        raise GraphObjectCreationError(f"""{shown(codelet)} is not a vertex class.
            next:  write a class that derives from Vertex, and pass the class.""")
    if codelet.compute is Vertex.compute:
        raise no_compute(codelet)
    if codelet not in compute_set.tables:
        if is_template(codelet):
            raise open_template(codelet)
        compute_set.tables[codelet] = VertexTable(graph, compute_set, codelet)
        growing("build", "vertices", graph, "num_vertices")
    return compute_set.tables[codelet]


def foreign(argument: object, call: str) -> GraphObjectCreationError:
    """Return the error for a vertex or compute set of another graph."""
    return GraphObjectCreationError(
        f"{call} was given an object of another graph.",
        where=shown(argument),
        next_step="use one graph throughout.",
    )
