"""Expressions that are computed in FLOAT, whatever the dtype of their tensors, and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ipu_teach.graph import Tensor
from ipu_teach.poplibs.popops import expr
from ipu_teach.types import FLOAT, DType


def in_float(
    expression: Callable[..., Any], *operands: Any, out: type[DType] = FLOAT
) -> tuple[Any, list[Tensor]]:
    """Return (what `expression` makes of tensors and numbers, each tensor in FLOAT, as `out`; those
    given that are tensors)."""
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    places = (expr.PlaceHolder(number + 1) for number in range(len(tensors)))
    widened = [
        _wide(next(places), operand) if isinstance(operand, Tensor) else operand
        for operand in operands
    ]
    result = expression(*widened)
    return result if out is FLOAT else expr.Cast(result, out), tensors


def _wide(place: Any, tensor: Tensor) -> Any:
    return place if tensor.dtype is FLOAT else expr.Cast(place, FLOAT)
