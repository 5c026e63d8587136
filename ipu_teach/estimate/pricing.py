"""The building blocks of prices: supersteps, expressions, reductions, and moved bytes.

A price is computed without mapping tensors to tiles. It assumes that the elements of a value are
distributed evenly over the tiles, or over the blocks of the product that computes the value
(`Split`). The cycles are those of the fullest tile, from the formulas in `ipu_teach.cost` and from
the kit's versions of PopLibs' planners.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, replace
from math import ceil

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles, exchange_cycles
from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.cost.vertices import rates
from ipu_teach.errors import MissingPerfEstimateError
from ipu_teach.estimate.links import Replicas
from ipu_teach.estimate.result import Line
from ipu_teach.frontends.ir.values import Op, Value
from ipu_teach.graph import Graph
from ipu_teach.poplibs.options import Options
from ipu_teach.poplibs.poplin.conv import macs_per_cycle
from ipu_teach.poplibs.poplin.plan import MatMulPlan
from ipu_teach.poplibs.popops import expr
from ipu_teach.poplibs.popops.fused import loop_cycles
from ipu_teach.poplibs.popops.operations import OPERATIONS, rated
from ipu_teach.poplibs.popops.reduction_plan import reduce_stages, share_of
from ipu_teach.poplibs.popops.reduction_vertices import (
    after,
    partials_dtype,
    shares_of,
    stage_cycles,
    worker_cycles,
)
from ipu_teach.poplibs.poputil import MIN_BYTES_PER_TILE
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, DType

# The cycles of the supervisor and of a worker outside its loop in PopLibs' UnaryOp1D, which
# popops.map adds to those of an expression's loop.
SUPERVISOR, WORKER = 20, 17
# The numbers of row blocks that are tried for a reduction. (`popops.reduce` tries every number.)
BLOCKS = (1, 2, 4, 8, 16, 32, 64)


Price = Callable[["Pricer", Op], None]
# Supersteps, each as (cycles of its vertices, bytes that a tile receives).
Steps = list[tuple[float, int]]


@dataclass(frozen=True)
class Split:
    """The partition of a value into a grid of `rows` x `columns` blocks, each on its own tile.

    The columns divide the channels of an activation, or the last dimension of a product. Two values
    whose partitions come from the same operation `maker` have equal tile mappings.
    """

    rows: int
    columns: int
    maker: Op


class Pricer:
    """The prices of the operations of one graph on one IPU.

    `prices` maps kinds of operations to their prices. `target` is a machine with one IPU. `options`
    are the PopLibs options of products. `line` is the `Line` of the operation whose price is being
    computed; the methods add cycles to it.
    """

    def __init__(
        self,
        prices: Mapping[str, Price],
        target: Target,
        replicas: Replicas,
        options: Options | None = None,
    ) -> None:
        self.prices = prices
        self.target = replace(target, num_ipus=1, machine="")
        self.replicas = replicas
        self.options: dict[str, object] = dict(options or {})
        self.options.pop("stochasticRounding", None)
        self.tiles = self.target.tiles_per_ipu
        self.workers = self.target.num_worker_contexts
        self.graph = Graph(self.target)
        self.latency = int(arrival_cycles(self.target).max())
        self.splits: dict[Value, Split] = {}
        # Maps the arguments that determine a reduction to its supersteps.
        self.reductions: dict[Hashable, Steps] = {}
        self.line = Line("", "", "")

    def add(self, op: Op) -> None:
        """Add the price of `op` to the current line, or the fallback price if `op` has no price."""
        price = self.prices.get(op.kind)
        if price is not None:
            price(self, op)
        elif op.inputs or op.outs:
            largest = max((*op.inputs, *op.outs), key=lambda value: value.size)
            self.fallback(largest)
        self.inherit(op)

    # --- where values are ---

    def elements(self, value: Value) -> int:
        """Return the number of elements of `value` on its fullest tile."""
        split = self.splits.get(value)
        tiles = min(split.rows * split.columns, self.tiles) if split else self.tiles
        at_least = min(value.size, max(1, MIN_BYTES_PER_TILE // value.dtype.size))
        return max(ceil(value.size / tiles), at_least)

    def channels(self, value: Value, count: int) -> int:
        """Return how many of the `count` channels (or columns) have elements on the same tile."""
        split = self.splits.get(value)
        return max(1, min(self.elements(value), ceil(count / (split.columns if split else 1))))

    def inherit(self, op: Op) -> None:
        """Give each result of `op` the partition of the first input that has the same size."""
        for out in op.outs:
            if out not in self.splits:
                source = next(
                    (v for v in op.inputs if v.size == out.size and v in self.splits), None
                )
                if source is not None:
                    self.splits[out] = self.splits[source]

    def fetched(self, value: Value, operand: Value) -> int:
        """Return the bytes of `operand` that a tile receives to combine it with `value`.

        The result is 0 if `operand` is a constant number, or if both values have the same tile
        mapping.
        """
        if operand.number is not None:
            return 0
        if operand.size == 1:
            return operand.dtype.size
        if operand.size < value.size:  # `operand` is broadcast, like the scale of each channel.
            return self.channels(value, operand.size) * operand.dtype.size
        split, other = self.splits.get(value), self.splits.get(operand)
        is_together = (split.maker is other.maker) if split and other else split is other
        return 0 if is_together else self.elements(value) * operand.dtype.size

    # --- supersteps ---

    def superstep(self, cycles: float = 0, received: float = 0) -> None:
        """Add the cycles of a superstep: a sync, an exchange, and vertices.

        In the exchange, a tile receives `received` bytes. `cycles` are the cycles of the vertices.
        """
        self.line.supersteps += 1
        self.line.sync += self.target.internal_sync_cycles
        self.line.vertices += float(cycles)
        if received:
            self.line.exchange += self.latency + float(exchange_cycles(ceil(received), self.target))

    def map(
        self,
        expression: Callable[..., expr.ExprLike],
        out: type[DType],
        *values: Value,
        works_in: type[DType] = FLOAT,
    ) -> None:
        """Add the cycles of `popops.map`, which computes in `works_in` and rounds to `out`."""
        places: list[expr.Expr] = [
            place if value.dtype is works_in else expr.Cast(place, works_in)
            for value, place in zip(
                values, (expr.PlaceHolder(n + 1) for n in range(len(values))), strict=True
            )
        ]
        result = expr.as_expr(expression(*places), "estimate")
        result = result if out is works_in else expr.Cast(result, out)
        dtypes = [value.dtype for value in values]
        code = " ".join(result.code(dtypes, out))
        share = ceil(self.elements(values[0]) / self.workers)
        worker = loop_cycles(code, dtypes, out, share, self.target)
        received = sum(self.fetched(values[0], value) for value in values[1:])
        self.superstep(SUPERVISOR + self.workers * (WORKER + worker), received)

    def scalar(self, expression: Callable[..., expr.ExprLike], count: int) -> None:
        """Add the cycles of an expression whose `count` operands are single FLOAT numbers."""
        self.map(expression, FLOAT, *(Value((), FLOAT) for _ in range(count)))

    def reduce(
        self,
        value: Value,
        columns: int,
        operation: str = "ADD",
        out: type[DType] = FLOAT,
        count: int = 1,
        samples: int = 0,
    ) -> None:
        """Add the cycles of reducing `count` values like `value`, each to `columns` results.

        All of them are reduced at once. If `samples` is 0, each column contains elements of all
        samples. Otherwise, there are `samples` samples, and each column belongs to one of them. As
        in `popops.reduce`, the faster of two methods is used: reducing blocks of rows, or first
        letting each tile reduce its own elements of each column.
        """
        if not columns or not value.size:
            return
        split = self.splits.get(value)
        blocks = (split.rows, split.columns) if split else None
        key = value.shape, value.dtype, blocks, columns, operation, out, count, samples
        if key not in self.reductions:
            rows = ceil(value.size / columns)
            by_blocks = self._reduced(rows, columns * count, value.dtype, operation)
            by_tiles = self._by_tiles(value, columns, operation, out, count, samples)
            self.reductions[key] = min(
                by_blocks,
                by_tiles or by_blocks,
                key=lambda steps: sum(self._superstep_cycles(*step) for step in steps),
            )
        for cycles, received in self.reductions[key]:
            self.superstep(cycles, received)

    def _by_tiles(
        self,
        value: Value,
        columns: int,
        operation: str,
        out: type[DType],
        count: int,
        samples: int,
    ) -> Steps:
        """Return the supersteps of a reduction in which each tile first reduces its own elements.

        The list is empty if no tile has two elements of a column.
        """
        dtype, split = value.dtype, self.splits.get(value)
        elements = self.elements(value)
        tiles = min(self.tiles, ceil(value.size / elements))
        if samples and split:
            groups = columns // samples
            local = ceil(groups / split.columns) * ceil(samples / split.rows)
            parts = max(1, split.rows // samples) * max(1, split.columns // groups)
        else:
            local = self.channels(value, columns)
            parts = split.rows if split else max(1, tiles * local // columns)
        rows = ceil(elements / local)
        if rows == 1:
            return []
        parts = min(parts, tiles, ceil(value.size / columns))
        carried = partials_dtype(operation, dtype)
        first = self._local(operation, local, rows, dtype, carried if parts > 1 else out)
        if samples and len(value.shape) > 2 and local > 1:
            # In memory, the channels of a position are neighbours. But the elements of a column are
            # grouped by channel, so the tile first rearranges all its elements.
            size = np.array(elements * dtype.size)
            gather, _ = copy_cycles(np.array(elements), size, self.target)
            first += float(gather)
        if parts == 1:
            return [(count * first, 0)]
        rest = self._of_tiles(parts, columns, carried, out, after(operation), count)
        return [(count * first, 0), *rest]

    def _local(
        self, operation: str, columns: int, rows: int, dtype: type[DType], out: type[DType]
    ) -> float:
        """Return the cycles in which a tile reduces its own elements, of shape [rows, columns].

        All workers reduce them together, or divide the columns among them, whichever is faster.
        """
        target = self.target
        shares = shares_of(operation, columns, rows, dtype)
        together = stage_cycles(operation, columns, rows, dtype, out, target, shares)
        width = target.get_vector_width(dtype)
        part = min(columns, ceil(ceil(columns / width) / self.workers) * width)
        divided = self.workers * worker_cycles(operation, part, rows, dtype, out, target)
        return float(min(together, divided))

    def _of_tiles(
        self,
        parts: int,
        columns: int,
        dtype: type[DType],
        out: type[DType],
        operation: str,
        count: int,
    ) -> Steps:
        """Return the supersteps in which `parts` partial results of each column are reduced.

        The partial results are reduced directly on the tiles of the results, or first in blocks on
        more tiles, whichever is faster.
        """
        target = self.target

        def step(width: int, rows: int, result: type[DType]) -> tuple[float, int]:
            shares = shares_of(operation, width, rows, dtype)
            cycles = stage_cycles(operation, width, rows, dtype, result, target, shares)
            return float(cycles), rows * width * dtype.size

        on_tile = share_of(columns, out, target)
        choices = [[step(on_tile, parts, out)]]
        for width in {min(2**i, columns) for i in range(2, columns.bit_length() + 1)}:
            for blocks in BLOCKS[1:]:
                if blocks <= parts:
                    each = ceil(ceil(columns / width) * blocks * count / self.tiles)
                    cycles, received = step(width, ceil(parts / blocks), dtype)
                    middle = each * cycles, each * received
                    choices.append([middle, step(on_tile, blocks, out)])
        best = min(choices, key=lambda steps: sum(self._superstep_cycles(*step) for step in steps))
        cycles, received = best[-1]
        return [*best[:-1], (count * cycles, count * received)]

    def _reduced(self, rows: int, columns: int, dtype: type[DType], operation: str) -> Steps:
        """Return the supersteps of the fastest reduction of [rows, columns] by blocks of rows."""
        target = self.target
        plans = (
            reduce_stages(rows, columns, blocks, dtype, target, operation)
            for blocks in BLOCKS
            if blocks <= rows
        )
        plan = min(plans, key=lambda plan: plan.cycles)
        steps = []
        for number, stage in enumerate(plan.stages):
            # `stage.cycles` includes the exchange and, for all stages but the last, a sync.
            # Subtract both, because `superstep` adds them.
            other = float(exchange_cycles(stage.exchange_bytes, target))
            if number < len(plan.stages) - 1:
                other += target.internal_sync_cycles
            steps.append((stage.cycles - other, stage.exchange_bytes))
        return steps

    def _superstep_cycles(self, cycles: float, received: int) -> float:
        """Return the cycles of a superstep with its sync and its exchange."""
        moved = self.latency + float(exchange_cycles(received, self.target)) if received else 0
        return self.target.internal_sync_cycles + cycles + moved

    # --- vertices of PopLibs ---

    def elementwise(self, name: str, value: Value, *operands: Value) -> None:
        """Add the cycles of PopLibs' elementwise vertex `name`, such as "ADD"."""
        count = self.elements(value)
        received = sum(self.fetched(value, operand) for operand in operands)
        if operands and any(v.number is not None or v.size == 1 for v in operands):
            table, call = rates.BROADCAST, vertices.broadcast_scalar_1d
        elif operands:
            table, call = rates.BINARY, vertices.binary_op_1d
        else:
            table, call = rates.UNARY, vertices.unary_op_1d
        rated_name, dtype = rated(table, OPERATIONS[name], value.dtype)
        try:
            cycles = call(rated_name, count, dtype, self.target)
        except MissingPerfEstimateError:
            self.fallback(value)
            return
        self.superstep(float(cycles), received)

    def fallback(self, value: Value) -> None:
        """Add the fallback price: the cycles of adding a number to each element of `value`."""
        self.line.fallback = True
        name, dtype = rated(rates.BROADCAST, OPERATIONS["ADD"], value.dtype)
        count = self.elements(value)
        self.superstep(float(vertices.broadcast_scalar_1d(name, count, dtype, self.target)))

    def moved(self, value: Value) -> None:
        """Add the cycles of copying all of `value` to other tiles."""
        self.superstep(0, self.elements(value) * value.dtype.size)

    def product(self, plan: MatMulPlan) -> None:
        """Add the cycles of all parts of a product's plan."""
        for label, cycles in plan.parts:
            cost = PLAN_COSTS.get(label, "exchange")
            setattr(self.line, cost, getattr(self.line, cost) + cycles)
        product = plan.product
        macs = product.groups * product.m * product.k * product.n
        self.line.supersteps += (1 + (plan.inner_blocks > 1)) * plan.inner_steps * plan.column_steps
        self.line.macs += macs
        self.line.busy += macs / macs_per_cycle(product.dtype, product.partials, self.target)
        self.line.temporary = max(self.line.temporary, plan.temporary_bytes)


# Maps each part of a product's plan to its kind of cycles. Parts that are not listed have the kind
# "exchange".
PLAN_COSTS: Mapping[str, str] = {
    "multiply": "products",
    "add sums": "vertices",
    "cast": "vertices",
    "transposes": "vertices",
    "sync and latency": "sync",
}
