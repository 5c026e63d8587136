"""The plan of a static sparse product: it determines which tile multiplies which blocks.

The columns of the dense operand are divided into *parts*. The inner dimension is divided into
*bands*, which contain about the same number of blocks of the sparse operand. The number of tiles of
a band is proportional to its number of blocks. The blocks of a band are distributed over its tiles
in order of rows. The blocks on one tile are called a *run*. If several tiles have blocks of the
same row, these tiles also add the row's partial sums.

The plan uses the numbers of parts and bands that PopLibs' planner expects to be best for blocks at
uniformly distributed random positions (lib/popsparse/StaticMatMulPartitioner.cpp). There are at
most 32 parts and 128 bands, and at least two tiles for each pair of them. The model computes the
cycles of all such combinations at once.
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
MEMORY_PROPORTION = 0.6  # The default of PopLibs' option availableMemoryProportion.


@dataclass(frozen=True)
class Expected:
    """The best partition of a sparse product with random positions, and its modelled cost.

    `parts` is the number of parts of the dense operand's columns, and `bands` the number of parts
    of the inner dimension. `temporary_bytes` are the bytes of temporary data on the fullest tile.
    The model assumes that the positions of the blocks are distributed at random.
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
    """Return the best partition of [m, k] x [k, n] for `num_blocks` blocks at random positions.

    `sizes` is (m, k, n), `block` is the number of rows of a square block, and `types` is (dtype of
    the operands, dtype of the sums). Temporary data is limited to the fraction `proportion` (0 to
    1) of a tile's memory.
    """
    m, k, n = sizes
    dtype, sums_dtype = types
    num_tiles = target.num_tiles
    block_rows = m // block
    block_columns = k // block
    vector_width = target.get_vector_width(dtype)
    bytes_per_cycle = target.exchange_bytes_per_cycle
    density = num_blocks / (m // block * (k // block))
    parts, bands = _grid(-(-n // vector_width), block_columns, num_tiles)
    columns_per_part = np.minimum(ceil_div(ceil_div(n, vector_width), parts) * vector_width, n)
    tiles_per_band = num_tiles // parts // bands
    blocks_per_band = ceil_div(num_blocks, bands)
    band_depth = ceil_div(block_columns, bands)
    blocks_per_tile = ceil_div(blocks_per_band, tiles_per_band)
    rows_per_tile = ceil_div(block_rows, tiles_per_band)
    full_depth = np.minimum(np.ceil(blocks_per_band / density).astype(np.int64), block_columns)
    tile_depth = np.where(rows_per_tile == 1, full_depth, band_depth)
    row_probability = 1 - (1 - density) ** tile_depth
    likely_rows = _likely_count(row_probability, rows_per_tile).astype(np.int64)
    likely_columns = _likely_count(1 - (1 - density) ** rows_per_tile, tile_depth)
    x_bytes = columns_per_part * likely_columns * block * dtype.size
    left_bytes = blocks_per_tile * block * block * dtype.size
    # Two neighbouring tiles share a bus and need the same rows of x. They therefore receive these
    # rows together, at twice the speed, but both wait for the slower tile.
    cycles = np.ceil(x_bytes / (2 * bytes_per_cycle)) * tile_depth / likely_columns
    cycles = cycles + np.where(parts > 1, np.ceil(left_bytes / bytes_per_cycle), 0)
    cycles = cycles + static_product(
        likely_rows,
        np.maximum(ceil_div(blocks_per_tile, likely_rows), 1) * likely_rows,
        columns_per_part,
        block,
        dtype=dtype,
        target=target,
    )
    num_sums = likely_rows * columns_per_part * block
    if sums_dtype is FLOAT and block > 4:
        cycles = cycles + zeroing(num_sums, sums_dtype, target)
    tiles_per_row = np.ceil(
        (row_probability * bands + _deviation(row_probability, bands)) * band_depth / tile_depth
    )
    tiles_per_row = np.maximum(tiles_per_row, 1).astype(np.int64)
    arriving_bytes, reduction_cycles = _reduction(num_sums, tiles_per_row, types, target)
    cycles = cycles + reduction_cycles + ceil_div(m * n * dtype.size, num_tiles)
    temporary_bytes = np.maximum(x_bytes + left_bytes, arriving_bytes) + num_sums * sums_dtype.size
    best_index = fitting(cycles, temporary_bytes, proportion * target.bytes_per_tile)
    return Expected(
        int(parts[best_index]),
        int(bands[best_index]),
        int(cycles[best_index]),
        int(temporary_bytes[best_index]),
    )


def _grid(max_parts: int, max_bands: int, num_tiles: int) -> tuple[Array, Array]:
    """Return `(parts, bands)`: all pairs of numbers to compare, as two arrays of equal length.

    A pair divides the dense operand's columns into at most `max_parts` parts, and the inner
    dimension into at most `max_bands` bands. The product of the two numbers is at most half of
    `num_tiles`.
    """
    parts = np.arange(1, min(MOST_PARTS, max_parts) + 1)
    bands = np.arange(1, min(MOST_BANDS, max_bands) + 1)
    parts, bands = (grid.ravel() for grid in np.meshgrid(parts, bands, indexing="ij"))
    is_sensible = parts * bands <= max(1, num_tiles // 2)
    return parts[is_sensible], bands[is_sensible]


def _reduction(
    num_sums: Array, tiles_per_row: Array, types: tuple[type[DType], type[DType]], target: Target
) -> tuple[Array | int, Array]:
    """Return `(bytes, cycles)` of adding the partial sums of all rows on a tile.

    `bytes` is the number of bytes that the tile receives, and `cycles` includes the exchange of
    these bytes. `num_sums` is the number of sums on a tile, and `tiles_per_row` the number of tiles
    whose sums are added. `types` is (dtype of the operands, dtype of the sums).
    """
    dtype, sums_dtype = types
    arriving_bytes = ceil_div(num_sums * sums_dtype.size * (tiles_per_row - 1), tiles_per_row)
    add_cycles = static_reduction(
        ceil_div(num_sums, tiles_per_row), tiles_per_row, sums_dtype, dtype, target=target
    )
    exchange_cycles = np.ceil(arriving_bytes / target.exchange_bytes_per_cycle)
    return arriving_bytes, exchange_cycles + np.where(tiles_per_row > 1, add_cycles, 0)


def _likely_count(probability: Array | float, count: Array | int) -> Array:
    """Return a likely number of successes, from 1 to `count`, in `count` trials.

    The result is the expected number plus one standard deviation, each rounded up.
    """
    expected_count = np.ceil(probability * count) + _deviation(probability, count)
    likely: Array = np.clip(expected_count, 1, count)
    return likely


def _deviation(probability: Array | float, count: Array | int) -> Array:
    """Return the standard deviation of the number of successes in `count` trials, rounded up."""
    deviation: Array = np.ceil(np.sqrt(probability * (1 - probability) * count))
    return deviation


@advised("give what static.plan_sparse_dense returns.")
@dataclass(frozen=True, eq=False, repr=False)
class SparsePlan:
    """The distribution of a static product, csr [m, k] times x [k, n], over the tiles.

    `pattern` is the matrix csr. `parts` contains the intervals (begin, end) into which the columns
    of x are divided. The inner dimension is divided into `num_bands` bands with about the same
    number of blocks. `cycles` and `temporary_bytes` do not depend on the positions in `pattern`:
    the model assumes that the blocks are distributed at random.
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
        sums_note = "" if self.partials is self.dtype else f", sums of {self.partials.__name__}"
        return (
            f"SparsePlan([{m}, {k}] x [{k}, {self.n}], {self.dtype.__name__}{sums_note}, "
            f"{self.pattern.num_blocks:,} blocks on {self.num_runs * len(self.parts):,} of "
            f"{self.num_tiles:,} tiles: columns in {len(self.parts)}, {self.num_bands} bands; "
            f"{self.cycles:,} modelled cycles, {self.temporary_bytes:,} bytes for a while)"
        )

    @cached_property
    def band_of_block(self) -> Array:
        """int64[blocks]: the index of each block's band (an interval of the inner dimension)."""
        blocks_of_column = np.bincount(self.pattern.columns, minlength=self.pattern.block_columns)
        blocks_before = np.cumsum(blocks_of_column) - blocks_of_column
        bands: Array = (blocks_before * self.num_bands // max(1, self.pattern.num_blocks))[
            self.pattern.columns
        ]
        return bands

    @cached_property
    def order(self) -> Array:
        """int64[blocks]: the indices of the blocks, sorted by band, row and column.

        The blocks are distributed over the tiles in this order. A band is an interval of the inner
        dimension.
        """
        order: Array = np.lexsort((self.pattern.columns, self.pattern.rows, self.band_of_block))
        return order

    @cached_property
    def run_of_block(self) -> Array:
        """int64[blocks]: the index of each block's run; the blocks are in the order of `order`.

        A run is a group of blocks that are multiplied on the same tile. If x is divided into parts,
        there is one tile for each pair of a run and a part.
        """
        num_blocks = self.pattern.num_blocks
        band_of_ordered = self.band_of_block[self.order]
        blocks_of_band = np.bincount(band_of_ordered, minlength=self.num_bands)
        nonempty_bands = np.flatnonzero(blocks_of_band)
        num_free_tiles = max(0, self.num_tiles // len(self.parts) - len(nonempty_bands))
        runs_of_band = np.zeros(self.num_bands, np.int64)
        runs_of_band[nonempty_bands] = np.minimum(
            1 + blocks_of_band[nonempty_bands] * num_free_tiles // max(1, num_blocks),
            blocks_of_band[nonempty_bands],
        )
        index_in_band = (
            np.arange(num_blocks) - (np.cumsum(blocks_of_band) - blocks_of_band)[band_of_ordered]
        )
        run_numbers: Array = (np.cumsum(runs_of_band) - runs_of_band)[
            band_of_ordered
        ] + index_in_band * runs_of_band[band_of_ordered] // blocks_of_band[band_of_ordered]
        return run_numbers

    @property
    def num_runs(self) -> int:
        """The number of runs, which are groups of blocks that one tile multiplies."""
        return int(self.run_of_block[-1]) + 1 if self.pattern.num_blocks else 0

    def tiles(self, part: int) -> Array:
        """Return int64[runs]: the tile that multiplies each run by part `part` of the columns of x.

        A run is a group of blocks that one tile multiplies.
        """
        run_and_part = np.arange(self.num_runs) * len(self.parts) + part
        return run_and_part * self.num_tiles // max(1, self.num_runs * len(self.parts))


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

    `dtype`, FLOAT or HALF, is the dtype of the operands and the result. `partials_type` is the
    dtype of the sums: FLOAT, or HALF if the operands are HALF. Temporary data is limited to the
    fraction `available_memory_proportion` (0 to 1) of a tile's memory.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    check_sizes(target, 1, n=n)
    block = square(csr.block)
    check_types(dtype, partials_type)
    memory_proportion = available_memory_proportion
    if (
        not isinstance(memory_proportion, (int, float))
        or isinstance(memory_proportion, bool)
        or not 0 <= memory_proportion <= 1
    ):
        raise as_given(
            memory_proportion, "available_memory_proportion", "give a number from 0 to 1."
        )
    dtypes = (dtype, partials_type)
    n = int(n)
    if not (csr.num_blocks and n):
        expected_plan = Expected(1, 1, 0, 0)
    else:
        product_sizes = (*csr.shape, n)
        expected_plan = expected(
            product_sizes,
            block,
            csr.num_blocks,
            dtypes,
            target=target,
            proportion=memory_proportion,
        )
    column_parts = spread(n, expected_plan.parts, target.get_vector_width(dtype))
    return SparsePlan(
        pattern=csr,
        n=n,
        dtype=dtype,
        partials=partials_type,
        num_tiles=target.num_tiles,
        num_bands=expected_plan.bands,
        cycles=expected_plan.cycles,
        temporary_bytes=expected_plan.temporary_bytes,
        parts=tuple(column_parts),
    )


def spread(n: int, parts: int, grain: int) -> list[tuple[int, int]]:
    """Divide n columns into at most `parts` intervals (begin, end) of equal length.

    The length is a multiple of `grain`; only the last interval may be shorter.
    """
    columns_per_part = int(ceil_div(ceil_div(n, grain), parts)) * grain
    return [(begin, min(n, begin + columns_per_part)) for begin in range(0, n, columns_per_part)]


def fitting(cycles: Array, temporary: Array, limit: float) -> int:
    """Return the index of the plan with the fewest cycles whose temporary bytes are within `limit`.

    If no plan is within the limit, return the index of the plan with the fewest temporary bytes.
    """
    is_within_limit = temporary <= limit
    return int(
        np.where(is_within_limit, cycles, np.inf).argmin()
        if is_within_limit.any()
        else temporary.argmin()
    )


def check_types(dtype: type[DType], sums: type[DType]) -> None:
    """Raise `PoplibsError` unless `dtype` operands and sums of the dtype `sums` are supported."""
    if dtype is not FLOAT and dtype is not HALF:
        raise as_given(dtype, "dtype", "use FLOAT or HALF.")
    if sums is not FLOAT and (sums is not HALF or dtype is FLOAT):
        allowed = "FLOAT" if dtype is FLOAT else "FLOAT or HALF"
        raise refused(
            f"was given partials_type={getattr(sums, '__name__', sums)} for "
            f"{getattr(dtype, '__name__', dtype)}.",
            next_step=f"use {allowed}.",
        )
