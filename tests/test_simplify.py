"""Graphs of the front ends before and after simplification: the same values in every bit."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
import pytest

from ipu_teach import BOOL, FLOAT, HALF, IPUModel
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.simplify import fuse_updates, simplify
from ipu_teach.frontends.session import compile_graph, without_unused

EDGES = [0.0, -0.0, 1.0, -1.0, 2.5, -3.25, np.inf, -np.inf, np.nan, 1e-40, 3e38, 65504.0]


def numbers(seed: int, shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    rng = np.random.default_rng(seed)
    with np.errstate(over="ignore"):
        return rng.choice(EDGES, shape).astype(dtype)


def kinds(graph: Ir) -> list[str]:
    return [op.kind for op in graph.ops]


def run(graph: Ir, fed: dict[str, Any], steps: int = 1) -> tuple[dict[str, Any], dict[str, Any]]:
    """The outputs and the last variables, on one tile, where the order of a sum is fixed."""
    program = compile_graph("", graph.but(), IPUModel("ipu2", tiles_per_ipu=1), steps)
    outputs = program(**{n: np.concatenate([a] * steps) for n, a in fed.items()})
    return dict(outputs), {n: program.read(n) for n in graph.variables}


def same_bits(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert a.keys() == b.keys()
    for name in a:
        x, y = np.asarray(a[name]), np.asarray(b[name])
        assert (x.dtype, x.shape) == (y.dtype, y.shape), name
        nan = np.isnan(x) if x.dtype.kind == "f" else np.zeros(x.shape, bool)
        if nan.any():  # a NaN's payload is nobody's
            np.testing.assert_array_equal(nan, np.isnan(y), name)
        assert x[~nan].tobytes() == y[~nan].tobytes(), name


# --- rules ----------------------------------------------------------------------------------------

Build = Callable[[Ir, Value], Value]
X = (3, 4)


def both(build: Build, shape: tuple[int, ...] = X) -> tuple[Ir, Ir]:
    """A graph of an input "x", and the same simplified."""
    graph = Ir()
    graph.output("y", build(graph, graph.input(shape, "x")))
    simple = graph.but()
    simplify(simple)
    return graph, simple


def half(g: Ir, x: Value) -> Value:
    return g.op("cast", x, dtype=HALF)


GONE: dict[str, tuple[Build, list[str]]] = {
    "times 1": (lambda g, x: g.op("mul", x, 1.0), []),
    "1 times": (lambda g, x: g.op("mul", 1.0, x), []),
    "by 1": (lambda g, x: g.op("div", x, 1.0), []),
    "less 0": (lambda g, x: g.op("sub", x, 0.0), []),
    "plus -0": (lambda g, x: g.op("add", g.constant(-0.0), x), []),
    "minus minus": (lambda g, x: g.op("neg", g.op("neg", x)), []),
    "reshape": (lambda g, x: g.op("reshape", x, shape=(-1, 4)), []),
    "reshape twice": (
        lambda g, x: g.op("reshape", g.op("reshape", x, shape=(12,)), shape=(2, 6)),
        ["reshape"],
    ),
    "reshape there and back": (
        lambda g, x: g.op("reshape", g.op("reshape", x, shape=(12,)), shape=X),
        [],
    ),
    "permute there and back": (
        lambda g, x: g.op("permute", g.op("permute", x, dims=(1, 0)), dims=(1, 0)),
        [],
    ),
    "expand twice": (
        lambda g, x: g.op("expand", g.op("expand", x, shape=(2, 3, 4)), shape=(5, 2, 3, 4)),
        ["expand"],
    ),
    "all of it": (lambda g, x: g.op("slice", x, dim=1, begin=0, end=4), []),
    "half, float, half": (
        lambda g, x: g.op("cast", g.op("cast", half(g, x), dtype=FLOAT), dtype=HALF),
        ["cast"],
    ),
    "minus a number": (
        lambda g, x: g.op("mul", x, g.op("neg", g.constant(0.5, FLOAT, X))),
        ["mul"],
    ),
    "twice the same": (
        lambda g, x: g.op("add", g.op("exp", x), g.op("exp", x)),
        ["exp", "add"],
    ),
    "a mask twice": (
        lambda g, x: g.op(
            "add",
            *(g.op("select", g.constant(np.tri(3, 4) > 0, BOOL), x, 0.0) for _ in range(2)),
        ),
        ["select", "add"],
    ),
}
STAYS: dict[str, Build] = {
    "plus 0": lambda g, x: g.op("add", x, 0.0),
    "less -0": lambda g, x: g.op("sub", x, g.constant(-0.0)),
    "times 0": lambda g, x: g.op("mul", x, 0.0),
    "0 less": lambda g, x: g.op("sub", 0.0, x),
    "1 by": lambda g, x: g.op("div", 1.0, x),
    "to the shape of ones": lambda g, x: g.op("mul", x, g.constant(1.0, FLOAT, (2, 3, 4))),
    "every second": lambda g, x: g.op("slice", x, dim=1, begin=0, end=4, step=2),
    "float, half, float": lambda g, x: g.op("cast", half(g, x), dtype=FLOAT),
    "0 and -0": lambda g, x: g.op(
        "add", g.op("div", x, g.constant(0.0)), g.op("div", x, g.constant(-0.0))
    ),
    "sums of others": lambda g, x: g.op(
        "add", g.op("sum", x, dims=[0, 1]), g.op("sum", x, dims=[1, 0, 1])
    ),
    "numbers that are drawn": lambda g, x: g.op(
        "add", *(ir.dropout(g, x, 0.5, modifier=7) for _ in range(2))
    ),
    "what is printed": lambda g, x: g.op("add", *(g.op("print", x, title="x") for _ in range(2))),
    "copies": lambda g, x: g.op("add", g.op("copy", x), g.op("copy", x)),
}


@pytest.mark.parametrize("name", GONE)
def test_what_changes_no_value_goes(name: str) -> None:
    build, left = GONE[name]
    graph, simple = both(build)
    live = without_unused(simple)
    assert kinds(live) == left
    fed = {"x": numbers(3, (1, *X))}
    same_bits(run(graph, fed)[0], run(live, fed)[0])


@pytest.mark.parametrize("name", STAYS)
def test_what_may_change_a_value_stays(name: str) -> None:
    graph, simple = both(STAYS[name])
    assert kinds(simple) == kinds(graph)


def test_operations_that_a_learner_registers_are_never_merged() -> None:
    row = ir.Row(lambda x: ir.Out(x.shape, x.dtype), lambda low, x: x)
    ir.register("draws_maybe", row)
    try:
        graph, simple = both(lambda g, x: g.op("add", *(g.op("draws_maybe", x) for _ in "ab")))
        assert kinds(simple) == kinds(graph)
    finally:
        del ir.OPS["draws_maybe"]
        ir.values.REGISTERED.discard("draws_maybe")


def test_what_reads_a_variable_before_and_after_it_changes_is_computed_twice() -> None:
    graph = Ir()
    x, w = graph.input((4,), "x"), graph.variable(np.arange(4, dtype=np.float32), "w")
    before = graph.op("exp", w)
    kept = graph.op("mul", w, 1.0)  # what w was
    graph.emit("assign", w, x)
    graph.output("y", graph.op("sub", graph.op("exp", w), before))
    graph.output("kept", kept)
    simple = graph.but()
    simplify(simple)
    assert kinds(simple) == kinds(graph)
    fed = {"x": np.array([[5, 6, 7, 8]], np.float32)}
    got, _ = run(simple, fed)
    np.testing.assert_array_equal(got["kept"][0], np.arange(4))
    np.testing.assert_allclose(got["y"][0], np.exp([5.0, 6, 7, 8]) - np.exp([0.0, 1, 2, 3]), 1e-6)


def test_another_stage_computes_its_own() -> None:
    graph = Ir()
    x = graph.input((4,), "x")
    first = graph.op("exp", x)
    with graph.at(stage=1):
        graph.output("y", graph.op("add", graph.op("exp", x), first))
    simplify(graph)
    assert kinds(graph) == ["exp", "exp", "add"]


# --- variables ------------------------------------------------------------------------------------


def averaged(momentum: float, share: float, also: str = "") -> Ir:
    """A running mean as torch spells it: from a copy of what it was, assigned at the end."""
    graph = Ir()
    x = graph.input((5,), "x")
    mean = graph.variable(np.array([0.25, -1, 3, 0, 1e-3], np.float32), "norm.mean")
    with graph.at(path="norm"):
        old = graph.op("copy", mean)
        parts = graph.op("mul", old, share), graph.op("mul", x, momentum)
        new = graph.op("add", *parts)
    graph.output("y", graph.op("exp", old if also == "later" else x))
    if also == "new":
        graph.output("new", new)
    graph.emit("assign", mean, new)
    return graph


def test_a_running_mean_that_is_assigned_is_blended_in_place() -> None:
    graph = averaged(0.1, 0.9)
    simple = graph.but()
    fuse_updates(simple)
    assert kinds(simple) == ["blend", "exp"]
    blend = simple.ops[0]
    assert blend.attrs == {"momentum": 0.1}
    assert blend.path == "norm"
    fed = {"x": numbers(5, (1, 5))}
    for a, b in zip(run(graph, fed, 3), run(simple, fed, 3), strict=True):
        same_bits(a, b)


@pytest.mark.parametrize("momentum", [1 / 3, 0.01, 0.999, 0.5, 0.0, 1.0])
def test_a_blend_rounds_as_its_parts_do(momentum: float) -> None:
    graph = averaged(momentum, 1 - momentum)
    simple = graph.but()
    fuse_updates(simple)
    assert kinds(simple)[0] == "blend"
    fed = {"x": np.random.default_rng(1).normal(size=(1, 5)).astype(np.float32)}
    same_bits(run(graph, fed, 4)[1], run(simple, fed, 4)[1])


@pytest.mark.parametrize("other", [(0.1, 0.8, ""), (0.1, 0.9, "new")])
def test_other_sums_are_assigned(other: tuple[float, float, str]) -> None:
    simple = averaged(*other)
    fuse_updates(simple)
    assert "blend" not in kinds(simple)
    assert "assign" in kinds(simple)


def test_a_copy_stays_where_it_is_read_after_the_change() -> None:
    graph = averaged(0.1, 0.8, "")
    with graph.at(part="backward"):
        copied = graph.ops[0].outs[0]
        graph.output("late", graph.op("exp", graph.op("reshape", copied, shape=(1, 5))))
    simple = graph.but()
    fuse_updates(simple)
    assert kinds(simple) == kinds(graph)
    later = graph.but(ops=graph.ops[:-2], outputs={"y": graph.outputs["y"]})
    fuse_updates(later, graph.ops[-2:])
    assert "copy" in kinds(later)
    alone = graph.but(ops=graph.ops[:-2], outputs={"y": graph.outputs["y"]})
    fuse_updates(alone)
    assert "copy" not in kinds(alone)


def means(count: int) -> Ir:
    """Running means that share their constants, some of which are read elsewhere as well."""
    graph = Ir()
    x = graph.input((5,), "x")
    share, momentum = graph.constant(0.9, FLOAT), graph.constant(0.1, FLOAT)
    for i in range(count):
        mean = graph.variable(np.zeros(5, np.float32), f"norm{i}.mean")
        old = graph.op("copy", mean)
        new = graph.op("add", graph.op("mul", old, share), graph.op("mul", x, momentum))
        if i % 10 == 0:
            graph.output(f"new{i}", new)
        graph.emit("assign", mean, new)
    return graph


def test_many_updates_take_time_in_proportion() -> None:
    def seconds(count: int) -> float:
        graph = means(count)
        began = process_time()
        fuse_updates(graph)
        assert kinds(graph).count("blend") == count - count // 10
        return process_time() - began

    few, many = (min(seconds(count) for _ in range(3)) for count in (250, 2_000))
    assert many < 24 * few  # 8 if it is in proportion, 64 if each update looks at all operations


# --- graphs that are drawn ------------------------------------------------------------------------


def drawn(seed: int) -> tuple[Ir, dict[str, Any]]:
    """A graph of elementwise operations, views, sums, draws and changes of variables."""
    rng, graph = np.random.default_rng(seed), Ir()
    v = graph.variable(numbers(seed, (3, 4)), "v")
    values = [graph.input((3, 4), "x"), graph.input((4,), "z"), v]
    constants = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf]

    def any_value(*shapes: tuple[int, ...]) -> Value:
        fits = [w for w in values if w.dtype is FLOAT and (not shapes or w.shape in shapes)]
        return fits[rng.integers(len(fits))]

    for _ in range(int(rng.integers(8, 25))):
        kind = str(
            rng.choice(
                [
                    "add",
                    "sub",
                    "mul",
                    "div",
                    "neg",
                    "relu",
                    "exp",
                    "reshape",
                    "permute",
                    "expand",
                    "slice",
                    "cast",
                    "select",
                    "sum",
                    "copy",
                    "dropout",
                    "assign",
                    "blend",
                    "twice",
                ]
            )
        )
        x = any_value()
        if kind in ("add", "sub", "mul", "div"):
            number = graph.constant(float(rng.choice(constants)), FLOAT, x.shape)
            pair = [x, number if rng.random() < 0.6 else any_value(x.shape)]
            made = graph.op(kind, *(pair if rng.random() < 0.7 else pair[::-1]))
        elif kind in ("neg", "relu", "exp", "copy"):
            made = graph.op(kind, x)
        elif kind == "reshape":
            shapes = [(x.size,), (1, x.size), (3, 4) if x.size == 12 else (2, 2), x.shape]
            shapes = [s for s in shapes if np.prod(s) == x.size]
            made = graph.op("reshape", x, shape=shapes[rng.integers(len(shapes))])
        elif kind == "permute":
            made = graph.op("permute", x, dims=tuple(rng.permutation(len(x.shape)).tolist()))
        elif kind == "expand":
            made = graph.op("expand", x, shape=x.shape if rng.random() < 0.4 else (2, *x.shape))
        elif kind == "slice":
            if not x.shape:
                continue
            end = int(rng.integers(1, x.shape[0] + 1))
            made = graph.op("slice", x, dim=0, begin=0, end=end)
        elif kind == "cast":
            made = graph.op("cast", graph.op("cast", x, dtype=HALF), dtype=FLOAT)
        elif kind == "select":
            made = graph.op("select", graph.op("gt", x, 0.0), x, 0.0)
        elif kind == "sum":
            made = graph.op("sum", x, dims=tuple(range(len(x.shape))))
        elif kind == "dropout":
            made = ir.dropout(graph, x, 0.5, modifier=1)
        elif kind == "twice":
            op = graph.ops[rng.integers(len(graph.ops))] if graph.ops else None
            if op is None or not op.outs or op.kind == "next_seed":
                continue
            made = graph.op(op.kind, *op.inputs, **op.attrs)
        else:
            new = any_value((3, 4))
            more = {"momentum": 0.1} if kind == "blend" else {}
            graph.emit(kind, v, graph.op("copy", new), **more)
            continue
        values.append(made)
    for place, value in enumerate(values[3:]):
        if rng.random() < 0.5 and value.kind == "made" and value.size < 400:
            graph.output(f"y{place}", value)
    return graph, {"x": numbers(seed + 1, (1, 3, 4)), "z": numbers(seed + 2, (1, 4))}


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_graphs_that_are_drawn_keep_every_bit(first: int) -> None:
    """`run.py fuzz --operations` draws graphs of layers; these have what the rules look for."""
    removed = 0
    for seed in range(first, first + 10):
        graph, fed = drawn(seed)
        simple = graph.but()
        simplify(simple)
        fuse_updates(simple)
        removed += len(graph.ops) - len(simple.ops)
        for a, b in zip(run(graph, fed, 2), run(simple, fed, 2), strict=True):
            same_bits(a, b)
    assert removed > 10
