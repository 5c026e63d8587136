"""Clones: new variables with the shape and the tile mapping of an existing tensor."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

import numpy as np

from ipu_teach.graph.mapping import MappingLog
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.tile_map import UNMAPPED, TileTable
from ipu_teach.types import Array, DType


class TensorCloneMethod(Enum):
    """The memory order of a clone's elements, and whether aliased elements stay aliased.

    `Graph.clone` explains each method.
    """

    PRESERVE_ORDER_AND_ALIASES = "preserve order and aliases"
    CREATE_NEW_ORDER = "create new order"
    PRESERVE_ORDER_UNLESS_ALIASES = "preserve order unless aliases"
    GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES = "gather and preserve tile order and aliases"


def make_clone(
    original: Tensor,
    dtype: type[DType],
    method: TensorCloneMethod,
    tile_map: TileTable,
    log: MappingLog,
    allocate: Callable[[type[DType], tuple[int, ...]], Tensor],
) -> Tensor:
    """Return a clone of `original` in a variable from `allocate(dtype, shape)`.

    `tile_map` contains the tiles of the original; the clone's tile mapping is added to `log`.
    """
    is_new_order = method is TensorCloneMethod.CREATE_NEW_ORDER
    if method is TensorCloneMethod.PRESERVE_ORDER_UNLESS_ALIASES:
        is_new_order = original.layout.aliased
    if is_new_order or (
        original.layout.contiguous
        and method is not TensorCloneMethod.GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES
    ):
        clone = allocate(dtype, original.shape)
        starts, lengths = original.layout.runs
        _copy_tiles(original, starts, lengths, clone=clone, tile_map=tile_map, log=log)
        return clone
    starts, lengths = original.layout.extent
    if method is TensorCloneMethod.GATHER_AND_PRESERVE_TILE_ORDER_AND_ALIASES:
        starts, lengths = _by_tile(original, starts, lengths, tile_map)
    variable = allocate(dtype, (int(lengths.sum()),))
    _copy_tiles(original, starts, lengths, clone=variable, tile_map=tile_map, log=log)
    # If the original covers one contiguous block, its layout is also valid in the clone's memory.
    if len(starts) == 1:
        return Tensor.of(original.graph, dtype, variable.offset - int(starts[0]), original.layout)
    # An element keeps its position within its contiguous run: add this position to the new start of
    # the run.
    order = np.argsort(starts)
    clone_starts = (np.cumsum(lengths) - lengths)[order]
    positions = original.layout.positions
    run_of_element = np.searchsorted(starts[order], positions, "right") - 1
    return original.graph.listed(
        dtype,
        variable.offset + clone_starts[run_of_element] + positions - starts[order][run_of_element],
    )


def _by_tile(
    original: Tensor, starts: Array, lengths: Array, tile_map: TileTable
) -> tuple[Array, Array]:
    """Split runs where the tile changes, and return (starts, lengths) sorted by tile.

    Unmapped pieces come first. The order within a tile does not change.
    """
    element_bytes = original.dtype.size
    run_begins = (original.offset + starts) * element_bytes
    _, piece_begins, piece_ends, piece_tiles = tile_map.split(
        run_begins, run_begins + lengths * element_bytes
    )
    order = np.argsort(piece_tiles, kind="stable")
    return (piece_begins // element_bytes - original.offset)[order], (
        (piece_ends - piece_begins) // element_bytes
    )[order]


def _copy_tiles(
    original: Tensor,
    starts: Array,
    lengths: Array,
    clone: Tensor,
    tile_map: TileTable,
    log: MappingLog,
) -> None:
    """Map each element of `clone` to the tile of the corresponding element of `original`.

    The elements of `clone` are contiguous, and those of `original` form contiguous runs, which are
    copied in the given order. `starts` and `lengths` count elements. The starts of the runs are
    relative to the offset of `original`.
    """
    element_bytes = original.dtype.size
    run_positions = np.cumsum(lengths) - lengths
    run_begins = (original.offset + starts) * element_bytes
    run_of_piece, piece_begins, piece_ends, piece_tiles = tile_map.split(
        run_begins, run_begins + lengths * element_bytes
    )
    clone_starts = (
        run_positions[run_of_piece]
        + (piece_begins - run_begins[run_of_piece]) // element_bytes
        + clone.offset
    )
    is_mapped = piece_tiles != UNMAPPED
    clone_stops = clone_starts + (piece_ends - piece_begins) // element_bytes
    log.extend(
        clone_starts[is_mapped] * clone.dtype.size,
        clone_stops[is_mapped] * clone.dtype.size,
        piece_tiles[is_mapped],
    )
