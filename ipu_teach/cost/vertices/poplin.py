"""Tile cycles of vertices for matrix products, which also compute convolutions.

Source: graphcore/poplibs, lib/poplin/PerformanceEstimation.hpp.

The matrix-multiply units (AMP) hold a panel of weights. The panel has as many columns as there are
units, and its depth is 4 loads (16 HALF, 8 FLOAT). First the weights of a panel are loaded. Then
the rows of the other operand stream past the panel, one row every 4 cycles (FLOAT: 8 cycles). The
workers divide these rows.

In PopLibs' newer vertex for HALF, a worker takes longer for two rows than for three, as PopLibs has
measured.
"""

from __future__ import annotations

from math import prod

from ipu_teach.cost.vertices.parts import Size, ceil_div, either, larger
from ipu_teach.errors import MissingPerfEstimateError
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

# --- with the matrix-multiply units (AMP) ---------------------------------------------------------


def panel_depth(dtype: type[DType], target: Target) -> int:
    """Return the depth of a panel of weights: the elements of a 64-bit load, times four loads."""
    return target.conv_unit_pipeline_depth * target.get_vector_width(dtype)


def conv_units(dtype: type[DType], partials: type[DType] | None, target: Target) -> int:
    """Return the number of columns of a panel, one for each matrix-multiply unit (AMP) of a tile.

    `dtype` is the type of the operands. `partials` is the type of the sums, or None if it is the
    same.
    """
    if dtype is FLOAT:
        return target.conv_units_fp32
    return target.conv_units_fp16_sums_fp32 if partials is FLOAT else target.conv_units_fp16


def _weight_load(units: int, bytes_per_unit: int, target: Target, interleaved: bool) -> int:
    """Return the cycles to load a panel of weights.

    A load moves 64 bits a cycle, or 128 from interleaved memory.
    """
    rate = target.conv_unit_coeff_load_bytes_per_cycle * (2 if interleaved else 1)
    return units * bytes_per_unit // rate


def _slowest(rows: Size, target: Target, worker: dict[int, int], further: int, idle: int) -> Size:
    """Return the tile cycles in which all workers together process `rows` rows.

    `worker[n]` is the number of cycles of a worker with n rows, for n from 0 to 3, and `further`
    the number for each further row. Some workers have one row more than the others. As in PopLibs,
    the result is the larger of two numbers: the cycles of the slower kind of workers, and the
    cycles of the faster kind plus `idle`.
    """
    workers = target.num_worker_contexts

    def cycles(n: Size) -> Size:
        few = either(n == 0, worker[0], either(n == 1, worker[1], worker[2]))
        return either(n < 3, few, worker[3] + further * (n - 3))

    busy = workers * cycles(ceil_div(rows, workers))
    less = workers * cycles(rows // workers)
    return larger(larger(busy, less), -larger(-busy, -less) + idle)


def conv_partial_1x1(
    rows: Size,
    depth: Size,
    columns: Size,
    dtype: type[DType],
    target: Target,
    *,
    partials: type[DType] | None = None,
    groups: Size = 1,
    interleaved: bool = False,
) -> Size:
    """Return the tile cycles of ConvPartial1x1: `groups` products [rows, depth] x [depth, columns].

    `partials` is the type of the sums, by default that of the operands. With `interleaved`, the
    weights are in memory that is read 128 bits at a time.
    """
    units = conv_units(dtype, partials, target)
    depth_per_panel = panel_depth(dtype, target)
    depth_panels = ceil_div(depth, depth_per_panel)
    column_panels = ceil_div(columns, units)
    load_cycles = _weight_load(units, depth_per_panel * dtype.size, target, interleaved)
    # PopLibs has two vertices for this. The newer one is used if the operands or the sums are
    # FLOAT, or if there are 16 units. For HALF operands, it keeps its state between calls. The
    # older one is slower.
    newer = partials is FLOAT or dtype is FLOAT or units == 16
    weights_kept = 7 if dtype is HALF and newer else 0
    add_cycles = _rows(rows, dtype, target, units, newer, weights_kept, False)
    write_cycles = _rows(rows, dtype, target, units, newer, weights_kept, True)
    later_panels = (depth_panels - 1) * (
        (15 if newer else 16) + column_panels * (19 + 6 + load_cycles + add_cycles)
    )
    first_panel = 11 + column_panels * ((18 if newer else 19) + 7 + load_cycles + write_cycles)
    retained = target.num_worker_contexts * (
        weights_kept + (3 if weights_kept else 0) * (depth_panels * groups - 1)
    )
    return 50 + retained + groups * ((13 if newer else 12) + later_panels + first_panel)


def _rows(
    rows: Size,
    dtype: type[DType],
    target: Target,
    units: int,
    newer: bool,
    weights_kept: int,
    overwrite: bool,
) -> Size:
    """Return the tile cycles in which all rows stream past one panel of weights.

    `units` is the number of matrix-multiply units (AMP). `newer` selects the newer of PopLibs' two
    vertices, which saves `weights_kept` cycles because it keeps its state between calls.
    `overwrite` is True for the first panel, whose results are not added to earlier sums.
    """
    if dtype is HALF and newer:
        cycles_by_remainder = {
            remainder: cycles - overwrite - weights_kept
            for remainder, cycles in {0: 22, 1: 33, 2: 42, 3: 38}.items()
        }
        return _slowest(rows, target, cycles_by_remainder, 4, 14)
    per_row, write_cycles = (8, 8 if units == 16 else 4) if dtype is FLOAT else (4, 2)
    cycles_by_remainder = (
        {0: 24, 1: 47, 2: 46, 3: 46} if dtype is FLOAT else {0: 24, 1: 39, 2: 40, 3: 41}
    )
    if overwrite:
        cycles_by_remainder = {
            remainder: cycles + ((2 + write_cycles * remainder) if remainder else 0)
            for remainder, cycles in cycles_by_remainder.items()
        }
    return _slowest(
        rows, target, cycles_by_remainder, per_row + (write_cycles if overwrite else 0), 14
    )


def conv_partial_1x1_quarter(
    rows: Size,
    depth: Size,
    columns: Size,
    target: Target,
    *,
    groups: Size = 1,
    interleaved: bool = False,
) -> Size:
    """Return the tile cycles of ConvPartial1x1 for 8-bit operands, on the IPU21 of the C600 card.

    The vertex computes `groups` products [rows, depth] x [depth, columns]. This chip has 16
    matrix-multiply units (AMP), so the vertex loads the weights in panels of 16 columns and a depth
    of 32. With `interleaved`, the weights are in memory that is read 128 bits at a time.
    """
    workers = target.num_worker_contexts
    units = 16
    depth_per_panel = 32
    depth_panels = ceil_div(depth, depth_per_panel)
    column_panels = ceil_div(columns, units)
    load_cycles = _weight_load(units, depth_per_panel, target, interleaved)
    cycles_by_remainder = {0: 21, 1: 35, 2: 40, 3: 44}
    zeroing_cycles = {n: cycles - (5 if n else 0) for n, cycles in cycles_by_remainder.items()}
    first_panel = _slowest(rows, target, zeroing_cycles, 4, 14)
    add_cycles = _slowest(rows, target, cycles_by_remainder, 4, 14)
    column_cycles = (
        6 * workers
        + 10
        + 20 * workers
        + 11
        + load_cycles
        + first_panel
        + (depth_panels - 1) * (17 * workers + 6 + load_cycles + add_cycles)
    )
    return 46 + groups * (2 * workers + 9 + column_panels * column_cycles)


# --- without the matrix-multiply units (AMP) ------------------------------------------------------


def _dot_product(channels: Size, dtype: type[DType], partials: type[DType], target: Target) -> Size:
    """Return the worker cycles of one dot product with the horizontal MAC.

    Each step multiplies and adds several channels at once: a full vector or half a vector, if this
    number divides the total number of channels. Otherwise, it processes a single channel.
    """
    width = target.get_vector_width(dtype)
    two_outputs = dtype is HALF and partials is HALF
    outputs = 2 if two_outputs else 1
    cycles: Size = outputs + 2 * channels  # By default, the channels are processed one by one.
    if width > 2:
        cycles = either(
            channels % (width // 2) == 0, outputs + 2 * (channels // (width // 2)), cycles
        )
    return (
        3 * outputs + two_outputs + 3 + 1 + either(channels % width == 0, channels // width, cycles)
    )


def conv_partial_horizontal_mac(
    rows: Size,
    depth: Size,
    columns: Size,
    dtype: type[DType],
    target: Target,
    *,
    partials: type[DType] | None = None,
    kernel: int = 1,
    in_groups: int = 1,
    out_groups: int = 1,
    groups: int = 1,
) -> Size:
    """Return the tile cycles of ConvPartialHorizontalMac.

    For each of `rows` positions, it computes `columns` dot products over `depth` channels. `kernel`
    is the number of elements of the kernel. `in_groups` and `out_groups` are the numbers of groups
    of input and output channels, and `groups` is the number of convolutions.
    """
    workers = target.num_worker_contexts
    sums_dtype = partials or dtype
    # HALF sums are computed for two output channels at a time.
    outputs = columns if sums_dtype is FLOAT else columns // 2
    rows_of_worker = ceil_div(rows, workers)
    place_cycles = 7 + outputs * _dot_product(depth, dtype, sums_dtype, target)
    worker_cycles = (
        kernel * (16 + either(rows_of_worker == 0, 7, 19 + rows_of_worker * place_cycles)) + 16
    )
    overhead = (58 if dtype is FLOAT else 65) - (10 if kernel == 1 else 0)
    retained = workers * (9 if sums_dtype is FLOAT else 10)
    return (
        overhead
        + retained
        + groups * (23 + in_groups * (15 + out_groups * (10 + workers * worker_cycles)))
    )


# --- transposes: popsparse/PerformanceEstimation.hpp ----------------------------------------------


def transpose_grain(dtype: type[DType]) -> int:
    """Return the side of the square blocks that a transpose moves, in elements.

    The elements have 2 or 4 bytes.
    """
    return 4 if dtype.size == 2 else 2


def transpose(matrices: Size, shape: tuple[int, int], dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of transposing `matrices` matrices of shape `shape`.

    The vertex moves grains (square blocks) of 4 x 4 elements of 2 bytes, or 2 x 2 of 4 bytes.

    :raises MissingPerfEstimateError: if the shape does not consist of whole grains. PopLibs
        transposes such matrices with another vertex.
    """
    grain = transpose_grain(dtype)
    if dtype.size not in (2, 4) or any(n % grain for n in shape) or not prod(shape):
        raise MissingPerfEstimateError(f"""PopLibs has no estimate of transposing {shape[0]} x
            {shape[1]} elements of {dtype.size} bytes.
            where: Transpose
            next:  use multiples of 4 x 4 elements of 2 bytes, or of 2 x 2 elements of 4 bytes.""")
    rows = shape[0] // grain
    columns = shape[1] // grain
    cycles_per_grain = 4 if grain == 4 else 3
    matrices_of_worker = ceil_div(matrices, target.num_worker_contexts)
    if rows == columns == 1:
        worker_cycles = either(
            matrices_of_worker == 1, 29, 37 + (matrices_of_worker - 2) * cycles_per_grain
        )
    elif columns == 1:
        worker_cycles = 27 + matrices_of_worker * (35 + cycles_per_grain * (rows - 2))
    else:
        worker_cycles = 29 + matrices_of_worker * (
            18 + rows * (12 + cycles_per_grain * (columns - 2))
        )
    return 7 + target.num_worker_contexts * worker_cycles


def split_transpose(shape: tuple[int, int], dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of transposing one matrix of shape `shape` on all workers.

    SplitTranspose1D distributes the rows of grains (square blocks) among the workers first, then
    the columns (popops/RearrangeInternal.cpp). The work of a worker costs as much as `transpose`
    for one matrix. A partial grain counts as a complete grain.
    """
    grain = transpose_grain(dtype)
    workers = target.num_worker_contexts
    rows, columns = (-(-n // grain) for n in shape)
    workers_per_row = max(1, workers // max(rows, 1))
    share_shape = -(-rows // workers) * grain, -(-columns // workers_per_row) * grain
    return transpose(1, share_shape, dtype, target)
