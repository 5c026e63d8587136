"""The comparisons in the text of lesson 11; what this file is: test_claims.py."""

import re

import numpy as np
from printed import whole


def close_on_average(outputs: dict[str, str]) -> None:
    """no single rounding gives 0.4, but the mean of all roundings is close to 0.4."""
    assert "became 0.40625 in 79.8 % of them and 0.375 in 20.2 %: 0.399931" in outputs["c5"]


def one_factor_moves_all_values(outputs: dict[str, str]) -> None:
    """one factor moves all values into the range of F143."""
    assert re.search(r"times 2\^14 as QUARTER\[F143, 0\] none become 0", outputs["c5"])
    assert "none are too large. 0.4, rounded" in outputs["c5"]


def the_sum_never_grows(outputs: dict[str, str]) -> None:
    """With rounding to nearest, 1 + 2^-12 is 1 again, so the sum never grows."""
    assert "to nearest: 1.000" in outputs["c12"] and "at random: 1.999" in outputs["c12"]


def a_million_steps(outputs: dict[str, str]) -> None:
    """After a million steps, rounding to nearest is off by 100,000, since each step is 0.1 too long.
    Stochastic rounding is typically off by about 120."""
    assert "to nearest 5.00; at random 4.00 on average, std 0.39" in outputs["c19"]
    assert round(1e6 * (0.5 - 0.4)) == 100_000
    assert "std after a million steps: 122" in outputs["c19"]
    assert 121 < 0.25 * np.sqrt(1e6 * 0.6 * 0.4) < 123


def all_codes_agree(outputs: dict[str, str]) -> None:
    """return the code whose number is the nearest to value"""
    assert outputs["c29"].count("100% of 2,000 codes") == 2


def half_is_faster(outputs: dict[str, str]) -> None:
    """HALF is faster. But if a sum is already large, small terms added to it are rounded away"""
    half, single = re.findall(r"[\d,]{5,}", outputs["c43"])
    assert whole(half) < whole(single)


def the_size_of_one_feature(outputs: dict[str, str]) -> None:
    """With a feature of 1, sums in HALF are exact enough. With a feature of 8, they are not."""
    assert re.search(r"one feature of +1: .* take HALF", outputs["c47"])
    assert re.search(r"one feature of +8: .* take FLOAT", outputs["c47"])


def eight_bits_learn(outputs: dict[str, str]) -> None:
    """The 8-bit run learns nearly as well as the run in FLOAT. With scale 0 for all tensors, the loss is
    about 18 times as large as with 8 bits and suitable scales."""
    single, eight, unscaled = map(float, re.findall(r"([\d.]+)% of the loss", outputs["c52"]))
    assert single < 1 and eight < 1.5 * single and round(unscaled / eight) == 18
