"""Small programs whose reports several tests read."""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, HALF, Engine, Graph, Input, IPUModel, Output, Report, Vector, Vertex
from ipu_teach.program import Copy, Execute, Repeat, Sequence


class Work(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]
    k: FLOAT = 2

    def compute(self) -> None:
        self.out = self.x[0] * self.k


def small_engine() -> Engine:
    """Return a loaded engine of two programs on two tiles.

    A tile exchanges 4 bytes a cycle, and so does the host link; a sync takes 100 cycles, and the
    clock is 1 GHz.
    """
    model = IPUModel(
        tiles_per_ipu=2,
        memory_bytes_per_tile=8192,
        tile_clock_frequency=1e9,
        host_bytes_per_second=4e9,
    )
    device = model.create_device()
    graph = Graph(device)
    x, y, z = (graph.add_variable(FLOAT, 8, name) for name in "xyz")
    out = graph.add_variable(FLOAT, 8, "out")
    half = graph.add_constant(HALF, 2, 0.5, "half")
    for tensor, tile in ((x, 0), (y, 1), (z, 0), (out[:7], 0), (out[7], 1), (half, 1)):
        graph.set_tile_mapping(tensor, tile)
    cs = graph.add_compute_set("work")
    for number in range(8):
        v = graph.add_vertex(cs, Work, x=x, out=out[number])
        graph.set_tile_mapping(v, number // 7)
        graph.set_perf_estimate(v, 10 if number < 7 else 30)
    stream = graph.add_host_to_device_fifo("in", FLOAT, 8)
    engine = Engine(
        graph,
        [Sequence(Copy(stream, x), Execute(cs), Copy(x, y), Copy(x, z)), Execute(cs)],
        merge_copies=False,
    )
    engine.load(device)
    engine.connect_stream("in", np.arange(8.0))
    return engine


class Twice(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x * 2 + 1


def chain_report() -> Report:
    """Return the report of a loop that computes a -> b -> c -> d, one compute set each.

    A variable is live from the step that writes it to the step that reads it.
    """
    device = IPUModel(tiles_per_ipu=4).create_device()
    graph = Graph(device)
    tensors = [graph.add_variable(FLOAT, 16, name) for name in "abcd"]
    for tensor in tensors:
        graph.set_tile_mapping(tensor, 1)
    graph.create_host_write("a", tensors[0])
    graph.create_host_read("d", tensors[3])
    steps = []
    for number, (x, out) in enumerate(zip(tensors, tensors[1:], strict=False)):
        cs = graph.add_compute_set(f"layer{number // 2}/twice{number}")
        graph.set_tile_mapping(graph.add_vertex(cs, Twice, x=x, out=out), number % 4)
        steps.append(Execute(cs))
    engine = Engine(graph, Repeat(3, Sequence(*steps)), strict={"uninitialised": False})
    engine.load_and_run(device)
    return engine.report
