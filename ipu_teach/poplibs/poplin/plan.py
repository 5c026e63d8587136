"""The planner of matrix products: how to partition them, which units multiply, and the cost.

[g, m, k] times [g, k, n] is partitioned four ways: the groups, the rows, the inner dimension, the
columns. A tile takes one block of each and computes g x m x n sums. If the inner dimension is
partitioned, the tiles that share a block of the result add their sums in a second superstep. A
product that does not fit into memory that way is done in several steps, one after the other: some
columns at a time, or a part of the inner dimension at a time, which adds to the sums so far.

The search is exhaustive: every partition is costed, as arrays, for machines of up to
`MOST_EXHAUSTIVE` tiles. Costs are PopLibs' own estimates of its vertices
(`ipu_teach.cost.vertices`) and the exchange of every block, as if each came from another tile and
no two tiles of a pair wanted the same. So a plan's cycles are at most a twentieth, and 50 for each
superstep, less than the model's of the graph that is built, and up to twice as many where the
operands are well placed. That holds for transposed operands too, if the plan is told of them: the
cycles of the transposes that tiles may need are added to those of the best plan. In an exhaustive
search over small products, the data that two tiles of a pair share changed the best plan of none.
The mapping of operands can change it, so they are best created for the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles, exchange_cycles
from ipu_teach.cost.vertices.parts import Size
from ipu_teach.errors import shown
from ipu_teach.graph.outline import table
from ipu_teach.poplibs import drawing
from ipu_teach.poplibs.drawing import DrawnMatrix
from ipu_teach.poplibs.library import advised, calling, check_sizes, library, refused
from ipu_teach.poplibs.options import Options, as_number
from ipu_teach.poplibs.placing import balanced_partition, sensible_parts
from ipu_teach.poplibs.poplin.wishes import MEMORY_PROPORTION, Wish, wish_of
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, QUARTER, Array, DType, as_dtype

__all__ = ["MatMulPlan", "PlanningCache", "plan_mat_mul"]

# tiles; for larger machines, only `THINNED` partitions of each dimension are tried
MOST_EXHAUSTIVE = 4096
THINNED = 24
MOST_STEPS = 256  # consecutive steps, each of which is a compute set
LEAST_INNER, LEAST_COLUMNS = 16, 16  # of a step: a panel of the matrix-multiply units
METHODS = ("AMP", "HMAC")  # the matrix-multiply units, and dot products on the workers
Costs = dict[str, Array]


@dataclass(frozen=True)
class Product:
    """A product to be planned: [groups, m, k] times [groups, k, n], with its dtypes.

    `dtype` is that of both operands, `partials` that of the sums, and `out` that of the result.
    `wide_loads` and `fast_reduce` are those of a `Wish`.
    """

    m: int
    k: int
    n: int
    groups: int
    dtype: type[DType]
    partials: type[DType]
    out: type[DType]
    wide_loads: bool = False
    fast_reduce: bool = False

    @property
    def finished(self) -> bool:
        """Whether undivided sums are results without a conversion."""
        return self.partials is self.out

    @property
    def empty(self) -> bool:
        """Whether there is nothing to multiply."""
        return 0 in (self.groups, self.m, self.k, self.n)

    def shapes(self) -> str:
        """Return the shapes of both operands, as text."""
        lead = f"{self.groups}, " if self.groups > 1 else ""
        return f"[{lead}{self.m}, {self.k}] x [{lead}{self.k}, {self.n}]"


@advised("give what plan_mat_mul returns.")
@dataclass(frozen=True, repr=False)
class MatMulPlan:
    """The partition of a product into blocks, and its modelled cost.

    Print it, or show it in a notebook.

    Attributes:
        row_blocks: blocks of rows; all blocks are on different tiles.
        inner_blocks: blocks of the inner dimension.
        column_blocks: blocks of columns.
        group_blocks: blocks of groups.
        inner_steps: consecutive steps of the inner dimension.
        column_steps: consecutive steps of the columns.
        method: "AMP" (ConvPartial1x1) or "HMAC" (ConvPartialHorizontalMac).
        cycles: the modelled cycles of all supersteps.
        parts: (label, cycles) of each activity, including syncs.
        temporary_bytes: the bytes of blocks and sums on the fullest tile, in addition to its
            parts of the operands and of the result.
    """

    product: Product
    row_blocks: int
    inner_blocks: int
    column_blocks: int
    group_blocks: int
    inner_steps: int
    column_steps: int
    method: str
    cycles: int
    parts: tuple[tuple[str, int], ...]
    temporary_bytes: int
    num_tiles: int

    @property
    def m(self) -> int:
        """The number of rows of the result."""
        return self.product.m

    @property
    def k(self) -> int:
        """The size of the inner dimension."""
        return self.product.k

    @property
    def n(self) -> int:
        """The number of columns of the result."""
        return self.product.n

    @property
    def num_blocks(self) -> int:
        """The number of blocks in each step, which is that of busy tiles."""
        return self.group_blocks * self.row_blocks * self.inner_blocks * self.column_blocks

    def groups(self) -> list[tuple[int, int]]:
        """Return the interval (begin, end) of each block of groups."""
        return balanced_partition(self.product.groups, self.group_blocks)

    def rows(self) -> list[tuple[int, int]]:
        """Return the interval (begin, end) of each block of rows of A and C."""
        return balanced_partition(self.m, self.row_blocks)

    def inner(self, step: int = 0) -> list[tuple[int, int]]:
        """Return the interval (begin, end) of each block of columns of A in a step."""
        return _within(self.k, self.inner_steps, step, self.inner_blocks)

    def columns(self, step: int = 0) -> list[tuple[int, int]]:
        """Return the interval (begin, end) of each block of columns of B and C in a step."""
        return _within(self.n, self.column_steps, step, self.column_blocks)

    def __repr__(self) -> str:
        names = (
            ("groups", self.group_blocks),
            ("rows", self.row_blocks),
            ("inner", self.inner_blocks),
            ("columns", self.column_blocks),
        )
        cut = ", ".join(f"{name} in {count:,}" for name, count in names if count > 1) or "not cut"
        steps = self.inner_steps * self.column_steps
        one_by_one = (
            ""
            if steps == 1
            else (
                f"; {steps:,} steps, {self.column_steps:,} of columns by {self.inner_steps:,} of "
                "inner"
            )
        )
        return (
            f"MatMulPlan({self.product.shapes()}, {_named(self.product)}, {self.num_blocks:,} of "
            f"{self.num_tiles:,} tiles: {cut}{one_by_one}; {self.method}; {self.cycles:,} modelled "
            f"cycles, {self.temporary_bytes:,} bytes for a while)"
        )

    def _repr_html_(self) -> str:
        rows = self.row_blocks
        inner = self.inner_blocks
        columns = self.column_blocks
        a, b = (
            DrawnMatrix("A", self.m, self.k, inner, rows),
            DrawnMatrix("B", self.k, self.n, columns, inner),
        )
        parts = [(label, f"{cycles:,}") for label, cycles in self.parts]
        picture = drawing.product(a, b, DrawnMatrix("C", self.m, self.n, columns, rows), repr(self))
        return picture + table(repr(self), ("part", "modelled cycles"), parts, "parts")


def _within(size: int, steps: int, step: int, blocks: int) -> list[tuple[int, int]]:
    begin, end = balanced_partition(size, steps)[step]
    return [(begin + low, begin + high) for low, high in balanced_partition(end - begin, blocks)]


def _named(product: Product) -> str:
    """Return the dtypes of a product as text, such as "HALF with sums of FLOAT"."""
    sums = "" if product.partials is product.dtype else f" with sums of {product.partials.__name__}"
    wide = (
        ", 128 bits of weights a cycle" * product.wide_loads
        + ", fast reduction" * product.fast_reduce
    )
    return (
        product.dtype.__name__
        + sums
        + ("" if product.out is product.dtype else f" to {product.out.__name__}")
        + wide
    )


@library
def plan_mat_mul(
    m: int,
    k: int,
    n: int,
    target: Target,
    *,
    groups: int = 1,
    dtype: type[DType] = FLOAT,
    out_type: type[DType] | None = None,
    partials_type: type[DType] | str | None = None,
    available_memory_proportion: float | str = MEMORY_PROPORTION,
    options: Options | None = None,
    transpose_a: bool = False,
    transpose_b: bool = False,
) -> MatMulPlan:
    """Return the cheapest plan for [groups, m, k] x [groups, k, n] on `target`.

    The options are those of `mat_mul`. `transpose_a` and `transpose_b` tell whether the operand is
    a transposed view, as in the backward pass of a layer. The plan is the same, but its cycles
    include the transposes that tiles may need.

    If no plan fits within `available_memory_proportion` of a tile, it is the plan that needs the
    least memory. Plans are cached. Raises `PoplibsError` for sizes below 1, unsupported dtypes and
    products that fit on no tile, and `InvalidOptionError`.
    """
    check_sizes(target, 1, m=m, k=k, n=n, groups=groups)
    wish = wish_of(options, partials_type, available_memory_proportion)
    product = product_of((int(groups), int(m), int(k), int(n)), dtype, out_type, wish)
    plan = planned(product, target, wish)
    assert plan is not None, "every size is 1 or more"
    sides = "a" * bool(transpose_a) + "b" * bool(transpose_b)
    return _with_transposes(plan, target, sides) if sides else plan


def _with_transposes(plan: MatMulPlan, target: Target, sides: Sequence[str]) -> MatMulPlan:
    """Return the plan with cycles and bytes that include the transposes of the operands `sides`."""
    cycles = transpose_cycles(plan, target, sides)
    shares = (_transposed_share(plan, side) for side in sides)
    num_bytes = sum(rows * columns for rows, columns in shares) * plan.product.dtype.size
    groups = -(-plan.product.groups // plan.group_blocks)
    return replace(
        plan,
        cycles=plan.cycles + cycles,
        parts=(*plan.parts, ("transposes", cycles)),
        temporary_bytes=plan.temporary_bytes + groups * num_bytes,
    )


def transpose_cycles(plan: MatMulPlan, target: Target, sides: Sequence[str]) -> int:
    """Return the modelled cycles to transpose the blocks of operands in separate supersteps.

    They are 0 for dtypes that are not transposed.
    """
    if plan.product.dtype.size not in (2, 4):
        return 0
    groups = -(-plan.product.groups // plan.group_blocks)
    superstep = target.internal_sync_cycles + int(arrival_cycles(target).max())
    # the columns of b, and thereby the transposed data, change with every step
    steps = {"a": plan.inner_steps, "b": plan.inner_steps * plan.column_steps}
    cycles = superstep * max((steps[side] for side in sides), default=0)
    for side in sides:
        rows, columns = _transposed_share(plan, side)
        vertex = vertices.split_transpose((columns, rows), plan.product.dtype, target)
        cycles += steps[side] * groups * int(vertex)
    return cycles


def _transposed_share(plan: MatMulPlan, side: str) -> tuple[int, int]:
    """Return (rows, columns) of the largest part of a block that a tile transposes.

    The tiles that use a block divide its rows.
    """
    inner = max(end - begin for begin, end in plan.inner())
    columns = max(end - begin for begin, end in plan.columns())
    if side == "a":
        rows = -(-plan.m // plan.row_blocks)
        columns = inner
        users = plan.column_blocks
    else:
        rows = inner
        users = plan.row_blocks
    grain = vertices.transpose_grain(plan.product.dtype)
    grains = -(-rows // grain)
    return min(rows, -(-grains // users) * grain), columns


def product_of(
    sizes: tuple[int, int, int, int], dtype: object, out_type: object, wish: Wish
) -> Product:
    """Return the product of sizes (groups, m, k, n), with checked dtypes and all defaults.

    Raises `PoplibsError`.
    """
    kind = as_dtype(dtype, f"{calling()}()")
    quarter = issubclass(kind, QUARTER)
    if kind not in (FLOAT, HALF) and not quarter:
        raise refused(f"""multiplies FLOAT, HALF and QUARTER, but was given {kind.__name__}.
            next:  cast the operands with popops.cast.""")
    names = {"float": FLOAT, "half": HALF}
    partials_type = wish.partials
    sums = (
        names.get(partials_type, partials_type) if isinstance(partials_type, str) else partials_type
    )
    allowed = (HALF,) if quarter else (FLOAT,) if kind is FLOAT else (FLOAT, HALF)
    sums = allowed[0] if sums is None else sums
    if not any(sums is t for t in allowed):
        raise refused(f"""was given partials_type={shown(partials_type)} for operands of
            {kind.__name__}.
            next:  use {" or ".join(t.__name__ for t in allowed)}.""")
    out = (HALF if quarter else kind) if out_type is None else out_type
    if out is not FLOAT and out is not HALF:
        raise refused(f"was given out_type={shown(out_type)}.", next_step="use FLOAT or HALF.")
    groups, m, k, n = sizes
    types = kind, FLOAT if sums is FLOAT else HALF, FLOAT if out is FLOAT else HALF
    return Product(m, k, n, groups, *types, wish.wide_loads, wish.fast_reduce)


@advised("give a poplin.PlanningCache().")
class PlanningCache:
    """The plans of products that were built with this cache: `mat_mul(…, cache=cache)`.

    The kit caches all plans anyway; a separate cache shows which ones a program uses.
    """

    def __init__(self) -> None:
        self.plans: dict[tuple[Product, Target, float], MatMulPlan] = {}

    @property
    def size(self) -> int:
        """The number of plans in the cache."""
        return len(self.plans)

    def __repr__(self) -> str:
        return f"PlanningCache({self.size} plans)"


def planned(
    product: Product, target: Target, wish: Wish, cache: PlanningCache | None = None
) -> MatMulPlan | None:
    """Return the plan of `product`, or None if it is empty.

    Raises `PoplibsError` for an invalid memory proportion, and if no plan fits.
    """
    share = None if isinstance(wish.proportion, np.bool_) else as_number(wish.proportion)
    if share is None or not 0 <= share <= 1:
        raise refused(
            f"was given available_memory_proportion={shown(wish.proportion)}.",
            next_step="give a number from 0 to 1.",
        )
    if product.empty:
        return None
    plan = _best(product, target, share)
    if plan.temporary_bytes > target.bytes_per_tile:
        raise refused(f"""cannot partition {product.shapes()}: the smallest blocks need
            {plan.temporary_bytes:,} bytes of a tile, which has {target.bytes_per_tile:,}.
            next:  use more tiles, or multiply a part of the rows or columns at a time.""")
    if cache is not None:
        cache.plans[product, target, share] = plan
    return plan


@lru_cache(maxsize=1024)
def _best(product: Product, target: Target, proportion: float) -> MatMulPlan:
    """Return the cheapest plan within the memory limit, with as few steps as possible.

    If no plan is within the limit, it is the plan that needs the least memory.
    """
    limit = proportion * target.bytes_per_tile
    cuts = _all_cuts(product, target.num_tiles)
    cheapest: tuple[int, MatMulPlan] | None = None
    for level in _levels(product):
        plans: list[MatMulPlan] = []
        for inner_steps, column_steps in level:
            sizes = _sizes(product, cuts, inner_steps, column_steps)
            memory = _temporary_bytes(product, sizes)
            fits = memory <= limit
            if not fits.any():
                smallest = int(np.argmin(memory))
                if cheapest is None or memory[smallest] < cheapest[0]:
                    fits = memory == memory[smallest]
                    cheapest = (
                        int(memory[smallest]),
                        _cheapest(product, target, cuts, sizes, fits, inner_steps, column_steps),
                    )
                continue
            plans.append(_cheapest(product, target, cuts, sizes, fits, inner_steps, column_steps))
        if plans:
            return min(plans, key=lambda plan: plan.cycles)
    assert cheapest is not None, "one block is always possible"
    return cheapest[1]


def _levels(product: Product) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of (steps of the inner dimension, steps of the columns) to try.

    A list contains combinations with equally many steps; the fewest come first.
    """
    powers = [2**i for i in range(MOST_STEPS.bit_length())]
    inner = [s for s in powers if s == 1 or s * LEAST_INNER <= product.k]
    columns = [s for s in powers if s == 1 or s * LEAST_COLUMNS <= product.n]
    for steps in powers:
        level = [(i, c) for i in inner for c in columns if i * c == steps]
        if not level:
            return
        yield level


def _all_cuts(product: Product, tiles: int) -> Costs:
    """Return all partitions of groups, rows, inner dimension and columns that fit the tiles.

    They are arrays of equal length. There is a tile for each block.
    """
    sizes = {"groups": product.groups, "rows": product.m, "inner": product.k, "columns": product.n}
    costs: Costs = {}
    total: Array = np.ones(1, np.int64)
    for name, size in sizes.items():
        parts = sensible_parts(size, tiles)
        if tiles > MOST_EXHAUSTIVE and len(parts) > THINNED:
            parts = parts[
                np.unique(np.searchsorted(parts, np.geomspace(1, parts[-1], THINNED).round()))
            ]
        old, new = np.nonzero(total[:, None] * parts <= tiles)
        costs = {key: values[old] for key, values in costs.items()} | {name: parts[new]}
        total = total[old] * parts[new]
    return costs


def _sizes(product: Product, cuts: Costs, inner_steps: int, column_steps: int) -> Costs:
    """Return the sizes of the largest block of each plan, and two sizes of its smallest block."""
    inner = -(-product.k // inner_steps)
    columns = -(-product.n // column_steps)
    return {
        "groups": -(-product.groups // cuts["groups"]),
        "rows": -(-product.m // cuts["rows"]),
        "inner": -(-inner // cuts["inner"]),
        "columns": -(-columns // cuts["columns"]),
        "parts": cuts["inner"],
        "fewest rows": product.m // cuts["rows"],
        "least inner": product.k // inner_steps // cuts["inner"],
    }


def _temporary_bytes(product: Product, sizes: Costs) -> Array:
    """Return int64: the temporary bytes on the fullest tile while its blocks are multiplied, or
    while sums are added."""
    groups, rows, inner, columns, parts, *_ = sizes.values()
    blocks = groups * inner * (rows + columns) * product.dtype.size
    sums = groups * rows * columns
    partial_bytes = np.where((parts > 1) | (not product.finished), sums * product.partials.size, 0)
    shared = np.where(parts > 1, -(-sums // parts) * (parts - 1) * product.partials.size, 0)
    peak_bytes: Array = partial_bytes + np.maximum(blocks, shared)
    return peak_bytes


def _multiply_cycles(product: Product, target: Target, sizes: Costs, method: str) -> Array:
    """Return int64: the tile cycles of the products of one group on the slowest tile.

    A smaller block may take longer: the AMP units with two rows for each worker instead of three,
    and dot products with an inner dimension that is not a multiple of the vector width.
    """
    columns = sizes["columns"]
    types = (product.dtype, product.partials)
    smaller = ("fewest rows", "inner") if method == "AMP" else ("rows", "least inner")
    slowest: Array = np.maximum(
        *(
            np.asarray(
                multiply_cycles(
                    method, sizes[rows], sizes[inner], columns, *types, target, product.wide_loads
                )
            )
            for rows, inner in (("rows", "inner"), smaller)
        )
    )
    return slowest


def multiply_cycles(
    method: str,
    rows: Size,
    inner: Size,
    columns: Size,
    dtype: type[DType],
    partials: type[DType],
    target: Target,
    wide_loads: bool = False,
) -> Size:
    """Return PopLibs' estimate of tile cycles for [rows, inner] x [inner, columns]."""
    if issubclass(dtype, QUARTER):
        return vertices.conv_partial_1x1_quarter(
            rows, inner, columns, target, interleaved=wide_loads
        )
    if method == "HMAC":
        columns_written = (
            columns + columns % 2 if partials is HALF else columns
        )  # HALF sums come in pairs
        return vertices.conv_partial_horizontal_mac(
            rows, inner, columns_written, dtype, target, partials=partials
        )
    return vertices.conv_partial_1x1(
        rows, inner, columns, dtype, target, partials=partials, interleaved=wide_loads
    )


def _cheapest(
    product: Product,
    target: Target,
    cuts: Costs,
    sizes: Costs,
    fits: Array,
    inner_steps: int,
    column_steps: int,
) -> MatMulPlan:
    """Return the cheapest plan among those that fit, with its costs."""
    cuts = {name: values[fits] for name, values in cuts.items()}
    sizes = {name: values[fits] for name, values in sizes.items()}
    memory = _temporary_bytes(product, sizes)
    best: tuple[int, int, str, Costs] | None = None
    for method in METHODS[: 1 if issubclass(product.dtype, QUARTER) else None]:
        parts = _costs(product, target, sizes, method, inner_steps, column_steps)
        total = sum(parts.values(), np.zeros(len(memory), np.int64))
        i = int(np.argmin(total))
        if best is None or total[i] < best[0]:
            best = int(total[i]), i, method, parts
    assert best is not None, "there is a method for every type"
    cycles, i, method, parts = best
    return MatMulPlan(
        product,
        row_blocks=int(cuts["rows"][i]),
        inner_blocks=int(cuts["inner"][i]),
        column_blocks=int(cuts["columns"][i]),
        group_blocks=int(cuts["groups"][i]),
        inner_steps=inner_steps,
        column_steps=column_steps,
        method=method,
        cycles=cycles,
        parts=tuple((name, int(values[i])) for name, values in parts.items() if values[i]),
        temporary_bytes=int(memory[i]),
        num_tiles=target.num_tiles,
    )


def _costs(
    product: Product, target: Target, sizes: Costs, method: str, inner_steps: int, column_steps: int
) -> Costs:
    """Return the modelled cycles of each plan, by activity."""
    groups, rows, inner, columns, parts, *_ = sizes.values()
    steps = inner_steps * column_steps
    superstep = target.internal_sync_cycles + int(arrival_cycles(target).max())
    sums = groups * rows * columns
    share = -(-sums // parts)
    split = parts > 1
    fast = product.fast_reduce
    added = np.asarray(
        vertices.conv_reduce(
            share, parts, product.partials, target, out=product.out, interleaved=fast
        )
    )
    casts: Array = np.zeros(len(parts), np.int64)
    if not product.finished:
        cast = (
            np.asarray(vertices.cast_1d(sums, product.partials, product.out, target))
            + target.internal_sync_cycles
        )
        casts = np.where(split, 0, cast * column_steps)
    return {
        "exchange of blocks": steps
        * exchange_cycles(groups * inner * (rows + columns) * product.dtype.size, target),
        "multiply": steps * groups * _multiply_cycles(product, target, sizes, method),
        "exchange of sums": np.where(
            split,
            column_steps * exchange_cycles(share * (parts - 1) * product.partials.size, target),
            0,
        ),
        "add sums": np.where(split, column_steps * added, 0),
        "cast": casts,
        "sync and latency": superstep * (steps + np.where(split, column_steps, 0)),
    }
