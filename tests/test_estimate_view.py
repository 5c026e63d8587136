"""The picture of an estimate shows the numbers of the estimate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ipu_teach import HALF, IPUModel, show
from ipu_teach.errors import InvalidOptionError
from ipu_teach.estimate.result import Estimate
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.session import Training
from ipu_teach.show.estimate import bars_of
from ipu_teach.show.shapes import Boxes
from ipu_teach.show.view import View


def estimate(layers: int, tiles: int = 64, size: int = 64) -> Estimate:
    """Return the estimate of a stack of linear layers."""
    graph = Ir()
    h = graph.input((16, size), "x", HALF)
    for number in range(layers):
        with graph.at(path=f"layer{number}"):
            w = graph.variable(np.zeros((size, size), np.float16), f"layer{number}.weight")
            h = graph.op("relu", ir.linear(graph, h, w))
    graph.output("h", h)
    return ir.estimate(graph, IPUModel("ipu2", tiles_per_ipu=tiles).create_device())


@pytest.mark.parametrize("layers", [1, 16, 40])
def test_the_table_has_the_cycles_of_all_layers(layers: int) -> None:
    found = estimate(layers)
    heads, rows = show.estimate(found).scene.table
    assert heads == ("layer", "forward", "backward", "update", "host", "modelled cycles")
    assert len(rows) == min(layers, 16) + 1
    numbers = [[int(text.replace(",", "")) for text in row[1:]] for row in rows]
    total = sum(line.cycles for line in found.lines)
    assert sum(row[-1] for row in numbers[:-1]) == pytest.approx(total, abs=len(rows))
    assert rows[-1][0] == "host" and numbers[-1][:3] == [0, 0, 0]
    assert sum(row[-1] for row in numbers) == pytest.approx(found.cycles, abs=len(rows) + 1)
    assert (rows[-2][0] == "other layers") == (layers > 16)


def test_the_bars_are_those_of_all_micro_batches_and_one_update() -> None:
    graph = Ir()
    h = graph.input((16, 64), "x", HALF)
    with graph.at(path="layer"):
        h = ir.linear(graph, h, graph.variable(np.zeros((64, 64), np.float16), "weight"))
    loss = graph.op("sum", graph.op("mul", h, h), dims=(0, 1))
    graph.output("loss", loss)
    device = IPUModel("ipu2", tiles_per_ipu=64).create_device()
    once, often = (
        show.estimate(ir.estimate(Training("sgd", accumulation=n).transform(graph, loss), device))
        for n in (1, 5)
    )
    for (name, *parts), (_, *longer) in zip(once.scene.table[1], often.scene.table[1], strict=True):
        forward, backward, update, *_ = (int(part.replace(",", "")) for part in parts)
        times = [int(part.replace(",", "")) for part in longer]
        assert times[0] == pytest.approx(5 * forward, abs=5), name
        assert forward == backward == 0 or times[1] >= 5 * backward - 5
        assert times[2] >= update
    codes = [code.light for code in often.scene.codes]
    assert len(codes) == len(set(codes))


def test_the_title_states_the_largest_layer_and_whether_the_model_fits() -> None:
    found = estimate(2)
    layers = found.layers()
    largest = max(layers, key=lambda name: layers[name]["forward"])
    share = layers[largest]["forward"] / found.cycles
    title = show.estimate(found).scene.title
    assert title == (f"Most modelled cycles: {largest}, {share:.0%}; the model fits on the tiles")
    assert "does not fit on the tiles" in show.estimate(estimate(1, 1, 1024)).scene.title


def test_the_memory_line_is_as_long_as_its_parts() -> None:
    for found in (estimate(2), estimate(1, 1, 1024)):
        (mark,) = (mark for mark in show.estimate(found).scene.marks if mark.name == "memory")
        sizes = [round(size) for _, size in found.memory[0].uses]
        assert mark.values["bytes"].tolist() == sizes
        widths = mark.places[:, 2]
        assert np.allclose(widths / widths.sum(), np.array(sizes) / sum(sizes), atol=1e-3)


def pipeline(stages: int) -> Estimate:
    """Return the estimate of a training step with a linear layer in each stage."""
    graph = Ir()
    h = graph.input((16, 64), "x", HALF)
    for stage in range(stages):
        with graph.at(path=f"layer{stage}", stage=stage):
            w = graph.variable(np.zeros((64, 64), np.float16), f"w{stage}")
            h = graph.op("relu", ir.linear(graph, h, w))
    with graph.at(path="loss", stage=stages - 1):
        loss = graph.op("sum", h, dims=(0, 1))
    graph.output("loss", loss)
    schedule = "grouped" if stages > 1 else ""
    step = Training("sgd", accumulation=64, schedule=schedule).transform(graph, loss)
    model = IPUModel("ipu2", num_ipus=stages, tiles_per_ipu=64)
    return ir.estimate(step, model.create_device())


@pytest.mark.parametrize("stages", [1, 2, 20])
def test_stages_are_drawn_instead_of_layers(stages: int) -> None:
    found = pipeline(stages)
    view = show.estimate(found, stages=True)
    heads, rows = view.scene.table
    assert heads == ("stage", "forward", "backward", "update", "memory of a tile")
    cycles = [[0.0, 0.0, 0.0] for _ in range(stages)]
    for line in found.lines:
        cycles[line.stage][("forward", "backward", "update").index(line.part)] += line.cycles
    backward = [parts[1] for parts in cycles]
    ratio = max(backward) / np.mean(backward)
    longest = backward.index(max(backward))
    assert view.scene.title == (
        f"Longest backward pass: stage {longest}, {ratio:.2f} times the average; the model fits on "
        "the tiles"
    )
    assert [row[0] for row in rows] == [f"stage {k}" for k in range(stages)]
    for row, parts, memory in zip(rows, cycles, found.memory, strict=True):
        assert row[1:4] == tuple(f"{part:,.0f}" for part in parts)
        assert row[4] == f"{memory.total / memory.limit:.0%}"
    (mark,) = view.scene.marks
    boxes = {s.code: s.boxes for s in mark.pictures[0] if isinstance(s, Boxes)}  # type: ignore[union-attr]
    for code, bars in boxes.items():
        assert len({x for x, *_ in bars.tolist()}) == 1  # They begin at the same place.
        numbers = np.array([parts[code] for parts in cycles[:16]])
        assert np.allclose(bars[:, 2] / bars[:, 2].max(), numbers / numbers.max(), atol=1e-3)
    assert bool(view.scene.notes) == (stages > 16)
    assert "by stage" in view._repr_html_()


def test_stages_without_a_backward_pass_have_a_longest_forward_pass() -> None:
    title = show.estimate(estimate(2), stages=True).scene.title
    assert title.startswith("Longest forward pass: stage 0, 1.00 times the average; ")
    nothing = replace(estimate(1), lines=(), micro_batches=0.0, host=0.0)
    assert "0.00 times" in show.estimate(nothing, stages=True).scene.title


def test_a_second_picture_of_stages_has_the_scale_of_the_first() -> None:
    first, second = pipeline(2), pipeline(3)

    def widths(view: View) -> list[float]:
        (mark,) = view.scene.marks
        boxes = [s.boxes for s in mark.pictures[0] if isinstance(s, Boxes)]  # type: ignore[union-attr]
        return [float(bars[:, 2].max()) for bars in boxes]

    def longest(found: Estimate) -> list[float]:
        stages = [list(parts.values()) for parts in found.stages().values()]
        return np.array(stages).max(axis=0).tolist()

    scales = [
        width / cycles
        for view, found in (
            (show.estimate(second, stages=True), second),
            (show.estimate(first, stages=True, scale_of=second), first),
        )
        for width, cycles in zip(widths(view), longest(found), strict=True)
    ]
    assert max(scales) == pytest.approx(min(scales), rel=0.05)


def test_the_exchange_between_replicas_is_a_layer_of_its_own() -> None:
    graph = Ir()
    h = graph.input((16, 64), "x", HALF)
    with graph.at(path="layer"):
        h = ir.linear(graph, h, graph.variable(np.zeros((64, 64), np.float16), "w"))
    loss = graph.op("sum", h, dims=(0, 1))
    graph.output("loss", loss)
    device = IPUModel("ipu2", num_ipus=2, tiles_per_ipu=64).create_device()
    found = ir.estimate(Training("sgd", replicas=2).transform(graph, loss), device)
    layers = found.layers()
    assert set(layers) == {"layer", "outside modules", "gradient exchange"}
    assert sum(layers["gradient exchange"].values()) == found.all_reduce > 0
    assert layers["outside modules"]["forward"] > 0  # This is the sum of the loss.
    assert set(found.layers(depth=0)) == {"all modules", "outside modules", "gradient exchange"}
    lines = [replace(found.lines[0], path="", part="update", kind="all_gather", vertices=7.0)]
    assert set(replace(found, lines=tuple(lines)).layers()) == {"parameter exchange"}


def test_an_estimate_without_operations_has_no_layer() -> None:
    nothing = replace(estimate(1), lines=(), micro_batches=0.0, host=0.0)
    title = show.estimate(nothing).scene.title
    assert title == "Most modelled cycles: none, 0%; the model fits on the tiles"


def test_the_colours_of_estimates_differ() -> None:
    found = estimate(2)
    codes = [*show.estimates({"a": found}).scene.codes, *show.estimate(found).scene.codes[:2]]
    for colour in ("light", "dark"):
        shades = [getattr(code, colour) for code in codes]
        assert len(set(shades)) == len(shades)


def test_something_else_than_an_estimate_is_refused() -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.estimate(3)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "show.estimate() was given 3, which is not an estimate.\n"
        "  next:  give the result of ir.estimate(step, device) or poptorch.estimate(…)."
    )


def test_a_second_picture_has_the_scale_of_the_first() -> None:
    short, long = estimate(2), estimate(2, size=256)

    def pixels(view: View) -> float:
        """Return the length of the longest bar."""
        (mark,) = (mark for mark in view.scene.marks if mark.name == "layers")
        boxes = [s.boxes for s in mark.pictures[0] if isinstance(s, Boxes)]  # type: ignore[union-attr]
        return float((np.concatenate(boxes)[:, 0] + np.concatenate(boxes)[:, 2]).max() - 180)

    def cycles(found: Estimate) -> float:
        return max(sum(parts) for parts in bars_of(found).values())

    alike = pixels(show.estimate(short, scale_of=long)) / pixels(show.estimate(long))
    assert alike == pytest.approx(cycles(short) / cycles(long), rel=0.02)
    assert pixels(show.estimate(short)) > 350 < pixels(show.estimate(long, scale_of=short))
    with pytest.raises(InvalidOptionError, match="given 3, which is not an\\s+estimate"):
        show.estimate(short, scale_of=3)  # type: ignore[arg-type]
