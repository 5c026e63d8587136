"""A chain of layers, y = tanh(x * w), forward and backward, by a list of steps.

The backward pass of a layer needs its input. So the chain saves all inputs, or recomputes some. The
gradients have the same bits either way.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, Tensor
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Sequence
from ipu_teach.schedules import BACKWARD, recompute

TILES = 13


def variable(graph: Graph, n: int, name: str) -> Tensor:
    made = graph.add_variable(FLOAT, (n,), name)
    poputil.map_tensor_linearly(graph, made)
    return made


def main(keep: Collection[int], weights: Any, x0: Any) -> tuple[Any, Report]:
    """Return the gradients of the sum of the outputs by the weights, and the report.

    The gradients have one row for each layer.
    """
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph, (layers, n) = Graph(device), weights.shape
    w = [variable(graph, n, f"w{i}") for i in range(layers)]
    dw = [variable(graph, n, f"dw{i}") for i in range(layers)]
    x = {0: variable(graph, n, "x0")}
    graph.create_host_write("x0", x[0])
    for i in range(layers):
        graph.set_initial_value(w[i], weights[i])
        graph.create_host_read(f"dw{i}", dw[i])
    prog, slope = Sequence(), None
    for kind, i in recompute(layers, keep):
        if kind != BACKWARD:
            x[i + 1] = popops.mul(graph, x[i], w[i], prog, f"{kind}{i}/mul")
            popops.tanh_in_place(graph, x[i + 1], prog, f"{kind}{i}/tanh")
            continue
        if slope is None:  # the gradient of the last output is 1, and tanh' is 1 - y * y
            square = popops.mul(graph, x[layers], x[layers], prog, "loss/square")
            slope = popops.sub(graph, 1.0, square, prog, "loss/slope")
        popops.mul_with_output(graph, slope, x[i], dw[i], prog, f"backward{i}/dw")
        if i:
            slope = popops.mul(graph, slope, w[i], prog, f"backward{i}/by_w")
            square = popops.mul(graph, x[i], x[i], prog, f"backward{i}/square")
            popops.mul_in_place(graph, square, slope, prog, f"backward{i}/lost")
            slope = popops.sub(graph, slope, square, prog, f"backward{i}/slope")
    engine = Engine(graph, prog)
    engine.load(device)
    engine.write_tensor("x0", x0)
    engine.run()
    return np.array([engine.read_tensor(f"dw{i}") for i in range(layers)]), engine.report
