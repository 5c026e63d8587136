"""The blur whose phases are published: lbm-graphcore's GaussianBlurLowLevel on the image "cheese".

Source: thorbenlouw/lbm-graphcore, main/GaussianBlurLowLevel.cpp. The image has four channels and is
partitioned into blocks, one on each tile. Six vertices of a tile share its block by rows. Each
vertex reads its rows, with a frame of one pixel around them, as one vector, so that frame and rows
have to be gathered, and writes its rows as one vector.
"""

from __future__ import annotations

from ipu_teach.graph import Graph, Input, Output, Vector, Vertex, concat
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.program import Execute
from ipu_teach.types import FLOAT, UNSIGNED_INT, DType

CHANNELS, HEIGHT, WIDTH = 4, 1_122, 2_200
BLOCKS = (38, 32)  # rows and columns of blocks on 1,216 tiles: our choice, nearly square


class Blur(Vertex):
    """A plain loop: nine loads, eight sums, three products and a store for each number."""

    inner: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    width: UNSIGNED_INT

    def compute(self) -> None:
        n = self.width * CHANNELS
        row = (self.width + 2) * CHANNELS
        for y in range(len(self.out) // n):
            for i in range(n):
                k = y * row + i
                corners = (
                    self.inner[k]
                    + self.inner[k + 8]
                    + self.inner[k + 2 * row]
                    + self.inner[k + 2 * row + 8]
                )
                sides = (
                    self.inner[k + 4]
                    + self.inner[k + row]
                    + self.inner[k + row + 8]
                    + self.inner[k + 2 * row + 4]
                )
                self.out[y * n + i] = (
                    0.0625 * corners + 0.25 * self.inner[k + row + 4] + 0.125 * sides
                )


class VectorBlur(Vertex):
    """The blur on vectors, one row at a time."""

    inner: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    width: UNSIGNED_INT

    def compute(self) -> None:
        row = (self.width + 2) * CHANNELS
        n = self.width * CHANNELS
        for y in range(len(self.out) // n):
            above = y * row
            current = (y + 1) * row
            below = (y + 2) * row
            west = 0
            middle = CHANNELS
            east = 2 * CHANNELS
            corners = (
                self.inner[above + west : above + west + n]
                + self.inner[above + east : above + east + n]
            )
            corners = (
                corners
                + self.inner[below + west : below + west + n]
                + self.inner[below + east : below + east + n]
            )
            sides = (
                self.inner[above + middle : above + middle + n]
                + self.inner[current + west : current + west + n]
            )
            sides = (
                sides
                + self.inner[current + east : current + east + n]
                + self.inner[below + middle : below + middle + n]
            )
            centre = 0.25 * self.inner[current + middle : current + middle + n]
            self.out[y * n : (y + 1) * n] = 0.0625 * corners + centre + 0.125 * sides


def build(graph: Graph, dtype: type[DType], cycles: int) -> Execute:
    """Return one pass over the image on one IPU, with a vertex for each worker thread.

    Each vertex has an estimate of `cycles` worker cycles.
    """
    image, out = (
        graph.add_variable(dtype, (HEIGHT, WIDTH, CHANNELS), name) for name in ("image", "blurred")
    )
    frame = graph.add_constant(dtype, (1,), 0, "frame")
    graph.set_tile_mapping(frame, 0)
    graph.set_initial_value(image, 1)
    row = frame.broadcast(WIDTH * CHANNELS, 0).reshape((1, WIDTH, CHANNELS))
    column = frame.broadcast((HEIGHT + 2) * CHANNELS, 0).reshape((HEIGHT + 2, 1, CHANNELS))
    framed = concat([column, concat([row, image, row], 0), column], 1)
    compute_set = graph.add_compute_set("blur")
    rows, columns = BLOCKS
    for i, (top, bottom) in enumerate(balanced_partition(HEIGHT, rows)):
        for j, (first, right) in enumerate(balanced_partition(WIDTH, columns)):
            tile = i * columns + j
            for tensor in (image, out):
                graph.set_tile_mapping(tensor[top:bottom, first:right], tile)
            for begin, end in balanced_partition(bottom - top, graph.target.num_worker_contexts):
                inner = framed[top + begin : top + end + 2, first : right + 2].flatten()
                vertex = graph.add_vertex(
                    compute_set,
                    Blur,
                    inner=inner,
                    out=out[top + begin : top + end, first:right].flatten(),
                    width=right - first,
                )
                graph.set_tile_mapping(vertex, tile)
                graph.set_perf_estimate(vertex, cycles)
    return Execute(compute_set)
