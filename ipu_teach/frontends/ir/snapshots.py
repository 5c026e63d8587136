"""Copies of variables for operations that read them, or a view of them, after a change."""

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
    """Return the graph with a copy of each value that would change before it is read.

    Each value has to keep its elements, but a view shares the memory of its variable. In a
    pipeline, other micro-batches also change a variable between a forward pass and its backward
    pass. If no operation needs a copy, return `ir` itself.
    """
    changes: dict[Value, list[int]] = {}
    for place, op in enumerate(ir.ops):
        if OPS[op.kind].in_place:
            changes.setdefault(op.inputs[0], []).append(place)
    if not changes:
        return ir
    snapshots = _Snapshots(ir, changes)
    ops = [snapshots.read_copies(op, place) for place, op in enumerate(ir.ops)]
    outputs = {name: snapshots.output(value) for name, value in ir.outputs.items()}
    if not snapshots.swaps:
        return ir
    copies = snapshots.copies
    with_copies = [part for place, op in enumerate(ops) for part in (op, *copies.get(place, ()))]
    return ir.but(ops=with_copies, outputs=outputs)


class _Snapshots:
    """The copies of variables and views of a graph.

    Attributes:
        changes: the positions of the operations that change each variable.
        made_at: the position of the operation that produces each view of these variables.
        variables_of: the variables whose memory a value shares; a variable shares its own.
        swaps: the copy of each value that has one.
        copies: the copy operations, by the position of the operation that they follow.
    """

    def __init__(self, ir: Ir, changes: dict[Value, list[int]]) -> None:
        self.ir = ir
        self.changes = changes
        self.made_at: dict[Value, int] = {}
        self.variables_of: dict[Value, set[Value]] = {v: {v} for v in changes}
        self.swaps: Swaps = {}
        self.copies: dict[int, list[Op]] = {}
        for place, op in enumerate(ir.ops):
            variables = set().union(*(self.variables_of.get(v, set()) for v in op.inputs))
            if OPS[op.kind].view and variables:
                self.made_at.update(dict.fromkeys(op.outs, place))
                self.variables_of.update(dict.fromkeys(op.outs, variables))

    def read_copies(self, op: Op, place: int) -> Op:
        """Return `op` with copies in place of those inputs that may have changed.

        `place` is its position in the graph.
        """
        swaps: Swaps = {}
        for value in op.inputs:
            if value in self.made_at:
                if self._is_stale(value, op, place):
                    swaps[value] = self._snapshot(value, self.made_at[value], op.stage)
            elif self._changes_before(value, op):
                last = max(
                    i
                    for i, peer in enumerate(self.ir.ops)
                    if peer.part == FORWARD and peer.stage == op.stage
                )
                swaps[value] = self._snapshot(value, last, op.stage)
        return swapped(op, swaps)

    def output(self, value: Value) -> Value:
        """Return an output, or a copy of it if it is a view that changes before the update."""
        if value not in self.made_at:
            return value
        made_at = self.made_at[value]
        changes = (place for v in self.variables_of[value] for place in self.changes[v])
        if any(place > made_at and self.ir.ops[place].part != UPDATE for place in changes):
            return self._snapshot(value, made_at, self.ir.ops[made_at].stage)
        return value

    def _snapshot(self, value: Value, place: int, stage: int) -> Value:
        """Return the copy of a value; the first call adds it after the operation at `place`."""
        if value not in self.swaps:
            copied = self.swaps[value] = Value(value.shape, value.dtype, f"{value.name}/copy")
            after = replace(self.ir.ops[place], kind="copy", attrs={}, stage=stage)
            after = replace(after, inputs=(value,), outs=(copied,))
            self.copies.setdefault(place, []).append(after)
        return self.swaps[value]

    def _is_stale(self, view: Value, reader: Op, place: int) -> bool:
        """Return whether `view` may have changed when `reader`, at `place`, reads it."""
        made_at = self.made_at[view]
        for variable in self.variables_of[view]:
            changes = self.changes[variable]
            if OPS[reader.kind].in_place and reader.inputs[0] is variable:
                return True  # the operation would overwrite its own input
            if any(made_at < change < place for change in changes):
                return True
            if _outlives_forward(self.ir, reader) and _changes_forward(self.ir, changes):
                return self.ir.ops[made_at].part == FORWARD
        return False

    def _changes_before(self, variable: Value, reader: Op) -> bool:
        """Return whether another micro-batch may change `variable` before `reader` reads it."""
        if variable not in self.changes or variable.remote:
            return False
        if OPS[reader.kind].in_place and reader.inputs[0] is variable:
            return False
        changes_forward = _changes_forward(self.ir, self.changes[variable])
        return _outlives_forward(self.ir, reader) and changes_forward


def _outlives_forward(ir: Ir, reader: Op) -> bool:
    """Return whether forward passes of other micro-batches may run before `reader` does.

    This is the case for the backward pass of a pipeline.
    """
    return ir.schedule in (GROUPED, INTERLEAVED) and reader.part == BACKWARD


def _changes_forward(ir: Ir, places: list[int]) -> bool:
    """Return whether an operation at one of `places` belongs to the forward pass."""
    return any(ir.ops[place].part == FORWARD for place in places)
