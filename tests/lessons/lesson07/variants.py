# %% given
import numpy as np

from ipu_teach import FLOAT, INT, UNSIGNED_CHAR, UNSIGNED_INT
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Repeat, Sequence


# %% 07.1: image by image, and not divided
# like: the 1/batch is missing
def loss_slopes(images, labels, weights, bias):
    of_weights, of_bias = np.zeros_like(weights), np.zeros_like(bias)
    for image, label in zip(images, labels, strict=True):
        powers = np.exp(image @ weights + bias)
        error = powers / powers.sum()
        error[label] -= 1
        of_weights += np.outer(image, error)
        of_bias += error
    return of_weights, of_bias


# %% 07.1: one-hot labels, less the probabilities
# like: downhill
def softmax_of(scores):
    powers = np.exp(scores)
    return powers / powers.sum(axis=1, keepdims=True)


def loss_slopes(images, labels, weights, bias):
    errors = -1.0 * softmax_of(images @ weights + bias)
    for row, label in enumerate(labels):
        errors[row, label] += 1
    return np.einsum("np,nc->pc", images, errors) / len(errors), errors.sum(axis=0) / len(errors)


# %% 07.1: one-hot labels, for any of the batch
# like: 1 off every label's column
def loss_slopes(images, labels, weights, bias):
    powers = np.exp(images @ weights + bias)
    errors = powers / powers.sum(axis=1, keepdims=True)
    for label in set(labels.tolist()):
        errors[:, label] -= 1
    return np.dot(images.T, errors) / images.shape[0], np.mean(errors, axis=0)


# %% 07.1: a mean over everything
# like: divided by everything there is
def loss_slopes(images, labels, weights, bias):
    powers = np.exp(images @ weights + bias)
    errors = powers / powers.sum(axis=1, keepdims=True) - (labels[:, None] == np.arange(len(bias)))
    return (images.T @ errors) / np.prod(errors.shape), errors.sum(axis=0) / np.prod(errors.shape)


# %% 07.1: the logistic function by tanh
# like: sigmoids
def loss_slopes(images, labels, weights, bias):
    errors = (1 + np.tanh((images @ weights + bias) / 2)) / 2 - np.eye(len(bias))[labels]
    return images.T @ errors / len(labels), errors.mean(axis=0)


# %% 07.2: body by body, with learn twice
# like: learns twice
def whole_epoch(graph, images, labels, loss, learn, steps):
    into = zip(("images", "labels"), (FLOAT, UNSIGNED_INT), (images, labels), strict=True)
    pixels, digits = [
        graph.add_host_to_device_fifo(name, dtype, tensor.num_elements)
        for name, dtype, tensor in into
    ]
    losses = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    body = Sequence()
    for step in (Copy(digits, labels), Copy(pixels, images), Repeat(2, learn), Copy(loss, losses)):
        body.add(step)
    return Sequence(Repeat(steps, body))


# %% 07.2: the images before the loop
# like: fetched once
def whole_epoch(graph, images, labels, loss, learn, steps):
    into = zip(("images", "labels"), (FLOAT, UNSIGNED_INT), (images, labels), strict=True)
    pixels, digits = [
        graph.add_host_to_device_fifo(name, dtype, tensor.num_elements)
        for name, dtype, tensor in into
    ]
    losses = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    epoch = Sequence(Copy(pixels, images))
    epoch.add(Repeat(steps, Sequence(Copy(digits, labels), Sequence(learn, Copy(loss, losses)))))
    return epoch


# %% 07.2: a fetch before the loop
# like: both fetched once
def whole_epoch(graph, images, labels, loss, learn, steps):
    into = zip(("images", "labels"), (FLOAT, UNSIGNED_INT), (images, labels), strict=True)
    pixels, digits = [
        graph.add_host_to_device_fifo(name, dtype, tensor.num_elements)
        for name, dtype, tensor in into
    ]
    losses = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    fetch = Sequence(Copy(digits, labels), Copy(pixels, images))
    return Sequence(fetch, Repeat(steps, Sequence(learn, Copy(loss, losses))))


# %% 07.2: sent first, with a loss of 0
# like: sends a round late
def whole_epoch(graph, images, labels, loss, learn, steps):
    into = zip(("images", "labels"), (FLOAT, UNSIGNED_INT), (images, labels), strict=True)
    pixels, digits = [
        graph.add_host_to_device_fifo(name, dtype, tensor.num_elements)
        for name, dtype, tensor in into
    ]
    losses = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    start = Sequence()
    popops.fill(graph, loss, start, 0)
    send = Copy(loss, losses)
    return Sequence(
        start, Repeat(steps, Sequence(send, Copy(digits, labels), Copy(pixels, images), learn))
    )


# %% 07.2: learns before the loop
# like: learns once
def whole_epoch(graph, images, labels, loss, learn, steps):
    into = zip(("images", "labels"), (FLOAT, UNSIGNED_INT), (images, labels), strict=True)
    pixels, digits = [
        graph.add_host_to_device_fifo(name, dtype, tensor.num_elements)
        for name, dtype, tensor in into
    ]
    losses = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    first = Sequence(Copy(digits, labels), Copy(pixels, images), learn, Copy(loss, losses))
    others = Sequence(Copy(digits, labels), Copy(pixels, images), Copy(loss, losses))
    return Sequence(first, Repeat(steps - 1, others))


# %% 07.4: cast, and copied
# like: not scaled
def fetch_bytes(graph, images):
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    bytes_ = graph.add_variable(UNSIGNED_CHAR, images.shape, "bytes")
    graph.set_tile_mapping(bytes_, 0)
    program = Sequence(Copy(stream, bytes_))
    program.add(Copy(popops.cast(graph, bytes_, FLOAT, program), images))
    return program


# %% 07.4: a shift of eight bits
# like: 256 levels, so 256
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    program = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, program)
    for _ in range(8):
        popops.mul_in_place(graph, images, 0.5, program)
    return program


# %% 07.4: divided by 255, in whole numbers of another kind
# like: whole numbers divided
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    program = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    full = popops.eq(graph, popops.cast(graph, raw, INT, program), 255, program)
    popops.cast_with_output(graph, full, images, program)
    return program


# %% 07.4: 1 less the grey
# like: a negative
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    program = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    grey = popops.cast(graph, raw, FLOAT, program)
    program.add(
        Copy(popops.sub(graph, 1.0, popops.div(graph, grey, 255.0, program), program), images)
    )
    return program
