"""What the host connects to a stream: arrays that go round, iterators that run dry, functions that
are called."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import count as counter
from typing import Any

import numpy as np

from ipu_teach.errors import (
    IPUTeachError,
    StreamConnectionError,
    TensorCreationError,
    counted,
    shown,
)
from ipu_teach.graph import DataStream, ReplicatedStreamMode, Tensor
from ipu_teach.report.host_times import TIMELINE, tracepoint
from ipu_teach.report.host_trace import COPY, STREAMS, TO_DEVICE, TO_HOST
from ipu_teach.types import Array, to_host_array

Feed = Callable[[], Array]
Drain = Callable[[Array], None]


class StreamCallback:
    """The host's end of a stream as an object. Subclass it and write `fetch`, and what you need of
    the rest.

    The array that `prefetch` and `fetch` are given has the stream's dtype and `num_elements`
    elements. Calls come one at a time, in the order of the transfers.
    """

    class Result(Enum):
        """What `prefetch` says: the array is filled, or there is nothing to fill it with yet."""

        SUCCESS = "SUCCESS"
        NOT_AVAILABLE = "NOT_AVAILABLE"

    def prefetch(self, array: Array) -> StreamCallback.Result:
        """Fill `array` with a later transfer, if it can be had already. Only for streams to the
        device.

        Called after a transfer, until as many are ready as the stream's `buffering_depth`.
        """
        return StreamCallback.Result.NOT_AVAILABLE

    def fetch(self, array: Array) -> None:
        """Fill `array` with the next transfer, which was not prefetched; or, from the device, take
        what is in `array`."""
        raise StreamConnectionError(f"""{type(self).__name__} has no fetch().
            next:  write `def fetch(self, array):` in the class.""")

    def complete(self) -> None:
        """The transfer is over: the data of the oldest `prefetch` or `fetch` has been used."""

    def invalidate_prefetched(self) -> None:
        """What was prefetched and not used yet is thrown away: the engine was loaded, or the stream
        connected anew."""


class CallbackFeed:
    """A host-to-device stream with a `StreamCallback` at its end: what was prefetched goes first,
    the rest is fetched."""

    def __init__(self, stream: DataStream, callback: StreamCallback, replica: int) -> None:
        self.stream = stream
        self.callback = callback
        calls = callback.fetch, callback.complete, callback.prefetch
        self._fetch, self._complete, self._prefetch = (_told(call, replica) for call in calls)
        self._ready: deque[Array] = deque()

    def __call__(self) -> Array:
        name = type(self.callback).__name__
        if self._ready:
            array = self._ready.popleft()
        else:
            array = _buffer(self.stream)
            _guarded(self.stream, f"{name}.fetch()", self._fetch, array)
        array.flags.writeable = False  # the transfer is on its way
        _guarded(self.stream, f"{name}.complete()", self._complete)
        while len(self._ready) < self.stream.buffering_depth:
            ahead = _buffer(self.stream)
            result = _guarded(self.stream, f"{name}.prefetch()", self._prefetch, ahead)
            if not isinstance(result, StreamCallback.Result):
                raise StreamConnectionError(f"""{name}.prefetch() returned {shown(result)}.
                    where: stream {self.stream.handle!r}
                    next:  return StreamCallback.Result.SUCCESS or
                    StreamCallback.Result.NOT_AVAILABLE.""")
            if result is StreamCallback.Result.NOT_AVAILABLE:
                break
            self._ready.append(ahead)
        return array

    def invalidate(self) -> None:
        """Throw away what was prefetched."""
        self._ready.clear()
        _guarded(
            self.stream,
            f"{type(self.callback).__name__}.invalidate_prefetched()",
            self.callback.invalidate_prefetched,
        )


class SharedFeed:
    """A host-to-device stream of several replicas: a transfer is those of all `parts`, one after
    the other, `times` over."""

    def __init__(self, parts: list[Feed], times: int = 1) -> None:
        self._parts, self._times = parts, times

    def __call__(self) -> Array:
        return np.tile(np.concatenate([part() for part in self._parts]), self._times)

    def invalidate(self) -> None:
        """Throw away what was prefetched."""
        for part in self._parts:
            if isinstance(part, CallbackFeed):
                part.invalidate()


def _told(function: Callable[..., Any], replica: int) -> Callable[..., Any]:
    """`function`, told the number of the replica if it has a parameter of that name."""
    try:
        asks = "replica" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions do not say
        asks = False
    return partial(function, replica=replica) if asks else function


def of_one(stream: DataStream) -> DataStream:
    """The end of a stream that each replica has."""
    return replace(stream, num_elements=stream.num_elements // stream.replicas, replicas=1)


def _dealt(values: Array, count: int) -> tuple[int, ...]:
    """The shape in which row r is what came from replica r, of `count`."""
    return values.shape if values.shape[:1] == (count,) else (count, -1)


def _amount(stream: DataStream) -> str:
    """What one transfer moves, in words."""
    count = f"{stream.num_elements:,} elements"
    if stream.replicas == 1:
        return count
    return f"{count} ({of_one(stream).num_elements:,} for each of {stream.replicas:,} replicas)"


def _buffer(stream: DataStream) -> Array:
    return np.zeros(stream.num_elements, stream.dtype.numpy)


def feed(stream: DataStream, source: Any, wrap: bool = True, replica: int = 0) -> Feed:
    """A function that returns the next transfer of a host-to-device stream: `num_elements` values
    of its dtype.

    `source`: an array (each transfer takes the next part; at the end it starts over; with
    `wrap=False` each takes the first part), a `StreamCallback`, an iterable of arrays, or a
    function: of no arguments, which returns the transfer, or of one, which fills the array that it
    is given. For several replicas functions are called once for each, told the number if they have
    a parameter `replica`; what they all receive alike comes once. Raises `StreamConnectionError`.
    """
    if stream.replicas > 1 and stream.mode is ReplicatedStreamMode.BROADCAST:
        return SharedFeed([feed(of_one(stream), source, wrap)], stream.replicas)
    if stream.replicas > 1 and (isinstance(source, StreamCallback) or callable(source)):
        one = of_one(stream)
        return SharedFeed([feed(one, source, wrap, r) for r in range(stream.replicas)])
    no_sources = (str, bytes, dict, set, frozenset, Tensor, DataStream, type)
    if isinstance(source, no_sources) or source is None:
        raise StreamConnectionError(f"""The stream {stream.handle!r} goes to the device and was
            connected to {shown(source)}.
            next:  connect an array, an iterator of arrays, or a function that returns one.""")
    iterator = isinstance(source, Iterable) and not isinstance(source, (np.ndarray, list, tuple))
    if not wrap and (isinstance(source, StreamCallback) or callable(source) or iterator):
        raise _no_place(stream, source)
    if isinstance(source, StreamCallback):
        return CallbackFeed(stream, source, replica)
    if callable(source):
        return _from_function(stream, _told(source, replica))
    if iterator:
        return _from_iterator(stream, iter(source))
    values = to_host_array(
        source, stream.dtype, f"The stream {stream.handle!r}", StreamConnectionError
    ).reshape(-1)
    if (
        isinstance(source, np.ndarray)
        and source.dtype == stream.dtype.numpy
        and source.flags.c_contiguous
    ):
        # the caller's own memory: what changes there is what the next transfer sends
        values = source.reshape(-1)
    return _in_turn(stream, values, wrap)


def drain(stream: DataStream, sink: Any, wrap: bool = True, replica: int = 0) -> Drain:
    """A function that takes one transfer of a device-to-host stream.

    `sink`: an array of the stream's dtype (filled part by part, then over again; with `wrap=False`
    always the first part), a list (each transfer is appended), a `StreamCallback`, or a function of
    one argument; several replicas as in `feed`. Raises `StreamConnectionError`.
    """
    if stream.replicas > 1 and (isinstance(sink, StreamCallback) or callable(sink)):
        one = of_one(stream)
        parts = [drain(one, sink, wrap, r) for r in range(stream.replicas)]

        def deal(values: Array) -> None:
            for part, row in zip(parts, values.reshape(_dealt(values, len(parts))), strict=True):
                part(row)

        return deal
    if not wrap and not isinstance(sink, np.ndarray):
        raise _no_place(stream, sink)
    if isinstance(sink, list):
        return sink.append
    if isinstance(sink, StreamCallback):
        return _to_callback(stream, sink, replica)
    if callable(sink) and not isinstance(sink, type):
        sink = _told(sink, replica)
        _check_signature(stream, sink, np.zeros(0))
        return lambda values: (_guarded(stream, "The connected function", sink, values), None)[1]
    if not isinstance(sink, np.ndarray):
        raise StreamConnectionError(f"""The stream {stream.handle!r} goes to the host and was
            connected to {shown(sink)}.
            next:  connect an array to fill, a list to append to, or a function that takes one
            array.""")
    name = stream.dtype.numpy.name
    if sink.dtype != stream.dtype.numpy:
        raise StreamConnectionError(f"""The stream {stream.handle!r} carries {stream.dtype.__name__}
            and was connected to an array of {sink.dtype}.
            next:  connect an array of its own dtype: np.empty({stream.num_elements},
            np.{name}).""")
    if not sink.flags.c_contiguous or not sink.flags.writeable:
        raise StreamConnectionError(f"""The stream {stream.handle!r} was connected to an array that
            cannot be filled in place: it is
            {"read-only" if not sink.flags.writeable else "not contiguous"}.
            next:  connect a new array: np.empty({stream.num_elements}, np.{name}).""")
    rows = _in_turn(stream, sink.reshape(-1), wrap)

    def fill(values: Array) -> None:
        rows()[...] = values.reshape(-1)

    return fill


def noted(stream: DataStream, copy: Callable[[], None]) -> Callable[[], None]:
    """`copy`, one transfer of a stream, as an event on the host's timeline with its bytes and
    direction."""
    label, size = f"{stream.handle}: {COPY}", stream.num_elements * stream.dtype.size
    way = TO_DEVICE if stream.to_device else TO_HOST
    now, add = time.perf_counter_ns, TIMELINE.add

    def copy_and_note() -> None:
        start = now()
        try:
            copy()
        finally:
            add(STREAMS, label, start, size, way)

    return copy_and_note


def _check_signature(stream: DataStream, function: Callable[..., Any], *args: Any) -> None:
    """Refuse a function that cannot be called with `args`, where that can be told."""
    try:
        inspect.signature(function).bind(*args)
    except ValueError:  # some built-in functions do not say what they take
        pass
    except TypeError:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} was connected to a function that cannot be called with "
            f"{'one argument' if args else 'no argument'}.",
            next_step="write `def take(values):`, which is handed an array."
            if args
            else "write `def give():`, which returns an array.",
        ) from None


def _to_callback(stream: DataStream, callback: StreamCallback, replica: int) -> Drain:
    name = type(callback).__name__
    fetch, complete = (_told(f, replica) for f in (callback.fetch, callback.complete))

    def take(values: Array) -> None:
        _guarded(stream, f"{name}.fetch()", fetch, values.reshape(-1))
        _guarded(stream, f"{name}.complete()", complete)

    return take


def _guarded(stream: DataStream, what: str, function: Callable[..., Any], *args: Any) -> Any:
    """Call the user's code. What it raises becomes a `StreamConnectionError`; the kit's own errors
    and ^C pass."""
    try:
        with tracepoint(f"{stream.handle}: {what}", STREAMS):
            return function(*args)
    except IPUTeachError:
        raise
    except Exception as error:
        raise StreamConnectionError(
            f"{what} failed: {': '.join(filter(None, (type(error).__name__, str(error))))}.",
            where=f"stream {stream.handle!r}",
            next_step="the error above this one shows the line.",
        ) from error


def _from_function(stream: DataStream, function: Callable[..., Any]) -> Feed:
    if not _takes_array(function):
        _check_signature(stream, function)
        what = "what the connected function returned"
        return lambda: _sized(stream, _guarded(stream, "The connected function", function), what)

    def filled() -> Array:
        array = _buffer(stream)
        _guarded(stream, "The connected function", function, array)
        return array

    return filled


def _takes_array(function: Callable[..., Any]) -> bool:
    """True for a function that cannot be called without an argument: it wants the array to fill, as
    Poplar's do."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions do not say
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in plain and p.default is p.empty for p in parameters) == 1


_DRY = object()


def _from_iterator(stream: DataStream, items: Iterator[Any]) -> Feed:
    taken = 0

    def following() -> Array:
        nonlocal taken
        item = _guarded(stream, "The connected iterator", next, items, _DRY)
        if item is _DRY:
            raise StreamConnectionError(f"""The stream {stream.handle!r} ran dry: its iterator gave
                {counted(taken, "transfer")}, and the program wants another.
                next:  give an iterator that lasts (itertools.cycle), or repeat fewer times.""")
        taken += 1
        return _sized(stream, item, f"transfer {taken:,} of the iterator")

    return following


def _sized(stream: DataStream, values: Any, origin: str) -> Array:
    try:
        array = to_host_array(values, stream.dtype, f"The stream {stream.handle!r}")
    except TensorCreationError as error:
        raise StreamConnectionError(error.tried, where=origin, next_step=error.next_step) from None
    if array.size != stream.num_elements:
        raise StreamConnectionError(f"""The stream {stream.handle!r} takes {_amount(stream)}
            a transfer and was given {array.size:,}.
            where: {origin}
            next:  give arrays of {stream.num_elements:,} elements, or change the size of the
            stream.""")
    return array.reshape(-1)


def _in_turn(stream: DataStream, values: Array, wrap: bool) -> Feed:
    """The parts of an array of one transfer each, one a call, over and over; without `wrap` there
    is one, the first."""
    count = stream.num_elements
    values = values[:count] if not wrap else values
    if values.size == 0 or values.size % count:
        several = f"{count:,} elements, or a multiple of that: each transfer is the next part"
        once = f"at least {count:,} elements: each transfer is at the start"
        raise StreamConnectionError(f"""The stream {stream.handle!r} moves {_amount(stream)} a
            transfer and was connected to an array of {values.size:,}.
            next:  connect {several if wrap else once}.""")
    rows, transfers = values.reshape(values.size // count, count), counter()
    return lambda: rows[next(transfers) % len(rows)]


def _no_place(stream: DataStream, given: object) -> StreamConnectionError:
    return StreamConnectionError(f"""The stream {stream.handle!r} was connected to {shown(given)}
        with wrap=False.
        next:  wrap=False is for arrays, whose start it keeps to; leave it out.""")
