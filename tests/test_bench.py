"""The benchmark: its rows, its choice, its table and its JSON. How fast anything is, no test
says.

The suite has a sample of what takes long: the graphs of full size, the processes that rows start,
and loops that numba compiles. `python3 run.py test --thorough` has all of it.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engine_parts import machine_of, peek

import bench
from bench import all_rows, chosen_rows, gpu, graphs, heat, kernels, peers, scalar, symbolic, table
from bench.measure import Result, Row, measure, run_rows
from ipu_teach import FLOAT
from ipu_teach.compile import compile_programs
from ipu_teach.cost import CostModel
from ipu_teach.engine import Engine, backend
from ipu_teach.engine.scalar.compiled import numba_is_here
from ipu_teach.errors import GraphMemoryAllocationError, InvalidOptionError
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array


def test_every_row_says_what_it_is_and_what_it_should_be() -> None:
    rows = [*all_rows(), *all_rows(in_browser=True), *all_rows(peers=True)]
    names = [row.id for row in rows]
    assert len(set(names)) == len(names)
    assert {
        "w1a",
        "w3x",
        "w6f",
        "c1",
        "c3m",
        "c4",
        "p1",
        "m1",
        "m2",
        "b1",
        "b2",
        "b6",
        "b9",
        "v1",
        "pod",
        "r8",
        "r8h",
        "g1",
    } <= set(names)
    for row in rows:
        assert row.what and row.floor and row.goal >= 0


def test_rows_are_chosen_by_name() -> None:
    assert [row.id for row in chosen_rows("w2, m1")] == ["w2", "m1"]
    with pytest.raises(InvalidOptionError) as caught:
        chosen_rows("w2,w8")
    assert "There is no row 'w8' in the benchmark." in str(caught.value) and "w1a" in str(
        caught.value
    )


def test_a_row_is_the_median_of_its_rounds() -> None:
    calls = []
    row = Row(
        "x",
        "work",
        "floor",
        1e9,
        lambda: (lambda: calls.append("work"), lambda: calls.append("floor")),
    )
    ticks = []
    result = measure(row, 5, lambda: ticks.append(1))
    assert (
        len(ticks) == 5
        and result.value is not None
        and result.least is not None
        and result.largest is not None
    )
    assert result.least <= result.value <= result.largest
    assert calls.count("work") > 5 and calls.count("floor") > 5


def test_what_was_not_run_has_no_result() -> None:
    gpu = next(row for row in all_rows() if row.id == "g1")
    (result,) = run_rows([gpu], 3, lambda name: None)
    assert result.as_dict()["result"] is None
    assert result.as_dict()["note"] == "needs a CUDA GPU: switched off by IPU_TEACH_GPU=0"


def test_a_missed_goal_is_marked_and_is_the_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        Row("a", "one", "two", 0.5, lambda: 0.25),
        Row("b", "three", "four", 0.5, lambda: 1.0),
        Row("c", "x", "y", 1, lambda: "not here"),
    ]
    monkeypatch.setattr("bench.all_rows", lambda *kinds: rows)
    assert bench.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "1*" in lines[2] and "*" not in lines[1] and lines[-1] == "goals missed: 1, marked *"
    assert bench.main(["--only", "a,c", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["id"], row["result"], row["spread"]) for row in found] == [
        ("a", 0.25, None),
        ("c", None, None),
    ]
    assert bench.main(["--rounds", "0"]) == 1
    assert "--rounds was given 0, but at least one round must" in capsys.readouterr().err
    assert table([Result(rows[0], 0.25)]).splitlines()[-1] == "every measured goal is reached"


def test_a_row_that_fails_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full() -> float:
        raise GraphMemoryAllocationError("Out of memory: x.", where="tile 3", next_step="y.")

    def broken() -> None:
        raise ValueError

    rows = [
        Row("a", "one", "two", 0.5, full),
        Row("b", "three", "four", 0.5, lambda: 0.25),
        Row("c", "five", "six", 0.5, lambda: (broken, broken)),
    ]
    monkeypatch.setattr("bench.all_rows", lambda *kinds: rows)
    assert bench.main([]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("one / two (failed: GraphMemoryAllocationError: Out of memory: x.)")
    assert "0.25" in lines[2] and lines[-1] == "rows that failed: 2"
    assert bench.main(["--json"]) == 1
    found = {
        row["id"]: (row["result"], row.get("note"))
        for row in json.loads(capsys.readouterr().out)["rows"]
    }
    assert found == {
        "a": (None, "failed: GraphMemoryAllocationError: Out of memory: x."),
        "b": (0.25, None),
        "c": (None, "failed: ValueError: no word"),
    }


@pytest.fixture
def nothing_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines compile, check memory, and stop there."""
    monkeypatch.setattr(Engine, "load", lambda self, device: None)


# Several workloads have one graph, and that of "w2" is the largest but for those of these rows.
LARGE = ("w1a", "w1b", "w3", "w3x", "w4ax", "w4b", "w5c")


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.id, marks=pytest.mark.thorough if row.id in LARGE else ())
        for row in kernels.ROWS
    ],
)
def test_the_graph_of_every_workload_fits_at_its_full_size(row: Row, nothing_loads: None) -> None:
    assert isinstance(row.prepare(), tuple)


@pytest.mark.thorough
def test_the_graphs_that_are_built_fit_at_their_full_size(nothing_loads: None) -> None:
    graphs.first_run()
    graphs.undefined()
    heat.plate(heat.STEPS)
    for rows in (graphs.SMALL, graphs.LARGE):
        graph, program = graphs.bulk(rows)
        CostModel(compile_programs(graph, [program])).check_memory()
    _, graph, program = graphs.pod_graph(graphs.MOST_IPUS)
    CostModel(compile_programs(graph, [program])).check_memory()


@pytest.mark.gpu
@pytest.mark.skipif(not backend.cuda_devices(), reason="no CUDA driver or device")
def test_the_graphs_for_a_gpu_fit_at_their_full_size(
    stand_in: ModuleType, nothing_loads: None
) -> None:
    """Where their rows are measured. Everywhere the same functions make the small ones below."""
    assert set(gpu.beside_cupy(stand_in, *gpu.SIZES)) == {"w3", "w4", "w5"}


def engine_of(work: Callable[[], object]) -> Engine:
    owner = getattr(work, "__self__", None)
    assert isinstance(owner, Engine)
    return owner


def test_heat_of_the_benchmark_is_numpys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heat, "SIZE", 290)
    monkeypatch.setattr(heat, "ACROSS", 3)
    engine, now = heat.plate(4), kernels.floats(290, 290)
    engine.run()
    heat.in_numpy(now, kernels.floats(290, 290), 4)
    assert np.array_equal(engine.read_tensor("plate"), now)


def test_a_training_step_of_the_benchmark_learns_what_numpy_learns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # After few more steps all pictures are learnt, and further steps change nothing.
    monkeypatch.setattr(kernels, "SMALL_STEPS", 2)
    engines = [kernels.small_step(exact=exact) for exact in (True, False)]
    plain = kernels.small_step(vertex_loop=True)[0]
    weights = []
    for engine in (engines[0][0], engines[1][0], plain):
        engine.run()
        weights.append(machine_of(engine).memory.flat(kernels.FLOAT).copy())
    assert np.array_equal(weights[0], weights[2], equal_nan=True)
    np.testing.assert_allclose(weights[1], weights[2], rtol=1e-4, atol=1e-5)
    assert engines[0][0].report.graph_size()["vertices"] == 905


def test_both_ways_of_building_are_one_graph() -> None:
    bulk, _ = graphs.bulk(200)
    single = graphs.one_by_one(200)
    assert (
        [cs.num_vertices for cs in bulk.compute_sets]
        == [cs.num_vertices for cs in single.compute_sets]
        == [1400, 200]
    )
    pieces = [graph.tile_map().pieces() for graph in (bulk, single)]
    assert pieces[0].start.tolist() == pieces[1].start.tolist()
    assert pieces[0].tile.tolist() == pieces[1].tile.tolist()


def values(work: Callable[[], object]) -> Array:
    """Return the memory of the work's engine after a run, as one array of floats."""
    work()
    memory = machine_of(engine_of(work)).memory
    return memory.backend.to_host(memory.flat(FLOAT))


def held(flat: Array, wanted: Array) -> bool:
    """Whether the numbers of `wanted` lie side by side somewhere in `flat`, within rounding."""
    flat, size = flat.reshape(-1), wanted.size
    starts = np.flatnonzero(
        np.isclose(flat[: len(flat) - size + 1], wanted.reshape(-1)[0], 1e-3, 1e-4)
    )
    return any(np.allclose(flat[at : at + size], wanted.reshape(-1), 1e-3, 1e-4) for at in starts)


def test_the_gpu_rows_compute_what_their_floors_compute(stand_in: ModuleType) -> None:
    for name, (ours, plain) in gpu.beside_cupy(stand_in, 1024, 800, (2, 3, 5)).items():
        assert engine_of(ours).backend == "cupy"
        expected = plain()
        assert isinstance(expected, stand_in.ndarray)
        assert held(values(ours), stand_in.asnumpy(expected)), name
    for name, (device, host) in gpu.beside_numpy(stand_in, 1024, 800, (2, 3, 5)).items():
        names = [engine_of(work).backend for work in (device, host)]
        assert names == ["cupy", "numpy"], name
        np.testing.assert_allclose(values(device), values(host), rtol=1e-4, atol=1e-5)


def test_a_gpu_row_has_the_worst_of_its_workloads_and_waits_for_the_device(
    stand_in: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu, "SIZES", (512, 800, (1, 2, 2)))
    rows = [row for row in all_rows() if row.id in ("g1", "g2")]
    assert [row.goal for row in rows] == [1.5, 0.1]
    results = list(run_rows(rows, 2, lambda name: None))
    assert [[word.split()[0] for word in result.note.split(", ")] for result in results] == [
        ["w3", "w4", "w5"],
        ["w4", "w5"],
    ]
    for result in results:
        medians = [float(word.split()[1]) for word in result.note.split(", ")]
        assert result.value == pytest.approx(max(medians), rel=0.06)
    stand_in.waits.clear()
    ours, plain = gpu.beside_cupy(stand_in, 512, 800, (1, 2, 2))["w3"]
    for work in (ours, plain):
        work()
        assert stand_in.waits[-1] == "synchronize"


def test_a_small_pod_runs() -> None:
    graphs.pod(2)


def test_a_row_of_several_workloads_is_the_worst_of_their_medians() -> None:
    rounds = iter([{"a": 1.0, "b": 3.0}, {"a": 9.0, "b": 4.0}, {"a": 2.0, "b": 5.0}])
    ticks = []
    result = measure(
        Row("x", "work", "peer", 1, lambda: lambda: next(rounds)), 3, lambda: ticks.append(1)
    )
    assert (result.value, result.least, result.largest, result.note) == (4.0, 3.0, 5.0, "a 2, b 4")
    assert len(ticks) == 3
    failed = measure(Row("x", "work", "peer", 1, lambda: lambda: "does not run"), 3, lambda: None)
    assert failed.value is None and failed.note == "does not run"


def test_with_a_goal_for_the_worst_a_row_is_the_median_of_its_workloads() -> None:
    rounds = iter(
        [
            {"a": 1.0, "b": 3.0, "c": 7.0},
            {"a": 9.0, "b": 4.0, "c": 8.0},
            {"a": 2.0, "b": 5.0, "c": 6.0},
        ]
    )
    result = measure(
        Row("x", "work", "hand", 5, lambda: lambda: next(rounds), worst_goal=6), 3, lambda: None
    )
    assert (result.value, result.worst, result.least, result.largest) == (
        4.0,
        7.0,
        3.0,
        8.0,
    ) and result.missed
    assert "worst 7, goal 6 (a 2, b 4, c 7)" in table([result])
    assert result.as_dict()["worst"] == 7.0 and result.as_dict()["worst_goal"] == 6


@pytest.fixture(scope="module")
def loops_by_hand(request: pytest.FixtureRequest) -> dict[type[Vertex], Callable[..., None]]:
    """The loops by hand, which numba compiles if the tests are thorough, and else CPython runs."""
    compiled: dict[type[Vertex], Any] = scalar.by_hand()
    if request.config.option.thorough:
        return compiled
    return {codelet: loop.py_func for codelet, loop in compiled.items()}


@pytest.mark.skipif(not numba_is_here(), reason="numba is not installed")
@pytest.mark.parametrize("codelet", scalar.CASES, ids=lambda codelet: codelet.__name__)
def test_a_loop_by_hand_gives_what_the_codelet_gives(
    codelet: type[Vertex], loops_by_hand: dict[type[Vertex], Callable[..., None]]
) -> None:
    placed = scalar.Placed(codelet, 40, 13)
    for name in placed.tensors:
        placed.graph.create_host_read(f"{name} out", placed.tensors[name])
    engine = placed.engine()
    engine.run()
    arrays = placed.arrays()
    marks = {
        n: np.zeros(arrays[n].shape, bool) for n, f in codelet.fields.items() if f.kind == "output"
    }
    loops_by_hand[codelet](40, *arrays.values(), *marks.values())
    for name, field in codelet.fields.items():
        if field.written:
            stored = marks.get(name, np.ones(arrays[name].shape, bool))
            np.testing.assert_array_equal(
                peek(engine, f"{name} out")[stored], arrays[name][stored], err_msg=name
            )


def test_the_rows_of_python_have_a_ratio_for_each_codelet(monkeypatch: pytest.MonkeyPatch) -> None:
    few, rest = list(scalar.CASES)[:2], list(scalar.CASES)[2:]
    for codelet in rest:
        monkeypatch.delitem(scalar.CASES, codelet)
    monkeypatch.setattr(scalar, "CALLS", 1)
    found = scalar.without_numba()
    assert list(found) == ["s2", "s2b"]
    for by_codelet in found.values():
        assert list(by_codelet) == [codelet.__name__ for codelet in few]
        assert all(ratio > 0 for ratio in by_codelet.values())


@pytest.mark.thorough
def test_the_rows_of_python_are_measured_where_numba_is_not() -> None:
    """The subject is the process without numba that the rows start, on its own."""
    found = scalar._in_a_process(0)
    assert set(found) == {"s2", "s2b"} and all(
        len(by_codelet) == 20 for by_codelet in found.values()
    )
    assert all(ratio > 0 for by_codelet in found.values() for ratio in by_codelet.values())


def test_a_peer_that_is_not_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    results = list(run_rows(chosen_rows("t1,t2,t2w6", peers=True), 3, lambda name: None))
    assert [result.value for result in results] == [None, None, None]
    extra = "python -m pip install -e '.[bench]'"
    assert [result.note for result in results] == [
        f"Triton is not installed, which there is for Linux only: {extra}",
        *[f"Numba is not installed: {extra}"] * 2,
    ]
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: None if name == "torch" else object()
    )
    (result,) = run_rows(chosen_rows("t1", peers=True), 3, lambda name: None)
    assert result.value is None
    assert result.note == (
        "PyTorch is not installed, from which Triton takes its arrays: python -m pip install "
        "-e '.[torch]'"
    )


def test_a_peer_that_fails_says_its_last_word() -> None:
    """The subject is the process that a row starts: no row names a program that does not exist."""
    found = peers._program("no_such_program", "NO_SUCH_SWITCH")
    assert isinstance(found, str)
    assert found.startswith("NO_SUCH_SWITCH=1 does not run: ") and "no_such_program" in found


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "switch", "modules"),
    [
        ("interpreted", "TRITON_INTERPRET", ["triton", "torch"]),
        ("simulated", "NUMBA_ENABLE_CUDASIM", ["numba"]),
    ],
)
def test_a_peer_that_is_here_checks_its_results(name: str, switch: str, modules: list[str]) -> None:
    for module in modules:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    parts = peers._program(name, switch)
    assert not isinstance(parts, str), parts
    assert set(parts) <= set(peers.OURS)
    for seconds, share in parts.values():
        assert seconds > 0 and 0 < share < 1


def test_a_symbolic_run_knows_who_read_and_wrote_what() -> None:
    out, *read = symbolic.dots(2, 3)
    assert {table.name: table.readers for table in read} == {
        "a0": {0: [0], 1: [0], 2: [0]},
        "b0": {0: [0], 1: [0], 2: [0]},
        "a1": {0: [1], 1: [1], 2: [1]},
        "b1": {0: [1], 1: [1], 2: [1]},
    }
    ((writer, value),) = out.writers[1]
    assert writer == 1 and value.sources == (
        ("a1", 0),
        ("b1", 0),
        ("a1", 1),
        ("b1", 1),
        ("a1", 2),
        ("b1", 2),
    )
    x, y, out = symbolic.axpy_relu(2)
    assert x.readers == y.readers == {0: [0], 1: [1]}
    assert out.writers[1] == [(1, symbolic.Symbol((("x", 1), ("y", 1))))]
