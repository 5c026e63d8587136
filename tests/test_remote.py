"""Remote buffers: rows beside the tiles, moved by row numbers that the device reads when a copy
runs."""

from __future__ import annotations

import io
import json
import math
import textwrap
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from lines import without_line

from ipu_teach import (
    FLOAT,
    HALF,
    INT,
    UNSIGNED_INT,
    Engine,
    Executable,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    RemoteBuffer,
    Report,
    Tensor,
    Vector,
    Vertex,
    compile_graph,
    show,
)
from ipu_teach._support import places
from ipu_teach.errors import (
    ApplicationRuntimeError,
    ControlProgramError,
    ExecutableLoadError,
    GraphMemoryAllocationError,
    GraphObjectCreationError,
    PoplarTypeError,
    TensorIOStateError,
    UninitialisedReadError,
)
from ipu_teach.program import Copy, Execute, Repeat, Sequence
from ipu_teach.report import chrome_trace, compare
from ipu_teach.report.summary import summary_text
from ipu_teach.types import Array


class AddOne(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        for i in range(len(self.x)):
            self.out[i] = self.x[i] + 1


class Next(Vertex):
    row: InOut[UNSIGNED_INT]

    def compute(self):
        self.row += 1


def message(text: str) -> str:
    return textwrap.dedent(text).strip("\n")


class World:
    """A small machine, and a graph on it with what the tests need."""

    def __init__(self, **fields: Any) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=3, **fields).create_device()
        self.graph = Graph(self.device.target)
        self.buffer = self.graph.add_remote_buffer("rows", FLOAT, 4, 5)
        self.single = self.graph.add_remote_buffer("single", FLOAT, 4)
        self.x = self.variable(FLOAT, (4,), "x")
        self.two = self.variable(FLOAT, (2, 4), "two")
        self.row = self.variable(UNSIGNED_INT, (1,), "row")
        self.rows = self.variable(INT, (2,), "numbers")
        self.alien = Graph(self.device.target)

    def variable(self, dtype: Any, shape: tuple[int, ...], name: str, values: Any = None) -> Tensor:
        tensor = self.graph.add_variable(dtype, shape, name)
        self.graph.set_tile_mapping(tensor, 0)
        if values is not None:
            self.graph.set_initial_value(tensor, values)
        return tensor

    def engine(self, program: Any, **options: Any) -> Engine:
        engine = Engine(self.graph, program, **options)
        engine.load(self.device)
        return engine


@pytest.fixture
def w() -> World:
    return World()


def test_a_buffer_says_what_it_is(w: World) -> None:
    assert w.device.supports_remote_buffers
    assert repr(w.buffer) == "RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)"
    assert repr(w.single) == "RemoteBuffer('single', FLOAT, 1 row of 4 elements)"
    assert repr(Copy(w.buffer, w.x, w.row)) == "Copy(rows to 'x', rows 'row')"
    assert repr(Copy(w.x, w.single)) == "Copy('x' to single)"
    assert w.graph.add_remote_buffer("w", HALF, 8, 2, debug_context="layer").handle == "layer/w"


def test_without_an_offset_a_copy_moves_row_0() -> None:
    """Poplar's own example: 128 elements in each of 10 rows, written from a tensor of (8, 16)."""
    device = IPUModel("ipu2", tiles_per_ipu=4).create_device()
    graph = Graph(device.target)
    buffer = graph.add_remote_buffer("MyRemoteBuffer", FLOAT, 128, 10)
    v = graph.add_variable(FLOAT, (8, 16), "v")
    graph.set_tile_mapping(v, 2)
    values = np.arange(128, dtype=np.float32).reshape(8, 16)
    graph.set_initial_value(v, values)
    engine = Engine(graph, Copy(v, buffer))
    engine.load(device)
    engine.run()
    np.testing.assert_array_equal(
        engine.copy_from_remote_buffer("MyRemoteBuffer"), values.reshape(-1)
    )
    with pytest.raises(UninitialisedReadError):
        engine.copy_from_remote_buffer("MyRemoteBuffer", 1)


def ping_pong() -> tuple[Any, Graph, Sequence]:
    """Rows go from buffer 0 to a tile, plus one back to where they were; the same through buffer
    1."""
    device = IPUModel("ipu2", tiles_per_ipu=3).create_device()
    graph = Graph(device.target)
    buffers = [graph.add_remote_buffer(f"b{i}", FLOAT, 6, 32) for i in range(2)]
    cs, step = graph.add_compute_set("add"), graph.add_compute_set("next")
    row = graph.add_variable(UNSIGNED_INT, (), "row")
    graph.set_tile_mapping(row, 2)
    graph.set_initial_value(row, 0)
    copies_in, copies_out = Sequence(), Sequence()
    for tile, buffer in enumerate(buffers):
        x, y = (
            graph.add_variable(FLOAT, (6,), f"x{tile}"),
            graph.add_variable(FLOAT, (6,), f"y{tile}"),
        )
        v = graph.add_vertex(cs, AddOne, x=x, out=y)
        for what in (x, y, v):
            graph.set_tile_mapping(what, tile)
        copies_in.add(Copy(buffer, x, row))
        copies_out.add(Copy(y, buffer, row))
    v = graph.add_vertex(step, Next, row=row)
    graph.set_tile_mapping(v, 2)
    return (
        device,
        graph,
        Sequence(Repeat(32, Sequence(copies_in, Execute(cs), copies_out, Execute(step)))),
    )


def rows_of(engine: Engine, device: Any) -> Array:
    engine.load(device)
    for row in range(32):
        engine.copy_to_remote_buffer(np.full(6, row), "b0", row)
        engine.copy_to_remote_buffer(np.full(6, 100 + row), "b1", row)
    engine.run()
    return np.array(
        [[engine.copy_from_remote_buffer(f"b{b}", row) for row in range(32)] for b in range(2)]
    )


def test_ping_pong_with_a_counter_as_offset(tmp_path: Path) -> None:
    device, graph, program = ping_pong()
    found = rows_of(Engine(graph, program), device)
    wanted = np.stack([np.arange(1, 33), np.arange(101, 133)]).astype(np.float32)
    np.testing.assert_array_equal(found, np.repeat(wanted[:, :, None], 6, axis=2))
    np.testing.assert_array_equal(rows_of(Engine(graph, program, vertex_loop=True), device), found)
    path = tmp_path / "pingpong.ipu"
    compile_graph(graph, program).save(path)
    again = Executable.load(path, codelets=[AddOne, Next])
    np.testing.assert_array_equal(rows_of(Engine(again), device), found)
    assert again.serialize() == compile_graph(graph, program).serialize()


def edited(data: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """A saved executable with another header."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
        for name in before.namelist():
            content = before.read(name)
            if name == "header.json":
                header = json.loads(content)
                change(header)
                content = json.dumps(header).encode()
            after.writestr(name, content)
    return out.getvalue()


def first_copy(header: dict[str, Any]) -> dict[str, Any]:
    return next(step for step in header["steps"] if step["kind"] == "RemoteCopy")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda h: h["remote_buffers"].pop(), "'b1' is not a remote buffer"),
        (lambda h: h["remote_buffers"][1].__setitem__(0, "b0"), "There is already a handle 'b0'"),
        (lambda h: h["remote_buffers"][0].__setitem__(3, 0), "0 is not a whole number from 1 to"),
        (
            lambda h: h["remote_buffers"][0].__setitem__(2, 7),
            "Copy moves 1 row of 7 elements, 7 in all",
        ),
        (lambda h: h.pop("remote_buffers"), "remote_buffers"),
        (lambda h: first_copy(h).__setitem__("store", 4), "4 is not"),
        (
            lambda h: first_copy(h).__setitem__("offset", first_copy(h)["tensor"]),
            "Copy was given the offset",
        ),
    ],
)
def test_a_damaged_executable_is_refused(
    change: Callable[[dict[str, Any]], Any], text: str
) -> None:
    _, graph, program = ping_pong()
    data = edited(compile_graph(graph, program).serialize(), change)
    with pytest.raises(ExecutableLoadError, match="The executable is damaged") as error:
        Executable.deserialize(data, codelets=[AddOne, Next])
    assert text in str(error.value)


def test_an_executable_of_the_first_version_has_no_buffers() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    data = compile_graph(Graph(device.target), Sequence()).serialize()
    Executable.deserialize(edited(data, lambda h: (h.pop("remote_buffers"), h.update(version=1))))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("vertex_loop", [False, True])
def test_random_rows_equal_numpy(seed: int, vertex_loop: bool) -> None:
    rng = Random(seed)
    w = World()
    size, repeats, k = rng.randint(1, 7), rng.randint(1, 9), rng.randint(1, 6)
    dtype: Any = rng.choice([FLOAT, HALF, INT])
    buffer = w.graph.add_remote_buffer("b", dtype, size, repeats)
    source = np.array([rng.randint(-99, 99) for _ in range(k * size)], dtype.numpy)
    stored = [rng.randrange(repeats) for _ in range(k)]
    loaded = [rng.choice(stored) for _ in range(k)]
    x = w.variable(dtype, (size, k), "source", source.reshape(size, k)[:, ::-1]).reverse(1)
    y = w.variable(dtype, (k * size,), "destination")
    into = w.variable(rng.choice([INT, UNSIGNED_INT]), (k,), "into", stored)
    out = w.graph.add_constant(UNSIGNED_INT, (k,), loaded, "out")
    w.graph.set_tile_mapping(out, 1)
    w.graph.create_host_read("y", y)
    engine = w.engine(
        Sequence(Copy(x, buffer, into), Copy(buffer, y, out)), vertex_loop=vertex_loop
    )
    engine.run()
    expected = np.zeros((repeats, size), dtype.numpy)
    for number, values in zip(stored, source.reshape(k, size), strict=True):
        expected[number] = values  # of a row that is named twice, the later values stay
    np.testing.assert_array_equal(engine.read_tensor("y"), expected[loaded].reshape(-1))
    for number in stored:
        np.testing.assert_array_equal(engine.copy_from_remote_buffer("b", number), expected[number])


def test_transfers_of_one_kind_side_by_side_are_one_step() -> None:
    """Four buffers of four IPUs: each IPU has a link of its own, and all of them sync once."""
    device = IPUModel(
        tiles_per_ipu=2,
        num_ipus=4,
        tile_clock_frequency=1e9,
        streaming_bytes_per_second=4e9,
        global_sync_seconds_per_hop=0,
    ).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, (4, 256), "x")
    buffers = []
    for ipu in range(4):
        graph.set_tile_mapping(x[ipu], 2 * ipu)
        buffers.append(graph.add_remote_buffer(f"b{ipu}", FLOAT, 256))
    loads = [Copy(buffer, x[ipu]) for ipu, buffer in enumerate(buffers)]
    stores = [Copy(x[ipu], buffer) for ipu, buffer in enumerate(buffers)]
    engine = Engine(graph, Sequence(*loads, *stores))
    engine.load(device)
    for buffer in buffers:
        engine.copy_to_remote_buffer(np.ones(256, np.float32), buffer.handle)
    engine.run()
    assert [(s.name, s.cycles) for s in engine.report.steps()] == [
        ("4 copies: b0, …", 100 + 600 + 256)
    ] * 2
    assert engine.report.streaming_bytes == 2 * 4096
    opened = Executable.deserialize(engine.executable.serialize())
    again = Engine(opened)
    again.load(device)
    for buffer in buffers:
        again.copy_to_remote_buffer(np.ones(256, np.float32), buffer.handle)
    again.run()
    assert again.report.digest() == engine.report.digest()


@pytest.mark.parametrize("seed", range(30))
def test_merged_transfers_do_what_they_do_one_by_one(seed: int) -> None:
    """Row numbers that another copy brings, buffers that are read and written, rows named twice."""
    rng = Random(seed)
    held: list[Any] = []
    orders = [
        (rng.random() < 0.5, rng.randrange(3), rng.randrange(4), rng.randrange(3))
        for _ in range(rng.randint(2, 9))
    ]
    rows = {f"b{b}": [[rng.randrange(3) for _ in range(2)] for _ in range(3)] for b in range(3)}
    started = [[rng.randrange(3) for _ in range(2)] for _ in range(4)]
    for merge in (True, False):
        w = World(num_ipus=2)
        buffers = [w.graph.add_remote_buffer(f"b{b}", UNSIGNED_INT, 2, 3) for b in range(3)]
        tensors = []
        for number, values in enumerate(started):
            tensors.append(w.variable(UNSIGNED_INT, (2,), f"t{number}", values))
            w.graph.set_tile_mapping(tensors[-1], rng.randrange(6) if merge else number)
            w.graph.create_host_read(f"t{number}", tensors[-1])
        program = [
            Copy(tensors[t], buffers[b], tensors[o][:1] if o < 3 and o != t else tensors[3][1:])
            if store
            else Copy(buffers[b], tensors[t], tensors[(t + 1 + o) % 4][:1])
            for store, b, t, o in orders
        ]
        engine = w.engine(Sequence(*program), merge_copies=merge)
        for handle, values in rows.items():
            for row, each in enumerate(values):
                engine.copy_to_remote_buffer(np.array(each), handle, row)
        engine.run()
        if merge:
            merged_steps = engine.report.num_steps
        held.append(
            (
                [engine.read_tensor(f"t{n}").tolist() for n in range(4)],
                [engine.copy_from_remote_buffer(h, r).tolist() for h in rows for r in range(3)],
            )
        )
    assert held[0] == held[1] and merged_steps <= len(orders) == engine.report.num_steps
    # in plain Python, an order at a time
    t = [list(values) for values in started]
    b = {handle: [list(row) for row in values] for handle, values in rows.items()}
    for store, which, here, o in orders:
        if store:
            row = t[o][0] if o < 3 and o != here else t[3][1]
            b[f"b{which}"][row] = list(t[here])
        else:
            t[here] = list(b[f"b{which}"][t[(here + 1 + o) % 4][0]])
    assert held[0] == (t, [row for values in b.values() for row in values])


def test_rows_stay_from_run_to_run_and_go_with_a_load(w: World) -> None:
    w.graph.create_host_write("x", w.x)
    engine = w.engine([Copy(w.x, w.single), Copy(w.single, w.x)])
    engine.write_tensor("x", [1, 2, 3, 4])
    engine.run(0)
    engine.write_tensor("x", [0, 0, 0, 0])
    engine.run(1)
    assert engine.copy_from_remote_buffer("single").tolist() == [1, 2, 3, 4]
    engine.load(w.device)
    with pytest.raises(UninitialisedReadError):
        engine.run(1)


def test_what_the_host_reads_is_a_copy(w: World) -> None:
    engine = w.engine(Copy(w.buffer, w.x))
    engine.copy_to_remote_buffer([1, 2, 3, 4], "rows", 3)
    engine.copy_from_remote_buffer("rows", 3)[:] = 9
    assert engine.copy_from_remote_buffer("rows", 3).tolist() == [1, 2, 3, 4]
    assert engine.copy_from_remote_buffer("rows", 3).dtype == np.float32


def test_a_row_number_is_checked_each_time_a_copy_runs(w: World) -> None:
    w.graph.create_host_write("row", w.row)
    engine = w.engine(Copy(w.buffer, w.x, w.row))
    engine.copy_to_remote_buffer(np.ones(4), "rows", 2)
    engine.write_tensor("row", [2])
    engine.run()
    engine.write_tensor("row", [3])
    with pytest.raises(UninitialisedReadError) as error:
        engine.run()
    assert str(error.value) == message("""
        Copy to 'x' reads row 3 of the remote buffer 'rows', which nothing has written.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  write it first: Copy(tensor, buffer, offset), or engine.copy_to_remote_buffer.""")
    engine.write_tensor("row", [5])
    with pytest.raises(ApplicationRuntimeError) as outside:
        engine.run()
    assert str(outside.value) == message("""
        Copy from the remote buffer 'rows' was given row 5, but the buffer has 5 rows.
          where: element [0] of its offset 'row'
          next:  give row numbers from 0 to 4.""")


def test_a_negative_row_and_the_only_row(w: World) -> None:
    w.graph.set_initial_value(w.two, 1.0)
    w.graph.set_initial_value(w.rows, [0, -1])
    with pytest.raises(ApplicationRuntimeError) as error:
        w.engine(Copy(w.two, w.single, w.rows)).run()
    assert str(error.value) == message("""
        Copy to the remote buffer 'single' was given row -1, but the buffer has 1 row.
          where: element [1] of its offset 'numbers'
          next:  give row 0, or make the buffer with more rows: repeats=…""")


def test_unwritten_tensors_and_offsets(w: World) -> None:
    for program, element in (
        (Copy(w.x, w.single), "Copy to the remote buffer 'single' reads element [0] of 'x'"),
        (
            Copy(w.buffer, w.x, w.row),
            "Copy from the remote buffer 'rows' reads element [0] of 'row'",
        ),
    ):
        with pytest.raises(UninitialisedReadError) as error:
            w.engine(program).run()
        assert str(error.value) == (
            f"{element}, which nothing has written.\n  next:  write it first: a Copy, a compute "
            "set, graph.set_initial_value, or Engine.write_tensor."
        )


def test_without_strict_an_unwritten_row_is_unwritten_memory(w: World) -> None:
    engine = w.engine(Copy(w.single, w.x), strict=False)
    engine.run()
    assert np.isnan(engine.copy_from_remote_buffer("single")).all()


def test_time_goes_to_streaming_memory_by_that_word(w: World) -> None:
    w.graph.set_initial_value(w.two, 1.0)
    w.graph.set_initial_value(w.rows, [4, 1])
    engine = w.engine(Repeat(3, Copy(w.two, w.buffer, w.rows)))
    engine.run()
    target = w.device.target
    assert engine.report.streaming_bytes == 3 * 8 * 4
    each = 8 * 4 / target.streaming_bytes_per_second * target.tile_clock_frequency
    spent = 3 * math.ceil(each)
    for report in (engine.report, Report.deserialize(engine.report.serialize())):
        assert (report.streaming_cycles, report.host_exchange_cycles, report.host_bytes) == (
            spent,
            0,
            0,
        )
        assert report.proportions["streaming memory"] == spent / report.total_cycles
        assert sum(report.proportions.values()) == pytest.approx(1)
        assert [p.kind for p in report.phases(0)][-1] == "streaming memory"
        assert [o.name for o in report.operations()] == ["streaming memory"]
        line = f"Tile average streaming memory cycles:                 {spent}.0 ("
        assert line in summary_text(report) and "host exchange cycles:" in summary_text(report)
        named = [e["name"] for e in json.loads(chrome_trace(report))["traceEvents"]]
        assert named.count("streaming memory") == 3 and "host exchange" not in named


def test_why_and_insights_speak_of_the_link_to_streaming_memory() -> None:
    w = World(streaming_bytes_per_second=1e6)
    w.graph.set_initial_value(w.two, 1.0)
    w.graph.set_initial_value(w.rows, [4, 1])
    engine = w.engine(Copy(w.two, w.buffer, w.rows))
    engine.run()
    causes = str(engine.report.why())
    assert "streaming memory is" in causes
    assert "32 bytes cross the link to streaming memory, and all tiles wait." in causes
    said = next(i for i in engine.report.insights() if i.kind == "proportions")
    assert said.name == "streaming memory"
    assert "most of the run is spent on transfers with streaming memory" in said.advice


def test_streaming_memory_has_a_rate_of_its_own() -> None:
    """16 bytes by a stream at 4 a cycle, and 16 to a row at 1."""
    w = World(tile_clock_frequency=1e9, host_bytes_per_second=4e9, streaming_bytes_per_second=1e9)
    stream = w.graph.add_host_to_device_fifo("in", FLOAT, 4)
    engine = w.engine(Sequence(Copy(stream, w.x), Copy(w.x, w.buffer)))
    engine.connect_stream("in", np.ones(4, np.float32))
    engine.run()

    def spent(report: Report) -> list[int]:
        return [step.cost.host_cycles for step in report.steps()]

    report = engine.report
    assert spent(report) == [4, 16]
    for one in (report, Report.deserialize(report.serialize())):
        assert spent(one.what_if(streaming_bytes_per_second=4e9)) == [4, 4]
        assert spent(one.what_if(host_bytes_per_second=16e9)) == [1, 16]


def test_what_streaming_memory_does_not_hold_is_refused_in_the_words_of_a_tile() -> None:
    w = World(num_ipus=2, streaming_bytes=100)
    w.graph.add_remote_buffer("weights", FLOAT, 10, 3)
    executable = compile_graph(w.graph, Sequence(), options={"debug.allowOutOfMemory": True})
    words = (
        "Out of memory: Cannot fit all remote buffers into streaming memory.\n  where: streaming "
        "memory has 200 bytes (100 for each IPU), and the buffers take 216: 'weights' 120, 'rows' "
        "80, 'single' 16\n  next:  "
        "use fewer or shorter rows, a smaller dtype, or a machine with more IPUs."
    )
    for attempt in (lambda: w.engine(Sequence()), lambda: Engine(executable).load(w.device)):
        with pytest.raises(GraphMemoryAllocationError) as error:
            attempt()
        assert str(error.value) == words
        first, second = error.value.why().causes
        assert first.text.startswith("Out of memory") and second.text.startswith(
            "streaming memory has 200 bytes"
        )
    World(num_ipus=2, streaming_bytes=48).engine(Sequence())  # 96 bytes, and it has 96


def test_a_drawing_has_the_buffer(w: World, tmp_path: Path) -> None:
    w.graph.output_compute_graph(tmp_path / "g.dot", Copy(w.x, w.buffer))
    text = (tmp_path / "g.dot").read_text()
    assert "t0 -> r0 [style=dashed];" in text and 'r0 [shape=cylinder, label="rows"];' in text


def test_a_huge_buffer_costs_nothing_until_it_is_used(w: World) -> None:
    w.graph.add_remote_buffer("huge", FLOAT, 2**20, 2**10)
    engine = w.engine(Sequence())
    engine.copy_to_remote_buffer(np.ones(2**20), "huge", 1000)
    assert engine.copy_from_remote_buffer("huge", 1000).sum() == 2**20


def test_a_buffer_that_no_computer_holds(w: World) -> None:
    w = World(streaming_bytes=10**15)
    w.graph.add_remote_buffer("far", FLOAT, 2**26, 2**20)
    with pytest.raises(GraphMemoryAllocationError) as error:
        w.engine(Sequence())
    total = 2**48 + 5 * 16 + 16
    assert str(error.value) == (
        f"The remote buffers take {total:,} bytes, which this computer does not have.\n  where: "
        "RemoteBuffer('rows', FLOAT, 5 rows of 4 elements), RemoteBuffer('single', FLOAT, 1 row of "
        "4 elements), RemoteBuffer('far', FLOAT, 1,048,576 rows of 67,108,864 elements)\n  next:  "
        "give them fewer rows, or shorter ones."
    )


def test_rows_that_would_go_to_the_disk_are_refused_and_none_is_lost(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    w = World()
    w.graph.add_remote_buffer("large", FLOAT, 2**23, 8)
    engine = w.engine(Sequence())
    (tmp_path / "meminfo").write_text(f"MemTotal: 1 kB\nMemAvailable:  {2**16 + 2**15 - 1} kB\n")
    monkeypatch.setattr(places, "MEMINFO", tmp_path / "meminfo")
    values = np.arange(2**23, dtype=np.float32)
    for row in range(2):  # 32 MiB each: nobody looks before 64 MiB are written
        engine.copy_to_remote_buffer(values + row, "large", row)
    with pytest.raises(GraphMemoryAllocationError) as error:
        engine.copy_to_remote_buffer(values, "large", 2)
    assert str(error.value) == message("""
        This computer's memory is full: 100,662,272 bytes are free, but 33,554,432 must be written.
          where: RemoteBuffer('large', FLOAT, 8 rows of 8,388,608 elements), of which 2 rows are written
          next:  give the buffer fewer rows, or shorter ones, or close other programs.""")
    for row in range(2):
        assert np.array_equal(engine.copy_from_remote_buffer("large", row), values + row)
        engine.copy_to_remote_buffer(values, "large", row)  # which touches nothing new
    (tmp_path / "meminfo").write_text(f"MemAvailable:  {2**16 + 2**15} kB\n")
    engine.copy_to_remote_buffer(values, "large", 2)


BUFFER = "RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)"
LAST = "UNSIGNED_INT, LONGLONG, UNSIGNED_LONGLONG"


def copy_to(w: World, *args: Any) -> None:
    w.engine(Sequence()).copy_to_remote_buffer(*args)


def copy_from(w: World, *args: Any) -> None:
    w.engine(Sequence()).copy_from_remote_buffer(*args)


def with_alien_buffer(w: World) -> None:
    other = w.alien.add_remote_buffer("rows", FLOAT, 4, 5)
    w.engine(Copy(other, w.x))


def alien_offset(w: World) -> Tensor:
    return w.alien.add_variable(INT, (1,), "alien")


REFUSED: list[tuple[str, Callable[[World], Any], type[Exception], str]] = [
    (
        "handle twice",
        lambda w: w.graph.add_remote_buffer("rows", FLOAT, 4),
        GraphObjectCreationError,
        """
        There is already a handle 'rows'.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  choose another name.""",
    ),
    (
        "stream of that handle",
        lambda w: w.graph.add_device_to_host_fifo("rows", FLOAT, 4),
        GraphObjectCreationError,
        """
        There is already a handle 'rows'.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  choose another name.""",
    ),
    (
        "host read of that handle",
        lambda w: w.graph.create_host_read("rows", w.x),
        GraphObjectCreationError,
        """
        There is already a handle 'rows'.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  choose another name.""",
    ),
    (
        "no name",
        lambda w: w.graph.add_remote_buffer(4, FLOAT, 4),
        GraphObjectCreationError,
        """
        add_remote_buffer() was given the handle 4, which is not text.
          next:  a handle must be a string, as in 'weights'.""",
    ),
    (
        "no elements",
        lambda w: w.graph.add_remote_buffer("b", FLOAT, 0),
        GraphObjectCreationError,
        """
        The remote buffer 'b' was given 0 as num_elements, which is not valid.
          next:  give the elements of one row, a whole number of 1 or more.""",
    ),
    (
        "half a row",
        lambda w: w.graph.add_remote_buffer("b", FLOAT, 4, 0.5),
        GraphObjectCreationError,
        """
        The remote buffer 'b' was given 0.5 as repeats, which is not valid.
          next:  give the number of rows, a whole number of 1 or more.""",
    ),
    (
        "too large",
        lambda w: w.graph.add_remote_buffer("b", FLOAT, 2**40, 2**20),
        GraphObjectCreationError,
        """
        The remote buffer 'b' is too large.
          where: 1099511627776 elements in each of 1048576 rows; a buffer may have 281,474,976,710,656 bytes
          next:  check num_elements and repeats.""",
    ),
    (
        "no dtype",
        lambda w: w.graph.add_remote_buffer("b", 4, 4),
        PoplarTypeError,
        f"""
        The remote buffer 'b' was given the element type 4.
          next:  use one of FLOAT, HALF, BOOL, CHAR, SIGNED_CHAR, UNSIGNED_CHAR, SHORT, UNSIGNED_SHORT, INT, {LAST}.""",
    ),
    (
        "copy dtypes",
        lambda w: Copy(w.rows, w.buffer),
        PoplarTypeError,
        """
        Copy was given a source of INT and a destination of FLOAT.
          where: Tensor('numbers', INT, shape (2,)) to RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  use one dtype for both, or convert with popops.cast first: a copy moves bits as they are.""",
    ),
    (
        "copy sizes",
        lambda w: Copy(w.two, w.buffer),
        ControlProgramError,
        """
        Copy moves 1 row of 4 elements, 4 in all, but was given a tensor of 8 elements.
          where: Tensor('two', FLOAT, shape (2, 4)) to RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  slice the tensor, or give an offset with one number for each row: Copy(tensor, buffer, offset).""",
    ),
    (
        "copy rows",
        lambda w: Copy(w.buffer, w.x, w.rows),
        ControlProgramError,
        """
        Copy moves 2 rows of 4 elements, 8 in all, but was given a tensor of 4 elements.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements) to Tensor('x', FLOAT, shape (4,))
          next:  slice the tensor, or give an offset with one number for each row: Copy(tensor, buffer, offset).""",
    ),
    (
        "copy buffers",
        lambda w: Copy(w.buffer, w.single),
        ControlProgramError,
        """
        Copy was given a remote buffer but no tensor.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements) to RemoteBuffer('single', FLOAT, 1 row of 4 elements)
          next:  copy from the first into a tensor, and from the tensor into the second.""",
    ),
    (
        "offset without a buffer",
        lambda w: Copy(w.two[0], w.x, w.row),
        ControlProgramError,
        """
        Copy was given the offset Tensor('row', UNSIGNED_INT, shape (1,)), but no remote buffer.
          where: Tensor(a view of 'two', FLOAT, shape (4,)) to Tensor('x', FLOAT, shape (4,))
          next:  leave out the offset. To copy a part of a tensor, slice the tensor.""",
    ),
    (
        "offset a number",
        lambda w: Copy(w.x, w.buffer, 2),
        ControlProgramError,
        """
        Copy was given the offset 2, which is not a tensor of row numbers.
          where: Tensor('x', FLOAT, shape (4,)) to RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  give a tensor of UNSIGNED_INT or INT, such as a constant that graph.add_constant returned.""",
    ),
    (
        "offset of FLOAT",
        lambda w: Copy(w.x, w.buffer, w.x[0]),
        ControlProgramError,
        """
        Copy was given the offset Tensor(a view of 'x', FLOAT, shape ()), which is not a tensor of row numbers.
          where: Tensor('x', FLOAT, shape (4,)) to RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  give a tensor of UNSIGNED_INT or INT, such as a constant that graph.add_constant returned.""",
    ),
    (
        "offset of another graph",
        lambda w: Copy(w.x, w.buffer, alien_offset(w)),
        ControlProgramError,
        """
        Copy was given tensors of two graphs.
          where: Tensor('x', FLOAT, shape (4,)), and the offset Tensor('alien', INT, shape (1,))
          next:  use one graph throughout.""",
    ),
    (
        "buffer of another graph",
        with_alien_buffer,
        GraphObjectCreationError,
        """
        Copy(rows to 'x') uses a tensor, stream or remote buffer of another graph.
          next:  use one graph throughout.""",
    ),
    (
        "copy to a repeated view",
        lambda w: w.engine(Copy(w.single, w.x[:1].broadcast(4, 0))),
        ControlProgramError,
        """
        Copy writes to a view that contains an element twice.
          where: Copy(single to 'x')
          next:  copy to a view in which every element appears once.""",
    ),
    (
        "host, wrong handle",
        lambda w: copy_from(w, "row"),
        TensorIOStateError,
        """
        copy_from_remote_buffer() was given the handle 'row', but there is no such remote buffer.
          next:  did you mean 'rows'? The remote buffers are 'rows', 'single'.""",
    ),
    (
        "host, the buffer itself",
        lambda w: copy_from(w, w.buffer),
        TensorIOStateError,
        f"""
        copy_from_remote_buffer() was given the handle {BUFFER}, but there is no such remote buffer.
          next:  name it by its handle, 'rows'.""",
    ),
    (
        "host, wrong row",
        lambda w: copy_to(w, np.ones(4), "rows", 5),
        TensorIOStateError,
        """
        copy_to_remote_buffer() was given row 5 of the remote buffer 'rows', which has 5 rows.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  give a whole number from 0 to 4.""",
    ),
    (
        "host, only row",
        lambda w: copy_from(w, "single", 1),
        TensorIOStateError,
        """
        copy_from_remote_buffer() was given row 1 of the remote buffer 'single', which has 1 row.
          where: RemoteBuffer('single', FLOAT, 1 row of 4 elements)
          next:  its only row is 0.""",
    ),
    (
        "host, wrong size",
        lambda w: copy_to(w, np.ones(20), "rows"),
        TensorIOStateError,
        """
        copy_to_remote_buffer('rows') was given 20 values for 4 elements.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  give the values of one row, and call it once for each row.""",
    ),
    (
        "host, no numbers",
        lambda w: copy_to(w, "four", "rows"),
        TensorIOStateError,
        """
        copy_to_remote_buffer('rows'): 'four' is not a number.
          next:  give numbers that FLOAT holds.""",
    ),
    (
        "host, unwritten row",
        lambda w: copy_from(w, "rows", 2),
        UninitialisedReadError,
        """
        The host reads row 2 of the remote buffer 'rows', which nothing has written.
          where: RemoteBuffer('rows', FLOAT, 5 rows of 4 elements)
          next:  write it first: Copy(tensor, buffer, offset), or engine.copy_to_remote_buffer.""",
    ),
    (
        "host, not loaded",
        lambda w: Engine(w.graph, Sequence()).copy_from_remote_buffer("rows"),
        TensorIOStateError,
        """
        The engine is not loaded on a device.
          next:  call engine.load(device) first.""",
    ),
]


@pytest.mark.parametrize(
    ("make", "kind", "text"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_every_refusal(
    w: World, make: Callable[[World], Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind) as error:
        make(w)
    assert type(error.value) is kind
    assert without_line(error.value) == message(text)


def test_a_graph_without_buffers() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=1).create_device()
    engine = Engine(Graph(device.target), Sequence())
    engine.load(device)
    with pytest.raises(TensorIOStateError) as error:
        engine.copy_from_remote_buffer("rows")
    assert str(error.value) == message("""
        copy_from_remote_buffer() was given the handle 'rows', but there is no such remote buffer.
          next:  create it with graph.add_remote_buffer, before the engine.""")


def test_a_virtual_graph_makes_the_buffers_of_its_graph(w: World) -> None:
    part = w.graph.create_virtual_graph(1, 3)
    buffer = part.add_remote_buffer("part", FLOAT, 4)
    w.graph.set_initial_value(w.x, [1, 2, 3, 4])
    engine = w.engine(Copy(w.x, buffer))
    engine.run()
    assert engine.copy_from_remote_buffer("part").tolist() == [1, 2, 3, 4]


def test_copies_of_constants_are_refused(w: World) -> None:
    constant = w.graph.add_constant(FLOAT, (4,), 1, "c")
    w.graph.set_tile_mapping(constant, 0)
    assert isinstance(Copy(constant, w.single).destination, RemoteBuffer)
    with pytest.raises(ControlProgramError, match="Copy writes to the constant 'c'"):
        w.engine(Copy(w.single, constant))


def test_the_report_has_rows_and_bytes_by_buffer() -> None:
    device, graph, program = ping_pong()
    engine = Engine(graph, program)
    rows_of(engine, device)
    whole = 32, 32 * 24
    rows = [(f"b{b}", 32, *whole, 32, *whole, 32) for b in range(2)]
    for report in (engine.report, Report.deserialize(engine.report.serialize(host=False))):
        found = report.host.buffers()
        assert [tuple(vars(use).values()) for use in found] == rows
        assert sum(u.bytes_read + u.bytes_written for u in found) == report.streaming_bytes
        moves = report.row_moves
        assert [(m.what.buffer, m.loads, m.rows) for m in moves] == [
            (f"b{b}", loads, (row,)) for row in range(32) for loads in (True, False) for b in (0, 1)
        ]
        into = {report.memory.names[m.what.variable] for m in moves}
        assert into == {"x0", "x1", "y0", "y1"}
        assert all(report.step_numbers[m.index] == m.step for m in moves)
        assert report.digest() == engine.report.digest()
    assert Engine(graph, program).report.host.buffers() == Report.sample().host.buffers() == ()


def test_rows_of_what_was_not_recorded_or_not_moved_are_not_told(w: World) -> None:
    """Of a run that fails the rows of the steps before; of one that is not recorded, none."""
    w.graph.create_host_write("row", w.row)
    w.graph.create_host_write("x in", w.x)
    one = w.graph.add_constant(UNSIGNED_INT, (1,), [4])
    w.graph.set_tile_mapping(one, 0)
    engine = w.engine([Copy(w.x, w.buffer, one), Copy(w.x, w.buffer, w.row)])
    w2 = [1, 2, 3, 4]
    engine.write_tensor("x in", w2)
    engine.write_tensor("row", [2])
    engine.run(1)
    engine.disable_execution_profiling()
    engine.run(0)
    engine.enable_execution_profiling()
    engine.write_tensor("row", [9])
    with pytest.raises(ApplicationRuntimeError):
        engine.run(1)
    engine.run(0)
    assert [m.rows for m in engine.report.row_moves] == [(2,), (4,)]
    engine.reset_execution_profile()
    assert engine.report.row_moves == [] and engine.report.host.buffers() == ()


def test_more_rows_than_are_kept_are_counted(w: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ipu_teach.report.log.MOST_ROWS", 5)
    w.graph.set_initial_value(w.two, 1.0)
    w.graph.set_initial_value(w.rows, [4, 1])
    engine = w.engine(Repeat(4, Copy(w.two, w.buffer, w.rows)))
    for runs in (1, 2):
        engine.run()
        (use,) = engine.report.host.buffers()
        assert (use.writes, use.rows_written, use.different_rows) == (4 * runs, 8 * runs, 2)
        assert [m.rows for m in engine.report.row_moves] == [(4, 1)] * 2


def test_the_table_beside_the_device_is_by_buffer_and_compare_says_what_was_moved() -> None:
    device, graph, program = ping_pong()
    engine = Engine(graph, program)
    rows_of(engine, device)
    report = engine.report
    view = show.host(report)
    each = sum(s.cost.host_cycles for s in report.steps() if s.cost.streaming) // 2
    assert [tuple(row.values()) for row in view.data] == [
        (f"{way} streaming memory: b{b}", "32", "768", f"{each:,}", "32")
        for way in ("from", "to")
        for b in (0, 1)
    ]
    assert "1,536 bytes cross" not in view.scene.sentence and (
        f"{report.streaming_bytes:,} bytes cross that to streaming memory" in view.scene.sentence
    )
    more = compare(Engine(graph, program).report, report).of("streaming")
    assert [(c.name, c.before, c.after) for c in more] == [("b0", 0, 1536), ("b1", 0, 1536)]
    assert "Remote buffers: 2" in report.host._repr_html_()
