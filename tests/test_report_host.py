"""The host's timeline: what is on it, how it nests, and that no figure of the model depends on
it."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import numpy as np
import pytest

import ipu_teach
from ipu_teach import FLOAT, Engine, Graph, IPUModel, Report, StreamCallback, counter, tracepoint
from ipu_teach.errors import InvalidOptionError
from ipu_teach.program import Copy, Repeat, Sequence
from ipu_teach.report import chrome_trace
from ipu_teach.report.host_times import ENGINE, STREAMS, TIMELINE, Timeline
from ipu_teach.report.host_trace import HostTrace, Raw


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
        (ENGINE, "compile", 0),
        (ENGINE, "load", 0),
        ("user", "epoch", 0),
        ("training", "batch", 1),
        (ENGINE, "run first", 2),
        *[(STREAMS, "batches: StreamCopy", 3), (STREAMS, "batches: The connected function", 4)] * 3,
    ]
    for event, inner in itertools.pairwise(host.events[2:7]):
        assert (
            event.start <= inner.start
            and inner.start + inner.duration <= event.start + event.duration + 1e-9
        )
    (waiting,) = host.waiting()
    run = next(e for e in host.events if e.name == "run first")
    assert waiting.calls == 3 and waiting.longest <= waiting.seconds <= run.duration
    assert (
        waiting.share == pytest.approx(waiting.seconds / run.duration)
        and waiting.seconds >= 3 * 0.002
    )


def test_every_stream_copy_has_its_bytes_and_its_direction() -> None:
    device = IPUModel(tiles_per_ipu=1).create_device()
    graph = Graph(device)
    x = graph.add_variable(FLOAT, 4, "x")
    graph.set_tile_mapping(x, 0)
    into, out = (
        graph.add_host_to_device_fifo("in", FLOAT, 4),
        graph.add_device_to_host_fifo("out", FLOAT, 4),
    )
    engine = Engine(graph, Repeat(2, Sequence(Copy(into, x), Copy(x, out))))
    engine.load(device)
    engine.connect_stream("in", np.arange(8, dtype=np.float32))
    engine.connect_stream("out", (came := np.zeros(8, np.float32)))
    engine.run()
    assert came.tolist() == list(range(8))
    host = engine.report.host
    assert [
        (e.name, e.bytes, e.direction, e.depth) for e in host.events if e.channel == STREAMS
    ] == [
        ("in: StreamCopy", 16, "host to device", 1),
        ("out: StreamCopy", 16, "device to host", 1),
    ] * 2
    assert [(s.name, s.direction, s.transfers, s.bytes, s.waited) for s in host.streams()] == [
        ("in", "host to device", 2, 32, 0.0),
        ("out", "device to host", 2, 32, 0.0),
    ]
    assert not host.waiting() and host.starved_share == 0
    assert sum(s.bytes for s in host.streams()) == engine.report.host_bytes
    opened = Report.deserialize(engine.report.serialize()).host
    assert opened.events == host.events and opened.streams() == host.streams()


def test_where_the_device_starved() -> None:
    """Two runs with times given: of each copy the function inside kept the device waiting, what was
    prefetched did not."""
    copy, function, ahead = "in: StreamCopy", "in: The connected function", "in: Ahead.prefetch()"
    raw = [Raw(ENGINE, "run first", 0, 1000, 1)]
    for start, waited in ((100, 10), (300, 200)):
        raw += [Raw(STREAMS, copy, start, start + 250, 1, 16, "host to device")] if waited else []
        raw += [Raw(STREAMS, function, start + 5, start + 5 + waited, 1)]
    raw += [Raw(STREAMS, ahead, 340 + 170, 345 + 170, 1), Raw(ENGINE, "run 1", 2000, 3000, 1)]
    raw += [
        Raw(STREAMS, copy, 2100, 2150, 1, 16, "host to device"),
        Raw(STREAMS, "in: The connected function", 2300, 2400, 2),
    ]
    raw[1] = raw[1]._replace(end=200)
    host = HostTrace(raw)
    (use,) = host.streams()
    assert (use.transfers, use.bytes, round(use.seconds * 1e9), round(use.waited * 1e9)) == (
        3,
        48,
        100 + 250 + 50,
        210,
    )
    # The function in another thread waits by itself, and counts as a wait of the host's functions
    # all the same.
    (waiting,) = host.waiting()
    assert (waiting.calls, round(waiting.seconds * 1e9)) == (
        3,
        310,
    ) and host.starved_share == pytest.approx(310 / 2000)


def test_a_million_copies_push_out_no_mark() -> None:
    timeline = Timeline(3)
    since = time.perf_counter_ns()
    timeline.add("user", "epoch", time.perf_counter_ns())
    for _ in range(10):
        timeline.add(STREAMS, "in: StreamCopy", time.perf_counter_ns(), 16, "host to device")
    found = timeline.snapshot(since)
    assert [e.name for e in found.events] == ["epoch"] + [
        "in: StreamCopy"
    ] * 3 and found.dropped == 7


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
    assert [(v.name, v.unit, v.value) for v in values] == [
        ("loss", "nats", 2.5),
        ("loss", "nats", 1.5),
        ("loss", "nats", 1),
    ]
    assert values[0].time <= values[1].time <= values[2].time
    for wrong in ("high", None, float("nan"), float("inf"), [1, 2]):
        with pytest.raises(
            InvalidOptionError,
            match=r"^The counter 'loss' was given .*\n  next:  give one finite number, as in "
            r"counter\(\"loss\"\)\.add\(0\.5\)\.$",
        ):
            loss.add(wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError) as caught, tracepoint(3):  # type: ignore[arg-type]
        pass
    assert str(caught.value) == (
        "tracepoint() was given 3, which is not a string.\n  next:  give a string, as in "
        'tracepoint("load batch").'
    )


def test_a_report_knows_its_own_time_only() -> None:
    engine_with(slow).run(0, "before")
    engine = engine_with(slow)
    assert [e.name for e in engine.report.host.events] == ["compile", "load"]


def test_what_was_before_is_not_held() -> None:
    """A report of a long session holds no other's events; what began before it is not its own."""
    timeline = Timeline()
    for channel in ("user", "training"):
        for number in range(3):
            timeline.add(channel, f"old {number}", time.perf_counter_ns())
    begun = time.perf_counter_ns()
    since = begun + 1
    while time.perf_counter_ns() <= since:
        pass
    timeline.add("user", "within", time.perf_counter_ns())
    timeline.add("user", "around", begun)
    timeline.add("user", "after", time.perf_counter_ns())
    found = timeline.snapshot(since)
    assert [e.name for e in found.events] == ["within", "after"]
    assert sorted(event[1] for event in found._raw) == ["after", "around", "within"]


def test_values_of_counters_from_before_are_not_held_and_keep_their_order() -> None:
    timeline = Timeline()
    timeline.add_value("loss", "", 9.0)
    since = time.perf_counter_ns()
    for value in (3.0, 1.0, 2.0):
        timeline.add_value("loss", "", value)
    found = timeline.snapshot(since).values
    assert [v.value for v in found] == [3.0, 1.0, 2.0]
    assert all(v.time >= 0 for v in found)


def test_the_timeline_is_bounded() -> None:
    timeline = Timeline(3)
    since = time.perf_counter_ns()
    for number in range(5):
        timeline.add("user", str(number), time.perf_counter_ns())
    found = timeline.snapshot(since)
    assert [e.name for e in found.events] == ["2", "3", "4"] and found.dropped == 2
    assert TIMELINE is not timeline


def test_an_event_added_during_a_snapshot_does_not_break_it() -> None:
    timeline = Timeline()
    for name in ("first", "second"):
        timeline.add("user", name, time.perf_counter_ns())

    class AddsOne(int):
        added = False

        def __lt__(self, other: int) -> bool:  # Python compares the end of an event with it.
            if not self.added:
                self.added = True
                timeline.add("user", "meanwhile", time.perf_counter_ns())
            return int(self) < other

    found = timeline.snapshot(AddsOne(0))
    assert {e.name for e in found.events} == {"first", "second", "meanwhile"}


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
    assert [e["name"] for e in host if e["ph"] == "X"] == [
        e.name for e in engine.report.host.events
    ]
    assert [(e["name"], e["args"]) for e in host if e["ph"] == "C"] == [("loss", {"value": 1.5})]
    assert not any(e["pid"] == 0 for e in json.loads(chrome_trace(engine.report))["traceEvents"])


def test_the_timeline_in_a_cell() -> None:
    """A sentence, and tables with their numbers; what a name holds is text."""
    engine = engine_with(slow)
    with tracepoint("<b>epoch</b>"):
        engine.run(0, "first")
    counter("loss", "nats").add(0.5)
    host = engine.report.host
    assert repr(host).startswith("7 events of the host, measured: 1 run of ") or repr(
        host
    ).startswith("10 events of the host")
    assert "3 stream copies moved 48 bytes; the device waited " in repr(host)
    page = host._repr_html_()
    assert (
        page.count("<details>") == page.count("</details>") == 4
        and "<b>" not in page
        and "&lt;b&gt;epoch" in page
    )
    for title in ("Streams: 1", "What the device waited for: 1", "Counters: 1", "Events: "):
        assert f"<summary>{title}" in page
    assert page.count("Measured, in seconds") == 4
    assert (
        repr(HostTrace()) == "0 events of the host, measured: 0 runs of 0 s."
        and "<details>" not in HostTrace()._repr_html_()
    )


def test_tables_in_a_cell() -> None:
    report = engine_with(slow).report
    page = report.variables._repr_html_()
    assert (
        '<th scope="col">always live</th>' in page
        and '<th scope="row">x</th>' in page
        and "<caption>1 row</caption>" in page
    )
    found = Report.sample("products").execution.steps[0:9]._repr_html_()
    assert "<caption>9 rows; cycles are modelled</caption>" in found and "<td>143</td>" in found
    assert "A table without rows." in report.compute_sets._repr_html_()


def test_a_file_has_the_newest_events_of_each_channel() -> None:
    raw = [Raw(ENGINE, "run 0", 0, 10**6, 1), Raw("user", "epoch", 1, 10**6 - 1, 1)]
    raw += [
        Raw(STREAMS, "in: StreamCopy", 10 + 2 * i, 11 + 2 * i, 1, 4, "host to device")
        for i in range(20_003)
    ]
    report = Report.sample("products")
    live = Report(report.profile, report._ran, HostTrace(raw))
    opened = Report.deserialize(live.serialize()).host
    assert len(opened.events) == 2 + 20_000 and opened.dropped == 3
    assert [e.name for e in opened.events[:3]] == ["run 0", "epoch", "in: StreamCopy"]
    assert opened.events[2] == live.host.events[5] and opened.events[-1] == live.host.events[-1]


def test_what_marked_the_timeline_before_says_what_does_now() -> None:
    with pytest.raises(AttributeError) as caught:
        ipu_teach.pvti  # type: ignore[attr-defined]  # noqa: B018
    assert str(caught.value) == (
        "ipu_teach.pvti is not offered by this kit.\n"
        "  next:  use instead: tracepoint(label) and counter(name), seen in report.host."
    )
