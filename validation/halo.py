"""The halo exchanges whose profiles are published: lbm-graphcore's experiments.

Source: thorbenlouw/lbm-graphcore, experiments/halo-exchange-approaches. `build` is "implicit":
vertices read the edges of their neighbours' blocks. `two_waves` is "explicitOneTensor2Wave": copies
first fill a halo around every block, so that a tile has 102 x 102 elements, of which the outermost
are copies of its neighbours' elements.

The grid has 608 x 2 blocks, one on each tile, with edges of zeros. Each block reads the same parts
of its neighbours as in that program (main/HaloRegionApproaches.cpp), including its oddities: a
single element from the south, and one element less than the block's width from each of the other
sides. Each vertex has an estimate of 100 cycles, and its values do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipu_teach.graph import ComputeSet, Graph, Input, Output, Tensor, Vector, Vertex, concat
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.types import FLOAT

COLUMNS = 2


class ExtraHalos(Vertex):
    """A block, `inner`, with the edges of its eight neighbours that it reads."""

    inner: Input[Vector[Vector[FLOAT]]]
    north: Input[Vector[FLOAT]]
    south: Input[Vector[FLOAT]]
    east: Input[Vector[FLOAT]]
    west: Input[Vector[FLOAT]]
    corners: Input[Vector[FLOAT]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.inner * 1


def build(graph: Graph, block: int = 100, pairs: int = 10) -> Repeat:
    """Return 2 x `pairs` steps, which alternate between two buffers as source and destination."""
    rows = graph.target.num_tiles // COLUMNS
    first, second = (
        graph.add_variable(FLOAT, (rows * block, COLUMNS * block), name) for name in ("in", "out")
    )
    for tile in range(rows * COLUMNS):
        for grid in (first, second):
            graph.set_tile_mapping(_block(grid, block, *divmod(tile, COLUMNS)), tile)
    zeros = graph.add_constant(FLOAT, (rows * COLUMNS, block), 0, "zeros")
    for tile in range(rows * COLUMNS):
        graph.set_tile_mapping(zeros[tile], tile)
    graph.set_initial_value(first, 1)
    steps = []
    for source, into, name in ((first, second, "forth"), (second, first, "back")):
        compute_set = graph.add_compute_set(name)
        for tile in range(rows * COLUMNS):
            _vertex(
                graph, compute_set, source, into=into, zeros=zeros[tile], block=block, tile=tile
            )
        steps.append(Execute(compute_set))
    return Repeat(pairs, Sequence(*steps))


def _block(grid: Tensor, block: int, row: int, column: int) -> Tensor:
    return grid[row * block : (row + 1) * block, column * block : (column + 1) * block]


def _vertex(
    graph: Graph,
    compute_set: ComputeSet,
    source: Tensor,
    into: Tensor,
    zeros: Tensor,
    block: int,
    tile: int,
) -> None:
    row, column = divmod(tile, COLUMNS)
    rows = source.shape[0] // block

    def near(down: int, right: int) -> Tensor | None:
        inside = 0 <= row + down < rows and 0 <= column + right < COLUMNS
        return _block(source, block, row + down, column + right) if inside else None

    def side(neighbour: Tensor | None, *part: object) -> Tensor:
        return zeros if neighbour is None else neighbour[part].flatten()

    def corner(neighbour: Tensor | None, i: int, j: int) -> Tensor:
        return zeros[0] if neighbour is None else neighbour[i, j]

    last = block - 1
    corners = [
        corner(near(-1, -1), last, last),
        corner(near(-1, 1), last, 0),
        corner(near(1, -1), 0, last),
        corner(near(1, 1), 0, 0),
    ]
    vertex = graph.add_vertex(
        compute_set,
        ExtraHalos,
        inner=_block(source, block, row, column),
        north=side(near(-1, 0), last, slice(1, None)),
        south=side(near(1, 0), 0, slice(last, None)),
        east=side(near(0, 1), slice(1, None), 0),
        west=side(near(0, -1), slice(1, None), last),
        corners=_joined(corners),
        out=_block(into, block, row, column),
    )
    graph.set_tile_mapping(vertex, tile)
    graph.set_perf_estimate(vertex, 100)


def _joined(numbers: list[Tensor]) -> Tensor:
    return concat([n.reshape((1,)) for n in numbers])


# --- copies into a halo ---------------------------------------------------------------------------


class IncludedHalos(Vertex):
    """A block with its halo, as one field `inner`."""

    inner: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.inner * 1


def two_waves(graph: Graph, block: int = 100, pairs: int = 10) -> Repeat:
    """Return 2 x `pairs` steps between two grids of blocks with halos; copies precede each step.

    The copies fill the halos. Those from north and south come first, one cell wider than a block.
    Then those from east and west follow, which include the corners that the first copies have
    filled.
    """
    tiles = graph.target.num_tiles // COLUMNS * COLUMNS
    side = block + 2
    grids = [
        graph.add_variable(FLOAT, (tiles // COLUMNS * side, COLUMNS * side), name)
        for name in ("in", "out")
    ]
    steps: list[Copy | Execute] = []
    for number, (source, target) in enumerate((grids, grids[::-1]), 1):
        graph.set_initial_value(source, 1)
        blocks = [
            [_block(grid, side, *divmod(tile, COLUMNS)) for tile in range(tiles)]
            for grid in (source, target)
        ]
        steps += [
            copy
            for down in (True, False)
            for tile in range(tiles)
            for copy in _copies(blocks[0], tile, block, down)
        ]
        compute_set = graph.add_compute_set(f"compute{number}")
        for tile, (inner, out) in enumerate(zip(*blocks, strict=True)):
            graph.set_tile_mapping(inner, tile)
            vertex = graph.add_vertex(compute_set, IncludedHalos, inner=inner, out=out)
            graph.set_tile_mapping(vertex, tile)
            graph.set_perf_estimate(vertex, 100)
        steps.append(Execute(compute_set))
    return Repeat(pairs, Sequence(*steps))


def _copies(blocks: list[Tensor], tile: int, block: int, down: bool) -> Iterator[Copy]:
    """Yield the copies that fill two edges of a tile's halo.

    With `down`, these are the edges to the north and south, otherwise those to the east and west.
    """
    row, column = divmod(tile, COLUMNS)
    along = slice(1, block + 2) if down else slice(0, block + 2)
    for step, theirs, ours in ((-1, block, 0), (1, 1, block + 1)):
        if 0 <= row + step < len(blocks) // COLUMNS if down else 0 <= column + step < COLUMNS:
            neighbour = blocks[tile + step * (COLUMNS if down else 1)]
            source, into = (
                ((theirs, along), (ours, along)) if down else ((along, theirs), (along, ours))
            )
            yield Copy(neighbour[source], blocks[tile][into])
