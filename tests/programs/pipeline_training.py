"""A pipeline that trains: stages y = tanh(x * w), one on each IPU, forward and backward.

Weights change once, after all micro-batches, whose gradients are added. So all schedules give the
same bits. The host is so fast that only the first IPU waits for it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, Tensor
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.schedules import Stage, Ticks, pipeline

TILES = 13


def variable(graph: Graph, shape: tuple[int, ...], name: str) -> Tensor:
    made = graph.add_variable(FLOAT, shape, name)
    poputil.map_tensor_linearly(graph, made)
    return made


def stage(graph: Graph, s: int, last: bool, w: Tensor, total: Tensor) -> Stage:
    """Return a stage. The loss is half the sum of squares, so the gradient of the last y is y."""
    names = ("x", "y", "grad_y", "grad_x")
    x, y, grad_y, grad_x = (variable(graph, w.shape, f"{name}{s}") for name in names)
    forward, backward = Sequence(), Sequence()
    popops.mul_with_output(graph, x, w, y, forward, f"forward{s}/mul")
    popops.tanh_in_place(graph, y, forward, f"forward{s}/tanh")
    square = popops.mul(graph, y, y, backward, f"backward{s}/square")
    if last:
        backward.add(Copy(y, grad_y))
    popops.mul_in_place(graph, square, grad_y, backward, f"backward{s}/lost")
    popops.sub_in_place(graph, grad_y, square, backward, f"backward{s}/slope")
    popops.mul_with_output(graph, grad_y, w, grad_x, backward, f"backward{s}/by_w")
    product = popops.mul(graph, grad_y, x, backward, f"backward{s}/dw")
    popops.add_in_place(graph, total, product, backward, f"backward{s}/sum")
    return Stage(forward, x, y, backward, grad_y, grad_x, keep=(x, y))


def main(ticks: Ticks, weights: Any, samples: Any) -> tuple[Any, Report]:
    """Return the gradients [stages, n] summed over `samples` [micro-batches, n], and the report."""
    count, n = weights.shape
    free = {"host_bytes_per_second": 1e15, "sync_pattern": "SINGLE_PIPELINE"}
    device = IPUModel("ipu2", tiles_per_ipu=TILES, num_ipus=count, **free).create_device()
    graph = Graph(device)
    feed = graph.add_host_to_device_fifo("feed", FLOAT, n)
    stages = []
    for s in range(count):
        part = graph.create_virtual_graph(s * TILES, (s + 1) * TILES)
        w, total = variable(part, (n,), f"w{s}"), variable(part, (n,), f"total{s}")
        graph.set_initial_value(w, weights[s])
        graph.set_initial_value(total, 0)
        graph.create_host_read(f"total{s}", total)
        stages.append(stage(part, s, s == count - 1, w, total))
    first = stages[0]
    stages[0] = replace(first, forward=Sequence(Copy(feed, first.into), first.forward))
    engine = Engine(graph, pipeline(graph, stages, ticks))
    engine.load(device)
    engine.connect_stream("feed", samples.copy())
    engine.run()
    return np.array([engine.read_tensor(f"total{s}") for s in range(count)]), engine.report
