"""LSTM layers of the front ends' graph: popnn.lstm computes them, and torch judges the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ir_cases import device

from ipu_teach import FLOAT, HALF
from ipu_teach.errors import ModelError
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Value

NAMES = ("x", "w", "r", "b", "h", "c")


def variables(
    graph: Ir, steps: int, batch: int, width: int, hidden: int, *, dtype: Any = FLOAT
) -> list[Value]:
    """Return the inputs of a layer as variables of random numbers, in the order of `NAMES`."""
    rng = np.random.default_rng(5)
    gates, state = 4 * hidden, (batch, hidden)
    shapes: list[Any] = [
        (steps, batch, width),
        (gates, width),
        (gates, hidden),
        gates,
        state,
        state,
    ]
    arrays = (rng.uniform(-1, 1, shape).astype(dtype.numpy) for shape in shapes)
    return [graph.variable(a, name, dtype=dtype) for a, name in zip(arrays, NAMES, strict=True)]


def results(graph: Ir, loss: Value, **outputs: Value) -> dict[str, Any]:
    """Return the outputs of a run, with the gradient of each variable under its name."""
    for name, value in outputs.items():
        graph.output(name, value)
    step, grads = ir.autodiff(graph, loss)
    for value, gradient in grads.items():
        step.output(value.name, gradient)
    run = ir.Run(ir.Lowering(step, device(7)), device(7))
    run()
    return {name: array[0] for name, array in run().items()}


def by_torch(graph: Ir, loss_of: Any) -> dict[str, Any]:
    """Return the outputs, the last cell state and the gradients of torch's LSTM in float64."""
    torch = pytest.importorskip("torch")
    inputs = {
        name: torch.tensor(np.asarray(v.initial, np.float64), requires_grad=True)
        for name, v in graph.variables.items()
    }
    x, w, r, b, h, c = inputs.values()
    weights = [w, r, b, torch.zeros_like(b)]
    y, last, cell = torch.lstm(x, (h[None], c[None]), weights, True, 1, 0.0, True, False, False)
    loss_of(y, last[0], cell[0]).backward()
    grads = {name: v.grad.numpy() for name, v in inputs.items()}
    return {"y": y.detach().numpy(), "cell": cell[0].detach().numpy(), **grads}


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (5, 3, 4, 7), (3, 2, 17, 20), (2, 33, 3, 16)])
def test_values_and_gradients_are_those_of_torch(
    sizes: tuple[int, int, int, int], dtype: Any
) -> None:
    graph = Ir()
    x, w, r, b, h, c = variables(graph, *sizes, dtype=dtype)
    y, (last, cell) = ir.recurrent(graph, "lstm", x, [h, c], w, r, b)
    assert [op.kind for op in graph.ops][:1] == ["lstm"]
    parts = (graph.op("square", v) for v in (y, last, graph.op("sin", cell)))
    loss = [ir.reduced(graph, "sum", v) for v in parts]
    total = graph.op("add", graph.op("add", loss[0], loss[1]), loss[2])
    values = results(graph, total, y=y, cell=cell)
    expected = by_torch(
        graph,
        lambda y, last, cell: (y**2).sum() + (last**2).sum() + (cell.sin() ** 2).sum(),
    )
    tolerance = 1e-5 if dtype is FLOAT else 1e-2
    assert values.keys() == expected.keys()
    for name, array in expected.items():
        difference = np.abs(values[name].astype(np.float64) - array).max()
        assert difference <= tolerance * np.abs(array).max(), name


@pytest.mark.parametrize("part", ["last", "cell"])
def test_the_loss_may_depend_on_a_last_state_only(part: str) -> None:
    graph = Ir()
    x, w, r, b, h, c = variables(graph, 4, 2, 3, 5)
    y, (last, cell) = ir.recurrent(graph, "lstm", x, [h, c], w, r, b)
    loss = ir.reduced(graph, "sum", {"last": last, "cell": cell}[part])
    values = results(graph, loss, y=y, cell=cell)
    expected = by_torch(graph, lambda y, last, cell: {"last": last, "cell": cell}[part].sum())
    for name, array in expected.items():
        np.testing.assert_allclose(values[name], array, 1e-4, 1e-6, err_msg=name)


def test_inference_saves_nothing_for_a_backward_pass() -> None:
    graph = Ir()
    x, w, r, b, h, c = variables(graph, 4, 2, 3, 5)
    y, _ = ir.recurrent(graph, "lstm", x, [h, c], w, r, b)
    graph.output("y", y)
    run = ir.Run(ir.Lowering(graph, device(2)), device(2))
    run()
    names = run.engine.report.memory.by_variable()
    assert any("lstm" in name for name in names)
    assert not any("intermediates" in name for name in names)


def test_an_lstm_in_a_scan_has_gradients() -> None:
    """The layer runs once in each step of the scan: a loop in a loop."""
    graph = Ir()
    x, w, r, b, h, c = variables(graph, 4, 2, 3, 5)

    def step(g: Ir, now: list[Value], before: list[Value]) -> Any:
        rows = g.op("reshape", now[0], shape=(2, 2, 3))
        y, after = ir.recurrent(g, "lstm", rows, before, w, r, b)
        return after, [y]

    halves = graph.op("reshape", x, shape=(2, 2, 2, 3))
    (_, cell), (ys,) = ir.scan(graph, step, [halves], [h, c])
    y = graph.op("reshape", ys, shape=(4, 2, 5))
    loss = ir.reduced(graph, "sum", graph.op("square", y))
    values = results(graph, loss, y=y, cell=cell)
    expected = by_torch(graph, lambda y, *_: (y**2).sum())
    for name, array in expected.items():
        np.testing.assert_allclose(values[name], array, 1e-4, 1e-5, err_msg=name)


@pytest.mark.parametrize("kind", ["gru", "tanh", "empty"])
def test_other_layers_are_scans(kind: str) -> None:
    graph = Ir()
    gates, batch = {"gru": 3}.get(kind, 4 if kind == "empty" else 1), 0 if kind == "empty" else 2
    x = graph.constant(0.5, FLOAT, (3, batch, 2))
    state = [graph.constant(0.0, FLOAT, (batch, 4))] * (2 if kind == "empty" else 1)
    w, r = (graph.constant(0.1, FLOAT, (gates * 4, n)) for n in (2, 4))
    ir.recurrent(graph, "lstm" if kind == "empty" else kind, x, state, w, r)
    kinds = [op.kind for op in graph.ops]
    assert kinds.count("scan") == 1 and "lstm" not in kinds


def test_inputs_that_do_not_fit_are_refused() -> None:
    graph = Ir()
    x, w, r, b, h, c = variables(graph, 3, 2, 4, 5)
    with pytest.raises(ModelError) as error:
        graph.op("lstm", x, r, r, b, h, c)
    assert "is used where the layer needs FLOAT[20, 4]" in str(error.value)
    assert "next:  pass weights and states that fit x." in str(error.value)
    with pytest.raises(ModelError, match=r"x is \[2, 5\], and r \[20, 5\](?s:.*)pass x \[steps"):
        graph.op("lstm", h, w, r, b, h, c)
    y, cell, saved = graph.emit("lstm", x, w, r, b, h, c)
    with pytest.raises(ModelError, match=r"does not fit the forward pass(?s:.*)values of 'lstm'"):
        graph.op("lstm_grad", x, w, r, b, h, c, y, saved, y, y)


def test_a_second_derivative_is_refused() -> None:
    graph = Ir()
    x, w, r, b, h, c = variables(graph, 3, 2, 4, 5)
    y, _ = ir.recurrent(graph, "lstm", x, [h, c], w, r, b)
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", y))
    again = ir.reduced(step, "sum", step.op("square", grads[h]))
    with pytest.raises(ModelError, match="lstm_grad has no gradient"):
        ir.autodiff(step, again)


def test_the_estimate_prices_the_layer() -> None:
    graph = Ir()
    x, w, r, b, h, c = variables(graph, 6, 4, 16, 32)
    y, _ = ir.recurrent(graph, "lstm", x, [h, c], w, r, b)
    step, grads = ir.autodiff(graph, ir.reduced(graph, "sum", graph.op("square", y)))
    step = ir.optimise(step, grads)
    estimate = ir.estimate(step, device(64))
    run = ir.Run(ir.Lowering(step, device(64)), device(64))
    run()
    assert not any(line.fallback for line in estimate.lines)
    assert 0.85 < estimate.cycles / run.engine.report.total_cycles < 1.15
