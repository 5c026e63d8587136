"""Create operands and results of a product, mapped as its plan needs them, and print the plan."""

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


def _created(
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
    """Return a variable for one side of a product.

    `side` is (number of dimensions, "a", "b" or "out").
    """
    wish = out_type, options, partials_type, available_memory_proportion
    return _made(graph, dtype, (a_shape, b_shape), name, wish, side)


@variant(_created, (2, "a"))
def create_mat_mul_input_lhs() -> None:
    """Return a variable of `a_shape` (m, k), mapped for `mat_mul` with a b of `b_shape` (k, n).

    `out_type` and the options are those of the product. Each block of the plan is distributed over
    the tiles that multiply it, so it is exchanged only if several tiles need it. Raises
    `PoplibsError` and `InvalidOptionError`.
    """


@variant(_created, (2, "b"))
def create_mat_mul_input_rhs() -> None:
    """Return a variable of `b_shape` (k, n), mapped for `mat_mul` with an a of `a_shape` (m, k).

    Everything else is as for `create_mat_mul_input_lhs`.
    """


@variant(_created, (2, "out"))
def create_mat_mul_output() -> None:
    """Return a variable (m, n), mapped like the result of `mat_mul` of `a_shape` and `b_shape`.

    The shapes are (m, k) and (k, n). The dtype of the variable is `out_type`, by default the dtype
    of the product. The variable can be the accumulator of `mat_mul_acc`, for example. Raises
    `PoplibsError` and `InvalidOptionError`.
    """


@variant(_created, (3, "a"))
def create_mat_mul_grouped_input_lhs() -> None:
    """Return a variable as `create_mat_mul_input_lhs` does, for `mat_mul_grouped`.

    `a_shape` is (groups, m, k), and `b_shape` (groups, k, n).
    """


@variant(_created, (3, "b"))
def create_mat_mul_grouped_input_rhs() -> None:
    """Return a variable as `create_mat_mul_input_rhs` does, for `mat_mul_grouped`.

    `a_shape` is (groups, m, k), and `b_shape` (groups, k, n).
    """


@variant(_created, (3, "out"))
def create_mat_mul_grouped_output() -> None:
    """Return a variable as `create_mat_mul_output` does, for `mat_mul_grouped`.

    `a_shape` is (groups, m, k), and `b_shape` (groups, k, n).
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
    """Return a copy of b [k, n], mapped for `mat_mul` with an a of `a_shape` (m, k).

    Use it to arrange an operand once, before many products. The options are those of the product.
    Raises `PoplibsError` and `InvalidOptionError`.
    """
    wish = out_type, options, partials_type, available_memory_proportion
    rearranged = _made(graph, b.dtype, (a_shape, b.shape), f"{debug_context}/b", wish, (2, "b"))
    prog.add(Copy(b, rearranged))
    return rearranged


def _reported(
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
    _, full_product, plan = _planned(graph, dtype, (a_shape, b_shape), wish, rank)
    print(
        repr(plan)
        if plan is not None
        else f"{full_product.shapes()} is empty: nothing is multiplied.",
        file=file,
    )
    for part, cycles in plan.parts if plan is not None else ():
        print(f"  {part + ':':30} {cycles:>12,} modelled cycles", file=file)


@variant(_reported, 2)
def mat_mul_report_plan() -> None:
    """Print the plan of `mat_mul` for `a_shape` (m, k) and `b_shape` (k, n), with its cycles.

    `plan_mat_mul` returns the same plan as a value. `file` is a text file, by default the screen.
    Raises `PoplibsError`.
    """


@variant(_reported, 3)
def mat_mul_grouped_report_plan() -> None:
    """Print a plan as `mat_mul_report_plan` does, for `mat_mul_grouped`.

    `a_shape` is (groups, m, k), and `b_shape` (groups, k, n).
    """


def _planned(
    graph: Graph, dtype: object, shapes: tuple[object, object], wish: tuple[Any, ...], rank: int
) -> tuple[list[int], Product, MatMulPlan | None]:
    """Return (groups, product, plan) for operands of the two `shapes`.

    `wish` is (out_type, options, partials_type, available_memory_proportion). `groups` is an empty
    list if `rank` is 2, and otherwise contains the number of groups. The plan of an empty product
    is None.
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


def _made(
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
    groups, full_product, plan = _planned(graph, dtype, shapes, wish, rank)
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
    """Map each block of `tensor` [groups, …] to the tiles that use it, in equal shares.

    `side` is "a", "b" or "out": which part of the plan's product the tensor is.
    """
    tiles = tiles_of(plan, graph.target.num_tiles)  # [groups, rows, columns, inner]
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
    raise as_given(shape, argument, f"give {shape_text}, whole numbers, none negative.")
