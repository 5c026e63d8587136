"""Matrix multiplication, with a plan: which tile multiplies which blocks, and how partial sums come together.

C = A B is cut into blocks of rows, of columns, and of the inner dimension. Each tile multiplies one block of A with one of B
on its AMP units. Where the inner dimension was cut, a second compute set adds the partial products, in order. The planner
tries cuts and takes the cheapest by the cost model.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.errors import PoplibsError
from ipu_teach.graph.graph import Graph
from ipu_teach.graph.tensor import Tensor
from ipu_teach.graph.vertex import Input, Output, SupervisorVertex, Vector
from ipu_teach.poplibs.popops import reduce_rows
from ipu_teach.poplibs.poputil import (
    balanced_partition,
    check_call,
    check_same,
    check_sizes,
    check_tensor,
    map_tensor_linearly,
)
from ipu_teach.program import Execute
from ipu_teach.program import Sequence as Program
from ipu_teach.target import Target
from ipu_teach.types import FLOAT

CANDIDATES = 24  # cuts tried in each dimension; more find plans a few per cent better and take seconds


class MatMulPartial(SupervisorVertex):
    """out = a @ b for one block of each, on the AMP units."""

    a: Input[Vector[Vector[FLOAT]]]
    b: Input[Vector[Vector[FLOAT]]]
    out: Output[Vector[Vector[FLOAT]]]

    def compute(self) -> None:
        self.out = self.a @ self.b

    def cycles(self, target: Target) -> int:
        return int(vertices.conv_partial_1x1(len(self.a), self.a.shape[1], self.out.shape[1], FLOAT, target))


MatMulPartial.__name__ = "poplin::ConvPartial1x1<float>"


@dataclass(frozen=True)
class MatMulPlan:
    """A plan for [m, k] x [k, n]: into how many blocks rows, inner dimension and columns are cut; modelled cycles."""

    m: int
    k: int
    n: int
    row_blocks: int
    inner_blocks: int
    column_blocks: int
    cycles: int

    @property
    def num_blocks(self) -> int:
        """Block products, one for each tile that works."""
        return self.row_blocks * self.inner_blocks * self.column_blocks

    def rows(self) -> list[tuple[int, int]]:
        """The (begin, end) of each block of rows of A and C."""
        return balanced_partition(self.m, self.row_blocks)

    def inner(self) -> list[tuple[int, int]]:
        """The (begin, end) of each block of columns of A, which are rows of B."""
        return balanced_partition(self.k, self.inner_blocks)

    def columns(self) -> list[tuple[int, int]]:
        """The (begin, end) of each block of columns of B and C."""
        return balanced_partition(self.n, self.column_blocks)


def plan_mat_mul(m: int, k: int, n: int, target: Target) -> MatMulPlan:
    """The cheapest plan found for a FLOAT product [m, k] x [k, n] on `target`."""
    check_sizes("plan_mat_mul", target, 1, m=m, k=k, n=n)
    best: MatMulPlan | None = None
    for rows, inner, columns in product(*(_cuts(size, target.num_tiles) for size in (m, k, n))):
        if rows * inner * columns <= target.num_tiles:
            cycles = _plan_cycles(m, k, n, rows, inner, columns, target)
            if best is None or cycles < best.cycles:
                best = MatMulPlan(m, k, n, rows, inner, columns, cycles)
    assert best is not None, "one block is always possible"
    return best


def _cuts(size: int, most: int) -> list[int]:
    """Numbers of blocks worth trying: the fewest for each block size, thinned out evenly in their logarithm."""
    all_cuts = sorted({-(-size // -(-size // parts)) for parts in range(1, min(size, most) + 1)})
    if len(all_cuts) <= CANDIDATES:
        return all_cuts
    places = np.linspace(0, np.log(all_cuts[-1]), CANDIDATES)
    nearest = np.searchsorted(np.log(all_cuts), places)
    return sorted({all_cuts[min(i, len(all_cuts) - 1)] for i in nearest.tolist()})


def _plan_cycles(m: int, k: int, n: int, rows: int, inner: int, columns: int, target: Target) -> int:
    """Modelled cycles of a plan, as if every block of A and B came from another tile."""
    bm, bk, bn = -(-m // rows), -(-k // inner), -(-n // columns)
    cycles = int(exchange_cycles((bm * bk + bk * bn) * FLOAT.size, target))
    cycles += int(vertices.conv_partial_1x1(bm, bk, bn, FLOAT, target))
    if inner > 1:
        outputs = max(-(-m * n // target.num_tiles), min(m * n, 32))  # what the linear mapping puts on a tile
        cycles += int(exchange_cycles(outputs * inner * FLOAT.size, target)) + target.internal_sync_cycles
        cycles += int(vertices.conv_reduce(outputs, inner, FLOAT, target))
    return cycles


def mat_mul(graph: Graph, a: Tensor, b: Tensor, prog: Program, debug_context: str = "mat_mul") -> Tensor:
    """The matrix product of a [m, k] and b [k, n], FLOAT; the plan is `plan_mat_mul(m, k, n, graph.target)`.

    The value of each block is numpy's `a_block @ b_block`; partial products are added first to last. The result lies on
    the tiles that made it, or is mapped linearly if there were partial sums.
    """
    check_call("mat_mul", graph, prog, debug_context)
    for name, tensor in (("a", a), ("b", b)):
        check_tensor("mat_mul", graph, name, tensor, (2,))
        if tensor.dtype is not FLOAT:
            raise PoplibsError(
                f"mat_mul() multiplies FLOAT; {name} is {tensor.dtype.__name__}.",
                where=repr(tensor),
                next_step="cast it with popops.cast.",
            )
        if tensor.num_elements == 0:
            raise PoplibsError(
                f"mat_mul() was given no elements in {name}.", where=repr(tensor), next_step="give a row and a column or more."
            )
    advice = "a has as many columns as b has rows; perhaps one of them is to be transposed."
    check_same("mat_mul", "inner dimensions", a.shape[1], b.shape[0], f"{a!r} and {b!r}", advice)
    plan = plan_mat_mul(a.shape[0], a.shape[1], b.shape[1], graph.target)
    shape = (plan.inner_blocks, plan.m, plan.n)
    partials = graph.add_variable(FLOAT, shape, f"{debug_context}/{'out' if plan.inner_blocks == 1 else 'partials'}")
    _multiply(graph, plan, a, b, partials, prog, debug_context)
    if plan.inner_blocks == 1:
        return partials[0]
    out = graph.add_variable(FLOAT, (plan.m, plan.n), f"{debug_context}/out")
    map_tensor_linearly(graph, out)
    rows = partials.reshape((plan.inner_blocks, plan.m * plan.n))
    reduce_rows(graph, rows, out, prog, "ADD", f"{debug_context}/reduce")
    return out


def _multiply(graph: Graph, plan: MatMulPlan, a: Tensor, b: Tensor, partials: Tensor, prog: Program, name: str) -> None:
    """One vertex for each block product, spread evenly over the tiles, each block of the result on its vertex's tile."""
    compute_set = graph.add_compute_set(f"{name}/multiply")
    blocks = product(plan.rows(), plan.columns(), enumerate(plan.inner()))
    for number, ((r0, r1), (c0, c1), (i, (k0, k1))) in enumerate(blocks):
        tile = number * graph.target.num_tiles // plan.num_blocks
        out = partials[i, r0:r1, c0:c1]
        vertex = graph.add_vertex(compute_set, MatMulPartial, a=a[r0:r1, k0:k1], b=b[k0:k1, c0:c1], out=out)
        graph.set_tile_mapping(vertex, tile)
        graph.set_tile_mapping(out, tile)
    prog.add(Execute(compute_set))
