"""Append one value a step to an array that is spread over the tiles.

Every vertex counts the steps in a state field of its own and stores the value only when the count
falls into its part. State lives from run to run, as the array does; loading the engine anew starts
both over.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, INT, Engine, Graph, InOut, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.program import Execute, Repeat, Sequence


class NextValue(Vertex):
    """A stand-in for whatever the program works out in a step: 1, 3, 7, 15, …"""

    value: InOut[FLOAT]

    def compute(self):
        self.value = self.value * 2 + 1


class AppendValue(Vertex):
    value: Input[FLOAT]
    part: Output[Vector[FLOAT]]
    start: INT  # where this vertex's part begins in the whole array
    index: INT = 0  # steps so far; each vertex has its own, and all agree

    def compute(self):
        if self.start <= self.index < self.start + len(self.part):
            self.part[self.index - self.start] = self.value
        self.index += 1

    def cycles(self, target):
        # the place of the store depends on data, so its cost cannot be counted from a trace
        return 12


def main(capacity: int = 12, tiles: int = 4) -> list[np.ndarray]:
    """The array (float32 [capacity]) after three steps, after three more, and three steps after
    loading again."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    value = graph.add_variable(FLOAT, (), "value")
    graph.set_tile_mapping(value, 0)
    graph.set_initial_value(value, 0)
    array = graph.add_variable(FLOAT, capacity, "array")
    graph.set_initial_value(array, 0)

    following = graph.add_compute_set("next value")
    graph.set_tile_mapping(graph.add_vertex(following, NextValue, value=value), 0)
    append = graph.add_compute_set("append")
    size = capacity // tiles
    for tile in range(tiles):
        part = array[tile * size : (tile + 1) * size]
        graph.set_tile_mapping(part, tile)
        vertex = graph.add_vertex(append, AppendValue, value=value, part=part, start=tile * size)
        graph.set_tile_mapping(vertex, tile)
    graph.create_host_read("array", array)

    engine = Engine(graph, Repeat(3, Sequence(Execute(following), Execute(append))))
    engine.load(device)
    seen = []
    for fresh in (False, False, True):
        if fresh:
            engine.load(device)
        engine.run()
        seen.append(engine.read_tensor("array"))
    return seen


if __name__ == "__main__":
    print(*main(), sep="\n")
