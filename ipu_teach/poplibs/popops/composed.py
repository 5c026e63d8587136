"""An expression as one library call for each of its operations: what `map` does with
"enableGenerateCodelet" off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ipu_teach.graph import Graph, Shape, Tensor
from ipu_teach.poplibs.laying import scalar
from ipu_teach.poplibs.popops import forms
from ipu_teach.poplibs.popops.casts import cast
from ipu_teach.poplibs.popops.operands import common_shape, result_like
from ipu_teach.poplibs.popops.operations import OPERATIONS, evaluate
from ipu_teach.poplibs.poputil import seen_in
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.types import DType, dtype_named


class _Number(NamedTuple):
    """A constant, or a number computed from constants alone."""

    value: Any
    dtype: type[DType]


def walk(
    code: str,
    inputs: Sequence[Any],
    number: Callable[[Any, type[DType]], Any],
    cast: Callable[[Any, type[DType], int], Any],
    apply: Callable[[str, list[Any], int], Any],
) -> Any:
    """Return the value of an expression's steps (`Expr.code`), computed on a stack by functions for
    its numbers, casts and operations. The functions for casts and operations also get the position
    of their step."""
    stack: list[Any] = []
    for place, step in enumerate(code.split()):
        operation, _, _ = step.partition("@")
        kind, _, value = step.partition(":")
        if step.startswith("_"):
            stack.append(inputs[int(step[1:]) - 1])
        elif kind == "CAST":
            stack.append(cast(stack.pop(), _dtype(value), place))
        elif value:
            dtype = _dtype(kind)
            read = float.fromhex(value) if dtype.numpy.kind == "f" else int(value)
            stack.append(number(np.dtype(dtype.numpy).type(read), dtype))
        else:
            arity = OPERATIONS[operation].arity
            operands, stack = stack[-arity:], stack[:-arity]
            stack.append(apply(operation, operands, place))
    return stack.pop()


def compose(graph: Graph, code: str, tensors: Sequence[Tensor], prog: Program, name: str) -> Tensor:
    """Return the value of an expression's steps, made by a compute set for each; of numbers alone
    it is a constant."""

    def converted(operand: Any, dtype: type[DType], place: int) -> Tensor | _Number:
        return _cast(graph, operand, dtype, prog, f"{name}/Op/Cast:{dtype.__name__.lower()}{place}")

    def applied(operation: str, operands: list[Any], place: int) -> Tensor | _Number:
        label = f"{name}/Op/{operation.capitalize()}{place}"
        return _apply(graph, operation, operands, prog, label)

    result = walk(code, tensors, _Number, converted, applied)
    return result if isinstance(result, Tensor) else _constant(graph, result, name)


def write(
    graph: Graph, code: str, tensors: Sequence[Tensor], out: Tensor, prog: Program, name: str
) -> None:
    """`out` becomes the value of an expression's steps: a compute set for each, and a copy."""
    result = compose(graph, code, tensors, prog, name)
    if result is not out:
        prog.add(Copy(seen_in(result, out.shape), out))


def new(
    graph: Graph,
    code: str,
    tensors: Sequence[Tensor],
    shape: Shape,
    dtype: type[DType],
    prog: Program,
    name: str,
) -> Tensor:
    """Return the value of an expression's steps in a new tensor of `shape` and `dtype`."""
    result = compose(graph, code, tensors, prog, name)
    if result.shape == shape and "@" in code:
        return result
    out = result_like(graph, tensors, shape, dtype, name)
    prog.add(Copy(seen_in(result, shape), out))
    return out


def _dtype(name: str) -> type[DType]:
    dtype = dtype_named(name)
    assert dtype is not None, name
    return dtype


def _cast(
    graph: Graph, operand: Tensor | _Number, dtype: type[DType], prog: Program, label: str
) -> Tensor | _Number:
    if isinstance(operand, Tensor):
        return cast(graph, operand, dtype, prog, label)
    return _Number(operand.value.astype(dtype.numpy), dtype)


def _apply(
    graph: Graph, operation: str, operands: list[Tensor | _Number], prog: Program, label: str
) -> Tensor | _Number:
    tensors = [x for x in operands if isinstance(x, Tensor)]
    if not tensors:
        result = evaluate(operation, *(x.value for x in operands if isinstance(x, _Number)))
        return _Number(result, OPERATIONS[operation].result(operands[0].dtype))
    does = OPERATIONS[operation]
    if does.arity < 3:
        return forms.new(
            graph, does, [x if isinstance(x, Tensor) else x.value for x in operands], prog, label
        )
    all_operands = [x if isinstance(x, Tensor) else _constant(graph, x, label) for x in operands]
    out = result_like(graph, tensors, common_shape(tensors), all_operands[0].dtype, label)
    forms.write(graph, does, all_operands, out, prog, label)
    return out


def _constant(graph: Graph, number: _Number, label: str) -> Tensor:
    return scalar(graph, number.dtype, number.value, f"{label}/number")
