"""top_k and sort over tiles: values against a plain loop, plans against built graphs, and costs
beside programs with codelets of one's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench import order
from ipu_teach import CHAR, FLOAT, HALF, INT, LONGLONG, UNSIGNED_INT, Engine, Graph, IPUModel
from ipu_teach.poplibs import popops, poputil
from ipu_teach.poplibs.popops import SortOrder, TopKParams, sort_plan
from ipu_teach.program import Sequence
from ipu_teach.types import Array, DType

NUMERIC = (FLOAT, HALF, INT, UNSIGNED_INT, LONGLONG, CHAR)
# tiles of an IPU, IPUs, and whether the call is given a virtual graph without the first tile
DEVICES = [(1, 1, False), (13, 1, False), (64, 1, True), (1472, 1, False), (64, 4, False)]


def first_places(row: Array, k: int, largest: bool, order: SortOrder) -> list[int]:
    """Where the first k are: by value, NaN as the largest, equal ones in their order."""
    keys = [(2, 0.0) if v != v else (1, v) for v in row.tolist()]
    sign = -1 if largest else 1
    places = sorted(range(len(row)), key=lambda i: (sign * keys[i][0], sign * keys[i][1], i))[:k]
    wanted = SortOrder.DESCENDING if largest else SortOrder.ASCENDING
    return places if order in (wanted, SortOrder.NONE) else places[::-1]


def numbers(rng: np.random.Generator, shape: tuple[int, int], dtype: type[DType]) -> Array:
    """Random numbers with many equal ones; of floats also zeros of both signs, infinities, NaN."""
    if dtype in (FLOAT, HALF):
        special = np.array([np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, 1.0])
        x = rng.standard_normal(shape)
        return np.where(rng.random(shape) < 0.4, rng.choice(special, shape), x).astype(dtype.numpy)
    limits = np.iinfo(dtype.numpy)
    x = rng.integers(limits.min, limits.max, shape, dtype.numpy, endpoint=True)
    few = rng.integers(0, 3, shape).astype(dtype.numpy)
    return np.asarray(np.where(rng.random(shape) < 0.5, few, x))


@pytest.mark.parametrize("seed", range(40))
def test_values_are_those_of_a_plain_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tiles, ipus, is_virtual = DEVICES[seed % len(DEVICES)]
    dtype = NUMERIC[rng.integers(len(NUMERIC))]
    n = int(rng.choice([0, 1, 2, 7, 50, 333, 1500]))
    rows = int(rng.choice([0, 1, 1, 2, 5, 40])) if n < 1000 else 1
    k = int(rng.choice([0, min(n, 1), min(n, 5), n // 2, n]))
    params = TopKParams(k, bool(rng.integers(2)), list(SortOrder)[rng.integers(3)])
    device = IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device()
    graph, prog = Graph(device), Sequence()
    inner = graph.create_virtual_graph(1, tiles * ipus) if is_virtual else graph
    x, values = numbers(rng, (rows, n), dtype), numbers(rng, (rows, n), HALF)
    a, v = inner.add_variable(dtype, x.shape, "a"), inner.add_variable(HALF, x.shape, "v")
    for tensor, name in ((a, "a"), (v, "v")):
        poputil.map_tensor_linearly(inner, tensor)
        graph.create_host_write(name, tensor)
    outs = [
        *popops.top_k_with_permutation(inner, params, a, prog),
        popops.top_k(inner, params, a, prog),
        *popops.top_k_key_value(inner, params, a, v, prog),
        popops.sort(inner, a, 1, prog),
        popops.sort_key_value(inner, a, v, 1, prog),
    ]
    for i, out in enumerate(outs):
        graph.create_host_read(str(i), out)
    engine = Engine(graph, prog)
    engine.load(device)
    engine.write_tensor("a", x)
    engine.write_tensor("v", values)
    for _ in range(2):
        engine.run()
    first = [first_places(row, k, params.largest, params.sort_order) for row in x]
    every = [first_places(row, n, False, SortOrder.NONE) for row in x]
    places, ascending = (
        np.array(p, np.int64).reshape(rows, size) for p, size in ((first, k), (every, n))
    )
    top = np.take_along_axis(x, places, 1)
    expected = [
        top,
        places.astype(np.uint32),
        top,
        top,
        np.take_along_axis(values, places, 1),
        np.take_along_axis(x, ascending, 1),
        np.take_along_axis(values, ascending, 1),
    ]
    for i, wanted in enumerate(expected):
        result = engine.read_tensor(str(i))
        assert result.dtype == wanted.dtype and result.tobytes() == wanted.tobytes(), i
    assert engine.report.unbatched() == {}


def built(rows: int, n: int, k: int, dtype: type[DType], tiles: int, ipus: int = 1) -> Any:
    """The report of a run of top_k with permutation, and its result."""
    device = IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device()
    graph, prog = Graph(device), Sequence()
    x = graph.add_variable(dtype, (rows, n), "x")
    poputil.map_tensor_linearly(graph, x)
    graph.create_host_write("x", x)
    out, _ = popops.top_k_with_permutation(graph, TopKParams(k), x, prog)
    engine = Engine(graph, prog)
    engine.load(device)
    engine.write_tensor("x", np.zeros((rows, n), dtype.numpy))
    engine.run()
    return engine.report, graph, out


PLANS = [
    (1, 1_000, 5, FLOAT, 1472),
    (1, 1_000, 1_000, FLOAT, 1472),
    (1, 20_000, 300, INT, 1472),
    (1, 20_000, 20_000, HALF, 1472),
    (1, 5_000, 5_000, FLOAT, 13),
    (6, 777, 100, FLOAT, 64),
    (100, 1_000, 1_000, INT, 1472),
]


@pytest.mark.parametrize(("rows", "n", "k", "dtype", "tiles"), PLANS)
def test_a_built_graph_costs_what_was_planned(
    rows: int, n: int, k: int, dtype: type[DType], tiles: int
) -> None:
    report, graph, _ = built(rows, n, k, dtype, tiles)
    plan = sort_plan.planned(rows, n, k, (dtype, UNSIGNED_INT), graph.target)
    assert abs(report.total_cycles - plan.cycles) < 0.1 * plan.cycles


def test_both_kinds_of_stages_are_planned() -> None:
    graph = built(1, 8, 1, INT, 4)[1]
    stages = {
        stage.by_ranks
        for rows, n, k, dtype, tiles in PLANS
        for stage in sort_plan.planned(
            rows, n, k, (dtype, UNSIGNED_INT),
            IPUModel("ipu2", tiles_per_ipu=tiles).create_device().target,
        ).stages
    }  # fmt: skip
    assert stages == {True, False} and graph.target.num_tiles == 4


def test_no_row_crosses_from_one_ipu_to_another() -> None:
    report, graph, out = built(4, 600, 600, FLOAT, 64, ipus=4)
    for row in range(4):
        tiles = [t for t, pieces in enumerate(graph.get_tile_mapping(out[row])) if pieces]
        assert {t // 64 for t in tiles} == {row} and len(tiles) > 10


@pytest.mark.parametrize("dtype", [FLOAT, HALF, INT])
@pytest.mark.parametrize(("rows", "n"), [(1, 20_000), (3, 4_000), (40, 50), (0, 7)])
@pytest.mark.parametrize(("tiles", "ipus"), [(1472, 1), (13, 4)])
def test_extremes_of_long_rows(
    dtype: type[DType], rows: int, n: int, tiles: int, ipus: int
) -> None:
    rng = np.random.default_rng(n)
    x = rng.integers(-4, 5, (rows, n)).astype(dtype.numpy)
    if dtype is HALF:
        x = np.where(rng.random((rows, n)) < 2 / n, np.nan, x).astype(dtype.numpy)
    device = IPUModel("ipu2", tiles_per_ipu=tiles, num_ipus=ipus).create_device()
    graph, prog = Graph(device), Sequence()
    a = graph.add_variable(dtype, x.shape, "a")
    poputil.map_tensor_linearly(graph, a)
    graph.create_host_write("a", a)
    outs = [*popops.max_and_arg_max(graph, a, prog), *popops.min_and_arg_min(graph, a, prog)]
    for i, out in enumerate(outs):
        graph.create_host_read(str(i), out)
    engine = Engine(graph, prog)
    engine.load(device)
    engine.write_tensor("a", x)
    engine.run()
    for i, (best, place) in enumerate(((np.max, np.argmax), (np.min, np.argmin))):
        assert np.array_equal(engine.read_tensor(str(2 * i)), best(x, axis=1), equal_nan=True)
        assert np.array_equal(engine.read_tensor(str(2 * i + 1)), place(x, axis=1))
    # a worker alone takes 3 cycles an element, in six turns
    assert engine.report.total_cycles < 20_000


@pytest.mark.parametrize(("n", "k"), [key for key in order.PROGRAMS if key[0] <= 20_480])
def test_no_program_of_ones_own_is_twice_as_quick(n: int, k: int) -> None:
    assert order.by_popops(n, k) <= 2 * order.PROGRAMS[n, k]()
