"""Layers of PopLibs' own benchmarks: convolutions and fully connected layers with both gradients.

`layers.csv` has the cycles of whole runs on Graphcore's models of a GC2 and a GC200. The table
shows every third layer of each kind. A test compares the median over all layers. The layers are of
HALF with partials of FLOAT, except some of the small ones.

For small and grouped fully connected layers, our figure is for all steps in a run of PopLibs' tool,
which the kit builds and costs: products, the bias and its update, and the update of the weights.
Recurrent layers are built and costed, too. Their names contain their sizes, as in
"lstm_16_25_1024_1024_half": batch, time steps, inputs and units. For the other layers, our figure
is the sum of the planned products of the three passes, without PopLibs' rearrangements and weight
updates. The published figures come from a model, as in `benchmarks`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs import poplin, popops, poputil
from ipu_teach.poplibs.poplin import ConvParams, plan_convolution, plan_mat_mul
from ipu_teach.poplibs.popnn import ctc_loss, gru, lstm
from ipu_teach.program import Sequence
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType
from validation.benchmarks import MACHINES, SOURCE
from validation.programs import machine, profile
from validation.row import PROGRAMS, TOLERANCES, Row

LayerLine = dict[str, str]  # A line of `layers.csv`: {column: text}.
FIELDS = ("stride", "lower", "upper")
PASSES = ("TRAINING_FWD", "TRAINING_BWD", "TRAINING_WU")
PRODUCTS = (
    "the modelled cycles are those of the products only, without PopLibs' "
    "rearrangements and its update of the weights"
)
BUILT = "built by the calls of PopLibs' tools/fully_connected_layer.cpp: products, bias, updates"
BUILT_KINDS = ("small", "grouped")
LEARNING_RATE = 0.5  # The learning rate of PopLibs' tool.
# The kinds of layers for which the model does not reproduce the figures, each with the reason.
KNOWN_NOT_TO_HOLD = {
    "depthwise": "PopLibs uses ConvPartialVerticalMac (poplin/ConvPlan.cpp), and the kit "
    "uses products",
    "small": "PopLibs plans the three passes together (poplin/ConvPlan.cpp), and the kit "
    "plans each pass by itself",
}
# The name of a layer that fits on no tile, because its input gradient has patches of 100,000
# elements.
TOO_WIDE = "conv_5x200_1_in_100_out_bs1440"
RECURRENT = "built by popnn.lstm and popnn.gru, whose loop is costed for all time steps"
CTC = (
    "known not to hold: PopLibs computes alpha and beta at the same time, and divides the time "
    "over the tiles, too (popnn/CTCLossPlan.cpp); here each has a loop, with a superstep per step"
)


@cache
def layers(kind: str) -> list[LayerLine]:
    """Return the layers of kind `kind` in layers.csv.

    The kinds are "convolution", "depthwise", "bert" (fully connected layers of transformers),
    "small" and "grouped" (fully connected), and "recurrent".
    """
    text = Path(__file__).with_name("layers.csv").read_text(encoding="utf-8")
    layers_of_kind = [layer for layer in csv.DictReader(text.splitlines()) if layer["kind"] == kind]
    return [layer for layer in layers_of_kind if layer["name"] != TOO_WIDE]


def three_passes(layer: LayerLine, version: str) -> int:
    """Return the modelled cycles of the planned products of all three passes, on a full chip."""
    target = machine(version)
    dtype = FLOAT if layer["dtype"] == "float" else HALF
    batch, in_channels, out_channels, groups = (
        int(layer[name]) for name in ("batch", "ins", "outs", "groups")
    )
    if not layer["field"]:
        shapes = (
            (batch, in_channels, out_channels),
            (batch, out_channels, in_channels),
            (in_channels, batch, out_channels),
        )
        return sum(
            plan_mat_mul(*shape, target, groups=groups, dtype=dtype, partials_type=FLOAT).cycles
            for shape in shapes
        )
    field, kernel, stride, lower, upper = (
        tuple(map(int, layer[name].split("x"))) for name in ("field", "kernel", *FIELDS)
    )
    padding: dict[str, Any] = {"padding_lower": lower, "padding_upper": upper}
    params = ConvParams(
        dtype,
        batch,
        input_field=field,
        kernel=kernel,
        in_channels=in_channels,
        out_channels=out_channels,
        num_groups=groups,
        stride=stride,
        **padding,
    )
    return sum(plan_convolution(params, target, pass_name).cycles for pass_name in PASSES)


@cache
def _built(
    dtype: type[DType], batch: int, in_channels: int, out_channels: int, groups: int, version: str
) -> int:
    graph = Graph(machine(version))
    program = Sequence()
    partials_option: dict[str, Any] = {"partials_type": FLOAT}

    def operand(side: str, columns: int, rows: int, name: str) -> Tensor:
        create: Any = getattr(poplin, f"create_mat_mul_grouped_input_{side}")
        shapes = (groups, batch, rows), (groups, rows, columns)
        tensor: Tensor = create(graph, dtype, *shapes, name, **partials_option)
        return tensor

    x = operand("lhs", out_channels, in_channels, "x")
    weights = operand("rhs", out_channels, in_channels, "weights")
    gradient = operand("lhs", in_channels, out_channels, "gradient")
    bias = graph.add_variable(dtype, (groups, out_channels), "bias")
    poputil.map_tensor_linearly(graph, bias)
    for tensor in (x, weights, gradient, bias):
        graph.set_initial_value(tensor, 1)
    result = poplin.mat_mul_grouped(graph, x, weights, program, "forward", **partials_option)
    popops.add_in_place(graph, result, bias.reshape((groups, 1, out_channels)), program, "bias")
    transposed_weights, transposed_x = (tensor.dim_shuffle([0, 2, 1]) for tensor in (weights, x))
    poplin.mat_mul_grouped(
        graph, gradient, transposed_weights, program, "backward", **partials_option
    )
    rate = -LEARNING_RATE
    poplin.mat_mul_grouped_acc(
        graph, weights, rate, transposed_x, gradient, program, "update", **partials_option
    )
    bias_gradient = popops.reduce(
        graph, gradient, [1], program, "ADD", debug_context="bias gradient"
    )
    popops.scaled_add_to(graph, bias, bias_gradient, rate, program, "bias update")
    return int(profile(graph, program).total_cycles)


def modelled(layer: LayerLine, version: str) -> int:
    """Return the modelled cycles of a layer: of all its steps, or only of its planned products.

    All steps are counted only for small and grouped fully connected layers.
    """
    if layer["kind"] not in BUILT_KINDS:
        return three_passes(layer, version)
    dtype = FLOAT if layer["dtype"] == "float" else HALF
    sizes = (int(layer[name]) for name in ("batch", "ins", "outs", "groups"))
    return _built(dtype, *sizes, version)


def recurrent(layer: LayerLine, version: str) -> int:
    """Return the modelled cycles of a recurrent layer, in inference or in training.

    The layer is built with two time steps, and its loops are costed for all of them. Because the
    sequences that are built are shorter, the writes of zeros before the loops take fewer cycles, by
    about 1 %.
    """
    kind, batch, steps, inputs, units, dtype_name, *variants = layer["name"].split("_")
    dtype = FLOAT if dtype_name == "float" else HALF
    module: Any = {"lstm": lstm, "gru": gru}[kind]
    cell_units = {"lstm": lstm.BasicLstmCellUnit, "gru": gru.BasicGruCellUnit}[kind]
    make = {"lstm": lstm.LstmParams, "gru": gru.GruParams}[kind]
    order = list(cell_units)
    order = order[::-1] if "shuffled" in variants else order
    params: Any = make(dtype, int(batch), 2, [int(inputs), int(units)], cell_order=order)
    graph = Graph(machine(version))
    program = Sequence()
    x, weights, start = (
        create(graph, params)
        for create in (module.create_input, module.create_weights, module.create_initial_state)
    )
    gradient = graph.add_variable(dtype, params.output_shape, "gradient")
    poputil.map_tensor_linearly(graph, gradient)
    states = tuple(start) if kind == "lstm" else (start,)
    for tensor in (x, gradient, *weights, *states):
        graph.set_initial_value(tensor, 0)
    is_training = "train" in variants
    if kind == "lstm":
        forward: Any = lstm.lstm_fwd(graph, params, program, start, weights, x, is_training)
        backward: Any = lstm.lstm_bwd_with_wu
    else:
        forward = gru.gru_fwd(graph, params, start, x, weights, is_training, program)
        backward = gru.gru_bwd_with_wu
    if is_training:
        stored, output = forward.intermediates, forward.output
        backward(graph, params, program, start, stored, weights, x, output, gradient)
    return int(profile(graph, program, repeats=int(steps)).total_cycles)


def ctc(layer: LayerLine, version: str) -> int:
    """Return the modelled cycles of a CTC loss of log-probabilities, with its gradient."""
    name = layer["name"].split("_")
    steps, labels, classes, batch = (
        int(name[name.index(key) + 1]) for key in ("t", "l", "c", "bs")
    )
    graph = Graph(machine(version))
    program = Sequence()
    plan = ctc_loss.plan(graph, FLOAT, FLOAT, batch, steps, labels, classes)
    x = ctc_loss.create_data_input(graph, FLOAT, batch, steps, classes, plan)
    numbers = ctc_loss.create_labels_input(graph, UNSIGNED_INT, batch, labels, plan)
    lengths = [graph.add_variable(UNSIGNED_INT, (batch,), key) for key in ("steps", "labels")]
    for tensor in lengths:
        poputil.map_tensor_linearly(graph, tensor)
    operands = (x, numbers, lengths[0], lengths[1])
    for tensor in operands:
        graph.set_initial_value(tensor, 0)
    ctc_loss.calc_loss_and_gradient_log_probabilities(graph, FLOAT, *operands, program, 0, plan)
    return int(profile(graph, program).total_cycles)


def benchmarks(
    is_included: Callable[[LayerLine, str], bool] = lambda layer, version: True,
) -> list[Row]:
    """Return the table rows for every third layer of each kind, for both machines.

    If `is_included` is False for a layer and a machine, their row is omitted.
    """
    rows = []
    tolerance = TOLERANCES[PROGRAMS]
    for kind in ("convolution", "bert", "grouped", *KNOWN_NOT_TO_HOLD):
        for layer in layers(kind)[::3]:
            for version in filter(partial(is_included, layer), MACHINES):
                published = int(layer[version])
                modelled_cycles = modelled(layer, version)
                name = _name(layer, version)
                known_reason = KNOWN_NOT_TO_HOLD.get(kind)
                reason = BUILT if kind in BUILT_KINDS else PRODUCTS
                reason = f"known not to hold: {known_reason}" if known_reason else reason
                row_options = {"explained": known_reason is not None}
                rows.append(
                    SOURCE.row(
                        name,
                        published,
                        modelled=modelled_cycles,
                        tolerance=tolerance,
                        why=reason,
                        **row_options,
                    )
                )
    for layer in layers("recurrent")[::3]:
        for version in filter(partial(is_included, layer), MACHINES):
            name, published = _name(layer, version), int(layer[version])
            is_ctc = layer["name"].startswith("ctc")
            rows.append(
                SOURCE.row(
                    name,
                    published,
                    modelled=(ctc if is_ctc else recurrent)(layer, version),
                    tolerance=tolerance,
                    why=CTC if is_ctc else RECURRENT,
                    explained=is_ctc,
                )
            )
    return rows


def _name(layer: LayerLine, version: str) -> str:
    passes = "" if layer["kind"] == "recurrent" else ", three passes"
    return f"PopLibs, {layer['name']}{passes}, {version} model (cycles)"
