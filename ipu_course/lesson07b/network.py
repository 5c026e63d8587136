"""The small CNN of lesson 07b: two blocks, a layer with ten scores, and three programs.

A block is a convolution, batch norm, a ReLU and a max pooling. The programs are a training step,
the update of the kept statistics, and the classification of images.
"""

from __future__ import annotations

from collections.abc import Sequence as Many

import numpy as np

from ipu_teach import FLOAT, UNSIGNED_INT, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import optim, poplin, popnn, popops, poputil
from ipu_teach.poplibs.popnn import bn, pooling
from ipu_teach.program import Sequence
from ipu_teach.types import Array

BATCH = 25


def variable(graph: Graph, shape: int | Many[int], value: float | Array, name: str) -> Tensor:
    """Return a variable with an initial value, spread over the tiles."""
    tensor = graph.add_variable(FLOAT, shape, name)
    poputil.map_tensor_linearly(graph, tensor)
    graph.set_initial_value(tensor, value)
    return tensor


class Block:
    """The variables of a 3 x 3 convolution with batch norm and a 2 x 2 pooling."""

    # The mean and 1 / standard deviation of the last batch.
    statistics: tuple[Tensor, Tensor]
    # The values that the backward pass needs.
    saved: tuple[Tensor, Tensor, Tensor, Tensor]
    # Each item is (parameter, its gradient).
    grads: tuple[tuple[Tensor, Tensor], ...]

    def __init__(
        self, graph: Graph, size: int, ins: int, outs: int, random: np.random.Generator
    ) -> None:
        field, window, zeros = (size, size), (2, 2), (0, 0)
        self.conv = poplin.ConvParams(
            *(FLOAT, BATCH, field, (3, 3), ins, outs), padding_lower=(1, 1), padding_upper=(1, 1)
        )
        self.pool = pooling.PoolParams(
            "MAX", field, window, window, zeros, zeros, outs, BATCH, FLOAT
        )
        self.kernel = poplin.create_weights(graph, self.conv, "kernel")
        weights = random.normal(0, (2 / 9 / ins) ** 0.5, self.kernel.shape)
        graph.set_initial_value(self.kernel, weights.astype(np.float32))
        self.gamma, self.inverse = (variable(graph, outs, 1, n) for n in ("gamma", "inverse"))
        self.beta, self.mean = (variable(graph, outs, 0, n) for n in ("beta", "mean"))

    def forward(self, graph: Graph, x: Tensor, program: Sequence, training: bool) -> Tensor:
        """Return the output, using the batch statistics if `training`, otherwise the kept ones."""
        y = poplin.convolution(graph, x, self.kernel, self.conv, program)
        mean, inverse = self.mean, self.inverse
        if training:
            mean, inverse = bn.batch_norm_statistics(graph, y, 1e-3, program)
        y, white = bn.batch_normalise(graph, y, self.gamma, self.beta, mean, inverse, program)
        popnn.non_linearity_in_place(graph, "RELU", y, program)
        out: Tensor = pooling.pool(graph, self.pool, y, program)
        if training:
            self.statistics, self.saved = (mean, inverse), (x, white, y, out)
        return out

    def backward(self, graph: Graph, grad: Tensor, program: Sequence) -> Tensor:
        """Return the gradient of the convolution's output; store the parameters' gradients."""
        x, white, y, out = self.saved
        grad = pooling.pool_input_gradient(
            graph, self.pool, y, out, grad, program, use_scaled_gradient=True
        )
        grad = popnn.non_linearity_input_gradient(graph, "RELU", y, grad, program)
        gamma, beta = bn.batch_norm_param_gradients(graph, white, grad, program)
        inverse = self.statistics[1]
        grad = bn.batch_norm_gradients(graph, white, grad, inverse, self.gamma, program)
        kernel = poplin.calculate_weight_deltas(graph, grad, x, self.conv, program)
        self.grads = (self.kernel, kernel), (self.gamma, gamma), (self.beta, beta)
        return grad


class Net:
    """The variables of the network on `tiles` tiles, and its programs."""

    def __init__(self, first: int, second: int, tiles: int) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
        self.graph = graph = Graph(self.device)
        random = np.random.default_rng(7)
        self.blocks = Block(graph, 14, 1, first, random), Block(graph, 7, first, second, random)
        weights = random.normal(0, (9 * second) ** -0.5, (9 * second, 10)).astype(np.float32)
        self.dense = variable(graph, weights.shape, weights, "dense")
        self.bias = variable(graph, 10, 0, "bias")
        self.images = poplin.create_input(graph, self.blocks[0].conv, "images")
        self.labels = graph.add_variable(UNSIGNED_INT, BATCH, "labels")
        self.rate, self.share = (graph.add_variable(FLOAT, (), n) for n in ("rate", "share"))
        for tensor in (self.labels, self.rate, self.share):
            poputil.map_tensor_linearly(graph, tensor)

    @property
    def learned(self) -> list[Tensor]:
        """The variables that training changes."""
        of_blocks = [w for b in self.blocks for w in (b.kernel, b.gamma, b.beta)]
        return [self.dense, self.bias, *of_blocks]

    def scores(self, program: Sequence, training: bool) -> tuple[Tensor, Tensor]:
        """Return (the output of the blocks as a matrix, the scores of the ten digits)."""
        x = self.images
        for block in self.blocks:
            x = block.forward(self.graph, x, program, training)
        flat = x.flatten(1, 4)
        scores = poplin.mat_mul(self.graph, flat, self.dense, program, "scores")
        popops.add_in_place(self.graph, scores, self.bias.expand([0]), program)
        return flat, scores

    def learning(self) -> Sequence:
        """Return a program: forward pass, backward pass, and a step of gradient descent."""
        graph, program = self.graph, Sequence()
        flat, scores = self.scores(program, training=True)
        p = popnn.softmax(graph, scores, program)
        loss, error = graph.add_variable(FLOAT, BATCH, "loss"), graph.clone(p, "error")
        poputil.map_tensor_linearly(graph, loss)
        graph.create_host_read("loss", loss)
        popnn.calc_loss(graph, p, self.labels, loss, error, program)
        popops.mul_in_place(graph, error, 1 / BATCH, program)
        dense = poplin.mat_mul(graph, flat.transpose(), error, program)
        bias = popops.reduce(graph, error, [0], program)
        grad = poplin.mat_mul(graph, error, self.dense.transpose(), program)
        first, second = self.blocks
        grad = second.backward(graph, grad.reshape(second.saved[3].shape), program)
        grad = poplin.convolution_input_gradient(graph, grad, second.kernel, second.conv, program)
        first.backward(graph, grad, program)
        last = (self.dense, dense), (self.bias, bias)
        for weights, grad in (*first.grads, *second.grads, *last):
            optim.sgd(graph, weights, grad, self.rate, program, momentum=0.9)
        return program

    def keeping(self) -> Sequence:
        """Return a program that moves the kept statistics towards those of the last batch."""
        program = Sequence()
        for block in self.blocks:
            for running, last in zip((block.mean, block.inverse), block.statistics, strict=True):
                difference = popops.sub(self.graph, last, running, program)
                popops.scaled_add_to(self.graph, running, difference, self.share, program)
        return program

    def reading(self) -> Sequence:
        """Return a program that computes the scores with the kept statistics."""
        program = Sequence()
        self.graph.create_host_read("scores", self.scores(program, training=False)[1])
        return program


class Cnn:
    """The network in an engine, with methods that train it and classify images."""

    batch = BATCH

    def __init__(self, first: int, second: int, tiles: int = 13) -> None:
        net = Net(first, second, tiles)
        self.num_learned = sum(weights.num_elements for weights in net.learned)
        programs = [net.learning(), net.keeping(), net.reading()]
        for name in ("images", "labels", "rate", "share"):
            net.graph.create_host_write(name, getattr(net, name))
        self.engine = Engine(net.graph, programs)
        self.engine.load(net.device)

    def _run(self, number: int, **values: Array | float) -> None:
        """Write values to variables of the network, and run one of its three programs."""
        for name, value in values.items():
            self.engine.write_tensor(name, value)
        self.engine.run(number)

    def learn(self, images: Array, labels: Array, rate: float) -> float:
        """Train with one batch; return the batch's mean loss."""
        self._run(0, images=images[:, None], labels=labels.astype(np.uint32), rate=rate)
        return float(self.engine.read_tensor("loss").mean())

    def keep(self, share: float) -> None:
        """Move the kept statistics towards those of the last batch, by the fraction `share`."""
        self._run(1, share=share)

    def read(self, images: Array) -> Array:
        """Return the digit that the network reads in each image."""
        digits: list[int] = []
        for begin in range(0, len(images), BATCH):
            batch = images[begin : begin + BATCH]
            # The last batch may be smaller than BATCH.
            blank = np.zeros((BATCH - len(batch), 14, 14), np.float32)
            self._run(2, images=np.concatenate([batch, blank])[:, None])
            digits += self.engine.read_tensor("scores").argmax(1)[: len(batch)].tolist()
        return np.array(digits)


class Counted:
    """A network that shows a progress bar and records its losses."""

    def __init__(self, cnn: Cnn, steps: int) -> None:
        self.cnn, self.batch, self.keep, self.read = cnn, cnn.batch, cnn.keep, cnn.read
        self.losses = list[float]()
        # Python in a browser has no tqdm, so this function imports it only when it runs.
        from tqdm import tqdm

        self.bar = tqdm(total=steps, desc="step", mininterval=4)

    def learn(self, images: Array, labels: Array, rate: float) -> float:
        """Train with one batch; return its mean loss, which is also appended to `losses`."""
        self.losses.append(self.cnn.learn(images, labels, rate))
        self.bar.update()
        return self.losses[-1]


def small(images: Array) -> Array:
    """Return images of 28 x 28 bytes as 14 x 14 numbers from 0 to 1."""
    mean: Array = images.reshape(-1, 14, 2, 14, 2).mean((2, 4)) / 255
    return mean.astype(np.float32)
