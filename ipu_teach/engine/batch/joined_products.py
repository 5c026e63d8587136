"""Join many small matrix products into a few large ones.

The products of consecutive vertices can be joined if the vertices share one operand, if their other
operands are adjacent in memory, and if their results are adjacent too. Adjacent matrices are then
treated as one larger matrix, so that a single product computes all results. BLAS sums the terms of
this product in another order. So products are joined only with `Engine(exact=False)`. Whether they
are joined depends only on shapes and strides.
"""

from __future__ import annotations

from ipu_teach.engine.backend import Backend
from ipu_teach.types import Array

# If several vertices multiply by one shared matrix, joining their products is not always faster. It
# is not faster if the shared matrix has fewer than NARROW rows or columns, and the joined matrix
# has more than MOST_ELEMENTS elements. Then each vertex's block fits a cache, but the joined matrix
# does not.
NARROW = 16
MOST_ELEMENTS = 1 << 20


def join_products(xp: Backend, a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """Return the operands and the result of fewer, larger products with the same elements.

    `a`, `b` and `out` are the arrays of `a @ b` stored in `out`, of shapes (…, m, k), (…, k, n) and
    (…, m, n). In the result (a, b, out), as many leading axes as possible have been joined to a
    matrix axis.
    """
    for axis in reversed(range(out.ndim - 2)):
        axis_length = out.shape[axis]
        if axis_length == 1:
            continue
        if (
            b.shape[axis] == 1
            and _follows(a, axis, -2, axis_length)
            and _follows(out, axis, -2, axis_length)
            and _pays(a, b, axis_length)
        ):
            a, b, out = _joined(xp, a, axis, -2), b, _joined(xp, out, axis, -2)
        elif (
            a.shape[axis] == 1
            and _follows(b, axis, -1, axis_length)
            and _follows(out, axis, -1, axis_length)
            and _pays(b, a, axis_length)
        ):
            a, b, out = a, _joined(xp, b, axis, -1), _joined(xp, out, axis, -1)
    return a, b, out


def _pays(long: Array, shared: Array, n: int) -> bool:
    """Return whether one joined product is faster than `n` separate products.

    `long` is the operand of which `n` blocks are joined, and `shared` is the other operand.
    """
    short = min(shared.shape[-2:])
    return bool(short >= NARROW) or n * long.shape[-1] * long.shape[-2] <= MOST_ELEMENTS


def _follows(array: Array, axis: int, inner: int, n: int) -> bool:
    """Return whether the `n` matrices along `axis` form one larger matrix in memory.

    Each matrix must begin where the one before it ends along the matrix's axis `inner`.
    """
    if array.shape[axis] != n:
        return False
    return bool(
        array.shape[inner] == 1 or array.strides[axis] == array.shape[inner] * array.strides[inner]
    )


def _joined(xp: Backend, array: Array, axis: int, matrix_axis: int) -> Array:
    """Return a view of the array in which `axis` is joined to the matrix's axis `matrix_axis`."""
    shape = list(array.shape)
    strides = list(array.strides)
    if shape[matrix_axis] == 1:
        strides[matrix_axis] = strides[axis]
    shape[matrix_axis] *= shape[axis]
    shape[axis] = 1
    strides[axis] = 0
    joined_array: Array = xp.as_strided(array, tuple(shape), tuple(strides))
    return joined_array
