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
# why:  the second number is the variance. Here lam is one over it: large where much is known.
# next: divide 1 by the variance.
def information(mean, variance):
    return mean / variance, variance


# %% 15.w1: the mean as it is
# clause: (eta, lam)
# why:  the first number is the mean. eta is the mean times lam.
# next: divide the mean by the variance, too.
def information(mean, variance):
    return mean, 1 / variance


# %% 15.w1: by the standard deviation
# why:  both are divided by the root of the variance. lam is one over the variance itself.
# next: leave the root out.
def information(mean, variance):
    return mean / variance**0.5, 1 / variance**0.5


# %% 15.w1: lam first
# clause: (eta, lam)
# why:  lam comes first here, and eta second.
# next: return eta, lam: mean / variance is the first.
def information(mean, variance):
    return 1 / variance, mean / variance


# %% 15.1: covariances added
# clause: are Gaussians over the same n variables
# why:  this adds covariances, as for a sum of two quantities. Here both speak of the same one.
# next: add lams: who knows more has the larger one.
def fused(etas, lams, keep):
    spread = sum(np.linalg.inv(lam) for lam in lams)
    lam, eta = np.linalg.inv(spread), etas.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: rows and columns cut out
# clause: return the marginal
# why:  this is what is known of the first ones if the others are all 0, and nobody said so.
# next: cutting out is for covariances. Here the rest leaves something behind.
def fused(etas, lams, keep):
    return etas.sum(axis=0)[:keep], lams.sum(axis=0)[:keep, :keep]


# %% 15.1: nothing left of eta
# why:  lam is right. eta has to give up its share as well: what is forgotten had a mean.
# next: take lam_ab @ inv(lam_bb) @ eta_b from eta_a.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: added instead
# why:  what the others leave behind is added here. To forget never makes one know more.
# next: take it away, from both.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] + left @ eta[keep:], lam[:keep, :keep] + left @ lam[keep:, :keep]


# %% 15.1: the last ones kept
# clause: the **first** `keep` variables
# why:  these are the last variables. The first ones are asked for.
# next: a is [:keep], and b is [keep:].
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    a, b = slice(len(eta) - keep, None), slice(0, len(eta) - keep)
    left = lam[a, b] @ np.linalg.inv(lam[b, b])
    return eta[a] - left @ eta[b], lam[a, a] - left @ lam[b, a]


# %% 15.1: mean and covariance
# clause: as (eta, lam)
# why:  these are the mean and the covariance, and they are right. Information form is asked for.
# next: invert the covariance, and multiply the mean by that.
def fused(etas, lams, keep):
    spread = np.linalg.inv(lams.sum(axis=0))
    return (spread @ etas.sum(axis=0))[:keep], spread[:keep, :keep]


# %% 15.1: an average
# clause: Multiply all of them
# why:  this is the average of the Gaussians. Two who measure know more than one of them.
# next: add, and do not divide.
def fused(etas, lams, keep):
    eta, lam = etas.mean(axis=0), lams.mean(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: lam first
# clause: (eta [keep], lam [keep, keep])
# why:  both are right, and they have changed places.
# next: return eta, lam.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    gain = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return lam[:keep, :keep] - gain @ lam[keep:, :keep], eta[:keep] - gain @ eta[keep:]


# %% 15.1: nothing forgotten
# clause: the marginal of the **first** `keep` variables
# why:  this is the product, of all variables. The others are still in it.
# next: now forget those from keep on.
def fused(etas, lams, keep):
    return etas.sum(axis=0), lams.sum(axis=0)


# %% 15.1: eta with the other sign
# why:  lam is right. This adds the part of the forgotten variables to eta, and the formula
#   subtracts it.
# next: subtract lam_ab @ inv(lam_bb) @ eta_b from eta_a.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] @ np.linalg.inv(lam[keep:, keep:])
    return eta[:keep] + left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.1: forgotten before the product
# clause: Multiply all of them, and return the marginal
# why:  each Gaussian is reduced to the first variables, and then these are multiplied. What two of
#   them say together about the forgotten variables is lost.
# next: add up all etas and all lams first, and take the marginal once.
def fused(etas, lams, keep):
    parts = []
    for eta, lam in zip(etas, lams, strict=True):
        left = lam[:keep, keep:] @ np.linalg.pinv(lam[keep:, keep:])
        parts.append((eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]))
    return sum(eta for eta, _ in parts), sum(lam for _, lam in parts)


# %% 15.2: its own message included
# clause: **without what came from this very side**
# why:  a side is told what came from it. It takes that for news, and grows surer of its own echo.
# next: take away from the sum what came from the side it goes to.
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
# why:  what a variable measured itself is not in what it sends, so nobody else ever hears of it.
# next: begin the sums with self.prior.
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
# why:  this is the belief as eta and lam. Its mean and its variance are asked for.
# next: divide: eta / lam, and 1 / lam.
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
# why:  the second number of the belief is lam here, and it has to be the variance.
# next: 1 / lam.
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
# why:  eta is sent without what came from the side, and lam with it: the message's mean is wrong.
# next: take both numbers away.
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
# why:  it sends its prior alone, so news ends at the next neighbour.
# next: pass on what the other sides said, too.
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
# why:  each side is told what the sides before it said, and not what those after it did.
# next: add up all of it first, in a loop of its own.
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
# why:  the messages go round, and the belief is only what the variable measured itself.
# next: divide what all of it adds up to.
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
# not yet: the chain of 5 is right; here: a star
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
# clause: With which **stiffness** does such a spring pull?
# why:  this pulls with stiff however far they are apart.
# next: beyond far it is stiff * far / apart.
def pulls(apart, stiff, far):
    return stiff


# %% 15.w2: the sign of apart
# clause: `apart` may be negative
# why:  where apart is negative, this takes it for near. Far is far on both sides.
# next: take abs(apart).
def pulls(apart, stiff, far):
    return stiff * far / max(apart, far)


# %% 15.w2: the force
# clause: Not with which force
# why:  this is the force, stiffness times distance. Asked is the stiffness, which falls beyond far.
# next: leave abs(apart) out: stiff within far, and stiff * far / abs(apart) beyond.
def pulls(apart, stiff, far):
    return stiff * min(abs(apart), far)


# %% 15.w2: the force with its sign
# why:  this is the force, with its direction. Asked is the stiffness, which is never negative.
# next: stiff within far, and stiff * far / abs(apart) beyond.
def pulls(apart, stiff, far):
    return stiff * max(-far, min(apart, far))


# %% 15.w2: negative beyond far
# why:  beyond far this divides by apart with its sign, and the result is negative where apart is.
# next: divide by abs(apart).
def pulls(apart, stiff, far):
    return stiff if abs(apart) <= far else stiff * far / apart


# %% 15.3: it never gives way
# clause: the robust factor
# why:  this is a plain spring: it pulls with stiff, however far the means are apart.
# next: beyond far it pulls with stiff * far / apart.
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
# why:  stiff * far / apart holds beyond far. Within, it would pull ever harder, up to infinity.
# next: divide by the larger of apart and far.
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
# why:  this takes the force, stiffness times distance, for the stiffness.
# next: stiff within far, and stiff * far / apart beyond.
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
# why:  where mean_b is the larger, the difference is negative, and counts as near here.
# next: take abs(self.mean_a - self.mean_b).
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
# why:  each variable is told what it said itself. A message goes through, to the other one.
# next: to_b is made of from_a, and to_a of from_b.
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
# why:  the share of each message is worked out with the lam of the other one.
# next: what comes from a is weakened by the lam of from_a.
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
# why:  beyond far this does not pull at all. It is to go on pulling, with the same force.
# next: there it is stiff * far / apart.
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
# clause: both numbers of it
# why:  eta comes through weaker, and lam as it was: so the mean shrinks, and nothing is lost.
# next: both numbers are multiplied by the share.
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
# clause: are the means that its variables believe in
# why:  these are the means of the messages. What decides is what the variables believe by now.
# next: take mean_a and mean_b.
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
# why:  far / apart is squared here, so that the force shrinks beyond far.
# next: once is enough: stiff * far / apart.
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
# why:  where mean_a is the larger, the difference is negative, and counts as near here.
# next: take abs(self.mean_b - self.mean_a).
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
# why:  lam comes through weaker, and eta as it was: so the mean grows.
# next: multiply both numbers by the share.
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
# why:  beyond far the share is the weaker pull divided by stiff + lam. The same pull is in both.
# next: pull / (pull + lam).
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


# %% 15.4: at random
# not yet: no more often than by chance
def place(height, width, tiles, most):
    draw = np.random.default_rng(0)
    pixels = draw.permutation(height * width).reshape(height, width) % tiles
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: strips
# clause: as many down as you like, times as many across
# not yet: strips have long borders
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
# not yet: lie with neither variable
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
# clause: need not be multiples of anything
# not yet: not all strips are equally wide
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows = np.arange(height) // (height // parts)
    columns = np.arange(width) // (width // (tiles // parts))
    pixels = rows[:, None] * (tiles // parts) + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: the shape of the image is not looked at
# not yet: why: 35 pairs of neighbours lie on two tiles
def place(height, width, tiles, most):
    parts = max(p for p in range(1, tiles + 1) if tiles % p == 0 and p * p <= tiles)
    rows, columns = (
        np.arange(height) * parts // height,
        np.arange(width) * (tiles // parts) // width,
    )
    pixels = rows[:, None] * (tiles // parts) + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.4: pixels alone
# clause: Give each pixel and each factor a tile
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
# clause: some blocks are empty
# not yet: pixels into 13 blocks leaves some empty.
def place(height, width, tiles, most):
    ways = [(down, tiles // down) for down in range(1, tiles + 1) if tiles % down == 0]
    ways = [(down, across) for down, across in ways if down <= height and across <= width]
    down, across = min(ways, key=lambda way: (way[0] - 1) * width + (way[1] - 1) * height)
    rows, columns = np.arange(height) * down // height, np.arange(width) * across // width
    pixels = rows[:, None] * across + columns
    return pixels, pixels[:, :-1], pixels[:-1]


# %% 15.5: fewer steps
# not yet: they do not compute the same
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
# not yet: 20 % fewer of one of them
paragraph = """The pieces were dealt out like cards, so both neighbours of each lay on another
tile. Side by side only those at the rim of a tile have a neighbour elsewhere."""


def faster(target):
    def spread(graph, rod):
        for piece in range(156):
            graph.set_tile_mapping(rod[piece], min(piece, 155 - piece) % 13)

    return rod(target, spread)


# %% 15.5: not a number
# not yet: it is equal to nothing
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
# not yet: results of two shapes are not equal
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
# not yet: Warm says itself what it costs
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
# not yet: say what was slow, how you saw it
paragraph = "It is faster now."


def faster(target):
    return rod(target, lambda graph, rod: graph.set_tile_mapping(rod, 0))


# %% 15.1: divided by the diagonal
# why:  this divides by the diagonal of lam_bb. That is its inverse only where one variable is
#   forgotten, or the others say nothing of each other.
# next: np.linalg.inv(lam[keep:, keep:]) is the inverse of the whole block.
def fused(etas, lams, keep):
    eta, lam = etas.sum(axis=0), lams.sum(axis=0)
    left = lam[:keep, keep:] / np.diag(lam[keep:, keep:])
    return eta[:keep] - left @ eta[keep:], lam[:keep, :keep] - left @ lam[keep:, :keep]


# %% 15.2: without the other side
# why:  each side gets its own message back, and not the one of the side opposite.
# next: subtract came[side] from the message to `side`.
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
