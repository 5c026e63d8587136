"""Small programs of the frontends' graph: at least one case for each operation.

A case adds its operations to the graph of a `Draw`, on inputs that the `Draw` makes, and returns
their value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from fuzz import operations
from fuzz.operations import Case, Draw

from ipu_teach import FLOAT, INT, UNSIGNED_INT, Device, IPUModel
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value


def positive(kind: str) -> Case:
    """Return a case of one operand of positive numbers."""
    return lambda d: d.op(kind, d.x(3, 5, low=0.3, high=3.0))


def anywhere(kind: str) -> Case:
    """Return a case of one operand of any numbers."""
    return lambda d: d.op(kind, d.x(4, 7))


def both(kind: str) -> Case:
    """Return a case of two operands of positive numbers, which broadcast."""
    return lambda d: d.op(kind, d.x(4, 1, 3, low=0.4), d.x(5, 3, low=0.3))


def comparison(kind: str) -> Case:
    """Return a case of a comparison, cast to FLOAT."""
    return lambda d: d.op("cast", d.op(kind, d.x(4, 3), d.x(3)), dtype=FLOAT)


def logical(kind: str) -> Case:
    """Return a case of truth values, cast to FLOAT."""

    def case(d: Draw) -> Value:
        first = d.op("gt", d.x(4, 3), 0.0)
        more = () if kind == "logical_not" else (d.op("lt", d.x(4, 3), 0.5),)
        return d.op("cast", d.op(kind, first, *more), dtype=FLOAT)

    return case


def integers(d: Draw) -> Value:
    """Return a constant of integers between -99 and 98."""
    return d.graph.constant(d.rng.integers(-99, 99, (4, 3)), INT)


def in_float(d: Draw, kind: str, *operands: Any, **attributes: Any) -> Value:
    """Add the operation, and return its result cast to FLOAT."""
    return d.op("cast", d.op(kind, *operands, **attributes), dtype=FLOAT)


def bits(kind: str) -> Case:
    """Return a case of an operation on the bits of integers."""
    count = 1 if kind == "bitwise_not" else 2
    return lambda d: in_float(d, kind, *(integers(d) for _ in range(count)))


def conv(case: tuple[Any, ...], shape: tuple[int, ...], weights: tuple[int, ...]) -> Case:
    """Return a convolution; `case` is its stride, padding below and above, dilation and groups."""
    return lambda d: ir.conv(d.graph, d.x(*shape), d.x(*weights), d.x(weights[0]), *case)


def pool(kind: str, **options: Any) -> Case:
    """Return a case of pooling over images of 7 by 6."""
    return lambda d: ir.pool(d.graph, kind, d.x(2, 3, 7, 6), **options)


def normed(kind: str, *shape: int, **options: Any) -> Case:
    """Return a case of a normalisation; "layer" has its channels in the last axis."""
    channels = shape[-1] if kind == "layer" else shape[1]
    return lambda d: ir.norm(d.graph, kind, d.x(*shape), d.x(channels), d.x(channels), **options)


def batch_normed(training: bool) -> Case:
    """Return a case of batch normalisation, in training or in inference."""

    def case(d: Draw) -> Value:
        mean, var = d.x(3), d.x(3, low=0.5, high=2.0)
        x = d.x(4, 3, 5, 5)
        return ir.batch_norm(d.graph, x, d.x(3), d.x(3), mean, var, training)

    return case


def recurrent(kind: str, gates: int, states: int = 1) -> Case:
    """Return a recurrent layer over three steps; its outputs are joined with its last states."""

    def case(d: Draw) -> Value:
        state = [d.x(2, 3) for _ in range(states)]
        weights = d.x(gates * 3, 4), d.x(gates * 3, 3), d.x(gates * 3), d.x(gates * 3)
        outs, after = ir.recurrent(d.graph, kind, d.x(3, 2, 4), state, *weights)
        return d.op("concat", d.op("reshape", outs, shape=(6, 3)), *after, dim=0)

    return case


def scanned(d: Draw) -> Value:
    """Return a scan: two states that swap, a constant one, a counter, and one that no step reads."""

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


def topped(d: Draw, x: Value, **options: Any) -> Value:
    """Return the product of the values and the places of `top_k`."""
    values, places = d.graph.emit("top_k", x, **options)
    return d.op("mul", values, d.op("cast", places, dtype=FLOAT))


def labelled(loss: Callable[..., Value], *shape: int, **options: Any) -> Case:
    """Return a case of a loss of labels; with the option `ignored`, one label is to be ignored."""

    def case(d: Draw) -> Value:
        x = d.x(*shape)
        labels = d.rng.integers(0, shape[1], (shape[0], *shape[2:]))
        if "ignored" in options:
            labels.flat[1] = 2**32 - 1
        return loss(d.graph, x, d.graph.constant(labels, UNSIGNED_INT), **options)

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
        **{k: comparison(k) for k in ("eq", "neq", "lt", "lteq", "gt", "gteq")},
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


def graph_of(cases: dict[str, Case]) -> tuple[Ir, Value]:
    """Return a graph that outputs every case, and a loss: the weighted sum of all elements."""
    d = Draw()
    total: Value | None = None
    for name, case in cases.items():
        with d.graph.at(path=name):
            y = d.graph.output(name, case(d))
        with d.graph.at(path="loss"):
            weighted = operations.total(d, y)
            total = weighted if total is None else d.op("add", total, weighted)
    assert total is not None
    return d.graph, total


class CallRecorder(ir.Lowering):
    """Lowers a graph, and records which library calls each operation makes.

    `calls` has them by kind of operation, over all graphs that were lowered.
    """

    calls: ClassVar[dict[str, dict[str, None]]] = {}

    def call(self, function: Any, *args: Any, **options: Any) -> Any:
        library = function.__module__.split("poplibs.")[1].split(".")[0]
        self.calls.setdefault(self.op.kind, {})[f"{library}.{function.__name__}"] = None
        return super().call(function, *args, **options)


def device(tiles: int = 13, ipus: int = 1) -> Device:
    """Return a device of `ipus` IPUs of `tiles` tiles each."""
    return IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device()


def training_step(optimiser: str = "sgd", **options: float) -> tuple[Ir, Value]:
    """Return a step of training of one layer, and its loss."""
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
    return ir.optimise(step, grads, optimiser, 0.1, **options), loss


def random_graph() -> Ir:
    """Return a graph with dropout, its mask and gradient, random numbers, and a few rare operations."""
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
