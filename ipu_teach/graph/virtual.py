"""Virtual graphs: a graph with some of another graph's tiles, numbered from 0."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ipu_teach.errors import GraphObjectCreationError, InvalidTileMappingError, shown
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.layouts import as_array, is_whole
from ipu_teach.graph.mapping import TileChoice, Tiles
from ipu_teach.types import Array


class VirtualGraph(Graph):
    """A separate graph with some of another graph's tiles, created by `Graph.create_virtual_graph`.

    All objects that are added to the virtual graph belong to the top-level graph. The virtual graph
    differs from it only in its tile numbers and its `target`.
    """

    def __init__(self, parent: Graph, *tiles: TileChoice) -> None:
        # Share the attributes instead of copying them: a graph never reassigns an attribute that
        # its __init__ has set.
        self.__dict__.update(parent.__dict__)
        parent_tiles = _choose(parent, tiles)
        chosen = parent._tiles.numbers(parent_tiles, "create_virtual_graph()")
        self._tiles = Tiles(len(parent_tiles), chosen, parent._top.target.num_tiles)
        target = parent.target
        is_count = len(tiles) == 1 and is_whole(tiles[0])
        ipus = target.num_ipus if is_count else max(1, len(parent_tiles) // target.tiles_per_ipu)
        ipus = ipus if len(parent_tiles) % ipus == 0 else 1
        tiles_per_ipu = len(parent_tiles) // ipus
        # The virtual graph's target has I/O tiles only if the chosen tiles are complete IPUs.
        keeps_ipus = tiles_per_ipu == target.tiles_per_ipu and np.array_equal(
            parent_tiles % tiles_per_ipu, np.arange(len(parent_tiles)) % tiles_per_ipu
        )
        aside = target.io_tiles if keeps_ipus else 0
        self.target = replace(target, num_ipus=ipus, tiles_per_ipu=tiles_per_ipu, io_tiles=aside)

    def __repr__(self) -> str:
        return f"VirtualGraph({self._tiles.count:,} tiles of {self._top!r})"


def _choose(parent: Graph, arguments: tuple[TileChoice, ...]) -> Array:
    """Return the parent's tile numbers for the arguments of `Graph.create_virtual_graph`.

    The arguments are a number of tiles, a range, or a list.
    """
    num_tiles = parent.target.num_tiles
    num_ipus = parent.target.num_ipus
    if len(arguments) == 1 and is_whole(arguments[0]):
        tiles_per_ipu = parent.target.tiles_per_ipu
        if not 1 <= arguments[0] <= tiles_per_ipu:
            raise InvalidTileMappingError(
                f"{_call_text(arguments)} chooses no tiles of the graph.",
                next_step=(
                    f"give a number from 1 to {tiles_per_ipu:,}, the number of tiles of an IPU."
                ),
            )
        return (np.arange(num_ipus)[:, None] * tiles_per_ipu + np.arange(arguments[0])).reshape(-1)
    if len(arguments) == 2:
        first_tile, end_tile = arguments
        if (
            not is_whole(first_tile)
            or not is_whole(end_tile)
            or not 0 <= first_tile < end_tile <= num_tiles
        ):
            raise InvalidTileMappingError(
                f"{_call_text(arguments)} chooses no tiles of the graph.",
                next_step=f"use 0 <= first < end <= {num_tiles:,}.",
            )
        return np.arange(first_tile, end_tile)
    if len(arguments) != 1 or not isinstance(arguments[0], (list, tuple, range, np.ndarray)):
        raise GraphObjectCreationError(f"""create_virtual_graph() was given {shown(arguments)},
            which does not choose tiles.
            next:  give a number of tiles, the first and the end of a range, or a list of tiles.""")
    numbers = as_array(arguments[0])
    if (
        numbers.ndim != 1
        or numbers.size == 0
        or numbers.dtype.kind not in "iu"
        or len(np.unique(numbers)) < numbers.size
    ):
        raise InvalidTileMappingError(
            f"{_call_text(arguments)} chooses no tiles of the graph.",
            next_step="give a list of different whole numbers, at least one.",
        )
    return numbers


def _call_text(arguments: tuple[TileChoice, ...]) -> str:
    """Return the call of `create_virtual_graph` with these arguments, as text for errors."""
    return f"create_virtual_graph({', '.join(map(shown, arguments))})"
