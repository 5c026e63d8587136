"""Operations of three operands: select and clamp, each in three forms.

Where all operands are tensors, a vertex of their own does it; with numbers among them it is an
expression of `map`.
"""

from __future__ import annotations

from typing import Any

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import OWN, Free, check_mapped, check_tensor, library, refused
from ipu_teach.poplibs.popops import expr, forms, fused
from ipu_teach.poplibs.popops.forms import checked, tensors_of
from ipu_teach.poplibs.popops.operands import (
    ORDINALS,
    Operand,
    check_in_place,
    check_output,
    common_shape,
)
from ipu_teach.poplibs.popops.operations import TERNARY
from ipu_teach.program import Sequence as Program
from ipu_teach.types import BOOL

__all__ = [
    "clamp",
    "clamp_in_place",
    "clamp_with_output",
    "select",
    "select_in_place",
    "select_with_output",
]


@library
def select(
    graph: Graph, a: Operand, b: Operand, mask: Free, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a where `mask` (BOOL) is true, else b, in a new tensor; numpy's broadcasting.

    a and b are of one dtype; one of them may be a number. The result is mapped as the best spread
    operand of its shape, as by `map`. One compute set; costs PopLibs' Select, with numbers a fused
    expression.
    """
    return _new(graph, "SELECT", (a, b, mask), prog, debug_context)


@library
def select_in_place(
    graph: Graph, a: Free, b: Operand, mask: Free, prog: Program, debug_context: str = OWN
) -> None:
    """a keeps its elements where `mask` (BOOL) is true, and takes those of b elsewhere. Otherwise
    as `select`."""
    _in_place(graph, "SELECT", (a, b, mask), prog, debug_context)


@library
def select_with_output(
    graph: Graph,
    a: Operand,
    b: Operand,
    mask: Free,
    out: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> None:
    """out becomes a where `mask` (BOOL) is true, else b. Otherwise as `select`."""
    _with_output(graph, "SELECT", (a, b, mask), out, prog, debug_context)


@library
def clamp(
    graph: Graph, x: Free, low: Operand, high: Operand, prog: Program, debug_context: str = OWN
) -> Tensor:
    """x, but at least `low` and at most `high` (which wins if it is less), in a new tensor; numpy's
    broadcasting.

    The bounds are tensors of x's dtype, or numbers. The result is mapped as the best spread
    operand of its shape, as by `map`. One compute set; costs PopLibs' Clamp, with numbers a fused
    expression.
    """
    return _new(graph, "CLAMP", (x, low, high), prog, debug_context)


@library
def clamp_in_place(
    graph: Graph, x: Free, low: Operand, high: Operand, prog: Program, debug_context: str = OWN
) -> None:
    """x becomes at least `low` and at most `high`. Otherwise as `clamp`."""
    _in_place(graph, "CLAMP", (x, low, high), prog, debug_context)


@library
def clamp_with_output(
    graph: Graph,
    x: Free,
    low: Operand,
    high: Operand,
    out: Tensor,
    prog: Program,
    debug_context: str = OWN,
) -> None:
    """out becomes x, but at least `low` and at most `high`. Otherwise as `clamp`."""
    _with_output(graph, "CLAMP", (x, low, high), out, prog, debug_context)


def _checked(
    graph: Graph, op: str, arguments: tuple[Any, Any, Any]
) -> tuple[list[Any], list[Tensor], Any]:
    """Return (the operands, those that are tensors, the expression with numbers in it or None if
    all are), if they are right."""
    operation = TERNARY[op]
    mask = arguments[2:] if op == "SELECT" else ()
    if mask:
        check_tensor(graph, ORDINALS[2], *mask)
        if arguments[2].dtype is not BOOL:
            raise refused(f"""chooses by BOOL, but {ORDINALS[2]} is {arguments[2].dtype.__name__}.
                where: {arguments[2]!r}
                next:  compare first: popops.gt(graph, x, 0, prog).""")
        check_mapped(graph, ORDINALS[2], *mask)
        if not tensors_of(arguments[:2]):
            raise refused(
                "was given two numbers.",
                f"{arguments[0]} and {arguments[1]}",
                "make one of them a tensor.",
            )
    else:
        check_tensor(graph, ORDINALS[0], arguments[0])
    operands = [*checked(graph, operation, *arguments[: 3 - len(mask)]), *mask]
    tensors = tensors_of(operands)
    common_shape(tensors)
    if len(tensors) == 3:
        return operands, tensors, None
    places = iter((expr._1, expr._2, expr._3))
    terms = [
        next(places) if isinstance(x, Tensor) else expr.Const(x.item(), tensors[0].dtype)
        for x in operands
    ]
    return operands, tensors, expr.Select(*terms) if op == "SELECT" else expr.Clamp(*terms)


def _new(
    graph: Graph, op: str, arguments: tuple[Any, Any, Any], prog: Program, name: str
) -> Tensor:
    operands, tensors, expression = _checked(graph, op, arguments)
    if expression is not None:
        return fused.map(graph, expression, tensors, prog, name)
    return forms.new(graph, TERNARY[op], operands, prog, name)


def _in_place(
    graph: Graph, op: str, arguments: tuple[Any, Any, Any], prog: Program, name: str
) -> None:
    check_tensor(graph, ORDINALS[0], arguments[0])
    operands, tensors, expression = _checked(graph, op, arguments)
    check_in_place(graph, tensors[0], TERNARY[op], common_shape(tensors))
    if expression is not None:
        return fused.map_in_place(graph, expression, tensors, prog, name)
    return forms.write(graph, TERNARY[op], operands, None, prog, name)


def _with_output(
    graph: Graph, op: str, arguments: tuple[Any, Any, Any], out: Tensor, prog: Program, name: str
) -> None:
    operands, tensors, expression = _checked(graph, op, arguments)
    check_output(out, common_shape(tensors), TERNARY[op].result(tensors[0].dtype))
    if expression is not None:
        return fused.map_with_output(graph, expression, tensors, out, prog, name)
    return forms.write(graph, TERNARY[op], operands, out, prog, name)
