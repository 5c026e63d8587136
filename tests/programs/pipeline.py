"""Inference of layers y = tanh(x w), one on each IPU, as a pipeline and in sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.schedules import Stage, pipeline, pipeline_schedule

TILES = 13
FREE = 1e15  # bytes a second: so fast that no IPU waits for the host


def main(schedule: str, x: Any, weights: Any, host: float = FREE) -> tuple[Any, Report]:
    """Return the output for `x` [micro-batches, rows, width], and the report."""
    count, (batches, rows, width) = len(weights), x.shape
    device = IPUModel(
        "ipu2", tiles_per_ipu=TILES, num_ipus=count, host_bytes_per_second=host
    ).create_device()
    graph = Graph(device)
    feed = graph.add_host_to_device_fifo("feed", FLOAT, rows * width)
    drain = graph.add_device_to_host_fifo("drain", FLOAT, rows * width)
    stages = []
    for s in range(count):
        part = graph.create_virtual_graph(s * TILES, (s + 1) * TILES)
        into = part.add_variable(FLOAT, (rows, width), f"x{s}")
        w = part.add_variable(FLOAT, (width, width), f"w{s}")
        for tensor in (into, w):
            poputil.map_tensor_linearly(part, tensor, grain_size=width)
        graph.set_initial_value(w, weights[s])
        forward = Sequence(Copy(feed, into) if s == 0 else [])
        out = poplin.mat_mul(part, into, w, forward, f"product{s}")
        popops.tanh_in_place(part, out, forward, f"tanh{s}")
        if s == count - 1:
            forward.add(Copy(out, drain))
        stages.append(Stage(forward, into, out))
    ticks = pipeline_schedule(count, batches, schedule, training=False)
    engine = Engine(graph, pipeline(graph, stages, ticks))
    engine.load(device)
    y = np.zeros_like(x)
    engine.connect_stream("feed", x.copy())
    engine.connect_stream("drain", y)
    engine.run()
    return y, engine.report
