"""The rows of LSTM layers, which `popnn.lstm` computes: "lstm", and its backward pass "lstm_grad".

The inputs of a layer are x [steps, batch, in], w [4 * hidden, in], r [4 * hidden, hidden], b [4 *
hidden], and the state h and c, each [batch, hidden]. The gates are in torch's order.

In PopLibs, `lstm_wu` adds a matrix product to the weight gradients in each time step. Here, a
single matrix product over all time steps computes the weight gradients after the loop. On 1,472
tiles, this saves 20 % of the modelled cycles of a training step with 25 time steps and 128 units.
"""

from __future__ import annotations

from ipu_teach.arguments import check_calls
from ipu_teach.frontends.ir.lowering import Lowering
from ipu_teach.frontends.ir.rows import InputGrads, require
from ipu_teach.frontends.ir.rows_nn import turned
from ipu_teach.frontends.ir.values import OPS, Ir, Op, Out, Row, Value, misuse
from ipu_teach.graph import Tensor, concat
from ipu_teach.poplibs.popnn import lstm

GATES = 4
# The number of tensors [batch, hidden] that each step saves for the backward pass.
SAVED = 6
Unit = lstm.BasicLstmCellUnit
ORDER = (
    Unit.BASIC_LSTM_CELL_INPUT_GATE,
    Unit.BASIC_LSTM_CELL_FORGET_GATE,
    Unit.BASIC_LSTM_CELL_CANDIDATE,
    Unit.BASIC_LSTM_CELL_OUTPUT_GATE,
)
# For each gate in `ORDER`, the gate's index in the intermediates of `lstm_bwd`.
PLACES = (2, 1, 0, 3)
# The options of matrix products that `popnn.lstm` accepts, in camel case and in snake case.
OPTIONS = frozenset(
    ("partialsType", "partials_type", "availableMemoryProportion", "available_memory_proportion")
)


def _shape(x: Value, w: Value, r: Value, b: Value, h: Value, c: Value) -> list[Out]:
    """Return the outputs [steps, batch, hidden], the last cell state and the saved tensors.

    Raises `Unfit` if the shapes or dtypes of the inputs do not fit.
    """
    is_matrix = len(x.shape) == 3 and len(r.shape) == 2
    require(is_matrix, f"x is {list(x.shape)}, and r {list(r.shape)}", "pass x [steps, batch, in].")
    steps, batch, width = x.shape
    hidden = r.shape[1]
    gates, state = GATES * hidden, (batch, hidden)
    expected: list[tuple[int, ...]] = [(gates, width), (gates, hidden), (gates,), state, state]
    for value, shape in zip((w, r, b, h, c), expected, strict=True):
        is_equal = (value.shape, value.dtype) == (shape, x.dtype)
        problem = f"{value!r} is used where the layer needs {x.dtype.__name__}{list(shape)}"
        require(is_equal, problem, "pass weights and states that fit x.")
    require(x.floating and min(*x.shape, hidden) > 0, f"{x!r} is not possible as x", "pass floats.")
    outputs = Out((steps, batch, hidden), x.dtype)
    return [outputs, Out(c.shape, x.dtype), Out((steps, SAVED, batch, hidden), x.dtype)]


def _params(x: Value | Tensor, h: Value | Tensor) -> lstm.LstmParams:
    """Return the parameters of the layer for x [steps, batch, in] and the state h."""
    steps, batch, width = x.shape
    sizes = [width, h.shape[1]]
    # A product after the loop computes the gradient of x.
    return lstm.LstmParams(
        x.dtype, batch, steps, sizes, cell_order=ORDER, calc_input_gradients=False
    )


def _weights(w: Tensor, r: Tensor, b: Tensor) -> lstm.LstmWeights:
    """Return views of weights and biases in the shapes that `popnn.lstm` needs."""
    hidden = r.shape[1]
    w, r = (v.reshape((GATES, hidden, v.shape[1])).dim_shuffle([0, 2, 1]) for v in (w, r))
    return lstm.LstmWeights(w, r, b.reshape((GATES, hidden)))


def _options(low: Lowering) -> dict[str, object]:
    """Return the options of matrix products that `popnn.lstm` accepts."""
    return {name: value for name, value in low.options.items() if name in OPTIONS}


def _lower(
    low: Lowering, x: Tensor, w: Tensor, r: Tensor, b: Tensor, h: Tensor, c: Tensor
) -> list[Tensor]:
    """Add the forward pass and return its results; omit the saved tensors if nothing reads them."""
    is_training = low.is_read(low.op.outs[2])
    results = low.call(
        lstm.lstm_fwd,
        _params(x, h),
        state_init=lstm.LstmState(h, c),
        weights=_weights(w, r, b),
        x=x,
        intermediates=is_training,
        options=_options(low),
    )
    saved = [] if results.intermediates is None else [results.intermediates]
    return [results.output, results.cell_state, *saved]


def _lays(low: Lowering, op: Op, place: int) -> Tensor | None:
    """Return a new variable for w or r, with the tile mapping of the products; None for others."""
    if place not in (1, 2):
        return None
    if (op, place) not in low.prepared:
        x, h = op.inputs[0], op.inputs[4]
        kernels = lstm.create_weights_kernel(
            low.graph, _params(x, h), low.variable_name, _options(low)
        )
        for i, kernel in enumerate(kernels, 1):
            low.prepared[op, i] = kernel.dim_shuffle([0, 2, 1]).reshape(op.inputs[i].shape)
    return low.prepared.pop((op, place))


def _grad(ir: Ir, op: Op, *output_grads: Value | None) -> InputGrads:
    """Add the backward pass, and the products that compute the gradients of x, w and r."""
    x, w, _, _, h, _ = op.inputs
    outs = zip(output_grads[:2], op.outs, strict=False)
    grads = [g or ir.constant(0.0, x.dtype, v.shape) for g, v in outs]
    outputs, _, saved = op.outs
    gates, *state_grads = ir.emit("lstm_grad", *op.inputs, outputs, saved, *grads)
    first = ir.op("reshape", h, shape=(1, *h.shape))
    before = ir.op("slice", outputs, dim=0, begin=0, end=x.shape[0] - 1)
    before = ir.op("concat", first, before, dim=0) if x.shape[0] > 1 else first
    gate_rows, x_rows, state_rows = (
        ir.op("reshape", v, shape=(x.shape[0] * x.shape[1], v.shape[2])) for v in (gates, x, before)
    )
    by_gate = turned(ir, gate_rows)
    return [
        ir.op("matmul", gates, w),
        ir.op("matmul", by_gate, x_rows),
        ir.op("matmul", by_gate, state_rows),
        ir.op("sum", gate_rows, dims=(0,)),
        *state_grads,
    ]


def _grad_shape(*values: Value) -> list[Out]:
    """Return the gradients of the gates before their activations, and of the initial state.

    The `values` are the inputs of the forward pass, its outputs and saved tensors, and the
    gradients of the outputs and of the last cell state. Raises `Unfit` if their shapes or dtypes do
    not match the forward pass.
    """
    x, w, h = values[0], values[1], values[4]
    outputs, last, saved = _shape(*values[:6])
    for value, out in zip(values[6:], (outputs, saved, outputs, last), strict=True):
        is_equal = (value.shape, value.dtype) == (out.shape, out.dtype)
        require(is_equal, f"{value!r} does not fit the forward pass", "pass the values of 'lstm'.")
    state_grad = Out(h.shape, x.dtype)
    return [Out((*x.shape[:2], w.shape[0]), x.dtype), state_grad, state_grad]


def _lower_grad(low: Lowering, *operands: Tensor) -> list[Tensor]:
    """Add the backward pass; return the gradients of the gates and of the initial state."""
    x, w, r, b, h, c, outputs, saved, output_grad, cell_grad = operands
    results = low.call(
        lstm.lstm_bwd,
        _params(x, h),
        fwd_state_init=lstm.LstmState(h, c),
        fwd_intermediates=saved,
        weights=_weights(w, r, b),
        x=x,
        output=outputs,
        output_grad=output_grad,
        last_cell_state_grad=cell_grad,
        options=_options(low),
    )
    by_gate = concat([results.intermediates[:, place : place + 1] for place in PLACES], 1)
    gates = by_gate.dim_shuffle([0, 2, 1, 3]).reshape(low.op.outs[0].shape)
    return [gates, *results.state]


OPS["lstm"] = Row(_shape, _lower, _grad, lays=_lays)
OPS["lstm_grad"] = Row(_grad_shape, _lower_grad)


check_calls(globals(), misuse)
