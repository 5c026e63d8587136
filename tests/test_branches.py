"""Codelets whose branches depend on data: scalar loops.

Whichever way they run, the bits are those of the plain vertex loop, and a vertex costs what it did
and no more.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from branching_codelets import (
    Beyond,
    Costly,
    CountTo,
    Histogram,
    NestedWhile,
    Returns,
    RowOf,
    SelectionSort,
    ThreeWays,
    Unlikely,
)
from codelets import FlipWhereNegative
from hypothesis import given, settings, strategies as st
from random_codelets import check_random_branches, check_random_codelet, check_random_elementwise
from vertex_loop import (
    RANDOMLY,
    CodeletRun,
    line_of,
    normal,
    run_codelet,
)

from bench.codelets import Collatz, FirstPast
from ipu_teach import FLOAT, INT, InOut, Input, Output, Vector, Vertex
from ipu_teach.compile.scalar import scalar_code
from ipu_teach.engine import ways as ways_of
from ipu_teach.engine.batch import batch_plan
from ipu_teach.engine.batch.batch_plan import BatchPlan
from ipu_teach.engine.batch.chunk import Chunk
from ipu_teach.engine.machine import Machine
from ipu_teach.engine.scalar.run import ScalarRun
from ipu_teach.errors import CodeletError
from ipu_teach.types import Array


def both(
    codelet: type[Vertex], way: str, /, **fields: Array | list[int] | list[float]
) -> CodeletRun:
    """Run it fast and in the plain loop, compare every bit, and see which way it went."""
    fast, slow = (run_codelet(codelet, loop, strict=not loop, **fields) for loop in (False, True))
    assert fast.report.ways() == {codelet.__name__: way}, fast.report.unbatched()
    assert fast.report.cycles_by_codelet() == slow.report.cycles_by_codelet()
    for name in fields:
        np.testing.assert_array_equal(
            np.ascontiguousarray(fast.values[name]).view(np.uint8),
            np.ascontiguousarray(slow.values[name]).view(np.uint8),
        )
    return fast


# --- a few branches -------------------------------------------------------------------------------


def test_a_branch_says_where_it_is() -> None:
    x = normal(20)
    got = both(FlipWhereNegative, "scalar", x=x)
    np.testing.assert_array_equal(got.x, np.abs(x))
    line = (
        f"codelets.py, line {line_of(FlipWhereNegative, 'if self.x')} (FlipWhereNegative.compute)"
    )
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


def test_a_branch_stores_only_for_the_vertices_that_take_it() -> None:
    x, before, flag = normal(9, 4), normal(9, 4), np.arange(9) % 3
    got = both(Leaky, "scalar", x=x, flag=flag, out=before)
    half = x * np.float32(0.5)
    for row in range(9):
        shifted = [before[row, 0], 7, *half[row, 1:3]]
        np.testing.assert_array_equal(
            got.out[row], np.maximum(half[row], 0) if flag[row] else np.float32(shifted)
        )


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
    np.testing.assert_array_equal(both(Again, "scalar", x=x).x, expected)


def test_a_vertex_costs_the_way_that_it_took() -> None:
    """Start 5, load, compare, branch; if it is taken load again, multiply, add and store. One
    vertex a tile, six threads."""
    for x, cycles in (([1.0, -1.0, 0.0], [72, 48, 48]), ([-1.0, -1.0, -1.0], [48, 48, 48])):
        got = both(Costly, "scalar", x=x)
        assert got.report.compute_sets[0].cost.compute_cycles.tolist() == cycles
        assert got.report.unknown_codelets == ()
        assert got.report.cycles_by_codelet() == {"Costly": sum(cycles) // 6}


def test_each_execution_has_its_own_cycles() -> None:
    got = run_codelet(Costly, False, times=3, x=[0.5, -1.0, -1.0])
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
    assert both(Narrow, "scalar", x=[1, 2, 3], out=[0, 0, 0]).out.tolist() == [1, 1, 1]
    for loop in (False, True):
        with pytest.raises(CodeletError, match="OverflowError") as caught:
            run_codelet(Narrow, loop, strict=False, x=[1, 200, 3], out=[0, 0, 0])
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
    np.testing.assert_array_equal(
        both(Shared, "scalar", flag=[flag], x=x).x, x if flag == 0 else x * 2
    )


# --- loops ----------------------------------------------------------------------------------------


class MixedTotal(Vertex):
    """A Python number until something is added, and a numpy number after: 0.1 * 0.7 is not the same
    for both."""

    x: Input[Vector[FLOAT]]
    flags: Input[Vector[INT]]
    out: Output[FLOAT]
    wide: Output[FLOAT]

    def compute(self):
        total = 0.1
        for value, flag in zip(self.x, self.flags, strict=True):
            if flag:
                total += value
        self.out = total * 0.7 + total
        self.wide = total if total > 0.1 else -total


COUNTS = [1, 7, 300, 2000]


@pytest.mark.parametrize("count", COUNTS)
def test_scalar_loops_equal_the_plain_one(count: int) -> None:
    source = np.random.default_rng(count)

    def floats(*shape: int) -> Array:
        return source.standard_normal((count, *shape)).astype(np.float32)

    def ints(low: int, high: int, *shape: int) -> Array:
        return source.integers(low, high, (count, *shape)).astype(np.int32)

    zero = np.zeros(count)
    got = both(Collatz, "scalar", n=ints(1, 1000), out=zero)
    assert got.report.unknown_codelets == ()
    x = np.abs(floats(30))
    both(FirstPast, "scalar", x=x, limit=np.abs(floats()) * 20, out=zero)
    both(ThreeWays, "scalar", x=floats(20), y=floats(20))
    sorted_ = both(SelectionSort, "scalar", x=floats(9)).x
    assert np.all(np.diff(sorted_) >= 0)
    both(NestedWhile, "scalar", x=ints(-5, 400, 6), out=ints(0, 9, 6))
    both(MixedTotal, "scalar", x=floats(9), flags=ints(0, 5, 9) // 4, out=zero, wide=zero)
    both(CountTo, "scalar", n=ints(-1, 12), x=floats(12), out=zero, last=zero)
    both(Returns, "scalar", x=floats(6), out=zero)
    histogram = both(Histogram, "scalar", x=ints(-9, 9, 11), out=ints(0, 1, 4)).out
    assert histogram.sum(axis=1).tolist() == [11] * count
    both(RowOf, "scalar", m=floats(3, 5), i=ints(-3, 3, 2), out=zero)


def collatz(n: int) -> tuple[int, int]:
    """(steps, cycles): start 5, load, store; each turn compare, branch, modulo 292, compare,
    branch, and count."""
    steps, cycles = 0, 5 + 1 + 1
    while n != 1:
        cycles += 2 + 292 + 2 + 1 + (277 if n % 2 == 0 else 2)
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps, cycles + 2


def test_a_vertex_costs_its_own_turns() -> None:
    numbers = list(range(1, 400))
    got = run_codelet(Collatz, False, n=numbers, out=[0] * len(numbers))
    expected = [collatz(n) for n in numbers]
    assert got.out.tolist() == [steps for steps, _ in expected]
    assert got.report.cycles_by_codelet() == {"Collatz": sum(cycles for _, cycles in expected)}


def test_what_is_not_come_to_raises_nothing_and_an_error_names_its_vertex() -> None:
    x = np.array([[0, 1], [3, 0], [-7, 5], [0, 0], [12, 4]])
    assert both(Unlikely, "scalar", x=x, out=[9] * 5).out.tolist() == [13, 4, 0, 0, 15]
    x[3, 1] = -200
    for loop in (False, True):
        with pytest.raises(CodeletError, match="too cold") as caught:
            run_codelet(Unlikely, loop, strict=False, x=x, out=[0] * 5)
        assert "vertex 3 (Unlikely" in caught.value.where
        assert f"line {line_of(Unlikely, 'raise ValueError')}" in caught.value.where


def test_an_index_out_of_bounds_is_found() -> None:
    x = normal(5, 4)
    got = both(Beyond, "scalar", x=x, i=[0, 3, -1, -4, 2], out=[0] * 5)
    np.testing.assert_array_equal(got.out, x[range(5), [0, 3, 3, 0, 2]])
    with pytest.raises(CodeletError, match="IndexError") as caught:
        run_codelet(Beyond, False, x=x, i=[0, 3, 4, 0, 0], out=[0] * 5)
    assert "vertex 2 (Beyond" in caught.value.where


class Endless(Vertex):
    """Python's integers have no end."""

    n: Input[INT]
    out: Output[INT]

    def compute(self):
        product = 1
        for _ in range(self.n):
            product = product * 1_000_003
        self.out = product % 1009


def test_pythons_integers_have_no_end() -> None:
    n = [3, 2, 0, 30]
    got = both(Endless, "scalar", n=n, out=[0] * 4)
    assert got.out.tolist() == [pow(1_000_003, k, 1009) for k in n]
    assert got.report.unknown_codelets == ()


class Maths(Vertex):
    """Python's own functions of single numbers, and lists of constants."""

    x: Input[Vector[FLOAT]]
    i: Input[INT]
    out: Output[FLOAT]
    whole: Output[INT]
    WEIGHTS = (0.25, 0.5, 3.0)
    STEPS = [3, -1, 7]

    def compute(self):
        total = 0.0
        for value in self.x:
            total += math.sqrt(abs(value)) * self.WEIGHTS[self.i % 3]
            if value > 0:
                total = total + math.exp(-value) + float(value) * 0.1 + math.atan2(value, 2)
        self.out = math.log1p(total)
        self.whole = math.floor(total) + self.STEPS[self.i % 3]


def test_pythons_math() -> None:
    x, i = normal(200, 7), np.arange(200)
    got = both(Maths, "scalar", x=x, i=i, out=np.zeros(200), whole=np.zeros(200, int))
    for row in range(200):
        total = 0.0
        for value in x[row]:
            total += math.sqrt(abs(value)) * Maths.WEIGHTS[row % 3]
            if value > 0:
                total = total + math.exp(-value) + float(value) * 0.1 + math.atan2(value, 2)
        assert got.out[row] == np.float32(math.log1p(total))
        assert got.whole[row] == math.floor(total) + Maths.STEPS[row % 3]


class Root(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self):
        self.out = math.sqrt(self.x) if self.x > -2 else 0.0


def test_a_domain_error_is_that_of_its_vertex() -> None:
    assert both(Root, "scalar", x=[4, -3, 9], out=[0, 0, 0]).out.tolist() == [2, 0, 3]
    with pytest.raises(CodeletError, match="ValueError") as caught:
        run_codelet(Root, False, strict=False, x=[4, -3, -1, 9], out=[0] * 4)
    assert (
        "vertex 2 (Root" in caught.value.where
        and f"line {line_of(Root, 'math.sqrt')}" in caught.value.where
    )


REFUSED = {
    "self.x[0] = any([v > 1 for v in self.x]) if self.x[0] > 0 else 0": "any() of a list",
    "t = []\n  for v in self.x:\n   if v > 0: t.append(v)": (
        "a list that grows does not run as a scalar loop (write np"
    ),
    "t = [v for v in self.x if v > 0]\n  self.x[0] = t[0]": "a list that grows",
    "t = self.WEIGHTS\n  if self.x[0] > 0: t[0] = 2": (
        "a list that all vertices share does not run as a scalar"
    ),
    "for v in sorted(self.x): self.x[0] = v": (
        "sorted() does not run as a scalar loop (write np.sort(…)"
    ),
    "while self.x[0] > 0:\n   self.x[0] -= 1\n  else: self.x[0] = 3": (
        "a loop's else does not run as a scalar loop"
    ),
    "if self.x[0] > 0: self.x = np.random.rand(2)": "np.random.rand()",
    "t = self.x if self.x[0] > 0 else np.zeros(3)\n  self.x[0] = t[0]": "a choice of arrays",
    "if self.x[0] > 0: self.x.sort()": (
        ".sort does not run as a scalar loop (write np.sort(…) instead)"
    ),
    "if self.x[0] > 0: self.x[0] = np.count_nonzero(self.x)": (
        "np.count_nonzero() does not run as a scalar loop (write (…)"
    ),
    "if self.x[0] > 0: self.x[0] = np.average(self.x, weights=[1])": (
        "(write (x * w).sum() / w.sum() instead)"
    ),
    "if self.x[0] > 0:\n   a, b = 1, 2, 3\n   self.x[0] = a + b": "an assignment to several names",
    "if self.x[0] > 0: self.x[0] = math.isclose(self.x[0], 1, rel_tol=0.1)": (
        "a named argument of math.isclose()"
    ),
    "d = {}\n  d[int(self.x[0])] = 1": "a dict does not run as a scalar loop (write np.zeros(n)",
}


@pytest.mark.parametrize("body", REFUSED)
def test_why_a_codelet_does_not_run_as_a_scalar_loop(body: str, tmp_path: Path) -> None:
    file = tmp_path / "refused.py"
    head = (
        "from ipu_teach import *\nimport math\nimport numpy as np\nclass Refused(Vertex):\n x: "
        "InOut[Vector[FLOAT]]\n WEIGHTS = [1, 2]\n"
    )
    text = f"{head} def compute(self):\n  {body}\n"
    file.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("refused", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    reason = scalar_code(module.Refused)
    assert isinstance(reason, str) and REFUSED[body] in reason and "refused.py, line" in reason


# --- at random ------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of lanes that had to stop
@settings(RANDOMLY, max_examples=60)
@given(st.randoms(use_true_random=False))
def test_random_branches_equal_the_vertex_loop(rng: Random) -> None:
    check_random_branches(rng)


def test_the_random_tests_take_every_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the tests named random look at what they are for."""
    ways: Counter[str] = Counter()

    def counted(owner: Any, name: str, way: Callable[..., str]) -> None:
        plain = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = plain(*args, **kwargs)
            ways[way(result, *args)] += 1
            return result

        monkeypatch.setattr(owner, name, call)

    counted(
        ways_of,
        "run_loop",
        lambda result, site, *args: "loop" if site.group.way == "loop" else "referee",
    )
    counted(ScalarRun, "run", lambda result, *args: "scalar")
    counted(
        ways_of,
        "bind_across_vertices",
        lambda result, *args: "flat" if result is not None else "not flat",
    )
    counted(ways_of, "bind", lambda result, group, *args: "batch")
    counted(ways_of, "run_parallel", lambda result, *args: "threads")
    counted(
        Machine,
        "_shuffled",
        lambda result, engine, group: "in order" if engine.mode.shuffle is None else "shuffled",
    )
    counted(
        batch_plan,
        "place_group",
        lambda result, *args: "view" if result.in_place else "no view",
    )
    counted(
        Chunk,
        "_gather",
        lambda result, part, root, *rest: "nested" if root in part.placement.column else "gather",
    )
    counted(
        BatchPlan,
        "bind",
        lambda result, whole: "whole" if whole.buffers.capacity == len(whole.rows) else "chunks",
    )
    checks = [
        check_random_codelet,
        check_random_elementwise,
        check_random_branches,
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(40):
            for check in checks:
                check(Random(seed))
    every = {
        "loop",
        "scalar",
        "flat",
        "batch",
        "threads",
        "shuffled",
        "in order",
        "view",
        "nested",
        "gather",
        "whole",
        "chunks",
    }
    assert min(ways[way] for way in every) >= 5, ways
