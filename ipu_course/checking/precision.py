"""Decide whether a wrong result is due to rounding or to a wrong formula.

An answer outside its tolerance runs again with float64 in place of FLOAT, HALF and numpy's narrow
types. Only checks can do this: a real tile has no float64, and learners cannot request it. Tile
mappings, plans and the byte size of a dtype do not change. The values in memory do: they have 64
bits. The cycle counts of such a run are meaningless.

The tolerance is derived from the reference formula, computed in the declared dtype and in float64.
The error of an answer may be `ROOM` times the difference between these two results, because the
answer may add numbers in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ipu_course.checking.time_limit import rebound
from ipu_teach.types import FLOAT, DType
from ipu_teach.types.dtypes import IN_DOUBLE

ROOM = 8  # The allowed error of an answer, as a multiple of the reference formula's rounding error.
NARROW = ("float16", "half", "float32", "single")  # Numpy's types with fewer than 64 bits.


@contextmanager
def in_float64() -> Iterator[None]:
    """Context manager: compute in float64 wherever FLOAT, HALF or a narrow numpy type is declared.

    The graphs, engines and numpy calls in the block are affected.
    """
    before = IN_DOUBLE.set(True)
    try:
        # The answer may name these types itself, as in `np.float32(0)`.
        with rebound({(np, name): np.float64 for name in NARROW}):
            yield
    finally:
        IN_DOUBLE.reset(before)


@dataclass(frozen=True)
class Precision:
    """The floating-point precision that an exercise requires.

    `formula` is the reference formula on numpy arrays, `cases` has its arguments for each case, and
    `dtype` is the declared dtype.
    """

    formula: Callable[..., ArrayLike]
    cases: Iterable[tuple[ArrayLike, ...]]
    dtype: type[DType] = FLOAT

    def losses(self, dtype: type[DType]) -> list[float]:
        """Return the error of the formula in `dtype` for each case.

        An error is relative to the largest absolute number of the float64 result.
        """
        lost = []
        for case in self.cases:
            exact = np.asarray(self.formula(*(np.asarray(part, np.float64) for part in case)))
            with np.errstate(over="ignore"):
                rough = np.asarray(
                    self.formula(*(np.asarray(part, dtype.numpy) for part in case)), np.float64
                )
            largest = float(np.abs(exact).max(initial=0))
            lost.append(float(np.abs(rough - exact).max(initial=0)) / largest if largest else 0.0)
        return lost

    @property
    def tolerance(self) -> float:
        """The allowed error of an answer, relative to the largest right number."""
        return ROOM * max(*self.losses(self.dtype), float(np.finfo(self.dtype.numpy).eps) / 2)
