"""Gradients and optimisers, as transforms: a graph in, a graph with more operations out."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from ipu_teach.arguments import Among, Positive, Taken, check_calls, is_finite
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends.ir.values import BACKWARD, OPS, UPDATE, Ir, Op, Value, misuse, row_of
from ipu_teach.poplibs import optim
from ipu_teach.types import FLOAT

Gradients = dict[Value, Value]
STATE = {  # what an optimiser keeps of each parameter; "step" is one number
    "sgd": (),
    "momentum": ("velocity",),
    "adam": ("first", "second", "step"),
    "adamw": ("first", "second", "step"),
    "lars": ("velocity",),
}
Optimiser = Annotated[str, Among(STATE)]
Rate = Annotated[float, Taken(lambda v: is_finite(v) and v >= 0, "give a number of 0 or more.")]


def autodiff(
    ir: Ir, loss: Value, of: Iterable[Value] | None = None, scale: Positive | Value = 1.0
) -> tuple[Ir, Gradients]:
    """The graph with the gradients of `loss`, times `scale`, and which value is the gradient of
    what: of the values in `of`, or of all variables of floats, as far as the loss depends on them.

    Each operation's gradient stands in its stage, phase, path and line. Raises `ModelError` for an
    operation that has none, and a loss that is not one number.
    """
    if loss.size != 1 or not loss.floating:
        raise ModelError(f"""A loss of {list(loss.shape)} {loss.dtype.__name__} was given, and a
            gradient is that of one number.
            next:  reduce it: ir.mean(graph, loss), or ir.sum of it.""")
    for value in (loss, *(() if of is None else of)):
        ir.check_own("autodiff", value)
    made = ir.but()
    wanted = set(of) if of is not None else {v for v in ir.variables.values() if v.floating}
    grads: Gradients = {}
    with made.at(part=BACKWARD):
        first = scale if isinstance(scale, Value) else made.constant(scale, loss.dtype, loss.shape)
        if first.shape != loss.shape:
            first = made.op("reshape", first, shape=loss.shape)
        grads[loss] = first
        swept(made, ir.ops, grads, wanted)
    found = {v: g for v, g in grads.items() if v in wanted}
    return made.but(ops=used(made, found.values())), found


def swept(ir: Ir, ops: Sequence[Op], grads: Gradients, wanted: set[Value]) -> None:
    """Add the gradients of operations, from the last to the first, as far as they depend on what is
    wanted; `grads` has those of what they make, and then of all else."""
    reached = set(wanted)
    for op in ops:
        if not OPS[op.kind].in_place and reached.intersection(op.inputs):
            reached.update(v for v in op.outs if v.floating)
    for op in reversed(ops):
        given = [grads.get(v) for v in op.outs]
        if not reached.intersection(op.inputs) or all(g is None for g in given):
            continue
        grad = row_of(op.kind).grad
        if grad is None:
            raise op.error(
                f"{op.kind} has no gradient, and the loss depends on a parameter through it.",
                "use another operation, or give its row one: Row(shape, lower, grad).",
            )
        with ir.at(**{**op.here, "part": BACKWARD}):
            for value, g in zip(op.inputs, grad(ir, op, *given), strict=True):
                if g is None or value not in reached:
                    continue
                if g.shape != value.shape:
                    raise op.error(
                        f"The gradient of {op.kind} has the shape {list(g.shape)} for an input "
                        f"of {list(value.shape)}.",
                        "its row's grad returns a gradient in the shape of each input.",
                    )
                grads[value] = ir.op("add", grads[value], g) if value in grads else g


def used(ir: Ir, wanted: Iterable[Value]) -> list[Op]:
    """The operations but for those of the backward that nobody reads."""
    needed, ops = {*wanted, *ir.outputs.values()}, []
    for op in reversed(ir.ops):
        if op.part != BACKWARD or needed.intersection(op.outs):
            needed.update(op.inputs)
            ops.append(op)
    return ops[::-1]


def _numbers_of(kind: str) -> list[str]:
    """Return the names of an optimiser's numbers."""
    call = optim.sgd if kind in ("sgd", "momentum") else getattr(optim, kind)
    parameters = inspect.signature(call).parameters.values()
    return [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "state"]


def optimise(
    ir: Ir,
    grads: Mapping[Value, Value],
    kind: Optimiser = "sgd",
    rate: Rate | Value = 0.01,
    scale: Positive = 1.0,
    **numbers: float | bool,
) -> Ir:
    """The graph with a step of an optimiser for each variable in `grads`, behind all else: "sgd",
    "momentum", "adam", "adamw" or "lars", with its `numbers` as in `poplibs.optim`; "sgd" with a
    momentum is "momentum".

    What it keeps are variables too: `weight.first` of "weight". A `rate` that is a number becomes
    the variable "rate", which the host may write. Gradients are divided by `scale`, in FLOAT, where
    `autodiff` was given one. Raises `ModelError`.
    """
    for name in numbers:
        if name not in (known := _numbers_of(kind)):
            near = did_you_mean(name, known)
            raise misuse(
                f"optimise() was given {shown(name)}, which {kind} does not have.",
                f"{near}it takes {', '.join(known)}.",
            )
    kind = "momentum" if kind == "sgd" and numbers.get("momentum") else kind
    made = ir.but()
    length = rate if isinstance(rate, Value) else made.variable(rate, "rate", FLOAT)
    with made.at(part=UPDATE):
        for value, g in grads.items():
            ir.check_own("optimise", value)
            ir.check_own("optimise", g)
            if value.kind != "variable":
                continue
            state = []
            for name in STATE[kind]:
                shape = () if name == "step" else value.shape
                zeros = made.constant(0, FLOAT).initial
                kept = Value(shape, FLOAT, f"{value.name}.{name}", "variable", zeros)
                made.variables[kept.name] = kept
                state.append(kept)
            path = value.name.rpartition(".")[0]
            with made.at(stage=made.home(value), path=path, line=("", 0)):
                if scale != 1.0:
                    g = made.op("mul", made.cast(g, FLOAT), 1 / scale)
                made.emit(kind, value, g, length, *state, **numbers)
    return made


check_calls(globals(), misuse, without=("swept", "used"))
