"""Matrix products on a graph, by a plan: multiply blocks, add partial sums, convert."""

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

INNER = "a has as many columns as b has rows; perhaps one of them is to be transposed."
Plan = MatMulPlan | None


def _multiplied(
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
    full_product, settled_plan = _settled(graph, a, b, out_type, wish, plan, cache)
    left, right = (t if rank == 3 else t.expand((0,)) for t in (a, b))
    result = _mat_mul(graph, full_product, settled_plan, left, right, prog, debug_context)
    return result if rank == 3 else result[0]


@variant(_multiplied, 2)
def mat_mul() -> None:
    """Return the matrix product [m, n] of a [m, k] and b [k, n]: both FLOAT, both HALF, or both
    QUARTER (of any format and scale).

    `out_type` is FLOAT or HALF, by default the operands' own, for QUARTER HALF. `partials_type` is
    the type of the sums: FLOAT, or HALF for operands of HALF, which is faster and coarser; QUARTER
    is always added in HALF. `available_memory_proportion` limits the share of a tile's memory for
    blocks and sums (0 to 1, PopLibs' default 0.6); if no plan keeps within it, the one that needs
    least is used. `options` are PopLibs' own, in a dict: these two, "use128BitConvUnitLoad"
    (weights are loaded 128 bits a cycle) and "enableFastReduce" (so are partial sums);
    "fullyConnectedPass", "inputRHSIsPreArranged", "enableMultiStageReduce" and "remapOutputTensor"
    are accepted and change nothing. `plan` replaces the plan of `plan_mat_mul`. `cache` is a
    `PlanningCache` that stores the plan.

    The value of a block is numpy's `a_block @ b_block` in the precision of the sums. Partial sums
    are added first to last, and the result is rounded once. It is on the tiles that computed it.
    Compute sets: multiply, and perhaps reduce or cast; an empty product has none. If a tile would
    have to gather the rows of a transposed view element by element, another tile takes its block,
    or one more compute set transposes the blocks. Modelled cycles: the plan's. Raises
    `PoplibsError` and `InvalidOptionError`.
    """


@variant(_multiplied, 3)
def mat_mul_grouped() -> None:
    """Return the products [groups, m, n] of a [groups, m, k] and b [groups, k, n]."""


def _accumulated(
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
    where = f"c {c!r}, a {a!r} and b {b!r}"
    check_same("shapes", c.shape, shape, where, "give c the rows of a and the columns of b.")
    full_product, plan = _settled(graph, a, b, c.dtype, wish, None, cache)
    check_finite("k", check_factor(graph, "k", k, c.dtype))
    if plan is None:
        return
    left, right = (t if rank == 3 else t.expand((0,)) for t in (a, b))
    result = _mat_mul(graph, full_product, plan, left, right, prog, debug_context).reshape(c.shape)
    scaled_add_to(graph, c, result, k, prog, f"{debug_context}/add")


@variant(_accumulated, 2)
def mat_mul_acc() -> None:
    """Add k * (a @ b) to c [m, n], FLOAT or HALF.

    a and b are as for `mat_mul`; k is a number, or one element of c's dtype. The product is
    computed in c's dtype, and added as by `popops.scaled_add_to`: multiplied by k, rounded, added,
    rounded.
    """


@variant(_accumulated, 3)
def mat_mul_grouped_acc() -> None:
    """Add k * (a @ b) to c [groups, m, n] for each group; see `mat_mul_acc`."""


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


def _settled(
    graph: Graph,
    a: Tensor,
    b: Tensor,
    out_type: object,
    wish: Wish,
    plan: Plan,
    cache: PlanningCache | None,
) -> tuple[Product, Plan]:
    """Return (product, plan) of operands [m, k] and [k, n], after all checks.

    An empty product has no plan.
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
    wanted = product_of((groups, a.shape[-2], a.shape[-1], b.shape[-1]), a.dtype, out_type, wish)
    if plan is None:
        return wanted, planned(wanted, graph.target, wish, cache)
    sizes = (plan.product.groups, plan.m, plan.k, plan.n)
    if (
        sizes != (wanted.groups, wanted.m, wanted.k, wanted.n)
        or plan.num_blocks > graph.target.num_tiles
    ):
        raise refused(f"""was given a plan of {plan.product.shapes()} on {plan.num_blocks:,} tiles
            for a product of {wanted.shapes()} on {graph.target.num_tiles:,}.
            next:  plan the product that is to be made: poplin.plan_mat_mul(m, k, n,
            graph.target).""")
    types = plan.product.partials, plan.product.out
    if types != (wanted.partials, wanted.out):
        raise refused(f"""was given a plan with sums of {types[0].__name__} and a result of
            {types[1].__name__} for operands of {a.dtype.__name__}, sums of
            {wanted.partials.__name__} and a result of {wanted.out.__name__}.
            next:  give plan_mat_mul the same dtype, out_type and partials_type.""")
    return plan.product, plan


def _mat_mul(
    graph: Graph, full_product: Product, plan: Plan, a: Tensor, b: Tensor, prog: Program, name: str
) -> Tensor:
    """Return the product [groups, m, n] of [groups, m, k] and [groups, k, n], by a plan."""
    if plan is None:
        out = linear(
            graph,
            full_product.out,
            (full_product.groups, full_product.m, full_product.n),
            f"{name}/out",
        )
        if out.num_elements:  # sums without terms
            zero(graph, out, prog, f"{name}/zero")
        return out
    tiles = tiles_of(plan, graph.target.num_tiles)
    strided = Strided(graph, plan, a, b, tiles)
    tiles = strided.tiles
    pieces = []
    for step in range(plan.column_steps):
        suffix = "" if plan.column_steps == 1 else f"/{step}"
        partials = _multiply(graph, plan, strided, step, prog, name, suffix)
        if plan.inner_blocks > 1:
            pieces.append(_add_up(graph, plan, partials, tiles, step, prog, name, suffix))
        elif not plan.product.finished:
            pieces.append(cast(graph, partials[0], plan.product.out, prog, f"{name}/cast{suffix}"))
        else:
            pieces.append(partials[0])
    return pieces[0] if len(pieces) == 1 else concat(pieces, 2)


def _multiply(
    graph: Graph,
    plan: MatMulPlan,
    strided: Strided,
    step: int,
    prog: Program,
    name: str,
    suffix: str,
) -> Tensor:
    """Return the sums [inner_blocks, groups, m, columns of the step]: a compute set for each step
    of the inner dimension."""
    full_product = plan.product
    c_low = plan.columns(step)[0][0]
    c_high = plan.columns(step)[-1][1]
    kind = "out" if plan.inner_blocks == 1 and full_product.finished else "partials"
    shape = (plan.inner_blocks, full_product.groups, full_product.m, c_high - c_low)
    partials = graph.add_variable(full_product.partials, shape, f"{name}/{kind}{suffix}")
    tiles = strided.tiles
    for inner_step in range(plan.inner_steps):
        number = "" if plan.inner_steps == 1 else f"/{inner_step}"
        a, b = strided.operands((inner_step, step), prog, f"{name}/transpose{suffix}{number}")
        left, right = (
            t.reinterpret(UNSIGNED_CHAR) if issubclass(t.dtype, QUARTER) else t for t in (a, b)
        )
        compute_set = graph.add_compute_set(f"{name}/multiply{suffix}{number}")
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
            (plan.groups(), plan.rows(), plan.columns(step), plan.inner(inner_step)),
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
    step: int,
    prog: Program,
    name: str,
    suffix: str,
) -> Tensor:
    """Return the sums of the inner blocks; each block of the result is divided over its tiles."""
    full_product = plan.product
    out = graph.add_variable(full_product.out, partials.shape[1:], f"{name}/out{suffix}")
    compute_set = graph.add_compute_set(f"{name}/reduce{suffix}")
    codelet = adder(full_product.partials, full_product.out, full_product.fast_reduce)
    low = plan.columns(step)[0][0]
    columns = [(begin - low, end - low) for begin, end in plan.columns(step)]
    parts = plan.groups(), plan.rows(), columns
    add_sums(graph, compute_set, codelet, partials, out, parts, tiles)
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
    """Add vertices that sum the rows of `sums` into `out`, which is divided over `tiles`."""
    shares = shares_of(out.num_elements, len(tiles), out.dtype)
    for tile, (low, high) in zip(tiles, shares, strict=True):
        if low < high:
            edges = {"x": sums[:, low:high], "out": out[low:high]}
            put(graph, into, tile, codelet, edges, edges["out"])
