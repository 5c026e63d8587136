"""Every analysis against the simplest thing that could compute it: sets of elements, and loops over
vertices.

The graphs are random; which elements a vertex touches is known from numpy's own indexing (see
graphs.View).
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from brute_force import (
    RANDOMLY,
    elements_by_tile,
    expected_bytes,
    random_device,
    random_space,
    step_cost,
    traffic_bytes,
)
from codelets import AddToParts, Axpy, DotProduct, Increment, Sum, SumOfParts, SuperScale
from graphs import (
    Placed,
    Space,
    Superstep,
    View,
    add,
    random_copy,
    random_superstep,
    random_vector,
    random_view,
)
from hypothesis import given, settings, strategies as st

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    Engine,
    IPUModel,
    Report,
    Target,
    Vertex,
    concat,
    program as programs,
)
from ipu_teach.compile import compile_programs
from ipu_teach.cost import CostModel, StepCost
from ipu_teach.cost.exchange import Traffic
from ipu_teach.cost.schedule import busiest_worker, even_tile_cycles, shared_out
from ipu_teach.cost.transfers import Transfers, transfers
from ipu_teach.errors import ComputeSetRaceError, ControlProgramError, GraphMemoryAllocationError
from ipu_teach.program import Copy, Execute, Repeat

# --- where elements lie ---------------------------------------------------------------------------


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_the_tile_map_is_what_painting_one_element_at_a_time_leaves(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    for _ in range(rng.randrange(12)):
        space.map(
            random_view(rng, rng.choice(list(space.variables.values()))), rng.randrange(space.tiles)
        )
    for view in (
        *space.variables.values(),
        random_view(rng, rng.choice(list(space.variables.values()))),
    ):
        ids = view.ids.reshape(-1).tolist()
        expected = [
            [i for i, element in enumerate(ids) if space.tile[element] == t]
            for t in range(space.tiles)
        ]
        mapping = space.graph.get_tile_mapping(view.tensor)
        assert [
            [i for begin, end in intervals for i in range(begin, end)] for intervals in mapping
        ] == expected


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_the_memory_ledger_counts_every_byte_once(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    constant = space.graph.add_constant(HALF, (5,), 1, "constant")
    space.graph.set_tile_mapping(constant, 0)
    step = random_superstep(rng, space)
    memory = CostModel(compile_programs(space.graph, [Execute(step.compute_set)])).memory
    per_tile, by_variable = [0] * space.tiles, defaultdict(int)
    state = 0
    for element, tile in enumerate(space.tile):
        per_tile[tile] += space.size[element]
        by_variable[tile, space.variable_of[element]] += space.size[element]
    for vertex in step.vertices:
        for field in vertex.codelet.fields.values():
            if field.kind == "state":
                per_tile[vertex.tile] += field.dtype.size
                state += field.dtype.size
    per_tile[0] += 10
    assert memory.variable_bytes_per_tile.tolist() == per_tile
    for tile in range(space.tiles):
        seen = memory.by_variable(tile)
        assert {n: size for n, size in seen.items() if n in space.variables} == {
            name: size for (t, name), size in by_variable.items() if t == tile
        }
        assert sum(seen.values()) == per_tile[tile]
        assert list(seen.values()) == sorted(seen.values(), reverse=True)
    assert (memory.by_category()["Constants"], memory.by_category()["Vertex state"]) == (10, state)


@pytest.mark.parametrize("over", [0, 1])
def test_a_tile_is_full_when_its_bytes_are_more_than_it_has(over: int) -> None:
    """A tile has a supervisor's stack of 128 bytes, and each variable on it fills whole words of
    8."""
    device = IPUModel(tiles_per_ipu=2, memory_bytes_per_tile=1128).create_device()
    space = Space(device, Random(0))
    x = space.variable(BOOL, (1500 + over,))
    space.map(x[:1000], 0)
    space.map(x[1000:], 1)
    space.map(x[1499:], 1)
    space.map(x[1500:], 0)
    if not over:
        Engine(space.graph, programs.Sequence())
        return
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(space.graph, programs.Sequence())
    assert list(caught.value.bytes_per_tile) == [128 + 1008, 128 + 504]  # type: ignore[call-overload]
    assert "tile 0: 1,136 of 1,128 bytes. Its variables: 't0' 1,001. Also: stacks 128." in str(
        caught.value
    )


# --- exchange -------------------------------------------------------------------------------------


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_compute_sets_traffic_is_a_count_of_sets(rng: Random) -> None:
    device = random_device(rng)
    space = random_space(rng, device)
    step = random_superstep(rng, space)
    reads, writes = step_cost(space, Execute(step.compute_set)).exchange
    per_ipu = device.target.tiles_per_ipu
    assert traffic_bytes(reads) == expected_bytes(
        space, elements_by_tile(space, step, ("input", "inout")), per_ipu
    )
    # What is written goes the other way: from the vertex to the owner.
    back = expected_bytes(space, elements_by_tile(space, step, ("output", "inout")), per_ipu)
    assert traffic_bytes(writes) == [back[1], back[0], back[3], back[2]]
    assert reads.total == sum(traffic_bytes(reads)[0])


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_copys_traffic_is_a_count_of_pairs(rng: Random) -> None:
    device = random_device(rng)
    space = random_space(rng, device)
    copy, source, destination = random_copy(rng, space)
    cost = step_cost(space, copy)
    wanted: list[set[int]] = [set() for _ in range(space.tiles)]
    for s, d in zip(
        source.ids.reshape(-1).tolist(), destination.ids.reshape(-1).tolist(), strict=True
    ):
        wanted[space.tile[d]].add(s)
    assert traffic_bytes(cost.exchange[0]) == expected_bytes(
        space, wanted, device.target.tiles_per_ipu
    )


def messages(found: Transfers) -> dict[tuple[int, tuple[int, ...]], int]:
    return {
        (source, tuple(to.tolist())): size
        for source, size, to in zip(
            found.source.tolist(), found.size.tolist(), found.receivers, strict=True
        )
    }


def heard(space: Space, wanted: Sequence[set[int]]) -> dict[tuple[int, tuple[int, ...]], int]:
    """Bytes by sender and set of receivers, element by element, if tile t must get the elements
    `wanted[t]`."""
    result: dict[tuple[int, tuple[int, ...]], int] = {}
    for element in set().union(*wanted):
        owner = space.tile[element]
        receivers = tuple(t for t in range(len(wanted)) if element in wanted[t] and t != owner)
        if receivers:
            result[owner, receivers] = result.get((owner, receivers), 0) + space.size[element]
    return result


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_compute_sets_messages_are_a_count_of_elements(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    step = random_superstep(rng, space)
    compiled = compile_programs(space.graph, [Execute(step.compute_set)])
    reads, writes = transfers(compiled.graph, compiled.steps[0])
    assert messages(reads) == heard(space, elements_by_tile(space, step, ("input", "inout")))
    # What is written goes from the vertex's tile to each owner.
    back: dict[tuple[int, tuple[int, ...]], int] = {}
    for tile, elements in enumerate(elements_by_tile(space, step, ("output", "inout"))):
        for element in elements:
            if space.tile[element] != tile:
                back[tile, (space.tile[element],)] = (
                    back.get((tile, (space.tile[element],)), 0) + space.size[element]
                )
    assert messages(writes) == back
    assert reads.size.tolist() == sorted(reads.size.tolist(), reverse=True)


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_copys_messages_are_a_count_of_elements(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    copy, source, destination = random_copy(rng, space)
    compiled = compile_programs(space.graph, [copy])
    wanted: list[set[int]] = [set() for _ in range(space.tiles)]
    for s, d in zip(
        source.ids.reshape(-1).tolist(), destination.ids.reshape(-1).tolist(), strict=True
    ):
        wanted[space.tile[d]].add(s)
    assert messages(transfers(compiled.graph, compiled.steps[0])[0]) == heard(space, wanted)


def test_a_broadcast_is_sent_once_and_received_by_each_tile() -> None:
    """Tile 0 owns 10 numbers; three vertices on each of tiles 0 to 3 read them all."""
    space = Space(IPUModel(tiles_per_ipu=2, num_ipus=2).create_device(), Random(0))
    x, out = space.variable(FLOAT, (10,)), space.variable(FLOAT, (12,))
    space.map(x, 0)
    compute_set = space.graph.add_compute_set()
    for i in range(12):
        space.map(out[i], i % 4)
        add(space, compute_set, Placed(Sum, i % 4, {"x": [x], "out": [out[i]]}))
    reads, writes = step_cost(space, Execute(compute_set)).exchange
    assert traffic_bytes(reads) == [[0, 40, 40, 40], [40, 0, 0, 0], [0, 80], [40, 0]]
    assert traffic_bytes(writes) == [[0] * 4, [0] * 4, [0] * 2, [0] * 2]


def test_exchange_cycles_round_up_to_whole_cycles() -> None:
    model = IPUModel(tiles_per_ipu=3, relative_sync_delay="NO_DELAY", exchange_setup_instructions=0)
    space = Space(model.create_device(), Random(0))
    x, y = space.variable(BOOL, (9,)), space.variable(BOOL, (9,))
    space.map(x, 0)
    space.map(y[:4], 1)
    space.map(y[4:], 2)
    cost = step_cost(space, Copy(x.tensor, y.tensor))
    # ceil(9 / 4) to send; 54 until the first word, 56 on the second row, then ceil(4 / 4) and
    # ceil(5 / 4)
    assert cost.exchange_cycles.tolist() == [3, 55, 58]
    assert cost.exchange_duration == 58
    assert cost.cycles == 58


# --- races ----------------------------------------------------------------------------------------


def conflicts(step: Superstep) -> set[int]:
    """Elements that two fields touch, one of them writing, or that one field writes twice."""
    writers: dict[int, int] = defaultdict(int)
    readers: dict[int, int] = defaultdict(int)
    for vertex in step.vertices:
        for name, views in vertex.fields.items():
            elements = [e for view in views for e in view.ids.reshape(-1).tolist()]
            written = vertex.codelet.fields[name].written
            for element in elements if written else set(elements):
                (writers if written else readers)[element] += 1
    return {e for e, count in writers.items() if count > 1 or readers[e]}


@settings(RANDOMLY, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_a_race_is_found_where_there_is_one(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    step = random_superstep(rng, space, most=3, careful=rng.randrange(3) == 0)
    # a region that holds an element twice, which may be read and not written
    if rng.randrange(4) == 0:
        found = random_vector(rng, space, FLOAT, 3, frozenset())
        twice = View(concat([found.tensor, found.tensor[:1]]), np.append(found.ids, found.ids[0]))
        choices = [
            Placed(Increment, 0, {"x": [twice]}),
            Placed(SumOfParts, 0, {"parts": [found, twice], "out": [space.variable(FLOAT, ())]}),
            Placed(
                AddToParts,
                0,
                {"parts": [space.variable(FLOAT, (2,)), twice], "x": [space.variable(FLOAT, ())]},
            ),
        ]
        placed = rng.choice(choices)
        add(space, step.compute_set, placed)
        step.vertices.append(placed)
    expected = conflicts(step)
    if not expected:
        compile_programs(space.graph, [Execute(step.compute_set)])
        return
    with pytest.raises(ComputeSetRaceError) as caught:
        compile_programs(space.graph, [Execute(step.compute_set)])
    named = re.search(r"element \[([\d, ]*)\] of '(t\d+)'", str(caught.value))
    if named is None:
        assert "element twice" in str(caught.value)
        return
    view = space.variables[named[2]]
    index = tuple(int(i) for i in named[1].split(",") if i.strip())
    assert int(view.ids[index]) in expected


def placed_pair(
    first: type[Vertex], a: dict[str, View], second: type[Vertex] | None, b: dict[str, View]
) -> list[Placed]:
    both = [Placed(first, 0, {n: [v] for n, v in a.items()})]
    return both + ([Placed(second, 1, {n: [v] for n, v in b.items()})] if second else [])


RACES = {
    "two writers": lambda x, y: placed_pair(Increment, {"x": x[:4]}, Increment, {"x": x[3:]}),
    "reader and writer": lambda x, y: placed_pair(
        Sum, {"x": x[2:4], "out": y[0]}, Increment, {"x": x[3:]}
    ),
    "strided against contiguous": lambda x, y: placed_pair(
        Increment, {"x": x[::3]}, Increment, {"x": x[3:4]}
    ),
    "two writing fields": lambda x, y: placed_pair(Axpy, {"x": x[:3], "y": x[2:5]}, None, {}),
    "a result inside its operand": lambda x, y: placed_pair(
        DotProduct, {"a": x[:4], "b": y, "out": x[0]}, None, {}
    ),
}
NO_RACES = {
    "neighbours": lambda x, y: placed_pair(Increment, {"x": x[:4]}, Increment, {"x": x[4:]}),
    "combs": lambda x, y: placed_pair(Increment, {"x": x[::2]}, Increment, {"x": x[1::2]}),
    "two readers": lambda x, y: placed_pair(
        Sum, {"x": x, "out": y[0]}, Sum, {"x": x[::-1], "out": y[1]}
    ),
    "an empty writer": lambda x, y: placed_pair(
        Increment, {"x": x[2:2]}, Sum, {"x": x, "out": y[0]}
    ),
    "two fields that read": lambda x, y: placed_pair(
        DotProduct, {"a": x[:4], "b": x[:4], "out": y[0]}, None, {}
    ),
}


@pytest.mark.parametrize("name", [*RACES, *NO_RACES])
def test_races_by_name(name: str) -> None:
    space = Space(IPUModel(tiles_per_ipu=2).create_device(), Random(0))
    x, y = space.variable(FLOAT, (8,)), space.variable(FLOAT, (4,))
    compute_set = space.graph.add_compute_set("contested")
    vertices = {**RACES, **NO_RACES}[name](x, y)
    for placed in vertices:
        add(space, compute_set, placed)
    assert bool(conflicts(Superstep(compute_set, vertices))) == (name in RACES)
    if name in NO_RACES:
        Engine(space.graph, Execute(compute_set))
        return
    with pytest.raises(ComputeSetRaceError) as caught:
        Engine(space.graph, Execute(compute_set))
    assert "'contested'" in str(caught.value)
    for number, placed in enumerate(vertices):
        assert f"vertex {number} ({placed.codelet.__name__}" in str(caught.value)


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_copy_onto_itself_is_refused(rng: Random) -> None:
    space = random_space(rng, random_device(rng))
    length = rng.randint(1, 12)
    source = random_vector(rng, space, FLOAT, length, frozenset())
    destination = random_vector(rng, space, FLOAT, length, frozenset())
    copy = Copy(source.tensor, destination.tensor)
    if source.elements & destination.elements:
        with pytest.raises(ControlProgramError):
            compile_programs(space.graph, [copy])
    else:
        compile_programs(space.graph, [copy])


# --- schedule -------------------------------------------------------------------------------------


def busiest(costs: Sequence[int], workers: int) -> int:
    """The plain simulation: each vertex to the worker that is free first, ties to the lowest."""
    free = [0] * workers
    for cost in costs:
        free[free.index(min(free))] += cost
    return max(free)


@settings(RANDOMLY, max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(st.just(7), st.integers(0, 100)))),
    st.integers(1, 7),
)
def test_workers_take_vertices_in_order(vertices: list[tuple[int, int]], workers: int) -> None:
    tiles, cycles = (np.array([v[i] for v in vertices], np.int64) for i in (0, 1))
    expected = [busiest([c for t, c in vertices if t == tile], workers) for tile in range(5)]
    assert busiest_worker(cycles, tiles, 5, workers).tolist() == expected
    free, told = [0] * workers, []
    for cost in cycles.tolist():  # as if all were on one tile
        told.append((free.index(min(free)), min(free)))
        free[told[-1][0]] += cost
    assert list(zip(*(part.tolist() for part in shared_out(cycles, workers)), strict=True)) == told


@settings(RANDOMLY, max_examples=200)
@given(st.integers(0, 200), st.integers(0, 50), st.integers(1, 8))
def test_equal_vertices_in_closed_form(count: int, cycles: int, workers: int) -> None:
    assert even_tile_cycles(count, cycles, workers) == workers * busiest([cycles] * count, workers)


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_a_compute_sets_cycles_are_those_of_the_plain_simulation(rng: Random) -> None:
    """Vertices of several codelets, in the order in which they were added; supervisors one after
    the other."""
    device = random_device(rng, num_worker_contexts=rng.choice([1, 2, 6]))
    space = random_space(rng, device)
    step = random_superstep(rng, space, most=8, costed=True)
    workers = device.target.num_worker_contexts
    cost = step_cost(space, Execute(step.compute_set))
    copies = [t.copy_cycles(device.target) for t in cost.exchange]  # of pieces: see test_rearrange
    for tile in range(space.tiles):
        here = [v for v in step.vertices if v.tile == tile]
        supervised = sum(v.cycles for v in here if v.codelet is SuperScale)
        shared = [v.cycles for v in here if v.codelet is not SuperScale]
        assert cost.compute_cycles[tile] == workers * busiest(shared, workers) + supervised + sum(
            c[tile] for c, _ in copies
        )
        assert cost.active_cycles[tile] == sum(shared) + supervised + sum(
            c[tile] for _, c in copies
        )
    assert cost.compute_duration == max(cost.compute_cycles)
    assert cost.unknown == ()


def test_the_order_of_adding_counts_across_codelets() -> None:
    """5, 5, 1, 1 on two workers: 6 and 6. Codelet by codelet it would be 5, 1, 1, 5, and the second
    worker would get 7."""
    space = Space(IPUModel(tiles_per_ipu=1, num_worker_contexts=2).create_device(), Random(0))
    x, out = space.variable(FLOAT, (4, 2)), space.variable(FLOAT, (4,))
    compute_set = space.graph.add_compute_set()
    for i, (codelet, cycles) in enumerate([(Sum, 5), (Increment, 5), (Sum, 1), (Sum, 1)]):
        fields = {"x": [x[i]], "out": [out[i]]} if codelet is Sum else {"x": [x[i]]}
        add(space, compute_set, Placed(codelet, 0, fields), cycles)
    assert step_cost(space, Execute(compute_set)).compute_cycles.tolist() == [12]


# --- sums -----------------------------------------------------------------------------------------


def tile_cycles(t: Traffic, tile: int, target: Target) -> int:
    """Cycles of one tile in one exchange: its longest stream of words, or its instructions, after
    the first word came."""
    received, sent, turns = (int(a[tile]) for a in (t.received, t.words, t.sources))
    words = max(-(-received // 4), sent)
    row = tile % target.tiles_per_ipu // 2  # of the first block, which is all that a few tiles fill
    return max(words, 3 * turns + -(-sent // 64)) + (54 + 2 * row if received else 0)


def flattened(program: Any) -> list[Any]:
    """The leaves of a program in the order in which they run."""
    if isinstance(program, Repeat):
        return flattened(program.body) * program.count
    if isinstance(program, programs.Sequence):
        return [leaf for part in program.programs for leaf in flattened(part)]
    return [program]


@settings(RANDOMLY, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_a_report_adds_up(rng: Random) -> None:
    device = random_device(rng, relative_sync_delay=rng.choice(["AUTO", "NO_DELAY"]))
    target = device.target
    space = random_space(rng, device)
    sets = [random_superstep(rng, space, costed=True) for _ in range(rng.randint(1, 3))]
    leaves: list[Any] = [Execute(step.compute_set) for step in sets]
    vertices = {
        id(leaf): {v.tile for v in step.vertices} for leaf, step in zip(leaves, sets, strict=True)
    }
    leaves += [random_copy(rng, space)[0] for _ in range(rng.randrange(3))]
    length = rng.randint(1, 9)
    into = random_vector(rng, space, FLOAT, length, frozenset())
    stream = space.graph.add_host_to_device_fifo("in", FLOAT, length)
    leaves.append(Copy(stream, into.tensor))
    rng.shuffle(leaves)
    program = programs.Sequence(
        *leaves[:2], Repeat(rng.randrange(4), programs.Sequence(*leaves[1:])), leaves[0]
    )
    engine = Engine(space.graph, program, merge_copies=False)
    engine.load(device)
    engine.connect_stream("in", np.zeros(length, np.float32))
    engine.run()
    report = engine.report
    costs = {id(leaf): step_cost(space, leaf) for leaf in leaves}
    ran = flattened(program)
    assert report.num_steps == len(ran)

    ipus, each = target.num_ipus, target.tiles_per_ipu
    clocks = [0] * ipus
    steps = report.steps()
    for i, (step, leaf) in enumerate(zip(steps, ran, strict=True)):
        cost, transfers = costs[id(leaf)], leaf.__class__ is Copy and leaf.source is stream
        host = [
            4 * sum(space.tile[e] // each == ipu for e in into.elements if transfers)
            for ipu in range(ipus)
        ]
        links = sum(t.link_cycles(target) for t in cost.exchange)
        together = ipus > 1 and (transfers or links > 0)
        sync = (100 if target.relative_sync_delay == "AUTO" else 0) + (
            target.global_sync_cycles if together else 0
        )

        def longest(mine: Sequence[int], cost: StepCost = cost) -> int:
            arrived = [
                max([54 + int(t.words[n]) for n in mine if t.words[n]], default=0)
                for t in cost.exchange
            ]
            busy = [max(tile_cycles(t, n, target) for n in mine) for t in cost.exchange]
            return sum(map(max, busy, arrived)) + max(int(cost.compute_cycles[n]) for n in mine)

        whole = (
            sync
            + longest(range(target.num_tiles))
            + links
            + math.ceil(max(host) / target.host_bytes_per_cycle)
        )
        own = [range(ipu * each, ipu * each + each) for ipu in range(ipus)]
        at = {
            n
            for n in range(target.num_tiles)
            for t in cost.exchange
            if t.received[n] or t.sent[n] or t.stayed[n]
        }
        at |= vertices.get(id(leaf), set())
        shares = [
            whole
            if together or ipus == 1
            else (sync + longest(mine)) * (not at or not at.isdisjoint(mine))
            for mine in own
        ]
        clocks = [max(clocks)] * ipus if together else clocks
        assert step.index == i
        assert (step.start, step.cycles) == (
            min([c for c, n in zip(clocks, shares, strict=True) if n] or clocks),
            whole,
        )
        assert type(step.start) is type(step.end) is type(step.cycles) is int
        assert [(part.start, part.cycles) for part in step.ipus] == list(
            zip(clocks, shares, strict=True)
        )
        clocks = [clock + n for clock, n in zip(clocks, shares, strict=True)]
    clock = max(clocks)
    assert report.total_cycles == clock
    assert sum(report.grounds.values()) == pytest.approx(1 if clock else 0)
    assert report.total_seconds == pytest.approx(clock / target.tile_clock_frequency)
    assert report.steps(2, 4) == steps[2:4]
    assert report.host_bytes == 4 * length * sum(
        leaf is c for leaf in ran for c in leaves if getattr(c, "source", 0) is stream
    )

    def by_tile(of: Any) -> list[int]:
        return [int(n) for n in np.sum([of(costs[id(leaf)]) for leaf in ran], axis=0)]

    assert report.compute_cycles_per_tile.tolist() == by_tile(lambda c: c.compute_cycles)
    assert report.active_cycles_per_tile.tolist() == by_tile(lambda c: c.active_cycles)
    assert report.exchange_cycles_per_tile.tolist() == by_tile(lambda c: c.exchange_cycles)
    zero = np.zeros(target.num_tiles, int)
    received, sent = report.exchange_bytes_per_tile
    assert received.tolist() == by_tile(lambda c: sum((t.received for t in c.exchange), zero))
    assert sent.tolist() == by_tile(lambda c: sum((t.sent for t in c.exchange), zero))
    spent = (
        report.compute_cycles_per_tile
        + report.exchange_cycles_per_tile
        + report.sync_cycles_per_tile
    )
    links = sum(report.link_cycles_per_tile.values(), zero)
    assert (spent + links == report.total_cycles).all()
    assert (report.sync_cycles_per_tile >= 0).all()
    assert np.all(report.active_cycles_per_tile <= report.compute_cycles_per_tile)
    for profile in report.compute_sets:
        assert profile.executions == sum(
            getattr(leaf, "compute_set", None) and leaf.compute_set.name == profile.name or 0
            for leaf in ran
        )
        peak = max(profile.cycles_per_tile)
        assert profile.balance == pytest.approx(
            sum(profile.cycles_per_tile) / len(profile.cycles_per_tile) / peak if peak else 0
        )


def summary(report: Report) -> Any:
    return (
        report.num_steps,
        report.total_cycles,
        report.steps(),
        report.compute_cycles_per_tile.tolist(),
        repr(report),
    )


def test_a_later_run_changes_no_earlier_report() -> None:
    device = IPUModel(tiles_per_ipu=2).create_device()
    space = Space(device, Random(1))
    step = random_superstep(Random(2), space, costed=True)
    engine = Engine(space.graph, [Execute(step.compute_set), Repeat(5, Execute(step.compute_set))])
    assert engine.report.num_steps == 0
    engine.load(device)
    engine.run(0)
    first = engine.report
    before = summary(first)
    engine.run(1)
    second = engine.report
    assert summary(first) == before
    assert second.num_steps == 6
    assert second.total_cycles == pytest.approx(6 * first.total_cycles)
    engine.load(device)
    assert engine.report.num_steps == 0
    assert summary(first) == before and second.num_steps == 6
    with pytest.raises(ValueError, match="read-only"):
        first.step_numbers[0] = 3
