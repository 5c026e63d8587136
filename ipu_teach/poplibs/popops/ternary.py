"""Operations with three operands: select and clamp, each in three forms.

If all operands are tensors, the vertices Select and Clamp compute the operations. If some operands
are numbers, a fused expression of `popops.map` computes the operation.
"""

from __future__ import annotations

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import OWN, Free, check_mapped, check_tensor, library, refused
from ipu_teach.poplibs.popops import expr, forms, fused
from ipu_teach.poplibs.popops.forms import checked, tensors_of
from ipu_teach.poplibs.popops.operands import (
    ORDINALS,
    Checked,
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
    """Return a new tensor: the elements of a where `mask` (BOOL) is true, else the elements of b.

    Operands are broadcast as in numpy. a and b have the same dtype; one of the two may be a number.
    The result is mapped like the operand of its shape that has the fewest elements on its fullest
    tile, as in `map`. The call adds one compute set, with the cycles of PopLibs' Select, or of a
    fused expression if an operand is a number.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    return _new(graph, "SELECT", (a, b, mask), prog, name=debug_context)


@library
def select_in_place(
    graph: Graph, a: Free, b: Operand, mask: Free, prog: Program, debug_context: str = OWN
) -> None:
    """Replace the elements of a where `mask` (BOOL) is false by the elements of b.

    The requirements on the operands are those of `select`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    _in_place(graph, "SELECT", (a, b, mask), prog, name=debug_context)


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
    """Write to `out` the elements of a where `mask` (BOOL) is true, and of b where it is false.

    The requirements on the operands are those of `select`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    _with_output(graph, "SELECT", (a, b, mask), out, prog=prog, name=debug_context)


@library
def clamp(
    graph: Graph, x: Free, low: Operand, high: Operand, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a new tensor: x, limited to the range from `low` to `high`.

    Operands are broadcast as in numpy. The bounds are numbers or tensors of x's dtype. Where `low`
    is above `high`, the result is `high`. The result is mapped like the operand of its shape that
    has the fewest elements on its fullest tile, as in `map`. The call adds one compute set, with
    the cycles of PopLibs' Clamp, or of a fused expression if a bound is a number.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    return _new(graph, "CLAMP", (x, low, high), prog, name=debug_context)


@library
def clamp_in_place(
    graph: Graph, x: Free, low: Operand, high: Operand, prog: Program, debug_context: str = OWN
) -> None:
    """Limit the elements of x to the range from `low` to `high`, in place.

    The requirements on the operands are those of `clamp`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    _in_place(graph, "CLAMP", (x, low, high), prog, name=debug_context)


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
    """Write x, limited to the range from `low` to `high`, to `out`.

    The requirements on the operands are those of `clamp`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    _with_output(graph, "CLAMP", (x, low, high), out, prog=prog, name=debug_context)


Operands = tuple[Operand, Operand, Operand]


def _checked(
    graph: Graph, op: str, arguments: Operands
) -> tuple[list[Checked], list[Tensor], expr.Expr | None]:
    """Check the operands; return `(operands, tensors, expression)`.

    `operands` are the checked operands, and `tensors` the tensors among them. `expression` computes
    the operation if some operands are numbers; otherwise it is None.
    """
    operation = TERNARY[op]
    if op == "SELECT":
        mask = arguments[2]
        check_tensor(graph, ORDINALS[2], mask)
        assert isinstance(mask, Tensor)
        if mask.dtype is not BOOL:
            raise refused(f"""needs a mask of BOOL, but {ORDINALS[2]} is {mask.dtype.__name__}.
                where: {mask!r}
                next:  compare first: popops.gt(graph, x, 0, prog).""")
        check_mapped(graph, ORDINALS[2], mask)
        if not tensors_of(arguments[:2]):
            raise refused(
                "was given two numbers as a and b.",
                f"{arguments[0]} and {arguments[1]}",
                "give a tensor as a or b.",
            )
        operands = [*checked(graph, operation, *arguments[:2]), mask]
    else:
        check_tensor(graph, ORDINALS[0], arguments[0])
        operands = list(checked(graph, operation, *arguments))
    tensors = tensors_of(operands)
    common_shape(tensors)
    if len(tensors) == 3:
        return operands, tensors, None
    placeholders = iter((expr._1, expr._2, expr._3))
    terms = [
        next(placeholders)
        if isinstance(operand, Tensor)
        else expr.Const(operand.item(), tensors[0].dtype)
        for operand in operands
    ]
    return operands, tensors, expr.Select(*terms) if op == "SELECT" else expr.Clamp(*terms)


def _new(graph: Graph, op: str, arguments: Operands, prog: Program, name: str) -> Tensor:
    operands, tensors, expression = _checked(graph, op, arguments)
    if expression is not None:
        return fused.map(graph, expression, tensors, prog, debug_context=name)
    return forms.new(graph, TERNARY[op], operands, prog, name=name)


def _in_place(graph: Graph, op: str, arguments: Operands, prog: Program, name: str) -> None:
    check_tensor(graph, ORDINALS[0], arguments[0])
    operands, tensors, expression = _checked(graph, op, arguments)
    check_in_place(graph, tensors[0], TERNARY[op], common_shape(tensors))
    if expression is not None:
        return fused.map_in_place(graph, expression, tensors, prog, debug_context=name)
    return forms.write(graph, TERNARY[op], operands, None, prog=prog, name=name)


def _with_output(
    graph: Graph, op: str, arguments: Operands, out: Tensor, prog: Program, name: str
) -> None:
    operands, tensors, expression = _checked(graph, op, arguments)
    check_output(out, common_shape(tensors), TERNARY[op].result(tensors[0].dtype))
    if expression is not None:
        return fused.map_with_output(graph, expression, tensors, out, prog=prog, debug_context=name)
    return forms.write(graph, TERNARY[op], operands, out, prog=prog, name=name)
