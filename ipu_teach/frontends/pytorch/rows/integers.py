"""Lowering functions for integers: division, remainder, shifts and other operations on bits.

The dtypes uint8, int8, int16, int32 and int64 all become INT on the device, which has 32 bits.
Results of int8, int16 and uint8 are wrapped to their width.
"""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.elementwise import in_dtype
from ipu_teach.frontends.pytorch.rows.registry import (
    MOVES,
    Argument,
    Operand,
    Results,
    as_bool,
    as_dtype,
    is_float,
    row,
)
from ipu_teach.types import BOOL, INT

# The width in bits of each integer dtype that is narrower than INT.
NARROW = {"uint8": 8, "int8": 8, "int16": 16}


def wrap_to_width(graph: Ir, name: str, results: Results, value: Value) -> Value:
    """Return the result of the operation `name`, wrapped to the width of torch's integer dtype."""
    dtype = str(getattr(results.tensors[0], "dtype", "")).removeprefix("torch.")
    if dtype not in NARROW or name in MOVES or value.dtype is not INT:
        return value
    bits = NARROW[dtype]
    if dtype.startswith("u"):
        return graph.op("bitwise_and", value, 2**bits - 1)
    in_upper_bits = graph.op("shift_left", value, 32 - bits)
    return graph.op("shift_right", in_upper_bits, 32 - bits)


# --- division -------------------------------------------------------------------------------------


def _check_divisor(graph: Ir, divisor: Value) -> None:
    """Raise `Unfit` if `divisor` is the integer constant 0."""
    if divisor.dtype is INT and divisor.number == 0:
        raise Unfit(
            "the device does not divide integers by 0", "divide by another number, or by 0.0."
        )


def _unlike_signs(graph: Ir, rest: Value, divisor: Value) -> Value:
    """Return a BOOL value: True where `rest` is not 0 and has another sign than `divisor`."""
    zero = graph.constant(0, rest.dtype)
    signs_differ = graph.op("neq", graph.op("lt", rest, zero), graph.op("lt", divisor, zero))
    return graph.op("logical_and", graph.op("neq", rest, zero), signs_differ)


def _floored(graph: Ir, a: Value, b: Value) -> Value:
    """Return a / b rounded down.

    The quotient of floats is computed from their remainder, which is exact, as in torch.
    """
    quotient = graph.op("div", a, b)
    remainder = graph.op("rem", a, b)
    if not a.floating:
        next_lower = graph.op("sub", quotient, 1)
        return graph.op("select", _unlike_signs(graph, remainder, b), next_lower, quotient)
    rounded_quotient = graph.op("div", graph.op("sub", a, remainder), b)
    rounded_quotient = graph.op(
        "select",
        _unlike_signs(graph, remainder, b),
        graph.op("sub", rounded_quotient, 1.0),
        rounded_quotient,
    )
    floor = graph.op("floor", rounded_quotient)
    is_above = graph.op("gt", graph.op("sub", rounded_quotient, floor), 0.5)
    floor = graph.op("select", is_above, graph.op("add", floor, 1.0), floor)
    # As in torch, a 0 has the sign of the quotient, and a division by 0 is infinite or NaN.
    floor = graph.op(
        "select", graph.op("eq", rounded_quotient, 0.0), graph.op("mul", quotient, 0.0), floor
    )
    return graph.op("select", graph.op("eq", b, 0.0), quotient, floor)


@row("div")
def _div(
    graph: Ir, results: Results, a: Operand, b: Operand, rounding_mode: str | None = None
) -> Value:
    a, b = in_dtype(graph, results, a, b)
    _check_divisor(graph, b)
    if rounding_mode == "floor":
        return _floored(graph, a, b)
    quotient = graph.op("div", a, b)
    return graph.op("trunc", quotient) if rounding_mode and a.floating else quotient


@row("floor_divide")
def _floor_divide(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    return _div(graph, results, a, b, rounding_mode="floor")


@row("fmod")
def _fmod(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    a, b = in_dtype(graph, results, a, b)
    _check_divisor(graph, b)
    return graph.op("rem", a, b)


@row("remainder")
def _remainder(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    a, b = in_dtype(graph, results, a, b)
    _check_divisor(graph, b)
    remainder = graph.op("rem", a, b)
    return graph.op(
        "select", _unlike_signs(graph, remainder, b), graph.op("add", remainder, b), remainder
    )


# --- bits -----------------------------------------------------------------------------------------


def _bits(kind: str, of_bools: str) -> Callable[..., Value]:
    """Return the lowering function of the bitwise operation `kind`, such as "and".

    For BOOL, the function adds the logical operation `of_bools` instead.
    """

    def combine(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
        if results.dtype is BOOL:
            return graph.op(of_bools, as_bool(graph, a), as_bool(graph, b))
        return graph.op(f"bitwise_{kind}", *in_dtype(graph, results, a, b))

    return combine


for _name, _of_bools in {"and": "logical_and", "or": "logical_or", "xor": "neq"}.items():
    row(f"bitwise_{_name}", f"__{_name}__")(_bits(_name, _of_bools))


@row("bitwise_not")
def _bitwise_not(graph: Ir, results: Results, x: Value) -> Value:
    return graph.op("logical_not" if x.dtype is BOOL else "bitwise_not", x)


def _shift_operands(graph: Ir, results: Results, a: Operand, b: Operand) -> list[Value]:
    """Return the operands of a shift in the result's dtype.

    :raises Unfit: if the result is a float.
    """
    if is_float(results.dtype):
        raise Unfit("floats have no bits to shift", "multiply by a power of 2: x * 2.0**n.")
    return in_dtype(graph, results, a, b)


@row("bitwise_left_shift", "__lshift__")
def _left_shift(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    """Return `a << b`. The result is 0 if b is negative, or 32 or more."""
    a, b = _shift_operands(graph, results, a, b)
    is_valid = graph.op("logical_and", graph.op("gteq", b, 0), graph.op("lt", b, 32))
    bit_count = graph.op("select", is_valid, b, graph.constant(0, INT))
    return graph.op(
        "select", is_valid, graph.op("shift_left", a, bit_count), graph.constant(0, INT)
    )


@row("bitwise_right_shift", "__rshift__")
def _right_shift(graph: Ir, results: Results, a: Operand, b: Operand) -> Value:
    """Return `a >> b`, in which copies of the sign bit fill the upper bits.

    If b is negative, or 31 or more, all bits are copies of the sign bit.
    """
    a, b = _shift_operands(graph, results, a, b)
    is_valid = graph.op("logical_and", graph.op("gteq", b, 0), graph.op("lt", b, 31))
    return graph.op("shift_right", a, graph.op("select", is_valid, b, graph.constant(31, INT)))


@row("_to_copy", "to")
def _to_copy(graph: Ir, results: Results, x: Value, *_: Argument, **__: Argument) -> Value:
    return as_dtype(graph, x, results.dtype)
