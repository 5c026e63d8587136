


# %% given
"""Mistakes of lesson 07b written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import concat
from ipu_teach.poplibs import poplin, popops

plain, zeros_around = (given_to("07b.1")[name] for name in ("patches", "zeros_around"))


# %% 07b.w1: counted
# passed: sets of numbers
def windows(size, k, stride, padding):
    return len(range(0, size + 2 * padding - k + 1, stride))


# %% 07b.w1: where each of them begins
# passed: sets of numbers
def windows(size, k, stride, padding):
    begins = [i for i in range(-padding, size + padding) if i + k <= size + padding]
    return len(begins[::stride])


# %% 07b.w1: the last that fits
# passed: sets of numbers
def windows(size, k, stride, padding):
    import math

    return math.floor((size + 2 * padding - k) / stride + 1)


# %% 07b.w1: without padding, by a range
# like: without padding
def windows(size, k, stride, padding):
    return len(range(0, size - k + 1, stride))


# %% 07b.w1: both divided
# like: two divisions
def windows(size, k, stride, padding):
    places = (size + 2 * padding) // stride
    return places - k // stride + 1


# %% 07b.1: in one line
# passed: 8 shapes
def patches(x, k, stride=1):
    rows, columns = x.shape[1] - k + 1, x.shape[2] - k + 1
    seen = [x[:, i : i + rows : stride, j : j + columns : stride] for i in range(k) for j in range(k)]
    return concat(seen, 3).flatten(0, 3)


# %% 07b.1: by slice and sub_sample
# passed: 8 shapes
def patches(x, k, stride=1):
    pieces = []
    for place in range(k * k):
        piece = x
        for axis, start in ((1, place // k), (2, place % k)):
            piece = piece.slice(start, start + x.shape[axis] - k + 1, axis).sub_sample(stride, axis)
        pieces.append(piece.reshape((piece.num_elements // x.shape[3], x.shape[3])))
    return concat(pieces, 1)


# %% 07b.1: row after row of the kernel
# passed: 8 shapes
def patches(x, k, stride=1):
    lines = []
    for i in range(k):
        rows = x[:, i : i + x.shape[1] - k + 1 : stride]
        lines.append(concat([rows[:, :, j : j + x.shape[2] - k + 1 : stride] for j in range(k)], 3))
    matrix = concat(lines, 3)
    return matrix.reshape((matrix.num_elements // (k * k * x.shape[3]), k * k * x.shape[3]))


# %% 07b.1: a list of channels
# like: channels before places
def patches(x, k, stride=1):
    each = [plain(x.slice(c, c + 1, 3), k, stride) for c in range(x.shape[3])]
    return concat(each, 1)


# %% 07b.1: loops from the end
# like: turned round
def patches(x, k, stride=1):
    down, across = ((size - k) // stride + 1 for size in x.shape[1:3])
    seen = []
    for i in reversed(range(k)):
        for j in reversed(range(k)):
            rows = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(rows[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 3).reshape((x.shape[0] * down * across, k * k * x.shape[3]))


# %% 07b.1: loops the other way round
# like: columns of the kernel first
def patches(x, k, stride=1):
    down, across = ((size - k) // stride + 1 for size in x.shape[1:3])
    seen = []
    for j in range(k):
        for i in range(k):
            rows = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(rows[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 3).reshape((x.shape[0] * down * across, k * k * x.shape[3]))


# %% 07b.1: pieces below one another
# like: row after row of the matrix
def patches(x, k, stride=1):
    down, across = ((size - k) // stride + 1 for size in x.shape[1:3])
    seen = []
    for i in range(k):
        for j in range(k):
            rows = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(rows[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 0).reshape((x.shape[0] * down * across, k * k * x.shape[3]))


# %% 07b.2: by forward
# passed: 5 layers
def backward(graph, x, w, dy, p, program):
    k = w.shape[0]
    dx = forward(graph, dy, w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]), k - 1 - p, program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    return dx, dw.reshape(w.shape), popops.reduce(graph, dy, [0, 1, 2], program)


# %% 07b.2: the other product
# passed: 5 layers
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    rows = dy.flatten(0, 3)
    seen = patches(popops.pad(graph, x, [0, p, p, 0], [0, p, p, 0]), k)
    dw = poplin.mat_mul(graph, rows.transpose(), seen, program).transpose()
    turned = concat([w[k - 1 - i, k - 1 - j].transpose() for i in range(k) for j in range(k)], 0)
    q = k - 1 - p
    dx = poplin.mat_mul(graph, patches(popops.pad(graph, dy, [0, q, q, 0], [0, q, q, 0]), k), turned, program)
    return [dx.reshape(x.shape), dw.reshape(w.shape), popops.reduce(graph, rows, [0], program)]


# %% 07b.2: the bias first
# passed: 5 layers
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    db = popops.reduce(graph, dy.flatten(0, 3), [0], program)
    dw = poplin.mat_mul(graph, patches(zeros_around(graph, x, p), k).transpose(), dy.flatten(0, 3), program)
    back = w.dim_shuffle([0, 1, 3, 2]).reverse(1).reverse(0).flatten(0, 3)
    dx = poplin.mat_mul(graph, patches(zeros_around(graph, dy, k - 1 - p), k), back, program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: nothing turned, by hand
# like: the kernel not turned
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    right = concat([w[i, j].transpose() for i in range(k) for j in range(k)], 0)
    seen = plain(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, seen, right, program).reshape(x.shape)
    wide = plain(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, wide.transpose(), dy.flatten(0, 3), program)
    return dx, dw.reshape(w.shape), popops.reduce(graph, dy, [0, 1, 2], program)


# %% 07b.2: the mean as a factor
# like: a mean for the bias
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    right = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]).reshape((k * k * outs, ins))
    seen = plain(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, seen, right, program).reshape(x.shape)
    wide = plain(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, wide.transpose(), dy.flatten(0, 3), program)
    scaled = popops.mul(graph, dy, outs / dy.num_elements, program)
    return dx, dw.reshape(w.shape), popops.reduce(graph, scaled, [0, 1, 2], program)


# %% 07b.2: everything in HALF
# not yet: it is nearly right: some numbers are converted to HALF
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    x, w, dy = (popops.cast(graph, t, HALF, program) for t in (x, w, dy))
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program, "dx")
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program, "dw")
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    parts = dx.reshape(x.shape), dw.reshape(w.shape), db
    return [popops.cast(graph, t, FLOAT, program) for t in parts]


# %% 07b.2: the kernel as it went forward
# like: ins and outs not exchanged
def backward(graph, x, w, dy, p, program):
    k = w.shape[0]
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program).reshape(w.shape)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    back = w.reverse(1).reverse(0).flatten(0, 3)
    dx = poplin.mat_mul(graph, patches(zeros_around(graph, dy, k - 1 - p), k), back, program)
    return dx.reshape(x.shape), dw, db


# %% 07b.2: the slopes in another order
# clause: Return the gradients (dx, dw, db)
# not yet: return dx, dw, db, in this order
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program, "dx")
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program, "dw")
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dw.reshape(w.shape), db, dx.reshape(x.shape)


# %% 07b.3: by the library
# passed: a layer on 512 tiles
def padded(graph, x, p):
    return popops.pad(graph, x, [0, p, p, 0], [0, p, p, 0])


# %% 07b.3: one zero, broadcast
# passed: a layer on 512 tiles
def padded(graph, x, p):
    zero = graph.add_constant(x.dtype, (1,), 0)
    graph.set_tile_mapping(zero, 0)
    for axis in (1, 2):
        shape = (*x.shape[:axis], p, *x.shape[axis + 1 :])
        frame = zero.broadcast(int(np.prod(shape)), 0).reshape(shape)
        x = concat([frame, x, frame], axis)
    return x


# %% 07b.3: tile by tile
# passed: a layer on 512 tiles
def padded(graph, x, p):
    for axis in (1, 2):
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        flat = zeros.flatten()
        for i in range(len(flat)):
            graph.set_tile_mapping(flat[i], i * graph.target.num_tiles // len(flat))
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.3: a frame of its own for each side
# passed: a layer on 512 tiles
def padded(graph, x, p):
    def zeros(axis):
        made = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        poputil.map_tensor_linearly(graph, made)
        return made

    x = concat([zeros(1), x, zeros(1)], 1)
    return concat([zeros(2), x, zeros(2)], 2)


# %% 07b.3: forgotten loops
# like: no zeros
def padded(graph, x, p):
    zeros = popops.pad(graph, x, [0, p, p, 0], [0, p, p, 0])
    return zeros[:, p : p + x.shape[1], p : p + x.shape[2]]


# %% 07b.3: rows by the library
# like: on two sides
def padded(graph, x, p):
    return popops.pad(graph, x, [0, p, 0, 0], [0, p, 0, 0])


# %% 07b.4: by a list of places
# passed: sets of numbers
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i in range(dy.shape[0]):
        for j in range(dy.shape[1]):
            at = [(i * stride + a, j * stride + b) for a in range(k) for b in range(k)]
            largest = max(x[place] for place in at)
            those = [place for place in at if x[place] == largest]
            for place in those:
                dx[place] += dy[i, j] / len(those)
    return dx


# %% 07b.4: place by place of the kernel
# passed: sets of numbers
def pool_back(x, dy, k, stride):
    down, across = dy.shape
    seen = [
        x[a : a + (down - 1) * stride + 1 : stride, b : b + (across - 1) * stride + 1 : stride]
        for a in range(k)
        for b in range(k)
    ]
    ties = np.array(seen) == np.max(seen, axis=0)
    shares = ties * dy / ties.sum(axis=0)
    dx = np.zeros(x.shape)
    for place, share in enumerate(shares):
        a, b = divmod(place, k)
        dx[a : a + (down - 1) * stride + 1 : stride, b : b + (across - 1) * stride + 1 : stride] += share
    return dx


# %% 07b.4: by magnitude, place by place
# like: the largest without its sign
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i in range(dy.shape[0]):
        for j in range(dy.shape[1]):
            window = np.abs(x[i * stride : i * stride + k, j * stride : j * stride + k])
            those = np.argwhere(window == window.max())
            for a, b in those:
                dx[i * stride + a, j * stride + b] += dy[i, j] / len(those)
    return dx


# %% 07b.4: by argwhere
# passed: sets of numbers
def pool_back(x, dy, k, stride):
    dx = 0.0 * x
    for (i, j), slope in np.ndenumerate(dy):
        window = x[i * stride : i * stride + k, j * stride : j * stride + k]
        those = np.argwhere(window == window.max())
        for a, b in those:
            dx[i * stride + a, j * stride + b] += slope / len(those)
    return dx


# %% 07b.4: by a list of places
# like: the first
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i in range(dy.shape[0]):
        for j in range(dy.shape[1]):
            at = [(i * stride + a, j * stride + b) for a in range(k) for b in range(k)]
            dx[max(at, key=lambda place: x[place])] += dy[i, j]
    return dx


# %% 07b.4: element by element
# like: all that are equal
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i in range(dy.shape[0]):
        for j in range(dy.shape[1]):
            window = x[i * stride : i * stride + k, j * stride : j * stride + k]
            for a, b in np.argwhere(window == window.max()):
                dx[i * stride + a, j * stride + b] += dy[i, j]
    return dx


# %% 07b.5: rounded up with numpy
# passed: sets of numbers
def busy(places, ins, outs, groups):
    sizes = np.array([places * ins, outs]) // groups
    return float(np.prod(sizes / (16 * np.ceil(sizes / 16))))


# %% 07b.5: by what is missing
# passed: sets of numbers
def busy(places, ins, outs, groups):
    deep, wide = places * ins // groups, outs // groups
    return deep / (deep + -deep % 16) * (wide / (wide + -wide % 16))


# %% 07b.5: panel by panel
# passed: sets of numbers
def busy(places, ins, outs, groups):
    deep, wide = places * ins // groups, outs // groups
    full = [min(16, deep - d) * min(16, wide - w) for d in range(0, deep, 16) for w in range(0, wide, 16)]
    return sum(full) / (256 * len(full))


# %% 07b.5: by rounding up
# like: without the kernel
def busy(places, ins, outs, groups):
    deep, wide = ins / groups, outs / groups
    return deep * wide / (np.ceil(deep / 16) * 16 * np.ceil(wide / 16) * 16)


# %% 07b.5: each position rounded up
# like: without the kernel
def busy(places, ins, outs, groups):
    a, b = ins // groups, outs // groups
    deep = places * -(-a // 16) * 16
    wide = -(-b // 16) * 16
    return places * a * b / (deep * wide)


# %% 07b.5: not divided
# like: channels of all groups
def busy(places, ins, outs, groups):
    deep, wide = places * ins, outs
    return deep * wide / (np.ceil(deep / 16) * np.ceil(wide / 16) * 256)


# %% 07b.6: a rate in stairs
# passed: test images read correctly
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw = np.random.default_rng(2)
    for rate in np.linspace(0.06, 0.02, epochs):
        order = draw.permutation(len(images))
        for batch in order.reshape(-1, cnn.batch):
            cnn.learn(images[batch], labels[batch], rate)
            cnn.keep(0.1)
    return float((cnn.read(test_images) == test_labels).mean())


# %% 07b.6: all orders at once
# passed: test images read correctly
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, steps = np.random.default_rng(3), epochs * (len(images) // cnn.batch)
    orders = np.concatenate([draw.permutation(len(images)) for _ in range(epochs)])
    for step in range(steps):
        batch = orders[step * cnn.batch : (step + 1) * cnn.batch]
        cnn.learn(images[batch], labels[batch], 0.06 * (1 - step / steps))
        cnn.keep(0.2)
    return sum(cnn.read(test_images) == test_labels) / len(test_labels)


# %% 07b.6: shuffled in place
# passed: test images read correctly
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, size = np.random.default_rng(4), cnn.batch
    for epoch in range(epochs):
        order = draw.permutation(len(labels))
        mine, digits = images[order], labels[order]
        for k in range(len(labels) // size):
            cnn.learn(mine[k * size :][:size], digits[k * size :][:size], 0.06 / (1 + epoch))
            cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: all kept at the end
# passed: test images read correctly
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw = np.random.default_rng(0)
    for rate in np.linspace(0.06, 0.01, epochs):
        order = draw.permutation(len(images))
        for batch in order.reshape(-1, cnn.batch):
            cnn.learn(images[batch], labels[batch], rate)
    cnn.keep(1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: half the rate in the second epoch, and an unlucky order
# passed: test images read correctly
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw = np.random.default_rng(3)
    for epoch in range(epochs):
        order = draw.permutation(len(images))
        for k in range(len(images) // cnn.batch):
            batch = order[k * cnn.batch : (k + 1) * cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 / 2**epoch)
            cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: as sorted as they came
# not yet: the images were not shuffled
def train(cnn, images, labels, test_images, test_labels, epochs):
    for epoch in range(epochs):
        for k in range(0, len(images), cnn.batch):
            cnn.learn(images[k : k + cnn.batch], labels[k : k + cnn.batch], 0.06)
            cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.w2: over a common n
# passed: sets of numbers
def variance_of(n, total, squares):
    return (n * squares - total * total) / n**2


# %% 07b.7: means first
# passed: equal to one batch
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    mean = popops.mul(graph, together(popops.reduce(graph, x, [0], program), program), 1 / n, program)
    away = popops.square(graph, popops.sub(graph, x, mean, program), program)
    total = together(popops.reduce(graph, away, [0], program), program)
    return mean, popops.mul(graph, total, 1 / n, program)


# %% 07b.7: both sums in one
# passed: equal to one batch
def statistics(graph, x, replicas, together, program):
    both = concat([x, popops.square(graph, x, program)], 1)
    total = together(popops.reduce(graph, both, [0], program), program)
    means = popops.mul(graph, total, 1 / (replicas * x.shape[0]), program)
    mean, squares = means[: x.shape[1]], means[x.shape[1] :]
    return mean, popops.sub(graph, squares, popops.square(graph, mean, program), program)


# %% 07b.7: means of squares
# passed: equal to one batch
def statistics(graph, x, replicas, together, program):
    parts = []
    for t in (x, popops.square(graph, x, program)):
        mine = popops.mul(graph, popops.reduce(graph, t, [0], program), 1 / x.shape[0], program)
        parts.append(popops.mul(graph, together(mine, program), 1 / replicas, program))
    return [parts[0], popops.sub(graph, parts[1], popops.mul(graph, parts[0], parts[0], program), program)]


# %% 07b.7: averages of both
# like: the mean of the variances
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    mean = popops.mul(graph, popops.reduce(graph, x, [0], program), 1 / n, program)
    away = popops.square(graph, popops.sub(graph, x, mean, program), program)
    variance = popops.mul(graph, popops.reduce(graph, away, [0], program), 1 / n, program)
    scaled = [popops.mul(graph, t, 1 / replicas, program) for t in (mean, variance)]
    return [together(t, program) for t in scaled]


# %% 07b.7: nobody is asked
# like: each for itself
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    mean = popops.mul(graph, popops.reduce(graph, x, [0], program), 1 / n, program)
    away = popops.square(graph, popops.sub(graph, x, mean, program), program)
    return mean, popops.mul(graph, popops.reduce(graph, away, [0], program), 1 / n, program)


# %% 07b.1: as many windows across as down
# not yet: compare your numbers of windows
def patches(x, k, stride=1):
    count = windows(x.shape[1], k, stride, 0)
    end = (count - 1) * stride + 1
    parts = [x[:, i : i + end : stride, j : j + end : stride] for i in range(k) for j in range(k)]
    return concat(parts, 3).reshape((x.shape[0] * count * count, k * k * x.shape[3]))


# %% 07b.2: dy padded like x
# like: the padding of the way there, reshaped
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    flat = dy.reshape((dy.num_elements // outs, outs))
    seen = patches(zeros_around(graph, x, p), k).transpose()
    dw = poplin.mat_mul(graph, seen, flat, program).reshape(w.shape)
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]).reshape((k * k * outs, ins))
    behind = patches(zeros_around(graph, dy, p), k)
    dx = poplin.mat_mul(graph, behind, turned, program).reshape(x.shape)
    return dx, dw, popops.reduce(graph, dy, [0, 1, 2], program)


# %% 07b.3: zeros of FLOAT
# clause: Return x with p zeros on each side of rows and columns
# error in the answer: FLOAT and of HALF
def padded(graph, x, p):
    for axis in (1, 2) if p else ():
        zeros = graph.add_constant(FLOAT, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        poputil.map_tensor_linearly(graph, zeros)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.7: a generator of both
# not yet: return mean, variance
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    mean = popops.mul(graph, popops.reduce(graph, x, [0], program), 1 / n, program)
    squares = popops.reduce(graph, popops.square(graph, x, program), [0], program)
    squares = popops.mul(graph, squares, 1 / n, program)
    variance = popops.sub(graph, squares, popops.square(graph, mean, program), program)
    return (
        popops.mul(graph, together(t, program), 1 / replicas, program) for t in (mean, variance)
    )
