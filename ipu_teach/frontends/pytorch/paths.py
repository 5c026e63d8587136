"""Assign the operations of a captured model to modules, including those without a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipu_teach.frontends.ir import OPS, Ir, Op
from ipu_teach.frontends.session import without_unused

LOSS = "loss"


def with_paths(graph: Ir, backward: Sequence[Op], name: str, loss: str | None) -> list[Op]:
    """Return the operations of a forward pass, `graph.ops`, and of its backward pass, with paths.

    A forward operation outside all submodules gets the path `name`, the path of the model. It gets
    the path "loss" instead if it comes after all submodules, and if the output `loss`, but no other
    output, needs it. A backward operation gets the path of the forward operation on the same line.
    The backward operations before those of submodules belong to the loss.
    """
    last_in_submodules = max(
        (i for i, op in enumerate(graph.ops) if op.path and not _changes(op)), default=-1
    )
    other_outputs = {n: v for n, v in graph.outputs.items() if n != loss}
    needed_by_others = (
        set(map(id, without_unused(graph.but(outputs=other_outputs)).ops))
        if loss is not None
        else set()
    )
    lines: dict[str, set[tuple[str, int]]] = {LOSS: set(), name: set()}
    labelled_ops = []
    for i, op in enumerate(graph.ops):
        if not op.path:
            is_loss = loss is not None and i > last_in_submodules and id(op) not in needed_by_others
            op = replace(op, path=LOSS if is_loss else name)
            lines[op.path].add(op.line)
        labelled_ops.append(op)
    model_lines = lines[name] - lines[LOSS]
    loss_lines = lines[LOSS] - lines[name]
    is_before_submodules = loss is not None
    for op in backward:
        if op.path:
            is_before_submodules = False
        elif op.line in loss_lines or (is_before_submodules and op.line not in model_lines):
            op = replace(op, path=LOSS)
        else:
            op = replace(op, path=name)
        labelled_ops.append(op)
    return labelled_ops


def _changes(op: Op) -> bool:
    """Return whether an operation changes a variable; these are at the end of a captured model."""
    return OPS[op.kind].in_place
