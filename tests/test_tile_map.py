"""The tile map of a graph under construction, held against an array with the tile of each byte."""

from __future__ import annotations

import numpy as np
import pytest

from ipu_teach import FLOAT, Graph, IPUModel
from ipu_teach.graph import tile_map
from ipu_teach.graph.mapping import EXTERNAL
from ipu_teach.graph.tile_map import UNMAPPED, TileMap, TileTable
from ipu_teach.types import Array

BYTES = 4000


def intervals(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Random intervals of 0 to 60 bytes."""
    start = rng.integers(0, BYTES - 60, count)
    return start, start + rng.integers(0, 60, count)


def tiles_by_byte(pieces: TileMap) -> Array:
    start = np.append(np.minimum(pieces.start, BYTES), BYTES)
    return np.repeat(pieces.tile, np.diff(start))


@pytest.mark.parametrize("seed", range(8))
def test_a_table_in_blocks_is_that_of_each_byte(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    # small blocks, so that few bytes need several of them
    monkeypatch.setattr(tile_map, "_BLOCK", [4, 16, 64, 2048][seed % 4])
    table = TileTable([TileMap(np.zeros(1, np.int64), np.full(1, UNMAPPED, np.int32))])
    expected = np.full(BYTES, UNMAPPED)
    earlier = []
    for _ in range(30):
        low, high = sorted(rng.integers(0, BYTES, 2))
        start, stop = intervals(rng, int(rng.integers(0, 40)))
        inside = (start >= low) & (stop <= high) | (rng.random(len(start)) < 0.1)
        start, stop = start[inside], stop[inside]
        tile = rng.integers(0, 3, len(start))
        earlier.append((table, expected.copy()))
        table = table.paint(np.stack((start, stop, tile), axis=1))
        for begin, end, number in zip(start, stop, tile, strict=True):
            expected[begin:end] = number

        pieces = table.pieces()
        assert np.array_equal(tiles_by_byte(pieces), expected)
        assert np.all(pieces.tile[1:] != pieces.tile[:-1]) and pieces.start[0] == 0
        places = rng.integers(0, BYTES, (3, 5))
        assert np.array_equal(table.at(places), expected[places])
        assert table.at(places[0, 0]) == expected[places[0, 0]]
        for count in (0, 1, 7):
            asked = intervals(rng, count)
            for split, reference in zip(table.split(*asked), pieces.split(*asked), strict=True):
                assert np.array_equal(split, reference)
    for table, expected in earlier:  # which stay as they were
        assert np.array_equal(tiles_by_byte(table.pieces()), expected)


def test_a_virtual_graph_has_its_own_numbers_in_every_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tile_map, "_BLOCK", 4)
    graph = Graph(IPUModel(tiles_per_ipu=16).create_device().target)
    x = graph.add_variable(FLOAT, 40)
    for i in range(32):
        graph.set_tile_mapping(x[i], i % 16)
    part = graph.create_virtual_graph([9, 3, 11])
    inner = part.create_virtual_graph([2, 0])
    outside = {9: 0, 3: 1, 11: 2}, {11: 0, 9: 1}
    for virtual, numbers in zip((part, inner), outside, strict=True):
        expected = [numbers.get(i % 16, EXTERNAL) for i in range(32)] + [UNMAPPED] * 8
        assert virtual.tile_map().at(x.positions() * 4).tolist() == expected
