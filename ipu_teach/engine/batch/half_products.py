"""Many products of matrices of halves at once, with the same bits as numpy's products.

numpy multiplies halves one by one: the products are exact, they are added in single precision in
the order of the terms, and the sum is rounded once. Single precision represents a product of two
halves exactly. So any loop that adds the terms of each element in order, starting from zero, gives
the same bits. numpy's einsum is such a loop if its innermost axis is not summed. So the operands
are copied as singles, with a long axis innermost: the rows, the columns or the vertices.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from ipu_teach.engine.backend import Call
from ipu_teach.types import Array

LONG = 16  # The minimum length of an innermost axis that is worth a loop.
# The maximum number of bytes of a block's copies, which fit a core's second-level cache.
BLOCK_BYTES = 512 * 1024

# Maps each method to its subscripts for einsum. A method is named after the innermost axis of the
# operands' copies: "columns" or "vertices".
_SUMS = {"columns": "...ij,...jk->...ik", "vertices": "ij...,jk...->ik..."}


class HalfProducts:
    """Returns the calls for products of matrices of halves.

    The products share scratch arrays, which grow to the size of the largest copy. With
    `exact=False`, BLAS decides the order of the sums.
    """

    def __init__(self, exact: bool) -> None:
        self._exact = exact
        self._scratch: dict[str, Array] = {}

    def calls(self, left: Array, right: Array, out: Array) -> list[Call]:
        """Return the calls that store `left @ right` in `out`; all three are float16.

        Their shapes are (..., m, k), (..., k, n) and (..., m, n). If all products along a leading
        axis share an operand, this axis has length 1 in the operand.
        """
        # If the result has more rows than columns, compute its transpose.
        if out.shape[-2] > out.shape[-1]:
            left, right, out = (
                operand_array.swapaxes(-1, -2) for operand_array in (right, left, out)
            )
        (num_rows, num_columns) = out.shape[-2:]
        inner_length = left.shape[-1]
        # With only one column, rearranging costs more than numpy's own loop.
        if self._exact and num_columns < 2:
            return [(np.matmul, (left, right, out))]
        # If an axis has length 1 in both operands, all results along it are equal, so they are
        # computed once.
        lead_shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        elements = num_rows * inner_length + inner_length * num_columns + num_rows * num_columns
        products_per_block = max(1, BLOCK_BYTES // (4 * elements or 1))
        # The copies of operands that all vertices share. The key is (index of the operand, method).
        shared: dict[tuple[int, str], Array] = {}
        return [
            call
            for block in _blocks(lead_shape, products_per_block)
            for call in self._block_calls((left, right), out, block, shared)
        ]

    def _block_calls(
        self,
        operands: tuple[Array, Array],
        out: Array,
        block: tuple[slice, ...],
        shared: dict[tuple[int, str], Array],
    ) -> list[Call]:
        """Return the calls for one block of products: copy the operands, multiply, store.

        `block` selects the products along the leading axes. Copies that all blocks share are added
        to `shared`.
        """
        parts = [operand[_within(operand.shape, block)] for operand in operands]
        num_products = prod(np.broadcast_shapes(*(part.shape[:-2] for part in parts)))
        method = self._way(out.shape[-1], num_products)
        calls: list[Call] = []
        copies = []
        for number, (operand, part) in enumerate(zip(operands, parts, strict=True)):
            copy = shared.get((number, method))
            if copy is None:
                is_shared = prod(operand.shape[:-2]) == 1
                copy, call = self._copy(f"{method} {number}", part, method, is_shared)
                calls.append(call)
                if is_shared:
                    shared[number, method] = copy
            copies.append(copy)
        lead_shape = np.broadcast_shapes(*(operand.shape[:-2] for operand in operands))
        block_result = _turned(out[_within(lead_shape, block)], method)
        result = self._result_buffer(copies, block_result, method)
        if method == "blas":
            calls.append((np.matmul, (*copies, result)))
        else:
            calls.append((sum_products, (_SUMS[method], *copies, result)))
        calls.append((np.copyto, (block_result, result, "same_kind")))
        return calls

    def _result_buffer(self, copies: list[Array], block_result: Array, method: str) -> Array:
        """Return scratch memory for a block's products in single precision."""
        if method == "vertices":
            lead_shape = np.broadcast_shapes(*(copy.shape[2:] for copy in copies))
            return self._buffer("out", (*block_result.shape[:2], *lead_shape))
        lead_shape = np.broadcast_shapes(*(copy.shape[:-2] for copy in copies))
        return self._buffer("out", (*lead_shape, *block_result.shape[-2:]))

    def _way(self, n: int, count: int) -> str:
        """Return the method for `count` products with `n` columns each.

        The methods "columns" and "vertices" are named after the innermost axis of the operands'
        copies. The method is "blas" if the order of the sums does not matter.
        """
        if not self._exact:
            return "blas"
        return "vertices" if n < LONG and count > n else "columns"

    def _copy(self, name: str, operand: Array, way: str, is_shared: bool) -> tuple[Array, Call]:
        """Return (array for a copy of an operand in single precision, the call that copies it).

        A copy that all blocks share (`is_shared`) has its own memory. Any other copy uses the
        scratch memory `name`. `way` is the method, such as "columns".
        """
        turned = _turned(operand, way)
        copy = np.empty(turned.shape, np.float32) if is_shared else self._buffer(name, turned.shape)
        return copy, (np.copyto, (copy, turned))

    def _buffer(self, name: str, shape: tuple[int, ...]) -> Array:
        """Return the scratch memory called `name` in this shape, enlarged if necessary."""
        size = prod(shape)
        if name not in self._scratch or len(self._scratch[name]) < size:
            self._scratch[name] = np.empty(size, np.float32)
        buffer: Array = self._scratch[name][:size].reshape(shape)
        return buffer


def sum_products(form: str, left: Array, right: Array, out: Array) -> None:
    """Compute matrix products with einsum into `out`; `form` are the subscripts."""
    np.einsum(form, left, right, out=out)


def _turned(array: Array, way: str) -> Array:
    """Return a view of an array with its axes in the order that the method `way` needs.

    For "vertices", the two axes of the matrix come first.
    """
    return np.moveaxis(array, (-2, -1), (0, 1)) if way == "vertices" else array


def _within(shape: tuple[int, ...], block: tuple[slice, ...]) -> tuple[slice, ...]:
    """Return the index of a block in an array with the leading axes of `shape`.

    Axes of length 1 are shared by all blocks, so they are selected completely.
    """
    return tuple(slice(None) if n == 1 else part for n, part in zip(shape, block, strict=False))


def _blocks(lead_shape: tuple[int, ...], limit: int) -> Iterator[tuple[slice, ...]]:
    """Yield the blocks into which the leading axes are divided, each as an index.

    A block has at most `limit` elements.
    """
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
