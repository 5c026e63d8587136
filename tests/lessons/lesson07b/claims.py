"""The comparisons in the text of lesson 07b; what this file is: test_claims.py."""

import re

from printed import whole


def more_pieces(outputs: dict[str, str]) -> None:
    """each row consists of more pieces: 6 instead of 3 on average."""
    assert (
        "picked from 3 pieces of memory on average, in the other layout from 6." in outputs["c11"]
    )


def the_tile_with_the_zeros(outputs: dict[str, str]) -> None:
    """The picture names the tile that the others wait for: tile 0, which sends 30,952 bytes."""
    assert "tile 0 takes 7,792, the median tile 1,806" in outputs["c20"]
    assert "sends 30,952 bytes, the median 248" in outputs["c20"]


def sixteen_times_as_many(outputs: dict[str, str]) -> None:
    """sixteen times as many multiplications, and less than 1.4 times the cycles."""
    rows = re.findall(r"^ +(\d+) +\d+% +([\d,]+) +([\d,]+)$", outputs["c34"], re.MULTILINE)
    table = {int(n): [whole(x) for x in row] for n, *row in rows}
    assert table[16][0] == 16 * table[1][0] and table[16][1] < 1.4 * table[1][1]


def fewer_than_half_as_many(outputs: dict[str, str]) -> None:
    """This network has fewer than half as many."""
    (numbers,) = re.findall(r"([\d,]+) numbers to learn", outputs["c52"])
    assert whole(numbers) < 7850 / 2


def the_pooling_takes_most(outputs: dict[str, str]) -> None:
    """The backward pass of the pooling takes more cycles than any other part, about a ninth of them."""
    total, part = re.findall(r"([\d,]+) modelled cycles: ([\d,]+) of them", outputs["c61"])[0]
    assert round(100 * whole(part) / whole(total)) == 11
    assert "pool_input_gradient/SumPooling" in outputs["c61"]


def small_pieces(outputs: dict[str, str]) -> None:
    """Most of its time goes into moving small pieces of memory, of two FLOATs each on average."""
    moving, pieces, size = re.findall(
        r"([\d,]+) of them on moving ([\d,]+) pieces, ([\d,]+) bytes", outputs["c61"]
    )[0]
    (taken,) = re.findall(r"compute is ([\d,]+) of them", outputs["c61"])
    assert whole(moving) > whole(taken) / 2 and round(whole(size) / whole(pieces) / 4) == 2


def groups_of_64_cost_more(outputs: dict[str, str]) -> None:
    """but there are four times as many multiplications, and they take 2.5 times the cycles of groups
    of 16."""
    rows = re.findall(r"^ +(\d+) +\d+% +([\d,]+) +([\d,]+)$", outputs["c34"], re.MULTILINE)
    table = {int(n): [whole(x) for x in row] for n, *row in rows}
    assert table[64][0] == 4 * table[16][0] and round(table[64][1] / table[16][1], 1) == 2.5


def the_mean_is_too_small(outputs: dict[str, str]) -> None:
    """The mean of the four variances is too small"""
    every, whole, mean = re.findall(r"(\d\.\d+)\]?$", outputs["c69"], re.MULTILINE)
    assert abs(float(every) - float(whole)) < 1e-3 and float(mean) < 0.5 * float(whole)


def two_channels_take_more_than_four(outputs: dict[str, str]) -> None:
    """2 channels take more cycles than 4."""
    rows = re.findall(r"^ +(\d+) +\d+% +[\d,]+ +([\d,]+)$", outputs["c34"], re.MULTILINE)
    cycles = {int(n): whole(x) for n, x in rows}
    assert cycles[2] > cycles[4]
