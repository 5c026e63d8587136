"""The common part of slices at offsets that are data: moving rows by number, views, and checks.

A tensor is viewed as rows along the sliced dimensions, and columns along all others. Every tile
works on its own columns and needs all their rows. A tensor of `create_sliceable_tensor` is mapped
that way, and slicing it exchanges only the row numbers. For any other tensor, the columns are
distributed linearly, and the rows are exchanged first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.errors import counted, shown
from ipu_teach.graph import Graph, Shape, Tensor, Vertex, concat
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs import laying
from ipu_teach.poplibs.laying import Edges, Word, put, step, typed
from ipu_teach.poplibs.library import refused
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.fills import zero
from ipu_teach.poplibs.popops.fused import map as fused_map
from ipu_teach.poplibs.popops.reductions import reduce_rows
from ipu_teach.poplibs.popops.slice_plans import SlicePlan, quicker_plan
from ipu_teach.poplibs.popops.slice_vertices import K, MultiSlice, MultiUpdate, MultiUpdateOp, U
from ipu_teach.poplibs.poputil import calc_linear_tile_mapping, tile_pieces
from ipu_teach.program import Copy, Execute, Sequence as Program
from ipu_teach.types import (
    FLOAT,
    HALF,
    INT,
    QUARTER,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
    UNSIGNED_SHORT,
    DType,
)

OFFSETS = (UNSIGNED_INT, INT)
Placed = list[tuple[int, list[tuple[int, int]]]]  # (tile, intervals of its columns)
_INTEGERS: tuple[type[DType], ...] = (
    UNSIGNED_CHAR,
    UNSIGNED_SHORT,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
)
_BITS = {dtype.size: dtype for dtype in _INTEGERS}


class RowBlock(NamedTuple):
    """The work of one vertex: its tile, rows, intervals of columns, and share of lookups."""

    tile: int
    rows: tuple[int, int]
    columns: list[tuple[int, int]]
    lookups: slice

    def of(self, rows: Tensor) -> Tensor:
        """Return the part of `rows` [rows, columns] that belongs to the block."""
        return columns_of(rows[self.rows[0] : self.rows[1]], self.columns)


def blocks_of(graph: Graph, rows: Tensor, plan: SlicePlan | None, lookups: int) -> list[RowBlock]:
    """Return all blocks of `rows` [rows, columns], as planned; without a plan, complete columns."""
    if plan is None:
        all_rows = (0, rows.shape[0])
        return [
            RowBlock(tile, all_rows, pieces, slice(None)) for tile, pieces in placed(graph, rows)
        ]
    return [
        RowBlock(tile, cut, [columns], slice(*lookups))
        for tile, cut, columns, lookups in plan.blocks(lookups)
    ]


def plan_for(
    graph: Graph, rows: Tensor, lookups: int, operation: str | None = None
) -> SlicePlan | None:
    """Return the fastest plan for `rows` [rows, columns] with their mapping.

    It is for a slice, or for an update by `operation`. None means that no plan is faster than
    working on complete columns, each on its tile.
    """
    target = graph.target
    dtype = rows.dtype
    if not rows.num_elements or not lookups or operation not in (None, "ADD"):
        return None
    wide = max(sum(end - begin for begin, end in pieces) for _, pieces in placed(graph, rows))
    if operation is None:
        cycles = vertices.multi_slice(wide, lookups, dtype, target)
    else:
        cycles = vertices.multi_update_op(wide, lookups, dtype, target, scaled=True)
    sizes = (*rows.shape, lookups)
    elements_held = wide * rows.shape[0]
    return quicker_plan(
        sizes, dtype, target, operation is None, cycles=int(cycles), elements_held=elements_held
    )


def slice_rows(
    graph: Graph,
    rows: Tensor,
    numbers: Tensor,
    prog: Program,
    name: str,
    plan: SlicePlan | None = None,
) -> Tensor:
    """Return [numbers, columns]: the rows of `rows` [rows, columns] with these numbers.

    A number without a row gives zeros. If a plan divides the rows, each part looks up all numbers,
    and the results are added as integers, bit by bit: all but one of them are zero.
    """
    parts = [(0, rows.shape[0])] if plan is None else plan.rows()
    slices = graph.add_variable(
        rows.dtype, (len(parts), numbers.num_elements, rows.shape[1]), f"{name}/out"
    )
    work = []
    for block in blocks_of(graph, rows, plan, numbers.num_elements):
        edges = {"base": block.of(rows), "offsets": numbers[block.lookups], "first": block.rows[0]}
        out = columns_of(slices[parts.index(block.rows)][block.lookups], block.columns)
        work.append((block.tile, edges | {"out": out}))
    codelet = rows_codelet(MultiSlice, rows.dtype, numbers.dtype)
    step(graph, prog, f"{name}/multiSlice", codelet, work=work, results=["out"])
    if len(parts) == 1:
        return slices[0]
    all_parts = laying.linear(graph, rows.dtype, slices.shape[1:], f"{name}/whole")
    bits = _BITS[rows.dtype.size]
    summands = slices.reshape((len(parts), all_parts.num_elements)).reinterpret(bits)
    reduce_rows(
        graph,
        summands,
        all_parts.flatten().reinterpret(bits),
        prog,
        operation="ADD",
        name=f"{name}/multiSlice/Reduce",
    )
    return all_parts


def update_rows(
    graph: Graph,
    rows: Tensor,
    updates: Tensor,
    numbers: Tensor,
    scale: Tensor | float | None,
    operation: str,
    prog: Program,
    name: str,
    plan: SlicePlan | None = None,
    is_unplanned: bool = False,
) -> None:
    """Replace the rows with these numbers by `updates`, or combine them by `operation`.

    An `operation` of "" replaces. Numbers without a row are skipped. If a plan divides the numbers,
    each part is summed first, in FLOAT for HALF, and then the sums are added to the rows, from
    first to last. With `is_unplanned`, the rows are not mapped by the plan, and are moved there and
    back.
    """
    # if the last update counts, the numbers cannot be divided
    if plan is not None and operation != "ADD":
        plan = replace(plan, lookup_parts=1)
    cut = plan is not None and plan.lookup_parts > 1
    into = graph.add_compute_set(f"{name}/multiUpdate{operation.capitalize()}")
    extra: dict[str, Tensor] = {}
    if operation:
        assert scale is not None
        factor = laying.scalar(graph, rows.dtype, scale, f"{name}/scale")
        carried = FLOAT if cut and rows.dtype is HALF else rows.dtype
        dtypes = {"scale": factor.dtype, "updates": updates.dtype}
        codelet = rows_codelet(MultiUpdateOp, carried, numbers.dtype, operation, **dtypes)
        extra["scale"] = factor
    else:
        codelet = rows_codelet(MultiUpdate, rows.dtype, numbers.dtype)
    blocks = blocks_of(graph, rows, plan, numbers.num_elements)
    if plan is not None and cut:
        many = plan.lookup_parts
        parts = graph.add_variable(carried, (many, *rows.shape), f"{name}/parts")
        for number, block in enumerate(blocks):
            graph.set_tile_mapping(block.of(parts[number % many]), block.tile)
        zero(graph, parts, prog, f"{name}/parts")
    for number, block in enumerate(blocks):
        edges = {
            "base": block.of(parts[number % many] if cut else rows),
            "updates": columns_of(updates[block.lookups], block.columns),
            "offsets": numbers[block.lookups],
            "first": block.rows[0],
        }
        put(graph, into, block.tile, codelet, edges=edges | extra)
    prog.add(Execute(into))
    if cut:
        matrix = parts.reshape((many, rows.num_elements))
        near = flat = rows.flatten()
        if is_unplanned:  # the rows are moved to the tiles of the sums, and back
            near = laying.linear(graph, rows.dtype, flat.shape, f"{name}/rows")
            prog.add(Copy(flat, near))
        step = f"{name}/multiUpdateAdd/Reduce"
        reduce_rows(graph, matrix, near, prog, operation="ADD", name=step, update=True)
        if is_unplanned:
            prog.add(Copy(near, flat))


def row_numbers(
    graph: Graph,
    offsets: Tensor,
    counts: Sequence[int],
    prog: Program,
    name: str,
    clamped: bool = False,
) -> Tensor:
    """Return [slices]: the number in a grid of `counts` positions of each row of `offsets`.

    `offsets` are [slices, dims]. An offset outside the grid gives a number outside it, or that of
    the nearest position if `clamped`.
    """
    if len(counts) == 1 and not clamped:
        return offsets[:, 0]
    terms: expr.Expr = expr.Const(0)
    inside: expr.Expr | None = None
    step = prod(counts)
    for number, count in enumerate(counts):
        step //= max(count, 1)
        place = expr.PlaceHolder(number + 1)
        if clamped:
            terms = terms + expr.Clamp(place, 0, count - 1) * step
            continue
        within = expr.And(place >= 0, place < count)
        terms = terms + place * step
        inside = within if inside is None else expr.And(inside, within)
    if not clamped:
        terms = expr.Select(terms, prod(counts), inside)
    columns = [offsets[:, number] for number in range(len(counts))]
    return fused_map(graph, terms, columns, prog, debug_context=f"{name}/rowNumbers")


def spread_numbers(
    graph: Graph,
    numbers: Tensor,
    counts: Sequence[int],
    shape: Sequence[int],
    lengths: Sequence[int],
    prog: Program,
    name: str,
) -> Tensor:
    """Return [slices, rows of a slice]: the numbers of all rows that slices cover.

    `numbers` are the positions of the slices in a grid of `counts` positions. The rows are in a
    grid of the shape `shape`, of which a slice covers `lengths`.
    """
    if prod(lengths) == 1 or not counts:
        return numbers.reshape((numbers.num_elements, 1))
    total = prod(shape)
    terms: expr.Expr = expr.Const(0)
    # convert a position in the grid of slices to one in the grid of rows
    for number in range(len(counts)):
        below = prod(counts[number + 1 :])
        stride = prod(shape[number + 1 :])
        terms = terms + expr.Rem(expr._1 / max(below, 1), max(counts[number], 1)) * stride
    inside = expr.And(expr._1 >= 0, expr._1 < prod(counts))
    corner = fused_map(
        graph, expr.Select(terms, total, inside), [numbers], prog, debug_context=f"{name}/corners"
    )
    within = np.asarray(
        np.ravel_multi_index(tuple(np.indices(lengths).reshape(len(lengths), -1)), tuple(shape))
    )
    steps = graph.add_constant(numbers.dtype, (len(within),), within, f"{name}/within")
    graph.set_tile_mapping(steps, 0)
    wrapped = expr.Select(expr._1 + expr._2, total, expr._1 < total)
    return fused_map(
        graph, wrapped, [corner.expand([1]), steps], prog, debug_context=f"{name}/rowNumbers"
    )


def rows_codelet(
    base: type[Vertex],
    dtype: type[DType],
    numbers: type[DType] = UNSIGNED_INT,
    operation: str = "",
    scale: type[DType] | None = None,
    updates: type[DType] | None = None,
) -> type[Vertex]:
    """Return `base` for rows of `dtype`, row numbers of dtype `numbers`, a factor and updates.

    `scale` and `updates` are their dtypes, by default `dtype`. The class is named like
    popops::MultiUpdateOp<ADD,float,int>.
    """
    words: list[Word] = [operation, dtype, None if numbers is UNSIGNED_INT else numbers]
    for name, operand in (("scale", scale), ("updates", updates)):
        if operand is not None and operand != dtype:
            words.append(f"{name}_{operand.__name__.lower()}")
    fixed = {"operation": operation} if operation else {}
    dtypes = {FLOAT: dtype, UNSIGNED_INT: numbers, K: scale or dtype, U: updates or dtype}
    return typed(base, words, dtypes, **fixed)


# --- rows and columns -----------------------------------------------------------------------------


def fold(x: Tensor, along: Sequence[int]) -> Tensor:
    """Return x [slices, *shape] with the dimensions `along` of shape moved before its others."""
    rest = [d for d in range(x.rank - 1) if d not in along]
    return x.dim_shuffle([0, *(d + 1 for d in along), *(d + 1 for d in rest)])


def unfold(x: Tensor, along: Sequence[int], rank: int) -> Tensor:
    """Return the inverse of `fold`, for a shape of `rank` dimensions."""
    order = [*along, *(d for d in range(rank) if d not in along)]
    return x.dim_shuffle([0, *(order.index(d) + 1 for d in range(rank))])


def rest_of(x: Tensor, along: Sequence[int]) -> int:
    """Return the number of elements of x along all dimensions except `along`."""
    return prod(n for d, n in enumerate(x.shape) if d not in along)


def rows_of(x: Tensor, along: Sequence[int]) -> Tensor:
    """Return x as [positions along the dimensions `along`, positions along the others]."""
    rest = [d for d in range(x.rank) if d not in along]
    return x.dim_shuffle([*along, *rest]).reshape(
        (prod(x.shape[d] for d in along), rest_of(x, along))
    )


def windows(x: Tensor, along: Sequence[int], lengths: Sequence[int]) -> tuple[Tensor, list[int]]:
    """Return (x as [slices, elements of a slice], number of positions in each dimension `along`).

    Every possible slice with `lengths` in `along` is a row. The view repeats elements.
    """
    rest = [d for d in range(x.rank) if d not in along]
    view = x.dim_shuffle([*along, *rest])
    counts = []
    for axis, length in enumerate(lengths):
        count = view.shape[2 * axis] - length + 1
        if length == 1:
            view = view.expand([2 * axis + 1])
        else:
            view = concat(
                [view.slice(i, i + length, 2 * axis).expand([2 * axis]) for i in range(count)],
                2 * axis,
            )
        counts.append(count)
    order = [2 * i for i in range(len(lengths))] + [2 * i + 1 for i in range(len(lengths))]
    view = view.dim_shuffle([*order, *range(2 * len(lengths), view.rank)])
    return view.reshape((prod(counts), prod(view.shape[len(counts) :]))), counts


def as_slices(rows: Tensor, x: Tensor, along: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Return rows of `windows`, or all rows of several slices, as [slices, *shape of a slice]."""
    rest = [n for d, n in enumerate(x.shape) if d not in along]
    slice_size = prod(lengths) * prod(rest)
    count = rows.num_elements // slice_size if slice_size else rows.shape[0]
    return unfold(rows.reshape([count, *lengths, *rest]), along, x.rank)


def aimed(
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Tensor,
    along: Sequence[int],
    lengths: Sequence[int],
    prog: Program,
    name: str,
) -> tuple[Tensor, Tensor]:
    """Return ([slices, rows of each], [all rows, columns]): row numbers and rows of an update.

    The numbers are those of the rows of x that slices at `offsets` cover, and the rows are those of
    `updates` [slices, *shape of a slice].
    """
    shape = [x.shape[d] for d in along]
    counts = [n - length + 1 for n, length in zip(shape, lengths, strict=True)]
    numbers = row_numbers(graph, offsets, counts, prog, name=name)
    numbers = spread_numbers(graph, numbers, counts, shape, lengths=lengths, prog=prog, name=name)
    return numbers, fold(updates, along).reshape((numbers.num_elements, rest_of(x, along)))


def columns_of(rows: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    """Return the columns of `rows` in all intervals `pieces`, concatenated."""
    return concat([rows[:, begin:end] for begin, end in pieces], 1)


def on_columns(
    graph: Graph, operands: dict[str, Tensor], **state: Tensor
) -> Iterator[tuple[int, Edges]]:
    """Yield (tile, edges): the columns of all operands that `placed` assigns to the tile.

    The columns are those of the first operand. `state` is added to the edges of each.
    """
    for tile, pieces in placed(graph, next(iter(operands.values()))):
        yield tile, {field: columns_of(rows, pieces) for field, rows in operands.items()} | state


def spread(graph: Graph, rows: Tensor, places: Placed) -> None:
    """Map columns of `rows` to the tiles in `places`."""
    for tile, pieces in places:
        for begin, end in pieces:
            graph.set_tile_mapping(rows[:, begin:end], tile)


def linear(graph: Graph, rows: Tensor) -> Placed:
    """Return a linear mapping of the columns of `rows`."""
    mapping = calc_linear_tile_mapping(graph, rows.shape[1], rows.dtype)
    return [(tile, pieces) for tile, pieces in enumerate(mapping) if pieces]


def placed(graph: Graph, rows: Tensor) -> Placed:
    """Return (tile, intervals of its columns) for `rows` [rows, columns].

    If all rows of each column are on one tile, these are the tiles; otherwise it is a linear
    mapping.
    """
    if rows.num_elements:
        tiles = graph.tile_map().at(rows.positions() * rows.dtype.size)
        if np.all(tiles == tiles[0]) and tiles.min() >= 0:
            return tile_pieces(graph, rows[0])
    return linear(graph, rows)


# --- checks ---------------------------------------------------------------------------------------


def dims_of(x: Tensor, dims: Sequence[int]) -> list[int]:
    """Return `dims` as non-negative dimensions of x.

    Raises `PoplibsError` unless they are different.
    """
    good = isinstance(dims, Sequence) and not isinstance(dims, str)
    along = [x._axis(d) for d in dims] if good else []
    if not along or len(set(along)) != len(along):
        raise refused(
            f"was given the dimensions {shown(dims)}.",
            x,
            "give a list of different dimensions, as in [0].",
        )
    return along


def sizes_of(x: Tensor, along: list[int], sizes: Sequence[int]) -> list[int]:
    """Return `sizes` as integers.

    Raises `PoplibsError` unless they fit the dimensions `along` of x.
    """
    listed = (
        isinstance(sizes, (list, tuple))
        and len(sizes) == len(along)
        and all(is_whole(n) for n in sizes)
    )
    if not listed or not all(1 <= n <= x.shape[d] for n, d in zip(sizes, along, strict=True)):
        lengths = ", ".join(f"{x.shape[d]:,}" for d in along)
        raise refused(f"""was given the sizes {shown(sizes)} for dimensions of {lengths}.
            where: {x!r}
            next:  give a list with a size for each, from 1 to its length.""")
    return [int(n) for n in sizes]


def sliced(x: Tensor, along: list[int], lengths: list[int]) -> Shape:
    """Return the shape of x with `lengths` in the dimensions `along`."""
    return tuple(lengths[along.index(d)] if d in along else n for d, n in enumerate(x.shape))


def check_slice(
    x: Tensor, offset: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return (dimensions, sizes) of a slice of x at one `offset`. Raises `PoplibsError`."""
    along, lengths = _check_sliced(x, dims, sizes)
    if offset.dtype is not UNSIGNED_INT or offset.shape[0] != len(along):
        raise refused(f"""needs offset as {counted(len(along), "element")} of UNSIGNED_INT, one for
            each dimension; it was given {offset.shape[0]:,} of {offset.dtype.__name__}.
            where: {offset!r}
            next:  cast it with popops.cast, or reshape it.""")
    return along, lengths


def check_slices(
    x: Tensor, offsets: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Return (dimensions, sizes) of slices of x at many `offsets`. Raises `PoplibsError`."""
    along, lengths = _check_sliced(x, dims, sizes)
    if offsets.dtype not in OFFSETS or offsets.shape[1] != len(along):
        raise refused(f"""needs offsets [slices, {len(along)}] of UNSIGNED_INT or INT, a number for
            each dimension; it was given {offsets.shape} of {offsets.dtype.__name__}.
            where: {offsets!r}
            next:  for one dimension give shape (slices, 1): offsets.expand([1]).""")
    return along, lengths


def _check_sliced(
    x: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    check_base(x)
    along = dims_of(x, dims)
    return along, sizes_of(x, along, sizes)


def check_base(x: Tensor) -> None:
    """Raise `PoplibsError` if x consists of 8-bit floats."""
    if issubclass(x.dtype, QUARTER):
        raise refused(
            f"does not work on {x.dtype}.", x, "slice its codes: tensor.reinterpret(UNSIGNED_CHAR)."
        )
