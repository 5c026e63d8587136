"""Integers: their widths, their division and remainders, and their bits.

int8 to int64 are INT, which has 32 bits. Results of int8, int16 and uint8 wrap to their width.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.elementwise import in_dtype
from ipu_teach.frontends.pytorch.rows.registry import (
    MOVES,
    Results,
    as_bool,
    as_dtype,
    is_float,
    row,
)
from ipu_teach.types import BOOL, INT

# widths in bits of the integer dtypes that wrap before INT does
NARROW = {"uint8": 8, "int8": 8, "int16": 16}


def narrowed(graph: Ir, name: str, results: Results, value: Value) -> Value:
    """Return an integer result of the row `name`, wrapped to the width that torch has for it."""
    dtype = str(getattr(results.tensors[0], "dtype", "")).removeprefix("torch.")
    if dtype not in NARROW or name in MOVES or value.dtype is not INT:
        return value
    bits = NARROW[dtype]
    if dtype.startswith("u"):
        return graph.op("bitwise_and", value, 2**bits - 1)
    raised = graph.op("shift_left", value, 32 - bits)
    return graph.op("shift_right", raised, 32 - bits)


# --- division -------------------------------------------------------------------------------------


def _check_divisor(graph: Ir, divisor: Value) -> None:
    if divisor.dtype is INT and divisor.number == 0:
        raise Unfit("an integer is divided by 0", "divide by another number, or by 0.0.")


def _unlike_signs(graph: Ir, rest: Value, divisor: Value) -> Value:
    """Return whether a remainder has another sign than its divisor."""
    zero = graph.constant(0, rest.dtype)
    signs = graph.op("neq", graph.op("lt", rest, zero), graph.op("lt", divisor, zero))
    return graph.op("logical_and", graph.op("neq", rest, zero), signs)


def _floored(graph: Ir, a: Value, b: Value) -> Value:
    """Return a / b rounded down, as torch computes it: from the remainder, which is exact."""
    quotient = graph.op("div", a, b)
    rest = graph.op("rem", a, b)
    if not a.floating:
        down = graph.op("sub", quotient, 1)
        return graph.op("select", _unlike_signs(graph, rest, b), down, quotient)
    share = graph.op("div", graph.op("sub", a, rest), b)
    share = graph.op("select", _unlike_signs(graph, rest, b), graph.op("sub", share, 1.0), share)
    whole = graph.op("floor", share)
    is_above = graph.op("gt", graph.op("sub", share, whole), 0.5)
    whole = graph.op("select", is_above, graph.op("add", whole, 1.0), whole)
    # a result of 0 has the sign of the quotient, and a division by 0 is infinite or NaN
    whole = graph.op("select", graph.op("eq", share, 0.0), graph.op("mul", quotient, 0.0), whole)
    return graph.op("select", graph.op("eq", b, 0.0), quotient, whole)


@row("div")
def _div(graph: Ir, results: Results, a: Any, b: Any, rounding_mode: str | None = None) -> Value:
    a, b = in_dtype(graph, results, a, b)
    _check_divisor(graph, b)
    if rounding_mode == "floor":
        return _floored(graph, a, b)
    quotient = graph.op("div", a, b)
    return graph.op("trunc", quotient) if rounding_mode and a.floating else quotient


@row("floor_divide")
def _floor_divide(graph: Ir, results: Results, a: Any, b: Any) -> Value:
    return _div(graph, results, a, b, "floor")


@row("fmod")
def _fmod(graph: Ir, results: Results, a: Any, b: Any) -> Value:
    a, b = in_dtype(graph, results, a, b)
    _check_divisor(graph, b)
    return graph.op("rem", a, b)


@row("remainder")
def _remainder(graph: Ir, results: Results, a: Any, b: Any) -> Value:
    a, b = in_dtype(graph, results, a, b)
    _check_divisor(graph, b)
    rest = graph.op("rem", a, b)
    return graph.op("select", _unlike_signs(graph, rest, b), graph.op("add", rest, b), rest)


# --- bits -----------------------------------------------------------------------------------------


def _bits(kind: str, of_bools: str) -> Callable[..., Value]:
    def combine(graph: Ir, results: Results, a: Any, b: Any) -> Value:
        if results.dtype is BOOL:
            return graph.op(of_bools, as_bool(graph, a), as_bool(graph, b))
        return graph.op(f"bitwise_{kind}", *in_dtype(graph, results, a, b))

    return combine


for _name, _of_bools in {"and": "logical_and", "or": "logical_or", "xor": "neq"}.items():
    row(f"bitwise_{_name}", f"__{_name}__")(_bits(_name, _of_bools))


@row("bitwise_not")
def _bitwise_not(graph: Ir, results: Results, x: Value) -> Value:
    return graph.op("logical_not" if x.dtype is BOOL else "bitwise_not", x)


def _shift_operands(graph: Ir, results: Results, a: Any, b: Any) -> list[Value]:
    if is_float(results.dtype):
        raise Unfit("a shift of floats", "multiply by a power of 2: x * 2.0**n.")
    return in_dtype(graph, results, a, b)


@row("bitwise_left_shift", "__lshift__")
def _left_shift(graph: Ir, results: Results, a: Any, b: Any) -> Value:
    """0 if the shift is negative or wider than the number."""
    a, b = _shift_operands(graph, results, a, b)
    inside = graph.op("logical_and", graph.op("gteq", b, 0), graph.op("lt", b, 32))
    bits = graph.op("select", inside, b, graph.constant(0, INT))
    return graph.op("select", inside, graph.op("shift_left", a, bits), graph.constant(0, INT))


@row("bitwise_right_shift", "__rshift__")
def _right_shift(graph: Ir, results: Results, a: Any, b: Any) -> Value:
    """Copies of the sign come in, also for a shift that is negative or wider than the number."""
    a, b = _shift_operands(graph, results, a, b)
    inside = graph.op("logical_and", graph.op("gteq", b, 0), graph.op("lt", b, 31))
    return graph.op("shift_right", a, graph.op("select", inside, b, graph.constant(31, INT)))


@row("_to_copy", "to")
def _to_copy(graph: Ir, results: Results, x: Value, *_: Any, **__: Any) -> Value:
    return as_dtype(graph, x, results.dtype)
