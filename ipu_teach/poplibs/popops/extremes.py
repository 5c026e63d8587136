"""Search each row of a matrix for its largest or smallest element and the element's position.

By PopLibs' estimate, a worker takes 3 cycles per element. The workers of a tile divide a row
between them if that is faster. A long row is divided into chunks on different tiles, and a tree of
vertices combines the results of the chunks. The module `sort_plan` plans this tree like the
selection of the k largest elements, with k = 1.

The first of several equal elements is returned. If a row contains NaN, the first NaN is returned.
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
    """Set `best` to the largest or smallest element of each row of x, and `place` to its column.

    The first of several equal elements is selected.
    """

    x: Input[Vector[Vector[K]]]
    place: Output[Vector[UNSIGNED_INT]]
    best: Output[Vector[K]]
    largest: ClassVar[bool]

    def compute(self) -> None:
        self.place = np.argmax(self.x, axis=1) if self.largest else np.argmin(self.x, axis=1)
        self.best = np.max(self.x, axis=1) if self.largest else np.min(self.x, axis=1)

    def cycles(self, target: Target) -> int:
        num_rows, row_length = self.x.shape
        num_workers = target.num_worker_contexts
        one_worker_per_row: int = (
            num_workers * -(-num_rows // num_workers) * int(vertices.max_class(row_length))
        )
        return min(one_worker_per_row, _cycles(self.x.shape, self.fields["x"].dtype, target))


class ExtremeOfChunk(SupervisorVertex, Generic[K]):
    """Set `best` to the largest or smallest element of each row of x, and `place` to its column.

    x contains consecutive columns of a larger matrix, beginning with its column `begin`; `place`
    contains column numbers of the larger matrix. The first of several equal elements is selected.
    """

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
    """Set `best` to the largest or smallest element of each row of x, and `place` to its column.

    x contains selected elements of a larger matrix, and `places` the columns of these elements. In
    each row, the columns are in ascending order, so that the first of several equal elements has
    the lowest column.
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
    """Return a tile's cycles to search a matrix if the workers divide each row between them.

    `shape` and `dtype` are those of the matrix.
    """
    num_rows, row_length = shape
    return vertices.sort_rows(
        num_rows, row_length, 1, 1, dtypes=(dtype, UNSIGNED_INT), target=target
    )


def add_extremes(
    graph: Graph, x: Tensor, largest: bool, prog: Program, name: str
) -> tuple[Tensor, Tensor]:
    """Append a search of each row of x [rows, n]; return `(positions, values)`, both [rows].

    `positions` contains the column of each row's largest element, or smallest element if not
    `largest`, and `values` the element itself.
    """
    num_rows, row_length = x.shape
    plan = (
        planned(num_rows, row_length, 1, (x.dtype, UNSIGNED_INT), target=graph.target)
        if num_rows
        else None
    )
    if plan is None or plan.chunks == 1:
        place = graph.add_variable(UNSIGNED_INT, (num_rows,), f"{name}/place")
        best = graph.add_variable(x.dtype, (num_rows,), f"{name}/best")
        codelet = typed(Extreme, [x.dtype, WORDS[largest]], {K: x.dtype}, largest=largest)
        edges_by_tile = shared(
            graph, {"x": x, "place": place, "best": best}, graph.target.num_tiles
        )
        step(graph, prog, name, codelet, work=edges_by_tile, results=["place", "best"])
        return place, best
    tile_grid = grid(plan.groups, graph.target)
    row_blocks = balanced_partition(num_rows, plan.groups)
    places: Tensor | None = None
    chunk_length = -(-row_length // plan.chunks)
    for fan_in in (chunk_length, *(stage.fan_in for stage in plan.stages)):
        chunks = [
            (chunk_begin, min(chunk_begin + fan_in, x.shape[1]))
            for chunk_begin in range(0, x.shape[1], fan_in)
        ]
        place = graph.add_variable(UNSIGNED_INT, (num_rows, len(chunks)), f"{name}/place")
        best = graph.add_variable(x.dtype, (num_rows, len(chunks)), f"{name}/best")
        base_codelet = ExtremeOfChunk if places is None else ExtremeOfChunks
        codelet = typed(base_codelet, [x.dtype, WORDS[largest]], {K: x.dtype}, largest=largest)
        edges_of_chunks: list[tuple[int, Edges]] = []
        for block_number, (row_begin, row_end) in enumerate(row_blocks):
            for chunk_number, (column_begin, column_end) in enumerate(chunks):
                edges: Edges = {"x": x[row_begin:row_end, column_begin:column_end]}
                edges |= {
                    "place": place[row_begin:row_end, chunk_number],
                    "best": best[row_begin:row_end, chunk_number],
                }
                edges |= (
                    {"begin": column_begin}
                    if places is None
                    else {"places": places[row_begin:row_end, column_begin:column_end]}
                )
                edges_of_chunks.append(
                    (tile_grid.tiles(block_number, chunk_number, len(chunks))[0], edges)
                )
        step(graph, prog, name, codelet, work=edges_of_chunks, results=["place", "best"])
        x = best
        places = place
    return place[:, 0], best[:, 0]
