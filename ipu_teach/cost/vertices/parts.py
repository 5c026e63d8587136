"""Helpers for the estimators: sizes, the work of one worker, and costs of inner loops.

A size is an int, or an int64 array with an entry for each vertex. The estimators use only integer
arithmetic and the helpers in this module. So a single call works for one vertex or for a million,
and gives the same cycles in both cases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, overload

import numpy as np

from ipu_teach.errors import MissingPerfEstimateError, did_you_mean, shown
from ipu_teach.target import Target
from ipu_teach.types import BOOL, FLOAT, HALF, INT, LONGLONG, UNSIGNED_INT, Array, DType

Size: TypeAlias = int | Array

# The tile cycles of the supervisor before and after a 1-D vertex (popops/PerformanceEstimation.cpp,
# basicOpSupervisorOverhead).
SUPERVISOR_OVERHEAD = 11
# The kinds of work that are counted. Three kinds follow each other: work on single elements
# ("scalar"), the starts of loops over vectors, and reads of a word before a store to a part of the
# word. The other three kinds overlap: work on vectors, their loads and their stores.
STARTS, WORDS = "loop starts", "rest of words"
BESIDE = ("vector", "loads", "stores")
COUNTERS = ("scalar", STARTS, WORDS, *BESIDE)


@overload
def ceil_div(a: int, b: int) -> int: ...
@overload
def ceil_div(a: Size, b: Size) -> Size: ...
def ceil_div(a: Size, b: Size) -> Size:
    """Return a / b, rounded up."""
    return -(-a // b)


@overload
def share(n: int, target: Target) -> int: ...
@overload
def share(n: Size, target: Target) -> Size: ...
def share(n: Size, target: Target) -> Size:
    """Return how many of `n` items the busiest worker of a tile processes."""
    return ceil_div(n, target.num_worker_contexts)


def either(condition: Any, then: Size, otherwise: Size) -> Size:
    """Return `then` where `condition` is true, and `otherwise` where it is false."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, then, otherwise)
    return then if condition else otherwise


def larger(a: Size, b: Size) -> Size:
    """Return the larger of two sizes, element by element."""
    return np.maximum(a, b) if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else max(a, b)


def bit(n: Size, value: int) -> Size:
    """Return 1 if the bit with the value `value` (1, 2, 4, …) is set in `n`, else 0."""
    return n // value % 2


def loop(n: Size, width: int, cycles: int) -> Size:
    """Return the cycles of a loop over `n` elements that takes `cycles` for every `width` elements.

    The result is cycles * (n + width - 1) / width, rounded down. Source:
    popops/PerformanceEstimation.cpp, basicOpLoopCycles.
    """
    return cycles * (n + width - 1) // width


def is_float(dtype: type[DType]) -> bool:
    """Return whether `dtype` is FLOAT or HALF, the types of the floating-point unit."""
    return dtype in (FLOAT, HALF)


@dataclass(frozen=True)
class Rate:
    """The cost of an inner loop: `cycles` for every `elements` elements.

    If `elements` is 0, an iteration processes as many elements as fit in a data path (2 FLOAT, 4
    HALF). If `bare` is True, `cycles` do not include the instructions around the loop, so each
    vertex's formula adds them.
    """

    cycles: int
    elements: int
    bare: bool = True

    def width(self, dtype: type[DType], target: Target) -> int:
        """Return the number of elements in one iteration of the loop."""
        return self.elements or target.get_vector_width(dtype)


def unrolled(cycles: int, elements: int) -> Rate:
    """Return the rate of a loop that takes `cycles` for `elements` elements in total."""
    return Rate(cycles, elements, bare=False)


def vector(cycles: int) -> Rate:
    """Return the rate of a loop that takes `cycles` for each data path (2 FLOAT, 4 HALF).

    The cycles do not include the instructions around the loop.
    """
    return Rate(cycles, 0)


def scalar(cycles: int) -> Rate:
    """Return the rate of a loop that takes `cycles` for each element.

    The cycles do not include the instructions around the loop.
    """
    return Rate(cycles, 1)


Rates: TypeAlias = dict[tuple[str, type[DType]], Rate]


def find(rates: Rates, op: str, dtype: type[DType], vertex: str) -> Rate:
    """Return the rate of operation `op` on `dtype`, for the vertex type `vertex`.

    If `rates` has no entry for an integer type, the entry for the 32-bit or 64-bit integer is used.

    :raises MissingPerfEstimateError: if PopLibs has no estimate of the operation on this type.
    """
    substitutes: list[type[DType]] = [UNSIGNED_INT, INT]
    if dtype.size == 8:
        substitutes = [LONGLONG]
    elif dtype.numpy.kind == "i":
        substitutes = [INT]
    for kind in (dtype,) if is_float(dtype) or dtype is BOOL else (dtype, *substitutes):
        if (op, kind) in rates:
            return rates[op, kind]
    same_type = {name: rate for (name, kind), rate in rates.items() if kind is dtype}
    known = same_type or {name: rate for (name, _), rate in rates.items()}
    return known_row(known, op, f"{vertex} of {dtype.__name__}")


T = TypeVar("T")


def known_row(rows: Mapping[str, T], name: str, vertex: str) -> T:
    """Return `rows[name]`, the cost constants of operation `name`.

    `vertex` is the name of the vertex type for the error.

    :raises MissingPerfEstimateError: if there is no row, because PopLibs has no estimate.
    """
    if name in rows:
        return rows[name]
    raise MissingPerfEstimateError(f"""PopLibs has no estimate of {shown(name)}.
        where: {vertex}
        next:  {did_you_mean(name, rows)}choose one of {", ".join(sorted(rows))}.""")
