"""The tiles that are reserved for transfers, so that the other tiles can compute at the same time.

I/O tiles are the first tiles of each IPU; `IPUModel(io_tiles=…)` sets their number. Poplar programs
get the I/O tiles from `per_ipu_tiles(graph, 0, n)` and the computing tiles from
`per_ipu_tiles(graph, n, rest)`, and create a virtual graph for each of the two. It is not published
which tiles gcl itself chooses as I/O tiles.
"""

from __future__ import annotations

from typing import NoReturn

from ipu_teach.errors import NotOfferedError, counted, shown
from ipu_teach.graph import Graph
from ipu_teach.poplibs.library import is_count, library, refused

__all__ = ["get_min_io_tiles", "per_ipu_tiles"]


@library
def per_ipu_tiles(graph: Graph, offset: int, count: int) -> list[int]:
    """Return the numbers of `count` tiles of each IPU of the graph, from its tile `offset` on.

    Pass them to `Graph.create_virtual_graph`. With `IPUModel(io_tiles=64)`, the I/O tiles are
    `per_ipu_tiles(graph, 0, 64)`, and the computing tiles are `per_ipu_tiles(graph, 64,
    graph.target.tiles_per_ipu - 64)`.

    :raises PoplibsError: if an IPU does not have these tiles.
    """
    tiles_per_ipu = graph.target.tiles_per_ipu
    are_counts = is_count(offset, 0) and is_count(count, 1)
    if not are_counts or int(offset) + int(count) > tiles_per_ipu:
        raise refused(
            f"was given {shown(offset)} as offset and {shown(count)} as count.",
            next_step=(
                "give the first tile and the number of tiles; each IPU has "
                f"{counted(tiles_per_ipu, 'tile')}, numbered from 0."
            ),
        )
    first_tiles = range(int(offset), graph.target.num_tiles, tiles_per_ipu)
    return [tile for begin in first_tiles for tile in range(begin, begin + int(count))]


@library
def get_min_io_tiles(graph: Graph) -> NoReturn:
    """Raise `NotOfferedError`: this kit does not know the library's minimum number of I/O tiles."""
    raise NotOfferedError("""gcl.get_min_io_tiles is not offered by this kit: the library's minimum
        number of I/O tiles is not published.
        next:  choose a number: IPUModel(io_tiles=64) on a whole chip, 1 on a chip of few tiles.""")
