"""Functions that the array calls of a batch use in addition to numpy's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np

from ipu_teach.arguments import Function
from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.freeze import FrozenTable
from ipu_teach.compile.matrices import is_unsuitable, note, warn_of_noted
from ipu_teach.compile.tracer import compute_error
from ipu_teach.engine.backend import Operand
from ipu_teach.graph.vertex import Vertex
from ipu_teach.types import Array
from ipu_teach.types.regions import to_unsigned
from ipu_teach.types.rounding import AnyDType

# An argument of `call_each`: (index into one vertex's value, array of all vertices' values), or
# (None, a value that all vertices share).
Argument: TypeAlias = tuple[tuple[EllipsisType, ...] | None, Any]


def check_fits(numbers: Array, dtype: AnyDType, line: str, table: FrozenTable, rows: Array) -> None:
    """Raise an error if an integer element cannot hold a number that is stored in it.

    The error is the same as in the plain vertex loop. `numbers` contains the number that each
    vertex stores, and `rows` the table rows of these vertices. `line` is the program line of the
    store.
    """
    bounds = np.iinfo(dtype)
    lowest = int(bounds.min)
    highest = int(bounds.max)
    if numbers.dtype.kind == "f":
        truncated = np.trunc(numbers.astype(np.float64))
        fits = (truncated >= float(lowest)) & (truncated < float(highest + 1))
    else:
        fits = (numbers >= lowest) & (numbers <= highest)
    fits = fits.reshape(-1)
    if not fits.all():
        misfits = np.flatnonzero(~fits)
        # The index of the vertex that is the first in the plain vertex loop to store an unsuitable
        # number.
        first_misfit = int(misfits[np.argmin(rows[misfits])])
        error = OverflowError(f"{numbers.reshape(-1)[first_misfit]} does not fit into {dtype}")
        raise compute_error(table.codelet, error, line, vertex_name(table, int(rows[first_misfit])))


def store_unsigned(place: Array, numbers: Array) -> None:
    """Store floats in unsigned integer elements, in the same way as the plain vertex loop."""
    fits = (numbers > -1) & (numbers < np.float64(2.0 ** (8 * place.itemsize)))
    np.copyto(place, numbers if fits.all() else to_unsigned(numbers, place.dtype), "unsafe")


def scatter(flat: Array, index: Array, buffer: Array) -> None:
    """Write the elements of every vertex back to memory, where their positions are `index`."""
    flat[index] = buffer.reshape(index.shape)


def gather_windows(windows: Array, starts: Array, buffer: Array) -> None:
    """Copy contiguous regions to a buffer.

    `windows[i]` is the region that begins at element i of the memory.
    """
    buffer[...] = windows[starts].reshape(buffer.shape)


def bits_unless(bits: Array, condition: Array, out: Array) -> None:
    """Write `bits` to `out` where a condition is false, and 0 where it is true.

    `bits` and `out` are arrays of any type, viewed as unsigned integers.
    """
    np.multiply(bits, np.logical_not(condition), out)


def apply(fn: Function, args: list[Operand], out: Array) -> None:
    """Write `fn(*args)` to `out`, for a function that has no parameter `out`."""
    out[...] = fn(*args)


def call_each(fn: Function, args: list[Argument], out: Array, axes: int) -> None:
    """Call `fn` for each vertex, and write the results to `out`.

    The first `axes` axes of `out` and of the arguments' arrays are those of the vertices. Each of
    `args` is (index, array), or (None, a value that all vertices share). The index is applied to
    the part of the array that belongs to the vertex: () for a number, (...,) for an array.
    """
    for vertex in np.ndindex(out.shape[:axes]):
        out[vertex] = fn(*(a if index is None else a[vertex + index] for index, a in args))


def call_dense(
    fn: Function,
    args: list[Array],
    vectors: bool,
    out: Array,
    codelet_and_line: tuple[type[Vertex], str],
    name_vertex: Callable[[int], str],
) -> None:
    """Call a function of np.linalg for the matrices of all vertices.

    If the function refuses a matrix, the error names the first vertex with such a matrix. If a
    matrix is unsuitable (see `matrices`), there is a warning, which names the first vertex with an
    unsuitable matrix. If `vectors` is True, the last argument and the result have one vector per
    vertex; they are passed as matrices of one column. `name_vertex(i)` returns the name of vertex
    i.
    """
    if vectors:
        args = [*args[:-1], args[-1][..., None]]
        out = out[..., None]
    has_fault = is_unsuitable(fn.__name__, args[0]).any((-1, -2)).reshape(-1)
    try:
        result = fn(*args)
        out[...] = result[0] if fn is np.linalg.qr else result
    except np.linalg.LinAlgError:
        lead_shape = out.shape[: args[0].ndim - 2]
        args_by_vertex = [
            np.broadcast_to(argument, (*lead_shape, *argument.shape[-2:])) for argument in args
        ]
        for vertex_number, vertex_index in enumerate(np.ndindex(lead_shape)):
            try:
                fn(*(argument[vertex_index] for argument in args_by_vertex))
            except np.linalg.LinAlgError as error:
                raise compute_error(
                    codelet_and_line[0], error, codelet_and_line[1], name_vertex(vertex_number)
                ) from error
        raise
    if has_fault.any():
        first_fault = int(has_fault.argmax())
        note(
            fn.__name__, args[0].reshape(-1, *args[0].shape[-2:])[first_fault], codelet_and_line[1]
        )
        warn_of_noted(codelet_and_line[0], partial(name_vertex, first_fault))


def call_rows(fn: Function, values: Array, out: Array) -> None:
    """Call `fn` once for all vertices; each vertex has one row of `values`."""
    out[...] = fn(np.ascontiguousarray(values), axis=-1)
