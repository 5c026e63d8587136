"""The partition of a dynamic sparse product, and the data that the host writes for it.

The sparse matrix is divided into rectangular parts of whole blocks. Each part has a *bucket*, which
is a number of slots on a tile; a slot can store one block. A bucket has 30 % more slots
(`OVERSIZE`) than its equal share of the greatest permitted number of blocks. But it has at most one
slot for each position of a block in its part. If a part has more blocks than its bucket has slots,
the remaining blocks *spill*: they are stored in the nearest previous bucket with an empty slot.

On the device, the buckets move around a ring of all parts, one part per step, until every spilled
block has reached the tile of its own part. One program therefore works for any pattern that does
not exceed the greatest number of blocks, and an uneven pattern costs steps instead of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.cost.vertices.parts import ceil_div
from ipu_teach.cost.vertices.popsparse import dynamic_product, static_reduction, zeroing
from ipu_teach.poplibs.library import as_given, check_sizes, is_count, library, refused
from ipu_teach.poplibs.placing import balanced_partition, sensible_parts
from ipu_teach.poplibs.popsparse.matrices import COOMatrix, CSRMatrix, checked_sizes, square
from ipu_teach.poplibs.popsparse.static_plan import (
    MEMORY_PROPORTION,
    check_types,
    fitting,
    spread,
)
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, Array, DType

OVERSIZE = 0.3  # The default of PopLibs' option metaInfoBucketOversizeProportion.
EMPTY = 0xFFFF  # The part number that the host writes for an empty slot.
PLACES = 3  # Numbers per slot: the part of its block, and the row and column in the part.


@dataclass(frozen=True)
class MatMulParams:
    """The sizes of a product [m, k] x [k, n] whose sparse operand has at most `num_blocks` blocks.

    Blocks have the shape `block`. Create the parameters with `create_with_nz_ratio` or
    `create_with_num_non_zero_values`.
    """

    m: int
    k: int
    n: int
    block: tuple[int, int]
    num_blocks: int

    @classmethod
    @library
    def create_with_nz_ratio(
        cls, m: int, k: int, n: int, nz_ratio: float, block: Sequence[int] = (1, 1)
    ) -> MatMulParams:
        """Return parameters for at most `nz_ratio` of the m x k values of the sparse operand.

        `nz_ratio` is above 0 and at most 1. The number of values is rounded up to whole blocks.

        :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
        """
        return _params(m, k, n, nz_ratio, num_nz=None, block=block)

    @classmethod
    @library
    def create_with_num_non_zero_values(
        cls, m: int, k: int, n: int, num_nz: int, block: Sequence[int] = (1, 1)
    ) -> MatMulParams:
        """Return parameters for at most `num_nz` stored values of the sparse operand.

        The number is rounded up to whole blocks.

        :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
        """
        return _params(m, k, n, None, num_nz=num_nz, block=block)


def _params(
    m: int, k: int, n: int, ratio: float | None, num_nz: int | None, block: Sequence[int]
) -> MatMulParams:
    for name, size in (("m", m), ("k", k), ("n", n)):
        if not is_count(size, 1):
            raise as_given(size, name, "give a whole number of 1 or more.")
    _, valid_block = checked_sizes((0, 0), block)
    b = square(valid_block)
    if m % b or k % b:
        raise refused(f"""was given a matrix of {m} x {k}, which cannot be divided into blocks
            of {b} x {b}.
            next:  enlarge the matrix with zeros, or use smaller blocks.""")
    if ratio is not None:
        is_number = isinstance(ratio, (int, float, np.floating)) and not isinstance(ratio, bool)
        if not is_number or not 0 < ratio <= 1:
            raise as_given(ratio, "nz_ratio", "give a number above 0 and up to 1.")
        num_blocks = -(-m * k * ratio // (b * b))
    else:
        if num_nz is None or not is_count(num_nz, 1) or num_nz > m * k:
            raise as_given(num_nz, "num_nz", f"give a whole number from 1 to {m * k:,}.")
        num_blocks = -(-num_nz // (b * b))
    return MatMulParams(int(m), int(k), int(n), valid_block, num_blocks=int(num_blocks))


@dataclass(frozen=True)
class Cut:
    """The partition of a dynamic product, and its modelled costs.

    - `params`: the sizes of the product.
    - `dtype`: the dtype of the operands.
    - `row_parts`: the number of parts into which the sparse operand's rows are divided.
    - `column_parts`: the number of parts into which the sparse operand's columns are divided.
    - `n_parts`: the intervals (begin, end) into which the dense operand's columns are divided.
    - `slots`: the number of slots per bucket; each slot can store one block.
    - `cycles`: the cycles of a product with full buckets, without further steps.
    - `step_cycles`: the cycles of each further step, after the buckets have moved to the next
      tiles.
    - `temporary_bytes`: the bytes per tile for blocks, rows of the dense operand, and sums.
    - `num_tiles`: the number of tiles of the machine.
    """

    params: MatMulParams
    dtype: type[DType]
    row_parts: int
    column_parts: int
    n_parts: tuple[tuple[int, int], ...]
    slots: int
    cycles: int
    step_cycles: int
    temporary_bytes: int
    num_tiles: int

    @property
    def b(self) -> int:
        """The number of rows of a block, which is also its number of columns."""
        return self.params.block[0]

    @property
    def num_buckets(self) -> int:
        """The number of buckets: one for each part of the sparse operand."""
        return self.row_parts * self.column_parts

    @property
    def rows(self) -> list[tuple[int, int]]:
        """The intervals (begin, end) of the sparse operand's row parts, counted in blocks."""
        return balanced_partition(self.params.m // self.b, self.row_parts)

    @property
    def columns(self) -> list[tuple[int, int]]:
        """The intervals (begin, end) of the sparse operand's column parts, counted in blocks."""
        return balanced_partition(self.params.k // self.b, self.column_parts)

    @property
    def tiles(self) -> Array:
        """The tile that multiplies each bucket by each part of the dense columns.

        The array is int64[buckets, dense parts]. A dense part is a part of the dense operand's
        columns.
        """
        shape = self.num_buckets, len(self.n_parts)
        count = shape[0] * shape[1]
        return (np.arange(count) * self.num_tiles // count).reshape(shape)


def cut_for(
    params: MatMulParams, dtype: type[DType], target: Target, proportion: float = MEMORY_PROPORTION
) -> Cut:
    """Return the partition with the fewest modelled cycles for a product with sums of FLOAT.

    Buckets are assumed to be full. Only partitions whose temporary data fits into the fraction
    `proportion` (0 to 1) of a tile's memory are considered. If there is none, the result is the
    partition with the least temporary data.

    :raises PoplibsError: if every partition has a part that is too large for 16-bit positions.
    """
    b = params.block[0]
    bytes_per_cycle = target.exchange_bytes_per_cycle
    num_rows = params.m // b
    num_columns = params.k // b
    vector_width = target.get_vector_width(dtype)
    row_parts, column_parts, n_parts = _partitions(
        num_rows, num_columns, -(-params.n // vector_width), target.num_tiles
    )
    slots = np.ceil(params.num_blocks * (1 + OVERSIZE) / (row_parts * column_parts)).astype(
        np.int64
    )
    rows_per_part = -(-num_rows // row_parts)
    columns_per_part = -(-num_columns // column_parts)
    n_per_part = ceil_div(ceil_div(params.n, vector_width), n_parts) * vector_width
    slots = np.minimum(slots, rows_per_part * columns_per_part)
    dtypes = (dtype, FLOAT)
    bucket_bytes = slots * (b * b * dtype.size + 2 * PLACES)
    x_bytes = columns_per_part * b * n_per_part * dtype.size
    num_sums = rows_per_part * b * n_per_part
    # The cycles in which a tile copies a bucket within its memory.
    local_copy_cycles = np.ceil(bucket_bytes / target.memcpy_bytes_per_cycle)
    cycles = np.ceil(x_bytes / bytes_per_cycle) + np.where(
        n_parts > 1, np.ceil(bucket_bytes / bytes_per_cycle), local_copy_cycles
    )
    cycles = cycles + dynamic_product(
        rows_per_part, slots, n_per_part, b, types=dtypes, target=target
    )
    cycles = cycles + zeroing(num_sums, FLOAT, target)
    reduction_cycles = static_reduction(
        -(-num_sums // column_parts), column_parts, FLOAT, dtype, target=target
    )
    arrival_cycles = np.ceil(
        num_sums * FLOAT.size * (column_parts - 1) / column_parts / bytes_per_cycle
    )
    cycles = cycles + np.where(column_parts > 1, reduction_cycles + arrival_cycles, 0)
    step_cycles = (
        np.ceil(bucket_bytes / bytes_per_cycle)
        + local_copy_cycles
        + dynamic_product(rows_per_part, spare(slots), n_per_part, b, types=dtypes, target=target)
    )
    temporary_bytes = x_bytes + 2 * bucket_bytes + num_sums * FLOAT.size
    best = fitting(cycles, temporary_bytes, proportion * target.bytes_per_tile)
    n_intervals = tuple(spread(params.n, int(n_parts[best]), vector_width))
    return Cut(
        params=params,
        dtype=dtype,
        row_parts=int(row_parts[best]),
        column_parts=int(column_parts[best]),
        n_parts=n_intervals,
        slots=int(slots[best]),
        cycles=int(cycles[best]),
        step_cycles=int(step_cycles[best]),
        temporary_bytes=int(temporary_bytes[best]),
        num_tiles=target.num_tiles,
    )


def _partitions(
    num_rows: int, num_columns: int, num_vectors: int, num_tiles: int
) -> tuple[Array, Array, Array]:
    """Return arrays `(row parts, column parts, dense parts)` with an entry for each partition.

    The entries are the numbers of parts into which the rows of the sparse operand, its columns, and
    the columns of the dense operand are divided. The product of the three numbers is at most
    `num_tiles`. A number of parts is left out if a smaller number gives a largest part of the same
    size. The sparse operand has `num_rows` rows and `num_columns` columns of blocks. A row of the
    dense operand has `num_vectors` vectors of the data path. The number of sparse parts, and the
    rows and columns of a part, counted in blocks, are below `EMPTY`.

    :raises PoplibsError: if there is no such partition.
    """
    part_counts = (sensible_parts(size, num_tiles) for size in (num_rows, num_columns, num_vectors))
    row_parts, column_parts, n_parts = (
        grid.ravel() for grid in np.meshgrid(*part_counts, indexing="ij")
    )
    # The indices of rows, columns and parts are 16-bit numbers below EMPTY, because the number
    # EMPTY means an empty slot.
    fits = (row_parts * column_parts * n_parts <= num_tiles) & (
        np.maximum(
            row_parts * column_parts, np.maximum(num_rows / row_parts, num_columns / column_parts)
        )
        < EMPTY
    )
    if not fits.any():
        raise refused(
            f"cannot partition {num_rows:,} x {num_columns:,} blocks for {num_tiles:,} tiles: a "
            f"part has at most {EMPTY - 1:,} rows and columns of blocks.",
            next_step="use more tiles, or larger blocks.",
        )
    return row_parts[fits], column_parts[fits], n_parts[fits]


def spare(slots: Array | int) -> Array | int:
    """Return the number of a bucket's slots beyond those that an even distribution would need.

    `slots` is the number of slots of the bucket. If the greatest permitted number of blocks were
    distributed evenly over the buckets, the blocks would need 1 / (1 + `OVERSIZE`) of these slots,
    rounded down.
    """
    return slots - slots * 10 // round(10 * (1 + OVERSIZE))


class SparsityData(NamedTuple):
    """The data that the host writes to a `SparseTensor`.

    `meta_info`, uint16[1 + buckets * slots * 3], contains the number of steps in which the buckets
    move. Three numbers for each slot follow: the part to which the slot's block belongs, and the
    block's row and column within this part. `nz_values` [buckets, slots, b, b] contains the values
    of the blocks, which have b rows and b columns.
    """

    meta_info: Array
    nz_values: Array

    @property
    def rounds(self) -> int:
        """The number of steps in which the buckets move to the next tiles of the ring."""
        return int(self.meta_info[0])


@dataclass(frozen=True)
class Bucket:
    """A bucket of a `Partitioner`, filled with the blocks of a pattern.

    `number` is the index of the part of the sparse matrix to which the bucket belongs. The bucket
    is stored on the tile `tile`, and can store `slots` blocks. `held` contains a pair (part, number
    of blocks) for each part whose blocks are in the bucket.
    """

    number: int
    tile: int
    slots: int
    held: tuple[tuple[int, int], ...]

    @property
    def own(self) -> int:
        """The number of blocks in the bucket that belong to part `number`."""
        return dict(self.held).get(self.number, 0)

    @property
    def spilled(self) -> int:
        """The number of blocks in the bucket that belong to parts other than `number`."""
        return sum(blocks for _, blocks in self.held) - self.own


class Partitioner:
    """An encoder on the host, which arranges sparse matrices in the buckets of a dynamic product.

    `cut` is the partition of the product.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """

    @library
    def __init__(self, params: MatMulParams, dtype: type[DType], target: Target) -> None:
        check_sizes(target, 0)
        if not isinstance(params, MatMulParams):
            raise as_given(params, "params", "create it with MatMulParams.create_with_nz_ratio.")
        check_types(dtype, FLOAT)
        self.cut = cut_for(params, dtype, target)

    @library
    def encode(self, csr: CSRMatrix) -> SparsityData:
        """Return the arrays that the host writes to the tensors `meta_info` and `nz_values`.

        :raises PoplibsError: if `csr` has more blocks than the parameters allow, or another shape
            or block size.
        """
        part_of_block, place_in_part = self._owners(csr)
        cut = self.cut
        blocks_of_part = np.bincount(part_of_block, minlength=self.cut.num_buckets)
        order = np.argsort(part_of_block, kind="stable")
        first_of_part = np.cumsum(blocks_of_part) - blocks_of_part
        used_slots = np.minimum(blocks_of_part, cut.slots)
        bucket_of_block = part_of_block[order]
        slot_of_block = np.arange(len(order)) - first_of_part[part_of_block[order]]
        num_unstored = blocks_of_part - used_slots
        num_steps = 0
        num_stored = used_slots.copy()
        # In iteration i, the remaining blocks of each part go to free slots of the i-th bucket
        # before the part's own bucket.
        while num_unstored.any():
            num_steps += 1
            free_slots = np.roll(cut.slots - used_slots, num_steps)
            num_taken = np.minimum(num_unstored, free_slots)
            for part in np.flatnonzero(num_taken).tolist():
                target_bucket = (part - num_steps) % cut.num_buckets
                num_moved = int(num_taken[part])
                first_moved = first_of_part[part] + num_stored[part]
                bucket_of_block[first_moved : first_moved + num_moved] = target_bucket
                slot_of_block[first_moved : first_moved + num_moved] = used_slots[
                    target_bucket
                ] + np.arange(num_moved)
            num_unstored = num_unstored - num_taken
            num_stored = num_stored + num_taken
            used_slots = used_slots + np.roll(num_taken, -num_steps)
        meta = np.full((cut.num_buckets, cut.slots, PLACES), EMPTY, np.uint16)
        meta[bucket_of_block, slot_of_block] = np.stack((part_of_block, *place_in_part), axis=1)[
            order
        ]
        values = np.zeros((cut.num_buckets, cut.slots, *cut.params.block), cut.dtype.numpy)
        values[bucket_of_block, slot_of_block] = csr.values[order]
        return SparsityData(np.append(np.uint16(num_steps), meta.ravel()), values)

    def _owners(self, csr: CSRMatrix) -> tuple[Array, tuple[Array, Array]]:
        """Return `(parts, (rows, columns))`: each block's part, and its position within this part.

        The three arrays have an entry for each block. Rows and columns are counted in blocks, from
        the first row and column of the part.

        :raises PoplibsError: if `csr` does not fit the parameters.
        """
        params = self.cut.params
        if (csr.shape, csr.block) != ((params.m, params.k), params.block):
            raise refused(f"""was given {csr}, but its parameters are for
                {params.m:,} x {params.k:,} in blocks of {params.block[0]} x {params.block[1]}.
                next:  give a matrix with this shape and block size.""")
        if csr.num_blocks > params.num_blocks:
            raise refused(f"""was given {csr.num_blocks:,} blocks; the parameters allow
                {params.num_blocks:,}.
                where: {csr}
                next:  make the parameters for more blocks, or drop the smallest blocks.""")
        owners = []
        for block_places, intervals in ((csr.rows, self.cut.rows), (csr.columns, self.cut.columns)):
            begins = np.array([begin for begin, _ in intervals])
            part_number = np.searchsorted(begins, block_places, "right") - 1
            owners += [part_number, block_places - begins[part_number]]
        return owners[0] * self.cut.column_parts + owners[2], (owners[1], owners[3])

    @library
    def decode(self, meta_info: ArrayLike, nz_values: ArrayLike) -> CSRMatrix:
        """Return the matrix that the arrays `meta_info` and `nz_values` encode.

        `encode` returns such arrays. Instead of values, `nz_values` may contain their gradients.

        :raises PoplibsError: if `meta_info` has another shape than `encode` returns, or `nz_values`
            another number of elements.
        """
        cut = self.cut
        b = self.cut.b
        meta = np.asarray(meta_info)
        values = np.asarray(nz_values)
        num_slots = cut.num_buckets * cut.slots
        if meta.shape != (1 + PLACES * num_slots,) or values.size != num_slots * b * b:
            raise refused(f"""was given arrays of shapes {meta.shape} and {values.shape}.
                next:  give meta_info and nz_values for {num_slots:,} slots, as encode() returns
                them.""")
        meta = meta[1:].reshape(num_slots, PLACES).astype(np.int64)
        is_used = meta[:, 0] != EMPTY
        part, row, column = meta[is_used].T
        row = row + np.array(cut.rows)[part // cut.column_parts, 0]
        column = column + np.array(cut.columns)[part % cut.column_parts, 0]
        order = np.lexsort((column, row))
        shape = (cut.params.m, cut.params.k)
        blocks = values.reshape(num_slots, b, b)[is_used][order]
        return COOMatrix(shape, row[order], column[order], blocks, block=cut.params.block).to_csr()

    @library
    def buckets(self, csr: CSRMatrix) -> tuple[Bucket, ...]:
        """Return all buckets, filled with the blocks of `csr`, for example to draw them.

        The errors are those of `encode`.
        """
        cut = self.cut
        meta_info = self.encode(csr).meta_info[1:].reshape(-1, self.cut.slots, PLACES)
        buckets = []
        for number, part_of_slot in enumerate(meta_info[:, :, 0]):
            blocks_per_part = zip(
                *np.unique(part_of_slot[part_of_slot != EMPTY], return_counts=True), strict=True
            )
            held = tuple((int(part), int(blocks)) for part, blocks in blocks_per_part)
            buckets.append(Bucket(number, int(cut.tiles[number, 0]), cut.slots, held))
        return tuple(buckets)
