"""The comparisons in the text of lesson 14; what this file is: test_claims.py."""

import re

from printed import whole


def steps_need_sync_and_exchange(outputs: dict[str, str]) -> None:
    """The tiles share the computation, but each step still needs the sync and an exchange."""
    rows = re.findall(r"sync (\d+), exchange (\d+), compute ([\d,]+)", outputs["c18"])
    few, all_tiles = [[whole(number) for number in row] for row in rows]
    assert all_tiles[0] == few[0] and 2 * all_tiles[1] > few[1] and 100 * all_tiles[2] < few[2]


def half_only_copy(outputs: dict[str, str]) -> None:
    """But half of the supersteps only copy."""
    assert "24 supersteps" in outputs["c5"]  # of 12 steps


def the_middle_stays_hot(outputs: dict[str, str]) -> None:
    """Its middle stays hot for a long time"""
    middle = [float(value) for value in re.findall(r"row 92 ([\d.]+)", outputs["c20"])]
    assert middle[:2] == [96, 96] and 94 < middle[2] < 96


def computes_longer_than_it_exchanges(outputs: dict[str, str]) -> None:
    """here a step computes for much longer than it exchanges."""
    (_, compute), *_ = re.findall(r"exchange (\d+), compute ([\d,]+)", outputs["c18"])
    cycles_per_number = whole(compute) / (92 * 92 / 13)
    exchanges = [int(cycles) for cycles in re.findall(r"exchange (\d+) modelled", outputs["c26"])]
    assert 24 * 24 * cycles_per_number > 20 * max(exchanges)


def strips_fetch_more(outputs: dict[str, str]) -> None:
    """Blocks have less edge than strips."""
    strips, blocks = (whole(n) for n in re.findall(r": ([\d,]+) bytes", outputs["c26"]))
    assert strips > 4 * blocks


def unreached_crossings(outputs: dict[str, str]) -> None:
    """A crossing that cannot be reached from the middle keeps its -1."""
    assert "29 crossings never reached" in outputs["c41"]


def waiting_is_gone_from_the_look(outputs: dict[str, str]) -> None:
    """most of the waiting is gone from the look. The largest part of the rest is a sum over all tiles in
    each wave, which one tile computes."""
    text = outputs["c52"]
    assert "Most is lost in Execute look" in text
    assert "Most is lost in Execute reduce" in text.partition("Second report")[2]


def twelve_wait_for_the_hub(outputs: dict[str, str]) -> None:
    """twelve of thirteen tiles wait for the one with the hub."""
    assert "tile 0 takes 10,614, the median tile 1,110" in outputs["c48"]
