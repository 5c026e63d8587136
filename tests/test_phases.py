"""Models larger than the machine: one layer at a time from streaming memory, in series or while
another IPU computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import phases, sharded_state

from ipu_teach import Report


def layers(count: int) -> tuple[Any, Any, Any]:
    """(activations, weights, what comes out: in float64, a layer at a time)."""
    rng = np.random.default_rng(0)
    weights = (rng.standard_normal((count, 78, 78)) / np.sqrt(78)).astype(np.float32)
    x = rng.standard_normal((26, 78)).astype(np.float32)
    expected = x.astype(np.float64)
    for w in weights:
        expected = np.tanh(expected @ w)
    return x, weights, expected


def test_one_resident_layer_takes_as_much_memory_however_many_there_are() -> None:
    peaks = []
    for count in (2, 6):
        x, weights, expected = layers(count)
        y, report = phases.one_resident(x, weights)
        assert np.abs(y - expected).max() < 1e-6
        assert report.streaming_bytes == count * 78 * 78 * 4
        peaks.append(int(report.memory.bytes_per_tile.max()))
    assert peaks[0] == peaks[1] < 17_000


def test_two_ipus_by_turns_gain_nothing_until_one_may_load_alone() -> None:
    """Each load of 24,336 bytes takes 4,338 cycles with its sync; under SINGLE_PIPELINE all of them
    but the first pass while the other IPU computes."""
    x, weights, expected = layers(8)
    results = {
        pattern: phases.ping_pong(x, weights, sync_pattern=pattern)
        for pattern in ("FULL", "SINGLE_PIPELINE", "REPLICA_AND_LADDER")
    }
    values = [y for y, _ in results.values()]
    assert np.abs(values[0] - expected).max() < 1e-6
    assert all(np.array_equal(values[0], other) for other in values)
    full, alone, group = (report for _, report in results.values())
    assert alone.total_cycles == full.what_if(sync_pattern="SINGLE_PIPELINE").total_cycles
    assert group.total_cycles == full.total_cycles  # both IPUs are of one replica
    loads = [step for step in full.steps() if step.cost.kind == "RemoteCopy"]
    assert len(loads) == 8
    hidden = sum(step.cycles for step in loads[1:])
    # What is left of a load is nothing: the layer that is computed meanwhile takes longer.
    assert full.total_cycles - alone.total_cycles == pytest.approx(hidden, rel=0.02)
    assert alone.total_cycles / full.total_cycles == pytest.approx(65_665 / 101_531, rel=0.02)
    opened = Report.deserialize(alone.serialize())
    assert opened.what_if(sync_pattern="FULL").total_cycles == full.total_cycles


@pytest.mark.parametrize("n", [52_000, 30])
def test_sharded_weights_and_momentum_have_the_same_bits_and_a_quarter_of_the_traffic(
    n: int,
) -> None:
    """30 elements do not fill their four shards of 8."""
    rng = np.random.default_rng(0)
    weights = rng.integers(-8, 8, n).astype(np.float32)
    data = rng.integers(-3, 3, (4, n)).astype(np.float32)
    w, moments = weights.astype(np.float64), np.zeros(n)
    for _ in range(2):
        moments = 0.9 * moments + (data * w).sum(axis=0)
        w = w - 0.5 / 4 * moments
    whole, parts = (sharded_state.main(weights, data, 2, sharded=s) for s in (False, True))
    assert np.array_equal(whole[0], parts[0]) and whole[0] == pytest.approx(w, abs=1e-5, rel=1e-6)
    all_of_it, quarter = whole[1], parts[1]
    # loads and stores of both buffers, two steps, shards filled with zeros
    assert quarter.streaming_bytes == 4 * 2 * 4 * 4 * -(-n // 4) == all_of_it.streaming_bytes // 4
    links = [report.global_exchange_cycles for report in (all_of_it, quarter)]
    assert links[0] == links[1] > 0  # scattering and gathering is what an all-reduce does
    assert [use.rows_read for use in quarter.host.buffers()] == [2, 2]
    if n == 52_000:
        # what was measured before stores side by side shared a step
        assert 0.98 < all_of_it.total_cycles / 398_778 <= 1
        assert 0.98 < quarter.total_cycles / 159_746 <= 1
        assert quarter.streaming_cycles * 4 == all_of_it.streaming_cycles == 276_640
        tiles = [int(report.memory.bytes_per_tile.max()) for report in (all_of_it, quarter)]
        assert tiles[1] < 60_000 < 75_000 < tiles[0]
