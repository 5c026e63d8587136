"""What is said of the matrix that a function of np.linalg was given: why numpy refuses it, or what
is odd about it that numpy does not mention."""

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
    """What was odd in the vertex that runs: (what, what numpy makes of it, the line)."""

    def __init__(self) -> None:
        self.odd: list[tuple[str, str, str]] = []


NOTED = _Noted()
_SAID: WeakKeyDictionary[type[Vertex], set[str]] = WeakKeyDictionary()  # of the codelet: lines


# By how much of the diagonal two numbers may differ that should be equal: more than rounding makes.
ASYMMETRY = 0.01


def odd(name: str, matrices: Array) -> Array:
    """Which numbers of matrices (a bool for each) are not what the function `name` means."""
    m = np.asarray(matrices, np.float64)
    if name != "cholesky" or m.shape[-2] != m.shape[-1]:
        return np.isnan(m)
    size = np.sqrt(np.abs(np.diagonal(m, 0, -2, -1)))
    with np.errstate(all="ignore"):
        near: Array = (
            np.abs(m - m.swapaxes(-1, -2)) <= ASYMMETRY * size[..., None] * size[..., None, :]
        )
    return ~near


def oddness(name: str, matrix: Array) -> tuple[str, str]:
    """What is odd about a matrix, and what numpy makes of it."""
    for i, j in np.argwhere(np.isnan(matrix)):
        return f"element [{i}, {j}] is NaN", "numpy goes on: what depends on it becomes NaN."
    i, j = np.argwhere(odd(name, matrix))[0]
    return (
        f"element [{i}, {j}] is {matrix[i, j]:g}, and [{j}, {i}] {matrix[j, i]:g}",
        "cholesky takes a symmetric matrix; numpy reads the lower half and goes on.",
    )


def note(name: str, matrix: Array, line: str) -> None:
    """Note what is odd about a matrix, if anything is."""
    if odd(name, matrix).any():
        what, then = oddness(name, matrix)
        NOTED.odd.append((f"np.linalg.{name}() was given a matrix whose {what}.", then, line))


def asked(f: Callable[..., Any], line: str, *args: Any) -> Any:
    """What numpy's function gives of a vertex's matrix; what is odd about that is noted."""
    found = f(*args)
    note(f.__name__, np.asarray(args[0]), line)
    return found


def tell(codelet: type[Vertex], who: Callable[[], str]) -> None:
    """A warning of what was noted, once for each line of a codelet. `who()` names the vertex."""
    for tried, then, line in NOTED.odd:
        if line not in (said := _SAID.setdefault(codelet, set())):
            said.add(line)
            warning = MatrixWarning(tried, where=f"{line}, {who()}", next_step=then)
            warnings.warn_explicit(warning, None, *caller())
    NOTED.odd.clear()


def refused(error: BaseException, advice: str) -> tuple[str, str]:
    """What of its matrix made a function of np.linalg fail, and what to do."""
    step, name = error.__traceback__, ""
    matrix: Array = np.zeros((0, 0))
    while step is not None:  # the last function that has a matrix
        given = step.tb_frame.f_locals.get("a")
        if step.tb_frame.f_globals.get("__package__") == "numpy.linalg" and np.ndim(given) == 2:  # type: ignore[arg-type]
            matrix, name = np.array(given, np.float64), step.tb_frame.f_code.co_name
        step = step.tb_next
    if not matrix.size or len(set(matrix.shape)) > 1:
        return "", advice
    if name == "cholesky" and odd(name, matrix).any():
        what, advice = oddness(name, matrix)
        return f": {what}", advice
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
