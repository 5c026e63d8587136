"""Checks of operands that several libraries make."""

from __future__ import annotations

from ipu_teach.errors import InvalidTileMappingError, PoplibsError
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.poplibs.poputil import check_tensor
from ipu_teach.types import FLOAT, HALF, DType


def check_mapped(function: str, graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `InvalidTileMappingError` unless each element lies on a tile."""
    placed = sum(end - begin for pieces in graph.get_tile_mapping(tensor, require_complete=False) for begin, end in pieces)
    if placed < tensor.num_elements:
        raise InvalidTileMappingError(
            f"{function}() was given {argument} with {tensor.num_elements - placed:,} of its {tensor.num_elements:,} elements "
            "on no tile.",
            where=repr(tensor),
            next_step="graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).",
        )


def check_float(
    function: str,
    graph: Graph,
    argument: str,
    tensor: object,
    ranks: tuple[int, ...] = (),
    dtypes: tuple[type[DType], ...] = (FLOAT, HALF),
) -> None:
    """Raise `PoplibsError` unless `tensor` is one of `graph`, of FLOAT or HALF, with one of the `ranks` (any if empty)."""
    check_tensor(function, graph, argument, tensor, ranks)
    assert isinstance(tensor, Tensor)
    if tensor.dtype not in dtypes:
        raise PoplibsError(
            f"{function}() works on {' and '.join(t.__name__ for t in dtypes)}; {argument} is {tensor.dtype.__name__}.",
            where=repr(tensor),
            next_step="cast it with popops.cast.",
        )
