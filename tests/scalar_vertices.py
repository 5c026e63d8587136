"""Run the codelets of students: a vertex for each row of some arrays, in every layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import student_codelets as students
from engine_parts import measured_cycles
from student_codelets import CASES

from ipu_teach import BOOL, FLOAT, INT, Engine, Graph, IPUModel, Vertex
from ipu_teach.cost.traced import vertex_cycles
from ipu_teach.program import Execute, Program, Repeat
from ipu_teach.types import Array

RAGGED = (3, 1, 5, 2)
MODEL = IPUModel(tiles_per_ipu=13)


class VertexRows:
    """A graph with one vertex for each row of the arrays in `values`.

    `layout`: "rows" (each tensor is in memory order), "turned" (its axes are in reverse order) or
    "backwards" (its rows are in reverse order, too).
    """

    def __init__(
        self, codelet: type[Vertex], values: dict[str, Array], layout: str = "rows"
    ) -> None:
        self.device = MODEL.create_device()
        self.graph = Graph(self.device.target)
        self.compute_set = self.graph.add_compute_set("cs")
        count = len(next(iter(values.values())))
        self.names, fields = list(values), {}
        for name, array in values.items():
            field = codelet.fields[name]
            if field.kind == "state":
                fields[name] = array
                continue
            shape = array.shape if layout == "rows" else array.shape[::-1]
            tensor = self.graph.add_variable(field.dtype, shape, name)
            self.graph.set_tile_mapping(tensor, 0)
            if layout != "rows":
                tensor = tensor.dim_shuffle(range(array.ndim)[::-1])
            if layout == "backwards":
                tensor = tensor.reverse(0)
            self.graph.set_initial_value(tensor, array)
            self.graph.create_host_read(name, tensor)
            fields[name] = tensor
        self.state = {name for name in values if codelet.fields[name].kind == "state"}
        self.graph.add_vertices(self.compute_set, codelet, np.arange(count) % 13, **fields)

    def engine(self, program: Program | None = None, **options: Any) -> Engine:
        """Return a loaded engine; without a program, it executes the vertices once."""
        engine = Engine(self.graph, program or Execute(self.compute_set), **options)
        engine.load(self.device)
        return engine

    def run(self, times: int = 1, **options: Any) -> tuple[Engine, dict[str, Array]]:
        """Execute the vertices `times` times; return the engine, and the values of the fields."""
        engine = self.engine(Repeat(times, Execute(self.compute_set)), **options)
        engine.run()
        return engine, {
            name: engine.read_tensor(name) for name in self.names if name not in self.state
        }


def codelet_and_values(
    name: str, count: int, seed: int = 1
) -> tuple[type[Vertex], dict[str, Array]]:
    """Return the student's codelet of this name, and random values for `count` vertices of it."""
    codelet: type[Vertex] = getattr(students, name)
    values = CASES[name](np.random.default_rng(seed), count)
    return codelet, {n: v.astype(codelet.fields[n].dtype.numpy) for n, v in values.items()}


# These codelets run in every layout. The others need not: the engine alone handles layouts.
EVERY_LAYOUT = ["Histogram", "HalfSums", "Clip", "Life", "Shift"]


def run_ragged(large: float = 0, **options: Any) -> tuple[Engine, dict[str, Array]]:
    """Run vertices on lists of vectors of uneven lengths, and return the engine and all values.

    The vectors are rows of one variable and columns of another. `large` is an element of a
    MultiVertex; above 80, a worker writes what another reads.
    """
    device = MODEL.create_device()
    graph = Graph(device.target)
    rng, count, ends = np.random.default_rng(3), 9, np.cumsum([0, *RAGGED])
    compute_set, tensors = graph.add_compute_set("cs"), {}
    for name, dtype in (
        ("x", FLOAT),
        ("y", FLOAT),
        ("found", INT),
        ("shares", FLOAT),
        ("which", INT),
        ("total", FLOAT),
    ):
        values = rng.uniform(-4, 9, (count, ends[-1]) if name not in ("which", "total") else count)
        if name == "shares":
            values[4, 2] = large
        tensors[name] = graph.add_variable(dtype, values.shape, name)
        graph.set_tile_mapping(tensors[name], 0)
        graph.set_initial_value(tensors[name], values.astype(dtype.numpy))
        graph.create_host_read(name, tensors[name])
    tensors["y"] = tensors["y"].flatten().reshape((ends[-1], count)).dim_shuffle((1, 0))
    for v in range(count):
        rows = {
            n: [t[v, a:b] for a, b in zip(ends, ends[1:], strict=False)]
            for n, t in tensors.items()
            if len(t.shape) > 1
        }
        shares = rows.pop("shares")
        single = {"which": tensors["which"][v], "total": tensors["total"][v]}
        graph.set_tile_mapping(graph.add_vertex(compute_set, students.Ragged, **rows, **single), v)
        graph.set_tile_mapping(graph.add_vertex(compute_set, students.RaggedShares, x=shares), v)
    engine = Engine(graph, Execute(compute_set), **options)
    engine.load(device)
    engine.run()
    return engine, {name: engine.read_tensor(name) for name in tensors}


# The cycles of these count by data paths: they have statements over full regions.
ON_ARRAYS = {
    "Smooth",
    "Shift",
    "Residual",
    "Relax",
    "Scaled",
    "Heat",
    "Mirrored",
    "Rotated",
    "Fitted",
    "Sorted",
}


# The codelets that loop over elements.
ELEMENT_LOOPS = [name for name in CASES if name not in ON_ARRAYS | {"Racy"}]


def modelled_cycles(
    codelet: type[Vertex], values: dict[str, Array], prices: str, **options: Any
) -> list[int]:
    """Return the modelled cycles of each vertex."""
    engine, _ = VertexRows(codelet, values).run(options={"codelet_prices": prices}, **options)
    group = engine.executable.compiled.groups[0][0]
    cycles = vertex_cycles(group, engine.executable.cost.target, measured_cycles(engine))
    return np.broadcast_to(cycles, len(group.rows)).tolist()  # type: ignore[no-any-return]


def check_returned_answers(**options: Any) -> None:
    """Check that Execute(compute_set, again) stores what compute() returns, in each of seven runs."""
    x = np.array([[0.5, 8, 3], [4, 0.25, 1], [1, 1, 1]])
    vertices = VertexRows(students.Settled, {"x": x, "rounds": np.zeros(3, int)})
    again = vertices.graph.add_variable(BOOL, (), "again")
    flag = vertices.graph.add_variable(BOOL, (), "flag")
    for tensor in (again, flag):
        vertices.graph.set_tile_mapping(tensor, 0)
    vertices.graph.create_host_read("again", again)
    engine = vertices.engine(Execute(vertices.compute_set, again), **options)
    answers = []
    for _ in range(7):
        engine.run()
        answers.append(bool(engine.read_tensor("again")))
    assert answers == [False] * 5 + [True] * 2
    assert engine.read_tensor("x").tolist() == [[0.5, 1, 0.75], [1, 0.25, 1], [1, 1, 1]]
    assert options.get("vertex_loop") or engine.report.ways() == {"Settled": "scalar"}
