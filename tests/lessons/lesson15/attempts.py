


# %% given
"""Mistakes of lesson 15 written otherwise."""

import numpy as np

from ipu_teach import FLOAT, Input, Output, Vector, Vertex


# %% 15.w1: lam first
# passed: sets of numbers
def information(mean, variance):
    lam = variance**-1
    return np.array([lam * mean, lam])


# %% 15.w1: one thing after another
# like: the variance as it is
def information(mean, variance):
    eta = mean * variance**-1
    return [eta, variance]


# %% 15.w1: divided by the root
# like: by the standard deviation
def information(mean, variance):
    deviation = np.sqrt(variance)
    return [mean / deviation, 1 / deviation]


# %% 15.1: by covariances
# passed: 18 products
def fused(etas, lams, keep):
    spread = np.linalg.inv(sum(lams))
    mean = spread @ sum(etas)
    lam = np.linalg.inv(spread[:keep, :keep])
    return lam @ mean[:keep], lam


# %% 15.1: by solve
# passed: 18 products
def fused(etas, lams, keep):
    eta, lam = np.sum(etas, 0), np.sum(lams, 0)
    rest = np.linalg.solve(lam[keep:, keep:], np.column_stack([lam[keep:, :keep], eta[keep:]]))
    left = lam[:keep, keep:] @ rest
    return [eta[:keep] - left[:, -1], lam[:keep, :keep] - left[:, :-1]]


# %% 15.1: one variable forgotten after the other
# passed: 18 products
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    while len(eta) > keep:
        share = lam[:-1, -1] / lam[-1, -1]
        eta, lam = eta[:-1] - share * eta[-1], lam[:-1, :-1] - np.outer(share, lam[-1, :-1])
    return eta, lam


# %% 15.1: covariances in a loop
# like: covariances added
def fused(etas, lams, keep):
    spread = np.zeros_like(lams[0])
    for lam in lams:
        spread = spread + np.linalg.inv(lam)
    mean = spread @ np.sum(etas, axis=0)
    lam = np.linalg.inv(spread[:keep, :keep])
    return lam @ mean[:keep], lam


# %% 15.1: cut out first, then added
# like: rows and columns cut out
def fused(etas, lams, keep):
    eta, lam = np.zeros(keep), np.zeros((keep, keep))
    for k in range(len(etas)):
        eta, lam = eta + etas[k][:keep], lam + lams[k][:keep, :keep]
    return eta, lam


# %% 15.1: by covariances, and not turned back
# like: mean and covariance
def fused(etas, lams, keep):
    lam = sum(lams)
    mean = np.linalg.solve(lam, sum(etas))
    return mean[:keep], np.linalg.inv(lam)[:keep, :keep]


# %% 15.1: divided by how many there are
# like: an average
def fused(etas, lams, keep):
    spread = np.linalg.inv(sum(lams) / len(lams))
    mean = spread @ sum(etas) / len(etas)
    lam = np.linalg.inv(spread[:keep, :keep])
    return lam @ mean[:keep], lam


# %% 15.1: changed places
# like: lam first
def fused(etas, lams, keep):
    eta, lam = np.sum(etas, axis=0), np.sum(lams, axis=0)
    inv = np.linalg.inv(lam[keep:, keep:])
    ab = lam[:keep, keep:]
    return lam[:keep,:keep] - ab @ inv @ ab.T, eta[:keep] - ab @ inv @ eta[keep:]


# %% 15.1: each inverted by itself
# clause: One of the Gaussians may have no information, and is all zeros
# error in the answer: Singular matrix
def fused(etas, lams, keep):
    means = [np.linalg.inv(lam) @ eta for eta, lam in zip(etas, lams, strict=True)]
    eta = sum(lam @ mean for lam, mean in zip(lams, means, strict=True))
    lam = lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: marginals multiplied
# like: forgotten before the product
def fused(etas, lams, keep):
    eta, lam = np.zeros(keep), np.zeros((keep, keep))
    for e, l in zip(etas, lams):
        solved = np.linalg.pinv(l[keep:, keep:])
        eta = eta + e[:keep] - l[:keep, keep:] @ (solved @ e[keep:])
        lam = lam + l[:keep, :keep] - l[:keep, keep:] @ (solved @ l[keep:, :keep])
    return eta, lam


# %% 15.2: as arrays
# passed: four trees
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        total = self.prior + self.came.sum(axis=0)
        self.sent = total - self.came
        self.belief[0] = total[0] / total[1]
        self.belief[1] = 1 / total[1]


# %% 15.2: side by side
# passed: four trees
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        for part in range(2):
            total = self.prior[part]
            for side in range(len(self.came)):
                total += self.came[side, part]
            for side in range(len(self.came)):
                self.sent[side, part] = total - self.came[side, part]
        lam = self.prior[1] + self.came[:, 1].sum()
        self.belief[0] = (self.prior[0] + self.came[:, 0].sum()) / lam
        self.belief[1] = 1 / lam


# %% 15.2: the others, each time
# passed: four trees
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        for side in range(len(self.came)):
            eta, lam = self.prior[0], self.prior[1]
            for other in range(len(self.came)):
                if other != side:
                    eta += self.came[other][0]
                    lam += self.came[other][1]
            self.sent[side][0] = eta
            self.sent[side][1] = lam
        lam = self.prior[1] + self.came[:, 1].sum()
        self.belief[0] = (self.prior[0] + self.came[:, 0].sum()) / lam
        self.belief[1] = 1 / lam


# %% 15.2: as arrays
# like: its own message included
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        total = self.prior + self.came.sum(axis=0)
        for side in range(len(self.came)):
            self.sent[side] = total
        self.belief[0] = total[0] / total[1]
        self.belief[1] = 1 / total[1]


# %% 15.2: the prior added last
# like: without its prior
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        total = self.came.sum(axis=0)
        self.sent = total - self.came
        total = total + self.prior
        self.belief[0] = total[0] / total[1]
        self.belief[1] = 1 / total[1]


# %% 15.2: the sums as they are
# like: eta and lam for a belief
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        total = self.prior + self.came.sum(axis=0)
        self.sent = total - self.came
        self.belief = total


# %% 15.2: lam in its own loop
# like: lam is not taken away
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta = self.prior[0] + self.came[:, 0].sum()
        lam = self.prior[1] + self.came[:, 1].sum()
        self.sent[:, 0] = eta - self.came[:, 0]
        for side in range(len(self.came)):
            self.sent[side, 1] = lam
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: the belief in information form
# like: lam for the variance
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = self.prior[0], self.prior[1]
        for side in range(len(self.came)):
            eta += self.came[side][0]
            lam += self.came[side][1]
        for side in range(len(self.came)):
            self.sent[side][0] = eta - self.came[side][0]
            self.sent[side][1] = lam - self.came[side][1]
        self.belief[1] = lam
        self.belief[0] = eta / lam


# %% 15.w2: by a condition
# passed: sets of numbers
def pulls(apart, stiff, far):
    if -far <= apart <= far:
        return stiff
    return stiff * far / abs(apart)


# %% 15.w2: the way of the sign
# like: the sign of apart
def pulls(apart, stiff, far):
    return stiff * far / apart if apart > far else stiff


# %% 15.w2: sharp beyond 2 * far
# not yet: pulls(-0.6, 4, 0.5)
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= 2 * far else stiff * far / abs(apart)


# %% 15.w2: min of one
# passed: sets of numbers
def pulls(apart, stiff, far):
    return stiff * min(1, far / abs(apart)) if apart else stiff


# %% 15.w2: strictly below far
# passed: sets of numbers
def pulls(apart, stiff, far):
    return stiff * far / max(far, abs(apart))


# %% 15.3: by a condition
# passed: an image
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        apart = abs(self.mean_a - self.mean_b)
        pull = self.stiff
        if apart > self.far:
            pull = self.stiff * self.far / apart
        for part in range(2):
            self.to_b[part] = self.from_a[part] * pull / (pull + self.from_a[1])
            self.to_a[part] = self.from_b[part] * pull / (pull + self.from_b[1])


# %% 15.3: the smaller of two
# passed: an image
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        apart = np.maximum(np.abs(self.mean_b - self.mean_a), 1e-20)
        pull = self.stiff * np.minimum(1.0, self.far / apart)
        self.to_b[:] = pull * self.from_a / (pull + self.from_a[1])
        self.to_a[:] = pull * self.from_b / (pull + self.from_b[1])


# %% 15.3: lam as two springs in a row
# passed: an image
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        pull = self.stiff * self.far / max(self.mean_a - self.mean_b, self.mean_b - self.mean_a, self.far)
        lam = 1 / (1 / pull + 1 / self.from_a[1])
        self.to_b[0] = lam * self.from_a[0] / self.from_a[1]
        self.to_b[1] = lam
        lam = 1 / (1 / pull + 1 / self.from_b[1])
        self.to_a[0] = lam * self.from_b[0] / self.from_b[1]
        self.to_a[1] = lam


# %% 15.3: number by number
# like: it never gives way
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        for part in range(2):
            self.to_b[part] = self.stiff * self.from_a[part] / (self.stiff + self.from_a[1])
            self.to_a[part] = self.stiff * self.from_b[part] / (self.stiff + self.from_b[1])


# %% 15.3: a condition on a sign
# like: the sign of the difference
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        pull = self.stiff
        if self.mean_a - self.mean_b > self.far:
            pull = self.stiff * self.far / (self.mean_a - self.mean_b)
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: exchanged names
# like: back to the sender
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        pull = self.stiff
        if abs(self.mean_a - self.mean_b) > self.far:
            pull = self.stiff * self.far / abs(self.mean_a - self.mean_b)
        for part in range(2):
            self.to_a[part] = pull * self.from_a[part] / (pull + self.from_a[1])
            self.to_b[part] = pull * self.from_b[part] / (pull + self.from_b[1])


# %% 15.3: a square root away
# like: squared
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        ratio = np.minimum(1, self.far / np.maximum(abs(self.mean_a - self.mean_b), 1e-20))
        pull = self.stiff * ratio * ratio
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: with an if
# passed: and an image
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        gap = abs(self.mean_a - self.mean_b)
        pull = self.stiff
        if gap > self.far:
            pull = self.stiff * self.far / gap
        for k in range(2):
            self.to_b[k] = self.from_a[k] * pull / (pull + self.from_a[1])
            self.to_a[k] = self.from_b[k] * pull / (pull + self.from_b[1])


# %% 15.3: the force for the stiffness
# like: the force
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        gap = abs(self.mean_a - self.mean_b)
        pull = self.stiff * gap
        if gap > self.far:
            pull = self.stiff * self.far
        for k in range(2):
            self.to_b[k] = self.from_a[k] * pull / (pull + self.from_a[1])
            self.to_a[k] = self.from_b[k] * pull / (pull + self.from_b[1])


# %% 15.3: silent after 100 rounds
# not yet: self.rounds is state, which keeps its value between runs
from ipu_teach import INT


class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]
    rounds: INT = 0

    def compute(self):
        self.rounds += 1
        apart = abs(self.mean_a - self.mean_b)
        pull = self.stiff
        if apart > self.far:
            pull = self.stiff * self.far / apart
        if self.rounds > 100:
            pull = pull / 8
        for part in range(2):
            self.to_b[part] = self.from_a[part] * pull / (pull + self.from_a[1])
            self.to_a[part] = self.from_b[part] * pull / (pull + self.from_b[1])


# %% 15.4: a factor with its second pixel
# passed: 7 images
def place(height, width, tiles, most):
    found = []
    for down in range(1, tiles + 1):
        if tiles % down:
            continue
        across = tiles // down
        pixels = np.array([[r * down // height * across + c * across // width for c in range(width)]
                           for r in range(height)])
        if np.unique(pixels, return_counts=True)[1].max() <= most:
            cut = (np.diff(pixels, axis=0) != 0).sum() + (np.diff(pixels, axis=1) != 0).sum()
            found.append((cut, down, pixels))
    pixels = min(found, key=lambda one: one[:2])[2]
    return pixels, pixels[:, 1:], pixels[1:]


# %% 15.4: lists
# passed: 7 images
def place(height, width, tiles, most):
    def cut(parts):
        rows = np.arange(height) * parts // height
        columns = np.arange(width) * (tiles // parts) // width
        return rows[:, None] * (tiles // parts) + columns

    ways = [cut(parts) for parts in range(1, tiles + 1) if tiles % parts == 0]
    ways = [way for way in ways if np.bincount(way.ravel()).max() <= most]
    cuts = [sum(np.count_nonzero(np.diff(way, axis=axis)) for axis in (0, 1)) for way in ways]
    way = ways[int(np.argmin(cuts))]
    return [way.tolist(), way[:, :-1].tolist(), way[:-1].tolist()] if height > 1 else (
        way, way[:, :-1], way[:-1])


# %% 15.4: blocks of blocks
# passed: 7 images
def place(height, width, tiles, most):
    def pieces(size, parts):
        return np.repeat(np.arange(parts), [len(p) for p in np.array_split(np.arange(size), parts)])

    best = None
    for parts in range(1, tiles + 1):
        if tiles % parts:
            continue
        pixels = pieces(height, parts)[:, None] * (tiles // parts) + pieces(width, tiles // parts)
        used = min(parts, height) - 1, min(tiles // parts, width) - 1
        cut = used[0] * width + used[1] * height
        if np.bincount(pixels.ravel()).max() <= most and (best is None or cut < best[0]):
            best = cut, pixels
    return best[1], best[1][:, :-1], best[1][:-1]


# %% 15.4: round and round
# like: at random
def place(height, width, tiles, most):
    pixels = np.arange(height * width).reshape(height, width) % tiles
    return pixels, pixels[:, 1:], pixels[1:]


# %% 15.4: hints
# passed: 7 images
def place(height, width, tiles, most):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    best = None
    for down, across in ways:
        rows = np.arange(height) * down // height
        columns = np.arange(width) * across // width
        pixels = rows[:, None] * across + columns
        if np.bincount(pixels.ravel()).max() > most:
            continue
        cut = (np.diff(pixels, axis=0) != 0).sum() + (np.diff(pixels, axis=1) != 0).sum()
        if best is None or cut < best[0]:
            best = cut, pixels
    pixels = best[1]
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: squarest
# not yet: each tile has at most one pixel
def place(height, width, tiles, most):
    ways = [(d, tiles // d) for d in range(1, tiles + 1) if tiles % d == 0]
    down, across = min(ways, key=lambda w: (w[0] - 1) * width + (w[1] - 1) * height)
    rows = np.arange(height) * down // height
    columns = np.arange(width) * across // width
    pixels = rows[:, None] * across + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: empty blocks at the end
# passed: 7 images
def place(height, width, tiles, most):
    best = None
    for down in range(1, tiles + 1):
        if tiles % down:
            continue
        across = tiles // down
        h, w = -(-height // down), -(-width // across)
        rows, columns = np.arange(height) // h, np.arange(width) // w
        pixels = rows[:, None] * across + columns
        if np.bincount(pixels.ravel()).max() > most:
            continue
        cut = (np.diff(pixels, axis=0) != 0).sum() + (np.diff(pixels, axis=1) != 0).sum()
        if best is None or cut < best[0]:
            best = cut, pixels
    pixels = best[1]
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: right and down exchanged
# clause: Return (pixels, right, down)
# not yet: right: the shape (11, 12)
def place(height, width, tiles, most):
    best = None
    for parts in range(1, tiles + 1):
        if tiles % parts == 0:
            rows, columns = np.arange(height) * parts // height, np.arange(width)
            columns = columns * (tiles // parts) // width
            pixels = rows[:, None] * (tiles // parts) + columns
            cut = width * np.count_nonzero(np.diff(rows))
            cut += height * np.count_nonzero(np.diff(columns))
            if np.bincount(pixels.ravel()).max() <= most and (best is None or cut < best[0]):
                best = cut, pixels
    pixels = best[1]
    return pixels, pixels[:-1], pixels[:, :-1]


# %% 15.4: tiles that are no whole numbers
# clause: return three arrays of whole numbers
# not yet: (12, 12) of float64
def place(height, width, tiles, most):
    best = None
    for parts in range(1, tiles + 1):
        if tiles % parts == 0:
            rows, columns = np.arange(height) * parts // height, np.arange(width)
            columns = columns * (tiles // parts) // width
            pixels = rows[:, None] * (tiles // parts) + columns
            cut = width * np.count_nonzero(np.diff(rows))
            cut += height * np.count_nonzero(np.diff(columns))
            if np.bincount(pixels.ravel()).max() <= most and (best is None or cut < best[0]):
                best = cut, pixels
    pixels = best[1] + 0.25
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: lists, and factors on the right
# passed: images
def place(height, width, tiles, most):
    ways = []
    for down in (down for down in range(1, tiles + 1) if tiles % down == 0):
        across = tiles // down
        rows, columns = np.arange(height) * down // height, np.arange(width) * across // width
        pixels = rows[:, None] * across + columns
        if np.bincount(pixels.ravel()).max() <= most:
            borders = (pixels[1:] != pixels[:-1]).sum() + (pixels[:, 1:] != pixels[:, :-1]).sum()
            ways.append((borders, down, pixels))
    pixels = min(ways, key=lambda way: way[:2])[2]
    return [pixels.tolist(), pixels[:, 1:].tolist(), pixels[1:].tolist()]


# %% 15.5: by the library
# passed: equal results
paragraph = """Each piece needs both of its neighbours in every step. Dealt out like cards they
lay elsewhere; in one piece a tile they are at hand, but for two of them."""



def popops_linear(graph, rod):
    graph.set_tile_mapping(rod, [[(12 * tile, 12 * tile + 12)] for tile in range(13)])


def faster(target):
    return rod(target, popops_linear)


# %% 15.5: a pair, run before
# passed: equal results
paragraph = """Each piece needs both of its neighbours in every step. Dealt out like cards they
lay elsewhere; in one piece a tile they are at hand, but for two of them."""



def in_twelves(graph, rod):
    for piece in range(156):
        graph.set_tile_mapping(rod[piece], piece // 12)


faster = rod(IPUModel("ipu2", tiles_per_ipu=13).create_device().target, in_twelves)


# %% 15.5: results of another kind
# passed: equal results; 25,128 modelled cycles before, 23,544 after
paragraph = """Each piece needs both of its neighbours in every step. Dealt out like cards they
lay elsewhere; in one piece a tile they are at hand, but for two of them."""



def faster(target):
    def in_twelves(graph, rod):
        graph.set_tile_mapping(rod, [[(12 * tile, 12 * tile + 12)] for tile in range(13)])

    report, results = rod(target, in_twelves)
    return [report, {"rod": results["rod"].astype(float).tolist()}]


# %% 15.5: a copy of the answer
# not yet: nothing is computed on the device
paragraph = "The pieces were dealt out like cards so that each piece had to fetch both of its neighbours from other tiles in every step and now nothing of it is computed."
def faster(target):
    _, results = before(target)
    graph = Graph(target)
    rod = graph.add_variable(FLOAT, (156,), "rod")
    out = graph.add_variable(FLOAT, (156,), "out")
    graph.set_tile_mapping(rod, 0)
    graph.set_tile_mapping(out, 0)
    graph.set_initial_value(rod, results["rod"])
    graph.create_host_read("rod", out)
    engine = Engine(graph, Copy(rod, out))
    engine.load_and_run(Device(target))
    return engine.report, {"rod": engine.read_tensor("rod")}


# %% 15.5: numpy beside an engine
# not yet: nothing is computed on the device
paragraph = "The pieces were dealt out like cards so that each piece had to fetch both of its neighbours from other tiles in every step and now nothing of it is computed."
def faster(target):
    _, results = before(target)
    graph = Graph(target)
    rod = graph.add_variable(FLOAT, (2,), "rod")
    graph.set_tile_mapping(rod, 0)
    engine = Engine(graph, Sequence())
    engine.load_and_run(Device(target))
    return engine.report, results


# %% 15.5: copied beside a vertex that does nothing for it
# not yet: 156 of 156 results are right without them
paragraph = "The pieces were dealt out like cards so that each piece had to fetch both of its neighbours from other tiles in every step and now nothing of it is computed."
def faster(target):
    _, results = before(target)
    graph, program = Graph(target), Sequence()
    kept = graph.add_variable(FLOAT, (156,), "kept")
    token = graph.add_variable(FLOAT, (1,), "token")
    graph.set_tile_mapping(kept, 0)
    graph.set_tile_mapping(token, 0)
    graph.set_initial_value(kept, results["rod"])
    graph.set_initial_value(token, 0)
    popops.map_in_place(graph, expr._1 + 1, [token], program)
    graph.create_host_read("rod", kept)
    engine = Engine(graph, program)
    engine.load_and_run(Device(target))
    return engine.report, {"rod": engine.read_tensor("rod")}


# %% 15.5: a vertex beside the results of before
# not yet: once more with vertices that do nothing
paragraph = "The pieces were dealt out like cards so that each piece had to fetch both of its neighbours from other tiles in every step and now nothing of it is computed."
def faster(target):
    graph, program = Graph(target), Sequence()
    token = graph.add_variable(FLOAT, (1,), "token")
    graph.set_tile_mapping(token, 0)
    graph.set_initial_value(token, 0)
    popops.map_in_place(graph, expr._1 + 1, [token], program)
    engine = Engine(graph, program)
    engine.load_and_run(Device(target))
    return engine.report, before(target)[1]


# %% 15.1: one over each of the diagonal
# like: divided by the diagonal
def fused(etas, lams, keep):
    e, l = etas.sum(axis=0), lams.sum(axis=0)
    g = np.einsum("ij,j->ij", l[:keep, keep:], 1 / l[keep:, keep:].diagonal())
    return e[:keep] - g @ e[keep:], l[:keep, :keep] - g @ l[keep:, :keep]


# %% 15.2: what came from the other of two sides
# clause: any number of sides
# not yet: this graph is wrong: a star: one variable and 5 around it, 3 rounds. next: write down, for one
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = self.prior[0], self.prior[1]
        for k in range(len(self.came)):
            eta += self.came[k][0]
            lam += self.came[k][1]
        for k in range(len(self.sent)):
            two = len(self.came) == 2
            self.sent[k][0] = self.prior[0] + (self.came[1 - k][0] if two else 0.0)
            self.sent[k][1] = self.prior[1] + (self.came[1 - k][1] if two else 0.0)
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: silent after 20 rounds
# not yet: self.rounds is state, which keeps its value between runs
from ipu_teach import INT


class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]
    rounds: INT = 0

    def compute(self):
        total = self.prior + self.came.sum(axis=0)
        self.sent = total - self.came
        self.rounds += 1
        lam = total[1]
        if self.rounds > 20:
            lam = self.prior[1]
        self.belief[0] = total[0] / lam
        self.belief[1] = 1 / lam


# %% 15.w2: cases the other way round
# like: near and far exchanged
def pulls(apart, stiff, far):
    if abs(apart) > far:
        return stiff
    return stiff * far / abs(apart)


# %% 15.w2: numpy computes both
# like: divided by 0
def pulls(apart, stiff, far):
    return np.where(abs(apart) <= far, stiff, stiff * far / abs(apart))


# %% 15.w2: a limit of the force
# like: a constant beyond far
def pulls(apart, stiff, far):
    if -far <= apart <= far:
        return stiff
    return far * stiff


# %% 15.1: lam cut out
# like: nothing left of lam
def fused(etas, lams, keep):
    lam = sum(lams)
    rest = np.linalg.solve(lam[keep:, keep:], sum(etas)[keep:])
    return sum(etas)[:keep] - lam[:keep, keep:] @ rest, sum(lam[:keep, :keep] for lam in lams)


# %% 15.2: a prior that nobody reads
# like: without the prior at all
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        total = self.came.sum(axis=0)
        self.sent = total - self.came
        self.belief[0] = total[0] / total[1]
        self.belief[1] = 1 / total[1]


# %% 15.3: a root of a negative number
# not yet: why: the answer wrote NaN here
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        pull = self.stiff * np.sqrt(self.far / (self.mean_b - self.mean_a))
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: one of two messages
# not yet: element 0: nothing was written, not -0.6
class Gives(Vertex):
    from_a: Input[Vector[FLOAT]]
    from_b: Input[Vector[FLOAT]]
    mean_a: Input[FLOAT]
    mean_b: Input[FLOAT]
    stiff: Input[FLOAT]
    far: Input[FLOAT]
    to_a: Output[Vector[FLOAT]]
    to_b: Output[Vector[FLOAT]]

    def compute(self):
        pull = self.stiff * self.far / np.maximum(abs(self.mean_a - self.mean_b), self.far)
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
