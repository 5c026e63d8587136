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
    """A program. The protocol contains only the method `children`.

    Programs are built from graphs, so the classes of programs cannot be imported here.
    """

    def children(self) -> Sequence[Node]: ...


Programs: TypeAlias = Node | Sequence[Node] | None
Edge = tuple[str, str, str]  # An arrow of the drawing: (from, to, attributes).


def vertex_graph(graph: Graph, programs: Programs = None) -> str:
    """Return GraphViz text for every vertex and the variables to which its fields are connected.

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
    """Return GraphViz text for every compute set and the variables that it reads and writes.

    With `programs`, only the compute sets that they execute are drawn, and in addition the copies
    that they execute. By default, no copies are drawn.
    """
    sets, copies = _used(graph, programs)
    boxes = []
    edges = []
    for compute_set in sets:
        boxes.append(
            _node(
                f"c{compute_set.id}",
                f"{compute_set.name}\n{compute_set.num_vertices:,} vertices",
                "box",
            )
        )
        set_edges: list[Edge] = []
        for table in compute_set.tables.values():
            for row in range(len(table)):
                set_edges += [
                    (source, destination, "")
                    for source, destination, _ in _field_edges(
                        graph, table, row, f"c{compute_set.id}"
                    )
                ]
        edges += list(dict.fromkeys(set_edges))
    for copy in copies:
        nodes_of_copy = [_ends(graph, copy_end) for copy_end in (copy.source, copy.destination)]
        edges += [
            (source, destination, "style=dashed")
            for source in nodes_of_copy[0]
            for destination in nodes_of_copy[1]
        ]
    return _text(graph, boxes, list(dict.fromkeys(edges)))


def _used(graph: Graph, programs: Programs) -> tuple[list[ComputeSet], list[Any]]:
    """Return the compute sets and the copies in `programs`, without duplicates.

    If `programs` is None, return all compute sets and no copies. The classes of programs cannot be
    imported here, so an Execute is recognised by its attribute `compute_set`, and a Copy by its
    attributes `source` and `destination`.
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
    """Return the numbers of the variables that a vertex accesses through a field, ascending."""
    layout_number = table.layouts[field][row]
    if layout_number < 0:
        return []
    layout = graph.layouts[layout_number]
    offset = table.offsets[field][row]
    dtype = table.edges[field].dtype
    variables_by_part = [
        _behind(graph, Tensor.of(graph, dtype, offset + delta, part))
        for delta, part in layout.parts
    ]
    return sorted(
        {variable for variables_of_part in variables_by_part for variable in variables_of_part}
    )


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
    touched = {node_name for source, buffer, _ in edges for node_name in (source, buffer)}
    nodes = [
        _node(
            f"t{variable.id}",
            f"{variable.name}\n{variable.dtype.__name__} {variable.shape}",
            "ellipse",
        )
        for variable in graph.variables
        if f"t{variable.id}" in touched
    ]
    nodes += [
        _node(f"s{number}", handle, "note")
        for number, handle in enumerate(graph.streams)
        if f"s{number}" in touched
    ]
    nodes += [
        _node(f"r{number}", buffer, "cylinder")
        for number, buffer in enumerate(graph.remote_buffers)
        if f"r{number}" in touched
    ]
    arrows = [
        f"  {source} -> {buffer}{f' [{attributes}]' if attributes else ''};"
        for source, buffer, attributes in edges
    ]
    return "\n".join(["digraph {", *boxes, *nodes, *arrows, "}"]) + "\n"


def _node(name: str, label: str, shape: str) -> str:
    return f"  {name} [shape={shape}, label={_quoted(label)}];"


def _quoted(text: str) -> str:
    """Return `text` as a quoted GraphViz string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
