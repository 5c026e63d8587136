"""Many slices at once, such as the rows of an embedding: `multi_slice` and `multi_update`."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import OWN, Matrix, as_given, check_alike, library, variant
from ipu_teach.poplibs.options import Options, settled
from ipu_teach.poplibs.popops.operands import check_factor
from ipu_teach.poplibs.popops.rows import (
    aimed,
    as_slices,
    check_slices,
    plan_for,
    row_numbers,
    rows_of,
    slice_rows,
    sliced,
    update_rows,
    windows,
)
from ipu_teach.poplibs.popops.scaled import Factor
from ipu_teach.poplibs.popops.slice_plans import OPTIONS, SlicePlan, check_plan
from ipu_teach.program import Sequence as Program
from ipu_teach.types import FLOAT, HALF

__all__ = ["multi_slice", "multi_update", "multi_update_add", "multi_update_max"]


@library
def multi_slice(
    graph: Graph,
    x: Tensor,
    offsets: Matrix,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
    plan: SlicePlan | None = None,
    options: Options | None = None,
) -> Tensor:
    """Return many slices of x, such as the rows of an embedding: a tensor [slices, *slice_shape].

    `slice_shape` is the shape of x, but with size `sizes[i]` in dimension `dims[i]`. `offsets`
    [slices, len(dims)] is UNSIGNED_INT or INT. A slice that is partly outside x is 0 in the result.

    One compute set looks up all slices. If there are many slices of single rows, x is divided as
    `embedding_plan` would divide it, provided that this is faster. With several `dims`, another
    compute set first combines the offsets into one number. For sizes other than 1, x is read
    through a view in which every possible slice is a row.

    A column consists of the elements that have the same position in all dimensions outside `dims`.
    If x is not divided, and each column of x is on one tile, the columns of the slices are mapped
    to the same tiles.

    `plan` is the result of `embedding_plan` for x, which is then a table [entries, columns] whose
    rows are sliced; create x with this plan, too. `options` are those of `embedding_plan`. The
    options are checked, but have no effect here.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises InvalidOptionError: if an option is wrong.
    """
    along, lengths = check_slices(x, offsets, dims, sizes)
    settled(OPTIONS, options)
    check_plan(graph, plan, x, along, lengths=lengths)
    view, num_positions = windows(x, along, lengths)
    numbers = row_numbers(graph, offsets, num_positions, prog, name=debug_context)
    if plan is None and set(lengths) == {1}:
        plan = plan_for(graph, view, numbers.num_elements)
    out = slice_rows(graph, view, numbers, prog, name=debug_context, plan=plan)
    return as_slices(out, x, along, lengths)


def _updated(
    operation: str,
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Matrix,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
    plan: SlicePlan | None = None,
    options: Options | None = None,
    scale: Factor | None = None,
) -> None:
    along, lengths = check_slices(x, offsets, dims, sizes)
    settled(OPTIONS, options)
    check_plan(graph, plan, x, along, lengths=lengths)
    updates_shape = (offsets.shape[0], *sliced(x, along, lengths))
    check_alike("give a slice for each row of offsets.", shape=updates_shape, x=x, updates=updates)
    if operation:
        other_dtypes = (FLOAT,) if x.dtype is HALF else ()
        scale = check_factor(graph, "scale", 1 if scale is None else scale, x.dtype, *other_dtypes)
    numbers, update = aimed(
        graph, x, updates, offsets, along=along, lengths=lengths, prog=prog, name=debug_context
    )
    rows = rows_of(x, along)
    numbers = numbers.flatten()
    is_unplanned = plan is None
    if is_unplanned and set(lengths) == {1}:
        plan = plan_for(graph, rows, numbers.num_elements, operation)
    update_rows(
        graph,
        rows,
        update,
        numbers,
        scale=scale,
        operation=operation,
        prog=prog,
        name=debug_context,
        plan=plan,
        is_unplanned=is_unplanned,
    )


@variant(_updated, "", ("scale",))
def multi_update() -> None:
    """Replace many slices of x, from first to last, by `updates` [slices, *slice_shape].

    The other arguments are those of `multi_slice`. A slice that is partly outside x is skipped. If
    slices overlap, the last slice overwrites the others. The simulator runs the vertices of this
    function one by one, because the data determines where they write.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises InvalidOptionError: if an option is wrong.
    """


@variant(_updated, "MAX", ("scale",))
def multi_update_max() -> None:
    """Replace many slices of x by the elementwise maximum of each slice and its update.

    The arguments are those of `multi_update`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises InvalidOptionError: if an option is wrong.
    """


@library
def multi_update_add(
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Matrix,
    scale: Factor,
    dims: Sequence[int],
    sizes: Sequence[int],
    prog: Program,
    debug_context: str = OWN,
    plan: SlicePlan | None = None,
    options: Options | None = None,
) -> None:
    """Add `scale` times the slices in `updates` to slices of x, as for an embedding's gradient.

    Slices are added from first to last. If a plan divides the slices into parts, each part is
    summed first, and then the sums of the parts are added from first to last. If `plan` is None,
    the function chooses a plan if the model counts fewer cycles with it than without a plan.
    `scale` is a number, or a tensor of one element of x's dtype; if x is HALF, the tensor may also
    be FLOAT. Sums of HALF are accumulated in FLOAT and rounded once. The other arguments are those
    of `multi_update`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises InvalidOptionError: if an option is wrong.
    """
    if scale is None:
        raise as_given(scale, "scale", "give a number, or a tensor of one element.")
    _updated(
        "ADD",
        graph,
        x,
        updates,
        offsets=offsets,
        dims=dims,
        sizes=sizes,
        prog=prog,
        debug_context=debug_context,
        plan=plan,
        options=options,
        scale=scale,
    )
