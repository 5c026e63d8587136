"""The JSON of older SDKs: its key names, and sums that agree with the report's."""

from __future__ import annotations

import json
from array import array

import numpy as np
import pytest

from ipu_teach import Report
from ipu_teach.errors import NotOfferedError
from ipu_teach.report import execution_profile, graph_profile
from ipu_teach.report.log import StepLog

# As docs.graphcore.ai/projects/profile-data names them (graph profile, 3.2.1; execution profile, 4.2.3, and its index).
TARGET = ["type", "bytesPerIPU", "bytesPerTile", "clockFrequency", "numIPUs", "tilesPerIPU", "numTiles", "totalMemory",
          "relativeSyncDelayByTile", "minSyncDelay"]  # fmt: skip


@pytest.mark.parametrize("name", ["products", "spread", "too_large"])
def test_what_was_compiled(name: str) -> None:
    report = Report.sample(name)
    found = json.loads(json.dumps(graph_profile(report), allow_nan=False))
    target, memory = found["target"], found["memory"]
    assert list(target) == TARGET and target["totalMemory"] == target["numTiles"] * target["bytesPerTile"]
    assert target["totalMemory"] == target["numIPUs"] * target["bytesPerIPU"] and target["type"] == "IPU_MODEL"
    assert len(target["relativeSyncDelayByTile"]) == target["numTiles"] == len(memory["byTile"]["total"])
    assert np.sum(list(memory["byCategory"].values()), axis=0).tolist() == memory["byTile"]["total"]
    assert found["graph"]["numVertices"] == sum(map(sum, found["computeSets"]["vertexCounts"]))
    assert found["graph"]["numComputeSets"] == len(found["computeSets"]["names"]) and found["modelled"] is True
    assert sum(map(sum, found["exchanges"]["bytesReceivedByTile"])) == sum(e.bytes_received for e in report.exchanges)
    kinds = [node.type for program in report.profile.programs for _, node in program.walk()]

    def told(program: dict[str, object]) -> list[object]:
        return [program["type"], *(kind for child in program.get("children", []) for kind in told(child))]  # type: ignore[attr-defined]

    assert [kind for program in found["programs"] for kind in told(program)] == kinds


@pytest.mark.parametrize("name", ["products", "spread"])
def test_what_ran(name: str) -> None:
    report = Report.sample(name)
    found = json.loads(json.dumps(execution_profile(report), allow_nan=False))
    steps = found["simulation"]["steps"]
    assert found["simulation"]["cycles"] == report.total_cycles == pytest.approx(sum(s["cycles"] for s in steps))
    assert found["profilerMode"] == "IPU_MODEL" and found["programTrace"] == report.step_numbers.tolist()
    by_type = {kind: [s for s in steps if s["type"] == kind] for kind in ("OnTileExecute", "DoExchange", "StreamCopy", "Sync")}
    assert sum(map(len, by_type.values())) == len(steps)
    compute = np.sum([s["cyclesByTile"] for s in by_type["OnTileExecute"]], axis=0)
    assert compute.tolist() == report.compute_cycles_per_tile.tolist()
    for which, total in zip(("bytesReceivedByTile", "bytesSentByTile"), report.exchange_bytes_per_tile, strict=True):
        assert np.sum([s[which] for s in by_type["DoExchange"]], axis=0).tolist() == total.tolist()
    for step in by_type["OnTileExecute"]:
        active = [cycles for cycles in step["cyclesByTile"] if cycles]
        assert step["activeTiles"] == len(active)
        assert step["activeTileBalance"] == pytest.approx(np.mean(active) / max(active))
        assert step["tileBalance"] == pytest.approx(np.mean(step["cyclesByTile"]) / max(active))
    for first, second in zip(steps, steps[1:], strict=False):
        assert first["cyclesTo"] == pytest.approx(second["cyclesFrom"])


def test_a_run_that_is_too_long() -> None:
    report, log = Report.sample("products"), StepLog()
    log.add(array("i", [1] * 400_000))
    with pytest.raises(NotOfferedError) as caught:
        execution_profile(Report(report.profile, log.snapshot()))
    assert str(caught.value) == (
        "An execution.json of 1,200,000 steps on 13 tiles is not offered by this kit.\n"
        "  next:  use report.save(path), or run fewer steps."
    )
