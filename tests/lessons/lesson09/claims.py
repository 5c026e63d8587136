"""The comparisons in the text of lesson 09; what this file is: test_claims.py."""

import re

from printed import whole, whole_numbers


def _rows(outputs: dict[str, str]) -> dict[int, tuple[int, int]]:
    """Return (cycles of a load, percent of the run that eight loads take) by GB/s."""
    pattern = r"(\d+) GB/s: a load takes +([\d,]+) cycles; eight loads take (\d+) %"
    rows = re.findall(pattern, outputs["code-29"])
    return {int(rate): (whole(load), int(busy)) for rate, load, busy in rows}


def memory_stays_the_same(outputs: dict[str, str]) -> None:
    """Memory use stays the same, and the time grows with the number of layers."""
    rows = re.findall(r"(\d+) layers: ([\d,]+) bytes, +([\d,]+) cycles", outputs["code-17"])
    assert [int(layers) for layers, _, _ in rows] == [4, 8, 16]
    assert len({size for _, size, _ in rows}) == 1
    cycles = [whole(count) for _, _, count in rows]
    assert 1.9 < cycles[1] / cycles[0] < 2.1 and 1.9 < cycles[2] / cycles[1] < 2.1


def rates_at_which_a_load_is_too_long(outputs: dict[str, str]) -> None:
    """A load is too long at 2 and 4 GB/s. A layer takes 6,711 cycles. At 4 GB/s a load takes 8,092
    cycles, and at 6 GB/s 5,395."""
    assert "a layer takes 6,711 cycles" in outputs["code-29"]
    loads = {rate: load for rate, (load, _) in _rows(outputs).items()}
    assert loads[4] == 8092 and loads[6] == 5395
    assert {rate for rate, load in loads.items() if load > 6711} == {2, 4}


def limited_by_the_link(outputs: dict[str, str]) -> None:
    """At 2 GB/s the loads take 95 % of the lower run, so a faster chip would gain little."""
    assert _rows(outputs)[2][1] == 95


def hard_to_see(outputs: dict[str, str]) -> None:
    """At 16 GB/s the loads take 25 % of the run, but seven of the eight loads are hidden
    behind a layer."""
    load, percent = _rows(outputs)[16]
    assert percent == 25 and load + 500 < 6711


def only_the_pattern_differs(outputs: dict[str, str]) -> None:
    """Only the sync pattern differs between the two runs: all values and all bytes are the same."""
    assert "the same bits: True" in outputs["code-27"]


def alternating_takes_three_steps(outputs: dict[str, str]) -> None:
    """Alternating there and back takes three steps; first all transfers there, then all back, takes
    two."""
    assert "there and back: [0, 1, 1, 2]" in outputs["code-49"]
    assert "sorted:         [0, 0, 1, 1]" in outputs["code-49"]


def a_third_of_the_rate(outputs: dict[str, str]) -> None:
    """At a third of this rate, what is the smallest factor that hides a load"""
    assert "a load of 12,138 cycles: factor 2" in outputs["code-35"]


def sync_and_exchange_change_nothing(outputs: dict[str, str]) -> None:
    """(The sync and the exchange of a load take a few hundred cycles more, which changes nothing at
    these rates.)"""
    loads = sorted(load for load, _ in _rows(outputs).values())
    assert not any(6711 - 1000 < load < 6711 for load in loads)


def a_quarter_with_shards(outputs: dict[str, str]) -> None:
    """With shards, it is a quarter of that."""
    shards, whole_state = re.findall(
        r"([\d,]+) bytes to .*; ([\d,]+) if whole", outputs["code-45"]
    )[0]
    assert 4 * whole(shards) == whole(whole_state) == 4 * 2 * 52_000 * 4


def few_cycles_on_the_link(outputs: dict[str, str]) -> None:
    """Only 5 % of the cycles are on the link, because a row has only 26 numbers."""
    total, streaming = whole_numbers(outputs["code-12"])[-2:]
    assert round(100 * streaming / total) == 5
    assert (total - streaming) / (4 * 32) > 100  # four steps in each of 32 iterations
