"""The codelets that read and write rows whose numbers are data; each uses the columns on its tile.

Cycles are PopLibs' estimates of DynamicSlice1D, MultiSlice, MultiUpdate and MultiUpdateOp
(popops/PerformanceEstimation.cpp). PopLibs has no estimate of an update by MUL; it costs that of
MAX.
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
    """out = the rows of base from offset on, as many as out has.

    The first row follows the last; an offset that is too large counts as 0.
    """

    base: Input[Vector[Vector[FLOAT]]]
    offset: Input[UNSIGNED_INT]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        rows = len(self.base)
        count = len(self.out)
        places = np.remainder(_start(self.offset, rows) + np.arange(count), rows)
        self.out = np.take(self.base, places, axis=0, mode="clip")

    def cycles(self, target: Target) -> int:
        rows, columns = self.out.shape
        return int(vertices.dynamic_slice_1d(columns, rows, self.fields["out"].dtype, target))


class DynamicUpdateSlice1D(SupervisorVertex):
    """rows of base from offset on = the rows of update.

    The first row follows the last; an offset that is too large counts as 0.
    """

    base: InOut[Vector[Vector[FLOAT]]]
    update: Input[Vector[Vector[FLOAT]]]
    offset: Input[UNSIGNED_INT]

    def compute(self) -> None:
        rows = len(self.base)
        count = len(self.update)
        places = np.remainder(np.arange(rows) - _start(self.offset, rows), rows)
        taken = np.take(self.update, places, axis=0, mode="clip")
        self.base = np.where((places < count).reshape((rows, 1)), taken, self.base)

    def cycles(self, target: Target) -> int:
        rows, columns = self.update.shape
        return int(vertices.dynamic_slice_1d(columns, rows, self.fields["base"].dtype, target))


def _start(offset: Array, rows: int) -> Array:
    return np.where(offset < rows, offset, np.uint32(0)).astype(np.int64)


class MultiSlice(SupervisorVertex):
    """out = the rows of base whose numbers are offsets; zeros for numbers without a row.

    `first` is the number of the first row of base. UNSIGNED_INT stands for the dtype of the
    numbers.
    """

    base: Input[Vector[Vector[FLOAT]]]
    offsets: Input[Vector[UNSIGNED_INT]]
    out: Output[Vector[Vector[FLOAT]]]
    first: UNSIGNED_INT

    def compute(self) -> None:
        places = self.offsets - self.first
        inside = (places >= 0) & (places < len(self.base))
        taken = np.take(self.base, places.astype(np.int64), axis=0, mode="clip")
        self.out = np.where(
            inside.reshape((len(self.offsets), 1)), taken, np.zeros((), self.out.dtype)
        )

    def cycles(self, target: Target) -> int:
        rows, columns = self.out.shape
        return int(vertices.multi_slice(columns, rows, self.fields["out"].dtype, target))


class MultiUpdate(SupervisorVertex):
    """Set the rows of base that `offsets` names to the rows of updates, in their order.

    The first row of base has the number `first`; offsets without a row are skipped.
    """

    base: InOut[Vector[Vector[FLOAT]]]
    updates: Input[Vector[Vector[FLOAT]]]
    offsets: Input[Vector[UNSIGNED_INT]]
    first: UNSIGNED_INT

    def compute(self) -> None:
        places = self.offsets - self.first
        inside = (places >= 0) & (places < len(self.base))
        self.base[places[inside]] = self.updates[inside]

    def cycles(self, target: Target) -> int:
        rows, columns = self.updates.shape
        return int(
            vertices.multi_slice(columns, rows, self.fields["base"].dtype, target, update=True)
        )


class MultiUpdateOp(SupervisorVertex, Generic[K, U]):
    """rows of base whose numbers are offsets = combined with updates, from first to last.

    The operation is ADD (of scale times updates), MUL or MAX. Sums of HALF are accumulated in FLOAT
    and rounded once; updates of HALF may be added to FLOAT.
    """

    base: InOut[Vector[Vector[FLOAT]]]
    updates: Input[Vector[Vector[U]]]
    offsets: Input[Vector[UNSIGNED_INT]]
    scale: Input[K]
    first: UNSIGNED_INT
    operation: ClassVar[str]

    def compute(self) -> None:
        places = self.offsets - self.first
        inside = (places >= 0) & (places < len(self.base))
        wide = (
            np.float32
            if self.operation == "ADD" and self.base.dtype == np.float16
            else self.base.dtype
        )
        result = self.base.astype(wide)
        updates = self.updates[inside].astype(wide)
        if self.operation == "ADD":
            np.add.at(result, places[inside], self.scale.astype(wide) * updates.astype(wide))
        else:
            {"MUL": np.multiply, "MAX": np.maximum}[self.operation].at(
                result, places[inside], updates
            )
        self.base[...] = result

    def cycles(self, target: Target) -> int:
        rows, columns = self.updates.shape
        dtype = self.fields["base"].dtype
        kinds: dict[str, bool] = {
            "scaled": self.operation == "ADD",
            "wide_scale": dtype is HALF and self.fields["scale"].dtype is FLOAT,
        }
        return int(vertices.multi_update_op(columns, rows, dtype, target, **kinds))
