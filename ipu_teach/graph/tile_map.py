"""The tile of each byte: the mapping calls of a graph, in order, merged into one sorted table.

The table consists of intervals of bytes. The module also has functions of such intervals: their
union, how much of it is below a position, and whether two of them overlap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ipu_teach.types import Array

UNMAPPED = -1
_BLOCK = 2048  # maximum number of pieces in a block; copying a block takes a few microseconds


@dataclass(frozen=True, eq=False)
class TileMap:
    """The tile of each byte.

    Piece i covers the bytes from `start[i]` to before `start[i + 1]`, and is on `tile[i]`, or on no
    tile if that is -1.
    """

    start: Array
    tile: Array

    @cached_property
    def stop(self) -> Array:
        """The end of each piece: int64[pieces]. The last piece ends at the largest int64."""
        return np.append(self.start[1:], np.iinfo(np.int64).max)

    @cached_property
    def shift(self) -> Array:
        """The distances from addresses to positions at which each tile's pieces are contiguous.

        int64[pieces]: byte b of piece i moves to b + `shift[i]`. The pieces of a tile keep their
        order.
        """
        order = order_of(self.tile + 1)  # the tile of unmapped pieces is -1
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
        first = np.searchsorted(self.start, start, "right") - 1
        # most intervals are within one piece, and need no search for the last piece
        across = np.flatnonzero((stop > self.stop[first]) | (stop <= start))
        if not len(across):
            return np.arange(len(first)), start, stop, self.tile[first]
        last = first.copy()
        last[across] = np.searchsorted(self.start, stop[across], "left") - 1
        source, piece = expand(first, last - first + 1)
        return (
            source,
            np.maximum(start[source], self.start[piece]),
            np.minimum(stop[source], self.stop[piece]),
            self.tile[piece],
        )


class TileTable:
    """A tile map in blocks of consecutive pieces, for a graph that is still being built.

    A look-up reads only the blocks that contain its addresses, and `paint` copies only the blocks
    that it changes. So the cost of neither depends on the size of the graph. Tables are immutable:
    `paint` returns a new table, which shares all unchanged blocks.
    """

    def __init__(self, blocks: list[TileMap], tile_names: Array | None = None) -> None:
        self._blocks = blocks
        self._first = np.array([block.start[0] for block in blocks], np.int64)
        self._tile_names = tile_names

    def renumbered(self, tile_names: Array) -> TileTable:
        """Return the same table with tile `tile_names[t]` in place of tile t.

        The last entry replaces `UNMAPPED`.
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
        """Divide intervals where the tile changes, as `TileMap.split` does."""
        low = np.searchsorted(self._first, start, "right") - 1
        high = np.maximum(np.searchsorted(self._first, stop, "left") - 1, low)
        source, begin, end, tile = self._covering(low, high).split(start, stop)
        return source, begin, end, self._renumber(tile)

    def pieces(self) -> TileMap:
        """Return the table as a single tile map."""
        merged = _merged(self._blocks)
        return TileMap(merged.start, self._renumber(merged.tile))

    def paint(self, log: Array) -> TileTable:
        """Return the table after further mapping calls, as rows of (start, stop, tile)."""
        top = paint(log, np.iinfo(np.int64).max)
        painted = np.flatnonzero(top.tile != UNMAPPED)
        if not len(painted):
            return self
        low = np.searchsorted(self._first, top.start[painted], "right") - 1
        high = np.searchsorted(self._first, top.stop[painted], "left") - 1
        # a group consists of pieces whose blocks overlap
        cuts = np.flatnonzero(low[1:] > high[:-1]) + 1
        bounds = [0, *cuts.tolist(), len(painted)]
        blocks = list(self._blocks)
        # from the last group to the first, so that the numbers of earlier blocks stay valid
        for i, j in zip(bounds[-2::-1], bounds[:0:-1], strict=True):
            first = int(painted[i])
            last = int(painted[j - 1]) + 1
            start = np.append(top.start[first:last], top.stop[last - 1])
            patch = TileMap(start, np.append(top.tile[first:last], np.int32(UNMAPPED)))
            blocks[low[i] : high[j - 1] + 1] = self._repainted(
                int(low[i]), int(high[j - 1]) + 1, patch
            )
        return TileTable(blocks)

    def _repainted(self, first: int, last: int, patch: TileMap) -> list[TileMap]:
        """Return the blocks `first` to `last` - 1 with `patch` painted over them."""
        result = over(_merged(self._blocks[first:last]), patch)
        if last < len(self._blocks):  # a patch may end where the next block begins
            inside = int(np.searchsorted(result.start, self._first[last]))
            result = TileMap(result.start[:inside], result.tile[:inside])
        count = len(result.start)
        step = count if count <= _BLOCK else _BLOCK // 2
        return [
            TileMap(result.start[i : i + step], result.tile[i : i + step])
            for i in range(0, count, step)
        ]

    def _covering(self, low: Array, high: Array) -> TileMap:
        """Return a tile map of the blocks low[i] to high[i], for all i."""
        if len(self._blocks) == 1 or not low.size:
            return self._blocks[0]
        first = int(low.min())
        last = int(high.max()) + 1
        if last - first == 1:
            return self._blocks[first]
        count = last - first + 1
        steps = np.bincount(low.reshape(-1) - first, minlength=count)
        steps -= np.bincount(high.reshape(-1) + 1 - first, minlength=count)
        touched = np.flatnonzero(np.cumsum(steps[:-1])) + first
        return _merged([self._blocks[i] for i in touched.tolist()])

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

    Sorting is many times faster if all of them are below 65,536.
    """
    return np.argsort(
        numbers.astype(np.uint16) if numbers.max(initial=0) < 2**16 else numbers, kind="stable"
    )


def expand(first: Array, count: Array) -> tuple[Array, Array]:
    """Return the numbers `first[i]`, `first[i]` + 1, … (`count[i]` of them), for all i in turn.

    The first result is the i of each number, and the second is the numbers.
    """
    source = np.repeat(np.arange(len(first)), count)
    within = np.arange(len(source)) - np.repeat(np.cumsum(count) - count, count)
    return source, first[source] + within


def covered(start: Array, stop: Array, place: Array) -> Array:
    """Return how much of [0, place) the disjoint, ascending intervals [start, stop) cover."""
    before: Array = np.concatenate(([0], np.cumsum(stop - start)))
    number = np.searchsorted(start, place, "right")
    inside = np.where(number > 0, np.append(stop, 0)[number - 1] - place, 0)
    below: Array = before[number] - np.maximum(inside, 0)
    return below


def union(key: Array, start: Array, stop: Array) -> tuple[Array, Array, Array]:
    """Return (key, start, stop) of the union of each key's intervals, as disjoint intervals."""
    span = int(stop.max(initial=0)) + 1
    # places the keys next to each other on one axis, so that one sort is enough for all keys
    base = key * span
    low, high = joined(base + start, base + stop)
    merged = low // span
    return merged, low - merged * span, high - merged * span


def joined(start: Array, stop: Array) -> tuple[Array, Array]:
    """Return the union of intervals, as disjoint intervals in ascending order.

    Starts and ends are sorted separately, which is much faster than sorting pairs. There is a gap
    before start number i if i intervals have ended by then.
    """
    if np.any(stop <= start):
        is_nonempty = stop > start
        start = start[is_nonempty]
        stop = stop[is_nonempty]
    length = stop - start
    start = ascending(start)
    # regions of one shape end in the order in which they begin
    stop = start + length[:1] if np.all(length == length[:1]) else ascending(stop)
    gap = start[1:] > stop[:-1]
    return start[np.append(True, gap)[: len(start)]], stop[np.append(gap, True)[: len(stop)]]


def ascending(numbers: Array) -> Array:
    """Return the numbers in ascending order. If they are in order, return the same array.

    Vertices are added in loops, so usually only a few ascending runs have to be merged. A stable
    sort does this in one pass.
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

    The numbers compare as the rows do: equal rows have equal numbers, and the order is the same.
    Sorting numbers is faster than sorting rows.
    """
    keys: Array = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        keys = keys * (int(column.max(initial=0)) + 1) + column
    return keys


def meet(start: Array, stop: Array, low: Array, high: Array) -> tuple[int, int, int] | None:
    """Find the first [low, high) that overlaps one of the disjoint, ascending [start, stop).

    Returns its index, the index of the interval that it overlaps, and the first common byte; or
    None if there is no overlap.
    """
    if not len(start) or not len(low) or high.max() <= start[0] or stop[-1] <= low.min():
        return None  # the usual case: fields in different variables
    others = np.searchsorted(stop, low, "right")
    overlapping = np.flatnonzero(np.searchsorted(start, high) > others)
    if not overlapping.size:
        return None
    first = int(overlapping[0])
    second = int(others[first])
    return first, second, int(max(low[first], start[second]))


def paint(log: Array, memory_bytes: int) -> TileMap:
    """Return the tile map after a log of (start, stop, tile) rows.

    Later rows override earlier ones.
    """
    if len(log) == 0:
        return TileMap(np.zeros(1, np.int64), np.full(1, UNMAPPED, np.int32))
    log = log[np.argsort(log[:, 0], kind="stable")] if not _overlapping(log) else _flatten(log)
    boundaries, stop, tile = log.T
    edges: Array = np.stack((boundaries, stop), axis=1).reshape(-1)
    tiles: Array = np.stack((tile, np.full_like(tile, UNMAPPED)), axis=1).reshape(-1)
    # Drop pieces of no length, such as the gap between two adjacent pieces. `change` below also
    # drops a piece that only continues the piece before it.
    keep = np.append(edges[1:] > edges[:-1], edges[-1] < memory_bytes)
    edges = edges[keep]
    tiles = tiles[keep]
    if len(edges) == 0 or edges[0] > 0:
        edges = np.insert(edges, 0, 0)
        tiles = np.insert(tiles, 0, UNMAPPED)
    change = np.append(True, tiles[1:] != tiles[:-1])
    return TileMap(edges[change], tiles[change].astype(np.int32))


def over(below: TileMap, top: TileMap) -> TileMap:
    """Return `top` painted over `below`, which is visible where `top` has no tile.

    Only the interval that `top` covers is processed.
    """
    first = top.start[np.flatnonzero(top.tile != UNMAPPED)[:1]]
    if not len(first):
        return below
    i = int(np.searchsorted(below.start, first[0], "right")) - 1
    j = int(np.searchsorted(below.start, top.start[-1], "right"))
    # with return_counts, numpy sorts, which is faster than its hash table
    cuts = np.unique(
        np.concatenate((below.start[i:j], top.start[top.start >= first[0]])), return_counts=True
    )[0]
    tile = top.at(cuts)
    tile = np.where(tile == UNMAPPED, below.at(cuts), tile)
    change = np.diff(tile, prepend=below.tile[i - 1] if i else tile[0] + 1) != 0
    start = (below.start[:i], cuts[change], below.start[j:])
    tiles = (below.tile[:i], tile[change], below.tile[j:])
    return TileMap(np.concatenate(start), np.concatenate(tiles).astype(np.int32))


def _overlapping(log: Array) -> bool:
    order = np.argsort(log[:, 0], kind="stable")
    return bool(np.any(log[order[1:], 0] < np.maximum.accumulate(log[order[:-1], 1])))


def _flatten(log: Array) -> Array:
    """Return disjoint, ascending rows after painting overlapping rows over each other."""
    cuts = distinct(log[:, :2].reshape(-1))
    tile: Array = np.full(len(cuts) - 1, UNMAPPED)
    for begin, end, number in zip(
        np.searchsorted(cuts, log[:, 0]),
        np.searchsorted(cuts, log[:, 1]),
        log[:, 2].tolist(),
        strict=True,
    ):
        tile[begin:end] = number
    painted = tile != UNMAPPED
    return np.stack((cuts[:-1][painted], cuts[1:][painted], tile[painted]), axis=1)
