"""Graphs as GraphViz text, to be drawn with `dot`.

A box is a vertex or a compute set, an ellipse is a variable, a note is a stream, and a cylinder is
a remote buffer. Solid arrows are edges of vertices, and dashed arrows are copies. Equal graphs give
the same text in every process.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from ipu_teach.errors import GraphObjectCreationError, shown
from ipu_teach.graph.remote_buffer import RemoteBuffer
from ipu_teach.graph.stream import DataStream
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex_table import VertexTable

if TYPE_CHECKING:
    from ipu_teach.graph.compute_set import ComputeSet
    from ipu_teach.graph.graph import Graph


class Node(Protocol):
    """A program, of which this module needs only the children.

    Programs are built from graphs, so the classes of programs cannot be imported here.
    """

    def children(self) -> Sequence[Node]: ...


Programs: TypeAlias = Node | Sequence[Node] | None
Edge = tuple[str, str, str]  # from, to, attributes


def vertex_graph(graph: Graph, programs: Programs = None) -> str:
    """Return a drawing of every vertex, with the variables that its fields are connected to.

    With `programs`, only the vertices that they execute are drawn.
    """
    sets, _ = _used(graph, programs)
    boxes = []
    edges = []
    for cs in sets:
        for codelet, table in cs.tables.items():
            for row in range(len(table)):
                name = f"v{cs.id}_{table.order[row]}"
                label = table.names.get(row) or f"{cs.name} {table.order[row]}"
                tile = table.tiles[row]
                boxes.append(
                    _node(
                        name,
                        f"{label}\n{codelet.__name__}\n"
                        + (f"tile {tile}" if tile >= 0 else "no tile"),
                        "box",
                    )
                )
                edges += _field_edges(graph, table, row, name)
    return _text(graph, boxes, edges)


def compute_graph(graph: Graph, programs: Programs = None) -> str:
    """Return a drawing of every compute set, with the variables that its vertices read and write.

    With `programs`, only the compute sets that they execute are drawn, and also their copies.
    """
    sets, copies = _used(graph, programs)
    boxes = []
    edges = []
    for cs in sets:
        boxes.append(_node(f"c{cs.id}", f"{cs.name}\n{cs.num_vertices:,} vertices", "box"))
        edge_list: list[Edge] = []
        for table in cs.tables.values():
            for row in range(len(table)):
                edge_list += [
                    (a, b, "") for a, b, _ in _field_edges(graph, table, row, f"c{cs.id}")
                ]
        edges += list(dict.fromkeys(edge_list))
    for copy in copies:
        ends = [_ends(graph, side) for side in (copy.source, copy.destination)]
        edges += [(a, b, "style=dashed") for a in ends[0] for b in ends[1]]
    return _text(graph, boxes, list(dict.fromkeys(edges)))


def _used(graph: Graph, programs: Programs) -> tuple[list[ComputeSet], list[Any]]:
    """Return the compute sets and the copies of `programs`, each once.

    If `programs` is None, return all compute sets and no copies. The kinds of programs are
    recognised by their attributes.
    """
    if programs is None:
        return list(graph.compute_sets), []
    sets: dict[int, ComputeSet] = {}
    copies = []
    listed: Sequence[Any] = programs if isinstance(programs, (list, tuple)) else [programs]
    for program in _walk(listed):
        if hasattr(program, "compute_set"):
            sets[program.compute_set.id] = program.compute_set
        elif hasattr(program, "source") and hasattr(program, "destination"):
            copies.append(program)
    return [sets[number] for number in sorted(sets)], copies


def _walk(programs: Sequence[Node]) -> Iterator[Node]:
    """Yield `programs` and all programs inside them, in order."""
    pending = list(reversed(programs))
    while pending:
        program = pending.pop()
        if not callable(getattr(program, "children", None)) or isinstance(program, type):
            raise GraphObjectCreationError(f"""{shown(program)} cannot be drawn as a
                program.
                next:  give a program, or a list of them.""")
        yield program
        pending += reversed(program.children())


def _field_edges(graph: Graph, table: VertexTable, row: int, name: str) -> list[Edge]:
    edges = []
    for field, declared in table.edges.items():
        label = f"label={_quoted(field)}"
        for variable in _variables(graph, table, field, row):
            if declared.kind != "output":
                edges.append((f"t{variable}", name, label))
            if declared.written:
                edges.append((name, f"t{variable}", label))
    return edges


def _variables(graph: Graph, table: VertexTable, field: str, row: int) -> list[int]:
    """Return the numbers of the variables behind one field of a vertex, in ascending order."""
    number = table.layouts[field][row]
    if number < 0:
        return []
    layout = graph.layouts[number]
    offset = table.offsets[field][row]
    dtype = table.edges[field].dtype
    variables = [
        _behind(graph, Tensor.of(graph, dtype, offset + delta, part))
        for delta, part in layout.parts
    ]
    return sorted({variable for group in variables for variable in group})


def _behind(graph: Graph, tensor: Tensor) -> list[int]:
    _, start, stop, variable = graph.variable_map().split(*tensor.byte_extent())
    return [int(v) for v in np.unique(variable[stop > start])]


def _ends(graph: Graph, side: object) -> list[str]:
    if isinstance(side, DataStream):
        return (
            [f"s{list(graph.streams).index(side.handle)}"] if side.handle in graph.streams else []
        )
    if isinstance(side, RemoteBuffer):
        if side.handle in graph.remote_buffers:
            return [f"r{list(graph.remote_buffers).index(side.handle)}"]
        return []
    return [f"t{variable}" for variable in _behind(graph, side)] if isinstance(side, Tensor) else []


def _text(graph: Graph, boxes: list[str], edges: list[Edge]) -> str:
    touched = {end for a, b, _ in edges for end in (a, b)}
    nodes = [
        _node(f"t{v.id}", f"{v.name}\n{v.dtype.__name__} {v.shape}", "ellipse")
        for v in graph.variables
        if f"t{v.id}" in touched
    ]
    nodes += [
        _node(f"s{i}", handle, "note")
        for i, handle in enumerate(graph.streams)
        if f"s{i}" in touched
    ]
    nodes += [
        _node(f"r{i}", b, "cylinder")
        for i, b in enumerate(graph.remote_buffers)
        if f"r{i}" in touched
    ]
    arrows = [
        f"  {a} -> {b}{f' [{attributes}]' if attributes else ''};" for a, b, attributes in edges
    ]
    return "\n".join(["digraph {", *boxes, *nodes, *arrows, "}"]) + "\n"


def _node(name: str, label: str, shape: str) -> str:
    return f"  {name} [shape={shape}, label={_quoted(label)}];"


def _quoted(text: str) -> str:
    """Return `text` as a quoted GraphViz string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
