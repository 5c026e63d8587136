"""Private SGD: a model that learns from people without memorising any of them.

The gradient of each person in a batch is computed separately, and scaled down to the length `CLIP`
if it is longer. Noise is added to the sum of the gradients, so that the sum reveals almost nothing
about whether a certain person took part. The weights are then changed by a step against this sum.

Paper: "NanoBatch DPSGD: Exploring Differentially Private learning on ImageNet with low batch sizes
on the IPU", Edward H. Lee, Mario Michael Krell, Alexander Tsyplikhin and others.

It is right, and slow. Where the time goes is for you to find.
"""

from __future__ import annotations

import numpy as np

from ipu_teach import FLOAT, Device, Engine, Graph, Input, Output, Report, Target, Vector, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Repeat, Sequence

Data = dict[str, np.ndarray]
CLIP = 1.0
NOISE = 1.0
RATE = 0.5


class Person(Vertex):
    """Computes the gradient of a logistic regression for the data of one person.

    A gradient that is longer than CLIP is scaled down to that length.
    """

    x: Input[Vector[FLOAT]]
    label: Input[FLOAT]
    weights: Input[Vector[FLOAT]]
    gradient: Output[Vector[FLOAT]]

    def compute(self) -> None:
        guess = 1 / (1 + np.exp(-(self.x @ self.weights)))
        gradient = (guess - self.label) * self.x
        length = np.sqrt(gradient @ gradient)
        self.gradient = gradient * np.minimum(1, CLIP / np.maximum(length, 1e-9))


def make(seed: int = 6, steps: int = 20, batch: int = 78, features: int = 16) -> Data:
    """Return the training data: `x`, `labels` and `noise`, all float32.

    The shapes are `x` [steps, batch, features], `labels` [steps, batch] and `noise` [steps,
    features].
    """
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((steps, batch, features), np.float32)
    labels = (x @ rng.standard_normal(features) > 0).astype(np.float32)
    noise = NOISE * CLIP * rng.standard_normal((steps, features), np.float32)
    return {"x": x, "labels": labels, "noise": noise}


def run(target: Target, data: Data | None = None) -> tuple[Report, Data]:
    """Return the report of a run, and its results: the final `weights`, float32 [features]."""
    data = data or make()
    steps, batch, features = data["x"].shape
    graph = Graph(target)
    program = Sequence()
    names = ("x", "labels", "noise")
    x, labels, noise = (graph.add_variable(FLOAT, data[n].shape[1:], n) for n in names)
    for name, tensor in zip(names, (x, labels, noise), strict=True):  # The data of one step.
        stream = graph.add_host_to_device_fifo(name, FLOAT, tensor.num_elements)
        program.add(Copy(stream, tensor))
    gradients = graph.add_variable(FLOAT, (batch, features), "gradients")
    weights = graph.add_variable(FLOAT, (features,), "weights")
    graph.set_initial_value(weights, 0)
    for tensor in (x, labels, noise, gradients, weights):
        graph.set_tile_mapping(tensor, 0)
    people = graph.add_compute_set("people")
    for k in range(batch):
        edges = {"x": x[k], "label": labels[k], "gradient": gradients[k]}
        graph.set_tile_mapping(graph.add_vertex(people, Person, edges, weights=weights), 0)
    program.add(Execute(people))
    total = popops.reduce(graph, gradients, [0], program)
    popops.add_in_place(graph, total, noise, program)
    popops.scaled_subtract_from(graph, weights, total, RATE / batch, program)
    graph.create_host_read("weights", weights)
    engine = Engine(graph, Repeat(steps, program))
    engine.load(Device(target))
    for name in names:
        engine.connect_stream(name, data[name])
    engine.run()
    return engine.report, {"weights": engine.read_tensor("weights")}


def expected(data: Data) -> Data:
    """Return the results of `run`, computed by numpy in float64.

    The results of `run` may differ from these by 1e-4.
    """
    weights = np.zeros(data["x"].shape[2])
    for x, labels, noise in zip(data["x"], data["labels"], data["noise"], strict=True):
        gradients = (1 / (1 + np.exp(-(x @ weights))) - labels)[:, None] * x
        lengths = np.linalg.norm(gradients, axis=1, keepdims=True)
        total = (gradients * np.minimum(1, CLIP / np.maximum(lengths, 1e-9))).sum(axis=0)
        weights -= RATE / len(x) * (total + noise)
    return {"weights": weights.astype(np.float32)}
