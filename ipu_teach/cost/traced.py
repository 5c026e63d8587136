"""The modelled cycles of one vertex.

They come from the first of these sources that exists: `set_perf_estimate` for the vertex, an
estimator registered for its codelet, the codelet's method `cycles(self, target)`, and the
operations in the codelet's trace. The unit is worker cycles (a worker issues an instruction once in
six tile cycles). For a SupervisorVertex and a MultiVertex, the unit is tile cycles. A MultiVertex
takes six times the worker cycles of its slowest worker.

The operations in a trace are converted to cycles as in the table in docs/model.md:

- Starting a vertex costs `VERTEX_OVERHEAD` cycles (5: tut5 and tut6 of graphcore/examples guess the
  same). For a SupervisorVertex or a MultiVertex, the supervisor's cycles before and after the
  workers run are added.
- Work on single elements issues one instruction a cycle: each load, each store and each operation
  of weight 1 takes one cycle. A loop adds no cycles, because the chip repeats instructions without
  a branch (`rpt`), and loads advance their own addresses.
- Work on vectors processes as many elements per instruction as fit in the data path (2 FLOAT, 4
  HALF).
- An operation of several instructions costs as much as the inner loop of PopLibs' vertex
  (`vertices.rates`).

`target.codelet_prices` says how the instructions were written.

- "compiled": by a C++ compiler. Loads, arithmetic and stores follow each other, every loop over
  vectors costs `LOOP_START` cycles to start, and arrays that do not fit in the registers are
  written to memory.
- "by hand": loads and stores are issued together with the arithmetic (dual issue), two loads and
  one store a cycle (`ld2xst64pace`). So the work on vectors takes as long as the longest of the
  three. A product and a sum are one instruction if the chip has a fused instruction for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from ipu_teach.compile.checks import vertex_name
from ipu_teach.compile.groups import Group
from ipu_teach.compile.scalar.writer import (
    AGAIN,
    BEYOND,
    COLUMN,
    FUSED,
    LOOP,
    OF_PRODUCT,
    PRODUCT,
    TALL,
    WIDE,
    PricedPiece,
)
from ipu_teach.compile.trace import Op, Ref, Trace, upper
from ipu_teach.cost.symbols import largest
from ipu_teach.cost.vertices.parts import COUNTERS, STARTS, SUPERVISOR_OVERHEAD, WORDS
from ipu_teach.cost.vertices.rates import BINARY, UNARY
from ipu_teach.graph.codelet_registry import said_cycles
from ipu_teach.graph.vertex import Vertex
from ipu_teach.target import BY_HAND, Target
from ipu_teach.types import FLOAT, HALF, INT, Array

VERTEX_OVERHEAD = 5
# In compiled code, `a @ b` takes four instructions for each data path of elements: two loads, a
# product and a sum.
COMPILED_PRODUCT = 4
# The cycles before each loop over vectors. PopLibs' HadamardProd and Select take this number of
# cycles before each region.
LOOP_START = 6
# The number of data paths (of two words each) that fit in a worker's arithmetic registers. These
# are 16 words, without the pair that always reads as zero.
REGISTERS = 7
UNKNOWN = -1
UNIT = 16  # Work is counted in units of 1/16 cycle, so that 5.25 cycles are an integer.

# Maps each function of numpy to the sequence of PopLibs' operations that computes it.
OPERATIONS: dict[str, tuple[str, ...]] = {
    "divide": ("DIVIDE",),
    "reciprocal": ("INVERSE",),
    "sqrt": ("SQRT",),
    "exp": ("EXPONENT",),
    "exp2": ("EXPONENT2",),
    "log": ("LOGARITHM",),
    "log1p": ("LOGARITHM_ONE_PLUS",),
    "expm1": ("EXPONENT_MINUS_ONE",),
    "tanh": ("TANH",),
    "sin": ("SIN",),
    "cos": ("COS",),
    "tan": ("TAN",),
    "arcsin": ("ASIN",),
    "arctan2": ("ATAN2",),
    "power": ("POWER",),
    "remainder": ("REMAINDER",),
    "fmod": ("REMAINDER",),
    "floor_divide": ("DIVIDE", "FLOOR"),
    "cbrt": ("CBRT",),
    "floor": ("FLOOR",),
    "ceil": ("CEIL",),
    "rint": ("ROUND",),
    "trunc": ("TRUNC",),
    "sign": ("SIGNUM",),
}
_WHOLE_OPERATIONS = {
    "divide": "DIVIDE",
    "floor_divide": "DIVIDE",
    "remainder": "REMAINDER",
    "power": "POWER",
    "sqrt": "SQRT",
    "sign": "SIGNUM",
}
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal"}
_CLIP_WEIGHT = 2  # A clip is two instructions for a data path: a minimum and a maximum.
# Cycles for one element. np.where ("where") takes as many as PopLibs' Select, and functions that
# are not listed elsewhere ("each") take as many as PopLibs' argmax.
_EACH = {"where": 5, "each": 3, LOOP: LOOP_START}


# Functions of an n x n matrix cost as much as the loops over single elements in docs/codelets.md.
# `_LOOPS` maps a function to three strings. They list the instructions
# - for each of the n rows;
# - for each of the n (n - 1) / 2 pairs of rows;
# - for each of the n (n * n - 1) / 6 iterations of a loop over the rows after the first of a pair.
# "move" is the load or store of an element, "decide" is a branch that depends on data, and any
# other name is an operation.
_UPDATE = "move move move multiply fused"  # the instructions of m[i, j] -= f * m[k, j]
_SWAP = "move move move move"
# The instructions of Householder reflections, for each column and each further element: `_BELOW`
# for an element below the diagonal, `_BESIDE` for a column to the right, and `_REFLECTION` for an
# element below in a column to the right.
_BELOW = "move multiply fused move divide move move multiply move move"
_BESIDE = "move subtract multiply add move"
_REFLECTION = f"move move multiply fused {_UPDATE}"
# Elimination uses the largest element of each column as its pivot. Each update changes a square of
# elements, whereas `_LOOPS` assumes a triangle. So the innermost loop has twice the iterations that
# `_LOOPS` assumes, minus the number of pairs of rows.
_ELIMINATION = (
    f"move absolute {_SWAP}",
    f"move absolute greater decide {_SWAP} move move divide",
    f"{_UPDATE} {_UPDATE}",
)
_LOOPS: dict[str, tuple[str, str, str]] = {
    "solve": _ELIMINATION,
    # "inv" needs one more move for each row than "solve", to set a column of the identity matrix.
    "inv": (f"{_ELIMINATION[0]} move", *_ELIMINATION[1:]),
    "det": (f"{_ELIMINATION[0]} move equal decide multiply multiply", *_ELIMINATION[1:]),
    "cholesky": ("move sqrt move", "move move divide move move move", _UPDATE),
    # The work for a column of the right-hand side: swapping rows, and solving with two triangular
    # matrices.
    COLUMN: (f"{_SWAP} move move divide move", f"{_UPDATE} {_UPDATE} move", ""),
    # "qr" counts the square part of the matrix, where each column's reflection is applied to the
    # later columns and to the result.
    "qr": (
        "move multiply sqrt greater decide greater decide multiply subtract divide move move"
        " move subtract move",
        f"{_BELOW} {_BESIDE} multiply move",
        f"{_REFLECTION} {_REFLECTION} {_REFLECTION} {_REFLECTION}",
    ),
    # The additional work of "qr" for each further row, if the matrix has more rows than columns.
    TALL: (_BELOW, f"{_REFLECTION} {_REFLECTION}", ""),
    # The additional work of "qr" for each further column, if the matrix has more columns than rows.
    WIDE: (_BESIDE, _REFLECTION, ""),
}


def array_cycles(name: str, dtype: np.dtype[Any], elements: Any, target: Target) -> Any:
    """Return the cycles of numpy's function `name` on a contiguous array, in units of 1/16 cycle.

    `elements` is the number of elements, and `dtype` their type. The result is a `Symbol` if
    `elements` is a `Symbol`. `name` may also be a price name of the module `compile.scalar.writer`,
    such as `LOOP`. An iteration of PopLibs' loops processes two or four elements, as many as fit in
    the IPU's data path. A wider data path would not change these loops.
    """
    elements_per_path = _width(dtype, target)
    by_hand = target.codelet_prices == BY_HAND
    if name in _LOOPS:
        return _dense_cycles(name, dtype, elements, target)
    if name in ((FUSED, BEYOND, LOOP) if by_hand else (AGAIN, OF_PRODUCT)):
        return 0
    if name in _EACH:
        return UNIT * _EACH[name] * _turns(elements, 1)
    num_paths = _turns(elements, elements_per_path)
    if name == BEYOND:
        return UNIT * largest(0, num_paths - REGISTERS)
    if name == PRODUCT:
        return UNIT * (1 if by_hand else COMPILED_PRODUCT) * num_paths
    weight = UNIT * (_CLIP_WEIGHT if name == "clip" else 1)
    # The chip has no vector instructions for integers.
    if dtype.kind != "f" and name not in ("", AGAIN, OF_PRODUCT):
        rate = (UNARY | BINARY).get((_WHOLE_OPERATIONS.get(name, ""), INT))
        return (UNIT * rate.cycles // rate.elements if rate else weight) * _turns(elements, 1)
    poplar_dtype = HALF if dtype.itemsize == 2 else FLOAT
    rates = [(UNARY | BINARY)[op, poplar_dtype] for op in OPERATIONS.get(name, ())]
    operation_cycles = [
        UNIT * r.cycles * _turns(elements, r.elements or elements_per_path) for r in rates
    ]
    return reduce(add, operation_cycles or [weight * num_paths])


def single_cycles(name: str, dtype: np.dtype[Any], target: Target) -> float:
    """Return the worker cycles in which operation `name` is issued for one element of `dtype`."""
    if name in ("", FUSED, LOOP):
        return float(array_cycles(name, dtype, 1, target) / UNIT)
    width = _width(dtype, target)
    return max(1.0, float(array_cycles(name, dtype, width, target) / UNIT / width))


def _dense_cycles(name: str, dtype: np.dtype[Any], n: Any, target: Target) -> Any:
    """Return the cycles of linear algebra on n x n matrices, in units of 1/16 cycle.

    `name` is a key of `_LOOPS`, such as "solve".
    """

    def units(instructions: str) -> int:
        rate_names = {"move": "", "decide": "", "fused": FUSED}
        cycles_of_each = (
            single_cycles(rate_names.get(instruction, instruction), dtype, target)
            for instruction in instructions.split()
        )
        return sum(round(UNIT * cycles) for cycles in cycles_of_each)

    cycles_per_row, cycles_per_pair, cycles_per_triple = map(units, _LOOPS[name])
    # If the innermost loop has two fused operations, the update changes a square of elements, not a
    # triangle.
    if _LOOPS[name][2].count("fused") > 1:
        cycles_per_pair -= cycles_per_triple // 2
    return (
        cycles_per_row * n
        + cycles_per_pair * (n * (n - 1) // 2)
        + cycles_per_triple * (n * (n * n - 1) // 6)
    )


def _turns(elements: Any, width: int) -> Any:
    """Return how many iterations of `width` elements are needed for `elements` elements.

    The last iteration may be partial.
    """
    return (elements + (width - 1)) // width


def _width(dtype: np.dtype[Any], target: Target) -> int:
    """Return how many elements of `dtype` fit in the data path."""
    return max(1, target.data_path_width // (8 * dtype.itemsize))


class Tally:
    """The cycles of a trace's operations, by kind of work.

    `charges` has a tuple (counter, operation, amount) for each operation that takes time: the
    counter of `COUNTERS` to which the operation adds, and the amount in units of 1/16 cycle.
    """

    def __init__(self, trace: Trace, target: Target) -> None:
        self.trace = trace
        self.target = target
        self.by_hand = target.codelet_prices == BY_HAND
        self.charges: list[tuple[str, Op, int]] = []
        self.loops = 0  # The number of completed loops over vectors.
        self.loaded: set[Any] = set()  # The regions that the current loop has loaded.
        # Maps each temporary array to the index of the loop that computes it.
        self.made: dict[int, int] = {}
        self.written: set[int] = set()  # The temporary arrays that were written to memory.
        stored = {trace.roots[op.args[0].id] for op in trace.ops if op.kind == "store"}
        known = {n for n, f in trace.codelet.fields.items() if f.kind == "state" and not f.depth}
        self.constants = {
            root for root, (name, _) in trace.regions.items() if name in known
        } - stored
        self.users = Counter(a.id for op in trace.ops for a in op.args if isinstance(a, Ref))
        self.products = {
            op.result: op for op in trace.ops if op.kind == "ufunc" and _name(op) == "multiply"
        }
        for op in trace.ops:
            self._add(op)

    def _add(self, op: Op) -> None:
        samples = self.trace.samples
        if op.kind == "read":
            constant = self.trace.roots[op.args[0].id] in self.constants
            self._charge("scalar", op, 0 if constant else UNIT)
        elif op.kind == "store":
            into, value = op.args
            sample = samples[into.id]
            if sample.ndim == 0:
                # Memory is written in words, so to store a smaller element, its word must be read
                # first.
                self._charge("scalar", op, UNIT)
                self._charge(WORDS, op, 0 if sample.dtype.itemsize >= 4 else 2 * UNIT)
                return
            if isinstance(value, Ref) and not self.by_hand:
                self._load(value, op)
            outside = self.trace.roots[into.id] in self.trace.regions
            self._spend("stores", op, "" if outside else BEYOND, dtype=sample.dtype, n=sample.size)
            self._end_loop(op)
        elif op.kind not in ("region", "view", "local"):
            self._work(op)

    def _work(self, op: Op) -> None:
        # `upper` returns a part of the array that np.linalg.qr has already computed, so it takes no
        # cycles.
        if op.fn is upper:
            self.made[op.result] = self.loops
            return
        refs = [a for a in op.args if isinstance(a, Ref)]
        sources = [np.asarray(self.trace.samples[a.id]) for a in refs]
        result = np.asarray(self.trace.samples[op.result])
        name = _name(op)
        worked_array = sources[0] if op.kind == "reduce" else result
        if self._fused(op):
            name = FUSED
        elif op.kind == "each" and name not in ("power", *_POWERS.values()):
            name = "each"
            worked_array = max(sources, key=np.size)
        if not result.ndim and not any(source.ndim for source in sources):
            self._charge(
                "scalar", op, round(UNIT * single_cycles(name, worked_array.dtype, self.target))
            )
            return
        if op.kind == "product":
            self._spend(
                "vector", op, PRODUCT, dtype=result.dtype, n=sources[0].shape[-1], times=result.size
            )
        elif op.kind == "dense":
            m, n = sources[0].shape
            linear_algebra = {"solve": (COLUMN, result.size // max(1, n)), "inv": (COLUMN, n)}
            remainder_name, times = linear_algebra.get(
                name, (TALL, m - n) if m > n else (WIDE, n - m)
            )
            self._spend("vector", op, name, dtype=result.dtype, n=min(m, n))
            self._spend("vector", op, remainder_name, dtype=result.dtype, n=min(m, n), times=times)
        else:
            self._spend("vector", op, name, dtype=worked_array.dtype, n=worked_array.size)
        for argument in refs:
            self._load(argument, op)
        if op.kind in ("product", "reduce", "dense", "each"):
            self._end_loop(op, result.size if op.kind == "product" else 1)
        self.made[op.result] = self.loops

    def _load(self, argument: Ref, op: Op) -> None:
        """Add the cycles to load an operand, unless it is already in registers."""
        trace = self.trace
        sample = np.asarray(self.trace.samples[argument.id])
        root = trace.roots[argument.id]
        region = sample.__array_interface__["data"][0], sample.shape, sample.strides
        is_loaded = not sample.ndim or region in self.loaded
        is_product = op.kind == "product"
        self.loaded.add(region)
        if root in trace.regions:
            load_name = AGAIN if is_loaded else ""
            rate_name = OF_PRODUCT if is_product else load_name
        elif is_loaded or is_product or self.made.get(root) == self.loops:
            return
        else:
            rate_name = BEYOND
            if root in self.made and root not in self.written:
                self.written.add(root)
                sampled = np.asarray(trace.samples[root])
                self._spend("stores", op, BEYOND, dtype=sampled.dtype, n=sampled.size)
        self._spend("loads", op, rate_name, dtype=sample.dtype, n=sample.size)

    def _end_loop(self, op: Op, times: int = 1) -> None:
        self.loops += times
        self.loaded.clear()
        self._spend(STARTS, op, LOOP, dtype=np.dtype(np.float32), n=times)

    def _spend(
        self, counter: str, op: Op, name: str, dtype: np.dtype[Any], n: int, times: int = 1
    ) -> None:
        self._charge(counter, op, times * array_cycles(name, dtype, n, self.target))

    def _charge(self, counter: str, op: Op, units: int) -> None:
        if units:
            self.charges.append((counter, op, units))

    def _fused(self, op: Op) -> bool:
        """Return whether the chip has a single instruction for `op` and the product that it uses.

        The result is False unless `op` is a sum or difference, and one of its operands is a product
        that no other operation uses.
        """
        samples = self.trace.samples
        result_dtype = np.asarray(samples[op.result]).dtype
        if op.kind not in ("ufunc", "reduce") or _name(op) not in ("add", "subtract"):
            return False
        for argument in op.args:
            product = (
                self.products.get(argument.id)
                if isinstance(argument, Ref) and self.users[argument.id] == 1
                else None
            )
            if (
                product is not None
                and np.asarray(samples[product.result]).dtype == result_dtype
                and result_dtype.kind == "f"
            ):
                # The instructions for sums of products are f32v2mac and f16v4cmac.
                if op.kind == "reduce":
                    return True
                # The instructions for vectors, f32v2axpy and f16v4mix, multiply a vector by a
                # number. So one of the factors must be a number.
                if np.ndim(samples[op.result]):
                    return any(
                        np.ndim(samples[factor.id] if isinstance(factor, Ref) else factor) == 0
                        for factor in product.args
                    )
                # For single numbers, the only fused instruction is f32mac, for FLOAT.
                return bool(result_dtype.itemsize >= 4)
        return False

    @property
    def cycles(self) -> int:
        """The worker cycles of one vertex, including its start."""
        total = dict.fromkeys(COUNTERS, 0)
        for counter, _, units in self.charges:
            total[counter] += units
        *single, vector, loads, stores = total.values()
        units = sum(single) + together((vector, loads, stores), self.target)
        return VERTEX_OVERHEAD + int(_turns(units, UNIT))


def trace_cycles(trace: Trace, target: Target) -> int:
    """Return the worker cycles of one vertex, counted from the trace of its codelet."""
    return Tally(trace, target).cycles


def _name(op: Op) -> str:
    """Return the numpy name of an operation's function.

    A power with an exponent for which the chip has an instruction gets the name of this
    instruction, such as "square".
    """
    name = str(getattr(op.fn, "__name__", ""))
    if name not in ("pow", "power"):
        return name
    exponent = op.args[1]
    if isinstance(exponent, Ref) or np.ndim(exponent):
        return "power"
    return _POWERS.get(exponent, "power")


def together(beside: Sequence[Any], target: Target) -> Any:
    """Return the cycles of work on vectors, including the loads and stores.

    `beside` is (work, loads, stores), each a number of cycles or an expression. In code written by
    hand, the three overlap, and two loads are issued at once, so the result is the longest of the
    three. In compiled code, the three follow each other.
    """
    vec, loads, stores = beside
    by_hand = target.codelet_prices == BY_HAND
    return largest(vec, loads // 2, stores) if by_hand else vec + loads + stores


def piece_cycles(piece: PricedPiece, target: Target) -> int:
    """Return the cycles of a piece of a scalar loop, in units of 1/16 cycle.

    A piece is a part of the loop's code that contains no branch.
    """
    return sum(
        times * round(UNIT * single_cycles(name, np.dtype(kind if name and kind else "f4"), target))
        for (name, kind, _), times in piece
    )


def priced_for(codelet: type[Vertex], target: Target) -> Target:
    """Return `target` with the prices that apply to a codelet.

    Library codelets always have the prices of code written by hand.
    """
    return replace(target, codelet_prices=BY_HAND) if of_library(codelet) else target


def depends_on_data(group: Group) -> bool:
    """Return whether the cycles of the vertices of `group` depend on data."""
    if (
        group.scalar is None
        or not group.trace.stopped
        or group.estimator is not None
        or hasattr(group.table.codelet, "cycles")
    ):
        return False
    return bool(np.any(group.table.estimates[group.rows] < 0))


def launch_cycles(codelet: type[Vertex]) -> int:
    """Return a supervisor's tile cycles before and after its workers; 0 for an ordinary vertex."""
    return 0 if codelet.context == "worker" else SUPERVISOR_OVERHEAD


def of_library(codelet: type[Vertex]) -> bool:
    """Return whether a codelet, or the template that it comes from, is from the kit's libraries."""
    return any(base.__module__.startswith("ipu_teach.poplibs") for base in codelet.__mro__)


def column_of(group: Group, column: Array) -> Array:
    """Return the entries of a table column that belong to the vertices of `group`.

    If these are all entries, the column is not copied.
    """
    return column if len(group.rows) == len(column) else column[group.rows]


def vertex_cycles(group: Group, target: Target, measured: Array | None = None) -> Array:
    """Return the modelled cycles of each vertex of `group`, or `UNKNOWN` (-1): int64[vertices].

    If cycles depend on data, `measured` contains the worker cycles of each vertex in one execution;
    for a MultiVertex, they are those of the slowest worker times the number of workers.

    :raises InvalidPerfEstimateError: if an estimator, or the codelet's own `cycles`, fails or
        returns anything other than a number of cycles.
    """
    estimates = column_of(group, group.table.estimates)
    if np.all(estimates >= 0):
        return estimates
    codelet = group.table.codelet
    target = priced_for(codelet, target)
    start_cycles = launch_cycles(codelet)
    modelled: int | Array
    stated_cycles = said_cycles(
        codelet, group.estimator, group.shapes, target, vertex_name(group.table, int(group.rows[0]))
    )
    if stated_cycles is not None:
        modelled = stated_cycles
    elif measured is not None:
        modelled = (
            measured * target.num_worker_contexts if codelet.context == "supervisor" else measured
        )
        modelled = np.where(measured < 0, UNKNOWN, modelled + start_cycles)
    elif group.trace.stopped:
        modelled = UNKNOWN
    elif group.workers:
        # The vertex is done when its slowest worker is done. With n workers, each worker issues one
        # instruction in n tile cycles.
        modelled = (
            len(group.workers) * max(trace_cycles(trace, target) for _, trace in group.workers)
            + start_cycles
        )
    else:
        modelled = trace_cycles(group.trace, target)
        if codelet.context == "supervisor":
            # If a single worker does all the work, it issues an instruction only in every sixth
            # cycle of the tile.
            modelled = modelled * target.num_worker_contexts + start_cycles
    return np.where(estimates >= 0, estimates, modelled)
