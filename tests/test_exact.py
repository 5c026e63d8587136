"""Values are exact: what a program computes is what the plain vertex loop computes, bit for bit.

The first half pins what the words of a codelet mean, each against numpy or plain Python. The second half runs random
codelets and random graphs on the fast paths and on the vertex loop.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from random import Random
from typing import Any

import numpy as np
import pytest
from codelets import (
    SHAPES,
    Counter,
    DotProduct,
    Evens,
    Gather,
    HalfScale,
    IntegerMix,
    Largest,
    PairwiseSum,
    Softmax,
    Sum,
    SumOfParts,
    Swap,
    random_codelet,
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
    regions,
    same_bits,
    side_by_side,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ipu_teach
from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
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
from ipu_teach.engine import flat, plan, threads, views
from ipu_teach.errors import CodeletError, MissingPerfEstimateError
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.types import Array

DEVICE = IPUModel(tiles_per_ipu=3).create_device()
RANDOM = np.random.default_rng(7)


def normal(*shape: int) -> Array:
    return RANDOM.standard_normal(shape).astype(np.float32)


class Ran:
    """What a compute set left in memory: its tensors by field name, and the report."""

    def __init__(self, engine: Engine, names: list[str]) -> None:
        self.values = {name: engine.read_tensor(name) for name in names}
        self.report: Report = engine.report

    def __getattr__(self, name: str) -> Any:
        return self.values[name]


def run(codelet: type[Vertex], loop: bool, /, times: int = 1, runs: int = 1, strict: bool = True, **fields: Any) -> Ran:
    """Run one vertex for each row of the arrays in `fields`; those of an Output are what is there before."""
    graph = Graph(DEVICE.target)
    compute_set = graph.add_compute_set()
    tensors = {}
    for name, values in fields.items():
        values = np.asarray(values)
        tensors[name] = graph.add_variable(codelet.fields[name].dtype, values.shape, name)
        graph.set_initial_value(tensors[name], values)
        graph.set_tile_mapping(tensors[name], 0)
        graph.create_host_read(name, tensors[name])
    count = max(len(np.asarray(v)) for v in fields.values())
    graph.add_vertices(compute_set, codelet, np.arange(count) % 3, **tensors)
    engine = Engine(graph, Repeat(times, Execute(compute_set)), strict=strict, vertex_loop=loop)
    engine.load(DEVICE)
    for _ in range(runs):
        engine.run()
    return Ran(engine, list(fields))


@pytest.fixture(params=[False, True], ids=["batched", "loop"])
def loop(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# --- what reading and writing mean ------------------------------------------------------------------------------------


def test_swap_swaps(loop: bool) -> None:
    x = normal(5, 2)
    np.testing.assert_array_equal(run(Swap, loop, x=x).x, x[:, ::-1])


class ViewsAndCopies(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        view = self.x[1:3]
        view += 1
        element = self.x[0]
        element += 1
        self.x[4] = element


def test_slices_are_views_and_elements_are_copies(loop: bool) -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    np.testing.assert_array_equal(run(ViewsAndCopies, loop, x=x).x, [[0, 2, 3, 3, 1], [5, 7, 8, 8, 6]])


class Keeps(Vertex):
    """An element read before its place is written keeps its value, also through a second name."""

    x: InOut[Vector[FLOAT]]

    def compute(self):
        first = self.x[0]
        again = self.x[...][0]
        self.x[0] = 100
        self.x[1] = first + again
        self.x[:] = self.x * self.x[0]


def test_an_element_once_read_keeps_its_value(loop: bool) -> None:
    np.testing.assert_array_equal(run(Keeps, loop, x=[[3, 0], [4, 0]]).x, [[10000, 600], [10000, 800]])


class KeepsArrays(Vertex):
    x: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        doubled = self.x + self.x
        self.x[:] = doubled
        self.x += 1
        self.out = doubled


def test_a_result_stored_and_changed_there_keeps_its_value(loop: bool) -> None:
    got = run(KeepsArrays, loop, x=[[3, 0], [4, 5]], out=np.zeros((2, 2)))
    np.testing.assert_array_equal(got.x, [[7, 1], [9, 11]])
    np.testing.assert_array_equal(got.out, [[6, 0], [8, 10]])


class LooksAtShape(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        doubled = self.x + self.x
        half = doubled[::2]
        assert len(half) == 2
        self.out = doubled


def test_a_view_that_is_only_looked_at(loop: bool) -> None:
    assert run(LooksAtShape, loop, x=[[1, 2, 3]], out=np.zeros((1, 3))).out.tolist() == [[2, 4, 6]]


class Shift(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x[1:] = self.x[:-1]
        self.x[:-1] += self.x[1:]


def test_overlapping_assignments_read_before_they_write(loop: bool) -> None:
    x = normal(4, 9)
    expected = x.copy()
    expected[:, 1:] = x[:, :-1]
    expected[:, :-1] = expected[:, :-1] + expected[:, 1:]
    np.testing.assert_array_equal(run(Shift, loop, x=x).x, expected)


def test_what_is_not_written_keeps_its_old_value(loop: bool) -> None:
    x, before = normal(3, 5), normal(3, 5)
    expected = before.copy()
    expected[:, ::2] = x[:, ::2] * 10
    np.testing.assert_array_equal(run(Evens, loop, x=x, out=before).out, expected)


class OneElement(Vertex):
    a: Input[Vector[FLOAT]]
    m: Input[Vector[Vector[FLOAT]]]
    out: Output[FLOAT]
    row: Output[Vector[FLOAT]]

    def compute(self):
        self.out = self.a[:1]
        self.row = self.m @ self.m.T * 0 + self.a[:1]
        self.row[:2] = self.m[:1, :2]


def test_leading_axes_of_length_one_are_dropped_in_an_assignment(loop: bool) -> None:
    a, m = normal(4, 3), normal(4, 1, 3)
    got = run(OneElement, loop, a=a, m=m, out=np.zeros(4), row=np.zeros((4, 2)))
    np.testing.assert_array_equal(got.out, a[:, 0])
    np.testing.assert_array_equal(got.row, m[:, 0, :2])


class OwnArrays(Vertex):
    """np.zeros and the like make one array for each vertex."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        a = np.zeros(3, np.float32)
        a[0] = self.x[0]
        b = np.ones_like(a)
        b += a
        c = np.array([self.x[1], 1, 2])
        same = np.asarray(a)
        same[2] = 5
        self.out = a + b + c


def test_new_arrays_belong_to_one_vertex(loop: bool) -> None:
    x = normal(6, 2)
    zero, five = np.zeros(6, np.float32), np.full(6, 5, np.float32)
    a, b = np.stack([x[:, 0], zero, five], 1), np.stack([x[:, 0] + 1, zero + 1, zero + 1], 1)
    c = np.stack([x[:, 1], zero + 1, zero + 2], 1)
    np.testing.assert_array_equal(run(OwnArrays, loop, x=x, out=np.zeros((6, 3))).out, a + b + c)


# --- order, types, special values -------------------------------------------------------------------------------------


def sequential(values: Array) -> Any:
    total = values.dtype.type(0)
    for value in values:
        total = values.dtype.type(total + value)
    return total


def test_a_for_loop_adds_in_order(loop: bool) -> None:
    x = normal(7, 1001)
    expected = [sequential(row) for row in x]
    np.testing.assert_array_equal(run(Sum, loop, x=x, out=np.zeros(7)).out, expected)


def test_np_sum_adds_in_pairs(loop: bool) -> None:
    x = normal(7, 1001)
    got = run(PairwiseSum, loop, x=x, out=np.zeros(7)).out
    np.testing.assert_array_equal(got, [np.sum(np.ascontiguousarray(row)) for row in x])
    assert any(value != sequential(row) for value, row in zip(got, x, strict=True))


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 31, 33, 64, 100, 143])
def test_a_product_is_the_vertexs_own(loop: bool, length: int) -> None:
    a, b = normal(9, length), normal(9, length)
    expected = [a[i].copy() @ b[i].copy() for i in range(9)]
    np.testing.assert_array_equal(run(DotProduct, loop, a=a, b=b, out=np.zeros(9)).out, expected)


class WeakScalars(Vertex):
    x: Input[Vector[FLOAT]]
    stays: Output[FLOAT]
    promoted: Output[FLOAT]

    def compute(self):
        total = 0.1
        for value in self.x:
            total = total + value * 3
        self.stays = total
        self.promoted = self.x[0] * np.sqrt(2) + self.x[1]


def test_python_numbers_are_weak_and_numpys_are_not(loop: bool) -> None:
    x = normal(50, 20)
    stays = []
    for row in x:
        total = np.float32(0.1)
        for value in row:
            total = np.float32(total + np.float32(value * np.float32(3)))
        stays.append(total)
    wide = x.astype(np.float64)
    promoted = (wide[:, 0] * np.sqrt(2.0) + wide[:, 1]).astype(np.float32)
    got = run(WeakScalars, loop, x=x, stays=np.zeros(50), promoted=np.zeros(50))
    np.testing.assert_array_equal(got.stays, stays)
    np.testing.assert_array_equal(got.promoted, promoted)


class HalfSums(Vertex):
    x: Input[Vector[HALF]]
    whole: Output[HALF]
    stepwise: Output[HALF]
    product: Output[HALF]

    def compute(self):
        self.whole = np.sum(self.x)
        total = np.float16(0)
        for value in self.x:
            total += value
        self.stepwise = total
        self.product = self.x @ self.x


def test_half_rounds_once_in_a_sum_and_at_every_step_of_a_loop(loop: bool) -> None:
    """In half 2048 + 1 is 2048, so that a loop over ones stops there; sums and products go on in single precision."""
    got = run(HalfSums, loop, x=np.ones((2, 3000)), whole=[0, 0], stepwise=[0, 0], product=[0, 0])
    assert got.whole.tolist() == [3000, 3000]
    assert got.stepwise.tolist() == [2048, 2048]
    assert got.product.tolist() == [3000, 3000]


def test_half_rounds_after_every_operation(loop: bool) -> None:
    x = RANDOM.standard_normal((11, 13)).astype(np.float16)
    tripled = (x.astype(np.float64) * 3).astype(np.float16)
    expected = (tripled.astype(np.float64) + 1).astype(np.float16)
    np.testing.assert_array_equal(run(HalfScale, loop, x=x, out=np.zeros((11, 13))).out, expected)


def halves(*shape: int) -> Array:
    """Random halves of very different sizes."""
    return (RANDOM.standard_normal(shape) * 10.0 ** RANDOM.integers(-6, 3, shape)).astype(np.float16)


class HalfArithmetic(Vertex):
    a: Input[Vector[HALF]]
    b: Input[Vector[HALF]]
    out: Output[Vector[Vector[HALF]]]

    def compute(self):
        for i in range(len(self.a)):
            self.out[0, i] = self.a[i] * self.b[i]
        self.out[1] = self.a + self.b
        self.out[2] = self.a - self.b
        self.out[3] = self.a / self.b
        self.out[4] = np.sqrt(self.b)


def test_every_half_operation_rounds_once(loop: bool) -> None:
    """Sums and products of two halves are exact in float64; quotients and roots rounded twice from 53 bits are right too."""
    a, b = halves(40, 30), np.abs(halves(40, 30))
    wide, other = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = np.stack([wide * other, wide + other, wide - other, wide / other, np.sqrt(other)], 1).astype(np.float16)
    np.testing.assert_array_equal(run(HalfArithmetic, loop, a=a, b=b, out=np.zeros((40, 5, 30))).out, exact)


class HalfTotals(Vertex):
    x: Input[Vector[HALF]]
    whole: Output[HALF]
    strided: Output[HALF]
    stepwise: Output[HALF]

    def compute(self):
        self.whole = np.sum(self.x)
        self.strided = np.sum(self.x[::2])
        total = np.float16(0)
        for value in self.x:
            total += value
        self.stepwise = total


def stepwise(values: Array) -> float:
    """The sum of halves, rounded to half at every step, in exact fractions in between."""
    total = Fraction(0)
    for value in values:
        total = Fraction(float(np.float16(float(total + Fraction(float(value))))))
    return float(total)


@pytest.mark.parametrize("length", [1, 7, 8, 9, 127, 128, 129, 1000])
def test_sums_of_halves(loop: bool, length: int) -> None:
    """Multiples of 2**-9 below 4 add up in single precision without rounding, in any order, so that all is exact."""
    x = (RANDOM.integers(-2047, 2048, (6, length)) / 512).astype(np.float16)
    zero = np.zeros(6)
    got = run(HalfTotals, loop, x=x, whole=zero, strided=zero, stepwise=zero)
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(got.whole, wide.sum(1).astype(np.float16))
    np.testing.assert_array_equal(got.strided, wide[:, ::2].sum(1).astype(np.float16))
    np.testing.assert_array_equal(got.stepwise, [stepwise(row) for row in x])


class HalfAxes(Vertex):
    m: Input[Vector[Vector[HALF]]]
    rows: Output[Vector[HALF]]
    columns: Output[Vector[HALF]]

    def compute(self):
        self.rows = np.sum(self.m, axis=1)
        self.columns = np.sum(self.m, axis=0)


def test_sums_of_halves_round_once_along_rows_and_at_every_step_down_columns(loop: bool) -> None:
    m = np.ones((2, 3000, 6), np.float16)
    down = run(HalfAxes, loop, m=m, rows=np.zeros((2, 3000)), columns=np.zeros((2, 6)))
    along = run(HalfAxes, loop, m=np.swapaxes(m, 1, 2), rows=np.zeros((2, 6)), columns=np.zeros((2, 3000)))
    assert np.unique(down.columns).tolist() == [2048] and np.unique(along.rows).tolist() == [3000]


class HalfProducts(Vertex):
    a: Input[Vector[Vector[HALF]]]
    b: Input[Vector[Vector[HALF]]]
    matrix: Output[Vector[Vector[HALF]]]
    right: Output[Vector[HALF]]
    left: Output[Vector[HALF]]
    single: Output[HALF]
    turned: Output[Vector[Vector[HALF]]]
    dotted: Output[Vector[Vector[HALF]]]

    def compute(self):
        self.matrix = self.a @ self.b
        self.right = self.a @ self.b[:, 0]
        self.left = self.a[0] @ self.b
        self.single = self.a[0] @ self.b[:, 0]
        self.turned = self.b.T @ self.a.T
        self.dotted = np.dot(self.a, self.b)


def in_order(a: Array, b: Array) -> Array:
    """The product of two matrices of halves: exact products, added in order in single precision, rounded to half once."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total + np.outer(a[:, k].astype(np.float32), b[k].astype(np.float32))).astype(np.float32)
    return total.astype(np.float16)


@pytest.mark.parametrize(("m", "k", "n"), [(1, 1, 1), (3, 17, 2), (4, 64, 4), (2, 300, 5), (8, 33, 1)])
def test_products_of_halves_add_in_single_precision(loop: bool, m: int, k: int, n: int) -> None:
    a, b = RANDOM.standard_normal((5, m, k)).astype(np.float16), RANDOM.standard_normal((5, k, n)).astype(np.float16)
    expected = np.stack([in_order(x, y) for x, y in zip(a, b, strict=True)])
    empty = {"matrix": (m, n), "right": (m,), "left": (n,), "single": (), "turned": (n, m), "dotted": (m, n)}
    got = run(HalfProducts, loop, a=a, b=b, **{name: np.zeros((5, *shape)) for name, shape in empty.items()})
    np.testing.assert_array_equal(got.matrix, expected)
    np.testing.assert_array_equal(got.right, expected[:, :, 0])
    np.testing.assert_array_equal(got.left, expected[:, 0])
    np.testing.assert_array_equal(got.single, expected[:, 0, 0])
    np.testing.assert_array_equal(got.turned, np.swapaxes(expected, 1, 2))
    np.testing.assert_array_equal(got.dotted, expected)
    # One rounding to half, and one of 2**-24 at each addition of at most 1.01 times the sum of all magnitudes.
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (np.abs(got.matrix - exact) <= np.abs(exact) * 2.0**-11 + 2.0**-25 + k * 1.01 * sizes * 2.0**-24).all()


def wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def test_integers_wrap(loop: bool) -> None:
    a = RANDOM.integers(-(2**31), 2**31, (8, 5), dtype=np.int64)
    b = RANDOM.integers(-(2**31), 2**31, (8, 5), dtype=np.int64)
    expected = [[wrapped(int(y) * 65537 + int(x)) for x, y in zip(*rows, strict=True)] for rows in zip(a, b, strict=True)]
    for row, given_row in zip(expected, a, strict=True):
        row[0] = wrapped(row[0] + int(given_row[-1]))
    got = run(IntegerMix, loop, a=a, b=b).b
    assert got.dtype == np.int32
    assert got.tolist() == expected


class Total(Vertex):
    x: Input[Vector[INT]]
    out: Output[INT]

    def compute(self):
        self.out = np.sum(self.x)  # numpy adds in 64 bits


def test_a_number_that_does_not_fit_is_refused_by_vertex_and_line(loop: bool) -> None:
    x = [[1, 2], [2**31 - 1, 1], [3, 4]]
    with pytest.raises(CodeletError) as caught:
        run(Total, loop, x=x, out=[0, 0, 0])
    assert "OverflowError" in str(caught.value)
    assert f"test_exact.py, line {line_of(Total, 'np.sum')}" in caught.value.where
    assert "vertex 1 (Total" in caught.value.where and "tile 1" in caught.value.where
    assert run(Total, loop, x=[[1, 2], [2**31 - 2, 1]], out=[0, 0]).out.tolist() == [3, 2**31 - 1]


def line_of(codelet: type[Vertex], text: str) -> int:
    """The line of `compute` that holds `text`."""
    import inspect

    lines, first = inspect.getsourcelines(codelet.compute)
    return first + next(i for i, line in enumerate(lines) if text in line)


class Special(Vertex):
    x: Input[Vector[FLOAT]]
    same: Output[Vector[FLOAT]]
    twice: Output[Vector[FLOAT]]
    builtin: Output[FLOAT]
    numpys: Output[FLOAT]
    least: Output[FLOAT]

    def compute(self):
        self.same = self.x
        self.twice = self.x + self.x
        self.builtin = max(self.x[0], self.x[1])
        self.numpys = np.maximum(self.x[0], self.x[1])
        self.least = min(self.x[0], self.x[1])


def bits(values: Any) -> list[int]:
    return np.asarray(values, np.float32).view(np.uint32).tolist()


def test_special_values_survive(loop: bool) -> None:
    x = np.array([[-0.0, 0.0], [np.nan, 1], [1, np.nan], [np.inf, -np.inf], [-0.0, -0.0], [0.0, -0.0]], np.float32)
    zero = np.zeros(6)
    got = run(Special, loop, x=x, same=np.zeros((6, 2)), twice=np.zeros((6, 2)), builtin=zero, numpys=zero, least=zero)
    assert bits(got.same) == bits(x)
    twice = [[-0.0, 0], [np.nan, 2], [2, np.nan], [np.inf, -np.inf], [-0.0, -0.0], [0.0, -0.0]]
    assert same_bits(got.twice, np.array(twice, np.float32))
    # Python's max keeps the first value unless a later one is greater, and nothing is greater than a NaN.
    assert same_bits(got.builtin, np.array([max(*row) for row in x.tolist()], np.float32))
    assert same_bits(got.least, np.array([min(*row) for row in x.tolist()], np.float32))
    assert np.isnan(got.builtin).tolist() == [False, True, False, False, False, False]
    assert np.isnan(got.numpys).tolist() == [False, True, True, False, False, False]
    np.testing.assert_array_equal(got.numpys[3:], [np.inf, 0, 0])


# --- ragged, empty, out of bounds -------------------------------------------------------------------------------------


def ragged(codelet: type[Vertex], lengths: list[int], loop: bool) -> tuple[list[Array], Array]:
    """Vertices over neighbouring stretches of one variable, and what each stretch holds."""
    graph = Graph(DEVICE.target)
    values = normal(sum(lengths))
    x, out = graph.add_variable(FLOAT, (sum(lengths),), "x"), graph.add_variable(FLOAT, (len(lengths),), "out")
    graph.set_initial_value(x, values)
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 1)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set("ragged")
    parts, begin = [], 0
    for i, length in enumerate(lengths):
        vertex = graph.add_vertex(compute_set, codelet, x=x[begin : begin + length], out=out[i])
        graph.set_tile_mapping(vertex, i % 3)
        parts.append(values[begin : begin + length])
        begin += length
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    return parts, engine.read_tensor("out")


@pytest.mark.parametrize("lengths", [[0], [1], [5, 4, 5, 4, 4], [0, 3, 0, 0, 7, 1], [2] * 20 + [3] * 20, [17, 1, 17]])
def test_regions_of_any_length(lengths: list[int], loop: bool) -> None:
    parts, got = ragged(Sum, lengths, loop)
    np.testing.assert_array_equal(got, [sequential(p) for p in parts])
    parts, got = ragged(PairwiseSum, lengths, loop)
    np.testing.assert_array_equal(got, [np.sum(p.copy()) for p in parts])


def test_the_largest_of_nothing_is_an_error_that_names_the_vertex(loop: bool) -> None:
    with pytest.raises(CodeletError) as caught:
        ragged(Largest, [3, 2, 0, 1], loop)
    assert "vertex 2 (Largest, tile 2)" in caught.value.where
    assert "test_exact.py" not in caught.value.where and "codelets.py, line" in caught.value.where


class PastTheEnd(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        first = self.x[0]
        self.out = first + self.x[len(self.x)]


def test_a_fixed_index_that_is_too_large_stops_the_compiler(loop: bool) -> None:
    with pytest.raises(CodeletError) as caught:
        run(PastTheEnd, loop, x=np.zeros((2, 3)), out=np.zeros(2))
    assert "IndexError" in str(caught.value)
    assert f"test_exact.py, line {line_of(PastTheEnd, 'len(self.x)')} (PastTheEnd.compute)" in caught.value.where


def gather(indices: list[int], loop: bool) -> Array:
    graph = Graph(DEVICE.target)
    x = graph.add_constant(FLOAT, (4,), [10, 11, 12, 13], "x")
    i = graph.add_constant(INT, (len(indices),), indices, "i")
    out = graph.add_variable(FLOAT, (len(indices),), "out")
    for tensor in (x, i, out):
        graph.set_tile_mapping(tensor, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    for k in range(len(indices)):
        vertex = graph.add_vertex(compute_set, Gather, x=x, i=i[k], out=out[k])
        graph.set_tile_mapping(vertex, k % 3)
        graph.set_perf_estimate(vertex, 10)
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    return engine.read_tensor("out")


def test_an_index_that_depends_on_data(loop: bool) -> None:
    assert gather([3, 0, -1, 2], loop).tolist() == [13, 10, 13, 12]
    with pytest.raises(CodeletError) as caught:
        gather([3, 0, 1, 2, 7, 0], loop)
    assert "IndexError" in str(caught.value)
    assert "vertex 4 (Gather, tile 1)" in caught.value.where and "codelets.py, line" in caught.value.where


class BadPower(Vertex):
    x: Input[INT]
    y: Input[INT]
    out: Output[INT]

    def compute(self):
        self.out = self.x**self.y


def test_an_integer_power_may_fail_in_one_vertex_only(loop: bool) -> None:
    good = run(BadPower, loop, strict=False, x=[2, 3], y=[3, 4], out=[0, 0])
    assert good.out.tolist() == [8, 81]
    with pytest.raises(CodeletError) as caught:
        run(BadPower, loop, strict=False, x=[2, 3], y=[3, -1], out=[0, 0])
    assert "vertex 1 (BadPower" in caught.value.where


# --- state, order of steps, branches ----------------------------------------------------------------------------------


def test_state_lives_from_run_to_run(loop: bool) -> None:
    assert run(Counter, loop, times=3, runs=2, out=[0, 0]).out.tolist() == [6, 6]


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
        vertex = graph.add_vertex(compute_set, Scaled, x=x[i], out=out[i], **({} if factor is None else {"factor": factor}))
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
        self.x = abs(float(self.x))


def test_what_depends_on_data_runs_vertex_by_vertex_and_says_why() -> None:
    x = normal(20)
    with pytest.raises(MissingPerfEstimateError) as caught:
        run(PlainFloat, False, x=x)
    line = f"test_exact.py, line {line_of(PlainFloat, 'float(')} (PlainFloat.compute)"
    assert line in caught.value.where
    batched, looped = (run(PlainFloat, way, strict=False, x=x) for way in (False, True))
    np.testing.assert_array_equal(batched.x, np.abs(x))
    np.testing.assert_array_equal(looped.x, np.abs(x))
    reasons = batched.report.unbatched()
    assert list(reasons) == ["PlainFloat"] and batched.report.ways() == {"PlainFloat": "loop"}
    assert line in reasons["PlainFloat"] and "depends on data" in reasons["PlainFloat"]


def test_codelets_that_can_be_batched_are() -> None:
    assert run(Softmax, False, x=normal(3, 2, 4), out=np.zeros((3, 2, 4))).report.unbatched() == {}


def test_softmax_against_double_precision(loop: bool) -> None:
    x = normal(6, 3, 10)
    e = np.exp(x.astype(np.float64) - x.max(axis=2, keepdims=True))
    np.testing.assert_allclose(
        run(Softmax, loop, x=x, out=np.zeros_like(x)).out, e / e.sum(axis=2, keepdims=True), rtol=1e-6, atol=1e-9
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
        graph.set_tile_mapping(graph.add_vertex(compute_set, SumOfParts, parts=parts, out=out[i]), i)
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    assert engine.read_tensor("out").tolist() == [0 + 1 + 2 + 7, 9 + 8 + 7 + 0 + 2 + 4 + 6 + 8, 1 + 2 + 3 + 6]


# --- expressions whose bits depend on how numpy goes through memory ---------------------------------------------------

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
np.add.reduce(m); x[::-1] ** 3; np.where(np.rint(x), x, 2); np.where(np.arange(9) > 4, x, 0); np.clip(x, None, 0.5)
np.argmax(x); np.expand_dims(x, 0) * 2; np.ravel(x[2]); m.transpose().ravel(); m.T.flatten(); m.reshape(6, 6)[5]
np.add(x, [1] * 9); np.add(x, x, dtype=np.float32); x[..., 0]; x.min(); m.any(axis=0); m.prod(); x.argmin() * x
np.squeeze(m[:1] @ m.T); np.inner(m, x); np.einsum("ij,j", m, x); np.sort(m, axis=0); np.median(x); np.transpose(m) @ u
x.std(); x.var(ddof=1); m.max(0); m.sum(0, keepdims=True); x.clip(-1, 1); m.cumsum(axis=1); x.round(1); m.squeeze()[1]
m.T.copy().sum(); m.T.copy("F").sum(); m.T.copy(order="K").sum(); m.flatten("F"); m.ravel("F").sum(); m.mean(axis=1)
m.T.swapaxes(0, 1)[1]; x.argsort(); m.trace(); x.dot(x) + x; copy.copy(m.T).sum(); copy.deepcopy(x)[::2]
np.copy(m.T, order="C").sum(); np.dot(2.0, x); np.sum(x, axis=-1); np.broadcast_to(x, (2, 9)) * 2
np.concatenate([u, x])[::3]; np.swapaxes(m, 0, 1)[0]
"""


@pytest.mark.parametrize("dtype", [FLOAT, HALF], ids=["float", "half"])
@pytest.mark.parametrize("text", [t.strip() for line in EXPRESSIONS.strip().splitlines() for t in line.split(";")])
def test_an_expression_gives_what_numpy_gives_one_vertex(text: str, dtype: Any) -> None:
    """Regions in place (twelve vertices beside each other, inputs and outputs in one variable), backwards, and in disorder."""
    count, n, k = 12, 9, 4
    t, body = dtype.__name__, re.sub(r"\b([xmu])\b(?!\()", r"self.\1", text)
    source = (
        f"class Expression(Vertex):\n x: Input[Vector[{t}]]\n m: Input[Vector[Vector[{t}]]]\n u: Input[Vector[{t}]]\n"
        f" y: Output[Vector[{t}]]\n def compute(self):\n  self.y = np.ravel({body})\n"
    )
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {"np": np, "copy": copy}
    exec(source, scope)
    values = (RANDOM.standard_normal((count, 200)) * 2).astype(dtype.numpy)
    expected = []
    with np.errstate(all="ignore"):
        for row in values:
            local = {"x": row[:n].copy(), "m": row[n : n + k * n].reshape(k, n).copy(), "u": row[n + k * n :][:k].copy()}
            expected.append(np.ravel(eval(text, {"np": np, "copy": copy}, local)).astype(dtype.numpy))
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
                compute_set, scope["Expression"], x=row[:n], m=row[n:rest].reshape((k, n)), u=row[rest : rest + k],
                y=row[100 : 100 + size],
            )  # fmt: skip
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
    np.testing.assert_array_equal(run(Reuse, loop, x=x, out=np.zeros_like(x)).out, expected)


class Twins(Vertex):
    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        self.out = self.a @ self.b.T


def test_one_region_on_two_fields(loop: bool) -> None:
    """BLAS has a way of its own for a matrix times its own transpose; two fields are two matrices."""
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
    np.testing.assert_array_equal(engine.read_tensor("out"), [m.copy() @ m.copy().T for m in values])


class OneByOne(Vertex):
    m: Input[Vector[Vector[FLOAT]]]
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = np.dot(self.m, self.x)


def test_a_product_of_single_elements_keeps_numpys_sign_of_zero(loop: bool) -> None:
    m, x = np.array([[[-0.0]], [[1.0]], [[0.0]]], np.float32), np.array([[1.0], [-0.0], [-1.0]], np.float32)
    expected = [np.dot(m[i].copy(), x[i].copy()) for i in range(3)]
    assert bits(run(OneByOne, loop, m=m, x=x, out=np.ones((3, 1))).out) == bits(expected)


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
    got = run(ToThePower, loop, x=x, k=k, out=x, same=x)
    assert same_bits(got.out, np.array(expected))
    assert same_bits(got.same, np.array([np.power(row, exponent) for row, exponent in zip(x, k, strict=True)]))


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
    one, other = (run(codelet, False, x=np.zeros((1, 4))) for codelet in (OneStore, AlsoOneStore))
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
    np.testing.assert_array_equal(run(WideSum, loop, x=x, out=np.zeros(5)).out, expected)


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
    """Neighbouring vertices read the same elements at the smallest distance there is: numpy must not sum across vertices."""
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
        graph.set_tile_mapping(graph.add_vertex(compute_set, Window, x=window, m=window.reshape((4, 25)), out=out[i]), 0)
        own, other = values[i * step : i * step + 100].copy(), values[i * step : i * step + 100].copy().reshape(4, 25)
        single = [np.sum(own), own @ own, np.sum(other), np.mean(own), (other @ other.T)[0, 1], (other.T @ other)[1, 2]]
        expected.append([*single, *other.sum(axis=1), *other.sum(axis=0), *other[:, ::2].sum(axis=1)])
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
    assert same_bits(run(Interleaved, loop, x=x).x, expected)


class Unusual(Vertex):
    """What a trace cannot write down, and what it must not get wrong."""

    a: Input[Vector[FLOAT]]
    i: Input[Vector[INT]]
    x: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        product = self.a * self.a[::-1]  # one array for all vertices that share `a`, until it is changed
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
    got = run(Unusual, loop, a=a, i=i, x=x, out=np.zeros((count, 5)))
    np.testing.assert_array_equal(got.x, expected_x)
    np.testing.assert_array_equal(got.out, expected.astype(np.float32))
    assert got.report.unbatched() == {}


STOPPING = {
    "self.x[[0, 1]] = self.x[[1, 0]]": "a list of places",
    "np.exp2(self.x[::2], out=self.x[::2])": "strided",
    "self.x[:int(self.x[0])] = 1": "depends on data",
    "self.x[self.x > 0] = 1": "depends on data",
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
    source = f"class Stops(Vertex):\n x: InOut[Vector[FLOAT]]\n def compute(self):\n  self.x += 1\n  {line}\n"
    scope = {name: getattr(ipu_teach, name) for name in ipu_teach.__all__} | {"np": np}
    exec(source, scope)
    x = np.abs(normal(5, 4))
    got = run(scope["Stops"], False, strict=False, x=x)
    reason = got.report.unbatched()["Stops"]
    assert STOPPING[line] in reason and "line 5 (Stops.compute)" in reason
    for row, after in zip(x, got.x, strict=True):
        assert same_bits(after, scope["Stops"].call(x=row))


class Hidden(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        try:
            if self.x > 0:
                self.x = -self.x
        except:  # noqa: E722
            self.x = 0


def test_a_bare_except_hides_nothing() -> None:
    got = run(Hidden, False, strict=False, x=[1, -2])
    assert "except" in got.report.unbatched()["Hidden"]
    assert got.x.tolist() == [-1, -2]


class Rounded(Vertex):
    x: Input[FLOAT]
    out: Output[INT]

    def compute(self):
        self.out = np.rint(np.log(self.x - 1))


def test_what_a_codelet_would_do_with_other_data_is_no_error(loop: bool) -> None:
    assert run(Rounded, loop, x=[2, 2.8, 21], out=[9, 9, 9]).out.tolist() == [0, 1, 3]
    with pytest.raises(CodeletError, match="OverflowError") as caught:
        run(Rounded, loop, x=[2, 2.8, 1], out=[9, 9, 9])
    assert "vertex 2 (Rounded" in caught.value.where


class Overlong(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self):
        for _ in range(3000):
            for i in range(4):
                self.x[i] += 1


def test_a_long_loop_runs_vertex_by_vertex() -> None:
    got = run(Overlong, False, strict=False, x=np.zeros((2, 4)))
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
    got = run(OutsideArray, loop, strict=False, x=[1, 10], out=np.zeros((2, 3))).out
    assert got.tolist() == [[5, 7, 9], [23, 34, 45]]
    got = run(SharedArray, loop, strict=False, x=[1, 10], out=np.zeros((2, 3), int)).out
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
    got = run(ListOfNumbers, loop, x=[3, 4], out=np.zeros((2, 2)), more=np.zeros((2, 2)))
    assert got.out.tolist() == [[1, 4], [1, 5]]
    assert got.more.tolist() == [[1, 6], [1, 8]]


class Inverse(Vertex):
    m: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self):
        self.out = np.linalg.inv(self.m)


def test_a_function_that_may_fail_does_so_for_its_vertex_only(loop: bool) -> None:
    m = np.stack([np.eye(2), np.eye(2) * 2, np.ones((2, 2))]).astype(np.float32)
    assert run(Inverse, loop, strict=False, m=m[:2], out=m[:2]).out.tolist() == [[[1, 0], [0, 1]], [[0.5, 0], [0, 0.5]]]
    with pytest.raises(CodeletError) as caught:
        run(Inverse, loop, strict=False, m=m, out=m)
    assert "vertex 2 (Inverse" in caught.value.where


# --- random programs against the vertex loop --------------------------------------------------------------------------

RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck))


@contextmanager
def cut(rng: Random) -> Iterator[None]:
    """Small chunks, short runs and short windows, so that a few vertices take all the ways that a million would."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CHUNK_BYTES", rng.choice([1, 300, 4096, 524288]))
        run = rng.choice([1, 2, 8, 1000])
        patch.setattr(views, "LEAST_RUN", run)
        patch.setattr(flat, "LEAST_RUN", run)
        patch.setattr(plan, "LANES", rng.choice([1, 3, 4096]))
        patch.setattr(threads, "LEAST_SHARE", rng.choice([1, 2, 256]))
        patch.setattr(plan, "WINDOW", rng.choice([1, 4, 16, 1000]))
        yield


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's own, about means of nothing
@settings(RANDOMLY, max_examples=400)
@given(st.randoms(use_true_random=False))
def test_random_codelets_equal_the_vertex_loop(rng: Random) -> None:
    dtype = rng.choice([FLOAT, FLOAT, FLOAT, HALF, HALF, INT, INT, UNSIGNED_INT, BOOL])
    codelet, source = random_codelet(rng, dtype, rng.randrange(1, 9))
    space = Space(DEVICE, rng)
    compute_set = space.graph.add_compute_set()
    placed: list[Placed] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):  # sizes that vertices side by side have
        n, k, count = (
            rng.choice([0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 33]),
            rng.choice([1, 2, 3, 5, 8]),
            rng.choice([1, 2, 3, 7, 20]),
        )
        sizes: dict[str, tuple[int, ...]] = {"n": (n,), "k": (k,), "kn": (k, n), "": ()}
        shapes = {name: sizes[size] for name, size in SHAPES.items()}
        types = {name: codelet.fields[name].dtype for name in SHAPES}
        if rng.randrange(3) == 0 and set(types.values()) == {dtype}:
            fields = side_by_side(space, dtype, shapes, count)
        else:
            fields = {f: regions(rng, space, types[f], s, count, codelet.fields[f].written) for f, s in shapes.items()}
        placed += [Placed(codelet, rng.randrange(3), {f: [v[i]] for f, v in fields.items()}) for i in range(count)]
    rng.shuffle(placed)
    for vertex in placed:
        add(space, compute_set, vertex)
    program = Repeat(2, Execute(compute_set))
    with cut(rng):
        batched = outcome(space, program, shuffle=rng.choice([None, 1]), threads=rng.choice([1, 1, 3]))
        looped = outcome(space, program, vertex_loop=True)
    if isinstance(looped, CodeletError):
        assert isinstance(batched, CodeletError), source
    else:
        assert not isinstance(batched, CodeletError), source
        assert differences(batched, looped) == [], source


def outcome(space: Space, program: Any, **how: Any) -> Any:
    try:
        return contents(space, program, **how)
    except CodeletError as error:
        return error


@settings(RANDOMLY, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_random_graphs_equal_the_vertex_loop(rng: Random) -> None:
    """Any views of any variables, several codelets in a compute set, lists of tensors, copies, repeats, several runs."""
    device = IPUModel(tiles_per_ipu=rng.randint(1, 5), num_ipus=rng.randint(1, 2)).create_device()
    space = Space(device, rng)
    for _ in range(rng.randrange(4)):
        shape = [rng.choice([0, 1, 2, 3, 5, 8, 13]) for _ in range(rng.randint(1, 3))]
        space.variable(rng.choice([FLOAT, FLOAT, HALF, INT, BOOL]), shape)
    steps: list[Any] = [Execute(random_superstep(rng, space).compute_set) for _ in range(rng.randint(1, 3))]
    steps += [random_copy(rng, space)[0] for _ in range(rng.randrange(3))]
    rng.shuffle(steps)
    program = Sequence(*steps[1:], Repeat(2, steps[0]))
    with cut(rng):
        batched, looped = (contents(space, program, vertex_loop=way, runs=2) for way in (False, True))
    assert differences(batched, looped) == []


# --- one by one or in bulk --------------------------------------------------------------------------------------------


def whole(rng: Random, space: Space, dtype: Any, shape: tuple[int, ...], count: int, written: bool) -> View:
    """The regions of `count` vertices as one view whose leading axis is theirs; of length 1 if they share one region."""
    way = rng.randrange(4 if written else 5)
    if way == 0:
        return space.variable(dtype, (count, *shape))
    if way == 1:
        order = list(range(len(shape) + 1))
        rng.shuffle(order)
        lengths = [(count, *shape)[axis] for axis in order]
        return space.variable(dtype, lengths).shuffled([order.index(axis) for axis in range(len(order))])
    if way == 2:
        return space.variable(dtype, (count + 2, *shape))[1:-1][::-1]
    if way == 3:
        flat = space.variable(dtype, (*shape, count)).shuffled([len(shape), *range(len(shape))]).flat()
        return flat.reshaped((count, *shape))
    return space.variable(dtype, (1, *shape))


def figures(report: Report) -> Any:
    parts = [(s.name, s.executions, s.vertices, s.cycles_per_tile.tolist()) for s in report.compute_sets]
    moved = [array.tolist() for array in report.exchange_bytes_per_tile]
    return parts, moved, report.total_cycles, report.cycles_by_codelet(), report.graph_size(), report.memory.by_variable()


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
                views[name] = [whole(again, space, field.dtype, (n + i,), count, False) for i in range(k)]
            else:
                views[name] = whole(again, space, field.dtype, ((), (n,), (k, n))[field.depth], count, field.written)
        compute_set = space.graph.add_compute_set()
        if bulk:
            edges = {f: [w.tensor for w in v] if isinstance(v, list) else v.tensor for f, v in views.items()}
            space.graph.add_vertices(compute_set, codelet, tiles, **edges)
        else:
            for i in range(count):
                tile = tiles if isinstance(tiles, int) else tiles[i]
                rows = {f: v if isinstance(v, list) else [v] for f, v in views.items()}
                add(space, compute_set, Placed(codelet, tile, {f: [w[i % len(w.ids)] for w in v] for f, v in rows.items()}))
        engine = Engine(space.graph, Repeat(2, Execute(compute_set)))
        engine.load_and_run(DEVICE)
        seen.append(({name: engine.read_tensor(name) for name in space.variables}, figures(engine.report)))
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
    np.testing.assert_array_equal(engine.read_tensor("out"), (values[:, 0] + values[:, 1]) + values[:, 2])
    assert engine.report.graph_size()["vertices"] == count
    assert engine.report.exchange_bytes_per_tile[0].sum() == 0
