"""The product of a sparse matrix whose pattern may change from run to run, and a dense one; and the
gradients for training a layer of such weights.

    params = dynamic.MatMulParams.create_with_nz_ratio(m, k, n, 1 / 8, (16, 16))
    lhs = dynamic.create_sparse_dense_mat_mul_lhs(graph, FLOAT, params)
    out = dynamic.sparse_dense_mat_mul(graph, lhs, x, prog)
    meta, values = dynamic.Partitioner(params, FLOAT, graph.target).encode(csr)   # to be written

The first step multiplies each bucket on its own tiles; then the buckets move round, see `buckets`.
Modelled cycles of the first step are those of a full bucket of the tile's own blocks, and those of
each further step are for as many blocks as the oversize has room for: the time of a step on a chip
depends on the pattern. PopLibs' options of the planner are missing, and nothing is cached: a plan
takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
    """A sparse matrix on the device: `meta_info`, UNSIGNED_SHORT, says where the blocks are, and
    `nz_values` [buckets, slots, b, b] what they hold, zeros in empty slots. The host writes both,
    as a `Partitioner` of the same parameters encodes them."""

    meta_info: Tensor
    nz_values: Tensor
    cut: Cut


class _OfBucket(SupervisorVertex):
    """The common fields of the vertices of a bucket. `meta`: for each slot its part, row and
    column."""

    meta: Input[Vector[UNSIGNED_SHORT]]
    block: ClassVar[int]
    first: ClassVar[bool] = True

    def mine(self, part: int) -> tuple[Array, Array, Array]:
        """Return (slots, rows, columns) of the blocks of a part."""
        places = self.meta.reshape(-1, PLACES).astype(np.int64)
        slots = np.flatnonzero(places[:, 0] == part)
        return slots, places[slots, 1], places[slots, 2]

    def blocks(self) -> int:
        """For how many blocks it is priced."""
        slots = len(self.meta) // PLACES
        return slots if self.first else int(spare(slots))


class DynamicSparsePartial(_OfBucket):
    """sums = the products of a bucket's blocks that are of part `me` with blocks of x, added to
    zeros. FLOAT stands for the operands' type, HALF for that of the sums."""

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
        slots, rows, columns = self.mine(self.me)
        blocks = self.values.reshape(-1, b, b)[slots].astype(np.float32)
        if self.turned:
            blocks, rows, columns = blocks.transpose(0, 2, 1), columns, rows
        products = blocks @ self.x.reshape(-1, b, n)[columns].astype(np.float32)
        np.add.at(sums.reshape(-1, b, n), rows, products)

    def cycles(self, target: Target) -> int:
        (rows, n), b = self.sums.shape, self.block
        types = self.fields["x"].dtype, self.fields["sums"].dtype
        cycles = dynamic_product(rows // b, self.blocks(), n, b, types, target)
        return int(cycles + (zeroing(rows * n, FLOAT, target) if self.first else 0))


class DynamicSparsePartialMore(DynamicSparsePartial):
    """sums += the same, of a bucket that came round."""

    sums: InOut[Vector[Vector[HALF]]]
    first = False

    def compute(self) -> None:
        self.add_to(self.sums)


class DynamicSparseGradW(_OfBucket):
    """grads = for a bucket's blocks of the part that is `here`, gradients of the result times
    inputs; 0 for the others."""

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
        slots, rows, columns = self.mine(self.here)
        left = self.left.reshape(-1, b, n)[rows].astype(np.float32)
        right = self.right.reshape(-1, b, n)[columns].astype(np.float32)
        grads.reshape(-1, b, b)[slots] += left @ right.transpose(0, 2, 1)

    def cycles(self, target: Target) -> int:
        (rows, n), b = self.left.shape, self.block
        types = self.fields["left"].dtype, self.fields["grads"].dtype
        cycles = dynamic_gradient(rows // b, self.blocks(), n, b, types, target)
        return int(cycles + (zeroing(len(self.grads), FLOAT, target) if self.first else 0))


class DynamicSparseGradWMore(DynamicSparseGradW):
    """grads += the same sums, for the operand of a further step."""

    grads: InOut[Vector[HALF]]
    first = False

    def compute(self) -> None:
        self.add_to(self.grads)


def _codelet(base: type[Vertex], dtype: type[DType], **options: Any) -> type[Vertex]:
    """Return the vertex for operands of a type; sums are FLOAT."""
    words: list[Word] = [dtype, *(f"{name}={value:d}" for name, value in options.items())]
    return typed(base, words, {FLOAT: dtype, HALF: FLOAT}, **options)


@library
def create_sparse_dense_mat_mul_lhs(
    graph: Graph,
    dtype: type[DType],
    params: MatMulParams,
    name: str = "create_sparse_dense_mat_mul_lhs",
) -> SparseTensor:
    """Return the sparse side of a product, FLOAT or HALF, with room for `params.num_blocks` blocks
    and nothing in it: write it before it is read. Raises `PoplibsError`."""
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
    """Return a variable [k, n] for the dense side: the data that the parts of a column of parts
    share is distributed over them. Raises `PoplibsError`."""
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
    """lhs [m, k] x x [k, n]: a tensor [m, n] of x's dtype; or lhs transposed times x [m, n], a
    tensor [k, n].

    Any pattern that the host wrote, without compiling again. Products are numpy's in single
    precision; a tile adds its own in the order of its slots, step by step; the tiles' sums are
    added first to last, and rounded once. Compute sets: multiply; in a loop of as many steps
    as the host counted, multiply again after a copy; reduce. Raises `PoplibsError`.
    """
    return _multiplied(graph, _checked(graph, lhs), x, bool(transpose_lhs), prog, debug_context)


@library
def fully_connected_fwd(
    graph: Graph,
    weights: SparseTensor,
    activations: Matrix,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return activations [n, k] times the transpose of weights [m, k]: [n, m], a layer's output for
    a batch of n. Otherwise like `sparse_dense_mat_mul`."""
    lhs = _checked(graph, weights)
    return _multiplied(graph, lhs, activations.T, False, prog, debug_context).T


@library
def fully_connected_grad_a(
    graph: Graph, weights: SparseTensor, gradients: Matrix, prog: Program, debug_context: str = OWN
) -> Tensor:
    """gradients [n, m] of a layer's result times weights [m, k]: [n, k], those of its input.
    Otherwise as `sparse_dense_mat_mul`."""
    lhs = _checked(graph, weights)
    return _multiplied(graph, lhs, gradients.T, True, prog, debug_context).T


@library
def fully_connected_sparse_grad_w(
    graph: Graph,
    weights: SparseTensor,
    gradients: Matrix,
    activations: Matrix,
    prog: Program,
    debug_context: str = OWN,
) -> Tensor:
    """Return the gradients of the stored weights, in the places of `weights.nz_values`, 0 in empty
    slots, from the result's gradients [n, m] and the layer's activations [n, k].

    The buckets stay; the dense operands move round, in the other direction. Priced as PopLibs'
    vertices without AMP. Raises `PoplibsError`.
    """
    lhs = _checked(graph, weights)
    params = lhs.cut.params
    _check_dense(lhs, "gradients", gradients, (params.n, params.m))
    _check_dense(lhs, "activations", activations, (params.n, params.k))
    return _gradients(graph, lhs, gradients.T, activations.T, prog, debug_context)


def _checked(graph: Graph, lhs: object) -> SparseTensor:
    if not isinstance(lhs, SparseTensor):
        raise as_given(lhs, "its sparse side", "give what create_sparse_dense_mat_mul_lhs returns.")
    check_tensor(graph, "the sparse side", lhs.nz_values)
    return lhs


def _check_dense(lhs: SparseTensor, name: str, x: Tensor, shape: tuple[int, int]) -> None:
    where = f"{name} {x!r}"
    check_same(f"shapes of {name}", x.shape, shape, where, "the sparse side's parameters say it.")
    check_same(f"dtypes of {name}", x.dtype, lhs.nz_values.dtype, where, "cast it: popops.cast.")


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
        _ring(graph, cut, UNSIGNED_SHORT, (PLACES * cut.slots,), name),
        _ring(graph, cut, x.dtype, (cut.slots * b * b,), name),
    ]
    right = _on_tiles(graph, cut, x.dtype, (_most(reads) * b, wide), f"{name}/x")
    sums = _on_tiles(graph, cut, FLOAT, (_most(writes) * b, wide), f"{name}/partials")
    sources = list[Tensor]()
    begun = list[Tensor]()
    steps = _steps(graph, cut, name)
    for (bucket, part), tile in np.ndenumerate(cut.tiles):
        places = divmod(bucket, cut.column_parts)
        to, of = places[::-1] if turned else places
        (r0, r1), (k0, k1), (low, high) = writes[to], reads[of], cut.n_parts[part]
        right_part = right[bucket, part, : (k1 - k0) * b, : high - low]
        sources.append(x[k0 * b : k1 * b, low:high].flatten())
        begun.append(right_part.flatten())
        edges: Edges = {"meta": rings[0][0][bucket, part], "values": rings[1][0][bucket, part]}
        sums_part = sums[bucket, part, : (r1 - r0) * b, : high - low]
        edges |= {"x": right_part, "sums": sums_part, "me": bucket}
        for first, compute_set in steps.items():
            base = DynamicSparsePartial if first else DynamicSparsePartialMore
            codelet = _codelet(base, x.dtype, block=b, turned=turned)
            put(graph, compute_set, int(tile), codelet, edges)
    prog.add(Copy(concat(sources), concat(begun)))
    for source, (ring_bucket, _) in zip((lhs.meta_info[1:], lhs.nz_values), rings, strict=True):
        by_bucket = source.reshape((cut.num_buckets, 1, ring_bucket.shape[2]))
        prog.add(Copy(by_bucket.broadcast(len(cut.n_parts), 1), ring_bucket))
    _go_round(graph, lhs, steps, rings, -1, prog, name)
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
                graph, reduction, codelet, partial_sums, out, cut.tiles[buckets_held, part].tolist()
            )
    prog.add(Execute(reduction))
    return outs[0] if len(outs) == 1 else concat(outs, 1)


def _most(parts: list[tuple[int, int]]) -> int:
    """Return the size of the largest part."""
    return max(end - begin for begin, end in parts)


def _steps(graph: Graph, cut: Cut, name: str) -> dict[bool, ComputeSet]:
    """Return the compute sets of the first step and, where there is a ring, of the others."""
    words = {True: "multiply", False: "propagate"}
    needed = [first for first in words if first or cut.num_buckets > 1]
    return {first: graph.add_compute_set(f"{name}/{words[first]}") for first in needed}


def _on_tiles(
    graph: Graph, cut: Cut, dtype: type[DType], shape: tuple[int, ...], name: str
) -> Tensor:
    """Return a variable [buckets, parts of n, *shape], each entry on the tile that multiplies
    there."""
    tensor = graph.add_variable(dtype, (*cut.tiles.shape, *shape), name)
    graph.set_tile_mapping(tensor.flatten(0, 2), cut.tiles.ravel())
    return tensor


def _ring(
    graph: Graph, cut: Cut, dtype: type[DType], shape: tuple[int, ...], name: str
) -> tuple[Tensor, Tensor]:
    """Return what goes round, and where it arrives."""
    bucket = _on_tiles(graph, cut, dtype, shape, f"{name}/bucket")
    return bucket, _on_tiles(graph, cut, dtype, shape, f"{name}/inbox")


def _go_round(
    graph: Graph,
    lhs: SparseTensor,
    steps: dict[bool, ComputeSet],
    rings: Sequence[tuple[Tensor, Tensor]],
    by: int,
    prog: Program,
    name: str,
) -> None:
    """Append the first step, and as many further steps as the host counted. Before each of these,
    the tensors on a ring move to the place `by` before their own."""
    prog.add(Execute(steps[True]))
    if False not in steps:
        return
    rounds = cast(graph, lhs.meta_info[0], UNSIGNED_INT, prog, f"{name}/rounds")
    counter = graph.add_variable(UNSIGNED_INT, (), f"{name}/step")
    graph.set_tile_mapping(counter, 0)
    begin = by % lhs.cut.num_buckets
    moved = [Copy(concat([bucket[begin:], bucket[:begin]]), inbox) for bucket, inbox in rings]
    arrived = [Copy(inbox, bucket) for bucket, inbox in rings]
    step = Program(*moved, *arrived, Execute(steps[False]))
    prog.add(counted_for_loop(graph, counter, 0, rounds, 1, step, f"{name}/propagation"))


def _gradients(
    graph: Graph, lhs: SparseTensor, left: Tensor, right: Tensor, prog: Program, name: str
) -> Tensor:
    cut = lhs.cut
    b = lhs.cut.b
    buckets = lhs.cut.num_buckets
    meta = lhs.meta_info[1:].reshape((buckets, PLACES * cut.slots))
    grads = _on_tiles(graph, cut, FLOAT, (cut.slots * b * b,), f"{name}/partials")
    numbers = graph.add_constant(UNSIGNED_SHORT, (buckets, 1), np.arange(buckets)[:, None])
    graph.set_tile_mapping(numbers, 0)
    max_part = (_most(cut.rows) * b, _most(cut.columns) * b)
    wide = cut.n_parts[0][1]
    rings = [_ring(graph, cut, left.dtype, (size, wide), name) for size in max_part]
    rings.append(_ring(graph, cut, UNSIGNED_SHORT, (), name))
    sources, begun, padding = list[Tensor](), list[Tensor](), list[Tensor]()
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
            put(graph, compute_set, int(tile), codelet, edges)
    zero(graph, concat(padding), prog, f"{name}/pad")
    prog.add(Copy(concat(sources), concat(begun)))
    prog.add(Copy(numbers.broadcast(len(cut.n_parts), 1), rings[2][0]))
    _go_round(graph, lhs, steps, rings, 1, prog, name)
    gradients = graph.add_variable(left.dtype, (buckets, grads.shape[2]), f"{name}/out")
    reduction = graph.add_compute_set(f"{name}/reduce")
    codelet = adder(FLOAT, left.dtype, False)
    for bucket in range(buckets):
        tiles = cut.tiles[bucket].tolist()
        add_shared(graph, reduction, codelet, grads[bucket], gradients[bucket], tiles)
    prog.add(Execute(reduction))
    return gradients.reshape(lhs.nz_values.shape)
