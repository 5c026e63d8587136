"""Compare products of random sparse matrices with scipy, and gradients with masked dense ones."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from ipu_teach import FLOAT, HALF, Device, Engine, Graph, IPUModel, Tensor
from ipu_teach.poplibs import poputil
from ipu_teach.poplibs.popsparse import COOMatrix, CSRMatrix, dynamic, static
from ipu_teach.program import Sequence
from ipu_teach.types import Array

PATTERNS = ("even", "even", "even", "empty rows", "full", "one block", "first rows", "nothing")


@dataclass(frozen=True)
class Drawn:
    """A product of a sparse [m, k] matrix in blocks of b with a dense [k, n] one, on some tiles."""

    seed: int
    kind: str
    sizes: tuple[int, int, int]
    b: int
    dtype: Any
    sums: Any
    tiles: int
    density: float
    patterns: tuple[str, ...]


def draw(seed: int) -> Drawn:
    rng = Random(f"sparse {seed}")
    b = rng.choice([1, 4, 8, 16])
    most = {1: 40, 4: 16, 8: 9, 16: 6}[b]
    m, k = (b * rng.randint(1, most) for _ in "mk")
    n = rng.choice([1, 2, 4, 8, rng.randint(3, 40)])
    dtype = rng.choice([FLOAT, HALF])
    sums = rng.choice([FLOAT, HALF]) if dtype is HALF else FLOAT
    patterns = tuple(rng.choice(PATTERNS) for _ in range(3))
    tiles = rng.choice([1, 2, 5, 13, 13, 40])
    kind = rng.choice(["static", "dynamic"])
    return Drawn(seed, kind, (m, k, n), b, dtype, sums, tiles, rng.random() ** 2, patterns)


def pattern(drawn: Drawn, kind: str, rng: np.random.Generator) -> CSRMatrix:
    """Return a matrix whose blocks are arranged as `kind` says."""
    (m, k, _), b = drawn.sizes, drawn.b
    there = rng.random((m // b, k // b)) < drawn.density
    if kind == "full":
        there[:] = True
    elif kind in ("one block", "nothing"):
        there[:] = False
        there[rng.integers(m // b), rng.integers(k // b)] = kind == "one block"
    elif kind == "empty rows":
        there[rng.random(m // b) < 0.5] = False
    elif kind == "first rows":
        count = int(there.sum())
        there[:] = np.arange(there.size).reshape(there.shape) < count
    rows, columns = np.nonzero(there)
    values = rng.standard_normal((len(rows), b, b)).astype(drawn.dtype.numpy)
    return COOMatrix((m, k), rows, columns, values, (b, b)).to_csr()


def of_scipy(csr: CSRMatrix, x: Array) -> Array:
    """Return the product of `csr` and `x`, in float64."""
    from scipy.sparse import bsr_array

    parts = csr.values.astype(np.float64), csr.columns, csr.row_offsets
    found: Array = bsr_array(parts, shape=csr.shape) @ x.astype(np.float64)
    return found


def close(got: Array, want: Array, dtype: Any, sums: Any) -> bool:
    """Return whether two products agree, relative to the largest element or 1.

    The tolerance is 1e-5 for FLOAT, 2^-9 for HALF, and 2^-6 with sums in HALF.
    """
    within = 1e-5 if dtype is FLOAT else 2.0**-9 if sums is FLOAT else 2.0**-6
    most = max(1.0, float(np.abs(want).max(initial=0)))
    return got.shape == want.shape and bool(np.all(np.abs(got - want) <= within * most))


def spread(graph: Graph, dtype: Any, values: Array) -> Tensor:
    made = graph.add_variable(dtype, values.shape)
    poputil.map_tensor_linearly(graph, made)
    graph.set_initial_value(made, values)
    return made


def machine(drawn: Drawn) -> tuple[Graph, Sequence]:
    return Graph(IPUModel("ipu2", tiles_per_ipu=drawn.tiles).create_device()), Sequence()


def differs(drawn: Drawn, **how: Any) -> str:
    """Return how a product differs from scipy's, or ""."""
    return (_static if drawn.kind == "static" else _dynamic)(drawn, **how)


def _static(drawn: Drawn, **how: Any) -> str:
    """Check one pattern, planned or not, with two sets of values."""
    rng = np.random.default_rng(drawn.seed)
    csr = pattern(drawn, drawn.patterns[0], rng)
    x = rng.standard_normal(drawn.sizes[1:]).astype(drawn.dtype.numpy)
    graph, prog = machine(drawn)
    types = {"partials_type": drawn.sums}
    plan = static.plan_sparse_dense(csr, x.shape[1], graph.target, dtype=drawn.dtype, **types)
    if drawn.seed % 2:
        right = static.create_sparse_dense_mat_mul_rhs(graph, plan)
        graph.set_initial_value(right, x)
        values = static.create_sparse_dense_mat_mul_lhs(graph, plan)
        out = static.sparse_dense_mat_mul(graph, csr, values, right, prog, plan=plan)
    else:
        right, values = (spread(graph, drawn.dtype, a) for a in (x, csr.values))
        out = static.sparse_dense_mat_mul(graph, csr, values, right, prog, **types)
    graph.create_host_write("values", values)
    graph.create_host_read("out", out)
    engine = Engine(graph, prog, **how)
    engine.load(Device(graph.target))
    for turn in range(2):
        held = csr.with_values(csr.values * np.asarray(1 - 3 * turn, csr.values.dtype))
        engine.write_tensor("values", held.values)
        engine.run()
        got, want = engine.read_tensor("out"), of_scipy(held, x)
        if not close(got, want, drawn.dtype, drawn.sums):
            return f"run {turn} of {drawn}: {got.tolist()} in place of {want.tolist()}"
    return "" if not engine.report.unknown_codelets else f"{drawn} has vertices without a cost"


def _dynamic(drawn: Drawn, **how: Any) -> str:
    """Check several patterns in one engine: the product, its transpose, a layer's gradients."""
    rng = np.random.default_rng(drawn.seed)
    (m, k, n), dtype = drawn.sizes, drawn.dtype
    all_of_them = [pattern(drawn, kind, rng) for kind in drawn.patterns]
    most = max(1, *(csr.num_nz for csr in all_of_them))
    budget = dynamic.MatMulParams.create_with_num_non_zero_values(m, k, n, most, (drawn.b,) * 2)
    x, slope = (rng.standard_normal(s).astype(dtype.numpy) for s in ((k, n), (n, m)))
    graph, prog = machine(drawn)
    partitioner = dynamic.Partitioner(budget, dtype, graph.target)
    lhs = dynamic.create_sparse_dense_mat_mul_lhs(graph, dtype, budget)
    right = dynamic.create_sparse_dense_mat_mul_rhs(graph, dtype, budget)
    graph.set_initial_value(right, x)
    slopes = spread(graph, dtype, slope)
    made = {
        "out": dynamic.sparse_dense_mat_mul(graph, lhs, right, prog),
        "turned": dynamic.sparse_dense_mat_mul(graph, lhs, slopes.T, prog, transpose_lhs=True),
        "forward": dynamic.fully_connected_fwd(graph, lhs, right.T, prog),
        "grad a": dynamic.fully_connected_grad_a(graph, lhs, slopes, prog),
        "grad w": dynamic.fully_connected_sparse_grad_w(graph, lhs, slopes, right.T, prog),
    }
    for name, tensor in made.items():
        graph.create_host_read(name, tensor)
    graph.create_host_write("meta", lhs.meta_info)
    graph.create_host_write("values", lhs.nz_values)
    engine = Engine(graph, prog, **how)
    engine.load(Device(graph.target))
    for csr in all_of_them:
        data = partitioner.encode(csr)
        engine.write_tensor("meta", data.meta_info)
        engine.write_tensor("values", data.nz_values)
        engine.run()
        got = {name: engine.read_tensor(name) for name in made}
        got["grad w"] = partitioner.decode(data.meta_info, got["grad w"]).to_dense()
        mask = csr.with_values(np.ones_like(csr.values)).to_dense() != 0
        out, turned = of_scipy(csr, x), csr.to_dense().T.astype(np.float64) @ slope.T
        whole = slope.T.astype(np.float64) @ x.T.astype(np.float64)
        want = {"out": out, "turned": turned, "forward": out.T, "grad a": turned.T}
        for name, values in {**want, "grad w": np.where(mask, whole, 0)}.items():
            if not close(got[name], values, dtype, FLOAT):
                return f"{name} of {csr} in {drawn}: {got[name].tolist()}, not {values.tolist()}"
        if not np.array_equal(partitioner.decode(*data).to_dense(), csr.to_dense()):
            return f"{csr} of {drawn} is not what was decoded"
    return "" if not engine.report.unknown_codelets else f"{drawn} has vertices without a cost"
