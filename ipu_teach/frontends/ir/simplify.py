"""Remove the operations of a graph that change no value: what is computed twice, and no-ops."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

from ipu_teach.frontends.ir.values import OPS, Ir, Op, Swaps, Value, swapped

__all__ = ["simplify"]

NOT_MERGED = ("dropout_mask", "uniform", "normal", "copy", "print", "scan")


def simplify(ir: Ir) -> Swaps:
    """Simplify `ir.ops` in place; return which value now stands for each value that was removed.

    No value changes in any bit. Operations that draw random numbers, that change a variable, that
    print and that copy are never merged.
    """
    swaps: Swaps = {}
    known: dict[Hashable, Op] = {}
    maker: dict[Value, Op] = {}
    ops: list[Op] = []
    for before in ir.ops:
        op = swapped(before, swaps)
        same = _unchanged(op, maker)
        if same is not None:
            swaps[op.outs[0]] = same
            continue
        if not OPS[op.kind].in_place and op.kind not in NOT_MERGED:
            first = known.setdefault(_key(op), op)
            if first is not op:
                swaps.update(zip(op.outs, first.outs, strict=True))
                continue
        maker.update(dict.fromkeys(op.outs, op))
        ops.append(op)
    ir.ops = ops
    return swaps


def _key(op: Op) -> Hashable:
    """Equal for two operations that compute the same on the same stage."""
    inputs = tuple(v if v.number is None else (repr(v.number), v.dtype, v.shape) for v in op.inputs)
    return op.kind, inputs, repr(sorted(op.attrs.items(), key=str)), op.stage


def _unchanged(op: Op, maker: Mapping[Value, Op]) -> Value | None:
    """The value that the operation's result equals in every bit, if there is one."""
    rule = RULES.get(op.kind)
    same = rule(op, maker) if rule else None
    return same if same is not None and same.shape == op.outs[0].shape else None


def _times_one(op: Op, maker: Mapping[Value, Op]) -> Value | None:
    a, b = op.inputs
    if b.number == 1:
        return a
    return b if a.number == 1 and op.kind == "mul" else None


def _there_and_back(op: Op, maker: Mapping[Value, Op]) -> Value | None:
    before = maker.get(op.inputs[0])
    if before is None or before.kind != op.kind or before.stage != op.stage:
        return None
    if op.kind == "permute":
        order = [before.attrs["dims"][d] for d in op.attrs["dims"]]
        return before.inputs[0] if order == [*range(len(order))] else None
    return before.inputs[0]


RULES: dict[str, Callable[[Op, Mapping[Value, Op]], Any]] = {
    "mul": _times_one,
    "div": _times_one,
    "reshape": _there_and_back,
    "permute": _there_and_back,
}
