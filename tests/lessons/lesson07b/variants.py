# %% given
"""Mistakes of lesson 07b written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import concat
from ipu_teach.poplibs import poplin, popops

plain, zeros_around = (given_to("07b.1")[name] for name in ("patches", "zeros_around"))


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


# %% 07b.5: by rounding up
# like: without the kernel
def busy(places, ins, outs, groups):
    deep, wide = ins / groups, outs / groups
    return deep * wide / (np.ceil(deep / 16) * 16 * np.ceil(wide / 16) * 16)


# %% 07b.5: not divided
# like: channels of all groups
def busy(places, ins, outs, groups):
    deep, wide = places * ins, outs
    return deep * wide / (np.ceil(deep / 16) * np.ceil(wide / 16) * 256)


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
