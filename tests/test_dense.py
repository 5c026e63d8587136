"""np.linalg's functions of small matrices: numpy's bits on every way, and the cycles of the loops
that docs/codelets.md shows, as a counter has them that shares nothing with the walk."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from codelets import executed
from graphs import same_bits
from pricing import Pricer, Region
from scalar_vertices import VertexRows, modelled_cycles

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.cost.traced import REGISTERS, VERTEX_OVERHEAD
from ipu_teach.engine.scalar import compiled, run
from ipu_teach.errors import CodeletError, MatrixWarning
from ipu_teach.program import Execute
from ipu_teach.target import PRICES, make_target
from ipu_teach.types import Array

pytestmark = pytest.mark.usefixtures("compiled_loops_folder")

PAGE = (Path(__file__).parents[1] / "docs" / "codelets.md").read_text(encoding="utf-8")
RNG = np.random.default_rng(42)
SHOWN = "\n".join(
    re.findall(r"```python\n(def (?:solve|det|cholesky|qr)\(.*?)```", PAGE, re.DOTALL)
)
LOOPS = executed(SHOWN, "small_matrices.py", {"np": np, "__name__": "page"})
COLUMNS = 3


class Dense(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    y: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        self.y = np.linalg.inv(self.a)


class Solve(Dense):
    def compute(self):
        self.y = np.linalg.solve(self.a, self.b)


class Cholesky(Dense):
    def compute(self):
        self.y = np.linalg.cholesky(self.a)


class Determinant(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    y: Output[FLOAT]

    def compute(self):
        self.y = np.linalg.det(self.a)


class Factors(Dense):
    y: Output[Vector[Vector[FLOAT]]]
    low: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        q, r = np.linalg.qr(self.a)
        self.y = q
        self.low = r


def branched(codelet: type[Vertex]) -> type[Vertex]:
    """The same behind a branch."""

    def of_matrices(self: Any) -> None:
        if self.a[0, 0] == self.a[0, 0]:
            self.work()

    def of_angles(self: Any) -> None:
        if self.angle == self.angle:
            self.work()

    def of_vectors(self: Any) -> None:
        if self.x[0] == self.x[0]:
            self.work()

    compute = {Filter: of_angles, Shapes: of_vectors}.get(codelet, of_matrices)

    made = {"compute": compute, "work": codelet.compute}
    return type(f"{codelet.__name__}Branched", (codelet,), made)


def matrices(count: int, n: int, dtype: Any = np.float32) -> Array:
    """Symmetric, with eigenvalues above 0."""
    a = RNG.standard_normal((count, n, n))
    return (a @ a.swapaxes(1, 2) + np.eye(n)).astype(dtype)


def values(codelet: type[Vertex], n: int, count: int = 5) -> dict[str, Array]:
    a, b = matrices(count, n), RNG.standard_normal((count, n, COLUMNS)).astype(np.float32)
    if codelet is Determinant:
        return {"a": a, "y": a[:, 0, 0] * 0}
    return {"a": a, "b": b, "y": 0 * (b if codelet is Solve else a)}


def oblong(m: int, n: int, count: int = 5) -> dict[str, Array]:
    """Of as many rows as columns, or more of one of them, and room for the factors."""
    a = RNG.standard_normal((count, m, n)).astype(np.float32)
    q, r = np.linalg.qr(a)
    return {"a": a, "b": a, "y": 0 * q, "low": 0 * r}


def qr_cycles(given: dict[str, Array], prices: str) -> int:
    """What the page's loop counts, beside the vectors: what is stored second, more of which is in
    use than there are registers, goes to memory in between."""
    pricer = Pricer(Factors, make_target(codelet_prices=prices))
    for turned in (1, -1):
        m, q = given["a"][0][::turned].copy(), given["y"][0].copy()
        pricer.cycles = 0
        pricer.counted(LOOPS["qr"])(*(Region(pricer, x) for x in (m, q)))
    np.testing.assert_allclose(q @ m[: q.shape[1]], given["a"][0][::-1], atol=1e-5)
    np.testing.assert_allclose(q.T @ q, np.eye(q.shape[1]), atol=1e-6)
    loads, q, r = paths(given["a"][0]), paths(given["y"][0]), paths(given["low"][0])
    if prices == "by hand":
        return math.ceil(VERTEX_OVERHEAD + max(pricer.cycles, loads / 2, q + r))
    beyond = 2 * max(0, r - REGISTERS)
    return math.ceil(VERTEX_OVERHEAD + pricer.cycles + loads + q + r + beyond + 3 * 6)


def paths(array: Array) -> int:
    return -(-array.size // 2)


def shown_cycles(codelet: type[Vertex], given: dict[str, Array], prices: str) -> int:
    """What the page's loops count, beside vectors that are loaded and stored."""
    pricer = Pricer(codelet, make_target(codelet_prices=prices))
    name = {Dense: "solve", Solve: "solve", Cholesky: "cholesky"}.get(codelet, "det")
    for turned in (
        (1,) if name == "cholesky" else (-1, 1)
    ):  # the second time it is known what data decide
        a, b = given["a"][0][::turned].copy(), given.get("b", given["a"])[0].copy()
        b = np.eye(len(a), dtype=np.float32) if codelet is Dense else b
        pricer.cycles = len(a) if codelet is Dense else 0
        regions = [Region(pricer, x) for x in (a, b)[: 2 if name == "solve" else 1]]
        found = pricer.counted(LOOPS[name])(*regions)
    wanted = getattr(np.linalg, "inv" if codelet is Dense else name)(
        *[x[0] for x in (given["a"], given.get("b", a))][: 2 if codelet is Solve else 1]
    )
    got = {"solve": b, "cholesky": a}.get(name, getattr(found, "v", None))
    np.testing.assert_allclose(got, wanted, rtol=2e-3, atol=2e-4)  # it does what it is to do
    loads = paths(a) + (paths(b) if codelet is Solve else 0)
    number = codelet is Determinant  # which is stored by itself
    stores, starts = (0, 6 + 1) if number else (paths(given["y"][0]), 6 + 6)
    if prices == "by hand":
        return math.ceil(VERTEX_OVERHEAD + max(pricer.cycles, loads / 2, stores) + number)
    return math.ceil(VERTEX_OVERHEAD + pricer.cycles + loads + stores + starts)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("codelet", [Dense, Solve, Cholesky, Determinant])
def test_they_cost_what_the_pages_loops_do(codelet: type[Vertex], prices: str) -> None:
    for n in (2, 3, 5, 8):
        given = values(codelet, n)
        wanted = shown_cycles(codelet, given, prices)
        assert modelled_cycles(codelet, given, prices) == [wanted] * 5
        decision = 2 + 1 + 1
        assert modelled_cycles(branched(codelet), given, prices) == [wanted + decision] * 5


@pytest.mark.parametrize("prices", PRICES)
def test_the_factors_cost_what_the_pages_loop_does(prices: str) -> None:
    for m, n in ((1, 1), (2, 2), (7, 7), (6, 3), (16, 5), (3, 6), (1, 4), (5, 1)):
        given = oblong(m, n)
        wanted = qr_cycles(given, prices)
        assert modelled_cycles(Factors, given, prices) == [wanted] * 5
        assert modelled_cycles(branched(Factors), given, prices) == [wanted + 4] * 5


class All(Dense):
    xs: Output[Vector[Vector[FLOAT]]]
    low: Output[Vector[Vector[FLOAT]]]
    size: Output[FLOAT]
    turn: Output[Vector[Vector[FLOAT]]]
    up: Output[Vector[Vector[FLOAT]]]
    wide: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        half = self.a[len(self.a) // 2 :]
        self.turn, self.up = np.linalg.qr(half.T)
        self.wide = np.linalg.qr(half).R @ half.T
        self.y = np.linalg.inv(self.a)
        self.xs = np.linalg.solve(self.a[::-1].T, 2 * self.b)
        self.low = np.linalg.cholesky(self.a + self.a)
        self.size = np.linalg.det(self.a)


@pytest.mark.skipif(not compiled.numba_is_here(), reason="numba is not installed")
def test_numpys_bits_on_every_way(vertices_by_python: list[int]) -> None:
    one = branched(All)
    for n, lie in ((1, "rows"), (16, "rows")):
        given = values(All, n)
        a, b = given["a"], given["b"]
        half = a[:, n // 2 :]
        turned = np.linalg.qr(half.swapaxes(1, 2))
        wanted = {
            "turn": turned[0],
            "up": turned[1],
            "wide": np.array([np.linalg.qr(one)[1] @ one.T for one in half]),
            "y": np.linalg.inv(a),
            "xs": np.linalg.solve(a[:, ::-1].swapaxes(1, 2), 2 * b),
            "low": np.linalg.cholesky(a + a),
            "size": np.linalg.det(a),
        }
        given |= {name: 0 * array for name, array in wanted.items()}
        cycles = []
        for made, way in ((All, "batch"), (one, "loop"), (one, "scalar"), (one, "python")):
            with run.chosen(way if way == "python" else "compiled"):
                engine, found = VertexRows(made, given, lie).run(vertex_loop=way == "loop")
            assert all(same_bits(found[name], array) for name, array in wanted.items()), way
            assert engine.report.ways() == {made.__name__: way.replace("python", "scalar")}
            cycles.append(engine.report.total_cycles - (6 * 4 if made is one else 0))
            assert vertices_by_python == [] or way == "python"  # numba did all of it
            vertices_by_python.clear()
        assert len(set(cycles)) == 1


class Whole(Vertex):
    """Whole numbers become doubles."""

    a: Input[Vector[Vector[INT]]]
    b: Input[Vector[INT]]
    y: Output[Vector[FLOAT]]
    worst: Output[FLOAT]

    def compute(self):
        found = np.linalg.solve(self.a * 2, self.b)
        self.y = found
        self.worst = np.linalg.inv(self.a)[0, 1] + found[0]


def test_of_whole_numbers() -> None:
    a = np.array([[[2, 1], [1, 3]], [[1, -4], [2, 2]]], np.int32)
    given = {"a": a, "b": a[:, 0], "y": np.zeros((2, 2)), "worst": np.zeros(2)}
    wanted = np.linalg.solve(a * 2, a[:, 0, :, None])[..., 0]
    with run.chosen("python"):
        for one in (Whole, branched(Whole)):
            found = VertexRows(one, given).run()[1]
            assert same_bits(found["y"], wanted.astype(np.float32))
            worst = (np.linalg.inv(a)[:, 0, 1] + wanted[:, 0]).astype(np.float32)
            assert same_bits(found["worst"], worst)


SINGULAR = np.array([[1, 2, 3], [2, 4, 6], [1, 0, 1]], np.float32)
LOPSIDED = np.array([[1, 2, 0], [3, -4, 0], [0, 0, 1]], np.float32)
BELOW = np.array([[4, 2, 0], [2, 0.5, 0], [0, 0, 1]], np.float32)


@pytest.mark.parametrize("how", ["batch", "python", "loop"])
@pytest.mark.parametrize(
    ("codelet", "matrix", "said"),
    [
        (Dense, SINGULAR, r"LinAlgError: Singular matrix: \[2, 2\] is 0 once the columns before"),
        (Solve, SINGULAR, r"LinAlgError: Singular matrix: \[2, 2\] is 0 once the columns before"),
        (Cholesky, LOPSIDED, r"LinAlgError: .+: element \[0, 1\] is 2, and \[1, 0\] 3"),
        (Cholesky, BELOW, r"LinAlgError: .+: \[1, 1\] is -0.5 once the columns before"),
    ],
)
def test_a_matrix_that_numpy_refuses_is_named(
    codelet: type[Vertex], matrix: Array, said: str, how: str
) -> None:
    given = values(codelet, 3)
    given["a"][3] = given["a"][4] = matrix
    one = codelet if how == "batch" else branched(codelet)
    way = run.chosen(how if how in ("python", "compiled") else "")
    with way, pytest.raises(CodeletError, match=said) as raised:
        VertexRows(one, given).run(vertex_loop=how == "loop")
    assert f"vertex 3 ({one.__name__}, tile 3)" in str(raised.value)
    assert "numpy" in str(raised.value) and "line" in str(raised.value)


NAN = np.array([[4, 2, 0], [2, np.nan, 0], [0, 0, 1]], np.float32)
BESIDE = np.array([[4, 1.5, 0], [1, 4, 0], [0, 0, 1]], np.float32)  # rounding is not meant


@pytest.mark.parametrize("how", ["batch", "python", "compiled", "loop"])
@pytest.mark.parametrize(
    ("name", "matrix", "said"),
    [
        (
            "inv",
            NAN,
            "element [1, 1] is NaN.|correct the element. numpy continues, and results that depend on it are NaN.",
        ),
        (
            "qr",
            NAN,
            "element [1, 1] is NaN.|correct the element. numpy continues, and results that depend on it are NaN.",
        ),
        ("cholesky", BESIDE, "element [0, 1] is 1.5, and [1, 0] 1.|give cholesky a symmetric"),
    ],
)
def test_a_matrix_that_numpy_goes_on_with_is_named(
    name: str, matrix: Array, said: str, how: str
) -> None:
    codelet = {"inv": Dense, "qr": Factors, "cholesky": Cholesky}[name]
    given = values(Dense, 3) | {"low": np.zeros((5, 3, 3), np.float32)}
    given = {field: given[field] for field in codelet.fields}
    given["a"][1, 0, 1] *= np.float32(1.00001)  # as a product may be rounded
    given["a"][3] = given["a"][4] = matrix
    one = type("One", (codelet,), {}) if how == "batch" else branched(codelet)
    way = run.chosen(how if how in ("python", "compiled") else "")
    with way, pytest.warns(MatrixWarning) as told:
        engine, found = VertexRows(one, given).run(vertex_loop=how == "loop")
        engine.run()
    wanted = getattr(np.linalg, name)(given["a"])
    assert same_bits(found["y"], wanted[0] if name == "qr" else wanted)
    (text,) = [str(one.message) for one in told]  # once a line
    what, then = said.split("|")
    assert f"np.linalg.{name}() was given a matrix whose {what}" in text and then in text
    assert f"vertex 3 ({one.__name__}, tile 3)" in text and "test_dense.py, line" in text


class Filter(Vertex):
    """A step of Kalman's filter in two dimensions, and its covariance laid out anew."""

    state: Input[Vector[FLOAT]]
    spread: Input[Vector[FLOAT]]
    seen: Input[Vector[FLOAT]]
    angle: Input[FLOAT]
    out: Output[Vector[FLOAT]]
    after: Output[Vector[FLOAT]]
    rows: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        c, s = np.cos(self.angle), np.sin(self.angle)
        turn = np.array([[c, -s], [s, c]])
        spread = turn @ self.spread.reshape(2, 2) @ turn.T
        noise = spread + np.array([[self.seen[0] ** 2 + 1, 0], [0, 2]], np.float32)
        gain = spread @ np.linalg.inv(noise)
        self.out = turn @ self.state + gain @ (self.seen - turn @ self.state)
        self.after = (spread - gain @ spread).reshape(-1)
        self.rows = np.array([[c, s, self.seen[0]], (s, c, 1)]).T.copy()


class Shapes(Vertex):
    """What .reshape() gives is a view, which can be stored into."""

    x: InOut[Vector[FLOAT]]
    m: InOut[Vector[Vector[FLOAT]]]

    def compute(self):
        as_rows = self.x.reshape((3, -1))
        as_rows[1] = as_rows[0] + as_rows[2, 1]
        as_rows[2, 0] = np.sum(self.m.reshape(2, 6)[1])
        flat = np.zeros((2, 3), np.float32)
        np.reshape(flat, 6)[1:4] = self.m.reshape(-1)[4:7]
        self.m = self.m * as_rows[0, 0] + flat.reshape(6)[1]


@pytest.mark.parametrize("codelet", [Filter, Shapes])
def test_shapes_and_arrays_of_numbers_are_the_same_on_every_way(
    codelet: type[Vertex],
    vertices_by_python: list[int],
) -> None:
    shapes = {"angle": (), "rows": (3, 2), "spread": (4,), "after": (4,), "x": (12,), "m": (3, 4)}
    given = {
        name: RNG.standard_normal((6, *shapes.get(name, (2,)))).astype(np.float32)
        for name in codelet.fields
    }
    one, kept = branched(codelet), []
    for lie in ("rows", "turned"):
        for made, way in ((codelet, "batch"), (one, "loop"), (one, "scalar"), (one, "python")):
            quick = codelet is Filter and way == "scalar" and lie == "rows"
            with run.chosen("compiled" if quick else "python"):
                engine, found = VertexRows(made, given, lie).run(vertex_loop=way == "loop")
            assert engine.report.ways() == {made.__name__: way.replace("python", "scalar")}
            kept.append(found)
            assert (
                vertices_by_python == [] or not quick or not compiled.numba_is_here()
            )  # numba did all of it
            vertices_by_python.clear()
    for found in kept:
        assert all(same_bits(array, kept[0][name]) for name, array in found.items())
    if codelet is Filter:
        c, s = np.cos(given["angle"].astype(float)), np.sin(given["angle"].astype(float))
        turn = np.moveaxis(np.array([[c, -s], [s, c]]), 2, 0)
        spread = turn @ given["spread"].reshape(-1, 2, 2) @ turn.swapaxes(1, 2)
        noise = spread + np.array([[[v**2 + 1, 0], [0, 2]] for v in given["seen"][:, 0]])
        after = np.linalg.inv(np.linalg.inv(spread) + np.linalg.inv(noise - spread))
        np.testing.assert_allclose(kept[0]["after"], after.reshape(-1, 4), rtol=1e-2, atol=1e-2)


def test_matrices_of_halves_are_converted_first() -> None:
    class Inverse(Vertex):
        a: Input[Vector[Vector[HALF]]]
        out: Output[Vector[Vector[HALF]]]

        def compute(self) -> None:
            self.out = np.linalg.inv(self.a)

    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    a, out = (graph.add_variable(HALF, (2, 2), name) for name in ("a", "out"))
    graph.set_initial_value(a, np.eye(2))
    work = graph.add_compute_set("work")
    for mapped in (a, out, graph.add_vertex(work, Inverse, a=a, out=out)):
        graph.set_tile_mapping(mapped, 0)
    with pytest.raises(CodeletError) as error:
        Engine(graph, Execute(work))
    assert str(error.value).startswith(
        "Inverse.compute() failed: np.linalg has no functions for matrices of HALF.\n"
    )
    assert str(error.value).endswith(
        "next:  convert the matrix first, as in np.linalg.inv(self.a.astype(np.float32))."
    )
