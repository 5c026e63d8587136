"""Inner loops of PopLibs' elementwise operations.

Source: graphcore/poplibs, lib/popops/popopsCycleEstimators.hpp. Operations have the names of
PopLibs' enums.

- `unrolled(10, 2)`: ten cycles for two elements, including the instructions around the loop.
- `vector(1)`: one cycle for as many elements as fit in a data path (2 FLOAT, 4 HALF).
- `scalar(4)`: four cycles for each element.

For `vector` and `scalar`, the vertex adds the cycles of the instructions around the loop.
"""

from __future__ import annotations

from ipu_teach.cost.vertices.parts import Rate, Rates, scalar, unrolled, vector
from ipu_teach.types import BOOL, FLOAT, HALF, INT, LONGLONG, SHORT, UNSIGNED_INT, DType

# Maps each operation to its rates. The first two are for FLOAT and HALF. If there are four rates,
# the last two are for the operation in place, again for FLOAT and HALF.
_FLOATING: dict[str, tuple[Rate, ...]] = {
    "EXPONENT": (unrolled(6, 2), unrolled(4, 4)),
    "EXPONENT2": (unrolled(6, 2), unrolled(4, 4)),
    "LOGARITHM": (unrolled(12, 2), unrolled(4, 4), unrolled(14, 2), unrolled(6, 4)),
    "TANH": (unrolled(12, 2), unrolled(4, 4), unrolled(10, 2), unrolled(2, 4)),
    "SIGMOID": (unrolled(12, 2), unrolled(6, 4), unrolled(10, 2), unrolled(4, 4)),
    "RELU": (unrolled(3, 2), unrolled(3, 4), unrolled(2, 2), unrolled(2, 4)),
    "NEGATE": (unrolled(2, 2), unrolled(2, 4), unrolled(3, 2), unrolled(3, 4)),
    "SQUARE": (unrolled(2, 2), unrolled(2, 4)),
    "SQRT": (unrolled(10, 2), unrolled(23, 4)),
    "RSQRT": (unrolled(8, 2), unrolled(19, 4)),
    "INVERSE": (unrolled(6, 2), unrolled(15, 4)),
    "ABSOLUTE": (scalar(1), scalar(1), vector(1), vector(1)),
    "CEIL": (vector(2), vector(2)),
    "FLOOR": (vector(2), vector(2)),
    "ROUND": (vector(2), vector(2)),
    "NEARBY_INT": (vector(2), vector(2)),
    "TRUNC": (unrolled(3, 2), unrolled(11, 4), unrolled(4, 2), unrolled(11, 4)),
    "SIGNUM": (vector(5), vector(5)),
    "SIN": (scalar(2300), unrolled(25, 1)),
    "COS": (scalar(2300), unrolled(25, 1)),
    "TAN": (unrolled(5100, 1), unrolled(5700, 1)),
    "ERF": (unrolled(41, 1), unrolled(13, 1)),
    "GELU_ERF": (unrolled(22, 1), unrolled(16, 1)),
    "CBRT": (vector(27), vector(17)),
    "LOGARITHM_ONE_PLUS": (vector(18), vector(18), vector(18), vector(17)),
    "EXPONENT_MINUS_ONE": (scalar(4), vector(5)),
    "IS_FINITE": (vector(5), vector(5)),
    "IS_INF": (vector(3), vector(5)),
    "IS_NAN": (vector(3), vector(3)),
    "ASIN": (scalar(102), scalar(102)),
}
_WHOLE: dict[tuple[str, type[DType]], Rate] = {
    ("ABSOLUTE", INT): scalar(2),
    ("NEGATE", INT): scalar(2),
    ("SIGNUM", INT): scalar(5),
    ("SQRT", INT): scalar(110),
    ("SQUARE", INT): vector(1),
    ("BITWISE_NOT", INT): vector(1),
    ("POPCOUNT", INT): scalar(1),
    ("COUNT_LEADING_ZEROS", INT): scalar(1),
    ("LOGICAL_NOT", BOOL): scalar(17),
}
UNARY: Rates = {
    **{
        (op, dtype): rate
        for op, rates in _FLOATING.items()
        for dtype, rate in zip((FLOAT, HALF), rates[:2], strict=True)
    },
    **_WHOLE,
}
UNARY_IN_PLACE: Rates = {
    **{
        (op, dtype): rate
        for op, rates in _FLOATING.items()
        for dtype, rate in zip((FLOAT, HALF), rates[-2:], strict=True)
    },
    **_WHOLE,
    ("LOGICAL_NOT", BOOL): vector(17),
}

_COMPARISONS = (
    "EQUAL",
    "NOT_EQUAL",
    "GREATER_THAN",
    "GREATER_THAN_EQUAL",
    "LESS_THAN",
    "LESS_THAN_EQUAL",
)
_BITWISE = ("BITWISE_AND", "BITWISE_OR", "BITWISE_XOR", "BITWISE_XNOR")
_SHIFTS = ("SHIFT_LEFT", "SHIFT_RIGHT", "SHIFT_RIGHT_SIGN_EXTEND")
_ARITHMETIC = ("ADD", "SUBTRACT", "MULTIPLY")

BINARY: Rates = {
    **{(op, dtype): vector(1) for op in _ARITHMETIC for dtype in (FLOAT, HALF)},
    **{(op, INT): unrolled(7, 1) for op in (*_ARITHMETIC, *_BITWISE, *_SHIFTS)},
    ("ADD", LONGLONG): unrolled(11, 1),
    ("SUBTRACT", LONGLONG): unrolled(11, 1),
    ("MULTIPLY", LONGLONG): unrolled(30, 1),
    ("DIVIDE", FLOAT): unrolled(10, 2),
    ("DIVIDE", HALF): unrolled(21, 4),
    ("DIVIDE", INT): unrolled(277, 1),
    ("DIVIDE", UNSIGNED_INT): unrolled(265, 1),
    **{(op, FLOAT): unrolled(3, 2) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, HALF): unrolled(4, 4) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, INT): unrolled(7, 1) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, UNSIGNED_INT): unrolled(8, 1) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, LONGLONG): unrolled(15, 1) for op in ("MAXIMUM", "MINIMUM")},
    ("POWER", FLOAT): unrolled(312, 1),
    ("POWER", HALF): unrolled(325, 1),
    ("POWER", INT): unrolled(32, 1),
    ("REMAINDER", FLOAT): unrolled(133, 2),
    ("REMAINDER", HALF): unrolled(300, 4),
    ("REMAINDER", INT): unrolled(292, 1),
    ("ATAN2", FLOAT): unrolled(272, 2),
    ("ATAN2", HALF): unrolled(578, 4),
    **{(op, FLOAT): unrolled(20 if op == "NOT_EQUAL" else 14, 4) for op in _COMPARISONS},
    **{(op, HALF): unrolled(11 if op == "NOT_EQUAL" else 9, 4) for op in _COMPARISONS},
    **{(op, INT): unrolled(26 if op.endswith("THAN_EQUAL") else 22, 4) for op in _COMPARISONS},
    ("BITWISE_AND", SHORT): unrolled(3, 4),
    ("BITWISE_OR", SHORT): unrolled(3, 4),
    ("BITWISE_XOR", SHORT): unrolled(5, 2),
    ("LOGICAL_AND", BOOL): unrolled(5, 4),
    ("LOGICAL_OR", BOOL): unrolled(5, 4),
}

# The rates of operations between a region and a single number. Operations that are not listed have
# the rates in `BINARY`.
BROADCAST: Rates = {
    **BINARY,
    **{(op, dtype): vector(1) for op in _ARITHMETIC for dtype in (FLOAT, HALF)},
    **{(op, INT): unrolled(6, 1) for op in (*_ARITHMETIC, *_BITWISE, *_SHIFTS)},
    ("ADD", LONGLONG): unrolled(9, 1),
    ("SUBTRACT", LONGLONG): unrolled(9, 1),
    ("MULTIPLY", LONGLONG): unrolled(26, 1),
    ("DIVIDE", FLOAT): unrolled(6, 2),
    ("DIVIDE", HALF): unrolled(8, 2),
    **{(op, FLOAT): unrolled(3, 2) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, HALF): unrolled(3, 4) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, INT): unrolled(6, 1) for op in ("MAXIMUM", "MINIMUM")},
    **{(op, FLOAT): unrolled(12, 4) for op in _COMPARISONS},
    **{(op, HALF): unrolled(8, 4) for op in _COMPARISONS},
}
