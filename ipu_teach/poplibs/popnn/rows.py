"""Rows of a batch, whole or in parts, divided over the workers of all tiles, and their checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles
from ipu_teach.graph import Graph, Tensor, Vertex
from ipu_teach.poplibs.laying import Edges, shared, step
from ipu_teach.poplibs.library import check_dtype, check_tensor, refused
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType


def reduction_cycles(elements: int, dtype: type[DType], target: Target) -> int:
    """Return the worker cycles of the sum, or the maximum, of one row.

    PopLibs' estimator subtracts one output, so it gets two.
    """
    return int(vertices.reduce_contiguous(2, elements, dtype, target))


def by_workers(graph: Graph, operands: dict[str, Tensor], **state: Any) -> list[tuple[int, Edges]]:
    """Return (tile, edges) for each worker, or each row if there are fewer rows than workers.

    The edges are the worker's rows of all operands, and `state`.
    """
    workers = graph.target.num_tiles * graph.target.num_worker_contexts
    return list(shared(graph, operands, workers, **state))


def by_rows(
    graph: Graph,
    vertex: type[Vertex],
    operands: dict[str, Tensor],
    prog: Program,
    name: str,
    results: Sequence[str] = (),
    **state: Any,
) -> None:
    """Append a compute set with a vertex for each share of the rows of all operands.

    `results` names the operands that are mapped to the tiles of their vertices.
    """
    work = by_workers(graph, operands, **state)
    if work:
        step(graph, prog, name, vertex, work, results)


@dataclass(frozen=True)
class RowPart:
    """Columns `begin` to `end` of row `row`, its part number `part`, for a worker of `tile`."""

    tile: int
    row: int
    part: int
    begin: int
    end: int

    def of(self, matrix: Tensor) -> Tensor:
        """Return this part of a tensor of [rows, columns], as [columns]."""
        return matrix[self.row, self.begin : self.end]


def parts_of_rows(graph: Graph, shape: tuple[int, ...], parts: int) -> list[RowPart]:
    """Return `parts` parts of each row of a tensor of this shape, divided evenly over all tiles."""
    rows, columns = shape
    spans = list(enumerate(balanced_partition(columns, parts)))
    pieces = [(row, part, begin, end) for row in range(rows) for part, (begin, end) in spans]
    return [RowPart(tile, *piece) for tile, piece in dealt(pieces, graph.target.num_tiles)]


def best_parts(
    shape: tuple[int, ...],
    target: Target,
    whole: Callable[[int], int],
    split: Callable[[int, int], int],
    more_supersteps: int = 1,
) -> int:
    """Return the number of parts of each row with the fewest modelled cycles; 1 if the rows stay
    whole.

    `whole(rows)`: the cycles of a worker that takes so many complete rows. `split(size, parts)`:
    those of a worker with one part of that size, over all supersteps. There are `more_supersteps`
    more of these than for whole rows, each with a sync and the latencies of the exchanges before
    and after it. The numbers considered are powers of two, one and a half times those, and all the
    workers' share.
    """
    rows, columns = shape
    contexts = target.num_worker_contexts
    workers = target.num_tiles * contexts
    max_parts = min(workers // rows, columns) if rows else 0
    powers = (n for k in range(16) for n in (2 << k, 3 << k) if n < max_parts)
    candidates = {max_parts, *powers} - {0, 1}
    superstep = target.internal_sync_cycles + 2 * int(arrival_cycles(target).max())

    def cycles(parts: int) -> int:
        return contexts * split(-(-columns // parts), parts) + more_supersteps * superstep

    best = min(candidates, key=lambda parts: (cycles(parts), parts), default=1)
    if best > 1 and cycles(best) < contexts * whole(-(-rows // workers)):
        return best
    return 1


def check_matrix(graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `PoplibsError` unless `tensor` is a FLOAT or HALF matrix with at least one column."""
    check_tensor(graph, argument, tensor, (2,))
    check_dtype(argument, tensor, FLOAT, HALF)
    if tensor.shape[1] == 0:
        raise refused(
            f"was given rows without elements in {argument}.", tensor, "give at least one class."
        )


def check_labels(graph: Graph, outputs: Tensor, expected: Tensor) -> None:
    """Raise `PoplibsError` unless `expected` contains a class number for each row of `outputs`."""
    check_tensor(graph, "expected", expected, (1,))
    if expected.dtype is not UNSIGNED_INT or expected.shape[0] != outputs.shape[0]:
        raise refused(f"""needs expected as {outputs.shape[0]} class numbers (UNSIGNED_INT); it was
            given {expected.shape[0]} of {expected.dtype.__name__}.
            where: {expected!r}
            next:  give one index for each row, and cast indices with popops.cast.""")
