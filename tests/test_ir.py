"""The rows of the frontends' graph: each lowered beside an interpreter in float64, each gradient beside finite differences."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import ir_numpy
import numpy as np
import pytest
from damage import parts, whole
from fuzz import operations
from fuzz.operations import Case, Draw

from ipu_teach import BOOL, FLOAT, HALF, INT, UNSIGNED_INT, IPUModel
from ipu_teach.errors import ModelError, ModelLoadError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.saved import graph_from_bytes, graph_to_bytes
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr

ROOT = Path(__file__).parents[1]


def positive(kind: str) -> Case:
    return lambda d: d.op(kind, d.x(3, 5, low=0.3, high=3.0))


def anywhere(kind: str) -> Case:
    return lambda d: d.op(kind, d.x(4, 7))


def both(kind: str) -> Case:
    return lambda d: d.op(kind, d.x(4, 1, 3, low=0.4), d.x(5, 3, low=0.3))


def asked(kind: str) -> Case:
    return lambda d: d.op("cast", d.op(kind, d.x(4, 3), d.x(3)), dtype=FLOAT)


def logical(kind: str) -> Case:
    def case(d: Draw) -> Value:
        first = d.op("gt", d.x(4, 3), 0.0)
        more = () if kind == "logical_not" else (d.op("lt", d.x(4, 3), 0.5),)
        return d.op("cast", d.op(kind, first, *more), dtype=FLOAT)

    return case


def integers(d: Draw) -> Value:
    return d.graph.constant(d.rng.integers(-99, 99, (4, 3)), INT)


def in_float(d: Draw, kind: str, *operands: Any, **attributes: Any) -> Value:
    return d.op("cast", d.op(kind, *operands, **attributes), dtype=FLOAT)


def bits(kind: str) -> Case:
    count = 1 if kind == "bitwise_not" else 2
    return lambda d: in_float(d, kind, *(integers(d) for _ in range(count)))


def conv(case: tuple[Any, ...], shape: tuple[int, ...], weights: tuple[int, ...]) -> Case:
    stride, lower, upper, dilation, groups = case
    return lambda d: ir.conv(
        d.graph, d.x(*shape), d.x(*weights), d.x(weights[0]), stride, lower, upper, dilation, groups
    )


def pool(kind: str, **how: Any) -> Case:
    return lambda d: ir.pool(d.graph, kind, d.x(2, 3, 7, 6), **how)


def normed(kind: str, *shape: int, **how: Any) -> Case:
    channels = shape[-1] if kind == "layer" else shape[1]
    return lambda d: ir.norm(d.graph, kind, d.x(*shape), d.x(channels), d.x(channels), **how)


def batch_normed(training: bool) -> Case:
    def case(d: Draw) -> Value:
        mean, var = d.x(3), d.x(3, low=0.5, high=2.0)
        x = d.x(4, 3, 5, 5)
        return ir.batch_norm(d.graph, x, d.x(3), d.x(3), mean, var, training)

    return case


def recurrent(kind: str, gates: int, states: int = 1) -> Case:
    def case(d: Draw) -> Value:
        state = [d.x(2, 3) for _ in range(states)]
        weights = d.x(gates * 3, 4), d.x(gates * 3, 3), d.x(gates * 3), d.x(gates * 3)
        outs, after = ir.recurrent(d.graph, kind, d.x(3, 2, 4), state, *weights)
        return d.op("concat", d.op("reshape", outs, shape=(6, 3)), *after, dim=0)

    return case


def scanned(d: Draw) -> Value:
    """Two states that change places, one that stays, one of whole numbers, and what is not read."""

    def step(g: Ir, now: list[Value], before: list[Value]) -> Any:
        a, b, still, count = before
        turn = g.op("add", count, 1)
        mixed = g.op("mul", g.op("sin", now[0]), g.op("add", a, g.op("mul", b, w)))
        return (b, mixed, still, turn), (g.op("cast", turn, dtype=FLOAT), mixed, a, now[0])

    w, starts = d.x(5), [d.x(5), d.x(5), d.x(5), d.graph.constant(0, UNSIGNED_INT, (5,))]
    (a, b, still, count), (counts, *rows) = ir.scan(d.graph, step, [d.x(4, 5), d.x(4, 2)], starts)
    last = [a, b, still, d.op("cast", count, dtype=FLOAT)]
    rows += [counts, *(d.op("reshape", v, shape=(1, 5)) for v in last)]
    return d.op("concat", *rows, dim=0)


def topped(d: Draw, x: Value, **how: Any) -> Value:
    values, places = d.graph.emit("top_k", x, **how)
    return d.op("mul", values, d.op("cast", places, dtype=FLOAT))


def labelled(loss: Callable[..., Value], *shape: int, **how: Any) -> Case:
    def case(d: Draw) -> Value:
        x = d.x(*shape)
        labels = d.rng.integers(0, shape[1], (shape[0], *shape[2:]))
        if "ignored" in how:
            labels.flat[1] = 2**32 - 1
        return loss(d.graph, x, d.graph.constant(labels, UNSIGNED_INT), **how)

    return case


GROUPS: dict[str, dict[str, Case]] = {
    "elements": {
        **{
            k: anywhere(k)
            for k in (
                "neg",
                "abs",
                "exp",
                "expm1",
                "square",
                "sin",
                "cos",
                "erf",
                "signum",
                "floor",
                "ceil",
                "round",
                "nearby_int",
                "trunc",
            )
        },
        **{k: positive(k) for k in ("log", "log1p", "sqrt", "rsqrt", "inv")},
        **{
            k: anywhere(k)
            for k in (
                "relu",
                "sigmoid",
                "hard_sigmoid",
                "tanh",
                "gelu",
                "gelu_tanh",
                "silu",
                "softplus",
            )
        },
        **{k: both(k) for k in ("add", "sub", "mul", "div", "max", "min", "atan2")},
        "pow": lambda d: d.op("pow", d.x(4, 3, low=0.3), d.x(3)),
        "pow by a number": lambda d: d.op("pow", d.x(4, 3), 3.0),
        "a number by": lambda d: d.op("div", 2.0, d.x(4, 3, low=0.3)),
        **{k: asked(k) for k in ("eq", "neq", "lt", "lteq", "gt", "gteq")},
        **{k: logical(k) for k in ("logical_and", "logical_or", "logical_not")},
        "is_nan": lambda d: d.op("cast", d.op("is_nan", d.x(3)), dtype=FLOAT),
        "is_finite": lambda d: d.op("cast", d.op("is_finite", d.x(3)), dtype=FLOAT),
        "select": lambda d: d.op("select", d.op("gt", d.x(4, 3), 0.0), d.x(4, 3), d.x(3)),
        "select a number": lambda d: d.op("select", d.op("gt", d.x(4, 3), 0.0), d.x(4, 3), 0.25),
        "clamp": lambda d: d.op("clamp", d.x(5, 6), least=-0.7, most=1.1),
        "copy": anywhere("copy"),
        **{k: bits(k) for k in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not")},
        "shift_left": lambda d: in_float(d, "shift_left", integers(d), 3),
        "shift_right": lambda d: in_float(d, "shift_right", integers(d), 2),
        "reinterpret": lambda d: in_float(d, "reinterpret", d.numbers(50, 4, 3), dtype=INT),
    },
    "views": {
        "reshape": lambda d: d.op("square", d.op("reshape", d.x(4, 6), shape=(3, -1))),
        "permute": lambda d: d.op("permute", d.x(2, 3, 4), dims=(2, 0, 1)),
        "expand": lambda d: d.op("expand", d.x(3, 1), shape=(2, 3, 4)),
        "slice": lambda d: d.op("slice", d.x(4, 9), dim=1, begin=2, end=6),
        "slice by steps": lambda d: d.op("slice", d.x(4, 9), dim=-1, begin=1, end=9, step=3),
        "reverse": lambda d: d.op("reverse", d.x(4, 3), dim=0),
        "concat": lambda d: d.op("concat", d.x(2, 3), d.x(2, 4), dim=1),
        "pad": lambda d: d.op("pad", d.x(2, 3), lower=(1, 0), upper=(0, 2), value=3.0),
        "split": lambda d: d.op("mul", *ir.split(d.graph, d.x(4, 6), [2, 2], 0)),
    },
    "reductions": {
        **{
            k: (lambda d, k=k: ir.reduced(d.graph, k, d.x(3, 4, 5, low=0.5), (0, 2), True))
            for k in ("sum", "reduce_max", "reduce_min", "reduce_prod")
        },
        "mean": lambda d: ir.mean(d.graph, d.x(3, 4), (1,)),
        "arg_max": lambda d: d.op("cast", d.op("arg_max", d.x(5, 4)), dtype=FLOAT),
        "arg_min": lambda d: d.op("cast", d.op("arg_min", d.x(5, 4)), dtype=FLOAT),
        "top_k": lambda d: topped(d, d.x(2, 3, 6), k=2),
        "top_k of the least": lambda d: topped(d, d.x(5), k=3, largest=False),
        "one_hot": lambda d: d.op(
            "mul", d.op("one_hot", d.numbers(4, 5), classes=4, dtype=FLOAT), d.x(5, 4)
        ),
        "softmax": lambda d: d.op("softmax", d.x(2, 3, 6)),
        "softmax of others": lambda d: ir.along(d.graph, "softmax", d.x(2, 3, 6), 1),
        "log_softmax": lambda d: d.op("log_softmax", d.x(4, 6)),
    },
    "products": {
        "matmul": lambda d: d.op("matmul", d.x(4, 6), d.x(6, 5)),
        "matmul of a batch": lambda d: d.op("matmul", d.x(2, 3, 4), d.x(4, 5)),
        "matmul of batches": lambda d: d.op("matmul", d.x(2, 3, 4, 5), d.x(2, 3, 5, 2)),
        "matmul that broadcasts": lambda d: d.op("matmul", d.x(4, 5), d.x(3, 5, 2)),
        "linear": lambda d: ir.linear(d.graph, d.x(2, 3, 4), d.x(5, 4), d.x(5)),
        "attention": lambda d: ir.attention(
            d.graph, d.x(2, 4, 3), d.x(2, 4, 3), d.x(2, 4, 3), causal=True
        ),
        "lstm": recurrent("lstm", 4, 2),
        "gru": recurrent("gru", 3),
        "a plain cell": recurrent("tanh", 1),
        "scan": scanned,
        "gather": lambda d: ir.embedding(d.graph, d.x(7, 3), d.numbers(7, 2, 5)),
        "scatter": lambda d: d.op("scatter", d.numbers(6, 8), d.x(8, 3), shape=(6, 3)),
        "scatter_add": lambda d: d.op("scatter_add", d.x(6, 3), d.numbers(6, 8), d.x(8, 3)),
        "scatter_set": lambda d: d.op("scatter_set", d.x(6, 3), d.numbers(6, 8), d.x(8, 3)),
        "scatter_max": lambda d: d.op("scatter_max", d.x(6, 3), d.numbers(6, 2, 4), d.x(2, 4, 3)),
        "pick": lambda d: d.op("pick", d.x(5, 4), d.numbers(4, 5)),
    },
    "convolutions": {
        "conv": conv((1, 1, None, 1, 1), (2, 3, 6, 5), (4, 3, 3, 3)),
        "conv by steps": conv((2, 1, None, 1, 1), (2, 4, 7, 6), (6, 4, 3, 2)),
        "conv in groups": conv((1, 0, None, 1, 2), (2, 4, 5, 5), (6, 2, 2, 2)),
        "conv dilated": conv((1, (2, 1), (1, 2), (2, 1), 1), (1, 2, 6, 5), (3, 2, 3, 2)),
        "conv of a line": conv((1, 1, None, 1, 1), (2, 3, 8), (4, 3, 3)),
        "conv transposed": lambda d: d.op(
            "conv_input_grad",
            d.x(2, 4, 3, 3),
            d.x(4, 3, 3, 3),
            field=(2, 3, 5, 5),
            stride=(2, 2),
            lower=(1, 1),
            upper=(1, 1),
            dilation=(1, 1),
            groups=1,
        ),
        "max_pool": pool("max_pool", kernel=2),
        "max_pool over each other": pool("max_pool", kernel=3, stride=2, lower=1),
        "avg_pool": pool("avg_pool", kernel=(2, 3)),
        "avg_pool padded": pool("avg_pool", kernel=3, stride=2, lower=1),
        "avg_pool that counts": pool("avg_pool", kernel=3, stride=2, lower=1, count_padding=True),
    },
    "norms": {
        "layer": normed("layer", 3, 4, 6),
        "group": normed("group", 2, 6, 4, 3, groups=3),
        "instance": normed("instance", 2, 3, 5),
        "batch": batch_normed(True),
        "batch that has learnt": batch_normed(False),
    },
    "losses": {
        "cross_entropy": labelled(ir.cross_entropy, 6, 4),
        "cross_entropy of pictures": labelled(ir.cross_entropy, 2, 4, 3, 2, reduction="none"),
        "cross_entropy without some": labelled(ir.cross_entropy, 6, 4, ignored=-100),
        "nll": labelled(lambda g, x, y, **how: ir.nll(g, g.op("log_softmax", x), y, **how), 6, 4),
        "squared_error": lambda d: ir.squared_error(d.graph, d.x(4, 3), d.x(4, 3)),
        "binary_cross_entropy": lambda d: ir.binary_cross_entropy(
            d.graph, d.x(4, 3), d.x(4, 3, low=0.0, high=1.0)
        ),
    },
}


def built(cases: dict[str, Case]) -> tuple[Ir, Value]:
    """A graph with all cases, each an output, and the sum of all, each element weighed."""
    d = Draw()
    total: Value | None = None
    for name, case in cases.items():
        with d.graph.at(path=name):
            y = d.graph.output(name, case(d))
        with d.graph.at(path="loss"):
            one = operations.total(d, y)
            total = one if total is None else d.op("add", total, one)
    assert total is not None
    return d.graph, total


class Noting(ir.Lowering):
    """Writes down which library calls each operation makes."""

    noted: ClassVar[dict[str, dict[str, None]]] = {}

    def call(self, function: Any, *given: Any, **more: Any) -> Any:
        library = function.__module__.split("poplibs.")[1].split(".")
        self.noted.setdefault(self.op.kind, {})[f"{'.'.join(library[:1])}.{function.__name__}"] = (
            None
        )
        return super().call(function, *given, **more)


def device(tiles: int = 13, ipus: int = 1) -> Any:
    return IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device()


@pytest.mark.parametrize("group", GROUPS)
def test_values_and_gradients_are_those_of_float64_and_of_finite_differences(group: str) -> None:
    graph, loss = built(GROUPS[group])
    assert {v for op in graph.ops for v in op.inputs} >= {*graph.variables.values()}
    assert operations.differs(graph, loss, lowering=Noting) == ""


def test_operations_that_are_drawn() -> None:
    """`run.py fuzz --operations` draws more."""
    for seed in range(100, 120):
        assert operations.one_row(seed)[1] == ""


def test_what_is_drawn_finds_a_row_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "values": replace(ir.OPS["tanh"], lower=ir.OPS["sigmoid"].lower),
        "slopes": replace(ir.OPS["tanh"], grad=ir.OPS["exp"].grad),
    }
    seed = [*operations.CASES].index("tanh")
    for wrong, row in rows.items():
        monkeypatch.setitem(ir.OPS, "tanh", row)
        said = operations.one_row(seed)[1]
        assert said.startswith("tanh on ") and ("slope of x0 at tanh" in said) == (
            wrong == "slopes"
        )


def by_torch(graph: Ir, loss: Value) -> dict[Value, Any]:
    """The gradients of all variables by torch's own operations, in float64."""
    torch = pytest.importorskip("torch")
    f, env = torch.nn.functional, {}
    for v in graph.variables.values():
        env[v] = torch.tensor(np.asarray(v.initial, np.float64), requires_grad=True)

    def pads(lower: Any, upper: Any) -> list[int]:
        return [n for pair in zip(lower[::-1], upper[::-1], strict=True) for n in pair]

    def conv(
        x: Any, w: Any, stride: Any, lower: Any, upper: Any, dilation: Any, groups: int
    ) -> Any:
        call = f.conv1d if x.ndim == 3 else f.conv2d
        return call(f.pad(x, pads(lower, upper)), w, None, stride, 0, dilation, groups)

    def transposed(
        g: Any, w: Any, field: Any, stride: Any, lower: Any, upper: Any, dilation: Any, groups: int
    ) -> Any:
        return f.conv_transpose2d(g, w, None, stride, lower, 0, groups, dilation)

    def avg(x: Any, kernel: Any, stride: Any, lower: Any, upper: Any) -> Any:
        return f.avg_pool2d(x, kernel, stride, lower, count_include_pad=False)

    def norm(x: Any, gamma: Any, beta: Any, kind: str, eps: float, groups: int = 1) -> Any:
        if kind == "batch":
            y = f.batch_norm(x, None, None, gamma, beta, True, 0.1, eps)
        else:
            y = f.group_norm(
                x, {"layer": 1, "instance": x.shape[1]}.get(kind, groups), gamma, beta, eps
            )
        return y, y, torch.zeros(1), torch.zeros(1)

    def cut(x: Any, dim: int, begin: int, end: int, step: int = 1) -> Any:
        return x.movedim(dim, 0)[begin:end:step].movedim(0, dim)

    def extreme(call: Any) -> Any:
        return lambda x, dims: call(x, tuple(dims))

    def product(x: Any, dims: Any) -> Any:
        for d in sorted(dims, reverse=True):
            x = x.prod(d)
        return x

    def loss_of(x: Any, y: Any) -> Any:
        masked = torch.where(y == 2**32 - 1, -100, y)
        return f.cross_entropy(x, masked, reduction="none"), None

    by_name = "neg abs exp expm1 square sin cos erf floor ceil round trunc log log1p sqrt rsqrt relu sigmoid tanh add sub mul div pow atan2 eq lt gt matmul logical_and logical_or logical_not"
    table: dict[str, Any] = {k: getattr(torch, k) for k in by_name.split()} | {
        "inv": torch.reciprocal, "signum": torch.sign, "is_nan": torch.isnan, "is_finite": torch.isfinite, "gelu": f.gelu, "silu": f.silu,
        "gelu_tanh": lambda x: f.gelu(x, approximate="tanh"), "hard_sigmoid": lambda x: f.relu6(1.2 * x + 3) / 6, "max": torch.maximum,
        "min": torch.minimum, "neq": torch.ne, "lteq": torch.le, "gteq": torch.ge, "select": torch.where, "copy": torch.clone,
        "clamp": lambda x, least, most: x.clamp(least, most), "reshape": lambda x, shape: x.reshape(shape), "permute": lambda x, dims: x.permute(dims),
        "expand": lambda x, shape: x.expand(shape), "slice": cut, "reverse": lambda x, dim: x.flip(dim), "concat": lambda *x, dim: torch.cat(x, dim),
        "pad": lambda x, lower, upper, value=0.0: f.pad(x, pads(lower, upper), value=value), "sum": lambda x, dims: x.sum(tuple(dims)) if dims else x,
        "reduce_max": extreme(torch.amax), "reduce_min": extreme(torch.amin), "reduce_prod": product, "arg_max": lambda x: x.argmax(-1),
        "arg_min": lambda x: x.argmin(-1), "top_k": torch.topk, "one_hot": lambda x, classes, dtype: f.one_hot(x, classes).double(), "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(-1), "softplus": f.softplus, "binary_cross_entropy": lambda x, y: f.binary_cross_entropy_with_logits(x, y, reduction="none"), "gather": lambda x, i: x[i], "scatter": lambda i, u, shape: torch.zeros(shape, dtype=u.dtype).index_add(0, i, u),
        "scatter_add": lambda x, i, u: x.index_add(0, i, u), "pick": lambda x, i: x.gather(1, i[:, None])[:, 0], "conv": conv, "conv_input_grad": transposed,
        "max_pool": lambda x, kernel, stride, lower, upper: f.max_pool2d(x, kernel, stride, lower), "avg_pool": avg, "norm": norm,
        "cross_entropy": loss_of, "cast": lambda x, dtype: x.double(), "to_variance": lambda x, eps: 1 / x**2 - eps,
        "to_inv_std_dev": lambda v, eps: (v.detach() + eps) ** -0.5, "blend": lambda *_, momentum: None, "stop": lambda x: x.detach(),
    }  # fmt: skip

    def replaced(x: Any, index: Any, updates: Any) -> Any:
        rows = list(x.unbind(0))
        for place in np.ndindex(tuple(index.shape)):
            rows[index[place]] = updates[place]
        return torch.stack(rows)

    def largest(x: Any, index: Any, updates: Any) -> Any:
        rest = x.shape[1:]
        places = index.reshape(-1, *(1,) * len(rest)).expand(-1, *rest)
        return x.scatter_reduce(0, places, updates.reshape(-1, *rest), "amax")

    table |= {"scatter_set": replaced, "scatter_max": largest, "nearby_int": torch.round}
    table |= {f"bitwise_{k}": getattr(torch, f"bitwise_{k}") for k in ("and", "or", "xor", "not")}
    table |= {"shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift}
    table["reinterpret"] = lambda x, dtype: x

    def run(ops: Any) -> None:
        for op in ops:
            assert op.kind in table, f"{op.kind!r} needs its name in torch, in by_name or table"
            made = table[op.kind](*map(of, op.inputs), **op.attrs)
            env.update(zip(op.outs, made if isinstance(made, tuple) else [made], strict=False))

    def of(v: Value) -> Any:
        constant = ir_numpy.constant(v) if v.kind == "constant" else None
        kind = torch.float64 if v.floating else torch.bool if v.dtype is BOOL else torch.int64
        return env[v] if constant is None else torch.tensor(constant.copy()).to(kind)

    def scan(*given: Any, body: Ir, steps: int, along: int, kept: int) -> Any:
        carried, rows = list(given[along : along + kept]), []
        for i in range(steps):
            now = (*(x[i] for x in given[:along]), *carried, *given[along + kept :])
            env.update(zip(body.inputs.values(), now, strict=True))
            run(body.ops)
            carried = [of(v) for v in [*body.outputs.values()][:kept]]
            rows.append([of(v) for v in [*body.outputs.values()][kept:]])
        return (*carried, *map(torch.stack, zip(*rows, strict=True)))

    table["scan"] = scan
    run(graph.ops)
    env[loss].backward()
    return {v: env[v].grad.numpy() for v in graph.variables.values() if env[v].grad is not None}


@pytest.mark.parametrize("group", GROUPS)
def test_gradients_are_those_of_torch(group: str) -> None:
    graph, loss = built(GROUPS[group])
    step, grads = ir.autodiff(graph, loss)
    env, theirs = ir_numpy.interpret(step, {}), by_torch(graph, loss)
    for value, slope in grads.items():
        name = next(op.name for op in graph.ops if value in op.inputs)
        mine = env[slope]
        np.testing.assert_allclose(
            mine, theirs.get(value, np.zeros(value.shape)), 1e-7, 1e-8, err_msg=name
        )


def small(optimiser: str = "sgd", **how: float) -> tuple[Ir, Value]:
    graph, rng = Ir(), np.random.default_rng(0)
    x, y = graph.input((4, 6), "x"), graph.input((4,), "y", UNSIGNED_INT)
    with graph.at(path="net.first"):
        h = ir.linear(
            graph,
            x,
            graph.variable(rng.standard_normal((5, 6)).astype(np.float32), "net.first.weight"),
        )
        h = graph.op("relu", h)
    with graph.at(path="loss"):
        loss = graph.output("loss", ir.cross_entropy(graph, h, y))
    step, grads = ir.autodiff(graph, loss)
    return ir.optimise(step, grads, optimiser, 0.1, **how), loss


def fed(n: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((n, 4, 6)).astype(np.float32), "y": rng.integers(0, 5, (n, 4))}


@pytest.mark.parametrize(
    ("optimiser", "how"),
    [
        ("sgd", {"weight_decay": 0.1}),
        ("momentum", {"momentum": 0.9}),
        ("adam", {"beta1": 0.8}),
        ("adamw", {"weight_decay": 0.05}),
        ("lars", {"weight_decay": 0.1}),
    ],
)
def test_steps_are_those_of_float64(optimiser: str, how: dict[str, float]) -> None:
    step, loss = small(optimiser, **how)
    run = ir.Run(ir.Lowering(step, device(3), iterations=2), device(3))
    variables: dict[str, Any] = {}
    for seed in (1, 2):
        got = run(**fed(2, seed))["loss"]
        for i in range(2):
            one = {name: array[i] for name, array in fed(2, seed).items()}
            env = ir_numpy.interpret(step, one, variables)
            np.testing.assert_allclose(got[i], env[loss], 1e-5)
        run.write("rate", 0.03)
        variables["rate"][...] = 0.03
    for name, value in variables.items():
        np.testing.assert_allclose(run.read(name), value, 1e-4, 1e-5, err_msg=name)


def drawn() -> Ir:
    """A mask, what it leaves, its gradient, other numbers, and a few odd operations."""
    graph = Ir()
    x = graph.variable(np.linspace(1, 2, 600, dtype=np.float32), "x")
    y = graph.output("y", ir.dropout(graph, x, 0.25))
    graph.output("mask", next(op.outs[0] for op in graph.ops if op.kind == "dropout_mask"))
    for kind in ("uniform", "normal"):
        graph.output(kind, graph.op(kind, ir.seed(graph), shape=(30, 20), modifier=5))
    graph.output("odd", graph.op("rem", graph.op("print", graph.op("stop", x), title="x"), 3.0))
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", y))
    step.output("slope", grads[x])
    return step


def test_drawn_numbers_follow_the_seed_and_can_be_fed_back() -> None:
    step = drawn()
    runs = [ir.Run(ir.Lowering(step, device(3), iterations=2), device(3)) for _ in range(2)]
    for run in runs:
        run.engine.set_print_tensor_stream(io.StringIO())
    first, again = (run() for run in runs)
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
    assert not np.array_equal(first["mask"][0], first["mask"][1])
    np.testing.assert_array_equal(first["y"], first["mask"] * step.variables["x"].initial)
    np.testing.assert_array_equal(first["slope"], first["mask"])
    assert abs((first["mask"] == 0).mean() - 0.25) < 0.05 and {*np.unique(first["mask"])} == {
        0,
        np.float32(1 / 0.75),
    }
    assert abs(first["uniform"].mean() - 0.5) < 0.05 and abs(first["normal"].std() - 1) < 0.1
    later, seed = runs[0](), runs[0].state()["seed"]
    assert seed[0] == 42 + 4
    runs[1].restore(runs[0].state() | {"seed": [44, 0]})
    np.testing.assert_array_equal(runs[1]()["mask"], later["mask"])


def test_the_page_has_the_table_of_operations() -> None:
    """`python docs/make_operations.py` writes it."""
    make = runpy.run_path(str(ROOT / "docs" / "make_operations.py"))
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert make["table"]() in page, "run docs/make_operations.py"


def test_every_row_is_tested() -> None:
    pairs = [built(cases) for cases in GROUPS.values()]
    graphs = [ir.autodiff(graph, loss)[0] for graph, loss in pairs]
    graphs += [*(small(kind)[0] for kind in ir.STATE), drawn()]
    tested = {op.kind for graph in graphs for op in graph.ops}
    elsewhere = "all_reduce reduce_scatter own_share all_gather load assign accumulate clear"
    untested = set(ir.OPS) - tested - set(elsewhere.split())
    assert not untested, "give each a case in GROUPS, or in test_ir_transforms.py and `elsewhere`"
    assert set(elsewhere.split()) <= set(ir.OPS)
    assert len(ir.OPS) >= 60


def test_print_and_what_has_no_gradient() -> None:
    graph = Ir()
    x = graph.variable(np.float32([5.0, -7.5]), "x")
    y = graph.op("rem", graph.op("print", x, title="here"), 3.0)
    graph.output("y", y)
    half = graph.op("cast", graph.op("cast", x, dtype=HALF), dtype=FLOAT)
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", half))
    assert grads[x].dtype is FLOAT and ir_numpy.interpret(step, {})[grads[x]].tolist() == [1, 1]
    held = graph.op("mul", graph.op("stop", x), x)
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", held))
    assert ir_numpy.interpret(step, {})[grads[x]].tolist() == [5.0, -7.5]
    run = ir.Run(ir.Lowering(graph, device(2)), device(2))
    run.engine.set_print_tensor_stream(text := io.StringIO())
    np.testing.assert_allclose(run()["y"], [[2.0, -1.5]])
    assert "here" in text.getvalue()
    with graph.at(path="model.odd"), pytest.raises(ModelError) as refused:
        ir.autodiff(graph, ir.mean(graph, y))
    assert "rem has no gradient" in str(refused.value)


def leaky(low: Any, x: Any, slope: float) -> Any:
    return popops.map(
        low.graph, expr.Select(expr._1, expr._1 * slope, expr._1 > 0.0), [x], low.prog, low.name
    )


def test_an_operation_of_ones_own() -> None:
    row = ir.Row(
        lambda x, slope: ir.Out(x.shape, x.dtype),
        leaky,
        lambda graph, op, g: [
            graph.op(
                "select",
                graph.op("gt", op.inputs[0], 0.0),
                g,
                graph.op("mul", g, op.attrs["slope"]),
            )
        ],
    )
    ir.register("leaky", row)
    try:
        with pytest.raises(ModelError, match="An operation named 'leaky' already exists"):
            ir.register("leaky", row)
        graph = Ir()
        x = graph.variable(np.float32([-2, -1, 3]), "x")
        loss = graph.output("y", ir.reduced(graph, "sum", graph.op("leaky", x, slope=0.25)))
        step, grads = ir.autodiff(graph, loss)
        step.output("slope", grads[x])
        again = graph_from_bytes(graph_to_bytes(step))
        run = ir.Run(ir.Lowering(again, device(2)), device(2))
        got = run()
        assert got["y"] == 2.25 and got["slope"].tolist() == [[0.25, 0.25, 1.0]]
        data = graph_to_bytes(step)
    finally:
        del ir.OPS["leaky"]
    with pytest.raises(ModelLoadError, match="operation 'leaky', which is not in the table"):
        graph_from_bytes(data)


def test_names_travel_to_the_program_the_report_and_errors() -> None:
    step, _ = small()
    run = ir.Run(ir.Lowering(step, device(3)), device(3))
    run(**fed(1))
    report = run.engine.report
    names = {row.name for row in report.variables}
    assert "net.first.weight" in names and any(n.startswith("net.first/matmul") for n in names)
    assert {p.name for p in run.low.program.programs[1].programs} >= {
        "inputs",
        "net.first",
        "loss",
        "outputs",
    }


def test_a_graph_is_read_as_lines() -> None:
    lines = str(small("momentum", momentum=0.5)[0]).splitlines()
    assert str(small("sgd", momentum=0.5)[0]).splitlines() == lines
    assert lines[:3] == [
        "permute0 = permute(net.first.weight, dims=(1, 0))  # forward, net.first",
        "matmul1 = matmul(x, permute0)  # forward, net.first",
        "relu2 = relu(matmul1)  # forward, net.first",
    ]
    assert any("mul(sum5, 0.25)" in line for line in lines)
    assert (
        lines[-1].startswith("net.first.weight = momentum(net.first.weight, ")
        and "momentum=0.5" in lines[-1]
    )


def test_running_statistics_have_no_gradient() -> None:
    graph, loss = built({"batch": batch_normed(False)})
    learnt = {v.name for v in ir.autodiff(graph, loss)[1]}
    assert len(learnt) == 3 and not learnt & {"x0", "x1"}, "what goes in, gamma and beta"


def test_a_weight_lies_where_its_product_wants_it() -> None:
    """The product of x by the transposed weight has no copy of the weight before it."""
    cycles = []
    for turned in (True, False):
        graph, rng = Ir(), np.random.default_rng(0)
        w = graph.variable(
            rng.standard_normal((64, 48) if turned else (48, 64)).astype(np.float32), "w"
        )
        x = graph.input((16, 48), "x")
        graph.output("y", ir.linear(graph, x, w) if turned else graph.op("matmul", x, w))
        run = ir.Run(ir.Lowering(graph, device(13)), device(13))
        run(x=np.ones((16, 48), np.float32))
        cycles.append(run.engine.report.total_cycles)
    assert cycles[0] == cycles[1]


def test_a_graph_comes_back_from_its_file(tmp_path: Path) -> None:
    step, _ = small("adam")
    half = Ir()
    half.output(
        "y",
        half.op(
            "select",
            half.constant([True, False], BOOL),
            half.variable(np.float16([1.5, 2]), "h"),
            half.constant([0.5, -1], HALF),
        ),
    )
    steps, loss = built({"gru": recurrent("gru", 3)})
    steps, _ = ir.autodiff(steps, loss)
    for graph in (ir.replicate(ir.accumulate(ir.off_chip(step), 2), 2), half, steps):
        ir.save(graph, tmp_path / "net.ipumodel")
        again = ir.load(tmp_path / "net.ipumodel")
        assert (
            graph_to_bytes(again)
            == graph_to_bytes(graph)
            == (tmp_path / "net.ipumodel").read_bytes()
        )
        assert [op.name for op in again.ops] == [op.name for op in graph.ops]
        for name, value in graph.variables.items():
            np.testing.assert_array_equal(again.variables[name].initial, value.initial)
    runs = [
        ir.Run(ir.Lowering(g, device(3)), device(3))
        for g in (step, graph_from_bytes(graph_to_bytes(step)))
    ]
    np.testing.assert_array_equal(*(run(**fed(1))["loss"] for run in runs))
    with pytest.raises(ModelLoadError, match="no file|No such file"):
        ir.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda h: h.update(version=2), "format version 2; this kit reads up to version 1"),
        (
            lambda h: h["ops"][0].__setitem__(0, "permutee"),
            "operation 'permutee', which is not in the table",
        ),
        (lambda h: h["ops"][1].__setitem__(1, [0]), "is not inputs that the operation takes"),
        (lambda h: h["ops"][0].__setitem__(2, [0]), "values that only this operation makes"),
        (lambda h: h["ops"].reverse(), "results of earlier operations"),
        (lambda h: h["values"][0].__setitem__(3, [7, 6]), "has an initial value of another shape"),
        (lambda h: h["values"][0].__setitem__(3, [2**23, 2**23]), "is too large"),
        (lambda h: h["outputs"].update(loss=10**6), "is not a whole number from"),
        (lambda h: h.update(schedule="fast"), "'fast' is not a schedule"),
    ],
)
def test_a_damaged_graph_is_refused_by_name(damage: Any, says: str, tmp_path: Path) -> None:
    header, arrays = parts(graph_to_bytes(small()[0]))
    damage(header)
    file = tmp_path / "net.ipumodel"
    file.write_bytes(whole(json.dumps(header), arrays))
    with pytest.raises(ModelLoadError) as refused:
        ir.load(file)
    assert (
        says in str(refused.value)
        and "net.ipumodel" in str(refused.value)
        and refused.value.next_step
    )


def errs(call: Callable[[Ir, Value], object]) -> Any:
    graph = Ir()
    x = graph.variable(np.ones((3, 4), np.float32), "x")
    with graph.at(path="encoder.layer1"), pytest.raises(ModelError) as refused:
        call(graph, x)
    assert refused.value.next_step
    return refused.value


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda g, x: g.op("matmull", x, x),
            "There is no operation 'matmull'|did you mean 'matmul'|encoder.layer1|ir.register",
        ),
        (
            lambda g, x: g.op("matmul", x, x),
            "[3, 4] times [3, 4] does not fit|matmul of [3, 4] FLOAT and [3, 4] FLOAT, in encoder.layer1",
        ),
        (
            lambda g, x: g.op("add", x, g.op("cast", x, dtype=HALF)),
            "dtypes FLOAT and HALF differ|cast: graph.op",
        ),
        (
            lambda g, x: g.op("mul", g.op("arg_max", x), 0.5),
            "The constant 0.5 cannot be UNSIGNED_INT|cast the other tensor",
        ),
        (lambda g, x: g.constant([1, -100], UNSIGNED_INT), "[1, -100] cannot be UNSIGNED_INT"),
        (lambda g, x: g.op("add", x, g.constant([1.0, 2])), "[3, 4] and [2] do not broadcast"),
        (lambda g, x: g.op("relu", x, alpha=1), "relu has no attribute 'alpha'|leave it out"),
        (
            lambda g, x: ir.scan(
                g, lambda g, now, c: ([g.op("sum", c[0], dims=[0])], []), [x], [x]
            ),
            "FLOAT[4] is used as FLOAT[3, 4]|carry on values with the same shape|scan of [3, 4] FLOAT",
        ),
        (
            lambda g, x: ir.scan(
                g, lambda g, now, c: (c, [*g.emit("blend", x, x, momentum=0.5)]), [x], [x]
            ),
            "a step changes a variable|after the last step",
        ),
        (lambda g, x: g.op("reshape", x, shape=(5, 2)), "[3, 4] cannot be reshaped to [5, 2]"),
        (lambda g, x: g.op("permute", x, dims=(0, 0)), "is not an order of 2 dimensions"),
        (
            lambda g, x: g.op("slice", x, dim=0, begin=1, end=9),
            "1 to 9 by 1 is not a part of dimension 0, of 3",
        ),
        (lambda g, x: g.op("sum", x, dims=(4,)), "there is no dimension [4] of 2"),
        (lambda g, x: g.emit("top_k", x, k=5), "k is 5, and a row has 4|give a k from 1 to 4"),
        (lambda g, x: g.op("gather", x, x), "its numbers are FLOAT"),
        (lambda g, x: ir.conv(g, x, x), "give [batch, channels, *field]"),
        (
            lambda g, x: ir.pool(g, "max_pool", g.op("reshape", x, shape=(1, 1, 3, 4)), 5),
            "max_pool is not possible",
        ),
        (lambda g, x: ir.norm(g, "group", x, groups=3), "3 groups do not divide 4 channels"),
        (lambda g, x: ir.norm(g, "local", x), "norm() was given 'local' as kind"),
        (
            lambda g, x: g.emit("sgd", g.op("relu", x), x, 0.1),
            "'relu0' is not a variable",
        ),
        (
            lambda g, x: g.variable(np.zeros(2), "w"),
            "'w' is float64, a dtype that the device does not have|astype(numpy.float32)",
        ),
        (lambda g, x: g.variable(np.zeros(2, np.float32), "x"), "two values with the name 'x'"),
        (lambda g, x: ir.autodiff(g, x), "it takes the gradient of one float"),
        (lambda g, x: ir.optimise(g, {}, "sdg"), "did you mean 'sgd'"),
        (
            lambda g, x: g.op("dropout_mask", x, shape=(2,), keep=0.5, modifier=1),
            "its seed is not UNSIGNED_INT[2]",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(call: Any, text: str) -> None:
    error = errs(call)
    said = f"{error.tried}\n{error.where}\n{error.next_step}"  # not the line: it has the same words
    for part in text.split("|"):
        assert part in said
    assert not error.where or "test_ir.py, line" in error.line


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": np.zeros((3, 4, 6), np.float32)}, "steps 2 * accumulation 1 * replicas 1 * batch 4"),
        ({"y": np.full((2, 4), 5)}, "'y' was fed the number 5, but takes 0 to 4"),
        ({"y": np.full((2, 4), -1)}, "'y' was fed the number -1"),
        ({"y": np.zeros((2, 4), np.float32)}, "takes integers"),
        ({"z": 1}, "A run was fed x, y, z"),
    ],
)
def test_what_a_run_cannot_take(change: dict[str, Any], text: str) -> None:
    run = ir.Run(ir.Lowering(small()[0], device(2), iterations=2), device(2))
    with pytest.raises(ModelError) as refused:
        run(**fed(2) | change)
    assert text in str(refused.value)
    with pytest.raises(ModelError, match="did you mean 'net.first.weight'"):
        run.read("net.first.wieght")
    with pytest.raises(ModelError, match="was given"):
        run.write("net.first.weight", np.zeros(3))


def test_numbers_that_a_step_looks_up_are_checked() -> None:
    graph = Ir()
    table = graph.variable(np.eye(3, dtype=np.float32), "table")
    start = graph.constant(0.0, FLOAT, (3,))

    def step(g: Ir, now: list[Value], before: list[Value]) -> Any:
        return [g.op("add", before[0], ir.embedding(g, table, now[0]))], [table]

    (count,), (same,) = ir.scan(graph, step, [graph.input((4,), "i", UNSIGNED_INT)], [start])
    graph.output("count", count)
    scanned, slopes = ir.autodiff(graph, ir.mean(graph, graph.op("matmul", same, same)))
    scanned.output("slope", slopes[table])
    run = ir.Run(ir.Lowering(scanned, device(2)), device(2))
    found = run(i=[[2, 0, 2, 2]])
    assert found["count"].tolist() == [[1, 0, 3]]
    np.testing.assert_allclose(found["slope"], np.full((1, 3, 3), 2 / 9), 1e-6)
    with pytest.raises(ModelError, match="'i' was fed the number 3, but takes 0 to 2"):
        run(i=[[2, 0, 3, 2]])


def test_what_changes_with_each_micro_batch_is_read_where_it_lies() -> None:
    graph = Ir()
    v = graph.variable(np.zeros(3, np.float32), "v")
    graph.emit("blend", v, graph.input((3,), "x"), momentum=0.5)
    with graph.at(stage=1):
        graph.output("y", graph.op("relu", v))
    with pytest.raises(ModelError, match="the copy in stage 1 would not change"):
        ir.Lowering(graph, device(2, 2))


def test_a_graph_says_how_large_it_is() -> None:
    assert repr(Ir()) == "Ir(0 operations, 0 variables)"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda g, x, a, b: (b, a), lambda x, a, b: (b, a)),
        (lambda g, x, a, b: (a, g.op("add", a, b)), lambda x, a, b: (a, a + b)),
        (lambda g, x, a, b: (x, a), lambda x, a, b: (x, a)),
        (lambda g, x, a, b: (g.op("reverse", a, dim=0), b), lambda x, a, b: (a[::-1], b)),
        (
            lambda g, x, a, b: (g.op("add", a, x), joined(g, g.op("tanh", x), a)),
            lambda x, a, b: (a + x, np.concatenate([np.tanh(x[:1]), a[1:]])),
        ),
        (
            lambda g, x, a, b: (joined(g, b, a), joined(g, g.op("tanh", x), b)),
            lambda x, a, b: (
                np.concatenate([b[:1], a[1:]]),
                np.concatenate([np.tanh(x[:1]), b[1:]]),
            ),
        ),
    ],
)
def test_all_that_a_scan_carries_changes_at_once(step: Any, expected: Any) -> None:
    """Whether a state is made, was another one, or is in part a view of one."""
    graph = Ir()
    starts = [graph.variable(np.float32(v), n) for n, v in (("a", [1, 2]), ("b", [3, 4]))]
    after, _ = ir.scan(
        graph,
        lambda g, now, carried: (step(g, now[0], *carried), []),
        [graph.input((3, 2), "x")],
        starts,
    )
    for i, value in enumerate(after):
        graph.output(f"{i}", value)
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    run = ir.Run(ir.Lowering(graph, device), device)
    x = np.random.default_rng(0).normal(0, 1, (3, 2)).astype(np.float32)
    states = np.array([1.0, 2]), np.array([3.0, 4])
    for row in x.astype(np.float64):
        states = expected(row, *states)
    for _ in range(2):  # a second run begins at the start
        outputs = run(x=x[None])
        for i, state in enumerate(states):
            np.testing.assert_allclose(outputs[f"{i}"][0], state, 1e-5)


def joined(graph: Ir, a: Value, b: Value) -> Value:
    """The first element of a and the second of b."""
    first = graph.op("slice", a, dim=0, begin=0, end=1)
    return graph.op("concat", first, graph.op("slice", b, dim=0, begin=1, end=2), dim=0)
