# %% given
"""Mistakes of lesson 15 written otherwise."""

import numpy as np

from ipu_teach import FLOAT, Input, Output, Vector, Vertex


# %% 15.w1: one thing after another
# like: the variance as it is
def information(mean, variance):
    eta = mean * variance**-1
    return [eta, variance]


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


# %% 15.w2: the way of the sign
# like: the sign of apart
def pulls(apart, stiff, far):
    return stiff * far / apart if apart > far else stiff


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


# %% 15.4: round and round
# like: at random
def place(height, width, tiles, most):
    pixels = np.arange(height * width).reshape(height, width) % tiles
    return pixels, pixels[:, 1:], pixels[1:]
