"""Lowering functions that depend on the order of elements along a dimension.

They compute extremes and their positions, sort elements, and compute cumulative results. As in
torch's stable sort, equal elements keep their order, and NaN is larger than all numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log

import numpy as np

from ipu_teach.frontends import ir
from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.pytorch.rows.registry import (
    Argument,
    Kind,
    Operand,
    Results,
    as_dtype,
    as_rows,
    from_rows,
    is_float,
    numeric,
    reshape,
    row,
    size_along,
    slice_dimension,
)
from ipu_teach.frontends.pytorch.rows.views import at_places
from ipu_teach.types import FLOAT, INT, UNSIGNED_INT

# --- positions of extremes ------------------------------------------------------------------------


def _place(graph: Ir, kind: str, rows: Value) -> Value:
    """Return an INT value [rows]: the column of the first maximum or minimum of each row.

    If a row contains NaN, return the column of its first NaN. `kind` is "max" or "min".
    """
    return graph.op("reinterpret", graph.op(f"arg_{kind}", rows), dtype=INT)


def _arg(kind: str) -> Callable[..., Value]:
    """Return the lowering function of argmax or argmin; `kind` is "max" or "min"."""

    def arg(
        graph: Ir, results: Results, x: Value, dim: int | None = None, keepdim: bool = False
    ) -> Value:
        x = numeric(graph, x)
        rows = reshape(graph, x, (1, x.size)) if dim is None else as_rows(graph, x, dim)
        return reshape(graph, _place(graph, kind, rows), results.shape)

    return arg


def _with_place(kind: str) -> Callable[..., Value | list[Value]]:
    """Return the lowering function of torch.max or torch.min; `kind` is "max" or "min".

    The function returns the maximum or minimum. If a dimension is given, it returns a list: [maxima
    or minima, their positions].
    """

    def extreme(
        graph: Ir, results: Results, x: Value, dim: int | None = None, keepdim: bool = False
    ) -> Value | list[Value]:
        dtype = x.dtype
        x = numeric(graph, x)
        rows = reshape(graph, x, (1, x.size)) if dim is None else as_rows(graph, x, dim)
        value = ir.reduced(graph, f"reduce_{kind}", rows, [1])
        value = as_dtype(graph, reshape(graph, value, results.shape), dtype)
        if dim is None:
            return value
        return [value, reshape(graph, _place(graph, kind, rows), results.shape)]

    return extreme


for _kind in ("max", "min"):
    row(f"arg{_kind}")(_arg(_kind))
    row(_kind)(_with_place(_kind))


# --- sorting --------------------------------------------------------------------------------------


def first_in_order(graph: Ir, x: Value, count: int, dim: int, largest: bool) -> list[Value]:
    """Return [values, positions] of the first `count` elements in order along dimension `dim`.

    The order is descending if `largest`, and otherwise ascending. The positions are INT.
    """
    rows = as_rows(graph, numeric(graph, x), dim)
    values, positions = graph.emit("top_k", rows, k=count, largest=largest)
    positions = graph.op("reinterpret", positions, dtype=INT)
    values = as_dtype(graph, from_rows(graph, values, x, dim), x.dtype)
    return [values, from_rows(graph, positions, x, dim)]


@row("topk")
def _topk(
    graph: Ir, results: Results, x: Value, k: int, dim: int = -1, largest: bool = True,
    sorted: bool = True,
) -> list[Value]:  # fmt: skip
    return first_in_order(graph, x, k, dim, largest=largest)


@row("sort")
def _sort(
    graph: Ir, results: Results, x: Value, *arguments: Argument, **options: Argument
) -> list[Value]:
    if "stable" in str(results.node.target):  # the operation is sort(x, stable, dim, descending)
        stable = options.pop("stable", None)
        if stable is None and arguments and not options:
            arguments = arguments[1:]
    dim = options.get("dim", arguments[0] if arguments else -1)
    descending = options.get("descending", arguments[1] if len(arguments) > 1 else False)
    assert isinstance(dim, int), "torch's schema has an int"
    return first_in_order(graph, x, size_along(x, dim), dim, largest=bool(descending))


def _ranked_at(graph: Ir, x: Value, rank: int, dim: int) -> list[Value]:
    """Return [value, position] of the element with the given rank in each row along `dim`.

    Ranks count from 0 in ascending order: the smallest element has rank 0.
    """
    rows = as_rows(graph, numeric(graph, x), dim)
    sorted_values, positions = first_in_order(graph, rows, rank + 1, 1, largest=False)
    return [
        reshape(
            graph, slice_dimension(graph, result, 1, start=rank, end=rank + 1), (rows.shape[0],)
        )
        for result in (sorted_values, positions)
    ]


@row("kthvalue")
def _kthvalue(
    graph: Ir, results: Results, x: Value, k: int, dim: int = -1, keepdim: bool = False
) -> list[Value]:
    return [reshape(graph, v, results.shape) for v in _ranked_at(graph, x, k - 1, dim)]


@row("median")
def _median(
    graph: Ir, results: Results, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value | list[Value]:
    """Return the median: the middle element, or the lower one of the two middle elements.

    If there is a NaN, the median is the first NaN.
    """
    values = reshape(graph, x, (x.size,)) if dim is None else x
    valid_dim = 0 if dim is None else dim
    value, position = _ranked_at(graph, values, (size_along(values, valid_dim) - 1) // 2, valid_dim)
    if x.floating:
        rows = as_rows(graph, values, valid_dim)
        largest = ir.reduced(graph, "reduce_max", rows, [1])  # This is NaN if any element is NaN.
        has_nan = graph.op("is_nan", largest)
        value = graph.op("select", has_nan, largest, value)
        position = graph.op("select", has_nan, _place(graph, "max", rows), position)
    value = reshape(graph, value, results.shape)
    return value if dim is None else [value, reshape(graph, position, results.shape)]


@row("nanmedian")
def _nanmedian(
    graph: Ir, results: Results, x: Value, dim: int | None = None, keepdim: bool = False
) -> Value | list[Value]:
    """Return the median of the elements that are not NaN, or NaN if all elements are NaN.

    The median is the middle element, or the lower one of the two middle elements.
    """
    if not x.floating:
        return _median(graph, results, x, dim, keepdim=keepdim)
    rows = reshape(graph, x, (1, x.size)) if dim is None else as_rows(graph, x, dim)
    # In ascending order, NaNs come last.
    values, positions = first_in_order(graph, rows, rows.shape[1], 1, largest=False)
    is_number = graph.op("logical_not", graph.op("is_nan", rows))
    num_values = ir.reduced(graph, "sum", graph.cast(is_number, INT), [1])
    median_rank = graph.op("max", graph.op("shift_right", graph.op("sub", num_values, 1), 1), 0)
    median_rank = graph.op("reinterpret", median_rank, dtype=UNSIGNED_INT)
    value = reshape(graph, graph.op("pick", values, median_rank), results.shape)
    if dim is None:
        return value
    row_starts = graph.constant(np.arange(rows.shape[0]) * rows.shape[1], UNSIGNED_INT)
    flat_positions = reshape(graph, positions, (x.size, 1))
    position = graph.op("gather", flat_positions, graph.op("add", median_rank, row_starts))
    return [value, reshape(graph, position, results.shape)]


# --- running sums, products and extremes ----------------------------------------------------------


def _cumulative(kind: str) -> Callable[..., Value]:
    """Return the lowering function of a cumulative sum or product; `kind` is "add" or "mul"."""

    def cumulative(graph: Ir, results: Results, x: Value, dim: int, **_: Argument) -> Value:
        dtype = results.dtype
        x = graph.cast(as_dtype(graph, x, dtype), _accumulator(dtype))
        y = ir.running_results(graph, as_rows(graph, x, dim), lambda a, b: graph.op(kind, a, b))
        return graph.cast(from_rows(graph, y, x, dim), dtype)

    return cumulative


def _accumulator(dtype: Kind) -> Kind:
    """Return the dtype for computing cumulative results: FLOAT for HALF, otherwise `dtype`."""
    return FLOAT if is_float(dtype) else dtype


row("cumsum")(_cumulative("add"))
row("cumprod")(_cumulative("mul"))


@row("logcumsumexp")
def _logcumsumexp(graph: Ir, results: Results, x: Value, dim: int) -> Value:
    def combine(a: Value, b: Value) -> Value:
        """Return log(exp(a) + exp(b)), also if a and b are infinite."""
        gap = graph.op("abs", graph.op("sub", a, b))
        tail = graph.op("log1p", graph.op("exp", graph.op("neg", gap)))
        tail = graph.op("select", graph.op("eq", a, b), graph.constant(log(2), a.dtype), tail)
        return graph.op("add", graph.op("max", a, b), tail)

    wide = graph.cast(x, _accumulator(x.dtype))
    y = ir.running_results(graph, as_rows(graph, wide, dim), combine)
    return graph.cast(from_rows(graph, y, x, dim), x.dtype)


def _running_extreme(kind: str) -> Callable[..., list[Value]]:
    """Return the lowering function of a cumulative maximum or minimum; `kind` is "max" or "min".

    The function returns [values, positions]. A position is the index of the last element so far
    that equals the maximum or minimum, or is NaN.
    """

    def extreme(graph: Ir, results: Results, x: Value, dim: int) -> list[Value]:
        dtype = x.dtype
        rows = as_rows(graph, numeric(graph, x), dim)
        values = ir.running_results(
            graph, rows, lambda earlier, later: graph.op(kind, earlier, later)
        )
        is_extreme = graph.op("eq", rows, values)
        if rows.floating:
            is_extreme = graph.op("logical_or", is_extreme, graph.op("is_nan", rows))
        zero = graph.constant(0, INT)
        positions = graph.op("select", is_extreme, at_places(graph, rows.shape, 1), zero)
        positions = ir.running_results(
            graph, positions, lambda earlier, later: graph.op("max", earlier, later)
        )
        values = as_dtype(graph, from_rows(graph, values, x, dim), dtype)
        return [values, from_rows(graph, positions, x, dim)]

    return extreme


row("cummax")(_running_extreme("max"))
row("cummin")(_running_extreme("min"))


@row("searchsorted", "bucketize")
def _searchsorted(
    graph: Ir, results: Results, first: Operand, second: Operand, *, right: bool = False,
    side: str | None = None, sorter: Value | None = None, **_: Argument,
) -> Value:  # fmt: skip
    """Return, for each value, how many of the sorted numbers are less than the value.

    With `right` or the side "right", sorted numbers that equal the value are counted, too.
    """
    is_bucketize = "bucketize" in str(results.node.target)
    operand, sorted_numbers = (first, second) if is_bucketize else (second, first)
    if sorter is not None:
        raise Unfit(
            "the argument sorter is not supported",
            "sort the sequence first: sequence = sequence.gather(-1, sorter).",
        )
    _, dtype = results.promoted()
    values = as_dtype(graph, operand, dtype)
    values = reshape(graph, values, (*values.shape, 1))
    sorted_values = as_dtype(graph, sorted_numbers, dtype)
    if len(sorted_values.shape) > 1:
        sorted_values = reshape(
            graph, sorted_values, (*sorted_values.shape[:-1], 1, sorted_values.shape[-1])
        )
    is_right = right or side == "right"
    # A comparison with NaN is False, so `not (a >= NaN)` is True: all numbers count as less than
    # NaN, as in torch.
    is_below = graph.op(
        "logical_not", graph.op("gt" if is_right else "gteq", sorted_values, values)
    )
    num_below = ir.reduced(graph, "sum", graph.cast(is_below, INT), [len(is_below.shape) - 1])
    return reshape(graph, num_below, results.shape)
