"""Is it rounding, or another formula? An answer that misses its tolerance is tried once more with
float64 for FLOAT and HALF.

A tile has no double precision, and a learner gets none: only checks do this. What a dtype weighs
stays as it is, and so do places and plans; only the numbers that memory holds are wider. Cycles of
such a run mean nothing. numpy's narrow types stand for float64 too.

How far off a right answer may be is derived: the reference itself is computed in the declared type
and in float64, and an answer may lose `ROOM` times what it loses, for it may add up in another
order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu_course.checking.time_limit import rebound
from ipu_teach.types import FLOAT, DType
from ipu_teach.types.dtypes import IN_DOUBLE

ROOM = 8  # times the reference's own loss
NARROW = ("float16", "half", "float32", "single")  # of numpy's names


@contextmanager
def in_float64() -> Iterator[None]:
    """Yield the within a check: graphs, engines and numpy calls hold float64 where FLOAT, HALF or a
    narrow type is asked for."""
    before = IN_DOUBLE.set(True)
    try:
        # by which names an answer's own calls ask for them
        with rebound({(np, name): np.float64 for name in NARROW}):
            yield
    finally:
        IN_DOUBLE.reset(before)


@dataclass(frozen=True)
class Precision:
    """How precisely an exercise is asked for: its formula on numpy arrays, the cases, and the dtype
    it is declared in."""

    formula: Callable[..., Any]
    cases: Iterable[tuple[Any, ...]]
    dtype: type[DType] = FLOAT

    def losses(self, dtype: type[DType]) -> list[float]:
        """Return what the formula loses in `dtype`, of the largest number of each right answer."""
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
        """How far off an answer may be, of the largest number of the right one."""
        return ROOM * max(*self.losses(self.dtype), float(np.finfo(self.dtype.numpy).eps) / 2)
