"""Transfers that pass while tiles compute."""

from __future__ import annotations

from ipu_teach.golden.programs import machine, profile
from ipu_teach.golden.row import MODEL, Row
from ipu_teach.graph import Graph, Input, Output, Vector, Vertex
from ipu_teach.program import Copy, Execute, Program, Sequence
from ipu_teach.types import FLOAT

ROUNDS, SIZE = 10, 256


class Work(Vertex):
    """Takes longer than a load and a store together."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.x * 2


def rounds() -> int:
    """A loop of ten rounds of load, work and store, the transfers through an I/O tile: in how many
    of them both a load and a store pass while the other tile works."""
    graph = Graph(machine("ipu2", tiles_per_ipu=2, io_tiles=1))
    tensors = [graph.add_variable(FLOAT, (SIZE,), name) for name in ("in", "x", "y", "out")]
    for tensor, tile in zip(tensors, (0, 1, 1, 0), strict=True):
        graph.set_tile_mapping(tensor, tile)
    came, x, y, goes = tensors
    compute_set = graph.add_compute_set("work")
    vertex = graph.add_vertex(compute_set, Work, x=x, out=y)
    graph.set_tile_mapping(vertex, 1)
    graph.set_perf_estimate(vertex, 1000)
    load, store = (graph.add_remote_buffer(name, FLOAT, SIZE) for name in ("load", "store"))
    steps: list[Program] = [Copy(load, came)]
    for number in range(ROUNDS):
        steps.append(Copy(came, x))
        steps += [Copy(goes, store)] * (number > 0) + [Copy(load, came)] * (number < ROUNDS - 1)
        steps += [Execute(compute_set), Copy(y, goes)]
    ran = profile(graph, Sequence(*steps, Copy(goes, store))).steps()
    passing = {
        name: [(step.start, step.end) for step in ran if step.name == name]
        for name in ("work", "load", "store")
    }
    return sum(
        all(any(begin <= a and b <= end for a, b in passing[way]) for way in ("load", "store"))
        for begin, end in passing["work"]
    )


def transfers() -> list[Row]:
    """Of a loop with I/O tiles."""
    return [
        Row(
            f"a loop of {ROUNDS} rounds with I/O tiles: rounds whose transfers overlap",
            MODEL,
            "graphcore/examples, PopXL tutorial 6, overlapped I/O: N - 2 of N",
            ROUNDS - 2,
            rounds(),
            0,
            "the first round has nothing to store yet, and the last nothing more to load",
        )
    ]
