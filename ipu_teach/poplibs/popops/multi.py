"""Many slices at once, such as the rows of an embedding: `multi_slice`, `multi_update` and its
kin."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ipu_teach.graph import Graph, Tensor
from ipu_teach.poplibs.library import OWN, Matrix, check_same, library, variant
from ipu_teach.poplibs.options import Options, settled
from ipu_teach.poplibs.popops.operands import check_factor
from ipu_teach.poplibs.popops.rows import (
    check_slices,
    fold,
    plan_for,
    rest_of,
    row_numbers,
    rows_of,
    slice_rows,
    sliced,
    spread_numbers,
    unfold,
    update_rows,
    windows,
)
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
    """Many slices of x at once, such as the rows of an embedding: [slices, *shape with sizes[i] in
    dims[i]].

    `offsets` [slices, len(dims)]: UNSIGNED_INT or INT. Where a slice does not lie in x as a whole,
    the result is 0. The result lies where its columns of x do, and looks them up in one compute
    set; of many slices of one row by a plan of its own, as `embedding_plan` makes them, where that
    is quicker. Where there are several `dims` a compute set makes one number of them. Sizes other
    than 1 read x through a view in which every slice is a row.

    `plan`: what `embedding_plan` returned for x, a table [entries, columns] whose rows are sliced;
    make x by it too. `options`: as of `embedding_plan`; they are checked, and the plan decides.
    Raises `PoplibsError`, `InvalidOptionError`.
    """
    along, lengths = check_slices(x, offsets, dims, sizes)
    settled(OPTIONS, options)
    cut = check_plan(graph, plan, x, along, lengths)
    view, counts = windows(x, along, lengths)
    numbers = row_numbers(graph, offsets, counts, prog, debug_context)
    rows = view.reshape((prod(counts), prod(view.shape[len(counts) :])))
    if plan is None and set(lengths) == {1}:
        cut = plan_for(graph, rows, numbers.num_elements)
    out = slice_rows(graph, rows, numbers, prog, debug_context, cut)
    rest = [n for d, n in enumerate(x.shape) if d not in along]
    return unfold(out.reshape([offsets.shape[0], *lengths, *rest]), along, x.rank)


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
) -> None:
    scale = 1 if operation else None
    _update_many(
        graph,
        x,
        updates,
        offsets,
        scale,
        operation,
        dims,
        sizes,
        prog,
        debug_context,
        plan,
        options,
    )


@variant(_updated, "")
def multi_update() -> None:
    """Many slices of x become those of `updates` [slices, *shape with sizes[i] in dims[i]], first
    to last.

    `offsets` as of `multi_slice`; a slice that does not lie in x as a whole is passed over. Of two
    that overlap the later one stays. These vertices run one by one here, as their places depend on
    data.
    """


@variant(_updated, "MAX")
def multi_update_max() -> None:
    """Slices of x become the larger ones of what they hold and those of `updates`. Otherwise as
    `multi_update`."""


@library
def multi_update_add(
    graph: Graph,
    x: Tensor,
    updates: Tensor,
    offsets: Matrix,
    scale: Tensor | float,
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
    _update_many(
        graph, x, updates, offsets, scale, "ADD", dims, sizes, prog, debug_context, plan, options
    )


def _update_many(
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
    plan: object,
    options: object,
) -> None:
    along, lengths = check_slices(x, offsets, dims, sizes)
    settled(OPTIONS, options)
    cut = check_plan(graph, plan, x, along, lengths)
    where = f"x {x!r} and updates {updates!r}"
    wanted = (offsets.shape[0], *sliced(x, along, lengths))
    check_same("shapes", wanted, updates.shape, where, "give a slice for each row of offsets.")
    check_same("dtypes", x.dtype, updates.dtype, where, "cast one of them with popops.cast.")
    if scale is not None:
        scale = check_factor(graph, "scale", scale, x.dtype, *((FLOAT,) if x.dtype is HALF else ()))
    counts = [x.shape[d] - length + 1 for d, length in zip(along, lengths, strict=True)]
    numbers = row_numbers(graph, offsets, counts, prog, name)
    numbers = spread_numbers(
        graph, numbers, counts, [x.shape[d] for d in along], lengths, prog, name
    )
    update = fold(updates, along).reshape((numbers.num_elements, rest_of(x, along)))
    rows, numbers = rows_of(x, along), numbers.flatten()
    if plan is None and set(lengths) == {1}:
        cut = plan_for(graph, rows, numbers.num_elements, operation)
    update_rows(graph, rows, update, numbers, scale, operation, prog, name, cut, plan is None)
