"""The distribution of a pooling over the tiles, by PopLibs' plan (popnn/PoolPlan.cpp).

The output is divided into blocks of channels, samples and intervals of the field, one block per
tile, whose channels are contiguous in groups. The plan has the smallest sum of the estimates of
vertex, exchange and rearrangement over all partitions. A plan with groups of 16 HALF or 8 FLOAT,
which suit the next layer, is preferred if it costs at most a third more.
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

_MOST = 8  # maximum number of vectors in a group of channels
_MORE = 4 / 3  # the permitted cost of a plan with the preferred groups, relative to the best
Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class PoolPlan:
    """The partition of [channel groups, samples, *field, channels of a group].

    `parts` is the number of parts of each dimension except the last.
    """

    shape: Shape
    parts: Shape
    tiles: int

    def blocks(self) -> list[tuple[int, Ranges]]:
        """Return (tile, ranges) of each block, spread evenly over all tiles.

        `ranges` are the intervals (begin, end) of each dimension except the last.
        """
        pairs = zip(self.shape[:-1], self.parts, strict=True)
        cuts = list(product(*(balanced_partition(size, parts) for size, parts in pairs)))
        return dealt(cuts, self.tiles)

    def places(self, ranges: Ranges) -> Array:
        """Return int64[elements]: the positions of a block's elements in the flat tensor."""
        indices: Array = np.zeros(1, np.int64)
        for size, (begin, end) in zip(self.shape, (*ranges, (0, self.shape[-1])), strict=True):
            indices = (indices[:, None] * size + np.arange(begin, end)).reshape(-1)
        return indices

    def cycles(
        self, kind: str, work: list[Array], ranges: Ranges, dtype: type[DType], target: Target
    ) -> int:
        """Return the tile cycles of a block.

        `work` is, for each dimension of the field, bool[kernel, length]: whether a place of the
        window has work at a position.
        """
        (begin, end), *rest = ranges
        busy = shares(work, ranges, target.num_worker_contexts)
        figures = {
            "vectors": -(-self.shape[-1] // target.get_vector_width(dtype)),
            "groups": end - begin,
        }
        outputs = prod(high - low for low, high in rest)
        cycles = vertices.pooling(kind, *busy, target=target, **figures, outputs=outputs)
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
    """Return the plan of a result [samples, channels, *field].

    `kind` is as for `vertices.pooling`; `contiguous` is the number of contiguous channels of the
    input.
    """
    channels = shape[1]
    width = target.get_vector_width(dtype)
    divisors = [n for n in range(1, channels + 1) if channels % n == 0]
    largest_group = max(width, min(_MOST * width, -(-contiguous // width) * width))
    groups = [n for n in divisors if width <= n <= largest_group] or sorted({1, channels})
    facts = kind, shape, kernel, stride, forward, contiguous, dtype, target
    cost, best = min(
        (_best(group, *facts) for group in groups), key=lambda cost_and_plan: cost_and_plan[0]
    )
    wished = 16 if dtype is HALF else 8
    if best.shape[-1] < wished and channels % wished == 0:
        wished_cost, wished_plan = _best(wished, *facts)
        best = wished_plan if wished_cost < _MORE * cost else best
    return best


def _best(
    group: int,
    kind: str,
    shape: Shape,
    kernel: Shape,
    stride: Shape,
    forward: bool,
    contiguous: int,
    dtype: type[DType],
    target: Target,
) -> tuple[int, PoolPlan]:
    """Return (estimated cycles, the best plan) with groups of `group` channels."""
    sizes = (shape[1] // group, shape[0], *shape[2:])
    parts = np.ones((1, 0), np.int64)
    for size in sizes:  # all partitions that have a tile for each block
        candidates = sensible_parts(size, size)
        parts = np.hstack(
            [np.repeat(parts, len(candidates), 0), np.tile(candidates, len(parts)).reshape(-1, 1)]
        )
        parts = parts[parts.prod(1) <= target.num_tiles]
    size_per_part = -(-np.array(sizes) // parts)  # the size of a block in each dimension
    rows = size_per_part[:, 1:-1].prod(1)
    long = size_per_part[:, -1]
    worker = np.arange(target.num_worker_contexts + 1)[:, None]
    ends = worker * (rows * long) // target.num_worker_contexts
    begin = ends[:-1]
    end = ends[1:]
    touched = np.where(end > begin, (end - 1) // long - begin // long + 1, 0)
    vectors = -(-group // target.get_vector_width(dtype))
    places = prod(kernel)
    per_worker = vertices.pooling(
        kind,
        touched,
        touched * places,
        (end - begin) * places,
        target=target,
        vectors=vectors,
        groups=size_per_part[:, 0],
        outputs=rows * long,
    )
    cycles = np.max(per_worker, axis=0)

    field = size_per_part[:, 2:]
    k = np.array(kernel)
    s = np.array(stride)
    wanted = ((field - 1) * s + k if forward else (field + k - 2) // s + 1).prod(1)
    elements = 2 * wanted + field.prod(1) if kind == "GRAD" else wanted
    size = elements * size_per_part[:, :2].prod(1) * group * dtype.size
    cycles = cycles + size // target.exchange_bytes_per_cycle
    if contiguous != group:
        cycles = cycles + size // 4
    best = int(np.argmin(cycles))
    chosen = tuple(map(int, parts[best]))
    return int(cycles[best]), PoolPlan((*sizes, group), chosen, target.num_tiles)


def channels_side_by_side(x: Tensor) -> int:
    """Return the size of the equal groups of channels of x that are contiguous in memory.

    x is [samples, channels, *field].
    """
    places = x.dim_shuffle([0, *range(2, x.rank), 1]).positions().reshape(-1, x.shape[1])
    at = np.flatnonzero((np.diff(places) != 1).any(0)) + 1
    return int(np.gcd.reduce([x.shape[1], *at]))


def shares(work: Sequence[Array], ranges: Ranges, workers: int) -> tuple[Array, Array, Array]:
    """Return (rows, pieces, elements), int64[workers] each: the work of each worker.

    They are the rows of the block of which the worker has a part, the pieces of work in them, and
    the elements of those pieces, for a vector of channels. `work` is as for `PoolPlan.cycles`. The
    workers divide the block's elements evenly, row by row.
    """
    *outer, inner = (v[:, a:b] for v, (a, b) in zip(work, ranges[2:], strict=True))
    # places of the window with work, over all dimensions except the last
    places: Array = np.ones(1, np.int64)
    for v in outer:
        places = np.outer(places, v.sum(0)).reshape(-1)
    samples = ranges[1][1] - ranges[1][0]
    long = inner.shape[1]
    places = np.tile(places, samples)
    table = np.zeros((3, workers), np.int64)
    ends = np.arange(workers + 1) * (len(places) * long) // workers
    for worker, (at, end) in enumerate(zip(ends[:-1], ends[1:], strict=True)):
        while at < end:
            row, column = divmod(at, long)
            many = 1
            if column or end - at < long:
                stop = min(long, column + end - at)
            else:  # complete rows are counted together
                stop = long
                many = (end - at) // long
            per_row = inner[:, column:stop].sum(1)
            times = places[row : row + many].sum()
            table[:, worker] += np.array([many, times * (per_row > 0).sum(), times * per_row.sum()])
            at += (stop - column) * many
    return table[0], table[1], table[2]
