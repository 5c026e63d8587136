"""The cycles of scalar loops beside those of a counter that shares nothing with the walk: at least
40 codelets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import branching_codelets as branching
import numpy as np
import pytest
from pricing import priced
from scalar_vertices import ELEMENT_LOOPS, codelet_and_values, modelled_cycles

from bench.codelets import Collatz, FirstPast
from ipu_teach import FLOAT, InOut, Input, Vector, Vertex
from ipu_teach.compile.scalar.writer import BEYOND, COLUMN, LOOP
from ipu_teach.cost.symbols import Symbol
from ipu_teach.cost.traced import OPERATIONS, array_cycles
from ipu_teach.engine.scalar import run
from ipu_teach.target import PRICES, make_target
from ipu_teach.types import Array

RNG = np.random.default_rng(11)


def floats(*shape: int) -> Array:
    return RNG.standard_normal((9, *shape)).astype(np.float32)


def ints(low: int, high: int, *shape: int) -> Array:
    return RNG.integers(low, high, (9, *shape)).astype(np.int32)


NONE = np.zeros(9, int)
OTHERS: list[tuple[type[Vertex], dict[str, Array]]] = [
    (Collatz, {"n": ints(1, 999), "out": NONE}),
    (FirstPast, {"x": np.abs(floats(30)), "limit": np.abs(floats()) * 20, "out": NONE}),
    (branching.ThreeWays, {"x": floats(20), "y": floats(20)}),
    (branching.SelectionSort, {"x": floats(9)}),
    (branching.NestedWhile, {"x": ints(-5, 400, 6), "out": ints(0, 9, 6)}),
    (branching.CountTo, {"n": ints(-1, 12), "x": floats(12), "out": NONE, "last": NONE}),
    (branching.Returns, {"x": floats(6), "out": NONE}),
    (branching.Histogram, {"x": ints(-9, 9, 11), "out": ints(0, 1, 4)}),
    (branching.RowOf, {"m": floats(3, 5), "i": ints(-3, 3, 2), "out": NONE}),
    (branching.Unlikely, {"x": np.abs(ints(0, 20, 3)), "out": NONE}),
    (branching.Costly, {"x": floats()}),
    (branching.Beyond, {"x": floats(4), "i": ints(-4, 4), "out": NONE}),
    (branching.Guarded, {"x": floats(5), "i": ints(-3, 8), "out": NONE}),
]


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("name", ELEMENT_LOOPS)
def test_students_codelets_cost_what_a_third_counter_says(name: str, prices: str) -> None:
    codelet, values = codelet_and_values(name, 9, 7)
    with np.errstate(all="ignore"):
        assert modelled_cycles(codelet, values, prices) == priced(codelet, values, prices)


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize(
    "number", range(len(OTHERS)), ids=[f"{c.__module__}.{c.__name__}" for c, _ in OTHERS]
)
def test_so_do_those_of_other_tests(number: int, prices: str) -> None:
    codelet, values = OTHERS[number]
    with np.errstate(all="ignore"):
        assert modelled_cycles(codelet, values, prices) == priced(codelet, values, prices)


def test_there_are_enough_of_them() -> None:
    assert len(ELEMENT_LOOPS) + len(OTHERS) >= 40


def softmax(self: Any) -> None:
    e = np.exp(self.x - np.max(self.x))
    self.y = e / np.sum(e)


def triad(self: Any) -> None:
    self.y = self.y + 3 * self.x
    self.y[:3] = self.x[:3] * self.x[:3] + self.x[:3]


def products(self: Any) -> None:
    self.y[0] = self.x @ self.y + np.sum(self.x * self.y)


def at_once(self: Any) -> None:
    self.work()


def if_it_is_a_number(self: Any) -> None:
    if self.x[0] == self.x[0]:
        self.work()


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("work", [softmax, triad, products])
def test_vectors_cost_the_same_traced_and_walked_in_every_way(work: Any, prices: str) -> None:
    fields = {"x": Input[Vector[FLOAT]], "y": InOut[Vector[FLOAT]]}
    one, other = (
        type("Made", (Vertex,), {"__annotations__": fields, "compute": f, "work": work})
        for f in (at_once, if_it_is_a_number)
    )
    values = {"x": floats(37), "y": floats(37)}
    decision = 2 + 1 + 1  # two loads, a comparison, and what depends on it
    wanted = [cycles + decision for cycles in modelled_cycles(one, values, prices)]
    for way in ("python", "compiled"):
        with run.chosen(way):
            assert modelled_cycles(other, values, prices) == wanted
    assert modelled_cycles(other, values, prices, vertex_loop=True) == wanted


@pytest.mark.parametrize("prices", PRICES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "bool"])
def test_a_price_for_n_elements_is_a_text_that_gives_that_of_a_number(
    prices: str, dtype: str
) -> None:
    target, kind = replace(make_target(), codelet_prices=prices), np.dtype(dtype)
    for name in (
        *OPERATIONS,
        "add",
        "where",
        "clip",
        "each",
        "qr",
        "solve",
        COLUMN,
        BEYOND,
        LOOP,
        "",
    ):
        text = str(3 * array_cycles(name, kind, Symbol("a + b"), target))
        for n in (0, 1, 2, 5, 33):
            assert eval(text, {"a": n, "b": 2}) == 3 * array_cycles(name, kind, n + 2, target), text
