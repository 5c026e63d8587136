"""Measure scalar loops in codelets, compared with plainer loops, and one very long vertex.

Compiled loops are compared with handwritten loops for numba, and uncompiled loops with a bare
Python loop.

    python -m bench.scalar      # measures s2 and s2b, which need a process without numba

The command prints the ratios of one round as JSON.
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

# MANY is the number of vertices on a full chip. FEW is the number on 13 tiles with six vertices
# each.
MANY, FEW = 20_000, 78
T = TypeVar("T")
CALLS = 5  # The number of calls in a measurement, of which the quickest counts.
WARM = 0.5  # How long the engine runs before it is measured, in seconds.
NO_NUMBA = "numba is not installed"
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
    """A graph with `count` vertices of a codelet, distributed over the tiles of a chip.

    `values` maps all fields to their values, and `given` only the Inputs and InOuts.
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
        tile_of_vertex = np.arange(count) * tiles // count
        self.tensors: dict[str, Tensor] = {}
        for name, field in codelet.fields.items():
            tensor = self.tensors[name] = self.graph.add_variable(
                field.dtype, self.values[name].shape, name
            )
            self.graph.set_tile_mapping(tensor, tile_of_vertex)
            if name in self.given:
                self.graph.set_initial_value(tensor, self.given[name])
            if field.kind == "inout":
                self.graph.create_host_write(name, tensor)
        self.graph.add_vertices(self.compute_set, codelet, tile_of_vertex, **self.tensors)

    def engine(self) -> Engine:
        """Return the engine, compiled and loaded."""
        engine = Engine(self.graph, Execute(self.compute_set), backend="numpy")
        engine.load(self.device)
        return engine

    @property
    def changed(self) -> list[str]:
        """The names of the InOut fields, which are restored before each run."""
        return [name for name in self.given if self.codelet.fields[name].kind == "inout"]

    def put_back(self, engine: Engine) -> None:
        for name in self.changed:
            engine.write_tensor(name, self.given[name])

    def arrays(self) -> dict[str, Array]:
        """Return copies of the values of all fields, in the order of the fields."""
        return {name: self.values[name].copy() for name in self.codelet.fields}


def seconds(prepare: Callable[[], T], call: Callable[[T], object]) -> float:
    """Return the processor time of the quickest of some calls.

    Each call gets a new result of `prepare`, whose time is not counted.
    """
    durations = []
    for _ in range(CALLS):
        prepared = prepare()
        start = time.process_time()
        call(prepared)
        durations.append(time.process_time() - start)
    return min(durations)


def _compiled() -> Ratios | str:
    """Return a function that measures one round of the row s1, or the reason why there is none.

    The function returns {codelet: time of the compiled codelet, relative to a handwritten loop}.
    """
    if not numba_is_here():
        return NO_NUMBA
    pairs: dict[str, tuple[Callable[[], float], Callable[[], float]]] = {}
    for codelet, loop_by_hand in by_hand().items():
        pairs[codelet.__name__] = _pair(Placed(codelet, MANY, 1472), loop_by_hand)

    def one_round() -> Mapping[str, float]:
        return {name: kit() / floor() for name, (kit, floor) in pairs.items()}

    return one_round


def _pair(
    placed: Placed, loop_by_hand: Callable[..., None]
) -> tuple[Callable[[], float], Callable[[], float]]:
    engine, arrays = placed.engine(), placed.arrays()
    end = time.perf_counter() + WARM
    with scalar_run.chosen("compiled"):
        # The engine compiles loops over single elements only after they have run for a while.
        while time.perf_counter() < end:
            engine.run()
    written_marks = [
        np.zeros(arrays[name].shape, bool)
        for name, field in placed.codelet.fields.items()
        if field.kind == "output"
    ]
    loop_by_hand(placed.count, *arrays.values(), *written_marks)

    def restore() -> None:
        for name in placed.changed:
            arrays[name][...] = placed.given[name]

    return (
        lambda: seconds(lambda: placed.put_back(engine), lambda _: engine.run()),
        lambda: seconds(
            restore, lambda _: loop_by_hand(placed.count, *arrays.values(), *written_marks)
        ),
    )


# The functions below measure rows in processes that never import numba.


def bare(placed: Placed) -> Callable[[], Callable[[], None]]:
    """Return a function that prepares a Python loop over all vertices, and returns it.

    The loop calls compute() on views of numpy arrays, without an engine.
    """
    codelet, is_multi = placed.codelet, placed.codelet.context == "multi"
    methods = {
        name: member
        for name, member in vars(codelet).items()
        if isinstance(member, (FunctionType, staticmethod))
    }
    plain_class: Any = type(codelet.__name__, (), {**methods, "num_workers": 6})

    def make_loop() -> Callable[[], None]:
        arrays, vertices = placed.arrays(), [plain_class() for _ in range(placed.count)]
        for vertex_number, vertex in enumerate(vertices):
            vars(vertex).update({name: array[vertex_number] for name, array in arrays.items()})

        def run() -> None:
            for vertex in vertices:
                if is_multi:
                    for worker in range(6):
                        vertex.compute(worker)
                else:
                    vertex.compute()

        return run

    return make_loop


def without_numba() -> dict[str, dict[str, float]]:
    """Return the ratios of the rows s2 and s2b in one round, keyed by row and then by codelet.

    `_by_python` measures both: the time of a run (s2) and the time of a first run (s2b).
    """
    ratios_by_codelet = {codelet.__name__: _by_python(codelet) for codelet in CASES}
    return {
        row: {name: ratios[index] for name, ratios in ratios_by_codelet.items()}
        for index, row in enumerate(("s2", "s2b"))
    }


def _by_python(codelet: type[Vertex]) -> tuple[float, float]:
    """Return `(time of a run, time of a first run)`, each relative to a bare Python loop.

    The first run includes compiling and loading.
    """
    placed = Placed(codelet, FEW, 13)
    engine = placed.engine()
    engine.run()

    def new_placed() -> Placed:
        # The kit caches its results by class, so a new class is used.
        later_run = type(codelet.__name__, (codelet,), {})
        CASES[later_run] = CASES[codelet]
        try:
            return Placed(later_run, FEW, 13)
        finally:
            del CASES[later_run]

    floor = seconds(bare(placed), lambda run: run())
    later_run = seconds(lambda: placed.put_back(engine), lambda _: engine.run())
    return later_run / floor, seconds(new_placed, lambda new: new.engine().run()) / floor


def _apart(row: str) -> Callable[[], Ratios]:
    def prepare() -> Ratios:
        rounds = iter(range(1000))
        return lambda: _in_a_process(next(rounds))[row]

    return prepare


@cache
def _in_a_process(number: int) -> dict[str, dict[str, float]]:
    """Return the ratios of `without_numba`, which round `number` measures in a separate process."""
    completed = subprocess.run(
        [sys.executable, "-m", "bench.scalar"],
        cwd=ROOT,
        env={**os.environ, "IPU_TEACH_NUMBA": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return {**json.loads(completed.stdout)}


def _long() -> Ratios | str:
    """Return a function that measures the row s3, or the reason why there is none.

    The row compares the first run of a very long vertex with two runs of the compiled vertex, whose
    time includes numba's import and the compilation. Each measurement has a process and a cache
    folder of its own.
    """
    if not numba_is_here():
        return NO_NUMBA

    def first_run(chosen_way: str) -> float:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "turns.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(LONG)
            env = {**os.environ, "IPU_TEACH_CACHE": folder}
            completed = subprocess.run(
                [sys.executable, path, chosen_way],
                env=env,
                capture_output=True,
                text=True,
                check=True,
            )
            first_run_seconds, seconds_of_both_runs = json.loads(completed.stdout)
            return float(first_run_seconds if chosen_way == "" else seconds_of_both_runs)

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
