"""Helpers of poputil: where things lie, how work is dealt out, copies to other tiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from poplibs_bench import RANDOMLY, Bench, assert_same_bits

from ipu_teach import FLOAT, HALF, Graph, IPUModel, concat
from ipu_teach.errors import PoplibsError
from ipu_teach.poplibs import gcl, popnn, poputil


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ((3, 1), (4,)),
        ((), (2, 3)),
        ((5,), (5,)),
        ((2, 1, 4), (3, 1)),
        ((0, 1), (1, 3)),
        ((1,), (0,)),
    ],
)
def test_two_tensors_broadcast_to_each_other(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    x, y = graph.add_variable(FLOAT, a), graph.add_variable(FLOAT, b)
    wide = poputil.broadcast_to_match(x, y)
    common = np.broadcast_shapes(a, b)
    assert [t.shape for t in wide] == [common, common]
    assert np.array_equal(wide[0].positions(), np.broadcast_to(x.positions(), common))
    ranks = poputil.expand_to_match_ranks(x, y)
    assert {t.rank for t in ranks} == {max(len(a), len(b))} and ranks[
        0
    ].num_elements == x.num_elements


def test_the_imbalance_of_a_mapping() -> None:
    graph = Graph(IPUModel(tiles_per_ipu=4).create_device())
    x = graph.add_variable(FLOAT, 100)
    poputil.map_tensor_linearly(graph, x, 1, 1)
    assert poputil.get_tile_imbalance(graph, x) == 0
    graph.set_tile_mapping(x[:40], 3)
    assert poputil.get_tile_imbalance(graph, x) == 65 - 25
    assert poputil.get_tile_imbalance(graph, x, 30) == 35
    assert poputil.get_tile_imbalance(graph, x, grain_size=8) == 65 - 32


@pytest.mark.parametrize("offset", [0, 1, 12, 13, 20])
def test_a_linear_mapping_may_begin_elsewhere(offset: int) -> None:
    bench = Bench(13)
    x = bench.graph.add_variable(FLOAT, 100)
    poputil.map_tensor_linearly_with_offset(bench.graph, x, offset)
    straight = poputil.calc_linear_tile_mapping(bench.graph, 100, FLOAT)
    assert bench.graph.get_tile_mapping(x) == [straight[(t - offset) % 13] for t in range(13)]


def test_duplicates_and_clones() -> None:
    bench = Bench(5)
    x = bench.variable(np.arange(12).reshape(3, 4))
    for row in range(3):
        bench.graph.set_tile_mapping(x[row], row + 1)
    copy = poputil.duplicate(bench.graph, x.T, bench.prog)
    assert_same_bits(bench.run(copy)[0], np.arange(12, dtype=np.float32).reshape(3, 4).T)
    assert bench.graph.get_tile_mapping(copy) == bench.graph.get_tile_mapping(x.T)
    assert bench.report is not None and bench.report.exchange_bytes_per_tile[0].sum() == 0
    clones = poputil.clone_n(bench.graph, x, 3, "c", HALF)
    assert clones.shape == (3, 3, 4) and clones.dtype is HALF
    assert all(
        bench.graph.get_tile_mapping(clones[i]) == bench.graph.get_tile_mapping(x) for i in range(3)
    )


def test_a_copy_on_another_ipu() -> None:
    bench = Bench(3)
    bench.device = IPUModel("ipu2", num_ipus=2, tiles_per_ipu=3).create_device()
    bench.graph = Graph(bench.device)
    x = bench.graph.add_variable(FLOAT, 4, "x")
    bench.graph.set_initial_value(x, [1, 2, 3, 4])
    bench.graph.set_tile_mapping(x[:3], 1)
    bench.graph.set_tile_mapping(x[3:], 2)
    there = poputil.copy_to_ipu(bench.graph, x, 1, bench.prog)
    assert bench.run(there)[0].tolist() == [1, 2, 3, 4]
    assert bench.graph.get_tile_mapping(there) == [[], [], [], [], [(0, 3)], [(3, 4)]]
    both = concat([x.expand([0]), there.expand([0])])
    assert poputil.dim_is_split_over_ipus(
        bench.graph, both, 0
    ) and not poputil.dim_is_split_over_ipus(bench.graph, both, 1)
    assert poputil.dim_is_split_over_tiles(
        bench.graph, both, 1
    ) and not poputil.dim_is_split_over_tiles(bench.graph, x[:3], 0)


@RANDOMLY
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), max_size=5),
    st.integers(1, 7),
    st.integers(1, 9),
    st.integers(0, 20),
)
def test_regions_are_dealt_out_once(
    sizes: list[tuple[int, int]], grain: int, parts: int, least: int
) -> None:
    regions, at = [], 0
    for gap, size in sizes:
        regions.append((at + gap, at + gap + size))
        at += gap + size
    found = poputil.split_regions(regions, grain, parts, least)
    dealt = [[i for begin, end in part for i in range(begin, end)] for part in found]
    whole = [i for begin, end in regions for i in range(begin, end)]
    assert [i for part in dealt for i in part] == whole
    assert len(found) <= parts and all(len(part) % grain == 0 for part in dealt[:-1])
    grains = [-(-len(part) // grain) for part in dealt]
    assert not grains or max(grains) - min(grains) <= 1
    if len(found) > 1:
        assert min(grains) * grain >= least
    target = IPUModel(tiles_per_ipu=1).create_device().target
    assert poputil.split_regions_between_workers(
        target, regions, grain, least
    ) == poputil.split_regions(regions, grain, 6, least)


# --- where a tensor had best lie ------------------------------------------------------------------


def test_offsets_are_poplibs_own() -> None:
    """The values that PopLibs' own test of the function expects
    (tests/poputil/TileMappingTest.cpp)."""
    assert poputil.choose_mapping_offset(1024, (4, 64)) == 239
    assert poputil.choose_mapping_offset(4, (4, 64)) == 3
    assert poputil.choose_mapping_offset(1024, (4, 64), 0x1234) == 2
    assert poputil.choose_mapping_offset(1024, (256,)) == 206


def test_offsets_flatten_the_load_of_many_tensors() -> None:
    loads = []
    for chosen in (False, True):
        graph = Graph(IPUModel("ipu2", tiles_per_ipu=50).create_device())
        load = np.zeros(50, int)
        for size in range(60, 120):
            tensor = graph.add_variable(FLOAT, (size, 3))
            poputil.map_tensor_linearly_with_offset(
                graph, tensor, poputil.choose_mapping_offset(50, tensor.shape) if chosen else 0
            )
            load += [sum(e - b for b, e in pieces) for pieces in graph.get_tile_mapping(tensor)]
        loads.append(load)
    assert loads[0].sum() == loads[1].sum() and loads[1].max() < 0.6 * loads[0].max()


def test_a_linear_mapping_may_go_downwards() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=5).create_device())
    up, down = (graph.add_variable(FLOAT, 96) for _ in range(2))
    poputil.map_tensor_linearly_with_offset(graph, up, 1)
    poputil.map_tensor_linearly_with_offset(graph, down, 1, ascending_order=False)
    assert graph.get_tile_mapping(down) == graph.get_tile_mapping(up)[::-1]
    assert graph.get_tile_mapping(down)[3] == [(0, 32)]  # 5 - 1 - 1


@pytest.mark.parametrize(
    ("shape", "factors", "start"),
    [((4, 6, 4), [1, 2], 0), ((5, 8), [4], 1), ((3,), [], 0), ((2, 6), [3], 1)],
)
def test_factored_dimensions_are_numpys(
    shape: tuple[int, ...], factors: list[int], start: int
) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=2).create_device())
    tensor, x = graph.add_variable(FLOAT, shape), np.arange(np.prod(shape)).reshape(shape)
    view = poputil.factor_dims(tensor, factors, start)
    n = len(factors)
    split = [v for size, f in zip(shape[start:], factors, strict=False) for v in (size // f, f)]
    wanted = x.reshape(*shape[:start], *split, *shape[start + n :])
    order = [*range(start), *range(start, start + 2 * n, 2), *range(start + 1, start + 2 * n, 2)]
    wanted = wanted.transpose([*order, *range(start + 2 * n, wanted.ndim)])
    first = tensor.positions().reshape(-1)[0]
    np.testing.assert_array_equal(view.positions() - first, wanted)
    back = poputil.unfactor_dims(view, n, start)
    np.testing.assert_array_equal(back.positions(), tensor.positions())


@settings(RANDOMLY, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 12), st.integers(0, 30), st.integers(1, 30)),
        min_size=1,
        max_size=12,
    ),
    st.integers(1, 4),
    st.integers(1, 8),
)
def test_what_is_used_lies_with_a_user(
    uses: list[tuple[int, int, int]], grain: int, least: int
) -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device())
    tensor, tracker = graph.add_variable(FLOAT, 60), poputil.TensorUseTracker(13)
    assert tracker.empty
    users: list[set[int]] = [set() for _ in range(60)]
    for tile, begin, length in uses:
        tracker.add(graph, tile, tensor[begin : begin + length])
        for i in range(begin, min(begin + length, 60)):
            users[i].add(tile)
    assert not tracker.empty
    tracker.map_tensors_by_use(graph, grain, least)
    held: dict[tuple[int, ...], dict[int, int]] = {}
    tiles = graph.tile_map().at(tensor.positions() * 4)
    for i, mine in enumerate(users):
        assert (tiles[i] in mine) if mine else tiles[i] < 0
        if mine:
            group = held.setdefault(tuple(sorted(mine)), dict.fromkeys(mine, 0))
            group[int(tiles[i])] += 1
    for group in held.values():
        counts = [n for n in group.values() if n]
        assert len(counts) == 1 or min(counts) >= least - grain
        if least <= grain and sum(counts) >= grain * len(group):
            assert max(counts) - min(counts) <= 2 * grain


def test_a_bias_lies_with_what_it_is_added_to() -> None:
    graph = Graph(IPUModel("ipu2", tiles_per_ipu=13).create_device())
    full = graph.add_variable(FLOAT, (26, 8))
    for row in range(26):
        graph.set_tile_mapping(full[row], row // 2)
    by_row, by_column = (poputil.create_broadcast_operand(graph, full, HALF, dim) for dim in (0, 1))
    assert by_row.dtype is HALF and by_row.shape == (26,) and by_column.shape == (8,)
    assert graph.get_tile_mapping(by_row) == [[(2 * t, 2 * t + 2)] for t in range(13)]
    # 8 halves are two grains
    assert sum(len(pieces) for pieces in graph.get_tile_mapping(by_column)) == 2


def test_integers_of_numpy_do_not_overflow() -> None:
    graph = Graph(IPUModel(tiles_per_ipu=208).create_device())
    small, large = np.uint8(200), np.int32(3_000_000)
    assert poputil.balanced_partition(small, np.uint8(4)) == [
        (0, 50),
        (50, 100),
        (100, 150),
        (150, 200),
    ]
    assert poputil.balanced_partition(large, 1472)[-1] == (2_997_961, 3_000_000)
    regions = [(np.uint8(0), np.uint8(250)), (np.uint8(10), np.uint8(240))]
    (part,) = poputil.split_regions(regions, np.uint8(100), np.uint8(1))
    assert part == [(0, 250), (10, 240)]
    with pytest.raises(PoplibsError, match="from 0"):
        gcl.per_ipu_tiles(graph, small, np.uint8(100))
    assert gcl.per_ipu_tiles(graph, small, np.uint8(8)) == [*range(200, 208)]


def test_the_sizes_of_a_pooling_do_not_overflow() -> None:
    small = np.uint8
    sizes = [[small(200)], [small(100)], [small(50)], [small(99)], [small(0)]]
    params = popnn.pooling.PoolParams("MAX", *sizes, small(3), small(1), FLOAT)
    assert params.output_field == ((200 + 99 - 100) // 50 + 1,)
    assert params.channels * 100 == 300
