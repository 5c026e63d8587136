"""`a @ b` for many vertices: a choice between several methods.

If both operands are vectors, the product is a dot product, with the same bits as a separate product
for each vertex. If an operand is a matrix, there are three methods: joining the product with those
of other vertices, if that is allowed (`joined_products`); for halves, adding in numpy's order
(`half_products`); and otherwise, BLAS.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ipu_teach.engine.backend import Backend, Call
from ipu_teach.engine.batch.half_products import HalfProducts
from ipu_teach.engine.batch.joined_products import join_products
from ipu_teach.types import Array


class Products:
    """Returns the calls for the products of one group.

    With `exact`, the results have the same bits as in the plain vertex loop.
    """

    def __init__(self, xp: Backend, exact: bool) -> None:
        self._xp = xp
        self._exact = exact

    @cached_property
    def _halves(self) -> HalfProducts:
        return HalfProducts(self._exact)

    def calls(
        self,
        left_operand: Array,
        right_operand: Array,
        out: Array,
        ranks: tuple[int, ...],
        joins: bool,
    ) -> list[Call]:
        """Return the calls that store `left_operand @ right_operand` in `out`, for all vertices.

        `ranks` contains the number of axes of each operand in one vertex, 1 or 2. `joins` is True
        if neither operand is a constant.
        """
        if ranks == (1, 1) and self._exact:
            return [(self._xp.vecdot, (left_operand, right_operand, out))]
        # Vector operands become matrices of one row or one column.
        left = left_operand
        right = right_operand
        result = out
        if ranks[1] == 1:
            right = right_operand[..., None]
            result = result[..., None]
        if ranks[0] == 1:
            left = left_operand[..., None, :]
            result = out[..., None, :] if ranks[1] == 2 else out[..., None, None]
        if joins and not self._exact:
            left, right, result = join_products(self._xp, left, right, result)
        if result.dtype == left.dtype == right.dtype == np.float16 and self._xp.on_host:
            return self._halves.calls(left, right, result)
        return [(self._xp.matmul, (left, right, result))]
