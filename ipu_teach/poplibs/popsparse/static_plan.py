"""The plan of a static sparse product: which tile multiplies which blocks.

The columns of the dense operand are divided into parts, and the inner dimension into bands with
equally many blocks. A band gets tiles in proportion to its blocks, which are distributed in order
of rows. If several tiles have blocks of a row, these tiles also sum it.

The numbers of parts and bands are those that PopLibs' planner would expect to be best for blocks
that are uniformly distributed at random (lib/popsparse/StaticMatMulPartitioner.cpp). All
combinations of 1 to 32 parts and 1 to 128 bands are costed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipu_teach.cost.vertices.parts import ceil_div
from ipu_teach.cost.vertices.popsparse import static_product, static_reduction, zeroing
from ipu_teach.poplibs.library import advised, as_given, check_sizes, library, refused
from ipu_teach.poplibs.popsparse.matrices import CSRMatrix, square
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, Array, DType

MOST_PARTS = 32
MOST_BANDS = 128
MEMORY_PROPORTION = 0.6  # PopLibs' default of availableMemoryProportion


@dataclass(frozen=True)
class Expected:
    """The expected cost of a plan.

    It consists of the parts of the columns, the bands of the inner dimension, modelled cycles and
    bytes.
    """

    parts: int
    bands: int
    cycles: int
    temporary_bytes: int


def expected(
    sizes: tuple[int, int, int],
    block: int,
    num_blocks: int,
    types: tuple[type[DType], type[DType]],
    target: Target,
    proportion: float = MEMORY_PROPORTION,
) -> Expected:
    """Return the best plan for [m, k] x [k, n] with `num_blocks` blocks, distributed at random.

    `sizes` are (m, k, n), and `types` those of the operands and of the sums.
    """
    m, k, n = sizes
    dtype, sums = types
    tiles = target.num_tiles
    rows = m // block
    columns = k // block
    grain = target.get_vector_width(dtype)
    rate = target.exchange_bytes_per_cycle
    density = num_blocks / (m // block * (k // block))
    parts, bands = _grid(-(-n // grain), columns, tiles)
    wide = np.minimum(ceil_div(ceil_div(n, grain), parts) * grain, n)
    tiles_per_band = tiles // parts // bands
    in_band = ceil_div(num_blocks, bands)
    deep = ceil_div(columns, bands)
    blocks_per_tile = ceil_div(in_band, tiles_per_band)
    high = ceil_div(rows, tiles_per_band)
    full = np.minimum(np.ceil(in_band / density).astype(np.int64), columns)
    deep_of = np.where(high == 1, full, deep)
    share_of_columns = 1 - (1 - density) ** deep_of
    my_rows = _likely_count(share_of_columns, high).astype(np.int64)
    wanted = _likely_count(1 - (1 - density) ** high, deep_of)
    right = wide * wanted * block * dtype.size
    left_bytes = blocks_per_tile * block * block * dtype.size
    # the two tiles of a bus need the same rows; both wait for the slower one
    cycles = np.ceil(right / (2 * rate)) * deep_of / wanted
    cycles = cycles + np.where(parts > 1, np.ceil(left_bytes / rate), 0)
    cycles = cycles + static_product(
        my_rows,
        np.maximum(ceil_div(blocks_per_tile, my_rows), 1) * my_rows,
        wide,
        block,
        dtype=dtype,
        target=target,
    )
    out = my_rows * wide * block
    if sums is FLOAT and block > 4:
        cycles = cycles + zeroing(out, sums, target)
    several = np.ceil(
        (share_of_columns * bands + _deviation(share_of_columns, bands)) * deep / deep_of
    )
    several = np.maximum(several, 1).astype(np.int64)
    arriving = ceil_div(out * sums.size * (several - 1), several)
    adding = static_reduction(ceil_div(out, several), several, sums, dtype, target=target)
    cycles = cycles + np.ceil(arriving / rate) + np.where(several > 1, adding, 0)
    cycles = cycles + ceil_div(m * n * dtype.size, tiles)
    memory = np.maximum(right + left_bytes, arriving) + out * sums.size
    best = fitting(cycles, memory, proportion * target.bytes_per_tile)
    return Expected(int(parts[best]), int(bands[best]), int(cycles[best]), int(memory[best]))


def _grid(max_parts: int, max_bands: int, tiles: int) -> tuple[Array, Array]:
    """Return (parts, bands): all combinations of numbers that use at most half of the tiles."""
    parts = np.arange(1, min(MOST_PARTS, max_parts) + 1)
    bands = np.arange(1, min(MOST_BANDS, max_bands) + 1)
    parts, bands = (grid.ravel() for grid in np.meshgrid(parts, bands, indexing="ij"))
    is_sensible = parts * bands <= max(1, tiles // 2)
    return parts[is_sensible], bands[is_sensible]


def _likely_count(probability: Array | float, count: Array | int) -> Array:
    """Return the expected number among `count` items, plus a standard deviation; at least 1."""
    expected_count = np.ceil(probability * count) + _deviation(probability, count)
    likely: Array = np.clip(expected_count, 1, count)
    return likely


def _deviation(probability: Array | float, count: Array | int) -> Array:
    """Return the standard deviation of a binomial distribution, rounded up."""
    deviation: Array = np.ceil(np.sqrt(probability * (1 - probability) * count))
    return deviation


@advised("give what static.plan_sparse_dense returns.")
@dataclass(frozen=True, eq=False, repr=False)
class SparsePlan:
    """The distribution of a static product over the tiles.

    `cycles` and `temporary_bytes` are modelled, for as many blocks distributed at random.
    """

    pattern: CSRMatrix
    n: int
    dtype: type[DType]
    partials: type[DType]
    num_tiles: int
    num_bands: int
    cycles: int
    temporary_bytes: int
    parts: tuple[tuple[int, int], ...]

    def __repr__(self) -> str:
        m, k = self.pattern.shape
        sums = "" if self.partials is self.dtype else f", sums of {self.partials.__name__}"
        return (
            f"SparsePlan([{m}, {k}] x [{k}, {self.n}], {self.dtype.__name__}{sums}, "
            f"{self.pattern.num_blocks:,} blocks on {self.num_runs * len(self.parts):,} of "
            f"{self.num_tiles:,} tiles: columns in {len(self.parts)}, {self.num_bands} bands; "
            f"{self.cycles:,} modelled cycles, {self.temporary_bytes:,} bytes for a while)"
        )

    @cached_property
    def band_of_block(self) -> Array:
        """The band of each block of the pattern: int64[blocks]."""
        counts = np.bincount(self.pattern.columns, minlength=self.pattern.block_columns)
        before = np.cumsum(counts) - counts
        bands: Array = (before * self.num_bands // max(1, self.pattern.num_blocks))[
            self.pattern.columns
        ]
        return bands

    @cached_property
    def order(self) -> Array:
        """The blocks in the order in which they are distributed: by band, row and column."""
        order: Array = np.lexsort((self.pattern.columns, self.pattern.rows, self.band_of_block))
        return order

    @cached_property
    def run_of_block(self) -> Array:
        """The run of each block, in the order of `order`: int64[blocks].

        The blocks of a run are on one tile for each part of the columns.
        """
        blocks = self.pattern.num_blocks
        bands = self.band_of_block[self.order]
        counts = np.bincount(bands, minlength=self.num_bands)
        rows_present = np.flatnonzero(counts)
        free = max(0, self.num_tiles // len(self.parts) - len(rows_present))
        runs = np.zeros(self.num_bands, np.int64)
        runs[rows_present] = np.minimum(
            1 + counts[rows_present] * free // max(1, blocks), counts[rows_present]
        )
        place = np.arange(blocks) - (np.cumsum(counts) - counts)[bands]
        run: Array = (np.cumsum(runs) - runs)[bands] + place * runs[bands] // counts[bands]
        return run

    @property
    def num_runs(self) -> int:
        """The number of runs of blocks."""
        return int(self.run_of_block[-1]) + 1 if self.pattern.num_blocks else 0

    def tiles(self, part: int) -> Array:
        """Return the tile of each run for a part of the columns: int64[runs]."""
        number = np.arange(self.num_runs) * len(self.parts) + part
        return number * self.num_tiles // max(1, self.num_runs * len(self.parts))


@library
def plan_sparse_dense(
    csr: CSRMatrix,
    n: int,
    target: Target,
    *,
    dtype: type[DType] = FLOAT,
    partials_type: type[DType] = FLOAT,
    available_memory_proportion: float = MEMORY_PROPORTION,
) -> SparsePlan:
    """Return the plan of csr [m, k] times x [k, n] on `target`, for the pattern of `csr`.

    `dtype` is that of the operands and the result, FLOAT or HALF; `partials_type` is that of the
    sums, FLOAT, or HALF for operands of HALF. Raises `PoplibsError`.
    """
    check_sizes(target, 1, n=n)
    block = square(csr.block)
    check_types(dtype, partials_type)
    share = available_memory_proportion
    if not isinstance(share, (int, float)) or isinstance(share, bool) or not 0 <= share <= 1:
        raise as_given(share, "available_memory_proportion", "give a number from 0 to 1.")
    types = (dtype, partials_type)
    n = int(n)
    if not (csr.num_blocks and n):
        expected_plan = Expected(1, 1, 0, 0)
    else:
        sizes = (*csr.shape, n)
        expected_plan = expected(
            sizes, block, csr.num_blocks, types, target=target, proportion=share
        )
    parts = spread(n, expected_plan.parts, target.get_vector_width(dtype))
    return SparsePlan(
        pattern=csr,
        n=n,
        dtype=dtype,
        partials=partials_type,
        num_tiles=target.num_tiles,
        num_bands=expected_plan.bands,
        cycles=expected_plan.cycles,
        temporary_bytes=expected_plan.temporary_bytes,
        parts=tuple(parts),
    )


def spread(n: int, parts: int, grain: int) -> list[tuple[int, int]]:
    """Return (begin, end) of n columns in parts of equally many complete grains.

    The last part has the remainder.
    """
    columns_per_part = int(ceil_div(ceil_div(n, grain), parts)) * grain
    return [(low, min(n, low + columns_per_part)) for low in range(0, n, columns_per_part)]


def fitting(cycles: Array, temporary: Array, limit: float) -> int:
    """Return the index of the cheapest plan within a limit of bytes.

    If none is within the limit, it is the plan with the fewest bytes.
    """
    fits = temporary <= limit
    return int(np.where(fits, cycles, np.inf).argmin() if fits.any() else temporary.argmin())


def check_types(dtype: type[DType], sums: type[DType]) -> None:
    """Raise `PoplibsError` unless products support operands of `dtype` and sums of `sums`."""
    if dtype is not FLOAT and dtype is not HALF:
        raise as_given(dtype, "dtype", "use FLOAT or HALF.")
    if sums is not FLOAT and (sums is not HALF or dtype is FLOAT):
        allowed = "FLOAT" if dtype is FLOAT else "FLOAT or HALF"
        raise refused(
            f"was given partials_type={getattr(sums, '__name__', sums)} for "
            f"{getattr(dtype, '__name__', dtype)}.",
            next_step=f"use {allowed}.",
        )
