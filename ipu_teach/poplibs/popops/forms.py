"""The three forms of an elementwise operation.

The result is a new tensor, replaces the first operand, or is stored in a tensor of the caller.
Each form adds one compute set with one vertex per tile, which computes the elements of the result
that are on its tile. The function `checked` checks the operands, and each form checks everything
else before it changes the graph.
"""

from __future__ import annotations

from collections.abc import Sequence

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor, Vertex
from ipu_teach.poplibs.laying import scalar
from ipu_teach.poplibs.library import check_number, check_same, refused
from ipu_teach.poplibs.popops import elementwise_codelets as c
from ipu_teach.poplibs.popops.operands import (
    CAST,
    GIVE,
    ORDINALS,
    Checked,
    Operand,
    check_in_place,
    check_operand,
    check_output,
    common_shape,
    result_like,
)
from ipu_teach.poplibs.popops.operations import ElementwiseOperation
from ipu_teach.poplibs.poputil import seen_in
from ipu_teach.program import Sequence as Program

COMMUTATIVE = {
    "ADD",
    "MULTIPLY",
    "MAXIMUM",
    "MINIMUM",
    "EQUAL",
    "NOT_EQUAL",
    "LOGICAL_AND",
    "LOGICAL_OR",
    "BITWISE_AND",
    "BITWISE_OR",
    "BITWISE_XOR",
    "BITWISE_XNOR",
}


def checked(graph: Graph, operation: ElementwiseOperation, *operands: Operand) -> list[Checked]:
    """Return the checked operands; numbers are converted to the dtype of the tensors.

    :raises PoplibsError: unless at least one operand is a tensor, and all tensors have the same
        dtype, which the operation accepts. The codelets refuse QUARTER tensors later.
    :raises TensorCreationError: if a number is out of range of its dtype.
    """
    if operation.arity == 1:
        return [check_operand(graph, "its operand", operands[0], operation)]
    tensors = [
        check_operand(graph, ORDINALS[position], operand, operation)
        for position, operand in enumerate(operands)
        if isinstance(operand, Tensor)
    ]
    if not tensors:
        operand_texts = " and ".join(map(shown, operands))
        raise refused(f"was given {operand_texts}.", next_step="give at least one tensor.")
    first_tensor = tensors[0]
    for tensor in tensors[1:]:
        check_same(
            "dtypes",
            first_tensor.dtype,
            tensor.dtype,
            f"{first_tensor!r} and {tensor!r}",
            advice=CAST,
        )
    return [
        operand
        if isinstance(operand, Tensor)
        else check_number(ORDINALS[position], operand, first_tensor.dtype, GIVE)
        for position, operand in enumerate(operands)
    ]


def tensors_of(operands: Sequence[Operand | Checked]) -> list[Tensor]:
    """Return the operands that are tensors."""
    return [operand for operand in operands if isinstance(operand, Tensor)]


def new(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Checked],
    prog: Program,
    name: str,
) -> Tensor:
    """Append the operation; return the result in a new tensor.

    The tensor is mapped like the most evenly distributed operand of its shape (see `result_like`).
    """
    tensors = tensors_of(operands)
    shape = common_shape(tensors)
    dtype = tensors[0].dtype
    c.refuse_quarter(c.vertex_of(operation).__name__, dtype)
    out = result_like(graph, tensors, shape, operation.result(dtype), name=name)
    write(graph, operation, operands, out, prog=prog, name=name)
    return out


def in_place(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Checked],
    prog: Program,
    name: str,
) -> None:
    """Append the operation, and write its result to the first operand."""
    tensors = tensors_of(operands)
    check_in_place(graph, tensors[0], operation, common_shape(tensors))
    write(graph, operation, operands, None, prog=prog, name=name)


def into(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Checked],
    out: Tensor,
    prog: Program,
    name: str,
) -> None:
    """Append the operation, and write its result to `out`."""
    tensors = tensors_of(operands)
    check_output(out, common_shape(tensors), operation.result(tensors[0].dtype))
    write(graph, operation, operands, out, prog=prog, name=name)


def write(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Checked],
    out: Tensor | None,
    prog: Program,
    name: str,
) -> None:
    """Append the operation, and write its result to `out`; if `out` is None, to the first operand.

    One of two operands may be a number.
    """
    tensors = tensors_of(operands)
    first_tensor = tensors[0]
    if not isinstance(operands[0], Tensor):
        number = operands[0]
        if operation.name in COMMUTATIVE:
            operands = first_tensor, number
        else:
            operands = scalar(graph, first_tensor.dtype, number, f"{name}/number"), first_tensor
        tensors = tensors_of(operands)
        first_tensor = tensors[0]
    placed = first_tensor if out is None else out
    scalar_state = {} if isinstance(operands[-1], Tensor) else {"b": operands[-1]}
    base_codelet = c.vertex_of(operation, bool(scalar_state), out is None)
    edges = {
        field: seen_in(tensor, placed.shape)
        for field, tensor in zip(base_codelet.fields, tensors, strict=False)
    }
    if out is not None:
        edges["out"] = out
    vertex_class: type[Vertex]
    if operation.arity == 3:
        vertex_class = c.codelet(base_codelet, first_tensor.dtype)
    else:
        vertex_class = c.codelet(
            base_codelet, first_tensor.dtype, operation.name, operation.result(first_tensor.dtype)
        )
    c.per_tile(graph, vertex_class, placed, edges, prog=prog, name=name, **scalar_state)
