"""Training, compilation, output selection and checked options, shared by all front ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Annotated, Any

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import Among, Count, Positive, check, check_calls, hints_of
from ipu_teach.device import IPUModel
from ipu_teach.errors import IPUTeachError, ModelError, did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Run, Value
from ipu_teach.frontends.ir.autodiff import Optimiser, Rate
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.schedules import SCHEDULES
from ipu_teach.target import PRESETS
from ipu_teach.types import FLOAT, Array

Version = Annotated[str, Among(PRESETS)]
Schedule = Annotated[str, Among(("", *SCHEDULES))]


def is_schedule(value: object) -> bool:
    """Return whether a value is the name of a schedule, in any case."""
    return isinstance(value, str) and value.lower() in SCHEDULES


class CheckedOptions:
    """A base of dataclasses of options: setting an unknown name raises `ModelError`."""

    def __setattr__(self, name: str, value: object) -> None:
        known: Mapping[str, object] = vars(type(self))["__dataclass_fields__"]
        if name not in known:
            raise ModelError(f"""{type(self).__name__} has no option {name!r}.
                next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
        check(type(self).__name__, name, value, _hints(type(self).__init__).get(name, Any), misuse)
        super().__setattr__(name, value)


@cache
def _hints(function: Callable[..., object]) -> Mapping[str, object]:
    """Return the annotations of a function by name."""
    return hints_of(function)


@dataclass(frozen=True)
class Group:
    """Parameters for which an optimiser uses the same numbers.

    `names` are the names of the parameters, or None for all. `kind` is the optimiser of this group;
    "" means that of `Training`.
    """

    rate: Rate = 0.01
    numbers: Mapping[str, float | bool] = field(default_factory=dict)
    names: Collection[str] | None = None
    kind: str = ""


@dataclass
class Training:
    """The training of a graph: an optimiser with its groups, and transforms in this order.

    `recompute` is "standard", the values to keep, or None for no recomputation.
    """

    kind: Optimiser = "sgd"
    groups: Iterable[Group] = (Group(),)
    scale: Positive = 1.0
    recompute: Annotated[str, Among(("standard",))] | Iterable[Value] | None = None
    accumulation: Count = 1
    replicas: Count = 1
    reduction: Annotated[str, Among(("mean", "sum"))] = "mean"
    sharded: bool = False
    off_chip: bool = False
    phased: bool = False
    schedule: Schedule = ""

    def transform(
        self,
        graph: Ir,
        loss: Value | None,
        parameters: Iterable[Value] | None = None,
        gradients: Mapping[Value, Value] | None = None,
    ) -> Ir:
        """Return the graph with an update of `parameters`, by default of all variables of floats.

        The update uses `gradients`, values of the graph, or if they are None the gradients of
        `loss`. Raises `ModelError`.
        """
        if gradients is None:
            assert loss is not None, "without gradients, a loss is needed"
            step, grads = ir.autodiff(without_unused(graph), loss, parameters, self.scale)
        else:
            trained = None if parameters is None else set(parameters)
            grads = {v: g for v, g in gradients.items() if trained is None or v in trained}
            outputs = {**graph.outputs, **{f"gradient {v.name}": g for v, g in grads.items()}}
            step = graph.but(ops=without_unused(graph.but(outputs=outputs)).ops)
        if self.recompute is not None:
            step = ir.recompute(step, self.recompute)
        for number, group in enumerate(self.groups):
            names = group.names
            selected = {v: g for v, g in grads.items() if names is None or v.name in names}
            rate = step.variable(group.rate, rate_of(number), FLOAT)
            kind = group.kind or self.kind
            step = ir.optimise(step, selected, kind, rate, self.scale, **group.numbers)
        step = ir.accumulate(step, self.accumulation, self.reduction)
        step = ir.replicate(step, self.replicas, "MEAN" if self.reduction == "mean" else "ADD")
        step = ir.sharded(step) if self.sharded else step
        step = ir.pipelined(step, self.schedule) if self.schedule else step
        step = ir.off_chip(step) if self.off_chip else step
        return ir.phased(step) if self.phased else step


def rate_of(number: int) -> str:
    """Return the name of the variable with the learning rate of a group; the host may write it."""
    return f"rate of group {number}" if number else "rate"


def compile_graph(
    label: str,
    graph: Ir,
    model: IPUModel,
    steps: Count = 1,
    options: Mapping[str, Any] | None = None,
) -> Run:
    """Compile a graph for a device of `model` with one IPU for each stage of each replica.

    `label` names the work in the progress message, and `steps` is the number of steps of a run.
    """
    sized_model = copy(model)
    sized_model.num_ipus = graph.stages * graph.replicas
    with working(f"compile {label}"):
        device = sized_model.create_device()
        return Run(ir.Lowering(graph, device, steps, options), device)


def select_outputs(rows: Array, mode: str, n: int = 1) -> Array:
    """Return the outputs that a mode selects, from [runs, …] in order of time.

    The modes are "all", "final", "everyn" for each n-th, and "sum".
    """
    if mode == "sum":
        wide = np.float32 if rows.dtype == np.float16 else rows.dtype  # HALF is rounded only once
        total: Array = rows.sum(0, keepdims=True, dtype=wide).astype(rows.dtype)
        return total
    return {"all": rows, "final": rows[-1:], "everyn": rows[n - 1 :: n]}[mode]


def batch_product(name: str, batch: int, factors: Mapping[str, int]) -> str:
    """Return the number of samples in a run, as a product: `batch 8 * replicas 2 = 16`."""
    product = " * ".join([f"{name} {batch}", *(f"{factor} {n}" for factor, n in factors.items())])
    return f"{product} = {batch * prod(factors.values()):,}"


def without_unused(graph: Ir) -> Ir:
    """Return the graph without the operations whose results are never used.

    Operations that print or change a variable remain.
    """
    read = set(graph.outputs.values())
    ops = []
    for op in reversed(graph.ops):
        if not op.outs or op.kind == "print" or read.intersection(op.outs):
            ops.append(op)
            read.update(op.inputs)
    assert all(op.outs or OPS[op.kind].in_place for op in ops), "only in-place ops have no result"
    return graph.but(ops=ops[::-1])


def input_of(graph: Ir, value: Value, kind: str) -> Value | None:
    """Return the first input of the operation that makes `value`; None unless it is of `kind`."""
    op = graph.maker().get(value)
    return op.inputs[0] if op is not None and op.kind == kind else None


def machine(version: str = "ipu2", tiles: int = 0, ipus: int = 1) -> IPUModel:
    """Return the model of a machine; 0 `tiles` means all tiles of each IPU."""
    return IPUModel(version, num_ipus=ipus, **({"tiles_per_ipu": tiles} if tiles else {}))


def checked_count(
    call: str, number: object, lowest: int = 1, error: type[IPUTeachError] = ModelError
) -> int:
    """Return `number`. Raise `error` unless it is an integer of `lowest` or more."""
    if type(number) is not int or number < lowest:
        raise error(f"""{call} was given {shown(number)}.
            next:  give a whole number of {lowest} or more.""")
    return number


def checked_name(call: str, name: object, known: Collection[str]) -> str:
    """Return `name`. Raise `ModelError` unless it is one of `known`."""
    if not isinstance(name, str) or name not in known:
        raise ModelError(f"""{call} was given {shown(name)}.
            next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
    return str(name)


check_calls(globals(), misuse, without=("checked_name", "checked_count"))
