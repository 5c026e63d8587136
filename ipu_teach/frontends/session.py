"""What the faces share and no operation is: how a graph comes to train and to run, which of its
micro-batches come back, and options that refuse a name they do not have."""

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
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Run, Value
from ipu_teach.frontends.ir.autodiff import Optimiser, Rate
from ipu_teach.frontends.ir.values import misuse
from ipu_teach.schedules import SCHEDULES
from ipu_teach.target import PRESETS
from ipu_teach.types import FLOAT

Version = Annotated[str, Among(PRESETS)]
Schedule = Annotated[str, Among(("", *SCHEDULES))]


class Known:
    """Options, a dataclass: a name that is none of them is refused."""

    def __setattr__(self, name: str, value: Any) -> None:
        known: Mapping[str, Any] = vars(type(self))["__dataclass_fields__"]
        if name not in known:
            raise ModelError(f"""{type(self).__name__} has no option {name!r}.
                next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
        check(type(self).__name__, name, value, _hints(type(self).__init__).get(name, Any), misuse)
        super().__setattr__(name, value)


@cache
def _hints(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the annotations of a function by name."""
    return hints_of(function)


@dataclass(frozen=True)
class Group:
    """Parameters that an optimiser treats alike: by their names, or all. `kind`: the optimiser of
    this group, where it is not that of `Training`."""

    rate: Rate = 0.01
    numbers: Mapping[str, float | bool] = field(default_factory=dict)
    names: Collection[str] | None = None
    kind: str = ""


@dataclass
class Training:
    """How a graph trains: the optimiser with its groups, then the transforms, in the order in
    which they are applied. `recompute`: "standard", or the values to keep."""

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

    def of(
        self,
        graph: Ir,
        loss: Value | None,
        parameters: Iterable[Value] | None = None,
        gradients: Mapping[Value, Value] | None = None,
    ) -> Ir:
        """The graph with an update of the `parameters`, by `gradients` that it has, or by those of
        `loss`. Raises `ModelError`."""
        if gradients is None:
            assert loss is not None, "gradients of a loss"
            step, grads = ir.autodiff(needed(graph), loss, parameters, self.scale)
        else:
            trained = None if parameters is None else set(parameters)
            grads = {v: g for v, g in gradients.items() if trained is None or v in trained}
            outputs = {**graph.outputs, **{f"gradient {v.name}": g for v, g in grads.items()}}
            step = graph.but(ops=needed(graph.but(outputs=outputs)).ops)
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
    """The variable that the host writes, to change the rate of a group of parameters."""
    return f"rate of group {number}" if number else "rate"


def compiled(
    what: str,
    graph: Ir,
    model: IPUModel,
    steps: Count = 1,
    options: Mapping[str, Any] | None = None,
) -> Run:
    """A graph on a device of this model, with as many IPUs as it has stages times replicas."""
    machine = copy(model)
    machine.num_ipus = graph.stages * graph.replicas
    with working(f"compile {what}"):
        device = machine.create_device()
        return Run(ir.Lowering(graph, device, steps, options), device)


def chosen(rows: Any, mode: str, n: int = 1) -> Any:
    """Of what came out of runs, one behind the other: "all", the "final" one, each n-th, "everyn",
    or their "sum"."""
    if mode == "sum":
        wide = np.float32 if rows.dtype == np.float16 else rows.dtype  # rounded once
        return rows.sum(0, keepdims=True, dtype=wide).astype(rows.dtype)
    return {"all": rows, "final": rows[-1:], "everyn": rows[n - 1 :: n]}[mode]


def spelt(name: str, batch: int, factors: Mapping[str, int]) -> str:
    """How many samples a run takes, as a product: `batch 8 * replicas 2 = 16`."""
    words = " * ".join([f"{name} {batch}", *(f"{each} {n}" for each, n in factors.items())])
    return f"{words} = {batch * prod(factors.values()):,}"


def needed(graph: Ir) -> Ir:
    """A graph without the operations that make what nobody reads."""
    read, ops = set(graph.outputs.values()), []
    for op in reversed(graph.ops):
        if not op.outs or op.kind == "print" or read.intersection(op.outs):
            ops.append(op)
            read.update(op.inputs)
    assert all(op.outs or OPS[op.kind].in_place for op in ops), "what makes nothing changes one"
    return graph.but(ops=ops[::-1])


def below(graph: Ir, value: Value, kind: str) -> Value | None:
    """What went into the operation of this kind that made a value; None if another made it."""
    op = graph.maker().get(value)
    return op.inputs[0] if op is not None and op.kind == kind else None


def machine(version: str = "ipu2", tiles: int = 0, ipus: int = 1) -> IPUModel:
    """A machine, with all its tiles or fewer."""
    return IPUModel(version, num_ipus=ipus, **({"tiles_per_ipu": tiles} if tiles else {}))


def whole(what: str, number: object, least: int = 1, error: Any = ModelError) -> int:
    """`number`, a whole one. Raises `ModelError`, or the error that is given."""
    if type(number) is not int or number < least:
        raise error(f"""{what} was given {shown(number)}.
            next:  give a whole number of {least} or more.""")
    return number


def among(what: str, name: object, known: Collection[str]) -> str:
    """`name`, one of those that are known. Raises `ModelError`."""
    if not isinstance(name, str) or name not in known:
        raise ModelError(f"""{what} was given {shown(name)}.
            next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
    return str(name)


check_calls(globals(), misuse, without=("among", "whole"))
