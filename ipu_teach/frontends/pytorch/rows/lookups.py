"""Lowering functions of look-ups by index: gather, scatter and embeddings.

The operations of `frontends.ir` take unsigned indices. In torch, negative indices are allowed only
in subscripts (`x[index]`, `x[index] = y`) and in `take` and `put_`, where they count from the end.
The host checks the indices that it copies to the device. Indices that the device computes are not
checked.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ipu_teach.frontends.ir import Ir, Unfit, Value
from ipu_teach.frontends.ir.dimensions import move_dimension, permute
from ipu_teach.frontends.ir.indices import unsigned as as_unsigned
from ipu_teach.frontends.pytorch.rows.integers import _floored
from ipu_teach.frontends.pytorch.rows.registry import (
    Argument,
    Ints,
    Operand,
    Results,
    along_axis,
    as_dtype,
    concatenate,
    expand,
    first_elements,
    reshape,
    row,
)
from ipu_teach.types import BOOL, FLOAT, INT, UNSIGNED_INT

MASKS = Unfit(
    "the index is a mask, so the size of the result depends on the mask's values",
    "keep all elements, and set the others to 0: torch.where(mask, x, 0).",
)


# --- indices --------------------------------------------------------------------------------------


def unsigned(graph: Ir, index: Value, size: int, is_subscript: bool = False) -> Value:
    """Return indices into `size` elements as UNSIGNED_INT.

    If `is_subscript` is true, negative indices count from the end.

    :raises Unfit: if the index is a mask, or a constant that is out of range.
    """
    if index.dtype is BOOL:
        raise MASKS
    return as_unsigned(graph, index, size, is_subscript)


def linear(graph: Ir, indices: Sequence[Value], sizes: Ints, is_subscript: bool = True) -> Value:
    """Return the indices into a flattened tensor for indices along each of its dimensions.

    `indices` contains a value with indices for each dimension, and `sizes` the lengths of the
    dimensions. If `is_subscript` is true, negative indices count from the end.
    """
    linear_index: Value | None = None
    for index, size in zip(indices, sizes, strict=True):
        dim_index = unsigned(graph, index, size, is_subscript)
        linear_index = (
            dim_index
            if linear_index is None
            else graph.op("add", graph.op("mul", linear_index, size), dim_index)
        )
    assert linear_index is not None, "at least one index"
    return linear_index


def _element_places(graph: Ir, x: Value, dim: int, index: Value) -> Value:
    """Return the positions in the flattened `x` of the elements that torch.gather reads."""
    rank = len(x.shape)
    indices = [
        index if axis == dim % rank else _constant_places(graph, index.shape, axis)
        for axis in range(rank)
    ]
    return reshape(graph, linear(graph, indices, x.shape, is_subscript=False), (index.size,))


def _constant_places(graph: Ir, shape: Ints, dim: int) -> Value:
    """Return a constant UNSIGNED_INT value: the index of each element along `dim`."""
    positions = np.broadcast_to(along_axis(np.arange(shape[dim]), len(shape), dim), shape)
    return graph.constant(positions, UNSIGNED_INT)


def _at_least_1d(graph: Ir, *values: Value) -> list[Value]:
    """Return the values; each scalar is reshaped to [1]."""
    return [value if value.shape else reshape(graph, value, (1,)) for value in values]


def _column(graph: Ir, x: Value) -> Value:
    """Return `x` as [elements, 1]."""
    return reshape(graph, x, (x.size, 1))


# --- gathering ------------------------------------------------------------------------------------


@row("gather", moves=True)
def _gather(
    graph: Ir, results: Results, x: Value, dim: int, index: Value, sparse_grad: bool = False
) -> Value:
    if not index.size:
        return graph.constant(0, x.dtype, results.shape)
    x, index = _at_least_1d(graph, x, index)
    is_column = len(x.shape) == 2 and dim % 2 == 1 and index.shape == (x.shape[0], 1)
    if is_column and x.floating:
        columns = unsigned(graph, reshape(graph, index, (x.shape[0],)), x.shape[1])
        return reshape(graph, graph.op("pick", x, columns), results.shape)
    y = graph.op("gather", _column(graph, x), _element_places(graph, x, dim, index))
    return reshape(graph, y, results.shape)


@row("index_select", moves=True)
def _index_select(graph: Ir, results: Results, x: Value, dim: int, index: Value) -> Value:
    x, index = _at_least_1d(graph, x, index)
    y = graph.op("gather", move_dimension(graph, x, dim, 0), unsigned(graph, index, x.shape[dim]))
    return reshape(graph, move_dimension(graph, y, 0, dim), results.shape)


@row("embedding", moves=True)
def _embedding(graph: Ir, results: Results, table: Value, index: Value, *_: Argument) -> Value:
    return graph.op("gather", table, unsigned(graph, index, table.shape[0]))


@row("take", moves=True)
def _take(graph: Ir, results: Results, x: Value, index: Value) -> Value:
    return graph.op("gather", reshape(graph, x, (x.size,)), unsigned(graph, index, x.size, True))


class Subscript:
    """The indices of a subscript such as `x[i, :, j]`, combined into a single index.

    The indexed dimensions of x have an index, such as 0 and 2 in `x[i, :, j]`.

    - `order`: the dimensions of x, with the indexed dimensions first.
    - `front`: x with its dimensions in this order.
    - `place`: the combined index. It counts the elements of the flattened indexed dimensions.
    - `rest`: the lengths of the dimensions without an index.
    - `rows`: x as [elements of the indexed dimensions, *rest].
    - `lead`: the number of dimensions of torch's result in front of the dimensions of the index.
    - `back`: the order of dimensions that turns [*place.shape, *rest] into torch's result.
    """

    def __init__(self, graph: Ir, x: Value, indices: Sequence[Value | None]) -> None:
        given_indices = [index_value for index_value in indices if index_value is not None]
        if any(index_value.dtype is BOOL for index_value in given_indices):
            raise MASKS
        shape = np.broadcast_shapes(*(index_value.shape for index_value in given_indices))
        expanded = [expand(graph, index_value, shape) for index_value in given_indices]
        dims = [dim for dim, index_value in enumerate(indices) if index_value is not None]
        is_contiguous = dims == [*range(dims[0], dims[0] + len(dims))]
        self.order = [*dims, *(dim for dim in range(len(x.shape)) if dim not in dims)]
        self.front = permute(graph, x, self.order)
        self.place = linear(graph, expanded, [x.shape[dim] for dim in dims])
        self.rest = self.front.shape[len(dims) :]
        self.rows = reshape(
            graph, self.front, (int(np.prod([x.shape[dim] for dim in dims])), *self.rest)
        )
        # In torch's result, the index's dimensions come first if the indexed dimensions of x are
        # not adjacent.
        self.lead = dims[0] if is_contiguous else 0
        rank = len(shape)
        self.back = [
            *range(rank, rank + self.lead), *range(rank),
            *range(rank + self.lead, rank + len(self.rest)),
        ]  # fmt: skip

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of `x[i, :, j]` in torch, for the indices of this subscript."""
        shape = (*self.place.shape, *self.rest)
        return tuple(shape[d] for d in self.back)


@row("index", "_unsafe_index", moves=True)
def _index(graph: Ir, results: Results, x: Value, indices: Sequence[Value | None]) -> Value:
    subscript = Subscript(graph, x, indices)
    y = graph.op("gather", subscript.rows, subscript.place)
    return permute(graph, y, subscript.back) if subscript.lead else y


# --- scattering -----------------------------------------------------------------------------------


@row("index_put", "_unsafe_index_put")
def _index_put(
    graph: Ir, results: Results, x: Value, indices: Sequence[Value | None], values: Value,
    accumulate: bool = False, unsafe: bool = False,
) -> Value:  # fmt: skip
    values = as_dtype(graph, values, x.dtype)
    masks = [index_value for index_value in indices if index_value is not None]
    if masks[0].dtype is BOOL:
        return _masked_put(graph, x, indices, values, accumulate=accumulate)
    subscript = Subscript(graph, x, indices)
    if not subscript.place.size or not x.size:
        return x
    values = expand(graph, values, subscript.shape)
    values = permute(graph, values, [int(dim) for dim in np.argsort(subscript.back)])
    kind = "scatter_add" if accumulate else "scatter_set"
    y = graph.op(kind, subscript.rows, subscript.place, values)
    y = reshape(graph, y, subscript.front.shape)
    return permute(graph, y, [int(dim) for dim in np.argsort(subscript.order)])


@row("put")
def _put(
    graph: Ir, results: Results, x: Value, index: Value, source: Value, accumulate: bool = False
) -> Value:
    """Return `x` with `source` written to the positions `index` of the flattened `x`.

    With `accumulate`, `source` is added to the old elements instead.
    """
    if not index.size:
        return x
    positions = reshape(graph, unsigned(graph, index, x.size, is_subscript=True), (index.size,))
    kind = "scatter_add" if accumulate else "scatter_set"
    return reshape(
        graph, graph.op(kind, _column(graph, x), positions, _column(graph, source)), x.shape
    )


def _masked_put(
    graph: Ir, x: Value, indices: Sequence[Value | None], values: Value, *, accumulate: bool
) -> Value:
    """Return the result of `x[mask] = number`, where `mask` masks the first dimensions of x.

    :raises Unfit: if there are several indices, or if `values` has several elements.
    """
    mask = indices[0]
    if mask is None or len(indices) > 1 or values.size != 1:
        raise MASKS
    mask = reshape(graph, mask, (*mask.shape, *(1,) * (len(x.shape) - len(mask.shape))))
    new_value = reshape(graph, values, ())
    result = graph.op("add", x, new_value) if accumulate else new_value
    return graph.op("select", expand(graph, mask, x.shape), result, x)


def _source(graph: Ir, source: Operand, x: Value, index: Value) -> Value:
    """Return the elements that a scatter writes, in the shape of `index` and the dtype of `x`.

    If `source` is a tensor, the scatter writes its first elements along each dimension. If `source`
    is a number, all written elements equal this number.
    """
    if not isinstance(source, Value):
        return graph.constant(as_dtype(graph, source, x.dtype).number, x.dtype, index.shape)
    source = as_dtype(graph, source, x.dtype)
    return first_elements(
        graph, reshape(graph, source, (1,)) if not source.shape else source, index.shape
    )


@row("scatter")
def _scatter(
    graph: Ir, results: Results, x: Value, dim: int, index: Value, source: Operand,
    reduce: str | None = None,
) -> Value:  # fmt: skip
    if reduce == "add":
        return _scatter_add(graph, results, x, dim=dim, index=index, source=source)
    if not index.size or not x.size:
        return x
    x, index = _at_least_1d(graph, x, index)
    source = _source(graph, source, x, index)
    if reduce is not None:
        factors = _factors(graph, x, index, source=source, dim=dim)
        return reshape(graph, graph.op("mul", x, factors), results.shape)
    if _is_one_per_row(x, index, dim):
        y = _written_once(graph, x, index, source=source, dim=dim)
    else:
        rows = _column(graph, x)
        places = _element_places(graph, x, dim, index)
        y = graph.op("scatter_set", rows, places, _column(graph, source))
    return reshape(graph, y, results.shape)


def _is_one_per_row(x: Value, index: Value, dim: int) -> bool:
    """Return whether a scatter along `dim` writes exactly one element of each row of `x`."""
    expected_shape = [
        size if axis != dim % len(x.shape) else 1 for axis, size in enumerate(x.shape)
    ]
    return list(index.shape) == expected_shape


def _written_once(graph: Ir, x: Value, index: Value, source: Value, dim: int) -> Value:
    """Return `x` with the element at `index` replaced by `source`, in each row along `dim`.

    `index` selects one element in each row. Each position is compared with the index, so that no
    element has to be sent to another tile.
    """
    positions = np.arange(x.shape[dim])
    position_grid = np.broadcast_to(along_axis(positions, len(x.shape), dim), x.shape)
    written_positions = expand(graph, unsigned(graph, index, x.shape[dim]), x.shape)
    is_written = graph.op("eq", graph.constant(position_grid, UNSIGNED_INT), written_positions)
    return graph.op("select", is_written, expand(graph, source, x.shape), x)


@row("scatter_add")
def _scatter_add(
    graph: Ir, results: Results, x: Value, dim: int, index: Value, source: Operand
) -> Value:
    if not index.size or not x.size:
        return x
    x, index = _at_least_1d(graph, x, index)
    updates = _column(graph, _source(graph, source, x, index))
    element_places = _element_places(graph, x, dim, index)
    return reshape(graph, _added(graph, _column(graph, x), element_places, updates), results.shape)


def _added(graph: Ir, rows: Value, places: Value, updates: Value) -> Value:
    """Return `rows` with `updates` added at the row numbers `places`.

    :raises Unfit: if the dtype is BOOL.
    """
    if rows.dtype is BOOL:
        raise Unfit(
            "the device does not add booleans to a tensor",
            "convert them with x.int(), and compare the result with 0.",
        )
    return graph.op("scatter_add", rows, places, updates)


@row("index_add")
def _index_add(
    graph: Ir, results: Results, x: Value, dim: int, index: Value, source: Value, alpha: float = 1
) -> Value:
    if not index.size or not x.size:
        return x
    x, index, source = _at_least_1d(graph, x, index, source)
    source = source if alpha == 1 else graph.op("mul", source, alpha)
    row_numbers = unsigned(graph, index, x.shape[dim])
    updates = move_dimension(graph, source, dim, 0)
    y = move_dimension(
        graph, _added(graph, move_dimension(graph, x, dim, 0), row_numbers, updates), 0, dim
    )
    return reshape(graph, y, results.shape)


@row("scatter_reduce")
def _scatter_reduce(
    graph: Ir, results: Results, x: Value, dim: int, index: Value, source: Value, reduce: str,
    include_self: bool = True,
) -> Value:  # fmt: skip
    if not index.size or not x.size:
        return x
    x, index = _at_least_1d(graph, x, index)
    element_places = _element_places(graph, x, dim, index)
    rows = _column(graph, x)
    updates = _column(graph, _source(graph, source, x, index))
    ones = graph.constant(1.0, FLOAT, (index.size, 1))
    num_updates = graph.op(
        "scatter_add", graph.constant(0.0, FLOAT, rows.shape), element_places, ones
    )
    if reduce in ("sum", "mean"):
        initial_values = _initial_values(
            graph, num_updates, rows, otherwise=0, include_self=include_self
        )
        y = _added(graph, initial_values, element_places, updates)
        if reduce == "mean":
            num_updates = (
                graph.op("add", num_updates, 1.0)
                if include_self
                else graph.op("max", num_updates, 1.0)
            )
            num_updates = graph.cast(num_updates, x.dtype)
            y = graph.op("div", y, num_updates) if x.floating else _floored(graph, y, num_updates)
    elif reduce == "prod":
        initial_values = _initial_values(
            graph, num_updates, rows, otherwise=1, include_self=include_self
        )
        factors = _factors(graph, x, index, source=reshape(graph, updates, index.shape), dim=dim)
        y = graph.op("mul", reshape(graph, initial_values, x.shape), factors)
    else:
        if x.dtype is BOOL:
            raise Unfit(
                "the device does not compare booleans by size",
                "convert them with x.int(), and compare the result with 0.",
            )
        lowest_value = -float("inf") if x.floating else -(2**31)
        is_minimum = reduce == "amin"
        if is_minimum:
            rows = _negated(graph, rows)
            updates = _negated(graph, updates)
        initial_values = _initial_values(
            graph, num_updates, rows, otherwise=lowest_value, include_self=include_self
        )
        y = graph.op("scatter_max", initial_values, element_places, updates)
        y = _negated(graph, y) if is_minimum else y
    return reshape(graph, y, results.shape)


def _factors(graph: Ir, x: Value, index: Value, source: Value, dim: int) -> Value:
    """Return, for each element of `x`, the product of the elements of `source` scattered to it.

    Each position along `dim` is compared with all indices of its row. In the product, elements of
    `source` for other positions are replaced by 1.

    :raises Unfit: if the dtype is BOOL.
    """
    if x.dtype is BOOL:
        raise Unfit(
            "the device does not multiply booleans",
            "convert them with x.int(), and compare the result with 0.",
        )
    length = x.shape[dim]
    index = move_dimension(graph, unsigned(graph, index, length), dim, -1)
    source = move_dimension(graph, source, dim, -1)
    shape = (*index.shape[:-1], length, index.shape[-1])
    index, source = (
        expand(graph, reshape(graph, v, (*v.shape[:-1], 1, v.shape[-1])), shape)
        for v in (index, source)
    )
    is_here = graph.op("eq", index, _constant_places(graph, shape, len(shape) - 2))
    one = graph.constant(1, x.dtype)
    factors = graph.op(
        "reduce_prod", graph.op("select", is_here, source, one), dims=[len(shape) - 1]
    )
    factors = move_dimension(graph, factors, -1, dim)
    for axis, size in enumerate(x.shape):  # Elements that x has beyond `factors` get the factor 1.
        margin = (*factors.shape[:axis], size - factors.shape[axis], *factors.shape[axis + 1 :])
        if margin[axis]:
            ones = graph.constant(1, x.dtype, margin)
            factors = concatenate(graph, [factors, ones], axis)
    return factors


@row("index_reduce")
def _index_reduce(
    graph: Ir, results: Results, x: Value, dim: int, index: Value, source: Value, reduce: str,
    include_self: bool = True,
) -> Value:  # fmt: skip
    if not source.size or not x.size:
        return x
    x, index, source = _at_least_1d(graph, x, index, source)
    rank = len(source.shape)
    places = reshape(
        graph, index, [index.size if axis == dim % rank else 1 for axis in range(rank)]
    )
    return _scatter_reduce(
        graph, results, x, dim=dim, index=expand(graph, places, source.shape), source=source,
        reduce=reduce, include_self=include_self,
    )  # fmt: skip


def _negated(graph: Ir, x: Value) -> Value:
    """Return -x for floats and ~x for integers: both reverse the order without overflow."""
    return graph.op("bitwise_not" if x.dtype is INT else "neg", x)


def _initial_values(
    graph: Ir, num_updates: Value, rows: Value, otherwise: float, include_self: bool
) -> Value:
    """Return the elements with which a scatter combines the updates.

    If `include_self` is true, return `rows`, the old elements. Otherwise, replace each element that
    gets an update (`num_updates` is above 0) by the number `otherwise`.
    """
    if include_self:
        return rows
    neutral_value = graph.constant(otherwise, rows.dtype)
    return graph.op("select", graph.op("gt", num_updates, 0.0), neutral_value, rows)
