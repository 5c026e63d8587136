"""The host's end of a stream: an array, an iterator, a list, a function or a callback object.

A stream moves data between the host and the device. A *transfer* is one execution of a Copy from or
to the stream. It moves `num_elements` elements. A *feed* is a function that returns the data of the
next transfer to the device. A *drain* is a function that receives the data of a transfer to the
host.
"""

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

# An object of the user: it is connected to a stream, or it is an argument or result of a function.
Connected: TypeAlias = Any
Feed: TypeAlias = Callable[[], Array]
Drain: TypeAlias = Callable[[Array], None]


class StreamCallback:
    """The host's end of a stream, as an object with callbacks.

    Write a subclass with a method `fetch`; the other methods are optional. `prefetch` and `fetch`
    get an array of the stream's dtype with `num_elements` elements. The calls never overlap, and
    come in the order of the transfers.
    """

    class Result(Enum):
        """The result of `prefetch`: the array was filled, or no data were available yet."""

        SUCCESS = "SUCCESS"
        NOT_AVAILABLE = "NOT_AVAILABLE"

    def prefetch(self, array: Array) -> StreamCallback.Result:
        """Fill `array` with the data of a later transfer, if they are already available.

        After each transfer of a stream to the device, the engine calls this method until
        `buffering_depth` transfers of the stream are prefetched, or until the result is
        NOT_AVAILABLE.
        """
        return StreamCallback.Result.NOT_AVAILABLE

    def fetch(self, array: Array) -> None:
        """Fill `array` with the data of the next transfer. For a stream to the host, read `array`.

        The engine does not call this method for a transfer that was prefetched.

        :raises StreamConnectionError: if the subclass does not define this method.
        """
        raise StreamConnectionError(f"""{type(self).__name__} has no fetch().
            next:  write `def fetch(self, array):` in the class.""")

    def complete(self) -> None:
        """Handle the end of a transfer: the device has received the oldest fetched data.

        For a stream to the host, this method is called after `fetch`.
        """

    def invalidate_prefetched(self) -> None:
        """React to the loss of prefetched data: the engine was loaded or the stream reconnected."""


class CallbackFeed:
    """The source of a host-to-device stream that is connected to a `StreamCallback`.

    A call returns the oldest prefetched data. If there are none, it returns new data from `fetch`.
    """

    def __init__(self, stream: DataStream, callback: StreamCallback, replica: int) -> None:
        self.stream = stream
        self.callback = callback
        methods = callback.fetch, callback.complete, callback.prefetch
        self._fetch, self._complete, self._prefetch = (
            _with_replica(method, replica) for method in methods
        )
        self._ready: deque[Array] = deque()

    def __call__(self) -> Array:
        class_name = type(self.callback).__name__
        if self._ready:
            array = self._ready.popleft()
        else:
            array = _buffer(self.stream)
            _guarded(self.stream, f"{class_name}.fetch()", self._fetch, array)
        array.flags.writeable = False  # The callback must not change data while they are sent.
        _guarded(self.stream, f"{class_name}.complete()", self._complete)
        while len(self._ready) < self.stream.buffering_depth:
            prefetched = _buffer(self.stream)
            result = _guarded(self.stream, f"{class_name}.prefetch()", self._prefetch, prefetched)
            if not isinstance(result, StreamCallback.Result):
                raise StreamConnectionError(f"""{class_name}.prefetch() returned {shown(result)},
                    which is not a StreamCallback.Result.
                    where: stream {self.stream.handle!r}
                    next:  return StreamCallback.Result.SUCCESS or
                    StreamCallback.Result.NOT_AVAILABLE.""")
            if result is StreamCallback.Result.NOT_AVAILABLE:
                break
            self._ready.append(prefetched)
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

    In each transfer, it sends the data of one transfer from each of the feeds `parts`, in order.
    This sequence is sent `times` times.
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
    """Return a function that calls `function` with the number `replica` as argument `replica`.

    If `function` has no parameter `replica`, it is returned unchanged.
    """
    try:
        has_parameter = "replica" in inspect.signature(function).parameters
    # Some built-in functions have no signature.
    except (TypeError, ValueError):
        has_parameter = False
    return partial(function, replica=replica) if has_parameter else function


def of_one(stream: DataStream) -> DataStream:
    """Return a copy of `stream` for one replica, with that replica's number of elements."""
    return replace(stream, num_elements=stream.num_elements // stream.replicas, replicas=1)


def _shape_by_replica(values: Array, num_replicas: int) -> tuple[int, ...]:
    """Return a shape for `values` in which row r contains the elements of replica r."""
    return values.shape if values.shape[:1] == (num_replicas,) else (num_replicas, -1)


def _amount(stream: DataStream) -> str:
    """Return the number of elements of one transfer as text, such as "8 elements"."""
    elements_text = f"{stream.num_elements:,} elements"
    if stream.replicas == 1:
        return elements_text
    return (
        f"{elements_text} ({of_one(stream).num_elements:,} for each of {stream.replicas:,} "
        "replicas)"
    )


def _buffer(stream: DataStream) -> Array:
    """Return an array of zeros with the dtype and the number of elements of one transfer."""
    return np.zeros(stream.num_elements, stream.dtype.numpy)


def feed(stream: DataStream, source: Connected, wrap: bool = True, replica: int = 0) -> Feed:
    """Return a function that returns the data of the next transfer of a host-to-device stream.

    The data is an array of `num_elements` values of the stream's dtype. `source` is one of:

    * an array, or a list or tuple of numbers. Each transfer sends the next part of it. The part
      after the last one is the first one again. If `wrap` is False, every transfer sends the first
      part. An array that is contiguous and has the stream's dtype is not copied, so each transfer
      sends the values that the array has at that time;
    * a `StreamCallback`, or an iterable of arrays;
    * a function without parameters, which returns an array, or a function with one parameter, which
      fills the array that it gets.

    `replica` is the number of the replica that the stream belongs to. If the stream is for several
    replicas, a function or `StreamCallback` is called once for each of them. If the function or the
    callback's methods have a parameter `replica`, it gets the number of the replica. If all
    replicas receive the same data, the function or `StreamCallback` is called only once.

    :raises StreamConnectionError: if `source` cannot be connected to the stream.
    """
    if stream.replicas > 1 and stream.mode is ReplicatedStreamMode.BROADCAST:
        return SharedFeed([feed(of_one(stream), source, wrap)], stream.replicas)
    if stream.replicas > 1 and (isinstance(source, StreamCallback) or callable(source)):
        stream_of_replica = of_one(stream)
        return SharedFeed(
            [feed(stream_of_replica, source, wrap, number) for number in range(stream.replicas)]
        )
    unsuitable = (str, bytes, dict, set, frozenset, Tensor, DataStream, type)
    if isinstance(source, unsuitable) or source is None:
        raise StreamConnectionError(f"""The stream {stream.handle!r} sends data to the device, so it
            cannot be connected to {shown(source)}.
            next:  connect an array, an iterator of arrays, or a function that returns one.""")
    is_iterable = isinstance(source, Iterable) and not isinstance(source, (np.ndarray, list, tuple))
    if not wrap and (isinstance(source, StreamCallback) or callable(source) or is_iterable):
        raise _no_place(stream, source)
    if isinstance(source, StreamCallback):
        return CallbackFeed(stream, source, replica)
    if callable(source):
        return _from_function(stream, _with_replica(source, replica))
    if is_iterable:
        return _from_iterator(stream, iter(source))
    values = to_host_array(
        source, stream.dtype, f"The stream {stream.handle!r}", StreamConnectionError
    ).reshape(-1)
    if (
        isinstance(source, np.ndarray)
        and source.dtype == stream.dtype.numpy
        and source.flags.c_contiguous
    ):
        # The array is not copied, so each transfer sends the values that the array has at that
        # time.
        values = source.reshape(-1)
    return _in_turn(stream, values, wrap)


def drain(stream: DataStream, sink: Connected, wrap: bool = True, replica: int = 0) -> Drain:
    """Return a function that receives the data of one transfer of a device-to-host stream.

    `sink` is one of:

    * an array of the stream's dtype. Each transfer fills the next part of it. The part after the
      last one is the first one again. If `wrap` is False, every transfer fills the first part;
    * a list, to which the data of each transfer is appended;
    * a `StreamCallback`, or a function with one parameter, which gets the data as an array.

    If the stream is for several replicas, a function or `StreamCallback` is called once for each of
    them. If the function or the callback's methods have a parameter `replica`, it gets the number
    of the replica.

    :raises StreamConnectionError: if `sink` cannot be connected to the stream.
    """
    if stream.replicas > 1 and (isinstance(sink, StreamCallback) or callable(sink)):
        stream_of_replica = of_one(stream)
        drains = [drain(stream_of_replica, sink, wrap, number) for number in range(stream.replicas)]

        def drain_each(values: Array) -> None:
            rows = values.reshape(_shape_by_replica(values, len(drains)))
            for drain_replica, values_of_replica in zip(drains, rows, strict=True):
                drain_replica(values_of_replica)

        return drain_each
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
        raise StreamConnectionError(f"""The stream {stream.handle!r} sends data to the host, so it
            cannot be connected to {shown(sink)}.
            next:  connect an array to fill, a list to append to, or a function that takes one
            array.""")
    dtype_name = stream.dtype.numpy.name
    if sink.dtype != stream.dtype.numpy:
        raise StreamConnectionError(f"""The stream {stream.handle!r} has dtype
            {stream.dtype.__name__}, but was connected to an array of {sink.dtype}.
            next:  connect an array of dtype {dtype_name}: np.empty({stream.num_elements},
            np.{dtype_name}).""")
    if not sink.flags.c_contiguous or not sink.flags.writeable:
        raise StreamConnectionError(f"""The stream {stream.handle!r} was connected to an array that
            cannot be filled in place: it is
            {"read-only" if not sink.flags.writeable else "not contiguous"}.
            next:  connect a new array: np.empty({stream.num_elements}, np.{dtype_name}).""")
    next_part = _in_turn(stream, sink.reshape(-1), wrap)

    def fill(values: Array) -> None:
        next_part()[...] = values.reshape(-1)

    return fill


def noted(stream: DataStream, copy: Callable[[], None]) -> Callable[[], None]:
    """Return a function that calls `copy` and records the call on the host's timeline.

    `copy` makes one transfer of the stream. The recorded event has the bytes and the direction of
    the transfer.
    """
    label = f"{stream.handle}: {COPY}"
    num_bytes = stream.num_elements * stream.dtype.size
    direction = TO_DEVICE if stream.to_device else TO_HOST
    clock = time.perf_counter_ns
    add = TIMELINE.add

    def copy_and_note() -> None:
        start = clock()
        try:
            copy()
        finally:
            add(STREAMS, label, start, num_bytes, direction)

    return copy_and_note


def _check_signature(stream: DataStream, function: Function, *args: Array) -> None:
    """Check that the signature of `function` accepts the arguments `args`.

    :raises StreamConnectionError: if it does not.
    """
    try:
        inspect.signature(function).bind(*args)
    # Some built-in functions have no signature.
    except ValueError:
        pass
    except TypeError:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} was connected to a function that cannot be called with "
            f"{'one argument' if args else 'no argument'}.",
            next_step="write `def take(values):`, which gets an array."
            if args
            else "write `def give():`, which returns an array.",
        ) from None


def _to_callback(stream: DataStream, callback: StreamCallback, replica: int) -> Drain:
    """Return a function that passes the data of one transfer to the methods of `callback`."""
    name = type(callback).__name__
    fetch, complete = (
        _with_replica(method, replica) for method in (callback.fetch, callback.complete)
    )

    def take(values: Array) -> None:
        _guarded(stream, f"{name}.fetch()", fetch, values.reshape(-1))
        _guarded(stream, f"{name}.complete()", complete)

    return take


def _guarded(stream: DataStream, call: str, function: Function, *args: Connected) -> Connected:
    """Return `function(*args)`, a call of the user's code, and record it on the host's timeline.

    The kit's own errors and KeyboardInterrupt are raised unchanged.

    :raises StreamConnectionError: if the code raises any other error. The message contains the text
        `call`.
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
            next_step="look at the error above this one, which shows the line.",
        ) from error


def _from_function(stream: DataStream, function: Function) -> Feed:
    """Return the feed for a function that returns an array, or that fills an array."""
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
    # Some built-in functions have no signature.
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return (
        sum(
            parameter.kind in positional and parameter.default is parameter.empty
            for parameter in parameters
        )
        == 1
    )


_DRY = object()


def _from_iterator(stream: DataStream, items: Iterator[Connected]) -> Feed:
    """Return the feed for an iterator of arrays.

    If the iterator ends before the program's last transfer, the feed raises
    `StreamConnectionError`.
    """
    num_taken = 0

    def next_transfer() -> Array:
        nonlocal num_taken
        item = _guarded(stream, "The connected iterator", next, items, _DRY)
        if item is _DRY:
            raise StreamConnectionError(f"""The stream {stream.handle!r} ran dry: its iterator gave
                {counted(num_taken, "transfer")}, but the program reads one more.
                next:  give an endless iterator (itertools.cycle), or repeat fewer times.""")
        num_taken += 1
        return _check_transfer(stream, item, f"transfer {num_taken:,} of the iterator")

    return next_transfer


def _check_transfer(stream: DataStream, values: Connected, origin: str) -> Array:
    """Return the values of one transfer as a flat array of the stream's dtype and size.

    `origin` describes the source of the values, for error messages.

    :raises StreamConnectionError: if the dtype or the size is wrong.
    """
    try:
        array = to_host_array(values, stream.dtype, f"The stream {stream.handle!r}")
    except TensorCreationError as error:
        raise StreamConnectionError(error.tried, where=origin, next_step=error.next_step) from None
    if array.size != stream.num_elements:
        raise StreamConnectionError(f"""The stream {stream.handle!r} needs {_amount(stream)} for
            each transfer, but was given {array.size:,}.
            where: {origin}
            next:  give arrays of {stream.num_elements:,} elements, or change the size of the
            stream.""")
    return array.reshape(-1)


def _in_turn(stream: DataStream, values: Array, wrap: bool) -> Feed:
    """Return a function that returns the next part of `values` at each call.

    A part has the elements of one transfer. The part after the last one is the first one again. If
    `wrap` is False, each call returns the first part.

    :raises StreamConnectionError: if `values` does not consist of such parts.
    """
    num_elements = stream.num_elements
    values = values[:num_elements] if not wrap else values
    if values.size == 0 or values.size % num_elements:
        size = f"{num_elements:,}"
        advice_for_parts = f"{size} elements, or a multiple: each transfer uses the next {size}"
        advice_for_start = f"at least {size} elements: each transfer uses the first {size}"
        raise StreamConnectionError(f"""The stream {stream.handle!r} moves {_amount(stream)} in each
            transfer, but was connected to an array of {values.size:,}.
            next:  connect {advice_for_parts if wrap else advice_for_start}.""")
    parts = values.reshape(values.size // num_elements, num_elements)
    transfer_numbers = counter()
    return lambda: parts[next(transfer_numbers) % len(parts)]


def _no_place(stream: DataStream, connected: Connected) -> StreamConnectionError:
    """Return the error for `wrap=False` with an object that is not an array."""
    return StreamConnectionError(f"""The stream {stream.handle!r} was connected to
        {shown(connected)} with wrap=False, which needs an array.
        next:  leave out wrap=False, or connect an array, of which each transfer then uses the
        first elements.""")
