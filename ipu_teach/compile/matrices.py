"""Messages about the matrix that a function of np.linalg got.

They say why numpy refuses it, or what is wrong with it that numpy does not mention.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from ipu_teach.errors import MatrixWarning
from ipu_teach.graph.source import caller
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array


class _Noted(threading.local):
    """The faults found in the matrices of the running vertex: (fault, numpy's treatment of it,
    line)."""

    def __init__(self) -> None:
        self.faults: list[tuple[str, str, str]] = []


NOTED = _Noted()
# The lines that were warned of, by codelet.
_WARNED: WeakKeyDictionary[type[Vertex], set[str]] = WeakKeyDictionary()


# The largest difference of two numbers that should be equal, relative to the diagonal. It is more
# than rounding can cause.
ASYMMETRY = 0.01


def is_unsuitable(name: str, matrices: Array) -> Array:
    """Return bool[...]: which numbers of the matrices the function `name` is not meant for.

    These are NaN and, for cholesky, numbers that differ from their mirror image.
    """
    m = np.asarray(matrices, np.float64)
    if name != "cholesky" or m.shape[-2] != m.shape[-1]:
        return np.isnan(m)
    size = np.sqrt(np.abs(np.diagonal(m, 0, -2, -1)))
    with np.errstate(all="ignore"):
        is_symmetric: Array = (
            np.abs(m - m.swapaxes(-1, -2)) <= ASYMMETRY * size[..., None] * size[..., None, :]
        )
    return ~is_symmetric


def _fault(name: str, matrix: Array) -> tuple[str, str]:
    """Return (the fault of an unsuitable matrix, numpy's treatment of it)."""
    for i, j in np.argwhere(np.isnan(matrix)):
        return f"element [{i}, {j}] is NaN", "numpy goes on: what depends on it becomes NaN."
    i, j = np.argwhere(is_unsuitable(name, matrix))[0]
    return (
        f"element [{i}, {j}] is {matrix[i, j]:g}, and [{j}, {i}] {matrix[j, i]:g}",
        "cholesky takes a symmetric matrix; numpy reads the lower half and goes on.",
    )


def note(name: str, matrix: Array, line: str) -> None:
    """Note the fault of a matrix, if it has one."""
    if is_unsuitable(name, matrix).any():
        fault, treatment = _fault(name, matrix)
        message = f"np.linalg.{name}() was given a matrix whose {fault}."
        NOTED.faults.append((message, treatment, line))


def call_noting(f: Callable[..., Any], line: str, *args: Any) -> Any:
    """Return the result of numpy's function, and note a fault of the matrix, its first argument."""
    result = f(*args)
    note(f.__name__, np.asarray(args[0]), line)
    return result


def warn_of_noted(codelet: type[Vertex], vertex_name: Callable[[], str]) -> None:
    """Warn of the noted faults, once for each line of a codelet, and forget them."""
    for fault, treatment, line in NOTED.faults:
        warned = _WARNED.setdefault(codelet, set())
        if line not in warned:
            warned.add(line)
            warning = MatrixWarning(fault, where=f"{line}, {vertex_name()}", next_step=treatment)
            warnings.warn_explicit(warning, None, *caller())
    NOTED.faults.clear()


def matrix_fault(error: BaseException, advice: str) -> tuple[str, str]:
    """Return (the fault of the matrix that made a function of np.linalg fail, the next step).

    They are ("", `advice`) if the matrix is unknown or not square.
    """
    step = error.__traceback__
    name = ""
    matrix: Array = np.zeros((0, 0))
    while step is not None:  # the last function that has a matrix
        argument = step.tb_frame.f_locals.get("a")
        is_linalg = step.tb_frame.f_globals.get("__package__") == "numpy.linalg"
        if is_linalg and np.ndim(argument) == 2:  # type: ignore[arg-type]
            matrix = np.array(argument, np.float64)
            name = step.tb_frame.f_code.co_name
        step = step.tb_next
    if not matrix.size or len(set(matrix.shape)) > 1:
        return "", advice
    if name == "cholesky" and is_unsuitable(name, matrix).any():
        fault, advice = _fault(name, matrix)
        return f": {fault}", advice
    for k in range(len(matrix)):
        if name != "cholesky":
            largest = k + int(np.argmax(np.abs(matrix[k:, k])))
            matrix[[k, largest]] = matrix[[largest, k]]
        pivot = matrix[k, k]
        last = k == len(matrix) - 1
        if last or not abs(pivot) > 1e-12 or (name == "cholesky" and pivot < 0):
            break
        matrix[k + 1 :] -= np.outer(matrix[k + 1 :, k] / pivot, matrix[k])
    return (
        f": [{k}, {k}] is {pivot:.3g} once the columns before it are eliminated",
        "numpy raises this, too. Add a little to the diagonal, or ask np.linalg.det(…) first.",
    )
