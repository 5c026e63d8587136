"""Lesson 07's training against plain numpy: bit for bit in single precision, and near double
precision.

The numpy loop takes from the kit nothing but where the plans cut, and the order in which they add.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from ipu_teach import FLOAT, INT, UNSIGNED_INT, Engine, Graph, IPUModel, datasets
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.program import Copy, Repeat, Sequence
from ipu_teach.target import Target
from ipu_teach.types import Array

BATCH, PIXELS, CLASSES, RATE = 50, 784, 10, 0.1


class Trainer:
    """The lesson's program, with the weights read after every step."""

    def __init__(self, tiles: int, vertex_loop: bool = False) -> None:
        device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
        graph = Graph(device)
        images = graph.add_variable(FLOAT, (BATCH, PIXELS), "images")
        labels = graph.add_variable(UNSIGNED_INT, (BATCH,), "labels")
        weights = graph.add_variable(FLOAT, (PIXELS, CLASSES), "weights")
        bias = graph.add_variable(FLOAT, (CLASSES,), "bias")
        loss = graph.add_variable(FLOAT, (BATCH,), "loss")
        deltas = graph.add_variable(FLOAT, (BATCH, CLASSES), "deltas")
        for variable in (images, labels, weights, bias, loss, deltas):
            poputil.map_tensor_linearly(graph, variable)
        graph.set_initial_value(weights, 0)
        graph.set_initial_value(bias, 0)
        image_stream = graph.add_host_to_device_fifo("images", FLOAT, BATCH * PIXELS)
        label_stream = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, BATCH)
        for name, tensor in (("weights", weights), ("bias", bias), ("loss", loss)):
            graph.create_host_read(name, tensor)
        step = Sequence(Copy(image_stream, images), Copy(label_stream, labels))
        product = poplin.mat_mul(graph, images, weights, step)
        scores = popops.add(graph, product, bias, step)
        probabilities = popnn.softmax(graph, scores, step)
        popnn.calc_loss(graph, probabilities, labels, loss, deltas, step)
        weights_slope = poplin.mat_mul(graph, images.transpose(), deltas, step)
        bias_slope = popops.reduce(graph, deltas, [0], step)
        popops.scaled_add_to(graph, weights, weights_slope, -RATE / BATCH, step)
        popops.scaled_add_to(graph, bias, bias_slope, -RATE / BATCH, step)
        self.engine = Engine(graph, Repeat(1, step), vertex_loop=vertex_loop)
        self.engine.load(device)
        self.target = device.target

    def connect(self, images: Array, labels: Array) -> None:
        self.engine.connect_stream("images", images)
        self.engine.connect_stream("labels", labels)

    def state(self) -> tuple[Array, Array, Array]:
        return tuple(self.engine.read_tensor(name) for name in ("weights", "bias", "loss"))  # type: ignore[return-value]


def planned_product(a: Array, b: Array, target: Target) -> Array:
    """a @ b in float32 as the plan cuts it: block products, then the partial sums from first to
    last."""
    plan = poplin.plan_mat_mul(a.shape[0], a.shape[1], b.shape[1], target)
    partials = np.empty((plan.inner_blocks, plan.m, plan.n), np.float32)
    for r0, r1 in plan.rows():
        for c0, c1 in plan.columns():
            for i, (k0, k1) in enumerate(plan.inner()):
                left, right = (
                    np.ascontiguousarray(a[r0:r1, k0:k1]),
                    np.ascontiguousarray(b[k0:k1, c0:c1]),
                )
                partials[i, r0:r1, c0:c1] = left @ right
    total = partials[0].copy()
    for partial in partials[1:]:
        total += partial
    return total


def planned_sum(rows: Array, target: Target) -> Array:
    """The sum over the first axis in float32, row after row within each block of the plan, then
    block after block."""
    blocks = popops.plan_reduce(rows.shape[0], rows.shape[1], FLOAT, target).row_blocks
    parts = []
    for begin, end in poputil.balanced_partition(len(rows), blocks):
        part = rows[begin].copy()
        for row in rows[begin + 1 : end]:
            part += row
        parts.append(part)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def numpy_step(
    weights: Array, bias: Array, images: Array, labels: Array, target: Target
) -> tuple[Array, Array, Array]:
    """One training step in float32."""
    scores = planned_product(images, weights, target) + bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    probabilities = powers / powers.sum(axis=1, keepdims=True)
    loss = -np.log(probabilities[np.arange(BATCH), labels])
    deltas = probabilities.copy()
    deltas[np.arange(BATCH), labels] -= np.float32(1)
    factor = np.float32(-RATE / BATCH)
    new_weights = weights + factor * planned_product(images.T, deltas, target)
    return new_weights, bias + factor * planned_sum(deltas, target), loss


def double_step(weights: Array, bias: Array, images: Array, labels: Array) -> tuple[Array, Array]:
    """One training step in float64."""
    powers = np.exp(images @ weights + bias)
    deltas = powers / powers.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]
    return weights - RATE / BATCH * images.T @ deltas, bias - RATE / BATCH * deltas.sum(axis=0)


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    digits = datasets.digits()
    images = digits.train_images.reshape(-1, PIXELS).astype(np.float32) / np.float32(255)
    return images.reshape(-1, BATCH, PIXELS), digits.train_labels.astype(np.uint32).reshape(
        -1, BATCH
    )


@pytest.mark.parametrize("tiles", [1, 13, 1472])
def test_every_step_equals_numpy_bit_for_bit(tiles: int, data: tuple[Array, Array]) -> None:
    images, labels = data
    trainer = Trainer(tiles)
    trainer.connect(images, labels)
    weights, bias = np.zeros((PIXELS, CLASSES), np.float32), np.zeros(CLASSES, np.float32)
    for step in range(60 if tiles == 13 else 12):
        trainer.engine.run()
        batch = step % len(images)
        weights, bias, loss = numpy_step(
            weights, bias, images[batch], labels[batch], trainer.target
        )
        got = trainer.state()
        assert [a.tobytes() for a in got] == [a.tobytes() for a in (weights, bias, loss)], (
            f"step {step}"
        )


def test_training_stays_within_single_precision_of_double(data: tuple[Array, Array]) -> None:
    images, labels = data
    trainer = Trainer(13)
    trainer.connect(images, labels)
    weights, bias = np.zeros((PIXELS, CLASSES)), np.zeros(CLASSES)
    for step in range(300):
        trainer.engine.run()
        batch = step % len(images)
        weights, bias = double_step(weights, bias, images[batch].astype(np.float64), labels[batch])
    got_weights, got_bias, _ = trainer.state()
    np.testing.assert_allclose(got_weights, weights, atol=1e-5 * np.abs(weights).max())
    np.testing.assert_allclose(got_bias, bias, atol=1e-5 * np.abs(bias).max())


def test_the_vertex_loop_trains_to_the_same_bits(data: tuple[Array, Array]) -> None:
    images, labels = data
    trainers = [Trainer(13), Trainer(13, vertex_loop=True)]
    for trainer in trainers:
        trainer.connect(images, labels)
        for _ in range(5):
            trainer.engine.run()
    fast, slow = (trainer.state() for trainer in trainers)
    assert [a.tobytes() for a in fast] == [a.tobytes() for a in slow]


def test_real_mnist_reaches_ninety_one_per_cent() -> None:
    if "IPU_TEACH_DATA" not in os.environ:
        pytest.skip("IPU_TEACH_DATA is not set: the real MNIST is not here")
    if not (Path(os.environ["IPU_TEACH_DATA"]) / "mnist").is_dir():
        pytest.skip("IPU_TEACH_DATA has no folder mnist")
    found = datasets.mnist(download=False)
    count = len(found.train_labels) // BATCH * BATCH
    images = found.train_images[:count].reshape(-1, PIXELS).astype(np.float32) / np.float32(255)
    trainer = Trainer(13)
    trainer.connect(images, found.train_labels[:count].astype(np.uint32))
    for _ in range(10 * (count // BATCH)):
        trainer.engine.run()
    weights, bias, _ = trainer.state()
    scores = found.test_images.reshape(-1, PIXELS) / 255 @ weights + bias
    assert np.mean(scores.argmax(axis=1) == found.test_labels) >= 0.91


def test_accuracy_is_counted_on_the_device() -> None:
    device = IPUModel(tiles_per_ipu=5).create_device()
    graph = Graph(device)
    outputs = graph.add_variable(FLOAT, (7, 3), "outputs")
    expected = graph.add_variable(UNSIGNED_INT, (7,), "expected")
    hits = graph.add_variable(INT, (), "hits")
    for tensor in (outputs, expected, hits):
        poputil.map_tensor_linearly(graph, tensor)
    values = np.random.default_rng(3).standard_normal((7, 3)).astype(np.float32)
    graph.set_initial_value(outputs, values)
    graph.set_initial_value(expected, [0, 1, 2, 0, 1, 2, 9])
    graph.set_initial_value(hits, 100)
    graph.create_host_read("hits", hits)
    program = Sequence()
    popnn.calc_accuracy(graph, outputs, expected, hits, program)
    engine = Engine(graph, program)
    engine.load_and_run(device)
    wanted = sum(
        int(np.argmax(row)) == label
        for row, label in zip(values, [0, 1, 2, 0, 1, 2, 9], strict=True)
    )
    assert engine.read_tensor("hits") == 100 + wanted
