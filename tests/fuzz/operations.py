"""Compare operations of the frontends, with random shapes and attributes, with float64.

An interpreter gives the values, finite differences the gradients. Stacks of layers are compared
with torch.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable
from math import prod
from random import Random
from typing import Any

import ir_numpy
import numpy as np

from ipu_teach import FLOAT, UNSIGNED_INT, IPUModel
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value

Case = Callable[["Draw"], Value]


class Draw:
    """A graph with random variables: `x(3, 4)` is a new one, between `low` and `high`."""

    def __init__(self, seed: int = 5) -> None:
        self.graph, self.rng, self.any = Ir(), np.random.default_rng(seed), Random(seed)

    def x(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Value:
        name = f"x{len(self.graph.variables)}"
        return self.graph.variable(self.rng.uniform(low, high, shape).astype(np.float32), name)

    def numbers(self, below: int, *shape: int) -> Value:
        return self.graph.constant(self.rng.integers(0, below, shape), UNSIGNED_INT)

    def op(self, kind: str, *given: Any, **attrs: Any) -> Value:
        return self.graph.op(kind, *given, **attrs)

    # --- what is drawn beside values ---

    def n(self, least: int, most: int) -> int:
        return self.any.randint(least, most)

    def sizes(self, least: int = 0, most: int = 4, longest: int = 6) -> tuple[int, ...]:
        return tuple(self.n(1, longest) for _ in range(self.n(least, most)))

    def partner(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return a random shape that broadcasts to `shape`."""
        kept = shape[self.n(0, len(shape)) :] if self.any.random() < 0.3 else shape
        return tuple(self.any.choice([n, n, 1]) for n in kept)

    def dims(self, rank: int) -> tuple[int, ...]:
        chosen = self.any.sample(range(rank), self.n(1, rank))
        return tuple(d - rank * (self.any.random() < 0.3) for d in chosen)


def total(d: Draw, y: Value) -> Value:
    """Return the sum of the elements of a value, with random weights."""
    weights = d.graph.constant(d.rng.uniform(-1, 1, y.shape), FLOAT)
    return ir.reduced(d.graph, "sum", d.op("mul", y, weights))


def unlike(got: Any, want: Any, tolerance: float) -> str:
    """Return how two arrays differ by over `tolerance` of the largest element or of 1, or ""."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    most = tolerance * max(1.0, float(np.abs(want).max(initial=0)))
    near = np.allclose(got, want, tolerance, most, equal_nan=True)
    return "" if near else f"{got.tolist()} in place of {want.tolist()}"


def differs(graph: Ir, loss: Value, tiles: int = 13, lowering: Any = ir.Lowering) -> str:
    """Return how outputs and gradients of a graph differ from float64, or ""."""
    step, grads = ir.autodiff(graph, loss)
    for value, slope in grads.items():
        step.output(f"d {value.name}", slope)
    # A batch changes the running statistics; finite differences need the old ones.
    variables = {n: np.asarray(v.initial, np.float64) for n, v in graph.variables.items()}
    env = ir_numpy.interpret(step, {}, {n: a.copy() for n, a in variables.items()})
    env |= {v: ir_numpy.constant(v) for v in step.outputs.values() if v.kind == "constant"}
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    got = ir.Run(lowering(step, device), device)()
    for name, value in step.outputs.items():
        if wrong := unlike(got[name][0], env[value], 2e-5):
            return f"{name}: {wrong}"
    rng = np.random.default_rng(7)
    ways = {v: rng.uniform(-1, 1, v.shape) for v in grads}

    def astray(some: Iterable[Value]) -> str:
        """Return how the gradients of some variables differ from finite differences, or ""."""
        want, wrong = sum((env[grads[v]] * ways[v]).sum() for v in some), ""
        for h in (1e-6, 1e-7):  # a smaller step may avoid a kink between the two points
            ends = []
            for s in (h, -h):
                moved = {n: a.copy() for n, a in variables.items()}
                for v in some:
                    moved[v.name] += s * ways[v]
                ends.append(ir_numpy.interpret(graph, {}, moved)[loss])
            if not (wrong := unlike(want, (ends[0] - ends[1]) / 2 / h, 1e-5)):
                return ""
        return wrong

    if not (wrong := astray(grads)):
        return ""
    for value in grads:
        if wrong := astray([value]):
            where = next(op.name for op in graph.ops if value in op.inputs)
            return f"slope of {value.name} at {where}: {wrong}"
    return f"slope of all together: {wrong}"


# --- a row, drawn ---------------------------------------------------------------------------------


def anywhere(kind: str, low: float = -2.0, high: float = 2.0) -> Case:
    return lambda d: d.op(kind, d.x(*d.sizes(), low=low, high=high))


def both(kind: str, low: float = 0.3) -> Case:
    def case(d: Draw) -> Value:
        shape = d.sizes()
        given: list[Any] = [d.x(*shape, low=low), d.x(*d.partner(shape), low=low)]
        if d.any.random() < 0.2:
            given[d.n(0, 1)] = round(d.any.uniform(0.4, 2), 2)
        d.any.shuffle(given)
        return d.op(kind, *given)

    return case


def asked(kind: str) -> Case:
    return lambda d: d.op("cast", both(kind, -2.0)(d), dtype=FLOAT)


def logical(kind: str) -> Case:
    def case(d: Draw) -> Value:
        shape = d.sizes()
        given = [d.op("gt", d.x(*s), 0.0) for s in (shape, d.partner(shape))]
        return d.op("cast", d.op(kind, *given[: 1 + (kind != "logical_not")]), dtype=FLOAT)

    return case


def select(d: Draw) -> Value:
    shape = d.sizes()
    mask = d.op("gt", d.x(*d.partner(shape)), 0.0)
    other = d.x(*d.partner(shape)) if d.n(0, 3) else 0.25
    return d.op("select", mask, d.x(*shape), other)


def reshape(d: Draw) -> Value:
    shape = list(d.sizes())
    others = [*shape[::2], *shape[1::2]]
    if d.n(0, 1) and len(others) > 1:
        others[:2] = [prod(others[:2])]
    if others and d.n(0, 1):
        others[d.n(0, len(others) - 1)] = -1
    return d.op("square", d.op("reshape", d.x(*shape), shape=tuple(others)))


def permute(d: Draw) -> Value:
    shape = d.sizes(1)
    return d.op("permute", d.x(*shape), dims=tuple(d.any.sample(range(len(shape)), len(shape))))


def expand(d: Draw) -> Value:
    shape = d.sizes()
    return d.op("expand", d.x(*d.partner(shape)), shape=shape)


def cut(d: Draw) -> Value:
    shape = d.sizes(1, 4, 9)
    dim = d.n(0, len(shape) - 1)
    begin = d.n(0, shape[dim] - 1)
    how = {"dim": dim - len(shape) * d.n(0, 1), "begin": begin, "end": d.n(begin + 1, shape[dim])}
    return d.op("slice", d.x(*shape), **how, **({"step": d.n(1, 4)} if d.n(0, 1) else {}))


def concat(d: Draw) -> Value:
    shape = list(d.sizes(1))
    dim, parts = d.n(0, len(shape) - 1), []
    for _ in range(d.n(1, 4)):
        shape[dim] = d.n(1, 5)
        parts.append(d.x(*shape))
    return d.op("concat", *parts, dim=dim)


def pad(d: Draw) -> Value:
    shape = d.sizes(1)
    lower, upper = (tuple(d.n(0, 2) for _ in shape) for _ in "lu")
    return d.op("pad", d.x(*shape), lower=lower, upper=upper, value=1.5 * d.n(0, 1))


def reduced(kind: str) -> Case:
    def case(d: Draw) -> Value:
        shape = d.sizes(1, 4, 4)
        dims = d.dims(len(shape))
        if kind == "mean":
            return ir.mean(d.graph, d.x(*shape), dims, bool(d.n(0, 1)))
        return ir.reduced(d.graph, kind, d.x(*shape, low=0.5), dims, bool(d.n(0, 1)))

    return case


def soft(kind: str) -> Case:
    def case(d: Draw) -> Value:
        shape = d.sizes(1)
        return ir.along(d.graph, kind, d.x(*shape), d.n(0, len(shape) - 1))

    return case


def one_hot(d: Draw) -> Value:
    classes, shape = d.n(1, 6), d.sizes(1, 2)
    hot = d.op("one_hot", d.numbers(classes, *shape), classes=classes, dtype=FLOAT)
    return d.op("mul", hot, d.x(*shape, classes))


def matmul(d: Draw) -> Value:
    m, k, n = (d.n(1, 8) for _ in "mkn")
    batch = d.sizes(0, 2, 3)
    return d.op("matmul", d.x(*d.partner(batch), m, k), d.x(*d.partner(batch), k, n))


def linear(d: Draw) -> Value:
    *batch, size, out = *d.sizes(1, 2), d.n(1, 8), d.n(1, 8)
    return ir.linear(d.graph, d.x(*batch, size), d.x(out, size), d.x(out) if d.n(0, 1) else None)


def attention(d: Draw) -> Value:
    batch, t, s, width, out = d.sizes(1, 2, 3), *(d.n(1, 5) for _ in "tswo")
    q, k, v = d.x(*batch, t, width), d.x(*batch, s, width), d.x(*batch, s, out)
    mask = d.x(t, s) if d.n(0, 1) else None
    return ir.attention(d.graph, q, k, v, mask, causal=mask is None and bool(d.n(0, 1)))


def look_up(kind: str) -> Case:
    def case(d: Draw) -> Value:
        rows, index, rest = d.n(1, 7), d.sizes(1, 2), d.sizes(0, 2)
        at = d.numbers(rows, *index)
        if kind == "gather":
            return ir.embedding(d.graph, d.x(rows, *rest), at)
        if kind == "scatter":
            return d.op("scatter", at, d.x(*index, *rest), shape=(rows, *rest))
        if kind == "scatter_add":
            return d.op("scatter_add", d.x(rows, *rest), at, d.x(*index, *rest))
        return d.op("pick", d.x(index[0], rows), d.numbers(rows, index[0]))

    return case


def conv(d: Draw) -> Value:
    rank, groups = d.any.choice([1, 2, 2, 3]), d.any.choice([1, 1, 2, 3])
    kernel = [d.n(1, 3) for _ in range(rank)]
    stride, dilation = ([d.n(1, 2) for _ in range(rank)] for _ in "sd")
    reach = [(k - 1) * s + 1 for k, s in zip(kernel, dilation, strict=True)]
    lower, upper = ([d.n(0, k - 1) for k in kernel] for _ in "lu")
    field = [r + d.n(0, 4) for r in reach]
    x = d.x(d.n(1, 3), groups * d.n(1, 2), *field)
    w = d.x(groups * d.n(1, 3), x.shape[1] // groups, *kernel)
    b = d.x(w.shape[0]) if d.n(0, 1) else None
    return ir.conv(d.graph, x, w, b, stride, lower, upper, dilation, groups)


def pool(kind: str) -> Case:
    def case(d: Draw) -> Value:
        rank = d.any.choice([1, 2, 2, 3])
        kernel, stride = ([d.n(1, 3) for _ in range(rank)] for _ in "ks")
        lower = [d.n(0, k // 2) for k in kernel]
        x = d.x(d.n(1, 3), d.n(1, 3), *(k + d.n(0, 4) for k in kernel))
        counts = kind == "avg_pool" and bool(d.n(0, 1))
        return ir.pool(d.graph, kind, x, kernel, stride, lower, None, counts)

    return case


def normed(kind: str) -> Case:
    def case(d: Draw) -> Value:
        groups = d.n(1, 3)
        shape = (d.n(3, 4), groups * d.n(1, 2), d.n(4, 6), *d.sizes(0, 1, 3))
        channels = shape[-1] if kind == "layer" else shape[1]
        if kind == "layer":
            shape = (*shape[:-1], channels := channels + 3)
        more = {"groups": groups} if kind == "group" else {}
        if kind == "batch":
            mean, var = d.x(channels), d.x(channels, low=0.5)
            given = d.x(*shape), d.x(channels), d.x(channels), mean, var, bool(d.n(0, 1))
            return ir.batch_norm(d.graph, *given)
        return ir.norm(d.graph, kind, d.x(*shape), d.x(channels), d.x(channels), **more)

    return case


def recurrent(d: Draw) -> Value:
    kind, gates = d.any.choice([("lstm", 4), ("gru", 3), ("tanh", 1), ("relu", 1)])
    steps, batch, size, hidden = (d.n(1, 5) for _ in "tbih")
    state = [d.x(batch, hidden) for _ in range(1 + (kind == "lstm"))]
    weights = [d.x(gates * hidden, size), d.x(gates * hidden, hidden)]
    weights += [d.x(gates * hidden) for _ in range(d.n(0, 2))]
    outs, after = ir.recurrent(d.graph, kind, d.x(steps, batch, size), state, *weights)
    whole = d.op("reshape", outs, shape=(steps * batch, hidden))
    return d.op("concat", whole, *after, dim=0)


def labelled(loss: Any) -> Case:
    def case(d: Draw) -> Value:
        shape = (d.n(1, 5), d.n(2, 5), *d.sizes(0, 2, 3))
        labels = d.rng.integers(0, shape[1], (shape[0], *shape[2:]))
        how: dict[str, Any] = {"reduction": d.any.choice(["mean", "sum", "none"])}
        if d.n(0, 1) and labels.size > 1:
            labels.flat[d.n(0, labels.size - 1)], how["ignored"] = 2**32 - 1, -100
        x, y = d.x(*shape), d.graph.constant(labels, UNSIGNED_INT)
        return loss(d.graph, x, y, **how)  # type: ignore[no-any-return]

    return case


def compared(loss: Any, low: float = -2.0, high: float = 2.0) -> Case:
    def case(d: Draw) -> Value:
        shape = d.sizes()
        return loss(d.graph, d.x(*shape), d.x(*shape, low=low, high=high))  # type: ignore[no-any-return]

    return case


ANYWHERE = """neg abs exp expm1 square sin cos erf signum floor ceil round trunc relu sigmoid
    hard_sigmoid tanh gelu gelu_tanh silu copy"""
CASES: dict[str, Case] = {
    **{k: anywhere(k) for k in ANYWHERE.split()},
    **{k: anywhere(k, 0.3, 3.0) for k in ("log", "log1p", "sqrt", "rsqrt", "inv")},
    **{k: both(k) for k in ("add", "sub", "mul", "div", "max", "min", "atan2", "pow")},
    **{k: asked(k) for k in ("eq", "neq", "lt", "lteq", "gt", "gteq")},
    **{k: logical(k) for k in ("logical_and", "logical_or", "logical_not")},
    "select": select,
    "clamp": lambda d: d.op("clamp", d.x(*d.sizes()), least=-d.any.random(), most=d.any.random()),
    "reshape": reshape,
    "permute": permute,
    "expand": expand,
    "slice": cut,
    "concat": concat,
    "pad": pad,
    "reverse": lambda d: d.op("reverse", d.x(d.n(1, 5), d.n(1, 5)), dim=d.n(-2, 1)),
    **{k: reduced(k) for k in ("sum", "reduce_max", "reduce_min", "reduce_prod", "mean")},
    **{k: soft(k) for k in ("softmax", "log_softmax")},
    **{
        k: lambda d, k=k: d.op("cast", d.op(k, d.x(*d.sizes(1))), dtype=FLOAT)
        for k in ("arg_max", "arg_min")
    },
    "one_hot": one_hot,
    "matmul": matmul,
    "linear": linear,
    "attention": attention,
    **{k: look_up(k) for k in ("gather", "scatter", "scatter_add", "pick")},
    "conv": conv,
    **{k: pool(k) for k in ("max_pool", "avg_pool")},
    **{f"{k} norm": normed(k) for k in ("layer", "group", "instance", "batch")},
    "recurrent": recurrent,
    "cross_entropy": labelled(ir.cross_entropy),
    "nll": labelled(lambda g, x, y, **how: ir.nll(g, ir.along(g, "log_softmax", x, 1), y, **how)),
    "squared_error": compared(ir.squared_error),
    "binary_cross_entropy": compared(ir.binary_cross_entropy, 0.0, 1.0),
}


def one_row(seed: int) -> tuple[str, str]:
    """Check the operation that `seed` chooses."""
    d = Draw(seed)
    kind = [*CASES][seed % len(CASES)]
    y = d.graph.output(kind, CASES[kind](d))
    tiles = d.any.choice([1, 2, 5, 13, 40])
    if wrong := differs(d.graph, total(d, y), tiles):
        return kind, f"{kind} on {tiles} tiles, {wrong}\n\n{d.graph}"
    return "rows", ""


# --- layers, beside torch -------------------------------------------------------------------------


def stack(rng: Random) -> tuple[Any, tuple[int, ...]]:
    """Return some layers of torch, and the shape of their input."""
    from torch import nn

    plain: list[Any] = [nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU, nn.Sigmoid, nn.ELU, nn.Softplus]
    batch, layers = rng.randint(2, 4), list[Any]()
    if rng.random() < 0.5:
        shape, c = (batch, rng.randint(1, 3), rng.randint(6, 8), rng.randint(6, 8)), 0
        c = shape[1]
        for _ in range(rng.randint(1, 2)):
            out = 2 * rng.randint(1, 3)
            how = {"stride": rng.randint(1, 2), "padding": 1, "bias": rng.random() < 0.5}
            layers.append(nn.Conv2d(c, out, rng.choice([1, 3]), **how))
            norms = nn.BatchNorm2d(out), nn.GroupNorm(2, out), nn.Identity()
            layers += [rng.choice(norms), rng.choice(plain)()]
            c = out
        pools = nn.MaxPool2d(2), nn.AvgPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Identity()
        layers += [rng.choice(pools), nn.Flatten()]
    else:
        shape = (batch, rng.randint(1, 4), 2 * rng.randint(1, 4))
        c = shape[2]
        for _ in range(rng.randint(1, 2)):
            kind = rng.choice(["linear", "norm", "attention", "recurrent"])
            if kind == "linear":
                layers += [nn.Linear(c, out := 2 * rng.randint(1, 4)), rng.choice(plain)()]
                c = out
            elif kind == "norm" and c > 2:
                layers.append(nn.LayerNorm(c))
            elif kind == "attention":
                layer = nn.TransformerEncoderLayer(c, 2, 6, 0.0, batch_first=True)
                layers.append(layer)
            else:
                made = rng.choice([nn.LSTM, nn.GRU, nn.RNN])
                layers += [made(c, 4, rng.randint(1, 2), batch_first=True), First()]
                c = 4
        layers.append(nn.Flatten())
    return nn.Sequential(*layers), shape


def _first() -> Any:
    from torch import nn

    class First(nn.Module):
        """Returns the outputs of a recurrent layer without its states."""

        def forward(self, given: Any) -> Any:
            return given[0]

    return First()


First = _first


def one_stack(seed: int) -> tuple[str, str]:
    """Compare two steps of the layers that `seed` chooses with plain torch."""
    import torch
    from torch import nn

    from ipu_teach import poptorch

    rng = Random(seed)
    torch.manual_seed(seed)
    net, shape = stack(rng)

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any, y: Any) -> Any:
            out = self.net(x)
            return out, nn.functional.mse_loss(out, y.expand(out.shape))

    ours = Whole()
    theirs = copy.deepcopy(ours)
    tiles = rng.choice([1, 5, 13, 40])
    options = poptorch.Options().useIpuModel(IPUModel("ipu2", tiles_per_ipu=tiles))
    training = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), 0.05))
    plain = torch.optim.SGD(theirs.parameters(), 0.05)
    where = f"of {net} fed {list(shape)} on {tiles} tiles"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for step in range(2):
            x, y = torch.randn(shape), torch.randn(shape[0], 1)
            plain.zero_grad()
            out, loss = theirs(x, y)
            loss.backward()
            plain.step()
            for name, got, want in zip(
                ("output", "loss"), training(x, y), (out, loss), strict=True
            ):
                if wrong := unlike(got.numpy(), want.detach().numpy(), 2e-5):
                    return "stacks", f"{name} of step {step} {where}: {wrong}"
    training.detachFromDevice()
    for name, want in theirs.state_dict().items():
        if wrong := unlike(ours.state_dict()[name].numpy(), want.numpy(), 2e-5):
            return "stacks", f"{name} {where}: {wrong}"
    return "stacks", ""


def one_operation(seed: int) -> tuple[str, str]:
    """Check operation number `seed`; each tenth time, a stack of layers."""
    return one_stack(seed // 10) if seed % 10 == 9 else one_row(seed - seed // 10)
