"""Modelled cycles of one vertex.

In this order: the vertex's own `set_perf_estimate`; the estimator registered for its codelet; the codelet's own
`cycles(self, target)`; the operations that were written down when it was traced. Units: worker cycles (a worker issues once
every six tile cycles), for a SupervisorVertex and a MultiVertex tile cycles: of a MultiVertex, six times its slowest worker.

The counts of a trace become cycles like this:

- A vertex costs `VERTEX_OVERHEAD` to start (5: tut5 and tut6 of graphcore/examples guess the same).
- Work on single elements issues one instruction a cycle: each load, each store, each operation of weight 1 is one cycle.
- Work on vectors moves a data path of elements a cycle (2 FLOAT, 4 HALF). Loads and stores go beside the arithmetic (dual
  issue), two loads and one store a cycle (`ld2xst64pace`), so a codelet's vector part takes the longer of the two.
- An operation's weight is its cycles for one data path, from the inner loops of PopLibs' estimators
  (graphcore/poplibs, lib/popops/popopsCycleEstimators.cpp).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.groups import Group
from ipu_teach.compile.trace import Op, Ref, Trace
from ipu_teach.graph.codelets import said_cycles
from ipu_teach.target import Target
from ipu_teach.types import Array

VERTEX_OVERHEAD = 5
UNKNOWN = -1

# (FLOAT, HALF) cycles for one 64-bit data path; PopLibs gives "10@2" for 10 cycles for 2 elements.
_WEIGHTS: dict[str, tuple[float, float]] = {
    "divide": (10, 21), "reciprocal": (6, 15), "sqrt": (10, 23), "exp": (6, 4), "exp2": (6, 4), "log": (12, 4),
    "log1p": (18, 18), "expm1": (8, 20), "tanh": (12, 4), "sin": (4600, 100), "cos": (4600, 100), "tan": (10200, 22800),
    "arcsin": (204, 408), "arctan2": (272, 578), "power": (624, 1300), "remainder": (133, 300), "fmod": (133, 300),
    "floor_divide": (12, 23), "cbrt": (54, 68), "floor": (2, 2), "ceil": (2, 2), "rint": (2, 2), "trunc": (3, 11),
    "sign": (5, 5), "where": (5, 5), "clip": (2, 2),
}  # fmt: skip
# Cycles for one element of an integer type.
_INTEGER_WEIGHTS = {"divide": 277, "floor_divide": 277, "remainder": 292, "power": 32, "sqrt": 110, "sign": 5}
_EACH_WEIGHT = 3  # functions without a row of their own: the three cycles an element of PopLibs' argmax


def trace_cycles(trace: Trace, target: Target) -> int:
    """Worker cycles of one vertex, counted from its trace."""
    loads = stores = vector = scalar = 0.0
    for op in trace.ops:
        if op.kind == "read":
            scalar += 1
        elif op.kind == "store":
            sample = trace.samples[op.args[0].id]
            if sample.ndim == 0:
                scalar += 1
            elif trace.roots[op.args[0].id] in trace.regions:
                stores += _paths(sample, target)
        elif op.kind not in ("region", "view", "local"):
            work = _work(trace, op, target)
            if np.ndim(trace.samples[op.result]) or any(np.ndim(trace.samples[a.id]) for a in op.args if isinstance(a, Ref)):
                vector += work
                loads += sum(_loaded(trace, a, op, target) for a in op.args if isinstance(a, Ref))
            else:
                scalar += work
    return int(VERTEX_OVERHEAD + np.ceil(scalar + max(vector, loads / 2, stores)))


def _paths(sample: Any, target: Target) -> float:
    """Data paths that an array fills: 64-bit loads, stores or operations."""
    sample = np.asarray(sample)
    width = max(1, target.data_path_width // (8 * sample.dtype.itemsize))
    return float(-(-sample.size // width))


def _loaded(trace: Trace, argument: Ref, op: Op, target: Target) -> float:
    if trace.roots[argument.id] not in trace.regions:
        return 0.0
    sample = trace.samples[argument.id]
    times = 1.0
    if op.kind == "product" and np.ndim(sample) < 2 < 2 * np.ndim(sample) and np.ndim(trace.samples[op.result]):
        times = float(np.size(trace.samples[op.result]))  # a vector that meets a matrix is read once for each result
    return _paths(sample, target) * times


def _work(trace: Trace, op: Op, target: Target) -> float:
    """Issue cycles of one operation: data paths (or single elements) times weight."""
    result = np.asarray(trace.samples[op.result])
    name = getattr(op.fn, "__name__", "")
    sources = [np.asarray(trace.samples[a.id]) for a in op.args if isinstance(a, Ref)]
    if op.kind == "product":
        inner = sources[0].shape[-1]
        width = max(1, target.data_path_width // (8 * result.dtype.itemsize))
        return float(result.size * -(-inner // width))
    if op.kind == "each":
        return float(_EACH_WEIGHT * max(s.size for s in sources))
    work = sources[0] if op.kind == "reduce" else result
    if work.ndim == 0:
        return single_cycles(name, work.dtype, target)
    if work.dtype.kind != "f":
        return float(work.size * _INTEGER_WEIGHTS.get(name, 1))
    weight = _WEIGHTS.get(name, (1.0, 1.0))[0 if work.dtype.itemsize >= 4 else 1]
    return float(_paths(work, target) * weight)


def single_cycles(name: str, dtype: Any, target: Target) -> float:
    """Issue cycles of one operation, by numpy's name for it, whose result is a single element of a numpy dtype."""
    if dtype.kind != "f":
        return float(_INTEGER_WEIGHTS.get(name, 1))
    width = max(1, target.data_path_width // (8 * dtype.itemsize))
    return float(max(1.0, _WEIGHTS.get(name, (1.0, 1.0))[0 if dtype.itemsize >= 4 else 1] / width))


def path_cycles(trace: Trace, target: Target) -> int:
    """Worker cycles of a vertex that goes this way through its branches: each branch is one instruction more."""
    return trace_cycles(trace, target) + len(trace.branches)


def depends_on_data(group: Group) -> bool:
    """True if the cycles of a vertex of `group` are known only when it has run."""
    if group.way not in ("fork", "lanes") or group.estimator is not None or hasattr(group.table.codelet, "cycles"):
        return False
    return bool(np.any(group.table.estimates[group.rows] < 0))


def vertex_cycles(group: Group, target: Target, measured: Array | None = None) -> Array:
    """int64, one entry for each vertex of `group`: its modelled cycles, or `UNKNOWN`.

    `measured`: worker cycles of each vertex in one execution, where they depend on data.
    Raises `InvalidPerfEstimateError` if an estimator, or the codelet's own `cycles`, fails or gives no number of cycles.
    """
    given = group.table.estimates[group.rows]
    if np.all(given >= 0):
        return given
    codelet = group.table.codelet
    modelled: int | Array
    said = said_cycles(codelet, group.estimator, group.shapes, target, vertex_name(group.table, int(group.rows[0])))
    if said is not None:
        modelled = said
    elif measured is not None:
        modelled = measured * target.num_worker_contexts if codelet.context == "supervisor" else measured
        modelled = np.where(measured < 0, UNKNOWN, modelled)
    elif group.trace.stopped:
        modelled = UNKNOWN
    elif group.workers:
        # The tile is done when its slowest worker is; a worker issues once in as many cycles as there are workers.
        modelled = len(group.workers) * max(trace_cycles(trace, target) for _, trace in group.workers)
    else:
        modelled = trace_cycles(group.trace, target)
        if codelet.context == "supervisor":
            modelled *= target.num_worker_contexts  # one worker of six does it all
    return np.where(given >= 0, given, modelled)
