"""Cycles of vertices that reduce rows of partial results to one row.

Source: graphcore/poplibs, lib/popops/reduction/CycleEstimationFunctions.cpp. The functions return
worker cycles, except `conv_reduce`, which runs on all workers of a tile. The arithmetic unit has
accumulators of 128 bits in total, and a load reads 64 bits. In the code, `width` or `accumulators`
is the number of elements that fit in the accumulators, and `loaded` the number of elements in a
load.
"""

from __future__ import annotations

from math import gcd

from ipu_teach.cost.vertices.parts import Size, bit, ceil_div, known_row, share
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

# Maps each operation of the general vertex to (whether PopLibs has written it in C++, whether it
# uses the accumulators).
_REGION_OPS = {
    **dict.fromkeys(("LOG_ADD", "LOGICAL_AND", "LOGICAL_OR"), (True, False)),
    **dict.fromkeys(("ADD", "SQUARE_ADD"), (False, True)),
    **dict.fromkeys(("MAX", "MIN", "MUL"), (False, False)),
}
# The cycles of LOG_ADD for a data path: a maximum, a minimum, an exponential and a logarithm.
_LOG_ADD_CYCLES = {FLOAT: 23, HALF: 13}


def accumulator_width(dtype: type[DType]) -> int:
    """Return how many elements the accumulators add at a time: 4 FLOAT, 8 HALF or one integer."""
    return {FLOAT: 4, HALF: 8}.get(dtype, 1)


def _loaded(dtype: type[DType], target: Target) -> int:
    return min(accumulator_width(dtype), target.get_vector_width(dtype))


def reduce_to_scalar(parts: Size, dtype: type[DType], out: type[DType], target: Target) -> Size:
    """Return the worker cycles of Reduce of one region of `parts` elements to one element."""
    width = accumulator_width(dtype)
    loaded = _loaded(dtype, target)
    loads = width // loaded
    return (
        3
        + 6
        + loads * parts // (loaded * loads)
        + 5
        + parts % (loaded * loads)
        + 3
        + (0 if out is FLOAT else 5)
    )


def reduce_contiguous(
    outputs: Size, parts: Size, dtype: type[DType], target: Target, *, update: bool = False
) -> Size:
    """Return the worker cycles of Reduce on `outputs` contiguous regions of `parts` elements.

    Each region is reduced to one element. PopLibs' vertex stores the number of outputs minus one,
    and PopLibs' estimator uses this stored number as if it were the number of outputs.
    """
    outs = outputs - 1
    return outs * (parts // _loaded(dtype, target)) + 2 * (parts % 2) + 12 * outs + 10 + update + 7


def reduce_strided(
    outputs: Size,
    parts: Size,
    stride: int,
    dtype: type[DType],
    out: type[DType],
    target: Target,
    *,
    op: str = "ADD",
    update: bool = False,
    outer_strides: Size = 1,
) -> Size:
    """Return the worker cycles of a strided Reduce of `parts` rows of `outputs` columns.

    It reduces column by column. The rows are `stride` elements apart. `op` is "ADD", "MAX", "MIN"
    or "LOG_ADD". If `outer_strides` is more than 1, there are this many groups of `parts` rows, and
    the distance from one group to the next is not `stride`.
    """
    per_part = known_row(
        {"ADD": 1, "MAX": 1, "MIN": 1, "LOG_ADD": _LOG_ADD_CYCLES[dtype]}, op, "Reduce, strided"
    )
    column = 3 + _store(dtype, out, op, update) + outer_strides * (3 + per_part * (parts - 1))
    return 2 + 2 + 6 + 5 + 1 + ceil_div(outputs, gcd(_loaded(dtype, target), stride)) * column


def _store(dtype: type[DType], out: type[DType], op: str, update: bool) -> int:
    """Return the cycles to read, convert and store the accumulators after each column.

    With `update`, the accumulators are added to the present values of the output.
    """
    if dtype is HALF:
        written = {
            "ADD": (7, 9) if out is HALF else (6, 11),
            "LOG_ADD": (7, 22 if out is HALF else 56),
        }.get(op, (7, 10))
        return 1 + written[update]
    if op == "LOG_ADD":
        return 2 + (2, 13 if out is HALF else 27)[update]
    return (3 if op == "ADD" else 2) + (2, 4 if out is HALF else 5)[update]


def reduce_regions(
    outputs: Size,
    parts: Size,
    dtype: type[DType],
    out: type[DType],
    target: Target,
    *,
    op: str = "ADD",
    update: bool = False,
    regions: Size = 1,
) -> Size:
    """Return the worker cycles of the general Reduce, which adds or otherwise combines rows.

    It reduces `parts` rows of `outputs` elements to one row. The rows consist of `regions` pieces
    of memory in total. The operations "ADD" and "SQUARE_ADD" use the accumulators; "MAX", "MIN" and
    "MUL" do not. "LOG_ADD", "LOGICAL_AND" and "LOGICAL_OR" are written in C++.
    """
    is_in_c, accumulates = known_row(_REGION_OPS, op, "Reduce")
    if is_in_c:
        converted = 0 if out is dtype else 1
        return (
            7
            + 24
            + 8
            + 22 * regions
            + (24 + (12 if op == "LOG_ADD" else 1) + converted) * parts * outputs
        )
    elements_per_vector = accumulator_width(dtype)
    elements_per_load = _loaded(dtype, target)
    num_sizes = (elements_per_vector - 1).bit_length()

    def store_cycles(elements: int) -> int:
        return (2 + update) * min(elements, target.get_vector_width(out)) + accumulates

    num_vectors = outputs // elements_per_vector
    remainder = outputs % elements_per_vector
    load_cycles = (4 if accumulates else 2) + elements_per_vector // elements_per_load
    cycles: Size = 7 + 26 + 16 + 6 + 2 * num_sizes + 2
    cycles = cycles + num_vectors * (
        (5 if accumulates else 3)
        + store_cycles(elements_per_vector)
        + 1
        + 10 * regions
        + parts * (load_cycles + 3)
    )
    for elements in (2**i for i in range(num_sizes)):
        cycles_per_vector = (4 if accumulates else 2) + store_cycles(elements) + 10 * regions
        cycles_per_vector = cycles_per_vector + parts * (
            2 + elements // min(elements, target.get_vector_width(dtype)) + 3
        )
        cycles = cycles + bit(remainder, elements) * cycles_per_vector
    return cycles


def conv_reduce(
    outputs: Size,
    parts: Size,
    dtype: type[DType],
    target: Target,
    *,
    out: type[DType] | None = None,
    interleaved: bool = False,
    single_input: bool = True,
) -> Size:
    """Return the tile cycles of ConvReduce, which adds `parts` rows of `outputs` partial sums.

    With `single_input`, all rows are in one region. With `interleaved`, the rows are in memory that
    is read 128 bits at a time. If the last accumulators are not full, PopLibs handles the remainder
    separately, but here the remainder counts as an iteration of the loop. Source:
    poplin/PerformanceEstimation.hpp.
    """
    accumulators = 4 if dtype is FLOAT else 8
    width = target.get_vector_width(dtype)
    loops = share(ceil_div(outputs, accumulators), target)
    header = (8 if dtype is FLOAT else 10) - ((out or dtype) is not FLOAT)
    if single_input:
        row = accumulators // min(accumulators, width * (2 if interleaved else 1))
        return 33 + target.num_worker_contexts * (20 + (row * parts + header) * loops)
    row = accumulators // width + 1
    return target.num_worker_contexts * (32 + (row * parts + header - 1) * loops)
