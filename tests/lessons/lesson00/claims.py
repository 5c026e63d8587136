"""The comparisons in the text of lesson 00; what this file is: test_claims.py."""

import re

from printed import whole_numbers

from ipu_teach import FLOAT, Engine, Graph, IPUModel
from ipu_teach.program import Copy


def _cycles(outputs: dict[str, str]) -> dict[str, int]:
    """Return the modelled cycles of each source of data."""
    rows = re.findall(r"^([a-z ]+?) +([\d,]+) modelled cycles", outputs["code-17"], re.MULTILINE)
    return {source: whole_numbers(cycles)[0] for source, cycles in rows}


def five_percent(outputs: dict[str, str]) -> None:
    """If two figures for the same memory differ by about 5 %, compare the units first."""
    sheet, target = (whole_numbers(row)[1] for row in outputs["code-12"].splitlines()[1:3])
    assert 1.04 < target / sheet < 1.05
    assert abs(2**20 / 1_000_000 - 1.05) < 0.002


def two_take_the_same_time(outputs: dict[str, str]) -> None:
    """Two of them take the same time, so their order does not matter."""
    cycles = _cycles(outputs)
    assert len(cycles) == 5 and cycles["neighbour"] == cycles["one for all"]


def a_neighbour_is_near(outputs: dict[str, str]) -> None:
    """A neighbour's numbers take only 12 % longer than numbers from the tile's own memory."""
    cycles = _cycles(outputs)
    assert round(100 * cycles["neighbour"] / cycles["own memory"]) == 112


def another_chip_is_far(outputs: dict[str, str]) -> None:
    """The copy takes almost 90 times as long as from a neighbour."""
    cycles = _cycles(outputs)
    assert 88 < cycles["other chip"] / cycles["neighbour"] < 90


def the_host_is_farther(outputs: dict[str, str]) -> None:
    """The copy takes 10 times as long again."""
    cycles = _cycles(outputs)
    assert round(cycles["host"] / cycles["other chip"], 1) == 10.1


def most_tiles_have_none(outputs: dict[str, str]) -> None:
    """90 elements are on tile 4, and most tiles have none."""
    assert "404 bytes on 2 tiles, the most 360 on tile 4" in outputs["code-19"]


def blocks_save_one_percent(outputs: dict[str, str]) -> None:
    """so the blocks save only 1 % of the time"""
    assert "7,896 modelled cycles" in outputs["rod-code"]
    assert "304 bytes arrive" in outputs["rod-code"]
    assert round(100 * (1 - 7800 / 7896)) == 1


def starting_takes_almost_as_long(outputs: dict[str, str]) -> None:
    """a Copy there moves 8 bytes per cycle, and starting it took almost as long again"""
    moving = 4000 / 8
    starting = _cycles(outputs)["own memory"] - moving
    assert 0.9 * moving < starting < moving


def _copied(machine: str, distance: int) -> float:
    """Return the modelled cycles of 1,000 floats to each tile of chip 0 of four, without the sync.

    They come from chip `distance`; from the tile's own memory if that is 0.
    """
    device = IPUModel(machine, num_ipus=4).create_device()
    graph, tiles = Graph(device), device.target.tiles_per_ipu
    rows = [[(tile * 1000, (tile + 1) * 1000)] for tile in range(tiles)]
    source = graph.add_variable(FLOAT, (tiles, 1000), "source")
    destination = graph.add_variable(FLOAT, (tiles, 1000), "destination")
    graph.set_tile_mapping(source, [[]] * tiles * distance + rows)
    graph.set_tile_mapping(destination, rows)
    graph.set_initial_value(source, 1)
    engine = Engine(graph, Copy(source, destination))
    engine.load(device)
    engine.run()
    cost = engine.report.step_cost(0)
    return cost.cycles - cost.sync_cycles


def bow_is_faster_on_the_chip(outputs: dict[str, str]) -> None:
    """Everything on the chip takes as many cycles as before, so it is faster, by 39 %. The links
    and the host hardly change their rates."""
    clocks = [IPUModel(name).create_device().target.clock_frequency for name in ("ipu2", "bow")]
    assert round(100 * clocks[1] / clocks[0]) == 139
    assert _copied("ipu2", 0) == _copied("bow", 0) == _cycles(outputs)["own memory"]
    seconds = [
        _copied(name, 1) / clock for name, clock in zip(("ipu2", "bow"), clocks, strict=True)
    ]
    assert abs(seconds[0] / seconds[1] - 1) < 0.01


def the_farthest_chip(outputs: dict[str, str]) -> None:
    """The farthest of four chips takes almost twice as many cycles as the next one."""
    assert _copied("ipu2", 1) == _cycles(outputs)["other chip"]
    assert 1.9 < _copied("ipu2", 3) / _copied("ipu2", 1) < 2
