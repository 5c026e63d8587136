"""Convert integers from the host or the device to the unsigned indices that look-ups need.

The host checks the indices that it copies to the device. Indices that the device computes are not
checked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.frontends.ir.values import Ir, Op, Unfit, Value, is_part
from ipu_teach.types import INT, UNSIGNED_INT, Array

VIEWS = ("reshape", "permute", "expand", "slice", "reinterpret", "reverse")


def fed_through(graph: Ir, index: Value) -> Value | None:
    """Return `index` if it is an input, or the input of which it is a view; otherwise None.

    If `index` is a view of a part of an input, such as a column, return this part. A selection that
    replaces the ignored label of a loss by 0 counts as a view of the labels. If the labels are an
    input, the input may then contain the ignored label.
    """
    makers = graph.maker()
    ignored = part = None
    while index in makers:
        op = makers[index]
        if op.kind in VIEWS:
            part = part or (index if is_part(op) else None)
            index = op.inputs[0]
            continue
        compared = makers.get(op.inputs[0]) if op.inputs else None
        is_masked = op.kind == "select" and op.inputs[2].number == 0
        if not (is_masked and compared is not None and compared.kind == "neq"):
            return None
        ignored_number = compared.inputs[1].number
        ignored = None if ignored_number is None else int(ignored_number)
        index = op.inputs[1]
    if index.kind != "input":
        return None
    limited = part or index
    if ignored is not None:
        limited.ignored = ignored
    return limited


def parts_of_inputs(graph: Ir) -> dict[Value, list[tuple[Value, Array]]]:
    """Return a dict that maps each input to the parts of it whose integers have limits.

    Each part is a pair (value of the part, positions of its elements in the flattened input).
    """
    makers = graph.maker()
    parts: dict[Value, list[tuple[Value, Array]]] = {}
    for op in graph.ops:
        if op.kind == "slice" and op.outs[0].below is not None:
            chain = [op]
            while (source := _source(chain[-1])) in makers:
                chain.append(makers[source])
            if source.kind == "input" and all(view.kind in (*VIEWS, "select") for view in chain):
                positions = np.arange(source.size).reshape(source.shape)
                for view in reversed(chain):
                    positions = _viewed(positions, view)
                parts.setdefault(source, []).append((op.outs[0], positions.reshape(-1)))
    return parts


def _source(op: Op) -> Value:
    """Return the value that the result of `op` is a view of."""
    return op.inputs[1 if op.kind == "select" else 0]


def _viewed(array: Array, op: Op) -> Array:
    """Return the elements that the view `op` selects from `array`, the elements of its input."""
    attrs: Any = op.attrs
    view = array
    if op.kind == "slice":
        places = slice(attrs["begin"], attrs["end"], attrs.get("step", 1))
        view = array[(slice(None),) * (attrs["dim"] % array.ndim) + (places,)]
    elif op.kind == "permute":
        view = array.transpose(attrs["dims"])
    elif op.kind == "reverse":
        view = np.flip(array, attrs["dim"])
    elif op.kind == "reshape":
        view = array.reshape(op.outs[0].shape)
    return np.broadcast_to(view, op.outs[0].shape)


def unsigned(graph: Ir, index: Value, size: int, is_subscript: bool = False) -> Value:
    """Return indices into `size` elements as UNSIGNED_INT.

    If `is_subscript` is true, negative indices count from the end.

    :raises Unfit: if the index is a constant that is out of range.
    """
    lowest_index = -size if is_subscript else 0
    if index.kind == "constant" and index.initial is not None:
        index_values = np.asarray(index.initial, np.int64)
        if (
            index_values.size
            and not lowest_index <= index_values.min() <= index_values.max() < size
        ):
            invalid_index = (
                index_values.min() if index_values.min() < lowest_index else index_values.max()
            )
            problem = f"the index {invalid_index} is out of range for {size} elements"
            raise Unfit(problem, f"use indices from {lowest_index} to {size - 1}.")
        return graph.constant(index_values % max(size, 1), UNSIGNED_INT, index.shape)
    fed_input = fed_through(graph, index)
    if fed_input is not None:
        fed_input.from_end = is_subscript and (fed_input.from_end or fed_input.below is None)
        fed_input.below = size if fed_input.below is None else min(size, fed_input.below)
    if index.dtype is not INT:
        return index
    if is_subscript and not _is_counted(graph, index):
        wrapped = graph.op("add", index, size)
        index = graph.op("select", graph.op("lt", index, 0), wrapped, index)
    return graph.op("reinterpret", index, dtype=UNSIGNED_INT)


def _is_counted(graph: Ir, index: Value) -> bool:
    """Return whether the device computed `index` as UNSIGNED_INT, which is never negative."""
    maker = graph.maker().get(index)
    if maker is None or maker.kind != "reinterpret":
        return False
    return maker.inputs[0].dtype is UNSIGNED_INT
