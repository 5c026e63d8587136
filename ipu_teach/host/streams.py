"""The host's end of a stream: an array, an iterator, a list, a function or a callback object."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import count as counter
from typing import Any, TypeAlias

import numpy as np

from ipu_teach.arguments import Function
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

# An object of the user: connected to a stream, passed to a function, or returned by one.
Connected: TypeAlias = Any
Feed: TypeAlias = Callable[[], Array]
Drain: TypeAlias = Callable[[Array], None]


class StreamCallback:
    """The host's end of a stream as an object. Subclass it and write `fetch`; the rest is optional.

    `prefetch` and `fetch` get an array of the stream's dtype with `num_elements` elements. Calls
    never overlap, and come in the order of the transfers.
    """

    class Result(Enum):
        """The result of `prefetch`: the array is filled, or there is no data for it yet."""

        SUCCESS = "SUCCESS"
        NOT_AVAILABLE = "NOT_AVAILABLE"

    def prefetch(self, array: Array) -> StreamCallback.Result:
        """Fill `array` with the data of a later transfer, if it is available already.

        The engine calls it after each transfer of a stream to the device, until `buffering_depth`
        transfers of the stream are ready.
        """
        return StreamCallback.Result.NOT_AVAILABLE

    def fetch(self, array: Array) -> None:
        """Fill `array` with the data of the next transfer; for a stream to the host, read `array`.

        It is not called for a transfer that was prefetched.
        """
        raise StreamConnectionError(f"""{type(self).__name__} has no fetch().
            next:  write `def fetch(self, array):` in the class.""")

    def complete(self) -> None:
        """Handle the end of a transfer: the data of the oldest `prefetch` or `fetch` was used."""

    def invalidate_prefetched(self) -> None:
        """Handle the loss of prefetched data, after a load or another connection of the stream."""


class CallbackFeed:
    """The source of a host-to-device stream with a `StreamCallback`.

    Prefetched data is used first, then `fetch` is called.
    """

    def __init__(self, stream: DataStream, callback: StreamCallback, replica: int) -> None:
        self.stream = stream
        self.callback = callback
        calls = callback.fetch, callback.complete, callback.prefetch
        self._fetch, self._complete, self._prefetch = (
            _with_replica(call, replica) for call in calls
        )
        self._ready: deque[Array] = deque()

    def __call__(self) -> Array:
        name = type(self.callback).__name__
        if self._ready:
            array = self._ready.popleft()
        else:
            array = _buffer(self.stream)
            _guarded(self.stream, f"{name}.fetch()", self._fetch, array)
        array.flags.writeable = False  # the callback must not change data that is being sent
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
        """Discard the prefetched data."""
        self._ready.clear()
        _guarded(
            self.stream,
            f"{type(self.callback).__name__}.invalidate_prefetched()",
            self.callback.invalidate_prefetched,
        )


class SharedFeed:
    """The source of a host-to-device stream of several replicas.

    A transfer consists of one transfer of each of `parts`, in order, repeated `times` times.
    """

    def __init__(self, parts: list[Feed], times: int = 1) -> None:
        self._parts = parts
        self._times = times

    def __call__(self) -> Array:
        return np.tile(np.concatenate([part() for part in self._parts]), self._times)

    def invalidate(self) -> None:
        """Discard the prefetched data."""
        for part in self._parts:
            if isinstance(part, CallbackFeed):
                part.invalidate()


def _with_replica(function: Function, replica: int) -> Function:
    """Return `function` with its parameter `replica` bound, if it has such a parameter."""
    try:
        has_parameter = "replica" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # some built-in functions have no signature
        has_parameter = False
    return partial(function, replica=replica) if has_parameter else function


def of_one(stream: DataStream) -> DataStream:
    """Return the part of a stream that belongs to one replica."""
    return replace(stream, num_elements=stream.num_elements // stream.replicas, replicas=1)


def _shape_by_replica(values: Array, count: int) -> tuple[int, ...]:
    """Return the shape in which row r of `values` has the elements of replica r of `count`."""
    return values.shape if values.shape[:1] == (count,) else (count, -1)


def _amount(stream: DataStream) -> str:
    """Return the size of one transfer as text."""
    count = f"{stream.num_elements:,} elements"
    if stream.replicas == 1:
        return count
    return f"{count} ({of_one(stream).num_elements:,} for each of {stream.replicas:,} replicas)"


def _buffer(stream: DataStream) -> Array:
    """Return an array for one transfer."""
    return np.zeros(stream.num_elements, stream.dtype.numpy)


def feed(stream: DataStream, source: Connected, wrap: bool = True, replica: int = 0) -> Feed:
    """Return a function that returns the next transfer of a host-to-device stream.

    A transfer is an array of `num_elements` values of the stream's dtype. `source` is one of:

    * an array. Each transfer sends the next part of it; after the last part, the first one follows.
      With `wrap=False`, every transfer sends the first part;
    * a `StreamCallback`, or an iterable of arrays;
    * a function without parameters, which returns an array, or a function with one parameter, which
      fills the array that it gets.

    `replica` is the number of the replica that the stream belongs to. In a stream of several
    replicas, a function is called once for each of them. If it has a parameter `replica`, it gets
    the number. For data that all replicas receive, it is called once. Raises
    `StreamConnectionError`.
    """
    if stream.replicas > 1 and stream.mode is ReplicatedStreamMode.BROADCAST:
        return SharedFeed([feed(of_one(stream), source, wrap)], stream.replicas)
    if stream.replicas > 1 and (isinstance(source, StreamCallback) or callable(source)):
        part = of_one(stream)
        return SharedFeed([feed(part, source, wrap, r) for r in range(stream.replicas)])
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
        return _from_function(stream, _with_replica(source, replica))
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
        # this is the caller's own memory, so the next transfer sends what the caller changes in it
        values = source.reshape(-1)
    return _in_turn(stream, values, wrap)


def drain(stream: DataStream, sink: Connected, wrap: bool = True, replica: int = 0) -> Drain:
    """Return a function that receives one transfer of a device-to-host stream.

    `sink` is an array of the stream's dtype, a list, a `StreamCallback`, or a function with one
    parameter. An array is filled part by part, and then again from its start; with `wrap=False`,
    each transfer fills its first part. A list gets each transfer appended. Several replicas are
    handled as in `feed`. Raises `StreamConnectionError`.
    """
    if stream.replicas > 1 and (isinstance(sink, StreamCallback) or callable(sink)):
        of_replica = of_one(stream)
        parts = [drain(of_replica, sink, wrap, r) for r in range(stream.replicas)]

        def deal(values: Array) -> None:
            rows = values.reshape(_shape_by_replica(values, len(parts)))
            for part, row in zip(parts, rows, strict=True):
                part(row)

        return deal
    if not wrap and not isinstance(sink, np.ndarray):
        raise _no_place(stream, sink)
    if isinstance(sink, list):
        return sink.append
    if isinstance(sink, StreamCallback):
        return _to_callback(stream, sink, replica)
    if callable(sink) and not isinstance(sink, type):
        function = _with_replica(sink, replica)
        _check_signature(stream, function, np.zeros(0))

        def call(values: Array) -> None:
            _guarded(stream, "The connected function", function, values)

        return call
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
    """Return `copy`, one transfer of a stream, with an event added to the host's timeline.

    The event has the bytes and the direction of the transfer.
    """
    label = f"{stream.handle}: {COPY}"
    size = stream.num_elements * stream.dtype.size
    way = TO_DEVICE if stream.to_device else TO_HOST
    now = time.perf_counter_ns
    add = TIMELINE.add

    def copy_and_note() -> None:
        start = now()
        try:
            copy()
        finally:
            add(STREAMS, label, start, size, way)

    return copy_and_note


def _check_signature(stream: DataStream, function: Function, *args: Array) -> None:
    """Raise `StreamConnectionError` if the signature of `function` does not accept `args`."""
    try:
        inspect.signature(function).bind(*args)
    except ValueError:  # some built-in functions have no signature
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
    """Return the function that passes one transfer to a callback."""
    name = type(callback).__name__
    fetch, complete = (_with_replica(f, replica) for f in (callback.fetch, callback.complete))

    def take(values: Array) -> None:
        _guarded(stream, f"{name}.fetch()", fetch, values.reshape(-1))
        _guarded(stream, f"{name}.complete()", complete)

    return take


def _guarded(stream: DataStream, call: str, function: Function, *args: Connected) -> Connected:
    """Call the user's code, and raise its errors as `StreamConnectionError`.

    `call` names the code in the error. The kit's own errors and KeyboardInterrupt are not changed.
    """
    try:
        with tracepoint(f"{stream.handle}: {call}", STREAMS):
            return function(*args)
    except IPUTeachError:
        raise
    except Exception as error:
        raise StreamConnectionError(
            f"{call} failed: {': '.join(filter(None, (type(error).__name__, str(error))))}.",
            where=f"stream {stream.handle!r}",
            next_step="the error above this one shows the line.",
        ) from error


def _from_function(stream: DataStream, function: Function) -> Feed:
    """Return the feed of a function that returns an array, or that fills one."""
    if not _takes_array(function):
        _check_signature(stream, function)
        origin = "what the connected function returned"

        def returned() -> Array:
            values = _guarded(stream, "The connected function", function)
            return _check_transfer(stream, values, origin)

        return returned

    def filled() -> Array:
        array = _buffer(stream)
        _guarded(stream, "The connected function", function, array)
        return array

    return filled


def _takes_array(function: Function) -> bool:
    """Return whether a function has exactly one required parameter.

    Such a function fills the array that it gets, as the callbacks of Poplar do.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in plain and p.default is p.empty for p in parameters) == 1


_DRY = object()


def _from_iterator(stream: DataStream, items: Iterator[Connected]) -> Feed:
    """Return the feed of an iterator of arrays."""
    taken = 0

    def following() -> Array:
        nonlocal taken
        item = _guarded(stream, "The connected iterator", next, items, _DRY)
        if item is _DRY:
            raise StreamConnectionError(f"""The stream {stream.handle!r} ran dry: its iterator gave
                {counted(taken, "transfer")}, but the program reads another.
                next:  give an endless iterator (itertools.cycle), or repeat fewer times.""")
        taken += 1
        return _check_transfer(stream, item, f"transfer {taken:,} of the iterator")

    return following


def _check_transfer(stream: DataStream, values: Connected, origin: str) -> Array:
    """Return the values of one transfer as a flat array of the stream's dtype and size.

    Otherwise raise `StreamConnectionError`; `origin` is its `where`.
    """
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
    """Return a function that returns the next part of an array, of one transfer, at each call.

    After the last part it starts again. Without `wrap` it always returns the first part.
    """
    count = stream.num_elements
    values = values[:count] if not wrap else values
    if values.size == 0 or values.size % count:
        several = f"{count:,} elements, or a multiple of that: each transfer is the next part"
        once = f"at least {count:,} elements: each transfer is at the start"
        raise StreamConnectionError(f"""The stream {stream.handle!r} moves {_amount(stream)} a
            transfer and was connected to an array of {values.size:,}.
            next:  connect {several if wrap else once}.""")
    rows = values.reshape(values.size // count, count)
    transfers = counter()
    return lambda: rows[next(transfers) % len(rows)]


def _no_place(stream: DataStream, connected: Connected) -> StreamConnectionError:
    """Return the error for `wrap=False` with an object that is not an array."""
    return StreamConnectionError(f"""The stream {stream.handle!r} was connected to
        {shown(connected)} with wrap=False.
        next:  leave wrap=False out, or connect an array: it starts each run at the start of an
        array.""")
