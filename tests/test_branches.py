"""Codelets whose branches depend on data: a batch for each way through them, and in masked lanes where there are too many.

Whichever way they run, the bits are those of the plain vertex loop, and a vertex costs what it did and no more.
"""

from __future__ import annotations

import numpy as np
import pytest
from codelets import FlipWhereNegative
from test_exact import Ran, line_of, normal, run

from ipu_teach import FLOAT, INT, InOut, Input, Output, Vector, Vertex
from ipu_teach.errors import CodeletError
from ipu_teach.types import Array


def both(codelet: type[Vertex], way: str, /, **fields: Array | list[int] | list[float]) -> Ran:
    """Run it fast and in the plain loop, compare every bit, and see which way it went."""
    fast, slow = (run(codelet, loop, strict=not loop, **fields) for loop in (False, True))
    assert fast.report.ways() == {codelet.__name__: way}, fast.report.unbatched()
    for name in fields:
        np.testing.assert_array_equal(
            np.ascontiguousarray(fast.values[name]).view(np.uint8), np.ascontiguousarray(slow.values[name]).view(np.uint8)
        )
    return fast


# --- one batch for each way -------------------------------------------------------------------------------------------


def test_a_branch_runs_one_way_at_a_time_and_says_where_it_is() -> None:
    x = normal(20)
    got = both(FlipWhereNegative, "fork", x=x)
    np.testing.assert_array_equal(got.x, np.abs(x))
    line = f"codelets.py, line {line_of(FlipWhereNegative, 'if self.x')} (FlipWhereNegative.compute)"
    reason = got.report.unbatched()["FlipWhereNegative"]
    assert line in reason and "depends on data" in reason


class Leaky(Vertex):
    x: Input[Vector[FLOAT]]
    flag: Input[INT]
    out: Output[Vector[FLOAT]]

    def compute(self):
        y = self.x * 0.5
        if self.flag:
            self.out = np.maximum(y, 0)
        else:
            y[0] = 7
            self.out[1:] = y[:-1]


def test_each_way_stores_only_for_the_vertices_that_take_it() -> None:
    x, before, flag = normal(9, 4), normal(9, 4), np.arange(9) % 3
    got = both(Leaky, "fork", x=x, flag=flag, out=before)
    half = x * np.float32(0.5)
    for row in range(9):
        shifted = [before[row, 0], 7, *half[row, 1:3]]
        np.testing.assert_array_equal(got.out[row], np.maximum(half[row], 0) if flag[row] else np.float32(shifted))


class Again(Vertex):
    """What it writes would send it the other way."""

    x: InOut[Vector[FLOAT]]

    def compute(self):
        self.x += 1
        if self.x[0] > 0:
            self.x[0] = -10
        elif self.x[1] > 0 and self.x[2] > 0:
            self.x[0] = 10


def test_a_vertex_goes_one_way_only() -> None:
    x = normal(40, 3) * 2
    expected = x + 1
    for row in expected:
        row[0] = -10 if row[0] > 0 else 10 if row[1] > 0 and row[2] > 0 else row[0]
    np.testing.assert_array_equal(both(Again, "fork", x=x).x, expected)


class Costly(Vertex):
    x: InOut[FLOAT]

    def compute(self):
        if self.x > 0:
            self.x = self.x * 2 + 1


def test_a_vertex_costs_the_way_that_it_took() -> None:
    """Start 5, load, compare, branch; if it is taken load again, multiply, add and store. One vertex a tile, six threads."""
    for x, cycles in (([1.0, -1.0, 0.0], [72, 48, 48]), ([-1.0, -1.0, -1.0], [48, 48, 48])):
        got = both(Costly, "fork", x=x)
        assert got.report.compute_sets[0].cost.compute_cycles.tolist() == cycles
        assert got.report.unknown_codelets == ()
        assert got.report.cycles_by_codelet() == {"Costly": sum(cycles) // 6}


def test_each_execution_has_its_own_cycles() -> None:
    got = run(Costly, False, times=3, x=[0.5, -1.0, -1.0])
    assert got.x.tolist() == [11, -1, -1]
    assert [step.kind for step in got.report.steps()] == ["Execute"] * 3
    assert got.report.compute_sets[0].executions == 3
    assert got.report.compute_cycles_per_tile.tolist() == [216, 144, 144]


class Narrow(Vertex):
    x: Input[INT]
    out: Output[INT]

    def compute(self):
        if self.x > 100:
            self.out = self.x * np.int64(2_000_000_000)
        else:
            self.out = 1


def test_a_way_that_is_not_taken_raises_nothing() -> None:
    assert both(Narrow, "fork", x=[1, 2, 3], out=[0, 0, 0]).out.tolist() == [1, 1, 1]
    for loop in (False, True):
        with pytest.raises(CodeletError, match="OverflowError") as caught:
            run(Narrow, loop, strict=False, x=[1, 200, 3], out=[0, 0, 0])
        assert "vertex 1 (Narrow" in caught.value.where


class Shared(Vertex):
    """The branch is the same for all vertices that read the same flag."""

    flag: Input[FLOAT]
    x: InOut[Vector[FLOAT]]

    def compute(self):
        if self.flag:
            self.x *= 2


@pytest.mark.parametrize("flag", [0.0, 1.0, np.nan])
def test_a_branch_on_what_all_vertices_share(flag: float) -> None:
    x = normal(6, 5)
    np.testing.assert_array_equal(both(Shared, "fork", flag=[flag], x=x).x, x if flag == 0 else x * 2)
