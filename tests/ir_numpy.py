"""An interpreter of `ipu_teach.frontends.ir` in numpy and float64, independent of the kit's own rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.poplibs.popops import MASKED_LABEL_CODE

Env = dict[Value, Any]
_erf = np.vectorize(math.erf, otypes=[float])


def wide(a: Any) -> Any:
    a = np.asarray(a)
    return a.astype(np.float64) if a.dtype.kind == "f" else a


def constant(v: Any) -> Any:
    return np.broadcast_to(wide(v.initial), v.shape)


def interpret(
    ir: Ir, fed: dict[str, Any], variables: dict[str, Any] | None = None, until: Any = None
) -> Env:
    """Return the values of all tensors after one micro-batch; `variables` change in place."""
    env: Env = {}
    variables = {} if variables is None else variables
    for name, v in ir.variables.items():
        if name not in variables:
            variables[name] = np.broadcast_to(wide(v.initial), v.shape).copy()
        env[v] = variables[name]
    env |= {v: wide(fed[name]) for name, v in ir.inputs.items() if name in fed}
    for op in ir.ops:
        given = [constant(v) if v.kind == "constant" else env[v] for v in op.inputs]
        assert f"do_{op.kind}" in globals(), f"say here, in numpy, what {op.kind!r} means"
        made = globals()[f"do_{op.kind}"](*given, **op.attrs)
        for v, a in zip(op.outs, made if isinstance(made, (list, tuple)) else [made], strict=False):
            assert np.shape(a) == v.shape, (op.kind, np.shape(a), v.shape)
            env[v] = np.array(a)  # a copy, as the variable may change later
    return env


def _numpy(**calls: Any) -> None:
    globals().update({f"do_{k}": v for k, v in calls.items()})


def normal_cdf(x: Any) -> Any:
    return (1 + _erf(x / np.sqrt(2))) / 2


def _gelu_tanh(x: Any) -> Any:
    return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


NON = {
    "RELU": lambda x: np.maximum(x, 0),
    "SIGMOID": sigmoid,
    "HARD_SIGMOID": lambda x: np.clip(x / 5 + 0.5, 0, 1),
    "TANH": np.tanh,
    "GELU_ERF": lambda x: x * normal_cdf(x),
    "GELU": _gelu_tanh,
    "SWISH": lambda x: x * sigmoid(x),
}
FROM_OUTPUT = {
    "RELU": lambda y: (y > 0) * 1.0,
    "SIGMOID": lambda y: y * (1 - y),
    "HARD_SIGMOID": lambda y: ((y > 0) & (y < 1)) * 0.2,
    "TANH": lambda y: 1 - y * y,
}


def do_non_linearity_grad(seen: Any, g: Any, kind: str) -> Any:
    if kind in FROM_OUTPUT:
        return g * FROM_OUTPUT[kind](seen)
    h = 1e-5  # finite differences of fourth order
    f = NON[kind]
    gradient = (8 * (f(seen + h) - f(seen - h)) - (f(seen + 2 * h) - f(seen - 2 * h))) / (12 * h)
    return g * gradient


_numpy(
    neg=np.negative, abs=np.abs, exp=np.exp, expm1=np.expm1, log=np.log, log1p=np.log1p, sqrt=np.sqrt, rsqrt=lambda x: 1 / np.sqrt(x),
    inv=lambda x: 1 / x, square=np.square, sin=np.sin, cos=np.cos, erf=_erf, signum=np.sign, floor=np.floor, ceil=np.ceil, nearby_int=np.rint, round=lambda x: np.trunc(x + np.copysign(0.5, x)),
    trunc=np.trunc, is_nan=np.isnan, is_finite=np.isfinite, logical_not=np.logical_not, relu=NON["RELU"], sigmoid=NON["SIGMOID"],
    hard_sigmoid=NON["HARD_SIGMOID"], tanh=np.tanh, gelu=NON["GELU_ERF"], gelu_tanh=NON["GELU"], silu=NON["SWISH"], add=np.add,
    sub=np.subtract, mul=np.multiply, pow=np.power, max=np.maximum, min=np.minimum, rem=np.fmod, atan2=np.arctan2,
    eq=np.equal, neq=np.not_equal, lt=np.less, lteq=np.less_equal, gt=np.greater, gteq=np.greater_equal, logical_and=np.logical_and,
    logical_or=np.logical_or, select=np.where, clamp=lambda x, least, most: np.clip(x, least, most), copy=np.copy,
    print=lambda x, title: x, reshape=lambda x, shape: x.reshape(shape), permute=lambda x, dims: x.transpose(dims),
    expand=lambda x, shape: np.broadcast_to(x, shape), reverse=lambda x, dim: np.flip(x, dim), concat=lambda *x, dim: np.concatenate(x, dim),
    pad=lambda x, lower, upper, value=0.0: np.pad(x, list(zip(lower, upper, strict=True)), constant_values=value),
    sum=lambda x, dims: x.sum(tuple(dims)), reduce_max=lambda x, dims: x.max(tuple(dims)), reduce_min=lambda x, dims: x.min(tuple(dims)),
    reduce_prod=lambda x, dims: x.prod(tuple(dims)), arg_max=lambda x: x.argmax(-1), arg_min=lambda x: x.argmin(-1), matmul=np.matmul,
    bitwise_and=np.bitwise_and, bitwise_or=np.bitwise_or, bitwise_xor=np.bitwise_xor, bitwise_not=np.invert,
    shift_left=lambda a, b: (np.asarray(a).astype(np.int64) << b).astype(a.dtype), shift_right=np.right_shift,
    to_variance=lambda x, eps: 1 / x**2 - eps, to_inv_std_dev=lambda v, eps: 1 / np.sqrt(v + eps), load=lambda x: x, stop=lambda x: x,
)  # fmt: skip


def do_div(a: Any, b: Any) -> Any:
    """Divide; integers round towards 0, and a divisor of 0 gives 0, as on the device."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind == "f":
        return a / b
    quotients = np.trunc(a / np.where(b == 0, np.inf, b))
    return quotients.astype(np.int64).astype(a.dtype)


def do_reinterpret(x: Any, dtype: Any) -> Any:
    x = np.asarray(x)
    return np.ascontiguousarray(x.astype(np.float32) if x.dtype.kind == "f" else x).view(
        dtype.numpy
    )


def do_scan(
    *given: Any, body: Any, steps: int, along: int, kept: int, reverse: bool = False
) -> Any:
    names, carried = list(body.inputs), list(given[along : along + kept])
    made: list[Any] = [None] * steps
    for i in reversed(range(steps)) if reverse else range(steps):
        now = [x[i] for x in given[:along]]
        env = interpret(
            body, dict(zip(names, (*now, *carried, *given[along + kept :]), strict=True))
        )
        found = [constant(v) if v.kind == "constant" else env[v] for v in body.outputs.values()]
        carried, made[i] = found[:kept], found[kept:]
    return [*carried, *(np.stack(rows) for rows in zip(*made, strict=True))]


def do_lstm(x: Any, w: Any, r: Any, b: Any, h: Any, c: Any) -> Any:
    outs, saved = [], []
    for now in x:
        i, f, g, o = np.split(now @ w.T + h @ r.T + b, 4, axis=-1)
        i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
        before, c = c, f * c + i * g
        h = o * np.tanh(c)
        outs.append(h)
        saved.append([before, g, f, i, o, np.tanh(c)])
    return [np.stack(outs), c, np.array(saved)]


def do_lstm_grad(*values: Any) -> Any:
    r, saved, slopes, of_c = values[2], *values[7:]
    of_h = 0.0
    rows = []
    for (before, g, f, i, o, a), slope in zip(saved[::-1], slopes[::-1], strict=True):
        total = slope + of_h
        of_c = of_c + total * o * (1 - a * a)
        of_gates = of_c * g * i * (1 - i), of_c * before * f * (1 - f), of_c * i * (1 - g * g)
        rows.append(np.concatenate([*of_gates, total * a * o * (1 - o)], -1))
        of_c, of_h = of_c * f, rows[-1] @ r
    return [np.stack(rows[::-1]), of_h, of_c]


def do_cast(x: Any, dtype: Any) -> Any:
    return x.astype(np.float64 if np.dtype(dtype.numpy).kind == "f" else dtype.numpy)


def _cut(shape: Any, dim: int, begin: int, end: int, step: int = 1) -> Any:
    where = [slice(None)] * len(shape)
    where[dim] = slice(begin, end, step)
    return tuple(where)


def do_slice(x: Any, **how: int) -> Any:
    return x[_cut(x.shape, **how)]


def do_put(g: Any, shape: Any, **how: int) -> Any:
    whole = np.zeros(shape)
    whole[_cut(shape, **how)] = g
    return whole


def do_one_hot(x: Any, classes: int, dtype: Any) -> Any:
    return (np.asarray(x)[..., None] == np.arange(classes)) * 1.0


def do_top_k(x: Any, k: int, largest: bool = True) -> list[Any]:
    wide = x.astype(np.float64)  # exact, as the smallest integer has no negative in its dtype
    places = np.argsort(-wide if largest else wide, -1, kind="stable")[..., :k]
    return [np.take_along_axis(x, places, -1), places]


def do_gather(x: Any, index: Any) -> Any:
    return x[index]


def do_scatter(index: Any, updates: Any, shape: Any) -> Any:
    return do_scatter_add(np.zeros(shape), index, updates)


def do_scatter_add(x: Any, index: Any, updates: Any) -> Any:
    whole = x.copy()
    np.add.at(whole, index, updates)
    return whole


def do_scatter_set(x: Any, index: Any, updates: Any) -> Any:
    result = x.copy()
    for place in np.ndindex(np.shape(index)):  # the last update of a row stays
        result[index[place]] = updates[place]
    return result


def do_scatter_max(x: Any, index: Any, updates: Any) -> Any:
    result = x.copy()
    np.maximum.at(result, index, updates)
    return result


def do_pick(x: Any, index: Any) -> Any:
    masked = index == MASKED_LABEL_CODE
    return np.where(masked, 0, x[np.arange(len(index)), np.where(masked, 0, index)])


def do_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def do_softmax_grad(y: Any, g: Any) -> Any:
    return y * (g - (g * y).sum(-1, keepdims=True))


def do_log_softmax(x: Any) -> Any:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def do_cross_entropy(x: Any, labels: Any) -> Any:
    masked = labels == MASKED_LABEL_CODE
    hot = do_one_hot(labels, x.shape[1], None)
    return -(np.where(hot > 0, do_log_softmax(x), 0)).sum(1), np.where(
        masked[:, None], 0, do_softmax(x) - hot
    )


def do_softplus(x: Any) -> Any:
    return np.logaddexp(x, 0)


def do_binary_cross_entropy(x: Any, y: Any) -> Any:
    return y * np.logaddexp(-x, 0) + (1 - y) * np.logaddexp(x, 0)


# --- convolutions and pools -----------------------------------------------------------------------


def _taps(
    field: Any, kernel: Any, stride: Any, lower: Any, upper: Any, dilation: Any = None
) -> Any:
    """Return the sizes of the padded field and of the output, and the slices for each kernel element.

    A slice is given as (position in the kernel, slices of the padded field).
    """
    n = len(kernel)
    dilation = dilation or (1,) * n
    padded = [f + a + b for f, a, b in zip(field, lower, upper, strict=True)]
    outs = [
        (p - (k - 1) * d - 1) // s + 1
        for p, k, s, d in zip(padded, kernel, stride, dilation, strict=True)
    ]
    places = []
    for place in np.ndindex(*kernel):
        starts = [p * d for p, d in zip(place, dilation, strict=True)]
        places.append(
            (
                place,
                tuple(
                    slice(a, a + (o - 1) * s + 1, s)
                    for a, o, s in zip(starts, outs, stride, strict=True)
                ),
            )
        )
    return padded, outs, places


def _padded(x: Any, lower: Any, upper: Any, value: float = 0.0) -> Any:
    return np.pad(x, [(0, 0), (0, 0), *zip(lower, upper, strict=True)], constant_values=value)


def _conv(
    x: Any,
    w: Any,
    g: Any,
    stride: Any,
    lower: Any,
    upper: Any,
    dilation: Any,
    groups: int,
    field: Any,
    kernel: Any,
) -> Any:
    """Return output, gradient of the input and gradient of the weights, from those that are given."""
    padded, outs, places = _taps(field[2:], kernel[2:], stride, lower, upper, dilation)
    batch, (out, each) = field[0], kernel[:2]
    per = out // groups
    y = np.zeros((batch, out, *outs))
    dx, dw = np.zeros((batch, field[1], *padded)), np.zeros(kernel)
    px = None if x is None else _padded(x, lower, upper)
    for group in range(groups):
        o, c = slice(group * per, (group + 1) * per), slice(group * each, (group + 1) * each)
        for place, where in places:
            at = (o, slice(None), *place)
            if g is None:
                y[:, o] += np.einsum("nc...,oc->no...", px[(slice(None), c, *where)], w[at])
            elif x is None:
                dx[(slice(None), c, *where)] += np.einsum("no...,oc->nc...", g[:, o], w[at])
            else:
                there = px[(slice(None), c, *where)]
                dw[at] += np.einsum(
                    "noz,ncz->oc", g[:, o].reshape(batch, per, -1), there.reshape(batch, each, -1)
                )
    inner = tuple(slice(a, a + f) for a, f in zip(lower, field[2:], strict=True))
    return y if g is None else dx[(slice(None), slice(None), *inner)] if x is None else dw


def do_conv(x: Any, w: Any, **how: Any) -> Any:
    return _conv(x, w, None, field=x.shape, kernel=w.shape, **how)


def do_conv_input_grad(g: Any, w: Any, field: Any, **how: Any) -> Any:
    return _conv(None, w, g, field=field, kernel=w.shape, **how)


def do_conv_weight_grad(g: Any, x: Any, shape: Any, **how: Any) -> Any:
    return _conv(x, None, g, field=x.shape, kernel=shape, **how)


def do_max_pool(x: Any, kernel: Any, stride: Any, lower: Any, upper: Any) -> Any:
    _, _, places = _taps(x.shape[2:], kernel, stride, lower, upper)
    px = _padded(x, lower, upper, -np.inf)
    return np.max([px[(..., *where)] for _, where in places], axis=0)


def do_max_pool_grad(
    x: Any, y: Any, g: Any, kernel: Any, stride: Any, lower: Any, upper: Any
) -> Any:
    _, _, places = _taps(x.shape[2:], kernel, stride, lower, upper)
    px = _padded(x, lower, upper, -np.inf)
    dx, left = np.zeros(px.shape), np.ones(g.shape, bool)
    for _, where in places:
        mine = left & (px[(..., *where)] == y)
        dx[(..., *where)] += g * mine
        left &= ~mine
    return dx[(..., *(slice(a, a + f) for a, f in zip(lower, x.shape[2:], strict=True)))]


def _counts(field: Any, kernel: Any, stride: Any, lower: Any, upper: Any) -> Any:
    _, _, places = _taps(field, kernel, stride, lower, upper)
    inside = np.pad(np.ones(field), list(zip(lower, upper, strict=True)))
    return sum(inside[where] for _, where in places)


def do_avg_pool(x: Any, **how: Any) -> Any:
    _, _, places = _taps(x.shape[2:], **how)
    px = _padded(x, how["lower"], how["upper"])
    return sum(px[(..., *where)] for _, where in places) / _counts(x.shape[2:], **how)


def do_avg_pool_grad(g: Any, shape: Any, **how: Any) -> Any:
    field = shape
    padded, _, places = _taps(field[2:], **how)
    share = g / _counts(field[2:], **how)
    dx = np.zeros((*field[:2], *padded))
    for _, where in places:
        dx[(..., *where)] += share
    return dx[(..., *(slice(a, a + f) for a, f in zip(how["lower"], field[2:], strict=True)))]


# --- norms ----------------------------------------------------------------------------------------


def _groups(x: Any, kind: str, groups: int) -> Any:
    """Return `x` as [groups, elements], and a function that restores its shape."""
    if kind == "batch":
        moved = np.moveaxis(x, 1, 0)
        return moved.reshape(x.shape[1], -1), lambda a: np.moveaxis(a.reshape(moved.shape), 0, 1)
    count = {"layer": 1, "instance": x.shape[1]}.get(kind, groups)
    return x.reshape(x.shape[0] * count, -1), lambda a: a.reshape(x.shape)


def _row(a: Any, x: Any) -> Any:
    return a.reshape(1, -1, *(1,) * (x.ndim - 2))


def do_norm(x: Any, gamma: Any, beta: Any, kind: str, eps: float, groups: int = 1) -> Any:
    seen, back = _groups(x, kind, groups)
    mean, inverse = seen.mean(1), 1 / np.sqrt(seen.var(1) + eps)
    white = back((seen - mean[:, None]) * inverse[:, None])
    return white * _row(gamma, x) + _row(beta, x), white, mean, inverse


def do_norm_grad(white: Any, g: Any, inverse: Any, gamma: Any, kind: str) -> Any:
    groups = max(inverse.size // white.shape[0], 1)
    seen, back = _groups(white, kind, groups)
    slope, _ = _groups(g * _row(gamma, g), kind, groups)
    centred = slope - slope.mean(1, keepdims=True) - seen * (slope * seen).mean(1, keepdims=True)
    return back(centred * inverse[:, None])


def do_norm_param_grad(white: Any, g: Any, kind: str) -> Any:
    dims = (0, *range(2, g.ndim))
    return (g * white).sum(dims), g.sum(dims)


# --- what changes a variable, in place ------------------------------------------------------------


def do_assign(v: Any, x: Any) -> Any:
    v[...] = x
    return []


def do_accumulate(v: Any, x: Any, *like: Any) -> Any:
    v += x
    return []


def do_clear(v: Any) -> Any:
    v[...] = 0
    return []


def do_blend(v: Any, x: Any, momentum: float) -> Any:
    v += (x - v) * momentum
    return []


def do_next_seed(v: Any) -> Any:
    v[0] += 1
    return []


def do_sgd(w: Any, g: Any, rate: Any, weight_decay: float = 0.0) -> Any:
    w -= rate * (g + weight_decay * w)
    return []


def do_momentum(
    w: Any, g: Any, rate: Any, velocity: Any, momentum: float = 0.0, weight_decay: float = 0.0
) -> Any:
    velocity *= momentum
    velocity += g + weight_decay * w
    w -= rate * velocity
    return []


def do_adam(
    w: Any,
    g: Any,
    rate: Any,
    first: Any,
    second: Any,
    step: Any,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Any:
    g = g + weight_decay * w
    step += 1
    first += (1 - beta1) * (g - first)
    second += (1 - beta2) * (g * g - second)
    w -= rate * (first / (1 - beta1**step)) / (np.sqrt(second / (1 - beta2**step)) + eps)
    return []


def do_adamw(
    w: Any, g: Any, rate: Any, *state: Any, weight_decay: float = 0.01, **more: float
) -> Any:
    w *= 1 - rate * weight_decay
    return do_adam(w, g, rate, *state, **more)


def do_lars(
    w: Any,
    g: Any,
    rate: Any,
    velocity: Any,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    trust: float = 0.001,
    eps: float = 1e-8,
) -> Any:
    a, b = np.linalg.norm(w), np.linalg.norm(g)
    ratio = trust * a / (b + weight_decay * a + eps) if a and b else 1.0
    velocity *= momentum
    velocity += rate * ratio * (g + weight_decay * w)
    w -= velocity
    return []
