"""The cost of moving data within a tile, with Poplar's copy vertices.

A vertex needs each of its vectors to be contiguous in its tile's memory. If a vector is in several
pieces of memory, copy vertices gather its bytes before the vertices run, or scatter them
afterwards. Data from other tiles needs no such copy, because it arrives in the order in which it is
needed. If a part of a vector is on another tile, the model assumes that the exchange delivers the
entire vector. This is because the published profile of tut6, in which tiles own parts of the
vectors that they read, leaves no time for copies. The tile that receives a Copy of many pieces
first stores them contiguously, and then moves each piece to its final address.

The costs are from published halo exchanges (thorbenlouw/lbm-graphcore,
halo-exchange-approaches/results.txt). There, six `DstStridedCopyDA32` vertices copy a column. Each
of them takes 801.0 worker cycles if the column has 102 numbers, and 786.0 if it has 100. So a
worker takes 36 cycles to start, 44.5 for each piece and one for each 8 bytes. By this formula, a
`ShortMemcpy` of one number takes 81 cycles (published: 76 to 83), and a `DstLongStridedCopy` of 100
pieces of 400 bytes takes 1,628 cycles (published: 1,579).
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

# The worker cycles that a copy vertex takes to start, and for each piece.
START, PIECE = 36, 44.5
# If a tile receives at most this number of pieces of a copy, they are assumed to arrive at their
# final addresses.
IN_PLACE = 4
RUNS_AT_A_TIME = 1 << 19  # The arrays for this number of runs take about 50 MB.

# The data that each tile moves within its memory: (number of pieces, total bytes), int64[tiles]
# each.
Moves = tuple[Array, Array]


def copy_cycles(pieces: Array, size: Array, target: Target) -> tuple[Array, Array]:
    """Return `(tile_cycles, worker_cycles)` of moves within tiles, int64[tiles] each.

    The worker cycles are summed over all workers. `pieces` and `size` are the number of pieces on
    each tile, and their total bytes.
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
    """Return an index for each byte address. Successive bytes of a tile get successive indices."""
    place: Array = byte + tile_map.shift[np.searchsorted(tile_map.start, byte, "right") - 1]
    return place


def copied(
    tile_map: TileMap, target: Target, source: Array, destination: Array, size: Array, copy: Array
) -> Moves:
    """Return `(pieces, bytes)` that tiles move within their own memory for copies.

    Both results are int64[tiles]. Item i of the arrays is a piece of data: Copy number `copy[i]`
    moves `size[i]` bytes from address `source[i]` to address `destination[i]`. Each Copy rearranges
    only its own data, even if several of them are executed in one step.
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
    # Sort by tile, so that pieces that are contiguous in a tile's memory become neighbours, even if
    # pieces of other tiles were between them.
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
    """Return `(pieces, bytes)` that tiles move within their own memory for a compute set.

    Tiles gather the data that vertices will read, and scatter the data that vertices have written.
    Fields of the kind `without` ("input" or "output") and the vertices' state are left out. Both
    results are int64[tiles].
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
    """Return `(pieces, bytes)` that tiles gather or scatter for one field of a table of vertices.

    Both results are int64[tiles]. The data moves within the memory of each tile.
    """
    tile_map = graph.tile_map
    touched = graph.touched(table, name)
    stretch_starts = graph.stretches(table, name)
    # Whether the field of each table row crosses a boundary between intervals of the tile map.
    is_across_pieces = np.zeros(len(table), bool)
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
    """The vectors of one vertex field for several layouts, as contiguous runs of elements.

    The runs of a layout are in the order of its elements. `number` is the number of the vector to
    which each run belongs, counted from 0 in its layout. `count` is the number of vectors of each
    layout.
    """

    runs: Runs
    number: Array
    count: Array

    @property
    def is_split(self) -> Array:
        """Whether each layout has a vector that consists of several runs: bool[layouts]."""
        owner = np.repeat(np.arange(len(self.count)), self.runs.count)
        follows = (np.diff(owner) == 0) & (np.diff(self.number) == 0)
        split: Array = np.bincount(owner[1:][follows], minlength=len(self.count)) > 0
        return split


def _vectors(layouts: Sequence[Layout | ListLayout], depth: int) -> _Vectors:
    """Return the vectors that a field with `depth` dimensions has in each of `layouts`.

    If a view repeats an element, for example after a broadcast, the element counts once, because
    PopLibs has vertices that use one number for many elements.
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
    """Return `(runs, row_of_run, num_rows)`: the contiguous runs of each layout, divided into rows.

    `runs` contains the runs of each layout. `row_of_run` is the number of the row that contains
    each run, and `num_rows` is the number of rows of each layout. If the field has two dimensions
    (`depth` is 2), runs are divided where a row ends. Otherwise, each layout is one row.
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
    """Return `(pieces, bytes)` that tiles move within their own memory for one field of vertices.

    Both are int64[tiles]. `rows` are the vertices' rows in the table, and `layout` is the index of
    each vertex's layout among the layouts of `vectors`.
    """
    field = table.fields[name]
    tile = table.tiles[rows].astype(np.int64)
    offset = table.offsets[name][rows]
    if not field.written:  # If several vertices of a tile read the same data, it is gathered once.
        order = np.lexsort((offset, tile, layout))
        is_repeated = np.ones(max(len(order) - 1, 0), bool)
        for column in (layout, tile, offset):
            is_repeated &= np.diff(column[order]) == 0
        distinct_vertices = order[np.append(True, ~is_repeated)[: len(order)]]
        tile = tile[distinct_vertices]
        offset = offset[distinct_vertices]
        layout = layout[distinct_vertices]
    pieces, total_bytes = np.zeros((2, graph.target.num_tiles), np.int64)
    # The arrays for all runs of a large field would take gigabytes, so the runs are processed in
    # portions.
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
    """Return `(pieces, bytes)` that tiles move within their own memory for one field of vertices.

    Both are int64[tiles]. Vertex i is on tile `tile[i]`. Its region begins at `offset[i]`, in
    elements of `element_bytes` bytes, and has the layout with the index `layout[i]` among the
    layouts of `vectors`. Data that several vertices use is counted once for each vertex.
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
    """Merge contiguous pieces, and return `(key, size, *keep)` of the resulting pieces.

    Two neighbouring pieces are contiguous if they have the same key and the same values in `keep`,
    and if the second piece begins where the first ends in every array of `places` (addresses).
    `size` contains the sizes of the pieces.
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
