"""`gather` and `scatter` with XLA's dimension numbers, and the selection of one element per row.

`gather` views its operand as a matrix with a row for each possible slice, and reads rows. `scatter`
views its operand as a matrix with a row for each position in the indexed dimensions, and writes
rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ipu_teach.errors import PoplibsError, counted, shown
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
    """Return the slices of x with the sizes `slice_sizes` that begin at `indices`, as XLA's gather.

    Each vector of `indices` along its dimension `index_vector_dim` is the start of a slice. Element
    i of the vector is the start in dimension `start_index_map[i]` of x. In the other dimensions of
    x, slices start at 0. If `index_vector_dim` is the rank of `indices`, each number in `indices`
    is the start of a slice. If a slice would reach beyond x, its start is moved to the nearest
    start that fits. `indices` is INT or UNSIGNED_INT.

    `offset_dims` are the dimensions of the result that are dimensions of a slice. The dimensions
    `collapsed_slice_dims` of x, in which a slice has the size 1, do not occur in the result. The
    other dimensions of the result are those of `indices` without `index_vector_dim`. One compute
    set computes the numbers of the slices, and another one reads the slices.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    check_base(x)
    indexed_dims = _axes("start_index_map", start_index_map, x.rank)
    batch_shape, index_rows = _index_rows(indices, index_vector_dim, len(indexed_dims))
    collapsed_dims = _axes("collapsed_slice_dims", collapsed_slice_dims, x.rank)
    slice_shape = _check_sizes(x, slice_sizes, collapsed_dims)
    window_dims = [d for d in range(x.rank) if d not in collapsed_dims]
    result_rank = len(batch_shape) + len(window_dims)
    window_places = _axes("offset_dims", offset_dims, result_rank, len(window_dims))
    x = _limited(x, slice_shape, indexed_dims)
    indexed_lengths = [slice_shape[d] for d in indexed_dims]
    possible_slices, num_positions = windows(x, indexed_dims, indexed_lengths)
    if indexed_dims:
        slice_numbers = row_numbers(
            graph, index_rows, num_positions, prog, name=debug_context, clamped=True
        )
        out = slice_rows(graph, possible_slices, slice_numbers, prog, name=debug_context)
    else:
        out = possible_slices.broadcast(index_rows.shape[0], 0)
    out = as_slices(out, x, indexed_dims, indexed_lengths).reshape(
        [*batch_shape, *(slice_shape[d] for d in window_dims)]
    )
    batch_axes = iter(range(len(batch_shape)))
    window_axes = iter(range(len(batch_shape), result_rank))
    return out.dim_shuffle(
        [next(window_axes) if d in window_places else next(batch_axes) for d in range(result_rank)]
    )


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
    """Replace the slices of x that begin at `indices` by the slices in `updates`, as XLA's scatter.

    Each vector of `indices` along its dimension `index_vector_dim` is the start of a slice. Element
    i of the vector is the start in dimension `scatter_dims_to_operand_dims[i]` of x. In the other
    dimensions of x, slices start at 0. Slices are written in order. A slice that is partly outside
    x is skipped.

    `update_window_dims` are the dimensions of `updates` that are dimensions of a slice. The
    dimensions `inserted_window_dims` of x, in which a slice has the size 1, do not occur in
    `updates`. The other dimensions of `updates` are those of `indices` without `index_vector_dim`.

    `update_computation(graph, old, new, prog)` computes the new value of a slice from its old value
    and its update. It appends to `prog`, and returns a tensor of the same shape and dtype. It is
    called once; a loop then executes its program for each slice.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    check_base(x)
    indexed_dims = _axes("scatter_dims_to_operand_dims", scatter_dims_to_operand_dims, x.rank)
    if not indexed_dims:
        raise refused(f"""was given no scatter_dims_to_operand_dims.
            where: {x!r}
            next:  give a list of the dimensions of x in which indices count positions. To write a
            slice at a fixed position, use a Copy.""")
    batch_shape, index_rows = _index_rows(indices, index_vector_dim, len(indexed_dims))
    inserted_dims = _axes("inserted_window_dims", inserted_window_dims, x.rank)
    window_dims = [d for d in range(x.rank) if d not in inserted_dims]
    window_places = _axes("update_window_dims", update_window_dims, updates.rank, len(window_dims))
    batch_dims = [d for d in range(updates.rank) if d not in window_places]
    _check_updates(x, updates, batch_shape, batch_dims)
    slice_shape = _slice_shape(x, updates, list(zip(window_places, window_dims, strict=True)))
    x = _limited(x, slice_shape, indexed_dims)
    indexed_lengths = [slice_shape[d] for d in indexed_dims]
    new_slices = updates.dim_shuffle([*batch_dims, *window_places]).reshape(
        [index_rows.shape[0], *slice_shape]
    )
    numbers, new_rows = aimed(
        graph,
        x,
        new_slices,
        index_rows,
        along=indexed_dims,
        lengths=indexed_lengths,
        prog=prog,
        name=debug_context,
    )
    if update_computation is None:
        x_rows = rows_of(x, indexed_dims)
        _replace_rows(graph, x_rows, new_rows, numbers.flatten(), prog=prog, name=debug_context)
        return
    slice_window = _Window(x, indexed_dims, indexed_lengths, [slice_shape[d] for d in window_dims])
    _one_by_one(
        graph,
        slice_window,
        numbers,
        new_rows,
        computation=update_computation,
        prog=prog,
        name=debug_context,
    )


def _limited(x: Tensor, slice_shape: Sequence[int], indexed_dims: list[int]) -> Tensor:
    """Return a view of the part of x that slices can reach.

    In the dimensions that are not in `indexed_dims`, all slices begin at 0 and have the sizes
    `slice_shape`.
    """
    for dim, size in enumerate(slice_shape):
        if dim not in indexed_dims:
            x = x.slice(0, size, dim)
    return x


def _replace_rows(
    graph: Graph, x_rows: Tensor, new_rows: Tensor, numbers: Tensor, prog: Program, name: str
) -> None:
    """Append a program that writes row i of `new_rows` to row `numbers[i]` of `x_rows`."""
    update_rows(graph, x_rows, new_rows, numbers, scale=None, operation="", prog=prog, name=name)


def _check_updates(
    x: Tensor, updates: Tensor, index_shape: tuple[int, ...], batch_dims: list[int]
) -> None:
    """Raise `PoplibsError` unless `updates` has x's dtype and a slice for each index.

    `batch_dims` are the dimensions of `updates` that do not belong to a slice. In these dimensions,
    `updates` must have the sizes `index_shape`.
    """
    context = f"x {x!r} and updates {updates!r}"
    advice = (
        "give updates the dimensions of indices without index_vector_dim, and those of a slice."
    )
    batch_shape = tuple(updates.shape[d] for d in batch_dims)
    check_same("shapes", index_shape, batch_shape, context, advice=advice)
    advice = "cast one of them with popops.cast."
    check_same("dtypes", x.dtype, updates.dtype, context, advice=advice)


def _slice_shape(x: Tensor, updates: Tensor, dims: list[tuple[int, int]]) -> list[int]:
    """Return the shape of the slices in `updates`, with a size for each dimension of x.

    `dims` contains pairs (dimension of `updates`, dimension of x). In all other dimensions of x,
    the size is 1.

    :raises PoplibsError: if the slices are larger than x.
    """
    slice_shape = [1] * x.rank
    for update_dim, dim in dims:
        slice_shape[dim] = updates.shape[update_dim]
    if any(size > length for size, length in zip(slice_shape, x.shape, strict=True)):
        raise refused(
            f"was given updates with slices of shape {tuple(slice_shape)}, but x has {x.shape}.",
            f"x {x!r} and updates {updates!r}",
            "give slices that are not larger than x.",
        )
    return slice_shape


@dataclass(frozen=True)
class _Window:
    """The shape of the slices of x that a scatter updates.

    A slice has the sizes `lengths` in the dimensions `along` of x, and all elements of the other
    dimensions. `shape` is the shape of a slice without the dimensions of size 1 that the argument
    `inserted_window_dims` of `scatter` contains.
    """

    x: Tensor
    along: list[int]
    lengths: list[int]
    shape: list[int]

    @property
    def sizes(self) -> list[int]:
        """The shape of a slice, with a size for each dimension of x."""
        return list(sliced(self.x, self.along, self.lengths))

    def slice(self, rows: Tensor) -> Tensor:
        """Return a view of `rows` in the shape of a slice; `rows` is [rows of a slice, columns]."""
        return as_slices(rows, self.x, self.along, self.lengths).reshape(self.shape)

    def rows(self, window_values: Tensor) -> Tensor:
        """Return a view of the slice `window_values` as a matrix [rows of a slice, columns].

        The rows are the positions in the dimensions `along`.
        """
        return fold(window_values.reshape([1, *self.sizes]), self.along).reshape(
            (prod(self.lengths), window_values.num_elements // prod(self.lengths))
        )


def _one_by_one(
    graph: Graph,
    window: _Window,
    slice_rows_numbers: Tensor,
    rows: Tensor,
    computation: UpdateComputation,
    prog: Program,
    name: str,
) -> None:
    """Append a loop that reads each slice, computes its new value, and writes the new value.

    x is viewed as a matrix whose rows are the positions in the dimensions `window.along`.
    `slice_rows_numbers` [slices, rows of a slice] contains the indices of the rows of each slice.
    `rows` contains the rows of all updates. `computation` computes the new value of a slice.
    """
    num_slices = slice_rows_numbers.shape[0]
    if not num_slices or not rows.num_elements:
        return
    window_size = prod(window.lengths)
    updates = rows.reshape((num_slices, window_size * rows.shape[1]))

    def iteration(counter: Tensor) -> Program:
        body = Program()
        slice_index = counter.reinterpret(UNSIGNED_INT).expand([0])
        current_numbers = dynamic_slice(
            graph,
            slice_rows_numbers,
            slice_index,
            [0],
            sizes=[1],
            prog=body,
            debug_context=f"{name}/numbers",
        ).flatten()
        new_rows = dynamic_slice(
            graph, updates, slice_index, [0], sizes=[1], prog=body, debug_context=f"{name}/updates"
        ).reshape((window_size, rows.shape[1]))
        old_rows = slice_rows(
            graph, rows_of(window.x, window.along), current_numbers, body, name=f"{name}/old"
        )
        new_value = computation(graph, window.slice(old_rows), window.slice(new_rows), body)
        if (
            not isinstance(new_value, Tensor)
            or list(new_value.shape) != window.shape
            or new_value.dtype is not window.x.dtype
        ):
            raise PoplibsError(f"""The update_computation of scatter() returned {shown(new_value)}.
                next:  return a tensor of {window.x.dtype.__name__} of shape
                {tuple(window.shape)}.""")
        x_rows = rows_of(window.x, window.along)
        changed_rows = window.rows(new_value)
        _replace_rows(graph, x_rows, changed_rows, current_numbers, prog=body, name=name)
        return body

    prog.add(counted_loop(graph, 0, num_slices, 1, body=iteration, debug_context=name))


@library
def select_scalar_from_rows(
    graph: Graph, x: Matrix, indices: Row, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return a tensor [rows] that contains the element in column indices[i] of each row i of x.

    x [rows, columns] is FLOAT or HALF, and `indices` [rows] is UNSIGNED_INT. An index beyond the
    last column gives NaN, and `MASKED_LABEL_CODE` gives 0. One compute set replaces all other
    elements by 0, and a reduction adds the elements of each row. PopLibs' SelectFromInterval reads
    only the selected elements, which is cheaper if a row is on one tile.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    _check_rows(x, indices)
    column_numbers = np.arange(x.shape[1])
    column_tensor = beside(graph, x, UNSIGNED_INT, column_numbers, name=f"{debug_context}/columns")
    last_column = max(x.shape[1] - 1, 0)
    is_selected = expr._2 == expr._3
    is_out_of_range = expr.And(
        expr.And(expr._2 > last_column, expr._2 != MASKED_LABEL_CODE), expr._3 == 0
    )
    value = expr.Select(expr._1, expr.Select(float("nan"), 0.0, is_out_of_range), is_selected)
    selected_or_zero = fused_map(
        graph,
        value,
        [x, indices.expand([1]), column_tensor],
        prog,
        debug_context=f"{debug_context}/named",
    )
    return reduce(graph, selected_or_zero, [1], prog, operation="ADD", debug_context=debug_context)


@library
def update_scalar_in_rows(
    graph: Graph, x: Matrix, indices: Row, prog: Program, debug_context: str = OWN
) -> None:
    """Subtract 1 from the element in column indices[i] of each row i of x [rows, columns].

    `indices` [rows] is UNSIGNED_INT; x is FLOAT or HALF. If x contains softmax probabilities before
    the call, it contains the gradient of the cross-entropy afterwards. An index beyond the last
    column changes nothing. One compute set evaluates a fused expression for every element; PopLibs'
    UpdateIntervalDEC reads only the indexed elements.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    _check_rows(x, indices)
    column_numbers = np.arange(x.shape[1])
    column_tensor = beside(graph, x, UNSIGNED_INT, column_numbers, name=f"{debug_context}/columns")
    updated = expr.Select(expr._1 - 1.0, expr._1, expr._2 == expr._3)
    map_in_place(
        graph, updated, [x, indices.expand([1]), column_tensor], prog, debug_context=debug_context
    )


def _check_rows(x: Tensor, indices: Tensor) -> None:
    check_takes("x", x, UNARY["IS_NAN"])
    if indices.dtype is not UNSIGNED_INT or indices.shape[0] != x.shape[0]:
        raise refused(f"""needs indices of {x.shape[0]:,} UNSIGNED_INT, but was given
            {indices.shape[0]:,} of {indices.dtype.__name__}.
            where: {indices!r}
            next:  give one index for each row of x, and cast indices with popops.cast.""")


def _index_rows(indices: Tensor, dim: int, count: int) -> tuple[tuple[int, ...], Tensor]:
    """Return `(shape, rows)`: the indices as a matrix `rows` [slices, count].

    `shape` is the shape of `indices` without dimension `dim`. If `dim` is the rank of `indices`,
    each number is the start of a slice.

    :raises PoplibsError: if the dtype of `indices` is wrong, or if dimension `dim` does not have
        `count` elements.
    """
    if indices.dtype not in (INT, UNSIGNED_INT):
        raise refused(f"""works on indices of INT and UNSIGNED_INT, but was given
            {indices.dtype.__name__}.
            where: {indices!r}
            next:  cast indices with popops.cast.""")
    if not is_whole(dim) or not 0 <= dim <= indices.rank:
        raise refused(f"""was given {shown(dim)} as index_vector_dim.
            where: {indices!r}
            next:  give a dimension of indices, or {indices.rank} if each number in indices is a
            start position.""")
    index_rows = indices.expand([indices.rank]) if dim == indices.rank else indices
    if index_rows.shape[dim] != count:
        raise refused(f"""needs {counted(count, "index", "indices")} for each slice, one for each
            indexed dimension of x, but dimension {dim} of indices has the length
            {index_rows.shape[dim]:,}.
            where: {indices!r}
            next:  make dimension {dim} of indices {count} long.""")
    batch_dims = [d for d in range(index_rows.rank) if d != dim]
    batch_shape = tuple(index_rows.shape[d] for d in batch_dims)
    return batch_shape, index_rows.dim_shuffle([*batch_dims, int(dim)]).reshape(
        (prod(batch_shape), count)
    )


def _axes(name: str, argument: Sequence[int], rank: int, count: int | None = None) -> list[int]:
    are_dims_valid = isinstance(argument, (list, tuple)) and all(
        is_whole(d) and 0 <= d < rank for d in argument
    )
    if (
        not are_dims_valid
        or len(set(argument)) != len(argument)
        or (count is not None and len(argument) != count)
    ):
        wanted_count = "" if count is None else f"{count} "
        raise as_given(
            argument,
            name,
            f"give a list of {wanted_count}different dimensions, from 0 to {rank - 1}.",
        )
    return [int(d) for d in argument]


def _check_sizes(x: Tensor, sizes: Sequence[int], collapsed: list[int]) -> list[int]:
    are_sizes_valid = (
        isinstance(sizes, (list, tuple))
        and len(sizes) == x.rank
        and all(is_whole(size) for size in sizes)
    )
    if (
        not are_sizes_valid
        or not all(1 <= size <= length for size, length in zip(sizes, x.shape, strict=True))
        or any(sizes[d] != 1 for d in collapsed)
    ):
        raise refused(f"""was given {shown(sizes)} as slice_sizes.
            where: {x!r}
            next:  give a size for each dimension of x, from 1 to its length, and 1 for the
            dimensions in collapsed_slice_dims.""")
    return [int(size) for size in sizes]
