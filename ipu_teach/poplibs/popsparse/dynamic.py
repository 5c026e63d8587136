"""Products of a sparse matrix whose pattern may change between runs, and gradients for training.

    params = dynamic.MatMulParams.create_with_nz_ratio(m, k, n, 1 / 8, (16, 16))
    lhs = dynamic.create_sparse_dense_mat_mul_lhs(graph, FLOAT, params)
    out = dynamic.sparse_dense_mat_mul(graph, lhs, x, prog)
    # the host writes these arrays:
    meta, values = dynamic.Partitioner(params, FLOAT, graph.target).encode(csr)

The first step multiplies each bucket on its own tiles; then the buckets move from tile to tile, as
`buckets` describes. The modelled cycles of the first step are those of a full bucket of the tile's
own blocks, and those of each further step are for as many blocks as the oversize has room for. On a
chip, the time of a step depends on the pattern. PopLibs' planner options are missing, and plans are
not cached: a plan takes milliseconds.
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
    """A sparse matrix on the device.

    `meta_info`, UNSIGNED_SHORT, contains the places of the blocks. `nz_values` [buckets, slots, b,
    b] contains their values, and zeros in empty slots. The host writes both, as encoded by a
    `Partitioner` with the same parameters.
    """

    meta_info: Tensor
    nz_values: Tensor
    cut: Cut


class _OfBucket(SupervisorVertex):
    """The common part of the vertices of a bucket.

    `meta` contains the part, row and column of each slot's block.
    """

    meta: Input[Vector[UNSIGNED_SHORT]]
    block: ClassVar[int]
    first: ClassVar[bool] = True

    def blocks_of(self, part: int) -> tuple[Array, Array, Array]:
        """Return (slots, rows, columns) of the bucket's blocks of a part."""
        places = self.meta.reshape(-1, PLACES).astype(np.int64)
        slots = np.flatnonzero(places[:, 0] == part)
        return slots, places[slots, 1], places[slots, 2]

    def blocks(self) -> int:
        """Return the number of blocks for which the cycles are modelled."""
        slots = len(self.meta) // PLACES
        return slots if self.first else int(spare(slots))


class DynamicSparsePartial(_OfBucket):
    """sums = the products of a bucket's blocks of part `me` with blocks of x.

    FLOAT stands for the dtype of the operands, HALF for that of the sums. With `turned`, the sparse
    operand is transposed.
    """

    values: Input[Vector[FLOAT]]
    x: Input[Vector[Vector[FLOAT]]]
    sums: Output[Vector[Vector[HALF]]]
    me: UNSIGNED_SHORT
    turned: ClassVar[bool]

    def compute(self) -> None:
        total = np.zeros(self.sums.shape, np.float32)
        self.add_to(total)
        self.sums = total

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
        rows, n = self.sums.shape
        b = self.block
        types = self.fields["x"].dtype, self.fields["sums"].dtype
        cycles = dynamic_product(rows // b, self.blocks(), n, b, types=types, target=target)
        return int(cycles + (zeroing(rows * n, FLOAT, target) if self.first else 0))


class DynamicSparsePartialMore(DynamicSparsePartial):
    """sums += the products as in `DynamicSparsePartial`, of a bucket of another part."""

    sums: InOut[Vector[Vector[HALF]]]
    first = False

    def compute(self) -> None:
        self.add_to(self.sums)


class DynamicSparseGradW(_OfBucket):
    """grads = the gradients of a bucket's blocks of part `here`; 0 for its other blocks.

    They are products of the result's gradients and the layer's inputs.
    """

    left: Input[Vector[Vector[FLOAT]]]
    right: Input[Vector[Vector[FLOAT]]]
    here: Input[UNSIGNED_SHORT]
    grads: Output[Vector[HALF]]

    def compute(self) -> None:
        total = np.zeros(self.grads.shape, np.float32)
        self.add_to(total)
        self.grads = total

    def add_to(self, grads: Array) -> None:
        b = self.block
        n = self.left.shape[1]
        slots, rows, columns = self.blocks_of(self.here)
        left = self.left.reshape(-1, b, n)[rows].astype(np.float32)
        right = self.right.reshape(-1, b, n)[columns].astype(np.float32)
        grads.reshape(-1, b, b)[slots] += left @ right.transpose(0, 2, 1)

    def cycles(self, target: Target) -> int:
        rows, n = self.left.shape
        b = self.block
        types = self.fields["left"].dtype, self.fields["grads"].dtype
        cycles = dynamic_gradient(rows // b, self.blocks(), n, b, types=types, target=target)
        return int(cycles + (zeroing(len(self.grads), FLOAT, target) if self.first else 0))


class DynamicSparseGradWMore(DynamicSparseGradW):
    """Add the gradients of one more step to `grads`; computed as in `DynamicSparseGradW`."""

    grads: InOut[Vector[HALF]]
    first = False

    def compute(self) -> None:
        self.add_to(self.grads)


def _codelet(base: type[Vertex], dtype: type[DType], **options: int) -> type[Vertex]:
    """Return `base` for operands of `dtype` and sums of FLOAT; `options` are constants."""
    words: list[Word] = [dtype, *(f"{name}={value:d}" for name, value in options.items())]
    return typed(base, words, {FLOAT: dtype, HALF: FLOAT}, **options)


@library
def create_sparse_dense_mat_mul_lhs(
    graph: Graph,
    dtype: type[DType],
    params: MatMulParams,
    name: str = "create_sparse_dense_mat_mul_lhs",
) -> SparseTensor:
    """Return the sparse operand of a product, FLOAT or HALF, with room for the budget of blocks.

    It has no values: write it before it is read. Raises `PoplibsError`.
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
    """Return a variable [k, n] for the dense operand.

    The parts of a column of buckets need the same rows; these are distributed over the parts'
    tiles. Raises `PoplibsError`.
    """
    cut = Partitioner(params, dtype, graph.target).cut
    tensor = graph.add_variable(dtype, (params.k, params.n), name)
    for column, (begin, end) in enumerate(cut.columns):
        for part, (low, high) in enumerate(cut.n_parts):
            for i, (first, last) in enumerate(balanced_partition(end - begin, cut.row_parts)):
                rows = tensor[(begin + first) * cut.b : (begin + last) * cut.b, low:high]
                tile = cut.tiles[i * cut.column_parts + column, part]
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
    """Return lhs [m, k] times x [k, n], or with `transpose_lhs` the transpose times x [m, n].

    The result, [m, n] or [k, n], has x's dtype. The pattern is any that the host wrote, without
    compiling again. Products are numpy's in single precision. A tile adds its own in the order of
    its slots, step by step; then the tiles' sums are added first to last, and rounded once. The
    compute sets are: multiply; in a loop of as many steps as the host counted, a copy and another
    multiply; reduce. Raises `PoplibsError`.
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
    """Return activations [n, k] times the transposed weights [m, k]: the output [n, m] of a layer.

    n is the batch size. See `sparse_dense_mat_mul`.
    """
    lhs = _checked(graph, weights)
    return _multiplied(graph, lhs, activations.T, False, prog=prog, name=debug_context).T


@library
def fully_connected_grad_a(
    graph: Graph, weights: SparseTensor, gradients: Matrix, prog: Program, debug_context: str = OWN
) -> Tensor:
    """Return gradients [n, m] of a layer's output times weights [m, k]: those of its input, [n, k].

    See `sparse_dense_mat_mul`.
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
    """Return the gradients of the stored weights, in the form of `weights.nz_values`.

    They are computed from the gradients [n, m] of a layer's output and its activations [n, k], and
    are 0 in empty slots. The buckets stay on their tiles, and the dense operands move in the other
    direction. The cost is that of PopLibs' vertices without AMP. Raises `PoplibsError`.
    """
    lhs = _checked(graph, weights)
    params = lhs.cut.params
    _check_dense(lhs, "gradients", gradients, (params.n, params.m))
    _check_dense(lhs, "activations", activations, (params.n, params.k))
    return _gradients(graph, lhs, gradients.T, activations.T, prog=prog, name=debug_context)


def _checked(graph: Graph, lhs: SparseTensor) -> SparseTensor:
    if not isinstance(lhs, SparseTensor):
        raise as_given(lhs, "its sparse side", "give what create_sparse_dense_mat_mul_lhs returns.")
    check_tensor(graph, "the sparse side", lhs.nz_values)
    return lhs


def _check_dense(lhs: SparseTensor, name: str, x: Tensor, shape: tuple[int, int]) -> None:
    where = f"{name} {x!r}"
    check_same(
        f"shapes of {name}", x.shape, shape, where, advice="the sparse side's parameters say it."
    )
    check_same(
        f"dtypes of {name}", x.dtype, lhs.nz_values.dtype, where, advice="cast it: popops.cast."
    )


def _multiplied(
    graph: Graph, lhs: SparseTensor, x: Tensor, turned: bool, prog: Program, name: str
) -> Tensor:
    cut = lhs.cut
    params = lhs.cut.params
    b = lhs.cut.b
    sides = [(params.k, cut.columns), (params.m, cut.rows)]
    (into, reads), (size, writes) = sides[::-1] if turned else sides
    _check_dense(lhs, "the dense side", x, (into, params.n))
    wide = cut.n_parts[0][1]
    rings = [
        _ring(graph, cut, UNSIGNED_SHORT, (PLACES * cut.slots,), name=name),
        _ring(graph, cut, x.dtype, (cut.slots * b * b,), name=name),
    ]
    right = _on_tiles(graph, cut, x.dtype, (_most(reads) * b, wide), name=f"{name}/x")
    sums = _on_tiles(graph, cut, FLOAT, (_most(writes) * b, wide), name=f"{name}/partials")
    sources = list[Tensor]()
    begun = list[Tensor]()
    steps = _steps(graph, cut, name)
    for (bucket, part), tile in np.ndenumerate(cut.tiles):
        places = divmod(bucket, cut.column_parts)
        to, of = places[::-1] if turned else places
        r0, r1 = writes[to]
        k0, k1 = reads[of]
        low, high = cut.n_parts[part]
        right_part = right[bucket, part, : (k1 - k0) * b, : high - low]
        sources.append(x[k0 * b : k1 * b, low:high].flatten())
        begun.append(right_part.flatten())
        edges: Edges = {"meta": rings[0][0][bucket, part], "values": rings[1][0][bucket, part]}
        sums_part = sums[bucket, part, : (r1 - r0) * b, : high - low]
        edges |= {"x": right_part, "sums": sums_part, "me": bucket}
        for first, compute_set in steps.items():
            base = DynamicSparsePartial if first else DynamicSparsePartialMore
            codelet = _codelet(base, x.dtype, block=b, turned=turned)
            put(graph, compute_set, int(tile), codelet, edges=edges)
    prog.add(Copy(concat(sources), concat(begun)))
    for source, (ring_bucket, _) in zip((lhs.meta_info[1:], lhs.nz_values), rings, strict=True):
        by_bucket = source.reshape((cut.num_buckets, 1, ring_bucket.shape[2]))
        prog.add(Copy(by_bucket.broadcast(len(cut.n_parts), 1), ring_bucket))
    _go_round(graph, lhs, steps, rings, by=-1, prog=prog, name=name)
    reduction = graph.add_compute_set(f"{name}/reduce")
    outs = []
    codelet = adder(FLOAT, x.dtype, False)
    for part, (low, high) in enumerate(cut.n_parts):
        outs.append(graph.add_variable(x.dtype, (size, high - low), f"{name}/out/{part}"))
        for to, (r0, r1) in enumerate(writes):
            parts = cut.column_parts
            buckets_held = slice(to, None, parts) if turned else slice(to * parts, (to + 1) * parts)
            partial_sums = sums[buckets_held, part, : (r1 - r0) * b, : high - low].flatten(1, 3)
            out = outs[-1][r0 * b : r1 * b].flatten()
            add_shared(
                graph,
                reduction,
                codelet,
                partial_sums,
                out=out,
                tiles=cut.tiles[buckets_held, part].tolist(),
            )
    prog.add(Execute(reduction))
    return outs[0] if len(outs) == 1 else concat(outs, 1)


def _most(parts: list[tuple[int, int]]) -> int:
    """Return the size of the largest part."""
    return max(end - begin for begin, end in parts)


def _steps(graph: Graph, cut: Cut, name: str) -> dict[bool, ComputeSet]:
    """Return the compute sets of the first step (True) and of further steps (False)."""
    words = {True: "multiply", False: "propagate"}
    needed = [first for first in words if first or cut.num_buckets > 1]
    return {first: graph.add_compute_set(f"{name}/{words[first]}") for first in needed}


def _on_tiles(
    graph: Graph, cut: Cut, dtype: type[DType], shape: tuple[int, ...], name: str
) -> Tensor:
    """Return a variable [buckets, parts of n, *shape], each entry on the tile that uses it."""
    tensor = graph.add_variable(dtype, (*cut.tiles.shape, *shape), name)
    graph.set_tile_mapping(tensor.flatten(0, 2), cut.tiles.ravel())
    return tensor


def _ring(
    graph: Graph, cut: Cut, dtype: type[DType], shape: tuple[int, ...], name: str
) -> tuple[Tensor, Tensor]:
    """Return (bucket, inbox): the tensor that moves around the ring, and where it arrives."""
    bucket = _on_tiles(graph, cut, dtype, shape, name=f"{name}/bucket")
    return bucket, _on_tiles(graph, cut, dtype, shape, name=f"{name}/inbox")


def _go_round(
    graph: Graph,
    lhs: SparseTensor,
    steps: dict[bool, ComputeSet],
    rings: Sequence[tuple[Tensor, Tensor]],
    by: int,
    prog: Program,
    name: str,
) -> None:
    """Append the first step, and as many further steps as the host counted.

    Before each further step, the tensors of all rings move back by `by` places.
    """
    prog.add(Execute(steps[True]))
    if False not in steps:
        return
    rounds = cast(graph, lhs.meta_info[0], UNSIGNED_INT, prog, debug_context=f"{name}/rounds")
    counter = graph.add_variable(UNSIGNED_INT, (), f"{name}/step")
    graph.set_tile_mapping(counter, 0)
    begin = by % lhs.cut.num_buckets
    moved = [Copy(concat([bucket[begin:], bucket[:begin]]), inbox) for bucket, inbox in rings]
    arrived = [Copy(inbox, bucket) for bucket, inbox in rings]
    step = Program(*moved, *arrived, Execute(steps[False]))
    prog.add(
        counted_for_loop(
            graph, counter, 0, rounds, step=1, body=step, debug_context=f"{name}/propagation"
        )
    )


def _gradients(
    graph: Graph, lhs: SparseTensor, left: Tensor, right: Tensor, prog: Program, name: str
) -> Tensor:
    cut = lhs.cut
    b = lhs.cut.b
    buckets = lhs.cut.num_buckets
    meta = lhs.meta_info[1:].reshape((buckets, PLACES * cut.slots))
    grads = _on_tiles(graph, cut, FLOAT, (cut.slots * b * b,), name=f"{name}/partials")
    numbers = graph.add_constant(UNSIGNED_SHORT, (buckets, 1), np.arange(buckets)[:, None])
    graph.set_tile_mapping(numbers, 0)
    max_part = (_most(cut.rows) * b, _most(cut.columns) * b)
    wide = cut.n_parts[0][1]
    rings = [_ring(graph, cut, left.dtype, (size, wide), name=name) for size in max_part]
    rings.append(_ring(graph, cut, UNSIGNED_SHORT, (), name=name))
    sources: list[Tensor] = []
    begun: list[Tensor] = []
    padding: list[Tensor] = []
    steps = _steps(graph, cut, name)
    for (bucket, part), tile in np.ndenumerate(cut.tiles):
        low, high = cut.n_parts[part]
        places = divmod(bucket, cut.column_parts)
        for (ring_bucket, _), dense, cuts, place in zip(
            rings, (left, right), (cut.rows, cut.columns), places, strict=False
        ):
            begin, end = (n * b for n in cuts[place])
            to = ring_bucket[bucket, part]
            sources.append(dense[begin:end, low:high].flatten())
            begun.append(to[: end - begin, : high - low].flatten())
            padding += [to[end - begin :].flatten(), to[: end - begin, high - low :].flatten()]
        names = "left", "right", "here"
        edges = {n: ring[0][bucket, part] for n, ring in zip(names, rings, strict=True)}
        edges |= {"meta": meta[bucket], "grads": grads[bucket, part]}
        for first, compute_set in steps.items():
            base = DynamicSparseGradW if first else DynamicSparseGradWMore
            codelet = _codelet(base, left.dtype, block=b)
            put(graph, compute_set, int(tile), codelet, edges=edges)
    zero(graph, concat(padding), prog, f"{name}/pad")
    prog.add(Copy(concat(sources), concat(begun)))
    prog.add(Copy(numbers.broadcast(len(cut.n_parts), 1), rings[2][0]))
    _go_round(graph, lhs, steps, rings, by=1, prog=prog, name=name)
    gradients = graph.add_variable(left.dtype, (buckets, grads.shape[2]), f"{name}/out")
    reduction = graph.add_compute_set(f"{name}/reduce")
    codelet = adder(FLOAT, left.dtype, False)
    for bucket in range(buckets):
        tiles = cut.tiles[bucket].tolist()
        add_shared(graph, reduction, codelet, grads[bucket], out=gradients[bucket], tiles=tiles)
    prog.add(Execute(reduction))
    return gradients.reshape(lhs.nz_values.shape)
