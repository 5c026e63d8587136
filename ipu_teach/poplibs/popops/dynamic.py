"""Reading and writing one slice of a tensor at an offset that is known only at run time."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_teach.errors import shown
from ipu_teach.graph import Graph, Tensor
from ipu_teach.graph.layouts import is_whole
from ipu_teach.poplibs.laying import step
from ipu_teach.poplibs.library import (
    OWN,
    Loose,
    Row,
    as_given,
    check_alike,
    check_shape,
    library,
    refused,
)
from ipu_teach.poplibs.popops.operands import check_output
from ipu_teach.poplibs.popops.rows import (
    check_slice,
    dims_of,
    linear,
    on_columns,
    placed,
    rows_codelet,
    rows_of,
    sizes_of,
    sliced,
    spread,
)
from ipu_teach.poplibs.popops.slice_plans import SlicePlan, check_table
from ipu_teach.poplibs.popops.slice_vertices import DynamicSlice1D, DynamicUpdateSlice1D
from ipu_teach.program import Sequence as Program
from ipu_teach.types import DType, as_dtype

__all__ = [
    "create_slice_tensor",
    "create_sliceable_tensor",
    "dynamic_slice",
    "dynamic_slice_with_output",
    "dynamic_update",
]


@library
def create_sliceable_tensor(
    graph: Graph,
    dtype: type[DType],
    shape: Sequence[int],
    dims: Sequence[int],
    debug_context: str = "sliceable",
    plan: SlicePlan | None = None,
) -> Tensor:
    """Return a variable of `shape`, mapped for slices along the dimensions `dims`.

    Elements that differ only in their indices in `dims` are on the same tile. The positions in the
    other dimensions are distributed linearly over the tiles. If a `plan` from `embedding_plan` is
    passed, the plan determines the tile of each element instead.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is wrong, or the plan is for
        another shape.
    """
    valid_shape = check_shape(shape)
    are_dims_valid = isinstance(dims, (list, tuple)) and all(
        is_whole(dim) and -len(valid_shape) <= dim < len(valid_shape) for dim in dims
    )
    valid_dims = [int(dim) % len(valid_shape) for dim in dims] if are_dims_valid else []
    if not valid_dims or len(set(valid_dims)) != len(valid_dims):
        raise refused(f"""was given the dimensions {shown(dims)} for the shape {valid_shape}.
            next:  give a list of different dimensions, as in [0].""")
    if plan is not None:
        check_table(
            graph, plan, as_dtype(dtype, "create_sliceable_tensor()"), valid_shape, along=valid_dims
        )
    tensor = graph.add_variable(dtype, valid_shape, debug_context)
    if plan is not None:
        for tile, (row_begin, row_end), (column_begin, column_end) in plan.places():
            graph.set_tile_mapping(tensor[row_begin:row_end, column_begin:column_end], tile)
        return tensor
    rows = rows_of(tensor, valid_dims)
    spread(graph, rows, linear(graph, rows))
    return tensor


@library
def create_slice_tensor(
    graph: Graph,
    tensor: Loose,
    dims: Sequence[int],
    sizes: Sequence[int],
    num_slices: int,
    debug_context: str = "slices",
) -> Tensor:
    """Return a mapped variable for `num_slices` slices of `tensor`.

    The shape of the variable is [num_slices, *slice_shape]. `slice_shape` is the shape of `tensor`,
    but with size `sizes[i]` in dimension `dims[i]`. A column consists of the elements that have the
    same position in all dimensions outside `dims`. If each column of `tensor` is on one tile, the
    columns of the slices are mapped to the same tiles; otherwise, the variable is distributed
    linearly.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises PoplarIndexError: if a number in `dims` is not a dimension of `tensor`.
    """
    along = dims_of(tensor, dims)
    lengths = sizes_of(tensor, along, sizes)
    if not is_whole(num_slices) or num_slices < 0:
        raise as_given(num_slices, "num_slices", "give a whole number of 0 or more.")
    slice_tensor = graph.add_variable(
        tensor.dtype, (int(num_slices), *sliced(tensor, along, lengths)), debug_context
    )
    tile_columns = placed(graph, rows_of(tensor, along))
    spread(graph, rows_of(slice_tensor, [0, *(dim + 1 for dim in along)]), tile_columns)
    return slice_tensor


@library
def dynamic_slice(
    graph: Graph,
    x: Tensor,
    offset: Row,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return a slice of x: `sizes[i]` elements in dimension `dims[i]`, beginning at `offset[i]`.

    The slice contains all elements of the other dimensions. `offset` is UNSIGNED_INT, with an
    element for each dimension in `dims`. As in PopLibs' codelet, a slice that reaches beyond the
    end of x continues at the beginning, and an offset beyond the end counts as 0. The call adds one
    compute set for each dimension in `dims`.

    Each element of the result is mapped to the tile of those elements of x that have the same
    indices in the other dimensions, provided that all of them are on one tile.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    along, lengths = check_slice(x, offset, dims, sizes)
    return _sliced(graph, x, offset, along, lengths=lengths, prog=prog, name=debug_context)


@library
def dynamic_slice_with_output(
    graph: Graph,
    out: Tensor,
    x: Tensor,
    offset: Row,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
) -> None:
    """Copy a slice of x into `out`: the slice that `dynamic_slice` would return.

    `out` must have the shape of the slice and the dtype of x. The tile mapping of `out` does not
    change.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    along, lengths = check_slice(x, offset, dims, sizes)
    check_output(out, sliced(x, along, lengths), x.dtype)
    _sliced(graph, x, offset, along, lengths=lengths, prog=prog, name=debug_context, out=out)


@library
def dynamic_update(
    graph: Graph,
    x: Tensor,
    update: Tensor,
    offset: Row,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
) -> None:
    """Write `update` to the slice of x that `dynamic_slice` would return.

    `update` has the shape of that slice and the dtype of x. For n dimensions in `dims`, there are 2
    n - 1 compute sets. The first n - 1 read slices along all dimensions except the last; the other
    n write `update` and these slices back.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    along, lengths = check_slice(x, offset, dims, sizes)
    shape = sliced(x, along, lengths)
    check_alike("give an update with the shape of the slice.", shape=shape, x=x, update=update)
    _update(
        graph,
        x,
        update,
        offset,
        steps=list(zip(along, lengths, strict=True)),
        prog=prog,
        name=debug_context,
    )


def _update(
    graph: Graph,
    x: Tensor,
    update: Tensor,
    offset: Tensor,
    steps: list[tuple[int, int]],
    prog: Program,
    name: str,
) -> None:
    dim, length = steps[0]
    other_steps = steps[1:]
    if other_steps:
        slice_of_dim = _slice(graph, x, offset[0], dim, length=length, prog=prog, name=name)
        _update(graph, slice_of_dim, update, offset[1:], steps=other_steps, prog=prog, name=name)
        update = slice_of_dim
    codelet = rows_codelet(DynamicUpdateSlice1D, x.dtype)
    operands = {"base": rows_of(x, [dim]), "update": rows_of(update, [dim])}
    edges_by_tile = on_columns(graph, operands, offset=offset[0])
    step(graph, prog, f"{name}/dynamicUpdateSlice_d{dim}", codelet, work=edges_by_tile)


def _sliced(
    graph: Graph,
    x: Tensor,
    offset: Tensor,
    along: list[int],
    lengths: list[int],
    prog: Program,
    name: str,
    out: Tensor | None = None,
) -> Tensor:
    """Return a slice of x, computed by one compute set for each dimension in `along`.

    `offset` and `lengths` contain the start and the size of the slice in each of these dimensions.
    If `out` is given, the last compute set writes the slice to it.
    """
    for dim_number, (dim, length) in enumerate(zip(along, lengths, strict=True)):
        step_out = out if dim_number == len(along) - 1 else None
        x = _slice(
            graph, x, offset[dim_number], dim, length=length, prog=prog, name=name, out=step_out
        )
    return x


def _slice(
    graph: Graph,
    x: Tensor,
    offset: Tensor,
    dim: int,
    length: int,
    prog: Program,
    name: str,
    out: Tensor | None = None,
) -> Tensor:
    shape = [*x.shape[:dim], length, *x.shape[dim + 1 :]]
    new_fields = ["out"] if out is None else []
    out = graph.add_variable(x.dtype, shape, f"{name}/out") if out is None else out
    codelet = rows_codelet(DynamicSlice1D, x.dtype)
    edges_by_tile = on_columns(
        graph, {"base": rows_of(x, [dim]), "out": rows_of(out, [dim])}, offset=offset
    )
    step(
        graph, prog, f"{name}/dynamicSlice_d{dim}", codelet, work=edges_by_tile, results=new_fields
    )
    return out
