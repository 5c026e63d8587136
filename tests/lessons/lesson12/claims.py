"""The comparisons in the text of lesson 12; what this file is: test_claims.py."""

import re

from printed import whole


def cycles_grow_with_the_blocks(outputs: dict[str, str]) -> None:
    """Missing blocks cost nothing: the cycles grow with the number of blocks."""
    cycles = [whole(n) for n in re.findall(r"([\d,]+) modelled", outputs["c15"])]
    few, more, all_blocks = cycles
    assert few < more < all_blocks
    per_block = (more - few) / (60 - 15)
    assert abs((all_blocks - more) / (240 - 60) - per_block) < 0.05 * per_block


def no_gain_from_single_values(outputs: dict[str, str]) -> None:
    """Fifteen of sixteen multiplications are gone, but with single values the product is not faster."""
    blocks, single = map(float, re.findall(r"([\d.]+) times", outputs["c22"]))
    assert blocks > 1 > single


def densities_on_the_curves(outputs: dict[str, str]) -> None:
    """At 1/2 only blocks of 16 are faster. At 1/4 blocks of 4 are faster as well, and at 1/16 single
    values, too."""
    assert (
        "by blocks of 16 at 1/2, by blocks of 4 at 1/4, by single values at 1/16" in outputs["c30"]
    )


def block_size_matters_more(outputs: dict[str, str]) -> None:
    """Blocks of 16 at a density of 1/2 are already faster than dense, and single values only at 1/16."""
    row = "1024 x 1024 by 1024 x 1024: blocks of 1: 1/16, blocks of 4: 1/4, blocks of 16: 1/2"
    assert row in outputs["c28"]


def uneven_patterns_cost_steps(outputs: dict[str, str]) -> None:
    """An uneven pattern costs steps, and no memory. Here, 5 steps instead of 1 take about 2.5 times the
    cycles."""
    rows = re.findall(r": (\d) steps, by the library (\d); ([\d,]+) modelled", outputs["c44"])
    assert [(own, library) for own, library, _ in rows] == [("1", "1"), ("2", "2"), ("5", "5")]
    cycles = [whole(count) for _, _, count in rows]
    assert cycles == sorted(cycles)
    assert round(cycles[2] / cycles[0], 1) == 2.5


def the_plan_leaves_out_syncs(outputs: dict[str, str]) -> None:
    """The picture shows 3,519 planned cycles for the crowded pattern, and the run took 8,523."""
    assert "3,519 modelled cycles are planned" in outputs["c5"]
    assert "crowded: 2 steps, by the library 2; 8,523 modelled cycles" in outputs["c44"]
    assert "16 supersteps; 7 of them only count and test:" in outputs["code-44b"]
    assert " 2,321 modelled cycles" in outputs["code-44b"]


def syncs_matter_for_the_small_matrix(outputs: dict[str, str]) -> None:
    """Two of the nine densities change, both for the small matrix: single values and blocks of 4 are
    faster from 1/4 down, not from 1/2. There, the syncs are about a quarter of the dense plan."""
    row = r"(\d+) x \d+ by \d+ x (\d+): .* 1: (1/\d+), .* 4: (1/\d+), .* 16: (1/\d+)"
    with_syncs, without = (re.findall(row, outputs[cell]) for cell in ("c28", "code-31b"))
    assert with_syncs[0] == ("256", "64", "1/2", "1/2", "1/2")
    assert without[0] == ("256", "64", "1/4", "1/4", "1/2")
    assert len(without) == 3 and with_syncs[1:] == without[1:]
    assert [found[-1] for found in without] == ["1/2"] * 3
    cycles, syncs = re.findall(r"([\d,]+) cycles planned, (\d+) of", outputs["code-31b"])[0]
    assert 0.22 < int(syncs) / whole(cycles) < 0.28


def blocks_that_move_learn(outputs: dict[str, str]) -> None:
    """With blocks that move, the loss falls to 0.00: the blocks found the right positions. Without
    moving, the loss hardly falls."""
    assert re.search(r" 0 blocks moved each time: loss 7\.5 -> 6\.75", outputs["c51"])
    assert re.search(r"12 blocks moved each time: loss 7\.5 -> 0\.00", outputs["c51"])
