"""A stream whose callback fills the next transfer before it is needed.

The callback is exchanged between runs.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, InOut, IPUModel, StreamCallback, Vector, Vertex
from ipu_teach.program import Copy, Execute, Repeat, Sequence


class Increment(Vertex):
    # InOut, as the kit refuses one tensor on both an Input and an Output of a vertex.
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x += 1


class Fill(StreamCallback):
    """Fills every transfer with one value, and records its calls."""

    def __init__(self, value: float, calls: list[tuple[str, float]]) -> None:
        self.value = value
        self.calls = calls

    def prefetch(self, array: np.ndarray) -> StreamCallback.Result:
        self.calls.append(("prefetch", self.value))
        array[:] = self.value
        return StreamCallback.Result.SUCCESS

    def fetch(self, array: np.ndarray) -> None:
        self.calls.append(("fetch", self.value))
        array[:] = self.value

    def complete(self) -> None:
        self.calls.append(("complete", self.value))

    def invalidate_prefetched(self) -> None:
        self.calls.append(("invalidate", self.value))


def main(
    values: tuple[float, ...] = (1, 3, 3, 9, 9), elements: int = 8, repeats: int = 5
) -> tuple[list[float], list[tuple[str, float]]]:
    """Return the results of each run, and the calls of the callbacks."""
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    graph = Graph(device)
    data = graph.add_variable(FLOAT, elements, "data")
    graph.set_tile_mapping(data, 0)
    compute_set = graph.add_compute_set("increment")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Increment, x=data), 0)
    into = graph.add_host_to_device_fifo("in", FLOAT, elements)
    out = graph.add_device_to_host_fifo("out", FLOAT, elements)

    engine = Engine(
        graph, Repeat(repeats, Sequence(Copy(into, data), Execute(compute_set), Copy(data, out)))
    )
    engine.load(device)
    host = np.empty(elements, np.float32)
    engine.connect_stream("out", host)

    calls: list[tuple[str, float]] = []
    results = []
    previous = None
    for value in values:
        if value != previous:  # only a new value needs a new callback
            engine.connect_stream_to_callback("in", Fill(value, calls))
        engine.run()
        assert np.all(host == host[0])
        results.append(float(host[0]))
        previous = value
    return results, calls


if __name__ == "__main__":
    print(main())
