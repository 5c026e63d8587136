"""Every kind of vertex and every spelling of a field: the same bits on every path, and as plain
Python has them."""

from __future__ import annotations

import textwrap
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import pytest
from lines import without_line

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    MultiVertex,
    Output,
    SupervisorVertex,
    Tensor,
    Vector,
    VectorLayout,
    VectorList,
    Vertex,
    codelet,
)
from ipu_teach.errors import (
    CodeletError,
    ComputeSetRaceError,
    FileLoadError,
    GraphConnectionError,
    GraphObjectCreationError,
    GraphObjectLoadError,
    InvalidPerfEstimateError,
    MissingPerfEstimateError,
    NoSizeSpecifiedError,
    ParseError,
    PoplarIndexError,
    UninitialisedReadError,
    UnknownVertexTypeError,
    VertexDefinitionError,
    shown,
)
from ipu_teach.graph.vertex import Field
from ipu_teach.poplibs.poputil import template_vertex
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.types import Array, DType

T = TypeVar("T")
S = TypeVar("S")
TILES = 3
device = IPUModel(tiles_per_ipu=TILES).create_device()


def said(call: Callable[[], Any], kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    return without_line(caught.value)


class Bench:
    """A graph, one compute set, and variables whose contents can be read back after each of the
    engine's paths ran it."""

    def __init__(self) -> None:
        self.graph = Graph(device.target)
        self.cs = self.graph.add_compute_set("cs")
        self.names: list[str] = []

    def var(self, name: str, values: Any, dtype: type[DType] = FLOAT) -> Tensor:
        array = np.asarray(values, dtype.numpy)
        tensor = self.graph.add_variable(dtype, array.shape, name)
        self.graph.set_tile_mapping(tensor, 0)
        self.graph.set_initial_value(tensor, array)
        self.graph.create_host_read(name, tensor)
        self.names.append(name)
        return tensor

    def add(self, cls: Any, tile: int = 0, **fields: Any) -> Any:
        vertex = self.graph.add_vertex(self.cs, cls, **fields)
        self.graph.set_tile_mapping(vertex, tile)
        return vertex

    def engine(self, **options: Any) -> Engine:
        engine = Engine(self.graph, Repeat(2, Execute(self.cs)), **options)
        engine.load(device)
        return engine

    def run(self, batched: bool = True, times: int = 1) -> dict[str, Array]:
        """Every variable after `times` runs, two executions each; equal bits on all paths."""
        found: list[dict[str, Array]] = []
        for options in (
            {},
            {"vertex_loop": True},
            {"shuffle": 1},
            {"shuffle": 2, "vertex_loop": True},
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                engine = self.engine(**options)
                for _ in range(times):
                    engine.run()
            found.append({name: engine.read_tensor(name) for name in self.names})
            if batched and "vertex_loop" not in options:
                assert not engine.report.unbatched()
        for other in found[1:]:
            for name in self.names:
                assert other[name].tobytes() == found[0][name].tobytes(), name
        return found[0]


def cycles(bench: Bench) -> list[int]:
    return [int(c) for c in bench.engine().report.compute_sets[0].cycles_per_tile]


# --- spellings of a field -------------------------------------------------------------------------


class Scattered(Vertex):
    x: Vector[Input[FLOAT]]
    y: Vector[InOut[FLOAT]]
    out: Vector[Output[FLOAT]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = self.x[i] * 2 + self.y[i]
        self.y += self.x


class Edges(Vertex):
    x: Vector[Input[Vector[FLOAT]]]
    y: Vector[InOut[Vector[FLOAT]]]
    out: Vector[Output[Vector[FLOAT]]]

    def compute(self) -> None:
        for i in range(len(self.x)):
            self.out[i] = self.x[i] + self.y[i]
            self.y[i] *= 2


class Listed(Vertex):
    x: Input[VectorList[FLOAT]]
    y: InOut[VectorList[FLOAT, VectorLayout.DELTAN]]
    out: Output[VectorList[FLOAT, VectorLayout.COMPACT_PTR]]
    compute = Edges.compute


class Nested(Vertex):
    x: Input[Vector[Vector[FLOAT]]]
    y: InOut[Vector[Vector[FLOAT, VectorLayout.SHORT_SPAN], VectorLayout.SCALED_PTR32]]
    out: Output[Vector[Vector[FLOAT]]]
    compute = Edges.compute


def test_declarations_read_back_as_they_were_written() -> None:
    assert [
        f.declaration() for c in (Scattered, Edges, Listed, Nested) for f in c.fields.values()
    ] == [
        "Vector[Input[FLOAT]]",
        "Vector[InOut[FLOAT]]",
        "Vector[Output[FLOAT]]",
        "Vector[Input[Vector[FLOAT]]]",
        "Vector[InOut[Vector[FLOAT]]]",
        "Vector[Output[Vector[FLOAT]]]",
        "Input[VectorList[FLOAT]]",
        "InOut[VectorList[FLOAT, VectorLayout.DELTAN]]",
        "Output[VectorList[FLOAT, VectorLayout.COMPACT_PTR]]",
        "Input[Vector[Vector[FLOAT]]]",
        "InOut[Vector[Vector[FLOAT, VectorLayout.SHORT_SPAN], VectorLayout.SCALED_PTR32]]",
        "Output[Vector[Vector[FLOAT]]]",
    ]
    assert Scattered.x == Field("x", "input", FLOAT, 1, None, "edges")
    assert Listed.y == Field("y", "inout", FLOAT, 2, None, "list", (VectorLayout.DELTAN, None))


@pytest.mark.parametrize("bulk", [False, True])
def test_single_elements_from_anywhere(bulk: bool) -> None:
    bench, count = Bench(), 5
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((count, 3)).astype(np.float32) for _ in "ab")
    x, y, out = bench.var("x", a), bench.var("y", b), bench.var("out", np.zeros((count, 3)))
    columns = [2, 0, 1]
    if bulk:
        parts = [out[:, c] for c in columns]
        bench.graph.add_vertices(
            bench.cs,
            Scattered,
            np.arange(count) % TILES,
            x=[x[:, c] for c in columns],
            y=y,
            out=parts,
        )
    else:
        for i in range(count):
            row = out[i]
            bench.add(
                Scattered,
                i % TILES,
                x=[x[i, c] for c in columns],
                y=y[i],
                out=[row[c] for c in columns],
            )
    found = bench.run()
    assert found["y"].tobytes() == (b + a[:, columns] + a[:, columns]).tobytes()
    assert found["out"][:, columns].tobytes() == (a[:, columns] * 2 + (b + a[:, columns])).tobytes()


def test_one_by_one_and_bulk_give_one_graph() -> None:
    columns = []
    for bulk in (False, True):
        bench = Bench()
        x, y, out = (bench.var(n, np.zeros((4, 3))) for n in ("x", "y", "out"))
        if bulk:
            parts = [out[:, 1], out[:, 2]]
            bench.graph.add_vertices(
                bench.cs, Scattered, 0, x=[x[:, 2], x[:, 0]], y=y[:, :2], out=parts
            )
        else:
            for i in range(4):
                bench.add(Scattered, x=[x[i, 2], x[i, 0]], y=y[i, :2], out=[out[i, 1], out[i, 2]])
        frozen = bench.engine().executable.compiled.graph
        for _, table in frozen.tables():
            found = [frozen.intervals(table, name) for name in table.fields]
            columns.append([(f.row.tolist(), f.start.tolist(), f.stop.tolist()) for f in found])
    assert columns[0] == columns[1]


@pytest.mark.parametrize("cls", [Edges, Listed, Nested])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("bulk", [False, True])
def test_lists_of_vectors(cls: Any, ragged: bool, bulk: bool) -> None:
    bench, count = Bench(), 4
    widths = (3, 1) if ragged else (2, 2)
    rng = np.random.default_rng(1)
    hold = {n: [rng.standard_normal((count, w)).astype(np.float32) for w in widths] for n in "xy"}
    tensors = {
        n: [bench.var(f"{n}{k}", part) for k, part in enumerate(parts)] for n, parts in hold.items()
    }
    tensors["out"] = [bench.var(f"out{k}", np.zeros((count, w))) for k, w in enumerate(widths)]
    if bulk:
        bench.graph.add_vertices(bench.cs, cls, np.arange(count) % TILES, **tensors)
    else:
        for i in range(count):
            bench.add(cls, i % TILES, **{n: [p[i] for p in parts] for n, parts in tensors.items()})
    found = bench.run()
    for k in range(2):
        assert found[f"y{k}"].tobytes() == (hold["y"][k] * 4).tobytes()
        assert found[f"out{k}"].tobytes() == (hold["x"][k] + hold["y"][k] * 2).tobytes()


def test_a_list_is_connected_part_by_part() -> None:
    bench = Bench()
    a, b, out = bench.var("a", [1, 2]), bench.var("b", [3]), bench.var("out", 0)

    class Total(Vertex):
        parts: Vector[Input[Vector[FLOAT]]]
        out: Output[FLOAT]

        def compute(self) -> None:
            self.out = sum(part.sum() for part in self.parts)

    v = bench.add(Total, out=out)
    graph = bench.graph
    assert said(lambda: graph.connect(v["parts"][0], a), NoSizeSpecifiedError) == (
        "Total.parts has no size yet.\n"
        "  where: field 'parts' of vertex 0 (Total) of compute set 'cs'\n"
        "  next:  graph.set_field_size(vertex[name], size), or connect the whole field."
    )
    graph.set_field_size(v["parts"], 2)
    assert graph.get_field_size(v["parts"]) == 2
    graph.connect(v["parts"][1], b)
    assert "The field 'parts' of 1 vertex of Total is not connected." in said(
        bench.engine, GraphConnectionError
    )
    graph.connect(v["parts"][0], a)
    assert (
        bench.run()["out"] == 6
        and graph.get_field_size(v["parts"]) == 2
        and graph.get_field_size(v["out"]) == 1
    )
    assert said(lambda: graph.connect(v["parts"][2], a), PoplarIndexError) == (
        "Total.parts has no part 2.\n"
        "  where: field 'parts' of vertex 0 (Total) of compute set 'cs'\n"
        "  next:  use an index below its size, which is 2."
    )
    assert said(lambda: graph.connect(v["out"][0], a), GraphConnectionError) == (
        "Total.out is declared as Output[FLOAT], which has no parts to connect one by one.\n"
        "  where: part 0 of field 'out' of vertex 0 (Total) of compute set 'cs'\n"
        "  next:  connect the whole field, or give the whole field a value."
    )
    assert said(lambda: graph.connect(v["parts"][0], 3), GraphConnectionError) == (
        "Total.parts[0] was given 3, which is not a tensor.\n  next:  connect a tensor."
    )
    assert said(lambda: graph.set_field_size(v["parts"][0], 3), GraphObjectCreationError) == (
        "part 0 of field 'parts' of vertex 0 (Total) of compute set 'cs' is one part of a field, and "
        'only connect() takes a part.\n  next:  name the whole field: vertex["name"].'
    )
    assert said(lambda: v["parts"][0][1], GraphConnectionError) == (
        "The part 0 of field 'parts' of vertex 0 (Total) of compute set 'cs' cannot be indexed: it "
        "is a single tensor.\n  next:  give it one tensor."
    )
    assert said(lambda: list(v["parts"]), GraphConnectionError) == (
        "A loop over field 'parts' of vertex 0 (Total) of compute set 'cs' would never end, because a field has no "
        "length.\n"
        "  next:  loop over range(size) and index it."
    )


def test_what_does_not_fit_a_list() -> None:
    bench = Bench()
    x = bench.var("x", np.zeros((2, 2)))
    assert said(lambda: bench.add(Scattered, x=[x[0]]), GraphConnectionError) == (
        "Scattered.x is declared as Vector[Input[FLOAT]], which takes one dimension, or a list of "
        f"single elements, but was given a list with shape (2,).\n  where: {x[0]!r}\n  next:  "
        "index, slice or flatten the tensor, or change the declaration."
    )
    assert said(lambda: bench.add(Scattered, x=3), GraphConnectionError) == (
        "Scattered.x is declared as Vector[Input[FLOAT]], but was given 3.\n"
        "  next:  connect a tensor or a list of single elements."
    )
    assert bench.cs.num_vertices == 0


def bad(annotation: Any, **body: Any) -> Callable[[], Any]:
    return lambda: type(
        "Bad",
        (Vertex,),
        {"__annotations__": {"x": annotation}, "compute": lambda self: None, **body},
    )


@pytest.mark.parametrize(
    "annotation",
    [
        Vector[Vector[Input[FLOAT]]],
        Input[Vector[Input[FLOAT]]],
        VectorList[FLOAT],
        Vector[VectorList[FLOAT]],
        Input[Vector[VectorList[FLOAT]]],
        Input[Input[FLOAT]],
        Vector[Input[VectorList[FLOAT]]],
        Vector[FLOAT, 3],
        Input[Vector[FLOAT, VectorLayout.SPAN, VectorLayout.SPAN]],
        Vector[Vector[INT]],
        Input[Vector[FLOAT, FLOAT]],
    ],
)
def test_what_is_no_field(annotation: Any) -> None:
    assert said(bad(annotation), VertexDefinitionError).startswith("Bad.x is declared as ")


# --- layouts --------------------------------------------------------------------------------------


class OnePtr(Vertex):
    n: UNSIGNED_INT
    x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]
    y: InOut[Vector[FLOAT, VectorLayout.ONE_PTR]]

    def compute(self) -> None:
        self.y *= 3
        for i in range(4):
            self.y[i] += self.x[3 - i]
        self.y = self.y + np.exp(self.x)


def test_one_ptr_gives_the_same_values() -> None:
    bench = Bench()
    a, b = np.float32([1, 2, 3, 4]), np.float32([0.5, 0.25, 0, 8])
    x, y = bench.var("x", a), bench.var("y", b)
    bench.add(OnePtr, n=4, x=x, y=y)
    for _ in range(2):
        b = b * np.float32(3) + a[::-1] + np.exp(a)
    assert bench.run()["y"].tobytes() == b.tobytes()


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("ask", [len, list, lambda x: sum(v for v in x)])
def test_one_ptr_has_no_length(loop: bool, ask: Callable[[Any], Any]) -> None:
    class Asks(Vertex):
        go: Input[FLOAT]
        x: Input[Vector[FLOAT, VectorLayout.ONE_PTR]]
        out: Output[FLOAT]

        def compute(self) -> None:
            if not loop or self.go > 0:  # a branch on data sends it to the vertex loop
                ask(self.x)
            self.out = 0

    bench = Bench()
    go, x, out = bench.var("go", 1), bench.var("x", [1, 2]), bench.var("out", 0)
    bench.add(Asks, go=go, x=x, out=out)
    text = said(lambda: bench.engine(strict=False).run(), CodeletError)
    first, where, advice = text.split("\n")
    assert first == (
        "Asks.x is laid out as ONE_PTR, a pointer without a length, so len() and loops do not "
        "work on it."
    )
    assert where.startswith("  where: test_vertex_kinds.py, line ") and where.endswith(
        "vertex 0 (Asks, tile 0)"
    )
    assert advice == (
        "  next:  give the length in a state field and loop over range(length), or leave out the "
        "layout, whose default is SPAN."
    )
    with pytest.raises(CodeletError):
        Asks.call(go=1, x=[1, 2])


def test_a_list_laid_out_as_one_ptr_has_no_length() -> None:
    class Asks(Vertex):
        x: Input[VectorList[FLOAT, VectorLayout.ONE_PTR]]

        def compute(self) -> None:
            for part in self.x:
                part.sum()

    with pytest.raises(CodeletError, match="ONE_PTR"):
        Asks.call(x=[[1, 2], [3]])
    bench = Bench()
    x = bench.var("x", [1, 2, 3])
    bench.add(Asks, x=[x[:2], x[2:]])
    assert "Asks.x is laid out as ONE_PTR" in said(bench.engine, CodeletError)


# --- state ----------------------------------------------------------------------------------------


class Table(Vertex):
    table: Vector[UNSIGNED_INT]
    step: FLOAT = 0.5
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = self.table[0] * self.step + self.table[-1]
        self.table += 1


@pytest.mark.parametrize("bulk", ["one by one", "a row each", "one for all"])
def test_a_vector_of_state(bulk: str) -> None:
    bench, count = Bench(), 7
    out = bench.var("out", np.zeros(count))
    rows = np.arange(count * 3).reshape(count, 3) % 5
    if bulk == "one for all":
        rows[:] = rows[0]
    if bulk == "one by one":
        vertices = [bench.add(Table, i % TILES, table=rows[i], out=out[i]) for i in range(count)]
        bench.graph.set_initial_value(vertices[3]["step"], 0.25)
        bench.graph.set_initial_value(vertices[4]["table"], [9, 8])
        assert bench.graph.get_field_size(vertices[4]["table"]) == 2
    else:
        bench.graph.add_vertices(
            bench.cs,
            Table,
            np.arange(count) % TILES,
            table=rows if bulk == "a row each" else rows[0],
            out=out,
        )
    expected = []
    for i in range(count):
        first, last = (9, 8) if bulk == "one by one" and i == 4 else rows[i][[0, -1]]
        step = 0.25 if bulk == "one by one" and i == 3 else 0.5
        expected.append((first + 3) * step + last + 3)
    assert bench.run(times=2)["out"].tolist() == expected  # state lives on: the fourth execution


def test_sized_state_holds_what_unwritten_memory_holds() -> None:
    class Shift(Vertex):
        kept: Vector[FLOAT]
        x: InOut[FLOAT]

        def compute(self) -> None:
            old = self.kept[0]
            self.kept[0] = self.x
            self.x = old

    bench = Bench()
    x = bench.var("x", 5)
    v = bench.add(Shift, x=x)
    assert said(bench.engine, NoSizeSpecifiedError) == (
        "The state 'kept' of 1 vertex of Shift has neither a value nor a size.\n  where: vertex 0 "
        "(Shift.kept, tile 0) of compute set 'cs'\n  next:  give it numbers in add_vertex: kept=…. "
        "Or give it a size: graph.set_field_size(vertex['kept'], size)."
    )
    assert said(lambda: bench.graph.get_field_size(v["kept"]), NoSizeSpecifiedError).startswith(
        "Shift.kept has no size yet."
    )
    bench.graph.set_field_size(v["kept"], 1)
    assert bench.graph.get_field_size(v["kept"]) == 1
    engine = Engine(bench.graph, Execute(bench.cs))
    engine.load(device)
    engine.run()
    assert np.isnan(engine.read_tensor("x"))
    assert bench.run()["x"] == 5
    assert said(
        lambda: bench.graph.set_initial_value(v["kept"], [1, 2]), GraphObjectCreationError
    ) == (
        "Shift.kept was given 2 values, but its size was set to 1.\n"
        "  where: field 'kept' of vertex 0 (Shift) of compute set 'cs'\n"
        "  next:  leave set_field_size out: the size is that of the value."
    )


def test_sizes_that_cannot_be() -> None:
    bench = Bench()
    out = bench.var("out", 0)
    v = bench.add(Table, table=[1, 2], out=out)
    place = "  where: field '{}' of vertex 0 (Table) of compute set 'cs'\n"
    assert said(lambda: bench.graph.set_field_size(v["table"], 3), GraphObjectCreationError) == (
        "set_field_size() was given the size 3 for Table.table, whose value has 2 elements.\n"
        f"{place.format('table')}  next:  leave the call out: the size is that of the value."
    )
    assert said(lambda: bench.graph.set_field_size(v["table"], -1), GraphObjectCreationError) == (
        f"set_field_size() was given the size -1, which is not valid.\n{place.format('table')}  next:  give a whole "
        "number from 0 to 1,000,000."
    )
    assert said(lambda: bench.graph.set_field_size(v["step"], 1), GraphObjectCreationError) == (
        f"Table.step is declared as FLOAT and takes no size.\n{place.format('step')}  next:  it is "
        "a single element."
    )
    assert said(lambda: bench.add(Table, table=5, out=out), GraphObjectCreationError) == (
        "Table.table is a state field, declared as Vector[UNSIGNED_INT], but was given shape ().\n  next:  "
        "give a list of numbers."
    )
    assert said(lambda: bench.add(Table, table=out, out=out), GraphConnectionError) == (
        "Table.table is a state field, which takes numbers, but was given a tensor.\n  where: "
        f"{out!r}\n  next:  give an array, or declare the field as Input[Vector[UNSIGNED_INT]]."
    )
    assert said(bad(Vector[INT], x=3), VertexDefinitionError) == (
        "Bad.x is set to 3, but is declared as Vector[INT].\n  next:  give a list of numbers."
    )
    assert bad(Vector[INT], x=[1, 2])().fields["x"].default == [1, 2]


# --- workers --------------------------------------------------------------------------------------


class Halves(MultiVertex):
    """Each worker takes every sixth element."""

    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    seen: Vector[INT]

    def compute(self, worker_id: int) -> None:
        mine = slice(worker_id, None, self.num_workers)
        self.out[mine] = self.x[mine] * 2
        self.y[mine] += self.out[mine]
        self.seen[worker_id] += 1


class HalvesByBranch(MultiVertex):
    """The same where it cannot be traced."""

    x: Input[Vector[FLOAT]]
    y: InOut[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    seen: Vector[INT]

    def compute(self, worker_id: int) -> None:
        for i in range(worker_id, len(self.x), self.num_workers):
            if self.x[i] == self.x[i]:
                self.out[i] = self.x[i] * 2
            self.y[i] += self.out[i]

    def cycles(self, target: Any) -> int:
        return 100


@pytest.mark.parametrize("cls", [Halves, HalvesByBranch])
@pytest.mark.parametrize("bulk", [False, True])
@pytest.mark.parametrize("width", [1, 6, 13])
def test_multi_vertex(cls: Any, bulk: bool, width: int) -> None:
    bench, count = Bench(), 5
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((count, width)).astype(np.float32) for _ in "ab")
    x, y, out = bench.var("x", a), bench.var("y", b), bench.var("out", np.zeros((count, width)))
    if bulk:
        bench.graph.add_vertices(
            bench.cs, cls, np.arange(count) % TILES, x=x, y=y, out=out, seen=[0] * 6
        )
    else:
        for i in range(count):
            bench.add(cls, i % TILES, x=x[i], y=y[i], out=out[i], seen=[0] * 6)
    found = bench.run(batched=cls is Halves)
    assert found["out"].tobytes() == (a * 2).tobytes()
    assert found["y"].tobytes() == ((b + a * 2) + a * 2).tobytes()


def test_multi_vertex_by_hand() -> None:
    found = Halves.call(x=[1, 2, 3, 4, 5, 6, 7], y=np.zeros(7), out=7, seen=[0] * 6)
    assert found["out"].tolist() == found["y"].tolist() == [2, 4, 6, 8, 10, 12, 14]


def test_workers_that_race_are_found() -> None:
    class Sums(MultiVertex):
        x: Input[Vector[FLOAT]]
        out: Output[Vector[FLOAT]]

        def compute(self, worker_id: int) -> None:
            self.out[worker_id // 2] = self.x[0]

    class Reads(MultiVertex):
        x: InOut[Vector[FLOAT]]

        def compute(self, worker_id: int) -> None:
            self.x[worker_id] = self.x[(worker_id + 1) % 6]

    class State(MultiVertex):
        total: FLOAT = 0

        def compute(self, worker_id: int) -> None:
            if worker_id == 2:
                self.total = 1
            elif worker_id == 4:
                self.total += 1

    advice = (
        "  next:  let each worker write elements of its own, chosen by worker_id; a worker that "
        "needs another worker's result reads it in a second compute set."
    )
    for cls, fields, text in (
        (
            Sums,
            "x out",
            "Worker 0 of Sums writes out[0], and worker 1 writes it.\n  where: vertex 0 (Sums.out, "
            "tile 0)",
        ),
        (
            Reads,
            "x",
            "Worker 0 of Reads writes x[0], and worker 5 reads it.\n  where: vertex 0 (Reads.x, "
            "tile 0)",
        ),
        (
            State,
            "",
            "Worker 2 of State writes total, and worker 4 writes it.\n  where: vertex 0 "
            "(State.total, tile 0)",
        ),
    ):
        bench = Bench()
        bench.add(cls, **{name: bench.var(name, np.arange(6)) for name in fields.split()})
        assert said(bench.engine, ComputeSetRaceError) == f"{text}\n{advice}"
        values = []
        for loop in (False, True):
            engine = bench.engine(strict={"races": False}, vertex_loop=loop)
            engine.run()
            values.append([engine.read_tensor(name).tobytes() for name in bench.names])
        assert values[0] == values[1]


def test_what_workers_return_is_anded() -> None:
    class AllPositive(MultiVertex):
        x: Input[Vector[FLOAT]]

        def compute(self, worker_id: int) -> Any:
            return self.x[worker_id] > 0

    for values, expected in (([1] * 6, 1), ([1, 1, 1, -1, 1, 1], 0)):
        bench = Bench()
        x, flag = bench.var("x", values), bench.var("flag", 0, BOOL)
        bench.add(AllPositive, x=x)
        for loop in (False, True):
            engine = Engine(bench.graph, Execute(bench.cs, flag), vertex_loop=loop)
            engine.load(device)
            engine.run()
            assert engine.read_tensor("flag") == expected


def test_compute_takes_what_its_kind_is_given() -> None:
    def define(base: Any, compute: Any) -> Callable[[], Any]:
        return lambda: type("Bad", (base,), {"compute": compute})

    assert said(define(MultiVertex, lambda self: None), VertexDefinitionError) == (
        "Bad.compute(self) cannot be called: a MultiVertex calls compute(self, worker_id).\n"
        "  next:  write `def compute(self, worker_id):`."
    )
    assert said(define(Vertex, lambda self, worker_id: None), VertexDefinitionError) == (
        "Bad.compute(self, worker_id) cannot be called: a vertex calls compute(self).\n"
        "  next:  write `def compute(self):`, or derive from MultiVertex."
    )
    assert said(define(SupervisorVertex, lambda: None), VertexDefinitionError) == (
        "Bad.compute() cannot be called: a vertex calls compute(self).\n  next:  write `def "
        "compute(self):`."
    )


# --- cost -----------------------------------------------------------------------------------------


class Increment(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x += 1


class SixWays(MultiVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self, worker_id: int) -> None:
        share = len(self.x) // self.num_workers
        self.x[worker_id * share : (worker_id + 1) * share] += 1


class Leader(SupervisorVertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x += 1


def test_six_workers_share_the_vertices_of_a_tile() -> None:
    one: list[int] = []
    for count in (1, 6, 7, 12, 13):
        bench = Bench()
        x = bench.var("x", np.zeros((count, 8)))
        bench.graph.add_vertices(bench.cs, Increment, 1, x=x)
        idle, busy, _ = cycles(bench)
        one.append(busy)
        assert idle == 0
    t = one[0]
    assert one == [t, t, 2 * t, 2 * t, 3 * t] and t % 6 == 0


def test_a_multi_vertex_costs_its_slowest_worker_six_times() -> None:
    def cost(cls: Any, size: int) -> int:
        bench = Bench()
        bench.add(cls, x=bench.var("x", np.zeros(size)))
        return cycles(bench)[0]

    start = 11  # of six workers, by the supervisor
    # each worker does what the plain vertex does
    assert cost(SixWays, 48) == cost(Increment, 8) + start
    assert cost(Leader, 8) == cost(Increment, 8) + start

    class Uneven(MultiVertex):
        x: InOut[Vector[FLOAT]]

        def compute(self, worker_id: int) -> None:
            if worker_id == 3:
                self.x += 1

    assert cost(Uneven, 48) == cost(Increment, 48) + start


def test_multi_vertices_of_a_tile_follow_each_other() -> None:
    bench = Bench()
    x = bench.var("x", np.zeros((3, 48)))
    bench.graph.add_vertices(bench.cs, SixWays, 0, x=x[:2])
    once = cycles(bench)[0] // 2
    bench.add(Increment, x=x[2, :8])
    assert cycles(bench)[0] == 2 * once + once - 11  # which the plain vertex does not take to start


def test_whose_estimate_counts() -> None:
    class Said(Vertex):
        x: InOut[Vector[FLOAT]]

        def compute(self) -> None:
            self.x += 1

        def cycles(self, target: Any) -> int:
            return 10 * len(self.x)

    bench = Bench()
    x = bench.var("x", np.zeros(4))
    v = bench.add(Said, x=x)
    graph = bench.graph
    assert graph.get_perf_estimate(v) == 40 and cycles(bench)[0] == 240
    graph.register_perf_estimator(
        Said, lambda shapes, target: shapes["x"][0] + target.num_worker_contexts
    )
    assert graph.get_perf_estimate(v) == 10 and cycles(bench)[0] == 60
    graph.set_perf_estimate(v, 3)
    assert graph.get_perf_estimate(v) == 3 and cycles(bench)[0] == 18


def test_an_estimator_stands_for_a_codelet_that_cannot_be_traced() -> None:
    class Flip(Vertex):
        x: InOut[FLOAT]

        def compute(self) -> None:
            self.x = -float(f"{self.x}")

    bench = Bench()
    v = bench.add(Flip, x=bench.var("x", 1))
    with pytest.raises(MissingPerfEstimateError):
        bench.engine()
    assert said(lambda: bench.graph.get_perf_estimate(v), MissingPerfEstimateError) == (
        "Flip has no estimate of its cycles.\n  where: vertex 0 (Flip) of compute set 'cs'\n  "
        "next:  graph.set_perf_estimate(vertex, cycles), graph.register_perf_estimator(…), or `def "
        "cycles(self, target)` in the class. The report shows the cycles that are counted from compute()."
    )
    bench.graph.add_codelets(Flip)
    bench.graph.register_perf_estimator("Flip", lambda shapes, target: 7)
    assert cycles(bench)[0] == 42


def test_estimates_that_are_none() -> None:
    bench = Bench()
    x = bench.var("x", np.zeros(4))
    v = bench.add(Increment, x=x)
    place = "  where: vertex 0 (Increment, tile 0)\n"
    for function, text in (
        (
            lambda shapes, target: "x",
            "returned 'x'.\n{}  next:  return a whole number from 0 to 1,000,000,000,000.",
        ),
        (
            lambda shapes, target: -1,
            "returned -1.\n{}  next:  return a whole number from 0 to 1,000,000,000,000.",
        ),
        (
            lambda shapes, target: shapes["z"],
            "failed: KeyError: 'z'.\n{}  next:  use shapes only: an estimator gets the shapes of the fields, not their values.",
        ),
    ):
        bench.graph.register_perf_estimator(Increment, function)
        expected = f"The perf estimator of Increment {text.format(place)}"
        assert said(lambda: cycles(bench), InvalidPerfEstimateError) == expected
        with pytest.raises(InvalidPerfEstimateError):
            bench.graph.get_perf_estimate(v)
    assert said(
        lambda: bench.graph.register_perf_estimator(Increment, 3), GraphObjectCreationError
    ) == (
        "register_perf_estimator() was given 3 for Increment, which is not a function.\n"
        "  next:  give a function of (shapes, target) that returns cycles."
    )
    assert said(lambda: bench.graph.register_perf_estimator(3, len), GraphObjectCreationError) == (
        "register_perf_estimator() was given 3, which is not a vertex class.\n  next:  give a class "
        "that derives from Vertex."
    )
    assert said(lambda: bench.graph.get_perf_estimate(x), GraphObjectCreationError) == (
        f"get_perf_estimate() was given {shown(x)}, which is not a vertex of this graph.\n  next:  give a vertex that add_vertex "
        "returned."
    )

    class Wrong(Increment):
        def cycles(self, target: Any) -> Any:
            return None

    bench = Bench()
    v = bench.add(Wrong)
    assert said(lambda: bench.graph.get_perf_estimate(v), MissingPerfEstimateError) == (
        "The cycles of Wrong depend on its field 'x', which is not connected.\n"
        "  where: vertex 0 (Wrong) of compute set 'cs'\n  next:  connect it first."
    )
    bench.graph.connect(v["x"], bench.var("x", np.zeros(4)))
    assert said(lambda: cycles(bench), InvalidPerfEstimateError) == (
        "Wrong.cycles() returned None.\n  where: vertex 0 (Wrong, tile 0)\n"
        "  next:  return a whole number from 0 to 1,000,000,000,000."
    )


# --- templates ------------------------------------------------------------------------------------


class Scale(Vertex, Generic[T]):
    x: InOut[Vector[T]]
    k: T

    def compute(self) -> None:
        self.x *= self.k


class Convert(Vertex):
    x: Input[Vector[T]]
    out: Output[Vector[S]]

    def compute(self) -> None:
        self.out = self.x


def test_templates() -> None:
    assert Scale[FLOAT] is Scale[FLOAT] and Scale[FLOAT] is not Scale[HALF]
    assert (
        Scale[FLOAT].__name__ == "Scale<float>"
        and Convert[HALF, UNSIGNED_INT].__name__ == "Convert<half,unsigned int>"
    )
    assert [f.declaration() for f in Convert[HALF, INT].fields.values()] == [
        "Input[Vector[HALF]]",
        "Output[Vector[INT]]",
    ]
    assert [f.declaration() for f in Scale.fields.values()] == ["InOut[Vector[T]]", "T"]
    assert Scale[INT].call(x=[1, 2], k=3).tolist() == [3, 6]
    bench = Bench()
    x, y, z = bench.var("x", [1.5, 2]), bench.var("y", [1.5, 2], HALF), bench.var("z", [3, 4], INT)
    bench.add(Scale[FLOAT], x=x, k=2)
    bench.graph.add_codelets(Scale)
    bench.add("Scale<half>", x=y, k=0.5)
    bench.add(template_vertex("Scale", INT), x=z, k=3)
    found = bench.run()
    assert (
        found["x"].tolist() == [6, 8]
        and found["y"].tolist() == [0.375, 0.5]
        and found["z"].tolist() == [27, 36]
    )


def test_templates_may_be_derived_from() -> None:
    class Twice(Scale[T]):
        k = 2

    class Halves(Scale[FLOAT]):
        k = 0.5

    assert Twice[INT].call(x=[1, 2]).tolist() == [2, 4] and Halves.call(x=[1, 2]).tolist() == [
        0.5,
        1,
    ]
    assert said(lambda: type("Bad", (Scale,), {"k": "x"})[INT], VertexDefinitionError).startswith(
        "Bad<int>.k: 'x' is not a number."
    )


def test_what_no_worker_writes_stays_undefined() -> None:
    class Some(MultiVertex):
        out: Output[Vector[FLOAT]]

        def compute(self, worker_id: int) -> None:
            self.out[worker_id] = worker_id

    for size in (6, 7):
        bench = Bench()
        out = bench.graph.add_variable(FLOAT, size, "made")
        bench.graph.set_tile_mapping(out, 0)
        bench.add(Some, out=out)
        program = Sequence(Execute(bench.cs), Copy(out, bench.var("copy", np.zeros(size))))
        engine = Engine(bench.graph, program)
        engine.load(device)
        if size == 6:
            engine.run()
            assert engine.read_tensor("copy").tolist() == [0, 1, 2, 3, 4, 5]
        else:
            assert "element [6] of 'made', which nothing has written" in said(
                engine.run, UninitialisedReadError
            )


def test_templates_used_wrongly() -> None:
    bench = Bench()
    text = "Scale is a template: T has no dtype yet.\n  next:  give the dtype, as in Scale[FLOAT]."
    assert said(lambda: bench.add(Scale), VertexDefinitionError) == text
    assert said(lambda: Scale.call(x=[1], k=1), VertexDefinitionError) == text
    assert said(lambda: Scale[FLOAT, HALF], VertexDefinitionError) == (
        "Scale[…] was given 2 dtypes, but the template has 1 parameter: T.\n  next:  give one dtype for each, as in Scale[FLOAT]."
    )
    assert said(lambda: Increment[FLOAT], VertexDefinitionError) == (  # type: ignore[index]
        "Increment is not a template.\n  next:  use it as it is: Increment, without brackets."
    )
    bench.graph.add_codelets(Scale)
    for name in ("Scale<quarter>", "Scale<>", "Scale<float,float>", "Scale<float"):
        assert not bench.graph.has_codelet(name)
    assert bench.graph.has_codelet("Scale<unsigned int>")
    assert (
        template_vertex("popops::Cast", FLOAT, UNSIGNED_LONGLONG)
        == "popops::Cast<float,unsigned long long>"
    )


# --- by name --------------------------------------------------------------------------------------


def test_codelets_by_name(tmp_path: Path) -> None:
    bench = Bench()
    graph, x = bench.graph, bench.var("x", [1, 2])
    assert not graph.has_codelet("Increment") and not graph.has_codelet(3)
    module = types.ModuleType("lesson")
    source = """
        from ipu_teach import FLOAT, InOut, Vector, Vertex
        class Double(Vertex):
            x: InOut[Vector[FLOAT]]
            def compute(self):
                self.x *= 2
    """
    exec(textwrap.dedent(source), module.__dict__)
    path = tmp_path / "more.py"
    path.write_text(textwrap.dedent(source).replace("Double", "Twice"))
    graph.add_codelets(Increment, module, path)
    assert all(graph.has_codelet(name) for name in ("Increment", "Double", "Twice"))
    bench.add("Twice", x=x[:1])
    graph.add_vertices(bench.cs, "Double", 0, x=x[1:].reshape((1, 1)))
    assert bench.run()["x"].tolist() == [4, 8]
    assert said(lambda: graph.add_codelets(str(path)), GraphObjectLoadError) == (
        f"There is already a codelet 'Twice'.\n  where: add_codelets({shown(str(path))})\n"
        "  next:  give the class another name, or add it only once."
    )


@pytest.mark.usefixtures("marked_codelets")
def test_marked_codelets_are_known_to_every_graph() -> None:
    @codelet
    class Marked(Vertex):
        x: InOut[FLOAT]

        def compute(self) -> None:
            self.x += 1

    first = Marked

    @codelet
    class Marked(Vertex):  # type: ignore[no-redef]  # as when a notebook's cell is run again
        x: InOut[FLOAT]

        def compute(self) -> None:
            self.x += 2

    bench = Bench()
    assert bench.graph.has_codelet("Marked") and first is not Marked
    bench.add("Marked", x=bench.var("x", 0))
    assert bench.run()["x"] == 4
    assert said(lambda: codelet(3), GraphObjectCreationError) == (  # type: ignore[type-var]
        "@codelet was given 3, which is not a vertex class.\n  next:  give a class that derives from "
        "Vertex."
    )


def test_names_that_are_not_there() -> None:
    bench = Bench()
    bench.graph.add_codelets(Increment)
    text = said(lambda: bench.add("Incremnt"), UnknownVertexTypeError)
    assert text.startswith(
        "There is no codelet 'Incremnt'.\n  next:  did you mean 'Increment'? The codelets are "
    )
    assert text.endswith("'; add one with graph.add_codelets(…), or give the class itself.")


def test_files_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    graph = Bench().graph
    for name, source in (
        ("broken.py", "x = (\n"),
        ("fails.py", "1 / 0\n"),
        ("empty.py", "x = 1\n"),
        ("leaves.py", "raise SystemExit(3)\n"),
        ("codelets.cpp", ""),
    ):
        Path(name).write_text(source)
    advice = (
        "  where: add_codelets()\n  next:  give the path of a Python file, a module, or vertex "
        "classes."
    )
    pointer = (
        "  next:  write the codelet in Python, as a class that derives from Vertex: "
        "docs/coming-from-poplar.md shows one twice."
    )
    for name, kind, expected in (
        ("none.py", FileLoadError, f"There is no file 'none.py'.\n{advice}"),
        (
            "codelets.cpp",
            FileLoadError,
            f"'codelets.cpp' is not a Python file.\n  where: add_codelets()\n{pointer}",
        ),
        (
            "broken.py",
            ParseError,
            "'broken.py' is not Python: '(' was never closed.\n  where: line 1\n  next:  correct "
            "the line.",
        ),
        (
            "fails.py",
            GraphObjectLoadError,
            "'fails.py' failed while it was loaded: ZeroDivisionError: division by zero.\n"
            "  next:  run the file by itself to see where it stops: add_codelets() runs all of it once.",
        ),
        (
            "leaves.py",
            GraphObjectLoadError,
            "'leaves.py' failed while it was loaded: SystemExit: 3.\n"
            "  next:  run the file by itself to see where it stops: add_codelets() runs all of it once.",
        ),
    ):
        assert said(lambda name=name: graph.add_codelets(name), kind) == expected
    assert said(lambda: graph.add_codelets("empty.py"), GraphObjectLoadError).endswith(
        "  next:  write a class that derives from Vertex and has a compute() in it."
    )
    assert said(lambda: graph.add_codelets(3), GraphObjectCreationError) == (
        "add_codelets() was given 3, which is not a vertex class.\n  next:  give a class that derives "
        "from Vertex."
    )


# --- numpy ----------------------------------------------------------------------------------------


def test_maximum_and_minimum_warn_of_nothing() -> None:
    class Clip(Vertex):
        x: InOut[Vector[FLOAT]]

        def compute(self) -> None:
            self.x = np.minimum(np.maximum(self.x, 0), 1)

    bench = Bench()
    x = bench.var("x", np.float32([[-1, 0.5, 2]] * 4))
    bench.graph.add_vertices(bench.cs, Clip, 0, x=x)
    assert bench.run()["x"].tolist() == [[0, 0.5, 1]] * 4
