"""Products of matrices of halves, many at a time, with numpy's bits.

numpy multiplies halves one by one: the products are exact, they are added in single precision in
the order of the terms, and the sum is rounded once. Single precision represents a product of two
halves exactly. So any loop that adds the terms of each element in order, starting from zero, gives
the same bits. numpy's einsum does so if its innermost loop runs along an axis that is not summed.
Operands are copied as singles in such a way that such an axis is innermost: the longest of rows,
columns and vertices.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ipu_teach.engine.backend import Call
from ipu_teach.types import Array

LONG = 16  # innermost axes of at least this length are worth the start of a loop
BLOCK_BYTES = 512 * 1024  # the copies of one block, which fit a core's second-level cache

# einsum's subscripts for the axes of the copies, by innermost axis.
_SUMS = {"columns": "...ij,...jk->...ik", "vertices": "ij...,jk...->ik..."}


class HalfProducts:
    """Makes the calls for products of matrices of halves.

    The copies of all products share memory, of which there is as much as the largest copy needs.
    With `exact=False`, BLAS decides the order of the sums.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._scratch: dict[str, Array] = {}

    def calls(self, left: Array, right: Array, out: Array) -> list[Call]:
        """Return the calls for (..., m, k) @ (..., k, n) into (..., m, n), all float16.

        Axes of length 1 are shared.
        """
        if out.shape[-2] > out.shape[-1]:  # then transpose, so that columns are the longer axis
            left, right, out = (
                operand_array.swapaxes(-1, -2) for operand_array in (right, left, out)
            )
        (num_rows, num_columns) = out.shape[-2:]
        inner_length = left.shape[-1]
        # with only one column, rearranging costs more than numpy's own loop
        if self._exact and num_columns < 2:
            return [(np.matmul, (left, right, out))]
        calls: list[Call] = []
        # Along an axis on which no operand depends, the product is computed once.
        lead_shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        products_per_block = max(
            1,
            BLOCK_BYTES
            // (
                4 * (num_rows * inner_length + inner_length * num_columns + num_rows * num_columns)
                or 1
            ),
        )
        # copies of operands that all vertices share, by (number of the operand, way)
        shared: dict[tuple[int, str], Array] = {}
        for block in _blocks(lead_shape, products_per_block):
            block_result = out[_within(lead_shape, block)]
            method = self._way(
                num_columns,
                prod(
                    np.broadcast_shapes(
                        *(
                            operand_array[_within(operand_array.shape, block)].shape[:-2]
                            for operand_array in (left, right)
                        )
                    )
                ),
            )
            operands = []
            for operand_number, operand in enumerate((left, right)):
                copy = shared.get((operand_number, method))
                if copy is None:
                    is_shared = prod(operand.shape[:-2]) == 1
                    copy, call = self._copy(
                        f"{method} {operand_number}",
                        operand[_within(operand.shape, block)],
                        method,
                        is_shared,
                    )
                    calls.append(call)
                    if is_shared:
                        shared[operand_number, method] = copy
                operands.append(copy)
            block_result = _turned(block_result, method)
            lead_shapes = [
                operand_array.shape[2:] if method == "vertices" else operand_array.shape[:-2]
                for operand_array in operands
            ]
            matrix_shape = (
                block_result.shape[:2] if method == "vertices" else block_result.shape[-2:]
            )
            product_shape = np.broadcast_shapes(*lead_shapes)
            result = self._buffer(
                "out",
                (*matrix_shape, *product_shape)
                if method == "vertices"
                else (*product_shape, *matrix_shape),
            )
            if method == "blas":
                calls.append((np.matmul, (*operands, result)))
            else:
                calls.append((sum_products, (_SUMS[method], *operands, result)))
            calls.append((np.copyto, (block_result, result, "same_kind")))
        return calls

    def _way(self, n: int, count: int) -> str:
        """Return the innermost axis, "columns" or "vertices", or "blas" for any order."""
        if not self._exact:
            return "blas"
        return "vertices" if n < LONG and count > n else "columns"

    def _copy(self, name: str, operand: Array, way: str, is_shared: bool) -> tuple[Array, Call]:
        """Return (copy of an operand, call that makes it).

        A copy that `is_shared` by all blocks has its own memory.
        """
        turned = _turned(operand, way)
        copy = np.empty(turned.shape, np.float32) if is_shared else self._buffer(name, turned.shape)
        return copy, (np.copyto, (copy, turned))

    def _buffer(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return the memory with that name in this shape, enlarged if necessary."""
        size = prod(shape)
        if name not in self._scratch or len(self._scratch[name]) < size:
            self._scratch[name] = np.empty(size, np.float32)
        buffer: Array = self._scratch[name][:size].reshape(shape)
        return buffer


def sum_products(form: str, left: Array, right: Array, out: Array) -> None:
    """Compute products of matrices by einsum, with the subscripts `form`, into `out`."""
    np.einsum(form, left, right, out=out)


def _turned(array: Array, way: str) -> Array:
    """Return a view of an operand with the axes of its copy."""
    return np.moveaxis(array, (-2, -1), (0, 1)) if way == "vertices" else array


def _within(shape: tuple[int, ...], block: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return the part of an array of this shape that is in a block. Axes of length 1 stay."""
    return tuple(slice(None) if n == 1 else part for n, part in zip(shape, block, strict=False))


def _blocks(lead_shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Yield blocks of the leading axes, of at most `limit` elements each."""
    if not lead_shape:
        yield ()
        return
    elements_below = prod(lead_shape[1:])
    if elements_below > limit:
        for index in range(lead_shape[0]):
            for inner_block in _blocks(lead_shape[1:], limit):
                yield (slice(index, index + 1), *inner_block)
        return
    rows_per_block = max(1, limit // max(1, elements_below))
    for index in range(0, lead_shape[0], rows_per_block):
        yield (slice(index, index + rows_per_block), *(slice(None) for _ in lead_shape[1:]))
