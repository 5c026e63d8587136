"""A perceptron of three layers on the bundled digits, from PopLibs alone: in single precision, and
in halves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from libraries import torch

from bench import networks
from ipu_teach import FLOAT, HALF, INT, UNSIGNED_INT, Engine, Graph, IPUModel, Tensor, datasets
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.program import Copy, Sequence
from ipu_teach.types import Array, DType

BATCH, PIXELS, CLASSES, RATE = 50, 64, 10, 0.2
LAYERS = (PIXELS, 64, 32, CLASSES)
TILES = 8


def first_weights() -> list[Array]:
    """Weights with a deviation of sqrt(2 / inputs) (He, Zhang, Ren and Sun, arXiv:1502.01852)."""
    rng = np.random.default_rng(6)
    pairs = zip(LAYERS[:-1], LAYERS[1:], strict=True)
    return [(rng.standard_normal((a, b)) * np.sqrt(2 / a)).astype(np.float32) for a, b in pairs]


class Perceptron:
    """Layers of weights, biases and RELU; softmax, cross-entropy and plain gradient descent.

    With `compute` HALF all layers work in halves, from weights that are kept in single precision,
    with slopes in it. `scale` multiplies the gradients until they are used.
    """

    def __init__(
        self,
        compute: type[DType] = FLOAT,
        scale: float = 1,
        options: dict[str, Any] | None = None,
        tiles: int = TILES,
    ) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
        self.graph, self.dtype, self.scale = Graph(self.device), compute, scale
        self.images = self._variable(compute, (BATCH, PIXELS), "images")
        self.labels = self._variable(UNSIGNED_INT, (BATCH,), "labels")
        self.weights = [
            self._variable(FLOAT, w.shape, f"w{i}", w) for i, w in enumerate(first_weights())
        ]
        self.biases = [self._variable(FLOAT, (n,), f"b{i}", 0) for i, n in enumerate(LAYERS[1:])]
        hits = self._variable(INT, (), "hits", 0)
        images = self.graph.add_host_to_device_fifo("images", compute, BATCH * PIXELS)
        labels = self.graph.add_host_to_device_fifo("labels", UNSIGNED_INT, BATCH)
        fetch = Sequence(Copy(images, self.images), Copy(labels, self.labels))
        train, test = Sequence(fetch), Sequence(fetch)
        self._step(train)
        popnn.calc_accuracy(self.graph, self._forward(test)[-1], self.labels, hits, test)
        for i, tensor in enumerate([*self.weights, *self.biases]):
            self.graph.create_host_read(f"parameter {i}", tensor)
        self.graph.create_host_read("hits", hits)
        self.graph.create_host_write("clear", hits)
        self.engine = Engine(self.graph, [train, test], options=options or {})
        self.engine.load(self.device)

    def _variable(
        self, dtype: type[DType], shape: tuple[int, ...], name: str, values: Any = None
    ) -> Tensor:
        tensor = self.graph.add_variable(dtype, shape, name)
        poputil.map_tensor_linearly(self.graph, tensor)
        if values is not None:
            self.graph.set_initial_value(tensor, values)
        return tensor

    def _working(self, tensor: Tensor, prog: Sequence) -> Tensor:
        return (
            tensor
            if tensor.dtype is self.dtype
            else popops.cast(self.graph, tensor, self.dtype, prog)
        )

    def _forward(self, prog: Sequence) -> list[Tensor]:
        """What goes into each layer, and the scores."""
        graph, acts = self.graph, [self.images]
        self.working = [self._working(w, prog) for w in self.weights]
        for i, (weights, bias) in enumerate(zip(self.working, self.biases, strict=True)):
            scores = poplin.mat_mul(graph, acts[-1], weights, prog, f"layer{i}")
            scores = popops.add(graph, scores, self._working(bias, prog), prog)
            acts.append(scores if i == len(self.weights) - 1 else popnn.relu(graph, scores, prog))
        return acts

    def _step(self, prog: Sequence) -> None:
        graph, acts = self.graph, self._forward(prog)
        working = self.working
        loss = self._variable(FLOAT, (BATCH,), "loss")
        deltas = self._variable(self.dtype, (BATCH, CLASSES), "deltas")
        probabilities = popnn.softmax(graph, acts[-1], prog)
        popnn.calc_loss(
            graph, probabilities, self.labels, loss, deltas, prog, deltas_scale=self.scale / BATCH
        )
        gradient = deltas
        for i in reversed(range(len(self.weights))):
            slope = poplin.mat_mul(
                graph, acts[i].transpose(), gradient, prog, f"slope{i}", out_type=FLOAT
            )
            bias_slope = popops.reduce(graph, gradient, [0], prog)
            if i:
                back = poplin.mat_mul(graph, gradient, working[i].transpose(), prog, f"back{i}")
                gradient = popnn.non_linearity_input_gradient(graph, "RELU", acts[i], back, prog)
            if bias_slope.dtype is HALF:
                bias_slope = popops.cast(graph, bias_slope, FLOAT, prog)
            popops.scaled_add_to(graph, self.weights[i], slope, -RATE / self.scale, prog)
            popops.scaled_add_to(graph, self.biases[i], bias_slope, -RATE / self.scale, prog)

    def connect(self, images: Array, labels: Array) -> None:
        self.engine.connect_stream("images", images.astype(self.dtype.numpy))
        self.engine.connect_stream("labels", labels.astype(np.uint32))

    def parameters(self) -> list[Array]:
        return [self.engine.read_tensor(f"parameter {i}") for i in range(2 * len(self.weights))]

    def accuracy(self, images: Array, labels: Array) -> float:
        """Per cent of the images that are read right; the last batch is filled up with images of no
        class."""
        missing = -len(labels) % BATCH
        self.engine.write_tensor("clear", np.int32(0))
        self.connect(
            np.pad(images, ((0, missing), (0, 0))),
            np.pad(labels, (0, missing), constant_values=CLASSES),
        )
        for _ in range((len(labels) + missing) // BATCH):
            self.engine.run(1)
        return 100 * int(self.engine.read_tensor("hits")) / len(labels)


@pytest.fixture(scope="module")
def digits() -> tuple[Array, Array, Array, Array]:
    """Images of 8 x 8 with values from -1 to 1, from the places where the scaled ones have the
    original pixels; labels; and the same to test with."""
    data = datasets.digits()
    places = [1, 5, 8, 12, 15, 19, 22, 26]

    def rows(images: Array) -> Array:
        return (images[:, places][:, :, places].reshape(-1, PIXELS) / 127.5 - 1).astype(np.float32)

    return rows(data.train_images), data.train_labels, rows(data.test_images), data.test_labels


def trained(network: Perceptron, digits: tuple[Array, Array, Array, Array], epochs: int) -> float:
    """Per cent of the test images that the network reads right after its training."""
    images, labels, test_images, test_labels = digits
    network.connect(images, labels)
    for _ in range(epochs * len(labels) // BATCH):
        network.engine.run(0)
    return network.accuracy(test_images, test_labels)


def test_a_perceptron_of_three_layers_learns_the_digits(
    digits: tuple[Array, Array, Array, Array],
) -> None:
    assert trained(Perceptron(), digits, epochs=10) > 96


def test_halves_learn_with_scaled_losses_and_rounding_by_chance(
    digits: tuple[Array, Array, Array, Array],
) -> None:
    options = {"prng.enableStochasticRounding": True, "prng.seed": 7}
    assert trained(Perceptron(HALF, scale=256, options=options), digits, epochs=10) > 95


def numpy_step(parameters: list[Array], x: Array, labels: Array) -> list[Array]:
    """One step of the same training in double precision."""
    layers = len(parameters) // 2
    acts = [x]
    for i in range(layers):
        scores = acts[-1] @ parameters[i] + parameters[layers + i]
        acts.append(np.maximum(scores, 0) if i < layers - 1 else scores)
    powers = np.exp(acts[-1] - acts[-1].max(axis=1, keepdims=True))
    gradient = (powers / powers.sum(axis=1, keepdims=True) - np.eye(CLASSES)[labels]) / BATCH
    changed = list(parameters)
    for i in reversed(range(layers)):
        changed[i] = parameters[i] - RATE * acts[i].T @ gradient
        changed[layers + i] = parameters[layers + i] - RATE * gradient.sum(axis=0)
        gradient = (gradient @ parameters[i].T) * (acts[i] > 0)
    return changed


def test_every_step_is_that_of_double_precision(digits: tuple[Array, Array, Array, Array]) -> None:
    images, labels = digits[:2]
    network = Perceptron()
    network.connect(images, labels)
    wanted = [p.astype(np.float64) for p in network.parameters()]
    for step in range(10):
        part = slice(step * BATCH, (step + 1) * BATCH)
        network.engine.run(0)
        wanted = numpy_step(wanted, images[part].astype(np.float64), labels[part])
        for got, exact in zip(network.parameters(), wanted, strict=True):
            np.testing.assert_allclose(got, exact, atol=1e-5, err_msg=f"step {step}")


def test_every_step_is_that_of_torch(digits: tuple[Array, Array, Array, Array]) -> None:
    library = torch()
    images, labels = digits[:2]
    network = Perceptron()
    network.connect(images, labels)
    leaves = [library.from_numpy(p.copy()).requires_grad_() for p in network.parameters()]
    optimiser = library.optim.SGD(leaves, lr=RATE)
    layers = len(LAYERS) - 1
    for step in range(20):
        part = slice(step * BATCH, (step + 1) * BATCH)
        x = library.from_numpy(images[part])
        for i in range(layers):
            x = x @ leaves[i] + leaves[layers + i]
            x = library.relu(x) if i < layers - 1 else x
        loss = library.nn.functional.cross_entropy(
            x, library.from_numpy(labels[part].astype(np.int64))
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        network.engine.run(0)
        for got, theirs in zip(network.parameters(), leaves, strict=True):
            np.testing.assert_allclose(
                got, theirs.detach().numpy(), atol=1e-5, err_msg=f"step {step}"
            )


def test_every_step_of_a_convolutional_network_is_that_of_torch(
    digits: tuple[Array, Array, Array, Array],
) -> None:
    torch()
    images, labels = digits[0].reshape(-1, 1, networks.SIDE, networks.SIDE), digits[1]
    ours, theirs = networks.Network(20, TILES), networks.OfTorch()
    for step in range(20):
        part = slice(step * 20, (step + 1) * 20)
        for network in (ours, theirs):
            network.step(images[part], labels[part])
        for got, wanted in zip(ours.values(), theirs.values(), strict=True):
            np.testing.assert_allclose(got, wanted, atol=1e-5, err_msg=f"step {step}")
