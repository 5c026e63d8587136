"""Find the largest or smallest element of each row, and its position.

A worker takes 3 cycles per element (PopLibs' estimate). The workers of a tile share a row if that
is faster. A long row is divided into chunks on different tiles, and a tree of vertices combines
their results, as `sort_plan` plans it for one element. If several are equal, the first is found. If
a row contains NaN, the first NaN is found.
"""

from __future__ import annotations

from typing import ClassVar, Generic, TypeVar

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.graph import Graph, Input, Output, Shape, SupervisorVertex, Tensor, Vector
from ipu_teach.poplibs.laying import Edges, shared, step, typed
from ipu_teach.poplibs.placing import balanced_partition
from ipu_teach.poplibs.popops.sort_plan import grid, planned
from ipu_teach.poplibs.popops.sort_vertices import WORDS, taken
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import UNSIGNED_INT, DType

K = TypeVar("K")


class Extreme(SupervisorVertex, Generic[K]):
    """place = the position of the largest (or smallest) element of each row; best = that element.

    If several are equal, the first one counts.
    """

    x: Input[Vector[Vector[K]]]
    place: Output[Vector[UNSIGNED_INT]]
    best: Output[Vector[K]]
    largest: ClassVar[bool]

    def compute(self) -> None:
        self.place = np.argmax(self.x, axis=1) if self.largest else np.argmin(self.x, axis=1)
        self.best = np.max(self.x, axis=1) if self.largest else np.min(self.x, axis=1)

    def cycles(self, target: Target) -> int:
        rows, n = self.x.shape
        workers = target.num_worker_contexts
        alone: int = workers * -(-rows // workers) * int(vertices.max_class(n))
        return min(alone, _cycles(self.x.shape, self.fields["x"].dtype, target))


class ExtremeOfChunk(SupervisorVertex, Generic[K]):
    """place, best = the results of `Extreme` for a chunk of each row, from column `begin` on."""

    x: Input[Vector[Vector[K]]]
    begin: UNSIGNED_INT
    place: Output[Vector[UNSIGNED_INT]]
    best: Output[Vector[K]]
    largest: ClassVar[bool]

    def compute(self) -> None:
        column = np.argmax(self.x, axis=1) if self.largest else np.argmin(self.x, axis=1)
        self.place = column + self.begin
        self.best = taken(self.x, column.reshape((len(self.x), 1)))[:, 0]

    def cycles(self, target: Target) -> int:
        return _cycles(self.x.shape, self.fields["x"].dtype, target)


class ExtremeOfChunks(SupervisorVertex, Generic[K]):
    """place, best = the results of `Extreme` for elements x with the positions `places`.

    Positions ascend, so that the first of equal elements has the lowest position.
    """

    x: Input[Vector[Vector[K]]]
    places: Input[Vector[Vector[UNSIGNED_INT]]]
    place: Output[Vector[UNSIGNED_INT]]
    best: Output[Vector[K]]
    largest: ClassVar[bool]

    def compute(self) -> None:
        column = np.argmax(self.x, axis=1) if self.largest else np.argmin(self.x, axis=1)
        column = column.reshape((len(self.x), 1))
        self.place = taken(self.places, column)[:, 0]
        self.best = taken(self.x, column)[:, 0]

    def cycles(self, target: Target) -> int:
        return _cycles(self.x.shape, self.fields["x"].dtype, target)


def _cycles(shape: Shape, dtype: type[DType], target: Target) -> int:
    """Return the tile cycles if the workers share the rows of an x of this shape and dtype."""
    rows, n = shape
    return vertices.sort_rows(rows, n, 1, 1, dtypes=(dtype, UNSIGNED_INT), target=target)


def add_extremes(
    graph: Graph, x: Tensor, largest: bool, prog: Program, name: str
) -> tuple[Tensor, Tensor]:
    """Return ([rows], [rows]): the positions and values of the extremes of x [rows, n]."""
    rows, n = x.shape
    plan = planned(rows, n, 1, (x.dtype, UNSIGNED_INT), target=graph.target) if rows else None
    if plan is None or plan.chunks == 1:
        place = graph.add_variable(UNSIGNED_INT, (rows,), f"{name}/place")
        best = graph.add_variable(x.dtype, (rows,), f"{name}/best")
        codelet = typed(Extreme, [x.dtype, WORDS[largest]], {K: x.dtype}, largest=largest)
        work = shared(graph, {"x": x, "place": place, "best": best}, graph.target.num_tiles)
        step(graph, prog, name, codelet, work=work, results=["place", "best"])
        return place, best
    tiles = grid(plan.groups, graph.target)
    blocks = balanced_partition(rows, plan.groups)
    places: Tensor | None = None
    width = -(-n // plan.chunks)
    for fan_in in (width, *(stage.fan_in for stage in plan.stages)):
        spans = [(b, min(b + fan_in, x.shape[1])) for b in range(0, x.shape[1], fan_in)]
        place = graph.add_variable(UNSIGNED_INT, (rows, len(spans)), f"{name}/place")
        best = graph.add_variable(x.dtype, (rows, len(spans)), f"{name}/best")
        base = ExtremeOfChunk if places is None else ExtremeOfChunks
        codelet = typed(base, [x.dtype, WORDS[largest]], {K: x.dtype}, largest=largest)
        pieces: list[tuple[int, Edges]] = []
        for group, (first, last) in enumerate(blocks):
            for part, (begin, end) in enumerate(spans):
                edges: Edges = {"x": x[first:last, begin:end]}
                edges |= {"place": place[first:last, part], "best": best[first:last, part]}
                edges |= (
                    {"begin": begin}
                    if places is None
                    else {"places": places[first:last, begin:end]}
                )
                pieces.append((tiles.tiles(group, part, len(spans))[0], edges))
        step(graph, prog, name, codelet, work=pieces, results=["place", "best"])
        x = best
        places = place
    return place[:, 0], best[:, 0]
