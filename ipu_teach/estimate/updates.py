"""Prices (modelled cycles) of optimisers, and of exchanges between replicas."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

import numpy as np

from ipu_teach.cost import vertices
from ipu_teach.cost.exchange import exchange_cycles
from ipu_teach.cost.rearrange import copy_cycles
from ipu_teach.estimate.pricing import Price, Pricer
from ipu_teach.estimate.result import COLLECTIVES
from ipu_teach.frontends.ir.values import Op
from ipu_teach.poplibs.popops import expr
from ipu_teach.types import FLOAT


def sgd(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a step of gradient descent, which is one expression."""
    weights, gradient, rate = op.inputs[:3]
    _place_state(pricer, op)
    values = weights, gradient, rate
    if op.attrs.get("weight_decay"):
        pricer.map(lambda w, g, rate: w - rate * (g + 0.1 * w), weights.dtype, *values)
    else:
        pricer.map(lambda w, g, rate: w - rate * g, weights.dtype, *values)


def momentum(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a step with momentum, which computes the velocity, then the parameter."""
    weights, gradient, rate, velocity = op.inputs[:4]
    decayed = bool(op.attrs.get("weight_decay"))
    _place_state(pricer, op)
    values = (velocity, gradient, *((weights,) if decayed else ()))
    pricer.map(_velocity, FLOAT, *values)
    pricer.map(lambda w, v, rate: w - rate * v, weights.dtype, weights, velocity, rate)


def _velocity(v: expr.Expr, g: expr.Expr, *w: expr.Expr) -> expr.ExprLike:
    return v * 0.9 + (g + 0.1 * w[0] if w else g)


def adam(pricer: Pricer, op: Op) -> None:
    """Add the cycles of an Adam step: step number, two means, two or three factors, parameter."""
    weights, gradient, rate, first, second = op.inputs[:5]
    decoupled = op.kind == "adamw"
    decayed = bool(op.attrs.get("weight_decay")) and not decoupled
    _place_state(pricer, op)
    values = (gradient, *((weights,) if decayed else ()))
    pricer.scalar(lambda n: n + 1.0, 1)
    pricer.map(_mean, FLOAT, first, *values)
    pricer.map(_square, FLOAT, second, *values)
    pricer.scalar(lambda rate, n: rate / -expr.Expm1(n * 0.1), 2)
    pricer.scalar(lambda n: expr.Sqrt(-expr.Expm1(n * 0.1)), 1)
    if decoupled:
        pricer.scalar(lambda rate: 1 - rate * 0.1, 1)
    factors = [rate] * (3 if decoupled else 2)
    pricer.map(_moved, weights.dtype, weights, first, second, *factors)


def _mean(m: expr.Expr, g: expr.Expr, *w: expr.Expr) -> expr.ExprLike:
    return m + 0.1 * ((g + 0.1 * w[0] if w else g) - m)


def _square(v: expr.Expr, g: expr.Expr, *w: expr.Expr) -> expr.ExprLike:
    total = g + 0.1 * w[0] if w else g
    return v * 0.9 + 0.1 * (total * total)


def _moved(
    w: expr.Expr, m: expr.Expr, v: expr.Expr, length: expr.Expr, root: expr.Expr, *decay: expr.Expr
) -> expr.ExprLike:
    moved = w * decay[0] if decay else w * 1.0
    return moved - length * m / (expr.Sqrt(v) / root + 1e-8)


def lars(pricer: Pricer, op: Op) -> None:
    """Add the cycles of a LARS step: two norms at once, the trust ratio, then a momentum step."""
    pricer.reduce(op.inputs[0], 1, "SQUARE_ADD", FLOAT, count=2)
    pricer.scalar(_trust, 3)
    momentum(pricer, op)


def _trust(rate: expr.Expr, w: expr.Expr, g: expr.Expr) -> expr.ExprLike:
    w, g = expr.Sqrt(w), expr.Sqrt(g)
    ratio = 0.1 * w / (g + 0.1 * w + 1e-8)
    return rate * expr.Select(ratio, 1.0, expr.And(w > 0.0, g > 0.0))


def _place_state(pricer: Pricer, op: Op) -> None:
    """Give the state of an optimiser the partition of its parameter."""
    weights = op.inputs[0]
    if weights in pricer.splits:
        for value in op.inputs[3:]:
            pricer.splits[value] = pricer.splits[weights]


# --- replicas -------------------------------------------------------------------------------------


def collective(pricer: Pricer, op: Op) -> None:
    """Add the cycles of an all-reduce, a reduce-scatter or an all-gather, round by round."""
    links = pricer.replicas
    if links.replicas < 2:
        return
    num_bytes = sum(value.size * value.dtype.size for value in op.inputs)
    if op.kind != "all_gather":
        for cycles, paths in links.rounds(num_bytes, False):
            _round(pricer, num_bytes, cycles)
            gather, count = _gathered(pricer, op, links.replicas)
            dtype = op.inputs[0].dtype
            total = float(vertices.binary_op_1d("ADD", count, dtype, pricer.target))
            for _ in range(paths):
                pricer.superstep(gather + total)
    if op.kind != "reduce_scatter":
        parts = links.replicas if op.kind == "all_reduce" else 1
        for cycles, paths in links.rounds(num_bytes * links.replicas // parts, True):
            _round(pricer, num_bytes * links.replicas // parts, cycles)
            pricer.line.vertices += paths * _gathered(pricer, op, parts)[0]
    if op.attrs.get("op") == "MEAN":
        count = _gathered(pricer, op, links.replicas)[1]
        dtype = op.inputs[0].dtype
        mean = vertices.broadcast_scalar_1d("MULTIPLY", count, dtype, pricer.target)
        pricer.superstep(float(mean))


def _gathered(pricer: Pricer, op: Op, parts: int) -> tuple[float, int]:
    """Return (cycles, elements) of the copies in which a tile collects a chunk of the inputs.

    A tile's elements are divided into `parts` chunks. The elements of a matrix's gradient are not
    in the same memory order as those of the parameter, so each element counts as a separate piece.
    """
    count = ceil(sum(value.size for value in op.inputs) / pricer.tiles / parts)
    vectors = sum(value.size for value in op.inputs if len(value.shape) < 2)
    pieces = max(1, count - ceil(vectors / pricer.tiles / parts))
    size = np.array(count * op.inputs[0].dtype.size)
    cycles, _ = copy_cycles(np.array(pieces), size, pricer.target)
    return float(cycles), count


def _round(pricer: Pricer, num_bytes: int, cycles: int) -> None:
    """Add the cycles of a round: a sync, `cycles` on the links, and an exchange on each IPU."""
    links, line = pricer.replicas, pricer.line
    line.supersteps += 1
    line.sync += links.sync
    line.links += cycles
    received = ceil(num_bytes / links.replicas / pricer.tiles)
    line.exchange += pricer.latency + float(exchange_cycles(received, pricer.target))


def own_share(pricer: Pricer, op: Op) -> None:
    """Add the cycles of copying the part of a parameter that a replica updates."""
    pricer.moved(op.outs[0])


PRICES: Mapping[str, Price] = {
    "sgd": sgd,
    "momentum": momentum,
    "adam": adam,
    "adamw": adam,
    "lars": lars,
    **dict.fromkeys(COLLECTIVES, collective),
    "own_share": own_share,
}
