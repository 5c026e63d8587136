


# %% given
import numpy as np

from ipu_teach import FLOAT, INT, UNSIGNED_CHAR, UNSIGNED_INT
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Repeat, Sequence


# %% 07.w1: a loop
# passed: errors on 58 fixed sets of numbers
def errors(p, label):
    return [value - 1 if place == label else value for place, value in enumerate(p)]


# %% 07.w1: one less the probability
# like: the right digit the other way
def errors(p, label):
    return np.array([1 - value if digit == label else value for digit, value in enumerate(p)])


# %% 07.1: image by image
# passed: 4 batches
def loss_gradients(images, labels, weights, bias):
    w, b = np.zeros_like(weights), np.zeros_like(bias)
    for x, label in zip(images, labels):
        z = [sum(x[i] * weights[i, j] for i in range(len(x))) + bias[j] for j in range(len(bias))]
        p = np.exp(z) / np.exp(z).sum()
        for j in range(len(bias)):
            error = p[j] - (j == label)
            b[j] += error / len(labels)
            for i in range(len(x)):
                w[i, j] += x[i] * error / len(labels)
    return w, b


# %% 07.1: one-hot, einsum, and a list
# passed: 4 batches
def loss_gradients(images, labels, weights, bias):
    p = np.exp(images @ weights + bias)
    d = (p / p.sum(1)[:, None] - np.eye(len(bias))[labels]) / len(labels)
    return [np.einsum("ni,nj->ij", images, d), d.sum(0).tolist()]


# %% 07.1: measured
# passed: 4 batches
def loss_gradients(images, labels, weights, bias):
    def loss(w, b):
        z = images @ w + b
        z = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        return -z[range(len(labels)), labels].mean()
    h, slopes = 1e-5, []
    for k, a in enumerate((weights, bias)):
        slope = np.zeros(a.shape)
        for place in np.ndindex(a.shape):
            up, down = [weights.copy(), bias.copy()], [weights.copy(), bias.copy()]
            up[k][place] += h
            down[k][place] -= h
            slope[place] = (loss(*up) - loss(*down)) / (2 * h)
        slopes.append(slope)
    return tuple(slopes)


# %% 07.1: single precision
# passed: 4 batches
def loss_gradients(images, labels, weights, bias):
    x, w, b = (a.astype(np.float32) for a in (images, weights, bias))
    p = np.exp(x @ w + b)
    p /= p.sum(axis=1, keepdims=True)
    p[range(len(labels)), labels] -= 1
    return x.T @ p / len(labels), p.mean(axis=0)


# %% 07.1: image by image, and not divided
# like: the 1/batch is missing
def loss_gradients(images, labels, weights, bias):
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


def loss_gradients(images, labels, weights, bias):
    errors = -1.0 * softmax_of(images @ weights + bias)
    for row, label in enumerate(labels):
        errors[row, label] += 1
    return np.einsum("np,nc->pc", images, errors) / len(errors), errors.sum(axis=0) / len(errors)


# %% 07.1: one-hot labels, for any of the batch
# like: 1 off every label's column
def loss_gradients(images, labels, weights, bias):
    powers = np.exp(images @ weights + bias)
    errors = powers / powers.sum(axis=1, keepdims=True)
    for label in set(labels.tolist()):
        errors[:, label] -= 1
    return np.dot(images.T, errors) / images.shape[0], np.mean(errors, axis=0)


# %% 07.1: a mean over everything
# like: divided by everything there is
def loss_gradients(images, labels, weights, bias):
    powers = np.exp(images @ weights + bias)
    errors = powers / powers.sum(axis=1, keepdims=True) - (labels[:, None] == np.arange(len(bias)))
    return (images.T @ errors) / np.prod(errors.shape), errors.sum(axis=0) / np.prod(errors.shape)


# %% 07.1: the logistic function by tanh
# like: sigmoids
def loss_gradients(images, labels, weights, bias):
    errors = (1 + np.tanh((images @ weights + bias) / 2)) / 2 - np.eye(len(bias))[labels]
    return images.T @ errors / len(labels), errors.mean(axis=0)


# %% 07.2: appended, one by one
# passed: a program that does not grow
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", images.dtype, 12)
    b = graph.add_host_to_device_fifo("labels", labels.dtype, 4)
    c = graph.add_device_to_host_fifo("loss", loss.dtype, 4)
    step = Sequence()
    step.append(Copy(b, labels))
    step.append(Copy(a, images))
    step.append(learn)
    step.append(Copy(loss, c))
    return Sequence(Repeat(steps, step))


# %% 07.2: counted down on the device
# passed: a program that does not grow
def whole_epoch(graph, images, labels, loss, learn, steps):
    from ipu_teach.program import RepeatWhileTrue
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    left = graph.add_variable(INT, (), "left")
    graph.set_tile_mapping(left, 0)
    graph.set_initial_value(left, steps)
    step = Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c))
    popops.sub_in_place(graph, left, 1, step)
    return RepeatWhileTrue(Sequence(), left, step)


# %% 07.2: fetched into variables of its own
# passed: a program that does not grow
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, labels.num_elements)
    c = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    waiting = graph.add_variable(FLOAT, images.shape, "waiting")
    graph.set_tile_mapping(waiting, 0)
    fetch = Sequence(Copy(a, waiting), Copy(b, labels), Copy(waiting, images))
    return Repeat(steps, Sequence(fetch, learn, Copy(loss, c)))


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


# %% 07.2: labels of FLOAT
# clause: labels UNSIGNED_INT
# error in the answer: PoplarTypeError
def whole_epoch(graph, images, labels, loss, learn, steps):
    pixels = graph.add_host_to_device_fifo("images", FLOAT, images.num_elements)
    digits = graph.add_host_to_device_fifo("labels", FLOAT, labels.num_elements)
    losses = graph.add_device_to_host_fifo("loss", FLOAT, loss.num_elements)
    fetch = Sequence(Copy(pixels, images), Copy(digits, labels))
    return Repeat(steps, Sequence(fetch, learn, Copy(loss, losses)))


# %% 07.3: shuffled, with its own streams
# passed: 3 and 12 epochs
def train(engine, data, epochs):
    connect(engine, data)
    order = np.random.default_rng(5).permutation(len(data.train_labels))
    rows = as_rows(data.train_images, len(order))[order]
    engine.connect_stream("images", np.ascontiguousarray(rows))
    engine.connect_stream("labels", data.train_labels[order].astype(np.uint32))
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return int(engine.read_tensor("num_correct")) / len(data.test_labels)


# %% 07.3: a test after every epoch, and the last counts
# clause: Test once, after the last epoch
# not yet: the right share, after 12 tests
def train(engine, data, epochs):
    losses, shares = connect(engine, data), []
    for _ in range(epochs):
        engine.run(0)
        engine.run(1)
        shares.append(engine.read_tensor("num_correct") / np.float64(len(data.test_labels)))
    return shares[-1]


# %% 07.3: epochs in a comprehension, hits by numpy
# passed: 3 and 12 epochs
def train(engine, data, epochs):
    losses = connect(engine, data)
    curve = [(engine.run(0), losses.mean())[1] for _ in range(epochs)]
    assert len(curve) == epochs
    engine.run(1)
    return np.divide(engine.read_tensor("num_correct"), len(data.test_labels))


# %% 07.3: loaded once more, a Fraction
# passed: 3 and 12 epochs
def train(engine, data, epochs):
    from fractions import Fraction
    engine.load()
    connect(engine, data)
    while epochs:
        epochs -= 1
        engine.run(0)
    engine.run(1)
    return Fraction(int(engine.read_tensor("num_correct")), len(data.test_labels))


# %% 07.4: cast, then divided into images
# passed: every grey level
def fetch_bytes(graph, images):
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    poputil.map_tensor_linearly(graph, raw)
    fetch = Sequence(Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw))
    floats = popops.cast(graph, raw, FLOAT, fetch)
    fetch.add(Copy(popops.mul(graph, floats, 1 / 255, fetch), images))
    return fetch


# %% 07.4: by HALF, a row on each tile
# passed: every grey level
def fetch_bytes(graph, images):
    from ipu_teach import HALF
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "bytes")
    for row in range(len(raw)):
        graph.set_tile_mapping(raw[row], row % graph.target.num_tiles)
    fetch = Sequence(Copy(graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements), raw))
    half = popops.cast(graph, raw, HALF, fetch)
    popops.cast_with_output(graph, half, images, fetch)
    popops.mul_in_place(graph, images, 1 / 255, fetch)
    return fetch


# %% 07.4: a vertex of its own
# passed: every grey level
def fetch_bytes(graph, images):
    from ipu_teach import Input, Output, Vector, Vertex
    from ipu_teach.program import Execute

    class Scale(Vertex):
        raw: Input[Vector[UNSIGNED_CHAR]]
        out: Output[Vector[FLOAT]]

        def compute(self):
            for i in range(len(self.raw)):
                self.out[i] = self.raw[i] / 255

    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    scale = graph.add_compute_set("scale")
    for row in range(images.shape[0]):
        vertex = graph.add_vertex(scale, Scale, raw=raw[row], out=images[row])
        graph.set_perf_estimate(vertex, 100)
        graph.set_tile_mapping(vertex, row % graph.target.num_tiles)
    return Sequence(Copy(stream, raw), Execute(scale))


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


# %% 07.w2: an object, counting in a list
# passed: each fetched 5 times
class Counting(StreamCallback):
    def __init__(self):
        self.seen = []

    def fetch(self, array):
        self.seen.append(None)
        array.fill(len(self.seen))


# %% 07.5: as many as a read gives, up to 16
# passed: 6 readers
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if reader.ready():
                np.copyto(array, reader.next_batch())
                return StreamCallback.Result.SUCCESS
            return StreamCallback.Result.NOT_AVAILABLE

        def fetch(self, array):
            np.copyto(array, reader.next_batch())

    return graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=min(reader.at_once, 16)), Ahead()


# %% 07.5: always 16, made outside
# passed: 6 readers
class Ahead(StreamCallback):
    def __init__(self, reader):
        self.reader = reader

    def fetch(self, array):
        array[...] = self.reader.next_batch()

    def prefetch(self, array):
        if not self.reader.ready():
            return self.Result.NOT_AVAILABLE
        self.fetch(array)
        return self.Result.SUCCESS


def read_ahead(graph, reader, size):
    return graph.add_host_to_device_fifo("images", FLOAT, size, options={"bufferingDepth": 16}), Ahead(reader)


# %% 07.5: a list, and one transfer more
# passed: 6 readers
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            there = reader.ready()
            if there:
                array.put(range(size), reader.next_batch())
            return self.Result.SUCCESS if there else self.Result.NOT_AVAILABLE

        def fetch(self, array):
            array.put(range(size), reader.next_batch())

    return [graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=reader.steps + 1), Ahead()]


# %% 07.3: rounded to two digits
# not yet: rounded to 2 digits after the point
def train(engine, data, epochs):
    connect(engine, data)
    for _ in range(epochs):
        engine.run(0)
    engine.run(1)
    return round(float(engine.read_tensor("num_correct") / len(data.test_labels)), 2)


# %% 07.4: a rounded factor
# clause: pixel / 255 to images
# not yet: every pixel is 0.9996 times as large as it should be
def fetch_bytes(graph, images):
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    program = Sequence(Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, program)
    popops.mul_in_place(graph, images, 0.00392, program)
    return program


# %% 07.4: a factor of four places
# not yet: every pixel is 0.9945 times as large as it should be
def fetch_bytes(graph, images):
    stream = graph.add_host_to_device_fifo("images", UNSIGNED_CHAR, images.num_elements)
    raw = graph.add_variable(UNSIGNED_CHAR, images.shape, "raw")
    graph.set_tile_mapping(raw, graph.get_tile_mapping(images))
    program = Sequence(Copy(stream, raw))
    popops.cast_with_output(graph, raw, images, program)
    popops.mul_in_place(graph, images, 0.0039, program)
    return program


# %% 07.w2: 1 more than the array holds
# not yet: 7 became 8, and 100 became 101
class Counting(StreamCallback):
    def fetch(self, array):
        array += 1


# %% 07.w2: counted within an array
# not yet: the elements of one array are different
class Counting(StreamCallback):
    def fetch(self, array):
        array[:] = np.arange(1, len(array) + 1)


# %% 07.5: SUCCESS without a batch
# not yet: a call returned SUCCESS without a batch
def read_ahead(graph, reader, size):
    class Ahead(StreamCallback):
        def prefetch(self, array):
            if reader.ready():
                array[:] = reader.next_batch()
            return self.Result.SUCCESS

        def fetch(self, array):
            array[:] = reader.next_batch()

    depth = min(16, reader.steps)
    stream = graph.add_host_to_device_fifo("images", FLOAT, size, buffering_depth=depth)
    return stream, Ahead()


# %% 07.2: the lesson's batch
# clause: The check uses batches of other sizes than 50, so take the sizes from the three variables.
# error in the answer: ControlProgramError
def whole_epoch(graph, images, labels, loss, learn, steps):
    a = graph.add_host_to_device_fifo("images", FLOAT, 50 * 784)
    b = graph.add_host_to_device_fifo("labels", UNSIGNED_INT, 50)
    c = graph.add_device_to_host_fifo("loss", FLOAT, 50)
    return Repeat(steps, Sequence(Copy(a, images), Copy(b, labels), learn, Copy(loss, c)))
