# %% given
"""Known mistakes of lesson 15; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, Device, Engine, Graph, Input, IPUModel, Output, Vector, Vertex, concat
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Copy, Execute, Repeat, Sequence


def rod(target, spread):
    graph, step = Graph(target), Sequence()
    rod = graph.add_variable(FLOAT, (156,), "rod")
    spread(graph, rod)
    graph.set_initial_value(rod, [96] * 16 + [0] * 140)
    left, right = concat([rod[:1], rod[:-1]]), concat([rod[1:], rod[-1:]])
    warmth = (expr._1 + 2 * expr._2 + expr._3) / 4
    step.add(Copy(popops.map(graph, warmth, [left, rod, right], step), rod))
    graph.create_host_read("rod", rod)
    engine = Engine(graph, Repeat(24, step))
    engine.load_and_run(Device(target))
    return engine.report, {"rod": engine.read_tensor("rod")}


def like_cards(graph, rod):
    for piece in range(156):
        graph.set_tile_mapping(rod[piece], piece % graph.target.num_tiles)


def before(target):
    return rod(target, like_cards)


paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


# %% 15.w1: the variance as it is
# clause: into information form
# why:  the second number is the variance, but lam is 1 / variance.
# next: return 1 / variance as the second number.
def information(mean, variance):
    return mean / variance, variance


# %% 15.w1: the mean as it is
# clause: Return (eta, lam)
# why:  the first number is the mean, but eta is the mean times lam.
# next: return mean / variance as the first number.
def information(mean, variance):
    return mean, 1 / variance


# %% 15.w1: by the standard deviation
# why:  both numbers are divided by the standard deviation, but they should be divided by the
#   variance.
# next: leave out the square root.
def information(mean, variance):
    return mean / variance**0.5, 1 / variance**0.5


# %% 15.w1: lam first
# clause: Return (eta, lam)
# why:  the two numbers are in the wrong order.
# next: swap the two numbers.
def information(mean, variance):
    return 1 / variance, mean / variance


# %% 15.w1: the variance squared
# why:  this squares `variance`, as if it were a standard deviation.
# next: leave out the square.
def information(mean, variance):
    return mean / variance**2, 1 / variance**2


# %% 15.w1: lam from the variance squared
# why:  the second number divides by the square of `variance`, but a variance is already a square.
# next: leave out the square.
def information(mean, variance):
    return mean / variance, 1 / variance**2


# %% 15.1: covariances added
# clause: are Gaussians over the same n variables
# why:  this adds covariances, as for the sum of two quantities, but here all Gaussians describe the
#   same quantities.
# next: add up the lams: lams.sum(axis=0).
def fused(etas, lams, keep):
    spread = sum(np.linalg.inv(lam) for lam in lams)
    lam, eta = np.linalg.inv(spread), etas.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: rows and columns cut out
# clause: return the marginal
# why:  this only selects rows and columns, which is right if all removed variables are 0.
# next: subtract lam_ab @ inv(lam_bb) @ eta_b from eta_a, and lam_ab @ inv(lam_bb) @ lam_ba from
#   lam_aa.
def fused(etas, lams, keep):
    return etas.sum(axis=0)[:keep], lams.sum(axis=0)[:keep, :keep]


# %% 15.1: nothing left of eta
# why:  lam is right, but eta lacks the part of the removed variables.
# next: subtract lam_ab @ inv(lam_bb) @ eta_b from eta_a.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: added instead
# why:  the part of the removed variables is added, but the formula subtracts it.
# next: subtract this part from eta_a and from lam_aa.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] + left @ eta[keep:], lam[:keep, :keep] + left @ lam[keep:, :keep]


# %% 15.1: the last ones kept
# clause: the **first** `keep` variables
# why:  this keeps the last variables instead of the first.
# next: use [:keep] for the kept variables `a`, and [keep:] for the removed variables `b`.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    a, b = slice(len(eta) - keep, None), slice(0, len(eta) - keep)
    left = lam[a, b] @ np.linalg.inv(lam[b, b])
    return eta[a] - left @ eta[b], lam[a, a] - left @ lam[b, a]


# %% 15.1: mean and covariance
# clause: as (eta, lam)
# why:  these are the right mean and covariance, but the exercise asks for information form.
# next: return the inverse of the covariance as lam, and lam times the mean as eta.
def fused(etas, lams, keep):
    spread = np.linalg.inv(lams.sum(axis=0))
    return (spread @ etas.sum(axis=0))[:keep], spread[:keep, :keep]


# %% 15.1: an average
# clause: Multiply all of them
# why:  this is the average of the Gaussians, but their product adds up the information of all.
# next: use sum(axis=0) instead of mean(axis=0).
def fused(etas, lams, keep):
    eta, lam = etas.mean(axis=0), lams.mean(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: lam first
# clause: Return (eta [keep], lam [keep, keep])
# why:  both results are right, but in the wrong order.
# next: return eta first, and then lam.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    gain = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return lam[:keep, :keep] - gain @ lam[keep:, :keep], eta[:keep] - gain @ eta[keep:]


# %% 15.1: nothing forgotten
# clause: the marginal of the **first** `keep` variables
# why:  this is the product for all variables, but only the first `keep` variables should remain.
# next: compute the marginal of the first `keep` variables.
def fused(etas, lams, keep):
    return etas.sum(axis=0), lams.sum(axis=0)


# %% 15.1: eta with the other sign
# why:  lam is right, but eta adds the part of the removed variables, which the formula subtracts.
# next: subtract lam_ab @ inv(lam_bb) @ eta_b from eta_a.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] + left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: forgotten before the product
# clause: and return the marginal
# why:  each Gaussian is marginalised before the product, which loses what two of them know together
#   about the removed variables.
# next: add up all etas and all lams first, and compute the marginal once.
def fused(etas, lams, keep):
    parts = []
    for eta, lam in zip(etas, lams, strict=True):
        left = lam[:keep, keep:] @ np.linalg.pinv(lam[keep:, keep:])
        parts.append((eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]))
    return sum(eta for eta, _ in parts), sum(lam for _, lam in parts)


# %% 15.2: its own message included
# clause: **without the message from this very side**
# why:  the message to a side includes the message from that side, so the same information is
#   counted again and again.
# next: subtract self.came[side] from the sum before you send it to `side`.
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
            self.sent[side][0] = eta
            self.sent[side][1] = lam
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: without its prior
# clause: its own `prior`
# why:  the messages leave out the prior, so no other variable gets this measurement.
# next: start the sums with self.prior[0] and self.prior[1].
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = 0.0, 0.0
        for side in range(len(self.came)):
            eta += self.came[side][0]
            lam += self.came[side][1]
        for side in range(len(self.came)):
            self.sent[side][0] = eta - self.came[side][0]
            self.sent[side][1] = lam - self.came[side][1]
        self.belief[0] = (eta + self.prior[0]) / (lam + self.prior[1])
        self.belief[1] = 1 / (lam + self.prior[1])


# %% 15.2: eta and lam for a belief
# why:  the belief is eta and lam here, but it should be the mean and the variance.
# next: store eta / lam and 1 / lam in self.belief.
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
        self.belief[0] = eta
        self.belief[1] = lam


# %% 15.2: lam for the variance
# why:  the second number of the belief is lam, but it should be the variance.
# next: store 1 / lam in self.belief[1].
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = self.prior[0], self.prior[1]
        for side in range(len(self.came)):
            eta += self.came[side, 0]
            lam += self.came[side, 1]
        self.belief[0], self.belief[1] = eta / lam, lam
        for side in range(len(self.came)):
            self.sent[side, 0] = eta - self.came[side, 0]
            self.sent[side, 1] = lam - self.came[side, 1]


# %% 15.2: lam is not taken away
# why:  the message has eta without the message from this side, but the full lam.
# next: also subtract self.came[side][1] from lam.
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
            self.sent[side][1] = lam
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: only what it measured
# why:  only the prior is sent, so information from other variables stops here.
# next: send the sum of the prior and all messages, without the message from that side.
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
            self.sent[side][0] = self.prior[0]
            self.sent[side][1] = self.prior[1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: what came so far
# why:  a side gets only the messages of the sides before it, since the sum is not complete yet.
# next: add up all messages in a loop of its own, before the loop that sends.
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = self.prior[0], self.prior[1]
        for side in range(len(self.came)):
            self.sent[side][0] = eta
            self.sent[side][1] = lam
            eta += self.came[side][0]
            lam += self.came[side][1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: its belief is its prior
# clause: and belief
# why:  the messages are right, but the belief is only the prior.
# next: compute the belief from the full sums: eta / lam and 1 / lam.
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta = self.prior[0] + self.came[:, 0].sum()
        lam = self.prior[1] + self.came[:, 1].sum()
        self.sent[:, 0] = eta - self.came[:, 0]
        self.sent[:, 1] = lam - self.came[:, 1]
        self.belief[0] = self.prior[0] / self.prior[1]
        self.belief[1] = 1 / self.prior[1]


# %% 15.2: two sides
# clause: any number of sides
# not yet: the chain of 5 is right, but this graph is wrong: a star
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        for side in range(len(self.came)):
            self.sent[side][0] = self.prior[0] + self.came[1 - side][0]
            self.sent[side][1] = self.prior[1] + self.came[1 - side][1]
        eta = self.prior[0] + self.came[0][0] + self.came[1][0]
        lam = self.prior[1] + self.came[0][1] + self.came[1][1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.w2: it never gives way
# clause: Return the **stiffness** of such a spring
# why:  the stiffness is `stiff` at every distance, but it should decrease beyond `far`.
# next: beyond `far`, divide by the distance, as in the formula.
def pulls(apart, stiff, far):
    return stiff


# %% 15.w2: the sign of apart
# clause: the difference of the means, may be negative
# why:  a negative `apart` counts as near here, even if its magnitude is large.
# next: use abs(apart) instead of `apart`.
def pulls(apart, stiff, far):
    return stiff * far / max(apart, far)


# %% 15.w2: the force
# clause: (not its force)
# why:  this is the force, stiffness times distance, but the exercise asks for the stiffness.
# next: use the formula for the stiffness, which divides by the distance beyond `far`.
def pulls(apart, stiff, far):
    return stiff * min(abs(apart), far)


# %% 15.w2: the force with its sign
# why:  this is the force with its direction, but the exercise asks for the stiffness.
# next: use the formula for the stiffness, which divides by the distance beyond `far`.
def pulls(apart, stiff, far):
    return stiff * max(-far, min(apart, far))


# %% 15.w2: negative beyond far
# why:  beyond `far`, this divides by `apart` with its sign, so the stiffness can be negative.
# next: divide by abs(apart) instead of `apart`.
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else stiff * far / apart


# %% 15.3: it never gives way
# clause: the robust factor
# why:  the stiffness is `stiff` at every distance, but it should decrease beyond `far`.
# next: divide stiff * far by the larger of `far` and abs(self.mean_a - self.mean_b).
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
        self.to_b = self.from_a * (self.stiff / (self.stiff + self.from_a[1]))
        self.to_a = self.from_b * (self.stiff / (self.stiff + self.from_b[1]))


# %% 15.3: harder when near
# why:  within `far`, stiff * far / apart grows without limit, but the stiffness should be `stiff`
#   there.
# next: divide stiff * far by the larger of `far` and abs(self.mean_a - self.mean_b).
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
        pull = self.stiff * self.far / (abs(self.mean_a - self.mean_b) + 1e-9)
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: the force
# why:  this uses the force, stiffness times distance, instead of the stiffness.
# next: divide stiff * far by the larger of `far` and abs(self.mean_a - self.mean_b).
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
        pull = self.stiff * np.minimum(np.abs(self.mean_a - self.mean_b), self.far)
        for k in range(2):
            self.to_b[k] = self.from_a[k] * pull / (pull + self.from_a[1])
            self.to_a[k] = self.from_b[k] * pull / (pull + self.from_b[1])


# %% 15.3: the sign of the difference
# why:  if mean_b is larger, the difference is negative and counts as near.
# next: use abs(self.mean_a - self.mean_b).
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
        pull = self.stiff * self.far / np.maximum(self.mean_a - self.mean_b, self.far)
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: back to the sender
# clause: write both messages
# why:  each variable gets its own message back, instead of the message of the other variable.
# next: compute to_b from from_a, and to_a from from_b.
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
        self.to_a = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_b = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: the lam of the other message
# why:  the share of each message uses the lam of the other message.
# next: use self.from_a[1] for the share of from_a, and self.from_b[1] for the share of from_b.
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
        self.to_b = self.from_a * (pull / (pull + self.from_b[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_a[1]))


# %% 15.3: torn
# why:  beyond `far` the stiffness is 0, but it should decrease so that the force stays constant.
# next: divide stiff * far by the larger of `far` and abs(self.mean_a - self.mean_b).
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
        pull = self.stiff if abs(self.mean_a - self.mean_b) <= self.far else 0.0
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: only eta is weakened
# clause: multiply both of its numbers
# why:  only eta is multiplied by the share, but lam should be, too.
# next: multiply both numbers of a message by its share.
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
        self.to_b[0] = self.from_a[0] * pull / (pull + self.from_a[1])
        self.to_b[1] = self.from_a[1]
        self.to_a[0] = self.from_b[0] * pull / (pull + self.from_b[1])
        self.to_a[1] = self.from_b[1]


# %% 15.3: the means of the messages
# clause: are the current means of its variables
# why:  the distance is that of the messages' means, but it should be that of the variables' current
#   means.
# next: use abs(self.mean_a - self.mean_b).
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
        apart = abs(self.from_a[0] / self.from_a[1] - self.from_b[0] / self.from_b[1])
        pull = self.stiff * self.far / np.maximum(apart, self.far)
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: squared
# why:  far / apart is squared, so the force decreases beyond `far`, but it should stay constant.
# next: divide stiff * far by the larger of `far` and abs(self.mean_a - self.mean_b).
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
        pull = self.stiff * (self.far / np.maximum(abs(self.mean_a - self.mean_b), self.far)) ** 2
        self.to_b = self.from_a * (pull / (pull + self.from_a[1]))
        self.to_a = self.from_b * (pull / (pull + self.from_b[1]))


# %% 15.3: the sign of the other difference
# why:  if mean_a is larger, the difference is negative and counts as near.
# next: use abs(self.mean_b - self.mean_a).
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
        pull = self.stiff * self.far / max(self.mean_b - self.mean_a, self.far)
        for i in range(2):
            self.to_a[i] = self.from_b[i] * pull / (pull + self.from_b[1])
            self.to_b[i] = self.from_a[i] * pull / (pull + self.from_a[1])


# %% 15.3: only lam is weakened
# why:  only lam is multiplied by the share, but eta should be, too.
# next: multiply both numbers of a message by its share.
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
        pull = self.stiff * self.far / max(abs(self.mean_a - self.mean_b), self.far)
        self.to_a[0] = self.from_b[0]
        self.to_b[0] = self.from_a[0]
        self.to_a[1] = self.from_b[1] * pull / (pull + self.from_b[1])
        self.to_b[1] = self.from_a[1] * pull / (pull + self.from_a[1])


# %% 15.3: stiff below the line
# why:  the share is pull / (stiff + lam) here, but the formula has the same stiffness twice: pull /
#   (pull + lam).
# next: use pull / (pull + lam), where pull is the stiffness of this case.
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
        pull = self.stiff * self.far / max(abs(self.mean_a - self.mean_b), self.far)
        for i in range(2):
            self.to_a[i] = self.from_b[i] * pull / (self.stiff + self.from_b[1])
            self.to_b[i] = self.from_a[i] * pull / (self.stiff + self.from_a[1])


# %% 15.3: the lam of both messages
# clause: lam is the second number **of this message**
# why:  the share has the lam of both messages. It needs only the lam of the message that passes.
# next: use pull / (pull + lam) for each message, with its own lam.
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
        share = pull / (pull + self.from_a[1] + self.from_b[1])
        for k in range(2):
            self.to_b[k] = share * self.from_a[k]
            self.to_a[k] = share * self.from_b[k]


# %% 15.3: one share for both, from a
# clause: lam is the second number **of this message**
# why:  both messages have the share with the lam of from_a, but to_a passes on from_b.
# next: compute another share for to_a, with self.from_b[1].
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
        pull = self.stiff * self.far / max(abs(self.mean_a - self.mean_b), self.far)
        share = pull / (pull + self.from_a[1])
        self.to_b = share * self.from_a
        self.to_a = share * self.from_b


# %% 15.3: one share for both, from b
# clause: lam is the second number **of this message**
# why:  both messages have the share with the lam of from_b, but to_b passes on from_a.
# next: compute another share for to_b, with self.from_a[1].
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
        pull = self.stiff * self.far / max(abs(self.mean_a - self.mean_b), self.far)
        share = pull / (pull + self.from_b[1])
        self.to_b = share * self.from_a
        self.to_a = share * self.from_b


# %% 15.4: at random
# not yet: no more often than at random
def place(height, width, tiles, most):
    draw = np.random.default_rng(0)
    pixels = draw.permutation(height * width).reshape(height, width) % tiles
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: strips
# clause: m blocks from top to bottom and n blocks from left to right, where m * n is `tiles`
# not yet: these are strips, whose boundaries are long
def place(height, width, tiles, most):
    pixels = np.arange(height * width).reshape(height, width) * tiles // (height * width)
    rows = np.arange(width) * tiles // width
    if np.bincount(rows).max() * height <= most:
        pixels = np.zeros((height, 1), int) + rows
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: all on one tile
# clause: No tile may have more than `most` pixels
# not yet: one tile does all the work
def place(height, width, tiles, most):
    return (
        np.zeros((height, width), int),
        np.zeros((height, width - 1), int),
        np.zeros((height - 1, width), int),
    )


# %% 15.4: factors dealt out
# clause: A round must exchange at most **1.1 times** the bytes
# not yet: are on the tile of neither of their variables
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows, columns = (
        np.arange(height) * parts // height,
        np.arange(width) * (tiles // parts) // width,
    )
    right = np.arange(height * (width - 1)).reshape(height, width - 1) % tiles
    down = np.arange((height - 1) * width).reshape(height - 1, width) % tiles
    return rows[:, None] * (tiles // parts) + columns, right, down


# %% 15.4: a side that no strip divides
# clause: Blocks of unequal size are allowed
# not yet: so strips have different widths
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows = np.arange(height) // (height // parts)
    columns = np.arange(width) // (width // (tiles // parts))
    pixels = rows[:, None] * (tiles // parts) + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: the shape of the image is not looked at
# not yet: 35 pairs of neighbours are on two tiles, but the best grid separates only
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows, columns = (
        np.arange(height) * parts // height,
        np.arange(width) * (tiles // parts) // width,
    )
    pixels = rows[:, None] * (tiles // parts) + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: pixels alone
# clause: Choose a tile for each pixel and each factor
# not yet: three arrays: pixels, right, down
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows, columns = (
        np.arange(height) * parts // height,
        np.arange(width) * (tiles // parts) // width,
    )
    return rows[:, None] * (tiles // parts) + columns


# %% 15.4: height and width exchanged
# clause: `pixels` [height, width]
# not yet: pixels: the shape (9, 13)
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows, columns = (
        np.arange(height) * parts // height,
        np.arange(width) * (tiles // parts) // width,
    )
    pixels = (rows[:, None] * (tiles // parts) + columns).T
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: only cuts without empty blocks
# clause: some may have one more row or column than others, or be empty
# not yet: every grid of 13 blocks has some empty blocks
def place(height, width, tiles, most):
    ways = [(down, tiles // down) for down in range(1, tiles + 1) if tiles % down == 0]
    ways = [(down, across) for down, across in ways if down <= height and across <= width]
    down, across = min(ways, key=lambda way: (way[0] - 1) * width + (way[1] - 1) * height)
    rows, columns = np.arange(height) * down // height, np.arange(width) * across // width
    pixels = rows[:, None] * across + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.5: fewer steps
# not yet: the programs compute different results
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    graph, step = Graph(target), Sequence()
    rod = graph.add_variable(FLOAT, (156,), "rod")
    for piece in range(156):
        graph.set_tile_mapping(rod[piece], piece // 12)
    graph.set_initial_value(rod, [96] * 16 + [0] * 140)
    left, right = concat([rod[:1], rod[:-1]]), concat([rod[1:], rod[-1:]])
    warmth = (expr._1 + 2 * expr._2 + expr._3) / 4
    step.add(Copy(popops.map(graph, warmth, [left, rod, right], step), rod))
    graph.create_host_read("rod", rod)
    engine = Engine(graph, Repeat(12, step))
    engine.load_and_run(Device(target))
    return engine.report, {"rod": engine.read_tensor("rod")}


# %% 15.5: another machine
# not yet: two machines
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    other = IPUModel("ipu2", tiles_per_ipu=26).create_device().target
    return rod(other, lambda graph, rod: graph.set_tile_mapping(rod, 0))


# %% 15.5: hardly better
# clause: the faster program
# not yet: but 20 % are needed
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    def spread(graph, rod):
        for piece in range(156):
            graph.set_tile_mapping(rod[piece], min(piece, 155 - piece) % 13)

    return rod(target, spread)


# %% 15.5: not a number
# not yet: NaN is not equal to any number
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    report, results = rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))
    return report, {"rod": np.where(results["rod"] > 0, results["rod"], np.nan)}


# %% 15.5: a result of another name
# not yet: after: heat; before: rod
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    report, results = rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))
    return report, {"heat": results["rod"]}


# %% 15.5: a part of the result
# not yet: this result has another shape than in the previous program
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    report, results = rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))
    return report, {"rod": results["rod"][:78]}


# %% 15.5: the report alone
# clause: the function of the faster program
# not yet: return a pair: engine.report
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    return rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))[0]


# %% 15.5: the results for an initial value
# not yet: nothing is computed on the device
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. What comes out is known from the last run, and here it is only handed out."""


def faster(target):
    rod = before(target)[1]["rod"]
    graph = Graph(target)
    kept = graph.add_variable(FLOAT, rod.shape, "kept")
    graph.set_tile_mapping(kept, 0)
    graph.set_initial_value(kept, rod)
    graph.create_host_read("rod", kept)
    engine = Engine(graph, Sequence())
    engine.load_and_run(Device(target))
    return engine.report, {"rod": engine.read_tensor("rod")}


# %% 15.5: it says itself what it costs
# not yet: Warm sets its own cycles
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


class Warm(Vertex):
    rod: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        left = np.concatenate([self.rod[:1], self.rod[:-1]])
        right = np.concatenate([self.rod[1:], self.rod[-1:]])
        self.out = (left + 2 * self.rod + right) / 4


def faster(target):
    graph = Graph(target)
    rod, out = (graph.add_variable(FLOAT, (156,), name) for name in ("rod", "out"))
    warm = graph.add_compute_set("warm")
    vertex = graph.add_vertex(warm, Warm, rod=rod, out=out)
    for part in (rod, out, vertex):
        graph.set_tile_mapping(part, 0)
    graph.set_perf_estimate(vertex, 10)
    graph.set_initial_value(rod, [96] * 16 + [0] * 140)
    graph.create_host_read("rod", rod)
    engine = Engine(graph, Repeat(24, Sequence(Execute(warm), Copy(out, rod))))
    engine.load_and_run(Device(target))
    return engine.report, {"rod": engine.read_tensor("rod")}


# %% 15.5: a word
# clause: of 20 words or more
# not yet: write what was slow, how you found it
paragraph = "It is faster now."


def faster(target):
    return rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))


# %% 15.1: divided by the diagonal
# why:  this divides by the diagonal of lam_bb, which is its inverse only if lam_bb is diagonal.
# next: use np.linalg.inv(lam[keep:, keep:]), the inverse of the whole block.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] / np.diag(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.2: without the other side
# why:  each side gets its own message back, and the message of the opposite side is subtracted
#   instead.
# next: subtract self.came[side] from the message to `side`.
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
            other = len(self.came) - 1 - side
            self.sent[side][0] = eta - self.came[other][0]
            self.sent[side][1] = lam - self.came[other][1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: means and variances sent
# clause: The message to a side is all information
# clause: Write (eta, lam) again.
# why:  the messages are means and variances here. They have to be eta and lam.
# next: send the differences themselves; only the belief is a mean and a variance.
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
            rest = lam - self.came[side][1]
            self.sent[side][0] = (eta - self.came[side][0]) / rest
            self.sent[side][1] = 1 / rest
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: the belief without the prior
# why:  the messages are right, but the belief lacks the prior.
# next: compute the belief from the sum of the prior and all messages, too.
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = 0.0, 0.0
        for side in range(len(self.came)):
            eta += self.came[side][0]
            lam += self.came[side][1]
        for side in range(len(self.came)):
            self.sent[side][0] = self.prior[0] + eta - self.came[side][0]
            self.sent[side][1] = self.prior[1] + lam - self.came[side][1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.w2: near and far exchanged
# why:  the two cases are exchanged: this divides by the distance up to `far`, and returns `stiff`
#   beyond.
# next: take the larger of abs(apart) and `far` as the divisor.
def pulls(apart, stiff, far):
    return stiff * far / min(abs(apart), far)


# %% 15.w2: the formula at every distance
# why:  this also divides by the distance up to `far`, where the stiffness is `stiff`.
# next: return `stiff` if abs(apart) is at most `far`.
def pulls(apart, stiff, far):
    return stiff * far / abs(apart)


# %% 15.w2: the formula at every distance, with the sign
# why:  this also divides by `apart` up to `far`, where the stiffness is `stiff`, and `apart` may be
#   negative or 0.
# next: return `stiff` if abs(apart) is at most `far`, and divide by abs(apart) beyond.
def pulls(apart, stiff, far):
    return stiff * far / apart


# %% 15.w2: divided by 0
# why:  only `apart` = 0 fails: this divides by the distance before it decides which case applies.
# next: divide by max(abs(apart), far), which is never 0.
def pulls(apart, stiff, far):
    return min(stiff, stiff * far / abs(apart))


# %% 15.w2: the smaller of two, with the sign
# why:  the smaller of the two is negative if `apart` is negative, and 0 as a divisor fails.
# next: divide by max(abs(apart), far), which is never 0 or negative.
def pulls(apart, stiff, far):
    return min(stiff, stiff * far / apart)


# %% 15.w2: far / apart alone
# why:  beyond `far`, this leaves out the factor `stiff`.
# next: return stiff * far / abs(apart) there.
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else far / abs(apart)


# %% 15.w2: stiff / apart alone
# why:  beyond `far`, this leaves out the factor `far`.
# next: multiply by `far` there, so that the stiffness at a distance of `far` is `stiff`.
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else stiff / abs(apart)


# %% 15.w2: the larger of two, without far above
# why:  this divides `stiff` by a distance, but the formula divides stiff * far by it.
# next: multiply by `far`.
def pulls(apart, stiff, far):
    return stiff / max(abs(apart), far)


# %% 15.w2: a constant beyond far
# why:  beyond `far`, this returns the constant force, stiff * far, instead of the stiffness.
# next: divide stiff * far by the distance.
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else stiff * far


# %% 15.w2: 0 beyond far
# why:  beyond `far`, the stiffness is 0 here, but the spring still pulls there.
# next: return stiff * far / abs(apart) beyond `far`.
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else 0


# %% 15.w2: stiffer beyond far
# why:  beyond `far`, the stiffness grows with the distance, but it should decrease.
# next: multiply by far / abs(apart) instead of abs(apart) / far.
def pulls(apart, stiff, far):
    return stiff * max(abs(apart), far) / far


# %% 15.w2: by the distance squared
# why:  beyond `far`, this divides by the square of the distance.
# next: leave out the square.
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else stiff * far / apart**2


# %% 15.w2: the distance beyond far
# why:  this divides by the part of the distance that is beyond `far`.
# next: divide by the whole distance, abs(apart).
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else stiff * far / (abs(apart) - far)


# %% 15.1: nothing left of lam
# why:  eta is right, but lam lacks the part of the removed variables.
# next: subtract lam_ab @ inv(lam_bb) @ lam_ba from lam_aa.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep]


# %% 15.1: lam with the other sign
# why:  eta is right, but lam adds the part of the removed variables, which the formula subtracts.
# next: subtract lam_ab @ inv(lam_bb) @ lam_ba from lam_aa.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] + left @ lam[keep:, :keep]


# %% 15.1: without the inverse
# why:  this multiplies by lam_bb, but the formula multiplies by the inverse of lam_bb.
# next: use np.linalg.inv(lam[keep:, keep:]).
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ lam[keep:, keep:]
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: one over each element
# why:  1 / lam_bb divides 1 by each element, which is not the inverse of the matrix.
# next: use np.linalg.inv(lam[keep:, keep:]).
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ (1 / lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: all of lam
# not yet: eta is right, but lam is not. next: print lam_ab, inv(lam_bb) and lam_ba
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam


# %% 15.1: the mean for eta
# not yet: lam is right, but eta is not. next: print lam_ab, inv(lam_bb) and eta_b
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    lam, eta = lam[:keep, :keep] - left @ lam[keep:, :keep], eta[:keep] - left @ eta[keep:]
    return np.linalg.solve(lam, eta), lam


# %% 15.2: without the prior at all
# why:  the sums leave out the prior. Before the first messages arrive, they are 0, and 0 / 0 is
#   NaN.
# next: start both sums with the prior.
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        eta, lam = 0.0, 0.0
        for side in range(len(self.came)):
            eta += self.came[side][0]
            lam += self.came[side][1]
        for side in range(len(self.came)):
            self.sent[side][0] = eta - self.came[side][0]
            self.sent[side][1] = lam - self.came[side][1]
        self.belief[0] = eta / lam
        self.belief[1] = 1 / lam


# %% 15.2: messages divided by their lam
# not yet: why: the answer wrote NaN here
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        mean = self.prior[0] / self.prior[1]
        for side in range(len(self.came)):
            mean += self.came[side][0] / self.came[side][1]
        lam = self.prior[1] + self.came[:, 1].sum()
        for side in range(len(self.came)):
            self.sent[side][0] = mean
            self.sent[side][1] = lam
        self.belief[0] = mean
        self.belief[1] = 1 / lam


# %% 15.2: no variance
# not yet: variances: element 0: nothing was written
class Variable(Vertex):
    prior: Input[Vector[FLOAT]]
    came: Input[Vector[Vector[FLOAT]]]
    sent: Output[Vector[Vector[FLOAT]]]
    belief: Output[Vector[FLOAT]]

    def compute(self):
        total = self.prior + self.came.sum(axis=0)
        self.sent = total - self.came
        self.belief[0] = total[0] / total[1]


# %% 15.5: all on one tile
# not yet: more cycles than before
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. On one tile, no piece has a neighbour elsewhere, so that nothing is sent at all."""


def faster(target):
    return rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))
