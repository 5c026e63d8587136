"""The names of libpvti: channels, tracepoints, graphs, heat maps, and the file that they go to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from ipu_teach import open_trace, pvti
from ipu_teach.errors import InvalidOptionError, ReportLoadError
from ipu_teach.report.host import TIMELINE
from ipu_teach.report.host_trace import HostTrace
from ipu_teach.report.trace_events import TraceEvent

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def since() -> Iterator[int]:
    yield time.perf_counter_ns()
    TIMELINE.silent.clear()


def told(host: HostTrace) -> list[tuple[str, str, int]]:
    return [(e.channel, e.name, e.depth) for e in host.events]


def test_tracepoints_nest_and_instants_take_no_time(since: int) -> None:
    channel = pvti.create_trace_channel("training")
    assert pvti.create_trace_channel("training") is channel and ("training", True) in pvti.list_trace_channel()
    with pvti.Tracepoint(channel, "epoch"):
        pvti.Tracepoint.begin(channel, "batch")
        pvti.Tracepoint.event(channel, "new rate")
        pvti.Tracepoint.end(channel, "batch")
    host = TIMELINE.snapshot(since)
    assert told(host) == [("training", "epoch", 0), ("training", "batch", 1), ("training", "new rate", 2)]
    epoch, batch, instant = host.events
    assert instant.duration == 0 < batch.duration <= epoch.duration
    with pytest.raises(InvalidOptionError) as caught:
        pvti.Tracepoint.end(channel, "batch")
    assert str(caught.value) == (
        "Tracepoint.end() was given 'batch', which no begin() began in this thread.\n  where: TraceChannel('training')\n"
        "  next:  call Tracepoint.begin(channel, label) before, with the same label."
    )


def test_a_disabled_channel_notes_nothing(since: int) -> None:
    channel = pvti.create_trace_channel("quiet")
    pvti.disable_trace_channel(channel)
    pvti.Tracepoint.event(channel, "unseen")
    assert not pvti.check_trace_channel(channel) and repr(channel) == "TraceChannel('quiet', disabled)"
    pvti.enable_trace_channel(channel)
    pvti.Tracepoint.event(channel, "seen")
    assert pvti.check_trace_channel(channel) and told(TIMELINE.snapshot(since)) == [("quiet", "seen", 0)]


def test_series_of_a_graph_and_heat_maps(since: int) -> None:
    loss = pvti.Graph("Loss", "nats")
    for name, value in (("training", 2.0), ("validation", 3.0), ("training", 1.0)):
        loss.add_series(name).add(value)
    weights = pvti.Heatmap("weights", [-1, 0, 1, 2], "V")
    values = np.array([-5.0, -1.0, -0.5, 0.0, 0.999, 1.0, 2.0, 7.0, np.nan])
    weights.add(values, "step 1")
    host = TIMELINE.snapshot(since)
    found = {name: [v.value for v in rows] for name, rows in host.series().items()}
    assert found == {"Loss: training": [2.0, 1.0], "Loss: validation": [3.0]}
    (histogram,) = host.histograms
    # numpy's own counts of the values that are moved into the outer bins
    assert histogram.counts == tuple(np.histogram(np.clip(values[:-1], -1, 2), [-1, 0, 1, 2])[0].tolist()) == (3, 2, 3)
    assert (histogram.name, histogram.unit, histogram.label, histogram.edges) == ("weights", "V", "step 1", (-1, 0, 1, 2))


@pytest.mark.parametrize("edges", [[], [1], [1, 1], [2, 1], [0, np.inf], "ab", None, [[0, 1], [2, 3]]])
def test_wrong_edges(edges: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"^Heatmap\('w'\) was given the edges "):
        pvti.Heatmap("w", edges)


def test_what_is_no_channel_and_no_text() -> None:
    channel = pvti.create_trace_channel("training")
    for call in (
        lambda: pvti.create_trace_channel(""), lambda: pvti.Tracepoint("training", "x"), lambda: pvti.Tracepoint(channel, 3),
        lambda: pvti.disable_trace_channel("training"), lambda: pvti.Graph(3), lambda: pvti.Graph("Loss").add_series(3),
        lambda: pvti.Heatmap("w", [0, 1]).add("high"), lambda: pvti.Graph("Loss").add_series().add(float("nan")),
    ):  # fmt: skip
        with pytest.raises(InvalidOptionError):
            call()  # type: ignore[no-untyped-call]


PROGRAM = """
from ipu_teach import pvti
channel = pvti.create_trace_channel("training")
quiet = pvti.create_trace_channel("other")
with pvti.Tracepoint(channel, "epoch 0"):
    with pvti.Tracepoint(channel, "batch"):
        pvti.Tracepoint.event(channel, "new rate")
    pvti.Tracepoint.event(quiet, "unseen")
pvti.Graph("Loss", "nats").add_series("training").add(0.5)
pvti.Heatmap("weights", [0, 1, 2]).add([0.5, 1.5, 1.5])
print(pvti.get_current_trace_filename())
"""


def run(options: str, folder: Path) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PVTI_OPTIONS": options}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=env, cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert ("cannot be read" in done.stderr) == (options == "{")
    return done.stdout.strip()


def test_the_environment_asks_for_a_file(tmp_path: Path) -> None:
    name = run('{"enable": "true", "directory": "traces", "channels": ["training"]}', tmp_path)
    trace = open_trace(tmp_path / name)
    (process,) = trace.processes
    assert process.name == "host, measured" and trace.process(0) is process
    (thread,) = process.threads
    assert process.thread(0) is thread and len(thread.events) == 1
    epoch = thread.events[0]
    (batch,) = epoch.children
    assert (epoch.label, epoch.channel, batch.label) == ("epoch 0", "training", "batch")
    assert [(e.label, e.duration, e.children) for e in batch.children] == [("new rate", 0, ())]
    assert epoch.timestamp <= batch.timestamp and batch.duration <= epoch.duration
    written = json.loads((tmp_path / name).read_text())["traceEvents"]
    counters = [(e["name"], e["args"]) for e in written if e["ph"] == "C"]
    assert counters == [("Loss: training [nats]", {"value": 0.5}), ("weights", {"0 to 1": 1, "1 to 2": 2})]
    with pytest.raises(ReportLoadError) as caught:
        process.thread(7)
    assert str(caught.value) == "The trace has no thread 7.\n  next:  it has 0."


def test_other_options(tmp_path: Path) -> None:
    assert run("", tmp_path) == run('{"enable": "false"}', tmp_path) == "" and not list(tmp_path.iterdir())
    assert run("{", tmp_path) and len(list(tmp_path.glob("trace_*.json"))) == 1
    name = run('{"duration": 1e-9}', tmp_path)
    assert open_trace(tmp_path / name).processes == ()


def test_durations_nest_on_random_timelines(tmp_path: Path) -> None:
    """Round trip; what is inside lasts no longer than what is around, all of it together."""
    rng = Random(3)
    channel = pvti.create_trace_channel("random")

    def some(depth: int) -> None:
        for number in range(rng.randint(0, 3)):
            with pvti.Tracepoint(channel, f"{depth}.{number}"):
                some(depth + 1) if depth < 5 else None

    since = time.perf_counter_ns()
    some(0)
    host = TIMELINE.snapshot(since)
    from ipu_teach.report.trace_events import host_json

    (tmp_path / "t.json").write_text(host_json(host))
    found: list[tuple[str, int]] = []

    def visit(event: TraceEvent, depth: int) -> None:
        found.append((event.label, depth))
        assert sum(e.duration for e in event.children) <= event.duration + 1e-6
        for inner in event.children:
            visit(inner, depth + 1)

    for event in open_trace(tmp_path / "t.json").processes[0].threads[0].events:
        visit(event, 0)
    assert found == [(e.name, e.depth) for e in host.events] and found


def test_traces_of_others_and_damaged_ones(tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    begin_end = [{"ph": "B", "name": "a", "ts": 1, "pid": 3, "tid": 4}, {"ph": "E", "ts": 5, "pid": 3, "tid": 4}]
    path.write_text(json.dumps(begin_end))
    (event,) = open_trace(path).process(3).thread(4).events
    assert (event.label, event.timestamp, event.duration) == ("a", 1, 4)
    for text in ("", "{", "[" * 100_000, "3", '{"traceEvents": 3}', '[{"ph": 1}]', '[{"ph": "X", "name": "a", "ts": "x"}]',
                 '[{"ph": "X", "name": "a", "ts": 1e400}]', '[{"ph": "X", "name": "a", "ts": 0, "dur": -1}]'):  # fmt: skip
        path.write_text(text)
        with pytest.raises(ReportLoadError):
            open_trace(path)
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportLoadError, match=r"^This is no trace, or it is damaged: UnicodeDecodeError\."):
        open_trace(path)
    with pytest.raises(FileNotFoundError) as caught:
        open_trace(tmp_path / "gone.json")
    assert str(caught.value).endswith("\n  next:  give the path of a file that pvti.close_trace or report trace wrote.")
