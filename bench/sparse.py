"""Compare a sparse product on the chip with scipy's, and the time to build it with a run of it."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from bench.kernels import Chip, source
from bench.measure import Row, Work
from ipu_teach.engine import Engine
from ipu_teach.poplibs.popsparse import COOMatrix, static
from ipu_teach.program import Sequence
from ipu_teach.types import FLOAT, Array

# The sparse matrix has 4,096 rows and columns, in blocks of 16 x 16. One block in 16 is stored. The
# dense matrix has 256 columns.
SIDE, BLOCK, COLUMNS, DENSITY = 4096, 16, 256, 1 / 16
NO_SCIPY = "needs scipy: pip install scipy"


def product() -> tuple[Engine, COOMatrix, Array]:
    """Return an engine with the product on 1,472 tiles loaded, and its two operands.

    The operands are the sparse matrix, and the dense matrix of shape [4096, 256].
    """
    num_block_rows, generator = SIDE // BLOCK, source()
    block_numbers = np.sort(
        generator.choice(num_block_rows**2, int(num_block_rows**2 * DENSITY), replace=False)
    )
    values = generator.standard_normal((len(block_numbers), BLOCK, BLOCK), np.float32)
    shape, block_shape = (SIDE, SIDE), (BLOCK, BLOCK)
    sparse = COOMatrix(
        shape, block_numbers // num_block_rows, block_numbers % num_block_rows, values, block_shape
    )
    dense = generator.standard_normal((SIDE, COLUMNS), np.float32)
    chip, prog, csr = Chip(), Sequence(), sparse.to_csr()
    plan = static.plan_sparse_dense(csr, COLUMNS, chip.graph.target, dtype=FLOAT)
    left = static.create_sparse_dense_mat_mul_lhs(chip.graph, plan)
    right = static.create_sparse_dense_mat_mul_rhs(chip.graph, plan)
    chip.graph.set_initial_value(left, values)
    chip.graph.set_initial_value(right, dense)
    out = static.sparse_dense_mat_mul(chip.graph, csr, left, right, prog, plan=plan)
    chip.graph.create_host_read("out", out)
    return chip.engine(prog), sparse, dense


def beside_scipy() -> tuple[Work, Work] | str:
    """Return two functions to time: a run of the sparse product, and scipy's product.

    Both multiply the same operands. Without scipy, return how to install it.
    """
    if find_spec("scipy") is None:
        return NO_SCIPY
    from scipy.sparse import bsr_array

    engine, sparse, dense = product()
    csr = sparse.to_csr()
    scipy_matrix = bsr_array((csr.values, csr.columns, csr.row_offsets), shape=csr.shape)
    return engine.run, lambda: scipy_matrix @ dense


def built() -> tuple[Work, Work]:
    """Return two functions to time: everything up to the loaded product, and a run of it.

    The first function draws the operands, and plans, builds, compiles and loads the product.
    """
    return product, product()[0].run


ROWS = [
    Row("sp1", "4,096 x 4,096, 1/16 in blocks of 16, by 256", "scipy's bsr_array", 3, beside_scipy),
    Row("sp2", "its build, compilation and load", "a run of it", 10, built),
]
