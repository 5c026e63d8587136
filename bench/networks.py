"""A small convolutional network: a step compared with torch, and building a large layer."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np

from bench.kernels import TILES, floats
from bench.measure import Row, Work
from ipu_teach.device import IPUModel
from ipu_teach.engine import Engine
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs import optim, poplin, popnn, popops, poputil
from ipu_teach.poplibs.popnn import bn, pooling
from ipu_teach.program import Sequence
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, Array

SIDE, CLASSES, RATE, EPS = 8, 10, 0.1, 1e-5
FIRST, SECOND = 8, 16  # channels
SIZES = (
    (FIRST, 1, 3, 3),
    (FIRST,),
    (SECOND, FIRST, 3, 3),
    (SECOND,),
    (SECOND,),
    (SECOND * (SIDE // 2) ** 2, CLASSES),
    (CLASSES,),
)


def first_parameters() -> list[Array]:
    """Return the parameters of the network at the start.

    They are a layer's kernels and biases, the next one's kernels, its batch norm's factors and
    sums, and the last one's weights and biases.
    """
    rng = np.random.default_rng(0)
    made = [rng.standard_normal(size) * (2 / np.prod(size[1:])) ** 0.5 for size in SIZES]
    made[3] += 1
    made[5] /= SIZES[5][0] ** 0.5 / 2
    return [values.astype(np.float32) for values in made]


class Network:
    """A network of two 3 x 3 layers and a dense layer, with a step of plain gradient descent.

    The first layer has biases and 2 x 2 pooling, and the second a batch norm.
    """

    def __init__(self, batch: int, tiles: int) -> None:
        self.device = IPUModel(tiles_per_ipu=tiles).create_device()
        self.graph, self.prog, self.batch = Graph(self.device), Sequence(), batch
        self.images = self._variable((batch, 1, SIDE, SIDE), "images", np.zeros(1))
        self.labels = self.graph.add_variable(UNSIGNED_INT, (batch,), "labels")
        poputil.map_tensor_linearly(self.graph, self.labels)
        self.graph.set_initial_value(self.labels, np.zeros(batch))
        self.parameters = [
            self._variable(values.shape, f"parameter {i}", values)
            for i, values in enumerate(first_parameters())
        ]
        slopes = self._slopes()
        for parameter, slope in zip(self.parameters, slopes, strict=True):
            same = slope.reshape(parameter.shape)
            optim.sgd(self.graph, parameter, same, RATE, self.prog)
        for i, tensor in enumerate(self.parameters):
            self.graph.create_host_read(f"parameter {i}", tensor)
        for name, tensor in (("images", self.images), ("labels", self.labels)):
            self.graph.create_host_write(name, tensor)
        self.engine = Engine(self.graph, self.prog, backend="numpy")
        self.engine.load(self.device)

    def _variable(self, shape: tuple[int, ...], name: str, values: Array) -> Tensor:
        made = self.graph.add_variable(FLOAT, shape, name)
        poputil.map_tensor_linearly(self.graph, made)
        self.graph.set_initial_value(made, np.broadcast_to(values, shape))
        return made

    def _slopes(self) -> list[Tensor]:
        """Return the gradient of each parameter, from the images to the loss and back."""
        graph, prog, batch = self.graph, self.prog, self.batch
        k1, b1, k2, gamma, beta, w, b = self.parameters
        k1, k2 = k1.expand([0]), k2.expand([0])
        half = SIDE // 2
        around: dict[str, Any] = {"padding_lower": 1, "padding_upper": 1}
        one = poplin.ConvParams(FLOAT, batch, (SIDE, SIDE), (3, 3), 1, FIRST, **around)
        two = poplin.ConvParams(FLOAT, batch, (half, half), (3, 3), FIRST, SECOND, **around)
        pool = pooling.PoolParams(
            "MAX", (SIDE, SIDE), (2, 2), (2, 2), (0, 0), (0, 0), FIRST, batch, FLOAT
        )
        x1 = poplin.convolution(graph, self.images, k1, one, prog)
        poplin.add_bias(graph, x1, b1, prog)
        h1 = popnn.relu(graph, x1, prog)
        p1 = pooling.pool(graph, pool, h1, prog)
        x2 = poplin.convolution(graph, p1, k2, two, prog)
        mean, inverse = bn.batch_norm_statistics(graph, x2, EPS, prog)
        y2, white = bn.batch_normalise(graph, x2, gamma, beta, mean, inverse, prog)
        flat = popnn.relu(graph, y2, prog).reshape((batch, w.shape[0]))
        scores = popops.add(graph, poplin.mat_mul(graph, flat, w, prog), b, prog)
        chances = popnn.softmax(graph, scores, prog)
        loss = self._variable((batch,), "loss", np.zeros(1))
        error = self._variable((batch, CLASSES), "error", np.zeros(1))
        popnn.calc_loss(graph, chances, self.labels, loss, error, prog, deltas_scale=1 / batch)
        dw = poplin.mat_mul(graph, flat.transpose(), error, prog)
        db = popops.reduce(graph, error, [0], prog)
        back = poplin.mat_mul(graph, error, w.transpose(), prog)
        back = popnn.non_linearity_input_gradient(graph, "RELU", flat, back, prog)
        dy2 = back.reshape(y2.shape)
        dgamma, dbeta = bn.batch_norm_param_gradients(graph, white, dy2, prog)
        dx2 = bn.batch_norm_gradients(graph, white, dy2, inverse, gamma, prog)
        dk2 = poplin.calculate_weight_deltas(graph, dx2, p1, two, prog)
        dp1 = poplin.convolution_input_gradient(graph, dx2, k2, two, prog)
        dh1 = pooling.pool_input_gradient(graph, pool, h1, p1, dp1, prog, ties="first")
        dx1 = popnn.non_linearity_input_gradient(graph, "RELU", h1, dh1, prog)
        dk1 = poplin.calculate_weight_deltas(graph, dx1, self.images, one, prog)
        db1 = popops.reduce(graph, dx1, [0, 2, 3], prog)
        return [dk1, db1, dk2, dgamma, dbeta, dw, db]

    def step(self, images: Array, labels: Array) -> None:
        """Run one step on these images [batch, 1, 8, 8]."""
        self.engine.write_tensor("images", images.astype(np.float32))
        self.engine.write_tensor("labels", labels.astype(np.uint32))
        self.engine.run()

    def values(self) -> list[Array]:
        """Return the parameters."""
        return [self.engine.read_tensor(f"parameter {i}") for i in range(len(SIZES))]


class OfTorch:
    """A reference: the network of `Network` in torch, on one core."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.leaves = [torch.from_numpy(p).requires_grad_() for p in first_parameters()]
        self.optimiser = torch.optim.SGD(self.leaves, lr=RATE)

    def step(self, images: Array, labels: Array) -> None:
        torch, f = self.torch, self.torch.nn.functional
        k1, b1, k2, gamma, beta, w, b = self.leaves
        x = f.conv2d(torch.from_numpy(images.astype(np.float32)), k1, b1, padding=1)
        x = f.conv2d(f.max_pool2d(f.relu(x), 2), k2, padding=1)
        x = f.relu(f.batch_norm(x, None, None, gamma, beta, training=True, eps=EPS))
        scores = x.flatten(1) @ w + b
        loss = f.cross_entropy(scores, torch.from_numpy(labels.astype(np.int64)))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def values(self) -> list[Array]:
        return [leaf.detach().numpy() for leaf in self.leaves]


def learning(batch: int = 256) -> tuple[Work, Work] | str:
    """Return a training step on the whole machine, and the same in torch."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed: python -m pip install -e '.[torch]'"
    ours, theirs = Network(batch, TILES), OfTorch()
    theirs.torch.set_num_threads(1)
    images, labels = floats(batch, 1, SIDE, SIDE), np.arange(batch) % CLASSES
    return lambda: ours.step(images, labels), lambda: theirs.step(images, labels)


def _layer() -> Engine:
    """Return the loaded forward pass of ResNet's 3 x 3 layer, 64 channels over 56 x 56."""
    device = IPUModel(tiles_per_ipu=TILES).create_device()
    graph, prog = Graph(device), Sequence()
    around: dict[str, Any] = {"padding_lower": 1, "padding_upper": 1}
    params = poplin.ConvParams(HALF, 4, (56, 56), (3, 3), 64, 64, **around)
    x, weights = poplin.create_input(graph, params), poplin.create_weights(graph, params)
    for tensor in (x, weights):
        graph.set_initial_value(tensor, 1)
    poplin.convolution(graph, x, weights, params, prog)
    engine = Engine(graph, prog, backend="numpy")
    engine.load(device)
    return engine


def building() -> tuple[Work, Work]:
    """Return two works: building and compiling the layer, and running it."""
    engine = _layer()
    return _layer, engine.run


def _of_poptorch(batch: int) -> tuple[Any, Any, tuple[Any, Any]] | str:
    """Return a small torch network, its training on the whole machine, and a batch."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed: python -m pip install -e '.[torch]'"
    import torch
    from torch import nn

    from ipu_teach import poptorch

    class Net(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            first = nn.Conv2d(1, FIRST, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
            second = nn.Conv2d(FIRST, SECOND, 3, padding=1), nn.BatchNorm2d(SECOND), nn.ReLU()
            last = nn.Flatten(), nn.Linear(SECOND * (SIDE // 2) ** 2, CLASSES)
            self.layers, self.loss = nn.Sequential(*first, *second, *last), nn.CrossEntropyLoss()

        def forward(self, x: Any, y: Any) -> Any:
            return self.loss(self.layers(x), y)

    torch.set_num_threads(1)
    net, options = Net(), poptorch.Options().useIpuModel(IPUModel(tiles_per_ipu=TILES))
    training = poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=RATE))
    images = torch.from_numpy(floats(batch, 1, SIDE, SIDE))
    return net, training, (images, torch.arange(batch) % CLASSES)


def of_poptorch(batch: int = 256) -> tuple[Work, Work] | str:
    """Return a training step by poptorch, and one of the same module in torch."""
    made = _of_poptorch(batch)
    if isinstance(made, str):
        return made
    net, training, given = made
    import torch

    optimiser = torch.optim.SGD(net.parameters(), lr=RATE)

    def theirs() -> None:
        optimiser.zero_grad()
        net(*given).backward()
        optimiser.step()

    return lambda: training(*given), theirs


def compiling(batch: int = 256) -> tuple[Work, Work] | str:
    """Return two works: capturing, lowering and compiling the module, and a step of it."""
    made = _of_poptorch(batch)
    if isinstance(made, str):
        return made
    _, training, given = made

    def compile_anew() -> None:
        training.destroy()
        training.compile(*given)

    return compile_anew, lambda: training(*given)


# The goals are the measured ratios, with a margin. In n1 a step is 53 supersteps of some 3,000
# array calls, a few for each shape of block: a fifth of its time gathers what numpy could not read
# in place. In n2 a run is 0.1 s of gathers and products, while each tile has its own patches that
# must be cut, laid out in memory and searched for inter-tile copies. n3 has some 70 supersteps; a
# fifth of its step compares the module with the one that was compiled, and copies parameters to the
# host and back. In n4 a step takes 0.013 s, while compiling captures the module in torch, adds the
# vertices of those supersteps for 1,472 tiles, and counts their memory.
ROWS = [
    Row(
        "n1",
        "a step of a small CNN, 256 images on 1,472 tiles",
        "torch's on one core",
        8,
        learning,
    ),
    Row(
        "n2",
        "building and compiling a 3 x 3 layer over 56 x 56 on 1,472 tiles",
        "running it",
        60,
        building,
        most_rounds=3,
    ),
    Row(
        "n3",
        "a step of a small CNN by poptorch, 256 images on 1,472 tiles",
        "torch's on one core",
        9,
        of_poptorch,
    ),
    Row(
        "n4",
        "capturing and compiling it",
        "a step of it",
        150,
        compiling,
        most_rounds=1,
    ),
]
