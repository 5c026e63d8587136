"""Stochastic rounding in the engine: which stores it concerns, that it is fair, and what it may not
depend on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ipu_teach import (
    FLOAT,
    HALF,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    Vector,
    VectorLayout,
    Vertex,
)
from ipu_teach.engine import ways
from ipu_teach.errors import FloatingPointTrapError
from ipu_teach.poplibs import popops
from ipu_teach.program import Execute, Repeat, Sequence
from ipu_teach.types import Array, generator

DEVICE = IPUModel(tiles_per_ipu=3).create_device()
BY_CHANCE = {"prng.enableStochasticRounding": True}


def made(codelet: type[Vertex], fields: dict[str, Any], times: int = 1, **given: Any) -> Engine:
    """An engine with a vertex for each row of the arrays in `fields`, loaded."""
    graph = Graph(DEVICE.target)
    compute_set = graph.add_compute_set()
    tensors = {}
    for name, values in fields.items():
        tensors[name] = graph.add_variable(codelet.fields[name].dtype, np.shape(values), name)
        graph.set_initial_value(tensors[name], values)
        graph.set_tile_mapping(tensors[name], 0)
        graph.create_host_read(name, tensors[name])
    count = max(len(v) for v in fields.values())
    graph.add_vertices(compute_set, codelet, np.arange(count) % 3, **tensors)
    engine = Engine(graph, Repeat(times, Execute(compute_set)), **{"options": BY_CHANCE, **given})
    engine.load(DEVICE)
    return engine


def run(
    codelet: type[Vertex], fields: dict[str, Any], times: int = 1, **given: Any
) -> dict[str, Array]:
    engine = made(codelet, fields, times, **given)
    engine.run()
    return {name: engine.read_tensor(name) for name in fields}


class Store(Vertex):
    """A single into a half, in several ways."""

    x: Input[Vector[FLOAT]]
    whole: Output[Vector[HALF]]
    parts: Output[Vector[HALF]]
    added: InOut[Vector[HALF]]
    one: Output[HALF]

    def compute(self) -> None:
        self.whole = self.x
        for i in range(len(self.x)):
            self.parts[i] = self.x[i]
        view = self.added[:]
        view += self.x
        self.one = self.x[0]


def stored(x: Array) -> dict[str, Any]:
    return {"x": x, "whole": 0 * x, "parts": 0 * x, "added": 0 * x, "one": 0 * x[:, 0]}


def test_every_store_rounds_fairly() -> None:
    """Four standard errors of the mean; both neighbours and nothing else."""
    count, value = 60, np.float32(0.1)
    got = run(Store, stored(np.full((count, 50), value)))
    nearest = np.float16(value)
    low, high = sorted([nearest, np.nextafter(nearest, np.float16(0 if nearest > value else 1))])
    way = (float(value) - float(low)) / (float(high) - float(low))
    for name in ("whole", "parts", "added", "one"):
        values = got[name]
        assert set(np.unique(values)) == {low, high}, name
        share, error = float((values == high).mean()), (way * (1 - way) / values.size) ** 0.5
        assert abs(share - way) <= 4 * error, name
    # Words are drawn for each store anew.
    assert (got["whole"] != got["parts"]).any() and (got["whole"][0] != got["whole"][1]).any()


def test_what_halves_hold_stays() -> None:
    x = (np.random.default_rng(1).integers(-2048, 2049, (4, 20)) / 64).astype(np.float32)
    got = run(Store, stored(x))
    for name in ("whole", "parts", "added"):
        np.testing.assert_array_equal(got[name], x)


class Halves(Vertex):
    """Arithmetic on halves, numbers in the text, and singles: all of these round to nearest."""

    a: Input[Vector[HALF]]
    x: Input[Vector[FLOAT]]
    product: Output[Vector[HALF]]
    text: Output[Vector[HALF]]
    single: Output[Vector[FLOAT]]
    stored: Output[Vector[HALF]]

    def compute(self) -> None:
        self.product = self.a * self.a
        self.text[:] = 0.1
        self.single = self.x * 3
        self.stored = self.x


def test_arithmetic_on_halves_and_singles_is_as_ever() -> None:
    rng = np.random.default_rng(2)
    a, x = (
        rng.standard_normal((5, 9)).astype(np.float16),
        rng.standard_normal((5, 9)).astype(np.float32),
    )
    fields = {"a": a, "x": x, **dict.fromkeys(("product", "text", "single", "stored"), 0 * x)}
    chance, nearest = run(Halves, fields), run(Halves, fields, options=None)
    for name in ("product", "text", "single"):
        np.testing.assert_array_equal(chance[name], nearest[name])
    assert (chance["stored"] != nearest["stored"]).any()


X = np.random.default_rng(3).standard_normal((40, 7)).astype(np.float32)


def test_results_follow_from_seed_and_program_alone() -> None:
    """Neither the order of the vertices nor the way they run matters; loading starts anew; another
    seed gives others."""
    engine = made(Store, stored(X), times=2)
    engine.run()
    first = engine.read_tensor("whole")
    engine.run()
    second = engine.read_tensor("whole")
    engine.load(DEVICE)
    engine.run()
    np.testing.assert_array_equal(engine.read_tensor("whole"), first)
    assert (first != second).any()
    for given in (
        {"shuffle": 5},
        {"vertex_loop": True},
        {"options": {**BY_CHANCE, "prng.seed": 0}},
    ):
        np.testing.assert_array_equal(run(Store, stored(X), times=2, **given)["whole"], first)
    other = run(Store, stored(X), times=2, options={**BY_CHANCE, "prng.seed": 1})["whole"]
    assert (other != first).any()


def test_off_by_default_and_the_seed_alone_does_nothing() -> None:
    for given in ({"options": None}, {"options": {"prng.seed": 3}}):
        np.testing.assert_array_equal(run(Store, stored(X), **given)["whole"], X.astype(np.float16))


class Grow(Vertex):
    """Add a small single to a half."""

    weight: InOut[Vector[HALF]]
    step: Input[FLOAT]

    def compute(self) -> None:
        self.weight = self.weight + self.step


def test_small_steps_are_not_lost() -> None:
    """1 + 1e-4 is 1 in halves, so rounding to nearest never moves; by chance 500 steps move by
    0.05, on average."""
    step = np.full(8, 1e-4, np.float32)
    fields = {"weight": np.ones((8, 50)), "step": step}
    assert np.unique(run(Grow, fields, 500, options=None)["weight"]).tolist() == [1]
    got = run(Grow, fields, 500)["weight"].astype(np.float64)
    quantum = 2.0**-10  # of halves from 1 to 2
    way = float(step[0]) / quantum
    deviation = (500 * way * (1 - way)) ** 0.5 * quantum
    assert abs(got.mean() - 1 - 500 * float(step[0])) <= 4 * deviation / got.size**0.5
    assert 0.7 * deviation < got.std() < 1.3 * deviation


class Shares(MultiVertex):
    """Each worker stores its part."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]

    def compute(self, worker: int) -> None:
        for i in range(worker, len(self.x), self.num_workers):
            self.out[i] = self.x[i]


def test_workers_have_streams_of_their_own() -> None:
    x = np.full((3, 600), 0.1, np.float32)
    got = run(Shares, {"x": x, "out": 0 * x})["out"]
    parts = got.reshape(3, 100, 6)
    assert len(np.unique(parts.transpose(0, 2, 1).reshape(18, 100), axis=0)) == 18
    np.testing.assert_array_equal(run(Shares, {"x": x, "out": 0 * x}, shuffle=4)["out"], got)
    low, high = np.unique(got).astype(np.float64)
    way = (float(x[0, 0]) - low) / (high - low)
    assert abs((got == high).mean() - way) <= 4 * (way * (1 - way) / got.size) ** 0.5


class Odd(Vertex):
    """Stores that numpy offers and codelets seldom use."""

    x: Input[Vector[FLOAT]]
    masked: InOut[Vector[HALF]]
    wrapped: Output[Vector[HALF]]
    copied: Output[Vector[HALF]]
    double: Output[HALF]

    def compute(self) -> None:
        np.add(self.masked, 1, out=self.masked, where=np.arange(len(self.x)) % 2 == 0)
        np.multiply(self.x, 1, out=self.wrapped, casting="same_kind")
        self.copied[:] = list(self.x)
        self.double = self.x[0] * np.sqrt(2)  # a float64


def test_other_stores() -> None:
    x = np.full((20, 30), 0.1, np.float32)
    got = run(
        Odd,
        {"x": x, "masked": 0 * x, "wrapped": 0 * x, "copied": 0 * x, "double": 0 * x[:, 0]},
        strict=False,
    )
    np.testing.assert_array_equal(got["masked"], np.broadcast_to(np.arange(30) % 2 == 0, (20, 30)))
    assert (
        len(np.unique(got["wrapped"]))
        == len(np.unique(got["copied"]))
        == len(np.unique(got["double"]))
        == 2
    )


class Pointer(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[HALF, VectorLayout.ONE_PTR]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = self.x[i]


class Double(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[HALF]

    def compute(self) -> None:
        self.out = self.x[0] * np.sqrt(2)


def test_doubles_round_too() -> None:
    x = np.full((40, 1), 0.1, np.float32)
    assert len(np.unique(run(Double, {"x": x, "out": 0 * x[:, 0]})["out"])) == 2


def test_a_field_without_a_length_rounds_too() -> None:
    x = np.full((20, 30), 0.1, np.float32)
    assert len(np.unique(run(Pointer, {"x": x, "out": 0 * x})["out"])) == 2


def test_a_cast_rounds_by_chance_too() -> None:
    graph, program = Graph(DEVICE.target), Sequence()
    x = graph.add_variable(FLOAT, 3000, "x")
    graph.set_initial_value(x, 0.1)
    graph.set_tile_mapping(x, 1)
    out = popops.cast(graph, x, HALF, program)
    graph.create_host_read("out", out)
    engine = Engine(graph, program, options=BY_CHANCE)
    engine.load_and_run(DEVICE)
    assert len(np.unique(engine.read_tensor("out"))) == 2


def test_vertices_without_such_stores_still_run_side_by_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Half(Vertex):
        x: InOut[Vector[HALF]]

        def compute(self) -> None:
            self.x = self.x * 2 + 0.5

    calls: list[Any] = []
    monkeypatch.setattr(ways, "run_loop", lambda *args: calls.append(args))
    assert run(Half, {"x": np.ones((4, 3))})["x"].tolist() == [[2.5] * 3] * 4
    assert not calls


def test_splitmix_gives_its_published_words() -> None:
    """The subject is the private mixing function; no rounding shows its words.

    The words are those from the state 1234567 in the reference code (Vigna, splitmix64.c; Rosetta
    Code, Splitmix64).
    """
    words = [
        int(generator._mixed(np.array([(1234567 + n * 0x9E3779B97F4A7C15) % 2**64], np.uint64))[0])
        for n in range(3)
    ]
    assert words == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_keyed_states_differ_and_stand_for_their_keys() -> None:
    states = generator.keyed(3, np.arange(4)[:, None], np.arange(1000))
    assert states.shape == (4, 1000, 2) and len(np.unique(states.reshape(-1, 2), axis=0)) == 4000
    np.testing.assert_array_equal(states[2, 7], generator.keyed(3, 2, 7)[0])
    assert (generator.keyed(2, 3, 7) != generator.keyed(3, 2, 7)).all()
    outputs = generator.draw(states[0], 1).reshape(-1).astype(np.float64) / 2**64
    assert abs(outputs.mean() - 0.5) <= 4 * (1 / 12 / 1000) ** 0.5


class Sparse(Vertex):
    """Stores where data decide: of elements, of slices, into what is read again."""

    x: Input[Vector[FLOAT]]
    y: InOut[Vector[HALF]]
    n: Output[HALF]

    def compute(self):
        total = 0.0
        for i in range(len(self.x)):
            if self.x[i] > 0:
                self.y[i] = self.x[i] * 1.001
                self.y[i] += self.x[i]
                total += self.y[i] + self.x[i]
            elif self.x[i] < -1:
                self.y[i:] += self.x[i]
                self.y[:i] = self.x[:i]
                self.y[0] = 0.1
        self.n = total


class SparseShares(MultiVertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[HALF]]

    def compute(self, worker_id):
        for i in range(worker_id, len(self.x), self.num_workers):
            self.y[i] = self.x[i] if self.x[i] > 0 else self.x[i] / 3


@pytest.mark.parametrize("codelet", [Sparse, SparseShares])
def test_scalar_loops_round_as_the_plain_loop_does(
    codelet: type[Vertex], monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    fields = {
        "x": rng.standard_normal((30, 11)),
        "y": rng.standard_normal((30, 11)),
        "n": np.zeros(30),
    }
    fields = {name: values for name, values in fields.items() if name in codelet.fields}
    expected, nearest = (
        run(codelet, fields, 2, vertex_loop=True),
        run(codelet, fields, 2, options={}),
    )
    monkeypatch.setattr(ways, "run_loop", None)  # which nothing needs here
    found = run(codelet, fields, 2)
    assert all(found[name].tobytes() == expected[name].tobytes() for name in fields)
    assert np.mean(found["y"] != nearest["y"]) > 0.2


class Larger(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[HALF]]

    def compute(self):
        for i in range(len(self.x)):
            self.y[i] = max(self.x[i], 0)


class LargerWithBranch(Larger):
    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] > 0:
                self.y[i] = self.x[i]
            else:
                self.y[i] = 0


def test_a_number_of_pythons_own_takes_no_random_bits_where_it_is_one_of_two_choices() -> None:
    fields = {"x": np.random.default_rng(6).standard_normal((30, 11)), "y": np.zeros((30, 11))}
    found = [
        run(Larger, fields),
        run(Larger, fields, vertex_loop=True),
        run(LargerWithBranch, fields, vertex_loop=True),
    ]
    assert len({values["y"].tobytes() for values in found}) == 1
    assert np.any(found[0]["y"] != run(Larger, fields, options={})["y"])


class Ratios(Vertex):
    x: Input[Vector[FLOAT]]
    y: Output[Vector[HALF]]
    z: InOut[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            if self.x[i] != 2:
                self.z[i] = max(self.z[i], 1 / self.x[i]) * 1e30
            self.y[i] = self.x[i] * np.float32(9000) * self.x[i]


TRAPS = [
    {"debug.floatPointOpException": True},
    {"debug.nanOverflowMode": True},
    {"debug.nanOverflowException": True},
]


@pytest.mark.parametrize(
    "options", [*TRAPS, {**TRAPS[1], **BY_CHANCE}], ids=["traps", "nan", "stops", "nan by chance"]
)
def test_scalar_loops_trap_as_the_plain_loop_does(options: dict[str, bool]) -> None:
    ends = set()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        x = rng.choice([0, 1, 2, 2, 2, 2.75, 3, 1e9] if seed % 3 else [1, 2, 2.5], (4, 5))
        found = []
        for how in ({}, {"vertex_loop": True}):
            engine = made(
                Ratios,
                {"x": x, "y": np.zeros((4, 5)), "z": np.ones((4, 5))},
                options=options,
                **how,
            )
            try:
                engine.run()
                end = "ran"
            except FloatingPointTrapError as error:
                end = str(error)
            found.append(
                (end, engine.read_tensor("y").tobytes(), engine.read_tensor("z").tobytes())
            )
        assert found[0] == found[1]
        ends.add(found[0][0].partition(":")[0][:50])
    assert ends == {"ran"} if "debug.nanOverflowMode" in options else len(ends) > 1
