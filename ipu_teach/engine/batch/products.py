"""`a @ b` for many vertices at once: which of the ways there are.

Two vectors are a dot product, with the bits of each vertex's own. What has a matrix in it is a
product of matrices, joined into larger ones where that is allowed (`joined_products`), by numpy's
own order where it is of halves (`half_products`), else by BLAS.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ipu_teach.engine.backend import Call
from ipu_teach.engine.batch.half_products import HalfProducts
from ipu_teach.engine.batch.joined_products import join_products
from ipu_teach.types import Array


class Products:
    """Makes the calls for the products of one group. `exact`: with the bits of the plain vertex
    loop."""

    def __init__(self, xp: Any, exact: bool) -> None:
        self._xp, self._exact = xp, exact

    @cached_property
    def _halves(self) -> HalfProducts:
        return HalfProducts(self._exact)

    def calls(
        self, a: Array, b: Array, out: Array, ranks: tuple[int, ...], joins: bool
    ) -> list[Call]:
        """The calls for a @ b into out. `ranks`: of a vertex's own operands, 1 or 2. `joins`: both
        are the vertices' own."""
        if ranks == (1, 1) and self._exact:
            return [(self._xp.vecdot, (a, b, out))]
        left, right, whole = a, b, out  # as matrices: a vector is one row or one column
        if ranks[1] == 1:
            right, whole = b[..., None], whole[..., None]
        if ranks[0] == 1:
            left = a[..., None, :]
            whole = out[..., None, :] if ranks[1] == 2 else out[..., None, None]
        if joins and not self._exact:
            left, right, whole = join_products(self._xp, left, right, whole)
        if whole.dtype == left.dtype == right.dtype == np.float16 and self._xp.on_host:
            return self._halves.calls(left, right, whole)
        return [(self._xp.matmul, (left, right, whole))]
