"""Plans of reductions in which each tile first reduces the elements that are on this tile.

This first stage moves no data. It is useless on a tile that has at most one element of each column.
It is expensive on a tile whose elements are scattered in memory, because the tile must first
gather the elements. The cost model takes both into account.
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

# The maximum number of blocks in a plan. The best number of blocks is about the square root of the
# number of partial results per column, so 64 blocks are enough for 4,096 results per column.
MOST_BLOCKS = 64


@dataclass(frozen=True)
class Groups:
    """Groups of neighbouring columns whose elements on a tile are in the same rows.

    The attributes are parallel arrays with an entry for each group.

    - `tile`: the tile that has the elements of the group.
    - `columns`: the number of columns.
    - `rows`: the number of rows.
    - `first`: the index of the group's first element in `Placement.places`. The elements of a group
      follow each other there column by column, and by ascending rows within a column.
    - `result`: the index of the group's first partial result. A tile computes one partial result
      for each column.
    - `across`: whether elements of the same column, rather than of the same row, are neighbours in
      memory.
    - `pieces`: the number of contiguous memory regions that the tile must gather, or 0 if it need
      not gather any, because each column or each row is one region.
    """

    tile: Array
    columns: Array
    rows: Array
    first: Array
    result: Array
    across: Array
    pieces: Array


@dataclass(frozen=True)
class Placement:
    """The tile mapping of a matrix whose rows are reduced, and the list of its partial results.

    A tile computes a partial result for each column that has elements on the tile. The partial
    results are sorted by tile, and by column within a tile.

    - `groups`: groups of neighbouring columns whose elements on a tile are in the same rows.
    - `places`: the positions of all elements in memory, ordered by groups.
    - `tiles`: the tile of each partial result.
    - `columns`: the column of each partial result.
    - `lengths`: for each partial result, the number of rows that it combines.
    - `by_column`: the indices of the partial results, sorted by column, and within a column by the
      first row that they combine.
    - `counts`: the number of partial results of each column.
    """

    groups: Groups
    places: Array
    tiles: Array
    columns: Array
    lengths: Array
    by_column: Array
    counts: Array

    def max_fetched(self, owners: Array) -> int:
        """Return the greatest number of elements that a tile receives to reduce whole columns.

        `owners` contains, for each column, the tile that reduces it. Elements that are already on
        this tile are not received.
        """
        owner_of_result: Array = owners[self.columns]
        fetched_elements = np.where(owner_of_result == self.tiles, 0, self.lengths)
        # An unmapped column has the owner -1, so 1 is added. A later check raises the error for it.
        return int(np.bincount(owner_of_result + 1, fetched_elements).max())

    def of_columns(self, begin: int, end: int) -> Array:
        """Return int64[results per column, columns]: the indices of the columns' partial results.

        The columns are `begin` to `end` (excluded), and must have equal numbers of partial results.
        """
        first_result = int(self.counts[:begin].sum())
        num_columns = end - begin
        results_per_column = int(self.counts[begin])
        result_numbers: Array = (
            self.by_column[first_result : first_result + num_columns * results_per_column]
            .reshape(num_columns, results_per_column)
            .T
        )
        return result_numbers

    def equal_intervals(self, width: int) -> list[tuple[int, int]]:
        """Return intervals (begin, end) of columns that have equal numbers of partial results.

        An interval contains at most `width` columns. All intervals together contain all columns, in
        order.
        """
        interval_ends = [*(np.flatnonzero(np.diff(self.counts)) + 1).tolist(), len(self.counts)]
        return [
            (i, min(i + width, end))
            for begin, end in zip([0, *interval_ends], interval_ends, strict=False)
            for i in range(begin, end, width)
        ]


def placement_of(graph: Graph, matrix: Tensor) -> Placement | None:
    """Return the `Placement` of `matrix` for a reduction of its rows, or None if it is not useful.

    The result is None if there are no elements, if some elements are unmapped, or if no tile has
    two elements of a column.
    """
    num_rows, num_columns = matrix.shape
    positions: Array = matrix.positions().reshape(-1)
    element_tiles = graph.tile_map().at(positions * matrix.dtype.size)
    if element_tiles.size == 0 or element_tiles.min() < 0:
        return None
    cell_keys: Array = element_tiles.reshape(num_rows, num_columns) * num_columns + np.arange(
        num_columns
    )
    element_order = np.argsort(cell_keys, axis=None, kind="stable")
    cell_keys = cell_keys.reshape(-1)[element_order]
    element_rows = element_order // num_columns
    positions = positions[element_order]
    cell_starts = np.flatnonzero(np.diff(cell_keys, prepend=-1))
    if len(cell_starts) == len(cell_keys):
        return None
    cell_lengths = np.diff(cell_starts, append=len(cell_keys))
    cell_keys = cell_keys[cell_starts]
    groups = _groups(cell_keys, cell_lengths, num_columns, element_rows, positions=positions)
    cell_tiles, cell_columns = np.divmod(cell_keys, num_columns)
    by_column = np.lexsort((element_rows[cell_starts], cell_columns))
    results_per_column = np.bincount(cell_columns, minlength=num_columns)
    return Placement(
        groups,
        positions,
        cell_tiles,
        cell_columns,
        lengths=cell_lengths,
        by_column=by_column,
        counts=results_per_column,
    )


def _groups(
    cell_keys: Array, cell_lengths: Array, num_columns: int, rows: Array, positions: Array
) -> Groups:
    """Return the groups of neighbouring columns whose elements on a tile are in the same rows.

    A cell is the part of a column that is on one tile. The cell's key is tile * `num_columns` +
    column, and its length is its number of elements. `rows` and `positions` contain the row and the
    position in memory of each element, ordered by cell and row.
    """
    cell_starts = np.cumsum(cell_lengths) - cell_lengths
    cell_tiles, cell_columns = np.divmod(cell_keys, num_columns)
    # Mark each cell that has the same rows as the cell of the previous column on the same tile.
    element_before = np.arange(len(rows)) - np.repeat(cell_lengths, cell_lengths)
    has_rows_of_previous = np.logical_and.reduceat(rows == rows[element_before], cell_starts)
    has_rows_of_previous[1:] &= (
        (np.diff(cell_keys) == 1) & (np.diff(cell_lengths) == 0) & (cell_columns[1:] > 0)
    )
    has_rows_of_previous[0] = False
    group_begins = np.flatnonzero(~has_rows_of_previous)
    columns_per_group = np.diff(group_begins, append=len(cell_keys))
    group_starts = cell_starts[group_begins]
    # Count the contiguous pieces of memory in a group, read column by column and row by row.
    begins_piece = np.diff(positions, prepend=-2) != 1
    begins_piece[cell_starts] = True
    pieces_by_column = np.add.reduceat(begins_piece, group_starts, dtype=np.int64)
    begins_piece = (positions - positions[element_before] != 1) | np.repeat(
        ~has_rows_of_previous, cell_lengths
    )
    pieces_by_row = np.add.reduceat(begins_piece, group_starts, dtype=np.int64)
    pieces_by_column[pieces_by_column == columns_per_group] = 0
    pieces_by_row[pieces_by_row == cell_lengths[group_begins]] = 0
    return Groups(
        tile=cell_tiles[group_begins],
        columns=columns_per_group,
        rows=cell_lengths[group_begins],
        first=group_starts,
        result=group_begins,
        across=pieces_by_column < pieces_by_row,
        pieces=np.minimum(pieces_by_column, pieces_by_row),
    )


@dataclass(frozen=True)
class PlacedPlan:
    """The plan of a reduction in which each tile first reduces the elements that are on this tile.

    - `placement`: the tile mapping of the elements, with groups of neighbouring columns.
    - `alone`: for each group, the number of workers that divide the group's columns between them,
      each executing a separate vertex; 0 if all six workers together execute one vertex for the
      group.
    - `blocks`: the number of blocks of partial results that are reduced in parallel in a middle
      stage; 1 if there is no middle stage.
    - `width`: the maximum number of columns of a block.
    - `cycles`: the modelled cycles of all stages.
    """

    placement: Placement
    alone: Array
    blocks: int
    width: int
    cycles: int

    @property
    def steps(self) -> int:
        """The number of compute sets."""
        return 2 + (self.blocks > 1)


def placed_plan(
    placement: Placement,
    operation: str,
    dtype: type[DType],
    out: type[DType],
    inter_tile: type[DType],
    target: Target,
) -> PlacedPlan:
    """Return the cheapest plan in which each tile first reduces the elements on this tile.

    `placement` is the tile mapping of the elements, and `dtype` their dtype. In the first stage,
    each tile reduces its elements, and converts the partial results to the dtype `inter_tile`. A
    middle stage may reduce blocks of partial results. The last stage writes the result, which has
    the dtype `out`. The function compares the modelled cycles of a plan without a middle stage with
    those of plans that have 2 to `MOST_BLOCKS` blocks of partial results, each with 4, 8, 16, ...
    columns or all columns.
    """
    first_stage_cycles, alone = _first_stage(placement, operation, dtype, inter_tile, target=target)
    second_operation = after(operation)
    num_columns = len(placement.counts)
    superstep_cycles = target.internal_sync_cycles + int(arrival_cycles(target).max())

    @cache
    def step(block_columns: int, num_rows: int, result_dtype: type[DType]) -> int:
        """Return the cycles of a vertex that reduces partial results, including their exchange.

        The vertex reduces a matrix [num_rows, block_columns] to results of `result_dtype`.
        """
        shares = shares_of(second_operation, block_columns, num_rows, inter_tile)
        exchange = int(exchange_cycles(num_rows * block_columns * inter_tile.size, target))
        return exchange + stage_cycles(
            second_operation,
            block_columns,
            num_rows,
            inter_tile,
            out=result_dtype,
            target=target,
            shares=shares,
        )

    columns_per_tile = share_of(num_columns, dtype, target)
    largest_count = int(placement.counts.max())
    even_intervals = placement.equal_intervals(num_columns)
    last_stage_cycles = np.zeros(-(-num_columns // columns_per_tile), np.int64)
    for begin, end in even_intervals:
        for tile in range(begin // columns_per_tile, -(-end // columns_per_tile)):
            common_columns = min(end, (tile + 1) * columns_per_tile) - max(
                begin, tile * columns_per_tile
            )
            last_stage_cycles[tile] += step(common_columns, int(placement.counts[begin]), out)
    best_choice = int(last_stage_cycles.max()), 1, num_columns
    for block_columns in (min(2**i, num_columns) for i in range(2, num_columns.bit_length() + 1)):
        num_column_blocks = sum(-(-(end - begin) // block_columns) for begin, end in even_intervals)
        for num_blocks in range(2, min(int(placement.counts.min()), MOST_BLOCKS) + 1):
            vertices_per_tile = -(-num_column_blocks * num_blocks // target.num_tiles)
            cycles = (
                vertices_per_tile * step(block_columns, -(-largest_count // num_blocks), inter_tile)
                + superstep_cycles
            )
            best_choice = min(
                best_choice,
                (cycles + step(columns_per_tile, num_blocks, out), num_blocks, block_columns),
            )
    cycles, num_blocks, block_columns = best_choice
    cycles += first_stage_cycles + target.internal_sync_cycles
    return PlacedPlan(placement, alone, num_blocks, block_columns, cycles=cycles)


def _costs_of_groups(
    groups: Groups,
    groups_of_tile: Array,
    operation: str,
    dtype: type[DType],
    out: type[DType],
    target: Target,
) -> Array:
    """Return int[3, groups]: the costs of each group for two ways to use a tile's workers.

    A group consists of neighbouring columns.

    - The first row contains the cycles of the tile if all workers reduce the group together.
    - The second row contains the number of parts if the columns are divided between workers.
    - The third row contains the cycles of a worker for such a part.

    `groups_of_tile` is the number of groups on each tile.
    """

    @cache
    def cost_of(columns: int, rows: int, across: bool, num_groups: int) -> tuple[int, int, int]:
        """Return the three costs of a group; `num_groups` is the number of groups on its tile."""
        vector_width = target.get_vector_width(dtype)
        num_vectors = -(-columns // vector_width)
        num_parts = max(1, min(target.num_worker_contexts // num_groups, num_vectors))
        part_columns = min(columns, -(-num_vectors // num_parts) * vector_width)
        shares = shares_of(operation, columns, rows, dtype)
        tile_shared_cycles = stage_cycles(
            operation,
            columns,
            rows,
            dtype,
            out=out,
            target=target,
            shares=shares,
            across=across,
        )
        part_cycles = worker_cycles(
            operation, part_columns, rows, dtype, out=out, target=target, across=across
        )
        return tile_shared_cycles, num_parts, part_cycles

    group_kinds = groups.columns, groups.rows, groups.across, groups_of_tile[groups.tile]
    group_costs = [
        cost_of(*group_kind)
        for group_kind in zip(*(kind_values.tolist() for kind_values in group_kinds), strict=True)
    ]
    costs: Array = np.array(group_costs).T
    return costs


def _first_stage(
    placement: Placement, operation: str, dtype: type[DType], out: type[DType], target: Target
) -> tuple[int, Array]:
    """Return `(cycles, alone)` of the stage in which each tile reduces the elements on this tile.

    `cycles` are those of the busiest tile, and `alone` is the array `PlacedPlan.alone`.
    """
    num_workers = target.num_worker_contexts
    groups = placement.groups
    group_tiles = groups.tile
    groups_of_tile = np.bincount(group_tiles, minlength=target.num_tiles)
    group_shared_cycles, num_parts, worker_part_cycles = _costs_of_groups(
        groups, groups_of_tile, operation, dtype, out=out, target=target
    )

    def by_tile(group_values: Array) -> Array:
        totals = np.zeros(target.num_tiles, np.int64)
        np.add.at(totals, group_tiles, group_values)
        return totals

    tile_shared_cycles = by_tile(group_shared_cycles)
    tile_part_cycles = by_tile(num_parts * worker_part_cycles)
    tile_pieces = by_tile(groups.pieces)
    tile_bytes = by_tile(np.where(groups.pieces > 0, groups.columns * groups.rows * dtype.size, 0))
    longest_part_cycles = np.zeros(target.num_tiles, np.int64)
    np.maximum.at(longest_part_cycles, group_tiles, worker_part_cycles)
    divided_cycles = num_workers * np.where(
        groups_of_tile <= num_workers,
        longest_part_cycles,
        tile_part_cycles // num_workers + longest_part_cycles,
    )
    is_divided = divided_cycles < tile_shared_cycles
    gather_cycles, _ = copy_cycles(tile_pieces, tile_bytes, target)
    tile_cycles = np.where(is_divided, divided_cycles, tile_shared_cycles) + gather_cycles
    return int(tile_cycles.max()), np.where(is_divided[group_tiles], num_parts, 0)
