"""The comparisons in the text of lesson 14; what this file is: test_claims.py."""

import re

from printed import whole


def steps_need_sync_and_exchange(outputs: dict[str, str]) -> None:
    """The tiles share the computation, but each step still needs the sync and an exchange.
    The computation is about 102 times as short."""
    rows = re.findall(r"sync (\d+), exchange (\d+), compute ([\d,]+)", outputs["c18"])
    few, all_tiles = [[whole(number) for number in row] for row in rows]
    assert all_tiles[0] == few[0] and 2 * all_tiles[1] > few[1]
    assert round(few[2] / all_tiles[2]) == 102


def half_only_copy(outputs: dict[str, str]) -> None:
    """But half of the supersteps only copy."""
    assert "24 supersteps" in outputs["c5"]  # of 12 steps


def the_middle_stays_hot(outputs: dict[str, str]) -> None:
    """After 2,000 steps row 20 has cooled to 45.08, and row 92 only to 94.68."""
    assert "row 20 has 45.08, row 92 94.68" in outputs["c20"].splitlines()[2]


def half_the_supersteps(outputs: dict[str, str]) -> None:
    """your program has about half the supersteps, and takes 26 % fewer cycles: 8,782 instead of 11,880."""
    assert "by the library: 11,880" in outputs["c16"] and "by your program: 8,782" in outputs["c16"]
    assert round(100 * (1 - 8782 / 11880)) == 26


def sixty_four_times_as_fast(outputs: dict[str, str]) -> None:
    """So 113 times as many tiles are 64 times as fast."""
    few, all_tiles = (whole(n) for n in re.findall(r"= ([\d,]+) modelled", outputs["c18"]))
    assert round(few / all_tiles) == 64


def computes_longer_than_it_exchanges(outputs: dict[str, str]) -> None:
    """here a step computes for much longer than it exchanges, with strips and with blocks."""
    pairs = re.findall(r"tile; exchange (\d+), compute ([\d,]+) mod", outputs["c26"])
    assert len(pairs) == 2 and all(whole(long) > 20 * whole(short) for short, long in pairs)


def strips_fetch_more(outputs: dict[str, str]) -> None:
    """Blocks have less edge than strips."""
    strips, blocks = (whole(n) for n in re.findall(r": ([\d,]+) bytes", outputs["c26"]))
    assert strips > 4 * blocks


def unreached_crossings(outputs: dict[str, str]) -> None:
    """There were 14 waves: the last wave reaches nothing and ends the loop. A crossing that cannot be
    reached from the middle keeps its -1."""
    assert "distances up to 13" in outputs["c41"] and "in 56 supersteps" in outputs["c41"]  # 4 each
    assert "29 crossings never reached" in outputs["c41"]


def waiting_is_gone_from_the_look(outputs: dict[str, str]) -> None:
    """In the superstep `look`, most of the waiting is gone. The largest part of the remaining waiting is a
    sum over all tiles in each wave, which one tile computes."""
    text = outputs["c52"]
    assert "Most is lost in Execute look" in text
    assert "Most is lost in Execute reduce" in text.partition("Second report")[2]


def twelve_wait_for_the_hub(outputs: dict[str, str]) -> None:
    """twelve of thirteen tiles wait for the tile with the hub."""
    assert "tile 0 takes 10,614, the median tile 1,110" in outputs["c48"]
    assert "2,214 instead of 10,965" in outputs["c48"]
