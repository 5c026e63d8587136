"""The table of elementwise operations: their operands, results, values and cost estimates.

The names are those of PopLibs' enums `UnaryOpType`, `BinaryOpType` and `TernaryOpType`. Results
have the dtype of the operands, or BOOL for comparisons and tests. Integers wrap around.

A HALF result is the exact result, rounded once. If numpy's float16 function does not return this
rounded value, the operation is computed in float64 and then rounded. A FLOAT result is numpy's
result. Operations that take several numpy steps (sigmoid, rsqrt, erf, …) are computed in float64
for FLOAT too, and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypedDict

import numpy as np

from ipu_teach.cost.vertices.parts import Rates, find
from ipu_teach.errors import MissingPerfEstimateError
from ipu_teach.poplibs.popops import arithmetic
from ipu_teach.types import BOOL, FLOAT, INT, QUARTER, Array, DType

# The permitted dtypes of operands, in the words that errors use.
NUMBERS = "numbers"
FLOATS = "FLOAT and HALF"
WHOLE = "integers"
BOOLS = "BOOL"
ANYTHING = "every dtype"


@dataclass(frozen=True)
class ElementwiseOperation:
    """An operation on single elements.

    - `arity`: the number of operands.
    - `function`: a function that computes the results for numpy arrays.
    - `says`: a description of the result for docstrings and error messages, in terms of the
      operands a, b and c.
    - `takes`: the permitted dtypes of the operands: NUMBERS, FLOATS, WHOLE, BOOLS or ANYTHING.
    - `asks`: whether the result is BOOL, as in comparisons and tests.
    - `exact`: whether numpy's float16 function returns the exact result, rounded once.
    - `wide`: whether FLOAT results, too, are computed in float64 and rounded once.
    - `like`: the name of the operation whose cycles the model uses, if PopLibs has no estimate for
      this operation.
    """

    name: str
    arity: int
    function: Callable[..., Array]
    says: str
    takes: str = NUMBERS
    asks: bool = False
    exact: bool = False
    wide: bool = False
    like: str = ""

    def accepts(self, dtype: type[DType]) -> bool:
        """Return whether the operands of this operation may have the dtype `dtype`."""
        if issubclass(dtype, QUARTER):
            return False
        numpy_kind = dtype.numpy.kind
        return {
            NUMBERS: numpy_kind in "fiu",
            FLOATS: numpy_kind == "f",
            WHOLE: numpy_kind in "iu",
            BOOLS: numpy_kind == "b",
        }.get(self.takes, True)

    def result(self, dtype: type[DType]) -> type[DType]:
        """Return the dtype of the result for operands of `dtype`."""
        return BOOL if self.asks else dtype


class Flags(TypedDict, total=False):
    """The optional attributes of an `ElementwiseOperation`, as keyword arguments."""

    asks: bool
    exact: bool
    wide: bool
    like: str


Row = tuple[str, Callable[..., Array], str, str, Flags]


def _operations(arity: int, *rows: Row) -> dict[str, ElementwiseOperation]:
    return {
        name: ElementwiseOperation(name, arity, function, says, takes=takes, **flags)
        for name, function, says, takes, flags in rows
    }


_PLAIN: Flags = {}
_EXACT: Flags = {"exact": True}
_WIDE: Flags = {"wide": True}
_ASKS: Flags = {"asks": True}

UNARY = _operations(
    1,
    ("ABSOLUTE", np.absolute, "the magnitude of a", NUMBERS, _EXACT),
    ("ASIN", np.arcsin, "the arc sine of a", FLOATS, _PLAIN),
    ("BITWISE_NOT", np.invert, "a with every bit inverted", WHOLE, _PLAIN),
    ("CBRT", np.cbrt, "the cube root of a", FLOATS, _PLAIN),
    ("CEIL", np.ceil, "a, rounded up", FLOATS, _EXACT),
    ("COS", np.cos, "the cosine of a", FLOATS, _PLAIN),
    (
        "COUNT_LEADING_ZEROS",
        arithmetic.count_leading_zeros,
        "the number of leading zero bits of a",
        WHOLE,
        _PLAIN,
    ),
    ("ERF", arithmetic.erf, "the error function of a", FLOATS, _WIDE),
    ("EXPONENT", np.exp, "e to the power of a", FLOATS, _PLAIN),
    ("EXPONENT2", np.exp2, "2 to the power of a", FLOATS, _PLAIN),
    ("EXPONENT_MINUS_ONE", np.expm1, "e to the power of a, minus 1", FLOATS, _PLAIN),
    ("FLOOR", np.floor, "a, rounded down", FLOATS, _EXACT),
    (
        "GELU_ERF",
        arithmetic.gelu_erf,
        "a times the probability that a standard normal number is below a",
        FLOATS,
        _WIDE,
    ),
    ("INVERSE", np.reciprocal, "1 / a", FLOATS, _EXACT),
    ("IS_FINITE", np.isfinite, "whether a is neither infinite nor NaN", FLOATS, _ASKS),
    ("IS_INF", np.isinf, "whether a is infinite", FLOATS, _ASKS),
    ("IS_NAN", np.isnan, "whether a is NaN", FLOATS, _ASKS),
    ("LOGARITHM", np.log, "the natural logarithm of a", FLOATS, _PLAIN),
    ("LOGARITHM_ONE_PLUS", np.log1p, "the natural logarithm of 1 + a", FLOATS, _PLAIN),
    ("LOGICAL_NOT", np.logical_not, "whether a is false", BOOLS, _PLAIN),
    (
        "NEARBY_INT",
        np.rint,
        "a, rounded to the nearest whole number, halves to even",
        FLOATS,
        _EXACT,
    ),
    ("NEGATE", np.negative, "-a", NUMBERS, _EXACT),
    ("POPCOUNT", arithmetic.popcount, "the number of bits of a that are 1", WHOLE, _PLAIN),
    (
        "RELU",
        lambda a: np.maximum(a, a.dtype.type(0)),
        "a, or 0 if it is negative",
        NUMBERS,
        _EXACT,
    ),
    (
        "ROUND",
        arithmetic.round_away,
        "a, rounded to the nearest whole number, halves away from 0",
        FLOATS,
        _EXACT,
    ),
    ("RSQRT", arithmetic.rsqrt, "1 / the square root of a", FLOATS, _WIDE),
    ("SIGMOID", arithmetic.sigmoid, "1 / (1 + e to the power of -a)", FLOATS, _WIDE),
    ("SIGNUM", np.sign, "-1, 0 or 1: the sign of a", NUMBERS, _EXACT),
    ("SIN", np.sin, "the sine of a", FLOATS, _PLAIN),
    ("SQRT", np.sqrt, "the square root of a", FLOATS, _EXACT),
    ("SQUARE", np.square, "a times a", NUMBERS, _EXACT),
    ("TAN", np.tan, "the tangent of a", FLOATS, _PLAIN),
    ("TANH", np.tanh, "the hyperbolic tangent of a", FLOATS, _PLAIN),
    ("TRUNC", np.trunc, "a, truncated towards 0", FLOATS, _EXACT),
)

BINARY = _operations(
    2,
    ("ADD", np.add, "a + b", NUMBERS, _EXACT),
    ("ATAN2", np.arctan2, "the angle whose tangent is a / b", FLOATS, _PLAIN),
    ("BITWISE_AND", np.bitwise_and, "the bits that are 1 in both a and b", WHOLE, _PLAIN),
    ("BITWISE_OR", np.bitwise_or, "the bits that are 1 in a, b or both", WHOLE, _PLAIN),
    ("BITWISE_XOR", np.bitwise_xor, "the bits that differ between a and b", WHOLE, _PLAIN),
    ("BITWISE_XNOR", arithmetic.bitwise_xnor, "the bits that are equal in a and b", WHOLE, _PLAIN),
    (
        "DIVIDE",
        arithmetic.divide,
        "a / b; for integers truncated towards 0, and 0 if b is 0",
        NUMBERS,
        _EXACT,
    ),
    ("EQUAL", np.equal, "whether a = b", ANYTHING, _ASKS),
    ("GREATER_THAN_EQUAL", np.greater_equal, "whether a >= b", ANYTHING, _ASKS),
    ("GREATER_THAN", np.greater, "whether a > b", ANYTHING, _ASKS),
    (
        "INV_STD_DEV_TO_VARIANCE",
        arithmetic.inv_std_dev_to_variance,
        "1 / (a squared) - b",
        FLOATS,
        {"wide": True, "like": "DIVIDE"},
    ),
    ("LESS_THAN_EQUAL", np.less_equal, "whether a <= b", ANYTHING, _ASKS),
    ("LOGICAL_AND", np.logical_and, "whether both are true", BOOLS, _PLAIN),
    ("LOGICAL_OR", np.logical_or, "whether one or both are true", BOOLS, _PLAIN),
    ("LESS_THAN", np.less, "whether a < b", ANYTHING, _ASKS),
    ("MAXIMUM", np.maximum, "the larger of a and b, or NaN if one is NaN", NUMBERS, _EXACT),
    ("MINIMUM", np.minimum, "the smaller of a and b, or NaN if one is NaN", NUMBERS, _EXACT),
    ("MULTIPLY", np.multiply, "a * b element by element", NUMBERS, _EXACT),
    ("NOT_EQUAL", np.not_equal, "whether a and b differ", ANYTHING, _ASKS),
    ("POWER", arithmetic.power, "a to the power of b", NUMBERS, _PLAIN),
    (
        "REMAINDER",
        np.fmod,
        "the remainder of a / b, with the sign of a; for integers 0 if b is 0",
        NUMBERS,
        _EXACT,
    ),
    ("SHIFT_LEFT", arithmetic.shift_left, "a shifted b bits to the left", WHOLE, _PLAIN),
    (
        "SHIFT_RIGHT",
        arithmetic.shift_right,
        "a shifted b bits to the right; zeros are shifted in",
        WHOLE,
        _PLAIN,
    ),
    (
        "SHIFT_RIGHT_SIGN_EXTEND",
        np.right_shift,
        "a shifted b bits to the right; copies of the sign bit are shifted in",
        WHOLE,
        _PLAIN,
    ),
    ("SUBTRACT", np.subtract, "a - b", NUMBERS, _EXACT),
    (
        "VARIANCE_TO_INV_STD_DEV",
        arithmetic.variance_to_inv_std_dev,
        "1 / the square root of a + b",
        FLOATS,
        {"wide": True, "like": "DIVIDE"},
    ),
)

TERNARY = _operations(
    3,
    (
        "CLAMP",
        arithmetic.clamp,
        "a, but at least b and at most c",
        NUMBERS,
        {"exact": True, "like": "MAXIMUM"},
    ),
    ("SELECT", arithmetic.select, "a where c is true, else b", ANYTHING, _EXACT),
)

OPERATIONS = UNARY | BINARY | TERNARY


def evaluate(name: str, *operands: Array) -> Array:
    """Return the results of the operation `name` for numpy arrays, element by element.

    The results have the dtype of the operands, or BOOL for comparisons and tests. While a codelet
    is traced, the operands may be symbolic arrays instead of numpy arrays.
    """
    operation = OPERATIONS[name]
    dtype = operands[0].dtype
    is_rounded = (
        dtype.kind == "f"
        and not operation.asks
        and (operation.wide or not (operation.exact or dtype.itemsize == 4))
    )
    if not is_rounded:
        return operation.function(*operands)
    return operation.function(*(operand.astype(np.float64) for operand in operands)).astype(dtype)


def rated(
    rates: Rates, operation: ElementwiseOperation, dtype: type[DType]
) -> tuple[str, type[DType]]:
    """Return `(name, dtype)`: the key of the entry in `rates` that gives the cycles of `operation`.

    `rates` is PopLibs' table of cycles in a loop. The name is `operation.like` if that is set,
    otherwise `operation.name`. If the table has no entry for `dtype`, the entry for INT is used,
    and if that is missing too, the entry for FLOAT.
    """
    name = operation.like or operation.name
    for candidate_dtype in (dtype, INT):
        try:
            find(rates, name, candidate_dtype, operation.name)
        except MissingPerfEstimateError:
            continue
        return name, candidate_dtype
    return name, FLOAT
