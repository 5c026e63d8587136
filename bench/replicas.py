"""Measure a training step in eight replicas.

It is compared with the same computation in numpy, and on eight virtual graphs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.kernels import floats, threads
from bench.measure import Row, Work
from ipu_teach.device import IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Repeat, Sequence
from ipu_teach.types import FLOAT, Array

REPLICAS, TILES, STEPS = 8, 13, 10
BATCH, FEATURES, OUTPUTS = 32, 104, 26
RATE = 0.001 / BATCH


def training(graph: Graph) -> tuple[Sequence, Tensor]:
    """Return `(program, weights)` of a gradient step of linear regression."""
    shapes, step = ((BATCH, FEATURES), (FEATURES, OUTPUTS)), Sequence()
    w = poplin.create_mat_mul_input_rhs(graph, FLOAT, *shapes, "w")
    x = poplin.create_mat_mul_input_lhs(graph, FLOAT, *shapes, "x")
    t = graph.add_variable(FLOAT, (BATCH, OUTPUTS), "t")
    poputil.map_tensor_linearly(graph, t)
    for tensor in (w, x, t):
        graph.set_initial_value(tensor, floats(*tensor.shape))
    y = poplin.mat_mul(graph, x, w, step, "forward")
    popops.sub_in_place(graph, y, t, step, "error")
    slope = poplin.mat_mul(graph, x.transpose(), y, step, "backward")
    popops.scaled_add_to(graph, w, slope, -RATE, step, "update")
    return step, w


def replicated() -> Work:
    """Return a function to time: it runs the training step in eight replicas of one graph."""
    return _running(lambda device: Graph(device, REPLICAS), lambda graph: training(graph)[0])


def by_hand() -> Work:
    """Return a function to time: it runs the training step on eight virtual graphs in turn."""

    def parts(graph: Graph) -> Sequence:
        places = (graph.create_virtual_graph(r * TILES, (r + 1) * TILES) for r in range(REPLICAS))
        return Sequence(training(place)[0] for place in places)

    return _running(Graph, parts)


def _running(make: Callable[..., Graph], program: Callable[[Graph], Sequence]) -> Work:
    device = IPUModel(num_ipus=REPLICAS, tiles_per_ipu=TILES).create_device()
    graph = make(device)
    popops.add_codelets(graph)
    engine = Engine(graph, Repeat(STEPS, program(graph)), backend="numpy")
    engine.load(device)
    return engine.run


def in_numpy() -> Work:
    """Return a function to time: it computes the eight training steps with numpy arrays."""
    w: list[Array] = [floats(FEATURES, OUTPUTS) for _ in range(REPLICAS)]
    x, t = floats(BATCH, FEATURES), floats(BATCH, OUTPUTS)

    def run() -> None:
        for _ in range(STEPS):
            for own in w:
                own -= np.float32(RATE) * (x.T @ (x @ own - t))

    return threads(1, run)


ROWS = [
    Row(
        "r8",
        "a training step in 8 replicas",
        "8 times the same maths in numpy",
        14,
        lambda: (replicated(), in_numpy()),
    ),
    Row(
        "r8h",
        "a training step in 8 replicas",
        "by hand on 8 virtual graphs",
        1,
        lambda: (replicated(), by_hand()),
    ),
]
