"""The codelets that read and write rows of a matrix whose columns are distributed over tiles.

The cycles are PopLibs' estimates of DynamicSlice1D, MultiSlice, MultiUpdate and MultiUpdateOp
(popops/PerformanceEstimation.cpp). PopLibs has no estimate of an update by MUL; the model assumes
the cost of an update by MAX.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import InOut, Input, Output, SupervisorVertex, Vector
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, Array

K = TypeVar("K")
U = TypeVar("U")


class DynamicSlice1D(SupervisorVertex):
    """Set `out` to consecutive rows of `base`, beginning with the row with the number `offset`.

    The row after the last row of `base` is its first row. An offset beyond the last row counts as
    0.
    """

    base: Input[Vector[Vector[FLOAT]]]
    offset: Input[UNSIGNED_INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        num_rows = len(self.base)
        num_sliced = len(self.out)
        row_numbers = np.remainder(_start(self.offset, num_rows) + np.arange(num_sliced), num_rows)
        self.out = np.take(self.base, row_numbers, axis=0, mode="clip")

    def cycles(self, target: Target) -> int:
        num_rows, num_columns = self.out.shape
        return int(
            vertices.dynamic_slice_1d(num_columns, num_rows, self.fields["out"].dtype, target)
        )


class DynamicUpdateSlice1D(SupervisorVertex):
    """Replace consecutive rows of `base` by those of `update`, beginning with row number `offset`.

    The row after the last row of `base` is its first row. An offset beyond the last row counts as
    0.
    """

    base: InOut[Vector[Vector[FLOAT]]]
    update: Input[Vector[Vector[FLOAT]]]
    offset: Input[UNSIGNED_INT]

    def compute(self) -> None:
        num_rows = len(self.base)
        num_updated = len(self.update)
        update_rows = np.remainder(np.arange(num_rows) - _start(self.offset, num_rows), num_rows)
        taken = np.take(self.update, update_rows, axis=0, mode="clip")
        self.base = np.where((update_rows < num_updated).reshape((num_rows, 1)), taken, self.base)

    def cycles(self, target: Target) -> int:
        num_rows, num_columns = self.update.shape
        return int(
            vertices.dynamic_slice_1d(num_columns, num_rows, self.fields["base"].dtype, target)
        )


def _start(offset: Array, rows: int) -> Array:
    return np.where(offset < rows, offset, np.uint32(0)).astype(np.int64)


class MultiSlice(SupervisorVertex):
    """Set `out` to the rows of `base` whose numbers are in `offsets`; a missing row becomes zeros.

    `first` is the number of the first row of `base`. In the field annotations, UNSIGNED_INT stands
    for the dtype of the row numbers.
    """

    base: Input[Vector[Vector[FLOAT]]]
    offsets: Input[Vector[UNSIGNED_INT]]
    out: Output[Vector[Vector[FLOAT]]]
    first: UNSIGNED_INT

    def compute(self) -> None:
        row_numbers = self.offsets - self.first
        is_inside = (row_numbers >= 0) & (row_numbers < len(self.base))
        taken = np.take(self.base, row_numbers.astype(np.int64), axis=0, mode="clip")
        self.out = np.where(
            is_inside.reshape((len(self.offsets), 1)), taken, np.zeros((), self.out.dtype)
        )

    def cycles(self, target: Target) -> int:
        num_rows, num_columns = self.out.shape
        return int(vertices.multi_slice(num_columns, num_rows, self.fields["out"].dtype, target))


class MultiUpdate(SupervisorVertex):
    """Replace the rows of `base` whose numbers are in `offsets` by the rows of `updates`, in order.

    The first row of `base` has the number `first`. If `base` has no row with a certain number, the
    update for this number is skipped.
    """

    base: InOut[Vector[Vector[FLOAT]]]
    updates: Input[Vector[Vector[FLOAT]]]
    offsets: Input[Vector[UNSIGNED_INT]]
    first: UNSIGNED_INT

    def compute(self) -> None:
        row_numbers = self.offsets - self.first
        is_inside = (row_numbers >= 0) & (row_numbers < len(self.base))
        self.base[row_numbers[is_inside]] = self.updates[is_inside]

    def cycles(self, target: Target) -> int:
        num_rows, num_columns = self.updates.shape
        return int(
            vertices.multi_slice(
                num_columns, num_rows, self.fields["base"].dtype, target, update=True
            )
        )


class MultiUpdateOp(SupervisorVertex, Generic[K, U]):
    """Update the rows of `base` whose numbers are in `offsets` by the rows of `updates`, in order.

    The operation is ADD (of `scale` times `updates`), MUL or MAX. Sums of HALF are accumulated in
    FLOAT and rounded once; updates of HALF may be added to FLOAT.
    """

    base: InOut[Vector[Vector[FLOAT]]]
    updates: Input[Vector[Vector[U]]]
    offsets: Input[Vector[UNSIGNED_INT]]
    scale: Input[K]
    first: UNSIGNED_INT
    operation: ClassVar[str]

    def compute(self) -> None:
        row_numbers = self.offsets - self.first
        is_inside = (row_numbers >= 0) & (row_numbers < len(self.base))
        sums_dtype = (
            np.float32
            if self.operation == "ADD" and self.base.dtype == np.float16
            else self.base.dtype
        )
        result = self.base.astype(sums_dtype)
        updates = self.updates[is_inside].astype(sums_dtype)
        if self.operation == "ADD":
            np.add.at(
                result,
                row_numbers[is_inside],
                self.scale.astype(sums_dtype) * updates.astype(sums_dtype),
            )
        else:
            {"MUL": np.multiply, "MAX": np.maximum}[self.operation].at(
                result, row_numbers[is_inside], updates
            )
        self.base[...] = result

    def cycles(self, target: Target) -> int:
        num_rows, num_columns = self.updates.shape
        dtype = self.fields["base"].dtype
        variants: dict[str, bool] = {
            "scaled": self.operation == "ADD",
            "wide_scale": dtype is HALF and self.fields["scale"].dtype is FLOAT,
        }
        return int(vertices.multi_update_op(num_columns, num_rows, dtype, target, **variants))
