"""The host's activity as data: nested events, stream transfers, series of values, waiting."""

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
LONGEST = 1e12  # the limit of any time in a file, in seconds
MOST_WRITTEN = 20_000  # the most events of each channel in a file
ON_THE_CLOCK = "run 0, modelled"  # the name of a run whose events have modelled times

T = TypeVar("T")
# a `Raw` as a plain tuple, which is quicker to create
Noted = tuple[str, str, int, int, int, int, str]
ANY = real(-1e308, 1e308)
Seconds = Annotated[float, real(0, LONGEST)]


class Raw(NamedTuple):
    """An event as it was recorded, with start and end in nanoseconds.

    `size` and `way` are the bytes and the direction of a stream copy.
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

    `depth` is the number of events around it, and `thread` the number of its thread. A stream copy
    has the `bytes` that it moved and its `direction`, "host to device" or "device to host". An
    event without duration is an instant.
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
    """One value of a series: `name` is its graph, `series` its line if the graph has several."""

    name: str
    unit: str
    time: Seconds
    value: Annotated[float, ANY]
    series: Annotated[str, since(2)] = ""


@dataclass(frozen=True)
class Waiting:
    """The time that the device waited for one of the host's functions.

    `seconds` is the sum over all `calls`, `longest` the longest wait in seconds, and `share` the
    sum as a part of the time of all runs.
    """

    name: str
    calls: int
    seconds: float
    longest: float
    share: float


@dataclass(frozen=True)
class StreamUse:
    """The use of one stream: its transfers and bytes, and the time of the host in `seconds`.

    `waited` is the time that the device waited for the learner's function or iterator, in seconds.
    """

    name: str
    direction: str
    transfers: int
    bytes: int
    seconds: float
    waited: float


class HostTrace:
    """The host's events and values, each ordered by time.

    `dropped` is the number of older events that were not kept. Times are seconds since the engine
    of the report was created. They are measured unless a run says that they are modelled.
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
        """All events, ordered by their beginnings."""
        raw_events = (Raw._make(e) for e in self._raw if e[2] >= self._since)
        ordered = sorted(raw_events, key=lambda e: (e.start, -e.end))
        threads = {
            thread: number for number, thread in enumerate(dict.fromkeys(e.thread for e in ordered))
        }
        rows = []
        for event, around in nested(ordered, lambda e: (e.thread, e.start, e.end)):
            start = (event.start - self._since) / 1e9
            duration = (event.end - event.start) / 1e9
            place = len(around), threads[event.thread]
            rows.append(
                HostEvent(
                    event.channel, event.label, start, duration, *place, event.size, event.way
                )
            )
        return Table(rows)

    def waiting(self) -> Table[Waiting]:
        """Return the host's functions that the device waited for, the longest time first."""
        total = sum(e.duration for e in self.events if is_run(e))
        seconds: dict[str, list[float]] = {}
        for event in filter(is_wait, self.events):
            seconds.setdefault(event.name, []).append(event.duration)
        rows = [
            Waiting(
                n, len(d), seconds=sum(d), longest=max(d), share=sum(d) / total if total else 0.0
            )
            for n, d in seconds.items()
        ]
        return Table(sorted(rows, key=lambda row: -row.seconds))

    def streams(self) -> Table[StreamUse]:
        """Return the transfers of each stream, in the order of their first transfers."""
        by_stream: dict[str, list[HostEvent]] = {}
        waited: defaultdict[str, float] = defaultdict(float)
        for event, around in nested(self.events, lambda e: (e.thread, e.start, e.end)):
            if is_copy(event):
                by_stream.setdefault(event.name, []).append(event)
            elif is_wait(event) and around and is_copy(around[-1]):
                waited[around[-1].name] += event.duration
        rows = []
        for name, of in by_stream.items():
            size = sum(e.bytes for e in of)
            seconds = sum(e.duration for e in of)
            rows.append(
                StreamUse(
                    name.removesuffix(f": {COPY}"),
                    of[0].direction,
                    transfers=len(of),
                    bytes=size,
                    seconds=seconds,
                    waited=waited[name],
                )
            )
        return Table(rows)

    def beside(self, buffers: Callable[[], Table[Any]]) -> HostTrace:
        """Return a copy of the trace whose `buffers` are those of a report."""
        trace = copy(self)
        trace._buffers = buffers
        return trace

    def buffers(self) -> Table[Any]:
        """Return how often each remote buffer was read and written, with rows and bytes."""
        return self._buffers()

    @property
    def starved_share(self) -> float:
        """The share of all runs that the device waited for the host's functions, 0 to 1."""
        return sum(row.share for row in self.waiting())

    @property
    def modelled(self) -> bool:
        """Whether the times are modelled, on the clock of the device."""
        return any(event.name == ON_THE_CLOCK for event in self.events if is_run(event))

    def series(self) -> dict[str, Table[Value]]:
        """Return the values of each series by its name.

        The name is that of its graph, followed by a colon and the name of the series, if it has
        one.
        """
        by_name: dict[str, list[Value]] = {}
        for value in self.values:
            by_name.setdefault(
                f"{value.name}: {value.series}" if value.series else value.name, []
            ).append(value)
        return {name: Table(values) for name, values in by_name.items()}

    def sentence(self) -> str:
        """Return the timeline in one or two sentences."""
        runs = [e.duration for e in self.events if is_run(e)]
        moved = self.streams()
        text = (
            f"{counted(len(self.events), 'event')} of the host, "
            f"{'modelled' if self.modelled else 'measured'}: "
            f"{counted(len(runs), 'run')} of {sum(runs):.3g} s"
        )
        if moved:
            copies = counted(sum(s.transfers for s in moved), "stream copy", "stream copies")
            text += f", in which {copies} moved {counted(sum(s.bytes for s in moved), 'byte')}"
        text += (
            f"; the device waited {100 * self.starved_share:.1f} % of that time." if runs else "."
        )
        return text + (
            f" {counted(self.dropped, 'older event')} of this process are not kept."
            if self.dropped
            else ""
        )

    __repr__ = sentence

    def _repr_html_(self) -> str:
        # imported here, because html imports reports, which import this module
        from ipu_teach.report.html import host_page

        return host_page(self)

    def written(self) -> HostTrace:
        """Return the trace as it is saved in a file: the newest 20,000 events of each channel."""
        numbers: dict[str, int] = {}
        events = []
        for event in reversed(self.events):
            numbers[event.channel] = numbers.get(event.channel, 0) + 1
            if numbers[event.channel] <= MOST_WRITTEN:
                events.append(event)
        dropped = self.dropped + len(self.events) - len(events)
        return HostTrace(values=self.values, dropped=dropped, events=events[::-1])


HOST = keyed(HostTrace, events=many(row(HostEvent)), values=many(row(Value)), dropped=whole())


def nested(
    events: Iterable[T], place: Callable[[T], tuple[Any, float, float]]
) -> Iterator[tuple[T, tuple[T, ...]]]:
    """Yield each event with the events of its thread around it, the outermost first.

    `events` are ordered by their beginnings, and of two that begin together, the longer one comes
    first. `place(event)` returns (thread, start, end).
    """
    open_: dict[Any, list[tuple[float, T]]] = {}
    for event in events:
        thread, start, end = place(event)
        around = open_.setdefault(thread, [])
        while around and (around[-1][0] < end or around[-1][0] <= start):
            around.pop()
        yield event, tuple(inner for _, inner in around)
        around.append((end, event))


def is_copy(event: HostEvent) -> bool:
    """Return whether an event is a transfer between host and device."""
    return event.channel == STREAMS and event.name.endswith(COPY)


def is_run(event: HostEvent) -> bool:
    """Return whether an event is a call of `Engine.run`."""
    return event.channel == ENGINE and event.name.startswith("run ")


def is_wait(event: HostEvent) -> bool:
    """Return whether the device waits for one of the host's functions during an event.

    It does not wait for prefetching, which the hardware does during a run.
    """
    return event.channel == STREAMS and not event.name.endswith((COPY, PREFETCH))
