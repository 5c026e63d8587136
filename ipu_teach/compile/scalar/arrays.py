"""Complete arrays in a scalar loop: operators, functions, stores, reductions and products."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.arithmetic import BINARY, POWERS
from ipu_teach.compile.scalar.kinds import (
    FLOATS,
    SAMPLES,
    SLOT,
    ZERO,
    dtype_of,
    kind_of,
    reach,
)
from ipu_teach.compile.scalar.regions import Regions
from ipu_teach.compile.scalar.values import (
    Arr,
    Num,
    StaticValue,
    Value,
    Vec,
)
from ipu_teach.compile.scalar.writer import (
    AGAIN,
    BEYOND,
    FUSED,
    LOOP,
    OF_PRODUCT,
    PRODUCT,
    Make,
)
from ipu_teach.compile.trace import REDUCTIONS

# By numpy's reduction: its initial value, and the text that adds one number. A reduction without an
# initial value starts with the first number.
REDUCED = {
    "add": ("np.int64(0)", "{} + np.int64({})"),
    "multiply": ("np.int64(1)", "{} * np.int64({})"),
    "maximum": ("", "np_max({}, {})"),
    "minimum": ("", "np_min({}, {})"),
    "logical_or": ("False", "{} or {} != 0"),
    "logical_and": ("True", "{} and {} != 0"),
}


class Arrays(Regions):
    """Statements over all elements of arrays."""

    def as_vec(self, a: Value, node: ast.AST, load: str = "") -> Vec:
        """Return an operand of a statement over complete regions.

        `load` is the name of the price of its load. By default, it is AGAIN if the current loop has
        already loaded the region.
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
            tuple(n for n, _ in a.dims),
            a.type,
            lambda k: "",
            py=a.py,
            bufs=frozenset([a.buf]),
            size=size,
        )

    @staticmethod
    def _nth(array: Arr, k: str) -> str:
        """Return the offset of element k of a vector or matrix, in row-major order."""
        if len(array.dims) == 1:
            return f"{array.off} + {k} * {array.dims[0][1]}"
        (_, s), (n, t) = array.dims
        return f"{array.off} + {k} // {n} * {s} + {k} % {n} * {t}"

    def vector(self, kind: type, a: Value, b: Value, node: ast.AST) -> Vec:
        """Return the result of an operator on complete regions.

        It is computed where it is stored. Except for powers, IEEE fixes the bits of each element.
        """
        sign, fn, name = BINARY[kind]
        a, b = (
            self._as_one_type(a, b, fn, is_right_operand=False, node=node),
            self._as_one_type(b, a, fn, is_right_operand=True, node=node),
        )
        make = self.arith(
            "*" if sign == "**" else sign, fn, node, const=[None, None], bounds=[None, None]
        )
        if sign == "**" and isinstance(b, Num) and b.const == 2:
            return self.mapped(
                np.square,
                [a],
                make=lambda ts, xs: make(ts * 2, xs * 2),
                name="square",
                form="({} ** 2)",
                node=node,
            )
        power = POWERS.get(b.const, name) if sign == "**" and isinstance(b, Num) else name
        return self.mapped(
            fn,
            [a, b],
            make=make if sign != "**" else None,
            name=power,
            form="({} " + sign + " {})",
            node=node,
        )

    def mapped(
        self,
        f: Function,
        args: Sequence[Value],
        make: Make | None,
        name: str,
        form: str,
        node: ast.AST,
    ) -> Vec:
        """Return the result of a function of numbers, applied to complete regions.

        `form` is a format of CPython's text. If `make` is None, the compiled text cannot compute
        the function.
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
            py=py,
            bufs=bufs,
            size=longest.size,
            product=product,
            scaled=product and not all(v.dims for v in parts),
        )

    def _fits(self, v: Vec, to: Vec, node: ast.AST) -> None:
        """Check that two shapes are equal. Broadcasting is left to numpy."""
        if v.dims and len(v.dims) < len(to.dims):
            self.require_python(node)
        for n, m in zip(v.dims, to.dims, strict=False):
            if n != m:
                self.bail(f"{n} != {m}", node)

    def _as_one_type(
        self, a: Value, other: Value, fn: Function, is_right_operand: bool, node: ast.AST
    ) -> Value:
        """Return a number of several types as the one type that it takes next to an array.

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
        slots, _ = self.dispatch([a], self.converting(r, node))
        return Num(slots, a.py, data=a.data)

    def fill(self, to: Arr, value: Value, node: ast.AST) -> None:
        """Store a value in a complete region."""
        if not to.writable:
            self._read_only(to, node)
        self.refuse_if(to.rows or to.box, node, "this assignment to a list", "a loop")
        if isinstance(value, Num) and len(value.alts) > 1:
            t = to.type
            slots, _ = self.dispatch([value], self.storing(t, node))
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

    def reduced(self, f: Function, value: Any, node: ast.AST) -> Num:
        """Return np.sum, np.any or another reduction of a complete region, as a number.

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
        # elements of a local array of halves are stored as singles
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

    def product(self, a: Value, b: Value, form: str, node: ast.AST) -> Num | Arr:
        """Return a @ b of vectors and matrices, computed by numpy's own loop."""
        x = self.as_vec(a, node, OF_PRODUCT)
        y = self.as_vec(b, node, OF_PRODUCT)
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
                    times=(f"({result.n} - 1) * ", f"({result.size} - 1) * "),
                )
        inner = Vec(
            x.dims[-1:], t, x.item, x.py, size=f"{x.py}.shape[-1]" if len(x.dims) > 1 else x.size
        )
        self.spend_on_all(
            "vec",
            inner,
            PRODUCT,
            t,
            times=(f"{result.n} * ", f"{result.size} * ") if dims else ("", ""),
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
            self._emit_product((x, left), (y, right), name, t, node)
        if not dims:
            return Num({t: self.named(f"{name}[0]")}, name, data=True, bound=reach([t]))
        return Arr(
            name,
            t,
            dims=tuple(zip(dims, (*dims[1:], "1"), strict=True)),
            off="0",
            py=name,
            local=True,
        )

    def _emit_product(
        self, left: tuple[Vec, Arr], right: tuple[Vec, Arr], name: str, t: str, node: ast.AST
    ) -> None:
        """Write the call of numpy's loop for a product of type `t` into the new array `name`."""
        (x, a) = left
        (y, b) = right
        letter = np.dtype(t).char
        loop = self.loop_at(np.matmul, f"{letter}{letter}->{letter}")
        n = self.named(x.dims[-1])
        dims = (*x.dims[:-1], *y.dims[1:])
        m, p = ((*dims, "1", "1") if len(x.dims) > 1 else ("1", *dims, "1"))[:2]
        self.bail(f"{n} != {y.dims[0]} or {m} * {n} * {p} == 0", node)
        xs = [s for _, s in a.dims]
        ys = [s for _, s in b.dims]
        steps = ", ".join(
            (*(xs if len(xs) > 1 else (n, *xs)), *(ys if len(ys) > 1 else (*ys, "1")), p)
        )
        self.empty(name, f"{m} * {p}", t)
        ends = f"{a.buf}, {a.off}, {b.buf}, {b.off}, {name}"
        self.emit(f"product_loop({loop}, {ends}, {m}, {n}, {p}, {steps})")

    def end_loop(self, result: Vec | None = None) -> None:
        """Count the end of a loop over vectors. With `result`, count one loop per element of it."""
        if result is None:
            self.spend(LOOP)
        else:
            self.spend_on_all("vec", result, LOOP, result.type)
        self.loops_over += 1
        self.loaded.clear()
