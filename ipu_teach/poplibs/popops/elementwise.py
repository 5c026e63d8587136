"""Elementwise operations with one operand and with two operands, each in three forms.

    out = popops.exp(graph, x, prog)                  # returns a new tensor, mapped like x
    popops.exp_in_place(graph, x, prog)               # writes the result to x itself
    popops.exp_with_output(graph, x, out, prog)       # writes the result to an existing tensor

A call adds one compute set with one vertex per tile. Each vertex computes the elements of the
result that are on its tile, so operands on other tiles are exchanged. Two operands broadcast as in
numpy, and one of the two may be a number.

A new tensor has the tile mapping of the operand whose shape is that of the result. If both operands
have this shape, it has the mapping of the operand with fewer elements on its fullest tile, as in
PopLibs. Views that repeat elements are not considered. If no operand remains, the result is mapped
linearly. The module `ipu_teach.poplibs.popops.operations` describes dtypes, values and costs.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import isfunction
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import OWN, Free, library
from ipu_teach.poplibs.popops import forms
from ipu_teach.poplibs.popops.forms import checked
from ipu_teach.poplibs.popops.operands import ORDINALS, Operand, check_operand
from ipu_teach.poplibs.popops.operations import (
    ANYTHING,
    BINARY,
    BOOLS,
    FLOATS,
    NUMBERS,
    UNARY,
    WHOLE,
    ElementwiseOperation,
)
from ipu_teach.poplibs.poputil import seen_in
from ipu_teach.program import Sequence as Program

P = ParamSpec("P")
R = TypeVar("R")
_KINDS = {
    NUMBERS: "of any numeric dtype except 8-bit floats",
    FLOATS: "FLOAT or HALF",
    WHOLE: "integer",
    BOOLS: "BOOL",
    ANYTHING: "of any dtype except 8-bit floats",
}


class UnaryFunction(Protocol):
    """The signature of a function such as `exp(graph, x, prog)`, which returns a new tensor."""

    def __call__(
        self, graph: Graph, a: Tensor, prog: Program, debug_context: str = ...
    ) -> Tensor: ...


class UnaryInPlace(Protocol):
    """The signature of a function such as `exp_in_place(graph, x, prog)`, which overwrites x."""

    def __call__(
        self, graph: Graph, a: Tensor, prog: Program, debug_context: str = ...
    ) -> None: ...


class UnaryWithOutput(Protocol):
    """The signature of a function such as `exp_with_output(graph, x, out, prog)`."""

    def __call__(
        self, graph: Graph, a: Tensor, out: Tensor, prog: Program, debug_context: str = ...
    ) -> None: ...


class BinaryFunction(Protocol):
    """The signature of a function such as `add(graph, a, b, prog)`, which returns a new tensor."""

    def __call__(
        self, graph: Graph, a: Operand, b: Operand, prog: Program, debug_context: str = ...
    ) -> Tensor: ...


class BinaryInPlace(Protocol):
    """The signature of a function such as `add_in_place(graph, a, b, prog)`, which overwrites a."""

    def __call__(
        self, graph: Graph, a: Tensor, b: Operand, prog: Program, debug_context: str = ...
    ) -> None: ...


class BinaryWithOutput(Protocol):
    """The signature of a function such as `add_with_output(graph, a, b, out, prog)`."""

    def __call__(
        self,
        graph: Graph,
        a: Operand,
        b: Operand,
        out: Tensor,
        prog: Program,
        debug_context: str = ...,
    ) -> None: ...


def _named(function: Callable[P, R], name: str, text: str) -> Callable[P, R]:
    """Return `function` as a library function with this name and docstring."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return library(function)


def _dtypes(operation: ElementwiseOperation) -> str:
    result = "The result is BOOL." if operation.asks else "The result has their dtype."
    if operation.arity == 1 and not operation.asks:
        result = "The result has its dtype."
    noun = "The operand is" if operation.arity == 1 else "Operands are"
    return f"{noun} {_KINDS[operation.takes]}. {result}"


def _unary(name: str, op: str) -> tuple[UnaryFunction, UnaryInPlace, UnaryWithOutput]:
    """Return three functions for the operation `op` with one operand.

    Their names are `name`, and `name` followed by `_in_place` and by `_with_output`.
    """
    operation = UNARY[op]
    place = f"{name}_in_place"
    fill = f"{name}_with_output"

    def new(graph: Graph, a: Free, prog: Program, debug_context: str = OWN) -> Tensor:
        return forms.new(graph, operation, checked(graph, operation, a), prog, name=debug_context)

    def in_place(graph: Graph, a: Free, prog: Program, debug_context: str = OWN) -> None:
        forms.in_place(graph, operation, checked(graph, operation, a), prog, name=debug_context)

    def with_output(
        graph: Graph, a: Free, out: Tensor, prog: Program, debug_context: str = OWN
    ) -> None:
        forms.into(
            graph, operation, checked(graph, operation, a), out, prog=prog, name=debug_context
        )

    dtypes = _dtypes(operation)
    return (
        _named(
            new, name, f"Return {operation.says}, element by element, in a new tensor. {dtypes}"
        ),
        _named(in_place, place, f"Replace a by {operation.says}, element by element. {dtypes}"),
        _named(with_output, fill, f"Write {operation.says} to `out`, element by element. {dtypes}"),
    )


def _binary(name: str, op: str) -> tuple[BinaryFunction, BinaryInPlace, BinaryWithOutput]:
    """Return three functions for the operation `op` with two operands.

    Their names are `name`, and `name` followed by `_in_place` and by `_with_output`.
    """
    operation = BINARY[op]
    place = f"{name}_in_place"
    fill = f"{name}_with_output"

    def new(
        graph: Graph, a: Operand, b: Operand, prog: Program, debug_context: str = OWN
    ) -> Tensor:
        return forms.new(
            graph, operation, checked(graph, operation, a, b), prog, name=debug_context
        )

    def in_place(
        graph: Graph, a: Free, b: Operand, prog: Program, debug_context: str = OWN
    ) -> None:
        check_operand(graph, ORDINALS[0], a, operation)
        operands = checked(graph, operation, a, b)
        if isinstance(b, Tensor):
            seen_in(b, a.shape)  # If b does not broadcast to a, this raises an error that names b.
        forms.in_place(graph, operation, operands, prog, name=debug_context)

    def with_output(
        graph: Graph, a: Operand, b: Operand, out: Tensor, prog: Program, debug_context: str = OWN
    ) -> None:
        forms.into(
            graph, operation, checked(graph, operation, a, b), out, prog=prog, name=debug_context
        )

    rule = "with numpy's broadcasting; one operand may be a number"
    dtypes = _dtypes(operation)
    return (
        _named(new, name, f"Return {operation.says}, {rule}. {dtypes}"),
        _named(
            in_place,
            place,
            f"Replace a by {operation.says}; b is broadcast to a, or is a number. {dtypes}",
        ),
        _named(with_output, fill, f"Write {operation.says} to `out`, {rule}. {dtypes}"),
    )


add, add_in_place, add_with_output = _binary("add", "ADD")
sub, sub_in_place, sub_with_output = _binary("sub", "SUBTRACT")
mul, mul_in_place, mul_with_output = _binary("mul", "MULTIPLY")
div, div_in_place, div_with_output = _binary("div", "DIVIDE")
pow, pow_in_place, pow_with_output = _binary("pow", "POWER")
rem, rem_in_place, rem_with_output = _binary("rem", "REMAINDER")
max, max_in_place, max_with_output = _binary("max", "MAXIMUM")
min, min_in_place, min_with_output = _binary("min", "MINIMUM")
atan2, atan2_in_place, atan2_with_output = _binary("atan2", "ATAN2")
eq, eq_in_place, eq_with_output = _binary("eq", "EQUAL")
neq, neq_in_place, neq_with_output = _binary("neq", "NOT_EQUAL")
lt, lt_in_place, lt_with_output = _binary("lt", "LESS_THAN")
lteq, lteq_in_place, lteq_with_output = _binary("lteq", "LESS_THAN_EQUAL")
gt, gt_in_place, gt_with_output = _binary("gt", "GREATER_THAN")
gteq, gteq_in_place, gteq_with_output = _binary("gteq", "GREATER_THAN_EQUAL")
logical_and, logical_and_in_place, logical_and_with_output = _binary("logical_and", "LOGICAL_AND")
logical_or, logical_or_in_place, logical_or_with_output = _binary("logical_or", "LOGICAL_OR")
bitwise_and, bitwise_and_in_place, bitwise_and_with_output = _binary("bitwise_and", "BITWISE_AND")
bitwise_or, bitwise_or_in_place, bitwise_or_with_output = _binary("bitwise_or", "BITWISE_OR")
bitwise_xor, bitwise_xor_in_place, bitwise_xor_with_output = _binary("bitwise_xor", "BITWISE_XOR")
bitwise_xnor, bitwise_xnor_in_place, bitwise_xnor_with_output = _binary(
    "bitwise_xnor", "BITWISE_XNOR"
)
shift_left, shift_left_in_place, shift_left_with_output = _binary("shift_left", "SHIFT_LEFT")
shift_right, shift_right_in_place, shift_right_with_output = _binary("shift_right", "SHIFT_RIGHT")
(
    shift_right_sign_extend,
    shift_right_sign_extend_in_place,
    shift_right_sign_extend_with_output,
) = _binary("shift_right_sign_extend", "SHIFT_RIGHT_SIGN_EXTEND")
(
    inv_std_dev_to_variance,
    inv_std_dev_to_variance_in_place,
    inv_std_dev_to_variance_with_output,
) = _binary("inv_std_dev_to_variance", "INV_STD_DEV_TO_VARIANCE")
(
    variance_to_inv_std_dev,
    variance_to_inv_std_dev_in_place,
    variance_to_inv_std_dev_with_output,
) = _binary("variance_to_inv_std_dev", "VARIANCE_TO_INV_STD_DEV")

abs, abs_in_place, abs_with_output = _unary("abs", "ABSOLUTE")
asin, asin_in_place, asin_with_output = _unary("asin", "ASIN")
bitwise_not, bitwise_not_in_place, bitwise_not_with_output = _unary("bitwise_not", "BITWISE_NOT")
cbrt, cbrt_in_place, cbrt_with_output = _unary("cbrt", "CBRT")
ceil, ceil_in_place, ceil_with_output = _unary("ceil", "CEIL")
cos, cos_in_place, cos_with_output = _unary("cos", "COS")
(
    count_leading_zeros,
    count_leading_zeros_in_place,
    count_leading_zeros_with_output,
) = _unary("count_leading_zeros", "COUNT_LEADING_ZEROS")
erf, erf_in_place, erf_with_output = _unary("erf", "ERF")
exp, exp_in_place, exp_with_output = _unary("exp", "EXPONENT")
exp2, exp2_in_place, exp2_with_output = _unary("exp2", "EXPONENT2")
expm1, expm1_in_place, expm1_with_output = _unary("expm1", "EXPONENT_MINUS_ONE")
floor, floor_in_place, floor_with_output = _unary("floor", "FLOOR")
gelu_erf, gelu_erf_in_place, gelu_erf_with_output = _unary("gelu_erf", "GELU_ERF")
inv, inv_in_place, inv_with_output = _unary("inv", "INVERSE")
is_finite, _, is_finite_with_output = _unary("is_finite", "IS_FINITE")
is_inf, _, is_inf_with_output = _unary("is_inf", "IS_INF")
is_nan, _, is_nan_with_output = _unary("is_nan", "IS_NAN")
log, log_in_place, log_with_output = _unary("log", "LOGARITHM")
log1p, log1p_in_place, log1p_with_output = _unary("log1p", "LOGARITHM_ONE_PLUS")
logical_not, logical_not_in_place, logical_not_with_output = _unary("logical_not", "LOGICAL_NOT")
nearby_int, nearby_int_in_place, nearby_int_with_output = _unary("nearby_int", "NEARBY_INT")
neg, neg_in_place, neg_with_output = _unary("neg", "NEGATE")
popcount, popcount_in_place, popcount_with_output = _unary("popcount", "POPCOUNT")
relu, relu_in_place, relu_with_output = _unary("relu", "RELU")
round, round_in_place, round_with_output = _unary("round", "ROUND")
rsqrt, rsqrt_in_place, rsqrt_with_output = _unary("rsqrt", "RSQRT")
sigmoid, sigmoid_in_place, sigmoid_with_output = _unary("sigmoid", "SIGMOID")
signum, signum_in_place, signum_with_output = _unary("signum", "SIGNUM")
sin, sin_in_place, sin_with_output = _unary("sin", "SIN")
sqrt, sqrt_in_place, sqrt_with_output = _unary("sqrt", "SQRT")
square, square_in_place, square_with_output = _unary("square", "SQUARE")
tan, tan_in_place, tan_with_output = _unary("tan", "TAN")
tanh, tanh_in_place, tanh_with_output = _unary("tanh", "TANH")
trunc, trunc_in_place, trunc_with_output = _unary("trunc", "TRUNC")

if not TYPE_CHECKING:  # mypy cannot evaluate this `__all__`, and would see no public names.
    __all__ = [
        n
        for n, f in globals().items()
        if isfunction(f) and f.__module__ == __name__ and not n.startswith("_")
    ]
