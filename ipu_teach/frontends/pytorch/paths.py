"""Assign the operations of a captured model to modules, including those without a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipu_teach.frontends.ir import OPS, Ir, Op
from ipu_teach.frontends.session import without_unused

LOSS = "loss"


def with_paths(graph: Ir, backward: Sequence[Op], name: str, loss: str | None) -> list[Op]:
    """Return the operations of a forward pass, `graph.ops`, and of its backward pass, with paths.

    A forward operation of no submodule gets the path `name`, which is that of the model. It gets
    the path "loss" instead if it comes after all submodules, and if the output `loss`, but no other
    output, needs it. A backward operation gets the path of the forward operation on the same line;
    operations of the loss come first.
    """
    last = max((i for i, op in enumerate(graph.ops) if op.path and not _changes(op)), default=-1)
    rest = {n: v for n, v in graph.outputs.items() if n != loss}
    others = (
        set(map(id, without_unused(graph.but(outputs=rest)).ops)) if loss is not None else set()
    )
    lines: dict[str, set[tuple[str, int]]] = {LOSS: set(), name: set()}
    ops = []
    for i, op in enumerate(graph.ops):
        if not op.path:
            is_loss = loss is not None and i > last and id(op) not in others
            op = replace(op, path=LOSS if is_loss else name)
            lines[op.path].add(op.line)
        ops.append(op)
    model_lines = lines[name] - lines[LOSS]
    loss_lines = lines[LOSS] - lines[name]
    is_first = loss is not None
    for op in backward:
        if op.path:
            is_first = False
        elif op.line in loss_lines or (is_first and op.line not in model_lines):
            op = replace(op, path=LOSS)
        else:
            op = replace(op, path=name)
        ops.append(op)
    return ops


def _changes(op: Op) -> bool:
    """Return whether an operation changes a variable; these are at the end of a captured model."""
    return OPS[op.kind].in_place
