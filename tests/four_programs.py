"""Four small programs of the kinds that people write, for tests of the texts in views.

* the product of a matrix and a vector, from and to the host
* a stencil in a loop
* a step of training
* a pipeline and a ring on several IPUs
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ipu_teach import (
    FLOAT,
    UNSIGNED_INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.graph.vertex_table import VertexRef
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.report import Recording

NAMES = "alpha", "beta", "gamma", "delta"  # without digits, which the tests would take for figures


class Dot(Vertex):
    """A sum of products."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Mean(Vertex):
    """Each number becomes the mean of itself and its neighbours."""

    left: Input[FLOAT]
    own: Input[Vector[FLOAT]]
    right: Input[FLOAT]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.own)):
            before = self.left if i == 0 else self.own[i - 1]
            after = self.right if i == len(self.own) - 1 else self.own[i + 1]
            self.out[i] = (before + self.own[i] + after) / 3


class Twice(Vertex):
    """A stage of a pipeline."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = self.x[i] * 2


class Gather(Vertex):
    """Adds what has come."""

    come: Input[Vector[FLOAT]]
    sums: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.come)):
            self.sums[i] += self.come[i]


class Ran:
    """A program that has run, with its report, its recording and the recorded tensors."""

    def __init__(self, graph: Graph, device: Any, program: Program, **tensors: Tensor) -> None:
        self.tensors = tensors
        self.graph = graph
        self.engine = Engine(graph, program)
        self.engine.load(device)
        self.recording: Recording = self.engine.record(*tensors.values())

    def with_(self, **streams: Any) -> Ran:
        """Connect the streams, run the program once, and return `self`."""
        for name, values in streams.items():
            self.engine.connect_stream(name, values)
        self.engine.run()
        return self

    @property
    def report(self) -> Report:
        return self.engine.report


def spread(graph: Graph, tensor: Tensor, tiles: Any) -> None:
    """Map equal parts of a tensor to the tiles, in order."""
    flat = tensor.flatten()
    per_tile = -(-tensor.num_elements // len(tiles))
    for i, tile in enumerate(tiles):
        if part := flat[i * per_tile : (i + 1) * per_tile].num_elements:
            graph.set_tile_mapping(flat[i * per_tile : i * per_tile + part], tile)


def placed(graph: Graph, vertex: VertexRef, tile: int) -> None:
    graph.set_tile_mapping(vertex, tile)


@cache
def product() -> Ran:
    """Return the product of a 26-row matrix on 13 tiles and a vector, from and to the host."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph = Graph(device)
    rows = graph.add_variable(FLOAT, (26, 32), "rows")
    vector = graph.add_variable(FLOAT, (32,), "vector")
    result = graph.add_variable(FLOAT, (26,), "result")
    spread(graph, rows, range(13))
    spread(graph, result, range(13))
    graph.set_tile_mapping(vector, 4)
    graph.set_initial_value(vector, 1.0)
    dots = graph.add_compute_set("dots")
    for row in range(26):
        vertex = graph.add_vertex(dots, Dot, a=rows[row], b=vector, out=result[row])
        placed(graph, vertex, row // 2 if row else 12)
    into = graph.add_host_to_device_fifo("into", FLOAT, rows.num_elements)
    back = graph.add_device_to_host_fifo("back", FLOAT, 26)
    ran = Ran(
        graph, device, Sequence(Copy(into, rows), Execute(dots), Copy(result, back)), result=result
    )
    return ran.with_(into=np.arange(26.0 * 32).astype(np.float32), back=np.empty(26, np.float32))


@cache
def stencil() -> Ran:
    """A heat that spreads over 16 tiles, to and fro four times."""
    tiles, each = 16, 6
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    here, there = (graph.add_variable(FLOAT, (tiles * each,), n) for n in ("here", "there"))
    rim = graph.add_variable(FLOAT, (1,), "rim")
    graph.set_tile_mapping(rim, 0)
    graph.set_initial_value(rim, 0.0)
    graph.set_initial_value(here, np.arange(tiles * each, dtype=np.float32))
    for tensor in (here, there):
        spread(graph, tensor, range(tiles))
    halves = []
    for name, a, b in (("forth", here, there), ("back", there, here)):
        compute_set = graph.add_compute_set(name)
        for tile in range(tiles):
            low, high = tile * each, (tile + 1) * each
            left, right = a[low - 1] if tile else rim[0], a[high] if high < len(a) else rim[0]
            own, out = a[low:high], b[low:high]
            vertex = graph.add_vertex(compute_set, Mean, left=left, own=own, right=right, out=out)
            placed(graph, vertex, tile)
        halves.append(Execute(compute_set))
    return Ran(graph, device, Repeat(4, Sequence(*halves)), here=here).with_()


@cache
def training() -> Ran:
    """Three steps of a regression of 10 pictures of 24 pixels in 4 classes, on 40 tiles."""
    batch, pixels, classes = 10, 24, 4
    device = IPUModel("ipu2", tiles_per_ipu=40).create_device()
    graph, step = Graph(device), Sequence()
    images = graph.add_variable(FLOAT, (batch, pixels), "images")
    weights = graph.add_variable(FLOAT, (pixels, classes), "weights")
    labels = graph.add_variable(UNSIGNED_INT, (batch,), "labels")
    loss = graph.add_variable(FLOAT, (batch,), "loss")
    errors = graph.add_variable(FLOAT, (batch, classes), "errors")
    for tensor in (images, weights, labels, loss, errors):
        poputil.map_tensor_linearly(graph, tensor)
    graph.set_initial_value(weights, 0.0)
    graph.set_initial_value(labels, np.arange(batch) % classes)
    scores = poplin.mat_mul(graph, images, weights, step, "forward")
    popnn.calc_loss(graph, popnn.softmax(graph, scores, step), labels, loss, errors, step)
    slope = poplin.mat_mul(graph, images.transpose(), errors, step, "slope")
    popops.scaled_add_to(graph, weights, slope, -0.01, step, "update")
    into = graph.add_host_to_device_fifo("into", FLOAT, images.num_elements)
    back = graph.add_device_to_host_fifo("back", FLOAT, batch)
    program = Repeat(3, Sequence(Copy(into, images), step, Copy(loss, back)))
    given = np.random.default_rng(0).random((3, batch * pixels), np.float32)
    ran = Ran(graph, device, program, weights=weights)
    return ran.with_(into=given, back=np.empty((3, batch), np.float32))


@cache
def pipeline(ipus: int = 4, tiles: int = 4) -> Ran:
    """Return two iterations of a pipeline, then an all-reduce by a ring.

    The stages of the pipeline have 1, 3, 1 and 2 compute sets.
    """
    device = IPUModel("ipu2", num_ipus=ipus, tiles_per_ipu=tiles).create_device()
    graph, stages = Graph(device), Sequence()
    ins, outs, sums, come = (
        [graph.add_variable(FLOAT, (tiles * 8,), f"{name} of {NAMES[ipu]}") for ipu in range(ipus)]
        for name in ("in", "out", "sums", "come")
    )
    own = [range(ipu * tiles, (ipu + 1) * tiles) for ipu in range(ipus)]
    for ipu in range(ipus):
        for tensor in (ins[ipu], outs[ipu], sums[ipu], come[ipu]):
            spread(graph, tensor, own[ipu])
            graph.set_initial_value(tensor, float(ipu))
        for turn in range((1, 3, 1, 2)[ipu]):
            compute_set = graph.add_compute_set(f"{NAMES[ipu]}, turn {turn}")
            for i, tile in enumerate(own[ipu]):
                part = slice(8 * i, 8 * i + 8 - i % 2)
                vertex = graph.add_vertex(compute_set, Twice, x=ins[ipu][part], out=outs[ipu][part])
                placed(graph, vertex, tile)
            stages.add(Execute(compute_set))
    for ipu in range(ipus - 1):
        stages.add(Copy(outs[ipu], ins[ipu + 1]))
    ring = Sequence()
    for turn in range(ipus - 1):
        ring.add(Copy(concat(sums), concat([*come[1:], come[0]])))
        compute_set = graph.add_compute_set(f"add {turn}")
        for ipu in range(ipus):
            for i, tile in enumerate(own[ipu]):
                part = slice(8 * i, 8 * i + 8)
                vertex = graph.add_vertex(
                    compute_set, Gather, come=come[ipu][part], sums=sums[ipu][part]
                )
                placed(graph, vertex, tile)
        ring.add(Execute(compute_set))
    return Ran(graph, device, Sequence(Repeat(2, stages), ring), sums=sums[0]).with_()


PROGRAMS = {
    "product": product,
    "stencil": stencil,
    "training": training,
    "pipeline and ring": pipeline,
}
