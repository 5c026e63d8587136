"""Expressions that are computed in FLOAT, for tensors of any dtype, and rounded once."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.graph import Tensor
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.expr import Expr, ExprLike
from ipu_teach.types import FLOAT, DType


def in_float(
    expression: Callable[..., ExprLike], *operands: Tensor | ExprLike, out: type[DType] = FLOAT
) -> tuple[ExprLike, list[Tensor]]:
    """Return a pair: `expression(*operands)`, computed in FLOAT, and the tensors in `operands`.

    Instead of each tensor, `expression` receives a placeholder that is converted to FLOAT. `out` is
    the dtype to which the result is converted.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    placeholders = (expr.PlaceHolder(number + 1) for number in range(len(tensors)))
    float_operands = [
        _wide(next(placeholders), operand) if isinstance(operand, Tensor) else operand
        for operand in operands
    ]
    result = expression(*float_operands)
    return result if out is FLOAT else expr.Cast(result, out), tensors


def _wide(place: Expr, tensor: Tensor) -> Expr:
    return place if tensor.dtype is FLOAT else expr.Cast(place, FLOAT)
