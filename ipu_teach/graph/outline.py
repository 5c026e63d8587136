"""The text and the HTML table with which notebooks show tensors, compute sets and graphs.

Text and table are the same in every process: they contain no address and do not depend on hashing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from ipu_teach.errors import GraphObjectCreationError, counted, shown
from ipu_teach.graph.tile_map import UNMAPPED
from ipu_teach.types import Array

if TYPE_CHECKING:
    from ipu_teach.graph.compute_set import ComputeSet
    from ipu_teach.graph.graph import Graph
    from ipu_teach.graph.tensor import Tensor

MOST_ROWS = 15  # The maximum number of rows of a table. Further rows are counted in the last row.


def tensor_line(tensor: Tensor) -> str:
    """Return one line about a tensor: its variable, dtype, shape, number of bytes, and tiles."""
    tiles, bytes_on_tile = bytes_by_tile(tensor)
    total_text = f"{int(bytes_on_tile.sum()):,} bytes"
    is_mapped = tiles != UNMAPPED
    if not bytes_on_tile.size:
        location = total_text
    elif not is_mapped.any():
        location = f"{total_text} on no tile"
    else:
        num_tiles = int(is_mapped.sum())
        location = f"{total_text} on " + (
            f"{num_tiles:,} tiles" if num_tiles > 1 else f"tile {tiles[is_mapped][0]}"
        )
        if not is_mapped.all():
            location += f", {int(bytes_on_tile[~is_mapped].sum()):,} of them on none"
    return (
        f"Tensor({tensor.graph.describe(tensor)}, {tensor.dtype.__name__}, shape {tensor.shape}, "
        f"{location})"
    )


def bytes_by_tile(tensor: Tensor) -> tuple[Array, Array]:
    """Return (tiles, bytes on each tile) of the memory of a tensor, counting each byte once.

    The tile of unmapped bytes is -1.
    """
    _, start, stop, tile = tensor.graph.tile_map().split(*tensor.byte_extent())
    tiles, inverse = np.unique(tile, return_inverse=True)
    return tiles, np.bincount(inverse.reshape(-1), stop - start, len(tiles)).astype(np.int64)


def tensor_table(tensor: Tensor) -> str:
    """Return an HTML table of the elements and bytes of a tensor on each tile."""
    tiles, bytes_on_tile = bytes_by_tile(tensor)
    order = np.argsort(tiles == UNMAPPED, kind="stable")  # Unmapped elements come last.
    rows = [
        (
            "none" if tiles[position] == UNMAPPED else f"{tiles[position]}",
            f"{bytes_on_tile[position] // tensor.dtype.size:,}",
            f"{bytes_on_tile[position]:,}",
        )
        for position in order.tolist()
    ]
    return table(tensor_line(tensor), ("tile", "elements", "bytes"), rows, "tiles")


def compute_set_line(compute_set: ComputeSet) -> str:
    """Return one line about a compute set: the number of vertices of each codelet."""
    counts = ", ".join(f"{len(t):,} {c.__name__}" for c, t in compute_set.tables.items() if len(t))
    return f"ComputeSet({compute_set.name!r}, {counts or 'no vertices'})"


def compute_set_table(compute_set: ComputeSet) -> str:
    """Return an HTML table of the codelets of a compute set.

    For each codelet that has vertices, the table shows the numbers of vertices and tiles, and the
    fields. It has at most 15 rows; if there are more codelets, the last row counts the others.
    """
    rows = []
    for codelet, vertices in compute_set.tables.items():
        if not len(vertices):
            continue
        tiles = np.unique(np.array(vertices.tiles))
        placed = tiles[tiles >= 0]
        fields = ", ".join(
            f"{name}: {field.declaration()}" for name, field in codelet.fields.items()
        )
        rows.append(
            (
                codelet.__name__,
                f"{len(vertices):,}",
                f"{len(placed):,}" if len(placed) else "none",
                fields,
            )
        )
    return table(
        compute_set_line(compute_set), ("codelet", "vertices", "tiles", "fields"), rows, "codelets"
    )


def graph_line(graph: Graph) -> str:
    """Return one line with the numbers of variables, compute sets and vertices of a graph."""
    variables = counted(len(graph.variables), "variable")
    sets = counted(len(graph.compute_sets), "compute set")
    return f"Graph({variables}, {sets}, {counted(graph.num_vertices, 'vertex', 'vertices')})"


def graph_tables(graph: Graph) -> str:
    """Return HTML tables of the variables of a graph, with their tiles, and of its compute sets."""
    tile_map = graph.tile_map()
    variables = []
    for variable in graph.variables[: MOST_ROWS + 1]:
        _, piece_starts, piece_stops, tile = tile_map.split(
            np.array([variable.start]), np.array([variable.stop])
        )
        used_tiles = {
            int(tile_number)
            for tile_number, piece_start, piece_stop in zip(
                tile, piece_starts, piece_stops, strict=True
            )
            if tile_number != UNMAPPED and piece_stop > piece_start
        }
        kind = "constant" if variable.constant else "variable"
        size_text = f"{variable.stop - variable.start:,}"
        variables.append(
            (
                variable.name,
                kind,
                variable.dtype.__name__,
                str(variable.shape),
                size_text,
                f"{len(used_tiles):,}" if used_tiles else "none",
            )
        )
    sets = [
        (compute_set.name, f"{compute_set.num_vertices:,}", _codelets(compute_set))
        for compute_set in graph.compute_sets[: MOST_ROWS + 1]
    ]
    variable_table = table(
        graph_line(graph),
        ("name", "kind", "dtype", "shape", "bytes", "tiles"),
        variables,
        "variables",
        len(graph.variables),
    )
    set_table = table(
        "", ("compute set", "vertices", "codelets"), sets, "compute sets", len(graph.compute_sets)
    )
    return variable_table + (set_table if sets else "")


def _codelets(compute_set: ComputeSet) -> str:
    return ", ".join(c.__name__ for c, t in compute_set.tables.items() if len(t))


def table(
    caption: str,
    columns: Sequence[str],
    rows: Sequence[Iterable[str]],
    things: str,
    total: int | None = None,
) -> str:
    """Return an HTML table of at most 15 rows.

    If there are more rows, the last row counts those that are left out, and calls them `things`.
    `total` is the number of all rows, by default the length of `rows`. All text is escaped.
    """
    total = len(rows) if total is None else total
    shown_rows = rows if total <= MOST_ROWS else rows[: MOST_ROWS - 1]
    head = "".join(f'<th scope="col">{escape(c)}</th>' for c in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in shown_rows
    )
    if len(shown_rows) < total:
        body += (
            f'<tr><td colspan="{len(columns)}">and {total - len(shown_rows):,} more '
            f"{escape(things)}</td></tr>"
        )
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def write(text: str, out: str | os.PathLike[str] | TextIO, call: str) -> None:
    """Write `text` to a path, or to an object that has a `write` method."""
    if isinstance(out, (str, os.PathLike)):
        try:
            Path(out).write_text(text, encoding="utf-8", newline="\n")
        except (OSError, ValueError) as error:
            raise GraphObjectCreationError(f"""{call} could not write {shown(out)}:
                {getattr(error, "strerror", None) or error}.
                next:  give the path of a file in a folder that exists and may be written
                to.""") from None
    elif callable(getattr(out, "write", None)):
        out.write(text)
    else:
        raise GraphObjectCreationError(
            f"{call} was given {shown(out)}, which cannot be written to.",
            next_step="give a path, or an open text file.",
        )
