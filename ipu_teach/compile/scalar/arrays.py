"""Arrays in a scalar loop: elements, slices, whole regions, tables, lists and local arrays."""

from __future__ import annotations

import ast
import operator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ipu_teach.compile.matrices import ASYMMETRY
from ipu_teach.compile.scalar.arithmetic import BINARY, POWERS
from ipu_teach.compile.scalar.kinds import (
    CODES,
    FLOATS,
    INTS,
    SAMPLES,
    SLOT,
    ZERO,
    dtype_of,
    is_number,
    kind_of,
    numpys,
    reach,
)
from ipu_teach.compile.scalar.operations import Block, Finish, Leave, Line
from ipu_teach.compile.scalar.values import (
    LENGTH,
    Arr,
    ConstantTable,
    Factors,
    Fixed,
    Known,
    Num,
    StaticValue,
    Vec,
)
from ipu_teach.compile.scalar.variable_walk import VariableWalk
from ipu_teach.compile.scalar.writer import (
    AGAIN,
    BEYOND,
    COLUMN,
    FUSED,
    LOOP,
    OF_PRODUCT,
    PRODUCT,
    TALL,
    WIDE,
    WORD,
    Make,
)
from ipu_teach.compile.trace import DENSE, ELEMENTWISE, LAPACK, REDUCTIONS, place
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import Field

# By the size of an element: its mark when stored, with the lowest bit of each byte set.
MARKS = {1: 1, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}
MOST_NUMBERS = 1 << 12  # in a table of constants
# By numpy's reduction: its initial value, and the text of adding one number. A reduction without an
# initial value starts with the first number.
REDUCED = {
    "add": ("np.int64(0)", "{} + np.int64({})"),
    "multiply": ("np.int64(1)", "{} * np.int64({})"),
    "maximum": ("", "np_max({}, {})"),
    "minimum": ("", "np_min({}, {})"),
    "logical_or": ("False", "{} or {} != 0"),
    "logical_and": ("True", "{} and {} != 0"),
}


class Arrays(VariableWalk):
    """Everything that has an index."""

    def region(self, name: str, declared: Field) -> Arr:
        """Return the array of a field."""
        dims = tuple((Fixed(f"f_{name}_n{k}"), f"f_{name}_s{k}") for k in range(declared.depth))
        mark = (
            f"m_f_{name}" if declared.kind == "output" or (self.multi and declared.written) else ""
        )
        readable = declared.kind != "output" or declared.depth > 0
        sized = VectorLayout.ONE_PTR not in declared.layouts[:1]
        rows = f"f_{name}_t" if name in self.lists else ""
        # a constant of the vertex, so that work on it costs nothing
        free = declared.kind == "state" and not declared.depth and name not in self.assigned
        return Arr(
            buf=f"f_{name}",
            type=declared.dtype.numpy.str[1:],
            dims=dims,
            off=f"f_{name}_o",
            py=f"f_{name}",
            mark=mark,
            readable=readable,
            writable=declared.written,
            sized=sized,
            rows=rows,
            free=free,
        )

    def length(self, array: Arr, axis: int, node: ast.AST) -> Num:
        """Return the length of an axis."""
        self.refuse_if(not array.sized, node, "the length of a ONE_PTR field")
        py = f"len({array.py})" if axis == 0 else f"{array.py}.shape[{axis}]"
        n = array.dims[axis][0]
        return self.constant(int(n)) if isinstance(n, Known) else Num({"wi": n}, py, bound=LENGTH)

    # Elements

    def keys(self, owner: Arr, node: ast.expr) -> list[Num] | None:
        """Return the numbers of an index that selects a single element, else None."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        if (
            len(parts) != len(owner.dims)
            or owner.rows
            or any(isinstance(p, ast.Slice) for p in parts)
        ):
            return None
        return self.nums(list(parts))

    def place(self, array: Arr, keys: list[Num], node: ast.AST) -> str:
        """Return the offset of an element in the compiled text, which checks the indices."""
        at = array.off
        for key, (n, s) in zip(keys, array.dims, strict=True):
            k = self._index(key, n, node)
            at = f"{at} + {k}" if s == "1" else f"{at} + {k} * {s}"
        return at

    def _index(self, key: Num, n: str, node: ast.AST) -> str:
        """Return the compiled text of an index, counted from the front and range-checked."""
        key = self.not_none(key)
        self.refuse_if(
            not set(key.alts) <= INTS, node, "an index that is no whole number", "int(…) around it"
        )
        if key.affine is not None and self._checked_ahead(*key.affine, n, node):
            return key.only[1]
        if key.const is not None:
            k = self.named(str(key.const) if key.const >= 0 else f"{n} + {key.const}")
        else:
            i = self.int64_text(key)
            k = self.named(f"{i} + {n} if {i} < 0 else {i}")
        self.bail(f"{k} < 0 or {k} >= {n}", node)
        return k

    def _checked_ahead(self, counter: str, extra: int, n: str, node: ast.AST) -> bool:
        """Return whether an index is checked once for all iterations of a loop.

        A compiler can then vectorise the loop. This is done only if every iteration reaches the
        index: otherwise a vertex could return to CPython, which is slow, for an element that it
        never accesses.
        """
        first, end = self.ranges.get(counter, ("", ""))
        check = f"if {end} > {first} and {end} + {extra} > {n}:"
        if not first or min(int(first), int(first) + extra) < 0:
            return False
        if (end == n and extra <= 0) or check in self.ahead.get(counter, ()):
            return True
        if not isinstance(n, Fixed):
            return False
        for around, block in zip(self.open[-2::-1], self.open[::-1], strict=False):
            if not block.counter or any(
                isinstance(operation, (Leave, Finish)) for operation in block.all()
            ):
                return False
            if block.counter == counter:
                self.ahead[counter].add(check)
                at = getattr(node, "lineno", 0) or self.line or 1
                around.body.insert(-1, Block(check, body=[Line(f"return {at}")]))
                return True
        return False

    def int64_text(self, a: Num) -> str:
        """Return the compiled text of an integer or a bool as an int64."""
        if len(a.alts) == 1 and "u8" not in a.alts:
            return a.only[1]
        return self.dispatch(
            [a], lambda ts, xs: ("i8", f"np.int64({xs[0]})" if ts[0] == "u8" else xs[0])
        )[0]["i8"]

    def _element_text(self, array: Arr, at: str) -> str:
        """Return the compiled text of an element of a buffer, as calculations have it."""
        # an unsigned index, because numba wraps negative ones around once more
        raw = f"{array.buf}[np.uintp({at})]"
        if array.type == "f2" and not array.local:
            return f"half_value({raw})"
        return f"np.int64({raw})" if array.type in INTS and array.type != "u8" else raw

    def load(self, array: Arr, keys: list[Num], node: ast.AST) -> Num:
        """Return an element of an array, with the code that reads it."""
        if not array.readable:
            self.refuse(
                node,
                f"the Output {array.buf[2:]} is read",
                "an InOut, or a local variable that is assigned once",
            )
        at = self.place(array, keys, node)
        data = not array.free or any(k.data for k in keys)
        key = ("][" if array.box else ", ").join(k.py for k in keys) or "()"
        self.spend(data=data)
        if array.box:
            table = self.tables.get(array.box)
            types = sorted(self.boxes[array.box])
            if not types:  # nothing has been stored in it so far
                return self.not_none(Num({"no": "False"}, "None"))
            if (
                table is not None
                and array.off == "0"
                and len(array.dims) == 1
                and isinstance(keys[0].const, int)
            ):
                if -len(table.values) <= keys[0].const < len(table.values):
                    return table.values[keys[0].const]
                return keys[0]
            at = self.named(at)
            values = {
                slot: self.named(f"{array.buf}_{slot}[np.uintp({at})]")
                for slot in sorted({SLOT[t] for t in types})
            }
            tag = self.named(f"{array.buf}_tag[np.uintp({at})]") if len(types) > 1 else ""
            bound = None if "wi" in types else reach(types)
            if table is not None and "wi" in types:
                bound = max(x.bound for x in table.values if x.bound is not None)
            return Num(
                {t: values[SLOT[t]] for t in types}, f"{array.py}[{key}]", tag, data, bound=bound
            )
        is_preloaded = not keys and not array.writable  # a scalar field was read before the loop
        name = (
            Fixed(f"{array.buf}_v") if is_preloaded else self.named(self._element_text(array, at))
        )
        if self.multi and array.mark:
            self.emit(f"r_{array.buf}[np.uintp({at})] |= wbit", f"r_{array.mark}[{key}] |= wbit")
        py = array.py if is_preloaded else f"{array.py}[{key}]"
        return Num({array.type: name}, py, data=data, bound=reach([array.type]))

    def write(self, array: Arr, keys: list[Num], value: Any, node: ast.AST) -> None:
        """Store an element."""
        self.refuse_if(not isinstance(value, Num), node, "what is stored is no single number")
        if not array.writable:
            self._read_only(array, node)
        at = f"np.uintp({self.place(array, keys, node)})"
        t = array.type
        key = ("][" if array.box else ", ").join(k.py for k in keys) or "()"
        cut = t[0] == "u" and not array.local and FLOATS & value.alts.keys()
        self.emit(
            None,
            f"{array.py}[{key}] = "
            f"{f'to_unsigned({value.py}, {array.py}.dtype)' if cut else value.py}",
        )
        # memory is written in words, so smaller stores take more instructions
        is_word = array.box or int(array.type[1]) >= 4
        self.spend("", *(("", 1) if is_word else (WORD, 3)))
        if array.box:
            self.boxes[array.box] |= set(value.alts)
            for slot, text in {SLOT[t]: text for t, text in value.alts.items()}.items():
                self.emit(f"{array.buf}_{slot}[{at}] = {text}")
            if len(self.boxes[array.box]) > 1:
                self.emit(
                    f"{array.buf}_tag[{at}] = "
                    f"{value.tag if len(value.alts) > 1 else CODES[value.only[0]]}"
                )
            return
        slots, _ = self.dispatch([value], lambda ts, xs: (t, self.put(xs[0], ts[0], t, node)))
        self.emit(f"{array.buf}[{at}] = {self._stored(array, slots[t])}")
        if array.mark:
            marking = self._marks(t)
            self.emit(f"m_{array.buf}[{at}] {marking}", f"{array.mark}[{key}] {marking}")

    def _marks(self, t: str) -> str:
        """Return the text of the change that a store makes to a mark."""
        return "|= wbit" if self.multi else f"= {MARKS[int(t[1])]}"

    def _stored(self, array: Arr, x: str) -> str:
        """Return the compiled text of a number as the buffer stores it."""
        return f"half_bits({x})" if array.type == "f2" and not array.local else x

    # Rows and slices

    def view(self, owner: Arr, index: ast.expr, node: ast.AST) -> Arr:
        """Return what an index selects that is no single element: rows, slices, or both."""
        parts = index.elts if isinstance(index, ast.Tuple) else [index]
        if len(parts) > len(owner.dims) or (
            (owner.rows or owner.box) and (len(parts) > 1 or isinstance(index, ast.Slice))
        ):
            self.refuse(
                node,
                "a slice of a list" if len(parts) == 1 else "this index",
                "a loop over its elements",
            )
        off = owner.off
        free = owner.free
        dims: list[tuple[str, str]] = []
        texts = []
        rest = owner.dims[len(parts) :]
        for part, (n, s) in zip(parts, owner.dims, strict=False):
            if isinstance(part, ast.Slice):
                first, count, step, text = self._slice(part, n, node)
                dims.append((count, s if step == "1" else self.named(f"{s} * {step}")))
            else:
                key = self.num(part)
                first = self._index(key, n, node)
                text = key.py
                free = free and not key.data
            off = self.offset_of(owner, off, first, s)
            texts.append(text)
        owner = replace(owner, sized=True, free=free)
        return self.part(owner, off, first, (*dims, *rest), f"[{', '.join(texts)}]")

    @staticmethod
    def offset_of(owner: Arr, off: str, first: str, step: str) -> str:
        """Return the offset of item `first` of an axis; a list of vectors has a table of them."""
        if owner.rows:
            return f"{off} + dims[{owner.rows} + 2 * {first}]"
        return f"{off} + {first} * {step}"

    def part(
        self, owner: Arr, off: str, first: str, dims: tuple[tuple[str, str], ...], key: str
    ) -> Arr:
        """Return the array at offset `off`, which is owner[key] in CPython's text.

        For a list of vectors it is vector number `first`, whose length is read from the table.
        """
        if owner.rows:
            dims = ((self.named(f"dims[{owner.rows} + 2 * {first} + 1]"), "1"),)
        mark = owner.mark and owner.mark + key
        return replace(owner, dims=dims, off=self.named(off), py=owner.py + key, mark=mark, rows="")

    def reshaped(self, owner: Any, *shape: Any, node: ast.expr) -> Arr:
        """Return a vector or matrix in another shape, with the same elements in row-major order."""
        owner = self._materialised(owner) if isinstance(owner, Vec) else owner
        dimensions = shape[0] if shape and isinstance(shape[0], list) else shape
        sizes = [self.single(n, node) for n in dimensions]
        is_plain = isinstance(owner, Arr) and owner.sized and not owner.rows and not owner.box
        if (
            not is_plain
            or len(owner.dims) > 2
            or not 1 <= len(sizes) <= 2
            or any(not set(n.alts) <= INTS for n in sizes)
        ):
            self.refuse(node, "this .reshape()", "a loop over its elements")
        texts = [n.py for n in sizes]
        (_, step) = owner.dims[0]
        (m, s) = owner.dims[-1]
        count = self.named(" * ".join(n for n, _ in owner.dims))
        is_vector = len(owner.dims) == 1
        if not is_vector:  # numpy copies a matrix whose rows are not contiguous
            self.refuse_if(self.multi and owner.mark, node, "a matrix's .reshape()")
            self.bail(f"{step} != {m} * {s}", node)
        known = [self.int64_text(n) for n in sizes if n.const != -1] or ["1"]
        rest = self.named(f"{count} // max(1, {' * '.join(known)})")
        names = [rest if n.const == -1 else self.named(self.int64_text(n)) for n in sizes]
        self.bail(f"min({', '.join(names)}, 0) < 0 or {' * '.join(names)} != {count}", node)
        tail = f".reshape({', '.join(texts)})"
        result: Arr = replace(
            owner,
            dims=(
                (names[0], s if len(names) == 1 else self.named(f"{names[1]} * {s}")),
                *[(n, s) for n in names[1:]],
            ),
            py=owner.py + tail,
            mark=owner.mark and owner.mark + tail,
            writable=owner.writable and (is_vector or owner.local),
        )
        return result

    def _read_only(self, array: Arr, node: ast.AST) -> NoReturn:
        """Refuse a store into an array that cannot be written."""
        field = self.codelet.fields.get(array.buf[2:])
        if array.box:
            self.refuse(node, "a table is assigned", "an InOut")
        if field is not None and field.written:
            self.refuse(node, f"what .reshape() gives of {field.name} is assigned", "its elements")
        self.refuse(node, f"the Input {array.buf[2:]} is assigned", "an InOut")

    def _slice(self, part: ast.Slice, n: str, node: ast.AST) -> tuple[str, str, str, str]:
        """Return (first index, number of items, step, CPython's text) of first:last:step."""
        nodes = (part.lower, part.upper, part.step)
        numbers = iter([self.not_none(a) for a in self.nums([e for e in nodes if e is not None])])
        values = ["", "", "1"]
        texts = ["", "", ""]
        for k, operand in enumerate(nodes):
            if operand is not None:
                a = next(numbers)
                self.refuse_if(not set(a.alts) <= INTS - {"u8"}, node, "this slice")
                values[k] = self.int64_text(a)
                texts[k] = a.py
        first, last, step = values
        if step == "1":
            ends = [
                self.named(f"max(0, {x} + {n}) if {x} < 0 else min({x}, {n})") if x else ""
                for x in (first, last)
            ]
            count = self.named(f"max(0, {ends[1] or n} - {ends[0] or 0})")
            return ends[0] or "0", count, step, f"{texts[0]}:{texts[1]}"
        self.bail(f"{step} == 0", node)
        begin = self.named(
            f"slice_end({first}, {n}, {step})" if first else f"0 if {step} > 0 else {n} - 1"
        )
        end = f"slice_end({last}, {n}, {step})" if last else f"{n} if {step} > 0 else -1"
        return begin, self.named(f"range_len({begin}, {end}, {step})"), step, ":".join(texts)

    # Tables and lists

    def table(self, value: Any, node: ast.AST) -> Arr:
        """Return the array of numbers that are known ahead.

        They are a list, tuple or array of the codelet or its module, or a literal.
        """
        numbers = value if isinstance(value, np.ndarray) else np.array(value, object)
        is_list = numbers.dtype == object
        values = numbers.reshape(-1).tolist() if is_list else list(numbers.reshape(-1))
        if not 0 < len(values) <= MOST_NUMBERS or not all(map(is_number, values)) or None in values:
            self.refuse(node, "this list of constants")
        constants = [self.constant(x) for x in values]
        py = nested([x.py for x in constants], numbers.shape)
        py = py if is_list else f"np.array({py}, {numpys(numbers.dtype)})"
        name = next((n for n, t in self.tables.items() if t.py == py), f"K{len(self.tables)}")
        types = self.boxes[name] = {x.only[0] for x in constants}
        lines = {}
        for slot in sorted({SLOT[t] for t in types}):
            texts = [x.only[1] if SLOT[x.only[0]] == slot else ZERO[slot] for x in constants]
            lines[f"{name}_{slot}"] = f"np.array([{', '.join(texts)}])"
        if len(types) > 1:
            lines[f"{name}_tag"] = f"np.array({[CODES[x.only[0]] for x in constants]}, np.int8)"
        self.tables[name] = ConstantTable(py, lines, constants)
        strides = [str(int(np.prod(numbers.shape[k + 1 :]))) for k in range(numbers.ndim)]
        dims = tuple(zip(map(Known, numbers.shape), strides, strict=True))
        return Arr(name, "?", dims, "0", name, writable=False, local=True, box=name, free=True)

    # Whole regions

    def as_vec(self, a: Any, node: ast.AST, load: str = "") -> Vec:
        """Return an operand of a statement over whole regions.

        `load` is the price name of its load; by default, it is found here.
        """
        if isinstance(a, Vec):
            return a
        if isinstance(a, StaticValue) and isinstance(a.value, np.ndarray):
            a = self.table(a.value, node)
            (t,) = self.boxes[a.box]
            a = replace(a, buf=f"{a.buf}_{SLOT[t]}", type=t, box="")
        if isinstance(a, Num):
            self.refuse_if(len(a.alts) > 1, node, "a number of several types among arrays")
            t, x = (self.fixed(a) if a.const is None else a).only
            return Vec((), t, lambda k: x, a.py)
        if not isinstance(a, Arr) or not a.readable or a.rows or a.box or not 1 <= len(a.dims) <= 2:
            self.refuse(
                node,
                "a list among arrays" if isinstance(a, Arr) else "this among arrays",
                "a loop over its elements",
            )
        array = a
        vec = self._spans(a)
        marked = self.multi and bool(a.mark)
        if not a.local:
            self.spend_on_all("loads", vec, load or (AGAIN if a.py in self.loaded else ""), a.type)
        elif self.temporaries.get(a.py) != self.loops_over and a.py not in self.loaded and not load:
            self.spend_on_all("loads", vec, BEYOND, a.type)
            if a.py in self.temporaries and self.spilled.setdefault(a.py, node) is node:
                self.spend_on_all("stores", vec, BEYOND, a.type)
        self.loaded.add(a.py)
        if marked:
            self.emit(None, f"r_{a.mark}[...] |= wbit")

        def item(k: str) -> str:
            at = self._nth(array, k)
            if marked:
                self.emit(f"r_{array.buf}[np.uintp({at})] |= wbit")
            return self.named(self._element_text(array, at))

        return replace(vec, item=item)

    @staticmethod
    def _spans(a: Arr) -> Vec:
        """Return an array's shape and type as a Vec without elements."""
        size = f"len({a.py})" if len(a.dims) == 1 else f"{a.py}.size"
        return Vec(
            tuple(n for n, _ in a.dims), a.type, lambda k: "", a.py, frozenset([a.buf]), size
        )

    @staticmethod
    def _nth(array: Arr, k: str) -> str:
        """Return the offset of element k of a vector or matrix, in row-major order."""
        if len(array.dims) == 1:
            return f"{array.off} + {k} * {array.dims[0][1]}"
        (_, s), (n, t) = array.dims
        return f"{array.off} + {k} // {n} * {s} + {k} % {n} * {t}"

    def vector(self, kind: type, a: Any, b: Any, node: ast.AST) -> Vec:
        """Return the result of an operator on whole regions, computed in a loop where it is stored.

        Except for powers, IEEE fixes the bits of each element.
        """
        sign, fn, name = BINARY[kind]
        a, b = self._as_one_type(a, b, fn, False, node), self._as_one_type(b, a, fn, True, node)
        make = self.arith("*" if sign == "**" else sign, fn, node, [None, None], [None, None])
        if sign == "**" and isinstance(b, Num) and b.const == 2:
            return self.mapped(
                np.square, [a], lambda ts, xs: make(ts * 2, xs * 2), "square", "({} ** 2)", node
            )
        power = POWERS.get(b.const, name) if sign == "**" and isinstance(b, Num) else name
        return self.mapped(
            fn, [a, b], make if sign != "**" else None, power, "({} " + sign + " {})", node
        )

    def mapped(
        self, f: Any, args: list[Any], make: Make | None, name: str, form: str, node: ast.AST
    ) -> Vec:
        """Return the result of a function of numbers, applied to whole regions.

        `form` is CPython's text. Without `make`, the compiled text cannot compute it.
        """
        parts = [self.as_vec(a, node) for a in args]
        longest = max(parts, key=lambda v: len(v.dims))
        py = form.format(*(v.py for v in parts))
        for v in parts:
            self._fits(v, longest, node)
        types = [v.type for v in parts]
        at = len(self.operations)
        count = self.count
        t = make(types, types)[0] if make else self.type_of(f, types, node)
        del self.operations[at:]
        self.count = count
        self.refuse_if(t not in SAMPLES, node, py)
        if make is None:
            self.require_python(node)
        fused = name in ("add", "subtract") and any(v.scaled and v.type == t for v in parts)
        self.spend_on_all("vec", longest, FUSED if fused else name, t)

        def item(k: str) -> str:
            if make is None:
                return ZERO[SLOT[t]]
            return self.named(make(types, [v.item(k) for v in parts])[1])

        bufs = frozenset[str]().union(*(v.bufs for v in parts))
        product = name == "multiply" and t in ("f2", "f4")
        return Vec(
            longest.dims,
            t,
            item,
            py,
            bufs,
            longest.size,
            product,
            product and not all(v.dims for v in parts),
        )

    def _fits(self, v: Vec, to: Vec, node: ast.AST) -> None:
        """Check that two shapes are equal; broadcasting is left to numpy."""
        if v.dims and len(v.dims) < len(to.dims):
            self.require_python(node)
        for n, m in zip(v.dims, to.dims, strict=False):
            if n != m:
                self.bail(f"{n} != {m}", node)

    def _as_one_type(
        self, a: Any, other: Any, fn: Any, is_right_operand: bool, node: ast.AST
    ) -> Any:
        """Return a number of several types as the one type that it takes beside an array.

        Any other value is returned unchanged.
        """
        if not isinstance(a, Num) or len(a.alts) == 1 or not isinstance(other, (Arr, Vec)):
            return a
        t = other.type
        a = self.not_none(a)
        types = {self.type_of(fn, [t, x] if is_right_operand else [x, t], node) for x in a.alts}
        self.refuse_if(
            len(types) > 1 or types == {"b1"}, node, "a number of several types among arrays"
        )
        (r,) = types
        slots, _ = self.dispatch([a], lambda ts, xs: (r, self.convert(xs[0], ts[0], r, node)))
        return Num(slots, a.py, data=a.data)

    def fill(self, to: Arr, value: Any, node: ast.AST) -> None:
        """Store a value into a whole region."""
        if not to.writable:
            self._read_only(to, node)
        self.refuse_if(to.rows or to.box, node, "this assignment to a list", "a loop")
        if isinstance(value, Num) and len(value.alts) > 1:
            t = to.type
            slots, _ = self.dispatch([value], lambda ts, xs: (t, self.put(xs[0], ts[0], t, node)))
            value = Num(slots, value.py, data=value.data)
        v = self.as_vec(value, node)
        t = to.type
        region = self._spans(to)
        self.refuse_if(len(v.dims) > len(to.dims), node, "a matrix stored in a vector")
        self._fits(v, region, node)
        if t not in FLOATS and v.type != t and v.dims:
            self.require_python(node)
        if to.buf in v.bufs:  # numpy evaluates the right side completely before it stores
            copied = self._materialised(v, False)
            v = replace(v, item=lambda k: f"{copied.buf}[{k}]")
        k = self.new("i")
        with self.under(f"for {k} in range({region.n}):"):
            x = self.put(v.item(k), v.type, t, node)
            place = f"np.uintp({self._nth(to, k)})"
            self.emit(f"{to.buf}[{place}] = {self._stored(to, x)}")
            if to.mark:
                self.emit(f"m_{to.buf}[{place}] {self._marks(t)}")
        self.emit(None, f"{to.py}[...] = {v.py}")
        if to.mark:
            self.emit(None, f"{to.mark}[...] {self._marks(t)}")
        self.spend_on_all("stores", region, BEYOND if to.local else "", t)
        self.end_loop()

    def reduced(self, f: Any, value: Any, node: ast.AST) -> Num:
        """Return np.sum, np.any and the like of a whole region, as a number.

        Floats are reduced by numpy's own loop, which sums pairwise.
        """
        v = self.as_vec(value, node)
        ufunc = REDUCTIONS[f]
        if not v.dims:
            self.refuse(node, f"np.{f.__name__}() of a number")
        py = f"np.{f.__name__}({v.py})"
        letter = np.dtype(v.type).char
        t = kind_of(f(np.ones(2, v.type))[()])
        self.spend_on_all("vec", v, FUSED if f is np.sum and v.product else ufunc.__name__, v.type)
        self.end_loop()
        begin, step = REDUCED[ufunc.__name__]
        if not begin:
            self.bail(f"{v.n} == 0", node)
        is_float_loop = v.type in FLOATS and t == v.type
        is_half = v.type == "f2"
        # a local array of halves contains singles
        is_local_half = is_half and is_float_loop and (isinstance(value, Vec) or value.local)
        if len(v.dims) > 1 or self.multi or is_local_half or "u8" in (t, v.type):
            self.require_python(node)
            return Num({t: ZERO[SLOT[t]]}, py, data=True, bound=reach([t]))
        if not is_float_loop:
            total = self.named(begin or v.item("0"))
            k = self.new("i")
            with self.under(f"for {k} in range({v.n}):"):
                self.emit(f"{total} = {step.format(total, v.item(k))}")
            return Num({t: total}, py, data=True, bound=reach([t]))
        a = value if isinstance(value, Arr) else self._materialised(v, False)
        (n, s) = a.dims[0]
        first = {"np.int64(0)": "0", "np.int64(1)": "1"}.get(begin)
        at = a.off
        if first is None:
            start = f"{a.buf}[{at}]"
            at = f"{at} + {s}"
            n = f"{n} - 1"
        elif is_half:
            start = f"np.uint16({15360 * int(first)})"  # 15360: the bits of 1.0
        else:
            start = f"np.{dtype_of(t).name}({first})"
        call = (
            f"reduce_loop({self.loop_at(ufunc, f'{letter}{letter}->{letter}')}, {a.buf}, {at}, "
            f"{n}, {s}, {start})"
        )
        return Num({t: self.named(f"half_value({call})" if is_half else call)}, py, data=True)

    def product(self, a: Any, b: Any, form: str, node: ast.AST) -> Any:
        """Return a @ b of vectors and matrices, computed by numpy's own loop."""
        x, y = self.as_vec(a, node, OF_PRODUCT), self.as_vec(b, node, OF_PRODUCT)
        self.refuse_if(not x.dims or not y.dims, node, "@ of a number")
        t = self.type_of(operator.mul, [x.type, y.type], node)
        py = form.format(x.py, y.py)
        dims = (*x.dims[:-1], *y.dims[1:])
        name = self.new("a")
        self.emit(None, f"{name} = {py}")
        result = Vec(dims, t, lambda k: "", name, size=f"np.size({name})")
        for v, field in ((x, a), (y, b)):
            # a vector field is read again for each number of the result
            if dims and len(v.dims) == 1 and isinstance(field, Arr) and not field.local:
                self.spend_on_all(
                    "loads",
                    v,
                    OF_PRODUCT,
                    v.type,
                    (f"({result.n} - 1) * ", f"({result.size} - 1) * "),
                )
        inner = Vec(
            x.dims[-1:], t, x.item, x.py, size=f"{x.py}.shape[-1]" if len(x.dims) > 1 else x.size
        )
        self.spend_on_all(
            "vec", inner, PRODUCT, t, (f"{result.n} * ", f"{result.size} * ") if dims else ("", "")
        )
        self.end_loop(result if dims else None)
        self.temporaries[name] = self.loops_over
        letter = np.dtype(t).char
        has_loop = (
            f"{letter}{letter}->{letter}" in np.matmul.types
            and t == x.type == y.type
            and t not in ("f2", "b1")
        )
        if not has_loop or self.multi or (form != "({} @ {})" and dims):
            self.require_python(node)
        else:
            left, right = (
                q if isinstance(q, Arr) else self._materialised(v, False)
                for q, v in ((a, x), (b, y))
            )
            loop = self.loop_at(np.matmul, f"{letter}{letter}->{letter}")
            n = self.named(x.dims[-1])
            m, p = ((*dims, "1", "1") if len(x.dims) > 1 else ("1", *dims, "1"))[:2]
            self.bail(f"{n} != {y.dims[0]} or {m} * {n} * {p} == 0", node)
            xs = [s for _, s in left.dims]
            ys = [s for _, s in right.dims]
            steps = ", ".join(
                (*(xs if len(xs) > 1 else (n, *xs)), *(ys if len(ys) > 1 else (*ys, "1")), p)
            )
            self.empty(name, f"{m} * {p}", t)
            at = f"{left.buf}, {left.off}, {right.buf}, {right.off}, {name}"
            self.emit(f"product_loop({loop}, {at}, {m}, {n}, {p}, {steps})")
        if not dims:
            return Num({t: self.named(f"{name}[0]")}, name, data=True, bound=reach([t]))
        return Arr(name, t, tuple(zip(dims, (*dims[1:], "1"), strict=True)), "0", name, local=True)

    def by_numpy(self, f: Any, args: list[Any], named: dict[str, Any], node: ast.AST) -> Any:
        """Return the result of a numpy function of arrays that only CPython's text can call.

        The functions in DENSE are compiled too.
        """
        args = [self.as_vec(a, node) for a in args] if f in DENSE else args
        positional = [self._sample(a, node) for a in args]
        keywords = {k: self._sample(a, node) for k, a in named.items()}
        try:
            with np.errstate(all="ignore"):
                sample = f(*(x for _, x in positional), **{k: x for k, (_, x) in keywords.items()})
                sample = sample[0] if f is np.linalg.qr and not named else sample
        except Exception as error:
            self.refuse(node, str(error))
        text = ", ".join(
            [*(x for x, _ in positional), *(f"{k}={x}" for k, (x, _) in keywords.items())]
        )
        prefix = "np.linalg." if getattr(f, "__module__", "") == "numpy.linalg" else "np."
        name = self.new("a")
        t = sample.dtype.str[1:] if isinstance(sample, np.ndarray) else kind_of(sample)
        if t not in SAMPLES:
            self.refuse(node, f"{prefix}{f.__name__}()")
        if f not in DENSE or named:
            self.require_python(node)
        if f is np.linalg.qr:
            return self._factors(args[0], t, node)
        if f in DENSE:
            return self._dense(f, args, name, t, node)
        self.emit(None, f"{name} = {prefix}{f.__name__}({text})")
        sizes = [f"np.size({a.py})" for a in args if isinstance(a, (Arr, Vec))]
        longest = Vec(
            ("1",),
            t,
            lambda k: "",
            "",
            size=f"max({', '.join(sizes)})" if len(sizes) > 1 else "".join(sizes),
        )
        if not sizes:
            self.priced(f.__name__, {t: ""}, any(isinstance(a, Num) and a.data for a in args))
        else:
            has_price = f in ELEMENTWISE or isinstance(f, np.ufunc)  # has a price of its own
            self.spend_on_all("vec", longest, f.__name__ if has_price else "each", t)
        if sizes:
            self.end_loop()
        self.temporaries[name] = self.loops_over
        if isinstance(sample, np.ndarray) and sample.ndim:
            return Arr(name, t, (("-1", "1"),) * sample.ndim, "0", name, local=True)
        return Num({t: ZERO[SLOT[t]]}, name, data=True, bound=reach([t]))

    def _dense(self, f: Any, operands: list[Vec], name: str, t: str, node: ast.AST) -> Any:
        """Return the result of a function of a matrix, with its price.

        `name` is the result in CPython's text. The compiled text calls numpy's own loop, which
        works in doubles.
        """
        self.emit(None, f"{name} = {self._noting_call(f)}, {', '.join(v.py for v in operands)})")
        (n, width) = operands[0].dims
        last = operands[-1]
        dims = () if f is np.linalg.det else last.dims
        rows = Vec((n,), t, lambda k: "", "", size=f"len({operands[0].py})")
        self.spend_on_all("vec", rows, f.__name__, t)
        if f in (np.linalg.inv, np.linalg.solve):
            many = ("", "") if len(dims) < 2 else (f"{dims[1]} * ", f"{last.py}.shape[1] * ")
            self.spend_on_all("vec", rows, COLUMN, t, many)
        self.end_loop()
        self.bail(f"{n} == 0 or {width} != {n} or {last.dims[0]} != {n}", node)
        buffers = [self._converted_copy(v, "f8", node) for v in operands]
        self._bail_if_unsuitable(f, buffers[0], n, n, node)
        ends = ", ".join(f"{a}, 0" for a in buffers)
        out = self.new("a")
        (m, p) = (*dims, "1", "1")[:2]
        self.empty(out, f"{m} * {p}", "f8")
        loop = self.loop_at(DENSE[f], f"{'d' * len(operands)}->d")
        if len(operands) == 1:
            self.emit(f"matrix_loop({loop}, {ends}, {out}, {n}, {n})")
        else:
            self.emit(f"product_loop({loop}, {ends}, {out}, {n}, {p}, {p}, {n}, 1, {p}, 1, {p})")
        if self.multi:
            self.require_python(node)
        if not dims:
            x = self.named(self.convert(f"{out}[0]", "f8", t, node))
            return Num({t: x}, name, data=True)
        # numpy raises an error, or an argument contains a NaN
        self.bail(f"{out}[0] != {out}[0]", node)
        return self._result_array(Vec(dims, "f8", lambda k: f"{out}[{k}]", name), t, node)

    def _factors(self, a: Vec, t: str, node: ast.AST) -> Factors:
        """Return the factors of np.linalg.qr.

        numpy's first loop leaves R in the upper triangle of the matrix, and below it the vectors
        from which the second loop computes Q.
        """
        (m, n) = a.dims
        q = self.new("a")
        r = self.new("a")
        out = self.new("a")
        self.emit(None, f"{q}, {r} = {self._noting_call(np.linalg.qr)}, {a.py})")
        k = self.named(f"min({m}, {n})")
        for name, nb, py in (
            ("qr", "", ""),
            (TALL, f"max(0, {m} - {n}) * ", "max(0, {0}[0] - {0}[1]) * "),
            (WIDE, f"max(0, {n} - {m}) * ", "max(0, {0}[1] - {0}[0]) * "),
        ):
            square = Vec((k,), t, lambda _: "", "", size=f"min({a.py}.shape)")
            self.spend_on_all("vec", square, name, t, (nb, py.format(f"{a.py}.shape")))
        self.end_loop()
        self.bail(f"{k} == 0", node)
        packed = self._converted_copy(a, "f8", node)
        scales = self.new("a")
        raw = "qr_r_raw"
        self._bail_if_unsuitable(np.linalg.qr, packed, m, n, node)
        self.empty(scales, f"{k} * {n}", "f8")
        self.empty(out, f"{m} * {k}", "f8")
        first = self.loop_at(getattr(LAPACK, raw, None) or getattr(LAPACK, f"{raw}_m"), "d->d")
        self.emit(f"matrix_loop({first}, {packed}, 0, {scales}, {m}, {n})")
        sides = f"{packed}, 0, {scales}, 0, {out}"
        second = self.loop_at(DENSE[np.linalg.qr], "dd->d")
        self.emit(f"product_loop({second}, {sides}, {m}, {n}, {k}, {n}, 1, {n}, {k}, 1)")
        if self.multi:
            self.require_python(node)

        def upper(e: str) -> str:
            return f"({packed}[{e}] if {e} % {n} >= {e} // {n} else 0.0)"

        left = (m, k)
        right = (k, n)
        return Factors(
            self._result_array(Vec(*factor), t, node)
            for factor in ((left, "f8", lambda e: f"{out}[{e}]", q), (right, "f8", upper, r))
        )

    def _noting_call(self, f: Any) -> str:
        """Return the beginning of a call in CPython's text that notes a fault of the matrix."""
        return f"call_noting(np.linalg.{f.__name__}, {place(self.codelet, self.line)!r}"

    def _bail_if_unsuitable(self, f: Any, buf: str, m: str, n: str, node: ast.AST) -> None:
        """Leave the compiled text at a matrix with a fault, so that CPython's text can note it."""
        k = self.new("i")
        fault = "{0}[{1}] != {0}[{1}]"
        if f is np.linalg.cholesky:
            fault = (
                "not abs({0}[{1}] - {0}[{1} % {2} * {2} + {1} // {2}]) <= {3} * np.sqrt(abs("
                "{0}[{1} // {2} * ({2} + 1)] * {0}[{1} % {2} * ({2} + 1)]))"
            )
        with self.under(f"for {k} in range({m} * {n}):"):
            self.bail(fault.format(buf, k, n, ASYMMETRY), node)

    def _result_array(self, v: Vec, t: str, node: ast.AST) -> Arr:
        """Return the result of one of numpy's loops as an array; it is `v.py` in CPython's text."""
        self.temporaries[v.py] = self.loops_over
        steps = (*v.dims[1:], "1")
        dims = tuple(zip(v.dims, steps, strict=True))
        return Arr(self._converted_copy(v, t, node), t, dims, "0", v.py, local=True)

    def _converted_copy(self, v: Vec, to: str, node: ast.AST) -> str:
        """Return the name of a new array in the compiled text, with elements of type `to`."""

        def item(k: str) -> str:
            return self.convert(v.item(k), v.type, to, node)

        return self._materialised(replace(v, type=to, item=item), False).buf

    def _sample(self, value: Any, node: ast.AST) -> tuple[str, Any]:
        """Return (CPython's text of an argument, a sample of its type)."""
        if isinstance(value, (Arr, Vec)):
            v = self.as_vec(value, node)
            return v.py, (np.eye(3) if len(v.dims) == 2 else np.ones(3)).astype(dtype_of(v.type))
        if isinstance(value, Num):
            return value.py, SAMPLES[next(iter(value.alts))] if value.const is None else value.const
        if isinstance(value, list):
            texts, samples = zip(*(self._sample(item, node) for item in value), strict=True)
            return f"({', '.join(texts)},)", samples
        if isinstance(value, StaticValue) and isinstance(value.value, (str, type)):
            known = value.value
            return numpys(np.dtype(known)) if isinstance(known, type) else repr(known), known
        self.refuse(node, "this argument")

    def end_loop(self, result: Vec | None = None) -> None:
        """Count the end of a loop over vectors; with `each`, one loop per element of a result."""
        self.spend_on_all("vec", result, LOOP, result.type) if result is not None else self.spend(
            LOOP
        )
        self.loops_over += 1
        self.loaded.clear()


def nested(texts: list[str], shape: tuple[int, ...], brackets: str = "()") -> str:
    """Return the text of nested tuples of this shape, or of other brackets."""
    size = len(texts) // shape[0]
    parts = texts
    if len(shape) > 1:
        parts = [
            nested(texts[k * size : k * size + size], shape[1:], brackets) for k in range(shape[0])
        ]
    return f"{brackets[0]}{', '.join(parts)},{brackets[1]}"
