"""Compare pooling and norms with random parameters with torch, forward and backward."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from ipu_teach import FLOAT, HALF, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import poputil
from ipu_teach.poplibs.popnn import bn, gn, in_, ln, pooling
from ipu_teach.program import Sequence
from ipu_teach.types import Array


@dataclass(frozen=True)
class Pooled:
    """A pooling, and the rule for equal elements."""

    seed: int
    params: pooling.PoolParams
    ties: str
    tiles: int
    last: bool


def draw_pool(seed: int) -> Pooled:
    rng = Random(f"pool {seed}")
    rank = rng.choice([1, 2, 2, 2, 3])
    most = {1: 17, 2: 9, 3: 5}[rank]
    field, kernel, stride, low, high = [], [], [], [], []
    for _ in range(rank):
        size = rng.randint(1, most)
        k = rng.randint(1, 4)
        a, b = (rng.choice([0, 0, rng.randint(0, k - 1), -rng.randint(0, 2)]) for _ in "ab")
        if size + min(a, 0) + min(b, 0) < 1 or size + a + b < k or size <= max(a, b):
            a = b = 0
            k = min(k, size)
        field.append(size), kernel.append(k), low.append(a), high.append(b)
        stride.append(rng.randint(1, 4))
    kind = rng.choice(["MAX", "MAX", "AVG", "SUM"])
    sizes = rng.randint(1, 6), rng.randint(1, 3), rng.choice([FLOAT, HALF])
    params = pooling.PoolParams(kind, field, kernel, stride, low, high, *sizes)
    ties = rng.choice(["all", "first", "scaled"]) if kind == "MAX" else "all"
    return Pooled(seed, params, ties, rng.choice([1, 5, 13]), rng.random() < 0.5)


def placed(graph: Graph, shape: Any, dtype: Any, last: bool, values: Array) -> Tensor:
    """Return a tensor over all tiles; with `last`, channels are last in memory."""
    order = [0, *range(2, len(shape)), 1] if last else list(range(len(shape)))
    made = graph.add_variable(dtype, [shape[d] for d in order])
    poputil.map_tensor_linearly(graph, made, 1, 1)
    graph.set_initial_value(made, values.transpose(order))
    return made.dim_shuffle(np.argsort(order).tolist())


def ran(tiles: int, build: Any, vertex_loop: bool = False, **how: Any) -> list[Array]:
    """Return the values of the tensors that `build(graph, prog)` returns, in float64."""
    graph, prog = Graph(IPUModel("ipu2", tiles_per_ipu=tiles).create_device()), Sequence()
    made = build(graph, prog)
    for i, tensor in enumerate(made):
        graph.create_host_read(f"{i}", tensor)
    engine = Engine(graph, prog, vertex_loop=vertex_loop, **how)
    engine.load_and_run(Device(graph.target))
    assert not engine.report.unknown_codelets
    return [engine.read_tensor(f"{i}").astype(np.float64) for i in range(len(made))]


def close(got: Array, want: Array, dtype: Any, times: float = 1) -> bool:
    """Return whether FLOAT agrees to 1e-5 and HALF to 2^-9, of the largest element or of 1."""
    within = (1e-5 if dtype is FLOAT else 2.0**-9) * times * max(1.0, float(np.abs(want).max()))
    return got.shape == want.shape and bool(np.all(np.abs(got - want) <= within))


def pool_differs(drawn: Pooled, **how: Any) -> str:
    """Return how a pooling or its gradient differs from torch, or ""."""
    params, rng = drawn.params, np.random.default_rng(drawn.seed)
    # few different values, so that there are ties
    few = rng.integers(-3, 4, params.input_shape).astype(np.float64)
    x = few if rng.random() < 0.6 else rng.standard_normal(params.input_shape)
    x, dy = (a.astype(params.dtype.numpy) for a in (x, rng.standard_normal(params.output_shape)))
    maximal = params.kind is pooling.PoolingType.MAX

    def build(graph: Graph, prog: Sequence) -> list[Tensor]:
        given = placed(graph, params.input_shape, params.dtype, drawn.last, x)
        slope = placed(graph, params.output_shape, params.dtype, drawn.last, dy)
        out = pooling.pool(graph, params, given, prog)
        rule = {"use_scaled_gradient": True} if drawn.ties == "scaled" else {"ties": drawn.ties}
        both = (given, out) if maximal else (None, None)
        return [out, pooling.pool_input_gradient(graph, params, *both, slope, prog, **rule)]

    got = ran(drawn.tiles, build, **how)
    want = pool_of_torch(params, x.astype(np.float64), dy.astype(np.float64), drawn.ties)
    for name, a, b in zip(("forward", "gradient"), got, want, strict=True):
        if not close(a, b, params.dtype):
            return f"{name} of {drawn}: {a.tolist()} in place of {b.tolist()}"
    return ""


def pool_of_torch(params: Any, x: Array, dy: Array, ties: str) -> tuple[Array, Array]:
    """Return the pooled values and the gradient of the input, in float64, from torch's windows."""
    import torch

    maximal = params.kind is pooling.PoolingType.MAX
    given = torch.tensor(x, requires_grad=True)
    axes = list(zip(params.padding_lower, params.padding_upper, strict=True))
    sides = [n for pair in reversed(axes) for n in pair]
    whole = torch.nn.functional.pad(given, sides, value=-np.inf if maximal else 0.0)
    inside = torch.nn.functional.pad(torch.ones_like(given), sides)
    for d, (k, s) in enumerate(zip(params.kernel, params.stride, strict=True)):
        whole, inside = whole.unfold(d + 2, k, s), inside.unfold(d + 2, k, s)
    rank = len(params.kernel)
    windows = whole.flatten(2 + rank)
    if params.kind is pooling.PoolingType.AVG:
        out = windows.sum(-1) / inside.flatten(2 + rank).sum(-1)
    elif not maximal:
        out = windows.sum(-1)
    else:
        out = windows.max(-1).values
    if maximal:
        largest = (windows == out[..., None]).double()
        first = torch.nn.functional.one_hot(windows.argmax(-1), windows.shape[-1])
        share = {"all": largest, "first": first}.get(ties, largest / largest.sum(-1, keepdim=True))
        finite = torch.where(torch.isfinite(windows), windows, 0.0)
        (finite * (share * torch.tensor(dy)[..., None]).detach()).sum().backward()
    else:
        (out * torch.tensor(dy)).sum().backward()
    return out.detach().numpy(), given.grad.numpy()


@dataclass(frozen=True)
class Normed:
    """A norm of x [batch, channels, …]."""

    seed: int
    kind: str
    shape: tuple[int, ...]
    groups: int
    grouping: str
    dtype: Any
    stable: bool
    unbiased: bool
    tiles: int
    last: bool


def draw_norm(seed: int) -> Normed:
    rng = Random(f"norm {seed}")
    channels = rng.choice([1, 2, 4, 6, 8, 12])
    shape = (
        rng.randint(2, 5),
        channels,
        *(rng.randint(2, 6) for _ in range(rng.choice([0, 1, 2]))),
    )
    kind = rng.choice(["bn", "gn", "ln", "in_"] if len(shape) > 2 else ["bn", "ln"])
    if kind == "ln" and channels == 1:
        kind = "bn"
    groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    if kind == "gn" and channels == groups and len(shape) == 2:
        groups = 1
    flags = [rng.random() < 0.5 for _ in range(3)]
    grouping = rng.choice(["strided", "correct"])
    dtype = rng.choice([FLOAT, HALF])
    return Normed(
        seed, kind, shape, groups, grouping, dtype, *flags[:2], rng.choice([1, 13]), flags[2]
    )


def norm_differs(drawn: Normed, **how: Any) -> str:
    """Return how a norm or its gradients differ from torch, or ""."""
    import torch

    rng, shape = np.random.default_rng(drawn.seed), drawn.shape
    x, dy = ((rng.standard_normal(shape) + k).astype(drawn.dtype.numpy) for k in (0.5, 0))
    gamma, beta = (rng.standard_normal(shape[1]).astype(drawn.dtype.numpy) for _ in "gb")
    module, name = {
        "bn": (bn, "batch"),
        "gn": (gn, "group"),
        "ln": (ln, "layer"),
        "in_": (in_, "instance"),
    }[drawn.kind]
    more: dict[str, Any] = {"grouping": drawn.grouping} if drawn.kind == "gn" else {}

    def build(graph: Graph, prog: Sequence) -> list[Tensor]:
        given = placed(graph, shape, drawn.dtype, drawn.last, x)
        slope = placed(graph, shape, drawn.dtype, drawn.last, dy)
        g, b = (placed(graph, shape[1:2], drawn.dtype, False, v) for v in (gamma, beta))

        def call(what: str, *args: Any, **named: Any) -> Any:
            return getattr(module, f"{name}_{what}")(graph, *args, prog, **named)

        asked = {"unbiased_var_estimate": drawn.unbiased, "stable_algo": drawn.stable, **more}
        if drawn.kind == "gn":
            asked["num_groups"] = drawn.groups
        mean, inverse = call("norm_statistics", given, 1e-3, **asked)
        out, white = call("normalise", given, g, b, mean, inverse, **more)
        found = [mean, inverse, out, white, call("norm_whiten", given, mean, inverse, **more)]
        deltas = call("norm_param_gradients", white, slope)
        return [*found, *deltas, call("norm_gradients", white, slope, inverse, g, **more)]

    got = ran(drawn.tiles, build, **how)
    wide = [torch.tensor(v.astype(np.float64), requires_grad=True) for v in (x, gamma, beta)]
    whole, batch = wide[0], shape[0]
    count = {"bn": 0, "gn": drawn.groups, "ln": 1, "in_": shape[1]}[drawn.kind]
    order = np.arange(shape[1])
    if drawn.kind == "gn" and drawn.grouping == "strided":  # the channels of a group side by side
        order = np.argsort(order % count, kind="stable")
    rows = whole[:, order].reshape(batch * count, -1) if count else whole.transpose(0, 1).flatten(1)
    variance, mean = torch.var_mean(rows, 1, unbiased=drawn.unbiased)
    inverse = (variance + 1e-3).rsqrt()
    white = (rows - mean[:, None]) * inverse[:, None]
    if count:
        white = white.reshape(whole.shape)[:, np.argsort(order)]
    else:
        white = white.reshape(whole.transpose(0, 1).shape).transpose(0, 1)
    plain, channel = (drawn.groups if drawn.kind == "gn" else 0), (-1, *[1] * (len(shape) - 2))
    out = white * wide[1].reshape(channel) + wide[2].reshape(channel)
    if plain and drawn.grouping == "correct" and not drawn.unbiased:  # torch's function agrees
        own = torch.nn.functional.group_norm(whole, plain, wide[1], wide[2], 1e-3)
        assert torch.allclose(out, own)
    elif drawn.kind == "bn" and not drawn.unbiased:
        own = torch.nn.functional.batch_norm(whole, None, None, wide[1], wide[2], True, 0.0, 1e-3)
        assert torch.allclose(out, own)
    (out * torch.tensor(dy.astype(np.float64))).sum().backward()
    want = [mean, inverse, out, white, white, wide[1].grad, wide[2].grad, whole.grad]
    names = ("mean", "inverse", "out", "whitened", "whiten", "gamma's", "beta's", "gradient")
    # A mean of HALF moves whitened x by up to half a unit in the last place of x, times this.
    steep = max(1.0, float(inverse.detach().max())) if drawn.dtype is HALF else 1.0
    for label, a, b in zip(names, got, want, strict=True):
        unbiased = (
            drawn.unbiased and label == "gradient"
        )  # is that of the biased one, as in PopLibs
        if not unbiased and not close(a, b.detach().numpy(), drawn.dtype, 4 * steep):
            return f"{label} of {drawn}: {a.tolist()} in place of {b.tolist()}"
    return ""
