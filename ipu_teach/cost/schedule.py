"""The distribution of a tile's vertices over its worker threads.

Vertices start in the order in which they were added, each on the first free worker, the lowest of
several. A tile is done when its busiest worker is done, and a worker issues once in six cycles:
tile time = 6 x busiest worker. (tut6 of graphcore/examples plans with ceil(vertices / 6) x 6 x
cycles; LBM's published profile shows 600 cycles for one vertex of 100.)
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
    if np.any(tiles[1:] < tiles[:-1]):  # most programs add their vertices tile by tile
        order = order_of(tiles)
        cycles = cycles[order]
        tiles = tiles[order]
    count = np.bincount(tiles, minlength=num_tiles)
    first = np.cumsum(count) - count
    busiest = np.zeros(num_tiles, np.int64)
    used = np.flatnonzero(count)
    if len(used) == 0:
        return busiest
    low = np.minimum.reduceat(cycles, first[used])
    high = np.maximum.reduceat(cycles, first[used])
    equal = low == high
    busiest[used[equal]] = -(-count[used[equal]] // num_workers) * low[equal]
    uneven = used[~equal]
    for going, _, started, vertices in in_turn(cycles, first[uneven], count[uneven], num_workers):
        busiest[uneven[going]] = np.maximum(busiest[uneven[going]], started + cycles[vertices])
    return busiest


def in_turn(
    cycles: Array, first: Array, count: Array, num_workers: int
) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield the start of one vertex on each tile, rank by rank.

    Each item is (the tiles that have another vertex, the worker of each, the worker cycles after
    which it starts, the index of the vertex). The vertices of tile i are `cycles[first[i]:first[i]
    + count[i]]`.
    """
    free = np.zeros((len(count), num_workers), np.int64)
    for rank in range(int(count.max(initial=0))):
        going = np.flatnonzero(count > rank)
        worker = np.argmin(free[going], axis=1)
        vertices = first[going] + rank
        yield going, worker, free[going, worker], vertices
        free[going, worker] += cycles[vertices]


def shared_out(cycles: Array, num_workers: int) -> tuple[Array, Array]:
    """Return (worker, worker cycles after which it starts) of every vertex of one tile, int64 each.

    `cycles` are those of the vertices, in the order in which they start.
    """
    turns = [
        (worker[0], start[0])
        for _, worker, start, _ in in_turn(
            cycles, np.zeros(1, np.int64), np.array([len(cycles)]), num_workers
        )
    ]
    spans = np.array(turns, np.int64).reshape(-1, 2)
    return spans[:, 0], spans[:, 1]


def even_tile_cycles(num_vertices: int, cycles: int, num_workers: int) -> int:
    """Return the tile cycles of `num_vertices` equal vertices on one tile, in closed form."""
    return -(-num_vertices // num_workers) * num_workers * cycles
