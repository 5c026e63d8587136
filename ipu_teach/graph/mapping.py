"""Tile numbers and intervals as a caller gives them, and as a caller asks for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.errors import InvalidTileMappingError, counted, shown
from ipu_teach.graph.tensor import Tensor, as_shape
from ipu_teach.graph.tile_map import UNMAPPED, TileMap
from ipu_teach.types import Array


def tile_number(tile: Any, num_tiles: int, what: object) -> int:
    """`tile` if it is one of `num_tiles` tiles; else `InvalidTileMappingError`, which names `what` was to go there."""
    if type(tile) is int and 0 <= tile < num_tiles:
        return tile
    if isinstance(tile, np.integer) and 0 <= tile < num_tiles:
        return int(tile)
    whole = isinstance(tile, (int, np.integer)) and not isinstance(tile, bool)
    raise InvalidTileMappingError(
        f"There is no tile {shown(int(tile))}." if whole else f"{shown(tile)} is no tile number.",
        where=what if isinstance(what, str) else repr(what),
        next_step="the target has a single tile, number 0."
        if num_tiles == 1
        else f"the target has the tiles 0 to {num_tiles - 1}.",
    )


def tile_numbers(tiles: Any, num_tiles: int, what: str) -> Array:
    """One tile number, or several, as an array of whole numbers; `what` names whose they are."""
    try:
        numbers = np.asarray(tiles)
    except (ValueError, OverflowError, MemoryError):
        numbers = np.asarray(None)
    if numbers.dtype.kind not in "iu" and numbers.size:
        raise InvalidTileMappingError(
            f"{shown(tiles)} is no tile number, nor a list of them.", where=what, next_step="tiles are whole numbers."
        )
    flat = numbers.reshape(-1)
    bad = np.flatnonzero((flat < 0) | (flat >= num_tiles))
    if bad.size:
        tile_number(flat[bad[0]], num_tiles, f"{what}, number {bad[0]}")
    return numbers


def intervals_given(mapping: Any, tensor: Tensor, num_tiles: int) -> list[tuple[int, int, int]]:
    """(tile, begin, end) of every interval in a mapping, which has for each tile a list of (begin, end)."""

    def refuse(problem: str) -> InvalidTileMappingError:
        return InvalidTileMappingError(
            problem, where=repr(tensor), next_step="give a tile number, or for each tile a list of (begin, end) intervals."
        )

    if not isinstance(mapping, (list, tuple)):
        raise refuse(f"{tensor.graph.describe(tensor)} was mapped to {shown(mapping)}.")
    if len(mapping) > num_tiles:
        raise refuse(f"A mapping for {len(mapping):,} tiles was given; the target has {num_tiles:,}.")
    pieces = []
    for tile, intervals in enumerate(mapping):
        if not isinstance(intervals, (list, tuple)):
            raise refuse(f"Tile {tile} was given {shown(intervals)}, which is no list of intervals.")
        for interval in intervals:
            span = as_shape(interval)
            if span is None or len(span) != 2 or not span[0] <= span[1] <= tensor.num_elements:
                elements = counted(tensor.num_elements, "element")
                raise refuse(f"Tile {tile} was given {shown(interval)}, which is no interval of {elements}.")
            pieces.append((tile, *span))
    return pieces


def intervals_by_tile(tile_map: TileMap, tensor: Tensor, num_tiles: int) -> tuple[list[list[tuple[int, int]]], int]:
    """(for each tile the (begin, end) intervals of `tensor` that lie there, the number of elements that lie nowhere)."""
    size = tensor.dtype.size
    starts, lengths = tensor.layout.runs
    first = np.cumsum(lengths) - lengths
    begin = (tensor.offset + starts) * size
    run, low, high, tile = tile_map.split(begin, begin + lengths * size)
    view = first[run] + (low - begin[run]) // size
    count = (high - low) // size
    mapping: list[list[tuple[int, int]]] = [[] for _ in range(num_tiles)]
    for t, a, n in zip(tile.tolist(), view.tolist(), count.tolist(), strict=True):
        if t == UNMAPPED:
            continue
        intervals = mapping[t]
        if intervals and intervals[-1][1] == a:
            intervals[-1] = (intervals[-1][0], a + n)
        else:
            intervals.append((a, a + n))
    return mapping, int(count[tile == UNMAPPED].sum())
