"""np.linalg's functions of small matrices: numpy's bits on every way, and the cycles of the loops
that docs/codelets.md shows, as a counter has them that shares nothing with the walk."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from codelets import executed
from graphs import same_bits
from pricing import Pricer, Region
from test_codelets_page import PAGE
from test_pricing import counted
from test_scalar import Built
from test_scalar_compiled import at_once  # noqa: F401

from ipu_teach import FLOAT, INT, Input, Output, Vector, Vertex
from ipu_teach.cost.traced import VERTEX_OVERHEAD
from ipu_teach.engine.scalar import compiled, run
from ipu_teach.errors import CodeletError
from ipu_teach.target import PRICES, make_target
from ipu_teach.types import Array

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


def branched(codelet: type[Vertex]) -> type[Vertex]:
    """The same behind a branch."""

    def compute(self: Any) -> None:
        if self.a[0, 0] == self.a[0, 0]:
            self.work()

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
        assert counted(codelet, given, prices) == [wanted] * 5
        decision = 2 + 1 + 1
        assert counted(branched(codelet), given, prices) == [wanted + decision] * 5


class All(Dense):
    xs: Output[Vector[Vector[FLOAT]]]
    x: Output[Vector[FLOAT]]
    low: Output[Vector[Vector[FLOAT]]]
    size: Output[FLOAT]

    def compute(self):
        self.y = np.linalg.inv(self.a)
        self.xs = np.linalg.solve(self.a.T, 2 * self.b)
        self.x = np.linalg.solve(self.a[::-1], self.b[:, 1])
        self.low = np.linalg.cholesky(self.a + self.a)
        self.size = np.linalg.det(self.a)


@pytest.mark.skipif(not compiled.numba_is_here(), reason="numba is not installed")
def test_numpys_bits_on_every_way(at_once: list[int]) -> None:  # noqa: F811
    one = branched(All)
    for n, lie in ((1, "rows"), (3, "turned"), (4, "rows"), (16, "rows")):
        given = values(All, n)
        a, b = given["a"], given["b"]
        wanted = {
            "y": np.linalg.inv(a),
            "xs": np.linalg.solve(a.swapaxes(1, 2), 2 * b),
            "x": np.linalg.solve(a[:, ::-1], b[..., 1:2])[..., 0],
            "low": np.linalg.cholesky(a + a),
            "size": np.linalg.det(a),
        }
        given |= {name: 0 * array for name, array in wanted.items()}
        cycles = []
        for made, way in ((All, "batch"), (one, "loop"), (one, "scalar"), (one, "python")):
            with run.chosen(way if way == "python" else "compiled"):
                engine, found = Built(made, given, lie).ran(vertex_loop=way == "loop")
            assert all(same_bits(found[name], array) for name, array in wanted.items()), way
            assert engine.report.ways() == {made.__name__: way.replace("python", "scalar")}
            cycles.append(engine.report.total_cycles - (6 * 4 if made is one else 0))
            assert at_once == [] or way == "python"  # numba did all of it
            at_once.clear()
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


@pytest.mark.parametrize("way", ["python", "compiled"])
def test_of_whole_numbers(way: str) -> None:
    a = np.array([[[2, 1], [1, 3]], [[1, -4], [2, 2]]], np.int32)
    given = {"a": a, "b": a[:, 0], "y": np.zeros((2, 2)), "worst": np.zeros(2)}
    wanted = np.linalg.solve(a * 2, a[:, 0, :, None])[..., 0]
    with run.chosen(way):
        for one in (Whole, branched(Whole)):
            found = Built(one, given).ran()[1]
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
        Built(one, given).ran(vertex_loop=how == "loop")
    assert f"vertex 3 ({one.__name__}, tile 3)" in str(raised.value)
    assert "numpy" in str(raised.value) and "line" in str(raised.value)
