"""Insert copies of variables for operations that would otherwise read a variable after a change.

A view of a variable shares its memory, so it changes with the variable.
"""

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
    """Return the graph with a copy of each value that would otherwise change before it is read.

    A view of a variable changes with the variable. In a pipeline, other micro-batches may change a
    variable between the forward and the backward pass of a micro-batch. If no copy is needed,
    return `ir` itself.
    """
    changes: dict[Value, list[int]] = {}
    for position, op in enumerate(ir.ops):
        if OPS[op.kind].in_place:
            changes.setdefault(op.inputs[0], []).append(position)
    if not changes:
        return ir
    snapshots = _Snapshots(ir, changes)
    ops = [snapshots.read_copies(op, position) for position, op in enumerate(ir.ops)]
    outputs = {name: snapshots.output(value) for name, value in ir.outputs.items()}
    if not snapshots.swaps:
        return ir
    copies = snapshots.copies
    with_copies = [
        part_op for position, op in enumerate(ops) for part_op in (op, *copies.get(position, ()))
    ]
    return ir.but(ops=with_copies, outputs=outputs)


class _Snapshots:
    """The copies of a graph's variables and of their views, which share the variables' memory.

    - `changes`: the positions of the operations that change each variable.
    - `made_at`: the position of the operation that produces each view.
    - `variables_of`: for each variable and each view, the variables whose memory it shares.
    - `swaps`: a dict from values to their copies.
    - `copies`: a dict from the position of an operation to the copy operations that are inserted
      after it.
    """

    def __init__(self, ir: Ir, changes: dict[Value, list[int]]) -> None:
        self.ir = ir
        self.changes = changes
        self.made_at: dict[Value, int] = {}
        self.variables_of: dict[Value, set[Value]] = {value: {value} for value in changes}
        self.swaps: Swaps = {}
        self.copies: dict[int, list[Op]] = {}
        for position, op in enumerate(ir.ops):
            variables = set().union(*(self.variables_of.get(value, set()) for value in op.inputs))
            if OPS[op.kind].view and variables:
                self.made_at.update(dict.fromkeys(op.outs, position))
                self.variables_of.update(dict.fromkeys(op.outs, variables))

    def read_copies(self, op: Op, position: int) -> Op:
        """Return `op`, with copies in place of the inputs that may have changed.

        `position` is the position of `op` in the graph.
        """
        swaps: Swaps = {}
        for value in op.inputs:
            if value in self.made_at:
                if self._is_stale(value, op, position):
                    swaps[value] = self._snapshot(value, self.made_at[value], op.stage)
            elif self._changes_before(value, op):
                last_forward = max(
                    index
                    for index, peer in enumerate(self.ir.ops)
                    if peer.part == FORWARD and peer.stage == op.stage
                )
                swaps[value] = self._snapshot(value, last_forward, op.stage)
        return swapped(op, swaps)

    def output(self, value: Value) -> Value:
        """Return an output of the graph, or a copy of it.

        A view is copied if an operation before the update changes its variable after the view is
        made.
        """
        if value not in self.made_at:
            return value
        made_at = self.made_at[value]
        changes = (
            position for variable in self.variables_of[value] for position in self.changes[variable]
        )
        if any(position > made_at and self.ir.ops[position].part != UPDATE for position in changes):
            return self._snapshot(value, made_at, self.ir.ops[made_at].stage)
        return value

    def _snapshot(self, value: Value, position: int, stage: int) -> Value:
        """Return the copy of `value`. Add the copy to the graph if it does not exist yet.

        The copy operation is inserted after the operation at `position`, and runs in the stage
        `stage`.
        """
        if value not in self.swaps:
            copy = self.swaps[value] = Value(value.shape, value.dtype, f"{value.name}/copy")
            copy_op = replace(self.ir.ops[position], kind="copy", attrs={}, stage=stage)
            copy_op = replace(copy_op, inputs=(value,), outs=(copy,))
            self.copies.setdefault(position, []).append(copy_op)
        return self.swaps[value]

    def _is_stale(self, view: Value, reader: Op, position: int) -> bool:
        """Return whether `view` may have changed before the operation `reader` reads it.

        `position` is the position of `reader` in the graph.
        """
        made_at = self.made_at[view]
        for variable in self.variables_of[view]:
            changes = self.changes[variable]
            if OPS[reader.kind].in_place and reader.inputs[0] is variable:
                return True  # `reader` changes the variable, and therefore the view that it reads.
            if any(made_at < change < position for change in changes):
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
    """Return whether forward passes of other micro-batches may run before `reader` runs.

    This is true for the backward pass with the schedules GROUPED and INTERLEAVED. There, a stage
    may run the forward passes of later micro-batches before the backward pass of a micro-batch.
    """
    return ir.schedule in (GROUPED, INTERLEAVED) and reader.part == BACKWARD


def _changes_forward(ir: Ir, positions: list[int]) -> bool:
    """Return whether an operation at one of `positions` belongs to the forward pass."""
    return any(ir.ops[position].part == FORWARD for position in positions)
