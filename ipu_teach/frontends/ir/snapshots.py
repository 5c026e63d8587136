"""Copies of variables for operations that read them, or a view of them, after they have changed."""

from __future__ import annotations

from dataclasses import replace

from ipu_teach.frontends.ir.values import (
    BACKWARD,
    FORWARD,
    OPS,
    UPDATE,
    Ir,
    Op,
    Swaps,
    Value,
    swapped,
)
from ipu_teach.schedules import GROUPED, INTERLEAVED


def with_snapshots(ir: Ir) -> Ir:
    """Return the graph with a copy of each view of a variable that changes before the view is read.

    A value keeps its elements, but a view shares the memory of its variable. In a pipeline, other
    micro-batches also change a variable between a forward and its backward. If no operation reads a
    changed variable in this way, the graph itself is returned.
    """
    changes: dict[Value, list[int]] = {}
    for place, op in enumerate(ir.ops):
        if OPS[op.kind].in_place:
            changes.setdefault(op.inputs[0], []).append(place)
    if not changes:
        return ir
    made_at: dict[Value, int] = {}  # the place of the operation that makes a view
    variables_of: dict[Value, set[Value]] = {v: {v} for v in changes}  # whose memory it shares
    for place, op in enumerate(ir.ops):
        variables = set().union(*(variables_of.get(v, set()) for v in op.inputs))
        if OPS[op.kind].view and variables:
            made_at.update(dict.fromkeys(op.outs, place))
            variables_of.update(dict.fromkeys(op.outs, variables))
    snapshots: Swaps = {}
    copies: dict[int, list[Op]] = {}  # by the place of the operation that they follow

    def snapshot(value: Value, place: int, stage: int) -> Value:
        """Return the copy of a value; the first call adds it after the operation at `place`."""
        if value not in snapshots:
            copied = snapshots[value] = Value(value.shape, value.dtype, f"{value.name}/copy")
            after = replace(ir.ops[place], kind="copy", attrs={}, stage=stage)
            copies.setdefault(place, []).append(replace(after, inputs=(value,), outs=(copied,)))
        return snapshots[value]

    def is_stale(value: Value, reader: Op, place: int) -> bool:
        """Return whether a view may have changed by the time an operation reads it."""
        for variable in variables_of[value]:
            if OPS[reader.kind].in_place and reader.inputs[0] is variable:
                return True  # the operation would overwrite its own input
            if any(made_at[value] < change < place for change in changes[variable]):
                return True
            if _outlives_forward(ir, reader) and _changes_forward(ir, changes[variable]):
                return ir.ops[made_at[value]].part == FORWARD
        return False

    ops: list[Op] = []
    for place, op in enumerate(ir.ops):
        swaps: Swaps = {}
        for value in op.inputs:
            if value in made_at and is_stale(value, op, place):
                swaps[value] = snapshot(value, made_at[value], op.stage)
            elif (
                value in changes
                and not value.remote
                and _outlives_forward(ir, op)
                and _changes_forward(ir, changes[value])
                and not (OPS[op.kind].in_place and op.inputs[0] is value)
            ):
                last = max(
                    i
                    for i, peer in enumerate(ir.ops)
                    if peer.part == FORWARD and peer.stage == op.stage
                )
                swaps[value] = snapshot(value, last, op.stage)
        ops.append(swapped(op, swaps))
    outputs = dict(ir.outputs)
    for name, value in outputs.items():
        later = [
            place
            for variable in (variables_of[value] if value in made_at else ())
            for place in changes[variable]
            if place > made_at[value] and ir.ops[place].part != UPDATE
        ]
        if later:
            outputs[name] = snapshot(value, made_at[value], ir.ops[made_at[value]].stage)
    if not snapshots:
        return ir
    ops_with_copies = [
        part for place, op in enumerate(ops) for part in (op, *copies.get(place, ()))
    ]
    return ir.but(ops=ops_with_copies, outputs=outputs)


def _outlives_forward(ir: Ir, reader: Op) -> bool:
    """Return whether other micro-batches may run their forward before an operation reads."""
    return ir.schedule in (GROUPED, INTERLEAVED) and reader.part == BACKWARD


def _changes_forward(ir: Ir, places: list[int]) -> bool:
    """Return whether one of the operations at these places belongs to the forward."""
    return any(ir.ops[place].part == FORWARD for place in places)
