"""Use PopLibs: a library call adds variables, vertices and steps, and returns a tensor.

Nothing runs yet at that point.
"""

from __future__ import annotations

import io

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel
from ipu_teach.poplibs import popops
from ipu_teach.program import PrintTensor, Sequence


def main() -> tuple[dict[str, np.ndarray], str]:
    """Return the three sums by name, and the output of PrintTensor."""
    device = IPUModel("ipu2").create_device()
    graph = Graph(device.target)
    v1 = graph.add_variable(FLOAT, (2, 2), "v1")
    v2 = graph.add_variable(FLOAT, (2, 2), "v2")
    for i in range(2):
        for j in range(2):
            graph.set_tile_mapping(v1[i, j], 2 * i + j)
            graph.set_tile_mapping(v2[i, j], 2 * i + j)
    graph.set_initial_value(v1, [[1.0, 1.5], [2.0, 2.5]])
    graph.set_initial_value(v2, [[4.0, 3.0], [2.0, 1.0]])

    prog = Sequence()
    v3 = popops.add(graph, v1, v2, prog, "add")
    v4 = popops.add(graph, v3, v2, prog, "add_again")
    # A transpose is a view, and needs no step.
    v5 = popops.add(graph, v1, v2.transpose(), prog, "add_transposed")
    named = {"v3": v3, "v4": v4, "v5": v5}
    for name, tensor in named.items():
        prog.add(PrintTensor(name, tensor))
        graph.create_host_read(name, tensor)

    engine = Engine(graph, prog)
    engine.load(device)
    printed = io.StringIO()
    engine.set_print_tensor_stream(printed)
    engine.run(0)
    return {name: engine.read_tensor(name) for name in named}, printed.getvalue()


if __name__ == "__main__":
    print(main()[1])
