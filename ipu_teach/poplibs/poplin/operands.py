"""Create the operands and results of a product on the tiles that its plan uses; print the plan."""

from __future__ import annotations

from itertools import product
from typing import Any, TextIO

from ipu_teach.graph import Graph, Shape, Tensor
from ipu_teach.poplibs.library import (
    OWN,
    Matrix,
    as_given,
    check_name,
    check_same,
    library,
    variant,
)
from ipu_teach.poplibs.options import Options
from ipu_teach.poplibs.poplin.blocks import shares_of
from ipu_teach.poplibs.poplin.matmul import INNER
from ipu_teach.poplibs.poplin.plan import MatMulPlan, Product, planned, product_of
from ipu_teach.poplibs.poplin.strided import tiles_of
from ipu_teach.poplibs.poplin.wishes import MEMORY_PROPORTION, wish_of
from ipu_teach.poplibs.poputil import map_tensor_linearly
from ipu_teach.program import Copy, Sequence as Program
from ipu_teach.types import DType

__all__ = [
    "create_mat_mul_grouped_input_lhs",
    "create_mat_mul_grouped_input_rhs",
    "create_mat_mul_grouped_output",
    "create_mat_mul_input_lhs",
    "create_mat_mul_input_rhs",
    "create_mat_mul_output",
    "mat_mul_grouped_report_plan",
    "mat_mul_report_plan",
    "pre_arrange_mat_mul_input_rhs",
]


def _create_for_rank(
    side: tuple[int, str],
    graph: Graph,
    dtype: type[DType],
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    name: str | None = None,
    *,
    out_type: type[DType] | None = None,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
) -> Tensor:
    """Return a new variable for an operand or the result of a product.

    `side` is a pair: the number of dimensions, and "a", "b" or "out" for the left operand, the
    right operand or the result.
    """
    wish = out_type, options, partials_type, available_memory_proportion
    return _create(graph, dtype, (a_shape, b_shape), name, wish, side)


@variant(_create_for_rank, (2, "a"))
def create_mat_mul_input_lhs() -> None:
    """Return a variable of `a_shape` (m, k), mapped as `mat_mul` needs its left operand.

    `b_shape` (k, n) is the shape of the right operand. `out_type` and the options are those that
    you will pass to `mat_mul`. Each block of the plan is distributed over the tiles that multiply
    it, so only blocks that several tiles need are exchanged.

    :raises PoplibsError: if the shapes or dtypes do not fit, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """


@variant(_create_for_rank, (2, "b"))
def create_mat_mul_input_rhs() -> None:
    """Return a variable of `b_shape` (k, n), mapped as `mat_mul` needs its right operand.

    `a_shape` (m, k) is the shape of the left operand. The other parameters and the errors are those
    of `create_mat_mul_input_lhs`.
    """


@variant(_create_for_rank, (2, "out"))
def create_mat_mul_output() -> None:
    """Return a variable [m, n], mapped like the result of `mat_mul`.

    `a_shape` is (m, k), and `b_shape` is (k, n). The dtype of the variable is `out_type`, by
    default the dtype of the product. Use the variable as the accumulator of `mat_mul_acc`, for
    example.

    :raises PoplibsError: if the shapes or dtypes do not fit, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """


@variant(_create_for_rank, (3, "a"))
def create_mat_mul_grouped_input_lhs() -> None:
    """Return a variable of `a_shape` (groups, m, k), mapped as `mat_mul_grouped` needs it.

    `b_shape` is (groups, k, n). The other parameters and the errors are those of
    `create_mat_mul_input_lhs`.
    """


@variant(_create_for_rank, (3, "b"))
def create_mat_mul_grouped_input_rhs() -> None:
    """Return a variable of `b_shape` (groups, k, n), mapped as `mat_mul_grouped` needs it.

    `a_shape` is (groups, m, k). The other parameters and the errors are those of
    `create_mat_mul_input_lhs`.
    """


@variant(_create_for_rank, (3, "out"))
def create_mat_mul_grouped_output() -> None:
    """Return a variable [groups, m, n], mapped like the result of `mat_mul_grouped`.

    `a_shape` is (groups, m, k), and `b_shape` is (groups, k, n). The other parameters and the
    errors are those of `create_mat_mul_output`.
    """


@library
def pre_arrange_mat_mul_input_rhs(
    graph: Graph,
    a_shape: tuple[int, ...],
    b: Matrix,
    prog: Program,
    debug_context: str = OWN,
    *,
    out_type: type[DType] | None = None,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
) -> Tensor:
    """Return a copy of b [k, n], mapped as `mat_mul` needs its right operand.

    Use it to arrange an operand once before many products. `a_shape` (m, k) is the shape of the
    left operand. `out_type` and the options are those of the product.

    :raises PoplibsError: if the shapes or dtypes do not fit, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    wish = out_type, options, partials_type, available_memory_proportion
    rearranged = _create(graph, b.dtype, (a_shape, b.shape), f"{debug_context}/b", wish, (2, "b"))
    prog.add(Copy(b, rearranged))
    return rearranged


def _print_plan(
    rank: int,
    graph: Graph,
    dtype: type[DType],
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    *,
    out_type: type[DType] | None = None,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
    file: TextIO | None = None,
) -> None:
    if file is not None and not callable(getattr(file, "write", None)):
        raise as_given(file, "file", "give an open text file, or leave it out to print.")
    wish = out_type, options, partials_type, available_memory_proportion
    _, full_product, plan = _plan_of(graph, dtype, (a_shape, b_shape), wish, rank)
    print(
        repr(plan)
        if plan is not None
        else f"{full_product.shapes()} is empty: nothing is multiplied.",
        file=file,
    )
    for part, cycles in plan.parts if plan is not None else ():
        print(f"  {part + ':':30} {cycles:>12,} modelled cycles", file=file)


@variant(_print_plan, 2)
def mat_mul_report_plan() -> None:
    """Print the plan of `mat_mul` for `a_shape` (m, k) and `b_shape` (k, n), with its cycles.

    `plan_mat_mul` returns the same plan as a value. `file` is an open text file; by default, the
    plan is printed on the screen.

    :raises IPUTeachError: (usually a PoplibsError) if an argument is invalid, or if no plan fits
        on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """


@variant(_print_plan, 3)
def mat_mul_grouped_report_plan() -> None:
    """Print the plan of `mat_mul_grouped` for (groups, m, k) and (groups, k, n), with its cycles.

    The two shapes are `a_shape` and `b_shape`. The other parameters and the errors are those of
    `mat_mul_report_plan`.
    """


def _plan_of(
    graph: Graph, dtype: object, shapes: tuple[object, object], wish: tuple[Any, ...], rank: int
) -> tuple[list[int], Product, MatMulPlan | None]:
    """Return `(groups, product, plan)` for operands of the two `shapes`.

    `groups` is a list with the number of groups; it is empty if `rank` is 2. The plan of an empty
    product is None. `wish` is (out_type, options, partials_type, available_memory_proportion).
    """
    (*groups, m, k), (*other_groups, b_rows, n) = (
        _matrix_shape(shape_name, shape, rank)
        for shape_name, shape in zip(("a_shape", "b_shape"), shapes, strict=True)
    )
    context = f"a_shape {shapes[0]} and b_shape {shapes[1]}"
    check_same(
        "numbers of groups", groups, other_groups, context, "give a and b equally many matrices."
    )
    check_same("inner dimensions", k, b_rows, context, INNER)
    valid_wish = wish_of(*wish[1:])
    full_product = product_of((*(groups or [1]), m, k, n), dtype, wish[0], valid_wish)  # type: ignore[arg-type]
    return groups, full_product, planned(full_product, graph.target, valid_wish)


def _create(
    graph: Graph,
    dtype: object,
    shapes: tuple[object, object],
    name: str | None,
    wish: tuple[Any, ...],
    operand_side: tuple[int, str],
) -> Tensor:
    rank, side = operand_side
    if name is not None:
        check_name(name, "name")
    groups, full_product, plan = _plan_of(graph, dtype, shapes, wish, rank)
    m = full_product.m
    k = full_product.k
    n = full_product.n
    shape = {"a": (m, k), "b": (k, n), "out": (m, n)}[side]
    tensor = graph.add_variable(
        full_product.out if side == "out" else full_product.dtype, (*groups, *shape), name
    )
    if plan is None:
        map_tensor_linearly(graph, tensor)
    else:
        map_blocks(graph, plan, tensor if groups else tensor.expand((0,)), side)
    return tensor


def map_blocks(graph: Graph, plan: MatMulPlan, tensor: Tensor, side: str) -> None:
    """Map each block of `tensor` [groups, …] to the tiles that use it.

    The elements of a block are divided evenly over these tiles. `side` is "a", "b" or "out":
    whether the tensor is the left operand, the right operand or the result of the planned product.
    """
    # The dimensions count blocks of groups, rows, columns and the inner dimension.
    tiles = tiles_of(plan, graph.target.num_tiles)
    steps = product(
        range(plan.inner_steps if side != "out" else 1),
        range(plan.column_steps if side != "a" else 1),
    )
    for inner_step, column_step in steps:
        rows, inner, columns = (
            list(enumerate(intervals))
            for intervals in (plan.rows(), plan.inner(inner_step), plan.columns(column_step))
        )
        row_intervals, column_intervals = {
            "a": (rows, inner),
            "b": (inner, columns),
            "out": (rows, columns),
        }[side]
        for (group_index, (group_begin, group_end)), (row_index, (row_begin, row_end)), (
            column_index,
            (column_begin, column_end),
        ) in product(enumerate(plan.groups()), row_intervals, column_intervals):
            if row_begin == row_end or column_begin == column_end:
                continue
            all_blocks = slice(None)
            tile_index: Any = {
                "a": (group_index, row_index, all_blocks, column_index),
                "b": (group_index, all_blocks, column_index, row_index),
                "out": (group_index, row_index, column_index, all_blocks),
            }[side]
            users = tiles[tile_index].tolist()
            block = tensor[
                group_begin:group_end, row_begin:row_end, column_begin:column_end
            ].flatten()
            for tile, (begin, end) in zip(
                users, shares_of(block.num_elements, len(users), tensor.dtype), strict=True
            ):
                graph.set_tile_mapping(block[begin:end], tile)


def _matrix_shape(argument: str, shape: object, rank: int) -> Shape:
    if isinstance(shape, (tuple, list)) and len(shape) == rank:
        try:
            sizes = tuple(int(size) for size in shape)
        except (TypeError, ValueError, OverflowError):
            sizes = (-1,)
        if min(sizes) >= 0 and sizes == tuple(shape):
            return sizes
    shape_text = "(rows, columns)" if rank == 2 else "(groups, rows, columns)"
    raise as_given(shape, argument, f"give {shape_text} as whole numbers of 0 or more.")
