"""A sparse product on the chip compared with scipy's `bsr_array @`, and building it compared with
running it."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from bench.kernels import Chip, source
from bench.measure import Row, Work
from ipu_teach.engine import Engine
from ipu_teach.poplibs.popsparse import COOMatrix, static
from ipu_teach.program import Sequence
from ipu_teach.types import FLOAT, Array

SIDE, BLOCK, COLUMNS, DENSITY = 4096, 16, 256, 1 / 16
NO_SCIPY = "needs scipy: pip install scipy"


def product() -> tuple[Engine, COOMatrix, Array]:
    """Return the product on 1,472 tiles, built, compiled and loaded, and its operands."""
    count, numbers = SIDE // BLOCK, source()
    places = np.sort(numbers.choice(count**2, int(count**2 * DENSITY), replace=False))
    values = numbers.standard_normal((len(places), BLOCK, BLOCK), np.float32)
    shape, block = (SIDE, SIDE), (BLOCK, BLOCK)
    sparse = COOMatrix(shape, places // count, places % count, values, block)
    x = numbers.standard_normal((SIDE, COLUMNS), np.float32)
    chip, prog, csr = Chip(), Sequence(), sparse.to_csr()
    plan = static.plan_sparse_dense(csr, COLUMNS, chip.graph.target, dtype=FLOAT)
    left = static.create_sparse_dense_mat_mul_lhs(chip.graph, plan)
    right = static.create_sparse_dense_mat_mul_rhs(chip.graph, plan)
    chip.graph.set_initial_value(left, values)
    chip.graph.set_initial_value(right, x)
    out = static.sparse_dense_mat_mul(chip.graph, csr, left, right, prog, plan=plan)
    chip.graph.create_host_read("out", out)
    return chip.engine(prog), sparse, x


def beside_scipy() -> tuple[Work, Work] | str:
    """Return a run, and scipy's product of the same blocks."""
    if find_spec("scipy") is None:
        return NO_SCIPY
    from scipy.sparse import bsr_array

    engine, sparse, x = product()
    csr = sparse.to_csr()
    whole = bsr_array((csr.values, csr.columns, csr.row_offsets), shape=csr.shape)
    return engine.run, lambda: whole @ x


def built() -> tuple[Work, Work]:
    """Return two works: drawing, planning, building, compiling and loading the product, and a run
    of it."""
    return product, product()[0].run


ROWS = [
    Row("sp1", "4,096 x 4,096, 1/16 in blocks of 16, by 256", "scipy's bsr_array", 3, beside_scipy),
    Row("sp2", "its build, compilation and load", "a run of it", 10, built),
]
