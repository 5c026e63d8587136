"""Reductions: `reduce`, `reduce_with_output` and `reduce_many`.

A tensor is viewed as a matrix: the reduced dimensions form the rows, and the other dimensions form
the columns. The cost model chooses between these methods:

* In one stage, every tile that has results reads all rows of their columns.
* In two stages, blocks of rows are reduced in parallel on different tiles, and then the results of
  the blocks. If possible, a block is reduced on the tile of its first element. `plan_reduce`
  chooses the number of blocks.
* Each tile first reduces the rows that are on this tile, without an exchange. The partial results
  are then reduced in one stage or in two stages.
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
from ipu_teach.poplibs.popops.reduction_places import PlacedPlan, placed_plan, placement_of
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
# The counterpart of Poplar's enum Operation; for example, `popops.Operation.ADD` is the string
# "ADD".
Operation = SimpleNamespace(**{name: name for name in REDUCTIONS})


@described
@dataclass(frozen=True)
class ReduceParams:
    """The parameters of a reduction: its `operation` and, for sums only, `scale` and `update`.

    `operation` is the name of an `Operation`, such as "ADD". For ADD and SQUARE_ADD, the result is
    multiplied by `scale`, which is a number or a FLOAT tensor of one element. If `update` is true,
    the result is added to the values of an existing output instead of replacing them.
    """

    operation: str = "ADD"
    scale: float | Tensor | None = None
    update: bool = False


@described
@dataclass(frozen=True)
class SingleReduceOp:
    """A reduction for `reduce_many`: the tensor `x` is reduced over the dimensions `dims`.

    `params` is the operation's name or a `ReduceParams`. `out_type` is the dtype of the result, by
    default the dtype of x. If x is FLOAT or HALF, `out_type` may be either of the two.
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

    The other dimensions remain, in order. `operation` is a `ReduceParams`, or the name of an
    operation. ADD, MUL, MIN and MAX work on numbers, LOGICAL_AND and LOGICAL_OR on BOOL. SQUARE_ADD
    is the sum of squares. LOG_ADD, for FLOAT and HALF, is the logarithm of the sum of exponentials.
    `out_type` may be FLOAT for x of HALF, or HALF for x of FLOAT; by default it is the dtype of x.
    The result is mapped linearly over the tiles. If there are no elements to reduce, the result is
    the operation's neutral element; MIN and MAX raise an error in this case.

    The reduced dimensions form the rows of a matrix, and the other dimensions its columns. The cost
    model chooses between two methods by the tile mapping of x:

    * By blocks, in one or two compute sets: `plan_reduce` divides the rows into blocks. The rows of
      each block are reduced first to last. Then the results of the blocks are reduced, first to
      last.
    * By tiles, in two or three compute sets: each tile reduces the rows of a column that are on
      this tile, first to last. The results of the tiles are then reduced in the order of the tiles'
      first rows, either first to last, or in blocks whose results are reduced in another step.

    On a tile, the six workers usually divide the columns between them. For ADD, SQUARE_ADD, MIN and
    MAX, they divide the rows instead if there are few columns with many rows. Few columns are at
    most 8 for FLOAT and HALF, and 1 for integers. Many rows are at least 32 per column or, for
    SQUARE_ADD, at least 32 in total. The rows are divided as by `poputil.balanced_partition`, and
    the workers' results are reduced first to last. With the method by tiles, a worker may reduce
    whole columns instead. Sums of HALF are accumulated in FLOAT and rounded once, unless `options`
    set "accumType.inVertex" (the dtype of sums within a vertex) or "accumType.interTile" (the dtype
    of results between the compute sets).

    `prog` is a Sequence, or a list of compute sets. With a list, the vertices of the first stage
    are added to its first compute set, and so on; missing compute sets are appended to the list. In
    this case the call adds no program: add an Execute of each compute set, in order. Several
    reductions with the same list run in parallel.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
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
    """Write x, reduced over the dimensions `dims` by `operation`, to `out`.

    The reduction and the other arguments are those of `reduce`. `out` keeps its tile mapping. Its
    shape consists of the dimensions that are not reduced. Its dtype is the dtype of x; if x is HALF
    or FLOAT, `out` may have either of these two dtypes. With `ReduceParams(update=True)`, the
    result is added to the values of `out`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
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
    """Append reductions that run in parallel, in at most three compute sets; return the results.

    `operations` is a list of `SingleReduceOp`, or of tuples of its arguments. `outputs` contains a
    tensor for each reduction, like `out` of `reduce_with_output`; by default, new tensors are
    created. `prog` and `options` are those of `reduce`.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    :raises TensorCreationError: if a number is out of range of its dtype.
    :raises InvalidOptionError: if an option is wrong.
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
            next:  give a list with one tensor for each reduction, or leave outputs out.""")
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
    """A checked reduction of the rows of `matrix` [rows, columns] to a tensor of shape `shape`.

    `out` is the tensor of the result, or None until it is created. `dtype` is the dtype of the
    result, and `types` contains the dtypes in which values are accumulated.
    """

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
    """Raise `PoplibsError` unless `into` is a Sequence or compute sets, and `name` is a string.

    Compute sets are passed as a list.
    """
    if not (
        isinstance(into, list) and all(isinstance(compute_set, ComputeSet) for compute_set in into)
    ):
        check_prog(into)
    check_name(name)


def _job(graph: Graph, op: SingleReduceOp, out: Tensor | None, options: Options | None) -> _Job:
    x = op.x
    params = op.params if isinstance(op.params, ReduceParams) else ReduceParams(op.params)
    check_tensor(graph, "x", x)
    check_operation(params.operation)
    _check_dtype(graph, x, params.operation)
    types = accum_types(params.operation, x.dtype, options)
    reduced_dims = _dims(x, op.dims)
    dtype = x.dtype if op.out_type is None else as_dtype(op.out_type, f"{calling()}()")
    if dtype is not x.dtype and (dtype not in _FLOATS or x.dtype not in _FLOATS):
        raise refused(f"""cannot reduce {x.dtype.__name__} to {dtype.__name__}; it converts only
            HALF and FLOAT.
            where: {x!r}
            next:  leave out_type out, and convert the result with popops.cast.""")
    kept_dims = [d for d in range(x.rank) if d not in reduced_dims]
    num_rows = prod(x.shape[d] for d in reduced_dims)
    shape = tuple(x.shape[d] for d in kept_dims)
    if num_rows == 0 and params.operation in ("MAX", "MIN"):
        raise refused(
            f"with {params.operation} was given no elements.",
            x,
            "give a tensor with at least one element, or use an operation other than MAX and MIN.",
        )
    if out is not None:
        check_output(out, shape, dtype)
    _check_extras(graph, x, params, out)
    matrix = x.dim_shuffle(reduced_dims + kept_dims).reshape((num_rows, prod(shape)))
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
    valid_dims = [x._axis(d) for d in dims]
    if len(set(valid_dims)) != len(valid_dims):
        raise refused(
            f"was given the dimensions {shown(dims)}, which name a dimension twice.",
            x,
            "name each dimension once.",
        )
    return valid_dims


def _check_extras(graph: Graph, x: Tensor, params: ReduceParams, out: Tensor | None) -> None:
    """Raise `PoplibsError` unless the operation and the dtypes permit the scale and the update.

    `out` is the existing output, or None if the reduction creates a new tensor; an update needs an
    output.
    """
    extra = "update" if params.update else ""
    if params.scale is not None:
        extra = "scale"
    if extra and params.operation not in _SCALED:
        raise refused(f"""with {params.operation} was given {extra}.
            next:  leave {extra} out; only {" and ".join(_SCALED)} have a scale and an update.""")
    if params.update and out is None:
        raise refused("""was given update=True, but no output to which the result is added.
            next:  use reduce_with_output, or give outputs to reduce_many.""")
    if params.scale is None:
        return
    if x.dtype not in _FLOATS:
        raise refused(
            f"can scale FLOAT and HALF, but x is {x.dtype.__name__}.", x, "leave scale out."
        )
    if not isinstance(params.scale, Tensor):
        check_number("scale", params.scale, FLOAT)
        return
    check_tensor(graph, "scale", params.scale)
    if params.scale.dtype is not FLOAT or params.scale.num_elements != 1:
        raise refused(f"""was given a scale that is neither a number nor a FLOAT tensor of one
            element.
            where: {params.scale!r}
            next:  create the tensor with graph.add_variable(FLOAT, ()).""")


def _add_output(graph: Graph, job: _Job, name: str) -> None:
    job.out = linear(graph, job.dtype, job.shape, name)


def _run(graph: Graph, jobs: list[_Job], prog: Into, name: str) -> None:
    """Add the vertices of all reductions to common compute sets.

    Stage i of each reduction is added to compute set i, so a reduction with fewer stages than
    others uses only the first compute sets. If `prog` is a Sequence, an Execute of each compute set
    is appended to it.
    """
    plans = [_plan(graph, job) for job in jobs]
    max_steps = max(plan.steps for plan in plans)
    last_stage = "IntermediateToOutput" if max_steps > 1 else "InToOutput"
    stage_names = [*("InToIntermediate", "IntermediateToIntermediate")[: max_steps - 1], last_stage]
    compute_sets = prog if isinstance(prog, list) else []
    compute_sets += [
        graph.add_compute_set(f"{name}/Reduce/{stage}")
        for stage in stage_names[len(compute_sets) :]
    ]
    for job, plan in zip(jobs, plans, strict=True):
        operation = job.params.operation
        matrices = [(0, job.matrix)]
        if isinstance(plan, PlacedPlan):
            matrices = _reduce_by_tiles(graph, compute_sets, job, plan, name=name)
        elif plan.row_blocks > 1:
            matrices = [
                (0, _reduce_blocks(graph, compute_sets[0], job, plan.row_blocks, name=name))
            ]
        if plan.steps > 1:
            operation = after(operation)
        for first_column, matrix in matrices:
            shares = shares_of(operation, *_size(matrix)[::-1], matrix.dtype)
            _finish(
                graph,
                compute_sets[plan.steps - 1],
                matrix,
                job,
                operation=operation,
                name=name,
                shares=shares,
                first_column=first_column,
            )
    if not isinstance(prog, list):
        for compute_set in compute_sets:
            prog.add(Execute(compute_set))


def _plan(graph: Graph, job: _Job) -> ReducePlan | PlacedPlan:
    """Return the cheaper of two plans for a reduction.

    With a `ReducePlan`, blocks of rows are reduced on different tiles. With a `PlacedPlan`, each
    tile first reduces the rows that are on this tile.
    """
    operation = job.params.operation
    matrix_dtype = job.matrix.dtype
    types = job.types
    plan = planned(*_size(job.matrix), matrix_dtype, graph.target, operation, types.inter_tile)
    placement = placement_of(graph, job.matrix)
    if placement is None:
        return plan
    placed_alternative = placed_plan(
        placement,
        operation,
        matrix_dtype,
        job.dtype,
        inter_tile=types.inter_tile,
        target=graph.target,
    )
    cycles = plan.cycles
    if plan.steps == 1 and plan.stages:
        # The plan assumes that every element is sent to the tile of its result. Subtract the cycles
        # for the elements that are already on the tile of their result.
        owners = graph.tile_map().at(job.result().flatten().positions() * job.dtype.size)
        bytes_moved = np.array(
            [
                plan.stages[0].exchange_bytes,
                placement.max_fetched(owners) * matrix_dtype.size,
            ]
        )
        planned_cycles, actual_cycles = exchange_cycles(bytes_moved, graph.target).tolist()
        cycles += actual_cycles - planned_cycles
    return placed_alternative if placed_alternative.cycles < cycles else plan


def _reduce_by_tiles(
    graph: Graph, compute_sets: list[ComputeSet], job: _Job, plan: PlacedPlan, name: str
) -> list[tuple[int, Tensor]]:
    """Add the vertices of all stages except the last; return the matrices for the last stage.

    In the first stage, each tile reduces the rows that are on this tile. The result is a list of
    pairs (first column, matrix). Each matrix [partial results, columns] is for a range of
    neighbouring columns that have the same number of partial results.
    """
    placement = plan.placement
    second_operation = after(job.params.operation)
    partials_dtype = job.types.inter_tile
    vertex_dtype = job.types.in_vertex
    partials = graph.add_variable(partials_dtype, (len(placement.tiles),), f"{name}/partials")
    graph.set_tile_mapping(partials, placement.tiles)
    _add_by_group(graph, compute_sets[0], job, plan, partials=partials)
    matrices = [
        (first_column, partials[placement.of_columns(first_column, end_column)])
        for first_column, end_column in placement.equal_intervals(plan.width)
    ]
    if plan.blocks == 1:
        return matrices
    block_results = graph.add_variable(
        partials_dtype, (plan.blocks, job.matrix.shape[1]), f"{name}/between"
    )
    blocks_of_rows = [
        (
            partial_rows[row_begin:row_end],
            block_results[i, first_column : first_column + partial_rows.shape[1]],
        )
        for first_column, partial_rows in matrices
        for i, (row_begin, row_end) in enumerate(
            balanced_partition(partial_rows.shape[0], plan.blocks)
        )
    ]
    for tile, (partial_rows, out) in dealt(blocks_of_rows, graph.target.num_tiles):
        shares = shares_of(
            second_operation, partial_rows.shape[1], partial_rows.shape[0], partials_dtype
        )
        codelet = reduction_codelet(
            ReduceRows,
            second_operation,
            partials_dtype,
            partials_dtype,
            carried=vertex_dtype,
            shares=shares,
        )
        put(graph, compute_sets[1], tile, codelet, {"x": partial_rows, "out": out}, out)
    return [(0, block_results)]


def _add_by_group(
    graph: Graph, compute_set: ComputeSet, job: _Job, plan: PlacedPlan, partials: Tensor
) -> None:
    """Add the vertices that reduce, on each tile, the elements that are on this tile.

    A vertex reduces columns of one of the plan's groups (see `Groups`), and writes its results to
    `partials`. All vertices with the same codelet are added in one call.
    """
    operation = job.params.operation
    dtype = job.matrix.dtype
    groups = plan.placement.groups
    vertices = _vertices_of_groups(plan, graph.target.get_vector_width(dtype))
    shape_number, vertex_shapes = numbered(vertices.columns, vertices.rows, vertices.across)
    x_column = listed_column(
        graph,
        dtype,
        len(vertices.group),
        (
            (selected, _elements(plan.placement.places, vertices.first_element[selected], *shape))
            for selected, shape in zip(
                members(shape_number, len(vertex_shapes)), vertex_shapes, strict=True
            )
        ),
    )
    length_number, result_lengths = numbered(vertices.columns)
    result_forms = [partials[:length].form for (length,) in result_lengths]
    out_column = Column(partials.offset + vertices.first_result, length_number, result_forms)
    size_number, group_sizes = numbered(groups.columns, groups.rows)
    shares = np.array(
        [
            shares_of(operation, group_columns, group_rows, dtype)
            for group_columns, group_rows in group_sizes
        ]
    )[size_number][vertices.group]
    is_alone = plan.alone[vertices.group] > 0
    kind_number, codelet_kinds = numbered(is_alone, np.where(is_alone, 1, shares), vertices.across)
    vertex_number = compute_set.num_vertices + np.arange(len(vertices.group))
    for (reads_alone, num_shares, is_across), selected in zip(
        codelet_kinds, members(kind_number, len(codelet_kinds)), strict=True
    ):
        codelet = reduction_codelet(
            ReduceRowsAlone if reads_alone else ReduceRows,
            operation,
            dtype,
            partials.dtype,
            carried=job.types.in_vertex,
            shares=num_shares,
            across=bool(is_across),
        )
        edges = {"x": x_column.at(selected), "out": out_column.at(selected)}
        tiles = groups.tile[vertices.group[selected]]
        graph.add_columns(
            compute_set, codelet, tiles, edges, fields={}, order=vertex_number[selected]
        )


@dataclass(frozen=True)
class _GroupVertices:
    """The vertices that reduce the groups of a plan, as arrays with an entry for each vertex.

    A group consists of neighbouring columns whose elements on a tile are in the same rows.

    - `group`: the index of the group whose columns the vertex reduces.
    - `columns`: the number of columns that the vertex reduces.
    - `rows`: the number of rows that the vertex reduces.
    - `across`: whether elements of the same column, rather than of the same row, are neighbours in
      memory.
    - `first_element`: the index in `Placement.places` of the first element that the vertex reduces.
    - `first_result`: the index of the first partial result that the vertex writes.
    """

    group: Array
    columns: Array
    rows: Array
    across: Array
    first_element: Array
    first_result: Array


def _vertices_of_groups(plan: PlacedPlan, vector_width: int) -> _GroupVertices:
    """Return the vertices that reduce a plan's groups; the vertices of a group divide its columns.

    The columns are divided in multiples of `vector_width`. `plan.alone` contains the number of
    workers for each group, and a group gets one vertex per worker. If this number is 0, the group
    gets a single vertex.
    """
    groups = plan.placement.groups
    vertices_of_group = np.maximum(plan.alone, 1)
    vectors_of_group = -(-groups.columns // vector_width)
    group, number_in_group = expand(np.zeros_like(vertices_of_group), vertices_of_group)
    begin_in_group, end_in_group = (
        (number_in_group + i) * vectors_of_group[group] // vertices_of_group[group] * vector_width
        for i in (0, 1)
    )
    num_rows = groups.rows[group]
    return _GroupVertices(
        group=group,
        columns=np.minimum(end_in_group, groups.columns[group]) - begin_in_group,
        rows=num_rows,
        across=groups.across[group],
        first_element=groups.first[group] + begin_in_group * num_rows,
        first_result=groups.result[group] + begin_in_group,
    )


def _elements(places: Array, first: Array, columns: int, rows: int, across: int) -> Array:
    """Return int64[vertices, rows, columns]: the positions in memory of each vertex's elements.

    `places` contains positions in memory, column by column. A vertex reads `columns` * `rows`
    consecutive entries of `places`. `first` contains the index of each vertex's first entry. If
    `across` is true, the returned shape is [vertices, columns, rows].
    """
    vertex_places = places[first[:, None] + np.arange(columns * rows)]
    positions: Array = vertex_places.reshape(-1, columns, rows)
    return positions if across else positions.transpose(0, 2, 1)


def _size(matrix: Tensor) -> tuple[int, int]:
    rows, columns = matrix.shape
    return rows, columns


def _reduce_blocks(
    graph: Graph, compute_set: ComputeSet, job: _Job, num_blocks: int, name: str
) -> Tensor:
    """Add a vertex for each block of rows; return the reduced rows, [blocks, columns].

    Each block is reduced on the tile of its first element if no two blocks have the same tile.
    Otherwise the blocks are distributed over all tiles.
    """
    matrix = job.matrix
    partials_dtype = job.types.inter_tile
    partials = graph.add_variable(partials_dtype, (num_blocks, matrix.shape[1]), f"{name}/partials")
    shares = shares_of(
        job.params.operation, matrix.shape[1], -(-matrix.shape[0] // num_blocks), matrix.dtype
    )
    codelet = reduction_codelet(
        ReduceRows,
        job.params.operation,
        matrix.dtype,
        partials_dtype,
        carried=job.types.in_vertex,
        shares=shares,
    )
    row_blocks = balanced_partition(matrix.shape[0], num_blocks)
    first_positions = matrix.positions()[[begin for begin, _ in row_blocks], 0]
    tiles: list[int] = graph.tile_map().at(first_positions * matrix.dtype.size).tolist()
    if len(set(tiles)) < num_blocks or min(tiles) < 0:
        tiles = [tile for tile, _ in dealt(row_blocks, graph.target.num_tiles)]
    for block_number, (tile, (begin, end)) in enumerate(zip(tiles, row_blocks, strict=True)):
        edges = {"x": matrix[begin:end], "out": partials[block_number]}
        put(graph, compute_set, tile, codelet, edges, partials[block_number])
    return partials


def _finish(
    graph: Graph,
    compute_set: ComputeSet,
    matrix: Tensor,
    job: _Job,
    operation: str,
    name: str,
    shares: int = 1,
    first_column: int = 0,
) -> None:
    """Add the vertices that reduce the rows of `matrix` to elements of the output.

    Column i is written to element `first_column` + i of the flattened output. It is reduced on the
    tile of this element. `shares` is the number of parts into which the workers of a tile divide
    the rows.
    """
    params = job.params
    out = job.result()
    base_codelets = {
        (False, False): ReduceRows,
        (True, False): ScaledReduceRows,
        (False, True): ReduceRowsUpdate,
        (True, True): ScaledReduceRowsUpdate,
    }
    codelet = reduction_codelet(
        base_codelets[params.scale is not None, params.update],
        operation,
        matrix.dtype,
        out.dtype,
        carried=job.types.in_vertex,
        shares=shares,
    )
    extra: dict[str, Tensor] = {}
    if params.scale is not None:
        extra["scale"] = scalar(graph, FLOAT, params.scale, f"{name}/scale").reshape(())
    flat_out = out.flatten()[first_column : first_column + matrix.shape[1]]
    for tile, intervals in tile_pieces(graph, flat_out):
        columns = concat([matrix[:, begin:end] for begin, end in intervals], 1)
        put(
            graph,
            compute_set,
            tile,
            codelet,
            edges={"x": columns, "out": take(flat_out, intervals)} | extra,
        )


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
    """Reduce the rows of `matrix` [rows, columns], first to last, and write the result to `out`.

    The call adds one compute set with the name `name`. Each column is reduced on the tile of its
    result. If `update` is true, the result is added to the values of `out`.
    """
    into = graph.add_compute_set(name)
    types = accum_types(operation, matrix.dtype, None)
    params = ReduceParams(operation, update=update)
    job = _Job(matrix, out.shape, params, out.dtype, types=types, out=out)
    _finish(graph, into, matrix, job, operation=operation, name=name)
    prog.add(Execute(into))
