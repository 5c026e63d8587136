"""Sparse matrices on the host: their stored blocks, in order of rows, and the values.

A block is a small dense matrix; a block of 1 x 1 is a single value. Rows and columns are counted in
blocks. Every listed block is stored, whatever its values: zeros in it are stored and multiplied,
too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.cost.vertices.popsparse import BLOCKS
from ipu_teach.errors import PoplibsError, shown
from ipu_teach.poplibs.library import advised, as_given, check_shape, is_count, library, refused
from ipu_teach.types import Array

__all__ = ["COOMatrix", "CSRMatrix"]

MOST_BLOCK = 2**15  # rows or columns of a block
ORDER = (
    "put the blocks in order of rows, and of columns within a row: order = np.lexsort((columns, "
    "rows))."
)


class SparseMatrix:
    """The common part of both forms of sparse matrices.

    `rows` and `columns`, int64[blocks], are the position of each block; `values` is [blocks,
    *block].
    """

    shape: tuple[int, int]
    block: tuple[int, int]
    rows: Array
    columns: Array
    values: Array

    def _fill(
        self,
        shape: Sequence[int],
        rows: Array,
        columns: ArrayLike,
        values: ArrayLike,
        block: Sequence[int],
    ) -> None:
        """Set all attributes after a check. Raises `PoplibsError`."""
        self.shape, self.block = _sizes(shape, block)
        self.rows = rows
        self.columns = _numbers("columns", columns)
        if len(self.rows) != len(self.columns):
            raise refused(f"""was given {len(rows):,} rows and {len(self.columns):,} columns of
                blocks.
                next:  give a row and a column for each block.""")
        for name, places, count in (
            ("row", self.rows, self.block_rows),
            ("column", self.columns, self.block_columns),
        ):
            outside = places[(places < 0) | (places >= count)]
            if outside.size:
                raise refused(f"""was given a block in {name} {outside[0]}; there are {count:,}
                    {name}s of blocks.
                    next:  rows and columns are counted in blocks, from 0.""")
        self._check_order()
        self.values = self._as_values(values)

    def _check_order(self) -> None:
        places = self.rows * self.block_columns + self.columns
        wrong = np.flatnonzero(places[1:] <= places[:-1])
        if not wrong.size:
            return
        first = int(wrong[0])
        place, after = ((int(self.rows[i]), int(self.columns[i])) for i in (first, first + 1))
        if place == after:
            raise refused(f"""was given the block in row {place[0]}, column {place[1]} twice.
                next:  give each block once; add up the values of those that are there twice.""")
        raise refused(
            f"was given the block in row {after[0]}, column {after[1]} after that in row "
            f"{place[0]}, column {place[1]}.",
            next_step=ORDER,
        )

    def _as_values(self, values: ArrayLike) -> Array:
        array = np.asarray(values)
        wanted = (len(self.rows), *self.block)
        if array.dtype.kind not in "fiu" or array.size != len(self.rows) * self.block_size:
            raise refused(f"""was given values of shape {array.shape} and dtype {array.dtype} for
                {len(self.rows):,} blocks of {self.block[0]} x {self.block[1]}.
                next:  give an array of numbers of shape {wanted}.""")
        return array.reshape(wanted)

    @property
    def block_size(self) -> int:
        """The number of values of a block."""
        return self.block[0] * self.block[1]

    @property
    def block_rows(self) -> int:
        """The number of rows of blocks."""
        return self.shape[0] // self.block[0]

    @property
    def block_columns(self) -> int:
        """The number of columns of blocks."""
        return self.shape[1] // self.block[1]

    @property
    def num_blocks(self) -> int:
        """The number of stored blocks."""
        return len(self.rows)

    @property
    def num_nz(self) -> int:
        """The number of stored values."""
        return self.num_blocks * self.block_size

    @property
    def density(self) -> float:
        """The share of values that are stored, from 0 to 1."""
        return self.num_nz / max(1, self.shape[0] * self.shape[1])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.shape[0]:,} x {self.shape[1]:,}, {self.num_blocks:,} "
            f"blocks of {self.block[0]} x {self.block[1]}, density {self.density:.4g})"
        )

    def same_pattern(self, other: SparseMatrix) -> bool:
        """Return whether both matrices store the same blocks."""
        if not isinstance(other, SparseMatrix):
            raise PoplibsError(
                f"same_pattern() was given {shown(other)} as other.",
                next_step="give a CSRMatrix or a COOMatrix.",
            )
        return (
            (self.shape, self.block) == (other.shape, other.block)
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.columns, other.columns)
        )

    def to_dense(self) -> Array:
        """Return the full matrix, with zeros in the blocks that are not stored."""
        blocks = np.zeros((self.block_rows, self.block_columns, *self.block), self.values.dtype)
        blocks[self.rows, self.columns] = self.values
        dense: Array = blocks.transpose(0, 2, 1, 3).reshape(self.shape)
        return dense


class COOMatrix(SparseMatrix):
    """A sparse matrix in coordinate form: the row and the column of each block, in row-major order.

    `shape` is in values; `values` is [blocks, *block], or [blocks] for blocks of 1 x 1. Raises
    `PoplibsError` for duplicate or unordered blocks, a shape that the block does not divide, and
    blocks outside the shape.
    """

    @library
    def __init__(
        self,
        shape: Sequence[int],
        rows: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        block: Sequence[int] = (1, 1),
    ) -> None:
        self._fill(shape, _numbers("rows", rows), columns, values, block=block)

    @classmethod
    def from_dense(cls, array: ArrayLike, block: Sequence[int] = (1, 1)) -> COOMatrix:
        """Return a matrix with the blocks of `array` in which any value is not 0."""
        dense = np.asarray(array)
        return COOMatrix(dense.shape, *_found(dense, block), block)

    def to_csr(self) -> CSRMatrix:
        """Return the same blocks in the form with row offsets."""
        counts = np.bincount(self.rows, minlength=self.block_rows)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        return CSRMatrix(self.shape, offsets, self.columns, self.values, block=self.block)


@advised("give a CSRMatrix; a COOMatrix has to_csr().")
class CSRMatrix(SparseMatrix):
    """A sparse matrix in row form: row r has the blocks `row_offsets[r]` to `row_offsets[r + 1]`.

    Otherwise it is like `COOMatrix`, with the same errors.
    """

    row_offsets: Array

    @library
    def __init__(
        self,
        shape: Sequence[int],
        row_offsets: ArrayLike,
        columns: ArrayLike,
        values: ArrayLike,
        block: Sequence[int] = (1, 1),
    ) -> None:
        sizes, (high, _) = _sizes(shape, block)
        offsets = _numbers("row_offsets", row_offsets)
        blocks = _numbers("columns", columns).size
        count = sizes[0] // high
        if len(offsets) != count + 1 or offsets[0] or offsets[-1] != blocks or _falls(offsets):
            raise refused(f"""was given {len(offsets):,} row_offsets for {count:,} rows and
                {blocks:,} blocks.
                next:  give {count + 1:,} that begin with 0, never fall, and end with
                {blocks:,}.""")
        self.row_offsets = offsets
        rows = np.repeat(np.arange(count), np.diff(offsets))
        self._fill(shape, rows, columns, values, block=block)

    @classmethod
    def from_dense(cls, array: ArrayLike, block: Sequence[int] = (1, 1)) -> CSRMatrix:
        """Return a matrix with the blocks of `array` in which any value is not 0."""
        return COOMatrix.from_dense(array, block).to_csr()

    def to_coo(self) -> COOMatrix:
        """Return the same blocks in coordinate form."""
        return COOMatrix(self.shape, self.rows, self.columns, self.values, block=self.block)

    def with_values(self, values: ArrayLike) -> CSRMatrix:
        """Return the same blocks with other values."""
        return CSRMatrix(self.shape, self.row_offsets, self.columns, values, block=self.block)


def _falls(offsets: Array) -> bool:
    return bool(np.any(np.diff(offsets) < 0))


def _numbers(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise as_given(values, name, "give a row of whole numbers.")
    return array.astype(np.int64)


def _sizes(shape: Sequence[int], block: Sequence[int]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return (shape, block) as pairs of integers after a check. Raises `PoplibsError`."""
    sizes = check_shape(shape)
    pair = isinstance(block, (list, tuple)) and len(block) == 2
    if not pair or not all(is_count(n, 1) and n <= MOST_BLOCK for n in block):
        raise as_given(block, "block", "give the rows and columns of a block: (16, 16).")
    if len(sizes) != 2:
        raise as_given(shape, "shape", "give rows and columns: (4096, 4096).")
    high, wide = (int(n) for n in block)
    if sizes[0] % high or sizes[1] % wide:
        raise refused(f"""was given the shape {sizes} in blocks of {high} x {wide}, which do not
            divide it.
            next:  make the matrix larger with zeros, or take smaller blocks.""")
    return (sizes[0], sizes[1]), (high, wide)


@library
def _found(array: Array, block: Sequence[int]) -> tuple[Array, Array, Array]:
    """Return (rows, columns, values) of the blocks of a matrix with any value that is not 0."""
    (rows, columns), (high, wide) = _sizes(array.shape, block)
    blocks = array.reshape(rows // high, high, columns // wide, wide).transpose(0, 2, 1, 3)
    places = np.nonzero((blocks != 0).any(axis=(2, 3)))
    return places[0], places[1], blocks[places]


def square(block: tuple[int, int]) -> int:
    """Return the length of a square block that the products support. Raises `PoplibsError`."""
    if block[0] != block[1] or block[0] not in BLOCKS:
        sizes = ", ".join(f"{b} x {b}" for b in BLOCKS)
        raise refused(f"""multiplies blocks of {sizes}, but was given {block[0]} x {block[1]}.
            next:  make the matrix in such blocks: CSRMatrix.from_dense(array, (16, 16)).""")
    return block[0]
