"""Rounding or logic: an answer that misses its tolerance is tried in float64, and tolerances are
derived."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from answers import EXERCISES

from ipu_course import check
from ipu_course.checking.precision import ROOM, Precision, in_float64
from ipu_course.checking.time_limit import as_it_was
from ipu_course.checking.verdicts import Kind
from ipu_course.lesson03 import checks as lesson03
from ipu_teach import FLOAT, HALF, Engine, Graph, Input, IPUModel, Output, Vertex
from ipu_teach.poplibs import popops
from ipu_teach.program import Copy, Execute, Sequence

COARSER = {FLOAT: HALF}  # the next type that an exercise could have been declared in
PRECISE = [exercise for exercise in EXERCISES if exercise.precision is not None]


class Third(Vertex):
    """A codelet with arithmetic and narrow types of its own."""

    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = np.float32(self.x) / 3


def thirds() -> Any:
    """1/3 by a codelet, and 0.1 in HALF squared by the library."""
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph, program = Graph(device), Sequence()
    one, third = graph.add_variable(FLOAT, ()), graph.add_variable(FLOAT, ())
    tenth, there = graph.add_variable(HALF, (3, 2)), graph.add_variable(HALF, (2, 3))
    for tile, tensor in enumerate((one, third, tenth[0], tenth[1:], there)):
        graph.set_tile_mapping(tensor, tile % 2)
    graph.set_initial_value(one, 1)
    graph.set_initial_value(tenth, 0.1)
    compute_set = graph.add_compute_set()
    graph.set_tile_mapping(graph.add_vertex(compute_set, Third, x=one, out=third), 0)
    program.add(Execute(compute_set))
    program.add(Copy(tenth.transpose(), there))
    graph.create_host_read("third", third)
    graph.create_host_read("squared", popops.square(graph, there, program))
    engine = Engine(graph, program)
    engine.load(device)
    engine.run()
    return engine._peek("third"), engine._peek("squared"), engine.report.total_cycles


def test_a_machine_that_holds_float64_leaves_nothing_behind() -> None:
    third, there, cycles = thirds()
    assert third.dtype == np.float32 and third == np.float32(1 / 3) and there.dtype == np.float16
    with as_it_was(), in_float64():
        wide_third, wide_there, _ = thirds()
        assert np.zeros(1, np.float16).dtype == np.float64
    assert wide_third == 1 / 3 and wide_third.dtype == np.float64
    assert np.array_equal(wide_there, np.full((2, 3), 0.1 * 0.1))
    assert (
        FLOAT.numpy == np.float32
        and HALF.numpy == np.float16
        and np.zeros(1, np.float16).dtype.itemsize == 2
    )
    again = thirds()
    assert again[0] == third and np.array_equal(again[1], there) and again[2] == cycles


def test_many_vertices_at_once_hold_float64_too() -> None:
    """Many rows on 13 tiles, which one array call adds up: 0.1 as float64 has it, and not FLOAT."""
    device = IPUModel(tiles_per_ipu=13).create_device()
    with as_it_was(), in_float64():
        graph, program = Graph(device), Sequence()
        rows = graph.add_variable(FLOAT, (26, 300), "rows")
        for row in range(26):
            graph.set_tile_mapping(rows[row], row // 2)
        graph.set_initial_value(rows, 0.1)
        graph.create_host_read("sum", popops.reduce(graph, rows, [0, 1], program))
        engine = Engine(graph, program)
        engine.load_and_run(device)
        assert engine.read_tensor("sum") == pytest.approx(780, rel=1e-13)


@pytest.mark.parametrize("name", ["SOFTMAX", "LENGTHS", "MOMENTS", "KEPT"])
def test_tolerances_of_programs_are_derived_too(name: str) -> None:
    precision: Precision = getattr(lesson03, name)
    assert max(precision.losses(FLOAT)) < precision.tolerance < max(precision.losses(HALF)) / 100


@pytest.mark.parametrize("exercise", PRECISE, ids=lambda e: e.name)
def test_a_tolerance_is_what_the_declared_type_needs_and_refuses_the_next_coarser(
    exercise: Any,
) -> None:
    precision: Precision = exercise.precision
    assert (
        max(precision.losses(precision.dtype))
        < precision.tolerance
        < max(precision.losses(COARSER[precision.dtype]))
    )

    def answer_in(dtype: Any) -> Any:
        return lambda *case: precision.formula(*(np.array(part, dtype) for part in case))

    assert check(exercise.name, answer_in(np.float64)) and check(
        exercise.name, answer_in(precision.dtype.numpy)
    )
    coarse = COARSER[precision.dtype].numpy
    refused = check(
        exercise.name, lambda *case: precision.formula(*(np.array(part, coarse) for part in case))
    )
    assert refused.kind is Kind.NOT_YET


def test_a_tolerance_as_it_was_derived_by_hand() -> None:
    """1/3 in FLOAT is 11184811 / 2**25, off by a third of 2**-25; a single rounding is granted at
    the least."""
    precision = Precision(lambda x: x / 3, ([1.0],))
    (loss,) = precision.losses(FLOAT)
    assert loss == pytest.approx(2**-25) and precision.tolerance == ROOM * 2**-24


def test_what_cannot_be_told_is_not_said() -> None:
    """An answer that breaks in float64 gets the verdict without a reason of this kind."""

    def share(work: Any) -> float:
        if np.float16(1).itemsize != 2:
            raise ValueError
        return 0.5 + 0.001 * len(work)

    assert "float64" not in repr(check("01.3", share))
