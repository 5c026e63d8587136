"""Moving data within a tile: what lies in pieces is put side by side, or the other way round, by
Poplar's copy vertices.

A vector of a vertex must lie side by side in the memory of its tile. One that lies there in several
pieces is gathered before the vertices work, or scattered after; a copy within a tile moves all of
its bytes. What comes from other tiles arrives in the order in which it is wanted, and a vector of
which a part does is taken to come by the exchange as a whole: the published profile of tut6, whose
tiles own parts of the vector that they read, has no room for copies. A Copy that brings many pieces
has them arrive in a row, and then put in their places.

What it takes is from the published halo exchanges (thorbenlouw/lbm-graphcore,
halo-exchange-approaches/results.txt): six `DstStridedCopyDA32` to a column take 801.0 worker cycles
each for its 102 numbers and 786.0 for 100. So 36 cycles start a worker, a piece takes 44.5 and each
8 bytes one more. By that formula a `ShortMemcpy` of one number takes 81 (published: 76 to 83) and a
`DstLongStridedCopy` of 100 pieces of 400 bytes 1,628 (1,579).
"""

from __future__ import annotations

import numpy as np

from ipu_teach.compile.freeze import FrozenComputeSet, FrozenGraph, FrozenTable, numbers_in
from ipu_teach.graph.layouts import Layout, ListLayout
from ipu_teach.graph.tile_map import TileMap, expand, order_of
from ipu_teach.target import Target
from ipu_teach.types import Array

START, PIECE = 36, 44.5  # worker cycles of a copy vertex
IN_PLACE = 4  # our choice: so many pieces are received in their places

# int64[tiles] each: pieces that a tile moves within its memory, and their bytes together
Moves = tuple[Array, Array]


def copy_cycles(pieces: Array, size: Array, target: Target) -> tuple[Array, Array]:
    """(tile cycles, worker cycles of all six), int64[tiles] each, of moving `pieces` of `size`
    bytes together."""
    workers, words = target.num_worker_contexts, size / target.memcpy_bytes_per_cycle
    busy = np.minimum(workers, np.maximum(pieces, np.ceil(words)))
    longest = np.ceil(START + PIECE * -(-pieces // workers) + words / workers)
    together = np.ceil(START * busy + PIECE * np.maximum(pieces, busy) + words)
    return tuple(
        np.where(pieces > 0, cycles, 0).astype(np.int64) for cycles in (workers * longest, together)
    )  # type: ignore[return-value]


def local(tile_map: TileMap, byte: Array) -> Array:
    """For each byte a place: those of one tile that follow each other in its memory have places
    that do."""
    place: Array = byte + tile_map.shift[np.searchsorted(tile_map.start, byte, "right") - 1]
    return place


def copied(
    tile_map: TileMap, target: Target, source: Array, destination: Array, size: Array, copy: Array
) -> Moves:
    """What tiles move within their memory when `size[i]` bytes at `source[i]` are copied to
    `destination[i]`.

    `copy`: the number of the copy that does so. Each arranges for itself what it brings, also where
    several are one step.
    """
    run, low, high, tile = tile_map.split(destination, destination + size)
    first = source[run] + low - destination[run]
    part, begin, end, owner = tile_map.split(first, first + high - low)
    tile, place, size = tile[part], local(tile_map, low[part] + begin - first[part]), end - begin
    here, away = np.flatnonzero(owner == tile), np.flatnonzero(owner != tile)
    # of one tile that takes turns with others the pieces lie side by side all the same
    here = here[order_of(tile[here])]
    moved = _joined(tile[here], size[here], local(tile_map, begin[here]), place[here])
    pieces, total = _by_tile(moved[0], moved[1], target)
    brought = copy[run][part][away] * target.num_tiles + tile[away]
    order = np.lexsort((place[away], brought))
    brought, length = _joined(*(a[order] for a in (brought, size[away], place[away])))
    _, which, count = np.unique(brought, return_inverse=True, return_counts=True)
    apart = (count > IN_PLACE)[which.reshape(-1)]
    scattered, more = _by_tile(brought[apart] % target.num_tiles, length[apart], target)
    return pieces + scattered, total + more


def edges(graph: FrozenGraph, compute_set: FrozenComputeSet, without: str) -> Moves:
    """What tiles gather for the edges of a compute set, except the fields of the kind `without`; or
    scatter after it."""
    pieces, total = np.zeros((2, graph.target.num_tiles), np.int64)
    for table in compute_set.tables:
        for name, field in table.fields.items():
            if (
                field.kind not in ("state", without)
                and field.depth
                and not (field.depth == 1 and field.form == "edges")
            ):
                for found in _gathered(graph, table, name):
                    some, size = _by_tile(*found, graph.target)
                    pieces, total = pieces + some, total + size
    return pieces, total


def _gathered(graph: FrozenGraph, table: FrozenTable, name: str) -> list[Moves]:
    """(tile, bytes) of each piece that its tile moves for a field, a list for each layout."""
    field, tile_map = table.fields[name], graph.tile_map
    touched, first = graph.touched(table, name), graph.stretches(table, name)
    apart = np.zeros(len(table), bool)
    piece = np.searchsorted(tile_map.start, touched.start, "right") - 1
    apart[touched.row[touched.stop > tile_map.stop[piece]]] = True
    layouts = table.layouts[name]
    vectors = {
        number: _vectors(graph.layouts[number], field.depth)
        for number in numbers_in(layouts[first])
    }
    whole = np.zeros(len(graph.layouts), bool)
    whole[[number for number, (_, vector, _) in vectors.items() if np.all(np.diff(vector))]] = True
    rows = np.flatnonzero(
        np.repeat(apart[first] | ~whole[layouts[first]], graph.stretch_lengths(table, name))
    )
    return [
        _pieces(tile_map, table, name, rows[layouts[rows] == n], vectors[n])
        for n in numbers_in(layouts[rows])
    ]


def _vectors(layout: Layout | ListLayout, depth: int) -> tuple[Array, Array, Array]:
    """(start, number of its vector, length) of each run of a field's elements, in the order in
    which a vertex wants them.

    What a view repeats, as after a broadcast, stands once: PopLibs has vertices that take one
    number for many.
    """
    none: Array = np.zeros(0, np.int64)
    start, vector, length, count = [none], [none], [none], 0
    for delta, part in layout.parts:
        runs, sizes = part.runs
        if part.aliased:
            _, at = np.unique(part.positions, return_index=True)
            runs = part.positions.reshape(-1)[np.sort(at)]
            sizes = np.ones_like(runs)
        total = int(sizes.sum())
        columns = (
            part.shape[-1] if depth == 2 and len(part.shape) == 2 and total == part.size else total
        )
        if columns < total:  # cut where a row ends
            at = np.cumsum(sizes) - sizes
            run, row = expand(at // columns, (at + sizes - 1) // columns - at // columns + 1)
            low = np.maximum(at[run], row * columns)
            runs = runs[run] + low - at[run]
            sizes = np.minimum(at[run] + sizes[run], (row + 1) * columns) - low
            rows = row
        else:
            rows = np.zeros(len(runs), np.int64)
        start, vector, length = [*start, delta + runs], [*vector, count + rows], [*length, sizes]
        count += total // columns if total else 1
    return np.concatenate(start), np.concatenate(vector), np.concatenate(length)


def _pieces(
    tile_map: TileMap,
    table: FrozenTable,
    name: str,
    rows: Array,
    vectors: tuple[Array, Array, Array],
) -> Moves:
    """(tile, bytes) of the pieces that tiles move for some vertices whose fields lie alike."""
    delta, vector, length = vectors
    tile = table.tiles[rows].astype(np.int64)
    offset = table.offsets[name][rows]
    size = table.fields[name].dtype.size
    if not table.fields[name].written:  # what several vertices of a tile read is gathered once
        _, once = np.unique(tile << 40 | offset, return_index=True)
        tile, offset = tile[once], offset[once]
    start = ((offset[:, None] + delta) * size).reshape(-1)
    run, begin, end, owner = tile_map.split(start, start + np.tile(length * size, len(offset)))
    number, which = np.divmod(run, len(delta))
    key = number * (int(vector.max(initial=0)) + 1) + vector[which]
    place = local(tile_map, begin)
    key, total, owner, number = _joined(key, end - begin, place, keep=(owner, number))
    apart = (np.bincount(key) > 1) & (np.bincount(key, owner != tile[number]) == 0)
    return tile[number[apart[key]]], total[apart[key]]


def _joined(
    key: Array, size: Array, *places: Array, keep: tuple[Array, ...] = ()
) -> tuple[Array, ...]:
    """(key, size, *keep) of pieces, where those that follow each other under one key and in all
    `places` are one."""
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
