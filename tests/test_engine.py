"""The engine as a learner meets it: loading, streams, several programs, copies, and what is left
after an interruption."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    SHORT,
    SIGNED_CHAR,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    Device,
    Engine,
    Graph,
    InOut,
    Input,
    IPUModel,
    IPUTeachError,
    Output,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.errors import StreamConnectionError, UninitialisedReadError
from ipu_teach.program import Copy, Execute, Program, Repeat, Sequence
from ipu_teach.types import Array, DType


class AddOne(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = self.x + 1


class Double(Vertex):
    x: InOut[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = self.x * 2


class Counter(Vertex):
    out: Output[INT]
    count: INT = 10

    def compute(self) -> None:
        self.count = self.count + 1
        self.out = self.count


class Bench:
    """A small graph: a vector `x` that vertices change, host handles for it, and an engine when the
    programs are known."""

    def __init__(self, length: int = 4, tiles: int = 3, **fields: Any) -> None:
        self.device: Device = IPUModel(tiles_per_ipu=tiles, **fields).create_device()
        self.graph = Graph(self.device)
        self.x = self.variable(FLOAT, length, "x", np.arange(length))
        self.graph.create_host_write("write", self.x)

    def variable(self, dtype: type[DType], shape: Any, name: str, values: Any = None) -> Tensor:
        """A variable on the last tile, which the host may read by its name."""
        tensor = self.graph.add_variable(dtype, shape, name)
        self.graph.set_tile_mapping(tensor, self.graph.target.num_tiles - 1)
        self.graph.create_host_read(name, tensor)
        if values is not None:
            self.graph.set_initial_value(tensor, values)
        return tensor

    def execute(self, codelet: type[Vertex], **fields: Any) -> Execute:
        cs = self.graph.add_compute_set(codelet.__name__)
        self.graph.set_tile_mapping(self.graph.add_vertex(cs, codelet, fields or {"x": self.x}), 0)
        return Execute(cs)

    def engine(self, *programs: Program, load: bool = True) -> Engine:
        engine = Engine(self.graph, list(programs))
        if load:
            engine.load(self.device)
        return engine


# --- programs -------------------------------------------------------------------------------------


def test_several_programs_share_one_memory() -> None:
    bench = Bench()
    engine = bench.engine(bench.execute(AddOne), bench.execute(Double))
    assert repr(engine) == "Engine(2 programs, loaded, 0 steps run)"
    engine.run()
    engine.run(1)
    engine.run(np.int64(0))
    assert engine.read_tensor("x").tolist() == [3, 5, 7, 9]
    assert repr(engine) == "Engine(2 programs, loaded, 3 steps run)"


def test_loading_again_starts_over() -> None:
    bench = Bench()
    out = bench.variable(INT, (), "out")
    engine = bench.engine(
        Sequence(bench.execute(AddOne), bench.execute(Counter, out=out)), load=False
    )
    assert repr(engine) == "Engine(1 program, not loaded)"
    for _ in range(2):
        engine.load(bench.device)
        assert engine.read_tensor("x").tolist() == [0, 1, 2, 3]
        with pytest.raises(UninitialisedReadError, match="of 'out', which nothing has written"):
            engine.read_tensor("out")
        assert engine.report.num_steps == 0
        for count in (11, 12, 13):
            engine.run()
            assert engine.read_tensor("out") == count
        assert engine.read_tensor("x").tolist() == [3, 4, 5, 6] and engine.report.num_steps == 6


def test_load_and_run() -> None:
    bench = Bench()
    engine = bench.engine(bench.execute(AddOne), bench.execute(Double), load=False)
    engine.load_and_run(bench.device, 1)
    assert engine.read_tensor("x").tolist() == [0, 2, 4, 6]
    engine.load_and_run(bench.device)
    assert engine.read_tensor("x").tolist() == [1, 2, 3, 4]


def test_another_device_of_the_same_kind_serves() -> None:
    bench = Bench()
    engine = bench.engine(bench.execute(AddOne))
    engine.run()
    engine.load_and_run(IPUModel(tiles_per_ipu=3).create_device())
    assert engine.read_tensor("x").tolist() == [1, 2, 3, 4]


def test_repeat() -> None:
    bench = Bench()
    add, double = bench.execute(AddOne), bench.execute(Double)
    engine = bench.engine(
        Repeat(0, add),
        Repeat(3, Sequence(add, Repeat(2, double))),
        Repeat(np.int64(2), Repeat(3, Repeat(1, add))),
        Sequence(),
        Repeat(5, Sequence([])),
    )
    expected = np.arange(4)
    for _ in range(3):
        expected = (expected + 1) * 4
    for index in (0, 1, 0):
        engine.run(index)
    assert engine.read_tensor("x").tolist() == expected.tolist()
    assert engine.report.num_steps == 9
    for index in (2, 3, 4):
        engine.run(index)
    assert engine.read_tensor("x").tolist() == (expected + 6).tolist()
    assert engine.report.num_steps == 15


def test_ways_to_write_a_sequence() -> None:
    bench = Bench()
    add, double = bench.execute(AddOne), bench.execute(Double)
    grown = Sequence(name="grown")
    assert grown.add(add) is grown
    grown.add(double)
    ways = [
        Sequence(add, double),
        Sequence([add, double]),
        Sequence(p for p in (add, double)),
        Sequence([add], double),
        grown,
    ]
    engine = bench.engine(*ways)
    for index in range(len(ways)):
        engine.load_and_run(bench.device, index)
        assert engine.read_tensor("x").tolist() == [2, 4, 6, 8]
    assert (
        repr(grown) == "Sequence(grown, 2 programs)" and repr(Sequence()) == "Sequence(0 programs)"
    )
    assert repr(Repeat(3, add)) == "Repeat(3, Execute(AddOne))"
    assert repr(Copy(bench.x[:2], bench.x[2:])) == "Copy(a view of 'x' to a view of 'x')"


def test_a_program_may_stand_in_several_places() -> None:
    bench = Bench()
    both = Sequence(bench.execute(AddOne), bench.execute(Double))
    engine = bench.engine(Sequence(both, both, Repeat(2, both)))
    engine.run()
    expected = np.arange(4)
    for _ in range(4):
        expected = (expected + 1) * 2
    assert engine.read_tensor("x").tolist() == expected.tolist()


def test_compute_sets_may_be_empty() -> None:
    bench = Bench()
    engine = bench.engine(Execute(bench.graph.add_compute_set("nothing")))
    engine.run()
    assert engine.report.compute_sets[0].vertices == {} and engine.report.num_steps == 1


# --- one graph, several engines -------------------------------------------------------------------


def test_two_engines_of_one_graph_are_independent() -> None:
    bench = Bench()
    add = bench.execute(AddOne)
    first, second = bench.engine(add), bench.engine(Repeat(2, add), load=False)
    second.load(Device(bench.graph.target))
    first.run()
    second.run()
    first.write_tensor("write", [7, 7, 7, 7])
    assert first.read_tensor("x").tolist() == [7] * 4
    assert second.read_tensor("x").tolist() == [2, 3, 4, 5]
    assert (first.report.num_steps, second.report.num_steps) == (1, 2)


def test_what_happens_to_the_graph_later_does_not_reach_the_engine() -> None:
    bench = Bench()
    graph = bench.graph
    cs = graph.add_compute_set("cs")
    v = graph.add_vertex(cs, AddOne, x=bench.x[:2])
    graph.set_tile_mapping(v, 0)
    program = Sequence(Execute(cs))
    stream = graph.add_device_to_host_fifo("out", FLOAT, 4)
    program.add(Copy(bench.x, stream))
    engine = bench.engine(program, load=False)
    before = engine.report.memory.variable_bytes_per_tile.tolist()

    graph.connect(v["x"], bench.x[2:])
    graph.set_tile_mapping(v, 1)
    graph.set_perf_estimate(v, 10**6)
    graph.set_tile_mapping(bench.x, 0)
    graph.set_initial_value(bench.x, 99)
    graph.add_vertex(cs, AddOne, x=bench.x[2:])
    graph.add_variable(FLOAT, 10**6)
    graph.add_device_to_host_fifo("more", FLOAT, 4)
    program.add(Execute(cs))

    got: list[Array] = []
    engine.connect_stream("out", got)
    with pytest.raises(IPUTeachError):
        engine.connect_stream("more", got)
    engine.load_and_run(bench.device)
    assert [a.tolist() for a in got] == [[1, 2, 2, 3]]
    assert engine.report.memory.variable_bytes_per_tile.tolist() == before == [0, 0, 16]
    assert engine.report.num_steps == 2 and engine.report.total_cycles < 10**6


# --- streams --------------------------------------------------------------------------------------


def echo(num_elements: int = 2) -> tuple[Bench, Engine]:
    """A bench whose program copies a stream to x and x to another stream."""
    bench = Bench(num_elements)
    into = bench.graph.add_host_to_device_fifo("in", FLOAT, num_elements)
    out = bench.graph.add_device_to_host_fifo("out", FLOAT, num_elements)
    return bench, bench.engine(Sequence(Copy(into, bench.x), Copy(bench.x, out)))


def sent(engine: Engine, source: Any, times: int = 1) -> list[list[float]]:
    """What came back when `source` was connected and the program ran."""
    got: list[Array] = []
    engine.connect_stream("in", source)
    engine.connect_stream("out", got)
    for _ in range(times):
        engine.run()
    return [a.tolist() for a in got]


def test_an_array_goes_round() -> None:
    _, engine = echo()
    assert sent(engine, np.arange(6, dtype=np.float32), 4) == [[0, 1], [2, 3], [4, 5], [0, 1]]
    assert sent(engine, np.arange(6).reshape(3, 2), 2) == [[0, 1], [2, 3]]
    assert sent(engine, [[1.5, 2.5], [3.5, 4.5]], 3) == [[1.5, 2.5], [3.5, 4.5], [1.5, 2.5]]
    assert sent(engine, np.arange(8.0).reshape(2, 4).T[::2], 2) == [[0, 4], [2, 6]]


def test_an_array_of_the_streams_dtype_is_the_callers_own() -> None:
    _, engine = echo()
    mine = np.zeros(2, np.float32)
    engine.connect_stream("in", mine)
    got: list[Array] = []
    engine.connect_stream("out", got)
    for value in (1, 2):
        mine[:] = value
        engine.run()
    assert [a.tolist() for a in got] == [[1, 1], [2, 2]]


def test_iterators_functions_and_lists() -> None:
    _, engine = echo()
    assert sent(engine, iter([[1, 2], np.array([3, 4])]), 2) == [[1, 2], [3, 4]]
    assert sent(engine, ([i, -i] for i in itertools.count()), 3) == [[0, 0], [1, -1], [2, -2]]
    assert sent(engine, itertools.cycle([[5, 6]]), 2) == [[5, 6], [5, 6]]
    assert sent(engine, lambda: [8, 9], 2) == [[8, 9], [8, 9]]

    class Batches:
        def __iter__(self) -> Iterator[list[int]]:
            return iter([[1, 1], [2, 2]])

    assert sent(engine, Batches(), 2) == [[1, 1], [2, 2]]


def test_callbacks() -> None:
    _, engine = echo()
    seen: list[list[float]] = []
    engine.connect_stream_to_callback("in", lambda: np.array([1, 2]))
    engine.connect_stream_to_callback("out", lambda values: seen.append(values.tolist()))
    engine.run()
    assert seen == [[1, 2]]


def test_an_array_is_filled_part_by_part() -> None:
    _, engine = echo()
    engine.connect_stream("in", np.arange(6, dtype=np.float32))
    out = np.zeros((2, 2), np.float32)
    engine.connect_stream("out", out)
    for expected in ([[0, 1], [0, 0]], [[0, 1], [2, 3]], [[4, 5], [2, 3]]):
        engine.run()
        assert out.tolist() == expected


def test_a_stream_may_be_connected_anew() -> None:
    _, engine = echo()
    assert sent(engine, [1, 2]) == [[1, 2]]
    assert sent(engine, [3, 4]) == [[3, 4]]
    engine.load(IPUModel(tiles_per_ipu=3).create_device())
    engine.run()  # streams stay connected when the engine is loaded again
    assert engine.read_tensor("x").tolist() == [3, 4]


def test_views_and_lists_of_places_are_streamed() -> None:
    bench = Bench(0)
    matrix = bench.variable(INT, (3, 4), "matrix", np.arange(12).reshape(3, 4))
    rest = bench.variable(INT, 2, "rest", [-1, -2])
    sides = [matrix.T, matrix[::2, 1], concat([rest, matrix[1, ::-1]]), matrix[1, 2]]
    expected = [
        np.arange(12).reshape(3, 4).T.tolist(),
        [1, 9],
        [-1, -2, 7, 6, 5, 4],
        6,
    ]
    programs: list[Program] = []
    for number, side in enumerate(sides):
        out = bench.graph.add_device_to_host_fifo(f"out{number}", INT, side.num_elements)
        into = bench.graph.add_host_to_device_fifo(f"in{number}", INT, side.num_elements)
        programs += [Copy(side, out), Copy(into, side)]
    engine = bench.engine(*programs)
    for number, (side, values) in enumerate(zip(sides, expected, strict=True)):
        engine.load(bench.device)
        got: list[Array] = []
        engine.connect_stream(f"out{number}", got)
        engine.run(2 * number)
        assert got[0].tolist() == values
        engine.connect_stream(f"in{number}", got[0] + 100)
        engine.run(2 * number + 1)
        engine.run(2 * number)
        assert got[1].tolist() == (got[0] + 100).tolist() and side.shape == got[1].shape


# --- tensors read and written whole ---------------------------------------------------------------


def test_write_and_read_tensors() -> None:
    bench = Bench()
    matrix = bench.variable(HALF, (2, 3), "matrix")
    bench.graph.create_host_write("turned", matrix.T)
    bench.graph.create_host_read("column", matrix[:, 1])
    engine = bench.engine(bench.execute(AddOne))
    engine.write_tensor("turned", [[1, 2], [3, 4], [5, 6]])
    assert engine.read_tensor("matrix").tolist() == [[1, 3, 5], [2, 4, 6]]
    assert engine.read_tensor("column").tolist() == [3, 4]
    assert engine.read_tensor("matrix").dtype == np.float16
    engine.write_tensor("turned", np.arange(6))  # as many values, in the order of the tensor
    assert engine.read_tensor("matrix").tolist() == [[0, 2, 4], [1, 3, 5]]
    engine.write_tensor("write", np.arange(4.0))
    engine.run()
    mine = engine.read_tensor("x")
    mine[:] = 0  # a copy: the machine keeps what it has
    assert engine.read_tensor("x").tolist() == [1, 2, 3, 4]


# --- copies ---------------------------------------------------------------------------------------

VIEWS: dict[str, tuple[Any, Any]] = {
    # name: (what it is of the tensor m of shape (4, 6), the same of the array)
    "whole": (lambda m: m, lambda a: a),
    "row": (lambda m: m[1], lambda a: a[1]),
    "column": (lambda m: m[:, 2], lambda a: a[:, 2]),
    "element": (lambda m: m[3, 3], lambda a: a[3, 3]),
    "transpose": (lambda m: m.T, lambda a: a.T),
    "steps": (lambda m: m[::2, ::3], lambda a: a[::2, ::3]),
    "backwards": (lambda m: m[::-1, ::-1], lambda a: a[::-1, ::-1]),
    "block": (lambda m: m[1:3, 2:5], lambda a: a[1:3, 2:5]),
    "flat block": (lambda m: m[1:3, 2:5].flatten(), lambda a: a[1:3, 2:5].reshape(-1)),
    "reshaped": (lambda m: m.reshape((3, 8)), lambda a: a.reshape(3, 8)),
    "flat transpose": (lambda m: m.T.flatten(), lambda a: a.T.reshape(-1)),
    "rows joined": (lambda m: concat([m[3], m[0]]), lambda a: np.concatenate([a[3], a[0]])),
    "columns joined": (
        lambda m: concat([m[:, 4:], m[:, :2]], 1),
        lambda a: np.concatenate([a[:, 4:], a[:, :2]], 1),
    ),
    "slice of a list": (
        lambda m: concat([m[3], m[0]])[::-2],
        lambda a: np.concatenate([a[3], a[0]])[::-2],
    ),
    "nothing": (lambda m: m[2:2], lambda a: a[2:2]),
}


def copied(source: Any, destination: Any, dtype: type[DType], tiles: int) -> tuple[Array, Array]:
    """(what the machine has after Copy(view of a, view of b), what numpy has)."""
    device = IPUModel(tiles_per_ipu=tiles).create_device()
    graph = Graph(device)
    a, b = graph.add_variable(dtype, (4, 6), "a"), graph.add_variable(dtype, (4, 6), "b")
    values = np.arange(24).reshape(4, 6)
    values = values % 2 == 0 if dtype is BOOL else values
    for tensor, sign in ((a, 1), (b, 0 if dtype is BOOL else 100)):
        graph.set_initial_value(tensor, values * sign if sign == 1 else np.zeros_like(values))
        for row in range(4):
            graph.set_tile_mapping(tensor[row], (row * 7 + sign) % tiles)
    graph.create_host_read("b", b)
    ours, theirs = VIEWS[source], VIEWS[destination]
    engine = Engine(graph, Copy(ours[0](a), theirs[0](b)))
    engine.load_and_run(device)
    expected = np.zeros((4, 6), dtype.numpy)
    places = theirs[1](np.arange(24).reshape(4, 6)).reshape(-1)
    expected.reshape(-1)[places] = ours[1](values).reshape(-1)
    return engine.read_tensor("b"), expected


def size(name: str) -> int:
    return int(np.size(VIEWS[name][1](np.zeros((4, 6)))))


PAIRS = [(a, b) for a in VIEWS for b in VIEWS if size(a) == size(b)]


@pytest.mark.parametrize(("source", "destination"), PAIRS, ids="-".join)
def test_copies_between_views_of_every_kind(source: str, destination: str) -> None:
    found, expected = copied(source, destination, FLOAT, 3)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("dtype", [HALF, BOOL, CHAR, UNSIGNED_SHORT, INT, LONGLONG], ids=repr)
def test_copies_of_every_width(dtype: type[DType]) -> None:
    for source, destination in (
        ("transpose", "whole"),
        ("rows joined", "flat transpose"),
        ("column", "column"),
    ):
        if size(source) == size(destination):
            found, expected = copied(source, destination, dtype, 1)
            assert found.dtype == dtype.numpy and found.tobytes() == expected.tobytes()


@given(
    st.lists(
        st.tuples(st.integers(0, 23), st.integers(1, 6), st.integers(-3, 3)), min_size=1, max_size=4
    ),
    st.randoms(),
)
@settings(max_examples=60)
def test_copies_of_random_pieces(pieces: list[tuple[int, int, int]], rng: Any) -> None:
    """A concatenation of strided pieces of one variable goes to a shuffled order of the other."""
    device = IPUModel(tiles_per_ipu=2).create_device()
    graph = Graph(device)
    a, b = graph.add_variable(INT, 24, "a"), graph.add_variable(INT, 24, "b")
    graph.set_initial_value(a, np.arange(24) * 3)
    graph.set_initial_value(b, -1)
    for tensor in (a, b):
        graph.set_tile_mapping(tensor, rng.randrange(2))
    graph.create_host_read("b", b)
    keys = [
        slice(start, None if step < 0 else min(24, start + length), step or 1)
        for start, length, step in pieces
    ]
    ids = np.concatenate([np.arange(24)[k] for k in keys])[:24]
    source = concat([a[k] for k in keys])[: len(ids)]
    order = rng.sample(range(24), len(ids))
    destination = concat([b[i : i + 1] for i in order])
    engine = Engine(graph, Copy(source, destination))
    engine.load_and_run(device)
    expected = np.full(24, -1)
    expected[order] = ids * 3
    assert engine.read_tensor("b").tolist() == expected.tolist()


def test_a_copy_reads_all_before_it_writes() -> None:
    """Source and destination share a variable, and no element."""
    bench = Bench(6)
    engine = bench.engine(Copy(bench.x[::2], bench.x[1::2]))
    engine.run()
    assert engine.read_tensor("x").tolist() == [0, 0, 2, 2, 4, 4]


# --- unwritten memory -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype",
    [
        FLOAT,
        HALF,
        BOOL,
        CHAR,
        SIGNED_CHAR,
        UNSIGNED_CHAR,
        SHORT,
        UNSIGNED_SHORT,
        INT,
        UNSIGNED_INT,
        LONGLONG,
        UNSIGNED_LONGLONG,
    ],
    ids=repr,
)
def test_unwritten_memory(dtype: type[DType]) -> None:
    bench = Bench()
    u = bench.variable(dtype, (2, 3), "u")
    bench.graph.create_host_read("row", u[1])
    bench.graph.create_host_write("first", u[0])
    engine = bench.engine(Sequence())
    with pytest.raises(UninitialisedReadError) as error:
        engine.read_tensor("u")
    assert str(error.value) == (
        "read_tensor('u') reads element [0, 0] of 'u', which nothing has written.\n"
        "  next:  write it first: a Copy, a compute set, graph.set_initial_value, or "
        "Engine.write_tensor."
    )
    engine.write_tensor("first", np.zeros(3, dtype.numpy))
    for handle in ("u", "row"):  # a part is still unwritten
        with pytest.raises(UninitialisedReadError, match=r"element \[1, 0\] of 'u'"):
            engine.read_tensor(handle)
    lenient = Engine(bench.graph, Sequence(), strict={"uninitialised": False})
    lenient.load(bench.device)
    found = lenient.read_tensor("u")
    assert found.shape == (2, 3) and found.dtype == dtype.numpy
    if dtype.numpy.kind == "f":
        assert np.all(np.isnan(found))
    elif dtype is BOOL:
        assert np.all(found)
    else:
        assert np.all(found == np.iinfo(dtype.numpy).min)


# --- interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interruption", "seen"),
    [(KeyboardInterrupt, KeyboardInterrupt), (ZeroDivisionError, StreamConnectionError)],
)
def test_an_interruption_leaves_the_engine_usable(
    interruption: type[BaseException], seen: type[BaseException]
) -> None:
    bench = Bench(2)
    into = bench.graph.add_host_to_device_fifo("in", FLOAT, 2)
    engine = bench.engine(Repeat(4, Sequence(Copy(into, bench.x), bench.execute(AddOne))))
    calls = 0

    def data() -> list[float]:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise interruption
        return [calls, calls]

    engine.connect_stream("in", data)
    before = np.geterr()
    with pytest.raises(seen):
        engine.run()
    assert np.geterr() == before
    assert engine.report.num_steps == 4  # two rounds of two
    assert engine.read_tensor("x").tolist() == [3, 3]
    engine.run()
    assert calls == 7 and engine.read_tensor("x").tolist() == [8, 8]
    assert engine.report.num_steps == 12
    engine.load(bench.device)
    assert engine.report.num_steps == 0 and engine.read_tensor("x").tolist() == [0, 1]


def test_a_report_is_a_snapshot() -> None:
    bench = Bench()
    engine = bench.engine(bench.execute(AddOne))
    engine.run()
    first = engine.report
    cycles = first.total_cycles
    engine.run()
    assert (first.num_steps, first.total_cycles) == (1, cycles)
    assert (engine.report.num_steps, engine.report.total_cycles) == (2, 2 * cycles)


# --- machines -------------------------------------------------------------------------------------


class Sum(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[FLOAT]

    def compute(self) -> None:
        self.out = np.sum(self.x)


@pytest.mark.parametrize(("tiles", "ipus"), [(1, 1), (1, 3), (3, 2), (5, 1), (1472, 2)])
def test_machines_of_every_size_give_the_same_values(tiles: int, ipus: int) -> None:
    device = IPUModel(tiles_per_ipu=tiles, num_ipus=ipus).create_device()
    graph = Graph(device)
    x, partial, out = (
        graph.add_variable(FLOAT, (7, 5)),
        graph.add_variable(FLOAT, 7),
        graph.add_variable(FLOAT, ()),
    )
    last = tiles * ipus - 1
    for row in range(7):
        graph.set_tile_mapping(x[row], row * last // 6)
        graph.set_tile_mapping(partial[row], last - row * last // 6)
    graph.set_tile_mapping(out, 0)
    first, second = graph.add_compute_set("first"), graph.add_compute_set("second")
    graph.add_vertices(first, Sum, [row * last // 6 for row in range(7)], x=x, out=partial)
    graph.set_tile_mapping(graph.add_vertex(second, Sum, x=partial, out=out), last)
    graph.create_host_read("out", out)
    graph.set_initial_value(x, np.arange(35).reshape(7, 5))
    engine = Engine(graph, Sequence(Execute(first), Execute(second)))
    engine.load_and_run(device)
    assert engine.read_tensor("out") == 595
    report = engine.report
    crossed = sum(int(a.sum()) for a in report.exchange_bytes_per_tile)
    assert (crossed == 0) == (tiles * ipus == 1)
    assert (report.global_exchange_cycles == 0) == (ipus == 1)
