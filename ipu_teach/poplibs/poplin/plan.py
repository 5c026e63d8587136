"""The planner of matrix products: it partitions a product and estimates its cycles and memory.

The product [g, m, k] times [g, k, n] is partitioned in four dimensions: the groups g, the rows m,
the inner dimension k and the columns n. A tile multiplies one block of each operand. If the inner
dimension is partitioned, the tiles that share a block of the result add their sums in a second
superstep. A product that does not fit into memory is computed in several consecutive steps. A step
multiplies some of the columns, or multiplies a part of the inner dimension and adds the products to
the sums so far.

The search is exhaustive for machines of up to `MOST_EXHAUSTIVE` tiles: it computes the cycles of
all partitions at once, as arrays. The cycles of vertices are PopLibs' own estimates
(`ipu_teach.cost.vertices`). For the exchange, the planner assumes that every block comes from
another tile. It also assumes that no two tiles need the same data, although two neighbouring tiles
could receive common data over their shared bus at twice the speed.

A plan's cycles differ from the cycles of the graph that is built for the plan. The plan's cycles
are too low by at most 5 % plus 50 cycles per superstep. If the operands are well placed, the plan's
cycles are up to twice as high as the graph's. The same limits hold for transposed operands if the
caller names them: the plan then includes the cycles of the transposes that tiles may need.

In an exhaustive search over small products, the best plan did not change when the model took into
account the data that two neighbouring tiles share. The mapping of the operands can change which
plan is best, so create the operands for the plan.
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

# On machines with more than MOST_EXHAUSTIVE tiles, the search tries at most THINNED numbers of
# blocks in each dimension.
MOST_EXHAUSTIVE = 4096
THINNED = 24
MOST_STEPS = 256  # The maximum number of consecutive steps in a plan. Each step is a compute set.
# A step has at least one panel of the matrix-multiply units: 16 inner elements by 16 columns.
LEAST_INNER, LEAST_COLUMNS = 16, 16
# "AMP" multiplies with the matrix-multiply units, and "HMAC" with dot products on worker threads.
METHODS = ("AMP", "HMAC")
Costs = dict[str, Array]


@dataclass(frozen=True)
class Product:
    """The sizes and dtypes of a product [groups, m, k] times [groups, k, n].

    `dtype` is the dtype of both operands, `partials` the dtype of the sums, and `out` the dtype of
    the result. If `wide_loads` is true, 128 bits of weights are loaded per cycle. If `fast_reduce`
    is true, 128 bits of partial sums are read per cycle.
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
        """Whether the sums have the dtype of the result. If so, they need no conversion."""
        return self.partials is self.out

    @property
    def empty(self) -> bool:
        """Whether one of the sizes is 0. If so, there is nothing to multiply."""
        return 0 in (self.groups, self.m, self.k, self.n)

    def shapes(self) -> str:
        """Return the shapes of both operands as text, such as "[2, 3] x [3, 4]"."""
        lead = f"{self.groups}, " if self.groups > 1 else ""
        return f"[{lead}{self.m}, {self.k}] x [{lead}{self.k}, {self.n}]"


@advised("give what plan_mat_mul returns.")
@dataclass(frozen=True, repr=False)
class MatMulPlan:
    """The partition of a product into blocks, and its modelled cost.

    A product may be computed in several consecutive steps, each of which multiplies some columns or
    a part of the inner dimension. Print the plan, or show it in a notebook.

    - `product`: the sizes and dtypes of the product.
    - `row_blocks`: the number of blocks of rows.
    - `inner_blocks`: the number of blocks of the inner dimension in each step.
    - `column_blocks`: the number of blocks of columns in each step.
    - `group_blocks`: the number of blocks of groups.
    - `inner_steps`: the number of steps into which the inner dimension is divided.
    - `column_steps`: the number of steps into which the columns are divided.
    - `method`: "AMP" for vertices of ConvPartial1x1, which use the matrix-multiply unit, or "HMAC"
      for vertices of ConvPartialHorizontalMac, which do not.
    - `cycles`: the modelled cycles of all supersteps.
    - `parts`: a pair (label, cycles) for each activity that takes cycles, including syncs.
    - `temporary_bytes`: the bytes of blocks and sums on the fullest tile. The variables of the
      operands and of the result, which are also partly on this tile, are not included.
    - `num_tiles`: the number of tiles of the machine.
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
        """The number of blocks in each step, which is the number of tiles that multiply."""
        return self.group_blocks * self.row_blocks * self.inner_blocks * self.column_blocks

    def groups(self) -> list[tuple[int, int]]:
        """Return the intervals (begin, end) of the blocks of groups."""
        return balanced_partition(self.product.groups, self.group_blocks)

    def rows(self) -> list[tuple[int, int]]:
        """Return the intervals (begin, end) of the blocks of rows of a and of the result."""
        return balanced_partition(self.m, self.row_blocks)

    def inner(self, step: int = 0) -> list[tuple[int, int]]:
        """Return the intervals (begin, end) of the inner dimension in step number `step`.

        There is one interval for each block. `step` counts the `inner_steps` steps.
        """
        return _within(self.k, self.inner_steps, step, self.inner_blocks)

    def columns(self, step: int = 0) -> list[tuple[int, int]]:
        """Return the intervals (begin, end) of the columns in step number `step`.

        There is one interval for each block. `step` counts the `column_steps` steps.
        """
        return _within(self.n, self.column_steps, step, self.column_blocks)

    def __repr__(self) -> str:
        block_counts = (
            ("groups", self.group_blocks),
            ("rows", self.row_blocks),
            ("inner", self.inner_blocks),
            ("columns", self.column_blocks),
        )
        partition = (
            ", ".join(f"{name} in {count:,}" for name, count in block_counts if count > 1)
            or "not cut"
        )
        num_steps = self.inner_steps * self.column_steps
        step_note = (
            ""
            if num_steps == 1
            else (
                f"; {num_steps:,} steps, {self.column_steps:,} of columns by {self.inner_steps:,} "
                "of inner"
            )
        )
        return (
            f"MatMulPlan({self.product.shapes()}, {_named(self.product)}, {self.num_blocks:,} of "
            f"{self.num_tiles:,} tiles: {partition}{step_note}; {self.method}; {self.cycles:,} "
            f"modelled cycles, {self.temporary_bytes:,} bytes for a while)"
        )

    def _repr_html_(self) -> str:
        row_blocks = self.row_blocks
        inner_blocks = self.inner_blocks
        column_blocks = self.column_blocks
        drawn_a, drawn_b = (
            DrawnMatrix("A", self.m, self.k, inner_blocks, row_blocks),
            DrawnMatrix("B", self.k, self.n, column_blocks, inner_blocks),
        )
        table_rows = [(label, f"{cycles:,}") for label, cycles in self.parts]
        picture = drawing.product(
            drawn_a,
            drawn_b,
            DrawnMatrix("C", self.m, self.n, column_blocks, row_blocks),
            repr(self),
        )
        return picture + table(repr(self), ("part", "modelled cycles"), table_rows, "parts")


def _within(size: int, steps: int, step: int, blocks: int) -> list[tuple[int, int]]:
    """Return the intervals (begin, end) of the blocks in step number `step` of a dimension.

    The dimension has `size` elements and is divided into `steps` steps, and each step into `blocks`
    blocks. The intervals are counted from the beginning of the whole dimension.
    """
    step_begin, step_end = balanced_partition(size, steps)[step]
    return [
        (step_begin + block_begin, step_begin + block_end)
        for block_begin, block_end in balanced_partition(step_end - step_begin, blocks)
    ]


def _named(product: Product) -> str:
    """Return the dtypes of a product as text, such as "HALF with sums of FLOAT"."""
    partials_note = (
        "" if product.partials is product.dtype else f" with sums of {product.partials.__name__}"
    )
    option_notes = (
        ", 128 bits of weights a cycle" * product.wide_loads
        + ", fast reduction" * product.fast_reduce
    )
    return (
        product.dtype.__name__
        + partials_note
        + ("" if product.out is product.dtype else f" to {product.out.__name__}")
        + option_notes
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
    """Return the fastest plan for the product [groups, m, k] x [groups, k, n].

    Only plans that fit into memory with the fewest steps are compared; the fastest has the fewest
    modelled cycles. `target` is the machine. The dtypes and options are those of `mat_mul`.
    `transpose_a` and `transpose_b` tell whether an operand is a transposed view. Transposed views
    do not change the partition, but the plan's cycles and temporary bytes then include the
    transposes that tiles may need.

    Temporary data is limited to `available_memory_proportion` of a tile's memory. If no plan is
    within this limit, the plan that needs the least memory is returned. Plans are cached.

    :raises PoplibsError: if a size is below 1, if a dtype or the memory proportion is invalid, or
        if even the smallest blocks do not fit on a tile.
    :raises InvalidOptionError: if an option is invalid.
    """
    check_sizes(target, 1, m=m, k=k, n=n, groups=groups)
    wish = wish_of(options, partials_type, available_memory_proportion)
    product = product_of((int(groups), int(m), int(k), int(n)), dtype, out_type, wish)
    plan = planned(product, target, wish)
    assert plan is not None, "every size is 1 or more"
    sides = "a" * bool(transpose_a) + "b" * bool(transpose_b)
    return _with_transposes(plan, target, sides) if sides else plan


def _with_transposes(plan: MatMulPlan, target: Target, sides: Sequence[str]) -> MatMulPlan:
    """Return a copy of `plan` whose cycles and bytes include transposes of the operands in `sides`.

    `sides` contains "a", "b" or both.
    """
    cycles = transpose_cycles(plan, target, sides)
    share_sizes = (_transposed_share(plan, side) for side in sides)
    num_bytes = sum(rows * columns for rows, columns in share_sizes) * plan.product.dtype.size
    groups_per_block = -(-plan.product.groups // plan.group_blocks)
    return replace(
        plan,
        cycles=plan.cycles + cycles,
        parts=(*plan.parts, ("transposes", cycles)),
        temporary_bytes=plan.temporary_bytes + groups_per_block * num_bytes,
    )


def transpose_cycles(plan: MatMulPlan, target: Target, sides: Sequence[str]) -> int:
    """Return the modelled cycles of the supersteps in which tiles transpose blocks of the operands.

    `sides` contains the operands to transpose: "a", "b" or both. The result is 0 unless an element
    has 2 or 4 bytes, because no vertex transposes other elements.
    """
    if plan.product.dtype.size not in (2, 4):
        return 0
    groups_per_block = -(-plan.product.groups // plan.group_blocks)
    superstep_cycles = target.internal_sync_cycles + int(arrival_cycles(target).max())
    # Blocks of b are different in every step. Blocks of a depend only on the inner step, so they
    # are transposed once for all steps of the columns.
    num_steps = {"a": plan.inner_steps, "b": plan.inner_steps * plan.column_steps}
    cycles = superstep_cycles * max((num_steps[side] for side in sides), default=0)
    for side in sides:
        share_rows, share_columns = _transposed_share(plan, side)
        vertex_cycles = vertices.split_transpose(
            (share_columns, share_rows), plan.product.dtype, target
        )
        cycles += num_steps[side] * groups_per_block * int(vertex_cycles)
    return cycles


def _transposed_share(plan: MatMulPlan, side: str) -> tuple[int, int]:
    """Return `(rows, columns)` of the largest part of a block that one tile transposes.

    The tiles that use a block of the operand `side` ("a" or "b") divide its rows among them.
    """
    inner_size = max(end - begin for begin, end in plan.inner())
    num_columns = max(end - begin for begin, end in plan.columns())
    if side == "a":
        num_rows = -(-plan.m // plan.row_blocks)
        num_columns = inner_size
        num_users = plan.column_blocks
    else:
        num_rows = inner_size
        num_users = plan.row_blocks
    grain_rows = vertices.transpose_grain(plan.product.dtype)
    num_grains = -(-num_rows // grain_rows)
    return min(num_rows, -(-num_grains // num_users) * grain_rows), num_columns


def product_of(
    sizes: tuple[int, int, int, int], dtype: object, out_type: object, wish: Wish
) -> Product:
    """Return a `Product` of the sizes (groups, m, k, n); check dtypes and fill in defaults.

    :raises PoplibsError: if a dtype is not supported.
    """
    operand_dtype = as_dtype(dtype, f"{calling()}()")
    is_quarter = issubclass(operand_dtype, QUARTER)
    if operand_dtype not in (FLOAT, HALF) and not is_quarter:
        raise refused(
            f"multiplies FLOAT, HALF and QUARTER, but was given {operand_dtype.__name__}.",
            next_step="cast the operands with popops.cast.",
        )
    named_dtypes = {"float": FLOAT, "half": HALF}
    partials_type = wish.partials
    partials_dtype = (
        named_dtypes.get(partials_type, partials_type)
        if isinstance(partials_type, str)
        else partials_type
    )
    allowed_partials = (
        (HALF,) if is_quarter else (FLOAT,) if operand_dtype is FLOAT else (FLOAT, HALF)
    )
    partials_dtype = allowed_partials[0] if partials_dtype is None else partials_dtype
    if not any(partials_dtype is allowed_dtype for allowed_dtype in allowed_partials):
        raise refused(f"""was given partials_type={shown(partials_type)} for operands of
            {operand_dtype.__name__}.
            next:  use {" or ".join(t.__name__ for t in allowed_partials)}.""")
    out_dtype = (HALF if is_quarter else operand_dtype) if out_type is None else out_type
    if out_dtype is not FLOAT and out_dtype is not HALF:
        raise refused(f"was given out_type={shown(out_type)}.", next_step="use FLOAT or HALF.")
    groups, m, k, n = sizes
    dtypes = (
        operand_dtype,
        FLOAT if partials_dtype is FLOAT else HALF,
        FLOAT if out_dtype is FLOAT else HALF,
    )
    return Product(m, k, n, groups, *dtypes, wish.wide_loads, wish.fast_reduce)


@advised("give a poplin.PlanningCache().")
class PlanningCache:
    """A store for the plans of the products that are built with `mat_mul(…, cache=cache)`.

    The kit caches every plan anyway. Use a cache of your own to see which plans a program uses.
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
    """Return the plan of `product`, or None if the product is empty.

    The plan is also stored in `cache`, if there is one.

    :raises PoplibsError: if the memory proportion is not from 0 to 1, or if no plan fits on a tile.
    """
    memory_proportion = (
        None if isinstance(wish.proportion, np.bool_) else as_number(wish.proportion)
    )
    if memory_proportion is None or not 0 <= memory_proportion <= 1:
        raise refused(
            f"was given available_memory_proportion={shown(wish.proportion)}.",
            next_step="give a number from 0 to 1.",
        )
    if product.empty:
        return None
    plan = _best(product, target, memory_proportion)
    if plan.temporary_bytes > target.bytes_per_tile:
        raise refused(f"""cannot partition {product.shapes()}: the smallest blocks need
            {plan.temporary_bytes:,} bytes of a tile, which has {target.bytes_per_tile:,}.
            next:  use more tiles, or multiply a part of the rows or columns at a time.""")
    if cache is not None:
        cache.plans[product, target, memory_proportion] = plan
    return plan


@lru_cache(maxsize=1024)
def _best(product: Product, target: Target, proportion: float) -> MatMulPlan:
    """Return the fastest of the plans that fit the memory limit with as few steps as possible.

    `proportion` (0 to 1) is the fraction of a tile's memory that temporary data may take. If no
    plan is within this limit, return the plan that needs the least memory.
    """
    byte_limit = proportion * target.bytes_per_tile
    partitions = _all_cuts(product, target.num_tiles)
    smallest_plan: tuple[int, MatMulPlan] | None = None
    for step_counts in _levels(product):
        plans: list[MatMulPlan] = []
        for inner_steps, column_steps in step_counts:
            block_sizes = _sizes(product, partitions, inner_steps, column_steps)
            temporary_bytes = _temporary_bytes(product, block_sizes)
            within_limit = temporary_bytes <= byte_limit
            fits = bool(within_limit.any())
            if not fits:
                least_bytes = temporary_bytes.min()
                if smallest_plan is not None and least_bytes >= smallest_plan[0]:
                    continue
                within_limit = temporary_bytes == least_bytes
            plan = _cheapest(
                product, target, partitions, block_sizes, within_limit, inner_steps, column_steps
            )
            if fits:
                plans.append(plan)
            else:
                smallest_plan = int(least_bytes), plan
        if plans:
            return min(plans, key=lambda plan: plan.cycles)
    assert smallest_plan is not None, "one block is always possible"
    return smallest_plan[1]


def _levels(product: Product) -> Iterator[list[tuple[int, int]]]:
    """Yield lists of pairs (inner steps, column steps) to try, with the fewest steps first.

    A matrix product is computed in this many steps along the inner dimension and along the columns.
    The total number of steps is the same for all pairs of a list, and a power of 2.
    """
    step_counts = [2**inner_steps for inner_steps in range(MOST_STEPS.bit_length())]
    inner_choices = [
        count for count in step_counts if count == 1 or count * LEAST_INNER <= product.k
    ]
    column_choices = [
        count for count in step_counts if count == 1 or count * LEAST_COLUMNS <= product.n
    ]
    for num_steps in step_counts:
        combinations = [
            (inner_steps, column_steps)
            for inner_steps in inner_choices
            for column_steps in column_choices
            if inner_steps * column_steps == num_steps
        ]
        if not combinations:
            return
        yield combinations


def _all_cuts(product: Product, num_tiles: int) -> Costs:
    """Return the partitions to compare, as a dict of arrays int64[partitions].

    The keys are "groups", "rows", "inner" and "columns". Each array contains, for each partition,
    the number of blocks into which the dimension is divided. A partition has at most one block per
    tile. A number of blocks is left out if a smaller number gives blocks of the same largest size.
    On a machine with more than `MOST_EXHAUSTIVE` tiles, at most `THINNED` numbers are compared for
    each dimension.
    """
    dim_sizes = {
        "groups": product.groups,
        "rows": product.m,
        "inner": product.k,
        "columns": product.n,
    }
    partitions: Costs = {}
    num_blocks: Array = np.ones(1, np.int64)
    for name, size in dim_sizes.items():
        part_counts = sensible_parts(size, num_tiles)
        if num_tiles > MOST_EXHAUSTIVE and len(part_counts) > THINNED:
            part_counts = part_counts[
                np.unique(
                    np.searchsorted(part_counts, np.geomspace(1, part_counts[-1], THINNED).round())
                )
            ]
        partition_index, count_index = np.nonzero(num_blocks[:, None] * part_counts <= num_tiles)
        partitions = {
            dim: block_counts[partition_index] for dim, block_counts in partitions.items()
        } | {name: part_counts[count_index]}
        num_blocks = num_blocks[partition_index] * part_counts[count_index]
    return partitions


def _sizes(product: Product, partitions: Costs, inner_steps: int, column_steps: int) -> Costs:
    """Return a dict of arrays int64[partitions] with the sizes of the blocks of each partition.

    `partitions` is the result of `_all_cuts`, and the product is computed in `inner_steps` times
    `column_steps` steps. "groups", "rows", "inner" and "columns" are the sizes of the largest block
    of a step. "parts" is the number of blocks of the inner dimension. "fewest rows" and "least
    inner" are sizes of the smallest block.
    """
    inner_per_step = -(-product.k // inner_steps)
    columns_per_step = -(-product.n // column_steps)
    return {
        "groups": -(-product.groups // partitions["groups"]),
        "rows": -(-product.m // partitions["rows"]),
        "inner": -(-inner_per_step // partitions["inner"]),
        "columns": -(-columns_per_step // partitions["columns"]),
        "parts": partitions["inner"],
        "fewest rows": product.m // partitions["rows"],
        "least inner": product.k // inner_steps // partitions["inner"],
    }


def _temporary_bytes(product: Product, block_sizes: Costs) -> Array:
    """Return int64[partitions]: the maximum number of bytes of temporary data on a tile.

    The temporary data consists of the sums that the tile computes, and in addition either the
    blocks that it multiplies or the sums that it receives from other tiles, whichever are larger.
    Sums that are the result itself are not included. `block_sizes` is the result of `_sizes`.
    """
    groups, rows, inner, columns, inner_blocks, *_ = block_sizes.values()
    operand_bytes = groups * inner * (rows + columns) * product.dtype.size
    num_sums = groups * rows * columns
    partial_bytes = np.where(
        (inner_blocks > 1) | (not product.finished), num_sums * product.partials.size, 0
    )
    received_bytes = np.where(
        inner_blocks > 1,
        -(-num_sums // inner_blocks) * (inner_blocks - 1) * product.partials.size,
        0,
    )
    peak_bytes: Array = partial_bytes + np.maximum(operand_bytes, received_bytes)
    return peak_bytes


def _multiply_cycles(product: Product, target: Target, block_sizes: Costs, method: str) -> Array:
    """Return int64[partitions]: the cycles in which the slowest tile multiplies one group.

    A smaller block may take longer than the largest one, so both are estimated. With AMP, a block
    with two rows for each worker may take longer than a block with three. With HMAC, an inner
    dimension that is not a multiple of the vector width may take longer. `block_sizes` is the
    result of `_sizes`.
    """
    columns = block_sizes["columns"]
    dtypes = (product.dtype, product.partials)
    smaller_block = ("fewest rows", "inner") if method == "AMP" else ("rows", "least inner")
    slowest: Array = np.maximum(
        *(
            np.asarray(
                multiply_cycles(
                    method,
                    block_sizes[rows],
                    block_sizes[inner],
                    columns,
                    *dtypes,
                    target,
                    product.wide_loads,
                )
            )
            for rows, inner in (("rows", "inner"), smaller_block)
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
    """Return PopLibs' estimate of a tile's cycles for [rows, inner] x [inner, columns].

    `method` is "AMP" or "HMAC", `dtype` is the dtype of the operands and `partials` that of the
    sums. If `wide_loads` is true, 128 bits of weights are loaded per cycle.
    """
    if issubclass(dtype, QUARTER):
        return vertices.conv_partial_1x1_quarter(
            rows, inner, columns, target, interleaved=wide_loads
        )
    if method == "HMAC":
        # Two HALF sums are computed at a time, so an odd number is rounded up.
        columns_written = columns + columns % 2 if partials is HALF else columns
        return vertices.conv_partial_horizontal_mac(
            rows, inner, columns_written, dtype, target, partials=partials
        )
    return vertices.conv_partial_1x1(
        rows, inner, columns, dtype, target, partials=partials, interleaved=wide_loads
    )


def _cheapest(
    product: Product,
    target: Target,
    partitions: Costs,
    block_sizes: Costs,
    within_limit: Array,
    inner_steps: int,
    column_steps: int,
) -> MatMulPlan:
    """Return the plan with the fewest cycles, over all partitions and all methods.

    Only partitions for which the array `within_limit` is true are considered. `block_sizes` is the
    result of `_sizes` for these steps.
    """
    partitions = {name: values[within_limit] for name, values in partitions.items()}
    block_sizes = {name: values[within_limit] for name, values in block_sizes.items()}
    temporary_bytes = _temporary_bytes(product, block_sizes)
    best_choice: tuple[int, int, str, Costs] | None = None
    for method in METHODS[: 1 if issubclass(product.dtype, QUARTER) else None]:
        cycles_by_activity = _costs(product, target, block_sizes, method, inner_steps, column_steps)
        total_cycles = sum(cycles_by_activity.values(), np.zeros(len(temporary_bytes), np.int64))
        plan_index = int(np.argmin(total_cycles))
        if best_choice is None or total_cycles[plan_index] < best_choice[0]:
            best_choice = int(total_cycles[plan_index]), plan_index, method, cycles_by_activity
    assert best_choice is not None, "there is a method for every type"
    cycles, plan_index, method, cycles_by_activity = best_choice
    return MatMulPlan(
        product,
        row_blocks=int(partitions["rows"][plan_index]),
        inner_blocks=int(partitions["inner"][plan_index]),
        column_blocks=int(partitions["columns"][plan_index]),
        group_blocks=int(partitions["groups"][plan_index]),
        inner_steps=inner_steps,
        column_steps=column_steps,
        method=method,
        cycles=cycles,
        parts=tuple(
            (name, int(values[plan_index]))
            for name, values in cycles_by_activity.items()
            if values[plan_index]
        ),
        temporary_bytes=int(temporary_bytes[plan_index]),
        num_tiles=target.num_tiles,
    )


def _costs(
    product: Product,
    target: Target,
    block_sizes: Costs,
    method: str,
    inner_steps: int,
    column_steps: int,
) -> Costs:
    """Return a dict from activities, such as "multiply", to modelled cycles int64[partitions].

    The product is computed with `method`, in `inner_steps` times `column_steps` steps.
    `block_sizes` is the result of `_sizes` for these steps.
    """
    groups, rows, inner, columns, inner_blocks, *_ = block_sizes.values()
    num_steps = inner_steps * column_steps
    superstep_cycles = target.internal_sync_cycles + int(arrival_cycles(target).max())
    num_sums = groups * rows * columns
    sums_per_tile = -(-num_sums // inner_blocks)
    is_inner_split = inner_blocks > 1
    has_fast_reduce = product.fast_reduce
    add_cycles = np.asarray(
        vertices.conv_reduce(
            sums_per_tile,
            inner_blocks,
            product.partials,
            target,
            out=product.out,
            interleaved=has_fast_reduce,
        )
    )
    cast_cycles: Array = np.zeros(len(inner_blocks), np.int64)
    if not product.finished:
        cast_cycles_per_step = (
            np.asarray(vertices.cast_1d(num_sums, product.partials, product.out, target))
            + target.internal_sync_cycles
        )
        cast_cycles = np.where(is_inner_split, 0, cast_cycles_per_step * column_steps)
    return {
        "exchange of blocks": num_steps
        * exchange_cycles(groups * inner * (rows + columns) * product.dtype.size, target),
        "multiply": num_steps * groups * _multiply_cycles(product, target, block_sizes, method),
        "exchange of sums": np.where(
            is_inner_split,
            column_steps
            * exchange_cycles(sums_per_tile * (inner_blocks - 1) * product.partials.size, target),
            0,
        ),
        "add sums": np.where(is_inner_split, column_steps * add_cycles, 0),
        "cast": cast_cycles,
        "sync and latency": superstep_cycles
        * (num_steps + np.where(is_inner_split, column_steps, 0)),
    }
