"""The codelets of elementwise operations, and a function that adds a codelet to every tile.

In the field annotations, FLOAT stands for the dtype of the operands, and HALF for the dtype of the
results; the function `codelet` replaces both by the actual dtypes. For each codelet that works in
place, there is a subclass that writes to `out`. A vertex uses all six workers of its tile. Its
cycles are PopLibs' estimate for the vertex of the same name.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices import rates
from ipu_teach.errors import PoplibsError
from ipu_teach.graph import (
    Graph,
    InOut,
    Input,
    Output,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
)
from ipu_teach.poplibs.laying import Word, add_per_tile, typed
from ipu_teach.poplibs.placing import in_memory_order
from ipu_teach.poplibs.popops.operations import OPERATIONS, ElementwiseOperation, evaluate, rated
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, QUARTER, DType


class UnaryOp1DInPlace(SupervisorVertex):
    """Replace each element of `a` by `op a`, where `op` is the operation."""

    a: InOut[Vector[FLOAT]]
    operation: ClassVar[str]
    place: ClassVar[bool] = True

    def compute(self) -> None:
        self.a = evaluate(self.operation, self.a)

    def cycles(self, target: Target) -> int:
        table = rates.UNARY_IN_PLACE if self.place else rates.UNARY
        op, dtype = rated(table, OPERATIONS[self.operation], self.fields["a"].dtype)
        return int(vertices.unary_op_1d(op, len(self.a), dtype, target, in_place=self.place))


class UnaryOp1D(UnaryOp1DInPlace):
    """Set each element of `out` to `op a`, where `op` is the operation."""

    a: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]
    place = False

    def compute(self) -> None:
        self.out = evaluate(self.operation, self.a)


class BinaryOp1DInPlace(SupervisorVertex):
    """Replace each element of `a` by `a op b`, where `op` is the operation."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    operation: ClassVar[str]
    place: ClassVar[bool] = True

    def compute(self) -> None:
        self.a = evaluate(self.operation, self.a, self.b)

    def cycles(self, target: Target) -> int:
        op, dtype = rated(rates.BINARY, OPERATIONS[self.operation], self.fields["a"].dtype)
        return int(vertices.binary_op_1d(op, len(self.a), dtype, target, in_place=self.place))


class BinaryOp1D(BinaryOp1DInPlace):
    """Set each element of `out` to `a op b`, where `op` is the operation."""

    a: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]
    place = False

    def compute(self) -> None:
        self.out = evaluate(self.operation, self.a, self.b)


class BroadcastScalar1DInPlace(SupervisorVertex):
    """Replace each element of `a` by `a op b`; `op` is the operation and `b` a single number."""

    a: InOut[Vector[FLOAT]]
    b: FLOAT
    operation: ClassVar[str]

    def compute(self) -> None:
        self.a = evaluate(self.operation, self.a, self.b)

    def cycles(self, target: Target) -> int:
        op, dtype = rated(rates.BROADCAST, OPERATIONS[self.operation], self.fields["a"].dtype)
        return int(vertices.broadcast_scalar_1d(op, len(self.a), dtype, target))


class BroadcastScalar1D(BroadcastScalar1DInPlace):
    """Set each element of `out` to `a op b`; `op` is the operation and `b` a single number."""

    a: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = evaluate(self.operation, self.a, self.b)


class SelectInPlace(SupervisorVertex):
    """Replace the elements of `a` where `mask` is false by the elements of `b` at these positions.

    PopLibs' cycle estimate is for one worker; the model divides the elements between the workers.
    """

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    mask: Input[Vector[BOOL]]

    def compute(self) -> None:
        self.a = evaluate("SELECT", self.a, self.b, self.mask)

    def cycles(self, target: Target) -> int:
        return target.num_worker_contexts * int(vertices.select([_share(len(self.a), target)]))


class Select(SelectInPlace):
    """Set `out` to the elements of `a` where `mask` is true, and of `b` where it is false."""

    a: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = evaluate("SELECT", self.a, self.b, self.mask)


class ClampInPlace(SupervisorVertex):
    """Limit each element of `x` to the range from `low` to `high`.

    PopLibs' cycle estimate of Clamp is for one worker; the model divides the elements between the
    workers.
    """

    x: InOut[Vector[FLOAT]]
    low: Input[Vector[FLOAT]]
    high: Input[Vector[FLOAT]]

    def compute(self) -> None:
        self.x = evaluate("CLAMP", self.x, self.low, self.high)

    def cycles(self, target: Target) -> int:
        return clamp_cycles(len(self.x), self.fields["x"].dtype, target)


class Clamp(ClampInPlace):
    """Set `out` to the elements of `x`, limited to the range from `low` to `high`."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = evaluate("CLAMP", self.x, self.low, self.high)


def clamp_cycles(n: int, dtype: type[DType], target: Target) -> int:
    """Return the cycles of a tile for a Clamp of `n` elements, divided between its workers."""
    return target.num_worker_contexts * int(vertices.clamp([_share(n, target)], dtype, target))


def _share(n: int, target: Target) -> int:
    return -(-n // target.num_worker_contexts)


def refuse_quarter(vertex: str, dtype: type[DType]) -> None:
    """Raise `PoplibsError` if `dtype` is an 8-bit float, which no vertex can compute with.

    `vertex` is the name of the vertex in the error.
    """
    if issubclass(dtype, QUARTER):
        raise PoplibsError(f"""popops::{vertex} cannot compute with {dtype}.
            next:  convert to HALF or FLOAT with popops.cast first.""")


def codelet(
    base: type[Vertex], dtype: type[DType], op: str = "", result: type[DType] | None = None
) -> type[Vertex]:
    """Return the codelet `base` for operands of `dtype`.

    If `op` is not empty, it is the operation that the codelet computes. `result` is the dtype of
    the results, by default `dtype`.

    :raises PoplibsError: if `dtype` is an 8-bit float.
    """
    refuse_quarter(base.__name__, dtype)
    constants = {"operation": op} if op else {}
    name_words: list[Word] = [op, dtype, None if op else result]
    return typed(base, name_words, {FLOAT: dtype, HALF: result or dtype}, **constants)


def vertex_of(
    operation: ElementwiseOperation, scalar: bool = False, in_place: bool = False
) -> type[Vertex]:
    """Return the codelet of an operation; its fields are the operands in order, and then `out`.

    If `scalar` is true, the second of two operands is a single number. If `in_place` is true, the
    codelet has no field `out`, and writes to its first field.
    """
    pair: tuple[type[Vertex], type[Vertex]]
    if operation.arity == 1:
        pair = UnaryOp1D, UnaryOp1DInPlace
    elif operation.arity == 2 and scalar:
        pair = BroadcastScalar1D, BroadcastScalar1DInPlace
    elif operation.arity == 2:
        pair = BinaryOp1D, BinaryOp1DInPlace
    elif operation.name == "SELECT":
        pair = Select, SelectInPlace
    else:
        pair = Clamp, ClampInPlace
    return pair[in_place]


def per_tile(
    graph: Graph,
    vertex: type[Vertex],
    placed: Tensor,
    operands: dict[str, Tensor],
    prog: Program,
    name: str,
    **state: Any,
) -> None:
    """Append a compute set with a vertex on every tile that has elements of `placed`.

    `operands` maps names of fields to tensors with the shape of `placed`. From each tensor, a
    vertex gets the elements at the positions of the tile's elements of `placed`. These elements are
    in the memory order of `placed`, so that a tile need not gather them one by one. `state`
    contains fields that are the same for all vertices.
    """
    memory_order = in_memory_order(placed)
    ordered_operands = {
        field: tensor.dim_shuffle(memory_order) for field, tensor in operands.items()
    }
    compute_set = graph.add_compute_set(name)
    add_per_tile(
        graph,
        compute_set,
        vertex,
        placed.dim_shuffle(memory_order),
        operands=ordered_operands,
        **state,
    )
    prog.add(Execute(compute_set))
