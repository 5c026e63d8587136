"""The byte ledger of every tile, against an interpreter that walks every way through random
programs."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from brute_force import RANDOMLY, random_device
from codelets import Axpy, DotProduct, Increment, PairwiseSum, Sum, SumOfParts
from graphs import Placed, Space, View, add
from hypothesis import given, settings, strategies as st

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    Engine,
    Graph,
    Input,
    IPUModel,
    Output,
    Vector,
    VectorLayout,
    VectorList,
    Vertex,
    compile_graph,
)
from ipu_teach._support import places
from ipu_teach.cost.ledger import CATEGORIES, MemoryLedger, at_most
from ipu_teach.engine import host_memory
from ipu_teach.errors import GraphMemoryAllocationError, HostMemoryWarning
from ipu_teach.program import (
    Call,
    Copy,
    Execute,
    If,
    Program,
    Repeat,
    RepeatWhileTrue,
    Sequence,
    Switch,
    WriteUndef,
)


def memory_of(space: Space, *programs: Program) -> MemoryLedger:
    return compile_graph(
        space.graph, list(programs), strict=False, merge_copies=False
    ).report.memory


# --- an interpreter of programs -------------------------------------------------------------------


@dataclass
class Part:
    """A part of a random program: the program, and beside it what it does, in words that need no
    library.

    Of a leaf: what it reads, what it writes, and what it writes from end to end, as names of
    variables. Else its kind and its parts; `predicate` names the variable that decides, `count` is
    a Repeat's.
    """

    program: Program
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    fills: set[str] = field(default_factory=set)
    kind: str = "leaf"
    parts: list[Part] = field(default_factory=list)
    predicate: str = ""
    count: int = 1

    def leaves(self) -> list[Part]:
        return (
            [self]
            if self.kind == "leaf"
            else [leaf for part in self.parts for leaf in part.leaves()]
        )

    def ways(self) -> Iterator[list[Part | str]]:
        """Every way through: leaves, and names of predicates where they are read. A while loop runs
        at most twice."""
        match self.kind:
            case "leaf":
                yield [self]
            case "sequence":
                yield from self._one_after_the_other(self.parts)
            case "repeat":
                yield from self._one_after_the_other(self.parts * self.count)
            case "choice":
                for part in self.parts:
                    yield from ([self.predicate, *way] for way in part.ways())
            case "while":
                condition, body = self.parts
                for rounds in range(3):
                    yield from self._one_after_the_other(
                        [condition, self.predicate, *[body, condition, self.predicate] * rounds]
                    )

    def _one_after_the_other(self, parts: list[Any]) -> Iterator[list[Part | str]]:
        if not parts:
            yield []
            return
        for first in [[parts[0]]] if isinstance(parts[0], str) else parts[0].ways():
            for rest in self._one_after_the_other(parts[1:]):
                yield [*first, *rest]


def number_of_ways(part: Part) -> int:
    inner = [number_of_ways(p) for p in part.parts]
    match part.kind:
        case "leaf":
            return 1
        case "choice":
            return sum(inner)
        case "while":
            return inner[0] + inner[0] ** 2 * inner[1] + inner[0] ** 3 * inner[1] ** 2
    return math.prod(inner) ** (part.count if part.kind == "repeat" else 1)


def needed(way: list[Part | str], after: set[str]) -> tuple[set[str], list[tuple[Part, set[str]]]]:
    """(what must be there before this way begins, what is live at each of its leaves)."""
    live = []
    for step in reversed(way):
        if isinstance(step, str):
            after = after | {step}
            continue
        live.append((step, after | step.reads | step.writes))
        after = step.reads | (after - step.fills)
    return after, live


class Maker:
    """Makes random programs on a few variables."""

    def __init__(self, rng: Random, space: Space) -> None:
        self.rng, self.space = rng, space
        self.vectors = [space.variable(FLOAT, (4,), values=False) for _ in range(rng.randint(2, 4))]
        self.numbers = [space.variable(FLOAT, (), values=False) for _ in range(2)]
        self.flags = [space.variable(BOOL, (), values=False) for _ in range(2)]
        space.graph.host_accesses.clear()  # which made each of them always live

    def names(self, *views: View) -> set[str]:
        return {self.space.variable_of[e] for view in views for e in view.elements}

    def whole(self, *views: View) -> set[str]:
        """The variables of which the views together hold every element."""
        held = {e for view in views for e in view.elements}
        return {n for n in self.names(*views) if self.space.variables[n].elements <= held}

    def leaf(self) -> Part:
        rng = self.rng
        way = rng.randrange(5)
        a, b = rng.sample(self.vectors, 2)
        if way == 0:
            return Part(WriteUndef(a.tensor), set(), self.names(a), self.whole(a))
        if way == 1:
            part = slice(0, rng.randint(1, 4))
            return self.does(Copy(a[part].tensor, b[part].tensor), [a[part]], [b[part]])
        compute_set = self.space.graph.add_compute_set()
        place, out = rng.randrange(self.space.tiles), rng.choice(self.numbers)
        if way == 2:
            placed = Placed(PairwiseSum, place, {"x": [a], "out": [out]})
            reads, writes = [a], [out]
        elif way == 3:
            placed = Placed(Increment, place, {"x": [a[:2]]})
            reads, writes = [a[:2]], [a[:2]]
        else:
            placed = Placed(Axpy, place, {"x": [a], "y": [b]})
            reads, writes = [a, b], [b]
        add(self.space, compute_set, placed)
        return self.does(Execute(compute_set), reads, writes)

    def does(self, program: Program, reads: list[View], writes: list[View]) -> Part:
        return Part(
            program,
            self.names(*reads),
            self.names(*writes),
            self.whole(*writes) - self.names(*reads),
        )

    def part(self, depth: int) -> Part:
        rng = self.rng
        kind = (
            rng.choice(["leaf", "sequence", "repeat", "choice", "while", "call"])
            if depth
            else "leaf"
        )
        flag = rng.choice(self.flags)
        (name,) = self.names(flag)
        if kind == "leaf":
            return self.leaf()
        if kind == "sequence":
            parts = [self.part(depth - 1) for _ in range(rng.randint(1, 3))]
            return Part(Sequence(*(p.program for p in parts)), kind=kind, parts=parts)
        body = self.part(depth - 1)
        if kind == "repeat":
            count = rng.randrange(4)
            return Part(Repeat(count, body.program), kind=kind, parts=[body], count=count)
        if kind == "call":
            called = Call(self.space.graph.add_function(Sequence(body.program)))
            return Part(called, kind="sequence", parts=[body])
        other = self.part(depth - 1)
        if kind == "while":
            return Part(
                RepeatWhileTrue(body.program, flag.tensor, other.program),
                kind=kind,
                parts=[body, other],
                predicate=name,
            )
        return Part(
            If(flag.tensor, body.program, other.program),
            kind=kind,
            parts=[body, other],
            predicate=name,
        )


@pytest.mark.slow
@settings(RANDOMLY, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_liveness_is_what_an_interpreter_finds(rng: Random) -> None:
    """Every way through the programs is walked backwards; what a place needs on any of them is live
    there."""
    space = Space(random_device(rng), rng)
    maker = Maker(rng, space)
    roots = [
        root
        for root in (maker.part(3) for _ in range(rng.randint(1, 2)))
        if number_of_ways(root) <= 300
    ]
    if not roots:
        return
    memory = memory_of(space, *(root.program for root in roots))
    ways = [way for root in roots for way in root.ways()]
    leaves = [leaf for root in roots for leaf in root.leaves()]
    used: set[str] = set().union(*(leaf.reads | leaf.writes for leaf in leaves))
    always = (set(space.variables) - used).union(*(needed(way, set())[0] for way in ways))
    live: dict[int, set[str]] = {id(leaf): set() for leaf in leaves}
    for way in ways:
        for leaf, names in needed(way, always)[1]:
            live[id(leaf)] |= names - always
    found = memory.liveness
    assert {
        n
        for n, flag in zip(memory.names, found.always, strict=True)
        if flag and n in space.variables
    } == always
    assert len(found.places) == len(leaves)
    for place, leaf in enumerate(leaves):
        assert {n for n, flag in zip(memory.names, found.live[place], strict=True) if flag} == live[
            id(leaf)
        ]
        sizes = {n: 4 * space.variables[n].ids.size for n in live[id(leaf)]}
        assert memory.live_at(place) == sizes

    # And the bytes, tile by tile and place by place.
    def held(names: set[str], tile: int) -> int:
        return sum(
            space.size[e]
            for n in names
            for e in space.variables[n].elements
            if space.tile[e] == tile
        )

    for tile in range(space.tiles):
        passing = [
            sum(int(a[tile]) for a in memory.passing[place].values())
            for place in range(len(leaves))
        ]
        moments = [held(live[id(leaf)], tile) + passing[place] for place, leaf in enumerate(leaves)]
        assert memory.not_always_live_bytes_per_tile[tile] == max(moments, default=0)
        state = sum(
            int(s)
            for s, v, t in zip(memory.size, memory.variable, memory.tile, strict=True)
            if t == tile and memory.categories[v] == "Vertex state"
        )
        besides = sum(int(a[tile]) for a in memory.always.values())
        assert memory.always_live_bytes_per_tile[tile] == held(always, tile) + state + besides
    assert sum(memory.by_category().values()) == memory.bytes_per_tile.sum()
    for tile in range(space.tiles):
        assert sum(memory.by_category(tile).values()) == memory.bytes_per_tile[tile]
    assert sum(memory.by_region().values()) == (memory.bytes_per_tile + memory.gaps_per_tile).sum()


# --- by hand --------------------------------------------------------------------------------------


def chain(rng: Random, count: int, **fields: Any) -> tuple[Space, list[View], Sequence]:
    """`count` variables of 1,000 bytes on tile 0, each copied to the next."""
    space = Space(IPUModel(tiles_per_ipu=2, **fields).create_device(), rng)
    views = [space.variable(BOOL, (1000,), values=False) for _ in range(count)]
    for view in views:
        space.map(view, 0)
    space.graph.host_accesses.clear()
    return (
        space,
        views,
        Sequence(*(Copy(a.tensor, b.tensor) for a, b in zip(views, views[1:], strict=False))),
    )


def test_dead_variables_leave_their_bytes_to_others() -> None:
    """Ten variables of 1,000 bytes, of which at most three are needed at a time: the first always,
    then one and the next."""
    space, views, program = chain(Random(0), 10)
    memory = memory_of(space, program)
    assert memory.variable_bytes_per_tile.tolist() == [10_000, 0]
    # The supervisor's stack; nine steps, in which tile 1 only syncs; a copy vertex in each, and
    # once what they run.
    overhead = 128 + 9 * 16 + 9 * 12 + 440
    assert memory.always_live_bytes_per_tile.tolist() == [1000 + overhead, 128 + 9 * 4]
    assert memory.not_always_live_bytes_per_tile.tolist() == [2000, 0]
    assert memory.by_variable() == {f"t{i}": 1000 for i in range(10)}
    assert memory.live_at(0) == {"t1": 1000} and memory.live_at(4) == {"t4": 1000, "t5": 1000}
    assert memory.live_at(4, tile=1) == {}
    assert [size for _, size in memory.bytes_by_place()] == [1000] + 8 * [2000]
    assert memory.bytes_by_place()[0][0] == "'t0' to 't1'"
    # Read by the host at the end, the last one is always live.
    space.graph.create_host_read("end", views[-1].tensor)
    later = memory_of(space, program)
    assert (
        later.always_live_bytes_per_tile[0] == 2000 + overhead
        and later.not_always_live_bytes_per_tile[0] == 2000
    )


def test_a_program_that_reuses_memory_fits_where_its_variables_do_not() -> None:
    space, _, program = chain(Random(0), 10, memory_bytes_per_tile=3840)
    engine = Engine(space.graph, program, strict=False)
    engine.load(space.device)
    space, _, program = chain(Random(0), 10, memory_bytes_per_tile=3640)
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(space.graph, program, strict=False)
    assert caught.value.report.memory.bytes_per_tile.tolist() == [3820, 164]
    assert caught.value.bytes_per_tile.tolist() == [3820, 164]  # type: ignore[attr-defined]
    assert str(caught.value) == (
        "Out of memory: Cannot fit all variable data onto one or more tiles. 1 of 2 tiles holds "
        "too much.\n  where: the fullest is tile 0: 3,820 of 3,640 bytes. Its variables: 't0' "
        "1,000, 't1' 1,000, 't2' 1,000. Also: vertex code 440, exchange code 108, control code "
        "144, stacks 128.\n  next:  spread the variables over more tiles "
        "(poputil.map_tensor_linearly), use a smaller dtype, or more tiles."
    )


def test_the_error_names_ten_variables() -> None:
    space = Space(IPUModel(tiles_per_ipu=1, memory_bytes_per_tile=1000).create_device(), Random(0))
    for i in range(14):
        space.map(space.variable(BOOL, (100 + i,)), 0)
    with pytest.raises(GraphMemoryAllocationError) as caught:
        Engine(space.graph, Sequence())
    line = str(caught.value).splitlines()[1]
    assert (
        "Its variables: 't13' 113, 't12' 112, " in line
        and "'t4' 104, and 4 smaller ones. Also: stacks 128." in line
    )
    assert line.count("'t") == 10


def test_copies_of_other_tiles_data_need_room() -> None:
    """Tile 1 reads 1,000 numbers of tile 0, and writes one back: 4,000 bytes while it works."""
    space = Space(IPUModel(tiles_per_ipu=2).create_device(), Random(0))
    x, out = space.variable(FLOAT, (1000,)), space.variable(FLOAT, ())
    space.map(x, 0)
    space.map(out, 0)
    compute_set = space.graph.add_compute_set()
    add(space, compute_set, Placed(Sum, 1, {"x": [x], "out": [out]}))
    memory = memory_of(space, Execute(compute_set))
    assert memory.passing[0]["Exchange buffers"].tolist() == [0, 4004]
    assert memory.by_category()["Exchange buffers"] == 4004
    # 63 SENDs of 64 words or less there, 3 instructions to listen; 1 SEND back, and 3.
    assert memory.always["Exchange code"].tolist() == [4 * (16 + 3), 4 * (3 + 1)]
    assert memory.always["Vertex code"].tolist() == [0, 440]
    assert memory.always["Stacks"].tolist() == [128, 128 + 6 * 512]


def test_packets_that_land_elsewhere_need_room() -> None:
    """Two tiles with a half of each packet: the first packet lands on tile 0, the second on tile
    1."""
    space = Space(IPUModel(tiles_per_ipu=2).create_device(), Random(0))
    x = space.variable(FLOAT, (2, 2, 128))
    space.map(x[:, 0], 0)
    space.map(x[:, 1], 1)
    stream = space.graph.add_host_to_device_fifo("in", FLOAT, 512)
    back = space.graph.add_device_to_host_fifo("out", FLOAT, 512)
    memory = memory_of(space, Sequence(Copy(stream, x.tensor), Copy(x.tensor, back)))
    assert [passing["Host buffers"].tolist() for passing in memory.passing] == [
        [512, 512],
        [512, 512],
    ]
    assert memory.always["Host packet headers"].tolist() == [8, 8]


class Layouts(Vertex):
    span: Input[Vector[FLOAT]]
    short: Input[Vector[FLOAT, VectorLayout.SHORT_SPAN]]
    pointer: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]
    scaled: Input[Vector[FLOAT, VectorLayout.SCALED_PTR64]]
    rows: Input[VectorList[FLOAT, VectorLayout.DELTAN]]
    scattered: Vector[Input[FLOAT]]
    out: Output[FLOAT]
    k: HALF = 1

    def compute(self) -> None:
        self.out = self.span[0]


def test_pointers_take_what_their_layouts_say() -> None:
    space = Space(IPUModel(tiles_per_ipu=2).create_device(), Random(0))
    graph, x, out = space.graph, space.variable(FLOAT, (8,)), space.variable(FLOAT, (3,))
    compute_set = graph.add_compute_set()
    tensor = x.tensor
    same = dict.fromkeys(("span", "short", "pointer", "scaled"), tensor)
    rows, scattered = x.reshaped((4, 2)).tensor, [tensor[3], tensor[0], tensor[7]]
    v = graph.add_vertex(
        compute_set, Layouts, {**same, "rows": rows, "scattered": scattered, "out": out[0].tensor}
    )
    graph.set_tile_mapping(v, 0)
    add(space, compute_set, Placed(DotProduct, 1, {"a": [x], "b": [x], "out": [out[1]]}))
    add(space, compute_set, Placed(SumOfParts, 1, {"parts": [x[:3], x[3:]], "out": [out[2]]}))
    memory = memory_of(space, Execute(compute_set))
    # A span is two words, a short span and a pointer one, a scaled pointer half of one; a number
    # has a pointer. A VectorList has a word for each vector, a Vector of Vectors a span, one of
    # Inputs a pointer, and all three a span of their own.
    assert memory.always["Edge pointers"].tolist() == [
        8 + 4 + 4 + 2 + (4 * 4 + 8) + (3 * 4 + 8) + 4,
        (8 + 8 + 4) + (2 * 8 + 8 + 4),
    ]
    assert memory.by_category()["Vertex state"] == 2


def test_interleaved_memory_is_filled_last() -> None:
    def regions(size: int, **fields: Any) -> dict[str, int]:
        space = Space(IPUModel(tiles_per_ipu=1, **fields).create_device(), Random(0))
        space.map(space.variable(BOOL, (size,)), 0)
        executable = compile_graph(space.graph, Sequence(), {"debug.allowOutOfMemory": True})
        return executable.report.memory.by_region()

    assert regions(1000) == {"Non-interleaved": 1128, "Interleaved": 0, "Overflow": 0}
    # and a gap of 7
    assert regions(212_993) == {"Non-interleaved": 212_992, "Interleaved": 136, "Overflow": 0}
    assert regions(700_000) == {
        "Non-interleaved": 212_992,
        "Interleaved": 425_984,
        "Overflow": 700_128 - 638_976,
    }
    assert regions(1000, memory_bytes_per_tile=500) == {
        "Non-interleaved": 500,
        "Interleaved": 0,
        "Overflow": 628,
    }


def test_gaps_fill_up_whole_data_paths() -> None:
    space = Space(IPUModel(tiles_per_ipu=2).create_device(), Random(0))
    for size, tile in ((1, 0), (8, 0), (13, 0), (3, 1)):
        space.map(space.variable(BOOL, (size,)), tile)
    memory = memory_of(space, Sequence())
    assert memory.gaps_per_tile.tolist() == [7 + 3, 5]
    assert memory.by_variable(0) == {"t2": 13, "t1": 8, "t0": 1}
    assert memory.tiles_of("t3") == [1]


def test_all_categories_are_named() -> None:
    memory = memory_of(Space(IPUModel(tiles_per_ipu=1).create_device(), Random(0)), Sequence())
    assert tuple(memory.by_category()) == CATEGORIES
    assert memory.bytes_per_tile.tolist() == [128] and memory.bytes_by_place() == []


def test_a_switch_and_a_loop_that_never_runs() -> None:
    space, views, _ = chain(Random(0), 4)
    a, b, c, d = (v.tensor for v in views)
    number = space.variable(INT, ())
    switch = Switch(number.tensor, {0: Copy(a, b), 1: Copy(a, c)}, Sequence())
    memory = memory_of(space, Sequence(Repeat(0, Copy(a, d)), switch, Copy(b, d)))
    # b is written in one case only, so what was there before may be read; c and d come and go.
    names = {n for n, always in zip(memory.names, memory.liveness.always, strict=True) if always}
    assert {"t0", "t1", "t4"} <= names and not {"t2", "t3"} & names
    assert [memory.live_at(i) for i in range(4)] == [{}, {}, {"t2": 1000}, {"t3": 1000}]


def test_memory_in_a_report_at_another_size() -> None:
    """what_if() asks for another capacity; what lies there does not change."""
    space, _, program = chain(Random(0), 3)
    report = compile_graph(space.graph, program, strict=False).report
    small = report.what_if(memory_bytes_per_tile=1000)
    assert np.array_equal(small.memory.bytes_per_tile, report.memory.bytes_per_tile)
    assert small.memory.by_region()["Overflow"] > 0 == report.memory.by_region()["Overflow"]
    stacked = report.what_if(supervisor_stack_bytes=1000)
    assert (stacked.memory.bytes_per_tile - report.memory.bytes_per_tile).tolist() == [872, 872]


@pytest.mark.parametrize(
    "scattered", [False, True], ids=["in one piece", "each number from another tile"]
)
def test_a_small_program_passes_by_a_bound_and_has_no_ledger_until_somebody_asks(
    scattered: bool,
) -> None:
    """1,000 numbers that a vertex of another tile changes: they are there twice, and so is the code
    that moves them."""
    space = Space(
        IPUModel(tiles_per_ipu=3, exchange_setup_instructions=50).create_device(), Random(0)
    )
    x = space.variable(FLOAT, (1000,))
    for i in range(1000):
        space.map(x[i], i % 2 if scattered else 0)
    compute_set = space.graph.add_compute_set()
    add(space, compute_set, Placed(Increment, 2, {"x": [x]}))
    cost = compile_graph(space.graph, Execute(compute_set)).cost
    assert "memory" not in vars(cost)
    held = int(cost.memory.held_per_tile.max())
    assert held > 8000 + 200 * (1000 if scattered else 1)
    assert held <= at_most(cost.compiled, cost.target) < cost.target.bytes_per_tile
    with pytest.raises(GraphMemoryAllocationError, match=f"{held:,} of {held - 1:,} bytes"):
        cost.at(replace(cost.target, memory_bytes_per_tile=held - 1)).check_memory()
    cost.at(replace(cost.target, memory_bytes_per_tile=held)).check_memory()


def large(monkeypatch: pytest.MonkeyPatch, folder: Path, every: int, free: int) -> Engine:
    """Two Copies of a variable of 9,216 x 1,472 bytes there and back, on a computer with so many
    kB of memory."""
    (folder / "meminfo").write_text(f"MemTotal: {every} kB\nMemAvailable:  {free} kB\n")
    monkeypatch.setattr(places, "MEMINFO", folder / "meminfo")
    graph = Graph(IPUModel("ipu2").create_device())
    x, y = (graph.add_variable(FLOAT, (1472, 2304), name) for name in "xy")
    for tile in range(1472):
        graph.set_tile_mapping(x[tile], tile)
        graph.set_tile_mapping(y[tile], 1471 - tile)
    return Engine(graph, Sequence(Copy(x, y), Copy(y, x)))


def test_what_this_computer_cannot_hold_is_told_before_anything_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bytes_ = 2 * 2 * 9216 * 1472  # two variables, and a mark for each byte
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        large(monkeypatch, tmp_path, 2**20, bytes_ // 1024)
    with pytest.warns(HostMemoryWarning) as warned:
        large(monkeypatch, tmp_path, 2**20, bytes_ // 1024 - 1)
    where = """
  where: variables of 27,131,904 bytes on 1,472 tiles, and a mark for each byte that shows whether it was written
  next:  give the model fewer tiles or IPUs: IPUModel(tiles_per_ipu=…, num_ipus=…). Or make the \
variables smaller. Or pass strict={"uninitialised": False}, which needs no marks."""
    assert [(str(w.message), w.filename) for w in warned] == [
        (
            "This program needs 54,263,808 bytes of this computer's memory, which has 54,262,784 "
            f"free: it becomes slow, or the system ends it.{where}",
            __file__,
        )
    ]
    with pytest.raises(GraphMemoryAllocationError) as error:
        large(monkeypatch, tmp_path, bytes_ // 1024 - 1, 1)
    assert str(error.value) == (
        "This program needs 54,263,808 bytes of this computer's memory, which has 54,262,784."
        + where
    )


def test_steps_of_a_large_machine_are_told_before_they_are_priced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(host_memory, "LEAST", 1)
    with pytest.raises(GraphMemoryAllocationError) as error:
        large(monkeypatch, tmp_path, 2 * 1472 * 256 // 1024 - 1, 1)
    assert (
        str(error.value)
        == """\
This program needs 753,664 bytes of this computer's memory, which has 752,640.
  where: 2 steps on 1,472 tiles, 256 bytes for the costs of each step on each tile
  next:  give the model fewer tiles or IPUs: IPUModel(tiles_per_ipu=…, num_ipus=…). Or use \
fewer steps: one Repeat instead of copies of its body."""
    )
    # and so many they are: what a compile keeps of 40 steps
    graph = Graph(IPUModel("ipu2", num_ipus=4, tiles_per_ipu=300).create_device())
    x = graph.add_variable(FLOAT, (1200, 4), "x")
    for tile in range(1200):
        graph.set_tile_mapping(x[tile], tile)
    monkeypatch.undo()
    steps = [Copy(x[k], x[k + 300]) for k in range(40)]
    tracemalloc.start()
    try:
        executable = compile_graph(graph, Sequence(*steps), merge_copies=False)
        assert all(executable.cost.step(number).cycles for number in range(40))
        kept = tracemalloc.get_traced_memory()[0] / (40 * 1200)
    finally:
        tracemalloc.stop()
    assert 64 < kept <= 256
