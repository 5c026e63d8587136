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

# An image has 8 x 8 pixels. `RATE` is the learning rate, and `EPS` the batch norm's small number.
SIDE, CLASSES, RATE, EPS = 8, 10, 0.1, 1e-5

# The numbers of channels that the first and the second layer return.
FIRST, SECOND = 8, 16

# The shapes of the network's parameters, in the order of `first_parameters`.
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
    """Return the network's parameters before training, as float32 arrays of shapes `SIZES`.

    They are the first layer's kernels and biases, the second layer's kernels, its batch norm's
    factors (gamma) and summands (beta), and the dense layer's weights and biases.
    """
    generator = np.random.default_rng(0)
    parameters = [
        generator.standard_normal(shape) * (2 / np.prod(shape[1:])) ** 0.5 for shape in SIZES
    ]
    parameters[3] += 1
    parameters[5] /= SIZES[5][0] ** 0.5 / 2
    return [values.astype(np.float32) for values in parameters]


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
            self._variable(values.shape, f"parameter {parameter_number}", values)
            for parameter_number, values in enumerate(first_parameters())
        ]
        slopes = self._slopes()
        for parameter, slope in zip(self.parameters, slopes, strict=True):
            shaped_slope = slope.reshape(parameter.shape)
            optim.sgd(self.graph, parameter, shaped_slope, RATE, self.prog)
        for parameter_number, tensor in enumerate(self.parameters):
            self.graph.create_host_read(f"parameter {parameter_number}", tensor)
        for name, tensor in (("images", self.images), ("labels", self.labels)):
            self.graph.create_host_write(name, tensor)
        self.engine = Engine(self.graph, self.prog, backend="numpy")
        self.engine.load(self.device)

    def _variable(self, shape: tuple[int, ...], name: str, values: Array) -> Tensor:
        variable = self.graph.add_variable(FLOAT, shape, name)
        poputil.map_tensor_linearly(self.graph, variable)
        self.graph.set_initial_value(variable, np.broadcast_to(values, shape))
        return variable

    def _slopes(self) -> list[Tensor]:
        """Add a forward and a backward pass to the program; return the parameters' gradients."""
        graph, prog, batch = self.graph, self.prog, self.batch
        kernels1, biases1, kernels2, gamma, beta, weights3, biases3 = self.parameters
        kernels1, kernels2 = kernels1.expand([0]), kernels2.expand([0])
        half_side = SIDE // 2
        padding: dict[str, Any] = {"padding_lower": 1, "padding_upper": 1}
        conv1 = poplin.ConvParams(FLOAT, batch, (SIDE, SIDE), (3, 3), 1, FIRST, **padding)
        conv2 = poplin.ConvParams(
            FLOAT, batch, (half_side, half_side), (3, 3), FIRST, SECOND, **padding
        )
        pool_params = pooling.PoolParams(
            "MAX", (SIDE, SIDE), (2, 2), (2, 2), (0, 0), (0, 0), FIRST, batch, FLOAT
        )
        sums1 = poplin.convolution(graph, self.images, kernels1, conv1, prog)
        poplin.add_bias(graph, sums1, biases1, prog)
        activations1 = popnn.relu(graph, sums1, prog)
        pooled1 = pooling.pool(graph, pool_params, activations1, prog)
        sums2 = poplin.convolution(graph, pooled1, kernels2, conv2, prog)
        mean, inverse_deviation = bn.batch_norm_statistics(graph, sums2, EPS, prog)
        normalised2, whitened2 = bn.batch_normalise(
            graph, sums2, gamma, beta, mean, inverse_deviation, prog
        )
        activations2 = popnn.relu(graph, normalised2, prog).reshape((batch, weights3.shape[0]))
        scores = popops.add(
            graph, poplin.mat_mul(graph, activations2, weights3, prog), biases3, prog
        )
        probabilities = popnn.softmax(graph, scores, prog)
        loss = self._variable((batch,), "loss", np.zeros(1))
        error = self._variable((batch, CLASSES), "error", np.zeros(1))
        popnn.calc_loss(
            graph, probabilities, self.labels, loss, error, prog, deltas_scale=1 / batch
        )
        d_weights3 = poplin.mat_mul(graph, activations2.transpose(), error, prog)
        d_biases3 = popops.reduce(graph, error, [0], prog)
        d_activations2 = poplin.mat_mul(graph, error, weights3.transpose(), prog)
        d_flat = popnn.non_linearity_input_gradient(
            graph, "RELU", activations2, d_activations2, prog
        )
        d_normalised2 = d_flat.reshape(normalised2.shape)
        d_gamma, d_beta = bn.batch_norm_param_gradients(graph, whitened2, d_normalised2, prog)
        d_sums2 = bn.batch_norm_gradients(
            graph, whitened2, d_normalised2, inverse_deviation, gamma, prog
        )
        d_kernels2 = poplin.calculate_weight_deltas(graph, d_sums2, pooled1, conv2, prog)
        d_pooled1 = poplin.convolution_input_gradient(graph, d_sums2, kernels2, conv2, prog)
        d_activations1 = pooling.pool_input_gradient(
            graph, pool_params, activations1, pooled1, d_pooled1, prog, ties="first"
        )
        d_sums1 = popnn.non_linearity_input_gradient(
            graph, "RELU", activations1, d_activations1, prog
        )
        d_kernels1 = poplin.calculate_weight_deltas(graph, d_sums1, self.images, conv1, prog)
        d_biases1 = popops.reduce(graph, d_sums1, [0, 2, 3], prog)
        return [d_kernels1, d_biases1, d_kernels2, d_gamma, d_beta, d_weights3, d_biases3]

    def step(self, images: Array, labels: Array) -> None:
        """Run one step of training on images [batch, 1, 8, 8] and their class numbers [batch]."""
        self.engine.write_tensor("images", images.astype(np.float32))
        self.engine.write_tensor("labels", labels.astype(np.uint32))
        self.engine.run()

    def values(self) -> list[Array]:
        """Return the current parameters, in the order of `first_parameters`."""
        return [self.engine.read_tensor(f"parameter {i}") for i in range(len(SIZES))]


class OfTorch:
    """A reference in torch, on one core, with the layers of `Network`."""

    def __init__(self) -> None:
        import torch

        self.torch = torch
        self.leaves = [
            torch.from_numpy(parameter).requires_grad_() for parameter in first_parameters()
        ]
        self.optimiser = torch.optim.SGD(self.leaves, lr=RATE)

    def step(self, images: Array, labels: Array) -> None:
        torch, functional = self.torch, self.torch.nn.functional
        kernels1, biases1, kernels2, gamma, beta, weights3, biases3 = self.leaves
        activations = functional.conv2d(
            torch.from_numpy(images.astype(np.float32)), kernels1, biases1, padding=1
        )
        activations = functional.conv2d(
            functional.max_pool2d(functional.relu(activations), 2), kernels2, padding=1
        )
        activations = functional.relu(
            functional.batch_norm(activations, None, None, gamma, beta, training=True, eps=EPS)
        )
        scores = activations.flatten(1) @ weights3 + biases3
        loss = functional.cross_entropy(scores, torch.from_numpy(labels.astype(np.int64)))
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()

    def values(self) -> list[Array]:
        return [leaf.detach().numpy() for leaf in self.leaves]


def learning(batch: int = 256) -> tuple[Work, Work] | str:
    """Return two functions to time: a training step on the whole machine, and in torch.

    Without torch, return how to install it.
    """
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed: python -m pip install -e '.[torch]'"
    network, torch_network = Network(batch, TILES), OfTorch()
    torch_network.torch.set_num_threads(1)
    images, labels = floats(batch, 1, SIDE, SIDE), np.arange(batch) % CLASSES
    return lambda: network.step(images, labels), lambda: torch_network.step(images, labels)


def _layer() -> Engine:
    """Return an engine with the forward pass of a 3 x 3 layer of ResNet loaded.

    The layer has 64 channels on 56 x 56 pixels.
    """
    device = IPUModel(tiles_per_ipu=TILES).create_device()
    graph, prog = Graph(device), Sequence()
    padding: dict[str, Any] = {"padding_lower": 1, "padding_upper": 1}
    params = poplin.ConvParams(HALF, 4, (56, 56), (3, 3), 64, 64, **padding)
    inputs, weights = poplin.create_input(graph, params), poplin.create_weights(graph, params)
    for tensor in (inputs, weights):
        graph.set_initial_value(tensor, 1)
    poplin.convolution(graph, inputs, weights, params, prog)
    engine = Engine(graph, prog, backend="numpy")
    engine.load(device)
    return engine


def building() -> tuple[Work, Work]:
    """Return two functions to time: building and compiling the layer, and running it."""
    engine = _layer()
    return _layer, engine.run


def _of_poptorch(batch: int) -> tuple[Any, Any, tuple[Any, Any]] | str:
    """Return a small torch network, its poptorch training on the whole machine, and a batch.

    Without torch, return how to install it.
    """
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
    """Return two functions to time: a training step of a module by poptorch, and in torch."""
    net_or_reason = _of_poptorch(batch)
    if isinstance(net_or_reason, str):
        return net_or_reason
    net, training, batch_tensors = net_or_reason
    import torch

    optimiser = torch.optim.SGD(net.parameters(), lr=RATE)

    def torch_step() -> None:
        optimiser.zero_grad()
        net(*batch_tensors).backward()
        optimiser.step()

    return lambda: training(*batch_tensors), torch_step


def compiling(batch: int = 256) -> tuple[Work, Work] | str:
    """Return two functions to time: compiling a torch module by poptorch, and a step of it.

    The compilation includes capturing and lowering the module.
    """
    net_or_reason = _of_poptorch(batch)
    if isinstance(net_or_reason, str):
        return net_or_reason
    _, training, batch_tensors = net_or_reason

    def compile_anew() -> None:
        training.destroy()
        training.compile(*batch_tensors)

    return compile_anew, lambda: training(*batch_tensors)


# The goals are the measured ratios, with a margin. In n1, a step has 53 supersteps and some 3,000
# array calls, and a fifth of its time gathers numbers that numpy cannot read in place. In n2, a run
# takes 0.1 s. The build takes longer, because the patches of each tile must be cut, laid out in
# memory and searched for inter-tile copies. In n3, a step has some 70 supersteps, and a fifth of
# its time compares the module with the compiled module, and copies parameters to the host and back.
# In n4, a step takes 0.013 s. Compiling captures the module in torch, adds the vertices of some 70
# supersteps for 1,472 tiles, and counts their memory.
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
