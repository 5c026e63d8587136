"""Many slices at once, such as the rows of an embedding: `multi_slice`, `multi_update` and its
kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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
    """Return many slices of x, such as the rows of an embedding: [slices, *shape with sizes[i] in
    dims[i]].

    `offsets` [slices, len(dims)] is UNSIGNED_INT or INT. A slice that leaves x is 0 in the result.
    The result has the mapping of x's columns, and is looked up in one compute set. Many slices of
    one row use a plan of their own, as `embedding_plan` builds it, if that is faster. With several
    `dims`, a compute set combines them into one number. Sizes other than 1 read x through a view in
    which every slice is a row.

    `plan` is the result of `embedding_plan` for x, a table [entries, columns] whose rows are
    sliced; create x by it too. `options` are those of `embedding_plan`; they are checked, and the
    plan decides. Raises `PoplibsError`, `InvalidOptionError`.
    """
    along, lengths = check_slices(x, offsets, dims, sizes)
    settled(OPTIONS, options)
    check_plan(graph, plan, x, along, lengths)
    view, counts = windows(x, along, lengths)
    numbers = row_numbers(graph, offsets, counts, prog, debug_context)
    if plan is None and set(lengths) == {1}:
        plan = plan_for(graph, view, numbers.num_elements)
    out = slice_rows(graph, view, numbers, prog, debug_context, plan)
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
    scale: Any = None,
) -> None:
    along, lengths = check_slices(x, offsets, dims, sizes)
    settled(OPTIONS, options)
    check_plan(graph, plan, x, along, lengths)
    wanted = (offsets.shape[0], *sliced(x, along, lengths))
    check_alike("give a slice for each row of offsets.", shape=wanted, x=x, updates=updates)
    if operation:
        wider = (FLOAT,) if x.dtype is HALF else ()
        scale = check_factor(graph, "scale", 1 if scale is None else scale, x.dtype, *wider)
    numbers, update = aimed(graph, x, updates, offsets, along, lengths, prog, debug_context)
    rows = rows_of(x, along)
    numbers = numbers.flatten()
    is_unplanned = plan is None
    if is_unplanned and set(lengths) == {1}:
        plan = plan_for(graph, rows, numbers.num_elements, operation)
    update_rows(
        graph, rows, update, numbers, scale, operation, prog, debug_context, plan, is_unplanned
    )


@variant(_updated, "", ("scale",))
def multi_update() -> None:
    """Replace many slices of x by those of `updates` [slices, *shape with sizes[i] in dims[i]],
    first to last.

    `offsets` as of `multi_slice`; a slice that leaves x is skipped. Of two that overlap the later
    one stays. These vertices run one by one here, as their places depend on data.
    """


@variant(_updated, "MAX", ("scale",))
def multi_update_max() -> None:
    """Replace slices of x by the maximum of their values and those of `updates`; otherwise like
    `multi_update`."""


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
    """`scale` times the slices of `updates` is added to slices of x, first to last: the gradient of
    an embedding. Where a plan cuts the lookups, also one that is quicker of itself, each part is
    added up first, then the parts, first to last.

    `scale`: a number, or one element of x's dtype, for HALF also of FLOAT. Sums of HALF are carried
    in FLOAT and rounded once. Otherwise as `multi_update`.
    """
    arguments = graph, x, updates, offsets, dims, sizes, prog, debug_context, plan, options
    if scale is None:
        raise as_given(scale, "scale", "give a number, or a tensor of one element.")
    _updated("ADD", *arguments, scale)
