"""Moving data within a tile: Poplar's copy vertices gather or scatter pieces of memory.

A vector of a vertex must be contiguous in the memory of its tile. A vector in several pieces is
gathered before the vertices work, or scattered after; a copy within a tile moves all of its bytes.
Data from other tiles arrives in the order in which it is needed. If some data of a vector is on
other tiles, the model assumes that the exchange delivers the entire vector: the published profile
of tut6, whose tiles own parts of the vector that they read, leaves no time for copies. A Copy of
many pieces receives them contiguously and then moves them to their places.

The costs are from the published halo exchanges (thorbenlouw/lbm-graphcore,
halo-exchange-approaches/results.txt): six `DstStridedCopyDA32` to a column take 801.0 worker cycles
each for its 102 numbers and 786.0 for 100. So a worker takes 36 cycles to start, 44.5 for a piece
and one for each 8 bytes. By that formula a `ShortMemcpy` of one number takes 81 (published: 76 to
83) and a `DstLongStridedCopy` of 100 pieces of 400 bytes 1,628 (1,579).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ipu_teach.compile.freeze import FrozenComputeSet, FrozenGraph, FrozenTable, numbers_in
from ipu_teach.compile.layout_runs import Runs, ordered_runs, parts_of, pointers_of
from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.tile_map import TileMap, expand, order_of
from ipu_teach.target import Target
from ipu_teach.types import Array

START, PIECE = 36, 44.5  # worker cycles of a copy vertex
IN_PLACE = 4  # our choice: up to this many pieces are received in their places
RUNS_AT_A_TIME = 1 << 19  # this number of runs takes about 50 MB

# int64[tiles] each: the pieces that a tile moves within its memory, and their total bytes
Moves = tuple[Array, Array]


def copy_cycles(pieces: Array, size: Array, target: Target) -> tuple[Array, Array]:
    """Return (tile cycles, worker cycles of all workers), int64[tiles] each, of moves within tiles.

    `pieces` and `size` are the number of pieces of each tile, and their total bytes.
    """
    workers = target.num_worker_contexts
    moving_cycles = size / target.memcpy_bytes_per_cycle
    busy_workers = np.minimum(workers, np.maximum(pieces, np.ceil(moving_cycles)))
    slowest_worker = np.ceil(START + PIECE * -(-pieces // workers) + moving_cycles / workers)
    total_cycles = np.ceil(
        START * busy_workers + PIECE * np.maximum(pieces, busy_workers) + moving_cycles
    )
    return tuple(
        np.where(pieces > 0, cycles, 0).astype(np.int64)
        for cycles in (workers * slowest_worker, total_cycles)
    )  # type: ignore[return-value]


def local(tile_map: TileMap, byte: Array) -> Array:
    """Return an index for each byte; successive bytes of one tile have successive indices."""
    place: Array = byte + tile_map.shift[np.searchsorted(tile_map.start, byte, "right") - 1]
    return place


def copied(
    tile_map: TileMap, target: Target, source: Array, destination: Array, size: Array, copy: Array
) -> Moves:
    """Return the moves within tiles when `size[i]` bytes at `source[i]` go to `destination[i]`.

    `copy` is the number of the copy. Each copy rearranges only its own data, even if several are
    one step.
    """
    run, written_begin, written_end, tile = tile_map.split(destination, destination + size)
    read_begin = source[run] + written_begin - destination[run]
    written_piece, begin, end, owner = tile_map.split(
        read_begin, read_begin + written_end - written_begin
    )
    tile = tile[written_piece]
    written_place = local(
        tile_map, written_begin[written_piece] + begin - read_begin[written_piece]
    )
    size = end - begin
    local_rows = np.flatnonzero(owner == tile)
    remote_rows = np.flatnonzero(owner != tile)
    # a tile's pieces are contiguous even if those of other tiles come between them
    local_rows = local_rows[order_of(tile[local_rows])]
    moved = _joined(
        tile[local_rows],
        size[local_rows],
        local(tile_map, begin[local_rows]),
        written_place[local_rows],
    )
    pieces, total_bytes = _by_tile(moved[0], moved[1], target)
    copy_and_tile = copy[run][written_piece][remote_rows] * target.num_tiles + tile[remote_rows]
    order = np.lexsort((written_place[remote_rows], copy_and_tile))
    copy_and_tile, length = _joined(
        *(a[order] for a in (copy_and_tile, size[remote_rows], written_place[remote_rows]))
    )
    _, inverse, pieces_by_key = np.unique(copy_and_tile, return_inverse=True, return_counts=True)
    is_scattered = (pieces_by_key > IN_PLACE)[inverse.reshape(-1)]
    scattered_pieces, scattered_bytes = _by_tile(
        copy_and_tile[is_scattered] % target.num_tiles, length[is_scattered], target
    )
    return pieces + scattered_pieces, total_bytes + scattered_bytes


def edges(graph: FrozenGraph, compute_set: FrozenComputeSet, without: str) -> Moves:
    """Return the moves with which tiles gather data for the edges of a compute set, or scatter it.

    Fields of the kind `without` are left out.
    """
    pieces, total_bytes = np.zeros((2, graph.target.num_tiles), np.int64)
    for table in compute_set.tables:
        for name, field in table.fields.items():
            if (
                field.kind not in ("state", without)
                and field.depth
                and not (field.depth == 1 and field.form == "edges")
            ):
                field_pieces, field_bytes = _gathered(graph, table, name)
                pieces = pieces + field_pieces
                total_bytes = total_bytes + field_bytes
    return pieces, total_bytes


def _gathered(graph: FrozenGraph, table: FrozenTable, name: str) -> Moves:
    """Return the pieces that tiles move for a field, and their bytes."""
    tile_map = graph.tile_map
    touched = graph.touched(table, name)
    stretch_starts = graph.stretches(table, name)
    is_across_pieces = np.zeros(
        len(table), bool
    )  # rows whose field is not inside one piece of the map
    map_piece = np.searchsorted(tile_map.start, touched.start, "right") - 1
    is_across_pieces[touched.row[touched.stop > tile_map.stop[map_piece]]] = True
    layouts = table.layouts[name]
    layout_numbers = np.array(numbers_in(layouts[stretch_starts]), np.int64)
    vectors = _vectors(
        [graph.layouts[n] for n in layout_numbers.tolist()], table.fields[name].depth
    )
    is_split = (
        is_across_pieces[stretch_starts]
        | vectors.is_split[np.searchsorted(layout_numbers, layouts[stretch_starts])]
    )
    rows = np.flatnonzero(np.repeat(is_split, graph.stretch_lengths(table, name)))
    return _moves(graph, table, name, rows, np.searchsorted(layout_numbers, layouts[rows]), vectors)


@dataclass(frozen=True, eq=False)
class _Vectors:
    """The vectors of a field for several layouts: the runs of elements, in the order of the vertex.

    `number` is the vector of each run, counted within its layout, and `count` the number of vectors
    of each layout.
    """

    runs: Runs
    number: Array
    count: Array

    @property
    def is_split(self) -> Array:
        """Whether some vector of a layout has several runs: bool[layouts]."""
        owner = np.repeat(np.arange(len(self.count)), self.runs.count)
        follows = (np.diff(owner) == 0) & (np.diff(self.number) == 0)
        split: Array = np.bincount(owner[1:][follows], minlength=len(self.count)) > 0
        return split


def _vectors(layouts: Sequence[Layout | ListLayout], depth: int) -> _Vectors:
    """Return the vectors of a field with `depth` dimensions for each layout.

    An element that a view repeats, as after a broadcast, counts once, because PopLibs has vertices
    that take one number for many.
    """
    parts = parts_of(layouts)
    runs, row_of_run, rows_of_layout = _rows(parts.layouts, depth)
    part, run = expand(runs.pointers[parts.index], runs.count[parts.index])
    rows_of_part = rows_of_layout[parts.index]
    vectors_of_layout = np.bincount(parts.owner, rows_of_part, len(layouts)).astype(np.int64)
    first_vector = (
        np.cumsum(rows_of_part)
        - rows_of_part
        - (np.cumsum(vectors_of_layout) - vectors_of_layout)[parts.owner]
    )
    pointers = pointers_of(np.bincount(parts.owner[part], minlength=len(layouts)))
    ordered = Runs(pointers, parts.offset[part] + runs.start[run], runs.length[run])
    return _Vectors(ordered, first_vector[part] + row_of_run[run], vectors_of_layout)


def _rows(layouts: Sequence[Layout], depth: int) -> tuple[Runs, Array, Array]:
    """Return the runs of each layout, the row of each run, and the number of rows of each layout.

    Runs are divided where a row ends, if the field has two dimensions.
    """
    runs = ordered_runs(layouts)
    run_bounds = np.concatenate(([0], np.cumsum(runs.length)))
    num_elements = np.diff(run_bounds[runs.pointers])
    row_lengths = num_elements.copy()
    num_rows = np.ones_like(num_elements)
    if depth == 2:
        for i, layout in enumerate(layouts):
            if len(layout.shape) == 2 and 0 < num_elements[i] == layout.size:
                num_rows[i], row_lengths[i] = layout.shape
    layout_of_run = np.repeat(np.arange(len(layouts)), runs.count)
    position = run_bounds[:-1] - run_bounds[runs.pointers[layout_of_run]]
    row_length = row_lengths[layout_of_run]
    if np.all(num_rows == 1):
        return runs, np.zeros_like(position), num_rows
    run, row_of_run = expand(
        position // row_length,
        (position + runs.length - 1) // row_length - position // row_length + 1,
    )
    position = position[run]
    row_length = row_length[run]
    begin = np.maximum(position, row_of_run * row_length)
    run_length = np.minimum(position + runs.length[run], (row_of_run + 1) * row_length) - begin
    pointers = pointers_of(np.bincount(layout_of_run[run], minlength=len(layouts)))
    return Runs(pointers, runs.start[run] + begin - position, run_length), row_of_run, num_rows


def _moves(
    graph: FrozenGraph,
    table: FrozenTable,
    name: str,
    rows: Array,
    layout: Array,
    vectors: _Vectors,
) -> Moves:
    """Return the pieces that tiles move for the field of some vertices, and their bytes.

    `rows` are the vertices' rows in the table, and `layout` the index of each in `vectors`.
    """
    field = table.fields[name]
    tile = table.tiles[rows].astype(np.int64)
    offset = table.offsets[name][rows]
    if not field.written:  # data that several vertices of a tile read is gathered once
        order = np.lexsort((offset, tile, layout))
        is_repeated = np.ones(max(len(order) - 1, 0), bool)
        for column in (layout, tile, offset):
            is_repeated &= np.diff(column[order]) == 0
        distinct_vertices = order[np.append(True, ~is_repeated)[: len(order)]]
        tile = tile[distinct_vertices]
        offset = offset[distinct_vertices]
        layout = layout[distinct_vertices]
    pieces, total_bytes = np.zeros((2, graph.target.num_tiles), np.int64)
    # the arrays of all runs of a large field at once would take gigabytes
    portion = np.cumsum(vectors.runs.count[layout]) // RUNS_AT_A_TIME
    portion_starts = np.flatnonzero(np.diff(portion)) + 1
    for first_vertex, end_vertex in pairwise([0, *portion_starts.tolist(), len(layout)]):
        vertices = slice(first_vertex, end_vertex)
        part_pieces, part_bytes = _moves_of(
            graph, field.dtype.size, vectors, tile[vertices], offset[vertices], layout[vertices]
        )
        pieces += part_pieces
        total_bytes += part_bytes
    return pieces, total_bytes


def _moves_of(
    graph: FrozenGraph,
    element_bytes: int,
    vectors: _Vectors,
    tile: Array,
    offset: Array,
    layout: Array,
) -> Moves:
    """Return the moves of some vertices; `element_bytes` is the size of an element in bytes.

    Vertices share no moves, so those of all vertices are the sum.
    """
    tile_map = graph.tile_map
    runs = vectors.runs
    vertex, run = expand(runs.pointers[layout], runs.count[layout])
    run_begin = (offset[vertex] + runs.start[run]) * element_bytes
    row_of_piece, begin, end, owner = tile_map.split(
        run_begin, run_begin + runs.length[run] * element_bytes
    )
    vertex = vertex[row_of_piece]
    run = run[row_of_piece]
    vectors_by_vertex = vectors.count[layout]
    vector_number = (np.cumsum(vectors_by_vertex) - vectors_by_vertex)[vertex] + vectors.number[run]
    local_begin = local(tile_map, begin)
    vector_number, size, owner, vertex = _joined(
        vector_number, end - begin, local_begin, keep=(owner, vertex)
    )
    is_moved = (np.bincount(vector_number) > 1) & (
        np.bincount(vector_number, owner != tile[vertex]) == 0
    )
    return _by_tile(
        tile[vertex[is_moved[vector_number]]], size[is_moved[vector_number]], graph.target
    )


def _joined(
    key: Array, size: Array, *places: Array, keep: tuple[Array, ...] = ()
) -> tuple[Array, ...]:
    """Return (key, size, *keep) of pieces, in which contiguous ones are merged.

    Pieces are contiguous if their keys and `keep` are equal, and if they follow each other in all
    `places`.
    """
    continues = key[1:] == key[:-1]
    for column in keep:
        continues &= column[1:] == column[:-1]
    for place in places:
        continues &= place[1:] == place[:-1] + size[:-1]
    first_pieces = np.flatnonzero(np.append(True, ~continues)[: len(key)])
    return (
        key[first_pieces],
        np.add.reduceat(size, first_pieces) if len(first_pieces) else size,
        *(column[first_pieces] for column in keep),
    )


def _by_tile(tile: Array, size: Array, target: Target) -> Moves:
    count = np.bincount(tile, minlength=target.num_tiles).astype(np.int64)
    return count, np.bincount(tile, size, target.num_tiles).astype(np.int64)
