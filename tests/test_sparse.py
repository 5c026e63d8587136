"""Sparse products: values beside scipy's, plans and costs beside formulas by hand, ten patterns
through one engine, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzz import sparse as drawing

from bench import sparse as bench_sparse
from ipu_teach import FLOAT, HALF, Device, Engine, Graph, IPUModel
from ipu_teach.cost.vertices import popsparse as vertex_costs
from ipu_teach.engine.executable import compile_graph
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import poputil
from ipu_teach.poplibs.popsparse import COOMatrix, CSRMatrix, dynamic, static
from ipu_teach.poplibs.popsparse.static_plan import expected
from ipu_teach.program import Sequence
from ipu_teach.types import Array
from validation import sparse as golden

BLOCK = (4, 4)


def blocks(shape: tuple[int, int], density: float, seed: int = 0, block: Any = BLOCK) -> CSRMatrix:
    rng = np.random.default_rng(seed)
    rows, columns = np.nonzero(rng.random((shape[0] // block[0], shape[1] // block[1])) < density)
    values = rng.standard_normal((len(rows), *block)).astype(np.float32)
    return COOMatrix(shape, rows, columns, values, block).to_csr()


@pytest.mark.parametrize("seed", [1, 4, 6, 11, 20, 41])
def test_a_random_product_is_scipys(seed: int) -> None:
    assert drawing.differs(drawing.draw(seed)) == ""


def test_containers_hold_what_scipy_holds() -> None:
    from scipy.sparse import bsr_array

    dense = blocks((12, 20), 0.4).to_dense()
    csr, other = CSRMatrix.from_dense(dense, BLOCK), bsr_array(dense, blocksize=BLOCK)
    other.sort_indices()
    assert np.array_equal(csr.row_offsets, other.indptr)
    assert np.array_equal(csr.columns, other.indices) and np.array_equal(csr.values, other.data)
    coo = csr.to_coo()
    assert coo.same_pattern(csr) and np.array_equal(coo.to_csr().to_dense(), dense)
    assert csr.density == other.nnz / dense.size and csr.num_nz == other.nnz
    assert (
        repr(csr)
        == f"CSRMatrix(12 x 20, {csr.num_blocks} blocks of 4 x 4, density {csr.density:.4g})"
    )
    wide = COOMatrix.from_dense(np.arange(12).reshape(2, 6), (1, 3))
    assert wide.num_blocks == 4 and wide.values[0].tolist() == [[0, 1, 2]]


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: COOMatrix((8, 8), [0, 0], [1, 1], np.zeros((2, 4, 4)), BLOCK),
        "COOMatrix() was given the block in row 0, column 1 twice.",
    ),
    (
        lambda: COOMatrix((8, 8), [1, 0], [0, 1], np.zeros((2, 4, 4)), BLOCK),
        "COOMatrix() was given the block in row 0, column 1 after the block in row 1, column 0.",
    ),
    (
        lambda: CSRMatrix((8, 8), [0, 2, 2], [1, 0], np.zeros((2, 4, 4)), BLOCK),
        "CSRMatrix() was given the block in row 0, column 0 after the block in row 0, column 1.",
    ),
    (
        lambda: COOMatrix((8, 10), [0], [1], np.zeros((1, 4, 4)), BLOCK),
        "COOMatrix() was given the shape (8, 10) in blocks of 4 x 4, which do not divide it.",
    ),
    (lambda: COOMatrix((8, 8), [0], [2], np.zeros((1, 4, 4)), BLOCK), "a block in column 2"),
    (lambda: COOMatrix((8, 8), [0], [1], np.zeros((1, 4, 3)), BLOCK), "of shape (1, 4, 3)"),
    (lambda: COOMatrix((8, 8), [0], [1], ["a"]), "give an array of numbers"),
    (
        lambda: COOMatrix((8, 8), [0.5], [1], [1.0]),
        "give a one-dimensional array of whole numbers.",
    ),
    (
        lambda: COOMatrix((8, 8), [0, 1], [1], [1.0]),
        "row numbers for 2 blocks, but column numbers for 1.",
    ),
    (
        lambda: CSRMatrix((2, 2), [0, 2, 1], [0], [1.0]),
        "give 3 numbers that begin with 0, never decrease",
    ),
    (
        lambda: COOMatrix((8, 8), [0], [1], [1.0], 4),
        "give the numbers of rows and columns, as in (16, 16).",
    ),
    (
        lambda: COOMatrix((8,), [0], [1], [1.0]),
        "give the numbers of rows and columns, as in (4096, 4096).",
    ),
    (lambda: dynamic.MatMulParams.create_with_nz_ratio(8, 8, 2, 0.0), "above 0 and up to 1"),
    (
        lambda: dynamic.MatMulParams.create_with_nz_ratio(8, 9, 2, 0.5, BLOCK),
        "8 x 9, which cannot be divided into blocks of 4 x 4",
    ),
    (lambda: dynamic.MatMulParams.create_with_nz_ratio(8, 0, 2, 0.5), "as k."),
    (
        lambda: dynamic.MatMulParams.create_with_num_non_zero_values(8, 8, 2, 65),
        "give a whole number from 1 to 64.",
    ),
    (
        lambda: dynamic.MatMulParams.create_with_nz_ratio(6, 6, 2, 0.5, (2, 2)),
        "multiplies blocks of 1 x 1, 4 x 4, 8 x 8, 16 x 16, but was given 2 x 2.",
    ),
]


@pytest.mark.parametrize(("call", "says"), REFUSED)
def test_what_is_no_matrix_is_refused(call: Callable[[], Any], says: str) -> None:
    with pytest.raises(PoplibsError) as caught:
        call()
    assert says in str(caught.value) and "next:" in str(caught.value)


def machine(tiles: int = 13) -> tuple[Graph, Sequence]:
    return Graph(IPUModel("ipu2", tiles_per_ipu=tiles).create_device()), Sequence()


def test_a_static_product_refuses_another_pattern_and_names_the_dynamic_one() -> None:
    graph, prog = machine()
    csr, other = blocks((16, 24), 0.5), blocks((16, 24), 0.5, seed=1)
    plan = static.plan_sparse_dense(csr, 5, graph.target)
    left = static.create_sparse_dense_mat_mul_lhs(graph, plan)
    right = static.create_sparse_dense_mat_mul_rhs(graph, plan)

    def refusal(*args: Any, **options: Any) -> str:
        with pytest.raises(PoplibsError) as caught:
            static.sparse_dense_mat_mul(graph, *args, prog, **options)
        return " ".join(str(caught.value).split())

    assert refusal(other, left, right, plan=plan) == (
        f"sparse_dense_mat_mul() was given {other}, but its plan is for another pattern: {csr}. "
        "next: plan this pattern and build a new graph, because a static product is compiled for "
        "one pattern; popsparse.dynamic.sparse_dense_mat_mul accepts any pattern."
    )
    assert re.fullmatch(
        rf"SparsePlan\(\[16, 24\] x \[24, 5\], FLOAT, {csr.num_blocks} blocks on \d+ of 13 tiles: "
        rf"columns in {len(plan.parts)}, {plan.num_bands} bands; {plan.cycles:,} modelled cycles, "
        r"[\d,]+ bytes for a while\)",
        repr(plan),
    )
    assert "give a CSRMatrix; a COOMatrix has to_csr()." in refusal(csr.to_coo(), left, right)
    assert "two shapes of x that differ: (20, 5) and (24, 5)" in refusal(csr, left, right[:20])
    assert "two shapes of values" in refusal(csr, left[1:], right, plan=plan)
    assert "use FLOAT." in refusal(csr, left, right, partials_type=HALF)
    assert "static.plan_sparse_dense returns" in refusal(csr, left, right, plan=3)
    far = static.plan_sparse_dense(csr, 5, machine(14)[0].target)
    assert "was given a plan for 14 tiles, but the graph has 13." in refusal(
        csr, left, right, plan=far
    )
    halves = static.plan_sparse_dense(csr, 5, graph.target, dtype=HALF)
    assert "dtypes of values" in refusal(csr, left, right, plan=halves)
    assert graph.num_vertices == 0  # all of a call is checked before anything is added
    with pytest.raises(PoplibsError, match="give a number from 0 to 1"):
        static.plan_sparse_dense(csr, 5, graph.target, available_memory_proportion=2)
    with pytest.raises(PoplibsError, match="multiplies blocks of"):
        static.plan_sparse_dense(blocks((4, 4), 1, block=(2, 2)), 5, graph.target)


class Trained:
    """A dynamic layer: [m, k] weights of blocks, a batch of n, and an engine that runs forward."""

    def __init__(self, shape: tuple[int, int], n: int, budget: float, tiles: int = 13) -> None:
        self.graph, prog = machine(tiles)
        sizes = *shape, n, budget
        self.params = dynamic.MatMulParams.create_with_nz_ratio(*sizes, BLOCK)
        self.partitioner = dynamic.Partitioner(self.params, FLOAT, self.graph.target)
        self.lhs = dynamic.create_sparse_dense_mat_mul_lhs(self.graph, FLOAT, self.params)
        self.x = self.graph.add_variable(FLOAT, (shape[1], n), "x")
        poputil.map_tensor_linearly(self.graph, self.x)
        self.held = np.random.default_rng(3).standard_normal(self.x.shape).astype(np.float32)
        self.graph.set_initial_value(self.x, self.held)
        out = dynamic.sparse_dense_mat_mul(self.graph, self.lhs, self.x, prog)
        self.graph.create_host_read("out", out)
        self.graph.create_host_write("meta", self.lhs.meta_info)
        self.graph.create_host_write("values", self.lhs.nz_values)
        self.engine = Engine(self.graph, prog)
        self.engine.load(Device(self.graph.target))

    def run(self, csr: CSRMatrix) -> tuple[Array, int, int]:
        """What comes out, the steps that the host counted, and the modelled cycles."""
        data, before = self.partitioner.encode(csr), self.engine.report.total_cycles
        self.engine.write_tensor("meta", data.meta_info)
        self.engine.write_tensor("values", data.nz_values)
        self.engine.run()
        return self.engine.read_tensor("out"), data.rounds, self.engine.report.total_cycles - before


def test_ten_patterns_go_through_one_engine_and_each_step_costs_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = []
    monkeypatch.setattr(
        "ipu_teach.engine.engine.compile_graph",
        lambda *given, **how: compiled.append(given) or compile_graph(*given, **how),
    )
    layer = Trained((48, 64), 6, 0.25)
    costs: dict[int, set[int]] = {}
    for seed in range(9):
        csr = blocks((48, 64), 0.02 + 0.02 * seed, seed)
        out, rounds, cycles = layer.run(csr)
        np.testing.assert_allclose(out, drawing.of_scipy(csr, layer.held), atol=1e-5)
        costs.setdefault(rounds, set()).add(cycles)
    heap = np.zeros((12, 16), bool)
    heap.flat[: layer.params.num_blocks] = True
    full = CSRMatrix.from_dense(np.kron(heap, np.ones(BLOCK)).astype(np.float32), BLOCK)
    out, rounds, cycles = layer.run(full)
    np.testing.assert_allclose(out, drawing.of_scipy(full, layer.held), atol=1e-5)
    costs.setdefault(rounds, set()).add(cycles)
    assert len(compiled) == 1 and rounds == max(costs) > 1 and 0 in costs
    assert all(len(same) == 1 for same in costs.values())  # steps alone decide
    of = {steps: cycles for steps, (cycles,) in costs.items()}
    each = (of[rounds] - of[0]) / rounds
    assert all(cycles == pytest.approx(of[0] + each * s) for s, cycles in of.items())


def test_what_a_bucket_cannot_hold_spills_to_the_nearest_behind_it() -> None:
    layer = Trained((48, 64), 6, 0.25)
    cut = layer.partitioner.cut
    assert cut.num_buckets > 4
    even = -(-layer.params.num_blocks // cut.num_buckets)
    assert even < cut.slots <= -(-layer.params.num_blocks * 13 // (10 * cut.num_buckets))
    (r0, r1), (c0, c1) = cut.rows[0], cut.columns[0]
    there = np.zeros((12, 16), bool)
    there[r0:r1, c0:c1] = True
    csr = CSRMatrix.from_dense(np.kron(there, np.ones(BLOCK)), BLOCK)
    found = layer.partitioner.buckets(csr)
    left, steps = csr.num_blocks - cut.slots, 0
    assert found[0].own == cut.slots and found[0].spilled == 0
    while left > 0:  # the last bucket is behind the first one
        steps += 1
        assert found[-steps].held == ((0, min(left, cut.slots)),)
        assert found[-steps].spilled == min(left, cut.slots) and found[-steps].own == 0
        left -= cut.slots
    data = layer.partitioner.encode(csr)
    assert data.rounds == steps > 0 and [b.number for b in found] == list(range(cut.num_buckets))
    assert layer.partitioner.decode(*data).same_pattern(csr)
    assert [b.tile for b in found] == cut.tiles[:, 0].tolist()


def test_what_a_partitioner_does_not_take_is_refused() -> None:
    layer = Trained((16, 16), 2, 0.25)
    for csr, says in (
        (blocks((16, 16), 1), "encode() was given 16 blocks; the parameters allow 4."),
        (blocks((16, 20), 0.1), "but its parameters are for 16 x 16 in blocks of 4 x 4."),
        (blocks((16, 16), 0.1, block=(8, 8)), "in blocks of 4 x 4."),
    ):
        with pytest.raises(PoplibsError) as caught:
            layer.partitioner.encode(csr)
        assert says in " ".join(str(caught.value).split())
    with pytest.raises(PoplibsError, match="nz_values for 8 slots, as encode"):
        layer.partitioner.decode(np.zeros(3), np.zeros(4))
    with pytest.raises(PoplibsError, match="MatMulParams.create_with_nz_ratio"):
        dynamic.Partitioner(3, FLOAT, layer.graph.target)  # type: ignore[arg-type]
    tall = dynamic.MatMulParams.create_with_num_non_zero_values(70_000, 1, 1, 9)
    with pytest.raises(PoplibsError, match="use more tiles, or larger blocks"):
        dynamic.Partitioner(tall, FLOAT, machine(1)[0].target)
    prog = Sequence()
    with pytest.raises(PoplibsError, match=r"give a result of create_sparse_dense_mat_mul_lhs\."):
        dynamic.sparse_dense_mat_mul(layer.graph, layer.x, layer.x, prog)  # type: ignore[arg-type]
    with pytest.raises(PoplibsError, match=r"\(16, 1\) and \(16, 2\)"):
        dynamic.sparse_dense_mat_mul(layer.graph, layer.lhs, layer.x[:, :1], prog)
    with pytest.raises(PoplibsError, match="two shapes of activations"):
        slopes = layer.x.T
        dynamic.fully_connected_sparse_grad_w(layer.graph, layer.lhs, slopes, layer.x, prog)


def test_vertices_cost_what_poplibs_says() -> None:
    target = machine()[0].target
    cost = vertex_costs.static_product
    # 3 rows, 2 blocks in each, 12 columns, two for a worker: StaticMatMulPartitioner.cpp by hand
    assert cost(3, 6, 12, 16, HALF, target) == 30 + 13 * 6 + 3 * (6 + 17 + 2 * (16 + 64 + 6 * 23))
    assert cost(3, 6, 12, 16, FLOAT, target) == (
        30 + 16 * 6 + 3 * (24 + 17 + 2 * (16 + 128 + 6 * 2 * (37 + 8)))
    )
    assert cost(3, 6, 12, 4, HALF, target) == 30 + 17 * 6 + 3 * (23 + 2 * (16 + 4 + 6 * 9))
    assert cost(13, 26, 20, 1, HALF, target) == 6 * (33 + 3 * (11 + 2 * (14 + 3) + 9 + 2))
    assert cost(13, 26, 4, 1, FLOAT, target) == 6 * (30 + 3 * (6 + 3))
    assert vertex_costs.zeroing(600, FLOAT, target) == 6 * (12 + 50)
    assert vertex_costs.static_reduction(96, 3, FLOAT, FLOAT, target) == (16 + 4 * 13) * 6
    types = (HALF, FLOAT)  # two loads of a block, as there are 8 units for sums of FLOAT
    assert vertex_costs.dynamic_product(3, 6, 12, 16, types, target) == (
        40 + 46 + 56 + 3 + 2 + 6 * (64 + 3 + 24) + 6 * (26 + 6 * 2 * (24 + 4 * 2 - 3))
    )
    assert vertex_costs.dynamic_product(12, 24, 8, 1, types, target) == (
        30 + 44 + 46 + 6 * (25 + 2 * (15 + 3 * 2))
    )
    many = np.array([3, 4]), np.array([6, 6]), np.array([12, 13])
    for block in vertex_costs.BLOCKS:
        for dtype in (FLOAT, HALF):
            both = cost(*many, block, dtype, target)
            assert list(both) == [
                cost(3, 6, 12, block, dtype, target),
                cost(4, 6, 13, block, dtype, target),
            ]


def test_a_plan_costs_what_its_graph_does() -> None:
    engine, _, _ = bench_sparse.product()
    engine.run()
    planned = expected((4096, 4096, 256), 16, 4096, (FLOAT, FLOAT), engine.report.target)
    assert engine.report.total_cycles == pytest.approx(planned.cycles, rel=0.15)


def test_where_sparse_overtakes_dense_is_where_it_was_measured() -> None:
    """Read off the published charts, HALF on 4,096: single values between 1/16 and 1/32, dynamic
    blocks of 16 at 1/4, just, and at 1/8; static ones are ahead at 1/4 already."""
    assert (
        golden.static_ratio(4096, 1, 1 / 16, HALF) < 1 < golden.static_ratio(4096, 1, 1 / 32, HALF)
    )
    assert golden.dynamic_ratio(16, 1 / 4, HALF)[0] == pytest.approx(55 / 57, rel=0.1)
    assert golden.dynamic_ratio(16, 1 / 8, HALF)[0] == pytest.approx(39 / 28, rel=0.1)
    assert golden.static_ratio(4096, 16, 1 / 4, HALF) > 1
