"""Count the floating-point operations of one vertex from its trace.

- An elementwise operation on floats counts one operation for each element of its result.
- A reduction, such as a sum, counts one operation less than the number of elements that it
  combines, for each result.
- A product of matrices counts two operations for each pair of elements that it multiplies.
- Linear algebra, such as np.linalg.solve, counts the products and sums of its innermost loops.
- Comparisons, moves and operations on integers count nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Op, Ref, Trace

_PLAIN = ("region", "view", "local", "read", "store")
_MOVES = (
    "where",
    "negative",
    "positive",
    "absolute",
    "copysign",
    "sort",
    "argsort",
    "argmax",
    "argmin",
    "roll",
    "upper",  # `upper` only returns a part of the result that np.linalg.qr has computed before.
)


def vertex_flops(group: Group) -> int:
    """Return the number of floating-point operations of each vertex of `group`.

    The result is -1 if the codelet could not be traced.
    """
    if group.trace.stopped:
        return -1
    return sum(
        _flops(trace, op) for trace in group.traces for op in trace.ops if op.kind not in _PLAIN
    )


def _flops(trace: Trace, op: Op) -> int:
    result = np.asarray(trace.samples[op.result])
    if result.dtype.kind != "f" or _name(op.fn) in _MOVES:
        return 0
    sources: list[Any] = [np.asarray(trace.samples[a.id]) for a in op.args if isinstance(a, Ref)]
    if op.kind == "product":
        return int(2 * result.size * sources[0].shape[-1])
    largest = max((int(s.size) for s in sources), default=0)
    if op.kind == "reduce":
        return max(0, largest - int(result.size))
    if op.kind == "dense":  # Each iteration of an innermost loop has a product and a sum.
        m, n = sources[0].shape
        # Step i of Householder's method updates the remaining part of the matrix and of the result,
        # with two products and two sums for each element.
        if _name(op.fn) == "qr":
            k = min(m, n)
            return sum(4 * (m - 1 - i) * (n + k - 2 - 2 * i) for i in range(k))
        columns = result.size // max(1, n) if _name(op.fn) in ("inv", "solve") else 0
        return int(
            (1 if _name(op.fn) == "cholesky" else 2) * n * (n * n - 1) // 3 + 2 * n * n * columns
        )
    return max(int(result.size), largest) if op.kind == "each" else int(result.size)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", ""))
