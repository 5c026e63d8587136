"""Products of a sparse matrix whose pattern may change between runs, and gradients for training.

    params = dynamic.MatMulParams.create_with_nz_ratio(m, k, n, 1 / 8, (16, 16))
    lhs = dynamic.create_sparse_dense_mat_mul_lhs(graph, FLOAT, params)
    out = dynamic.sparse_dense_mat_mul(graph, lhs, x, prog)
    # the host writes these arrays:
    meta, values = dynamic.Partitioner(params, FLOAT, graph.target).encode(csr)

The sparse matrix is divided into rectangular parts. Each part has a bucket, which can store a fixed
number of blocks (see the module `buckets`). In the first step, the tiles of each part multiply
those blocks in the part's bucket that belong to the part. Before each further step, every bucket
moves to the tiles of the next part; for the gradients of the weights, the dense operands move
instead. The model counts the cycles of the first step for a full bucket, and those of each further
step for 3/13 of a bucket (see `buckets.spare`). On a chip, the time of a step depends on the
pattern. PopLibs' planner options are missing, and plans are not cached, because a plan takes only
milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ipu_teach.cost.vertices.popsparse import dynamic_gradient, dynamic_product, zeroing
from ipu_teach.graph import (
    ComputeSet,
    Graph,
    InOut,
    Input,
    Output,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
    concat,
)
from ipu_teach.poplibs.laying import Edges, Word, put, typed
from ipu_teach.poplibs.library import OWN, Matrix, as_given, check_same, check_tensor, library
from ipu_teach.poplibs.poplin.matmul import add_shared
from ipu_teach.poplibs.poplin.matmul_codelets import adder
from ipu_teach.poplibs.popops import cast, counted_for_loop, zero
from ipu_teach.poplibs.popsparse.buckets import (
    PLACES,
    Bucket,
    Cut,
    MatMulParams,
    Partitioner,
    SparsityData,
    spare,
)
from ipu_teach.poplibs.poputil import balanced_partition
from ipu_teach.program import Copy, Execute, Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, UNSIGNED_INT, UNSIGNED_SHORT, Array, DType

__all__ = [
    "Bucket",
    "MatMulParams",
    "Partitioner",
    "SparseTensor",
    "SparsityData",
    "create_sparse_dense_mat_mul_lhs",
    "create_sparse_dense_mat_mul_rhs",
    "fully_connected_fwd",
    "fully_connected_grad_a",
    "fully_connected_sparse_grad_w",
    "sparse_dense_mat_mul",
]


@dataclass(frozen=True)
class SparseTensor:
    """A sparse matrix on the device, whose blocks are stored in buckets.

    A bucket is a part of the tile memory with slots, and a slot can store one block. `meta_info`,
    UNSIGNED_SHORT[1 + buckets * slots * 3], contains the number of steps after the first step and,
    for each slot, three numbers: the part of its block, and the block's row and column in this
    part. `nz_values` [buckets, slots, b, b] contains the values of the blocks, and zeros in empty
    slots. The host encodes both arrays with a `Partitioner` for the same parameters, and writes
    them to these tensors. `cut` is the partition of the matrix.
    """

    meta_info: Tensor
    nz_values: Tensor
    cut: Cut


class _OfBucket(SupervisorVertex):
    """The base class of vertices that multiply the blocks of a bucket.

    A bucket stores a block in each of its slots. `meta` contains three numbers for each slot: the
    index of the part of the sparse matrix to which the block belongs, and the block's row and
    column within this part. `block` is the number of rows of a block. `first` is true for the
    vertices of the first step.
    """

    meta: Input[Vector[UNSIGNED_SHORT]]
    block: ClassVar[int]
    first: ClassVar[bool] = True

    def blocks_of(self, part_number: int) -> tuple[Array, Array, Array]:
        """Return the arrays `(slots, rows, columns)` for the blocks of part `part_number`.

        `slots` contains the indices of the slots in which these blocks are stored. `rows` and
        `columns` contain the positions of the blocks within the part.
        """
        block_places = self.meta.reshape(-1, PLACES).astype(np.int64)
        slots = np.flatnonzero(block_places[:, 0] == part_number)
        return slots, block_places[slots, 1], block_places[slots, 2]

    def blocks(self) -> int:
        """Return the number of blocks for which the cycles are modelled.

        For the first step, it is the number of slots; for further steps, `spare(number of slots)`.
        """
        num_slots = len(self.meta) // PLACES
        return num_slots if self.first else int(spare(num_slots))


class DynamicSparsePartial(_OfBucket):
    """Set `sums` to the product of a part of the sparse matrix and the rows of x.

    `me` is the index of the part. Only those blocks of the part that are in the vertex's bucket are
    multiplied. If `turned` is true, the part is transposed. In the field annotations, FLOAT stands
    for the dtype of the operands, and HALF for the dtype of the sums.
    """

    values: Input[Vector[FLOAT]]
    x: Input[Vector[Vector[FLOAT]]]
    sums: Output[Vector[Vector[HALF]]]
    me: UNSIGNED_SHORT
    turned: ClassVar[bool]

    def compute(self) -> None:
        full_sums = np.zeros(self.sums.shape, np.float32)
        self.add_to(full_sums)
        self.sums = full_sums

    def add_to(self, sums: Array) -> None:
        b = self.block
        n = sums.shape[1]
        slots, rows, columns = self.blocks_of(self.me)
        blocks = self.values.reshape(-1, b, b)[slots].astype(np.float32)
        if self.turned:
            blocks, rows, columns = blocks.transpose(0, 2, 1), columns, rows
        products = blocks @ self.x.reshape(-1, b, n)[columns].astype(np.float32)
        np.add.at(sums.reshape(-1, b, n), rows, products)

    def cycles(self, target: Target) -> int:
        num_rows, n = self.sums.shape
        b = self.block
        dtypes = self.fields["x"].dtype, self.fields["sums"].dtype
        cycles = dynamic_product(num_rows // b, self.blocks(), n, b, types=dtypes, target=target)
        return int(cycles + (zeroing(num_rows * n, FLOAT, target) if self.first else 0))


class DynamicSparsePartialMore(DynamicSparsePartial):
    """In a further step, add to `sums` the products that `DynamicSparsePartial` computes."""

    sums: InOut[Vector[Vector[HALF]]]
    first = False

    def compute(self) -> None:
        self.add_to(self.sums)


class DynamicSparseGradW(_OfBucket):
    """Set `grads` to the gradients of the blocks in a bucket that belong to part `here`.

    The gradients of other blocks are set to 0. The gradient of a block is the product of some rows
    of `left`, the gradients of the layer's output, and some rows of `right`, the inputs of the
    layer.
    """

    left: Input[Vector[Vector[FLOAT]]]
    right: Input[Vector[Vector[FLOAT]]]
    here: Input[UNSIGNED_SHORT]
    grads: Output[Vector[HALF]]

    def compute(self) -> None:
        full_grads = np.zeros(self.grads.shape, np.float32)
        self.add_to(full_grads)
        self.grads = full_grads

    def add_to(self, grads: Array) -> None:
        b = self.block
        n = self.left.shape[1]
        slots, rows, columns = self.blocks_of(self.here)
        left = self.left.reshape(-1, b, n)[rows].astype(np.float32)
        right = self.right.reshape(-1, b, n)[columns].astype(np.float32)
        grads.reshape(-1, b, b)[slots] += left @ right.transpose(0, 2, 1)

    def cycles(self, target: Target) -> int:
        num_rows, n = self.left.shape
        b = self.block
        dtypes = self.fields["left"].dtype, self.fields["grads"].dtype
        cycles = dynamic_gradient(num_rows // b, self.blocks(), n, b, types=dtypes, target=target)
        return int(cycles + (zeroing(len(self.grads), FLOAT, target) if self.first else 0))


class DynamicSparseGradWMore(DynamicSparseGradW):
    """In a further step, add to `grads` the gradients that `DynamicSparseGradW` computes."""

    grads: InOut[Vector[HALF]]
    first = False

    def compute(self) -> None:
        self.add_to(self.grads)


def _codelet(base: type[Vertex], dtype: type[DType], **options: int) -> type[Vertex]:
    """Return the codelet `base` for operands of type `dtype` and FLOAT sums.

    `options` contains the values of the codelet's constants, such as `block`.
    """
    name_words: list[Word] = [dtype, *(f"{name}={value:d}" for name, value in options.items())]
    return typed(base, name_words, {FLOAT: dtype, HALF: FLOAT}, **options)


@library
def create_sparse_dense_mat_mul_lhs(
    graph: Graph,
    dtype: type[DType],
    params: MatMulParams,
    name: str = "create_sparse_dense_mat_mul_lhs",
) -> SparseTensor:
    """Return a sparse operand of FLOAT or HALF that can store at least `params.num_blocks` blocks.

    Its tensors have no initial values: write them before a program reads them.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    cut = Partitioner(params, dtype, graph.target).cut
    words_per_bucket = PLACES * cut.slots
    meta = graph.add_variable(
        UNSIGNED_SHORT, (1 + cut.num_buckets * words_per_bucket,), f"{name}/metaInfo"
    )
    shape = (cut.num_buckets, cut.slots, cut.b, cut.b)
    values = graph.add_variable(dtype, shape, f"{name}/nzValues")
    graph.set_tile_mapping(meta[:1], 0)
    for tensor in (meta[1:].reshape((cut.num_buckets, words_per_bucket)), values):
        graph.set_tile_mapping(tensor, cut.tiles[:, 0])
    return SparseTensor(meta, values, cut)


@library
def create_sparse_dense_mat_mul_rhs(
    graph: Graph,
    dtype: type[DType],
    params: MatMulParams,
    name: str = "create_sparse_dense_mat_mul_rhs",
) -> Tensor:
    """Return a variable [k, n] for the dense operand, mapped to the tiles that multiply it.

    The columns of the sparse matrix are divided into parts, and the rows of the variable are
    divided in the same way. The rows of a part are distributed over the tiles that multiply them.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    cut = Partitioner(params, dtype, graph.target).cut
    tensor = graph.add_variable(dtype, (params.k, params.n), name)
    for column_part, (block_begin, block_end) in enumerate(cut.columns):
        for n_part, (column_begin, column_end) in enumerate(cut.n_parts):
            for row_part, (share_begin, share_end) in enumerate(
                balanced_partition(block_end - block_begin, cut.row_parts)
            ):
                rows = tensor[
                    (block_begin + share_begin) * cut.b : (block_begin + share_end) * cut.b,
                    column_begin:column_end,
                ]
                tile = cut.tiles[row_part * cut.column_parts + column_part, n_part]
                graph.set_tile_mapping(rows, int(tile))
    return tensor


@library
def sparse_dense_mat_mul(
    graph: Graph,
    lhs: SparseTensor,
    x: Matrix,
    prog: Program,
    transpose_lhs: bool = False,
    debug_context: str = OWN,
) -> Tensor:
    """Return lhs [m, k] times x [k, n]; with `transpose_lhs`, the transposed lhs times x [m, n].

    The result, [m, n] or [k, n], has the dtype of x, which must be that of `lhs`. The host may
    write another pattern before each run, without compiling again. Products are those of numpy in
    single precision. Each tile adds its products in the order in which the blocks are stored. Then
    the sums of the tiles are added, first to last, and the total is rounded once.

    The program has three phases:

    * "multiply": each tile multiplies the blocks that it stores.
    * "propagate": a loop moves the blocks to the next tiles and multiplies again. The number of
      iterations is the first element of `lhs.meta_info`.
    * "reduce": the sums of the tiles are added.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    return _multiplied(
        graph, _checked(graph, lhs), x, bool(transpose_lhs), prog=prog, name=debug_context
    )


@library
def fully_connected_fwd(
    graph: Graph,
    weights: SparseTensor,
    activations: Matrix,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return a layer's output [n, m]: activations [n, k] times the transposed weights [m, k].

    n is the batch size. `sparse_dense_mat_mul` computes the product.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    lhs = _checked(graph, weights)
    return _multiplied(graph, lhs, activations.T, False, prog=prog, name=debug_context).T


@library
def fully_connected_grad_a(
    graph: Graph, weights: SparseTensor, gradients: Matrix, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return the gradients of a layer's input, [n, k]: `gradients` [n, m] times weights [m, k].

    `gradients` are those of the layer's output, and n is the batch size. `sparse_dense_mat_mul`
    computes the product.

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    lhs = _checked(graph, weights)
    return _multiplied(graph, lhs, gradients.T, True, prog=prog, name=debug_context).T


@library
def fully_connected_sparse_grad_w(
    graph: Graph,
    weights: SparseTensor,
    gradients: Matrix,
    activations: Matrix,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return the gradients of a layer's stored weights, in the shape of `weights.nz_values`.

    `gradients` [n, m] are those of the layer's output, and `activations` [n, k] are its input.
    Where no block is stored, the result is 0. The stored blocks stay on their tiles, and the dense
    operands move from tile to tile. The cost is that of PopLibs' vertices that do not use the
    matrix-multiply unit (AMP).

    :raises IPUTeachError: if an argument is wrong; usually it is a PoplibsError.
    """
    lhs = _checked(graph, weights)
    params = lhs.cut.params
    _check_dense(lhs, "gradients", gradients, (params.n, params.m))
    _check_dense(lhs, "activations", activations, (params.n, params.k))
    return _gradients(graph, lhs, gradients.T, activations.T, prog=prog, name=debug_context)


def _checked(graph: Graph, lhs: SparseTensor) -> SparseTensor:
    if not isinstance(lhs, SparseTensor):
        advice = "give a result of create_sparse_dense_mat_mul_lhs."
        raise as_given(lhs, "its sparse operand", advice)
    check_tensor(graph, "the sparse operand", lhs.nz_values)
    return lhs


def _check_dense(lhs: SparseTensor, name: str, x: Tensor, shape: tuple[int, int]) -> None:
    context = f"{name} {x!r}"
    check_same(
        f"shapes of {name}",
        x.shape,
        shape,
        context,
        advice=f"give a tensor of shape {shape}, as in the parameters of the sparse operand.",
    )
    check_same(
        f"dtypes of {name}", x.dtype, lhs.nz_values.dtype, context, advice="cast it: popops.cast."
    )


def _multiplied(
    graph: Graph, lhs: SparseTensor, x: Tensor, is_transposed: bool, prog: Program, name: str
) -> Tensor:
    cut = lhs.cut
    b = lhs.cut.b
    sides = [(cut.params.k, cut.columns), (cut.params.m, cut.rows)]
    (num_x_rows, x_parts), (num_out_rows, out_parts) = sides[::-1] if is_transposed else sides
    _check_dense(lhs, "the dense operand", x, (num_x_rows, cut.params.n))
    max_columns = cut.n_parts[0][1]
    rings = [
        _ring(graph, cut, UNSIGNED_SHORT, (PLACES * cut.slots,), name=name),
        _ring(graph, cut, x.dtype, (cut.slots * b * b,), name=name),
    ]
    x_on_tiles = _on_tiles(graph, cut, x.dtype, (_most(x_parts) * b, max_columns), name=f"{name}/x")
    partials = _on_tiles(
        graph, cut, FLOAT, (_most(out_parts) * b, max_columns), name=f"{name}/partials"
    )
    sources = list[Tensor]()
    destinations = list[Tensor]()
    step_sets = _steps(graph, cut, name)
    for (bucket, n_part), tile in np.ndenumerate(cut.tiles):
        part_of_bucket = divmod(bucket, cut.column_parts)
        out_part, x_part = part_of_bucket[::-1] if is_transposed else part_of_bucket
        out_begin, out_end = out_parts[out_part]
        x_begin, x_end = x_parts[x_part]
        column_begin, column_end = cut.n_parts[n_part]
        tile_x = x_on_tiles[bucket, n_part, : (x_end - x_begin) * b, : column_end - column_begin]
        sources.append(x[x_begin * b : x_end * b, column_begin:column_end].flatten())
        destinations.append(tile_x.flatten())
        edges: Edges = {"meta": rings[0][0][bucket, n_part], "values": rings[1][0][bucket, n_part]}
        tile_sums = partials[
            bucket, n_part, : (out_end - out_begin) * b, : column_end - column_begin
        ]
        edges |= {"x": tile_x, "sums": tile_sums, "me": bucket}
        for is_first, compute_set in step_sets.items():
            base_codelet = DynamicSparsePartial if is_first else DynamicSparsePartialMore
            step_codelet = _codelet(base_codelet, x.dtype, block=b, turned=is_transposed)
            put(graph, compute_set, int(tile), step_codelet, edges=edges)
    prog.add(Copy(concat(sources), concat(destinations)))
    for source, (ring_bucket, _) in zip((lhs.meta_info[1:], lhs.nz_values), rings, strict=True):
        by_bucket = source.reshape((cut.num_buckets, 1, ring_bucket.shape[2]))
        prog.add(Copy(by_bucket.broadcast(len(cut.n_parts), 1), ring_bucket))
    _go_round(graph, lhs, step_sets, rings, num_places=-1, prog=prog, name=name)
    out = (x.dtype, num_out_rows, out_parts)
    return _sums_of_tiles(graph, cut, partials, out, is_transposed, prog=prog, name=name)


def _sums_of_tiles(
    graph: Graph,
    cut: Cut,
    partials: Tensor,
    out: tuple[type[DType], int, list[tuple[int, int]]],
    is_transposed: bool,
    prog: Program,
    name: str,
) -> Tensor:
    """Append the addition of the tiles' partial sums; return the product [rows, n].

    `partials` contains the sums of each tile. Its shape is [buckets, parts of the dense operand's
    columns, rows, columns]. `out` is `(dtype, rows, parts)`: the dtype of the product, its
    number of rows, and the intervals (begin, end) into which its rows are divided. The intervals
    are counted in blocks. `is_transposed` is whether the sparse operand is transposed.
    """
    out_dtype, num_out_rows, out_parts = out
    b = cut.b
    reduction = graph.add_compute_set(f"{name}/reduce")
    results = []
    sum_codelet = adder(FLOAT, out_dtype, False)
    for n_part, (column_begin, column_end) in enumerate(cut.n_parts):
        num_columns = column_end - column_begin
        result = graph.add_variable(out_dtype, (num_out_rows, num_columns), f"{name}/out/{n_part}")
        results.append(result)
        for out_part, (out_begin, out_end) in enumerate(out_parts):
            num_parts = cut.column_parts
            out_buckets = (
                slice(out_part, None, num_parts)
                if is_transposed
                else slice(out_part * num_parts, (out_part + 1) * num_parts)
            )
            partial_sums = partials[
                out_buckets, n_part, : (out_end - out_begin) * b, :num_columns
            ].flatten(1, 3)
            add_shared(
                graph,
                reduction,
                sum_codelet,
                partial_sums,
                out=result[out_begin * b : out_end * b].flatten(),
                tiles=cut.tiles[out_buckets, n_part].tolist(),
            )
    prog.add(Execute(reduction))
    return results[0] if len(results) == 1 else concat(results, 1)


def _most(intervals: list[tuple[int, int]]) -> int:
    """Return the length of the longest interval (begin, end)."""
    return max(end - begin for begin, end in intervals)


def _steps(graph: Graph, cut: Cut, name: str) -> dict[bool, ComputeSet]:
    """Return a dict with a compute set for the first step, and another for all further steps.

    The keys are True for the first step, and False for the further steps. If there is only one
    bucket, there are no further steps, and the key False is missing.
    """
    name_words = {True: "multiply", False: "propagate"}
    step_kinds = [is_first for is_first in name_words if is_first or cut.num_buckets > 1]
    return {
        is_first: graph.add_compute_set(f"{name}/{name_words[is_first]}") for is_first in step_kinds
    }


def _on_tiles(
    graph: Graph, cut: Cut, dtype: type[DType], shape: tuple[int, ...], name: str
) -> Tensor:
    """Return a variable [buckets, parts of the dense columns, *shape].

    Entry [i, j] is mapped to the tile that multiplies bucket i by part j of the dense operand's
    columns.
    """
    tensor = graph.add_variable(dtype, (*cut.tiles.shape, *shape), name)
    graph.set_tile_mapping(tensor.flatten(0, 2), cut.tiles.ravel())
    return tensor


def _ring(
    graph: Graph, cut: Cut, dtype: type[DType], shape: tuple[int, ...], name: str
) -> tuple[Tensor, Tensor]:
    """Return two variables `(bucket, inbox)`, with an entry of shape `shape` on each tile.

    The entries of `bucket` move around the ring of tiles. A step copies each entry to `inbox` on
    the next tile, and then from `inbox` to `bucket` on that tile.
    """
    bucket = _on_tiles(graph, cut, dtype, shape, name=f"{name}/bucket")
    return bucket, _on_tiles(graph, cut, dtype, shape, name=f"{name}/inbox")


def _go_round(
    graph: Graph,
    lhs: SparseTensor,
    step_sets: dict[bool, ComputeSet],
    rings: Sequence[tuple[Tensor, Tensor]],
    num_places: int,
    prog: Program,
    name: str,
) -> None:
    """Append the first step of a product, and a loop of further steps.

    `lhs.meta_info[0]` is the number of further steps. Each item of `rings` is a result of `_ring`.
    Before each further step, entry i of `bucket` receives the data of entry i + `num_places`; the
    numbering wraps around, so entry 0 follows the last entry.
    """
    prog.add(Execute(step_sets[True]))
    if False not in step_sets:
        return
    num_steps = cast(graph, lhs.meta_info[0], UNSIGNED_INT, prog, debug_context=f"{name}/rounds")
    counter = graph.add_variable(UNSIGNED_INT, (), f"{name}/step")
    graph.set_tile_mapping(counter, 0)
    first_bucket = num_places % lhs.cut.num_buckets
    moves = [
        Copy(concat([bucket[first_bucket:], bucket[:first_bucket]]), inbox)
        for bucket, inbox in rings
    ]
    arrivals = [Copy(inbox, bucket) for bucket, inbox in rings]
    step_program = Program(*moves, *arrivals, Execute(step_sets[False]))
    prog.add(
        counted_for_loop(
            graph,
            counter,
            0,
            num_steps,
            step=1,
            body=step_program,
            debug_context=f"{name}/propagation",
        )
    )


def _gradients(
    graph: Graph, lhs: SparseTensor, left: Tensor, right: Tensor, prog: Program, name: str
) -> Tensor:
    cut = lhs.cut
    b = lhs.cut.b
    num_buckets = lhs.cut.num_buckets
    bucket_meta = lhs.meta_info[1:].reshape((num_buckets, PLACES * cut.slots))
    grads = _on_tiles(graph, cut, FLOAT, (cut.slots * b * b,), name=f"{name}/partials")
    bucket_numbers = graph.add_constant(
        UNSIGNED_SHORT, (num_buckets, 1), np.arange(num_buckets)[:, None]
    )
    graph.set_tile_mapping(bucket_numbers, 0)
    max_rows = (_most(cut.rows) * b, _most(cut.columns) * b)
    max_columns = cut.n_parts[0][1]
    rings = [
        _ring(graph, cut, left.dtype, (num_rows, max_columns), name=name) for num_rows in max_rows
    ]
    rings.append(_ring(graph, cut, UNSIGNED_SHORT, (), name=name))
    sources: list[Tensor] = []
    destinations: list[Tensor] = []
    padding: list[Tensor] = []
    step_sets = _steps(graph, cut, name)
    for (bucket, n_part), tile in np.ndenumerate(cut.tiles):
        column_begin, column_end = cut.n_parts[n_part]
        part_of_bucket = divmod(bucket, cut.column_parts)
        for (ring_bucket, _), dense, intervals, part_number in zip(
            rings, (left, right), (cut.rows, cut.columns), part_of_bucket, strict=False
        ):
            row_begin, row_end = (bound * b for bound in intervals[part_number])
            bucket_rows = ring_bucket[bucket, n_part]
            sources.append(dense[row_begin:row_end, column_begin:column_end].flatten())
            destinations.append(
                bucket_rows[: row_end - row_begin, : column_end - column_begin].flatten()
            )
            padding += [
                bucket_rows[row_end - row_begin :].flatten(),
                bucket_rows[: row_end - row_begin, column_end - column_begin :].flatten(),
            ]
        field_names = "left", "right", "here"
        edges = {
            field: ring[0][bucket, n_part] for field, ring in zip(field_names, rings, strict=True)
        }
        edges |= {"meta": bucket_meta[bucket], "grads": grads[bucket, n_part]}
        for is_first, compute_set in step_sets.items():
            base_codelet = DynamicSparseGradW if is_first else DynamicSparseGradWMore
            codelet = _codelet(base_codelet, left.dtype, block=b)
            put(graph, compute_set, int(tile), codelet, edges=edges)
    zero(graph, concat(padding), prog, f"{name}/pad")
    prog.add(Copy(concat(sources), concat(destinations)))
    prog.add(Copy(bucket_numbers.broadcast(len(cut.n_parts), 1), rings[2][0]))
    _go_round(graph, lhs, step_sets, rings, num_places=1, prog=prog, name=name)
    gradients = graph.add_variable(left.dtype, (num_buckets, grads.shape[2]), f"{name}/out")
    reduction = graph.add_compute_set(f"{name}/reduce")
    codelet = adder(FLOAT, left.dtype, False)
    for bucket in range(num_buckets):
        tiles = cut.tiles[bucket].tolist()
        add_shared(graph, reduction, codelet, grads[bucket], out=gradients[bucket], tiles=tiles)
    prog.add(Execute(reduction))
    return gradients.reshape(lhs.nz_values.shape)
