"""The views code, turns and tile: their numbers are those of vertices run one by one, and of plain
loops."""

from __future__ import annotations

import ast
import hashlib
import inspect
import os
import re
import subprocess
import sys
from collections import Counter
from math import ceil
from pathlib import Path
from textwrap import dedent
from typing import Any

import numpy as np
import pytest
from pages import SVG, Tags, contrast
from programs import replicas
from recorded_programs import kept_recording
from view_programs import (
    Alone,
    Large,
    Mixed,
    Prefix,
    Thirds,
    mixed_report,
    pipeline_training,
    values,
)

from ipu_teach import (
    FLOAT,
    HALF,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Vector,
    Vertex,
    observe,
    show,
)
from ipu_teach.errors import IPUTeachError, shown
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.program import Copy, Execute, Sequence
from ipu_teach.show import palette
from ipu_teach.show.code import CODES, WORST, formula_terms
from ipu_teach.show.formula import formula_of
from ipu_teach.show.paint import bar_width, paint
from ipu_teach.show.report_facts import model_of
from ipu_teach.show.scene import Lanes, Tree
from ipu_teach.show.shapes import Boxes, Words
from ipu_teach.show.svg import svg
from ipu_teach.show.tile import BASE
from ipu_teach.show.view import View
from ipu_teach.target import PRICES

ROOT = Path(__file__).resolve().parents[1]


def told(call: Any, *args: Any, **given: Any) -> str:
    with pytest.raises(IPUTeachError) as caught:
        call(*args, **given)
    return str(caught.value)


def cycles(text: str) -> float:
    return float(text.replace(",", "") or "nan")


# --- code -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("prices", PRICES)
def test_lines_are_those_of_all_vertices_run_one_by_one(prices: str) -> None:
    report, rows, width = mixed_report(prices=prices), values(26, 9), 9
    expected, times, start = Counter[str](), Counter[str](), 0
    for number, row in enumerate(rows):
        n = width - number % 2
        seen = observe(Mixed, report.target, a=row[:n], b=np.ones(n))
        for line, often, spent in seen.lines if number != 1 else ():  # that one's cycles are given
            expected[line.text] += 2 * spent  # type: ignore[assignment]
            times[line.text] += 2 * often
        start += 2 * seen.start * (number != 1)
    data = show.code(report, Mixed).data
    found = {
        row["line"].split(": ", 1)[1]: row
        for row in data
        if re.match(r"  \d+: ", row["line"]) and row["times"]
    }
    assert {text: cycles(row[prices]) for text, row in found.items()} == dict(expected)
    assert {text: int(row["times"].replace(",", "")) for text, row in found.items()} == dict(times)
    assert (
        cycles(data[0][prices])
        == report.cycles_by_codelet()["Mixed"]
        == sum(expected.values()) + start + 2 * 1000
    )
    given = next(row for row in data if "set_perf_estimate" in row["line"])
    assert (
        cycles(given[prices]) == 2000
        and data[1]["line"] == "  start of vertices"
        and cycles(data[1][prices]) == start
    )
    numbers = [int(found[1]) for row in data if (found := re.match(r"  (\d+): ", row["line"]))]
    statements = ast.walk(ast.parse(dedent(inspect.getsource(Mixed.compute))))
    assert numbers == sorted({n.lineno for n in statements if isinstance(n, ast.stmt)})
    for row in data:
        assert (
            not row["share"]
            or row["share"] == f"{100 * cycles(row[prices]) / cycles(data[0][prices]):.1f} %"
        )


def test_the_other_price_is_that_of_a_run_at_that_price() -> None:
    compiled, by_hand = (show.code(mixed_report(prices=prices), Mixed).data for prices in PRICES)
    lines = [{row["line"]: row for row in data} for data in (compiled, by_hand)]
    both = lines[0].keys() & lines[1].keys()
    assert len(both) >= 5
    for line in both:
        told_of = [[data[line][prices] for prices in PRICES] for data in lines]
        # what is given has one price
        assert told_of[0] == told_of[1] or "" in told_of[0] and "" in told_of[1], line


def test_parts_of_a_line_add_up_to_it() -> None:
    data, checked = show.code(mixed_report(), Mixed).data, 0
    for place, row in enumerate(data):
        parts = []
        while place + 1 < len(data) and data[place + 1]["line"].startswith("    "):
            place += 1
            parts.append(cycles(data[place]["compiled"]))
        if re.match(r"  \d", row["line"]) and parts:
            checked += 1
            assert sum(parts) == cycles(row["compiled"])
    assert checked == 2
    tree = show.code(mixed_report(), Mixed).scene.mark("tree")
    assert isinstance(tree, Tree) and tree.labels[2].startswith("1: def compute")
    source = inspect.getsource(Mixed.compute).splitlines()
    for text in tree.labels:
        if found := re.match(r"(\d+): (\u00a0*)", text):
            line = source[int(found[1]) - 1]
            assert len(found[2]) == len(line) - len(line.lstrip()) - 4, line
    vectors = {row["line"].strip(): cycles(row["compiled"]) for row in data}
    # 25 vertices ran twice: 13 of 9 numbers, five data paths each, 12 of 8, four each. A product
    # and a sum of all.
    assert vectors["start of loops over vectors"] == 2 * 25 * 6
    assert vectors["arithmetic on vectors"] == 2 * 2 * (13 * 5 + 12 * 4)
    assert vectors["a store of half a word reads the rest first"] == 2 * 25 * 2


def test_the_words_and_the_picture_say_the_same() -> None:
    made = show.code(mixed_report())  # the codelet that costs most
    text = repr(made).splitlines()
    assert (
        text[0] == made.scene.sentence
        and text[0].startswith("52 vertices of Mixed ran, ")
        and "modelled" in text[0]
    )
    assert len(text) == 2 + len(made.data)
    for line, row in zip(text[2:], made.data, strict=True):
        assert line.endswith(f"  {row['line']}".rstrip())
        if row["share"]:
            assert line.split()[-len(row["line"].split()) - 3] in row.values()
    drawn = {shape.text for shape in paint(made.scene, 0) if isinstance(shape, Words)}
    assert {row["compiled"] for row in made.data} | {row["share"] for row in made.data} <= drawn
    [tree] = made.scene.marks
    assert isinstance(tree, Tree)
    worst = next(i for i, row in enumerate(made.data) if "acc +=" in row["line"])
    (chosen,) = (part for code, part in tree.parts.items() if CODES[int(code)].letter == "M")
    assert np.flatnonzero(chosen).tolist() == [worst]
    bars = [
        box
        for shape in paint(made.scene, 0)
        if isinstance(shape, Boxes)
        for box in shape.boxes.tolist()
    ]
    widths = sorted(round(box[2] / bar_width(tree), 3) for box in bars)
    shares = sorted(s / 1000 for part in tree.parts.values() for s in part.tolist() if s)
    assert widths == pytest.approx(shares, abs=0.002)


@pytest.mark.parametrize("codelet", [Thirds, Alone])
def test_vertices_that_have_the_tile_count_its_cycles(codelet: type[Vertex]) -> None:
    report, count = mixed_report(), 1 + (codelet is Alone)
    data = show.code(report, codelet).data
    seen = observe(codelet, report.target, x=np.ones(11))
    assert (
        cycles(data[0]["compiled"])
        == count * seen.cycles
        == report.cycles_by_codelet()[codelet.__name__]
    )
    assert cycles(data[1]["compiled"]) == count * seen.start


def test_a_vertex_that_was_looked_at_has_lines_where_data_decide() -> None:
    seen = observe(Large, a=[0, 1, 2, 0.2, np.nan])
    data = show.code(seen).data
    lines = {
        row["line"].split(": ", 1)[1]: (row["times"], row["cycles"] and cycles(row["cycles"]))
        for row in data[2:]
    }
    # A load, a comparison and a branch for each; an addition for two; a store.
    assert lines == {
        "def compute(self):": ("", ""),
        "n = 0": ("1", 0),
        "for i in range(len(self.a)):": ("5", 0),
        "if self.a[i] > 0.5:": ("5", 15),
        "n += 1": ("2", 2),
        "self.out = n": ("1", 1),
    }
    assert cycles(data[0]["cycles"]) == seen.cycles == 5 + 18
    assert repr(show.code(seen)).startswith(
        "One vertex of Large, 23 modelled cycles; most in line 4: if self.a[i] > 0.5, 65.2 %.\n"
    )


def test_a_formula_of_the_library_is_said_instead_of_lines() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph, program = Graph(device.target), Sequence()
    left, right = (graph.add_variable(FLOAT, (8, 8), name) for name in ("left", "right"))
    for variable in (left, right):
        graph.set_tile_mapping(variable, 0)
        graph.set_initial_value(variable, 1.0)
    poplin.mat_mul(graph, left, right, program)
    engine = Engine(graph, program)
    engine.load(device)
    engine.run()
    report = engine.report
    name = max(report.cycles_by_codelet(), key=lambda one: report.cycles_by_codelet()[one])
    made = show.code(report)
    head, size, formula, *rest = made.data
    assert head["line"] == name and not rest
    assert re.match(r"  rows = \d, depth = 8, columns = \d", size["line"])
    assert cycles(head["cycles"]) == cycles(size["cycles"]) == report.cycles_by_codelet()[name]
    expression, each = re.fullmatch(r" +(.*) = ([\d,]+) cycles", formula["line"]).groups()  # type: ignore[union-attr]
    assert eval(expression, {"ceil": ceil}) == cycles(each)
    assert cycles(each) * int(size["times"]) == cycles(size["cycles"])
    assert f"{expression} = {each} each, in which " in repr(made).splitlines()[0]
    terms = {term: eval(term, {"ceil": ceil}) for term in expression.split(" + ")}  # no brackets
    assert sum(terms.values()) == cycles(each)
    term = max(terms, key=lambda term: terms[term])
    assert made.scene.title == (
        f"{name}, the only codelet, takes 100.0 % of all vertex cycles: {each} a vertex, by a "
        f"formula, in which {term} is {terms[term]} of {each}"
    )
    assert "line" not in {made.scene.codes[i].name for i in made.scene.legend}
    every = report.cycles_by_codelet()
    vertices = sum(
        int(times) * len(spent)
        for step, times in enumerate(report.executions.tolist())
        for _, spent in (model_of(report, "code").vertices(step) if times else ())
    )
    # all vertices of this program belong to the library
    assert made.scene.sentence.endswith(
        f" {vertices} vertices of libraries, 100.0 % of the cycles of all vertices, have no Python "
        "lines here: a formula gives the cycles."
    )
    assert sum(every.values()) >= cycles(head["cycles"])
    (codelet,) = (row for row in show.tile(report, 0).scene.marks if isinstance(row, Tree))
    assert any(expression[:40] in text for text in codelet.labels)


def test_a_codelet_has_its_place_its_share_and_the_largest_term_of_its_formula() -> None:
    report = replicas.main(4, 6).report
    every = report.cycles_by_codelet()
    order = sorted(every, key=lambda name: -every[name])
    assert len(order) == 5 and len(set(every.values())) == 5
    for place, name in enumerate(order, 1):
        scene = show.code(report, name).scene
        rank = "the costliest" if place == 1 else f"number {place}"
        share = f"{100 * every[name] / sum(every.values()):.1f} %"
        assert scene.title.startswith(
            f"{name}, {rank} of 5 codelets, takes {share} of all vertex cycles: "
        )
        assert f"; it is {rank} of 5 codelets, with {share} of the cycles of" in scene.sentence
    sentence = show.code(report, "popops::BinaryOp1DInPlace<ADD,float>").scene.sentence
    assert (
        "6 * (58 + ceil(ceil(40 / 6) / 2) * 3) + 11 = 431 each, in which 6 * 58 is 348 of 431."
        in sentence
    )
    assert show.code(report).scene.title == show.code(report, order[0]).scene.title


@pytest.mark.parametrize(
    "text", ["6 * (53 // 2 + 4 - 7 % 4) + 2", "(3 + 4) * (5 - ceil(9 / 2))", "-(3 // 2) * (2 + 1)"]
)
def test_terms_of_a_formula_add_up_to_it(text: str) -> None:
    terms = list(formula_terms(ast.parse(text, mode="eval").body))
    assert len(terms) > 1 and sum(value for _, value in terms) == eval(text, {"ceil": ceil})
    assert [eval(term, {"ceil": ceil}) for term, _ in terms] == [value for _, value in terms]


def test_every_formula_gives_the_cycles_of_its_vertex() -> None:
    """The text of each formula is computed again, by Python."""
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph, program = Graph(device), Sequence()
    x = graph.add_variable(FLOAT, (24, 40), "x")
    other = graph.add_variable(FLOAT, (24, 40), "other")
    half = graph.add_variable(HALF, (24, 40), "half")
    w = graph.add_variable(FLOAT, (40, 17), "w")
    for tensor in (x, other, half, w):
        poputil.map_tensor_linearly(graph, tensor)
        graph.set_initial_value(tensor, 0.5)
    product = poplin.mat_mul(graph, x, w, program)
    popops.tanh_in_place(graph, product, program)
    popops.mul(graph, product, product, program)
    popops.add_in_place(graph, half, 1.5, program)
    popops.scaled_add_to(graph, x, other, 0.5, program)
    popops.cast(graph, half, FLOAT, program)
    popops.reduce(graph, product, (0,), program, operation="ADD")
    engine = Engine(graph, program)
    engine.load(device)
    engine.run()
    model = model_of(engine.report, "code")
    checked = Counter[str]()
    for step, times in enumerate(engine.report.executions.tolist()):
        for group, spent in model.vertices(step) if times else ():
            codelet = group.table.codelet
            formula = formula_of(codelet, group.shapes, model.target)
            if formula is not None:
                assert {eval(formula.text, {"ceil": ceil})} == set(spent.tolist()), codelet
                assert formula.named_sizes
                terms = list(formula_terms(ast.parse(formula.text, mode="eval").body))
                assert sum(value for _, value in terms) == formula.cycles
                for text, value in terms:
                    assert eval(text, {"ceil": ceil}) == value
                checked[codelet.__name__.partition("<")[0]] += 1
    assert len(checked) >= 6, checked


@pytest.mark.parametrize("view", [show.code, lambda report: show.tile(report, 0)])
def test_an_estimate_takes_the_place_of_the_formula(view: Any) -> None:
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()

    def one_vertex(codelet: type[Vertex] | None, estimate: int = 0) -> Report:
        graph, program = Graph(device), Sequence()
        x = graph.add_variable(FLOAT, (64,), "x")
        graph.set_tile_mapping(x, 0)
        graph.set_initial_value(x, 0.5)
        if codelet is None:
            popops.tanh_in_place(graph, x, program)
        else:
            compute_set = graph.add_compute_set("tanh")
            (field,) = codelet.fields
            vertex = graph.add_vertex(compute_set, codelet, {field: x})
            graph.set_tile_mapping(vertex, 0)
            if estimate:
                graph.set_perf_estimate(vertex, estimate)
            program.add(Execute(compute_set))
        engine = Engine(graph, program)
        engine.load(device)
        engine.run()
        return engine.report

    report = one_vertex(None)
    ((group, _),) = model_of(report, "code").vertices(0)
    formula = formula_of(group.table.codelet, group.shapes, report.target)
    assert formula is not None
    for estimate, is_shown in ((0, True), (12345, False)):
        scene = view(one_vertex(group.table.codelet, estimate)).scene
        assert (formula.text in scene.json()) == is_shown
        # no word says that a formula gives what is an estimate
        assert ("cycles set by set_perf_estimate" in scene.json()) != is_shown
        assert is_shown or "by a formula" not in scene.json()
        if scene.view == "code":
            source = f"{'a formula' if is_shown else 'an estimate'} gives the cycles"
            assert scene.sentence.endswith(
                " 1 vertex of libraries, 100.0 % of the cycles of all vertices, has no Python lines "
                f"here: {source}."
            )


def test_vertices_of_a_library_are_counted_beside_the_lines_of_a_codelet() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (64,), "x")
    out = graph.add_variable(FLOAT, (), "out")
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(x, 0.5)
    compute_set = graph.add_compute_set("added")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Added, x=x, out=out), 0)
    program = Sequence(Execute(compute_set))
    popops.tanh_in_place(graph, x, program)
    popops.tanh_in_place(graph, x, program)
    engine = Engine(graph, program)
    engine.load_and_run(device)
    spent = engine.report.cycles_by_codelet()
    share = 100 * (1 - spent["Added"] / sum(spent.values()))
    scene = show.code(engine.report, "Added").scene
    assert scene.title.startswith("Line ")
    assert scene.sentence.endswith(
        f" 2 vertices of libraries, {share:.1f} % of the cycles of all vertices, have no Python lines "
        "here: a formula gives the cycles."
    )


def test_a_codelet_of_ones_own_has_no_formula() -> None:
    model = model_of(mixed_report(), "code")
    for step in np.flatnonzero(mixed_report().executions).tolist():
        for group, _ in model.vertices(step):
            assert formula_of(group.table.codelet, group.shapes, model.target) is None


def test_what_code_does_not_take() -> None:
    report = mixed_report()
    assert (
        told(show.code, 3)
        == "show.code() was given 3, which is not a report.\n  next:  give it engine.report."
    )
    assert told(show.code, report, "Mixd") == (
        "show.code() was asked for 'Mixd', but no vertex of it ran.\n"
        "  next:  did you mean 'Mixed'? choose a codelet that ran: Mixed, Thirds, Alone, Large."
    )
    assert told(show.code, report, Vertex).startswith(
        "show.code() was asked for 'Vertex', but no vertex of it ran.\n  next:  choose a"
    )
    for asked, advice in (
        (report, "show one vertex with show.code(observe(Large, …))."),
        (observe(Given, x=1.0), "show what its loops did with show.turns(Given, …)."),
    ):
        name = advice.split("(")[-1].split(",")[0]
        assert told(show.code, asked, Large) == (
            f"show.code() cannot show the cycles of each line of {name}, because the program "
            "gives its cycles as a whole, its cycles depend on data, or its operations cannot be "
            "counted.\n"
            f"  next:  {advice}"
        )
    stored = Report.sample("products")
    assert told(show.code, stored) == (
        "show.code() was given a report from a file, which has tiles but no vertices.\n"
        "  next:  give it engine.report of the engine that ran."
    )


class Given(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        self.x = self.x + 1

    def cycles(self, target):
        return 3


# --- turns ----------------------------------------------------------------------------------------


def marked(made: View) -> list[int]:
    [tree] = made.scene.marks
    assert isinstance(tree, Tree)
    return [
        i
        for code, part in tree.parts.items()
        if made.scene.codes[int(code)].letter == "W"
        for i in np.flatnonzero(part)
    ]


def test_turns_are_those_of_a_plain_loop() -> None:
    x = np.array([1, 2, -1, np.nan, 5, 6, 7], np.float32)
    made, total = show.turns(Prefix, 5, x=x, y=7), np.float32(0)
    for i, (value, row) in enumerate(zip(x, made.data, strict=True)):
        total = total + value if value > 0 else total
        # Load, compare and branch; load and add; store.
        spent = 3 + 2 * bool(value > 0) + 1
        assert (
            row["names and stores"] == f"total = {total!s}; i = {i}; stores y[{i}] = {total!s}"
            and row["cycles"] == f"{spent}"
        )
        assert row["iteration"] == f"{i + 1}" and row["wrote"] == ("y[5]" if i == 5 else "")
    assert marked(made) == [5]
    assert repr(made).endswith(
        "Iteration 6 of line 3, for i in range(len(self.x)), wrote y[5]: total = 14.0; i = 5; stores "
        "y[5] = 14.0."
    )
    assert marked(show.turns(observe(Prefix, x=x, y=7), ("y", 2))) == [2]
    assert (
        marked(show.turns(Prefix, "y", x=x, y=7)) == list(range(7))
        and marked(show.turns(Prefix, x=x, y=7)) == []
    )


class Added3(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for j in range(len(self.out)):
            self.out[j] = 0
            for i in range(3):
                self.out[j] += self.x[i]


def test_of_several_turns_that_wrote_an_element_the_last_is_named() -> None:
    made = show.turns(Added3, 1, x=[1, 2, 4], out=2)
    assert made.scene.title == "Iteration 3 of line 4 wrote out[1] last, after 2 other iterations"
    assert " wrote out[1] last, after 2 other iterations: " in repr(made)
    assert (
        show.turns(Prefix, 5, x=np.ones(7), y=7).scene.title == "Iteration 6 of line 3 wrote y[5]"
    )


def test_of_many_turns_those_around_the_writer_are_shown() -> None:
    made = show.turns(Prefix, 500, x=np.ones(700), y=700)
    assert marked(made) == [30] and len(made.data) == 700 and len(made._repr_html_()) < 40_000
    assert repr(made).endswith("Shown are iterations 471 to 530, in the order in which they began.")
    assert marked(show.turns(Prefix, 699, x=np.ones(700), y=700)) == [59]


class Two(Vertex):
    x: InOut[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        self.y[:] = 0
        for i in range(2):
            self.x[i] = i


def test_what_turns_does_not_take() -> None:
    one = {"x": [1, 2, 3], "y": 3}
    assert told(show.turns, Two, ("x", 2), **one) == (
        "show.turns() found no iteration of a loop of Two that wrote x[2].\n"
        "  next:  choose an element that was written: 0, 1."
    )
    assert told(show.turns, Two, ("y", 1), **one) == (
        "show.turns() found no iteration of a loop of Two that wrote y[1].\n"
        "  next:  look at the lines outside of the loops, because no iteration wrote y."
    )
    assert told(show.turns, Two, 1, **one) == (
        "show.turns() was given the element 1 without a field, but Two writes 2 fields.\n"
        "  next:  name "
        'the field: ("NAME", 1).'
    )
    assert told(show.turns, Two, ("z", 1), **one) == (
        "Two has no field 'z'.\n  next:  Its fields are x: InOut[Vector[FLOAT]], y: "
        "Output[Vector[FLOAT]]."
    )
    assert told(show.turns, Alone, x=[1, 2]) == (
        "show.turns() found no loop over elements in Alone.\n"
        "  next:  show the cost of its lines with print(observe(Alone, …))."
    )
    assert told(show.turns, 3) == (
        "show.turns() was given 3, which is not a vertex class.\n"
        "  next:  give a class and values of its fields, or what observe() returned."
    )


@pytest.mark.parametrize("tile", [0, 1])
def test_turns_of_a_vertex_of_a_run_are_those_of_plain_rounds(tile: int) -> None:
    recording, vertices = kept_recording("x", "y")
    x, y, total = (
        (np.arange(14, dtype=np.float32) - 2)[7 * tile :][:7],
        np.full(7, 0.5, np.float32),
        np.float32(0),
    )
    for step in (0, 2, 4):  # between them copies
        made = show.turns(recording, vertices[tile] if step else ("kept", tile), 3, step=step)
        for i, row in enumerate(made.data):
            total += x[i] if x[i] > 0 else 0
            y[6 - i] += total
            assert row["names and stores"] == f"i = {i}; " + (
                f"stores total = {total!s}; " * bool(x[i] > 0) + f"stores y[{i}] = {y[6 - i]!s}"
            )
            assert row["wrote"] == ("y[3]" if i == 3 else "")
        assert np.array_equal(recording.values(recording.tensors[1], step)[7 * tile :][:7], y)
        spent = recording.report.cycles_by_codelet()["Kept"] if recording.report else 0
        assert (
            f"Vertex {tile} of kept on tile {tile}, in step {step} of the run, Kept, " in repr(made)
            and spent
        )
        assert (
            made.scene.data["link"]["tile"] == tile and made.scene.data["link"]["moments"][0] == 1
        )
        x = y.copy()
    # the last, if none is named
    assert repr(show.turns(recording, vertices[tile], 3)) == repr(made)
    # data decide its cycles
    assert show.run(recording).data and "content" in show.bsp(recording).scene.data


def test_what_turns_of_a_run_do_not_take() -> None:
    recording, (one, _) = kept_recording("x", "y")
    advice = (
        "\n  next:  give a vertex that ran: a vertex of the graph, or (name of a compute set, "
        "index). Leave out step=, or give a step in which this vertex ran."
    )
    for asked, step, said in (
        (("kept", 2), None, "('kept', 2), which did not run"),
        (7, None, "7, which did not run"),
        (one, 1, f"{one!r}, which did not run in step 1"),
    ):
        assert told(show.turns, recording, asked, step=step) == (
            f"show.turns() was given the vertex {said} during the recording.{advice}"
        )
    for step in (object(), "2", [1]):
        assert told(show.turns, recording, one, step=step).startswith(
            f"show.turns() was given step={shown(step)}, which is not a whole number.\n"
            "  next:  give the number of a step"
        )
    assert told(show.turns, kept_recording("x")[0], ("kept", 0)) == (
        "Vertex 0 of kept reads or writes elements that were not recorded: y (its y).\n  next:  "
        "give these tensors to engine.record(…), too, and run again."
    )
    assert told(show.turns, recording.report, one) == (
        "show.turns() was given a report, which does not contain the values of the run.\n"
        "  next:  record the tensors that the vertex reads and writes, recording = "
        "engine.record(…), call engine.run(), then show.turns(recording, vertex)."
    )
    assert told(show.turns, kept_recording("x", "y", first=1)[0], ("kept", 0)) == (
        "show.turns() ran vertex 0 of kept again, but the vertex wrote other values than in the "
        "run: it has state from before the recording, rounds stochastically, or is not the only vertex "
        "that writes to its elements.\n  next:  record from the first run on, or show the class "
        "with values of your own: show.turns(MyVertex, …)."
    )


# --- tile -----------------------------------------------------------------------------------------


def work(tiles: int, vertices: int, of: int = 0) -> tuple[Report, list[tuple[int, int]]]:
    """Sums of rows of uneven lengths, all on a few tiles; the tile and the cycles of each
    vertex."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles).create_device()
    graph = Graph(device.target)
    rng = np.random.default_rng(vertices)
    lengths = rng.integers(1, 40, vertices)
    rows = [graph.add_variable(FLOAT, (int(n),), f"row{i}") for i, n in enumerate(lengths)]
    out, compute_set, placed = (
        graph.add_variable(FLOAT, (vertices,), "out"),
        graph.add_compute_set("sums"),
        [],
    )
    for i, row in enumerate(rows):
        tile = int(rng.integers(0, of or tiles))
        for part in (row, out[i]):
            graph.set_tile_mapping(part, tile)
        graph.set_initial_value(row, 1.0)
        graph.set_tile_mapping(graph.add_vertex(compute_set, Added, x=row, out=out[i]), tile)
        placed.append((tile, 5 + 2 * int(lengths[i]) + 1))  # a load and a sum for each, and a store
    engine = Engine(graph, Execute(compute_set))
    engine.load(device)
    engine.run()
    return engine.report, placed


class Added(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.x)):
            total += self.x[i]
        self.out = total


def lanes_of(made: View, which: int) -> list[list[tuple[int, int, int]]]:
    """By worker, (start, cycles, code) of what its lane shows of vertices, as drawn."""
    still = made.scene.stills[which]
    drawing, lanes = (
        made.scene.drawings[still.lanes["workers"][0]],
        list[list[tuple[int, int, int]]](),
    )
    first = len(BASE)
    for worker in range(len(still.values["busy"])):
        bars = [
            tuple(int(np.broadcast_to(v, 6)[worker]) for v in (b.start, b.length, b.code))
            for b in drawing.bars[1:]
        ]
        lanes.append([bar for bar in bars if bar[1] and bar[2] >= first])  # type: ignore[misc]
    return lanes


@pytest.mark.parametrize(
    ("tiles", "vertices", "of"), [(1, 1, 0), (1, 400, 0), (13, 60, 0), (64, 90, 7), (1472, 40, 3)]
)
def test_workers_run_what_the_plain_schedule_says(tiles: int, vertices: int, of: int) -> None:
    report, placed = work(tiles, vertices, of)
    slowest = int(np.argmax(report.compute_cycles_per_tile))
    for tile in {slowest, placed[0][0]}:
        made = show.tile(report, None if tile == slowest else tile)
        free, expected = [0] * 6, [list[tuple[int, int]]() for _ in range(6)]
        for cycles_ in [c for t, c in placed if t == tile]:  # each on the worker that is free first
            worker = free.index(min(free))
            expected[worker].append((6 * free[worker], 6 * cycles_))
            free[worker] += cycles_
        assert [[bar[:2] for bar in lane] for lane in lanes_of(made, 0)] == expected
        codes = [[bar[2] for bar in lane] for lane in lanes_of(made, 0)]
        # neighbours are told apart
        assert all(a != b for lane in codes for a, b in zip(lane, lane[1:], strict=False))
        assert (
            6 * max(free)
            == report.compute_cycles_per_tile[tile]
            == made.scene.drawings[1].bars[0].length
        )
        still = made.scene.stills[0]
        assert still.values["busy"].tolist() == [6 * f for f in free]
        assert still.values["vertices"].tolist() == [len(lane) for lane in expected]
        told_of = sorted(
            (int(row["worker"]), int(row["start"].replace(",", "")), cycles(row["cycles"]))
            for row in made.data
        )
        assert told_of == sorted((w, *bar) for w, lane in enumerate(expected) for bar in lane)
        text, idle = repr(made), sum(not lane for lane in expected)
        assert f"{6 * max(free):,} modelled cycles = 6 x {max(free):,}, its busiest worker" in text
        assert (
            f"{idle} of them without one: {idle} more of up to {max(free):,} cycles" in text
        ) == bool(idle)
        waits = int(report.compute_cycles_per_tile.max()) - 6 * max(free)
        assert (f"it waits {waits:,} for tile {slowest}" in text) == bool(waits)
        assert len(made._repr_html_()) < (60_000 if vertices > 100 else 40_000)


def test_the_picture_of_a_tile_has_the_widths_of_its_cycles() -> None:
    made = show.tile(work(13, 60)[0])
    workers, lanes = made.scene.marks[0], lanes_of(made, 0)
    assert isinstance(workers, Lanes)
    scale, drawn = workers.width / made.scene.drawings[1].span, Counter[int]()
    for shape in paint(made.scene, made.scene.poster, is_whole=True):
        if isinstance(shape, Boxes) and shape.code >= len(BASE):
            for _, _, width, high in shape.boxes.tolist():
                drawn[shape.code] += width * round(high / (workers.height / 6) + 0.16)
    expected = Counter[int]()
    for lane in lanes:
        for _, length, code in lane:
            expected[code] += length * scale  # type: ignore[assignment]
    assert drawn.keys() == expected.keys() and all(
        drawn[c] == pytest.approx(expected[c], abs=0.5) for c in drawn
    )


@pytest.mark.parametrize("tile", [0, 12])
def test_its_memory_is_the_ledgers(tile: int) -> None:
    report = mixed_report()
    made = show.tile(report, tile)
    memory = made.scene.mark("memory")
    assert isinstance(memory, Lanes)
    [bar] = made.scene.drawings[0].bars
    sizes = {
        name.rsplit(" ", 1)[0]: int(size)
        for name, size in zip(memory.labels, np.asarray(bar.length), strict=True)
    }
    held = report.memory.by_category(tile)
    assert (
        sum(sizes.values()) == report.memory.held_per_tile[tile]
        and f"{sum(sizes.values()):,} of 638,976" in memory.heading
    )
    assert sizes["stacks"] == held["Stacks"] and sizes["vertex code"] == held["Vertex code"]
    assert (
        sizes["matrix"] == 4 * 9 * 2
        and sizes["half"] == 2 * 2
        and sizes.get("weights") == (4 * 9 if tile == 0 else None)
    )
    assert [int(name.rsplit(" ", 1)[1].replace(",", "")) for name in memory.labels] == list(
        sizes.values()
    )


def test_steps_and_vertices_that_have_the_tile_to_themselves() -> None:
    report = mixed_report()
    made = show.tile(report, 0)
    steps = [s.label for s in made.scene.stills]
    assert steps == ["mixed on tile 0", "large on tile 0", "whole on tile 0"]
    assert [s.cycles for s in made.scene.stills] == [
        report.step_cost(n).compute_duration for n in dict.fromkeys(report.step_numbers.tolist())
    ]
    assert made.scene.stills[int(made.scene.frames[made.scene.poster])].label == "mixed on tile 0"
    thirds, alone = (observe(c, report.target, x=np.ones(11)).cycles for c in (Thirds, Alone))
    whole = [row for row in made.data if row["step"] == "whole on tile 0"]
    assert [
        (row["worker"], row["codelet"], cycles(row["start"]), cycles(row["cycles"]))
        for row in whole
    ] == [("all", "Thirds", 0, thirds), ("all", "Alone", thirds, alone)]
    lanes = lanes_of(made, 2)
    assert all([bar[:2] for bar in lane] == [(0, thirds), (thirds, alone)] for lane in lanes)
    assert (
        f"{thirds + alone:,} modelled cycles = {thirds + alone:,} of vertices that use all "
        "workers; 2 vertices. Its memory" in repr(show.tile(report, 0, "whole"))
    )
    assert "it waits" in repr(show.tile(report, 12, "whole")) and "for tile 0" in repr(
        show.tile(report, 12, "whole")
    )
    given = next(row for row in show.tile(report, 0, "mixed").data if row["vertex"] == "1")
    assert cycles(given["cycles"]) == 6 * 1000  # its estimate
    [tree] = [m for m in made.scene.marks if isinstance(m, Tree)]
    assert (
        tree.labels[0] == "Mixed, vertex 1"
        and tree.labels[1] == "cycles set by set_perf_estimate: in no line"
    )


def test_the_title_names_the_last_worker_and_how_many_share_the_maximum() -> None:
    """Counted here: the ends of the workers in the table, and the cycles of the tiles."""
    for report in (mixed_report(), work(13, 26)[0], work(13, 6 * 13)[0], work(7, 7 * 8)[0]):
        for step in dict.fromkeys(report.step_numbers.tolist()):
            spent = report.step_cost(step).compute_cycles
            if not spent.any():
                continue
            name = report.step_cost(step).name
            made = show.tile(report, int(spent.argmax()), step)
            ends: dict[str, int] = {}
            for row in made.data:
                end = cycles(row["start"]) + cycles(row["cycles"])
                for worker in "012345" if row["worker"] == "all" else row["worker"]:
                    ends[worker] = max(end, ends.get(worker, 0))
            last = [worker for worker, end in sorted(ends.items()) if end == max(ends.values())]
            said = made.scene.title.rpartition("; ")[2]
            if len(last) == 6:
                assert said == "all 6 workers end together"
            elif len(last) == 1:
                assert said == f"worker {last[0]} is last"
            else:
                assert said == f"workers {', '.join(last[:-1])} and {last[-1]} are last"
            equal, waiting = int((spent == spent.max()).sum()), int((spent < spent.max()).sum())
            if equal > 1 and waiting:
                assert f" in {name!r}, like {equal - 1} other" in made.scene.title
                assert f"; {waiting} tile" in made.scene.title
                late = show.tile(report, int(spent.argmin()), step).scene.sentence
                first = int(spent.argmax())
                assert f"for tile {first} and {equal - 1} other" in late
            elif waiting:
                assert f" in {name!r} and makes {waiting} other" in made.scene.title
            else:
                assert f" in {name!r} and takes as long as all others" in made.scene.title


def test_tiles_of_ipus_without_a_part_in_a_step_do_not_wait_for_it() -> None:
    report = pipeline_training("grouped", 4, 8)[0]
    tiles = report.target.tiles_per_ipu
    counted_steps = 0
    for step in dict.fromkeys(report.step_numbers.tolist()):
        spent = report.step_cost(step).compute_cycles
        at = {int(tile) // tiles for tile in np.flatnonzero(spent)}
        if len(at) != 1 or report.step_cost(step).kind != "Execute":
            continue
        (ipu,) = at  # the others run steps of their own meanwhile
        own = spent[ipu * tiles : (ipu + 1) * tiles]
        waiting = int((own < own.max()).sum())
        title = show.tile(report, int(spent.argmax()), step).scene.title
        if not waiting:
            assert "takes as long as all others that take part" in title
        else:
            assert f"; {waiting} tile" in title or f"makes {waiting} other" in title
        outside = (ipu + 1) % 4 * tiles
        scene = show.tile(report, outside, step).scene
        assert "takes no part" in scene.title and " waits" not in scene.title + scene.sentence
        counted_steps += 1
    assert counted_steps > 4


def test_a_tile_without_work_waits_and_holds() -> None:
    report = mixed_report(every=4)
    made = show.tile(report, 1)
    duration = max(report.step_cost(n).compute_duration for n in report.step_numbers.tolist())
    assert repr(made).startswith(
        "In mixed on tile 1: it takes 0 modelled cycles; 0 vertices on 6 workers; it waits "
        f"{duration:,} for tile "
    )
    assert (
        made.data == []
        and not any(lanes_of(made, 0))
        and not any(isinstance(m, Tree) for m in made.scene.marks)
    )


def test_moving_edges_into_place_is_a_part_of_the_tiles_time() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    matrix, out = (
        graph.add_variable(FLOAT, (8, 8), "matrix"),
        graph.add_variable(FLOAT, (8,), "out"),
    )
    for part in (matrix, out):
        graph.set_tile_mapping(part, 0)
    graph.set_initial_value(matrix, 1.0)
    compute_set = graph.add_compute_set("columns")
    for i in range(8):
        graph.set_tile_mapping(graph.add_vertex(compute_set, Added, x=matrix[:, i], out=out[i]), 0)
    engine = Engine(graph, Execute(compute_set))
    engine.load(device)
    engine.run()
    report, one = engine.report, observe(Added, x=np.ones(8)).cycles
    made = show.tile(report)
    # docs/model.md: 64 pieces of 4 bytes on six workers: 36 to start, 44.5 a piece, one for 8
    # bytes.
    moves = 6 * int(np.ceil(36 + 44.5 * 11 + 256 / 8 / 6))
    assert report.compute_cycles_per_tile[0] == moves + 6 * 2 * one
    assert (
        f"= 6 x {2 * one}, its busiest worker + {moves:,} of moving edges into place; 8 vertices"
        in repr(made)
    )
    assert [lane[0][0] for lane in lanes_of(made, 0)] == [moves] * 6
    besides = show.code(report).data[-1]
    assert besides["line"].startswith("besides: moving edges") and cycles(
        besides["compiled"]
    ) == np.ceil(36 * 6 + 44.5 * 64 + 32)


def test_its_code_is_that_of_show_code() -> None:
    report, _ = work(13, 26)
    made = show.tile(report)
    [tree] = [m for m in made.scene.marks if isinstance(m, Tree)]
    longest = max(made.data, key=lambda row: cycles(row["cycles"]))
    assert (
        tree.labels[0] == f"Added, vertex {longest['vertex']}"
        and cycles(tree.cells[1]) == cycles(longest["cycles"]) / 6
    )
    total = sum(
        cycles(tree.cells[3 * i + 1]) for i, depth in enumerate(tree.depth.tolist()) if depth == 1
    )
    assert total == cycles(tree.cells[1])
    assert f"{CODES.index(WORST)}" in tree.parts


def test_what_tile_does_not_take() -> None:
    report = mixed_report()
    assert (
        told(show.tile, 3)
        == "show.tile() was given 3, which is not a report.\n  next:  give it engine.report."
    )
    assert (
        told(show.tile, report, 99) == "There is no tile 99.\n  next:  give a number from 0 to 12."
    )
    assert told(show.tile, report, 0, "mixd") == (
        "show.tile() was given step='mixd', which is not a step that executes vertices.\n"
        "  next:  did you mean 'mixed'? choose one of these steps: mixed, large, whole."
    )
    assert told(show.tile, Report.sample("products"), 0).startswith(
        "show.tile() was given a report from a file, which has"
    )
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    graph = Graph(device.target)
    a, b = (graph.add_variable(FLOAT, (4,), name) for name in "ab")
    for i, variable in enumerate((a, b)):
        graph.set_tile_mapping(variable, i)
    graph.set_initial_value(a, 1.0)
    engine = Engine(graph, Copy(a, b))
    engine.load(device)
    assert told(show.tile, engine.report).startswith(
        "show.tile() was given a report in which nothing has run."
    )
    engine.run()
    assert (
        told(show.tile, engine.report)
        == "show.tile() was given a run without vertices.\n  next:  execute a compute set."
    )
    assert told(show.code, engine.report).endswith(
        ", but no vertex of it ran.\n  next:  execute a compute set."
    )


# --- the contract ---------------------------------------------------------------------------------


def made_views(name: str = "mixed") -> list[View]:
    report = mixed_report(name=name)
    return [
        show.tile(report),
        show.code(report),
        show.code(observe(Mixed, a=[1, 2], b=[3, 4])),
        show.turns(Prefix, 1, x=[1, 2, 3], y=3),
    ]


def hashes() -> list[str]:
    return [hashlib.sha256((v._repr_html_() + repr(v)).encode()).hexdigest() for v in made_views()]


def test_a_view_is_a_picture_a_table_and_a_player(tmp_path: Path) -> None:
    assert made_views()[0].save(tmp_path / "a.png", dark=True).read_bytes()[:4] == b"\x89PNG"
    for made in made_views():
        found = Tags(made._repr_html_())
        [image] = found.tags["img"]
        assert (
            image["alt"] == made.alt
            and "\n" not in made.alt
            and "modelled" in made.alt
            and len(re.findall(r"\d", made.alt)) >= 3
        )
        assert (
            len(found.tags["tr"]) == min(24, len(made.data)) + 1
            and len(made._repr_html_()) < 40_000
        )
        assert "http" not in made._repr_html_().replace(SVG, "") and len(found.tags["script"]) == 1
        codes = [made.scene.codes[i] for i in made.scene.legend]
        assert len({code.letter for code in codes}) == len(codes)
        for code in codes:
            for colour in (code.light, code.dark):
                assert contrast(palette.ink_on(colour), colour) >= 4.5


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "😀\n\x00", "long " * 2_000]
)
def test_any_name_is_text(name: str) -> None:
    for made in made_views(name):
        page = made._repr_html_()
        assert (
            len(Tags(page).tags["script"]) == 1
            and "<script>alert" not in page
            and len(page) < 60_000
        )
        assert "<script>" not in svg(made.scene)


def test_the_same_bytes_in_another_process() -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\nfrom test_tile_views import hashes\nprint(*hashes())"
    env = {**os.environ, "PYTHONHASHSEED": "7"}
    there = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True, env=env
    )
    assert there.stdout.split() == hashes()


def test_views_follow_what_if() -> None:
    report, _ = work(13, 60)
    by_hand = show.code(report.what_if(codelet_prices="by hand")).data
    assert [row["by hand"] for row in by_hand if row["line"].strip()[0].isdigit()] == [
        row["by hand"] for row in show.code(report).data if row["line"].strip()[0].isdigit()
    ]
    fewer = report.what_if(num_worker_contexts=4)
    made = show.tile(fewer)
    slowest = int(np.argmax(fewer.compute_cycles_per_tile))
    held, free = [cycles(row["cycles"]) for row in show.tile(report, slowest).data], [0.0] * 4
    for spent in (c / 6 * 4 for c in held):
        free[free.index(min(free))] += spent
    assert max(free) == fewer.compute_cycles_per_tile[
        slowest
    ] and f"= 4 x {int(max(free)) // 4:,}, its" in repr(made)
    assert len(made.scene.stills[0].values["busy"]) == 4


def test_the_rows_of_code_say_how_many_codelets_they_leave_out() -> None:
    report = replicas.main(4, 6).report
    vertices = show.tile(report, 0).data
    codelets = {row["codelet"] for row in vertices}
    assert len(codelets) == 5
    (tree,) = (mark for mark in show.tile(report, 0).scene.marks if isinstance(mark, Tree))
    assert tree.heading == "its code: the costliest 3 of 5 codelets"
    shown_ = {text.split(",")[0] for text in tree.labels if ", vertex " in text}
    slowest = {
        name: max(
            cycles(row["cycles"]) / (1 if row["worker"] == "all" else 6)
            for row in vertices
            if row["codelet"] == name
        )
        for name in codelets - {c for c in codelets if c.split(",")[0] in shown_}
    }
    assert len(slowest) == 2 and tree.labels[-1] == "2 more codelets, a vertex of each"
    assert tuple(tree.cells[-3:]) == ("2", f"{sum(slowest.values()):,.0f}", "")
