"""Tile cycles of vertices for sparse products, as PopLibs estimates them.

Source: graphcore/poplibs, lib/popsparse: StaticMatMulPartitioner.cpp for the static product, and
PerformanceEstimation.hpp for the dynamic product.

The sparse matrix consists of rows of blocks. `blocks` is the number of non-zero blocks on a tile,
and `rows` is the number of block rows that contain these blocks. `n` is the number of columns of
the dense operand. Sizes are ints or int64 arrays. Blocks are squares of 1, 4, 8 or 16 elements a
side.
"""

from __future__ import annotations

from ipu_teach.cost.vertices.parts import Size, ceil_div, either, larger
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

BLOCKS = (1, 4, 8, 16)
# Maps (b, dtype), for blocks of b x b elements, to a worker's cycles: at the start, for each row of
# blocks, for the first column of the dense operand, and for each further column.
_STATIC = {
    (4, HALF): (17, 1, 14, 1),
    (4, FLOAT): (13, 1, 12, 4),
    (8, HALF): (13, 1, 14, 2),
    (8, FLOAT): (13, 4, 19, 8),
    (16, HALF): (13, 1, 19, 4),
    (16, FLOAT): (16, 4, 74, 16),
}


def static_product(
    rows: Size, blocks: Size, n: Size, block: int, dtype: type[DType], target: Target
) -> Size:
    """Return the tile cycles of a tile's work in a static sparse product (matmulComputeCycles).

    The tile has `blocks` blocks in `rows` rows, and the dense operand has `n` columns. A block has
    `block` x `block` elements. The estimate assumes that each row has the mean number of blocks.
    """
    workers = target.num_worker_contexts
    if block == 1:
        return workers * _static_elements(ceil_div(rows, workers), ceil_div(blocks, rows), n, dtype)
    start_cycles, row_cycles, first_column, further_column = _STATIC[block, dtype]
    columns_of_worker = ceil_div(n, workers)
    column_cycles = first_column + further_column * (columns_of_worker - 1)
    if (block, dtype) == (16, FLOAT):
        column_cycles = either(columns_of_worker == 1, 58, column_cycles)
    if (block, dtype) == (4, HALF):
        column_cycles = either(columns_of_worker <= 2, 7 + columns_of_worker, column_cycles)
    load_cycles = 16 + block * block * dtype.size // 8
    return (
        30
        + start_cycles * workers
        + rows * (row_cycles * workers + 17)
        + blocks * (load_cycles + column_cycles * workers)
    )


def _static_elements(rows: Size, per_row: Size, n: Size, dtype: type[DType]) -> Size:
    """Return the cycles of the busiest worker for blocks of a single element.

    The worker processes `rows` rows with `per_row` blocks each. The dense operand has `n` columns.
    """
    further = per_row - 1
    if dtype is HALF:
        cycles = 11 + n // 8 * (14 + 3 * further) + either(n % 8 != 0, 9 + 2 * further, 0)
        cycles = either(n == 4, 7 + 2 * further, either(n == 8, 8 + 3 * further, cycles))
        return either((n == 4) | (n == 8), 31, 33) + rows * cycles
    cycles = 12 + n // 4 * (10 + 3 * further) + either(n % 4 != 0, 10 + 2 * further, 0)
    cycles = either(n == 2, 5 + 2 * further, either(n == 4, 6 + 3 * further, cycles))
    return either(n == 2, 29, either(n == 4, 30, 31)) + rows * cycles


def zeroing(count: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles to set `count` partial sums to 0 (zeroingCycles)."""
    workers = target.num_worker_contexts
    return workers * (12 + ceil_div(count * dtype.size // 8, workers))


def static_reduction(
    outputs: Size, parts: Size, sums: type[DType], out: type[DType], target: Target
) -> Size:
    """Return the tile cycles to add up `parts` partial sums for each of `outputs` outputs.

    `sums` is the dtype of the partial sums, and `out` that of the outputs. The formula is
    reductionCycleEstimate.
    """
    wide, turn = (8, 8 if out is HALF else 7) if sums is HALF else (4, 5)
    loops = ceil_div(ceil_div(outputs, target.num_worker_contexts), wide)
    return target.num_worker_contexts * (16 + loops * (turn + 6 + parts - 1))


def dynamic_product(
    rows: Size, blocks: Size, n: Size, block: int, types: tuple[type[DType], ...], target: Target
) -> Size:
    """Return the tile cycles of a tile's work in a dynamic sparse product, for one bucket.

    A bucket stores the blocks of one part of the sparse operand. The tile has `blocks` blocks of
    the bucket in `rows` rows, and the dense operand has `n` columns. A block has `block` x `block`
    elements. `types` are the types of the operands and of the sums. The formulas are
    sparseDenseBlockMultiply and sparseDenseElementwiseMultiply.

    There is one difference from PopLibs. For blocks of 16 x 16 FLOAT, PopLibs estimates 4 cycles
    for each column and load, but the matrix-multiply units (AMP) are slower than that. So this
    function uses 8 cycles, as in PopLibs' estimate of the static product.
    """
    dtype, sums_dtype = types
    workers = target.num_worker_contexts
    if block == 1:
        return 30 + 44 + 46 + workers * _dynamic_elements(rows, blocks, n, dtype)
    columns_of_worker = ceil_div(n, workers)
    loads_per_block = 2 if block == 16 and (dtype is FLOAT or sums_dtype is FLOAT) else 1
    start_of_load = {4: 14 if dtype is FLOAT else 19, 8: 23, 16: 24}[block]
    if sums_dtype is HALF:
        start_of_load = {4: 17, 8: 20, 16: 22}[block]
    cycles_per_column = {4: 2, 8: 4, 16: 4}[block] * (2 if dtype is FLOAT else 1)
    load_cycles = block * block // (2 if dtype is FLOAT else 4) + 3 + 12 * loads_per_block
    worker_cycles = 26 + blocks * loads_per_block * (
        start_of_load + cycles_per_column * columns_of_worker - 3
    )
    return 40 + 46 + 56 + rows + 2 + blocks * load_cycles + workers * worker_cycles


def _dynamic_elements(rows: Size, blocks: Size, n: Size, dtype: type[DType]) -> Size:
    rows_of_worker = ceil_div(rows, 6)
    blocks_per_row = ceil_div(blocks, larger(rows, 1))
    if dtype is FLOAT:
        cycles = either(n // 4 > 0, 12 + n // 4 * 3 * blocks_per_row, 0)
        cycles = cycles + either(n // 2 % 2 > 0, 8 + n // 2 * 2 * blocks_per_row, 0)
        cycles = cycles + either(n % 2 > 0, 8 + 2 * blocks_per_row, 0) + either(n % 4 > 0, 3, 1)
        cycles = either(
            n == 4, 3 * blocks_per_row + 1, either(n == 2, 2 * blocks_per_row - 1, cycles)
        )
        return either(n == 4, 22, either(n == 2, 24, 27)) + rows_of_worker * (12 + cycles)
    cycles = either(n // 8 > 0, 16 + n // 8 * 3 * blocks_per_row, 0)
    cycles = cycles + either(n // 4 % 2 > 0, 13 + 2 * blocks_per_row, 0)
    cycles = cycles + either(n % 4 > 0, 11 + 2 * blocks_per_row * (n % 4), 0)
    cycles = either(n == 8, 3 * blocks_per_row + 4, either(n == 4, 2 * blocks_per_row, cycles))
    return either(n == 8, 25, either(n == 4, 27, 30)) + rows_of_worker * (11 + cycles)


def dynamic_gradient(
    rows: Size, blocks: Size, n: Size, block: int, types: tuple[type[DType], ...], target: Target
) -> Size:
    """Return the tile cycles of the gradients of a bucket's blocks, if all of them are on one tile.

    A bucket stores the blocks of one part of the sparse operand. The tile has `blocks` blocks in
    `rows` rows, and the dense operand has `n` columns. A block has `block` x `block` elements.
    `types` are the types of the operands and of the sums. The formulas are
    sparseDenseBlockMultiplyGradW and sparseDenseGradWElementwiseMultiply, without the
    matrix-multiply units (AMP), as for FLOAT.
    """
    dtype, sums_dtype = types
    start_cycles = 37 + 38 + 26
    workers = target.num_worker_contexts
    if block == 1:
        elements_per_load = 2 if dtype is FLOAT else 4
        cycles_per_block = (9 if dtype is FLOAT else 11) + n // elements_per_load
        cycles_per_block = cycles_per_block + either(
            n % elements_per_load > 0, 1 if dtype is FLOAT else 4, 0
        )
        return start_cycles + workers * (
            33 + ceil_div(7 * rows + cycles_per_block * blocks, workers)
        )
    if block == 8:
        block_cycles, cycles_per_column = (
            (8 + 8 * (5 + 2 * 10), 48) if dtype is FLOAT else (9 + 8 * 13, 24)
        )
    elif block == 4:
        block_cycles, cycles_per_column = (
            (45, 12) if dtype is FLOAT else (33 if sums_dtype is FLOAT else 29, 6)
        )
    else:
        block_cycles = 505 if sums_dtype is FLOAT else 441
        cycles_per_column = 96
    return start_cycles + workers * (
        27 + ceil_div(9 * rows + (block_cycles + cycles_per_column * n) * blocks, workers)
    )
