"""The host's timeline as Chrome's trace events, and such a file read again, by libpva's names.

Reading checks everything: a file is only data, and one that is damaged is a `ReportLoadError`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ipu_teach.archive import Format, read_whole
from ipu_teach.errors import ReportLoadError, ReportNotFoundError, shown
from ipu_teach.report.host_trace import HostTrace, nested
from ipu_teach.report.table import Table
from ipu_teach.schema import TEXT, Known, Part, real, whole

TRACE = Format("trace", 1, "pvti.close_trace or report trace", ReportLoadError, ReportNotFoundError)
HOST = 0  # the number of the host's process
LONGEST = 1e15  # microseconds
TIME, NUMBER = real(-LONGEST, LONGEST), whole(-(2**63), 2**63)
Raw = dict[str, Any]
T = TypeVar("T")


def host_events(host: HostTrace) -> Iterator[Raw]:
    """The host's events, series and histograms."""
    yield {"ph": "M", "name": "process_name", "pid": HOST, "tid": 0, "args": {"name": "host, measured"}}
    for event in host.events:
        details: dict[str, Any] = {"channel": event.channel}
        if event.direction:
            details |= {"bytes": event.bytes, "direction": event.direction}
        # Viewers count in whole nanoseconds: both ends are rounded, so that what is inside stays inside.
        first, last = round(event.start * 1e9), round(event.end * 1e9)
        one: Raw = {"name": event.name, "cat": event.channel, "pid": HOST, "tid": event.thread, "ts": first / 1000}
        extent = {"ph": "X", "dur": (last - first) / 1000} if last > first else {"ph": "i", "s": "t"}
        yield {**one, **extent, "args": details}
    for name, values in host.series().items():
        unit = f" [{values[0].unit}]" if values[0].unit else ""
        for value in values:
            place: Raw = {"name": f"{name}{unit}", "pid": HOST, "tid": 0, "ts": value.time * 1e6}
            yield {"ph": "C", **place, "args": {"value": value.value}}
    for histogram in host.histograms:
        bins = zip(histogram.edges, histogram.edges[1:], histogram.counts, strict=False)
        counts = {f"{low:g} to {high:g}": count for low, high, count in bins}
        unit = f" [{histogram.unit}]" if histogram.unit else ""
        yield {"ph": "C", "name": f"{histogram.name}{unit}", "pid": HOST, "tid": 0, "ts": histogram.time * 1e6, "args": counts}


def host_json(host: HostTrace, most_seconds: float | None = None) -> str:
    """The host's timeline as a file; of it what began in the first `most_seconds`."""
    limit = float("inf") if most_seconds is None else most_seconds * 1e6
    events = [event for event in host_events(host) if event.get("ts", 0) <= limit]
    return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, separators=(",", ":"))


@dataclass(frozen=True)
class TraceEvent:
    """One event of a trace: `timestamp` and `duration` in microseconds, `children` those directly inside."""

    label: str
    channel: str
    timestamp: float
    duration: float
    children: tuple[TraceEvent, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Thread:
    """A thread, or a row of the device; `events` are the outermost ones, in order."""

    tid: int
    name: str
    events: Table[TraceEvent] = field(repr=False)


@dataclass(frozen=True)
class Process:
    """A process. `thread(tid)` is one of its `threads`."""

    pid: int
    name: str
    threads: tuple[Thread, ...] = field(repr=False)

    def thread(self, tid: int) -> Thread:
        """The thread of that number. Raises `ReportLoadError`."""
        return _one({t.tid: t for t in self.threads}, tid, "thread")


@dataclass(frozen=True)
class Trace:
    """A file of trace events. `process(pid)` is one of its `processes`."""

    processes: tuple[Process, ...]

    def process(self, pid: int) -> Process:
        """The process of that number. Raises `ReportLoadError`."""
        return _one({p.pid: p for p in self.processes}, pid, "process")


def _one(found: dict[int, T], number: int, what: str) -> T:
    if number in found:
        return found[number]
    raise ReportLoadError(f"""The trace has no {what} {shown(number)}.
        next:  it has {", ".join(map(str, found)) or "none"}.""")


def open_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a file of Chrome's trace events, such as `close_trace` or `ipu-teach report trace` wrote.

    Spans (X, and pairs of B and E) and instants become events, nested by time; the rest is passed over. Raises
    `ReportLoadError`.
    """
    try:
        header = json.loads(read_whole(path, "open_trace()", TRACE))
    except (ValueError, RecursionError) as error:
        raise ReportLoadError(f"""This is no trace, or it is damaged: {type(error).__name__}.
            next:  open a file that {TRACE.writer} wrote.""") from None
    part = Part({"traceEvents": header} if isinstance(header, list) else header, "trace", Known(TRACE, {}))
    names: dict[tuple[str, int, int], str] = {}
    spans: dict[tuple[int, int], list[tuple[float, float, str, str]]] = {}
    begun: dict[tuple[int, int], list[tuple[float, str, str]]] = {}
    for event in part["traceEvents"].items():
        kind = TEXT.read(event["ph"])
        where = (_number(event, "pid"), _number(event, "tid"))
        if kind == "M":
            names[TEXT.read(event["name"]), where[0], where[1]] = TEXT.read(event["args"]["name"])
        elif kind in ("X", "i", "I", "B"):
            label = TEXT.read(event["name"])
            channel = TEXT.read(event["cat"]) if "cat" in event.value else ""
            start = TIME.read(event["ts"])
            if kind == "B":
                begun.setdefault(where, []).append((start, label, channel))
            else:
                length = real(0, LONGEST).read(event["dur"]) if kind == "X" else 0.0
                spans.setdefault(where, []).append((start, start + length, label, channel))
        elif kind == "E" and begun.get(where):
            start, label, channel = begun[where].pop()
            spans.setdefault(where, []).append((start, max(start, TIME.read(event["ts"])), label, channel))
    processes: dict[int, list[Thread]] = {}
    for (pid, tid), found in sorted(spans.items()):
        processes.setdefault(pid, []).append(Thread(tid, names.get(("thread_name", pid, tid), ""), _tree(found)))
    return Trace(tuple(Process(pid, names.get(("process_name", pid, 0), ""), tuple(found)) for pid, found in processes.items()))


def _number(event: Part, key: str) -> int:
    return NUMBER.read(event[key]) if key in event.value else 0


def _tree(spans: list[tuple[float, float, str, str]]) -> Table[TraceEvent]:
    """Spans of one thread as events, those inside others as their children."""
    ordered = sorted(enumerate(spans), key=lambda item: (item[1][0], -item[1][1]))
    inside: dict[int, list[int]] = {-1: []}
    for (number, _), around in nested(ordered, lambda item: (0, item[1][0], item[1][1])):
        inside.setdefault(around[-1][0] if around else -1, []).append(number)
    made: dict[int, TraceEvent] = {}
    for number, (start, end, label, channel) in reversed(ordered):
        children = tuple(made[inner] for inner in inside.get(number, ()))
        made[number] = TraceEvent(label, channel, start, end - start, children)
    return Table(made[number] for number in inside[-1])
