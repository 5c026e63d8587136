"""`gather` and `scatter` with XLA's dimension numbers, and the selection of one element per row.

Both work on the rows of views: `gather` reads rows of a view in which every possible slice is a
row, and `scatter` writes rows of the operand, with a row number for each row of an update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ipu_teach.errors import PoplibsError, shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.laying import beside
from ipu_teach.poplibs.library import OWN, Matrix, Row, as_given, check_same, library, refused
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.dynamic import dynamic_slice
from ipu_teach.poplibs.popops.fills import MASKED_LABEL_CODE
from ipu_teach.poplibs.popops.fused import map as fused_map, map_in_place
from ipu_teach.poplibs.popops.loops import counted_loop
from ipu_teach.poplibs.popops.operands import check_takes
from ipu_teach.poplibs.popops.operations import UNARY
from ipu_teach.poplibs.popops.reductions import reduce
from ipu_teach.poplibs.popops.rows import (
    aimed,
    as_slices,
    check_base,
    fold,
    row_numbers,
    rows_of,
    slice_rows,
    sliced,
    update_rows,
    windows,
)
from ipu_teach.program import Sequence as Program
from ipu_teach.types import INT, UNSIGNED_INT

__all__ = ["gather", "scatter", "select_scalar_from_rows", "update_scalar_in_rows"]

UpdateComputation = Callable[[Graph, Tensor, Tensor, Program], Tensor]


@library
def gather(
    graph: Graph,
    x: Tensor,
    indices: Tensor,
    index_vector_dim: int,
    offset_dims: Sequence[int],
    slice_sizes: Sequence[int],
    collapsed_slice_dims: Sequence[int],
    start_index_map: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return the slices of x with the sizes `slice_sizes` that begin at `indices`: XLA's gather.

    `indices` (INT or UNSIGNED_INT) has in its dimension `index_vector_dim` the starts in the
    dimensions `start_index_map` of x; if that dimension is its rank, each number is a start. A
    start from which the slice would leave x is moved to the nearest one that fits. The result has
    the other dimensions of `indices`, and at `offset_dims` those of a slice without
    `collapsed_slice_dims`, which have size 1. It costs a compute set for the row numbers, and one
    for the rows.
    """
    check_base(x)
    along = _axes("start_index_map", start_index_map, x.rank)
    batch, numbers = _index_rows(indices, index_vector_dim, len(along))
    collapsed = _axes("collapsed_slice_dims", collapsed_slice_dims, x.rank)
    sizes = _check_sizes(x, slice_sizes, collapsed)
    window = [d for d in range(x.rank) if d not in collapsed]
    rank = len(batch) + len(window)
    places = _axes("offset_dims", offset_dims, rank, len(window))
    for dim, size in enumerate(sizes):
        if dim not in along:
            x = x.slice(0, size, dim)
    lengths = [sizes[d] for d in along]
    rows, counts = windows(x, along, lengths)
    if along:
        chosen = row_numbers(graph, numbers, counts, prog, name=debug_context, clamped=True)
        out = slice_rows(graph, rows, chosen, prog, name=debug_context)
    else:
        out = rows.broadcast(numbers.shape[0], 0)
    out = as_slices(out, x, along, lengths).reshape([*batch, *(sizes[d] for d in window)])
    batch_dims = iter(range(len(batch)))
    inside = iter(range(len(batch), rank))
    return out.dim_shuffle([next(inside) if d in places else next(batch_dims) for d in range(rank)])


@library
def scatter(
    graph: Graph,
    x: Tensor,
    indices: Tensor,
    updates: Tensor,
    index_vector_dim: int,
    update_window_dims: Sequence[int],
    inserted_window_dims: Sequence[int],
    scatter_dims_to_operand_dims: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
    update_computation: UpdateComputation | None = None,
) -> None:
    """Replace the slices of x that begin at `indices` by those of `updates`: XLA's scatter.

    `updates` has the dimensions of `indices` without `index_vector_dim`, and at
    `update_window_dims` those of a slice without `inserted_window_dims`, which have size 1. The
    starts are in the dimensions `scatter_dims_to_operand_dims` of x, and are 0 in the others.
    Slices are written in order. A slice that is partly outside x is skipped.

    `update_computation(graph, old, new, prog)` computes a slice from its old value and its update,
    both without the dimensions of `indices`: it appends to prog, and returns a tensor of their
    shape and dtype. It is called once; a loop then applies its program to one slice after another.
    """
    check_base(x)
    along = _axes("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims, x.rank)
    if not along:
        raise refused(f"""was given no scatter_dims_to_operand_dims.
            where: {x!r}
            next:  name the dimensions of x that the indices count; to write one fixed place use a
            Copy.""")
    batch, numbers = _index_rows(indices, index_vector_dim, len(along))
    inserted = _axes("inserted_window_dims", inserted_window_dims, x.rank)
    window = [d for d in range(x.rank) if d not in inserted]
    places = _axes("update_window_dims", update_window_dims, updates.rank, len(window))
    around = [d for d in range(updates.rank) if d not in places]
    _check_updates(x, updates, batch, around)
    sizes = _slice_shape(x, updates, list(zip(places, window, strict=True)))
    for dim, size in enumerate(sizes):
        if dim not in along:
            x = x.slice(0, size, dim)
    lengths = [sizes[d] for d in along]
    new = updates.dim_shuffle([*around, *places]).reshape([numbers.shape[0], *sizes])
    chosen, rows = aimed(
        graph, x, new, numbers, along=along, lengths=lengths, prog=prog, name=debug_context
    )
    if update_computation is None:
        base = rows_of(x, along)
        flat = chosen.flatten()
        update_rows(
            graph, base, rows, flat, scale=None, operation="", prog=prog, name=debug_context
        )
        return
    inside = _Window(x, along, lengths, [sizes[d] for d in window])
    _one_by_one(
        graph, inside, chosen, rows, computation=update_computation, prog=prog, name=debug_context
    )


def _check_updates(x: Tensor, updates: Tensor, batch: tuple[int, ...], around: list[int]) -> None:
    """Raise `PoplibsError` unless `updates` have the dtype of x, and `batch` sizes in `around`."""
    where = f"x {x!r} and updates {updates!r}"
    advice = "updates has the dimensions of indices without index_vector_dim, and the window's."
    batch_shape = tuple(updates.shape[d] for d in around)
    check_same("shapes", batch, batch_shape, where, advice=advice)
    advice = "cast one of them with popops.cast."
    check_same("dtypes", x.dtype, updates.dtype, where, advice=advice)


def _slice_shape(x: Tensor, updates: Tensor, dims: list[tuple[int, int]]) -> list[int]:
    """Return the size of an update's slices in each dimension of x.

    `dims` are (dimension of `updates`, dimension of x); the size is 1 in all others. Raises
    `PoplibsError` if slices are larger than x.
    """
    sizes = [1] * x.rank
    for place, dim in dims:
        sizes[dim] = updates.shape[place]
    if any(size > length for size, length in zip(sizes, x.shape, strict=True)):
        raise refused(
            f"was given updates whose slices have shape {tuple(sizes)}; x has {x.shape}.",
            f"x {x!r} and updates {updates!r}",
            "give slices that are not larger than x.",
        )
    return sizes


@dataclass(frozen=True)
class _Window:
    """Slices of x with the sizes `lengths` in the dimensions `along`, complete in the others.

    `shape` is that of a slice without the dimensions of size 1.
    """

    x: Tensor
    along: list[int]
    lengths: list[int]
    shape: list[int]

    @property
    def sizes(self) -> list[int]:
        """The shape of a slice, with all dimensions of x."""
        return list(sliced(self.x, self.along, self.lengths))

    def slice(self, rows: Tensor) -> Tensor:
        """Return a slice for its `rows`."""
        return as_slices(rows, self.x, self.along, self.lengths).reshape(self.shape)

    def rows(self, part: Tensor) -> Tensor:
        """Return the rows of a slice."""
        return fold(part.reshape([1, *self.sizes]), self.along).reshape(
            (prod(self.lengths), part.num_elements // prod(self.lengths))
        )


def _one_by_one(
    graph: Graph,
    window: _Window,
    numbers: Tensor,
    rows: Tensor,
    computation: UpdateComputation,
    prog: Program,
    name: str,
) -> None:
    """Append a loop that reads each slice, computes its new value, and writes it."""
    slices = numbers.shape[0]
    if not slices or not rows.num_elements:
        return
    window_size = prod(window.lengths)
    updates = rows.reshape((slices, window_size * rows.shape[1]))

    def iteration(counter: Tensor) -> Program:
        body = Program()
        at = counter.reinterpret(UNSIGNED_INT).expand([0])
        number = dynamic_slice(
            graph, numbers, at, [0], sizes=[1], prog=body, debug_context=f"{name}/numbers"
        ).flatten()
        new = dynamic_slice(
            graph, updates, at, [0], sizes=[1], prog=body, debug_context=f"{name}/updates"
        ).reshape((window_size, rows.shape[1]))
        old = slice_rows(graph, rows_of(window.x, window.along), number, body, name=f"{name}/old")
        result = computation(graph, window.slice(old), window.slice(new), body)
        if (
            not isinstance(result, Tensor)
            or list(result.shape) != window.shape
            or result.dtype is not window.x.dtype
        ):
            raise PoplibsError(f"""The update_computation of scatter() returned {shown(result)}.
                next:  return a tensor of {window.x.dtype.__name__} of shape
                {tuple(window.shape)}.""")
        update_rows(
            graph,
            rows_of(window.x, window.along),
            window.rows(result),
            number,
            scale=None,
            operation="",
            prog=body,
            name=name,
        )
        return body

    prog.add(counted_loop(graph, 0, slices, 1, body=iteration, debug_context=name))


@library
def select_scalar_from_rows(
    graph: Graph, x: Matrix, indices: Row, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return [rows]: the element in column indices[i] of each row i of x [rows, columns].

    `indices` [rows] are UNSIGNED_INT; x is FLOAT or HALF. An index beyond the last column gives
    NaN, and `MASKED_LABEL_CODE` gives 0. One compute set selects, and a reduction follows. PopLibs'
    SelectFromInterval reads only the selected elements, and is cheaper if a row is on one tile.
    """
    _check_rows(x, indices)
    numbers = np.arange(x.shape[1])
    columns = beside(graph, x, UNSIGNED_INT, numbers, name=f"{debug_context}/columns")
    last = max(x.shape[1] - 1, 0)
    named = expr._2 == expr._3
    wrong = expr.And(expr.And(expr._2 > last, expr._2 != MASKED_LABEL_CODE), expr._3 == 0)
    selected = expr.Select(expr._1, expr.Select(float("nan"), 0.0, wrong), named)
    single = fused_map(
        graph,
        selected,
        [x, indices.expand([1]), columns],
        prog,
        debug_context=f"{debug_context}/named",
    )
    return reduce(graph, single, [1], prog, operation="ADD", debug_context=debug_context)


@library
def update_scalar_in_rows(
    graph: Graph, x: Matrix, indices: Row, prog: Program, debug_context: str = OWN
) -> None:
    """Subtract 1 from the element in column indices[i] of each row i of x [rows, columns].

    `indices` [rows] are UNSIGNED_INT. This is the gradient of a softmax with cross-entropy. An
    index beyond the last column changes nothing. There is one compute set, a fused expression of
    every element; PopLibs' UpdateIntervalDEC reads only the indexed elements.
    """
    _check_rows(x, indices)
    numbers = np.arange(x.shape[1])
    columns = beside(graph, x, UNSIGNED_INT, numbers, name=f"{debug_context}/columns")
    less = expr.Select(expr._1 - 1.0, expr._1, expr._2 == expr._3)
    map_in_place(graph, less, [x, indices.expand([1]), columns], prog, debug_context=debug_context)


def _check_rows(x: Tensor, indices: Tensor) -> None:
    check_takes("x", x, UNARY["IS_NAN"])
    if indices.dtype is not UNSIGNED_INT or indices.shape[0] != x.shape[0]:
        raise refused(f"""needs indices as {x.shape[0]:,} column numbers (UNSIGNED_INT); it was
            given {indices.shape[0]:,} of {indices.dtype.__name__}.
            where: {indices!r}
            next:  give one for each row; cast them with popops.cast.""")


def _index_rows(indices: Tensor, dim: int, count: int) -> tuple[tuple[int, ...], Tensor]:
    """Return (sizes of the batch dimensions, the indices as [slices, dims])."""
    if indices.dtype not in (INT, UNSIGNED_INT):
        raise refused(f"""works on indices of INT and UNSIGNED_INT; they are
            {indices.dtype.__name__}.
            where: {indices!r}
            next:  cast them with popops.cast.""")
    if not is_whole(dim) or not 0 <= dim <= indices.rank:
        raise refused(f"""was given {shown(dim)} as index_vector_dim.
            where: {indices!r}
            next:  give a dimension of indices, or {indices.rank} where each number stands
            alone.""")
    index_rows = indices.expand([indices.rank]) if dim == indices.rank else indices
    if index_rows.shape[dim] != count:
        raise refused(f"""was given {index_rows.shape[dim]:,} numbers for an index of
            {count} dimensions.
            where: {indices!r}
            next:  name as many dimensions of x as an index has numbers.""")
    order = [d for d in range(index_rows.rank) if d != dim]
    batch = tuple(index_rows.shape[d] for d in order)
    return batch, index_rows.dim_shuffle([*order, int(dim)]).reshape((prod(batch), count))


def _axes(name: str, argument: Sequence[int], rank: int, count: int | None = None) -> list[int]:
    good = isinstance(argument, (list, tuple)) and all(
        is_whole(d) and 0 <= d < rank for d in argument
    )
    if (
        not good
        or len(set(argument)) != len(argument)
        or (count is not None and len(argument) != count)
    ):
        many = "" if count is None else f"{count} "
        raise as_given(
            argument, name, f"give a list of {many}different dimensions, from 0 to {rank - 1}."
        )
    return [int(d) for d in argument]


def _check_sizes(x: Tensor, sizes: Sequence[int], collapsed: list[int]) -> list[int]:
    good = (
        isinstance(sizes, (list, tuple))
        and len(sizes) == x.rank
        and all(is_whole(n) for n in sizes)
    )
    if (
        not good
        or not all(1 <= n <= m for n, m in zip(sizes, x.shape, strict=True))
        or any(sizes[d] != 1 for d in collapsed)
    ):
        raise refused(f"""was given {shown(sizes)} as slice_sizes.
            where: {x!r}
            next:  give a size for each dimension of x, from 1 to its length, and 1
            for those in collapsed_slice_dims.""")
    return [int(n) for n in sizes]
