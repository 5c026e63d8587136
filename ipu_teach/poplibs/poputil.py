"""Helpers for building graphs: mapping tensors to tiles, broadcasting, and dividing work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import overload

import numpy as np

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph import Graph, Shape, Tensor, concat
from ipu_teach.graph.mapping import MIN_BYTES_PER_TILE, least_elements, linear_mapping
from ipu_teach.graph.templates import template_name
from ipu_teach.poplibs import graphfn
from ipu_teach.poplibs.library import (
    OWN,
    Loose,
    as_given,
    check_shape,
    check_sizes,
    is_count,
    library,
    refused,
)
from ipu_teach.poplibs.placing import (
    TensorUseTracker,
    balanced_partition,
    choose_mapping_offset,
    create_broadcast_operand,
    factor_dims,
    in_memory_order,
    split_regions,
    unfactor_dims,
)
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import DType, as_dtype

__all__ = [
    "BROADCASTING",
    "MIN_BYTES_PER_TILE",
    "Mapping",
    "TensorUseTracker",
    "balanced_partition",
    "broadcast_to_match",
    "calc_linear_tile_mapping",
    "choose_mapping_offset",
    "clone",
    "clone_n",
    "clone_to_ipu",
    "copy_to_ipu",
    "create_broadcast_operand",
    "dim_is_split_over_ipus",
    "dim_is_split_over_tiles",
    "duplicate",
    "expand_to_match_ranks",
    "factor_dims",
    "get_tile_imbalance",
    "graphfn",
    "map_tensor_linearly",
    "map_tensor_linearly_with_offset",
    "split_regions",
    "split_regions_between_workers",
    "take",
    "template_vertex",
    "tile_pieces",
    "unfactor_dims",
]

Mapping = list[list[tuple[int, int]]]
BROADCASTING = "dimensions are compared from the last; each must be equal, 1, or missing."


@library
def calc_linear_tile_mapping(
    graph: Graph,
    shape: int | Sequence[int],
    dtype: type[DType],
    min_elements_per_tile: int | None = None,
    grain_size: int | None = None,
) -> Mapping:
    """Return a linear tile mapping of `shape` elements without applying it.

    The result lists the (begin, end) intervals of each tile. Elements keep their order and are
    distributed in grains of `grain_size` elements, as evenly as possible; the default grain is one
    vector of the data path, 2 FLOAT or 4 HALF. A tile gets at least `min_elements_per_tile`
    elements (default: 128 bytes), so that small tensors use fewer tiles.
    """
    mapping = _linear_mapping(
        graph, check_shape(shape), dtype, min_elements_per_tile, grain_size=grain_size
    )
    return mapping + [[] for _ in range(graph.target.num_tiles - len(mapping))]


def _linear_mapping(
    graph: Graph,
    shape: Shape,
    dtype: type[DType],
    min_elements_per_tile: int | None,
    grain_size: int | None,
) -> Mapping:
    """Return `calc_linear_tile_mapping` without the empty tiles at the end."""
    dtype = as_dtype(dtype, "calc_linear_tile_mapping()")
    count = prod(shape)
    target = graph.target
    grain = target.get_vector_width(dtype) if grain_size is None else grain_size
    minimum = least_elements(dtype) if min_elements_per_tile is None else min_elements_per_tile
    if not is_count(grain, 1) or not is_count(minimum, 0):
        raise PoplibsError(f"""A linear mapping was asked for with grain {shown(grain)} and at least
            {shown(minimum)} elements a tile.
            next:  give whole numbers: a grain of 1 or more, and elements of 0 or more.""")
    return linear_mapping(count, target.num_tiles, int(grain), int(minimum))


@library
def map_tensor_linearly(
    graph: Graph,
    tensor: Loose,
    min_elements_per_tile: int | None = None,
    grain_size: int | None = None,
) -> None:
    """Distribute a tensor over the tiles in element order, as in `calc_linear_tile_mapping`."""
    graph.set_tile_mapping(
        tensor,
        _linear_mapping(
            graph, tensor.shape, tensor.dtype, min_elements_per_tile, grain_size=grain_size
        ),
    )


@overload
def broadcast_to_match(tensor: Tensor, shape: Sequence[int]) -> Tensor: ...


@overload
def broadcast_to_match(tensor: Tensor, shape: Tensor) -> tuple[Tensor, Tensor]: ...


@library
def broadcast_to_match(
    tensor: Tensor, shape: Sequence[int] | Tensor
) -> Tensor | tuple[Tensor, Tensor]:
    """Return a view of `tensor` in a larger shape, by numpy's broadcasting rules.

    Missing dimensions and dimensions of size 1 repeat their elements. With a second tensor in place
    of the shape, both are returned, as views in their common shape.
    """
    if not isinstance(tensor, Tensor):
        raise as_given(tensor, "tensor", "give a tensor.")
    if isinstance(shape, Tensor):
        a, b = expand_to_match_ranks(tensor, shape)
        common = tuple(q if p == 1 else p for p, q in zip(a.shape, b.shape, strict=True))
        return seen_in(a, common), seen_in(b, common)
    return seen_in(tensor, check_shape(shape))


def seen_in(tensor: Tensor, shape: Shape) -> Tensor:
    """Return `broadcast_to_match(tensor, shape)` without checks of the arguments' types."""
    lead = len(shape) - tensor.rank
    fits = lead >= 0 and all(n in (1, w) for n, w in zip(tensor.shape, shape[lead:], strict=True))
    if not fits:
        raise PoplibsError(f"""A tensor of shape {tensor.shape} does not broadcast to {shape}.
            where: {tensor!r}
            next:  {BROADCASTING}""")
    result = tensor.expand((0,) * lead)
    for axis, length in enumerate(shape):
        if result.shape[axis] != length:
            result = result.broadcast(length, axis)
    return result


def expand_to_match_ranks(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of both tensors with equal ranks: dimensions of size 1 are added in front."""
    for name, tensor in (("a", a), ("b", b)):
        if not isinstance(tensor, Tensor):
            raise PoplibsError(
                f"expand_to_match_ranks() was given {shown(tensor)} as {name}.",
                next_step="give a tensor.",
            )
    rank = max(a.rank, b.rank)
    return a.expand((0,) * (rank - a.rank)), b.expand((0,) * (rank - b.rank))


@library
def get_tile_imbalance(
    graph: Graph, tensor: Loose, min_elements_per_tile: int = 0, grain_size: int = 0
) -> int:
    """Return how many elements the fullest tile has in excess of a balanced mapping; 0 if balanced.

    In a balanced mapping a tile has an equal share of the elements, rounded up to `grain_size`, and
    at least `min_elements_per_tile`.
    """
    check_sizes(graph.target, 0, min_elements_per_tile=min_elements_per_tile, grain_size=grain_size)
    sizes = [sum(end - begin for begin, end in pieces) for pieces in graph.get_tile_mapping(tensor)]
    grain = max(int(grain_size), 1)
    share = -(-tensor.num_elements // (len(sizes) * grain)) * grain
    return max(0, max(sizes) - max(share, int(min_elements_per_tile)))


@library
def map_tensor_linearly_with_offset(
    graph: Graph, tensor: Loose, offset: int = 0, ascending_order: bool = True
) -> None:
    """Map a tensor as `map_tensor_linearly` does, beginning on tile `offset` and wrapping around.

    If `ascending_order` is False, tiles are counted down from the last one.
    """
    check_sizes(graph.target, 0, offset=offset)
    mapping = calc_linear_tile_mapping(graph, tensor.shape, tensor.dtype)
    turn = int(offset) % len(mapping)
    turned = mapping[-turn:] + mapping[:-turn] if turn else mapping
    graph.set_tile_mapping(tensor, turned if ascending_order else turned[::-1])


@library
def duplicate(graph: Graph, tensor: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a new variable like `tensor`, and append a copy of its elements into it.

    The variable has the tile mapping of `tensor`.
    """
    copy = like(graph, tensor, debug_context)
    prog.add(Copy(tensor, copy))
    return copy


@library
def clone_n(
    graph: Graph, tensor: Tensor, n: int, name: str = "clones", dtype: type[DType] | None = None
) -> Tensor:
    """Return a tensor [n, *shape] of `n` new variables like `tensor`, each with its tile mapping.

    `dtype` replaces the dtype of `tensor`.
    """
    check_sizes(graph.target, 1, n=n)
    if n > 10**6:
        raise refused(f"was asked for {n:,} clones.", next_step="ask for 1,000,000 at most.")
    return concat([like(graph, tensor, f"{name}/{i}", dtype).expand([0]) for i in range(int(n))])


@library
def clone_to_ipu(graph: Graph, tensor: Tensor, ipu: int, name: str = "clone_to_ipu") -> Tensor:
    """Return a new variable like `tensor` on IPU number `ipu`.

    Elements are mapped to the same tile numbers within the IPU as in `tensor`.
    """
    return _on_ipu(graph, tensor, ipu, name)


def _on_ipu(graph: Graph, tensor: Tensor, ipu: int, name: str) -> Tensor:
    target = graph.target
    if not is_count(ipu, 0) or ipu >= target.num_ipus:
        raise refused(f"""was given IPU {shown(ipu)} of {target.num_ipus}.
            next:  IPUs are counted from 0; make a device with more: IPUModel(num_ipus=2).""")
    copy_of_tensor = graph.add_variable(tensor.dtype, tensor.shape, name)
    mapping: Mapping = [[] for _ in range(target.num_tiles)]
    for tile, pieces in tile_pieces(graph, tensor):
        mapping[int(ipu) * target.tiles_per_ipu + tile % target.tiles_per_ipu] += pieces
    graph.set_tile_mapping(copy_of_tensor, mapping)
    return copy_of_tensor


@library
def copy_to_ipu(
    graph: Graph, tensor: Tensor, ipu: int, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a new variable as `clone_to_ipu` does, and append a copy of `tensor` into it."""
    copy = _on_ipu(graph, tensor, ipu, debug_context)
    prog.add(Copy(tensor, copy))
    return copy


@library
def dim_is_split_over_tiles(graph: Graph, tensor: Tensor, dim: int) -> bool:
    """Return whether elements that differ only in their index in `dim` are on different tiles."""
    return _split(graph, tensor, dim, 1)


@library
def dim_is_split_over_ipus(graph: Graph, tensor: Tensor, dim: int) -> bool:
    """Return whether elements that differ only in their index in `dim` are on different IPUs."""
    return _split(graph, tensor, dim, graph.target.tiles_per_ipu)


def _split(graph: Graph, tensor: Tensor, dim: int, tiles: int) -> bool:
    axis = tensor._axis(dim)
    if not tensor.num_elements:
        return False
    places = np.moveaxis(
        graph.tile_map().at(tensor.positions() * tensor.dtype.size) // tiles, axis, 0
    )
    return bool(np.any(places != places[0]))


@library
def split_regions_between_workers(
    target: Target,
    regions: Sequence[tuple[int, int]],
    grain_size: int,
    min_elements_per_worker: int = 0,
) -> list[list[tuple[int, int]]]:
    """Return `split_regions` with at most one part per worker thread of a tile."""
    check_sizes(target, 0)
    return split_regions(regions, grain_size, target.num_worker_contexts, min_elements_per_worker)


@library
def clone(graph: Graph, tensor: Tensor, name: str, dtype: type[DType] | None = None) -> Tensor:
    """Return a new variable with the shape and tile mapping of `tensor`.

    `dtype` replaces the dtype of `tensor`.
    """
    return like(graph, tensor, name, dtype)


def like(graph: Graph, tensor: Tensor, name: str, dtype: type[DType] | None = None) -> Tensor:
    """Return `clone` without checks of the arguments; the elements keep their order in memory."""
    order = in_memory_order(tensor)
    original = tensor.dim_shuffle(order)
    pieces = graph.mapped_pieces(original)
    new_tensor = graph.add_variable(tensor.dtype if dtype is None else dtype, original.shape, name)
    graph.map_pieces(new_tensor, *pieces)
    return new_tensor.dim_shuffle([order.index(d) for d in range(tensor.rank)])


def tile_pieces(graph: Graph, tensor: Tensor) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return (tile, intervals of the flattened tensor) for each tile that holds elements of it."""
    return list(graph.held_by_tile(tensor).items())


def take(flat: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    """Return a view of the elements in some intervals of a one-dimensional tensor, concatenated."""
    return take_each([flat], pieces)[0]


def take_each(flats: Iterable[Tensor], pieces: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Return `take` for several tensors with the same intervals.

    The layout of the view is stored once for all tiles whose intervals have the same pattern.
    """
    first = pieces[0][0]
    if len(pieces) == 1:
        return [flat[first : pieces[0][1]] for flat in flats]
    pattern = tuple([(begin - first, end - first) for begin, end in pieces])
    pieces_found = []
    for flat in flats:
        form = flat.form
        key = pattern if flat.layout.strides else (first, *pattern)
        if key not in form.picks:
            pieces_found.append(flat[np.concatenate([np.arange(*piece) for piece in pieces])])
            form.picks[key] = (
                pieces_found[-1].offset - flat.offset - first * form.stride,
                pieces_found[-1].form,
            )
            continue
        later, picked = form.picks[key]
        pieces_found.append(Tensor(flat.offset + first * form.stride + later, picked))
    return pieces_found


def template_vertex(name: str, *dtypes: type[DType]) -> str:
    """Return the name of a codelet template's instance, such as "Scale<float>".

    `template_vertex("Scale", FLOAT)` is a name for `graph.add_vertex` after
    `graph.add_codelets(Scale)`. Raises `PoplibsError` if `name` is not text or there are no
    `dtypes`, and `PoplarTypeError` if one of the `dtypes` is not a dtype.
    """
    if not isinstance(name, str) or not dtypes:
        raise PoplibsError(f"""template_vertex() was given {shown(name)} and {len(dtypes)} dtypes.
            next:  give the name of a template and its dtypes: template_vertex("Scale", FLOAT).""")
    return template_name(name, *(as_dtype(dtype, "template_vertex()") for dtype in dtypes))
