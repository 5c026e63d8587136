"""A timeline of the host's work: compiling, loading, each run, every stream copy, and user events.

    with tracepoint("load batch"):
        batch = next(loader)
    counter("loss").add(loss)

As in PopVision's System Analyser, a process has one timeline. `report.host` is the part of the
timeline since the engine of the report was created. The times on a timeline are measured, not
modelled. They differ from run to run, so no digest and no report page includes them. Perfetto can
show the timeline: `trace_file.chrome_trace(report, host=True)` writes a file for it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import TypeVar

from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report.host_trace import ENGINE, STREAMS, USER, HostTrace, Noted, Value

__all__ = ["ENGINE", "STREAMS", "TIMELINE", "USER", "Counter", "Timeline", "counter", "tracepoint"]

# The maximum number of events in each channel, and the maximum number of counter values.
MOST_EVENTS = 100_000
T = TypeVar("T")


class Timeline:
    """The times of events on the host, and the values of counters, recorded by this process.

    Recording only appends to a list, so it hardly delays a run. The events are divided into
    channels, such as stream copies, and each channel keeps only its newest events. So a million
    stream copies displace older stream copies, but no events of other channels.
    """

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._events = defaultdict[str, deque[Noted]](partial(deque, maxlen=most))
        self._dropped = 0
        self._values: deque[tuple[str, str, int, float, str]] = deque(maxlen=most)

    def add(self, channel: str, label: str, start: int, size: int = 0, way: str = "") -> None:
        """Add an event that began at `start` (time.perf_counter_ns) and ends now.

        `size` and `way` are the bytes and the direction of a stream copy.
        """
        end = max(start + 1, time.perf_counter_ns())
        events = self._events[channel]
        self._dropped += len(events) == self._most
        events.append((channel, label, start, end, threading.get_ident(), size, way))

    def add_value(self, name: str, unit: str, value: float, series: str = "") -> None:
        """Add the current value of a counter.

        `name` is the title of the graph that shows the counter, and `series` is the name of the
        counter's line in this graph.
        """
        self._values.append((name, unit, time.perf_counter_ns(), value, series))

    def snapshot(self, since: int) -> HostTrace:
        """Return the events that ended after the time `since`, and the counter values after it.

        `since` is in nanoseconds, as `time.perf_counter_ns` returns it. `HostTrace` sorts the
        events when they are first read.
        """
        raw_events: list[Noted] = []
        for events in list(self._events.values()):
            raw_events += _newest(events, lambda event: event[3] > since)
        values = [
            Value(name, unit, (time_ns - since) / 1e9, value, series)
            for name, unit, time_ns, value, series in reversed(
                _newest(self._values, lambda noted: noted[2] >= since)
            )
        ]
        return HostTrace(raw_events, values, self._dropped, since)


def _newest(items: deque[T], is_new: Callable[[T], bool]) -> list[T]:
    """Return the new items of a deque that is ordered by time, from the newest to the oldest."""
    # Reading backwards stops at the first old item. A long session has many more old items.
    try:
        return list(takewhile(is_new, reversed(items)))
    except RuntimeError:  # Another thread added an item meanwhile.
        return list(takewhile(is_new, reversed(list(items))))


TIMELINE = Timeline()


@contextmanager
def tracepoint(label: str, channel: str = USER) -> Iterator[None]:
    """Record a `with` block, or each call of a decorated function, as an event of the host.

    `label` is the name of the event, and `channel` is the group of events to which it belongs.

    :raises InvalidOptionError: if an argument is not a string.
    """
    for argument in (label, channel):
        if not isinstance(argument, str):
            raise InvalidOptionError(f"""tracepoint() was given {shown(argument)}, which is not
                a string.
                next:  give a string, as in tracepoint("load batch").""")
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        TIMELINE.add(channel, label, start)


@dataclass(frozen=True)
class Counter:
    """A value over time, such as a loss, a temperature or a number of bytes.

    `name` is the name of the graph that shows the value. If a graph has several lines, `series` is
    the name of the line.
    """

    name: str
    unit: str = ""
    series: str = ""

    def add(self, value: float) -> None:
        """Record `value` at the current time.

        :raises InvalidOptionError: if `value` is not a finite number.
        """
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not abs(number) <= 1e308:
            raise InvalidOptionError(f"""The counter {self.name!r} was given {shown(value)},
                which is not a finite number.
                next:  give one finite number, as in counter("loss").add(0.5).""")
        TIMELINE.add_value(self.name, self.unit, number, self.series)


def counter(name: str, unit: str = "", series: str = "") -> Counter:
    """Return a counter, whose method `add` records values on the host's timeline.

    `name` is the name of the graph that shows the values, and `unit` is the unit of the values. If
    a graph has several lines, `series` is the name of the line.
    """
    return Counter(name, unit, series)
