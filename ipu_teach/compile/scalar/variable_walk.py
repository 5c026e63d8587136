"""Local variables: what they hold at a place of the text, and what is known where ways of it
meet."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from ipu_teach.compile.scalar.arithmetic import Arithmetic
from ipu_teach.compile.scalar.kinds import CODES, SLOT, ZERO
from ipu_teach.compile.scalar.operations import Line
from ipu_teach.compile.scalar.values import Arr, Num, Refused, State, Vec


class VariableWalk(Arithmetic):
    """Assignments to names, and states that join."""

    def assign(self, name: str, value: Any, node: ast.AST) -> None:
        """Give a variable a value: its slot, its tag if it ever has several types, and what is
        known of it from here on."""
        if isinstance(value, Vec):
            value = self._laid_out(value)
            self.temporaries[value.py] = self.loops_over
        if isinstance(value, Arr):
            self.state[name] = self._array(slot_of(name), value)
        elif isinstance(value, Num):
            self.state[name] = self._number(name, slot_of(name), value)
        else:
            self.state[name] = value

    def _number(self, name: str, s: str, value: Num) -> Num:
        many = len(value.alts) > 1
        for slot, text in {SLOT[t]: text for t, text in value.alts.items()}.items():
            self.emit(f"{s}_{slot} = {text}")
            self.slots[f"{s}_{slot}"] = ZERO[slot]
        kind = value.tag if many else CODES[value.only[0]]
        self.operations.append(Line(f"{s}_tag = {kind}", tag=f"{s}_tag"))
        self.emit(None, f"{s} = {value.py}")
        if many:
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
        self.emit(f"{s}_o = {value.off}", f"{s} = {value.py}")
        dims = []
        for k, (n, stride) in enumerate(value.dims):
            self.emit(f"{s}_n{k} = {n}")
            if stride != "1":
                self.emit(f"{s}_s{k} = {stride}")
            dims.append((f"{s}_n{k}", stride if stride == "1" else f"{s}_s{k}"))
        own = value.local and not value.free
        for part in self.parts(value) if own else ():
            self.emit(f"{s}_a{part} = {value.buf}{part}")
        if value.mark:
            self.emit(None, f"{s}_m = {value.mark}")
        if value.mark and self.multi:
            self.emit(None, f"r_{s}_m = r_{value.mark}")
        buf, mark = f"{s}_a" if own else value.buf, value.mark and f"{s}_m"
        if value.py in self.temporaries:
            self.temporaries[s] = self.temporaries[value.py]
        return replace(value, off=f"{s}_o", dims=tuple(dims), py=s, mark=mark, buf=buf)

    def parts(self, value: Arr) -> list[str]:
        """What the names of its buffers end in."""
        if not value.box:
            return [""]
        types = self.boxes[value.box]
        return [f"_{slot}" for slot in sorted({SLOT[t] for t in types})] + ["_tag"] * (
            len(types) > 1
        )

    def _laid_out(self, value: Vec, python: bool = True) -> Arr:
        """An expression over whole regions as a local array; without `python` in the compiled text
        alone."""
        a, k, sizes = self.new("a"), self.new("i"), [self.named(n) for n in value.dims]
        if python:
            self.emit(None, f"{a} = {value.py}")
        self.empty(a, " * ".join(sizes), value.type)
        with self.under(f"for {k} in range({' * '.join(sizes)}):"):
            self.emit(f"{a}[{k}] = {value.item(k)}")
        return Arr(
            a, value.type, tuple(zip(sizes, (*sizes[1:], "1"), strict=True)), "0", a, local=True
        )

    def bind(self, name: str, value: Any, node: ast.AST) -> None:
        """Assign to a name of the function that is being walked."""
        self.assign(self.scope.prefix + name, value, node)

    def fixed(self, a: Any) -> Any:
        """The value as it is now, whatever is assigned later."""
        if isinstance(a, Arr) and not a.free:
            return self._array(self.new("p"), a)
        if not isinstance(a, Num) or a.const is not None:
            return a
        name = self.new("p")
        self.emit(None, f"{name} = {a.py}")
        slots, tag = self.dispatch([a], lambda ts, xs: (ts[0], xs[0]), none=True)
        return replace(a, alts=slots, tag=tag, py=name)

    def joined(self, *states: State) -> State:
        """What is known where ways meet."""
        result: State = {}
        for name in dict.fromkeys(n for s in states for n in s):
            found = [s[name] for s in states if name in s]
            first = found[0]
            settled = len(found) == len(states) and not getattr(found[0], "maybe", True)
            if settled and len(first.alts) == 1 and all(v is first for v in found):
                result[name] = first
            elif all(isinstance(v, Num) for v in found):
                result[name] = self._met(name, found, len(found) < len(states))
            elif all(v == found[0] for v in found):
                if len(found) == len(states):
                    result[name] = found[0]
            elif all(
                isinstance(v, Arr) and v.box and replace(v, box="") == replace(found[0], box="")
                for v in found
            ):
                boxes = sorted({v.box for v in found})
                # one set, from here on
                self.boxes |= dict.fromkeys(boxes, set().union(*(self.boxes[box] for box in boxes)))
                result[name] = replace(found[0], box=boxes[0])
            else:
                what = (
                    "a choice of arrays"
                    if name[0] == "."
                    else f"{name.partition('_')[2]}, which holds different arrays,"
                )
                raise Refused(what, 0, "an if around what is done with each")
        return result

    def _met(self, name: str, found: list[Num], missing: bool) -> Num:
        alts = {t: x for v in found for t, x in v.alts.items()}
        maybe = missing or any(v.maybe for v in found)
        bounds = [v.bound for v in found]
        if len(alts) > 1 or maybe:
            self.tagged.add(f"{slot_of(name)}_tag")
        most = None if any(b is None for b in bounds) else max(b for b in bounds if b is not None)
        data = any(v.data for v in found)
        affine = found[0].affine if all(v.affine == found[0].affine for v in found) else None
        return Num(
            dict(sorted(alts.items())), found[0].py, found[0].tag, data, None, most, maybe, affine
        )


def slot_of(name: str) -> str:
    """A variable's name in the texts."""
    return name.replace(".", "")


def alike(a: State, b: State) -> bool:
    """True if as much is known in both."""
    return a.keys() == b.keys() and all(same(value, b[name]) for name, value in a.items())


def _known(a: Num) -> tuple[Any, ...]:
    return a.alts.keys(), a.data, a.bound, a.maybe, a.affine


def same(a: Any, b: Any) -> bool:
    """True if as much is known of two values."""
    if isinstance(a, Num) and isinstance(b, Num):
        return _known(a) == _known(b)
    return bool(a == b)
