"""Elements, rows and slices of arrays in a scalar loop, and tables of constants."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from ipu_teach.compile.scalar.kinds import (
    CODES,
    FLOATS,
    INTS,
    SLOT,
    ZERO,
    is_number,
    numpys,
    reach,
)
from ipu_teach.compile.scalar.operations import Block, Finish, Leave, Line
from ipu_teach.compile.scalar.values import (
    LENGTH,
    Arr,
    ConstantTable,
    Fixed,
    Known,
    Num,
    Value,
    Vec,
)
from ipu_teach.compile.scalar.variable_walk import VariableWalk
from ipu_teach.compile.scalar.writer import (
    WORD,
)
from ipu_teach.graph.vector_layout import VectorLayout
from ipu_teach.graph.vertex import Field
from ipu_teach.types import Array

# By the size of an element in bytes: its mark after a store, with the lowest bit of each byte set.
MARKS = {1: 1, 2: 0x0101, 4: 0x01010101, 8: 0x0101010101010101}
MOST_NUMBERS = 1 << 12  # the maximum size of a table of constants


class Regions(VariableWalk):
    """Fields, local arrays and tables, and the parts of them that an index selects."""

    def region(self, name: str, declared: Field) -> Arr:
        """Return the array of a field."""
        dims = tuple((Fixed(f"f_{name}_n{k}"), f"f_{name}_s{k}") for k in range(declared.depth))
        mark = (
            f"m_f_{name}" if declared.kind == "output" or (self.multi and declared.written) else ""
        )
        readable = declared.kind != "output" or declared.depth > 0
        sized = VectorLayout.ONE_PTR not in declared.layouts[:1]
        rows = f"f_{name}_t" if name in self.lists else ""
        # a constant of the vertex, on which work costs nothing
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
        """Return the numbers of an index that selects a single element.

        Return None for a row, a slice or a vector of a list. Raises `Refused` for any other index.
        """
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
        """Return the compiled text of an index, counted from the front and range-checked.

        `n` is the text of the length of the axis.
        """
        key = self.not_none(key)
        self.refuse_if(
            not set(key.alts) <= INTS,
            node,
            "an index that is not a whole number",
            "int(…) around it",
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

        The index is `counter` + `extra`, on an axis of length `n`. A compiler can then vectorise
        the loop. This is possible only if every iteration reaches the index: otherwise, a vertex
        could return to CPython, which is slow, because of an element that it never accesses.
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

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            return "i8", f"np.int64({xs[0]})" if ts[0] == "u8" else xs[0]

        return self.dispatch([a], make)[0]["i8"]

    def _element_text(self, array: Arr, at: str) -> str:
        """Return the compiled text of an element of a buffer, in the type used for calculations."""
        # The index is unsigned, because numba wraps negative indices around.
        raw = f"{array.buf}[np.uintp({at})]"
        if array.type == "f2" and not array.local:
            return f"half_value({raw})"
        return f"np.int64({raw})" if array.type in INTS and array.type != "u8" else raw

    def load(self, array: Arr, keys: list[Num], node: ast.AST) -> Num:
        """Return an element of an array, and write the code that reads it."""
        if not array.readable:
            self.refuse(
                node,
                f"reading the Output {array.buf[2:]}",
                "an InOut, or a local variable that is assigned once",
            )
        at = self.place(array, keys, node)
        data = not array.free or any(k.data for k in keys)
        key = ("][" if array.box else ", ").join(k.py for k in keys) or "()"
        self.spend(data=data)
        if array.box:
            table = self.tables.get(array.box)
            types = sorted(self.boxes[array.box])
            if not types:  # no number has been stored in the list so far
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
        is_preloaded = not keys and not array.writable  # a scalar field is read before the loop
        name = (
            Fixed(f"{array.buf}_v") if is_preloaded else self.named(self._element_text(array, at))
        )
        if self.multi and array.mark:
            self.emit(f"r_{array.buf}[np.uintp({at})] |= wbit", f"r_{array.mark}[{key}] |= wbit")
        py = array.py if is_preloaded else f"{array.py}[{key}]"
        return Num({array.type: name}, py, data=data, bound=reach([array.type]))

    def write(self, array: Arr, keys: list[Num], value: Any, node: ast.AST) -> None:
        """Store a number in an element."""
        self.refuse_if(not isinstance(value, Num), node, "what is stored is not a single number")
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
        # Memory is written in words, so smaller stores take more instructions.
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
        slots, _ = self.dispatch([value], self.storing(t, node))
        self.emit(f"{array.buf}[{at}] = {self._stored(array, slots[t])}")
        if array.mark:
            marking = self._marks(t)
            self.emit(f"m_{array.buf}[{at}] {marking}", f"{array.mark}[{key}] {marking}")

    def _marks(self, t: str) -> str:
        """Return the text of the change that a store makes to a mark."""
        return "|= wbit" if self.multi else f"= {MARKS[int(t[1])]}"

    def _stored(self, array: Arr, x: str) -> str:
        """Return the compiled text of a number in the form in which the buffer stores it."""
        return f"half_bits({x})" if array.type == "f2" and not array.local else x

    # Rows and slices

    def view(self, owner: Arr, index: ast.expr, node: ast.AST) -> Arr:
        """Return the rows, slices, or both that an index selects."""
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
        return self.part(owner, off, first, dims=(*dims, *rest), key=f"[{', '.join(texts)}]")

    @staticmethod
    def offset_of(owner: Arr, off: str, first: str, step: str) -> str:
        """Return the offset of item `first` of an axis.

        A list of vectors has a table of offsets.
        """
        if owner.rows:
            return f"{off} + dims[{owner.rows} + 2 * {first}]"
        return f"{off} + {first} * {step}"

    def part(
        self, owner: Arr, off: str, first: str, dims: tuple[tuple[str, str], ...], key: str
    ) -> Arr:
        """Return the array at offset `off`, which is owner[key] in CPython's text.

        For a list of vectors, it is vector number `first`, whose length is in the table.
        """
        if owner.rows:
            dims = ((self.named(f"dims[{owner.rows} + 2 * {first} + 1]"), "1"),)
        mark = owner.mark and owner.mark + key
        return replace(owner, dims=dims, off=self.named(off), py=owner.py + key, mark=mark, rows="")

    def reshaped(self, owner: Any, *shape: Value, node: ast.expr) -> Arr:
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
            self.refuse(node, "an assignment to a table", "an InOut")
        if field is not None and field.written:
            self.refuse(node, f"an assignment to {field.name}.reshape()", "its elements")
        self.refuse(node, f"an assignment to the Input {array.buf[2:]}", "an InOut")

    def _slice(self, part: ast.Slice, n: str, node: ast.AST) -> tuple[str, str, str, str]:
        """Return (first index, number of items, step, CPython's text) of first:last:step.

        `n` is the text of the length of the axis.
        """
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

    def table(self, value: Sequence[object] | Array, node: ast.AST) -> Arr:
        """Return the array of numbers that are known in advance.

        `value` is a list, tuple or array of the codelet or its module, or a literal.
        """
        numbers = value if isinstance(value, np.ndarray) else np.array(value, object)
        is_list = numbers.dtype == object
        values = numbers.reshape(-1).tolist() if is_list else list(numbers.reshape(-1))
        if not 0 < len(values) <= MOST_NUMBERS or not all(map(is_number, values)) or None in values:
            self.refuse(node, "this list of constants")
        constants = [self.constant(x) for x in values]
        py = nested_text([x.py for x in constants], numbers.shape)
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
        return Arr(
            name, "?", dims=dims, off="0", py=name, writable=False, local=True, box=name, free=True
        )


def nested_text(texts: list[str], shape: tuple[int, ...], brackets: str = "()") -> str:
    """Return the text of nested tuples of this shape, or of other brackets."""
    size = len(texts) // shape[0]
    parts = texts
    if len(shape) > 1:
        parts = [
            nested_text(texts[k * size : k * size + size], shape[1:], brackets)
            for k in range(shape[0])
        ]
    return f"{brackets[0]}{', '.join(parts)},{brackets[1]}"
