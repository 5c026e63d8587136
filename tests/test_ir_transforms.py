"""Transforms of the frontends' graph keep every value: the same network trained with and without, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz import pipelines
from fuzz.pipelines import VIEWS

from ipu_teach import FLOAT, HALF, UNSIGNED_INT, IPUModel
from ipu_teach.errors import InvalidOptionError, ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Run, Value
from ipu_teach.schedules import SCHEDULES

BATCH, STEPS = 4, 2


def net(
    stages: tuple[int, int] = (0, 0),
    phases: int = 0,
    optimiser: str = "adam",
    plain: bool = False,
    steps: bool = False,
    **how: float,
) -> tuple[Ir, Value]:
    """A small network with all that a micro-batch may change: drawn numbers and running statistics; without those if `plain`; and a layer that goes step by step, if `steps`."""
    graph, rng = Ir(), np.random.default_rng(3)

    def weight(name: str, *shape: int) -> Value:
        return graph.variable((rng.standard_normal(shape) / 4).astype(np.float32), name)

    x, y = graph.input((BATCH, 2, 6, 6), "x"), graph.input((BATCH,), "y", UNSIGNED_INT)
    with graph.at(path="conv"):
        h = ir.conv(graph, x, weight("conv.weight", 4, 2, 3, 3), weight("conv.bias", 4), 1, 1)
        if not plain:
            running = (
                graph.variable(np.zeros(4, np.float32), "bn.mean"),
                graph.variable(np.ones(4, np.float32), "bn.var"),
            )
            h = ir.batch_norm(graph, h, weight("bn.weight", 4), weight("bn.bias", 4), *running)
        h = ir.pool(graph, "max_pool", graph.op("relu", h), 2)
    with graph.at(path="middle", stage=stages[0], phase=phases):
        h = ir.linear(
            graph,
            graph.op("reshape", h, shape=(BATCH, 36)),
            weight("middle.weight", 16, 36),
            weight("middle.bias", 16),
        )
        h = graph.op("gelu", h)
        h = h if plain else ir.dropout(graph, h, 0.25)
        h = ir.norm(graph, "layer", h)
        if steps:
            rows = graph.op("reshape", h, shape=(4, BATCH, 4))
            weights = weight("middle.w", 48, 4), weight("middle.r", 48, 16), weight("middle.b", 48)
            start = graph.constant(0.0, FLOAT, (BATCH, 16))
            _, (h,) = ir.recurrent(graph, "gru", rows, [start], *weights)
    with graph.at(path="last", stage=stages[1], phase=2 * phases):
        out = ir.linear(graph, h, weight("last.weight", 10, 16))
        loss = graph.output("loss", ir.cross_entropy(graph, out, y))
    step, grads = ir.autodiff(graph, loss)
    return ir.optimise(step, grads, optimiser, 0.02, **how), loss


def train(
    graph: Ir, steps: int = STEPS, tiles: int = 2, run: Run | None = None, first: int = 0
) -> tuple[Any, Run]:
    """The losses of micro-batches, always the same ones, and the run."""
    if run is None:
        device = IPUModel(
            "ipu2", tiles_per_ipu=tiles, num_ipus=graph.stages * graph.replicas
        ).create_device()
        run = Run(ir.Lowering(graph, device), device)
    rng, n = np.random.default_rng(4), run.micro_batches
    x = rng.standard_normal((24, BATCH, 2, 6, 6)).astype(np.float32)
    y = rng.integers(0, 10, (24, BATCH))
    losses = [
        run(x=x[i * n : i * n + n], y=y[i * n : i * n + n])["loss"]
        for i in range(first, first + steps)
    ]
    return np.concatenate(losses) if losses else None, run


def same(one: tuple[Any, Run], other: tuple[Any, Run], tolerance: float = 0.0) -> None:
    np.testing.assert_allclose(one[0], other[0], tolerance, tolerance)
    state, its = one[1].state(), other[1].state()
    shared = [
        n for n in state if n in its and state[n].shape == its[n].shape and not n.endswith(".sum")
    ]
    assert {n for n in one[1].ir.variables if "." in n and n.count(".") == 1} <= {*shared} | {
        n for n in state if n.endswith(".sum")
    }
    for name in shared:
        np.testing.assert_allclose(state[name], its[name], tolerance, tolerance, err_msg=name)


@pytest.fixture(scope="module")
def plain() -> tuple[Any, Run]:
    return train(net()[0])


def test_what_is_computed_again_has_the_same_bits(plain: tuple[Any, Run]) -> None:
    graph, _ = net()
    standard, nothing = ir.recompute(graph), ir.recompute(graph, [])
    same(plain, train(nothing))
    assert len(graph.ops) < len(standard.ops) < len(nothing.ops)
    again = [
        op
        for op in nothing.ops
        if op.part == "backward" and op.kind in ("conv", "norm", "dropout_mask")
    ]
    assert sorted(op.kind for op in again) == ["conv", "dropout_mask", "norm", "norm"]
    assert not any(op.kind == "blend" and op.part == "backward" for op in nothing.ops), (
        "statistics are blended once"
    )


def test_a_long_chain_is_computed_again_and_named_apart() -> None:
    graph = Ir()
    h = graph.variable(np.float32([0.5]), "x")
    for _ in range(2000):
        h = graph.op("sin", h)
    step, _ = ir.autodiff(graph, ir.reduced(graph, "sum", h))
    again = ir.recompute(step, [])
    assert len(again.ops) == len(step.ops) + 1999, "the last is not read by the backward"
    assert len({v.name for op in again.ops for v in op.outs}) == sum(
        len(op.outs) for op in again.ops
    )


def test_what_is_computed_again_need_not_lie_there() -> None:
    """A chain of wide layers: less is alive at once, for more cycles."""

    def chain() -> Ir:
        graph = Ir()
        h = graph.input((64, 64), "x")
        for i in range(16):
            h = graph.op(
                "gelu", graph.op("mul", h, graph.variable(np.ones(64, np.float32), f"w{i}"))
            )
        step, grads = ir.autodiff(graph, graph.output("loss", ir.mean(graph, h)))
        return ir.optimise(step, grads, "sgd", 0.1)

    reports = []
    for graph in (chain(), ir.recompute(chain())):
        device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
        run = Run(ir.Lowering(graph, device), device)
        run(x=np.ones((64, 64), np.float32))
        reports.append(run.engine.report)
    all_kept, some = (int(r.memory.not_always_live_bytes_per_tile.max()) for r in reports)
    assert some < 0.6 * all_kept
    assert reports[0].total_cycles < reports[1].total_cycles


def test_a_pipeline_has_the_bits_of_stages_one_after_the_other() -> None:
    graph = ir.accumulate(net(stages=(1, 1))[0], 4)
    apart = train(graph, 2)
    for schedule in ("sequential", "grouped"):
        same(apart, train(ir.pipelined(graph, schedule), 2))


def test_what_goes_step_by_step_is_transformed_like_all_else() -> None:
    apart = ir.accumulate(net((1, 1), steps=True)[0], 4)
    again = ir.accumulate(ir.recompute(net((1, 1), steps=True)[0], []), 4)
    assert [op.kind for op in again.ops].count("scan") == 3
    same(train(apart, 1), train(ir.pipelined(ir.off_chip(again)), 1))


def test_transforms_go_together() -> None:
    """Recomputed stages, in a pipeline, on two replicas, with shares of the optimiser's state."""
    apart = ir.replicate(ir.accumulate(net(stages=(1, 1))[0], 4), 2)
    graph = ir.replicate(ir.accumulate(ir.recompute(net(stages=(1, 1))[0]), 4), 2)
    same(train(apart, 1), train(ir.pipelined(ir.sharded(graph), "interleaved"), 1))


def test_what_skips_a_stage_goes_through_it() -> None:
    """Three stages; the first's output is read by the last, forward and back."""

    def skipping() -> Ir:
        graph, rng = Ir(), np.random.default_rng(5)
        weights = [
            graph.variable(rng.standard_normal((6, 6)).astype(np.float32), f"w{i}")
            for i in range(3)
        ]
        h = first = graph.op("tanh", ir.linear(graph, graph.input((2, 6), "x"), weights[0]))
        with graph.at(stage=1):
            h = graph.op("tanh", ir.linear(graph, h, weights[1]))
        with graph.at(stage=2):
            h = ir.linear(graph, graph.op("add", h, first), weights[2])
            loss = graph.output("loss", ir.mean(graph, graph.op("square", h)))
        step, grads = ir.autodiff(graph, loss)
        return ir.accumulate(ir.optimise(step, grads, "momentum", 0.05, momentum=0.9), 6)

    found = []
    for graph in (skipping(), ir.pipelined(skipping())):
        device = IPUModel("ipu2", tiles_per_ipu=2, num_ipus=4).create_device()
        with pytest.raises(
            ModelError, match="each replica needs 3 IPUs, but the device has only 1 IPU for"
        ):
            ir.Lowering(graph, IPUModel("ipu2", tiles_per_ipu=2).create_device())
        run = Run(ir.Lowering(graph, device), device)
        x = np.random.default_rng(6).standard_normal((6, 2, 6)).astype(np.float32)
        found.append((run(x=x)["loss"], run))
    same(*found)


def test_accumulation_is_the_larger_batch() -> None:
    """Two micro-batches of 4 beside 2 replicas of 4: equal in every bit; and the mean of the losses falls as with a batch of 8."""
    graph, _ = net(optimiser="sgd", plain=True)
    added = train(ir.accumulate(graph, 2, "sum"), 1)[1]
    losses, mean = train(ir.accumulate(graph, 2), 1)
    for name in ("conv.weight", "last.weight"):
        start = graph.variables[name].initial
        np.testing.assert_allclose(
            added.read(name) - start, 2 * (mean.read(name) - start), 1e-3, 1e-6
        )
    rest, _ = train(graph, STEPS - 1, run=mean, first=1)
    same((np.concatenate([losses, rest]), mean), train(ir.replicate(graph, 2)))


def test_accumulation_beside_one_batch_of_all() -> None:
    def model(batch: int) -> Ir:
        graph, rng = Ir(), np.random.default_rng(8)
        x, y = graph.input((batch, 12), "x"), graph.input((batch,), "y", UNSIGNED_INT)
        h = graph.op(
            "tanh",
            ir.linear(
                graph, x, graph.variable(rng.standard_normal((9, 12)).astype(np.float32), "a")
            ),
        )
        loss = ir.cross_entropy(
            graph,
            ir.linear(
                graph, h, graph.variable(rng.standard_normal((5, 9)).astype(np.float32), "b")
            ),
            y,
        )
        step, grads = ir.autodiff(graph, graph.output("loss", loss))
        return ir.optimise(step, grads, "adamw", 0.05)

    rng = np.random.default_rng(9)
    x, y = rng.standard_normal((16, 12)).astype(np.float32), rng.integers(0, 5, 16)
    found = []
    for graph in (
        model(16),
        ir.accumulate(model(4), 4),
        ir.replicate(ir.accumulate(model(4), 2), 2),
    ):
        device = IPUModel("ipu2", tiles_per_ipu=3, num_ipus=graph.replicas).create_device()
        run = Run(ir.Lowering(graph, device, iterations=1), device)
        losses = [run(x=x, y=y)["loss"].mean() for _ in range(4)]
        found.append((np.array(losses), run))
    for other in found[1:]:
        same(found[0], other, 1e-6)


def test_replicas_draw_other_numbers() -> None:
    graph = Ir()
    x = graph.input((64,), "x")
    graph.output("y", ir.dropout(graph, x, 0.5))
    twice = ir.replicate(graph, 2)
    device = IPUModel("ipu2", tiles_per_ipu=2, num_ipus=2).create_device()
    run = Run(ir.Lowering(twice, device, iterations=2), device)
    y = run(x=np.ones((4, 64), np.float32))["y"]
    assert {*np.unique(y)} == {0.0, 2.0}
    assert len({row.tobytes() for row in y}) == 4, "each replica, and each step"


def test_shares_of_the_optimiser_have_the_bits_of_all_of_it() -> None:
    graph = ir.replicate(net()[0], 2)
    whole = train(graph)
    found = train(ir.off_chip(ir.sharded(graph)))
    same(whole, found)
    for name, value in graph.variables.items():
        if name.endswith((".first", ".second")):
            assert found[1].read(name).shape == (2, -(-value.size // 2))
            flat = found[1].read(name).reshape(-1)[: value.size]
            np.testing.assert_array_equal(flat, whole[1].read(name).reshape(-1))
    with pytest.raises(ModelError, match="complete parameter"):
        ir.sharded(ir.replicate(net(optimiser="lars")[0], 2))


def test_what_lies_in_streaming_memory_has_the_same_bits(plain: tuple[Any, Run]) -> None:
    stored = train(ir.off_chip(net()[0]))
    same(plain, stored)
    before, after = (
        int(run.engine.report.memory.always_live_bytes_per_tile.sum()) for _, run in (plain, stored)
    )
    state = [
        [
            v.name
            for v in run.engine.report.variables.always_live()
            if v.name.endswith((".first", ".second"))
        ]
        for _, run in (plain, stored)
    ]
    assert len(state[0]) == 14 and not state[1] and after < before
    phased = train(ir.phased(net(phases=1)[0]))
    same(plain, phased)
    held = {v.name for v in phased[1].engine.report.variables.always_live()}
    assert not held & {*phased[1].ir.variables} - {"bn.mean", "bn.var", "seed", "rate"}
    assert {"middle.weight", "last.weight"} <= {
        v.name for v in plain[1].engine.report.variables.always_live()
    }


def test_training_that_was_stopped_goes_on_in_every_bit(plain: tuple[Any, Run]) -> None:
    """In another engine, which has run on; there it comes to where that one was."""
    losses, first = train(net()[0], 1)
    whole, second = plain
    after = second.state()
    second.restore(first.state())
    assert any((second.read(n) != numbers).any() for n, numbers in after.items())
    rest, _ = train(net()[0], STEPS - 1, run=second, first=1)
    np.testing.assert_array_equal(np.concatenate([losses, rest]), whole)
    for name, numbers in after.items():
        np.testing.assert_array_equal(second.read(name), numbers, err_msg=name)


def test_half_with_loss_scaling_follows_float() -> None:
    def model(dtype: Any, scale: float) -> tuple[Ir, Value]:
        graph, rng = Ir(), np.random.default_rng(2)
        x, y = graph.input((8, 12), "x", dtype), graph.input((8,), "y", UNSIGNED_INT)
        w = [
            graph.variable((rng.standard_normal(s) / 4).astype(dtype.numpy), n)
            for n, s in (("a", (9, 12)), ("b", (5, 9)))
        ]
        h = ir.linear(graph, graph.op("relu", ir.linear(graph, x, w[0])), w[1])
        loss = graph.output("loss", ir.cross_entropy(graph, h, y))
        step, grads = ir.autodiff(graph, loss, scale=scale)
        return ir.optimise(step, grads, "momentum", 0.1, scale=scale, momentum=0.9), loss

    found = []
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal((8, 12)).astype(np.float16), rng.integers(0, 5, 8)
    for dtype, scale in ((FLOAT, 1.0), (HALF, 1024.0)):
        device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
        run = Run(ir.Lowering(model(dtype, scale)[0], device), device)
        found.append(([run(x=x, y=y)["loss"][0] for _ in range(6)], run))
    np.testing.assert_allclose(found[0][0], found[1][0], 2**-9)
    np.testing.assert_allclose(
        found[0][1].read("a"), found[1][1].read("a").astype(np.float32), 2**-9, 2**-9
    )


def test_stages_by_the_path_of_modules() -> None:
    graph = Ir()
    h = graph.input((2, 4), "x")
    for path in ("a", "b.c", "b.d", "", "e"):
        with graph.at(path=path):
            h = graph.op("relu", h)
    assert [op.stage for op in ir.staged(graph, {"a": 0, "b": 1, "b.d": 2, "e": 3}).ops] == [
        0,
        1,
        2,
        2,
        3,
    ]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: ir.recompute(net()[0], "all"), "was told to keep 'all'"),
        (
            lambda: ir.recompute(net()[0], [net()[1]]),
            "which is not a result of the graph's forward pass",
        ),
        (lambda: ir.accumulate(net()[0], 0), "accumulate() was given 0"),
        (lambda: ir.replicate(net()[0], 1.5), "replicate() was given 1.5"),
        (
            lambda: ir.off_chip(net()[0], ["wieght"]),
            "'wieght', which is not the name of a variable of the graph",
        ),
        (lambda: ir.pipelined(ir.accumulate(net(stages=(1, 1))[0], 3)), "at least 4 micro-batches"),
        (lambda: ir.pipelined(net()[0], "fast"), "'fast'"),
    ],
)
def test_what_cannot_be_transformed_is_refused(wrong: Any, text: str) -> None:
    with pytest.raises((ModelError, InvalidOptionError)) as refused:
        wrong()
    assert text in " ".join(str(refused.value).split()) and refused.value.next_step


# --- pipelines whose stages share memory ----------------------------------------------------------

Middle = Callable[[Ir, Value, int], Value]


def _add(graph: Ir, x: Value, s: int) -> Value:
    return graph.op("add", graph.op("tanh", x), x)


# By kind: what a stage in the middle of a pipeline makes of its input.
MIDDLES: dict[str, Middle] = {
    "work": lambda graph, x, s: ir.linear(
        graph, x, graph.variable(np.eye(6, dtype=np.float32)[::-1] / 2, f"middle{s}")
    ),
    "residual": _add,
    "parameterless": lambda graph, x, s: graph.op("tanh", x),
    "frozen": lambda graph, x, s: graph.op(
        "mul", x, graph.variable(np.linspace(0.5, 1, 6, dtype=np.float32), f"frozen{s}")
    ),
    "nothing": lambda graph, x, s: x,
    **{kind: lambda graph, x, s, kind=kind: pipelines.view(graph, kind, x) for kind in VIEWS},
}


def net_of_stages(middle: Middle, stages: int, first: str, is_training: bool) -> Ir:
    """Stages of one kind between a first and a last one. The last one also reads what the first
    makes, and is fed the input as well; one output is an input of the graph, one a skipped value."""
    graph, rng = Ir(), np.random.default_rng(3)

    def weight(name: str, *shape: int) -> Value:
        return graph.variable(rng.normal(0, 0.5, shape).astype(np.float32), name)

    x = h = graph.input((2, 6), "x")
    if first != "parameterless":
        h = ir.linear(graph, x, weight(f"{first}.w", 6, 6))
    skipped = h = graph.op("tanh", h)
    for s in range(1, stages - 1):
        with graph.at(stage=s):
            h = middle(graph, h, s)
    with graph.at(stage=stages - 1):
        h = graph.op("add", graph.op("mul", h, skipped), x)
        last = ir.linear(graph, h, weight("last", 3, 6))
        loss = graph.output("loss", ir.mean(graph, graph.op("square", last)))
    graph.output("input", x)
    graph.output("skipped", skipped)
    if is_training:
        trained = [v for name, v in graph.variables.items() if not name.startswith("frozen")]
        graph, gradients = ir.autodiff(graph, loss, trained)
        graph = ir.optimise(graph, gradients, "sgd", 0.1)
    return ir.accumulate(graph, 2 * stages)


@pytest.mark.parametrize("is_training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("kind", MIDDLES)
def test_stages_of_every_kind_give_what_one_device_gives(
    kind: str, schedule: str, is_training: bool
) -> None:
    for stages, first in ((2, "frozen"), (3, "trained"), (4, "frozen"), (4, "parameterless")):
        if stages == 2 and kind != "work":
            continue  # without a middle all kinds are one
        graph = net_of_stages(MIDDLES[kind], stages, first, is_training)
        assert pipelines.differences_of(graph, graph, schedule) == [], (stages, first)


@pytest.mark.parametrize("seed", range(12))
def test_random_pipelines_give_what_one_device_gives(seed: int) -> None:
    assert not pipelines.one_pipeline(seed)[1]


def test_transforms_of_a_pipeline_whose_stages_share_memory() -> None:
    """Recomputed, with the optimiser's state in streaming memory, on two replicas with shares of
    it: the bits of one stage after the other."""

    def graph() -> Ir:
        rng = np.random.default_rng(7)
        graph = Ir()
        h = first = ir.linear(
            graph,
            graph.input((2, 6), "x"),
            graph.variable(rng.normal(0, 0.5, (6, 6)).astype(np.float32), "w"),
        )
        with graph.at(stage=1):
            h = graph.op("add", graph.op("tanh", h), graph.op("reverse", h, dim=1))
        with graph.at(stage=2):
            h = graph.op("mul", h, graph.op("add", first, graph.variable(np.float32(0.5), "b")))
            loss = graph.output("loss", ir.mean(graph, graph.op("square", h)))
        step, gradients = ir.autodiff(graph, loss)
        return ir.optimise(step, gradients, "adam", 0.05)

    x = np.random.default_rng(8).normal(0, 1, (12, 2, 6)).astype(np.float32)
    runs = []
    for is_pipeline in (False, True):
        step = ir.accumulate(ir.recompute(graph()) if is_pipeline else graph(), 6)
        step = ir.replicate(step, 2)
        if is_pipeline:
            step = ir.pipelined(ir.off_chip(ir.sharded(step)))
        device = IPUModel("ipu2", tiles_per_ipu=2, num_ipus=8).create_device()
        run = Run(ir.Lowering(step, device), device)
        losses = [run(x=x)["loss"] for _ in range(2)]
        runs.append((losses, run.read("w"), run.read("b")))
    for plain, moved in zip(*runs, strict=True):
        np.testing.assert_array_equal(plain, moved)


# --- variables that change within a micro-batch ---------------------------------------------------


def _old_view(graph: Ir, state: Value, x: Value) -> Value:
    seen = graph.op("reverse", state, dim=0)
    graph.emit("assign", state, graph.op("add", state, x))
    return graph.op("mul", seen, 2.0)


def _view_of_a_view(graph: Ir, state: Value, x: Value) -> Value:
    seen = graph.op("reverse", state, dim=0)
    graph.emit("assign", state, graph.op("add", state, x))
    return graph.op("mul", graph.op("reverse", seen, dim=0), 2.0)


def _old_output(graph: Ir, state: Value, x: Value) -> Value:
    seen = graph.op("reverse", state, dim=0)
    graph.emit("assign", state, graph.op("add", state, x))
    return seen


def _onto_itself(graph: Ir, state: Value, x: Value) -> Value:
    graph.emit("assign", state, graph.op("add", state, x))
    graph.emit("assign", state, graph.op("reverse", state, dim=0))
    return graph.op("mul", state, 1.0)


def _read_twice(graph: Ir, state: Value, x: Value) -> Value:
    before = graph.op("mul", state, 1.0)
    graph.emit("blend", state, x, momentum=0.5)
    return graph.op("sub", graph.op("mul", state, 3.0), before)


@pytest.mark.parametrize(
    ("build", "results", "state"),
    [
        (_old_view, [[0, 0, 0], [4, 2, 0], [14, 10, 6]], [9, 12, 15]),
        (_view_of_a_view, [[0, 0, 0], [0, 2, 4], [6, 10, 14]], [9, 12, 15]),
        (_old_output, [[0, 0, 0], [2, 1, 0], [7, 5, 3]], [9, 12, 15]),
        (_onto_itself, [[2, 1, 0], [5, 5, 5], [13, 12, 11]], [13, 12, 11]),
        (
            _read_twice,
            [[0, 1.5, 3], [4.5, 6.25, 8], [9.75, 11.625, 13.5]],
            [3.75, 4.625, 5.5],
        ),
    ],
)
def test_a_value_stays_what_it_was_when_its_variable_changes(
    build: Any, results: Any, state: Any
) -> None:
    graph = Ir()
    x, variable = graph.input((3,), "x"), graph.variable(np.zeros(3, np.float32), "state")
    graph.output("y", build(graph, variable, x))
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    run = Run(ir.Lowering(ir.accumulate(graph, 3), device), device)
    assert run(x=np.arange(9, dtype=np.float32).reshape(3, 3))["y"].tolist() == results
    assert run.read("state").tolist() == state


@pytest.mark.parametrize("changes_before", [False, True])
@pytest.mark.parametrize("schedule", [None, *SCHEDULES])
def test_gradients_read_the_state_that_the_forward_read(
    schedule: str | None, changes_before: bool
) -> None:
    """y = w x s, and s doubles with each micro-batch, before or after it is read."""
    graph, count = Ir(), 4
    x, w = graph.input((3,), "x"), graph.variable(np.float32([1, 2, 3]), "w")
    state = graph.variable(np.float32([4, 5, 6]), "state")
    h = graph.op("mul", x, w)
    if changes_before:
        graph.emit("assign", state, graph.op("mul", state, 2.0))
    h = graph.op("mul", h, state)
    if not changes_before:
        graph.emit("assign", state, graph.op("mul", state, 2.0))
    with graph.at(stage=1):
        loss = graph.output("loss", graph.op("sum", graph.op("mul", h, 0.5), dims=[0]))
    step, gradients = ir.autodiff(graph, loss, [w])
    step = ir.accumulate(ir.optimise(step, gradients, "sgd", 1.0), count, "sum")
    step = ir.pipelined(step, schedule) if schedule else step
    device = IPUModel("ipu2", tiles_per_ipu=2, num_ipus=2).create_device()
    run = Run(ir.Lowering(step, device), device)
    xs = np.random.default_rng(0).normal(0, 1, (count, 3)).astype(np.float32)
    losses = run(x=xs)["loss"]
    weights, seen, gradient = np.array([1.0, 2, 3]), np.array([4.0, 5, 6]), np.zeros(3)
    expected = []
    for row in xs.astype(np.float64):
        seen = seen * 2 if changes_before else seen
        expected.append((weights * row * seen).sum() / 2)
        gradient += row * seen / 2
        seen = seen if changes_before else seen * 2
    np.testing.assert_allclose(losses, expected, 1e-5)
    np.testing.assert_allclose(run.read("w"), weights - gradient, 1e-4)
    np.testing.assert_allclose(run.read("state"), [64, 80, 96])


def test_a_gradient_that_is_a_variable_is_read_before_any_changes() -> None:
    graph = Ir()
    a, b = (graph.variable(np.float32(v), n) for n, v in (("a", [1, 2]), ("b", [3, 5])))
    step = ir.optimise(graph, {a: b, b: graph.op("reverse", a, dim=0)}, "sgd", 0.5)
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    run = Run(ir.Lowering(step, device), device)
    run()
    assert run.read("a").tolist() == [-0.5, -0.5] and run.read("b").tolist() == [2.0, 4.5]


def test_state_in_streaming_memory_is_read_as_it_was_written() -> None:
    graph = Ir()
    x, state = graph.input((3,), "x"), graph.variable(np.zeros(3, np.float32), "state")
    before = graph.op("reverse", state, dim=0)
    graph.emit("assign", state, graph.op("add", state, x))
    graph.output("y", graph.op("mul", state, 2.0))
    graph.emit("blend", state, x, momentum=0.5)
    graph.output("before", graph.op("mul", before, 1.0))
    graph.output("state", state)
    graph = ir.off_chip(ir.accumulate(graph, 2), ["state"])
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    outputs = Run(ir.Lowering(graph, device), device)(x=np.float32([[1, 2, 3], [4, 5, 6]]))
    assert outputs["before"].tolist() == [[0, 0, 0], [3, 2, 1]]
    assert outputs["y"].tolist() == [[2, 4, 6], [10, 14, 18]]
    assert outputs["state"].tolist() == [[1, 2, 3], [4.5, 6, 7.5]]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_phases_of_a_pipeline_are_right_or_refused(schedule: str) -> None:
    """What phases leave in streaming memory is of one micro-batch."""
    graph = net_of_stages(MIDDLES["work"], 3, "trained", True)
    phased = ir.phased(ir.pipelined(graph, schedule))
    device = IPUModel("ipu2", tiles_per_ipu=1, num_ipus=4).create_device()
    if schedule != "sequential":
        with pytest.raises(ModelError) as caught:
            ir.Lowering(phased, device)
        assert "would read the value of another micro-batch.\n" in str(caught.value)
        assert "next:  use the schedule 'sequential', or a pipeline" in str(caught.value)
        phased = ir.phased(ir.pipelined(graph, "sequential"))
    x = np.random.default_rng(1).normal(0, 1, (6, 2, 6)).astype(np.float32)
    outputs = Run(ir.Lowering(phased, device), device)(x=x)
    plain = Run(ir.Lowering(graph, device), device)(x=x)
    for name, value in plain.items():
        np.testing.assert_array_equal(outputs[name], value)
