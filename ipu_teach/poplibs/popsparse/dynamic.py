"""The product of a sparse matrix whose pattern may change from run to run, and a dense one; and
what a layer of such weights needs to be trained.

    params = dynamic.MatMulParams.create_with_nz_ratio(m, k, n, 1 / 8, (16, 16))
    lhs = dynamic.create_sparse_dense_mat_mul_lhs(graph, FLOAT, params)
    out = dynamic.sparse_dense_mat_mul(graph, lhs, x, prog)
    meta, values = dynamic.Partitioner(params, FLOAT, graph.target).encode(csr)   # to be written

The first step multiplies each bucket where it lies; then the buckets go round, see `buckets`.
Modelled cycles of a step are those of a full bucket of the tile's own blocks at first, and of as
many as the oversize has room for in each further step: what a step takes on a chip depends on the
pattern. Of PopLibs' options of the planner there are none here, and nothing is cached: a plan takes
milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from ipu_teach.cost.vertices.popsparse import dynamic_gradient, dynamic_product
from ipu_teach.graph import (
    Graph,
    InOut,
    Input,
    SupervisorVertex,
    Tensor,
    Vector,
    Vertex,
    concat,
    template,
)
from ipu_teach.poplibs.library import OWN, Matrix, as_given, check_same, check_tensor, library
from ipu_teach.poplibs.popops import cast, counted_for_loop, reduce, zero
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
    """What the vertices of a bucket have. `meta`: for each slot its part, row and column."""

    meta: Input[Vector[UNSIGNED_SHORT]]
    block: ClassVar[int]
    first: ClassVar[bool]

    def mine(self, part: int) -> tuple[Array, Array, Array]:
        """(slots, rows, columns) of the blocks of a part."""
        places = self.meta.reshape(-1, PLACES).astype(np.int64)
        slots = np.flatnonzero(places[:, 0] == part)
        return slots, places[slots, 1], places[slots, 2]

    def blocks(self) -> int:
        """For how many blocks it is priced."""
        slots = len(self.meta) // PLACES
        return slots if self.first else int(spare(slots))


class DynamicSparsePartial(_OfBucket):
    """sums += the products of a bucket's blocks that are of part `me` with blocks of x. FLOAT
    stands for the operands' type, HALF for that of the sums."""

    values: Input[Vector[FLOAT]]
    x: Input[Vector[Vector[FLOAT]]]
    sums: InOut[Vector[Vector[HALF]]]
    me: UNSIGNED_SHORT
    turned: ClassVar[bool]

    def compute(self) -> None:
        b, n = self.block, self.sums.shape[1]
        slots, rows, columns = self.mine(self.me)
        blocks = self.values.reshape(-1, b, b)[slots].astype(np.float32)
        if self.turned:
            blocks, rows, columns = blocks.transpose(0, 2, 1), columns, rows
        products = blocks @ self.x.reshape(-1, b, n)[columns].astype(np.float32)
        np.add.at(self.sums.reshape(-1, b, n), rows, products)

    def cycles(self, target: Target) -> int:
        (rows, n), b = self.sums.shape, self.block
        types = self.fields["x"].dtype, self.fields["sums"].dtype
        return int(dynamic_product(rows // b, self.blocks(), n, b, types, target))


class DynamicSparseGradW(_OfBucket):
    """grads += for a bucket's blocks of the part that is `here`, gradients of the result times
    inputs."""

    left: Input[Vector[Vector[FLOAT]]]
    right: Input[Vector[Vector[FLOAT]]]
    here: Input[UNSIGNED_SHORT]
    grads: InOut[Vector[HALF]]

    def compute(self) -> None:
        b, n = self.block, self.left.shape[1]
        slots, rows, columns = self.mine(self.here)
        left = self.left.reshape(-1, b, n)[rows].astype(np.float32)
        right = self.right.reshape(-1, b, n)[columns].astype(np.float32)
        self.grads.reshape(-1, b, b)[slots] += left @ right.transpose(0, 2, 1)

    def cycles(self, target: Target) -> int:
        (rows, n), b = self.left.shape, self.block
        types = self.fields["left"].dtype, self.fields["grads"].dtype
        return int(dynamic_gradient(rows // b, self.blocks(), n, b, types, target))


@cache
def _codelet(base: type[Vertex], dtype: type[DType], **how: bool | int) -> type[Vertex]:
    """The vertex for operands of a type; sums are FLOAT."""
    words = ",".join([dtype.__name__.lower(), *(f"{k}={v:d}" for k, v in how.items())])
    name = f"popsparse::{base.__name__}<{words}>"
    return template(base, name, {FLOAT: dtype, HALF: FLOAT}, **how)


@library
def create_sparse_dense_mat_mul_lhs(
    graph: Graph,
    dtype: type[DType],
    params: MatMulParams,
    name: str = "create_sparse_dense_mat_mul_lhs",
) -> SparseTensor:
    """The sparse side of a product, FLOAT or HALF, with room for `params.num_blocks` blocks and
    nothing in it: write it before it is read. Raises `PoplibsError`."""
    cut = Partitioner(params, dtype, graph.target).cut
    each = PLACES * cut.slots
    meta = graph.add_variable(UNSIGNED_SHORT, (1 + cut.num_buckets * each,), f"{name}/metaInfo")
    shape = (cut.num_buckets, cut.slots, cut.b, cut.b)
    values = graph.add_variable(dtype, shape, f"{name}/nzValues")
    graph.set_tile_mapping(meta[:1], 0)
    for bucket in range(cut.num_buckets):
        tile = cut.tile(bucket)
        graph.set_tile_mapping(meta[1 + bucket * each : 1 + (bucket + 1) * each], tile)
        graph.set_tile_mapping(values[bucket], tile)
    return SparseTensor(meta, values, cut)


@library
def create_sparse_dense_mat_mul_rhs(
    graph: Graph,
    dtype: type[DType],
    params: MatMulParams,
    name: str = "create_sparse_dense_mat_mul_rhs",
) -> Tensor:
    """A variable [k, n] for the dense side: what the parts of a column of parts share lies on them
    in turn. Raises `PoplibsError`."""
    cut = Partitioner(params, dtype, graph.target).cut
    made = graph.add_variable(dtype, (params.k, params.n), name)
    for column, (begin, end) in enumerate(cut.columns):
        for part, (low, high) in enumerate(cut.n_parts):
            for i, (first, last) in enumerate(balanced_partition(end - begin, cut.row_parts)):
                tile = cut.tile(i * cut.column_parts + column, part)
                rows = made[(begin + first) * cut.b : (begin + last) * cut.b, low:high]
                graph.set_tile_mapping(rows, tile)
    return made


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
    precision; a tile adds its own in the order of its slots, step by step, and the tiles' sums are
    added by `popops.reduce`, which rounds once. What is on a tile of `x` is sent to each that needs
    it. Compute sets: zero; multiply; in a loop of as many steps as the host counted, multiply again
    after a copy; reduce or cast. Raises `PoplibsError`.
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
    """activations [n, k] times the transpose of weights [m, k]: [n, m], what a layer makes of a
    batch of n. Otherwise as `sparse_dense_mat_mul`."""
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
    """The gradients of the weights that are there, in the place of `weights.nz_values`, 0 in empty
    slots: of the result's gradients [n, m] and the layer's activations [n, k].

    The buckets stay; what they are multiplied with goes round, the other way. Priced as PopLibs'
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
    cut, params = lhs.cut, lhs.cut.params
    sides = [(params.k, cut.columns), (params.m, cut.rows)]
    (into, reads), (size, writes) = sides[::-1] if turned else sides
    _check_dense(lhs, "the dense side", x, (into, params.n))
    among, b, buckets = len(cut.n_parts), cut.b, cut.num_buckets
    others = len(reads)
    sums = graph.add_variable(FLOAT, (others, size, params.n), f"{name}/partials")
    here, ring = _ring(graph, lhs, name)
    steps = {True: graph.add_compute_set(f"{name}/multiply")}
    if buckets > 1:
        steps[False] = graph.add_compute_set(f"{name}/propagate")
    for bucket in range(buckets):
        places = divmod(bucket, cut.column_parts)
        to, of = places[::-1] if turned else places
        (r0, r1), (k0, k1) = writes[to], reads[of]
        for part, (low, high) in enumerate(cut.n_parts):
            out, tile = sums[of, r0 * b : r1 * b, low:high], cut.tile(bucket, part)
            graph.set_tile_mapping(out, tile)
            for first, compute_set in steps.items():
                codelet = _codelet(
                    DynamicSparsePartial, x.dtype, block=b, turned=turned, first=first
                )
                vertex = graph.add_vertex(
                    compute_set,
                    codelet,
                    meta=here[0][part, bucket],
                    values=here[1][part, bucket],
                    x=x[k0 * b : k1 * b, low:high],
                    sums=out,
                    me=bucket,
                )
                graph.set_tile_mapping(vertex, tile)
    zero(graph, sums, prog, f"{name}/zero")
    sources = lhs.meta_info[1:], lhs.nz_values
    for tensor, source in zip(here, sources, strict=True):
        whole = source.reshape((1, *tensor.shape[1:]))
        prog.add(Copy(whole.broadcast(among, 0), tensor))
    prog.add(Execute(steps[True]))
    if buckets > 1:
        _go_round(graph, lhs, Program(*ring, Execute(steps[False])), prog, name)
    if others > 1:
        return reduce(graph, sums, [0], prog, "ADD", f"{name}/reduce", x.dtype)
    return sums[0] if x.dtype is FLOAT else cast(graph, sums[0], x.dtype, prog, f"{name}/cast")


def _ring(graph: Graph, lhs: SparseTensor, name: str) -> tuple[list[Tensor], list[Copy]]:
    """The buckets as they go round: what lies on each tile, [parts of n, buckets, …], and the
    copies that bring each to the next."""
    cut, among = lhs.cut, len(lhs.cut.n_parts)
    tensors, copies = [], []
    sizes = (UNSIGNED_SHORT, PLACES * cut.slots), (lhs.nz_values.dtype, cut.slots * cut.b**2)
    for dtype, size in sizes:
        shape = (among, cut.num_buckets, size)
        here, inbox = (graph.add_variable(dtype, shape, f"{name}/{w}") for w in ("bucket", "inbox"))
        for part in range(among):
            for bucket in range(cut.num_buckets):
                for tensor in (here, inbox):
                    graph.set_tile_mapping(tensor[part, bucket], cut.tile(bucket, part))
        tensors.append(here)
        copies.append((_rolled(here, 1, -1), inbox, here))
    moved = [Copy(rolled, inbox) for rolled, inbox, _ in copies]
    return tensors, moved + [Copy(inbox, here) for _, inbox, here in copies]


def _rolled(tensor: Tensor, axis: int, by: int) -> Tensor:
    """A view in which each entry along an axis has the place of the one `by` before it."""
    count = tensor.shape[axis]
    parts = tensor.slice(by % count, count, axis), tensor.slice(0, by % count, axis)
    return concat(list(parts), axis)


def _go_round(graph: Graph, lhs: SparseTensor, step: Program, prog: Program, name: str) -> None:
    """As many steps as the host counted."""
    rounds = cast(graph, lhs.meta_info[0], UNSIGNED_INT, prog, f"{name}/rounds")
    counter = graph.add_variable(UNSIGNED_INT, (), f"{name}/step")
    graph.set_tile_mapping(counter, 0)
    prog.add(counted_for_loop(graph, counter, 0, rounds, 1, step, f"{name}/propagation"))


def _gradients(
    graph: Graph, lhs: SparseTensor, left: Tensor, right: Tensor, prog: Program, name: str
) -> Tensor:
    cut, b, buckets = lhs.cut, lhs.cut.b, lhs.cut.num_buckets
    meta = lhs.meta_info[1:].reshape((buckets, PLACES * cut.slots))
    shape = (len(cut.n_parts), buckets, cut.slots * b * b)
    grads = graph.add_variable(FLOAT, shape, f"{name}/partials")
    steps = {True: graph.add_compute_set(f"{name}/multiply")}
    if buckets > 1:
        steps[False] = graph.add_compute_set(f"{name}/propagate")
    numbers = graph.add_constant(UNSIGNED_SHORT, (buckets,), np.arange(buckets), f"{name}/numbers")
    graph.set_tile_mapping(numbers, 0)
    moved, arrived, begun, padding = [], [], [], []
    for part, (low, high) in enumerate(cut.n_parts):
        travels = []
        for which, (dense, parts) in enumerate(((left, cut.rows), (right, cut.columns))):
            most = max(end - begin for begin, end in parts) * b
            pair = _travelling(graph, cut, part, dense.dtype, (most, high - low), name)
            for bucket in range(buckets):
                begin, end = (n * b for n in parts[divmod(bucket, cut.column_parts)[which]])
                begun.append((dense[begin:end, low:high], pair[0][bucket, : end - begin]))
                padding += [pair[0][bucket, end - begin :].flatten()] * (end - begin < most)
            travels.append(pair)
        travels.append(_travelling(graph, cut, part, UNSIGNED_SHORT, (), name))
        begun.append((numbers, travels[-1][0]))
        for here, inbox in travels:
            moved.append(Copy(_rolled(here, 0, 1), inbox))
            arrived.append(Copy(inbox, here))
        for bucket in range(buckets):
            tile = cut.tile(bucket, part)
            graph.set_tile_mapping(grads[part, bucket], tile)
            for first, compute_set in steps.items():
                vertex = graph.add_vertex(
                    compute_set,
                    _codelet(DynamicSparseGradW, left.dtype, block=b, first=first),
                    meta=meta[bucket],
                    left=travels[0][0][bucket],
                    right=travels[1][0][bucket],
                    here=travels[2][0][bucket],
                    grads=grads[part, bucket],
                )
                graph.set_tile_mapping(vertex, tile)
    zero(graph, grads, prog, f"{name}/zero")
    if padding:
        zero(graph, concat(padding), prog, f"{name}/pad")
    for source, to in begun:
        prog.add(Copy(source, to))
    prog.add(Execute(steps[True]))
    if buckets > 1:
        _go_round(graph, lhs, Program(*moved, *arrived, Execute(steps[False])), prog, name)
    if shape[0] > 1:
        made = reduce(graph, grads, [0], prog, "ADD", f"{name}/reduce", left.dtype)
    else:
        made = grads[0] if left.dtype is FLOAT else cast(graph, grads[0], left.dtype, prog, name)
    return made.reshape(lhs.nz_values.shape)


def _travelling(
    graph: Graph, cut: Cut, part: int, dtype: type[DType], shape: tuple[int, ...], name: str
) -> tuple[Tensor, Tensor]:
    """What goes round for a part of n, [buckets, *shape], and where it arrives."""
    shape = (cut.num_buckets, *shape)
    made = tuple(graph.add_variable(dtype, shape, f"{name}/{w}") for w in ("dense", "inbox"))
    for tensor in made:
        for bucket in range(cut.num_buckets):
            graph.set_tile_mapping(tensor[bucket], cut.tile(bucket, part))
    return made[0], made[1]
