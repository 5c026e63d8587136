"""One vertex looked at while it runs: cycles by line beside those of a third counter, turns beside
a plain count of them."""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections import Counter
from textwrap import dedent
from types import FrameType
from typing import Any

import numpy as np
import pytest
import student_codelets as students
from engine_parts import measured_cycles
from graphs import same_bits
from pricing import priced_by_line
from scalar_vertices import ELEMENT_LOOPS, VertexRows, codelet_and_values
from student_codelets import CASES

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    InOut,
    Input,
    MultiVertex,
    Output,
    SupervisorVertex,
    Vector,
    VectorList,
    Vertex,
    observe,
)
from ipu_teach.compile.scalar import scalar_code
from ipu_teach.cost.lines import Observed, line_cycles
from ipu_teach.cost.traced import vertex_cycles
from ipu_teach.observer import observed, watch as room
from ipu_teach.target import COMPILED, PRICES, make_target
from ipu_teach.types import Array

TARGET = make_target()


def regions_of(codelet: type[Vertex], values: dict[str, Array], row: int) -> dict[str, Any]:
    return {
        name: np.array(array[row], codelet.fields[name].dtype.numpy)
        for name, array in values.items()
    }


def seen(name: str, row: int, count: int = 3, prices: str = COMPILED) -> Observed:
    codelet, values = codelet_and_values(name, count, 7)
    return observed(codelet, regions_of(codelet, values, row), make_target(codelet_prices=prices))


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("name", ELEMENT_LOOPS)
def test_lines_cost_what_a_third_counter_says(name: str, prices: str) -> None:
    codelet, values = codelet_and_values(name, 3, 7)
    file = inspect.getsourcefile(codelet) or ""
    with np.errstate(all="ignore"):
        told = priced_by_line(codelet, values, prices)
    for row, (cycles, by_line) in enumerate(told):
        found = seen(name, row, prices=prices)
        assert found.cycles == cycles == found.start + sum(c for _, _, c in found.lines)
        expected, lines = Counter[str](), Counter[str]()
        for number, spent in by_line.items():
            expected[linecache.getline(file, number).strip()] += spent  # type: ignore[assignment]
        for line, _, spent in found.lines:
            lines[line.text] += spent  # type: ignore[assignment]
        last = found.cycles - found.start - sum(expected.values())
        assert 0 <= last < (1 if codelet.context == "worker" else 6)
        expected[[line.text for line, _, spent in found.lines if spent][-1]] += last  # type: ignore[assignment]
        assert +lines == +expected


# Whose statements stand on a line each, without comprehensions: Python itself can count how often
# they run.
PLAIN = [
    name
    for name in ELEMENT_LOOPS
    if not any(
        isinstance(n, (ast.GeneratorExp, ast.ListComp, ast.Lambda))
        or (isinstance(n, ast.stmt) and not hasattr(n, "body") and n.end_lineno != n.lineno)
        for n in ast.walk(ast.parse(dedent(inspect.getsource(getattr(students, name)))))
    )
]


@pytest.mark.parametrize("name", PLAIN)
def test_lines_run_as_often_as_python_says(name: str) -> None:
    codelet, values = codelet_and_values(name, 2, 5)
    if codelet.context != "worker":
        return
    file, counts = inspect.getsourcefile(codelet), Counter[int]()

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code.co_filename == file and event == "line":
            counts[frame.f_lineno] += 1
        return count

    regions = regions_of(codelet, values, 1)
    vertex, before = codelet.bind({n: r.copy() for n, r in regions.items()}), sys.gettrace()
    with np.errstate(all="ignore"):
        sys.settrace(count)
        try:
            vertex.compute()
        finally:
            sys.settrace(before)
    expected, lines = Counter[str](), Counter[str]()
    for number, times in counts.items():
        expected[linecache.getline(file or "", number).strip()] += times
    for line, times, _ in observed(codelet, regions, TARGET).lines:
        lines[line.text] += times
    checked = [text for text in lines if not text.startswith("for ")]
    assert len(PLAIN) >= 20 and {t: lines[t] for t in checked} == {t: expected[t] for t in checked}


@pytest.mark.parametrize("name", [name for name in CASES if name != "Racy"])
def test_values_and_sums_are_those_of_an_engine(name: str) -> None:
    codelet, values = codelet_and_values(name, 3, 7)
    engine, ran = VertexRows(codelet, values).run()
    assert engine.report.unknown_codelets == ()
    group: Any = engine.executable.compiled.groups[0][0]
    cycles = np.broadcast_to(vertex_cycles(group, TARGET, measured_cycles(engine)), 3)
    for row in range(3):
        found = seen(name, row)
        assert found.cycles == cycles[row] == found.start + sum(c for _, _, c in found.lines)
        result = found.result if isinstance(found.result, dict) else {}
        assert all(same_bits(np.asarray(result[field]), ran[field][row]) for field in result)
        if not group.trace.stopped:
            assert line_cycles(group, row, TARGET) == found.lines


def test_the_walk_says_of_traced_codelets_what_their_traces_say() -> None:
    checked = 0
    for name in [*CASES, "Stencil", "Halved", "Kinds"]:
        codelet, values = (
            (vars(sys.modules[__name__])[name], HALVES if name == "Kinds" else WHOLE)
            if name not in CASES
            else codelet_and_values(name, 3, 7)
        )
        found, code = (
            observed(codelet, regions_of(codelet, values, 0), TARGET),
            scalar_code(codelet),
        )
        if isinstance(code, str) or codelet.context != "worker":
            continue
        (watch,) = room._watched(code, regions_of(codelet, values, 0), TARGET, 1)
        walked, costly = (
            {line: cycles for line, _, cycles in watch.by_line(TARGET)},
            [x for x in found.lines if x.cycles],
        )
        assert watch.cycles == found.cycles and {line: cycles for line, _, cycles in costly} == {
            line: cycles for line, cycles in walked.items() if cycles
        }
        seen_parts = watch.by_line(TARGET).parts
        assert {line: seen_parts[line] for line, *_ in costly} == {
            line: found.lines.parts[line] for line, *_ in costly
        }
        checked += 1
    assert checked > 40


class Stencil(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        middle = (self.x[:-2] + self.x[2:]) * 0.5
        self.y[1:-1] = (middle
                        - self.x[1:-1])  # fmt: skip
        self.y[0] = self.x[0] * -1
        self.y[9] = 2


class Halved(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        if len(self.x) > 3:
            self.y = self.x * 0.5 - self.x * 2
        self.y[0] = np.sum(self.x)


HALVES = {"x": np.arange(8.0)[None], "h": np.zeros((1, 3)), "y": np.zeros((1, 8))}
WHOLE = {"x": np.arange(10.0)[None], "y": np.zeros((1, 10))}


def test_a_line_is_named_by_its_method_and_where_it_stands_there() -> None:
    found = observe(Stencil, x=np.arange(10), y=10)
    assert [(line.method, line.number, line.text) for line, _, _ in found.lines] == [
        ("Stencil.compute", 2, "middle = (self.x[:-2] + self.x[2:]) * 0.5"),
        ("Stencil.compute", 3, "self.y[1:-1] = (middle"),
        ("Stencil.compute", 5, "self.y[0] = self.x[0] * -1"),
        ("Stencil.compute", 6, "self.y[9] = 2"),
    ]
    # Eight elements are four data paths: of two loads, add and multiply; of a load, subtract and a
    # store, and six cycles for the loop. Single elements: a load, a product, two stores.
    assert [(times, cycles) for _, times, cycles in found.lines] == [
        (1, 16),
        (1, 12 + 6),
        (1, 3),
        (1, 1),
    ]
    assert found.turns == [] and found.cycles == 5 + 38


class Branching(Vertex):
    left: Input[FLOAT]
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def scaled(self, i: int) -> Any:
        return self.x[i] * 0.5

    def compute(self) -> None:
        for i in range(len(self.x)):
            near = self.left if i == 0 else self.x[i - 1]
            here = self.x[i]
            self.y[i] = (
                0.25 * near  # a statement of several lines
                + self.scaled(i)
                + here
            )
        for value in self.x:
            self.y[0] = value + 1


def test_a_line_runs_as_often_whenever_one_asks() -> None:
    # an interpreter learns of an instruction while a loop runs, and then stands elsewhere in it
    values = {"left": 1, "x": np.ones(24), "y": 24}
    told = {tuple((line.number, times) for line, times, _ in found.lines)
            for found in (observe(Branching, **values) for _ in range(40))}  # fmt: skip
    assert told == {((3, 24), (4, 24), (5, 24), (10, 24), (11, 24), (2, 24))}


class Steps(Vertex):
    """Loops within loops, left in every way."""

    n: Input[Vector[INT]]
    y: InOut[Vector[INT]]
    m: Output[Vector[Vector[INT]]]
    total: Output[INT]

    def compute(self):
        total = 0
        for i in range(len(self.n)):
            left = self.n[i]
            while left > 0:
                left -= 3
                if left == 4:
                    continue
                if left == 1:
                    break
                total += self.added(left)
            self.y[i] = left
            self.y[-1] += 1
        self.m[1] = 7
        for a, b in zip(self.n, self.y, strict=True):
            if a == b:
                self.total = total
                return
        self.total = -1

    def added(self, left):
        for k in range(left):
            if k == 2:
                return k
        return 0


def test_turns_are_those_of_a_plain_count() -> None:
    n = [7, 0, 9, 2]
    found = observe(Steps, n=n, y=[0] * 4, m=(2, 3))
    expected: list[tuple[str, int, int]] = []
    lefts: list[int] = []
    for i, left in enumerate(n):
        expected.append(("for i in range(len(self.n)):", i + 1, 0))
        number = 0
        while left > 0:
            number, left = number + 1, left - 3
            expected.append(("while left > 0:", number, 1))
            if left == 4:
                continue
            if left == 1:
                break
            expected += [("for k in range(left):", k + 1, 2) for k in range(min(max(left, 0), 3))]
        lefts.append(left)
    y = [*lefts[:-1], lefts[-1] + 1]
    pairs = 1 + [a == b for a, b in zip(n, y, strict=True)].index(True)
    expected += [("for a, b in zip(self.n, self.y, strict=True):", k + 1, 0) for k in range(pairs)]
    assert [(turn.line.text, turn.number, turn.depth) for turn in found.turns] == expected
    assert found.turned == len(expected) and found.result["y"].tolist() == y
    outer = [turn for turn in found.turns if turn.line.number == 3]
    assert [turn.values["left"] for turn in outer] == lefts and [
        turn.values["i"] for turn in outer
    ] == [0, 1, 2, 3]
    assert [turn.stored for turn in outer] == [
        {"y": [0, 3]},
        {"y": [1, 3]},
        {"y": [2, 3]},
        {"y": [3]},
    ]
    assert (
        found.wrote("y", 2) == [outer[2]]
        and found.wrote("y", 3) == outer
        and found.wrote("m") == []
    )
    assert found.wrote("total") == found.turns[-1:] and found.turns[-1].stored == {"total": [()]}
    for turn, after in zip(found.turns, found.turns[1:], strict=False):
        if after.depth > turn.depth:
            assert turn.cycles > after.cycles
    assert (
        0 < sum(turn.cycles for turn in found.turns if turn.depth == 0) < found.cycles - found.start
    )
    assert str(found).splitlines()[-1].split() == ["2", "5", "Steps.compute", "15"] + LAST


LAST = [
    "total",
    "=",
    "4;",
    "i",
    "=",
    "3;",
    "left",
    "=",
    "-1;",
    "a",
    "=",
    "0;",
    "b",
    "=",
    "0;",
    "stores",
    "total",
    "=",
    "4",
]


class Marks(Vertex):
    rows: InOut[VectorList[HALF]]
    m: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        for k in range(2):
            for i in range(len(self.rows[k])):
                if self.rows[k][i] > 1:
                    self.rows[k][i] = 0
            row = self.m[k]
            row[1:] = k


def test_elements_of_matrices_and_lists_have_indices() -> None:
    found = observe(Marks, rows=[[0, 2, 3], [5]], m=(2, 3))
    outer = [turn for turn in found.turns if turn.depth == 0]
    assert [turn.stored for turn in outer] == [
        {"rows": [(0, 1), (0, 2)], "m": [(0, 1), (0, 2)]},
        {"rows": [(1, 0)], "m": [(1, 1), (1, 2)]},
    ]
    assert [turn.held for turn in outer] == [
        {"rows": [0, 0], "m": [0, 0]},
        {"rows": [0], "m": [1, 1]},
    ]
    assert found.wrote("rows", 1, 0) == [outer[1], found.turns[-1]]
    assert outer[0].values["k"] == 0 and outer[0].values["row"].tolist()[1:] == [0, 0]


def test_no_more_turns_are_kept_than_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "MOST_TURNS", 5)
    found = seen("Collatz", 0)
    steps = int(found.result)
    assert len(found.turns) == 5 and found.turned == steps > 9
    assert [turn.values["steps"] for turn in found.turns] == [1, 2, 3, 4, 5]
    assert f"… {steps - 5:,} more" in str(found)


class Shared(MultiVertex):
    x: InOut[Vector[INT]]

    def compute(self, worker_id):
        for i in range(worker_id, len(self.x), self.num_workers):
            while self.x[i] > 3:
                self.x[i] -= 2


class Alone(SupervisorVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x *= 3


def test_vertices_of_the_whole_tile_count_its_cycles() -> None:
    found = observe(Shared, x=[1, 2, 9, 4, 5, 6, 7])
    assert (
        found.worker == 2
        and found.start == 6 * 5 + 11
        and found.result.tolist() == [1, 2, 3, 2, 3, 2, 3]
    )
    assert [turn.number for turn in found.turns] == [1, 1, 2, 3]
    # A turn of the inner loop: load, compare, decide; load, subtract, store.
    assert [turn.cycles for turn in found.turns] == [
        6 * (3 * 6 + 3),
        36,
        36,
        36,
    ] and found.cycles == 41 + 6 * 21
    assert observe(Alone, x=[1, 2, 3]).lines == [
        (("Alone.compute", 2, "self.x *= 3"), 1, 6 * (3 * 2 + 6))
    ]


class Said(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            self.x[i] += 1

    def cycles(self, target):
        return 77


class Grows(Vertex):
    x: Input[Vector[INT]]
    y: Output[INT]

    def compute(self):
        found = []
        for x in self.x:
            if x > 1:
                found.append(x)
        self.y = len(found)


def test_what_nobody_counts_has_no_lines() -> None:
    said = observe(Said, x=[1, 2])
    assert (said.cycles, said.lines, [turn.values for turn in said.turns]) == (
        77,
        [],
        [{"i": 0}, {"i": 1}],
    )
    grows = observe(Grows, x=[1, 2, 3])
    assert (grows.cycles, grows.lines, grows.turns, grows.result) == (-1, [], [], 2) and str(
        grows
    ) == "Grows: no estimate"


class Kinds(Vertex):
    x: Input[Vector[FLOAT]]
    h: Output[Vector[HALF]]
    y: Output[Vector[FLOAT]]

    def compute(self):
        self.y = self.x * 2
        for i in range(len(self.h)):
            self.h[i] = self.x[i]


@pytest.mark.parametrize("prices", PRICES)
def test_what_the_cycles_of_a_line_go_to(prices: str) -> None:
    """By the prices of docs/model.md: eight numbers are four data paths; a store of half a word
    reads the rest first."""
    lines = observe(Kinds, make_target(codelet_prices=prices), x=np.arange(8), h=3, y=8).lines
    parts = {line.text: part for line, part in lines.parts.items()}
    assert parts["self.h[i] = self.x[i]"] == {"scalar": 3 * 2, "rest of words": 3 * 2}
    whole = {"vector": 4, "loads": 4, "stores": 4, "loop starts": 6}
    assert parts["self.y = self.x * 2"] == (whole if prices == COMPILED else {"vector": 4})
    assert all(sum(lines.parts[line].values()) == cycles for line, _, cycles in lines)
