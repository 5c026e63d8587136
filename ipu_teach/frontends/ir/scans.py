"""Scans: loops whose body is a graph of its own. Each step runs the operations of the body."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, TypedDict

from ipu_teach.arguments import check_calls
from ipu_teach.frontends.ir.autodiff import Gradients, add_gradients, without_unused_backward
from ipu_teach.frontends.ir.lowering import Lowering, body_ops
from ipu_teach.frontends.ir.rows import InputGrads, require
from ipu_teach.frontends.ir.values import (
    BACKWARD,
    CONSTANT,
    OPS,
    Ir,
    Op,
    Out,
    Row,
    Value,
    misuse,
    swapped,
)
from ipu_teach.graph import Tensor, concat
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Program, Sequence as Programs
from ipu_teach.types import UNSIGNED_INT, DType

if TYPE_CHECKING:
    from typing_extensions import Unpack

Values = Sequence[Value]


class _Reverse(TypedDict, total=False):
    """The direction of a scan. The steps run from last to first if `reverse` is true."""

    reverse: bool


class Attributes(_Reverse):
    """The attributes of a scan.

    `body` is the graph of one step, and `steps` is the number of steps. The first `along` inputs of
    the scan contain an element for each step. The next `kept` inputs are the initial values that
    are carried from step to step. All other inputs are the same in all steps.
    """

    body: Ir
    steps: int
    along: int
    kept: int


def scan(
    ir: Ir,
    step: Callable[[Ir, list[Value], list[Value]], tuple[Values, Values]],
    xs: Values,
    carried: Values,
) -> tuple[list[Value], list[Value]]:
    """Return the carried values after the last step, and the outputs of all steps [steps, …].

    `step(graph, x, carried)` adds the operations of one step to `graph`, and returns `(after,
    outs)`. It is called once, during this call. Each value in `xs` has the shape [steps, …], and
    `x` contains its part for one step. `carried` are the values that a step gets from the step
    before it, `after` the values that it passes to the next step, and `outs` its outputs. A step
    may also read other values, which are the same in all steps. Random numbers are the same in all
    steps, too.

    :raises ModelError: if `xs` is empty, if a value belongs to another graph, if a step changes a
        variable, or if the shape or dtype of a carried value changes.
    """
    if not xs:
        raise misuse(
            "scan() was given an empty xs, so the number of steps is unknown.",
            "pass at least one value of shape [steps, …] in xs.",
        )
    for value in (*xs, *carried):
        ir.check_own("scan", value)
    body = Ir(context={**ir.context}, family=ir.family)
    x_of_step = [body.input(x.shape[1:], f"x{i}", x.dtype) for i, x in enumerate(xs)]
    carried_inputs = [
        body.input(initial.shape, f"carried{i}", initial.dtype) for i, initial in enumerate(carried)
    ]
    carried_results, step_outputs = step(body, x_of_step, carried_inputs)
    for i, value in enumerate((*carried_results, *step_outputs)):
        body.output(f"{i}", value)
    inputs = (*xs, *carried, *_closed(body))
    for op in reversed(body.ops):  # Limits of a part of an input become limits of the whole input.
        for result in op.outs:
            if op.kind == "slice" and result.below is not None:
                body.classes(op.inputs[0], result.below, result.ignored)
    for value, body_input in zip(inputs, body.inputs.values(), strict=True):
        if body_input.below is not None:
            ir.classes(value, body_input.below, body_input.ignored)
    results = ir.emit("scan", *inputs, **_attributes(body, xs, carried, xs[0].shape[0]))
    return list(results[: len(carried_results)]), list(results[len(carried_results) :])


def _attributes(
    body: Ir, xs: Values, carried: Values, steps: int, **reverse: Unpack[_Reverse]
) -> Attributes:
    """Return the attributes of a scan: its body, the number of its steps, and its input counts.

    The inputs of the body are the values `xs`, then the values `carried`, then all other values
    that the body reads.
    """
    return {"body": body, "steps": steps, "along": len(xs), "kept": len(carried), **reverse}


def _closed(body: Ir) -> list[Value]:
    """Add an input to `body` for each outer value that it reads, and return the outer values.

    An outer value is a value of another graph that is not a constant.
    """
    body_values = {*body.inputs.values(), *body.maker()}
    read_values = [v for op in body.ops for v in op.inputs] + list(body.outputs.values())
    outer_values = [
        v for v in dict.fromkeys(read_values) if v not in body_values and v.kind != CONSTANT
    ]
    inner_values = {v: body.input(v.shape, f"free{i}", v.dtype) for i, v in enumerate(outer_values)}
    body.ops = [swapped(op, inner_values) for op in body.ops]
    body.outputs = {name: inner_values.get(v, v) for name, v in body.outputs.items()}
    return outer_values


def _shape(
    *values: Value, body: Ir, steps: int, along: int, kept: int, reverse: bool = False
) -> list[Out]:
    """Return the shape and dtype of each result of a scan.

    The results are the `kept` carried values after the last step, then the outputs of all steps,
    which have the shape [steps, …].

    Raises `Unfit` if the inputs `values` of the scan do not fit its body, or if the body changes a
    variable.
    """
    body_inputs = [*body.inputs.values()]
    body_outputs = [*body.outputs.values()]
    is_valid = (
        steps >= 1 and along >= 0 and 0 <= kept <= min(len(body_inputs) - along, len(body_outputs))
    )
    is_valid = is_valid and len(values) == len(body_inputs)
    why = "the numbers of its inputs do not match its body"
    require(is_valid, why, "create the scan with ir.scan().")
    lead_shapes = [(steps,) if i < along else () for i in range(len(body_inputs))]
    checked = [
        (v, (*lead_shape, *body_value.shape), body_value)
        for v, lead_shape, body_value in zip(values, lead_shapes, body_inputs, strict=True)
    ]
    checked += [
        (output, body_value.shape, body_value)
        for output, body_value in zip(body_outputs[:kept], body_inputs[along:], strict=False)
    ]
    for value, shape, expected in checked:
        problem = f"{value!r} is used where the body needs {expected.dtype.__name__}{list(shape)}"
        is_equal = (value.shape, value.dtype) == (shape, expected.dtype)
        require(
            is_equal, problem, "return carried values with the same shapes and dtypes as before."
        )
    is_pure = not body.variables and not any(OPS[op.kind].in_place for op in body.ops)
    advice = "carry the new value from step to step, and change the variable after the scan."
    require(is_pure, "a step changes a variable", advice)
    carried_outs = [Out(v.shape, v.dtype) for v in body_outputs[:kept]]
    return carried_outs + [Out((steps, *v.shape), v.dtype) for v in body_outputs[kept:]]


def _lower(
    low: Lowering,
    *operands: Tensor,
    body: Ir,
    steps: int,
    along: int,
    kept: int,
    reverse: bool = False,
) -> list[Tensor]:
    """Add the loop of a scan; return the carried tensors, then the outputs of all steps."""
    op = low.op
    prog = low.prog
    body_inputs = [*body.inputs.values()]
    body_outputs = [*body.outputs.values()]
    tensors_by_step = [_by_steps(low, x) for x in operands[:along]]
    input_groups = _by_dtype(tensors_by_step)
    packed_inputs = [
        concat([tensors_by_step[i].flatten(1) for i in group], 1) for group in input_groups
    ]
    states = [low.new_for(v, op.stage) for v in body_inputs[along : along + kept]]
    for state, initial_value in zip(states, operands[along:], strict=False):
        prog.add(Copy(initial_value, state))
    stacked_outputs: dict[int, Tensor] = {}

    def one_step(counter: Tensor) -> Program:
        """Return the program of one step; the tensor `counter` contains the number of the step."""
        low.prog = Programs(name="step")
        step_number = counter.reinterpret(UNSIGNED_INT).reshape((1,))
        # Maps the index of each input of the body to the input's tensor.
        tensors: dict[int, Tensor] = {}
        for packed_rows, group in zip(packed_inputs, input_groups, strict=True):
            packed_row = low.call(popops.dynamic_slice, packed_rows, step_number, [0], [1])
            tensors |= _unpacked(packed_row, [body_inputs[i].shape for i in group], group)
        tensors |= enumerate((*states, *operands[along + kept :]), along)
        low.copies.update({(value, op.stage): tensors[i] for i, value in enumerate(body_inputs)})
        for inner in body_ops(op):
            low.lower_op(inner)
        low.start(op)
        results = [low.get(value, op, i) for i, value in enumerate(body_outputs)]
        stacked_outputs.update(_stacked(low, results[kept:], steps, step_number, before=prog))
        _update_states(low, states, results[:kept])
        return low.prog

    counter_range = (steps - 1, -1, -1) if reverse else (0, steps, 1)
    prog.add(popops.counted_loop(low.graph, *counter_range, one_step, low.name))
    low.prog = prog
    return [
        *states,
        *(
            stacked_outputs[i].reshape(low.op.outs[kept + i].shape)
            for i in range(len(stacked_outputs))
        ),
    ]


def _stacked(
    low: Lowering, outputs: Sequence[Tensor], steps: int, step_number: Tensor, before: Programs
) -> dict[int, Tensor]:
    """Add operations that write the outputs of a step to tensors, and return these tensors.

    The result maps the position of each output to a tensor [steps, elements of the output]. Each
    step writes its outputs to row `step_number`. The tensors are set to 0 in `before`, the program
    that runs before the loop.
    """
    stacks: dict[int, Tensor] = {}
    for group in _by_dtype(outputs):
        packed_row = concat([outputs[i].flatten() for i in group]).expand([0])
        name = f"{low.name}/steps"
        stack = popops.create_slice_tensor(
            low.graph, packed_row, dims=[0], sizes=[1], num_slices=steps, debug_context=name
        )
        stack = stack.reshape((steps, packed_row.num_elements))
        popops.zero(low.graph, stack, before, f"{low.name}/zero")
        low.call(popops.dynamic_update, stack, packed_row, step_number, [0], [1])
        stacks |= _unpacked(stack, [outputs[i].shape for i in group], group)
    return stacks


def _update_states(low: Lowering, states: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Copy `results`, the carried values of a step, to the variables `states`.

    A result that shares memory with a state is duplicated before the copies, because otherwise a
    copy could overwrite a result that another copy still has to read.
    """
    moves = []
    for result, state in zip(results, states, strict=True):
        if result != state:
            is_overwritten = any(result.intersects_with(old_state) for old_state in states)
            source = low.call(poputil.duplicate, result) if is_overwritten else result
            moves.append(Copy(source, state))
    for move in moves:
        low.prog.add(move)


def _by_dtype(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return a list of positions in `tensors` for each dtype.

    Tensors of the same dtype are sliced together, because each slice costs a sync.
    """
    positions_by_dtype: dict[type[DType], list[int]] = {}
    for i, tensor in enumerate(tensors):
        positions_by_dtype.setdefault(tensor.dtype, []).append(i)
    return list(positions_by_dtype.values())


def _unpacked(
    rows: Tensor, shapes: Sequence[Sequence[int]], keys: Sequence[int]
) -> dict[int, Tensor]:
    """Divide the columns of `rows` [n, columns] into one tensor for each shape.

    Return a dict that maps `keys[i]` to the tensor with the columns for `shapes[i]`, one column for
    each element. If n is 1, the tensor has the shape `shapes[i]`; otherwise it has n rows.
    """
    tensors: dict[int, Tensor] = {}
    first_column = 0
    for key, shape in zip(keys, shapes, strict=True):
        columns = rows.slice(first_column, first_column + prod(shape), 1)
        first_column += prod(shape)
        tensors[key] = columns.reshape(tuple(shape)) if len(rows) == 1 else columns
    return tensors


def _lays(low: Lowering, op: Op, input_number: int) -> Tensor | None:
    """Return a new tensor for an input of a scan, with the tile mapping that its body prefers.

    Return None if the input changes from step to step, or if the body prefers no tile mapping.
    """
    body: Ir = op.attrs["body"]
    first_constant = op.attrs["along"] + op.attrs["kept"]
    if input_number < first_constant:
        return None
    return low.preferred([*body.inputs.values()][input_number], op.stage)


def _by_steps(low: Lowering, x: Tensor) -> Tensor:
    """Return `x` [steps, …], with the same tile mapping for the slices of all steps.

    If their tile mappings differ, return a copy of `x`.
    """
    first_mapping = low.graph.get_tile_mapping(x[0])
    if all(low.graph.get_tile_mapping(x[step]) == first_mapping for step in range(len(x))):
        return x
    name = f"{low.name}/rows"
    sliceable = popops.create_sliceable_tensor(low.graph, x.dtype, x.shape, [0], debug_context=name)
    low.prog.add(Copy(x, sliceable))
    return sliceable


def _grad(ir: Ir, op: Op, *output_gradients: Value | None) -> InputGrads:
    """Add a scan in the opposite direction that computes the gradients of the inputs of `op`.

    `op` is the forward scan. Return a list with the gradient of each input, or None for an input
    without a gradient. The forward scan is changed: it also returns the values of each step that
    the backward pass reads.
    """
    body: Ir = op.attrs["body"]
    along: int = op.attrs["along"]
    kept: int = op.attrs["kept"]
    body_inputs = [*body.inputs.values()]
    body_outputs = [*body.outputs.values()]
    known_gradients = {
        i: gradient
        for i, gradient in enumerate(output_gradients)
        if gradient is not None and i >= kept
    }
    float_states = [i for i in range(kept) if body_outputs[i].floating]
    back = _Backward(ir, op, known_gradients, float_states)
    inputs_of_values = back.close()
    # The backward pass of a step reads forward values: parts of `xs`, inputs that all steps share,
    # and other values of the step. The scan must return the values of the last kind.
    values_by_step = {
        v: x for v, x in zip(body_inputs[:along], op.inputs, strict=False) if v in inputs_of_values
    }
    outer_inputs = zip(body_inputs[along + kept :], op.inputs[along + kept :], strict=True)
    same_in_all_steps = {v: x for v, x in outer_inputs if v in inputs_of_values}
    stacked_outputs = _with_outputs(
        ir, op, [v for v in inputs_of_values if v not in (*values_by_step, *same_in_all_steps)]
    )
    values_by_step |= {
        v: stacked_outputs[v]
        for v in inputs_of_values
        if v in stacked_outputs and v not in (*values_by_step, *same_in_all_steps)
    }
    backward_inputs = [
        *back.out_gradients,
        *(inputs_of_values[v] for v in values_by_step),
        *back.state_gradients,
        *back.sums,
    ]
    backward_inputs += [inputs_of_values[v] for v in same_in_all_steps]
    back.graph.inputs = {v.name: v for v in backward_inputs}
    xs = [*known_gradients.values(), *values_by_step.values()]
    carried = [output_gradients[i] or _zeros(ir, body_outputs[i]) for i in float_states]
    carried += [_zeros(ir, v) for v in back.shared]
    is_reverse = not op.attrs.get("reverse", False)
    attributes = _attributes(back.graph, xs, carried, op.attrs["steps"], reverse=is_reverse)
    results = ir.emit("scan", *xs, *carried, *same_in_all_steps.values(), **attributes)
    targets = [*(body_inputs[along + i] for i in float_states), *back.shared, *back.by_step]
    grads = dict(zip(targets, results, strict=True))
    return [grads.get(v) for v in body_inputs]


def _zeros(ir: Ir, value: Value) -> Value:
    """Return a constant of zeros with the shape and dtype of `value`."""
    return ir.constant(0.0, value.dtype, value.shape)


class _Backward:
    """A graph with the backward pass of one step of a scan.

    A state is a carried value of the scan. Only float states have gradients. A shared input is an
    input of the scan's body that is the same in all steps.

    - `shared`: the shared inputs that have a gradient.
    - `by_step`: the inputs of the scan's body that differ from step to step and have a gradient.
    - `out_gradients`: the inputs for the gradients of the step's outputs.
    - `state_gradients`: the inputs for the gradients of the float states after the step.
    - `sums`: the inputs for the gradients of `shared`, summed over the steps so far.
    - `graph`: the graph. Its outputs are the gradients of the float states before the step, then
      the gradients of `shared`, summed up to this step, and then the gradients of `by_step`.
    """

    def __init__(
        self, ir: Ir, op: Op, known_gradients: Mapping[int, Value], float_states: Sequence[int]
    ) -> None:
        self.graph = back = Ir(family=ir.family)
        self.grads: Gradients = {}
        body: Ir = op.attrs["body"]
        along: int = op.attrs["along"]
        kept: int = op.attrs["kept"]
        body_inputs = [*body.inputs.values()]
        body_outputs = [*body.outputs.values()]
        with back.at(part=BACKWARD, path=op.path, line=op.line):
            self.out_gradients = [self._gradient_input(body_outputs[i], i) for i in known_gradients]
            self.state_gradients = [self._gradient_input(body_outputs[i], i) for i in float_states]
            back.ops += [
                replace(body_op, part=BACKWARD) for body_op in body.ops if OPS[body_op.kind].view
            ]
            add_gradients(back, body.ops, self.grads, {v for v in body_inputs if v.floating})
            grads = self.grads
            self.shared = [v for v in body_inputs[along + kept :] if v in grads]
            self.sums = [back.input(v.shape, f"sum{i}", v.dtype) for i, v in enumerate(self.shared)]
            states = [body_inputs[along + i] for i in float_states]
            gradients_before = [grads.get(v) or _zeros(ir, v) for v in states]
            sum_pairs = zip(self.sums, self.shared, strict=True)
            gradients_before += [back.op("add", total, grads[v]) for total, v in sum_pairs]
        self.by_step = [v for v in body_inputs[:along] if v in grads]
        for i, value in enumerate((*gradients_before, *(grads[v] for v in self.by_step))):
            back.output(f"{i}", value)
        back.ops = without_unused_backward(back, back.outputs.values())

    def _gradient_input(self, value: Value, number: int) -> Value:
        """Add an input for the gradient of `value` to the backward graph, and return the input.

        `value` is an output of the forward step. `number` is part of the input's name.
        """
        back = self.graph
        gradient = back.input(value.shape, f"slope{number}", value.dtype)
        grads = self.grads
        grads[value] = back.op("add", grads[value], gradient) if value in grads else gradient
        return gradient

    def close(self) -> dict[Value, Value]:
        """Add an input for each forward value that the backward pass reads.

        Return a dict that maps these values to their inputs.
        """
        read_values = _closed(self.graph)
        inputs = reversed(self.graph.inputs.values())
        input_of_value = dict(zip(reversed(read_values), inputs, strict=False))
        return {value: input_of_value[value] for value in read_values}


def _with_outputs(ir: Ir, op: Op, values: Sequence[Value]) -> dict[Value, Value]:
    """Make a scan also return the values `values` of its body.

    Return a dict that maps values of the body to results of the scan. Each result is [steps, …],
    and contains the value of each step. The keys are `values`, and the outputs of the body except
    the carried values.
    """
    body: Ir = op.attrs["body"]
    kept: int = op.attrs["kept"]
    steps: int = op.attrs["steps"]
    body_outputs = [*body.outputs.values()]
    stacked_outputs = dict(zip(body_outputs[kept:], op.outs[kept:], strict=True))
    new_outputs = [v for v in values if v not in stacked_outputs]
    stacked_outputs |= {
        v: Value((steps, *v.shape), v.dtype, f"{v.name}/steps") for v in new_outputs
    }
    outputs = {**body.outputs, **{f"{len(body_outputs) + i}": v for i, v in enumerate(new_outputs)}}
    attrs = {**op.attrs, "body": body.but(outputs=outputs)}
    new_op = replace(op, outs=(*op.outs, *(stacked_outputs[v] for v in new_outputs)), attrs=attrs)
    ir.ops = [new_op if graph_op is op else graph_op for graph_op in ir.ops]
    return stacked_outputs


OPS["scan"] = Row(_shape, _lower, _grad, lays=_lays)


check_calls(globals(), misuse)
