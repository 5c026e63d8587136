# %% given
"""Mistakes of lesson 13 written otherwise."""

import numpy as np

from ipu_teach.frontends import ir
from ipu_teach.poplibs import popops
from ipu_teach.poplibs.popops import expr


# %% 13.1: counted, without replicas
# like: without replicas
def samples(batch, iterations, accumulation, replicas, stages, training):
    count = 0
    for _ in range(iterations):
        count += batch * accumulation if training else batch
    return count


# %% 13.1: a product of all
# like: inference accumulates
def samples(batch, iterations, accumulation, replicas, stages, training):
    return int(np.prod([batch, iterations, accumulation, replicas]))


# %% 13.1: by hand, stages as well
# like: stages count
def samples(batch, iterations, accumulation, replicas, stages, training):
    each = batch * stages * replicas * iterations
    return each * accumulation if training else each


# %% 13.3: rounded up
# like: the first of each n
def comes_back(mode, n, batch, micro, replicas, training):
    every = {"All": 1, "EveryN": n, "Default": micro if training else 1}.get(mode, micro)
    count = len(range(0, micro, every)) * replicas
    return batch * count, count


# %% 13.3: always all by default
# like: default is all
def comes_back(mode, n, batch, micro, replicas, training):
    losses = replicas
    if mode in ("All", "Default"):
        losses *= micro
    if mode == "EveryN":
        losses *= micro // n
    return losses * batch, losses


# %% 13.3: replicas are forgotten
# like: one for all replicas
def comes_back(mode, n, batch, micro, replicas, training):
    every = {"All": 1, "EveryN": n, "Default": micro if training else 1}.get(mode, micro)
    return batch * (micro // every), micro // every


# %% 13.4: below and above changed
# like: the slope above
def leaky(low, x, slope, g=None):
    of = [x] if g is None else [x, g]
    value = expr._1 if g is None else expr._2
    return low.call(popops.map, expr.Select(value, slope * value, expr._1 <= 0), of)


# %% 13.4: a library's relu
# like: nothing below
def leaky(low, x, slope, g=None):
    if g is None:
        return low.call(popops.map, expr.Max(expr._1, 0), [x])
    return low.call(popops.map, expr.Select(expr._2, 0.0, expr._1 > 0), [x, g])


# %% 13.4: less than nothing
# like: g at zero
def leaky(low, x, slope, g=None):
    value, of = (expr._1, [x]) if g is None else (expr._2, [x, g])
    return low.call(popops.map, expr.Select(slope * value, value, expr._1 < 0), of)


# %% 13.4: 0.1 is what one takes
# like: one slope for all
def leaky(low, x, slope, g=None):
    slope = 0.1
    if g is None:
        return low.call(popops.map, expr.Select(expr._1, slope * expr._1, expr._1 > 0), [x])
    return low.call(popops.map, expr.Select(expr._2, slope * expr._2, expr._1 > 0), [x, g])


# %% 13.5: a list that nobody reads
# like: always anew
def run_for(cache, make, batch, iterations, rate, weights):
    cache[len(cache)] = make(batch, iterations)
    run = cache[len(cache) - 1]
    for name, array in {"rate": rate, **weights}.items():
        run.write(name, array)
    return run


# %% 13.5: a text of all numbers
# like: the rate is in the key
def run_for(cache, make, batch, iterations, rate, weights):
    key = f"{batch}, {iterations}, {rate}"
    run = cache.get(key) or make(batch, iterations)
    cache[key] = run
    for name, array in {"rate": rate, **weights}.items():
        run.write(name, array)
    return run


# %% 13.5: written by who makes it
# like: written when compiled
def run_for(cache, make, batch, iterations, rate, weights):
    run = cache.get((batch, iterations))
    if run is None:
        run = make(batch, iterations)
        for name, array in {"rate": rate, **weights}.items():
            run.write(name, array)
    cache[batch, iterations] = run
    return run


# %% 13.6: sets, with gradients
# like: gradients as well
def kept(graph):
    maker = graph.maker()

    def source(value):
        op = maker.get(value)
        return source(op.inputs[0]) if op and ir.OPS[op.kind].view else value

    read = {source(v) for op in graph.ops if op.part == "backward" for v in op.inputs}
    return {v.name: v.size * v.dtype.size for v in read if v in maker}


# %% 13.6: sets, with views
# like: views count
def kept(graph):
    read = {v for op in graph.ops if op.part == "backward" for v in op.inputs}
    made = {v for op in graph.ops if op.part == "forward" for v in op.outs}
    return {v.name: v.size * v.dtype.size for v in read & made}


# %% 13.6: no view is looked at
# like: views are left out
def kept(graph):
    read = {v for op in graph.ops if op.part == "backward" for v in op.inputs}
    plain = [op for op in graph.ops if op.part == "forward" and not ir.OPS[op.kind].view]
    return {v.name: v.size * v.dtype.size for op in plain for v in op.outs if v in read}


# %% 13.6: floats alone
# like: four bytes each
def kept(graph):
    whose = {}
    for op in graph.ops:
        for value in op.outs:
            whose[value] = whose.get(op.inputs[0]) if ir.OPS[op.kind].view else value
    first = [op for op in graph.ops if op.part == "forward"]
    later = [op for op in graph.ops if op.part == "backward"]
    read = {whose.get(v) for op in later for v in op.inputs}
    return {v.name: 4 * v.size for op in first for v in op.outs if v in read}
