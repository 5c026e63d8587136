"""Distribute the rows of a batch, or parts of its rows, over the worker threads of all tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles
from ipu_teach.graph import Graph, Tensor, Vertex
from ipu_teach.graph.bulk import Column
from ipu_teach.poplibs.laying import Edges, shared, step
from ipu_teach.poplibs.library import check_dtype, check_tensor, refused
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType


def reduction_cycles(elements: int, dtype: type[DType], target: Target) -> int:
    """Return the worker cycles to add the elements of one row, or to find their maximum."""
    # Pass 2 for a single row, because PopLibs' estimator counts one row less than its argument.
    return int(vertices.reduce_contiguous(2, elements, dtype, target))


def by_workers(graph: Graph, operands: dict[str, Tensor], **state: Any) -> list[tuple[int, Edges]]:
    """Return a pair (tile, edges) for each worker that gets rows.

    The rows are divided evenly over all workers. `operands` maps the names of fields to tensors
    with equal numbers of rows. `edges` maps the same names to the worker's rows, and also contains
    `state`, which is the same for all workers.
    """
    num_workers = graph.target.num_tiles * graph.target.num_worker_contexts
    return list(shared(graph, operands, num_workers, **state))


def by_rows(
    graph: Graph,
    vertex: type[Vertex],
    operands: dict[str, Tensor],
    prog: Program,
    name: str,
    results: Sequence[str] = (),
    **state: Any,
) -> None:
    """Append a compute set in which each vertex processes some rows of all operands.

    `operands` maps the names of fields of the class `vertex` to tensors. `state` contains the
    fields that are the same for all vertices. The tensors of the fields in `results` are mapped to
    the tiles of the vertices that write them.
    """
    edges_by_tile = by_workers(graph, operands, **state)
    if edges_by_tile:
        step(graph, prog, name, vertex, edges_by_tile, results)


@dataclass(frozen=True)
class RowPart:
    """A part of a row for a worker on `tile`: the columns `begin` to `end` (excluded) of row `row`.

    `part` is the number of the part within its row, from 0.
    """

    tile: int
    row: int
    part: int
    begin: int
    end: int

    def of(self, matrix: Tensor) -> Tensor:
        """Return this part of `matrix` [rows, columns] as a vector."""
        return matrix[self.row, self.begin : self.end]


def parts_of_rows(graph: Graph, shape: tuple[int, ...], parts: int) -> list[RowPart]:
    """Return the parts of all rows of a matrix of shape `shape`, with `parts` parts per row.

    The parts are distributed evenly over all tiles.
    """
    num_rows, num_columns = shape
    numbered_spans = list(enumerate(balanced_partition(num_columns, parts)))
    row_parts = [
        (row, part, begin, end) for row in range(num_rows) for part, (begin, end) in numbered_spans
    ]
    return [RowPart(tile, *row_part) for tile, row_part in dealt(row_parts, graph.target.num_tiles)]


class RowPartColumns:
    """The operands of a compute set in which each vertex works on one part of one row of a matrix.

    `shape` is the shape (rows, columns) of the matrix, and each row is divided into `parts` parts.
    The methods `elements`, `cells` and `rows` return a `Column`, which connects one field of every
    vertex to a tensor. `elements` connects it to the vertex's part of a matrix. The other two are
    for tensors [rows, parts], which have one element for each part. `cells` connects the field to
    the element of the vertex's part, and `rows` to the elements of all parts of the vertex's row.
    """

    def __init__(self, graph: Graph, shape: tuple[int, ...], parts: int) -> None:
        self._graph = graph
        self._parts = parts_of_rows(graph, shape, parts)
        self._tiles = np.array([part.tile for part in self._parts], np.int64)
        self._rows = np.array([part.row for part in self._parts], np.int64)
        self._numbers = np.array([part.part for part in self._parts], np.int64)
        self._begins = np.array([part.begin for part in self._parts], np.int64)
        self._sizes = np.array([part.end - part.begin for part in self._parts], np.int64)

    def elements(self, matrix: Tensor) -> Column:
        """Return a `Column` that connects each vertex to its part of `matrix` [rows, columns]."""
        strides = matrix.layout.strides
        if strides is None:
            return Column.of(part.of(matrix) for part in self._parts)
        sizes, form_numbers = np.unique(self._sizes, return_inverse=True)
        offsets = matrix.offset + self._rows * strides[0] + self._begins * strides[1]
        return Column(offsets, form_numbers, [matrix[0, :size].form for size in sizes.tolist()])

    def cells(self, variable: Tensor) -> Column:
        """Return a `Column` that connects each vertex to one element of `variable` [rows, parts].

        It is the element [row, part number] of the vertex's part.
        """
        offsets = variable.offset + self._rows * variable.shape[1] + self._numbers
        return Column(offsets, np.zeros_like(offsets), [variable[0, 0].form])

    def rows(self, variable: Tensor) -> Column:
        """Return a `Column` that connects each vertex to a row of `variable` [rows, parts].

        It is the row to which the part of the vertex belongs.
        """
        return Column.of(variable[row] for row in range(variable.shape[0])).at(self._rows)

    def map_elements(self, variable: Tensor) -> None:
        """Map each part of each row of `variable` [rows, columns] to the tile of its vertex."""
        begins = self._rows * variable.shape[1] + self._begins
        self._graph.map_pieces(variable, begins, self._sizes, self._tiles)

    def map_cells(self, variable: Tensor) -> None:
        """Map element [row, part] of `variable` [rows, parts] to the tile of the part's vertex."""
        begins = self._rows * variable.shape[1] + self._numbers
        self._graph.map_pieces(variable, begins, np.ones_like(begins), self._tiles)

    def step(
        self, prog: Program, name: str, codelet: type[Vertex], edges: Mapping[str, Column]
    ) -> None:
        """Append a compute set with one vertex of the class `codelet` for each part of each row.

        `edges` maps the names of the codelet's fields to the `Column` of each field.
        """
        into = self._graph.add_compute_set(name)
        self._graph.add_columns(into, codelet, self._tiles, edges, {})
        prog.add(Execute(into))


def best_parts(
    shape: tuple[int, ...],
    target: Target,
    whole: Callable[[int], int],
    split: Callable[[int, int], int],
    more_supersteps: int = 1,
) -> int:
    """Return the number of parts per row that takes the fewest modelled cycles.

    `shape` is (rows, columns). The candidates are 2, 3, 4, 6, 8, 12, ..., and the largest number
    for which no worker gets two parts and no part is empty. The result is 1 if no candidate is
    faster than complete rows.

    `whole(rows)` is a function that returns the cycles of a worker for `rows` complete rows.
    `split(size, parts)` returns the cycles of a worker, in all supersteps together, for one part of
    `size` elements if each row has `parts` parts. Divided rows need `more_supersteps` more
    supersteps than complete rows; each of these supersteps costs a sync and the latency of two
    exchanges.
    """
    num_rows, num_columns = shape
    workers_per_tile = target.num_worker_contexts
    num_workers = target.num_tiles * workers_per_tile
    max_parts = min(num_workers // num_rows, num_columns) if num_rows else 0
    numbers_to_try = (
        number
        for exponent in range(16)
        for number in (2 << exponent, 3 << exponent)
        if number < max_parts
    )
    candidates = {max_parts, *numbers_to_try} - {0, 1}
    superstep_cycles = target.internal_sync_cycles + 2 * int(arrival_cycles(target).max())

    def cycles(parts: int) -> int:
        return (
            workers_per_tile * split(-(-num_columns // parts), parts)
            + more_supersteps * superstep_cycles
        )

    best_number = min(candidates, key=lambda parts: (cycles(parts), parts), default=1)
    if best_number > 1 and cycles(best_number) < workers_per_tile * whole(
        -(-num_rows // num_workers)
    ):
        return best_number
    return 1


def check_matrix(graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `PoplibsError` unless `tensor` is a FLOAT or HALF matrix with at least one column."""
    check_tensor(graph, argument, tensor, (2,))
    check_dtype(argument, tensor, FLOAT, HALF)
    if tensor.shape[1] == 0:
        raise refused(
            f"was given {argument} with rows of 0 elements.",
            tensor,
            "give rows of 1 element or more.",
        )


def check_labels(graph: Graph, outputs: Tensor, expected: Tensor) -> None:
    """Raise `PoplibsError` unless `expected` contains a class number for each row of `outputs`."""
    check_tensor(graph, "expected", expected, (1,))
    if expected.dtype is not UNSIGNED_INT or expected.shape[0] != outputs.shape[0]:
        raise refused(f"""needs {outputs.shape[0]} class numbers (UNSIGNED_INT) for its
            argument 'expected', but was given {expected.shape[0]} of {expected.dtype.__name__}.
            where: {expected!r}
            next:  give one class number for each row, and cast class numbers with popops.cast.""")
