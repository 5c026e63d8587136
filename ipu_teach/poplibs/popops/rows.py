"""Helpers for slices at offsets that are known only at run time: views, vertices and checks.

A tensor is viewed as a matrix. The rows of the matrix are the positions in the sliced dimensions,
and the columns are the positions in all other dimensions. A tile works on complete columns. Tensors
of `create_sliceable_tensor` are mapped by columns; to slice them, only row numbers are exchanged.
For any other tensor, the columns are distributed linearly over the tiles, and the data is exchanged
first.
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
# A list of pairs (tile, intervals of columns): each tile works on the columns in its intervals.
Placed = list[tuple[int, list[tuple[int, int]]]]
_INTEGERS: tuple[type[DType], ...] = (
    UNSIGNED_CHAR,
    UNSIGNED_SHORT,
    UNSIGNED_INT,
    UNSIGNED_LONGLONG,
)
_BITS = {dtype.size: dtype for dtype in _INTEGERS}


class RowBlock(NamedTuple):
    """The part of a slice or update that one vertex computes: its lookups, rows and columns.

    A lookup is the index of a row that is read or updated. `lookups` is a slice of the list of all
    lookups. `rows` is an interval (begin, end), and `columns` a list of intervals.
    """

    tile: int
    rows: tuple[int, int]
    columns: list[tuple[int, int]]
    lookups: slice

    def of(self, rows: Tensor) -> Tensor:
        """Return the part of the matrix `rows` [rows, columns] that the vertex works on."""
        return columns_of(rows[self.rows[0] : self.rows[1]], self.columns)


def blocks_of(graph: Graph, rows: Tensor, plan: SlicePlan | None, lookups: int) -> list[RowBlock]:
    """Return the blocks into which `plan` divides the matrix `rows` [rows, columns].

    If `plan` is None, each block consists of some complete columns. `lookups` is the number of rows
    that are read or updated.
    """
    if plan is None:
        all_rows = (0, rows.shape[0])
        return [
            RowBlock(tile, all_rows, column_intervals, slice(None))
            for tile, column_intervals in placed(graph, rows)
        ]
    return [
        RowBlock(tile, row_range, [column_range], slice(*lookups))
        for tile, row_range, column_range, lookups in plan.blocks(lookups)
    ]


def plan_for(
    graph: Graph, rows: Tensor, lookups: int, operation: str | None = None
) -> SlicePlan | None:
    """Return a plan that is faster than blocks of whole columns, or None if there is none.

    `rows` is a matrix [rows, columns], of which `lookups` rows are read or updated at a time. If
    `operation` is None, the rows are read. Otherwise the rows are updated by `operation`; for any
    operation other than "ADD", the result is None.
    """
    target = graph.target
    dtype = rows.dtype
    if not rows.num_elements or not lookups or operation not in (None, "ADD"):
        return None
    max_columns = max(
        sum(end - begin for begin, end in column_intervals)
        for _, column_intervals in placed(graph, rows)
    )
    if operation is None:
        cycles = vertices.multi_slice(max_columns, lookups, dtype, target)
    else:
        cycles = vertices.multi_update_op(max_columns, lookups, dtype, target, scaled=True)
    plan_sizes = (*rows.shape, lookups)
    elements_held = max_columns * rows.shape[0]
    return quicker_plan(
        plan_sizes,
        dtype,
        target,
        operation is None,
        cycles=int(cycles),
        elements_held=elements_held,
    )


def slice_rows(
    graph: Graph,
    rows: Tensor,
    numbers: Tensor,
    prog: Program,
    name: str,
    plan: SlicePlan | None = None,
) -> Tensor:
    """Return a tensor [numbers, columns]: the rows of `rows` whose indices are `numbers`.

    An index that is out of range gives a row of zeros. If a plan divides the rows into parts, all
    indices are looked up in every part, and the results of the parts are added. At most one of
    these results is not zero, so their bit patterns can be added as integers, which preserves every
    value exactly.
    """
    row_parts = [(0, rows.shape[0])] if plan is None else plan.rows()
    slices = graph.add_variable(
        rows.dtype, (len(row_parts), numbers.num_elements, rows.shape[1]), f"{name}/out"
    )
    edges_by_tile = []
    for block in blocks_of(graph, rows, plan, numbers.num_elements):
        edges = {"base": block.of(rows), "offsets": numbers[block.lookups], "first": block.rows[0]}
        out = columns_of(slices[row_parts.index(block.rows)][block.lookups], block.columns)
        edges_by_tile.append((block.tile, edges | {"out": out}))
    codelet = rows_codelet(MultiSlice, rows.dtype, numbers.dtype)
    step(graph, prog, f"{name}/multiSlice", codelet, work=edges_by_tile, results=["out"])
    if len(row_parts) == 1:
        return slices[0]
    all_parts = laying.linear(graph, rows.dtype, slices.shape[1:], f"{name}/whole")
    bits_dtype = _BITS[rows.dtype.size]
    summands = slices.reshape((len(row_parts), all_parts.num_elements)).reinterpret(bits_dtype)
    reduce_rows(
        graph,
        summands,
        all_parts.flatten().reinterpret(bits_dtype),
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
    """Append a program that updates the rows of the matrix `rows` whose indices are `numbers`.

    `updates` is [numbers, columns]. If `operation` is "", the updates replace the rows. Otherwise
    the updates are multiplied by `scale`, and combined with the rows by `operation`. An update
    whose index is out of range is skipped.

    If a plan divides the indices into parts, the updates of each part are summed first, in FLOAT if
    the rows are HALF. Then the sums are added to the rows, first to last. If `is_unplanned` is
    true, the rows are not mapped as the plan assumes: they are copied to other tiles before this
    addition, and copied back afterwards.
    """
    # If the operation is not ADD, the order of the updates matters, so one vertex must apply all
    # updates of a row.
    if plan is not None and operation != "ADD":
        plan = replace(plan, lookup_parts=1)
    is_summed_first = plan is not None and plan.lookup_parts > 1
    compute_set = graph.add_compute_set(f"{name}/multiUpdate{operation.capitalize()}")
    scale_edges: dict[str, Tensor] = {}
    if operation:
        assert scale is not None
        factor = laying.scalar(graph, rows.dtype, scale, f"{name}/scale")
        sums_dtype = FLOAT if is_summed_first and rows.dtype is HALF else rows.dtype
        dtypes = {"scale": factor.dtype, "updates": updates.dtype}
        codelet = rows_codelet(MultiUpdateOp, sums_dtype, numbers.dtype, operation, **dtypes)
        scale_edges["scale"] = factor
    else:
        codelet = rows_codelet(MultiUpdate, rows.dtype, numbers.dtype)
    blocks = blocks_of(graph, rows, plan, numbers.num_elements)
    if plan is not None and is_summed_first:
        num_parts = plan.lookup_parts
        parts = graph.add_variable(sums_dtype, (num_parts, *rows.shape), f"{name}/parts")
        for block_number, block in enumerate(blocks):
            graph.set_tile_mapping(block.of(parts[block_number % num_parts]), block.tile)
        zero(graph, parts, prog, f"{name}/parts")
    for block_number, block in enumerate(blocks):
        edges = {
            "base": block.of(parts[block_number % num_parts] if is_summed_first else rows),
            "updates": columns_of(updates[block.lookups], block.columns),
            "offsets": numbers[block.lookups],
            "first": block.rows[0],
        }
        put(graph, compute_set, block.tile, codelet, edges=edges | scale_edges)
    prog.add(Execute(compute_set))
    if is_summed_first:
        matrix = parts.reshape((num_parts, rows.num_elements))
        result = flat_rows = rows.flatten()
        # Unplanned rows are copied to the tiles of the sums, and copied back after the addition.
        if is_unplanned:
            result = laying.linear(graph, rows.dtype, flat_rows.shape, f"{name}/rows")
            prog.add(Copy(flat_rows, result))
        step_name = f"{name}/multiUpdateAdd/Reduce"
        reduce_rows(graph, matrix, result, prog, operation="ADD", name=step_name, update=True)
        if is_unplanned:
            prog.add(Copy(result, flat_rows))


def row_numbers(
    graph: Graph,
    offsets: Tensor,
    counts: Sequence[int],
    prog: Program,
    name: str,
    clamped: bool = False,
) -> Tensor:
    """Return a tensor [slices]: the offset of each slice as a single index.

    `offsets` is [slices, dims]. An offset is a position in a grid of shape `counts`, whose
    positions are numbered in row-major order. An offset outside the grid gets an index that no
    position has. If `clamped` is true, such an offset gets the index of the nearest position
    instead.
    """
    if len(counts) == 1 and not clamped:
        return offsets[:, 0]
    number: expr.Expr = expr.Const(0)
    is_inside: expr.Expr | None = None
    stride = prod(counts)
    for dim, size in enumerate(counts):
        stride //= max(size, 1)
        offset = expr.PlaceHolder(dim + 1)
        if clamped:
            number = number + expr.Clamp(offset, 0, size - 1) * stride
            continue
        is_dim_inside = expr.And(offset >= 0, offset < size)
        number = number + offset * stride
        is_inside = is_dim_inside if is_inside is None else expr.And(is_inside, is_dim_inside)
    if not clamped:
        number = expr.Select(number, prod(counts), is_inside)
    columns = [offsets[:, dim] for dim in range(len(counts))]
    return fused_map(graph, number, columns, prog, debug_context=f"{name}/rowNumbers")


def spread_numbers(
    graph: Graph,
    numbers: Tensor,
    counts: Sequence[int],
    shape: Sequence[int],
    lengths: Sequence[int],
    prog: Program,
    name: str,
) -> Tensor:
    """Return a tensor [slices, rows of a slice]: the indices of the rows that each slice covers.

    `numbers` contains, for each slice, the index of its offset in the grid `counts` of all possible
    offsets, as returned by `row_numbers`. The rows are the positions in a larger grid of shape
    `shape`, numbered in row-major order. A slice covers a block of this grid, of shape `lengths`.
    """
    if prod(lengths) == 1 or not counts:
        return numbers.reshape((numbers.num_elements, 1))
    num_rows = prod(shape)
    corner_number: expr.Expr = expr.Const(0)
    # Convert the index of a slice's offset to the index of the slice's first row.
    for dim in range(len(counts)):
        positions_below = prod(counts[dim + 1 :])
        stride = prod(shape[dim + 1 :])
        corner_number = (
            corner_number
            + expr.Rem(expr._1 / max(positions_below, 1), max(counts[dim], 1)) * stride
        )
    is_inside = expr.And(expr._1 >= 0, expr._1 < prod(counts))
    corners = fused_map(
        graph,
        expr.Select(corner_number, num_rows, is_inside),
        [numbers],
        prog,
        debug_context=f"{name}/corners",
    )
    row_offsets = np.asarray(
        np.ravel_multi_index(tuple(np.indices(lengths).reshape(len(lengths), -1)), tuple(shape))
    )
    offset_tensor = graph.add_constant(
        numbers.dtype, (len(row_offsets),), row_offsets, f"{name}/within"
    )
    graph.set_tile_mapping(offset_tensor, 0)
    row_number = expr.Select(expr._1 + expr._2, num_rows, expr._1 < num_rows)
    return fused_map(
        graph,
        row_number,
        [corners.expand([1]), offset_tensor],
        prog,
        debug_context=f"{name}/rowNumbers",
    )


def rows_codelet(
    base: type[Vertex],
    dtype: type[DType],
    numbers: type[DType] = UNSIGNED_INT,
    operation: str = "",
    scale: type[DType] | None = None,
    updates: type[DType] | None = None,
) -> type[Vertex]:
    """Return the codelet `base` for rows of type `dtype` and row indices of type `numbers`.

    `scale` and `updates` are the dtypes of the factor and of the updates, by default `dtype`. The
    codelet's name is, for example, popops::MultiUpdateOp<ADD,float,int>.
    """
    name_words: list[Word] = [operation, dtype, None if numbers is UNSIGNED_INT else numbers]
    for name, operand_dtype in (("scale", scale), ("updates", updates)):
        if operand_dtype is not None and operand_dtype != dtype:
            name_words.append(f"{name}_{operand_dtype.__name__.lower()}")
    constants = {"operation": operation} if operation else {}
    dtypes = {FLOAT: dtype, UNSIGNED_INT: numbers, K: scale or dtype, U: updates or dtype}
    return typed(base, name_words, dtypes, **constants)


# --- rows and columns -----------------------------------------------------------------------------


def fold(x: Tensor, along: Sequence[int]) -> Tensor:
    """Return a view of x [slices, *shape] in which the dimensions `along` come before the others.

    `along` contains dimensions of `shape`. The dimension `slices` remains the first one.
    """
    other_dims = [d for d in range(x.rank - 1) if d not in along]
    return x.dim_shuffle([0, *(d + 1 for d in along), *(d + 1 for d in other_dims)])


def unfold(x: Tensor, along: Sequence[int], rank: int) -> Tensor:
    """Return a view of x in which the dimensions have the order that they had before `fold`.

    A slice has `rank` dimensions. `along` are the dimensions that `fold` moved to the front.
    """
    folded_dims = [*along, *(d for d in range(rank) if d not in along)]
    return x.dim_shuffle([0, *(folded_dims.index(d) + 1 for d in range(rank))])


def rest_of(x: Tensor, along: Sequence[int]) -> int:
    """Return the product of the sizes of x in all dimensions except `along`."""
    return prod(size for d, size in enumerate(x.shape) if d not in along)


def rows_of(x: Tensor, along: Sequence[int]) -> Tensor:
    """Return a view of x as a matrix whose rows are the positions in the dimensions `along`.

    Its columns are the positions in all other dimensions.
    """
    other_dims = [d for d in range(x.rank) if d not in along]
    return x.dim_shuffle([*along, *other_dims]).reshape(
        (prod(x.shape[d] for d in along), rest_of(x, along))
    )


def windows(x: Tensor, along: Sequence[int], lengths: Sequence[int]) -> tuple[Tensor, list[int]]:
    """Return `(view, counts)`: all possible slices of x, and the number of offsets per dimension.

    `view` is [slices, elements of a slice]. Its rows are the slices of x with the sizes `lengths`
    in the dimensions `along`; they overlap, so the view repeats elements. `counts` contains the
    number of possible offsets in each dimension in `along`.
    """
    other_dims = [d for d in range(x.rank) if d not in along]
    view = x.dim_shuffle([*along, *other_dims])
    num_positions = []
    for axis, length in enumerate(lengths):
        positions = view.shape[2 * axis] - length + 1
        if length == 1:
            view = view.expand([2 * axis + 1])
        else:
            view = concat(
                [view.slice(i, i + length, 2 * axis).expand([2 * axis]) for i in range(positions)],
                2 * axis,
            )
        num_positions.append(positions)
    order = [2 * i for i in range(len(lengths))] + [2 * i + 1 for i in range(len(lengths))]
    view = view.dim_shuffle([*order, *range(2 * len(lengths), view.rank)])
    return view.reshape(
        (prod(num_positions), prod(view.shape[len(num_positions) :]))
    ), num_positions


def as_slices(rows: Tensor, x: Tensor, along: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Return a view [slices, *slice shape] of `rows`, which contains the rows of several slices.

    `rows` are rows of a matrix view of x, from `windows` or `rows_of`. A slice has the sizes
    `lengths` in the dimensions `along` of x.
    """
    other_sizes = [size for d, size in enumerate(x.shape) if d not in along]
    slice_size = prod(lengths) * prod(other_sizes)
    num_slices = rows.num_elements // slice_size if slice_size else rows.shape[0]
    return unfold(rows.reshape([num_slices, *lengths, *other_sizes]), along, x.rank)


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
    """Return `(numbers, rows)`: the indices of the rows that an update changes, and the new rows.

    x is viewed as a matrix, whose rows are the positions in the dimensions `along`. `numbers`
    [slices, rows of a slice] contains the indices of the rows that the slices at `offsets` cover.
    `rows` [rows, columns] contains the rows of all slices in `updates` [slices, *slice shape].
    """
    shape = [x.shape[d] for d in along]
    num_positions = [size - length + 1 for size, length in zip(shape, lengths, strict=True)]
    numbers = row_numbers(graph, offsets, num_positions, prog, name=name)
    numbers = spread_numbers(
        graph, numbers, num_positions, shape, lengths=lengths, prog=prog, name=name
    )
    return numbers, fold(updates, along).reshape((numbers.num_elements, rest_of(x, along)))


def columns_of(rows: Tensor, pieces: Sequence[tuple[int, int]]) -> Tensor:
    """Return the columns of the matrix `rows` in the intervals `pieces`, concatenated."""
    return concat([rows[:, begin:end] for begin, end in pieces], 1)


def on_columns(
    graph: Graph, operands: dict[str, Tensor], **state: Tensor
) -> Iterator[tuple[int, Edges]]:
    """Yield a pair `(tile, edges)` for each tile that works on columns of the operands.

    `operands` maps the names of fields to matrices with equal numbers of columns. `placed` assigns
    the columns of the first operand to tiles. `edges` contains, for each tile, the tile's columns
    of every operand, and the fields in `state`.
    """
    for tile, pieces in placed(graph, next(iter(operands.values()))):
        yield tile, {field: columns_of(rows, pieces) for field, rows in operands.items()} | state


def spread(graph: Graph, rows: Tensor, places: Placed) -> None:
    """Map the columns of the matrix `rows` to the tiles that `places` assigns to them."""
    for tile, pieces in places:
        for begin, end in pieces:
            graph.set_tile_mapping(rows[:, begin:end], tile)


def linear(graph: Graph, rows: Tensor) -> Placed:
    """Return pairs (tile, intervals of columns) that distribute the columns of `rows` linearly."""
    mapping = calc_linear_tile_mapping(graph, rows.shape[1], rows.dtype)
    return [(tile, pieces) for tile, pieces in enumerate(mapping) if pieces]


def placed(graph: Graph, rows: Tensor) -> Placed:
    """Return a pair (tile, intervals of columns) for each tile that works on columns of `rows`.

    `rows` is [rows, columns]. If each column is completely on one tile, the tile works on its own
    columns. Otherwise the columns are distributed linearly over the tiles.
    """
    if rows.num_elements:
        tiles = graph.tile_map().at(rows.positions() * rows.dtype.size)
        if np.all(tiles == tiles[0]) and tiles.min() >= 0:
            return tile_pieces(graph, rows[0])
    return linear(graph, rows)


# --- checks ---------------------------------------------------------------------------------------


def dims_of(x: Tensor, dims: Sequence[int]) -> list[int]:
    """Return `dims` as non-negative dimensions of x.

    :raises PoplibsError: if there are no dimensions, or a dimension is repeated.
    :raises PoplarIndexError: if x has no such dimension.
    """
    is_sequence = isinstance(dims, Sequence) and not isinstance(dims, str)
    valid_dims = [x._axis(d) for d in dims] if is_sequence else []
    if not valid_dims or len(set(valid_dims)) != len(valid_dims):
        raise refused(
            f"was given the dimensions {shown(dims)}.",
            x,
            "give a list of different dimensions, as in [0].",
        )
    return valid_dims


def sizes_of(x: Tensor, along: list[int], sizes: Sequence[int]) -> list[int]:
    """Return `sizes` as a list of integers.

    :raises PoplibsError: unless there is a size for each dimension in `along`, from 1 to the length
        of the dimension.
    """
    is_list_valid = (
        isinstance(sizes, (list, tuple))
        and len(sizes) == len(along)
        and all(is_whole(size) for size in sizes)
    )
    if not is_list_valid or not all(
        1 <= size <= x.shape[d] for size, d in zip(sizes, along, strict=True)
    ):
        lengths = ", ".join(f"{x.shape[d]:,}" for d in along)
        raise refused(f"""was given the sizes {shown(sizes)} for dimensions of {lengths}.
            where: {x!r}
            next:  give a list with a size for each dimension, from 1 to its length.""")
    return [int(size) for size in sizes]


def sliced(x: Tensor, along: list[int], lengths: list[int]) -> Shape:
    """Return the shape of x, with the sizes `lengths` in the dimensions `along`."""
    return tuple(lengths[along.index(d)] if d in along else n for d, n in enumerate(x.shape))


def check_slice(
    x: Tensor, offset: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Check a slice of x at the offset `offset`; return `(dims, sizes)` as lists of integers.

    The dimensions in the first list are not negative.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    along, lengths = _check_sliced(x, dims, sizes)
    if offset.dtype is not UNSIGNED_INT or offset.shape[0] != len(along):
        raise refused(f"""needs an offset of {counted(len(along), "element")} of UNSIGNED_INT, but
            was given {offset.shape[0]:,} of {offset.dtype.__name__}.
            where: {offset!r}
            next:  give an element for each dimension in dims, and cast it with popops.cast.""")
    return along, lengths


def check_slices(
    x: Tensor, offsets: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    """Check slices of x at many `offsets`; return `(dims, sizes)` as lists of integers.

    The dimensions in the first list are not negative.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    along, lengths = _check_sliced(x, dims, sizes)
    if offsets.dtype not in OFFSETS or offsets.shape[1] != len(along):
        raise refused(f"""needs offsets [slices, {len(along)}] of UNSIGNED_INT or INT, but was given
            shape {offsets.shape} of {offsets.dtype.__name__}.
            where: {offsets!r}
            next:  give a number for each dimension in dims; for one dimension, write
            offsets.expand([1]).""")
    return along, lengths


def _check_sliced(
    x: Tensor, dims: Sequence[int], sizes: Sequence[int]
) -> tuple[list[int], list[int]]:
    check_base(x)
    along = dims_of(x, dims)
    return along, sizes_of(x, along, sizes)


def check_base(x: Tensor) -> None:
    """Raise `PoplibsError` if x has an 8-bit float dtype."""
    if issubclass(x.dtype, QUARTER):
        raise refused(
            f"cannot slice {x.dtype}.", x, "slice its bytes: tensor.reinterpret(UNSIGNED_CHAR)."
        )
