"""Regions: elements, rows and slices of them, statements over all of their elements, and local arrays."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.compile.scalar.arithmetic import BINARY
from ipu_teach.compile.scalar.values import (
    FLOATS,
    HELD,
    INTS,
    SAMPLES,
    SLOT,
    SMALL,
    ZERO,
    Arr,
    Const,
    Num,
    Vec,
    is_number,
    kind_of,
    reach,
)
from ipu_teach.compile.scalar.variables import Variables
from ipu_teach.compile.scalar.writer import Make
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import Field

# What a mark is: a byte for each byte of the element.
MARKS = {1: 1, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}


class Arrays(Variables):
    """Everything that has an index."""

    def num(self, node: ast.expr) -> Num:
        """The value of an expression that is a single number."""
        raise NotImplementedError

    def nums(self, nodes: list[ast.expr]) -> list[Num]:
        """Operands from left to right."""
        raise NotImplementedError

    def region(self, name: str, declared: Field) -> Arr:
        """A field."""
        dims = tuple((f"f_{name}_n{k}", f"f_{name}_s{k}") for k in range(declared.depth))
        mark = f"m_f_{name}" if self.multi or declared.kind == "output" else ""
        readable = declared.kind != "output" or declared.depth > 0
        sized = VectorLayout.ONE_PTR not in declared.layouts[:1]
        t = declared.dtype.numpy.str[1:]
        return Arr(f"f_{name}", t, dims, f"f_{name}_o", f"f_{name}", mark, readable, declared.written, sized=sized)

    def length(self, array: Arr, axis: int, node: ast.AST) -> Num:
        if not array.sized:
            self.refuse(node, "the length of a ONE_PTR field")
        py = f"len({array.py})" if axis == 0 else f"{array.py}.shape[{axis}]"
        return Num({"wi": array.dims[axis][0]}, py, bound=SMALL)

    def place(self, array: Arr, keys: list[Num], node: ast.AST) -> tuple[str, tuple[tuple[str, str], ...]]:
        """(the compiled text's place of an element or a row, what dimensions are left). Indices are checked there."""
        at = array.off
        for key, (n, s) in zip(keys, array.dims, strict=False):
            if not set(key.alts) <= INTS:
                self.refuse(node, "an index that is no whole number")
            k = self._index(key, n, node)
            at = f"{at} + {k}" if s == "1" else f"{at} + {k} * {s}"
        return at, array.dims[len(keys) :]

    def _index(self, key: Num, n: str, node: ast.AST) -> str:
        """An index counted from the front, and known to be within the length."""
        if self.scope.inside.get(key.py) == n:
            return key.only[1]
        if key.const is not None:
            k = self.named(str(key.const) if key.const >= 0 else f"{n} + {key.const}")
        else:
            i = self.whole(key)
            k = self.named(f"{i} + {n} if {i} < 0 else {i}")
        self.bail(f"{k} < 0 or {k} >= {n}", node)
        return k

    def whole(self, a: Num) -> str:
        """A whole number, or a bool, as the compiled text's int64."""
        if len(a.alts) == 1 and "u8" not in a.alts:
            return a.only[1]
        return self.dispatch([a], lambda ts, xs: ("i8", f"np.int64({xs[0]})" if ts[0] == "u8" else xs[0]))[0]["i8"]

    def _held(self, array: Arr, at: str) -> str:
        """An element of a buffer, as the compiled text holds numbers."""
        raw = f"{array.buf}[np.uintp({at})]"  # unsigned, or a negative one is counted from the end once more
        if array.type == "f2" and not array.local:
            return f"half_value({raw})"
        return f"np.int64({raw})" if array.type in INTS and array.type != "u8" else raw

    def load(self, array: Arr, keys: list[Num], node: ast.AST) -> Num:
        """Read an element."""
        if not array.readable:
            self.refuse(node, f"the Output {array.buf[2:]} is read", "an InOut, or a local variable that is assigned once")
        at, _ = self.place(array, keys, node)
        name, key = self.named(self._held(array, at)), ", ".join(k.py for k in keys) or "()"
        if self.multi and not array.local:
            self.emit(f"r_{array.buf}[np.uintp({at})] |= wbit", f"r_{array.mark}[{key}] |= wbit")
        self.spend()
        py = f"{array.py}[{key}]" if keys or array.writable else array.py  # a number by itself was read ahead
        return Num({array.type: name}, py, data=True, bound=reach([array.type]))

    def write(self, array: Arr, keys: list[Num], value: Any, node: ast.AST) -> None:
        """Store an element."""
        if isinstance(value, Const) and is_number(value.value):
            value = self.constant(value.value)
        if not isinstance(value, Num):
            self.refuse(node, "what is stored is no single number")
        if not array.writable:
            self.refuse(node, f"the Input {array.buf[2:]} is assigned", "an InOut")
        at, _ = self.place(array, keys, node)
        t = array.type
        slots, _ = self.dispatch([value], lambda ts, xs: (t, self.put(xs[0], ts[0], t, node)))
        x, at = slots[t], f"np.uintp({at})"
        key = ", ".join(k.py for k in keys) or "()"
        cut = t[0] == "u" and not array.local and FLOATS & value.alts.keys()
        py = f"to_unsigned({value.py}, {array.py}.dtype)" if cut else value.py
        self.emit(f"{array.buf}[{at}] = {self._stored(array, x)}", f"{array.py}[{key}] = {py}")
        if array.mark:
            how = "|= wbit" if self.multi else f"= {MARKS[int(t[1])]}"
            self.emit(f"m_{array.buf}[{at}] {how}", f"{array.mark}[{key}] {how}")
        self.spend()

    def _stored(self, array: Arr, x: str) -> str:
        return f"half_bits({x})" if array.type == "f2" and not array.local else x

    def row(self, owner: Arr, keys: list[Num], node: ast.AST) -> Arr:
        """x[k] of a matrix, as a view."""
        at, dims = self.place(owner, keys, node)
        name = self.new("o")
        self.emit(f"{name} = {at}")
        key = ", ".join(k.py for k in keys)
        mark = owner.mark and f"{owner.mark}[{key}]"
        return replace(owner, off=name, dims=dims, py=f"{owner.py}[{key}]", mark=mark, sized=True)

    def sliced(self, owner: Arr, part: ast.Slice, node: ast.AST) -> Arr:
        """x[a:b] as a view."""
        if part.step is not None or len(owner.dims) != 1:
            self.refuse(node, "a slice with a step, or of rows", "a loop over range(first, last, step)")
        n, s = owner.dims[0]
        ends, texts = [], []
        for end, default in ((part.lower, "0"), (part.upper, n)):
            if end is None:
                ends.append(default)
                texts.append("")
                continue
            key = self.num(end)
            if len(key.alts) > 1 or not set(key.alts) <= INTS - {"u8"}:
                self.refuse(node, "this slice")
            x = key.only[1]
            ends.append(self.named(f"max(0, {x} + {n}) if {x} < 0 else min({x}, {n})"))
            texts.append(key.py)
        off, count = self.new("o"), self.new("n")
        self.emit(f"{count} = max(0, {ends[1]} - {ends[0]})")
        self.emit(f"{off} = {owner.off} + {ends[0]} * {s}")
        key_text = f"[{texts[0]}:{texts[1]}]"
        mark = owner.mark and owner.mark + key_text
        return replace(owner, off=off, dims=((count, s),), py=owner.py + key_text, mark=mark, sized=True)

    def table(self, values: Any, node: ast.Subscript) -> Num:
        """An element of a plain list of numbers that the codelet, or its module, holds."""
        kinds = {kind_of(v) for v in values}
        if len(kinds) != 1 or not kinds <= {"wi", "wf"}:
            self.refuse(node, "an index into a list of several types")
        key = self.num(node.slice)
        if isinstance(key.const, int):
            if not -len(values) <= key.const < len(values):
                self.refuse(node, "an index beyond the end")
            return self.constant(values[key.const])
        (t,) = kinds
        name = next((n for n, v in self.tables.items() if v is values), None) or f"K{len(self.tables)}"
        self.tables[name] = values
        at, _ = self.place(Arr(name, t, ((str(len(values)), "1"),), "0", name), [key], node)
        out = self.named(f"{name}[np.uintp({at})]")
        self.spend(data=key.data)
        return Num({t: out}, f"{name}[{key.py}]", data=key.data, bound=max(map(abs, values)) if t == "wi" else None)

    # Whole regions

    def as_vec(self, a: Any, node: ast.AST) -> Vec:
        """An operand of a statement over whole regions."""
        if isinstance(a, Vec):
            return a
        if isinstance(a, Const) and is_number(a.value):
            a = self.constant(a.value)
        if isinstance(a, Num):
            if len(a.alts) > 1:
                self.refuse(node, "a number of several types among arrays")
            t, x = (self.fixed(a) if a.const is None else a).only
            return Vec("", t, lambda k: x, a.py, frozenset())
        if not isinstance(a, Arr) or len(a.dims) != 1 or self.multi or not a.readable:
            self.refuse(node, "this array among numbers")
        array, (n, s) = a, a.dims[0]
        if not a.local:
            self.spend_on_all("loads", (n, f"len({a.py})"), "", dtype_of_type(a.type))
        return Vec(n, a.type, lambda k: self.named(self._held(array, f"{array.off} + {k} * {s}")), a.py, frozenset([a.buf]))

    def vector(self, kind: type, a: Any, b: Any, node: ast.AST) -> Vec:
        """An operator on whole regions: a loop where the result is stored. IEEE fixes each element's bits."""
        sign, fn, name = BINARY[kind]
        if sign == "**":
            self.refuse(node, "** of whole arrays")
        a, b = self._settled(a, b, fn, False, node), self._settled(b, a, fn, True, node)
        x, y = self.as_vec(a, node), self.as_vec(b, node)
        if x.n and y.n and x.n != y.n:
            self.bail(f"{x.n} != {y.n}", node)  # numpy stretches an array of one element; that is left to it
        make = self.arith(sign, fn, node, [None, None], [None, None])
        at, count = len(self.nb), self.count
        t, _ = make([x.type, y.type], ["q0", "q1"])
        del self.nb[at:]
        self.count = count
        self.spend_on_all("vec", (x.n or y.n, f"len({x.py if x.n else y.py})"), name, dtype_of_type(t))

        def item(k: str) -> str:
            return self.named(make([x.type, y.type], [x.item(k), y.item(k)])[1])

        return Vec(x.n or y.n, t, item, f"({x.py} {sign} {y.py})", x.bufs | y.bufs)

    def _settled(self, a: Any, other: Any, fn: Any, after: bool, node: ast.AST) -> Any:
        """A number of several types beside an array, as what it becomes there, if that is one type."""
        if not isinstance(a, Num) or len(a.alts) == 1 or not isinstance(other, (Arr, Vec)):
            return a
        t = other.type
        found = {kind_of(fn(SAMPLES[t], SAMPLES[x]) if after else fn(SAMPLES[x], SAMPLES[t])) for x in a.alts}
        if len(found) > 1 or found == {"b1"}:
            self.refuse(node, "a number of several types among arrays")
        (r,) = found
        slots, _ = self.dispatch([a], lambda ts, xs: (r, self.convert(xs[0], ts[0], r, node)))
        return Num(slots, a.py, data=a.data)

    def fill(self, to: Arr, value: Any, node: ast.AST) -> None:
        """A store into a whole region."""
        if len(to.dims) != 1 or not to.writable or self.multi:
            self.refuse(node, "this assignment to an array")
        if isinstance(value, Num) and len(value.alts) > 1:
            self.refuse(node, "a number of several types for a whole array")
        v, (n, s), t = self.as_vec(value, node), to.dims[0], to.type
        if t not in FLOATS and v.type != t and v.n:
            self.refuse(node, "an array stored as whole numbers of another type")
        if v.n:
            self.bail(f"{v.n} != {n}", node)
        item = v.item
        if to.buf in v.bufs:  # numpy takes all of the right side first
            tmp, k = self.new("a"), self.new("i")
            self.emit(f"{tmp} = np.empty({n}, {HELD[SLOT[v.type]]})")
            self.emit(f"for {k} in range({n}):")
            self.depth += 1
            self.emit(f"{tmp}[{k}] = {v.item(k)}")
            self.depth -= 1
            item = lambda k: f"{tmp}[{k}]"  # noqa: E731
        k = self.new("i")
        self.emit(f"for {k} in range({n}):")
        self.depth += 1
        x, place = self.put(item(k), v.type, t, node), f"np.uintp({to.off} + {k} * {s})"
        self.emit(f"{to.buf}[{place}] = {self._stored(to, x)}")
        if to.mark:
            self.emit(f"m_{to.buf}[{place}] = {MARKS[int(t[1])]}")
        self.depth -= 1
        self.emit(None, f"{to.py}[...] = {v.py}")
        if to.mark:
            self.emit(None, f"{to.mark}[...] = {MARKS[int(t[1])]}")
        if not to.local:
            self.spend_on_all("stores", (n, f"len({to.py})"), "", dtype_of_type(t))

    def mapped(self, f: Any, args: list[Any], make: Make | None, name: str, py: str, node: ast.AST) -> Vec:
        """A function of numbers, on whole regions. Without `make` the compiled text has none."""
        parts = [self.as_vec(a, node) for a in args]
        n = next((v.n for v in parts if v.n), "")
        for v in parts:
            if v.n and v.n != n:
                self.bail(f"{v.n} != {n}", node)
        try:
            with np.errstate(all="ignore"):
                t = kind_of(f(*(SAMPLES[v.type] for v in parts))[()])
        except TypeError as error:
            self.refuse(node, str(error))
        if t not in SAMPLES:
            self.refuse(node, py)
        if make is None:
            self.by_python(node, py)
        long = next(v.py for v in parts if v.n)
        self.spend_on_all("vec", (n, f"len({long})"), name, dtype_of_type(t))

        def item(k: str) -> str:
            if make is None:
                return ZERO[SLOT[t]]
            return self.named(make([v.type for v in parts], [v.item(k) for v in parts])[1])

        return Vec(n, t, item, py, frozenset().union(*(v.bufs for v in parts)))

    def reduced(self, f: Any, value: Any, name: str, node: ast.AST) -> Num:
        """A number of a whole region, as numpy works it out: np.any, np.max and the like."""
        v = self.as_vec(value, node)
        if not v.n:
            self.refuse(node, f"np.{f.__name__} of a number")
        t = kind_of(f(np.ones(2, dtype_of_type(v.type)))[()])
        self.by_python(node, f"np.{f.__name__}")
        self.spend_on_all("vec", (v.n, f"len({v.py})"), name, dtype_of_type(v.type))
        return Num({t: ZERO[SLOT[t]]}, f"np.{f.__name__}({v.py})", data=True, bound=reach([t]))

    def product(self, a: Any, b: Any, node: ast.AST) -> Num:
        """a @ b of two vectors."""
        x, y = self.as_vec(a, node), self.as_vec(b, node)
        if not x.n or not y.n:
            self.refuse(node, "@ of a number")
        t = kind_of(SAMPLES[x.type] * SAMPLES[y.type])
        self.by_python(node, "@")
        self.spend_on_all("vec", (x.n, f"len({x.py})"), "", dtype_of_type(t))
        return Num({t: ZERO[SLOT[t]]}, f"({x.py} @ {y.py})", data=True, bound=reach([t]))

    def total(self, value: Any, node: ast.AST) -> Num:
        """np.sum of a region: numpy's own loop, which adds in pairs."""
        plain = isinstance(value, Arr) and len(value.dims) == 1 and value.type in FLOATS and not self.multi and value.readable
        if not plain or (value.local and value.type == "f2"):
            return self.reduced(np.sum, value, "add", node)
        letter, (n, s), t = np.dtype(value.type).char, value.dims[0], value.type
        k = self.loop_number(np.add, f"{letter}{letter}->{letter}")
        place = f"{value.buf}.ctypes.data + ({value.off}) * {int(t[1])}"
        call = f"reduce_loop(loops[{2 * k}], loops[{2 * k + 1}], {place}, {n}, {s} * {int(t[1])}, {value.buf}[0:1])"
        name = self.named(f"half_value({call})" if t == "f2" else call)
        for counter in ("loads", "vec"):
            self.spend_on_all(counter, (n, f"len({value.py})"), "", dtype_of_type(t))
        return Num({t: name}, f"np.sum({value.py})", data=True)

    def loop_number(self, ufunc: Any, types: str) -> int:
        """The place of one of numpy's own loops among those that the codelet calls."""
        if (ufunc, types) not in self.loops:
            self.loops.append((ufunc, types))
        return self.loops.index((ufunc, types))

    def settle(self) -> None:
        """The end of compute(): work on whole regions goes beside their loads and stores."""
        self.flush()
        if self.vectors:
            self.both("cyc += max(vec, loads // 2, stores)")


def dtype_of_type(t: str) -> str:
    """numpy's name of a type that elements have."""
    return str(np.dtype({"wb": "?", "wi": "i8", "wf": "f8"}.get(t, t)).name)
