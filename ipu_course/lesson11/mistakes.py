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
# clause: rounding up to the number above
# why:  this is the probability of rounding down.
# next: measure the distance from `below` to the value instead.
def chance_up(value, below, above):
    return (above - value) / (above - below)


# %% 11.w1: a fair coin
# clause: the result is right on average
# why:  this is one half for every value between the two numbers, but one half is right only in the
#   middle.
# next: let the probability grow from 0 at `below` to 1 at `above`.
def chance_up(value, below, above):
    return 0.5 if value > below else 0


# %% 11.w1: the way from 0
# why:  this is the fraction of the way from 0 to the number above, but the way begins at the number
#   below.
# next: measure both distances from `below`.
def chance_up(value, below, above):
    return value / above


# %% 11.w1: not divided
# why:  this is the distance from the number below, not a fraction of the distance between the two
#   numbers.
# next: divide by above - below.
def chance_up(value, below, above):
    return value - below


# %% 11.w1: the remainder of a division by the gap
# why:  this is right only if the lower number is a multiple of the gap, as all halves of one size
#   are.
# next: subtract the lower number first.
def chance_up(value, below, above):
    return value / (above - below) % 1


# %% 11.1: a draw more, then to nearest
# why:  this adds a random number from 0 to 1, but the distance between two halves is not 1.
# next: round up if rng.random(values.shape) is less than (value - below) / (above - below).
def stochastic(values, rng):
    return np.float16(values + rng.random(values.shape))


# %% 11.1: towards zero
# clause: Each value becomes one of its two neighbours among the halves
# why:  for negative values, this takes the neighbour nearer to 0 as the half below, so the two
#   numbers are not the neighbours of the value.
# next: use the half below the value for negative values, too: np.nextafter(half,
#   np.float16(-np.inf)).
def stochastic(values, rng):
    half = np.float16(values)
    cut = np.where(abs(half.astype(float)) > abs(values), np.nextafter(half, np.float16(0)), half)
    above = np.nextafter(cut, np.float16(np.inf)).astype(float)
    up = rng.random(values.shape) < abs(values - cut) / abs(above - cut)
    return np.where(up, above, cut).astype(np.float16)


# %% 11.1: the chances swapped
# why:  the probabilities are swapped: a value near the half above is nearly always rounded down.
# next: compare the random number with the fraction of the way from `below` to `above` at which the
#   value is.
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = rng.random(values.shape) > (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: halves move
# clause: A value that is already a half stays
# why:  a value that is already a half changes, but its probability of rounding up is 0.
# next: let `below` be the half itself if the value is a half: np.where(half > values, …, half).
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half >= values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(half, np.float16(np.inf)).astype(float)
    above = np.where(half > values, half, above)
    up = rng.random(values.shape) < (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: one draw for all
# clause: returns a random number from 0 to 1 for each value
# why:  one random number decides for all values, so they are all rounded up or down together.
# next: use rng.random(values.shape), which has a random number for each value.
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = rng.random() < (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: a fair coin
# clause: so that the result is right on average
# why:  rounding up and down have the same probability, whatever the value is.
# next: compare the random number with the fraction of the way from `below` to `above` at which the
#   value is.
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf))
    up = (rng.random(values.shape) < 0.5) & (below != values)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: no even steps about zero
# clause: `np.nextafter(half, np.float16(np.inf))` is the next half above
# why:  below 2^-14 all halves are 2^-24 apart, but the steps here become smaller, and np.float16
#   then rounds to nearest.
# next: get the two neighbours with np.nextafter, or use steps of at least 2 ** -24.
def stochastic(values, rng):
    power = np.floor(np.log2(np.where(values == 0, 1, abs(values))))
    step = 2.0 ** (power - 10)
    whole = np.floor(values / step)
    up = rng.random(values.shape) < values / step - whole
    return np.float16((whole + up) * step)


# %% 11.1: to nearest
# clause: Round `values`, an array of float64, to halves at random
# why:  this rounds to nearest, so a value always becomes the same half.
# next: let a random number decide between the half below and the half above.
def stochastic(values, rng):
    return np.float16(values)


# %% 11.1: a generator of its own
# not yet: two generators gave the same results
def stochastic(values, rng):
    draws = np.random.default_rng(0)
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = draws.random(values.shape) < (values - below) / (above - below)
    return np.where(up, above, below).astype(np.float16)


# %% 11.1: the nearest half for the one below
# why:  this always uses the nearest half as the half below, but the nearest half can be above the
#   value. Then the value is always rounded up.
# next: where the nearest half is above the value, take np.nextafter(half, np.float16(-np.inf)) as
#   the half below.
def stochastic(values, rng):
    below = np.float16(values)
    above = np.nextafter(below, np.float16(np.inf))
    gap = above.astype(float) - below.astype(float)
    chance = (values - below.astype(float)) / gap
    return np.where(rng.random(values.shape) < chance, above, below)


# %% 11.2: the variance
# clause: the square root of the variance
# why:  the second number is the variance, but the exercise asks for the standard deviation.
# next: return np.sqrt of the variance.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, grid**2 * times * up * (1 - up)


# %% 11.2: no root, and the grid not squared
# why:  this adds up grid * p * (1 - p), but the variance of a step has the square of `grid`, and
#   the exercise asks for the root of the sum.
# next: square `grid`, and take the root at the end.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, times * grid * up * (1 - up)


# %% 11.2: the root of the grid
# why:  this takes the root of grid * p * (1 - p), but the variance of a step has the square of
#   `grid`.
# next: square `grid` before you take the root.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, np.sqrt(times * grid * up * (1 - up))


# %% 11.2: of one step
# why:  this is the standard deviation of a single step, but the variances of `times` steps add up.
# next: multiply the variance by `times` before you take the root.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, grid * np.sqrt(up * (1 - up))


# %% 11.2: no spread
# clause: without random numbers
# why:  the mean is right, but the standard deviation is not 0: the sum has random steps.
# next: compute the variance of one step first; the variances of independent steps add up.
def after(step, grid, times):
    return times * step, 0.0


# %% 11.2: to nearest
# clause: each rounded at random
# why:  the mean uses each step rounded to nearest, but at random a step keeps its value on average.
# next: return times * step as the mean.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * np.round(step / grid) * grid, grid * np.sqrt(times * up * (1 - up))


# %% 11.2: the chances swapped
# why:  the probabilities of rounding up and down are swapped.
# next: draw one step on the ruler: the probability of rounding up is the fraction of the gap by
#   which the step is beyond the mark below it.
def after(step, grid, times):
    low = np.floor(step / grid)
    up = 1 - (step / grid - low) if step / grid > low else 0.0
    return times * (low + up) * grid, grid * np.sqrt(times * up * (1 - up))


# %% 11.2: deviations added up
# clause: (mean, standard deviation)
# why:  this adds up the standard deviations of the steps, but the variances of independent steps
#   add up.
# next: multiply the standard deviation of a step by np.sqrt(times) instead of `times`.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, grid * times * np.sqrt(up * (1 - up))


# %% 11.2: rounded once, at the end
# clause: make `times` steps of `step`
# why:  this rounds the sum once, at the end, but the exercise rounds after each step.
# next: compute the variance of one step, and add it up over all steps.
def after(step, grid, times):
    end = times * step / grid
    up = end - np.floor(end)
    return times * step, grid * np.sqrt(up * (1 - up))


# %% 11.2: a grid of 1
# clause: marks at a distance of `grid`
# why:  the standard deviation is in units of the grid.
# next: multiply the standard deviation by `grid`.
def after(step, grid, times):
    up = step / grid - np.floor(step / grid)
    return times * step, np.sqrt(times * up * (1 - up))


# %% 11.2: one mark taken away
# why:  this probability is right only for a step between one mark and two marks.
# next: draw one step on the ruler: the probability of rounding up is the fraction of the gap by
#   which the step is beyond the mark below it.
def after(step, grid, times):
    p = step / grid - 1
    return times * step, grid * abs(times * p * (1 - p)) ** 0.5


# %% 11.2: the chance without the grid
# why:  the probability does not use the grid, as if there were a mark at every whole number.
# next: draw one step on the ruler: the probability of rounding up is the fraction of the gap by
#   which the step is beyond the mark below it.
def after(step, grid, times):
    p = step % 1
    return times * step, grid * (times * p * (1 - p)) ** 0.5


# %% 11.2: the mean on a mark
# why:  the standard deviation is right, but the mean is rounded to a mark, and a mean need not be a
#   mark.
# next: return times * step as the mean.
def after(step, grid, times):
    p = step / grid % 1
    return round(times * step / grid) * grid, grid * (times * p * (1 - p)) ** 0.5


# %% 11.2: the chance of the sum
# why:  this is the probability for the whole sum, but each step is rounded separately.
# next: draw one step on the ruler: the probability of rounding up is the fraction of the gap by
#   which the step is beyond the mark below it.
def after(step, grid, times):
    p = times * step / grid % 1
    return times * step, grid * (times * p * (1 - p)) ** 0.5


# %% 11.2: an even error
# why:  this is the standard deviation of an error that can have every size up to a gap. Here, each
#   step goes to one of two marks, with probabilities that depend on the step.
# next: use the variance of a choice between two marks: grid² p (1 - p), with the probability p of
#   the upper one.
def after(step, grid, times):
    return step * times, grid * (times / 12) ** 0.5


# %% 11.2: more than one gap
# why:  step / grid may be larger than 1, or negative. The probability of rounding up is only what
#   is left after whole gaps.
# next: subtract np.floor(step / grid).
def after(step, grid, times):
    up = step / grid
    return times * step, grid * abs(times * up * (1 - up)) ** 0.5


# %% 11.2: the root of a negative variance
# why:  the variance is negative, so it has no root. step / grid may be larger than 1, or negative,
#   and a probability is from 0 to 1.
# next: draw one step on the ruler: the probability of rounding up is the fraction of the gap by
#   which the step is beyond the mark below it.
def after(step, grid, times):
    import math

    p = step / grid
    return times * step, grid * math.sqrt(times * p * (1 - p))


# %% 11.w2: always a whole one
# clause: Which number does a byte stand for?
# why:  this adds 1 to the fraction for every exponent, but there is no 1 if the exponent is 0.
# next: leave out the 1 + if the exponent is 0; the power of two is then that of the exponent 1.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    size = (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)
    return -size if code > 128 else size


# %% 11.w2: even steps half as large
# why:  for the exponent 0, the numbers are half as large as they should be.
# next: use 2.0 ** (1 - bias) for the exponent 0, as for the exponent 1.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    size = ((exponent > 0) + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)
    return -size if code > 128 else size


# %% 11.w2: the sign in the exponent
# why:  the sign bit is still part of the exponent, so negative numbers are far too large.
# next: split code % 128 instead of `code`.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code, 2**mantissa_bits)
    whole = 1 if exponent else 0
    size = (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code > 128 else size


# %% 11.w2: minus zero
# clause: return `float("nan")` for NaN
# why:  this gives the code 0x80, which is 128, the value minus zero. In these formats it is not a
#   number.
# next: return float("nan") for the code 0x80.
def decode(code, mantissa_bits, bias):
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    whole = 1 if exponent else 0
    size = (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code >= 128 else size


# %% 11.w2: 0x80 with the positive codes
# why:  the code 0x80, which is 128, is treated like a positive number. In these formats it is not a
#   number.
# next: return float("nan") for the code 0x80.
def decode(code, mantissa_bits, bias):
    sign = -1 if code > 128 else 1
    exponent, mantissa = divmod(code - 128 if code > 128 else code, 2**mantissa_bits)
    whole = 1 if exponent else 0
    return sign * (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)


# %% 11.w2: no sign
# why:  the first bit, which is the sign, is ignored.
# next: return negative numbers for codes above 0x80.
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code % 128, 2**mantissa_bits)
    whole = 1 if exponent else 0
    return (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)


# %% 11.3: the bias of others
# why:  this uses a bias that is one less, as in another vendor's format.
# next: use the argument `bias` unchanged.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias - 1) - abs(value)), code % 2

    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: nothing below the normal numbers
# why:  values below the smallest normal number become 0 or that number, but the subnormal numbers
#   are nearer.
# next: also try the codes with the exponent 0: all of range(128).
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    code = min([0, *range(2**mantissa_bits, 128)], key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: minus zero
# clause: A value that becomes 0 has the code 0, whatever its sign
# why:  a negative value that becomes 0 gets the code 0x80, which is not a number here.
# next: add 128 for a negative value only if the code is not 0.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    code = min(range(128), key=away)
    return code + 128 if value < 0 else code


# %% 11.3: too large is no number
# clause: A value beyond the largest number becomes the largest number with the same sign
# why:  a value that is too large becomes NaN, but it should become the largest number.
# next: leave out the case for large values: the search returns the nearest number, which is the
#   largest.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    if abs(value) > decode(127, mantissa_bits, bias):
        return 0x80
    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: halfway goes up
# clause: return the **even code**
# why:  a value halfway between two numbers gets the larger one, but the even code should win.
# next: let an even code win a tie: give min() something else to compare after the distance.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), -code

    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: halfway goes down
# why:  a value halfway between two numbers gets the smaller one, but the even code should win.
# next: let an even code win a tie: give min() something else to compare after the distance.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value))

    code = min(range(128), key=away)
    return code + 128 if value < 0 and code else code


# %% 11.3: cut off
# clause: is the **nearest** to
# why:  this returns the next smaller number, even if the next larger number is nearer.
# next: compare the distances of both, and return the nearer one.
def encode(value, mantissa_bits, bias):
    code = max(c for c in range(128) if decode(c, mantissa_bits, bias) <= abs(value))
    return code + 128 if value < 0 and code else code


# %% 11.3: no sign
# why:  a negative value gets the code of the positive number.
# next: add 128 for a negative value whose code is not 0.
def encode(value, mantissa_bits, bias):
    def away(code):
        return abs(decode(code, mantissa_bits, bias) - abs(value)), code % 2

    return min(range(128), key=away)


# %% 11.w3: rounded up
# clause: What is the largest power of two
# why:  the exponent is rounded up, so the scaled gradient is larger than 65,504.
# next: round the logarithm down with np.floor.
def loss_scale(largest):
    return 2.0 ** np.ceil(np.log2(65504 / largest))


# %% 11.w3: rounded to nearest
# why:  the exponent is rounded to nearest, so the scaled gradient can be larger than 65,504.
# next: round the logarithm down with np.floor.
def loss_scale(largest):
    return 2.0 ** round(np.log2(65504 / largest))


# %% 11.w3: no logarithm
# why:  2 is raised to the quotient 65504 / largest itself, so the result is far too large.
# next: find the largest whole number e for which 2 ** e is not above the quotient.
def loss_scale(largest):
    return 2.0 ** np.floor(65504 / largest)


# %% 11.w3: up to 65,536
# clause: the product is at most 65,504
# why:  this lets the gradient reach 2^16 = 65,536, but the largest half is 65,504.
# next: take the logarithm of 65504 / largest.
def loss_scale(largest):
    return 2.0 ** (16 - np.ceil(np.log2(largest)))


# %% 11.w3: a whole quotient
# why:  // rounds the quotient down before the logarithm, so a quotient below 1 becomes 0.
# next: divide with / instead of //.
def loss_scale(largest):
    return 2.0 ** np.floor(np.log2(65504 // largest))


# %% 11.w3: by the bits of the quotient
# why:  int() turns a quotient below 1 into 0, so a very large gradient is not made small enough.
# next: round np.log2(65504 / largest) down with np.floor.
def loss_scale(largest):
    return 2.0 ** (int(65504 / largest).bit_length() - 1)


# %% 11.w3: the exponent
# why:  this is the exponent, but the exercise asks for the power of two.
# next: return 2.0 ** exponent.
def loss_scale(largest):
    return float(np.floor(np.log2(65504 / largest)))


# %% 11.w3: no power of two
# clause: Return a power of two.
# why:  this is the quotient 65504 / largest, which is not a power of two.
# next: return the largest power of two that is not above the quotient.
def loss_scale(largest):
    return 65504 / largest


# %% 11.w3: never below 1
# why:  this is never below 1, but a gradient above 65,504 must be made smaller.
# next: also allow factors below 1, such as 0.5.
def loss_scale(largest):
    scale = 1.0
    while largest * scale * 2 <= 65504:
        scale *= 2
    return scale


# %% 11.w3: cut off towards 0
# why:  int() rounds a negative logarithm up, towards 0, so the scaled gradient is larger than
#   65,504.
# next: round the logarithm down with np.floor.
def loss_scale(largest):
    return 2.0 ** int(np.log2(65504 / largest))


# %% 11.4: no factors
# why:  no product has a factor, so the standard deviations grow.
# next: divide each product by np.sqrt(n), where n is the number of terms in its sums.
def two_layers(x, w1, w2, dy):
    h, dh = x @ w1, dy @ w2.T
    return h, h @ w2, dh, x.T @ dh, h.T @ dy


# %% 11.4: by the number of terms
# clause: so that each result has a **standard deviation from 0.5 to 2**
# why:  this divides by n, the number of terms, but the sum of n terms has the standard deviation
#   sqrt(n).
# next: divide by np.sqrt(n).
def two_layers(x, w1, w2, dy):
    h = x @ w1 / x.shape[1]
    y = h @ w2 / len(w2)
    dh = dy @ w2.T / dy.shape[1]
    return h, y, dh, x.T @ dh / len(x), h.T @ dy / len(x)


# %% 11.4: forward alone
# clause: Take two layers, forward and backward
# why:  the forward products are right, but dh, dw1 and dw2 have no factors.
# next: divide dh by the root of the columns of dy, and dw1 and dw2 by the root of the samples.
def two_layers(x, w1, w2, dy):
    h = x @ w1 / np.sqrt(x.shape[1])
    y = h @ w2 / np.sqrt(len(w2))
    dh = dy @ w2.T
    return h, y, dh, x.T @ dh, h.T @ dy


# %% 11.4: one factor for a layer
# clause: each times its own factor
# why:  all products of a layer have the same factor, but their sums have different numbers of
#   terms.
# next: divide by the root of the inputs in the forward pass, of the outputs for dh, and of the
#   samples for dw1 and dw2.
def two_layers(x, w1, w2, dy):
    one, two = np.sqrt(x.shape[1]), np.sqrt(len(w2))
    h = x @ w1 / one
    dh = dy @ w2.T / two
    return h, h @ w2 / two, dh, x.T @ dh / one, h.T @ dy / two


# %% 11.4: the rows of the left
# why:  this divides a @ b by the root of the rows of `a`, but its sums have as many terms as `a`
#   has columns.
# next: use a.shape[1] instead of a.shape[0].
def two_layers(x, w1, w2, dy):
    def scaled(a, b):
        return a @ b / np.sqrt(a.shape[0])

    h, dh = scaled(x, w1), scaled(dy, w2.T)
    return h, scaled(h, w2), dh, scaled(x.T, dh), scaled(h.T, dy)


# %% 11.4: outputs for inputs
# why:  the forward products are divided by the root of the outputs, but their sums have as many
#   terms as there are inputs.
# next: divide x @ w1 by np.sqrt(x.shape[1]), and h @ w2 by np.sqrt(h.shape[1]).
def two_layers(x, w1, w2, dy):
    h = x @ w1 / np.sqrt(w1.shape[1])
    y = h @ w2 / np.sqrt(w2.shape[1])
    dh = dy @ w2.T / np.sqrt(len(w2))
    batch = np.sqrt(len(x))
    return h, y, dh, x.T @ dh / batch, h.T @ dy / batch


# %% 11.4: slopes as means
# why:  dw1 and dw2 are divided by the number of samples, so they are too small.
# next: divide them by np.sqrt of the number of samples.
def two_layers(x, w1, w2, dy):
    h = x @ w1 / np.sqrt(x.shape[1])
    y = h @ w2 / np.sqrt(len(w2))
    dh = dy @ w2.T / np.sqrt(dy.shape[1])
    return h, y, dh, x.T @ dh / len(x), h.T @ dy / len(x)


# %% 11.4: the bare ones go on
# clause: Compute `y` and `dw2` from the scaled `h`, and `dw1` from the scaled `dh`
# why:  y and dw1 are computed from h and dh before these are scaled.
# next: use the scaled h and dh, which you return.
def two_layers(x, w1, w2, dy):
    h, dh = x @ w1, dy @ w2.T
    batch = np.sqrt(len(x))
    y, dw1 = h @ w2 / np.sqrt(len(w2)), x.T @ dh / batch
    return h / np.sqrt(x.shape[1]), y, dh / np.sqrt(dy.shape[1]), dw1, h.T @ dy / batch


# %% 11.4: the weights scaled once
# why:  dh has the factor of the forward product h @ w2, but the sums in dy @ w2.T have another
#   number of terms.
# next: compute dh from the w2 that you are given: dh = dy @ w2.T / np.sqrt(w2.shape[1]).
def two_layers(x, w1, w2, dy):
    w1, w2 = w1 / np.sqrt(w1.shape[0]), w2 / np.sqrt(w2.shape[0])
    h, dh = x @ w1, dy @ w2.T
    root = np.sqrt(x.shape[0])
    return h, h @ w2, dh, x.T @ dh / root, h.T @ dy / root


# %% 11.4: divided by what came
# clause: **Only the shapes decide** the factors
# not yet: the factor depends on the numbers, but it should depend only on the shapes
def two_layers(x, w1, w2, dy):
    def scaled(product):
        return product / product.std()

    h, dh = scaled(x @ w1), scaled(dy @ w2.T)
    return h, scaled(h @ w2), dh, scaled(x.T @ dh), scaled(h.T @ dy)


# %% 11.5: always HALF
# clause: off by no more than `error`
# why:  this always returns HALF, but a large number next to small ones needs FLOAT.
# next: compute the error of the product that multiplied() returns for HALF, and compare it with
#   `error`.
def partials_for(a, b, error):
    return HALF


# %% 11.5: always FLOAT
# clause: as fast as possible
# why:  this always returns FLOAT, which is slower than necessary if HALF is exact enough.
# next: compute the error of the product that multiplied() returns for HALF, and compare it with
#   `error`.
def partials_for(a, b, error):
    return FLOAT


# %% 11.5: by the length of the sum
# why:  this decides by the length of the sums, but the error depends on the numbers in them.
# next: compute the error of the product that multiplied() returns for HALF, and compare it with
#   `error`.
def partials_for(a, b, error):
    return HALF if a.shape[1] < 500 else FLOAT


# %% 11.5: rounded after each product
# why:  this rounds after each product, but the device rounds after sixteen, so its error is
#   smaller.
# next: use the result of multiplied(a, b, HALF), which the device computes.
def partials_for(a, b, error):
    total = np.zeros((len(a), b.shape[1]), np.float16)
    for i in range(a.shape[1]):
        total = np.float16(total + a[:, i : i + 1] * b[i])
    exact = a.astype(float) @ b.astype(float)
    return HALF if abs(total - exact).max() / abs(exact).max() <= error else FLOAT


# %% 11.5: the mean error
# clause: the largest difference from the exact product
# why:  this uses the mean of the differences, but the exercise asks for the largest.
# next: use max() instead of mean().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).mean() / abs(exact).max() <= error else FLOAT


# %% 11.5: relative to the mean
# clause: divided by the largest number of the exact product
# why:  the largest difference is divided by the mean of the product, not by its largest number.
# next: compute abs(product - exact).max() / abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).max() / abs(exact).mean() <= error else FLOAT


# %% 11.5: each element by itself
# why:  each difference is divided by its own element, but it should be divided by the largest
#   number of the product.
# next: compute abs(product - exact).max() / abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if (abs(found - exact) / abs(exact)).max() <= error else FLOAT


# %% 11.5: without abs
# clause: both without their signs
# why:  the differences keep their sign, so negative differences are ignored.
# next: compute abs(product - exact).max() / abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if (found - exact).max() / exact.max() <= error else FLOAT


# %% 11.5: exact in float16
# clause: from the exact product
# why:  the exact product is computed in float16 here, which rounds it, too.
# next: compute the exact product as a.astype(float) @ b.astype(float).
def partials_for(a, b, error):
    exact = (a @ b).astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).max() / abs(exact).max() <= error else FLOAT


# %% 11.5: sixteen after sixteen in numpy
# why:  this adds all groups of sixteen one after another, but the device adds them in another
#   order.
# next: use the result of multiplied(a, b, HALF), which the device computes.
def partials_for(a, b, error):
    total = np.zeros((len(a), b.shape[1]), np.float16)
    for i in range(0, a.shape[1], 16):
        total = np.float16(total + a[:, i : i + 16].astype(float) @ b[i : i + 16].astype(float))
    exact = a.astype(float) @ b.astype(float)
    return HALF if abs(total - exact).max() / abs(exact).max() <= error else FLOAT


# %% 11.5: the difference itself
# why:  this compares the difference itself with `error`, but `error` is relative to the largest
#   number.
# next: divide by abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if abs(found - exact).max() <= error else FLOAT


# %% 11.5: the other way round
# why:  HALF and FLOAT are swapped: HALF is returned if its error is too large.
# next: compute the error of the product that multiplied() returns for HALF, and compare it with
#   `error`.
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return FLOAT if abs(found - exact).max() / abs(exact).max() <= error else HALF


# %% 11.5: divided by the largest number with its sign
# clause: both without their signs
# why:  the difference is divided by exact.max(), which is negative if all numbers are negative.
# next: divide by abs(exact).max().
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    off = np.abs(multiplied(a, b, HALF)[0] - exact).max() / exact.max()
    return HALF if off <= error else FLOAT


# %% 11.5: by the allowed error alone
# why:  this looks only at `error`, and not at the numbers of `a` and `b`.
# next: compute the error of the product that multiplied() returns for HALF, and compare it with
#   `error`.
def partials_for(a, b, error):
    return HALF if error >= 0.002 else FLOAT


# %% 11.6: a scale of the mean
# not yet: with this scale, the largest value becomes NaN.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        size = np.full(1, abs(values).mean() or 1.0)
        return eight(values, form, numbers.best_scale(size, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the power of two one too small
# why:  the exponent of the scale is rounded down, so the largest value is beyond the end of the
#   range.
# next: use numbers.best_scale(values, form), which rounds up.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        end = 240 if form is F143 else 57344
        return eight(values, form, int(np.floor(np.log2(abs(values).max() / end))))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: one scale for all
# clause: with the scale that suits its largest magnitude
# why:  all tensors have the scale of x, but their values are larger or smaller.
# next: compute the scale of each tensor from its own values: numbers.best_scale(values, form).
def step(w, x, t, rate, eight):
    scale = numbers.best_scale(x, F143)
    x8 = eight(x, F143, scale)
    error = x8 @ eight(w, F143, scale) - t
    return w - rate / len(x) * x8.T @ eight(error, F152, scale)


# %% 11.6: no scale
# why:  all tensors have the scale 0, whatever their values are.
# next: pass the scale numbers.best_scale(values, form) to eight() for each tensor.
def step(w, x, t, rate, eight):
    x8 = eight(x, F143, 0)
    error = x8 @ eight(w, F143, 0) - t
    return w - rate / len(x) * x8.T @ eight(error, F152, 0)


# %% 11.6: a factor for a scale
# why:  the scale has the wrong sign: a byte stands for its number times 2 ** scale.
# next: pass numbers.best_scale(values, form) without the minus sign.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, -numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the error in F143
# clause: the error to 8 bits in F152
# why:  the error is in F143, but its values differ too much in size for that format.
# next: pass the form F152 to eight() for the error.
def step(w, x, t, rate, eight):
    def narrow(values):
        return eight(values, F143, numbers.best_scale(values, F143))

    x8 = narrow(x)
    return w - rate / len(x) * x8.T @ narrow(x8 @ narrow(w) - t)


# %% 11.6: the error stays wide
# why:  x.T @ error uses the error without conversion, 64 bits wide.
# next: convert the error to 8 bits in F152 before this product.
def step(w, x, t, rate, eight):
    x8 = eight(x, F143, numbers.best_scale(x, F143))
    error = x8 @ eight(w, F143, numbers.best_scale(w, F143)) - t
    return w - rate / len(x) * x8.T @ error


# %% 11.6: x wide in the slope
# clause: In each product
# not yet: x.T @ error uses x without conversion
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    error = narrow(x, F143) @ narrow(w, F143) - t
    return w - rate / len(x) * x.T @ narrow(error, F152)


# %% 11.6: the error wide in the slope
# not yet: x.T @ error uses error without conversion
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    narrow(error, F152)
    return w - rate / len(x) * x8.T @ error


# %% 11.6: w wide in the error
# not yet: x @ w uses w without conversion
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8, w8 = narrow(x, F143), narrow(w, F143)
    error = narrow(x8 @ w - t, F152)
    return w - rate / len(w8) * len(w) / len(x) * x8.T @ error


# %% 11.6: converted, and not used
# clause: **before they are multiplied**
# not yet: x @ w uses x without conversion
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    narrow(x, F143)
    narrow(w, F143)
    error = x @ w - t
    narrow(error, F152)
    return w - rate / len(x) * x.T @ error


# %% 11.6: the slope, too
# not yet: the gradient, or another tensor, was converted to 8 bits
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    slope = x8.T @ narrow(error, F152) / len(x)
    return w - rate * narrow(slope, F152)


# %% 11.6: the target, too
# not yet: t is subtracted, not multiplied, so it need not have 8 bits
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - narrow(t, F152)
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the scale twice
# why:  the scale is applied twice, since eight() has already multiplied by 2 ** scale.
# next: leave out the factor 2 ** scale.
def step(w, x, t, rate, eight):
    def narrow(values, form):
        scale = numbers.best_scale(values, form)
        return eight(values, form, scale) * 2.0**scale

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: w rounded
# clause: The w that you return is not rounded
# not yet: the returned w was rounded to 8 bits, so small steps are lost
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8, w8 = narrow(x, F143), narrow(w, F143)
    error = x8 @ w8 - t
    return w8 - rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: uphill
# clause: Write a training step
# why:  this adds the step to w, so the loss grows.
# next: subtract the step from w: w - rate / len(x) * …
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w + rate / len(x) * x8.T @ narrow(error, F152)


# %% 11.6: the sum of the slopes
# why:  this subtracts `rate` times the sum of the gradients, but the exercise asks for their mean.
# next: divide the gradient by len(x).
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8 = narrow(x, F143)
    error = x8 @ narrow(w, F143) - t
    return w - rate * x8.T @ narrow(error, F152)


# %% 11.6: the first scales kept
# clause: both w and the error change
# not yet: with this scale, the largest value becomes NaN.
kept = {}


def step(w, x, t, rate, eight):
    def narrow(values, form, name):
        kept.setdefault((name, x[0, 0], t[0, 0]), numbers.best_scale(values, form))
        return eight(values, form, kept[name, x[0, 0], t[0, 0]])

    x8 = narrow(x, F143, "x")
    error = x8 @ narrow(w, F143, "w") - t
    return w - rate / len(x) * x8.T @ narrow(error, F152, "error")


# %% 11.4: the bare ones behind both slopes
# why:  dw1 and dw2 are computed from h and dh before these are scaled.
# next: use the scaled h and dh, which you return.
def two_layers(x, w1, w2, dy):
    h, dh = x @ w1, dy @ w2.T
    batch, hidden = np.sqrt(len(x)), h / np.sqrt(x.shape[1])
    y = hidden @ w2 / np.sqrt(len(w2))
    return hidden, y, dh / np.sqrt(dy.shape[1]), x.T @ dh / batch, h.T @ dy / batch
