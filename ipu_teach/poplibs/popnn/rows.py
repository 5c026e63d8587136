"""Rows of a batch, shared out among the workers of all tiles, and the checks of such batches."""

from __future__ import annotations

from functools import cache
from typing import Any

from ipu_teach.graph import Graph, Tensor, Vertex, template
from ipu_teach.poplibs.library import check_dtype, check_tensor, refused
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, DType


def shares(graph: Graph, rows: int) -> list[tuple[int, tuple[int, int]]]:
    """(tile, its rows) for as many workers as there are rows, or all of them."""
    target = graph.target
    if not rows:
        return []
    parts = min(rows, target.num_tiles * target.num_worker_contexts)
    return [
        (i * target.num_tiles // parts, share)
        for i, share in enumerate(balanced_partition(rows, parts))
    ]


@cache
def codelet(base: Any, dtype: type[DType]) -> type[Vertex]:
    """`base`, written for FLOAT, for a dtype, under a name that a profile's reader recognises."""
    return template(base, f"popnn::{base.__name__}<{dtype.__name__.lower()}>", {FLOAT: dtype})


def by_rows(
    graph: Graph,
    vertex: Any,
    operands: dict[str, Tensor],
    prog: Program,
    name: str,
    made: Tensor | None = None,
    **state: Any,
) -> None:
    """A vertex for each share of the rows of all operands. Rows of `made` are mapped to the tile of
    their vertex."""
    mine = shares(graph, next(iter(operands.values())).shape[0])
    if not mine:
        return
    compute_set = graph.add_compute_set(name)
    for tile, (begin, end) in mine:
        edges = {field: tensor[begin:end] for field, tensor in operands.items()}
        graph.set_tile_mapping(graph.add_vertex(compute_set, vertex, edges, **state), tile)
        if made is not None:
            graph.set_tile_mapping(made[begin:end], tile)
    prog.add(Execute(compute_set))


def check_matrix(graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `PoplibsError` unless `tensor` is a batch of FLOAT or HALF: rows, perhaps none, of a
    class or more."""
    check_tensor(graph, argument, tensor, (2,))
    check_dtype(argument, tensor, FLOAT, HALF)
    if tensor.shape[1] == 0:
        raise refused(
            f"was given rows without elements in {argument}.", tensor, "give a class or more."
        )


def check_labels(graph: Graph, outputs: Tensor, expected: Tensor) -> None:
    """Raise `PoplibsError` unless `expected` is a class number for each row."""
    check_tensor(graph, "expected", expected, (1,))
    if expected.dtype is not UNSIGNED_INT or expected.shape[0] != outputs.shape[0]:
        raise refused(f"""wants expected as {outputs.shape[0]} class numbers (UNSIGNED_INT); it was
            given {expected.shape[0]} of {expected.dtype.__name__}.
            where: {expected!r}
            next:  give one for each row; cast them with popops.cast.""")
