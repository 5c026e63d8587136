"""Scalar loops as machine code: the plain loop's bits and cycles, a cache that may fail, and loops
that can be stopped.

numba needs seconds for a codelet. The suite compiles the codelets in `SAMPLE`, and
`python3 run.py test --thorough` compiles all of them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
import pytest
import student_codelets as students
from graphs import same_bits
from random_codelets import check_random_branches
from scalar_vertices import (
    EVERY_LAYOUT,
    VertexRows,
    check_returned_answers,
    codelet_and_values,
    run_ragged,
)
from student_codelets import CASES

from ipu_teach import FLOAT, HALF, INT, UNSIGNED_CHAR, InOut, Input, Output, Vector, Vertex
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.engine.scalar import compiled, run as scalar_run
from ipu_teach.engine.scalar.function_text import compiled_text
from ipu_teach.errors import CodeletError, ComputeSetRaceError
from ipu_teach.target import make_target
from ipu_teach.types import Array

pytestmark = [
    pytest.mark.skipif(not compiled.numba_is_here(), reason="numba is not installed"),
    pytest.mark.usefixtures("compiled_loops_folder"),
]


def agree(built: VertexRows, **how: Any) -> dict[str, Array]:
    (fast, found), (slow, expected) = built.run(2, **how), built.run(2, vertex_loop=True)
    for field, array in expected.items():
        assert same_bits(found[field], array), field
    assert fast.report.total_cycles == slow.report.total_cycles > 0
    assert fast.report.unknown_codelets == ()
    return found


# with Python's own rounding, and with functions of numpy's
PYTHON_ALONE = {"Digits", "Sorted"}
SCALAR = [
    name
    for name in CASES
    if name not in PYTHON_ALONE | {"Racy"}
    and VertexRows(*codelet_and_values(name, 1)).engine().report.ways()[name] == "scalar"
]


# Together these have every kind of statement, expression and field, and every function that the
# text of a compiled loop calls.
SAMPLE = {
    *("Clip", "CollatzPython", "Fitted", "Heat", "Horner", "Lfsr", "MathOnes"),
    *("Mirrored", "Mixed64", "PopCount", "Rotated", "Rounded", "Shed", "Shift"),
    *("SignChanges", "Stack", "Steps", "Tape", "WrapAround"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.thorough) for name in SCALAR],
)
def test_compiled_loops_have_the_plain_loops_bits_and_cycles(
    name: str, vertices_by_python: list[int]
) -> None:
    agree(VertexRows(*codelet_and_values(name, 37, 4)))
    assert vertices_by_python == []  # nothing had to go back


@pytest.mark.parametrize(
    ("lie", "name"),
    [
        pytest.param(lie, name, marks=pytest.mark.thorough if lie == "turned" and i else ())
        for i, name in enumerate(EVERY_LAYOUT)
        for lie in ("turned", "backwards")
    ],
)
def test_however_the_fields_lie(name: str, lie: str, vertices_by_python: list[int]) -> None:
    agree(VertexRows(*codelet_and_values(name, 19, 5), lie), shuffle=4)
    assert vertices_by_python == []


def test_lists_of_vectors_compiled(vertices_by_python: list[int]) -> None:
    (_, found), (_, expected) = run_ragged(), run_ragged(vertex_loop=True)
    assert (
        all(same_bits(found[name], array) for name, array in expected.items())
        and vertices_by_python == []
    )
    with pytest.raises(ComputeSetRaceError, match=r"x\[3, 1\]"):
        run_ragged(100)


def test_what_a_compiled_compute_returns_is_the_vertexs_answer(
    vertices_by_python: list[int],
) -> None:
    check_returned_answers()
    assert vertices_by_python == []


@pytest.mark.parametrize("name", sorted(PYTHON_ALONE))
def test_what_cannot_be_compiled_runs_in_cpython_with_its_cycles(
    name: str, vertices_by_python: list[int]
) -> None:
    code = scalar_code(getattr(students, name))
    assert isinstance(code, ScalarCode) and re.match(
        r"line \d+, (round|np\.sort)$", code.uncompiled
    )
    agree(VertexRows(*codelet_and_values(name, 5, 4)))
    assert len(vertices_by_python) == 10


def test_random_branches_compiled(vertices_by_python: list[int]) -> None:
    check_random_branches(Random(1000))


class Odd(Vertex):
    """Every third vertex needs integers beyond 61 bits, which the compiled loop leaves to
    CPython."""

    n: Input[INT]
    out: Output[INT]

    def compute(self) -> None:
        product = 1
        for _ in range(self.n):
            product = product * 1_000_003
        self.out = product % 1009


def test_a_vertex_that_cannot_go_on_goes_back_alone(vertices_by_python: list[int]) -> None:
    n = np.array([3, 2, 30, 1, 0, 40])
    found = agree(VertexRows(Odd, {"n": n, "out": np.zeros(6, int)}))
    assert found["out"].tolist() == [pow(1_000_003, k, 1009) for k in n.tolist()]
    assert vertices_by_python == [2, 5, 2, 5]


class Product(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[INT]

    def compute(self) -> None:
        self.out = int(self.x[0]) * int(self.x[1]) % 1009 if self.x[0] > 0 else 0


def test_a_float_may_be_a_whole_number_of_any_size(vertices_by_python: list[int]) -> None:
    x = np.array([[1e12, 3e12], [5, 7]], np.float32)
    found = agree(VertexRows(Product, {"x": x, "out": np.zeros(2, int)}))
    assert found["out"].tolist() == [int(x[0, 0]) * int(x[0, 1]) % 1009, 35]
    assert vertices_by_python == [0, 0]


class Unfit(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[UNSIGNED_CHAR]]
    h: InOut[Vector[HALF]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.x[i] > -1:
                self.y[i] = self.x[i]
            self.h[i] += self.x[i] / 3


def test_what_does_not_fit_is_the_plain_loops_answer(vertices_by_python: list[int]) -> None:
    x = np.array([[1, 2.5, -9], [255.9, 3, 4], [256, 0, 7]], np.float32)
    agree(
        VertexRows(
            Unfit, {"x": x, "y": np.zeros((3, 3), np.uint8), "h": np.ones((3, 3), np.float16)}
        ),
        strict=False,
    )
    assert vertices_by_python == [2, 2]


def test_floats_that_unsigned_integers_do_not_hold_are_cut(vertices_by_python: list[int]) -> None:
    x = np.array([[3, -1.5, 300], [np.nan, 1e10, 255.9], [1, 2, 3]], np.float32)
    found = agree(VertexRows(Cut, {"x": x, "y": np.zeros((3, 3), np.uint8)}))
    assert found["y"].tolist() == [[3, 255, 44], [0, 0, 255], [1, 2, 3]]
    assert vertices_by_python == [0, 1] * 2


class Cut(Vertex):
    x: Input[Vector[FLOAT]]
    y: InOut[Vector[UNSIGNED_CHAR]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.x[i] != 0:
                self.y[i] = self.x[i]


class Products(Vertex):
    """What numpy's own loops work out: products, and sums of what lies backwards."""

    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    x: Input[Vector[FLOAT]]
    ab: Output[Vector[Vector[FLOAT]]]
    ax: Output[Vector[FLOAT]]
    xb: Output[Vector[FLOAT]]
    one: Output[Vector[FLOAT]]

    def compute(self) -> None:
        if self.x[0] > -99:
            self.ab = self.a @ self.b
        self.ax = self.a @ self.x
        self.xb = self.x @ self.b
        self.one[0] = self.x @ self.x + np.dot(self.a[0], self.b[:, 0])
        self.one[1] = np.sum(self.x[::-1]) + np.max(self.x[::-2]) * np.prod(self.x)
        self.one[2] = (
            (self.a[:1] @ self.b)[0, 0] + np.min(self.b[:, -1]) + (self.x * 2) @ self.x[::-1]
        )


@pytest.mark.parametrize(
    ("m", "n", "p"), [(1, 1, 1), (1, 17, 30), (9, 228, 3), (12, 40, 1), (5, 7, 8)]
)
def test_products_are_numpys_to_the_bit(
    m: int, n: int, p: int, vertices_by_python: list[int]
) -> None:
    rng = np.random.default_rng(m * n)
    shapes = {
        "a": (m, n),
        "b": (n, p),
        "x": (n,),
        "ab": (m, p),
        "ax": (m,),
        "xb": (p,),
        "one": (3,),
    }
    values = {
        name: rng.standard_normal((4, *shape)).astype(np.float32) for name, shape in shapes.items()
    }
    for lie in ("rows", "turned"):
        agree(VertexRows(Products, values, lie))
    assert vertices_by_python == []


class Zeros(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.x[i] <= 1:
                self.y[i] = np.maximum(self.x[i], np.float32(0))
        self.y[::2] = np.minimum(self.x[::2], -self.x[::2])


def test_which_of_two_zeros_is_larger_is_the_plain_loops_answer(
    vertices_by_python: list[int],
) -> None:
    x = np.array([[1, -2, 3], [-0.0, 0, 1], [-0.5, -0.0, 1]], np.float32)
    agree(VertexRows(Zeros, {"x": x, "y": np.ones((3, 3))}))
    assert vertices_by_python == [1, 2, 1, 2]


class Sums(Vertex):
    """Indices that every turn comes to, which are checked ahead of the loop."""

    x: Input[Vector[Vector[FLOAT]]]
    y: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        rows, columns = self.y.shape
        for i in range(rows):
            for j in range(1, columns):
                self.y[i, j] = self.x[i, j - 1] + self.x[i + 1, j + 1] + self.x[2 + i, j]
                if self.x[i, j] > 0:
                    self.y[i, j] = -1


def test_indices_of_a_loop_are_checked_ahead_of_it(vertices_by_python: list[int]) -> None:
    code = scalar_code(Sums)
    assert isinstance(code, ScalarCode)
    text = compiled_text(code, make_target(), frozenset())
    inner = [line for line in text.splitlines() if line.startswith("    " * 3)]
    assert (
        not any("if" in line and "return" not in line and ">=" in line for line in inner)
        and not code.endless
    )
    x = np.random.default_rng(3).standard_normal((3, 6, 7)).astype(np.float32)
    agree(VertexRows(Sums, {"x": x, "y": np.zeros((3, 4, 6))}))
    agree(VertexRows(Sums, {"x": x[:, :1], "y": np.zeros((3, 0, 6))}))
    assert vertices_by_python == []
    for shape in ((5, 6), (4, 7)):
        with pytest.raises(CodeletError, match="IndexError"):
            VertexRows(Sums, {"x": x, "y": np.zeros((3, *shape))}).run()
    assert vertices_by_python == [0, 0]


class Guarded(Vertex):
    """Indices that some turns do not come to."""

    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.y[i] = self.x[i - 1]
            if i + 1 < len(self.x):
                self.y[i] = self.x[i + 1]
            if i + 2 == len(self.x) or self.x[i] == 0:
                break
            self.y[i] += 0 * self.x[i + 2] if self.x[i + 2] > 0 else 1


class Ended(Vertex):
    """The same behind a return."""

    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if i + 2 == len(self.x) or self.x[i] == 0:
                return
            self.y[i] = self.x[i + 2]


def test_indices_that_some_turns_do_not_come_to_are_checked_there(
    vertices_by_python: list[int],
) -> None:
    x = np.array([[1, -2, 3, 0.5], [0, 1, 2, 3]], np.float32)
    agree(VertexRows(Guarded, {"x": x, "y": np.zeros((2, 4))}))
    agree(VertexRows(Ended, {"x": x, "y": np.zeros((2, 4))}))
    assert vertices_by_python == []


def test_an_error_in_a_compiled_loop_is_the_learners_own(vertices_by_python: list[int]) -> None:
    values = {"x": np.arange(15).reshape(3, 5), "at": np.array([-5, 5, 0]), "y": np.full(3, 77)}
    engine = VertexRows(students.TooFar, values).engine()
    with pytest.raises(CodeletError, match="IndexError") as caught:
        engine.run()
    assert "vertex 1 (TooFar, tile 1)" in caught.value.where
    assert engine.read_tensor("y").tolist() == [0, 77, 77]


# --- the clock ------------------------------------------------------------------------------------


def test_a_run_changes_hands_when_that_pays(
    compiled_runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ipu_teach.engine.scalar.functions.CodeletFunctions.seconds_to_compile",
        lambda self, text: 0.1,
    )
    agree(VertexRows(*codelet_and_values("Collatz", 13, 6)))
    assert compiled_runs == []
    agree(VertexRows(*codelet_and_values("Mandelbrot", 2000, 6)))
    assert len(compiled_runs) >= 1 and 0 < compiled_runs[0] < 2000


class Long(Vertex):
    n: Input[INT]
    out: Output[INT]

    def compute(self) -> None:
        a = self.n
        for i in range(300_000):
            a = a * 3 + i
        self.out = a


def test_one_long_vertex_changes_hands_within(
    compiled_runs: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ipu_teach.engine.scalar.functions.CodeletFunctions.seconds_to_compile",
        lambda self, text: 0.01,
    )
    built = VertexRows(Long, {"n": np.array([1]), "out": np.array([0])})
    engine, found = built.run()
    assert compiled_runs == [0] and engine.report.ways() == {"Long": "scalar"}
    a = 1
    for i in range(300_000):
        a = a * 3 + i & 0xFFFFFFFF
    assert int(found["out"][0]) & 0xFFFFFFFF == a


# --- stopping -------------------------------------------------------------------------------------

ENDLESS = """
import os, signal, sys, threading, time
from ipu_teach import *
from ipu_teach.engine.scalar import run
from ipu_teach.program import Execute

class Endless(Vertex):
    x: InOut[Vector[INT]]

    def compute(self):
        self.x[0] = 7
        while True:
            self.x[2] += 1
            if self.x[2] % 2 == 5:
                return

run.CHOSEN.set(sys.argv[1])
device = IPUModel(tiles_per_ipu=4).create_device()
graph = Graph(device.target)
x = graph.add_variable(INT, (4,), "x")
graph.set_tile_mapping(x, 0)
graph.set_initial_value(x, [1, 2, 3, 4])
graph.create_host_read("x", x)
cs = graph.add_compute_set()
graph.set_tile_mapping(graph.add_vertex(cs, Endless, x=x), 0)
engine = Engine(graph, Execute(cs))
engine.load(device)
sent = []

def interrupt():
    while sys.argv[1] == "compiled" and "ipu_teach loop_0" not in [t.name for t in threading.enumerate()]:
        time.sleep(0.05)
    time.sleep(0.3)
    sent.append(time.time())
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    engine.run()
except KeyboardInterrupt:
    print(time.time() - sent[0] < 1, engine.read_tensor("x").tolist())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent otherwise there")
@pytest.mark.parametrize("way", ["compiled", "python"])
def test_an_endless_loop_stops_within_a_second_and_leaves_what_was_there(
    way: str, tmp_path: Path
) -> None:
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(script), way], capture_output=True, text=True, timeout=90
    )
    assert done.stdout.split("\n")[0] == "True [1, 2, 3, 4]", done.stderr


# --- the cache ------------------------------------------------------------------------------------

ONCE = """
import sys
sys.path[:0] = sys.argv[1:]
from ipu_teach.compile.scalar import ScalarCode, scalar_code
from ipu_teach.engine.scalar import compiled, run
from scalar_vertices import VertexRows, codelet_and_values
run.CHOSEN.set("compiled")
built = VertexRows(*codelet_and_values("Evens", 30))
engine, found = built.run()
print(int(found["y"].sum()), compiled._loaded != {})
"""


def once(cache: Path, **environment: str) -> subprocess.Popen[str]:
    variables = {**os.environ, "IPU_TEACH_CACHE": str(cache), **environment}
    command = [sys.executable, "-c", ONCE, *map(str, Path(__file__).parents[:2])]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables
    )


@pytest.mark.thorough
def test_two_processes_share_a_cache_and_a_third_reads_it(tmp_path: Path) -> None:
    texts = [process.communicate(timeout=120) for process in [once(tmp_path), once(tmp_path)]]
    made = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")}
    texts.append(once(tmp_path).communicate(timeout=120))
    assert len({out for out, _ in texts}) == 1 and texts[0][0].endswith("True\n"), texts
    assert made and {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nbc")} == made


@pytest.fixture
def loaded() -> Iterator[dict[str, Any]]:
    """The compiled loops that this process has loaded, by text: none at the start of the test."""
    with mock.patch.dict(compiled._loaded, clear=True) as loops:
        yield loops


@pytest.mark.parametrize("trouble", ["no folder can be made", "the disk is full", "broken"])
def test_without_a_cache_it_is_compiled_anyway(
    trouble: str, loaded: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scalar_run, "CHOSEN", ContextVar("chosen", default="compiled"))
    folder = tmp_path / "cache"
    monkeypatch.setenv("IPU_TEACH_CACHE", str(folder))
    if trouble == "no folder can be made":
        folder.write_text("a file", encoding="utf-8")
    elif trouble == "the disk is full":

        def full(*args: Any) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(os, "replace", full)
    else:
        agree(VertexRows(*codelet_and_values("BinarySearch", 5)))
        for path in folder.rglob("*.nb?"):
            path.write_bytes(b"broken")
        loaded.clear()
    agree(VertexRows(*codelet_and_values("BinarySearch", 5)))
    assert len(loaded) == 1


def test_addresses_are_refused_where_the_object_is_not_as_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert compiled.addresses([(np.exp, "f->f"), (np.add, "ee->e")]) is not None
    forget_addresses = compiled._address.cache_clear
    forget_addresses()
    monkeypatch.setattr(compiled, "_NTYPES", compiled._NTYPES - 4)
    assert compiled.addresses([(np.exp, "f->f")]) is None
    monkeypatch.undo()
    forget_addresses()
    assert compiled.addresses([(np.exp, "no->t")]) is None


def test_without_numba_everything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "numba_is_here", lambda: False)
    monkeypatch.setattr(scalar_run, "CHOSEN", ContextVar("chosen", default="compiled"))
    agree(VertexRows(*codelet_and_values("Mandelbrot", 50, 8)))
