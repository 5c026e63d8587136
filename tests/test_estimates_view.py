"""The picture of several estimates shows the numbers of the estimates."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ipu_teach import HALF, IPUModel, show
from ipu_teach.errors import InvalidOptionError, PoplarTypeError
from ipu_teach.estimate.result import Estimate
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir
from ipu_teach.frontends.session import Training
from ipu_teach.show.shapes import LETTER, Boxes, Stroke, Words
from ipu_teach.show.svg import svg
from ipu_teach.show.view import View

KINDS = ("products", "vertices", "exchange", "sync", "links", "streaming")


@cache
def trained(
    batch: int = 16,
    accumulation: int = 8,
    replicas: int = 1,
    stages: int = 1,
    tiles: int = 64,
    size: int = 64,
) -> Estimate:
    """Return the estimate of a training step of two linear layers."""
    graph = Ir()
    h = graph.input((batch, size), "x", HALF)
    for layer in range(2):
        with graph.at(path=f"layer{layer}", stage=layer * stages // 2):
            w = graph.variable(np.zeros((size, size), np.float16), f"layer{layer}.weight")
            h = graph.op("relu", ir.linear(graph, h, w))
    with graph.at(path="loss", stage=stages - 1):
        loss = graph.op("sum", h, dims=(0, 1))
    graph.output("loss", loss)
    training = Training(
        "sgd",
        accumulation=accumulation,
        replicas=replicas,
        schedule="grouped" if stages > 1 else "",
    )
    model = IPUModel("ipu2", num_ipus=stages * replicas, tiles_per_ipu=tiles)
    return ir.estimate(training.transform(graph, loss), model.create_device())


def inference() -> Estimate:
    graph = Ir()
    h = graph.input((16, 64), "x", HALF)
    w = graph.variable(np.zeros((64, 64), np.float16), "weight")
    graph.output("y", ir.linear(graph, h, w))
    return ir.estimate(graph, IPUModel("ipu2", tiles_per_ipu=64).create_device())


def too_large() -> Estimate:
    return trained(tiles=1, size=512)


def number(text: str) -> float:
    return float(text.replace(",", "").rstrip("%"))


def heights(view: View, mark: str) -> dict[str, list[float]]:
    """Return the heights of the boxes of a mark by the name of their code, from left to right."""
    (picture,) = next(m for m in view.scene.marks if m.name == mark).pictures  # type: ignore[union-attr]
    boxes: dict[str, list[float]] = {}
    for shape in picture:
        if isinstance(shape, Boxes):
            # The first name of the legend of each panel begins with the panel.
            name = view.scene.codes[shape.code].name.split(": ")[-1]
            boxes.setdefault(name, []).extend(shape.boxes[:, 3])
    return boxes


def drawn_texts(view: View, mark: str) -> list[str]:
    (picture,) = next(m for m in view.scene.marks if m.name == mark).pictures  # type: ignore[union-attr]
    return [shape.text for shape in picture if isinstance(shape, Words)]


def work(estimate: Estimate, kind: str) -> float:
    """Return the cycles of a kind in all micro-batches, by a plain loop."""
    total = 0.0
    for line in estimate.lines:
        if line.part != "update":
            total += estimate.accumulation * getattr(line, kind)
    return total


@pytest.mark.parametrize("replicas", [1, 2])
def test_the_parts_of_the_time_are_those_of_the_step(replicas: int) -> None:
    found = trained(replicas=replicas)
    view = show.estimates({"one": found, "other": trained(32)})
    (row, other) = view.data
    unit = re.fullmatch(r"modelled (\w+)", list(row)[1])
    assert unit is not None
    size = {"microseconds": 1e-6, "nanoseconds": 1e-9}[unit[1]]
    scale = 1 / 1.33e9 / size
    assert number(row[unit[0]]) == pytest.approx(found.cycles * scale, abs=0.006)
    titles = {"vertices": "other vertices", "links": "between IPUs"}
    for kind in KINDS:
        expected = work(found, kind) * scale
        assert number(row.get(titles.get(kind, kind), "0")) == pytest.approx(expected, abs=0.011)
    assert number(row["update"]) == pytest.approx(found.update * scale, abs=0.011)
    assert row["update's share"] == f"{found.update / found.cycles:.1%}"
    for line in (row, other):
        parts = [number(line[name]) for name in list(line)[2:-3]]
        assert sum(parts) == pytest.approx(number(line[unit[0]]), abs=1e-9)
        assert min(parts) >= 0 and number(line["host"]) > 0
    drawn = heights(view, "time")
    both = [number(line[unit[0]]) for line in (row, other)]
    for name in ("products", "update", "host"):
        ratio = drawn[name][0] / drawn[name][1]
        assert ratio == pytest.approx(number(row[name]) / number(other[name]))
    whole = [sum(drawn[name][i] for name in drawn) for i in (0, 1)]
    assert whole[0] / whole[1] == pytest.approx(both[0] / both[1])


def test_the_stages_of_a_pipeline_are_scaled_to_the_time_of_the_step() -> None:
    found = trained(stages=2)
    view = show.estimates({"pipeline": found}, samples=128 * 10**12)
    (row,) = view.data
    (unit,) = (name for name in row if name.startswith("modelled "))
    assert unit == "modelled hours"
    assert number(row[unit]) == pytest.approx(found.seconds * 10**12 / 3600, abs=0.006)
    parts = [number(row[name]) for name in list(row)[2:-3]]
    assert sum(parts) == pytest.approx(number(row[unit]), abs=1e-9)
    products, vertices = (work(found, kind) for kind in ("products", "vertices"))
    assert number(row["products"]) / number(row["other vertices"]) == pytest.approx(
        products / vertices, rel=0.01
    )
    assert any("scaled" in note for note in view.scene.notes)
    assert not show.estimates({"no pipeline": trained()}).scene.notes


def test_the_time_of_samples_is_in_whole_steps() -> None:
    found = trained(16, 8)
    each = found.seconds * 1e6
    for samples, steps in ((1, 1), (128, 1), (129, 2)):
        (row,) = show.estimates({"a": found}, samples=samples).data
        (unit,) = (name for name in row if name.startswith("modelled "))
        size = {"modelled milliseconds": 1e3, "modelled microseconds": 1}[unit]
        assert number(row[unit]) == pytest.approx(steps * each / size, abs=0.006), samples
    title = show.estimates({"a": found}, samples=10**13).scene.title
    assert "modelled hours" in title
    (row,) = show.estimates({"a": found}, samples=129, epochs=3).data  # 6 whole steps
    assert number(row["modelled microseconds"]) == pytest.approx(6 * each, abs=0.006)
    drawn = svg(show.estimates({"a": found}, samples=1_000, epochs=2).scene)
    assert "for 2 epochs of 1,000 samples, by kind" in drawn


def test_numbers_are_sorted_and_names_keep_their_order() -> None:
    a, b = trained(16), trained(32)
    view = show.estimates({16: b, 1: a, 8.5: a}, parameter="images in a batch")
    names = [row["estimate"] for row in view.data]
    assert names == ["1 image in a batch", "8.5 images in a batch", "16 images in a batch"]
    assert "images in a batch" in drawn_texts(view, "memory")
    names = [row["estimate"] for row in show.estimates({"z": a, 3: b, True: a}).data]
    assert names == ["z", "3", "True"]
    assert show.estimates({1: a}, parameter="loss").data[0]["estimate"] == "1 loss"
    long = "a name that is longer than all of the names that others have chosen"
    assert len(show.estimates({long: a}).data[0]["estimate"]) == 40


def test_the_title_names_the_shortest_that_fits() -> None:
    short, long, unfit = trained(32), trained(16), too_large()
    assert short.seconds / 256 < long.seconds / 128
    title = show.estimates({16: long, 32: short}, parameter="rows", samples=256).scene.title
    assert re.fullmatch(
        r"Shortest: 32 rows, [\d.]+ modelled microseconds; longest: 16 rows, [\d.]+, [\d.]+ times "
        r"as long",
        title,
    )
    quick = replace(unfit, micro_batches=1.0, update=0.0)
    view = show.estimates({"a": long, "b": short, "c": quick}, samples=256)
    assert re.fullmatch(
        r"Shortest that fits: b, [\d,.]+ modelled nanoseconds; c does not fit", view.scene.title
    )
    view = show.estimates({"a": long, "b": unfit, "c": unfit})
    assert view.scene.title.endswith("; b and c do not fit")
    view = show.estimates({"a": long, "b": unfit, "c": unfit, "d": unfit})
    assert view.scene.title.endswith("; 3 others do not fit")
    view = show.estimates({"a": long, "b": long})
    assert view.scene.title.startswith("All 2 fit and take the same, ")
    view = show.estimates({"a": short, "b": short, "c": long}, samples=256)
    assert view.scene.title.startswith("Shortest: a and 1 more, ")
    view = show.estimates({"a": unfit, "b": trained(64, tiles=1, size=512)})
    assert view.scene.title == (
        "None of the 2 estimates fits on the tiles; a needs the least memory, "
        f"{unfit.fullest.share:.0%} of the limit"
    )
    for one, verb in ((long, "fits"), (unfit, "does not fit")):
        title = show.estimates({"a": one}).scene.title
        assert re.fullmatch(rf"Time of a: [\d,.]+ modelled \w+; it {verb} on the tiles", title)


def test_an_estimate_that_does_not_fit_is_marked_with_words() -> None:
    view = show.estimates({"a": trained(), "b": too_large()})
    texts = drawn_texts(view, "time")
    assert texts[texts.index("does not fit") - 1 :].count("does not fit") == 1
    assert [row["fits"] for row in view.data] == ["yes", "no"]
    pale = heights(view, "time")["does not fit"]
    drawn = heights(view, "time")
    assert len(pale) == 1
    assert pale[0] == pytest.approx(sum(h[-1] for n, h in drawn.items() if n != "does not fit"))
    first, unfit = view.data
    share = unfit["update's share"]
    (unit,) = (name for name in unfit if name.startswith("modelled "))
    assert f" a: {first[unit]} {unit}, products {first['products']}, " in view.alt
    assert view.alt.endswith(
        f", update {unfit['update']}, update's share {share}, memory of a tile "
        f"{unfit['memory of a tile']}; it does not fit."
    )
    assert "does not fit" in svg(view.scene)
    codes = [view.scene.codes[code].name for code in view.scene.legend]
    assert "does not fit" in codes
    fitting = show.estimates({"a": trained()}).scene
    assert "does not fit" not in [fitting.codes[code].name for code in fitting.legend]


def test_the_line_is_at_the_shortest_that_fits() -> None:
    view = show.estimates({"a": trained(16), "b": trained(32)}, samples=256)
    mark = next(m for m in view.scene.marks if m.name == "time")
    levels = {s.points[0][1] for s in mark.pictures[0] if isinstance(s, Stroke)}  # type: ignore[union-attr]
    drawn = heights(view, "time")
    total = sum(h[-1] for h in drawn.values())
    assert min(levels) == pytest.approx(mark.height - total)  # type: ignore[union-attr]
    none = show.estimates({"a": too_large()})
    assert "the line is at" in svg(view.scene) and "the line is at" not in svg(none.scene)


def test_the_memory_is_a_share_of_the_limit() -> None:
    found = [trained(), too_large()]
    view = show.estimates(dict(zip("ab", found, strict=True)))
    assert [row["memory of a tile"] for row in view.data] == [
        f"{estimate.fullest.total / estimate.fullest.limit:.0%}" for estimate in found
    ]
    drawn = heights(view, "memory")
    uses = [dict(estimate.fullest.uses) for estimate in found]
    for name in ("weights", "code and stacks"):
        expected = uses[0][name] / uses[1][name]
        assert drawn[name][0] / drawn[name][1] == pytest.approx(expected)
    limit = found[0].fullest.limit
    memory = replace(found[0].fullest, uses=(("weights", limit * 1.0004),))
    (row,) = show.estimates({"a": replace(found[0], memory=(memory,))}).data
    assert (row["memory of a tile"], row["fits"]) == ("100.04%", "no")


def test_inference_has_no_update() -> None:
    (row,) = show.estimates({"a": inference()}).data
    assert "update" not in row and row["update's share"] == "0.0%"
    nothing = replace(inference(), lines=(), micro_batches=0.0, host=0.0)
    (row,) = show.estimates({"a": nothing}, samples=5).data
    assert row["modelled nanoseconds"] == "0.00"
    assert show.estimates({"a": nothing, "b": nothing}).scene.title.startswith("All 2 fit")
    svg(show.estimates({"a": nothing, "b": inference()}).scene)


def test_sixteen_estimates_have_room_for_their_texts() -> None:
    found = {16 * n: trained(16 if n < 9 else 32) for n in range(1, 17)}
    view = show.estimates({**found, 160: too_large()}, samples=10**9)
    for name in ("time", "memory"):
        mark = next(m for m in view.scene.marks if m.name == name)
        lines: dict[float, list[Words]] = {}
        for shape in mark.pictures[0]:  # type: ignore[union-attr]
            if isinstance(shape, Words) and shape.anchor == "middle":
                lines.setdefault(shape.y, []).append(shape)
        assert sum(map(len, lines.values())) > 16
        for words in lines.values():
            for left, right in pairwise(sorted(words, key=lambda shape: shape.x)):
                widths = (len(text.text) * LETTER * text.size / 11 for text in (left, right))
                assert right.x - left.x > sum(widths) / 2
    long = show.estimates(dict.fromkeys("abcdefghijklmnop", trained()), samples=10**15)
    assert not any(text[0].isdigit() for text in drawn_texts(long, "time"))
    many = show.estimates({f"settings number {n}": trained() for n in range(16)})
    assert max(map(len, drawn_texts(many, "memory"))) <= len("limit")


REFUSED: list[tuple[Any, dict[str, Any], str]] = [
    (
        3,
        {},
        "show.estimates() was given 3, which is not a dict of estimates.\n"
        '  next:  give the estimates by name: {"8 images": a, "12 images": b}.',
    ),
    *(
        (
            dict.fromkeys(range(count), 0),
            {},
            f"show.estimates() was given a dict of {count} estimates, but a picture has 1 to 16.\n"
            "  next:  give a dict with 1 to 16 estimates.",
        )
        for count in (0, 17)
    ),
    (
        {"a": 3},
        {},
        "show.estimates() was given 3 for 'a', which is not an estimate.\n"
        "  next:  give results of ir.estimate(step, device) or poptorch.estimate(…).",
    ),
    (
        {"a": replace(inference(), samples=0)},
        {},
        "show.estimates() was given an estimate without samples for 'a'.\n"
        "  next:  leave it out, or estimate a step whose input has at least one sample.",
    ),
    *(
        (
            {"a": inference()},
            {"samples": samples},
            f"show.estimates() was given samples={text}, which is not a number of samples.\n"
            "  next:  give a whole number from 1 to 10**15, or 0 for the time of a step.",
        )
        for samples, text in (
            (-1, "-1"),
            (True, "True"),
            (float("nan"), "nan"),
            (2.5, "2.5"),
            (10**16, "10000000000000000"),
            ("many", "'many'"),
        )
    ),
    *(
        (
            {"a": inference()},
            {"samples": 5, "epochs": epochs},
            f"show.estimates() was given epochs={text}, which is not a number of epochs.\n"
            "  next:  give a whole number from 1 to 10**15.",
        )
        for epochs, text in ((0, "0"), (False, "False"), (0.5, "0.5"))
    ),
]


@pytest.mark.parametrize(("found", "options", "text"), REFUSED)
def test_what_cannot_be_drawn_is_refused(found: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOptionError) as caught:
        show.estimates(found, **options)
    assert str(caught.value) == text


def test_a_parameter_that_is_not_a_text_is_refused() -> None:
    with pytest.raises(PoplarTypeError, match="parameter"):
        show.estimates({"a": inference()}, parameter=3)  # type: ignore[arg-type]


def test_bars_of_shares_have_the_same_height() -> None:
    found = {2: trained(16, 2), 8: trained(16, 8)}
    view = show.estimates(found, parameter="micro-batches", shares=True)
    drawn = heights(view, "time")
    whole = [sum(drawn[name][i] for name in drawn) for i in (0, 1)]
    assert whole[0] == pytest.approx(whole[1])
    for i, result in enumerate(found.values()):
        assert drawn["update"][i] / whole[i] == pytest.approx(
            result.update / result.cycles, abs=0.01
        )
    shares = [f"{result.update / result.cycles:.1%}" for result in found.values()]
    assert view.scene.title == (
        f"The update takes {shares[0]} of the time with 2 micro-batches, and {shares[1]} with 8 "
        "micro-batches"
    )
    assert [mark.name for mark in view.scene.marks] == ["time"]
    assert "8" in drawn_texts(view, "time") and "micro-batches" in drawn_texts(view, "time")
    same = show.estimates({"a": inference(), "b": inference()}, shares=True)
    assert same.scene.title == "The update takes 0.0% of the time in each estimate"
    nothing = replace(inference(), lines=(), micro_batches=0.0, host=0.0)
    svg(show.estimates({"a": nothing}, shares=True).scene)


def test_the_legend_says_where_each_panel_begins() -> None:
    legend = [
        view.scene.codes[code].name
        for view in (show.estimates({"a": trained()}),)
        for code in view.scene.legend
    ]
    assert [name for name in legend if ": " in name] == ["time: products", "memory: weights"]
