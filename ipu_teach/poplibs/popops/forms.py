"""One operation on single elements in its three forms: into a new tensor, in place, into an
existing tensor.

With any number of operands it is one compute set with one vertex a tile; each vertex works on the
result's elements on its tile. Operands are the tensors and numbers that `checked` returns; what a
form requires of them is checked before the graph is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.laying import scalar
from ipu_teach.poplibs.library import check_number, check_same, refused
from ipu_teach.poplibs.popops import elementwise_codelets as c
from ipu_teach.poplibs.popops.operands import (
    CAST,
    GIVE,
    ORDINALS,
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


def checked(graph: Graph, operation: ElementwiseOperation, *operands: Any) -> list[Any]:
    """Return the operands, of which one at least is a tensor, all of one dtype that the operation
    takes; numbers of that dtype."""
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
        check_same("dtypes", first.dtype, tensor.dtype, f"{first!r} and {tensor!r}", CAST)
    return [
        x if isinstance(x, Tensor) else check_number(ORDINALS[i], x, first.dtype, GIVE)
        for i, x in enumerate(operands)
    ]


def tensors_of(operands: Sequence[Any]) -> list[Tensor]:
    """Return those of the operands that are not numbers."""
    return [x for x in operands if isinstance(x, Tensor)]


def new(
    graph: Graph, operation: ElementwiseOperation, operands: Sequence[Any], prog: Program, name: str
) -> Tensor:
    """Return the result in a new tensor; `result_like` says where."""
    tensors = tensors_of(operands)
    shape = common_shape(tensors)
    dtype = tensors[0].dtype
    c.refuse_quarter(c.vertex_of(operation).__name__, dtype)
    out = result_like(graph, tensors, shape, operation.result(dtype), name)
    write(graph, operation, operands, out, prog, name)
    return out


def in_place(
    graph: Graph, operation: ElementwiseOperation, operands: Sequence[Any], prog: Program, name: str
) -> None:
    """The result in the first operand."""
    check_in_place(graph, operands[0], operation, common_shape(tensors_of(operands)))
    write(graph, operation, operands, None, prog, name)


def into(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Any],
    out: Tensor,
    prog: Program,
    name: str,
) -> None:
    """The result in `out`."""
    tensors = tensors_of(operands)
    check_output(out, common_shape(tensors), operation.result(tensors[0].dtype))
    write(graph, operation, operands, out, prog, name)


def write(
    graph: Graph,
    operation: ElementwiseOperation,
    operands: Sequence[Any],
    out: Tensor | None,
    prog: Program,
    name: str,
) -> None:
    """The vertices that write the result into `out`, or into the first operand if that is None. One
    of two may be a number."""
    if not isinstance(operands[0], Tensor):
        number, tensor_operand = operands
        if operation.name not in COMMUTATIVE:
            number = scalar(graph, tensor_operand.dtype, number, f"{name}/number")
        operands = (
            (tensor_operand, number) if operation.name in COMMUTATIVE else (number, tensor_operand)
        )
    first = operands[0]
    placed = operands[0] if out is None else out
    alone = {} if isinstance(operands[-1], Tensor) else {"b": operands[-1]}
    vertex = c.vertex_of(operation, bool(alone), out is None)
    edges = {
        f: seen_in(t, placed.shape)
        for f, t in zip(vertex.fields, tensors_of(operands), strict=False)
    }
    if out is not None:
        edges["out"] = out
    if operation.arity == 3:
        vertex_class = c.codelet(vertex, first.dtype)
    else:
        vertex_class = c.codelet(vertex, first.dtype, operation.name, operation.result(first.dtype))
    c.per_tile(graph, vertex_class, placed, edges, prog, name, **alone)
