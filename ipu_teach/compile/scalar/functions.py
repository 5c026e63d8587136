"""Python's and numpy's functions of single numbers, with the same bits in the numba code.

* A function whose result the IEEE standard fixes is written as an expression.
* For other numpy functions, numpy's own loop is called, as numpy calls it for one number.
* For the functions of `math` in `MATH`, numba's own function is called, which gives the same bits.
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

# The IEEE standard fixes every bit of the results of these functions. The values are the functions'
# names in the numba code.
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
# Maps each function that tests a number to its numba expressions for floats and for integers.
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
# These functions return the larger or the smaller of two numbers. The last two functions ignore
# NaN; for floats, numpy's loop computes their results.
EXTREMES: dict[Function, str] = {
    np.maximum: "np_max",
    np.minimum: "np_min",
    np.fmax: "np_max",
    np.fmin: "np_min",
}
BY_OPERATOR = {getattr(np, name): sign for sign, _, name in BINARY.values() if sign != "**"}
# The numba code calls numpy's own loop for these functions, because their results differ between
# libraries.
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
# For these functions of `math`, numba has a function that gives the same bits.
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
# The numba code calls these functions of `math` directly. Each value is a condition on the
# arguments: if it is false, the function might raise an error, so the numba code stops. Some
# functions accept more arguments in Python than here. Functions that are new in Python 3.11 are
# added if they exist.
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
MOST_ARGUMENTS = 3  # The maximum number of arguments of a function in CALLED.
# Functions that return integers, with the numpy functions that compute the same numbers.
WHOLE = {math.floor: "np.floor", math.ceil: "np.ceil", math.trunc: "np.trunc", round: "np.rint"}
# Maps Python's functions to the numpy functions whose cost the model uses for them.
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
    """Translates calls of functions of single numbers."""

    def is_compiled(self, function: Function, args: list[Value]) -> bool:
        """Return whether a call can be translated as a function of numbers.

        This is so if its arguments are single numbers, and the function takes this number of
        arguments.
        """
        count = {np.round: 1, np.where: 3, np.clip: 3}.get(function, getattr(function, "nin", 0))
        return len(args) == count and all(isinstance(a, Num) for a in args)

    def of_numbers(self, function: Function, args: list[Value], node: ast.Call) -> Num | Vec:
        """Return the result of a call of a Python or numpy function of numbers.

        numpy's functions also take whole arrays.
        """
        make = self._make_of(function, args, node)
        is_ufunc = function is abs or isinstance(function, np.ufunc)
        if make is None or len(args) != (
            getattr(function, "nin", 1) if is_ufunc else len(node.args)
        ):
            self.refuse(
                node,
                f"{ast.unparse(node.func)}()",
                INSTEAD.get(getattr(function, "__name__", ""), ""),
            )
        text_format = f"{text_of(function)}({', '.join('{}' for _ in args)})"
        name = "absolute" if function is abs else function.__name__
        if is_ufunc and any(isinstance(argument, (Arr, Vec)) for argument in args):
            return self.mapped(
                function,
                args,
                make=make if function is abs or function in ROUNDED or function in TESTS else None,
                name=name,
                text_format=text_format,
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
        depends_on_data = any(argument.data for argument in nums)
        bound = nums[0].bound if function in (abs, int) else None
        # The largest magnitude of a float argument is not known.
        if function is int and FLOATS & nums[0].alts.keys():
            bound = None
        if is_ufunc:
            self.priced(name, slots, depends_on_data)
        elif function is bool:
            # bool() costs no cycles.
            pass
        elif isinstance(function, type):
            self.spend(data=depends_on_data)
        else:
            self.spend(NUMPYS.get(name, name), "float32", data=depends_on_data)
        return Num(
            slots,
            text_format.format(*(argument.py for argument in nums)),
            tag,
            depends_on_data,
            bound=bound,
        )

    def _make_of(self, function: Function, args: list[Any], node: ast.AST) -> Make | None:
        """Return a function that writes the numba code of a call, or None if it is not translated.

        `function` is the called function. `dispatch` calls the returned function for each
        combination of operand types.
        """
        if function in EXACT:
            return lambda types, texts: self._exact(function, types[0], texts[0], node)
        if function in TESTS:
            return lambda types, texts: self._test(function, types[0], texts[0], node)
        if function in LOGICAL:
            return lambda types, texts: self._logical(function, types, texts, node)
        if function in BY_OPERATOR:  # numpy's functions also convert Python's numbers to numpy's.
            return self.arith(
                BY_OPERATOR[function], function, node, const=[None, None], bounds=[None, None]
            )
        if function in EXTREMES:
            return lambda types, texts: self._extreme(function, types, texts, node)
        if function is np.clip:
            return lambda types, texts: self._clipped(types, texts, node)
        if function is np.where:
            return lambda types, texts: self._chosen(types, texts, node)
        if function in (np.copysign, math.copysign):
            return lambda types, texts: self._with_sign(function, types, texts, node)
        if function in BY_LOOP:
            return lambda types, texts: self._by_numpy_loop(function, args, types, texts, node=node)
        if isinstance(function, type) and function in NUMBERS and len(args) == 1:
            return self.storing(kind_of(function(0)), node)
        if function in WHOLE and len(args) == 1:
            return lambda types, texts: self._whole(function, types[0], texts[0], node)
        if function in CALLED and len(args) <= MOST_ARGUMENTS:
            return lambda types, texts: self._called(function, types, texts, node)
        if function is round:
            return lambda types, texts: self._rounded(function, args, types, node)
        return (
            (lambda types, texts: self._math(function, types, texts, node))
            if function in MATH
            else None
        )

    def _logical(
        self, function: Function, types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.logical_and or another key of LOGICAL."""
        truths = (
            self.convert(x, type_code, "b1", node)
            for x, type_code in zip(texts, types, strict=True)
        )
        return "b1", LOGICAL[function].format(*truths)

    def _rounded(
        self, function: Function, args: list[Num], types: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, zero of the type) of round() with a number of decimals.

        Only the Python code can compute it.
        """
        return self._python_only(
            function, [a.const or type_code for a, type_code in zip(args, types, strict=True)], node
        )

    def _python_only(
        self, function: Function, operands: Sequence[str | Constant], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, zero of the type) of a call that only the Python code can compute.

        The numba code has the zero in place of the call, and never runs.
        """
        r = self.type_of(function, operands, node)
        self.refuse_if(r not in SAMPLES, node, f"{text_of(function)} of {operands[0]}")
        self.require_python(node)
        return r, ZERO[SLOT[r]]

    def _exact(
        self, function: Function, operand_type: str, operand_text: str, node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.sqrt or another key of EXACT."""
        result_type = self.type_of(function, [operand_type], node)
        self.refuse_if(
            result_type not in SAMPLES or (result_type in INTS and EXACT[function] == "np.sqrt"),
            node,
            f"{text_of(function)} of {operand_type}",
        )
        operand_text = self.convert(operand_text, operand_type, result_type, node)
        compiled_function = EXACT[function]
        if compiled_function == "square":
            return result_type, self.wrapped(f"({operand_text} * {operand_text})", result_type)
        if result_type in INTS:
            self.refuse_if(function is np.rint, node, f"{text_of(function)} of whole numbers")
            compiled_function = "" if compiled_function.startswith("np.") else compiled_function
            if result_type in ("wi", "u8", "i8"):
                return result_type, operand_text if result_type[
                    0
                ] == "u" and compiled_function == "abs" else f"{compiled_function}({operand_text})"
        return result_type, self.wrapped(f"{compiled_function}({operand_text})", result_type)

    def _test(self, function: Function, type_code: str, x: str, node: ast.AST) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.isnan or another key of TESTS."""
        r = self.type_of(function, [type_code], node)
        if type_code not in FLOATS:
            return r, TESTS[function][1].format(
                self.convert(x, type_code, "i8" if type_code in BOOLS else type_code, node)
            )
        if function is np.signbit:
            self._bail_if_nan(x, node)
        return r, TESTS[function][0].format(x)

    def _bail_if_nan(self, x: str, node: ast.AST) -> None:
        """Write numba code that stops at a NaN, whose sign depends on the code that computed it."""
        self.bail(f"{x} != {x}", node)

    def _with_sign(
        self, function: Function, types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of copysign."""
        r = self.type_of(function, types, node)
        a, b = (self.put(x, type_code, r, node) for x, type_code in zip(texts, types, strict=True))
        self._bail_if_nan(b, node)
        return r, f"np.copysign({a}, {b})"

    def _extreme(
        self, function: Function, types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.maximum or another key of EXTREMES."""
        r = self.type_of(function, types, node)
        a, b = (
            self.convert(x, type_code, r, node) for x, type_code in zip(texts, types, strict=True)
        )
        if r in FLOATS and function in (np.fmax, np.fmin):
            return r, self.by_loop(function, r, [a, b])
        return r, self._better_of(EXTREMES[function], r, a, b, node)

    def _better_of(self, name: str, r: str, a: str, b: str, node: ast.AST) -> str:
        """Return the numba expression that calls `name`, which is `np_max` or `np_min`.

        `a` and `b` are the expressions of two numbers of type `r`.
        """
        if r in FLOATS:  # Processors differ in whether they return 0 or -0.
            self.bail(f"{a} == 0 and {b} == 0 and np.signbit({a}) != np.signbit({b})", node)
        return f"{name}({a}, {b})"

    def _clipped(self, types: list[str], texts: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.clip."""
        r = self.type_of(np.clip, types, node)
        if r not in FLOATS:
            return self._python_only(np.clip, list(types), node)
        x, low, high = (
            self.convert(x, type_code, r, node) for x, type_code in zip(texts, types, strict=True)
        )
        x = self.named(self._better_of("np_max", r, x, low, node))
        return r, self._better_of("np_min", r, x, high, node)

    def _chosen(self, types: list[str], texts: list[str], node: ast.AST) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.where."""
        r = self.type_of(chosen_number, types, node)
        a, b = (
            self.put(x, type_code, r, node)
            for x, type_code in zip(texts[1:], types[1:], strict=True)
        )
        return r, f"({a} if {self.convert(texts[0], types[0], 'b1', node)} else {b})"

    def _by_numpy_loop(
        self, function: Function, args: list[Num], types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of np.exp or another item of BY_LOOP."""
        if function is np.power and not set(types) & FLOATS:
            return self.arith(
                "**",
                function,
                node,
                const=[argument.const for argument in args],
                bounds=[None, None],
            )(types, texts)
        result_type = self.type_of(function, types, node)
        if function is np.sign and result_type in INTS - {"u8"}:
            operand_text = self.convert(texts[0], types[0], result_type, node)
            return result_type, f"(np.int64({operand_text} > 0) - np.int64({operand_text} < 0))"
        if result_type not in FLOATS and function is np.sign:
            return self._python_only(function, types, node)
        self.refuse_if(result_type not in FLOATS, node, f"np.{function.__name__} of {types[0]}")
        return result_type, self.by_loop(
            function,
            result_type,
            [
                self.convert(operand_text, operand_type, result_type, node)
                for operand_text, operand_type in zip(texts, types, strict=True)
            ],
        )

    def _whole(self, function: Function, type_code: str, x: str, node: ast.AST) -> tuple[str, str]:
        """Return (type, numba expression) of a call of math.floor or another key of WHOLE."""
        r = self.type_of(function, [type_code], node)
        return r, self.put(
            f"{WHOLE[function]}({x})" if type_code in FLOATS else x, type_code, r, node
        )

    def _called(
        self, function: Function, types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of math.erf or another key of CALLED."""
        texts = [
            self.named(self.put(x, type_code, "wf", node))
            for x, type_code in zip(texts, types, strict=True)
        ]
        if CALLED[function]:
            self.bail(f"not ({CALLED[function].format(*texts)})", node)
        loop = self.loop_at(function, f"{'d' * len(texts)}->d")
        return "wf", f"call_double{len(texts)}({loop}, {', '.join(texts)})"

    def _math(
        self, function: Function, types: list[str], texts: list[str], node: ast.AST
    ) -> tuple[str, str]:
        """Return (type, numba expression) of a call of math.exp or another item of MATH."""
        texts = [
            self.put(text_of_operand, operand_type, "wf", node)
            for text_of_operand, operand_type in zip(texts, types, strict=True)
        ]
        call_text = (
            f"np.sqrt({texts[0]})"
            if function is math.sqrt
            else f"math.{function.__name__}({', '.join(texts)})"
        )
        result_name = self.named(
            f"{call_text} if {DOMAIN[function].format(texts[0])} else np.nan"
            if function in DOMAIN
            else call_text
        )
        # If the result is infinite or NaN, the Python code takes over, because Python may
        # raise an error.
        self.bail(f"not ({result_name} - {result_name} == 0.0)", node)
        return "wf", result_name


def chosen_number(condition: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """Return the result of np.where for three numbers, as a number instead of an array."""
    return np.where(condition, a, b)[()]


def text_of(function: Function) -> str:
    """Return the name of a function in the Python code, such as "np.exp"."""
    if function in (abs, int, float, bool, round):
        return str(function.__name__)
    if isinstance(function, type):
        return numpys(function)
    return f"{'math' if inspect.isbuiltin(function) else 'np'}.{function.__name__}"
