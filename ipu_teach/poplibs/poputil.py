"""Helpers for building graphs: mapping tensors to tiles, broadcasting, and dividing elements.

In this module, a *linear* tile mapping distributes the elements of a tensor over the tiles in order
and as evenly as possible. An interval (begin, end) of elements does not include `end`.
"""

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
    """Return the linear tile mapping of a tensor of `shape`; do not apply it.

    The result contains, for each tile, a list of intervals (begin, end). Elements keep their order.
    Groups of `grain_size` elements stay on one tile; by default, a group is one vector of the data
    path, such as 2 FLOAT or 4 HALF. As few tiles as possible are used, and the elements are
    distributed over them as evenly as possible. A tile gets at most `min_elements_per_tile`
    elements (default: 128 bytes) or, if that is more, the number of elements per tile when all
    tiles are used. Both limits are rounded up to whole groups. Small tensors therefore use fewer
    tiles.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
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
    """Return a linear tile mapping, without the tiles at the end that have no elements.

    The parameters are those of `calc_linear_tile_mapping`.
    """
    dtype = as_dtype(dtype, "calc_linear_tile_mapping()")
    num_elements = prod(shape)
    target = graph.target
    grain_elements = target.get_vector_width(dtype) if grain_size is None else grain_size
    min_elements = least_elements(dtype) if min_elements_per_tile is None else min_elements_per_tile
    if not is_count(grain_elements, 1) or not is_count(min_elements, 0):
        raise PoplibsError(f"""A linear tile mapping was requested with
            grain_size={shown(grain_elements)} and min_elements_per_tile={shown(min_elements)}.
            next:  give whole numbers: 1 or more as grain_size, and 0 or more as
            min_elements_per_tile.""")
    return linear_mapping(num_elements, target.num_tiles, int(grain_elements), int(min_elements))


@library
def map_tensor_linearly(
    graph: Graph,
    tensor: Loose,
    min_elements_per_tile: int | None = None,
    grain_size: int | None = None,
) -> None:
    """Distribute a tensor over the tiles in element order.

    The mapping and the other parameters are those of `calc_linear_tile_mapping`.
    """
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

    The elements of missing dimensions and of dimensions of size 1 are repeated. If `shape` is a
    tensor, return a tuple of views of both tensors in their common shape.

    :raises PoplibsError: if the tensor does not broadcast to the shape.
    """
    if not isinstance(tensor, Tensor):
        raise as_given(tensor, "tensor", "give a tensor.")
    if isinstance(shape, Tensor):
        a, b = expand_to_match_ranks(tensor, shape)
        sizes = zip(a.shape, b.shape, strict=True)
        common_shape = tuple(b_size if a_size == 1 else a_size for a_size, b_size in sizes)
        return seen_in(a, common_shape), seen_in(b, common_shape)
    return seen_in(tensor, check_shape(shape))


def seen_in(tensor: Tensor, shape: Shape) -> Tensor:
    """Return a view of `tensor` broadcast to `shape`, without checking the arguments' types.

    :raises PoplibsError: if `tensor` does not broadcast to `shape`.
    """
    num_new_dims = len(shape) - tensor.rank
    is_broadcastable = num_new_dims >= 0 and all(
        size in (1, wanted_size)
        for size, wanted_size in zip(tensor.shape, shape[num_new_dims:], strict=True)
    )
    if not is_broadcastable:
        raise PoplibsError(f"""A tensor of shape {tensor.shape} does not broadcast to {shape}.
            where: {tensor!r}
            next:  {BROADCASTING}""")
    result = tensor.expand((0,) * num_new_dims)
    for axis, length in enumerate(shape):
        if result.shape[axis] != length:
            result = result.broadcast(length, axis)
    return result


def expand_to_match_ranks(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return views of `a` and `b` with equal ranks; dimensions of size 1 are added in front."""
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
    """Return the number of elements by which the fullest tile exceeds a balanced mapping, or 0.

    In a balanced mapping, each tile has the same number of elements, rounded up to a multiple of
    `grain_size`, or `min_elements_per_tile` elements if that is more.
    """
    check_sizes(graph.target, 0, min_elements_per_tile=min_elements_per_tile, grain_size=grain_size)
    elements_by_tile = [
        sum(end - begin for begin, end in intervals) for intervals in graph.get_tile_mapping(tensor)
    ]
    grain_elements = max(int(grain_size), 1)
    elements_per_tile = (
        -(-tensor.num_elements // (len(elements_by_tile) * grain_elements)) * grain_elements
    )
    return max(0, max(elements_by_tile) - max(elements_per_tile, int(min_elements_per_tile)))


@library
def map_tensor_linearly_with_offset(
    graph: Graph, tensor: Loose, offset: int = 0, ascending_order: bool = True
) -> None:
    """Map a tensor linearly, beginning on tile `offset`; after the last tile, continue on tile 0.

    The elements are distributed as in `map_tensor_linearly`. If `ascending_order` is False, the
    tiles are numbered from the last tile to tile 0 instead.
    """
    check_sizes(graph.target, 0, offset=offset)
    mapping = calc_linear_tile_mapping(graph, tensor.shape, tensor.dtype)
    first_tile = int(offset) % len(mapping)
    rotated = mapping[-first_tile:] + mapping[:-first_tile] if first_tile else mapping
    graph.set_tile_mapping(tensor, rotated if ascending_order else rotated[::-1])


@library
def duplicate(graph: Graph, tensor: Tensor, prog: Program, debug_context: str = OWN) -> Tensor:
    """Return a new variable like `tensor`, and append a copy of the elements of `tensor` to it.

    The variable has the shape, dtype and tile mapping of `tensor`.
    """
    copy = like(graph, tensor, debug_context)
    prog.add(Copy(tensor, copy))
    return copy


@library
def clone_n(
    graph: Graph, tensor: Tensor, n: int, name: str = "clones", dtype: type[DType] | None = None
) -> Tensor:
    """Return a tensor [n, *shape] that consists of `n` new variables like `tensor`.

    Each variable has the shape and tile mapping of `tensor`, and its dtype is `dtype` or, if that
    is None, the dtype of `tensor`.

    :raises PoplibsError: if `n` is not an integer from 1 to 1,000,000.
    """
    check_sizes(graph.target, 1, n=n)
    if n > 10**6:
        raise refused(f"was given {n:,} as n.", next_step="give at most 1,000,000.")
    return concat([like(graph, tensor, f"{name}/{i}", dtype).expand([0]) for i in range(int(n))])


@library
def clone_to_ipu(graph: Graph, tensor: Tensor, ipu: int, name: str = "clone_to_ipu") -> Tensor:
    """Return a new variable like `tensor` on the IPU with the number `ipu`.

    Each element has the same tile number within its IPU as in `tensor`.

    :raises PoplibsError: if there is no such IPU.
    """
    return _on_ipu(graph, tensor, ipu, name)


def _on_ipu(graph: Graph, tensor: Tensor, ipu: int, name: str) -> Tensor:
    target = graph.target
    if not is_count(ipu, 0) or ipu >= target.num_ipus:
        raise refused(f"""was given IPU {shown(ipu)}, but the number of IPUs is
            {target.num_ipus}.
            next:  count IPUs from 0, or create a device with more IPUs: IPUModel(num_ipus=2).""")
    copy_of_tensor = graph.add_variable(tensor.dtype, tensor.shape, name)
    mapping: Mapping = [[] for _ in range(target.num_tiles)]
    for tile, intervals in tile_pieces(graph, tensor):
        mapping[int(ipu) * target.tiles_per_ipu + tile % target.tiles_per_ipu] += intervals
    graph.set_tile_mapping(copy_of_tensor, mapping)
    return copy_of_tensor


@library
def copy_to_ipu(
    graph: Graph, tensor: Tensor, ipu: int, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a new variable like `tensor` on IPU number `ipu`, and append a copy to it.

    Each element has the same tile number within its IPU as in `tensor`.

    :raises PoplibsError: if there is no such IPU.
    """
    copy = _on_ipu(graph, tensor, ipu, debug_context)
    prog.add(Copy(tensor, copy))
    return copy


@library
def dim_is_split_over_tiles(graph: Graph, tensor: Tensor, dim: int) -> bool:
    """Return whether elements that differ only in their index in `dim` are on different tiles.

    The result is true if there is at least one pair of such elements.
    """
    return _split(graph, tensor, dim, 1)


@library
def dim_is_split_over_ipus(graph: Graph, tensor: Tensor, dim: int) -> bool:
    """Return whether elements that differ only in their index in `dim` are on different IPUs.

    The result is true if there is at least one pair of such elements.
    """
    return _split(graph, tensor, dim, graph.target.tiles_per_ipu)


def _split(graph: Graph, tensor: Tensor, dim: int, tiles_per_group: int) -> bool:
    axis = tensor._axis(dim)
    if not tensor.num_elements:
        return False
    groups_of_elements = np.moveaxis(
        graph.tile_map().at(tensor.positions() * tensor.dtype.size) // tiles_per_group, axis, 0
    )
    return bool(np.any(groups_of_elements != groups_of_elements[0]))


@library
def split_regions_between_workers(
    target: Target,
    regions: Sequence[tuple[int, int]],
    grain_size: int,
    min_elements_per_worker: int = 0,
) -> list[list[tuple[int, int]]]:
    """Distribute intervals (begin, end), in order, over the worker threads of a tile.

    Return a list of intervals for each worker that gets elements. The elements of all regions, in
    order, are divided into groups of `grain_size` elements; a group is never divided, and the
    workers get nearly equal numbers of groups. A worker gets at least as many groups as
    `min_elements_per_worker` elements need, unless there are fewer groups in total.
    """
    check_sizes(target, 0)
    return split_regions(regions, grain_size, target.num_worker_contexts, min_elements_per_worker)


@library
def clone(graph: Graph, tensor: Tensor, name: str, dtype: type[DType] | None = None) -> Tensor:
    """Return a new variable with the shape and tile mapping of `tensor`.

    Its dtype is that of `tensor` unless `dtype` is given.
    """
    return like(graph, tensor, name, dtype)


def like(graph: Graph, tensor: Tensor, name: str, dtype: type[DType] | None = None) -> Tensor:
    """Return a new variable like `tensor`, without checking the arguments.

    The variable has the shape, the tile mapping and the memory order of `tensor`. Its dtype is that
    of `tensor` unless `dtype` is given.
    """
    memory_order = in_memory_order(tensor)
    original = tensor.dim_shuffle(memory_order)
    pieces = graph.mapped_pieces(original)
    new_tensor = graph.add_variable(tensor.dtype if dtype is None else dtype, original.shape, name)
    graph.map_pieces(new_tensor, *pieces)
    return new_tensor.dim_shuffle([memory_order.index(d) for d in range(tensor.rank)])


def tile_pieces(graph: Graph, tensor: Tensor) -> list[tuple[int, list[tuple[int, int]]]]:
    """Return a pair (tile, intervals) for each tile that has elements of `tensor`.

    The intervals (begin, end) contain positions in the flattened tensor.
    """
    return list(graph.held_by_tile(tensor).items())


def take(flat: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    """Return a view that concatenates the intervals `pieces` of a one-dimensional tensor."""
    return take_each([flat], pieces)[0]


def take_each(flats: Iterable[Tensor], pieces: Sequence[tuple[int, int]]) -> list[Tensor]:
    """Return a view of each tensor in `flats` that concatenates the intervals `pieces`.

    The layout of a view is cached. Lists of intervals that differ only by a shift use the same
    layout.
    """
    first_begin = pieces[0][0]
    if len(pieces) == 1:
        return [flat[first_begin : pieces[0][1]] for flat in flats]
    relative_pieces = tuple([(begin - first_begin, end - first_begin) for begin, end in pieces])
    views = []
    for flat in flats:
        form = flat.form
        pick_key = relative_pieces if flat.layout.strides else (first_begin, *relative_pieces)
        if pick_key not in form.picks:
            views.append(flat[np.concatenate([np.arange(*piece) for piece in pieces])])
            form.picks[pick_key] = (
                views[-1].offset - flat.offset - first_begin * form.stride,
                views[-1].form,
            )
            continue
        offset_of_view, form_of_view = form.picks[pick_key]
        views.append(Tensor(flat.offset + first_begin * form.stride + offset_of_view, form_of_view))
    return views


def template_vertex(name: str, *dtypes: type[DType]) -> str:
    """Return the name of an instance of a codelet template, such as "Scale<float>".

    After `graph.add_codelets(Scale)`, you can pass the name `template_vertex("Scale", FLOAT)` to
    `graph.add_vertex`.

    :raises PoplibsError: if `name` is not a string, or there are no `dtypes`.
    :raises PoplarTypeError: if one of the `dtypes` is not a dtype.
    """
    if not isinstance(name, str) or not dtypes:
        raise PoplibsError(f"""template_vertex() was given {shown(name)} and {len(dtypes)} dtypes.
            next:  give the name of a template and its dtypes: template_vertex("Scale", FLOAT).""")
    return template_name(name, *(as_dtype(dtype, "template_vertex()") for dtype in dtypes))
