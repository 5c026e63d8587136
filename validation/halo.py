"""The halo exchanges whose profiles are published: lbm-graphcore's experiments.

Source: thorbenlouw/lbm-graphcore, experiments/halo-exchange-approaches. `build` is "implicit":
vertices read the edges of their neighbours' blocks. `two_waves` is "explicitOneTensor2Wave": copies
first fill a halo around every block, so that a tile has 102 x 102 elements, of which the outermost
are copies of its neighbours' elements.

The grid has 608 x 2 blocks, one on each tile, with edges of zeros. Each block reads the same parts
of its neighbours as in the published program (main/HaloRegionApproaches.cpp), including the
oddities of that program: a single element from the south, and one element less than the block's
width from each of the other sides. Each vertex is estimated at 100 cycles; the values that it
computes do not matter.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipu_teach.graph import ComputeSet, Graph, Input, Output, Tensor, Vector, Vertex, concat
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.types import FLOAT

COLUMNS = 2


class ExtraHalos(Vertex):
    """A block, `inner`, that reads the edges of its eight neighbours as separate fields."""

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
    """Build 2 x `pairs` steps, in which two grids alternate as source and destination.

    Each tile has a square block of `block` x `block` cells.
    """
    num_block_rows = graph.target.num_tiles // COLUMNS
    first_grid, second_grid = (
        graph.add_variable(FLOAT, (num_block_rows * block, COLUMNS * block), name)
        for name in ("in", "out")
    )
    for tile in range(num_block_rows * COLUMNS):
        for grid in (first_grid, second_grid):
            graph.set_tile_mapping(_block(grid, block, *divmod(tile, COLUMNS)), tile)
    zeros = graph.add_constant(FLOAT, (num_block_rows * COLUMNS, block), 0, "zeros")
    for tile in range(num_block_rows * COLUMNS):
        graph.set_tile_mapping(zeros[tile], tile)
    graph.set_initial_value(first_grid, 1)
    steps = []
    for source, target, name in (
        (first_grid, second_grid, "forth"),
        (second_grid, first_grid, "back"),
    ):
        compute_set = graph.add_compute_set(name)
        for tile in range(num_block_rows * COLUMNS):
            _vertex(
                graph,
                compute_set,
                source,
                target=target,
                zeros=zeros[tile],
                block_size=block,
                tile=tile,
            )
        steps.append(Execute(compute_set))
    return Repeat(pairs, Sequence(*steps))


def _block(grid: Tensor, block_size: int, block_row: int, block_column: int) -> Tensor:
    return grid[
        block_row * block_size : (block_row + 1) * block_size,
        block_column * block_size : (block_column + 1) * block_size,
    ]


def _vertex(
    graph: Graph,
    compute_set: ComputeSet,
    source: Tensor,
    target: Tensor,
    zeros: Tensor,
    block_size: int,
    tile: int,
) -> None:
    block_row, block_column = divmod(tile, COLUMNS)
    num_block_rows = source.shape[0] // block_size

    def near(rows_down: int, columns_right: int) -> Tensor | None:
        inside = (
            0 <= block_row + rows_down < num_block_rows
            and 0 <= block_column + columns_right < COLUMNS
        )
        return (
            _block(source, block_size, block_row + rows_down, block_column + columns_right)
            if inside
            else None
        )

    def side(neighbour: Tensor | None, *part: object) -> Tensor:
        return zeros if neighbour is None else neighbour[part].flatten()

    def corner(neighbour: Tensor | None, i: int, j: int) -> Tensor:
        return zeros[0] if neighbour is None else neighbour[i, j]

    last = block_size - 1
    corners = [
        corner(near(-1, -1), last, last),
        corner(near(-1, 1), last, 0),
        corner(near(1, -1), 0, last),
        corner(near(1, 1), 0, 0),
    ]
    vertex = graph.add_vertex(
        compute_set,
        ExtraHalos,
        inner=_block(source, block_size, block_row, block_column),
        north=side(near(-1, 0), last, slice(1, None)),
        south=side(near(1, 0), 0, slice(last, None)),
        east=side(near(0, 1), slice(1, None), 0),
        west=side(near(0, -1), slice(1, None), last),
        corners=_joined(corners),
        out=_block(target, block_size, block_row, block_column),
    )
    graph.set_tile_mapping(vertex, tile)
    graph.set_perf_estimate(vertex, 100)


def _joined(cells: list[Tensor]) -> Tensor:
    return concat([cell.reshape((1,)) for cell in cells])


# --- copies into a halo ---------------------------------------------------------------------------


class IncludedHalos(Vertex):
    """A block whose vertex reads it together with its halo, as the single field `inner`."""

    inner: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.inner * 1


def two_waves(graph: Graph, block: int = 100, pairs: int = 10) -> Repeat:
    """Build 2 x `pairs` steps, each preceded by the copies that fill the halos.

    Each tile has a square block of `block` x `block` cells, with a halo of one cell around it.
    First come the copies from the neighbours to the north and south, which are one cell wider than
    a block. Then come the copies from the east and west, which take the full height, including the
    corners that the first copies have filled.
    """
    num_tiles = graph.target.num_tiles // COLUMNS * COLUMNS
    halo_block_size = block + 2
    grids = [
        graph.add_variable(
            FLOAT, (num_tiles // COLUMNS * halo_block_size, COLUMNS * halo_block_size), name
        )
        for name in ("in", "out")
    ]
    steps: list[Copy | Execute] = []
    for step_number, (source, target) in enumerate((grids, grids[::-1]), 1):
        graph.set_initial_value(source, 1)
        grid_blocks = [
            [_block(grid, halo_block_size, *divmod(tile, COLUMNS)) for tile in range(num_tiles)]
            for grid in (source, target)
        ]
        steps += [
            copy
            for vertical in (True, False)
            for tile in range(num_tiles)
            for copy in _copies(grid_blocks[0], tile, block, vertical)
        ]
        compute_set = graph.add_compute_set(f"compute{step_number}")
        for tile, (block_with_halo, out) in enumerate(zip(*grid_blocks, strict=True)):
            graph.set_tile_mapping(block_with_halo, tile)
            vertex = graph.add_vertex(compute_set, IncludedHalos, inner=block_with_halo, out=out)
            graph.set_tile_mapping(vertex, tile)
            graph.set_perf_estimate(vertex, 100)
        steps.append(Execute(compute_set))
    return Repeat(pairs, Sequence(*steps))


def _copies(blocks: list[Tensor], tile: int, block_size: int, vertical: bool) -> Iterator[Copy]:
    """Yield the copies that fill two opposite edges of a tile's halo.

    With `vertical`, these are the edges to the north and south, and otherwise the edges to the east
    and west.
    """
    block_row, block_column = divmod(tile, COLUMNS)
    cells_along = slice(1, block_size + 2) if vertical else slice(0, block_size + 2)
    for direction, their_index, our_index in ((-1, block_size, 0), (1, 1, block_size + 1)):
        if (
            0 <= block_row + direction < len(blocks) // COLUMNS
            if vertical
            else 0 <= block_column + direction < COLUMNS
        ):
            neighbour = blocks[tile + direction * (COLUMNS if vertical else 1)]
            source, into = (
                ((their_index, cells_along), (our_index, cells_along))
                if vertical
                else ((cells_along, their_index), (cells_along, our_index))
            )
            yield Copy(neighbour[source], blocks[tile][into])
