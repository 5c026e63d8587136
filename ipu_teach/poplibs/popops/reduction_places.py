"""Reductions that begin on the tiles of their elements: the rows and columns of each tile.

The first stage moves nothing. A tile without two elements of the same column gains nothing from it,
and a tile with scattered elements needs a vertex for every piece; the cost model takes both into
account.
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

# the best number is about the square root of the number of results, at most one per tile
MOST_BLOCKS = 64


@dataclass(frozen=True)
class Groups:
    """Groups of neighbouring columns of which a tile has the same rows, as parallel arrays.

    There is one group for each vertex.

    Attributes:
        tile: the tile of each group.
        columns: the number of columns.
        rows: the number of rows.
        first: the index in `Lying.places` of the first element; columns are contiguous there, with
            ascending rows.
        result: the number of the group's first partial result.
        across: whether the rows of its columns, rather than its columns, are contiguous in memory.
        pieces: the number of pieces that must be gathered nevertheless.
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
    """The places of a matrix' elements, and its partial results: one per tile and column.

    Attributes:
        groups: the groups of columns.
        places: the positions of the elements in memory, by groups.
        tiles: the tile of each partial result.
        columns: the column of each partial result.
        lengths: the number of rows of each partial result.
        by_column: the partial results, ordered by column and by their first row.
        counts: the number of partial results of each column.
    """

    groups: Groups
    places: Array
    tiles: Array
    columns: Array
    lengths: Array
    by_column: Array
    counts: Array

    def elsewhere(self, owners: Array) -> int:
        """Return the maximum number of elements that a tile fetches to reduce its columns.

        `owners` are the tiles that reduce the columns.
        """
        owner: Array = owners[self.columns]
        away = np.where(owner == self.tiles, 0, self.lengths)
        return int(np.bincount(owner + 1, away).max())  # a later check reports unmapped elements

    def of_columns(self, begin: int, end: int) -> Array:
        """Return [results, columns]: the partial results of columns that have equally many."""
        first = int(self.counts[:begin].sum())
        width = end - begin
        count = int(self.counts[begin])
        columns: Array = self.by_column[first : first + width * count].reshape(width, count).T
        return columns

    def even(self, width: int) -> list[tuple[int, int]]:
        """Return intervals of at most `width` columns that have equally many partial results."""
        ends = [*(np.flatnonzero(np.diff(self.counts)) + 1).tolist(), len(self.counts)]
        return [
            (i, min(i + width, end))
            for begin, end in zip([0, *ends], ends, strict=False)
            for i in range(begin, end, width)
        ]


def lying(graph: Graph, matrix: Tensor) -> Lying | None:
    """Return the places of the elements of `matrix`.

    None means that some elements are unmapped, or that no tile has two elements of a column.
    """
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
    # mark columns with the same rows on the same tile as the column before them
    before = np.arange(len(key)) - np.repeat(lengths, lengths)
    same_rows = np.logical_and.reduceat(rows == rows[before], starts)
    same_rows[1:] &= (np.diff(key[starts]) == 1) & (np.diff(lengths) == 0) & (column[1:] > 0)
    same_rows[0] = False
    begins = np.flatnonzero(~same_rows)
    cells = np.diff(begins, append=len(starts))
    first = starts[begins]
    # count the breaks in memory within a group, in the order of rows and in that of columns
    on = np.diff(places, prepend=-2) != 1
    on[starts] = True
    down = np.add.reduceat(on, first, dtype=np.int64)
    on = (places - places[before] != 1) | np.repeat(~same_rows, lengths)
    right = np.add.reduceat(on, first, dtype=np.int64)
    down[down == cells] = 0
    right[right == lengths[begins]] = 0
    groups = Groups(
        *(tile[begins], cells, lengths[begins], first),
        *(begins, down < right, np.minimum(down, right)),
    )
    by_column = np.lexsort((rows[starts], column))
    counts = np.bincount(column, minlength=width)
    return Lying(groups, places, tile, column, lengths=lengths, by_column=by_column, counts=counts)


@dataclass(frozen=True)
class PlacedPlan:
    """The plan of a reduction that begins on the tiles of its elements, and its modelled cycles.

    Attributes:
        lying: the places of the elements.
        alone: for each group, the number of parts of whole data paths into which its columns are
            divided, each for one worker; 0 if all six workers share the group.
        blocks: the number of blocks of partial results that are reduced in parallel before the last
            step; 1 for none.
        width: the maximum number of columns of a block.
    """

    lying: Lying
    alone: Array
    blocks: int
    width: int
    cycles: int

    @property
    def steps(self) -> int:
        """The number of compute sets."""
        return 2 + (self.blocks > 1)


def placed_plan(
    placement: Lying,
    operation: str,
    dtype: type[DType],
    out: type[DType],
    inter_tile: type[DType],
    target: Target,
) -> PlacedPlan:
    """Return the cheapest plan for the stages after the first, with the cycles of all stages."""
    busy, alone = _first_stage(placement, operation, dtype, inter_tile, target=target)
    again = after(operation)
    width = len(placement.counts)
    superstep = target.internal_sync_cycles + int(arrival_cycles(target).max())

    @cache
    def step(columns: int, rows: int, to: type[DType]) -> int:
        """Return the cycles of a vertex that reduces partial results, including their exchange."""
        shares = shares_of(again, columns, rows, inter_tile)
        exchange = int(exchange_cycles(rows * columns * inter_tile.size, target))
        return exchange + stage_cycles(
            again, columns, rows, inter_tile, out=to, target=target, shares=shares
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
            rounds = -(-count * blocks // target.num_tiles)
            cycles = rounds * step(columns, -(-largest_count // blocks), inter_tile) + superstep
            best = min(best, (cycles + step(share, blocks, out), blocks, columns))
    cycles, blocks, columns = best
    cycles += busy + target.internal_sync_cycles
    return PlacedPlan(placement, alone, blocks, columns, cycles=cycles)


def _first_stage(
    placement: Lying, operation: str, dtype: type[DType], out: type[DType], target: Target
) -> tuple[int, Array]:
    """Return the cycles of the busiest tile, and each group's number of parts for workers.

    The number is 0 where it is faster for the tile that all workers share a group.
    """
    workers = target.num_worker_contexts
    groups = placement.groups
    owners = groups.tile
    count = np.bincount(owners, minlength=target.num_tiles)

    @cache
    def price(columns: int, rows: int, across: bool, groups: int) -> tuple[int, int, int]:
        """Return (tile cycles on all workers, parts of a group, worker cycles of a part)."""
        path = target.get_vector_width(dtype)
        paths = -(-columns // path)
        parts = max(1, min(workers // groups, paths))
        part_columns = min(columns, -(-paths // parts) * path)
        shares = shares_of(operation, columns, rows, dtype)
        merged = stage_cycles(
            operation,
            columns,
            rows,
            dtype,
            out=out,
            target=target,
            shares=shares,
            across=across,
        )
        single = worker_cycles(
            operation, part_columns, rows, dtype, out=out, target=target, across=across
        )
        return merged, parts, single

    kinds = groups.columns, groups.rows, groups.across, count[owners]
    prices = [price(*kind) for kind in zip(*(k.tolist() for k in kinds), strict=True)]
    all_of_them, parts, single_cycles = np.array(prices).T
    merged, separate, pieces, size, longest = np.zeros((5, target.num_tiles), np.int64)
    scattered = groups.pieces
    sizes = np.where(scattered > 0, groups.columns * groups.rows * dtype.size, 0)
    for sums, of_group in (
        *((merged, all_of_them), (separate, parts * single_cycles)),
        *((pieces, scattered), (size, sizes)),
    ):
        np.add.at(sums, owners, of_group)
    np.maximum.at(longest, owners, single_cycles)
    separate_cycles = workers * np.where(count <= workers, longest, separate // workers + longest)
    alone = separate_cycles < merged
    moved, _ = copy_cycles(pieces, size, target)
    busy = np.where(alone, separate_cycles, merged) + moved
    return int(busy.max()), np.where(alone[owners], parts, 0)
