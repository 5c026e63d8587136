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
    """At 1/2 only blocks of 16 are faster, from 1/4 on blocks of 4 as well, and from 1/16 on single
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


def block_size_and_a_small_matrix(outputs: dict[str, str]) -> None:
    """Without the syncs, the dense plan has 1,526 - 396 = 1,130 cycles. The three sparse plans have
    almost the same: 1,213, 1,235 and 1,123."""
    assert "256 x 64: blocks of 1: 1/2, blocks of 4: 1/2, blocks of 16: 1/2" in outputs["c28"]
    assert "dense: 1,526 cycles" in outputs["c28"] and "sync and latency 396" in outputs["c28"]
    assert re.findall(r"([\d,]+) with blocks", outputs["c28"]) == ["1,213", "1,235", "1,123"]


def blocks_that_move_learn(outputs: dict[str, str]) -> None:
    """With blocks that move, the loss falls to 0.00: the blocks found the right positions. Without
    moving, the loss hardly falls."""
    assert re.search(r" 0 blocks moved each time: loss 7\.5 -> 6\.75", outputs["c51"])
    assert re.search(r"12 blocks moved each time: loss 7\.5 -> 0\.00", outputs["c51"])
