"""The comparisons in the text of lesson 06; what this file is: test_claims.py."""

import re

from printed import whole_numbers


def the_highest_step(outputs: dict[str, str]) -> None:
    """The highest step is step 4, `make corners`."""
    assert "most at step 4 (Execute make corners)" in outputs["code-08"]


def only_the_host_steps_copy(outputs: dict[str, str]) -> None:
    """so only the two steps that exchange data with the host have copies."""
    rows = re.findall(r"(\d+) bytes live on all tiles, \[(.*?)\]", outputs["code-13"])
    elements = {"picture": 2000, "blurred": 2000, "edges": 6000}
    differences = [
        int(total) - 4 * 13 * sum(elements[name] for name in re.findall(r"\w+", names))
        for total, names in rows
    ]
    assert differences[0] > 0 and differences[1:] == [0, 0]


def the_copies_of_a_step(outputs: dict[str, str]) -> None:
    """These copies have 5,760 bytes"""
    total = re.search(r"(\d+) bytes live on all tiles, \['picture'\]", outputs["code-13"])
    assert total is not None and int(total[1]) - 4 * 13 * 2000 == 5760


def code_and_stacks_are_in_the_picture(outputs: dict[str, str]) -> None:
    """The picture `show.liveness` counts 57,136 bytes as always live, because it includes code and
    stacks."""
    assert "57,136 of them always live" in outputs["code-08"]
    assert "\n6,000 bytes always live" in outputs["code-21"]


def a_fifth_of_the_memory(outputs: dict[str, str]) -> None:
    """The fullest tile needs about a fifth of the memory now."""
    before, after = re.findall(r"needs most, ([\d,]+) bytes", outputs["code-29"])[:2]
    assert 0.15 < whole_numbers(after)[0] / whole_numbers(before)[0] < 0.25


def the_curves_are_closer(outputs: dict[str, str]) -> None:
    """The curves themselves are closer to each other, because they count all tiles together"""
    before, after = re.findall(r": ([\d,]+) bytes on all tiles", outputs["code-29"])[:2]
    assert 0.5 < whole_numbers(after)[0] / whole_numbers(before)[0] < 0.6


def the_extra_time_is_exchange(outputs: dict[str, str]) -> None:
    """The step `blend` has become longer, and the extra time is in its exchange."""
    lines = dict(re.findall(r"(cycles|exchange) +blend +(.*)", outputs["code-33"]))
    (cycles, longer), (none, exchange) = (
        whole_numbers(lines[k])[:2] for k in ("cycles", "exchange")
    )
    assert none == 0 and longer - cycles == exchange


def from_13_tiles_to_5(outputs: dict[str, str]) -> None:
    """`scales` was on 13 tiles and is on 5 now"""
    assert re.search(r"variables +scales .*tiles 13 before, 5 after", outputs["code-33"])


def waits_most_of_the_time(outputs: dict[str, str]) -> None:
    """A device that waits for data most of the time is said to **starve**."""
    share = re.search(r"waits for data for ([\d.]+) %", outputs["code-41"])
    assert share is not None and float(share[1]) > 50


def more_than_forty_cycles(outputs: dict[str, str]) -> None:
    """But a tile adds up 3,600 numbers, and takes more than forty cycles for each."""
    numbers = whole_numbers(outputs["code-49"])
    assert numbers[1] == 78 * 600 and numbers[1] // 13 == 3600
    assert "exchanged: 0 bytes" in outputs["code-49"]
    assert numbers[-1] == numbers[-2] and 40 < numbers[-1] / 3600 < 50


def more_than_forty_times(outputs: dict[str, str]) -> None:
    """with which the sums are more than forty times as fast"""
    times = re.search(r"([\d.]+) times as fast", outputs["code-55"])
    assert times is not None and float(times[1]) > 40
