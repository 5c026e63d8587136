"""Prices (modelled cycles) of LSTM layers, whose program is a loop over the time steps."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.estimate.elements import clear_value, repeated
from ipu_teach.estimate.pricing import Price, Pricer, Split
from ipu_teach.frontends.ir.values import Op, Value
from ipu_teach.poplibs.poplin import plan_mat_mul
from ipu_teach.poplibs.popnn.recurrent import GRAIN
from ipu_teach.poplibs.popops.reduction_plan import share_of
from ipu_teach.types import INT

COUNTER = Value((), INT)


def lstm(pricer: Pricer, op: Op) -> None:
    """Add the cycles of an LSTM layer's forward pass, but not those of saving tensors."""
    x, _, r, bias, _, cell = op.inputs
    steps, _, width = x.shape
    pricer.moved(x)
    pricer.moved(cell)
    clear_value(pricer, op.outs[0])
    with repeated(pricer, steps):
        _slice(pricer, x, steps)
        _product(pricer, cell, r, width + r.shape[1])
        gates, cells, three = (_several(pricer, op, count) for count in (4, 2, 3))
        _gather(pricer, gates)
        pricer.elementwise("ADD", gates, bias)
        _activation(pricer, "SIGMOID", three)
        _activation(pricer, "TANH", cell)
        _binary(pricer, "MULTIPLY", cells)
        _binary(pricer, "ADD", cell)
        _activation(pricer, "TANH", cell)
        _binary(pricer, "MULTIPLY", cell)
        pricer.superstep(pricer.elements(cell) * cell.dtype.size)
        _slice(pricer, op.outs[0], steps)
        _binary(pricer, "ADD", COUNTER)


def lstm_grad(pricer: Pricer, op: Op) -> None:
    """Add the cycles of an LSTM layer's backward pass, and those for the saved tensors."""
    _, _, r, _, _, cell, outputs, saved, *_ = op.inputs
    gates = op.outs[0]
    steps = outputs.shape[0]
    for value in (saved, gates):
        clear_value(pricer, value)
    for value in (r, outputs, cell, cell):
        pricer.moved(value)
    with repeated(pricer, steps):
        for value in (saved, saved, outputs, gates):
            _slice(pricer, value, steps)
        for count in (2, 4):
            _binary(pricer, "MULTIPLY", _several(pricer, op, count))
            _binary(pricer, "ADD", cell)
        for kind, count in (("TANH", 1), ("SIGMOID", 1), ("SIGMOID", 2), ("TANH", 1)):
            _activation(pricer, kind, _several(pricer, op, count), "_grad")
        _product(pricer, cell, r, r.shape[0])
        _gather(pricer, cell)
        _binary(pricer, "ADD", COUNTER)


def _several(pricer: Pricer, op: Op, count: int) -> Value:
    """Return a value for `count` tensors [batch, hidden], which `popnn` distributes in grains."""
    cell = op.inputs[5]
    batch, hidden = cell.shape
    value = Value((count * batch, hidden), cell.dtype)
    pricer.splits[value] = Split(min(pricer.tiles, batch * ceil(hidden / GRAIN)), 1, op)
    return value


def _binary(pricer: Pricer, name: str, value: Value) -> None:
    """Add the cycles of an operation on `value` and another value with the same tile mapping."""
    pricer.elementwise(name, value, value)


def _gather(pricer: Pricer, value: Value) -> None:
    """Add the cycles of copying `value`, a product, from the tiles that have computed its sums.

    A tile receives a contiguous piece from each of these tiles.
    """
    count, target = pricer.elements(value), pricer.target
    pieces = ceil(count / share_of(value.size, value.dtype, target))
    size = count * value.dtype.size
    cycles, _ = copy_cycles(np.array(pieces), np.array(size), target)
    pricer.superstep(float(cycles), size)


def _slice(pricer: Pricer, value: Value, steps: int) -> None:
    """Add the cycles of reading or writing one step of `value` [steps, …]."""
    step = Value(value.shape[1:], value.dtype)
    count = pricer.elements(step)
    cycles = vertices.dynamic_slice_1d(count, 1, value.dtype, pricer.target)
    pricer.superstep(float(cycles), 4)


def _activation(pricer: Pricer, kind: str, value: Value, suffix: str = "") -> None:
    """Add the cycles of an activation or, with the suffix "_grad", of its gradient."""
    vertex = vertices.non_linearity_grad_1d if suffix else vertices.non_linearity_1d
    pricer.superstep(float(vertex(kind, pricer.elements(value), value.dtype, pricer.target)))


def _product(pricer: Pricer, cell: Value, r: Value, inner: int) -> None:
    """Add the cycles of one step's product of [batch, inner] and the weights.

    The weights are those of all gates, or in the backward pass their transpose. `popnn.lstm` swaps
    the operands if this is faster.
    """
    batch, hidden = cell.shape
    columns = hidden if inner == r.shape[0] else r.shape[0]
    plans = [
        plan_mat_mul(*shape, pricer.target, dtype=cell.dtype, options=pricer.options)
        for shape in ((batch, inner, columns), (columns, inner, batch))
    ]
    pricer.product(min(plans, key=lambda plan: plan.cycles))


PRICES: Mapping[str, Price] = {"lstm": lstm, "lstm_grad": lstm_grad}
