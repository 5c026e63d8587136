"""Virtual graphs: a graph seen through some of its tiles, numbered from 0."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.errors import GraphObjectCreationError, InvalidTileMappingError, shown
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.layouts import as_array, is_whole
from ipu_teach.graph.mapping import Tiles
from ipu_teach.types import Array


class VirtualGraph(Graph):
    """Some tiles of a graph as a graph of their own. Made by `Graph.create_virtual_graph`.

    Everything made through it belongs to the top-level graph; only tile numbers, and `target`, are
    its own.
    """

    def __init__(self, parent: Graph, *tiles: Any) -> None:
        # Shared, not copied: a graph never rebinds what its __init__ has set.
        self.__dict__.update(parent.__dict__)
        own = _choose(parent, tiles)
        chosen = parent._tiles.numbers(own, "create_virtual_graph()")
        self._tiles = Tiles(len(own), chosen, parent._top.target.num_tiles)
        target = parent.target
        whole = len(tiles) == 1 and is_whole(tiles[0])
        ipus = target.num_ipus if whole else max(1, len(own) // target.tiles_per_ipu)
        ipus = ipus if len(own) % ipus == 0 else 1
        each = len(own) // ipus
        # what is not made of whole IPUs has nothing set aside
        alike = each == target.tiles_per_ipu and np.array_equal(
            own % each, np.arange(len(own)) % each
        )
        aside = target.io_tiles if alike else 0
        self.target = replace(target, num_ipus=ipus, tiles_per_ipu=each, io_tiles=aside)

    def __repr__(self) -> str:
        return f"VirtualGraph({self._tiles.count:,} tiles of {self._top!r})"


def _choose(parent: Graph, given: tuple[Any, ...]) -> Array:
    """The parent's tile numbers that are meant by a number of tiles, a range, or a list."""
    count, ipus = parent.target.num_tiles, parent.target.num_ipus
    if len(given) == 1 and is_whole(given[0]):
        each = parent.target.tiles_per_ipu
        if not 1 <= given[0] <= each:
            raise _refused(given, f"each IPU of the graph has {each:,} tiles.")
        return (np.arange(ipus)[:, None] * each + np.arange(given[0])).reshape(-1)
    if len(given) == 2:
        low, high = given
        if not is_whole(low) or not is_whole(high) or not 0 <= low < high <= count:
            raise _refused(given, f"use 0 <= first < end <= {count:,}.")
        return np.arange(low, high)
    if len(given) != 1 or not isinstance(given[0], (list, tuple, range, np.ndarray)):
        raise GraphObjectCreationError(f"""create_virtual_graph() was given {shown(given)}.
            next:  give a number of tiles, the first and the end of a range, or a list of tiles.""")
    numbers = as_array(given[0])
    if (
        numbers.ndim != 1
        or numbers.size == 0
        or numbers.dtype.kind not in "iu"
        or len(np.unique(numbers)) < numbers.size
    ):
        raise _refused(given, "a list of tiles holds whole numbers, at least one, each once.")
    return numbers


def _refused(given: tuple[Any, ...], advice: str) -> InvalidTileMappingError:
    words = ", ".join(shown(g) for g in given)
    return InvalidTileMappingError(
        f"create_virtual_graph({words}) chooses no tiles of the graph.", next_step=advice
    )
