"""Notes what the host does, in its own time: compiling, loading, each run, every stream copy, and
marks of the learner's own.

    with tracepoint("load batch"):
        batch = next(loader)
    counter("loss").add(loss)

Like PopVision's System Analyser, one timeline serves the whole process; a report holds what is on
it since its engine was made (`report.host`). These times are measured, not modelled. They differ
from run to run, so they are in no digest and on no page. Perfetto draws it:
`trace_file.chrome_trace(report, host=True)`.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile

from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report.host_trace import ENGINE, STREAMS, USER, HostTrace, Noted, Value

__all__ = ["ENGINE", "STREAMS", "TIMELINE", "USER", "Counter", "Timeline", "counter", "tracepoint"]

MOST_EVENTS = 100_000  # the newest ones, of each channel's events, and of values


class Timeline:
    """The process's events. Appending is all that happens while something runs.

    Each channel keeps its newest events, so that a million stream copies push out nothing but older
    stream copies.
    """

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._most = most
        self._events = defaultdict[str, deque[Noted]](partial(deque, maxlen=most))
        self._dropped = 0
        self._values: deque[tuple[str, str, int, float, str]] = deque(maxlen=most)

    def add(self, channel: str, label: str, start: int, size: int = 0, way: str = "") -> None:
        """Something that began at `start` (time.perf_counter_ns) is over now."""
        end = max(start + 1, time.perf_counter_ns())
        events = self._events[channel]
        self._dropped += len(events) == self._most
        events.append((channel, label, start, end, threading.get_ident(), size, way))

    def add_value(self, name: str, unit: str, value: float, series: str = "") -> None:
        """A series has this value now."""
        self._values.append((name, unit, time.perf_counter_ns(), value, series))

    def snapshot(self, since: int) -> HostTrace:
        """Return what began at `since` or later. It is sorted when somebody asks."""
        raw: list[Noted] = []
        for events in list(self._events.values()):  # each in the order of their ends
            raw += takewhile(lambda event: event[3] > since, reversed(list(events)))
        values = [
            Value(n, u, (t - since) / 1e9, v, s)
            for n, u, t, v, s in list(self._values)
            if t >= since
        ]
        return HostTrace(raw, values, self._dropped, since)


TIMELINE = Timeline()


@contextmanager
def tracepoint(label: str, channel: str = USER) -> Iterator[None]:
    """Yield what happens in the block is one event on the host's timeline. Also a decorator of
    functions."""
    for argument in (label, channel):
        if not isinstance(argument, str):
            raise InvalidOptionError(f"""tracepoint() was given {shown(argument)}.
                next:  give text: with tracepoint("load batch"):""")
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        TIMELINE.add(channel, label, start)


@dataclass(frozen=True)
class Counter:
    """A value over time: a loss, a temperature, bytes. `series` tells several lines of one graph
    apart."""

    name: str
    unit: str = ""
    series: str = ""

    def add(self, value: float) -> None:
        """Record the current value. Raises `InvalidOptionError` if it is not a finite number."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not abs(number) <= 1e308:
            raise InvalidOptionError(f"""The counter {self.name!r} was given {shown(value)}.
                next:  give one finite number.""")
        TIMELINE.add_value(self.name, self.unit, number, self.series)


def counter(name: str, unit: str = "", series: str = "") -> Counter:
    """Return a series of values on the host's timeline: its graph's name, its unit, and its own
    name if the graph has several."""
    return Counter(name, unit, series)
