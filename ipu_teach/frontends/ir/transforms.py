"""Graph transforms: recomputation, stages, micro-batches, replicas and streaming memory.

Each returns another graph, which shares the values of the first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import sqrt
from typing import TYPE_CHECKING, Annotated, TypedDict

from ipu_teach.arguments import Among, Count, Natural, check_calls
from ipu_teach.errors import ModelError
from ipu_teach.frontends.ir.autodiff import STATE
from ipu_teach.frontends.ir.values import (
    BACKWARD,
    FORWARD,
    MADE,
    OPS,
    UPDATE,
    VARIABLE,
    Ir,
    Op,
    Swaps,
    Value,
    misuse,
    swapped,
)
from ipu_teach.schedules import GROUPED, SCHEDULES, pipeline_schedule
from ipu_teach.types import DType

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = [
    "accumulate", "off_chip", "phased", "pipelined", "recompute", "replicate", "sharded",
    "staged",
]  # fmt: skip


class _Fields(TypedDict, total=False):
    """Fields of a `Value`."""

    shape: tuple[int, ...]
    remote: bool
    sharded: bool


def _variable(ir: Ir, like: Value, name: str, **fields: Unpack[_Fields]) -> Value:
    """Add a variable of zeros to `ir`, with the fields of `like` except those in `fields`."""
    zeros = ir.constant(0, like.dtype).initial
    variable = replace(like, name=name, kind=VARIABLE, initial=zeros, **fields)
    ir.variables[name] = variable
    return variable


def staged(ir: Ir, stages: Mapping[str, Natural]) -> Ir:
    """Return the graph with each module on the stage that `stages` assigns to its path.

    The longest prefix of an operation's path among the keys decides; an operation without such a
    prefix gets the stage of the operation before it. Call this before `autodiff`.
    """
    stage = 0
    ops = []
    for op in ir.ops:
        prefixes = [p for p in stages if op.path == p or op.path.startswith(f"{p}.") or not p]
        stage = stages[max(prefixes, key=len)] if prefixes else stage
        ops.append(replace(op, stage=stage))
    moved = ir.but(ops=ops)
    return moved.but(
        ops=[
            replace(op, stage=moved.home(op.inputs[0])) if OPS[op.kind].in_place else op
            for op in ops
        ]
    )


# --- recomputation --------------------------------------------------------------------------------


def recompute(
    ir: Ir, keep: Iterable[Value] | Annotated[str, Among(("standard",))] = "standard"
) -> Ir:
    """Return the graph with a backward pass that recomputes forward values instead of keeping them.

    Recomputation starts from variables, inputs, and the values in `keep`. Each value is recomputed
    at most once. "standard" divides the n operations of the forward pass into about sqrt(n) parts,
    and keeps in each part the values that are alive at one point, where they take the fewest bytes.
    Values that another stage or phase reads are also kept, and so are results of operations that
    read a variable which the forward pass changes.

    Call this after `autodiff`. Raises `ModelError` for a `keep` of other values than results of the
    forward pass, variables and inputs.
    """
    maker = ir.maker()
    changed = {op.inputs[0] for op in ir.ops if OPS[op.kind].in_place and op.part == FORWARD}
    if isinstance(keep, str):
        saved = _least_alive(ir, maker)
    else:
        saved = set(keep)
        for value in saved:
            if value.kind == MADE and (value not in maker or maker[value].part != FORWARD):
                raise ModelError(f"""recompute() was given {value!r} to keep, which is not made in
                    the forward of the graph.
                    next:  give values of this graph.""")
    for op in ir.ops:
        far = [v for v in op.inputs if v in maker and _section(maker[v])[1:] != _section(op)[1:]]
        saved.update(far)
        if changed.intersection(op.inputs):
            saved.update(op.outs)
    swaps: Swaps = {}
    ops: list[Op] = []
    place = {op: i for i, op in enumerate(ir.ops)}
    for op in ir.ops:
        if op.part != BACKWARD:
            ops.append(op)
            continue
        for source in sorted(_missing(op, maker, saved, swaps), key=place.__getitem__):
            outs = tuple(Value(v.shape, v.dtype, f"{v.name}/again") for v in source.outs)
            ops.append(replace(swapped(source, swaps), outs=outs, part=BACKWARD))
            both = zip(source.outs, outs, strict=True)
            swaps.update({v: again for v, again in both if v not in saved})
        ops.append(swapped(op, swaps))
    return ir.but(ops=ops)


def _missing(op: Op, maker: Mapping[Value, Op], saved: set[Value], swaps: Swaps) -> set[Op]:
    """Return the forward operations to repeat before `op`, an operation of the backward pass.

    The values in `saved` are in memory, and the keys of `swaps` have been recomputed already.
    """
    wanted = list(op.inputs)
    missing = set()
    while wanted:
        value = wanted.pop()
        source = maker.get(value)
        if source is None or source.part != FORWARD or source in missing:
            continue
        if value not in saved and value not in swaps:
            missing.add(source)
            wanted += source.inputs
    return missing


def _least_alive(ir: Ir, maker: Mapping[Value, Op]) -> set[Value]:
    """Return the values to keep for "standard" recomputation.

    The forward pass of n operations is divided into about sqrt(n) parts. The result has, for each
    part, the values that are alive after the operation where they take the fewest bytes.
    """
    ops = [op for op in ir.ops if op.part == FORWARD]
    last = {v: i for i, op in enumerate(ops) for v in op.inputs if v in maker}
    alive: list[list[Value]] = []
    for i, op in enumerate(ops):
        before = [*alive[-1], *op.outs] if alive else list(op.outs)
        alive.append([v for v in before if last.get(v, -1) > i])
    bytes_alive = [sum(v.size * v.dtype.size for v in values) for values in alive]
    stretch = max(round(sqrt(len(ops))), 1)
    saved: set[Value] = set()
    for start in range(0, len(ops) - stretch, stretch):
        places = range(start, start + stretch)
        best = min(places, key=bytes_alive.__getitem__)
        saved.update(alive[best])
    return saved


# --- several micro-batches, several replicas ------------------------------------------------------


def _gradients(ir: Ir) -> dict[Value, Value]:
    """Return a dict from each gradient that the update reads to its parameter.

    Raises `ModelError` if the update reads any other result of the forward or backward pass.
    """
    maker = ir.maker()
    parameters: dict[Value, Value] = {}
    for op in ir.ops:
        if op.part == UPDATE and op.kind in STATE:
            value = op.inputs[1]
            while value in maker and maker[value].part == UPDATE:
                value = maker[value].inputs[0]
            parameters[value] = op.inputs[0]
    for op in ir.ops:
        for v in op.inputs if op.part == UPDATE else ():
            if v in maker and maker[v].part != UPDATE and v not in parameters:
                raise op.error(
                    f"{op.kind} updates by {v.name!r}, which is not a gradient of a parameter.",
                    "update by gradients, or by results of operations with one gradient each.",
                )
    return parameters


def accumulate(
    ir: Ir, count: Count, reduction: Annotated[str, Among(("mean", "sum"))] = "mean"
) -> Ir:
    """Return the graph with one update for every `count` micro-batches.

    The update uses the mean or the sum of their gradients. Call this after `optimise`. Raises
    `ModelError` if the update reads other values of a micro-batch than gradients.
    """
    if count == 1:
        return ir
    result = ir.but(ops=[op for op in ir.ops if op.part != UPDATE], accumulation=count)
    sums = {}
    means = {}
    for value, parameter in _gradients(ir).items():
        sums[value] = _variable(result, value, f"{parameter.name}.sum")
        path = parameter.name.rpartition(".")[0]
        stage = ir.home(parameter)
        with result.at(part=BACKWARD, stage=stage, path=path, line=("", 0)):
            result.emit("accumulate", sums[value], value, parameter)
    for value, total in sums.items():
        with result.at(part=UPDATE, stage=result.home(total), line=("", 0)):
            means[value] = result.op("mul", total, 1 / count) if reduction == "mean" else total
    result.ops += [swapped(op, means) for op in ir.ops if op.part == UPDATE]
    for total in sums.values():
        with result.at(part=UPDATE, line=("", 0)):
            result.emit("clear", total)
    return result


def replicate(
    ir: Ir, count: Count, reduction: Annotated[str, Among(("MEAN", "ADD"))] = "MEAN"
) -> Ir:
    """Return the graph for `count` replicas, which run on different micro-batches.

    Before the update, the replicas reduce all gradients to their mean or sum. Call this after
    `optimise`.
    """
    result = ir.but(replicas=count)
    updates = [op for op in ir.ops if op.part == UPDATE and OPS[op.kind].in_place]
    result.ops = [op for op in ir.ops if op not in set(updates)]
    groups: dict[tuple[int, type[DType]], list[Value]] = {}
    for op in updates if count > 1 else ():
        if op.kind in STATE:
            groups.setdefault((op.stage, op.inputs[1].dtype), []).append(op.inputs[1])
    swaps: Swaps = {}
    for (stage, _), grads in groups.items():
        with result.at(part=UPDATE, stage=stage, path="", line=("", 0)):
            swaps.update(zip(grads, result.emit("all_reduce", *grads, op=reduction), strict=True))
    # "clear" keeps its input, the sum of gradients on this replica
    result.ops += [swapped(op, swaps) if op.kind in STATE else op for op in updates]
    return result


def pipelined(ir: Ir, schedule: Annotated[str, Among(SCHEDULES)] = GROUPED) -> Ir:
    """Return the graph as a pipeline: its stages run at the same time, on different micro-batches.

    `schedule` is one of `schedules.SCHEDULES`. Raises `InvalidOptionError` if the number of
    accumulated micro-batches does not suit the schedule.
    """
    is_training = any(op.part == BACKWARD for op in ir.ops)
    pipeline_schedule(ir.stages, ir.accumulation, schedule, is_training)
    return ir.but(schedule=schedule)


def sharded(ir: Ir) -> Ir:
    """Return the graph with the optimiser's state divided among the replicas.

    Each replica gets its share of the summed gradients, updates its share of the parameters, and
    sends it to the others. Call this after `replicate`. Raises `ModelError` for "lars", which needs
    complete parameters.
    """
    reductions = [op for op in ir.ops if op.kind == "all_reduce"]
    reduced = {v: (op, i) for op in reductions for i, v in enumerate(op.outs)}
    result = ir.but(ops=[])
    count = {"count": ir.replicas}
    for op in ir.ops:
        if op.kind not in STATE or op.inputs[1] not in reduced:
            result.ops += [op] if op.kind != "all_reduce" else []
            continue
        if op.kind == "lars":
            raise op.error(
                "lars needs the norm of a whole parameter, but each replica has only a share.",
                "choose another optimiser, or leave out sharded().",
            )
        w, g, rate, *state = op.inputs
        source, i = reduced[g]
        shape = (-(-w.size // ir.replicas),)
        share = _variable(result, w, f"{w.name}.share", shape=shape, remote=False, sharded=True)
        shared_state = [
            v if name == "step" else replace(v, shape=shape, sharded=True)
            for name, v in zip(STATE[op.kind], state, strict=True)
        ]
        result.variables.update({v.name: v for v in shared_state})
        with result.at(**op.context):
            part = result.op("reduce_scatter", source.inputs[i], **source.attrs, **count)
            result.emit("assign", share, result.op("own_share", w, **count))
            result.emit(op.kind, share, part, rate, *shared_state, **op.attrs)
            gathered = result.op("all_gather", share, **count)
            elements = result.op("reshape", gathered, shape=(-1,))
            if elements.size != w.size:
                elements = result.op("slice", elements, dim=0, begin=0, end=w.size)
            result.emit("assign", w, result.op("reshape", elements, shape=w.shape))
    return result


# --- streaming memory -----------------------------------------------------------------------------


def off_chip(ir: Ir, names: Collection[str] | None = None) -> Ir:
    """Return the graph with the variables called `names` in streaming memory.

    By default they are the variables of the optimiser's state. Each section of the program copies
    them to the tiles when it needs them. Raises `ModelError` for a name that is not a variable's.
    """
    state = {v.name for op in ir.ops if op.kind in STATE for v in op.inputs[3:]}
    remote = state if names is None else set(names)
    if unknown := remote - ir.variables.keys():
        raise ModelError(f"""off_chip() was given {", ".join(map(repr, sorted(unknown)))}, but the
            graph has no such variables.
            next:  give names of variables: {", ".join(ir.variables)}.""")
    swaps = {ir.variables[n]: replace(ir.variables[n], remote=True) for n in remote}
    result = ir.but(ops=[swapped(op, swaps) for op in ir.ops])
    result.variables.update({v.name: v for v in swaps.values()})
    result.outputs = {n: swaps.get(v, v) for n, v in ir.outputs.items()}
    return result


def _section(op: Op) -> tuple[str, int, int]:
    """Return the part, phase and stage of an operation, which identify a section of the program."""
    return op.part, op.phase, op.stage


def phased(ir: Ir) -> Ir:
    """Return the graph with execution phases, whose data are in streaming memory between phases.

    `at(phase=…)` sets the phase of an operation. Each phase loads its parameters, and stores values
    that a later phase reads. The forward and the backward pass of a phase are two sections, which
    also exchange values through streaming memory.
    """
    body = [op for op in ir.ops if op.part != UPDATE]
    changed = {op.inputs[0] for op in body if OPS[op.kind].in_place}
    names = {v.name for op in body for v in op.inputs if v.kind == VARIABLE and v not in changed}
    result = off_chip(off_chip(ir, names))
    maker = result.maker()
    ops = result.ops
    result.ops = []
    crossing = {v for op in ops for v in op.inputs if v in maker and _are_apart(maker[v], op)}
    stored: Swaps = {}
    loaded: dict[tuple[Value, tuple[str, int, int]], Value] = {}
    for op in ops:
        swaps: Swaps = {}
        for value in stored.keys() & set(op.inputs):
            if _are_apart(maker[value], op):
                key = value, _section(op)
                if key not in loaded or op.part == UPDATE:
                    with result.at(**op.context):
                        loaded[key] = result.op("load", stored[value])
                swaps[value] = loaded[key]
        result.ops.append(swapped(op, swaps))
        for value in op.outs:
            if value in crossing:
                stored[value] = _variable(result, value, f"{value.name}.stored", remote=True)
                with result.at(**op.context):
                    result.emit("assign", stored[value], value)
    return result


def _are_apart(source: Op, reader: Op) -> bool:
    """Return whether two operations are in different sections."""
    return _section(source) != _section(reader)


check_calls(globals(), misuse)
