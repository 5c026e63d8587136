"""LSTM and GRU layers: values and gradients beside torch in float64, edges, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from libraries import torch

from ipu_teach import FLOAT, HALF, Engine, Graph, IPUModel, Tensor
from ipu_teach.errors import InvalidOptionError, InvalidTileMappingError, PoplibsError
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.poplibs.popnn import gru, lstm
from ipu_teach.program import Sequence
from ipu_teach.types import Array

TOLERANCE = {FLOAT: 1e-5, HALF: 4e-3}  # of the largest element
LSTM_UNITS, GRU_UNITS = list(lstm.BasicLstmCellUnit), list(gru.BasicGruCellUnit)
Values = dict[str, Array]


@dataclass
class Drawn:
    """The parameters of a layer in a test; `more` are further keywords of its params."""

    kind: str = "lstm"
    dtype: Any = FLOAT
    steps: int = 3
    batch: int = 2
    inputs: int = 5
    units: int = 7
    order: tuple[int, ...] = ()
    full: bool = True
    tiles: int = 13
    options: dict[str, Any] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def module(self) -> Any:
        return lstm if self.kind == "lstm" else gru

    @property
    def params(self) -> Any:
        units = LSTM_UNITS if self.kind == "lstm" else GRU_UNITS
        named = {"output_full_sequence": self.full, **self.more}
        if self.order:
            named["cell_order"] = [units[i] for i in self.order]
        make = lstm.LstmParams if self.kind == "lstm" else gru.GruParams
        sizes = self.batch, self.steps, [self.inputs, self.units]
        return make(self.dtype, *sizes, **named)


def new_graph() -> Graph:
    return Graph(IPUModel(tiles_per_ipu=13).create_device())


def operands(drawn: Drawn, graph: Graph) -> dict[str, Tensor]:
    """Return the tensors of a layer by their names, all of them created by the kit."""
    module, params = drawn.module, drawn.params
    options = drawn.options or None
    x = module.create_input(graph, params, "x", options)
    weights = module.create_weights(graph, params, "weights", options)
    start = module.create_initial_state(graph, params, "start", options)
    tensors = {"x": x, **weights._asdict()}
    tensors |= start._asdict() if drawn.kind == "lstm" else {"output": start}
    shapes = {"output_grad": params.output_shape, "cell_grad": params.state_shape}
    for name, shape in shapes.items():
        tensors[name] = graph.add_variable(drawn.dtype, shape, name)
        poputil.map_tensor_linearly(graph, tensors[name])
    return tensors


def forward(drawn: Drawn, graph: Graph, prog: Sequence, of: dict[str, Tensor], save: bool) -> Any:
    """Append the forward pass and return its results."""
    weights = of["input_weights"], of["output_weights"], of["biases"]
    if drawn.kind == "lstm":
        state = lstm.LstmState(of["output"], of["cell_state"])
        given: Any = (prog, state, lstm.LstmWeights(*weights), of["x"], save)
        return lstm.lstm_fwd(graph, drawn.params, *given, options=drawn.options)
    given = (of["output"], of["x"], gru.GruWeights(*weights), save, prog)
    return gru.gru_fwd(graph, drawn.params, *given, options=drawn.options)


def backward(
    drawn: Drawn, graph: Graph, prog: Sequence, of: dict[str, Tensor], results: Any, apart: bool
) -> dict[str, Tensor]:
    """Append the backward pass and return the gradients, by the names of the tensors."""
    weights: Any = of["input_weights"], of["output_weights"], of["biases"]
    named: dict[str, Any] = {"options": drawn.options}
    state: Any = of["output"]
    if drawn.kind == "lstm":
        state = lstm.LstmState(state, of["cell_state"])
        weights = lstm.LstmWeights(*weights)
        named["last_cell_state_grad"] = of["cell_grad"]
    else:
        weights = gru.GruWeights(*weights)
    call = {
        name: getattr(drawn.module, f"{drawn.kind}_{name}") for name in ("bwd", "wu", "bwd_with_wu")
    }
    given = (graph, drawn.params, prog, state, results.intermediates)
    rest = weights, of["x"], results.output
    if apart:
        both = call["bwd"](*given, *rest, of["output_grad"], **named)
        found = call["wu"](*given, both.intermediates, *rest, options=drawn.options)
    else:
        both = call["bwd_with_wu"](*given, *rest, of["output_grad"], **named)
        found = both.weights
    grads = dict(found._asdict())
    grads |= both.state._asdict() if drawn.kind == "lstm" else {"output": both.state}
    return grads if both.input is None else {**grads, "x": both.input}


def drawn_values(drawn: Drawn, of: dict[str, Tensor], seed: int = 0) -> Values:
    rng = np.random.default_rng(seed)
    small = {"input_weights", "output_weights"}
    return {
        name: (rng.normal(size=t.shape) * (0.4 if name in small else 1)).astype(t.dtype.numpy)
        for name, t in of.items()
    }


def ran(
    drawn: Drawn, change: Any = None, apart: bool = False, times: int = 2, loop: bool = False
) -> tuple[Values, Values, Values]:
    """Run a layer and its gradients; return (values, outputs, gradients)."""
    device = IPUModel("ipu2", tiles_per_ipu=drawn.tiles).create_device()
    graph, prog = Graph(device), Sequence()
    of = operands(drawn, graph)
    values = drawn_values(drawn, of)
    if change is not None:
        change(values)
    for name, tensor in of.items():
        graph.set_initial_value(tensor, values[name])
    results = forward(drawn, graph, prog, of, True)
    outputs = {"output": results.output}
    if drawn.kind == "lstm":
        outputs["cell_state"] = results.cell_state
    grads = backward(drawn, graph, prog, of, results, apart)
    for prefix, tensors in (("out", outputs), ("grad", grads)):
        for name, tensor in tensors.items():
            graph.create_host_read(f"{prefix} {name}", tensor)
    engine = Engine(graph, prog, vertex_loop=loop)
    engine.load(device)
    for _ in range(times):
        engine.run()
    assert not engine.report.unknown_codelets

    def read(prefix: str, tensors: dict[str, Tensor]) -> Values:
        return {name: engine.read_tensor(f"{prefix} {name}") for name in tensors}

    return values, read("out", outputs), read("grad", grads)


ACTS = {
    "TANH": lambda x: x.tanh(),
    "SIGMOID": lambda x: x.sigmoid(),
    "RELU": lambda x: x.relu(),
    "HARD_SIGMOID": lambda x: (x / 5 + 0.5).clamp(0, 1),
}


def expected(drawn: Drawn, values: Values) -> tuple[Values, Values]:
    """Return outputs and gradients of a loop over the time steps in torch, in float64."""
    t = {n: torch().tensor(v.astype(float), requires_grad=True) for n, v in values.items()}
    act = ACTS[drawn.more.get("activation", "TANH")]
    rec = ACTS[drawn.more.get("recurrent_activation", "SIGMOID")]
    places = list(np.argsort(drawn.order)) if drawn.order else list(range(4))
    wx, wh, b = (
        [t[name][i] for i in places[: t[name].shape[0]]]
        for name in ("input_weights", "output_weights", "biases")
    )
    h, c = t["output"], t.get("cell_state")
    outputs = []
    for x in t["x"]:
        if drawn.kind == "lstm":
            f, i, g, o = (x @ wx[k] + h @ wh[k] + b[k] for k in range(4))
            c = rec(f) * c + rec(i) * act(g)
            h = rec(o) * act(c)
        elif drawn.more.get("reset_after"):
            r, u, candidate = (x @ wx[k] + b[k][0] for k in range(3))
            r, u = rec(r + h @ wh[0] + b[0][1]), rec(u + h @ wh[1] + b[1][1])
            candidate = act(candidate + r * (h @ wh[2] + b[2][1]))
            h = u * h + (1 - u) * candidate
        else:
            r, u = (rec(x @ wx[k] + h @ wh[k] + b[k]) for k in range(2))
            h = u * h + (1 - u) * act(x @ wx[2] + (r * h) @ wh[2] + b[2])
        outputs.append(h)
    output = torch().stack(outputs) if drawn.full else h
    total = (output * t["output_grad"].detach()).sum()
    results = {"output": output}
    if drawn.kind == "lstm":
        total = total + (c * t["cell_grad"].detach()).sum()
        results["cell_state"] = c
    total.backward()
    grads = {name: tensor.grad.numpy() for name, tensor in t.items() if tensor.grad is not None}
    return {name: tensor.detach().numpy() for name, tensor in results.items()}, grads


def compare(drawn: Drawn, **how: Any) -> None:
    values, outputs, grads = ran(drawn, **how)
    wanted_outputs, wanted_grads = expected(drawn, values)
    assert set(grads) == set(wanted_grads) - (
        set() if drawn.more.get("calc_input_gradients", True) else {"x"}
    )
    for found, wanted in ((outputs, wanted_outputs), (grads, wanted_grads)):
        for name, array in found.items():
            scale = np.abs(wanted[name]).max()
            assert array.shape == wanted[name].shape, name
            distance = np.abs(array - wanted[name]).max()
            assert distance <= TOLERANCE[drawn.dtype] * scale, (name, distance / scale)


LAYERS = {
    "lstm": Drawn(),
    "lstm, last output": Drawn(full=False),
    "lstm, inputs multiplied first": Drawn(options={"preCalcWeights": True}),
    "lstm, other order": Drawn(order=(1, 0, 3, 2), options={"preCalcWeights": True}, full=False),
    "lstm, one of each": Drawn(steps=1, batch=1, inputs=1, units=1),
    "lstm, more than a grain": Drawn(batch=3, inputs=33, units=48, tiles=40),
    "lstm, hard activations": Drawn(
        more={"activation": "RELU", "recurrent_activation": "HARD_SIGMOID"}
    ),
    "lstm in half": Drawn(dtype=HALF, batch=4, inputs=32, units=16),
    "gru": Drawn("gru"),
    "gru, last output": Drawn("gru", full=False, order=(2, 0, 1)),
    "gru, reset after": Drawn("gru", order=(1, 2, 0), more={"reset_after": True}),
    "gru, reset after, last output": Drawn("gru", full=False, more={"reset_after": True}),
    "gru, one of each": Drawn("gru", steps=1, batch=1, inputs=1, units=1),
    "gru, more than a grain": Drawn("gru", batch=3, inputs=33, units=48, tiles=40),
    "gru in half": Drawn("gru", HALF, batch=4, inputs=32, units=16, more={"reset_after": True}),
    "gru, no gradient of x": Drawn("gru", more={"calc_input_gradients": False}),
    "lstm, no gradient of x": Drawn(more={"calc_input_gradients": False}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_is_a_loop_in_float64(name: str) -> None:
    torch()
    compare(LAYERS[name])


@pytest.mark.parametrize("name", ["lstm, last output", "gru", "gru, reset after"])
def test_the_passes_may_be_apart_and_run_vertex_by_vertex(name: str) -> None:
    torch()
    compare(LAYERS[name], apart=True, loop=True, times=1)


def test_a_layer_is_torchs_lstm() -> None:
    values, outputs, grads = ran(Drawn(order=(1, 0, 2, 3)))
    layer = torch().nn.LSTM(5, 7).double()
    flat = {
        "weight_ih_l0": values["input_weights"],
        "weight_hh_l0": values["output_weights"],
        "bias_ih_l0": values["biases"],
    }
    with torch().no_grad():
        layer.bias_hh_l0.zero_()
        for name, array in flat.items():
            rows = array.swapaxes(1, -1).reshape(28, *array.shape[1:-1])
            getattr(layer, name).copy_(torch().tensor(rows.astype(float)))
    x, h, c = (
        torch().tensor(values[name].astype(float), requires_grad=True)
        for name in ("x", "output", "cell_state")
    )
    output, (_, last) = layer(x, (h[None], c[None]))
    grad, cell_grad = (torch().tensor(values[f"{n}_grad"]) for n in ("output", "cell"))
    ((output * grad).sum() + (last[0] * cell_grad).sum()).backward()
    assert np.allclose(outputs["output"], output.detach(), atol=1e-5)
    assert np.allclose(grads["x"], x.grad, atol=1e-5 * float(x.grad.abs().max()))
    assert np.allclose(grads["cell_state"], c.grad, atol=1e-5)


def test_a_layer_with_reset_after_is_torchs_gru() -> None:
    values, outputs, grads = ran(Drawn("gru", more={"reset_after": True}))
    layer = torch().nn.GRU(5, 7).double()
    pairs = values["biases"].swapaxes(0, 1).reshape(2, 21)
    with torch().no_grad():
        for name, array in (("ih", values["input_weights"]), ("hh", values["output_weights"])):
            rows = array.swapaxes(1, 2).reshape(21, -1).astype(float)
            getattr(layer, f"weight_{name}_l0").copy_(torch().tensor(rows))
        layer.bias_ih_l0.copy_(torch().tensor(pairs[0].astype(float)))
        layer.bias_hh_l0.copy_(torch().tensor(pairs[1].astype(float)))
    x = torch().tensor(values["x"].astype(float), requires_grad=True)
    output, _ = layer(x, torch().tensor(values["output"].astype(float))[None])
    (output * torch().tensor(values["output_grad"])).sum().backward()
    assert np.allclose(outputs["output"], output.detach(), atol=1e-5)
    assert np.allclose(grads["x"], x.grad, atol=1e-5 * float(x.grad.abs().max()))
    biases = layer.bias_hh_l0.grad.reshape(3, 7)
    assert np.allclose(grads["biases"][:, 1], biases, atol=1e-5 * float(biases.abs().max()))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_nan_in_a_sample_stays_in_the_sample(kind: str) -> None:
    def change(values: Values) -> None:
        values["x"][1, 0, 2] = np.nan

    _, outputs, _ = ran(Drawn(kind), change, times=1)
    output = outputs["output"]
    assert np.isnan(output[1:, 0]).all()
    assert np.isfinite(output[0]).all() and np.isfinite(output[:, 1]).all()


def test_gradients_of_half_may_be_summed_in_float() -> None:
    drawn = Drawn(dtype=HALF, options={"weightAccumulatorsType": "float"})
    compare(drawn)
    _, _, grads = ran(drawn, times=1)
    assert {grads[n].dtype.name for n in ("input_weights", "biases")} == {"float32"}
    assert grads["x"].dtype == np.float16


def test_in_inference_nothing_is_stored() -> None:
    for kind in ("lstm", "gru"):
        drawn = Drawn(kind)
        graph, prog = new_graph(), Sequence()
        of = operands(drawn, graph)
        results = forward(drawn, graph, prog, of, False)
        assert results.intermediates is None
        assert results.output.shape == (3, 2, 7)


def test_plans_go_into_the_cache() -> None:
    graph, prog, cache = new_graph(), Sequence(), poplin.PlanningCache()
    of = operands(Drawn(), graph)
    state = lstm.LstmState(of["output"], of["cell_state"])
    weights = lstm.LstmWeights(of["input_weights"], of["output_weights"], of["biases"])
    lstm.lstm_fwd(graph, Drawn().params, prog, state, weights, of["x"], cache=cache)
    assert cache.size == 1


def test_the_initial_state_may_be_zero() -> None:
    graph, prog = Graph(device := IPUModel(tiles_per_ipu=13).create_device()), Sequence()
    state = lstm.create_initial_state(graph, Drawn().params)
    lstm.zero_initial_state(graph, state, prog)
    apart = lstm.create_initial_output(graph, Drawn().params)
    assert graph.get_tile_mapping(apart) == graph.get_tile_mapping(state.output)
    cell = lstm.create_initial_cell_state(graph, Drawn().params)
    assert cell.shape == state.cell_state.shape == (2, 7)
    for i, tensor in enumerate(state):
        graph.create_host_read(str(i), tensor)
    engine = Engine(graph, prog)
    engine.load_and_run(device)
    assert not engine.read_tensor("0").any() and not engine.read_tensor("1").any()


def test_orders_have_defaults() -> None:
    assert lstm.get_default_basic_lstm_cell_order() == LSTM_UNITS
    assert gru.get_default_basic_gru_cell_order() == GRU_UNITS


def test_an_element_stays_on_its_tile_through_all_steps() -> None:
    graph = new_graph()
    params = lstm.LstmParams(FLOAT, 3, 4, [32, 48])
    x = lstm.create_input(graph, params)
    first = graph.get_tile_mapping(x[0])
    assert all(graph.get_tile_mapping(x[i]) == first for i in range(4))
    assert 1 < sum(1 for intervals in first if intervals) <= 13


GIVEN: dict[str, Any] = {
    "dtype": FLOAT,
    "batch_size": 2,
    "time_steps": 3,
    "layer_sizes": [5, 7],
}
NAMES = "RELU or SIGMOID or HARD_SIGMOID or TANH"
UNITS = ", ".join(unit.name for unit in LSTM_UNITS)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"dtype": int}, "int as dtype.\n  next:  use FLOAT or HALF."),
        (
            {"batch_size": 0},
            "0 as batch_size.\n  next:  give a whole number of 1 or more.",
        ),
        (
            {"time_steps": 2.5},
            "2.5 as time_steps.\n  next:  give a whole number of 1 or more.",
        ),
        (
            {"layer_sizes": [5]},
            "[5] as layer_sizes.\n  next:  give [input size, output size], and a layer for each "
            "pair.",
        ),
        (
            {"layer_sizes": [5, 0]},
            "[5, 0] as layer_sizes.\n  next:  give [input size, output size].",
        ),
        ({"activation": "GELU"}, f"'GELU' as activation.\n  next:  use {NAMES}."),
        (
            {"recurrent_activation": "SOFTMAX"},
            f"'SOFTMAX' as recurrent_activation.\n  next:  use {NAMES}.",
        ),
        (
            {"output_full_sequence": "yes"},
            "'yes' as output_full_sequence.\n  next:  give True or False.",
        ),
        (
            {"cell_order": [LSTM_UNITS[0]]},
            "[<BasicLstmCellUnit.BASIC_LSTM_CELL_FORGET_GATE: 0>] as cell_order.\n  next:  give a "
            f"list that contains each unit of BasicLstmCellUnit once: {UNITS}.",
        ),
    ],
    ids=lambda part: str(part)[:30],
)
def test_params_say_what_is_wrong(change: dict[str, Any], text: str) -> None:
    with pytest.raises(PoplibsError) as caught:
        lstm.LstmParams(**(GIVEN | change))
    assert " ".join(str(caught.value).split()) == " ".join(f"LstmParams() was given {text}".split())


def test_a_layer_says_what_does_not_fit() -> None:
    graph, prog = new_graph(), Sequence()
    params, of = Drawn().params, operands(Drawn(), graph)
    state = lstm.LstmState(of["output"], of["cell_state"])
    weights = lstm.LstmWeights(of["input_weights"], of["output_weights"], of["biases"])
    x = of["x"]
    unmapped = graph.add_variable(FLOAT, (4, 7), "unmapped")
    for error, given, words in (
        (PoplibsError, (state, weights, x[:2]), "lstm_fwd() was given two shapes that differ: "),
        (PoplibsError, (state, weights, x[:2]), "give x the shape (3, 2, 5), as params require."),
        (PoplibsError, (state, weights[::-1], x), "give lstm.LstmWeights(input_weights, "),
        (PoplibsError, (state[0], weights, x), "give lstm.LstmState(output, cell_state)."),
        (PoplibsError, (state._replace(output=3), weights, x), "was given 3 as state.output."),
        (
            PoplibsError,
            (state, weights._replace(biases=x), x),
            "give weights.biases the shape (4, 7), as params require.",
        ),
        (
            InvalidTileMappingError,
            (state, weights._replace(biases=unmapped), x),
            "not mapped to any tile.",
        ),
    ):
        with pytest.raises(error) as caught:
            lstm.lstm_fwd(graph, params, prog, *given)  # type: ignore[arg-type]
        assert words in " ".join(str(caught.value).split()), str(caught.value)
    half = graph.add_variable(HALF, x.shape)
    poputil.map_tensor_linearly(graph, half)
    with pytest.raises(PoplibsError, match="give x the dtype of params"):
        lstm.lstm_fwd(graph, params, prog, state, weights, half)


def test_a_backward_pass_needs_what_the_forward_pass_stored() -> None:
    for kind in ("lstm", "gru"):
        drawn = Drawn(kind)
        graph, prog = new_graph(), Sequence()
        of = operands(drawn, graph)
        results = forward(drawn, graph, prog, of, False)
        with pytest.raises(PoplibsError) as caught:
            backward(drawn, graph, prog, of, results, False)
        assert str(caught.value) == (
            f"{kind}_bwd_with_wu() was given no intermediates of the forward pass.\n"
            f"  next:  call {kind}_fwd with intermediates=True."
        )
        assert forward(drawn, graph, prog, of, True).intermediates is not None


def test_options_that_a_layer_has_not_are_refused() -> None:
    graph = new_graph()
    with pytest.raises(InvalidOptionError, match="has no option 'numShards'"):
        lstm.create_input(graph, Drawn().params, options={"numShards": 2})
    with pytest.raises(InvalidOptionError, match="give 'none'"):
        lstm.create_input(graph, Drawn().params, options={"recomputationMode": "full"})
    with pytest.raises(InvalidOptionError, match="has no option 'preCalcWeights'"):
        gru.create_input(graph, Drawn("gru").params, options={"preCalcWeights": True})
