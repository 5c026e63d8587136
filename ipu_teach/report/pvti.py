"""Marks, series and histograms of the host, by the names of Graphcore's libpvti, and files of them that Perfetto opens.

    from ipu_teach import pvti
    channel = pvti.create_trace_channel("training")
    loss = pvti.Graph("Loss").add_series("training")
    with pvti.Tracepoint(channel, "epoch 0"):
        loss.add(0.7)

They are on the timeline of the process whether a file is written or not, and so in `engine.report.host`. With the environment
variable PVTI_OPTIONS='{"enable": "true", "directory": "traces"}', or after `enable(directory)`, a file of all of them is
written when the process ends, or at `close_trace()`. It holds Chrome's trace events; `open_trace` reads it. Other options are
`channels`, a list of the channels to note, and `duration`, seconds after which nothing more is written.
"""

from __future__ import annotations

import atexit
import json
import os
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

import numpy as np

from ipu_teach.archive import path_of, write_whole
from ipu_teach.errors import InvalidOptionError, shown
from ipu_teach.report.host import TIMELINE, Counter
from ipu_teach.report.host_trace import ENGINE, STREAMS, USER
from ipu_teach.report.trace_events import host_json, open_trace

__all__ = [
    "Graph", "Heatmap", "Series", "TraceChannel", "Tracepoint", "check_trace_channel", "close_trace", "create_trace_channel",
    "disable_trace_channel", "enable", "enable_trace_channel", "get_current_trace_filename", "list_trace_channel", "open_trace",
]  # fmt: skip

ENVIRONMENT = "PVTI_OPTIONS"
MOST_BINS = 10_000


class TraceChannel:
    """A named lane of the timeline. Make one with `create_trace_channel`."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def enabled(self) -> bool:
        """Whether its events are noted."""
        return self.name not in TIMELINE.silent

    def __repr__(self) -> str:
        return f"TraceChannel({self.name!r}{'' if self.enabled else ', disabled'})"


class _Session:
    """Where the process's trace goes, if anywhere."""

    def __init__(self) -> None:
        self.channels = {name: TraceChannel(name) for name in (ENGINE, STREAMS, USER)}
        self.only: list[str] = []  # channels to note; all if empty
        self.began = time.perf_counter_ns()
        self.seconds = 0.0
        self.path: Path | None = None

    def channel(self, name: str) -> TraceChannel:
        if name not in self.channels:
            self.channels[name] = TraceChannel(name)
            if self.only and name not in self.only:
                TIMELINE.silent.add(name)
        return self.channels[name]


_SESSION = _Session()


def create_trace_channel(name: str) -> TraceChannel:
    """The channel of that name; the same one if it is there already. Raises `InvalidOptionError`."""
    if not isinstance(name, str) or not name:
        raise InvalidOptionError(f"""create_trace_channel() was given {shown(name)}.
            next:  give a name: create_trace_channel("training").""")
    return _SESSION.channel(name)


def enable_trace_channel(channel: TraceChannel) -> None:
    """Note the channel's events from now on. So it is from the beginning, if PVTI_OPTIONS does not say otherwise."""
    TIMELINE.silent.discard(_channel(channel, "enable_trace_channel()").name)


def disable_trace_channel(channel: TraceChannel) -> None:
    """Note none of the channel's events from now on."""
    TIMELINE.silent.add(_channel(channel, "disable_trace_channel()").name)


def check_trace_channel(channel: TraceChannel) -> bool:
    """Whether the channel's events are noted."""
    return _channel(channel, "check_trace_channel()").enabled


def list_trace_channel() -> list[tuple[str, bool]]:
    """(name, whether its events are noted) of every channel."""
    return [(channel.name, channel.enabled) for channel in _SESSION.channels.values()]


def _channel(given: object, call: str) -> TraceChannel:
    if isinstance(given, TraceChannel):
        return given
    raise InvalidOptionError(f"""{call} was given {shown(given)}, which is no channel.
        next:  make one: channel = create_trace_channel("training").""")


class Tracepoint:
    """What happens in the block is one event of a channel: `with Tracepoint(channel, "epoch 0"):`. Blocks nest."""

    def __init__(self, channel: TraceChannel, label: str) -> None:
        self._channel, self._label = _channel(channel, "Tracepoint()").name, _label(label)

    def __enter__(self) -> Tracepoint:
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        TIMELINE.add(self._channel, self._label, self._start)

    @staticmethod
    def begin(channel: TraceChannel, label: str) -> None:
        """An event begins that `end` of the same channel and label ends, in the same thread."""
        TIMELINE.begin(_channel(channel, "Tracepoint.begin()").name, _label(label))

    @staticmethod
    def end(channel: TraceChannel, label: str) -> None:
        """The event that began last under this label is over. Raises `InvalidOptionError` if there is none."""
        if not TIMELINE.end(_channel(channel, "Tracepoint.end()").name, _label(label)):
            raise InvalidOptionError(f"""Tracepoint.end() was given {shown(label)}, which no begin() began in this thread.
                where: {channel!r}
                next:  call Tracepoint.begin(channel, label) before, with the same label.""")

    @staticmethod
    def event(channel: TraceChannel, label: str) -> None:
        """A moment: something happened now."""
        now = time.perf_counter_ns()
        TIMELINE.add(_channel(channel, "Tracepoint.event()").name, _label(label), now, instant=True)


def _label(given: object) -> str:
    if isinstance(given, str):
        return given
    raise InvalidOptionError(f"Tracepoint was given the label {shown(given)}.", next_step='give text: "epoch 0".')


Series = Counter  # a line of a graph: add(value)


class Graph:
    """Numbers over time: a name, a unit, and one or more series."""

    def __init__(self, name: str, unit: str = "") -> None:
        for given in (name, unit):
            if not isinstance(given, str):
                raise InvalidOptionError(f"Graph() was given {shown(given)}.", next_step='give text: Graph("Loss", "nats").')
        self.name, self.unit = name, unit

    def add_series(self, label: str = "") -> Series:
        """A line of the graph: `series.add(0.7)`."""
        if not isinstance(label, str):
            raise InvalidOptionError(f"add_series() was given {shown(label)}.", next_step='give text: add_series("training").')
        return Series(self.name, self.unit, label)


class Heatmap:
    """How values are distributed, over time: how many fall between neighbours of `bin_edges`, which ascend."""

    def __init__(self, name: str, bin_edges: Iterable[float], unit: str = "") -> None:
        try:
            edges = np.asarray(list(bin_edges), np.float64)
        except (TypeError, ValueError):
            edges = np.zeros((0, 0))
        good = edges.ndim == 1 and 2 <= len(edges) <= MOST_BINS and np.isfinite(edges).all() and (np.diff(edges) > 0).all()
        if not isinstance(name, str) or not isinstance(unit, str) or not good:
            raise InvalidOptionError(f"""Heatmap({shown(name)}) was given the edges {shown(bin_edges)}.
                next:  give a name, and from 2 to {MOST_BINS:,} ascending numbers: np.linspace(-1, 1, 33).""")
        self.name, self.unit = name, unit
        self.edges = tuple(edges.tolist())

    def add(self, values: Iterable[float], label: str = "") -> None:
        """Count these values now; those beyond the outer edges, and none that is NaN, count in the outer bins."""
        try:
            flat = np.asarray(values if isinstance(values, np.ndarray) else list(values), np.float64).reshape(-1)
        except (TypeError, ValueError):
            raise InvalidOptionError(f"""The heat map {self.name!r} was given {shown(values)}.
                next:  give numbers.""") from None
        flat = flat[~np.isnan(flat)]
        bins = np.clip(np.searchsorted(self.edges, flat, "right") - 1, 0, len(self.edges) - 2)
        counts = np.bincount(bins, minlength=len(self.edges) - 1)
        TIMELINE.add_histogram(self.name, self.unit, str(label), self.edges, tuple(counts.tolist()))


def enable(directory: str | os.PathLike[str] = ".") -> Path:
    """Write the process's trace into `directory` when it ends or at `close_trace()`; the path of the file."""
    folder = path_of(os.path.join(os.fspath(directory), "x"), "pvti.enable()").parent
    if _SESSION.path is None:
        atexit.register(close_trace)
    _SESSION.path = folder / f"trace_{os.getpid()}.json"
    return _SESSION.path


def get_current_trace_filename() -> str:
    """Where the trace will be written, or "" if it will not be."""
    return str(_SESSION.path or "")


def close_trace() -> str:
    """Write the trace now, if one is enabled; the name of the file, or "". Later events are not written."""
    path, _SESSION.path = _SESSION.path, None
    if path is None:
        return ""
    atexit.unregister(close_trace)
    path.parent.mkdir(parents=True, exist_ok=True)
    most = _SESSION.seconds or None
    write_whole(path, host_json(TIMELINE.snapshot(_SESSION.began), most).encode("utf-8"), "close_trace()", "trace")
    return str(path)


def configure(text: str) -> None:
    """Do what PVTI_OPTIONS says. As with libpvti, what cannot be read enables the trace with all defaults, and warns."""
    if not text.strip():
        return
    try:
        found = json.loads(text)
        options = {name: found[name] for name in ("enable", "directory", "channels", "duration") if name in found}
        channels, seconds = list(options.get("channels", [])), float(options.get("duration", 0))
        directory = os.fspath(options.get("directory", "."))
        wanted = str(options.get("enable", True)).lower() not in ("false", "0")
    except (ValueError, TypeError, RecursionError):
        warnings.warn(f"{ENVIRONMENT} cannot be read; the trace is enabled with all defaults.", stacklevel=2)
        channels, seconds, directory, wanted = [], 0.0, ".", True
    if wanted:
        _SESSION.only, _SESSION.seconds = [str(name) for name in channels], max(0.0, seconds)
        TIMELINE.silent |= {name for name in _SESSION.channels if _SESSION.only and name not in _SESSION.only}
        enable(directory)


configure(os.environ.get(ENVIRONMENT, ""))
