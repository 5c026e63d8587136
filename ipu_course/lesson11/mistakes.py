# %% given
"""Known mistakes of lesson 11; what this file is: mistakes.py."""

import numpy as np

from ipu_teach import FLOAT, HALF, Engine, Graph, IPUModel, QuarterFormat, QuarterMetadata
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.program import Sequence
from ipu_teach.types import from_quarter, numbers, to_quarter

F143, F152 = QuarterFormat.F143, QuarterFormat.F152


def decode(code, mantissa_bits, bias):
    """The number of a code."""
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    whole = 1 if exponent else 0
    size = (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code > 128 else size


PRODUCTS = {}  # what multiplied() returned, as many mistakes ask for the same products


def multiplied(a, b, partials):
    """(a @ b as the device computes it, modelled cycles)."""
    key = a.tobytes(), b.tobytes(), partials
    if key not in PRODUCTS:
        PRODUCTS[key] = product_of(a, b, partials)
    return PRODUCTS[key]


def product_of(a, b, partials):
    """(a @ b as the device computes it, modelled cycles)."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph, program = Graph(device), Sequence()
    tensors = [graph.add_variable(HALF, part.shape) for part in (a, b)]
    for tensor, values in zip(tensors, (a, b), strict=True):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, values)
    out = poplin.mat_mul(graph, *tensors, program, partials_type=partials)
    graph.create_host_read("out", out)
    engine = Engine(graph, program)
    engine.load_and_run(device)
    return engine.read_tensor("out").astype(float), engine.report.total_cycles


def eight(values, form, scale):
    """Values as an 8-bit tensor with that format and scale holds them."""
    metadata = QuarterMetadata(form, scale)
    return from_quarter(to_quarter(values, metadata), metadata).astype(float)


# %% 11.w1: the chance of going down
# clause: going to the number above
# why:  this is the chance of going down.
# next: a value near the number above goes up nearly always.
def chance_up(value, below, above):
    return (above - value) / (above - below)


# %% 11.w1: a fair coin
# clause: right on average
# why:  a fair coin is right only in the middle.
# next: the nearer the number above, the likelier it must be.
def chance_up(value, below, above):
    return 0.5 if value > below else 0


# %% 11.w1: the way from 0
# why:  this is how far the value is from 0, on the way to the number above.
# next: measure from the number below.
def chance_up(value, below, above):
    return value / above


# %% 11.w1: not divided
# why:  this is how far the value is from the number below, whatever the distance of the two.
# next: divide by above - below.
def chance_up(value, below, above):
    return value - below


# %% 11.1: a draw more, then to nearest
# why:  a draw from 0 to 1 is added, whatever the distance of the halves is there.
# next: what counts is how far the value is on the way from one half to the next one.
def stochastic(values, rng):
    return np.float16(values + rng.random(values.shape))


# %% 11.1: towards zero
# clause: Each goes to one of its two neighbours among the halves
# why:  for a negative value one of the two numbers is not its neighbour: what was cut off led
#   towards zero, and the other one is on the wrong side.
# next: take the half below, for negative values too.
def stochastic(values, rng):
    half = np.float16(values)
    cut = np.where(abs(half.astype(float)) > abs(values), np.nextafter(half, np.float16(0)), half)
    above = np.nextafter(cut, np.float16(np.inf)).astype(float)
    up = rng.random(values.shape) < abs(values - cut) / abs(above - cut)
    return np.where(up, above, cut).astype(np.float16)


# %% 11.1: the chances swapped
# why:  the chances are swapped: near the half above it goes down nearly always.
# next: up, if the draw is less than (value - below) / (above - below).
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = rng.random(values.shape) > (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: halves move
# clause: one that is a half already stays
# why:  a value that is a half already is sent away from it.
# next: its chance of going up is 0.
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half >= values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(half, np.float16(np.inf)).astype(float)
    above = np.where(half > values, half, above)
    up = rng.random(values.shape) < (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: one draw for all
# clause: draws a number from 0 to 1 for each
# why:  all values are decided by one draw. Then all go up together, or down.
# next: rng.random(values.shape) has a draw for each.
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = rng.random() < (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: a fair coin
# clause: so that it is right on average
# why:  up and down are as likely, wherever the value lies between them.
# next: the nearer one must be the likelier.
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf))
    up = (rng.random(values.shape) < 0.5) & (below != values)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: no even steps about zero
# clause: `np.nextafter(half, np.float16(np.inf))` the next one above
# why:  below 2^-14 halves are 2^-24 apart, and no nearer to each other. The steps here go on
#   shrinking, and np.float16 then rounds to nearest what was thrown.
# next: take steps of at least 2 ** -24, or np.nextafter.
def stochastic(values, rng):
    power = np.floor(np.log2(np.where(values == 0, 1, abs(values))))
    step = 2.0 ** (power - 10)
    whole = np.floor(values / step)
    up = rng.random(values.shape) < values / step - whole
    return np.float16((whole + up) * step)


# %% 11.1: to nearest
# clause: Round `values`, an array of float64, to halves by chance
# why:  this rounds to nearest: the same value comes to the same half each time.
# next: draw a number, and let it decide between the two neighbours.
def stochastic(values, rng):
    return np.float16(values)


# %% 11.1: a generator of its own
# not yet: two generators gave the same draws
def stochastic(values, rng):
    draws = np.random.default_rng(0)
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = draws.random(values.shape) < (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.2: the variance
# clause: the root of the variance
# why:  this is the variance.
# next: the deviation is its root.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, grid**2 * times * up * (1 - up)


# %% 11.2: of one step
# why:  this is the standard deviation of a single step.
# next: add up the variances: the standard deviation grows with the root of `times`.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, grid * np.sqrt(up * (1 - up))


# %% 11.2: no spread
# clause: without throwing
# why:  the mean is right, and a sum of throws spreads.
# next: add up times * grid ** 2 * p * (1 - p), with p the chance of going up, and take the root.
def after(step, grid, times):
    return times * step, 0.0


# %% 11.2: to nearest
# clause: each by chance
# why:  this is what rounding to nearest comes to.
# next: by chance, the mean of a step is the step itself.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * np.round(step / grid) * grid, grid * np.sqrt(times * up * (1 - up))


# %% 11.2: the chances swapped
# why:  the chances are swapped: a step of 0.4 would then be 0.5 in two cases of five, and ten of
#   them come to 3.5.
# next: the nearer mark is the likelier one.
def after(step, grid, times):
    low = np.floor(step / grid)
    up = 1 - (step / grid - low) if step / grid > low else 0.0
    return times * (low + up) * grid, grid * np.sqrt(times * up * (1 - up))


# %% 11.2: deviations added up
# clause: (mean, deviation)
# why:  deviations are added up. Of steps that do not know of each other variances add up.
# next: the root of times, in place of times.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, grid * times * np.sqrt(up * (1 - up))


# %% 11.2: rounded once, at the end
# clause: `times` steps of `step` are made
# why:  here the sum is rounded once, at the end, and it is rounded after each step.
# next: each of the steps adds a variance of its own.
def after(step, grid, times):
    end = times * step / grid
    up = end - np.floor(end)
    return times * step, grid * np.sqrt(up * (1 - up))


# %% 11.2: a grid of 1
# clause: marks `grid` apart
# why:  the deviation is counted in marks, and not in what the ruler measures.
# next: times grid.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, np.sqrt(times * up * (1 - up))


# %% 11.2: one mark taken away
# why:  the chance is that of a step between one mark and two. Other steps pass no mark, or several.
# next: step / grid % 1 takes away as many marks as there are.
def after(step, grid, times):
    p = step / grid - 1
    return times * step, grid * abs(times * p * (1 - p)) ** 0.5


# %% 11.2: the chance without the grid
# why:  the chance depends on the step alone, as if there were a mark at every whole number.
# next: divide by grid first: step / grid % 1.
def after(step, grid, times):
    p = step % 1
    return times * step, grid * (times * p * (1 - p)) ** 0.5


# %% 11.2: the mean on a mark
# why:  the standard deviation is right, and the mean was rounded to a mark. A mean need not be one.
# next: times * step.
def after(step, grid, times):
    p = step / grid % 1
    return round(times * step / grid) * grid, grid * (times * p * (1 - p)) ** 0.5


# %% 11.2: the chance of the sum
# why:  the chance is that of the whole sum. Each step is rounded by itself, and has its own.
# next: p = step / grid % 1.
def after(step, grid, times):
    p = times * step / grid % 1
    return times * step, grid * (times * p * (1 - p)) ** 0.5


# %% 11.w2: always a whole one
# clause: What does a byte stand for?
# why:  where the exponent is 0 there is no whole one before the point.
# next: m / 2^b * 2^(1 - bias) there.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    size = (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)
    return -size if code > 128 else size


# %% 11.w2: even steps half as large
# why:  where the exponent is 0 the numbers are half as large as they should be.
# next: 2^(1 - bias) there, as for the exponent 1.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    size = ((exponent > 0) + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)
    return -size if code > 128 else size


# %% 11.w2: the sign in the exponent
# why:  the sign is still in the exponent: for a negative number it is far too large.
# next: take code % 128 apart.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code, 2**mantissa_bits)
    whole = 1 if exponent else 0
    size = (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code > 128 else size


# %% 11.w2: minus zero
# clause: `float("nan")` is no number
# why:  0x80 would be minus zero. In these formats it is no number.
# next: return float("nan") for the code 0x80.
def decode(code, mantissa_bits, bias):
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    whole = 1 if exponent else 0
    size = (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code >= 128 else size


# %% 11.w2: no sign
# why:  the first bit is the sign.
# next: codes above 0x80 are negative; code % 128 is the rest.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    whole = 1 if exponent else 0
    return (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)


# %% 11.3: the bias of others
# why:  this is the format of another maker, with a bias that is one less.
# next: the bias is given: 8 and 16.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias - 1) - abs(value)), code % 2

    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: nothing below the normal numbers
# why:  what is smaller than the smallest normal number becomes 0, or that one. There are even steps
#   below it.
# next: codes with the exponent 0 are numbers like the others.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    code = min([0, *range(2**mantissa_bits, 128)], key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: minus zero
# clause: what becomes 0 has the code 0, whatever its sign
# why:  a negative value that becomes 0 gets the code 0x80, and that is no number here.
# next: there is one zero. Set the sign only where the code is not 0.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    code = min(range(128), key=away)
    return code + 128 if value < 0 else code


# %% 11.3: too large is no number
# clause: What is larger than the largest becomes the largest
# why:  what is too large becomes no number. Asked is the largest one.
# next: the largest is the nearest, too: leave it to the search.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    if abs(value) > decode(127, mantissa_bits, bias):
        return 0x80
    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: halfway goes up
# clause: the one with the **even code**
# why:  halfway between two numbers it takes the larger one.
# next: of the two take the one with the even code.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), -code

    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: halfway goes down
# why:  halfway between two numbers it takes the smaller one.
# next: of the two take the one with the even code.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value))

    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: cut off
# clause: is the **nearest** to
# why:  it takes the next smaller number, and not the nearest.
# next: compare it with the number above, and take the nearer one.
def encode(value, mantissa_bits, bias):
    code = max(c for c in range(128) if decode(c, mantissa_bits, bias) <= abs(value))
    return code + 128 if value < 0 and code else code


# %% 11.3: no sign
# why:  the sign is lost.
# next: 128 more for what is negative, and not 0.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    return min(range(128), key=away)


# %% 11.w3: rounded up
# clause: the largest power of two
# why:  the power of two is rounded up, and the largest slope is then too large.
# next: it has to stay at 65,504 or below: round down.
def loss_scale(largest):
    return 2.0 ** np.ceil(np.log2(65504 / largest))


# %% 11.w3: rounded to nearest
# why:  the power of two is rounded to nearest, which now and then is up.
# next: it has to stay at 65,504 or below: round down.
def loss_scale(largest):
    return 2.0 ** round(np.log2(65504 / largest))


# %% 11.w3: up to 65,536
# clause: still is no larger than 65,504
# why:  this goes up to 2^16, and a half ends at 65,504 already.
# next: take 65504 / largest.
def loss_scale(largest):
    return 2.0 ** (16 - np.ceil(np.log2(largest)))


# %% 11.w3: a whole quotient
# why:  // rounds the quotient down before the logarithm, and makes 0 of a quotient below 1.
# next: divide with /.
def loss_scale(largest):
    return 2.0 ** np.floor(np.log2(65504 // largest))


# %% 11.w3: by the bits of the quotient
# why:  int() makes 0 of a quotient below 1: a gradient beyond 131,008 is not divided far enough.
# next: take the logarithm of 65504 / largest, and round it down.
def loss_scale(largest):
    return 2.0 ** (int(65504 / largest).bit_length() - 1)


# %% 11.w3: the exponent
# why:  this is the exponent, and asked is the power of two.
# next: 2.0 ** of it.
def loss_scale(largest):
    return float(np.floor(np.log2(65504 / largest)))


# %% 11.w3: no power of two
# clause: A power of two.
# why:  this is the quotient, and no power of two.
# next: the largest power of two that is no larger than it.
def loss_scale(largest):
    return 65504 / largest


# %% 11.w3: never below 1
# why:  where the largest is too large already, it has to be made smaller.
# next: the factor may be 0.5 and less.
def loss_scale(largest):
    scale = 1.0
    while largest * scale * 2 <= 65504:
        scale *= 2
    return scale


# %% 11.w3: cut off towards 0
# why:  int() cuts a logarithm below 0 off towards 0: the power of two is then rounded up, and the
#   largest gradient is too large.
# next: round the logarithm down, with np.floor.
def loss_scale(largest):
    return 2.0 ** int(np.log2(65504 / largest))


# %% 11.4: no factors
# why:  no product has a factor.
# next: n terms of deviation 1 have a sum of deviation sqrt(n).
def two_layers(x, w1, w2, dy):
    h, dh = x @ w1, dy @ w2.T
    return h, h @ w2, dh, x.T @ dh, h.T @ dy


# %% 11.4: by the number of terms
# clause: so that each has a **deviation from 0.5 to 2**
# why:  this divides by the number of terms, and a sum of n of them grows with the root of n.
# next: divide by np.sqrt of it.
def two_layers(x, w1, w2, dy):
    h = x @ w1 / x.shape[1]
    y = h @ w2 / len(w2)
    dh = dy @ w2.T / dy.shape[1]
    return h, y, dh, x.T @ dh / len(x), h.T @ dy / len(x)


# %% 11.4: forward alone
# clause: Two layers, forward and backward
# why:  forward all is well, and the slopes have no factors.
# next: dh is a sum over the columns of dy; dw1 and dw2 are sums over the samples.
def two_layers(x, w1, w2, dy):
    h = x @ w1 / np.sqrt(x.shape[1])
    y = h @ w2 / np.sqrt(len(w2))
    dh = dy @ w2.T
    return h, y, dh, x.T @ dh, h.T @ dy


# %% 11.4: one factor for a layer
# clause: each times a factor of its own
# why:  all three products of a layer have the same factor. They are sums over different things.
# next: forward over the inputs, dh over the outputs, slopes of weights over the samples.
def two_layers(x, w1, w2, dy):
    one, two = np.sqrt(x.shape[1]), np.sqrt(len(w2))
    h = x @ w1 / one
    dh = dy @ w2.T / two
    return h, h @ w2 / two, dh, x.T @ dh / one, h.T @ dy / two


# %% 11.4: the rows of the left
# why:  a @ b adds as many terms as a has columns. This divides by the root of its rows.
# next: a.shape[1], which is also b.shape[0].
def two_layers(x, w1, w2, dy):
    def scaled(a, b):
        return a @ b / np.sqrt(a.shape[0])

    h, dh = scaled(x, w1), scaled(dy, w2.T)
    return h, scaled(h, w2), dh, scaled(x.T, dh), scaled(h.T, dy)


# %% 11.4: outputs for inputs
# why:  forward it divides by how many outputs there are. A sum has as many terms as there are
#   inputs.
# next: x @ w1 adds over the columns of x.
def two_layers(x, w1, w2, dy):
    h = x @ w1 / np.sqrt(w1.shape[1])
    y = h @ w2 / np.sqrt(w2.shape[1])
    dh = dy @ w2.T / np.sqrt(len(w2))
    batch = np.sqrt(len(x))
    return h, y, dh, x.T @ dh / batch, h.T @ dy / batch


# %% 11.4: slopes as means
# why:  the slopes of the weights are means over the samples: too small by the root of their number.
# next: divide by the root of the samples.
def two_layers(x, w1, w2, dy):
    h = x @ w1 / np.sqrt(x.shape[1])
    y = h @ w2 / np.sqrt(len(w2))
    dh = dy @ w2.T / np.sqrt(dy.shape[1])
    return h, y, dh, x.T @ dh / len(x), h.T @ dy / len(x)


# %% 11.4: the bare ones go on
# clause: Each uses those that you scaled before
# why:  y and dw1 are made of what was not scaled yet.
# next: use the h and the dh that you return.
def two_layers(x, w1, w2, dy):
    h, dh = x @ w1, dy @ w2.T
    batch = np.sqrt(len(x))
    y, dw1 = h @ w2 / np.sqrt(len(w2)), x.T @ dh / batch
    return h / np.sqrt(x.shape[1]), y, dh / np.sqrt(dy.shape[1]), dw1, h.T @ dy / batch


# %% 11.4: the weights scaled once
# why:  the weights are scaled for the way forward, by their inputs, and the same weights go
#   backward. There a sum has as many terms as w2 has columns.
# next: scale each product by itself: dh = dy @ w2.T / sqrt(w2.shape[1]).
def two_layers(x, w1, w2, dy):
    w1, w2 = w1 / np.sqrt(w1.shape[0]), w2 / np.sqrt(w2.shape[0])
    h, dh = x @ w1, dy @ w2.T
    root = np.sqrt(x.shape[0])
    return h, h @ w2, dh, x.T @ dh / root, h.T @ dy / root


# %% 11.4: divided by what came
# clause: that **only the shapes decide**
# not yet: the factor comes from the numbers, and not from the shapes alone
def two_layers(x, w1, w2, dy):
    def scaled(product):
        return product / product.std()

    h, dh = scaled(x @ w1), scaled(dy @ w2.T)
    return h, scaled(h @ w2), dh, scaled(x.T @ dh), scaled(h.T @ dy)


# %% 11.5: always HALF
# clause: off by no more than `error`
# why:  this is HALF for all of them, and one large number beside small ones needs more. (An error
#   worked out from a @ b of numpy knows nothing of the roundings on the way.)
# next: measure how far multiplied(a, b, HALF) is off.
def partials_for(a, b, error):
    return HALF


# %% 11.5: always FLOAT
# clause: with which their product is the quickest
# why:  this is always FLOAT: exact enough, and slow.
# next: where HALF is near enough, take it.
def partials_for(a, b, error):
    return FLOAT


# %% 11.5: by the length of the sum
# why:  this goes by the length of the sums. What stands in them decides.
# next: measure, or add up in sixteens as the device does.
def partials_for(a, b, error):
    return HALF if a.shape[1] < 500 else FLOAT


# %% 11.5: rounded after each product
# why:  this rounds after each product. The device rounds after sixteen, and is nearer.
# next: ask multiplied(a, b, HALF).
def partials_for(a, b, error):
    total = np.zeros((len(a), b.shape[1]), np.float16)
    for i in range(a.shape[1]):
        total = np.float16(total + a[:, i : i + 1] * b[i])
    exact = a.astype(float) @ b.astype(float)
    return HALF if abs(total - exact).max() / abs(exact).max() <= error else FLOAT


# %% 11.5: the mean error
# clause: the largest difference from the exact product
# why:  this takes the mean of the errors, and asked is the largest.
# next: max in place of mean.
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).mean() / abs(exact).max() <= error else FLOAT


# %% 11.5: relative to the mean
# clause: over its largest number
# why:  the largest difference is divided by the mean number of the product, and not by the largest.
# next: abs(found - exact).max() / abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).max() / abs(exact).mean() <= error else FLOAT


# %% 11.5: each element by itself
# why:  this divides each difference by its own element. Asked is the largest difference over the
#   largest number of the whole product.
# next: abs(found - exact).max() / abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if (abs(found - exact) / abs(exact)).max() <= error else FLOAT


# %% 11.5: without abs
# clause: both without their signs
# why:  this looks at differences with their sign: where the sums in HALF are too small, the largest
#   difference is near 0 or below.
# next: abs(found - exact).max() / abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if (found - exact).max() / exact.max() <= error else FLOAT


# %% 11.5: exact in float16
# clause: from the exact product
# why:  the product that is called exact here is one of float16: it is rounded itself.
# next: a.astype(float) @ b.astype(float).
def partials_for(a, b, error):
    exact = (a @ b).astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).max() / abs(exact).max() <= error else FLOAT


# %% 11.5: sixteen after sixteen in numpy
# why:  this adds up all sixteens of a sum one after another. That loses another part of the sum
#   than the device does.
# next: multiplied(a, b, HALF) has the result of the device.
def partials_for(a, b, error):
    total = np.zeros((len(a), b.shape[1]), np.float16)
    for i in range(0, a.shape[1], 16):
        total = np.float16(total + a[:, i : i + 16].astype(float) @ b[i : i + 16].astype(float))
    exact = a.astype(float) @ b.astype(float)
    return HALF if abs(total - exact).max() / abs(exact).max() <= error else FLOAT


# %% 11.5: the difference itself
# why:  this compares the difference itself with the error, which is a share of the largest number.
# next: divide by the largest number of the exact product.
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).max() <= error else FLOAT


# %% 11.5: the other way round
# why:  HALF and FLOAT are exchanged.
# next: HALF where its error is small enough.
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return FLOAT if abs(found - exact).max() / abs(exact).max() <= error else HALF


# %% 11.5: divided by the largest number with its sign
# clause: both without their signs
# why:  the difference is divided by exact.max(). Where all results are negative, their largest
#   absolute value is that of exact.min().
# next: divide by abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    off = np.abs(multiplied(a, b, HALF)[0] - exact).max() / exact.max()
    return HALF if off <= error else FLOAT


# %% 11.5: by the allowed error alone
# why:  this chooses by `error` alone: the numbers of a and b play no part.
# next: compare `error` with how far multiplied(a, b, HALF) is off.
def partials_for(a, b, error):
    return HALF if error >= 0.002 else FLOAT


# %% 11.6: a scale of the mean
# not yet: its largest becomes no number.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        size = np.full(1, abs(values).mean() or 1.0)
        return eight(values, form, numbers.best_scale(size, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the power of two one too small
# why:  the quotient is rounded down. The largest number is then beyond the end.
# next: round up: np.ceil of the log2 of largest / end.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        end = 240 if form is F143 else 57344
        return eight(values, form, int(np.floor(np.log2(abs(values).max() / end))))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: one scale for all
# clause: each with the scale that suits its largest magnitude
# why:  all tensors have the scale of x. The others are larger or smaller.
# next: compute the scale of each tensor from its own values: numbers.best_scale(values, form).
def step(w, x, t, rate, eight):
    scale = numbers.best_scale(x, F143)
    x8 = eight(x, F143, scale)
    error = x8 @ eight(w, F143, scale) - t
    return w - rate / len(x) * x8.T @ eight(error, F152, scale)


# %% 11.6: no scale
# why:  all have the scale 0, whatever their size.
# next: give eight() the scale numbers.best_scale(values, form) for each tensor.
def step(w, x, t, rate, eight):
    x8 = eight(x, F143, 0)
    error = x8 @ eight(w, F143, 0) - t
    return w - rate / len(x) * x8.T @ eight(error, F152, 0)


# %% 11.6: a factor for a scale
# why:  the sign of the scale is turned round: a byte stands for its number times 2 ** scale.
# next: turn the sign of the scale round.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, -numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the error in F143
# clause: and of the error, in F152
# why:  the error is in F143. Its numbers differ more in size than those of w and x.
# next: give eight() the form F152 for the error.
def step(w, x, t, rate, eight):
    def narrow(values):
        return eight(values, F143, numbers.best_scale(values, F143))

    x8 = narrow(x)
    return w - rate / len(x) * x8.T @ narrow(x8 @ narrow(w) - t)


# %% 11.6: the error stays wide
# why:  the error is multiplied as it is, 64 bits wide.
# next: make it 8 bits, in F152, before x.T @ error.
def step(w, x, t, rate, eight):
    x8 = eight(x, F143, numbers.best_scale(x, F143))
    error = x8 @ eight(w, F143, numbers.best_scale(w, F143)) - t
    return w - rate / len(x) * x8.T @ error


# %% 11.6: x wide in the slope
# clause: in each product
# not yet: x.T @ error uses x as it was
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    error = narrow(x, F143) @ narrow(w, F143) - t
    return w - rate / len(x) * x.T @ narrow(error, F152)


# %% 11.6: the error wide in the slope
# not yet: x.T @ error uses error as it was
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    narrow(error, F152)
    return w - rate / len(x) * x8.T @ error


# %% 11.6: w wide in the error
# not yet: x @ w uses w as it was
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8, w8 = narrow(x, F143), narrow(w, F143)
    error = narrow(x8 @ w - t, F152)
    return w - rate / len(w8) * len(w) / len(x) * x8.T @ error


# %% 11.6: converted, and not used
# clause: **before they are multiplied**
# not yet: x @ w uses x as it was
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    narrow(x, F143)
    narrow(w, F143)
    error = x @ w - t
    narrow(error, F152)
    return w - rate / len(x) * x.T @ error


# %% 11.6: the slope, too
# not yet: the gradient, or another tensor, was made 8 bits
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    slope = x8.T @ narrow(error, F152) / len(x)
    return w - rate * narrow(slope, F152)


# %% 11.6: the target, too
# not yet: t is not multiplied, and need not be 8 bits
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - narrow(t, F152)
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the scale twice
# why:  the scale is applied twice: eight() gives numbers back, and not codes.
# next: leave out the factor 2 ** scale: eight() has applied it already.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        scale = numbers.best_scale(values, form)
        return eight(values, form, scale) * 2.0**scale

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: w rounded
# clause: The w that you return is not rounded
# not yet: the w that is returned was rounded to 8 bits. Small steps are then lost
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8, w8 = narrow(x, F143), narrow(w, F143)
    error = x8 @ w8 - t
    return w8 - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: uphill
# clause: Write a step of training
# why:  w goes the other way: the loss grows.
# next: subtract the step from w.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w + rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the sum of the slopes
# why:  w loses rate times the sum of the slopes, and asked is their mean.
# next: divide the gradient by len(x).
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate * x8.T @ narrow(error, F152)


# %% 11.6: the first scales kept
# clause: both w and the error change
# not yet: its largest becomes no number.
kept = {}


def step(w, x, t, rate, eight):
    def narrow(values, form, name):
        kept.setdefault((name, x[0, 0], t[0, 0]), numbers.best_scale(values, form))
        return eight(values, form, kept[name, x[0, 0], t[0, 0]])

    x8 = narrow(x, F143, "x")
    error = x8 @ narrow(w, F143, "w") - t
    return w - rate / len(x) * x8.T @ narrow(error, F152, "error")


# %% 11.4: the bare ones behind both slopes
# why:  dw1 and dw2 are made of h and dh before these were divided.
# next: use the h and the dh that you return.
def two_layers(x, w1, w2, dy):
    h, dh = x @ w1, dy @ w2.T
    batch, hidden = np.sqrt(len(x)), h / np.sqrt(x.shape[1])
    y = hidden @ w2 / np.sqrt(len(w2))
    return hidden, y, dh / np.sqrt(dy.shape[1]), x.T @ dh / batch, h.T @ dy / batch
