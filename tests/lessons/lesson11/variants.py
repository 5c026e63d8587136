# %% given
"""Mistakes of lesson 11 written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import FLOAT, HALF
from ipu_teach.types import numbers

decode, multiplied, F143, F152 = (
    given_to("11.1")[name] for name in ("decode", "multiplied", "F143", "F152")
)


# %% 11.1: less than half of the draws
# like: a fair coin
def stochastic(values, rng):
    near = np.float16(values)
    away = np.where(values > near, np.inf, -np.inf).astype(np.float16)
    other = np.nextafter(near, away)
    move = (rng.random(values.shape) >= 0.5) & (near != values)
    return np.where(move, other, near)


# %% 11.1: by power of two, the wrong way
# like: the chances swapped
def stochastic(values, rng):
    step = np.ldexp(1.0, np.maximum(np.frexp(values)[1] - 1, -14) - 10)
    whole = np.floor(values / step)
    part = values / step - whole
    return np.float16((whole + ((rng.random(values.shape) >= part) & (part > 0))) * step)


# %% 11.1: float16 alone
# like: to nearest
def stochastic(values, rng):
    return values.astype(np.float16)


# %% 11.1: steps that go on shrinking, by frexp
# like: no even steps about zero
def stochastic(values, rng):
    step = np.ldexp(1.0, np.frexp(values)[1] - 11)
    whole = np.floor(values / step)
    return ((whole + (rng.random(values.shape) < values / step - whole)) * step).astype(np.float16)


# %% 11.2: the squares of it
# like: the variance
def after(step, grid, times):
    part = step % grid
    return step * times, times * part * (grid - part)


# %% 11.2: step by step
# like: deviations added up
def after(step, grid, times):
    mean = spread = 0.0
    part = (step / grid) % 1
    for _ in range(times):
        mean += step
        spread += grid * (part * (1 - part)) ** 0.5
    return mean, spread


# %% 11.2: in marks
# like: a grid of 1
def after(step, grid, times):
    part = (step / grid) % 1
    return step * times, (times * part * (1 - part)) ** 0.5


# %% 11.3: with bits
# like: minus zero
def encode(value, mantissa_bits, bias):
    away = [abs(decode(c, mantissa_bits, bias) - abs(value)) for c in range(128)]
    code = min(range(128), key=lambda c: (away[c], c & 1))
    return code | 0x80 if value < 0 else code


# %% 11.3: a loop that keeps the first
# like: halfway goes down
def encode(value, mantissa_bits, bias):
    best = 0
    for code in range(128):
        here, there = (abs(decode(c, mantissa_bits, bias) - abs(value)) for c in (code, best))
        if here < there:
            best = code
    return best + 128 if value < 0 and best else best


# %% 11.3: a loop that keeps the last
# like: halfway goes up
def encode(value, mantissa_bits, bias):
    best = 0
    for code in range(128):
        here, there = (abs(decode(c, mantissa_bits, bias) - abs(value)) for c in (code, best))
        if here <= there:
            best = code
    return best + 128 if value < 0 and best else best


# %% 11.3: not yet too large
# like: cut off
def encode(value, mantissa_bits, bias):
    code = 0
    while code < 127 and decode(code + 1, mantissa_bits, bias) <= abs(value):
        code += 1
    return code | 128 if value < 0 and code else code


# %% 11.4: with a helper
# like: by the number of terms
def two_layers(x, w1, w2, dy):
    def product(a, b):
        return a @ b / a.shape[1]

    h, dh = product(x, w1), product(dy, w2.T)
    return h, product(h, w2), dh, product(x.T, dh), product(h.T, dy)


# %% 11.4: all as it is
# like: no factors
def two_layers(x, w1, w2, dy):
    h = x.dot(w1)
    dh = dy.dot(w2.T)
    return [h, h.dot(w2), dh, x.T.dot(dh), h.T.dot(dy)]


# %% 11.5: a dtype for all
# like: always HALF
def partials_for(a, b, error):
    return HALF if error > 0 else FLOAT


# %% 11.5: singles
# like: always HALF
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    single = np.float16(a.astype(np.float32) @ b.astype(np.float32))
    return FLOAT if np.max(abs(single - exact)) > error * np.max(abs(exact)) else HALF


# %% 11.6: all in one format
# like: the error in F143
def step(w, x, t, rate, eight):
    x8, w8 = (eight(part, F143, numbers.best_scale(part, F143)) for part in (x, w))
    error = x8 @ w8 - t
    error = eight(error, F143, numbers.best_scale(error, F143))
    return w - rate * (x8.T @ error) / len(x)


# %% 11.6: w in place
# like: w rounded
def step(w, x, t, rate, eight):
    x8, now = (eight(part, F143, numbers.best_scale(part, F143)) for part in (x, w))
    error = x8 @ now - t
    now -= rate / len(x) * (x8.T @ eight(error, F152, numbers.best_scale(error, F152)))
    return now
