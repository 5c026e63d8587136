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
    words = size / target.memcpy_bytes_per_cycle
    busy = np.minimum(workers, np.maximum(pieces, np.ceil(words)))
    longest = np.ceil(START + PIECE * -(-pieces // workers) + words / workers)
    total_cycles = np.ceil(START * busy + PIECE * np.maximum(pieces, busy) + words)
    return tuple(
        np.where(pieces > 0, cycles, 0).astype(np.int64)
        for cycles in (workers * longest, total_cycles)
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
    run, low, high, tile = tile_map.split(destination, destination + size)
    first = source[run] + low - destination[run]
    part, begin, end, owner = tile_map.split(first, first + high - low)
    tile = tile[part]
    place = local(tile_map, low[part] + begin - first[part])
    size = end - begin
    local_rows = np.flatnonzero(owner == tile)
    away = np.flatnonzero(owner != tile)
    # a tile's pieces are contiguous even if those of other tiles come between them
    local_rows = local_rows[order_of(tile[local_rows])]
    moved = _joined(
        tile[local_rows], size[local_rows], local(tile_map, begin[local_rows]), place[local_rows]
    )
    pieces, total = _by_tile(moved[0], moved[1], target)
    brought = copy[run][part][away] * target.num_tiles + tile[away]
    order = np.lexsort((place[away], brought))
    brought, length = _joined(*(a[order] for a in (brought, size[away], place[away])))
    _, which, count = np.unique(brought, return_inverse=True, return_counts=True)
    is_scattered = (count > IN_PLACE)[which.reshape(-1)]
    scattered, scattered_cycles = _by_tile(
        brought[is_scattered] % target.num_tiles, length[is_scattered], target
    )
    return pieces + scattered, total + scattered_cycles


def edges(graph: FrozenGraph, compute_set: FrozenComputeSet, without: str) -> Moves:
    """Return the moves with which tiles gather data for the edges of a compute set, or scatter it.

    Fields of the kind `without` are left out.
    """
    pieces, total = np.zeros((2, graph.target.num_tiles), np.int64)
    for table in compute_set.tables:
        for name, field in table.fields.items():
            if (
                field.kind not in ("state", without)
                and field.depth
                and not (field.depth == 1 and field.form == "edges")
            ):
                count, size = _gathered(graph, table, name)
                pieces = pieces + count
                total = total + size
    return pieces, total


def _gathered(graph: FrozenGraph, table: FrozenTable, name: str) -> Moves:
    """Return the pieces that tiles move for a field, and their bytes."""
    tile_map = graph.tile_map
    touched = graph.touched(table, name)
    first = graph.stretches(table, name)
    crosses = np.zeros(len(table), bool)  # rows whose field is not inside one piece of the map
    piece = np.searchsorted(tile_map.start, touched.start, "right") - 1
    crosses[touched.row[touched.stop > tile_map.stop[piece]]] = True
    layouts = table.layouts[name]
    numbers = np.array(numbers_in(layouts[first]), np.int64)
    vectors = _vectors([graph.layouts[n] for n in numbers.tolist()], table.fields[name].depth)
    is_split = crosses[first] | vectors.is_split[np.searchsorted(numbers, layouts[first])]
    rows = np.flatnonzero(np.repeat(is_split, graph.stretch_lengths(table, name)))
    return _moves(graph, table, name, rows, np.searchsorted(numbers, layouts[rows]), vectors)


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
    runs, row, rows = _rows(parts.layouts, depth)
    region, run = expand(runs.pointers[parts.index], runs.count[parts.index])
    of_part = rows[parts.index]
    count = np.bincount(parts.owner, of_part, len(layouts)).astype(np.int64)
    before = np.cumsum(of_part) - of_part - (np.cumsum(count) - count)[parts.owner]
    pointers = pointers_of(np.bincount(parts.owner[region], minlength=len(layouts)))
    ordered = Runs(pointers, parts.offset[region] + runs.start[run], runs.length[run])
    return _Vectors(ordered, before[region] + row[run], count)


def _rows(layouts: Sequence[Layout], depth: int) -> tuple[Runs, Array, Array]:
    """Return the runs of each layout, the row of each run, and the number of rows of each layout.

    Runs are divided where a row ends, if the field has two dimensions.
    """
    runs = ordered_runs(layouts)
    bound = np.concatenate(([0], np.cumsum(runs.length)))
    total = np.diff(bound[runs.pointers])
    columns = total.copy()
    rows = np.ones_like(total)
    if depth == 2:
        for i, layout in enumerate(layouts):
            if len(layout.shape) == 2 and 0 < total[i] == layout.size:
                rows[i], columns[i] = layout.shape
    owner = np.repeat(np.arange(len(layouts)), runs.count)
    at = bound[:-1] - bound[runs.pointers[owner]]
    width = columns[owner]
    if np.all(rows == 1):
        return runs, np.zeros_like(at), rows
    run, row = expand(at // width, (at + runs.length - 1) // width - at // width + 1)
    at = at[run]
    width = width[run]
    low = np.maximum(at, row * width)
    length = np.minimum(at + runs.length[run], (row + 1) * width) - low
    pointers = pointers_of(np.bincount(owner[run], minlength=len(layouts)))
    return Runs(pointers, runs.start[run] + low - at, length), row, rows


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
        same = np.ones(max(len(order) - 1, 0), bool)
        for column in (layout, tile, offset):
            same &= np.diff(column[order]) == 0
        once = order[np.append(True, ~same)[: len(order)]]
        tile = tile[once]
        offset = offset[once]
        layout = layout[once]
    moved, total = np.zeros((2, graph.target.num_tiles), np.int64)
    # the arrays of all runs of a large field at once would take gigabytes
    portion = np.cumsum(vectors.runs.count[layout]) // RUNS_AT_A_TIME
    cuts = np.flatnonzero(np.diff(portion)) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(layout)]):
        part = slice(first, last)
        count, size = _moves_of(
            graph, field.dtype.size, vectors, tile[part], offset[part], layout[part]
        )
        moved += count
        total += size
    return moved, total


def _moves_of(
    graph: FrozenGraph, width: int, vectors: _Vectors, tile: Array, offset: Array, layout: Array
) -> Moves:
    """Return the moves of some vertices; `width` is the size of an element in bytes.

    Vertices share no moves, so those of all vertices are the sum.
    """
    tile_map = graph.tile_map
    runs = vectors.runs
    vertex, run = expand(runs.pointers[layout], runs.count[layout])
    start = (offset[vertex] + runs.start[run]) * width
    piece, begin, end, owner = tile_map.split(start, start + runs.length[run] * width)
    vertex = vertex[piece]
    run = run[piece]
    count = vectors.count[layout]
    key = (np.cumsum(count) - count)[vertex] + vectors.number[run]
    place = local(tile_map, begin)
    key, total, owner, vertex = _joined(key, end - begin, place, keep=(owner, vertex))
    is_moved = (np.bincount(key) > 1) & (np.bincount(key, owner != tile[vertex]) == 0)
    return _by_tile(tile[vertex[is_moved[key]]], total[is_moved[key]], graph.target)


def _joined(
    key: Array, size: Array, *places: Array, keep: tuple[Array, ...] = ()
) -> tuple[Array, ...]:
    """Return (key, size, *keep) of pieces, in which contiguous ones are merged.

    Pieces are contiguous if their keys and `keep` are equal, and if they follow each other in all
    `places`.
    """
    goes_on = key[1:] == key[:-1]
    for column in keep:
        goes_on &= column[1:] == column[:-1]
    for place in places:
        goes_on &= place[1:] == place[:-1] + size[:-1]
    first = np.flatnonzero(np.append(True, ~goes_on)[: len(key)])
    return (
        key[first],
        np.add.reduceat(size, first) if len(first) else size,
        *(column[first] for column in keep),
    )


def _by_tile(tile: Array, size: Array, target: Target) -> Moves:
    count = np.bincount(tile, minlength=target.num_tiles).astype(np.int64)
    return count, np.bincount(tile, size, target.num_tiles).astype(np.int64)
