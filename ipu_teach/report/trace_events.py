"""The host's timeline as Chrome's trace events, beside those of the device in `trace_file`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ipu_teach.report.host_trace import HostTrace

HOST = 0  # the number of the host's process
Raw = dict[str, Any]


def host_events(host: HostTrace) -> Iterator[Raw]:
    """The host's events and series."""
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
