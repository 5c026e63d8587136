"""Rows of a batch, shared out among the workers of all tiles, and the checks of such batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.laying import shared, step
from ipu_teach.poplibs.library import check_dtype, check_tensor, refused
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT


def by_workers(
    graph: Graph, operands: dict[str, Tensor], **state: Any
) -> list[tuple[int, dict[str, Any]]]:
    """(tile, its rows of all operands) for as many workers as there are rows, or all of them."""
    workers = graph.target.num_tiles * graph.target.num_worker_contexts
    return list(shared(graph, operands, workers, **state))


def by_rows(
    graph: Graph,
    vertex: Any,
    operands: dict[str, Tensor],
    prog: Program,
    name: str,
    results: Sequence[str] = (),
    **state: Any,
) -> None:
    """Add a vertex for each share of the rows of all operands. The `results` are mapped to the
    tiles of their vertices."""
    work = by_workers(graph, operands, **state)
    if work:
        step(graph, prog, name, vertex, work, results)


def check_matrix(graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `PoplibsError` unless `tensor` is a batch of FLOAT or HALF: rows, perhaps none, of a
    class or more."""
    check_tensor(graph, argument, tensor, (2,))
    check_dtype(argument, tensor, FLOAT, HALF)
    if tensor.shape[1] == 0:
        raise refused(
            f"was given rows without elements in {argument}.", tensor, "give at least one class."
        )


def check_labels(graph: Graph, outputs: Tensor, expected: Tensor) -> None:
    """Raise `PoplibsError` unless `expected` is a class number for each row."""
    check_tensor(graph, "expected", expected, (1,))
    if expected.dtype is not UNSIGNED_INT or expected.shape[0] != outputs.shape[0]:
        raise refused(f"""needs expected as {outputs.shape[0]} class numbers (UNSIGNED_INT); it was
            given {expected.shape[0]} of {expected.dtype.__name__}.
            where: {expected!r}
            next:  give one for each row; cast them with popops.cast.""")
