"""What a trace may not take for one vertex's value: it stops, says why, and the plain loop gives
the same bits."""

from __future__ import annotations

import numpy as np
import pytest

from ipu_teach import FLOAT, Engine, Graph, Input, IPUModel, Output, Vertex
from ipu_teach.program import Execute

LOOKUP = {1.0: 10.0, 2.0: 20.0, 3.0: 30.0}


class TextLength(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = len(str(self.x))


class Formatted(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = float(f"{self.x:.1f}")


class Quoted(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = float("2.0" in repr(self.x))


class LookedUp(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = LOOKUP[self.x]


class AskedForItsType(Vertex):
    x: Input[FLOAT]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = (
            self.x if isinstance(self.x, np.floating) and type(self.x) is np.float32 else -1.0
        )


@pytest.mark.parametrize(
    ("codelet", "expected", "reason"),
    [
        (TextLength, [3, 3, 3], "a value that depends on data is put into a text"),
        (Formatted, [1, 2, 3], "a value that depends on data is put into a text"),
        (Quoted, [0, 1, 0], "a value that depends on data is put into a text"),
        (LookedUp, [10, 20, 30], "a value that depends on data is looked up"),
        (AskedForItsType, [1, 2, 3], ""),
    ],
)
def test_values_are_those_of_one_vertex_whichever_way_it_runs(
    codelet: type[Vertex], expected: list[float], reason: str
) -> None:
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph = Graph(device)
    x, out = graph.add_variable(FLOAT, (3,), "x"), graph.add_variable(FLOAT, (3,), "out")
    graph.set_initial_value(x, [1, 2, 3])
    graph.create_host_read("out", out)
    for tensor in (x, out):
        graph.set_tile_mapping(tensor, 0)
    cs = graph.add_compute_set("cs")
    graph.set_perf_estimate(graph.add_vertices(cs, codelet, 1, x=x, out=out), 10)
    engine = Engine(graph, Execute(cs))
    engine.load_and_run(device)
    assert engine.read_tensor("out").tolist() == expected
    found = engine.report.unbatched().get(codelet.__name__, "")
    assert reason in found and bool(found) == bool(reason)
