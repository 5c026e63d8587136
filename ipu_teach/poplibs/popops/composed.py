"""Evaluation of an expression by a separate library call for each operation.

`popops.map` uses it if its option "enableGenerateCodelet" is False.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from ipu_teach.graph import Graph, Shape, Tensor
from ipu_teach.poplibs.laying import scalar
from ipu_teach.poplibs.popops import forms
from ipu_teach.poplibs.popops.casts import cast
from ipu_teach.poplibs.popops.operands import common_shape, result_like
from ipu_teach.poplibs.popops.operations import OPERATIONS, evaluate
from ipu_teach.poplibs.poputil import seen_in
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.types import Array, DType, dtype_named

T = TypeVar("T")


class _Number(NamedTuple):
    """A constant in an expression, or a number that is computed only from constants."""

    value: Array
    dtype: type[DType]


def walk(
    code: str,
    inputs: Sequence[T],
    number: Callable[[Array, type[DType]], T],
    cast: Callable[[T, type[DType], int], T],
    apply: Callable[[str, list[T], int], T],
) -> T:
    """Return the value of an expression, computed on a stack.

    `code` contains the steps of the expression, separated by spaces, as returned by `Expr.code`.
    A step is one of `inputs`, or one of three functions computes it: `number(value, dtype)` a
    constant, `cast(operand, dtype, step_number)` a conversion, and `apply(operation, operands,
    step_number)` an operation. `step_number` counts the steps from 0.
    """
    stack: list[T] = []
    for step_number, step in enumerate(code.split()):
        operation, _, _ = step.partition("@")
        kind, _, value = step.partition(":")
        if step.startswith("_"):
            stack.append(inputs[int(step[1:]) - 1])
        elif kind == "CAST":
            stack.append(cast(stack.pop(), _dtype(value), step_number))
        elif value:
            dtype = _dtype(kind)
            constant_value = float.fromhex(value) if dtype.numpy.kind == "f" else int(value)
            stack.append(number(np.dtype(dtype.numpy).type(constant_value), dtype))
        else:
            arity = OPERATIONS[operation].arity
            operands, stack = stack[-arity:], stack[:-arity]
            stack.append(apply(operation, operands, step_number))
    return stack.pop()


def compose(graph: Graph, code: str, tensors: Sequence[Tensor], prog: Program, name: str) -> Tensor:
    """Append a compute set for each operation and conversion of an expression; return the result.

    `code` contains the steps, separated by spaces, as returned by `Expr.code`. Steps that use only
    constants are computed immediately, without a compute set. If the expression contains only
    constants, the result is a constant tensor.
    """

    def converted(
        operand: Tensor | _Number, dtype: type[DType], step_number: int
    ) -> Tensor | _Number:
        return _cast(
            graph,
            operand,
            dtype,
            prog,
            label=f"{name}/Op/Cast:{dtype.__name__.lower()}{step_number}",
        )

    def applied(
        operation: str, operands: list[Tensor | _Number], step_number: int
    ) -> Tensor | _Number:
        label = f"{name}/Op/{operation.capitalize()}{step_number}"
        return _apply(graph, operation, operands, prog, label=label)

    inputs: list[Tensor | _Number] = [*tensors]
    result = walk(code, inputs, _Number, converted, apply=applied)
    return result if isinstance(result, Tensor) else _constant(graph, result, name)


def write(
    graph: Graph, code: str, tensors: Sequence[Tensor], out: Tensor, prog: Program, name: str
) -> None:
    """Append compute sets for the steps of an expression, and a copy of its result to `out`.

    `code` contains the steps, separated by spaces, as returned by `Expr.code`.
    """
    result = compose(graph, code, tensors, prog, name=name)
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
    """Return the result of an expression as a tensor of shape `shape` and type `dtype`.

    `code` contains the steps of the expression, separated by spaces, as returned by `Expr.code`.
    There is a compute set for each operation and conversion. If the last compute set does not
    produce this shape, or if the expression has no operation, the result is copied to a new tensor.
    """
    result = compose(graph, code, tensors, prog, name=name)
    if result.shape == shape and "@" in code:
        return result
    out = result_like(graph, tensors, shape, dtype, name=name)
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
        return cast(graph, operand, dtype, prog, debug_context=label)
    return _Number(operand.value.astype(dtype.numpy), dtype)


def _apply(
    graph: Graph, operation: str, operands: list[Tensor | _Number], prog: Program, label: str
) -> Tensor | _Number:
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not tensors:
        values = (operand.value for operand in operands if isinstance(operand, _Number))
        return _Number(
            evaluate(operation, *values), OPERATIONS[operation].result(operands[0].dtype)
        )
    description = OPERATIONS[operation]
    if description.arity < 3:
        values_or_tensors = [
            operand if isinstance(operand, Tensor) else operand.value for operand in operands
        ]
        return forms.new(graph, description, values_or_tensors, prog, name=label)
    all_operands = [
        operand if isinstance(operand, Tensor) else _constant(graph, operand, label)
        for operand in operands
    ]
    out = result_like(graph, tensors, common_shape(tensors), all_operands[0].dtype, name=label)
    forms.write(graph, description, all_operands, out, prog=prog, name=label)
    return out


def _constant(graph: Graph, number: _Number, label: str) -> Tensor:
    return scalar(graph, number.dtype, number.value, f"{label}/number")
