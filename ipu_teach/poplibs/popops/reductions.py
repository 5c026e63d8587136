"""Reductions: `reduce`, `reduce_with_output` and `reduce_many`.

The reduced dimensions are viewed as rows, and the remaining ones as columns. In one stage, every
tile with a part of the result reads all rows of its columns. In two stages, blocks of rows are
first reduced in parallel on different tiles, each if possible on the tile of its first element.
`plan_reduce` chooses the number of blocks by the cost model. If it is cheaper, each tile first
reduces its own rows of each column without moving anything, and the partial results are reduced in
one stage or two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np

from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.errors import counted, shown
from ipu_teach.graph import ComputeSet, Graph, Shape, Tensor, concat
from ipu_teach.graph.bulk import Column, listed_column, members, numbered
from ipu_teach.graph.tile_map import expand
from ipu_teach.poplibs.laying import linear, put, scalar
from ipu_teach.poplibs.library import (
    OWN,
    Free,
    calling,
    check_mapped,
    check_name,
    check_number,
    check_prog,
    check_tensor,
    described,
    library,
    refused,
)
from ipu_teach.poplibs.options import Options
from ipu_teach.poplibs.placing import balanced_partition, dealt
from ipu_teach.poplibs.popops.operands import check_operand, check_output
from ipu_teach.poplibs.popops.reduction_places import PlacedPlan, lying, placed_plan
from ipu_teach.poplibs.popops.reduction_plan import (
    AccumTypes,
    ReducePlan,
    accum_types,
    check_operation,
    planned,
)
from ipu_teach.poplibs.popops.reduction_vertices import (
    REDUCTIONS,
    ReduceRows,
    ReduceRowsAlone,
    ReduceRowsUpdate,
    ScaledReduceRows,
    ScaledReduceRowsUpdate,
    after,
    reduction_codelet,
    shares_of,
)
from ipu_teach.poplibs.poputil import take, tile_pieces
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.types import BOOL, FLOAT, HALF, Array, DType, as_dtype

__all__ = [
    "Operation",
    "ReduceParams",
    "SingleReduceOp",
    "reduce",
    "reduce_many",
    "reduce_rows",
    "reduce_with_output",
]

Into = Program | list[ComputeSet]
_FLOATS = (FLOAT, HALF)
_SCALED = ("ADD", "SQUARE_ADD")
# the counterpart of Poplar's enum: `popops.Operation.ADD` is the text "ADD"
Operation = SimpleNamespace(**{name: name for name in REDUCTIONS})


@described
@dataclass(frozen=True)
class ReduceParams:
    """The parameters of a reduction: its `operation`, and for sums a factor and an update.

    `operation` is one of `REDUCTIONS`. For ADD and SQUARE_ADD, the result is multiplied by `scale`,
    which is a number or a FLOAT tensor of one element. With `update`, it is added to the values of
    an existing output.
    """

    operation: str = "ADD"
    scale: float | Tensor | None = None
    update: bool = False


@described
@dataclass(frozen=True)
class SingleReduceOp:
    """One of the reductions of `reduce_many`: `x` over the dimensions `dims`.

    `out_type` is as for `reduce`.
    """

    x: Tensor
    dims: Sequence[int]
    params: str | ReduceParams = "ADD"
    out_type: type[DType] | None = None


@library
def reduce(
    graph: Graph,
    x: Free,
    dims: Sequence[int],
    prog: Into,
    operation: str | ReduceParams = "ADD",
    debug_context: str = OWN,
    out_type: type[DType] | None = None,
    options: Options | None = None,
) -> Tensor:
    """Return x reduced over the dimensions `dims` by `operation`.

    The other dimensions remain, in order. `operation` is a text or `ReduceParams`. ADD, MUL, MIN
    and MAX work on numbers, LOGICAL_AND and LOGICAL_OR on BOOL. SQUARE_ADD is the sum of squares,
    and LOG_ADD (FLOAT and HALF) the logarithm of the sum of exponentials. `out_type` may be FLOAT
    for x of HALF, or HALF for x of FLOAT; by default it is the dtype of x. The result is mapped
    linearly. Without rows it is the neutral element; MIN and MAX have none.

    There are one to three compute sets, in an order that the tile mapping of x and the machine
    determine by the cost model:

    * By the plan of `plan_reduce`, rows are reduced in blocks, first to last within a block, and
      then the results of the blocks, first to last.
    * Otherwise each tile reduces its rows of a column, first to last. The results of the tiles are
      then reduced in the order of their first rows: first to last, or in blocks of them and then
      the results of the blocks.

    At most 8 columns that are at least 32 times as long as there are columns (for SQUARE_ADD: at
    least 32 rows) are divided by rows: each of a tile's six workers has a share, partitioned by
    `poputil.balanced_partition`, and their results are reduced first to last, unless a worker has
    complete columns. Sums of HALF are accumulated in FLOAT and rounded once, unless `options` set
    "accumType.inVertex" (within a vertex) or "accumType.interTile" (between the stages).

    `prog` is a Sequence, or a list of compute sets to which the vertices are added: the first stage
    to the first of the list. Missing ones are appended, and nothing is executed: add an Execute of
    each, in order. Several reductions with the same list run in parallel. Raises `PoplibsError` and
    `InvalidOptionError`.
    """
    _check_into(prog, debug_context)
    job = _job(graph, SingleReduceOp(x, dims, operation, out_type), None, options)
    _add_output(graph, job, f"{debug_context}/out")
    _run(graph, [job], prog, debug_context)
    return job.result()


@library
def reduce_with_output(
    graph: Graph,
    x: Free,
    out: Tensor,
    dims: Sequence[int],
    prog: Into,
    operation: str | ReduceParams = "ADD",
    debug_context: str = OWN,
    options: Options | None = None,
) -> None:
    """Write the result of `reduce` to `out`, which keeps its tile mapping.

    `out` has the shape that remains and the dtype of x, or HALF or FLOAT if x is either. With
    `ReduceParams(update=True)`, the result is added to the values of `out`.
    """
    _check_into(prog, debug_context)
    job = _job(graph, SingleReduceOp(x, dims, operation, out.dtype), out, options)
    _run(graph, [job], prog, debug_context)


@library
def reduce_many(
    graph: Graph,
    operations: Sequence[SingleReduceOp | tuple[Any, ...]],
    prog: Into,
    debug_context: str = OWN,
    outputs: Sequence[Tensor] | None = None,
    options: Options | None = None,
) -> list[Tensor]:
    """Run several reductions in parallel, in at most three compute sets; return their results.

    `operations` is a list of `SingleReduceOp`, or of tuples of its arguments. `outputs` contains a
    tensor for each, as `out` of `reduce_with_output`; by default they are created. `prog` and
    `options` are as for `reduce`.
    """
    _check_into(prog, debug_context)
    if not isinstance(operations, (list, tuple)) or not all(
        isinstance(op, SingleReduceOp) or (isinstance(op, tuple) and len(op) in (2, 3, 4))
        for op in operations
    ):
        raise refused(
            f"was given {shown(operations)}.", next_step="give a list: [SingleReduceOp(x, [0]), …]."
        )
    reductions = [
        op if isinstance(op, SingleReduceOp) else SingleReduceOp(*op) for op in operations
    ]
    if outputs is not None and (
        not isinstance(outputs, (list, tuple)) or len(outputs) != len(operations)
    ):
        raise refused(f"""was given {counted(len(operations), "reduction")} and the outputs
            {shown(outputs)}.
            next:  give a list with one tensor for each, or none at all.""")
    for out in outputs or ():
        check_tensor(graph, "out", out)
        check_mapped(graph, "out", out)
    jobs = [
        _job(graph, op, None if outputs is None else outputs[i], options)
        for i, op in enumerate(reductions)
    ]
    for i, job in enumerate(jobs):
        if job.out is None:
            _add_output(graph, job, f"{debug_context}/out{i}")
    if jobs:
        _run(graph, jobs, prog, debug_context)
    return [job.result() for job in jobs]


@dataclass
class _Job:
    """One reduction after its check: a matrix of rows and columns, and where the result goes."""

    matrix: Tensor
    shape: Shape
    params: ReduceParams
    dtype: type[DType]
    types: AccumTypes
    out: Tensor | None

    def result(self) -> Tensor:
        assert self.out is not None
        return self.out


def _check_into(into: Into, name: str) -> None:
    """Raise `PoplibsError` unless `into` is a Sequence or compute sets, and `name` is text."""
    if not (isinstance(into, list) and all(isinstance(part, ComputeSet) for part in into)):
        check_prog(into)
    check_name(name)


def _job(graph: Graph, op: SingleReduceOp, out: Tensor | None, options: Options | None) -> _Job:
    x = op.x
    params = op.params if isinstance(op.params, ReduceParams) else ReduceParams(op.params)
    check_tensor(graph, "x", x)
    check_operation(params.operation)
    _check_dtype(graph, x, params.operation)
    types = accum_types(params.operation, x.dtype, options)
    chosen = _dims(x, op.dims)
    dtype = x.dtype if op.out_type is None else as_dtype(op.out_type, f"{calling()}()")
    if dtype is not x.dtype and (dtype not in _FLOATS or x.dtype not in _FLOATS):
        raise refused(f"""reduces {x.dtype.__name__} to {x.dtype.__name__}, but was asked
            for {dtype.__name__}.
            where: {x!r}
            next:  convert the result with popops.cast; only HALF and FLOAT are converted here.""")
    kept_dims = [d for d in range(x.rank) if d not in chosen]
    rows = prod(x.shape[d] for d in chosen)
    shape = tuple(x.shape[d] for d in kept_dims)
    if rows == 0 and params.operation in ("MAX", "MIN"):
        raise refused(
            f"with {params.operation} was given no elements.",
            x,
            "give at least one element, or use another operation than MAX and MIN.",
        )
    if out is not None:
        check_output(out, shape, dtype)
    _check_extras(graph, x, params, out)
    matrix = x.dim_shuffle(chosen + kept_dims).reshape((rows, prod(shape)))
    return _Job(matrix, shape, params, dtype, types=types, out=out)


def _check_dtype(graph: Graph, x: Tensor, operation: str) -> None:
    if operation.startswith("LOGICAL"):
        if x.dtype is not BOOL:
            raise refused(f"""with {operation} works on BOOL, but x is {x.dtype.__name__}.
                where: {x!r}
                next:  compare first: popops.neq(graph, x, 0, prog).""")
        return
    check_operand(graph, "x", x)
    if operation == "LOG_ADD" and x.dtype not in _FLOATS:
        raise refused(
            f"with LOG_ADD works on FLOAT and HALF, but x is {x.dtype.__name__}.",
            x,
            "cast it with popops.cast.",
        )


def _dims(x: Tensor, dims: Sequence[int]) -> list[int]:
    if not isinstance(dims, Sequence) or isinstance(dims, str):
        raise refused(
            f"was given the dimensions {shown(dims)}.", next_step="give a list, as in [0]."
        )
    chosen = [x._axis(d) for d in dims]
    if len(set(chosen)) != len(chosen):
        raise refused(
            f"was given the dimensions {shown(dims)}, one of them twice.", x, "name each once."
        )
    return chosen


def _check_extras(graph: Graph, x: Tensor, params: ReduceParams, out: Tensor | None) -> None:
    """Raise `PoplibsError` unless the operation and the dtype permit the scale and the update."""
    extra = "update" if params.update else ""
    if params.scale is not None:
        extra = "scale"
    if extra and params.operation not in _SCALED:
        raise refused(f"""with {params.operation} was given {extra}.
            next:  only {" and ".join(_SCALED)} take scale and update.""")
    if params.update and out is None:
        raise refused("""was given update, but no output to add to.
            next:  use reduce_with_output, or the outputs of reduce_many.""")
    if params.scale is None:
        return
    if x.dtype not in _FLOATS:
        raise refused(f"scales FLOAT and HALF, but x is {x.dtype.__name__}.", x, "leave scale out.")
    if not isinstance(params.scale, Tensor):
        check_number("scale", params.scale, FLOAT)
        return
    check_tensor(graph, "scale", params.scale)
    if params.scale.dtype is not FLOAT or params.scale.num_elements != 1:
        raise refused(f"""needs scale as a number, or as a FLOAT tensor of one element.
            where: {params.scale!r}
            next:  make it with graph.add_variable(FLOAT, ()).""")


def _add_output(graph: Graph, job: _Job, name: str) -> None:
    job.out = linear(graph, job.dtype, job.shape, name)


def _run(graph: Graph, jobs: list[_Job], prog: Into, name: str) -> None:
    """Add the compute sets of all jobs.

    Jobs with one stage use the compute set of the other jobs' first stage.
    """
    plans = [_plan(graph, job) for job in jobs]
    max_steps = max(plan.steps for plan in plans)
    last = "IntermediateToOutput" if max_steps > 1 else "InToOutput"
    stages = [*("InToIntermediate", "IntermediateToIntermediate")[: max_steps - 1], last]
    into = prog if isinstance(prog, list) else []
    into += [graph.add_compute_set(f"{name}/Reduce/{stage}") for stage in stages[len(into) :]]
    for job, plan in zip(jobs, plans, strict=True):
        operation = job.params.operation
        parts = [(0, job.matrix)]
        if isinstance(plan, PlacedPlan):
            parts = _reduce_where_it_lies(graph, into, job, plan, name=name)
        elif plan.row_blocks > 1:
            parts = [(0, _reduce_blocks(graph, into[0], job, plan.row_blocks, name=name))]
        if plan.steps > 1:
            operation = after(operation)
        for begin, matrix in parts:
            shares = shares_of(operation, *_size(matrix)[::-1], matrix.dtype)
            _finish(
                graph,
                into[plan.steps - 1],
                matrix,
                job,
                operation=operation,
                name=name,
                shares=shares,
                first=begin,
            )
    if not isinstance(prog, list):
        for compute_set in into:
            prog.add(Execute(compute_set))


def _plan(graph: Graph, job: _Job) -> ReducePlan | PlacedPlan:
    """Return the cheaper of two plans: blocks of rows, or first the rows of each tile."""
    operation = job.params.operation
    kind = job.matrix.dtype
    types = job.types
    plan = planned(*_size(job.matrix), kind, graph.target, operation, types.inter_tile)
    placement = lying(graph, job.matrix)
    if placement is None:
        return plan
    placed = placed_plan(
        placement, operation, kind, job.dtype, inter_tile=types.inter_tile, target=graph.target
    )
    cycles = plan.cycles
    if plan.steps == 1 and plan.stages:  # the elements may already be on the tiles of the result
        owners = graph.tile_map().at(job.result().flatten().positions() * job.dtype.size)
        moved = np.array([plan.stages[0].exchange_bytes, placement.elsewhere(owners) * kind.size])
        before, after_all = exchange_cycles(moved, graph.target).tolist()
        cycles += after_all - before
    return placed if placed.cycles < cycles else plan


def _reduce_where_it_lies(
    graph: Graph, into: list[ComputeSet], job: _Job, plan: PlacedPlan, name: str
) -> list[tuple[int, Tensor]]:
    """Add the vertices that reduce rows of each column on their tiles, and blocks of results.

    Returns (first column, [results, columns]) for each group of columns with equally many results.
    """
    placement = plan.lying
    again = after(job.params.operation)
    kind = job.types.inter_tile
    inside = job.types.in_vertex
    partials = graph.add_variable(kind, (len(placement.tiles),), f"{name}/partials")
    graph.set_tile_mapping(partials, placement.tiles)
    _add_by_group(graph, into[0], job, plan, partials=partials)
    parts = [
        (begin, partials[placement.of_columns(begin, end)])
        for begin, end in placement.even(plan.width)
    ]
    if plan.blocks == 1:
        return parts
    between = graph.add_variable(kind, (plan.blocks, job.matrix.shape[1]), f"{name}/between")
    pieces = [
        (x[low:high], between[i, begin : begin + x.shape[1]])
        for begin, x in parts
        for i, (low, high) in enumerate(balanced_partition(x.shape[0], plan.blocks))
    ]
    for tile, (x, out) in dealt(pieces, graph.target.num_tiles):
        shares = shares_of(again, x.shape[1], x.shape[0], kind)
        codelet = reduction_codelet(ReduceRows, again, kind, kind, carried=inside, shares=shares)
        put(graph, into[1], tile, codelet, {"x": x, "out": out}, out)
    return [(0, between)]


def _add_by_group(
    graph: Graph, into: ComputeSet, job: _Job, plan: PlacedPlan, partials: Tensor
) -> None:
    """Add the vertices that reduce each group of columns on its tile; one call per codelet."""
    operation = job.params.operation
    dtype = job.matrix.dtype
    groups = plan.lying.groups
    path = graph.target.get_vector_width(dtype)
    # divide the columns of a group into parts of whole data paths, with a vertex for each
    parts = np.maximum(plan.alone, 1)
    paths = -(-groups.columns // path)
    group, part = expand(np.zeros_like(parts), parts)
    low, high = ((part + i) * paths[group] // parts[group] * path for i in (0, 1))
    columns = np.minimum(high, groups.columns[group]) - low
    rows = groups.rows[group]
    alone = plan.alone[group] > 0
    across = groups.across[group]
    first = groups.first[group] + low * rows
    begin = groups.result[group] + low

    shape_of, shapes = numbered(columns, rows, across)
    xs = listed_column(
        graph,
        dtype,
        len(group),
        (
            (vertices, _elements(plan.lying.places, first[vertices], *shape))
            for vertices, shape in zip(members(shape_of, len(shapes)), shapes, strict=True)
        ),
    )
    length_of, lengths = numbered(columns)
    forms = [partials[:length].form for (length,) in lengths]
    outs = Column(partials.offset + begin, length_of, forms)
    size_of, sizes = numbered(groups.columns, groups.rows)
    shares = np.array([shares_of(operation, n, m, dtype) for n, m in sizes])[size_of][group]
    kind_of, kinds = numbered(alone, np.where(alone, 1, shares), across)
    number = into.num_vertices + np.arange(len(group))
    for (is_alone, several, is_across), chosen in zip(
        kinds, members(kind_of, len(kinds)), strict=True
    ):
        base = ReduceRowsAlone if is_alone else ReduceRows
        inside = job.types.in_vertex
        across_rows = bool(is_across)
        codelet = reduction_codelet(
            base,
            operation,
            dtype,
            partials.dtype,
            carried=inside,
            shares=several,
            across=across_rows,
        )
        edges = {"x": xs.at(chosen), "out": outs.at(chosen)}
        tiles = groups.tile[group[chosen]]
        graph.add_columns(into, codelet, tiles, edges, fields={}, order=number[chosen])


def _elements(places: Array, first: Array, columns: int, rows: int, across: int) -> Array:
    """Return the positions of `columns` columns from index `first` of `places` on, for each vertex.

    The shape is [vertices, rows, columns], or [vertices, columns, rows] if `across`.
    """
    flat = places[first[:, None] + np.arange(columns * rows)]
    positions: Array = flat.reshape(-1, columns, rows)
    return positions if across else positions.transpose(0, 2, 1)


def _size(matrix: Tensor) -> tuple[int, int]:
    rows, columns = matrix.shape
    return rows, columns


def _reduce_blocks(graph: Graph, into: ComputeSet, job: _Job, blocks: int, name: str) -> Tensor:
    """Add a vertex for each block of rows; return their results, [blocks, columns].

    A block is on the tile of its first element, if the blocks' tiles are all different.
    """
    matrix = job.matrix
    kind = job.types.inter_tile
    partials = graph.add_variable(kind, (blocks, matrix.shape[1]), f"{name}/partials")
    shares = shares_of(
        job.params.operation, matrix.shape[1], -(-matrix.shape[0] // blocks), matrix.dtype
    )
    codelet = reduction_codelet(
        ReduceRows,
        job.params.operation,
        matrix.dtype,
        kind,
        carried=job.types.in_vertex,
        shares=shares,
    )
    parts = balanced_partition(matrix.shape[0], blocks)
    first = matrix.positions()[[begin for begin, _ in parts], 0]
    tiles: list[int] = graph.tile_map().at(first * matrix.dtype.size).tolist()
    if len(set(tiles)) < blocks or min(tiles) < 0:
        tiles = [tile for tile, _ in dealt(parts, graph.target.num_tiles)]
    for i, (tile, (begin, end)) in enumerate(zip(tiles, parts, strict=True)):
        edges = {"x": matrix[begin:end], "out": partials[i]}
        put(graph, into, tile, codelet, edges, partials[i])
    return partials


def _finish(
    graph: Graph,
    into: ComputeSet,
    matrix: Tensor,
    job: _Job,
    operation: str,
    name: str,
    shares: int = 1,
    first: int = 0,
) -> None:
    """Add the vertices that reduce `matrix` into the job's output, from its column `first` on.

    Each column is reduced on the tile of its result.
    """
    params = job.params
    out = job.result()
    bases = {
        (False, False): ReduceRows,
        (True, False): ScaledReduceRows,
        (False, True): ReduceRowsUpdate,
        (True, True): ScaledReduceRowsUpdate,
    }
    codelet = reduction_codelet(
        bases[params.scale is not None, params.update],
        operation,
        matrix.dtype,
        out.dtype,
        carried=job.types.in_vertex,
        shares=shares,
    )
    extra: dict[str, Tensor] = {}
    if params.scale is not None:
        extra["scale"] = scalar(graph, FLOAT, params.scale, f"{name}/scale").reshape(())
    flat = out.flatten()[first : first + matrix.shape[1]]
    for tile, pieces in tile_pieces(graph, flat):
        columns = concat([matrix[:, begin:end] for begin, end in pieces], 1)
        put(graph, into, tile, codelet, edges={"x": columns, "out": take(flat, pieces)} | extra)


@library
def reduce_rows(
    graph: Graph,
    matrix: Tensor,
    out: Tensor,
    prog: Program,
    operation: str,
    name: str,
    update: bool = False,
) -> None:
    """Reduce the rows of `matrix`, first to last, into `out`.

    Each column is reduced on the tile of its result. With `update`, the result is added to the
    values of `out`. There is one compute set, with the name `name`: it is the last step of other
    libraries' plans.
    """
    into = graph.add_compute_set(name)
    types = accum_types(operation, matrix.dtype, None)
    params = ReduceParams(operation, update=update)
    job = _Job(matrix, out.shape, params, out.dtype, types=types, out=out)
    _finish(graph, into, matrix, job, operation=operation, name=name)
    prog.add(Execute(into))
