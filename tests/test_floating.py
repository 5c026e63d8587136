"""Floating-point exceptions: what stops a run, where it says so, and what a half that overflows
becomes."""

from __future__ import annotations

import numpy as np
import pytest

from ipu_teach import FLOAT, HALF, INT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.errors import FloatingPointTrapError
from ipu_teach.poplibs import popops
from ipu_teach.program import Execute, Sequence
from ipu_teach.types import Array, DType

DEVICE = IPUModel(tiles_per_ipu=3).create_device()
TRAPS = {"debug.floatPointOpException": True}
NAN = {"debug.nanOverflowMode": True}
STOPS = {"debug.nanOverflowException": True}
INF = float("inf")


def computed(
    name: str, a: object, b: object, dtype: type[DType], options: dict[str, bool] | None
) -> Array:
    """What popops makes of two vectors."""
    graph, prog = Graph(DEVICE.target), Sequence()
    tensors = []
    for label, values in (("a", a), ("b", b)):
        tensors.append(graph.add_variable(dtype, np.shape(values), label))
        graph.set_initial_value(tensors[-1], values)
        graph.set_tile_mapping(tensors[-1], 1)
    out = getattr(popops, name)(graph, *tensors, prog)
    graph.create_host_read("out", out)
    engine = Engine(graph, prog, options=options)
    engine.load_and_run(DEVICE)
    return engine.read_tensor("out")


@pytest.mark.parametrize(
    ("name", "a", "b", "what"),
    [
        ("div", [1.0, 1], [2.0, 0], "divide by zero"),
        ("div", [1.0, 0], [2.0, 0], "invalid value"),
        ("sub", [1.0, INF], [2.0, INF], "invalid value"),
        ("mul", [1.0, 6e4], [2.0, 6e34], "overflow"),
    ],
)
def test_each_exception_stops_the_run_and_only_if_asked(
    name: str, a: list[float], b: list[float], what: str
) -> None:
    b16 = np.minimum(b, 6e4) if INF not in b else b
    for dtype, second in ((FLOAT, b if what != "overflow" else [2.0, 6e34]), (HALF, b16)):
        first = [1.0, 6e30] if what == "overflow" and dtype is FLOAT else a
        with pytest.raises(FloatingPointTrapError, match=f"stopped the run: {what} encountered"):
            computed(name, first, second, dtype, TRAPS)
        got = computed(name, first, second, dtype, None)
        assert np.isfinite(got[0]) and not np.isfinite(got[1])


def test_what_is_exact_or_only_small_goes_on() -> None:
    for dtype in (FLOAT, HALF):
        assert computed("div", [1.0, INF, 1e-7], [2.0, 3, 6e4], dtype, TRAPS).tolist() == [
            0.5,
            INF,
            pytest.approx(0, abs=1e-7),
        ]
    assert computed("mul", [2**30], [4], INT, TRAPS).tolist() == [0]  # integers wrap


def test_halves_that_overflow_become_nan() -> None:
    got = computed("add", [6e4, -6e4, 1, 65504], [6e4, -6e4, 1, 0], HALF, NAN)
    np.testing.assert_array_equal(got, [np.nan, np.nan, 2, 65504])
    np.testing.assert_array_equal(computed("add", [6e4, 1], [6e4, 1], HALF, None), [INF, 2])
    # an infinity is not an overflow
    np.testing.assert_array_equal(computed("add", [INF, 1], [1, 1], HALF, NAN), [INF, 2])
    # singles keep theirs
    np.testing.assert_array_equal(computed("mul", [3e38], [10], FLOAT, NAN), [INF])


class Narrow(Vertex):
    """Store singles in halves, one by one and all at once."""

    x: Input[Vector[FLOAT]]
    single: Output[Vector[HALF]]
    whole: Output[Vector[HALF]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.single[i] = self.x[i]
        self.whole = self.x


def narrowed(options: dict[str, bool]) -> Engine:
    graph = Graph(DEVICE.target)
    fields = {}
    for name, dtype in (("x", FLOAT), ("single", HALF), ("whole", HALF)):
        fields[name] = graph.add_variable(dtype, 4, name)
        graph.set_tile_mapping(fields[name], 2)
        graph.create_host_read(name, fields[name])
    graph.set_initial_value(fields["x"], [1, 65519, 65520, INF])
    compute_set = graph.add_compute_set("narrow")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Narrow, **fields), 2)
    return Engine(graph, Execute(compute_set), options=options)


def test_singles_too_large_for_a_half_become_nan() -> None:
    """65520 is the first number that rounds past 65504, the largest half."""
    for more in ({}, {"prng.enableStochasticRounding": True}):
        engine = narrowed({**NAN, **more})
        engine.load_and_run(DEVICE)
        np.testing.assert_array_equal(engine.read_tensor("single"), [1, 65504, np.nan, INF])
        whole = engine.read_tensor("whole")
        np.testing.assert_array_equal(whole[:3], [1, 65504, np.nan])


@pytest.mark.parametrize("more", [{}, {"prng.enableStochasticRounding": True}])
@pytest.mark.parametrize("options", [TRAPS, STOPS])
def test_the_error_names_the_place(options: dict[str, bool], more: dict[str, bool]) -> None:
    engine = narrowed({**options, **more})
    with pytest.raises(FloatingPointTrapError) as caught:
        engine.load_and_run(DEVICE)
    what = (
        "overflow encountered in a store of halves"
        if more or options is STOPS
        else "overflow encountered in cast"
    )
    number = Narrow.compute.__code__.co_firstlineno + 2
    assert str(caught.value) == (
        f"A floating-point exception stopped the run: {what}.\n  where: test_floating.py, line "
        f"{number} (Narrow.compute), vertex 0 (Narrow, tile 2) of compute set 'narrow'; fields x, "
        "single; single[2] becomes inf\n  next:  check the inputs of the vertex. To let the run "
        "continue with infinity or NaN, leave out debug.floatPointOpException and "
        "debug.nanOverflowException, or call set_floating_point_behaviour before the compute set."
    )


def test_only_halves_stop_where_only_they_are_asked_for() -> None:
    assert computed("div", [1.0], [0.0], FLOAT, STOPS).tolist() == [INF]
    assert computed("div", [1.0], [0.0], HALF, STOPS).tolist() == [INF]
    with pytest.raises(FloatingPointTrapError, match="overflow encountered in a store of halves"):
        computed("mul", [6e4], [6e4], HALF, STOPS)
