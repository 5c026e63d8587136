# %% given
"""Known mistakes of lesson 07b; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import concat
from ipu_teach.poplibs import poplin, popops, poputil


def windows(size, k, stride, padding):
    """Return the number of windows in one dimension."""
    return (size + 2 * padding - k) // stride + 1


def patches(x, k, stride=1):
    """Return a view with a row for each window of x [batch, rows, columns, channels]."""
    batch, rows, columns, channels = x.shape
    down, across = (rows - k) // stride + 1, (columns - k) // stride + 1
    slices = [
        x[:, i : i + (down - 1) * stride + 1 : stride, j : j + (across - 1) * stride + 1 : stride]
        for i in range(k)
        for j in range(k)
    ]
    return concat(slices, 3).reshape((batch * down * across, k * k * channels))


def zeros_around(graph, x, p):
    """Return x [batch, rows, columns, channels] with p zeros on each side of rows and columns."""
    for axis in (1, 2) if p else ():
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        graph.set_tile_mapping(zeros, 0)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.w1: one too few
# clause: if the first position is at the left end
# why:  this leaves out the first window: the division counts only the moves of the window.
# next: add 1 after the division.
def windows(size, k, stride, padding):
    return (size + 2 * padding - k) // stride


# %% 07b.w1: zeros on one side
# clause: `padding` zeros are added on *each* side of it
# why:  this adds the zeros of one side, but both sides have `padding` zeros.
# next: use size + 2 * padding.
def windows(size, k, stride, padding):
    return (size + padding - k) // stride + 1


# %% 07b.w1: as if windows might hang over
# why:  the last window extends beyond the end of the image if the stride does not divide size + 2 *
#   padding - k.
# next: round the division down: //.
def windows(size, k, stride, padding):
    return -(-(size + 2 * padding - k) // stride) + 1


# %% 07b.w1: without padding
# why:  the zeros are not counted: `padding` on each side adds 2 * padding elements.
# next: start with size + 2 * padding.
def windows(size, k, stride, padding):
    return (size - k) // stride + 1


# %% 07b.w1: by one each time
# why:  the window moves by one element here, but it should move by `stride`.
# next: divide size + 2 * padding - k by `stride`, round down, and add 1.
def windows(size, k, stride, padding):
    return size + 2 * padding - k + 1


# %% 07b.w1: rounded to nearest
# why:  this rounds to the nearest number, but a window that does not fit completely must not count.
# next: round down: use // instead of / and round().
def windows(size, k, stride, padding):
    return round((size + 2 * padding - k) / stride) + 1


# %% 07b.w1: two divisions
# clause: Return the number of windows in one dimension
# why:  this divides and rounds down twice, which can lose a window.
# next: subtract k first, and divide once: (size + 2 * padding - k) // stride.
def windows(size, k, stride, padding):
    return (size + 2 * padding) // stride - k // stride + 1


# %% 07b.w1: the first window divided, too
# why:  the 1 for the first window is added before the division, so it is divided by `stride`, too.
# next: divide first, and then add 1.
def windows(size, k, stride, padding):
    return (size + 2 * padding - k + 1) // stride


# %% 07b.w1: k subtracted last
# why:  the whole image is divided by `stride`, and k is subtracted afterwards.
# next: subtract k first, and then divide by `stride`.
def windows(size, k, stride, padding):
    return (size + 2 * padding) // stride - k + 1


# %% 07b.w1: a window more for each zero
# why:  each zero adds one window here, but the stride also applies to the zeros.
# next: add 2 * padding to the size before the division.
def windows(size, k, stride, padding):
    return (size - k) // stride + 1 + 2 * padding


# %% 07b.1: channels before places
# clause: for each of them all channels
# why:  a row has all positions of the first channel, then all of the next channel, but each
#   position should have all its channels together.
# next: join the slices in dimension 3, that of the channels.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    parts = concat(seen, 3).reshape((batch * down * across, k * k, channels))
    return parts.dim_shuffle([0, 2, 1]).flatten(1, 3)


# %% 07b.1: turned round
# why:  the positions of the kernel are in reverse order in each row.
# next: put position (0, 0) first, and (k - 1, k - 1) last.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen[::-1], 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: columns of the kernel first
# clause: the positions of the kernel in reading order
# why:  a row goes down the columns of the kernel first, but it should go along the rows.
# next: loop over the kernel's rows i outside, and over its columns j inside.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for j in range(k):
        for i in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: a stride of rows alone
# why:  the window moves by the stride from row to row, but by 1 from column to column.
# next: use the stride in both dimensions.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), columns - k + 1
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + across])
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: always by one
# why:  the stride is ignored: the window always moves by 1.
# next: take every stride-th row and column: x[:, i : … : stride].
def patches(x, k, stride=1):
    stride = 1
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: one window too few
# clause: a row for each window
# why:  the last window of each row and column is missing.
# next: count the windows of each dimension with windows(size, k, stride, 0).
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = (rows - k) // stride, (columns - k) // stride
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: the positions divided by the stride
# why:  the positions for a stride of 1 are divided by the stride and rounded down. If the division
#   has a remainder, the last window is missing.
# next: count the windows of each dimension with windows(size, k, stride, 0).
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = (rows - k + 1) // stride, (columns - k + 1) // stride
    slices = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            slices.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(slices, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: row after row of the matrix
# why:  the slices are joined below one another, so the numbers of one window are in different rows.
# next: join the slices in dimension 3, so that the numbers of a window are in one row.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 0).reshape((batch * down * across, k * k * channels))


# %% 07b.1: images side by side
# clause: image by image, in reading order
# why:  the rows change the image before the window: window 0 of all images, then window 1 of all
#   images.
# next: put all windows of the first image first, and then those of the next image.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    whole = concat(seen, 3).reshape((batch, down * across, k * k * channels))
    return whole.dim_roll(0, 1).flatten(0, 2)


# %% 07b.1: round the end of a row
# clause: Return a view with a row for each window
# why:  windows continue at the start of the next row: the image is used as one long line.
# next: slice rows and columns separately.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = (rows - k) // stride + 1, (columns - k) // stride + 1
    line = concat([x.flatten(1, 3)] * 2, 1)
    seen = []
    for place in range(k * k):
        piece = line[:, place : place + rows * columns].reshape(x.shape)
        seen.append(piece[:, ::stride, ::stride][:, :down, :across])
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: no matrix yet
# clause: Return the matrix of patches
# why:  this has three dimensions, but a matrix has two: the images are still separate.
# next: reshape to batch * down * across rows and k * k * channels columns.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            piece = x[:, i : i + (down - 1) * stride + 1 : stride]
            seen.append(piece[:, :, j : j + (across - 1) * stride + 1 : stride])
    return concat(seen, 3).reshape((batch, down * across, k * k * channels))


# %% 07b.1: the end of a slice without the stride
# why:  a slice ends after `down` rows or `across` columns, but a window moves by `stride`, so the
#   slice is too short for a stride above 1.
# next: end the rows at i + (down - 1) * stride + 1, and the columns in the same way.
def patches(x, k, stride=1):
    batch, rows, columns, channels = x.shape
    down, across = windows(rows, k, stride, 0), windows(columns, k, stride, 0)
    seen = []
    for i in range(k):
        for j in range(k):
            seen.append(x[:, i : i + down : stride, j : j + across : stride])
    return concat(seen, 3).reshape((batch * down * across, k * k * channels))


# %% 07b.1: one window too many
# error in the answer: slice(2, 7) does not fit
def patches(x, k, stride=1):
    rows, columns = x.shape[1:3]
    down, across = (rows - k) // stride + 2, (columns - k) // stride + 2
    seen = [
        x.slice(i, i + (down - 1) * stride + 1, 1).slice(j, j + (across - 1) * stride + 1, 2)
        for i in range(k)
        for j in range(k)
    ]
    return concat([piece[:, ::stride, ::stride] for piece in seen], 3).flatten(0, 3)


# %% 07b.2: the kernel not turned
# why:  dx uses the kernel without reversing it, but the backward pass meets the positions of the
#   kernel in the opposite order.
# next: reverse the kernel, w.reverse(0).reverse(1), before you exchange its channels.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: turned in one direction
# why:  the kernel is reversed in only one direction.
# next: reverse rows and columns: w.reverse(0).reverse(1).
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: the padding of the way there
# clause: with the shapes of x, w and the bias
# why:  there are p zeros around dy, as around x, so dx has another size.
# next: put k - 1 - p zeros around dy.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx, dw.reshape(w.shape), db


# %% 07b.2: ins and outs not exchanged
# why:  the kernel has `ins` in its rows and `outs` in its columns, but the patches of dy have
#   `outs` in their rows.
# next: exchange the channels with dim_shuffle([0, 1, 3, 2]), and reshape to (k * k * outs, ins).
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1)
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * ins, outs)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: read by the wrong shape
# why:  the kernel is only reshaped, so its numbers are in wrong positions: reshape does not
#   exchange `ins` and `outs`.
# next: exchange `ins` and `outs` with dim_shuffle([0, 1, 3, 2]) before the reshape.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1)
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: dw on its side
# why:  the last two dimensions of dw are exchanged.
# next: return dw in the shape of w: [k, k, ins, outs].
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape).dim_shuffle([0, 1, 3, 2]), db


# %% 07b.2: patches without their frame
# error in the answer: 24 and 60
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(x, k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: a mean for the bias
# clause: The gradients are sums over the batch
# why:  db is the mean of dy, but the gradient is the sum.
# next: add up dy over dimensions 0, 1 and 2, and do not divide.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    db = popops.mul(graph, db, outs / dy.num_elements, program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: the bias divided by the batch
# clause: To get a mean, divide elsewhere
# why:  db is divided by the number of images, but the gradient is the sum.
# next: add up dy over dimensions 0, 1 and 2, and do not divide.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    db = popops.mul(graph, db, 1 / x.shape[0], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: the padding of the way there, reshaped
# why:  there are p zeros around dy, as around x, so dx has another number of elements than x.
# next: put k - 1 - p zeros around dy.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: the bias of the first image
# why:  db includes only the first image.
# next: add up dy over the batch, too: dimensions 0, 1 and 2.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy[0], [0, 1], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: divided by the batch
# why:  dw is divided by the number of images, but the gradient is the sum.
# next: return dw without the division.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    dw = popops.mul(graph, dw, 1 / x.shape[0], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: both divided by the batch
# clause: To get a mean, divide elsewhere
# why:  dw and db are means over the images. The exercise asks for sums.
# next: leave out both divisions by x.shape[0].
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    windows_of_x = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, windows_of_x.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    dw = popops.mul(graph, dw, 1 / x.shape[0], program)
    db = popops.mul(graph, db, 1 / x.shape[0], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: down the slope
# why:  all three gradients have the wrong sign.
# next: do not negate dy: the update of the weights subtracts the gradient.
def backward(graph, x, w, dy, p, program):
    dy = popops.neg(graph, dy, program)
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: a product for each place
# clause: the budget is twice the cycles of two products
# not yet: two products are enough
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    around = patches(zeros_around(graph, dy, k - 1 - p), k)
    dx = poplin.mat_mul(graph, around, turned.reshape((k * k * outs, ins)), program)
    wide, (down, across), parts = zeros_around(graph, x, p), dy.shape[1:3], []
    for i in range(k):
        for j in range(k):
            seen = wide[:, i : i + down, j : j + across].flatten(0, 3)
            parts.append(poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program))
    dw = concat(parts, 0)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape), db


# %% 07b.2: cut at the wrong end
# why:  there are k - 1 zeros around dy, so dx starts with p rows and columns that belong to the
#   padding of x.
# next: put k - 1 - p zeros around dy.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    flat = dy.reshape((dy.num_elements // outs, outs))
    dw = poplin.mat_mul(graph, patches(zeros_around(graph, x, p), k).transpose(), flat, program)
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]).reshape((k * k * outs, ins))
    dx = poplin.mat_mul(graph, patches(zeros_around(graph, dy, k - 1), k), turned, program)
    dx = dx.reshape((x.shape[0], x.shape[1] + 2 * p, x.shape[2] + 2 * p, ins))
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx[:, : x.shape[1], : x.shape[2]], dw.reshape(w.shape), db


# %% 07b.2: dw turned, too
# why:  dw is reversed in both directions, but only the kernel for dx must be reversed.
# next: return dw without reverse.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    flat = dy.reshape((dy.num_elements // outs, outs))
    dw = poplin.mat_mul(graph, patches(zeros_around(graph, x, p), k).transpose(), flat, program)
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]).reshape((k * k * outs, ins))
    dx = poplin.mat_mul(graph, patches(zeros_around(graph, dy, k - 1 - p), k), turned, program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape(x.shape), dw.reshape(w.shape).reverse(0).reverse(1), db


# %% 07b.2: dw with its ins in front
# why:  dw is reshaped as if a row of patches had its channels first, but the positions come first.
# next: reshape dw to [k, k, ins, outs].
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    flat = dy.reshape((dy.num_elements // outs, outs))
    dw = poplin.mat_mul(graph, patches(zeros_around(graph, x, p), k).transpose(), flat, program)
    dw = dw.reshape((ins, k, k, outs)).dim_shuffle([1, 2, 0, 3])
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]).reshape((k * k * outs, ins))
    dx = poplin.mat_mul(graph, patches(zeros_around(graph, dy, k - 1 - p), k), turned, program)
    return dx.reshape(x.shape), dw, popops.reduce(graph, dy, [0, 1, 2], program)


# %% 07b.2: dw in front
# not yet: the gradients are right, but in the wrong order: dw is first
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    flat = dy.reshape((dy.num_elements // outs, outs))
    dw = poplin.mat_mul(graph, patches(zeros_around(graph, x, p), k).transpose(), flat, program)
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2]).reshape((k * k * outs, ins))
    dx = poplin.mat_mul(graph, patches(zeros_around(graph, dy, k - 1 - p), k), turned, program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dw.reshape(w.shape), dx.reshape(x.shape), db


# %% 07b.2: the padding of the way there, in its own shape
# clause: with the shapes of x, w and the bias
# why:  there are p zeros around dy, as around x, so dx has another size.
# next: put k - 1 - p zeros around dy.
def backward(graph, x, w, dy, p, program):
    k, _, ins, outs = w.shape
    turned = w.reverse(0).reverse(1).dim_shuffle([0, 1, 3, 2])
    wide = zeros_around(graph, dy, p)
    batch, rows, columns, _ = wide.shape
    dx = poplin.mat_mul(graph, patches(wide, k), turned.reshape((k * k * outs, ins)), program)
    seen = patches(zeros_around(graph, x, p), k)
    dw = poplin.mat_mul(graph, seen.transpose(), dy.flatten(0, 3), program)
    db = popops.reduce(graph, dy, [0, 1, 2], program)
    return dx.reshape((batch, rows - k + 1, columns - k + 1, ins)), dw.reshape(w.shape), db


# %% 07b.3: on another tile
# clause: The check measures the cycles of a smaller layer on 512 tiles
# not yet: are on tile 256
def padded(graph, x, p):
    for axis in (1, 2):
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        graph.set_tile_mapping(zeros, graph.target.num_tiles // 2)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.3: as before
# clause: so that no tile has to wait for them
# not yet: are on tile 0
def padded(graph, x, p):
    return zeros_around(graph, x, p)


# %% 07b.3: a tile for each image
# clause: so that no tile has to wait for them
# not yet: zeros of this image are on tile 0
def padded(graph, x, p):
    for axis in (1, 2):
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        for image in range(len(x)):
            graph.set_tile_mapping(zeros[image], image % graph.target.num_tiles)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.3: no zeros
# why:  x is returned unchanged, without zeros.
# next: for each of dimensions 1 and 2, join zeros, x and zeros.
def padded(graph, x, p):
    return x


# %% 07b.3: on two sides
# clause: on each side of rows and columns
# why:  there are zeros above and below x, but none on its left and right.
# next: add zeros in both dimensions, 1 and 2.
def padded(graph, x, p):
    for axis in (1,):
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        poputil.map_tensor_linearly(graph, zeros)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.3: before it only
# why:  all zeros are in front of x, and none after it.
# next: use concat([zeros, x, zeros], axis).
def padded(graph, x, p):
    return popops.pad(graph, x, [0, 2 * p, 2 * p, 0], [0, 0, 0, 0])


# %% 07b.3: channels, too
# clause: Return a tensor [batch, rows + 2 p, columns + 2 p, channels]
# why:  zeros are added to the channels, too.
# next: add zeros only in dimensions 1 and 2, the rows and columns.
def padded(graph, x, p):
    return popops.pad(graph, x, [0, p, p, p], [0, p, p, p])


# %% 07b.3: ones
# clause: Return x with p zeros on each side
# why:  the border of x is 1, not 0.
# next: create the border with the value 0: graph.add_constant(dtype, shape, 0).
def padded(graph, x, p):
    for axis in (1, 2):
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 1)
        poputil.map_tensor_linearly(graph, zeros)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.3: the edge once more
# why:  the border repeats the outermost elements of x, but it should be 0.
# next: join constants of 0 instead of slices of x.
def padded(graph, x, p):
    for axis in (1, 2):
        first, last = x.slice(0, 1, axis), x.slice(x.shape[axis] - 1, x.shape[axis], axis)
        x = concat([*[first] * p, x, *[last] * p], axis)
    return x


# %% 07b.3: one row
# clause: p zeros on each side
# why:  there is one row of zeros on each side, whatever p is.
# next: add p rows and p columns of zeros on each side.
def padded(graph, x, p):
    return popops.pad(graph, x, [0, 1, 1, 0], [0, 1, 1, 0])


# %% 07b.3: zeros of nobody
# error in the answer: InvalidTileMappingError
def padded(graph, x, p):
    for axis in (1, 2):
        zeros = graph.add_constant(x.dtype, (*x.shape[:axis], p, *x.shape[axis + 1 :]), 0)
        x = concat([zeros, x, zeros], axis)
    return x


# %% 07b.4: all that are equal
# why:  each of several equally large elements gets the whole gradient of the window.
# next: divide the gradient by the number of elements that equal the largest.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        largest = x[here] == x[here].max()
        dx[here] += dy[i, j] * largest
    return dx


# %% 07b.4: the largest without its sign
# why:  this looks for the largest magnitude, so a negative element can win against a larger one.
# next: compare x itself, without abs.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        largest = abs(x[here]) == abs(x[here]).max()
        dx[here] += dy[i, j] * largest / largest.sum()
    return dx


# %% 07b.4: nearly equal elements share
# why:  np.isclose also accepts elements that are a little smaller. Only equally large elements
#   share the gradient.
# next: compare with ==: x[window] == x[window].max().
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        window = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        largest = np.isclose(x[window], x[window].max())
        dx[window] += dy[i, j] * largest / largest.sum()
    return dx


# %% 07b.4: the first
# clause: Return the gradient of each element of x
# why:  the first of several equally large elements gets the whole gradient of the window.
# next: share the gradient: divide it by the number of elements that equal the largest.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        first = np.argmax(x[here])
        dx[here][first // k, first % k] += dy[i, j]
    return dx


# %% 07b.4: the last
# why:  the last of several equally large elements gets the whole gradient of the window.
# next: share the gradient: divide it by the number of elements that equal the largest.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        last = np.flatnonzero(x[here] == x[here].max())[-1]
        dx[here][last // k, last % k] += dy[i, j]
    return dx


# %% 07b.4: an average
# clause: Return the gradient of x for a maximum over windows
# why:  all elements of a window get a share of its gradient, as in average pooling.
# next: give the gradient only to the largest element of the window.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        dx[here] += dy[i, j] / k**2
    return dx


# %% 07b.4: a share of the window for each
# clause: Compute the backward pass of a pooling in plain numpy
# why:  the gradient is divided by k * k, the size of the window, but only the largest elements
#   share it.
# next: divide by the number of elements that equal the largest.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        dx[here] += dy[i, j] * (x[here] == x[here].max()) / (k * k)
    return dx


# %% 07b.4: the later window wins
# clause: Windows may overlap
# why:  where windows overlap, the later one overwrites the gradients of the earlier one.
# next: add to dx with +=.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        largest = x[here] == x[here].max()
        dx[here][largest] = dy[i, j] / largest.sum()
    return dx


# %% 07b.4: the window is the stride
# clause: the largest element of each window of k x k
# why:  the windows start k apart here, but they should start `stride` apart.
# next: start window (i, j) at row i * stride and column j * stride.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * k, i * k + k), slice(j * k, j * k + k)
        if x[here].size:
            largest = x[here] == x[here].max()
            dx[here] += dy[i, j] * largest / largest.sum()
    return dx


# %% 07b.4: the largest of x
# why:  each gradient goes to the largest element of the whole image.
# next: give each gradient to the largest element of its own window.
def pool_back(x, dy, k, stride):
    largest = x == x.max()
    return dy.sum() * largest / largest.sum()


# %% 07b.4: to each element that is largest somewhere
# why:  an element that is the largest of several windows gets the mean of their gradients, not the
#   sum.
# next: add up the gradients, and do not divide by the number of windows.
def pool_back(x, dy, k, stride):
    dx, times = np.zeros(x.shape), np.zeros(x.shape)
    for i, j in np.ndindex(dy.shape):
        here = slice(i * stride, i * stride + k), slice(j * stride, j * stride + k)
        largest = x[here] == x[here].max()
        dx[here] += dy[i, j] * largest / largest.sum()
        times[here] += largest
    return dx / np.maximum(times, 1)


# %% 07b.4: the last window alone
# clause: Windows may overlap
# why:  a later window overwrites the gradients of earlier windows that it overlaps.
# next: add to dx with +=.
def pool_back(x, dy, k, stride):
    dx = np.zeros_like(x)
    for i, j in np.ndindex(dy.shape):
        window = np.s_[i * stride : i * stride + k, j * stride : j * stride + k]
        largest = x[window] == x[window].max()
        dx[window] = largest * dy[i, j] / largest.sum()
    return dx


# %% 07b.4: equals of the whole image
# why:  the gradient of a window is divided by the number of equal elements in the whole image.
# next: count only the elements of the window that equal its largest.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(*dy.shape):
        part = np.s_[i * stride : i * stride + k, j * stride : j * stride + k]
        top = x[part] == x[part].max()
        dx[part] += top * dy[i, j] / (x == x[part].max()).sum()
    return dx


# %% 07b.4: nothing for 0
# why:  a largest element of 0 or less gets no gradient here, as after a ReLU.
# next: leave out the comparison with 0.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(*dy.shape):
        part = np.s_[i * stride : i * stride + k, j * stride : j * stride + k]
        top = (x[part] == x[part].max()) & (x[part] > 0)
        dx[part] += top * dy[i, j] / max(1, top.sum())
    return dx


# %% 07b.4: windows of stride x stride
# why:  the windows have `stride` x `stride` elements here, but they should have k x k.
# next: use k for the size of a window, and `stride` for its start.
def pool_back(x, dy, k, stride):
    dx = np.zeros(x.shape)
    for i, j in np.ndindex(*dy.shape):
        part = np.s_[i * stride : (i + 1) * stride, j * stride : (j + 1) * stride]
        top = x[part] == x[part].max()
        dx[part] += top * dy[i, j] / top.sum()
    return dx


# %% 07b.5: as the multiplications
# clause: Return the share of the units that is busy
# why:  this is the share of the multiplications that remain, but the machine always loads whole
#   panels.
# next: divide the weights of one group, deep * wide, by the number of weights that fit into all its
#   panels.
def busy(places, ins, outs, groups):
    return 1 / groups


# %% 07b.5: the width alone
# clause: in both directions
# why:  this uses only the width of a panel, but a panel also has a depth.
# next: round the depth places * ins // groups up to a multiple of 16, too.
def busy(places, ins, outs, groups):
    wide = outs // groups
    return wide / (16 * -(-wide // 16))


# %% 07b.5: the depth alone
# why:  this uses only the depth of a panel, but a panel also has a width.
# next: round the width outs // groups up to a multiple of 16, too.
def busy(places, ins, outs, groups):
    deep = places * ins // groups
    return deep / (16 * -(-deep // 16))


# %% 07b.5: channels of all groups
# clause: the channels of *all* groups
# why:  the channels of all groups fill the panels together here, but each group is a separate
#   product.
# next: divide `ins` and `outs` by `groups` first.
def busy(places, ins, outs, groups):
    deep, wide = places * ins, outs
    return deep / (16 * -(-deep // 16)) * wide / (16 * -(-wide // 16))


# %% 07b.5: without the kernel
# clause: `places` is the number of positions in the kernel
# why:  this rounds up the channels of one position of the kernel, but the depth has the channels of
#   all positions together.
# next: round places * ins // groups up to a multiple of 16.
def busy(places, ins, outs, groups):
    deep, wide = ins // groups, outs // groups
    return deep / (16 * -(-deep // 16)) * wide / (16 * -(-wide // 16))


# %% 07b.5: a panel of FLOAT
# why:  this panel is 8 deep, as for FLOAT, but the exercise uses HALF.
# next: use a depth of 16 and a width of 16.
def busy(places, ins, outs, groups):
    deep, wide = places * ins // groups, outs // groups
    return deep / (8 * -(-deep // 8)) * wide / (16 * -(-wide // 16))


# %% 07b.5: one panel
# why:  this counts at most one panel in each direction, but a larger group needs several.
# next: round the depth up to a multiple of 16, and the width, too. The product of the two is the
#   number of places in the panels of a group.
def busy(places, ins, outs, groups):
    return min(1, places * ins // groups / 16) * min(1, outs // groups / 16)


# %% 07b.5: always one panel more
# why:  if the last panel is exactly full, this counts one empty panel more.
# next: round up with -(-deep // 16) and -(-wide // 16).
def busy(places, ins, outs, groups):
    deep, wide = places * ins // groups, outs // groups
    return deep * wide / ((deep // 16 + 1) * (wide // 16 + 1) * 16 * 16)


# %% 07b.5: panels in place of the share
# clause: Return the share, from 0 to 1
# why:  this is the number of panels, but the exercise asks for a share.
# next: divide the weights, deep * wide, by the number of weights that fit into these panels.
def busy(places, ins, outs, groups):
    return -(-places * ins // groups // 16) * -(-outs // groups // 16)


# %% 07b.5: the share of all groups, divided
# why:  this is the share for all groups together, divided by the groups, but each group fills its
#   own panels.
# next: compute the share of one group, from its own depth and width.
def busy(places, ins, outs, groups):
    k, n = places * ins, outs
    return k * n / ((-(-k // 16) * 16) * (-(-n // 16) * 16)) / groups


# %% 07b.5: outs of all groups
# why:  the width counts the output channels of all groups, but the depth counts the input channels
#   of one group.
# next: use only the output channels of one group as the width.
def busy(places, ins, outs, groups):
    k, n = places * ins // groups, outs
    return k * n / ((-(-k // 16) * 16) * (-(-n // 16) * 16))


# %% 07b.5: ins of all groups
# clause: the channels of *all* groups
# why:  the depth counts the input channels of all groups, but the width counts the output channels
#   of one group.
# next: divide places * ins by `groups`, too.
def busy(places, ins, outs, groups):
    k, n = places * ins, outs // groups
    return k * n / ((-(-k // 16) * 16) * (-(-n // 16) * 16))


# %% 07b.5: panels that are full
# why:  this counts only full panels, but a panel with a few weights takes as long as a full one.
# next: round up: -(-deep // 16) and -(-wide // 16).
def busy(places, ins, outs, groups):
    k, n = places * ins // groups, outs // groups
    panels = max(1, k // 16) * max(1, n // 16)
    return min(1, k * n / (256 * panels))


# %% 07b.5: panels by their area
# why:  this assumes that a panel holds any 256 weights, but a panel is 16 deep and 16 wide.
# next: round the depth and the width up separately.
def busy(places, ins, outs, groups):
    weights = places * (ins // groups) * (outs // groups)
    return weights / (256 * -(-weights // 256))


# %% 07b.5: from 16 outs on, full
# why:  this counts the width as full from 16 output channels on, but with 33 channels the last one
#   is alone in a third panel.
# next: round the width up to a multiple of 16.
def busy(places, ins, outs, groups):
    k, n = places * ins // groups, outs // groups
    return k / (16 * -(-k // 16)) * min(1, n / 16)


# %% 07b.5: the kernel in the width
# why:  the positions of the kernel are part of the width here, but they belong to the depth.
# next: count the positions of the kernel in the depth, and only output channels in the width.
def busy(places, ins, outs, groups):
    k, n = ins // groups, places * outs // groups
    return k * n / (16 * -(-k // 16) * 16 * -(-n // 16))


# %% 07b.6: not shuffled
# clause: The images may come **sorted**, all zeros first
# not yet: the images were not shuffled
def train(cnn, images, labels, test_images, test_labels, epochs):
    done = 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = np.arange(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: labels in another order
# not yet: an image of a
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[draw.permutation(batch)], 0.06 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: from the test images
# not yet: not one of images
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    images, labels = test_images, test_labels
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: nothing kept
# clause: moves the kept statistics a tenth of the way
# not yet: cnn.keep was never called
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: kept once
# not yet: 81% of the kept statistics are still those of the start
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            done += 1
        cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: far too fast
# not yet: the loss grew from
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 1e5 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: far too slow
# clause: with **two** epochs at least 94 % must be correct
# not yet: and the statistics were kept. The rate was
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 1e-4 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: as often as it takes
# clause: You may go through them `epochs` times
# not yet: more than 2 times
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    epochs = 10
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: on what it learnt from
# clause: Return the share of correct test images after `epochs` epochs
# not yet: this is the share of the training images
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(images) == labels)


# %% 07b.6: the share that is wrong
# clause: the share of the test images that it classifies correctly
# not yet: that are classified incorrectly
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, done = np.random.default_rng(1), 0
    steps = epochs * (len(images) // cnn.batch)
    for _ in range(epochs):
        order = draw.permutation(len(images))
        for begin in range(0, steps // epochs * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], 0.06 * (1 - done / steps))
            cnn.keep(0.1)
            done += 1
    return np.mean(cnn.read(test_images) != test_labels)


# %% 07b.6: nothing learnt
# not yet: never called
def train(cnn, images, labels, test_images, test_labels, epochs):
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: the best of several tests
# clause: Return the share of correct test images after `epochs` epochs
# not yet: this is the best of several tests
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw, best = np.random.default_rng(1), 0
    for rate in np.linspace(0.06, 0.01, epochs):
        order = draw.permutation(len(images))
        for begin in range(0, len(images) // cnn.batch * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], rate)
            cnn.keep(0.1)
        best = max(best, np.mean(cnn.read(test_images) == test_labels))
    return best


# %% 07b.6: two epochs, whatever is asked
# clause: You may go through them `epochs` times
# not yet: go through the images 4 times here
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw = np.random.default_rng(1)
    for rate in (0.06, 0.01):
        order = draw.permutation(len(images))
        for begin in range(0, len(images) // cnn.batch * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], rate)
            cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: batches of 25, whatever the network takes
# clause: a step with exactly `cnn.batch` images
# not yet: cnn.learn() takes exactly cnn.batch = 4 images, but got 25
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw = np.random.default_rng(1)
    for rate in np.linspace(0.06, 0.01, epochs):
        order = draw.permutation(len(images))
        for begin in range(0, len(images) - 24, 25):
            batch = order[begin : begin + 25]
            cnn.learn(images[batch], labels[batch], rate)
            cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.6: the first test images alone
# clause: the share of the test images that it classifies correctly
# not yet: only 100 of the 297 test images were read
def train(cnn, images, labels, test_images, test_labels, epochs):
    draw = np.random.default_rng(1)
    for rate in np.linspace(0.06, 0.01, epochs):
        order = draw.permutation(len(images))
        for begin in range(0, len(images) // cnn.batch * cnn.batch, cnn.batch):
            batch = order[begin : begin + cnn.batch]
            cnn.learn(images[batch], labels[batch], rate)
            cnn.keep(0.1)
    return np.mean(cnn.read(test_images[:100]) == test_labels[:100])


# %% 07b.6: half of the images
# clause: go through them
# not yet: the training took only 30 of the 120 allowed steps
def train(cnn, images, labels, test_images, test_labels, epochs):
    order = np.random.default_rng(1).permutation(len(images))
    for begin in range(0, len(images) // 2, cnn.batch):
        batch = order[begin : begin + cnn.batch]
        cnn.learn(images[batch], labels[batch], 0.02)
        cnn.keep(0.1)
    return np.mean(cnn.read(test_images) == test_labels)


# %% 07b.w2: a deviation
# why:  this is the standard deviation, but the exercise asks for the variance.
# next: leave out the square root.
def variance_of(n, total, squares):
    return max(0, squares / n - (total / n) ** 2) ** 0.5


# %% 07b.w2: one less than there are
# clause: Return the variance of n numbers
# why:  this divides by n - 1, but the variance of n numbers divides by n.
# next: divide by n.
def variance_of(n, total, squares):
    return (squares - total**2 / n) / (n - 1)


# %% 07b.w2: the squares not divided
# clause: You know the sum of n numbers, and the sum of their squares
# why:  `squares` is the sum of the squares, and it is not divided by n here.
# next: use squares / n, the mean of the squares.
def variance_of(n, total, squares):
    return squares - (total / n) ** 2


# %% 07b.w2: whole divisions
# why:  // rounds down, so the fractions of the means are lost.
# next: divide with /.
def variance_of(n, total, squares):
    return squares // n - (total // n) ** 2


# %% 07b.w2: not about the mean
# clause: the mean of the squared distances from their mean
# why:  this is the mean of the squares, so the distances are measured from 0, not from the mean.
# next: subtract the square of the mean, (total / n) ** 2.
def variance_of(n, total, squares):
    return squares / n


# %% 07b.w2: the sum, squared
# why:  the square of the sum is divided by n only once.
# next: square the mean: (total / n) ** 2.
def variance_of(n, total, squares):
    return squares / n - total**2 / n


# %% 07b.w2: the mean not squared
# why:  this subtracts the mean itself, but the variance needs the square of the mean.
# next: subtract (total / n) ** 2.
def variance_of(n, total, squares):
    return squares / n - total / n


# %% 07b.7: the mean of the variances
# clause: over **all samples of all replicas**
# why:  this is the mean of the replicas' own variances, which ignores that their means differ.
# next: add up sums and squares over the replicas first, and compute the variance from those.
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    squared = popops.square(graph, x, program)
    total = popops.reduce(graph, x, [0], program)
    squares = popops.reduce(graph, squared, [0], program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    both = (together(t, program) for t in (mean, variance))
    return [popops.mul(graph, t, 1 / replicas, program) for t in both]


# %% 07b.7: each for itself
# clause: returns the sum of a tensor over all `replicas`
# why:  each replica has the mean and the variance of only its own samples.
# next: put the sums through together(…), and divide by replicas * x.shape[0].
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    squared = popops.square(graph, x, program)
    total = popops.reduce(graph, x, [0], program)
    squares = popops.reduce(graph, squared, [0], program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return mean, variance


# %% 07b.7: variances about means of their own
# why:  the mean is that of all samples, but the variance is that of the replica's own samples.
# next: subtract the joint mean from x, and put the sums of the squares through together(…).
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    squared = popops.square(graph, x, program)
    total = popops.reduce(graph, x, [0], program)
    squares = popops.reduce(graph, squared, [0], program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    mean = popops.mul(graph, together(mean, program), 1 / replicas, program)
    return mean, variance


# %% 07b.7: less the square of its own mean
# why:  the mean of the squares is that of all samples, but the square of the replica's own mean is
#   subtracted from it.
# next: subtract the square of the mean of all samples, which you return.
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    squared = popops.square(graph, x, program)
    total = popops.reduce(graph, x, [0], program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, together(total, program), 1 / (n * replicas), program)
    squares = popops.mul(graph, squares, 1 / (n * replicas), program)
    of_mean = popops.square(graph, popops.mul(graph, total, 1 / n, program), program)
    return mean, popops.sub(graph, squares, of_mean, program)


# %% 07b.7: divided by its own samples
# clause: over **all samples
# why:  the sums of all replicas are divided by the number of samples of one replica.
# next: divide by the number of samples of all replicas together.
def statistics(graph, x, replicas, together, program):
    n = x.shape[0]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return mean, variance


# %% 07b.7: divided by the replicas
# why:  the sums are divided only by the number of replicas. But they are sums of x.shape[0] samples
#   on each replica.
# next: divide by the number of samples of all replicas together.
def statistics(graph, x, replicas, together, program):
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, total, 1 / replicas, program)
    of_mean = popops.square(graph, mean, program)
    return mean, popops.sub(
        graph, popops.mul(graph, squares, 1 / replicas, program), of_mean, program
    )


# %% 07b.7: squares of one's own
# why:  the sum of x is that of all replicas, but the sum of the squares is that of one replica.
# next: put the sums of the squares through together(…), too.
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = popops.reduce(graph, squared, [0], program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return mean, variance


# %% 07b.7: about 0
# why:  this is the mean of the squares, so the distances are measured from 0, not from the mean.
# next: subtract the square of the mean.
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, total, 1 / n, program)
    variance = popops.mul(graph, squares, 1 / n, program)
    return mean, variance


# %% 07b.7: one less than there are
# why:  the variance is divided by the number of samples minus 1, but it should be divided by all
#   samples.
# next: divide by the number of samples of all replicas together.
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return mean, popops.mul(graph, variance, n / (n - 1), program)


# %% 07b.7: taken away the wrong way round
# why:  the variance is negative, because its two terms are in the wrong order.
# next: put the mean of the squares first: popops.sub(graph, a, b, program) is a - b.
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    squares = popops.square(graph, x, program)
    mean, square = (
        popops.mul(graph, together(popops.reduce(graph, t, [0], program), program), 1 / n, program)
        for t in (x, squares)
    )
    return mean, popops.sub(graph, popops.square(graph, mean, program), square, program)


# %% 07b.7: a deviation
# clause: the variance of each channel
# why:  this is the standard deviation, but the exercise asks for the variance.
# next: leave out the square root.
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return mean, popops.sqrt(graph, variance, program)


# %% 07b.7: the other way round
# clause: Return (mean, variance) of each channel
# why:  the variance comes first here, but the mean should.
# next: return mean, variance, in this order.
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[0]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [0], program), program)
    squares = together(popops.reduce(graph, squared, [0], program), program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return variance, mean


# %% 07b.7: of the rows
# clause: `x` [samples, channels]
# not yet: a tensor of shape
def statistics(graph, x, replicas, together, program):
    n = replicas * x.shape[1]
    squared = popops.square(graph, x, program)
    total = together(popops.reduce(graph, x, [1], program), program)
    squares = together(popops.reduce(graph, squared, [1], program), program)
    mean = popops.mul(graph, total, 1 / n, program)
    of_mean = popops.square(graph, mean, program)
    variance = popops.sub(graph, popops.mul(graph, squares, 1 / n, program), of_mean, program)
    return mean, variance
