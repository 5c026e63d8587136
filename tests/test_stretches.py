"""Vertices whose regions follow each other are looked at together: against sets of elements, vertex
by vertex."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from brute_force import RANDOMLY, expected_bytes, step_cost, traffic_bytes
from codelets import Increment, Sum
from graphs import Placed, Space, add
from hypothesis import given, strategies as st

from ipu_teach import FLOAT, IPUModel
from ipu_teach.compile import compile_programs
from ipu_teach.compile.freeze import FrozenGraph
from ipu_teach.errors import ComputeSetRaceError
from ipu_teach.program import Execute


def space_of(tiles: int) -> Space:
    return Space(IPUModel(tiles_per_ipu=tiles).create_device(), Random(0))


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_stretch_touches_what_its_vertices_touch(rng: Random) -> None:
    """Windows that step through a matrix at random, often by as much as they are wide."""
    space = space_of(3)
    rows, cols = rng.choice([1, 2, 5]), rng.randint(4, 30)
    x = space.variable(FLOAT, (rows, cols))
    space.map(x[:, : cols // 2], rng.randrange(3))
    compute_set, vertices = space.graph.add_compute_set(), []
    out = space.variable(FLOAT, (40,))
    begin, width, tile, down = 0, 2, 0, False
    for number in range(40):
        width = rng.randint(0, 4) if rng.randrange(6) == 0 else width
        tile = rng.randrange(3) if rng.randrange(6) == 0 else tile
        down = rng.randrange(2) == 0 if rng.randrange(6) == 0 else down
        begin += rng.choice([width, width, 0, 1, 3, -2])
        begin = min(max(begin, 0), cols - 4)
        window = (
            x[:, begin]
            if down
            else x[rng.randrange(rows) if rng.randrange(4) == 0 else 0, begin : begin + width]
        )
        placed = Placed(Sum, tile, {"x": [window], "out": [out[number]]})
        add(space, compute_set, placed)
        vertices.append(placed)
    frozen = FrozenGraph(space.graph)
    ((_, table),) = frozen.tables()
    expected: dict[int, set[int]] = defaultdict(set)
    for placed in vertices:
        expected[placed.tile] |= placed.fields["x"][0].elements
    byte_of = x.tensor.byte_extent()[0][0]
    found: dict[int, set[int]] = defaultdict(set)
    touched = frozen.touched(table, "x")
    first = x.ids.reshape(-1)[0]
    for row, start, stop in zip(
        touched.row.tolist(), touched.start.tolist(), touched.stop.tolist(), strict=True
    ):
        found[vertices[row].tile] |= {
            first + byte // 4 for byte in range(start - byte_of, stop - byte_of, 4)
        }
    assert {t: e for t, e in found.items() if e} == {t: e for t, e in expected.items() if e}
    reads = step_cost(space, Execute(compute_set)).exchange[0]
    wanted = [expected[t] for t in range(3)]
    assert traffic_bytes(reads) == expected_bytes(space, wanted, 3)


def test_regular_vertices_are_one_stretch_a_tile() -> None:
    """12 windows of 3, one step apart, four to a tile; their results lie side by side."""
    space = space_of(3)
    x, out = space.variable(FLOAT, (14,)), space.variable(FLOAT, (12,))
    compute_set = space.graph.add_compute_set()
    for i in range(12):
        add(space, compute_set, Placed(Sum, i // 4, {"x": [x[i : i + 3]], "out": [out[i]]}))
    frozen = FrozenGraph(space.graph)
    ((_, table),) = frozen.tables()
    assert (
        frozen.stretches(table, "x").tolist()
        == frozen.stretches(table, "out").tolist()
        == [0, 4, 8]
    )
    assert frozen.stretch_lengths(table, "x").tolist() == [4, 4, 4]
    touched = frozen.touched(table, "x")
    assert (touched.stop - touched.start).tolist() == [6 * 4] * 3
    assert len(frozen.intervals(table, "x")) == 12


@pytest.mark.parametrize(("step", "raced"), [(4, None), (5, None), (3, "[3]"), (0, "[0]")])
def test_a_race_within_a_stretch_is_found(step: int, raced: str | None) -> None:
    """Vertices of one tile that each write 4 numbers, `step` apart."""
    space = space_of(1)
    x = space.variable(FLOAT, (20,))
    compute_set = space.graph.add_compute_set()
    for i in range(3):
        add(space, compute_set, Placed(Increment, 0, {"x": [x[i * step : i * step + 4]]}))
    if raced is None:
        compile_programs(space.graph, [Execute(compute_set)])
        return
    with pytest.raises(ComputeSetRaceError) as caught:
        compile_programs(space.graph, [Execute(compute_set)])
    assert f"element {raced} of 't0' is written twice" in str(caught.value)
    assert "vertex 0 (Increment.x, tile 0) and vertex 1 (Increment.x, tile 0)" in str(caught.value)
