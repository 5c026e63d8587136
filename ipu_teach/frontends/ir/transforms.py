"""From graph to graph, with every value kept: what is computed again, where it runs, how many of it
there are, and what lies in streaming memory. A transform returns a graph that shares the values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from math import sqrt

from ipu_teach.errors import ModelError, shown
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
    Value,
)
from ipu_teach.schedules import GROUPED, pipeline_schedule

Swaps = dict[Value, Value]


def _swapped(op: Op, swaps: Swaps) -> Op:
    if not any(v in swaps for v in op.inputs):
        return op
    return replace(op, inputs=tuple(swaps.get(v, v) for v in op.inputs))


def staged(ir: Ir, stages: Mapping[str, int]) -> Ir:
    """A graph before `autodiff`, with the operations of modules on stages of their own, by the
    longest prefix of their path; one of no module there stays with the one before it."""
    now, ops = 0, []
    for op in ir.ops:
        fits = [p for p in stages if op.path == p or op.path.startswith(f"{p}.") or not p]
        now = stages[max(fits, key=len)] if fits else now
        ops.append(replace(op, stage=now))
    made = ir.but(ops=ops)
    return made.but(ops=[
        replace(op, stage=made.home(op.inputs[0])) if OPS[op.kind].in_place else op for op in ops
    ])


# --- computed again -------------------------------------------------------------------------------


def recompute(ir: Ir, keep: Iterable[Value] | str = "standard") -> Ir:
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
        if keep != "standard":
            raise ModelError(f"""recompute() was told to keep {shown(keep)}.
                next:  give the values to keep, or "standard".""")
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

    def again(value: Value, here: Op) -> None:
        op = maker.get(value)
        if op is None or op.part != FORWARD or value in kept or value in swaps:
            return
        for each in op.inputs:
            again(each, here)
        outs = tuple(Value(v.shape, v.dtype, f"{v.name}/again") for v in op.outs)
        ops.append(replace(_swapped(op, swaps), outs=outs, part=BACKWARD))
        swaps.update({v: w for v, w in zip(op.outs, outs, strict=True) if v not in kept})

    for op in ir.ops:
        if op.part == BACKWARD:
            for value in op.inputs:
                again(value, op)
            op = _swapped(op, swaps)
        ops.append(op)
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
    loose = [
        (op, v)
        for op in ir.ops
        for v in op.inputs
        if op.part == UPDATE and v in maker and maker[v].part != UPDATE and v not in found
    ]
    for op, value in loose:
        raise op.error(
            f"{op.kind} updates by {value.name!r}, which is no gradient of a parameter.",
            "accumulation sums gradients, and what is made of one by one tensor.",
        )
    return found


def accumulate(ir: Ir, count: int, reduction: str = "mean") -> Ir:
    """A graph after `optimise` that updates once in `count` micro-batches, by the mean of their
    gradients, or their sum. Raises `ModelError`."""
    if type(count) is not int or count < 1 or reduction not in ("mean", "sum"):
        raise ModelError(f"""accumulate() was given {shown(count)} and {shown(reduction)}.
            next:  give a whole number of 1 or more, and "mean" or "sum".""")
    if count == 1:
        return ir
    made = ir.but(ops=[op for op in ir.ops if op.part != UPDATE], accumulation=count)
    update = [op for op in ir.ops if op.part == UPDATE]
    sums: Swaps = {}
    for value, parameter in _gradients(ir).items():
        zeros = made.constant(0, value.dtype).initial
        total = Value(value.shape, value.dtype, f"{parameter.name}.sum", VARIABLE, zeros)
        made.variables[total.name] = total
        with made.at(part=BACKWARD, path=parameter.name.rpartition(".")[0], line=("", 0)):
            stage = ir.home(parameter)
            with made.at(stage=stage):
                made.ops.append(
                    Op("accumulate", (total, value, parameter), (), {}, **made.here)
                )
        sums[value] = total
    with made.at(part=UPDATE, line=("", 0)):
        means: Swaps = dict(sums)
        for value, total in sums.items():
            if reduction == "mean":
                with made.at(stage=made.home(total)):
                    means[value] = made.op("mul", total, 1 / count)
        made.ops += [_swapped(op, means) for op in update]
        for total in sums.values():
            made.emit("clear", total)
    return made


def replicate(ir: Ir, count: int, reduction: str = "MEAN") -> Ir:
    """A graph after `optimise` of which `count` replicas run, each on other micro-batches: they
    combine their gradients, all at once, before the update. Raises `ModelError`."""
    if type(count) is not int or count < 1:
        raise ModelError(f"""replicate() was given {shown(count)} replicas.
            next:  give a whole number of 1 or more.""")
    made = ir.but(replicas=count)
    first = [op for op in ir.ops if op.part != UPDATE or not OPS[op.kind].in_place]
    last = [op for op in ir.ops if op.part == UPDATE and OPS[op.kind].in_place]
    groups: dict[tuple[int, str], list[Value]] = {}
    for op in last:
        if op.kind in STATE:
            groups.setdefault((op.stage, op.inputs[1].dtype.__name__), []).append(op.inputs[1])
    made.ops, swaps = first, {}
    for (stage, _), several in groups.items() if count > 1 else ():
        with made.at(part=UPDATE, stage=stage, path="", line=("", 0)):
            swaps.update(zip(several, made.emit("all_reduce", *several, op=reduction), strict=True))
    made.ops += [_swapped(op, swaps) for op in last]
    return made


def pipelined(ir: Ir, schedule: str = GROUPED) -> Ir:
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
    if ir.replicas == 1:
        return ir
    reduced = {v: (op, i) for op in ir.ops if op.kind == "all_reduce" for i, v in enumerate(op.outs)}
    made = ir.but(ops=[op for op in ir.ops if op.kind != "all_reduce"])
    ops, made.ops = made.ops, []
    for op in ops:
        if op.part != UPDATE or op.kind not in STATE or op.inputs[1] not in reduced:
            made.ops.append(op)
            continue
        if op.kind == "lars":
            raise op.error(
                "lars takes the length of a whole parameter, and a replica would have a share.",
                "choose another optimiser, or do without sharded().",
            )
        w, g, rate, *state = op.inputs
        source, i = reduced[g]
        share = -(-w.size // ir.replicas)
        zeros = made.constant(0, w.dtype).initial
        mine = Value((share,), w.dtype, f"{w.name}.share", VARIABLE, zeros, sharded=True)
        made.variables[mine.name] = mine
        here = {"part": UPDATE, "stage": op.stage, "path": op.path, "line": op.line}
        with made.at(**here):
            part = made.op("reduce_scatter", source.inputs[i], op=source.attrs["op"], count=ir.replicas)
            now = made.op("own_share", w, count=ir.replicas)
            made.ops.append(Op("assign", (mine, now), (), {}, **made.here))
            kept = []
            for old in state:
                new = old if not old.shape else replace(old, shape=(share,), sharded=True)
                made.variables[new.name] = new
                kept.append(new)
            made.ops.append(Op(op.kind, (mine, part, rate, *kept), (), op.attrs, **made.here))
            whole = made.op("all_gather", mine, count=ir.replicas)
            flat = made.op("reshape", whole, shape=(share * ir.replicas,))
            if flat.size != w.size:
                flat = made.op("slice", flat, dim=0, begin=0, end=w.size)
            made.emit("assign", w, made.op("reshape", flat, shape=w.shape))
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
    made = ir.but(ops=[_swapped(op, swaps) for op in ir.ops])
    made.variables.update({v.name: v for v in swaps.values()})
    made.outputs = {n: swaps.get(v, v) for n, v in ir.outputs.items()}
    return made


def _section(op: Op) -> tuple[str, int, int]:
    return op.part, op.phase, op.stage


def phased(ir: Ir) -> Ir:
    """A graph whose phases, set by `at(phase=…)`, each fetch their parameters from streaming
    memory, and leave there what a later one reads. Forward and backward of a phase are two."""
    body = {v for op in ir.ops if op.part != UPDATE for v in op.inputs if v.kind == VARIABLE}
    changed = {op.inputs[0] for op in ir.ops if OPS[op.kind].in_place and op.part != UPDATE}
    made = off_chip(ir, [v.name for v in ir.variables.values() if v in body - changed])
    made = off_chip(made)
    maker, ops = made.maker(), made.ops
    crossing = {
        v
        for op in ops
        for v in op.inputs
        if v in maker and _section(maker[v]) != _section(op)
    }
    stored: Swaps = {}
    again: dict[tuple[Value, tuple[str, int, int]], Value] = {}
    made.ops = []
    for op in ops:
        swaps: Swaps = {}
        for value in dict.fromkeys(op.inputs):
            if value in stored and _section(maker[value]) != _section(op):
                key = value, _section(op)
                if key not in again or op.part == UPDATE:
                    with made.at(part=op.part, phase=op.phase, stage=op.stage, path=op.path):
                        again[key] = made.op("load", stored[value])
                swaps[value] = again[key]
        made.ops.append(_swapped(op, swaps))
        for value in op.outs:
            if value in crossing:
                zeros = made.constant(0, value.dtype).initial
                home = Value(value.shape, value.dtype, f"{value.name}.stored", VARIABLE, zeros, remote=True)
                made.variables[home.name] = stored[value] = home
                here = {"stage": op.stage, "part": op.part, "phase": op.phase, "path": op.path}
                made.ops.append(Op("assign", (home, value), (), {}, **here, line=op.line))
    return made


