"""Helpers for building graphs: mapping tensors to tiles, dividing work, checking arguments."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ipu_teach.errors import PoplibsError
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor, concat
from ipu_teach.program import Sequence as Program
from ipu_teach.types import DType

Mapping = list[list[tuple[int, int]]]
MIN_BYTES_PER_TILE = 128  # graphcore/poplibs, lib/poputil/TileMapping.cpp


def calc_linear_tile_mapping(
    graph: Graph,
    shape: int | Sequence[int],
    dtype: type[DType],
    min_elements_per_tile: int | None = None,
    grain_size: int | None = None,
) -> Mapping:
    """A linear mapping of `shape` elements, not applied: for each tile its (begin, end) intervals.

    Elements keep their order. They are dealt out in grains of `grain_size` (default: a data path, 2 FLOAT or 4 HALF), as
    evenly as that allows, to as few tiles as give each used tile `min_elements_per_tile` (default: 128 bytes).
    """
    count = shape if isinstance(shape, int) else prod(shape)
    target = graph.target
    grain = target.get_vector_width(dtype) if grain_size is None else grain_size
    least = -(-MIN_BYTES_PER_TILE // dtype.size) if min_elements_per_tile is None else min_elements_per_tile
    if grain < 1 or least < 0:
        raise PoplibsError(f"A linear mapping was asked for with grain {grain} and at least {least} elements a tile.",
                           next_step="give a grain of 1 or more.")  # fmt: skip
    mapping: Mapping = [[] for _ in range(target.num_tiles)]
    if count == 0:
        return mapping
    grains = -(-count // grain)
    most = max(-(-grains // target.num_tiles), -(-least // grain), 1)
    used = -(-grains // most)
    for tile in range(used):
        begin, end = tile * grains // used * grain, min((tile + 1) * grains // used * grain, count)
        mapping[tile].append((begin, end))
    return mapping


def map_tensor_linearly(
    graph: Graph, tensor: Tensor, min_elements_per_tile: int | None = None, grain_size: int | None = None
) -> None:
    """Spread a tensor over the tiles in element order; see `calc_linear_tile_mapping`."""
    mapping = calc_linear_tile_mapping(graph, tensor.shape, tensor.dtype, min_elements_per_tile, grain_size)
    graph.set_tile_mapping(tensor, mapping)


def balanced_partition(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` items as `parts` consecutive (begin, end) intervals whose sizes differ by at most one."""
    return [(i * count // parts, (i + 1) * count // parts) for i in range(parts)]


def broadcast_to_match(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """`tensor` seen in a larger shape, by numpy's rules: missing and single dimensions repeat their elements. A view."""
    wanted = tuple(shape)
    lead = len(wanted) - tensor.rank
    fits = lead >= 0 and all(n in (1, w) for n, w in zip(tensor.shape, wanted[lead:], strict=True))
    if not fits:
        raise PoplibsError(
            f"A tensor of shape {tensor.shape} does not broadcast to {wanted}.",
            where=repr(tensor),
            next_step="dimensions are compared from the last; each must be equal, 1, or missing.",
        )
    graph, layout = tensor.graph, tensor.layout
    if layout.strides is None:
        return graph.listed(tensor.dtype, np.broadcast_to(tensor.positions(), wanted))
    strides = (0,) * lead + tuple(0 if n == 1 else s for n, s in zip(layout.shape, layout.strides, strict=True))
    return Tensor(graph, tensor.dtype, tensor.offset, graph.strided(wanted, strides))


def clone(graph: Graph, tensor: Tensor, name: str, dtype: type[DType] | None = None) -> Tensor:
    """A new variable of the same shape, each element on the tile of its original; `dtype` if it is to be another."""
    made = graph.add_variable(dtype or tensor.dtype, tensor.shape, name)
    graph.set_tile_mapping(made, graph.get_tile_mapping(tensor))
    return made


def tile_pieces(graph: Graph, tensor: Tensor) -> list[tuple[int, list[tuple[int, int]]]]:
    """(tile, its intervals of the flattened tensor) for every tile that holds some of it."""
    return [(tile, pieces) for tile, pieces in enumerate(graph.get_tile_mapping(tensor)) if pieces]


def take(flat: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    """The elements of some intervals of a one-dimensional tensor, side by side in one view."""
    return concat([flat.slice(begin, end) for begin, end in pieces])


def check_tensor(function: str, argument: str, tensor: object, ranks: tuple[int, ...] = ()) -> None:
    """Raise `PoplibsError` unless `tensor` is a tensor of one of the `ranks` (any if empty)."""
    if not isinstance(tensor, Tensor):
        raise PoplibsError(f"{function}() was given {tensor!r} as {argument}.", next_step="give a tensor.")
    if ranks and tensor.rank not in ranks:
        wanted = " or ".join(str(r) for r in ranks)
        raise PoplibsError(
            f"{function}() wants {argument} with {wanted} dimension{'s' if wanted != '1' else ''}; it has {tensor.rank}.",
            where=repr(tensor),
            next_step="reshape, flatten or index the tensor.",
        )


def check_program(function: str, prog: object) -> None:
    """Raise `PoplibsError` unless `prog` is a Sequence, which library calls append to."""
    if not isinstance(prog, Program):
        raise PoplibsError(f"{function}() was given {prog!r} as prog.", next_step="give a Sequence; the call appends to it.")


def check_same(function: str, what: str, a: object, b: object, where: str) -> None:
    """Raise `PoplibsError` unless two dtypes, or two shapes, are equal."""
    if a != b:
        raise PoplibsError(f"{function}() was given two {what} that differ: {a} and {b}.", where=where)
