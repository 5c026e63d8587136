"""Four programs in one engine: write inputs, add by a vertex, add by the library, read the result.

The compiled program can be saved to a file and loaded by another process, which then builds no
graph.
"""

from __future__ import annotations

from enum import IntEnum
from pathlib import Path

import numpy as np

from ipu_teach import (
    FLOAT,
    Engine,
    Executable,
    Graph,
    Input,
    IPUModel,
    Output,
    Vector,
    Vertex,
    compile_graph,
    concat,
)
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Program, Sequence


class Programs(IntEnum):
    WRITE_INPUTS = 0
    CUSTOM = 1
    REDUCTION = 2
    READ_RESULTS = 3


class VectorAdd(Vertex):
    x: Input[Vector[FLOAT]]
    y: Input[Vector[FLOAT]]
    z: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.z)):
            self.z[i] = self.x[i] + self.y[i]


def build(graph: Graph) -> list[Program]:
    """Add everything to `graph`; return the programs in the order of `Programs`."""
    x, y, z = (graph.add_variable(FLOAT, 4, name) for name in "xyz")
    for tile, tensor in enumerate((x, y, z)):
        graph.set_tile_mapping(tensor, tile)

    compute_set = graph.add_compute_set("custom")
    vertex = graph.add_vertex(compute_set, VectorAdd, x=x, y=y, z=z)
    graph.set_tile_mapping(vertex, 0)
    graph.set_perf_estimate(vertex, 20)

    # The same sum by the library: the two vectors are the columns of a [4, 2] view, whose rows are
    # reduced.
    side_by_side = concat([x.reshape((4, 1)), y.reshape((4, 1))], 1)
    reduction = Sequence()
    total = popops.reduce(graph, side_by_side, [1], reduction, "ADD")
    reduction.add(Copy(total, z))

    write = Sequence(
        Copy(graph.add_host_to_device_fifo(f"write_{t}", FLOAT, 4), v)
        for t, v in zip("xyz", (x, y, z), strict=True)
    )
    read = Copy(z, graph.add_device_to_host_fifo("read_z", FLOAT, 4))
    return [write, Execute(compute_set), reduction, read]


def execute(engine: Engine) -> list[np.ndarray]:
    """Return z (float32 [4]) by the vertex and by the library, from a loaded engine."""
    engine.connect_stream("write_x", np.array([1, 2, 3, 4], np.float32))
    engine.connect_stream("write_y", np.array([4, 3, 2, 1], np.float32))
    engine.connect_stream("write_z", np.full(4, -1, np.float32))
    results = []
    for way in (Programs.CUSTOM, Programs.REDUCTION):
        z = np.zeros(4, np.float32)
        engine.connect_stream("read_z", z)
        for program in (Programs.WRITE_INPUTS, way, Programs.READ_RESULTS):
            engine.run(program)
        results.append(z)
    return results


def save(path: Path) -> None:
    """Compile, and write the executable; this needs no device."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=4).create_device().target)
    compile_graph(graph, build(graph)).save(path)


def load(path: Path) -> list[np.ndarray]:
    """Load the executable, and run it on a device of the shape of its target."""
    executable = Executable.load(path, codelets=[VectorAdd])
    engine = Engine(executable)
    engine.load(IPUModel("ipu2", tiles_per_ipu=executable.target.tiles_per_ipu).create_device())
    return execute(engine)


def main() -> list[np.ndarray]:
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device.target)
    engine = Engine(graph, build(graph))
    engine.load(device)
    return execute(engine)


if __name__ == "__main__":
    print(main())
