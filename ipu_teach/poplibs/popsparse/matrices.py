"""Sparse matrices on the host: the positions of their stored blocks, and the values of the blocks.

A block is a small dense matrix; a block of 1 x 1 is a single value. Rows and columns are counted in
blocks. A stored block may contain zeros, which are multiplied like other values.
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

MOST_BLOCK = 2**15  # The maximum number of rows, and of columns, of a block.
ORDER = (
    "put the blocks in order of rows, and of columns within a row: order = np.lexsort((columns, "
    "rows))."
)


class SparseMatrix:
    """The base class of sparse matrices in coordinate form and in row form.

    `shape` is counted in values, and `block` is the shape of a block. `rows` and `columns`, both
    int64[blocks], are the position of each block, counted in blocks. `values` is [blocks, *block].
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
        """Check the arguments, and set all attributes of the matrix.

        :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
        """
        self.shape, self.block = checked_sizes(shape, block)
        self.rows = rows
        self.columns = _numbers("columns", columns)
        if len(self.rows) != len(self.columns):
            raise refused(f"""was given row numbers for {len(rows):,} blocks, but column numbers for
                {len(self.columns):,}.
                next:  give a row and a column for each block.""")
        for name, block_places, num_places in (
            ("row", self.rows, self.block_rows),
            ("column", self.columns, self.block_columns),
        ):
            invalid_places = block_places[(block_places < 0) | (block_places >= num_places)]
            if invalid_places.size:
                raise refused(f"""was given a block in {name} {invalid_places[0]}, but there are
                    {num_places:,} {name}s of blocks.
                    next:  count rows and columns in blocks, from 0.""")
        self._check_order()
        self.values = self._as_values(values)

    def _check_order(self) -> None:
        positions = self.rows * self.block_columns + self.columns
        disordered = np.flatnonzero(positions[1:] <= positions[:-1])
        if not disordered.size:
            return
        first_disordered = int(disordered[0])
        earlier, later = (
            (int(self.rows[block]), int(self.columns[block]))
            for block in (first_disordered, first_disordered + 1)
        )
        if earlier == later:
            raise refused(f"""was given the block in row {earlier[0]}, column {earlier[1]} twice.
                next:  give each block once; add the values of duplicate blocks.""")
        raise refused(
            f"was given the block in row {later[0]}, column {later[1]} after the block in row "
            f"{earlier[0]}, column {earlier[1]}.",
            next_step=ORDER,
        )

    def _as_values(self, values: ArrayLike) -> Array:
        array = np.asarray(values)
        values_shape = (len(self.rows), *self.block)
        if array.dtype.kind not in "fiu" or array.size != len(self.rows) * self.block_size:
            raise refused(f"""was given values of shape {array.shape} and dtype {array.dtype} for
                {len(self.rows):,} blocks of {self.block[0]} x {self.block[1]}.
                next:  give an array of numbers of shape {values_shape}.""")
        return array.reshape(values_shape)

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
        """The fraction of values that are stored, from 0 to 1."""
        return self.num_nz / max(1, self.shape[0] * self.shape[1])

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.shape[0]:,} x {self.shape[1]:,}, {self.num_blocks:,} "
            f"blocks of {self.block[0]} x {self.block[1]}, density {self.density:.4g})"
        )

    def same_pattern(self, other: SparseMatrix) -> bool:
        """Return whether `other` stores blocks of the same size at the same positions as `self`.

        The shapes of the matrices must be equal, too.

        :raises PoplibsError: if `other` is not a sparse matrix.
        """
        if not isinstance(other, SparseMatrix):
            raise PoplibsError(
                f"same_pattern() was given {shown(other)}, which is not a sparse matrix.",
                next_step="give a CSRMatrix or a COOMatrix.",
            )
        return (
            (self.shape, self.block) == (other.shape, other.block)
            and np.array_equal(self.rows, other.rows)
            and np.array_equal(self.columns, other.columns)
        )

    def to_dense(self) -> Array:
        """Return the full matrix as an array, with zeros in the blocks that are not stored."""
        blocks = np.zeros((self.block_rows, self.block_columns, *self.block), self.values.dtype)
        blocks[self.rows, self.columns] = self.values
        dense: Array = blocks.transpose(0, 2, 1, 3).reshape(self.shape)
        return dense


class COOMatrix(SparseMatrix):
    """A sparse matrix in coordinate form: the row and the column of each block, in row-major order.

    `shape` is counted in values; rows and columns are counted in blocks. `values` is [blocks,
    *block], or [blocks] for blocks of 1 x 1.

    :raises PoplibsError: if blocks are duplicate, unordered or outside the shape, or the block does
        not divide the shape.
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
    @library
    def from_dense(cls, array: ArrayLike, block: Sequence[int] = (1, 1)) -> COOMatrix:
        """Return a sparse matrix with the blocks of `array` that contain a nonzero value."""
        dense = np.asarray(array)
        return COOMatrix(dense.shape, *_found(dense, block), block)

    def to_csr(self) -> CSRMatrix:
        """Return a matrix in row form that stores the same blocks."""
        blocks_of_row = np.bincount(self.rows, minlength=self.block_rows)
        offsets = np.concatenate(([0], np.cumsum(blocks_of_row)))
        return CSRMatrix(self.shape, offsets, self.columns, self.values, block=self.block)


@advised("give a CSRMatrix; a COOMatrix has to_csr().")
class CSRMatrix(SparseMatrix):
    """A sparse matrix in row form: its blocks are sorted by row.

    Row r consists of the blocks with the indices `row_offsets[r]` to `row_offsets[r + 1]` - 1. The
    other parameters and the errors are those of `COOMatrix`.
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
        valid_shape, (block_height, _) = checked_sizes(shape, block)
        offsets = _numbers("row_offsets", row_offsets)
        num_blocks = _numbers("columns", columns).size
        num_rows = valid_shape[0] // block_height
        if (
            len(offsets) != num_rows + 1
            or offsets[0]
            or offsets[-1] != num_blocks
            or _falls(offsets)
        ):
            raise refused(f"""was given {len(offsets):,} row_offsets for {num_rows:,} rows and
                {num_blocks:,} blocks.
                next:  give {num_rows + 1:,} numbers that begin with 0, never decrease, and end with
                {num_blocks:,}.""")
        self.row_offsets = offsets
        rows = np.repeat(np.arange(num_rows), np.diff(offsets))
        self._fill(shape, rows, columns, values, block=block)

    @classmethod
    @library
    def from_dense(cls, array: ArrayLike, block: Sequence[int] = (1, 1)) -> CSRMatrix:
        """Return a sparse matrix with the blocks of `array` that contain a nonzero value."""
        dense = np.asarray(array)
        return COOMatrix(dense.shape, *_found(dense, block), block).to_csr()

    def to_coo(self) -> COOMatrix:
        """Return a matrix in coordinate form that stores the same blocks."""
        return COOMatrix(self.shape, self.rows, self.columns, self.values, block=self.block)

    def with_values(self, values: ArrayLike) -> CSRMatrix:
        """Return a matrix with blocks at the same positions, but with these values."""
        return CSRMatrix(self.shape, self.row_offsets, self.columns, values, block=self.block)


def _falls(offsets: Array) -> bool:
    return bool(np.any(np.diff(offsets) < 0))


def _numbers(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise as_given(values, name, "give a one-dimensional array of whole numbers.")
    return array.astype(np.int64)


def checked_sizes(
    shape: Sequence[int], block: Sequence[int]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return `(shape, block)` as pairs of integers.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or the block does not
        divide the shape.
    """
    valid_shape = check_shape(shape)
    is_pair = isinstance(block, (list, tuple)) and len(block) == 2
    if not is_pair or not all(is_count(size, 1) and size <= MOST_BLOCK for size in block):
        raise as_given(block, "block", "give the numbers of rows and columns, as in (16, 16).")
    if len(valid_shape) != 2:
        raise as_given(shape, "shape", "give the numbers of rows and columns, as in (4096, 4096).")
    height, width = (int(size) for size in block)
    if valid_shape[0] % height or valid_shape[1] % width:
        raise refused(f"""was given the shape {valid_shape} in blocks of {height} x {width}, which
            do not divide it.
            next:  enlarge the matrix with zeros, or use smaller blocks.""")
    return (valid_shape[0], valid_shape[1]), (height, width)


def _found(array: Array, block: Sequence[int]) -> tuple[Array, Array, Array]:
    """Return `(rows, columns, values)` of the blocks of `array` that contain a nonzero value.

    `rows` and `columns` contain the positions of these blocks, counted in blocks. `values` is
    [blocks, *block].
    """
    (num_rows, num_columns), (height, width) = checked_sizes(array.shape, block)
    blocks = array.reshape(num_rows // height, height, num_columns // width, width).transpose(
        0, 2, 1, 3
    )
    block_indices = np.nonzero((blocks != 0).any(axis=(2, 3)))
    return block_indices[0], block_indices[1], blocks[block_indices]


def square(block: tuple[int, int]) -> int:
    """Return the number of rows of a square block, which is also its number of columns.

    :raises PoplibsError: unless the block is square and of a size that the products support.
    """
    if block[0] != block[1] or block[0] not in BLOCKS:
        size_text = ", ".join(f"{length} x {length}" for length in BLOCKS)
        raise refused(f"""multiplies blocks of {size_text}, but was given {block[0]} x {block[1]}.
            next:  create the matrix with such blocks: CSRMatrix.from_dense(array, (16, 16)).""")
    return block[0]
