"""Data-parallel training with a replicated graph.

R replicas with a batch of b each learn the same as one replica with a batch of R * b.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ipu_teach import FLOAT, Engine, Graph, IPUModel, ReplicatedStreamMode, Report, Tensor, concat
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Repeat, Sequence
from ipu_teach.types import Array

FEATURES, OUTPUTS, STEPS, RATE = 52, 10, 4, 0.05


class Result(NamedTuple):
    weights: Array  # those of each replica
    expected: Array
    report: Report


def main(replicas: int, batch: int, together: bool = True) -> Result:
    """Run four steps of a linear regression.

    Without `together`, each replica learns only from its own data.
    """
    device = IPUModel("ipu2", tiles_per_ipu=13, num_ipus=replicas).create_device()
    graph = Graph(device, replication_factor=replicas)
    popops.add_codelets(graph)
    shapes = (batch, FEATURES), (FEATURES, OUTPUTS)
    w = poplin.create_mat_mul_input_rhs(graph, FLOAT, *shapes, "w")
    x = poplin.create_mat_mul_input_lhs(graph, FLOAT, *shapes, "x")
    t = graph.add_variable(FLOAT, (batch, OUTPUTS), "t")
    poputil.map_tensor_linearly(graph, t, 1, 1)
    begin = graph.add_host_to_device_fifo(
        "begin", FLOAT, w.num_elements, ReplicatedStreamMode.BROADCAST
    )
    feed_x = graph.add_host_to_device_fifo("x", FLOAT, x.num_elements)
    feed_t = graph.add_host_to_device_fifo("t", FLOAT, t.num_elements)
    step = Sequence(Copy(feed_x, x), Copy(feed_t, t))
    y = poplin.mat_mul(graph, x, w, step, "forward")
    popops.sub_in_place(graph, y, t, step, "error")
    slope = poplin.mat_mul(graph, x.transpose(), y, step, "backward")
    if together:
        all_reduce(graph, slope, step)
    popops.scaled_add_to(graph, w, slope, -RATE / (replicas * batch), step, "update")
    graph.create_host_read("w", w)
    engine = Engine(graph, Sequence(Copy(begin, w), Repeat(STEPS, step)))
    engine.load(device)
    rng = np.random.default_rng(3)
    first = rng.standard_normal((FEATURES, OUTPUTS)).astype(np.float32)
    inputs = rng.standard_normal((STEPS, replicas * batch, FEATURES)).astype(np.float32)
    targets = (inputs @ rng.standard_normal((FEATURES, OUTPUTS))).astype(np.float32)
    engine.connect_stream("begin", first)
    engine.connect_stream("x", inputs)
    engine.connect_stream("t", targets)
    engine.run()
    expected = first.astype(np.float64)
    for a, b in zip(inputs.astype(np.float64), targets, strict=True):
        expected = expected - RATE / len(a) * (a.T @ (a @ expected - b))
    weights = engine.read_tensor("w").reshape(replicas, FEATURES, OUTPUTS)
    return Result(weights, expected, engine.report)


def all_reduce(graph: Graph, tensor: Tensor, program: Sequence) -> None:
    """Make `tensor` the sum over all replicas, by way of replica 0."""
    whole, top = graph.get_non_replicated_tensor(tensor), graph.get_top_level_graph()
    total = whole[0]
    for row in (whole[r] for r in range(1, len(whole))):
        inbox = top.clone(total, "inbox")
        program.add(Copy(row, inbox))
        popops.add_in_place(top, total, inbox, program, "sum")
    if len(whole) > 1:
        program.add(Copy(concat([total] * (len(whole) - 1)), whole[1:]))
