"""The machine in one file beside the kit: one program, two imports, and the same values, bytes,
races and unwritten reads."""

# No `from __future__ import annotations` here: the classes below take their fields' types from the
# module they are given.

import ast
import json
import random
import re
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import ipu_teach
from ipu_teach import errors, tiny

TILES = 5
RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
RACE = (tiny.MachineError, errors.ComputeSetRaceError)


def codelets(m: ModuleType) -> dict[str, Any]:
    """Vertex classes over the names of `m`: array work, loops, branches, stores of some elements,
    every type."""

    class Dot(m.Vertex):
        a: m.Input[m.Vector[m.FLOAT]]
        b: m.Input[m.Vector[m.FLOAT]]
        out: m.Output[m.FLOAT]

        def compute(self):
            self.out = self.a @ self.b

    class Axpy(m.Vertex):
        a: m.Input[m.FLOAT]
        x: m.Input[m.Vector[m.FLOAT]]
        y: m.InOut[m.Vector[m.FLOAT]]

        def compute(self):
            self.y += self.a * self.x

    class RunningSum(m.Vertex):
        x: m.Input[m.Vector[m.HALF]]
        out: m.Output[m.Vector[m.HALF]]

        def compute(self):
            total = 0.0
            for i in range(len(self.x)):
                total += self.x[i]
                self.out[i] = total

    class Evens(m.Vertex):
        x: m.Input[m.Vector[m.INT]]
        out: m.Output[m.Vector[m.INT]]

        def compute(self):
            self.out[::2] = self.x[::2] * 3
            self.out[1::2] = 7

    class Turn(m.Vertex):
        x: m.InOut[m.Vector[m.INT]]

        def compute(self):
            self.x = self.x[::-1] + 1

    class Positive(m.Vertex):
        x: m.Input[m.Vector[m.FLOAT]]
        out: m.Output[m.Vector[m.BOOL]]

        def compute(self):
            self.out = self.x > 0

    class Scale(m.Vertex):
        x: m.Input[m.Vector[m.Vector[m.FLOAT]]]
        out: m.Output[m.FLOAT]

        def compute(self):
            self.out = self.x.sum() / 2

    class CountDown(m.Vertex):
        left: m.InOut[m.INT]
        more: m.Output[m.BOOL]

        def compute(self):
            self.left = self.left - 1
            self.more = self.left > 0

    return {
        codelet.__name__: codelet
        for codelet in (Dot, Axpy, RunningSum, Evens, Turn, Positive, Scale, CountDown)
    }


# Type and size of what each field takes: 1 element, 6 as a matrix, None for any length that all
# such fields share.
FIELDS: dict[str, dict[str, tuple[str, int | None]]] = {
    "Dot": {"a": ("FLOAT", 4), "b": ("FLOAT", 4), "out": ("FLOAT", 1)},
    "Axpy": {"a": ("FLOAT", 1), "x": ("FLOAT", 4), "y": ("FLOAT", 4)},
    "RunningSum": {"x": ("HALF", None), "out": ("HALF", None)},
    "Evens": {"x": ("INT", None), "out": ("INT", None)},
    "Turn": {"x": ("INT", None)},
    "Positive": {"x": ("FLOAT", None), "out": ("BOOL", None)},
    "Scale": {"x": ("FLOAT", 6), "out": ("FLOAT", 1)},
    "CountDown": {"left": ("INT", 1), "more": ("BOOL", 1)},
}


class Run:
    """What came of a program: the error that stopped it if any, values by handle, and bytes that
    each tile received by step."""

    def __init__(self, m: ModuleType, build: Any, *args: Any, **how: Any) -> None:
        self.values: dict[str, Any] = {}
        self.received: list[dict[int, int]] = []
        self.error = ""
        device = m.IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
        graph = m.Graph(device)
        try:
            program, handles = build(m, graph, *args)
            engine = m.Engine(graph, program, **how)
            engine.load(device)
            engine.run()
        except RACE[0] as error:
            self.error = (
                "race"
                if "a race" in str(error)
                else "unwritten"
                if "nothing has written" in str(error)
                else str(error)
            )
        except errors.ComputeSetRaceError:
            self.error = "race"
        except errors.UninitialisedReadError:
            self.error = "unwritten"
        else:
            self.values = {handle: engine.read_tensor(handle) for handle in handles}
            self.received = received(engine)


def received(engine: Any) -> list[dict[int, int]]:
    if isinstance(engine, tiny.Engine):
        found = [step.received() for step in engine.steps]
    else:
        costs = [engine.report.step_cost(number) for number in engine.report.step_numbers.tolist()]
        moved = [
            sum(traffic.received for traffic in c.exchange)
            for c in costs
            if c.kind in ("Execute", "Copy")
        ]
        found = [Counter(dict(enumerate(np.zeros(TILES, int) + tiles))) for tiles in moved]
    return [{tile: int(count) for tile, count in step.items() if count} for step in found]


def assert_same(build: Any, *args: Any) -> Run:
    small, kit = Run(tiny, build, *args), Run(ipu_teach, build, *args, merge_copies=False)
    assert small.received == kit.received
    for other in (kit, Run(ipu_teach, build, *args)):
        assert small.error == other.error
        assert small.values.keys() == other.values.keys()
        for handle, values in small.values.items():
            assert values.dtype == other.values[handle].dtype
            assert values.tobytes() == other.values[handle].tobytes(), handle
    return small


# --- random programs ------------------------------------------------------------------------------


class Writer:
    """Writes one random program over the names of a module: the same one for each, as the numbers
    are drawn alike."""

    def __init__(self, m: ModuleType, graph: Any, seed: int) -> None:
        self.m, self.graph, self.rng = m, graph, random.Random(seed)
        self.codelets, self.handles, self.sets = codelets(m), [], 0
        self.known = self.rng.random() < 0.7  # every variable has a value from the start

    def variable(self, kind: str, shape: tuple[int, ...], values: Any = None) -> Any:
        name = f"{kind} {len(self.handles)}"
        tensor = self.graph.add_variable(getattr(self.m, kind), shape, name)
        numbers = np.random.default_rng(self.rng.randrange(10**6)).integers(-4, 5, shape)
        self.graph.set_tile_mapping(tensor, self.rng.randrange(TILES))
        for i in range(self.rng.randrange(3)):
            self.graph.set_tile_mapping(tensor[i % shape[0]], self.rng.randrange(TILES))
        drawn = {"INT": numbers, "BOOL": numbers > 0}.get(kind, numbers / 3)
        if values is not None or self.known or self.rng.random() < 0.7:
            self.graph.set_initial_value(tensor, drawn if values is None else values)
            self.graph.create_host_read(name, tensor)
            self.handles.append(name)
        else:
            self.handles.append(name + " (unread)")
        return tensor

    def vector(self, kind: str, length: int) -> Any:
        """A view of a new variable: a row, a column, every second element, or backwards."""
        way = self.rng.randrange(5)
        if way == 0:
            return self.variable(kind, (length,))
        if way == 1:
            return self.variable(kind, (3, length))[self.rng.randrange(3)]
        if way == 2:
            return self.variable(kind, (length, 2)).transpose()[self.rng.randrange(2)]
        if way == 3:
            return self.variable(kind, (2 * length,))[::2]
        return self.variable(kind, (length, 3)).reshape((3 * length,))[length : 2 * length]

    def vertices(self, compute_set: Any) -> None:
        pool: dict[tuple[str, int], Any] = {}  # what vertices share, and may race for
        for _ in range(self.rng.randint(1, 3)):
            name, n = self.rng.choice(list(FIELDS)), self.rng.choice([1, 2, 3, 7])
            edges = {}
            for field, (kind, size) in FIELDS[name].items():
                shape = {1: (1,), 4: (4,), 6: (3, 2), None: (n,)}[size]
                made = (
                    self.vector(kind, shape[0]) if len(shape) == 1 else self.variable(kind, shape)
                )
                shared = (
                    pool.setdefault((kind, made.num_elements), made)
                    if self.rng.random() < 0.4
                    else made
                )
                edges[field] = shared[0] if size == 1 else shared.reshape(shape)
            vertex = self.graph.add_vertex(compute_set, self.codelets[name], **edges)
            self.graph.set_tile_mapping(vertex, self.rng.randrange(TILES))

    def step(self) -> Any:
        self.sets += 1
        if self.rng.random() < 0.3:
            kind = self.rng.choice(["FLOAT", "HALF", "INT", "BOOL"])
            return self.m.program.Copy(self.vector(kind, 6), self.variable(kind, (2, 3)))
        compute_set = self.graph.add_compute_set(f"set {self.sets}")
        self.vertices(compute_set)
        return self.m.program.Execute(compute_set)

    def part(self, depth: int) -> Any:
        p, kind = self.m.program, self.rng.randrange(5 if depth else 2)
        if kind < 2:
            return self.step()
        if kind == 2:
            return p.Repeat(self.rng.randrange(4), self.part(depth - 1))
        if kind == 3:
            flag = self.variable("BOOL", (1,), [self.rng.random() < 0.5])
            return p.If(flag[0], self.part(depth - 1), self.part(depth - 1))
        left, more = (
            self.variable("INT", (1,), [self.rng.randint(0, 3)]),
            self.variable("BOOL", (1,), [True]),
        )
        down = self.graph.add_compute_set("count down")
        vertex = self.graph.add_vertex(down, self.codelets["CountDown"], left=left[0], more=more[0])
        self.graph.set_tile_mapping(vertex, self.rng.randrange(TILES))
        return p.RepeatWhileTrue(p.Execute(down), more[0], self.part(depth - 1))


def random_program(m: ModuleType, graph: Any, seed: int) -> tuple[Any, list[str]]:
    writer = Writer(m, graph, seed)
    program = m.program.Sequence(*(writer.part(2) for _ in range(writer.rng.randint(1, 3))))
    return program, [handle for handle in writer.handles if not handle.endswith("(unread)")]


@settings(RANDOMLY, max_examples=30)
@given(st.integers(0, 10**6))
def test_random_programs_do_the_same_on_both(seed: int) -> None:
    assert_same(random_program, seed)


def test_random_programs_meet_all_there_is() -> None:
    """They would be worth little if all of them raced, or none moved a byte."""
    runs = [Run(tiny, random_program, seed) for seed in range(120)]
    found = Counter(run.error for run in runs)
    assert (
        found.keys() == {"", "race", "unwritten"} and min(found.values()) >= 3 and found[""] >= 40
    )
    assert sum(any(run.received) for run in runs) >= 40


# --- by hand --------------------------------------------------------------------------------------


def two_steps(m: ModuleType, graph: Any) -> tuple[Any, list[str]]:
    """26 rows on five tiles times one vector on tile 0; the results are gathered on tile 4."""
    matrix, vector = (
        graph.add_variable(m.FLOAT, (26, 64), "matrix"),
        graph.add_variable(m.FLOAT, (64,), "vector"),
    )
    result, gathered = (
        graph.add_variable(m.FLOAT, (26,), "result"),
        graph.add_variable(m.FLOAT, (26,), "gathered"),
    )
    graph.set_tile_mapping(vector, 0)
    graph.set_tile_mapping(gathered, 4)
    products = graph.add_compute_set("products")
    for row in range(26):
        vertex = graph.add_vertex(
            products, codelets(m)["Dot"], a=matrix[row], b=vector, out=result[row]
        )
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row // 6)
    graph.set_initial_value(matrix, np.arange(26 * 64).reshape(26, 64) / 7)
    graph.set_initial_value(vector, np.arange(64) / 3)
    graph.create_host_read("gathered", gathered)
    return m.program.Sequence(m.program.Execute(products), m.program.Copy(result, gathered)), [
        "gathered"
    ]


def test_a_product_is_numpys() -> None:
    run = assert_same(two_steps)
    matrix, vector = (
        (np.arange(26 * 64).reshape(26, 64) / 7).astype(np.float32),
        (np.arange(64) / 3).astype(np.float32),
    )
    np.testing.assert_array_equal(run.values["gathered"], [row @ vector for row in matrix])
    assert run.received == [{1: 256, 2: 256, 3: 256, 4: 256}, {4: 96}]


def test_the_cycles_are_those_of_the_formula(capsys: pytest.CaptureFixture[str]) -> None:
    device = tiny.IPUModel(tiles_per_ipu=TILES).create_device()
    graph = tiny.Graph(device)
    engine = tiny.Engine(graph, two_steps(tiny, graph)[0])
    engine.load(device)
    engine.run()
    products, gather = engine.steps
    work = 5 + 64 + 64 + 1
    # six vertices, six workers; sent once
    assert (products.exchange(), products.compute()) == (256 // 4, 6 * work)
    assert (gather.exchange(), gather.compute()) == (4 * 24 // 4, 0)
    engine.print_profile_summary()
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table[0] == ["superstep", "sync", "exchange", "compute", "cycles", "bytes"]
    assert table[1] == ["products", "100", "64", str(6 * work), str(164 + 6 * work), "1024"]
    assert table[2] == ["Copy", "100", "24", "0", "124", "96"]


def some_elements(
    m: ModuleType, graph: Any, conditions: list[bool], initial: bool
) -> tuple[Any, list[str]]:
    class Keep(m.Vertex):
        keep: m.Input[m.BOOL]
        x: m.Input[m.FLOAT]
        out: m.Output[m.FLOAT]

        def compute(self):
            if self.keep:
                self.out = self.x

    n = len(conditions)
    keep, x = graph.add_variable(m.BOOL, (n,), "keep"), graph.add_variable(m.FLOAT, (n,), "x")
    out, copied = (
        graph.add_variable(m.FLOAT, (n,), "out"),
        graph.add_variable(m.FLOAT, (n,), "copied"),
    )
    store = graph.add_compute_set("store")
    for i in range(n):
        vertex = graph.add_vertex(store, Keep, keep=keep[i], x=x[i], out=out[i])
        for part in (vertex, keep[i], x[i], out[i], copied[i]):
            graph.set_tile_mapping(part, i % TILES)
    graph.set_initial_value(keep, conditions)
    graph.set_initial_value(x, [np.nan, *range(1, n)])
    if initial:
        graph.set_initial_value(out, [-1] * n)
    graph.create_host_read("copied", copied)
    return m.program.Sequence(m.program.Execute(store), m.program.Copy(out, copied)), ["copied"]


def test_what_is_not_stored_stays_as_it_was() -> None:
    run = assert_same(some_elements, [True, False, True, False], True)
    np.testing.assert_array_equal(run.values["copied"], [np.nan, -1, 2, -1])


def test_what_was_never_stored_is_not_there() -> None:
    assert Run(tiny, some_elements, [True, True], False).error == ""
    assert Run(tiny, some_elements, [True, False], False).error == "unwritten"


def one_vertex(m: ModuleType, graph: Any, codelet: str, **edges: Any) -> Any:
    compute_set = graph.add_compute_set("work")
    vertex = graph.add_vertex(compute_set, codelets(m)[codelet], **edges)
    graph.set_tile_mapping(vertex, 0)
    return m.program.Execute(compute_set)


def test_races_are_found_within_a_vertex_too() -> None:
    def overlap(m: ModuleType, graph: Any) -> tuple[Any, list[str]]:
        x = graph.add_variable(m.INT, (6,), "x")
        graph.set_tile_mapping(x, 0)
        graph.set_initial_value(x, range(6))
        return one_vertex(m, graph, "Evens", x=x[:4], out=x[2:]), []

    assert assert_same(overlap).error == "race"


def build_tiny(make: Any) -> Any:
    device = tiny.IPUModel(tiles_per_ipu=TILES).create_device()
    graph = tiny.Graph(device)
    x = graph.add_variable(tiny.INT, (4,), "x")
    engine = tiny.Engine(graph, make(graph, x))
    engine.load(device)
    engine.run()
    return engine


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda g, x: one_vertex(tiny, g, "Turn", x=x[[0, 0]]),
            "a race: element 0 of 'x' is written in 'work', and is in another field",
        ),
        (lambda g, x: g.set_tile_mapping(x, TILES), "there is no tile 5, only 0 to 4"),
        (
            lambda g, x: one_vertex(tiny, g, "Turn", y=x),
            "Turn takes ['x'], but got ['y']",
        ),
        (
            lambda g, x: tiny.Copy(x[:2], x[2:]),
            "element 0 of 'x', or its vertex, is on no tile",
        ),
        (
            lambda g, x: (g.set_tile_mapping(x, 1), one_vertex(tiny, g, "Turn", x=x))[1],
            "element 0 of 'x' is read, but nothing",
        ),
        (
            lambda g, x: tiny.Copy(x[9], x[0]),
            "no such element: index 9 is out of bounds for axis 0 with size 4",
        ),
        (
            lambda g, x: tiny.If(x[3], tiny.Sequence(), tiny.Sequence()),
            "element 3 of 'x' is read, but nothing has written it",
        ),
    ],
)
def test_errors_say_what_and_where(make: Any, text: str) -> None:
    with pytest.raises(tiny.MachineError) as caught:
        build_tiny(make)
    assert text in str(caught.value)


class Twice(tiny.Vertex):
    """What adds to an Output, of one element or of several."""

    x: tiny.Input[tiny.FLOAT]
    out: tiny.Output[tiny.FLOAT]

    def compute(self) -> None:
        self.out = 0
        self.out += self.x


class Unknown(Twice):
    """What stores into a field that is not there."""

    x: tiny.Input[tiny.FLOAT]
    out: tiny.Output[tiny.FLOAT]

    def compute(self) -> None:
        self.total = self.x


@pytest.mark.parametrize(
    ("codelet", "size", "text"),
    [
        (Twice, (), "Twice reads its Output 'out': make it an InOut"),
        (Twice, (2,), "Twice reads its Output 'out': make it an InOut"),
        (Unknown, (), "Unknown has no field 'total', only ['x', 'out']"),
    ],
)
def test_what_no_vertex_of_the_kit_may_do_none_may_here(
    codelet: Any, size: tuple[int, ...], text: str
) -> None:
    device = tiny.IPUModel(tiles_per_ipu=1).create_device()
    graph = tiny.Graph(device)
    x, out = (graph.add_variable(tiny.FLOAT, size, name) for name in ("x", "out"))
    work = graph.add_compute_set("work")
    for part in (x, out, graph.add_vertex(work, codelet, x=x, out=out)):
        graph.set_tile_mapping(part, 0)
    graph.set_initial_value(x, 1)
    engine = tiny.Engine(graph, tiny.Execute(work))
    engine.load(device)
    with pytest.raises(tiny.MachineError) as caught:
        engine.run()
    assert str(caught.value) == text
    with pytest.raises(tiny.MachineError, match=r"no host read is named 'out', only \[\]"):
        engine.read_tensor("out")


def stranger(m: ModuleType) -> Any:
    """A tensor of a graph of its own, on a tile of it."""
    graph = m.Graph(m.IPUModel("ipu2", tiles_per_ipu=TILES).create_device())
    tensor = graph.add_variable(m.INT, (4,), "stranger")
    graph.set_tile_mapping(tensor, 1)
    return tensor


def misuse(act: Any, m: ModuleType) -> None:
    """A whole program of the kit or of tiny, x to y, but for one mistake of a learner: `act` gets
    the names, the graph, x and y, and may give back another program."""
    device = m.IPUModel("ipu2", tiles_per_ipu=TILES).create_device()
    graph = m.Graph(device)
    x, y = (graph.add_variable(m.INT, (4,), name) for name in "xy")
    for tensor in (x, y):
        graph.set_tile_mapping(tensor, 0)
        graph.set_initial_value(tensor, 1)
    graph.create_host_read("y", y)
    program = act(m, graph, x, y)
    engine = m.Engine(graph, m.program.Copy(x, y) if program is None else program)
    engine.load(device)
    engine.run()


def float_of(m: ModuleType, graph: Any) -> Any:
    tensor = graph.add_variable(m.FLOAT, (4,), "real")
    graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(tensor, 1)
    return tensor


def vertex_of(m: ModuleType, graph: Any, body: Any, **edges: Any) -> Any:
    """One vertex with an Input x and an Output out, whose compute() is `body`."""

    class Wrong(m.Vertex):
        x: m.Input[m.Vector[m.INT]]
        out: m.Output[m.Vector[m.INT]]

        def compute(self):
            body(self)

    compute_set = graph.add_compute_set("work")
    graph.set_tile_mapping(graph.add_vertex(compute_set, Wrong, **edges), 0)
    return m.program.Execute(compute_set)


def write_input(self: Any) -> None:
    self.x = 1


def write_into_input(self: Any) -> None:
    self.x[0] = 1


def write_too_few(self: Any) -> None:
    self.out = self.x[:2]


def write_beyond(self: Any) -> None:
    self.out[9] = 1


TWO, NOT_ALIKE = "Copy takes ['Tensor', 'Tensor'], but", "a Copy needs separate tensors"
NO_TENSOR, NOT_MINE = "is not a Tensor of this graph", "this Tensor is not a Tensor of this graph"
MISUSES: list[tuple[Any, str]] = [
    # a part of a program that is none, too many or too few
    (lambda m, g, x, y: m.program.Sequence(g.add_compute_set("a")), "got ['ComputeSet']"),
    (lambda m, g, x, y: g.add_compute_set("a"), "takes ['Program'], but got ['ComputeSet']"),
    (lambda m, g, x, y: m.program.Sequence(m.program.Copy), ", but got ['type']"),
    (
        lambda m, g, x, y: m.program.Execute(m.program.Copy(x, y)),
        "Execute takes ['ComputeSet'], but got ['Copy']",
    ),
    (lambda m, g, x, y: m.program.Execute(), "Execute takes ['ComputeSet'], but got []"),
    (
        lambda m, g, x, y: m.program.Repeat(m.program.Copy(x, y), 3),
        "Repeat takes ['int', 'Program'], but got ['Copy', 'int']",
    ),
    (lambda m, g, x, y: m.program.Repeat(2.5, m.program.Copy(x, y)), "got ['float', 'Copy']"),
    (lambda m, g, x, y: m.program.Repeat(3), "Repeat takes ['int', 'Program'], but got ['int"),
    (
        lambda m, g, x, y: m.program.If(True, m.program.Copy(x, y), m.program.Sequence()),
        "If takes ['Tensor', 'Program', 'Program'], but got ['bool', 'Copy', 'Sequence']",
    ),
    (
        lambda m, g, x, y: m.program.RepeatWhileTrue(
            x[0], m.program.Sequence(), m.program.Sequence()
        ),
        "RepeatWhileTrue takes ['Program', 'Tensor', 'Program'], but got ['Tensor', 'Seq",
    ),
    # a Copy
    (lambda m, g, x, y: m.program.Copy(3, y), TWO),
    (lambda m, g, x, y: m.program.Copy("x", y), TWO),
    (lambda m, g, x, y: m.program.Copy(x), TWO),
    (lambda m, g, x, y: m.program.Copy(x, y[:2]), NOT_ALIKE),
    (lambda m, g, x, y: m.program.Copy(x[:1], y), NOT_ALIKE),
    (lambda m, g, x, y: m.program.Copy(float_of(m, g), y), NOT_ALIKE),
    (lambda m, g, x, y: m.program.Copy(x[1:], x[:3]), NOT_ALIKE),
    (lambda m, g, x, y: m.program.Copy(stranger(m), y), NOT_MINE),
    # what belongs to no tile, or not to the graph
    (lambda m, g, x, y: g.set_tile_mapping(x, 1.5), "there is no tile 1.5, only 0 to 4"),
    (lambda m, g, x, y: g.set_tile_mapping(x, "1"), "there is no tile '1', only 0 to 4"),
    (lambda m, g, x, y: g.set_tile_mapping(x, None), "there is no tile None"),
    (lambda m, g, x, y: g.set_tile_mapping(0, x), "there is no tile"),
    (lambda m, g, x, y: g.set_tile_mapping([x, y], 0), f"this list {NO_TENSOR}"),
    (
        lambda m, g, x, y: g.set_tile_mapping(g.add_compute_set("a"), 0),
        f"this ComputeSet {NO_TENSOR}",
    ),
    (lambda m, g, x, y: g.set_tile_mapping(stranger(m), 0), NOT_MINE),
    (lambda m, g, x, y: g.set_initial_value("x", 1), f"this str {NO_TENSOR}"),
    (lambda m, g, x, y: g.set_initial_value(stranger(m), 1), NOT_MINE),
    (lambda m, g, x, y: g.create_host_read("z", "x"), f"this str {NO_TENSOR}"),
    # vertices
    (lambda m, g, x, y: vertex_of(m, g, write_input, x=3, out=y), f"this int {NO_TENSOR}"),
    (lambda m, g, x, y: vertex_of(m, g, write_input, x=[x[0]], out=y), f"this list {NO_TENSOR}"),
    (lambda m, g, x, y: vertex_of(m, g, write_input, x=stranger(m), out=y), NOT_MINE),
    (lambda m, g, x, y: vertex_of(m, g, write_input, x=x), "takes ['x', 'out'], but got ['x"),
    (
        lambda m, g, x, y: g.add_vertex("work", codelets(m)["Turn"], x=x),
        "this str is not a ComputeSet of this graph",
    ),
    (
        lambda m, g, x, y: g.add_vertex(g.add_compute_set("a"), "Turn", x=x),
        "Turn is not a class of vertices",
    ),
    (
        lambda m, g, x, y: g.add_vertex(g.add_compute_set("a"), int, x=x),
        "<class 'int'> is not a class of vertices",
    ),
    (
        lambda m, g, x, y: g.add_vertex(g.add_compute_set("a"), m.Vertex, x=x),
        "Vertex'> is not a class of vertices",
    ),
    # what numpy finds wrong
    (lambda m, g, x, y: vertex_of(m, g, write_input, x=x, out=y), "Wrong.compute() fails: assig"),
    (lambda m, g, x, y: vertex_of(m, g, write_into_input, x=x, out=y), "destination is read-only"),
    (lambda m, g, x, y: vertex_of(m, g, write_too_few, x=x, out=y), "Wrong.compute() fails: could"),
    (lambda m, g, x, y: vertex_of(m, g, write_beyond, x=x, out=y), "index 9 is out of bounds"),
    (lambda m, g, x, y: x.reshape((3,)), "no such shape: cannot reshape array of size 4 into"),
    (
        lambda m, g, x, y: g.set_initial_value(x, [1, 2]),
        "initial value, shape (4,): shape mismatch",
    ),
    (
        lambda m, g, x, y: g.set_initial_value(x, "one"),
        "initial value, shape (4,): invalid literal",
    ),
    (lambda m, g, x, y: g.set_initial_value(x, 2**40), "out of bounds for int32"),
    (
        lambda m, g, x, y: g.add_variable("FLOAT", (4,), "t"),
        "'t' must be FLOAT, HALF, INT or BOOL: 'FLOAT' is",
    ),
    (
        lambda m, g, x, y: g.add_variable(float, (4,), "t"),
        "'t' must be FLOAT, HALF, INT or BOOL: <class 'float'>",
    ),
    (
        lambda m, g, x, y: g.add_variable((4,), m.INT, "t"),
        "'t' must be FLOAT, HALF, INT or BOOL: (4,) is not",
    ),
]


@pytest.mark.parametrize(("act", "text"), MISUSES)
def test_what_a_beginner_mistakes_both_refuse(act: Any, text: str) -> None:
    with pytest.raises(tiny.MachineError) as caught:
        misuse(act, tiny)
    assert text in str(caught.value) and "\n" not in str(caught.value)
    with pytest.raises((errors.IPUTeachError, TypeError)):  # a TypeError: of too few arguments
        misuse(act, ipu_teach)


@pytest.mark.parametrize("call", ["run", "read_tensor"])
def test_an_engine_is_loaded_first(call: str) -> None:
    graph = tiny.Graph(tiny.IPUModel(tiles_per_ipu=1))
    graph.create_host_read("x", graph.add_variable(tiny.INT, (1,), "x"))
    engine = tiny.Engine(graph, tiny.Sequence())
    with pytest.raises(tiny.MachineError, match=r"call load\(\) first"):
        engine.run() if call == "run" else engine.read_tensor("x")


def test_a_list_is_no_program_here() -> None:
    """The kit takes lists of programs; the one file does not, and says so."""
    graph = tiny.Graph(tiny.IPUModel(tiles_per_ipu=1))
    for make in (tiny.Sequence, lambda part: tiny.Engine(graph, part)):
        with pytest.raises(tiny.MachineError, match=r"Sequence takes .*, but got \['list'\]"):
            make([tiny.Sequence()])


def test_the_notebook_that_reads_it_shows_its_own_lines_in_their_order() -> None:
    notebook = json.loads(
        (Path(__file__).parents[1] / "notebooks" / "solutions" / "tiny.ipynb").read_text(
            encoding="utf-8"
        )
    )
    texts = [
        "".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "markdown"
    ]
    blocks = [
        block for text in texts for block in re.findall(r"```python\n(.*?)\n```", text, re.DOTALL)
    ]
    lines = [line.strip() for line in Path(tiny.__file__).read_text(encoding="utf-8").splitlines()]
    lines = [line for line in lines if line and not line.startswith("# fmt")]
    shown = [[line.strip() for line in block.splitlines() if line.strip()] for block in blocks]
    places = [
        [k for k in range(len(lines)) if lines[k : k + len(block)] == block] for block in shown
    ]
    assert all(places), [block[0] for block, at in zip(shown, places, strict=True) if not at]
    assert sum(map(len, shown)) > len(lines) / 2
    # then the engine, as its stops follow each other
    assert [at[0] for at in places[:5]] == sorted(at[0] for at in places[:5])


def test_it_is_one_short_file_over_numpy_alone() -> None:
    text = Path(tiny.__file__).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 350
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported - sys.stdlib_module_names == {"numpy"}
