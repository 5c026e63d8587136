"""A stencil on a grid of tiles: each tile owns a block and reads cells of its eight neighbours.

The grid wraps around. There are two buffers: one step reads the first and writes the second, the
next step goes back. No vertex reads what another writes in the same superstep, so no field is InOut
and there is no race. The ring of cells around a block is a *view*, sliced from its neighbours and
concatenated. The compiler turns it into exchange; no step of the program copies it.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import (
    FLOAT,
    Engine,
    Graph,
    Input,
    IPUModel,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.program import Execute, Repeat, Sequence

# From north-west to south-east. All are different, so that a wrong ring changes the result.
WEIGHTS = np.array([[0.05, 0.12, 0.07], [0.10, 0.30, 0.11], [0.06, 0.13, 0.06]], np.float32)


class Stencil(Vertex):
    """out = the weighted mean of each cell and its eight neighbours.

    `padded` has one more row and column on every side.
    """

    padded: Input[Vector[Vector[FLOAT]]]
    weights: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        rows, columns = self.out.shape
        total = self.weights[0, 0] * self.padded[0:rows, 0:columns]
        for k in range(1, 9):
            i, j = k // 3, k % 3
            total = total + self.weights[i, j] * self.padded[i : i + rows, j : j + columns]
        self.out = total


def with_ring(blocks: list[list[Tensor]], i: int, j: int) -> Tensor:
    """Return block (i, j) with the ring of cells around it: [b, b] becomes [b + 2, b + 2]."""
    rows, columns = len(blocks), len(blocks[0])
    last, first, whole = slice(-1, None), slice(0, 1), slice(None)
    # The block above gives its last row, the left one its last column, a corner one its nearest cell.
    parts = {-1: last, 0: whole, 1: first}
    return concat(
        [
            concat(
                [
                    blocks[(i + di) % rows][(j + dj) % columns][parts[di], parts[dj]]
                    for dj in (-1, 0, 1)
                ],
                1,
            )
            for di in (-1, 0, 1)
        ],
        0,
    )


def grid(graph: Graph, rows: int, columns: int, block: int, name: str) -> list[list[Tensor]]:
    """Return rows x columns blocks of [block, block]; block (i, j) is on tile i * columns + j."""
    blocks = []
    for i in range(rows):
        blocks.append(
            [graph.add_variable(FLOAT, (block, block), f"{name}/{i}/{j}") for j in range(columns)]
        )
        for j, tensor in enumerate(blocks[i]):
            graph.set_tile_mapping(tensor, i * columns + j)
    return blocks


def step(
    graph: Graph, source: list[list[Tensor]], into: list[list[Tensor]], weights: Tensor, name: str
) -> Execute:
    """Return one step of the full grid, which reads `source` and writes `into`."""
    compute_set = graph.add_compute_set(name)
    for i, row in enumerate(into):
        for j, out in enumerate(row):
            vertex = graph.add_vertex(
                compute_set, Stencil, padded=with_ring(source, i, j), weights=weights, out=out
            )
            graph.set_tile_mapping(vertex, i * len(row) + j)
    return Execute(compute_set)


def joined(blocks: list[list[Tensor]]) -> Tensor:
    """Return the blocks as one matrix, a view."""
    return concat([concat(row, 1) for row in blocks], 0)


def main(
    start: np.ndarray, rows: int = 3, columns: int = 4, pairs: int = 2
) -> tuple[np.ndarray, Report]:
    """Return `start` (float32 [rows * b, columns * b]) after 2 * `pairs` steps, and the report."""
    block = start.shape[0] // rows
    device = IPUModel("ipu2", tiles_per_ipu=rows * columns).create_device()
    graph = Graph(device.target)
    here, there = (
        grid(graph, rows, columns, block, "here"),
        grid(graph, rows, columns, block, "there"),
    )
    weights = graph.add_constant(FLOAT, (3, 3), WEIGHTS, "weights")
    graph.set_tile_mapping(weights, 0)
    graph.create_host_write("start", joined(here))
    graph.create_host_read("end", joined(here))

    forth, back = (
        step(graph, here, there, weights, "forth"),
        step(graph, there, here, weights, "back"),
    )
    engine = Engine(graph, Repeat(pairs, Sequence(forth, back)))
    engine.load(device)
    engine.write_tensor("start", start)
    engine.run()
    return engine.read_tensor("end"), engine.report


def racing() -> Engine:
    """Return the same with a single buffer.

    It is refused: tiles would read cells that their neighbours are writing.
    """
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device().target)
    blocks = grid(graph, 2, 2, 3, "grid")
    weights = graph.add_constant(FLOAT, (3, 3), WEIGHTS, "weights")
    graph.set_tile_mapping(weights, 0)
    return Engine(graph, step(graph, blocks, blocks, weights, "in place"))


def reference(cells: np.ndarray, steps: int) -> np.ndarray:
    """Return the same by numpy on the full grid, with additions in the same order."""
    for _ in range(steps):
        total = WEIGHTS[0, 0] * np.roll(cells, (1, 1), (0, 1))
        for k in range(1, 9):
            i, j = k // 3, k % 3
            total = total + WEIGHTS[i, j] * np.roll(cells, (1 - i, 1 - j), (0, 1))
        cells = total
    return cells


if __name__ == "__main__":
    print(main(np.arange(15 * 20, dtype=np.float32).reshape(15, 20)))
