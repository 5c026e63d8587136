"""Copies that do not disturb each other are one superstep: which are, what it costs, and what is said of it."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest
from graphs import random_copy
from hypothesis import given, strategies as st
from test_brute_force import RANDOMLY, figures, moved, some_device, some_space

from ipu_teach import FLOAT, Engine, Executable, Graph, IPUModel, Report, compile_graph, show
from ipu_teach.errors import UninitialisedReadError
from ipu_teach.program import Copy, Program, Repeat, Sequence, WriteUndef


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
    assert runs_of(Sequence(Copy(a[:4], b[:4]), Copy(b[4:], c[4:]), Copy(b[3:4], c[3:4]), Copy(a[5:], b[5:])), graph) == [2, 2]
    assert runs_of(Sequence(apart[0], apart[0]), graph) == [1, 1]


def test_the_order_in_which_copies_stand_matters() -> None:
    """Here, there and on, four times: side by side they are two steps, one after the other eight."""
    graph, (a, b, c) = variables()
    pairs = [(Copy(a[i], b[i]), Copy(b[i], c[i])) for i in range(4)]
    assert runs_of(Sequence(*(copy for both in zip(*pairs, strict=True) for copy in both)), graph) == [4, 4]
    assert runs_of(Sequence(*(copy for pair in pairs for copy in pair)), graph) == [1, 2, 2, 2, 1]


def test_what_is_no_copy_on_one_ipu_ends_a_run() -> None:
    graph, (a, b, c) = variables()
    first, second = Copy(a[0], b[0]), Copy(a[1], b[1])
    stream = graph.add_host_to_device_fifo("in", FLOAT, 8)
    for between in (WriteUndef(c), Copy(stream, c), Sequence(), Repeat(2, Sequence())):
        parts = runs_of(Sequence(first, between, second), graph)
        assert max(parts) == 1, between
    assert runs_of(Sequence(Sequence(first), Sequence(second)), graph) == [1, 1]
    assert runs_of(Repeat(3, Sequence(first, second)), graph) == [2]
    graph, (a, b, _) = variables(tiles=2, num_ipus=2)  # elements 0, 1, 4 and 5 on the first
    within, across = [Copy(a[i], b[i]) for i in (0, 2)], Copy(a[4], b[3])
    assert runs_of(Sequence(*within), graph) == [2] and runs_of(Sequence(within[0], across, within[1]), graph) == [1, 1, 1]


@RANDOMLY
@given(st.randoms(use_true_random=False))
def test_random_copies_merge_as_far_as_they_may_and_move_each_byte_once(rng: Random) -> None:
    """Element by element: a run ends at the first copy that meets what it wrote or writes what it read."""
    device = some_device(rng)
    space, per_ipu = some_space(rng, device), device.target.tiles_per_ipu
    copies = [random_copy(rng, space) for _ in range(rng.randint(2, 9))]
    sides = [(set(s.ids.reshape(-1).tolist()), set(d.ids.reshape(-1).tolist())) for _, s, d in copies]
    within = [len({space.tile[e] // per_ipu for e in s | d}) <= 1 for s, d in sides]
    runs: list[list[int]] = []
    for number, (read, written) in enumerate(sides):
        so_far = [sides[i] for i in runs[-1]] if runs and within[number] and within[runs[-1][0]] else [(written, read)]
        if any(written & (r | w) or read & w for r, w in so_far) or not within[number] or not runs or not within[runs[-1][0]]:
            runs.append([])
        runs[-1].append(number)
    program = Sequence(*(copy for copy, _, _ in copies))
    engines = [Engine(space.graph, program, merge_copies=merge, strict=False) for merge in (True, False)]
    steps = list(engines[0].executable.compiled.programs[0].leaves())
    assert [len(step.children) or 1 for step in steps] == [len(run) for run in runs]
    for run, step in zip(runs, steps, strict=True):
        wanted: list[set[int]] = [set() for _ in range(space.tiles)]
        for s, d in [copies[i][1:] for i in run]:
            for there, here in zip(s.ids.reshape(-1).tolist(), d.ids.reshape(-1).tolist(), strict=True):
                wanted[space.tile[here]].add(there)
        assert figures(engines[0].executable.cost.step(step.step).exchange[0]) == moved(space, wanted, per_ipu)
    for engine in engines:
        engine.load(device)
        engine.run()
    memories = [engine._machine.memory.bytes.tobytes() for engine in engines if engine._machine is not None]
    assert memories[0] == memories[1]
    assert engines[0].report.total_cycles <= engines[1].report.total_cycles


def test_one_sync_and_one_latency() -> None:
    """Four numbers to the next tile each: 100 of sync, 54 until the first word (56 on the second row), a word, or the three
    instructions that turn to the sender and the one that sends."""
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
    assert str(caught.value).startswith("Copy to a view of 'c' reads element [5] of 'c', which nothing has written.")
    assert "Copy(c[5], c[2])" in str(caught.value)


def test_a_report_shows_the_parts() -> None:
    graph, (a, b, c) = variables()
    graph.set_initial_value(a, 1)
    engine = Engine(graph, Repeat(3, Sequence(Copy(a, b), Copy(a, c))))
    engine.load(IPUModel(tiles_per_ipu=4).create_device())
    engine.run()
    live = engine.report
    for report in (live, Report.deserialize(live.serialize())):
        assert [(s.kind, s.name) for s in report.steps()] == [("Copy", "2 copies: 'a' to 'b', …")] * 3
        (leaf,) = report.profile.programs[0].leaves()
        assert [(part.kind, part.name, part.step) for part in leaf.children] == [
            ("Copy", "'a' to 'b'", -1), ("Copy", "'a' to 'c'", -1)
        ]  # fmt: skip
        assert "test_merge.py" in report.profile.steps[0].line
        page = report._repr_html_()
        assert re.search(r"2 copies: &#x27;a&#x27; to &#x27;b&#x27;, …</summary><ul><li>Copy &#x27;a&#x27; to", page)
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
    """A step costs code on the tiles that take part; on the others it is one instruction, to sync."""
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
