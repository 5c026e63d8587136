"""Layers whose weights are in streaming memory, a row for each layer, and are loaded when needed.

Only one or two layers are on the chip at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach import FLOAT, UNSIGNED_INT, Engine, Graph, IPUModel, Report, Tensor
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Repeat, Sequence

TILES = 13


def placed(graph: Graph, shape: tuple[int, ...], name: str) -> Tensor:
    made = graph.add_variable(FLOAT, shape, name)
    poputil.map_tensor_linearly(graph, made)
    return made


def one_resident(x: Any, weights: Any) -> tuple[Any, Report]:
    """Run on one IPU: load the weights of a layer, compute it, load the next.

    Return the output and the report.
    """
    layers, width = len(weights), weights.shape[-1]
    device = IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = Graph(device)
    buffer = graph.add_remote_buffer("weights", FLOAT, width * width, layers)
    here, w = placed(graph, x.shape, "x"), placed(graph, (width, width), "w")
    row, one = (
        graph.add_variable(UNSIGNED_INT, (1,), "row"),
        graph.add_constant(UNSIGNED_INT, (1,), 1),
    )
    for tensor in (row, one):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(row, 0)
    body = Sequence(Copy(buffer, w, row))
    y = poplin.mat_mul(graph, here, w, body, "product")
    popops.tanh_in_place(graph, y, body, "tanh")
    body.add(Copy(y, here))
    popops.add_in_place(graph, row, one, body, "next")
    graph.create_host_write("x", here)
    graph.create_host_read("y", here)
    return _ran(graph, device, Repeat(layers, body), x, weights)


def ping_pong(x: Any, weights: Any, **machine: Any) -> tuple[Any, Report]:
    """Run on two IPUs that alternate: one computes a layer while the other loads the next.

    Then the activations are copied to the other IPU. Return the output and the report.
    """
    layers, width = len(weights), weights.shape[-1]
    device = IPUModel("ipu2", tiles_per_ipu=TILES, num_ipus=2, **machine).create_device()
    graph = Graph(device)
    buffer = graph.add_remote_buffer("weights", FLOAT, width * width, layers)
    rows = graph.add_constant(UNSIGNED_INT, (layers,), list(range(layers)))
    graph.set_tile_mapping(rows, 0)
    given, w, result, compute = [], [], [], []
    for ipu in range(2):
        part = graph.create_virtual_graph(ipu * TILES, (ipu + 1) * TILES)
        given.append(placed(part, x.shape, f"x{ipu}"))
        w.append(placed(part, (width, width), f"w{ipu}"))
        compute.append(Sequence())
        result.append(poplin.mat_mul(part, given[ipu], w[ipu], compute[ipu], f"product{ipu}"))
        popops.tanh_in_place(part, result[ipu], compute[ipu], f"tanh{ipu}")
    program = Sequence(Copy(buffer, w[0], rows[0:1]))
    for n in range(layers):
        here, there = n % 2, (n + 1) % 2
        program.add(compute[here])
        if n + 1 < layers:
            program.add(Copy(buffer, w[there], rows[n + 1 : n + 2]))
            program.add(Copy(result[here], given[there]))
    graph.create_host_write("x", given[0])
    graph.create_host_read("y", result[(layers - 1) % 2])
    return _ran(graph, device, program, x, weights)


def _ran(graph: Graph, device: Any, program: Any, x: Any, weights: Any) -> tuple[Any, Report]:
    engine = Engine(graph, program)
    engine.load(device)
    engine.write_tensor("x", x)
    for row, values in enumerate(weights):
        engine.copy_to_remote_buffer(np.ravel(values), "weights", row)
    engine.run()
    return engine.read_tensor("y"), engine.report
