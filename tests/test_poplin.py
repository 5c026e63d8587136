"""Matrix products of every type, their plans, and transposes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st
from libraries import both_ways, run, torch, ulps_of_half, value

from ipu_teach import FLOAT, HALF, INT, QUARTER, Graph, IPUModel, QuarterFormat, Tensor
from ipu_teach.cost import vertices
from ipu_teach.errors import (
    InvalidOptionError,
    InvalidTileMappingError,
    IPUTeachError,
    PoplibsError,
)
from ipu_teach.poplibs import poplin, poputil
from ipu_teach.poplibs.poplin.operands import map_blocks
from ipu_teach.program import Sequence
from ipu_teach.report import Report
from ipu_teach.target import Target
from ipu_teach.types import Array, DType, from_quarter, to_quarter
from validation.programs import profile

RANDOMLY = settings(
    deadline=None, derandomize=True, max_examples=25, suppress_health_check=list(HealthCheck)
)
SIZES = st.sampled_from([1, 2, 3, 7, 13, 16, 31, 40])
TINY = 0.0005  # of a tile: products are cut into steps


def target_of(tiles: int, **changes: Any) -> Target:
    return IPUModel("ipu2", tiles_per_ipu=tiles, **changes).create_device().target


def operands(m: int, k: int, n: int, dtype: type[DType], seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((m, k)).astype(dtype.numpy), rng.standard_normal((k, n)).astype(
        dtype.numpy
    )


def product_of(**options: Any) -> Any:
    return lambda graph, prog, a, b: poplin.mat_mul(graph, a, b, prog, **options)


# --- values ---------------------------------------------------------------------------------------


@RANDOMLY
@given(
    SIZES,
    SIZES,
    SIZES,
    st.sampled_from([1, 5, 60]),
    st.sampled_from([0.6, TINY]),
    st.integers(0, 99),
)
@example(4, 128, 32, 5, TINY, 0)  # a piece of the inner dimension after the other
def test_halves_added_in_single_precision_round_once(
    m: int, k: int, n: int, tiles: int, memory: float, seed: int
) -> None:
    a, b = operands(m, k, n, HALF, seed)
    options = {"available_memory_proportion": memory}
    wide = both_ways(product_of(out_type=FLOAT, **options), (a, HALF), (b, HALF), tiles=tiles)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert np.all(np.abs(wide - wanted) <= k * 2.0**-23 * scale)
    narrow = both_ways(product_of(**options), (a, HALF), (b, HALF), tiles=tiles)
    assert narrow.dtype == np.float16
    np.testing.assert_array_equal(narrow, wide.astype(np.float16))


def sums_of_halves(a: Array, b: Array, plan: poplin.MatMulPlan, panel: int) -> Array:
    """The product as the units make it with sums of HALF, one element at a time from float64."""
    out = np.zeros((plan.m, plan.n), np.float16)
    for i, j in np.ndindex(out.shape):
        blocks = []
        for number in range(plan.inner_blocks):
            total = np.float64(0)
            for step in range(plan.inner_steps):
                begin, end = plan.inner(step)[number]
                for low in range(begin, end, panel):
                    high = min(low + panel, end)
                    total = np.float64(np.float16(total + a[i, low:high] @ b[low:high, j]))
            blocks.append(total)
        whole = blocks[0]
        for part in blocks[1:]:
            whole = np.float64(np.float16(whole + part))
        out[i, j] = whole
    return out


@pytest.mark.parametrize(
    ("m", "k", "n", "tiles", "memory"),
    [(3, 100, 5, 1, 0.6), (7, 97, 3, 13, 0.6), (4, 128, 32, 5, TINY)],
)
def test_sums_of_half_round_after_every_panel(
    m: int, k: int, n: int, tiles: int, memory: float
) -> None:
    a, b = operands(m, k, n, HALF)
    got = both_ways(
        product_of(partials_type=HALF, available_memory_proportion=memory),
        (a, HALF),
        (b, HALF),
        tiles=tiles,
    )
    plan = poplin.plan_mat_mul(
        m,
        k,
        n,
        target_of(tiles),
        dtype=HALF,
        partials_type=HALF,
        available_memory_proportion=memory,
    )
    wanted = sums_of_halves(a.astype(np.float64), b.astype(np.float64), plan, 16)
    away = ulps_of_half(got, wanted.astype(np.float64))
    # within a panel single precision may round another way than double
    assert away.max() <= 1 and np.mean(away == 0) > 0.98


def test_a_long_sum_of_halves_stands_still_and_one_in_single_precision_does_not() -> None:
    ones, column = np.ones((1, 8192)), np.ones((8192, 1))
    short = value(product_of(partials_type=HALF), (ones, HALF), (column * 0.25, HALF), tiles=1)
    long = value(product_of(partials_type=FLOAT), (ones, HALF), (column * 0.25, HALF), tiles=1)
    assert long == 2048 and short == 2048
    # From 8,192 on halves are 8 apart: a panel of sixteen quarters, 4, is lost.
    start = np.concatenate([np.full((1, 1), 8192.0), np.ones((1, 8191))], axis=1)
    assert (
        value(
            product_of(partials_type="half"),
            (start, HALF),
            (np.minimum(column, 0.25), HALF),
            tiles=1,
        )
        == 4096
    )
    weights = np.concatenate([np.ones((1, 1)), np.full((8191, 1), 0.25)])
    assert value(product_of(partials_type="half"), (start, HALF), (weights, HALF), tiles=1) == 8192
    assert value(product_of(), (start, HALF), (weights, HALF), tiles=1) == 8192 + 2048


@pytest.mark.parametrize("formats", [("F143", "F143"), ("F143", "F152"), ("F152", "F152")])
@pytest.mark.parametrize("memory", [0.6, TINY])
def test_eight_bit_operands_with_scales(formats: tuple[str, str], memory: float) -> None:
    left, right = (
        QUARTER[QuarterFormat[f], scale] for f, scale in zip(formats, (-2, 1), strict=True)
    )
    rng = np.random.default_rng(4)
    a, b = (
        to_quarter(rng.standard_normal((6, 70)), left.metadata),
        to_quarter(rng.standard_normal((70, 40)), right.metadata),
    )
    build = product_of(available_memory_proportion=memory)
    got = both_ways(build, (a, left), (b, right), tiles=3)
    wide = [from_quarter(x, t.metadata).astype(np.float64) for x, t in ((a, left), (b, right))]
    plan = poplin.plan_mat_mul(
        6, 70, 40, target_of(3), dtype=left, available_memory_proportion=memory
    )
    away = ulps_of_half(got, sums_of_halves(*wide, plan, 32).astype(np.float64))
    assert got.dtype == np.float16 and away.max() <= 1 and np.mean(away == 0) > 0.98
    narrow = np.abs(got - wide[0] @ wide[1]) / (np.abs(wide[0]) @ np.abs(wide[1]))
    assert narrow.max() < 2.0**-8


@RANDOMLY
@given(
    st.integers(1, 5),
    SIZES,
    SIZES,
    SIZES,
    st.sampled_from([1, 13, 60]),
    st.sampled_from([FLOAT, HALF]),
)
def test_groups_are_products_of_their_own(
    groups: int, m: int, k: int, n: int, tiles: int, dtype: type[DType]
) -> None:
    rng = np.random.default_rng(groups)
    a, b = (
        rng.standard_normal(shape).astype(dtype.numpy) for shape in ((groups, m, k), (groups, k, n))
    )

    def build(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> Tensor:
        return poplin.mat_mul_grouped(graph, x, y, prog, out_type=FLOAT)

    got = both_ways(build, (a, dtype), (b, dtype), tiles=tiles)
    wide = a.astype(np.float64), b.astype(np.float64)
    assert np.all(
        np.abs(got - wide[0] @ wide[1]) <= k * 2.0**-23 * (np.abs(wide[0]) @ np.abs(wide[1]))
    )


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_accumulating_adds_the_scaled_product(dtype: type[DType]) -> None:
    a, b = operands(7, 20, 5, dtype)
    c = np.random.default_rng(1).standard_normal((7, 5)).astype(dtype.numpy)

    def build(graph: Graph, prog: Sequence, z: Tensor, x: Tensor, y: Tensor) -> Tensor:
        poplin.mat_mul_acc(graph, z, -0.5, x, y, prog)
        return z

    got = value(build, (c, dtype), (a, dtype), (b, dtype))
    wanted = c.astype(np.float64) - 0.5 * (a.astype(np.float64) @ b.astype(np.float64))
    np.testing.assert_allclose(got, wanted, atol=1e-5 if dtype is FLOAT else 8e-3)


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_products_equal_those_of_torch(dtype: type[DType]) -> None:
    library = torch()
    a, b = operands(33, 70, 21, dtype)
    got = value(product_of(), (a, dtype), (b, dtype))
    wanted = (library.from_numpy(a) @ library.from_numpy(b)).numpy()
    np.testing.assert_allclose(
        got, wanted, rtol=1e-5 if dtype is FLOAT else 2e-3, atol=1e-5 if dtype is FLOAT else 1e-2
    )


def test_sums_that_become_halves_round_by_chance_where_the_engine_does() -> None:
    a, b = np.ones((40, 1)), np.full((1, 50), 1 + 2.0**-12)
    options = {"prng.enableStochasticRounding": True, "prng.seed": 3}
    got = value(product_of(out_type=HALF), (a, FLOAT), (b, FLOAT), options=options).astype(
        np.float64
    )
    assert set(got.reshape(-1)) == {1, 1 + 2.0**-10}
    share = np.mean(got > 1)
    assert abs(share - 0.25) < 4 * np.sqrt(0.25 * 0.75 / got.size)


@RANDOMLY
@given(
    st.integers(0, 40),
    st.integers(0, 40),
    st.sampled_from([1, 13, 60]),
    st.sampled_from([FLOAT, HALF, INT]),
)
def test_transposes_move_every_element(m: int, n: int, tiles: int, dtype: type[DType]) -> None:
    x = np.arange(m * n).reshape(m, n).astype(dtype.numpy)
    got = both_ways(
        lambda graph, prog, t: poplin.transpose(graph, t, prog), (x, dtype), tiles=tiles
    )
    np.testing.assert_array_equal(got, x.T)


# --- plans ----------------------------------------------------------------------------------------


def every_cut(
    m: int, k: int, n: int, tiles: int, method: str
) -> Iterator[tuple[int, int, int, str]]:
    for rows, inner, columns in product(range(1, m + 1), range(1, k + 1), range(1, n + 1)):
        if rows * inner * columns <= tiles:
            yield rows, inner, columns, method


def built(plan: poplin.MatMulPlan, dtype: type[DType], made: bool, tiles: int) -> float:
    """Modelled cycles of the graph of a plan; its operands laid out for it, or spread over all
    tiles."""
    a, b = operands(plan.m, plan.k, plan.n, dtype)

    def build(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> Tensor:
        for tensor, side in ((x, "a"), (y, "b")):
            if made:
                map_blocks(graph, plan, tensor.expand((0,)), side)
            else:
                poputil.map_tensor_linearly(graph, tensor, 1, 1)
        return poplin.mat_mul(graph, x, y, prog, plan=plan)

    return run(build, (a, dtype), (b, dtype), tiles=tiles)[1].total_cycles


@pytest.mark.parametrize("shape", [(4, 8, 4), (3, 40, 2), (12, 2, 5)])
@pytest.mark.parametrize("tiles", [2, 6])
@pytest.mark.parametrize(("made", "dtype"), [(True, FLOAT), (True, HALF), (False, FLOAT)])
def test_no_plan_that_is_built_and_costed_is_much_better(
    shape: tuple[int, int, int], tiles: int, made: bool, dtype: type[DType]
) -> None:
    """All cuts, with both methods, each as a graph whose report costs it: nothing here asks the
    planner's own costs."""
    chosen = poplin.plan_mat_mul(*shape, target_of(tiles), dtype=dtype)
    small = [min(size, tiles) for size in shape]
    costs = [
        built(
            replace(
                chosen, row_blocks=rows, inner_blocks=inner, column_blocks=columns, method=method
            ),
            dtype,
            made,
            tiles,
        )
        for method in ("AMP", "HMAC")
        for rows, inner, columns, _ in every_cut(*small, tiles, method)
    ]
    assert built(chosen, dtype, made, tiles) <= 1.15 * min(costs)


@pytest.mark.parametrize(
    "shape", [(8, 8, 8), (50, 784, 10), (13, 97, 31), (128, 128, 128), (1, 500, 200)]
)
@pytest.mark.parametrize("tiles", [4, 13, 64])
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_a_plan_promises_what_its_graph_costs(
    shape: tuple[int, int, int], tiles: int, dtype: type[DType]
) -> None:
    plan = poplin.plan_mat_mul(*shape, target_of(tiles), dtype=dtype)
    assert 0.6 * plan.cycles < built(plan, dtype, False, tiles) < 1.05 * plan.cycles
    assert 0.5 * plan.cycles < built(plan, dtype, True, tiles) < 1.05 * plan.cycles


PASSES = ("forward", "input gradient", "weight gradient")
SLACK = 50  # cycles of a superstep: a few words from many senders


def layer_pass(
    kind: str, sizes: tuple[int, int, int], target: Target, dtype: type[DType], made: bool
) -> tuple[poplin.MatMulPlan, Report]:
    """The plan of a pass of a fully connected layer (batch, ins, outs), and the report of its graph.

    The operands are where the forward pass wants them, or spread over all tiles.
    """
    batch, ins, outs = sizes
    graph, prog = Graph(target), Sequence()
    shapes = (batch, ins), (ins, outs)
    if made:
        x = poplin.create_mat_mul_input_lhs(graph, dtype, *shapes)
        w = poplin.create_mat_mul_input_rhs(graph, dtype, *shapes)
        dy = poplin.create_mat_mul_output(graph, dtype, *shapes)
    else:
        x, w, dy = (graph.add_variable(dtype, shape) for shape in (*shapes, (batch, outs)))
        for tensor in (x, w, dy):
            poputil.map_tensor_linearly(graph, tensor)
    a, b, flags = {
        "forward": (x, w, (False, False)),
        "input gradient": (dy, w.transpose(), (False, True)),
        "weight gradient": (x.transpose(), dy, (True, False)),
    }[kind]
    size = a.shape[0], a.shape[1], b.shape[1]
    plan = poplin.plan_mat_mul(
        *size, target, dtype=dtype, transpose_a=flags[0], transpose_b=flags[1]
    )
    poplin.mat_mul(graph, a, b, prog)
    return plan, profile(graph, prog)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_plans_of_all_three_passes_promise_what_their_graphs_cost(
    seed: int, dtype: type[DType]
) -> None:
    """Random sizes, machines and mappings: on one tile nothing can come from elsewhere."""
    rng = np.random.default_rng(seed)
    batch, ins, outs = (int(np.exp(rng.uniform(0, np.log(limit)))) for limit in (130, 300, 300))
    sizes = batch, ins, outs
    target = target_of(int(rng.choice([1, 2, 4, 13, 16, 40, 64])))
    for made, kind in product((True, False), PASSES):
        plan, report = layer_pass(kind, sizes, target, dtype, made)
        limit = 1.05 * plan.cycles + SLACK * len(list(report.steps()))
        assert report.total_cycles <= limit, (kind, sizes, target.num_tiles, made, plan)


def test_the_input_gradient_of_a_wide_layer_computes_as_long_as_its_forward() -> None:
    """Its weights are read transposed: gathered one by one they took ten times as long."""
    target, sizes = target_of(184), (16, 512, 512)
    forward, backward = (
        max(
            (cs.cost.compute_duration for cs in report.compute_sets if "multiply" in cs.name),
        )
        for _, report in (layer_pass(kind, sizes, target, HALF, True) for kind in PASSES[:2])
    )
    assert backward <= 1.05 * forward


@pytest.mark.parametrize("dtype", [FLOAT, HALF, QUARTER[QuarterFormat.F143, 0]])
@pytest.mark.parametrize("tiles", [1, 2, 13])
@pytest.mark.parametrize("memory", [0.6, TINY])
def test_transposed_operands_give_the_bits_of_plain_ones(
    dtype: type[DType], tiles: int, memory: float
) -> None:
    rng = np.random.default_rng(7)
    a, b = rng.integers(-8, 8, (3, 20, 37)) / 4, rng.integers(-8, 8, (3, 37, 21)) / 4
    options = {"available_memory_proportion": memory}

    def plain(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> Tensor:
        return poplin.mat_mul_grouped(graph, x, y, prog, **options)  # type: ignore[arg-type]

    def transposed(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> Tensor:
        return plain(graph, prog, x.dim_shuffle([0, 2, 1]), y.dim_shuffle([0, 2, 1]))

    (expected,), _ = run(plain, (a, dtype), (b, dtype), tiles=tiles)
    turned = a.transpose(0, 2, 1), b.transpose(0, 2, 1)
    (result,), report = run(transposed, *((t, dtype) for t in turned), tiles=tiles)
    assert result.tobytes() == expected.tobytes()
    np.testing.assert_allclose(result, a @ b, rtol=1e-3, atol=0.25)
    names = [cs.name for cs in report.compute_sets]
    assert tiles > 1 or dtype.size == 1 or any("transpose" in name for name in names)


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 1), HALF), ((64, 45), HALF), ((5, 300), FLOAT), ((48, 4), FLOAT)]
)
def test_a_split_transpose_is_no_slower_than_one_worker(
    shape: tuple[int, int], dtype: type[DType]
) -> None:
    target = target_of(1)
    grain = vertices.transpose_grain(dtype)
    complete = (-(-shape[0] // grain) * grain, -(-shape[1] // grain) * grain)
    alone = vertices.transpose(1, complete, dtype, target)
    shared = vertices.split_transpose(shape, dtype, target)
    assert alone / 6 <= shared <= alone


@pytest.mark.parametrize("samples", [128, 160, 200])
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_a_transposed_operand_costs_its_plan_wherever_it_lies(
    samples: int, dtype: type[DType]
) -> None:
    """As in the slope of a layer's weights: with 160 samples the block of a tile would be its own
    samples, whose columns it would have to gather number by number."""
    a, b = operands(samples, 52, 1, dtype)[0], operands(samples, 10, 1, dtype)[0]
    (found,), report = run(
        lambda g, p, x, y: poplin.mat_mul(g, x.transpose(), y, p), (a, dtype), (b, dtype), tiles=13
    )
    plan = poplin.plan_mat_mul(52, samples, 10, target_of(13), dtype=dtype)
    np.testing.assert_allclose(found, a.T.astype(float) @ b, rtol=2e-3, atol=0.05)
    assert report.total_cycles < 1.05 * plan.cycles


def test_wide_loads_and_fast_reductions_are_costed_and_give_the_same_values() -> None:
    a, b = operands(64, 300, 48, HALF)
    wide = {"use128BitConvUnitLoad": True, "enable_fast_reduce": True}
    plain, quick = (
        poplin.plan_mat_mul(64, 300, 48, target_of(13), dtype=HALF, options=o) for o in ({}, wide)
    )
    assert (
        quick.cycles < plain.cycles
        and dict(quick.parts)["multiply"] < dict(plain.parts)["multiply"]
    )
    assert "128 bits of weights a cycle, fast reduction" in repr(quick) and "128" not in repr(plain)
    quick = replace(plain, product=quick.product)  # the same blocks
    (one,), before = run(
        lambda g, p, x, y: poplin.mat_mul(g, x, y, p, plan=plain), (a, HALF), (b, HALF)
    )
    (two,), after = run(
        lambda g, p, x, y: poplin.mat_mul(g, x, y, p, options=wide, plan=quick),
        (a, HALF),
        (b, HALF),
    )
    assert one.tobytes() == two.tobytes()
    times = [[cs.cost.compute_duration for cs in report.compute_sets] for report in (before, after)]
    assert all(less < more for more, less in zip(*times, strict=True))


def test_a_plan_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """How it cuts, and its parts, whose cycles are the whole."""
    graph = Graph(target_of(13))
    plan = poplin.plan_mat_mul(64, 40, 30, graph.target, dtype=HALF, partials_type=HALF)
    poplin.mat_mul_report_plan(graph, HALF, (64, 40), (40, 30), options={"partialsType": "half"})
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == repr(plan) and f"rows in {plan.row_blocks}" in first
    assert sum(int(line.split(":")[1].split()[0].replace(",", "")) for line in rest) == plan.cycles
    out = io.StringIO()
    poplin.mat_mul_grouped_report_plan(graph, FLOAT, (2, 64, 40), (2, 40, 30), file=out)
    assert out.getvalue().splitlines()[0] == repr(
        poplin.plan_mat_mul(64, 40, 30, graph.target, groups=2)
    )
    poplin.mat_mul_report_plan(graph, FLOAT, (0, 40), (40, 30))
    assert capsys.readouterr().out == "[0, 40] x [40, 30] is empty: nothing is multiplied.\n"


def test_a_cache_says_which_plans_were_used() -> None:
    a, b = operands(4, 8, 6, FLOAT)
    cache = poplin.PlanningCache()

    def build(graph: Graph, prog: Sequence, x: Tensor, y: Tensor) -> Tensor:
        first = poplin.mat_mul(graph, x, y, prog, cache=cache)
        poplin.mat_mul_acc(graph, first, 1, x, y, prog, cache=cache)
        return poplin.mat_mul(graph, first, first.transpose(), prog, cache=cache)

    value(build, (a, FLOAT), (b, FLOAT))
    assert cache.size == 2 and repr(cache) == "PlanningCache(2 plans)"
    assert {(p.m, p.k, p.n) for p in cache.plans.values()} == {(4, 8, 6), (4, 6, 4)}


@pytest.mark.parametrize("dtype", [FLOAT, HALF])
def test_a_product_that_does_not_fit_is_made_in_steps(dtype: type[DType]) -> None:
    target = target_of(4)
    plan = poplin.plan_mat_mul(400, 3000, 200, target, dtype=dtype)
    assert plan.inner_steps * plan.column_steps > 1
    assert plan.temporary_bytes <= 0.6 * target.bytes_per_tile
    tighter = poplin.plan_mat_mul(
        400, 3000, 200, target, dtype=dtype, available_memory_proportion="0.2"
    )
    assert tighter.temporary_bytes <= 0.2 * target.bytes_per_tile
    assert tighter.cycles >= plan.cycles
    for p in (plan, tighter):
        covered = [
            i for step in range(p.inner_steps) for b, e in p.inner(step) for i in range(b, e)
        ]
        assert covered == list(range(p.k))
        assert [
            i for step in range(p.column_steps) for b, e in p.columns(step) for i in range(b, e)
        ] == list(range(p.n))


def test_steps_give_the_product_and_keep_to_their_memory() -> None:
    a, b = operands(40, 600, 40, FLOAT)
    small = {"available_memory_proportion": 0.02}
    plan = poplin.plan_mat_mul(40, 600, 40, target_of(3), available_memory_proportion=0.02)
    assert plan.inner_steps * plan.column_steps > 1
    (got,), report = run(product_of(**small), (a, FLOAT), (b, FLOAT), tiles=3)
    np.testing.assert_allclose(got, a.astype(np.float64) @ b, atol=1e-4)
    assert len(report.compute_sets) >= plan.inner_steps * plan.column_steps
    (_,), whole = run(product_of(), (a, FLOAT), (b, FLOAT), tiles=3)
    buffers = [r.memory.by_category()["Exchange buffers"] for r in (report, whole)]
    assert buffers[0] < buffers[1]
    assert 0.7 * plan.cycles < report.total_cycles < 1.3 * plan.cycles


def test_the_plan_of_a_very_large_product_fits_the_chip() -> None:
    target = target_of(1472)
    plan = poplin.plan_mat_mul(4096, 4096, 4096, target)
    assert plan.temporary_bytes <= 0.6 * target.bytes_per_tile and plan.num_blocks > 1400
    peak = 2 * 16 * target.num_tiles  # operations a cycle: 16 multiply-adds a tile
    assert 0.5 < 2 * 4096**3 / plan.cycles / peak < 1
    assert poplin.plan_mat_mul(4096, 4096, 4096, target) is plan


def test_halves_are_cheaper_and_sums_of_half_cheaper_still() -> None:
    target = target_of(64)
    single, mixed, half = (
        poplin.plan_mat_mul(512, 512, 512, target, dtype=d, partials_type=p)
        for d, p in ((FLOAT, None), (HALF, FLOAT), (HALF, HALF))
    )
    assert single.cycles > 1.7 * mixed.cycles and mixed.cycles > 1.5 * half.cycles
    # the C600 has as many units for sums of FLOAT
    card = IPUModel("c600", tiles_per_ipu=64).create_device().target
    mixed, half = (
        poplin.plan_mat_mul(512, 512, 512, card, dtype=HALF, partials_type=p) for p in (FLOAT, HALF)
    )
    assert half.cycles < mixed.cycles < 1.2 * half.cycles


def test_a_matrix_times_a_vector_takes_dot_products() -> None:
    assert poplin.plan_mat_mul(1000, 1000, 1, target_of(60)).method == "HMAC"
    assert poplin.plan_mat_mul(1000, 1000, 1000, target_of(60)).method == "AMP"


def test_operands_made_for_the_plan_move_less() -> None:
    shapes = (64, 128), (128, 32)

    def build(made: bool) -> Any:
        def product(graph: Graph, prog: Sequence) -> Tensor:
            if made:
                a = poplin.create_mat_mul_input_lhs(graph, FLOAT, *shapes)
                b = poplin.create_mat_mul_input_rhs(graph, FLOAT, *shapes)
            else:
                a, b = (graph.add_variable(FLOAT, shape) for shape in shapes)
                for tensor in (a, b):
                    poputil.map_tensor_linearly(graph, tensor)
            graph.set_initial_value(a, np.arange(64 * 128).reshape(shapes[0]) % 7)
            graph.set_initial_value(b, np.arange(128 * 32).reshape(shapes[1]) % 5)
            return poplin.mat_mul(graph, a, b, prog)

        return product

    (got, before), (linear, after) = (run(build(made)) for made in (True, False))
    np.testing.assert_array_equal(got[0], linear[0])
    moved = [r.compute_sets[0].cost.exchange_duration for r in (before, after)]
    assert moved[0] < 0.8 * moved[1]


def test_a_plan_prints_and_draws_itself() -> None:
    plan = poplin.plan_mat_mul(50, 784, 10, target_of(13))
    assert repr(plan) == (
        "MatMulPlan([50, 784] x [784, 10], FLOAT, 13 of 13 tiles: inner in 13; AMP; "
        f"{plan.cycles:,} modelled cycles, {plan.temporary_bytes:,} bytes for a while)"
    )
    assert sum(cycles for _, cycles in plan.parts) == plan.cycles
    html = plan._repr_html_()
    assert (
        "src='data:image/svg+xml;base64," in html
        and "alt='MatMulPlan(" in html
        and "<td>multiply</td>" in html
    )
    stepped = poplin.plan_mat_mul(400, 3000, 200, target_of(4), dtype=HALF, out_type=FLOAT)
    assert " steps, " in repr(stepped) and "HALF with sums of FLOAT to FLOAT" in repr(stepped)


# --- what is refused ------------------------------------------------------------------------------

REFUSED = """
poplin.plan_mat_mul(3, 3, 3, graph.target, transpose_a=1)
plan_mat_mul() was given 1 as transpose_a.
  next:  give True or False.

poplin.mat_mul(graph, i, i, prog)
mat_mul() multiplies FLOAT, HALF and QUARTER, but a is INT.
  where: Tensor('i', INT, shape (3, 3))
  next:  cast it with popops.cast.

poplin.mat_mul(graph, x, x, prog, out_type=INT)
mat_mul() was given out_type=INT.
  next:  use FLOAT or HALF.

poplin.mat_mul(graph, x, x, prog, partials_type="half")
mat_mul() was given partials_type='half' for operands of FLOAT.
  next:  use FLOAT.

poplin.mat_mul(graph, h, h, prog, partials_type="int")
mat_mul() was given partials_type='int' for operands of HALF.
  next:  use FLOAT or HALF.

poplin.mat_mul(graph, x, x, prog, available_memory_proportion=1.5)
mat_mul() was given available_memory_proportion=1.5.
  next:  give a number from 0 to 1.

poplin.mat_mul(graph, x, x, prog, available_memory_proportion="much")
mat_mul() was given available_memory_proportion='much'.
  next:  give a number from 0 to 1.

poplin.mat_mul(graph, x, x, prog, options={"partialType": "float"})
mat_mul() has no option 'partialType'.
  next:  did you mean 'partialsType'? Its options are availableMemoryProportion, partialsType, use128BitConvUnitLoad, enableFastReduce, \
fullyConnectedPass, inputRHSIsPreArranged, enableMultiStageReduce, remapOutputTensor.

poplin.mat_mul(graph, x, x, prog, options={"fullyConnectedPass": "FWD"})
mat_mul() was given the option 'fullyConnectedPass' as 'FWD'.
  next:  give 'NONE' or 'INFERENCE_FWD' or 'TRAINING_FWD' or 'TRAINING_BWD' or 'TRAINING_WU'.

poplin.mat_mul(graph, x, x, prog, options={"available_memory_proportion": 0.3}, available_memory_proportion=0.2)
mat_mul() was given 'availableMemoryProportion' as an option and as a keyword.
  next:  give the option once.

poplin.mat_mul(graph, x, x, prog, cache={})
mat_mul() was given {} as cache.
  next:  give a poplin.PlanningCache().

poplin.mat_mul(graph, x, x, prog, plan=3)
mat_mul() was given 3 as plan.
  next:  give what plan_mat_mul returns.

poplin.mat_mul(graph, x, x, prog, plan=poplin.plan_mat_mul(2, 3, 3, graph.target))
mat_mul() was given a plan for another product. The plan is for [2, 3] x [3, 3] on 3 tiles; \
the call multiplies [3, 3] x [3, 3] on 5 tiles.
  next:  plan this product: poplin.plan_mat_mul(m, k, n, graph.target).

poplin.mat_mul_grouped(graph, g, g[:1], prog)
mat_mul_grouped() was given two numbers of groups that differ: 2 and 1.
  where: Tensor('g', FLOAT, shape (2, 3, 3)) and Tensor(a view of 'g', FLOAT, shape (1, 3, 3))
  next:  give a and b equally many matrices.

poplin.mat_mul_grouped(graph, x, x, prog)
mat_mul_grouped() needs a with 3 dimensions; it has 2.
  where: Tensor('x', FLOAT, shape (3, 3))
  next:  reshape, flatten or index the tensor.

poplin.mat_mul_acc(graph, x[:2], 1, x, x, prog)
mat_mul_acc() was given two shapes that differ: (2, 3) and (3, 3).
  where: c Tensor(a view of 'x', FLOAT, shape (2, 3)), a Tensor('x', FLOAT, shape (3, 3)) and b Tensor('x', FLOAT, shape (3, 3))
  next:  give c as many rows as a, and as many columns as b.

poplin.mat_mul_acc(graph, x, "k", x, x, prog)
mat_mul_acc() was given 'k' as k.
  next:  give a number, or a tensor of one element.

poplin.mat_mul(graph, x, lost, prog)
mat_mul() was given b with 9 of its 9 elements not mapped to any tile.
  where: Tensor('lost', FLOAT, shape (3, 3))
  next:  graph.set_tile_mapping(tensor, tile), or poputil.map_tensor_linearly(graph, tensor).

poplin.create_mat_mul_input_lhs(graph, FLOAT, (3, 4), (3, 4))
create_mat_mul_input_lhs() was given two inner dimensions that differ: 4 and 3.
  where: a_shape (3, 4) and b_shape (3, 4)
  next:  give b as many rows as a has columns; perhaps transpose one of them.

poplin.mat_mul_report_plan(graph, FLOAT, (3, 4), (3, 4))
mat_mul_report_plan() was given two inner dimensions that differ: 4 and 3.
  where: a_shape (3, 4) and b_shape (3, 4)
  next:  give b as many rows as a has columns; perhaps transpose one of them.

poplin.create_mat_mul_input_rhs(graph, FLOAT, (3,), (3, 4))
create_mat_mul_input_rhs() was given (3,) as a_shape.
  next:  give (rows, columns) as whole numbers of 0 or more.

poplin.create_mat_mul_input_lhs(graph, INT, (3, 4), (4, 4))
create_mat_mul_input_lhs() multiplies FLOAT, HALF and QUARTER, but was given INT.
  next:  cast the operands with popops.cast.
"""


class Shelf:
    def __init__(self) -> None:
        self.graph, self.prog = Graph(target_of(5)), Sequence()
        shapes = {
            "x": (FLOAT, (3, 3)),
            "h": (HALF, (3, 3)),
            "i": (INT, (3, 3)),
            "g": (FLOAT, (2, 3, 3)),
        }
        for name, (dtype, shape) in shapes.items():
            setattr(self, name, self.graph.add_variable(dtype, shape, name))
            poputil.map_tensor_linearly(self.graph, getattr(self, name))
        self.lost = self.graph.add_variable(FLOAT, (3, 3), "lost")


CASES = [tuple(case.split("\n", 1)) for case in REFUSED.strip().split("\n\n")]


@pytest.mark.parametrize(("call", "text"), CASES, ids=[call for call, _ in CASES])
def test_what_is_refused_is_explained_and_changes_nothing(call: str, text: str) -> None:
    shelf = Shelf()
    before = len(shelf.graph.variables), len(shelf.graph.compute_sets), len(shelf.prog.programs)
    with pytest.raises(IPUTeachError) as caught:
        eval(call, globals(), vars(shelf))
    kind = (
        InvalidTileMappingError
        if "lost" in call
        else InvalidOptionError
        if " option" in text
        else PoplibsError
    )
    assert type(caught.value) is kind
    assert str(caught.value) == text
    assert (
        len(shelf.graph.variables),
        len(shelf.graph.compute_sets),
        len(shelf.prog.programs),
    ) == before


def test_a_product_that_fits_no_tile_is_refused_with_its_sizes() -> None:
    target = target_of(2, memory_bytes_per_tile=2000)
    with pytest.raises(PoplibsError) as caught:
        poplin.plan_mat_mul(4000, 16, 16, target)
    text = str(caught.value)
    assert text.startswith(
        "plan_mat_mul() cannot partition [4000, 16] x [16, 16]: the smallest blocks need "
    )
    assert text.endswith("use more tiles, or multiply a part of the rows or columns at a time.")
    assert "of a tile, which has 2,000." in text
