"""Run parts of the workloads symbolically.

Arrays are replaced by objects without values, which record the vertices that read and write them.
Puzzle notebooks for GPU kernels draw kernels in this way. Vertices run one at a time, and the
codelet of w1b runs unchanged.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

from bench.codelets import DotLoop

Place = tuple[str, int]


@dataclass(frozen=True)
class Symbol:
    """A number without a known value; it knows the elements from which it was computed."""

    sources: tuple[Place, ...] = ()

    def __add__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.sources + other.sources) if isinstance(other, Symbol) else self

    __radd__ = __mul__ = __rmul__ = __add__

    def __gt__(self, other: float) -> bool:
        return True  # A symbol has no value to compare, so a condition counts as true.


@dataclass
class Table:
    """An array without numbers, which records reads and writes.

    It lists, for each element, the vertices that read it, and what each vertex wrote into it.
    """

    name: str
    size: int
    vertex: int = 0  # the index of the vertex that is running
    readers: dict[int, list[int]] = field(default_factory=dict)
    writers: dict[int, list[tuple[int, Symbol]]] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Symbol:
        self.readers.setdefault(index, []).append(self.vertex)
        return Symbol(((self.name, index),))

    def __setitem__(self, index: int, value: Symbol) -> None:
        self.writers.setdefault(index, []).append((self.vertex, value))


def dots(count: int, length: int) -> list[Table]:
    """Run the dot products of the workload w1b (a matrix-vector product), one for each vertex.

    Each vertex reads `length` elements of a row and of the vector. Return the result's table, and
    then the tables of the operands.
    """
    tables = [Table("out", count)]
    for vertex in range(count):
        a, b = Table(f"a{vertex}", length, vertex), Table(f"b{vertex}", length, vertex)
        fields = SimpleNamespace(a=a, b=b, out=None)
        DotLoop.compute(fields)  # type: ignore[arg-type]
        tables[0].vertex = vertex
        tables[0][vertex] = fields.out
        tables += [a, b]
    return tables


def axpy_relu(count: int) -> list[Table]:
    """Compute relu(2.5 x + y), the expression of the workload w2, separately for each element.

    Return the tables of x, y and the result.
    """
    x, y, out = tables = [Table(name, count) for name in ("x", "y", "out")]
    for i in range(count):
        x.vertex = y.vertex = out.vertex = i
        value = x[i] * 2.5 + y[i]
        out[i] = value if value > 0 else Symbol()
    return tables


def _seconds(run: Callable[..., list[Table]], *sizes: int) -> float:
    begin = time.process_time()
    run(*sizes)
    return time.process_time() - begin


def parts() -> dict[str, tuple[float, float]]:
    """Return {workload: (seconds of a part, fraction of the whole that the part is)}."""
    count, length, elements = 500, 143, 50_000
    return {
        "w1b": (_seconds(dots, count, length), count * length / 10_000_000),
        "w2": (_seconds(axpy_relu, elements), elements / 8_840_000),
    }
