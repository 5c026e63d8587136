"""Copies that do not disturb each other are one superstep, and a compute set that they leave alone
takes them along."""

from __future__ import annotations

import re
from itertools import chain, groupby
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
    traffic_bytes,
)
from codelets import Sum
from engine_parts import machine_of
from graphs import Placed, Space, Superstep, View, add, random_copy, random_superstep
from hypothesis import given, settings, strategies as st

from ipu_teach import (
    BOOL,
    FLOAT,
    Engine,
    Executable,
    Graph,
    IPUModel,
    Report,
    compile_graph,
    concat,
    show,
)
from ipu_teach.errors import UninitialisedReadError
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence, WriteUndef


def runs_of(program: Program, graph: Graph) -> list[int]:
    """How many copies each step of a program holds."""
    executable = compile_graph(graph, program, strict=False)
    return [len(leaf.children) or 1 for leaf in executable.compiled.programs[0].leaves()]


def variables(tiles: int = 4, **fields: Any) -> tuple[Graph, Any]:
    """Eight numbers each in a, b and c, on tiles in turn."""
    graph = Graph(IPUModel(tiles_per_ipu=tiles, **fields).create_device().target)
    made = [graph.add_variable(FLOAT, 8, name) for name in "abc"]
    for tensor in made:
        graph.set_tile_mapping(tensor, np.arange(8) % graph.target.num_tiles)
    return graph, made


def test_what_disturbs_begins_a_new_run() -> None:
    graph, (a, b, c) = variables()
    apart = [Copy(a[i], b[i]) for i in range(4)]
    assert runs_of(Sequence(*apart), graph) == [4]
    assert runs_of(Sequence(Copy(a, b), Copy(a, c)), graph) == [2]  # both read
    assert runs_of(Sequence(Copy(a, b), Copy(b, c)), graph) == [1, 1]  # read after write
    assert runs_of(Sequence(Copy(a, b), Copy(c, a)), graph) == [1, 1]  # write after read
    assert runs_of(Sequence(Copy(a, c), Copy(b, c)), graph) == [1, 1]  # write after write
    assert runs_of(
        Sequence(Copy(a[:4], b[:4]), Copy(b[4:], c[4:]), Copy(b[3:4], c[3:4]), Copy(a[5:], b[5:])),
        graph,
    ) == [2, 2]
    assert runs_of(Sequence(apart[0], apart[0]), graph) == [1, 1]


def test_the_order_in_which_copies_stand_matters() -> None:
    """Here, there and on, four times: side by side they are two steps, one after the other
    eight."""
    graph, (a, b, c) = variables()
    pairs = [(Copy(a[i], b[i]), Copy(b[i], c[i])) for i in range(4)]
    assert runs_of(
        Sequence(*(copy for both in zip(*pairs, strict=True) for copy in both)), graph
    ) == [4, 4]
    assert runs_of(Sequence(*(copy for pair in pairs for copy in pair)), graph) == [1, 2, 2, 2, 1]


def test_what_is_no_copy_of_the_same_reach_ends_a_run() -> None:
    graph, (a, b, c) = variables()
    first, second = Copy(a[0], b[0]), Copy(a[1], b[1])
    stream = graph.add_host_to_device_fifo("in", FLOAT, 8)
    for between in (WriteUndef(c), Copy(stream, c), Sequence(), Repeat(2, Sequence())):
        parts = runs_of(Sequence(first, between, second), graph)
        assert max(parts) == 1, between
    assert runs_of(Sequence(Sequence(first), Sequence(second)), graph) == [1, 1]
    assert runs_of(Repeat(3, Sequence(first, second)), graph) == [2]
    graph, (a, b, _) = variables(tiles=2, num_ipus=2)  # elements 0, 1, 4 and 5 on the first
    within, across = [Copy(a[i], b[i]) for i in (0, 2)], [Copy(a[4], b[3]), Copy(a[3], b[4])]
    assert runs_of(Sequence(*within), graph) == runs_of(Sequence(*across), graph) == [2]
    assert runs_of(Sequence(within[0], *across, within[1]), graph) == [1, 2, 1]


def test_a_copy_between_ipus_is_no_part_of_a_compute_set() -> None:
    graph, (a, b, c) = variables(tiles=2, num_ipus=2)
    sums = graph.add_compute_set("sums")
    graph.set_tile_mapping(graph.add_vertex(sums, Sum, x=c[:2], out=c[4]), 0)
    within, across = Copy(a[0], b[0]), [Copy(a[4], b[3]), Copy(a[3], b[4])]
    assert runs_of(Sequence(Execute(sums), within), graph) == [1]  # a step with one copy in it
    assert runs_of(Sequence(Execute(sums), *across), graph) == [1, 2]


def test_a_ring_with_a_copy_for_each_ipu_costs_what_one_copy_of_all_costs() -> None:
    """One sync of all IPUs, one exchange, and the links at the same time: 100 and 600 cycles of
    sync, and 30 ns or 40 cycles for a further link, instead of four times that."""
    totals = []
    for apart in (True, False):
        graph = Graph(IPUModel(tiles_per_ipu=2, num_ipus=4).create_device().target)
        a, b = (graph.add_variable(FLOAT, (4, 64), name) for name in "ab")
        for tensor in (a, b):
            for ipu in range(4):
                graph.set_tile_mapping(tensor[ipu], 2 * ipu)
        pairs = [(a[i], b[j]) for i, j in ((0, 2), (2, 3), (3, 1), (1, 0))]
        sources, destinations = zip(*pairs, strict=True)
        ring = (
            Sequence(*(Copy(s, d) for s, d in pairs))
            if apart
            else Copy(concat(list(sources)), concat(list(destinations)))
        )
        cost = compile_graph(graph, ring, strict=False).cost
        assert cost.num_steps == 1
        totals.append(cost.step(0).cycles)
        alone = compile_graph(graph, ring, strict=False, merge_copies=False).cost
        assert alone.step(0).sync_cycles == 740 and alone.num_steps == (4 if apart else 1)
    assert totals[0] == totals[1]


def summing(tiles: int = 4) -> tuple[Space, Execute, Execute, list[View]]:
    """A compute set that sums a in the first of b, one that sums b in the first of c, and a to e,
    ten numbers on each tile."""
    space = Space(IPUModel(tiles_per_ipu=tiles).create_device(), Random(0))
    made = [space.variable(FLOAT, (10,)) for _ in range(5)]
    sets = []
    for tile, view in enumerate(made):
        space.map(view, tile % tiles)
    for number in range(2):
        sets.append(space.graph.add_compute_set(f"sum{number}"))
        add(
            space,
            sets[-1],
            Placed(Sum, number + 1, {"x": [made[number]], "out": [made[number + 1][0]]}),
        )
    return space, Execute(sets[0]), Execute(sets[1]), made


def test_a_copy_goes_with_the_compute_set_before_it_if_it_disturbs_none_on_either_side() -> None:
    space, first, second, made = summing()
    a, b, c, d, e = [view.tensor for view in made]

    def kinds(*parts: Program) -> list[tuple[str, int]]:
        executable = compile_graph(space.graph, Sequence(*parts), strict=False)
        return [
            (leaf.kind, len(leaf.children)) for leaf in executable.compiled.programs[0].leaves()
        ]

    assert kinds(first, Copy(d, e)) == [("Execute", 1)]
    # both read a; of b only the first is written
    assert kinds(first, Copy(a, e), Copy(b[1:], d[1:])) == [("Execute", 2)]
    assert (
        kinds(first, Copy(b, e))
        == kinds(first, Copy(e, b))
        == kinds(first, Copy(e, a))
        == [("Execute", 0), ("Copy", 0)]
    )
    assert kinds(first, Copy(d, e), second) == [("Execute", 1), ("Execute", 0)]
    # for the one behind it
    assert kinds(first, Copy(e[1:], b[1:]), second) == [("Execute", 0), ("Copy", 0), ("Execute", 0)]
    assert kinds(first, Copy(c, d), second) == [("Execute", 0), ("Copy", 0), ("Execute", 0)]
    # One that stays where it is holds up no other, but what it writes is not read before.
    assert kinds(first, Copy(b, e), Copy(c, d)) == [("Execute", 1), ("Copy", 0)]
    assert kinds(first, Copy(b, e), Copy(e, d)) == [("Execute", 0), ("Copy", 0), ("Copy", 0)]
    assert kinds(first, Copy(d, e), Copy(e, c)) == [("Execute", 1), ("Copy", 0)]
    # Nothing in front of it, or something else.
    assert (
        kinds(Copy(d, e), first)
        == kinds(WriteUndef(c), Copy(d, e), first)[1:]
        == [("Copy", 0), ("Execute", 0)]
    )
    assert (
        kinds(first, Sequence(Copy(d, e)))
        == kinds(first, Repeat(1, Copy(d, e)))
        == [("Execute", 0), ("Copy", 0)]
    )
    assert kinds(Repeat(3, Sequence(first, Copy(d, e))), first) == [("Execute", 1), ("Execute", 0)]


def test_the_answer_of_a_compute_set_is_written_by_it() -> None:
    space, first, _, made = summing()
    flag, copied = space.variable(BOOL, ()), space.variable(BOOL, ())
    program = Sequence(Execute(first.compute_set, flag.tensor), Copy(flag.tensor, copied.tensor))
    assert runs_of(program, space.graph) == [1, 1]


def test_what_a_copy_brings_comes_with_the_exchange_of_the_compute_set() -> None:
    """Tile 0 sends its ten numbers to tile 1, and tile 3 ten to tile 0: 54 and 56 cycles until the
    first word, and 10.

    Apart the copy takes a sync of 100 and its own 64. It lands where it stays: only a's numbers
    pass through a buffer.
    """
    space, first, _, made = summing()
    program = Sequence(first, Copy(made[3].tensor, made[4].tensor))
    one, apart = (
        compile_graph(space.graph, program, merge_copies=merge) for merge in (True, False)
    )
    compute = 6 * (5 + 10 * 2 + 1)  # a vertex starts; a load and a sum for each number, and a store
    assert [apart.cost.step(n).cycles for n in (0, 1)] == [100 + 64 + compute, 100 + 64]
    cost = one.cost.step(0)
    assert (cost.cycles, cost.kind, cost.name) == (100 + 64 + compute, "Execute", "sum0")
    assert cost.exchange[0].received.tolist() == [40, 40, 0, 0]
    assert [one.report.memory.by_category(tile)["Exchange buffers"] for tile in range(4)] == [
        0,
        40,
        0,
        0,
    ]
    assert [sorted(r.tolist() for r in t.receivers) for t in one.report.profile.transfers(0)] == [
        [[0], [1]],
        [],
    ]


def test_a_report_shows_a_compute_set_with_its_copies() -> None:
    space, first, _, made = summing()
    engine = Engine(space.graph, Repeat(3, Sequence(first, Copy(made[3].tensor, made[4].tensor))))
    engine.load(space.device)
    engine.run()
    for report in (engine.report, Report.deserialize(engine.report.serialize())):
        assert [(s.kind, s.name) for s in report.steps()] == [("Execute", "sum0")] * 3
        (leaf,) = report.profile.programs[0].leaves()
        assert (leaf.name, [(p.kind, p.name, p.step) for p in leaf.children]) == (
            "sum0, with 1 copy",
            [("Copy", "'t3' to 't4'", -1)],
        )
        assert "test_merge.py" in report.profile.steps[0].line
        assert re.search(
            r"Execute sum0, with 1 copy\n +Copy &#x27;t3&#x27; to", report._repr_html_()
        )
        assert [row[2] for row in show.program(report).scene.table[1][-2:]] == ["3", "3"]


def test_an_error_names_the_copy_that_went_with_a_compute_set() -> None:
    space, first, _, made = summing()
    new = space.variable(FLOAT, (10,), values=False)
    engine = Engine(
        space.graph,
        Sequence(first, Copy(made[3].tensor, made[4].tensor), Copy(new.tensor, made[2].tensor)),
    )
    assert len(engine.executable.compiled.steps) == 1
    engine.load(space.device)
    with pytest.raises(
        UninitialisedReadError,
        match="^Copy to 't2' reads element .0. of 't5', which nothing has written.",
    ):
        engine.run()


@settings(RANDOMLY, max_examples=40)
@given(st.randoms(use_true_random=False))
def test_random_copies_go_with_the_compute_sets_that_they_leave_alone(rng: Random) -> None:
    """Element by element, and no value depends on it."""
    device = IPUModel(tiles_per_ipu=rng.randint(1, 5)).create_device()
    space = random_space(rng, device)
    sets = [random_superstep(rng, space, most=2) for _ in range(rng.randint(1, 3))]
    parts: list[Any] = [random_copy(rng, space) for _ in range(rng.randint(2, 9))]
    for _ in range(rng.randint(1, 4)):
        parts.insert(rng.randrange(len(parts)), rng.choice(sets))

    def disturbs(copy: Any, step: Superstep) -> bool:
        read, written = (
            set().union(*(fields for vertex in step.vertices for fields in vertex.touched(kinds)))
            for kinds in (("input", "inout"), ("output", "inout"))
        )
        return bool(copy[1].elements & written or copy[2].elements & (read | written))

    expected: list[list[Any]] = []  # a compute set and its copies, or copies
    for alone, found in groupby(
        enumerate(parts), lambda numbered: isinstance(numbered[1], Superstep)
    ):
        group = list(found)
        if alone:
            expected += [[step] for _, step in group]
            continue
        around = [parts[n] for n in (group[0][0] - 1, group[-1][0] + 1) if 0 <= n < len(parts)]
        runs: list[list[Any]] = [[]]
        for _, copy in group:
            _, source, destination = copy
            reads, writes = (
                set().union(*(other[side].elements for other in runs[-1])) for side in (1, 2)
            )
            if source.elements & writes or destination.elements & (reads | writes):
                runs.append([])
            runs[-1].append(copy)
        if group[0][0]:
            expected[-1] += [
                copy for copy in runs[0] if not any(disturbs(copy, step) for step in around)
            ]
            runs[0] = [copy for copy in runs[0] if any(disturbs(copy, step) for step in around)]
        expected += [run for run in runs if run]
    program = Sequence(
        *(Execute(p.compute_set) if isinstance(p, Superstep) else p[0] for p in parts)
    )
    engines = [
        Engine(space.graph, program, merge_copies=merge, strict=False) for merge in (True, False)
    ]
    steps = list(engines[0].executable.compiled.programs[0].leaves())
    assert [len(step.children) + (step.kind == "Execute") or 1 for step in steps] == [
        len(group) for group in expected
    ]
    for group, step in zip(expected, steps, strict=True):
        wanted: list[set[int]] = [set() for _ in range(space.tiles)]
        if isinstance(group[0], Superstep):
            wanted = elements_by_tile(space, group[0], ("input", "inout"))
        for _, source, destination in group[isinstance(group[0], Superstep) :]:
            for there, here in zip(
                source.ids.reshape(-1).tolist(), destination.ids.reshape(-1).tolist(), strict=True
            ):
                wanted[space.tile[here]].add(there)
        assert traffic_bytes(
            engines[0].executable.cost.step(step.step).exchange[0]
        ) == expected_bytes(space, wanted, space.tiles)
    for engine in engines:
        engine.load(device)
        engine.run()
    memories = [machine_of(engine).memory.bytes.tobytes() for engine in engines]
    assert memories[0] == memories[1]
    assert engines[0].report.total_cycles <= engines[1].report.total_cycles


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_random_copies_merge_as_far_as_they_may_and_move_each_byte_once(rng: Random) -> None:
    """Element by element: a run ends at the first copy that meets what it wrote or writes what it
    read."""
    device = random_device(rng)
    space, per_ipu = random_space(rng, device), device.target.tiles_per_ipu
    copies = [random_copy(rng, space) for _ in range(rng.randint(2, 9))]
    pairs = [  # of elements: from where, to where
        list(zip(s.ids.reshape(-1).tolist(), d.ids.reshape(-1).tolist(), strict=True))
        for _, s, d in copies
    ]
    sides = [({there for there, _ in copy}, {here for _, here in copy}) for copy in pairs]
    within = [len({space.tile[e] // per_ipu for e in s | d}) <= 1 for s, d in sides]
    runs: list[list[int]] = []
    for number, (read, written) in enumerate(sides):
        so_far = [sides[i] for i in runs[-1]] if runs else []
        if (
            any(written & (r | w) or read & w for r, w in so_far)
            or not runs
            or within[number] != within[runs[-1][0]]
        ):
            runs.append([])
        runs[-1].append(number)
    program = Sequence(*(copy for copy, _, _ in copies))
    engines = [
        Engine(space.graph, program, merge_copies=merge, strict=False) for merge in (True, False)
    ]
    steps, alone = (list(engine.executable.compiled.programs[0].leaves()) for engine in engines)
    assert [len(step.children) or 1 for step in steps] == [len(run) for run in runs]
    for run, step in zip(runs, steps, strict=True):
        assert engines[0].executable.cost.step(step.step).cycles <= sum(
            engines[1].executable.cost.step(alone[i].step).cycles for i in run
        )
        wanted: list[set[int]] = [set() for _ in range(space.tiles)]
        for there, here in chain.from_iterable(pairs[i] for i in run):
            wanted[space.tile[here]].add(there)
        assert traffic_bytes(
            engines[0].executable.cost.step(step.step).exchange[0]
        ) == expected_bytes(space, wanted, per_ipu)
    for engine in engines:
        engine.load(device)
        engine.run()
    memories = [machine_of(engine).memory.bytes.tobytes() for engine in engines]
    assert memories[0] == memories[1]
    # A copy that moves nothing between IPUs and lies on several may be in a step with one that does.
    # All wait for that step, for this copy's share too, which alone had held up its own IPUs only.
    crosses = [
        any(space.tile[there] // per_ipu != space.tile[here] // per_ipu for there, here in copy)
        for copy in pairs
    ]
    if all(len({crosses[i] for i in run}) == 1 for run in runs):
        assert engines[0].report.total_cycles <= engines[1].report.total_cycles


def test_one_sync_and_one_latency() -> None:
    """Four numbers to the next tile each: 100 of sync, 54 until the first word (56 on the second
    row), a word, or the three instructions that turn to the sender and the one that sends."""
    graph, (a, b, _) = variables()
    program = Sequence(*(Copy(a[i], b[i + 1]) for i in range(3)))
    costs = [compile_graph(graph, program, merge_copies=merge).cost for merge in (True, False)]
    assert [costs[0].step(0).cycles] == [100 + 56 + 4]
    assert [costs[1].step(n).cycles for n in range(3)] == [100 + 54 + 3, 100 + 56 + 3, 100 + 56 + 3]


def test_an_error_names_the_copy_that_was_written() -> None:
    graph, (a, b, c) = variables()
    graph.set_initial_value(a, 1)
    engine = Engine(graph, Sequence(Copy(a, b), Copy(c[5], c[2])))
    engine.load(IPUModel(tiles_per_ipu=4).create_device())
    with pytest.raises(UninitialisedReadError) as caught:
        engine.run()
    assert str(caught.value).startswith(
        "Copy to a view of 'c' reads element [5] of 'c', which nothing has written."
    )
    assert "Copy(c[5], c[2])" in str(caught.value)


def test_a_report_shows_the_parts() -> None:
    graph, (a, b, c) = variables()
    graph.set_initial_value(a, 1)
    engine = Engine(graph, Repeat(3, Sequence(Copy(a, b), Copy(a, c))))
    engine.load(IPUModel(tiles_per_ipu=4).create_device())
    engine.run()
    live = engine.report
    for report in (live, Report.deserialize(live.serialize())):
        assert [(s.kind, s.name) for s in report.steps()] == [
            ("Copy", "2 copies: 'a' to 'b', …")
        ] * 3
        (leaf,) = report.profile.programs[0].leaves()
        assert [(part.kind, part.name, part.step) for part in leaf.children] == [
            ("Copy", "'a' to 'b'", -1),
            ("Copy", "'a' to 'c'", -1),
        ]
        assert "test_merge.py" in report.profile.steps[0].line
        page = report._repr_html_()
        assert re.search(
            r"2 copies: &#x27;a&#x27; to &#x27;b&#x27;, …\n +Copy &#x27;a&#x27; to", page
        )
        rows = show.program(report).scene.table[1]
        assert [row[2] for row in rows[-3:]] == ["3", "3", "3"]


def test_a_saved_program_keeps_its_copies() -> None:
    graph, (a, b, c) = variables()
    program = Sequence(Copy(a, b), Copy(a, c))
    for merge in (True, False):
        executable = compile_graph(graph, program, merge_copies=merge)
        again = Executable.deserialize(executable.serialize())
        assert again.report.digest() == executable.report.digest()
        assert len(again.compiled.steps) == (1 if merge else 2)
    assert len(Engine(graph, program, {"merge_copies": False}).executable.compiled.steps) == 2


@pytest.mark.parametrize("merge", [True, False])
def test_twelve_thousand_copies_fit(merge: bool) -> None:
    """A step costs code on the tiles that take part; on the others it is one instruction, to
    sync."""
    count, tiles = 12_000 if merge else 1200, 16
    device = IPUModel(tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    a, b = graph.add_variable(FLOAT, count, "a"), graph.add_variable(FLOAT, count, "b")
    graph.set_tile_mapping(a, np.arange(count) * tiles // count)
    graph.set_tile_mapping(b, np.arange(count)[::-1] * tiles // count)
    graph.set_initial_value(a, np.arange(count))
    graph.create_host_read("b", b)
    engine = Engine(graph, Sequence(*(Copy(a[i], b[i]) for i in range(count))), merge_copies=merge)
    engine.load(device)
    engine.run()
    assert engine.read_tensor("b").tolist() == list(range(count))
    assert engine.report.num_steps == (1 if merge else count)
    code = engine.report.memory.bytes_per_tile_by_category["Control code"].tolist()
    # Of 16 tiles each sends and receives a sixteenth of the copies.
    each = count // tiles
    assert code == [16] * tiles if merge else code == [4 * count + 2 * each * 12] * tiles
