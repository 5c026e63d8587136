"""Simplify a graph: remove repeated operations and operations without an effect."""

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
# Kinds of operations that are never merged with an equal one. Scans are not compared, because their
# body is a graph; the others draw random numbers, print, or make a copy that is needed.
NOT_MERGED = ("dropout_mask", "uniform", "normal", "copy", "print", "scan")


def simplify(ir: Ir) -> Swaps:
    """Simplify `ir.ops` in place, and return the replacement of each value that was removed.

    No value changes in any bit. Equal operations are merged into one, except operations that draw
    random numbers, change a variable, print or copy, scans, and operations that a learner has
    registered.
    """
    swaps: Swaps = {}
    known: dict[Hashable, Op] = {}
    maker: dict[Value, Op] = {}
    changed = {op.inputs[0] for op in ir.ops if OPS[op.kind].in_place}
    ops: list[Op] = []
    for before in ir.ops:
        op = swapped(before, swaps)
        rule = RULES.get(op.kind)
        result = rule(op, maker) if rule is not None else None
        if isinstance(result, Value) and _is_kept(result, maker, changed):
            swaps[before.outs[0]] = result
            continue
        op = result if isinstance(result, Op) else op
        if OPS[op.kind].in_place:
            known.clear()  # from here on, an equal operation may read another value
        elif op.kind not in NOT_MERGED and op.kind not in REGISTERED:
            first = known.setdefault(_key(op), op)
            if first is not op:
                swaps.update(zip(op.outs, first.outs, strict=True))
                continue
        maker.update(dict.fromkeys(op.outs, op))
        ops.append(op)
    ir.ops = ops
    ir.outputs = {name: swaps.get(value, value) for name, value in ir.outputs.items()}
    return swaps


def _is_kept(value: Value, maker: Maker, changed: set[Value]) -> bool:
    """Return whether `value` never changes: it is not a view of a variable in `changed`."""
    while value in maker and OPS[maker[value].kind].view:
        value = maker[value].inputs[0]
    return value not in changed


def _key(op: Op) -> Hashable:
    """Return a key that is equal for two operations if they compute the same on the same stage."""
    inputs = tuple(_bits_key(v) if v.kind == CONSTANT else v for v in op.inputs)
    return op.kind, inputs, _bits_key(dict(op.attrs)), op.stage


def _bits_key(item: Value | Attribute) -> Hashable:
    """Return a key that is equal for two attributes or constants of equal type and bits."""
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
# A rule gets an operation, and returns an operation that replaces it, or a value that is equal to
# its result in every bit, or None if it cannot be simplified.


def _is_zero(value: Value, sign: int) -> bool:
    """Return whether a constant is 0 everywhere; a float must be the zero of this `sign`."""
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

    For floats, x + 0 stays, because -0 + 0 is 0.
    """
    a, b = op.inputs
    sign = -1 if op.kind == "add" else 1
    if _is_zero(b, sign):
        return _if_same_shape(op, a)
    return _if_same_shape(op, b) if op.kind == "add" and _is_zero(a, sign) else None


def _before(op: Op, maker: Maker) -> Op | None:
    """Return the operation that produces the input, if it has the kind and the stage of `op`."""
    source = maker.get(op.inputs[0])
    if source is None or (source.kind, source.stage) != (op.kind, op.stage):
        return None
    return source


def _twice(op: Op, maker: Maker) -> Value | None:
    """Return the input of an operation that is applied twice, where the second undoes the first."""
    before = _before(op, maker)
    return before.inputs[0] if before is not None else None


def _reshape(op: Op, maker: Maker) -> Value | Op | None:
    """Simplify a reshape to the same shape, and merge two successive reshapes."""
    shape = op.outs[0].shape
    before = _before(op, maker)
    source = op.inputs[0] if before is None else before.inputs[0]
    if source.shape == shape:
        return source
    return None if before is None else replace(op, inputs=(source,), attrs={"shape": shape})


def _expand(op: Op, maker: Maker) -> Value | Op | None:
    """Simplify an expansion to the same shape, and merge two successive expansions."""
    shape = op.outs[0].shape
    before = _before(op, maker)
    if op.inputs[0].shape == shape:
        return op.inputs[0]
    return None if before is None else replace(op, inputs=before.inputs)


def _permute(op: Op, maker: Maker) -> Value | Op | None:
    """Simplify a permutation that changes nothing, and merge two successive permutations."""
    before = _before(op, maker)
    order = tuple(op.attrs["dims"])
    source = op.inputs[0]
    if before is not None:
        source = before.inputs[0]
        order = tuple(before.attrs["dims"][d] for d in order)
    if order == tuple(range(len(order))):
        return source
    return None if before is None else replace(op, inputs=(source,), attrs={"dims": order})


def _slice(op: Op, maker: Maker) -> Value | None:
    """Simplify a slice that takes a complete dimension."""
    return _if_same_shape(op, op.inputs[0]) if op.attrs.get("step", 1) == 1 else None


def _cast(op: Op, maker: Maker) -> Value | None:
    """Simplify a cast to the same dtype, and a cast from HALF to FLOAT and back."""
    x = op.inputs[0]
    before = _before(op, maker)
    if x.dtype is op.outs[0].dtype:
        return x
    source = before.inputs[0] if before is not None else x
    return source if (source.dtype, x.dtype, op.outs[0].dtype) == (HALF, FLOAT, HALF) else None


def _neg(op: Op, maker: Maker) -> Value | None:
    """Simplify the negative of a constant, and of a negative."""
    (x,) = op.inputs
    if x.number is not None and x.floating and x.initial is not None:
        return replace(x, initial=-x.initial)
    return _twice(op, maker) if x.floating else None


def _reinterpret(op: Op, maker: Maker) -> Value | None:
    """Simplify reinterpretations that end in the first dtype."""
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
    """Simplify, in place, how `ir.ops` change variables.

    A running mean, old * (1 - momentum) + new * momentum, that is assigned to its variable becomes
    a "blend" at the position of the sum. A copy of a variable is removed if nothing reads it after
    the variable has changed. `later` are operations that run after those of the graph.
    """
    _Blends(ir, later).fuse()
    _remove_copies(ir, later)


class _Blends:
    """The running means of a graph, which become "blend" operations.

    The readers and the producer of each value are kept up to date, so that the run time is
    proportional to the number of operations.
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
        """Replace all running means in the graph by blends."""
        for op in self.ir.ops:
            if op.kind == "assign":
                self._fuse(op)
        ops = (self.blends.get(op, op) for op in self.ir.ops)
        self.ir.ops = [op for op in ops if op not in self.removed]

    def _add(self, op: Op, place: int) -> None:
        """Record an operation, its position and its readers."""
        self.place[op] = place
        for value in op.inputs:
            self.readers.setdefault(value, {})[op] = None

    def _remove(self, op: Op) -> None:
        """Remove an operation, and update the records of readers and producers."""
        self.removed.add(op)
        for value in op.inputs:
            self.readers[value].pop(op, None)
        for value in op.outs:
            del self.maker[value]

    def _fuse(self, assign: Op) -> None:
        """Replace an assignment to a variable by a blend, if it writes a running mean."""
        maker = self.maker
        variable, total = assign.inputs
        add = maker.get(total)
        if add is None or add.kind != "add" or total in self.outputs:
            return
        terms = [maker.get(v) for v in add.inputs]
        if len(self.readers[total]) > 1 or not all(
            t is not None and t.kind == "mul" for t in terms
        ):
            return
        (old, share), (new, momentum) = (term.inputs for term in terms if term is not None)
        copied = maker.get(old)
        source = copied.inputs[0] if copied is not None and copied.kind == "copy" else old
        if source is not variable or share.number is None or momentum.number is None:
            return
        weight = float(str(np.float32(momentum.number)))  # such as 0.1, not 0.10000000149
        is_blend = variable.dtype is new.dtype is FLOAT and new.shape == variable.shape
        if not is_blend or np.float32(1 - weight) != np.float32(share.number):
            return
        place = self.place[add]
        after = (op for op in self.readers[variable] if self.place[op] >= place)
        if add.stage != assign.stage or any(op is not assign for op in after):
            return
        unused = {t: None for t in terms if t is not None and self._is_read_once(t.outs[0])}
        for op in (add, assign, *unused):
            self._remove(op)
        self.blends[add] = Op("blend", (variable, new), (), {"momentum": weight}, **add.context)
        self._add(self.blends[add], place)

    def _is_read_once(self, value: Value) -> bool:
        """Return whether exactly one operation, and no output, reads `value`."""
        return value not in self.outputs and len(self.readers[value]) == 1


def _remove_copies(ir: Ir, later: Sequence[Op]) -> None:
    """Remove the copies of variables that nothing reads after the variable has changed.

    `later` are operations that run after those of the graph.
    """
    ops = [*ir.ops, *later]
    outputs = set(ir.outputs.values())
    place = {op: i for i, op in enumerate(ops)}
    changes = {v: i for op, i in reversed(place.items()) if (v := _changed_by(op)) is not None}
    readers: dict[Value, list[Op]] = {}
    for op in ops:
        for value in dict.fromkeys(op.inputs):
            readers.setdefault(value, []).append(op)
    swaps: Swaps = {}
    for op in ir.ops:
        if op.kind != "copy" or op.inputs[0].kind != VARIABLE or op.inputs[0] not in changes:
            continue
        views = [op.outs[0]]
        read = []
        while views:
            view_readers = readers.get(views.pop(), [])
            read += [place[reader] for reader in view_readers]
            views += [v for reader in view_readers if OPS[reader.kind].view for v in reader.outs]
        is_output = any(v in outputs for v in _with_views(op.outs[0], readers))
        change = changes[op.inputs[0]]
        # not <=, because an operation that changes the variable might read elements that it has
        # already overwritten
        if place[op] < change and max(read, default=-1) < change and not is_output:
            swaps[op.outs[0]] = op.inputs[0]
    ir.ops = [swapped(op, swaps) for op in ir.ops if not swaps.keys() & set(op.outs)]


def _changed_by(op: Op) -> Value | None:
    """Return the variable that an operation changes in place, or None."""
    return op.inputs[0] if OPS[op.kind].in_place else None


def _with_views(value: Value, readers: Mapping[Value, list[Op]]) -> Iterable[Value]:
    """Yield a value, and its direct and indirect views; `readers` maps values to operations."""
    yield value
    for op in readers.get(value, ()):
        if OPS[op.kind].view:
            yield from _with_views(op.outs[0], readers)
