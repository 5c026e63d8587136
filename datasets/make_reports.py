"""Makes the sample reports in ipu_teach/report/samples: three small programs, compiled and run on
13 tiles.

    python datasets/make_reports.py

`products`: a matrix times a vector, a row to a vertex; `spread`: the same product with its rows cut
in two, and a second compute set that adds; `too_large`: a program that does not fit, as it was when
compiling stopped.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Report, Vector, Vertex
from ipu_teach.errors import GraphMemoryAllocationError
from ipu_teach.program import Copy, Execute, Repeat, Sequence

SAMPLES = Path(__file__).resolve().parents[1] / "ipu_teach" / "report" / "samples"
TILES, ROWS, COLUMNS = 13, 26, 64


class DotProduct(Vertex):
    """One row times the vector."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Add(Vertex):
    """The sum of what the parts of a row gave."""

    parts: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = np.sum(self.parts)


def product(parts: int) -> Report:
    """Three products of a matrix (26, 64) and a vector, each row in `parts` vertices."""
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device)
    matrix = graph.add_variable(FLOAT, (ROWS, COLUMNS), "matrix")
    vector = graph.add_variable(FLOAT, COLUMNS, "vector")
    partials = graph.add_variable(FLOAT, (ROWS, parts), "partials")
    result = graph.add_variable(FLOAT, ROWS, "result")
    graph.set_tile_mapping(vector, 0)
    multiply, add = graph.add_compute_set("product/multiply"), graph.add_compute_set("product/add")
    width = COLUMNS // parts
    for row in range(ROWS):
        tile = row % TILES
        graph.set_tile_mapping(result[row], tile)
        for part in range(parts):
            where = (tile + part) % TILES
            columns = slice(part * width, (part + 1) * width)
            graph.set_tile_mapping(matrix[row, columns], where)
            graph.set_tile_mapping(partials[row, part], where)
            out = partials[row, part] if parts > 1 else result[row]
            vertex = graph.add_vertex(
                multiply, DotProduct, a=matrix[row, columns], b=vector[columns], out=out
            )
            graph.set_tile_mapping(vertex, where)
        if parts > 1:
            graph.set_tile_mapping(
                graph.add_vertex(add, Add, parts=partials[row], out=result[row]), tile
            )
    vectors = graph.add_host_to_device_fifo("vectors", FLOAT, COLUMNS)
    results = graph.add_device_to_host_fifo("results", FLOAT, ROWS)
    graph.set_initial_value(matrix, np.ones((ROWS, COLUMNS), np.float32))
    work = [Execute(multiply), Execute(add)] if parts > 1 else [Execute(multiply)]
    engine = Engine(graph, Repeat(3, Sequence(Copy(vectors, vector), *work, Copy(result, results))))
    engine.load(device)
    engine.connect_stream("vectors", np.ones(COLUMNS, np.float32))
    engine.connect_stream("results", [])
    engine.run(0, "three products")
    return engine.report


def too_large() -> Report:
    """A variable that lies on one tile and fits on none."""
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device)
    everything = graph.add_variable(FLOAT, (400, 500), "everything")
    half = graph.add_variable(FLOAT, (200, 500), "half")
    graph.set_tile_mapping(everything, 5)
    for row in range(200):
        graph.set_tile_mapping(half[row], row % TILES)
    try:
        return Engine(graph, Copy(everything[:200], half)).report
    except GraphMemoryAllocationError as error:
        found: Report = error.report
        return found


def samples() -> dict[str, bytes]:
    """The files by name."""
    made = {"products": product(1), "spread": product(2), "too_large": too_large()}
    return {f"{name}.ipureport": report.serialize(host=False) for name, report in made.items()}


def main() -> int:
    SAMPLES.mkdir(exist_ok=True)
    for name, data in samples().items():
        (SAMPLES / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
