"""The rows of the frontends' graph: each lowered beside an interpreter in float64, each gradient beside finite differences."""

from __future__ import annotations

import io
import json
import runpy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ir_numpy
import numpy as np
import pytest
from damage import parts, whole
from fuzz import operations
from ir_cases import (
    GROUPS,
    CallRecorder,
    batch_normed,
    device,
    graph_of,
    random_graph,
    recurrent,
    training_step,
)
from ir_torch import torch_gradients

from ipu_teach import BOOL, FLOAT, HALF, UNSIGNED_INT, IPUModel
from ipu_teach.errors import ModelError, ModelLoadError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value
from ipu_teach.frontends.ir.saved import graph_from_bytes, graph_to_bytes
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("group", GROUPS)
def test_values_and_gradients_are_those_of_float64_and_of_finite_differences(group: str) -> None:
    graph, loss = graph_of(GROUPS[group])
    assert {v for op in graph.ops for v in op.inputs} >= {*graph.variables.values()}
    assert operations.differs(graph, loss, lowering=CallRecorder) == ""


def test_operations_that_are_drawn() -> None:
    """`run.py fuzz --operations` draws more."""
    for seed in range(100, 120):
        assert operations.one_row(seed)[1] == ""


def test_what_is_drawn_finds_a_row_that_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {
        "values": replace(ir.OPS["tanh"], lower=ir.OPS["sigmoid"].lower),
        "slopes": replace(ir.OPS["tanh"], grad=ir.OPS["exp"].grad),
    }
    seed = [*operations.CASES].index("tanh")
    for wrong, row in rows.items():
        monkeypatch.setitem(ir.OPS, "tanh", row)
        said = operations.one_row(seed)[1]
        assert said.startswith("tanh on ") and ("slope of x0 at tanh" in said) == (
            wrong == "slopes"
        )


@pytest.mark.parametrize("group", GROUPS)
def test_gradients_are_those_of_torch(group: str) -> None:
    graph, loss = graph_of(GROUPS[group])
    step, grads = ir.autodiff(graph, loss)
    env, theirs = ir_numpy.interpret(step, {}), torch_gradients(graph, loss)
    for value, slope in grads.items():
        name = next(op.name for op in graph.ops if value in op.inputs)
        mine = env[slope]
        np.testing.assert_allclose(
            mine, theirs.get(value, np.zeros(value.shape)), 1e-7, 1e-8, err_msg=name
        )


def fed(n: int, seed: int = 1) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((n, 4, 6)).astype(np.float32), "y": rng.integers(0, 5, (n, 4))}


@pytest.mark.parametrize(
    ("optimiser", "how"),
    [
        ("sgd", {"weight_decay": 0.1}),
        ("momentum", {"momentum": 0.9}),
        ("adam", {"beta1": 0.8}),
        ("adamw", {"weight_decay": 0.05}),
        ("lars", {"weight_decay": 0.1}),
    ],
)
def test_steps_are_those_of_float64(optimiser: str, how: dict[str, float]) -> None:
    step, loss = training_step(optimiser, **how)
    run = ir.Run(ir.Lowering(step, device(3), iterations=2), device(3))
    variables: dict[str, Any] = {}
    for seed in (1, 2):
        got = run(**fed(2, seed))["loss"]
        for i in range(2):
            one = {name: array[i] for name, array in fed(2, seed).items()}
            env = ir_numpy.interpret(step, one, variables)
            np.testing.assert_allclose(got[i], env[loss], 1e-5)
        run.write("rate", 0.03)
        variables["rate"][...] = 0.03
    for name, value in variables.items():
        np.testing.assert_allclose(run.read(name), value, 1e-4, 1e-5, err_msg=name)


def test_drawn_numbers_follow_the_seed_and_can_be_fed_back() -> None:
    step = random_graph()
    runs = [ir.Run(ir.Lowering(step, device(3), iterations=2), device(3)) for _ in range(2)]
    for run in runs:
        run.engine.set_print_tensor_stream(io.StringIO())
    first, again = (run() for run in runs)
    for name, array in first.items():
        np.testing.assert_array_equal(array, again[name])
    assert not np.array_equal(first["mask"][0], first["mask"][1])
    np.testing.assert_array_equal(first["y"], first["mask"] * step.variables["x"].initial)
    np.testing.assert_array_equal(first["slope"], first["mask"])
    assert abs((first["mask"] == 0).mean() - 0.25) < 0.05 and {*np.unique(first["mask"])} == {
        0,
        np.float32(1 / 0.75),
    }
    assert abs(first["uniform"].mean() - 0.5) < 0.05 and abs(first["normal"].std() - 1) < 0.1
    later, seed = runs[0](), runs[0].state()["seed"]
    assert seed[0] == 42 + 4
    runs[1].restore(runs[0].state() | {"seed": [44, 0]})
    np.testing.assert_array_equal(runs[1]()["mask"], later["mask"])


def test_the_page_has_the_table_of_operations() -> None:
    """`python docs/make_operations.py` writes it."""
    make = runpy.run_path(str(ROOT / "docs" / "make_operations.py"))
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert make["table"]() in page, "run docs/make_operations.py"


def test_every_row_is_tested() -> None:
    pairs = [graph_of(cases) for cases in GROUPS.values()]
    graphs = [ir.autodiff(graph, loss)[0] for graph, loss in pairs]
    graphs += [*(training_step(kind)[0] for kind in ir.STATE), random_graph()]
    tested = {op.kind for graph in graphs for op in graph.ops}
    elsewhere = "all_reduce reduce_scatter own_share all_gather load assign accumulate clear"
    untested = set(ir.OPS) - tested - set(elsewhere.split())
    assert not untested, "give each a case in GROUPS, or in test_ir_transforms.py and `elsewhere`"
    assert set(elsewhere.split()) <= set(ir.OPS)
    assert len(ir.OPS) >= 60


def test_print_and_what_has_no_gradient() -> None:
    graph = Ir()
    x = graph.variable(np.float32([5.0, -7.5]), "x")
    y = graph.op("rem", graph.op("print", x, title="here"), 3.0)
    graph.output("y", y)
    half = graph.op("cast", graph.op("cast", x, dtype=HALF), dtype=FLOAT)
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", half))
    assert grads[x].dtype is FLOAT and ir_numpy.interpret(step, {})[grads[x]].tolist() == [1, 1]
    held = graph.op("mul", graph.op("stop", x), x)
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", held))
    assert ir_numpy.interpret(step, {})[grads[x]].tolist() == [5.0, -7.5]
    run = ir.Run(ir.Lowering(graph, device(2)), device(2))
    run.engine.set_print_tensor_stream(text := io.StringIO())
    np.testing.assert_allclose(run()["y"], [[2.0, -1.5]])
    assert "here" in text.getvalue()
    with graph.at(path="model.odd"), pytest.raises(ModelError) as refused:
        ir.autodiff(graph, ir.mean(graph, y))
    assert "rem has no gradient" in str(refused.value)


def leaky(low: Any, x: Any, slope: float) -> Any:
    return popops.map(
        low.graph, expr.Select(expr._1, expr._1 * slope, expr._1 > 0.0), [x], low.prog, low.name
    )


def test_an_operation_of_ones_own() -> None:
    row = ir.Row(
        lambda x, slope: ir.Out(x.shape, x.dtype),
        leaky,
        lambda graph, op, g: [
            graph.op(
                "select",
                graph.op("gt", op.inputs[0], 0.0),
                g,
                graph.op("mul", g, op.attrs["slope"]),
            )
        ],
    )
    ir.register("leaky", row)
    try:
        with pytest.raises(
            ModelError, match="given the name 'leaky', but the table of operations already"
        ):
            ir.register("leaky", row)
        graph = Ir()
        x = graph.variable(np.float32([-2, -1, 3]), "x")
        loss = graph.output("y", ir.reduced(graph, "sum", graph.op("leaky", x, slope=0.25)))
        step, grads = ir.autodiff(graph, loss)
        step.output("slope", grads[x])
        again = graph_from_bytes(graph_to_bytes(step))
        run = ir.Run(ir.Lowering(again, device(2)), device(2))
        got = run()
        assert got["y"] == 2.25 and got["slope"].tolist() == [[0.25, 0.25, 1.0]]
        data = graph_to_bytes(step)
    finally:
        del ir.OPS["leaky"]
    with pytest.raises(ModelLoadError, match="operation 'leaky', which is not in the table"):
        graph_from_bytes(data)


def test_names_travel_to_the_program_the_report_and_errors() -> None:
    step, _ = training_step()
    run = ir.Run(ir.Lowering(step, device(3)), device(3))
    run(**fed(1))
    report = run.engine.report
    names = {row.name for row in report.variables}
    assert "net.first.weight" in names and any(n.startswith("net.first/matmul") for n in names)
    assert {p.name for p in run.low.program.programs[1].programs} >= {
        "inputs",
        "net.first",
        "loss",
        "outputs",
    }


def test_a_graph_is_read_as_lines() -> None:
    lines = str(training_step("momentum", momentum=0.5)[0]).splitlines()
    assert str(training_step("sgd", momentum=0.5)[0]).splitlines() == lines
    assert lines[:3] == [
        "permute0 = permute(net.first.weight, dims=(1, 0))  # forward, net.first",
        "matmul1 = matmul(x, permute0)  # forward, net.first",
        "relu2 = relu(matmul1)  # forward, net.first",
    ]
    assert any("mul(sum5, 0.25)" in line for line in lines)
    assert (
        lines[-1].startswith("net.first.weight = momentum(net.first.weight, ")
        and "momentum=0.5" in lines[-1]
    )


def test_running_statistics_have_no_gradient() -> None:
    graph, loss = graph_of({"batch": batch_normed(False)})
    learnt = {v.name for v in ir.autodiff(graph, loss)[1]}
    assert len(learnt) == 3 and not learnt & {"x0", "x1"}, "what goes in, gamma and beta"


def test_a_weight_lies_where_its_product_wants_it() -> None:
    """The product of x by the transposed weight has no copy of the weight before it."""
    cycles = []
    for turned in (True, False):
        graph, rng = Ir(), np.random.default_rng(0)
        w = graph.variable(
            rng.standard_normal((64, 48) if turned else (48, 64)).astype(np.float32), "w"
        )
        x = graph.input((16, 48), "x")
        graph.output("y", ir.linear(graph, x, w) if turned else graph.op("matmul", x, w))
        run = ir.Run(ir.Lowering(graph, device(13)), device(13))
        run(x=np.ones((16, 48), np.float32))
        cycles.append(run.engine.report.total_cycles)
    assert cycles[0] == cycles[1]


def test_a_graph_comes_back_from_its_file(tmp_path: Path) -> None:
    step, _ = training_step("adam")
    half = Ir()
    half.output(
        "y",
        half.op(
            "select",
            half.constant([True, False], BOOL),
            half.variable(np.float16([1.5, 2]), "h"),
            half.constant([0.5, -1], HALF),
        ),
    )
    steps, loss = graph_of({"gru": recurrent("gru", 3)})
    steps, _ = ir.autodiff(steps, loss)
    for graph in (ir.replicate(ir.accumulate(ir.off_chip(step), 2), 2), half, steps):
        ir.save(graph, tmp_path / "net.ipumodel")
        again = ir.load(tmp_path / "net.ipumodel")
        assert (
            graph_to_bytes(again)
            == graph_to_bytes(graph)
            == (tmp_path / "net.ipumodel").read_bytes()
        )
        assert [op.name for op in again.ops] == [op.name for op in graph.ops]
        for name, value in graph.variables.items():
            np.testing.assert_array_equal(again.variables[name].initial, value.initial)
    runs = [
        ir.Run(ir.Lowering(g, device(3)), device(3))
        for g in (step, graph_from_bytes(graph_to_bytes(step)))
    ]
    np.testing.assert_array_equal(*(run(**fed(1))["loss"] for run in runs))
    with pytest.raises(ModelLoadError, match="no file|No such file"):
        ir.load(tmp_path / "none")


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (
            lambda h: h.update(version=3),
            "format version 3, but this kit reads only up to version 2",
        ),
        (
            lambda h: h["ops"][0].__setitem__(0, "permutee"),
            "operation 'permutee', which is not in the table",
        ),
        (lambda h: h["ops"][1].__setitem__(1, [0]), "is not inputs that the operation takes"),
        (lambda h: h["ops"][0].__setitem__(2, [0]), "values that only this operation makes"),
        (lambda h: h["ops"].reverse(), "results of earlier operations"),
        (lambda h: h["values"][0].__setitem__(3, [7, 6]), "has an initial value of another shape"),
        (lambda h: h["values"][0].__setitem__(3, [2**23, 2**23]), "is too large"),
        (lambda h: h["outputs"].update(loss=10**6), "is not a whole number from"),
        (lambda h: h.update(schedule="fast"), "'fast' is not a schedule"),
    ],
)
def test_a_damaged_graph_is_refused_by_name(damage: Any, says: str, tmp_path: Path) -> None:
    header, arrays = parts(graph_to_bytes(training_step()[0]))
    damage(header)
    file = tmp_path / "net.ipumodel"
    file.write_bytes(whole(json.dumps(header), arrays))
    with pytest.raises(ModelLoadError) as refused:
        ir.load(file)
    assert (
        says in str(refused.value)
        and "net.ipumodel" in str(refused.value)
        and refused.value.next_step
    )


def errs(call: Callable[[Ir, Value], object]) -> Any:
    graph = Ir()
    x = graph.variable(np.ones((3, 4), np.float32), "x")
    with graph.at(path="encoder.layer1"), pytest.raises(ModelError) as refused:
        call(graph, x)
    assert refused.value.next_step
    return refused.value


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda g, x: g.op("matmull", x, x),
            "The table of operations contains no operation 'matmull'|did you mean 'matmul'|encoder.layer1|ir.register",
        ),
        (
            lambda g, x: g.op("matmul", x, x),
            "the shapes [3, 4] and [3, 4] cannot be multiplied|matmul of [3, 4] FLOAT and [3, 4] FLOAT, in encoder.layer1",
        ),
        (
            lambda g, x: g.op("add", x, g.op("cast", x, dtype=HALF)),
            "the dtypes FLOAT and HALF differ|graph.op('cast', x, dtype=FLOAT)",
        ),
        (
            lambda g, x: g.op("mul", g.op("arg_max", x), 0.5),
            "The constant 0.5 cannot be represented exactly in UNSIGNED_INT|convert the other",
        ),
        (
            lambda g, x: g.constant([1, -100], UNSIGNED_INT),
            "[1, -100] cannot be represented exactly in UNSIGNED_INT",
        ),
        (lambda g, x: g.op("add", x, g.constant([1.0, 2])), "[3, 4] and [2] do not broadcast"),
        (lambda g, x: g.op("relu", x, alpha=1), "relu has no attribute 'alpha'|leave out alpha"),
        (
            lambda g, x: ir.scan(
                g, lambda g, now, c: ([g.op("sum", c[0], dims=[0])], []), [x], [x]
            ),
            "FLOAT[4] is used where the body needs FLOAT[3, 4]|return carried values with the same|scan of [3, 4] FLOAT",
        ),
        (
            lambda g, x: ir.scan(
                g, lambda g, now, c: (c, [*g.emit("blend", x, x, momentum=0.5)]), [x], [x]
            ),
            "a step changes a variable|after the scan",
        ),
        (lambda g, x: g.op("reshape", x, shape=(5, 2)), "[3, 4] cannot be reshaped to [5, 2]"),
        (lambda g, x: g.op("permute", x, dims=(0, 0)), "is not a permutation of 2 dimensions"),
        (
            lambda g, x: g.op("slice", x, dim=0, begin=1, end=9),
            "the slice 1:9:1 is outside of dimension 0, whose length is 3",
        ),
        (
            lambda g, x: g.op("sum", x, dims=(4,)),
            "[4] contains a dimension that a tensor of 2 dimensions does not have",
        ),
        (
            lambda g, x: g.emit("top_k", x, k=5),
            "k is 5, but the last dimension has 4 elements|use a k from 1 to 4",
        ),
        (lambda g, x: g.op("gather", x, x), "the index is FLOAT"),
        (lambda g, x: ir.conv(g, x, x), "pass x [batch, channels, *field]"),
        (
            lambda g, x: ir.pool(g, "max_pool", g.op("reshape", x, shape=(1, 1, 3, 4)), 5),
            "max_pool is not possible",
        ),
        (
            lambda g, x: ir.norm(g, "group", x, groups=3),
            "4 channels cannot be divided into 3 equal groups",
        ),
        (lambda g, x: ir.norm(g, "local", x), "norm() was given 'local' as kind"),
        (
            lambda g, x: g.emit("sgd", g.op("relu", x), x, 0.1),
            "'relu0' is not a variable",
        ),
        (
            lambda g, x: g.variable(np.zeros(2), "w"),
            "'w' has the dtype float64, which the device does not support|astype(numpy.float32)",
        ),
        (
            lambda g, x: g.variable(np.zeros(2, np.float32), "x"),
            "the name 'x', which the graph already uses",
        ),
        (lambda g, x: ir.autodiff(g, x), "a loss must be a single float"),
        (lambda g, x: ir.optimise(g, {}, "sdg"), "did you mean 'sgd'"),
        (
            lambda g, x: g.op("dropout_mask", x, shape=(2,), keep=0.5, modifier=1),
            "the seed is not UNSIGNED_INT[2]",
        ),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(call: Any, text: str) -> None:
    error = errs(call)
    said = f"{error.tried}\n{error.where}\n{error.next_step}"  # not the line: it has the same words
    for part in text.split("|"):
        assert part in said
    assert not error.where or "test_ir.py, line" in error.line


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": np.zeros((3, 4, 6), np.float32)}, "steps 2 * accumulation 1 * replicas 1 * batch 4"),
        ({"y": np.full((2, 4), 5)}, "'y' was given the number 5, which is not from 0 to 4"),
        ({"y": np.full((2, 4), -1)}, "'y' was given the number -1"),
        ({"y": np.zeros((2, 4), np.float32)}, "its elements must be integers"),
        ({"z": 1}, "A run was given x, y, z"),
    ],
)
def test_what_a_run_cannot_take(change: dict[str, Any], text: str) -> None:
    run = ir.Run(ir.Lowering(training_step()[0], device(2), iterations=2), device(2))
    with pytest.raises(ModelError) as refused:
        run(**fed(2) | change)
    assert text in str(refused.value)
    with pytest.raises(ModelError, match="did you mean 'net.first.weight'"):
        run.read("net.first.wieght")
    with pytest.raises(ModelError, match="The graph has no variable 'x'"):
        run.read("x")
    with pytest.raises(ModelError, match="was given"):
        run.write("net.first.weight", np.zeros(3))


def test_numbers_that_a_step_looks_up_are_checked() -> None:
    graph = Ir()
    table = graph.variable(np.eye(3, dtype=np.float32), "table")
    start = graph.constant(0.0, FLOAT, (3,))

    def step(g: Ir, now: list[Value], before: list[Value]) -> Any:
        return [g.op("add", before[0], ir.embedding(g, table, now[0]))], [table]

    (count,), (same,) = ir.scan(graph, step, [graph.input((4,), "i", UNSIGNED_INT)], [start])
    graph.output("count", count)
    scanned, slopes = ir.autodiff(graph, ir.mean(graph, graph.op("matmul", same, same)))
    scanned.output("slope", slopes[table])
    run = ir.Run(ir.Lowering(scanned, device(2)), device(2))
    found = run(i=[[2, 0, 2, 2]])
    assert found["count"].tolist() == [[1, 0, 3]]
    np.testing.assert_allclose(found["slope"], np.full((1, 3, 3), 2 / 9), 1e-6)
    with pytest.raises(ModelError, match="'i' was given the number 3, which is not from 0 to 2"):
        run(i=[[2, 0, 3, 2]])


def test_limits_of_a_part_in_a_scan_and_in_a_file_are_checked() -> None:
    """In a file they stay those of the part; outside of a scan they are those of the whole input."""
    graph = Ir()
    table = graph.variable(np.eye(3, dtype=np.float32), "table")
    x = graph.input((2, 2), "i", UNSIGNED_INT)
    rows = graph.op("slice", graph.op("permute", x, dims=(1, 0)), dim=0, begin=1, end=2)
    graph.output("y", ir.embedding(graph, table, graph.op("reshape", rows, shape=(2,))))
    again = graph_from_bytes(graph_to_bytes(graph))
    for g in (graph, again):
        run = ir.Run(ir.Lowering(g, device(2)), device(2))
        assert run(i=[[7, 0], [9, 2]])["y"].tolist() == [[[1, 0, 0], [0, 0, 1]]]
        with pytest.raises(ModelError, match="'i' was given the number 3, which is not from 0 to"):
            run(i=[[0, 3], [0, 2]])
    graph = Ir()
    table = graph.variable(np.eye(3, dtype=np.float32), "table")

    def step(g: Ir, now: list[Value], before: list[Value]) -> Any:
        return before, [ir.embedding(g, table, g.op("slice", now[0], dim=0, begin=0, end=1))]

    start = graph.constant(0.0, FLOAT, (1,))
    _, (found,) = ir.scan(graph, step, [graph.input((2, 2), "i", UNSIGNED_INT)], [start])
    graph.output("y", found)
    run = ir.Run(ir.Lowering(graph, device(2)), device(2))
    assert run(i=[[2, 0], [1, 0]])["y"].tolist() == [[[[0, 0, 1]], [[0, 1, 0]]]]
    with pytest.raises(ModelError, match="'i' was given the number 3, which is not from 0 to 2"):
        run(i=[[3, 0], [1, 0]])


def test_what_changes_with_each_micro_batch_is_read_where_it_lies() -> None:
    graph = Ir()
    v = graph.variable(np.zeros(3, np.float32), "v")
    graph.emit("blend", v, graph.input((3,), "x"), momentum=0.5)
    with graph.at(stage=1):
        graph.output("y", graph.op("relu", v))
    with pytest.raises(ModelError, match="its copy in stage 1 would be out of date"):
        ir.Lowering(graph, device(2, 2))


def test_the_stage_of_the_first_reader_follows_every_change_of_a_graph() -> None:
    graph = Ir()
    w = graph.variable(np.ones(4, np.float32), "w")
    x = graph.input((4,), "x")
    assert graph.home(w) == 0 and graph.home(w, 5) == 5
    with graph.at(stage=2):
        graph.op("relu", x)
    assert graph.home(x) == 2 and graph.home(w, 5) == 5
    with graph.at(stage=1):
        graph.op("add", x, w)
    assert (graph.home(w), graph.home(x)) == (1, 2)
    other = graph.but(ops=graph.ops[1:])
    assert (other.home(x), graph.home(x)) == (1, 2)
    with other.at(stage=3):
        late = other.op("relu", w)
        other.op("relu", late)
    assert other.home(late) == 3 and graph.home(late, 7) == 7
    graph.ops = graph.ops[::-1]
    assert graph.home(x) == 1


def test_a_graph_says_how_large_it_is() -> None:
    assert repr(Ir()) == "Ir(0 operations, 0 variables)"


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda g, x, a, b: (b, a), lambda x, a, b: (b, a)),
        (lambda g, x, a, b: (a, g.op("add", a, b)), lambda x, a, b: (a, a + b)),
        (lambda g, x, a, b: (x, a), lambda x, a, b: (x, a)),
        (lambda g, x, a, b: (g.op("reverse", a, dim=0), b), lambda x, a, b: (a[::-1], b)),
        (
            lambda g, x, a, b: (g.op("add", a, x), joined(g, g.op("tanh", x), a)),
            lambda x, a, b: (a + x, np.concatenate([np.tanh(x[:1]), a[1:]])),
        ),
        (
            lambda g, x, a, b: (joined(g, b, a), joined(g, g.op("tanh", x), b)),
            lambda x, a, b: (
                np.concatenate([b[:1], a[1:]]),
                np.concatenate([np.tanh(x[:1]), b[1:]]),
            ),
        ),
    ],
)
def test_all_that_a_scan_carries_changes_at_once(step: Any, expected: Any) -> None:
    """Whether a state is made, was another one, or is in part a view of one."""
    graph = Ir()
    starts = [graph.variable(np.float32(v), n) for n, v in (("a", [1, 2]), ("b", [3, 4]))]
    after, _ = ir.scan(
        graph,
        lambda g, now, carried: (step(g, now[0], *carried), []),
        [graph.input((3, 2), "x")],
        starts,
    )
    for i, value in enumerate(after):
        graph.output(f"{i}", value)
    device = IPUModel("ipu2", tiles_per_ipu=2).create_device()
    run = ir.Run(ir.Lowering(graph, device), device)
    x = np.random.default_rng(0).normal(0, 1, (3, 2)).astype(np.float32)
    states = np.array([1.0, 2]), np.array([3.0, 4])
    for row in x.astype(np.float64):
        states = expected(row, *states)
    for _ in range(2):  # a second run begins at the start
        outputs = run(x=x[None])
        for i, state in enumerate(states):
            np.testing.assert_allclose(outputs[f"{i}"][0], state, 1e-5)


def joined(graph: Ir, a: Value, b: Value) -> Value:
    """The first element of a and the second of b."""
    first = graph.op("slice", a, dim=0, begin=0, end=1)
    return graph.op("concat", first, graph.op("slice", b, dim=0, begin=1, end=2), dim=0)
