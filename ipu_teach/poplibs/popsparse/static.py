"""Products of a sparse matrix whose pattern is fixed when the graph is built, and a dense one.

    plan = static.plan_sparse_dense(csr, n, graph.target)
    values = static.create_sparse_dense_mat_mul_lhs(graph, plan)
    x = static.create_sparse_dense_mat_mul_rhs(graph, plan)
    out = static.sparse_dense_mat_mul(graph, csr, values, x, prog, plan=plan)

The values may change between runs. The pattern is compiled: it determines which rows of x are sent
to which tile, so nothing is looked up, and only rows that are multiplied are moved. A supervisor
vertex of each tile multiplies its blocks, and partial sums of a row on several tiles are added in a
second superstep.

Not offered are dense times sparse (transpose both), PopLibs' reordering of rows and columns
(enablePreprocessing), and products in groups.
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
    """out = the sum of products of blocks with blocks of x, for each row of blocks on the tile.

    Products are added first to last. FLOAT stands for the dtype of the operands, HALF for that of
    the sums. `columns` contains the number of the block of x for each block, and `starts` the first
    block of each row.
    """

    values: Input[Vector[FLOAT]]
    x: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[HALF]]]
    columns: Vector[UNSIGNED_INT]
    starts: Vector[UNSIGNED_INT]
    block: ClassVar[int]

    def compute(self) -> None:
        b = self.block
        count = len(self.out[0])
        sums = self.out[0].dtype
        blocks = self.values.reshape(-1, b, b).astype(np.float32, copy=False)
        right = np.reshape(self.x, (-1, b, count // b)).astype(np.float32, copy=False)
        products = (blocks @ right[self.columns]).astype(sums, copy=False).reshape(-1, count)
        ends = [*self.starts[1:].tolist(), len(products)]
        for row, (begin, end) in enumerate(zip(self.starts.tolist(), ends, strict=True)):
            self.out[row] = products[begin:end].sum(axis=0, dtype=sums)

    def cycles(self, target: Target) -> int:
        dtype = self.fields["x"].dtype
        sums = self.fields["out"].dtype
        rows = len(self.out)
        count = len(self.out[0])
        blocks = len(self.columns)
        b = self.block
        cycles = static_product(rows, blocks, count // b, b, dtype=dtype, target=target)
        if b > 4 and sums is FLOAT:
            cycles += zeroing(rows * count, sums, target)
        return int(cycles)


class Pieces(NamedTuple):
    """The pieces of rows of blocks on tiles, as parallel arrays in the order of runs.

    Each piece has its row, its run, its first block, and its place among all pieces. The places of
    a row are contiguous, and so are those of rows with equally many pieces.
    """

    row: Array
    run: Array
    start: Array
    place: Array


def pieces_of(plan: SparsePlan) -> Pieces:
    """Return the pieces of a plan's rows."""
    row = plan.pattern.rows[plan.order]
    run = plan.run_of_block
    new = np.ones(len(row), bool)
    new[1:] = (row[1:] != row[:-1]) | (run[1:] != run[:-1])
    start = np.flatnonzero(new)
    row = row[start]
    run = run[start]
    several = np.bincount(row, minlength=plan.pattern.block_rows)[row]
    place = np.empty(len(row), np.int64)
    place[np.lexsort((run, row, several))] = np.arange(len(row))
    return Pieces(row, run, start, place)


@library
def create_sparse_dense_mat_mul_lhs(
    graph: Graph, plan: SparsePlan, name: str = "create_sparse_dense_mat_mul_lhs"
) -> Tensor:
    """Return a variable [blocks, b, b] for the values of the plan's pattern, in its order.

    Each block is on a tile that multiplies it.
    """
    _check_plan(plan, graph)
    blocks = plan.pattern.num_blocks
    b = plan.pattern.block[0]
    tensor = graph.add_variable(plan.dtype, (blocks, b, b), name)
    mapping = _mapping(graph)
    size = b * b
    among = len(plan.parts)
    tiles = np.stack([plan.tiles(part) for part in range(among)])
    chosen: Array = tiles[np.arange(blocks) % among, plan.run_of_block]
    for number, tile in zip(plan.order.tolist(), chosen.tolist(), strict=True):
        mapping[tile].append((number * size, (number + 1) * size))
    graph.set_tile_mapping(tensor, mapping)
    return tensor


@library
def create_sparse_dense_mat_mul_rhs(
    graph: Graph, plan: SparsePlan, name: str = "create_sparse_dense_mat_mul_rhs"
) -> Tensor:
    """Return a tensor [k, n] for the dense operand, distributed over all tiles.

    Each of the plan's parts of the columns is contiguous, so that the data of a row of blocks that
    is sent to a tile is contiguous.
    """
    _check_plan(plan, graph)
    k = plan.pattern.shape[1]
    tensor = linear(graph, plan.dtype, (k * plan.n,), name)
    parts = [tensor[k * a : k * b].reshape((k, b - a)) for a, b in plan.parts]
    return concat(parts, 1)


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
    """Return csr [m, k] times x [k, n]: a tensor [m, n], FLOAT or HALF like x.

    `values` is a tensor [blocks, b, b] of x's dtype, with b = 1, 4, 8 or 16, for the blocks of
    `csr` in its order; the values of `csr` are ignored. They may change between runs. For another
    pattern, build another graph, or use `dynamic.sparse_dense_mat_mul`. Rows without blocks are 0.

    The product of a block is numpy's in single precision, rounded to `partials_type`. A tile's
    parts of a row are added first to last, and then the tiles' sums in the order of the plan's
    bands; the result is rounded once. The compute sets are: zero, for rows without blocks;
    multiply; reduce, unless no row needs it. Raises `PoplibsError`.
    """
    check_types(x.dtype, partials_type)
    wanted = plan
    if wanted is None:
        wanted = plan_sparse_dense(
            csr, x.shape[1], graph.target, dtype=x.dtype, partials_type=partials_type
        )
    _check_plan(wanted, graph)
    if not wanted.pattern.same_pattern(csr):
        raise refused(f"""was given another pattern than its plan's: {csr} and
            {wanted.pattern}.
            next:  a static product is compiled for one pattern: plan this one and build a new
            graph, or use popsparse.dynamic.sparse_dense_mat_mul, which takes any.""")
    _check_operands(graph, wanted, values, x)
    return _multiplied(graph, wanted, values, x, prog=prog, name=debug_context)


def _check_plan(plan: SparsePlan, graph: Graph) -> None:
    if plan.num_tiles != graph.target.num_tiles:
        raise refused(f"""was given a plan for {plan.num_tiles:,} tiles; there are
            {graph.target.num_tiles:,}.
            next:  plan it for graph.target.""")


def _check_operands(graph: Graph, plan: SparsePlan, values: Tensor, x: Tensor) -> None:
    pattern = plan.pattern
    where = f"values {values!r} and x {x!r}"
    check_tensor(graph, "values", values, (1, 3) if pattern.block == (1, 1) else (3,))
    check_mapped(graph, "values", values)
    shape = (pattern.num_blocks, *pattern.block)[: values.rank]
    advice = "give each block of csr its values."
    check_same("shapes of values", values.shape, shape, where, advice=advice)
    advice = "x has as many rows as csr has columns, and the plan's n columns."
    wanted = (pattern.shape[1], plan.n)
    check_same("shapes of x", x.shape, wanted, where, advice=advice)
    for name, tensor in (("values", values), ("x", x)):
        check_same(
            f"dtypes of {name}", tensor.dtype, plan.dtype, where, advice="the plan has the dtype."
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
    direct = plan.partials is plan.dtype and len(pieces.row) == int(has_blocks.sum())
    multiply = graph.add_compute_set(f"{name}/multiply")
    reduction = graph.add_compute_set(f"{name}/reduce")
    outs = []
    empty = []
    for part, (low, high) in enumerate(plan.parts):
        length = b * (high - low)
        mapping = _mapping(graph)
        out = graph.add_variable(plan.dtype, (m // b, length), f"{name}/out/{part}")
        sums = out
        places = pieces.row
        if not direct:
            shape = (len(pieces.row), length)
            sums = graph.add_variable(plan.partials, shape, f"{name}/partials/{part}")
            places = pieces.place
        tiles = plan.tiles(part)
        for place, run in zip(places.tolist(), pieces.run.tolist(), strict=True):
            mapping[tiles[run]].append((place * length, (place + 1) * length))
        _add_products(
            graph,
            plan,
            pieces,
            (values, x[:, low:high], sums, places),
            multiply=multiply,
            part=part,
        )
        if not direct:
            graph.set_tile_mapping(sums, mapping)
            mapping = _add_sums(graph, plan, pieces, sums, out=out, reduction=reduction, part=part)
        idle = np.flatnonzero(~has_blocks)
        for tile, row in dealt(idle.tolist(), graph.target.num_tiles):
            mapping[tile].append((row * length, (row + 1) * length))
        graph.set_tile_mapping(out, mapping)
        if len(idle):
            empty.append(out[idle].flatten())
        outs.append(out.reshape((m, high - low)))
    if empty:
        zero(graph, concat(empty), prog, f"{name}/zero")
    if pieces.row.size:
        prog.add(Execute(multiply))
    if pieces.row.size and not direct:
        prog.add(Execute(reduction))
    return outs[0] if len(outs) == 1 else concat(outs, 1)


def _add_products(
    graph: Graph,
    plan: SparsePlan,
    pieces: Pieces,
    tensors: tuple[Tensor, Tensor, Tensor, Array],
    multiply: ComputeSet,
    part: int,
) -> None:
    """Add a vertex for each run of blocks, on its tile for a part of the columns.

    `tensors` are the values, x, the sums, and the rows of the sums for all pieces.
    """
    values, x, sums, places = tensors
    b = plan.pattern.block[0]
    tiles = plan.tiles(part)
    types = {FLOAT: plan.dtype, HALF: plan.partials}
    words: list[Word] = [*dict.fromkeys(types.values()), str(b)]
    codelet = typed(StaticSparsePartial, words, types, "SparseDenseMatMul", block=b)
    flat = values.flatten()
    order = plan.order
    n = x.shape[1]
    # x as rows of blocks, or as one list of values if blocks are single values
    rows = x.flatten() if b == 1 else x.reshape((x.shape[0] // b, b * n))
    columns = plan.pattern.columns[order]
    ends = np.searchsorted(plan.run_of_block, np.arange(plan.num_runs + 1)).tolist()
    firsts = np.searchsorted(pieces.run, np.arange(plan.num_runs + 1)).tolist()
    within = np.arange(b * b)
    for run in range(plan.num_runs):
        begin = ends[run]
        end = ends[run + 1]
        first = firsts[run]
        last = firsts[run + 1]
        wanted, numbers = np.unique(columns[begin:end], return_inverse=True)
        is_needed = wanted.tolist()
        vertex = graph.add_vertex(
            multiply,
            codelet,
            values=flat[(order[begin:end, None] * (b * b) + within).ravel()],
            x=rows[wanted[:, None] * n + np.arange(n)] if b == 1 else [rows[i] for i in is_needed],
            out=[sums[i] for i in places[first:last].tolist()],
            columns=numbers,
            starts=pieces.start[first:last] - begin,
        )
        graph.set_tile_mapping(vertex, int(tiles[run]))


def _add_sums(
    graph: Graph,
    plan: SparsePlan,
    pieces: Pieces,
    sums: Tensor,
    out: Tensor,
    reduction: ComputeSet,
    part: int,
) -> Mapping:
    """Add the vertices that sum the pieces of each row; return the tile mapping of the result.

    They are distributed over the tiles of the pieces.
    """
    codelet = adder(plan.partials, plan.dtype, False)
    tiles = plan.tiles(part)
    length = out.shape[1]
    mapping = _mapping(graph)
    order = np.argsort(pieces.place)
    row = pieces.row[order]
    run = pieces.run[order]
    several = np.bincount(row, minlength=out.shape[0])[row]
    for count in np.unique(several).tolist():
        begin, end = np.searchsorted(several, [count, count + 1]).tolist()
        rows = row[begin:end:count]
        tiles_of_run = tiles[run[begin:end]].reshape(-1, count)
        x = sums[begin:end].reshape((len(rows), count, length))
        for share, (low, high) in enumerate(shares_of(length, count, plan.dtype)):
            if low == high:
                continue
            graph.add_vertices(
                reduction,
                codelet,
                tiles_of_run[:, share],
                x=x[:, :, low:high],
                out=out[rows, low:high],
            )
            for r, tile in zip(rows.tolist(), tiles_of_run[:, share].tolist(), strict=True):
                mapping[tile].append((r * length + low, r * length + high))
    return mapping
