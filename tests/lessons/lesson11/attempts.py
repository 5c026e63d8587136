


# %% given
"""Mistakes of lesson 11 written otherwise."""

import numpy as np

from ipu_course.checking.mistakes import given_to
from ipu_teach import FLOAT, HALF
from ipu_teach.types import numbers

decode, multiplied, F143, F152 = (
    given_to("11.1")[name] for name in ("decode", "multiplied", "F143", "F152")
)


# %% 11.w1: one less the other
# passed: sets of numbers
def chance_up(value, below, above):
    return 1 - (above - value) / (above - below)


# %% 11.1: by steps of a power of two
# passed: 17 values
def stochastic(values, rng):
    power = np.floor(np.log2(np.where(values == 0, 1, np.abs(values))))
    step = 2.0 ** np.maximum(power - 10, -24)
    whole = np.floor(values / step)
    return np.float16((whole + (rng.random(values.shape) < values / step - whole)) * step)


# %% 11.1: a draw more, then down
# passed: 17 values
def stochastic(values, rng):
    power = np.frexp(values)[1] - 1
    step = np.ldexp(1.0, np.maximum(power, -14) - 10)
    return (np.floor(values / step + rng.uniform(size=values.shape)) * step).astype(np.float16)


# %% 11.1: one after the other in rows
# passed: 17 values
def stochastic(values, rng):
    rows = []
    for row in values:
        near = row.astype(np.float16).astype(float)
        away = np.where(row > near, np.inf, -np.inf).astype(np.float16)
        other = np.nextafter(row.astype(np.float16), away).astype(float)
        move = rng.random(row.shape) < np.abs(row - near) / np.abs(other - near)
        rows.append(np.where(move, other, near))
    return np.array(rows, np.float16)


# %% 11.1: numpy's own draws
# passed: 17 values
def stochastic(values, rng):
    half = values.astype(np.float16).astype(float)
    step = np.where(values > half, np.inf, -np.inf)
    other = np.nextafter(half.astype(np.float16), step.astype(np.float16)).astype(float)
    p = (values - half) / (other - half)
    return np.where(np.random.random(values.shape) < p, other, half).astype(np.float16)


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


# %% 11.1: in float64
# clause: Return `values` as float16
# not yet: float64
def stochastic(values, rng):
    half = np.float16(values)
    below = np.where(half > values, np.nextafter(half, np.float16(-np.inf)), half)
    above = np.nextafter(below, np.float16(np.inf)).astype(float)
    up = rng.random(values.shape) < (values - below) / (above - below)
    return np.where(up, above, below)


# %% 11.2: the mean of squares
# passed: sets of numbers
def after(step, grid, times):
    import math

    low = math.floor(step / grid) * grid
    up = (step - low) / grid
    mean = low + up * grid
    squares = (1 - up) * low**2 + up * (low + grid) ** 2
    return times * mean, math.sqrt(max(0.0, times * (squares - mean**2)))


# %% 11.2: without the mark below
# passed: sets of numbers
def after(step, grid, times):
    part = step % grid
    return step * times, (times * part * (grid - part)) ** 0.5


# %% 11.2: as an array
# passed: sets of numbers
def after(step, grid, times):
    part = (step / grid) % 1
    return np.array([step * times, grid * (part - part * part) ** 0.5 * times**0.5])


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


# %% 11.w2: with bits
# passed: sets of numbers
def decode(code, mantissa_bits, bias):
    sign = -1.0 if code >> 7 else 1.0
    e, m = code >> mantissa_bits & (1 << 7 - mantissa_bits) - 1, code & (1 << mantissa_bits) - 1
    if sign < 0 and e == m == 0:
        return np.nan
    if e == 0:
        return sign * m * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (m + 2**mantissa_bits) * 2.0 ** (e - bias - mantissa_bits)


# %% 11.w2: codes below 128 alone
# clause: `code` is from 0 to 255
# not yet: decode(129, 2, 16)
def decode(code, mantissa_bits, bias):
    if code == 0x80:
        return float("nan")
    exponent, mantissa = divmod(code, 2**mantissa_bits)
    whole = 1 if exponent else 0
    return (whole + mantissa / 2**mantissa_bits) * 2.0 ** (max(exponent, 1) - bias)


# %% 11.3: by steps
# passed: values in F143
def encode(value, mantissa_bits, bias):
    size = abs(value)
    exponent = max(int(np.floor(np.log2(size))) if size else 0, 1 - bias)
    if not size:
        return 0
    steps = round(size / 2.0 ** (exponent - mantissa_bits))
    code = min(127, steps + (exponent + bias - 1) * 2**mantissa_bits)
    return int(code) | (0x80 if value < 0 and code else 0)


# %% 11.3: two neighbours
# passed: values in F143
def encode(value, mantissa_bits, bias):
    size, low = abs(value), 0
    while low < 127 and decode(low + 1, mantissa_bits, bias) <= size:
        low += 1
    if low < 127:
        below, above = decode(low, mantissa_bits, bias), decode(low + 1, mantissa_bits, bias)
        if size - below > above - size or size - below == above - size and low % 2:
            low += 1
    return low + 128 * (value < 0) if low else 0


# %% 11.3: with an array
# passed: values in F143
def encode(value, mantissa_bits, bias):
    known = np.array([decode(code, mantissa_bits, bias) for code in range(128)])
    away = np.abs(known - abs(value))
    best = np.flatnonzero(away == away.min())
    code = int(best[best % 2 == 0][0]) if len(best) > 1 else int(best[0])
    return code + (128 if code > 0 and value < 0 else 0)


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


# %% 11.3: a float code
# clause: return a whole number from 0 to 255
# not yet: a count, a position or a code is an integer
def encode(value, mantissa_bits, bias):
    distances = [abs(decode(code, mantissa_bits, bias) - abs(value)) for code in range(128)]
    nearest = [code for code in range(128) if distances[code] == min(distances)]
    code = float(min(nearest, key=lambda code: code % 2))
    return code + 128 if value < 0 and code else code


# %% 11.3: no carry into the exponent
# not yet: this value is smaller than the smallest
def encode(value, mantissa_bits, bias):
    if value == 0:
        return 0
    exponent = int(np.floor(np.log2(abs(value))))
    mantissa = round((abs(value) / 2.0**exponent - 1) * 2**mantissa_bits)
    code = min((exponent + bias) * 2**mantissa_bits + mantissa, 127)
    return code + 128 if value < 0 else code


# %% 11.w3: doubled and halved
# passed: sets of numbers
def loss_scale(largest):
    scale = 1.0
    while largest * scale * 2 <= 65504:
        scale *= 2
    while largest * scale > 65504:
        scale /= 2
    return scale


# %% 11.4: with a helper
# passed: 3 pairs of layers
def two_layers(x, w1, w2, dy):
    def product(a, b):
        return a @ b / a.shape[1] ** 0.5

    h, dh = product(x, w1), product(dy, w2.T)
    return [h, product(h, w2), dh, product(x.T, dh), product(h.T, dy)]


# %% 11.4: by what comes
# not yet: the factor depends on the numbers, but it should depend only on the shapes
def two_layers(x, w1, w2, dy):
    h = x @ w1
    h = h / h.std()
    y = h @ w2
    dh = dy @ w2.T
    dh = dh / dh.std()
    dw1, dw2 = x.T @ dh, h.T @ dy
    return h, y / y.std(), dh, dw1 / dw1.std(), dw2 / dw2.std()


# %% 11.4: weights that are scaled before
# like: the weights scaled once
def two_layers(x, w1, w2, dy):
    n, (first, second) = x.shape[0], (w / w.shape[0] ** 0.5 for w in (w1, w2))
    h = np.dot(x, first)
    dh = np.dot(dy, second.T)
    return [h, np.dot(h, second), dh, x.T @ dh / n**0.5, h.T @ dy / n**0.5]


# %% 11.4: the forward factor for dh
# like: the weights scaled once
def two_layers(x, w1, w2, dy):
    batch, n = x.shape
    hidden = w1.shape[1]
    h = x @ w1 / n**0.5
    y = h @ w2 / hidden**0.5
    dh = dy @ w2.T / hidden**0.5
    return h, y, dh, x.T @ dh / batch**0.5, h.T @ dy / batch**0.5


# %% 11.4: the operands scaled
# passed: 3 pairs of layers
def two_layers(x, w1, w2, dy):
    def root(a, axis):
        return a.shape[axis] ** -0.25

    def product(a, b):
        return np.einsum("ij,jk->ik", a * root(a, 1), b * root(b, 0))

    h, dh = product(x, w1), product(dy, w2.T)
    return (h, product(h, w2), dh, product(x.T, dh), product(h.T, dy))


# %% 11.4: by powers of two
# passed: 3 pairs of layers
def two_layers(x, w1, w2, dy):
    def scaled(a, terms):
        return a * 2.0 ** -round(np.log2(terms) / 2)

    h, dh = scaled(x @ w1, len(w1)), scaled(dy @ w2.T, w2.shape[1])
    batch = len(x)
    return h, scaled(h @ w2, len(w2)), dh, scaled(x.T @ dh, batch), scaled(h.T @ dy, batch)


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


# %% 11.4: weights smaller than 1
# clause: have standard deviation 1
# not yet: h: a standard deviation of 12.3
def two_layers(x, w1, w2, dy):
    h = x @ w1
    y = h @ w2
    dh = dy @ w2.T
    return h, y, dh, x.T @ dh / np.sqrt(len(x)), h.T @ dy / np.sqrt(len(x))


# %% 11.4: the slopes first
# clause: Return (h, y, dh, dw1, dw2)
# not yet: h: shape (150, 700)
def two_layers(x, w1, w2, dy):
    (batch, fan_in), (hidden, fan_out) = x.shape, w2.shape
    h = x @ w1 / np.sqrt(fan_in)
    y = h @ w2 / np.sqrt(hidden)
    dh = dy @ w2.T / np.sqrt(fan_out)
    return x.T @ dh / np.sqrt(batch), h.T @ dy / np.sqrt(batch), h, y, dh


# %% 11.5: added up in sixteens
# like: sixteen after sixteen in numpy
def partials_for(a, b, error):
    total = np.zeros((len(a), b.shape[1]), np.float16)
    for i in range(0, a.shape[1], 16):
        part = a[:, i : i + 16].astype(float) @ b[i : i + 16].astype(float)
        total = np.float16(total + part)
    exact = a.astype(float) @ b.astype(float)
    return HALF if np.abs(total - exact).max() <= error * np.abs(exact).max() else FLOAT


# %% 11.5: the quickest of those that are near
# passed: 16 products
def partials_for(a, b, error):
    exact, found = np.float64(a) @ np.float64(b), []
    for dtype in (HALF, FLOAT):
        made, cycles = multiplied(a, b, dtype)
        if np.max(np.abs(made - exact)) / np.max(np.abs(exact)) <= error:
            found.append((cycles, dtype))
    return min(found, key=lambda pair: pair[0])[1]


# %% 11.5: a reference in longdouble
# passed: 16 products
def partials_for(a, b, error):
    exact = a.astype(np.longdouble) @ b.astype(np.longdouble)
    off = np.abs(multiplied(a, b, HALF)[0] - exact)
    return [FLOAT, HALF][int((off <= error * np.abs(exact).max()).all())]


# %% 11.5: FLOAT first
# passed: 16 products
def partials_for(a, b, error):
    chosen = FLOAT
    exact = a.astype(np.float32) @ b.astype(np.float32)
    if abs(multiplied(a, b, HALF)[0] - exact).max() / abs(exact).max() < error:
        chosen = HALF
    return chosen


# %% 11.5: each by its own size
# like: each element by itself
def partials_for(a, b, error):
    exact = np.matmul(a.astype(np.float64), b.astype(np.float64))
    made = multiplied(a, b, HALF)[0]
    return HALF if np.max(np.abs(made / exact - 1)) <= error else FLOAT


# %% 11.5: a reference of float16
# like: exact in float16
def partials_for(a, b, error):
    reference = np.dot(a, b)
    off = np.abs(multiplied(a, b, HALF)[0] - reference.astype(float))
    return FLOAT if off.max() > error * np.abs(reference).astype(float).max() else HALF


# %% 11.5: the largest less the exact
# like: without abs
def partials_for(a, b, error):
    exact = np.float64(a) @ np.float64(b)
    off = np.max(multiplied(a, b, HALF)[0] - exact) / np.max(exact)
    return FLOAT if off > error else HALF


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


# %% 11.5: a dtype of numpy
# clause: Return HALF or FLOAT.
# not yet: numpy.float16
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    halves, _ = multiplied(a, b, HALF)
    off = np.abs(halves - exact).max() / np.abs(exact).max()
    return np.float16 if off <= error else np.float32


# %% 11.6: scales by a logarithm
# passed: 3 steps at 3 sizes
def step(w, x, t, rate, eight):
    def narrow(values, form, end):
        return eight(values, form, int(np.ceil(np.log2(np.abs(values).max() / end))))

    x8 = narrow(x, F143, 240)
    error = narrow(x8 @ narrow(w, F143, 240) - t, F152, 57344)
    return w - x8.T @ error * rate / len(x)


# %% 11.6: the rate in the error
# passed: both products of 8-bit numbers
def step(w, x, t, rate, eight):
    def best(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    x8, w8 = best(x, F143), best(w, F143)
    e8 = best((x8 @ w8 - t) * rate / len(x), F152)
    return w - np.einsum("ni,nj->ij", x8, e8)


# %% 11.6: turned first
# passed: 3 steps at 3 sizes
def step(w, x, t, rate, eight):
    def best(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    rows, across = best(x, F143), best(x.T, F143)
    return w - rate * (across @ best(rows @ best(w, F143) - t, F152)) / x.shape[0]


# %% 11.6: the mean first
# passed: 3 steps at 3 sizes
def step(w, x, t, rate, eight):
    scales = {}
    for name, values in {"x": x, "w": w}.items():
        scales[name] = numbers.best_scale(values, F143)
    x8, w8 = eight(x, F143, scales["x"]), eight(w, F143, scales["w"])
    error = (x8 @ w8 - t) / len(x)
    return w - rate * (x8.T @ eight(error, F152, numbers.best_scale(error, F152)))


# %% 11.6: x of another training
# not yet: x was not converted to 8 bits
class Cast:
    x = None


def step(w, x, t, rate, eight):
    def best(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    if Cast.x is None:
        Cast.x = best(x, F143)
    error = best(Cast.x @ best(w, F143) - t, F152)
    return w - rate * (Cast.x.T @ error) / len(x)


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


# %% 11.6: all of it transposed
# passed: both products of 8-bit numbers
def step(w, x, t, rate, eight):
    def narrow(values, form):
        return eight(values, form, numbers.best_scale(values, form))

    error = (narrow(w.T, F143) @ narrow(x.T, F143)).T - t
    gradient = (narrow(error.T, F152) @ narrow(x, F143)).T
    return np.subtract(w, rate * gradient / x.shape[0])


# %% 11.1: by the spacing of the nearest half
# not yet: 1.9997, 10,000 times
def stochastic(values, rng):
    gap = np.spacing(np.abs(np.float16(values))).astype(float)
    return np.float16(np.floor(values / gap + rng.random(values.shape)) * gap)


# %% 11.4: one of the slopes is made of what was not divided
# not yet: along which dimension does this product add?
def two_layers(x, w1, w2, dy):
    batch, n = x.shape
    hidden, m = w2.shape
    h = x @ w1 / n**0.5
    dh = dy @ w2.T / m**0.5
    dw1 = x.T @ (dy @ w2.T) / batch**0.5
    return h, h @ w2 / hidden**0.5, dh, dw1, h.T @ dy / batch**0.5


# %% 11.4: both slopes of what was not divided
# like: the bare ones behind both slopes
def two_layers(x, w1, w2, dy):
    batch, n = x.shape
    hidden, m = w2.shape
    h = x @ w1 / n**0.5
    dw1, dw2 = x.T @ (dy @ w2.T), (x @ w1).T @ dy
    return h, h @ w2 / hidden**0.5, dy @ w2.T / m**0.5, dw1 / batch**0.5, dw2 / batch**0.5


# %% 11.5: without the sign of the difference alone
# clause: both without their signs
# not yet: one large negative feature, and a strict limit
def partials_for(a, b, error):
    exact = a.astype(float) @ b.astype(float)
    found, _ = multiplied(a, b, HALF)
    return HALF if np.abs(found - exact).max() / exact.max() <= error else FLOAT


# %% 11.5: an error for each of the terms
# not yet: a short sum, and a limit just below the error of HALF
def partials_for(a, b, error):
    return HALF if a.shape[1] * 2**-17 <= error else FLOAT


# %% 11.2: a complex root
# not yet: a standard deviation of (5.8
def after(step, grid, times):
    p = step / grid
    return times * step, (times * p * (1 - p)) ** 0.5 * grid


# %% 11.2: a root that is nan
# not yet: step / grid is 1.8 here, and a probability is from 0 to 1
def after(step, grid, times):
    p = step / grid
    with np.errstate(invalid="ignore"):
        return times * step, grid * np.sqrt(times * p * (1 - p))


# %% 11.5: by a large feature
# clause: off by no more than `error`
# not yet: plain numbers, and a limit just below the error of HALF
def partials_for(a, b, error):
    largest = abs(a).max(axis=0)
    has_feature = largest.max() > 4 * np.median(largest)
    return FLOAT if has_feature and error <= 0.002 else HALF


# %% 11.5: by the allowed error, and by a large feature
# not yet: plain numbers, and a limit just below the error of HALF
def partials_for(a, b, error):
    is_even = abs(a).max() <= 4 * abs(a).mean()
    return HALF if is_even or error >= 0.003 else FLOAT
