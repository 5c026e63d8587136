"""What tiles move within their memory, against a look at every element; what it takes, against what
is published."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import numpy as np
import pytest
from brute_force import RANDOMLY, local_addresses, random_device, random_space, step_cost
from codelets import Increment, Sum
from graphs import Placed, Space, View, add, random_copy, random_superstep
from hypothesis import given, strategies as st

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Output, Vector, Vertex, compile_graph
from ipu_teach.cost.rearrange import IN_PLACE, copy_cycles
from ipu_teach.program import Copy, Execute, Sequence
from ipu_teach.target import make_target

Moved = list[list[int]]  # pieces and bytes, by tile


def pieces(
    space: Space, elements: Iterable[tuple[int, ...]], address: list[list[int]]
) -> list[int]:
    """The bytes of each piece of `elements`, tuples that are side by side where each number is in
    its own addresses."""
    found: list[int] = []
    before: tuple[int, ...] | None = None
    for now in elements:
        goes_on = before is not None and all(
            space.tile[a] == space.tile[b] and at[b] == at[a] + space.size[a]
            for a, b, at in zip(before, now, address, strict=True)
        )
        found[-1:] = (
            [found[-1] + space.size[now[0]]] if goes_on else [*found[-1:], space.size[now[0]]]
        )
        before = now
    return found


def vectors(vertex: Placed, name: str) -> list[list[int]]:
    views = vertex.fields[name]
    rows = vertex.codelet.fields[name].depth == 2 and len(views) == 1 and views[0].ids.ndim == 2
    return views[0].ids.tolist() if rows else [view.ids.reshape(-1).tolist() for view in views]


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_what_lies_on_the_tile_in_pieces_is_gathered(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    step = random_superstep(rng, space)
    at = local_addresses(space)
    for phase, exchange in zip(
        ("output", "input"), step_cost(space, Execute(step.compute_set)).exchange, strict=True
    ):
        expected: Moved = [[0] * space.tiles, [0] * space.tiles]
        seen = set()
        for vertex in step.vertices:
            for name, field in vertex.codelet.fields.items():
                if field.kind in ("state", phase) or not field.depth or field.form == "edges":
                    continue
                found = vectors(vertex, name)
                key = (vertex.codelet, name, vertex.tile, str(found))
                if key in seen and field.kind == "input":
                    continue
                seen.add(key)
                for vector in found:
                    each = pieces(space, zip(vector), [at])
                    if len(each) > 1 and {space.tile[e] for e in vector} == {vertex.tile}:
                        expected[0][vertex.tile] += len(each)
                        expected[1][vertex.tile] += sum(each)
        assert [exchange.pieces.tolist(), exchange.stayed.tolist()] == expected


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_what_a_copy_moves_on_its_tile_and_puts_in_place(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    copy, source, destination = random_copy(rng, space)
    at = local_addresses(space)
    pairs = list(
        zip(source.ids.reshape(-1).tolist(), destination.ids.reshape(-1).tolist(), strict=True)
    )
    (exchange,) = step_cost(space, copy).exchange
    for tile in range(space.tiles):
        here = [(s, d) for s, d in pairs if space.tile[d] == tile == space.tile[s]]
        came = sorted((at[d], d) for s, d in pairs if space.tile[d] == tile != space.tile[s])
        stayed = pieces(space, here, [at, at])
        arrived = pieces(space, [(d,) for _, d in came], [at])
        stayed += arrived if len(arrived) > IN_PLACE else []
        assert (exchange.pieces[tile], exchange.stayed[tile]) == (len(stayed), sum(stayed))


class Filled(Vertex):
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = 1


def on_tile(rows: int, columns: int) -> tuple[Space, View]:
    space = Space(IPUModel(tiles_per_ipu=2, exchange_cycles_per_row=0).create_device(), Random(0))
    x = space.variable(FLOAT, (rows, columns))
    space.map(x, 0)
    return space, x


def test_the_published_copy_vertices() -> None:
    """A column of 102 numbers on six workers: 801 cycles each; of 100: 786 on average, 801 the
    longest."""
    target = make_target("ipu1")
    for count, longest, together in ((102, 801, 6 * 801), (100, 801, 6 * 786), (1, 81, 81)):
        cycles, worked = copy_cycles(np.array([count]), np.array([4 * count]), target)
        assert cycles.tolist() == [6 * longest] and worked[0] == pytest.approx(together, abs=3)
    cycles, worked = copy_cycles(np.array([100]), np.array([40_000]), target)
    assert worked[0] / 6 == pytest.approx(1579, rel=0.05)  # long strided
    assert copy_cycles(np.array([0]), np.array([0]), target) == (np.array([0]), np.array([0]))


def test_a_column_costs_what_a_row_does_not() -> None:
    space, x = on_tile(24, 24)
    for part, name in (
        (x[3], "row"),
        (x[:, 3], "column"),
        (x[3:5].flat(), "rows"),
        (x[3:5, :].flat(), "both"),
    ):
        out = space.variable(FLOAT, ())
        space.map(out, 0)
        compute_set = space.graph.add_compute_set(name)
        add(space, compute_set, Placed(Sum, 0, {"x": [part], "out": [out]}), 10)
        cost = step_cost(space, Execute(compute_set))
        assert cost.compute_duration == 60 + (6 * (36 + 178 + 2) if name == "column" else 0)
    back = space.graph.add_compute_set("back")
    add(space, back, Placed(Increment, 0, {"x": [x[:, 5]]}), 10)
    # there and back
    assert step_cost(space, Execute(back)).compute_duration == 60 + 2 * 6 * (36 + 178 + 2)


def test_a_column_that_comes_from_another_tile_is_free() -> None:
    space, x = on_tile(24, 24)
    out = space.variable(FLOAT, ())
    space.map(out, 1)
    compute_set = space.graph.add_compute_set()
    add(space, compute_set, Placed(Sum, 1, {"x": [x[:, 3]], "out": [out]}), 10)
    assert step_cost(space, Execute(compute_set)).compute_duration == 60


def test_a_copy_of_columns_is_put_in_place() -> None:
    """Received in a row, then scattered; a whole row is received where it belongs."""
    space, x = on_tile(24, 24)
    y = space.variable(FLOAT, (24, 24))
    space.map(y, 1)
    assert step_cost(space, Copy(x[2].tensor, y[4].tensor)).compute_duration == 0
    assert step_cost(space, Copy(x[2].tensor, y[:, 4].tensor)).compute_duration == 6 * (
        36 + 178 + 2
    )
    # a few are received one by one
    assert step_cost(space, Copy(x[2, :4].tensor, y[:4, 4].tensor)).compute_duration == 0


def test_a_copy_between_tensors_that_are_dealt_out_alike_is_a_piece_a_tile() -> None:
    """Numbers 0, 3, 6, ... of both lie on tile 0, side by side in its memory."""
    space = Space(IPUModel(tiles_per_ipu=3).create_device(), Random(0))
    x, y = space.variable(FLOAT, (60,)), space.variable(FLOAT, (60,))
    for i in range(60):
        for view in (x, y):
            space.map(view[i], i % 3)
    (exchange,) = step_cost(space, Copy(x.tensor, y.tensor)).exchange
    assert (exchange.pieces.tolist(), exchange.stayed.tolist()) == ([1] * 3, [80] * 3)


def test_what_several_vertices_of_a_tile_read_is_gathered_once() -> None:
    space, x = on_tile(24, 24)
    compute_set = space.graph.add_compute_set()
    for _ in range(3):
        out = space.variable(FLOAT, ())
        space.map(out, 0)
        add(space, compute_set, Placed(Sum, 0, {"x": [x[:, 3]], "out": [out]}), 10)
    assert step_cost(space, Execute(compute_set)).exchange[0].pieces.tolist() == [24, 0]


def test_insights_name_what_lies_in_pieces() -> None:
    space, x = on_tile(24, 24)
    compute_sets = {}
    for name, part in (("row", x[3]), ("column", x[:, 3])):
        out = space.variable(FLOAT, ())
        space.map(out, 0)
        compute_sets[name] = space.graph.add_compute_set(name)
        add(space, compute_sets[name], Placed(Sum, 0, {"x": [part], "out": [out]}), 10)
    engine = Engine(space.graph, Sequence(*map(Execute, compute_sets.values())))
    engine.load(space.device)
    engine.run()
    (found,) = [insight for insight in engine.report.insights() if insight.kind == "pieces"]
    assert (found.name, found.figure, found.unit) == ("column", 1296, "cycles")
    assert found.text == (
        "In 'column', tile 0 takes 1,296 of the step's 1,456 cycles to move 24 pieces, 96 bytes, "
        "within its memory."
    )
    assert found.advice.startswith(
        "make the data that a vertex or a Copy needs contiguous on its tile: use rows, not columns"
    )


def test_an_output_in_pieces_needs_room_and_code() -> None:
    space, x = on_tile(24, 24)
    program = []
    for part in (x[3], x[:, 4]):
        compute_set = space.graph.add_compute_set()
        space.graph.set_tile_mapping(
            space.graph.add_vertex(compute_set, Filled, out=part.tensor), 0
        )
        program.append(
            compile_graph(space.graph, Execute(compute_set)).report.memory.by_category(0)
        )
    assert [m["Exchange buffers"] for m in program] == [0, 4 * 24]
    assert [m["Exchange code"] for m in program] == [0, 6 * 12]
    # What copy vertices run is there once: for pieces, and for what lies side by side.
    assert [m["Vertex code"] for m in program] == [440, 440 + 440]
    row, column = Copy(x[3].tensor, x[4].tensor), Copy(x[5:8, 5].tensor, x[5:8, 6].tensor)
    for copies, kinds in (([row, row], 1), ([column, column], 1), ([row, column, row], 2)):
        memory = compile_graph(space.graph, Sequence(*copies), merge_copies=False).report.memory
        assert memory.bytes_per_tile_by_category["Vertex code"][0] == 440 + 440 * kinds


@pytest.mark.parametrize(("floats", "near", "far"), [(64, 516, 118), (1024, 996, 1078)])
def test_within_a_tile_a_small_copy_is_dearer_than_to_the_next(
    floats: int, near: int, far: int
) -> None:
    """What docs/model.md and lesson 02 say: 6 x 86 cycles, and the exchange's."""
    costs = []
    for tile in (0, 1):
        device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
        graph = Graph(device)
        a, b = (graph.add_variable(FLOAT, (floats,), name) for name in "ab")
        graph.set_tile_mapping(a, 0)
        graph.set_tile_mapping(b, tile)
        graph.set_initial_value(a, 1)
        engine = Engine(graph, Copy(a, b))
        engine.load_and_run(device)
        costs.append(engine.report.step_cost(0))
    assert [cost.cycles - cost.sync_cycles for cost in costs] == [near, far]
