"""From graph to graph, with every value kept: what is computed again, where it runs, how many of it
there are, and what lies in streaming memory. A transform returns a graph that shares the values."""

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

__all__ = [
    "accumulate", "off_chip", "phased", "pipelined", "recompute", "replicate", "sharded",
    "staged",
]  # fmt: skip


def _variable(ir: Ir, like: Value, name: str, **more: Any) -> Value:
    """A new variable of a graph, of zeros, like a value but for `more`."""
    zeros = ir.constant(0, like.dtype).initial
    made = replace(like, name=name, kind=VARIABLE, initial=zeros, **more)
    ir.variables[name] = made
    return made


def staged(ir: Ir, stages: Mapping[str, Natural]) -> Ir:
    """A graph before `autodiff`, with the operations of modules on stages of their own, by the
    longest prefix of their path; one of no module there stays with the one before it."""
    now, ops = 0, []
    for op in ir.ops:
        fits = [p for p in stages if op.path == p or op.path.startswith(f"{p}.") or not p]
        now = stages[max(fits, key=len)] if fits else now
        ops.append(replace(op, stage=now))
    made = ir.but(ops=ops)
    return made.but(
        ops=[
            replace(op, stage=made.home(op.inputs[0])) if OPS[op.kind].in_place else op
            for op in ops
        ]
    )


# --- computed again -------------------------------------------------------------------------------


def recompute(
    ir: Ir, keep: Iterable[Value] | Annotated[str, Among(("standard",))] = "standard"
) -> Ir:
    """A graph after `autodiff` whose backward computes again what it needs of the forward, each
    once, from the values in `keep`, variables and inputs.

    "standard" keeps what is alive where least is: of the places between two operations, about the
    square root of them. What goes to another stage or phase is kept, and what was read of a
    variable that changes meanwhile. Raises `ModelError` for another word, and values that no
    forward makes.
    """
    maker = ir.maker()
    changed = {op.inputs[0] for op in ir.ops if OPS[op.kind].in_place and op.part == FORWARD}
    if isinstance(keep, str):
        kept = _least_alive(ir, maker)
    else:
        kept = set(keep)
        for value in kept:
            if value.kind == MADE and (value not in maker or maker[value].part != FORWARD):
                raise ModelError(f"""recompute() was told to keep {value!r}, which no forward of
                    the graph makes.
                    next:  give values of this graph.""")
    for op in ir.ops:
        far = [v for v in op.inputs if v in maker and _section(maker[v])[1:] != _section(op)[1:]]
        kept.update(far)
        if changed.intersection(op.inputs):
            kept.update(op.outs)
    swaps: Swaps = {}
    ops: list[Op] = []
    place = {op: i for i, op in enumerate(ir.ops)}
    for op in ir.ops:
        wanted, needed = list(op.inputs) if op.part == BACKWARD else [], set()
        while wanted:
            value = wanted.pop()
            source = maker.get(value)
            fresh = source is not None and source.part == FORWARD and source not in needed
            if source is not None and fresh and value not in kept and value not in swaps:
                needed.add(source)
                wanted += source.inputs
        for source in sorted(needed, key=place.__getitem__):
            outs = tuple(Value(v.shape, v.dtype, f"{v.name}/again") for v in source.outs)
            ops.append(replace(swapped(source, swaps), outs=outs, part=BACKWARD))
            both = zip(source.outs, outs, strict=True)
            swaps.update({v: w for v, w in both if v not in kept})
        ops.append(swapped(op, swaps) if op.part == BACKWARD else op)
    return ir.but(ops=ops)


def _least_alive(ir: Ir, maker: Mapping[Value, Op]) -> set[Value]:
    """What is alive at the places in the forward where that is least: one in each stretch."""
    ops = [op for op in ir.ops if op.part == FORWARD]
    last = {v: i for i, op in enumerate(ops) for v in op.inputs if v in maker}
    alive: list[list[Value]] = []
    for i, op in enumerate(ops):
        before = [*alive[-1], *op.outs] if alive else list(op.outs)
        alive.append([v for v in before if last.get(v, -1) > i])
    stretch = max(round(sqrt(len(ops))), 1)
    kept: set[Value] = set()
    for start in range(0, len(ops) - stretch, stretch):
        places = range(start, start + stretch)
        least = min(places, key=lambda i: sum(v.size * v.dtype.size for v in alive[i]))
        kept.update(alive[least])
    return kept


# --- several micro-batches, several replicas ------------------------------------------------------


def _gradients(ir: Ir) -> dict[Value, Value]:
    """What the update reads of the micro-batch, and for which parameter."""
    maker = ir.maker()
    found: dict[Value, Value] = {}
    for op in ir.ops:
        if op.part == UPDATE and op.kind in STATE:
            value = op.inputs[1]
            while value in maker and maker[value].part == UPDATE:
                value = maker[value].inputs[0]
            found[value] = op.inputs[0]
    for op in ir.ops:
        for v in op.inputs if op.part == UPDATE else ():
            if v in maker and maker[v].part != UPDATE and v not in found:
                raise op.error(
                    f"{op.kind} updates by {v.name!r}, which is no gradient of a parameter.",
                    "accumulation sums gradients, and what is made of one by one tensor.",
                )
    return found


def accumulate(
    ir: Ir, count: Count, reduction: Annotated[str, Among(("mean", "sum"))] = "mean"
) -> Ir:
    """A graph after `optimise` that updates once in `count` micro-batches, by the mean of their
    gradients, or their sum. Raises `ModelError`."""
    if count == 1:
        return ir
    made = ir.but(ops=[op for op in ir.ops if op.part != UPDATE], accumulation=count)
    sums, means = {}, {}
    for value, parameter in _gradients(ir).items():
        sums[value] = _variable(made, value, f"{parameter.name}.sum")
        path, stage = parameter.name.rpartition(".")[0], ir.home(parameter)
        with made.at(part=BACKWARD, stage=stage, path=path, line=("", 0)):
            made.emit("accumulate", sums[value], value, parameter)
    for value, total in sums.items():
        with made.at(part=UPDATE, stage=made.home(total), line=("", 0)):
            means[value] = made.op("mul", total, 1 / count) if reduction == "mean" else total
    made.ops += [swapped(op, means) for op in ir.ops if op.part == UPDATE]
    for total in sums.values():
        with made.at(part=UPDATE, line=("", 0)):
            made.emit("clear", total)
    return made


def replicate(
    ir: Ir, count: Count, reduction: Annotated[str, Among(("MEAN", "ADD"))] = "MEAN"
) -> Ir:
    """A graph after `optimise` of which `count` replicas run, each on other micro-batches: they
    combine their gradients, all at once, before the update. Raises `ModelError`."""
    made = ir.but(replicas=count)
    last = [op for op in ir.ops if op.part == UPDATE and OPS[op.kind].in_place]
    made.ops = [op for op in ir.ops if op not in set(last)]
    groups: dict[tuple[int, Any], list[Value]] = {}
    for op in last if count > 1 else ():
        if op.kind in STATE:
            groups.setdefault((op.stage, op.inputs[1].dtype), []).append(op.inputs[1])
    swaps: Swaps = {}
    for (stage, _), several in groups.items():
        with made.at(part=UPDATE, stage=stage, path="", line=("", 0)):
            swaps.update(zip(several, made.emit("all_reduce", *several, op=reduction), strict=True))
    # what is cleared for the next step is this replica's own sum
    made.ops += [swapped(op, swaps) if op.kind in STATE else op for op in last]
    return made


def pipelined(ir: Ir, schedule: Annotated[str, Among(SCHEDULES)] = GROUPED) -> Ir:
    """A graph whose stages are each at work on another micro-batch, by one of
    `schedules.SCHEDULES`. What it accumulates are the micro-batches. Raises `InvalidOptionError`
    for too few of them."""
    training = any(op.part == BACKWARD for op in ir.ops)
    pipeline_schedule(ir.stages, ir.accumulation, schedule, training)
    return ir.but(schedule=schedule)


def sharded(ir: Ir) -> Ir:
    """A graph after `replicate` whose replicas each have a share of what the optimiser keeps: they
    get the sums of their share of the gradients, update that, and send it round. Raises
    `ModelError` for an optimiser that looks at a whole parameter."""
    rounds = [op for op in ir.ops if op.kind == "all_reduce"]
    reduced = {v: (op, i) for op in rounds for i, v in enumerate(op.outs)}
    made, count = ir.but(ops=[]), {"count": ir.replicas}
    for op in ir.ops:
        if op.kind not in STATE or op.inputs[1] not in reduced:
            made.ops += [op] if op.kind != "all_reduce" else []
            continue
        if op.kind == "lars":
            raise op.error(
                "lars takes the length of a whole parameter, and a replica would have a share.",
                "choose another optimiser, or do without sharded().",
            )
        w, g, rate, *state = op.inputs
        source, i = reduced[g]
        shape = (-(-w.size // ir.replicas),)
        mine = _variable(made, w, f"{w.name}.share", shape=shape, remote=False, sharded=True)
        kept = [replace(v, shape=shape, sharded=True) if v.shape else v for v in state]
        made.variables.update({v.name: v for v in kept})
        with made.at(**op.here):
            part = made.op("reduce_scatter", source.inputs[i], **source.attrs, **count)
            made.emit("assign", mine, made.op("own_share", w, **count))
            made.emit(op.kind, mine, part, rate, *kept, **op.attrs)
            whole = made.op("reshape", made.op("all_gather", mine, **count), shape=(-1,))
            if whole.size != w.size:
                whole = made.op("slice", whole, dim=0, begin=0, end=w.size)
            made.emit("assign", w, made.op("reshape", whole, shape=w.shape))
    return made


# --- streaming memory -----------------------------------------------------------------------------


def off_chip(ir: Ir, names: Collection[str] | None = None) -> Ir:
    """A graph with the variables of these names in streaming memory, from where each section or
    update fetches them: by default what the optimiser keeps. Raises `ModelError`."""
    state = {v.name for op in ir.ops if op.kind in STATE for v in op.inputs[3:]}
    wanted = state if names is None else set(names)
    if unknown := wanted - ir.variables.keys():
        raise ModelError(f"""off_chip() was given {", ".join(map(repr, sorted(unknown)))}, and there
            are no such variables.
            next:  give names of variables: {", ".join(ir.variables)}.""")
    swaps = {ir.variables[n]: replace(ir.variables[n], remote=True) for n in wanted}
    made = ir.but(ops=[swapped(op, swaps) for op in ir.ops])
    made.variables.update({v.name: v for v in swaps.values()})
    made.outputs = {n: swaps.get(v, v) for n, v in ir.outputs.items()}
    return made


def _section(op: Op) -> tuple[str, int, int]:
    return op.part, op.phase, op.stage


def phased(ir: Ir) -> Ir:
    """A graph whose phases, set by `at(phase=…)`, each fetch their parameters from streaming
    memory, and leave there what a later one reads. Forward and backward of a phase are two."""
    body = [op for op in ir.ops if op.part != UPDATE]
    changed = {op.inputs[0] for op in body if OPS[op.kind].in_place}
    names = {v.name for op in body for v in op.inputs if v.kind == VARIABLE and v not in changed}
    made = off_chip(off_chip(ir, names))
    maker, ops, made.ops = made.maker(), made.ops, []
    crossing = {v for op in ops for v in op.inputs if v in maker and _apart(maker[v], op)}
    stored: Swaps = {}
    again: dict[tuple[Value, tuple[str, int, int]], Value] = {}
    for op in ops:
        swaps: Swaps = {}
        for value in stored.keys() & set(op.inputs):
            if _apart(maker[value], op):
                key = value, _section(op)
                if key not in again or op.part == UPDATE:
                    with made.at(**op.here):
                        again[key] = made.op("load", stored[value])
                swaps[value] = again[key]
        made.ops.append(swapped(op, swaps))
        for value in op.outs:
            if value in crossing:
                stored[value] = _variable(made, value, f"{value.name}.stored", remote=True)
                with made.at(**op.here):
                    made.emit("assign", stored[value], value)
    return made


def _apart(one: Op, other: Op) -> bool:
    return _section(one) != _section(other)


check_calls(globals(), misuse)
