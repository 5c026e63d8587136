"""Run parts of the workloads symbolically: arrays are replaced by objects that record who read and
wrote them, without values.

This is how puzzle notebooks for GPU kernels draw a kernel. Vertices run one at a time; the codelet
of w1b runs unchanged.
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
    """A number without a known value, with the places that it came from."""

    sources: tuple[Place, ...] = ()

    def __add__(self, other: Symbol | float) -> Symbol:
        return Symbol(self.sources + other.sources) if isinstance(other, Symbol) else self

    __radd__ = __mul__ = __rmul__ = __add__

    def __gt__(self, other: float) -> bool:
        return True  # without a value, only one side of a branch can run


@dataclass
class Table:
    """An array without numbers: for each element, the vertices that read it, and what each vertex
    wrote into it."""

    name: str
    size: int
    vertex: int = 0  # the vertex that is running
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
    """Run the vertices of w1b: each reads its piece of a row, and of the vector."""
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
    """Run each element of w2 separately; its codelet has one expression for all."""
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
    """Return for each workload the seconds of the part, and its share of the whole."""
    count, length, elements = 500, 143, 50_000
    return {
        "w1b": (_seconds(dots, count, length), count * length / 10_000_000),
        "w2": (_seconds(axpy_relu, elements), elements / 8_840_000),
    }
