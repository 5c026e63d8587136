"""Estimates of steps, compared with the reports of graphs that were built."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from estimates import built_cycles, built_report

from ipu_teach import FLOAT, HALF, UNSIGNED_INT, IPUModel
from ipu_teach.errors import InvalidOptionError, ModelError
from ipu_teach.estimate.prices import PRICES
from ipu_teach.estimate.result import Line
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Value
from ipu_teach.frontends.ir.values import REGISTERED

HALF_SUMS = {"partialsType": "half"}


def weights(graph: Ir, name: str, *shape: int) -> Value:
    return graph.variable(np.zeros(shape, np.float16), name, dtype=HALF)


def dense(*sizes: int, batch: int = 32, stages: int = 1) -> tuple[Ir, Value]:
    """Return a network of linear layers and its loss."""
    graph = Ir()
    h = graph.input((batch, sizes[0]), "x", HALF)
    labels = graph.input((batch,), "y", UNSIGNED_INT)
    for number, (size, out) in enumerate(zip(sizes, sizes[1:], strict=False)):
        with graph.at(path=f"layer{number}", stage=number * stages // (len(sizes) - 1)):
            w = weights(graph, f"layer{number}.weight", out, size)
            h = ir.linear(graph, h, w, weights(graph, f"layer{number}.bias", out))
            h = graph.op("relu", h) if number < len(sizes) - 2 else h
    with graph.at(path="loss", stage=stages - 1):
        loss = ir.cross_entropy(graph, h, labels)
    graph.output("loss", loss)
    return graph, loss


def convolutional(kind: str) -> tuple[Ir, Value]:
    """Return two convolutions with norms of a kind, a pool and a linear layer."""
    graph = Ir()
    h = graph.input((4, 3, 16, 16), "x", HALF)
    labels = graph.input((4,), "y", UNSIGNED_INT)
    for number, (channels, out) in enumerate(((3, 16), (16, 32))):
        with graph.at(path=f"block{number}"):
            sizes = {"stride": (1, 1), "lower": (1, 1), "upper": (1, 1), "dilation": (1, 1)}
            w = weights(graph, f"block{number}.weight", out, channels, 3, 3)
            h = graph.op("conv", h, w, **sizes, groups=1)
            scale = [weights(graph, f"block{number}.{name}", out) for name in ("scale", "shift")]
            groups = {"groups": 4} if kind == "group" else {}
            h = graph.emit("norm", h, *scale, kind=kind, eps=1e-5, **groups)[0]
            h = graph.op("relu", h)
    with graph.at(path="head"):
        h = graph.op("max_pool", h, kernel=(2, 2), stride=(2, 2), lower=(0, 0), upper=(0, 0))
        h = graph.op("reshape", h, shape=(4, -1))
        loss = ir.cross_entropy(
            graph, ir.linear(graph, h, weights(graph, "head.weight", 10, h.shape[1])), labels
        )
    graph.output("loss", loss)
    return graph, loss


def transformer() -> tuple[Ir, Value]:
    """Return a layer of self-attention and a feed-forward layer."""
    graph = Ir()
    x = graph.input((64, 64), "x", HALF)
    labels = graph.input((64,), "y", UNSIGNED_INT)
    with graph.at(path="attention"):
        q, k, v = (
            graph.op("reshape", ir.linear(graph, x, weights(graph, n, 64, 64)), shape=(4, 16, 64))
            for n in ("q", "k", "v")
        )
        scores = graph.op("mul", graph.op("matmul", q, ir.turned(graph, k)), 0.125)
        mixed = graph.op("matmul", graph.op("softmax", scores), v)
        h = graph.op("add", x, graph.op("reshape", mixed, shape=(64, 64)))
    with graph.at(path="feed"):
        scale = [weights(graph, name, 64) for name in ("scale", "shift")]
        h = graph.emit("norm", h, *scale, kind="layer", eps=1e-5)[0]
        h = graph.op("gelu", ir.linear(graph, h, weights(graph, "up", 256, 64)))
        h = ir.linear(graph, h, weights(graph, "down", 64, 256))
    loss = ir.cross_entropy(graph, h, labels)
    graph.output("loss", loss)
    return graph, loss


def trained(net: tuple[Ir, Value], kind: str = "momentum", **numbers: float) -> Ir:
    step, grads = ir.autodiff(*net)
    numbers = {"momentum": 0.9} if kind == "momentum" else numbers
    return ir.optimise(step, grads, "sgd" if kind == "momentum" else kind, rate=0.1, **numbers)


def recomputed(net: tuple[Ir, Value]) -> Ir:
    step, grads = ir.autodiff(*net)
    return ir.optimise(ir.recompute(step), grads, "sgd")


NETWORKS: dict[str, Callable[[], Ir]] = {
    "dense": lambda: trained(dense(96, 128, 128, 10)),
    "dense, Adam": lambda: trained(dense(96, 128, 10), "adam"),
    "dense, inference": lambda: dense(96, 128, 128, 10)[0],
    "batch norm": lambda: trained(convolutional("batch")),
    "group norm": lambda: trained(convolutional("group")),
    "transformer": lambda: trained(transformer()),
    "accumulation": lambda: ir.accumulate(trained(dense(96, 128, 10)), 3),
    "recomputation": lambda: recomputed(dense(96, 128, 128, 10)),
    "replicas": lambda: ir.replicate(trained(dense(96, 128, 10)), 4),
    "off chip": lambda: ir.off_chip(trained(dense(96, 128, 10))),
    "pipeline": lambda: ir.pipelined(ir.accumulate(trained(dense(96, 128, 128, 10, stages=2)), 6)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_an_estimate_is_within_15_percent_of_the_built_graph(name: str) -> None:
    step = NETWORKS[name]()
    device = IPUModel(
        "ipu2", num_ipus=step.stages * step.replicas, tiles_per_ipu=64
    ).create_device()
    estimate = ir.estimate(step, device, HALF_SUMS)
    assert estimate.cycles == pytest.approx(built_cycles(step, device, HALF_SUMS), rel=0.15)


def test_every_operation_has_a_price_and_every_price_an_operation() -> None:
    assert PRICES.keys() == OPS.keys() - REGISTERED


def test_the_parts_of_an_estimate_add_up() -> None:
    step = ir.accumulate(trained(dense(96, 128, 10, batch=8)), 4)
    device = IPUModel("ipu2", tiles_per_ipu=64).create_device()
    estimate = ir.estimate(step, device)
    assert estimate.cycles == estimate.micro_batches + estimate.update
    lines = sum(line.cycles for line in estimate.lines)
    assert sum(estimate.costs.values()) == pytest.approx(lines + estimate.host / 4)
    layers = estimate.layers(depth=1)
    assert sum(sum(parts.values()) for parts in layers.values()) == pytest.approx(lines)
    assert {"layer0", "layer1", "loss"} <= layers.keys()
    assert estimate.samples_per_step == 32
    seconds = estimate.cycles / 1.33e9
    assert estimate.seconds == pytest.approx(seconds)
    assert estimate.throughput == pytest.approx(32 / seconds)
    assert estimate.seconds_for(33) == pytest.approx(2 * seconds)  # The second step is not full.
    macs = sum(line.macs for line in estimate.lines)
    assert macs == 3 * 8 * (96 * 128 + 128 * 10) - 8 * 96 * 128  # The input has no gradient.
    assert 0 < estimate.utilisation < 1


def test_bytes_of_the_inputs_shorten_the_transfer() -> None:
    step = trained(dense(960, 128, 10, batch=256))
    device = IPUModel("ipu2", tiles_per_ipu=64).create_device()
    halves, whole = ir.estimate(step, device), ir.estimate(step, device, byte_inputs=True)
    saved = 960 * 256 / 8e9 * 1.33e9  # One byte of each element.
    assert halves.host - whole.host == pytest.approx(saved, abs=1)
    assert [line.kind for line in whole.lines][-1] == "cast of 8-bit input"


@pytest.mark.parametrize(
    ("change", "smaller"),
    [
        (lambda step: ir.off_chip(step), "optimiser state"),
        (lambda step: ir.sharded(ir.replicate(step, 4)), "optimiser state"),
    ],
)
def test_state_that_is_not_on_the_tiles_needs_no_bytes(
    change: Callable[[Ir], Ir], smaller: str
) -> None:
    step = trained(dense(512, 512, 10))
    device = IPUModel("ipu2", num_ipus=4, tiles_per_ipu=64).create_device()
    before, after = (dict(ir.estimate(s, device).memory[0].uses) for s in (step, change(step)))
    assert before[smaller] == 4 * (512 * 512 + 512 * 10 + 522) / 64
    assert after.get(smaller, 0) <= before[smaller] / 4 * 1.01


def test_recomputation_saves_fewer_activations() -> None:
    graph, loss = dense(*(512,) * 12, 10, batch=512)
    step, grads = ir.autodiff(graph, loss)
    device = IPUModel("ipu2", tiles_per_ipu=64).create_device()
    saved = [
        dict(ir.estimate(ir.optimise(s, grads, "sgd"), device).memory[0].uses)["saved activations"]
        for s in (step, ir.recompute(step))
    ]
    assert saved[1] <= saved[0] / 2


def test_the_bytes_of_variables_are_those_of_the_ledger() -> None:
    step = trained(dense(512, 512, 512, 10))
    device = IPUModel("ipu2", tiles_per_ipu=64).create_device()
    report = built_report(step, device)
    built = float(report.memory.bytes_per_tile.mean())
    assert ir.estimate(step, device).memory[0].total == pytest.approx(built, rel=0.35), built


# --- what does not fit, and what has no price -----------------------------------------------------


def test_a_model_that_does_not_fit_says_what_would_help() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=8).create_device()
    estimate = ir.estimate(trained(dense(256, 512, 256, batch=1200)), device)
    assert not estimate.fits and estimate.memory[0].share > 1
    text = repr(estimate)
    assert re.search(
        r"The model does not fit: a tile has 638,976 bytes, and needs about [\d,]+, at \w+ "
        r"layer\d/\w+\. The largest part is [\d,]+ bytes of [\w ]+\. It would fit with a micro-batch of (\d+)\b",
        text,
    )
    batch = int(re.search(r"micro-batch of (\d+)", text)[1])  # type: ignore[index]
    assert ir.estimate(trained(dense(256, 512, 256, batch=batch)), device).fits
    assert "The model fits" in repr(ir.estimate(trained(dense(8, 8, batch=4)), device))


@pytest.mark.parametrize(("width", "tiles"), [(512, 13), (1024, 48), (768, 26)])
def test_advice_on_the_optimiser_is_true_and_no_advice_is_false(width: int, tiles: int) -> None:
    """The gradients of large matrices need the same bytes with any micro-batch."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()

    def step(batch: int) -> Ir:
        return trained(dense(*(width,) * 4, batch=batch), "adam")

    estimate = ir.estimate(step(8), device)
    assert not estimate.fits
    assert estimate.advice == "It would fit with the optimiser's state in streaming memory."
    assert ir.estimate(ir.off_chip(step(8)), device).fits
    assert not ir.estimate(step(1), device).fits


def test_a_choice_that_may_be_enough_is_no_promise() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=8).create_device()
    graph, loss = dense(*(128,) * 12, 10, batch=1280)
    step, grads = ir.autodiff(graph, loss)
    plain, recomputing = (
        ir.estimate(ir.optimise(s, grads, "sgd"), device) for s in (step, ir.recompute(step))
    )
    assert plain.fullest.share > 1
    assert re.fullmatch(
        r"It would fit with a micro-batch of \d+\. Recomputation or a smaller available memory "
        r"proportion may be enough\.",
        plain.advice,
    )
    assert "ecomputation" not in recomputing.advice


def test_a_model_that_is_much_too_large_needs_more_stages() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    estimate = ir.estimate(trained(dense(2048, 2048, 2048, batch=1)), device)
    text = "No single choice is enough: divide the model into more stages."
    assert estimate.advice == text and text in repr(estimate)


def test_an_operation_without_a_price_is_named() -> None:
    graph, loss = dense(96, 128, 10)
    name = "test_estimate_leaky"
    row = ir.Row(lambda x: ir.Out(x.shape, x.dtype), lambda low, x: x)
    ir.register(name, row)
    try:
        graph.output("more", graph.op(name, next(iter(graph.inputs.values()))))
        estimate = ir.estimate(graph, IPUModel("ipu2", tiles_per_ipu=64).create_device())
    finally:
        del OPS[name]
        REGISTERED.discard(name)
    assert estimate.unpriced == (name,)
    fallback = [line for line in estimate.lines if line.fallback]
    share = fallback[0].cycles / sum(line.cycles for line in estimate.lines)
    assert estimate.unpriced_share == pytest.approx(share) and fallback[0].vertices > 0
    assert (
        f"No price is known for {name}. The fallback is an elementwise operation on its largest "
        f"input: {share:.0%} of the cycles of all operations." in repr(estimate)
    )


def test_more_ipus_than_the_machine_has_are_refused() -> None:
    step = ir.replicate(trained(dense(96, 128, 10)), 4)
    with pytest.raises(ModelError) as caught:
        ir.estimate(step, IPUModel("ipu2", num_ipus=2).create_device())
    assert str(caught.value) == (
        "The graph has 1 stage and 4 replicas, so it needs 4 IPUs, but the machine has 2 IPUs.\n"
        '  next:  use a machine with enough IPUs: IPUModel("ipu2", num_ipus=4).'
    )
    # The next step works.
    ir.estimate(step, IPUModel("ipu2", num_ipus=4, tiles_per_ipu=64).create_device())


def test_too_few_micro_batches_for_the_stages_are_refused() -> None:
    step = ir.accumulate(trained(dense(96, 128, 10, stages=2)), 3).but(schedule="grouped")
    with pytest.raises(InvalidOptionError, match="3 micro-batches"):
        ir.estimate(step, IPUModel("ipu2", num_ipus=2, tiles_per_ipu=64).create_device())


def test_empty_and_tiny_values_have_a_price() -> None:
    graph = Ir()
    x = graph.input((0, 8), "x", FLOAT)
    graph.output("y", graph.op("relu", graph.op("matmul", x, graph.constant(1.0, FLOAT, (8, 4)))))
    graph.output("z", graph.op("neg", graph.input((1,), "one", FLOAT)))
    estimate = ir.estimate(graph, IPUModel("ipu2", tiles_per_ipu=4).create_device())
    assert np.isfinite(estimate.cycles) and estimate.cycles > 0
    assert all(line.cycles >= 0 for line in estimate.lines)
    nothing = ir.estimate(Ir(), IPUModel("ipu2", tiles_per_ipu=4).create_device())
    assert nothing.cycles == nothing.throughput == 0 and nothing.fits


def test_a_line_adds_up_its_costs() -> None:
    line = Line("a.b", "matmul", "forward", products=1, vertices=2, exchange=3, sync=4)
    assert line.cycles == 10 and line.name == "a.b/matmul"
