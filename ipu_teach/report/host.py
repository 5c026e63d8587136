"""What the host did, in its own time: compiling, loading, each run, the learner's functions at streams, and marks of their own.

    with tracepoint("load batch"):
        batch = next(loader)
    counter("loss").add(loss)

Like PopVision's System Analyser, one timeline serves the whole process; a report holds what is on it since its engine was
made. These times are measured, not modelled. They differ from run to run, so they are in no digest and on no page.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

from ipu_teach.archive import Part
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report.table import Table

MOST_EVENTS = 100_000  # the newest ones, of events and of values each
ENGINE, STREAMS, USER = "engine", "streams", "user"
PREFETCH = "prefetch()"

_Raw = tuple[str, str, int, int, int]  # channel, label, start and end in nanoseconds, thread


@dataclass(frozen=True)
class HostEvent:
    """One event: `start` and `duration` in seconds of the host, `depth` in how many others it lies, `thread` which thread."""

    COLUMNS: ClassVar = ("channel", "name", "start", "duration", "depth", "thread")

    channel: str
    name: str
    start: float
    duration: float
    depth: int
    thread: int


@dataclass(frozen=True)
class Value:
    """One value of a counter."""

    COLUMNS: ClassVar = ("name", "unit", "time", "value")

    name: str
    unit: str
    time: float
    value: float


@dataclass(frozen=True)
class Waiting:
    """How long the device waited for one of the host's functions: seconds in all, the longest, and the share of all runs."""

    COLUMNS: ClassVar = ("name", "calls", "seconds", "longest", "share")

    name: str
    calls: int
    seconds: float
    longest: float
    share: float


class Timeline:
    """The process's events. Appending is all that happens while something runs."""

    def __init__(self, most: int = MOST_EVENTS) -> None:
        self._events: deque[_Raw] = deque(maxlen=most)
        self._values: deque[tuple[str, str, int, float]] = deque(maxlen=most)
        self._added = 0

    def add(self, channel: str, label: str, start: int) -> None:
        """Something that began at `start` (time.perf_counter_ns) is over now."""
        self._events.append((channel, label, start, time.perf_counter_ns(), threading.get_ident()))
        self._added += 1

    def add_value(self, name: str, unit: str, value: float) -> None:
        """A counter has this value now."""
        self._values.append((name, unit, time.perf_counter_ns(), value))

    def snapshot(self, since: int) -> HostTrace:
        """What began at `since` or later."""
        found = sorted((e for e in list(self._events) if e[2] >= since), key=lambda e: (e[2], -e[3]))
        threads = {thread: number for number, thread in enumerate(dict.fromkeys(e[4] for e in found))}
        open_until: dict[int, list[int]] = {}
        events = []
        for channel, label, start, end, thread in found:
            around = open_until.setdefault(thread, [])
            while around and around[-1] <= start:
                around.pop()
            events.append(HostEvent(channel, label, (start - since) / 1e9, (end - start) / 1e9, len(around), threads[thread]))
            around.append(end)
        values = [Value(n, u, (t - since) / 1e9, v) for n, u, t, v in list(self._values) if t >= since]
        return HostTrace(Table(events), Table(values), self._added - len(self._events))


@dataclass(frozen=True, eq=False)
class HostTrace:
    """The host's events, in the order of their beginnings, and the values of counters. `dropped`: older events of this
    process that were not kept."""

    events: Table[HostEvent] = Table()
    values: Table[Value] = Table()
    dropped: int = 0

    def waiting(self) -> Table[Waiting]:
        """For which of the host's functions the device waited, the longest first. What was prefetched kept it waiting for
        nothing: on silicon that happens beside a run."""
        total = sum(e.duration for e in self.events if e.channel == ENGINE and e.name.startswith("run "))
        found: dict[str, list[float]] = {}
        for event in self.events:
            if event.channel == STREAMS and not event.name.endswith(PREFETCH):
                found.setdefault(event.name, []).append(event.duration)
        rows = [Waiting(n, len(d), sum(d), max(d), sum(d) / total if total else 0.0) for n, d in found.items()]
        return Table(sorted(rows, key=lambda row: -row.seconds))

    def written(self) -> dict[str, Any]:
        """As it stands in a file."""
        return {
            "events": [[e.channel, e.name, e.start, e.duration, e.depth, e.thread] for e in self.events],
            "values": [[v.name, v.unit, v.time, v.value] for v in self.values],
            "dropped": self.dropped,
        }

    @classmethod
    def read(cls, part: Part) -> HostTrace:
        """What `written` wrote. Raises the error of the file."""
        if part.value is None:
            return cls()
        events = [
            HostEvent(p.text(0), p.text(1), p.real(2, 0, 1e12), p.real(3, 0, 1e12), p.whole(4, 0, 10**6), p.whole(5, 0, 10**6))
            for p in part.items("events")
        ]
        values = [Value(p.text(0), p.text(1), p.real(2, 0, 1e12), p.real(3, -1e308, 1e308)) for p in part.items("values")]
        return cls(Table(events), Table(values), part.whole("dropped", 0, 2**56))


TIMELINE = Timeline()


@contextmanager
def tracepoint(label: str, channel: str = USER) -> Iterator[None]:
    """What happens in the block is one event on the host's timeline. Also a decorator of functions."""
    for given in (label, channel):
        if not isinstance(given, str):
            raise InvalidOptionError(
                f"tracepoint() was given {shown(given)}.", next_step='give text: with tracepoint("load batch"):'
            )
    start = time.perf_counter_ns()
    try:
        yield
    finally:
        TIMELINE.add(channel, label, start)


@dataclass(frozen=True)
class Counter:
    """A value over time: a loss, a temperature, bytes."""

    name: str
    unit: str = ""

    def add(self, value: float) -> None:
        """The value now. Raises `InvalidOptionError` for what is no finite number."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = float("nan")
        if not abs(number) <= 1e308:
            raise InvalidOptionError(
                f"The counter {self.name!r} was given {shown(value)}.", next_step="give one finite number."
            )
        TIMELINE.add_value(self.name, self.unit, number)


def counter(name: str, unit: str = "") -> Counter:
    """A series of values on the host's timeline, by its name."""
    return Counter(name, unit)
