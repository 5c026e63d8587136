"""The codelets of reductions: rows to one row, first to last, on all six workers of a tile.

Sums of HALF are accumulated in FLOAT and rounded once, as in PopLibs by default; other operations
keep their dtype. Costs are PopLibs':

* A sum costs ConvReduce.
* The other operations cost the Reduce vertex, the strided one if it has the operation and otherwise
  the general one, with a share of the columns for every worker.
* With few columns, every worker has a share of the rows, and their results are then reduced, first
  to last. That costs the Reduce vertex twice, for a scalar, strided, or general.
* If the rows of a column are contiguous, it is the vertex for contiguous regions.

PopLibs has no separate estimate of scaling and updating there. The cost is assumed to be a cycle
each for a data path of results.
"""

from __future__ import annotations

from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.vertices.parts import SUPERVISOR_OVERHEAD
from ipu_teach.graph import InOut, Input, Output, SupervisorVertex, Vector, Vertex
from ipu_teach.poplibs.laying import Word, typed
from ipu_teach.poplibs.popops.elementwise_codelets import refuse_quarter
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, Array, DType

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
WORKERS = 6  # of a tile
# workers share rows if there are at most FEW columns, and LONG rows for each of them
FEW = 8
LONG = 32

P = TypeVar("P")
R = TypeVar("R")


def partials_dtype(operation: str, dtype: type[DType]) -> type[DType]:
    """Return the dtype of accumulation: FLOAT for sums of HALF, and otherwise `dtype`."""
    return FLOAT if dtype is HALF and operation in _SUMS else dtype


def shares_of(operation: str, columns: int, rows: int, dtype: type[DType]) -> int:
    """Return the number of shares of the rows that a vertex reduces in parallel.

    It is six for few long columns, and otherwise one.
    """
    scalar = columns == 1 and operation in ("ADD", "SQUARE_ADD", "MAX", "MIN")
    few = 1 < columns <= FEW and operation in _FEW and dtype in (FLOAT, HALF)
    # squares are computed a data path at a time, whatever the number of columns
    long = LONG * (1 if operation == "SQUARE_ADD" else columns)
    return WORKERS if (scalar or few) and rows >= long else 1


def reduced(
    operation: str, x: Array, carried: type[DType], shares: int = 1, across: bool = False
) -> Array:
    """Return [columns]: the rows of x [rows, columns], reduced in the dtype `carried`.

    Each of `shares` shares of the rows is reduced first to last, and then their results. With
    `across`, x is [columns, rows].
    """
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
    result: Array
    if across:
        result = ufunc.accumulate(x, axis=1)[:, -1]
    elif x.shape[1] == 1 and len(x):  # numpy would add a single column in pairs
        result = ufunc.accumulate(x, axis=0)[-1]
    else:
        result = ufunc.reduce(x, axis=0)
    return result


def after(operation: str) -> str:
    """Return the operation that combines the partial results of `operation`."""
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
    """Return the tile cycles to reduce [rows, columns] of `dtype` to [columns] of `out`.

    The rows are divided into `shares`. With `across`, the rows of a column are contiguous.
    """
    workers = target.num_worker_contexts
    if shares > 1:
        carried = partials_dtype(operation, dtype)
        cycles = worker_cycles(
            operation, columns, -(-rows // shares), dtype, out=carried, target=target, across=across
        )
        cycles *= -(-shares // workers)
        cycles += worker_cycles(after(operation), columns, shares, carried, out=out, target=target)
        return 2 * SUPERVISOR_OVERHEAD + workers * cycles
    if operation == "ADD" and not across:
        return int(vertices.conv_reduce(columns, rows, dtype, target))
    path = target.get_vector_width(dtype) if operation in _STRIDED and not across else 1
    cycles = min(columns, path * -(-columns // (path * workers)))
    return workers * worker_cycles(
        operation,
        cycles,
        rows,
        dtype,
        out=out,
        target=target,
        across=across,
        stride=columns,
    )


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
    """Return the worker cycles of PopLibs' Reduce, in the specialisation that fits.

    It reduces `rows` rows of `columns` columns. The rows are `stride` elements apart, or with
    `across` the rows of a column are contiguous.
    """
    dtype, out = (FLOAT if kind is BOOL else kind for kind in (dtype, out))
    if columns == 1 and operation in _FEW and stride < 2:
        return int(vertices.reduce_to_scalar(rows, dtype, out, target))
    if across and operation in ("ADD", "SQUARE_ADD"):
        return int(vertices.reduce_contiguous(columns + 1, rows, dtype, target))
    if across:
        region_cycles = vertices.reduce_regions(1, rows, dtype, out, target=target, op=operation)
        return columns * int(region_cycles)
    if operation in _STRIDED and dtype in (FLOAT, HALF):
        return int(
            vertices.reduce_strided(
                columns, rows, stride or columns, dtype, out=out, target=target, op=operation
            )
        )
    return int(vertices.reduce_regions(columns, rows, dtype, out, target=target, op=operation))


class _Reduction(SupervisorVertex, Generic[P, R]):
    """The rows of x, reduced first to last; the result takes `further` steps per element."""

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
        cycles = stage_cycles(
            self.operation,
            len(self.out),
            length,
            dtype,
            out=out,
            target=target,
            shares=self.shares,
            across=self.across,
        )
        return cycles + extra

    def reduced(self) -> Array:
        """Return the row of results."""
        return reduced(self.operation, self.x, self.carried, self.shares, across=self.across)


class ReduceRows(_Reduction[P, R]):
    """out = the rows of x, reduced one after the other."""

    out: Output[Vector[R]]

    def compute(self) -> None:
        self.out = self.reduced()


class ReduceRowsAlone(Vertex, Generic[P, R]):
    """out = the rows of x, reduced by one worker, on a tile with several such vertices."""

    x: Input[Vector[Vector[P]]]
    out: Output[Vector[R]]
    operation: ClassVar[str]
    carried: ClassVar[type[DType]]
    across: ClassVar[bool]

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        out = self.fields["out"].dtype
        rows = self.x.size // len(self.out)
        return worker_cycles(
            self.operation,
            len(self.out),
            rows,
            dtype,
            out=out,
            target=target,
            across=self.across,
        )

    def compute(self) -> None:
        self.out = reduced(self.operation, self.x, self.carried, 1, across=self.across)


class ScaledReduceRows(_Reduction[P, R]):
    """out = scale times the rows of x, reduced one after the other."""

    scale: Input[FLOAT]
    out: Output[Vector[R]]
    further = 1

    def compute(self) -> None:
        self.out = self.scale * self.reduced()


class ReduceRowsUpdate(_Reduction[P, R]):
    """out = out + the rows of x, reduced one after the other. HALF is rounded once."""

    out: InOut[Vector[R]]
    further = 1

    def compute(self) -> None:
        total = self.reduced()
        self.out = self.out.astype(total.dtype) + total


class ScaledReduceRowsUpdate(_Reduction[P, R]):
    """out = out + scale times the rows of x, reduced one after the other. HALF is rounded once."""

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
    """Return `base` for an operation, rows of `dtype`, results of `out`, accumulated in `carried`.

    The class is named like popops::ReduceRows<ADD,float>. The name contains `carried` if it is
    unusual, "by_worker" if there are several `shares` of the rows, and "across" if x is [columns,
    rows].
    """
    refuse_quarter(base.__name__, dtype)
    unusual = carried is not partials_dtype(operation, dtype)
    words: list[Word] = [operation, *dict.fromkeys((dtype, out))]
    words.append(f"in_{carried.__name__.lower()}" if unusual else "")
    words.append("by_worker" if shares > 1 else "")
    words.append("across" if across else "")
    fixed = {"operation": operation, "carried": carried, "shares": shares, "across": across}
    return typed(base, words, {P: dtype, R: out}, **fixed)
