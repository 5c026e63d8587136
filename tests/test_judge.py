"""Every way of running against the judge, which shares no code with them: values, definedness, races, bytes received."""

from __future__ import annotations

from collections import Counter
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import judge as judge_module
import numpy as np
import pytest
from graphs import differences, random_copy, random_superstep, random_values
from hypothesis import HealthCheck, given, settings, strategies as st
from judge import Judge
from test_brute_force import some_device, some_space

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.errors import ApplicationRuntimeError, ComputeSetRaceError, UninitialisedReadError
from ipu_teach.program import (
    AbortOnCondition,
    Copy,
    Execute,
    If,
    Program,
    Repeat,
    RepeatWhileFalse,
    RepeatWhileTrue,
    Sequence,
    Switch,
    WriteUndef,
)
from ipu_teach.types import Array

RANDOMLY = settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=150)
KNOWN = (ApplicationRuntimeError, ComputeSetRaceError, UninitialisedReadError)
WAYS: dict[str, dict[str, Any]] = {"batched": {}, "loop": {"vertex_loop": True}, "shuffled": {"shuffle": 3}}


class Product(Vertex):
    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.a @ self.b


class Total(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.x.sum()


class Kept(Vertex):
    x: Input[Vector[FLOAT]]
    keep: Input[Vector[BOOL]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            if self.keep[i]:
                self.out[i] = self.x[i]


class CountDown(Vertex):
    left: InOut[INT]
    more: Output[BOOL]

    def compute(self) -> None:
        self.left = self.left - 1
        self.more = self.left > 0


class Shared(MultiVertex):
    """Six workers, each with every sixth element, and how often the vertex ran."""

    x: Input[Vector[HALF]]
    out: Output[Vector[HALF]]
    runs: InOut[Vector[UNSIGNED_INT]]
    bias: HALF = 0.5

    def compute(self, worker_id: int) -> None:
        for i in range(worker_id, len(self.x), self.num_workers):
            self.out[i] = self.x[i] * 2 + self.bias
        self.runs[worker_id] += 1


class Writer:
    """Random programs of all kinds over a random graph, and what its streams carry."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.device = rng, some_device(rng)
        self.space = some_space(rng, self.device)
        self.graph = self.space.graph
        self.feeds: dict[str, list[Array]] = {}
        self.out: list[str] = []
        self.singles = 0

    def single(self, dtype: Any, value: Any) -> Any:
        """One element that decides, with a value, or now and then without. Nothing else writes it, so that loops end."""
        self.singles += 1
        tensor = self.graph.add_variable(dtype, (1,), f"single {self.singles}")
        self.graph.set_tile_mapping(tensor, self.rng.randrange(self.space.tiles))
        if self.rng.random() < 0.95:
            self.graph.set_initial_value(tensor, [value])
        return tensor[0]

    def step(self) -> Program:
        kind, rng, graph = self.rng.randrange(10), self.rng, self.graph
        some = rng.choice([view.tensor for view in self.space.variables.values() if view.ids.size])
        if kind < 4:
            return Execute(random_superstep(rng, self.space, careful=rng.random() < 0.85).compute_set)
        if kind < 6:
            return random_copy(rng, self.space)[0]
        if kind == 6:
            name = f"in {len(self.feeds)}"
            self.feeds[name] = [random_values(rng, some.dtype, (some.num_elements,)) for _ in range(3)]
            return Copy(graph.add_host_to_device_fifo(name, some.dtype, some.num_elements), some)
        if kind == 7:
            self.out.append(f"out {len(self.out)}")
            return Copy(some, graph.add_device_to_host_fifo(self.out[-1], some.dtype, some.num_elements))
        if kind == 8:
            n, compute_set = rng.choice([1, 5, 6, 13]), graph.add_compute_set()
            x, out = (self.space.variable(HALF, (n,)).tensor for _ in range(2))
            runs = self.space.variable(UNSIGNED_INT, (6,)).tensor
            vertex = graph.add_vertex(compute_set, Shared, x=x, out=out, runs=runs)
            graph.set_tile_mapping(vertex, rng.randrange(self.space.tiles))
            return Execute(compute_set)
        tensor = self.space.variable(rng.choice([FLOAT, INT]), (3,), values=rng.random() < 0.8).tensor
        if rng.random() < 0.3:
            return WriteUndef(tensor)
        buffer = graph.add_remote_buffer(f"rows {len(graph.remote_buffers)}", tensor.dtype, 3, 4)
        row = self.single(UNSIGNED_INT, rng.choice([0, 1, 3, 3, 4]))
        return Sequence(
            Copy(tensor, buffer), Copy(buffer, tensor, row.reshape((1,))) if rng.random() < 0.5 else Copy(buffer, tensor)
        )

    def program(self, depth: int = 2) -> Program:
        kind, rng = self.rng.randrange(9 if depth else 3), self.rng
        if kind < 3:
            return self.step()
        if kind == 3:
            return Repeat(rng.randrange(3), self.program(depth - 1))
        if kind == 4:
            return If(self.single(BOOL, rng.random() < 0.5), self.program(depth - 1), self.program(depth - 1))
        if kind == 5:
            control = self.single(INT, rng.randrange(3))
            made = Switch if rng.random() < 0.5 else Switch.switch_with_bounds_checking
            return made(control, [(0, self.program(depth - 1)), (1, self.program(depth - 1))])
        if kind == 6:
            return AbortOnCondition(self.single(INT, 0 if rng.random() < 0.8 else 7), "enough")
        if kind == 7:
            return Sequence(*(self.program(depth - 1) for _ in range(2)))
        left, more = self.single(INT, rng.randint(0, 3)), self.single(BOOL, True)
        down = self.graph.add_compute_set("count down")
        self.graph.set_tile_mapping(self.graph.add_vertex(down, CountDown, left=left, more=more), 0)
        if rng.random() < 0.8:
            return RepeatWhileTrue(Execute(down), more, self.program(depth - 1))
        done = self.single(BOOL, False)
        return RepeatWhileFalse(Copy(done, more), more, Sequence(self.program(depth - 1), Copy(self.single(BOOL, True), done)))


def outcome(run: Any) -> tuple[str, Any]:
    """The name of the kit's error that stopped a run, or what the run gave."""
    try:
        return "", run()
    except KNOWN as error:
        return type(error).__name__, None


def judged(writer: Writer, program: Program) -> Any:
    judge = Judge(writer.graph, {name: cycle(arrays) for name, arrays in writer.feeds.items()})
    judge.run(program)
    values = {name: judge.read(view.tensor) for name, view in writer.space.variables.items()}
    drains = {name: judge.drains.get(name, []) for name in writer.out}
    return values, drains, [received for _, received in judge.steps]


def ran(writer: Writer, program: Program, **how: Any) -> Any:
    engine, drains = Engine(writer.graph, program, **how), {name: [] for name in writer.out}
    engine.load(writer.device)
    for name, arrays in writer.feeds.items():
        engine.connect_stream(name, cycle(arrays))
    for name, received in drains.items():
        engine.connect_stream(name, lambda array, received=received: received.append(array.copy()))
    engine.run()
    costs = [engine.report.step_cost(number) for number in engine.report.step_numbers.tolist()]
    onchip = [c.exchange for c in costs if c.exchange and not c.host_bytes]
    steps = [np.add.reduce([traffic.received for traffic in exchange]) for exchange in onchip]
    values = {name: engine.read_tensor(name) for name in writer.space.variables}
    return values, drains, [{tile: count for tile, count in enumerate(step.tolist()) if count} for step in steps]


def compare(seed: int, *ways: str) -> str:
    """Build a random program, and hold `ways` of running it against the judge. Returns the error that stopped it, if any."""
    writer = Writer(Random(seed))
    program = Sequence(*(writer.program() for _ in range(writer.rng.randint(1, 3))))
    error, right = outcome(lambda: judged(writer, program))
    for way in ways:
        found, came = outcome(lambda how=WAYS[way]: ran(writer, program, **how))
        assert found == error, way
        if not error:
            assert differences(came[0], right[0]) == [], way
            assert came[1].keys() == right[1].keys()
            for name, arrays in came[1].items():
                assert differences(dict(enumerate(arrays)), dict(enumerate(right[1][name]))) == [], (way, name)  # type: ignore[arg-type]
            assert came[2] == right[2], way
    return error


@RANDOMLY
@given(st.integers(0, 10**9))
def test_every_way_does_as_the_judge_says(seed: int) -> None:
    compare(seed, *WAYS)


def test_the_random_programs_meet_all_there_is() -> None:
    found = Counter(compare(seed) for seed in range(100))
    assert found.keys() == {"", *(kind.__name__ for kind in KNOWN)} and found[""] >= 30


def test_the_judge_itself_is_right_about_a_product() -> None:
    """By numpy and by hand, as nobody judges the judge: 4 rows on tiles 0 and 1, a vector on tile 2, the sum on tile 0."""
    device = IPUModel(tiles_per_ipu=3).create_device()
    graph = Graph(device)
    matrix, vector = graph.add_variable(FLOAT, (4, 8), "matrix"), graph.add_variable(FLOAT, (8,), "vector")
    result, total = graph.add_variable(FLOAT, (4,), "result"), graph.add_variable(FLOAT, (), "total")
    values, weights = np.arange(32, dtype=np.float32).reshape(4, 8) / 3, np.arange(8, dtype=np.float32) / 7
    graph.set_initial_value(matrix, values)
    graph.set_initial_value(vector, weights)
    graph.set_tile_mapping(vector, 2)
    graph.set_tile_mapping(total, 0)
    products, sums = graph.add_compute_set("products"), graph.add_compute_set("sums")
    for row in range(4):
        vertex = graph.add_vertex(products, Product, a=matrix[row], b=vector, out=result[row])
        for part in (vertex, matrix[row], result[row]):
            graph.set_tile_mapping(part, row // 2)
    graph.set_tile_mapping(graph.add_vertex(sums, Total, x=result, out=total), 2)
    judge = Judge(graph)
    judge.run(Sequence(Execute(products), Execute(sums)))
    expected = np.array([row @ weights for row in values])
    np.testing.assert_array_equal(judge.read(result), expected)
    np.testing.assert_array_equal(judge.read(total), expected.sum())
    assert judge.steps == [("products", {0: 32, 1: 32}), ("sums", {2: 16, 0: 4})]


@pytest.mark.parametrize(
    ("conditions", "copied"), [([True, True], [3.0, 4.0]), ([True, False], UninitialisedReadError)], ids=["all", "some"]
)
def test_the_judge_knows_each_element_that_was_stored(conditions: list[bool], copied: Any) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=1).create_device())
    x, keep = graph.add_variable(FLOAT, (2,), "x"), graph.add_variable(BOOL, (2,), "keep")
    out, other = graph.add_variable(FLOAT, (2,), "out"), graph.add_variable(FLOAT, (2,), "other")
    for tensor in (x, keep, out, other):
        graph.set_tile_mapping(tensor, 0)
    graph.set_initial_value(x, [3, 4])
    graph.set_initial_value(keep, conditions)
    store = graph.add_compute_set("store")
    graph.set_tile_mapping(graph.add_vertex(store, Kept, x=x, keep=keep, out=out), 0)
    judge = Judge(graph)
    judge.run(Execute(store))
    assert judge.defined[np.asarray(out.positions()) * 4].tolist() == conditions
    if copied is UninitialisedReadError:
        with pytest.raises(UninitialisedReadError, match="'out'"):
            judge.run(Copy(out, other))
    else:
        judge.run(Copy(out, other))
        assert judge.read(other).tolist() == copied


def test_the_judge_imports_nothing_that_it_judges() -> None:
    text = Path(judge_module.__file__ or "").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    assert not any(f"ipu_teach.{room}" in text for room in ("compile", "cost", "engine", "report"))
