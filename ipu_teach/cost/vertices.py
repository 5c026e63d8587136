"""Modelled cycles of the library's vertices: one function for each vertex that PopLibs estimates, named after it.

Every formula is PopLibs' own estimator, restated; the file it stands in is named at each. `n` counts the elements on the
tile. Results are tile cycles where PopLibs runs the vertex on all six workers, worker cycles where it runs on one.
"""

from __future__ import annotations

from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType

# Cycles of a tile's supervisor around a 1-D vertex: popops/PerformanceEstimation.cpp, basicOpSupervisorOverhead.
SUPERVISOR_OVERHEAD = 11


def _ceil(a: int, b: int) -> int:
    return -(-a // b)


def _share(n: int, target: Target) -> int:
    """Elements of the busiest worker."""
    return _ceil(n, target.num_worker_contexts)


def binary_op_1d(n: int, dtype: type[DType], target: Target, *, in_place: bool = False) -> int:
    """Tile cycles of add, subtract or multiply of two regions (popops/popopsCycleEstimators.cpp, BinaryOp1D)."""
    m, floating = _share(n, target), dtype in (FLOAT, HALF)
    inner = _ceil(m, target.get_vector_width(dtype)) * (1 + 2) if floating else 7 * m
    base = 58 if in_place else 29 if dtype is FLOAT else 26
    return target.num_worker_contexts * (base + inner) + SUPERVISOR_OVERHEAD


def broadcast_scalar_1d(n: int, dtype: type[DType], target: Target) -> int:
    """Tile cycles of add, subtract or multiply with one number (popopsCycleEstimators.cpp, BroadcastScalar1D)."""
    m = _share(n, target)
    inner = _ceil(m, target.get_vector_width(dtype)) * (1 + 1) if dtype in (FLOAT, HALF) else 6 * m
    return target.num_worker_contexts * (20 + inner) + SUPERVISOR_OVERHEAD


def scaled_add(n: int, dtype: type[DType], target: Target) -> int:
    """Tile cycles of A += k B (popops/PerformanceEstimation.cpp, ScaledAdd; memory unconstrained).

    As PopLibs does, it leaves out the vectors that do not fill all workers. The cost of a remainder is not written out there
    as a formula: 8 (FLOAT) and 5 (HALF) are what its estimate of a single element leaves for it.
    """
    workers, width = target.num_worker_contexts, target.get_vector_width(dtype)
    if dtype not in (FLOAT, HALF):
        return 53 + 26 * (n // 3) + (6 if n % 3 == 0 else 6 + 26 * (n % 3) + 14)
    rest, steps = n % width, n // width // workers
    supervisor = 27 + SUPERVISOR_OVERHEAD + (13 if rest else 7) + 12 + 6
    loop = 6 + 3 * (steps - 1) if steps else 0
    return supervisor + workers * (15 + loop + 2 + 1 + ((8 if dtype is FLOAT else 5) if rest else 0))


def cast_1d(n: int, source: type[DType], destination: type[DType], target: Target) -> int:
    """Tile cycles of a conversion (popopsCycleEstimators.cpp, Cast1D). Pairs it has no row for cost as FLOAT to HALF."""
    m = _share(n, target)
    group, cycles = (2, 1) if (source, destination) == (HALF, FLOAT) else (4, 2)
    tail = sum(1 + (2 if (m % group) & bit else 0) for bit in (1, 2) if bit < group)
    return 12 + target.num_worker_contexts * (18 + 19 + cycles * (m // group) + tail)


def fill(n: int, dtype: type[DType]) -> int:
    """Worker cycles of writing one value everywhere (popopsCycleEstimators.cpp, Fill)."""
    if dtype.size == 4:
        return 16 + n // 2 + 6 + n % 2 + 1
    if dtype.size == 2:
        return 26 + n // 4 if n > 2 else (15, 15, 21)[n]
    if dtype.size == 8:
        return 5 + n
    return 28 + n // 4 if n < 64 else 39 + n // 8


def reduce_partials(outputs: int, parts: int, dtype: type[DType], target: Target) -> int:
    """Tile cycles of summing `parts` rows of `outputs` columns (poplin/PerformanceEstimation.hpp, single input)."""
    accumulators = 4 if dtype is FLOAT else 8
    per_load = accumulators // min(accumulators, target.get_vector_width(dtype))
    workers = target.num_worker_contexts
    header = 8 if dtype is FLOAT else 10
    # The estimator counts whole vectors of accumulators; a shorter rest costs one more.
    loops = _ceil(_ceil(outputs, accumulators), workers)
    return 33 + workers * (20 + (per_load * parts + header) * loops)


def conv_partial_1x1_float(rows: int, depth: int, columns: int, target: Target) -> int:
    """Tile cycles of a FLOAT matrix product on the AMP units (poplin/PerformanceEstimation.hpp, ConvPartial1x1).

    `rows` x `depth` times `depth` x `columns`. The units hold `conv_units_fp32` columns and 8 of the depth at a time: for
    each such panel the weights are loaded, then the rows, shared among the workers, stream past.
    """
    workers, units = target.num_worker_contexts, target.conv_units_fp32
    in_group = 2 * target.conv_unit_pipeline_depth  # FLOAT elements of the depth a panel holds
    in_groups, out_groups = _ceil(depth, in_group), _ceil(columns, units)
    load = units * in_group * FLOAT.size // target.conv_unit_coeff_load_bytes_per_cycle
    most, least = _ceil(rows, workers), rows // workers
    per_step = 8 if units == 16 else 4

    def worker(n: int, overwrite: bool) -> int:
        if n == 0:
            return 24
        cycles = {1: 47, 2: 46}.get(n, 46 + 8 * (n - 3))
        return cycles + (2 + per_step * n if overwrite else 0)

    def inner(overwrite: bool) -> int:
        return max(workers * worker(most, overwrite), workers * worker(least, overwrite) + 14)

    accumulate = (in_groups - 1) * (15 + out_groups * (19 + 6 + load + inner(False)))
    first = 11 + out_groups * (18 + 7 + load + inner(True))
    return 50 + workers * (7 + 3 * (in_groups - 1)) + 13 + accumulate + first


def cross_entropy(n: int, dtype: type[DType]) -> int:
    """Worker cycles of loss and gradient for `n` probabilities (popnn/popnnCycleEstimators.cpp, cross-entropy transform)."""
    if dtype is HALF:
        return 5 + 6 + 5 + 1 + 2 + 1 + 9 * n // 2 + 2 + (11 if n % 2 else 0) + 1
    return 5 + 6 + 5 + 2 + 1 + 9 * n + 1


def arg_max_gather(n: int) -> int:
    """Worker cycles of finding the largest of `n` (popnn/popnnCycleEstimators.cpp, argmax)."""
    return 30 + 3 * (max(n, 1) - 1)
