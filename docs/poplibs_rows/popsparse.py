"""Rows of docs/poplibs.md for popsparse.

They are sparse matrix types, and matrix products with a static or a dynamic sparsity pattern.
"""

from __future__ import annotations

from poplar_rows import Row

_CSR = "csr := popsparse.CSRMatrix.from_dense([[1.0, 0], [2, 3]])"
_PLAN = f"plan := popsparse.static.plan_sparse_dense({_CSR}, 3, graph.target)"
_LEFT = "popsparse.static.create_sparse_dense_mat_mul_lhs(graph, plan)"
_RIGHT = "popsparse.static.create_sparse_dense_mat_mul_rhs(graph, plan)"
_PARAMS = "popsparse.dynamic.MatMulParams.create_with_nz_ratio(8, 8, 4, 0.5, (4, 4))"
_LHS = f"popsparse.dynamic.create_sparse_dense_mat_mul_lhs(graph, FLOAT, params := {_PARAMS})"
_RHS = f"popsparse.dynamic.create_sparse_dense_mat_mul_rhs(graph, FLOAT, {_PARAMS})"
_PARTITIONER = f"popsparse.dynamic.Partitioner({_PARAMS}, FLOAT, graph.target)"
_HELD = "popsparse.CSRMatrix.from_dense(np.eye(8), (4, 4))"
_COUNTED = "rows and columns are numbered in blocks, and the blocks must be in order"
_LAYER = "takes MatMulParams: m outputs, k inputs, and a batch of n"


def _of(cpp: str, ours: str, differs: str, example: str) -> Row:
    return Row(f"popsparse::{cpp}", f"poplibs.popsparse.{ours}", differs, example)


POPSPARSE = [
    _of("COOMatrix", "COOMatrix", _COUNTED, "popsparse.COOMatrix((2, 2), [0], [1], [3.0])"),
    _of("CSRMatrix", "CSRMatrix", _COUNTED, "popsparse.CSRMatrix((2, 2), [0, 1, 1], [1], [3.0])"),
    _of(
        "static_::PlanningCache",
        "static.plan_sparse_dense",
        "returns a plan, which you pass to the other calls",
        f"({_PLAN})",
    ),
    _of(
        "static_::createSparseDenseMatMulLHS",
        "static.create_sparse_dense_mat_mul_lhs",
        "takes the plan, and returns a tensor of the values with the shape [blocks, b, b]",
        f"({_PLAN}) and {_LEFT}",
    ),
    _of(
        "static_::createSparseDenseMatMulRHS",
        "static.create_sparse_dense_mat_mul_rhs",
        "takes the plan",
        f"({_PLAN}) and {_RIGHT}",
    ),
    _of(
        "static_::sparseDenseMatMul",
        "static.sparse_dense_mat_mul",
        "does not reorder rows and columns (PopLibs' option enablePreprocessing)",
        f"({_PLAN}) and popsparse.static.sparse_dense_mat_mul(graph, csr, {_LEFT}, {_RIGHT}, prog)",
    ),
    _of(
        "dynamic::MatMulParams::createWithNzRatio",
        "dynamic.MatMulParams.create_with_nz_ratio",
        "takes m, k, n, the ratio and the shape of a block; there are no groups",
        _PARAMS,
    ),
    _of(
        "dynamic::MatMulParams::createWithNumNonZeroValues",
        "dynamic.MatMulParams.create_with_num_non_zero_values",
        "takes m, k, n, the number and the shape of a block; there are no groups",
        "popsparse.dynamic.MatMulParams.create_with_num_non_zero_values(8, 8, 4, 32, (4, 4))",
    ),
    _of(
        "dynamic::SparseTensor",
        "dynamic.SparseTensor",
        "the number of steps is part of the meta-information",
        "",
    ),
    _of("dynamic::Partitioner", "dynamic.Partitioner", "has no options", _PARTITIONER),
    _of(
        "dynamic::Partitioner::createSparsityDataImpl",
        "dynamic.Partitioner.encode",
        "returns arrays for `write_tensor`",
        f"{_PARTITIONER}.encode({_HELD})",
    ),
    _of(
        "dynamic::Partitioner::sparsityDataImplToCSRMatrix",
        "dynamic.Partitioner.decode",
        "also decodes gradients",
        f"(p := {_PARTITIONER}).decode(*p.encode({_HELD}))",
    ),
    Row(
        "(the buckets of a pattern)",
        "poplibs.popsparse.dynamic.Partitioner.buckets",
        "exists only in this kit: it returns the content of each bucket, and the values that "
        "spilled",
        f"{_PARTITIONER}.buckets({_HELD})",
    ),
    _of(
        "dynamic::createSparseDenseMatMulLHS",
        "dynamic.create_sparse_dense_mat_mul_lhs",
        "also replaces `createFullyConnectedWeights`",
        _LHS,
    ),
    _of(
        "dynamic::createSparseDenseMatMulRHS",
        "dynamic.create_sparse_dense_mat_mul_rhs",
        "also replaces `createFullyConnectedInput`, which is its transpose",
        _RHS,
    ),
    _of(
        "dynamic::sparseDenseMatMul",
        "dynamic.sparse_dense_mat_mul",
        "computes sums in FLOAT",
        f"popsparse.dynamic.sparse_dense_mat_mul(graph, {_LHS}, {_RHS}, prog)",
    ),
    _of(
        "dynamic::fullyConnectedFwd",
        "dynamic.fully_connected_fwd",
        _LAYER,
        f"popsparse.dynamic.fully_connected_fwd(graph, {_LHS}, {_RHS}.T, prog)",
    ),
    _of(
        "dynamic::fullyConnectedGradA",
        "dynamic.fully_connected_grad_a",
        _LAYER,
        f"popsparse.dynamic.fully_connected_grad_a(graph, {_LHS}, {_RHS}.T, prog)",
    ),
    _of(
        "dynamic::fullyConnectedSparseGradW",
        "dynamic.fully_connected_sparse_grad_w",
        _LAYER,
        f"popsparse.dynamic.fully_connected_sparse_grad_w(graph, {_LHS}, x := {_RHS}.T, x, prog)",
    ),
    Row("popsparse::CSCMatrix", "", "popsparse.CSRMatrix of the transposed matrix"),
    Row(
        "popsparse::static_::denseSparseMatMul, popsparse::dynamic::denseSparseMatMul",
        "",
        "sparse_dense_mat_mul of both, transposed",
    ),
    Row(
        "popsparse::dynamic::embeddingSlice, popsparse::dynamic::embeddingUpdateAdd",
        "",
        "popops.multi_slice and multi_update_add of a dense table",
    ),
    Row("popsparse::experimental", "", "popsparse.static or popsparse.dynamic"),
]
