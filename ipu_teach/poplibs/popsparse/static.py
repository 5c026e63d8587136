"""Products of a sparse matrix, whose pattern is fixed when the graph is built, and a dense matrix.

    plan = static.plan_sparse_dense(csr, n, graph.target)
    values = static.create_sparse_dense_mat_mul_lhs(graph, plan)
    x = static.create_sparse_dense_mat_mul_rhs(graph, plan)
    out = static.sparse_dense_mat_mul(graph, csr, values, x, prog, plan=plan)

The values may change between runs. The pattern is compiled: it determines which rows of x are sent
to which tile. At run time, nothing is therefore looked up, and only rows that are multiplied are
moved. A supervisor vertex of each tile multiplies the tile's blocks. If several tiles have partial
sums of a row, these sums are added in a second superstep.

The following is not offered: dense times sparse (transpose both), PopLibs' reordering of rows and
columns (enablePreprocessing), and products in groups.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from ipu_teach.cost.vertices.popsparse import static_product, zeroing
from ipu_teach.graph import (
    ComputeSet,
    Graph,
    Input,
    Output,
    SupervisorVertex,
    Tensor,
    Vector,
    concat,
)
from ipu_teach.poplibs.laying import Word, linear, typed
from ipu_teach.poplibs.library import (
    OWN,
    Free,
    Matrix,
    check_mapped,
    check_same,
    check_tensor,
    library,
    refused,
)
from ipu_teach.poplibs.placing import dealt
from ipu_teach.poplibs.poplin.blocks import shares_of
from ipu_teach.poplibs.poplin.matmul_codelets import adder
from ipu_teach.poplibs.popops import zero
from ipu_teach.poplibs.popsparse.matrices import CSRMatrix
from ipu_teach.poplibs.popsparse.static_plan import SparsePlan, check_types, plan_sparse_dense
from ipu_teach.poplibs.poputil import Mapping
from ipu_teach.program import Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, Array, DType

__all__ = [
    "SparsePlan",
    "create_sparse_dense_mat_mul_lhs",
    "create_sparse_dense_mat_mul_rhs",
    "plan_sparse_dense",
    "sparse_dense_mat_mul",
]


class StaticSparsePartial(SupervisorVertex):
    """Multiply a group of sparse blocks by blocks of x, and write the sum of each row to `out`.

    The products of a row are added first to last. `columns` contains, for each sparse block, the
    index of the block of x by which it is multiplied. `starts` contains, for each row of blocks,
    the index of its first sparse block. In the field annotations, FLOAT stands for the dtype of the
    operands, and HALF for the dtype of the sums.
    """

    values: Input[Vector[FLOAT]]
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[HALF]]]
    columns: Vector[UNSIGNED_INT]
    starts: Vector[UNSIGNED_INT]
    block: ClassVar[int]

    def compute(self) -> None:
        b = self.block
        row_length = len(self.out[0])
        sums_dtype = self.out[0].dtype
        blocks = self.values.reshape(-1, b, b).astype(np.float32, copy=False)
        x_blocks = np.reshape(self.x, (-1, b, row_length // b)).astype(np.float32, copy=False)
        products = (
            (blocks @ x_blocks[self.columns]).astype(sums_dtype, copy=False).reshape(-1, row_length)
        )
        run_ends = [*self.starts[1:].tolist(), len(products)]
        for row, (begin, end) in enumerate(zip(self.starts.tolist(), run_ends, strict=True)):
            self.out[row] = products[begin:end].sum(axis=0, dtype=sums_dtype)

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        sums_dtype = self.fields["out"].dtype
        num_rows = len(self.out)
        row_length = len(self.out[0])
        num_blocks = len(self.columns)
        b = self.block
        cycles = static_product(
            num_rows, num_blocks, row_length // b, b, dtype=dtype, target=target
        )
        if b > 4 and sums_dtype is FLOAT:
            cycles += zeroing(num_rows * row_length, sums_dtype, target)
        return int(cycles)


class Pieces(NamedTuple):
    """The pieces into which the tiles of a static product divide the rows of blocks.

    A run is a group of blocks that one tile multiplies. A piece consists of the blocks of one row
    in one run. From each piece, the tile computes a partial sum of the row. The pieces are in the
    order of the runs. The four arrays are int64[pieces].

    - `row`: the index of the row of blocks to which the piece belongs.
    - `run`: the index of the run that contains the piece.
    - `start`: the index of the piece's first block in `SparsePlan.order`.
    - `place`: the index of the piece's partial sum. The partial sums are sorted by the number of
      pieces of their row, then by row, and then by run.
    """

    row: Array
    run: Array
    start: Array
    place: Array


def pieces_of(plan: SparsePlan) -> Pieces:
    """Return the pieces into which the rows of blocks are divided between the tiles of a plan."""
    block_rows = plan.pattern.rows[plan.order]
    block_runs = plan.run_of_block
    begins_piece = np.ones(len(block_rows), bool)
    begins_piece[1:] = (block_rows[1:] != block_rows[:-1]) | (block_runs[1:] != block_runs[:-1])
    first_blocks = np.flatnonzero(begins_piece)
    block_rows = block_rows[first_blocks]
    block_runs = block_runs[first_blocks]
    pieces_in_row = np.bincount(block_rows, minlength=plan.pattern.block_rows)[block_rows]
    ranks = np.empty(len(block_rows), np.int64)
    ranks[np.lexsort((block_runs, block_rows, pieces_in_row))] = np.arange(len(block_rows))
    return Pieces(block_rows, block_runs, first_blocks, ranks)


@library
def create_sparse_dense_mat_mul_lhs(
    graph: Graph, plan: SparsePlan, name: str = "create_sparse_dense_mat_mul_lhs"
) -> Tensor:
    """Return a variable [blocks, b, b] for the values of the sparse operand, mapped by `plan`.

    The blocks are in the order of `plan.pattern`, and have b rows and b columns. Each block is
    mapped to a tile that multiplies it.

    :raises PoplibsError: if the plan is for another number of tiles.
    """
    _check_plan(plan, graph)
    num_blocks = plan.pattern.num_blocks
    b = plan.pattern.block[0]
    tensor = graph.add_variable(plan.dtype, (num_blocks, b, b), name)
    mapping = _mapping(graph)
    block_size = b * b
    num_parts = len(plan.parts)
    run_tiles = np.stack([plan.tiles(part) for part in range(num_parts)])
    block_tiles: Array = run_tiles[np.arange(num_blocks) % num_parts, plan.run_of_block]
    for block_number, tile in zip(plan.order.tolist(), block_tiles.tolist(), strict=True):
        mapping[tile].append((block_number * block_size, (block_number + 1) * block_size))
    graph.set_tile_mapping(tensor, mapping)
    return tensor


@library
def create_sparse_dense_mat_mul_rhs(
    graph: Graph, plan: SparsePlan, name: str = "create_sparse_dense_mat_mul_rhs"
) -> Tensor:
    """Return a tensor [k, n] for the dense operand, distributed linearly over all tiles.

    The plan divides the columns into parts. Each part is contiguous in memory, so that the rows
    that a tile needs arrive as contiguous data.

    :raises PoplibsError: if the plan is for another number of tiles.
    """
    _check_plan(plan, graph)
    k = plan.pattern.shape[1]
    tensor = linear(graph, plan.dtype, (k * plan.n,), name)
    column_parts = [
        tensor[k * begin : k * end].reshape((k, end - begin)) for begin, end in plan.parts
    ]
    return concat(column_parts, 1)


@library
def sparse_dense_mat_mul(
    graph: Graph,
    csr: CSRMatrix,
    values: Free,
    x: Matrix,
    prog: Program,
    debug_context: str = OWN,
    *,
    partials_type: type[DType] = FLOAT,
    plan: SparsePlan | None = None,
) -> Tensor:
    """Return csr [m, k] times x [k, n]: a tensor [m, n] with the dtype of x, FLOAT or HALF.

    `values` is a tensor [blocks, b, b] of x's dtype, with b = 1, 4, 8 or 16. It contains the values
    of the blocks of `csr`, in the order of `csr`, and may change between runs; the values in `csr`
    are ignored. If b is 1, the shape [blocks] is also possible. For another pattern, build another
    graph, or use `dynamic.sparse_dense_mat_mul`. Rows without blocks are 0.

    The product of a block is that of numpy in single precision, rounded to `partials_type`. Each
    tile adds its products for a row, first to last. Then the sums of the tiles are added in the
    order of the plan's runs, and the total is rounded once. There are at most three compute sets:
    "zero" for rows without blocks, "multiply", and "reduce" if a row's products are on several
    tiles or `partials_type` is not the dtype of x.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    check_types(x.dtype, partials_type)
    valid_plan = plan
    if valid_plan is None:
        valid_plan = plan_sparse_dense(
            csr, x.shape[1], graph.target, dtype=x.dtype, partials_type=partials_type
        )
    _check_plan(valid_plan, graph)
    if not valid_plan.pattern.same_pattern(csr):
        raise refused(f"""was given {csr}, but its plan is for another pattern:
            {valid_plan.pattern}.
            next:  plan this pattern and build a new graph, because a static product is compiled
            for one pattern; popsparse.dynamic.sparse_dense_mat_mul accepts any pattern.""")
    _check_operands(graph, valid_plan, values, x)
    return _multiplied(graph, valid_plan, values, x, prog=prog, name=debug_context)


def _check_plan(plan: SparsePlan, graph: Graph) -> None:
    if plan.num_tiles != graph.target.num_tiles:
        raise refused(f"""was given a plan for {plan.num_tiles:,} tiles, but the graph has
            {graph.target.num_tiles:,}.
            next:  create the plan for graph.target.""")


def _check_operands(graph: Graph, plan: SparsePlan, values: Tensor, x: Tensor) -> None:
    pattern = plan.pattern
    context = f"values {values!r} and x {x!r}"
    check_tensor(graph, "values", values, (1, 3) if pattern.block == (1, 1) else (3,))
    check_mapped(graph, "values", values)
    values_shape = (pattern.num_blocks, *pattern.block)[: values.rank]
    advice = "give each block of csr its values."
    check_same("shapes of values", values.shape, values_shape, context, advice=advice)
    advice = "give x as many rows as csr has columns, and as many columns as n in the plan."
    x_shape = (pattern.shape[1], plan.n)
    check_same("shapes of x", x.shape, x_shape, context, advice=advice)
    for name, tensor in (("values", values), ("x", x)):
        check_same(
            f"dtypes of {name}",
            tensor.dtype,
            plan.dtype,
            context,
            advice=f"give {name} the plan's dtype.",
        )


def _mapping(graph: Graph) -> Mapping:
    return [[] for _ in range(graph.target.num_tiles)]


def _multiplied(
    graph: Graph, plan: SparsePlan, values: Tensor, x: Tensor, prog: Program, name: str
) -> Tensor:
    m = plan.pattern.shape[0]
    b = plan.pattern.block[0]
    has_blocks = np.bincount(plan.pattern.rows, minlength=m // b) > 0
    pieces = pieces_of(plan)
    writes_result = plan.partials is plan.dtype and len(pieces.row) == int(has_blocks.sum())
    multiply = graph.add_compute_set(f"{name}/multiply")
    reduction = graph.add_compute_set(f"{name}/reduce")
    result_parts = []
    empty_rows = []
    for part_number, (column_begin, column_end) in enumerate(plan.parts):
        row_length = b * (column_end - column_begin)
        result_mapping = _mapping(graph)
        out = graph.add_variable(plan.dtype, (m // b, row_length), f"{name}/out/{part_number}")
        sums = out
        sum_rows = pieces.row
        if not writes_result:
            shape = (len(pieces.row), row_length)
            sums = graph.add_variable(plan.partials, shape, f"{name}/partials/{part_number}")
            sum_rows = pieces.place
        run_tiles = plan.tiles(part_number)
        for sum_row, run in zip(sum_rows.tolist(), pieces.run.tolist(), strict=True):
            result_mapping[run_tiles[run]].append(
                (sum_row * row_length, (sum_row + 1) * row_length)
            )
        _add_products(
            graph,
            plan,
            pieces,
            (values, x[:, column_begin:column_end], sums, sum_rows),
            multiply=multiply,
            part_number=part_number,
        )
        if not writes_result:
            graph.set_tile_mapping(sums, result_mapping)
            result_mapping = _add_sums(
                graph, plan, pieces, sums, out=out, reduction=reduction, part_number=part_number
            )
        rows_without_blocks = np.flatnonzero(~has_blocks)
        for tile, empty_row in dealt(rows_without_blocks.tolist(), graph.target.num_tiles):
            result_mapping[tile].append((empty_row * row_length, (empty_row + 1) * row_length))
        graph.set_tile_mapping(out, result_mapping)
        if len(rows_without_blocks):
            empty_rows.append(out[rows_without_blocks].flatten())
        result_parts.append(out.reshape((m, column_end - column_begin)))
    if empty_rows:
        zero(graph, concat(empty_rows), prog, f"{name}/zero")
    if pieces.row.size:
        prog.add(Execute(multiply))
    if pieces.row.size and not writes_result:
        prog.add(Execute(reduction))
    return result_parts[0] if len(result_parts) == 1 else concat(result_parts, 1)


def _add_products(
    graph: Graph,
    plan: SparsePlan,
    pieces: Pieces,
    tensors: tuple[Tensor, Tensor, Tensor, Array],
    multiply: ComputeSet,
    part_number: int,
) -> None:
    """Add a vertex for each run of blocks, which multiplies them by some columns of x.

    A run is a group of blocks that one tile multiplies, and `part_number` is the index of the part
    of the columns. `tensors` is a tuple `(values, x, sums, sum_rows)`: the values of all blocks,
    the part's columns of x, the variable for the partial sums, and int64[pieces] with the row of
    `sums` to which each piece is written.
    """
    values, x, sums, sum_rows = tensors
    b = plan.pattern.block[0]
    run_tiles = plan.tiles(part_number)
    dtypes = {FLOAT: plan.dtype, HALF: plan.partials}
    name_words: list[Word] = [*dict.fromkeys(dtypes.values()), str(b)]
    codelet = typed(StaticSparsePartial, name_words, dtypes, "SparseDenseMatMul", block=b)
    flat_values = values.flatten()
    block_order = plan.order
    n = x.shape[1]
    # Each row of `x_rows` contains one block row of x. If a block is a single value, `x_rows` is
    # flat.
    x_rows = x.flatten() if b == 1 else x.reshape((x.shape[0] // b, b * n))
    block_columns = plan.pattern.columns[block_order]
    run_bounds = np.searchsorted(plan.run_of_block, np.arange(plan.num_runs + 1)).tolist()
    piece_bounds = np.searchsorted(pieces.run, np.arange(plan.num_runs + 1)).tolist()
    value_offsets = np.arange(b * b)
    for run in range(plan.num_runs):
        block_begin = run_bounds[run]
        block_end = run_bounds[run + 1]
        piece_begin = piece_bounds[run]
        piece_end = piece_bounds[run + 1]
        needed_columns, column_numbers = np.unique(
            block_columns[block_begin:block_end], return_inverse=True
        )
        needed_list = needed_columns.tolist()
        vertex = graph.add_vertex(
            multiply,
            codelet,
            values=flat_values[
                (block_order[block_begin:block_end, None] * (b * b) + value_offsets).ravel()
            ],
            x=x_rows[needed_columns[:, None] * n + np.arange(n)]
            if b == 1
            else [x_rows[i] for i in needed_list],
            out=[sums[i] for i in sum_rows[piece_begin:piece_end].tolist()],
            columns=column_numbers,
            starts=pieces.start[piece_begin:piece_end] - block_begin,
        )
        graph.set_tile_mapping(vertex, int(run_tiles[run]))


def _add_sums(
    graph: Graph,
    plan: SparsePlan,
    pieces: Pieces,
    sums: Tensor,
    out: Tensor,
    reduction: ComputeSet,
    part_number: int,
) -> Mapping:
    """Add the vertices that add the partial sums of each row; return the tile mapping of `out`.

    Each row of `out`, which is the result, is distributed over the tiles that have partial sums of
    the row.
    """
    codelet = adder(plan.partials, plan.dtype, False)
    run_tiles = plan.tiles(part_number)
    row_length = out.shape[1]
    mapping = _mapping(graph)
    piece_order = np.argsort(pieces.place)
    piece_rows = pieces.row[piece_order]
    piece_runs = pieces.run[piece_order]
    pieces_in_row = np.bincount(piece_rows, minlength=out.shape[0])[piece_rows]
    for num_partials in np.unique(pieces_in_row).tolist():
        piece_begin, piece_end = np.searchsorted(
            pieces_in_row, [num_partials, num_partials + 1]
        ).tolist()
        result_rows = piece_rows[piece_begin:piece_end:num_partials]
        tiles_of_run = run_tiles[piece_runs[piece_begin:piece_end]].reshape(-1, num_partials)
        partials = sums[piece_begin:piece_end].reshape((len(result_rows), num_partials, row_length))
        for share_number, (column_begin, column_end) in enumerate(
            shares_of(row_length, num_partials, plan.dtype)
        ):
            if column_begin == column_end:
                continue
            graph.add_vertices(
                reduction,
                codelet,
                tiles_of_run[:, share_number],
                x=partials[:, :, column_begin:column_end],
                out=out[result_rows, column_begin:column_end],
            )
            for result_row, tile in zip(
                result_rows.tolist(), tiles_of_run[:, share_number].tolist(), strict=True
            ):
                mapping[tile].append(
                    (result_row * row_length + column_begin, result_row * row_length + column_end)
                )
    return mapping
