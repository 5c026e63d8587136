"""Models larger than the machine: one layer at a time from streaming memory, in series or while
another IPU computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from programs import phases

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
    assert (
        alone.total_cycles
        == group.total_cycles
        == full.what_if(sync_pattern="SINGLE_PIPELINE").total_cycles
    )
    loads = [step for step in full.steps() if step.cost.kind == "RemoteCopy"]
    assert len(loads) == 8
    hidden = sum(step.cycles for step in loads[1:])
    # What is left of a load is nothing: the layer that is computed meanwhile takes longer.
    assert full.total_cycles - alone.total_cycles == pytest.approx(hidden, rel=0.02)
    assert alone.total_cycles / full.total_cycles == pytest.approx(65_665 / 101_531, rel=0.02)
    opened = Report.deserialize(alone.serialize())
    assert opened.what_if(sync_pattern="FULL").total_cycles == full.total_cycles
