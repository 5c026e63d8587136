"""Simplify a graph: remove repeated operations and operations that have no effect."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import copysign

import numpy as np

from ipu_teach.frontends.ir.attributes import Attribute
from ipu_teach.frontends.ir.values import (
    CONSTANT,
    OPS,
    REGISTERED,
    VARIABLE,
    Ir,
    Op,
    Swaps,
    Value,
    swapped,
)
from ipu_teach.types import FLOAT, HALF

__all__ = ["fuse_updates", "simplify"]

Maker = Mapping[Value, Op]
# Equal operations of these kinds are never merged: they return random numbers, print, make a copy
# that is needed, or contain a graph. Graphs cannot be compared.
NOT_MERGED = ("dropout_mask", "uniform", "normal", "copy", "print", "scan")


def simplify(ir: Ir) -> Swaps:
    """Simplify `ir.ops` in place. Return a dict that maps each removed value to its replacement.

    A replacement equals the removed value in every bit. Operations without an effect are removed,
    and equal operations are merged into one. The operations in `NOT_MERGED`, operations that change
    a variable, and operations that a user has registered are never merged.
    """
    swaps: Swaps = {}
    ops_by_key: dict[Hashable, Op] = {}
    maker: dict[Value, Op] = {}
    changed_variables = {op.inputs[0] for op in ir.ops if OPS[op.kind].in_place}
    ops: list[Op] = []
    for original in ir.ops:
        op = swapped(original, swaps)
        rule = RULES.get(op.kind)
        simplified = rule(op, maker) if rule is not None else None
        if isinstance(simplified, Value) and _is_kept(simplified, maker, changed_variables):
            swaps[original.outs[0]] = simplified
            continue
        op = simplified if isinstance(simplified, Op) else op
        if OPS[op.kind].in_place:
            # The same operation gives different results before and after a change of a variable.
            ops_by_key.clear()
        elif op.kind not in NOT_MERGED and op.kind not in REGISTERED:
            equal_op = ops_by_key.setdefault(_key(op), op)
            if equal_op is not op:
                swaps.update(zip(op.outs, equal_op.outs, strict=True))
                continue
        maker.update(dict.fromkeys(op.outs, op))
        ops.append(op)
    ir.ops = ops
    ir.outputs = {name: swaps.get(value, value) for name, value in ir.outputs.items()}
    return swaps


def _is_kept(value: Value, maker: Maker, changed: set[Value]) -> bool:
    """Return whether `value` never changes: it is no variable in `changed`, and no view of one."""
    while value in maker and OPS[maker[value].kind].view:
        value = maker[value].inputs[0]
    return value not in changed


def _key(op: Op) -> Hashable:
    """Return a key of an operation. Operations with equal keys have equal stages and results."""
    inputs = tuple(_bits_key(value) if value.kind == CONSTANT else value for value in op.inputs)
    return op.kind, inputs, _bits_key(dict(op.attrs)), op.stage


def _bits_key(item: Value | Attribute) -> Hashable:
    """Return a key of an attribute or constant. Items with equal keys have equal types and bits."""
    if isinstance(item, Value):
        return item.dtype, item.shape, _bits_key(item.initial)
    if isinstance(item, np.ndarray):
        return item.dtype.str, item.shape, item.tobytes()
    if isinstance(item, Mapping):
        return tuple((name, _bits_key(item[name])) for name in sorted(item))
    if isinstance(item, (list, tuple)):
        return tuple(map(_bits_key, item))
    if isinstance(item, float):
        return "float", item.hex()
    if isinstance(item, (bool, int, str, type)) or item is None:
        return type(item), item
    return id(item)


# --- rules ----------------------------------------------------------------------------------------
# Each function in RULES simplifies operations of one kind. It returns an operation to use instead,
# a value with the same bits as the operation's result, or None if the operation cannot be
# simplified.


def _is_zero(value: Value, sign: int) -> bool:
    """Return whether a value is a constant that was given as one number, and this number is 0.

    A float 0 must also have the sign `sign`, which is 1 or -1.
    """
    number = value.number
    return number == 0 and (not value.floating or copysign(1, number) == sign)


def _if_same_shape(op: Op, value: Value) -> Value | None:
    """Return `value`, or None if the operation broadcasts it to another shape."""
    return value if value.shape == op.outs[0].shape else None


def _times_one(op: Op, maker: Maker) -> Value | None:
    """Simplify x * 1, 1 * x and x / 1 to x."""
    a, b = op.inputs
    if b.number == 1:
        return _if_same_shape(op, a)
    return _if_same_shape(op, b) if op.kind == "mul" and a.number == 1 else None


def _plus_zero(op: Op, maker: Maker) -> Value | None:
    """Simplify x - 0, x + -0 and -0 + x to x, and for integers also x + 0 and 0 + x.

    For floats, x + 0 is not simplified, because -0 + 0 is 0.
    """
    a, b = op.inputs
    sign = -1 if op.kind == "add" else 1
    if _is_zero(b, sign):
        return _if_same_shape(op, a)
    return _if_same_shape(op, b) if op.kind == "add" and _is_zero(a, sign) else None


def _before(op: Op, maker: Maker) -> Op | None:
    """Return the operation that produces the first input of `op`.

    Return None if there is no such operation, or if it differs from `op` in its kind or stage.
    """
    source = maker.get(op.inputs[0])
    if source is None or (source.kind, source.stage) != (op.kind, op.stage):
        return None
    return source


def _twice(op: Op, maker: Maker) -> Value | None:
    """Return x if `op` and the operation before it undo each other, as in -(-x); otherwise None."""
    before = _before(op, maker)
    return before.inputs[0] if before is not None else None


def _reshape(op: Op, maker: Maker) -> Value | Op | None:
    """Return the input of a reshape to the same shape, or None if it cannot be simplified.

    For two successive reshapes, return a single reshape. If the second restores the first shape,
    return the input of the first.
    """
    shape = op.outs[0].shape
    before = _before(op, maker)
    source = op.inputs[0] if before is None else before.inputs[0]
    if source.shape == shape:
        return source
    return None if before is None else replace(op, inputs=(source,), attrs={"shape": shape})


def _expand(op: Op, maker: Maker) -> Value | Op | None:
    """Return the input of an expansion to the same shape.

    For two successive expansions, return a single expansion.
    """
    shape = op.outs[0].shape
    before = _before(op, maker)
    if op.inputs[0].shape == shape:
        return op.inputs[0]
    return None if before is None else replace(op, inputs=before.inputs)


def _permute(op: Op, maker: Maker) -> Value | Op | None:
    """Return the input of a permutation that keeps the order of dimensions, otherwise None.

    For two successive permutations, return a single permutation. If the second undoes the first,
    return the input of the first.
    """
    before = _before(op, maker)
    dim_order = tuple(op.attrs["dims"])
    source = op.inputs[0]
    if before is not None:
        source = before.inputs[0]
        dim_order = tuple(before.attrs["dims"][dim] for dim in dim_order)
    if dim_order == tuple(range(len(dim_order))):
        return source
    return None if before is None else replace(op, inputs=(source,), attrs={"dims": dim_order})


def _slice(op: Op, maker: Maker) -> Value | None:
    """Return the input of a slice that selects a complete dimension."""
    return _if_same_shape(op, op.inputs[0]) if op.attrs.get("step", 1) == 1 else None


def _cast(op: Op, maker: Maker) -> Value | None:
    """Return the input of a cast to the same dtype.

    For casts from HALF to FLOAT and back to HALF, return the input of the first cast.
    """
    x = op.inputs[0]
    before = _before(op, maker)
    if x.dtype is op.outs[0].dtype:
        return x
    source = before.inputs[0] if before is not None else x
    return source if (source.dtype, x.dtype, op.outs[0].dtype) == (HALF, FLOAT, HALF) else None


def _neg(op: Op, maker: Maker) -> Value | None:
    """Return the negation of a constant, or the input of two successive negations.

    Integers are not simplified.
    """
    (x,) = op.inputs
    if x.number is not None and x.floating and x.initial is not None:
        return replace(x, initial=-x.initial)
    return _twice(op, maker) if x.floating else None


def _reinterpret(op: Op, maker: Maker) -> Value | None:
    """Return the input of a reinterpretation to the same dtype.

    For two successive reinterpretations that end in the first dtype, return the input of the first
    one.
    """
    before = _before(op, maker)
    source = op.inputs[0] if before is None else before.inputs[0]
    return source if source.dtype is op.outs[0].dtype else None


RULES: dict[str, Callable[[Op, Maker], Value | Op | None]] = {
    "mul": _times_one,
    "div": _times_one,
    "add": _plus_zero,
    "sub": _plus_zero,
    "neg": _neg,
    "cast": _cast,
    "reinterpret": _reinterpret,
    "reshape": _reshape,
    "expand": _expand,
    "permute": _permute,
    "slice": _slice,
}


# --- updates of variables -------------------------------------------------------------------------


def fuse_updates(ir: Ir, later: Sequence[Op] = ()) -> None:
    """Simplify the operations of `ir` that change variables. The graph is changed in place.

    A running mean sets a variable to old * (1 - momentum) + new * momentum. Its operations become a
    single operation "blend" at the position of the sum. A copy of a variable that changes is
    removed if all operations that read the copy run before the change. `later` contains the
    operations that run after the graph.
    """
    _Blends(ir, later).fuse()
    _remove_copies(ir, later)


class _Blends:
    """The running means of a graph, which become operations of the kind "blend".

    A "blend" sets a variable to variable * (1 - momentum) + x * momentum.

    - `maker`: the operation that produces each value.
    - `place`: the position of each operation.
    - `readers`: the operations that read each value.
    - `blends`: a dict from the sum of each running mean to the "blend" that replaces it.
    """

    def __init__(self, ir: Ir, later: Sequence[Op]) -> None:
        self.ir = ir
        self.maker = ir.maker()
        self.place: dict[Op, int] = {}
        self.readers: dict[Value, dict[Op, None]] = {}
        for op in (*ir.ops, *later):
            self._add(op, len(self.place))
        self.outputs = set(ir.outputs.values())
        self.blends: dict[Op, Op] = {}
        self.removed: set[Op] = set()

    def fuse(self) -> None:
        """Replace the operations of all running means in the graph by "blend" operations."""
        for op in self.ir.ops:
            if op.kind == "assign":
                self._fuse(op)
        ops = (self.blends.get(op, op) for op in self.ir.ops)
        self.ir.ops = [op for op in ops if op not in self.removed]

    def _add(self, op: Op, place: int) -> None:
        """Record an operation at the position `place`, as a reader of its inputs."""
        self.place[op] = place
        for value in op.inputs:
            self.readers.setdefault(value, {})[op] = None

    def _remove(self, op: Op) -> None:
        """Remove an operation from the graph, from the readers of its inputs, and from `maker`."""
        self.removed.add(op)
        for value in op.inputs:
            self.readers[value].pop(op, None)
        for value in op.outs:
            del self.maker[value]

    def _fuse(self, assign: Op) -> None:
        """Replace `assign` by a "blend" if it assigns a running mean to a variable.

        `assign` is an operation of the kind "assign".
        """
        maker = self.maker
        variable, mean = assign.inputs
        add_op = maker.get(mean)
        if add_op is None or add_op.kind != "add" or mean in self.outputs:
            return
        terms = [maker.get(v) for v in add_op.inputs]
        if len(self.readers[mean]) > 1 or not all(t is not None and t.kind == "mul" for t in terms):
            return
        (old_value, old_weight), (new_value, new_weight) = (
            term.inputs for term in terms if term is not None
        )
        copy_op = maker.get(old_value)
        source = copy_op.inputs[0] if copy_op is not None and copy_op.kind == "copy" else old_value
        if source is not variable or old_weight.number is None or new_weight.number is None:
            return
        # Use the shortest decimal number for the float32: 0.1 instead of 0.10000000149.
        blend_weight = float(str(np.float32(new_weight.number)))
        is_blend = variable.dtype is new_value.dtype is FLOAT and new_value.shape == variable.shape
        if not is_blend or np.float32(1 - blend_weight) != np.float32(old_weight.number):
            return
        add_position = self.place[add_op]
        later_readers = (op for op in self.readers[variable] if self.place[op] >= add_position)
        if add_op.stage != assign.stage or any(op is not assign for op in later_readers):
            return
        unused = {t: None for t in terms if t is not None and self._is_read_once(t.outs[0])}
        for op in (add_op, assign, *unused):
            self._remove(op)
        self.blends[add_op] = Op(
            "blend", (variable, new_value), (), {"momentum": blend_weight}, **add_op.context
        )
        self._add(self.blends[add_op], add_position)

    def _is_read_once(self, value: Value) -> bool:
        """Return whether exactly one operation reads `value`, and `value` is not an output."""
        return value not in self.outputs and len(self.readers[value]) == 1


def _remove_copies(ir: Ir, later: Sequence[Op]) -> None:
    """Remove the copies of changed variables that are read only before the variable changes.

    A copy stays if it, or a view of it, is an output of the graph. `later` contains the operations
    that run after the operations of the graph.
    """
    ops = [*ir.ops, *later]
    outputs = set(ir.outputs.values())
    positions = {op: position for position, op in enumerate(ops)}
    first_changes = {
        v: position
        for op, position in reversed(positions.items())
        if (v := _changed_by(op)) is not None
    }
    readers: dict[Value, list[Op]] = {}
    for op in ops:
        for value in dict.fromkeys(op.inputs):
            readers.setdefault(value, []).append(op)
    swaps: Swaps = {}
    for op in ir.ops:
        if op.kind != "copy" or op.inputs[0].kind != VARIABLE or op.inputs[0] not in first_changes:
            continue
        views = [op.outs[0]]
        read_positions = []
        while views:
            view_readers = readers.get(views.pop(), [])
            read_positions += [positions[reader] for reader in view_readers]
            views += [v for reader in view_readers if OPS[reader.kind].view for v in reader.outs]
        is_output = any(v in outputs for v in _with_views(op.outs[0], readers))
        change_position = first_changes[op.inputs[0]]
        # All operations that read the copy must run before the first operation that changes the
        # variable. An operation that did both could read elements that it has overwritten.
        if (
            positions[op] < change_position
            and max(read_positions, default=-1) < change_position
            and not is_output
        ):
            swaps[op.outs[0]] = op.inputs[0]
    ir.ops = [swapped(op, swaps) for op in ir.ops if not swaps.keys() & set(op.outs)]


def _changed_by(op: Op) -> Value | None:
    """Return the variable that an operation changes in place, or None if it changes none."""
    return op.inputs[0] if OPS[op.kind].in_place else None


def _with_views(value: Value, readers: Mapping[Value, list[Op]]) -> Iterable[Value]:
    """Yield a value and its direct and indirect views. `readers` maps values to their readers."""
    yield value
    for op in readers.get(value, ()):
        if OPS[op.kind].view:
            yield from _with_views(op.outs[0], readers)
