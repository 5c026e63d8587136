"""PopLibs against numpy: values bit for bit, where they lie, what they exchange, which plans are
chosen, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from poplibs_bench import (
    DTYPES,
    FLOATS,
    LENGTHS,
    NUMERIC,
    RANDOMLY,
    SEEDS,
    SHAPES,
    VIEWS,
    Bench,
    TensorKinds,
    as_view,
    assert_same_bits,
    sample,
    target_of,
)

from ipu_teach import (
    BOOL,
    CHAR,
    FLOAT,
    HALF,
    INT,
    LONGLONG,
    UNSIGNED_CHAR,
    UNSIGNED_INT,
    Engine,
    Graph,
    IPUTeachError,
    Tensor,
    concat,
)
from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import arrival_cycles
from ipu_teach.errors import (
    ComputeSetRaceError,
    InvalidTileMappingError,
    PoplarIndexError,
    PoplarTypeError,
    PoplibsError,
    TensorCreationError,
)
from ipu_teach.poplibs import poplin, popnn, popops, poputil
from ipu_teach.poplibs.popops import reduction_plan, reductions
from ipu_teach.program import Execute
from ipu_teach.target import Target
from ipu_teach.types import Array, DType

TILES = (1, 2, 13, 1472)
Interval = tuple[int, int]


# --- poputil: who lies where ----------------------------------------------------------------------


def grain_by_grain(count: int, grain: int, least: int, tiles: int) -> list[list[Interval]]:
    """The linear mapping, by asking of every grain on which tile it lies."""
    grains = -(-count // grain)
    mapping: list[list[Interval]] = [[] for _ in range(tiles)]
    if count == 0:
        return mapping
    most = max(-(-grains // tiles), -(-least // grain), 1)
    used = -(-grains // most)
    owner = [
        next(t for t in range(used) if t * grains // used <= g < (t + 1) * grains // used)
        for g in range(grains)
    ]
    for tile in range(used):
        own = [g for g in range(grains) if owner[g] == tile]
        assert own == list(range(own[0], own[-1] + 1))
        mapping[tile] = [(own[0] * grain, min((own[-1] + 1) * grain, count))]
    return mapping


GOLDEN = [
    # elements, dtype, tiles: the intervals of the tiles that are used, worked out by hand
    (1, FLOAT, 13, [(0, 1)]),
    (32, FLOAT, 13, [(0, 32)]),
    (33, FLOAT, 13, [(0, 16), (16, 33)]),
    (100, FLOAT, 13, [(0, 24), (24, 50), (50, 74), (74, 100)]),
    (100, FLOAT, 2, [(0, 50), (50, 100)]),
    (100, FLOAT, 1, [(0, 100)]),
    (64, HALF, 13, [(0, 64)]),
    (65, HALF, 13, [(0, 32), (32, 65)]),
    (100, UNSIGNED_CHAR, 13, [(0, 100)]),
    (129, CHAR, 13, [(0, 64), (64, 129)]),
    (33, LONGLONG, 13, [(0, 11), (11, 22), (22, 33)]),
    (
        1000,
        HALF,
        13,
        [
            (0, 76),
            (76, 152),
            (152, 228),
            (228, 304),
            (304, 384),
            (384, 460),
            (460, 536),
            (536, 612),
            (612, 692),
            (692, 768),
            (768, 844),
            (844, 920),
            (920, 1000),
        ],
    ),
]


@pytest.mark.parametrize(("count", "dtype", "tiles", "used"), GOLDEN)
def test_linear_mapping_golden_table(
    count: int, dtype: type[DType], tiles: int, used: list[Interval]
) -> None:
    graph = Graph(target_of(tiles))
    wanted = [[interval] for interval in used] + [[] for _ in range(tiles - len(used))]
    assert poputil.calc_linear_tile_mapping(graph, count, dtype) == wanted
    assert poputil.calc_linear_tile_mapping(graph, (count,), dtype) == wanted


@given(
    st.one_of(
        st.integers(0, 3000), st.sampled_from([0, 1, 31, 32, 33, 1471, 1472, 1473, 2944, 47104])
    ),
    st.sampled_from([*NUMERIC, BOOL]),
    st.sampled_from(TILES),
    st.sampled_from([None, 0, 1, 5, 100]),
    st.sampled_from([None, 1, 3, 16]),
)
@settings(RANDOMLY, max_examples=200)
def test_linear_mapping_follows_its_rule(
    count: int, dtype: type[DType], tiles: int, least: int | None, grain: int | None
) -> None:
    graph = Graph(target_of(tiles))
    mapping = poputil.calc_linear_tile_mapping(graph, count, dtype, least, grain)
    grain = max(1, 8 // dtype.size) if grain is None else grain
    least = -(-128 // dtype.size) if least is None else least
    if count <= 3000:
        assert mapping == grain_by_grain(count, grain, least, tiles)
    sizes = [sum(end - begin for begin, end in pieces) for pieces in mapping]
    assert len(mapping) == tiles
    assert [i for pieces in mapping for i in pieces] == sorted(
        i for pieces in mapping for i in pieces
    )
    assert sum(sizes) == count
    grains = [-(-s // grain) for s in sizes if s]  # the last may be cut short
    assert not grains or max(grains) - min(grains) <= 1
    assert all(sizes[: len(grains)])


def test_map_tensor_linearly_maps_views_in_their_own_order() -> None:
    graph = Graph(target_of(4))
    matrix = graph.add_variable(FLOAT, (8, 16), "matrix")
    poputil.map_tensor_linearly(graph, matrix.transpose())
    assert graph.get_tile_mapping(matrix.transpose()) == poputil.calc_linear_tile_mapping(
        graph, (16, 8), FLOAT
    )
    constant = graph.add_constant(INT, (100,), 7)
    poputil.map_tensor_linearly(graph, constant, min_elements_per_tile=1, grain_size=10)
    assert graph.get_tile_mapping(constant) == [[(0, 20)], [(20, 50)], [(50, 70)], [(70, 100)]]


@RANDOMLY
@given(st.integers(0, 500), st.integers(1, 60))
def test_balanced_partition_covers_everything_once(count: int, parts: int) -> None:
    found = poputil.balanced_partition(count, parts)
    assert [i for begin, end in found for i in range(begin, end)] == list(range(count))
    sizes = [end - begin for begin, end in found]
    assert len(sizes) == parts and max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [
        ((), (3, 4)),
        ((1,), (5,)),
        ((4,), (3, 4)),
        ((3, 1), (3, 4)),
        ((3, 4), (3, 4)),
        ((1, 1), (2, 3)),
        ((4,), (0, 4)),
        ((1, 4), (2, 3, 4)),
        ((), ()),
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_broadcast_to_match_is_numpys_view(
    shape: tuple[int, ...], wanted: tuple[int, ...], listed: bool
) -> None:
    graph = Graph(target_of(2))
    tensor = graph.add_variable(FLOAT, shape, "x")
    if listed and shape and shape[0] > 1:
        tensor = concat([tensor[1:], tensor[:1]])
    seen = poputil.broadcast_to_match(tensor, wanted)
    assert seen.shape == wanted
    assert np.array_equal(seen.positions(), np.broadcast_to(tensor.positions(), wanted))


def test_clone_lies_where_its_original_does() -> None:
    graph = Graph(target_of(4))
    tensor = graph.add_variable(FLOAT, (6, 5), "x")
    for row in range(6):
        graph.set_tile_mapping(tensor[row], row % 4)
    for made, dtype in (
        (poputil.clone(graph, tensor.T, "a"), FLOAT),
        (poputil.clone(graph, tensor.T, "b", HALF), HALF),
    ):
        assert made.dtype is dtype and made.shape == (5, 6)
        assert graph.get_tile_mapping(made) == graph.get_tile_mapping(tensor.T)


# --- popops: element by element -------------------------------------------------------------------

BINARY = {
    "add": (popops.add, popops.add_in_place, np.add),
    "sub": (popops.sub, popops.sub_in_place, np.subtract),
    "mul": (popops.mul, popops.mul_in_place, np.multiply),
}


@given(
    st.sampled_from(sorted(BINARY)),
    DTYPES,
    SHAPES,
    VIEWS,
    VIEWS,
    st.sampled_from([1, 2, 13]),
    SEEDS,
    st.sampled_from(["same", "row", "column", "scalar", "one", "outer"]),
    st.booleans(),
)
@settings(RANDOMLY, max_examples=60)
def test_elementwise_equals_numpy(
    name: str,
    dtype: type[DType],
    shape: tuple[int, ...],
    a_view: str,
    b_view: str,
    tiles: int,
    seed: int,
    other: str,
    swap: bool,
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    other_shape = {
        "same": shape,
        "row": shape[-1:],
        "column": (*shape[:-1], 1) if shape else (),
        "scalar": (),
        "one": (1,) * len(shape),
        "outer": (5, *(1 for _ in shape)),
    }[other]
    x, y = sample(rng, shape, dtype), sample(rng, other_shape, dtype)
    a, b = as_view(bench, x, dtype, a_view), as_view(bench, y, dtype, b_view)
    function, in_place, ufunc = BINARY[name]
    out = (
        function(bench.graph, b, a, bench.prog) if swap else function(bench.graph, a, b, bench.prog)
    )
    checks: list[tuple[Tensor, Any]] = []
    with np.errstate(all="ignore"):
        checks.append((out, ufunc(y, x) if swap else ufunc(x, y)))
        if np.broadcast_shapes(shape, other_shape) == shape:
            in_place(bench.graph, a, b, bench.prog)
            checks.append((a, ufunc(x, y)))
    fast, slow = (
        bench.run(*(t for t, _ in checks)),
        bench.run(*(t for t, _ in checks), vertex_loop=True),
    )
    bench.check_mapped(out)
    for got, loop, (_, wanted) in zip(fast, slow, checks, strict=True):
        assert_same_bits(got, wanted)
        assert_same_bits(loop, wanted)
    if dtype is FLOAT:
        exact = ufunc(y.astype(np.float64), x) if swap else ufunc(x.astype(np.float64), y)
        np.testing.assert_allclose(fast[0], exact, rtol=2**-23, atol=1e-38)


@RANDOMLY
@given(st.sampled_from(sorted(BINARY)), DTYPES, SHAPES, VIEWS, st.sampled_from([1, 13]), SEEDS)
def test_numbers_on_either_side_equal_numpy(
    name: str, dtype: type[DType], shape: tuple[int, ...], view: str, tiles: int, seed: int
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    number = float(rng.standard_normal()) if dtype in FLOATS else int(rng.integers(0, 100))
    held = dtype.numpy.type(number)
    x = sample(rng, shape, dtype)
    a = as_view(bench, x, dtype, view)
    function, in_place, ufunc = BINARY[name]
    right, left = (
        function(bench.graph, a, number, bench.prog),
        function(bench.graph, number, a, bench.prog),
    )
    as_numpy = function(bench.graph, a, held, bench.prog)
    in_place(bench.graph, a, number, bench.prog)
    got = bench.run(right, left, as_numpy, a)
    with np.errstate(all="ignore"):
        wanted = [ufunc(x, held), ufunc(held, x), ufunc(x, held), ufunc(x, held)]
    for found, expected in zip(got, wanted, strict=True):
        assert_same_bits(found, expected)
    for out in (right, left, as_numpy):
        assert bench.check_mapped(out) == bench.check_mapped(a)


SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    -1e-45,
    6e-8,
    3e38,
    65504.0,
    2049.0,
    1 / 3,
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", sorted(BINARY))
def test_special_values_equal_numpy(dtype: type[DType], name: str) -> None:
    with np.errstate(all="ignore"):
        values = np.array(SPECIAL).astype(dtype.numpy)
        bench = Bench()
        a, b = bench.variable(values[:, None], dtype), bench.variable(values, dtype)
        function, _, ufunc = BINARY[name]
        assert_same_bits(
            bench.run(function(bench.graph, a, b, bench.prog))[0], ufunc(values[:, None], values)
        )


@pytest.mark.parametrize("tiles", TILES)
@pytest.mark.parametrize("shape", [(1,), (1471,), (50, 97), (0,), (3, 0)])
def test_every_machine_gives_the_same_values(tiles: int, shape: tuple[int, ...]) -> None:
    rng, bench = np.random.default_rng(3), Bench(tiles)
    x, y = sample(rng, shape, FLOAT), sample(rng, shape, FLOAT)
    a, b = bench.variable(x), bench.variable(y)
    total = popops.add(bench.graph, a, b, bench.prog)
    popops.scaled_add_to(bench.graph, a, b, 0.1, bench.prog)
    half = popops.cast(bench.graph, b, HALF, bench.prog)
    popops.fill(bench.graph, b, bench.prog, 4)
    got = bench.run(total, a, half, b)
    with np.errstate(over="ignore"):
        wanted = [
            x + y,
            x + np.float32(0.1) * y,
            y.astype(np.float16),
            np.full(shape, 4, np.float32),
        ]
    for found, expected in zip(got, wanted, strict=True):
        assert_same_bits(found, expected)
    assert len(bench.graph.compute_sets) == 4


@RANDOMLY
@given(DTYPES, SHAPES, VIEWS, VIEWS, st.sampled_from([1, 13]), SEEDS)
def test_scaled_add_rounds_the_product_then_the_sum(
    dtype: type[DType], shape: tuple[int, ...], a_view: str, b_view: str, tiles: int, seed: int
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    x, y = sample(rng, shape, dtype), sample(rng, shape, dtype)
    k = -0.3 if dtype in FLOATS else 3
    a, b = as_view(bench, x, dtype, a_view), as_view(bench, y, dtype, b_view)
    popops.scaled_add_to(bench.graph, a, b, k, bench.prog, options={"scaleFloatToHalfTolerance": 1})
    with np.errstate(all="ignore"):
        wanted = x + dtype.numpy.type(k) * y
    assert_same_bits(bench.run(a)[0], wanted)
    assert_same_bits(bench.run(a, vertex_loop=True)[0], wanted)
    if dtype is FLOAT:
        exact = x.astype(np.float64) - 0.3 * y
        np.testing.assert_allclose(
            wanted, exact, rtol=2**-22, atol=2**-22 * np.abs(y).max(initial=0)
        )


@RANDOMLY
@given(DTYPES, st.sampled_from([*NUMERIC, BOOL]), SHAPES, VIEWS, st.sampled_from([1, 13]), SEEDS)
def test_cast_equals_numpy(
    source: type[DType],
    destination: type[DType],
    shape: tuple[int, ...],
    view: str,
    tiles: int,
    seed: int,
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    x = sample(rng, shape, source)
    # only what fits: out of range, C leaves it open
    if source in FLOATS and destination not in FLOATS:
        x = np.asarray(rng.uniform(0, 100, shape)).astype(source.numpy)
    a = as_view(bench, x, source, view)
    out = popops.cast(bench.graph, a, destination, bench.prog)
    with np.errstate(all="ignore"):
        assert_same_bits(bench.run(out)[0], x.astype(destination.numpy))
    assert bench.check_mapped(out) == bench.check_mapped(a)


def test_casts_round_to_nearest_even_and_cut_towards_zero() -> None:
    bench = Bench()
    floats = bench.variable([2049, 2051, 2050, 65519, 65520, 1e-8, -7.9, 7.9])
    half = popops.cast(bench.graph, floats, HALF, bench.prog)
    whole = popops.cast(bench.graph, floats, INT, bench.prog)
    truth = popops.cast(bench.graph, floats, BOOL, bench.prog)
    got = bench.run(half, whole, truth)
    assert got[0].tolist() == [2048, 2052, 2050, 65504, np.inf, 0, -7.8984375, 7.8984375]
    assert got[1].tolist() == [2049, 2051, 2050, 65519, 65520, 0, -7, 7]
    assert got[2].tolist() == [True] * 8


@pytest.mark.parametrize("dtype", [*NUMERIC, BOOL])
@pytest.mark.parametrize("shape", [(), (1,), (67,), (5, 7), (0,)])
def test_fill_writes_every_element(dtype: type[DType], shape: tuple[int, ...]) -> None:
    bench = Bench()
    whole = bench.variable(np.zeros(shape), dtype)
    value = True if dtype is BOOL else 0.1 if dtype in FLOATS else 77
    popops.fill(bench.graph, whole, bench.prog, value)
    assert_same_bits(bench.run(whole)[0], np.full(shape, value, dtype.numpy))


def test_fill_leaves_the_rest_of_a_variable_alone() -> None:
    bench = Bench()
    matrix = bench.variable(np.arange(70).reshape(7, 10))
    popops.fill(bench.graph, matrix.transpose()[2:4], bench.prog, -1)
    wanted = np.arange(70, dtype=np.float32).reshape(7, 10)
    wanted[:, 2:4] = -1
    assert_same_bits(bench.run(matrix)[0], wanted)


def test_the_result_lies_where_the_larger_operand_does() -> None:
    bench = Bench(5)
    graph = bench.graph
    here, there = (graph.add_variable(FLOAT, (4, 3), n) for n in ("here", "there"))
    small = graph.add_variable(FLOAT, (3,), "small")
    one = graph.add_variable(FLOAT, (), "one")
    for tensor, tile in ((here, 1), (there, 2), (small, 3), (one, 4)):
        graph.set_tile_mapping(tensor, tile)
        graph.set_initial_value(tensor, 1)
    cases: list[tuple[Any, Any, int]] = [
        (here, there, 1),
        (there, here, 2),
        (small, here, 1),
        (here, small, 1),
        (one, small, 3),
        (5, one, 4),
        (one, 5, 4),
    ]
    for a, b, tile in cases:
        assert set(bench.check_mapped(popops.sub(graph, a, b, bench.prog))) == {tile}
    column = graph.add_variable(FLOAT, (50, 1), "column")
    graph.set_tile_mapping(column, 1)
    graph.set_initial_value(column, 1)
    outer = popops.mul(graph, column, small, bench.prog)
    assert graph.get_tile_mapping(outer) == poputil.calc_linear_tile_mapping(graph, (50, 3), FLOAT)
    assert bench.run(outer)[0].shape == (50, 3)


# --- popops: reductions ---------------------------------------------------------------------------

UFUNCS: dict[str, np.ufunc] = {
    "ADD": np.add,
    "MUL": np.multiply,
    "MAX": np.maximum,
    "MIN": np.minimum,
}


def one_after_the_other(rows: list[Array], ufunc: np.ufunc) -> Array:
    total = rows[0].copy()
    for row in rows[1:]:
        total = ufunc(total, row).astype(total.dtype)
    return total


def planned_reduction(
    graph: Graph, tensor: Tensor, out: Tensor, x: Array, dims: tuple[int, ...], operation: str
) -> Array:
    """x reduced in the order of the plan, in x's own dtype; sums of HALF in FLOAT. Either row by row
    in blocks, then block by block; or row by row on each tile that has some of a column, then tile
    by tile, in the order of their first rows, in blocks if the plan has any.

    Few long columns in six shares, unless a worker has them for itself: of one column by ADD, MAX
    or MIN, of up to eight of FLOAT and HALF. The plan itself is private: `reduce` takes options, and
    returns no plan.
    """
    kept, dtype = tuple(d for d in range(x.ndim) if d not in dims), tensor.dtype
    shape = tuple(x.shape[d] for d in kept)
    size = prod(x.shape[d] for d in dims), prod(shape)
    rows, ufunc = x.transpose(dims + kept).reshape(size), UFUNCS[operation]
    if len(rows) == 0:
        return np.full(shape, 0 if operation == "ADD" else 1, x.dtype)
    if operation == "ADD" and dtype is HALF:  # carried in FLOAT, rounded once
        rows = rows.astype(np.float32)

    def stage(part: list[Array], longest: int, columns: int) -> Array:
        few = operation in ("ADD", "MAX", "MIN") and (
            columns == 1 or (columns <= 8 and dtype in FLOATS)
        )
        if not few or longest < 32 * columns:
            return one_after_the_other(part, ufunc)
        ends = [i * len(part) // 6 for i in range(7)]
        return one_after_the_other(
            [one_after_the_other(part[a:b], ufunc) for a, b in zip(ends, ends[1:], strict=False)],
            ufunc,
        )

    def in_blocks(part: list[Array], blocks: int, columns: int, evenly: bool) -> list[Array]:
        cuts = [i * len(part) // blocks for i in range(blocks + 1)]
        return [
            stage(part[a:b], -(-len(part) // blocks) if evenly else b - a, columns)
            for a, b in zip(cuts, cuts[1:], strict=False)
        ]

    job = reductions._job(graph, popops.SingleReduceOp(tensor, dims, operation), out, None)
    plan = reductions._plan(graph, job)
    with np.errstate(all="ignore"):
        if isinstance(plan, popops.ReducePlan):
            parts = in_blocks(list(rows), plan.row_blocks, size[1], True)
            result = stage(parts, len(parts), size[1]) if len(parts) > 1 else parts[0]
            return np.asarray(result.reshape(shape).astype(x.dtype))
        found = plan.placement
        tiles = graph.tile_map().at(job.matrix.positions() * dtype.size)
        alone = set(found.groups.tile[plan.alone > 0].tolist())
        sums = [list[Array]() for _ in range(size[1])]
        some = [(c, t) for c in range(size[1]) for t in dict.fromkeys(tiles[:, c].tolist())]
        for c, tile in some:
            have = tiles == tile
            unlike = np.flatnonzero((have != have[:, c : c + 1]).any(0))  # columns that end a group
            wide = min([size[1], *unlike[unlike > c]]) - max([-1, *unlike[unlike < c]]) - 1
            part = list(rows[have[:, c], c])
            sums[c].append(
                one_after_the_other(part, ufunc) if tile in alone else stage(part, len(part), wide)
            )
        for begin, end in found.equal_intervals(plan.width) if plan.blocks > 1 else []:
            for c in range(begin, end):
                sums[c] = in_blocks(sums[c], plan.blocks, end - begin, False)
        whole = size[1] if plan.blocks > 1 else 0
        results = [
            stage(sums[c], len(sums[c]), whole or end - begin)
            for begin, end in found.equal_intervals(size[1])
            for c in range(begin, end)
        ]
    return np.array(results).reshape(shape).astype(x.dtype)


@given(
    st.sampled_from(sorted(UFUNCS)),
    DTYPES,
    SHAPES,
    VIEWS,
    st.sampled_from([1, 2, 13, 50]),
    SEEDS,
    st.randoms(use_true_random=False),
)
@settings(RANDOMLY, max_examples=60)
def test_reduce_equals_numpy(
    operation: str,
    dtype: type[DType],
    shape: tuple[int, ...],
    view: str,
    tiles: int,
    seed: int,
    random: Any,
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    dims = tuple(random.sample(range(len(shape)), random.randint(0, len(shape))))
    x = sample(rng, shape, dtype)
    if operation == "MUL" and dtype in FLOATS:
        x = np.asarray(rng.uniform(0.9, 1.1, shape)).astype(dtype.numpy)
    a = as_view(bench, x, dtype, view)
    given_dims = [d - len(shape) if random.random() < 0.5 else d for d in dims]
    out = popops.reduce(bench.graph, a, given_dims, bench.prog, operation)
    wanted = planned_reduction(bench.graph, a, out, x, dims, operation)
    assert_same_bits(bench.run(out)[0], wanted)
    assert_same_bits(bench.run(out, vertex_loop=True)[0], wanted)
    assert bench.graph.get_tile_mapping(out) == poputil.calc_linear_tile_mapping(
        bench.graph, out.shape, dtype
    )
    if dtype is FLOAT:
        wide = np.asarray(UFUNCS[operation].reduce(x.astype(np.float64), axis=dims))
        scale = np.abs(x.astype(np.float64)).sum(axis=dims) if operation == "ADD" else np.abs(wide)
        assert np.all(
            np.abs(wanted - wide)
            <= (x.size * 2.0**-24 if operation in ("ADD", "MUL") else 0) * scale
        )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 9, 100, 1009])
@pytest.mark.parametrize("tiles", [1, 13])
def test_a_single_column_is_added_first_to_last(dtype: type[DType], rows: int, tiles: int) -> None:
    """numpy by itself would add it in pairs."""
    bench = Bench(tiles)
    x = sample(np.random.default_rng(rows), (rows,), dtype)
    a = bench.variable(x, dtype)
    out = popops.reduce(bench.graph, a, [0], bench.prog)
    assert_same_bits(bench.run(out)[0], planned_reduction(bench.graph, a, out, x, (0,), "ADD"))


@pytest.mark.parametrize("shape", [(1,), (5000,), (3, 700), (200, 40)])
@pytest.mark.parametrize("transposed", [False, True])
def test_reductions_on_the_full_chip(shape: tuple[int, ...], transposed: bool) -> None:
    bench = Bench(1472)
    x = sample(np.random.default_rng(1), shape, FLOAT)
    a = as_view(bench, x, FLOAT, "transposed" if transposed else "plain")
    first, last = (popops.reduce(bench.graph, a, [d], bench.prog) for d in (0, -1))
    outs, axes = (first, last), (0, len(shape) - 1)
    for got, out, axis in zip(bench.run(*outs), outs, axes, strict=True):
        assert_same_bits(got, planned_reduction(bench.graph, a, out, x, (axis,), "ADD"))


@pytest.mark.parametrize("dtype", [*FLOATS, INT])
@pytest.mark.parametrize("operation", ["ADD", "MAX"])
@pytest.mark.parametrize(
    "shape", [(32,), (31, 1), (7, 701), (500, 2), (255, 8), (257, 8), (300, 9)]
)
def test_few_long_columns_are_reduced_by_six_workers(
    shape: tuple[int, ...], operation: str, dtype: type[DType]
) -> None:
    bench = Bench(3)
    x = sample(np.random.default_rng(5), shape, dtype)
    dims = (0, 1) if shape == (7, 701) else (0,)
    a = bench.variable(x, dtype)
    out = popops.reduce(bench.graph, a, dims, bench.prog, operation)
    wanted = planned_reduction(bench.graph, a, out, x, dims, operation)
    assert_same_bits(bench.run(out)[0], wanted)
    assert_same_bits(bench.run(out, vertex_loop=True)[0], wanted)


@pytest.mark.parametrize("tiles", [1, 13, 1472])
@pytest.mark.parametrize("operation", ["ADD", "MAX", "SQUARE_ADD"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_full_reduction_is_not_much_slower_than_one_of_a_dimension(
    dtype: type[DType], operation: str, tiles: int
) -> None:
    """It may take one step more, since all tiles have a part of one result."""

    def cycles(*dims: int) -> float:
        bench = Bench(tiles)
        popops.reduce(
            bench.graph, bench.variable(np.ones((120, 120)), dtype), dims, bench.prog, operation
        )
        bench.run()
        assert bench.report is not None
        return bench.report.total_cycles

    assert cycles(0, 1) <= 1.25 * min(cycles(0), cycles(1))


@pytest.mark.parametrize("operation", ["ADD", "MUL"])
def test_nothing_reduced_is_the_neutral_element(operation: str) -> None:
    bench = Bench()
    empty = bench.graph.add_variable(FLOAT, (0, 5), "empty")
    none = popops.reduce(bench.graph, empty, [1], bench.prog, operation)
    neutral = popops.reduce(bench.graph, empty, [0], bench.prog, operation)
    got = bench.run(none, neutral)
    assert got[0].shape == (0,)
    assert_same_bits(got[1], np.full(5, 0 if operation == "ADD" else 1, np.float32))


def reported_reduction(rows: int, columns: int, tiles: int, transposed: bool) -> float:
    bench = Bench(tiles)
    x = bench.variable(np.ones((columns, rows) if transposed else (rows, columns)))
    popops.reduce(bench.graph, x, [1 if transposed else 0], bench.prog)
    bench.run()
    assert bench.report is not None
    return bench.report.total_cycles


@pytest.mark.parametrize(
    ("rows", "columns", "tiles"),
    [(50, 10, 13), (50, 1, 13), (100, 1000, 40), (100, 100, 40), (1000, 3, 4)],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_the_plan_of_a_reduction_is_near_the_best(
    rows: int, columns: int, tiles: int, transposed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the report sees it, which also knows where the elements lie."""
    chosen = reported_reduction(rows, columns, tiles, transposed)
    every = []
    for blocks in range(1, min(rows, tiles) + 1):
        monkeypatch.setattr(
            reductions, "planned", lambda *_, blocks=blocks: popops.ReducePlan(blocks, 0)
        )
        every.append(reported_reduction(rows, columns, tiles, transposed))
    assert chosen <= 1.25 * min(every)


@given(
    st.integers(0, 300),
    st.integers(0, 300),
    st.sampled_from([FLOAT, HALF, INT]),
    st.sampled_from([1, 2, 13, 60]),
)
@settings(RANDOMLY, max_examples=30)
def test_the_plan_of_a_reduction_is_the_cheapest(
    rows: int, columns: int, dtype: type[DType], tiles: int
) -> None:
    target = target_of(tiles)
    plan = popops.plan_reduce(rows, columns, dtype, target)
    most = max(1, min(rows, tiles)) if columns else 1
    costs = [
        reduction_plan.reduce_stages(rows, columns, b, dtype, target).cycles
        for b in range(1, most + 1)
    ]
    assert plan.cycles == min(costs) == costs[plan.row_blocks - 1]


# --- poplin ---------------------------------------------------------------------------------------


def planned_product(a: Array, b: Array, target: Target) -> Array:
    """a @ b in float32: block products where the plan cuts, partial products added first to
    last."""
    plan = poplin.plan_mat_mul(a.shape[0], a.shape[1], b.shape[1], target)
    partials = np.empty((plan.inner_blocks, plan.m, plan.n), np.float32)
    for (r0, r1), (c0, c1), (i, (k0, k1)) in product(
        plan.rows(), plan.columns(), enumerate(plan.inner())
    ):
        partials[i, r0:r1, c0:c1] = np.ascontiguousarray(a[r0:r1, k0:k1]) @ np.ascontiguousarray(
            b[k0:k1, c0:c1]
        )
    return one_after_the_other(list(partials), np.add)


def check_product(
    x: Array, y: Array, tiles: int, a_view: str = "plain", b_view: str = "plain"
) -> None:
    bench = Bench(tiles)
    a, b = as_view(bench, x, FLOAT, a_view), as_view(bench, y, FLOAT, b_view)
    out = poplin.mat_mul(bench.graph, a, b, bench.prog)
    got, wanted = bench.run(out)[0], planned_product(x, y, bench.device.target)
    assert_same_bits(got, wanted)
    assert_same_bits(bench.run(out, vertex_loop=True)[0], wanted)
    bench.check_mapped(out)
    scale = np.abs(x.astype(np.float64)) @ np.abs(y)
    assert np.all(np.abs(got - x.astype(np.float64) @ y) <= x.shape[1] * 2.0**-23 * scale)


@RANDOMLY
@given(LENGTHS, LENGTHS, LENGTHS, VIEWS, VIEWS, st.sampled_from([1, 2, 13, 60]), SEEDS)
def test_mat_mul_equals_numpy(
    m: int, k: int, n: int, a_view: str, b_view: str, tiles: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    check_product(sample(rng, (m, k), FLOAT), sample(rng, (k, n), FLOAT), tiles, a_view, b_view)


@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1), (1, 1009, 1), (1, 997, 3), (1009, 1, 1), (1, 1, 1009), (50, 784, 10), (7, 2000, 5)],
)
@pytest.mark.parametrize("tiles", [1, 13, 1472])
def test_mat_mul_of_odd_shapes(shape: tuple[int, int, int], tiles: int) -> None:
    rng = np.random.default_rng(11)
    check_product(sample(rng, shape[:2], FLOAT), sample(rng, shape[1:], FLOAT), tiles)


@pytest.mark.parametrize("shape", [(17, 9), (1, 40), (40, 1)])
@pytest.mark.parametrize("tiles", [1, 5])
def test_a_matrix_times_its_own_transpose(shape: tuple[int, int], tiles: int) -> None:
    bench = Bench(tiles)
    x = sample(np.random.default_rng(2), shape, FLOAT)
    a = bench.variable(x)
    out = poplin.mat_mul(bench.graph, a, a.transpose(), bench.prog)
    assert_same_bits(bench.run(out)[0], planned_product(x, x.T, bench.device.target))


def test_a_product_that_was_not_cut_lies_on_the_tiles_that_made_it() -> None:
    bench = Bench(13)
    a, b = bench.variable(np.ones((26, 8))), bench.variable(np.ones((8, 3)))
    out = poplin.mat_mul(bench.graph, a, b, bench.prog)
    assert poplin.plan_mat_mul(26, 8, 3, bench.device.target).inner_blocks == 1
    bench.run(out)
    assert bench.report is not None
    received, _ = bench.report.exchange_bytes_per_tile
    multiply = next(c for c in bench.report.compute_sets if c.name == "mat_mul/multiply")
    assert set(np.flatnonzero(multiply.cycles_per_tile)) == set(bench.check_mapped(out))
    assert received.sum() > 0


def every_plan(m: int, k: int, n: int, target: Target) -> Iterator[int]:
    """Modelled cycles of every way to cut the three dimensions into blocks, one a tile at most."""
    tiles = target.num_tiles
    for rows in range(1, min(m, tiles) + 1):
        for inner in range(1, min(k, tiles // rows) + 1):
            for columns in range(1, min(n, tiles // (rows * inner)) + 1):
                bm, bk, bn = -(-m // rows), -(-k // inner), -(-n // columns)
                superstep = target.internal_sync_cycles + int(arrival_cycles(target).max())
                cycles = superstep - (-4 * (bm * bk + bk * bn) // target.exchange_bytes_per_cycle)
                units = int(vertices.conv_partial_1x1(bm, bk, bn, FLOAT, target))
                cycles += min(
                    units, int(vertices.conv_partial_horizontal_mac(bm, bk, bn, FLOAT, target))
                )
                if inner > 1:
                    share = -(-bm * bn // inner)
                    cycles += superstep - (
                        -4 * share * (inner - 1) // target.exchange_bytes_per_cycle
                    )
                    cycles += int(vertices.conv_reduce(share, inner, FLOAT, target))
                yield cycles


def check_blocks(plan: poplin.MatMulPlan, target: Target) -> None:
    """Every product of two elements is made exactly once, on at most one tile each."""
    assert (
        plan.num_blocks
        == plan.row_blocks * plan.inner_blocks * plan.column_blocks
        <= target.num_tiles
    )
    for blocks, size, parts in (
        (plan.rows(), plan.m, plan.row_blocks),
        (
            [b for step in range(plan.inner_steps) for b in plan.inner(step)],
            plan.k,
            plan.inner_steps * plan.inner_blocks,
        ),
        (
            [b for s in range(plan.column_steps) for b in plan.columns(s)],
            plan.n,
            plan.column_steps * plan.column_blocks,
        ),
    ):
        assert len(blocks) == parts and all(begin < end for begin, end in blocks)
        assert [i for begin, end in blocks for i in range(begin, end)] == list(range(size))


@given(st.integers(1, 24), st.integers(1, 24), st.integers(1, 24), st.integers(1, 16))
@settings(RANDOMLY, max_examples=40)
def test_plans_of_small_products_are_near_the_best(m: int, k: int, n: int, tiles: int) -> None:
    target = target_of(tiles)
    plan = poplin.plan_mat_mul(m, k, n, target)
    assert plan.cycles <= 1.15 * min(every_plan(m, k, n, target))
    check_blocks(plan, target)


@pytest.mark.parametrize(
    "shape", [(50, 784, 10), (784, 50, 10), (512, 512, 512), (1000, 1000, 1), (1, 3000, 1)]
)
@pytest.mark.parametrize("tiles", [13, 60, 1472])
def test_plans_of_large_products_are_near_the_best(shape: tuple[int, int, int], tiles: int) -> None:
    target = target_of(tiles)
    plan = poplin.plan_mat_mul(*shape, target)
    assert plan.cycles <= 1.15 * min(every_plan(*shape, target))
    check_blocks(plan, target)


def test_a_huge_product_is_planned_on_the_full_chip() -> None:
    target = target_of(1472)
    plan = poplin.plan_mat_mul(4096, 4096, 4096, target)
    check_blocks(plan, target)
    assert plan.num_blocks > 1472 // 2


def test_the_report_costs_a_product_as_its_plan_does() -> None:
    """The plan lets every block come from another tile, so the report finds less to exchange."""
    bench = Bench(13)
    a, b = bench.variable(np.ones((50, 784))), bench.variable(np.ones((784, 10)))
    poplin.mat_mul(bench.graph, a, b, bench.prog)
    bench.run()
    assert bench.report is not None
    target, plan = bench.device.target, poplin.plan_mat_mul(50, 784, 10, bench.device.target)
    multiply, add_up = bench.report.compute_sets
    assert multiply.vertices == {"poplin::ConvPartial1x1<float>": plan.num_blocks}
    assert multiply.cost.compute_duration == vertices.conv_partial_1x1(50, 61, 10, FLOAT, target)
    assert add_up.cost.compute_duration == vertices.conv_reduce(40, 13, FLOAT, target)
    assert 0.8 * plan.cycles <= bench.report.total_cycles <= 1.01 * plan.cycles


# --- popnn ----------------------------------------------------------------------------------------


def whole_softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


@RANDOMLY
@given(LENGTHS, LENGTHS, VIEWS, st.sampled_from(TILES), SEEDS)
def test_softmax_and_loss_equal_numpy_on_the_whole_batch(
    batch: int, classes: int, view: str, tiles: int, seed: int
) -> None:
    """Long rows are cut for several workers, so the last bits of their sums may differ from numpy's."""
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    x = (rng.standard_normal((batch, classes)) * 5).astype(np.float32)
    labels = rng.integers(0, classes, batch).astype(np.uint32)
    scores, expected = as_view(bench, x, FLOAT, view), bench.variable(labels, UNSIGNED_INT)
    loss, deltas = bench.variable(np.zeros(batch)), bench.variable(np.zeros((batch, classes)))
    probabilities = popnn.softmax(bench.graph, scores, bench.prog)
    popnn.calc_loss(bench.graph, probabilities, expected, loss, deltas, bench.prog)
    bench.check_mapped(probabilities)
    wanted = whole_softmax(x)
    onehot = np.zeros_like(wanted)
    onehot[np.arange(batch), labels] = 1
    picked = wanted[np.arange(batch), labels]
    results = bench.run(probabilities, loss, deltas)
    for result, in_a_loop in zip(
        results, bench.run(probabilities, loss, deltas, vertex_loop=True), strict=True
    ):
        assert_same_bits(result, in_a_loop)
    np.testing.assert_allclose(results[0], wanted, rtol=1e-6)
    losses = -np.log(np.maximum(picked, np.finfo(np.float32).tiny))
    np.testing.assert_allclose(results[1], losses, rtol=1e-6, atol=1e-6)
    assert_same_bits(results[2], results[0] - onehot)
    np.testing.assert_allclose(wanted, whole_softmax(x.astype(np.float64)), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(wanted.sum(axis=1), 1, rtol=1e-6)


def test_softmax_of_extremes() -> None:
    bench = Bench()
    x = np.array(
        [[1000, 0, -1000], [-np.inf, 0, 0], [88, 88, 88], [np.nan, 0, 0], [3e38, -3e38, 0]],
        np.float32,
    )
    with np.errstate(all="ignore"):
        wanted = whole_softmax(x)
    got = bench.run(popnn.softmax(bench.graph, bench.variable(x), bench.prog))[0]
    assert_same_bits(got, wanted)
    assert (
        got[0].tolist() == [1, 0, 0] and got[1].tolist() == [0, 0.5, 0.5] and np.isnan(got[3]).all()
    )


def test_a_class_that_does_not_exist_has_the_largest_loss_and_no_hit() -> None:
    bench = Bench()
    x = np.array([[0.25, 0.75], [0.25, 0.75], [1, 0]], np.float32)
    loss, deltas = bench.variable(np.zeros(3)), bench.variable(np.zeros((3, 2)))
    expected = bench.variable([2, 2**32 - 2, 1], UNSIGNED_INT)
    popnn.calc_loss(bench.graph, bench.variable(x), expected, loss, deltas, bench.prog)
    got = bench.run(loss, deltas)
    largest = -np.log(np.finfo(np.float32).tiny)
    assert_same_bits(got[0], np.full(3, largest))
    assert_same_bits(got[1], x - np.array([[0, 0], [0, 0], [0, 1]], np.float32))
    assert np.isfinite(got[0]).all()


def test_deltas_are_the_slope_of_the_loss() -> None:
    """Central differences of the summed loss, in double precision."""
    rng, bench = np.random.default_rng(8), Bench()
    x = rng.standard_normal((6, 5)).astype(np.float32)
    labels = rng.integers(0, 5, 6)
    loss, deltas = bench.variable(np.zeros(6)), bench.variable(np.zeros((6, 5)))
    probabilities = popnn.softmax(bench.graph, bench.variable(x), bench.prog)
    popnn.calc_loss(
        bench.graph, probabilities, bench.variable(labels, UNSIGNED_INT), loss, deltas, bench.prog
    )
    got_loss, got_deltas = bench.run(loss, deltas)

    def total(z: Array) -> float:
        return float(np.sum(np.log(np.exp(z).sum(axis=1)) - z[np.arange(6), labels]))

    wide, step = x.astype(np.float64), 1e-5
    slope = np.empty_like(wide)
    for i in np.ndindex(*wide.shape):
        nudge = np.zeros_like(wide)
        nudge[i] = step
        slope[i] = (total(wide + nudge) - total(wide - nudge)) / (2 * step)
    np.testing.assert_allclose(got_deltas, slope, atol=1e-6)
    np.testing.assert_allclose(got_loss.sum(), total(wide), rtol=1e-6)


@given(LENGTHS, LENGTHS, VIEWS, st.sampled_from(TILES), SEEDS, st.integers(1, 3))
@settings(RANDOMLY, max_examples=30)
def test_accuracy_counts_and_adds_up(
    batch: int, classes: int, view: str, tiles: int, seed: int, times: int
) -> None:
    rng, bench = np.random.default_rng(seed), Bench(tiles)
    x = rng.integers(0, 3, (batch, classes)).astype(np.float32)  # with many ties
    labels = np.where(
        rng.random(batch) < 0.2, rng.integers(0, 2**32, batch), rng.integers(0, classes, batch)
    ).astype(np.uint32)
    outputs, expected = as_view(bench, x, FLOAT, view), bench.variable(labels, UNSIGNED_INT)
    hits = bench.variable(7, INT)
    popnn.calc_accuracy(bench.graph, outputs, expected, hits, bench.prog)
    popnn.calc_accuracy(bench.graph, outputs, expected, hits, bench.prog)
    right = sum(
        row.tolist().index(max(row)) == label for row, label in zip(x, labels.tolist(), strict=True)
    )
    assert bench.run(hits, times=times)[0] == 7 + 2 * times * right


def test_of_equal_outputs_the_first_is_the_answer() -> None:
    bench = Bench()
    outputs = bench.variable([[1, 1, 0], [1, 1, 0], [0, 2, 2], [-0.0, 0.0, -1]])
    expected, hits = bench.variable([0, 1, 1, 0], UNSIGNED_INT), bench.variable([0], INT)
    popnn.calc_accuracy(bench.graph, outputs, expected, hits, bench.prog)
    assert bench.run(hits)[0].tolist() == [3]


# --- exchange, names ------------------------------------------------------------------------------


def crossing_bytes(
    reads: list[tuple[list[int], list[int], list[int]]], tiles: int
) -> tuple[list[int], list[int]]:
    """(received, sent) by tile, element by element. `reads`: for each operand, for each element of
    the result: who reads, which element, who has it."""
    received: list[set[tuple[int, int]]] = [set() for _ in range(tiles)]
    sent: list[set[tuple[int, int]]] = [set() for _ in range(tiles)]
    for number, (readers, elements, owners) in enumerate(reads):
        for reader, element, owner in zip(readers, elements, owners, strict=True):
            if reader != owner:
                received[reader].add((number, element))
                sent[owner].add((number, element))
    return [4 * len(s) for s in received], [4 * len(s) for s in sent]


@pytest.mark.parametrize("tiles", [1, 2, 13])
@pytest.mark.parametrize("shape", [(1, 9), (24, 40), (37, 11)])
@pytest.mark.parametrize("kind", ["transposed", "row", "column", "scalar"])
def test_an_add_exchanges_exactly_what_crosses(
    tiles: int, shape: tuple[int, int], kind: str
) -> None:
    bench = Bench(tiles)
    rows, columns = shape
    other = {"transposed": (columns, rows), "row": (columns,), "column": (rows, 1), "scalar": ()}[
        kind
    ]
    a, whole = bench.variable(np.ones(shape)), bench.variable(np.ones(other))
    b = whole.transpose() if kind == "transposed" else whole
    out = popops.add(bench.graph, a, b, bench.prog)
    bench.run(out)
    home = np.array(bench.check_mapped(whole)).reshape(other)
    number = np.arange(home.size).reshape(other)
    if kind == "transposed":
        home, number = home.T, number.T
    readers = bench.check_mapped(out)
    elements, owners = (np.broadcast_to(v, shape).reshape(-1).tolist() for v in (number, home))
    assert bench.check_mapped(a) == readers
    assert bench.report is not None
    received, sent = bench.report.exchange_bytes_per_tile
    assert (received.tolist(), sent.tolist()) == crossing_bytes(
        [(readers, elements, owners)], tiles
    )
    if kind == "transposed" and tiles > 1 and min(shape) > 1:
        assert received.sum() > 0


Call = Callable[[Bench, str], object]


def _loss(b: Bench, name: str) -> None:
    x, deltas, loss = (
        b.variable(np.ones((4, 3))),
        b.variable(np.ones((4, 3))),
        b.variable(np.ones(4)),
    )
    popnn.calc_loss(b.graph, x, b.variable([0, 1, 2, 0], UNSIGNED_INT), loss, deltas, b.prog, name)


def _accuracy(b: Bench, name: str) -> None:
    args = (b.variable(np.ones((4, 3))), b.variable([0, 1, 2, 0], UNSIGNED_INT), b.variable(0, INT))
    popnn.calc_accuracy(b.graph, *args, b.prog, name)


NAMED: dict[str, tuple[Call, list[str], set[str]]] = {
    "add": (
        lambda b, n: popops.add(b.graph, b.variable([1, 2]), b.variable([1, 2]), b.prog, n),
        ["n"],
        {"popops::BinaryOp1D<ADD,float>"},
    ),
    "sub": (
        lambda b, n: popops.sub(b.graph, b.variable([1, 2], HALF), 3, b.prog, n),
        ["n"],
        {"popops::BroadcastScalar1D<SUBTRACT,half>"},
    ),
    "mul": (
        lambda b, n: popops.mul(b.graph, 3, b.variable([1, 2], INT), b.prog, n),
        ["n"],
        {"popops::BroadcastScalar1D<MULTIPLY,int>"},
    ),
    "add_in_place": (
        lambda b, n: popops.add_in_place(b.graph, b.variable([1, 2]), b.variable([1]), b.prog, n),
        ["n"],
        {"popops::BinaryOp1DInPlace<ADD,float>"},
    ),
    "sub_in_place": (
        lambda b, n: popops.sub_in_place(b.graph, b.variable([1, 2], UNSIGNED_INT), 1, b.prog, n),
        ["n"],
        {"popops::BroadcastScalar1DInPlace<SUBTRACT,unsigned_int>"},
    ),
    "mul_in_place": (
        lambda b, n: popops.mul_in_place(b.graph, b.variable([1, 2]), 1, b.prog, n),
        ["n"],
        {"popops::BroadcastScalar1DInPlace<MULTIPLY,float>"},
    ),
    "scaled_add_to": (
        lambda b, n: popops.scaled_add_to(
            b.graph, b.variable([1, 2]), b.variable([1, 2]), 2, b.prog, n
        ),
        ["n"],
        {"popops::ScaledAdd<float>"},
    ),
    "cast": (
        lambda b, n: popops.cast(b.graph, b.variable([1, 2]), HALF, b.prog, n),
        ["n"],
        {"popops::Cast1D<float,half>"},
    ),
    "fill": (
        lambda b, n: popops.fill(b.graph, b.variable([1, 2]), b.prog, 2, n),
        ["n"],
        {"popops::Fill<float>"},
    ),
    "reduce": (
        lambda b, n: popops.reduce(
            b.graph, b.variable(np.ones((500, 3))), [0], b.prog, debug_context=n
        ),
        ["n/Reduce/InToIntermediate", "n/Reduce/IntermediateToOutput"],
        {"popops::ReduceRows<ADD,float>", "popops::ReduceRowsAlone<ADD,float>"},
    ),
    "reduce none": (
        lambda b, n: popops.reduce(b.graph, b.variable(np.ones((5, 0))), [0], b.prog, "MAX", n),
        ["n/Reduce/InToOutput"],
        set(),
    ),
    "mat_mul": (
        lambda b, n: poplin.mat_mul(
            b.graph, b.variable(np.ones((4, 500))), b.variable(np.ones((500, 2))), b.prog, n
        ),
        ["n/multiply", "n/reduce"],
        {"poplin::ConvPartialHorizontalMac<float>", "poplin::ReduceAdd<float>"},
    ),
    "softmax": (
        lambda b, n: popnn.softmax(b.graph, b.variable(np.ones((4, 3))), b.prog, n),
        ["n"],
        {"popnn::Softmax<float>"},
    ),
    "calc_loss": (_loss, ["n"], {"popnn::CrossEntropy<float>"}),
    "calc_accuracy": (
        _accuracy,
        ["n/count", "n/total"],
        {"popnn::CountCorrect<float>", "popnn::AddCounts<float>"},
    ),
}


@pytest.mark.parametrize("name", NAMED)
def test_compute_sets_and_codelets_have_names_that_a_reader_knows(name: str) -> None:
    call, names, codelets = NAMED[name]
    bench = Bench()
    call(bench, "n")
    assert [c.name for c in bench.graph.compute_sets] == names
    assert [p.compute_set.name for p in bench.prog.programs if isinstance(p, Execute)] == names
    assert {c.__name__ for cs in bench.graph.compute_sets for c in cs.tables} == codelets
    bench.run()
    assert bench.report is not None
    assert set(bench.report.vertex_counts()) == codelets
    assert bench.report.unknown_codelets == ()
    assert bench.report.unbatched() == {}


# --- what is refused ------------------------------------------------------------------------------


# A call, and below it the error it raises, with every word.
REFUSED = """
popops.add(None, x, y, prog)
add() was given None as its graph.
  next:  give a Graph as the first argument.

popops.add(graph, x, y, None)
add() was given None as prog.
  next:  give a Sequence; the call appends to it.

popops.add(graph, x, y, [prog])
add() was given [Sequence(0 programs)] as prog.
  next:  give a Sequence; the call appends to it.

popops.add(graph, x, y, prog, 5)
add() was given 5 as debug_context.
  next:  give a name: text, in quotes.

popops.add(graph, 1, 2, prog)
add() was given 1 and 2.
  next:  give at least one tensor.

popops.add(graph, "x", y, prog)
add() was given 'x' as its first operand.
  next:  give a tensor, or a number.

popops.mul(graph, x, None, prog)
mul() was given None as its second operand.
  next:  give a tensor, or a number.

popops.sub(graph, [1], y, prog)
sub() was given [1] as its first operand.
  next:  give a tensor, or a number.

popops.add(graph, x, True, prog)
add() was given True as its second operand.
  next:  give a tensor, or a number.

popops.add(graph, x, h, prog)
add() was given two dtypes that differ: FLOAT and HALF.
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('h', HALF, shape (4, 3))
  next:  cast one of them with popops.cast.

popops.add(graph, x, v, prog)
add() was given shapes (4, 3) and (4,), which do not broadcast.
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('v', FLOAT, shape (4,))
  next:  dimensions are compared from the last; each must be equal, 1, or missing.

popops.add(graph, flag, flag, prog)
add() works on numbers, but its first operand is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popops.sub(graph, 1, flag, prog)
sub() works on numbers, but its second operand is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popops.add(graph, x, other, prog)
add() was given a tensor of another graph as its second operand.
  where: Tensor('elsewhere', FLOAT, shape (4, 3))
  next:  use one graph throughout.

popops.add_in_place(graph, 3, x, prog)
add_in_place() was given 3 as its first operand.
  next:  give a tensor.

popops.add_in_place(graph, v, x, prog)
A tensor of shape (4, 3) does not broadcast to (4,).
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  dimensions are compared from the last; each must be equal, 1, or missing.

popops.sub_in_place(graph, x, h, prog)
sub_in_place() was given two dtypes that differ: FLOAT and HALF.
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('h', HALF, shape (4, 3))
  next:  cast one of them with popops.cast.

popops.mul_in_place(graph, x, "2", prog)
mul_in_place() was given '2' as its second operand.
  next:  give a tensor, or a number.

popops.mul_in_place(graph, flag, flag, prog)
mul_in_place() works on numbers, but its first operand is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popops.scaled_add_to(graph, v, labels, 1, prog)
scaled_add_to() was given two dtypes that differ: FLOAT and UNSIGNED_INT.
  where: Tensor('v', FLOAT, shape (4,)) and Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  cast one of them with popops.cast.

popops.scaled_add_to(graph, x, v, 1, prog)
scaled_add_to() was given two shapes that differ: (4, 3) and (4,).
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('v', FLOAT, shape (4,))
  next:  slice one of them, or use poputil.broadcast_to_match.

popops.scaled_add_to(graph, x, y, x, prog)
scaled_add_to() needs k as a tensor of 1 element of FLOAT, but was given 12 of FLOAT.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  give a number, or a tensor of one element; for a factor per element, use popops.mul.

popops.scaled_add_to(graph, x, y, "1", prog)
scaled_add_to() was given '1' as k.
  next:  give a number, or a tensor of one element.

popops.scaled_add_to(graph, x, 1, 1, prog)
scaled_add_to() was given 1 as b.
  next:  give a tensor.

popops.cast(graph, 1, HALF, prog)
cast() was given 1 as x.
  next:  give a tensor.

popops.fill(graph, x, prog, "0")
fill() was given '0' as value.
  next:  give a number.

popops.fill(graph, 4, prog, 0)
fill() was given 4 as x.
  next:  give a tensor.

popops.reduce(graph, x, 0, prog)
reduce() was given the dimensions 0.
  next:  give a list, as in [0].

popops.reduce(graph, x, "0", prog)
reduce() was given the dimensions '0'.
  next:  give a list, as in [0].

popops.reduce(graph, x, [0, -2], prog)
reduce() was given the dimensions [0, -2], which name a dimension twice.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  name each dimension once.

popops.reduce(graph, x, [0], prog, "MEAN")
reduce() was given the operation 'MEAN'.
  next:  use ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD.

popops.reduce(graph, x, [0], prog, [1])
reduce() was given the operation [1].
  next:  use ADD, MUL, MIN, MAX, LOGICAL_AND, LOGICAL_OR, SQUARE_ADD, LOG_ADD.

popops.reduce(graph, empty, [0], prog, "MAX")
reduce() with MAX was given no elements.
  where: Tensor(empty tensor, FLOAT, shape (0, 3))
  next:  give a tensor with at least one element, or use an operation other than MAX and MIN.

popops.reduce(graph, flag, [0], prog)
reduce() works on numbers, but x is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popops.reduce(graph, None, [0], prog)
reduce() was given None as x.
  next:  give a tensor.

popops.plan_reduce(-1, 2, FLOAT, graph.target)
plan_reduce() was given -1 as rows.
  next:  give a whole number of 0 or more.

popops.plan_reduce(1, 2, FLOAT, "ipu2")
plan_reduce() was given 'ipu2' as its target.
  next:  give graph.target.

poplin.mat_mul(graph, x, v, prog)
mat_mul() needs b with 2 dimensions; it has 1.
  where: Tensor('v', FLOAT, shape (4,))
  next:  reshape, flatten or index the tensor.

poplin.mat_mul(graph, x, y, prog)
mat_mul() was given two inner dimensions that differ: 3 and 4.
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('y', FLOAT, shape (4, 3))
  next:  give b as many rows as a has columns; perhaps transpose one of them.

poplin.mat_mul(graph, x, h.transpose(), prog)
mat_mul() was given two dtypes that differ: FLOAT and HALF.
  where: Tensor('x', FLOAT, shape (4, 3)) and Tensor('h', HALF, shape (3, 4))
  next:  cast one of them with popops.cast.

poplin.mat_mul(graph, cube, y, prog)
mat_mul() needs a with 2 dimensions; it has 3.
  where: Tensor('cube', FLOAT, shape (2, 2, 2))
  next:  reshape, flatten or index the tensor.

poplin.mat_mul(graph, x, 2, prog)
mat_mul() was given 2 as b.
  next:  give a tensor.

poplin.mat_mul(graph, x, other, prog)
mat_mul() was given a tensor of another graph as b.
  where: Tensor('elsewhere', FLOAT, shape (4, 3))
  next:  use one graph throughout.

poplin.plan_mat_mul(0, 1, 1, graph.target)
plan_mat_mul() was given 0 as m.
  next:  give a whole number of 1 or more.

poplin.plan_mat_mul(1, 1.5, 1, graph.target)
plan_mat_mul() was given 1.5 as k.
  next:  give a whole number of 1 or more.

poplin.plan_mat_mul(1, 1, 1, 13)
plan_mat_mul() was given 13 as its target.
  next:  give graph.target.

popnn.softmax(graph, v, prog)
softmax() needs x with 2 dimensions; it has 1.
  where: Tensor('v', FLOAT, shape (4,))
  next:  reshape, flatten or index the tensor.

popnn.softmax(graph, flag, prog)
softmax() works on FLOAT and HALF, but x is BOOL.
  where: Tensor('flag', BOOL, shape (4, 3))
  next:  cast it with popops.cast.

popnn.softmax(graph, empty.transpose(), prog)
softmax() was given x with rows of 0 elements.
  where: Tensor(empty tensor, FLOAT, shape (3, 0))
  next:  give rows of 1 element or more.

popnn.softmax(graph, 1, prog)
softmax() was given 1 as x.
  next:  give a tensor.

popnn.calc_loss(graph, x, v, v, y, prog)
calc_loss() needs 4 class numbers (UNSIGNED_INT) for its argument 'expected', but was given 4 of FLOAT.
  where: Tensor('v', FLOAT, shape (4,))
  next:  give one class number for each row, and cast class numbers with popops.cast.

popnn.calc_loss(graph, x, labels[:3], v, y, prog)
calc_loss() needs 4 class numbers (UNSIGNED_INT) for its argument 'expected', but was given 3 of UNSIGNED_INT.
  where: Tensor(a view of 'labels', UNSIGNED_INT, shape (3,))
  next:  give one class number for each row, and cast class numbers with popops.cast.

popnn.calc_loss(graph, x, labels, v[:3], y, prog)
calc_loss() was given two shapes that differ: (3,) and (4,).
  where: loss Tensor(a view of 'v', FLOAT, shape (3,)) and expected Tensor('labels', UNSIGNED_INT, shape (4,))
  next:  give loss one element for each row.

popnn.calc_loss(graph, x, labels, h, y, prog)
calc_loss() needs loss with 1 dimension; it has 2.
  where: Tensor('h', HALF, shape (4, 3))
  next:  reshape, flatten or index the tensor.

popnn.calc_loss(graph, x, labels, v, h, prog)
calc_loss() was given two dtypes that differ: HALF and FLOAT.
  where: deltas Tensor('h', HALF, shape (4, 3)) and model_outputs Tensor('x', FLOAT, shape (4, 3))
  next:  give deltas the dtype of model_outputs.

popnn.calc_loss(graph, x, labels, v, y.transpose(), prog)
calc_loss() was given two shapes that differ: (3, 4) and (4, 3).
  where: deltas Tensor('y', FLOAT, shape (3, 4)) and model_outputs Tensor('x', FLOAT, shape (4, 3))
  next:  give deltas the shape of model_outputs.

popnn.calc_loss(graph, x, labels, v, None, prog)
calc_loss() was given None as deltas.
  next:  give a tensor.

popnn.calc_accuracy(graph, x, labels, v, prog)
calc_accuracy() needs an INT tensor of one element as num_correct.
  where: Tensor('v', FLOAT, shape (4,))
  next:  create num_correct with graph.add_variable(INT, ()).

popnn.calc_accuracy(graph, x, labels, one, prog)
calc_accuracy() needs an INT tensor of one element as num_correct.
  where: Tensor('one', FLOAT, shape (1,))
  next:  create num_correct with graph.add_variable(INT, ()).

popnn.calc_accuracy(graph, x, x, count, prog)
calc_accuracy() needs expected with 1 dimension; it has 2.
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  reshape, flatten or index the tensor.

popnn.calc_accuracy(graph, x, labels, 0, prog)
calc_accuracy() was given 0 as num_correct.
  next:  give a tensor.

poputil.calc_linear_tile_mapping(None, 3, FLOAT)
calc_linear_tile_mapping() was given None as its graph.
  next:  give a Graph as the first argument.

poputil.calc_linear_tile_mapping(graph, -3, FLOAT)
calc_linear_tile_mapping() was given the shape -3.
  next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).

poputil.calc_linear_tile_mapping(graph, "ab", FLOAT)
calc_linear_tile_mapping() was given the shape 'ab'.
  next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).

poputil.calc_linear_tile_mapping(graph, 3, FLOAT, -1)
A linear tile mapping was requested with grain_size=2 and min_elements_per_tile=-1.
  next:  give whole numbers: 1 or more as grain_size, and 0 or more as min_elements_per_tile.

poputil.calc_linear_tile_mapping(graph, 3, FLOAT, 1, 0)
A linear tile mapping was requested with grain_size=0 and min_elements_per_tile=1.
  next:  give whole numbers: 1 or more as grain_size, and 0 or more as min_elements_per_tile.

poputil.map_tensor_linearly(graph, 3)
map_tensor_linearly() was given 3 as tensor.
  next:  give a tensor.

poputil.map_tensor_linearly(graph, other)
map_tensor_linearly() was given a tensor of another graph as tensor.
  where: Tensor('elsewhere', FLOAT, shape (4, 3))
  next:  use one graph throughout.

poputil.map_tensor_linearly(3, x)
map_tensor_linearly() was given 3 as its graph.
  next:  give a Graph as the first argument.

poputil.balanced_partition(3, 0)
balanced_partition() was given 3 items in 0 parts.
  next:  give whole numbers: items of 0 or more, and parts from 1 to 4,194,304.

poputil.balanced_partition("3", 2)
balanced_partition() was given '3' items in 2 parts.
  next:  give whole numbers: items of 0 or more, and parts from 1 to 4,194,304.

poputil.broadcast_to_match(x, (4, 4))
A tensor of shape (4, 3) does not broadcast to (4, 4).
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  dimensions are compared from the last; each must be equal, 1, or missing.

poputil.broadcast_to_match(x, (3,))
A tensor of shape (4, 3) does not broadcast to (3,).
  where: Tensor('x', FLOAT, shape (4, 3))
  next:  dimensions are compared from the last; each must be equal, 1, or missing.

poputil.broadcast_to_match(x, "ab")
broadcast_to_match() was given the shape 'ab'.
  next:  a shape is a tuple of whole numbers, none negative, as in (26, 64).

poputil.broadcast_to_match(3, (3,))
broadcast_to_match() was given 3 as tensor.
  next:  give a tensor.

poputil.clone(graph, 3, "name")
clone() was given 3 as tensor.
  next:  give a tensor.
"""
REFUSALS = [tuple(case.split("\n", 1)) for case in REFUSED.strip().split("\n\n")]


@pytest.mark.parametrize(("call", "text"), REFUSALS, ids=[call for call, _ in REFUSALS])
def test_what_is_refused_is_explained_and_changes_nothing(call: str, text: str) -> None:
    shelf = TensorKinds()
    before = shelf.state()
    with pytest.raises(IPUTeachError) as caught:
        eval(call, globals(), vars(shelf))
    assert type(caught.value) is PoplibsError
    assert str(caught.value) == text
    assert shelf.state() == before


@pytest.mark.parametrize(
    ("call", "kind", "start"),
    [
        (
            "popops.add(graph, x, 1e39, prog)",
            TensorCreationError,
            "add(), its second operand: FLOAT holds numbers",
        ),
        (
            "popops.sub(graph, 1e39, x, prog)",
            TensorCreationError,
            "sub(), its first operand: FLOAT holds numbers",
        ),
        (
            "popops.mul(graph, labels, -1, prog)",
            TensorCreationError,
            "mul(), its second operand: UNSIGNED_INT holds whole",
        ),
        (
            "popops.mul_in_place(graph, labels, 0.5, prog)",
            TensorCreationError,
            "mul_in_place(), its second operand: UNSIGNED",
        ),
        (
            "popops.scaled_add_to(graph, count, count, 0.5, prog)",
            TensorCreationError,
            "scaled_add_to(), k: INT holds whole",
        ),
        (
            "popops.fill(graph, labels, prog, -1)",
            TensorCreationError,
            "fill(), value: UNSIGNED_INT holds whole numbers",
        ),
        ("popops.add(graph, lost, y, prog)", InvalidTileMappingError, ""),
        ("popops.add_in_place(graph, lost, y, prog)", InvalidTileMappingError, ""),
        ("popops.scaled_add_to(graph, lost, y, 1, prog)", InvalidTileMappingError, ""),
        ("popops.cast(graph, lost, HALF, prog)", InvalidTileMappingError, ""),
        ("popops.fill(graph, lost, prog, 0)", InvalidTileMappingError, ""),
        ("poputil.clone(graph, lost, 'name')", InvalidTileMappingError, ""),
        ("popnn.calc_accuracy(graph, x, labels, lost_count, prog)", InvalidTileMappingError, ""),
        (
            "popops.cast(graph, x, 'half', prog)",
            PoplarTypeError,
            "cast() was given the element type 'half'.",
        ),
        (
            "popops.cast(graph, x, None, prog)",
            PoplarTypeError,
            "cast() was given the element type None.",
        ),
        (
            "popops.plan_reduce(1, 2, 'float', graph.target)",
            PoplarTypeError,
            "plan_reduce() was given the element type",
        ),
        (
            "poputil.calc_linear_tile_mapping(graph, 3, float)",
            PoplarTypeError,
            "calc_linear_tile_mapping() was given the",
        ),
        (
            "poputil.clone(graph, x, 'name', float)",
            PoplarTypeError,
            "The variable 'name' was given the element type",
        ),
        (
            "popops.reduce(graph, x, [2], prog)",
            PoplarIndexError,
            "There is no dimension 2 in a tensor of shape (4, 3).",
        ),
    ],
)
def test_what_the_floors_below_refuse_changes_nothing(
    call: str, kind: type[IPUTeachError], start: str
) -> None:
    shelf = TensorKinds()
    before = shelf.state()
    with pytest.raises(kind) as caught:
        eval(call, globals(), vars(shelf))
    assert type(caught.value) is kind
    assert str(caught.value).startswith(start)
    assert shelf.state() == before


def test_every_refusal_says_what_to_do_next() -> None:
    assert len(REFUSALS) > 70
    assert [call for call, text in REFUSALS if "\n  next:  " not in text] == []


def test_numbers_too_long_to_print_are_refused_too() -> None:
    shelf = TensorKinds()
    for huge in (10**5000, -(10**5000)):
        with pytest.raises(IPUTeachError, match="FLOAT holds numbers up to 3.40282e"):
            popops.add(shelf.graph, shelf.x, huge, shelf.prog)


@pytest.mark.parametrize(
    "call", ["add_in_place(graph, x, x[::-1], prog)", "scaled_add_to(graph, x, x, 2, prog)"]
)
def test_an_operand_that_overlaps_the_result_is_a_race(call: str) -> None:
    shelf = TensorKinds()
    eval(f"popops.{call}", globals(), vars(shelf))
    for lost in (shelf.lost, shelf.lost_count):
        poputil.map_tensor_linearly(shelf.graph, lost)
    with pytest.raises(ComputeSetRaceError):
        Engine(shelf.graph, shelf.prog)
