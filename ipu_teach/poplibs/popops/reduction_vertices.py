"""The codelets of reductions: each reduces the rows of a matrix to a single row, on one tile.

Sums of HALF are accumulated in FLOAT and rounded once, as in PopLibs by default; other operations
accumulate in the dtype of the rows. The cycles are PopLibs' estimates:

* A sum costs as much as PopLibs' vertex ConvReduce.
* Any other operation costs as much as the vertex Reduce, with the columns divided between the six
  workers. The model uses the estimate of Reduce's strided version if this version supports the
  operation, and otherwise the estimate of the general version.
* If there are few columns, the workers divide the rows between them, and then the workers' results
  are reduced, first to last. This costs as much as two Reduce vertices, each in its version for
  scalars, its strided version or its general version.
* If the elements of a column are contiguous in memory, the model uses the estimate of Reduce's
  version for contiguous regions.

PopLibs has no separate estimates for scaling and updating in these vertices. For each of the two,
the model adds one cycle per vector of results.
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
# Workers divide the rows if there are at most FEW columns, and at least LONG rows for each column.
FEW = 8
LONG = 32

P = TypeVar("P")
R = TypeVar("R")


def partials_dtype(operation: str, dtype: type[DType]) -> type[DType]:
    """Return the dtype in which results accumulate: FLOAT for sums of HALF, otherwise `dtype`."""
    return FLOAT if dtype is HALF and operation in _SUMS else dtype


def shares_of(operation: str, columns: int, rows: int, dtype: type[DType]) -> int:
    """Return the number of parts into which the workers of a tile divide the rows of a matrix.

    The matrix is [rows, columns]. The number is six, one part for each worker, if there are few
    columns with many rows and the operation is ADD, SQUARE_ADD, MAX or MIN. Otherwise it is one.
    """
    is_one_column = columns == 1 and operation in ("ADD", "SQUARE_ADD", "MAX", "MIN")
    has_few_columns = 1 < columns <= FEW and operation in _FEW and dtype in (FLOAT, HALF)
    # Squares are computed one vector at a time, so the number of columns does not matter for them.
    min_rows = LONG * (1 if operation == "SQUARE_ADD" else columns)
    return WORKERS if (is_one_column or has_few_columns) and rows >= min_rows else 1


def reduced(
    operation: str, x: Array, carried: type[DType], shares: int = 1, across: bool = False
) -> Array:
    """Return an array [columns]: the rows of x [rows, columns], reduced in the type `carried`.

    The rows are divided into `shares` groups of consecutive rows. The rows of each group are
    reduced first to last, and then the results of the groups are reduced. If `across` is true, x is
    [columns, rows].
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
    # For a single column, np.add.reduce would not add the rows from first to last.
    elif x.shape[1] == 1 and len(x):
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
    """Return a tile's cycles to reduce a tensor [rows, columns] of `dtype` to [columns] of `out`.

    The rows are divided into `shares` groups, which the workers reduce in parallel. If `across` is
    true, the elements of a column are contiguous in memory.
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
    """Return the cycles of a worker in the version of PopLibs' Reduce for this reduction.

    The worker reduces `rows` rows of `columns` columns. `dtype` is the dtype of the rows, and `out`
    the dtype of the results. Two successive rows begin `stride` elements apart, or `columns`
    elements if `stride` is 0. If `across` is true, the elements of a column are contiguous in
    memory instead.
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
    """The base class of vertices that reduce the rows of x.

    In the field annotations, P stands for the dtype of x, and R for the dtype of the result. The
    class attribute `further` is the number of operations that follow the reduction for each result:
    scaling and updating count as one each.
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
    """Reduce the rows of x, first to last, and write the result to `out`."""

    out: Output[Vector[R]]

    def compute(self) -> None:
        self.out = self.reduced()


class ReduceRowsAlone(Vertex, Generic[P, R]):
    """Reduce the rows of x with one worker, and write the result to `out`.

    A tile may have several of these vertices, which run on different workers.
    """

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
    """Reduce the rows of x, first to last, and write `scale` times the result to `out`."""

    scale: Input[FLOAT]
    out: Output[Vector[R]]
    further = 1

    def compute(self) -> None:
        self.out = self.scale * self.reduced()


class ReduceRowsUpdate(_Reduction[P, R]):
    """Reduce the rows of x, first to last, and add the result to `out`.

    If `out` is HALF, it is rounded once.
    """

    out: InOut[Vector[R]]
    further = 1

    def compute(self) -> None:
        total = self.reduced()
        self.out = self.out.astype(total.dtype) + total


class ScaledReduceRowsUpdate(_Reduction[P, R]):
    """Reduce the rows of x, and add `scale` times the result to `out`.

    If `out` is HALF, it is rounded once.
    """

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
    """Return a reduction codelet: the template `base` for an operation and its dtypes.

    `dtype` is the dtype of the rows, `out` the dtype of the results, and `carried` the dtype in
    which values are accumulated. The codelet's name is, for example, popops::ReduceRows<ADD,float>.
    The name contains `carried` if it is not the default dtype, "by_worker" if the rows are divided
    into several `shares`, and "across" if the operand is [columns, rows] instead of [rows,
    columns].
    """
    refuse_quarter(base.__name__, dtype)
    is_unusual = carried is not partials_dtype(operation, dtype)
    name_words: list[Word] = [operation, *dict.fromkeys((dtype, out))]
    name_words.append(f"in_{carried.__name__.lower()}" if is_unusual else "")
    name_words.append("by_worker" if shares > 1 else "")
    name_words.append("across" if across else "")
    constants = {"operation": operation, "carried": carried, "shares": shares, "across": across}
    return typed(base, name_words, {P: dtype, R: out}, **constants)
