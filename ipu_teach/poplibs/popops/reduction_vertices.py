"""The codelets of reductions: they reduce rows to one row, on all six workers of a tile.

Sums of HALF are accumulated in FLOAT and rounded once, as in PopLibs by default; other operations
keep their dtype. Cycles are PopLibs' estimates:

* A sum costs as much as the vertex ConvReduce.
* Another operation costs as much as the vertex Reduce, with a share of the columns for every
  worker. Its strided version is used if it supports the operation, and otherwise the general one.
* If there are few columns, every worker has a share of the rows, and the workers' results are then
  reduced, first to last. That costs two Reduce vertices, in the version for scalars, the strided or
  the general one.
* If the rows of a column are contiguous, the version for contiguous regions counts.

PopLibs has no separate estimates for scaling and updating in these vertices. The model assumes one
cycle for each of both, for each vector of results.
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
WORKERS = 6  # The number of workers of a tile.
# workers share rows if there are at most FEW columns, and at least LONG rows for each column
FEW = 8
LONG = 32

P = TypeVar("P")
R = TypeVar("R")


def partials_dtype(operation: str, dtype: type[DType]) -> type[DType]:
    """Return the dtype in which results are accumulated: FLOAT for sums of HALF, else `dtype`."""
    return FLOAT if dtype is HALF and operation in _SUMS else dtype


def shares_of(operation: str, columns: int, rows: int, dtype: type[DType]) -> int:
    """Return into how many shares a vertex divides the rows of [rows, columns].

    It is six if there are few columns with many rows, and otherwise one.
    """
    is_one_column = columns == 1 and operation in ("ADD", "SQUARE_ADD", "MAX", "MIN")
    has_few_columns = 1 < columns <= FEW and operation in _FEW and dtype in (FLOAT, HALF)
    # squares are computed one vector at a time, whatever the number of columns
    min_rows = LONG * (1 if operation == "SQUARE_ADD" else columns)
    return WORKERS if (is_one_column or has_few_columns) and rows >= min_rows else 1


def reduced(
    operation: str, x: Array, carried: type[DType], shares: int = 1, across: bool = False
) -> Array:
    """Return an array [columns]: the rows of x [rows, columns], reduced in the dtype `carried`.

    The rows are divided into `shares` shares. Each share is reduced first to last, and then their
    results are. With `across`, x is [columns, rows].
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
    """Return the tile cycles to reduce a tensor [rows, columns] of `dtype` to [columns] of `out`.

    The rows are divided into `shares` shares. With `across`, the rows of a column are contiguous.
    """
    num_workers = target.num_worker_contexts
    if shares > 1:
        sums_dtype = partials_dtype(operation, dtype)
        cycles = worker_cycles(
            operation,
            columns,
            -(-rows // shares),
            dtype,
            out=sums_dtype,
            target=target,
            across=across,
        )
        cycles *= -(-shares // num_workers)
        cycles += worker_cycles(
            after(operation), columns, shares, sums_dtype, out=out, target=target
        )
        return 2 * SUPERVISOR_OVERHEAD + num_workers * cycles
    if operation == "ADD" and not across:
        return int(vertices.conv_reduce(columns, rows, dtype, target))
    columns_per_path = target.get_vector_width(dtype) if operation in _STRIDED and not across else 1
    cycles = min(columns, columns_per_path * -(-columns // (columns_per_path * num_workers)))
    return num_workers * worker_cycles(
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
    """Return the worker cycles of the fastest version of PopLibs' Reduce for this reduction.

    It reduces `rows` rows of `columns` columns. The rows begin `stride` elements apart, or
    `columns` if it is 0. With `across`, the rows of a column are contiguous instead.
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
    """The base of vertices that reduce the rows of x; `further` counts additional operations.

    P stands for the dtype of x, and R for that of the result.
    """

    x: Input[Vector[Vector[P]]]
    operation: ClassVar[str]
    carried: ClassVar[type[DType]]
    further: ClassVar[int] = 0
    shares: ClassVar[int] = 1
    across: ClassVar[bool] = False

    def cycles(self: Any, target: Target) -> int:
        dtype = self.fields["x"].dtype
        out = self.fields["out"].dtype
        paths_per_worker = -(
            -len(self.out) // (target.num_worker_contexts * target.get_vector_width(out))
        )
        further_cycles: int = self.further * paths_per_worker * target.num_worker_contexts
        num_rows = self.x.size // len(self.out) if self.across else len(self.x)
        cycles = stage_cycles(
            self.operation,
            len(self.out),
            num_rows,
            dtype,
            out=out,
            target=target,
            shares=self.shares,
            across=self.across,
        )
        return cycles + further_cycles

    def reduced(self) -> Array:
        """Return the reduced rows: an array [columns]."""
        return reduced(self.operation, self.x, self.carried, self.shares, across=self.across)


class ReduceRows(_Reduction[P, R]):
    """Set `out` to the rows of x, reduced first to last."""

    out: Output[Vector[R]]

    def compute(self) -> None:
        self.out = self.reduced()


class ReduceRowsAlone(Vertex, Generic[P, R]):
    """Set `out` to the rows of x, reduced by one worker; a tile may have several such vertices."""

    x: Input[Vector[Vector[P]]]
    out: Output[Vector[R]]
    operation: ClassVar[str]
    carried: ClassVar[type[DType]]
    across: ClassVar[bool]

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        out = self.fields["out"].dtype
        num_rows = self.x.size // len(self.out)
        return worker_cycles(
            self.operation,
            len(self.out),
            num_rows,
            dtype,
            out=out,
            target=target,
            across=self.across,
        )

    def compute(self) -> None:
        self.out = reduced(self.operation, self.x, self.carried, 1, across=self.across)


class ScaledReduceRows(_Reduction[P, R]):
    """Set `out` to `scale` times the rows of x, reduced first to last."""

    scale: Input[FLOAT]
    out: Output[Vector[R]]
    further = 1

    def compute(self) -> None:
        self.out = self.scale * self.reduced()


class ReduceRowsUpdate(_Reduction[P, R]):
    """Add the rows of x, reduced first to last, to `out`. A result of HALF is rounded once."""

    out: InOut[Vector[R]]
    further = 1

    def compute(self) -> None:
        total = self.reduced()
        self.out = self.out.astype(total.dtype) + total


class ScaledReduceRowsUpdate(_Reduction[P, R]):
    """Add `scale` times the reduced rows of x to `out`. A result of HALF is rounded once."""

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
    """Return the codelet `base` for an operation and these dtypes.

    Rows have the dtype `dtype`, results `out`, and sums `carried`. The codelet's name is, for
    example, popops::ReduceRows<ADD,float>. It contains `carried` if that is not the default,
    "by_worker" if there are several `shares` of the rows, and "across" if x is [columns, rows].
    """
    refuse_quarter(base.__name__, dtype)
    is_unusual = carried is not partials_dtype(operation, dtype)
    name_words: list[Word] = [operation, *dict.fromkeys((dtype, out))]
    name_words.append(f"in_{carried.__name__.lower()}" if is_unusual else "")
    name_words.append("by_worker" if shares > 1 else "")
    name_words.append("across" if across else "")
    constants = {"operation": operation, "carried": carried, "shares": shares, "across": across}
    return typed(base, name_words, {P: dtype, R: out}, **constants)
