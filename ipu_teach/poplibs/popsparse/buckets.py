"""The partition of a dynamic product, and the data that the host writes to its tiles.

The sparse matrix is divided into parts of its rows and columns, and each part has a *bucket*: room
for as many blocks as its even share of the budget, and `OVERSIZE` more. Blocks whose own bucket is
full *spill* into the nearest later one with room. On the device, buckets move round the ring of
parts, one place a step, for as many steps as the block that spilled furthest needs. So one program
takes any pattern up to its budget, and an uneven one costs steps instead of memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
EMPTY = 0xFFFF  # as the part of a slot: no block
PLACES = 3  # numbers that say where a block is: its part, its row and its column there


@dataclass(frozen=True)
class MatMulParams:
    """A product [m, k] x [k, n] whose sparse side has at most `num_blocks` blocks of `block`. Made
    by `create_with_nz_ratio` or `create_with_num_non_zero_values`."""

    m: int
    k: int
    n: int
    block: tuple[int, int]
    num_blocks: int

    @classmethod
    def create_with_nz_ratio(
        cls, m: int, k: int, n: int, nz_ratio: float, block: Sequence[int] = (1, 1)
    ) -> MatMulParams:
        """Return the room for this share of all m x k values, above 0 and up to 1. Raises
        `PoplibsError`."""
        return _params(m, k, n, nz_ratio, None, block)

    @classmethod
    def create_with_num_non_zero_values(
        cls, m: int, k: int, n: int, num_nz: int, block: Sequence[int] = (1, 1)
    ) -> MatMulParams:
        """Return the parameters with room for that many values, in whole blocks. Raises
        `PoplibsError`."""
        return _params(m, k, n, None, num_nz, block)


@library
def _params(m: int, k: int, n: int, ratio: object, num_nz: object, block: Any) -> MatMulParams:
    for name, size in (("m", m), ("k", k), ("n", n)):
        if not is_count(size, 1):
            raise as_given(size, name, "give a whole number of 1 or more.")
    shape = CSRMatrix.from_dense(np.zeros((0, 0)), block)  # checks the block
    b = square(shape.block)
    if m % b or k % b:
        raise refused(f"""was given {m} x {k} in blocks of {b} x {b}, which do not divide it.
            next:  make the matrix larger with zeros, or take smaller blocks.""")
    if ratio is not None:
        number = isinstance(ratio, (int, float, np.floating)) and not isinstance(ratio, bool)
        if not number or not 0 < ratio <= 1:  # type: ignore[operator]
            raise as_given(ratio, "nz_ratio", "give a number above 0 and up to 1.")
        blocks = -(-m * k * ratio // (b * b))  # type: ignore[operator]
    else:
        if not is_count(num_nz, 1) or num_nz > m * k:  # type: ignore[operator]
            raise as_given(num_nz, "num_nz", f"give a whole number from 1 to {m * k:,}.")
        blocks = -(-num_nz // (b * b))  # type: ignore[operator]
    return MatMulParams(int(m), int(k), int(n), shape.block, int(blocks))


@dataclass(frozen=True)
class Cut:
    """The partition of a dynamic product: parts of rows, of columns of the sparse side, and of the
    dense side's columns; `slots` is the number of blocks in a bucket. `cycles` are modelled,
    without any step after the first; `step_cycles` are those of such a step; `temporary_bytes`
    those of blocks and sums on a tile."""

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
        """One for each part of the sparse matrix."""
        return self.row_parts * self.column_parts

    @property
    def rows(self) -> list[tuple[int, int]]:
        """The (begin, end) of each part of the rows, in blocks."""
        return balanced_partition(self.params.m // self.b, self.row_parts)

    @property
    def columns(self) -> list[tuple[int, int]]:
        """The (begin, end) of each part of the columns, in blocks."""
        return balanced_partition(self.params.k // self.b, self.column_parts)

    @property
    def tiles(self) -> Array:
        """The tile of each bucket's part with each part of the dense columns: int64[buckets,
        parts]."""
        shape = self.num_buckets, len(self.n_parts)
        count = shape[0] * shape[1]
        return (np.arange(count) * self.num_tiles // count).reshape(shape)


def cut_for(
    params: MatMulParams, dtype: type[DType], target: Target, proportion: float = MEMORY_PROPORTION
) -> Cut:
    """Return the cheapest cut of a product with sums of FLOAT: every way that gives each part a
    tile is costed, for a full bucket on each."""
    b = params.block[0]
    tiles = target.num_tiles
    rate = target.exchange_bytes_per_cycle
    high = params.m // b
    wide = params.k // b
    grain = target.get_vector_width(dtype)
    ways = (sensible_parts(n, tiles) for n in (high, wide, -(-params.n // grain)))
    xs, ys, zs = (g.ravel() for g in np.meshgrid(*ways, indexing="ij"))
    # places are 16 bits wide
    fits = (xs * ys * zs <= tiles) & (np.maximum(xs * ys, np.maximum(high / xs, wide / ys)) < EMPTY)
    if not fits.any():
        raise refused(
            f"cannot partition {high:,} x {wide:,} blocks for {tiles:,} tiles: a part has at "
            f"most {EMPTY - 1:,} rows and columns of them.",
            next_step="use more tiles, or larger blocks.",
        )
    xs = xs[fits]
    ys = ys[fits]
    zs = zs[fits]
    slots = np.ceil(params.num_blocks * (1 + OVERSIZE) / (xs * ys)).astype(np.int64)
    rows = -(-high // xs)
    deep = -(-wide // ys)
    n = ceil_div(ceil_div(params.n, grain), zs) * grain
    slots = np.minimum(slots, rows * deep)
    types = (dtype, FLOAT)
    bucket = slots * (b * b * dtype.size + 2 * PLACES)
    right = deep * b * n * dtype.size
    sums = rows * b * n
    laid = np.ceil(bucket / target.memcpy_bytes_per_cycle)  # on the tile, where it is to be
    cycles = np.ceil(right / rate) + np.where(zs > 1, np.ceil(bucket / rate), laid)
    cycles = cycles + dynamic_product(rows, slots, n, b, types, target)
    cycles = cycles + zeroing(sums, FLOAT, target)
    adding = static_reduction(-(-sums // ys), ys, FLOAT, dtype, target)
    arriving = np.ceil(sums * FLOAT.size * (ys - 1) / ys / rate)
    cycles = cycles + np.where(ys > 1, adding + arriving, 0)
    step = np.ceil(bucket / rate) + laid + dynamic_product(rows, spare(slots), n, b, types, target)
    memory = right + 2 * bucket + sums * FLOAT.size
    best = fitting(cycles, memory, proportion * target.bytes_per_tile)
    parts = tuple(spread(params.n, int(zs[best]), grain))
    costs = int(slots[best]), int(cycles[best]), int(step[best]), int(memory[best])
    return Cut(params, dtype, int(xs[best]), int(ys[best]), parts, *costs, tiles)


def spare(slots: Array | int) -> Array | int:
    """Return how many of a bucket's blocks are in the oversize."""
    return slots - slots * 10 // round(10 * (1 + OVERSIZE))


class SparsityData(NamedTuple):
    """The data that the host writes to a `SparseTensor`: uint16 [1 + buckets x slots x 3], the
    number of steps and the place of each block; and the values [buckets, slots, b, b]."""

    meta_info: Array
    nz_values: Array

    @property
    def rounds(self) -> int:
        """The number of steps for which the buckets move round."""
        return int(self.meta_info[0])


@dataclass(frozen=True)
class Bucket:
    """A bucket as a pattern fills it. `held`: (part, blocks) of each part that has any in it."""

    number: int
    tile: int
    slots: int
    held: tuple[tuple[int, int], ...]

    @property
    def own(self) -> int:
        """Blocks that are where they belong."""
        return dict(self.held).get(self.number, 0)

    @property
    def spilled(self) -> int:
        """Blocks of other parts, which have to travel."""
        return sum(blocks for _, blocks in self.held) - self.own


class Partitioner:
    """Deals out a pattern's blocks to the buckets, on the host. Raises `PoplibsError`."""

    @library
    def __init__(self, params: MatMulParams, dtype: type[DType], target: Target) -> None:
        check_sizes(target, 0)
        if not isinstance(params, MatMulParams):
            raise as_given(params, "params", "make them by MatMulParams.create_with_nz_ratio.")
        check_types(dtype, FLOAT)
        self.cut = cut_for(params, dtype, target)

    @library
    def encode(self, csr: CSRMatrix) -> SparsityData:
        """Return a pattern with its values as both tensors of a product. Raises `PoplibsError` for
        more blocks than the budget, and another shape or block."""
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
        while over.any():  # `rounds` buckets on there is room
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
        """Return the part of each block, and its row and column there."""
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
        """Return what `encode` made, or a gradient in the place of its values, as a matrix
        again."""
        cut = self.cut
        b = self.cut.b
        places, values = np.asarray(meta_info), np.asarray(nz_values)
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
        return COOMatrix(shape, row[order], column[order], blocks, cut.params.block).to_csr()

    @library
    def buckets(self, csr: CSRMatrix) -> tuple[Bucket, ...]:
        """Return what each bucket holds of a pattern: for pictures."""
        cut = self.cut
        meta_info = self.encode(csr).meta_info[1:].reshape(-1, self.cut.slots, PLACES)
        buckets_made = []
        for number, parts in enumerate(meta_info[:, :, 0]):
            blocks_per_part = zip(
                *np.unique(parts[parts != EMPTY], return_counts=True), strict=True
            )
            pairs = tuple((int(part), int(blocks)) for part, blocks in blocks_per_part)
            buckets_made.append(Bucket(number, int(cut.tiles[number, 0]), cut.slots, pairs))
        return tuple(buckets_made)
