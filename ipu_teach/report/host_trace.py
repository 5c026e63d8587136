"""The host's events, stream transfers, counters and waiting times, as tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeVar

from ipu_teach.errors import counted
from ipu_teach.report.table import Table
from ipu_teach.saving.schema import keyed, many, real, row, since, whole

ENGINE, STREAMS, USER = "engine", "streams", "user"
PREFETCH, COPY = "prefetch()", "StreamCopy"
TO_DEVICE, TO_HOST = "host to device", "device to host"
LONGEST = 1e12  # The largest time or duration that a file may contain, in seconds.
MOST_WRITTEN = 20_000  # The maximum number of events in a file for each channel.
ON_THE_CLOCK = "run 0, modelled"  # The name of a run whose events have modelled times.

T = TypeVar("T")
# A plain tuple with the fields of a `Raw`. It is quicker to create than a `Raw`.
Noted = tuple[str, str, int, int, int, int, str]
ANY = real(-1e308, 1e308)
Seconds = Annotated[float, real(0, LONGEST)]


class Raw(NamedTuple):
    """An event of the host as it was recorded.

    `start` and `end` are in nanoseconds. For a stream copy, `size` is its number of bytes and `way`
    is its direction. For any other event, `size` is 0 and `way` is "".
    """

    channel: str
    label: str
    start: int
    end: int
    thread: int
    size: int = 0
    way: str = ""


@dataclass(frozen=True)
class HostEvent:
    """One event of the host; `start` and `duration` are in seconds.

    `depth` is the number of events that enclose this one, and `thread` the number of its thread.
    For a stream copy, `bytes` is the number of bytes moved, and `direction` is "host to device" or
    "device to host". For any other event, `bytes` is 0 and `direction` is "". An event with
    duration 0 is an instant.
    """

    channel: str
    name: str
    start: Seconds
    duration: Seconds
    depth: Annotated[int, whole(most=10**6)]
    thread: Annotated[int, whole(most=10**6)]
    bytes: Annotated[int, since(2)] = 0
    direction: Annotated[str, since(2)] = ""

    @property
    def end(self) -> float:
        """The time at which the event ended, in seconds."""
        return self.start + self.duration


@dataclass(frozen=True)
class Value:
    """One value of a counter at a `time` in seconds.

    `name` is the name of the graph that shows the counter. `series` is the name of the counter's
    line if the graph has several lines, and "" otherwise.
    """

    name: str
    unit: str
    time: Seconds
    value: Annotated[float, ANY]
    series: Annotated[str, since(2)] = ""


@dataclass(frozen=True)
class Waiting:
    """The time that the device waited for one of the host's functions.

    `seconds` is the sum over all `calls`, and `longest` is the longest single wait in seconds.
    `share` is `seconds` divided by the total duration of all runs.
    """

    name: str
    calls: int
    seconds: float
    longest: float
    share: float


@dataclass(frozen=True)
class StreamUse:
    """The use of one stream: the number of transfers, their total bytes, and their total `seconds`.

    `waited` is the part of `seconds` in which the device waited for the learner's function or
    iterator.
    """

    name: str
    direction: str
    transfers: int
    bytes: int
    seconds: float
    waited: float


class HostTrace:
    """The host's events and counter values, each ordered by time.

    Times are in seconds since the engine of the report was created, and are measured unless
    `modelled` is True. `dropped` is the number of older events that were discarded.

    The constructor takes either `raw`, which are events as they were recorded, or `events`, which
    are events from a file. Raw events that began before `since` (nanoseconds) are left out.
    """

    def __init__(
        self,
        raw: Sequence[Noted] = (),
        values: Iterable[Value] = (),
        dropped: int = 0,
        since: int = 0,
        events: Iterable[HostEvent] | None = None,
    ) -> None:
        self._raw = raw
        self._since = since
        self._buffers: Callable[[], Table[Any]] = Table
        self.values = Table(values)
        self.dropped = dropped
        if events is not None:
            self.events = Table(events)

    @cached_property
    def events(self) -> Table[HostEvent]:
        """All events, ordered by their start."""
        raw_events = (Raw._make(e) for e in self._raw if e[2] >= self._since)
        ordered = sorted(raw_events, key=lambda e: (e.start, -e.end))
        number_of_thread = {
            thread: thread_number
            for thread_number, thread in enumerate(dict.fromkeys(e.thread for e in ordered))
        }
        events = []
        for event, outer_events in nested(ordered, lambda e: (e.thread, e.start, e.end)):
            start_seconds = (event.start - self._since) / 1e9
            duration = (event.end - event.start) / 1e9
            depth_and_thread = len(outer_events), number_of_thread[event.thread]
            events.append(
                HostEvent(
                    event.channel,
                    event.label,
                    start_seconds,
                    duration,
                    *depth_and_thread,
                    event.size,
                    event.way,
                )
            )
        return Table(events)

    def waiting(self) -> Table[Waiting]:
        """Return a row for each host function the device waited for, longest in total first."""
        run_seconds = sum(e.duration for e in self.events if is_run(e))
        waits_by_name: dict[str, list[float]] = {}
        for event in filter(is_wait, self.events):
            waits_by_name.setdefault(event.name, []).append(event.duration)
        rows = [
            Waiting(
                name,
                len(waits),
                seconds=sum(waits),
                longest=max(waits),
                share=sum(waits) / run_seconds if run_seconds else 0.0,
            )
            for name, waits in waits_by_name.items()
        ]
        return Table(sorted(rows, key=lambda row: -row.seconds))

    def streams(self) -> Table[StreamUse]:
        """Return a row for each stream, in the order of their first transfers."""
        copies_by_stream: dict[str, list[HostEvent]] = {}
        waits_by_stream: defaultdict[str, float] = defaultdict(float)
        for event, outer_events in nested(self.events, lambda e: (e.thread, e.start, e.end)):
            if is_copy(event):
                copies_by_stream.setdefault(event.name, []).append(event)
            elif is_wait(event) and outer_events and is_copy(outer_events[-1]):
                waits_by_stream[outer_events[-1].name] += event.duration
        rows = []
        for name, copies in copies_by_stream.items():
            num_bytes = sum(e.bytes for e in copies)
            seconds = sum(e.duration for e in copies)
            rows.append(
                StreamUse(
                    name.removesuffix(f": {COPY}"),
                    copies[0].direction,
                    transfers=len(copies),
                    bytes=num_bytes,
                    seconds=seconds,
                    waited=waits_by_stream[name],
                )
            )
        return Table(rows)

    def beside(self, buffers: Callable[[], Table[Any]]) -> HostTrace:
        """Return a copy of this trace that gets its table of remote buffers from `buffers`.

        `buffers` is a function that returns the table.
        """
        trace = copy(self)
        trace._buffers = buffers
        return trace

    def buffers(self) -> Table[Any]:
        """Return a row for each remote buffer: its reads and writes, with their rows and bytes."""
        return self._buffers()

    @property
    def starved_share(self) -> float:
        """The fraction of all runs' duration in which the device waited for host functions."""
        return sum(row.share for row in self.waiting())

    @property
    def modelled(self) -> bool:
        """Whether the times are modelled on the device's clock instead of measured on the host."""
        return any(event.name == ON_THE_CLOCK for event in self.events if is_run(event))

    def series(self) -> dict[str, Table[Value]]:
        """Return the values of each counter as a dict from names to tables.

        A name is "graph: series", or "graph" if the graph has a single line.
        """
        by_name: dict[str, list[Value]] = {}
        for value in self.values:
            by_name.setdefault(
                f"{value.name}: {value.series}" if value.series else value.name, []
            ).append(value)
        return {name: Table(values) for name, values in by_name.items()}

    def sentence(self) -> str:
        """Return the number of events, runs, bytes and waits in one or two sentences."""
        run_seconds = [e.duration for e in self.events if is_run(e)]
        streams = self.streams()
        text = (
            f"{counted(len(self.events), 'event')} of the host, "
            f"{'modelled' if self.modelled else 'measured'}: "
            f"{counted(len(run_seconds), 'run')} of {sum(run_seconds):.3g} s"
        )
        if streams:
            copies = counted(
                sum(stream.transfers for stream in streams), "stream copy", "stream copies"
            )
            text += (
                f", in which {copies} moved "
                f"{counted(sum(stream.bytes for stream in streams), 'byte')}"
            )
        text += (
            f"; the device waited {100 * self.starved_share:.1f} % of that time."
            if run_seconds
            else "."
        )
        return text + (
            f" {counted(self.dropped, 'older event')} of this process are not kept."
            if self.dropped
            else ""
        )

    __repr__ = sentence

    def _repr_html_(self) -> str:
        # Importing this at the top would be circular: `html` imports `report` and so this module.
        from ipu_teach.report.html import host_page

        return host_page(self)

    def written(self) -> HostTrace:
        """Return the trace to save in a file: with only the newest 20,000 events per channel."""
        count_by_channel: dict[str, int] = {}
        newest = []
        for event in reversed(self.events):
            count_by_channel[event.channel] = count_by_channel.get(event.channel, 0) + 1
            if count_by_channel[event.channel] <= MOST_WRITTEN:
                newest.append(event)
        dropped = self.dropped + len(self.events) - len(newest)
        return HostTrace(values=self.values, dropped=dropped, events=newest[::-1])


HOST = keyed(HostTrace, events=many(row(HostEvent)), values=many(row(Value)), dropped=whole())


def nested(
    events: Iterable[T], place: Callable[[T], tuple[Any, float, float]]
) -> Iterator[tuple[T, tuple[T, ...]]]:
    """Yield `(event, outer_events)` for each event.

    `outer_events` are the events that enclose the event, the outermost first. `place(event)`
    returns (thread, start, end). An event can only enclose events of its own thread. `events` must
    be ordered by start; if two events start at the same time, the longer one comes first.
    """
    open_by_thread: dict[Any, list[tuple[float, T]]] = {}
    for event in events:
        thread, event_start, event_end = place(event)
        open_events = open_by_thread.setdefault(thread, [])
        while open_events and (open_events[-1][0] < event_end or open_events[-1][0] <= event_start):
            open_events.pop()
        yield event, tuple(open_event for _, open_event in open_events)
        open_events.append((event_end, event))


def is_copy(event: HostEvent) -> bool:
    """Return whether an event is a transfer between host and device."""
    return event.channel == STREAMS and event.name.endswith(COPY)


def is_run(event: HostEvent) -> bool:
    """Return whether an event is a call of `Engine.run`."""
    return event.channel == ENGINE and event.name.startswith("run ")


def is_wait(event: HostEvent) -> bool:
    """Return whether the device waits for one of the host's functions during an event.

    It does not wait during a prefetching event, because on hardware prefetching overlaps with a
    run.
    """
    return event.channel == STREAMS and not event.name.endswith((COPY, PREFETCH))
