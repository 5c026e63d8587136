# %% given
"""Known mistakes of lesson 07b; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, UNSIGNED_INT, Engine, Graph, IPUModel, concat
from ipu_teach.poplibs import optim, poplin, popnn, popops, poputil
from ipu_teach.poplibs.popnn import bn, pooling
from ipu_teach.program import Sequence


def patches(x, k, stride=1):
    """A row for each window of x [batch, rows, columns, channels]: a view."""
    batch, rows, columns, channels = x.shape
    down, across = (rows - k) // stride + 1, (columns - k) // stride + 1
    seen = [
        x[:, i : i + (down - 1) * stride + 1 : stride, j : j + (across - 1) * stride + 1 : stride]
        for i in range(k)
        for j in range(k)
    ]
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


def zeros_around(graph, x, p):
    """x [batch, rows, columns, channels] with p zeros on each side of its field."""
    for axis in (1, 2) if p else ():
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        graph.set_tile_mapping(zeros, 0)
        x = concat([zeros, x, zeros], axis)
    return x


BATCH = 25


def variable(graph, shape, value, name):
    """A variable with a first value, spread over the tiles."""
    made = graph.add_variable(FLOAT, shape, name)
    poputil.map_tensor_linearly(graph, made)
    graph.set_initial_value(made, value)
    return made


class Block:
    """What a block remembers: a 3 x 3 convolution with batch norm, and a pooling of 2 x 2."""

    def __init__(self, graph, size, ins, outs, draw):
        field, one, two, none = (size, size), (1, 1), (2, 2), (0, 0)
        around = {"padding_lower": one, "padding_upper": one}
        self.conv = poplin.ConvParams(FLOAT, BATCH, field, (3, 3), ins, outs, **around)
        self.pool = pooling.PoolParams("MAX", field, two, two, none, none, outs, BATCH, FLOAT)
        self.kernel = poplin.create_weights(graph, self.conv, "kernel")
        first = draw.normal(0, (2 / 9 / ins) ** 0.5, self.kernel.shape)
        graph.set_initial_value(self.kernel, first.astype(np.float32))
        self.gamma, self.inverse = (variable(graph, outs, 1, n) for n in ("gamma", "inverse"))
        self.beta, self.mean = (variable(graph, outs, 0, n) for n in ("beta", "mean"))


def through(graph, block, x, program, kept=False):
    """What comes out of a block, with the statistics of the batch or those that were kept."""
    y = poplin.convolution(graph, x, block.kernel, block.conv, program)
    of = block.mean, block.inverse
    if not kept:
        of = block.batch = bn.batch_norm_statistics(graph, y, 1e-3, program)
    y, white = bn.batch_normalise(graph, y, block.gamma, block.beta, *of, program)
    popnn.non_linearity_in_place(graph, "RELU", y, program)
    out = pooling.pool(graph, block.pool, y, program)
    if not kept:
        block.saved = x, white, y, out
    return out


def back_through(graph, block, slope, program, first=False):
    """From the slope behind a block to that before it; `block.slopes` are its parameters'."""
    x, white, y, out = block.saved
    pool, conv = block.pool, block.conv
    slope = pooling.pool_input_gradient(
        graph, pool, y, out, slope, program, use_scaled_gradient=True
    )
    slope = popnn.non_linearity_input_gradient(graph, "RELU", y, slope, program)
    gamma, beta = bn.batch_norm_param_gradients(graph, white, slope, program)
    slope = bn.batch_norm_gradients(graph, white, slope, block.batch[1], block.gamma, program)
    kernel = poplin.calculate_weight_deltas(graph, slope, x, conv, program)
    block.slopes = (block.kernel, kernel), (block.gamma, gamma), (block.beta, beta)
    if first:
        return None  # nobody asks for the slope of the images
    return poplin.convolution_input_gradient(graph, slope, block.kernel, conv, program)


class Net:
    """All variables of the network, on 13 tiles."""

    def __init__(self, first, second):
        self.device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
        self.graph = graph = Graph(self.device)
        draw = np.random.default_rng(7)
        self.blocks = [Block(graph, 14, 1, first, draw), Block(graph, 7, first, second, draw)]
        start = draw.normal(0, (9 * second) ** -0.5, (9 * second, 10)).astype(np.float32)
        self.dense = variable(graph, start.shape, start, "dense")
        self.bias = variable(graph, 10, 0, "bias")
        self.images = poplin.create_input(graph, self.blocks[0].conv, "images")
        self.labels = graph.add_variable(UNSIGNED_INT, BATCH, "labels")
        self.rate, self.share = (graph.add_variable(FLOAT, (), n) for n in ("rate", "share"))
        for tensor in (self.labels, self.rate, self.share):
            poputil.map_tensor_linearly(graph, tensor)


def scores_of(net, program, kept=False):
    """(what comes out of the blocks as a matrix, the scores of the ten digits)."""
    first = through(net.graph, net.blocks[0], net.images, program, kept)
    flat = through(net.graph, net.blocks[1], first, program, kept).flatten(1, 4)
    scores = poplin.mat_mul(net.graph, flat, net.dense, program, "scores")
    popops.add_in_place(net.graph, scores, net.bias.expand([0]), program)
    return flat, scores


def learning(net):
    """A program: forward, backward, and a step down the slopes."""
    graph, program = net.graph, Sequence()
    flat, scores = scores_of(net, program)
    p = popnn.softmax(graph, scores, program)
    loss, error = graph.add_variable(FLOAT, BATCH, "loss"), graph.clone(p, "error")
    poputil.map_tensor_linearly(graph, loss)
    graph.create_host_read("loss", loss)
    popnn.calc_loss(graph, p, net.labels, loss, error, program)
    popops.mul_in_place(graph, error, 1 / BATCH, program)
    dense = poplin.mat_mul(graph, flat.transpose(), error, program)
    bias = popops.reduce(graph, error, [0], program)
    slope = poplin.mat_mul(graph, error, net.dense.transpose(), program)
    slope = slope.reshape(net.blocks[1].saved[3].shape)
    slope = back_through(graph, net.blocks[1], slope, program)
    back_through(graph, net.blocks[0], slope, program, first=True)
    last = (net.dense, dense), (net.bias, bias)
    for weights, slope in (*net.blocks[0].slopes, *net.blocks[1].slopes, *last):
        optim.sgd(graph, weights, slope, net.rate, program, momentum=0.9)
    return program


def keeping(net):
    """A program: kept statistics go a share of the way to those of the last batch."""
    program = Sequence()
    for block in net.blocks:
        for kept, now in zip((block.mean, block.inverse), block.batch, strict=True):
            way = popops.sub(net.graph, now, kept, program)
            popops.scaled_add_to(net.graph, kept, way, net.share, program)
    return program


def reading(net):
    """A program: the scores, with the statistics that were kept."""
    program = Sequence()
    _, scores = scores_of(net, program, kept=True)
    net.graph.create_host_read("scores", scores)
    return program


class Learner:
    """The network in an engine, and its steps."""

    batch = BATCH

    def __init__(self, first, second):
        self.net = net = Net(first, second)
        programs = [learning(net), keeping(net), reading(net)]
        for name in ("images", "labels", "rate", "share"):
            net.graph.create_host_write(name, getattr(net, name))
        self.engine = Engine(net.graph, programs)
        self.engine.load(net.device)

    def run(self, number, **values):
        for name, value in values.items():
            self.engine.write_tensor(name, value)
        self.engine.run(number)

    def learn(self, images, labels, rate):
        """A step with one batch; its mean loss."""
        self.run(0, images=images[:, None], labels=labels.astype(np.uint32), rate=rate)
        return float(self.engine.read_tensor("loss").mean())


class Cnn(Learner):
    """The same, which keeps statistics, and reads images."""

    def keep(self, share):
        """The kept statistics follow those of the last batch."""
        self.run(1, share=share)

    def read(self, images):
        """The digit that each image shows, as the network reads it."""
        found = []
        for begin in range(0, len(images), BATCH):
            batch = images[begin : begin + BATCH]
            rest = np.zeros((BATCH - len(batch), 14, 14), np.float32)  # the last one may be short
            self.run(2, images=np.concatenate([batch, rest])[:, None])
            found += self.engine.read_tensor("scores").argmax(1)[: len(batch)].tolist()
        return np.array(found)


def small(images):
    """Images of 28 x 28 bytes as 14 x 14 numbers from 0 to 1."""
    mean = images.reshape(-1, 14, 2, 14, 2).mean((2, 4)) / 255
    return mean.astype(np.float32)


# %% 07b.w1: one too few
# why:  the first window was not counted.
# next: a window that fits exactly fits once.
def windows(size, k, stride, padding):
    return (size + 2 * padding - k) // stride
