"""Cycles of vertices that slice tensors, count upwards, clamp values or test for NaN.

Sources: graphcore/poplibs, lib/popops/PerformanceEstimation.cpp and popopsCycleEstimators.cpp.
`columns` is the number of elements of one row on the tile, and `lookups` is the number of requested
rows.
"""

from __future__ import annotations

from ipu_teach.cost.vertices.parts import (
    SUPERVISOR_OVERHEAD,
    Size,
    bit,
    ceil_div,
    either,
    loop,
    share,
)
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

# The bytes that a store can write without first reading their old values
# (Target::getAtomicStoreGranularity).
_STORE_BYTES = 4


def dynamic_slice_1d(columns: Size, rows: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of DynamicSlice1D or DynamicUpdateSlice1D.

    These vertices move `rows` rows of `columns` elements one after another, and the workers divide
    the columns. As in PopLibs, a remainder that does not fill a data path is not counted.
    """
    words_of_worker = share(columns * (2 if dtype.size == 8 else 1), target)
    start_cycles, cycles_per_row, words_per_step = {1: (72, 70, 4), 2: (35, 24, 4)}.get(
        dtype.size, (35, 24, 2)
    )
    return (
        SUPERVISOR_OVERHEAD
        + 14
        + target.num_worker_contexts
        * (start_cycles + (cycles_per_row + 2 * (words_of_worker // words_per_step)) * rows)
    )


def multi_slice(
    columns: Size, lookups: Size, dtype: type[DType], target: Target, *, update: bool = False
) -> Size:
    """Return the tile cycles of MultiSlice, or of MultiUpdate if `update` is True.

    The cycles are PopLibs' worst case, in which one worker moves all `lookups` rows. If there is
    only one row, the workers divide it. A row of 64-bit elements counts as twice as many elements
    of 32 bits.
    """
    words = columns * (2 if dtype.size == 8 else 1)
    words_per_vector, cycles_per_vector = {1: (4, 3), 2: (2, 2)}.get(dtype.size, (2, 2))
    vectors = ceil_div(words, words_per_vector)
    vectors = either(lookups == 1, share(vectors, target), vectors)
    return target.num_worker_contexts * (
        (29 if update else 30) + lookups * (19 + cycles_per_vector * vectors)
    )


def multi_update_op(
    columns: Size,
    lookups: Size,
    dtype: type[DType],
    target: Target,
    *,
    scaled: bool = False,
    wide_scale: bool = False,
) -> Size:
    """Return the tile cycles of MultiUpdateOp, or of ScaledMultiUpdateOp if `scaled` is True.

    The cycles are PopLibs' worst case, in which one worker updates all `lookups` rows. With
    `wide_scale`, the factor is FLOAT, whereas the rows are HALF. If the bytes of a row are not a
    multiple of 4, its elements are stored one by one.
    """
    is_32_bit = dtype.size >= 4
    elements = columns * (2 if dtype.size == 8 else 1)
    elements_per_store = max(_STORE_BYTES // dtype.size, 1)
    has_short_rows = scaled & (
        ((elements == 2) | (elements == 4)) if is_32_bit else (columns == 4) & (dtype.size == 2)
    )
    start_cycles = (
        3
        + (29 if is_32_bit else 30)
        + ((6 if is_32_bit else 4) if scaled else 0)
        - either(has_short_rows, 1, 0)
    )
    row_cycles = (11 if is_32_bit else 12 + scaled) + (elements // elements_per_store - 1) * (
        3 + wide_scale
    )
    row_cycles = either(
        has_short_rows,
        either(elements == 2, 8, 16) if is_32_bit else 12 if wide_scale else 9,
        row_cycles,
    )
    row_cycles = either(
        elements % elements_per_store == 0,
        row_cycles,
        (11 if is_32_bit else 12 + scaled) + 20 * elements,
    )
    return target.num_worker_contexts * (start_cycles + row_cycles * lookups)


def sequence_slice(
    columns: Size, rows: Size, pieces: int, dtype: type[DType], target: Target
) -> Size:
    """Return the tile cycles of SequenceSlice, which copies `pieces` groups of consecutive rows.

    `rows` is the number of rows of the smaller tensor. The estimate assumes that this is also the
    total number of rows in all groups.
    """
    if not pieces:
        return 40
    total_words = rows * columns * dtype.size // 4
    words_per_piece = ceil_div(2 * total_words, pieces)
    rounds = ceil_div(pieces, target.num_worker_contexts)
    return 60 + words_per_piece * target.num_worker_contexts * rounds + 60 * pieces


def circ_buf_incr_index() -> int:
    """Return the worker cycles of CircBufIncrIndex for a circular buffer.

    This vertex advances the index of the newest entry.
    """
    return 8


def circ_offset() -> int:
    """Return the worker cycles of CircOffset for a circular buffer.

    This vertex computes the index of an older entry.
    """
    return 10


def iota(regions: list[Size], dtype: type[DType], target: Target) -> Size:
    """Return the worker cycles of Iota on regions of the sizes `regions`."""
    return 10 + sum(4 + 3 * ceil_div(n, target.get_vector_width(dtype)) for n in regions)


def clamp(regions: list[Size], dtype: type[DType], target: Target) -> Size:
    """Return the worker cycles of Clamp or BroadcastClamp, in place or not.

    `regions` are the sizes of the regions.
    """
    return 5 + sum(6 + clamp_loop(n, dtype, target) for n in regions)


def clamp_loop(n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the worker cycles of the loop of Clamp on `n` elements.

    PopLibs counts 7 cycles for an INT. It counts only 1 cycle for other integers, but here they
    cost as much as INT.
    """
    return loop(n, target.get_vector_width(dtype), 2) if dtype in (FLOAT, HALF) else loop(n, 1, 7)


def has_nan(n: Size, dtype: type[DType], target: Target, *, or_inf: bool = False) -> Size:
    """Return the tile cycles of HasNaNOrInf1D, which tests `n` elements (FLOAT or HALF) for NaN.

    With `or_inf`, it tests for infinite elements too.
    """
    elements_of_worker = share(n, target)
    remainder_cycles = 2 * bit(elements_of_worker, 2) + bit(elements_of_worker, 1)
    if dtype is FLOAT or not or_inf:
        loop_cycles = (3 if (dtype is FLOAT) == or_inf else 2) * (
            elements_of_worker // 4
        ) + remainder_cycles
    else:
        loop_cycles = 2 * (
            elements_of_worker // 8
            + bit(elements_of_worker, 4)
            + bit(elements_of_worker, 2)
            + bit(elements_of_worker, 1)
        )
    start_cycles = 10 if dtype is FLOAT else 12
    return (
        target.num_worker_contexts
        * (15 + start_cycles + loop_cycles + or_inf + (7 if dtype is FLOAT else 11))
        + 24
    )
