"""Transforms: they return a graph that shares the values of the given one.

They add recomputation, stages, several micro-batches or replicas, and streaming memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import sqrt
from typing import Annotated, Any

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

__all__ = [
    "accumulate", "off_chip", "phased", "pipelined", "recompute", "replicate", "sharded",
    "staged",
]  # fmt: skip


def _variable(ir: Ir, like: Value, name: str, **fields: Any) -> Value:
    """Add a variable of zeros to a graph; its other fields are those of `like`, or `fields`."""
    zeros = ir.constant(0, like.dtype).initial
    variable = replace(like, name=name, kind=VARIABLE, initial=zeros, **fields)
    ir.variables[name] = variable
    return variable


def staged(ir: Ir, stages: Mapping[str, Natural]) -> Ir:
    """Return a graph, before `autodiff`, whose modules run on the given stages.

    The longest prefix of an operation's path in `stages` decides; an operation without one has the
    stage of the operation before it.
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
    """Return a graph, after `autodiff`, whose backward recomputes values of the forward.

    It starts from the values in `keep`, variables and inputs, and recomputes each value once.
    "standard" keeps the values alive between two operations, at about sqrt(n) places among the n
    operations of the forward where they take the fewest bytes. Values that another stage or phase
    reads are also kept, and values computed from a variable that changes in the forward.

    Raises `ModelError` for another text, and for values that are not made in the forward.
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
    """Return the forward operations to recompute before `op` of the backward.

    `saved` are available, and so are the keys of `swaps`, which have been recomputed before.
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
    """Return the values alive at one place in each stretch of the forward: where they are fewest.

    A stretch has about sqrt(n) of the n operations; fewest means the fewest bytes.
    """
    ops = [op for op in ir.ops if op.part == FORWARD]
    last = {v: i for i, op in enumerate(ops) for v in op.inputs if v in maker}
    alive: list[list[Value]] = []
    for i, op in enumerate(ops):
        before = [*alive[-1], *op.outs] if alive else list(op.outs)
        alive.append([v for v in before if last.get(v, -1) > i])
    stretch = max(round(sqrt(len(ops))), 1)
    saved: set[Value] = set()
    for start in range(0, len(ops) - stretch, stretch):
        places = range(start, start + stretch)
        best = min(places, key=lambda i: sum(v.size * v.dtype.size for v in alive[i]))
        saved.update(alive[best])
    return saved


# --- several micro-batches, several replicas ------------------------------------------------------


def _gradients(ir: Ir) -> dict[Value, Value]:
    """Return the parameter for each gradient that the update reads.

    Raises `ModelError` if the update reads any other value of the micro-batch.
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
    """Return a graph, after `optimise`, with one update for each `count` micro-batches.

    The update uses the mean or the sum of their gradients. Raises `ModelError`.
    """
    if count == 1:
        return ir
    result = ir.but(ops=[op for op in ir.ops if op.part != UPDATE], accumulation=count)
    sums, means = {}, {}
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
    """Return a graph, after `optimise`, of which `count` replicas run on different micro-batches.

    Before the update, they reduce all their gradients to the mean or the sum. Raises `ModelError`.
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
    # "clear" keeps its input: it clears the sum of this replica
    result.ops += [swapped(op, swaps) if op.kind in STATE else op for op in updates]
    return result


def pipelined(ir: Ir, schedule: Annotated[str, Among(SCHEDULES)] = GROUPED) -> Ir:
    """Return a graph whose stages run at the same time, each on another micro-batch.

    The accumulated micro-batches pass through the pipeline, by a schedule of `schedules.SCHEDULES`.
    Raises `InvalidOptionError` if there are too few of them.
    """
    is_training = any(op.part == BACKWARD for op in ir.ops)
    pipeline_schedule(ir.stages, ir.accumulation, schedule, is_training)
    return ir.but(schedule=schedule)


def sharded(ir: Ir) -> Ir:
    """Return a graph, after `replicate`, whose replicas each have a share of the optimiser's state.

    Each replica gets the sums of its share of the gradients, updates its share of the parameters,
    and sends it to all others. Raises `ModelError` for an optimiser that needs whole parameters.
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
    """Return a graph with the variables of these names in streaming memory.

    By default they are the optimiser's state. Each section or update fetches them from there.
    Raises `ModelError`.
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
    """Return the part, phase and stage of an operation."""
    return op.part, op.phase, op.stage


def phased(ir: Ir) -> Ir:
    """Return a graph whose phases, set by `at(phase=…)`, keep their data in streaming memory.

    Each phase fetches its parameters, and stores the values that a later phase reads. Forward and
    backward of a phase are two sections, which also exchange values through streaming memory.
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
