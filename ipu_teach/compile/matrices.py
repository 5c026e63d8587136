"""Messages about unsuitable matrices in calls of np.linalg.

A message explains why numpy refuses a matrix, or warns of a fault in a matrix that numpy accepts.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ipu_teach.errors import MatrixWarning
from ipu_teach.graph.source import caller
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array

Result = TypeVar("Result")


class _Noted(threading.local):
    """The unsuitable matrices that the running vertex of this thread has passed to np.linalg.

    Each item of `faults` is (what is wrong with the matrix, the next step, line of the call).
    """

    def __init__(self) -> None:
        self.faults: list[tuple[str, str, str]] = []


NOTED = _Noted()
# The lines of each codelet for which a warning was already shown.
_WARNED: WeakKeyDictionary[type[Vertex], set[str]] = WeakKeyDictionary()


# The largest difference between elements [i, j] and [j, i] of a symmetric matrix, relative to the
# diagonal. Rounding errors are smaller than this limit.
ASYMMETRY = 0.01


def is_unsuitable(name: str, matrices: Array) -> Array:
    """Return which elements of the matrices are unsuitable for the function `name` of np.linalg.

    The result is a bool array of the shape of `matrices`. An element is unsuitable if it is NaN.
    For cholesky, element [i, j] is also unsuitable if it differs from element [j, i] by more than
    `ASYMMETRY`, relative to the diagonal.
    """
    wide = np.asarray(matrices, np.float64)
    if name != "cholesky" or wide.shape[-2] != wide.shape[-1]:
        return np.isnan(wide)
    scale = np.sqrt(np.abs(np.diagonal(wide, 0, -2, -1)))
    with np.errstate(all="ignore"):
        is_symmetric: Array = (
            np.abs(wide - wide.swapaxes(-1, -2))
            <= ASYMMETRY * scale[..., None] * scale[..., None, :]
        )
    return ~is_symmetric


def _fault(name: str, matrix: Array) -> tuple[str, str]:
    """Return (a description of an unsuitable element, the next step for the learner).

    `name` is the name of the function of np.linalg to which the matrix is passed.
    """
    for i, j in np.argwhere(np.isnan(matrix)):
        return (
            f"element [{i}, {j}] is NaN",
            "correct the element. numpy continues, and results that depend on it are NaN.",
        )
    i, j = np.argwhere(is_unsuitable(name, matrix))[0]
    return (
        f"element [{i}, {j}] is {matrix[i, j]:g}, and [{j}, {i}] {matrix[j, i]:g}",
        "give cholesky a symmetric matrix. numpy reads only the lower half.",
    )


def note(name: str, matrix: Array, line: str) -> None:
    """Add a message to `NOTED` if a matrix is unsuitable for the function `name` of np.linalg.

    `line` is the line of the call.
    """
    if is_unsuitable(name, matrix).any():
        fault, advice = _fault(name, matrix)
        message = f"np.linalg.{name}() was given a matrix whose {fault}."
        NOTED.faults.append((message, advice, line))


def call_noting(f: Callable[..., Result], line: str, *args: Array) -> Result:
    """Return `f(*args)`, and add a message to `NOTED` if its matrix, `args[0]`, is unsuitable.

    `f` is a function of np.linalg, and `line` is the line of the call.
    """
    result = f(*args)
    note(f.__name__, np.asarray(args[0]), line)
    return result


def warn_of_noted(codelet: type[Vertex], vertex_name: Callable[[], str]) -> None:
    """Show a warning for each message in `NOTED`, and remove the messages.

    For each line of a codelet, only one warning is ever shown. `vertex_name` returns the name of
    the vertex.
    """
    for fault, advice, line in NOTED.faults:
        warned = _WARNED.setdefault(codelet, set())
        if line not in warned:
            warned.add(line)
            warning = MatrixWarning(fault, where=f"{line}, {vertex_name()}", next_step=advice)
            warnings.warn_explicit(warning, None, *caller())
    NOTED.faults.clear()


def matrix_fault(error: BaseException, advice: str) -> tuple[str, str]:
    """Return (why a function of np.linalg refused its matrix, the next step).

    The result is ("", `advice`) if the matrix is unknown or not square.
    """
    traceback = error.__traceback__
    name = ""
    matrix: Array = np.zeros((0, 0))
    # After the loop, `matrix` is the argument of the innermost function of numpy.linalg.
    while traceback is not None:
        argument = traceback.tb_frame.f_locals.get("a")
        is_linalg = traceback.tb_frame.f_globals.get("__package__") == "numpy.linalg"
        if is_linalg and np.ndim(argument) == 2:  # type: ignore[arg-type]
            matrix = np.array(argument, np.float64)
            name = traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next
    if not matrix.size or len(set(matrix.shape)) > 1:
        return "", advice
    if name == "cholesky" and is_unsuitable(name, matrix).any():
        fault, advice = _fault(name, matrix)
        return f": {fault}", advice
    for column in range(len(matrix)):
        if name != "cholesky":
            largest = column + int(np.argmax(np.abs(matrix[column:, column])))
            matrix[[column, largest]] = matrix[[largest, column]]
        pivot = matrix[column, column]
        is_last = column == len(matrix) - 1
        if is_last or not abs(pivot) > 1e-12 or (name == "cholesky" and pivot < 0):
            break
        matrix[column + 1 :] -= np.outer(matrix[column + 1 :, column] / pivot, matrix[column])
    return (
        f": [{column}, {column}] is {pivot:.3g} once the columns before it are eliminated",
        "add a small number to the diagonal. Or check np.linalg.det(…) first. numpy raises this "
        "error, too.",
    )
