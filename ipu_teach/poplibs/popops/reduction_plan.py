"""Plans of reductions in which blocks of rows are reduced in parallel.

`plan_reduce` chooses the number of blocks by the cost model. These plans do not depend on the tile
mapping of the elements.
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
    """The dtypes in which a reduction accumulates.

    `inter_tile` is the dtype of the partial results between two stages, and `in_vertex` the dtype
    in which a vertex accumulates.
    """

    inter_tile: type[DType]
    in_vertex: type[DType]


def accum_types(operation: str, dtype: type[DType], options: Options | None) -> AccumTypes:
    """Return the accumulation dtypes that `options` set for a reduction of elements of `dtype`.

    The default is FLOAT for sums of HALF, and otherwise `dtype`.

    :raises InvalidOptionError: if an option is wrong.
    :raises PoplibsError: if `options` set another dtype, and `dtype` is neither FLOAT nor HALF.
    """
    valid_options = settled(OPTIONS, options)
    default_dtype = partials_dtype(operation, dtype)
    inter_tile, in_vertex = (valid_options[option.name] or default_dtype for option in OPTIONS)
    if (inter_tile, in_vertex) != (default_dtype, default_dtype) and dtype not in (FLOAT, HALF):
        raise refused(
            f"was given an accumType for {dtype.__name__}.",
            next_step="leave accumType out; it is only for FLOAT and HALF.",
        )
    return AccumTypes(inter_tile, in_vertex)


@dataclass(frozen=True)
class ReduceStage:
    """A stage of a plan, which is one compute set.

    The stage has `vertices` vertices, and each vertex reduces a matrix of at most [rows, columns].
    `exchange_bytes` is the number of bytes that the busiest tile receives, and `cycles` the
    modelled cycles of the stage.
    """

    name: str
    vertices: int
    rows: int
    columns: int
    exchange_bytes: int
    cycles: int


@dataclass(frozen=True)
class ReducePlan:
    """The plan of a reduction: blocks of rows are reduced in parallel, and then their results.

    `row_blocks` is the number of blocks, `cycles` the number of modelled cycles, and `stages`
    describes each compute set. To see the plan, print it, or show it in a notebook, which draws the
    blocks and shows a table of the stages.
    """

    row_blocks: int
    cycles: int
    stages: tuple[ReduceStage, ...] = ()

    @property
    def steps(self) -> int:
        """The number of compute sets."""
        return 1 + (self.row_blocks > 1)

    def __repr__(self) -> str:
        stage_texts = ", then ".join(
            f"{stage.name}: {counted(stage.vertices, 'vertex', 'vertices')} of {stage.rows:,} x "
            f"{stage.columns:,}"
            for stage in self.stages
        )
        return (
            f"ReducePlan({counted(self.row_blocks, 'block')} of rows; "
            f"{stage_texts or 'no stages'}; {self.cycles:,} cycles modelled)"
        )

    def _repr_html_(self) -> str:
        headings = ("stage", "vertices", "rows", "columns", "bytes in", "modelled cycles")
        table_rows = [
            (
                stage.name,
                *(
                    f"{number:,}"
                    for number in (
                        stage.vertices,
                        stage.rows,
                        stage.columns,
                        stage.exchange_bytes,
                        stage.cycles,
                    )
                ),
            )
            for stage in self.stages
        ]
        summary = (
            f"Plan of a reduction: {counted(self.row_blocks, 'block')} of rows, {self.cycles:,} "
            "cycles modelled"
        )
        return self._picture(summary) + table(summary, headings, table_rows, "stages")

    def _picture(self, caption: str) -> str:
        if not self.stages:
            return ""
        first_stage = self.stages[0]
        last_stage = self.stages[-1]
        columns = first_stage.columns * (first_stage.vertices if len(self.stages) == 1 else 1)
        num_blocks = self.row_blocks
        column_parts = last_stage.vertices if len(self.stages) == 1 else 1
        x = DrawnMatrix("x", first_stage.rows * num_blocks, columns, column_parts, down=num_blocks)
        matrices = [x]
        if len(self.stages) > 1:
            partials = DrawnMatrix(
                "partials", num_blocks, columns, last_stage.vertices, down=num_blocks
            )
            matrices.append(partials)
        matrices.append(DrawnMatrix("out", 1, columns, last_stage.vertices, down=1))
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
    """Return the cheapest plan to reduce `rows` x `columns` elements of `dtype` to a single row.

    The cost model assumes that every element is received from another tile. `reduce` also takes
    into account on which tiles the elements are, and may therefore find a cheaper plan. `options`
    are those of `reduce`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises InvalidOptionError: if an option is wrong.
    """
    check_sizes(target, 0, rows=rows, columns=columns)
    check_operation(operation)
    valid_dtype = as_dtype(dtype, "plan_reduce()")
    types = accum_types(operation, valid_dtype, options)
    return planned(
        int(rows),
        int(columns),
        valid_dtype,
        target,
        operation=operation,
        inter_tile=types.inter_tile,
    )


def check_operation(operation: str) -> None:
    """Raise `PoplibsError` unless `operation` is an entry of `REDUCTIONS`."""
    if not isinstance(operation, str) or operation not in REDUCTIONS:
        raise refused(
            f"was given the operation {shown(operation)}.",
            next_step=f"use {', '.join(REDUCTIONS)}.",
        )


# The reduction of a stage: (operation, dtype of the input, dtype of the result).
Work = tuple[str, type[DType], type[DType]]


@lru_cache(maxsize=512)
def planned(
    rows: int,
    columns: int,
    dtype: type[DType],
    target: Target,
    operation: str,
    inter_tile: type[DType],
) -> ReducePlan:
    """Return the plan with the fewest modelled cycles or, among equal plans, the fewest blocks.

    `rows`, `columns` and `dtype` describe the matrix whose rows are reduced. `inter_tile` is the
    dtype of the results of the blocks.
    """
    max_parts = min(rows, target.num_tiles) if columns else 1
    plans = (
        reduce_stages(
            rows, columns, blocks, dtype, target=target, operation=operation, inter_tile=inter_tile
        )
        for blocks in range(1, max(1, max_parts) + 1)
    )
    return min(plans, key=lambda plan: (plan.cycles, plan.row_blocks))


def share_of(columns: int, dtype: type[DType], target: Target) -> int:
    """Return the number of results on the fullest tile if `columns` results are mapped linearly.

    The number is an estimate, because a linear mapping does not divide vectors.
    """
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
    """Return the plan with `blocks` blocks of rows, including its modelled cycles.

    Every element is assumed to be received from another tile. `inter_tile` is the dtype of the
    results of the blocks; by default, it is FLOAT for sums of HALF, and otherwise `dtype`.
    """
    partials_type = inter_tile or partials_dtype(operation, dtype)
    if blocks <= 1:
        only_stage = _last_stage(rows, columns, (operation, dtype, dtype), target, "InToOutput")
        return ReducePlan(blocks, only_stage.cycles, (only_stage,))
    first_stage = _first_stage(rows, columns, blocks, (operation, dtype, partials_type), target)
    last_stage = _last_stage(
        blocks, columns, (after(operation), partials_type, dtype), target, "IntermediateToOutput"
    )
    return ReducePlan(blocks, first_stage.cycles + last_stage.cycles, (first_stage, last_stage))


def _first_stage(rows: int, columns: int, blocks: int, work: Work, target: Target) -> ReduceStage:
    """Return the stage that reduces `blocks` blocks of rows in parallel, one block per vertex.

    `work` is (operation, dtype of the rows, dtype of the results).
    """
    operation, dtype, out = work
    rows_per_block = -(-rows // blocks)
    received_bytes = rows_per_block * columns * dtype.size
    shares = shares_of(operation, columns, rows_per_block, dtype)
    cycles = stage_cycles(
        operation, columns, rows_per_block, dtype, out=out, target=target, shares=shares
    )
    cycles += target.internal_sync_cycles + int(exchange_cycles(received_bytes, target))
    return ReduceStage(
        "InToIntermediate",
        blocks,
        rows_per_block,
        columns,
        exchange_bytes=received_bytes,
        cycles=cycles,
    )


def _last_stage(rows: int, columns: int, work: Work, target: Target, name: str) -> ReduceStage:
    """Return the stage that reduces `rows` rows to the result.

    Each column is reduced on the tile of its result. `work` is (operation, dtype of the rows, dtype
    of the result), and `name` is the name of the stage.
    """
    operation, dtype, out = work
    results_per_tile = share_of(columns, out, target)
    received_bytes = rows * results_per_tile * dtype.size
    shares = shares_of(operation, columns, rows, dtype)
    cycles = stage_cycles(
        operation, results_per_tile, rows, dtype, out=out, target=target, shares=shares
    )
    return ReduceStage(
        name,
        -(-columns // results_per_tile) if results_per_tile else 0,
        rows,
        results_per_tile,
        exchange_bytes=received_bytes,
        cycles=cycles + int(exchange_cycles(received_bytes, target)),
    )
