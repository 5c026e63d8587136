"""The comparisons in the text of lesson 01; what this file is: test_claims.py."""

import re

import numpy as np
from printed import whole_numbers

from ipu_teach import FLOAT, Engine, Graph, IPUModel, concat
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr
from ipu_teach.program import Copy, Repeat, Sequence


def _heat(crowded: int | None) -> float:
    """Return the modelled cycles of the cell "heat", with three pieces side by side."""
    device = IPUModel("ipu2", tiles_per_ipu=13).create_device()
    graph, step = Graph(device), Sequence()
    rod = graph.add_variable(FLOAT, (39,), "rod")
    graph.set_tile_mapping(rod, [[(3 * tile, 3 * tile + 3)] for tile in range(13)])
    if crowded is not None:
        graph.set_tile_mapping(rod[:20], crowded)
    graph.set_initial_value(rod, [96] * 4 + [0] * 35)
    left, right = concat([rod[:1], rod[:-1]]), concat([rod[1:], rod[-1:]])
    warmth = (expr._1 + 2 * expr._2 + expr._3) / 4
    step.add(Copy(popops.map(graph, warmth, [left, rod, right], step), rod))
    engine = Engine(graph, Repeat(8, step))
    engine.load(device)
    engine.run()
    return engine.report.total_cycles


def crowding_takes_longer(outputs: dict[str, str]) -> None:
    """With three pieces side by side on each tile, it took 7,800 modelled cycles; with `crowded = 4`
    it takes 8,616."""
    assert "7,800 modelled cycles" in outputs["heat"] and _heat(crowded=None) == 7800
    assert _heat(crowded=4) == 8616


def the_exchange_is_longer(outputs: dict[str, str]) -> None:
    """The sync and the work are the same in both. The exchange of the model takes 82 cycles, and
    yours takes 16, because the model counts more than the bytes:"""
    (yours,), (sync, exchange, compute) = (
        whole_numbers(line.split(":")[-1]) for line in outputs["code-12"].splitlines()[1:3]
    )
    assert exchange == 82 and yours - sync - compute == 16


def balance_saves_a_quarter(outputs: dict[str, str]) -> None:
    """With the reference answer, the balanced run takes 24 % fewer cycles for the same jobs."""
    before, after = map(int, re.findall(r"(\d+) modelled", outputs["code-17"].replace(",", "")))
    assert round(100 * (1 - after / before)) == 24


def two_supersteps_are_shorter(outputs: dict[str, str]) -> None:
    """It takes 372 modelled cycles in place of 520. More than half of these 372 cycles are still
    syncs: small supersteps are expensive."""
    three, two = re.findall(r"(\d+) supersteps, (\d+) modelled", outputs["code-33"])[:2]
    assert three == ("3", "520") and two == ("2", "372")
    assert "sync 53.8" in outputs["code-33"]


def an_external_sync_is_longer(outputs: dict[str, str]) -> None:
    """The external sync takes seven times as long."""
    internal, external = whole_numbers(outputs["code-42"])
    assert external == 7 * internal


def exchange_is_predicted_well(outputs: dict[str, str]) -> None:
    """a difference of half a per cent"""
    assert round(100 * (8743 / 8697 - 1), 1) == 0.5


def one_slow_tile_of_many(outputs: dict[str, str]) -> None:
    """With one slow tile, the share of waiting is 0.90: nearly all tiles wait for one. With 736
    slow tiles it is 0.45"""
    for slow, share in ((1, 0.90), (736, 0.45)):
        work = np.array([1000] * slow + [100] * (1472 - slow))
        assert round(1 - work.mean() / work.max(), 2) == share
