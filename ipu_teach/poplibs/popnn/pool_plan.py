"""The distribution of a pooling over the tiles, by PopLibs' plan (popnn/PoolPlan.cpp).

The output is divided into blocks, one per tile. A block contains some of the channel groups, some
of the samples, and an interval of each field dimension. The channels of a group are contiguous in
memory. The planner compares all partitions by the sum of three estimates: the cycles of the
vertices, of the exchange, and of rearranging data. It prefers groups of 16 HALF or 8 FLOAT
channels, because they suit the next layer, unless they cost at least a third more than the best
plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Shape, Tensor
from ipu_teach.poplibs.placing import balanced_partition, dealt, sensible_parts
from ipu_teach.target import Target
from ipu_teach.types import HALF, Array, DType

_MOST = 8  # The maximum number of vectors in a group of channels.
_MORE = 4 / 3  # The cost limit for the preferred group size, relative to the best plan.
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PoolPlan:
    """The partition of a pooling's result into blocks.

    The result is viewed in the shape [channel groups, samples, *field, channels of a group], which
    is `shape`. `parts` contains the number of parts of each dimension except the last, which is not
    divided. `tiles` is the number of tiles of the machine.
    """

    shape: Shape
    parts: Shape
    tiles: int

    def blocks(self) -> list[tuple[int, Ranges]]:
        """Return a pair (tile, ranges) for each block; the blocks are spread evenly over all tiles.

        `ranges` contains the block's interval (begin, end) in each dimension of `shape` except the
        last.
        """
        dim_parts = zip(self.shape[:-1], self.parts, strict=True)
        ranges_of_blocks = list(
            product(*(balanced_partition(size, parts) for size, parts in dim_parts))
        )
        return dealt(ranges_of_blocks, self.tiles)

    def places(self, ranges: Ranges) -> Array:
        """Return int64[elements]: the positions of a block's elements in the flattened result.

        `ranges` contains the block's intervals, as returned by `blocks`.
        """
        indices: Array = np.zeros(1, np.int64)
        for size, (begin, end) in zip(self.shape, (*ranges, (0, self.shape[-1])), strict=True):
            indices = (indices[:, None] * size + np.arange(begin, end)).reshape(-1)
        return indices

    def cycles(
        self, kind: str, work: list[Array], ranges: Ranges, dtype: type[DType], target: Target
    ) -> int:
        """Return the modelled tile cycles of the vertex for the block with the intervals `ranges`.

        `kind` is "MAX", "AVG" or "GRAD". `work` contains an array bool[kernel, length] for each
        dimension of the field. Entry [k, i] of this array is true if element k of a window
        contributes to position i of the result. An element that is padding contributes to no
        position.
        """
        (group_begin, group_end), *other_ranges = ranges
        worker_shares = shares(work, ranges, target.num_worker_contexts)
        block_sizes = {
            "vectors": -(-self.shape[-1] // target.get_vector_width(dtype)),
            "groups": group_end - group_begin,
        }
        num_outputs = prod(end_in_dim - begin_in_dim for begin_in_dim, end_in_dim in other_ranges)
        cycles = vertices.pooling(
            kind, *worker_shares, target=target, **block_sizes, outputs=num_outputs
        )
        return int(np.max(cycles))


@lru_cache(maxsize=512)
def planned(
    kind: str,
    shape: Shape,
    kernel: Shape,
    stride: Shape,
    forward: bool,
    contiguous: int,
    dtype: type[DType],
    target: Target,
) -> PoolPlan:
    """Return the plan for a result of shape `shape`, (samples, channels, *field).

    `kind` is "MAX", "AVG" or "GRAD", the kind of vertex that computes the result. `forward` is true
    if the result is the output of the pooling, and false if it is the gradient of its input.
    `contiguous` is the number of channels of the input that are contiguous in memory.
    """
    channels = shape[1]
    vector_width = target.get_vector_width(dtype)
    divisors = [size for size in range(1, channels + 1) if channels % size == 0]
    largest_group = max(
        vector_width, min(_MOST * vector_width, -(-contiguous // vector_width) * vector_width)
    )
    group_sizes = [size for size in divisors if vector_width <= size <= largest_group] or sorted(
        {1, channels}
    )
    plan_arguments = kind, shape, kernel, stride, forward, contiguous, dtype, target
    best_cost, best_plan = min(
        (_best(group_size, *plan_arguments) for group_size in group_sizes),
        key=lambda cost_and_plan: cost_and_plan[0],
    )
    preferred_group = 16 if dtype is HALF else 8
    if best_plan.shape[-1] < preferred_group and channels % preferred_group == 0:
        preferred_cost, preferred_plan = _best(preferred_group, *plan_arguments)
        best_plan = preferred_plan if preferred_cost < _MORE * best_cost else best_plan
    return best_plan


def _best(
    group_size: int,
    kind: str,
    shape: Shape,
    kernel: Shape,
    stride: Shape,
    forward: bool,
    contiguous: int,
    dtype: type[DType],
    target: Target,
) -> tuple[int, PoolPlan]:
    """Return `(cycles, plan)` for the best plan with groups of `group_size` channels.

    `cycles` is the estimated number of cycles of this plan. The other parameters are those of
    `planned`.
    """
    sizes = (shape[1] // group_size, shape[0], *shape[2:])
    partitions = _partitions(sizes, target.num_tiles)
    block_sizes = -(-np.array(sizes) // partitions)
    vectors = -(-group_size // target.get_vector_width(dtype))
    cycles = _vertex_cycles(kind, block_sizes, vectors, prod(kernel), target)
    fetched_per_channel = _fetched_per_channel(kind, block_sizes[:, 2:], kernel, stride, forward)
    fetched_bytes = fetched_per_channel * block_sizes[:, :2].prod(1) * group_size * dtype.size
    cycles = cycles + fetched_bytes // target.exchange_bytes_per_cycle
    if contiguous != group_size:  # The input is first copied, so that each group is contiguous.
        cycles = cycles + fetched_bytes // 4
    best_index = int(np.argmin(cycles))
    best_parts = tuple(map(int, partitions[best_index]))
    return int(cycles[best_index]), PoolPlan((*sizes, group_size), best_parts, target.num_tiles)


def _partitions(sizes: tuple[int, ...], num_tiles: int) -> Array:
    """Return int64[partitions, dimensions]: the numbers of parts of each dimension.

    A partition has at most `num_tiles` blocks. `sizes` are the lengths of the dimensions. A number
    of parts is left out if a smaller number gives a largest part of the same size.
    """
    partitions = np.ones((1, 0), np.int64)
    for size in sizes:
        candidates = sensible_parts(size, size)
        partitions = np.hstack(
            [
                np.repeat(partitions, len(candidates), 0),
                np.tile(candidates, len(partitions)).reshape(-1, 1),
            ]
        )
        partitions = partitions[partitions.prod(1) <= num_tiles]
    return partitions


def _vertex_cycles(
    kind: str, block_sizes: Array, vectors: int, window_size: int, target: Target
) -> Array:
    """Return int64[partitions]: the modelled tile cycles of the largest block of each partition.

    `block_sizes` int64[partitions, dimensions] contains the number of channel groups, the number of
    samples, and the length of each field dimension of that block. `vectors` is the number of
    vectors in a channel group, and `window_size` the number of elements in a window.
    """
    rows_per_block = block_sizes[:, 1:-1].prod(1)
    row_length = block_sizes[:, -1]
    worker_index = np.arange(target.num_worker_contexts + 1)[:, None]
    share_bounds = worker_index * (rows_per_block * row_length) // target.num_worker_contexts
    share_begins = share_bounds[:-1]
    share_ends = share_bounds[1:]
    rows_of_worker = np.where(
        share_ends > share_begins,
        (share_ends - 1) // row_length - share_begins // row_length + 1,
        0,
    )
    worker_cycles = vertices.pooling(
        kind,
        rows_of_worker,
        rows_of_worker * window_size,
        (share_ends - share_begins) * window_size,
        target=target,
        vectors=vectors,
        groups=block_sizes[:, 0],
        outputs=rows_per_block * row_length,
    )
    cycles: Array = np.max(worker_cycles, axis=0)
    return cycles


def _fetched_per_channel(
    kind: str, field_sizes: Array, kernel: Shape, stride: Shape, forward: bool
) -> Array:
    """Return int64[partitions]: the number of elements that a tile receives per sample and channel.

    `field_sizes` int64[partitions, field dimensions] contains the sizes of the tile's block, which
    is the largest block of the partition. The other parameters are those of `planned`.
    """
    kernel_sizes = np.array(kernel)
    strides = np.array(stride)
    fetched_elements: Array = (
        (field_sizes - 1) * strides + kernel_sizes
        if forward
        else (field_sizes + kernel_sizes - 2) // strides + 1
    ).prod(1)
    if kind == "GRAD":
        fetched_elements = 2 * fetched_elements + field_sizes.prod(1)
    return fetched_elements


def channels_side_by_side(x: Tensor) -> int:
    """Return the size of groups of neighbouring channels that are contiguous in memory.

    x is [samples, channels, *field]. All groups have the same size. The channels of a group are
    contiguous at every sample and field position. The largest possible size is returned.
    """
    channel_positions = x.dim_shuffle([0, *range(2, x.rank), 1]).positions().reshape(-1, x.shape[1])
    breaks = np.flatnonzero((np.diff(channel_positions) != 1).any(0)) + 1
    return int(np.gcd.reduce([x.shape[1], *breaks]))


def shares(work: Sequence[Array], ranges: Ranges, workers: int) -> tuple[Array, Array, Array]:
    """Return `(rows, pieces, elements)`, each int64[workers]: three counts of each worker's work.

    The counts are for one channel of the block with the intervals `ranges`. The workers divide the
    field positions of all samples evenly in row-major order, so a worker may get parts of rows.

    - `rows` is the number of rows in which the worker has positions.
    - `pieces` is the sum, over these rows, of the number of window positions that contribute to the
      worker's part of the row.
    - `elements` is the number of pairs of a window position and an element to which it contributes.

    `work` and `ranges` are the parameters of `PoolPlan.cycles`.
    """
    *outer_work, row_work = (
        dim_work[:, begin:end] for dim_work, (begin, end) in zip(work, ranges[2:], strict=True)
    )
    # For each row, the number of window positions that contribute to the row, counted in all field
    # dimensions except the last. The last dimension is counted below, because a worker may get only
    # a part of it.
    places_of_row: Array = np.ones(1, np.int64)
    for dim_work in outer_work:
        places_of_row = np.outer(places_of_row, dim_work.sum(0)).reshape(-1)
    num_samples = ranges[1][1] - ranges[1][0]
    row_length = row_work.shape[1]
    places_of_row = np.tile(places_of_row, num_samples)
    totals = np.zeros((3, workers), np.int64)
    share_bounds = np.arange(workers + 1) * (len(places_of_row) * row_length) // workers
    for worker, (element, share_end) in enumerate(
        zip(share_bounds[:-1], share_bounds[1:], strict=True)
    ):
        while element < share_end:
            row, column = divmod(element, row_length)
            num_rows = 1
            if column or share_end - element < row_length:
                column_end = min(row_length, column + share_end - element)
            # The worker gets this row completely. The complete rows that follow are counted
            # together with this row.
            else:
                column_end = row_length
                num_rows = (share_end - element) // row_length
            work_per_place = row_work[:, column:column_end].sum(1)
            num_places = places_of_row[row : row + num_rows].sum()
            totals[:, worker] += np.array(
                [
                    num_rows,
                    num_places * (work_per_place > 0).sum(),
                    num_places * work_per_place.sum(),
                ]
            )
            element += (column_end - column) * num_rows
    return totals[0], totals[1], totals[2]
