"""Write vertex code: each of four vertices sums the rest of a vector, from its own element on."""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Report, Vector, Vertex
from ipu_teach.program import Copy, Execute, Sequence


class SumVertex(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for value in self.x:
            total += value
        self.out = total


def main() -> tuple[np.ndarray, Report]:
    """Return the four sums, and the report of the run."""
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device.target)
    v1 = graph.add_variable(FLOAT, 4, "v1")
    v2 = graph.add_variable(FLOAT, 4, "v2")
    c1 = graph.add_constant(FLOAT, 4, [1.0, 1.5, 2.0, 2.5], "c1")
    graph.set_tile_mapping(c1, 0)

    compute_set = graph.add_compute_set("sums")
    for i in range(4):
        graph.set_tile_mapping(v1[i], i)
        graph.set_tile_mapping(v2[i], i)
        vertex = graph.add_vertex(compute_set, SumVertex)
        graph.connect(vertex["x"], v1[i:])
        graph.connect(vertex["out"], v2[i])
        graph.set_tile_mapping(vertex, i)
        graph.set_perf_estimate(vertex, 20)
    graph.create_host_read("v2", v2)

    engine = Engine(graph, Sequence(Copy(c1, v1), Execute(compute_set)))
    engine.load(device)
    engine.run(0)
    return engine.read_tensor("v2"), engine.report


if __name__ == "__main__":
    print(main())
