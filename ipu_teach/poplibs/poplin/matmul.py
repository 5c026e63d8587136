"""Matrix products that follow a plan: multiply blocks, add partial sums, convert the result."""

from __future__ import annotations

from ipu_teach.graph import ComputeSet, Graph, Tensor, Vertex, concat
from ipu_teach.poplibs.laying import linear, put
from ipu_teach.poplibs.library import (
    OWN,
    Free,
    check_mapped,
    check_same,
    check_tensor,
    refused,
    variant,
)
from ipu_teach.poplibs.options import Options
from ipu_teach.poplibs.poplin.blocks import add_multiplications, add_sums, shares_of
from ipu_teach.poplibs.poplin.matmul_codelets import adder, multiplier
from ipu_teach.poplibs.poplin.plan import MatMulPlan, PlanningCache, Product, planned, product_of
from ipu_teach.poplibs.poplin.strided import Strided, tiles_of
from ipu_teach.poplibs.poplin.wishes import MEMORY_PROPORTION, Wish, wish_of
from ipu_teach.poplibs.popops import cast, scaled_add_to, zero
from ipu_teach.poplibs.popops.operands import check_factor, check_finite
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import FLOAT, HALF, QUARTER, UNSIGNED_CHAR, Array, DType

__all__ = ["mat_mul", "mat_mul_acc", "mat_mul_grouped", "mat_mul_grouped_acc"]

INNER = "give b as many rows as a has columns; perhaps transpose one of them."
Plan = MatMulPlan | None


def _mat_mul_of_rank(
    rank: int,
    graph: Graph,
    a: Free,
    b: Free,
    prog: Program,
    debug_context: str = OWN,
    *,
    out_type: type[DType] | None = None,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
    plan: Plan = None,
    cache: PlanningCache | None = None,
) -> Tensor:
    _check_ranks(graph, rank, a=a, b=b)
    wish = wish_of(options, partials_type, available_memory_proportion)
    full_product, settled_plan = _product_and_plan(graph, a, b, out_type, wish, plan, cache)
    left, right = (operand if rank == 3 else operand.expand((0,)) for operand in (a, b))
    result = _mat_mul(graph, full_product, settled_plan, left, right, prog, debug_context)
    return result if rank == 3 else result[0]


@variant(_mat_mul_of_rank, 2)
def mat_mul() -> None:
    """Return the matrix product [m, n] of a [m, k] and b [k, n].

    The operands are both FLOAT, both HALF, or both QUARTER (of any format and scale).

    * `out_type` is the dtype of the result, FLOAT or HALF. By default it is the operands' dtype,
      and HALF for QUARTER.
    * `partials_type` is the dtype of the sums over k. For HALF operands it may be HALF, which is
      faster and less precise than FLOAT. Products of QUARTER are always added in HALF.
    * `available_memory_proportion` (0 to 1, by default 0.6 as in PopLibs) limits the fraction of a
      tile's memory that the blocks of the operands and the sums may take. If no plan is within the
      limit, the plan that needs the least memory is used.
    * `options` is a dict of PopLibs options. "partialsType" and "availableMemoryProportion" have
      the meaning of the two keywords above. "use128BitConvUnitLoad" loads weights at 128 bits per
      cycle, and "enableFastReduce" reads partial sums at 128 bits per cycle.
      "fullyConnectedPass", "inputRHSIsPreArranged", "enableMultiStageReduce" and
      "remapOutputTensor" are accepted but have no effect.
    * `plan` is a plan to use instead of the plan that `plan_mat_mul` would return.
    * `cache` is a `PlanningCache` that stores the plan.

    The product of two blocks equals numpy's `a_block @ b_block`, computed in the precision of the
    sums. Partial sums are added in the order of k, and the result is rounded to `out_type` once.
    Each element of the result is mapped to the tile that computed it.

    For each step of the plan, the call appends a compute set that multiplies. If needed, another
    compute set adds partial sums or converts the result. For an empty product, the call only
    appends writes of zeros.

    If an operand is a transposed view, a tile may have to gather its rows element by element. To
    avoid that, other tiles multiply the blocks, or an additional compute set transposes the blocks
    before they are multiplied.

    :raises PoplibsError: if a shape, dtype or plan does not fit, or if no plan fits on a tile.
    :raises InvalidOptionError: if an option is invalid, or given as an option and as a keyword.
    """


@variant(_mat_mul_of_rank, 3)
def mat_mul_grouped() -> None:
    """Return the products [groups, m, n] of a [groups, m, k] and b [groups, k, n].

    The keywords, values and errors are those of `mat_mul`.
    """


def _mat_mul_acc_of_rank(
    rank: int,
    graph: Graph,
    c: Free,
    k: float | Tensor,
    a: Free,
    b: Free,
    prog: Program,
    debug_context: str = OWN,
    *,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
    cache: PlanningCache | None = None,
) -> None:
    wish = wish_of(options, partials_type, available_memory_proportion)
    _check_ranks(graph, rank, c=c, a=a, b=b)
    check_mapped(graph, "c", c)
    shape = (*a.shape[:-1], b.shape[-1])
    context = f"c {c!r}, a {a!r} and b {b!r}"
    check_same(
        "shapes", c.shape, shape, context, "give c as many rows as a, and as many columns as b."
    )
    full_product, plan = _product_and_plan(graph, a, b, c.dtype, wish, None, cache)
    check_finite("k", check_factor(graph, "k", k, c.dtype))
    if plan is None:
        return
    left, right = (operand if rank == 3 else operand.expand((0,)) for operand in (a, b))
    result = _mat_mul(graph, full_product, plan, left, right, prog, debug_context).reshape(c.shape)
    scaled_add_to(graph, c, result, k, prog, f"{debug_context}/add")


@variant(_mat_mul_acc_of_rank, 2)
def mat_mul_acc() -> None:
    """Add k * (a @ b) to c [m, n], in place.

    a [m, k] and b [k, n] are operands of `mat_mul`, and the keywords are those of `mat_mul`. c is
    FLOAT or HALF. The factor k is a number, or a tensor of one element with c's dtype. The product
    a @ b has c's dtype. `popops.scaled_add_to` then adds k times the product to c, and rounds as
    described there.

    :raises PoplibsError: if a shape, dtype or factor does not fit, or if no plan fits on a tile.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is invalid, or given as an option and as a keyword.
    """


@variant(_mat_mul_acc_of_rank, 3)
def mat_mul_grouped_acc() -> None:
    """Add k * (a @ b) to c [groups, m, n] for each group, in place.

    The operands are a [groups, m, k] and b [groups, k, n]. The factor k, the keywords and the
    errors are those of `mat_mul_acc`.
    """


def _check_ranks(graph: Graph, rank: int, **tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        check_tensor(graph, name, tensor, (rank,))
    if rank == 3:
        a, b = tensors["a"], tensors["b"]
        check_same(
            "numbers of groups",
            a.shape[0],
            b.shape[0],
            f"{a!r} and {b!r}",
            "give a and b equally many matrices.",
        )


def _product_and_plan(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    out_type: object,
    wish: Wish,
    plan: Plan,
    cache: PlanningCache | None,
) -> tuple[Product, Plan]:
    """Check the operands a [..., m, k] and b [..., k, n]; return their `Product` and its plan.

    If `plan` is None, the plan is computed; otherwise `plan` itself is returned. The plan of an
    empty product is None.

    :raises PoplibsError: if an operand, a dtype or `plan` does not fit.
    """
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in (FLOAT, HALF) and not issubclass(tensor.dtype, QUARTER):
            raise refused(
                f"multiplies FLOAT, HALF and QUARTER, but {name} is {tensor.dtype.__name__}.",
                tensor,
                "cast it with popops.cast.",
            )
        check_mapped(graph, name, tensor)
    if not (issubclass(a.dtype, QUARTER) and issubclass(b.dtype, QUARTER)):
        check_same(
            "dtypes", a.dtype, b.dtype, f"{a!r} and {b!r}", "cast one of them with popops.cast."
        )
    check_same("inner dimensions", a.shape[-1], b.shape[-2], f"{a!r} and {b!r}", INNER)
    groups = a.shape[0] if a.rank == 3 else 1
    wanted_product = product_of(
        (groups, a.shape[-2], a.shape[-1], b.shape[-1]), a.dtype, out_type, wish
    )
    if plan is None:
        return wanted_product, planned(wanted_product, graph.target, wish, cache)
    plan_sizes = (plan.product.groups, plan.m, plan.k, plan.n)
    if (
        plan_sizes != (wanted_product.groups, wanted_product.m, wanted_product.k, wanted_product.n)
        or plan.num_blocks > graph.target.num_tiles
    ):
        raise refused(f"""was given a plan for another product. The plan is for
            {plan.product.shapes()} on {plan.num_blocks:,} tiles; the call multiplies
            {wanted_product.shapes()} on {graph.target.num_tiles:,} tiles.
            next:  plan this product: poplin.plan_mat_mul(m, k, n, graph.target).""")
    plan_dtypes = plan.product.partials, plan.product.out
    if plan_dtypes != (wanted_product.partials, wanted_product.out):
        raise refused(f"""was given a plan with other dtypes. The plan has sums of
            {plan_dtypes[0].__name__} and a result of {plan_dtypes[1].__name__}; the call has
            operands of {a.dtype.__name__}, sums of {wanted_product.partials.__name__} and a result
            of {wanted_product.out.__name__}.
            next:  give plan_mat_mul the same dtype, out_type and partials_type.""")
    return plan.product, plan


def _mat_mul(
    graph: Graph, full_product: Product, plan: Plan, a: Tensor, b: Tensor, prog: Program, name: str
) -> Tensor:
    """Return the product [groups, m, n] of [groups, m, k] and [groups, k, n], computed by `plan`.

    If `plan` is None, a dimension of the product is 0, and the result contains zeros.
    """
    if plan is None:
        out = linear(
            graph,
            full_product.out,
            (full_product.groups, full_product.m, full_product.n),
            f"{name}/out",
        )
        # The size k is 0, so every element is an empty sum: 0.
        if out.num_elements:
            zero(graph, out, prog, f"{name}/zero")
        return out
    tiles = tiles_of(plan, graph.target.num_tiles)
    strided = Strided(graph, plan, a, b, tiles)
    tiles = strided.tiles
    results_of_steps = []
    for column_step in range(plan.column_steps):
        suffix = "" if plan.column_steps == 1 else f"/{column_step}"
        partials = _multiply(graph, plan, strided, column_step, prog, name, suffix)
        if plan.inner_blocks > 1:
            results_of_steps.append(
                _add_up(graph, plan, partials, tiles, column_step, prog, name, suffix)
            )
        elif not plan.product.finished:
            results_of_steps.append(
                cast(graph, partials[0], plan.product.out, prog, f"{name}/cast{suffix}")
            )
        else:
            results_of_steps.append(partials[0])
    return results_of_steps[0] if len(results_of_steps) == 1 else concat(results_of_steps, 2)


def _multiply(
    graph: Graph,
    plan: MatMulPlan,
    strided: Strided,
    column_step: int,
    prog: Program,
    name: str,
    suffix: str,
) -> Tensor:
    """Return the partial sums of one step of the columns; append the programs that compute them.

    The result is [inner_blocks, groups, m, columns of the step]: a sum for each block of the inner
    dimension. There is one compute set for each step of the inner dimension. The first one writes
    the sums, and each further one adds to them.
    """
    full_product = plan.product
    column_begin = plan.columns(column_step)[0][0]
    column_end = plan.columns(column_step)[-1][1]
    name_part = "out" if plan.inner_blocks == 1 and full_product.finished else "partials"
    shape = (plan.inner_blocks, full_product.groups, full_product.m, column_end - column_begin)
    partials = graph.add_variable(full_product.partials, shape, f"{name}/{name_part}{suffix}")
    tiles = strided.tiles
    for inner_step in range(plan.inner_steps):
        step_suffix = "" if plan.inner_steps == 1 else f"/{inner_step}"
        a, b = strided.operands(
            (inner_step, column_step), prog, f"{name}/transpose{suffix}{step_suffix}"
        )
        left, right = (
            operand.reinterpret(UNSIGNED_CHAR) if issubclass(operand.dtype, QUARTER) else operand
            for operand in (a, b)
        )
        compute_set = graph.add_compute_set(f"{name}/multiply{suffix}{step_suffix}")
        codelet = multiplier(
            plan.method,
            a.dtype,
            b.dtype,
            full_product.partials,
            inner_step > 0,
            full_product.wide_loads,
        )
        add_multiplications(
            graph,
            compute_set,
            codelet,
            (left, right, partials),
            (plan.groups(), plan.rows(), plan.columns(column_step), plan.inner(inner_step)),
            tiles,
            inner_step == 0,
        )
        prog.add(Execute(compute_set))
    return partials


def _add_up(
    graph: Graph,
    plan: MatMulPlan,
    partials: Tensor,
    tiles: Array,
    column_step: int,
    prog: Program,
    name: str,
    suffix: str,
) -> Tensor:
    """Append the addition of the partial sums; return the result [groups, m, columns of the step].

    `partials` is [inner_blocks, groups, m, columns of the step] with the columns of step number
    `column_step`. The tiles with the partial sums of a block divide the block's elements between
    them.
    """
    full_product = plan.product
    out = graph.add_variable(full_product.out, partials.shape[1:], f"{name}/out{suffix}")
    compute_set = graph.add_compute_set(f"{name}/reduce{suffix}")
    codelet = adder(full_product.partials, full_product.out, full_product.fast_reduce)
    first_column = plan.columns(column_step)[0][0]
    columns = [
        (begin - first_column, end - first_column) for begin, end in plan.columns(column_step)
    ]
    out_parts = plan.groups(), plan.rows(), columns
    add_sums(graph, compute_set, codelet, partials, out, out_parts, tiles)
    prog.add(Execute(compute_set))
    return out


def add_shared(
    graph: Graph,
    into: ComputeSet,
    codelet: type[Vertex],
    sums: Tensor,
    out: Tensor,
    tiles: list[int],
) -> None:
    """Add vertices that sum the rows of `sums` into the flat tensor `out`.

    The elements of `out` are divided over `tiles` and mapped to them, and each tile has one vertex.
    """
    shares = shares_of(out.num_elements, len(tiles), out.dtype)
    for tile, (share_begin, share_end) in zip(tiles, shares, strict=True):
        if share_begin < share_end:
            edges = {"x": sums[:, share_begin:share_end], "out": out[share_begin:share_end]}
            put(graph, into, tile, codelet, edges, edges["out"])
