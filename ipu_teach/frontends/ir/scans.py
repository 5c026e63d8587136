"""What goes step by step: a graph for one step, as a loop of the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from ipu_teach.arguments import check_calls
from ipu_teach.frontends.ir.autodiff import Gradients, swept, used
from ipu_teach.frontends.ir.lowering import inner
from ipu_teach.frontends.ir.rows import Slopes, need
from ipu_teach.frontends.ir.values import (
    BACKWARD,
    CONSTANT,
    OPS,
    Ir,
    Op,
    Out,
    Row,
    Value,
    misuse,
    swapped,
)
from ipu_teach.graph import Tensor, concat
from ipu_teach.poplibs import popops, poputil
from ipu_teach.program import Copy, Program, Sequence as Programs
from ipu_teach.types import UNSIGNED_INT

Values = Sequence[Value]


def scan(
    ir: Ir,
    step: Callable[[Ir, list[Value], list[Value]], tuple[Values, Values]],
    xs: Values,
    carried: Values,
) -> tuple[list[Value], list[Value]]:
    """What is carried on behind the last step, and what each step gave, [steps, …].

    `after, given = step(graph, now, carried)` is called once, here, and adds the operations of a
    step to a graph of its own. `now`: what is of that step of each of `xs` [steps, …]. Values from
    without are the same in each step, and so are numbers that are drawn.
    """
    if not xs:
        raise misuse(
            "scan() was given no xs, which say how many steps there are.",
            "give at least one value of [steps, …].",
        )
    for value in (*xs, *carried):
        ir.check_own("scan", value)
    body = Ir(here={**ir.here}, family=ir.family)
    now = [body.input(x.shape[1:], f"x{i}", x.dtype) for i, x in enumerate(xs)]
    before = [body.input(c.shape, f"carried{i}", c.dtype) for i, c in enumerate(carried)]
    after, outs = step(body, now, before)
    for i, value in enumerate((*after, *outs)):
        body.output(f"{i}", value)
    given = (*xs, *carried, *_closed(body))
    for value, inside in zip(given, body.inputs.values(), strict=True):
        if inside.below is not None:
            ir.classes(value, inside.below, inside.ignored)
    made = ir.emit("scan", *given, **_how(body, xs, carried, xs[0].shape[0]))
    return list(made[: len(after)]), list(made[len(after) :])


def _how(body: Ir, xs: Values, carried: Values, steps: int, **more: Any) -> dict[str, Any]:
    return {"body": body, "steps": steps, "along": len(xs), "kept": len(carried), **more}


def _closed(body: Ir) -> list[Value]:
    """The values that a body reads and does not make; it has an input for each from now on."""
    known = {*body.inputs.values(), *body.maker()}
    read = (v for vs in (*(op.inputs for op in body.ops), body.outputs.values()) for v in vs)
    free = [v for v in dict.fromkeys(read) if v not in known and v.kind != CONSTANT]
    swaps = {v: body.input(v.shape, f"free{i}", v.dtype) for i, v in enumerate(free)}
    body.ops = [swapped(op, swaps) for op in body.ops]
    body.outputs = {name: swaps.get(v, v) for name, v in body.outputs.items()}
    return free


def _shape(
    *values: Value, body: Ir, steps: int, along: int, kept: int, reverse: bool = False
) -> list[Out]:
    wants, outs = [*body.inputs.values()], [*body.outputs.values()]
    good = steps >= 1 and along >= 0 and 0 <= kept <= min(len(wants) - along, len(outs))
    need(good and len(values) == len(wants), "its body takes others", "build it by ir.scan.")
    lead = [(steps,) * (i < along) for i in range(len(wants))]
    pairs = [(v, (*n, *w.shape), w) for v, n, w in zip(values, lead, wants, strict=True)]
    pairs += [(o, w.shape, w) for o, w in zip(outs[:kept], wants[along:], strict=False)]
    for value, shape, want in pairs:
        why = f"{value!r} stands for {want.dtype.__name__}{list(shape)}"
        same = (value.shape, value.dtype) == (shape, want.dtype)
        need(same, why, "carry on what has the shape and dtype of before.")
    still = not body.variables and not any(OPS[op.kind].in_place for op in body.ops)
    need(still, "a step changes a variable", "carry it, and change it behind the last step.")
    return [Out(((steps,) * (i >= kept)) + v.shape, v.dtype) for i, v in enumerate(outs)]


def _lower(
    low: Any, *given: Any, body: Ir, steps: int, along: int, kept: int, reverse: bool = False
) -> list[Any]:
    op, prog = low.op, low.prog
    ins, outs = [*body.inputs.values()], [*body.outputs.values()]
    rows = [_by_steps(low, x) for x in given[:along]]
    groups = _by_dtype(rows)
    packed = [concat([rows[i].flatten(1) for i in several], 1) for several in groups]
    states = [low.make(v, op.stage) for v in ins[along : along + kept]]
    for state, first in zip(states, given[along:], strict=False):
        prog.add(Copy(first, state))
    stacks: dict[int, Any] = {}

    def turn(counter: Tensor) -> Program:
        low.prog = Programs(name="step")
        at = counter.reinterpret(UNSIGNED_INT).reshape((1,))
        now: dict[int, Any] = {}
        for whole, several in zip(packed, groups, strict=True):
            row = low.call(popops.dynamic_slice, whole, at, [0], [1])
            now |= _unpacked(row, [ins[i].shape for i in several], several)
        now |= enumerate((*states, *given[along + kept :]), along)
        low.there.update({(value, op.stage): now[i] for i, value in enumerate(ins)})
        for each in inner(op):
            low.one(each)
        low.place(op)
        found = [low.get(value, op, i) for i, value in enumerate(outs)]
        for several in _by_dtype(found[kept:]):
            row = concat([found[kept + i].flatten() for i in several]).expand([0])
            name = f"{low.name}/steps"
            stack = popops.create_slice_tensor(low.graph, row, [0], [1], steps, name)
            stack = stack.reshape((steps, row.num_elements))
            popops.zero(low.graph, stack, prog, f"{low.name}/zero")
            low.call(popops.dynamic_update, stack, row, at, [0], [1])
            stacks.update(_unpacked(stack, [outs[kept + i].shape for i in several], several))
        for i, value in enumerate(outs[:kept]):  # what is carried may be what another was
            if body.fed(value) is not None:
                found[i] = low.call(poputil.duplicate, found[i])
        for new, state in zip(found, states, strict=False):
            low.prog.add(Copy(new, state))
        return low.prog  # type: ignore[no-any-return]

    order = (steps - 1, -1, -1) if reverse else (0, steps, 1)
    prog.add(popops.counted_loop(low.graph, *order, turn, low.name))
    low.prog = prog
    return [*states, *(stacks[i].reshape(low.op.outs[kept + i].shape) for i in range(len(stacks)))]


def _by_dtype(tensors: Sequence[Any]) -> list[list[int]]:
    """The places of those that one slice can have: a call for each would cost a sync for each."""
    groups: dict[Any, list[int]] = {}
    for i, tensor in enumerate(tensors):
        groups.setdefault(tensor.dtype, []).append(i)
    return list(groups.values())


def _unpacked(rows: Any, shapes: Sequence[Sequence[int]], places: Sequence[int]) -> dict[int, Any]:
    """Columns of [n, columns] as tensors, by place; of one row alone in their shapes."""
    made, start = {}, 0
    for place, shape in zip(places, shapes, strict=True):
        part = rows.slice(start, start + prod(shape), 1)
        start += prod(shape)
        made[place] = part.reshape(tuple(shape)) if len(rows) == 1 else part
    return made


def _lays(low: Any, op: Op, place: int) -> Any:
    """As a step wants what is the same in all of them."""
    body, same = op.attrs["body"], op.attrs["along"] + op.attrs["kept"]
    return low.laid([*body.inputs.values()][place], op.stage) if place >= same else None


def _by_steps(low: Any, x: Any) -> Any:
    """x, or a copy of it of which all steps of an element lie on one tile."""
    first = low.graph.get_tile_mapping(x[0])
    if all(low.graph.get_tile_mapping(x[i]) == first for i in range(len(x))):
        return x
    made = popops.create_sliceable_tensor(low.graph, x.dtype, x.shape, [0], f"{low.name}/rows")
    low.prog.add(Copy(x, made))
    return made


def _grad(ir: Ir, op: Op, *gs: Value | None) -> Slopes:
    """A scan that goes back. The forward keeps of each step what that one reads."""
    body, steps, along, kept = (op.attrs[k] for k in ("body", "steps", "along", "kept"))
    ins, outs, back = [*body.inputs.values()], [*body.outputs.values()], Ir(family=ir.family)
    grads: Gradients = {}

    def arrives(value: Value, name: str) -> Value:
        g = back.input(value.shape, name, value.dtype)
        grads[value] = back.op("add", grads[value], g) if value in grads else g
        return g

    def nothing(value: Value) -> Value:
        return ir.constant(0.0, value.dtype, value.shape)

    given = {i: g for i, g in enumerate(gs) if g is not None and i >= kept}
    turning = [i for i in range(kept) if outs[i].floating]
    with back.at(part=BACKWARD, path=op.path, line=op.line):
        slopes = [arrives(outs[i], f"slope{i}") for i in given]
        states = [arrives(outs[i], f"slope{i}") for i in turning]
        back.ops += [replace(o, part=BACKWARD) for o in body.ops if OPS[o.kind].view]
        swept(back, body.ops, grads, {v for v in ins if v.floating})
        shared = [v for v in ins[along + kept :] if v in grads]
        sums = [back.input(v.shape, f"sum{i}", v.dtype) for i, v in enumerate(shared)]
        after = [grads.get(v) or nothing(v) for v in (ins[along + i] for i in turning)]
        after += [back.op("add", s, grads[v]) for s, v in zip(sums, shared, strict=True)]
    each = [v for v in ins[:along] if v in grads]
    for i, value in enumerate((*after, *(grads[v] for v in each))):
        back.output(f"{i}", value)
    back.ops = used(back, back.outputs.values())
    free = _closed(back)
    slots = dict(zip(reversed(free), reversed(back.inputs.values()), strict=False))
    # what differs from step to step is kept by the forward, where it is not there
    rows = {v: x for v, x in zip(ins[:along], op.inputs, strict=False) if v in slots}
    same = zip(ins[along + kept :], op.inputs[along + kept :], strict=True)
    whole = {v: x for v, x in same if v in slots}
    there = dict(zip(outs[kept:], op.outs[kept:], strict=True))
    more = [v for v in free if v not in (*rows, *whole, *there)]
    there |= {v: Value((steps, *v.shape), v.dtype, f"{v.name}/steps") for v in more}
    kept_by = {**body.outputs, **{f"{len(outs) + i}": v for i, v in enumerate(more)}}
    attrs = {**op.attrs, "body": body.but(outputs=kept_by)}
    wide = replace(op, outs=(*op.outs, *(there[v] for v in more)), attrs=attrs)
    ir.ops = [wide if one is op else one for one in ir.ops]
    rows |= {v: there[v] for v in free if v in there and v not in (*rows, *whole)}
    order = [*slopes, *(slots[v] for v in rows), *states, *sums, *(slots[v] for v in whole)]
    back.inputs = {v.name: v for v in order}
    xs = [*given.values(), *rows.values()]
    carried = [gs[i] or nothing(outs[i]) for i in turning] + [nothing(v) for v in shared]
    how = _how(back, xs, carried, steps, reverse=not op.attrs.get("reverse", False))
    made = ir.emit("scan", *xs, *carried, *whole.values(), **how)
    found = dict(zip((*(ins[along + i] for i in turning), *shared, *each), made, strict=True))
    return [found.get(v) for v in ins]


OPS["scan"] = Row(_shape, _lower, _grad, lays=_lays)


check_calls(globals(), misuse)
