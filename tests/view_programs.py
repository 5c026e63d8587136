"""Programs whose reports several tests draw."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from programs import phases, pipeline_training as training

from ipu_teach import (
    FLOAT,
    HALF,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Report,
    SupervisorVertex,
    Vector,
    Vertex,
    show,
)
from ipu_teach.poplibs.popsparse import dynamic
from ipu_teach.program import Execute, Repeat, Sequence
from ipu_teach.schedules import pipeline_schedule
from ipu_teach.show.view import View
from ipu_teach.target import PRICES
from ipu_teach.types import Array


class Mixed(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    half: Output[HALF]
    out: Output[FLOAT]

    def compute(self):
        acc = 0.0
        for i in range(len(self.a)):
            acc += self.a[i] * self.b[i]
        self.out = acc + np.sum(self.a * self.b)
        self.half = acc


class Large(Vertex):
    a: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        n = 0
        for i in range(len(self.a)):
            if self.a[i] > 0.5:
                n += 1
        self.out = n


class Thirds(MultiVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self, worker_id):
        for i in range(worker_id, len(self.x), self.num_workers):
            self.x[i] = self.x[i] * 3


class Alone(SupervisorVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x += 1


def values(rows: int, width: int) -> Array:
    """Return random numbers between 0 and 1 in float32."""
    return np.random.default_rng(rows).random((rows, width)).astype(np.float32)


def mixed_report(prices: str = PRICES[0], every: int = 1, name: str = "mixed") -> Report:
    """Return the report of codelets of all kinds on rows of two lengths.

    `Mixed` runs twice (its compute set has the name `name`), then `Large`, then codelets that need
    all worker threads of a tile. The rows are on every `every`-th of 13 tiles.
    """
    tiles, rows, width = 13, 26, 9
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    matrix, weights = (
        graph.add_variable(FLOAT, (rows, width), "matrix"),
        graph.add_variable(FLOAT, (width,), "weights"),
    )
    half, out, count = (
        graph.add_variable(t, (rows,), name)
        for t, name in ((HALF, "half"), (FLOAT, "out"), (FLOAT, "count"))
    )
    graph.set_tile_mapping(weights, 0)
    graph.set_initial_value(matrix, values(rows, width))
    graph.set_initial_value(weights, 1.0)
    mixed, large, whole = (graph.add_compute_set(name) for name in (name, "large", "whole"))
    for row in range(rows):
        tile = row * tiles // rows // every * every
        for part in (matrix[row], half[row], out[row], count[row]):
            graph.set_tile_mapping(part, tile)
        n = width - row % 2
        vertex = graph.add_vertex(
            mixed, Mixed, a=matrix[row][:n], b=weights[:n], half=half[row], out=out[row]
        )
        graph.set_tile_mapping(vertex, tile)
        if row == 1:
            graph.set_perf_estimate(vertex, 1000)
        graph.set_tile_mapping(graph.add_vertex(large, Large, a=matrix[row], out=count[row]), tile)
    for tile, codelet in ((0, Thirds), (0, Alone), (tiles - 1, Alone)):
        own = graph.add_variable(FLOAT, (11,), f"own{tile}{codelet.__name__}")
        graph.set_initial_value(own, 1.0)
        graph.set_tile_mapping(own, tile)
        graph.set_tile_mapping(graph.add_vertex(whole, codelet, x=own), tile)
    program = Sequence(Repeat(2, Execute(mixed)), Execute(large), Execute(whole))
    engine = Engine(graph, program, options={"codelet_prices": prices})
    engine.load(device)
    engine.run()
    return engine.report


class Prefix(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        total = 0.0
        for i in range(len(self.x)):
            if self.x[i] > 0:
                total += self.x[i]
            self.y[i] = total


@cache
def streaming_report(pattern: str) -> Report:
    """Return the report of phases on "one IPU", or of two IPUs with this sync pattern."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((4, 26, 26)).astype(np.float32)
    x = rng.standard_normal((13, 26)).astype(np.float32)
    if pattern == "one IPU":
        return phases.one_resident(x, weights)[1]
    return phases.ping_pong(x, weights, sync_pattern=pattern)[1]


def pipeline_training(schedule: str, stages: int, batches: int) -> tuple[Any, View]:
    """Return the report of a training by pipeline, and the view of its schedule."""
    rng = np.random.default_rng(0)
    ticks = pipeline_schedule(stages, batches, schedule)
    weights, x = (rng.standard_normal((n, 40)).astype(np.float32) for n in (stages, batches))
    report = training.main(ticks, weights, x)[1]
    return report, show.pipeline(ticks, report)


def partitioner(tiles: int = 13, budget: int = 60) -> dynamic.Partitioner:
    """Return a partitioner for products of sparse 60 x 64 matrices in blocks of 4 x 4."""
    target = IPUModel("ipu2", tiles_per_ipu=tiles).create_device().target
    params = dynamic.MatMulParams.create_with_num_non_zero_values(60, 64, 8, budget * 16, (4, 4))
    return dynamic.Partitioner(params, FLOAT, target)
