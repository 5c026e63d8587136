"""Append one value in each step to an array that is distributed over the tiles.

Every vertex counts the steps in a state field of its own, and stores the value only when the count
is in its part of the array. State and array keep their values from run to run; loading the engine
again starts both from the beginning.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, INT, Engine, Graph, InOut, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.program import Execute, Repeat, Sequence


class NextValue(Vertex):
    """A placeholder for the values that a program computes: 1, 3, 7, 15, …"""

    value: InOut[FLOAT]

    def compute(self):
        self.value = self.value * 2 + 1


class AppendValue(Vertex):
    value: Input[FLOAT]
    part: Output[Vector[FLOAT]]
    start: INT  # the first index of this vertex's part in the array
    index: INT = 0  # steps so far; each vertex has its own count, and all are equal

    def compute(self):
        if self.start <= self.index < self.start + len(self.part):
            self.part[self.index - self.start] = self.value
        self.index += 1

    def cycles(self, target):
        # The index of the store depends on data, so a trace cannot count its cost.
        return 12


def main(capacity: int = 12, tiles: int = 4) -> list[np.ndarray]:
    """Return the array (float32 [capacity]) after three steps, after six, and after a new load.

    After the new load, three steps run.
    """
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
