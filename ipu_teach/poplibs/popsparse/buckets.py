"""The partition of a dynamic sparse product, and the data that the host writes to its tiles.

The sparse matrix is divided into parts of its rows and columns. Each part has a *bucket*: room for
its even share of the budget of blocks, and `OVERSIZE` more. If a bucket is full, blocks *spill*
into the nearest later bucket with room. On the device, buckets move around the ring of parts, one
part per step, for as many steps as the block that spilled furthest needs. One program therefore
works for any pattern up to its budget, and an uneven pattern costs steps instead of memory.
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
from ipu_teach.poplibs.popsparse.matrices import COOMatrix, CSRMatrix, square
from ipu_teach.poplibs.popsparse.static_plan import (
    MEMORY_PROPORTION,
    check_types,
    fitting,
    spread,
)
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, Array, DType

OVERSIZE = 0.3  # PopLibs' default of metaInfoBucketOversizeProportion
EMPTY = 0xFFFF  # as the part of a slot: the slot has no block
PLACES = 3  # numbers per block: its part, and its row and its column there


@dataclass(frozen=True)
class MatMulParams:
    """A product [m, k] x [k, n] whose sparse operand has at most `num_blocks` blocks.

    It is created by `create_with_nz_ratio` or `create_with_num_non_zero_values`.
    """

    m: int
    k: int
    n: int
    block: tuple[int, int]
    num_blocks: int

    @classmethod
    def create_with_nz_ratio(
        cls, m: int, k: int, n: int, nz_ratio: float, block: Sequence[int] = (1, 1)
    ) -> MatMulParams:
        """Return the parameters for a share of the m x k values, above 0 and at most 1.

        Raises `PoplibsError`.
        """
        return _params(m, k, n, nz_ratio, num_nz=None, block=block)

    @classmethod
    def create_with_num_non_zero_values(
        cls, m: int, k: int, n: int, num_nz: int, block: Sequence[int] = (1, 1)
    ) -> MatMulParams:
        """Return the parameters for this number of values, rounded up to complete blocks.

        Raises `PoplibsError`.
        """
        return _params(m, k, n, None, num_nz=num_nz, block=block)


@library
def _params(
    m: int, k: int, n: int, ratio: float | None, num_nz: int | None, block: Sequence[int]
) -> MatMulParams:
    for name, size in (("m", m), ("k", k), ("n", n)):
        if not is_count(size, 1):
            raise as_given(size, name, "give a whole number of 1 or more.")
    shape = CSRMatrix.from_dense(np.zeros((0, 0)), block)  # also checks the block
    b = square(shape.block)
    if m % b or k % b:
        raise refused(f"""was given {m} x {k} in blocks of {b} x {b}, which do not divide it.
            next:  make the matrix larger with zeros, or take smaller blocks.""")
    if ratio is not None:
        number = isinstance(ratio, (int, float, np.floating)) and not isinstance(ratio, bool)
        if not number or not 0 < ratio <= 1:
            raise as_given(ratio, "nz_ratio", "give a number above 0 and up to 1.")
        blocks = -(-m * k * ratio // (b * b))
    else:
        if num_nz is None or not is_count(num_nz, 1) or num_nz > m * k:
            raise as_given(num_nz, "num_nz", f"give a whole number from 1 to {m * k:,}.")
        blocks = -(-num_nz // (b * b))
    return MatMulParams(int(m), int(k), int(n), shape.block, num_blocks=int(blocks))


@dataclass(frozen=True)
class Cut:
    """The partition of a dynamic product, and its modelled costs.

    Attributes:
        params: the sizes of the product.
        row_parts: the number of parts of the sparse operand's rows.
        column_parts: the number of parts of the sparse operand's columns.
        n_parts: the intervals (begin, end) of the dense operand's columns.
        slots: the number of blocks in a bucket.
        cycles: those of the first step.
        step_cycles: those of every further step.
        temporary_bytes: the bytes of blocks and sums on a tile.
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
        """The length of a block."""
        return self.params.block[0]

    @property
    def num_buckets(self) -> int:
        """The number of buckets: one for each part of the sparse matrix."""
        return self.row_parts * self.column_parts

    @property
    def rows(self) -> list[tuple[int, int]]:
        """The interval (begin, end) of each part of the rows, in blocks."""
        return balanced_partition(self.params.m // self.b, self.row_parts)

    @property
    def columns(self) -> list[tuple[int, int]]:
        """The interval (begin, end) of each part of the columns, in blocks."""
        return balanced_partition(self.params.k // self.b, self.column_parts)

    @property
    def tiles(self) -> Array:
        """The tile of each bucket for each part of the dense columns: int64[buckets, parts]."""
        shape = self.num_buckets, len(self.n_parts)
        count = shape[0] * shape[1]
        return (np.arange(count) * self.num_tiles // count).reshape(shape)


def cut_for(
    params: MatMulParams, dtype: type[DType], target: Target, proportion: float = MEMORY_PROPORTION
) -> Cut:
    """Return the cheapest partition of a product with sums of FLOAT.

    Every partition that has a tile for each part is costed, with a full bucket on each.
    `proportion` is the share of a tile's memory for temporary data.
    """
    b = params.block[0]
    rate = target.exchange_bytes_per_cycle
    high = params.m // b
    wide = params.k // b
    grain = target.get_vector_width(dtype)
    xs, ys, zs = _partitions(high, wide, -(-params.n // grain), target.num_tiles)
    slots = np.ceil(params.num_blocks * (1 + OVERSIZE) / (xs * ys)).astype(np.int64)
    rows = -(-high // xs)
    deep = -(-wide // ys)
    n = ceil_div(ceil_div(params.n, grain), zs) * grain
    slots = np.minimum(slots, rows * deep)
    types = (dtype, FLOAT)
    bucket = slots * (b * b * dtype.size + 2 * PLACES)
    right = deep * b * n * dtype.size
    sums = rows * b * n
    # the copy within the tile to where the bucket is used
    laid = np.ceil(bucket / target.memcpy_bytes_per_cycle)
    cycles = np.ceil(right / rate) + np.where(zs > 1, np.ceil(bucket / rate), laid)
    cycles = cycles + dynamic_product(rows, slots, n, b, types=types, target=target)
    cycles = cycles + zeroing(sums, FLOAT, target)
    adding = static_reduction(-(-sums // ys), ys, FLOAT, dtype, target=target)
    arriving = np.ceil(sums * FLOAT.size * (ys - 1) / ys / rate)
    cycles = cycles + np.where(ys > 1, adding + arriving, 0)
    step = (
        np.ceil(bucket / rate)
        + laid
        + dynamic_product(rows, spare(slots), n, b, types=types, target=target)
    )
    memory = right + 2 * bucket + sums * FLOAT.size
    best = fitting(cycles, memory, proportion * target.bytes_per_tile)
    parts = tuple(spread(params.n, int(zs[best]), grain))
    return Cut(
        params=params,
        dtype=dtype,
        row_parts=int(xs[best]),
        column_parts=int(ys[best]),
        n_parts=parts,
        slots=int(slots[best]),
        cycles=int(cycles[best]),
        step_cycles=int(step[best]),
        temporary_bytes=int(memory[best]),
        num_tiles=target.num_tiles,
    )


def _partitions(high: int, wide: int, grains: int, tiles: int) -> tuple[Array, Array, Array]:
    """Return (parts of rows, parts of columns, parts of dense columns) that leave a tile for each.

    There are `high` rows and `wide` columns of blocks, and `grains` grains of dense columns. Raises
    `PoplibsError` if there is no such partition.
    """
    ways = (sensible_parts(n, tiles) for n in (high, wide, grains))
    xs, ys, zs = (g.ravel() for g in np.meshgrid(*ways, indexing="ij"))
    # row, column and part numbers are 16 bits wide
    fits = (xs * ys * zs <= tiles) & (np.maximum(xs * ys, np.maximum(high / xs, wide / ys)) < EMPTY)
    if not fits.any():
        raise refused(
            f"cannot partition {high:,} x {wide:,} blocks for {tiles:,} tiles: a part has at "
            f"most {EMPTY - 1:,} rows and columns of them.",
            next_step="use more tiles, or larger blocks.",
        )
    return xs[fits], ys[fits], zs[fits]


def spare(slots: Array | int) -> Array | int:
    """Return the number of a bucket's slots that are in its oversize."""
    return slots - slots * 10 // round(10 * (1 + OVERSIZE))


class SparsityData(NamedTuple):
    """The data that the host writes to a `SparseTensor`.

    `meta_info`, uint16[1 + buckets * slots * 3], contains the number of steps and the place of each
    block. `nz_values` is [buckets, slots, b, b].
    """

    meta_info: Array
    nz_values: Array

    @property
    def rounds(self) -> int:
        """The number of steps in which the buckets move."""
        return int(self.meta_info[0])


@dataclass(frozen=True)
class Bucket:
    """A bucket, filled with the blocks of a pattern.

    `held` contains (part, number of blocks) for each part of which the bucket has blocks.
    """

    number: int
    tile: int
    slots: int
    held: tuple[tuple[int, int], ...]

    @property
    def own(self) -> int:
        """The number of blocks of the bucket's own part."""
        return dict(self.held).get(self.number, 0)

    @property
    def spilled(self) -> int:
        """The number of blocks of other parts, which have to move."""
        return sum(blocks for _, blocks in self.held) - self.own


class Partitioner:
    """The distribution of a pattern's blocks over the buckets, on the host.

    Raises `PoplibsError`.
    """

    @library
    def __init__(self, params: MatMulParams, dtype: type[DType], target: Target) -> None:
        check_sizes(target, 0)
        if not isinstance(params, MatMulParams):
            raise as_given(params, "params", "make them by MatMulParams.create_with_nz_ratio.")
        check_types(dtype, FLOAT)
        self.cut = cut_for(params, dtype, target)

    @library
    def encode(self, csr: CSRMatrix) -> SparsityData:
        """Return the two arrays that a `SparseTensor` needs for a pattern and its values.

        Raises `PoplibsError` for more blocks than the budget, and for a different shape or block
        size.
        """
        owner, local = self._owners(csr)
        cut = self.cut
        count = np.bincount(owner, minlength=self.cut.num_buckets)
        order = np.argsort(owner, kind="stable")
        begin = np.cumsum(count) - count
        fill = np.minimum(count, cut.slots)
        bucket = owner[order]
        slot = np.arange(len(order)) - begin[owner[order]]
        over = count - fill
        rounds = 0
        stored = fill.copy()
        while over.any():  # `rounds` is the distance from the full bucket to the one with room
            rounds += 1
            room = np.roll(cut.slots - fill, rounds)
            take = np.minimum(over, room)
            for part in np.flatnonzero(take).tolist():
                to = (part - rounds) % cut.num_buckets
                count_moved = int(take[part])
                first = begin[part] + stored[part]
                bucket[first : first + count_moved] = to
                slot[first : first + count_moved] = fill[to] + np.arange(count_moved)
            over = over - take
            stored = stored + take
            fill = fill + np.roll(take, -rounds)
        places = np.full((cut.num_buckets, cut.slots, PLACES), EMPTY, np.uint16)
        places[bucket, slot] = np.stack((owner, *local), axis=1)[order]
        values = np.zeros((cut.num_buckets, cut.slots, *cut.params.block), cut.dtype.numpy)
        values[bucket, slot] = csr.values[order]
        return SparsityData(np.append(np.uint16(rounds), places.ravel()), values)

    def _owners(self, csr: CSRMatrix) -> tuple[Array, tuple[Array, Array]]:
        """Return (part, (row, column) within the part) of each block."""
        params = self.cut.params
        if (csr.shape, csr.block) != ((params.m, params.k), params.block):
            raise refused(f"""was given {csr} for a product of {params.m:,} x {params.k:,} in
                blocks of {params.block[0]} x {params.block[1]}.
                next:  give a matrix of that shape in such blocks.""")
        if csr.num_blocks > params.num_blocks:
            raise refused(f"""was given {csr.num_blocks:,} blocks; the budget holds
                {params.num_blocks:,}.
                where: {csr}
                next:  make the parameters with a larger share, or drop the smallest blocks.""")
        owners = []
        for places, cuts in ((csr.rows, self.cut.rows), (csr.columns, self.cut.columns)):
            begins = np.array([begin for begin, _ in cuts])
            part = np.searchsorted(begins, places, "right") - 1
            owners += [part, places - begins[part]]
        return owners[0] * self.cut.column_parts + owners[2], (owners[1], owners[3])

    @library
    def decode(self, meta_info: ArrayLike, nz_values: ArrayLike) -> CSRMatrix:
        """Return the matrix that `encode` encoded.

        `nz_values` may also be a gradient of the values.
        """
        cut = self.cut
        b = self.cut.b
        places = np.asarray(meta_info)
        values = np.asarray(nz_values)
        slots = cut.num_buckets * cut.slots
        if places.shape != (1 + PLACES * slots,) or values.size != slots * b * b:
            raise refused(f"""was given arrays of shapes {places.shape} and {values.shape}.
                next:  give meta_info and nz_values as encode() makes them, {slots:,} slots.""")
        places = places[1:].reshape(slots, PLACES).astype(np.int64)
        is_used = places[:, 0] != EMPTY
        part, row, column = places[is_used].T
        row = row + np.array(cut.rows)[part // cut.column_parts, 0]
        column = column + np.array(cut.columns)[part % cut.column_parts, 0]
        order = np.lexsort((column, row))
        shape = (cut.params.m, cut.params.k)
        blocks = values.reshape(slots, b, b)[is_used][order]
        return COOMatrix(shape, row[order], column[order], blocks, block=cut.params.block).to_csr()

    @library
    def buckets(self, csr: CSRMatrix) -> tuple[Bucket, ...]:
        """Return all buckets, filled with the blocks of a pattern; used for pictures."""
        cut = self.cut
        meta_info = self.encode(csr).meta_info[1:].reshape(-1, self.cut.slots, PLACES)
        buckets = []
        for number, parts in enumerate(meta_info[:, :, 0]):
            blocks_per_part = zip(
                *np.unique(parts[parts != EMPTY], return_counts=True), strict=True
            )
            pairs = tuple((int(part), int(blocks)) for part, blocks in blocks_per_part)
            buckets.append(Bucket(number, int(cut.tiles[number, 0]), cut.slots, pairs))
        return tuple(buckets)
