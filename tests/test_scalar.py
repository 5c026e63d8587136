"""Loops over elements: on every way the bits and the cycles of the plain vertex loop, and what is
stored is known."""

from __future__ import annotations

import inspect
import linecache
from itertools import product
from typing import Any

import numpy as np
import pytest
import student_codelets as students
from graphs import same_bits
from scalar_vertices import (
    EVERY_LAYOUT,
    MODEL,
    VertexRows,
    check_returned_answers,
    codelet_and_values,
    run_ragged,
)
from student_codelets import CASES
from vertex_loop import line_of

from ipu_teach import (
    FLOAT,
    INT,
    UNSIGNED_CHAR,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.compile.scalar import scalar_code
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.errors import (
    CodeletError,
    ComputeSetRaceError,
    MissingPerfEstimateError,
    UninitialisedReadError,
)
from ipu_teach.program import Copy, Execute, Sequence


@pytest.mark.parametrize(
    ("name", "lie"),
    [
        *((name, "rows") for name in CASES if name != "Racy"),
        *product(EVERY_LAYOUT, ["turned", "backwards"]),
    ],
)
def test_students_codelets_have_the_plain_loops_bits_and_cycles(name: str, lie: str) -> None:
    for count, seed in ((1, 2), (41, 3)):
        built = VertexRows(*codelet_and_values(name, count, seed), lie)
        (fast, found), (slow, expected) = built.run(2), built.run(2, vertex_loop=True)
        for field, array in expected.items():
            assert same_bits(found[field], array), field
        assert fast.report.total_cycles == slow.report.total_cycles > 0
        assert fast.report.unknown_codelets == slow.report.unknown_codelets == ()
        way = fast.report.ways()[name].partition(": ")[0]
        assert way in ("batch", "scalar", "CPython alone") and slow.report.ways() == {name: "loop"}


def test_most_of_them_run_as_scalar_loops() -> None:
    ways = [VertexRows(*codelet_and_values(name, 1)).engine().report.ways()[name] for name in CASES]
    assert ways.count("scalar") == 44 and ways.count("batch") == 7
    assert sorted(set(ways) - {"scalar", "batch"}) == [
        f"CPython alone: line {line_of(students.Digits, 'round')}, round",
        f"CPython alone: line {line_of(students.Sorted, 'np.sort')}, np.sort",
    ]


class Sure(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        total: float = 0.0
        for value in self.x:
            assert value >= 0
            total += value if value < 4 else 4.0
        self.out = total


def test_what_is_asserted_holds_in_a_scalar_loop() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    given = {"x": x, "out": np.zeros(3)}
    (fast, found), (slow, expected) = (
        VertexRows(Sure, given).run(vertex_loop=loop) for loop in (False, True)
    )
    assert (
        found["out"].tolist() == expected["out"].tolist() == np.minimum(x, 4).sum(axis=1).tolist()
    )
    assert (
        fast.report.ways() == {"Sure": "scalar"}
        and fast.report.total_cycles == slow.report.total_cycles
    )
    x[1, 2] = -1
    for loop in (False, True):
        with pytest.raises(CodeletError, match="AssertionError"):
            VertexRows(Sure, given).run(vertex_loop=loop)


def test_lists_of_vectors_have_the_plain_loops_bits_and_cycles() -> None:
    (fast, found), (slow, expected) = run_ragged(), run_ragged(vertex_loop=True)
    assert all(same_bits(found[name], array) for name, array in expected.items())
    assert fast.report.ways() == {"Ragged": "scalar", "RaggedShares": "scalar"}
    assert fast.report.cycles_by_codelet() == slow.report.cycles_by_codelet()
    assert fast.report.unknown_codelets == slow.report.unknown_codelets == ()
    for how in ({}, {"vertex_loop": True}):
        with pytest.raises(ComputeSetRaceError) as caught:
            run_ragged(100, **how)
        assert (
            caught.value.tried == "Worker 0 of RaggedShares writes x[3, 1], and worker 3 reads it."
        )


@pytest.mark.parametrize("options", [{}, {"vertex_loop": True}, {"shuffle": 2}])
def test_what_compute_returns_is_the_vertexs_answer(options: dict[str, Any]) -> None:
    check_returned_answers(**options)


REFUSED = {
    "UsesList": ("seen = []", "a list that grows"),
    "UsesFloatIndex": ("self.x[n]", "not a whole number"),
    "UsesRecursion": ("self.fact(n - 1)", "calls itself"),
    "UsesTry": ("try:", "a try"),
    "ReadsOutput": ("self.y += v", "reading the Output y does not run"),
    "WritesInput": ("self.x[0] = 1", "an assignment to the Input x does not run"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_names_the_line(name: str) -> None:
    codelet, (text, reason) = getattr(students, name), REFUSED[name]
    refused = scalar_code(codelet)
    lines, first = inspect.getsourcelines(
        codelet.compute if name != "UsesRecursion" else codelet.fact
    )
    line = first + next(k for k, one in enumerate(lines) if text in one)
    assert (
        isinstance(refused, str)
        and f"student_codelets.py, line {line} (" in refused
        and reason in refused
    )
    assert "does not run as a scalar loop" in refused


def test_a_codelet_that_was_typed_at_a_prompt_is_told_to_stand_in_a_file() -> None:
    scope: dict[str, Any] = {"Vertex": Vertex, "InOut": InOut, "FLOAT": FLOAT}
    exec(
        "class Typed(Vertex):\n    x: InOut[FLOAT]\n    def compute(self):\n        self.x = 2 if "
        "self.x else 3\n",
        scope,
    )
    refused = scalar_code(scope["Typed"])
    assert isinstance(refused, str)
    assert (
        "Typed.compute, whose source code is not available, does not run as a scalar loop"
        in refused
    )
    assert refused.endswith("(write it in a file, or in a notebook's cell instead)")


def test_a_walk_is_remembered_until_something_that_it_saw_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = scalar_code(students.Strides)
    assert scalar_code(students.Strides) is first
    monkeypatch.setattr(students, "GAIN", 4)
    second = scalar_code(students.Strides)
    assert second is not first and scalar_code(students.Strides) is second
    monkeypatch.setattr(students, "TABLE", students.TABLE[:])
    students.TABLE[2] = 9
    assert scalar_code(students.Strides) is not second
    built = VertexRows(*codelet_and_values("Strides", 5))
    assert same_bits(built.run()[1]["y"], built.run(vertex_loop=True)[1]["y"])


def test_a_codelet_that_fails_raises_its_own_error_at_its_own_line() -> None:
    values = {"x": np.arange(15).reshape(3, 5), "at": np.array([-5, 5, 0]), "y": np.full(3, 77)}
    line = inspect.getsourcelines(students.TooFar.compute)[1] + 2
    for loop in (False, True):
        engine = VertexRows(students.TooFar, values).engine(vertex_loop=loop)
        with pytest.raises(CodeletError, match="IndexError") as caught:
            engine.run()
        assert (
            "vertex 1 (TooFar, tile 1)" in caught.value.where
            and f"line {line} (TooFar.compute)" in caught.value.where
        )
        assert isinstance(caught.value.__cause__, IndexError)
        # The vertices before it are done, the one that failed is as it was.
        assert engine.read_tensor("y").tolist() == [0, 77, 77]


# --- definedness ----------------------------------------------------------------------------------


class Evens(Vertex):
    x: Input[Vector[INT]]
    y: Output[Vector[INT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.x[i] % 2 == 0:
                self.y[i] = self.x[i]


@pytest.mark.parametrize("how", [{}, {"vertex_loop": True}, {"shuffle": 3}])
@pytest.mark.parametrize("turned", [False, True])
def test_an_element_that_no_vertex_stored_is_unwritten(how: dict[str, Any], turned: bool) -> None:
    device = MODEL.create_device()
    graph = Graph(device.target)
    x, y, z = (graph.add_variable(INT, (4, 3), name) for name in "xyz")
    for tensor in (x, y, z):
        graph.set_tile_mapping(tensor, 0)
    graph.create_host_write("x", x)
    cs = graph.add_compute_set()
    for k in range(3 if turned else 4):
        own = [t[:, k] if turned else t[k] for t in (x, y)]
        graph.set_tile_mapping(graph.add_vertex(cs, Evens, x=own[0], y=own[1]), 0)
    engine = Engine(graph, [Execute(cs), Copy(y, z), Copy(y[:2], z[:2])], **how)
    engine.load(device)
    numbers = np.arange(12).reshape(4, 3) * 2
    numbers[2, 1] += 1
    engine.write_tensor("x", numbers)
    engine.run(0)
    engine.run(2)  # what was stored may be read
    with pytest.raises(UninitialisedReadError, match=r"element \[2, 1\] of 'y'"):
        engine.run(1)
    engine.write_tensor("x", numbers * 2)
    engine.run(0)
    engine.run(1)  # by now all of it is


def test_what_a_condition_left_out_is_not_taken_for_written_by_a_vertex_either() -> None:
    values = {"x": np.array([[2, 4], [6, 7]]), "y": np.zeros((2, 2))}
    device = MODEL.create_device()
    graph = Graph(device.target)
    x, y, out = (
        graph.add_variable(INT, (2, 2), "x"),
        graph.add_variable(INT, (2, 2), "y"),
        graph.add_variable(INT, (2,), "out"),
    )
    for tensor in (x, y, out):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(x, values["x"])
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    graph.add_vertices(first, Evens, [0, 1], x=x, y=y)
    graph.add_vertices(second, LastOf, [0, 1], x=y, out=out)
    engine = Engine(graph, Sequence(Execute(first), Execute(second)))
    engine.load(device)
    with pytest.raises(UninitialisedReadError, match=r"LastOf reads element \[1, 1\] of 'y'"):
        engine.run()


class LastOf(Vertex):
    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self) -> None:
        self.out = self.x[-1]


# --- workers --------------------------------------------------------------------------------------


class Most(MultiVertex):
    """Workers meet in `most` where the numbers are large."""

    x: Input[Vector[INT]]
    most: InOut[Vector[INT]]

    def compute(self, worker: int) -> None:
        for i in range(worker, len(self.x), self.num_workers):
            if self.x[i] > 10:
                self.most[1] = self.x[i]


@pytest.mark.parametrize("how", [{}, {"vertex_loop": True}, {"shuffle": 5}])
def test_workers_that_meet_behind_a_branch_race_in_the_run_that_has_it(how: dict[str, Any]) -> None:
    for large, races in ((0, False), (1, False), (2, True)):
        x = np.zeros((3, 12), int)
        x[1, 2 : 2 + large] = 11
        engine = VertexRows(Most, {"x": x, "most": np.zeros((3, 2), int)}).engine(**how)
        if not races:
            engine.run()
            continue
        with pytest.raises(ComputeSetRaceError) as caught:
            engine.run()
        assert caught.value.tried == "Worker 2 of Most writes most[1], and worker 3 writes it."
        assert caught.value.where == "vertex 1 (Most.most, tile 1)"


def test_races_of_workers_pass_where_races_do() -> None:
    x = np.full((1, 12), 11)
    _, found = VertexRows(Most, {"x": x, "most": np.zeros((1, 2), int)}).run(
        strict={"races": False}
    )
    assert found["most"].tolist() == [[0, 11]]


class WholeShare(MultiVertex):
    """Each worker reads what it wrote itself."""

    x: InOut[Vector[FLOAT]]

    def compute(self, worker: int) -> None:
        for i in range(worker, len(self.x), self.num_workers):
            while self.x[i] > 1:
                self.x[i] = self.x[i] / 2


def test_a_worker_may_read_what_it_wrote() -> None:
    x = np.arange(26, dtype=np.float32).reshape(2, 13)
    built = VertexRows(WholeShare, {"x": x})
    (fast, found), (slow, expected) = built.run(), built.run(vertex_loop=True)
    assert same_bits(found["x"], expected["x"]) and fast.report.ways() == {"WholeShare": "scalar"}
    assert fast.report.total_cycles == slow.report.total_cycles


@pytest.mark.parametrize("turned", [False, True])
def test_after_an_interruption_nothing_is_defined_that_was_not(
    turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = MODEL.create_device()
    graph = Graph(device.target)
    x, y, z = (graph.add_variable(INT, (4, 3), name) for name in "xyz")
    compute_set = graph.add_compute_set("cs")
    for tensor in (x, y, z):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(x, 2)
    rows = (lambda t: t.dim_shuffle((1, 0))) if turned else lambda t: t
    graph.add_vertices(compute_set, Evens, 0, x=rows(x), y=rows(y))
    engine = Engine(graph, [Execute(compute_set), Copy(y, z)])
    engine.load(device)
    plain = ScalarRun._call  # replaced, so that an interruption comes right after a vertex

    def stopped_after_two(self: ScalarRun, v: int) -> Any:
        call = plain(self, v)

        def run() -> int:
            cycles = call()
            if v == 1:
                raise KeyboardInterrupt
            return cycles

        self.calls.clear()
        return run

    monkeypatch.setattr(ScalarRun, "_call", stopped_after_two)
    with pytest.raises(KeyboardInterrupt):
        engine.run(0)
    with pytest.raises(UninitialisedReadError):
        engine.run(1)
    monkeypatch.undo()
    engine.run(0)
    engine.run(1)


class Constants(Vertex):
    """Stores floats that a place for bytes does not hold."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[UNSIGNED_CHAR]]

    def compute(self) -> None:
        self.out = 300.7
        self.out[0] = 1e30
        self.out[1] = -1.5
        self.out[self.x > 3] = 301.2


class Inverted(Vertex):
    """A constant expression that raises where data do not lead."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[UNSIGNED_CHAR]]

    def compute(self) -> None:
        self.out = 7.0
        if self.x[0] > 100:
            self.out = ~2.5  # type: ignore[operator]


class Largest(Inverted):
    """The same with a call that raises."""

    def compute(self) -> None:
        self.out = 7.0
        if self.x[0] > 100:
            self.out = max()  # type: ignore[call-overload]


def in_an_engine(codelet: type[Vertex], **options: Any) -> Any:
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x, out = graph.add_variable(FLOAT, 4, "x"), graph.add_variable(UNSIGNED_CHAR, 4, "out")
    work = graph.add_compute_set("work")
    for part in (x, out, graph.add_vertex(work, codelet, x=x, out=out)):
        graph.set_tile_mapping(part, 0)
    graph.set_initial_value(x, [1, 2, 3, 4])
    graph.create_host_read("out", out)
    engine = Engine(graph, Execute(work), **options)
    engine.load_and_run(device)
    return engine.read_tensor("out").tolist()


def test_a_constant_is_stored_as_anything_else_is() -> None:
    """Cut towards 0, the lowest bits kept; what 64 bits do not hold is 0."""
    called = Constants.call(x=np.array([1, 2, 3, 4], np.float32), out=4).tolist()
    assert in_an_engine(Constants) == called == [0, 255, 300 % 256, 301 % 256]


@pytest.mark.parametrize("codelet", [Inverted, Largest])
def test_what_raises_where_nobody_comes_is_no_error_of_the_engine(codelet: type[Vertex]) -> None:
    assert in_an_engine(codelet, strict=False) == 4 * [7]
    with pytest.raises(MissingPerfEstimateError, match="which ends with (Type|Index)Error"):
        in_an_engine(codelet)


SHORT_FORMS = {  # each gives x, y = p[i, 0] * 2, p[i, 1] * 2
    "written out": "self.p[i, 0] * 2, self.p[i, 1] * 2",
    "a generator": "(self.p[i, k] * 2 for k in range(2))",
    "a comprehension": "[self.p[i, k] * 2 for k in range(2)]",
    "a tuple of a generator": "tuple(self.p[i, k] * 2 for k in (0, 1))",
    "a list of a comprehension": "list([self.p[i, k] * 2 for k in [0, 1]])",
    "from the end": "(self.p[i, k] * 2 for k in range(-2, 0))",
    "pairs": "(self.p[i, k] * n for k, n in ((0, 2), (1, 2.0)))",
    "map": "map(lambda k: self.p[i, k] * 2, range(2))",
}


@pytest.mark.parametrize("form", SHORT_FORMS)
def test_forms_of_fixed_length_cost_the_same_at_any_size(form: str) -> None:
    """A trace ends after 20,000 steps; a codelet of more is translated, with the same price."""
    text = f"""
class Near(Vertex):
    p: Input[Vector[Vector[FLOAT]]]
    out: Output[FLOAT]

    def compute(self):
        total = 0.0
        for i in range(len(self.p)):
            x, y = {SHORT_FORMS[form]}
            total += x * y
        self.out = total
"""
    names: dict[str, Any] = dict(globals())
    filename = f"<{form}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    exec(compile(text, filename, "exec"), names)
    rng = np.random.default_rng(3)
    cycles = {}
    for rows in (100, 200, 4000, 5000):
        values = rng.standard_normal((1, rows, 2)).astype(np.float32)
        engine, found = VertexRows(
            names["Near"], {"p": values, "out": np.zeros((1,), np.float32)}
        ).run()
        expected = np.float32(0)
        for x, y in values[0] * np.float32(2):
            expected += x * y
        assert same_bits(found["out"], np.array([expected]))
        assert engine.report.ways() == {"Near": "batch" if rows < 1000 else "scalar"}
        cycles[rows] = engine.report.total_cycles
    assert cycles[5000] - cycles[4000] == 10 * (cycles[200] - cycles[100]) > 0


def test_an_error_of_a_long_codelet_names_the_limit() -> None:
    class Long(Vertex):
        p: Input[Vector[FLOAT]]
        out: Output[FLOAT]

        def compute(self) -> None:
            total = 0.0
            for i in range(len(self.p)):
                pair = {k: self.p[i] for k in range(1)}  # noqa: C420
                total += pair[0]
            self.out = total

    short = {"p": np.ones((1, 10), np.float32), "out": np.zeros((1,), np.float32)}
    assert VertexRows(Long, short).run()[1]["out"] == 10
    with pytest.raises(MissingPerfEstimateError) as error:
        VertexRows(Long, {**short, "p": np.ones((1, 30_000), np.float32)}).run()
    text = str(error.value)
    assert text.startswith(
        "The cycles of Long are unknown: compute() takes more than 20,000 steps for one vertex, too "
        "many to trace; a dict does not run as a scalar loop, and its operations cannot "
        "be counted.\n"
    )
    assert (
        "next:  write np.zeros(n), with the keys as indices, instead, or give each vertex less"
        in text
    )
