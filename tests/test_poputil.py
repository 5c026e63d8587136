"""Helpers of poputil: where things lie, how work is dealt out, copies to other tiles."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_poplibs import RANDOMLY, Bench, same_bits

from ipu_teach import FLOAT, HALF, Graph, IPUModel, concat
from ipu_teach.poplibs import poputil


@pytest.mark.parametrize(
    ("a", "b"), [((3, 1), (4,)), ((), (2, 3)), ((5,), (5,)), ((2, 1, 4), (3, 1)), ((0, 1), (1, 3)), ((1,), (0,))]
)
def test_two_tensors_broadcast_to_each_other(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    graph = Graph(IPUModel(tiles_per_ipu=2).create_device())
    x, y = graph.add_variable(FLOAT, a), graph.add_variable(FLOAT, b)
    wide = poputil.broadcast_to_match(x, y)
    common = np.broadcast_shapes(a, b)
    assert [t.shape for t in wide] == [common, common]
    assert np.array_equal(wide[0].positions(), np.broadcast_to(x.positions(), common))
    ranks = poputil.expand_to_match_ranks(x, y)
    assert {t.rank for t in ranks} == {max(len(a), len(b))} and ranks[0].num_elements == x.num_elements


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
    same_bits(bench.run(copy)[0], np.arange(12, dtype=np.float32).reshape(3, 4).T)
    assert bench.graph.get_tile_mapping(copy) == bench.graph.get_tile_mapping(x.T)
    assert bench.report is not None and bench.report.exchange_bytes_per_tile[0].sum() == 0
    clones = poputil.clone_n(bench.graph, x, 3, "c", HALF)
    assert clones.shape == (3, 3, 4) and clones.dtype is HALF
    assert all(bench.graph.get_tile_mapping(clones[i]) == bench.graph.get_tile_mapping(x) for i in range(3))


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
    assert poputil.dim_is_split_over_ipus(bench.graph, both, 0) and not poputil.dim_is_split_over_ipus(bench.graph, both, 1)
    assert poputil.dim_is_split_over_tiles(bench.graph, both, 1) and not poputil.dim_is_split_over_tiles(bench.graph, x[:3], 0)


@RANDOMLY
@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), max_size=5), st.integers(1, 7), st.integers(1, 9),
    st.integers(0, 20),
)  # fmt: skip
def test_regions_are_dealt_out_once(sizes: list[tuple[int, int]], grain: int, parts: int, least: int) -> None:
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
    assert poputil.split_regions_between_workers(target, regions, grain, least) == poputil.split_regions(
        regions, grain, 6, least
    )
