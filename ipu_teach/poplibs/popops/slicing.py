"""Slices whose place is data: `dynamic_slice`, `dynamic_update`, `multi_slice`, `multi_update` and the tensors made for them.

A tensor is seen as rows along the sliced dimensions, and columns of all others. Every tile works on its own columns and
needs all rows of them: a tensor of `create_sliceable_tensor` lies so, and slicing it exchanges nothing but the numbers of
the rows. Of any other, the columns are dealt out linearly, and the rows travel there first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ipu_teach.errors import PoplibsError, counted, shown
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.layouts import is_whole
from ipu_teach.graph.tensor import Tensor, concat
from ipu_teach.graph.vertex import Vertex, template
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.fused import map as fused_map
from ipu_teach.poplibs.popops.operands import check_factor
from ipu_teach.poplibs.popops.slice_vertices import (
    DynamicSlice1D,
    DynamicUpdateSlice1D,
    MultiSlice,
    MultiUpdate,
    MultiUpdateOp,
)
from ipu_teach.poplibs.poputil import (
    Mapping,
    calc_linear_tile_mapping,
    check_call,
    check_graph,
    check_mapped,
    check_same,
    check_shape,
    check_tensor,
)
from ipu_teach.program import Execute
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, INT, QUARTER, UNSIGNED_INT, DType

OFFSETS = (UNSIGNED_INT, INT)


def create_sliceable_tensor(
    graph: Graph, dtype: type[DType], shape: Sequence[int], dims: Sequence[int], debug_context: str = "sliceable"
) -> Tensor:
    """A variable of `shape`, mapped for slices along `dims`: what differs in nothing but those lies on one tile.

    The positions in the other dimensions are dealt out linearly.
    """
    check_graph("create_sliceable_tensor", graph)
    wanted = check_shape("create_sliceable_tensor", shape)
    good = isinstance(dims, (list, tuple)) and all(is_whole(d) and -len(wanted) <= d < len(wanted) for d in dims)
    along = [int(d) % len(wanted) for d in dims] if good else []
    if not along or len(set(along)) != len(along):
        raise PoplibsError(
            f"create_sliceable_tensor() was given the dimensions {shown(dims)} for the shape {wanted}.",
            next_step="give a list of different dimensions, as in [0].",
        )
    tensor = graph.add_variable(dtype, wanted, debug_context)
    _spread(graph, rows_of(tensor, along))
    return tensor


def create_slice_tensor(
    graph: Graph,
    tensor: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    num_slices: int,
    debug_context: str = "slices",
) -> Tensor:
    """A variable for `num_slices` slices of `tensor`: [num_slices, *shape with `sizes` in `dims`], mapped as it is sliced."""
    function = "create_slice_tensor"
    check_graph(function, graph)
    check_tensor(function, graph, "tensor", tensor)
    along = _dims(function, tensor, dims)
    lengths = _sizes(function, tensor, along, sizes)
    if not is_whole(num_slices) or num_slices < 0:
        raise PoplibsError(f"{function}() was given {shown(num_slices)} as num_slices.", next_step="give a whole number.")
    shape = list(tensor.shape)
    for dim, length in zip(along, lengths, strict=True):
        shape[dim] = length
    made = graph.add_variable(tensor.dtype, (int(num_slices), *shape), debug_context)
    columns = rows_of(made, [0, *(d + 1 for d in along)])
    for tile, pieces in _placed(graph, rows_of(tensor, along)):
        for begin, end in pieces:
            graph.set_tile_mapping(columns[:, begin:end], tile)
    return made


def dynamic_slice(
    graph: Graph,
    x: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = "dynamic_slice",
) -> Tensor:
    """The part of x that begins at offset[i] in dimension dims[i] and is sizes[i] long there; whole in the others.

    `offset`: UNSIGNED_INT, one element for each of `dims`. A slice that runs over the end goes on at the beginning, and an
    offset beyond the end counts as 0, as in PopLibs' codelet. One compute set for each of `dims`. The result lies where its
    columns of x do. Raises `PoplibsError`.
    """
    function = "dynamic_slice"
    check_call(function, graph, prog, debug_context)
    along, lengths = _checked(function, graph, x, offset, dims, sizes)
    result = x
    for number, (dim, length) in enumerate(zip(along, lengths, strict=True)):
        result = _slice(graph, result, offset[number], dim, length, prog, debug_context)
    return result


def dynamic_update(
    graph: Graph,
    x: Tensor,
    update: Tensor,
    offset: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = "dynamic_update",
) -> None:
    """The part of x that `dynamic_slice` would give becomes `update`, a tensor of its shape and dtype.

    With several `dims`, the parts in between are sliced out, updated and put back: 2 n - 1 compute sets.
    """
    function = "dynamic_update"
    check_call(function, graph, prog, debug_context)
    along, lengths = _checked(function, graph, x, offset, dims, sizes)
    check_tensor(function, graph, "update", update)
    check_mapped(function, graph, "update", update)
    shape = list(x.shape)
    for dim, length in zip(along, lengths, strict=True):
        shape[dim] = length
    where = f"x {x!r} and update {update!r}"
    check_same(function, "shapes", tuple(shape), update.shape, where, "give an update of the shape of the slice.")
    check_same(function, "dtypes", x.dtype, update.dtype, where, "cast one of them with popops.cast.")
    _update(graph, x, update, offset, list(zip(along, lengths, strict=True)), prog, debug_context)


def _update(
    graph: Graph, x: Tensor, update: Tensor, offset: Tensor, steps: list[tuple[int, int]], prog: Program, name: str
) -> None:
    (dim, length), rest = steps[0], steps[1:]
    if rest:
        part = _slice(graph, x, offset[0], dim, length, prog, name)
        _update(graph, part, update, offset[1:], rest, prog, name)
        update = part
    into = graph.add_compute_set(f"{name}/dynamicUpdateSlice_d{dim}")
    codelet = made(DynamicUpdateSlice1D, x.dtype)
    rows, new = rows_of(x, [dim]), rows_of(update, [dim])
    for tile, pieces in _placed(graph, rows):
        edges = {"base": _columns(rows, pieces), "update": _columns(new, pieces), "offset": offset[0]}
        graph.set_tile_mapping(graph.add_vertex(into, codelet, edges), tile)
    prog.add(Execute(into))


def _slice(graph: Graph, x: Tensor, offset: Tensor, dim: int, length: int, prog: Program, name: str) -> Tensor:
    shape = [*x.shape[:dim], length, *x.shape[dim + 1 :]]
    out = graph.add_variable(x.dtype, shape, f"{name}/out")
    into = graph.add_compute_set(f"{name}/dynamicSlice_d{dim}")
    codelet = made(DynamicSlice1D, x.dtype)
    rows, result = rows_of(x, [dim]), rows_of(out, [dim])
    for tile, pieces in _placed(graph, rows):
        edges = {"base": _columns(rows, pieces), "offset": offset, "out": _columns(result, pieces)}
        graph.set_tile_mapping(graph.add_vertex(into, codelet, edges), tile)
        graph.set_tile_mapping(edges["out"], tile)
    prog.add(Execute(into))
    return out


def multi_slice(
    graph: Graph,
    x: Tensor,
    offsets: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = "multi_slice",
) -> Tensor:
    """Many slices of x at once, such as the rows of an embedding: [slices, *shape with sizes[i] in dims[i]].

    `offsets` [slices, len(dims)]: UNSIGNED_INT or INT. Where a slice does not lie in x as a whole, the result is 0. The result
    lies where its columns of x do. One compute set; where there are several `dims` a second one makes one number of them.
    Sizes other than 1 read x through a view in which every slice is a row. Raises `PoplibsError`.
    """
    function = "multi_slice"
    check_call(function, graph, prog, debug_context)
    along, lengths = _checked_many(function, graph, x, offsets, dims, sizes)
    view, counts = windows(x, along, lengths)
    numbers = row_numbers(graph, offsets, counts, prog, debug_context)
    rows = view.reshape((prod(counts), prod(view.shape[len(counts) :])))
    out = slice_rows(graph, rows, numbers, prog, debug_context)
    rest = [n for d, n in enumerate(x.shape) if d not in along]
    return unfold(out.reshape([offsets.shape[0], *lengths, *rest]), along, x.rank)


def multi_update(
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = "multi_update",
) -> None:
    """Many slices of x become those of `updates` [slices, *shape with sizes[i] in dims[i]], first to last.

    `offsets` as of `multi_slice`; a slice that does not lie in x as a whole is passed over. Of two that overlap the later one
    stays. These vertices run one by one here, as their places depend on data.
    """
    _update_many("multi_update", graph, x, updates, offsets, None, "", dims, sizes, prog, debug_context)


def multi_update_add(
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Tensor,
    scale: Tensor | float,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = "multi_update_add",
) -> None:
    """`scale` times the slices of `updates` is added to slices of x, first to last: the gradient of an embedding.

    `scale`: a number, or one element of x's dtype. Sums of HALF are carried in FLOAT and rounded once. Otherwise as
    `multi_update`.
    """
    _update_many("multi_update_add", graph, x, updates, offsets, scale, "ADD", dims, sizes, prog, debug_context)


def multi_update_max(
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Tensor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = "multi_update_max",
) -> None:
    """Slices of x become the larger ones of what they hold and those of `updates`. Otherwise as `multi_update`."""
    _update_many("multi_update_max", graph, x, updates, offsets, 1, "MAX", dims, sizes, prog, debug_context)


def _update_many(
    function: str,
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Tensor,
    scale: Any,
    operation: str,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    name: str,
) -> None:
    check_call(function, graph, prog, name)
    along, lengths = _checked_many(function, graph, x, offsets, dims, sizes)
    check_tensor(function, graph, "updates", updates)
    check_mapped(function, graph, "updates", updates)
    shape = list(x.shape)
    for dim, length in zip(along, lengths, strict=True):
        shape[dim] = length
    where = f"x {x!r} and updates {updates!r}"
    wanted = (offsets.shape[0], *shape)
    check_same(function, "shapes", wanted, updates.shape, where, "give a slice for each row of offsets.")
    check_same(function, "dtypes", x.dtype, updates.dtype, where, "cast one of them with popops.cast.")
    if scale is not None:
        scale = check_factor(function, graph, "scale", scale, x.dtype)
    counts = [x.shape[d] - length + 1 for d, length in zip(along, lengths, strict=True)]
    numbers = row_numbers(graph, offsets, counts, prog, name)
    numbers = spread_numbers(graph, numbers, counts, [x.shape[d] for d in along], lengths, prog, name)
    update = fold(updates, along).reshape((numbers.num_elements, _rest(x, along)))
    update_rows(graph, rows_of(x, along), update, numbers.flatten(), scale, operation, prog, name)


# --- rows whose numbers are data --------------------------------------------------------------------------------------


def slice_rows(graph: Graph, rows: Tensor, numbers: Tensor, prog: Program, name: str) -> Tensor:
    """[numbers, columns]: the rows of [rows, columns] of these numbers; zeros where there is no such row."""
    out = graph.add_variable(rows.dtype, (numbers.num_elements, rows.shape[1]), f"{name}/out")
    into = graph.add_compute_set(f"{name}/multiSlice")
    codelet = made(MultiSlice, rows.dtype, numbers.dtype)
    for tile, pieces in _placed(graph, rows):
        edges = {"base": _columns(rows, pieces), "offsets": numbers, "out": _columns(out, pieces)}
        graph.set_tile_mapping(edges["out"], tile)
        graph.set_tile_mapping(graph.add_vertex(into, codelet, edges), tile)
    prog.add(Execute(into))
    return out


def update_rows(
    graph: Graph, rows: Tensor, updates: Tensor, numbers: Tensor, scale: Any, operation: str, prog: Program, name: str
) -> None:
    """The rows of these numbers become `updates`, or are combined with them by `operation`; others are passed over."""
    into = graph.add_compute_set(f"{name}/multiUpdate{operation.capitalize()}")
    extra: dict[str, Any] = {}
    if operation:
        codelet = made(MultiUpdateOp, rows.dtype, numbers.dtype, operation)
        if not isinstance(scale, Tensor):
            scale = graph.add_constant(rows.dtype, (), scale, f"{name}/scale")
            graph.set_tile_mapping(scale, 0)
        extra["scale"] = scale
    else:
        codelet = made(MultiUpdate, rows.dtype, numbers.dtype)
    for tile, pieces in _placed(graph, rows):
        edges = {"base": _columns(rows, pieces), "updates": _columns(updates, pieces), "offsets": numbers, **extra}
        graph.set_tile_mapping(graph.add_vertex(into, codelet, edges), tile)
    prog.add(Execute(into))


def row_numbers(
    graph: Graph, offsets: Tensor, counts: Sequence[int], prog: Program, name: str, clamped: bool = False
) -> Tensor:
    """[slices]: one number for each row of `offsets` [slices, dims], in a grid of `counts` positions.

    An offset outside the grid gives a number outside it; if `clamped`, that of the nearest position.
    """
    if len(counts) == 1 and not clamped:
        return offsets[:, 0]
    terms: Any = expr.Const(0)
    inside: Any = None
    step = prod(counts)
    for number, count in enumerate(counts):
        step //= max(count, 1)
        place: Any = expr.PlaceHolder(number + 1)
        if clamped:
            terms = terms + expr.Clamp(place, 0, count - 1) * step
            continue
        within = expr.And(place >= 0, place < count)
        terms, inside = terms + place * step, within if inside is None else expr.And(inside, within)
    if not clamped:
        terms = expr.Select(terms, prod(counts), inside)
    columns = [offsets[:, number] for number in range(len(counts))]
    return fused_map(graph, terms, columns, prog, f"{name}/rowNumbers")


def spread_numbers(
    graph: Graph,
    numbers: Tensor,
    counts: Sequence[int],
    shape: Sequence[int],
    lengths: Sequence[int],
    prog: Program,
    name: str,
) -> Tensor:
    """[slices, rows of a slice]: the numbers of all rows that slices cover, from the position of each in a grid of `counts`."""
    if prod(lengths) == 1 or not counts:
        return numbers.reshape((numbers.num_elements, 1))
    total, position = prod(shape), expr.Const(0)
    terms: Any = position
    for number in range(len(counts)):  # a position in the grid of slices becomes one in the grid of rows
        below, stride = prod(counts[number + 1 :]), prod(shape[number + 1 :])
        terms = terms + expr.Rem(expr._1 / max(below, 1), max(counts[number], 1)) * stride
    inside = expr.And(expr._1 >= 0, expr._1 < prod(counts))
    corner = fused_map(graph, expr.Select(terms, total, inside), [numbers], prog, f"{name}/corners")
    within = np.asarray(np.ravel_multi_index(np.indices(lengths).reshape(len(lengths), -1), tuple(shape)))
    steps = graph.add_constant(numbers.dtype, (len(within),), within, f"{name}/within")
    graph.set_tile_mapping(steps, 0)
    whole = expr.Select(expr._1 + expr._2, total, expr._1 < total)
    return fused_map(graph, whole, [corner.expand([1]), steps], prog, f"{name}/rowNumbers")


@cache
def made(base: type[Vertex], dtype: type[DType], numbers: type[DType] = UNSIGNED_INT, operation: str = "") -> type[Vertex]:
    """`base` for rows of `dtype` and row numbers of `numbers`: popops::MultiUpdateOp<ADD,float,int>."""
    names = [operation] if operation else []
    names += [dtype.__name__.lower()] + ([] if numbers is UNSIGNED_INT else [numbers.__name__.lower()])
    attributes: dict[str, Any] = {"operation": operation} if operation else {}
    return template(base, f"popops::{base.__name__}<{','.join(names)}>", {FLOAT: dtype, UNSIGNED_INT: numbers}, **attributes)


# --- rows and columns -------------------------------------------------------------------------------------------------


def fold(x: Tensor, along: Sequence[int]) -> Tensor:
    """[slices, *shape] with the dimensions `along` of shape moved to the front of it."""
    rest = [d for d in range(x.rank - 1) if d not in along]
    return x.dim_shuffle([0, *(d + 1 for d in along), *(d + 1 for d in rest)])


def unfold(x: Tensor, along: Sequence[int], rank: int) -> Tensor:
    """The inverse of `fold`."""
    order = [*along, *(d for d in range(rank) if d not in along)]
    return x.dim_shuffle([0, *(order.index(d) + 1 for d in range(rank))])


def _rest(x: Tensor, along: Sequence[int]) -> int:
    return prod(n for d, n in enumerate(x.shape) if d not in along)


def rows_of(x: Tensor, along: Sequence[int]) -> Tensor:
    """x as [positions along those dimensions, positions in the others]."""
    rest = [d for d in range(x.rank) if d not in along]
    return x.dim_shuffle([*along, *rest]).reshape((prod(x.shape[d] for d in along), _rest(x, along)))


def windows(x: Tensor, along: Sequence[int], lengths: Sequence[int]) -> tuple[Tensor, list[int]]:
    """(x as [*positions of a slice, *lengths, *other dimensions], the numbers of positions): a view that repeats elements."""
    rest = [d for d in range(x.rank) if d not in along]
    view, counts = x.dim_shuffle([*along, *rest]), []
    for axis, length in enumerate(lengths):
        count = view.shape[2 * axis] - length + 1
        if length == 1:
            view = view.expand([2 * axis + 1])
        else:
            view = concat([view.slice(i, i + length, 2 * axis).expand([2 * axis]) for i in range(count)], 2 * axis)
        counts.append(count)
    order = [2 * i for i in range(len(lengths))] + [2 * i + 1 for i in range(len(lengths))]
    return view.dim_shuffle([*order, *range(2 * len(lengths), view.rank)]), counts


def _columns(rows: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    return concat([rows[:, begin:end] for begin, end in pieces], 1)


def _spread(graph: Graph, rows: Tensor) -> None:
    for tile, pieces in enumerate(_linear(graph, rows)):
        for begin, end in pieces:
            graph.set_tile_mapping(rows[:, begin:end], tile)


def _linear(graph: Graph, rows: Tensor) -> Mapping:
    return calc_linear_tile_mapping(graph, rows.shape[1], rows.dtype)


def _placed(graph: Graph, rows: Tensor) -> list[tuple[int, list[tuple[int, int]]]]:
    """(tile, its columns) of [rows, columns]: where they lie, if all rows of each column lie on one tile; else linearly."""
    if rows.num_elements:
        tiles = graph.tile_map().at(rows.positions() * rows.dtype.size)
        if np.all(tiles == tiles[0]) and tiles.min() >= 0:
            mapping = graph.get_tile_mapping(rows[0])
            return [(tile, pieces) for tile, pieces in enumerate(mapping) if pieces]
    return [(tile, pieces) for tile, pieces in enumerate(_linear(graph, rows)) if pieces]


# --- checks -----------------------------------------------------------------------------------------------------------


def _dims(function: str, x: Tensor, dims: Any) -> list[int]:
    good = isinstance(dims, Sequence) and not isinstance(dims, str)
    along = [x._axis(d) for d in dims] if good else []
    if not along or len(set(along)) != len(along):
        raise PoplibsError(
            f"{function}() was given the dimensions {shown(dims)}.",
            where=repr(x),
            next_step="give a list of different dimensions, as in [0].",
        )
    return along


def _sizes(function: str, x: Tensor, along: list[int], sizes: Any) -> list[int]:
    listed = isinstance(sizes, (list, tuple)) and len(sizes) == len(along) and all(is_whole(n) for n in sizes)
    if not listed or not all(1 <= n <= x.shape[d] for n, d in zip(sizes, along, strict=True)):
        lengths = ", ".join(f"{x.shape[d]:,}" for d in along)
        raise PoplibsError(
            f"{function}() was given the sizes {shown(sizes)} for dimensions of {lengths}.",
            where=repr(x),
            next_step="give a list with a size for each, from 1 to what there is.",
        )
    return [int(n) for n in sizes]


def _checked(function: str, graph: Graph, x: Tensor, offset: Tensor, dims: Any, sizes: Any) -> tuple[list[int], list[int]]:
    """(dimensions, sizes) of a slice at one offset."""
    check_base(function, graph, x)
    along = _dims(function, x, dims)
    lengths = _sizes(function, x, along, sizes)
    check_tensor(function, graph, "offset", offset, (1,))
    if offset.dtype is not UNSIGNED_INT or offset.shape[0] != len(along):
        raise PoplibsError(
            f"{function}() wants offset as {counted(len(along), 'element')} of UNSIGNED_INT, one for each dimension; it was "
            f"given {offset.shape[0]:,} of {offset.dtype.__name__}.",
            where=repr(offset),
            next_step="cast it with popops.cast, or reshape it.",
        )
    check_mapped(function, graph, "offset", offset)
    return along, lengths


def _checked_many(
    function: str, graph: Graph, x: Tensor, offsets: Tensor, dims: Any, sizes: Any
) -> tuple[list[int], list[int]]:
    """(dimensions, sizes) of slices at many offsets."""
    check_base(function, graph, x)
    along = _dims(function, x, dims)
    lengths = _sizes(function, x, along, sizes)
    check_tensor(function, graph, "offsets", offsets, (2,))
    if offsets.dtype not in OFFSETS or offsets.shape[1] != len(along):
        raise PoplibsError(
            f"{function}() wants offsets [slices, {len(along)}] of UNSIGNED_INT or INT, a number for each dimension; it was "
            f"given {offsets.shape} of {offsets.dtype.__name__}.",
            where=repr(offsets),
            next_step="for one dimension give shape (slices, 1): offsets.expand([1]).",
        )
    check_mapped(function, graph, "offsets", offsets)
    return along, lengths


def check_base(function: str, graph: Graph, x: Tensor) -> None:
    check_tensor(function, graph, "x", x)
    if issubclass(x.dtype, QUARTER):
        raise PoplibsError(
            f"{function}() does not work on {x.dtype}.",
            where=repr(x),
            next_step="slice its codes: tensor.reinterpret(UNSIGNED_CHAR).",
        )
    check_mapped(function, graph, "x", x)
