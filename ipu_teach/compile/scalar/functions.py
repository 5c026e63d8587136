"""Functions of single numbers, Python's and numpy's, with the same bits in the compiled text.

* A function whose result IEEE fixes is written as an expression.
* For other numpy functions, numpy's own loop is called, as numpy calls it for one number.
* For other functions of `math`, the function itself is called, as a C function of doubles.
"""

from __future__ import annotations

import ast
import inspect
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ipu_teach.arguments import Function
from ipu_teach.compile.scalar.arithmetic import BINARY
from ipu_teach.compile.scalar.array_functions import ArrayFunctions
from ipu_teach.compile.scalar.kinds import (
    BOOLS,
    FLOATS,
    INTS,
    SAMPLES,
    SLOT,
    ZERO,
    kind_of,
    numpys,
)
from ipu_teach.compile.scalar.values import INSTEAD, Arr, Constant, Num, Value, Vec
from ipu_teach.compile.scalar.writer import Make
from ipu_teach.compile.trace import ROUNDED

# Functions whose result IEEE fixes to the bit, and their compiled text.
EXACT: dict[Function, str] = {
    abs: "abs",
    np.sqrt: "np.sqrt",
    np.fabs: "abs",
    np.absolute: "abs",
    np.floor: "np.floor",
    np.ceil: "np.ceil",
    np.trunc: "np.trunc",
    np.rint: "np.rint",
    np.round: "np.rint",
    np.negative: "-",
    np.positive: "",
    np.square: "square",
}
# Tests of a number: the expression for floats, and for integers.
TESTS: dict[Function, tuple[str, str]] = {
    np.isnan: ("({0} != {0})", "False"),
    np.isinf: ("(abs({0}) == np.inf)", "False"),
    np.isfinite: ("({0} - {0} == 0)", "True"),
    np.signbit: ("np.signbit({0})", "({0} < 0)"),
    math.isnan: ("({0} != {0})", "False"),
    math.isinf: ("(abs({0}) == np.inf)", "False"),
    math.isfinite: ("({0} - {0} == 0)", "True"),
}
LOGICAL: dict[Function, str] = {
    np.logical_and: "({} and {})",
    np.logical_or: "({} or {})",
    np.logical_xor: "({} != {})",
    np.logical_not: "(not {})",
}
# The larger or the smaller of two numbers. The last two ignore NaN; for floats, numpy's loop
# computes them.
EXTREMES: dict[Function, str] = {
    np.maximum: "np_max",
    np.minimum: "np_min",
    np.fmax: "np_max",
    np.fmin: "np_min",
}
BY_OPERATOR = {getattr(np, name): sign for sign, _, name in BINARY.values() if sign != "**"}
# Functions for which numpy's own loop is called, because its results differ from other libraries'.
BY_LOOP = frozenset(
    (
        np.exp,
        np.log,
        np.sin,
        np.cos,
        np.tan,
        np.tanh,
        np.exp2,
        np.log2,
        np.log10,
        np.log1p,
        np.expm1,
        np.sinh,
        np.cosh,
        np.arcsin,
        np.arccos,
        np.reciprocal,
        np.cbrt,
        np.arctan,
        np.arcsinh,
        np.arccosh,
        np.arctanh,
        np.degrees,
        np.radians,
        np.rad2deg,
        np.deg2rad,
        np.sign,
        np.hypot,
        np.arctan2,
        np.power,
        np.fmod,
        np.logaddexp,
        np.logaddexp2,
        np.heaviside,
    )
)
# Functions of `math` for which numba has a function with the same bits.
MATH = frozenset(
    (
        math.sqrt,
        math.exp,
        math.log,
        math.sin,
        math.cos,
        math.tan,
        math.tanh,
        math.atan,
        math.atan2,
        math.fabs,
        math.log1p,
        math.expm1,
        math.sinh,
        math.cosh,
        math.asin,
        math.acos,
        math.log2,
        math.log10,
    )
)
DOMAIN = {
    math.log: "{} > 0.0",
    math.log2: "{} > 0.0",
    math.log10: "{} > 0.0",
    math.log1p: "{} > -1.0",
    math.asin: "abs({}) <= 1.0",
    math.acos: "abs({}) <= 1.0",
}
_NO_POLE = "({0} > 0.0 or {0} != np.floor({0}))"
_DIVIDES = "abs({0}) < np.inf and {1} != 0.0"
# Functions of `math` that are called directly, each with the condition under which it raises no
# error; otherwise CPython's text runs. Some take fewer arguments than in Python. Functions that are
# new in Python 3.11 are added if they exist.
CALLED: dict[Function, str] = {
    math.erf: "",
    math.erfc: "",
    math.hypot: "",
    math.asinh: "",
    math.acosh: "not {0} < 1.0",
    math.atanh: "abs({0}) < 1.0",
    math.gamma: f"1e-300 < abs({{0}}) < 170.0 and {_NO_POLE}",
    math.lgamma: f"abs({{0}}) < 1e300 and {_NO_POLE}",
    math.fmod: _DIVIDES,
    math.remainder: _DIVIDES,
    math.pow: (
        "abs({0}) < np.inf and abs({1}) < np.inf and ({0} != 0.0 or {1} >= 0.0) and "
        "({0} >= 0.0 or {1} == np.floor({1})) and "
        "({0} == 0.0 or abs({1} * math.log(abs({0}))) < 700.0)"
    ),
    math.degrees: "",
    math.radians: "",
}
CALLED |= {
    getattr(math, name): condition
    for name, condition in (("exp2", "abs({0}) < 1000.0"), ("cbrt", ""))
    if hasattr(math, name)
}
MOST_ARGUMENTS = 3  # maximum number of arguments of a function in CALLED
# Functions that return integers.
WHOLE = {math.floor: "np.floor", math.ceil: "np.ceil", math.trunc: "np.trunc", round: "np.rint"}
# numpy's names of Python's functions, under which they are priced
NUMPYS = {
    "acos": "arccos",
    "acosh": "arccosh",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "fabs": "absolute",
    "pow": "power",
    "round": "rint",
}
NUMBERS = frozenset(type(sample) for sample in SAMPLES.values())


class Functions(ArrayFunctions):
    """The results of functions of single numbers in a scalar loop."""

    def is_compiled(self, f: Function, args: list[Value]) -> bool:
        """Return whether `f`, one of numpy's functions of arrays, has a form for these numbers."""
        count = {np.round: 1, np.where: 3, np.clip: 3}.get(f, getattr(f, "nin", 0))
        return len(args) == count and all(isinstance(a, Num) for a in args)

    def of_numbers(self, f: Function, args: list[Value], node: ast.Call) -> Num | Vec:
        """Return the result of a function of Python or numpy.

        numpy's functions also take complete regions.
        """
        make = self._make_of(f, args, node)
        is_ufunc = f is abs or isinstance(f, np.ufunc)
        if make is None or len(args) != (getattr(f, "nin", 1) if is_ufunc else len(node.args)):
            self.refuse(
                node, f"{ast.unparse(node.func)}()", INSTEAD.get(getattr(f, "__name__", ""), "")
            )
        form = f"{text_of(f)}({', '.join('{}' for _ in args)})"
        name = "absolute" if f is abs else f.__name__
        if is_ufunc and any(isinstance(argument, (Arr, Vec)) for argument in args):
            return self.mapped(
                f,
                args,
                make=make if f is abs or f in ROUNDED or f in TESTS else None,
                name=name,
                form=form,
                node=node,
            )
        nums = (
            [self.single(argument, node) for argument in args]
            if is_ufunc
            else [
                self.single(*argument_and_node)
                for argument_and_node in zip(args, node.args, strict=True)
            ]
        )
        slots, tag = self.dispatch(nums, make)
        data = any(argument.data for argument in nums)
        bound = nums[0].bound if f in (abs, int) else None
        if f is int and FLOATS & nums[0].alts.keys():  # bounds exist only for integers
            bound = None
        if is_ufunc:
            self.priced(name, slots, data)
        elif f is bool:
            pass  # free
        elif isinstance(f, type):
            self.spend(data=data)
        else:
            self.spend(NUMPYS.get(name, name), "float32", data=data)
        return Num(slots, form.format(*(argument.py for argument in nums)), tag, data, bound=bound)

    def _make_of(self, f: Function, args: list[Any], node: ast.AST) -> Make | None:
        """Return the function that writes the compiled text, or None if there is none for `f`."""
        if f in EXACT:
            return lambda ts, xs: self._exact(f, ts[0], xs[0], node)
        if f in TESTS:
            return lambda ts, xs: self._test(f, ts[0], xs[0], node)
        if f in LOGICAL:
            return lambda ts, xs: self._logical(f, ts, xs, node)
        if f in BY_OPERATOR:  # numpy's functions also convert Python's numbers to numpy's
            return self.arith(BY_OPERATOR[f], f, node, const=[None, None], bounds=[None, None])
        if f in EXTREMES:
            return lambda ts, xs: self._extreme(f, ts, xs, node)
        if f is np.clip:
            return lambda ts, xs: self._clipped(ts, xs, node)
        if f is np.where:
            return lambda ts, xs: self._chosen(ts, xs, node)
        if f in (np.copysign, math.copysign):
            return lambda ts, xs: self._with_sign(f, ts, xs, node)
        if f in BY_LOOP:
            return lambda ts, xs: self._by_numpy_loop(f, args, ts, xs, node=node)
        if isinstance(f, type) and f in NUMBERS and len(args) == 1:
            return self.storing(kind_of(f(0)), node)
        if f in WHOLE and len(args) == 1:
            return lambda ts, xs: self._whole(f, ts[0], xs[0], node)
        if f in CALLED and len(args) <= MOST_ARGUMENTS:
            return lambda ts, xs: self._called(f, ts, xs, node)
        if f is round:
            return lambda ts, xs: self._rounded(f, args, ts, node)
        return (lambda ts, xs: self._math(f, ts, xs, node)) if f in MATH else None

    def _logical(self, f: Function, ts: list[str], xs: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of a function in LOGICAL."""
        truths = (self.convert(x, t, "b1", node) for x, t in zip(xs, ts, strict=True))
        return "b1", LOGICAL[f].format(*truths)

    def _rounded(
        self, f: Function, args: list[Num], ts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, text) of round() to a number of decimals."""
        return self._python_only(f, [a.const or t for a, t in zip(args, ts, strict=True)], node)

    def _python_only(
        self, f: Function, operands: Sequence[str | Constant], node: ast.AST
    ) -> tuple[str, str]:
        """Return the type and a placeholder for a result that only CPython's text computes."""
        r = self.type_of(f, operands, node)
        self.refuse_if(r not in SAMPLES, node, f"{text_of(f)} of {operands[0]}")
        self.require_python(node)
        return r, ZERO[SLOT[r]]

    def _exact(
        self, f: Function, operand_type: str, operand_text: str, node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, text) of a function in EXACT."""
        result_type = self.type_of(f, [operand_type], node)
        self.refuse_if(
            result_type not in SAMPLES or (result_type in INTS and EXACT[f] == "np.sqrt"),
            node,
            f"{text_of(f)} of {operand_type}",
        )
        operand_text = self.convert(operand_text, operand_type, result_type, node)
        compiled_function = EXACT[f]
        if compiled_function == "square":
            return result_type, self.wrapped(f"({operand_text} * {operand_text})", result_type)
        if result_type in INTS:
            self.refuse_if(f is np.rint, node, f"{text_of(f)} of whole numbers")
            compiled_function = "" if compiled_function.startswith("np.") else compiled_function
            if result_type in ("wi", "u8", "i8"):
                return result_type, operand_text if result_type[
                    0
                ] == "u" and compiled_function == "abs" else f"{compiled_function}({operand_text})"
        return result_type, self.wrapped(f"{compiled_function}({operand_text})", result_type)

    def _test(self, f: Function, t: str, x: str, node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of a function in TESTS."""
        r = self.type_of(f, [t], node)
        if t not in FLOATS:
            return r, TESTS[f][1].format(self.convert(x, t, "i8" if t in BOOLS else t, node))
        if f is np.signbit:
            self._bail_if_nan(x, node)
        return r, TESTS[f][0].format(x)

    def _bail_if_nan(self, x: str, node: ast.AST) -> None:
        """Leave a NaN to CPython's text, because its sign depends on the code that computed it."""
        self.bail(f"{x} != {x}", node)

    def _with_sign(
        self, f: Function, ts: list[str], xs: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, text) of copysign."""
        r = self.type_of(f, ts, node)
        a, b = (self.put(x, t, r, node) for x, t in zip(xs, ts, strict=True))
        self._bail_if_nan(b, node)
        return r, f"np.copysign({a}, {b})"

    def _extreme(self, f: Function, ts: list[str], xs: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of a function in EXTREMES."""
        r = self.type_of(f, ts, node)
        a, b = (self.convert(x, t, r, node) for x, t in zip(xs, ts, strict=True))
        if r in FLOATS and f in (np.fmax, np.fmin):
            return r, self.by_loop(f, r, [a, b])
        return r, self._better_of(EXTREMES[f], r, a, b, node)

    def _better_of(self, name: str, r: str, a: str, b: str, node: ast.AST) -> str:
        """Return the text of `np_max` or `np_min` (`name`) of two numbers of type `r`."""
        if r in FLOATS:  # processors differ in the choice between 0 and -0
            self.bail(f"{a} == 0 and {b} == 0 and np.signbit({a}) != np.signbit({b})", node)
        return f"{name}({a}, {b})"

    def _clipped(self, ts: list[str], xs: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of np.clip."""
        r = self.type_of(np.clip, ts, node)
        if r not in FLOATS:
            return self._python_only(np.clip, list(ts), node)
        x, low, high = (self.convert(x, t, r, node) for x, t in zip(xs, ts, strict=True))
        x = self.named(self._better_of("np_max", r, x, low, node))
        return r, self._better_of("np_min", r, x, high, node)

    def _chosen(self, ts: list[str], xs: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of np.where."""
        r = self.type_of(chosen_number, ts, node)
        a, b = (self.put(x, t, r, node) for x, t in zip(xs[1:], ts[1:], strict=True))
        return r, f"({a} if {self.convert(xs[0], ts[0], 'b1', node)} else {b})"

    def _by_numpy_loop(
        self, f: Function, args: list[Num], types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, text) of a function in BY_LOOP."""
        if f is np.power and not set(types) & FLOATS:
            return self.arith(
                "**", f, node, const=[argument.const for argument in args], bounds=[None, None]
            )(types, texts)
        result_type = self.type_of(f, types, node)
        if f is np.sign and result_type in INTS - {"u8"}:
            operand_text = self.convert(texts[0], types[0], result_type, node)
            return result_type, f"(np.int64({operand_text} > 0) - np.int64({operand_text} < 0))"
        if result_type not in FLOATS and f is np.sign:
            return self._python_only(f, types, node)
        self.refuse_if(result_type not in FLOATS, node, f"np.{f.__name__} of {types[0]}")
        return result_type, self.by_loop(
            f,
            result_type,
            [
                self.convert(operand_text, operand_type, result_type, node)
                for operand_text, operand_type in zip(texts, types, strict=True)
            ],
        )

    def _whole(self, f: Function, t: str, x: str, node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of a Python function that returns an integer."""
        r = self.type_of(f, [t], node)
        return r, self.put(f"{WHOLE[f]}({x})" if t in FLOATS else x, t, r, node)

    def _called(self, f: Function, ts: list[str], xs: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, text) of a function in CALLED."""
        xs = [self.named(self.put(x, t, "wf", node)) for x, t in zip(xs, ts, strict=True)]
        if CALLED[f]:
            self.bail(f"not ({CALLED[f].format(*xs)})", node)
        loop = self.loop_at(f, f"{'d' * len(xs)}->d")
        return "wf", f"call_double{len(xs)}({loop}, {', '.join(xs)})"

    def _math(
        self, f: Function, types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, text) of a function in MATH."""
        texts = [
            self.put(text_of_operand, operand_type, "wf", node)
            for text_of_operand, operand_type in zip(texts, types, strict=True)
        ]
        call_text = (
            f"np.sqrt({texts[0]})" if f is math.sqrt else f"math.{f.__name__}({', '.join(texts)})"
        )
        result_name = self.named(
            f"{call_text} if {DOMAIN[f].format(texts[0])} else np.nan" if f in DOMAIN else call_text
        )
        # Python handles errors and infinite results.
        self.bail(f"not ({result_name} - {result_name} == 0.0)", node)
        return "wf", result_name


def chosen_number(condition: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """Return np.where of numbers as a number."""
    return np.where(condition, a, b)[()]


def text_of(f: Function) -> str:
    """Return the name of a function in CPython's text."""
    if f in (abs, int, float, bool, round):
        return str(f.__name__)
    if isinstance(f, type):
        return numpys(f)
    return f"{'math' if inspect.isbuiltin(f) else 'np'}.{f.__name__}"
