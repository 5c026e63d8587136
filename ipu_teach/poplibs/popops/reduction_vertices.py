"""The vertices of reductions: rows to one row, first to last, on all six workers of a tile.

HALF is added up in FLOAT and rounded once, as PopLibs does by default; other operations keep their dtype. A sum costs what
PopLibs' ConvReduce does. The other operations cost its general Reduce vertex, of which every worker has a share of the
columns. Scaling and updating have no estimate of their own there; assumed: a cycle each for a data path of results.
"""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import InOut, Input, Output, SupervisorVertex, Vector, Vertex, template
from ipu_teach.poplibs.popops.codelets import refuse_quarter
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

P = TypeVar("P")
R = TypeVar("R")


def partials_dtype(operation: str, dtype: type[DType]) -> type[DType]:
    """The dtype in which a reduction of `dtype` is carried on: FLOAT for sums of HALF, else `dtype`."""
    return FLOAT if dtype is HALF and operation in _SUMS else dtype


def reduced(operation: str, x: Any, carried: type[DType]) -> Any:
    """The rows of x [rows, columns] reduced, first to last, in the dtype `carried`."""
    if x.dtype != carried.numpy:
        x = x.astype(carried.numpy)
    if operation == "SQUARE_ADD":
        x = np.square(x)
    ufunc = UFUNCS[operation]
    if x.shape[1] == 1 and len(x):  # numpy would add a single column in pairs
        return ufunc.accumulate(x, axis=0)[-1]
    return ufunc.reduce(x, axis=0)


def stage_cycles(operation: str, columns: int, rows: int, dtype: type[DType], out: type[DType], target: Target) -> int:
    """Tile cycles of one vertex that reduces [rows, columns] of `dtype` to [columns] of `out`."""
    if operation == "ADD":
        return int(vertices.conv_reduce(columns, rows, dtype, target))
    workers = target.num_worker_contexts
    kind = FLOAT if dtype is BOOL else dtype
    return workers * int(vertices.reduce_regions(-(-columns // workers), rows, kind, out, target, op=operation))


class _Reduction(SupervisorVertex, Generic[P, R]):
    """The rows of x, reduced one after the other; `further` steps on each element of the result."""

    x: Input[Vector[Vector[P]]]
    operation: ClassVar[str]
    carried: ClassVar[type[DType]]
    further: ClassVar[int] = 0

    def cycles(self: Any, target: Target) -> int:
        dtype, out = self.fields["x"].dtype, self.fields["out"].dtype
        paths = -(-len(self.out) // (target.num_worker_contexts * target.get_vector_width(out)))
        extra: int = self.further * paths * target.num_worker_contexts
        return stage_cycles(self.operation, len(self.out), len(self.x), dtype, out, target) + extra


class ReduceRows(_Reduction[P, R]):
    """out = the rows of x, reduced one after the other."""

    out: Output[Vector[R]]

    def compute(self) -> None:
        self.out = reduced(self.operation, self.x, self.carried)


class ScaledReduceRows(_Reduction[P, R]):
    """out = scale times the rows of x, reduced one after the other."""

    scale: Input[FLOAT]
    out: Output[Vector[R]]
    further = 1

    def compute(self) -> None:
        self.out = self.scale * reduced(self.operation, self.x, self.carried)


class ReduceRowsUpdate(_Reduction[P, R]):
    """out = out + the rows of x, reduced one after the other. A HALF is rounded once."""

    out: InOut[Vector[R]]
    further = 1

    def compute(self) -> None:
        total = reduced(self.operation, self.x, self.carried)
        self.out = self.out.astype(total.dtype) + total


class ScaledReduceRowsUpdate(_Reduction[P, R]):
    """out = out + scale times the rows of x, reduced one after the other. A HALF is rounded once."""

    scale: Input[FLOAT]
    out: InOut[Vector[R]]
    further = 2

    def compute(self) -> None:
        total = self.scale * reduced(self.operation, self.x, self.carried)
        self.out = self.out.astype(total.dtype) + total


@cache
def reduction_codelet(
    base: type[Vertex], operation: str, dtype: type[DType], out: type[DType], carried: type[DType]
) -> type[Vertex]:
    """`base` for an operation and the dtypes of the rows, the result and what is carried: popops::ReduceRows<ADD,float>.

    The last is named where it is not the usual one.
    """
    refuse_quarter(base.__name__, dtype)
    names = [dtype.__name__.lower()] + ([] if out is dtype else [out.__name__.lower()])
    names += [] if carried is partials_dtype(operation, dtype) else [f"in_{carried.__name__.lower()}"]
    dtypes: dict[Any, type[DType]] = {P: dtype, R: out}
    name = f"popops::{base.__name__}<{operation},{','.join(names)}>"
    return template(base, name, dtypes, operation=operation, carried=carried)
