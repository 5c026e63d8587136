"""Reductions that begin on the tiles of their elements: which rows of which columns each tile has,
its partial results, and how many of these are reduced side by side before the last step.

The first stage moves nothing. A tile that has no two elements of any column gains nothing by it,
and a tile with scattered elements needs a vertex for every piece; the cost model counts both.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ipu_teach.cost.exchange import arrival_cycles, exchange_cycles
from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.popops.reduction_plan import share_of
from ipu_teach.poplibs.popops.reduction_vertices import (
    after,
    shares_of,
    stage_cycles,
    worker_cycles,
)
from ipu_teach.target import Target
from ipu_teach.types import Array, DType

MOST_BLOCKS = 64  # the best is about the root of how many results there are, one a tile at most


@dataclass(frozen=True)
class Groups:
    """Groups of neighbouring columns of which a tile has the same rows, as parallel arrays: one
    group for each vertex.

    `tile` is the tile of each group, `columns` and `rows` its sizes, `first` the position of its
    elements in `Lying.places`, column by column, rows ascending. `result` is the number of its
    first partial result among all. `across`: the rows of its columns are contiguous, and not its
    columns; `pieces`: the pieces that have to be gathered nevertheless.
    """

    tile: Array
    columns: Array
    rows: Array
    first: Array
    result: Array
    across: Array
    pieces: Array


@dataclass(frozen=True)
class Lying:
    """The places of a matrix' elements. `tiles`, `columns` and `lengths` belong to the partial
    results, one for each column of which a tile has rows: the tile, the column, the number of rows.

    `by_column` has the partial results in the order of columns, and within each of their first
    rows; `counts` their number in each column. `places` are the elements' positions, by groups.
    """

    groups: Groups
    places: Array
    tiles: Array
    columns: Array
    lengths: Array
    by_column: Array
    counts: Array

    def elsewhere(self, owners: Array) -> int:
        """Return the most elements that a tile has to fetch to reduce the columns that it owns."""
        owner: Array = owners[self.columns]
        away = np.where(owner == self.tiles, 0, self.lengths)
        return int(np.bincount(owner + 1, away).max())  # a later check reports unmapped elements

    def of_columns(self, begin: int, end: int) -> Array:
        """Return [partial results, columns]: those of columns that have equally many."""
        first = int(self.counts[:begin].sum())
        width = end - begin
        count = int(self.counts[begin])
        columns: Array = self.by_column[first : first + width * count].reshape(width, count).T
        return columns

    def even(self, width: int) -> list[tuple[int, int]]:
        """Return the columns in (begin, end) of `width` at most, that have equally many partial
        results."""
        ends = [*(np.flatnonzero(np.diff(self.counts)) + 1).tolist(), len(self.counts)]
        return [
            (i, min(i + width, end))
            for begin, end in zip([0, *ends], ends, strict=False)
            for i in range(begin, end, width)
        ]


def lying(graph: Graph, matrix: Tensor) -> Lying | None:
    """Return the places of the elements of `matrix`; None if some are unmapped, or no tile has two
    of a column."""
    height, width = matrix.shape
    places: Array = matrix.positions().reshape(-1)
    tiles = graph.tile_map().at(places * matrix.dtype.size)
    if tiles.size == 0 or tiles.min() < 0:
        return None
    key: Array = tiles.reshape(height, width) * width + np.arange(width)
    order = np.argsort(key, axis=None, kind="stable")
    key = key.reshape(-1)[order]
    rows = order // width
    places = places[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    if len(starts) == len(key):
        return None
    tile, column = np.divmod(key[starts], width)
    lengths = np.diff(starts, append=len(key))
    # as the column before it, if that has as many rows on this tile, and the same ones
    before = np.arange(len(key)) - np.repeat(lengths, lengths)
    same_rows = np.logical_and.reduceat(rows == rows[before], starts)
    same_rows[1:] &= (np.diff(key[starts]) == 1) & (np.diff(lengths) == 0) & (column[1:] > 0)
    same_rows[0] = False
    begins = np.flatnonzero(~same_rows)
    cells = np.diff(begins, append=len(starts))
    first = starts[begins]
    # how often what a vertex takes goes on elsewhere, by columns and by rows
    on = np.diff(places, prepend=-2) != 1
    on[starts] = True
    down = np.add.reduceat(on, first, dtype=np.int64)
    on = (places - places[before] != 1) | np.repeat(~same_rows, lengths)
    right = np.add.reduceat(on, first, dtype=np.int64)
    down[down == cells], right[right == lengths[begins]] = 0, 0
    groups = Groups(
        *(tile[begins], cells, lengths[begins], first),
        *(begins, down < right, np.minimum(down, right)),
    )
    by_column = np.lexsort((rows[starts], column))
    counts = np.bincount(column, minlength=width)
    return Lying(groups, places, tile, column, lengths, by_column, counts)


@dataclass(frozen=True)
class PlacedPlan:
    """Modelled cycles of a reduction that begins with `lying`. `alone`: for each of its groups,
    into how many parts its columns are cut, in whole data paths, with a worker for each, beside
    others; 0 where all six take the group together. `blocks` of partial results side by side, of
    `width` columns, before the last step: 1 for none."""

    lying: Lying
    alone: Array
    blocks: int
    width: int
    cycles: int

    @property
    def steps(self) -> int:
        """The number of its compute sets."""
        return 2 + (self.blocks > 1)


def placed_plan(
    placement: Lying,
    operation: str,
    dtype: type[DType],
    out: type[DType],
    inter_tile: type[DType],
    target: Target,
) -> PlacedPlan:
    """Return the cheapest way on from `found`, with the cycles of all stages."""
    busy, alone = _first_stage(placement, operation, dtype, inter_tile, target)
    again = after(operation)
    width = len(placement.counts)
    superstep = target.internal_sync_cycles + int(arrival_cycles(target).max())

    @cache
    def step(columns: int, rows: int, to: type[DType]) -> int:
        """Return the cycles of a vertex over partial results of other tiles, and of their
        coming."""
        shares = shares_of(again, columns, rows, inter_tile)
        return int(exchange_cycles(rows * columns * inter_tile.size, target)) + stage_cycles(
            again, columns, rows, inter_tile, to, target, shares
        )

    share = share_of(width, dtype, target)
    largest_count = int(placement.counts.max())
    even = placement.even(width)
    last = np.zeros(-(-width // share), np.int64)
    for begin, end in even:
        for tile in range(begin // share, -(-end // share)):
            overlap = min(end, (tile + 1) * share) - max(begin, tile * share)
            last[tile] += step(overlap, int(placement.counts[begin]), out)
    best = int(last.max()), 1, width
    for columns in (min(2**i, width) for i in range(2, width.bit_length() + 1)):
        count = sum(-(-(end - begin) // columns) for begin, end in even)
        for blocks in range(2, min(int(placement.counts.min()), MOST_BLOCKS) + 1):
            turns = -(-count * blocks // target.num_tiles)
            cycles = turns * step(columns, -(-largest_count // blocks), inter_tile) + superstep
            best = min(best, (cycles + step(share, blocks, out), blocks, columns))
    cycles, blocks, columns = best
    cycles += busy + target.internal_sync_cycles
    return PlacedPlan(placement, alone, blocks, columns, cycles)


def _first_stage(
    placement: Lying, operation: str, dtype: type[DType], out: type[DType], target: Target
) -> tuple[int, Array]:
    """Return the cycles of the busiest tile, and for each group in how many parts single workers
    take it: where that is quicker for its tile."""
    workers = target.num_worker_contexts
    groups = placement.groups
    owners = groups.tile
    count = np.bincount(owners, minlength=target.num_tiles)

    @cache
    def price(columns: int, rows: int, across: bool, groups: int) -> tuple[int, int, int]:
        """Tile cycles on all workers; a group's parts, and worker cycles of each."""
        path = target.get_vector_width(dtype)
        paths = -(-columns // path)
        parts = max(1, min(workers // groups, paths))
        size = min(columns, -(-paths // parts) * path), rows, dtype, out, target, across
        shares = shares_of(operation, columns, rows, dtype)
        merged = stage_cycles(operation, columns, rows, dtype, out, target, shares, across)
        return merged, parts, worker_cycles(operation, *size)

    kinds = groups.columns, groups.rows, groups.across, count[owners]
    prices = [price(*kind) for kind in zip(*(k.tolist() for k in kinds), strict=True)]
    all_of_them, parts, single_cycles = np.array(prices).T
    merged, separate, pieces, size, longest = np.zeros((5, target.num_tiles), np.int64)
    scattered = groups.pieces
    sizes = groups.columns * groups.rows * dtype.size * (scattered > 0)
    for sums, of_group in (
        *((merged, all_of_them), (separate, parts * single_cycles)),
        *((pieces, scattered), (size, sizes)),
    ):
        np.add.at(sums, owners, of_group)
    np.maximum.at(longest, owners, single_cycles)
    separate_cycles = workers * np.where(count <= workers, longest, separate // workers + longest)
    alone, (moved, _) = separate_cycles < merged, copy_cycles(pieces, size, target)
    busy = np.where(alone, separate_cycles, merged) + moved
    return int(busy.max()), np.where(alone[owners], parts, 0)
