"""Values are exact: what a program computes is what the plain vertex loop computes, bit for bit.

The first half pins what the words of a codelet mean, each against numpy or plain Python. The second
half runs random codelets and random graphs on the fast paths and on the vertex loop.
"""

from __future__ import annotations

import copy
import re
from random import Random
from typing import Any

import numpy as np
import pytest
from codelets import (
    Counter,
    DotProduct,
    HalfScale,
    IntegerMix,
    Softmax,
    Sum,
    SumOfParts,
)
from graphs import (
    Placed,
    Space,
    View,
    add,
    contents,
    differences,
    random_copy,
    random_superstep,
    same_bits,
)
from hypothesis import given, settings, strategies as st
from random_codelets import check_random_codelet, check_random_elementwise
from vertex_loop import (
    DEVICE,
    RANDOM,
    RANDOMLY,
    float_bits,
    line_of,
    normal,
    run_codelet,
    small_limits,
)

import ipu_teach
from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Report,
    Vector,
    Vertex,
)
from ipu_teach.errors import CodeletError, MissingPerfEstimateError
from ipu_teach.program import Copy, Execute, Repeat, Sequence


@pytest.fixture(params=[False, True], ids=["batched", "loop"])
def loop(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# --- state, order of steps, branches --------------------------------------------------------------


def test_state_lives_from_run_to_run(loop: bool) -> None:
    assert run_codelet(Counter, loop, times=3, runs=2, out=[0, 0]).out.tolist() == [6, 6]


class Scaled(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]
    factor: FLOAT = 2

    def compute(self):
        self.out = self.x * self.factor
        self.factor += 1


def test_each_vertex_has_its_own_state(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    x, out = graph.add_constant(FLOAT, (3,), [1, 10, 100]), graph.add_variable(FLOAT, (3,))
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    for i, factor in enumerate([None, 5, 7]):
        vertex = graph.add_vertex(
            compute_set,
            Scaled,
            x=x[i],
            out=out[i],
            **({} if factor is None else {"factor": factor}),
        )
        graph.set_tile_mapping(vertex, i)
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    assert engine.read_tensor("out").tolist() == [2, 50, 700]
    engine.run()
    assert engine.read_tensor("out").tolist() == [3, 60, 800]
    engine.load_and_run(DEVICE)  # loading starts again
    assert engine.read_tensor("out").tolist() == [2, 50, 700]


def test_a_step_sees_what_the_step_before_wrote(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    a, b, c = (graph.add_variable(FLOAT, (2, 3), name) for name in "abc")
    graph.set_initial_value(a, [[1, 2, 3], [4, 5, 6]])
    for tile, tensor in enumerate((a, b, c)):
        graph.set_tile_mapping(tensor, tile)
    graph.create_host_read("b", b)
    double, mix = graph.add_compute_set("double"), graph.add_compute_set("mix")
    graph.add_vertices(double, Doubled, [0, 1], x=a, out=b)
    graph.add_vertices(mix, Doubled, [0, 1, 2], x=c.T, out=b.T)
    # c: b's elements in the order of b transposed, row by row
    program = Sequence(Execute(double), Copy(b.T, c), Repeat(2, Execute(mix)))
    engine = Engine(graph, program, vertex_loop=loop)
    engine.load_and_run(DEVICE)
    assert engine.read_tensor("b").tolist() == [[4, 16, 8], [20, 12, 24]]


class Doubled(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = self.x * 2


class PlainFloat(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        self.x = abs(float(f"{self.x}"))


def test_what_depends_on_data_runs_vertex_by_vertex_and_says_why() -> None:
    x = normal(20)
    with pytest.raises(MissingPerfEstimateError) as caught:
        run_codelet(PlainFloat, False, x=x)
    line = f"test_exact.py, line {line_of(PlainFloat, 'float(')} (PlainFloat.compute)"
    assert line in caught.value.where
    batched, looped = (run_codelet(PlainFloat, way, strict=False, x=x) for way in (False, True))
    np.testing.assert_array_equal(batched.x, np.abs(x))
    np.testing.assert_array_equal(looped.x, np.abs(x))
    reasons = batched.report.unbatched()
    assert list(reasons) == ["PlainFloat"] and batched.report.ways() == {"PlainFloat": "loop"}
    assert line in reasons["PlainFloat"] and "depends on data" in reasons["PlainFloat"]


def test_the_referee_says_that_it_went_vertex_by_vertex() -> None:
    batched, looped = (
        run_codelet(Doubled, way, x=normal(20, 3), out=np.zeros((20, 3))).report
        for way in (False, True)
    )
    assert batched.ways() == {"Doubled": "batch"} and batched.unbatched() == {}
    assert looped.ways() == {"Doubled": "loop"}
    assert looped.unbatched() == {"Doubled": "Engine(vertex_loop=True) asks for it"}


def test_codelets_that_can_be_batched_are() -> None:
    assert (
        run_codelet(Softmax, False, x=normal(3, 2, 4), out=np.zeros((3, 2, 4))).report.unbatched()
        == {}
    )


def test_softmax_against_double_precision(loop: bool) -> None:
    x = normal(6, 3, 10)
    e = np.exp(x.astype(np.float64) - x.max(axis=2, keepdims=True))
    np.testing.assert_allclose(
        run_codelet(Softmax, loop, x=x, out=np.zeros_like(x)).out,
        e / e.sum(axis=2, keepdims=True),
        rtol=1e-6,
        atol=1e-9,
    )


def test_a_list_of_regions(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    x, out = graph.add_constant(FLOAT, (10,), np.arange(10)), graph.add_variable(FLOAT, (3,))
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    given_parts = [[x[0:3], x[7:8]], [x[::-1][0:3], x[5:5], x[::2]], [x[1:4], x[6:7]]]
    for i, parts in enumerate(given_parts):
        graph.set_tile_mapping(
            graph.add_vertex(compute_set, SumOfParts, parts=parts, out=out[i]), i
        )
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    assert engine.read_tensor("out").tolist() == [
        0 + 1 + 2 + 7,
        9 + 8 + 7 + 0 + 2 + 4 + 6 + 8,
        1 + 2 + 3 + 6,
    ]


# --- expressions whose bits depend on how numpy goes through memory -------------------------------

EXPRESSIONS = """
np.exp2(x); np.exp2(x[::-1]); np.expm1(x[::2]); np.log1p(np.abs(x)); np.tanh(x); np.cbrt(x[0]) + x; np.arctan2(x, x[::-1])
x ** 2; x ** 3; np.abs(x) ** x[0]; np.abs(x) ** np.where(x[0] > 0, x[0], x[0]) + x; np.power(np.abs(x), x[0]); 2.0 ** x
np.where(x[0] > x[1], x[0], x[1]) ** 3 + x; np.abs(x[0]) ** 1.7 + x; m @ x; m[:, ::2] @ x[::2]; m[::-1] @ x; m[:, ::-1] @ x
m.T @ u; u @ m; u @ m[:, ::2]; u[::-1] @ m; m.T[::2] @ u; x @ x[::-1] + u; np.dot(m, x); np.dot(m[:, ::2], x[::2])
np.dot(m.T, u); np.dot(m[:1], x); np.dot(x, x[::-1]) + u; np.dot(m, m.T); m @ m.T; m.T @ m; m[:, 1:] @ m[:, 1:].T
np.sum(m); np.sum(m.T); m.sum(axis=0); m.sum(axis=1); m.T.sum(axis=0); np.sum(m[:, ::2]); np.sum(x[::-1]); x[::2].sum()
np.copy(m.T).sum(); np.concatenate([m.T, m.T]).sum(); np.stack([m.T, m.T]).sum(axis=0); np.hstack([x, u]).sum()
np.array([x[0], 0.1, x[1]]).sum(); np.asarray(m.T).sum(); (m.T * x[:, None]).sum(); (m * m).sum(); np.mean(m.T)
np.roll(x, 2); np.cumsum(x[::-1]); np.var(m, axis=0); np.linalg.norm(x); np.ravel(m.T).sum(); m.reshape(-1)[::-1].sum()
np.max(m.T); np.prod(m.T, axis=0); np.sum(m, dtype=np.float64) + x; m.astype(np.float64).sum(); x.astype(np.float16).sum()
x[:1] @ x[:1]; np.sin(x[:1]); np.log10(np.abs(x[:1])); np.arcsin(x / 100); np.exp(-x * x); np.tan(x[0]) + x
x[[0, 2, 5]]; m[[1, 0]][:, [2, 2]]; x[[True, False, True] * 3]; np.add.accumulate(x); np.multiply.outer(u, x)
np.add.accumulate(m[:, ::-1], axis=0)[-1]; np.argmax(m, axis=0); np.multiply.accumulate(m.T, axis=1)
np.add.reduce(m); x[::-1] ** 3; np.where(np.rint(x), x, 2); np.where(np.arange(9) > 4, x, 0); np.clip(x, None, 0.5)
np.argmax(x); np.expand_dims(x, 0) * 2; np.ravel(x[2]); m.transpose().ravel(); m.T.flatten(); m.reshape(6, 6)[5]
np.add(x, [1] * 9); np.add(x, x, dtype=np.float32); x[..., 0]; x.min(); m.any(axis=0); m.prod(); x.argmin() * x
np.squeeze(m[:1] @ m.T); np.inner(m, x); np.einsum("ij,j", m, x); np.sort(m, axis=0); np.median(x); np.transpose(m) @ u
np.pad(x, 1); np.pad(m, ((0, 0), (1, 2)), mode="edge"); np.percentile(x, 30); np.quantile(m, [0.1, 0.5], axis=0)
x.std(); x.var(ddof=1); m.max(0); m.sum(0, keepdims=True); x.clip(-1, 1); m.cumsum(axis=1); x.round(1); m.squeeze()[1]
m.T.copy().sum(); m.T.copy("F").sum(); m.T.copy(order="K").sum(); m.flatten("F"); m.ravel("F").sum(); m.mean(axis=1)
m.T.swapaxes(0, 1)[1]; x.argsort(); m.trace(); x.dot(x) + x; copy.copy(m.T).sum(); copy.deepcopy(x)[::2]
np.copy(m.T, order="C").sum(); np.dot(2.0, x); np.sum(x, axis=-1); np.broadcast_to(x, (2, 9)) * 2
np.concatenate([u, x])[::3]; np.swapaxes(m, 0, 1)[0]; np.sort(x); np.cumsum(x); np.mean(x) + x; np.argmin(x); np.sort(-x)[::2]
x.std(ddof=1) * x; np.argsort(m[1]); np.std(x[::2]); np.mean(m[0]) + np.var(m[:, 0])
"""


@pytest.mark.parametrize("dtype", [FLOAT, HALF], ids=["float", "half"])
@pytest.mark.parametrize(
    "text", [t.strip() for line in EXPRESSIONS.strip().splitlines() for t in line.split(";")]
)
def test_an_expression_gives_what_numpy_gives_one_vertex(text: str, dtype: Any) -> None:
    """Regions in place (twelve vertices beside each other, inputs and outputs in one variable),
    backwards, and in disorder."""
    count, n, k = 12, 9, 4
    t, body = dtype.__name__, re.sub(r"\b([xmu])\b(?!\()", r"self.\1", text)
    source = (
        f"class Expression(Vertex):\n x: Input[Vector[{t}]]\n m: Input[Vector[Vector[{t}]]]\n u: "
        f"Input[Vector[{t}]]\n y: Output[Vector[{t}]]\n def compute(self):\n  self.y = "
        f"np.ravel({body})\n"
    )
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {
        "np": np,
        "copy": copy,
    }
    exec(source, scope)
    values = (RANDOM.standard_normal((count, 200)) * 2).astype(dtype.numpy)
    expected = []
    with np.errstate(all="ignore"):
        for row in values:
            local = {
                "x": row[:n].copy(),
                "m": row[n : n + k * n].reshape(k, n).copy(),
                "u": row[n + k * n :][:k].copy(),
            }
            expected.append(
                np.ravel(eval(text, {"np": np, "copy": copy}, local)).astype(dtype.numpy)
            )
    size = len(expected[0])
    for order in (range(count), range(count)[::-1], RANDOM.permutation(count).tolist()):
        graph = Graph(DEVICE.target)
        memory = graph.add_variable(dtype, values.shape)
        graph.set_initial_value(memory, values)
        graph.set_tile_mapping(memory, 0)
        graph.create_host_read("y", memory[:, 100 : 100 + size])
        compute_set = graph.add_compute_set()
        for i in order:
            row, rest = memory[i], n + k * n
            vertex = graph.add_vertex(
                compute_set,
                scope["Expression"],
                x=row[:n],
                m=row[n:rest].reshape((k, n)),
                u=row[rest : rest + k],
                y=row[100 : 100 + size],
            )
            graph.set_tile_mapping(vertex, 0)
        engine = Engine(graph, Execute(compute_set))
        engine.load_and_run(DEVICE)
        assert engine.report.unbatched() == {}
        assert same_bits(engine.read_tensor("y"), np.stack(expected))


class Reuse(Vertex):
    """Elements of arrays that are needed no more, beside arrays that may take their place."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        first = (self.x * self.x)[1]
        second = self.x + self.x
        third = (second * second)[0]
        fourth = np.sqrt(second * 3)
        self.out = fourth * first + third


def test_an_element_outlives_its_array(loop: bool) -> None:
    x = np.abs(normal(50, 6))
    second = x + x
    expected = np.sqrt(second * np.float32(3)) * (x * x)[:, 1:2] + (second * second)[:, :1]
    np.testing.assert_array_equal(run_codelet(Reuse, loop, x=x, out=np.zeros_like(x)).out, expected)


class Twins(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        self.out = self.a @ self.b.T


def test_one_region_on_two_fields(loop: bool) -> None:
    """BLAS has a way of its own for a matrix times its own transpose; two fields are two
    matrices."""
    values = normal(5, 17, 33)
    graph = Graph(DEVICE.target)
    x, out = graph.add_constant(FLOAT, values.shape, values), graph.add_variable(FLOAT, (5, 17, 17))
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    graph.add_vertices(compute_set, Twins, 0, a=x, b=x, out=out)
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    np.testing.assert_array_equal(
        engine.read_tensor("out"), [m.copy() @ m.copy().T for m in values]
    )


class OneByOne(Vertex):
    m: Input[Vector[Vector[FLOAT]]]
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = np.dot(self.m, self.x)


def test_a_product_of_single_elements_keeps_numpys_sign_of_zero(loop: bool) -> None:
    m, x = (
        np.array([[[-0.0]], [[1.0]], [[0.0]]], np.float32),
        np.array([[1.0], [-0.0], [-1.0]], np.float32),
    )
    expected = [np.dot(m[i].copy(), x[i].copy()) for i in range(3)]
    assert float_bits(run_codelet(OneByOne, loop, m=m, x=x, out=np.ones((3, 1))).out) == float_bits(
        expected
    )


class ToThePower(Vertex):
    x: Input[Vector[FLOAT]]
    k: Input[FLOAT]
    out: Output[Vector[FLOAT]]
    same: Output[Vector[FLOAT]]

    def compute(self):
        self.out = self.x**self.k
        self.same = np.power(self.x, self.k)


def test_a_power_whose_exponent_is_data(loop: bool) -> None:
    """numpy squares, inverts and takes roots where it is given a 2, a -1 or a half."""
    k = np.array([2, 0.5, -1, 3, 0, 1, 2.5], np.float32)
    x = np.abs(normal(7, 400))
    with np.errstate(all="ignore"):
        expected = [row**exponent for row, exponent in zip(x, k, strict=True)]
    got = run_codelet(ToThePower, loop, x=x, k=k, out=x, same=x)
    assert same_bits(got.out, np.array(expected))
    assert same_bits(
        got.same, np.array([np.power(row, exponent) for row, exponent in zip(x, k, strict=True)])
    )


class OneStore(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x[1:3] += 1


class AlsoOneStore(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        part = self.x[1:3]
        part += 1


def test_adding_in_place_is_one_store_however_it_is_written() -> None:
    one, other = (
        run_codelet(codelet, False, x=np.zeros((1, 4))) for codelet in (OneStore, AlsoOneStore)
    )
    assert one.x.tolist() == other.x.tolist() == [[0, 1, 1, 0]]
    assert one.report.total_cycles == other.report.total_cycles


class WideSum(Vertex):
    x: Input[Vector[HALF]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.sum(self.x, dtype=np.float32)


def test_a_sum_that_converts_on_the_way(loop: bool) -> None:
    x = RANDOM.standard_normal((5, 20000)).astype(np.float16)
    expected = [np.sum(row.copy(), dtype=np.float32) for row in x]
    np.testing.assert_array_equal(run_codelet(WideSum, loop, x=x, out=np.zeros(5)).out, expected)


class Root(Vertex):
    x: Input[Vector[HALF]]
    out: Output[Vector[HALF]]

    def compute(self):
        self.out[:] = np.cbrt(self.x)


def test_a_row_of_one_half_is_a_row(loop: bool) -> None:
    """numpy has another path for a single element by the stride to the next, which there is
    none."""
    x = np.arange(0x3800, 0x4800, dtype=np.uint16).view(np.float16)[:, None]
    expected = [np.cbrt(row.copy()) for row in x]
    np.testing.assert_array_equal(run_codelet(Root, loop, x=x, out=np.zeros_like(x)).out, expected)


class Window(Vertex):
    x: Input[Vector[FLOAT]]
    m: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out[0] = np.sum(self.x)
        self.out[1] = self.x @ self.x
        self.out[2] = np.sum(self.m.T)
        self.out[3] = np.mean(self.x)
        self.out[4] = (self.m @ self.m.T)[0, 1]
        self.out[5] = (self.m.T @ self.m)[1, 2]
        self.out[6:10] = self.m.sum(axis=1)
        self.out[10:35] = self.m.sum(axis=0)
        self.out[35:] = self.m[:, ::2].sum(axis=1)


@pytest.mark.parametrize("step", [0, 1, 2, 25, 99, 100, 101])
def test_sums_over_windows_that_overlap(step: int) -> None:
    """Neighbouring vertices read the same elements at the smallest distance there is: numpy must
    not sum across vertices."""
    count = 40
    values = normal(100 + 101 * count)
    graph = Graph(DEVICE.target)
    x, out = graph.add_variable(FLOAT, values.shape), graph.add_variable(FLOAT, (count, 39))
    graph.set_initial_value(x, values)
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    expected = []
    for i in range(count):
        window = x[i * step : i * step + 100]
        graph.set_tile_mapping(
            graph.add_vertex(compute_set, Window, x=window, m=window.reshape((4, 25)), out=out[i]),
            0,
        )
        own, other = (
            values[i * step : i * step + 100].copy(),
            values[i * step : i * step + 100].copy().reshape(4, 25),
        )
        single = [
            np.sum(own),
            own @ own,
            np.sum(other),
            np.mean(own),
            (other @ other.T)[0, 1],
            (other.T @ other)[1, 2],
        ]
        expected.append(
            [*single, *other.sum(axis=1), *other.sum(axis=0), *other[:, ::2].sum(axis=1)]
        )
    engine = Engine(graph, Execute(compute_set))
    engine.load_and_run(DEVICE)
    np.testing.assert_array_equal(engine.read_tensor("out"), np.array(expected, np.float32))


class Interleaved(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x[1] = np.exp2(self.x[0])
        self.x[3:5] = np.log1p(self.x[2:4])


def test_a_result_beside_its_operand_in_memory(loop: bool) -> None:
    x = np.abs(normal(200, 5))
    expected = x.copy()
    for row in expected:
        row[1] = np.exp2(row[0])
        row[3:5] = np.log1p(row[2:4].copy())
    assert same_bits(run_codelet(Interleaved, loop, x=x).x, expected)


class Unusual(Vertex):
    """What a trace cannot write down, and what it must not get wrong."""

    a: Input[Vector[FLOAT]]
    i: Input[Vector[INT]]
    x: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        # one array for all vertices that share `a`, until it is changed
        product = self.a * self.a[::-1]
        product += self.x[0]
        view = self.x[1:]
        view **= 2
        element = self.x[0]
        element **= 2
        self.x[0] = element
        self.out = product + np.where(self.i, self.x, np.sum(self.i))
        self.out[0] = max([self.x[0], self.x[1]]) + max(2, 3)


@pytest.mark.parametrize("shared", [False, True])
def test_unusual_operations(loop: bool, shared: bool) -> None:
    count = 9
    a, x = normal(1 if shared else count, 5), normal(count, 5)
    i = RANDOM.integers(0, 2, (count, 5))
    expected_x = x * x
    expected_x[:, 0] = [row[0] ** 2 for row in x]  # a number's own power, whose last bit may differ
    expected = a * a[:, ::-1] + x[:, :1] + np.where(i, expected_x, i.sum(axis=1, keepdims=True))
    expected[:, 0] = expected_x[:, :2].max(axis=1) + np.float32(3)
    got = run_codelet(Unusual, loop, a=a, i=i, x=x, out=np.zeros((count, 5)))
    np.testing.assert_array_equal(got.x, expected_x)
    np.testing.assert_array_equal(got.out, expected.astype(np.float32))
    assert loop or got.report.unbatched() == {}


STOPPING = {
    "self.x[[0, 1]] = self.x[[1, 0]]": "a list of indices",
    "np.exp2(self.x[::2], out=self.x[::2])": "strided",
    "self.x[:int(self.x[0])] = 1": "depends on data",
    "self.x[self.x > 0] = [1]": "depend on data",
    "self.x[self.x > 0] = np.float64(1) * self.x[0]": "another type",
    "self.x[self.x > 0] += 1": "depends on data",
    "self.x[0] = float(self.x[1])": "depends on data",
    "self.x[0] = round(self.x[1])": "depends on data",
    "self.x[0] = sum(1 for v in self.x if v > 0)": "depends on data",
    "self.x[0] = max(self.x[0], 2, key=abs)": "depends on data",
    "self.x[0] = max(self.x[0], np.float16(2))": "different types",
    "self.x[0] = np.modf(self.x[1])[0]": "modf",
    "np.add.at(self.x, [0, 0], 1.0)": "np.add.at",
    "np.copyto(self.x, self.x[0])": "np.copyto",
    "self.x.sort()": "sort",
    "self.x[:] = np.partition(self.x, 2)": "partition",
    "self.x[0] = np.add(self.x, 1, where=self.x > 0, out=np.zeros(4, np.float32))[0]": "where",
    "self.x[0] = np.add.reduce(self.x, initial=2)": "initial",
    "self.x[0] += len(f'{self.x[0]:.1f}')": "text",
    "self.x[:] = self.x.astype(np.float64, copy=False)": "astype",
    "self.x[0] = [v for v in self.x.tolist() if v > 1][0]": "tolist",
    "self.x[0] = np.dot(self.x, self.x, out=np.zeros((), np.float32))": "dot",
    "self.x[:] = np.concatenate([self.x[:2], self.x[2:]], dtype=np.float16)": "concatenate",
    "np.stack([self.x[0], self.x[1]], out=self.x[:2])": "stack",
}


@pytest.mark.parametrize("line", STOPPING)
def test_what_is_not_traced_runs_vertex_by_vertex(line: str) -> None:
    source = (
        "class Stops(Vertex):\n x: InOut[Vector[FLOAT]]\n def compute(self):\n  self.x += 1\n  "
        f"{line}\n"
    )
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {"np": np}
    exec(source, scope)
    x = np.abs(normal(5, 4))
    got = run_codelet(scope["Stops"], False, strict=False, x=x)
    reason = got.report.unbatched()["Stops"]
    assert STOPPING[line] in reason and "line 5 (Stops.compute)" in reason
    for row, after in zip(x, got.x, strict=True):
        assert same_bits(after, scope["Stops"].call(x=row))


class MaskedPlaces(Vertex):
    x: InOut[Vector[FLOAT]]
    m: InOut[Vector[Vector[FLOAT]]]
    low: Input[FLOAT]

    def compute(self):
        self.x[self.x < 0] = 0
        self.m[self.m > self.low] = self.low
        half = self.x * 0.5
        half[half > 1] = -0.0
        self.x += half


def test_a_number_is_put_where_a_mask_is_true(loop: bool) -> None:
    x, m, low = normal(20, 9) * 3, normal(20, 3, 4), normal(20)
    got = run_codelet(MaskedPlaces, loop, x=x, m=m, low=low)
    kept = np.where(x < 0, np.float32(0), x)
    half = kept * np.float32(0.5)
    assert same_bits(got.x, kept + np.where(half > 1, np.float32(-0.0), half))
    assert same_bits(got.m, np.minimum(m, low[:, None, None]))
    assert loop or got.report.ways() == {"MaskedPlaces": "batch"}


class SomePlaces(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out[self.x > 0] = 1


def test_a_mask_on_an_output_leaves_the_rest_as_it_was(loop: bool) -> None:
    x, before = normal(9, 5), normal(9, 5)
    got = run_codelet(SomePlaces, loop, strict=False, x=x, out=before)
    assert same_bits(got.out, np.where(x > 0, np.float32(1), before))
    assert "positions that depend on data" in got.report.unbatched()["SomePlaces"]


class Hidden(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        try:
            if self.x > 0:
                self.x = -self.x
        except:  # noqa: E722
            self.x = 0


def test_a_bare_except_hides_nothing() -> None:
    got = run_codelet(Hidden, False, strict=False, x=[1, -2])
    assert "except" in got.report.unbatched()["Hidden"]
    assert got.x.tolist() == [-1, -2]


class Rounded(Vertex):
    x: Input[FLOAT]
    out: Output[INT]

    def compute(self):
        self.out = np.rint(np.log(self.x - 1))


def test_what_a_codelet_would_do_with_other_data_is_no_error(loop: bool) -> None:
    assert run_codelet(Rounded, loop, x=[2, 2.8, 21], out=[9, 9, 9]).out.tolist() == [0, 1, 3]
    with pytest.raises(CodeletError, match="OverflowError") as caught:
        run_codelet(Rounded, loop, x=[2, 2.8, 1], out=[9, 9, 9])
    assert "vertex 2 (Rounded" in caught.value.where


class Overlong(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        for _ in range(3000):
            for i in range(4):
                self.x[i] += 1


def test_a_long_loop_runs_vertex_by_vertex() -> None:
    got = run_codelet(Overlong, False, strict=False, x=np.zeros((2, 4)))
    assert "steps for one vertex" in got.report.unbatched()["Overlong"]
    assert got.x.tolist() == [[3000] * 4] * 2


class OutsideArray(Vertex):
    x: Input[FLOAT]
    out: Output[Vector[FLOAT]]

    def compute(self):
        table = np.arange(3)
        alias = table
        table += np.int64(2)
        table = table * self.x
        alias += 1
        self.out = table + alias


class SharedArray(Vertex):
    x: Input[INT]
    out: Output[Vector[INT]]

    def compute(self):
        table = np.arange(3)
        alias = table
        table += self.x
        self.out = table + alias


def test_an_array_of_fixed_numbers(loop: bool) -> None:
    got = run_codelet(OutsideArray, loop, strict=False, x=[1, 10], out=np.zeros((2, 3))).out
    assert got.tolist() == [[5, 7, 9], [23, 34, 45]]
    got = run_codelet(SharedArray, loop, strict=False, x=[1, 10], out=np.zeros((2, 3), int)).out
    assert got.tolist() == [[2, 4, 6], [20, 22, 24]]


class ListOfNumbers(Vertex):
    x: Input[FLOAT]
    out: Output[Vector[FLOAT]]
    more: Output[Vector[FLOAT]]

    def compute(self):
        numbers = [1, self.x]
        self.out = numbers
        numbers = [1, 2]
        self.out[1:] += numbers[:1]
        self.more = numbers
        numbers[0] = 7
        self.more[1:] = (self.x * 2,)


def test_a_list_is_taken_as_it_is_when_it_is_assigned(loop: bool) -> None:
    got = run_codelet(ListOfNumbers, loop, x=[3, 4], out=np.zeros((2, 2)), more=np.zeros((2, 2)))
    assert got.out.tolist() == [[1, 4], [1, 5]]
    assert got.more.tolist() == [[1, 6], [1, 8]]


# Each index selects the whole of a region with this number of elements, and less of a longer one.
WHOLE_REGIONS = [
    (slice(None, 3), 3),
    (slice(0, 7), 7),
    (slice(-3, None), 3),
    (slice(None, None, 2), 1),
    (slice(None, None, -1), 1),
    ((slice(None, 2), Ellipsis), 2),
]


@pytest.mark.parametrize(("index", "size"), WHOLE_REGIONS, ids=str)
@pytest.mark.parametrize("num_vertices", [2, 9, 40])
def test_an_index_of_a_whole_region_is_one_in_each_vertex(
    index: Any, size: int, num_vertices: int, loop: bool
) -> None:
    class TenTimes(Vertex):
        x: Input[Vector[FLOAT]]
        out: Output[Vector[FLOAT]]

        def compute(self):
            self.out[index] = self.x[index] * 10

    x = np.arange(1, num_vertices * size + 1, dtype=np.float32).reshape(num_vertices, size)
    run = run_codelet(TenTimes, loop, x=x, out=np.full(x.shape, -1))
    assert run.report.ways() == {"TenTimes": "loop" if loop else "batch"}
    assert run.out.tolist() == [[10 * value for value in row] for row in x.tolist()]


class Inverse(Vertex):
    m: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        self.out = np.linalg.inv(self.m)


def test_a_function_that_may_fail_does_so_for_its_vertex_only(loop: bool) -> None:
    m = np.stack([np.eye(2), np.eye(2) * 2, np.ones((2, 2))]).astype(np.float32)
    assert run_codelet(Inverse, loop, strict=False, m=m[:2], out=m[:2]).out.tolist() == [
        [[1, 0], [0, 1]],
        [[0.5, 0], [0, 0.5]],
    ]
    with pytest.raises(CodeletError) as caught:
        run_codelet(Inverse, loop, strict=False, m=m, out=m)
    assert "vertex 2 (Inverse" in caught.value.where


# --- what was wrong -------------------------------------------------------------------------------


class FirstOf(Vertex):
    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.y[0] = 1
        self.out = 1


def test_columns_forwards_and_backwards_are_gathered_whole(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    compute_set = graph.add_compute_set()
    x, y, out = (
        graph.add_variable(FLOAT, shape, name)
        for shape, name in (((3, 4), "x"), ((3, 4), "y"), ((4,), "out"))
    )
    for tensor in (x, y, out):
        graph.set_tile_mapping(tensor, 0)
        graph.set_initial_value(tensor, 5)
    graph.create_host_read("y", y)
    for i in range(4):
        column = y[:, i].reverse(0) if i % 2 else y[:, i]
        graph.set_tile_mapping(
            graph.add_vertex(compute_set, FirstOf, x=x[:, i], y=column, out=out[i]), 0
        )
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load(DEVICE)
    engine.run()
    assert engine.read_tensor("y").tolist() == [[1, 5, 1, 5], [5, 5, 5, 5], [5, 1, 5, 1]]


class StoresAnArray(Vertex):
    x: Input[Vector[INT]]
    y: InOut[Vector[INT]]

    def compute(self):
        t = self.x * 2
        self.y = np.arange(2)
        self.y += t


def test_an_array_of_constants_is_stored_beside_a_temporary(loop: bool) -> None:
    assert run_codelet(StoresAnArray, loop, x=[[1, 2], [3, 4]], y=[[0, 0]] * 2).y.tolist() == [
        [2, 5],
        [6, 9],
    ]


class WhereNot(Vertex):
    x: Input[Vector[UNSIGNED_CHAR]]
    y: Output[Vector[UNSIGNED_CHAR]]

    def compute(self):
        self.y = np.where(self.x > 5, -3, self.x)


def test_where_casts_a_number_that_does_not_fit_or_refuses_it_as_numpy_does(loop: bool) -> None:
    x = np.array([1, 7], np.uint8)
    try:
        np.where(x > 5, -3, x)
    except OverflowError:  # since numpy 2.5
        with pytest.raises(CodeletError, match="-3 out of bounds for uint8"):
            run_codelet(WhereNot, loop, x=[[1, 2], [6, 7]], y=[[0, 0]] * 2)
    else:
        assert run_codelet(WhereNot, loop, x=[[1, 2], [6, 7]], y=[[0, 0]] * 2).y.tolist() == [
            [1, 2],
            [253, 253],
        ]


class MostOfMinusOne(Vertex):
    x: Input[Vector[UNSIGNED_INT]]
    y: Output[Vector[INT]]

    def compute(self):
        self.y[0] = 0 if max(-1, self.x[0]) == -1 else 7
        self.y[1] = self.x[max(int(self.x[0]) - 2, 0)]


def test_max_of_a_number_that_the_other_cannot_be(loop: bool) -> None:
    assert run_codelet(MostOfMinusOne, loop, x=[[1, 2], [3, 4]], y=[[0, 0]] * 2).y.tolist() == [
        [7, 1],
        [7, 4],
    ]


class Powers(Vertex):
    x: Input[Vector[INT]]
    e: Input[Vector[INT]]
    y: Output[Vector[INT]]

    def compute(self):
        self.y = np.power(self.x, self.e)


def test_a_negative_power_of_whole_numbers_names_its_vertex(loop: bool) -> None:
    assert run_codelet(
        Powers, loop, strict=False, x=[[3, 2]], e=[[2, 5]], y=[[0, 0]]
    ).y.tolist() == [[9, 32]]
    with pytest.raises(CodeletError, match="negative integer powers") as caught:
        run_codelet(Powers, loop, strict=False, x=[[3, 2]] * 2, e=[[2, 5], [1, -1]], y=[[0, 0]] * 2)
    assert "vertex 1 (Powers, tile 1)" in caught.value.where


# --- random programs against the vertex loop ------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's own, about means of nothing
@settings(RANDOMLY, max_examples=80)
@given(st.randoms(use_true_random=False))
def test_random_codelets_equal_the_vertex_loop(rng: Random) -> None:
    check_random_codelet(rng)


@settings(RANDOMLY, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_random_elementwise_codelets_equal_the_vertex_loop(rng: Random) -> None:
    check_random_elementwise(rng)


@settings(RANDOMLY, max_examples=80)
@given(st.randoms(use_true_random=False))
def test_random_graphs_equal_the_vertex_loop(rng: Random) -> None:
    """Any views of any variables, several codelets in a compute set, lists of tensors, copies,
    repeats, several runs."""
    device = IPUModel(tiles_per_ipu=rng.randint(1, 5), num_ipus=rng.randint(1, 2)).create_device()
    space = Space(device, rng)
    for _ in range(rng.randrange(4)):
        shape = [rng.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(rng.randint(1, 3))]
        space.variable(rng.choice([FLOAT, FLOAT, HALF, INT, BOOL]), shape)
    steps: list[Any] = [
        Execute(random_superstep(rng, space).compute_set) for _ in range(rng.randint(1, 3))
    ]
    steps += [random_copy(rng, space)[0] for _ in range(rng.randrange(3))]
    rng.shuffle(steps)
    program = Sequence(*steps[1:], Repeat(2, steps[0]))
    with small_limits(rng):
        batched, looped = (
            contents(space, program, vertex_loop=way, runs=2) for way in (False, True)
        )
    assert differences(batched, looped) == []


# --- one by one or in bulk ------------------------------------------------------------------------


def whole(
    rng: Random, space: Space, dtype: Any, shape: tuple[int, ...], count: int, written: bool
) -> View:
    """The regions of `count` vertices as one view whose leading axis is theirs; of length 1 if they
    share one region."""
    way = rng.randrange(4 if written else 5)
    if way == 0:
        return space.variable(dtype, (count, *shape))
    if way == 1:
        order = list(range(len(shape) + 1))
        rng.shuffle(order)
        lengths = [(count, *shape)[axis] for axis in order]
        return space.variable(dtype, lengths).shuffled(
            [order.index(axis) for axis in range(len(order))]
        )
    if way == 2:
        return space.variable(dtype, (count + 2, *shape))[1:-1][::-1]
    if way == 3:
        flat = (
            space.variable(dtype, (*shape, count)).shuffled([len(shape), *range(len(shape))]).flat()
        )
        return flat.reshaped((count, *shape))
    return space.variable(dtype, (1, *shape))


def figures(report: Report) -> Any:
    parts = [
        (s.name, s.executions, s.vertices, s.cycles_per_tile.tolist()) for s in report.compute_sets
    ]
    moved = [array.tolist() for array in report.exchange_bytes_per_tile]
    return (
        parts,
        moved,
        report.total_cycles,
        report.cycles_by_codelet(),
        report.graph_size(),
        report.memory.by_variable(),
    )


@settings(RANDOMLY, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_bulk_is_one_by_one(rng: Random) -> None:
    count, n, k = rng.choice([1, 2, 3, 7, 12]), rng.randint(1, 6), rng.randint(1, 3)
    codelet = rng.choice([DotProduct, Sum, Softmax, IntegerMix, HalfScale, Scaled, SumOfParts])
    seed = rng.randrange(2**16)
    tiles = [rng.randrange(3) for _ in range(count)] if rng.randrange(3) else rng.randrange(3)
    seen = []
    for bulk in (True, False):
        again = Random(seed)
        space = Space(DEVICE, again)
        views: dict[str, Any] = {}
        for name, field in codelet.fields.items():
            if field.kind == "state":
                continue
            if codelet is SumOfParts and name == "parts":
                views[name] = [
                    whole(again, space, field.dtype, (n + i,), count, False) for i in range(k)
                ]
            else:
                views[name] = whole(
                    again, space, field.dtype, ((), (n,), (k, n))[field.depth], count, field.written
                )
        compute_set = space.graph.add_compute_set()
        if bulk:
            edges = {
                f: [w.tensor for w in v] if isinstance(v, list) else v.tensor
                for f, v in views.items()
            }
            space.graph.add_vertices(compute_set, codelet, tiles, **edges)
        else:
            for i in range(count):
                tile = tiles if isinstance(tiles, int) else tiles[i]
                rows = {f: v if isinstance(v, list) else [v] for f, v in views.items()}
                add(
                    space,
                    compute_set,
                    Placed(
                        codelet, tile, {f: [w[i % len(w.ids)] for w in v] for f, v in rows.items()}
                    ),
                )
        engine = Engine(space.graph, Repeat(2, Execute(compute_set)))
        engine.load_and_run(DEVICE)
        seen.append(
            ({name: engine.read_tensor(name) for name in space.variables}, figures(engine.report))
        )
    assert differences(seen[0][0], seen[1][0]) == []
    assert seen[0][1] == seen[1][1]


def test_a_million_vertices_in_bulk() -> None:
    count = 1_100_000
    device = IPUModel().create_device()
    graph = Graph(device.target)
    x, out = graph.add_variable(FLOAT, (count, 3), "x"), graph.add_variable(FLOAT, (count,), "out")
    tiles = np.arange(count) * device.target.num_tiles // count
    bounds = np.searchsorted(tiles, np.arange(device.target.num_tiles + 1))
    for t in range(device.target.num_tiles):
        graph.set_tile_mapping(x[int(bounds[t]) : int(bounds[t + 1])], t)
        graph.set_tile_mapping(out[int(bounds[t]) : int(bounds[t + 1])], t)
    graph.create_host_write("x", x)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    graph.add_vertices(compute_set, Sum, tiles, x=x, out=out)
    engine = Engine(graph, Execute(compute_set))
    engine.load(device)
    values = normal(count, 3)
    engine.write_tensor("x", values)
    engine.run()
    np.testing.assert_array_equal(
        engine.read_tensor("out"), (values[:, 0] + values[:, 1]) + values[:, 2]
    )
    assert engine.report.graph_size()["vertices"] == count
    assert engine.report.exchange_bytes_per_tile[0].sum() == 0
