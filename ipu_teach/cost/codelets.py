"""Modelled cycles of one vertex.

In this order: the vertex's own `set_perf_estimate`; the estimator registered for its codelet; the codelet's own
`cycles(self, target)`; the operations that were written down when it was traced. Units: worker cycles (a worker issues once
every six tile cycles), for a SupervisorVertex and a MultiVertex tile cycles: of a MultiVertex, six times its slowest worker.

The counts of a trace become cycles by the table in docs/model.md:

- A vertex costs `VERTEX_OVERHEAD` to start (5: tut5 and tut6 of graphcore/examples guess the same).
- Work on single elements issues one instruction a cycle: each load, each store, each operation of weight 1 is one cycle. A
  loop costs nothing more: the chip repeats instructions without a branch (`rpt`), and loads step their own addresses.
- Work on vectors moves a data path of elements a cycle (2 FLOAT, 4 HALF). Loads and stores go beside the arithmetic (dual
  issue), two loads and one store a cycle (`ld2xst64pace`), so a codelet's vector part takes the longer of the two.
- What is more than one instruction costs what the inner loop of PopLibs' vertex does (`vertices.rates`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar.writer import Piece, Rate
from ipu_teach.compile.trace import Op, Ref, Trace
from ipu_teach.cost.vertices.rates import BINARY, UNARY
from ipu_teach.graph.codelets import said_cycles
from ipu_teach.target import Target
from ipu_teach.types import FLOAT, HALF, INT, Array

VERTEX_OVERHEAD = 5
UNKNOWN = -1

# numpy's functions that are more than one instruction, and the operations of PopLibs that they are made of.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "divide": ("DIVIDE",), "reciprocal": ("INVERSE",), "sqrt": ("SQRT",), "exp": ("EXPONENT",), "exp2": ("EXPONENT2",),
    "log": ("LOGARITHM",), "log1p": ("LOGARITHM_ONE_PLUS",), "expm1": ("EXPONENT_MINUS_ONE",), "tanh": ("TANH",),
    "sin": ("SIN",), "cos": ("COS",), "tan": ("TAN",), "arcsin": ("ASIN",), "arctan2": ("ATAN2",), "power": ("POWER",),
    "remainder": ("REMAINDER",), "fmod": ("REMAINDER",), "floor_divide": ("DIVIDE", "FLOOR"),
    "cbrt": ("CBRT",), "floor": ("FLOOR",), "ceil": ("CEIL",), "rint": ("ROUND",), "trunc": ("TRUNC",), "sign": ("SIGNUM",),
}  # fmt: skip
_WHOLE_OPERATIONS = {"divide": "DIVIDE", "floor_divide": "DIVIDE", "remainder": "REMAINDER", "power": "POWER",
                     "sqrt": "SQRT", "sign": "SIGNUM"}  # fmt: skip
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
_SELECT_WEIGHT = 5  # cycles an element of PopLibs' Select, which np.where is
_CLIP_WEIGHT = 2  # a minimum and a maximum, for a data path
_EACH_WEIGHT = 3  # functions without a row of their own: the three cycles an element of PopLibs' argmax


def array_cycles(name: str, dtype: np.dtype[Any], elements: int, target: Target) -> float:
    """Issue cycles of numpy's function `name` for so many elements of `dtype`, side by side in an array.

    PopLibs' loops take two or four elements a turn where the data path holds as many; a wider one would not change those.
    """
    if name == "where":
        return _SELECT_WEIGHT * elements
    if dtype.kind != "f":  # integers have no vectors
        rate = (UNARY | BINARY).get((_WHOLE_OPERATIONS.get(name, ""), INT))
        return elements * (rate.cycles / rate.elements if rate else _CLIP_WEIGHT if name == "clip" else 1)
    paths = -(-elements // _width(dtype, target))
    if name == "clip":
        return _CLIP_WEIGHT * paths
    kind = HALF if dtype.itemsize == 2 else FLOAT
    rates = [(UNARY | BINARY)[op, kind] for op in OPERATIONS.get(name, ())]
    return sum(rate.cycles * (-(-elements // rate.elements) if rate.elements else paths) for rate in rates) or paths


def trace_cycles(trace: Trace, target: Target) -> int:
    """Worker cycles of one vertex, counted from its trace."""
    total = dict.fromkeys(("scalar", "vector", "loads", "stores"), 0.0)
    for counter, _, cycles in charges(trace, target):
        total[counter] += cycles
    return int(VERTEX_OVERHEAD + np.ceil(total["scalar"] + max(total["vector"], total["loads"] / 2, total["stores"])))


def charges(trace: Trace, target: Target) -> Iterator[tuple[str, Op, float]]:
    """What each step of a trace is charged, and on which counter: "scalar", "vector", "loads" or "stores"."""
    for op in trace.ops:
        if op.kind == "read":
            yield "scalar", op, 1.0
        elif op.kind == "store":
            sample = trace.samples[op.args[0].id]
            if sample.ndim == 0:
                yield "scalar", op, 1.0
            elif trace.roots[op.args[0].id] in trace.regions:
                yield "stores", op, _paths(sample, target)
        elif op.kind not in ("region", "view", "local"):
            work = _work(trace, op, target)
            if np.ndim(trace.samples[op.result]) or any(np.ndim(trace.samples[a.id]) for a in op.args if isinstance(a, Ref)):
                yield "vector", op, work
                yield "loads", op, sum(_loaded(trace, a, op, target) for a in op.args if isinstance(a, Ref))
            else:
                yield "scalar", op, work


def _width(dtype: np.dtype[Any], target: Target) -> int:
    """Elements of `dtype` that fill the data path."""
    return max(1, target.data_path_width // (8 * dtype.itemsize))


def _paths(sample: Any, target: Target) -> float:
    """Data paths that an array fills: 64-bit loads, stores or operations."""
    sample = np.asarray(sample)
    return float(-(-sample.size // _width(sample.dtype, target)))


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
    sources = [np.asarray(trace.samples[a.id]) for a in op.args if isinstance(a, Ref)]
    if op.kind == "product":
        return float(result.size * -(-sources[0].shape[-1] // _width(result.dtype, target)))
    name = _name(op)
    if op.kind == "each" and name not in ("power", *_POWERS.values()):
        return float(_EACH_WEIGHT * max(s.size for s in sources))
    work = sources[0] if op.kind == "reduce" else result
    if work.ndim == 0:
        return single_cycles(name, work.dtype, target)
    return array_cycles(name, work.dtype, work.size, target)


def _name(op: Op) -> str:
    """The function of an operation, as numpy calls it. Three powers have instructions of their own."""
    name = str(getattr(op.fn, "__name__", ""))
    if name not in ("pow", "power"):
        return name
    exponent = op.args[1]
    return "power" if isinstance(exponent, Ref) or np.ndim(exponent) else _POWERS.get(exponent, "power")


def single_cycles(name: str, dtype: np.dtype[Any], target: Target) -> float:
    """Issue cycles of one operation, by numpy's name for it, whose result is a single element of a numpy dtype."""
    width = _width(dtype, target)
    return max(1.0, array_cycles(name, dtype, width, target) / width)


UNIT = 16  # of a cycle: scalar loops count in these, so that 5.25 cycles are a whole number


def piece_cycles(piece: Piece, target: Target) -> int:
    """Cycles of a straight piece of a scalar loop, in units of `UNIT`."""
    return sum(
        times * (round(UNIT * single_cycles(name, np.dtype(kind), target)) if name else UNIT)
        for (name, kind, _), times in piece
    )


def rate_cycles(rate: Rate, target: Target) -> list[tuple[int, int]]:
    """Cycles of an operation on a whole region of a scalar loop, in units of `UNIT`: so many for every so many elements."""
    name, dtype = rate[0], np.dtype(rate[1])
    if not name:
        return [(UNIT, _width(dtype, target))]
    if name in ("each", "where"):
        return [(UNIT * (_EACH_WEIGHT if name == "each" else _SELECT_WEIGHT), 1)]
    if name == "clip" and dtype.kind == "f":
        return [(UNIT * _CLIP_WEIGHT, _width(dtype, target))]
    if dtype.kind != "f":
        return [(round(UNIT * single_cycles(name, dtype, target)), 1)]
    kind = HALF if dtype.itemsize == 2 else FLOAT
    rates = [(UNARY | BINARY)[op, kind] for op in OPERATIONS.get(name, ())]
    found = [(round(UNIT * r.cycles), r.elements or _width(dtype, target)) for r in rates]
    return found or [(UNIT, _width(dtype, target))]


def depends_on_data(group: Group) -> bool:
    """True if the cycles of a vertex of `group` are known only when it has run."""
    if group.scalar is None or not group.trace.stopped or group.estimator is not None or hasattr(group.table.codelet, "cycles"):
        return False
    return bool(np.any(group.table.estimates[group.rows] < 0))


def column_of(group: Group, column: Array) -> Array:
    """The entries of a column of the group's table that belong to the group. What is all of it is not copied."""
    return column if len(group.rows) == len(column) else column[group.rows]


def vertex_cycles(group: Group, target: Target, measured: Array | None = None) -> Array:
    """int64, one entry for each vertex of `group`: its modelled cycles, or `UNKNOWN`.

    `measured`: worker cycles of each vertex in one execution, where they depend on data.
    Raises `InvalidPerfEstimateError` if an estimator, or the codelet's own `cycles`, fails or gives no number of cycles.
    """
    given = column_of(group, group.table.estimates)
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
