"""The rows of the frontends' graph: each lowered beside an interpreter in float64, each gradient beside finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ir_numpy
import numpy as np
import pytest

from ipu_teach import BOOL, FLOAT, HALF, UNSIGNED_INT, IPUModel
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value

Case = Callable[["Draw"], Value]
KINDS_TESTED: set[str] = set()


class Draw:
    """A graph whose variables are drawn: `x(3, 4)` is a new one, between `low` and `high`."""

    def __init__(self) -> None:
        self.graph, self.rng = Ir(), np.random.default_rng(5)

    def x(self, *shape: int, low: float = -2.0, high: float = 2.0) -> Value:
        name = f"x{len(self.graph.variables)}"
        return self.graph.variable(self.rng.uniform(low, high, shape).astype(np.float32), name)

    def numbers(self, below: int, *shape: int) -> Value:
        return self.graph.constant(self.rng.integers(0, below, shape), UNSIGNED_INT)

    def op(self, kind: str, *given: Any, **attrs: Any) -> Value:
        return self.graph.op(kind, *given, **attrs)


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


def lstm(d: Draw) -> Value:
    state = d.x(2, 3), d.x(2, 3)
    return ir.lstm(d.graph, d.x(3, 2, 4), *state, d.x(12, 4), d.x(12, 3), d.x(12))[0]


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
                "trunc",
            )
        },
        **{k: positive(k) for k in ("log", "log1p", "sqrt", "rsqrt", "inv")},
        **{
            k: anywhere(k)
            for k in ("relu", "sigmoid", "hard_sigmoid", "tanh", "gelu", "gelu_tanh", "silu")
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
        "clamp": lambda d: d.op("clamp", d.x(5, 6), least=-0.7, most=1.1),
        "copy": anywhere("copy"),
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
        "lstm": lstm,
        "gather": lambda d: ir.embedding(d.graph, d.x(7, 3), d.numbers(7, 2, 5)),
        "scatter": lambda d: d.op("scatter", d.numbers(6, 8), d.x(8, 3), shape=(6, 3)),
        "scatter_add": lambda d: d.op("scatter_add", d.x(6, 3), d.numbers(6, 8), d.x(8, 3)),
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
            weights = d.graph.constant(d.rng.uniform(-1, 1, y.shape), FLOAT)
            one = ir.reduced(d.graph, "sum", d.op("mul", y, weights))
            total = one if total is None else d.op("add", total, one)
    assert total is not None
    return d.graph, total


def device(tiles: int = 13, ipus: int = 1) -> Any:
    return IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device()


@pytest.mark.parametrize("group", GROUPS)
def test_values_and_gradients_are_those_of_float64_and_of_finite_differences(group: str) -> None:
    graph, loss = built(GROUPS[group])
    step, grads = ir.autodiff(graph, loss)
    for value, slope in grads.items():
        step.output(f"d {value.name}", slope)
    KINDS_TESTED.update(op.kind for op in step.ops)
    # what is learnt from the batch is changed by it: differences want it as it was
    variables = {n: np.asarray(v.initial, np.float64) for n, v in graph.variables.items()}
    env = ir_numpy.interpret(step, {}, {n: a.copy() for n, a in variables.items()})
    got = ir.Run(ir.Lowering(step, device()), device())()
    for name, value in step.outputs.items():
        np.testing.assert_allclose(got[name][0], env[value], 2e-5, 2e-5, err_msg=name)
    rng = np.random.default_rng(7)
    used = {v for op in graph.ops for v in op.inputs}
    for value in graph.variables.values():
        if value not in grads:
            continue
        assert value in used
        way = rng.uniform(-1, 1, value.shape)
        ends = []
        for h in (1e-6, -1e-6):
            moved = {n: a + h * way if n == value.name else a.copy() for n, a in variables.items()}
            ends.append(ir_numpy.interpret(graph, {}, moved)[loss])
        slope = (ends[0] - ends[1]) / 2e-6
        where = next(op.name for op in graph.ops if value in op.inputs)
        np.testing.assert_allclose(
            (env[grads[value]] * way).sum(), slope, 1e-5, 1e-6, err_msg=where
        )


def test_0() -> None:
    assert HALF and BOOL
