"""Products of matrices of halves, many at a time, with the bits of numpy's own.

numpy multiplies halves one by one: exact products, added in single precision in the order of the
terms, rounded once. Single precision holds a product of two halves exactly, so any loop that adds
the terms of each element in their order, from zero on, gives the same bits. numpy's einsum does,
where its innermost loop runs along an axis that is not summed up: operands are copied as singles so
that such an axis lies innermost, the longest of rows, columns and vertices.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ipu_teach.engine.backend import Call
from ipu_teach.types import Array

LONG = 16  # elements from which on an innermost axis is worth its start
BLOCK_BYTES = 512 * 1024  # copies of one block: stay inside a core's second-level cache

# How einsum writes it where the innermost axis is that of columns or vertices; in the axes of the
# copies.
_SUMS = {"columns": "...ij,...jk->...ik", "vertices": "ij...,jk...->ik..."}


class HalfProducts:
    """Makes the calls for such products. What they copy to is made once, as large as the largest
    needs it.

    `exact=False` leaves the order of adding to BLAS.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._scratch: dict[str, Array] = {}

    def calls(self, left: Array, right: Array, out: Array) -> list[Call]:
        """The calls for (..., m, k) @ (..., k, n) into (..., m, n), all float16; axes of length 1
        are shared."""
        if out.shape[-2] > out.shape[-1]:  # columns are the longer axis of the product turned round
            left, right, out = (x.swapaxes(-1, -2) for x in (right, left, out))
        (m, n), k = out.shape[-2:], left.shape[-1]
        # single sums: to lay them side by side costs more than numpy's own loop
        if self._exact and n < 2:
            return [(np.matmul, (left, right, out))]
        made: list[Call] = []
        # what no operand varies along is computed once
        lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        most = max(1, BLOCK_BYTES // (4 * (m * k + k * n + m * n) or 1))
        shared: dict[tuple[int, str], Array] = {}  # copies of operands that all vertices share
        for block in _blocks(lead, most):
            place = out[_within(lead, block)]
            way = self._way(
                n,
                prod(
                    np.broadcast_shapes(
                        *(x[_within(x.shape, block)].shape[:-2] for x in (left, right))
                    )
                ),
            )
            operands = []
            for number, operand in enumerate((left, right)):
                copy = shared.get((number, way))
                if copy is None:
                    kept = prod(operand.shape[:-2]) == 1
                    copy, call = self._copy(
                        f"{way} {number}", operand[_within(operand.shape, block)], way, kept
                    )
                    made.append(call)
                    if kept:
                        shared[number, way] = copy
                operands.append(copy)
            place = _turned(place, way)
            own = [x.shape[2:] if way == "vertices" else x.shape[:-2] for x in operands]
            inner = place.shape[:2] if way == "vertices" else place.shape[-2:]
            summed = np.broadcast_shapes(*own)
            result = self._buffer(
                "out", (*inner, *summed) if way == "vertices" else (*summed, *inner)
            )
            if way == "blas":
                made.append((np.matmul, (*operands, result)))
            else:
                made.append((sum_products, (_SUMS[way], *operands, result)))
            made.append((np.copyto, (place, result, "same_kind")))
        return made

    def _way(self, n: int, count: int) -> str:
        """Which axis lies innermost: one of two elements or more, or the sum itself would be."""
        if not self._exact:
            return "blas"
        return "vertices" if n < LONG and count > n else "columns"

    def _copy(self, name: str, operand: Array, way: str, kept: bool) -> tuple[Array, Call]:
        """A copy of an operand, of its own if it is `kept` for all blocks, and the call that makes
        it."""
        turned = _turned(operand, way)
        copy = np.empty(turned.shape, np.float32) if kept else self._buffer(name, turned.shape)
        return copy, (np.copyto, (copy, turned))

    def _buffer(self, name: str, shape: tuple[int, ...]) -> Array:
        size = prod(shape)
        if name not in self._scratch or len(self._scratch[name]) < size:
            self._scratch[name] = np.empty(size, np.float32)
        buffer: Array = self._scratch[name][:size].reshape(shape)
        return buffer


def sum_products(form: str, left: Array, right: Array, out: Array) -> None:
    """Products of matrices, as einsum writes them in `form`, into `out`."""
    np.einsum(form, left, right, out=out)


def _turned(array: Array, way: str) -> Array:
    """A view with the axes of a copy."""
    return np.moveaxis(array, (-2, -1), (0, 1)) if way == "vertices" else array


def _within(shape: tuple[int, ...], block: tuple[slice, ...]) -> tuple[slice, ...]:
    return tuple(slice(None) if n == 1 else part for n, part in zip(shape, block, strict=False))


def _blocks(lead: tuple[int, ...], most: int) -> Iterator[tuple[slice, ...]]:
    """Parts of the leading axes, of at most `most` elements each."""
    if not lead:
        yield ()
        return
    inner = prod(lead[1:])
    if inner > most:
        for i in range(lead[0]):
            for rest in _blocks(lead[1:], most):
                yield (slice(i, i + 1), *rest)
        return
    step = max(1, most // max(1, inner))
    for i in range(0, lead[0], step):
        yield (slice(i, i + step), *(slice(None) for _ in lead[1:]))
