"""What the host connects to a stream: arrays that go round, iterators that run dry, functions that are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ipu_teach.errors import StreamConnectionError, TensorCreationError, counted, shown
from ipu_teach.graph.graph import DataStream
from ipu_teach.graph.tensor import Tensor
from ipu_teach.types import Array, to_host_array

Feed = Callable[[], Array]
Drain = Callable[[Array], None]


def feed(stream: DataStream, source: Any) -> Feed:
    """A function that returns the next transfer of a host-to-device stream: `num_elements` values of its dtype.

    `source`: an array (each transfer takes the next part; at the end it starts over), a function of no arguments, or an
    iterable of arrays. Raises `StreamConnectionError`.
    """
    if isinstance(source, (str, bytes, dict, set, Tensor, DataStream, type)) or source is None:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} goes to the device and was connected to {shown(source)}.",
            next_step="connect an array, an iterator of arrays, or a function that returns one.",
        )
    if callable(source):
        _check_signature(stream, source)
        return lambda: _sized(stream, source(), "what the connected function returned")
    if isinstance(source, Iterator) or (isinstance(source, Iterable) and not isinstance(source, (np.ndarray, list, tuple))):
        return _from_iterator(stream, iter(source))
    try:
        values = to_host_array(source, stream.dtype, f"The stream {stream.handle!r}").reshape(-1)
    except TensorCreationError as error:
        raise StreamConnectionError(error.tried, next_step=error.next_step) from None
    parts = _parts(stream, values.size)
    if isinstance(source, np.ndarray) and source.dtype == stream.dtype.numpy and source.flags.c_contiguous:
        values = source.reshape(-1)  # the caller's own memory: what changes there is what the next transfer sends
    return _round(values.reshape(parts, stream.num_elements))


def drain(stream: DataStream, sink: Any) -> Drain:
    """A function that takes one transfer of a device-to-host stream.

    `sink`: an array of the stream's dtype (filled part by part, then over again), a list (each transfer is appended), or a
    function of one argument. Raises `StreamConnectionError`.
    """
    if isinstance(sink, list):
        return sink.append
    if callable(sink) and not isinstance(sink, type):
        _check_signature(stream, sink, np.zeros(0))
        return lambda values: (sink(values), None)[1]
    if not isinstance(sink, np.ndarray):
        raise StreamConnectionError(
            f"The stream {stream.handle!r} goes to the host and was connected to {shown(sink)}.",
            next_step="connect an array to fill, a list to append to, or a function that takes one array.",
        )
    name = stream.dtype.numpy.name
    if sink.dtype != stream.dtype.numpy:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} carries {stream.dtype.__name__} and was connected to an array of {sink.dtype}.",
            next_step=f"connect an array of its own dtype: np.empty({stream.num_elements}, np.{name}).",
        )
    if not sink.flags.c_contiguous or not sink.flags.writeable:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} was connected to an array that cannot be filled in place: it is "
            f"{'read-only' if not sink.flags.writeable else 'not contiguous'}.",
            next_step=f"connect a new array: np.empty({stream.num_elements}, np.{name}).",
        )
    rows = _round(sink.reshape(_parts(stream, sink.size), stream.num_elements))

    def fill(values: Array) -> None:
        rows()[...] = values.reshape(-1)

    return fill


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


def _round(rows: Array) -> Feed:
    """The rows of an array, one a call, over and over."""
    position = -1

    def following() -> Array:
        nonlocal position
        position = (position + 1) % len(rows)
        row: Array = rows[position]
        return row

    return following


def _from_iterator(stream: DataStream, items: Iterator[Any]) -> Feed:
    taken = 0

    def following() -> Array:
        nonlocal taken
        try:
            item = next(items)
        except StopIteration:
            raise StreamConnectionError(
                f"The stream {stream.handle!r} ran dry: its iterator gave {counted(taken, 'transfer')}, "
                "and the program wants another.",
                next_step="give an iterator that lasts (itertools.cycle), or repeat fewer times.",
            ) from None
        taken += 1
        return _sized(stream, item, f"transfer {taken:,} of the iterator")

    return following


def _sized(stream: DataStream, values: Any, origin: str) -> Array:
    try:
        array = to_host_array(values, stream.dtype, f"The stream {stream.handle!r}")
    except TensorCreationError as error:
        raise StreamConnectionError(error.tried, where=origin, next_step=error.next_step) from None
    if array.size != stream.num_elements:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} takes {stream.num_elements:,} elements a transfer and was given {array.size:,}.",
            where=origin,
            next_step=f"give arrays of {stream.num_elements:,} elements, or change the size of the stream.",
        )
    return array.reshape(-1)


def _parts(stream: DataStream, size: int) -> int:
    if size == 0 or size % stream.num_elements:
        raise StreamConnectionError(
            f"The stream {stream.handle!r} moves {stream.num_elements:,} elements a transfer and was connected to an array "
            f"of {size:,}.",
            next_step=f"connect {stream.num_elements:,} elements, or a multiple of that: each transfer is the next part.",
        )
    return size // stream.num_elements
