"""Scans: loops over steps whose operations are in a graph of their own, the body."""

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
    """The direction of a scan, which is forward unless `reverse` is true."""

    reverse: bool


class Attributes(_Reverse):
    """The attributes of a scan: the body, and the numbers of its steps and of its inputs.

    The first `along` inputs are those with a value for each step, and the next `kept` inputs are
    the carried values.
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

    `after, outs = step(graph, x, carried)` adds the operations of one step to its own graph. It is
    called once, during this call. `x` has the elements for this step of each of `xs`, which are
    [steps, …]. A step may read other values too, which are the same in all steps. Random numbers
    are also the same in all steps.

    Raises `ModelError` without `xs`, for a value of another graph, for a step that changes a
    variable, and for carried values whose shape or dtype changes.
    """
    if not xs:
        raise misuse(
            "scan() was given no xs, so that the number of steps is unknown.",
            "give at least one value of [steps, …].",
        )
    for value in (*xs, *carried):
        ir.check_own("scan", value)
    body = Ir(context={**ir.context}, family=ir.family)
    x_of_step = [body.input(x.shape[1:], f"x{i}", x.dtype) for i, x in enumerate(xs)]
    before = [body.input(c.shape, f"carried{i}", c.dtype) for i, c in enumerate(carried)]
    after, outs = step(body, x_of_step, before)
    for i, value in enumerate((*after, *outs)):
        body.output(f"{i}", value)
    inputs = (*xs, *carried, *_closed(body))
    for value, inner in zip(inputs, body.inputs.values(), strict=True):
        if inner.below is not None:
            ir.classes(value, inner.below, inner.ignored)
    results = ir.emit("scan", *inputs, **_attributes(body, xs, carried, xs[0].shape[0]))
    return list(results[: len(after)]), list(results[len(after) :])


def _attributes(
    body: Ir, xs: Values, carried: Values, steps: int, **reverse: Unpack[_Reverse]
) -> Attributes:
    """Return the attributes of a scan.

    The inputs of the body are `xs`, then the carried values, then all other values that it reads.
    """
    return {"body": body, "steps": steps, "along": len(xs), "kept": len(carried), **reverse}


def _closed(body: Ir) -> list[Value]:
    """Give `body` an input for each outer value that it reads, and return these values."""
    known = {*body.inputs.values(), *body.maker()}
    read = [v for op in body.ops for v in op.inputs] + list(body.outputs.values())
    outer = [v for v in dict.fromkeys(read) if v not in known and v.kind != CONSTANT]
    swaps = {v: body.input(v.shape, f"free{i}", v.dtype) for i, v in enumerate(outer)}
    body.ops = [swapped(op, swaps) for op in body.ops]
    body.outputs = {name: swaps.get(v, v) for name, v in body.outputs.items()}
    return outer


def _shape(
    *values: Value, body: Ir, steps: int, along: int, kept: int, reverse: bool = False
) -> list[Out]:
    """Return the shapes of the carried values, then of the stacked outputs.

    Raises `Unfit` if the values do not fit the body, or if the body changes a variable.
    """
    ins = [*body.inputs.values()]
    outs = [*body.outputs.values()]
    is_valid = steps >= 1 and along >= 0 and 0 <= kept <= min(len(ins) - along, len(outs))
    is_valid = is_valid and len(values) == len(ins)
    require(is_valid, "its body has other inputs or outputs", "build it by ir.scan.")
    lead = [(steps,) if i < along else () for i in range(len(ins))]
    pairs = [(v, (*n, *w.shape), w) for v, n, w in zip(values, lead, ins, strict=True)]
    pairs += [(o, w.shape, w) for o, w in zip(outs[:kept], ins[along:], strict=False)]
    for value, shape, inner in pairs:
        why = f"{value!r} is used as {inner.dtype.__name__}{list(shape)}"
        is_equal = (value.shape, value.dtype) == (shape, inner.dtype)
        require(is_equal, why, "carry on values with the same shape and dtype as before the step.")
    is_pure = not body.variables and not any(OPS[op.kind].in_place for op in body.ops)
    require(is_pure, "a step changes a variable", "carry it, and change it after the last step.")
    carried_outs = [Out(v.shape, v.dtype) for v in outs[:kept]]
    return carried_outs + [Out((steps, *v.shape), v.dtype) for v in outs[kept:]]


def _lower(
    low: Lowering,
    *operands: Tensor,
    body: Ir,
    steps: int,
    along: int,
    kept: int,
    reverse: bool = False,
) -> list[Tensor]:
    """Add a loop over the steps, and return the carried tensors and the stacked outputs."""
    op = low.op
    prog = low.prog
    ins = [*body.inputs.values()]
    outs = [*body.outputs.values()]
    rows = [_by_steps(low, x) for x in operands[:along]]
    groups = _by_dtype(rows)
    packed = [concat([rows[i].flatten(1) for i in group], 1) for group in groups]
    states = [low.new_for(v, op.stage) for v in ins[along : along + kept]]
    for state, first in zip(states, operands[along:], strict=False):
        prog.add(Copy(first, state))
    stacks: dict[int, Tensor] = {}

    def one_step(counter: Tensor) -> Program:
        """Return the program of one step; `counter` is the step number on the device."""
        low.prog = Programs(name="step")
        step_number = counter.reinterpret(UNSIGNED_INT).reshape((1,))
        tensors: dict[int, Tensor] = {}  # tensors by the number of the body's input
        for packed_rows, group in zip(packed, groups, strict=True):
            row = low.call(popops.dynamic_slice, packed_rows, step_number, [0], [1])
            tensors |= _unpacked(row, [ins[i].shape for i in group], group)
        tensors |= enumerate((*states, *operands[along + kept :]), along)
        low.copies.update({(value, op.stage): tensors[i] for i, value in enumerate(ins)})
        for inner in body_ops(op):
            low.lower_op(inner)
        low.start(op)
        results = [low.get(value, op, i) for i, value in enumerate(outs)]
        for group in _by_dtype(results[kept:]):
            row = concat([results[kept + i].flatten() for i in group]).expand([0])
            name = f"{low.name}/steps"
            stack = popops.create_slice_tensor(
                low.graph, row, dims=[0], sizes=[1], num_slices=steps, debug_context=name
            )
            stack = stack.reshape((steps, row.num_elements))
            popops.zero(low.graph, stack, prog, f"{low.name}/zero")
            low.call(popops.dynamic_update, stack, row, step_number, [0], [1])
            stacks.update(_unpacked(stack, [outs[kept + i].shape for i in group], group))
        _update_states(low, states, results[:kept])
        return low.prog

    order = (steps - 1, -1, -1) if reverse else (0, steps, 1)
    prog.add(popops.counted_loop(low.graph, *order, one_step, low.name))
    low.prog = prog
    return [*states, *(stacks[i].reshape(low.op.outs[kept + i].shape) for i in range(len(stacks)))]


def _update_states(low: Lowering, states: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Copy the results of a step to the states, as if all states changed at once."""
    moves = []
    for new, state in zip(results, states, strict=True):
        if new != state:
            is_overwritten = any(new.intersects_with(before) for before in states)
            source = low.call(poputil.duplicate, new) if is_overwritten else new
            moves.append(Copy(source, state))
    for move in moves:
        low.prog.add(move)


def _by_dtype(tensors: Sequence[Tensor]) -> list[list[int]]:
    """Return the positions of tensors, grouped by dtype.

    Tensors of one dtype share a slice, because a slice for each tensor would cost a sync for each.
    """
    groups: dict[type[DType], list[int]] = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(i)
    return list(groups.values())


def _unpacked(
    rows: Tensor, shapes: Sequence[Sequence[int]], places: Sequence[int]
) -> dict[int, Tensor]:
    """Return consecutive groups of the columns of `rows` [n, columns], by their entry in `places`.

    Group i has as many columns as `shapes[i]` has elements, and gets this shape if n is 1.
    """
    parts: dict[int, Tensor] = {}
    start = 0
    for place, shape in zip(places, shapes, strict=True):
        part = rows.slice(start, start + prod(shape), 1)
        start += prod(shape)
        parts[place] = part.reshape(tuple(shape)) if len(rows) == 1 else part
    return parts


def _lays(low: Lowering, op: Op, place: int) -> Tensor | None:
    """Return a new tensor with the tile mapping that the body prefers for an input.

    Return None for an input that changes from step to step, and if the body has no preference.
    """
    body: Ir = op.attrs["body"]
    first_constant = op.attrs["along"] + op.attrs["kept"]
    if place < first_constant:
        return None
    return low.preferred([*body.inputs.values()][place], op.stage)


def _by_steps(low: Lowering, x: Tensor) -> Tensor:
    """Return x, or a copy of it in which an element is on the same tile in all steps."""
    first = low.graph.get_tile_mapping(x[0])
    if all(low.graph.get_tile_mapping(x[i]) == first for i in range(len(x))):
        return x
    name = f"{low.name}/rows"
    rows = popops.create_sliceable_tensor(low.graph, x.dtype, x.shape, [0], debug_context=name)
    low.prog.add(Copy(x, rows))
    return rows


def _grad(ir: Ir, op: Op, *gs: Value | None) -> InputGrads:
    """Return the gradients of a scan's inputs, by a scan in the opposite direction.

    The forward scan is changed so that it also returns, for each step, the values that the backward
    pass reads.
    """
    body: Ir = op.attrs["body"]
    along: int = op.attrs["along"]
    kept: int = op.attrs["kept"]
    ins = [*body.inputs.values()]
    outs = [*body.outputs.values()]
    out_grads = {i: g for i, g in enumerate(gs) if g is not None and i >= kept}
    float_states = [i for i in range(kept) if outs[i].floating]
    back = _Backward(ir, op, out_grads, float_states)
    slots = back.close()
    # the values that the backward pass of a step reads: xs, outer values, and results
    rows = {v: x for v, x in zip(ins[:along], op.inputs, strict=False) if v in slots}
    outer = zip(ins[along + kept :], op.inputs[along + kept :], strict=True)
    constant = {v: x for v, x in outer if v in slots}
    stacked = _with_outputs(ir, op, [v for v in slots if v not in (*rows, *constant)])
    rows |= {v: stacked[v] for v in slots if v in stacked and v not in (*rows, *constant)}
    order = [*back.out_gradients, *(slots[v] for v in rows), *back.state_gradients, *back.sums]
    order += [slots[v] for v in constant]
    back.graph.inputs = {v.name: v for v in order}
    xs = [*out_grads.values(), *rows.values()]
    carried = [gs[i] or _zeros(ir, outs[i]) for i in float_states]
    carried += [_zeros(ir, v) for v in back.shared]
    is_reverse = not op.attrs.get("reverse", False)
    attributes = _attributes(back.graph, xs, carried, op.attrs["steps"], reverse=is_reverse)
    results = ir.emit("scan", *xs, *carried, *constant.values(), **attributes)
    targets = [*(ins[along + i] for i in float_states), *back.shared, *back.by_step]
    grads = dict(zip(targets, results, strict=True))
    return [grads.get(v) for v in ins]


def _zeros(ir: Ir, value: Value) -> Value:
    """Return a constant of zeros with the shape and dtype of `value`."""
    return ir.constant(0.0, value.dtype, value.shape)


class _Backward:
    """The backward pass of one step, as a graph.

    Attributes:
        graph: the operations; the outputs are the gradients of the float states before the step,
            the sums of gradients so far, then the gradients of `by_step`.
        out_gradients, state_gradients: the inputs for the gradients of outputs and of float states.
        shared: those inputs of the body that are the same in all steps and have a gradient.
        sums: the inputs for the sums of the gradients of `shared` over the steps so far.
        by_step: those inputs of the body that differ from step to step and have a gradient.
    """

    def __init__(
        self, ir: Ir, op: Op, out_grads: Mapping[int, Value], float_states: Sequence[int]
    ) -> None:
        self.graph = back = Ir(family=ir.family)
        self.grads: Gradients = {}
        body: Ir = op.attrs["body"]
        along: int = op.attrs["along"]
        kept: int = op.attrs["kept"]
        ins = [*body.inputs.values()]
        outs = [*body.outputs.values()]
        with back.at(part=BACKWARD, path=op.path, line=op.line):
            self.out_gradients = [self._gradient_input(outs[i], i) for i in out_grads]
            self.state_gradients = [self._gradient_input(outs[i], i) for i in float_states]
            back.ops += [replace(o, part=BACKWARD) for o in body.ops if OPS[o.kind].view]
            add_gradients(back, body.ops, self.grads, {v for v in ins if v.floating})
            grads = self.grads
            self.shared = [v for v in ins[along + kept :] if v in grads]
            self.sums = [back.input(v.shape, f"sum{i}", v.dtype) for i, v in enumerate(self.shared)]
            states = [ins[along + i] for i in float_states]
            after = [grads.get(v) or _zeros(ir, v) for v in states]
            pairs = zip(self.sums, self.shared, strict=True)
            after += [back.op("add", total, grads[v]) for total, v in pairs]
        self.by_step = [v for v in ins[:along] if v in grads]
        for i, value in enumerate((*after, *(grads[v] for v in self.by_step))):
            back.output(f"{i}", value)
        back.ops = without_unused_backward(back, back.outputs.values())

    def _gradient_input(self, value: Value, number: int) -> Value:
        """Add an input for the gradient of `value`, an output of the body; return it."""
        back = self.graph
        g = back.input(value.shape, f"slope{number}", value.dtype)
        grads = self.grads
        grads[value] = back.op("add", grads[value], g) if value in grads else g
        return g

    def close(self) -> dict[Value, Value]:
        """Return the new input for each forward value that the backward pass reads."""
        read = _closed(self.graph)
        inputs = reversed(self.graph.inputs.values())
        in_reverse = dict(zip(reversed(read), inputs, strict=False))
        return {value: in_reverse[value] for value in read}


def _with_outputs(ir: Ir, op: Op, values: Sequence[Value]) -> dict[Value, Value]:
    """Make a scan also return `values` of its body; return all its stacked outputs.

    The result is a dict from each value of the body to the stacked output.
    """
    body: Ir = op.attrs["body"]
    kept: int = op.attrs["kept"]
    steps: int = op.attrs["steps"]
    outs = [*body.outputs.values()]
    stacked = dict(zip(outs[kept:], op.outs[kept:], strict=True))
    added = [v for v in values if v not in stacked]
    stacked |= {v: Value((steps, *v.shape), v.dtype, f"{v.name}/steps") for v in added}
    outputs = {**body.outputs, **{f"{len(outs) + i}": v for i, v in enumerate(added)}}
    attrs = {**op.attrs, "body": body.but(outputs=outputs)}
    wider = replace(op, outs=(*op.outs, *(stacked[v] for v in added)), attrs=attrs)
    ir.ops = [wider if other is op else other for other in ir.ops]
    return stacked


OPS["scan"] = Row(_shape, _lower, _grad, lays=_lays)


check_calls(globals(), misuse)
