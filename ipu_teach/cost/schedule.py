"""The distribution of a tile's vertices over its worker threads.

Vertices start in the order in which they were added. Each vertex starts on the first worker that is
free; if several workers are free, on the one with the lowest number. A tile is done when its
busiest worker is done, and a worker issues one instruction in six cycles. So the tile takes six
times the cycles of its busiest worker. (tut6 of graphcore/examples assumes ceil(vertices / 6) x 6 x
cycles; LBM's published profile shows 600 tile cycles for one vertex of 100 worker cycles.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ipu_teach.graph.tile_map import order_of
from ipu_teach.types import Array


def busiest_worker(cycles: Array, tiles: Array, num_tiles: int, num_workers: int) -> Array:
    """Return int64[num_tiles]: the worker cycles of each tile's busiest worker.

    `cycles` and `tiles` have one entry for each vertex, in the order in which the vertices start.
    """
    # Most programs add their vertices tile by tile, so that no sorting is needed.
    if np.any(tiles[1:] < tiles[:-1]):
        order = order_of(tiles)
        cycles = cycles[order]
        tiles = tiles[order]
    vertices_by_tile = np.bincount(tiles, minlength=num_tiles)
    first_vertex = np.cumsum(vertices_by_tile) - vertices_by_tile
    busiest = np.zeros(num_tiles, np.int64)
    used_tiles = np.flatnonzero(vertices_by_tile)
    if len(used_tiles) == 0:
        return busiest
    fewest_cycles = np.minimum.reduceat(cycles, first_vertex[used_tiles])
    most_cycles = np.maximum.reduceat(cycles, first_vertex[used_tiles])
    is_even = fewest_cycles == most_cycles
    busiest[used_tiles[is_even]] = (
        -(-vertices_by_tile[used_tiles[is_even]] // num_workers) * fewest_cycles[is_even]
    )
    uneven_tiles = used_tiles[~is_even]
    for running, _, start_cycles, vertices in in_turn(
        cycles, first_vertex[uneven_tiles], vertices_by_tile[uneven_tiles], num_workers
    ):
        busiest[uneven_tiles[running]] = np.maximum(
            busiest[uneven_tiles[running]], start_cycles + cycles[vertices]
        )
    return busiest


def in_turn(
    cycles: Array, first: Array, count: Array, num_workers: int
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield the starts of each tile's first vertex, then those of each tile's second, and so on.

    Each item is `(tiles, worker, start, vertex)`: the tiles that have a further vertex, the worker
    of each of these vertices, the worker cycles after which it starts, and its index. The vertices
    of tile i are `cycles[first[i]:first[i] + count[i]]`.
    """
    free = np.zeros((len(count), num_workers), np.int64)
    for rank in range(int(count.max(initial=0))):
        going = np.flatnonzero(count > rank)
        worker = np.argmin(free[going], axis=1)
        vertices = first[going] + rank
        yield going, worker, free[going, worker], vertices
        free[going, worker] += cycles[vertices]


def shared_out(cycles: Array, num_workers: int) -> tuple[Array, Array]:
    """Return `(worker, start)`, int64 each, for every vertex of one tile.

    `start` is the number of worker cycles after which the vertex starts. `cycles` are the worker
    cycles of the vertices, in the order in which they start.
    """
    worker_starts = [
        (worker[0], start_cycles[0])
        for _, worker, start_cycles, _ in in_turn(
            cycles, np.zeros(1, np.int64), np.array([len(cycles)]), num_workers
        )
    ]
    table = np.array(worker_starts, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def even_tile_cycles(num_vertices: int, cycles: int, num_workers: int) -> int:
    """Return the tile cycles of `num_vertices` vertices on one tile, if all take `cycles`."""
    return -(-num_vertices // num_workers) * num_workers * cycles
