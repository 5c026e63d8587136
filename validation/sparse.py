"""Sparse products of 4,096 x 4,096 compared with dense ones, as measured on a Bow chip.

In each ratio, each of the two products has the number of columns that is best for it. Only
non-zeros count as work. PopLibs' own cost model plans the static product, for blocks placed evenly
at random. It also plans the dynamic product, except for the number of steps in which buckets are
exchanged. The kit's own partitioner computes this number for a random pattern.
"""

from __future__ import annotations

from functools import cache
from statistics import median

import numpy as np

from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs.poplin import plan_mat_mul
from ipu_teach.poplibs.popsparse import COOMatrix
from ipu_teach.poplibs.popsparse.dynamic import MatMulParams, Partitioner
from ipu_teach.poplibs.popsparse.static_plan import MEMORY_PROPORTION, expected
from ipu_teach.types import FLOAT, HALF, DType
from validation.programs import machine
from validation.row import PROGRAMS, SILICON, TOLERANCES, Row, Source

SOURCE = Source(
    SILICON, "graphcore-research/sparsity-benchmarks, analysis/Analysis.ipynb, Bow at 1.85 GHz"
)
COLUMNS = 64, 256, 1024, 4096, 8192
# Each item is (dtype, block, static ratio, dynamic ratio). A ratio is the speed of the sparse
# product relative to the dense product, at a density of 1/16.
PUBLISHED = ((HALF, 16, 4.9, 1.9), (HALF, 1, 0.7, 0.4), (FLOAT, 16, 5.6, 3.8), (FLOAT, 1, 1.4, 0.9))
FASTER = (
    "the plan's cost is PopLibs' own model, whose source says that its estimate of reductions is "
    "off; on the chip, patterns are real, and two tiles that share a bus delay exchanges"
)
STEPS = (
    "PopLibs' vertices with the kit's partition, at n = {:,}; for a random pattern, the "
    "buckets are passed on {} times. PopLibs' own partitions search subgroups and "
    "exchange sums in each phase, and the kit has no formula for this"
)


@cache
def dense_rate(m: int, dtype: type[DType]) -> float:
    """Return the columns per cycle of the fastest dense product with an [m, m] matrix."""
    rates = []
    for n in COLUMNS:
        try:
            plan = plan_mat_mul(m, m, n, machine("bow"), dtype=dtype, partials_type=dtype)
        # The product does not fit on the chip.
        except PoplibsError:
            continue
        rates.append(n / plan.cycles)
    return max(rates)


def static_ratio(m: int, block: int, density: float, dtype: type[DType]) -> float:
    """Return the speed of the static sparse product relative to the dense product.

    The speed of a product is its columns per cycle, for the number of columns that is best for it.
    """
    target = machine("bow")
    blocks = max(1, int((m // block) ** 2 * density))
    plans = {
        n: expected((m, m, n), block, blocks, types=(dtype, dtype), target=target) for n in COLUMNS
    }
    bytes_available = MEMORY_PROPORTION * target.bytes_per_tile
    rates = [
        n / plan.cycles for n, plan in plans.items() if plan.temporary_bytes <= bytes_available
    ]
    return max(rates) / dense_rate(m, dtype)


def dynamic_ratio(block: int, density: float, dtype: type[DType]) -> tuple[float, int, int]:
    """Return `(ratio, steps, columns)` for the dynamic sparse product of a random pattern.

    `ratio` is the speed of the sparse product, in columns per cycle, relative to that of the dense
    product. `columns` is the number of columns that is best for the sparse product; with it, the
    buckets are exchanged in `steps` steps.
    """
    target = machine("bow")
    m = 4096
    side = m // block
    places = np.sort(np.random.default_rng(7).choice(side**2, int(side**2 * density), False))
    values = np.zeros((len(places), block, block), np.float32)
    shape = (block, block)
    csr = COOMatrix(
        (m, m), places // side, columns=places % side, values=values, block=shape
    ).to_csr()
    runs = []
    for n in COLUMNS:
        params = MatMulParams.create_with_nz_ratio(m, m, n, nz_ratio=density, block=shape)
        partitioner = Partitioner(params, dtype, target)
        cut = partitioner.cut
        if cut.temporary_bytes > MEMORY_PROPORTION * target.bytes_per_tile:
            continue
        rounds = partitioner.encode(csr).rounds
        runs.append((n / (cut.cycles + rounds * cut.step_cycles), rounds, n))
    rate, rounds, n = max(runs)
    return rate / dense_rate(m, dtype), rounds, n


def rows() -> list[Row]:
    """Return the rows for the speed of sparse products relative to dense products.

    Two further rows have the density at which the sparse product overtakes the dense one, and the
    authors' fit.
    """
    rows_built = []
    within = TOLERANCES[PROGRAMS]
    for dtype, block, static, dynamic in PUBLISHED:
        name = (
            f"{dtype.__name__}, 4,096 x 4,096, density 1/16, blocks of {block}: times dense, {{}}"
        )
        ratio = static_ratio(4096, block, 1 / 16, dtype)
        rows_built.append(
            SOURCE.row(name.format("static"), static, modelled=ratio, tolerance=within, why=FASTER)
        )
        ratio, rounds, n = dynamic_ratio(block, 1 / 16, dtype)
        why = STEPS.format(n, rounds)
        name = name.format("dynamic")
        rows_built.append(
            SOURCE.row(name, dynamic, modelled=ratio, tolerance=within, why=why, explained=True)
        )
    read = (
        "read from the chart, at the point where the sparse product becomes faster "
        "than the dense one"
    )
    halves = [1 / 2**i for i in range(2, 7)]
    name = "HALF, the largest of 1/4, 1/8 … 1/64 at which static single values overtake dense"
    won = max(d for d in halves if static_ratio(4096, 1, d, HALF) > 1)
    rows_built.append(SOURCE.row(name, 1 / 32, modelled=won, tolerance=0.0, why=read))
    for share, ratio in ((4, 55 / 57), (8, 39 / 28)):
        name = f"HALF, 4,096 x 4,096, density 1/{share}, blocks of 16: times dense, dynamic"
        ours = dynamic_ratio(16, 1 / share, HALF)[0]
        rows_built.append(SOURCE.row(name, ratio, modelled=ours, tolerance=within, why=read))
    fit = [
        static_ratio(m, b, d, HALF) / (0.0013 * m**0.59 * d**-0.54 * b**0.5)
        for m in (1024, 2048, 4096, 8192)
        for d in halves
        for b in (1, 4, 8, 16)
    ]
    near = sum(0.5 <= r <= 2 for r in fit)
    why = (
        f"the authors say that their fit is right within a factor of two; this is true "
        f"for {near} of our "
        f"{len(fit)} cases, from {min(fit):.2f} to {max(fit):.2f} times the fit. The "
        "model does not include what makes the chip slower at high densities"
    )
    name = "HALF, static: speed-up over 0.0013 m^0.59 d^-0.54 b^0.5, the median of m, d and b"
    rows_built.append(
        SOURCE.row(name, 1.0, modelled=median(fit), tolerance=within, why=why, explained=True)
    )
    return rows_built
