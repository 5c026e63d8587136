"""What a kernel's calls do when they run, beyond calling numpy's functions themselves."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.compile.matrices import note, odd, tell
from ipu_teach.compile.tracer import failed
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array
from ipu_teach.types.regions import to_unsigned


def check_fits(numbers: Array, dtype: Any, line: str, table: FrozenTable, rows: Array) -> None:
    """Raise what the plain vertex loop raises where a number is stored in an integer that cannot
    hold it.

    `rows`: the vertices, in the order of `numbers`, one number each.
    """
    bounds = np.iinfo(dtype)
    low, high = int(bounds.min), int(bounds.max)
    if numbers.dtype.kind == "f":
        whole = np.trunc(numbers.astype(np.float64))
        fits = (whole >= float(low)) & (whole < float(high + 1))
    else:
        fits = (numbers >= low) & (numbers <= high)
    fits = fits.reshape(-1)
    if not fits.all():
        bad = np.flatnonzero(~fits)
        first = int(bad[np.argmin(rows[bad])])  # the vertex that the loop would come to first
        error = OverflowError(f"{numbers.reshape(-1)[first]} does not fit into {dtype}")
        raise failed(table.codelet, error, line, vertex_name(table, int(rows[first])))


def store_unsigned(place: Array, numbers: Array) -> None:
    """Store floats in unsigned integers."""
    fits = (numbers > -1) & (numbers < np.float64(2.0 ** (8 * place.itemsize)))
    np.copyto(place, numbers if fits.all() else to_unsigned(numbers, place.dtype), "unsafe")


def scatter(flat: Array, index: Array, buffer: Array) -> None:
    """Write every vertex's elements back to their places."""
    flat[index] = buffer.reshape(index.shape)


def gather_windows(windows: Array, starts: Array, buffer: Array) -> None:
    """Copy long regions, each in one piece."""
    buffer[...] = windows[starts].reshape(buffer.shape)


def bits_unless(bits: Array, condition: Array, out: Array) -> None:
    """Write numbers, as unsigned integers, where a condition is false, and 0 elsewhere."""
    np.multiply(bits, np.logical_not(condition), out)


def apply(fn: Callable[..., Any], args: list[Any], out: Array) -> None:
    """Call what takes no `out`."""
    out[...] = fn(*args)


def call_each(fn: Callable[..., Any], args: list[tuple[Any, Any]], out: Array, axes: int) -> None:
    """Call `fn` vertex by vertex. `args`: (index within a vertex's value, values), or (None, what
    all vertices share)."""
    for vertex in np.ndindex(out.shape[:axes]):
        out[vertex] = fn(*(a if index is None else a[vertex + index] for index, a in args))


def call_dense(
    fn: Callable[..., Any],
    args: list[Array],
    vectors: bool,
    out: Array,
    place: tuple[type[Vertex], str],
    who: Callable[[int], str],
) -> None:
    """Call a function of matrices for all vertices; of those that it refuses, or whose matrix is
    odd, the first is named.

    `vectors`: the last argument and the result are vectors, which numpy takes for matrices here.
    `place`: the codelet, and the line. `who(i)` names a vertex.
    """
    if vectors:
        args, out = [*args[:-1], args[-1][..., None]], out[..., None]
    strange = odd(fn.__name__, args[0]).any((-1, -2)).reshape(-1)
    try:
        found = fn(*args)
        out[...] = found[0] if fn is np.linalg.qr else found
    except np.linalg.LinAlgError:
        lead = out.shape[: args[0].ndim - 2]
        each = [np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in args]
        for number, vertex in enumerate(np.ndindex(lead)):
            try:
                fn(*(a[vertex] for a in each))
            except np.linalg.LinAlgError as error:
                raise failed(place[0], error, place[1], who(number)) from error
        raise
    if strange.any():
        first = int(strange.argmax())
        note(fn.__name__, args[0].reshape(-1, *args[0].shape[-2:])[first], place[1])
        tell(place[0], partial(who, first))


def call_rows(fn: Callable[..., Any], values: Array, out: Array) -> None:
    """Call `fn` for all vertices, each of which has one row."""
    out[...] = fn(np.ascontiguousarray(values), axis=-1)
