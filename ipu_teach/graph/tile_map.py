"""The tile of each byte: the mapping calls of a graph, in order, merged into one sorted table.

The table consists of intervals of bytes. The module also has functions for such intervals: their
union, how much of the union is below a position, and whether two intervals overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipu_teach.types import Array

UNMAPPED = -1
_BLOCK = 2048  # The maximum number of pieces in a block. Copying a block takes a few microseconds.


@dataclass(frozen=True, eq=False)
class TileMap:
    """The tile of each byte.

    Piece i covers the bytes from `start[i]` to before `start[i + 1]`, and is on tile `tile[i]`. If
    `tile[i]` is -1, the piece is not mapped to any tile.
    """

    start: Array
    tile: Array

    @cached_property
    def stop(self) -> Array:
        """The end of each piece: int64[pieces]. The last piece ends at the largest int64."""
        return np.append(self.start[1:], np.iinfo(np.int64).max)

    @cached_property
    def shift(self) -> Array:
        """The distance by which each piece moves if the bytes of every tile are made contiguous.

        The array is int64[pieces]: byte b of piece i moves to b + `shift[i]`. The pieces of a tile
        keep their order.
        """
        order = order_of(self.tile + 1)  # The tile of unmapped pieces is -1.
        shift = -self.start
        size: Array = np.diff(self.start, append=self.start[-1])[order]
        shift[order] += np.cumsum(size) - size
        return shift

    def at(self, byte: Array) -> Array:
        """Return the tile of each byte address."""
        tile: Array = self.tile[np.searchsorted(self.start, byte, "right") - 1]
        return tile

    def split(self, start: Array, stop: Array) -> tuple[Array, Array, Array, Array]:
        """Divide intervals of bytes where the tile changes.

        Returns (index of the interval, start, stop, tile) of every piece.
        """
        first_pieces = np.searchsorted(self.start, start, "right") - 1
        # Most intervals are within one piece, and need no search for the last piece.
        longer_intervals = np.flatnonzero((stop > self.stop[first_pieces]) | (stop <= start))
        if not len(longer_intervals):
            return np.arange(len(first_pieces)), start, stop, self.tile[first_pieces]
        last_pieces = first_pieces.copy()
        last_pieces[longer_intervals] = (
            np.searchsorted(self.start, stop[longer_intervals], "left") - 1
        )
        interval, piece = expand(first_pieces, last_pieces - first_pieces + 1)
        return (
            interval,
            np.maximum(start[interval], self.start[piece]),
            np.minimum(stop[interval], self.stop[piece]),
            self.tile[piece],
        )


class TileTable:
    """A tile map in blocks of consecutive pieces, for a graph that is still being built.

    A look-up reads only the blocks that contain its addresses, and `paint` copies only the blocks
    that it changes. Therefore neither operation gets slower as the graph grows. Tables are
    immutable: `paint` returns a new table, which shares all unchanged blocks.
    """

    def __init__(self, blocks: list[TileMap], tile_names: Array | None = None) -> None:
        self._blocks = blocks
        self._first = np.array([block.start[0] for block in blocks], np.int64)
        self._tile_names = tile_names

    def renumbered(self, tile_names: Array) -> TileTable:
        """Return the same table with other tile numbers: tile t becomes tile `tile_names[t]`.

        Unmapped bytes have the tile number -1 (`UNMAPPED`), so the last entry of `tile_names` is
        their new tile number.
        """
        table: TileTable = object.__new__(TileTable)
        table._blocks = self._blocks
        table._first = self._first
        table._tile_names = tile_names
        return table

    def at(self, byte: Array) -> Array:
        """Return the tile of each byte address."""
        block = np.searchsorted(self._first, byte, "right") - 1
        return self._renumber(self._covering(block, block).at(byte))

    def split(self, start: Array, stop: Array) -> tuple[Array, Array, Array, Array]:
        """Divide intervals of bytes where the tile changes.

        Returns (index of the interval, start, stop, tile) of every piece.
        """
        first_blocks = np.searchsorted(self._first, start, "right") - 1
        last_blocks = np.maximum(np.searchsorted(self._first, stop, "left") - 1, first_blocks)
        source, begin, end, tile = self._covering(first_blocks, last_blocks).split(start, stop)
        return source, begin, end, self._renumber(tile)

    def pieces(self) -> TileMap:
        """Return the table as a single tile map."""
        merged = _merged(self._blocks)
        return TileMap(merged.start, self._renumber(merged.tile))

    def paint(self, log: Array) -> TileTable:
        """Return the table after further mapping calls.

        `log` contains a row (start byte, stop byte, tile) for each mapped interval. Later rows
        override earlier ones.
        """
        top = paint(log, np.iinfo(np.int64).max)
        painted_pieces = np.flatnonzero(top.tile != UNMAPPED)
        if not len(painted_pieces):
            return self
        first_blocks = np.searchsorted(self._first, top.start[painted_pieces], "right") - 1
        last_blocks = np.searchsorted(self._first, top.stop[painted_pieces], "left") - 1
        # Pieces whose blocks overlap form a group.
        group_starts = np.flatnonzero(first_blocks[1:] > last_blocks[:-1]) + 1
        group_bounds = [0, *group_starts.tolist(), len(painted_pieces)]
        blocks = list(self._blocks)
        # The groups are processed from the last to the first, so that the numbers of earlier blocks
        # stay valid.
        for group_start, group_end in zip(group_bounds[-2::-1], group_bounds[:0:-1], strict=True):
            first_piece = int(painted_pieces[group_start])
            end_piece = int(painted_pieces[group_end - 1]) + 1
            patch_starts = np.append(top.start[first_piece:end_piece], top.stop[end_piece - 1])
            patch = TileMap(
                patch_starts, np.append(top.tile[first_piece:end_piece], np.int32(UNMAPPED))
            )
            blocks[first_blocks[group_start] : last_blocks[group_end - 1] + 1] = self._repainted(
                int(first_blocks[group_start]), int(last_blocks[group_end - 1]) + 1, patch
            )
        return TileTable(blocks)

    def _repainted(self, first_block: int, end_block: int, patch: TileMap) -> list[TileMap]:
        """Return the blocks `first_block` to `end_block` - 1 after painting `patch` over them."""
        result = over(_merged(self._blocks[first_block:end_block]), patch)
        # Drop the pieces that begin at or after the start of the next block, because that block
        # contains them.
        if end_block < len(self._blocks):
            num_inside = int(np.searchsorted(result.start, self._first[end_block]))
            result = TileMap(result.start[:num_inside], result.tile[:num_inside])
        num_pieces = len(result.start)
        pieces_per_block = num_pieces if num_pieces <= _BLOCK else _BLOCK // 2
        return [
            TileMap(
                result.start[first_piece : first_piece + pieces_per_block],
                result.tile[first_piece : first_piece + pieces_per_block],
            )
            for first_piece in range(0, num_pieces, pieces_per_block)
        ]

    def _covering(self, first_blocks: Array, last_blocks: Array) -> TileMap:
        """Return one tile map that contains the blocks that a look-up needs.

        They are the blocks from `first_blocks[i]` to `last_blocks[i]` (included), for all i. If the
        arrays are empty, the first block is returned. The map is not valid at addresses in other
        blocks. Its tile numbers have not been replaced by `_renumber`.
        """
        if len(self._blocks) == 1 or not first_blocks.size:
            return self._blocks[0]
        lowest_block = int(first_blocks.min())
        end_block = int(last_blocks.max()) + 1
        if end_block - lowest_block == 1:
            return self._blocks[lowest_block]
        num_differences = end_block - lowest_block + 1
        differences = np.bincount(
            first_blocks.reshape(-1) - lowest_block, minlength=num_differences
        )
        differences -= np.bincount(
            last_blocks.reshape(-1) + 1 - lowest_block, minlength=num_differences
        )
        covered_blocks = np.flatnonzero(np.cumsum(differences[:-1])) + lowest_block
        return _merged([self._blocks[block_number] for block_number in covered_blocks.tolist()])

    def _renumber(self, tile: Array) -> Array:
        return tile if self._tile_names is None else self._tile_names[tile]


def _merged(blocks: list[TileMap]) -> TileMap:
    """Return ascending blocks as one tile map, and join neighbouring pieces on the same tile."""
    if len(blocks) == 1:
        return blocks[0]
    start = np.concatenate([block.start for block in blocks])
    tile = np.concatenate([block.tile for block in blocks])
    change = np.append(True, tile[1:] != tile[:-1])
    return TileMap(start[change], tile[change])


def order_of(numbers: Array) -> Array:
    """Return the indices that stably sort non-negative integers, such as tiles or groups.

    Sorting is many times faster if all numbers are below 65,536.
    """
    return np.argsort(
        numbers.astype(np.uint16) if numbers.max(initial=0) < 2**16 else numbers, kind="stable"
    )


def expand(first_number: Array, count: Array) -> tuple[Array, Array]:
    """Return the numbers from `first_number[i]` to before `first_number[i] + count[i]`, for all i.

    The result is two arrays: for each number the index i to which it belongs, and the numbers.
    """
    source = np.repeat(np.arange(len(first_number)), count)
    position = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    return source, first_number[source] + position


def covered(start: Array, stop: Array, position: Array) -> Array:
    """Return how many numbers of [0, position) the intervals [start, stop) cover.

    The intervals are disjoint and ascending. `position` may be an array.
    """
    bytes_before: Array = np.concatenate(([0], np.cumsum(stop - start)))
    num_started = np.searchsorted(start, position, "right")
    bytes_past = np.where(num_started > 0, np.append(stop, 0)[num_started - 1] - position, 0)
    below: Array = bytes_before[num_started] - np.maximum(bytes_past, 0)
    return below


def union(key: Array, start: Array, stop: Array) -> tuple[Array, Array, Array]:
    """Unite the intervals that have the same key; return (key, start, stop) of the results.

    The resulting intervals of a key are disjoint. They are sorted by key, and then by start.
    """
    numbers_per_key = int(stop.max(initial=0)) + 1
    # Place the intervals of all keys next to each other on one axis. Then a single sort is enough.
    base = key * numbers_per_key
    merged_start, merged_stop = joined(base + start, base + stop)
    merged_key = merged_start // numbers_per_key
    return (
        merged_key,
        merged_start - merged_key * numbers_per_key,
        merged_stop - merged_key * numbers_per_key,
    )


def joined(start: Array, stop: Array) -> tuple[Array, Array]:
    """Return the union of intervals, as disjoint intervals in ascending order.

    Starts and ends are sorted separately, which is much faster than sorting pairs. The results are
    correct because there is a gap before the start of interval i (in ascending order, from 0)
    exactly if i intervals have ended by then.
    """
    if np.any(stop <= start):
        is_nonempty = stop > start
        start = start[is_nonempty]
        stop = stop[is_nonempty]
    length = stop - start
    start = ascending(start)
    # If all intervals have the same length, they end in the order in which they begin.
    stop = start + length[:1] if np.all(length == length[:1]) else ascending(stop)
    gap = start[1:] > stop[:-1]
    return start[np.append(True, gap)[: len(start)]], stop[np.append(gap, True)[: len(stop)]]


def ascending(numbers: Array) -> Array:
    """Return the numbers in ascending order. If they are already in order, return the same array.

    Vertices are added in loops, so usually only a few ascending runs of numbers have to be merged.
    A stable sort merges them in one pass.
    """
    return np.sort(numbers, kind="stable") if np.any(numbers[1:] < numbers[:-1]) else numbers


def distinct(numbers: Array) -> Array:
    """Return the distinct numbers, ascending.

    This is several times as fast as np.unique's hash table.
    """
    numbers = np.sort(numbers)
    different: Array = numbers[np.append(True, numbers[1:] != numbers[:-1])[: len(numbers)]]
    return different


def combined(*columns: Array) -> Array:
    """Return one number for each row of `columns`, which contain integers of 0 or more.

    The numbers have the same order as the rows, and equal rows have equal numbers. Sorting numbers
    is faster than sorting rows.
    """
    keys: Array = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        keys = keys * (int(column.max(initial=0)) + 1) + column
    return keys


def meet(
    start: Array, stop: Array, other_start: Array, other_stop: Array
) -> tuple[int, int, int] | None:
    """Find the first of the intervals [other_start, other_stop) that overlaps one of [start, stop).

    The intervals [start, stop) are disjoint and ascending. The result has three members: the index
    of the overlapping interval [other_start, other_stop), the index of the interval [start, stop)
    that it overlaps, and the first common number. It is None if there is no overlap.
    """
    if (
        not len(start)
        or not len(other_start)
        or other_stop.max() <= start[0]
        or stop[-1] <= other_start.min()
    ):
        return None  # The usual case: the fields are in different variables.
    possible_match = np.searchsorted(stop, other_start, "right")
    overlapping = np.flatnonzero(np.searchsorted(start, other_stop) > possible_match)
    if not overlapping.size:
        return None
    other_index = int(overlapping[0])
    interval_index = int(possible_match[other_index])
    return other_index, interval_index, int(max(other_start[other_index], start[interval_index]))


def paint(log: Array, memory_bytes: int) -> TileMap:
    """Return the tile map after a log of (start, stop, tile) rows.

    Later rows override earlier ones. An unmapped piece follows the last mapped piece, unless that
    piece ends at `memory_bytes`.
    """
    if len(log) == 0:
        return TileMap(np.zeros(1, np.int64), np.full(1, UNMAPPED, np.int32))
    log = log[np.argsort(log[:, 0], kind="stable")] if not _overlapping(log) else _flatten(log)
    start, stop, tile = log.T
    piece_starts: Array = np.stack((start, stop), axis=1).reshape(-1)
    piece_tiles: Array = np.stack((tile, np.full_like(tile, UNMAPPED)), axis=1).reshape(-1)
    # Drop pieces of no length, such as the gap between two adjacent pieces. `is_new_tile` below
    # also drops a piece that only continues the piece before it.
    is_retained = np.append(piece_starts[1:] > piece_starts[:-1], piece_starts[-1] < memory_bytes)
    piece_starts = piece_starts[is_retained]
    piece_tiles = piece_tiles[is_retained]
    if len(piece_starts) == 0 or piece_starts[0] > 0:
        piece_starts = np.insert(piece_starts, 0, 0)
        piece_tiles = np.insert(piece_tiles, 0, UNMAPPED)
    is_new_tile = np.append(True, piece_tiles[1:] != piece_tiles[:-1])
    return TileMap(piece_starts[is_new_tile], piece_tiles[is_new_tile].astype(np.int32))


def over(below: TileMap, top: TileMap) -> TileMap:
    """Return the tile map `top`, with the tiles of `below` where `top` is unmapped.

    Only the interval that `top` covers is processed.
    """
    first_painted = top.start[np.flatnonzero(top.tile != UNMAPPED)[:1]]
    if not len(first_painted):
        return below
    first_changed = int(np.searchsorted(below.start, first_painted[0], "right")) - 1
    end_changed = int(np.searchsorted(below.start, top.start[-1], "right"))
    # With return_counts, numpy sorts, which is faster than its hash table.
    piece_starts = np.unique(
        np.concatenate(
            (below.start[first_changed:end_changed], top.start[top.start >= first_painted[0]])
        ),
        return_counts=True,
    )[0]
    piece_tiles = top.at(piece_starts)
    piece_tiles = np.where(piece_tiles == UNMAPPED, below.at(piece_starts), piece_tiles)
    is_new_tile = (
        np.diff(
            piece_tiles,
            prepend=below.tile[first_changed - 1] if first_changed else piece_tiles[0] + 1,
        )
        != 0
    )
    start_parts = (
        below.start[:first_changed],
        piece_starts[is_new_tile],
        below.start[end_changed:],
    )
    tile_parts = (below.tile[:first_changed], piece_tiles[is_new_tile], below.tile[end_changed:])
    return TileMap(np.concatenate(start_parts), np.concatenate(tile_parts).astype(np.int32))


def _overlapping(log: Array) -> bool:
    order = np.argsort(log[:, 0], kind="stable")
    return bool(np.any(log[order[1:], 0] < np.maximum.accumulate(log[order[:-1], 1])))


def _flatten(log: Array) -> Array:
    """Return disjoint, ascending rows for `log`, in which later rows override earlier ones."""
    bounds = distinct(log[:, :2].reshape(-1))
    tile_of_interval: Array = np.full(len(bounds) - 1, UNMAPPED)
    for first_interval, end_interval, tile_number in zip(
        np.searchsorted(bounds, log[:, 0]),
        np.searchsorted(bounds, log[:, 1]),
        log[:, 2].tolist(),
        strict=True,
    ):
        tile_of_interval[first_interval:end_interval] = tile_number
    is_painted = tile_of_interval != UNMAPPED
    return np.stack(
        (bounds[:-1][is_painted], bounds[1:][is_painted], tile_of_interval[is_painted]), axis=1
    )
