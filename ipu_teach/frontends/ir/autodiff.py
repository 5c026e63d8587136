"""Graph transforms that add a backward pass and an optimiser: `autodiff` and `optimise`."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from ipu_teach.arguments import Among, Positive, Taken, check_calls, is_finite
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends.ir.values import (
    BACKWARD,
    OPS,
    UPDATE,
    VARIABLE,
    Ir,
    Op,
    Swaps,
    Value,
    misuse,
    row_of,
    swapped,
)
from ipu_teach.poplibs import optim
from ipu_teach.types import FLOAT

Gradients = dict[Value, Value]
# Maps each optimiser to the names of its state variables for a parameter. "step" is a single
# number; the other variables have the shape of the parameter.
STATE = {
    "sgd": (),
    "momentum": ("velocity",),
    "adam": ("first", "second", "step"),
    "adamw": ("first", "second", "step"),
    "lars": ("velocity",),
}
Optimiser = Annotated[str, Among(STATE)]
Rate = Annotated[float, Taken(lambda v: is_finite(v) and v >= 0, "give a number of at least 0.")]


def autodiff(
    ir: Ir, loss: Value, of: Iterable[Value] | None = None, scale: Positive | Value = 1.0
) -> tuple[Ir, Gradients]:
    """Return `(graph, gradients)`: the graph with the backward pass of `loss`, and the gradients.

    `gradients` is a dict from values to their gradients, multiplied by `scale`. Its keys are the
    values in `of` on which the loss depends. If `of` is None, `of` stands for all float variables.
    Each operation of the backward pass has the stage, phase, path and line of its forward
    operation.

    :raises ModelError: if the loss is not a single float, if a value belongs to another graph, or
        if the loss depends on `of` through an operation without a gradient.
    """
    if loss.size != 1 or not loss.floating:
        raise ModelError(f"""autodiff() was given the loss {loss!r}, but a loss must be a single
            float.
            next:  reduce the loss: ir.mean(graph, loss), or ir.reduced(graph, "sum", loss).""")
    for value in (loss, *(() if of is None else of)):
        ir.check_own("autodiff", value)
    targets = set(of) if of is not None else {v for v in ir.variables.values() if v.floating}
    forward = _with_saved_state(ir, targets)
    differentiated = ir.but(ops=list(forward))
    grads: Gradients = {}
    with differentiated.at(part=BACKWARD):
        if isinstance(scale, Value):
            loss_gradient = scale
        else:
            loss_gradient = differentiated.constant(scale, loss.dtype, loss.shape)
        if loss_gradient.shape != loss.shape:
            loss_gradient = differentiated.op("reshape", loss_gradient, shape=loss.shape)
        grads[loss] = loss_gradient
        add_gradients(differentiated, forward, grads, targets)
    target_grads = {v: gradient for v, gradient in grads.items() if v in targets}
    ops = without_unused_backward(differentiated, target_grads.values())
    return differentiated.but(ops=ops), target_grads


def _with_saved_state(ir: Ir, targets: set[Value]) -> list[Op]:
    """Return the graph's operations, and insert copies of variables that change after a read.

    An operation reads the copy instead of the variable, so that its gradient later reads the same
    value. `targets` are the values whose gradients are computed. Only operations that depend on a
    target have a gradient, and only these operations read copies.
    """
    last_change = {
        op.inputs[0]: position for position, op in enumerate(ir.ops) if OPS[op.kind].in_place
    }
    reached = set(targets)
    ops = []
    for position, op in enumerate(ir.ops):
        swaps: Swaps = {}
        if not OPS[op.kind].in_place and reached.intersection(op.inputs):
            reached.update(v for v in op.outs if v.floating)
            for value in op.inputs:
                if value.floating and last_change.get(value, -1) > position and value not in swaps:
                    saved = swaps[value] = Value(value.shape, value.dtype, f"{value.name}/copy")
                    ops.append(replace(op, kind="copy", inputs=(value,), outs=(saved,), attrs={}))
        ops.append(swapped(op, swaps))
    return ops


def add_gradients(ir: Ir, ops: Sequence[Op], grads: Gradients, targets: set[Value]) -> None:
    """Add to the graph the gradients of those operations in `ops` that depend on `targets`.

    Before the call, `grads` contains the gradients of the final results, such as the loss. This
    function processes the operations from last to first. It adds to `grads` the gradients of
    `targets`, and of other float values that depend on them, if the final results depend on these.

    :raises ModelError: if an operation has no gradient, or if a gradient does not have the shape of
        its input.
    """
    reached = set(targets)
    for op in ops:
        if not OPS[op.kind].in_place and reached.intersection(op.inputs):
            reached.update(v for v in op.outs if v.floating)
    for op in reversed(ops):
        result_grads = [grads.get(v) for v in op.outs]
        if not reached.intersection(op.inputs) or all(
            gradient is None for gradient in result_grads
        ):
            continue
        grad = row_of(op.kind).grad
        if grad is None:
            raise op.error(
                f"The operation {op.kind} has no gradient, but the loss depends on a parameter "
                "through it.",
                "use another operation, or define a gradient: "
                f"ir.register('my_{op.kind}', Row(shape, lower, grad)).",
            )
        context = op.context
        context["part"] = BACKWARD
        with ir.at(**context):
            for value, gradient in zip(op.inputs, grad(ir, op, *result_grads), strict=True):
                if gradient is None or value not in reached:
                    continue
                if gradient.shape != value.shape:
                    raise op.error(
                        f"The function grad of the operation {op.kind} returned a gradient of the "
                        f"shape {list(gradient.shape)} for an input of shape "
                        f"{list(value.shape)}.",
                        "change grad so that it returns gradients with the shapes of the inputs.",
                    )
                grads[value] = ir.op("add", grads[value], gradient) if value in grads else gradient


def without_unused_backward(ir: Ir, targets: Iterable[Value]) -> list[Op]:
    """Return the graph's operations without the unused operations of the backward pass.

    An operation is unused if no value in `targets` and no output depends on its results.
    """
    needed = {*targets, *ir.outputs.values()}
    ops = []
    for op in reversed(ir.ops):
        if op.part != BACKWARD or needed.intersection(op.outs):
            needed.update(op.inputs)
            ops.append(op)
    return ops[::-1]


def _numbers_of(kind: str) -> list[str]:
    """Return the names of the settings of an optimiser, such as "momentum"."""
    call = optim.sgd if kind in ("sgd", "momentum") else getattr(optim, kind)
    parameters = inspect.signature(call).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name != "state"
    ]


def optimise(
    ir: Ir,
    grads: Mapping[Value, Value],
    kind: Optimiser = "sgd",
    rate: Rate | Value = 0.01,
    scale: Positive = 1.0,
    **numbers: float | bool,
) -> Ir:
    """Return the graph with an update of each variable in `grads` appended.

    `grads` maps variables to their gradients; keys that are not variables are skipped. `kind` is
    "sgd", "momentum", "adam", "adamw" or "lars", and `numbers` are the optimiser's settings, as in
    `poplibs.optim`. "sgd" with a momentum becomes "momentum". The optimiser's state is stored in
    new variables, such as "weight.first" for the variable "weight". If `rate` is a number, it
    becomes the initial value of a variable "rate", which the host may write. Gradients are divided
    by `scale`, in FLOAT, to undo the scale of `autodiff`.

    :raises ModelError: for an unknown setting, or a value of another graph.
    """
    for name in numbers:
        if name not in (known := _numbers_of(kind)):
            suggestion = did_you_mean(name, known)
            raise misuse(
                f"optimise() was given the setting {shown(name)}, which {kind} does not have.",
                f"{suggestion}use one of {', '.join(known)}.",
            )
    kind = "momentum" if kind == "sgd" and numbers.get("momentum") else kind
    optimised = ir.but()
    rate_value = rate if isinstance(rate, Value) else optimised.variable(rate, "rate", FLOAT)
    with optimised.at(part=UPDATE):
        # A gradient may itself be a variable. Copy such gradients before any variable changes.
        sources = {
            gradient: optimised.op("copy", gradient)
            for gradient in grads.values()
            if gradient.kind == VARIABLE
        }
        for value, grad in grads.items():
            ir.check_own("optimise", value)
            ir.check_own("optimise", grad)
            if value.kind != VARIABLE:
                continue
            gradient = sources.get(grad, grad)
            state = [_add_state(optimised, value, name) for name in STATE[kind]]
            path = value.name.rpartition(".")[0]
            with optimised.at(stage=optimised.home(value), path=path, line=("", 0)):
                if scale != 1.0:
                    gradient = optimised.op("mul", optimised.cast(gradient, FLOAT), 1 / scale)
                optimised.emit(kind, value, gradient, rate_value, *state, **numbers)
    return optimised


def _add_state(ir: Ir, parameter: Value, name: str) -> Value:
    """Add a variable of zeros for an optimiser state, such as "velocity", and return the variable.

    The variable has the shape of `parameter`. The state "step" is a single number.
    """
    shape = () if name == "step" else parameter.shape
    zeros = ir.constant(0, FLOAT).initial
    state = Value(shape, FLOAT, f"{parameter.name}.{name}", kind=VARIABLE, initial=zeros)
    ir.variables[state.name] = state
    return state


check_calls(globals(), misuse, without=("add_gradients", "without_unused_backward"))
