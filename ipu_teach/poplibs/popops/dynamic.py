"""Single slices at an offset that is data: `dynamic_slice` and `dynamic_update`."""

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
    """Return a variable of `shape`, mapped for slices along `dims`.

    Elements that differ only in these dimensions are on one tile. The positions in the other
    dimensions are distributed linearly, or with a `plan` from `embedding_plan` as the plan
    partitions the table.
    """
    wanted = check_shape(shape)
    good = isinstance(dims, (list, tuple)) and all(
        is_whole(d) and -len(wanted) <= d < len(wanted) for d in dims
    )
    along = [int(d) % len(wanted) for d in dims] if good else []
    if not along or len(set(along)) != len(along):
        raise refused(f"""was given the dimensions {shown(dims)} for the shape {wanted}.
            next:  give a list of different dimensions, as in [0].""")
    if plan is not None:
        check_table(graph, plan, as_dtype(dtype, "create_sliceable_tensor()"), wanted, along=along)
    tensor = graph.add_variable(dtype, wanted, debug_context)
    if plan is not None:
        for tile, (r0, r1), (c0, c1) in plan.places():
            graph.set_tile_mapping(tensor[r0:r1, c0:c1], tile)
        return tensor
    rows = rows_of(tensor, along)
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
    """Return a variable for `num_slices` slices of `tensor`, mapped like their columns.

    Its shape is [num_slices, *shape], where shape is that of `tensor` with `sizes` in `dims`.
    """
    along = dims_of(tensor, dims)
    lengths = sizes_of(tensor, along, sizes)
    if not is_whole(num_slices) or num_slices < 0:
        raise as_given(num_slices, "num_slices", "give a whole number.")
    slice_tensor = graph.add_variable(
        tensor.dtype, (int(num_slices), *sliced(tensor, along, lengths)), debug_context
    )
    places = placed(graph, rows_of(tensor, along))
    spread(graph, rows_of(slice_tensor, [0, *(d + 1 for d in along)]), places)
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
    """Return the part of x that begins at offset[i] in dimension dims[i] and has sizes[i] there.

    It is complete in the other dimensions. `offset` is UNSIGNED_INT, with one element for each of
    `dims`. A slice that reaches over the end continues at the beginning, and an offset beyond the
    end counts as 0, as in PopLibs' codelet. There is one compute set for each of `dims`. The result
    has the tile mapping of the columns of x. Raises `PoplibsError`.
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
    """Write the result of `dynamic_slice` to `out`, which keeps its tile mapping.

    `out` has the shape of the slice and the dtype of x.
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
    """Replace the part of x that `dynamic_slice` would return by `update`.

    `update` has the shape of that part and the dtype of x. With n `dims`, the parts in between are
    sliced, updated and written back: there are 2 n - 1 compute sets.
    """
    along, lengths = check_slice(x, offset, dims, sizes)
    shape = sliced(x, along, lengths)
    check_alike("give an update of the shape of the slice.", shape=shape, x=x, update=update)
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
    rest = steps[1:]
    if rest:
        part = _slice(graph, x, offset[0], dim, length=length, prog=prog, name=name)
        _update(graph, part, update, offset[1:], steps=rest, prog=prog, name=name)
        update = part
    codelet = rows_codelet(DynamicUpdateSlice1D, x.dtype)
    sides = {"base": rows_of(x, [dim]), "update": rows_of(update, [dim])}
    work = on_columns(graph, sides, offset=offset[0])
    step(graph, prog, f"{name}/dynamicUpdateSlice_d{dim}", codelet, work=work)


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
    """Return x, sliced along one dimension after another; the last result is written to `out`."""
    for number, (dim, length) in enumerate(zip(along, lengths, strict=True)):
        last = out if number == len(along) - 1 else None
        x = _slice(graph, x, offset[number], dim, length=length, prog=prog, name=name, out=last)
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
    new = ["out"] if out is None else []
    out = graph.add_variable(x.dtype, shape, f"{name}/out") if out is None else out
    codelet = rows_codelet(DynamicSlice1D, x.dtype)
    work = on_columns(graph, {"base": rows_of(x, [dim]), "out": rows_of(out, [dim])}, offset=offset)
    step(graph, prog, f"{name}/dynamicSlice_d{dim}", codelet, work=work, results=new)
    return out
