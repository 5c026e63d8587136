"""The comparisons in the text of lesson 13; what this file is: test_claims.py."""

import re

from printed import whole


def the_same_weights(outputs: dict[str, str]) -> None:
    """Both runs classify equally many digits correctly, in equally many cycles. What differs is how
    often the host called the device: 160 times, or 20 times."""
    shares = re.findall(r"([\d.]+)% of held-out digits", outputs["c18"])
    assert len(shares) == 2 and shares[0] == shares[1]
    (calls, cycles), (fewer_calls, same_cycles) = re.findall(
        r"calls: (\d+), ([\d,]+) modelled", outputs["c18"]
    )
    assert (calls, fewer_calls) == ("160", "20") and cycles == same_cycles


def the_host_decides(outputs: dict[str, str]) -> None:
    """Then the host takes 160 ms or 20 ms, and the device only 2 ms in both runs."""
    rows = re.findall(r"device (\d+) ms, host (\d+) ms", outputs["c18"])
    assert rows == [("2", "160"), ("2", "20")]


def leaky_relu_trains(outputs: dict[str, str]) -> None:
    """With leaky relu, the loss ends at 0.54, and with relu at 0.58."""
    assert re.findall(r"([\d.]+) at last", outputs["c29"]) == ["0.58", "0.54"]


def recomputation_keeps_nothing(outputs: dict[str, str]) -> None:
    """With recomputation, nothing is kept, and a step takes 37 % more cycles."""
    rows = re.findall(r"([\d,]+) bytes kept, ([\d,]+) cycles", outputs["c43"])
    (_, before), (kept, after) = [[whole(n) for n in row] for row in rows]
    assert kept == 0 and round(100 * (after / before - 1)) == 37


def one_value_serves_both(outputs: dict[str, str]) -> None:
    """Pooling reads the same value, so one value in memory serves both."""
    assert outputs["c41"].count("relu") == 1


def more_values_to_keep(outputs: dict[str, str]) -> None:
    """Batch norm keeps its input in a normalised form, and its statistics, which are small."""
    sizes = [whole(n) for n in re.findall(r"([\d,]+) bytes, computed by bn", outputs["c41"])]
    assert len(sizes) == 2 and min(sizes) * 100 < max(sizes)
