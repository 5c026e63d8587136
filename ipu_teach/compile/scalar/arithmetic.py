"""Operators on numbers, with numpy's result types, and exact arithmetic in the numba code."""

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

# Maps each operator to its sign, its Python function, and numpy's name for it.
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
_SINGLE = ("f4", "f8", "wf")  # The FLOAT type, and the types that would be FLOAT in a C++ codelet.
_NOT_FINITE = {"inf": "np.inf", "-inf": "(-np.inf)", "nan": "np.nan"}


class Arithmetic(Writer):
    """Binary and unary operators, conversions, and the rounding of stores."""

    def convert(self, text: str, source_type: str, target_type: str, node: ast.AST) -> str:
        """Return the numba expression of an operand, converted for a calculation.

        `text` is the expression of the operand, which has type `source_type`. The calculation is
        done in type `target_type`.
        """
        if source_type == target_type:
            return text
        if target_type in FLOATS:
            if source_type in FLOATS and source_type in ("f2", "f4"):
                if target_type == "f4":
                    return text
                if target_type == "f2":
                    return f"to_half(np.float64({text}))"
                return f"np.float64({text})"
            if source_type == "wi" and not isinstance(text, Known):
                self.bail(f"abs({text}) > {2**53}", node)
            as_double = text if source_type in FLOATS else f"np.float64({text})"
            return {"f4": f"np.float32({as_double})", "f2": f"to_half({as_double})"}.get(
                target_type, as_double
            )
        if target_type in BOOLS:
            return text if source_type in BOOLS else f"({text} != 0)"
        if source_type in BOOLS:
            return f"np.uint64({text})" if target_type == "u8" else f"np.int64({text})"
        if source_type == "wi" and target_type != "i8":
            lowest = np.iinfo(target_type).min
            highest = np.iinfo(target_type).max
            if not isinstance(text, Known):
                self.bail(f"{text} < {lowest} or {text} > {min(highest, LIMIT)}", node)
            elif not lowest <= int(text) <= highest:
                self.bail("True", node)
                return "np.uint64(0)" if target_type == "u8" else "np.int64(0)"
        return f"np.uint64({text})" if target_type == "u8" else text

    def wrapped(self, text: str, type_code: str) -> str:
        """Return an expression that rounds or wraps the expression `text` to type `type_code`."""
        if type_code in ("f4", "f8", "wf", "i8", "u8", "b1", "wb"):
            return f"np.float32({text})" if type_code == "f4" else text
        if type_code == "f2":
            return f"to_half(np.float64({text}))"
        return f"wrap({text}, {8 * int(type_code[1])}, {type_code[0] == 'i'})"

    def put(self, text: str, source_type: str, target_type: str, node: ast.AST) -> str:
        """Return the numba expression of a number, converted for a store into an element.

        `text` is the expression of the number, which has type `source_type`. The element has type
        `target_type`. The conversion is that of an assignment in numpy. The function also writes
        code that stops the numba code if the value does not fit.
        """
        if target_type in FLOATS or target_type in BOOLS:
            return self.convert(text, source_type, target_type, node)
        if source_type in FLOATS:
            # If a value does not fit, different processors convert it to different results.
            if target_type[0] == "u":
                self.bail(
                    f"not ({text} > -1 and {text} < {2.0 ** min(8 * int(target_type[1]), 61)})",
                    node,
                )
            else:
                self.bail(
                    f"not (abs({text}) < 4e18)"
                    if target_type in ("wi", "i8")
                    else f"not (abs({text}) < 9e15)",
                    node,
                )
            text = self.named(f"np.int64({text})")
            source_type = "wi" if source_type == "wf" or target_type == "wi" else "i8"
        if target_type == "wi":
            if source_type in ("i8", "u8"):
                self.bail(
                    f"{text} > {LIMIT} or {text} < {-LIMIT}"
                    if source_type == "i8"
                    else f"{text} > np.uint64({LIMIT})",
                    node,
                )
            return f"np.int64({text})"
        if source_type == target_type:
            return text
        if target_type[0] == "u" and source_type not in WEAK:
            if target_type == "u8":
                return f"np.uint64({text})"
            bit_mask = 2 ** (8 * int(target_type[1])) - 1
            return f"({'np.int64' if source_type == 'u8' else ''}({text}) & {bit_mask})"
        if source_type in BOOLS:
            return self.convert(text, source_type, target_type, node)
        lowest = np.iinfo(target_type).min
        highest = np.iinfo(target_type).max
        if source_type == "u8" or target_type == "u8":
            self.bail(
                f"{text} > np.uint64({min(highest, LIMIT)})"
                if source_type == "u8"
                else f"{text} < 0",
                node,
            )
            return f"np.uint64({text})" if target_type == "u8" else f"np.int64({text})"
        if target_type != "i8" and (
            source_type in WEAK or not np.can_cast(source_type, target_type)
        ):
            if isinstance(text, Known) and lowest <= int(text) <= highest:
                return text
            self.bail(f"{text} < {lowest} or {text} > {highest}", node)
        return text

    def storing(self, type_code: str, node: ast.AST) -> Make:
        """Return a function that writes the conversion of a number to the type of an element.

        The conversion is that of a store into the element, whose type is `type_code`. `dispatch`
        calls the returned function for each possible type of the number.
        """

        def make(types: list[str], texts: list[str]) -> tuple[str, str]:
            return type_code, self.put(texts[0], types[0], type_code, node)

        return make

    def converting(self, type_code: str, node: ast.AST) -> Make:
        """Return a function that writes the conversion of a number to type `type_code`.

        The conversion is that of an operand. `dispatch` calls the returned function for each
        possible type of the number.
        """

        def make(types: list[str], texts: list[str]) -> tuple[str, str]:
            return type_code, self.convert(texts[0], types[0], type_code, node)

        return make

    def arith(
        self, op: str, fn: Function, node: ast.AST, const: list[Constant], bounds: list[int | None]
    ) -> Make:
        """Return a function that writes the numba code of a binary operator.

        `op` is the operator's sign, such as "+", and `fn` is its Python function. `const` contains
        the values of the two operands, and `bounds` contains their largest magnitudes. A value or
        magnitude that is unknown is None. `dispatch` calls the returned function for each pair of
        operand types, and gets (type of the result, numba expression). The type is found by
        computing an example.
        """

        def make(types: list[str], texts: list[str]) -> tuple[str, str]:
            operands: list[str | Constant] = list(types)
            if op == "**" and types[1] in INTS and types[0] in INTS | {"wb"}:
                if not isinstance(const[1], int):
                    self.bail(f"{texts[1]} < 0", node)
                elif const[1] < 0:
                    operands[1] = const[1]
            result_type = self.type_of(fn, operands, node)
            self.refuse_if(
                "u8" in types and len(set(types) - {"wi", "wb"}) > 1,
                node,
                "UNSIGNED_LONGLONG together with another type",
            )
            if op in COMPARE:
                return result_type, self._compared(op, types, texts, node)
            left, right = (
                self.convert(operand_text, operand_type, result_type, node)
                for operand_type, operand_text in zip(types, texts, strict=True)
            )
            if result_type in FLOATS:
                return result_type, self._floats(op, result_type, left, right, node)
            if result_type in BOOLS:
                return result_type, {"+": f"({left} or {right})", "*": f"({left} and {right})"}.get(
                    op, f"({left} {op} {right})"
                )
            if result_type == "wi":
                return result_type, self._python_int(op, left, right, bounds, node)
            return result_type, self._integers(op, result_type, (left, right), types, texts, node)

        return make

    def _compared(self, op: str, types: list[str], texts: list[str], node: ast.AST) -> str:
        """Return the numba expression of a comparison, in the common type of both sides."""
        common_type = self.type_of(operator.add, types, node) if set(types) != {"b1"} else "b1"
        common_type = "wi" if common_type in INTS and common_type != "u8" else common_type
        left, right = (
            operand_text
            if common_type == "wi" and operand_type in INTS
            else self.convert(operand_text, operand_type, common_type, node)
            for operand_type, operand_text in zip(types, texts, strict=True)
        )
        return f"({left} {op} {right})"

    def _floats(self, op: str, result_type: str, left: str, right: str, node: ast.AST) -> str:
        """Return the numba expression of an operator on floats of type `result_type`."""
        if result_type == "wf" and op in ("/", "//", "%"):
            self.bail(f"{right} == 0.0", node)
        if op in ("//", "%"):
            function = np.floor_divide if op == "//" else np.remainder
            return self.wrapped(
                self.by_loop(function, "f4" if result_type == "f2" else result_type, [left, right]),
                result_type,
            )
        if op == "**" and result_type == "wf":
            self.bail(f"{left} < 0.0 or ({left} == 0.0 and {right} < 0.0)", node)
        return self.wrapped(f"({left} {op} {right})", result_type)

    def loop_at(self, ufunc: Function, types: str) -> str:
        """Return the addresses of a numpy inner loop and of the loop's data, as numba expressions.

        `types` are the types of the loop, such as "ff->f".
        """
        if (ufunc, types) not in self.loops:
            self.loops.append((ufunc, types))
        k = 2 * self.loops.index((ufunc, types))
        return f"loops[{k}], loops[{k + 1}]"

    def by_loop(self, ufunc: Function, type_code: str, texts: list[str]) -> str:
        """Return the numba expression that calls numpy's own loop for one element.

        `texts` are one or two operands of the type `type_code`.
        """
        letter = dtype_of(type_code).char
        is_half = type_code == "f2"
        arguments = ", ".join(f"half_bits({x})" if is_half else x for x in texts)
        loop = self.loop_at(ufunc, f"{letter * len(texts)}->{letter}")
        call = f"call_loop{len(texts)}({loop}, {arguments})"
        return f"half_value({call})" if is_half else call

    def _integers(
        self,
        op: str,
        result_type: str,
        operands: tuple[str, str],
        types: list[str],
        texts: list[str],
        node: ast.AST,
    ) -> str:
        """Return the numba expression of an operator on numpy's integers, which wrap around.

        `operands` are the expressions of the operands after their conversion to `result_type`.
        `types` and `texts` are their types and expressions before the conversion.
        """
        (left, right) = operands
        bits = 8 * int(result_type[1])
        self.refuse_if(
            result_type == "u8" and op in ("//", "%", "**", "<<", ">>"),
            node,
            f"{op} of UNSIGNED_LONGLONG",
        )
        if op in ("//", "%"):
            return _by_power(op, left, right) or self.wrapped(
                f"({_DIVISION[op]}({left}, {right}) if {right} != 0 else 0)", result_type
            )
        if op in ("<<", ">>"):
            if types[1] == "wi":
                left, right = texts
            return self.wrapped(f"shift({left}, {right}, {bits}, {op == '<<'})", result_type)
        if op == "**":
            return self.wrapped(f"ipow({left}, {right})", result_type)
        return (
            self.wrapped(f"({left} {op} {right})", result_type)
            if op in "+-*"
            else f"({left} {op} {right})"
        )

    def _python_int(
        self, op: str, left: str, right: str, bounds: list[int | None], node: ast.AST
    ) -> str:
        """Return the numba expression of an operator on two Python integers, stored as int64.

        `bounds` are the largest absolute values of the operands, or None. If the result may be
        undefined or may need more than 61 bits, the function writes code that checks this and stops
        the numba code (see `bail`).
        """
        if op in ("//", "%"):
            self.bail(f"{right} == 0", node)
            return _by_power(op, left, right) or f"{_DIVISION[op]}({left}, {right})"
        if op in ("<<", ">>"):
            self.bail(f"{right} < 0 or {right} > {61 if op == '<<' else 63}", node)
            if op == ">>":
                return f"({left} >> {right})"
            self.bail(f"not product_fits({left}, 1 << {right})", node)
            return f"({left} << {right})"
        if op == "**":
            self.bail(f"np.float64(abs({left})) ** np.float64({right}) > 2.0**60", node)
            return f"ipow({left}, {right})"
        text = f"({left} {op} {right})"
        if op in ("&", "|", "^"):
            return text
        known_bounds = [bound for bound in bounds if bound is not None]
        if (
            len(known_bounds) == 2
            and (sum(known_bounds) if op != "*" else known_bounds[0] * known_bounds[1]) < LIMIT
        ):
            return text
        if op == "*":
            self.bail(f"not product_fits({left}, {right})", node)
            return text
        result = self.named(text)
        self.bail(f"{result} > {LIMIT} or {result} < {-LIMIT}", node)
        return result

    def priced(self, name: str, types: dict[str, str], data: bool) -> None:
        """Count the cycles of an operation if it works on `data`.

        `name` is numpy's name of the operation. The keys of `types` are the possible types of the
        result. The first numpy type among them determines the price.
        """
        if data:
            self.spend(name, dtype_of(_strong(types)).name)

    def binary(self, kind: type, left: Num, right: Num, node: ast.AST) -> Num:
        """Return `left op right` of two numbers."""
        sign, fn, name = BINARY[kind]
        depends_on_data = left.data or right.data
        if left.const is not None and right.const is not None and not depends_on_data:
            try:
                with np.errstate(all="raise"):
                    return self.constant(fn(left.const, right.const))
            except (ArithmeticError, ValueError, TypeError, Refused):
                pass  # If the operation is reached at run time, it raises the error.
        slots, tag = self.dispatch(
            [left, right],
            self.arith(
                sign, fn, node, const=[left.const, right.const], bounds=[left.bound, right.bound]
            ),
        )
        if name == "power":
            name = POWERS.get(right.const, "power")
        self.priced(
            FUSED
            if name in ("add", "subtract") and _of_product(node, left, right, slots)
            else name,
            slots,
            depends_on_data,
        )
        affine = _affine(sign, left, right) if slots.keys() == {"wi"} else None
        return Num(
            slots,
            f"({left.py} {sign} {right.py})",
            tag,
            depends_on_data,
            bound=_bound(sign, left.bound, right.bound, slots),
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
        """Return a function that writes the numba code of a unary operator.

        `sign` is the operator's sign, such as "-", and `fn` is its Python function. `dispatch`
        calls the returned function for each possible type of the operand.
        """

        def make(types: list[str], texts: list[str]) -> tuple[str, str]:
            r = self.type_of(fn, types, node)
            if r in BOOLS:
                return r, f"(not {texts[0]})"
            if r in FLOATS | {"wi", "i8", "u8"}:
                return r, f"({sign}{self.convert(texts[0], types[0], r, node)})"
            return r, self.wrapped(f"({sign}{self.convert(texts[0], types[0], r, node)})", r)

        return make

    def truth(self, number: Num) -> str:
        """Return the numba expression of `bool(number)`."""

        def text(type_code: str, number_text: str) -> str:
            if type_code in BOOLS:
                return number_text
            return "False" if type_code == "no" else f"({number_text} != 0)"

        if len(number.alts) == 1:
            return text(*number.only)
        slots, _ = self.dispatch(
            [number], lambda types, texts: ("wb", text(types[0], texts[0])), none=True
        )
        return slots["wb"]

    def known_ahead(self, value: object) -> Num | StaticValue:
        """Return a value from outside the learner's function as a `Num`, or as a `StaticValue`.

        It is a `StaticValue` if it is not a number.
        """
        return self.constant(value) if is_number(value) else StaticValue(value)

    def constant(self, value: Any) -> Num:
        """Return a known number or None as a `Num`.

        :raises Refused: if its type is not translated, or it is an integer of more than 61 bits.
        """
        type_code = kind_of(value)
        if type_code not in SAMPLES:
            raise Refused(f"a {type(value).__name__} used as a number")
        if value is None:
            return Num({"no": "False"}, "None")
        if type_code == "wi" and abs(value) > LIMIT:
            raise Refused("an integer of more than 61 bits")
        python_type: type[bool | int | float] = bool
        if type_code in FLOATS:
            python_type = float
        elif type_code in INTS:
            python_type = int
        plain = str(python_type(value))
        plain = _NOT_FINITE.get(plain, plain)
        if type_code == "u8":
            text = f"np.uint64({plain})"
        elif type_code in ("f2", "f4"):
            text = f"np.float32({plain})"
        else:
            text = Known(plain) if type_code in INTS else plain
        py = f"{numpys(dtype_of(type_code))}({plain})" if isinstance(value, np.generic) else plain
        return Num(
            {type_code: text},
            f"({py})" if py.startswith("-") else py,
            const=value,
            bound=abs(value) if type_code == "wi" else None,
        )


def _strong(types: dict[str, str]) -> str:
    """Return the first of the types that is a numpy type; if none is, return the first type."""
    return next((type_code for type_code in types if type_code not in WEAK), next(iter(types)))


def _of_product(node: ast.AST, left: Num, right: Num, types: dict[str, str]) -> bool:
    """Return whether an operand is itself a product, as in `a * b + c`.

    Such a product is used only here, so a fused instruction can compute it together with this
    operator.
    """
    operand_nodes = (
        (node.left, node.right)
        if isinstance(node, ast.BinOp)
        else (None, getattr(node, "value", None))
    )
    return _strong(types) in _SINGLE and any(
        isinstance(operand_node, ast.BinOp)
        and isinstance(operand_node.op, ast.Mult)
        and operand.data
        and _strong(operand.alts) in _SINGLE
        for operand_node, operand in zip(operand_nodes, (left, right), strict=True)
    )


def _by_power(op: str, a: str, b: str) -> str:
    """Return the numba expression of `a // b` or `a % b` if b is a known power of two, or ""."""
    if not isinstance(b, Known) or int(b) <= 0 or int(b).bit_count() != 1:
        return ""
    return f"({a} >> {int(b).bit_length() - 1})" if op == "//" else f"({a} & {int(b) - 1})"


def _affine(sign: str, a: Num, b: Num) -> tuple[str, int] | None:
    """Return (loop counter, constant) if the result of `+` or `-` is the sum of both, or None.

    `sign` is the operator, and `a` and `b` are its operands.
    """
    if a.affine is not None and b.const is not None and sign in "+-":
        return a.affine[0], a.affine[1] + (b.const if sign == "+" else -b.const)
    if b.affine is not None and a.const is not None and sign == "+":
        return b.affine[0], b.affine[1] + a.const
    return None


def _bound(
    sign: str, left_bound: int | None, right_bound: int | None, types: dict[str, str]
) -> int | None:
    """Return the largest magnitude of an operator's integer result, or None if it is unknown.

    `left_bound` and `right_bound` are the largest magnitudes of the operands, or None. The keys of
    `types` are the possible types of the result.
    """
    type_bound = reach(types)
    if "wi" not in types:
        return type_bound
    if left_bound is None or right_bound is None or type_bound is None:
        return None
    result_bound = {
        "+": left_bound + right_bound,
        "-": left_bound + right_bound,
        "*": left_bound * right_bound,
        "//": left_bound,
        "%": right_bound,
        ">>": left_bound,
    }.get(sign)
    return (
        max(result_bound, type_bound) if result_bound is not None and result_bound < LIMIT else None
    )
