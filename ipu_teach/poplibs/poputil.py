"""Helpers for building graphs: mapping tensors to tiles, dividing work, checking arguments."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, overload

import numpy as np

from ipu_teach.errors import InvalidTileMappingError, PoplibsError, shown
from ipu_teach.graph import Graph, Shape, Tensor, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.mapping import MIN_BYTES_PER_TILE as MIN_BYTES_PER_TILE, least_elements, linear_mapping, pieces_by_tile
from ipu_teach.graph.templates import template_name
from ipu_teach.graph.tensor import as_shape
from ipu_teach.graph.tile_map import UNMAPPED
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.target import MOST_TILES, Target
from ipu_teach.types import BOOL, DType, as_dtype, to_host_array

Mapping = list[list[tuple[int, int]]]
BROADCASTING = "dimensions are compared from the last; each must be equal, 1, or missing."


def calc_linear_tile_mapping(
    graph: Graph,
    shape: int | Sequence[int],
    dtype: type[DType],
    min_elements_per_tile: int | None = None,
    grain_size: int | None = None,
) -> Mapping:
    """A linear mapping of `shape` elements, not applied: for each tile its (begin, end) intervals.

    Elements keep their order. They are dealt out in grains of `grain_size` (default: a data path, 2 FLOAT or 4 HALF), as
    evenly as that allows, to as few tiles as do when a tile may hold `min_elements_per_tile` (default: 128 bytes), or an
    even share of all tiles if that is more.
    """
    check_graph("calc_linear_tile_mapping", graph)
    dtype = as_dtype(dtype, "calc_linear_tile_mapping()")
    count = prod(check_shape("calc_linear_tile_mapping", shape))
    target = graph.target
    grain = target.get_vector_width(dtype) if grain_size is None else grain_size
    least = least_elements(dtype) if min_elements_per_tile is None else min_elements_per_tile
    if not _is_count(grain, 1) or not _is_count(least, 0):
        raise PoplibsError(f"""A linear mapping was asked for with grain {shown(grain)} and at least {shown(least)} elements a
            tile.
            next:  give whole numbers: a grain of 1 or more, and elements of 0 or more.""")
    return linear_mapping(count, target.num_tiles, int(grain), int(least))


def map_tensor_linearly(
    graph: Graph, tensor: Tensor, min_elements_per_tile: int | None = None, grain_size: int | None = None
) -> None:
    """Spread a tensor over the tiles in element order; see `calc_linear_tile_mapping`."""
    check_graph("map_tensor_linearly", graph)
    check_tensor("map_tensor_linearly", graph, "tensor", tensor)
    mapping = calc_linear_tile_mapping(graph, tensor.shape, tensor.dtype, min_elements_per_tile, grain_size)
    graph.set_tile_mapping(tensor, mapping)


def balanced_partition(count: int, parts: int) -> list[tuple[int, int]]:
    """`count` items as `parts` consecutive (begin, end) intervals whose sizes differ by at most one."""
    if not _is_count(count, 0) or not _is_count(parts, 1) or parts > MOST_TILES:
        raise PoplibsError(f"""balanced_partition() was asked for {shown(count)} items in {shown(parts)} parts.
            next:  give whole numbers: items of 0 or more, and parts from 1 to {MOST_TILES:,}.""")
    return [(i * count // parts, (i + 1) * count // parts) for i in range(parts)]


@overload
def broadcast_to_match(tensor: Tensor, shape: Sequence[int]) -> Tensor: ...


@overload
def broadcast_to_match(tensor: Tensor, shape: Tensor) -> tuple[Tensor, Tensor]: ...


def broadcast_to_match(tensor: Tensor, shape: Sequence[int] | Tensor) -> Tensor | tuple[Tensor, Tensor]:
    """`tensor` seen in a larger shape, by numpy's rules: missing and single dimensions repeat their elements. A view.

    With a second tensor in place of the shape: both, seen in the shape that they have in common.
    """
    if not isinstance(tensor, Tensor):
        raise PoplibsError(f"broadcast_to_match() was given {shown(tensor)} as tensor.", next_step="give a tensor.")
    if isinstance(shape, Tensor):
        a, b = expand_to_match_ranks(tensor, shape)
        common = tuple(q if p == 1 else p for p, q in zip(a.shape, b.shape, strict=True))
        return broadcast_to_match(a, common), broadcast_to_match(b, common)
    wanted = check_shape("broadcast_to_match", shape)
    lead = len(wanted) - tensor.rank
    fits = lead >= 0 and all(n in (1, w) for n, w in zip(tensor.shape, wanted[lead:], strict=True))
    if not fits:
        raise PoplibsError(f"""A tensor of shape {tensor.shape} does not broadcast to {wanted}.
            where: {tensor!r}
            next:  {BROADCASTING}""")
    result = tensor.expand((0,) * lead)
    for axis, length in enumerate(wanted):
        if result.shape[axis] != length:
            result = result.broadcast(length, axis)
    return result


def expand_to_match_ranks(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Both tensors with as many dimensions as the one that has more: dimensions of length 1 come in front. Views."""
    for name, tensor in (("a", a), ("b", b)):
        if not isinstance(tensor, Tensor):
            raise PoplibsError(f"expand_to_match_ranks() was given {shown(tensor)} as {name}.", next_step="give a tensor.")
    rank = max(a.rank, b.rank)
    return a.expand((0,) * (rank - a.rank)), b.expand((0,) * (rank - b.rank))


def get_tile_imbalance(graph: Graph, tensor: Tensor, min_elements_per_tile: int = 0, grain_size: int = 0) -> int:
    """How many elements the fullest tile holds beyond what it would in an even mapping; 0 for an even one.

    Even is an equal share, rounded up to `grain_size`, and at least `min_elements_per_tile`.
    """
    check_graph("get_tile_imbalance", graph)
    check_tensor("get_tile_imbalance", graph, "tensor", tensor)
    check_sizes("get_tile_imbalance", graph.target, 0, min_elements_per_tile=min_elements_per_tile, grain_size=grain_size)
    sizes = [sum(end - begin for begin, end in pieces) for pieces in graph.get_tile_mapping(tensor)]
    grain = max(int(grain_size), 1)
    share = -(-tensor.num_elements // (len(sizes) * grain)) * grain
    return max(0, max(sizes) - max(share, int(min_elements_per_tile)))


def map_tensor_linearly_with_offset(graph: Graph, tensor: Tensor, offset: int = 0, ascending_order: bool = True) -> None:
    """As `map_tensor_linearly`, with the first elements on tile `offset`, and on tile 0 after the last one.

    Not in `ascending_order`, tiles are counted from the last one down.
    """
    check_graph("map_tensor_linearly_with_offset", graph)
    check_tensor("map_tensor_linearly_with_offset", graph, "tensor", tensor)
    check_sizes("map_tensor_linearly_with_offset", graph.target, 0, offset=offset)
    mapping = calc_linear_tile_mapping(graph, tensor.shape, tensor.dtype)
    turn = int(offset) % len(mapping)
    turned = mapping[-turn:] + mapping[:-turn] if turn else mapping
    graph.set_tile_mapping(tensor, turned if ascending_order else turned[::-1])


def duplicate(graph: Graph, tensor: Tensor, prog: Program, debug_context: str = "duplicate") -> Tensor:
    """A new variable that holds what `tensor` holds when the program comes here, each element on the same tile."""
    check_call("duplicate", graph, prog, debug_context)
    check_tensor("duplicate", graph, "tensor", tensor)
    check_mapped("duplicate", graph, "tensor", tensor)
    made = clone(graph, tensor, debug_context)
    prog.add(Copy(tensor, made))
    return made


def clone_n(graph: Graph, tensor: Tensor, n: int, name: str = "clones", dtype: type[DType] | None = None) -> Tensor:
    """[n, *shape]: n variables like `tensor`, one below the other, each on its tiles."""
    check_graph("clone_n", graph)
    check_tensor("clone_n", graph, "tensor", tensor)
    check_sizes("clone_n", graph.target, 1, n=n)
    check_mapped("clone_n", graph, "tensor", tensor)
    return concat([clone(graph, tensor, f"{name}/{i}", dtype).expand([0]) for i in range(int(n))])


def clone_to_ipu(graph: Graph, tensor: Tensor, ipu: int, name: str = "clone_to_ipu") -> Tensor:
    """A new variable like `tensor` on the tiles of IPU number `ipu` that have the same place in it as the tensor's."""
    check_graph("clone_to_ipu", graph)
    return _on_ipu("clone_to_ipu", graph, tensor, ipu, name)


def _on_ipu(function: str, graph: Graph, tensor: Tensor, ipu: int, name: str) -> Tensor:
    check_tensor(function, graph, "tensor", tensor)
    target = graph.target
    if not _is_count(ipu, 0) or ipu >= target.num_ipus:
        raise PoplibsError(f"""{function}() was given IPU {shown(ipu)} of {target.num_ipus}.
            next:  IPUs are counted from 0; make a device with more: IPUModel(num_ipus=2).""")
    check_mapped(function, graph, "tensor", tensor)
    made = graph.add_variable(tensor.dtype, tensor.shape, name)
    mapping: Mapping = [[] for _ in range(target.num_tiles)]
    for tile, pieces in tile_pieces(graph, tensor):
        mapping[int(ipu) * target.tiles_per_ipu + tile % target.tiles_per_ipu] += pieces
    graph.set_tile_mapping(made, mapping)
    return made


def copy_to_ipu(graph: Graph, tensor: Tensor, ipu: int, prog: Program, debug_context: str = "copy_to_ipu") -> Tensor:
    """As `clone_to_ipu`, and a copy of the tensor's elements there."""
    check_call("copy_to_ipu", graph, prog, debug_context)
    made = _on_ipu("copy_to_ipu", graph, tensor, ipu, debug_context)
    prog.add(Copy(tensor, made))
    return made


def dim_is_split_over_tiles(graph: Graph, tensor: Tensor, dim: int) -> bool:
    """Whether elements that differ in nothing but their place in `dim` lie on different tiles."""
    return _split("dim_is_split_over_tiles", graph, tensor, dim, 1)


def dim_is_split_over_ipus(graph: Graph, tensor: Tensor, dim: int) -> bool:
    """Whether elements that differ in nothing but their place in `dim` lie on different IPUs."""
    return _split("dim_is_split_over_ipus", graph, tensor, dim, graph.target.tiles_per_ipu if isinstance(graph, Graph) else 1)


def _split(function: str, graph: Graph, tensor: Tensor, dim: int, tiles: int) -> bool:
    check_graph(function, graph)
    check_tensor(function, graph, "tensor", tensor)
    axis = tensor._axis(dim)
    check_mapped(function, graph, "tensor", tensor)
    if not tensor.num_elements:
        return False
    places = np.moveaxis(graph.tile_map().at(tensor.positions() * tensor.dtype.size) // tiles, axis, 0)
    return bool(np.any(places != places[0]))


def split_regions(
    regions: Sequence[tuple[int, int]], grain_size: int, max_parts: int, min_elements_per_part: int = 0
) -> list[list[tuple[int, int]]]:
    """Intervals dealt out, in order, to at most `max_parts` parts of nearly the same number of grains.

    A part begins at a whole number of grains, counted over all regions, and has at least `min_elements_per_part` elements
    where there are as many.
    """
    spans = [as_shape(region) for region in regions] if isinstance(regions, (list, tuple)) else [None]
    good = all(s is not None and len(s) == 2 and s[0] <= s[1] for s in spans)
    if not good or not _is_count(grain_size, 1) or not _is_count(max_parts, 1) or not _is_count(min_elements_per_part, 0):
        raise PoplibsError(f"""split_regions() was given {shown(regions)}, grain {shown(grain_size)}, {shown(max_parts)} parts
            and at least {shown(min_elements_per_part)} elements.
            next:  give a list of (begin, end) intervals, and whole numbers; grain and parts are 1 or more.""")
    total = sum(end - begin for begin, end in regions)
    grains = -(-total // grain_size)
    least = max(-(-min_elements_per_part // grain_size), 1)
    parts = max(min(max_parts, grains // least), 1) if total else 0
    found: list[list[tuple[int, int]]] = []
    for first, last in balanced_partition(grains, parts) if parts else []:
        low, high, seen, part = first * grain_size, last * grain_size, 0, []
        for begin, end in regions:
            a, b = max(low - seen, 0), min(high - seen, end - begin)
            if a < b:
                part.append((begin + a, begin + b))
            seen += end - begin
        found.append(part)
    return found


def split_regions_between_workers(
    target: Target, regions: Sequence[tuple[int, int]], grain_size: int, min_elements_per_worker: int = 0
) -> list[list[tuple[int, int]]]:
    """`split_regions` for the workers of a tile: a part for each vertex."""
    check_sizes("split_regions_between_workers", target, 0)
    return split_regions(regions, grain_size, target.num_worker_contexts, min_elements_per_worker)


def clone(graph: Graph, tensor: Tensor, name: str, dtype: type[DType] | None = None) -> Tensor:
    """A new variable of the same shape, each element on the tile of its original; `dtype` if it is to be another."""
    check_graph("clone", graph)
    check_tensor("clone", graph, "tensor", tensor)
    check_mapped("clone", graph, "tensor", tensor)
    mapping = graph.get_tile_mapping(tensor)
    made = graph.add_variable(tensor.dtype if dtype is None else dtype, tensor.shape, name)
    graph.set_tile_mapping(made, mapping)
    return made


def tile_pieces(graph: Graph, tensor: Tensor) -> list[tuple[int, list[tuple[int, int]]]]:
    """(tile, its intervals of the flattened tensor) for every tile that holds some of it."""
    return [(tile, pieces) for tile, pieces in enumerate(graph.get_tile_mapping(tensor)) if pieces]


def take(flat: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    """The elements of some intervals of a one-dimensional tensor, side by side in one view."""
    return concat([flat.slice(begin, end) for begin, end in pieces])


# Checks. All of a call's arguments are checked before the graph is changed: a caught error leaves it as it was.


def check_graph(function: str, graph: object) -> None:
    """Raise `PoplibsError` unless `graph` is a graph."""
    if not isinstance(graph, Graph):
        raise PoplibsError(f"{function}() was given {shown(graph)} as its graph.", next_step="give the Graph first.")


def check_call(function: str, graph: object, prog: object, debug_context: object) -> None:
    """Raise `PoplibsError` unless there are a graph, a Sequence, which library calls append to, and a name."""
    check_graph(function, graph)
    if not isinstance(prog, Program):
        raise PoplibsError(f"""{function}() was given {shown(prog)} as prog.
            next:  give a Sequence; the call appends to it.""")
    if not isinstance(debug_context, str):
        raise PoplibsError(f"""{function}() was given {shown(debug_context)} as debug_context.
            next:  give a name: text, in quotes.""")


def check_tensor(function: str, graph: Graph, argument: str, tensor: object, ranks: tuple[int, ...] = ()) -> None:
    """Raise `PoplibsError` unless `tensor` is a tensor of `graph` with one of the `ranks` (any if empty)."""
    if not isinstance(tensor, Tensor):
        raise PoplibsError(f"{function}() was given {shown(tensor)} as {argument}.", next_step="give a tensor.")
    if tensor.graph is not graph.get_top_level_graph():
        raise PoplibsError(f"""{function}() was given a tensor of another graph as {argument}.
            where: {tensor!r}
            next:  use one graph throughout.""")
    if ranks and tensor.rank not in ranks:
        wanted = " or ".join(str(r) for r in ranks)
        raise PoplibsError(f"""{function}() wants {argument} with {wanted} dimension{"s" if wanted != "1" else ""}; it has
            {tensor.rank}.
            where: {tensor!r}
            next:  reshape, flatten or index the tensor.""")


def check_mapped(function: str, graph: Graph, argument: str, tensor: Tensor) -> None:
    """Raise `InvalidTileMappingError` unless every element of `tensor` is on a tile."""
    _, count, tile = pieces_by_tile(tensor, graph.tile_map())
    missing = int(count[tile == UNMAPPED].sum())
    if missing:
        raise InvalidTileMappingError(f"""{function}() was given {argument} with {missing:,} of its {tensor.num_elements:,}
            elements on no tile.
            where: {tensor!r}
            next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).""")


def check_same(function: str, what: str, a: object, b: object, where: str, advice: str) -> None:
    """Raise `PoplibsError` unless two dtypes, or two shapes, are equal."""
    if a != b:
        raise PoplibsError(f"{function}() was given two {what} that differ: {a} and {b}.", where=where, next_step=advice)


def check_number(function: str, argument: str, value: object, dtype: type[DType], advice: str = "give a number.") -> Any:
    """`value` as a number of `dtype`. Raises `PoplibsError` if it is no number, `TensorCreationError` if it does not fit."""
    numbers = (int, float, np.integer, np.floating, *((np.bool_,) if dtype is BOOL else ()))
    if not isinstance(value, numbers) or (isinstance(value, bool) and dtype is not BOOL):
        raise PoplibsError(f"{function}() was given {shown(value)} as {argument}.", next_step=advice)
    return to_host_array(value, dtype, f"{function}(), {argument}")[()]


def check_sizes(function: str, target: object, least: int, **sizes: object) -> None:
    """Raise `PoplibsError` unless `target` is a target and the sizes are whole numbers of at least `least`."""
    if not isinstance(target, Target):
        raise PoplibsError(f"{function}() was given {shown(target)} as its target.", next_step="give graph.target.")
    for name, size in sizes.items():
        if not _is_count(size, least):
            raise PoplibsError(f"""{function}() was given {shown(size)} as {name}.
                next:  give a whole number of {least} or more.""")


def check_shape(function: str, given: object) -> Shape:
    """`given` as a shape. Raises `PoplibsError`."""
    shape = as_shape(given)
    if shape is None:
        raise PoplibsError(f"""{function}() was given the shape {shown(given)}.
            next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).""")
    return shape


def _is_count(value: object, least: int) -> bool:
    return is_whole(value) and int(value) >= least


def template_vertex(name: str, *dtypes: type[DType]) -> str:
    """The name of a codelet template's instance: `template_vertex("Scale", FLOAT)` is "Scale<float>".

    `graph.add_vertex` finds it once the template was added: `graph.add_codelets(Scale)`. Raises `PoplibsError` if `name`
    is no text or there is no dtype, `PoplarTypeError` for what is no dtype.
    """
    if not isinstance(name, str) or not dtypes:
        raise PoplibsError(f"""template_vertex() was given {shown(name)} and {len(dtypes)} dtypes.
            next:  give the name of a template and its dtypes: template_vertex("Scale", FLOAT).""")
    return template_name(name, *(as_dtype(dtype, "template_vertex()") for dtype in dtypes))


# At the end, as it takes its checks from here.
from ipu_teach.poplibs import graphfn as graphfn  # noqa: E402
from ipu_teach.poplibs.placing import (  # noqa: E402
    TensorUseTracker as TensorUseTracker,
    choose_mapping_offset as choose_mapping_offset,
    create_broadcast_operand as create_broadcast_operand,
    factor_dims as factor_dims,
    unfactor_dims as unfactor_dims,
)
