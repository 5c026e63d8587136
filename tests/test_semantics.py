"""What the words of a codelet mean: twelve promises, in order, each kept on the fast path and in
the plain vertex loop.

Where a promise is kept by a whole family of tests elsewhere, its section says which. `loop` runs
each test both ways.
"""

from __future__ import annotations

import math
from fractions import Fraction
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from branching_codelets import Guarded
from codelets import (
    DotProduct,
    Evens,
    Gather,
    HalfScale,
    Increment,
    IntegerMix,
    Largest,
    PairwiseSum,
    Sum,
    Swap,
)
from graphs import same_bits
from vertex_loop import (
    DEVICE,
    RANDOM,
    CodeletRun,
    float_bits,
    line_of,
    normal,
    run_codelet,
    sequential_sum,
)

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.engine import views
from ipu_teach.engine.batch import batch_plan, chunk, placement, threads
from ipu_teach.errors import CodeletError, ComputeSetRaceError
from ipu_teach.program import Execute, Sequence
from ipu_teach.types import Array


@pytest.fixture(params=[False, True], ids=["batched", "loop"])
def loop(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


# --- 1. elements are copies, slices are views -----------------------------------------------------


def test_swap_swaps(loop: bool) -> None:
    x = normal(5, 2)
    np.testing.assert_array_equal(run_codelet(Swap, loop, x=x).x, x[:, ::-1])


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
    np.testing.assert_array_equal(
        run_codelet(ViewsAndCopies, loop, x=x).x, [[0, 2, 3, 3, 1], [5, 7, 8, 8, 6]]
    )


class ColumnsAndCorners(Vertex):
    m: InOut[Vector[Vector[FLOAT]]]

    def compute(self):
        column = self.m[:, 0]
        column += 1
        corner = self.m[0, 1]
        corner += 1
        row = self.m[1]
        row[1] = 9


def test_columns_and_rows_are_views_and_corners_are_copies(loop: bool) -> None:
    m = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    assert run_codelet(ColumnsAndCorners, loop, m=m).m.tolist() == [
        [[1, 1], [3, 9]],
        [[5, 5], [7, 9]],
    ]


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
    np.testing.assert_array_equal(
        run_codelet(Keeps, loop, x=[[3, 0], [4, 0]]).x, [[10000, 600], [10000, 800]]
    )


class KeepsArrays(Vertex):
    x: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        doubled = self.x + self.x
        self.x[:] = doubled
        self.x += 1
        self.out = doubled


def test_a_result_stored_and_changed_there_keeps_its_value(loop: bool) -> None:
    got = run_codelet(KeepsArrays, loop, x=[[3, 0], [4, 5]], out=np.zeros((2, 2)))
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
    assert run_codelet(LooksAtShape, loop, x=[[1, 2, 3]], out=np.zeros((1, 3))).out.tolist() == [
        [2, 4, 6]
    ]


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
    np.testing.assert_array_equal(run_codelet(Shift, loop, x=x).x, expected)


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
    got = run_codelet(OneElement, loop, a=a, m=m, out=np.zeros(4), row=np.zeros((4, 2)))
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
    np.testing.assert_array_equal(
        run_codelet(OwnArrays, loop, x=x, out=np.zeros((6, 3))).out, a + b + c
    )


# --- 2. the order of sums -------------------------------------------------------------------------


def test_a_for_loop_adds_in_order(loop: bool) -> None:
    x = normal(7, 1001)
    expected = [sequential_sum(row) for row in x]
    np.testing.assert_array_equal(run_codelet(Sum, loop, x=x, out=np.zeros(7)).out, expected)


def test_np_sum_adds_in_pairs(loop: bool) -> None:
    x = normal(7, 1001)
    got = run_codelet(PairwiseSum, loop, x=x, out=np.zeros(7)).out
    np.testing.assert_array_equal(got, [np.sum(np.ascontiguousarray(row)) for row in x])
    assert any(value != sequential_sum(row) for value, row in zip(got, x, strict=True))


class SumOfColumn(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.sum(self.x)


def test_np_sum_is_that_of_a_contiguous_region_wherever_its_elements_lie(loop: bool) -> None:
    """A region of scattered elements arrives in the tile's memory in one row: the sum is that
    row's."""
    values = normal(300, 5)
    graph = Graph(DEVICE.target)
    x, out = graph.add_constant(FLOAT, values.shape, values), graph.add_variable(FLOAT, (5,))
    graph.set_tile_mapping(x, 0)
    graph.set_tile_mapping(out, 0)
    graph.create_host_read("out", out)
    compute_set = graph.add_compute_set()
    graph.add_vertices(compute_set, SumOfColumn, 0, x=x.T, out=out)
    engine = Engine(graph, Execute(compute_set), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    assert same_bits(
        engine.read_tensor("out"), np.array([np.sum(column.copy()) for column in values.T])
    )


class DoubleAccumulator(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = np.float64(0)
        for value in self.x:
            total += value
        self.out = total


def test_a_loop_adds_in_the_type_of_its_accumulator(loop: bool) -> None:
    x = normal(7, 1001)
    got = run_codelet(DoubleAccumulator, loop, x=x, out=np.zeros(7)).out
    assert same_bits(
        got, np.array([sequential_sum(row.astype(np.float64)) for row in x]).astype(np.float32)
    )
    assert any(value != sequential_sum(row) for value, row in zip(got, x, strict=True))


# With `exact=False` a product is within a stated distance: test_kernels.py, test_joined_products_….


@pytest.mark.parametrize("length", [1, 2, 3, 7, 8, 31, 33, 64, 100, 143])
def test_a_product_is_the_vertexs_own(loop: bool, length: int) -> None:
    a, b = normal(9, length), normal(9, length)
    expected = [a[i].copy() @ b[i].copy() for i in range(9)]
    np.testing.assert_array_equal(
        run_codelet(DotProduct, loop, a=a, b=b, out=np.zeros(9)).out, expected
    )


# --- 3. weak scalars ------------------------------------------------------------------------------


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
    got = run_codelet(WeakScalars, loop, x=x, stays=np.zeros(50), promoted=np.zeros(50))
    np.testing.assert_array_equal(got.stays, stays)
    np.testing.assert_array_equal(got.promoted, promoted)


class WeakChoices(Vertex):
    """max() and min() give back Python's number where they choose it, and it stays one."""

    x: Input[FLOAT]
    h: Input[HALF]
    negated: Output[FLOAT]
    scaled: Output[FLOAT]
    wide: Output[FLOAT]
    relu: Output[FLOAT]

    def compute(self):
        self.negated = -max(self.x, 0)
        self.scaled = min(self.x, 0.1) * 3
        self.wide = max(self.h, 0.1) + self.x
        self.relu = max(self.x, 0)


def test_what_max_and_min_choose_stays_weak(loop: bool) -> None:
    x, h = np.array([-1, 2, 0.01], np.float32), np.array([-1, 0.7, 0.3], np.float16)
    zero = np.zeros(3)
    got = run_codelet(
        WeakChoices, loop, strict=False, x=x, h=h, negated=zero, scaled=zero, wide=zero, relu=zero
    )
    # minus Python's 0 is 0, and not -0.0
    assert float_bits(got.negated) == float_bits([0.0, -2, -np.float32(0.01)])
    assert float_bits(got.scaled) == float_bits(
        [np.float32(-3), np.float32(0.1 * 3), np.float32(0.01) * np.float32(3)]
    )
    wide = [
        x[0] + np.float32(0.1),
        x[1] + np.float32(np.float16(0.7)),
        x[2] + np.float32(np.float16(0.3)),
    ]
    assert float_bits(got.wide) == float_bits(wide)
    assert float_bits(got.relu) == float_bits([0, 2, np.float32(0.01)])


class WeakAndStrong(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total = self.x[0]
        for value in self.x:
            total += max(value, 0) + value * max(-0.5, min(value, 1))
        self.out = total


def test_a_weak_choice_that_makes_no_difference_is_batched() -> None:
    x = normal(9, 20)
    got = run_codelet(WeakAndStrong, False, x=x, out=np.zeros(9))
    assert got.report.ways() == {"WeakAndStrong": "batch"}
    assert same_bits(got.out, run_codelet(WeakAndStrong, True, x=x, out=np.zeros(9)).out)


class NearlyThat(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        # as singles the two numbers are one
        self.out = max(min(self.x, 0.1), 0.1000000001) - self.x


def test_a_weak_choice_that_makes_a_difference_is_not(loop: bool) -> None:
    got = run_codelet(
        NearlyThat, loop, strict=False, x=np.array([0.5, -1], np.float32), out=np.zeros(2)
    )
    assert got.out.tolist() == [
        np.float32(0.1000000001) - np.float32(0.5),
        np.float32(0.1000000001) + 1,
    ]
    assert loop or got.report.ways() == {"NearlyThat": "scalar"}


# --- 4. halves ------------------------------------------------------------------------------------


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
    """In half 2048 + 1 is 2048, so that a loop over ones stops there; sums and products go on in
    single precision."""
    got = run_codelet(
        HalfSums, loop, x=np.ones((2, 3000)), whole=[0, 0], stepwise=[0, 0], product=[0, 0]
    )
    assert got.whole.tolist() == [3000, 3000]
    assert got.stepwise.tolist() == [2048, 2048]
    assert got.product.tolist() == [3000, 3000]


def test_half_rounds_after_every_operation(loop: bool) -> None:
    x = RANDOM.standard_normal((11, 13)).astype(np.float16)
    tripled = (x.astype(np.float64) * 3).astype(np.float16)
    expected = (tripled.astype(np.float64) + 1).astype(np.float16)
    np.testing.assert_array_equal(
        run_codelet(HalfScale, loop, x=x, out=np.zeros((11, 13))).out, expected
    )


def halves(*shape: int) -> Array:
    """Random halves of very different sizes."""
    return (RANDOM.standard_normal(shape) * 10.0 ** RANDOM.integers(-6, 3, shape)).astype(
        np.float16
    )


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
    """Sums and products of two halves are exact in float64; quotients and roots rounded twice from
    53 bits are right too."""
    a, b = halves(40, 30), np.abs(halves(40, 30))
    wide, other = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        exact = np.stack(
            [wide * other, wide + other, wide - other, wide / other, np.sqrt(other)], 1
        ).astype(np.float16)
    np.testing.assert_array_equal(
        run_codelet(HalfArithmetic, loop, a=a, b=b, out=np.zeros((40, 5, 30))).out, exact
    )


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
    """Multiples of 2**-9 below 4 add up in single precision without rounding, in any order, so that
    all is exact."""
    x = (RANDOM.integers(-2047, 2048, (6, length)) / 512).astype(np.float16)
    zero = np.zeros(6)
    got = run_codelet(HalfTotals, loop, x=x, whole=zero, strided=zero, stepwise=zero)
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
    down = run_codelet(HalfAxes, loop, m=m, rows=np.zeros((2, 3000)), columns=np.zeros((2, 6)))
    along = run_codelet(
        HalfAxes, loop, m=np.swapaxes(m, 1, 2), rows=np.zeros((2, 6)), columns=np.zeros((2, 3000))
    )
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
    """The product of two matrices of halves: exact products, added in order in single precision,
    rounded to half once."""
    total = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        total = (total + np.outer(a[:, k].astype(np.float32), b[k].astype(np.float32))).astype(
            np.float32
        )
    return total.astype(np.float16)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (3, 17, 2), (4, 64, 4), (2, 300, 5), (8, 33, 1)]
)
def test_products_of_halves_add_in_single_precision(loop: bool, m: int, k: int, n: int) -> None:
    a, b = (
        RANDOM.standard_normal((5, m, k)).astype(np.float16),
        RANDOM.standard_normal((5, k, n)).astype(np.float16),
    )
    expected = np.stack([in_order(x, y) for x, y in zip(a, b, strict=True)])
    empty = {
        "matrix": (m, n),
        "right": (m,),
        "left": (n,),
        "single": (),
        "turned": (n, m),
        "dotted": (m, n),
    }
    got = run_codelet(
        HalfProducts,
        loop,
        a=a,
        b=b,
        **{name: np.zeros((5, *shape)) for name, shape in empty.items()},
    )
    np.testing.assert_array_equal(got.matrix, expected)
    np.testing.assert_array_equal(got.right, expected[:, :, 0])
    np.testing.assert_array_equal(got.left, expected[:, 0])
    np.testing.assert_array_equal(got.single, expected[:, 0, 0])
    np.testing.assert_array_equal(got.turned, np.swapaxes(expected, 1, 2))
    np.testing.assert_array_equal(got.dotted, expected)
    # One rounding to half, and one of 2**-24 at each addition of at most 1.01 times the sum of all
    # magnitudes.
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert (
        np.abs(got.matrix - exact)
        <= np.abs(exact) * 2.0**-11 + 2.0**-25 + k * 1.01 * sizes * 2.0**-24
    ).all()


# --- 5. steps in bulk, and races ------------------------------------------------------------------


def superstep(
    pairs: list[tuple[type[Vertex], dict[str, Any]]], graph: Graph, loop: bool = False
) -> Engine:
    """An engine that runs these vertices in one compute set, on tile after tile."""
    compute_set = graph.add_compute_set("step")
    for tile, (codelet, fields) in enumerate(pairs):
        graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, fields), tile)
    return Engine(graph, Execute(compute_set), vertex_loop=loop)


def variable(graph: Graph, name: str, values: Any, tile: int = 0, dtype: Any = FLOAT) -> Tensor:
    """A mapped variable with a value, which the host may read."""
    tensor = graph.add_variable(dtype, np.shape(values), name)
    graph.set_initial_value(tensor, values)
    graph.set_tile_mapping(tensor, tile)
    graph.create_host_read(name, tensor)
    return tensor


class Mean(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        self.out = (self.x[0] + self.x[1] + self.x[2]) / 3


def test_reads_see_the_state_at_the_start(loop: bool) -> None:
    """A stencil from one variable into another and back: each step reads what all vertices wrote in
    the step before."""
    graph = Graph(DEVICE.target)
    x, y = variable(graph, "x", np.arange(10) ** 2), variable(graph, "y", np.zeros(10), 1)
    steps = []
    for name, source, into in (("there", x, y), ("back", y, x)):
        compute_set = graph.add_compute_set(name)
        for i in range(1, 9):
            vertex = graph.add_vertex(compute_set, Mean, x=source[i - 1 : i + 2], out=into[i])
            graph.set_tile_mapping(vertex, i % 3)
        steps.append(Execute(compute_set))
    engine = Engine(graph, Sequence(*steps), vertex_loop=loop)
    engine.load_and_run(DEVICE)
    there, back = np.zeros(10, np.float32), (np.arange(10) ** 2).astype(np.float32)
    for i in range(1, 9):
        there[i] = (back[i - 1] + back[i] + back[i + 1]) / np.float32(3)
    for i in range(1, 9):
        back[i] = (there[i - 1] + there[i] + there[i + 1]) / np.float32(3)
    assert same_bits(engine.read_tensor("x"), back) and same_bits(engine.read_tensor("y"), there)


def test_two_writers_are_named_with_their_fields_and_the_element(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    x = variable(graph, "x", np.zeros(6))
    with pytest.raises(ComputeSetRaceError) as caught:
        superstep([(Increment, {"x": x[:4]}), (Increment, {"x": x[3:]})], graph, loop)
    assert "In compute set 'step' element [3] of 'x' is written twice." in str(caught.value)
    assert "vertex 0 (Increment.x, tile 0) and vertex 1 (Increment.x, tile 1)" in str(caught.value)


def test_a_reader_and_another_vertexs_writer_are_named_too(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    x, out = variable(graph, "x", np.zeros(6)), variable(graph, "out", np.zeros(1))
    with pytest.raises(ComputeSetRaceError) as caught:
        superstep([(Increment, {"x": x[:4]}), (Sum, {"x": x[2:], "out": out[0]})], graph, loop)
    assert "element [2] of 'x' is written by one vertex and read by another" in str(caught.value)
    assert "vertex 0 (Increment.x, tile 0) and vertex 1 (Sum.x, tile 1)" in str(caught.value)


def test_a_vertexs_own_inout_is_no_race(loop: bool) -> None:
    graph = Graph(DEVICE.target)
    x = variable(graph, "x", np.arange(6))
    engine = superstep([(Increment, {"x": x[:3]}), (Increment, {"x": x[3:]})], graph, loop)
    engine.load_and_run(DEVICE)
    assert engine.read_tensor("x").tolist() == [1, 2, 3, 4, 5, 6]


# Races of random graphs against a brute-force search: test_brute_force.py,
# test_a_race_is_found_where_there_is_one.


# --- 6. partial writes ----------------------------------------------------------------------------


def test_what_is_not_written_keeps_its_old_value(loop: bool) -> None:
    x, before = normal(3, 5), normal(3, 5)
    expected = before.copy()
    expected[:, ::2] = x[:, ::2] * 10
    np.testing.assert_array_equal(run_codelet(Evens, loop, x=x, out=before).out, expected)


class SometimesWritten(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(1, len(self.x)):
            if self.x[i] > 0:
                self.out[i] = self.x[i]


def test_what_a_branch_does_not_write_keeps_its_old_value(loop: bool) -> None:
    x, before = normal(50, 6), normal(50, 6)
    kept = (x <= 0) | (np.arange(6) == 0)
    np.testing.assert_array_equal(
        run_codelet(SometimesWritten, loop, x=x, out=before).out, np.where(kept, before, x)
    )


# --- 7. branches ----------------------------------------------------------------------------------


class Dampened(Vertex):
    """One computation, with a branch."""

    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        if self.x > 0:
            self.out = self.x / 3
        else:
            self.out = self.x * 7


class DampenedWithout(Vertex):
    """The same without one."""

    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = np.where(self.x > 0, self.x / 3, self.x * 7)


def test_batch_scalar_and_loop_give_the_same_bits() -> None:
    x = np.append(normal(300), np.float32([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45]))
    expected = np.where(x > 0, x / np.float32(3), x * np.float32(7))
    out = np.zeros(len(x))
    scalar, looped = (run_codelet(Dampened, way, x=x, out=out) for way in (False, True))
    batched = run_codelet(DampenedWithout, False, x=x, out=out)
    assert [got.report.ways().popitem()[1] for got in (batched, scalar)] == ["batch", "scalar"]
    assert scalar.report.cycles_by_codelet() == looped.report.cycles_by_codelet()
    for got in (batched, scalar, looped):
        assert same_bits(got.out, expected)


def guarded(x: list[float], i: int) -> int:
    """Plain Python."""
    out = 0
    for k in (i, i + 1):
        inside = 0 <= k < len(x)
        out += (
            (inside and x[k] > 0) * 1
            + (not inside or x[k] < 0) * 10
            + (k != 0 and 12 // k > 2) * 100
        )
    return out


def test_and_or_and_chains_stop_short(loop: bool) -> None:
    x = np.tile(np.float32([1, -1, 0, 2, -3]), (11, 1))
    i = np.arange(-3, 8)
    got = run_codelet(Guarded, loop, strict=False, x=x, i=i, out=np.zeros(11, int))
    assert got.out.tolist() == [
        guarded(row.tolist(), k) for row, k in zip(x, i.tolist(), strict=True)
    ]
    assert loop or got.report.ways() == {"Guarded": "scalar"}


class StopsEarly(Vertex):
    n: Input[INT]
    x: InOut[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            if i >= self.n:
                break
            self.x[i] = self.x[i] * 2


def test_what_is_skipped_stores_nothing_and_costs_nothing(loop: bool) -> None:
    x = normal(6, 8)
    n = np.array([0, 1, 2, 8, 3, 0])
    got = run_codelet(StopsEarly, loop, n=n, x=x)
    assert same_bits(got.x, np.where(np.arange(8) < n[:, None], x * 2, x))
    if not loop:
        alone = [
            run_codelet(
                StopsEarly, False, n=n[k : k + 1], x=x[k : k + 1]
            ).report.cycles_by_codelet()
            for k in range(6)
        ]
        assert got.report.cycles_by_codelet() == {"StopsEarly": sum(a["StopsEarly"] for a in alone)}
        assert alone[0]["StopsEarly"] < alone[1]["StopsEarly"] < alone[3]["StopsEarly"]


class Texts(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        self.x = len(f"{self.x:.2f}")


def test_the_fallback_names_file_line_and_reason() -> None:
    reason = run_codelet(Texts, False, strict=False, x=[1, 10]).report.unbatched()["Texts"]
    place = f"test_semantics.py, line {line_of(Texts, 'len(f')} (Texts.compute)"
    assert reason == (
        f"{place}: a value that depends on data is put into a text; a formatted text does not "
        "run as a scalar loop"
    )


# --- 8. invariance --------------------------------------------------------------------------------


class Blend(Vertex):
    """Elementwise work, a sum, a product, a function whose last bit depends on how numpy goes
    through memory, a loop."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.y = self.y * self.a + np.expm1(self.b)
        total = 0.0
        for value in self.y:
            total += value * value
        self.out[0] = np.sum(self.y)
        self.out[1] = self.a @ self.b
        self.out[2] = total


def blended(count: int, shuffled: bool, **how: Any) -> tuple[Array, Array]:
    source = np.random.default_rng(2)
    values = source.standard_normal((3, count, 37)).astype(np.float32)
    graph = Graph(DEVICE.target)
    fields = {name: variable(graph, name, rows) for name, rows in zip("aby", values, strict=True)}
    out = variable(graph, "out", np.zeros((count, 3)))
    places = source.permutation(count) if shuffled else np.arange(count)
    compute_set = graph.add_compute_set()
    for i in places.tolist():
        vertex = graph.add_vertex(
            compute_set, Blend, out=out[i], **{name: tensor[i] for name, tensor in fields.items()}
        )
        graph.set_tile_mapping(vertex, i % 3)
    engine = Engine(graph, Execute(compute_set), **how)
    engine.load_and_run(DEVICE)
    return engine.read_tensor("y"), engine.read_tensor("out")


@pytest.mark.parametrize("scattered", [False, True], ids=["view", "gather"])
def test_no_bit_depends_on_chunks_views_the_order_of_vertices_or_threads(
    scattered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if scattered:
        monkeypatch.setattr(views, "find_nests", lambda starts: None)
        monkeypatch.setattr(placement, "find_nests", lambda starts: None)
    monkeypatch.setattr(threads, "LEAST_SHARE", 1)
    expected = blended(50, False, vertex_loop=True)
    for size in (1, 500, 5_000, 10**9):
        for window in (1, 16, 1000):
            monkeypatch.setattr(batch_plan, "CHUNK_BYTES", size)
            monkeypatch.setattr(chunk, "WINDOW", window)
            assert all(map(same_bits, blended(50, False), expected)), (size, window)
    for how in (
        {"shuffle": 1},
        {"shuffle": 2},
        {"threads": 2},
        {"threads": 5},
        {"threads": 3, "shuffle": 4},
    ):
        for shuffled in (False, True):
            assert all(map(same_bits, blended(50, shuffled, **how), expected)), how


# The same for random codelets and graphs: test_exact.py and test_branches.py, tests named random.


# --- 9. ragged, empty, and special values ---------------------------------------------------------


def ragged(codelet: type[Vertex], lengths: list[int], loop: bool) -> tuple[list[Array], Array]:
    """Vertices over neighbouring stretches of one variable, and what each stretch holds."""
    graph = Graph(DEVICE.target)
    values = normal(sum(lengths))
    x, out = (
        graph.add_variable(FLOAT, (sum(lengths),), "x"),
        graph.add_variable(FLOAT, (len(lengths),), "out"),
    )
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


@pytest.mark.parametrize(
    "lengths", [[0], [1], [5, 4, 5, 4, 4], [0, 3, 0, 0, 7, 1], [2] * 20 + [3] * 20, [17, 1, 17]]
)
def test_regions_of_any_length(lengths: list[int], loop: bool) -> None:
    parts, got = ragged(Sum, lengths, loop)
    np.testing.assert_array_equal(got, [sequential_sum(p) for p in parts])
    parts, got = ragged(PairwiseSum, lengths, loop)
    np.testing.assert_array_equal(got, [np.sum(p.copy()) for p in parts])


def test_the_largest_of_nothing_is_an_error_that_names_the_vertex(loop: bool) -> None:
    with pytest.raises(CodeletError) as caught:
        ragged(Largest, [3, 2, 0, 1], loop)
    assert "vertex 2 (Largest, tile 2)" in caught.value.where
    assert (
        "test_semantics.py" not in caught.value.where and "codelets.py, line" in caught.value.where
    )


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


def test_special_values_survive(loop: bool) -> None:
    x = np.array(
        [[-0.0, 0.0], [np.nan, 1], [1, np.nan], [np.inf, -np.inf], [-0.0, -0.0], [0.0, -0.0]],
        np.float32,
    )
    zero = np.zeros(6)
    got = run_codelet(
        Special,
        loop,
        x=x,
        same=np.zeros((6, 2)),
        twice=np.zeros((6, 2)),
        builtin=zero,
        numpys=zero,
        least=zero,
    )
    assert float_bits(got.same) == float_bits(x)
    twice = [[-0.0, 0], [np.nan, 2], [2, np.nan], [np.inf, -np.inf], [-0.0, -0.0], [0.0, -0.0]]
    assert same_bits(got.twice, np.array(twice, np.float32))
    # Python's max keeps the first value unless a later one is greater, and nothing is greater than
    # a NaN.
    assert same_bits(got.builtin, np.array([max(*row) for row in x.tolist()], np.float32))
    assert same_bits(got.least, np.array([min(*row) for row in x.tolist()], np.float32))
    assert np.isnan(got.builtin).tolist() == [False, True, False, False, False, False]
    assert np.isnan(got.numpys).tolist() == [False, True, True, False, False, False]
    np.testing.assert_array_equal(got.numpys[3:], [np.inf, 0, 0])


# --- 10. exchange ---------------------------------------------------------------------------------


def exchanged(reads: list[tuple[int, slice]], owner: list[int]) -> tuple[list[int], list[int]]:
    """(bytes received, bytes sent) by tile: vertices on these tiles read these parts of a variable
    of eight floats."""
    graph = Graph(IPUModel(tiles_per_ipu=4).create_device().target)
    x, out = graph.add_variable(FLOAT, (8,), "x"), graph.add_variable(FLOAT, (len(reads),), "out")
    graph.set_initial_value(x, np.arange(8))
    for i, tile in enumerate(owner):
        graph.set_tile_mapping(x[i], tile)
    compute_set = graph.add_compute_set()
    for k, (tile, part) in enumerate(reads):
        graph.set_tile_mapping(out[k], tile)
        graph.set_tile_mapping(graph.add_vertex(compute_set, Sum, x=x[part], out=out[k]), tile)
    device = IPUModel(tiles_per_ipu=4).create_device()
    engine = Engine(graph, Execute(compute_set))
    engine.load_and_run(device)
    received, sent = engine.report.exchange_bytes_per_tile
    return received.tolist(), sent.tolist()


def test_an_element_read_by_several_vertices_of_a_tile_counts_once() -> None:
    reads = [(1, slice(0, 4)), (1, slice(2, 6)), (1, slice(0, 6))]
    assert exchanged(reads, [0] * 8) == ([0, 24, 0, 0], [24, 0, 0, 0])


def test_local_reads_count_nothing() -> None:
    assert exchanged([(0, slice(0, 8)), (0, slice(3, 5))], [0] * 8) == ([0, 0, 0, 0], [0, 0, 0, 0])


def test_a_broadcast_element_is_sent_once_and_received_by_each_reader() -> None:
    reads = [(tile, slice(0, 2)) for tile in (0, 1, 2, 3)]
    assert exchanged(reads, [0] * 8) == ([0, 8, 8, 8], [8, 0, 0, 0])


def test_totals_are_a_count_of_sets() -> None:
    rng = Random(5)
    for _ in range(20):
        owner = [rng.randrange(4) for _ in range(8)]
        reads = [
            (rng.randrange(4), slice(*sorted(rng.sample(range(9), 2))))
            for _ in range(rng.randint(1, 6))
        ]
        wanted = [
            {i for t, part in reads if t == tile for i in range(8)[part]} for tile in range(4)
        ]
        received = [4 * sum(owner[i] != tile for i in wanted[tile]) for tile in range(4)]
        abroad = {i for tile in range(4) for i in wanted[tile] if owner[i] != tile}
        sent = [4 * sum(owner[i] == tile for i in abroad) for tile in range(4)]
        assert exchanged(reads, owner) == (received, sent)


# For random graphs, writes, copies and several IPUs: test_brute_force.py.


# --- 11. integers and bounds ----------------------------------------------------------------------


def wrapped(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def test_integers_wrap(loop: bool) -> None:
    a = RANDOM.integers(-(2**31), 2**31, (8, 5), dtype=np.int64)
    b = RANDOM.integers(-(2**31), 2**31, (8, 5), dtype=np.int64)
    expected = [
        [wrapped(int(y) * 65537 + int(x)) for x, y in zip(*rows, strict=True)]
        for rows in zip(a, b, strict=True)
    ]
    for row, given_row in zip(expected, a, strict=True):
        row[0] = wrapped(row[0] + int(given_row[-1]))
    got = run_codelet(IntegerMix, loop, a=a, b=b).b
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
        run_codelet(Total, loop, x=x, out=[0, 0, 0])
    assert "OverflowError" in str(caught.value)
    assert f"test_semantics.py, line {line_of(Total, 'np.sum')}" in caught.value.where
    assert "vertex 1 (Total" in caught.value.where and "tile 1" in caught.value.where
    assert run_codelet(Total, loop, x=[[1, 2], [2**31 - 2, 1]], out=[0, 0]).out.tolist() == [
        3,
        2**31 - 1,
    ]


class Unsigned(Vertex):
    x: Input[Vector[INT]]
    out: Output[UNSIGNED_INT]
    total: Output[UNSIGNED_INT]

    def compute(self):
        self.out = self.x[0]
        self.total = np.sum(self.x)


def test_unsigned_integers_wrap_on_a_store(loop: bool) -> None:
    x = [[-1, 5], [2**31 - 1, 2**31 - 1], [-(2**31), -1]]
    got = run_codelet(Unsigned, loop, x=x, out=[0, 0, 0], total=[0, 0, 0])
    assert got.out.tolist() == [2**32 - 1, 2**31 - 1, 2**31]
    assert got.total.tolist() == [4, 2**32 - 2, 2**31 - 1]


# Floats that an unsigned type does not hold: processors' instructions for one number and for
# several differ.
CUT = np.array(
    [
        -1.5,
        3e9,
        np.nan,
        np.inf,
        -np.inf,
        1e10,
        -1e10,
        1e19,
        1e20,
        -1e19,
        256.7,
        65536.9,
        -0.9,
        255.9,
        2**63,
        2**64,
        -(2**63),
        0,
    ]
)


def cut_to(x: Any, bits_kept: int) -> list[int]:
    """What the page on codelets says, in Python's whole numbers."""
    return [int(v) % 2**bits_kept if -(2**63) < v < 2**64 else 0 for v in x.tolist()]


def cutting(given: Any, to: Any) -> list[type[Vertex]]:
    class Whole(Vertex):
        x: Input[Vector[given]]
        y: Output[Vector[to]]

        def compute(self):
            self.y = self.x

    class Each(Vertex):
        x: Input[Vector[given]]
        y: Output[Vector[to]]

        def compute(self):
            for i in range(len(self.x)):
                self.y[i] = self.x[i]

    class Chosen(Vertex):
        x: Input[Vector[given]]
        y: InOut[Vector[to]]

        def compute(self):
            for i in range(len(self.x)):
                if self.x[i] != 12345:
                    self.y[i] = self.x[i]

    return [Whole, Each, Chosen]


@pytest.mark.parametrize("to", [UNSIGNED_CHAR, UNSIGNED_SHORT, UNSIGNED_INT, UNSIGNED_LONGLONG])
@pytest.mark.parametrize("given", [FLOAT, HALF])
def test_floats_in_unsigned_integers_are_cut_the_same_way_everywhere(given: Any, to: Any) -> None:
    for codelet in cutting(given, to):
        for length in (1, 3, 8, 17, 40):
            with np.errstate(over="ignore"):
                # each number at many places
                x = np.resize(CUT.astype(given.numpy), (len(CUT), length))
            expected = [cut_to(row, 8 * to.size) for row in x]
            for how in (False, True):
                ran = run_codelet(codelet, how, x=x, y=np.zeros(x.shape))
                assert ran.y.tolist() == expected, ran.report.ways()
            assert (
                codelet.call(
                    x=x[0], y=length if codelet.__name__ != "Chosen" else np.zeros(length)
                ).tolist()
                == expected[0]
            )
    assert ran.report.ways() == {"Chosen": "loop"}


def test_python_floats_in_unsigned_integers_are_cut_too(loop: bool) -> None:
    assert (
        run_codelet(PlainCut, loop, x=np.zeros(2), y=np.zeros((2, 3))).y.tolist()
        == [[255, 0, 232]] * 2
    )


class PlainCut(Vertex):
    x: Input[FLOAT]
    y: Output[Vector[UNSIGNED_CHAR]]

    def compute(self):
        if self.x < 1:
            self.y[0] = -1.5
            self.y[1] = math.inf
            self.y[2] = 1000.25


class PastTheEnd(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        first = self.x[0]
        self.out = first + self.x[len(self.x)]


def test_a_fixed_index_that_is_too_large_stops_the_compiler(loop: bool) -> None:
    with pytest.raises(CodeletError) as caught:
        run_codelet(PastTheEnd, loop, x=np.zeros((2, 3)), out=np.zeros(2))
    assert "IndexError" in str(caught.value)
    assert (
        f"test_semantics.py, line {line_of(PastTheEnd, 'len(self.x)')} (PastTheEnd.compute)"
        in caught.value.where
    )


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
    assert (
        "vertex 4 (Gather, tile 1)" in caught.value.where
        and "codelets.py, line" in caught.value.where
    )


class GatherInBatch(Vertex):
    """An index that depends on data, beside work that a GPU does itself."""

    x: Input[Vector[FLOAT]]
    i: Input[INT]
    out: Output[FLOAT]

    def compute(self):
        self.out = (self.x * 2)[self.i]


@pytest.mark.parametrize("index", [4, -5, 2**31 - 1])
@pytest.mark.parametrize("codelet", [Gather, GatherInBatch])
def test_a_bad_index_raises_on_both_backends_and_never_wraps(
    codelet: type[Vertex], index: int, stand_in: ModuleType
) -> None:
    """CuPy's own indexing would wrap. A codelet whose index depends on data does not run on the
    GPU."""
    for name in ("numpy", "cupy"):
        graph = Graph(DEVICE.target)
        x, out = variable(graph, "x", normal(3, 4)), variable(graph, "out", np.zeros(3))
        i = variable(graph, "i", [0, index, 1], dtype=INT)
        compute_set = graph.add_compute_set()
        graph.add_vertices(compute_set, codelet, [0, 1, 2], x=x, i=i, out=out)
        engine = Engine(graph, Execute(compute_set), strict=False, backend=name)
        engine.load(DEVICE)
        assert engine.backend == name
        with pytest.raises(CodeletError, match="IndexError") as caught:
            engine.run()
        assert f"vertex 1 ({codelet.__name__}, tile 1)" in caught.value.where


class BadPower(Vertex):
    x: Input[INT]
    y: Input[INT]
    out: Output[INT]

    def compute(self):
        self.out = self.x**self.y


def test_an_integer_power_may_fail_in_one_vertex_only(loop: bool) -> None:
    good = run_codelet(BadPower, loop, strict=False, x=[2, 3], y=[3, 4], out=[0, 0])
    assert good.out.tolist() == [8, 81]
    with pytest.raises(CodeletError) as caught:
        run_codelet(BadPower, loop, strict=False, x=[2, 3], y=[3, -1], out=[0, 0])
    assert "vertex 1 (BadPower" in caught.value.where


# --- 12. the schedule -----------------------------------------------------------------------------


def busiest(costs: list[int], workers: int) -> int:
    """The plain simulation: each vertex to the worker that is free first, ties to the lowest."""
    free = [0] * workers
    for cost in costs:
        free[free.index(min(free))] += cost
    return max(free)


def test_vertices_go_to_the_worker_that_is_free_first() -> None:
    """In the order in which they were added; of several free workers the lowest."""
    rng = Random(1)
    for costs in ([5, 5, 1, 1, 5, 1, 1, 9], [7] * 13, [], [rng.randrange(60) for _ in range(40)]):
        graph = Graph(IPUModel(tiles_per_ipu=1).create_device().target)
        x = graph.add_variable(FLOAT, (len(costs) + 1, 2), "x")
        graph.set_initial_value(x, np.zeros(x.shape))
        graph.set_tile_mapping(x, 0)
        compute_set = graph.add_compute_set()
        for row, cost in enumerate(costs):
            vertex = graph.add_vertex(compute_set, Increment, x=x[row])
            graph.set_tile_mapping(vertex, 0)
            graph.set_perf_estimate(vertex, cost)
        report = Engine(graph, Execute(compute_set)).report
        assert report.compute_sets[0].cost.compute_cycles.tolist() == [6 * busiest(costs, 6)]


def cycles_of(got: CodeletRun) -> int:
    return sum(got.report.cycles_by_codelet().values())


def test_static_cycles_do_not_depend_on_the_data_and_lane_cycles_do() -> None:
    few, many = np.zeros((4, 9)), np.ones((4, 9))
    for codelet in (Sum, PairwiseSum):
        assert cycles_of(run_codelet(codelet, False, x=few, out=np.zeros(4))) == cycles_of(
            run_codelet(codelet, False, x=many, out=np.zeros(4))
        )
    out = np.zeros((4, 9))
    assert cycles_of(run_codelet(SometimesWritten, False, x=few, out=out)) < cycles_of(
        run_codelet(SometimesWritten, False, x=many, out=out)
    )


# For random graphs, several codelets and supervisors: test_brute_force.py.
