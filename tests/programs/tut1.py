"""Programs and variables: constants, tile mapping, copies, printing, host handles and a stream."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from ipu_teach import FLOAT, INT, Engine, Graph, IPUModel
from ipu_teach.program import Copy, PrintTensor, Sequence


@dataclass
class Results:
    printed: str
    h3: np.ndarray


def main() -> Results:
    device = IPUModel("ipu2").create_device()
    graph = Graph(device.target)

    # Memory first: four variables, and a tile for each of their elements.
    v1 = graph.add_variable(FLOAT, 4, "v1")
    v2 = graph.add_variable(FLOAT, 4, "v2")
    v3 = graph.add_variable(FLOAT, (4, 4), "v3")
    v4 = graph.add_variable(INT, 10, "v4")
    c1 = graph.add_constant(FLOAT, 4, [1.0, 1.5, 2.0, 2.5], "c1")
    for tensor in (v1, v3, v4, c1):
        graph.set_tile_mapping(tensor, 0)
    for i in range(4):
        graph.set_tile_mapping(v2[i], i)

    # Then the program, one step after another.
    prog = Sequence()
    prog.add(Copy(c1, v1))
    prog.add(PrintTensor("v1", v1))
    prog.add(Copy(v1, v2))
    prog.add(PrintTensor("v2", v2))
    prog.add(Copy(v1.slice(0, 3), v3[1, 1:4]))  # three elements to the end of row 1

    graph.create_host_write("v3-write", v3)
    graph.create_host_read("v3-read", v3)
    stream = graph.add_host_to_device_fifo("v4-input", INT, 10)
    for number in range(2):
        prog.add(Copy(stream, v4))
        prog.add(PrintTensor(f"v4-{number}", v4))

    # Compile, load, connect, run.
    engine = Engine(graph, prog)
    engine.load(device)
    printed = io.StringIO()
    engine.set_print_tensor_stream(printed)
    engine.write_tensor("v3-write", np.zeros((4, 4), np.float32))
    # three transfers of ten elements, then from the beginning
    engine.connect_stream("v4-input", np.arange(30, dtype=np.int32))
    engine.run(0)
    return Results(printed.getvalue(), engine.read_tensor("v3-read"))


if __name__ == "__main__":
    results = main()
    print(results.printed, results.h3, sep="\n")
