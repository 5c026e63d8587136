"""Tile mapping: the tiles of a graph, and the log of its mapping calls."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.errors import InvalidTileMappingError, counted, shown
from ipu_teach.graph.layouts import as_array, as_shape, is_whole
from ipu_teach.graph.tile_map import UNMAPPED, TileMap, TileTable, order_of
from ipu_teach.types import Array, DType

if TYPE_CHECKING:
    from ipu_teach.graph.tensor import Tensor

EXTERNAL = -2  # The tile number of elements on a tile outside a virtual graph.
# A linear mapping uses a further tile only if a tile would otherwise get more than this number of
# bytes (graphcore/poplibs, lib/poputil/TileMapping.cpp).
MIN_BYTES_PER_TILE = 128

TileRanges = list[tuple[int, int]]
# A choice of tiles: the number of tiles, or a list of tile numbers.
TileChoice: TypeAlias = int | Sequence[int] | Array


class VariableMappingMethod(Enum):
    """The tile mapping of a new variable: none, or linear over all tiles in element order."""

    NONE = "none"
    LINEAR = "linear"


class Tiles:
    """The tiles of a graph, which are numbered from 0 to `count` - 1.

    A virtual graph has some of the tiles of its top-level graph. `chosen[i]` is the number of its
    tile i in the top-level graph, which has `machine_tiles` tiles. In other graphs, `chosen` is
    None.
    """

    def __init__(self, count: int, chosen: Array | None = None, machine_tiles: int = 0) -> None:
        self.count = count
        self.chosen = chosen
        self._names: Array | None = None
        if chosen is not None:
            self._names = np.full(machine_tiles + 1, EXTERNAL, np.int32)
            self._names[chosen] = np.arange(count)
            self._names[UNMAPPED] = UNMAPPED

    def number(self, tile: object, subject: object) -> int:
        """Return the number of `tile` in the top-level graph.

        Raises `InvalidTileMappingError`, which names `subject` (what is mapped), if the tile does
        not exist.
        """
        if type(tile) is int and 0 <= tile < self.count:
            return tile if self.chosen is None else int(self.chosen[tile])
        if isinstance(tile, np.integer) and 0 <= tile < self.count:
            return self.number(int(tile), subject)
        raise InvalidTileMappingError(
            f"There is no tile {shown(int(tile))}."
            if is_whole(tile)
            else f"{shown(tile)} is not a tile number.",
            where=subject if isinstance(subject, str) else repr(subject),
            next_step="use tile 0, the only tile of the target."
            if self.count == 1
            else f"use a tile from 0 to {self.count - 1}.",
        )

    def numbers(self, tiles: ArrayLike, subject: str) -> Array:
        """Return the numbers of `tiles` in the top-level graph, as an array of the same shape.

        Raises `InvalidTileMappingError`, which names `subject` (what is mapped).
        """
        numbers = as_array(tiles)
        if numbers.dtype.kind not in "iu" and numbers.size:
            raise InvalidTileMappingError(
                f"{shown(tiles)} is neither a tile number nor a list of tile numbers.",
                where=subject,
                next_step="give whole numbers.",
            )
        flat = numbers.reshape(-1)
        bad = np.flatnonzero((flat < 0) | (flat >= self.count))
        if bad.size:
            self.number(flat[bad[0]], f"{subject}, number {bad[0]}")
        return numbers if self.chosen is None else self.chosen[numbers]

    def of_rows(self, tensor: Tensor, subject: str, tiles: ArrayLike) -> tuple[Array, Array, Array]:
        """Return (begin, end, tile) of the pieces of a tensor whose row i is on tile `tiles[i]`.

        `begin` and `end` count elements of the tensor. `subject` describes the tensor in errors.
        """
        tile_numbers = self.numbers(tiles, subject)
        if tensor.rank == 0 or len(tile_numbers) != tensor.shape[0]:
            raise InvalidTileMappingError(f"""{counted(len(tile_numbers), "tile")} were given for
                the rows of {subject}, which has shape {tensor.shape}.
                where: {tensor!r}
                next:  give one tile for each row of the leading axis, or a single number.""")
        first_rows = np.flatnonzero(
            np.append(True, tile_numbers[1:] != tile_numbers[:-1])[: len(tile_numbers)]
        )
        row_bounds = np.append(first_rows, len(tile_numbers))
        row_elements = prod(tensor.shape[1:])
        return (
            row_bounds[:-1] * row_elements,
            row_bounds[1:] * row_elements,
            tile_numbers[first_rows],
        )

    def of_intervals(
        self, tensor: Tensor, subject: str, mapping: object
    ) -> tuple[Array, Array, Array]:
        """Return (begin, end, tile) of every interval in `mapping`.

        `mapping` contains a list of (begin, end) for each tile. `subject` describes the tensor in
        errors.
        """

        advice = "give a tile number, or for each tile a list of (begin, end) intervals."
        if not isinstance(mapping, (list, tuple)):
            raise InvalidTileMappingError(
                f"{subject} was mapped to {shown(mapping)}, which is not a tile mapping.",
                where=repr(tensor),
                next_step=advice,
            )
        if len(mapping) > self.count:
            raise InvalidTileMappingError(
                f"A mapping for {len(mapping):,} tiles was given, but the target has "
                f"{self.count:,}.",
                where=repr(tensor),
                next_step=advice,
            )
        pieces = []
        num_elements = tensor.num_elements
        for tile, intervals in enumerate(mapping):
            if not isinstance(intervals, (list, tuple)):
                raise InvalidTileMappingError(
                    f"Tile {tile} was given {shown(intervals)}, which is not a list of intervals.",
                    where=repr(tensor),
                    next_step=advice,
                )
            tile_number = self.number(tile, tensor)
            for interval in intervals:
                # Most intervals are tuples of two ints, and need no conversion.
                is_plain = type(interval) is tuple and [*map(type, interval)] == [int, int]
                bounds = interval if is_plain else as_shape(interval)
                if (
                    bounds is None
                    or len(bounds) != 2
                    or not 0 <= bounds[0] <= bounds[1] <= num_elements
                ):
                    elements = counted(num_elements, "element")
                    raise InvalidTileMappingError(
                        f"Tile {tile} was given {shown(interval)}, which is not an interval of "
                        f"{elements}.",
                        where=repr(tensor),
                        next_step=advice,
                    )
                pieces.append((bounds[0], bounds[1], tile_number))
        begins, ends, numbers = np.array(pieces, np.int64).reshape(-1, 3).T
        return begins, ends, numbers

    def renumber(self, table: TileTable) -> TileTable:
        """Return the top-level graph's tile table with the tile numbers of this graph.

        Elements on any other tile get the tile number `EXTERNAL`.
        """
        return table if self._names is None else table.renumbered(self._names)


class MappingLog:
    """All mapping calls of a graph.

    `rows` contains (start byte, stop byte, tile) for each piece; a later row overrides earlier
    ones.
    """

    def __init__(self) -> None:
        self.rows = array("q")
        # In the log of all replicas, this function appends the new mapping calls of the graph of
        # one replica, once for each replica. In other logs, it does nothing.
        self.images: Callable[[], None] = lambda: None
        self._painted = 0
        self._table = TileTable([TileMap(np.zeros(1, np.int64), np.full(1, UNMAPPED, np.int32))])

    def add(self, tensor: Tensor, tile: int) -> None:
        """Map all elements of `tensor` to `tile`."""
        layout = tensor.layout
        element_bytes = tensor.dtype.size
        if layout.contiguous:
            if layout.size:
                first_byte = tensor.offset * element_bytes
                self.rows.extend((first_byte, first_byte + layout.size * element_bytes, tile))
            return
        starts, stops = tensor.byte_extent()
        self.extend(starts, stops, np.full_like(starts, tile))

    def add_pieces(self, tensor: Tensor, begin: Array, end: Array, tile: Array) -> None:
        """For each i, map elements `begin[i]` to `end[i]` - 1 of `tensor` to the tile `tile[i]`.

        Elements are numbered in the order of the tensor.
        """
        starts, lengths = tensor.layout.runs
        if len(starts):
            view_starts = np.cumsum(lengths) - lengths
            element_bytes = tensor.dtype.size
            # `TileMap.split` divides intervals where the tile changes. This call uses the
            # contiguous runs of the view in place of tiles, so it divides the pieces where the view
            # is not contiguous.
            interval, part_begins, part_ends, run_of_part = TileMap(
                view_starts, np.arange(len(view_starts))
            ).split(begin, end)
            first_bytes = (
                tensor.offset + starts[run_of_part] + part_begins - view_starts[run_of_part]
            ) * element_bytes
            is_nonempty = part_ends > part_begins
            self.extend(
                first_bytes[is_nonempty],
                (first_bytes + (part_ends - part_begins) * element_bytes)[is_nonempty],
                tile[interval][is_nonempty],
            )

    def extend(self, start: Array, stop: Array, tile: Array) -> None:
        """Append many rows, which are given as columns."""
        self.rows.frombytes(np.stack((start, stop, tile), axis=1).astype(np.int64).tobytes())

    def table(self) -> TileTable:
        """Return the tile of every byte after the mapping calls so far."""
        self.images()
        if self._painted < len(self.rows):
            new_rows = np.array(self.rows[self._painted :], np.int64).reshape(-1, 3)
            self._table = self._table.paint(new_rows)
            self._painted = len(self.rows)
        return self._table


def pieces_by_tile(tensor: Tensor, tile_map: TileTable) -> tuple[Array, Array, Array]:
    """Split `tensor` into pieces that are each on one tile; return arrays `(begin, count, tile)`.

    `begin` is the index of the first element of each piece, in row-major order of the tensor, and
    `count` is its number of elements. The tile of unmapped pieces is -1.
    """
    element_bytes = tensor.dtype.size
    starts, lengths = tensor.layout.runs
    view_starts = np.cumsum(lengths) - lengths
    run_begins = (tensor.offset + starts) * element_bytes
    run_of_piece, piece_begins, piece_ends, tile = tile_map.split(
        run_begins, run_begins + lengths * element_bytes
    )
    return (
        view_starts[run_of_piece] + (piece_begins - run_begins[run_of_piece]) // element_bytes,
        (piece_ends - piece_begins) // element_bytes,
        tile,
    )


def intervals_by_tile(begin: Array, count: Array, tile: Array) -> dict[int, TileRanges]:
    """Return, for each tile in ascending order, the (begin, end) intervals of a tensor on it.

    The arguments are the result of `pieces_by_tile`. Pieces with a negative tile are left out.
    """
    # Fast path for a single piece, because most tensors are small and on a single tile.
    if len(tile) == 1 and tile[0] >= 0:
        return {int(tile[0]): [(int(begin[0]), int(begin[0] + count[0]))]}
    mapped_pieces = np.flatnonzero(tile >= 0)
    mapped_pieces = mapped_pieces[order_of(tile[mapped_pieces])]
    begin, end, tile = (
        begin[mapped_pieces],
        begin[mapped_pieces] + count[mapped_pieces],
        tile[mapped_pieces],
    )
    is_first = np.append(True, (tile[1:] != tile[:-1]) | (begin[1:] != end[:-1]))[: len(tile)]
    is_last = np.append(is_first[1:], True)[: len(tile)]
    intervals = list(zip(begin[is_first].tolist(), end[is_last].tolist(), strict=True))
    tile = tile[is_first]
    tile_starts = np.flatnonzero(np.append(True, tile[1:] != tile[:-1])[: len(tile)])
    bounds = [*tile_starts.tolist(), len(tile)]
    return {
        tile_number: intervals[first_interval:end_interval]
        for tile_number, first_interval, end_interval in zip(
            tile[tile_starts].tolist(), bounds, bounds[1:], strict=False
        )
    }


def linear_mapping(count: int, num_tiles: int, grain: int, min_elements: int) -> list[TileRanges]:
    """Return the intervals of elements for each tile of a linear mapping of `count` elements.

    The list ends with the last tile in use, and each tile has one interval (begin, end). The
    elements are distributed in order and in groups of `grain`, over as few tiles as possible, and
    evenly among these tiles. No tile gets more than `min_elements` elements, rounded up to whole
    groups. If an even share of the elements over all `num_tiles` tiles is larger than this limit,
    that share is the limit instead.
    """
    grains = -(-count // grain)
    grains_per_tile = max(-(-grains // num_tiles), -(-min_elements // grain), 1)
    used = -(-grains // grains_per_tile)
    cuts = [min(tile * grains // used * grain, count) for tile in range(used)] + [count]
    return [[interval] for interval in zip(cuts, cuts[1:], strict=False)]


def least_elements(dtype: type[DType]) -> int:
    """Return the number of elements of `dtype` in 128 bytes, rounded up.

    By default, a linear tile mapping uses a further tile only if a tile would otherwise get more
    elements than this.
    """
    return -(-MIN_BYTES_PER_TILE // dtype.size)
