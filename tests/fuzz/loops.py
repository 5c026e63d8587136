"""Compare random codelets of branches and loops, by CPython and by numba, with the vertex loop."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any, NamedTuple

import numpy as np
from codelets import BRANCHING, branching, random_branching
from engine_parts import peek, written_bytes
from graphs import Placed, Space, add, differences, regions

from fuzz.compare import Wrong, chosen, leaving
from ipu_teach import FLOAT, HALF, INT, Engine, Executable, IPUModel, compile_graph
from ipu_teach.errors import IPUTeachError
from ipu_teach.program import Execute, Repeat

PYTHON, PLAIN = "python", "vertex_loop"
DEVICE = IPUModel(tiles_per_ipu=3).create_device()


class Ran(NamedTuple):
    """The end of a run: its error ("" if none), the memory, the written bytes and the cycles."""

    error: str
    values: dict[str, Any] = {}
    cycles: Any = None


def source_of(seed: int) -> str:
    """Return the source of codelet number `seed`."""
    rng = Random(seed)
    return random_branching(
        rng, rng.choice([FLOAT, FLOAT, HALF, INT]), rng.randint(1, 3), _size(seed)
    )[1]


def _size(seed: int) -> int:
    return (1, 2, 3, 5)[seed % 4]


def difference(source: str, seed: int, *ways: str) -> tuple[str, Wrong | None]:
    """Return how vertices of the codelet run, or their error, and what differs from the loop."""
    codelet, rng = branching(source), Random(seed)
    space, count = Space(DEVICE, rng), rng.choice([1, 2, 7, 40])
    shapes: dict[str, tuple[int, ...]] = {"n": (_size(seed),), "": ()}
    declared = codelet.fields
    fields = {
        n: regions(rng, space, declared[n].dtype, shapes[s], count, declared[n].written)
        for n, s in BRANCHING.items()
    }
    compute_set = space.graph.add_compute_set()
    for i in range(count):
        add(
            space,
            compute_set,
            Placed(codelet, rng.randrange(3), {name: [views[i]] for name, views in fields.items()}),
        )
    program = Repeat(2, Execute(compute_set))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            executable = compile_graph(space.graph, program, strict={"estimates": False})
        except Exception as error:
            return type(error).__name__, leaving(error)
        right = outcome_of(executable, space, vertex_loop=True)
        for way in ways:
            with chosen(way):
                came = outcome_of(executable, space)
            wrong = _wrong(came, right)
            if wrong:
                return right.error, Wrong(f"{way}: {wrong.partition(':')[0]}", f"{way}: {wrong}")
    return right.error or executable.report.ways()[codelet.__name__], None


def outcome_of(executable: Executable, space: Space, **how: Any) -> Ran:
    engine = Engine(executable, **how)
    try:
        engine.load(DEVICE)
        engine.run()
    except IPUTeachError as error:
        return Ran(type(error).__name__)
    except Exception as error:
        return Ran(f"{type(error).__name__} leaves the kit: {error}")
    written = {"what is written": written_bytes(engine).view(np.uint8) != 0}
    report = engine.report
    cycles = (
        report.total_cycles,
        report.cycles_by_codelet(),
        report.compute_cycles_per_tile.tolist(),
    )
    return Ran("", {name: peek(engine, name) for name in space.variables} | written, cycles)


def _wrong(came: Ran, right: Ran) -> str:
    if came.error != right.error or "leaves the kit" in came.error:
        return (
            f"stopped: by {came.error or 'nothing'}, the plain loop by {right.error or 'nothing'}"
        )
    for name in differences(came.values, right.values):
        return (
            f"values: {name}: {came.values[name].tolist()}, and in the plain loop "
            f"{right.values[name].tolist()}"
        )
    return (
        ""
        if came.cycles == right.cycles
        else f"cycles: {came.cycles}, and in the plain loop {right.cycles}"
    )
