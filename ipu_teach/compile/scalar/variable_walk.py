"""Local variables: their values at a place in the source, and their joined state after branches."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ipu_teach.compile.scalar.arithmetic import Arithmetic
from ipu_teach.compile.scalar.kinds import CODES, SLOT, ZERO
from ipu_teach.compile.scalar.operations import Line
from ipu_teach.compile.scalar.values import Arr, Num, Refused, State, Value, Vec


class VariableWalk(Arithmetic):
    """Assignments to names, and the joining of states."""

    def assign(self, name: str, value: Value, node: ast.AST) -> None:
        """Assign a value to a variable: to its slot, its tag for several types, and its state."""
        if isinstance(value, Vec):
            value = self._materialised(value)
            self.temporaries[value.py] = self.loops_over
        if isinstance(value, Arr):
            self.state[name] = self._array(slot_of(name), value)
        elif isinstance(value, Num):
            self.state[name] = self._number(name, slot_of(name), value)
        else:
            self.state[name] = value

    def _number(self, name: str, s: str, value: Num) -> Num:
        """Write the assignment of a number, and return the number of the variable.

        `s` is the beginning of the variable's names in the texts.
        """
        has_tag = len(value.alts) > 1
        for slot, text in {SLOT[t]: text for t, text in value.alts.items()}.items():
            self.emit(f"{s}_{slot} = {text}")
            self.slots[f"{s}_{slot}"] = ZERO[slot]
        kind = value.tag if has_tag else CODES[value.only[0]]
        self.operations.append(Line(f"{s}_tag = {kind}", tag=f"{s}_tag"))
        self.emit(None, f"{s} = {value.py}")
        if has_tag:
            self.tagged.add(f"{slot_of(name)}_tag")
        alts = {t: f"{s}_{SLOT[t]}" for t in value.alts}
        return Num(
            alts,
            s,
            f"{s}_tag",
            value.data or self.control > 0,
            bound=value.bound,
            affine=value.affine,
        )

    def _array(self, s: str, value: Arr) -> Arr:
        """Write the assignment of an array, and return the array of the variable.

        `s` is the beginning of the variable's names in the texts.
        """
        self.emit(f"{s}_o = {value.off}", f"{s} = {value.py}")
        dims = []
        for k, (n, stride) in enumerate(value.dims):
            self.emit(f"{s}_n{k} = {n}")
            if stride != "1":
                self.emit(f"{s}_s{k} = {stride}")
            dims.append((f"{s}_n{k}", stride if stride == "1" else f"{s}_s{k}"))
        is_local = value.local and not value.free
        for part in self.parts(value) if is_local else ():
            self.emit(f"{s}_a{part} = {value.buf}{part}")
        if value.mark:
            self.emit(None, f"{s}_m = {value.mark}")
        if value.mark and self.multi:
            self.emit(None, f"r_{s}_m = r_{value.mark}")
        buf = f"{s}_a" if is_local else value.buf
        mark = value.mark and f"{s}_m"
        if value.py in self.temporaries:
            self.temporaries[s] = self.temporaries[value.py]
        return replace(value, off=f"{s}_o", dims=tuple(dims), py=s, mark=mark, buf=buf)

    def parts(self, value: Arr) -> list[str]:
        """Return the suffixes of the names of an array's buffers."""
        if not value.box:
            return [""]
        types = self.boxes[value.box]
        suffixes = [f"_{slot}" for slot in sorted({SLOT[t] for t in types})]
        return [*suffixes, "_tag"] if len(types) > 1 else suffixes

    def _materialised(self, value: Vec, python: bool = True) -> Arr:
        """Return an expression over complete regions as a local array.

        Without `python`, it exists only in the compiled text.
        """
        a = self.new("a")
        k = self.new("i")
        sizes = [self.named(n) for n in value.dims]
        if python:
            self.emit(None, f"{a} = {value.py}")
        self.empty(a, " * ".join(sizes), value.type)
        with self.under(f"for {k} in range({' * '.join(sizes)}):"):
            self.emit(f"{a}[{k}] = {value.item(k)}")
        return Arr(
            a,
            value.type,
            dims=tuple(zip(sizes, (*sizes[1:], "1"), strict=True)),
            off="0",
            py=a,
            local=True,
        )

    def bind(self, name: str, value: Value, node: ast.AST) -> None:
        """Assign to a name of the function that is being walked."""
        self.assign(self.scope.prefix + name, value, node)

    def fixed(self, a: Any) -> Any:
        """Return the present value, independent of later assignments."""
        if isinstance(a, Arr) and not a.free:
            return self._array(self.new("p"), a)
        if not isinstance(a, Num) or a.const is not None:
            return a
        name = self.new("p")
        self.emit(None, f"{name} = {a.py}")
        slots, tag = self.dispatch([a], lambda ts, xs: (ts[0], xs[0]), none=True)
        return replace(a, alts=slots, tag=tag, py=name)

    def joined(self, *states: State) -> State:
        """Return the state after branches that end in these states.

        :raises Refused: if a name has different arrays in them.
        """
        result: State = {}
        for name in dict.fromkeys(n for s in states for n in s):
            values = [s[name] for s in states if name in s]
            first = values[0]
            is_complete = len(values) == len(states) and not getattr(values[0], "maybe", True)
            if is_complete and len(first.alts) == 1 and all(v is first for v in values):
                result[name] = first
            elif all(isinstance(v, Num) for v in values):
                result[name] = self._joined_number(name, values, len(values) < len(states))
            elif all(v == values[0] for v in values):
                if len(values) == len(states):
                    result[name] = values[0]
            elif all(
                isinstance(v, Arr) and v.box and replace(v, box="") == replace(values[0], box="")
                for v in values
            ):
                boxes = sorted({v.box for v in values})
                # from here on, the lists share one set of types
                self.boxes |= dict.fromkeys(boxes, set().union(*(self.boxes[box] for box in boxes)))
                result[name] = replace(values[0], box=boxes[0])
            else:
                problem = (
                    "a choice of arrays"
                    if name[0] == "."
                    else f"{name.partition('_')[2]}, which holds different arrays,"
                )
                raise Refused(problem, 0, "an if around what is done with each")
        return result

    def _joined_number(self, name: str, numbers: list[Num], is_missing: bool) -> Num:
        """Return the number of a variable after branches that assign these numbers to it.

        `is_missing` is True if a branch does not assign it.
        """
        alts = {t: x for v in numbers for t, x in v.alts.items()}
        maybe = is_missing or any(v.maybe for v in numbers)
        bounds = [v.bound for v in numbers]
        if len(alts) > 1 or maybe:
            self.tagged.add(f"{slot_of(name)}_tag")
        bound = None if any(b is None for b in bounds) else max(b for b in bounds if b is not None)
        data = any(v.data for v in numbers)
        affine = numbers[0].affine if all(v.affine == numbers[0].affine for v in numbers) else None
        return Num(
            dict(sorted(alts.items())),
            numbers[0].py,
            numbers[0].tag,
            data=data,
            bound=bound,
            maybe=maybe,
            affine=affine,
        )


def slot_of(name: str) -> str:
    """Return a variable's name in the texts."""
    return name.replace(".", "")


def is_same_state(a: State, b: State) -> bool:
    """Return whether two states contain the same knowledge."""
    return a.keys() == b.keys() and all(
        is_same_knowledge(value, b[name]) for name, value in a.items()
    )


def _knowledge(a: Num) -> tuple[object, ...]:
    """Return what is known about a number, except its texts."""
    return a.alts.keys(), a.data, a.bound, a.maybe, a.affine


def is_same_knowledge(a: Value, b: Value) -> bool:
    """Return whether the same is known about two values."""
    if isinstance(a, Num) and isinstance(b, Num):
        return _knowledge(a) == _knowledge(b)
    return bool(a == b)
