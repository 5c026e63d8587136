"""Modelled cycles of vertices in a program: the library's, and those of codelets whose operations
were counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from ipu_teach import (
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
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.compile import compile_programs
from ipu_teach.cost.traced import trace_cycles
from ipu_teach.poplibs import poplin, popnn, popops
from ipu_teach.program import Execute, Sequence
from ipu_teach.target import BY_HAND, COMPILED, changed
from ipu_teach.types import DType

RANDOMLY = settings(
    deadline=None, derandomize=True, max_examples=100, suppress_health_check=list(HealthCheck)
)

DEVICE = IPUModel("ipu2", tiles_per_ipu=1).create_device()
IPU2 = DEVICE.target
IPU1 = IPUModel("ipu1", tiles_per_ipu=1).create_device().target

# --- what a library call costs --------------------------------------------------------------------


def cycles_on_one_tile(
    build: Callable[[Graph, Sequence, Callable[..., Tensor]], object],
) -> list[int]:
    """Tile cycles of each compute set that `build` makes on a machine of one tile."""
    graph, prog = Graph(DEVICE), Sequence()

    def variable(dtype: type[DType], *shape: int) -> Tensor:
        tensor = graph.add_variable(dtype, shape)
        graph.set_tile_mapping(tensor, 0)
        graph.set_initial_value(tensor, 1)
        return tensor

    build(graph, prog, variable)
    engine = Engine(graph, prog)
    engine.load_and_run(DEVICE)
    return [c.cost.compute_duration for c in engine.report.compute_sets]


LIBRARY: dict[str, tuple[Callable[[Graph, Sequence, Callable[..., Tensor]], object], list[int]]] = {
    "add": (lambda g, p, v: popops.add(g, v(FLOAT, 1000), v(FLOAT, 1000), p), [1_697]),
    "add HALF": (lambda g, p, v: popops.add(g, v(HALF, 10, 100), v(HALF, 1, 100), p), [923]),
    "add INT": (lambda g, p, v: popops.add(g, v(INT, 1000), v(INT, 1), p), [7_181]),
    "number minus": (lambda g, p, v: popops.sub(g, 1, v(FLOAT, 1000), p), [1_697]),
    "add in place": (
        lambda g, p, v: popops.add_in_place(g, v(FLOAT, 1000), v(FLOAT, 1000), p),
        [1_871],
    ),
    "times a number": (lambda g, p, v: popops.mul(g, v(FLOAT, 1000), 3, p), [1_139]),
    "times a number in place": (lambda g, p, v: popops.mul_in_place(g, v(HALF, 1000), 3, p), [635]),
    "scaled add": (
        lambda g, p, v: popops.scaled_add_to(g, v(FLOAT, 1000), v(FLOAT, 1000), 3, p),
        [1_683],
    ),
    "scaled add for speed": (
        lambda g, p, v: popops.scaled_add_to(
            g, v(FLOAT, 1000), v(FLOAT, 1000), 3, p, options={"optimizeForSpeed": True}
        ),
        [57 + 6 * (15 + 6 + 82 + 4)],
    ),
    "scaled add in float": (
        lambda g, p, v: popops.scaled_add_to(g, v(HALF, 1000), v(HALF, 1000), 0.1, p),
        [57 + 6 * (15 + 6 + 4 * 40 + 4)],
    ),
    # two rows a worker, in each 9 insertions into a list: 10 an element (a load, a comparison,
    # `atom`, a branch; an end and a place), and 6 for each of 81 / 4 moves
    "sort": (lambda g, p, v: popops.sort(g, v(FLOAT, 12, 9), 1, p), [11 + 6 * (20 + 2 * 210)]),
    "dynamic slice": (
        lambda g, p, v: popops.dynamic_slice(g, v(FLOAT, 9, 30), v(UNSIGNED_INT, 1), [0], [4], p),
        [25 + 6 * (35 + 28 * 4)],
    ),
    "multi slice": (
        lambda g, p, v: popops.multi_slice(g, v(FLOAT, 9, 30), v(UNSIGNED_INT, 5, 1), [0], [1], p),
        [6 * (30 + 5 * (19 + 30))],
    ),
    "clamp": (
        lambda g, p, v: popops.clamp(g, v(FLOAT, 60), v(FLOAT, 60), v(FLOAT, 60), p),
        [6 * (5 + 6 + 2 * 11 // 2)],
    ),
    "cast": (lambda g, p, v: popops.cast(g, v(FLOAT, 1000), HALF, p), [762]),
    "cast back": (lambda g, p, v: popops.cast(g, v(HALF, 1000), FLOAT, p), [750]),
    "fill": (lambda g, p, v: popops.fill(g, v(FLOAT, 1000), p, 2), [6 * 523]),
    "reduce": (lambda g, p, v: popops.reduce(g, v(FLOAT, 13, 40), [0], p), [561]),
    "mat_mul": (lambda g, p, v: poplin.mat_mul(g, v(FLOAT, 50, 61), v(FLOAT, 61, 10), p), [5_847]),
    "cast from integers": (
        lambda g, p, v: popops.cast(g, v(INT, 1000), FLOAT, p),
        [12 + 6 * (18 + 19 + 2 * 167)],
    ),
    # 12 rows of 10 on six workers, two rows each
    "softmax": (lambda g, p, v: popnn.softmax(g, v(FLOAT, 12, 10), p), [6 * 278]),
    "accuracy": (
        lambda g, p, v: popnn.calc_accuracy(g, v(FLOAT, 12, 10), v(UNSIGNED_INT, 12), v(INT), p),
        [6 * (2 * 57 + 22), 6 * 14],
    ),
    "loss": (
        lambda g, p, v: popnn.calc_loss(
            g, v(FLOAT, 12, 10), v(UNSIGNED_INT, 12), v(FLOAT, 12), v(FLOAT, 12, 10), p
        ),
        [6 * 200],
    ),
}


@pytest.mark.parametrize("name", LIBRARY)
def test_a_library_call_costs_what_its_vertices_do(name: str) -> None:
    build, wanted = LIBRARY[name]
    assert cycles_on_one_tile(build) == wanted


# --- codelets whose operations are counted --------------------------------------------------------


class VectorDot(Vertex):
    """The dot product of tut6, as one operation."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class LoopDot(Vertex):
    """The same as a plain loop over the elements."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        total = 0.0
        for i in range(len(self.a)):
            total += self.a[i] * self.b[i]
        self.out = total


class VectorAdd(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.a + self.b


class HalfAdd(Vertex):
    a: Input[Vector[HALF]]
    b: Input[Vector[HALF]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.a + self.b


class FloatScale(Vertex):
    x: InOut[Vector[FLOAT]]
    k: FLOAT

    def compute(self) -> None:
        self.x *= self.k


class HalfScale(Vertex):
    x: InOut[Vector[HALF]]
    k: HALF

    def compute(self) -> None:
        self.x *= self.k


class Exponential(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = np.exp(self.x)


def traced(codelet: type[Vertex], n: int, prices: str = BY_HAND) -> int:
    """Worker cycles of one vertex with vectors of `n` elements; the report must say the same."""
    graph = Graph(DEVICE)
    compute_set = graph.add_compute_set("one")
    fields: dict[str, Any] = {}
    for name, field in codelet.fields.items():
        if field.kind == "state":
            fields[name] = 2
            continue
        fields[name] = graph.add_variable(field.dtype, (n,) * field.depth, name)
        graph.set_tile_mapping(fields[name], 0)
        graph.set_initial_value(fields[name], 1)
    graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, **fields), 0)
    (group,) = compile_programs(graph, [Execute(compute_set)]).groups[compute_set.id]
    assert group.trace.stopped == ""
    cycles = trace_cycles(group.trace, changed(IPU2, codelet_prices=prices))
    engine = Engine(graph, Execute(compute_set), {"codelet_prices": prices})
    engine.load_and_run(DEVICE)
    assert engine.report.compute_sets[0].cost.compute_duration == 6 * cycles
    return cycles


@pytest.mark.parametrize("n", [16, 17, 50, 100, 143, 500, 1000])
def test_a_vectorised_dot_product_is_near_the_tutorials_estimate(n: int) -> None:
    """tut5 and tut6 of graphcore/examples give their vertex 5 + n/2."""
    assert abs(traced(VectorDot, n) / (5 + n / 2) - 1) <= 0.25


def test_a_loop_is_as_much_dearer_as_it_was_on_the_chip() -> None:
    """tut6 on an IPU: 28,300 cycles for the plain C++ vertex, 3,802 for the vectorised one, 7.4
    times as many."""
    assert 5 <= traced(LoopDot, 143, COMPILED) / traced(VectorDot, 143) <= 9


@pytest.mark.parametrize(
    "codelets", [(HalfAdd, VectorAdd), (HalfScale, FloatScale)], ids=["add", "scale"]
)
@pytest.mark.parametrize("n", [100, 1000, 4000])
def test_half_costs_half(codelets: tuple[type[Vertex], type[Vertex]], n: int) -> None:
    half, single = (traced(c, n) for c in codelets)
    assert 0.45 <= half / single <= 0.6


@pytest.mark.parametrize(
    "codelet", [VectorDot, LoopDot, VectorAdd, HalfAdd, FloatScale, Exponential]
)
def test_traced_cycles_grow_with_the_vectors(codelet: type[Vertex]) -> None:
    cycles = [traced(codelet, n) for n in (1, 2, 10, 100, 200, 400)]
    assert cycles == sorted(cycles)
    assert all(c > 5 for c in cycles)
    assert 1.8 <= (cycles[5] - 5) / (cycles[4] - 5) <= 2.2


def test_an_exponential_costs_more_than_an_addition() -> None:
    """PopLibs: six cycles for two FLOAT, against one."""
    assert 5 <= (traced(Exponential, 1000) - 5) / (traced(VectorAdd, 1000) - 5) <= 7


def codelet(compute: Callable[[Any], None], **annotations: Any) -> type[Vertex]:
    """A vertex class with these fields and this compute()."""
    return type("Made", (Vertex,), {"__annotations__": annotations, "compute": compute})


def scalars(self: Any) -> None:
    self.out = self.a * self.b


def scaled(self: Any) -> None:
    self.out = self.k * self.x


def copied(self: Any) -> None:
    self.out = self.x


def copied_by_a_loop(self: Any) -> None:
    for i in range(len(self.x)):
        self.out[i] = self.x[i]


def square_and_root(self: Any) -> None:
    self.out = self.x**2 + np.sqrt(self.x)


def root_of_each(self: Any) -> None:
    for i in range(len(self.x)):
        self.out[i] = np.sqrt(self.x[i])


def exponentials(self: Any) -> None:
    self.out = np.exp(self.x)


def chosen(self: Any) -> None:
    self.out = np.where(self.x > 0, self.x, 0)


def clipped(self: Any) -> None:
    self.out = np.clip(self.x, 0, 1)


def added(self: Any) -> None:
    self.out = self.x + self.x


def halved(self: Any) -> None:
    self.out = self.x // 2


def largest(self: Any) -> None:
    self.out = np.max(self.x)


def sorted_(self: Any) -> None:
    self.out = np.sort(self.x)


X, OUT = Input[Vector[FLOAT]], Output[Vector[FLOAT]]
HX, HOUT = Input[Vector[HALF]], Output[Vector[HALF]]
IX, IOUT = Input[Vector[INT]], Output[Vector[INT]]


def triad(self: Any) -> None:
    self.out = self.x + self.k * self.y


def triad_of_three(self: Any) -> None:
    self.out = self.x + self.x * self.y


def triad_by_a_loop(self: Any) -> None:
    for i in range(len(self.x)):
        self.out[i] = self.x[i] + self.k * self.y[i]


def softmax(self: Any) -> None:
    e = np.exp(self.x - np.max(self.x))
    self.out = e / np.sum(e)


def matrix(self: Any) -> None:
    self.out[:10] = np.reshape(self.x, (10, 10)) @ self.x[:10]


@pytest.mark.parametrize(
    ("compute", "fields", "by_hand", "compiled"),
    [
        # docs/model.md, row by row, for vectors of 100: 50 data paths of FLOAT, 25 of HALF; 5 to
        # start, and compiled 6 for each loop over vectors
        (
            scalars,
            {"a": Input[FLOAT], "b": Input[FLOAT], "out": Output[FLOAT]},
            5 + 2 + 1 + 1,
            5 + 2 + 1 + 1,
        ),
        (
            scalars,
            {"a": Input[HALF], "b": Input[HALF], "out": Output[HALF]},
            5 + 2 + 1 + 3,
            5 + 2 + 1 + 3,
        ),
        (scaled, {"k": Input[FLOAT], "x": X, "out": OUT}, 5 + 1 + 50, 5 + 1 + 6 + 50 * 3),
        (copied, {"x": X, "out": OUT}, 5 + 50, 5 + 6 + 50 * 2),
        (copied_by_a_loop, {"x": X, "out": OUT}, 5 + 200, 5 + 200),
        (copied_by_a_loop, {"x": HX, "out": HOUT}, 5 + 400, 5 + 400),
        (
            square_and_root,
            {"x": X, "out": OUT},
            5 + 50 * (1 + 10 + 1),
            5 + 6 + 50 * (1 + 1 + 10 + 1 + 1),
        ),
        (root_of_each, {"x": X, "out": OUT}, 5 + 100 * (1 + 5 + 1), 5 + 100 * (1 + 5 + 1)),
        (exponentials, {"x": HX, "out": HOUT}, 5 + 25 * 4, 5 + 6 + 25 * (1 + 4 + 1)),
        (chosen, {"x": X, "out": OUT}, 5 + 100 + 100 * 5, 5 + 6 + 50 + 100 + 100 * 5 + 50),
        (clipped, {"x": X, "out": OUT}, 5 + 50 * 2, 5 + 6 + 50 * (1 + 2 + 1)),
        (added, {"x": IX, "out": IOUT}, 5 + 100, 5 + 6 + 50 + 100 + 50),
        (halved, {"x": IX, "out": IOUT}, 5 + 100 * 277, 5 + 6 + 50 + 100 * 277 + 50),
        (largest, {"x": X, "out": Output[FLOAT]}, 5 + 50 + 1, 5 + 6 + 50 * 2 + 1),
        (sorted_, {"x": X, "out": OUT}, 5 + 100 * 3, 5 + 6 + 50 + 100 * 3 + 6 + 50),
        # a product and a sum: one instruction by hand, if one factor is a number
        (triad, {"k": FLOAT, "x": X, "y": X, "out": OUT}, 5 + 50, 5 + 6 + 50 * 5),
        (triad, {"k": HALF, "x": HX, "y": HX, "out": HOUT}, 5 + 25, 5 + 6 + 25 * 5),
        (triad, {"k": INT, "x": IX, "y": IX, "out": IOUT}, 5 + 200, 5 + 6 + 50 * 3 + 200),
        (triad_of_three, {"x": X, "y": X, "out": OUT}, 5 + 100, 5 + 6 + 50 * 5),
        (triad_by_a_loop, {"k": FLOAT, "x": X, "y": X, "out": OUT}, 5 + 100 * 4, 5 + 100 * 5),
        (triad_by_a_loop, {"k": HALF, "x": HX, "y": HX, "out": HOUT}, 5 + 100 * 7, 5 + 100 * 7),
        (triad_by_a_loop, {"k": INT, "x": IX, "y": IX, "out": IOUT}, 5 + 100 * 5, 5 + 100 * 5),
        # a maximum; a difference, an exponential and their sum; a division. Registers hold 7 paths
        # of what the last two share
        (
            softmax,
            {"x": X, "out": OUT},
            5 + 50 * (1 + 1 + 6 + 1 + 10),
            5 + 3 * 6 + 50 * (1 + 1) + 50 * (1 + 1 + 6 + 1) + 43 + 43 + 50 * (10 + 1),
        ),
        # ten results of a loop each; then they are stored
        (matrix, {"x": X, "out": Output[Vector[FLOAT]]}, 5 + 50, 5 + 10 * (6 + 5 * 4) + 6 + 5),
    ],
)
def test_the_table_of_learners_codelets(
    compute: Callable[[Any], None], fields: dict[str, Any], by_hand: int, compiled: int
) -> None:
    made = codelet(compute, **fields)
    assert (traced(made, 100, BY_HAND), traced(made, 100, COMPILED)) == (by_hand, compiled)
