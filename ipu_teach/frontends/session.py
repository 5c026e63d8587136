"""The code that all front ends share: building training steps, compiling, and checking options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import Field, dataclass, field
from functools import cache
from math import prod
from typing import Annotated

import numpy as np

from ipu_teach._support.progress import working
from ipu_teach.arguments import (
    Among,
    Count,
    Function,
    Hint,
    Positive,
    check,
    check_calls,
    hints_of,
)
from ipu_teach.device import IPUModel
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Run, Value
from ipu_teach.frontends.ir.autodiff import Optimiser, Rate
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.poplibs.options import Options
from ipu_teach.schedules import SCHEDULES
from ipu_teach.target import PRESETS
from ipu_teach.types import FLOAT, Array

Version = Annotated[str, Among(PRESETS)]
Schedule = Annotated[str, Among(("", *SCHEDULES))]


def is_schedule(value: object) -> bool:
    """Return whether `value` is the name of a pipeline schedule, in upper, lower or mixed case."""
    return isinstance(value, str) and value.lower() in SCHEDULES


class CheckedOptions:
    """The base class of dataclasses that contain the options of a front end.

    Setting an option that does not exist, or a value that does not match the option's annotation,
    raises `ModelError`.
    """

    def __setattr__(self, name: str, value: object) -> None:
        fields: Mapping[str, Field[Hint]] = vars(type(self))["__dataclass_fields__"]
        if name not in fields:
            raise ModelError(f"""{type(self).__name__} has no option {name!r}.
                next:  {did_you_mean(name, fields)}use one of {", ".join(fields)}.""")
        hint = _hints(type(self).__init__).get(name)
        check(type(self).__name__, name, value, hint, refuse=misuse)
        super().__setattr__(name, value)


@cache
def _hints(function: Function) -> Mapping[str, Hint]:
    """Return a dict from the parameter names of `function` to their annotations (cached)."""
    return hints_of(function)


@dataclass(frozen=True)
class Group:
    """A group of parameters that an optimiser updates with the same settings.

    - `rate`: the learning rate.
    - `numbers`: a dict from the names of the other settings, such as "momentum", to their values.
    - `names`: the names of the parameters in the group, or None for all parameters.
    - `kind`: the optimiser of this group, or "" for the `kind` of `Training`.
    """

    rate: Rate = 0.01
    numbers: Mapping[str, float | bool] = field(default_factory=dict)
    names: Collection[str] | None = None
    kind: str = ""


@dataclass
class Training:
    """The settings of a training step: the optimiser, its groups, and the transforms of the graph.

    - `kind`: the optimiser, such as "sgd".
    - `groups`: the groups of parameters, each with its own learning rate and settings.
    - `scale`: the factor by which the loss is multiplied before the backward pass.
    - `recompute`: "standard", the values to keep in memory, or None for no recomputation.
    - `accumulation`: the number of micro-batches in an update.
    - `replicas`: the number of copies of the model, each of which gets its own batches.
    - `reduction`: "mean" or "sum" of the gradients of the micro-batches and replicas.
    - `sharded`: whether the optimiser's state is divided among the replicas.
    - `off_chip`: whether the optimiser's state is in streaming memory.
    - `phased`: whether the graph is divided into phases that run one after the other.
    - `schedule`: the pipeline schedule, or "" for no pipeline.
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
        """Return `graph` with the backward pass and an update of `parameters`.

        If `parameters` is None, all float variables are updated. If `gradients` is None, the
        gradients are computed from `loss`; otherwise `gradients` maps each parameter to its
        gradient, which is a value of `graph`.

        :raises ModelError: if a transform fails, for example because an operation has no gradient.
        """
        if gradients is None:
            assert loss is not None, "without gradients, a loss is needed"
            step, grads = ir.autodiff(without_unused(graph), loss, parameters, self.scale)
        else:
            selected_parameters = None if parameters is None else set(parameters)
            grads = {
                parameter: gradient
                for parameter, gradient in gradients.items()
                if selected_parameters is None or parameter in selected_parameters
            }
            outputs = {
                **graph.outputs,
                **{f"gradient {parameter.name}": gradient for parameter, gradient in grads.items()},
            }
            step = graph.but(ops=without_unused(graph.but(outputs=outputs)).ops)
        if self.recompute is not None:
            step = ir.recompute(step, self.recompute)
        for number, group in enumerate(self.groups):
            names = group.names
            selected = {
                parameter: gradient
                for parameter, gradient in grads.items()
                if names is None or parameter.name in names
            }
            rate = step.variable(group.rate, rate_of(number), FLOAT)
            kind = group.kind or self.kind
            step = ir.optimise(
                step, selected, kind=kind, rate=rate, scale=self.scale, **group.numbers
            )
        step = ir.accumulate(step, self.accumulation, self.reduction)
        step = ir.replicate(step, self.replicas, "MEAN" if self.reduction == "mean" else "ADD")
        step = ir.sharded(step) if self.sharded else step
        step = ir.pipelined(step, self.schedule) if self.schedule else step
        step = ir.off_chip(step) if self.off_chip else step
        return ir.phased(step) if self.phased else step


def rate_of(number: int) -> str:
    """Return the name of the variable that contains the learning rate of parameter group `number`.

    The host may write this variable between runs. Groups are numbered from 0.
    """
    return f"rate of group {number}" if number else "rate"


def compile_graph(
    label: str,
    graph: Ir,
    model: IPUModel,
    steps: Count = 1,
    options: Options | None = None,
) -> Run:
    """Compile a graph for a machine like `model`; return the `Run` that executes it.

    The machine has one IPU for each stage of each replica; the number of IPUs in `model` is not
    used. `label` names the graph in the progress message, `steps` is the number of steps in a run,
    and `options` are the options of `Lowering`.
    """
    sized_model = copy(model)
    sized_model.num_ipus = graph.stages * graph.replicas
    with working(f"compile {label}"):
        device = sized_model.create_device()
        return Run(ir.Lowering(graph, device, steps, options), device)


def select_outputs(rows: Array, mode: str, n: int = 1) -> Array:
    """Return the rows that `mode` selects. Axis 0 of `rows` counts steps in time order.

    "all" selects every row, "final" the last row, and "everyn" the rows n - 1, 2n - 1, and so on.
    "sum" returns one row, the sum of all rows, in the dtype of `rows` (HALF is added in FLOAT). The
    result has an axis 0 in all modes. Only "everyn" uses `n`.
    """
    if mode == "sum":
        # HALF is added in float32, so that the sum is rounded only once.
        sum_dtype = np.float32 if rows.dtype == np.float16 else rows.dtype
        row_sum: Array = rows.sum(0, keepdims=True, dtype=sum_dtype).astype(rows.dtype)
        return row_sum
    return {"all": rows, "final": rows[-1:], "everyn": rows[n - 1 :: n]}[mode]


def batch_product(name: str, batch: int, factors: Mapping[str, int]) -> str:
    """Return the number of examples in a run as a product, such as `batch 8 * replicas 2 = 16`.

    The first factor has the name `name` and the value `batch`. `factors` maps the names of the
    other factors to their values.
    """
    factor_text = " * ".join(
        [f"{name} {batch}", *(f"{factor} {number}" for factor, number in factors.items())]
    )
    return f"{factor_text} = {batch * prod(factors.values()):,}"


def without_unused(graph: Ir) -> Ir:
    """Return a copy of the graph without the operations whose results are never used.

    A result is used if an operation that is kept reads it, or if it is an output of the graph.
    Operations that print or that change a variable are kept.
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
    """Return the first input of the operation that produces `value`.

    Return None if no operation produces `value`, or if the operation is not of kind `kind`.
    """
    op = graph.maker().get(value)
    return op.inputs[0] if op is not None and op.kind == kind else None


def machine(version: str = "ipu2", tiles: int = 0, ipus: int = 1) -> IPUModel:
    """Return an `IPUModel` of `version`, such as "ipu2", with `ipus` IPUs of `tiles` tiles each.

    If `tiles` is 0, each IPU has as many tiles as its version has.
    """
    return IPUModel(version, num_ipus=ipus, **({"tiles_per_ipu": tiles} if tiles else {}))


def checked_name(call: str, name: object, known: Collection[str]) -> str:
    """Return `name`, which must be in `known`; otherwise raise `ModelError`.

    `call` is the subject of the error's message, which also contains the nearest known name.
    """
    if not isinstance(name, str) or name not in known:
        raise ModelError(f"""{call} was given {shown(name)}, which is not a known name.
            next:  {did_you_mean(name, known)}use one of {", ".join(known)}.""")
    return str(name)


check_calls(globals(), misuse, without=("checked_name",))
