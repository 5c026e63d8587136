"""What the faces share and no operation is: how a graph comes to train, what a loss looks at, and
options that refuse a name they do not have."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ipu_teach.device import Device, IPUModel
from ipu_teach.errors import ModelError, did_you_mean, shown
from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import OPS, Ir, Value


class Known:
    """Options, a dataclass: a name that is none of them is refused."""

    def __setattr__(self, name: str, value: Any) -> None:
        known: Mapping[str, Any] = vars(type(self))["__dataclass_fields__"]
        if name not in known:
            raise ModelError(f"""{type(self).__name__} has no option {name!r}.
                next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
        super().__setattr__(name, value)


@dataclass
class Training:
    """How a graph trains: the optimiser with its `numbers`, then the transforms, in the order in
    which they are applied. `recompute`: "standard", or the values to keep."""

    kind: str = "sgd"
    rate: float = 0.01
    numbers: Mapping[str, float] = field(default_factory=dict)
    scale: float = 1.0
    recompute: str | Iterable[Value] | None = None
    accumulation: int = 1
    replicas: int = 1
    reduction: str = "mean"
    sharded: bool = False
    off_chip: bool = False
    phased: bool = False
    schedule: str = ""

    def of(self, graph: Ir, loss: Value, parameters: Iterable[Value] | None = None) -> Ir:
        """The graph with gradients of `loss` and an update of the `parameters`. Raises
        `ModelError`."""
        step, grads = ir.autodiff(needed(graph), loss, parameters, self.scale)
        if self.recompute is not None:
            step = ir.recompute(step, self.recompute)
        step = ir.optimise(step, grads, self.kind, self.rate, self.scale, **self.numbers)
        step = ir.accumulate(step, self.accumulation, self.reduction)
        step = ir.replicate(step, self.replicas, "MEAN" if self.reduction == "mean" else "ADD")
        step = ir.sharded(step) if self.sharded else step
        step = ir.pipelined(step, self.schedule) if self.schedule else step
        step = ir.off_chip(step) if self.off_chip else step
        return ir.phased(step) if self.phased else step


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


def machine(ipus: int, version: str = "ipu2", tiles: int = 0) -> Device:
    """A device of so many IPUs, with all the tiles of the machine or fewer."""
    return IPUModel(
        version, num_ipus=ipus, **({"tiles_per_ipu": tiles} if tiles else {})
    ).create_device()


def whole(what: str, number: object, least: int = 1) -> int:
    """`number`, a whole one. Raises `ModelError`."""
    if type(number) is not int or number < least:
        raise ModelError(f"""{what} was given {shown(number)}.
            next:  give a whole number of {least} or more.""")
    return number


def among(what: str, name: object, known: Collection[str]) -> str:
    """`name`, one of those that are known. Raises `ModelError`."""
    if name not in known:
        raise ModelError(f"""{what} was given {shown(name)}.
            next:  {did_you_mean(name, known)}there are {", ".join(known)}.""")
    return str(name)
