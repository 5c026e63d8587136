"""Tile cycles of vertices that generate `n` random numbers.

Source: graphcore/poplibs, lib/poprand/poprandCycleEstimators.cpp.
"""

from __future__ import annotations

from ipu_teach.cost.vertices.parts import Size, ceil_div, either, loop
from ipu_teach.target import Target
from ipu_teach.types import HALF, INT, DType


def set_seed(target: Target) -> int:
    """Return the tile cycles of SetSeed, which sets the generators of all workers."""
    return 14 + 27 * target.num_worker_contexts


def normal(n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of Normal for `n` random numbers of `dtype`."""
    width = target.get_vector_width(dtype)
    start, rest = (24, 12) if dtype is HALF else (22, 3)
    return (
        4 + loop(n, width, 4) + start * target.num_worker_contexts + either(n % width == 0, 0, rest)
    )


def truncated_normal(n: Size, iterations: int, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of TruncatedNormal for `n` random numbers of `dtype`.

    Numbers outside the bounds are generated again, `iterations` times.
    """
    cycles_per_iteration, start_cycles = (12, 28) if dtype is HALF else (11, 26)
    return (
        4
        + loop(n, target.get_vector_width(dtype), cycles_per_iteration * iterations + 5)
        + start_cycles * target.num_worker_contexts
    )


def dropout(n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of Dropout for `n` elements of `dtype`."""
    width = target.get_vector_width(dtype)
    rest = either(n % width == 0, 0, 9 if dtype is HALF else 1)
    return 6 + 24 * target.num_worker_contexts + loop(n, width, 2) + rest


def _optimistic_width(dtype: type[DType]) -> int:
    """Return the vector width in PopLibs' estimates of Uniform and Bernoulli, which is too large.

    PopLibs divides the 64 bits of the data path by the number of elements in it: 4 for HALF and 2
    for other types. The correct divisor is the number of bits in an element: 16 and 32. So the
    estimates of both vertices are too low.
    """
    return 16 if dtype is HALF else 32


def uniform(n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of Uniform for `n` random numbers.

    For HALF and FLOAT, the cycles are too low, like PopLibs' estimate (see `_optimistic_width`).
    The cycles for INT are those for a range of integers; PopLibs needs fewer cycles if the range
    contains all 32-bit integers.
    """
    if dtype is INT:
        return 4 + 22 * target.num_worker_contexts + 6 * (n // 2) + 2 * (n % 2)
    width = _optimistic_width(dtype)
    start, rest = (24, 12) if dtype is HALF else (22, 4)
    return (
        4 + loop(n, width, 4) + start * target.num_worker_contexts + either(n % width == 0, 0, rest)
    )


def bernoulli(n: Size, dtype: type[DType], target: Target) -> Size:
    """Return the tile cycles of Bernoulli for `n` random numbers.

    Like PopLibs' estimate, these cycles are too low.
    """
    elements_per_cycle = _optimistic_width(dtype)
    start_cycles, remainder_cycles = (23, 1) if dtype is HALF else (21, 9)
    return (
        4
        + ceil_div(n, elements_per_cycle)
        + start_cycles * target.num_worker_contexts
        + either(n % elements_per_cycle == 0, 0, remainder_cycles)
    )
