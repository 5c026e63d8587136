"""Graph transforms: recomputation, stages, micro-batches, replicas and streaming memory.

Each function returns a new graph, which contains the same `Value` objects as the old graph.
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
    """Attributes of a `Value`. All keys are optional."""

    shape: tuple[int, ...]
    remote: bool
    sharded: bool


def _variable(ir: Ir, like: Value, name: str, **fields: Unpack[_Fields]) -> Value:
    """Add a variable of zeros to `ir`, with the attributes of `like` except those in `fields`."""
    zeros = ir.constant(0, like.dtype).initial
    variable = replace(like, name=name, kind=VARIABLE, initial=zeros, **fields)
    ir.variables[name] = variable
    return variable


def staged(ir: Ir, stages: Mapping[str, Natural]) -> Ir:
    """Return the graph with each operation on the stage that `stages` assigns to its module.

    `stages` maps the paths of modules to stages. A path applies to the operations of the module and
    of its submodules: "encoder" also applies to "encoder.layer1". If several paths apply to an
    operation, the longest of them decides. If none applies, the operation is on the stage of the
    operation before it. An operation that changes a variable is on the stage of the first operation
    that reads the variable.

    Call this function before `autodiff`.
    """
    stage = 0
    ops = []
    for op in ir.ops:
        prefixes = [
            prefix
            for prefix in stages
            if op.path == prefix or op.path.startswith(f"{prefix}.") or not prefix
        ]
        stage = stages[max(prefixes, key=len)] if prefixes else stage
        ops.append(replace(op, stage=stage))
    staged_graph = ir.but(ops=ops)
    return staged_graph.but(
        ops=[
            replace(op, stage=staged_graph.home(op.inputs[0])) if OPS[op.kind].in_place else op
            for op in ops
        ]
    )


# --- recomputation --------------------------------------------------------------------------------


def recompute(
    ir: Ir, keep: Iterable[Value] | Annotated[str, Among(("standard",))] = "standard"
) -> Ir:
    """Return the graph with a backward pass that recomputes forward values instead of saving them.

    Recomputation starts from variables, inputs, and the values in `keep`. Each value is recomputed
    at most once.

    If `keep` is "standard", the n operations of the forward pass are divided into about sqrt(n)
    groups. After each operation, some values are alive: later operations of the forward pass read
    them. In each group except the last, the operation after which the alive values have the fewest
    bytes is chosen, and these values are saved.

    Values that another stage or phase reads are always saved, and so are results of operations that
    read a variable which the forward pass changes.

    Call this function after `autodiff`.

    :raises ModelError: if `keep` contains a result that does not belong to the forward pass.
    """
    maker = ir.maker()
    changed_variables = {
        op.inputs[0] for op in ir.ops if OPS[op.kind].in_place and op.part == FORWARD
    }
    if isinstance(keep, str):
        saved = _least_alive(ir, maker)
    else:
        saved = set(keep)
        for value in saved:
            if value.kind == MADE and (value not in maker or maker[value].part != FORWARD):
                raise ModelError(f"""recompute() was given keep={value!r}, which is not a result of
                    the graph's forward pass.
                    next:  keep only results of the forward pass of this graph.""")
    for op in ir.ops:
        values_of_sections = [
            v for v in op.inputs if v in maker and _section(maker[v])[1:] != _section(op)[1:]
        ]
        saved.update(values_of_sections)
        if changed_variables.intersection(op.inputs):
            saved.update(op.outs)
    swaps: Swaps = {}
    ops: list[Op] = []
    position = {op: index for index, op in enumerate(ir.ops)}
    for op in ir.ops:
        if op.part != BACKWARD:
            ops.append(op)
            continue
        for source in sorted(_missing(op, maker, saved, swaps), key=position.__getitem__):
            outs = tuple(Value(v.shape, v.dtype, f"{v.name}/again") for v in source.outs)
            ops.append(replace(swapped(source, swaps), outs=outs, part=BACKWARD))
            value_pairs = zip(source.outs, outs, strict=True)
            swaps.update({v: recomputed for v, recomputed in value_pairs if v not in saved})
        ops.append(swapped(op, swaps))
    return ir.but(ops=ops)


def _missing(op: Op, maker: Mapping[Value, Op], saved: set[Value], swaps: Swaps) -> set[Op]:
    """Return the forward operations that must be repeated before `op`, a backward operation.

    The values in `saved` are in memory, and the keys of `swaps` have already been recomputed.
    """
    to_check = list(op.inputs)
    missing = set()
    while to_check:
        value = to_check.pop()
        source = maker.get(value)
        if source is None or source.part != FORWARD or source in missing:
            continue
        if value not in saved and value not in swaps:
            missing.add(source)
            to_check += source.inputs
    return missing


def _least_alive(ir: Ir, maker: Mapping[Value, Op]) -> set[Value]:
    """Return the values that "standard" recomputation keeps in memory.

    The n operations of the forward pass are divided into about sqrt(n) groups. A value is alive
    after an operation if a later operation of the forward pass reads it. In each group except the
    last, the operation after which the alive values have the fewest bytes is chosen. The result
    contains these values.
    """
    ops = [op for op in ir.ops if op.part == FORWARD]
    last_reader = {
        value: index for index, op in enumerate(ops) for value in op.inputs if value in maker
    }
    alive: list[list[Value]] = []
    for index, op in enumerate(ops):
        candidates = [*alive[-1], *op.outs] if alive else list(op.outs)
        alive.append([value for value in candidates if last_reader.get(value, -1) > index])
    bytes_by_position = [sum(value.size * value.dtype.size for value in values) for values in alive]
    part_length = max(round(sqrt(len(ops))), 1)
    saved: set[Value] = set()
    for part_begin in range(0, len(ops) - part_length, part_length):
        positions = range(part_begin, part_begin + part_length)
        best_position = min(positions, key=bytes_by_position.__getitem__)
        saved.update(alive[best_position])
    return saved


# --- several micro-batches, several replicas ------------------------------------------------------


def _gradients(ir: Ir) -> dict[Value, Value]:
    """Return a dict that maps each gradient that the update reads to its parameter.

    :raises ModelError: if the update reads another result of the forward or backward pass.
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
                    f"The operation {op.kind} of the update reads {v.name!r}, which is not the "
                    "gradient of a parameter.",
                    "pass the gradients of autodiff() to optimise(), unchanged or after operations "
                    "that each read a single gradient.",
                )
    return parameters


def accumulate(
    ir: Ir, count: Count, reduction: Annotated[str, Among(("mean", "sum"))] = "mean"
) -> Ir:
    """Return the graph with one update for every `count` micro-batches.

    The update uses the mean or the sum of the micro-batches' gradients. Call this function after
    `optimise`.

    :raises ModelError: if the update reads results of a micro-batch other than gradients.
    """
    if count == 1:
        return ir
    result = ir.but(ops=[op for op in ir.ops if op.part != UPDATE], accumulation=count)
    sums_of_gradients = {}
    reduced_gradients = {}
    for value, parameter in _gradients(ir).items():
        sums_of_gradients[value] = _variable(result, value, f"{parameter.name}.sum")
        path = parameter.name.rpartition(".")[0]
        stage = ir.home(parameter)
        with result.at(part=BACKWARD, stage=stage, path=path, line=("", 0)):
            result.emit("accumulate", sums_of_gradients[value], value, parameter)
    for value, gradient_sum in sums_of_gradients.items():
        with result.at(part=UPDATE, stage=result.home(gradient_sum), line=("", 0)):
            reduced_gradients[value] = (
                result.op("mul", gradient_sum, 1 / count) if reduction == "mean" else gradient_sum
            )
    result.ops += [swapped(op, reduced_gradients) for op in ir.ops if op.part == UPDATE]
    for gradient_sum in sums_of_gradients.values():
        with result.at(part=UPDATE, line=("", 0)):
            result.emit("clear", gradient_sum)
    return result


def replicate(
    ir: Ir, count: Count, reduction: Annotated[str, Among(("MEAN", "ADD"))] = "MEAN"
) -> Ir:
    """Return the graph for `count` replicas, which run on different micro-batches.

    Before the update, the replicas exchange the mean or sum of their gradients. Call this function
    after `optimise`.
    """
    result = ir.but(replicas=count)
    updates = [op for op in ir.ops if op.part == UPDATE and OPS[op.kind].in_place]
    kept_out = set(updates)
    result.ops = [op for op in ir.ops if op not in kept_out]
    gradients_by_stage: dict[tuple[int, type[DType]], list[Value]] = {}
    for op in updates if count > 1 else ():
        if op.kind in STATE:
            gradients_by_stage.setdefault((op.stage, op.inputs[1].dtype), []).append(op.inputs[1])
    swaps: Swaps = {}
    for (stage, _), grads in gradients_by_stage.items():
        with result.at(part=UPDATE, stage=stage, path="", line=("", 0)):
            swaps.update(zip(grads, result.emit("all_reduce", *grads, op=reduction), strict=True))
    # Only optimisers read the sum over all replicas. The operation "clear" must set the gradient
    # sum of its own replica to 0.
    result.ops += [swapped(op, swaps) if op.kind in STATE else op for op in updates]
    return result


def pipelined(ir: Ir, schedule: Annotated[str, Among(SCHEDULES)] = GROUPED) -> Ir:
    """Return the graph as a pipeline: its stages work on different micro-batches at the same time.

    `schedule` is the name of a pipeline schedule, one of `ipu_teach.schedules.SCHEDULES`. With the
    schedule "sequential", only one stage works at a time.

    :raises InvalidOptionError: if the number of accumulated micro-batches does not suit the
        schedule.
    """
    is_training = any(op.part == BACKWARD for op in ir.ops)
    pipeline_schedule(ir.stages, ir.accumulation, schedule, is_training)
    return ir.but(schedule=schedule)


def sharded(ir: Ir) -> Ir:
    """Return the graph with the optimiser's state divided among the replicas.

    Each replica receives a part of the sum or mean of all replicas' gradients. It updates the same
    part of the parameters, and sends its new elements to the other replicas. Call this function
    after `replicate`. With a single replica, nothing changes.

    :raises ModelError: for the optimiser "lars", which needs complete parameters.
    """
    reductions = [op for op in ir.ops if op.kind == "all_reduce"]
    reduction_of_gradient = {
        value: (op, index) for op in reductions for index, value in enumerate(op.outs)
    }
    result = ir.but(ops=[])
    num_replicas = {"count": ir.replicas}
    for op in ir.ops:
        if op.kind not in STATE or op.inputs[1] not in reduction_of_gradient:
            result.ops += [op] if op.kind != "all_reduce" else []
            continue
        if op.kind == "lars":
            raise op.error(
                "The optimiser lars needs the norm of a complete parameter, but sharded() stores "
                "only a part of it on each replica.",
                "use another optimiser, or leave out sharded().",
            )
        parameter, gradient, rate, *state = op.inputs
        source, index = reduction_of_gradient[gradient]
        shape = (-(-parameter.size // ir.replicas),)
        parameter_share = _variable(
            result, parameter, f"{parameter.name}.share", shape=shape, remote=False, sharded=True
        )
        shared_state = [
            value if name == "step" else replace(value, shape=shape, sharded=True)
            for name, value in zip(STATE[op.kind], state, strict=True)
        ]
        result.variables.update({value.name: value for value in shared_state})
        with result.at(**op.context):
            gradient_share = result.op(
                "reduce_scatter", source.inputs[index], **source.attrs, **num_replicas
            )
            result.emit(
                "assign", parameter_share, result.op("own_share", parameter, **num_replicas)
            )
            result.emit(op.kind, parameter_share, gradient_share, rate, *shared_state, **op.attrs)
            gathered = result.op("all_gather", parameter_share, **num_replicas)
            elements = result.op("reshape", gathered, shape=(-1,))
            if elements.size != parameter.size:
                elements = result.op("slice", elements, dim=0, begin=0, end=parameter.size)
            result.emit("assign", parameter, result.op("reshape", elements, shape=parameter.shape))
    return result


# --- streaming memory -----------------------------------------------------------------------------


def off_chip(ir: Ir, names: Collection[str] | None = None) -> Ir:
    """Return the graph with the variables `names` in streaming memory.

    If `names` is None, these are the variables with the optimiser's state. Operations with the same
    part, phase and stage form a section of the program. Each section copies the variables that it
    uses to the tiles.

    :raises ModelError: if the graph has no variable with one of these names.
    """
    state_names = {value.name for op in ir.ops if op.kind in STATE for value in op.inputs[3:]}
    remote = state_names if names is None else set(names)
    if unknown := remote - ir.variables.keys():
        raise ModelError(f"""off_chip() was given {", ".join(map(repr, sorted(unknown)))}, which is
            not the name of a variable of the graph.
            next:  use names of variables: {", ".join(ir.variables)}.""")
    swaps = {ir.variables[name]: replace(ir.variables[name], remote=True) for name in remote}
    result = ir.but(ops=[swapped(op, swaps) for op in ir.ops])
    result.variables.update({value.name: value for value in swaps.values()})
    result.outputs = {name: swaps.get(value, value) for name, value in ir.outputs.items()}
    return result


def _section(op: Op) -> tuple[str, int, int]:
    """Return `(part, phase, stage)` of an operation, which identifies a section of the program.

    A section consists of the operations with the same part, phase and stage.
    """
    return op.part, op.phase, op.stage


def phased(ir: Ir) -> Ir:
    """Return the graph divided into execution phases, which exchange data through streaming memory.

    `Ir.at(phase=…)` sets the phase of operations. Each phase loads its parameters from streaming
    memory, and stores the values there that a later phase reads. The forward and the backward pass
    of the same phase, and the stages, also exchange values through streaming memory. The
    optimiser's state is in streaming memory, too.
    """
    body = [op for op in ir.ops if op.part != UPDATE]
    changed_variables = {op.inputs[0] for op in body if OPS[op.kind].in_place}
    names = {
        v.name
        for op in body
        for v in op.inputs
        if v.kind == VARIABLE and v not in changed_variables
    }
    result = off_chip(off_chip(ir, names))
    maker = result.maker()
    ops = result.ops
    result.ops = []
    values_to_store = {
        v for op in ops for v in op.inputs if v in maker and _are_apart(maker[v], op)
    }
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
            if value in values_to_store:
                stored[value] = _variable(result, value, f"{value.name}.stored", remote=True)
                with result.at(**op.context):
                    result.emit("assign", stored[value], value)
    return result


def _are_apart(source: Op, reader: Op) -> bool:
    """Return whether two operations differ in their part, phase or stage."""
    return _section(source) != _section(reader)


check_calls(globals(), misuse)
