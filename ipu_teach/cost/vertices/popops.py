"""Cycles of elementwise vertices: operations with one or two operands, scaled add, casts, fills.

Source: graphcore/poplibs, lib/popops. A function with a parameter for a single size returns the
tile cycles of a 1-D vertex, which PopLibs runs on all six workers. A function with a list of
regions returns the worker cycles of a 2-D vertex, which runs on one worker.
"""

from __future__ import annotations

from collections.abc import Sequence

from ipu_teach.cost.vertices.parts import (
    SUPERVISOR_OVERHEAD,
    Rate,
    Size,
    bit,
    ceil_div,
    either,
    find,
    is_float,
    known_row,
    loop,
    share,
)
from ipu_teach.cost.vertices.rates import BINARY, BROADCAST, UNARY, UNARY_IN_PLACE
from ipu_teach.target import Target
from ipu_teach.types import (
    BOOL,
    FLOAT,
    HALF,
    LONGLONG,
    QUARTER,
    UNSIGNED_CHAR,
    UNSIGNED_LONGLONG,
    DType,
)

# The operations that PopLibs has written in assembly for FLOAT and HALF.
_FAST = ("ADD", "SUBTRACT", "MULTIPLY")

# --- one operand: popopsCycleEstimators.cpp -------------------------------------------------------


def unary_op_1d(
    op: str, n: Size, dtype: type[DType], target: Target, *, in_place: bool = False
) -> Size:
    """Return the tile cycles of UnaryOp1D or UnaryOp1DInPlace on `n` elements.

    `op` is an operation such as "RELU".
    """
    rate = find(UNARY_IN_PLACE if in_place else UNARY, op, dtype, "UnaryOp1D")
    cycles_out_of_place = 33 if op == "EXPONENT" else 17
    start_cycles = 55 if in_place else cycles_out_of_place
    return (
        target.num_worker_contexts * (start_cycles + _unary(rate, share(n, target), dtype, target))
        + 20
    )


def unary_op_2d(
    op: str, regions: Sequence[Size], dtype: type[DType], target: Target, *, in_place: bool = False
) -> Size:
    """Return the worker cycles of UnaryOp2D or UnaryOp2DInPlace.

    `op` is an operation such as "RELU", and `regions` are the sizes of the regions.
    """
    rate = find(UNARY_IN_PLACE if in_place else UNARY, op, dtype, "UnaryOp2D")
    return 20 + sum(_unary(rate, n, dtype, target) for n in regions)


def _unary(rate: Rate, n: Size, dtype: type[DType], target: Target) -> Size:
    if rate.bare:
        return loop(n, rate.width(dtype, target), rate.cycles + 4)
    return ceil_div(n, rate.elements) * rate.cycles


# --- two operands: popopsCycleEstimators.cpp ------------------------------------------------------


def binary_op_1d(
    op: str, n: Size, dtype: type[DType], target: Target, *, in_place: bool = False
) -> Size:
    """Return the tile cycles of BinaryOp1D or BinaryOp1DInPlace on two regions of `n` elements.

    `op` is an operation such as "ADD".
    """
    cycles_out_of_place = 29 if dtype is FLOAT else 26
    start_cycles = 58 if in_place else cycles_out_of_place
    loop_cycles = _binary(op, share(n, target), dtype, target, "BinaryOp1D")
    return target.num_worker_contexts * (start_cycles + loop_cycles) + SUPERVISOR_OVERHEAD


def binary_op_2d(
    op: str, regions: Sequence[Size], dtype: type[DType], target: Target, *, in_place: bool = False
) -> Size:
    """Return the worker cycles of BinaryOp2D or BinaryOp2DInPlace.

    `op` is an operation such as "ADD", and `regions` are the sizes of the regions.
    """
    return (20 if in_place else 5) + sum(
        _binary(op, n, dtype, target, "BinaryOp2D") for n in regions
    )


def _binary(op: str, n: Size, dtype: type[DType], target: Target, vertex: str) -> Size:
    rate = find(BINARY, op, dtype, vertex)
    extra = (2 if op in _FAST else 5) if rate.bare else 0
    return ceil_div(n, rate.width(dtype, target)) * (rate.cycles + extra)


def broadcast_scalar_1d(op: str, n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of BroadcastScalar1D on `n` elements, in place or not.

    The vertex applies `op`, such as "ADD", to each element and a single number.
    """
    rate = find(BROADCAST, op, dtype, "BroadcastScalar1D")
    extra = (1 if op in _FAST else 4) if rate.bare else 0
    inner = ceil_div(share(n, target), rate.width(dtype, target)) * (rate.cycles + extra)
    return target.num_worker_contexts * (20 + inner) + SUPERVISOR_OVERHEAD


def select(regions: Sequence[Size]) -> Size:
    """Return the worker cycles of Select, which chooses one of two values for each element.

    `regions` are the sizes of the regions.
    """
    return 5 + sum(6 + 5 * n for n in regions)


# --- a = a + k b: PerformanceEstimation.cpp -------------------------------------------------------


def scaled_add(
    n: Size,
    dtype: type[DType],
    target: Target,
    *,
    other: type[DType] | None = None,
    operation: str = "ADD",
    memory_constrained: bool = False,
    scaled_pointer: bool = False,
) -> Size:
    """Return the tile cycles of ScaledAddSupervisor for `n` elements of `dtype`.

    `other` is the type of the second operand, by default that of the first. `operation` is "ADD",
    "SUBTRACT" or "AXPBY"; the factor is a tensor. With `memory_constrained`, the operands are in
    different memory elements (banks), so that both can be loaded at once. As in PopLibs, the number
    of vectors is rounded down to a multiple of the number of workers.
    """
    workers = target.num_worker_contexts
    elements_per_path = target.get_vector_width(dtype)
    if not is_float(dtype):
        return 53 + 26 * (n // 3) + 6 + either(n % 3 == 0, 0, 26 * (n % 3) + 14)
    remainder = n % elements_per_path
    steps_per_worker = n // elements_per_path // workers
    supervisor_cycles = (
        21
        + (6 if scaled_pointer else 0)
        + SUPERVISOR_OVERHEAD
        + either(remainder == 0, 7, 13)
        + 12
        + 6
    )
    supervisor_cycles += known_row({"ADD": 0, "SUBTRACT": 7, "AXPBY": 12}, operation, "ScaledAdd")
    cycles_per_step: Size = 3 if other in (None, dtype) else 4
    if memory_constrained:
        cycles_per_step = either(steps_per_worker >= 16, 1, 2)
    loop_cycles = either(steps_per_worker == 0, 0, 6 + cycles_per_step * (steps_per_worker - 1))
    # The remainder is one FLOAT, or up to three HALF, of which two are processed together.
    remainder_cycles = (
        8 * remainder
        if dtype is FLOAT
        else either(remainder == 0, 0, 5 + 7 * bit(remainder, 2) + 6 * (remainder // 3))
    )
    return supervisor_cycles + workers * (15 + loop_cycles + 2 + 1 + remainder_cycles + 1)


# --- conversions: PerformanceEstimation.cpp -------------------------------------------------------


def cast_1d(n: Size, source: type[DType], destination: type[DType], target: Target) -> Size:
    """Return the tile cycles of Cast1D on `n` elements, which the workers share."""
    return 12 + target.num_worker_contexts * (
        18 + _cast(share(n, target), source, destination, target)
    )


def cast_loop(
    n: Size, source: type[DType], destination: type[DType], target: Target
) -> tuple[Size, Size]:
    """Return `(start_cycles, loop_cycles)`: worker cycles of the inner loop of Cast1D.

    The loop converts `n` elements, with the loads of the operand and the stores of the result.
    """
    start_cycles = _cast(0, source, destination, target)
    return start_cycles, _cast(n, source, destination, target) - start_cycles


def _cast(n: Size, source: type[DType], destination: type[DType], target: Target) -> Size:
    """Return the worker cycles of `n` conversions.

    Conversions between floating-point types are limited by their loads and stores. Elements of
    other types are converted one by one.
    """
    if destination in (LONGLONG, UNSIGNED_LONGLONG):
        return 3 + n * (5 if source.numpy.kind == "i" else 4)
    if source is UNSIGNED_CHAR and destination is HALF:
        return 4 + _in_fours(n, 14, 9, (2, 12, 14, 22))
    are_floats = all(is_float(t) or _is_quarter(t) for t in (source, destination))
    if source is HALF and destination.size == 1 and not are_floats and destination is not BOOL:
        return 8 + _in_fours(n, 19, 16, (2, 14, 21, 29))
    cycles_per_eight = {(True, True): 13, (True, False): 28, (False, True): 37}.get(
        (_is_quarter(source), _is_quarter(destination))
    )
    # PopLibs' estimate does not treat the first eight elements separately.
    if cycles_per_eight is not None and source.size == destination.size == 1:
        return 4 + cycles_per_eight * ceil_div(n, 8)
    elements_per_load = target.get_vector_width(source)
    elements_per_store = target.get_vector_width(destination)
    if not are_floats:
        return 19 + 2 * n
    # The chip does two loads and one store in a cycle.
    elements_per_group = min(2 * elements_per_load, elements_per_store)
    cycles_per_group = max(
        elements_per_group // min(elements_per_group, elements_per_load),
        elements_per_group // min(elements_per_group, elements_per_store),
    )
    remainder = n % elements_per_group
    remainder_cycles: Size = 0
    for part_of_remainder in (2**i for i in range((elements_per_group - 1).bit_length())):
        remainder_cycles = remainder_cycles + 1 + 2 * bit(remainder, part_of_remainder)
    return 19 + cycles_per_group * (n // elements_per_group) + remainder_cycles


def _is_quarter(dtype: type[DType]) -> bool:
    return issubclass(dtype, QUARTER)


def _in_fours(
    n: Size, first_cycles: int, further_cycles: int, remainder_cycles: tuple[int, int, int, int]
) -> Size:
    """Return the worker cycles of a loop over groups of four that fills and drains a pipeline.

    The first group of four elements takes `first_cycles`, and each further group `further_cycles`.
    `remainder_cycles[i]` is the number of cycles for a remainder of i elements, 0 to 3.
    """
    tail_cycles: Size = remainder_cycles[0]
    for remainder in (1, 2, 3):
        tail_cycles = either(n % 4 == remainder, remainder_cycles[remainder], tail_cycles)
    return either(n // 4 == 0, 0, first_cycles + further_cycles * (n // 4 - 1)) + tail_cycles


# --- fills and copies -----------------------------------------------------------------------------


def fill(n: Size, dtype: type[DType]) -> Size:
    """Return the worker cycles of Fill, which writes one value to `n` elements.

    Source: PerformanceEstimation.cpp.
    """
    if dtype.size == 4:
        return 16 + n // 2 + 6 + n % 2 + 1
    if dtype.size == 2:
        return either(n == 1, 15, either(n == 2, 21, 26 + n // 4))
    if dtype.size == 8:
        return 5 + n
    return either(n < 64, 28 + n // 4, 39 + n // 8)


def fill_2d(regions: Sequence[Size], dtype: type[DType]) -> Size:
    """Return the worker cycles of Fill2D on regions of the sizes `regions`.

    Source: PerformanceEstimation.cpp.
    """
    saved = 2 if dtype is HALF or dtype.size == 8 else 3
    return 5 + (saved == 3) + sum(fill(n, dtype) - saved for n in regions)
