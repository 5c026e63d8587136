"""LSTM layers: the outputs of a sequence, and the gradients of input, state, weights and biases.

    params = lstm.LstmParams(FLOAT, 16, 25, [64, 128])          # batch, steps, [input, output]
    x = lstm.create_input(graph, params, "x")                   # [25, 16, 64]
    weights = lstm.create_weights(graph, params, "weights")
    start = lstm.create_initial_state(graph, params, "start")
    forward = lstm.lstm_fwd(graph, params, prog, start, weights, x, True)
    backward = lstm.lstm_bwd_with_wu(
        graph, params, prog, start, forward.intermediates, weights, x, forward.output, output_grad
    )

A time step computes, for the input x and the state (h, c), with the recurrent activation s and the
activation a:

    f = s(x Wf + h Uf + bf)    i = s(x Wi + h Ui + bi)    o = s(x Wo + h Uo + bo)
    g = a(x Wg + h Ug + bg)    c = f c + i g              h = o a(c)

The forget gate f, the input gate i, the candidate g and the output gate o are the units of the
cell. One product computes all four units. The cycles are those of the products and of the
elementwise operations. The operations are those of PopLibs (popnn/Lstm.cpp), with a few
differences. For example, PopLibs executes activations of different kinds in one compute set,
whereas here each kind has its own compute set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import NamedTuple

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.library import OWN, advised, library
from ipu_teach.poplibs.options import Option, Options
from ipu_teach.poplibs.poplin import PlanningCache
from ipu_teach.poplibs.popnn.nonlinearity import (
    activate,
    activation_gradient,
    non_linearity_in_place,
)
from ipu_teach.poplibs.popnn.recurrent import (
    OPTIONS as COMMON_OPTIONS,
    Layer,
    LayerLoop,
    LayerParams,
    by_unit,
    check_fields,
    check_operand,
    check_stored,
    checked_order,
    flat_units,
    in_order,
    layer_of,
    previous,
)
from ipu_teach.poplibs.popops import add, add_in_place, mul, mul_with_output, zero
from ipu_teach.poplibs.poputil import map_tensor_linearly
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.types import FLOAT

__all__ = [
    "BasicLstmCellUnit",
    "LstmGradients",
    "LstmOutputs",
    "LstmParams",
    "LstmState",
    "LstmTrainingGradients",
    "LstmWeights",
    "create_initial_cell_state",
    "create_initial_output",
    "create_initial_state",
    "create_input",
    "create_weights",
    "create_weights_biases",
    "create_weights_kernel",
    "get_default_basic_lstm_cell_order",
    "lstm_bwd",
    "lstm_bwd_with_wu",
    "lstm_fwd",
    "lstm_wu",
    "zero_initial_state",
]

NUM_UNITS = 4
OPTIONS = (
    *COMMON_OPTIONS,
    Option("weightAccumulatorsType", FLOAT),
    Option("preCalcWeights", bool, False),
    Option("recomputationMode", ("none",), "none"),
)


class BasicLstmCellUnit(Enum):
    """The units of an LSTM cell: three gates, and the candidate for the cell state."""

    BASIC_LSTM_CELL_FORGET_GATE = 0
    BASIC_LSTM_CELL_INPUT_GATE = 1
    BASIC_LSTM_CELL_CANDIDATE = 2
    BASIC_LSTM_CELL_OUTPUT_GATE = 3


FORGET, INPUT, CANDIDATE, OUTPUT = BasicLstmCellUnit
# The indices of the members of a cell [members, batch, units]. In this order, the operands of most
# vertices are contiguous on a tile. The intermediates contain, for each step, the members whose
# index is below `_STATE`. If the layer returns only the output of the last step, the intermediates
# also contain member `_STATE`, the output of each step.
_CELL, _CANDIDATE, _FORGET, _INPUT, _OUTPUT, _ACTIVATED, _STATE = range(7)
# The order of the units in a cell, and in the gradients of the backward pass.
_CELL_UNITS = (CANDIDATE, FORGET, INPUT, OUTPUT)


@library
def get_default_basic_lstm_cell_order() -> list[BasicLstmCellUnit]:
    """Return the default order of the units: forget gate, input gate, candidate, output gate."""
    return list(BasicLstmCellUnit)


@advised("give lstm.LstmParams(…).")
@dataclass(frozen=True)
class LstmParams(LayerParams):
    """The parameters of an LSTM layer on sequences [time_steps, batch_size, input size].

    * `dtype` is FLOAT or HALF, and `layer_sizes` is [input size, output size].
    * `activation` (of the candidate and of the cell state) and `recurrent_activation` (of the
      gates) are a `NonLinearityType` or its name: TANH, SIGMOID, HARD_SIGMOID or RELU.
    * If `output_full_sequence` is False, the output is that of the last time step only.
    * If `calc_input_gradients` is False, the backward pass computes no gradient of the input.
    * `cell_order` is the order of the units in weights and biases, a list of the members of
      `BasicLstmCellUnit`. The order of torch's weights is input gate, forget gate, candidate,
      output gate.

    :raises PoplibsError: if an argument is invalid.
    """

    _: KW_ONLY
    cell_order: Sequence[BasicLstmCellUnit] = tuple(BasicLstmCellUnit)

    @library
    def __post_init__(self) -> None:
        self.check(("output_full_sequence", "calc_input_gradients"))
        self._set("cell_order", checked_order(self.cell_order, BasicLstmCellUnit))

    def place(self, unit: BasicLstmCellUnit) -> int:
        """Return the index of a unit in weights and biases."""
        return list(self.cell_order).index(unit)


LstmLayer = Layer[LstmParams]


@advised("give lstm.LstmState(output, cell_state).")
class LstmState(NamedTuple):
    """The state of a cell, or the gradients of a state: two tensors [batch, output size]."""

    output: Tensor
    cell_state: Tensor


@advised("give lstm.LstmWeights(input_weights, output_weights, biases).")
class LstmWeights(NamedTuple):
    """The weights of a layer, or their gradients.

    `input_weights` is [4, input size, output size], `output_weights` [4, output size, output size]
    and `biases` [4, output size]. The first dimension contains the units in the order of
    `LstmParams.cell_order`.
    """

    input_weights: Tensor
    output_weights: Tensor
    biases: Tensor


class LstmOutputs(NamedTuple):
    """The results of `lstm_fwd`.

    `output` is [time_steps, batch, output size], or [batch, output size] if only the last step is
    returned. `cell_state` [batch, output size] is the cell state after the last step.
    `intermediates` [time_steps, members, batch, output size] contains the saved activations for the
    backward pass; in inference, it is None.
    """

    output: Tensor
    cell_state: Tensor
    intermediates: Tensor | None


class LstmGradients(NamedTuple):
    """The results of `lstm_bwd`.

    `state` contains the gradients of the initial state. `input` [time_steps, batch, input size] is
    the gradient of the input, or None if `LstmParams.calc_input_gradients` is False.
    `intermediates` [time_steps, 4, batch, output size], for `lstm_wu`, contains the gradients of
    the values that the units have before their activations.
    """

    state: LstmState
    input: Tensor | None
    intermediates: Tensor


class LstmTrainingGradients(NamedTuple):
    """The results of `lstm_bwd_with_wu`: the gradients of the initial state, input and weights."""

    state: LstmState
    input: Tensor | None
    weights: LstmWeights


@library
def create_input(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return a variable [time_steps, batch, input size] for the input of an LSTM layer.

    Its slices are distributed evenly over the tiles. With "preCalcWeights", the variable is mapped
    for the product of the whole sequence instead. The options are those of `lstm_fwd`.

    :raises PoplibsError: if no plan of the product fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    if not layer.options["preCalcWeights"]:
        return layer.variable((params.time_steps,), params.input_size, "input")
    rows = params.time_steps * params.batch_size
    x = layer.operand("a", rows, params.input_size, NUM_UNITS * params.output_size, "input")
    return x.reshape(params.input_shape)


@library
def create_initial_output(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return an unwritten variable [batch, output size] for the output before the first step.

    :raises InvalidOptionError: if an option is invalid.
    """
    return layer_of(OPTIONS, graph, params, options, cache, debug_context).state("output")


@library
def create_initial_cell_state(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return an unwritten variable [batch, output size] for the cell state before the first step.

    :raises InvalidOptionError: if an option is invalid.
    """
    return layer_of(OPTIONS, graph, params, options, cache, debug_context).state("cell state")


@library
def create_initial_state(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> LstmState:
    """Return two unwritten variables for the state with which the first time step begins.

    Write them, or call `zero_initial_state`.

    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    return LstmState(layer.state("output"), layer.state("cell state"))


@library
def zero_initial_state(
    graph: Graph, initial_state: LstmState, prog: Program, debug_context: str = OWN
) -> None:
    """Append writes of zeros to the two tensors of a state."""
    zero(graph, concat(list(initial_state)), prog, debug_context=debug_context)


@library
def create_weights_kernel(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the unwritten variables `(input_weights, output_weights)`, mapped for the products.

    The variables have the shapes that `LstmWeights` describes. The options are those of `lstm_fwd`.

    :raises PoplibsError: if no plan of the product fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    batch, inputs, outputs = params.batch_size, params.input_size, params.output_size

    columns = NUM_UNITS * outputs
    if layer.options["preCalcWeights"]:
        rows = params.time_steps * batch
        input_weights = layer.operand("b", rows, inputs, columns, "input weights")
        output_weights = layer.operand("b", batch, outputs, columns, "output weights")
    else:
        weights = layer.operand("b", batch, inputs + outputs, columns, "weights")
        input_weights, output_weights = weights[:inputs], weights[inputs:]
    return by_unit(input_weights, NUM_UNITS), by_unit(output_weights, NUM_UNITS)


@library
def create_weights_biases(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return an unwritten variable [4, output size] for the biases, mapped linearly.

    :raises InvalidOptionError: if an option is invalid.
    """
    layer_of(OPTIONS, graph, params, options, cache, debug_context)
    biases = graph.add_variable(
        params.dtype, (NUM_UNITS, params.output_size), f"{debug_context}/biases"
    )
    map_tensor_linearly(graph, biases)
    return biases


@library
def create_weights(
    graph: Graph,
    params: LstmParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> LstmWeights:
    """Return unwritten variables for the weights and biases of a layer.

    The options are those of `lstm_fwd`.

    :raises PoplibsError: if no plan of a product fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    return LstmWeights(
        *create_weights_kernel(graph, params, debug_context, options, cache),
        create_weights_biases(graph, params, debug_context, options, cache),
    )


@library
def lstm_fwd(
    graph: Graph,
    params: LstmParams,
    prog: Program,
    state_init: LstmState,
    weights: LstmWeights,
    x: Tensor,
    intermediates: bool = False,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> LstmOutputs:
    """Return the output of an LSTM layer for x [time_steps, batch, input size].

    `state_init` is the state before the first step. All tensors have the dtype of `params`. For
    training, set `intermediates`: the result then also contains the tensor that the backward pass
    needs. `options` are PopLibs':

    * "partialsType" and "availableMemoryProportion" are those of `poplin.mat_mul`.
    * "preCalcWeights": if True, one product before the loop multiplies the inputs of all steps by
      the input weights. By default, each step multiplies its input and its state together.
    * "weightAccumulatorsType": the dtype of the gradients of weights, by default that of `params`.
    * "recomputationMode" may only be "none", and "inferenceOnly" has no effect.

    `cache` stores the plans of the products.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, state_init, weights, x)
    cell = layer.variable((_STATE + 1,), params.output_size, "cell")
    prog.add(Copy(state_init.output, cell[_STATE]))
    prog.add(Copy(state_init.cell_state, cell[_CELL]))
    if layer.options["preCalcWeights"]:
        inputs = _weighted(layer, x, weights, prog)
    else:
        inputs = layer.copied(x, prog, "input")
    stored = output = None
    if intermediates:
        members = _members(params)
        stored = layer.sequence((members,), params.output_size, prog, "forward intermediates")
    if params.output_full_sequence:
        output = layer.sequence((), params.output_size, prog, "output")
    loop = LayerLoop(layer, prog, "forward")
    _units(layer, cell, weights, loop.at(inputs, "slice input"), loop.body)
    new_cell_state = _new_state(layer, cell, loop.body)
    if stored is not None:
        loop.store(stored, cell[: stored.shape[1]], "store intermediates")
    loop.body.add(Copy(new_cell_state, cell[_CELL]))
    if output is not None:
        loop.store(output, cell[_STATE], "store output")
    loop.append()
    return LstmOutputs(cell[_STATE] if output is None else output, cell[_CELL], stored)


@library
def lstm_bwd(
    graph: Graph,
    params: LstmParams,
    prog: Program,
    fwd_state_init: LstmState,
    fwd_intermediates: Tensor | None,
    weights: LstmWeights,
    x: Tensor,
    output: Tensor,
    output_grad: Tensor,
    last_cell_state_grad: Tensor | None = None,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> LstmGradients:
    """Return the gradients of the initial state and of the input, from the gradient of the output.

    `fwd_state_init` is the argument `state_init` of `lstm_fwd`; `weights`, x and `options` are the
    arguments of the same names. `fwd_intermediates` and `output` are members of the result of
    `lstm_fwd`. `output_grad`, in the shape of `output`, is the gradient of the output.
    `last_cell_state_grad` [batch, output size] is the gradient of the last cell state; None means
    0.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, fwd_state_init, weights, x)
    saved = _check_backward(layer, fwd_intermediates, output, output_grad, last_cell_state_grad)
    return _backward(layer, prog, saved, weights, output_grad, last_cell_state_grad)


@library
def lstm_wu(
    graph: Graph,
    params: LstmParams,
    prog: Program,
    fwd_state_init: LstmState,
    fwd_intermediates: Tensor | None,
    bwd_intermediates: Tensor,
    weights: LstmWeights,
    x: Tensor,
    output: Tensor,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> LstmWeights:
    """Return the gradients of the weights and biases of an LSTM layer.

    `bwd_intermediates` is a member of the result of `lstm_bwd`. The other arguments are those of
    `lstm_bwd`. Each time step adds a product to the gradients. The gradients are accumulated in the
    dtype that the option "weightAccumulatorsType" sets, and are mapped like `weights`.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, fwd_state_init, weights, x)
    saved = _check_backward(layer, fwd_intermediates, output, None, None)
    shape = (params.time_steps, NUM_UNITS, *params.state_shape)
    check_operand(layer, "bwd_intermediates", bwd_intermediates, shape)
    before = _outputs_before(params, fwd_state_init, saved, output)
    return _weight_gradients(layer, prog, weights, x, before, bwd_intermediates)


@library
def lstm_bwd_with_wu(
    graph: Graph,
    params: LstmParams,
    prog: Program,
    fwd_state_init: LstmState,
    fwd_intermediates: Tensor | None,
    weights: LstmWeights,
    x: Tensor,
    output: Tensor,
    output_grad: Tensor,
    last_cell_state_grad: Tensor | None = None,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> LstmTrainingGradients:
    """Return the gradients of `lstm_bwd` and of `lstm_wu`, with the arguments of `lstm_bwd`.

    The gradients of the weights are computed in a separate loop, after the loop of `lstm_bwd`.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, fwd_state_init, weights, x)
    saved = _check_backward(layer, fwd_intermediates, output, output_grad, last_cell_state_grad)
    gradients = _backward(layer, prog, saved, weights, output_grad, last_cell_state_grad)
    before = _outputs_before(params, fwd_state_init, saved, output)
    weight_gradients = _weight_gradients(layer, prog, weights, x, before, gradients.intermediates)
    return LstmTrainingGradients(gradients.state, gradients.input, weight_gradients)


def _check(layer: LstmLayer, state: LstmState, weights: LstmWeights, x: Tensor) -> None:
    """Raise `PoplibsError` unless the tensors of a layer have the shapes and dtype of `params`."""
    params = layer.params
    check_operand(layer, "x", x, params.input_shape)
    check_fields(layer, "state", state._asdict(), dict.fromkeys(state._fields, params.state_shape))
    units, outputs = NUM_UNITS, params.output_size
    shapes = {
        "input_weights": (units, params.input_size, outputs),
        "output_weights": (units, outputs, outputs),
        "biases": (units, outputs),
    }
    check_fields(layer, "weights", weights._asdict(), shapes)


def _check_backward(
    layer: LstmLayer,
    intermediates: Tensor | None,
    output: Tensor,
    output_grad: Tensor | None,
    cell_state_grad: Tensor | None,
) -> Tensor:
    """Return the checked intermediates of the forward pass.

    :raises PoplibsError: if the intermediates or another tensor do not fit.
    """
    params = layer.params
    stored = check_stored(layer, intermediates, _members(params), "lstm_fwd")
    check_operand(layer, "output", output, params.output_shape)
    if output_grad is not None:
        check_operand(layer, "output_grad", output_grad, params.output_shape)
    if cell_state_grad is not None:
        check_operand(layer, "last_cell_state_grad", cell_state_grad, params.state_shape)
    return stored


def _outputs_before(params: LstmParams, first: LstmState, saved: Tensor, output: Tensor) -> Tensor:
    """Return the output before each time step, as a tensor [time_steps, batch, units]."""
    outputs = output if params.output_full_sequence else saved[:, _STATE]
    return previous(first.output, outputs)


def _members(params: LstmParams) -> int:
    """Return the number of tensors [batch, units] that each step stores for the backward pass."""
    return _STATE if params.output_full_sequence else _STATE + 1


def _weighted(layer: LstmLayer, x: Tensor, weights: LstmWeights, prog: Program) -> Tensor:
    """Return the inputs of all steps times the input weights: [time_steps, 4, batch, units].

    The order in the second dimension is candidate, forget gate, input gate, output gate.
    """
    params = layer.params
    matrix = x.reshape((params.time_steps * params.batch_size, params.input_size))
    product = layer.product(matrix, flat_units(weights.input_weights), prog, "weigh input")
    units = in_order(by_unit(product, NUM_UNITS), [params.place(unit) for unit in _CELL_UNITS])
    by_step = units.reshape((NUM_UNITS, params.time_steps, *params.state_shape))
    return layer.copied(by_step.dim_shuffle([1, 0, 2, 3]), prog, "weighted input")


def _units(layer: LstmLayer, cell: Tensor, weights: LstmWeights, x: Tensor, body: Program) -> None:
    """Compute the four units of a step, apply their activations, and write them to `cell`.

    `cell` [7, batch, units] contains the cell state, the four units, the activated cell state and
    the output. x is the input [batch, input size] or, after "preCalcWeights", the weighted input
    [4, batch, units].
    """
    graph, params, name = layer.graph, layer.params, layer.name
    places = [params.place(unit) for unit in _CELL_UNITS]
    operand, kernel = cell[_STATE], weights.output_weights
    if x.rank == 2:
        operand = concat([x, operand], 1)
        kernel = concat([weights.input_weights, kernel], 1)
    product = layer.product(operand, flat_units(kernel), body, "weigh")
    units = cell[_CANDIDATE : _OUTPUT + 1]
    body.add(Copy(in_order(by_unit(product, NUM_UNITS), places), units))
    if x.rank != 2:
        add_in_place(graph, units, x, body, f"{name}/add weighted input")
    biases = in_order(weights.biases, places).expand([1])
    add_in_place(graph, units, biases, body, f"{name}/add biases")
    activations = (params.recurrent_activation, units[1:]), (params.activation, units[0])
    for kind, tensor in activations:
        non_linearity_in_place(graph, kind, tensor, body, f"{name}/activations")


def _new_state(layer: LstmLayer, cell: Tensor, body: Program) -> Tensor:
    """Return the cell state after a step; write the activated cell state and the output to `cell`.

    `cell` still contains the cell state before the step, because the backward pass needs that one.
    """
    graph, name = layer.graph, layer.name
    products = mul(
        graph,
        cell[_FORGET : _INPUT + 1],
        cell[_CELL : _CANDIDATE + 1],
        body,
        f"{name}/multiply gates",
    )
    cell_state = products[0]
    add_in_place(graph, cell_state, products[1], body, f"{name}/add candidate")
    activated = cell[_ACTIVATED]
    kind = layer.params.activation
    activate(graph, kind, cell_state, activated, body, f"{name}/activate cell state")
    output = cell[_STATE]
    mul_with_output(graph, activated, cell[_OUTPUT], output, body, f"{name}/output gate")
    return cell_state


def _backward(
    layer: LstmLayer,
    prog: Program,
    saved: Tensor,
    weights: LstmWeights,
    output_grad: Tensor,
    cell_state_grad: Tensor | None,
) -> LstmGradients:
    """Append the backward pass of `lstm_bwd`, and return the gradients.

    `saved` contains the intermediates of the forward pass.
    """
    params, graph = layer.params, layer.graph
    gradients = LstmState(layer.state("output gradient"), layer.state("cell state gradient"))
    incoming = None if params.output_full_sequence else output_grad
    for tensor, first in zip(gradients, (incoming, cell_state_grad), strict=True):
        if first is None:
            zero(graph, tensor, prog, f"{layer.name}/zero gradient")
        else:
            prog.add(Copy(first, tensor))
    kernel = flat_units(weights.output_weights)
    precalculated = layer.options["preCalcWeights"]
    joins_input = params.calc_input_gradients and not precalculated
    if joins_input:
        kernel = concat([flat_units(weights.input_weights), kernel])
    loop_kernel = layer.transposed(kernel, params.batch_size, prog, "transpose weights")
    input_grad = None
    if joins_input:
        input_grad = layer.sequence((), params.input_size, prog, "input gradient")
    unit_grads = layer.sequence((NUM_UNITS,), params.output_size, prog, "backward intermediates")
    sequence = None
    if params.output_full_sequence:
        sequence = layer.copied(output_grad, prog, "output gradients")
    loop = LayerLoop(layer, prog, "backward", backward=True)
    members = loop.at(saved, "slice intermediates")
    gradient = gradients.output
    if sequence is not None:
        step_grad = loop.at(sequence, "slice gradient")
        gradient = add(graph, gradient, step_grad, loop.body, f"{layer.name}/add gradients")
    unit_grad, new_cell_grad = _cell_gradients(
        layer, members, gradient, gradients.cell_state, loop.body
    )
    loop.store(unit_grads, unit_grad, "store intermediates")
    places = [_CELL_UNITS.index(unit) for unit in params.cell_order]
    operand = flat_units(in_order(unit_grad, places))
    product = layer.product(operand, loop_kernel, loop.body, "weigh gradient")
    if input_grad is not None:
        loop.store(input_grad, product[:, : params.input_size], "store input gradient")
        product = product[:, params.input_size :]
    loop.body.add(Copy(product, gradients.output))
    loop.body.add(Copy(new_cell_grad, gradients.cell_state))
    loop.append()
    if params.calc_input_gradients and precalculated:
        rows = params.time_steps * params.batch_size
        by_place = in_order(unit_grads.dim_shuffle([1, 0, 2, 3]), places)
        matrix = flat_units(by_place.reshape((NUM_UNITS, rows, params.output_size)))
        input_kernel = flat_units(weights.input_weights)
        input_kernel = layer.transposed(input_kernel, rows, prog, "transpose input weights")
        product = layer.product(matrix, input_kernel, prog, "weigh all gradients")
        input_grad = product.reshape(params.input_shape)
    return LstmGradients(gradients, input_grad, unit_grads)


def _cell_gradients(
    layer: LstmLayer, members: Tensor, output_grad: Tensor, cell_grad: Tensor, body: Program
) -> tuple[Tensor, Tensor]:
    """Return the gradients `(units, cell_state)` of a step, in the shapes [4, ...] and [...].

    `members` contains the intermediates of the step. `output_grad` and `cell_grad` are the
    gradients of the output and of the cell state after the step. The gradients of the units are
    those of their values before the activations, in the order candidate, forget gate, input gate,
    output gate.
    """
    graph, params = layer.graph, layer.params
    name = f"{layer.name}/gate gradients"
    units = layer.variable((NUM_UNITS,), params.output_size, "unit gradients")
    act, recurrent = params.activation, params.recurrent_activation
    # The gradients of the activated cell state and of the output gate.
    both = mul(graph, members[_OUTPUT : _ACTIVATED + 1], output_grad, body, name)
    total = layer.state("cell gradient")
    activation_gradient(graph, act, members[_ACTIVATED], both[0], total, body, name)
    activation_gradient(graph, recurrent, members[_OUTPUT], both[1], units[3], body, name)
    add_in_place(graph, total, cell_grad, body, name)
    # The gradients of the forget gate, the input gate, the previous cell state and the candidate.
    products = mul(graph, members[_CELL : _INPUT + 1], total, body, name)
    gates = members[_FORGET : _INPUT + 1]
    activation_gradient(graph, recurrent, gates, products[:2], units[1:3], body, name)
    activation_gradient(graph, act, members[_CANDIDATE], products[3], units[0], body, name)
    return units, products[2]


def _weight_gradients(
    layer: LstmLayer,
    prog: Program,
    weights: LstmWeights,
    x: Tensor,
    before: Tensor,
    unit_grads: Tensor,
) -> LstmWeights:
    """Append the loop that computes the gradients of weights and biases; return these gradients.

    `before` [time_steps, batch, units] contains the output before each step.
    """
    inputs = layer.params.input_size
    kernel = concat([flat_units(weights.input_weights), flat_units(weights.output_weights)])
    total = layer.accumulator(kernel, prog, "weight gradients")
    bias_total = layer.accumulator(unit_grads[0], prog, "bias gradients")
    x_copy = layer.copied(x, prog, "input")
    loop = LayerLoop(layer, prog, "weight update", backward=True)
    gradient = loop.at(unit_grads, "slice intermediates")
    operand = concat([loop.at(x_copy, "slice input"), loop.at(before, "slice output")], 1)
    places = [_CELL_UNITS.index(unit) for unit in layer.params.cell_order]
    by_place = flat_units(in_order(gradient, places))
    layer.add_product(total, operand.transpose(), by_place, loop.body, "add weight gradients")
    layer.add_gradient(bias_total, gradient, loop.body)
    loop.append()
    bias_total = in_order(bias_total, places)
    return LstmWeights(
        by_unit(total[:inputs], NUM_UNITS),
        by_unit(total[inputs:], NUM_UNITS),
        layer.bias_gradient(bias_total, weights.biases, prog),
    )
