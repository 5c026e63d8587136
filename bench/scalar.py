"""The rows of scalar loops, compared with loops by hand, and one very long vertex.

Compiled loops are compared with numba by hand, and CPython's with a bare Python loop.

    python -m bench.scalar      # rows that need a process without numba: s2, s2b

prints a round of both as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

import numpy as np

from bench.loops import CASES, by_hand, values
from bench.measure import ROOT, Ratios, Row
from ipu_teach.device import Device, IPUModel
from ipu_teach.engine import Engine
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.engine.scalar.compiled import numba_is_here
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.vertex import Vertex
from ipu_teach.program import Execute
from ipu_teach.types import Array

MANY, FEW = 20_000, 78  # vertices on the whole chip; and in total with six on each of 13 tiles
T = TypeVar("T")
CALLS = 5  # calls of each in a round; the quickest counts
WARM = 0.5  # seconds of warming up
NO_NUMBA = "numba is not here"
LONG = """
import json, sys, time
from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vector, Vertex
from ipu_teach.engine.scalar import run as scalar_run
from ipu_teach.program import Execute

class Turns(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self):
        total, i = 0.0, 0
        while i < 1_000_000:
            if self.x[i % 7] > 0.5:
                total += self.x[i % 5]
            i += 1
        self.out = total

device = IPUModel(tiles_per_ipu=1).create_device()
graph = Graph(device.target)
x, out = graph.add_variable(FLOAT, (7,), "x"), graph.add_variable(FLOAT, (), "out")
compute_set = graph.add_compute_set("turns")
for tensor in (x, out, graph.add_vertex(compute_set, Turns, x=x, out=out)):
    graph.set_tile_mapping(tensor, 0)
graph.set_initial_value(x, [0.1, 0.9, 0.3, 0.7, 0.6, 0.2, 0.8])
engine = Engine(graph, Execute(compute_set))
engine.load(device)
scalar_run.CHOSEN.set(sys.argv[1])
begin = time.perf_counter()
engine.run()
first = time.perf_counter() - begin
engine.run()
print(json.dumps([first, time.perf_counter() - begin]))
"""


class Placed:
    """A graph with `count` vertices of a codelet, distributed over the tiles.

    `given` has the values of its Inputs and InOuts.
    """

    def __init__(self, codelet: type[Vertex], count: int, tiles: int) -> None:
        self.codelet, self.count = codelet, count
        self.values = values(codelet, np.random.default_rng(1), count)
        self.given = {
            name: array
            for name, array in self.values.items()
            if codelet.fields[name].kind != "output"
        }
        self.device: Device = IPUModel(tiles_per_ipu=tiles).create_device()
        self.graph = Graph(self.device.target)
        self.compute_set = self.graph.add_compute_set("loops")
        on = np.arange(count) * tiles // count
        self.tensors: dict[str, Tensor] = {}
        for name, field in codelet.fields.items():
            tensor = self.tensors[name] = self.graph.add_variable(
                field.dtype, self.values[name].shape, name
            )
            self.graph.set_tile_mapping(tensor, on)
            if name in self.given:
                self.graph.set_initial_value(tensor, self.given[name])
            if field.kind == "inout":
                self.graph.create_host_write(name, tensor)
        self.graph.add_vertices(self.compute_set, codelet, on, **self.tensors)

    def engine(self) -> Engine:
        """Return the engine, compiled and loaded."""
        engine = Engine(self.graph, Execute(self.compute_set), backend="numpy")
        engine.load(self.device)
        return engine

    @property
    def changed(self) -> list[str]:
        """The names of the InOuts, which are restored before each run."""
        return [name for name in self.given if self.codelet.fields[name].kind == "inout"]

    def put_back(self, engine: Engine) -> None:
        for name in self.changed:
            engine.write_tensor(name, self.given[name])

    def arrays(self) -> dict[str, Array]:
        """Return the same numbers as arrays, without the machine."""
        return {name: self.values[name].copy() for name in self.codelet.fields}


def seconds(ahead: Callable[[], T], call: Callable[[T], object]) -> float:
    """Return the processor time of the quickest of some calls.

    Each call gets a new result of `ahead`, whose time is not counted.
    """
    taken = []
    for _ in range(CALLS):
        ready = ahead()
        begin = time.process_time()
        call(ready)
        taken.append(time.process_time() - begin)
    return min(taken)


def _compiled() -> Ratios | str:
    """Return a function that measures a round of s1."""
    if not numba_is_here():
        return NO_NUMBA
    pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {}
    for codelet, hand in by_hand().items():
        pairs[codelet.__name__] = _pair(Placed(codelet, MANY, 1472), hand)

    def one_round() -> Mapping[str, float]:
        return {name: kit() / floor() for name, (kit, floor) in pairs.items()}

    return one_round


def _pair(
    placed: Placed, hand: Callable[..., None]
) -> tuple[Callable[[], float], Callable[[], float]]:
    engine, arrays = placed.engine(), placed.arrays()
    end = time.perf_counter() + WARM
    with scalar_run.chosen("compiled"):
        # batches of single elements are compiled only after running for a while
        while time.perf_counter() < end:
            engine.run()
    marks = [
        np.zeros(arrays[n].shape, bool)
        for n, f in placed.codelet.fields.items()
        if f.kind == "output"
    ]
    hand(placed.count, *arrays.values(), *marks)

    def fresh() -> None:
        for name in placed.changed:
            arrays[name][...] = placed.given[name]

    return (
        lambda: seconds(lambda: placed.put_back(engine), lambda _: engine.run()),
        lambda: seconds(fresh, lambda _: hand(placed.count, *arrays.values(), *marks)),
    )


# Rows for processes that never import numba


def bare(placed: Placed) -> Callable[[], Callable[[], None]]:
    """Return a function that makes a Python loop over compute() of every vertex on numpy's views,
    without a machine."""
    codelet, multi = placed.codelet, placed.codelet.context == "multi"
    methods = {
        n: f for n, f in vars(codelet).items() if isinstance(f, (FunctionType, staticmethod))
    }
    plain: Any = type(codelet.__name__, (), {**methods, "num_workers": 6})

    def made() -> Callable[[], None]:
        arrays, vertices = placed.arrays(), [plain() for _ in range(placed.count)]
        for number, vertex in enumerate(vertices):
            vars(vertex).update({name: array[number] for name, array in arrays.items()})

        def run() -> None:
            for vertex in vertices:
                if multi:
                    for worker in range(6):
                        vertex.compute(worker)
                else:
                    vertex.compute()

        return run

    return made


def without_numba() -> dict[str, dict[str, float]]:
    """Return a round of s2 and s2b, by codelet."""
    found = {codelet.__name__: _by_python(codelet) for codelet in CASES}
    return {
        row: {name: ratios[k] for name, ratios in found.items()}
        for k, row in enumerate(("s2", "s2b"))
    }


def _by_python(codelet: type[Vertex]) -> tuple[float, float]:
    """Return the ratios of (a run; compiling, loading and the first run) to the bare loop."""
    placed = Placed(codelet, FEW, 13)
    engine = placed.engine()
    engine.run()

    def unseen() -> Placed:
        # results are cached by class, so use a new class
        again = type(codelet.__name__, (codelet,), {})
        CASES[again] = CASES[codelet]
        try:
            return Placed(again, FEW, 13)
        finally:
            del CASES[again]

    floor = seconds(bare(placed), lambda run: run())
    again = seconds(lambda: placed.put_back(engine), lambda _: engine.run())
    return again / floor, seconds(unseen, lambda new: new.engine().run()) / floor


def _apart(row: str) -> Callable[[], Ratios]:
    def prepare() -> Ratios:
        rounds = iter(range(1000))
        return lambda: _in_a_process(next(rounds))[row]

    return prepare


@cache
def _in_a_process(number: int) -> dict[str, dict[str, float]]:
    """Run round `number` of both rows in a separate process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.scalar"],
        cwd=ROOT,
        env={**os.environ, "IPU_TEACH_NUMBA": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {**json.loads(done.stdout)}


def _long() -> Ratios | str:
    """Return a function that measures a round of s3.

    Each run has its own process and cache folder.
    """
    if not numba_is_here():
        return NO_NUMBA

    def first_run(way: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            place = os.path.join(folder, "turns.py")
            with open(place, "w", encoding="utf-8") as file:
                file.write(LONG)
            env = {**os.environ, "IPU_TEACH_CACHE": folder}
            done = subprocess.run(
                [sys.executable, place, way], env=env, capture_output=True, text=True, check=True
            )
            first, both = json.loads(done.stdout)
            return float(first if way == "" else both)

    return lambda: {"s3": first_run("") / first_run("compiled")}


# The goals of s1, s2 and s2b are the measured ratios with a small margin, to catch regressions.
# `bench.limits` measures how close they are to the work that any implementation must do, and
# docs/performance.md explains the remaining gap.
ROWS = [
    Row(
        "s1",
        "20 scalar codelets, 20,000 vertices, compiled",
        "numba by hand",
        1.5,
        _compiled,
        worst_goal=2.5,
    ),
    Row(
        "s2",
        "the same, 78 vertices, by CPython",
        "a bare Python loop",
        1.4,
        _apart("s2"),
        worst_goal=2.5,
    ),
    Row(
        "s2b",
        "compile, load and first run of these",
        "a bare Python loop",
        10,
        _apart("s2b"),
        worst_goal=90,
    ),
    Row(
        "s3",
        "a vertex of 1,000,000 turns, first run",
        "numba: import, compile, two runs",
        2,
        _long,
        most_rounds=3,
    ),
]


if __name__ == "__main__":
    print(json.dumps(without_numba()))
