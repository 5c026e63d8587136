"""Slices whose place is data, order along a dimension, and reductions, against plain loops and
numpy."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from poplibs_bench import FLOATS, NUMERIC, RANDOMLY, Bench, as_view, assert_same_bits, sample

from ipu_teach import (
    BOOL,
    FLOAT,
    HALF,
    INT,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    Input,
    Output,
    Vector,
    Vertex,
)
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import SortOrder, TopKParams, reduction_plan, reductions, slice_plans
from ipu_teach.program import Execute
from ipu_teach.types import Array, DType

SEEDS = st.integers(0, 2**32 - 1)
TILES = st.sampled_from([1, 2, 13])
LENGTHS = st.sampled_from([1, 2, 3, 5, 7, 13])
DTYPES = st.sampled_from([FLOAT, HALF, INT, UNSIGNED_CHAR])


def put(bench: Bench, x: Array, dtype: type[DType], dims: list[int] | None) -> Any:
    """x in a variable: mapped linearly, or for slices along `dims`."""
    if dims is None:
        return bench.variable(x, dtype)
    tensor = popops.create_sliceable_tensor(bench.graph, dtype, x.shape, dims)
    bench.graph.set_initial_value(tensor, x.astype(dtype.numpy))
    bench.check_mapped(tensor)
    return tensor


# --- slices ---------------------------------------------------------------------------------------


@RANDOMLY
@given(
    st.lists(LENGTHS, min_size=1, max_size=3),
    DTYPES,
    TILES,
    SEEDS,
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_dynamic_slice_and_update(
    shape: list[int], dtype: type[DType], tiles: int, seed: int, sliceable: bool, random: Any
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    dims = random.sample(range(len(shape)), random.randint(1, len(shape)))
    sizes = [random.randint(1, shape[d]) for d in dims]
    starts = [random.choice([random.randint(0, shape[d] - 1), shape[d] + 3]) for d in dims]
    x = sample(rng, tuple(shape), dtype)
    a, offset = (
        put(bench, x, dtype, dims if sliceable else None),
        bench.variable(starts, UNSIGNED_INT),
    )
    out = popops.dynamic_slice(bench.graph, a, offset, dims, sizes, bench.prog)
    wanted = x
    for d, size, start in zip(dims, sizes, starts, strict=True):
        begin = start if start < shape[d] else 0
        wanted = np.take(wanted, [(begin + i) % shape[d] for i in range(size)], axis=d)
    y = sample(rng, wanted.shape, dtype)
    popops.dynamic_update(bench.graph, a, bench.variable(y, dtype), offset, dims, sizes, bench.prog)
    after = x.copy()
    for place in np.ndindex(*y.shape):
        to = list(place)
        for d, start in zip(dims, starts, strict=True):
            to[d] = ((start if start < shape[d] else 0) + place[d]) % shape[d]
        after[tuple(to)] = y[place]
    fast, slow = bench.run(out, a), bench.run(out, a, vertex_loop=True)
    for got in (fast, slow):
        assert_same_bits(got[0], wanted)
        assert_same_bits(got[1], after)
    assert bench.report is not None and bench.report.unknown_codelets == ()
    bench.check_mapped(out)


def test_slices_of_a_sliceable_tensor_exchange_the_offset_alone() -> None:
    bench = Bench()
    x = put(bench, np.ones((50, 26 * 32)), FLOAT, [0])
    offset = bench.variable([3], UNSIGNED_INT)
    out = popops.dynamic_slice(bench.graph, x, offset, [0], [2], bench.prog)
    bench.run(out)
    assert bench.report is not None and bench.report.unbatched() == {}
    received, _ = bench.report.exchange_bytes_per_tile
    assert received.sum() == 4 * 12  # to all tiles but its own
    assert bench.graph.get_tile_mapping(out[0]) == bench.graph.get_tile_mapping(x[0])


@RANDOMLY
@given(
    st.lists(LENGTHS, min_size=1, max_size=3),
    DTYPES,
    TILES,
    SEEDS,
    st.sampled_from([INT, UNSIGNED_INT]),
    st.sampled_from([0, 1, 4, 9]),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_many_slices_and_updates(
    shape: list[int],
    dtype: type[DType],
    tiles: int,
    seed: int,
    numbers: type[DType],
    count: int,
    sliceable: bool,
    random: Any,
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    dims = random.sample(range(len(shape)), random.randint(1, min(2, len(shape))))
    sizes = [random.choice([1, random.randint(1, shape[d])]) for d in dims]
    low = -2 if numbers is INT else 0
    starts = np.array(
        [[random.randint(low, shape[d] + 1) for d in dims] for _ in range(count)]
    ).reshape(count, len(dims))
    x = rng.integers(0, 50, shape).astype(dtype.numpy)
    a, offsets = put(bench, x, dtype, dims if sliceable else None), bench.variable(starts, numbers)
    out = popops.multi_slice(bench.graph, a, offsets, dims, sizes, bench.prog)
    window = list(shape)
    for d, size in zip(dims, sizes, strict=True):
        window[d] = size
    wanted, y = (
        np.zeros((count, *window), dtype.numpy),
        rng.integers(0, 9, (count, *window)).astype(dtype.numpy),
    )
    put_back, added, largest = x.copy(), x.copy(), x.copy()
    for n, start in enumerate(starts.tolist()):
        if all(0 <= s <= shape[d] - size for s, d, size in zip(start, dims, sizes, strict=True)):
            cut = [slice(None)] * len(shape)
            for s, d, size in zip(start, dims, sizes, strict=True):
                cut[d] = slice(s, s + size)
            where = tuple(cut)
            wanted[n] = x[where]
            put_back[where] = y[n]
            added[where] += dtype.numpy.type(2) * y[n]
            largest[where] = np.maximum(largest[where], y[n])
    b, c, d = (put(bench, x, dtype, dims if sliceable else None) for _ in range(3))
    updates = bench.variable(y, dtype)
    popops.multi_update(bench.graph, b, updates, offsets, dims, sizes, bench.prog)
    popops.multi_update_add(bench.graph, c, updates, offsets, 2, dims, sizes, bench.prog)
    popops.multi_update_max(bench.graph, d, updates, offsets, dims, sizes, bench.prog)
    for got, expected in zip(
        bench.run(out, b, c, d), [wanted, put_back, added, largest], strict=True
    ):
        assert_same_bits(got, expected)
    assert bench.report is not None and bench.report.unknown_codelets == ()
    assert all("MultiUpdate" in name for name in bench.report.unbatched())
    bench.check_mapped(out)


def test_the_gradient_of_an_embedding_in_half_is_rounded_once() -> None:
    bench, rng = Bench(), np.random.default_rng(0)
    x, y = (
        rng.standard_normal((5, 40)).astype(np.float16),
        rng.standard_normal((300, 40)).astype(np.float16),
    )
    rows = rng.integers(0, 5, 300)
    a = bench.variable(x, HALF)
    scale = bench.variable(0.37, HALF)
    offsets = bench.variable(rows[:, None], UNSIGNED_INT)
    popops.multi_update_add(
        bench.graph, a, bench.variable(y[:, None], HALF), offsets, scale, [0], [1], bench.prog
    )
    total = x.astype(np.float32)
    for row, update in zip(rows, y, strict=True):
        total[row] += np.float32(np.float16(0.37)) * update.astype(np.float32)
    assert_same_bits(bench.run(a)[0], total.astype(np.float16))


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (2, 3), (5, 2), (13, 1), (1, 12)])
@pytest.mark.parametrize("dtype", [FLOAT, HALF, UNSIGNED_CHAR, BOOL])
def test_slices_and_updates_by_a_plan(rows: int, parts: int, dtype: type[DType]) -> None:
    rng = np.random.default_rng(rows)
    entries, columns, lookups = 23, 7, 11
    table = (rng.standard_normal((entries, columns)) * 50).astype(dtype.numpy)
    if dtype in (FLOAT, HALF):
        table[3, :2] = [-0.0, np.nan]
    numbers = np.array([3, 22, 0, 3, 99, 7, 2**32 - 1, 22, 11, 12, 3], np.uint32)
    new = (rng.standard_normal((lookups, 1, columns)) * 9).astype(dtype.numpy)
    bench = Bench()
    chosen = {name: o.default for o in slice_plans.OPTIONS for name in (o.name,)}
    plan = slice_plans.planned(
        (entries, columns, lookups),
        dtype,
        bench.device.target,
        rows,
        13 // rows // parts,
        chosen,
        parts,
    )
    outs = []
    for made_by_plan in (True, False):
        base = popops.create_sliceable_tensor(
            bench.graph, dtype, table.shape, [0], plan=plan if made_by_plan else None
        )
        bench.graph.set_initial_value(base, table)
        offsets = bench.variable(numbers.reshape(-1, 1), UNSIGNED_INT)
        outs.append(popops.multi_slice(bench.graph, base, offsets, [0], [1], bench.prog, plan=plan))
        popops.multi_update(
            bench.graph,
            base,
            bench.variable(new, dtype),
            offsets,
            [0],
            [1],
            bench.prog,
            plan=plan,
            options={"used_for_slice": "true"},
        )
        outs.append(base)
    inside = numbers < entries
    wanted = np.where(
        inside[:, None], table[np.where(inside, numbers, 0)], np.zeros((), dtype.numpy)
    ).reshape(lookups, 1, columns)
    updated = table.copy()
    for number, row in zip(numbers[inside], new[inside], strict=True):
        updated[number] = row[0]
    for vertex_loop in (False, True):
        for got, expected in zip(
            bench.run(*outs, vertex_loop=vertex_loop), [wanted, updated] * 2, strict=True
        ):
            assert_same_bits(got, expected)


@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (4, 1), (2, 2), (1, 4)])
@pytest.mark.parametrize("scale", [0.5, FLOAT, HALF])
def test_gradients_of_an_embedding_by_a_plan(rows: int, parts: int, scale: Any) -> None:
    """Of halves the sums of each part of the lookups are carried in FLOAT."""
    rng, bench = np.random.default_rng(3), Bench()
    table, new = (rng.standard_normal(shape).astype(np.float16) for shape in ((20, 6), (9, 1, 6)))
    numbers = np.array([3, 3, 3, 19, 0, 25, 7, 7, 19])
    chosen = {o.name: o.default for o in slice_plans.OPTIONS}
    plan = slice_plans.planned((20, 6, 9), HALF, bench.device.target, rows, 3, chosen, parts)
    a, b = bench.variable(table, HALF), bench.variable(table, HALF)
    offsets, updates = bench.variable(numbers.reshape(-1, 1), INT), bench.variable(new, HALF)
    factor = scale if isinstance(scale, float) else bench.variable(0.5, scale)
    popops.multi_update_add(
        bench.graph, a, updates, offsets, factor, [0], [1], bench.prog, plan=plan
    )
    popops.multi_update_max(bench.graph, b, updates, offsets, [0], [1], bench.prog, plan=plan)
    sums, largest = np.zeros((parts, 20, 6), np.float32), table.copy()
    if parts == 1:
        sums[0] = table
    for i, (number, row) in enumerate(zip(numbers, new[:, 0], strict=True)):
        if number < 20:
            part = next(p for p in range(parts) if i < (p + 1) * 9 // parts)
            sums[part, number] += np.float32(0.5) * row.astype(np.float32)
            largest[number] = np.maximum(largest[number], row)
    added = sums[0]
    for part in sums[1:]:
        added = added + part
    if parts > 1:
        added = table.astype(np.float32) + added
    for got, wanted in zip(bench.run(a, b), [added.astype(np.float16), largest], strict=True):
        assert_same_bits(got, wanted)


def test_many_lookups_are_planned_of_themselves() -> None:
    """So many rows and columns, on so many tiles, are quicker cut by lookups: each looks up its
    own. Updates, too."""
    rng, bench = np.random.default_rng(5), Bench(32)
    table = rng.standard_normal((50, 8)).astype(np.float32)
    numbers = rng.integers(0, 55, 700)
    new = rng.integers(-9, 9, (700, 1, 8)).astype(np.float32)
    inside = numbers < 50
    a = bench.variable(table)
    offsets = bench.variable(numbers.reshape(-1, 1), UNSIGNED_INT)
    out = popops.multi_slice(bench.graph, a, offsets, [0], [1], bench.prog)
    popops.multi_update_add(bench.graph, a, bench.variable(new), offsets, 0.5, [0], [1], bench.prog)
    sliced, added = bench.run(out, a)
    assert_same_bits(
        sliced[:, 0], np.where(inside[:, None], table[np.where(inside, numbers, 0)], 0)
    )
    wanted = table.astype(np.float64)
    np.add.at(wanted, numbers[inside], 0.5 * new[inside, 0])
    np.testing.assert_allclose(added, wanted, rtol=2e-6)
    assert bench.report is not None
    # whole columns on four tiles would take 6 x 700 x (19 + 2) for the slices alone
    assert bench.report.total_cycles < 6 * 700 * 21 / 2


def test_a_plan_for_an_embedding_prints_draws_and_is_the_best() -> None:
    graph = Bench(50).graph
    target = graph.target
    least = popops.embedding_plan(graph, FLOAT, 1000, 16, [100, 40])
    quick = popops.embedding_plan(
        graph, FLOAT, 1000, 16, [100], {"planMinimisationTarget": "cycles"}
    )
    chosen = {o.name: o.default for o in slice_plans.OPTIONS}
    every = [
        slice_plans.planned((1000, 16, 100), FLOAT, target, r, c, chosen, parts)
        for c in range(1, 17)
        for r in range(1, 50 // c + 1)
        for parts in range(1, 50 // (c * r) + 1)
    ]
    assert least.table_bytes + least.temporary_bytes == min(
        p.table_bytes + p.temporary_bytes for p in every
    )
    assert quick.cycles == min(p.cycles for p in every)
    assert (
        quick.cycles < least.cycles
        and quick.table_bytes + quick.temporary_bytes > least.table_bytes + least.temporary_bytes
    )
    tight = popops.embedding_plan(
        graph,
        FLOAT,
        1000,
        16,
        [100],
        {"availableMemoryProportion": 0.0018, "planMinimisationTarget": "cycles"},
    )
    assert tight.temporary_bytes <= 0.0018 * target.bytes_per_tile < quick.temporary_bytes
    assert repr(least).startswith(
        f"SlicePlan([1,000, 16] FLOAT, 100 lookups: rows in {least.row_parts}, columns in "
    )
    html = least._repr_html_()
    assert html.startswith("<img src='data:image/svg+xml;base64,") and "<td>slice</td>" in html
    covered = np.zeros((1000, 16), int)
    tiles = set()
    for tile, (r0, r1), (c0, c1) in quick.places():
        covered[r0:r1, c0:c1] += 1
        tiles.add(tile)
    assert (covered == 1).all() and quick.lookup_parts > 1
    assert len(tiles) == quick.row_parts * quick.column_parts * quick.lookup_parts


def test_a_planned_slice_costs_what_its_plan_says() -> None:
    bench = Bench(13)
    for options in ({}, {"planMinimisationTarget": "cycles"}):
        plan = popops.embedding_plan(
            bench.graph, FLOAT, 2000, 24, [64], {"usedForUpdate": False, **options}
        )
        alone = Bench(13)
        base = popops.create_sliceable_tensor(alone.graph, FLOAT, (2000, 24), [0], plan=plan)
        alone.graph.set_initial_value(base, np.zeros((2000, 24)))
        offsets = alone.variable(np.zeros((64, 1)), UNSIGNED_INT)
        alone.run(popops.multi_slice(alone.graph, base, offsets, [0], [1], alone.prog, plan=plan))
        assert alone.report is not None
        assert 0.8 * plan.cycles < alone.report.total_cycles < 1.2 * plan.cycles


@pytest.mark.parametrize("tiles", [1, 13])
@pytest.mark.parametrize("shape", [(3,), (2, 5), (), (0,)])
def test_a_ring_of_the_newest(tiles: int, shape: tuple[int, ...]) -> None:
    bench = Bench(tiles)
    ring = popops.CircBuf(bench.graph, FLOAT, 4, shape)
    outs = [ring.prev(1, bench.prog)]
    added = np.random.default_rng(1).standard_normal((6, *shape)).astype(np.float32)
    for value in added:
        ring.add(bench.variable(value), bench.prog)
    outs += [ring.prev(i, bench.prog) for i in range(4)]
    got = bench.run(*outs, ring.index)
    for found, wanted in zip(
        got[:-1], [np.zeros(shape, np.float32), added[5], added[4], added[3], added[2]], strict=True
    ):
        assert_same_bits(found, wanted)
    assert got[-1].tolist() == [2] and repr(ring) == f"CircBuf(4 of FLOAT, shape {shape})"


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT])
@pytest.mark.parametrize("tail", [(3,), (2, 5), (0,)])
def test_runs_of_rows(zero: bool, dtype: type[DType], tail: tuple[int, ...]) -> None:
    rng, bench = np.random.default_rng(2), Bench()
    source, result = (
        np.asarray(rng.integers(-99, 99, (n, *tail))).astype(dtype.numpy) for n in (12, 9)
    )
    counts, starts, places = (
        np.array(v, np.uint32) for v in ([2, 3, 0, 4, 2], [10, 0, 3, 9, 11], [0, 4, 2, 7, 5])
    )
    a, b = bench.variable(source, dtype), bench.variable(result, dtype)
    runs = [bench.variable(v, UNSIGNED_INT) for v in (counts, starts, places)]
    popops.sequence_slice(bench.graph, a, b, *runs, zero, bench.prog)
    wanted = np.zeros_like(result) if zero else result.copy()
    for count, start, place in zip(counts.tolist(), starts.tolist(), places.tolist(), strict=True):
        for i in range(count):
            if start + i < 12 and place + i < 9:
                wanted[place + i] = source[start + i]
    assert_same_bits(bench.run(b)[0], wanted)
    assert_same_bits(bench.run(b, vertex_loop=True)[0], wanted)


@pytest.mark.parametrize("case", [("ADD", np.add), ("SUBTRACT", np.subtract)], ids=lambda c: c[0])
def test_scatter_with_a_function_of_old_and_new(case: tuple[str, Any]) -> None:
    rng, bench = np.random.default_rng(4), Bench()
    x = rng.standard_normal((5, 7)).astype(np.float32)
    # one window hangs over, one place comes twice
    starts = np.array([[0, 0], [1, 2], [4, 1], [0, 5], [0, 0]])
    updates = rng.standard_normal((5, 2, 3)).astype(np.float32)
    a, i, u = bench.variable(x), bench.variable(starts, INT), bench.variable(updates)
    calls = []

    def computation(graph: Any, old: Any, new: Any, prog: Any) -> Any:
        calls.append((old.shape, new.shape))
        return (popops.add if case[0] == "ADD" else popops.sub)(graph, old, new, prog)

    popops.scatter(
        bench.graph, a, i, u, 1, [1, 2], [], [0, 1], bench.prog, update_computation=computation
    )
    wanted = x.copy()
    for (row, column), update in zip(starts, updates, strict=True):
        if row + 2 <= 5 and column + 3 <= 7:
            wanted[row : row + 2, column : column + 3] = case[1](
                wanted[row : row + 2, column : column + 3], update
            )
    assert_same_bits(bench.run(a)[0], wanted)
    assert calls == [((2, 3), (2, 3))]


def test_a_computation_of_scatter_that_gives_something_else_is_refused() -> None:
    bench = Bench()
    a, i, u = (
        bench.variable(np.zeros((5, 7))),
        bench.variable(np.zeros((3, 1)), INT),
        bench.variable(np.zeros((3, 7))),
    )
    with pytest.raises(PoplibsError) as caught:
        popops.scatter(
            bench.graph,
            a,
            i,
            u,
            1,
            [1],
            [0],
            [0],
            bench.prog,
            update_computation=lambda graph, old, new, prog: old[:3],
        )
    text = str(caught.value)
    assert text.startswith("The update_computation of scatter() returned Tensor(a view of ")
    assert text.endswith("\n  next:  return a tensor of FLOAT of shape (7,).")


@pytest.mark.parametrize("is_read", [False, True])
def test_tensors_for_the_host_come_in_packets(is_read: bool) -> None:
    bench = Bench(13)
    indices, tensor = popops.create_host_sliceable_tensor(bench.graph, FLOAT, (3, 2000), is_read)
    whole = popops.create_host_transferable_tensor(bench.graph, HALF, (40, 100), is_read)
    assert (indices.shape, indices.dtype, tensor.shape, whole.shape) == (
        (3,),
        UNSIGNED_INT,
        (3, 2000),
        (40, 100),
    )
    rows = [bench.graph.get_tile_mapping(tensor[i]) for i in range(3)]
    assert rows[0] == rows[1] == rows[2]
    for of, size in ((rows[0], 4), (bench.graph.get_tile_mapping(whole), 2)):
        held = [sum(e - b for b, e in pieces) * size for pieces in of if pieces]
        unit = 1024 if is_read else 8
        assert sum(h % unit != 0 for h in held) <= 1
    bench.check_mapped(tensor)


def test_slice_tensors_lie_where_slices_do() -> None:
    bench = Bench()
    base = popops.create_sliceable_tensor(bench.graph, FLOAT, (7, 500), [0])
    slices = popops.create_slice_tensor(bench.graph, base, [0], [2], 3)
    assert slices.shape == (3, 2, 500)
    home = bench.graph.get_tile_mapping(base[0])
    assert all(
        bench.graph.get_tile_mapping(slices[i, j]) == home for i, j in product(range(3), range(2))
    )


# --- gather and scatter, as XLA describes them ----------------------------------------------------

GATHERS: list[tuple[Any, ...]] = [
    # operand, indices, index_vector_dim, offset_dims, slice_sizes, collapsed, start_index_map
    ((7, 5), (4,), 1, [1], [1, 5], [0], [0]),
    ((7, 5), (4, 2), 1, [], [1, 1], [0, 1], [0, 1]),
    ((7, 5), (4, 2), 1, [1, 2], [2, 3], [], [1, 0]),
    ((7, 5, 3), (2, 4, 1), 2, [0, 2], [1, 2, 3], [0], [1]),
    ((7, 5, 3), (2, 3, 4), 0, [2], [1, 2, 1], [0, 2], [2, 0]),
    ((9,), (3, 2, 1), 2, [2], [4], [], [0]),
    ((1, 1), (1,), 1, [1], [1, 1], [0], [0]),
]


@pytest.mark.parametrize("case", GATHERS)
@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT])
@pytest.mark.parametrize("tiles", [1, 13])
def test_gather_is_xlas(case: tuple[Any, ...], dtype: type[DType], tiles: int) -> None:
    shape, index_shape, vector_dim, offset_dims, sizes, collapsed, start_map = case
    rng, bench = np.random.default_rng(3), Bench(tiles)
    x, indices = rng.integers(-99, 99, shape).astype(dtype.numpy), rng.integers(-2, 10, index_shape)
    a, i = bench.variable(x, dtype), bench.variable(indices, INT)
    out = popops.gather(
        bench.graph, a, i, vector_dim, offset_dims, sizes, collapsed, start_map, bench.prog
    )
    rows = (
        indices[..., None] if vector_dim == indices.ndim else np.moveaxis(indices, vector_dim, -1)
    )
    batch = rows.shape[:-1]
    window = [n for d, n in enumerate(sizes) if d not in collapsed]
    rank = len(batch) + len(window)
    batch_dims = [d for d in range(rank) if d not in offset_dims]
    result = [0] * rank
    for d, n in zip(batch_dims, batch, strict=True):
        result[d] = n
    for d, n in zip(offset_dims, window, strict=True):
        result[d] = n
    wanted = np.zeros(result, dtype.numpy)
    kept = [d for d in range(len(shape)) if d not in collapsed]
    for place in np.ndindex(*result):
        start = [0] * len(shape)
        for d, value in zip(start_map, rows[tuple(place[b] for b in batch_dims)], strict=True):
            start[d] = min(max(int(value), 0), shape[d] - sizes[d])
        for d, o in zip(kept, offset_dims, strict=True):
            start[d] += place[o]
        wanted[place] = x[tuple(start)]
    assert_same_bits(bench.run(out)[0], wanted)
    bench.check_mapped(out)
    assert bench.report is not None and bench.report.unbatched() == {}


SCATTERS: list[tuple[Any, ...]] = [
    # operand, indices, updates, index_vector_dim, update_window_dims, inserted, scatter_dims
    ((7, 5), (4,), (4, 5), 1, [1], [0], [0]),
    ((7, 5), (4, 2), (4,), 1, [], [0, 1], [0, 1]),
    ((7, 5), (4, 2), (4, 2, 3), 1, [1, 2], [], [1, 0]),
    ((7, 5, 3), (2, 4, 1), (2, 2, 4, 3), 2, [0, 3], [0], [1]),
    ((9,), (3, 1), (3, 4), 1, [1], [], [0]),
]


@pytest.mark.parametrize("case", SCATTERS)
@pytest.mark.parametrize("dtype", [FLOAT, INT])
@pytest.mark.parametrize("tiles", [1, 13])
def test_scatter_is_xlas(case: tuple[Any, ...], dtype: type[DType], tiles: int) -> None:
    shape, index_shape, update_shape, vector_dim, window_dims, inserted, dims = case
    rng, bench = np.random.default_rng(4), Bench(tiles)
    x, indices = rng.integers(-99, 99, shape).astype(dtype.numpy), rng.integers(-1, 7, index_shape)
    y = rng.integers(100, 999, update_shape).astype(dtype.numpy)
    a, i, u = bench.variable(x, dtype), bench.variable(indices, INT), bench.variable(y, dtype)
    popops.scatter(bench.graph, a, i, u, vector_dim, window_dims, inserted, dims, bench.prog)
    rows = (
        indices[..., None] if vector_dim == indices.ndim else np.moveaxis(indices, vector_dim, -1)
    )
    around = [d for d in range(y.ndim) if d not in window_dims]
    kept = [d for d in range(len(shape)) if d not in inserted]
    size = [1] * len(shape)
    for d, w in zip(kept, window_dims, strict=True):
        size[d] = update_shape[w]
    wanted = x.copy()
    for place in np.ndindex(*rows.shape[:-1]):
        start = [0] * len(shape)
        for d, value in zip(dims, rows[place], strict=True):
            start[d] = int(value)
        if all(0 <= s <= n - m for s, n, m in zip(start, shape, size, strict=True)):
            part = np.moveaxis(y, around, range(len(around)))[place]
            wanted[tuple(slice(s, s + m) for s, m in zip(start, size, strict=True))] = part.reshape(
                size
            )
    assert_same_bits(bench.run(a)[0], wanted)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(1, 1), (13, 10), (0, 4)])
def test_one_element_of_each_row(dtype: type[DType], shape: tuple[int, int]) -> None:
    bench, rng = Bench(), np.random.default_rng(1)
    x = rng.standard_normal(shape).astype(dtype.numpy)
    numbers = rng.integers(0, shape[1], shape[0]).astype(np.uint32)
    if shape[0] > 5:
        numbers[2:4] = shape[1], popops.MASKED_LABEL_CODE
    a, i = bench.variable(x, dtype), bench.variable(numbers, UNSIGNED_INT)
    out = popops.select_scalar_from_rows(bench.graph, a, i, bench.prog)
    popops.update_scalar_in_rows(bench.graph, a, i, bench.prog)
    wanted, after = np.zeros(shape[0], dtype.numpy), x.copy()
    for row, number in enumerate(numbers.tolist()):
        if number < shape[1]:
            wanted[row] = x[row, number]
            after[row, number] -= dtype.numpy.type(1)
        elif number != popops.MASKED_LABEL_CODE:
            wanted[row] = np.nan
    got = bench.run(out, a)
    assert_same_bits(got[0] + dtype.numpy.type(0), wanted + dtype.numpy.type(0))
    assert_same_bits(got[1], after)


# --- order ----------------------------------------------------------------------------------------


def ordered(row: Array, largest: bool) -> list[int]:
    """Places from the first to the last: by value, equals in their order, NaN as the largest."""
    keys = [(2, 0.0) if v != v else (1, v) for v in row.tolist()]
    if largest:
        return sorted(range(len(row)), key=lambda i: (-keys[i][0], -keys[i][1], i))
    return sorted(range(len(row)), key=lambda i: (*keys[i], i))


@RANDOMLY
@given(
    st.sampled_from(NUMERIC),
    st.lists(LENGTHS, min_size=1, max_size=3),
    TILES,
    SEEDS,
    st.booleans(),
    st.sampled_from(list(SortOrder)),
    st.randoms(use_true_random=False),
)
def test_top_k(
    dtype: type[DType],
    shape: list[int],
    tiles: int,
    seed: int,
    largest: bool,
    order: SortOrder,
    random: Any,
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    k = random.randint(0, shape[-1])
    x = (
        rng.integers(0, 5, shape).astype(dtype.numpy)
        if random.random() < 0.5
        else sample(rng, tuple(shape), dtype)
    )
    values = rng.integers(0, 99, shape)
    a, v = bench.variable(x, dtype), bench.variable(values, INT)
    params = TopKParams(k, largest, order)
    keys, places = popops.top_k_with_permutation(bench.graph, params, a, bench.prog)
    alone = popops.top_k(bench.graph, params, a, bench.prog)
    both = popops.top_k_key_value(bench.graph, params, a, v, bench.prog)
    chosen = np.array(
        [ordered(row, largest)[:k] for row in x.reshape(-1, shape[-1])], np.int64
    ).reshape(*shape[:-1], k)
    if order is not SortOrder.NONE and (order is SortOrder.DESCENDING) != largest:
        chosen = chosen[..., ::-1]
    picked = np.take_along_axis(x, chosen, -1)
    got = bench.run(keys, places, alone, *both)
    for found, wanted in zip(
        got,
        [
            picked,
            chosen.astype(np.uint32),
            picked,
            picked,
            np.take_along_axis(values, chosen, -1).astype(np.int32),
        ],
        strict=True,
    ):
        assert_same_bits(found, wanted)
    assert bench.report is not None and bench.report.unbatched() == {}
    for tensor in (keys, places, alone):
        bench.check_mapped(tensor)


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("dtype", [FLOAT, INT])
@pytest.mark.parametrize("shape", [(1, 1), (13, 7), (0, 3)])
def test_sort(dim: int, dtype: type[DType], shape: tuple[int, int]) -> None:
    bench, rng = Bench(), np.random.default_rng(2)
    x, y = (
        rng.integers(-4, 4, shape).astype(dtype.numpy),
        rng.integers(0, 99, shape).astype(np.float16),
    )
    a, b, c, v = (
        bench.variable(x, dtype),
        bench.variable(x, dtype),
        bench.variable(x, dtype),
        bench.variable(y, HALF),
    )
    w = bench.variable(y, HALF)
    out = popops.sort(bench.graph, a, dim, bench.prog)
    moved = popops.sort_key_value(bench.graph, a, v, dim, bench.prog)
    popops.sort_in_place(bench.graph, b, dim, bench.prog)
    popops.sort_key_value_in_place(bench.graph, c, w, dim, bench.prog)
    order = np.argsort(x, axis=dim, kind="stable")
    keys, values = np.take_along_axis(x, order, dim), np.take_along_axis(y, order, dim)
    for got, wanted in zip(
        bench.run(out, moved, b, c, w), [keys, values, keys, keys, values], strict=True
    ):
        assert_same_bits(got, wanted)


@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT])
@pytest.mark.parametrize("shape", [(1,), (9, 1), (3, 5, 7), (0, 4)])
def test_places_of_extremes(dtype: type[DType], shape: tuple[int, ...]) -> None:
    bench, rng = Bench(), np.random.default_rng(3)
    x = rng.integers(-4, 4, shape).astype(dtype.numpy)
    a = bench.variable(x, dtype)
    best, place = popops.max_and_arg_max(bench.graph, a, bench.prog)
    worst, least = popops.min_and_arg_min(bench.graph, a, bench.prog)
    most, fewest = (
        popops.arg_max(bench.graph, a, bench.prog),
        popops.arg_min(bench.graph, a, bench.prog),
    )
    largest, smallest = x.argmax(-1).astype(np.uint32), x.argmin(-1).astype(np.uint32)
    wanted = [x.max(-1), largest, x.min(-1), smallest, largest, smallest]
    for got, expected in zip(
        bench.run(best, place, worst, least, most, fewest), wanted, strict=True
    ):
        assert_same_bits(got, np.asarray(expected))


# --- reductions -----------------------------------------------------------------------------------

IN_FLOAT64: dict[str, Any] = {
    "ADD": lambda x, axis: x.sum(axis),
    "SQUARE_ADD": lambda x, axis: (x * x).sum(axis),
    "LOG_ADD": lambda x, axis: np.logaddexp.reduce(x, axis=axis),
}


@RANDOMLY
@given(
    st.sampled_from(sorted(IN_FLOAT64)),
    st.sampled_from(FLOATS),
    st.lists(LENGTHS, min_size=1, max_size=3),
    st.sampled_from([1, 2, 13, 50]),
    SEEDS,
    st.randoms(use_true_random=False),
    st.sampled_from(["plain", "transposed"]),
)
def test_sums_are_near_the_exact_ones(
    operation: str,
    dtype: type[DType],
    shape: list[int],
    tiles: int,
    seed: int,
    random: Any,
    view: str,
) -> None:
    """A HALF is carried in FLOAT, so it is the exact sum rounded, but for what FLOAT lost on the
    way."""
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    dims = tuple(random.sample(range(len(shape)), random.randint(1, len(shape))))
    x = rng.uniform(-2, 2, shape).astype(dtype.numpy)
    a = as_view(bench, x, dtype, view)
    out_type = random.choice([None, FLOAT, HALF])
    out = popops.reduce(bench.graph, a, dims, bench.prog, operation, out_type=out_type)
    result = out_type or dtype
    wide = x.astype(np.float64)
    exact = np.asarray(
        IN_FLOAT64[operation](wide, dims)
        if operation != "LOG_ADD"
        else np.log(np.exp(wide).sum(dims))
    )
    bound = (
        np.abs(wide)
        if operation == "ADD"
        else wide**2
        if operation == "SQUARE_ADD"
        else np.abs(wide) + 1
    ).sum(dims)
    got = bench.run(out)[0]
    assert got.dtype == result.numpy and out.dtype is result
    step = np.spacing(np.abs(exact).astype(result.numpy)).astype(np.float64) / 2
    assert np.all(np.abs(got - exact) <= 1.001 * step + 4 * x.size * 2.0**-24 * bound)
    assert_same_bits(bench.run(out, vertex_loop=True)[0], got)
    bench.check_mapped(out)


@pytest.mark.parametrize("shape", [(1,), (7, 5), (50, 3), (0, 4), (3, 0)])
@pytest.mark.parametrize("tiles", [1, 13])
def test_reductions_of_truth(shape: tuple[int, ...], tiles: int) -> None:
    for chance in (0.05, 0.95):
        bench = Bench(tiles)
        x = np.random.default_rng(1).random(shape) < chance
        a = bench.variable(x, BOOL)
        every = popops.reduce(bench.graph, a, [0], bench.prog, "LOGICAL_AND")
        some = popops.reduce(bench.graph, a, [0], bench.prog, "LOGICAL_OR")
        got = bench.run(every, some)
        assert_same_bits(got[0], np.asarray(x.all(0)))
        assert_same_bits(got[1], np.asarray(x.any(0)))


@pytest.mark.parametrize("operation", ["SQUARE_ADD", "LOG_ADD"])
def test_without_rows_the_neutral_element(operation: str) -> None:
    bench = Bench()
    out = popops.reduce(bench.graph, bench.variable(np.zeros((0, 3))), [0], bench.prog, operation)
    assert bench.run(out)[0].tolist() == [{"SQUARE_ADD": 0, "LOG_ADD": -np.inf}[operation]] * 3


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("operation", ["ADD", "SQUARE_ADD"])
@pytest.mark.parametrize("tensor", [False, True])
@pytest.mark.parametrize("shape", [(4, 3), (500, 3)])
def test_scale_and_update(
    dtype: type[DType], operation: str, tensor: bool, shape: tuple[int, int]
) -> None:
    bench, rng = Bench(), np.random.default_rng(5)
    x, before = (
        rng.integers(-3, 4, shape).astype(dtype.numpy),
        rng.integers(-9, 9, 3).astype(dtype.numpy),
    )
    a, out = bench.variable(x, dtype), bench.variable(before, dtype)
    scale: Any = bench.variable(0.5) if tensor else 0.5
    scaled = popops.reduce(
        bench.graph, a, [0], bench.prog, popops.ReduceParams(operation, scale=scale)
    )
    popops.reduce_with_output(
        bench.graph, a, out, [0], bench.prog, popops.ReduceParams(operation, update=True)
    )
    popops.reduce_with_output(
        bench.graph, a, out, [0], bench.prog, popops.ReduceParams(operation, scale, True)
    )
    total = (x.astype(np.float64) ** (2 if operation == "SQUARE_ADD" else 1)).sum(0)
    got = bench.run(scaled, out)
    # whole numbers and halves: exact in any order
    assert_same_bits(got[0], (0.5 * total).astype(dtype.numpy))
    assert_same_bits(got[1], (before + 1.5 * total).astype(dtype.numpy))


def test_many_reductions_take_the_compute_sets_of_one() -> None:
    bench, rng = Bench(), np.random.default_rng(6)
    x, y, z = rng.integers(0, 9, (600, 3)), rng.integers(0, 9, (2, 40)), rng.random((5, 4)) < 0.9
    a, b, c = bench.variable(x), bench.variable(y, INT), bench.variable(z, BOOL)
    ops = [
        popops.SingleReduceOp(a, [0]),
        popops.SingleReduceOp(b, [1], "MAX"),
        popops.SingleReduceOp(c, [0, 1], popops.ReduceParams("LOGICAL_AND")),
        popops.SingleReduceOp(a, [0], "MIN"),
    ]
    outs = popops.reduce_many(bench.graph, ops, bench.prog, "n")
    assert [s.name for s in bench.graph.compute_sets] == [
        "n/Reduce/InToIntermediate",
        "n/Reduce/IntermediateToOutput",
    ]
    wanted = [
        x.sum(0).astype(np.float32),
        y.max(1).astype(np.int32),
        np.asarray(z.all()),
        x.min(0).astype(np.float32),
    ]
    for got, expected in zip(bench.run(*outs), wanted, strict=True):
        assert_same_bits(got, expected)
    given_outs = [bench.variable(np.zeros(3)), bench.variable(np.zeros(2), INT)]
    assert popops.reduce_many(bench.graph, ops[:2], bench.prog, outputs=given_outs) == given_outs
    assert_same_bits(bench.run(given_outs[0])[0], wanted[0])
    assert popops.reduce_many(bench.graph, [], bench.prog) == []


def test_a_plan_can_be_printed_and_drawn() -> None:
    target = Bench(13).device.target
    plan = popops.plan_reduce(600, 3, FLOAT, target)
    assert plan.row_blocks > 1 and plan.cycles == sum(s.cycles for s in plan.stages)
    first, last = plan.stages
    assert (first.name, first.vertices, first.rows) == (
        "InToIntermediate",
        plan.row_blocks,
        -(-600 // plan.row_blocks),
    )
    assert repr(plan) == (
        f"ReducePlan({plan.row_blocks} blocks of rows; InToIntermediate: {first.vertices} vertices "
        f"of {first.rows} x 3, then IntermediateToOutput: 1 vertex of {last.rows} x 3; "
        f"{plan.cycles:,} cycles modelled)"
    )
    drawn = plan._repr_html_()
    assert drawn.startswith("<img src='data:image/svg+xml;base64,") and drawn.count("<tr>") == 3
    assert (
        f"alt='Plan of a reduction: {plan.row_blocks} blocks of rows, {plan.cycles:,} cycles "
        "modelled'><table>" in drawn
    )
    assert f"<td>{first.exchange_bytes:,}</td>" in drawn
    one = popops.plan_reduce(2, 3, FLOAT, target, "MAX")
    assert one.row_blocks == 1 and [s.name for s in one.stages] == ["InToOutput"]


@pytest.mark.parametrize("inside", [FLOAT, HALF])
@pytest.mark.parametrize("between", [FLOAT, HALF])
@pytest.mark.parametrize("dtype", [FLOAT, HALF])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("in_blocks", [False, True])
def test_a_reduction_is_carried_in_the_types_of_its_options(
    inside: type[DType],
    between: type[DType],
    dtype: type[DType],
    columns: int,
    in_blocks: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Begun where the rows lie, and in blocks of rows."""
    if in_blocks:
        monkeypatch.setattr(reductions, "placement_of", lambda *_: None)
    rows, options = (
        700,
        {"accumType.inVertex": inside, "accum_type.inter_tile": between.__name__.lower()},
    )
    x = np.random.default_rng(1).standard_normal((rows, columns)).astype(dtype.numpy)
    bench = Bench()
    given_x = bench.variable(x, dtype)
    tiles = np.array(bench.check_mapped(given_x)).reshape(x.shape)
    out = popops.reduce(bench.graph, given_x, [0], bench.prog, options=options, out_type=FLOAT)
    blocks = popops.plan_reduce(
        rows, columns, dtype, bench.device.target, options=options
    ).row_blocks
    assert blocks > 1

    def in_a_row(values: Array) -> Array:
        total = values[0].astype(inside.numpy)
        for value in values[1:]:
            total = (total + value.astype(inside.numpy)).astype(inside.numpy)
        return total

    shared = any("by_worker" in c.__name__ for c in bench.graph.compute_sets[0].tables)
    assert shared == (columns == 1 and in_blocks)

    def added(values: Array) -> Array:
        """One long column in six shares, one for each worker."""
        if not shared:
            return in_a_row(values)
        ends = [i * len(values) // 6 for i in range(7)]
        return in_a_row(
            np.array([in_a_row(values[a:b]) for a, b in zip(ends, ends[1:], strict=False)])
        )

    cuts = [
        [x[i * rows // blocks : (i + 1) * rows // blocks, c] for i in range(blocks)]
        if in_blocks
        else [x[tiles[:, c] == t, c] for t in np.unique(tiles)]
        for c in range(columns)
    ]
    each = [np.array([added(part).astype(between.numpy) for part in column]) for column in cuts]
    wanted = np.array([in_a_row(column) for column in each]).astype(np.float32)
    assert_same_bits(bench.run(out)[0], wanted)
    assert_same_bits(bench.run(out, vertex_loop=True)[0], wanted)


def test_partial_sums_of_half_are_half_the_bytes() -> None:
    target = Bench(13).device.target
    wide, narrow = (
        popops.plan_reduce(600, 300, HALF, target, options=o)
        for o in (None, {"accumType.interTile": "half"})
    )
    assert wide.row_blocks == narrow.row_blocks > 1
    assert wide.stages[1].exchange_bytes == 2 * narrow.stages[1].exchange_bytes


def test_reductions_with_one_list_of_compute_sets_run_side_by_side() -> None:
    rng, bench = np.random.default_rng(2), Bench()
    x, y, z = rng.standard_normal((600, 3)), rng.standard_normal((2, 40)), rng.standard_normal(900)
    a, b, c = (bench.variable(v.astype(np.float32)) for v in (x, y, z))
    into: list[Any] = []
    outs = [popops.reduce(bench.graph, b, [0], into)]
    assert [cs.name for cs in into] == ["reduce/Reduce/InToOutput"] and not bench.prog.programs
    outs.append(popops.reduce(bench.graph, a, [0], into, "MAX", "more"))
    popops.reduce_with_output(bench.graph, c, made := bench.variable(np.zeros(())), [0], into)
    outs += popops.reduce_many(bench.graph, [popops.SingleReduceOp(a, [1])], into)
    assert [cs.name for cs in into] == [
        "reduce/Reduce/InToOutput",
        "more/Reduce/IntermediateToOutput",
    ]
    for compute_set in into:
        bench.prog.add(Execute(compute_set))
    got = bench.run(*outs, made)
    wanted = [y.sum(axis=0), x.max(axis=0), x.sum(axis=1), z.sum()]
    for found, expected in zip([got[0], got[1], got[2], got[3]], wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)
    assert bench.report is not None and len(bench.report.compute_sets) == 2


@pytest.mark.parametrize("operation", popops.REDUCTIONS)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (97, 3), (300, 50), (5, 0), (0, 5)])
def test_plans_of_all_operations_are_the_cheapest(operation: str, rows: int, columns: int) -> None:
    target = Bench(20).device.target
    dtype = BOOL if operation.startswith("LOGICAL") else HALF
    plan = popops.plan_reduce(rows, columns, dtype, target, operation)
    most = max(1, min(rows, 20)) if columns else 1
    costs = [
        reduction_plan.reduce_stages(rows, columns, b, dtype, target, operation).cycles
        for b in range(1, most + 1)
    ]
    assert plan.cycles == min(costs) and plan.row_blocks == 1 + costs.index(min(costs))


def test_more_tiles_than_elements() -> None:
    bench = Bench(1472)
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    a = bench.variable(x)
    outs = [
        popops.reduce(bench.graph, a, [0, 1], bench.prog),
        popops.sort(bench.graph, a, 0, bench.prog),
        popops.multi_slice(bench.graph, a, bench.variable([[4], [0]], INT), [0], [1], bench.prog),
        popops.exp(bench.graph, a, bench.prog),
    ]
    got = bench.run(*outs)
    assert (
        got[0] == 105 and np.array_equal(got[1], x) and np.array_equal(got[2], x[[4, 0]][:, None])
    )
    assert prod(outs[3].shape) == 15


def test_library_vertices_are_found_again_in_another_process(tmp_path: Path) -> None:
    """What was made for an expression, a reduction, an order and a slice is described by plain
    values, and remade from them."""
    script = """
        import sys
        from ipu_teach import *
        from ipu_teach.engine.executable import Executable
        from ipu_teach.poplibs import popops, poputil
        from ipu_teach.poplibs.popops import expr
        from ipu_teach.program import Sequence

        device = IPUModel(tiles_per_ipu=3).create_device()
        if sys.argv[1] == "save":
            graph, prog = Graph(device), Sequence()
            x = graph.add_constant(FLOAT, (4, 3), [[1, 5, 3], [2, 2, 2], [9, 8, 7], [0, 1, 0]])
            row = graph.add_constant(UNSIGNED_INT, (1,), 2)
            poputil.map_tensor_linearly(graph, x)
            graph.set_tile_mapping(row, 1)
            y = popops.map(graph, expr.Select(expr._1 * 2, 0.5, expr._1 > 1), [x], prog)
            y = popops.sort(graph, y, 1, prog)
            total = popops.reduce(graph, y, [0], prog, popops.ReduceParams("SQUARE_ADD", scale=0.5))
            taken = popops.dynamic_slice(graph, y, row, [0], [1], prog)
            graph.create_host_read("total", total)
            graph.create_host_read("taken", taken)
            compile_graph(graph, prog).save(sys.argv[2])
        engine = Engine(Executable.load(sys.argv[2]))
        engine.load(device)
        engine.run()
        print(engine.read_tensor("total").tolist(), engine.read_tensor("taken").tolist(), engine.report.total_cycles)
    """
    code = tmp_path / "program.py"
    code.write_text(textwrap.dedent(script), encoding="utf-8")
    root = str(Path(__file__).resolve().parents[1])
    said = [
        subprocess.run(
            [sys.executable, str(code), what, str(tmp_path / "library.ipu")],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": root},
        ).stdout
        for what in ("save", "load")
    ]
    assert (
        said[0].startswith("[106.25, 154.125, 220.125] [[14.0, 16.0, 18.0]] ")
        and said[1] == said[0]
    )


class Clipped(Vertex):
    """Takes with a mode that never fails, which can be written down for all vertices at once."""

    x: Input[Vector[FLOAT]]
    at: Input[Vector[INT]]
    out: Output[Vector[FLOAT]]

    def compute(self):
        self.out = np.take(self.x, self.at, mode="clip")


class Checked(Clipped):
    """Takes as numpy does by default: a place that is not there stops the run."""

    def compute(self):
        self.out = np.take(self.x, self.at)


@pytest.mark.parametrize(("codelet", "apart"), [(Clipped, False), (Checked, True)])
def test_only_a_take_that_never_fails_runs_batched(codelet: type[Vertex], apart: bool) -> None:
    bench = Bench(4)
    x, at = (
        bench.variable(np.arange(12).reshape(4, 3)),
        bench.variable([[0, 2], [9, -5], [1, 1], [2, 0]], INT),
    )
    if apart:
        at = bench.variable([[0, 2], [1, 0], [1, 1], [2, 0]], INT)
    out = bench.variable(np.zeros((4, 2)))
    step = bench.graph.add_compute_set("take")
    for row in range(4):
        vertex = bench.graph.add_vertex(step, codelet, x=x[row], at=at[row], out=out[row])
        bench.graph.set_tile_mapping(vertex, row)
        bench.graph.set_perf_estimate(vertex, 10)
    bench.prog.add(Execute(step))
    wanted = [[0, 2], [4, 3] if apart else [5, 3], [7, 7], [11, 9]]
    assert bench.run(out)[0].tolist() == bench.run(out, vertex_loop=True)[0].tolist() == wanted
    bench.run(out)
    assert bench.report is not None
    assert bool(bench.report.unbatched()) is apart
