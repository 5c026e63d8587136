"""The blur whose phases are published: lbm-graphcore's GaussianBlurLowLevel on the image "cheese".

Source: thorbenlouw/lbm-graphcore, main/GaussianBlurLowLevel.cpp. The image has four channels and is
partitioned into blocks, one on each tile. The rows of a block are divided among six vertices on its
tile. Each vertex reads its rows, with a frame of one pixel around them, as one vector, for which
rows and frame have to be gathered. It writes its rows as one vector.
"""

from __future__ import annotations

from ipu_teach.graph import Graph, Input, Output, Vector, Vertex, concat
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.program import Execute
from ipu_teach.types import FLOAT, UNSIGNED_INT, DType

CHANNELS, HEIGHT, WIDTH = 4, 1_122, 2_200
# The numbers of rows and columns of blocks, for one block on each of 1,216 tiles. We chose them so
# that a block is nearly square.
BLOCKS = (38, 32)


class Blur(Vertex):
    """The blur as a plain loop over numbers.

    Each number of the result takes nine loads, eight sums, three products and a store.
    """

    inner: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    width: UNSIGNED_INT

    def compute(self) -> None:
        row_length = self.width * CHANNELS
        framed_length = (self.width + 2) * CHANNELS
        for row_number in range(len(self.out) // row_length):
            for number_in_row in range(row_length):
                corner = row_number * framed_length + number_in_row
                corners = (
                    self.inner[corner]
                    + self.inner[corner + 8]
                    + self.inner[corner + 2 * framed_length]
                    + self.inner[corner + 2 * framed_length + 8]
                )
                sides = (
                    self.inner[corner + 4]
                    + self.inner[corner + framed_length]
                    + self.inner[corner + framed_length + 8]
                    + self.inner[corner + 2 * framed_length + 4]
                )
                self.out[row_number * row_length + number_in_row] = (
                    0.0625 * corners + 0.25 * self.inner[corner + framed_length + 4] + 0.125 * sides
                )


class VectorBlur(Vertex):
    """The blur as operations on vectors, each of which is one row of the block."""

    inner: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    width: UNSIGNED_INT

    def compute(self) -> None:
        framed_length = (self.width + 2) * CHANNELS
        row_length = self.width * CHANNELS
        for row_number in range(len(self.out) // row_length):
            above_start = row_number * framed_length
            current_start = (row_number + 1) * framed_length
            below_start = (row_number + 2) * framed_length
            west_offset = 0
            middle_offset = CHANNELS
            east_offset = 2 * CHANNELS
            corners = (
                self.inner[above_start + west_offset : above_start + west_offset + row_length]
                + self.inner[above_start + east_offset : above_start + east_offset + row_length]
            )
            corners = (
                corners
                + self.inner[below_start + west_offset : below_start + west_offset + row_length]
                + self.inner[below_start + east_offset : below_start + east_offset + row_length]
            )
            sides = (
                self.inner[above_start + middle_offset : above_start + middle_offset + row_length]
                + self.inner[current_start + west_offset : current_start + west_offset + row_length]
            )
            sides = (
                sides
                + self.inner[current_start + east_offset : current_start + east_offset + row_length]
                + self.inner[below_start + middle_offset : below_start + middle_offset + row_length]
            )
            centre = (
                0.25
                * self.inner[
                    current_start + middle_offset : current_start + middle_offset + row_length
                ]
            )
            self.out[row_number * row_length : (row_number + 1) * row_length] = (
                0.0625 * corners + centre + 0.125 * sides
            )


def build(graph: Graph, dtype: type[DType], cycles: int) -> Execute:
    """Build one pass over the image on one IPU, with a vertex for each worker thread.

    Each vertex has an estimate of `cycles` worker cycles, which replaces the cycles counted from
    its code.
    """
    image, out = (
        graph.add_variable(dtype, (HEIGHT, WIDTH, CHANNELS), name) for name in ("image", "blurred")
    )
    zero = graph.add_constant(dtype, (1,), 0, "frame")
    graph.set_tile_mapping(zero, 0)
    graph.set_initial_value(image, 1)
    edge_row = zero.broadcast(WIDTH * CHANNELS, 0).reshape((1, WIDTH, CHANNELS))
    edge_column = zero.broadcast((HEIGHT + 2) * CHANNELS, 0).reshape((HEIGHT + 2, 1, CHANNELS))
    framed_image = concat([edge_column, concat([edge_row, image, edge_row], 0), edge_column], 1)
    compute_set = graph.add_compute_set("blur")
    num_block_rows, num_block_columns = BLOCKS
    for block_row, (first_row, end_row) in enumerate(balanced_partition(HEIGHT, num_block_rows)):
        for block_column, (first_column, end_column) in enumerate(
            balanced_partition(WIDTH, num_block_columns)
        ):
            tile = block_row * num_block_columns + block_column
            for whole_image in (image, out):
                graph.set_tile_mapping(
                    whole_image[first_row:end_row, first_column:end_column], tile
                )
            for vertex_start, vertex_end in balanced_partition(
                end_row - first_row, graph.target.num_worker_contexts
            ):
                framed_rows = framed_image[
                    first_row + vertex_start : first_row + vertex_end + 2,
                    first_column : end_column + 2,
                ].flatten()
                vertex = graph.add_vertex(
                    compute_set,
                    Blur,
                    inner=framed_rows,
                    out=out[
                        first_row + vertex_start : first_row + vertex_end, first_column:end_column
                    ].flatten(),
                    width=end_column - first_column,
                )
                graph.set_tile_mapping(vertex, tile)
                graph.set_perf_estimate(vertex, cycles)
    return Execute(compute_set)
