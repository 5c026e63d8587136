"""The three forms of an elementwise operation: into a new tensor, in place, into an existing one.

With any number of operands it is one compute set with one vertex per tile; each vertex computes the
result's elements on its tile. Operands are the tensors and numbers that `checked` returns. The
requirements of each form are checked before the graph is changed.
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
    """Return the operands after a check; numbers get the dtype of the tensors.

    Raises `PoplibsError` unless at least one operand is a tensor, and all are of one dtype that the
    operation accepts.
    """
    if operation.arity == 1:
        return [check_operand(graph, "its operand", operands[0], operation)]
    tensors = [
        check_operand(graph, ORDINALS[i], x, operation)
        for i, x in enumerate(operands)
        if isinstance(x, Tensor)
    ]
    if not tensors:
        operand_texts = " and ".join(map(shown, operands))
        raise refused(
            f"was given {operand_texts}.", next_step="one operand at least must be a tensor."
        )
    first = tensors[0]
    for tensor in tensors[1:]:
        check_same("dtypes", first.dtype, tensor.dtype, f"{first!r} and {tensor!r}", advice=CAST)
    return [
        x if isinstance(x, Tensor) else check_number(ORDINALS[i], x, first.dtype, GIVE)
        for i, x in enumerate(operands)
    ]


def tensors_of(operands: Sequence[Operand | Checked]) -> list[Tensor]:
    """Return the operands that are tensors."""
    return [x for x in operands if isinstance(x, Tensor)]


def new(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Checked],
    prog: Program,
    name: str,
) -> Tensor:
    """Return the result in a new tensor, mapped as `result_like` decides."""
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
    """Write the result to the first operand."""
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
    """Write the result to `out`."""
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
    """Add the vertices that write the result to `out`, or to the first operand if `out` is None.

    One of two operands may be a number.
    """
    tensors = tensors_of(operands)
    first = tensors[0]
    if not isinstance(operands[0], Tensor):
        number = operands[0]
        if operation.name in COMMUTATIVE:
            operands = first, number
        else:
            operands = scalar(graph, first.dtype, number, f"{name}/number"), first
        tensors = tensors_of(operands)
        first = tensors[0]
    placed = first if out is None else out
    alone = {} if isinstance(operands[-1], Tensor) else {"b": operands[-1]}
    vertex = c.vertex_of(operation, bool(alone), out is None)
    edges = {f: seen_in(t, placed.shape) for f, t in zip(vertex.fields, tensors, strict=False)}
    if out is not None:
        edges["out"] = out
    vertex_class: type[Vertex]
    if operation.arity == 3:
        vertex_class = c.codelet(vertex, first.dtype)
    else:
        vertex_class = c.codelet(vertex, first.dtype, operation.name, operation.result(first.dtype))
    c.per_tile(graph, vertex_class, placed, edges, prog=prog, name=name, **alone)
