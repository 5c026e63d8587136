"""The comparisons in the text of lesson 08; what this file is: test_claims.py."""

import re

from printed import whole_numbers

from ipu_teach.schedules import recompute


def nine_layers(outputs: dict[str, str]) -> None:
    """The second run recomputes nine layers: it has 41 steps instead of 32, which is 28 % more. It
    takes only 22 % more cycles"""
    steps = recompute(16, keep=range(0, 16, 4))
    assert sum(kind == "recompute" for kind, _ in steps) == 9
    _, all_saved, _, some_saved, percent = whole_numbers(outputs["code-13"])[:5]
    assert percent == 22 == round(100 * (some_saved / all_saved - 1))


def backward_is_larger(outputs: dict[str, str]) -> None:
    """because these forward steps are shorter than the backward steps."""
    _, all_saved, _, some_saved = whole_numbers(outputs["code-13"])[:4]
    forward_step = (some_saved - all_saved) / 9
    assert all_saved / 16 - forward_step > forward_step


def every_fourth_is_the_lowest(outputs: dict[str, str]) -> None:
    """with every fourth input saved, at most 7 inputs are in memory. The other four spacings need
    more memory."""
    rows = re.findall(r"every +(\d+): at most +(\d+)", outputs["code-20"])
    peaks = {int(every): int(peak) for every, peak in rows}
    assert peaks.pop(4) == 7 and min(peaks.values()) > 7 and {1, 2, 8, 16} == peaks.keys()


def ten_thousand_layers(outputs: dict[str, str]) -> None:
    """Ten thousand layers fit into the memory of two hundred inputs, and the price is not quite one
    extra forward pass."""
    (row,) = re.findall(r"every +100 of 10,000:.*", outputs["code-24"])
    _, layers, inputs, recomputed = whole_numbers(row)
    assert layers == 10_000 and inputs <= 200 and 0.95 * layers < recomputed < layers


def one_input_lower(outputs: dict[str, str]) -> None:
    """The highest point is one input lower, 6 in place of 7, and one more layer is recomputed: the list
    has 42 steps in place of 41."""
    assert "at most 6 inputs at once" in outputs["code-28"]
    assert "What is live at 42 steps" in outputs["code-28"] and "in 41 steps" in outputs["code-20"]
    assert re.search(r"every +4: at most +7", outputs["code-20"])


def a_longer_first_segment(outputs: dict[str, str]) -> None:
    """it may have six layers: saving 0, 6, 9 and 13 also needs at most 6 inputs."""
    saved = {0, 6, 9, 13}
    in_memory = {0}
    peak = 0
    for kind, layer in recompute(16, keep=saved):
        if kind == "backward":
            in_memory.remove(layer)
            continue
        in_memory.add(layer + 1)
        peak = max(peak, len(in_memory - {16}))
        if kind == "forward" and layer not in saved and layer < 13:
            in_memory.remove(layer)
    assert peak == 6


def the_chain_fits(outputs: dict[str, str]) -> None:
    """The program fits, its results have the same bits, and it takes 22 % more cycles."""
    assert "the same bits: True" in outputs["code-38"]
    assert "22 % more modelled cycles" in outputs["code-38"]
