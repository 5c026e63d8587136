"""Profile a program: the product of three matrices on the full chip, and the summary of the run."""

from __future__ import annotations

import io

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, print_profile_summary
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Copy, Sequence

SHAPES = ((900, 600), (600, 300), (300, 200))


def inputs(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in SHAPES]


def main(matrices: list[np.ndarray]) -> tuple[np.ndarray, Report, str]:
    """Return the product of the matrices (float32), the report, and the profile summary."""
    device = IPUModel("ipu2").create_device()
    graph = Graph(device.target)
    prog = Sequence()
    tensors = []
    for number, matrix in enumerate(matrices, 1):
        tensor = graph.add_variable(FLOAT, matrix.shape, f"m{number}")
        poputil.map_tensor_linearly(graph, tensor)
        prog.add(Copy(graph.add_host_to_device_fifo(f"m{number}", FLOAT, matrix.size), tensor))
        tensors.append(tensor)
    m4 = poplin.mat_mul(graph, tensors[0], tensors[1], prog, "m4")
    m5 = poplin.mat_mul(graph, m4, tensors[2], prog, "m5")
    prog.add(Copy(m5, graph.add_device_to_host_fifo("m5", FLOAT, m5.num_elements)))

    engine = Engine(graph, prog)
    engine.load(device)
    for number, matrix in enumerate(matrices, 1):
        engine.connect_stream(f"m{number}", matrix)
    result = np.empty(m5.shape, np.float32)
    engine.connect_stream("m5", result)
    engine.run(0)
    summary = io.StringIO()
    print_profile_summary(engine.report, show_execution_steps=True, file=summary)
    return result, engine.report, summary.getvalue()


def too_large(tiles: int = 1472) -> Engine:
    """Return the compiled product of [9000, 7500] and [7500, 300], neither loaded nor run."""
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=tiles).create_device().target)
    a = graph.add_variable(FLOAT, (9000, 7500), "a")
    b = graph.add_variable(FLOAT, (7500, 300), "b")
    for tensor in (a, b):
        poputil.map_tensor_linearly(graph, tensor)
    prog = Sequence()
    poplin.mat_mul(graph, a, b, prog)
    return Engine(graph, prog)


if __name__ == "__main__":
    print(main(inputs())[2])
