"""The partition of a reduction wherever its elements are: stages, and blocks of rows.

`plan_reduce` chooses by the cost model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.errors import counted, shown
from ipu_teach.graph.outline import table
from ipu_teach.poplibs import drawing
from ipu_teach.poplibs.drawing import DrawnMatrix
from ipu_teach.poplibs.library import check_sizes, library, refused
from ipu_teach.poplibs.options import Option, Options, settled
from ipu_teach.poplibs.popops.reduction_vertices import (
    REDUCTIONS,
    after,
    partials_dtype,
    shares_of,
    stage_cycles,
)
from ipu_teach.poplibs.poputil import MIN_BYTES_PER_TILE
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, DType, as_dtype

__all__ = ["ReducePlan", "ReduceStage", "plan_reduce"]

OPTIONS = (Option("accumType.interTile", FLOAT), Option("accumType.inVertex", FLOAT))


@dataclass(frozen=True)
class AccumTypes:
    """The dtypes of accumulation.

    `inter_tile` is that of the partial results between the two stages, and `in_vertex` that in
    which a vertex accumulates.
    """

    inter_tile: type[DType]
    in_vertex: type[DType]


def accum_types(operation: str, dtype: type[DType], options: Options | None) -> AccumTypes:
    """Return the types that `options` set; by default FLOAT for sums of HALF, else `dtype`.

    Raises `InvalidOptionError`, and `PoplibsError` for a dtype that has no choice.
    """
    chosen = settled(OPTIONS, options)
    usual = partials_dtype(operation, dtype)
    inter_tile, in_vertex = (chosen[option.name] or usual for option in OPTIONS)
    if (inter_tile, in_vertex) != (usual, usual) and dtype not in (FLOAT, HALF):
        raise refused(
            f"was given an accumType for {dtype.__name__}.",
            next_step="leave it out: only FLOAT and HALF have a choice.",
        )
    return AccumTypes(inter_tile, in_vertex)


@dataclass(frozen=True)
class ReduceStage:
    """One compute set of a plan: `vertices` vertices of at most [rows, columns] each.

    `exchange_bytes` and `cycles` are those of the busiest tile.
    """

    name: str
    vertices: int
    rows: int
    columns: int
    exchange_bytes: int
    cycles: int


@dataclass(frozen=True)
class ReducePlan:
    """The plan of a reduction: the number of blocks of rows, and the modelled cycles.

    The blocks are reduced in parallel before their partial results are. The plan prints as a line;
    a notebook draws the blocks, and shows the stages as a table.
    """

    row_blocks: int
    cycles: int
    stages: tuple[ReduceStage, ...] = ()

    @property
    def steps(self) -> int:
        """The number of compute sets."""
        return 1 + (self.row_blocks > 1)

    def __repr__(self) -> str:
        steps = ", then ".join(
            f"{s.name}: {counted(s.vertices, 'vertex', 'vertices')} of {s.rows:,} x {s.columns:,}"
            for s in self.stages
        )
        return (
            f"ReducePlan({counted(self.row_blocks, 'block')} of rows; {steps or 'no stages'}; "
            f"{self.cycles:,} cycles modelled)"
        )

    def _repr_html_(self) -> str:
        heads = ("stage", "vertices", "rows", "columns", "bytes in", "modelled cycles")
        rows = [
            (
                s.name,
                *(f"{n:,}" for n in (s.vertices, s.rows, s.columns, s.exchange_bytes, s.cycles)),
            )
            for s in self.stages
        ]
        summary = (
            f"Plan of a reduction: {counted(self.row_blocks, 'block')} of rows, {self.cycles:,} "
            "cycles modelled"
        )
        return self._picture(summary) + table(summary, heads, rows, "stages")

    def _picture(self, caption: str) -> str:
        if not self.stages:
            return ""
        first = self.stages[0]
        last = self.stages[-1]
        columns = first.columns * (first.vertices if len(self.stages) == 1 else 1)
        blocks = self.row_blocks
        cut = last.vertices if len(self.stages) == 1 else 1
        x = DrawnMatrix("x", first.rows * blocks, columns, cut, down=blocks)
        matrices = [x]
        if len(self.stages) > 1:
            partials = DrawnMatrix("partials", blocks, columns, last.vertices, down=blocks)
            matrices.append(partials)
        matrices.append(DrawnMatrix("out", 1, columns, last.vertices, down=1))
        return drawing.row(matrices, caption)


@library
def plan_reduce(
    rows: int,
    columns: int,
    dtype: type[DType],
    target: Target,
    operation: str = "ADD",
    options: Options | None = None,
) -> ReducePlan:
    """Return the cheapest plan to reduce `rows` x `columns` of `dtype` to one row.

    It is the cheapest by the cost model. The elements may be on any tiles. `reduce` knows their
    tiles, and may find a cheaper way. `options` are those of `reduce`. Raises `PoplibsError` and
    `InvalidOptionError`.
    """
    check_sizes(target, 0, rows=rows, columns=columns)
    check_operation(operation)
    kind = as_dtype(dtype, "plan_reduce()")
    types = accum_types(operation, kind, options)
    return planned(
        int(rows), int(columns), kind, target, operation=operation, inter_tile=types.inter_tile
    )


def check_operation(operation: str) -> None:
    """Raise `PoplibsError` unless `operation` is one of `REDUCTIONS`."""
    if not isinstance(operation, str) or operation not in REDUCTIONS:
        raise refused(
            f"was given the operation {shown(operation)}.",
            next_step=f"use {', '.join(REDUCTIONS)}.",
        )


@lru_cache(maxsize=512)
def planned(
    rows: int,
    columns: int,
    dtype: type[DType],
    target: Target,
    operation: str,
    inter_tile: type[DType],
) -> ReducePlan:
    """Return the cheapest of all plans; among equal ones, the plan with the fewest blocks."""
    max_parts = min(rows, target.num_tiles) if columns else 1
    plans = (
        reduce_stages(
            rows, columns, blocks, dtype, target=target, operation=operation, inter_tile=inter_tile
        )
        for blocks in range(1, max(1, max_parts) + 1)
    )
    return min(plans, key=lambda plan: (plan.cycles, plan.row_blocks))


def share_of(columns: int, dtype: type[DType], target: Target) -> int:
    """Return the maximum number of results on a tile, if they are mapped linearly."""
    return max(-(-columns // target.num_tiles), min(columns, MIN_BYTES_PER_TILE // dtype.size))


def reduce_stages(
    rows: int,
    columns: int,
    blocks: int,
    dtype: type[DType],
    target: Target,
    operation: str = "ADD",
    inter_tile: type[DType] | None = None,
) -> ReducePlan:
    """Return the plan with `blocks` blocks of rows, and its modelled cycles.

    Every element is assumed to come from another tile.
    """
    carried = inter_tile or partials_dtype(operation, dtype)
    share = share_of(columns, dtype, target)
    used = -(-columns // share) if share else 0
    stages: list[ReduceStage] = []
    remaining = rows
    kind = dtype
    again = operation
    if blocks > 1:
        block = -(-rows // blocks)
        shares = shares_of(operation, columns, block, dtype)
        cycles = stage_cycles(
            operation,
            columns,
            block,
            dtype,
            out=carried,
            target=target,
            shares=shares,
        )
        cycles += target.internal_sync_cycles
        moved = block * columns * dtype.size
        cycles += int(exchange_cycles(moved, target))
        name = "InToIntermediate"
        stage = ReduceStage(name, blocks, block, columns, exchange_bytes=moved, cycles=cycles)
        stages.append(stage)
        remaining = blocks
        kind = carried
        again = after(operation)
    moved = remaining * share * kind.size
    shares = shares_of(again, columns, remaining, kind)
    cycles = int(exchange_cycles(moved, target)) + stage_cycles(
        again, share, remaining, kind, out=dtype, target=target, shares=shares
    )
    name = "IntermediateToOutput" if stages else "InToOutput"
    stage = ReduceStage(name, used, remaining, share, exchange_bytes=moved, cycles=cycles)
    stages.append(stage)
    return ReducePlan(blocks, sum(s.cycles for s in stages), tuple(stages))
