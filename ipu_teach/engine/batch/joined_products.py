"""Many small products of matrices as a few large ones.

Where the vertices along an axis of a nest share one operand, and the other operand and the result
lie as one larger matrix, the axis joins that matrix: blocks of rows, or of columns, become a single
product. BLAS then sums in another order, so this is done only with `Engine(exact=False)`, and by
the shapes alone.
"""

from __future__ import annotations

from typing import Any

from ipu_teach.types import Array

# A narrow product gains nothing from being long: its blocks fit a cache, the whole does not.
NARROW = 16
MOST_ELEMENTS = 1 << 20


def join_products(xp: Any, a: Array, b: Array, out: Array) -> tuple[Array, Array, Array]:
    """The same products, (…, m, k) @ (…, k, n) into (…, m, n), with as many leading axes joined as
    can be."""
    for axis in reversed(range(out.ndim - 2)):
        n = out.shape[axis]
        if n == 1:
            continue
        if (
            b.shape[axis] == 1
            and _follows(a, axis, -2, n)
            and _follows(out, axis, -2, n)
            and _pays(a, b, n)
        ):
            a, b, out = _joined(xp, a, axis, -2), b, _joined(xp, out, axis, -2)
        elif (
            a.shape[axis] == 1
            and _follows(b, axis, -1, n)
            and _follows(out, axis, -1, n)
            and _pays(b, a, n)
        ):
            a, b, out = a, _joined(xp, b, axis, -1), _joined(xp, out, axis, -1)
    return a, b, out


def _pays(long: Array, other: Array, n: int) -> bool:
    short = min(other.shape[-2:])
    return bool(short >= NARROW) or n * long.shape[-1] * long.shape[-2] <= MOST_ELEMENTS


def _follows(array: Array, axis: int, inner: int, n: int) -> bool:
    """True if the blocks along `axis` follow each other along the matrix's axis `inner`."""
    if array.shape[axis] != n:
        return False
    return bool(
        array.shape[inner] == 1 or array.strides[axis] == array.shape[inner] * array.strides[inner]
    )


def _joined(xp: Any, array: Array, axis: int, inner: int) -> Array:
    shape, strides = list(array.shape), list(array.strides)
    if shape[inner] == 1:
        strides[inner] = strides[axis]
    shape[inner] *= shape[axis]
    shape[axis], strides[axis] = 1, 0
    longer: Array = xp.as_strided(array, tuple(shape), tuple(strides))
    return longer
