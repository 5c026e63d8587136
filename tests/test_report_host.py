"""The host's timeline: what is on it, how it nests, and that no figure of the model depends on it."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import numpy as np
import pytest

from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, StreamCallback, counter, tracepoint
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Repeat, Sequence
from ipu_teach.report import chrome_trace
from ipu_teach.report.host import ENGINE, STREAMS, TIMELINE, Timeline


class Ahead(StreamCallback):
    def prefetch(self, array: Any) -> StreamCallback.Result:
        return StreamCallback.Result.SUCCESS

    def fetch(self, array: Any) -> None:
        array[:] = 1


def engine_with(source: Any) -> Engine:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, 4, "x")
    graph.set_tile_mapping(x, 0)
    stream = graph.add_host_to_device_fifo("batches", FLOAT, 4)
    engine = Engine(graph, Repeat(3, Copy(stream, x)))
    engine.load(device)
    engine.connect_stream("batches", source)
    return engine


def slow() -> Any:
    time.sleep(0.002)
    return np.ones(4, np.float32)


def test_what_the_host_did() -> None:
    engine = engine_with(slow)
    with tracepoint("epoch"), tracepoint("batch", "training"):
        engine.run(0, "first")
    host = engine.report.host
    names = [(e.channel, e.name, e.depth) for e in host.events]
    assert names == [
        (ENGINE, "compile", 0), (ENGINE, "load", 0), ("user", "epoch", 0), ("training", "batch", 1), (ENGINE, "run first", 2),
        *[(STREAMS, "batches: StreamCopy", 3), (STREAMS, "batches: The connected function", 4)] * 3,
    ]  # fmt: skip
    for event, inner in itertools.pairwise(host.events[2:7]):
        assert event.start <= inner.start and inner.start + inner.duration <= event.start + event.duration + 1e-9
    (waiting,) = host.waiting()
    run = next(e for e in host.events if e.name == "run first")
    assert waiting.calls == 3 and waiting.longest <= waiting.seconds <= run.duration
    assert waiting.share == pytest.approx(waiting.seconds / run.duration) and waiting.seconds >= 3 * 0.002


def test_every_stream_copy_has_its_bytes_and_its_direction() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, 4, "x")
    graph.set_tile_mapping(x, 0)
    into, out = graph.add_host_to_device_fifo("in", FLOAT, 4), graph.add_device_to_host_fifo("out", FLOAT, 4)
    engine = Engine(graph, Repeat(2, Sequence(Copy(into, x), Copy(x, out))))
    engine.load(device)
    engine.connect_stream("in", np.arange(8, dtype=np.float32))
    engine.connect_stream("out", (came := np.zeros(8, np.float32)))
    engine.run()
    assert came.tolist() == list(range(8))
    host = engine.report.host
    assert [(e.name, e.bytes, e.direction, e.depth) for e in host.events if e.channel == STREAMS] == [
        ("in: StreamCopy", 16, "host to device", 1), ("out: StreamCopy", 16, "device to host", 1),
    ] * 2  # fmt: skip
    assert [(s.name, s.direction, s.transfers, s.bytes, s.waited) for s in host.streams()] == [
        ("in", "host to device", 2, 32, 0.0), ("out", "device to host", 2, 32, 0.0),
    ]  # fmt: skip
    assert not host.waiting() and not host.starved() and host.starved_share == 0
    assert sum(s.bytes for s in host.streams()) == engine.report.host_bytes
    assert sum(host.totals().values()) == pytest.approx(sum(e.duration for e in host.events if e.depth == 0))
    opened = Report.deserialize(engine.report.serialize()).host
    assert opened.events == host.events and opened.streams() == host.streams() and opened.totals() == host.totals()


def test_where_the_device_starved() -> None:
    times = iter([0.0, 0.004, 0.0])

    def uneven() -> Any:
        time.sleep(next(times))
        return np.ones(4, np.float32)

    engine = engine_with(uneven)
    engine.run(0, "first")
    host = engine.report.host
    worst, *others = host.starved()
    assert (worst.name, worst.transfer, worst.run) == ("batches", 1, "run first") and worst.seconds >= 0.004
    assert sorted(s.transfer for s in others) == [0, 2] and all(s.seconds <= worst.seconds for s in others)
    copies = [e for e in host.events if e.name == "batches: StreamCopy"]
    assert worst.start == copies[1].start and worst.seconds <= copies[1].duration
    assert sum(s.seconds for s in host.starved()) == pytest.approx(sum(w.seconds for w in host.waiting()))
    assert 0.004 / next(e for e in host.events if e.name == "run first").duration <= host.starved_share <= 1


def test_a_million_copies_push_out_no_mark() -> None:
    timeline = Timeline(3)
    since = time.perf_counter_ns()
    timeline.add("user", "epoch", time.perf_counter_ns())
    for _ in range(10):
        timeline.add(STREAMS, "in: StreamCopy", time.perf_counter_ns(), 16, "host to device")
    found = timeline.snapshot(since)
    assert [e.name for e in found.events] == ["epoch"] + ["in: StreamCopy"] * 3 and found.dropped == 7


def test_what_was_prefetched_kept_nobody_waiting() -> None:
    engine = engine_with(Ahead())
    engine.run()
    names = [e.name for e in engine.report.host.events if e.channel == STREAMS]
    assert "batches: Ahead.prefetch()" in names and "batches: Ahead.fetch()" in names
    assert not any("prefetch()" in row.name for row in engine.report.host.waiting())


def test_values_over_time() -> None:
    engine = engine_with(np.ones(4))
    loss = counter("loss", "nats")
    for value in (2.5, np.float32(1.5), 1):
        loss.add(value)
    values = engine.report.host.values
    assert [(v.name, v.unit, v.value) for v in values] == [("loss", "nats", 2.5), ("loss", "nats", 1.5), ("loss", "nats", 1)]
    assert values[0].time <= values[1].time <= values[2].time
    for wrong in ("high", None, float("nan"), float("inf"), [1, 2]):
        with pytest.raises(InvalidOptionError, match=r"^The counter 'loss' was given .*\n  next:  give one finite number\.$"):
            loss.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError) as caught, tracepoint(3):  # type: ignore[arg-type]
        pass
    assert str(caught.value) == 'tracepoint() was given 3.\n  next:  give text: with tracepoint("load batch"):'


def test_a_report_knows_its_own_time_only() -> None:
    engine_with(slow).run(0, "before")
    engine = engine_with(slow)
    assert [e.name for e in engine.report.host.events] == ["compile", "load"]


def test_the_timeline_is_bounded() -> None:
    timeline = Timeline(3)
    since = time.perf_counter_ns()
    for number in range(5):
        timeline.add("user", str(number), time.perf_counter_ns())
    found = timeline.snapshot(since)
    assert [e.name for e in found.events] == ["2", "3", "4"] and found.dropped == 2
    assert TIMELINE is not timeline


def test_a_mark_is_made_of_what_fails_too() -> None:
    engine = engine_with(slow)
    with pytest.raises(ZeroDivisionError), tracepoint("fails"):
        raise ZeroDivisionError
    assert engine.report.host.events[-1].name == "fails"


def test_times_go_into_files_and_into_no_digest() -> None:
    reports = []
    for _ in range(2):
        engine = engine_with(slow)
        engine.run()
        reports.append(engine.report)
    one, other = reports
    assert one.host.events[-1].start != other.host.events[-1].start
    assert one.digest() == other.digest() and one._repr_html_() == other._repr_html_()
    assert one.serialize(host=False) == other.serialize(host=False) != one.serialize()
    opened = Report.deserialize(one.serialize())
    assert opened.host.events == one.host.events and opened.host.waiting() == one.host.waiting()
    assert Report.deserialize(one.serialize(host=False)).host.events == ()


def test_the_host_in_a_trace() -> None:
    engine = engine_with(slow)
    counter("loss").add(1.5)
    engine.run(0, "first")
    events = json.loads(chrome_trace(engine.report, host=True))["traceEvents"]
    host = [e for e in events if e["pid"] == 0]
    assert [e["name"] for e in host if e["ph"] == "X"] == [e.name for e in engine.report.host.events]
    assert [(e["name"], e["args"]) for e in host if e["ph"] == "C"] == [("loss", {"value": 1.5})]
    assert not any(e["pid"] == 0 for e in json.loads(chrome_trace(engine.report))["traceEvents"])
