"""GRU layers: the outputs of a sequence, and the gradients of input, state, weights and biases.

    params = gru.GruParams(FLOAT, 16, 25, [64, 128])            # batch, steps, [input, output]
    x = gru.create_input(graph, params, "x")                    # [25, 16, 64]
    weights = gru.create_weights(graph, params, "weights")
    start = gru.create_initial_state(graph, params, "start")
    forward = gru.gru_fwd(graph, params, start, x, weights, True, prog)
    backward = gru.gru_bwd_with_wu(
        graph, params, prog, start, forward.intermediates, weights, x, forward.output, output_grad
    )

A time step computes, for the input x and the state h, with the recurrent activation s and the
activation a:

    r = s(x Wr + h Ur + br)    u = s(x Wu + h Uu + bu)    c = a(x Wc + (r h) Uc + bc)
    h = u h + (1 - u) c

With `reset_after`, as in torch, the reset gate r multiplies the product: c = a(x Wc + bc + r (h Uc
+ dc)). The biases of x and of h are then separate. The modelled cycles are those of the products
and of the elementwise operations. These are the operations of PopLibs (popnn/Gru.cpp).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import NamedTuple

from ipu_teach.graph import Graph, Tensor, concat
from ipu_teach.poplibs.library import OWN, advised, library
from ipu_teach.poplibs.options import Options
from ipu_teach.poplibs.poplin import PlanningCache
from ipu_teach.poplibs.popnn.nonlinearity import activation_gradient, non_linearity_in_place
from ipu_teach.poplibs.popnn.recurrent import (
    OPTIONS,
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
from ipu_teach.poplibs.popops import (
    add,
    add_in_place,
    expr,
    map,
    map_in_place,
    mul,
    mul_with_output,
    zero,
)
from ipu_teach.poplibs.poputil import map_tensor_linearly
from ipu_teach.program import Copy, Sequence as Program

__all__ = [
    "BasicGruCellUnit",
    "GruGradients",
    "GruOutputs",
    "GruParams",
    "GruTrainingGradients",
    "GruWeights",
    "create_initial_state",
    "create_input",
    "create_weights",
    "create_weights_biases",
    "create_weights_kernel",
    "get_default_basic_gru_cell_order",
    "gru_bwd",
    "gru_bwd_with_wu",
    "gru_fwd",
    "gru_wu",
]

NUM_UNITS = 3


class BasicGruCellUnit(Enum):
    """The units of a GRU cell: two gates, and the candidate for the state."""

    BASIC_GRU_CELL_RESET_GATE = 0
    BASIC_GRU_CELL_UPDATE_GATE = 1
    BASIC_GRU_CELL_CANDIDATE = 2


RESET, UPDATE, CANDIDATE = BasicGruCellUnit
GATES = (RESET, UPDATE)
# The indices of the members of a cell [members, batch, output size], counted from the first member
# after the optional ones.
_RESET, _UPDATE, _CANDIDATE, _STATE = range(4)
# The index of the gradient of the product h Uc. It follows the gradients of the three units.
_RECURRENT = 3


@library
def get_default_basic_gru_cell_order() -> list[BasicGruCellUnit]:
    """Return the default order of the units: reset gate, update gate, candidate."""
    return list(BasicGruCellUnit)


@advised("give gru.GruParams(…).")
@dataclass(frozen=True)
class GruParams(LayerParams):
    """The parameters of a GRU layer on sequences [time_steps, batch_size, input size].

    * `dtype` is FLOAT or HALF, and `layer_sizes` is [input size, output size].
    * `activation` (of the candidate) and `recurrent_activation` (of the gates) are a
      `NonLinearityType` or its name: TANH, SIGMOID, HARD_SIGMOID or RELU.
    * If `output_full_sequence` is False, only the output of the last time step is returned.
    * If `calc_input_gradients` is False, the backward pass computes no gradient of the input.
    * `cell_order` is the order of the units in weights and biases, a list of the members of
      `BasicGruCellUnit`.
    * `reset_after`: whether the reset gate multiplies the state after the product, as in torch.

    :raises PoplibsError: if an argument is invalid.
    """

    _: KW_ONLY
    cell_order: Sequence[BasicGruCellUnit] = tuple(BasicGruCellUnit)
    reset_after: bool = False

    @library
    def __post_init__(self) -> None:
        self.check(("output_full_sequence", "calc_input_gradients", "reset_after"))
        self._set("cell_order", checked_order(self.cell_order, BasicGruCellUnit))

    @property
    def places(self) -> list[int]:
        """The indices of reset gate, update gate and candidate in weights and biases."""
        return [list(self.cell_order).index(unit) for unit in BasicGruCellUnit]

    @property
    def num_stored(self) -> int:
        """The number of tensors [batch, output size] that a step stores for the backward pass."""
        return NUM_UNITS + self.reset_after + (not self.output_full_sequence)


GruLayer = Layer[GruParams]


@advised("give gru.GruWeights(input_weights, output_weights, biases).")
class GruWeights(NamedTuple):
    """The weights of a layer, or their gradients.

    `input_weights` is [3, input size, output size], `output_weights` [3, output size, output size]
    and `biases` [3, output size]. The first dimension contains the units in the order of
    `GruParams.cell_order`. With `reset_after`, `biases` is [3, 2, output size]: first the biases of
    the input's products, then the biases of the state's products.
    """

    input_weights: Tensor
    output_weights: Tensor
    biases: Tensor


class GruOutputs(NamedTuple):
    """The results of `gru_fwd`.

    `output` is [time_steps, batch, output size], or [batch, output size] if only the last step is
    returned. `intermediates` [time_steps, members, batch, output size] is for the backward pass; it
    is None in inference.
    """

    output: Tensor
    intermediates: Tensor | None


class GruGradients(NamedTuple):
    """The results of `gru_bwd`.

    `state` is the gradient of the initial state. `input` [time_steps, batch, input size] is the
    gradient of the input, or None if `GruParams.calc_input_gradients` is False. `intermediates`
    [time_steps, members, batch, output size] contains the gradients of the units before their
    activations, for `gru_wu`.
    """

    state: Tensor
    input: Tensor | None
    intermediates: Tensor


class GruTrainingGradients(NamedTuple):
    """The results of `gru_bwd_with_wu`: the gradients of the initial state, input and weights."""

    state: Tensor
    input: Tensor | None
    weights: GruWeights


@library
def create_input(
    graph: Graph,
    params: GruParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return an unwritten variable [time_steps, batch, input size] for the input of a GRU layer.

    Its slices are distributed evenly over the tiles. The options are those of `gru_fwd`.

    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    return layer.variable((params.time_steps,), params.input_size, "input")


@library
def create_initial_state(
    graph: Graph,
    params: GruParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return an unwritten variable [batch, output size] for the state before the first step.

    :raises InvalidOptionError: if an option is invalid.
    """
    return layer_of(OPTIONS, graph, params, options, cache, debug_context).state("state")


@library
def create_weights_kernel(
    graph: Graph,
    params: GruParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> tuple[Tensor, Tensor]:
    """Return `(input_weights, output_weights)`, unwritten, mapped as the products need them.

    Their shapes are those of `GruWeights`, and the options those of `gru_fwd`.

    :raises PoplibsError: if no plan of a product fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    batch, inputs, outputs = params.batch_size, params.input_size, params.output_size
    if params.reset_after:
        kernels = [
            by_unit(layer.operand("b", batch, size, NUM_UNITS * outputs, name), NUM_UNITS)
            for size, name in ((inputs, "input weights"), (outputs, "output weights"))
        ]
    else:
        size = inputs + outputs
        gates = by_unit(layer.operand("b", batch, size, 2 * outputs, "gate weights"), 2)
        candidate = layer.operand("b", batch, size, outputs, "candidate weights").expand([0])
        weights = concat([gates, candidate])
        kernels = [weights[:, :inputs], weights[:, inputs:]]
    order = [unit.value for unit in params.cell_order]
    return in_order(kernels[0], order), in_order(kernels[1], order)


@library
def create_weights_biases(
    graph: Graph,
    params: GruParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    """Return an unwritten variable for the biases, in the shape of `GruWeights.biases`.

    It is mapped linearly.

    :raises InvalidOptionError: if an option is invalid.
    """
    layer_of(OPTIONS, graph, params, options, cache, debug_context)
    biases = graph.add_variable(params.dtype, _bias_shape(params), f"{debug_context}/biases")
    map_tensor_linearly(graph, biases)
    return biases


@library
def create_weights(
    graph: Graph,
    params: GruParams,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> GruWeights:
    """Return unwritten variables for the weights and biases of a layer.

    The options are those of `gru_fwd`.

    :raises PoplibsError: if no plan of a product fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    return GruWeights(
        *create_weights_kernel(graph, params, debug_context, options, cache),
        create_weights_biases(graph, params, debug_context, options, cache),
    )


@library
def gru_fwd(
    graph: Graph,
    params: GruParams,
    state_init: Tensor,
    x: Tensor,
    weights: GruWeights,
    intermediates: bool,
    prog: Program,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> GruOutputs:
    """Return the output of a GRU layer for x [time_steps, batch, input size].

    `state_init` [batch, output size] is the state before the first step. All tensors have the dtype
    of `params`. If `intermediates` is True, the result also contains the tensor that the backward
    pass needs.

    `options` are PopLibs' "partialsType" and "availableMemoryProportion", which are those of
    `poplin.mat_mul`, and "inferenceOnly", which has no effect. `cache` stores the plans of the
    products.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, state_init, weights, x)
    # With reset_after, a cell begins with the products of the state: first the products for the
    # gates, and then the product for the candidate. Only the current step needs the products for
    # the gates.
    whole_cell = layer.variable(
        (_STATE + 1 + NUM_UNITS * params.reset_after,), params.output_size, "cell"
    )
    cell = whole_cell[-_STATE - 1 :]
    prog.add(Copy(state_init, cell[_STATE]))
    inputs = layer.copied(x, prog, "input")
    stored = output = None
    if intermediates:
        stored = layer.sequence((params.num_stored,), params.output_size, prog, "intermediates")
    if params.output_full_sequence:
        output = layer.sequence((), params.output_size, prog, "output")
    loop = LayerLoop(layer, prog, "forward")
    x_now = loop.at(inputs, "slice input")
    if params.reset_after:
        _units_reset_after(layer, whole_cell, weights, x_now, loop.body)
    else:
        _units(layer, cell, weights, x_now, loop.body)
    # The new state is c + u (h - c).
    state, candidate, update = expr._1, expr._2, expr._3
    tensors = [cell[_STATE], cell[_CANDIDATE], cell[_UPDATE]]
    new_state = candidate + update * (state - candidate)
    map_in_place(graph, new_state, tensors, loop.body, f"{debug_context}/new state")
    if stored is not None:
        first = NUM_UNITS - 1 if params.reset_after else 0
        members = whole_cell[first : first + params.num_stored]
        loop.store(stored, members, "store intermediates")
    if output is not None:
        loop.store(output, cell[_STATE], "store output")
    loop.append()
    return GruOutputs(cell[_STATE] if output is None else output, stored)


@library
def gru_bwd(
    graph: Graph,
    params: GruParams,
    prog: Program,
    fwd_output_init: Tensor,
    fwd_intermediates: Tensor | None,
    weights: GruWeights,
    x: Tensor,
    output: Tensor,
    output_grad: Tensor,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> GruGradients:
    """Return the gradients of the initial state and of the input, from the output's gradient.

    `fwd_output_init` is the `state_init` of `gru_fwd`. `weights`, x and `options` are those of
    `gru_fwd`; `fwd_intermediates` and `output` are members of its result. `output_grad`, in the
    shape of `output`, is the gradient of the output.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, fwd_output_init, weights, x)
    saved, before = _check_backward(layer, fwd_output_init, fwd_intermediates, output)
    check_operand(layer, "output_grad", output_grad, params.output_shape)
    return _backward(layer, prog, saved, before, weights, output_grad)


@library
def gru_wu(
    graph: Graph,
    params: GruParams,
    prog: Program,
    fwd_output_init: Tensor,
    fwd_intermediates: Tensor | None,
    bwd_intermediates: Tensor,
    weights: GruWeights,
    x: Tensor,
    output: Tensor,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> GruWeights:
    """Return the gradients of the weights and biases of a GRU layer.

    `bwd_intermediates` is a member of the result of `gru_bwd`. The other arguments are those of
    `gru_bwd`. Each time step adds its products to the gradients, which are mapped like `weights`.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, fwd_output_init, weights, x)
    saved, before = _check_backward(layer, fwd_output_init, fwd_intermediates, output)
    shape = (params.time_steps, NUM_UNITS + params.reset_after, *params.state_shape)
    check_operand(layer, "bwd_intermediates", bwd_intermediates, shape)
    return _weight_gradients(layer, prog, saved, before, weights, x, bwd_intermediates)


@library
def gru_bwd_with_wu(
    graph: Graph,
    params: GruParams,
    prog: Program,
    fwd_output_init: Tensor,
    fwd_intermediates: Tensor | None,
    weights: GruWeights,
    x: Tensor,
    output: Tensor,
    output_grad: Tensor,
    debug_context: str = OWN,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> GruTrainingGradients:
    """Return the gradients of `gru_bwd` and of `gru_wu`, with the arguments of `gru_bwd`.

    The gradients of the weights are computed in a separate loop, after the loop of `gru_bwd`.

    :raises PoplibsError: if a shape or dtype does not fit, or if no plan of a product fits.
    :raises InvalidOptionError: if an option is invalid.
    """
    layer = layer_of(OPTIONS, graph, params, options, cache, debug_context)
    _check(layer, fwd_output_init, weights, x)
    saved, before = _check_backward(layer, fwd_output_init, fwd_intermediates, output)
    check_operand(layer, "output_grad", output_grad, params.output_shape)
    gradients = _backward(layer, prog, saved, before, weights, output_grad)
    unit_grads = gradients.intermediates
    weight_grads = _weight_gradients(layer, prog, saved, before, weights, x, unit_grads)
    return GruTrainingGradients(gradients.state, gradients.input, weight_grads)


def _bias_shape(params: GruParams) -> tuple[int, ...]:
    separate = (2,) if params.reset_after else ()
    return (NUM_UNITS, *separate, params.output_size)


def _check(layer: GruLayer, state: Tensor, weights: GruWeights, x: Tensor) -> None:
    """Raise `PoplibsError` unless the tensors of a layer have the shapes and dtype of `params`."""
    params = layer.params
    check_operand(layer, "x", x, params.input_shape)
    check_operand(layer, "the initial state", state, params.state_shape)
    shapes = {
        "input_weights": (NUM_UNITS, params.input_size, params.output_size),
        "output_weights": (NUM_UNITS, params.output_size, params.output_size),
        "biases": _bias_shape(params),
    }
    check_fields(layer, "weights", weights._asdict(), shapes)


def _check_backward(
    layer: GruLayer, first: Tensor, intermediates: Tensor | None, output: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the checked intermediates of the forward pass, and the states before the steps.

    :raises PoplibsError: if the intermediates or `output` do not fit.
    """
    params = layer.params
    stored = check_stored(layer, intermediates, params.num_stored, "gru_fwd")
    check_operand(layer, "output", output, params.output_shape)
    outputs = output if params.output_full_sequence else stored[:, -1]
    return stored[:, : NUM_UNITS + params.reset_after], previous(first, outputs)


def _kernel(params: GruParams, weights: GruWeights, units: Sequence[BasicGruCellUnit]) -> Tensor:
    """Return the weights of `units` for the input and the state: [input size + output size, …]."""
    places = [params.places[unit.value] for unit in units]
    parts = (weights.input_weights, weights.output_weights)
    return concat([flat_units(in_order(part, places)) for part in parts])


def _units(layer: GruLayer, cell: Tensor, weights: GruWeights, x: Tensor, body: Program) -> None:
    """Compute the three units of a step, and write them to `cell` after their activations.

    `cell` [4, batch, output size] contains the three units and the state.
    """
    graph, params, name = layer.graph, layer.params, layer.name
    state = cell[_STATE]
    for units, kind in ((GATES, params.recurrent_activation), ((CANDIDATE,), params.activation)):
        if CANDIDATE in units:
            state = mul(graph, cell[_RESET], state, body, f"{name}/reset")
        kernel = _kernel(params, weights, units)
        product = layer.product(concat([x, state], 1), kernel, body, "weigh")
        results = cell[units[0].value : units[-1].value + 1]
        body.add(Copy(by_unit(product, len(units)), results))
        biases = in_order(weights.biases, [params.places[unit.value] for unit in units])
        add_in_place(graph, results, biases.expand([1]), body, f"{name}/add biases")
        non_linearity_in_place(graph, kind, results, body, f"{name}/activations")


def _units_reset_after(
    layer: GruLayer, cell: Tensor, weights: GruWeights, x: Tensor, body: Program
) -> None:
    """Compute the units of a step if the reset gate follows the product.

    `cell` contains the three products of the state, the three units, and the state.
    """
    graph, params, name = layer.graph, layer.params, layer.name
    recurrent, units, state = cell[:NUM_UNITS], cell[NUM_UNITS:-1], cell[-1]
    for operand, kernel, results in (
        (x, weights.input_weights, units),
        (state, weights.output_weights, recurrent),
    ):
        flat = flat_units(in_order(kernel, params.places))
        body.add(Copy(by_unit(layer.product(operand, flat, body, "weigh"), NUM_UNITS), results))
    biases = in_order(weights.biases, params.places)
    both = concat([biases[:, 1], biases[:, 0]]).expand([1])
    add_in_place(graph, cell[:-1], both, body, f"{name}/add biases")
    gates, candidate = units[:_CANDIDATE], units[_CANDIDATE]
    add_in_place(graph, gates, recurrent[:_CANDIDATE], body, f"{name}/add products")
    kinds = params.recurrent_activation, params.activation
    non_linearity_in_place(graph, kinds[0], gates, body, f"{name}/activations")
    reset = mul(graph, recurrent[_CANDIDATE], gates[_RESET], body, f"{name}/reset")
    add_in_place(graph, candidate, reset, body, f"{name}/add products")
    non_linearity_in_place(graph, kinds[1], candidate, body, f"{name}/activations")


def _backward(
    layer: GruLayer,
    prog: Program,
    saved: Tensor,
    before: Tensor,
    weights: GruWeights,
    output_grad: Tensor,
) -> GruGradients:
    """Return the gradients of `gru_bwd`; append its program.

    `saved` contains the intermediates of the forward pass, and `before` the states with which the
    time steps begin.
    """
    params, graph = layer.params, layer.graph
    gradient = layer.state("state gradient")
    sequence = None
    if params.output_full_sequence:
        zero(graph, gradient, prog, f"{layer.name}/zero gradient")
        sequence = layer.copied(output_grad, prog, "output gradients")
    else:
        prog.add(Copy(output_grad, gradient))
    step = _step_reset_after if params.reset_after else _step
    num_grads = NUM_UNITS + params.reset_after
    unit_grads = layer.sequence((num_grads,), params.output_size, prog, "unit gradients")
    input_grad = None
    if params.calc_input_gradients:
        input_grad = layer.sequence((), params.input_size, prog, "input gradient")
    loop = LayerLoop(layer, prog, "backward", backward=True)
    members = loop.at(saved, "slice intermediates")
    state = loop.at(before, "slice state")
    total = gradient
    if sequence is not None:
        step_grad = loop.at(sequence, "slice gradient")
        total = add(graph, gradient, step_grad, loop.body, f"{layer.name}/add gradients")
    units = layer.variable((num_grads,), params.output_size, "unit gradients of a step")
    x_grad = step(layer, (members, state, units, total), weights, gradient, prog, loop.body)
    loop.store(unit_grads, units, "store intermediates")
    if input_grad is not None:
        loop.store(input_grad, x_grad, "store input gradient")
    loop.append()
    return GruGradients(gradient, input_grad, unit_grads)


def _gate_gradients(
    layer: GruLayer, members: Tensor, state: Tensor, total: Tensor, units: Tensor, body: Program
) -> None:
    """Write a step's gradients of the update gate and of the candidate to `units`.

    `members` contains reset gate, update gate and candidate. `state` is the state before the step,
    and `total` the gradient of the state after it.
    """
    graph, params = layer.graph, layer.params
    name = f"{layer.name}/gate gradients"
    update, candidate = members[_UPDATE], members[_CANDIDATE]
    _1, _2, _3 = expr._1, expr._2, expr._3
    of_candidate = map(graph, _1 - _1 * _2, [total, update], body, name)
    of_update = map(graph, _1 * (_2 - _3), [total, state, candidate], body, name)
    kinds = params.activation, params.recurrent_activation
    activation_gradient(graph, kinds[0], candidate, of_candidate, units[_CANDIDATE], body, name)
    activation_gradient(graph, kinds[1], update, of_update, units[_UPDATE], body, name)


StepTensors = tuple[Tensor, Tensor, Tensor, Tensor]


def _step(
    layer: GruLayer,
    tensors: StepTensors,
    weights: GruWeights,
    gradient: Tensor,
    prog: Program,
    body: Program,
) -> Tensor:
    """Append the backward pass of a step; return the gradient of the step's input.

    `tensors` contains the units of the forward pass, the state before the step, the gradients of
    the units, which this function writes, and the gradient of the state after the step. The
    gradient of the state before the step is written to `gradient`. If `calc_input_gradients` is
    False, the result has no meaning.
    """
    graph, params, inputs = layer.graph, layer.params, layer.params.input_size
    members, state, units, total = tensors
    name = f"{layer.name}/gate gradients"
    reset = members[_RESET]
    _gate_gradients(layer, members, state, total, units, body)

    def product(some_units: Sequence[BasicGruCellUnit], grads: Tensor) -> Tensor:
        kernel = _kernel(params, weights, some_units)
        arranged = layer.transposed(kernel, params.batch_size, prog, "transpose weights")
        return layer.product(flat_units(grads), arranged, body, "weigh gradient")

    of_candidate = product((CANDIDATE,), units[_CANDIDATE:])
    of_reset_state = layer.copied(of_candidate[:, inputs:], body, "gradient of reset state")
    of_reset = mul(graph, of_reset_state, state, body, name)
    kind = params.recurrent_activation
    activation_gradient(graph, kind, reset, of_reset, units[_RESET], body, name)
    of_gates = product(GATES, units[:_CANDIDATE])
    of_state = layer.copied(of_gates[:, inputs:], body, "gradient of state")
    _1, _2, _3, _4, _5 = expr._1, expr._2, expr._3, expr._4, expr._5
    operands = [total, members[_UPDATE], of_reset_state, reset, of_state]
    new_gradient = map(graph, _1 * _2 + _3 * _4 + _5, operands, body, name)
    body.add(Copy(new_gradient, gradient))
    if not params.calc_input_gradients:
        return units
    of_x, of_x_candidate = (
        layer.copied(part[:, :inputs], body, "input") for part in (of_gates, of_candidate)
    )
    return add(graph, of_x, of_x_candidate, body, f"{layer.name}/add input gradients")


def _step_reset_after(
    layer: GruLayer,
    tensors: StepTensors,
    weights: GruWeights,
    gradient: Tensor,
    prog: Program,
    body: Program,
) -> Tensor:
    """Do the work of `_step` if the reset gate multiplies the product of the state.

    The first member of `tensors` contains the state's product for the candidate, followed by the
    units.
    """
    graph, params = layer.graph, layer.params
    stored, state, units, total = tensors
    recurrent, members = stored[0], stored[1:]
    name = f"{layer.name}/gate gradients"
    _gate_gradients(layer, members, state, total, units, body)
    candidate, reset = units[_CANDIDATE], members[_RESET]
    of_reset = mul(graph, candidate, recurrent, body, name)
    kind = params.recurrent_activation
    activation_gradient(graph, kind, reset, of_reset, units[_RESET], body, name)
    mul_with_output(graph, candidate, reset, units[_RECURRENT], body, name)

    def product(kernel: Tensor, grads: Tensor) -> Tensor:
        flat = flat_units(in_order(kernel, params.places))
        arranged = layer.transposed(flat, params.batch_size, prog, "transpose weights")
        return layer.product(flat_units(grads), arranged, body, "weigh gradient")

    recurrent_units = in_order(units, [_RESET, _UPDATE, _RECURRENT])
    of_state = product(weights.output_weights, recurrent_units)
    of_state = layer.copied(of_state, body, "gradient of state")
    operands = [total, members[_UPDATE], of_state]
    new_gradient = map(graph, expr._1 * expr._2 + expr._3, operands, body, name)
    body.add(Copy(new_gradient, gradient))
    if not params.calc_input_gradients:
        return units
    return product(weights.input_weights, units[:NUM_UNITS])


def _weight_gradients(
    layer: GruLayer,
    prog: Program,
    saved: Tensor,
    before: Tensor,
    weights: GruWeights,
    x: Tensor,
    unit_grads: Tensor,
) -> GruWeights:
    """Return the gradients of weights and biases; append the loop that computes them."""
    params, inputs = layer.params, layer.params.input_size
    bias_total = layer.accumulator(unit_grads[0], prog, "bias gradients")
    x_copy = layer.copied(x, prog, "input")
    loop = LayerLoop(layer, prog, "weight update", backward=True)
    gradient = loop.at(unit_grads, "slice intermediates")
    x_now, state = loop.at(x_copy, "slice input"), loop.at(before, "slice state")
    # Each item is (a kernel, the operand that it multiplies, the gradients of units).
    parts: list[tuple[Tensor, Tensor, Tensor]]
    if params.reset_after:
        kernels = [
            flat_units(in_order(kernel, params.places))
            for kernel in (weights.input_weights, weights.output_weights)
        ]
        of_state = in_order(gradient, [_RESET, _UPDATE, _RECURRENT])
        parts = [(kernels[0], x_now, gradient[:NUM_UNITS]), (kernels[1], state, of_state)]
    else:
        reset = loop.at(saved, "slice gates")[_RESET]
        reset_state = mul(layer.graph, reset, state, loop.body, f"{layer.name}/reset")
        gates, candidate = (_kernel(params, weights, units) for units in (GATES, (CANDIDATE,)))
        parts = [
            (gates, concat([x_now, state], 1), gradient[:_CANDIDATE]),
            (candidate, concat([x_now, reset_state], 1), gradient[_CANDIDATE:]),
        ]
    totals = []
    for kernel, operand, grads in parts:
        total = layer.accumulator(kernel, prog, "weight gradients")
        flat = flat_units(grads)
        layer.add_product(total, operand.transpose(), flat, loop.body, "add weight gradients")
        totals.append(by_unit(total, grads.shape[0]))
    layer.add_gradient(bias_total, gradient, loop.body)
    loop.append()
    order = [unit.value for unit in params.cell_order]
    if params.reset_after:
        both = in_order(bias_total, [_RESET, _RESET, _UPDATE, _UPDATE, _CANDIDATE, _RECURRENT])
        bias_total = both.reshape((NUM_UNITS, 2, *params.state_shape))
        grads_of = totals
    else:
        all_units = concat(totals)
        grads_of = [all_units[:, :inputs], all_units[:, inputs:]]
    return GruWeights(
        in_order(grads_of[0], order),
        in_order(grads_of[1], order),
        layer.bias_gradient(in_order(bias_total, order), weights.biases, prog),
    )
