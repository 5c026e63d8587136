"""Replicated graphs: what each replica does is what one alone would do, in as many steps; what
crosses over; and what cannot be."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from programs import replicas

from ipu_teach import (
    BOOL,
    FLOAT,
    INT,
    UNSIGNED_INT,
    Engine,
    Executable,
    Graph,
    InOut,
    Input,
    IPUModel,
    Output,
    ReplicatedStreamMode,
    Report,
    StreamCallback,
    Tensor,
    Vector,
    Vertex,
    compile_graph,
    show,
)
from ipu_teach.errors import (
    ApplicationRuntimeError,
    ComputeSetRaceError,
    ControlProgramError,
    GraphObjectCreationError,
    GraphReplicationError,
    InvalidTileMappingError,
    PoplarError,
    StreamConnectionError,
    TensorIOStateError,
    UninitialisedReadError,
)
from ipu_teach.poplibs import popops
from ipu_teach.program import (
    AbortOnCondition,
    AssumeEqualAcrossReplicas,
    Copy,
    CrossReplicaCopy,
    Execute,
    If,
    Program,
    RepeatWhileTrue,
    Sequence,
    Switch,
    cycle_stamp,
)
from ipu_teach.report import print_profile_summary
from ipu_teach.report.query import folded
from ipu_teach.types import Array

R, TILES = 4, 3


class Scaled(Vertex):
    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    by: FLOAT = 2.0

    def compute(self) -> None:
        self.out[:] = self.x * self.by


class Small(Vertex):
    x: Input[Vector[FLOAT]]

    def compute(self) -> bool:
        return bool(self.x[0] < 2)


class Less(Vertex):
    n: InOut[INT]
    on: Output[BOOL]

    def compute(self) -> None:
        self.n -= 1
        self.on = self.n > 0


class Machine:
    """A graph of R replicas, each with `x` and `y` of 6 elements on two tiles, and what reads them."""

    def __init__(self, ipus: int = R) -> None:
        self.device = IPUModel("ipu2", tiles_per_ipu=TILES, num_ipus=ipus).create_device()
        self.graph = Graph(self.device, replication_factor=R)
        self.x, self.y = self.tensor("x", 6), self.tensor("y", 6)
        self.engine: Engine | None = None
        for handle, tensor in (("x", self.x), ("y", self.y)):
            self.graph.create_host_write(f"write {handle}", tensor)
            self.graph.create_host_read(f"read {handle}", tensor)

    def tensor(self, name: str, *shape: int, dtype: Any = FLOAT) -> Tensor:
        made = self.graph.add_variable(dtype, shape, name)
        self.graph.set_tile_mapping(made, 1)
        if shape:
            self.graph.set_tile_mapping(made[: shape[0] // 2], 2)
        return made

    def scale(self, **fields: Any) -> Execute:
        cs = self.graph.add_compute_set("scale")
        given = {"x": self.x, "out": self.y} | fields
        self.graph.set_tile_mapping(self.graph.add_vertex(cs, Scaled, **given), 2)
        return Execute(cs)

    def run(self, program: Program, x: Any = None, **options: Any) -> Engine:
        self.engine = engine = Engine(self.graph, program, **options)
        engine.load(self.device)
        engine.write_tensor("write x", np.arange(6.0 * R) if x is None else x)
        engine.run()
        return engine


X = np.arange(6.0 * R, dtype=np.float32).reshape(R, 6)


def said(kind: type[PoplarError], call: Callable[[], object]) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# What each replica does


@pytest.mark.parametrize("count", [2, 4, 8])
def test_replicas_learn_what_one_learns_from_all_their_samples(count: int) -> None:
    one, found = replicas.main(1, 16), replicas.main(count, 16 // count)
    assert np.abs(found.weights[0] - one.weights[0]).max() < 2e-7 * np.abs(one.weights).max()
    assert np.abs(found.weights[0] - found.expected).max() < 1e-6
    assert all(np.array_equal(row, found.weights[0]) for row in found.weights)


def test_eight_replicas_take_as_many_steps_as_one() -> None:
    one, eight = (replicas.main(count, 2, together=False).report for count in (1, 8))
    assert one.num_steps == eight.num_steps
    names = [[step.name for step in report.steps()] for report in (one, eight)]
    assert names[0] == names[1]
    assert 8 * one.graph_size()["vertices"] == eight.graph_size()["vertices"]


@pytest.mark.parametrize("options", [{}, {"vertex_loop": True}, {"merge_copies": False}])
def test_every_replica_has_its_own(options: dict[str, Any]) -> None:
    m = Machine()
    z = m.tensor("z", 6)
    m.graph.create_host_read("z", z)
    program = Sequence(m.scale(), Copy(m.y[2:5].reverse(0), z[1:4]), Copy(m.x[:1], z[:1]))
    program.add(Copy(m.x[4:], z[4:]))
    engine = m.run(program, **options)
    assert np.array_equal(engine.read_tensor("read y"), 2 * X)
    expected = X.copy()
    expected[:, 1:4] = 2 * X[:, 4:1:-1]
    assert np.array_equal(engine.read_tensor("z"), expected)


def test_two_ipus_of_four_are_one_of_two_replicas() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=TILES, num_ipus=4).create_device()
    graph = Graph(device, replication_factor=2)
    assert (graph.target.num_ipus, graph.get_replication_factor()) == (2, 2)
    assert graph.target.num_tiles == 2 * TILES
    x = graph.add_variable(FLOAT, (2,), "x")
    graph.set_tile_mapping(x[0], 0)
    graph.set_tile_mapping(x[1], 5)
    whole = graph.get_non_replicated_tensor(x)
    top = graph.get_top_level_graph()
    assert (top.target, top.get_replication_factor()) == (device.target, 1)
    assert whole.shape == (2, 2) and repr(whole[1]) == ("Tensor('x', FLOAT, shape (2,))")
    tiles = [tile for tile, held in enumerate(top.get_tile_mapping(whole)) if held]
    assert tiles == [0, 5, 6, 11]


def test_a_constant_tells_the_replica_its_number() -> None:
    m = Machine()
    index = m.graph.add_replication_index_constant()
    m.graph.set_tile_mapping(index, 0)
    m.graph.create_host_read("index", index)
    assert m.run(Sequence()).read_tensor("index").tolist() == [0, 1, 2, 3]
    alone = Graph(m.device)
    assert alone.add_replication_index_constant().dtype is UNSIGNED_INT
    assert alone.get_replication_factor() == 1
    x = alone.add_variable(FLOAT, 3)
    assert alone.get_non_replicated_tensor(x).shape == (1, 3)


def test_each_replica_answers_for_its_own_vertices() -> None:
    m = Machine()
    cs = m.graph.add_compute_set("small")
    for half in (m.x[:3], m.x[3:]):
        m.graph.set_tile_mapping(m.graph.add_vertex(cs, Small, x=half), 0)
    out = m.tensor("out", dtype=BOOL)
    m.graph.create_host_read("out", out)
    x = np.zeros((R, 6))
    x[1, 3], x[3, 0], x[2, 1] = 5, 5, 5
    assert m.run(Execute(cs, out), x).read_tensor("out").tolist() == [True, False, True, False]


def test_a_stamp_is_of_each_replicas_clock() -> None:
    m = Machine()
    program = Sequence(m.scale())
    stamp = cycle_stamp(m.graph, program, 1)
    m.graph.create_host_read("stamp", stamp)
    engine = m.run(program)
    assert engine.read_tensor("stamp").shape == (R, 2)
    assert engine.read_tensor("stamp")[:, 0].tolist() == [engine.report.total_cycles] * R


# What crosses over


def test_what_a_replica_holds_goes_to_another_in_one_external_step() -> None:
    m = Machine()
    engine = m.run(CrossReplicaCopy(m.x, m.y, {0: 2, 2: 0, 1: 1, 3: 3}))
    assert np.array_equal(engine.read_tensor("read y"), X[[2, 1, 0, 3]])
    report = engine.report
    assert report.num_steps == 1 and report.global_exchange_cycles > 0
    assert [s.name for s in report.steps()] == ["'x' to 'y'"]
    assert repr(CrossReplicaCopy(m.x, m.y, {i: (i + 1) % R for i in range(R)})) == (
        "CrossReplicaCopy('x' to 'y', replicas 0 to 1, 1 to 2, 2 to 3, 3 to 0)"
    )
    one = Graph(m.device)
    x, y = (one.add_variable(FLOAT, 2, name) for name in "xy")
    assert CrossReplicaCopy(x, y, {0: 0}).sources == [0]


def test_the_top_level_graph_works_on_the_tensors_of_all_replicas() -> None:
    m = Machine()
    popops.add_codelets(m.graph)
    program = Sequence(m.scale())
    top, whole = m.graph.get_top_level_graph(), m.graph.get_non_replicated_tensor(m.y.reverse(0))
    total = popops.add(top, whole[0], whole[3], program, "sum")
    m.graph.create_host_read("total", m.y)
    top.create_host_read("sum", total)
    program.add(Copy(total, whole[1]))
    engine = m.run(program)
    assert np.array_equal(engine.read_tensor("sum"), (2 * (X[0] + X[3]))[::-1])
    assert np.array_equal(
        engine.read_tensor("total"), 2 * np.stack((X[0], X[0] + X[3], X[2], X[3]))
    )


def test_a_graph_may_be_replicated_after_it_was_made() -> None:
    top = Graph(IPUModel("ipu2", tiles_per_ipu=TILES, num_ipus=2).create_device())
    view = top.create_virtual_graph(TILES, 2 * TILES)
    graph = view.create_replicated_graph(2)
    x = graph.add_variable(FLOAT, 2, "x")
    graph.set_tile_mapping(x, 2)
    assert view.get_top_level_graph() is graph.get_top_level_graph() is top
    assert view.get_tile_mapping(view.get_non_replicated_tensor(x)[1]) == [[], [], [(0, 2)]]
    assert said(GraphReplicationError, lambda: top.create_replicated_graph(2)) == (
        "create_replicated_graph() was called on a graph that has been replicated already.\n"
        "  next:  call it once, before the first add_variable; or write Graph(target, "
        "replication_factor=2)."
    )


# Host


def test_the_host_writes_to_each_replica_or_the_same_to_all() -> None:
    m = Machine()
    engine = m.run(m.scale())
    engine.write_tensor("write x", np.arange(6))
    engine.run()
    assert np.array_equal(engine.read_tensor("read y"), np.tile(2.0 * np.arange(6), (R, 1)))
    assert said(TensorIOStateError, lambda: engine.write_tensor("write x", np.ones((3, 6)))) == (
        "write_tensor('write x') was given 18 values for 24 elements.\n"
        "  where: Tensor('x', FLOAT, shape (4, 6))\n"
        "  next:  give an array of shape (4, 6), or (6,) for all replicas."
    )


def streams(m: Machine, mode: ReplicatedStreamMode = ReplicatedStreamMode.REPLICATE) -> Engine:
    into = m.graph.add_host_to_device_fifo("in", FLOAT, 6, mode)
    out = m.graph.add_device_to_host_fifo("out", FLOAT, 6)
    engine = Engine(m.graph, Sequence(Copy(into, m.x), m.scale(), Copy(m.y, out)))
    engine.load(m.device)
    return engine


def test_a_transfer_of_arrays_is_that_of_all_replicas() -> None:
    engine = streams(Machine())
    got: list[Array] = []
    engine.connect_stream("in", np.stack((X, X + 1)))
    engine.connect_stream("out", got)
    engine.run()
    engine.run()
    assert np.array_equal(got, (2 * X, 2 * X + 2))
    assert said(StreamConnectionError, lambda: engine.connect_stream("in", X[:3])) == (
        "The stream 'in' moves 24 elements (6 for each of 4 replicas) in each transfer, but was "
        "connected to an array of 18.\n"
        "  next:  connect 24 elements, or a multiple: each transfer uses the next 24."
    )
    engine.connect_stream("in", iter([X[0]]))
    assert said(StreamConnectionError, engine.run) == (
        "The stream 'in' needs 24 elements (6 for each of 4 replicas) for each transfer, but was given 6.\n"
        "  where: transfer 1 of the iterator\n"
        "  next:  give arrays of 24 elements, or change the size of the stream."
    )


def test_what_is_broadcast_comes_once() -> None:
    engine = streams(Machine(), ReplicatedStreamMode.BROADCAST)
    got = np.zeros((R, 6), np.float32)
    calls = iter(range(1, 9))
    engine.connect_stream("in", lambda: X[next(calls)])
    engine.connect_stream("out", got)
    engine.run()
    assert np.array_equal(got, np.tile(2 * X[1], (R, 1))) and next(calls) == 2
    (row,) = (row for row in engine.report.host.streams() if row.name == "in")
    assert row.bytes == 24 * R  # to each over a link of its own


def test_callbacks_are_told_the_replica() -> None:
    engine = streams(Machine())
    got: dict[int, Array] = {}

    def give(replica: int) -> Array:
        return X[replica]

    def fill(array: Array, replica: int) -> None:
        array[:] = X[replica] + 1

    def take(values: Array, replica: int) -> None:
        got[replica] = values

    class Ahead(StreamCallback):
        left = 6

        def prefetch(self, array: Array, replica: int) -> StreamCallback.Result:  # type: ignore[override]
            self.left -= 1
            array[:] = 100 + replica
            return self.Result.SUCCESS if self.left >= 0 else self.Result.NOT_AVAILABLE

        def fetch(self, array: Array, replica: int) -> None:  # type: ignore[override]
            array[:] = 10 * replica

        def invalidate_prefetched(self) -> None:
            self.left = -1

    engine.connect_stream("out", take)
    ahead = Ahead()
    for source, expected in (
        (give, 2 * X),
        (fill, 2 * X + 2),
        (ahead, 20 * np.arange(R)[:, None]),
        (ahead, 2 * (100 + np.arange(R)[:, None])),
    ):
        if source is not ahead or ahead.left == 6:
            engine.connect_stream_to_callback("in", source)
        engine.run()
        assert sorted(got) == [0, 1, 2, 3]
        assert np.array_equal(np.stack([got[r] for r in range(R)]), expected + np.zeros((R, 6)))
    engine.load()
    assert ahead.left == -1


def test_each_replica_has_rows_of_its_own_in_a_remote_buffer() -> None:
    m = Machine()
    rows = m.tensor("rows", 2, dtype=UNSIGNED_INT)
    buffer = m.graph.add_remote_buffer("buffer", FLOAT, 3, 5)
    one = m.graph.add_remote_buffer("one", FLOAT, 6)
    m.graph.create_host_write("rows", rows)
    program = Sequence(Copy(buffer, m.y, rows), Copy(m.x, one))
    engine = Engine(m.graph, program)
    engine.load(m.device)
    chosen = np.array([[0, 1], [2, 4], [3, 3], [4, 0]])
    for r in range(R):
        for row in range(5):
            engine.copy_to_remote_buffer(np.full(3, 10 * r + row), "buffer", row, replica=r)
    engine.write_tensor("rows", chosen)
    engine.write_tensor("write x", X)
    engine.run()
    expected = (10 * np.arange(R)[:, None] + chosen).repeat(3, axis=1)
    assert np.array_equal(engine.read_tensor("read y"), expected)
    assert np.array_equal(engine.copy_from_remote_buffer("one", replica=2), X[2])
    assert said(
        TensorIOStateError, lambda: engine.copy_from_remote_buffer("one", 0, replica=4)
    ) == (
        "copy_from_remote_buffer() was given the replica 4 of 'one', which has 4 "
        "replicas.\n  next:  give a whole number from 0 to 3."
    )
    engine.load()
    assert said(UninitialisedReadError, lambda: engine.copy_from_remote_buffer("buffer", 3, 2)) == (
        "The host reads row 3 of replica 2 of the remote buffer 'buffer', which nothing has "
        "written.\n  where: RemoteBuffer('buffer', FLOAT, 5 rows of 3 elements)\n"
        "  next:  write it first: Copy(tensor, buffer, offset), or engine.copy_to_remote_buffer."
    )


# What decides


def counting(m: Machine) -> tuple[Tensor, Tensor, Execute]:
    n, on = m.tensor("n", dtype=INT), m.tensor("on", dtype=BOOL)
    cs = m.graph.add_compute_set("less")
    m.graph.set_tile_mapping(m.graph.add_vertex(cs, Less, n=n, on=on), 1)
    m.graph.create_host_write("n", n)
    m.graph.create_host_read("left", n)
    return n, on, Execute(cs)


def test_progress_counts_the_compute_sets_of_all_replicas() -> None:
    m = Machine()
    steps: list[tuple[int, int]] = []
    compile_graph(m.graph, m.scale(), progress=lambda step, total: steps.append((step, total)))
    assert steps[0] == (0, steps[-1][1]) and steps[-1][0] == steps[-1][1]
    assert [step for step, _ in steps] == list(range(len(steps)))


def test_replicas_that_agree_go_on_together() -> None:
    m = Machine()
    n, on, less = counting(m)
    other = Sequence(Copy(m.x, m.y))
    program = [
        RepeatWhileTrue(less, on, Sequence()),
        If(n, other),
        Switch(n, {3: other}),
        AssumeEqualAcrossReplicas(n),
    ]
    engine = Engine(m.graph, program)
    engine.load(m.device)
    engine.write_tensor("write x", X)
    engine.write_tensor("n", 5)
    engine.run(0)
    assert engine.read_tensor("left").tolist() == [0] * R and engine.report.num_steps == 5
    engine.write_tensor("n", [1, 2, 3, 4])  # of an If all these say the same
    engine.run(1)
    assert np.array_equal(engine.read_tensor("read y"), X)
    engine.write_tensor("n", [5, 5, 5, 7])
    for index, who in enumerate(
        (
            "RepeatWhileTrue reads 'on'",
            "",
            "Switch reads 'n'",
            "AssumeEqualAcrossReplicas reads 'n'",
        )
    ):
        if not who:
            continue
        values = ("5", "7", 3)
        if index == 0:
            engine.write_tensor("n", [2, 2, 1, 2])
            values = ("True", "False", 2)
        text = said(ApplicationRuntimeError, lambda i=index: engine.run(i))  # type: ignore[misc]
        assert text == (
            f"{who}, which differs between replicas: it "
            f"is {values[0]} in replica 0 and {values[1]} in replica {values[2]}.\n"
            "  next:  give all replicas the same value, as gcl.all_reduce_cross_replica does."
        )
        engine.write_tensor("n", [5, 5, 5, 7])


def test_one_replica_that_aborts_stops_all() -> None:
    m = Machine()
    n, _, _ = counting(m)
    engine = Engine(m.graph, AbortOnCondition(n, "too large"))
    engine.load(m.device)
    engine.write_tensor("n", [0, 0, 1, 1])
    assert said(ApplicationRuntimeError, engine.run) == (
        "The program stopped itself: too large.\n  where: 'n' is not zero in replica 2"
    )


# What cannot be


def test_replicas_share_the_ipus_equally() -> None:
    device = IPUModel("ipu2", tiles_per_ipu=1, num_ipus=6).create_device()
    assert said(GraphReplicationError, lambda: Graph(device, replication_factor=4)) == (
        "Graph() was given the replication factor 4, but 6 IPUs cannot be divided equally among "
        "4 replicas.\n"
        "  next:  give a number that divides 6 (1, 2, 3, 6), or take a machine of more IPUs: "
        "IPUModel(num_ipus=4)."
    )
    for wrong in (0, 2.0, True, -1, "2"):
        text = said(GraphReplicationError, lambda w=wrong: Graph(device, w))  # type: ignore[misc]
        assert text == (
            f"Graph() was given the replication factor {wrong!r}, which is not valid.\n"
            "  next:  give a whole number of 1 or more that divides the IPUs of the machine, which "
            "has 6."
        )


@pytest.mark.parametrize(
    "wrong",
    [
        {0: 1, 1: 0},
        {0: 1, 1: 1, 2: 2, 3: 3},
        {0: 1, 1: 0, 2: 2, 4: 4},
        {i: float(i) for i in range(4)},
        3,
    ],
)
def test_a_map_of_replicas_is_a_permutation(wrong: Any) -> None:
    m = Machine()
    assert said(ControlProgramError, lambda: CrossReplicaCopy(m.x, m.y, wrong)) == (
        f"CrossReplicaCopy was given the map {wrong!r}, which is not a permutation of 4 replicas.\n"
        "  where: Tensor('x', FLOAT, shape (6,)) to "
        "Tensor('y', FLOAT, shape (6,))\n"
        "  next:  give each of the replicas 0 to 3 once as a source and once as a destination: "
        "{r: (r + 1) % 4 for r in range(4)}."
    )


def test_what_is_replicated_and_what_is_not_do_not_mix() -> None:
    m = Machine()
    top = m.graph.get_top_level_graph()
    whole = m.graph.get_non_replicated_tensor(m.x)
    stream = m.graph.add_host_to_device_fifo("in", FLOAT, 6)
    assert said(ControlProgramError, lambda: Copy(stream, whole[0])) == (
        "Copy was given a tensor of 1 replica, but 'in' has 4 replicas.\n"
        "  where: DataStream('in', host to device, 6 FLOAT) to Tensor('x', FLOAT, shape (6,))\n"
        "  next:  create both with the same graph: the replicated graph or its top-level graph."
    )
    assert "tensors of two graphs" in said(ControlProgramError, lambda: Copy(m.x, whole[0]))
    assert "replicas, but 'b' has 1 replica." in said(
        ControlProgramError, lambda: Copy(top.add_remote_buffer("b", FLOAT, 6), m.x)
    )
    with pytest.raises(GraphObjectCreationError, match="use a tensor of the replicated graph"):
        whole.get_var_regions()
    with pytest.raises(ControlProgramError, match="give a tensor of a replicated graph"):
        AssumeEqualAcrossReplicas(whole)
    with pytest.raises(ControlProgramError, match="give two tensors of a replicated graph"):
        CrossReplicaCopy(m.x, stream, {})  # type: ignore[arg-type]


def test_a_race_is_named_with_its_replica() -> None:
    m = Machine()
    cs = m.graph.add_compute_set("race")
    for _ in range(2):
        m.graph.set_tile_mapping(m.graph.add_vertex(cs, Scaled, x=m.x, out=m.y), 2)
    text = said(ComputeSetRaceError, lambda: Engine(m.graph, Execute(cs)))
    assert text.startswith(
        "In compute set 'race' element [0] of 'y, replica 0 of 4' is written twice.\n"
        "  where: vertex 0 of replica 0 of 4 (Scaled.out, tile 2) and vertex 1 of replica 0 of 4 "
        "(Scaled.out, tile 2)\n  line:  test_replicas.py, line "
    )
    other = Machine()
    other.graph.add_variable(FLOAT, 2, "lost")
    assert said(InvalidTileMappingError, lambda: Engine(other.graph, Sequence())).startswith(
        "The variable 'lost, replica 0 of 4' is not mapped to any tile."
    )


# What is kept


def test_an_executable_keeps_its_replicas(tmp_path: Path) -> None:
    m = Machine()
    n, on, less = counting(m)
    into = m.graph.add_host_to_device_fifo("in", FLOAT, 6)
    same = m.graph.add_host_to_device_fifo("same", FLOAT, 6, ReplicatedStreamMode.BROADCAST)
    rows = m.graph.add_remote_buffer("rows", FLOAT, 6, 2)
    answer = m.tensor("answer", dtype=BOOL)
    cs = m.graph.add_compute_set("small")
    m.graph.set_tile_mapping(m.graph.add_vertex(cs, Small, x=m.x), 0)
    m.graph.create_host_read("answer", answer)
    program = Sequence(
        Copy(into, m.x),
        Copy(m.x, rows),
        Execute(cs, answer),
        CrossReplicaCopy(m.x, m.y, {0: 1, 1: 0, 2: 3, 3: 2}),
        m.scale(x=m.y, out=m.x),
        Copy(same, m.y),
        RepeatWhileTrue(less, on, Sequence()),
        AssumeEqualAcrossReplicas(n),
    )
    cycle_stamp(m.graph, program, 0)
    engine = Engine(m.graph, program)
    engine.executable.save(tmp_path / "replicas.ipu")
    found = Engine(Executable.load(tmp_path / "replicas.ipu", codelets=[Scaled, Small, Less]))
    for each in (engine, found):
        each.load(m.device)
        each.connect_stream("in", X)
        each.connect_stream("same", lambda: X[3])
        each.write_tensor("n", 2)
        each.run()
        assert np.array_equal(each.copy_from_remote_buffer("rows", 0, 3), X[3])
        assert each.read_tensor("answer").tolist() == [True, False, False, False]
        assert np.array_equal(each.read_tensor("read y"), np.tile(X[3], (R, 1)))
        with pytest.raises(TensorIOStateError, match=r"\(4, 6\), or \(6,\) for all replicas"):
            each.write_tensor("write x", [1])
    assert found.report.total_cycles == engine.report.total_cycles
    assert found.executable.serialize() == engine.executable.serialize()
    assert type(found.executable.compiled.steps[0]) is type(engine.executable.compiled.steps[0])


def test_a_recording_has_all_replicas() -> None:
    m = Machine()
    engine = Engine(m.graph, Sequence(m.scale()))
    engine.load(m.device)
    recording = engine.record(m.y)
    engine.write_tensor("write x", X)
    engine.run()
    (track,) = recording.tracks
    ((_, elements, values, _),) = track.changes
    assert track.tensor.shape == (R, 6)
    assert np.array_equal(values, 2 * X.reshape(-1)[elements])


def test_reports_say_which_replica_and_views_fold_those_that_are_equal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = replicas.main(4, 4).report
    report.save(tmp_path / "run.ipureport")
    for each in (report, Report.open(tmp_path / "run.ipureport")):
        assert each.replicas == 4 and each.ipu_name(2) == "IPU 2, replica 2 of 4"
        print_profile_summary(each, show_var_storage=True)
        said = capsys.readouterr().out
        assert "\n  IPU 3, replica 3 of 4 is at work:" in said
        assert "\n  w, 4 replicas                           8,320 B on 40 tiles, 0 to 50\n" in said
        row = next(v for v in each.variables.folded() if v.name == "x, 4 replicas")
        assert (row.bytes, row.tiles) == (3328, 40)
    assert "on 52 tiles of 4 IPUs (4 replicas), " in show.bsp(report).scene.sentence
    works = sorted(
        100 * (row.own_cycles + row.shared_cycles) / report.total_cycles for row in report.ipus
    )
    assert (
        f"In the whole run, at work are the 4 replicas {works[0]:.1f}"
        in show.bsp(report).scene.sentence
    )
    assert f"{works[-1]:.1f} %" in show.bsp(report).scene.sentence
    marks = show.liveness(report).scene.marks
    labels = {name for mark in marks for name in getattr(mark, "labels", ())}
    assert {"t (4)", "inbox (3)"} <= labels
    marks = show.timeline(report).scene.marks
    rows = [tuple(v) for m in marks for v in vars(m).values() if isinstance(v, (tuple, list))]
    assert tuple(f"IPU {r}" for r in range(4)) in rows
    assert folded(["a, replica 0 of 2", "b", "b", "a, replica 1 of 2"], [8, 3, 3, 12]) == [
        ("a, 2 replicas of 8 to 12 bytes", [0, 3]),
        ("b", [1]),
        ("b", [2]),
    ]


def test_copies_within_the_replicas_are_one_step_and_hold_up_none() -> None:
    m = Machine()
    z = m.tensor("z", 6)
    m.graph.set_tile_mapping(z, 0)
    report = m.run(Sequence(Copy(m.x, m.y), Copy(m.x, z))).report
    assert report.num_steps == 1 and report.global_exchange_cycles == 0
    across = CrossReplicaCopy(m.x, m.y, {0: 1, 1: 0, 2: 3, 3: 2})
    assert Machine.run(m, Sequence(across, Copy(m.x, z))).report.num_steps == 2


def test_ctrl_c_leaves_every_replica_readable() -> None:
    m = Machine()
    n, on, less = counting(m)
    engine = Engine(m.graph, RepeatWhileTrue(less, on, Sequence()))
    engine.load(m.device)
    engine.write_tensor("n", 10**9)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    try:
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            engine.run()
    finally:
        timer.cancel()
        signal.signal(signal.SIGINT, before)
    steps = engine.report.num_steps
    assert steps > 0 and engine.read_tensor("left").tolist() == [10**9 - steps] * R
    engine.write_tensor("n", 1)
    engine.run()
    assert engine.read_tensor("left").tolist() == [0] * R
