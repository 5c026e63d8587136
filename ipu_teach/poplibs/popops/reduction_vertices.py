"""The vertices of reductions: rows to one row, first to last, on all six workers of a tile.

HALF is added up in FLOAT and rounded once, as PopLibs does by default; other operations keep their
dtype. A sum costs as much as PopLibs' ConvReduce. The other operations cost its Reduce vertex, the
strided one where it has the operation, else the general one, with a share of the columns for every
worker. With few columns every worker has a share of the rows, and their results are then reduced,
first to last: PopLibs' Reduce twice, for a scalar, strided, or general. If the rows of a column are
contiguous, it is the vertex for contiguous regions. Scaling and updating have no estimate of their
own there; assumed: a cycle each for a data path of results.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices.parts import SUPERVISOR_OVERHEAD
from ipu_teach.graph import InOut, Input, Output, SupervisorVertex, Vector, Vertex
from ipu_teach.poplibs.laying import typed
from ipu_teach.poplibs.popops.elementwise_codelets import refuse_quarter
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, DType

__all__ = ["REDUCTIONS"]

UFUNCS: dict[str, np.ufunc] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MIN": np.minimum,
    "MAX": np.maximum,
    "LOGICAL_AND": np.logical_and,
    "LOGICAL_OR": np.logical_or,
    "SQUARE_ADD": np.add,
    "LOG_ADD": np.logaddexp,
}
REDUCTIONS = tuple(UFUNCS)
_SUMS = ("ADD", "SQUARE_ADD", "LOG_ADD")
_STRIDED = ("ADD", "MAX", "MIN", "LOG_ADD")
_FEW = ("ADD", "SQUARE_ADD", "MAX", "MIN")
# who share rows; columns at most, and rows at least for each of them, where they do
WORKERS, FEW, LONG = 6, 8, 32

P = TypeVar("P")
R = TypeVar("R")


def partials_dtype(operation: str, dtype: type[DType]) -> type[DType]:
    """Return the dtype in which a reduction of `dtype` is carried on: FLOAT for sums of HALF, else
    `dtype`."""
    return FLOAT if dtype is HALF and operation in _SUMS else dtype


def shares_of(operation: str, columns: int, rows: int, dtype: type[DType]) -> int:
    """Return how many shares of the rows a vertex reduces side by side: six of few long columns,
    else one."""
    scalar = columns == 1 and operation in ("ADD", "SQUARE_ADD", "MAX", "MIN")
    few = 1 < columns <= FEW and operation in _FEW and dtype in (FLOAT, HALF)
    # its squares are made a path at a time, whatever the columns
    long = LONG * (1 if operation == "SQUARE_ADD" else columns)
    return WORKERS if (scalar or few) and rows >= long else 1


def reduced(
    operation: str, x: Any, carried: type[DType], shares: int = 1, across: bool = False
) -> Any:
    """Return the rows of x [rows, columns] reduced in the dtype `carried`: each of `shares`, first
    to last, then their results. `across`: x is [columns, rows]."""
    if shares > 1:
        length = x.shape[1] if across else len(x)
        parts = [
            reduced(operation, x[:, low:high] if across else x[low:high], carried, across=across)
            for low, high in balanced_partition(length, shares)
        ]
        return reduced(after(operation), np.stack(parts), carried)
    if x.dtype != carried.numpy:
        x = x.astype(carried.numpy)
    if operation == "SQUARE_ADD":
        x = np.square(x)
    ufunc = UFUNCS[operation]
    if across:
        return ufunc.accumulate(x, axis=1)[:, -1]
    if x.shape[1] == 1 and len(x):  # numpy would add a single column in pairs
        return ufunc.accumulate(x, axis=0)[-1]
    return ufunc.reduce(x, axis=0)


def after(operation: str) -> str:
    """Return what is done with the partial results of an operation."""
    return "ADD" if operation == "SQUARE_ADD" else operation


def stage_cycles(
    operation: str,
    columns: int,
    rows: int,
    dtype: type[DType],
    out: type[DType],
    target: Target,
    shares: int = 1,
    across: bool = False,
) -> int:
    """Return the tile cycles of one vertex that reduces [rows, columns] of `dtype` to [columns] of
    `out`, in `shares` of the rows. With `across`, the rows of a column are contiguous."""
    workers = target.num_worker_contexts
    if shares > 1:
        carried = partials_dtype(operation, dtype)
        cycles = worker_cycles(
            operation, columns, -(-rows // shares), dtype, carried, target, across
        )
        cycles *= -(-shares // workers)
        cycles += worker_cycles(after(operation), columns, shares, carried, out, target)
        return 2 * SUPERVISOR_OVERHEAD + workers * cycles
    if operation == "ADD" and not across:
        return int(vertices.conv_reduce(columns, rows, dtype, target))
    path = target.get_vector_width(dtype) if operation in _STRIDED and not across else 1
    cycles = min(columns, path * -(-columns // (path * workers)))
    return workers * worker_cycles(operation, cycles, rows, dtype, out, target, across, columns)


def worker_cycles(
    operation: str,
    columns: int,
    rows: int,
    dtype: type[DType],
    out: type[DType],
    target: Target,
    across: bool = False,
    stride: int = 0,
) -> int:
    """Return the worker cycles of PopLibs' Reduce, in the specialisation that fits: `columns` of
    rows that are `stride` elements apart, or of which each has its rows side by side."""
    dtype, out = (FLOAT if kind is BOOL else kind for kind in (dtype, out))
    if columns == 1 and operation in _FEW and stride < 2:
        return int(vertices.reduce_to_scalar(rows, dtype, out, target))
    if across and operation in ("ADD", "SQUARE_ADD"):
        return int(vertices.reduce_contiguous(columns + 1, rows, dtype, target))
    if across:
        region_cycles = vertices.reduce_regions(1, rows, dtype, out, target, op=operation)
        return columns * int(region_cycles)
    if operation in _STRIDED and dtype in (FLOAT, HALF):
        return int(
            vertices.reduce_strided(
                columns, rows, stride or columns, dtype, out, target, op=operation
            )
        )
    return int(vertices.reduce_regions(columns, rows, dtype, out, target, op=operation))


class _Reduction(SupervisorVertex, Generic[P, R]):
    """The rows of x, reduced one after the other; `further` steps on each element of the result."""

    x: Input[Vector[Vector[P]]]
    operation: ClassVar[str]
    carried: ClassVar[type[DType]]
    further: ClassVar[int] = 0
    shares: ClassVar[int] = 1
    across: ClassVar[bool] = False

    def cycles(self: Any, target: Target) -> int:
        dtype = self.fields["x"].dtype
        out = self.fields["out"].dtype
        paths = -(-len(self.out) // (target.num_worker_contexts * target.get_vector_width(out)))
        extra: int = self.further * paths * target.num_worker_contexts
        length = self.x.size // len(self.out) if self.across else len(self.x)
        return (
            stage_cycles(
                *(self.operation, len(self.out), length, dtype, out, target),
                self.shares,
                self.across,
            )
            + extra
        )

    def reduced(self: Any) -> Any:
        """Return the row of results."""
        return reduced(self.operation, self.x, self.carried, self.shares, self.across)


class ReduceRows(_Reduction[P, R]):
    """out = the rows of x, reduced one after the other."""

    out: Output[Vector[R]]

    def compute(self) -> None:
        self.out = self.reduced()


class ReduceRowsAlone(Vertex, Generic[P, R]):
    """`ReduceRows` by one worker, for tiles that have several to do."""

    x: Input[Vector[Vector[P]]]
    out: Output[Vector[R]]
    operation: ClassVar[str]
    carried: ClassVar[type[DType]]
    across: ClassVar[bool]

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        out = self.fields["out"].dtype
        rows = self.x.size // len(self.out)
        return worker_cycles(self.operation, len(self.out), rows, dtype, out, target, self.across)

    def compute(self) -> None:
        self.out = reduced(self.operation, self.x, self.carried, 1, self.across)


class ScaledReduceRows(_Reduction[P, R]):
    """out = scale times the rows of x, reduced one after the other."""

    scale: Input[FLOAT]
    out: Output[Vector[R]]
    further = 1

    def compute(self) -> None:
        self.out = self.scale * self.reduced()


class ReduceRowsUpdate(_Reduction[P, R]):
    """out = out + the rows of x, reduced one after the other. A HALF is rounded once."""

    out: InOut[Vector[R]]
    further = 1

    def compute(self) -> None:
        total = self.reduced()
        self.out = self.out.astype(total.dtype) + total


class ScaledReduceRowsUpdate(_Reduction[P, R]):
    """out = out + scale times the rows of x, reduced one after the other. A HALF is rounded
    once."""

    scale: Input[FLOAT]
    out: InOut[Vector[R]]
    further = 2

    def compute(self) -> None:
        total = self.scale * self.reduced()
        self.out = self.out.astype(total.dtype) + total


def reduction_codelet(
    base: type[Vertex],
    operation: str,
    dtype: type[DType],
    out: type[DType],
    carried: type[DType],
    shares: int,
    across: bool = False,
) -> type[Vertex]:
    """Return `base` for an operation and the dtypes of the rows, the result and what is carried:
    popops::ReduceRows<ADD,float>.

    The last is named where it is not the usual one; `shares` of the rows, where there are several:
    `by_worker`; and x, where it is [columns, rows]: `across`.
    """
    refuse_quarter(base.__name__, dtype)
    unusual = carried is not partials_dtype(operation, dtype)
    words = [operation, *dict.fromkeys((dtype, out)), f"in_{carried.__name__.lower()}" * unusual]
    words += [("by_worker" if shares > 1 else ""), "across" * across]
    fixed = {"operation": operation, "carried": carried, "shares": shares, "across": across}
    return typed(base, words, {P: dtype, R: out}, **fixed)
