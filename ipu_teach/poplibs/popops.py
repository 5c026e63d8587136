"""Pointwise operations, casts, fills and reductions.

Each function makes one compute set (a reduction up to two) with one vertex a tile: it works on the elements of the result
that lie on that tile. The result of an operation has the mapping of its larger operand. Cycles are PopLibs' own estimates
(`ipu_teach.cost.vertices`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any, ClassVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor, concat
from ipu_teach.graph.vertex import InOut, Input, Output, SupervisorVertex, Vector, Vertex, template
from ipu_teach.poplibs.poputil import (
    BROADCASTING,
    MIN_BYTES_PER_TILE,
    balanced_partition,
    broadcast_to_match,
    check_call,
    check_number,
    check_same,
    check_sizes,
    check_tensor,
    clone,
    map_tensor_linearly,
    take,
    tile_pieces,
)
from ipu_teach.program import Execute
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, QUARTER, UNSIGNED_CHAR, DType, as_dtype, from_quarter, to_quarter

Operand = Tensor | float | int

# Codelets are written for FLOAT and made for other dtypes by `_codelet`.


class BinaryOp1D(SupervisorVertex):
    """out = a op b, element by element."""

    a: Input[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    out: Output[Vector[FLOAT]]
    op: ClassVar[np.ufunc]
    operation: ClassVar[str]

    def compute(self) -> None:
        self.out = self.op(self.a, self.b)

    def cycles(self, target: Target) -> int:
        return int(vertices.binary_op_1d(self.operation, len(self.out), self.fields["out"].dtype, target))


class BinaryOp1DInPlace(SupervisorVertex):
    """a = a op b, element by element."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    op: ClassVar[np.ufunc]
    operation: ClassVar[str]

    def compute(self) -> None:
        self.a = self.op(self.a, self.b)

    def cycles(self, target: Target) -> int:
        return int(vertices.binary_op_1d(self.operation, len(self.a), self.fields["a"].dtype, target, in_place=True))


class BroadcastScalar1D(SupervisorVertex):
    """out = a op b for a single number b."""

    a: Input[Vector[FLOAT]]
    b: FLOAT
    out: Output[Vector[FLOAT]]
    op: ClassVar[np.ufunc]
    operation: ClassVar[str]

    def compute(self) -> None:
        self.out = self.op(self.a, self.b)

    def cycles(self, target: Target) -> int:
        return int(vertices.broadcast_scalar_1d(self.operation, len(self.out), self.fields["out"].dtype, target))


class BroadcastScalar1DInPlace(SupervisorVertex):
    """a = a op b for a single number b."""

    a: InOut[Vector[FLOAT]]
    b: FLOAT
    op: ClassVar[np.ufunc]
    operation: ClassVar[str]

    def compute(self) -> None:
        self.a = self.op(self.a, self.b)

    def cycles(self, target: Target) -> int:
        return int(vertices.broadcast_scalar_1d(self.operation, len(self.a), self.fields["a"].dtype, target))


class ScaledAdd(SupervisorVertex):
    """a = a + k b."""

    a: InOut[Vector[FLOAT]]
    b: Input[Vector[FLOAT]]
    k: FLOAT

    def compute(self) -> None:
        self.a += self.k * self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.scaled_add(len(self.a), self.fields["a"].dtype, target))


class Cast1D(SupervisorVertex):
    """out = x, converted. FLOAT stands for the source, HALF for the destination."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[HALF]]

    def compute(self) -> None:
        self.out = self.x

    def cycles(self, target: Target) -> int:
        return int(vertices.cast_1d(len(self.x), self.fields["x"].dtype, self.fields["out"].dtype, target))


class ToQuarter(SupervisorVertex):
    """out = the codes of x. FLOAT stands for the source; `quarter` is the 8-bit dtype."""

    x: Input[Vector[FLOAT]]
    out: Output[Vector[UNSIGNED_CHAR]]
    quarter: ClassVar[type[QUARTER]]

    def compute(self) -> None:
        self.out = to_quarter(self.x, self.quarter.metadata)

    def cycles(self, target: Target) -> int:
        return int(vertices.cast_1d(len(self.x), self.fields["x"].dtype, self.quarter, target))


class FromQuarter(SupervisorVertex):
    """out = the numbers of the codes x. HALF stands for the destination; `quarter` is the 8-bit dtype."""

    x: Input[Vector[UNSIGNED_CHAR]]
    out: Output[Vector[HALF]]
    quarter: ClassVar[type[QUARTER]]

    def compute(self) -> None:
        self.out = from_quarter(self.x, self.quarter.metadata)

    def cycles(self, target: Target) -> int:
        return int(vertices.cast_1d(len(self.x), self.quarter, self.fields["out"].dtype, target))


class Fill(Vertex):
    """out = value."""

    value: FLOAT
    out: Output[Vector[FLOAT]]

    def compute(self) -> None:
        self.out = self.value

    def cycles(self, target: Target) -> int:
        return int(vertices.fill(len(self.out), self.fields["out"].dtype))


class ReduceRows(SupervisorVertex):
    """out = the rows of x, reduced one after the other."""

    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[FLOAT]]
    op: ClassVar[np.ufunc]

    def compute(self) -> None:
        if self.x.shape[1] == 1 and len(self.x):  # numpy would add a single column in pairs
            self.out = self.op.accumulate(self.x, axis=0)[-1]
        else:
            self.out = self.op.reduce(self.x, axis=0)

    def cycles(self, target: Target) -> int:
        return int(vertices.conv_reduce(len(self.out), len(self.x), self.fields["x"].dtype, target))


_UFUNCS = {
    "ADD": np.add,
    "SUBTRACT": np.subtract,
    "MULTIPLY": np.multiply,
    "MUL": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
}
REDUCTIONS = ("ADD", "MUL", "MAX", "MIN")
CAST = "cast one of them with popops.cast."


@cache
def _codelet(base: type[Vertex], dtype: type[DType], op: str = "", destination: type[DType] = HALF) -> type[Vertex]:
    """`base` for a dtype and an operation, under a name that a profile's reader recognises."""
    if issubclass(dtype, QUARTER):
        raise PoplibsError(
            f"popops::{base.__name__} does not compute with {dtype}.",
            next_step="convert to HALF or FLOAT with popops.cast first.",
        )
    parts = [op] if op else []
    parts.append(dtype.__name__.lower())
    if base is Cast1D:
        parts.append(destination.__name__.lower())
    name = f"popops::{base.__name__}<{','.join(parts)}>"
    attributes: dict[str, Any] = {"op": _UFUNCS[op], "operation": op} if op else {}
    return template(base, name, {FLOAT: dtype, HALF: destination}, **attributes)


# Pointwise


def add(graph: Graph, a: Operand, b: Operand, prog: Program, debug_context: str = "add") -> Tensor:
    """a + b, numpy's broadcasting; one operand may be a number. Same dtype in and out."""
    return _binary(graph, "ADD", a, b, prog, debug_context, "add")


def sub(graph: Graph, a: Operand, b: Operand, prog: Program, debug_context: str = "sub") -> Tensor:
    """a - b, numpy's broadcasting; one operand may be a number. Same dtype in and out."""
    return _binary(graph, "SUBTRACT", a, b, prog, debug_context, "sub")


def mul(graph: Graph, a: Operand, b: Operand, prog: Program, debug_context: str = "mul") -> Tensor:
    """a * b element by element, numpy's broadcasting; one operand may be a number. Same dtype in and out."""
    return _binary(graph, "MULTIPLY", a, b, prog, debug_context, "mul")


def add_in_place(graph: Graph, a: Tensor, b: Operand, prog: Program, debug_context: str = "add_in_place") -> None:
    """a += b; b is broadcast to a."""
    _binary_in_place(graph, "ADD", a, b, prog, debug_context, "add_in_place")


def sub_in_place(graph: Graph, a: Tensor, b: Operand, prog: Program, debug_context: str = "sub_in_place") -> None:
    """a -= b; b is broadcast to a."""
    _binary_in_place(graph, "SUBTRACT", a, b, prog, debug_context, "sub_in_place")


def mul_in_place(graph: Graph, a: Tensor, b: Operand, prog: Program, debug_context: str = "mul_in_place") -> None:
    """a *= b; b is broadcast to a."""
    _binary_in_place(graph, "MULTIPLY", a, b, prog, debug_context, "mul_in_place")


def _binary(graph: Graph, op: str, a: Operand, b: Operand, prog: Program, name: str, function: str) -> Tensor:
    check_call(function, graph, prog, name)
    if isinstance(a, Tensor):
        _check_numeric(function, graph, "its first operand", a)
        if not isinstance(b, Tensor):
            return _with_number(graph, op, a, b, prog, name, function, "its second operand")
    elif isinstance(b, Tensor):
        _check_numeric(function, graph, "its second operand", b)
        if op != "SUBTRACT":
            return _with_number(graph, op, b, a, prog, name, function, "its first operand")
        number = check_number(function, "its first operand", a, b.dtype, "give a tensor, or a number.")
        out = clone(graph, b, f"{name}/out")
        a = graph.add_constant(b.dtype, (), number, f"{name}/number")
        graph.set_tile_mapping(a, 0)
        _elementwise(graph, op, a, b, out, prog, name)
        return out
    else:
        raise PoplibsError(
            f"{function}() was given {shown(a)} and {shown(b)}.", next_step="one operand at least must be a tensor."
        )
    _check_numeric(function, graph, "its second operand", b)
    check_same(function, "dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", CAST)
    try:
        shape = np.broadcast_shapes(a.shape, b.shape)
    except ValueError:
        raise PoplibsError(
            f"{function}() was given shapes {a.shape} and {b.shape}, which do not broadcast.",
            where=f"{a!r} and {b!r}",
            next_step=BROADCASTING,
        ) from None
    larger = a if a.shape == shape else b
    if larger.shape == shape:
        out = clone(graph, larger, f"{name}/out")
    else:
        out = graph.add_variable(a.dtype, shape, f"{name}/out")
        map_tensor_linearly(graph, out)
    _elementwise(graph, op, a, b, out, prog, name)
    return out


def _with_number(
    graph: Graph, op: str, a: Tensor, number: object, prog: Program, name: str, function: str, argument: str
) -> Tensor:
    b = check_number(function, argument, number, a.dtype, "give a tensor, or a number.")
    out = clone(graph, a, f"{name}/out")
    _per_tile(graph, _codelet(BroadcastScalar1D, a.dtype, op), out, {"a": a, "out": out}, prog, name, b=b)
    return out


def _elementwise(graph: Graph, op: str, a: Tensor, b: Tensor, out: Tensor, prog: Program, name: str) -> None:
    operands = {"a": broadcast_to_match(a, out.shape), "b": broadcast_to_match(b, out.shape), "out": out}
    _per_tile(graph, _codelet(BinaryOp1D, out.dtype, op), out, operands, prog, name)


def _binary_in_place(graph: Graph, op: str, a: Tensor, b: Operand, prog: Program, name: str, function: str) -> None:
    check_call(function, graph, prog, name)
    _check_numeric(function, graph, "its first operand", a)
    if not isinstance(b, Tensor):
        number = check_number(function, "its second operand", b, a.dtype, "give a tensor, or a number.")
        _per_tile(graph, _codelet(BroadcastScalar1DInPlace, a.dtype, op), a, {"a": a}, prog, name, b=number)
        return
    _check_numeric(function, graph, "its second operand", b)
    check_same(function, "dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", CAST)
    operands = {"a": a, "b": broadcast_to_match(b, a.shape)}
    _per_tile(graph, _codelet(BinaryOp1DInPlace, a.dtype, op), a, operands, prog, name)


def scaled_add_to(graph: Graph, a: Tensor, b: Tensor, k: float, prog: Program, debug_context: str = "scaled_add_to") -> None:
    """a += k * b for a number k; same shape and dtype. The product is rounded, then the sum."""
    check_call("scaled_add_to", graph, prog, debug_context)
    _check_numeric("scaled_add_to", graph, "a", a)
    _check_numeric("scaled_add_to", graph, "b", b)
    check_same("scaled_add_to", "dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", CAST)
    check_same("scaled_add_to", "shapes", a.shape, b.shape, f"{a!r} and {b!r}", "slice one, or poputil.broadcast_to_match.")
    number = check_number("scaled_add_to", "k", k, a.dtype)
    _per_tile(graph, _codelet(ScaledAdd, a.dtype), a, {"a": a, "b": b}, prog, debug_context, k=number)


def cast(graph: Graph, x: Tensor, dtype: type[DType], prog: Program, debug_context: str = "cast") -> Tensor:
    """x converted to `dtype`, with x's mapping. Floats round to nearest; to an integer they are cut towards zero.

    To and from an 8-bit float, `QUARTER[format, scale]`, convert HALF and FLOAT alone; what is too large for one becomes NaN.
    """
    check_call("cast", graph, prog, debug_context)
    check_tensor("cast", graph, "x", x)
    dtype = as_dtype(dtype, "cast()")
    if issubclass(x.dtype, QUARTER) or issubclass(dtype, QUARTER):
        return _cast_quarter(graph, x, dtype, prog, debug_context)
    out = clone(graph, x, f"{debug_context}/out", dtype)
    _per_tile(graph, _codelet(Cast1D, x.dtype, "", dtype), out, {"x": x, "out": out}, prog, debug_context)
    return out


@cache
def _quarter_codelet(base: type[Vertex], other: type[DType], quarter: type[DType]) -> type[Vertex]:
    """ToQuarter or FromQuarter, between `quarter` and `other`."""
    sides = (other, quarter) if base is ToQuarter else (quarter, other)
    name = f"popops::Cast1D<{','.join(s.__name__.lower() for s in sides)}>"
    return template(base, name, {FLOAT: other, HALF: other}, quarter=quarter)


def _cast_quarter(graph: Graph, x: Tensor, dtype: type[DType], prog: Program, name: str) -> Tensor:
    """x converted to or from an 8-bit float, on its codes."""
    other = x.dtype if issubclass(dtype, QUARTER) else dtype
    if other not in (HALF, FLOAT):
        raise PoplibsError(
            f"cast() converts {x.dtype} to {dtype} in two steps.",
            where=repr(x),
            next_step="cast to HALF or FLOAT first, and the result again.",
        )
    out = clone(graph, x, f"{name}/out", dtype)
    base, quarter = (ToQuarter, dtype) if issubclass(dtype, QUARTER) else (FromQuarter, x.dtype)
    codelet = _quarter_codelet(base, other, quarter)
    sides = {n: t.reinterpret(UNSIGNED_CHAR) if t.has_metadata() else t for n, t in (("x", x), ("out", out))}
    _per_tile(graph, codelet, sides["out"], sides, prog, name)
    return out


def fill(graph: Graph, x: Tensor, prog: Program, value: float, debug_context: str = "fill") -> None:
    """Write `value` into every element of x."""
    check_call("fill", graph, prog, debug_context)
    check_tensor("fill", graph, "x", x)
    number = check_number("fill", "value", value, x.dtype)
    _per_tile(graph, _codelet(Fill, x.dtype), x, {"out": x}, prog, debug_context, value=number)


def _check_numeric(function: str, graph: Graph, argument: str, tensor: object) -> None:
    """Raise `PoplibsError` unless `tensor` is a tensor of numbers: arithmetic is not for BOOL."""
    check_tensor(function, graph, argument, tensor)
    assert isinstance(tensor, Tensor)
    if tensor.dtype is BOOL:
        raise PoplibsError(
            f"{function}() works on numbers; {argument} is BOOL.", where=repr(tensor), next_step="cast it with popops.cast."
        )


def _per_tile(
    graph: Graph, codelet: type[Vertex], placed: Tensor, operands: dict[str, Tensor], prog: Program, name: str, **state: Any
) -> None:
    """One vertex on every tile that holds some of `placed`, on the matching elements of every operand."""
    placement = tile_pieces(graph, placed)
    flat = {field: tensor.flatten() for field, tensor in operands.items()}
    compute_set = graph.add_compute_set(name)
    for tile, pieces in placement:
        edges = {field: take(tensor, pieces) for field, tensor in flat.items()}
        graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, edges, **state), tile)
    prog.add(Execute(compute_set))


# Reductions


@dataclass(frozen=True)
class ReducePlan:
    """How many blocks of rows are reduced side by side before their partial results are, and the modelled cycles."""

    row_blocks: int
    cycles: int


def plan_reduce(rows: int, columns: int, dtype: type[DType], target: Target) -> ReducePlan:
    """The number of row blocks that the cost model likes best for reducing `rows` x `columns` to one row."""
    check_sizes("plan_reduce", target, 0, rows=rows, columns=columns)
    as_dtype(dtype, "plan_reduce()")
    best = ReducePlan(1, _reduce_cycles(rows, columns, 1, dtype, target))
    for blocks in range(2, min(rows, target.num_tiles) + 1):
        cycles = _reduce_cycles(rows, columns, blocks, dtype, target)
        if cycles < best.cycles:
            best = ReducePlan(blocks, cycles)
    return best


def _reduce_cycles(rows: int, columns: int, blocks: int, dtype: type[DType], target: Target) -> int:
    """The last stage, on the columns that the linear mapping puts on a tile; if there are blocks, first one of them a tile."""
    share = max(-(-columns // target.num_tiles), min(columns, MIN_BYTES_PER_TILE // dtype.size))
    parts = rows if blocks == 1 else blocks
    cycles = int(exchange_cycles(parts * share * dtype.size, target) + vertices.conv_reduce(share, parts, dtype, target))
    if blocks > 1:
        block = -(-rows // blocks)
        cycles += int(exchange_cycles(block * columns * dtype.size, target)) + target.internal_sync_cycles
        cycles += int(vertices.conv_reduce(columns, block, dtype, target))
    return cycles


def reduce(
    graph: Graph, x: Tensor, dims: Sequence[int], prog: Program, operation: str = "ADD", debug_context: str = "reduce"
) -> Tensor:
    """x reduced over the dimensions `dims` by `operation` (ADD, MUL, MAX, MIN); the others remain, in order.

    In one or two stages, by `plan_reduce`: rows are reduced in blocks, one after the other within a block, then the blocks'
    results one after the other. The result is mapped linearly.
    """
    check_call("reduce", graph, prog, debug_context)
    _check_numeric("reduce", graph, "x", x)
    if not isinstance(operation, str) or operation not in REDUCTIONS:
        raise PoplibsError(f"reduce() was given the operation {shown(operation)}.", next_step=f"use {', '.join(REDUCTIONS)}.")
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        raise PoplibsError(f"reduce() was given the dimensions {shown(dims)}.", next_step="give a list, as in [0].")
    chosen = [x._axis(d) for d in dims]
    if len(set(chosen)) != len(chosen):
        raise PoplibsError(
            f"reduce() was given the dimensions {shown(dims)}, one of them twice.", where=repr(x), next_step="name each once."
        )
    kept = [d for d in range(x.rank) if d not in chosen]
    rows, columns = prod(x.shape[d] for d in chosen), prod(x.shape[d] for d in kept)
    if rows == 0 and operation in ("MAX", "MIN"):
        raise PoplibsError(
            f"reduce() by {operation} was given no elements.", where=repr(x), next_step="only ADD and MUL have a result then."
        )
    matrix = x.dim_shuffle(chosen + kept).reshape((rows, columns))
    out = graph.add_variable(x.dtype, [x.shape[d] for d in kept], f"{debug_context}/out")
    map_tensor_linearly(graph, out)
    blocks = plan_reduce(rows, columns, x.dtype, graph.target).row_blocks if columns else 1
    if blocks > 1:
        matrix = _reduce_blocks(graph, matrix, blocks, prog, operation, debug_context)
    reduce_rows(graph, matrix, out, prog, operation, f"{debug_context}/rows")
    return out


def _reduce_blocks(graph: Graph, matrix: Tensor, blocks: int, prog: Program, operation: str, name: str) -> Tensor:
    """Each block of rows reduced on a tile of its own, if possible that which holds its first element: (blocks, columns)."""
    partials = graph.add_variable(matrix.dtype, (blocks, matrix.shape[1]), f"{name}/partials")
    compute_set = graph.add_compute_set(f"{name}/blocks")
    codelet = _codelet(ReduceRows, matrix.dtype, operation)
    parts = balanced_partition(matrix.shape[0], blocks)
    first = matrix.positions()[[begin for begin, _ in parts], 0]
    tiles: list[int] = graph.tile_map().at(first * matrix.dtype.size).tolist()
    if len(set(tiles)) < blocks or min(tiles) < 0:
        tiles = [i * graph.target.num_tiles // blocks for i in range(blocks)]
    for i, (tile, (begin, end)) in enumerate(zip(tiles, parts, strict=True)):
        graph.set_tile_mapping(partials[i], tile)
        graph.set_tile_mapping(graph.add_vertex(compute_set, codelet, x=matrix[begin:end], out=partials[i]), tile)
    prog.add(Execute(compute_set))
    return partials


def reduce_rows(graph: Graph, matrix: Tensor, out: Tensor, prog: Program, operation: str, name: str) -> None:
    """The rows of `matrix` reduced, first to last, into `out` (already mapped), each column where its result lies."""
    compute_set = graph.add_compute_set(name)
    codelet = _codelet(ReduceRows, matrix.dtype, operation)
    flat = out.flatten()
    for tile, pieces in tile_pieces(graph, out):
        columns = concat([matrix[:, begin:end] for begin, end in pieces], 1)
        vertex = graph.add_vertex(compute_set, codelet, x=columns, out=take(flat, pieces))
        graph.set_tile_mapping(vertex, tile)
    prog.add(Execute(compute_set))
