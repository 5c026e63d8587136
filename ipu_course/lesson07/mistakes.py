# %% given
"""Known mistakes of lesson 07; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, INT, UNSIGNED_CHAR, UNSIGNED_INT, StreamCallback
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Repeat, Sequence

BATCH, PIXELS, CLASSES = 50, 28 * 28, 10


def as_rows(images, size):
    rows = np.zeros((size, PIXELS), np.float32)
    rows[: len(images)] = images.reshape(-1, PIXELS) / np.float32(255)
    return rows


def connect(engine, data, rows=as_rows):
    steps, batches = len(data.train_labels) // BATCH, -(-len(data.test_labels) // BATCH)
    size, padded = steps * BATCH, batches * BATCH
    losses = np.empty((steps, BATCH), np.float32)
    blank = np.full(padded - len(data.test_labels), CLASSES)
    engine.connect_stream("images", rows(data.train_images[:size], size))
    engine.connect_stream("labels", data.train_labels[:size])
    engine.connect_stream("loss", losses)
    engine.connect_stream("test_images", as_rows(data.test_images, padded))
    engine.connect_stream("test_labels", np.concatenate([data.test_labels, blank]))
    return losses


# %% 07.1: the 1/batch is missing
# why:  these are the gradients of the sum of the losses. The exercise asks for those of the mean.
# next: divide by the number of images, len(labels).
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return images.T @ p, p.sum(axis=0)


# %% 07.1: bias is not divided
# clause: the gradients of the batch's mean loss
# why:  the gradient of `weights` is right, but that of `bias` is not divided by the batch size.
# next: divide by the number of images, len(labels).
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.sum(axis=0)


# %% 07.1: weights are not divided
# why:  the gradient of `bias` is right, but that of `weights` is not divided by the batch size.
# next: divide by the number of images, len(labels).
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return images.T @ p, p.mean(axis=0)


# %% 07.1: divided by 50, the lesson's batch
# clause: for a batch of any size
# why:  the gradients are divided by 50, the batch size of the lesson. The batches of the check have
#   other sizes.
# next: divide by the number of images, len(labels).
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return images.T @ p / BATCH, p.sum(axis=0) / BATCH


# %% 07.1: divided by everything there is
# why:  the gradients are also divided by the number of classes, because mean() without an axis
#   averages over all dimensions.
# next: divide by the number of images, len(labels).
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    p /= p.size
    return images.T @ p, p.sum(axis=0)


# %% 07.1: downhill
# why:  every sign is wrong: this is the direction in which the loss falls. The gradient points in
#   the direction in which it grows.
# next: compute p minus the right answer, not the right answer minus p.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    d = np.eye(len(bias))[labels] - p / p.sum(axis=1, keepdims=True)
    return images.T @ d / len(labels), d.mean(axis=0)


# %% 07.1: without the labels
# why:  the labels are not used.
# next: subtract 1 from the probability of the right digit.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: 1 off every label's column
# why:  p[:, labels] selects whole columns, so 1 is subtracted in every row, for every digit that is
#   a label.
# next: select one element in each row: p[np.arange(len(labels)), labels].
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[:, labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: no softmax
# why:  the scores are used as probabilities: softmax is missing.
# next: apply softmax to each row of scores first.
def loss_gradients(images, labels, weights, bias):
    p = images @ weights + bias
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: exp alone
# why:  exp is applied, but the rows are not divided by their sums.
# next: divide each row by its sum: .sum(axis=1, keepdims=True).
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: softmax over the images
# why:  the probabilities add up to 1 over the images. They must add up to 1 in each row, over the
#   digits.
# next: sum with axis=1, keepdims=True.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=0)
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: all together add up to 1
# why:  all probabilities of the batch together add up to 1. They must add up to 1 in each row.
# next: sum with axis=1, keepdims=True.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum()
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: sigmoids
# why:  each score went through a sigmoid of its own. Then the probabilities of an image do not
#   add up to 1.
# next: use softmax: exp, divided by the sum of the row.
def loss_gradients(images, labels, weights, bias):
    p = 1 / (1 + np.exp(-(images @ weights + bias)))
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: the slope of a square
# why:  everything is twice as large as it should be. The loss contains no square, so its gradient
#   has no factor 2.
# next: remove the factor 2.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return 2 * images.T @ p / len(labels), 2 * p.mean(axis=0)


# %% 07.1: the step, and not the slope
# why:  the gradient is already multiplied by the learning rate. The exercise asks for the gradient
#   alone.
# next: leave out the rate: the update multiplies by it.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return 0.1 * images.T @ p / len(labels), 0.1 * p.mean(axis=0)


# %% 07.1: on its side
# clause: of the shapes of weights and of bias
# not yet: the gradient of `weights` is transposed
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return p.T @ images / len(labels), p.mean(axis=0)


# %% 07.1: bias summed the other way
# not yet: is summed over the digits
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=1)


# %% 07.1: only one of the two
# clause: return the gradients of weights, and the gradients of bias
# not yet: and not a pair
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return images.T @ p / len(labels)


# %% 07.1: ten classes, whatever comes
# clause: weights (pixels, classes), bias (classes)
# error in the answer: could not be broadcast
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    d = p / p.sum(axis=1, keepdims=True) - np.eye(10)[labels]
    return images.T @ d / len(labels), d.mean(axis=0)


# %% 07.1: updates the weights itself
# not yet: the call changed its argument weights
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    w, b = images.T @ p / len(labels), p.mean(axis=0)
    weights -= 0.1 * w
    return w, b


# %% 07.1: without the bias
# why:  the scores are computed without the bias.
# next: compute images @ weights + bias.
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = powers / powers.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    return images.T @ errors / len(labels), errors.mean(axis=0)


# %% 07.1: divided by the largest
# why:  each row is divided by its largest number, so its probabilities do not add up to 1.
# next: divide each row by its sum.
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights + bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = powers / powers.max(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    return images.T @ errors / len(labels), errors.mean(axis=0)


# %% 07.1: the right digit alone turned round
# why:  the sign is wrong at the right digit. The error there is p - 1, which is negative.
# next: subtract 1 at the right digit of each image.
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights + bias
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    errors = powers / powers.sum(axis=1, keepdims=True)
    places = np.arange(len(labels)), labels
    errors[places] = 1 - errors[places]
    return images.T @ errors / len(labels), errors.mean(axis=0)


# %% 07.1: labels taken off all scores
# why:  the label itself is subtracted from all ten errors of an image.
# next: subtract 1 only at the right digit of each image.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p = p / p.sum(axis=1, keepdims=True) - labels[:, None]
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: whole rows of errors
# why:  errors[labels] -= 1 subtracts 1 from whole rows, namely the rows whose numbers are in
#   `labels`.
# next: select one element in each row: errors[np.arange(len(labels)), labels].
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    p[labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: once more through softmax
# why:  the errors already are the gradients with respect to the scores. Here they are multiplied by
#   p (1 - p) again.
# next: multiply images.T by the errors directly.
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    p /= p.sum(axis=1, keepdims=True)
    errors = p.copy()
    errors[np.arange(len(labels)), labels] -= 1
    errors *= p * (1 - p)
    return images.T @ errors / len(labels), errors.mean(axis=0)


# %% 07.1: one mean for all of the bias
# why:  all gradients of `bias` are equal, because the mean is over the images and the digits.
# next: take the mean over the images only: errors.mean(axis=0).
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights + bias
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return images.T @ p / len(images), np.full(bias.shape, p.mean())


# %% 07.1: divided by the pixels
# why:  the gradient of `weights` is divided by the number of pixels.
# next: divide by the number of images, len(labels).
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights + bias
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return images.T @ p / images.shape[1], p.mean(axis=0)


# %% 07.1: the bias as a row
# not yet: keepdims=True leaves a dimension of 1
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights + bias
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return images.T @ p / len(images), p.mean(axis=0, keepdims=True)


# %% 07.1: shares of the scores
# why:  each score is divided by the sum of its row, without exp.
# next: apply np.exp to the scores first, then divide by the sum of the row.
def loss_gradients(images, labels, weights, bias):
    scores = images @ weights + bias
    p = scores / scores.sum(axis=1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return images.T @ p / len(labels), p.mean(axis=0)


# %% 07.2: learns twice
# clause: learn, send
# why:  the program learns twice in each iteration.
# next: put `learn` into the loop once.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn, learn, Copy(loss, c)))


# %% 07.2: learns once
# clause: the program of a whole epoch
# why:  all losses are those of the first batch, because `learn` is outside the loop.
# next: put `learn` into the loop.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    fetch = Sequence(Copy(a, images), Copy(b, labels))
    return Sequence(fetch, learn, Copy(loss, c), Repeat(steps - 1, Sequence(fetch, Copy(loss, c))))


# %% 07.2: fetched once
# clause: fetch a batch
# why:  every step has the same images, because they are fetched only once.
# next: fetch images in each iteration.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Sequence(Copy(a, images), Repeat(steps, Sequence(Copy(b, labels), learn, Copy(loss, c))))


# %% 07.2: both fetched once
# why:  every step has the same images, because they are fetched only once.
# next: fetch images in each iteration.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Sequence(Copy(a, images), Copy(b, labels), Repeat(steps, Sequence(learn, Copy(loss, c))))


# %% 07.2: labels fetched once
# why:  every step has the same labels, because they are fetched only once.
# next: fetch labels in each iteration.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Sequence(Copy(b, labels), Repeat(steps, Sequence(Copy(a, images), learn, Copy(loss, c))))


# %% 07.2: sends a round late
# clause: send its losses
# why:  the losses arrive one iteration late, because they are sent before `learn`.
# next: put `learn` before the Copy that sends the losses.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    graph.set_initial_value(loss, 0)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), Copy(loss, c), learn))


# %% 07.2: learns a round late
# why:  `learn` works on the previous batch, because it runs before the images are fetched.
# next: fetch first, then `learn`.
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    graph.set_initial_value(images, 0)
    return Repeat(steps, Sequence(Copy(b, labels), learn, Copy(a, images), Copy(loss, c)))


# %% 07.2: one batch a run
# not yet: the host would have to call run for each batch
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c))


# %% 07.2: unrolled in Python
# not yet: a Python loop appended every step
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    epoch = Sequence()
    for _ in range(steps):
        epoch.add(Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))
    return epoch


# %% 07.2: thirty steps, whatever is asked
# not yet: the program fetches more batches than there are steps
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(30, Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))


# %% 07.2: one step too few
# clause: does this `steps` times
# not yet: fewer iterations than steps
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps - 1, Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))


# %% 07.2: the losses at the end
# not yet: is after the loop
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Sequence(Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn)), Copy(loss, c))


# %% 07.2: no losses
# clause: writes the losses to `loss`
# not yet: nothing in the program sends the losses
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn))


# %% 07.2: learns before it fetches
# not yet: `learn` reads `images` before the program writes it
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(b, labels), learn, Copy(a, images), Copy(loss, c)))


# %% 07.2: no labels
# not yet: `learn` reads `labels` before the program writes it
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), learn, Copy(loss, c)))


# %% 07.2: sends before it learns
# not yet: `loss` is sent before `learn` computes it
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), Copy(loss, c), learn))


# %% 07.2: names of its own
# clause: The streams have the names
# not yet: expected: a stream 'images'
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("image_stream", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("label_stream", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss_stream", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))


# %% 07.2: an epoch in one transfer
# clause: each transfer is one batch
# error in the answer: ControlProgramError
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, steps * images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, steps * labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))


# %% 07.2: forgets to return
# clause: return the program
# not yet: is there a `return`?
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    Repeat(steps, Sequence(Copy(a, images), learn))


# %% 07.2: names exchanged
# not yet: the names of the two streams are exchanged
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("labels", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("images", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))


# %% 07.3: trains on the test images
# clause: A higher share means that the answer has used the test labels
# not yet: so they were trained on these labels
def train(engine, data, epochs):
    connect(engine, data)
    rows = as_rows(np.concatenate([data.test_images] * 3)[:750], 750)
    engine.connect_stream("images", rows)
    engine.connect_stream("labels", np.concatenate([data.test_labels] * 3)[:750])
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: labels in the pixels
# clause: replaces every test label by a wrong label
# not yet: so the labels came in with the test images
def train(engine, data, epochs):
    def marked(images, labels, size):
        rows = as_rows(images, size)
        rows[:, :10] = 0
        rows[np.arange(len(labels)), labels] = 9
        return rows

    connect(engine, data)
    engine.connect_stream("images", marked(data.train_images, data.train_labels, 750))
    engine.connect_stream("test_images", marked(data.test_images, data.test_labels, 300))
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: learns nothing
# not yet: The weights are still 0
def train(engine, data, epochs):
    connect(engine, data)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: one epoch, whatever is asked
# clause: Train an engine for `epochs` epochs
# not yet: ran 1 time
def train(engine, data, epochs):
    connect(engine, data)
    engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: twenty, whatever is asked
# not yet: ran 20 times
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(20):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: the programs swapped
# not yet: so the test ran before the training
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(1)
    engine.run(0)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: without a test
# clause: is the number of hits after a test
# not yet: the test program did not run after the training
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: blank images counted
# not yet: includes the blank images that fill the last batch
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / 300


# %% 07.3: per cent
# clause: from 0 to 1
# not yet: this looks like a percentage. It should be a share. next: leave out the factor of 100
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return 100 * engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: the number of hits
# clause: the share of the test images that it recognises afterwards
# not yet: the number of recognised images
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct")


# %% 07.3: read from the screen
# not yet: the result is the same for every training
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return 0.9495


# %% 07.3: pixels up to 255
# not yet: connect the pixels as numbers from 0 to 1
def train(engine, data, epochs):
    connect(engine, data)
    engine.connect_stream("images", data.train_images.reshape(-1, 784).astype(np.float32))
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: tested on the training images
# clause: the share of data.test_images recognised
# not yet: this is the share of the training images
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    W = engine.read_tensor("weights")
    scores = as_rows(data.train_images, 750) @ W + engine.read_tensor("bias")
    return (scores.argmax(axis=1) == data.train_labels).mean()


# %% 07.3: not connected
# error in the answer: StreamConnectionError
def train(engine, data, epochs):
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: the mean loss
# not yet: a share, from 0 to 1 next
def train(engine, data, epochs):
    losses = connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    return "about 95 %"


# %% 07.3: the best of all tests
# clause: Test once, after the last epoch
# not yet: the largest result of several tests
def train(engine, data, epochs):
    connect(engine, data)
    best = 0
    for _ in range(epochs):
        engine.run(0)
        engine.run(1)
        best = max(best, engine.read_tensor("num_correct") / len(data.test_labels))
    return best


# %% 07.3: divided by 297
# not yet: divided by 297
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / 297


# %% 07.3: loaded for each epoch
# clause: The engine is loaded and has learnt nothing yet
# not yet: the engine was loaded 12 times
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.load()
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: what was read wrong
# not yet: the share of images that were not recognised
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return 1 - engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.3: divided by the training images
# not yet: divided by the number of training images
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.train_labels)


# %% 07.3: divided by the full batches
# not yet: counts hits among more images than it divides by
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return engine.read_tensor("num_correct") / (len(data.test_labels) // BATCH * BATCH)


# %% 07.3: loaded before the test
# clause: The engine is loaded and has learnt nothing yet
# not yet: engine.load() after 12 epochs restored the initial weights
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.load()
    connect(engine, data)
    engine.run(1)
    return engine.read_tensor("num_correct") / len(data.test_labels)


# %% 07.4: not scaled
# clause: pixel / 255.
# why:  the numbers still go from 0 to 255.
# next: multiply by 1 / 255 on the tiles, after the cast.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    return fetch


# %% 07.4: through HALF
# clause: `images` contains numbers from 0 to 1, as before: pixel / 255
# why:  the numbers were converted to HALF, which has 11 bits, so they have only about three digits.
# next: cast to FLOAT before you multiply or divide.
def fetch_bytes(graph, images):
    from ipu_teach import HALF

    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    half = popops.cast(graph, raw, HALF, fetch)
    popops.mul_in_place(graph, half, 1 / 255, fetch)
    popops.cast_with_output(graph, half, images, fetch)
    return fetch


# %% 07.4: 256 levels, so 256
# why:  the numbers are divided by 256. There are 256 grey levels, but the largest of them is 255.
# next: divide by 255.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 256, fetch)
    return fetch


# %% 07.4: whole numbers divided
# why:  only 0 and 1 remain, because integers were divided.
# next: cast to FLOAT first.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    levels = popops.div(graph, popops.cast(graph, raw, INT, fetch), 255, fetch)
    popops.cast_with_output(graph, levels, images, fetch)
    return fetch


# %% 07.4: twice as bright
# not yet: every pixel is 2 times as large as it should be
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    fetch = Sequence(Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 2 / 255, fetch)
    return fetch


# %% 07.4: black and white
# why:  only black and white remain.
# next: keep the grey levels: multiply each pixel by 1 / 255.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    bright = popops.gt(graph, popops.cast(graph, raw, FLOAT, fetch), 127.0, fetch)
    popops.cast_with_output(graph, bright, images, fetch)
    return fetch


# %% 07.4: scaled twice
# why:  the pixels are divided by 255 twice.
# next: divide once.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: a negative
# why:  black and white are exchanged.
# next: let 0 stay 0, and let 255 become 1.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, -1 / 255, fetch)
    popops.add_in_place(graph, images, 1.0, fetch)
    return fetch


# %% 07.4: bytes with a sign
# why:  pixels above 127 become negative, because the bytes have a sign.
# next: use UNSIGNED_CHAR.
def fetch_bytes(graph, images):
    from ipu_teach import SIGNED_CHAR

    raw = graph.add_variable(SIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", SIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: zeros
# why:  `images` contains only zeros, whatever was sent.
# next: check the order of the program: fetch, cast, scale.
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 // 255, fetch)
    return fetch


# %% 07.4: normalised on the host
# clause: the dtype `UNSIGNED_CHAR`
# not yet: a pixel is sent as FLOAT
def fetch_bytes(graph, images):
    stream = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    fetch = Sequence(Copy(stream, images))
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: sent as HALF
# not yet: a pixel is sent as HALF
def fetch_bytes(graph, images):
    from ipu_teach import HALF

    raw = graph.add_variable(HALF, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(Copy(graph.add_host_to_device_fifo("images", HALF, images.num_elements), raw))
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: cast to nowhere
# not yet: the program writes nothing into `images`
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    floats = popops.cast(graph, raw, FLOAT, fetch)
    popops.mul_in_place(graph, floats, 1 / 255, fetch)
    return fetch


# %% 07.4: scaled before it is there
# not yet: this reads images before anything is written into it
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    popops.cast_with_output(graph, raw, images, fetch)
    return fetch


# %% 07.4: bytes without a place
# error in the answer: InvalidTileMappingError: cast_with_output() was given x with 259
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: one image at a time
# clause: a program that fetches one batch of bytes
# not yet: a transfer must be a whole batch
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.shape[1])
    fetch = Sequence([Copy(stream, raw[row]) for row in range(images.shape[0])])
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: fetched twice
# clause: one byte from the host for each pixel
# not yet: the program fetches more than the pixels of one batch
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    fetch = Sequence(Copy(stream, raw), Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: a name of its own
# clause: The stream has the name `"images"`
# not yet: expected: one, named 'images'
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    fetch = Sequence(
        Copy(graph.add_host_to_device_fifo("pixels", UNSIGNED_CHAR, images.num_elements), raw)
    )
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: bytes multiplied
# not yet: so the scaling must come after the cast
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    fetch = Sequence(Copy(stream, raw))
    popops.mul_in_place(graph, raw, 1 / 255, fetch)
    popops.cast_with_output(graph, raw, images, fetch)
    return fetch


# %% 07.4: the lesson's batch
# clause: for a batch of any size
# not yet: but the answer contains the size of the lesson's batch
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, (BATCH, PIXELS), "raw")
    graph.set_tile_mapping(raw, 0)
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, BATCH * PIXELS)
    fetch = Sequence(Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: all bytes on one tile
# clause: no tile may receive more than twice the mean number of bytes
# not yet: tile 0 receives 100% of the bytes
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, 0)
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    fetch = Sequence(Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: thirteen tiles
# not yet: the code uses the constant 13 for the number of tiles
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    flat, n = raw.flatten(), raw.num_elements
    for tile in range(13):
        graph.set_tile_mapping(flat[tile * n // 13 : (tile + 1) * n // 13], tile)
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    fetch = Sequence(Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.5: only fetches
# clause: so that the device waits for at most 5 % of the time
# not yet: the callback has no prefetch
def read_ahead(graph, reader, size):
    class Fetch(StreamCallback):
        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Fetch()


# %% 07.5: the depth that a stream has anyway
# not yet: 1 transfer may be ready ahead
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo("images", FLOAT, size), Ahead()


# %% 07.5: four, for the reader of the lesson
# clause: must work for any reader
# not yet: 4 transfers may be ready ahead
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=4), Ahead()


# %% 07.5: does not ask whether there is one
# not yet: the reader was asked for batches that it did not have
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Ahead()


# %% 07.5: gives the name another array
# not yet: only gives the name `array` to another array
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array = reader.next_batch()

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Ahead()


# %% 07.5: takes one and says that there is none
# not yet: a batch was taken from the reader and never used
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if reader.ready():
                array[:] = reader.next_batch()
            return self.Result.NOT_AVAILABLE

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Ahead()


# %% 07.5: says True
# error in the answer: prefetch() returned True
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if reader.ready():
                array[:] = reader.next_batch()
                return True
            return False

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Ahead()


# %% 07.5: a thousand
# clause: no more than 16 transfers may be ready ahead
# not yet: 1000 transfers ready ahead
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=1000), Ahead()


# %% 07.5: the same batch again
# clause: and the StreamCallback that feeds it
# not yet: the device got the same batch twice
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        last = None

        def prefetch(self, array):
            if self.last is None:
                self.last = reader.next_batch()
            array[:] = self.last
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Ahead()


# %% 07.5: the class, and not an object
# not yet: a class is no object yet
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def fetch(self, array):
            array[:] = reader.next_batch()

    return graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=reader.steps), Ahead


# %% 07.5: the stream alone
# clause: return stream and callback
# not yet: return both
def read_ahead(graph, reader, size):
    return graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=reader.steps)


# %% 07.5: no fetch
# error in the answer: Ahead has no fetch()
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

    return graph.add_host_to_device_fifo(
        "images", FLOAT, size, buffering_depth=reader.steps
    ), Ahead()


# %% 07.5: as many as a read gives
# clause: `reader.steps` is the number of training steps that a read takes
# not yet: 24 transfers ready ahead
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    stream = graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=reader.at_once)
    return stream, Ahead()


# %% 07.5: one less than a read takes
# error in the answer: buffering depth 0
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    depth = reader.steps - 1
    stream = graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=depth)
    return stream, Ahead()


# %% 07.5: never available
# not yet: prefetch never put a batch into its array
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            return self.Result.NOT_AVAILABLE

        def fetch(self, array):
            array[:] = reader.next_batch()

    stream = graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=reader.steps)
    return stream, Ahead()


# %% 07.5: a name of its own
# clause: a stream "images"
# not yet: use the name
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if not reader.ready():
                return self.Result.NOT_AVAILABLE
            array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    depth = reader.steps
    return graph.add_host_to_device_fifo("pixels", FLOAT, size, buffering_depth=depth), Ahead()


# %% 07.5: a list of its own
# not yet: batches in a list of your own need memory of the host, too
def read_ahead(graph, reader, size):
    there = []

    class Ahead(StreamCallback):
        def prefetch(self, array):
            while reader.ready():
                there.append(reader.next_batch())
            return self.Result.NOT_AVAILABLE

        def fetch(self, array):
            array[:] = there.pop(0) if there else reader.next_batch()

    return graph.add_host_to_device_fifo("images", FLOAT, size), Ahead()


# %% 07.w1: the right digit the other way
# why:  at the right digit this is 1 minus the probability. The error is the probability minus 1.
# next: subtract 1 from p[label].
def errors(p, label):
    found = p.copy()
    found[label] = 1 - found[label]
    return found


# %% 07.w1: 1 added
# why:  1 is added at the right digit. The error there must be negative, since its probability is
#   too low.
# next: subtract 1 instead.
def errors(p, label):
    return p + np.eye(len(p))[label]


# %% 07.w1: 1 taken everywhere
# why:  1 is subtracted from all probabilities.
# next: subtract 1 only at the right digit: copy[label] -= 1.
def errors(p, label):
    return p - 1


# %% 07.w1: in place
# clause: as a new array
# not yet: the call changed its argument p
def errors(p, label):
    p[label] -= 1
    return p


# %% 07.w1: turned round
# clause: `p` has its probabilities
# why:  these are the errors with the opposite sign: 1 at the right digit, minus p.
# next: compute p, minus 1 at the right digit.
def errors(p, label):
    found = -np.array(p)
    found[label] += 1
    return found


# %% 07.w1: the label taken off
# clause: `label` is the right digit
# why:  the label itself is subtracted from all numbers. It is the index of the right digit.
# next: subtract 1, only at the index `label`.
def errors(p, label):
    return np.array(p) - label


# %% 07.w1: the right digit alone
# why:  the other digits have errors, too: their probabilities should be 0.
# next: begin with a copy of p.
def errors(p, label):
    found = np.zeros(len(p))
    found[label] = p[label] - 1
    return found


# %% 07.w2: a name for another array
# clause: it fills the first array with 1
# not yet: only gives the name `array` to another array
class Counting(StreamCallback):
    number = 0

    def fetch(self, array):
        self.number += 1
        array = np.full(len(array), self.number)


# %% 07.w2: begins at 0
# not yet: the count begins at 0
class Counting(StreamCallback):
    number = 0

    def fetch(self, array):
        array[:] = self.number
        self.number += 1


# %% 07.w2: anew each time
# not yet: each array is filled with 1
class Counting(StreamCallback):
    def fetch(self, array):
        number = 0
        number += 1
        array[:] = number


# %% 07.w2: the first place alone
# clause: write the class Counting
# not yet: not all elements have the number
class Counting(StreamCallback):
    number = 0

    def fetch(self, array):
        self.number += 1
        array[0] = self.number


# %% 07.w2: one count for all objects
# clause: it fills the first array with 1
# not yet: the count of this object begins at 6
class Counting(StreamCallback):
    number = 0

    def fetch(self, array):
        Counting.number += 1
        array[:] = Counting.number


# %% 07.w2: always 0
# not yet: each array is filled with 0
class Counting(StreamCallback):
    def fetch(self, array):
        array[:] = 0


# %% 07.w2: never begun
# not yet: `self.number` has no value when fetch is called for the first time
class Counting(StreamCallback):
    def fetch(self, array):
        self.number += 1
        array[:] = self.number
