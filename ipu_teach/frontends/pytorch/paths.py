"""Assign each operation of a captured model to a module, even if the operation has no label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ipu_teach.frontends.ir import OPS, Ir, Op
from ipu_teach.frontends.session import without_unused

LOSS = "loss"


def with_paths(graph: Ir, backward: Sequence[Op], name: str, loss: str | None) -> list[Op]:
    """Return the operations of `graph`, then the operations `backward`, each with a module path.

    `name` is the path of the whole model, and `loss` is the name of the output that is the loss.

    - A forward operation outside all submodules gets the path "loss" if it comes after all
      submodules and if no other output than the loss needs it. Otherwise it gets the path `name`.
    - A backward operation without a path gets the path of the forward operations outside all
      submodules on the same line. If there are none, or if their paths differ, the position
      of the backward operation decides. It gets the path "loss" if it comes before the backward
      operations of all submodules, and otherwise the path `name`.
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
    """Return whether an operation changes a variable in place.

    These operations are at the end of a captured model.
    """
    return OPS[op.kind].in_place
