"""Operators on numbers: result types by numpy's rules, exact arithmetic in the compiled text."""

from __future__ import annotations

import ast
import operator
from typing import Any

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.kinds import (
    BOOLS,
    FLOATS,
    INTS,
    SAMPLES,
    WEAK,
    dtype_of,
    is_number,
    kind_of,
    numpys,
    reach,
)
from ipu_teach.compile.scalar.values import LIMIT, Constant, Known, Num, Refused, StaticValue
from ipu_teach.compile.scalar.writer import FUSED, Make, Writer

# By operator: its sign, its function of Python's numbers, and numpy's name for it.
BINARY: dict[type, tuple[str, Function, str]] = {
    ast.Add: ("+", operator.add, "add"),
    ast.Sub: ("-", operator.sub, "subtract"),
    ast.Mult: ("*", operator.mul, "multiply"),
    ast.Div: ("/", operator.truediv, "divide"),
    ast.FloorDiv: ("//", operator.floordiv, "floor_divide"),
    ast.Mod: ("%", operator.mod, "remainder"),
    ast.Pow: ("**", operator.pow, "power"),
    ast.LShift: ("<<", operator.lshift, "left_shift"),
    ast.RShift: (">>", operator.rshift, "right_shift"),
    ast.BitAnd: ("&", operator.and_, "bitwise_and"),
    ast.BitOr: ("|", operator.or_, "bitwise_or"),
    ast.BitXor: ("^", operator.xor, "bitwise_xor"),
    ast.Lt: ("<", operator.lt, "less"),
    ast.LtE: ("<=", operator.le, "less_equal"),
    ast.Gt: (">", operator.gt, "greater"),
    ast.GtE: (">=", operator.ge, "greater_equal"),
    ast.Eq: ("==", operator.eq, "equal"),
    ast.NotEq: ("!=", operator.ne, "not_equal"),
}
UNARY: dict[type, tuple[str, Function, str]] = {
    ast.USub: ("-", operator.neg, "negative"),
    ast.UAdd: ("+", operator.pos, "positive"),
    ast.Invert: ("~", operator.invert, "invert"),
}
COMPARE = frozenset(("<", "<=", ">", ">=", "==", "!="))
POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
_DIVISION = {"//": "floordiv", "%": "mod"}
_SINGLE = ("f4", "f8", "wf")  # FLOAT, and the types that would be FLOAT in a C++ codelet
_NOT_FINITE = {"inf": "np.inf", "-inf": "(-np.inf)", "nan": "np.nan"}


class Arithmetic(Writer):
    """Binary and unary operators, conversions, and the rounding of stores."""

    def convert(self, text: str, t: str, to: str, node: ast.AST) -> str:
        """Return `text`, a number of type `t`, as an operand of a calculation in type `to`."""
        if t == to:
            return text
        if to in FLOATS:
            if t in FLOATS and t in ("f2", "f4"):
                if to == "f4":
                    return text
                if to == "f2":
                    return f"to_half(np.float64({text}))"
                return f"np.float64({text})"
            if t == "wi" and not isinstance(text, Known):
                self.bail(f"abs({text}) > {2**53}", node)
            wide = text if t in FLOATS else f"np.float64({text})"
            return {"f4": f"np.float32({wide})", "f2": f"to_half({wide})"}.get(to, wide)
        if to in BOOLS:
            return text if t in BOOLS else f"({text} != 0)"
        if t in BOOLS:
            return f"np.uint64({text})" if to == "u8" else f"np.int64({text})"
        if t == "wi" and to != "i8":
            low = np.iinfo(to).min
            high = np.iinfo(to).max
            if not isinstance(text, Known):
                self.bail(f"{text} < {low} or {text} > {min(high, LIMIT)}", node)
            elif not low <= int(text) <= high:
                self.bail("True", node)
                return "np.uint64(0)" if to == "u8" else "np.int64(0)"
        return f"np.uint64({text})" if to == "u8" else text

    def wrapped(self, text: str, t: str) -> str:
        """Return the text of a calculation, rounded or wrapped to type `t`."""
        if t in ("f4", "f8", "wf", "i8", "u8", "b1", "wb"):
            return f"np.float32({text})" if t == "f4" else text
        if t == "f2":
            return f"to_half(np.float64({text}))"
        return f"wrap({text}, {8 * int(t[1])}, {t[0] == 'i'})"

    def put(self, x: str, t: str, to: str, node: ast.AST) -> str:
        """Return the text of number `x` of type `t` as an element of type `to`.

        The number is converted as by an assignment in numpy. A value that does not fit is left to
        the plain loop.
        """
        if to in FLOATS or to in BOOLS:
            return self.convert(x, t, to, node)
        if t in FLOATS:
            if to[0] == "u":  # processors differ for values that do not fit
                self.bail(f"not ({x} > -1 and {x} < {2.0 ** min(8 * int(to[1]), 61)})", node)
            else:
                self.bail(
                    f"not (abs({x}) < 4e18)" if to in ("wi", "i8") else f"not (abs({x}) < 9e15)",
                    node,
                )
            x = self.named(f"np.int64({x})")
            t = "wi" if t == "wf" or to == "wi" else "i8"
        if to == "wi":
            if t in ("i8", "u8"):
                self.bail(
                    f"{x} > {LIMIT} or {x} < {-LIMIT}"
                    if t == "i8"
                    else f"{x} > np.uint64({LIMIT})",
                    node,
                )
            return f"np.int64({x})"
        if t == to:
            return x
        if to[0] == "u" and t not in WEAK:
            if to == "u8":
                return f"np.uint64({x})"
            return f"({'np.int64' if t == 'u8' else ''}({x}) & {2 ** (8 * int(to[1])) - 1})"
        if t in BOOLS:
            return self.convert(x, t, to, node)
        low = np.iinfo(to).min
        high = np.iinfo(to).max
        if t == "u8" or to == "u8":
            self.bail(f"{x} > np.uint64({min(high, LIMIT)})" if t == "u8" else f"{x} < 0", node)
            return f"np.uint64({x})" if to == "u8" else f"np.int64({x})"
        if to != "i8" and (t in WEAK or not np.can_cast(t, to)):
            if isinstance(x, Known) and low <= int(x) <= high:
                return x
            self.bail(f"{x} < {low} or {x} > {high}", node)
        return x

    def storing(self, t: str, node: ast.AST) -> Make:
        """Return a function for `dispatch` that stores a number in an element of type `t`."""

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            return t, self.put(xs[0], ts[0], t, node)

        return make

    def converting(self, t: str, node: ast.AST) -> Make:
        """Return a function for `dispatch` that uses a number as an operand of type `t`."""

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            return t, self.convert(xs[0], ts[0], t, node)

        return make

    def arith(
        self, op: str, fn: Function, node: ast.AST, const: list[Constant], bounds: list[int | None]
    ) -> Make:
        """Return a function for `dispatch` that computes an operator.

        `op` is the operator's sign, and `fn` its function. `const` and `bounds` contain the
        operands' constants and bounds, or None. The function returns (type of the result, text);
        the type is found by computing an example.
        """

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            known: list[str | Constant] = list(ts)
            if op == "**" and ts[1] in INTS and ts[0] in INTS | {"wb"}:
                if not isinstance(const[1], int):
                    self.bail(f"{xs[1]} < 0", node)
                elif const[1] < 0:
                    known[1] = const[1]
            r = self.type_of(fn, known, node)
            self.refuse_if(
                "u8" in ts and len(set(ts) - {"wi", "wb"}) > 1,
                node,
                "UNSIGNED_LONGLONG beside another type",
            )
            if op in COMPARE:
                return r, self._compared(op, ts, xs, node)
            a, b = (self.convert(x, t, r, node) for t, x in zip(ts, xs, strict=True))
            if r in FLOATS:
                return r, self._floats(op, r, a, b, node)
            if r in BOOLS:
                return r, {"+": f"({a} or {b})", "*": f"({a} and {b})"}.get(op, f"({a} {op} {b})")
            if r == "wi":
                return r, self._python_int(op, a, b, bounds, node)
            return r, self._integers(op, r, (a, b), ts, xs, node)

        return make

    def _compared(self, op: str, ts: list[str], xs: list[str], node: ast.AST) -> str:
        """Return the text of a comparison, in the common type of both sides."""
        c = self.type_of(operator.add, ts, node) if set(ts) != {"b1"} else "b1"
        c = "wi" if c in INTS and c != "u8" else c
        a, b = (
            x if c == "wi" and t in INTS else self.convert(x, t, c, node)
            for t, x in zip(ts, xs, strict=True)
        )
        return f"({a} {op} {b})"

    def _floats(self, op: str, r: str, a: str, b: str, node: ast.AST) -> str:
        """Return the text of an operator on floats of type `r`."""
        if r == "wf" and op in ("/", "//", "%"):
            self.bail(f"{b} == 0.0", node)
        if op in ("//", "%"):
            f = np.floor_divide if op == "//" else np.remainder
            return self.wrapped(self.by_loop(f, "f4" if r == "f2" else r, [a, b]), r)
        if op == "**" and r == "wf":
            self.bail(f"{a} < 0.0 or ({a} == 0.0 and {b} < 0.0)", node)
        return self.wrapped(f"({a} {op} {b})", r)

    def loop_at(self, ufunc: Function, types: str) -> str:
        """Return the text of the addresses of one of numpy's own loops and of its data.

        `types` are the loop's types, such as "ff->f".
        """
        if (ufunc, types) not in self.loops:
            self.loops.append((ufunc, types))
        k = 2 * self.loops.index((ufunc, types))
        return f"loops[{k}], loops[{k + 1}]"

    def by_loop(self, ufunc: Function, t: str, xs: list[str]) -> str:
        """Return source code that calls numpy's own loop for one or two elements of type `t`."""
        letter = dtype_of(t).char
        is_half = t == "f2"
        arguments = ", ".join(f"half_bits({x})" if is_half else x for x in xs)
        loop = self.loop_at(ufunc, f"{letter * len(xs)}->{letter}")
        call = f"call_loop{len(xs)}({loop}, {arguments})"
        return f"half_value({call})" if is_half else call

    def _integers(
        self, op: str, r: str, ab: tuple[str, str], ts: list[str], xs: list[str], node: ast.AST
    ) -> str:
        """Return the text of an operator on numpy's integers of type `r`, which wrap around.

        `ab` are the converted operands; `ts` and `xs` are the types and texts before the
        conversion.
        """
        (a, b) = ab
        bits = 8 * int(r[1])
        self.refuse_if(
            r == "u8" and op in ("//", "%", "**", "<<", ">>"), node, f"{op} of UNSIGNED_LONGLONG"
        )
        if op in ("//", "%"):
            return _by_power(op, a, b) or self.wrapped(
                f"({_DIVISION[op]}({a}, {b}) if {b} != 0 else 0)", r
            )
        if op in ("<<", ">>"):
            if ts[1] == "wi":
                a, b = xs
            return self.wrapped(f"shift({a}, {b}, {bits}, {op == '<<'})", r)
        if op == "**":
            return self.wrapped(f"ipow({a}, {b})", r)
        return self.wrapped(f"({a} {op} {b})", r) if op in "+-*" else f"({a} {op} {b})"

    def _python_int(self, op: str, a: str, b: str, bounds: list[int | None], node: ast.AST) -> str:
        """Return the text of an operator on Python's integers: int64 of at most 61 bits."""
        if op in ("//", "%"):
            self.bail(f"{b} == 0", node)
            return _by_power(op, a, b) or f"{_DIVISION[op]}({a}, {b})"
        if op in ("<<", ">>"):
            self.bail(f"{b} < 0 or {b} > {61 if op == '<<' else 63}", node)
            if op == ">>":
                return f"({a} >> {b})"
            self.bail(f"not product_fits({a}, 1 << {b})", node)
            return f"({a} << {b})"
        if op == "**":
            self.bail(f"np.float64(abs({a})) ** np.float64({b}) > 2.0**60", node)
            return f"ipow({a}, {b})"
        text = f"({a} {op} {b})"
        if op in ("&", "|", "^"):
            return text
        limits = [n for n in bounds if n is not None]
        if len(limits) == 2 and (sum(limits) if op != "*" else limits[0] * limits[1]) < LIMIT:
            return text
        if op == "*":
            self.bail(f"not product_fits({a}, {b})", node)
            return text
        name = self.named(text)
        self.bail(f"{name} > {LIMIT} or {name} < {-LIMIT}", node)
        return name

    def priced(self, name: str, types: dict[str, str], data: bool) -> None:
        """Count an operation by the type of its result: numpy's own type if there is one."""
        if data:
            self.spend(name, dtype_of(_strong(types)).name)

    def binary(self, kind: type, a: Num, b: Num, node: ast.AST) -> Num:
        """Return `a op b` of two numbers."""
        sign, fn, name = BINARY[kind]
        data = a.data or b.data
        if a.const is not None and b.const is not None and not data:
            try:
                with np.errstate(all="raise"):
                    return self.constant(fn(a.const, b.const))
            except (ArithmeticError, ValueError, TypeError, Refused):
                pass  # the error is raised at run time, if the operation is reached
        slots, tag = self.dispatch(
            [a, b], self.arith(sign, fn, node, const=[a.const, b.const], bounds=[a.bound, b.bound])
        )
        if name == "power":
            name = POWERS.get(b.const, "power")
        self.priced(
            FUSED if name in ("add", "subtract") and _of_product(node, a, b, slots) else name,
            slots,
            data,
        )
        affine = _affine(sign, a, b) if slots.keys() == {"wi"} else None
        return Num(
            slots,
            f"({a.py} {sign} {b.py})",
            tag,
            data,
            bound=_bound(sign, a.bound, b.bound, slots),
            affine=affine,
        )

    def unary(self, kind: type, a: Num, node: ast.AST) -> Num:
        """Return `-a`, `+a` or `~a` of a number."""
        sign, fn, name = UNARY[kind]
        if a.const is not None:
            return self.constant(fn(a.const))
        slots, tag = self.dispatch([a], self.signed(sign, fn, node))
        self.priced(name, slots, a.data)
        return Num(
            slots, f"({sign}{a.py})", tag, a.data, bound=None if a.bound is None else a.bound + 1
        )

    def signed(self, sign: str, fn: Function, node: ast.AST) -> Make:
        """Return the function that `dispatch` calls for a unary operator."""

        def make(ts: list[str], xs: list[str]) -> tuple[str, str]:
            r = self.type_of(fn, ts, node)
            if r in BOOLS:
                return r, f"(not {xs[0]})"
            if r in FLOATS | {"wi", "i8", "u8"}:
                return r, f"({sign}{self.convert(xs[0], ts[0], r, node)})"
            return r, self.wrapped(f"({sign}{self.convert(xs[0], ts[0], r, node)})", r)

        return make

    def truth(self, a: Num) -> str:
        """Return the compiled text of `bool(a)`."""

        def text(t: str, x: str) -> str:
            if t in BOOLS:
                return x
            return "False" if t == "no" else f"({x} != 0)"

        if len(a.alts) == 1:
            return text(*a.only)
        slots, _ = self.dispatch([a], lambda ts, xs: ("wb", text(ts[0], xs[0])), none=True)
        return slots["wb"]

    def known_ahead(self, value: object) -> Num | StaticValue:
        """Return a value from outside the learner's function: a number, or a `StaticValue`."""
        return self.constant(value) if is_number(value) else StaticValue(value)

    def constant(self, value: Any) -> Num:
        """Return a number that is known in advance.

        :raises Refused: if its type is not translated, or it is an integer of more than 61 bits.
        """
        t = kind_of(value)
        if t not in SAMPLES:
            raise Refused(f"a {type(value).__name__} among numbers")
        if value is None:
            return Num({"no": "False"}, "None")
        if t == "wi" and abs(value) > LIMIT:
            raise Refused("an integer beyond 61 bits")
        python_type: type[bool | int | float] = bool
        if t in FLOATS:
            python_type = float
        elif t in INTS:
            python_type = int
        plain = str(python_type(value))
        plain = _NOT_FINITE.get(plain, plain)
        if t == "u8":
            text = f"np.uint64({plain})"
        elif t in ("f2", "f4"):
            text = f"np.float32({plain})"
        else:
            text = Known(plain) if t in INTS else plain
        py = f"{numpys(dtype_of(t))}({plain})" if isinstance(value, np.generic) else plain
        return Num(
            {t: text},
            f"({py})" if py.startswith("-") else py,
            const=value,
            bound=abs(value) if t == "wi" else None,
        )


def _strong(types: dict[str, str]) -> str:
    """Return the first of the types that is numpy's, or the first type if none is."""
    return next((t for t in types if t not in WEAK), next(iter(types)))


def _of_product(node: ast.AST, a: Num, b: Num, types: dict[str, str]) -> bool:
    """Return whether an operand is a product that is written in place, and so is used only here."""
    parts = (
        (node.left, node.right)
        if isinstance(node, ast.BinOp)
        else (None, getattr(node, "value", None))
    )
    return _strong(types) in _SINGLE and any(
        isinstance(part, ast.BinOp)
        and isinstance(part.op, ast.Mult)
        and x.data
        and _strong(x.alts) in _SINGLE
        for part, x in zip(parts, (a, b), strict=True)
    )


def _by_power(op: str, a: str, b: str) -> str:
    """Return the text of `a // b` or `a % b` of integers if b is a known power of two, or ""."""
    if not isinstance(b, Known) or int(b) <= 0 or int(b).bit_count() != 1:
        return ""
    return f"({a} >> {int(b).bit_length() - 1})" if op == "//" else f"({a} & {int(b) - 1})"


def _affine(sign: str, a: Num, b: Num) -> tuple[str, int] | None:
    """Return (loop counter, constant) if the result is their sum, or None."""
    if a.affine is not None and b.const is not None and sign in "+-":
        return a.affine[0], a.affine[1] + (b.const if sign == "+" else -b.const)
    if b.affine is not None and a.const is not None and sign == "+":
        return b.affine[0], b.affine[1] + a.const
    return None


def _bound(sign: str, a: int | None, b: int | None, types: dict[str, str]) -> int | None:
    """Return the bound of an operator's integer result, or None if it is unknown."""
    limit = reach(types)
    if "wi" not in types:
        return limit
    if a is None or b is None or limit is None:
        return None
    bound = {"+": a + b, "-": a + b, "*": a * b, "//": a, "%": b, ">>": a}.get(sign)
    return max(bound, limit) if bound is not None and bound < LIMIT else None
