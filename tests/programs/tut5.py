"""Multiply a matrix and a vector with one vertex for each row, and count modelled cycles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Report, Vector, Vertex
from ipu_teach.program import Copy, Execute, Sequence, cycle_count


class DotProductVertex(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] * self.b[i]
        self.out = total


@dataclass
class Results:
    product: np.ndarray
    cycles: int
    report: Report


def build(graph: Graph, prog: Sequence, matrix, x, out) -> None:
    """Add out = matrix x to `prog`.

    The rows are distributed evenly over the tiles, each on the tile of its element of the result.
    """
    compute_set = graph.add_compute_set("mul")
    rows, tiles = matrix.dim(0), graph.target.num_tiles
    for row in range(rows):
        tile = row * tiles // rows
        vertex = graph.add_vertex(compute_set, DotProductVertex, a=matrix[row], b=x, out=out[row])
        for part in (vertex, matrix[row], out[row]):
            graph.set_tile_mapping(part, tile)
    prog.add(Execute(compute_set))


def main(matrix: np.ndarray, x: np.ndarray, tiles: int = 1472) -> Results:
    """Return matrix x (both float32), the modelled cycles of the compute set, and the report."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles, relative_sync_delay="NO_DELAY").create_device()
    graph = Graph(device.target)
    rows, columns = matrix.shape
    m = graph.add_variable(FLOAT, (rows, columns), "matrix")
    v = graph.add_variable(FLOAT, columns, "vector")
    out = graph.add_variable(FLOAT, rows, "result")
    for i in range(columns):
        graph.set_tile_mapping(v[i], i * tiles // columns)

    multiply = Sequence()
    build(graph, multiply, m, v, out)
    count = cycle_count(graph, multiply, 0)
    graph.create_host_read("cycles", count)
    in_matrix = graph.add_host_to_device_fifo("matrix", FLOAT, m.num_elements)
    in_vector = graph.add_host_to_device_fifo("vector", FLOAT, v.num_elements)
    out_stream = graph.add_device_to_host_fifo("result", FLOAT, out.num_elements)

    engine = Engine(
        graph, Sequence(Copy(in_matrix, m), Copy(in_vector, v), multiply, Copy(out, out_stream))
    )
    engine.load(device)
    product = np.empty(rows, np.float32)
    engine.connect_stream("matrix", matrix)
    engine.connect_stream("vector", x)
    engine.connect_stream("result", product)
    engine.run(0)
    low, high = engine.read_tensor("cycles").tolist()
    return Results(product, low + (high << 32), engine.report)


def sequential(matrix: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return what one worker computes for each row.

    Products are added from first to last, and each step is rounded to float32.
    """
    total = np.zeros(len(matrix), np.float32)
    for column in range(len(x)):
        total += matrix[:, column] * x[column]
    return total


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    print(main(rng.random((200, 100), np.float32), rng.random(100, np.float32)).report)
