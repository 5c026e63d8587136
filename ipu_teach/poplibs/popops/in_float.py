"""Expressions that are computed in FLOAT, whatever the dtypes of tensors, and rounded once."""

from __future__ import annotations

from collections.abc import Callable

from ipu_teach.graph import Tensor
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.expr import Expr, ExprLike
from ipu_teach.types import FLOAT, DType


def in_float(
    expression: Callable[..., ExprLike], *operands: Tensor | ExprLike, out: type[DType] = FLOAT
) -> tuple[ExprLike, list[Tensor]]:
    """Return (`expression(*operands)` with result dtype `out`, the operands that are tensors).

    `expression` gets a placeholder for each tensor, converted to FLOAT, and numbers unchanged.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    places = (expr.PlaceHolder(number + 1) for number in range(len(tensors)))
    widened = [
        _wide(next(places), operand) if isinstance(operand, Tensor) else operand
        for operand in operands
    ]
    result = expression(*widened)
    return result if out is FLOAT else expr.Cast(result, out), tensors


def _wide(place: Expr, tensor: Tensor) -> Expr:
    return place if tensor.dtype is FLOAT else expr.Cast(place, FLOAT)
